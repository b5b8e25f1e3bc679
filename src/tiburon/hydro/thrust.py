"""How hard a propeller pushes for a command."""

import math

import numpy as np

from tiburon.model.thruster import LinearThrust, QuadraticThrust, TableThrust, Thruster
from tiburon.spatial import Force, Scalar, Vec3
from tiburon.spatial.vec3 import add, cross, scale

__all__ = ["thrust_of", "thruster_wrench"]


def thrust_of(thruster: Thruster, command: Scalar) -> Scalar:
    """Return the steady thrust for a command [N].

    The command is held within its limits, then follows the curve; the thrust is held within its
    own limits.

    Args:
        thruster: The thruster.
        command: In the unit of its curve.
    """
    u = _held(command, thruster.command_limits)
    curve = thruster.curve
    if isinstance(curve, TableThrust):
        force = _table(curve, u)
    elif isinstance(curve, QuadraticThrust):
        u = _beyond(u, curve.dead_band)
        backward = curve.forward if curve.backward is None else curve.backward
        factor: Scalar = curve.forward
        if backward != curve.forward:
            factor = np.where(u < 0.0, backward, curve.forward)
        force = factor * np.abs(u) * u
    else:
        assert isinstance(curve, LinearThrust)
        force = curve.gain * _beyond(u, curve.dead_band)
    return _held(force, thruster.thrust_limits)


def thruster_wrench(thruster: Thruster, thrust: Scalar) -> Force:
    """Return what a thruster does to its body, at the origin of the frame it is fixed to.

    Args:
        thruster: The thruster.
        thrust: Along its direction [N].
    """
    direction: Vec3 = thruster.direction
    moment = add(cross(thruster.position, direction), scale(direction, thruster.torque_ratio))
    return Force(scale(moment, thrust), scale(direction, thrust))


def _held(x: Scalar, limits: tuple[float, float]) -> Scalar:
    low, high = limits
    x = x if math.isinf(low) else np.maximum(x, low)
    return x if math.isinf(high) else np.minimum(x, high)


def _beyond(u: Scalar, band: tuple[float, float]) -> Scalar:
    """Return how far a command lies beyond a dead band that holds zero."""
    low, high = band
    if low == high:
        return u
    return np.minimum(u - low, 0.0) + np.maximum(u - high, 0.0)


def _table(curve: TableThrust, u: Scalar) -> Scalar:
    """Read a table: straight lines between its rows, held beyond them."""
    commands, forces = curve.commands, curve.forces
    total: Scalar = forces[0]
    for k in range(len(commands) - 1):
        begin, end = commands[k], commands[k + 1]
        share = np.minimum(np.maximum((u - begin) / (end - begin), 0.0), 1.0)
        total = total + (forces[k + 1] - forces[k]) * share
    return total
