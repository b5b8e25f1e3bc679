"""Joint-space paths."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tiburon.actuation.piecewise import PathSample, Piecewise, smooth_pieces, speed_profile
from tiburon.argument_checks import at_least, positive, vector
from tiburon.arguments import public
from tiburon.arrays import ArrayLike
from tiburon.control.cartesian_path import CartesianPath
from tiburon.errors import DomainError, ModelError, UnknownNameError
from tiburon.functions.inverse_kinematics import FrameTarget, inverse_kinematics
from tiburon.model import Model
from tiburon.record import record
from tiburon.trace.primitives.table_rows import Table


@public
@record
class JointPath:
    """A path of joints without quaternions, such as revolute and prismatic joints.

    Example:
        ``JointPath.through([0, 2, 5], [(0, 0), (0.5, -0.2), (1, 1)], kind="quintic")``
    """

    pieces: Piecewise
    """The path itself."""

    joints: tuple[str, ...] = ()
    """Names of its joints, in order; by default those of the controller that follows it."""

    def __post_init__(self) -> None:
        def name(entry: int) -> str:
            known = entry < len(self.joints)
            return f"path of joint {self.joints[entry]!r}" if known else f"path of joint {entry}"

        self.pieces.require_continuous(name)

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
        """Return the spline through positions at given times, at rest at both ends.

        Args:
            times: Time of each position [s], increasing, shape (k,).
            points: Positions [m or rad], shape (k, n).
            kind: "cubic": continuous acceleration, which steps at both ends; "quintic": continuous
                fourth derivative, with zero acceleration at both ends.
            stops: Whether to stop at every position.
            start_velocity: At the first position [m/s or rad/s], shape (n,); at rest by default.
            end_velocity: At the last position.
            joints: Names of joints, in order.
        """
        pieces = smooth_pieces(
            times,
            points,
            kind,
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
        """Return the fastest path with trapezoidal speed profiles that stops at every position.

        All joints start and stop together and move along straight lines in joint space.

        Args:
            points: Positions [m or rad], shape (k, n).
            speed: Largest speed [m/s or rad/s], one value or one per joint.
            acceleration: Largest acceleration [m/s^2 or rad/s^2], one value or one per joint.
            start: Start time [s].
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
        """Return the joint path that moves a frame along a Cartesian path.

        Inverse kinematics at equal time intervals, each from the previous solution, and a quintic
        spline through the solutions: exact at the samples, with an error of sixth order between.

        Args:
            path: Path of the frame in the world.
            model: The robot.
            frame: Name of a body or frame.
            q: Configuration near the initial one [m or rad], shape (nq,); other joints stay there.
            samples: Number of solutions.
            joints: Joints that may move; all by default.
            tolerance: Tolerance of inverse kinematics [m, rad].

        Raises:
            DomainError: If a sample cannot be reached.
        """
        at_least("samples", samples, 2)
        positive("tolerance", tolerance, "m, rad")
        named = {model.joint(name).name for name in joints}
        moving = [joint.name for joint in model.joints if joint.nv]
        names = tuple(name for name in moving if not named or name in named)
        refuse_quaternions(model, names)
        position = vector("q", q, model.nq)
        places = model.indices(names, of="q")
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
                    "poses that the robot can reach",
                    f"{found.position_error:.3g} m and {found.orientation_error:.3g} rad left at "
                    f"{time:g} s",
                    advice="start from a nearer q, or shorten the path",
                )
            position = found.q
            points.append(position)
        return cls.through(times, points, kind="quintic", joints=names)

    def of(self, joint: str) -> "JointPath":
        """Return the path of one of its joints, which must have one variable each.

        Raises:
            UnknownNameError: If the path does not name the joint.
        """
        if joint not in self.joints or len(self.joints) != self.pieces.size:
            raise UnknownNameError("joint", joint, dict.fromkeys(self.joints), where="path")
        return JointPath(self.pieces.entry(self.joints.index(joint)), (joint,))

    @property
    def duration(self) -> float:
        """Duration [s]."""
        return self.pieces.duration

    @property
    def end(self) -> float:
        """End time [s]."""
        return self.pieces.knots[-1]

    def at(self, time: Any, handle: Sequence[Any] | None = None) -> PathSample:
        """Return position, velocity and acceleration at a time [s], shape (..., n) each.

        Args:
            time: A float, array or traced value.
            handle: Handle of the table of another path of equal structure, to read instead.
        """
        return self.pieces.at(time) if handle is None else self.pieces.read(time, handle)[0]

    def tables(self) -> tuple[Table, ...]:
        """Return the path as a table beside compiled code."""
        return (self.pieces.table(),)

    def structure(self) -> Hashable:
        """Return joints and form of the table, which compiled code depends on."""
        return (self.joints, self.pieces.size, self.pieces.form())


def refuse_quaternions(model: Model, joints: Sequence[str]) -> None:
    """Raise ModelError if a joint has a quaternion, which paths cannot interpolate."""
    for name in joints:
        joint = model.joint(name)
        if joint.nq != joint.nv:
            raise ModelError(
                f"joint {name!r}: expected a joint without quaternion, got a {joint.kind} joint; "
                "give its position as a constant, or name other joints",
                name=name,
            )
