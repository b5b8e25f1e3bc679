"""Conversions of states to and from the orders of other codes; none of them is imported.

Codes differ in the order of joints, in the order of variables within a joint, and in the axes of
velocities. Per joint the velocities of both are related by

    v_theirs = T(q) v_ours,

with T orthogonal: a permutation, a rotation of axes, or both. Hence forces transform like
velocities, and accelerations by

    a_theirs = T a_ours + Tdot v_ours.

Fossen (SNAME 1950): z down, linear part first.

    eta = [north, east, down; roll, pitch, yaw]    pose of the craft in the world
    nu  = [u, v, w; p, q, r]                       velocity of its origin, body axes
    tau = [X, Y, Z; K, M, N]                       force and moment at its origin, body axes

Body axes point forward, to the right (starboard) and down. This is the one place that converts
worlds and bodies with z down; all changes of axes are by right angles, so values only change
position and sign. R = Rz(yaw) Ry(pitch) Rx(roll) as for our roll, pitch and yaw.

MuJoCo lists joints depth first. A free body has q = [position, quaternion (w, x, y, z)] in the
world and v = [velocity of its origin in world axes, angular velocity in body axes]; its
acceleration is the derivative of that v, so its linear part is the acceleration of the origin, not
the spatial one. Joints with several degrees of freedom are several hinges and slides of one body.

Pinocchio lists joints depth first. Quaternions are (x, y, z, w) and follow positions; six-vectors
have the linear part first; velocities of a free joint are in body axes, as ours. A planar joint
holds (x, y, cos, sin), with its velocity in body axes; an unbounded revolute joint (cos, sin).
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import DomainError, ModelError, OptionError, ShapeError
from tiburon.model.body import WORLD
from tiburon.model.configuration import as_batch
from tiburon.model.joints import Joint
from tiburon.model.pose import Pose
from tiburon.record import named_line
from tiburon.spatial import (
    matrix_to_quaternion,
    quaternion_multiply,
    quaternion_rotate,
    quaternion_square,
    quaternion_to_roll_pitch_yaw,
    roll_pitch_yaw_to_quaternion,
)

if TYPE_CHECKING:
    from tiburon.model.model import Model

MIN_QUATERNION_LENGTH = 0.5
"""Quaternions shorter than this are rejected as a wrong slice."""


class JointMap:
    """Map of one joint's variables; the identity, unless a subclass differs."""

    needs_velocity = False
    """Whether accelerations depend on velocities."""

    def __init__(self, joint: Joint) -> None:
        self.joint = joint
        self.nq = joint.nq

    def q_to(self, q: Array) -> Array:
        """Return their positions, from ours, shape (..., nq of the joint)."""
        return q

    def q_from(self, q: Array) -> Array:
        """Return our positions, from theirs."""
        return q

    def turned(self, q: Array, x: Array) -> Array:
        """Return T x: velocities or forces of ours in their order and axes; q is ours."""
        return x

    def turned_back(self, q: Array, x: Array) -> Array:
        """Return T^T x: velocities or forces of theirs in our order and axes; q is ours."""
        return x

    def drift(self, q: Array, v: Array) -> Array:
        """Return Tdot v, both ours."""
        return np.zeros_like(v)


def depth_first(
    model: "Model", *, alphabetical: bool = False, followers: bool = False
) -> tuple[str, ...]:
    """Return the moving joints depth first, the order of most other codes.

    Args:
        model: The robot.
        alphabetical: Whether branches of a body go by the names of their joints, rather than in
            the order of the model's bodies.
        followers: Whether to include coupled joints, which have no variables here.
    """
    children: dict[str, list[int]] = {}
    for index, body in enumerate(model.bodies):
        children.setdefault(body.parent, []).append(index)

    def branches(parent: str) -> list[int]:
        found = children.get(parent, [])
        if alphabetical:
            found = sorted(found, key=lambda index: model.bodies[index].joint.name)
        return found[::-1]

    order: list[str] = []
    waiting = branches(WORLD)
    while waiting:
        body = model.bodies[waiting.pop()]
        if body.joint.nv > 0 or (followers and body.joint.follows is not None):
            order.append(body.joint.name)
        waiting.extend(branches(body.name))
    return tuple(order)


