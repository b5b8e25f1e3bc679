"""Where frames should be, and how far joints may go: what inverse kinematics is asked."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.errors import DomainError, ModelError, ShapeError
from tiburon.model import Model
from tiburon.record import record

__all__ = ["Array", "FrameTarget", "Limits", "checked_rotation", "read_limits"]

Array = NDArray[np.float64]
Limits = Mapping[str, tuple[ArrayLike, ArrayLike]]
"""By joint name, the lowest and highest position [m or rad]."""

NOT_A_ROTATION = 1e-6
"""Largest deviation of a target's rotation matrix from orthonormal; smaller ones are repaired."""


@record(slots=False, eq=False)
class FrameTarget:
    """Where a frame should be: its position, its orientation, or both.

    Example:
        ``FrameTarget("hand", position=(0.4, 0.0, 0.3))``
    """

    frame: str
    """Name of the body or frame."""

    position: ArrayLike | None = None
    """Origin of the frame, axes of `relative_to` [m], shape (..., 3); None if it does not count."""

    orientation: ArrayLike | None = None
    """Rotation matrix from the frame's axes to those of `relative_to`, shape (..., 3, 3); None if
    it does not count."""

    relative_to: str = "world"
    """Name of the body or frame in which the target is told; it may move too."""

    def __post_init__(self) -> None:
        if self.position is None and self.orientation is None:
            raise ModelError(
                f"target of frame {self.frame!r}: expected a position, an orientation or both, got "
                "neither; pass position=, orientation=, or leave the target out",
                name=self.frame,
            )


def read_limits(model: Model, limits: Limits) -> tuple[tuple[tuple[int, int], ...], Array, Array]:
    """Return where the limited variables stand in q and v, and their limits."""
    places: list[tuple[int, int]] = []
    low: list[float] = []
    high: list[float] = []
    for name, (least, most) in limits.items():
        joint = model.joint(name)
        if joint.nq != joint.nv:
            raise ModelError(
                f"joint {name!r}: limits need one position per velocity variable, got a "
                f"{joint.kind} joint with {joint.nq} and {joint.nv}; leave it out of limits",
                name=name,
            )
        a = np.broadcast_to(np.asarray(least, dtype=np.float64), (joint.nq,))
        b = np.broadcast_to(np.asarray(most, dtype=np.float64), (joint.nq,))
        if not np.all(a <= b):
            raise DomainError(f"limits[{name!r}]", "lowest before highest", f"{(least, most)!r}")
        in_q, in_v = model.slice(name, of="q"), model.slice(name, of="v")
        places += zip(range(in_q.start, in_q.stop), range(in_v.start, in_v.stop), strict=True)
        low += a.tolist()
        high += b.tolist()
    return tuple(places), np.array(low), np.array(high)


def checked_rotation(given: ArrayLike, frame: str) -> Array:
    """Return rotation matrices with rounding of typed digits removed, or refuse them."""
    R = np.asarray(given, dtype=np.float64)
    argument = f"orientation of the target of frame {frame!r}"
    if R.ndim < 2 or R.shape[-2:] != (3, 3):
        raise ShapeError(argument, "(..., 3, 3)", R.shape, advice="pass rotation matrices")
    for _ in range(2):
        excess = np.swapaxes(R, -1, -2) @ R - np.eye(3)
        # also false for NaN, which the kernel reports with its place
        if np.any(np.abs(excess) > NOT_A_ROTATION) or np.any(np.linalg.det(R) < 0.0):
            raise DomainError(
                argument,
                f"rotation matrices, orthonormal within {NOT_A_ROTATION:g}",
                f"a deviation of {np.abs(excess).max():.3g}",
                advice="normalize them; a reflection is no rotation",
            )
        # one step towards the nearest rotation squares the deviation
        R = R - 0.5 * R @ excess
    return R
