"""State order of Pinocchio.

Joints are listed depth first. Quaternions are (x, y, z, w) and follow positions; six-vectors have
the linear part first; velocities of a free joint are in body axes, as ours. A planar joint holds
(x, y, cos, sin), with its velocity in body axes; an unbounded revolute joint holds (cos, sin).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import ModelError
from tiburon.model.configuration import as_batch
from tiburon.model.conversions.converter import Converter, JointValues
from tiburon.model.conversions.joint_map import JointMap, depth_first, joint_maps, no_counterpart
from tiburon.model.joints import Joint

if TYPE_CHECKING:
    from tiburon.model.model import Model

Array = NDArray[np.float64]

_FREE_Q = [4, 5, 6, 1, 2, 3, 0]
_FREE_Q_BACK = [6, 3, 4, 5, 0, 1, 2]
_HALVES = [3, 4, 5, 0, 1, 2]


class _Free(JointMap):
    """[p; x, y, z, w] and [v; omega]."""

    def q_to(self, q: Array) -> Array:
        return q[..., _FREE_Q]

    def q_from(self, q: Array) -> Array:
        return q[..., _FREE_Q_BACK]

    def turned(self, q: Array, x: Array) -> Array:
        return x[..., _HALVES]

    def turned_back(self, q: Array, x: Array) -> Array:
        return x[..., _HALVES]


class _Spherical(JointMap):
    """(x, y, z, w); angular velocity in body axes, as ours."""

    def q_to(self, q: Array) -> Array:
        return q[..., [1, 2, 3, 0]]

    def q_from(self, q: Array) -> Array:
        return q[..., [3, 0, 1, 2]]


class _Planar(JointMap):
    """(x, y, cos, sin); velocity in body axes."""

    needs_velocity = True

    def __init__(self, joint: Joint) -> None:
        super().__init__(joint)
        self.nq = 4

    def q_to(self, q: Array) -> Array:
        x, y, angle = np.moveaxis(q, -1, 0)
        return np.stack([x, y, np.cos(angle), np.sin(angle)], axis=-1)

    def q_from(self, q: Array) -> Array:
        x, y, cosine, sine = np.moveaxis(q, -1, 0)
        return np.stack([x, y, np.arctan2(sine, cosine)], axis=-1)

    def turned(self, q: Array, x: Array) -> Array:
        return _turned_in_plane(-q[..., 2], x)

    def turned_back(self, q: Array, x: Array) -> Array:
        return _turned_in_plane(q[..., 2], x)

    def drift(self, q: Array, v: Array) -> Array:
        # d/dt of R(-angle) u is -rate times u rotated by a quarter turn
        first, second, _ = np.moveaxis(self.turned(q, v), -1, 0)
        rate = v[..., 2]
        return np.stack([rate * second, -rate * first, np.zeros_like(first)], axis=-1)


class _Unbounded(JointMap):
    """(cos, sin) of the angle."""

    def __init__(self, joint: Joint) -> None:
        super().__init__(joint)
        self.nq = 2

    def q_to(self, q: Array) -> Array:
        return np.concatenate([np.cos(q), np.sin(q)], axis=-1)

    def q_from(self, q: Array) -> Array:
        return np.arctan2(q[..., 1:], q[..., :1])


def _turned_in_plane(angle: Array, x: Array) -> Array:
    """Rotate the first two of three components by an angle [rad], shape (..., 3)."""
    c, s = np.cos(angle), np.sin(angle)
    first, second, third = np.moveaxis(x, -1, 0)
    turned = np.broadcast_arrays(c * first - s * second, s * first + c * second, third)
    return np.stack(turned, axis=-1)


_MAPS: dict[str, type[JointMap]] = {
    "revolute": JointMap,
    "prismatic": JointMap,
    "screw": JointMap,
    "cylindrical": JointMap,
    "universal": JointMap,
    "spherical": _Spherical,
    "planar": _Planar,
    "free": _Free,
}


class PinocchioModel(Protocol):
    """Attributes of a Pinocchio model that are read."""

    names: Iterable[str]
    nqs: Iterable[int]
    nvs: Iterable[int]


def _read(model: "Model", theirs: PinocchioModel) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return our names of the joints of a Pinocchio model, and of its unbounded ones.

    Its reader names the floating base joint itself: it is our only free joint that it does not
    name.
    """
    # the first joint is the universe
    sizes = list(zip(theirs.names, theirs.nqs, theirs.nvs, strict=True))[1:]
    known = {name for name, *_ in sizes}
    ours = [j.name for j in model.joints if j.kind == "free" and j.name not in known]
    bases = [name for name, nq, _ in sizes if nq == 7 and name not in model.joint_names]
    if len(ours) == len(bases) == 1:
        sizes = [(ours[0] if name == bases[0] else name, nq, nv) for name, nq, nv in sizes]
    turning = tuple(name for name, nq, nv in sizes if (nq, nv) == (2, 1))
    return tuple(name for name, *_ in sizes), turning