def joint_maps(
    model: "Model", joints: Iterable[str] | None, choose: Callable[[Joint], JointMap]
) -> list[JointMap]:
    """Return the maps of all moving joints, in the other code's order.

    Args:
        model: The robot.
        joints: Names of our moving joints in their order; depth first by default.
        choose: Returns the map of a joint, or raises.
    """
    names = depth_first(model) if joints is None else tuple(joints)
    if sorted(names) != sorted(model.moving_joint_names):
        missing = sorted(set(model.moving_joint_names).difference(names))
        extra = sorted(name for name in names if name not in model.moving_joint_names)
        raise ModelError(
            f"model {model.name!r}: joints must name every moving joint once, got "
            f"{len(names)} names for {len(model.moving_joint_names)} joints "
            f"(missing {missing}, unknown or fixed {extra}); model.moving_joint_names lists them"
        )
    return [choose(model.joint(name)) for name in names]


def no_counterpart(joint: Joint, code: str) -> ModelError:
    """Return the error for a joint that the other code does not have."""
    return ModelError(
        f"joint {joint.name!r}: a {joint.kind} joint has no counterpart in {code}; "
        "convert a model without it",
        name=joint.name,
    )


def world_pose(model: "Model", joint: Joint, code: str) -> Pose:
    """Return the joint frame of a free root in the world.

    Args:
        model: The robot.
        joint: A free joint.
        code: Name of the other code, whose free bodies all float in the world.
    """
    body = next(body for body in model.bodies if body.joint is joint)
    pose = joint.pose
    while body.parent != WORLD:
        body = model.body(body.parent)
        if not body.joint.is_rigid:
            raise ModelError(
                f"joint {joint.name!r}: a free joint must float in the world in {code}, got the "
                f"moving parent {body.name!r}; convert a model without it",
                name=joint.name,
            )
        pose = body.joint.pose @ pose
    return pose


def rotated(quaternion: Array, x: Array) -> Array:
    """Return vectors of body axes in world axes.

    Args:
        quaternion: (w, x, y, z), of any length, shape (..., 4).
        x: Shape (..., 3).
    """
    return _stack(quaternion_rotate(_columns(quaternion), _columns(x)))


def rotated_back(quaternion: Array, x: Array) -> Array:
    """Return vectors of world axes in body axes."""
    return rotated(quaternion * np.array([1.0, -1.0, -1.0, -1.0]), x)


def multiplied(p: Array, q: Array) -> Array:
    """Return the products of quaternions, shape (..., 4)."""
    return _stack(quaternion_multiply(_columns(p), _columns(q)))


def checked_quaternion(quaternion: Array, joint: Joint) -> Array:
    """Return the quaternions of a joint, or raise if one is too short."""
    length = float(np.sqrt(np.min(quaternion_square(_columns(quaternion)), initial=1.0)))
    if length < MIN_QUATERNION_LENGTH:
        raise DomainError(
            "q",
            f"a quaternion of joint {joint.name!r} with a length near 1, at least "
            f"{MIN_QUATERNION_LENGTH}",
            f"{length:.3g}",
            advice="check the order of the entries",
        )
    return quaternion


def _columns(x: Array) -> list[Any]:
    return list(np.moveaxis(x, -1, 0))


def _stack(columns: Iterable[Any]) -> Array:
    return np.stack(np.broadcast_arrays(*columns), axis=-1)


class JointValues(NamedTuple):
    """State of a robot's joints; None where not given."""

    q: Array
    """Positions [m or rad], shape (..., nq in that order)."""

    v: Array | None = None
    """Velocities [m/s or rad/s], shape (..., nv)."""

    acceleration: Array | None = None
    """Rates of the velocities [m/s^2 or rad/s^2], shape (..., nv)."""

    force: Array | None = None
    """Joint forces [N or N m], shape (..., nv)."""

    def __repr__(self) -> str:
        return named_line(self)


