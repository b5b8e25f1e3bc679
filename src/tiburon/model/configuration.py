"""Configurations and velocities of a whole model as arrays, one state or a batch.

A joint's functions work elementwise on scalars, so a batch is evaluated by passing columns.
"""

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from tiburon.argument_checks import refuse_unusable
from tiburon.arguments import public
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import DomainError, NonFiniteError, ShapeError
from tiburon.model.joints import Joint
from tiburon.model.named_parts import NamedParts
from tiburon.model.plan import RunTime
from tiburon.model.position_limits import position_limits, velocity_limits, within_limits
from tiburon.spatial import Scalar

Array = NDArray[np.float64]


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
    q = np.array(
        [[x for joint in joints for x in joint.random(rng)] for _ in range(count)],
        dtype=np.float64,
    )
    q, v = q.reshape(*shape, nq), rng.standard_normal((*shape, nv))
    if limits and any(joint.limits is not None for joint in joints):
        q = within_limits(q, position_limits(joints), rng)
        fastest = velocity_limits(joints)
        # infinite limits need no second draw
        again = rng.uniform(-1.0, 1.0, v.shape) * np.where(np.isfinite(fastest), fastest, 0.0)
        v = np.where(np.abs(v) > fastest, again, v)
    return q, v


def as_batch(value: ArrayLike, size: int, argument: str, expected: str) -> Array:
    """Return finite float64 values with the given last dimension.

    Args:
        value: Anything NumPy can read.
        size: Length of the last dimension.
        argument: Name of the argument, for messages.
        expected: Description of that length, for messages.
    """
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
    joints: Sequence[Joint],
    function: Callable[..., Sequence[Scalar]],
    *arguments: tuple[Array, str],
) -> Array:
    """Apply a function of one joint to all joints of a batch.

    Args:
        joints: In the order of the model.
        function: Takes a joint and its slices; returns the joint's values.
        arguments: Arrays, each with "q" or "v" for how it is sliced.

    Raises:
        DomainError: If a quaternion has length zero.
    """
    shape = np.broadcast_shapes(*(array.shape[:-1] for array, _ in arguments))
    columns: list[Any] = []
    start = {"q": 0, "v": 0}
    for joint in joints:
        size = {"q": joint.nq, "v": joint.nv}
        slices = [[array[..., start[of] + i] for i in range(size[of])] for array, of in arguments]
        # non-finite results are reported below, by name
        with np.errstate(divide="ignore", invalid="ignore"):
            values = function(joint, *slices)
        if not all(np.isfinite(x).all() for x in values):
            raise DomainError(
                f"position of joint {joint.name!r}",
                "a quaternion with a length near 1",
                "a zero quaternion",
                advice="check the order of the entries; model.q_names lists them",
            )
        columns.extend(np.broadcast_to(x, shape) for x in values)
        start["q"] += joint.nq
        start["v"] += joint.nv
    if not columns:
        return np.zeros((*shape, 0))
    return np.stack(columns, axis=-1).astype(np.float64, copy=False)


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
        return random_state(self.joints, np.random.default_rng(rng), shape, limits=limits)

    @public
    def integrate(self, q: ArrayLike, dv: ArrayLike) -> Array:
        """Return the configuration after a step of constant joint velocity.

        Args:
            q: Position, shape (..., nq).
            dv: Velocity times duration, shape (..., nv).

        Returns:
            Position, shape (..., nq); free bodies follow the screw of their body velocity.
        """
        return over_joints(
            self.joints,
            lambda joint, x, dx: joint.integrate(x, dx),
            (self._q("q", q), "q"),
            (as_batch(dv, self.nv, "dv", self.describe_v()), "v"),
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
        return over_joints(
            self.joints,
            lambda joint, x: joint.normalize(x),
            (self._q("q", q), "q"),
        )

    def _q(self, argument: str, value: ArrayLike) -> Array:
        return as_batch(value, self.nq, argument, self.describe_q())
