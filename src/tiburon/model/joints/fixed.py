"""Fixed joint: no relative motion."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from tiburon.model.joint_constraints import Measure, Offset, Turn, all_axes
from tiburon.model.joints.joint import Joint
from tiburon.record import record
from tiburon.spatial import Motion, Scalar, Transform


@record(slots=False)
class Fixed(Joint):
    """A rigid connection: the body stays in the joint frame.

    Example:
        ``Fixed("weld", pose=Pose(translation=(0, 0, 0.1)))``
    """

    kind: ClassVar[str] = "fixed"
    nq: ClassVar[int] = 0
    nv: ClassVar[int] = 0

    def loop_constraints(self) -> tuple[Measure, ...]:
        """Return the constraints of equal poses."""
        return (*all_axes(Turn), *all_axes(Offset))

    def neutral(self) -> tuple[float, ...]:
        """Return an empty tuple."""
        return ()

    def random(self, rng: "np.random.Generator") -> tuple[float, ...]:
        """Return an empty tuple."""
        return ()

    def transform(self, q: Sequence[Scalar]) -> Transform:
        """Return the identity."""
        return Transform(())

    def subspace(self, q: Sequence[Scalar]) -> tuple[Motion, ...]:
        """Return an empty tuple."""
        return ()