def _sure_order(model: "Model") -> tuple[str, ...]:
    """Return the joints depth first, if that order is unambiguous."""
    own, sorted_by_name = depth_first(model), depth_first(model, alphabetical=True)
    if own != sorted_by_name:
        first = next(k for k, name in enumerate(own) if name != sorted_by_name[k])
        raise ModelError(
            f"model {model.name!r}: the order of joints in Pinocchio is not known, expected "
            f"branches in alphabetical order of their joints, got {own[first]!r} before "
            f"{sorted_by_name[first]!r}, which Pinocchio's reader of URDF files sorts; pass "
            "joints=pinocchio_model, or joints=[...] with the names in its order",
            name=own[first],
        )
    return own


def _converter(
    model: "Model",
    joints: "Iterable[str] | PinocchioModel | None",
    unbounded: str | Iterable[str],
) -> Converter:
    turning = (unbounded,) if isinstance(unbounded, str) else tuple(unbounded)
    if joints is None:
        names = _sure_order(model)
    elif hasattr(joints, "nqs"):
        names, found = _read(model, cast(PinocchioModel, joints))
        turning = tuple(dict.fromkeys((*turning, *found)))
    else:
        names = tuple(joints)
    for name in turning:
        joint = model.joint(name)
        if joint.kind != "revolute":
            raise ModelError(
                f"joint {name!r}: only a revolute joint can be unbounded, got a {joint.kind} "
                "joint; leave it out",
                name=name,
            )

    def choose(joint: Joint) -> JointMap:
        if joint.name in turning:
            return _Unbounded(joint)
        if joint.kind not in _MAPS:
            raise no_counterpart(joint, "Pinocchio")
        return _MAPS[joint.kind](joint)

    return Converter(model, joint_maps(model, names, choose))


@public
def to_pinocchio(
    model: "Model",
    q: ArrayLike,
    v: ArrayLike | None = None,
    *,
    acceleration: ArrayLike | None = None,
    force: ArrayLike | None = None,
    joints: "Iterable[str] | PinocchioModel | None" = None,
    unbounded: str | Iterable[str] = (),
) -> JointValues:
    """Convert the state of a robot to Pinocchio's order.

    Joint offsets belong to the model, not to its positions, as here.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Velocity [m/s or rad/s], shape (..., nv).
        acceleration: Rate of v, shape (..., nv); a planar joint's also needs v.
        force: Joint force [N or N m], shape (..., nv).
        joints: Pinocchio's model of the same robot, whose order, unbounded joints and floating base
            are then read from it; or our moving joints in its order. By default depth first, which
            is rejected where branches are not in alphabetical order of their joints: Pinocchio
            sorts them when it reads a URDF file, and not when a model is built by hand.
        unbounded: Names of revolute joints that Pinocchio stores as cosine and sine, such as
            continuous joints of URDF files.

    Returns:
        `q`, `v`, `acceleration` and `force` in Pinocchio's order; None where none was given.

    Raises:
        ModelError: If the order of joints is not known, or names do not agree.

    Example:
        ``q_pin, v_pin, *_ = to_pinocchio(dog, q, v, joints=pinocchio_model)``
    """
    return _converter(model, joints, unbounded).to_theirs(q, v, acceleration, force)


@public
def from_pinocchio(
    model: "Model",
    q: ArrayLike,
    v: ArrayLike | None = None,
    *,
    acceleration: ArrayLike | None = None,
    force: ArrayLike | None = None,
    joints: "Iterable[str] | PinocchioModel | None" = None,
    unbounded: str | Iterable[str] = (),
) -> JointValues:
    """Convert the state of a robot from Pinocchio; the inverse of `to_pinocchio`.

    Angles that Pinocchio stores as cosine and sine are returned between -pi and pi. Arguments are
    Pinocchio's values; `joints` and `unbounded` as in `to_pinocchio`.
    """
    return _converter(model, joints, unbounded).to_ours(q, v, acceleration, force)


@public
def six_vector_to_pinocchio(x: ArrayLike) -> Array:
    """Reorder a motion or wrench to linear part first; same frame.

    Args:
        x: [omega; v] or [n; f], shape (..., 6).

    Returns:
        [v; omega] or [f; n], as `Motion.vector` and `Force.vector` of Pinocchio, shape (..., 6).
    """
    return as_batch(x, 6, "x", "6 (a motion or a wrench)")[..., _HALVES]


@public
def six_vector_from_pinocchio(x: ArrayLike) -> Array:
    """Reorder a motion or wrench to angular part first; same frame."""
    return six_vector_to_pinocchio(x)
