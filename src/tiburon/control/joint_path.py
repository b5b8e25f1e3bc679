"""Paths of joints through given positions."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tiburon.argument_checks import at_least, positive, vector
from tiburon.arguments import public
from tiburon.arrays import ArrayLike
from tiburon.control.cartesian_path import CartesianPath
from tiburon.control.piecewise import PathSample, Piecewise, smooth_pieces, speed_profile
from tiburon.errors import DomainError, ModelError, OptionError
from tiburon.functions.inverse_kinematics import FrameTarget, inverse_kinematics
from tiburon.model import Model
from tiburon.record import record
from tiburon.trace.primitives.table_rows import Table

__all__ = ["JointPath"]

KINDS = {"cubic": 2, "quintic": 3}
"""Smooth paths by half the number of coefficients of a piece."""


@record
class JointPath:
    """A path of joints whose positions are plain numbers: hinges and slides.

    Example:
        ``JointPath.through([0, 2, 5], [(0, 0), (0.5, -0.2), (1, 1)], kind="quintic")``
    """

    pieces: Piecewise
    """The path itself."""

    joints: tuple[str, ...] = ()
    """Joints it belongs to, in order; those of the controller that follows it by default."""

    def __post_init__(self) -> None:
        step = self.pieces.first_step()
        if step is not None:
            time, entry, what = step
            joint = repr(self.joints[entry]) if entry < len(self.joints) else f"number {entry}"
            raise DomainError(
                f"path of joint {joint}",
                f"a {what} without steps",
                f"one at {time:g} s",
                advice="let every piece begin where the one before ends, with its velocity",
            )

    @classmethod
    @public
    def through(
        cls,
        times: ArrayLike,
        points: ArrayLike,
        *,
        kind: str = "cubic",
        stops: bool = False,
        start_velocity: ArrayLike | None = None,
        end_velocity: ArrayLike | None = None,
        joints: Sequence[str] = (),
    ) -> "JointPath":
        """Return the path through positions at given times, at rest at both ends.

        Args:
            times: When each position is reached [s], rising, shape (k,).
            points: Positions [m or rad], shape (k, n).
            kind: "cubic": continuous accelerations between the ends, which begin and end with a
                jump; "quintic": smooth to the fourth derivative, at both ends without acceleration.
            stops: Whether to stop at every position.
            start_velocity: At the first position [m/s or rad/s], shape (n,); at rest by default.
            end_velocity: At the last position.
            joints: Names of joints, in order.
        """
        if kind not in KINDS:
            raise OptionError("kind", tuple(KINDS), kind)
        pieces = smooth_pieces(
            times,
            points,
            KINDS[kind],
            stops=stops,
            start_velocity=start_velocity,
            end_velocity=end_velocity,
        )
        return cls(pieces, tuple(joints))

    @classmethod
    @public
    def trapezoidal(
        cls,
        points: ArrayLike,
        *,
        speed: ArrayLike,
        acceleration: ArrayLike,
        start: float = 0.0,
        joints: Sequence[str] = (),
    ) -> "JointPath":
        """Return the fastest path within limits that stops at every position.

        All joints begin and end together, each in a straight line with a trapezoid of speed.

        Args:
            points: Positions [m or rad], shape (k, n).
            speed: Largest speed [m/s or rad/s], one number or one per joint.
            acceleration: Largest acceleration [m/s^2 or rad/s^2], likewise.
            start: When it begins [s].
            joints: Names of joints, in order.
        """
        return cls(speed_profile(points, speed, acceleration, start), tuple(joints))

    @classmethod
    @public
    def along(
        cls,
        path: CartesianPath,
        model: Model,
        frame: str,
        q: ArrayLike,
        *,
        samples: int = 20,
        joints: Sequence[str] = (),
        tolerance: float = 1e-9,
    ) -> "JointPath":
        """Return the joint path that moves a frame along a path in space.

        Inverse kinematics at equal distances of time, each from the solution before, and a smooth
        path of fifth order through them: on the samples exact, in between off by the sixth power
        of their distance.

        Args:
            path: Where the frame goes, in the world.
            model: The robot.
            frame: Name of a body or frame.
            q: Position near that at the start [m or rad], shape (nq,); other joints stay there.
            samples: How many solutions.
            joints: Joints that may move; all by default.
            tolerance: Of inverse kinematics [m, rad].

        Raises:
            DomainError: If a sample cannot be reached.
        """
        at_least("samples", samples, 2)
        positive("tolerance", tolerance, "m, rad")
        named = {model.joint(name).name for name in joints}
        moving = [joint.name for joint in model.joints if joint.nv]
        names = tuple(name for name in moving if not named or name in named)
        plain_places(model, names)
        position = vector("q", q, model.nq)
        places = [k for name in names for k in _range(model.slice(name, of="q"))]
        used = model.lock([name for name in moving if name not in names], position)
        position = position[places]
        times = np.linspace(path.knots[0], path.knots[-1], max(2, samples))
        points = []
        for time in times:
            pose = path.at(float(time))
            target = FrameTarget(frame, position=pose.position, orientation=pose.rotation)
            found = inverse_kinematics(used, position, target, tolerance=tolerance)
            if not found.reached:
                raise DomainError(
                    f"path of {frame!r}",
                    "places that the robot can reach",
                    f"{found.position_error:.3g} m and {found.orientation_error:.3g} rad left at "
                    f"{time:g} s",
                    advice="start nearer, or leave the orientation free",
                )
            position = found.q
            points.append(position)
        return cls.through(times, points, kind="quintic", joints=names)

    @property
    def duration(self) -> float:
        """Time from begin to end [s]."""
        return self.pieces.duration

    @property
    def end(self) -> float:
        """When it ends [s]."""
        return self.pieces.knots[-1]

    def at(self, time: Any, handle: Sequence[Any] | None = None) -> PathSample:
        """Return position, velocity and acceleration at a time [s], shape (..., n) each.

        Args:
            time: A number, array or traced value.
            handle: Handle of the table to read instead, from `tables` of a path of equal structure.
        """
        return self.pieces.at(time) if handle is None else self.pieces.read(time, handle)[0]

    def tables(self) -> tuple[Table, ...]:
        """Return the path as data beside compiled code."""
        return (self.pieces.table(),)

    def structure(self) -> Hashable:
        """Return what compiled code depends on: joints and the form of the table."""
        return (self.joints, self.pieces.size, self.pieces.form())


def _range(where: slice) -> range:
    return range(where.start, where.stop)


def plain_places(model: Model, joints: Sequence[str]) -> tuple[int, ...]:
    """Return the places in q of joints whose positions are plain numbers.

    Raises:
        ModelError: If a joint has a quaternion.
    """
    found: list[int] = []
    for name in joints:
        joint = model.joint(name)
        if joint.nq != joint.nv:
            raise ModelError(
                f"joint {name!r}: expected a joint whose position is plain numbers, got a "
                f"{joint.kind} joint; give its position as a constant, or name other joints",
                name=name,
            )
        where = model.slice(name, of="q")
        found.extend(range(where.start, where.stop))
    return tuple(found)
