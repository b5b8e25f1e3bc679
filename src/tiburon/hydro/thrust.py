"""Static thrust curves of propellers: thrust from command, and the inverse."""

import math
from collections.abc import Iterator

import numpy as np

from tiburon.errors import DomainError
from tiburon.model.attachments import LinearThrust, QuadraticThrust, TableThrust, Thruster
from tiburon.spatial import Force, Scalar, Scalars, Vec3
from tiburon.spatial.vec3 import add, cross, scale


def thrust_of(thruster: Thruster, command: Scalar, parameters: Scalars | None = None) -> Scalar:
    """Return the steady thrust for a command [N].

    The command saturates at its limits, then follows the curve; the thrust saturates at its own
    limits.

    Args:
        thruster: The thruster.
        command: Command in the unit of the curve.
        parameters: Values of `thrust_parameters`; those of the thruster by default.
    """
    given = iter(thrust_parameters(thruster) if parameters is None else parameters)
    curve = thruster.curve
    u = _saturated(command, thruster.command_limits, given)
    if isinstance(curve, TableThrust):
        count = len(curve.commands)
        force = _table([next(given) for _ in range(count)], [next(given) for _ in range(count)], u)
    elif isinstance(curve, QuadraticThrust):
        u = _outside_dead_band(u, curve.dead_band, given)
        factor = next(given)
        if _backward(curve) != curve.forward:
            factor = np.where(u < 0.0, next(given), factor)
        force = factor * np.abs(u) * u
    else:
        u = _outside_dead_band(u, curve.dead_band, given)
        force = next(given) * u
    return _saturated(force, thruster.thrust_limits, given)


def thrust_parameters(thruster: Thruster) -> tuple[float, ...]:
    """Return the parameters of the thrust curve that have an effect.

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


def thrust_structure(thruster: Thruster) -> tuple[object, ...]:
    """Return the structure of the thrust curve, on which compiled code depends."""
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
    """Return the smallest and largest steady thrust within command and thrust limits [N]."""
    low, high = thruster.command_limits
    curve, (least, most) = thruster.curve, thruster.thrust_limits
    if isinstance(curve, TableThrust):
        commands = [min(max(u, low), high) for u in curve.commands]
    else:
        commands = [u for u in (low, min(max(0.0, low), high), high) if math.isfinite(u)]
    reached = [float(thrust_of(thruster, u)) for u in commands]
    if not isinstance(curve, TableThrust):
        # an unlimited command gives unlimited thrust
        unlimited = {1.0: math.isinf(high), -1.0: math.isinf(low)}
        for _, sign, factor, _ in _branches(curve):
            if unlimited[sign] and factor:
                reached.append(min(max(math.copysign(math.inf, factor * sign), least), most))
    return min(reached), max(reached)


def command_for(thruster: Thruster, thrust: float) -> float:
    """Return the command of least magnitude that gives a steady thrust.

    Args:
        thruster: The thruster.
        thrust: Thrust along the thruster's direction [N].

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
    # solutions may exceed a limit by rounding
    tolerance = 1e-9 * max(1.0, abs(thrust))
    commands = [min(max(u, low), high) for u in found if math.isfinite(u)]
    commands = [u for u in commands if abs(float(thrust_of(thruster, u)) - thrust) <= tolerance]
    if not commands:
        least, most = thrust_range(thruster)
        raise DomainError(
            f"thruster {thruster.name!r}", f"a thrust of {least:g} to {most:g} N", f"{thrust:g} N"
        )
    return min(commands, key=abs)


def _branches(curve: LinearThrust | QuadraticThrust) -> tuple[tuple[float, float, float, int], ...]:
    """Return edge of the dead band, sign, factor and power of commands above and below the band."""
    below, above = curve.dead_band
    if isinstance(curve, LinearThrust):
        return (above, 1.0, curve.gain, 1), (below, -1.0, curve.gain, 1)
    return (above, 1.0, curve.forward, 2), (below, -1.0, _backward(curve), 2)


def thruster_wrench(thruster: Thruster, thrust: Scalar) -> Force:
    """Return the wrench of a thruster about the origin of its body frame.

    Args:
        thruster: The thruster.
        thrust: Thrust along the thruster's direction [N].
    """
    direction: Vec3 = thruster.direction
    moment = add(cross(thruster.position, direction), scale(direction, thruster.torque_ratio))
    return Force(scale(moment, thrust), scale(direction, thrust))


def _saturated(x: Scalar, limits: tuple[float, float], given: Iterator[Scalar]) -> Scalar:
    """Return x saturated at its finite limits, which are read from `given`."""
    low, high = limits
    x = x if math.isinf(low) else np.maximum(x, next(given))
    return x if math.isinf(high) else np.minimum(x, next(given))


def _outside_dead_band(u: Scalar, band: tuple[float, float], given: Iterator[Scalar]) -> Scalar:
    """Return the distance of a command from a dead band around zero, read from `given`."""
    if band[0] == band[1]:
        return u
    low, high = next(given), next(given)
    return np.minimum(u - low, 0.0) + np.maximum(u - high, 0.0)


def _table(commands: Scalars, forces: Scalars, u: Scalar) -> Scalar:
    """Interpolate a table linearly, constant beyond its ends."""
    total: Scalar = forces[0]
    for k in range(len(commands) - 1):
        begin, end = commands[k], commands[k + 1]
        share = np.minimum(np.maximum((u - begin) / (end - begin), 0.0), 1.0)
        total = total + (forces[k + 1] - forces[k]) * share
    return total
