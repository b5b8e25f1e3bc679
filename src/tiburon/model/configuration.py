"""Configurations, velocities, limits and joint forces of a whole model as arrays.

A joint's functions work elementwise on scalars, so a batch is evaluated by passing columns.

Dynamics takes one force per velocity variable. Floating bases and passive joints are not actuated:
the selection matrix of the actuated joints maps their forces to the whole robot, with zeros
elsewhere (the matrix P of Nahon 1991, eq. 3.31).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from tiburon.argument_checks import is_whole, refuse_unusable
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike, NDArray
from tiburon.errors import DomainError, ModelError, NonFiniteError, ShapeError, shown
from tiburon.model.joints import Joint
from tiburon.model.joints.coupled import Coupled
from tiburon.model.parts import NamedParts
from tiburon.model.plan import RunTime
from tiburon.spatial import Scalars
from tiburon.trace.array import TracedArray, as_traced
from tiburon.trace.program import current_graph


def neutral(joints: Sequence[Joint]) -> Array:
    """Return the neutral configuration, shape (nq,)."""
    return np.array([x for joint in joints for x in joint.neutral()], dtype=np.float64)


def random_state(
    joints: Sequence[Joint],
    rng: "np.random.Generator",
    shape: tuple[int, ...],
    *,
    limits: bool = True,
) -> tuple[Array, Array]:
    """Return random positions and velocities.

    Args:
        joints: In the order of the model.
        rng: Source of randomness.
        shape: Leading (batch) dimensions.
        limits: Whether to stay within the limits of the joints.

    Returns:
        q with shape (..., nq) and v with shape (..., nv), velocities standard normal; those beyond
        a speed limit are drawn again, uniform within it.
    """
    nq = sum(joint.nq for joint in joints)
    nv = sum(joint.nv for joint in joints)
    count = int(np.prod(shape, dtype=np.int64))
    reaches = [joint.reach for joint in joints if joint.nq]
    if all(reaches):
        # the same numbers as one by one
        q = rng.uniform(np.negative(reaches), reaches, (count, nq))
    else:
        rows = [[x for joint in joints for x in joint.random(rng)] for _ in range(count)]
        q = np.array(rows, dtype=np.float64)
    q, v = q.reshape(*shape, nq), rng.standard_normal((*shape, nv))
    if limits and any(joint.limits is not None for joint in joints):
        q = within_limits(q, position_limits(joints), rng)
        fastest = velocity_limits(joints)
        # infinite limits need no second draw
        again = rng.uniform(-1.0, 1.0, v.shape) * np.where(np.isfinite(fastest), fastest, 0.0)
        v = np.where(np.abs(v) > fastest, again, v)
    return q, v


def as_batch(value: ArrayLike, size: int, argument: str, expected: str) -> Array:
    """Return finite float64 values with the given last dimension."""
    refuse_unusable(argument, value)
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ShapeError(
            argument, expected, f"{value!r}", advice="pass plain numbers of equal lengths"
        ) from error
    if array.ndim == 0 or array.shape[-1] != size:
        given = array.shape[-1] if array.ndim == 1 else f"shape {array.shape}"
        raise ShapeError(argument, expected, given, advice="batch dimensions lead")
    finite = np.isfinite(array)
    if not finite.all():
        index = tuple(np.argwhere(~finite)[0].tolist())
        bad = float(array[index])
        raise NonFiniteError(argument, index[0] if array.ndim == 1 else index, bad)
    return array


def over_joints(
    joints: Sequence[Joint], function: Callable[..., Scalars], *arguments: tuple[Array, str]
) -> Array:
    """Apply a function of one joint to all joints of a batch, or of one traced state.

    Args:
        joints: In the order of the model.
        function: Takes a joint and its slices; returns the joint's values.
        arguments: Arrays, each with "q" or "v" for how it is sliced.

    Raises:
        DomainError: If a quaternion has length zero.
    """
    shape = np.broadcast_shapes(*(array.shape[:-1] for array, _ in arguments))
    traced = any(isinstance(array, TracedArray) for array, _ in arguments)
    if traced and shape:
        raise ShapeError("q", "one state in a traced function", f"shape {shape} of states")
    columns: list[Any] = []
    start = {"q": 0, "v": 0}
    for joint in joints:
        size = {"q": joint.nq, "v": joint.nv}
        slices = [[array[..., start[of] + i] for i in range(size[of])] for array, of in arguments]
        # non-finite results are reported below, by name
        with np.errstate(divide="ignore", invalid="ignore"):
            values = function(joint, *slices)
        if not traced and not all(np.isfinite(x).all() for x in values):
            raise DomainError(
                f"position of joint {joint.name!r}",
                "a quaternion with a length near 1",
                "a zero quaternion",
                advice="check the order of the entries; model.q_names lists them",
            )
        columns.extend(values if traced else (np.broadcast_to(x, shape) for x in values))
        start["q"] += joint.nq
        start["v"] += joint.nv
    if traced:
        return as_traced(columns)
    if not columns:
        return np.zeros((*shape, 0))
    return np.stack(columns, axis=-1).astype(np.float64, copy=False)


@public
class StateSpace(NamedParts):
    """The state space of a robot: configurations q and velocities v of its joints."""

    __slots__ = ("run_time",)

    run_time: RunTime
    """Parts whose parameters, zeros included, are all run-time parameters; none by default."""

    def at_run_time(self, run_time: RunTime) -> Self:
        """Return the same robot with all parameters of some parts as run-time parameters.

        It compares equal to this one, but has its own kernels.
        """
        if run_time == self.run_time:
            return self
        found = object.__new__(type(self))
        slots = [name for cls in type(self).__mro__ for name in getattr(cls, "__slots__", ())]
        for name in slots:
            object.__setattr__(found, name, getattr(self, name))
        object.__setattr__(found, "run_time", run_time)
        object.__setattr__(found, "_plan", None)
        object.__setattr__(found, "derived", {})
        return found

    @classmethod
    def _arrived(cls, *parts: Any) -> Any:
        """Rebuild a pickled robot; `run_time` is the last of the parts."""
        *given, run_time = parts
        return cls._of(*given).at_run_time(run_time)  # type: ignore[attr-defined]

    @public
    def neutral(self) -> Array:
        """Return the neutral configuration, shape (nq,)."""
        return neutral(self.joints)

    @public
    def random_state(
        self,
        rng: "np.random.Generator | int | None" = None,
        shape: tuple[int, ...] = (),
        *,
        limits: bool = True,
    ) -> tuple[Array, Array]:
        """Return random positions and velocities, within the limits of the joints.

        Positions are uniform between limits; unlimited orientations are uniform. Loops are not
        closed: see `assemble`.

        Args:
            rng: NumPy generator, or a seed for a new one.
            shape: Leading (batch) dimensions.
            limits: Whether to stay within the position and speed limits of the joints.

        Returns:
            q, shape (..., nq); v, shape (..., nv), standard normal, or uniform within the speed
            limit of a joint that this would exceed.
        """
        from numpy import random

        sources = (random.Generator, random.BitGenerator, random.SeedSequence, random.RandomState)
        if not (rng is None or is_whole(rng) or isinstance(rng, sources)):
            # NumPy descends into nested lists without end
            raise DomainError("rng", "a NumPy generator, or a whole number as seed", shown(rng))
        return random_state(self.joints, random.default_rng(rng), shape, limits=limits)

    @public
    def integrate(self, q: ArrayLike, dv: ArrayLike) -> Array:
        """Return the configuration after a step of constant joint velocity.

        Args:
            q: Position, shape (..., nq).
            dv: Velocity times duration, shape (..., nv).

        Returns:
            Position, shape (..., nq); free bodies follow the screw of their body velocity.

        Inside a function given to `tiburon.compile` both may be traced, one state at a time; so may
        the arguments of `difference` and `displacement`.
        """
        return over_joints(
            self.joints,
            lambda joint, x, dx: joint.integrate(x, dx),
            (self._q("q", q), "q"),
            (_checked(dv, self.nv, "dv", self.describe_v()), "v"),
        )

    @public
    def difference(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        """Return the step dv with integrate(q0, dv) = q1, shape (..., nv).

        Free bodies rotate by at most pi; revolute angles are subtracted without wrapping. A rolling
        sphere reaches its orientation only: see `displacement`.
        """
        return over_joints(
            self.joints,
            lambda joint, a, b: joint.difference(a, b),
            (self._q("q0", q0), "q"),
            (self._q("q1", q1), "q"),
        )

    @public
    def displacement(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        """Return the displacement from q0 to q1, one entry per position degree of freedom.

        The same as `difference`, shape (..., nv), except for rolling spheres, which add the shift
        of their center: rolling constrains velocities but not positions.
        """
        return over_joints(
            self.joints,
            lambda joint, a, b: joint.displacement(a, b),
            (self._q("q0", q0), "q"),
            (self._q("q1", q1), "q"),
        )

    @public
    def normalize(self, q: ArrayLike) -> Array:
        """Return the same position with quaternions of length 1, shape (..., nq)."""
        return over_joints(self.joints, lambda joint, x: joint.normalize(x), (self._q("q", q), "q"))

    @public
    def joint_array(self, values: Mapping[str, ArrayLike], *, of: str = "q") -> Array:
        """Return q or v of the whole robot from values by joint name; `by_joint` is the inverse.

        Inside a function passed to `tiburon.compile` the values may be traced.

        Args:
            values: By joint name, shape (..., nq or nv of the joint), or a scalar for a joint with
                one variable; leading dimensions broadcast. Other joints are neutral or at rest.
            of: "q" for positions [m or rad], "v" for velocities, accelerations and forces.

        Returns:
            Shape (..., nq) or (..., nv).

        Example:
            ``forward_kinematics(arm, arm.joint_array({"elbow": 0.5}))``
        """
        if not isinstance(values, Mapping):
            raise ShapeError("values", "values by joint name", shown(values))
        return spread(self, values, (), of=of, argument="values")

    @public
    def by_joint(self, values: ArrayLike, *, of: str = "q") -> dict[str, Array]:
        """Return values by joint name, of all joints that move.

        Args:
            values: Shape (..., nq) or (..., nv).
            of: "q" for positions [m or rad], "v" for velocities, accelerations and forces.

        Returns:
            In the order of the joints, shape (..., nq or nv of the joint); views of an array.

        Example:
            ``arm.by_joint(forward_dynamics(arm, q, v, tau), of="v")["elbow"]``
        """
        places = {name: self.slice(name, of=of) for name in self.moving_joint_names}
        words = self.describe_q() if of == "q" else self.describe_v()
        array = _checked(values, self.nq if of == "q" else self.nv, "values", words)
        return {name: array[..., place] for name, place in places.items()}

    def _q(self, argument: str, value: ArrayLike) -> Array:
        return _checked(value, self.nq, argument, self.describe_q())


Given = Mapping[str, tuple[ArrayLike, ArrayLike]]
"""By joint name, the lowest and highest position [m or rad]."""


class PositionLimits(NamedTuple):
    """Bounds of the position variables of a robot; infinity for no limit."""

    lower: Array
    """Smallest values [m or rad], shape (nq,)."""

    upper: Array
    """Largest values [m or rad], shape (nq,)."""

    turns: tuple[tuple[int, float], ...]
    """For each joint with a quaternion and limited rotation: index of the quaternion in q, and the
    largest rotation angle [rad]."""


def position_limits(joints: Sequence[Joint], given: Given | None = None) -> PositionLimits:
    """Return the limits of all position variables.

    The limits of a coupled joint bound the variable of its leader.

    Args:
        joints: In the order of the model.
        given: Limits that replace those of the joints, by name.

    Raises:
        ModelError: If limits are given for a joint with a quaternion, or if those of a leader and
            its coupled joints exclude each other.
        DomainError: If a lowest position is not below the highest.
    """
    given = {} if given is None else given
    size = sum(joint.nq for joint in joints)
    lower, upper = np.full(size, -math.inf), np.full(size, math.inf)
    turns: list[tuple[int, float]] = []
    places, start = {}, 0
    for joint in joints:
        places[joint.name] = slice(start, start + joint.nq)
        start += joint.nq
    for joint in joints:
        ends = _ends(joint, given)
        if ends is None:
            continue
        if isinstance(joint, Coupled):
            if joint.ratio == 0.0:
                continue
            low, high = np.sort((np.array(ends) - joint.offset) / joint.ratio, axis=0)
            place = places[joint.leader]
        else:
            (low, high), place = ends, places[joint.name]
            if joint.nq != joint.nv:
                names = [name.rpartition(".")[2] for name in joint.q_names()]
                # joints without a quaternion have no total rotation angle
                if "qw" in names:
                    most = max(0.0, float(np.min(high)))
                    turns.append((place.start + names.index("qw"), most))
                continue
        lower[place], upper[place] = np.maximum(lower[place], low), np.minimum(upper[place], high)
        if np.any(lower[place] > upper[place]):
            raise ModelError(
                f"joint {joint.name!r}: expected limits compatible with those of its leader, got "
                f"{lower[place][0]:g} to {upper[place][0]:g} for the leader; correct one of them",
                name=joint.name,
            )
    return PositionLimits(lower, upper, tuple(x for x in turns if x[1] < math.pi))


def _ends(joint: Joint, given: Given) -> tuple[Array, Array] | None:
    """Return the position limits of each degree of freedom; None without limits."""
    name, count = joint.name, joint.dof
    if name in given:
        if joint.follows is None and joint.nq != joint.nv:
            raise ModelError(
                f"joint {name!r}: limits need one position per velocity variable, got a "
                f"{joint.kind} joint with {joint.nq} and {joint.nv}; leave it out of limits",
                name=name,
            )
        refuse_unusable(f"limits[{name!r}]", given[name])
        try:
            least, most = given[name]
            low, high = (
                np.broadcast_to(np.asarray(x, dtype=np.float64), (count,)) for x in (least, most)
            )
        except (TypeError, ValueError) as error:
            raise ShapeError(
                f"limits[{name!r}]",
                f"a pair of lowest and highest position, scalars or {count} values each",
                f"{given[name]!r:.80}",
            ) from error
        if not np.all(low <= high):
            raise DomainError(f"limits[{name!r}]", "lowest before highest", f"{(least, most)!r}")
        return low, high
    if joint.limits is None or count == 0:
        return None
    low, high = (
        np.broadcast_to(np.asarray(x, dtype=np.float64), (count,))
        for x in (joint.limits.lower, joint.limits.upper)
    )
    return low, high


def velocity_limits(joints: Sequence[Joint]) -> Array:
    """Return the largest speed of each velocity variable [m/s or rad/s], shape (nv,).

    The limit of a coupled joint bounds the speed of its leader.
    """
    size = sum(joint.nv for joint in joints)
    found = np.full(size, math.inf)
    places, start = {}, 0
    for joint in joints:
        places[joint.name] = slice(start, start + joint.nv)
        start += joint.nv
    for joint in joints:
        if joint.limits is None:
            continue
        place, most = places[joint.name], np.asarray(joint.limits.velocity, dtype=np.float64)
        if isinstance(joint, Coupled):
            if joint.ratio == 0.0:
                continue
            place, most = places[joint.leader], most / abs(joint.ratio)
        found[place] = np.minimum(found[place], most)
    return found


def within_limits(q: Array, limits: PositionLimits, rng: "np.random.Generator") -> Array:
    """Return random positions with limited variables drawn again.

    Between two limits positions are uniform; beyond a single one they are mirrored at it. Limited
    rotations are uniform among all rotations up to their angle.

    Args:
        q: Random positions [m or rad], shape (..., nq).
        limits: Their bounds.
        rng: Source of randomness.
    """
    found = q.copy()
    for k, (low, high) in enumerate(zip(limits.lower, limits.upper, strict=True)):
        x = found[..., k]
        if math.isfinite(low) and math.isfinite(high):
            found[..., k] = low + (high - low) * rng.random(x.shape)
        elif math.isfinite(low):
            found[..., k] = low + np.abs(x - low)
        elif math.isfinite(high):
            found[..., k] = high - np.abs(x - high)
    for start, most in limits.turns:
        vector = found[..., start + 1 : start + 4]
        axis = vector / np.linalg.norm(vector, axis=-1, keepdims=True)
        half = 0.5 * _turn_angles(rng.random(vector.shape[:-1]), most)[..., None]
        found[..., start : start + 1] = np.cos(half)
        found[..., start + 1 : start + 4] = np.sin(half) * axis
    return found


def _turn_angles(share: Array, most: float) -> Array:
    """Return the angles of uniformly distributed rotations up to an angle, for uniform quantiles.

    A fraction (a - sin a) / pi of all rotations has an angle below a; solved by 60 bisections, to
    full float precision.
    """
    low, high = np.zeros_like(share), np.full_like(share, most)
    wanted = share * (most - math.sin(most))
    for _ in range(60):
        middle = 0.5 * (low + high)
        less = middle - np.sin(middle) < wanted
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return 0.5 * (low + high)


def spread(
    parts: StateSpace, tau: Any, joints: Iterable[str], *, of: str = "v", argument: str = "tau"
) -> NDArray[np.float64]:
    """Return the joint forces of a robot, or other values, from those of some of its joints.

    Args:
        parts: The robot.
        tau: Forces of the joints, concatenated in the order of the names [N or N m], shape
            (..., sum of their nv), or forces by joint name, each of shape (..., nv of the joint) or
            a scalar for a joint with one degree of freedom.
        joints: Names of the joints, where `tau` does not name them.
        of: "v", or "q" for positions.
        argument: Name of `tau`, for messages.

    Returns:
        Joint force, shape (..., nv), or position; neutral at the joints left out.
    """
    if isinstance(tau, Mapping):
        names: Sequence[str] = tuple(tau)
        given = [_value_of(parts, name, tau[name], of, argument) for name in names]
    else:
        names = tuple(joints)
        count = len(parts.indices(names, of=of))
        words = f"{count} (of {_listed(names)})"
        given = [_checked(tau, count, argument, words)]
    _refuse_twice(parts, names)
    shape = np.broadcast_shapes(*(force.shape[:-1] for force in given))
    rest = parts.neutral() if of == "q" else np.zeros(parts.nv)
    total = np.zeros((*shape, len(rest)), like=given[0] if given else np.zeros(0))
    total[...] = rest
    places = parts.indices(names, of=of)
    start = 0
    for force in given:
        stop = start + force.shape[-1]
        total[..., places[start:stop]] = force
        start = stop
    return total


def _value_of(parts: StateSpace, name: str, value: Any, of: str, argument: str) -> NDArray[Any]:
    """Return the values of one joint given by name; a scalar for one variable."""
    joint, place = parts.joint(name), parts.slice(name, of=of)
    count = place.stop - place.start
    refuse_unusable(f"{argument}[{name!r}]", value)
    array = as_traced(value) if current_graph() is not None else np.asarray(value)
    if array.ndim == 0 and count == 1:
        array = array.reshape(1)
    words = f"{count} (of the {joint.kind} joint {name!r})"
    return _checked(array, count, f"{argument}[{name!r}]", words)


def _checked(value: Any, size: int, argument: str, words: str) -> NDArray[Any]:
    """Return an array, traced while a function is traced, of the right length."""
    if current_graph() is None:
        return as_batch(value, size, argument, words)
    array = as_traced(value)
    if array.ndim == 0 or array.shape[-1] != size:
        given = array.shape[-1] if array.ndim == 1 else f"shape {array.shape}"
        raise ShapeError(argument, words, given)
    return array


def _refuse_twice(parts: NamedParts, names: Sequence[str]) -> None:
    """Raise if a joint is named twice: its forces would overwrite each other."""
    for name in names:
        if names.count(name) > 1:
            raise ModelError(
                f"model {parts.name!r}: joint {name!r} is named {names.count(name)} times among "
                "the actuated joints; name each joint once",
                name=name,
            )


def _listed(names: Sequence[str]) -> str:
    """List a few names and count the rest."""
    if not names:
        return "no joint"
    shown = ", ".join(repr(name) for name in names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more joints"
