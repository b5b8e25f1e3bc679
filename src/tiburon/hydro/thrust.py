"""How hard a propeller pushes for a command."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from tiburon.errors import DomainError
from tiburon.model.attachments import LinearThrust, QuadraticThrust, TableThrust, Thruster
from tiburon.spatial import Force, Scalar, Vec3
from tiburon.spatial.vec3 import add, cross, scale

__all__ = [
    "command_for",
    "thrust_form",
    "thrust_numbers",
    "thrust_of",
    "thrust_range",
    "thruster_wrench",
]


def thrust_of(
    thruster: Thruster, command: Scalar, numbers: Sequence[Scalar] | None = None
) -> Scalar:
    """Return the steady thrust for a command [N].

    The command is held within its limits, then follows the curve; the thrust is held within its
    own limits.

    Args:
        thruster: The thruster.
        command: In the unit of its curve.
        numbers: What stands for `thrust_numbers`; these themselves by default.
    """
    given = iter(thrust_numbers(thruster) if numbers is None else numbers)
    curve = thruster.curve
    u = _held(command, thruster.command_limits, given)
    if isinstance(curve, TableThrust):
        count = len(curve.commands)
        force = _table([next(given) for _ in range(count)], [next(given) for _ in range(count)], u)
    elif isinstance(curve, QuadraticThrust):
        u = _beyond(u, curve.dead_band, given)
        factor = next(given)
        if _backward(curve) != curve.forward:
            factor = np.where(u < 0.0, next(given), factor)
        force = factor * np.abs(u) * u
    else:
        u = _beyond(u, curve.dead_band, given)
        force = next(given) * u
    return _held(force, thruster.thrust_limits, given)


def thrust_numbers(thruster: Thruster) -> tuple[float, ...]:
    """Return the numbers that make thrust of commands, those that matter.

    Finite limits of the command; commands and forces of a table, or a dead band and factors;
    finite limits of the thrust.
    """
    curve = thruster.curve
    if isinstance(curve, TableThrust):
        law = (*curve.commands, *curve.forces)
    else:
        band = curve.dead_band if curve.dead_band[0] != curve.dead_band[1] else ()
        if isinstance(curve, QuadraticThrust):
            backward = _backward(curve)
            law = (*band, curve.forward, *((backward,) if backward != curve.forward else ()))
        else:
            assert isinstance(curve, LinearThrust)
            law = (*band, curve.gain)
    low, high = (
        [x for x in limits if math.isfinite(x)]
        for limits in (thruster.command_limits, thruster.thrust_limits)
    )
    return (*low, *law, *high)


def thrust_form(thruster: Thruster) -> tuple[object, ...]:
    """Return what code depends on of the way from command to thrust, beside its numbers."""
    curve = thruster.curve
    limits = (*thruster.command_limits, *thruster.thrust_limits)
    shape: tuple[object, ...] = ()
    if isinstance(curve, TableThrust):
        shape = (len(curve.commands),)
    else:
        shape = (curve.dead_band[0] != curve.dead_band[1],)
        if isinstance(curve, QuadraticThrust):
            shape = (*shape, _backward(curve) != curve.forward)
    return (type(curve).__name__, *shape, *map(math.isfinite, limits))


def _backward(curve: QuadraticThrust) -> float:
    return curve.forward if curve.backward is None else curve.backward


def thrust_range(thruster: Thruster) -> tuple[float, float]:
    """Return the smallest and the largest steady thrust [N], of commands and thrusts allowed."""
    low, high = thruster.command_limits
    curve, (least, most) = thruster.curve, thruster.thrust_limits
    if isinstance(curve, TableThrust):
        commands = [min(max(u, low), high) for u in curve.commands]
    else:
        commands = [u for u in (low, min(max(0.0, low), high), high) if math.isfinite(u)]
    reached = [float(thrust_of(thruster, u)) for u in commands]
    if not isinstance(curve, TableThrust):
        # a command without limit gives a thrust without limit
        endless = {1.0: math.isinf(high), -1.0: math.isinf(low)}
        for _, sign, factor, _ in _branches(curve):
            if endless[sign] and factor:
                reached.append(min(max(math.copysign(math.inf, factor * sign), least), most))
    return min(reached), max(reached)


def command_for(thruster: Thruster, thrust: float) -> float:
    """Return the command nearest zero that gives a steady thrust.

    Args:
        thruster: The thruster.
        thrust: Along its direction [N].

    Raises:
        DomainError: If no command gives this thrust.
    """
    curve, (low, high) = thruster.curve, thruster.command_limits
    found = [0.0, low, high]
    if isinstance(curve, TableThrust):
        for k in range(len(curve.commands) - 1):
            (u0, u1), (f0, f1) = curve.commands[k : k + 2], curve.forces[k : k + 2]
            share = (thrust - f0) / (f1 - f0) if f1 != f0 else 0.0
            found += [u0 + (u1 - u0) * share] if 0.0 <= share <= 1.0 else []
        found.append(curve.commands[-1])
    else:
        for edge, sign, factor, power in _branches(curve):
            size = thrust / (factor * sign) if factor else 0.0
            found += [edge + sign * size ** (1.0 / power)] if size > 0.0 else []
    # what solved an equation may miss a limit by rounding
    room = 1e-9 * max(1.0, abs(thrust))
    commands = [min(max(u, low), high) for u in found if math.isfinite(u)]
    commands = [u for u in commands if abs(float(thrust_of(thruster, u)) - thrust) <= room]
    if not commands:
        least, most = thrust_range(thruster)
        raise DomainError(
            f"thruster {thruster.name!r}", f"a thrust of {least:g} to {most:g} N", f"{thrust:g} N"
        )
    return min(commands, key=abs)


def _branches(
    curve: LinearThrust | QuadraticThrust,
) -> tuple[tuple[float, float, float, int], ...]:
    """Return edge of the dead band, sign, factor and power of commands above and below the band."""
    below, above = curve.dead_band
    if isinstance(curve, LinearThrust):
        return (above, 1.0, curve.gain, 1), (below, -1.0, curve.gain, 1)
    return (above, 1.0, curve.forward, 2), (below, -1.0, _backward(curve), 2)


def thruster_wrench(thruster: Thruster, thrust: Scalar) -> Force:
    """Return what a thruster does to its body, at the origin of the frame it is fixed to.

    Args:
        thruster: The thruster.
        thrust: Along its direction [N].
    """
    direction: Vec3 = thruster.direction
    moment = add(cross(thruster.position, direction), scale(direction, thruster.torque_ratio))
    return Force(scale(moment, thrust), scale(direction, thrust))


def _held(x: Scalar, limits: tuple[float, float], given: Iterator[Scalar]) -> Scalar:
    """Return x within limits, of which those that are finite are given."""
    low, high = limits
    x = x if math.isinf(low) else np.maximum(x, next(given))
    return x if math.isinf(high) else np.minimum(x, next(given))


def _beyond(u: Scalar, band: tuple[float, float], given: Iterator[Scalar]) -> Scalar:
    """Return how far a command lies beyond a dead band that holds zero; it is given if there."""
    if band[0] == band[1]:
        return u
    low, high = next(given), next(given)
    return np.minimum(u - low, 0.0) + np.maximum(u - high, 0.0)


def _table(commands: Sequence[Scalar], forces: Sequence[Scalar], u: Scalar) -> Scalar:
    """Read a table: straight lines between its rows, held beyond them."""
    total: Scalar = forces[0]
    for k in range(len(commands) - 1):
        begin, end = commands[k], commands[k + 1]
        share = np.minimum(np.maximum((u - begin) / (end - begin), 0.0), 1.0)
        total = total + (forces[k + 1] - forces[k]) * share
    return total
