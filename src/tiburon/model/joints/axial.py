"""What revolute and prismatic joints share: one freedom, along or about one axis."""

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from tiburon.errors import ModelError, ModelWarning
from tiburon.model.joints.joint import Joint
from tiburon.model.numbers import Vec3, finite_array, snap, vec3

UNIT = 1e-3
"""Axes whose length differs from 1 by at most this are normalized, with a warning."""

ROUNDING = 1e-9
"""Differences from length 1 up to this are rounding of typed digits, and normalized silently."""


@dataclass(frozen=True)
class AxialJoint(Joint):
    """A joint of one freedom with a fixed axis through the joint frame's origin."""

    axis: Vec3 = (0.0, 0.0, 1.0)
    """Unit axis in joint axes, which body axes share at zero position."""

    offset: float = 0.0
    """Added to q before the body moves: where the body is at q = 0 [rad or m]."""

    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        element = f"joint {self.name!r}"
        axis = vec3(self.axis, element, "axis", self.name)
        object.__setattr__(self, "axis", _unit(axis, self.name))
        offset = float(finite_array(self.offset, (), element, "offset", self.name))
        object.__setattr__(self, "offset", offset)

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on."""
        return (self.kind, *self.axis, self.offset)

    def neutral(self) -> tuple[float, ...]:
        """Return (0,)."""
        return (0.0,)

    def coordinate(self) -> tuple[int, float] | None:
        """Return index and sign of the coordinate axis the joint axis lies on, if it does."""
        used = [index for index, x in enumerate(self.axis) if x != 0.0]
        return (used[0], self.axis[used[0]]) if len(used) == 1 else None

    def rebased(self, axis: Vec3, offset: float) -> Self:
        """Return the same joint seen from other frames, where its axis and offset differ.

        Args:
            axis: Unit axis in the new joint axes; not checked again.
            offset: Where the new body frame is at q = 0 [rad or m].
        """
        joint = copy.copy(self)
        object.__setattr__(joint, "axis", axis)
        object.__setattr__(joint, "offset", offset)
        return joint

    def _along(self, rate: float) -> Vec3:
        x, y, z = self.axis
        return (x * rate, y * rate, z * rate)

    def _first(self, q: Sequence[float]) -> float:
        (value,) = q
        return value


def _unit(axis: Vec3, name: str) -> Vec3:
    """Return the axis at length 1, or refuse it."""
    length = float(np.linalg.norm(axis))
    error = abs(length - 1.0)
    if error > UNIT:
        raise ModelError(
            f"joint {name!r}: axis must have length 1 within {UNIT:g}, "
            f"got {length:.6g} (norm of {list(axis)}); divide it by its length",
            name=name,
        )
    if error > ROUNDING:
        warnings.warn(
            f"joint {name!r}: axis has length {length:.6g} (norm of {list(axis)}) instead of 1 "
            "and was normalized; write more digits to silence this",
            ModelWarning,
            stacklevel=4,
        )
    x, y, z = snap([a / length for a in axis])
    return (x, y, z)