class Converter:
    """Converts the state of one robot, joint by joint."""

    def __init__(self, model: "Model", maps: Sequence[JointMap]) -> None:
        """Compute both layouts.

        Args:
            model: The robot.
            maps: One per moving joint, in the other code's order.
        """
        self.model = model
        self.maps = maps
        names = [m.joint.name for m in maps]
        self._q = [model.slice(name, of="q") for name in names]
        self._v = [model.slice(name, of="v") for name in names]
        self._their_q = _slices([m.nq for m in maps])
        self._their_v = _slices([m.joint.nv for m in maps])

    def to_theirs(
        self,
        q: ArrayLike,
        v: ArrayLike | None = None,
        acceleration: ArrayLike | None = None,
        force: ArrayLike | None = None,
    ) -> JointValues:
        """Convert our values to theirs; leading dimensions broadcast."""
        position = as_batch(q, self.model.nq, "q", self.model.describe_q())
        rate, rate_change, load = self._read(v, acceleration, force)
        ours = [position[..., s] for s in self._q]

        def turned(x: Array) -> Array:
            pieces = [
                m.turned(p, x[..., s]) for m, p, s in zip(self.maps, ours, self._v, strict=True)
            ]
            return _assembled(pieces, self._their_v, self.model.nv, x)

        theirs = [m.q_to(p) for m, p in zip(self.maps, ours, strict=True)]
        found = None
        if rate_change is not None:
            found = turned(rate_change)
            if rate is not None:
                found = found + self._drift(ours, rate)
        return JointValues(
            _assembled(theirs, self._their_q, sum(m.nq for m in self.maps), position),
            None if rate is None else turned(rate),
            found,
            None if load is None else turned(load),
        )

    def to_ours(
        self,
        q: ArrayLike,
        v: ArrayLike | None = None,
        acceleration: ArrayLike | None = None,
        force: ArrayLike | None = None,
    ) -> JointValues:
        """Convert their values to ours; leading dimensions broadcast."""
        count = sum(m.nq for m in self.maps)
        position = as_batch(q, count, "q", f"{count} (of {len(self.maps)} joints)")
        rate, rate_change, load = self._read(v, acceleration, force)
        ours = [m.q_from(position[..., s]) for m, s in zip(self.maps, self._their_q, strict=True)]

        def turned_back(x: Array) -> Array:
            pieces = [
                m.turned_back(p, x[..., s])
                for m, p, s in zip(self.maps, ours, self._their_v, strict=True)
            ]
            return _assembled(pieces, self._v, self.model.nv, x)

        our_rate = None if rate is None else turned_back(rate)
        found = None
        if rate_change is not None:
            if our_rate is not None:
                rate_change = rate_change - self._drift(ours, our_rate)
            found = turned_back(rate_change)
        return JointValues(
            _assembled(ours, self._q, self.model.nq, position),
            our_rate,
            found,
            None if load is None else turned_back(load),
        )

    def _drift(self, ours: Sequence[Array], rate: Array) -> Array:
        """Return Tdot v of the whole robot in their order, from our positions and velocity."""
        pieces = [
            m.drift(p, rate[..., s]) for m, p, s in zip(self.maps, ours, self._v, strict=True)
        ]
        return _assembled(pieces, self._their_v, self.model.nv, rate)

    def _read(
        self, v: ArrayLike | None, acceleration: ArrayLike | None, force: ArrayLike | None
    ) -> list[Array | None]:
        """Return the given ones of velocity, acceleration and force, with last dimension nv."""
        words = self.model.describe_v()
        given = {"v": v, "acceleration": acceleration, "force": force}
        if acceleration is not None and v is None:
            for m in self.maps:
                if m.needs_velocity:
                    raise ShapeError(
                        "v",
                        words,
                        "nothing",
                        advice=f"the acceleration of joint {m.joint.name!r} depends on it",
                    )
        return [
            None if value is None else as_batch(value, self.model.nv, name, words)
            for name, value in given.items()
        ]


def _slices(sizes: Sequence[int]) -> list[slice]:
    """Return consecutive slices of given sizes."""
    ends = np.cumsum([0, *sizes]).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]


