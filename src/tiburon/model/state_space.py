"""Positions and velocities of a robot: where to begin, steps, and what lies between positions."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.arguments import public
from tiburon.model import configuration
from tiburon.model.named_parts import NamedParts
from tiburon.model.plan import RunTime

Array = NDArray[np.float64]


class StateSpace(NamedParts):
    """Positions q and velocities v that the joints of a robot can have."""

    __slots__ = ("run_time",)

    run_time: RunTime
    """Of which parts code takes every number at run time, zeros included; none by default."""

    def at_run_time(self, run_time: RunTime) -> Self:
        """Return the same robot, of which code takes every number of some parts at run time.

        It compares equal to this one, and other code is compiled for it.
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
        """Return a robot that came from another process, its `run_time` last among the parts."""
        *given, run_time = parts
        return cls._of(*given).at_run_time(run_time)  # type: ignore[attr-defined]

    @public
    def neutral(self) -> Array:
        """Return the position at which every joint is unmoved, shape (nq,)."""
        return configuration.neutral(self.joints)

    @public
    def random_state(
        self,
        rng: "np.random.Generator | int | None" = None,
        shape: tuple[int, ...] = (),
        *,
        limits: bool = True,
    ) -> tuple[Array, Array]:
        """Return random positions and velocities, within the limits of the joints.

        Positions are uniform between two limits, and cover all orientations where there are none.
        Loops are not closed: see `assemble`.

        Args:
            rng: NumPy generator, or a seed for a new one.
            shape: Leading (batch) dimensions.
            limits: Whether to stay within the position and speed limits of the joints.

        Returns:
            q, shape (..., nq); v, shape (..., nv), standard normal, or uniform within the speed
            limit of a joint that this would exceed.
        """
        return configuration.random_state(
            self.joints, np.random.default_rng(rng), shape, limits=limits
        )

    @public
    def integrate(self, q: ArrayLike, dv: ArrayLike) -> Array:
        """Return positions after a step of constant joint velocity.

        Args:
            q: Position, shape (..., nq).
            dv: Velocity times duration, shape (..., nv).

        Returns:
            Position, shape (..., nq); free bodies follow the screw of their body velocity.
        """
        return configuration.over_joints(
            self.joints,
            lambda joint, x, dx: joint.integrate(x, dx),
            (self._q("q", q), "q"),
            (configuration.as_batch(dv, self.nv, "dv", self.describe_v()), "v"),
        )

    @public
    def difference(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        """Return the step dv with integrate(q0, dv) = q1, shape (..., nv).

        Free bodies turn by at most pi; revolute angles are subtracted as they are. A ball that
        rolls is only brought to its orientation: see `displacement`.
        """
        return configuration.over_joints(
            self.joints,
            lambda joint, a, b: joint.difference(a, b),
            (self._q("q0", q0), "q"),
            (self._q("q1", q1), "q"),
        )

    @public
    def displacement(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        """Return how far q1 is from q0, one number per freedom of position.

        The same as `difference`, shape (..., nv), but for balls that roll: they add the shift of
        their center to their turn, since rolling binds velocities but not positions.
        """
        return configuration.over_joints(
            self.joints,
            lambda joint, a, b: joint.displacement(a, b),
            (self._q("q0", q0), "q"),
            (self._q("q1", q1), "q"),
        )

    @public
    def normalize(self, q: ArrayLike) -> Array:
        """Return the same position with quaternions of length 1, shape (..., nq)."""
        return configuration.over_joints(
            self.joints,
            lambda joint, x: joint.normalize(x),
            (self._q("q", q), "q"),
        )

    def _q(self, argument: str, value: ArrayLike) -> Array:
        return configuration.as_batch(value, self.nq, argument, self.describe_q())
