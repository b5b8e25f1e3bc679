"""Units of positions and velocities, by coordinate."""

from tiburon.model import Model
from tiburon.model.joints import Driven, Joint

__all__ = ["position_units", "velocity_units"]

_BY_END = {
    "qw": "1",
    "qx": "1",
    "qy": "1",
    "qz": "1",
    "x": "m",
    "y": "m",
    "z": "m",
    "slide": "m",
    "vx": "m/s",
    "vy": "m/s",
    "vz": "m/s",
}
"""Units of coordinates whose names say what they are; angles make up the rest."""

SLIDING = frozenset({"prismatic"})
"""Kinds of joints of one freedom that slide."""


def position_units(model: Model) -> tuple[str, ...]:
    """Return the unit of each of the nq position variables: "rad", "m", or "1" for quaternions."""
    joints = [_carried(body.joint) for body in model.bodies]
    return tuple(_position_unit(joint, name) for joint in joints for name in joint.q_names())


def velocity_units(model: Model) -> tuple[str, ...]:
    """Return the unit of each of the nv velocity variables: "rad/s" or "m/s"."""
    joints = [_carried(body.joint) for body in model.bodies]
    return tuple(_velocity_unit(joint, name) for joint in joints for name in joint.v_names())


def _carried(joint: Joint) -> Joint:
    """Return the joint whose coordinates are those of a joint."""
    return joint.carried if isinstance(joint, Driven) else joint


def _position_unit(joint: Joint, name: str) -> str:
    end = _end(joint, name)
    if end is None:
        return "m" if joint.kind in SLIDING else "rad"
    return _BY_END.get(end, "rad")


def _velocity_unit(joint: Joint, name: str) -> str:
    end = _end(joint, name)
    if end is None:
        return "m/s" if joint.kind in SLIDING else "rad/s"
    unit = _BY_END.get(end, "rad/s")
    return unit if unit != "m" else "m/s"


def _end(joint: Joint, name: str) -> str | None:
    """Return what follows the name of a joint in that of a coordinate."""
    return None if name == joint.name else name.rpartition(".")[2]