def _assembled(pieces: Sequence[Array], places: Sequence[slice], size: int, given: Array) -> Array:
    """Concatenate the values of all joints; a robot without joints keeps the batch shape."""
    shape = np.broadcast_shapes(given.shape[:-1], *(piece.shape[:-1] for piece in pieces))
    whole = np.empty((*shape, size))
    for piece, place in zip(pieces, places, strict=True):
        whole[..., place] = piece
    return whole


_CONJUGATE = np.array([1.0, -1.0, -1.0, -1.0])

WORLD_AXES: dict[str, Array] = {
    "nwu": np.diag([1.0, -1.0, -1.0]),
    "enu": np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]]),
    "ned": np.eye(3),
}
"""North, east, down from our world axes, by name."""

BODY_AXES: dict[str, Array] = {"flu": np.diag([1.0, -1.0, -1.0]), "frd": np.eye(3)}
"""Forward, right, down from our body axes, by name."""


class _Craft(JointMap):
    """The free joint of the craft."""

    def __init__(self, joint: Joint, pose: Pose, world: Array, body: Array) -> None:
        """Prepare the changes of axes.

        Args:
            joint: A free joint on the world.
            pose: Its joint frame in the world.
            world: Rotation matrix from our world axes to north, east, down.
            body: Rotation matrix from our body axes to forward, right, down.
        """
        super().__init__(joint)
        self.nq = 6
        axes = world @ np.array(pose.rotation)
        self.turn = np.array(matrix_to_quaternion(axes), dtype=np.float64)
        self.origin = world @ np.array(pose.translation)
        self.body_turn = np.array(matrix_to_quaternion(body), dtype=np.float64)
        self.six = _six(body)

    def q_to(self, q: Array) -> Array:
        quaternion = checked_quaternion(q[..., :4], self.joint)
        position = rotated(self.turn, q[..., 4:]) + self.origin
        attitude = multiplied(multiplied(self.turn, quaternion), self.body_turn * _CONJUGATE)
        return np.concatenate([position, quaternion_to_roll_pitch_yaw(attitude)], axis=-1)

    def q_from(self, q: Array) -> Array:
        roll, pitch, yaw = np.moveaxis(q[..., 3:], -1, 0)
        attitude = np.stack(roll_pitch_yaw_to_quaternion(roll, pitch, yaw), axis=-1)
        quaternion = multiplied(multiplied(self.turn * _CONJUGATE, attitude), self.body_turn)
        position = rotated_back(self.turn, q[..., :3] - self.origin)
        return np.concatenate([quaternion, position], axis=-1)

    def turned(self, q: Array, x: Array) -> Array:
        return x @ self.six.T

    def turned_back(self, q: Array, x: Array) -> Array:
        return x @ self.six


def _six(body: Array) -> Array:
    """Return the matrix from [omega; v] in our axes to [v; omega] in theirs: orthogonal."""
    zero = np.zeros((3, 3))
    return np.block([[zero, body], [body, zero]])


def _axes(world: str, body: str) -> tuple[Array, Array]:
    """Return the changes of axes by name."""
    if world not in WORLD_AXES:
        raise OptionError("world_axes", tuple(WORLD_AXES), world)
    if body not in BODY_AXES:
        raise OptionError("body_axes", tuple(BODY_AXES), body)
    return WORLD_AXES[world], BODY_AXES[body]


def _fossen(
    model: "Model", joints: Iterable[str] | None, world_axes: str, body_axes: str
) -> Converter:
    world, body = _axes(world_axes, body_axes)
    crafts = [joint.name for joint in model.joints if joint.kind == "free"]
    if len(crafts) != 1:
        raise ModelError(
            f"model {model.name!r}: marine notation needs exactly one free joint, the craft's, "
            f"got {len(crafts)} ({', '.join(crafts) or 'none'}); convert a part of the model"
        )

    def choose(joint: Joint) -> JointMap:
        if joint.kind != "free":
            return JointMap(joint)
        return _Craft(joint, world_pose(model, joint, "marine notation"), world, body)

    return Converter(model, joint_maps(model, joints, choose))


