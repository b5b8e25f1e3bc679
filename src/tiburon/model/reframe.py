"""Frames chosen for cheap arithmetic."""

from dataclasses import dataclass

from tiburon.model.joints import Joint
from tiburon.model.layout import Layout
from tiburon.model.pose import Pose
from tiburon.spatial import Transform


@dataclass(frozen=True, slots=True)
class ChosenFrame:
    """The frame a link is computed in."""

    pose: Pose
    """The chosen frame in the user's link coordinates."""

    joint: Joint
    """The joint between chosen frames."""

    placement: Transform
    """Map of motion from the parent's chosen frame to the joint frame."""


def choose_frames(layout: Layout) -> tuple[ChosenFrame, ...]:
    """Choose a frame for every link."""
    return tuple(ChosenFrame(Pose(), link.joint, link.pose.transform) for link in layout.links)
