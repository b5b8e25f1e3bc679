"""Closures told by functions: residuals of frames and joints that vanish while they hold.

Such a closure names the frames and joints it looks at, and measures them by functions over NumPy
values: of positions (holonomic), and of velocities that it binds alone (non-holonomic). The
functions are traced once; Jacobian and bias come from their graphs (`closure_program`), so that a
closure says what vanishes and nothing else.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

from tiburon.model.joints.joint import Joint
from tiburon.model.pose import Pose

__all__ = ["FrameMotion", "FramePose", "JointMotion", "JointPosition", "TracedClosure"]


class FramePose(NamedTuple):
    """Where a frame is, as a closure sees it."""

    R: Any
    """Rotation matrix from the frame's axes to world axes, shape (3, 3): its columns are axes."""

    p: Any
    """Origin, world axes [m], shape (3,)."""


class FrameMotion(NamedTuple):
    """Where a frame is and how it moves, as a closure of velocities sees it."""

    R: Any
    """Rotation matrix from the frame's axes to world axes, shape (3, 3): its columns are axes."""

    p: Any
    """Origin, world axes [m], shape (3,)."""

    w: Any
    """Angular velocity, world axes [rad/s], shape (3,)."""

    v: Any
    """Velocity of the origin, world axes [m/s], shape (3,)."""


class JointPosition(NamedTuple):
    """Where a joint is, as a closure sees it."""

    q: Any
    """Position variables [m or rad], shape (nq of the joint,)."""


class JointMotion(NamedTuple):
    """Where a joint is and how it moves, as a closure of velocities sees it."""

    q: Any
    """Position variables [m or rad], shape (nq of the joint,)."""

    v: Any
    """Velocity variables [m/s or rad/s], shape (nv of the joint,)."""


class TracedClosure(ABC):
    """A closure whose residuals are functions of frames and joints."""

    __slots__ = ()

    kind: ClassVar[str]
    """One or two words for messages."""

    name: str
    """Unique among the closures of a model."""

    @property
    @abstractmethod
    def ends(self) -> tuple[tuple[str, Pose], ...]:
        """Bodies or frames, or "world", that it looks at, each with a pose in its axes."""

    @property
    @abstractmethod
    def seen_joints(self) -> tuple[str, ...]:
        """Names of the joints that it looks at."""

    @property
    @abstractmethod
    def position_count(self) -> int:
        """Number of residuals of positions."""

    @property
    @abstractmethod
    def velocity_count(self) -> int:
        """Number of residuals of velocities."""

    @property
    @abstractmethod
    def constraint_labels(self) -> tuple[str, ...]:
        """What each residual forbids, those of positions first."""

    @abstractmethod
    def position_residuals(self, *seen: Any) -> Sequence[Any]:
        """Return what vanishes [m or rad].

        Args:
            *seen: A `FramePose` for each end, then a `JointPosition` for each joint.
        """

    @abstractmethod
    def velocity_residuals(self, *seen: Any) -> Sequence[Any]:
        """Return what vanishes, linear in velocities [m/s or rad/s].

        Args:
            *seen: A `FrameMotion` for each end, then a `JointMotion` for each joint.
        """

    @abstractmethod
    def check(self, joints: Mapping[str, Joint]) -> None:
        """Raise if the closure does not fit the joints it names.

        Args:
            joints: Joints of the model by name.
        """

    @abstractmethod
    def renamed(self, prefix: str) -> Self:
        """Return the closure with a prefix before all names but the world's."""

    @abstractmethod
    def moved(self, ends: Sequence[tuple[str, Pose]]) -> Self:
        """Return the closure with other ends, one for each."""