@public
def to_fossen(
    model: "Model",
    q: ArrayLike,
    v: ArrayLike | None = None,
    *,
    acceleration: ArrayLike | None = None,
    force: ArrayLike | None = None,
    joints: Iterable[str] | None = None,
    world_axes: str = "nwu",
    body_axes: str = "flu",
) -> JointValues:
    """Convert the state of a craft, with or without arms, to marine notation.

    Args:
        model: The robot, with one free joint on the world: the craft.
        q: Position [m or rad], shape (..., nq).
        v: Velocity [m/s or rad/s], shape (..., nv).
        acceleration: Rate of v, shape (..., nv).
        force: Joint force [N or N m], shape (..., nv).
        joints: Our moving joints in the desired order; depth first by default.
        world_axes: Meaning of our world axes x, y, z: "nwu" (north, west, up), "enu" (east, north,
            up) or "ned" (north, east, down, as in marine notation).
        body_axes: Meaning of the craft's body axes: "flu" (forward, left, up) or "frd" (forward,
            right, down, as in marine notation).

    Returns:
        `q` = eta and the other joints' positions, shape (..., nq - 1); `v` = nu and their rates;
        `acceleration` = rates of these; `force` = tau and their forces; None where none was given.
        Angles lie between -pi and pi, pitch between -pi/2 and pi/2.

    Example:
        ``eta, nu, *_ = to_fossen(rov, q, v)``
    """
    converter = _fossen(model, joints, world_axes, body_axes)
    return converter.to_theirs(q, v, acceleration, force)


@public
def from_fossen(
    model: "Model",
    q: ArrayLike,
    v: ArrayLike | None = None,
    *,
    acceleration: ArrayLike | None = None,
    force: ArrayLike | None = None,
    joints: Iterable[str] | None = None,
    world_axes: str = "nwu",
    body_axes: str = "flu",
) -> JointValues:
    """Convert the state of a craft from marine notation; the inverse of `to_fossen`.

    Arguments are eta, nu, the rate of nu and tau, each followed by the other joints' values;
    options as for `to_fossen`.
    """
    converter = _fossen(model, joints, world_axes, body_axes)
    return converter.to_ours(q, v, acceleration, force)


@public
def six_vector_to_fossen(x: ArrayLike, *, body_axes: str = "flu") -> Array:
    """Convert a motion to nu or a wrench to tau: linear part first, z down; same origin.

    Args:
        x: [omega; v] or [n; f], shape (..., 6).
        body_axes: Meaning of our axes: "flu" or "frd".
    """
    _, body = _axes("nwu", body_axes)
    return as_batch(x, 6, "x", "6 (a motion or a wrench)") @ _six(body).T


@public
def six_vector_from_fossen(x: ArrayLike, *, body_axes: str = "flu") -> Array:
    """Convert nu to a motion or tau to a wrench; the inverse of `six_vector_to_fossen`."""
    _, body = _axes("nwu", body_axes)
    return as_batch(x, 6, "x", "6 (a motion or a wrench)") @ _six(body)


@public
def matrix_to_fossen(matrix: ArrayLike, *, body_axes: str = "flu") -> Array:
    """Convert an inertia, added-mass or damping matrix to marine order and axes.

    Args:
        matrix: Maps motions to wrenches, angular rows and columns first, shape (..., 6, 6).
        body_axes: Meaning of our axes: "flu" or "frd".
    """
    _, body = _axes("nwu", body_axes)
    T = _six(body)
    return T @ _matrix6(matrix) @ T.T


@public
def matrix_from_fossen(matrix: ArrayLike, *, body_axes: str = "flu") -> Array:
    """Convert an inertia, added-mass or damping matrix; the inverse of `matrix_to_fossen`.

    Example:
        ``tb.matrix_from_fossen(np.diag([8.0, 12.0, 15.0, 0.4, 0.6, 0.5]))``, surge to yaw
    """
    _, body = _axes("nwu", body_axes)
    T = _six(body)
    return T.T @ _matrix6(matrix) @ T


