"""Where frames should be, and how far joints may go: what inverse kinematics is asked."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.argument_checks import refuse_unusable
from tiburon.errors import DomainError, ModelError, OptionError, ShapeError
from tiburon.model import Model
from tiburon.model.position_limits import PositionLimits, position_limits
from tiburon.record import record

__all__ = ["Array", "FrameTarget", "Limits", "Range", "checked_rotation", "read_limits"]

Array = NDArray[np.float64]
Limits = Mapping[str, tuple[ArrayLike, ArrayLike]]
"""By joint name, the lowest and highest position [m or rad]."""

UNBOUNDED = 1e300
"""Stands for infinity in kernels, which take finite numbers alone."""

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


class Range(NamedTuple):
    """How far the position variables of a search may go."""

    limits: PositionLimits
    limited: tuple[tuple[int, int], ...]
    """Where the bounded variables stand in q and v."""

    lower: Array
    upper: Array
    """Their bounds; `UNBOUNDED` where there is one on the other side alone."""

    turned: tuple[int, ...]
    """Where quaternions of limited turns begin in q."""

    turn: Array
    """The largest angles of these turns [rad]."""


def read_limits(model: Model, limits: Limits | bool) -> Range:
    """Return how far position variables may go.

    Args:
        model: The robot.
        limits: True for the limits that joints have, False for none, or limits of some joints by
            name, in place of those they have.
    """
    given: object = limits
    if not isinstance(given, (bool, Mapping)):
        raise OptionError("limits", (True, False, {"joint": ("lowest", "highest")}), given)
    named = {} if isinstance(limits, bool) else limits
    for name in named:
        model.joint(name)
    nowhere = np.full(model.nq, np.inf)
    own = PositionLimits(-nowhere, nowhere, ())
    if limits is not False:
        own = position_limits(model.joints, named)
    bounded = np.isfinite(own.lower) | np.isfinite(own.upper)
    places = []
    for joint in model.joints:
        in_q, in_v = model.slice(joint.name, of="q"), model.slice(joint.name, of="v")
        if joint.follows is None and joint.nq == joint.nv:
            both = zip(range(in_q.start, in_q.stop), range(in_v.start, in_v.stop), strict=True)
            places += [(i, k) for i, k in both if bounded[i]]
    rows = [i for i, _ in places]
    lower, upper = (np.clip(x[rows], -UNBOUNDED, UNBOUNDED) for x in (own.lower, own.upper))
    turned = tuple(start for start, _ in own.turns)
    return Range(own, tuple(places), lower, upper, turned, np.array([x for _, x in own.turns]))


def checked_rotation(given: ArrayLike, frame: str) -> Array:
    """Return rotation matrices with rounding of typed digits removed, or refuse them."""
    argument = f"orientation of the target of frame {frame!r}"
    refuse_unusable(argument, given)
    R = np.asarray(given, dtype=np.float64)
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
