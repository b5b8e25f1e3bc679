"""Limits of the wrenches that joints transmit: bearings and links bear so much (4.53)-(4.55)."""

import numpy as np

from tiburon.argument_checks import is_numeric
from tiburon.arguments import public
from tiburon.errors import DomainError, shown
from tiburon.load_sharing.limits.limit import Limit, LimitRow, RunTime
from tiburon.load_sharing.problem import Layout, Problem
from tiburon.load_sharing.recovery import WRENCH_NAMES, body_of, wrench_rows
from tiburon.model import Model
from tiburon.record import record
from tiburon.spatial import Scalars


@public
@record
class JointWrenchLimit(Limit):
    """The wrench that a joint transmits to its body, in either direction of each axis.

    Moments about the body's origin and forces, in axes of the body; the actuator's part counts.

    Example:
        A knee whose bearing bears 8 N m across its axis, y, and 400 N::

            JointWrenchLimit("knee", moment=(8.0, np.inf, 8.0), force=400.0)
    """

    joint: str
    """Name of a moving joint."""

    moment: tuple[float, float, float]
    """Largest moment about each axis [N m]; infinite for none."""

    force: tuple[float, float, float]
    """Largest force along each axis [N]; infinite for none."""

    def __init__(self, joint: str, moment: object = np.inf, force: object = np.inf) -> None:
        """Store limits; one number stands for all three axes.

        Args:
            joint: Name of a moving joint.
            moment: Largest moment [N m], one value or three.
            force: Largest force [N], one value or three.
        """
        object.__setattr__(self, "joint", str(joint))
        for quantity, given in (("moment", moment), ("force", force)):
            values = np.asarray(given, dtype=np.float64) if is_numeric(given) else np.array(np.nan)
            if values.shape not in ((), (3,)) or not (values >= 0.0).all():
                raise DomainError(
                    f"{quantity} of the wrench limit of joint {joint!r}",
                    "one value or three of at least 0",
                    shown(given),
                )
            object.__setattr__(self, quantity, tuple(np.broadcast_to(values, 3).tolist()))

    @property
    def _finite(self) -> list[int]:
        """Components with a limit."""
        return [k for k, x in enumerate((*self.moment, *self.force)) if np.isfinite(x)]

    def form(self) -> "JointWrenchLimit":
        """Return which components are limited."""
        marks = [0.0 if np.isfinite(x) else np.inf for x in (*self.moment, *self.force)]
        return JointWrenchLimit(self.joint, marks[:3], marks[3:])

    def check(self, model: Model, layout: Layout) -> None:
        """Refuse joints that do not exist or do not move, and limits on nothing."""
        body_of(model, self.joint)
        if not self._finite:
            raise DomainError(
                f"wrench limit of joint {self.joint!r}", "a finite moment or force", "none"
            )

    def names(self, model: Model, layout: Layout) -> tuple[str, ...]:
        """Return two names per limited component."""
        return tuple(
            f"{self.joint}: {word} joint wrench {WRENCH_NAMES[k]}"
            for k in self._finite
            for word in ("least", "largest")
        )

    def parameters(self, model: Model, layout: Layout) -> tuple[float, ...]:
        """Return the finite limits."""
        values = (*self.moment, *self.force)
        return tuple(values[k] for k in self._finite)

    def rows(self, problem: Problem, p: Scalars, now: RunTime) -> list[LimitRow]:
        """Return w_hat >= -limit and -w_hat >= -limit."""
        (wrench,) = wrench_rows(problem, (self.joint,))
        found: list[LimitRow] = []
        for k, most in zip(self._finite, p, strict=True):
            row, offset = wrench[k]
            found += LimitRow.between(row, offset, -most, most)
        return found