def _matrix6(matrix: ArrayLike) -> Array:
    M = as_batch(matrix, 6, "matrix", "6 x 6")
    if M.ndim < 2 or M.shape[-2] != 6:
        raise ShapeError("matrix", "6 x 6", f"shape {M.shape}")
    return M


_SAME = ("revolute", "prismatic", "cylindrical", "universal", "planar", "spherical")


class _MujocoFree(JointMap):
    """Pose in the world; linear velocity in world axes, angular in body axes."""

    needs_velocity = True

    def __init__(self, joint: Joint, pose: Pose) -> None:
        """Store the joint frame's pose in the world, which MuJoCo does not have.

        Args:
            joint: A free joint on the world.
            pose: Its joint frame in the world.
        """
        super().__init__(joint)
        self.placed = pose != Pose()
        self.turn = np.array(matrix_to_quaternion(pose.rotation), dtype=np.float64)
        self.origin = np.array(pose.translation)

    def q_to(self, q: Array) -> Array:
        quaternion, position = checked_quaternion(q[..., :4], self.joint), q[..., 4:]
        if self.placed:
            quaternion = multiplied(self.turn, quaternion)
            position = rotated(self.turn, position) + self.origin
        return np.concatenate([position, quaternion], axis=-1)

    def q_from(self, q: Array) -> Array:
        position, quaternion = q[..., :3], checked_quaternion(q[..., 3:], self.joint)
        if self.placed:
            quaternion = multiplied(self.turn * np.array([1.0, -1.0, -1.0, -1.0]), quaternion)
            position = rotated_back(self.turn, position - self.origin)
        return np.concatenate([quaternion, position], axis=-1)

    def turned(self, q: Array, x: Array) -> Array:
        linear = rotated(self._to_world(q), x[..., 3:])
        return _halves(linear, x[..., :3])

    def turned_back(self, q: Array, x: Array) -> Array:
        linear = rotated_back(self._to_world(q), x[..., :3])
        return _halves(x[..., 3:], linear)

    def drift(self, q: Array, v: Array) -> Array:
        # d(R v)/dt = R (vd + omega x v)
        linear = rotated(self._to_world(q), np.cross(v[..., :3], v[..., 3:]))
        return _halves(linear, np.zeros_like(linear))

    def _to_world(self, q: Array) -> Array:
        quaternion = checked_quaternion(q[..., :4], self.joint)
        return multiplied(self.turn, quaternion) if self.placed else quaternion


def _halves(first: Array, second: Array) -> Array:
    shape = np.broadcast_shapes(first.shape, second.shape)
    return np.concatenate([np.broadcast_to(first, shape), np.broadcast_to(second, shape)], axis=-1)


class _MujocoConverter:
    """Converts states to and from MuJoCo, where coupled joints have variables of their own."""

    def __init__(self, inner: Converter, names: Sequence[str]) -> None:
        """Find the places of independent and of coupled joints.

        Args:
            inner: Converts the independent joints, in the order of `names`.
            names: All moving joints in MuJoCo's order.
        """
        self.inner = inner
        maps = {m.joint.name: m for m in inner.maps}
        self.followers = [inner.model.joint(name) for name in names if name not in maps]
        self.places: dict[str, tuple[Array, list[int], list[int]]] = {}
        for kind, sizes in (
            ("q", {name: m.nq for name, m in maps.items()}),
            ("v", {name: m.joint.nv for name, m in maps.items()}),
        ):
            ends = _slices([sizes.get(name, 1) for name in names])
            where = dict(zip(names, ends, strict=True))
            own = [k for name in names if name in maps for k in range(*where[name].indices(10**9))]
            inside = dict(zip(maps, _slices(list(sizes.values())), strict=True))
            self.places[kind] = (
                np.array(own, dtype=np.intp),
                [where[joint.name].start for joint in self.followers],
                [inside[joint.follows or ""].start for joint in self.followers],
            )

    def to_theirs(
        self,
        q: ArrayLike,
        v: ArrayLike | None,
        acceleration: ArrayLike | None,
        force: ArrayLike | None,
    ) -> JointValues:
        """Convert our values to theirs; no force acts on coupled joints."""
        found = self.inner.to_theirs(q, v, acceleration, force)
        ratios = [float(getattr(joint, "ratio", 0.0)) for joint in self.followers]
        offsets = [float(getattr(joint, "offset", 0.0)) for joint in self.followers]

        def spread(
            x: Array | None, kind: str, scale: Sequence[float], shift: Sequence[float]
        ) -> Any:
            if x is None or not self.followers:
                return x
            own, theirs, leaders = self.places[kind]
            whole = np.empty((*x.shape[:-1], len(own) + len(theirs)))
            whole[..., own] = x
            whole[..., theirs] = np.array(scale) * x[..., leaders] + np.array(shift)
            return whole

        zero = [0.0] * len(ratios)
        return JointValues(
            spread(found.q, "q", ratios, offsets),
            spread(found.v, "v", ratios, zero),
            spread(found.acceleration, "v", ratios, zero),
            spread(found.force, "v", zero, zero),
        )

    def to_ours(
        self,
        q: ArrayLike,
        v: ArrayLike | None,
        acceleration: ArrayLike | None,
        force: ArrayLike | None,
    ) -> JointValues:
        """Convert their values to ours; forces on coupled joints act on their leaders."""
        if not self.followers:
            return self.inner.to_ours(q, v, acceleration, force)

        def kept(name: str, value: ArrayLike | None, kind: str) -> Any:
            if value is None:
                return None
            own, theirs, leaders = self.places[kind]
            count = len(own) + len(theirs)
            joints = len(self.inner.maps) + len(self.followers)
            x = as_batch(value, count, name, f"{count} (of {joints} joints)")
            found = x[..., own]
            if name == "force":
                for joint, place, leader in zip(self.followers, theirs, leaders, strict=True):
                    found[..., leader] += getattr(joint, "ratio", 0.0) * x[..., place]
            return found

        return self.inner.to_ours(
            kept("q", q, "q"),
            kept("v", v, "v"),
            kept("acceleration", acceleration, "v"),
            kept("force", force, "v"),
        )


def _mujoco(model: "Model", joints: Iterable[str] | None) -> _MujocoConverter:
    names = depth_first(model, followers=True) if joints is None else tuple(joints)
    coupled = {joint.name for joint in model.joints if joint.follows is not None}

    def choose(joint: Joint) -> JointMap:
        if joint.kind == "free":
            return _MujocoFree(joint, world_pose(model, joint, "MuJoCo"))
        if joint.kind in _SAME:
            return JointMap(joint)
        raise no_counterpart(joint, "MuJoCo")

    independent = [name for name in names if name not in coupled]
    return _MujocoConverter(Converter(model, joint_maps(model, independent, choose)), names)


@public
def to_mujoco(
    model: "Model",
    q: ArrayLike,
    v: ArrayLike | None = None,
    *,
    acceleration: ArrayLike | None = None,
    force: ArrayLike | None = None,
    joints: Iterable[str] | None = None,
) -> JointValues:
    """Convert the state of a robot to MuJoCo's qpos, qvel, qacc and qfrc.

    Joint offsets belong to the model, not to its positions, as here.

    Args:
        model: The robot; free joints on the world only.
        q: Position [m or rad], shape (..., nq).
        v: Velocity [m/s or rad/s], shape (..., nv).
        acceleration: Rate of v, shape (..., nv); that of a free joint also needs v.
        force: Joint force [N or N m], shape (..., nv).
        joints: Our moving joints in MuJoCo's order; by default depth first, branches in the order
            of our bodies. Coupled joints have variables in MuJoCo: all by default, else those
            that are named.

    Returns:
        `q`, `v`, `acceleration` and `force` in MuJoCo's order; None where none was given.

    Example:
        ``data.qpos, data.qvel, *_ = to_mujoco(dog, q, v)``
    """
    return _mujoco(model, joints).to_theirs(q, v, acceleration, force)


@public
def from_mujoco(
    model: "Model",
    q: ArrayLike,
    v: ArrayLike | None = None,
    *,
    acceleration: ArrayLike | None = None,
    force: ArrayLike | None = None,
    joints: Iterable[str] | None = None,
) -> JointValues:
    """Convert the state of a robot from MuJoCo; the inverse of `to_mujoco`.

    Arguments are MuJoCo's qpos, qvel, qacc and qfrc; `joints` as in `to_mujoco`.
    """
    return _mujoco(model, joints).to_ours(q, v, acceleration, force)


@public
def motion_to_mujoco(motion: ArrayLike, rotation: ArrayLike) -> Array:
    """Convert a frame velocity to that of `mj_objectVelocity`: [omega; v], world axes.

    Args:
        motion: [omega; v] at the frame's origin, frame axes [rad/s, m/s], shape (..., 6).
        rotation: From frame axes to world axes, shape (..., 3, 3).

    Returns:
        The same at the same point in world axes, shape (..., 6). In frame axes (``flg_local=1``)
        MuJoCo's values equal ours.
    """
    x, R = as_batch(motion, 6, "motion", "6 (a motion)"), _rotation(rotation)
    return _halves(_apply(R, x[..., :3]), _apply(R, x[..., 3:]))


@public
def motion_from_mujoco(motion: ArrayLike, rotation: ArrayLike) -> Array:
    """Convert a velocity of `mj_objectVelocity` in world axes; see `motion_to_mujoco`."""
    return motion_to_mujoco(motion, np.swapaxes(_rotation(rotation), -1, -2))


@public
def wrench_to_mujoco(
    wrench: ArrayLike, rotation: ArrayLike, com: ArrayLike = (0.0, 0.0, 0.0)
) -> Array:
    """Convert a wrench on a body to a row of `xfrc_applied`: [f; n], world axes, center of mass.

    Args:
        wrench: [n; f] at the frame's origin, frame axes [N m, N], shape (..., 6).
        rotation: From frame axes to world axes, shape (..., 3, 3).
        com: Center of mass of the body in the frame, where MuJoCo lets forces act [m],
            shape (..., 3).
    """
    x, R = as_batch(wrench, 6, "wrench", "6 (a wrench)"), _rotation(rotation)
    moment, force = x[..., :3], x[..., 3:]
    moment = moment - np.cross(as_batch(com, 3, "com", "3 (a point)"), force)
    return _halves(_apply(R, force), _apply(R, moment))


@public
def wrench_from_mujoco(
    wrench: ArrayLike, rotation: ArrayLike, com: ArrayLike = (0.0, 0.0, 0.0)
) -> Array:
    """Convert a row of `xfrc_applied` to a wrench at a frame; the inverse of `wrench_to_mujoco`."""
    x, R = as_batch(wrench, 6, "wrench", "6 (a wrench)"), _rotation(rotation)
    back = np.swapaxes(R, -1, -2)
    force, moment = _apply(back, x[..., :3]), _apply(back, x[..., 3:])
    return _halves(moment + np.cross(as_batch(com, 3, "com", "3 (a point)"), force), force)


def _rotation(rotation: ArrayLike) -> Array:
    R = as_batch(rotation, 3, "rotation", "3 x 3 (rotation matrices)")
    if R.ndim < 2 or R.shape[-2] != 3:
        raise ShapeError("rotation", "3 x 3 (rotation matrices)", f"shape {R.shape}")
    return R


def _apply(R: Array, x: Array) -> Array:
    product: Array = np.einsum("...ij,...j->...i", R, x)
    return product


_FREE_Q = [4, 5, 6, 1, 2, 3, 0]
_FREE_Q_BACK = [6, 3, 4, 5, 0, 1, 2]
_HALVES = [3, 4, 5, 0, 1, 2]


class _PinocchioFree(JointMap):
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
    "free": _PinocchioFree,
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


def _pinocchio(
    model: "Model", joints: "Iterable[str] | PinocchioModel | None", unbounded: str | Iterable[str]
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
    return _pinocchio(model, joints, unbounded).to_theirs(q, v, acceleration, force)


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
    return _pinocchio(model, joints, unbounded).to_ours(q, v, acceleration, force)


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
