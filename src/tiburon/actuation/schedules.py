"""Forces that follow a table in time, whatever the robot does."""

from collections.abc import Hashable, Sequence

from tiburon.actuation.element import Action, Element, Moment
from tiburon.actuation.freedom import joint_force
from tiburon.actuation.time_table import Rows, checked_table, read_table
from tiburon.errors import ModelError, OptionError
from tiburon.model import Model
from tiburon.model.numbers import check_name
from tiburon.record import record
from tiburon.spatial import Scalar
from tiburon.spatial.vec3 import matrix_vector, transpose, vec3

__all__ = ["JointForceSchedule", "WrenchSchedule"]


@record
class WrenchSchedule(Element):
    """A force on a body or frame that follows a table; times and forces are run-time numbers.

    Before the first row the first holds, after the last the last. Integrators of high order are at
    their best if steps end where the table has its corners.

    Example:
        A push of 50 N for a tenth of a second::

            tb.WrenchSchedule("kick", "hull", times=(0, 1.0, 1.1), between="hold",
                              wrenches=((0,) * 6, (0, 0, 0, 50, 0, 0), (0,) * 6))
    """

    name: str
    """Unique among the elements of a run."""

    frame: str
    """Name of the body or frame."""

    times: tuple[float, ...]
    """When each row holds, rising [s]."""

    wrenches: Rows
    """One row [n; f] for each time, at the frame's origin [N m, N]."""

    axes: str = "frame"
    """Axes of the rows: "frame", the frame's own, or "world"."""

    between: str = "line"
    """Between two rows: "line" for a straight line, "hold" for the earlier row until the next."""

    def __post_init__(self) -> None:
        check_name(self.name, "wrench schedule")
        element = f"wrench schedule {self.name!r}"
        if self.axes not in ("frame", "world"):
            raise OptionError("axes", ("frame", "world"), self.axes)
        times, rows = checked_table(self.times, self.wrenches, 6, self.between, element, self.name)
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "wrenches", rows)

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return moment and force as scheduled [N m, N]."""
        return tuple(f"{self.name}.{x}" for x in ("nx", "ny", "nz", "fx", "fy", "fz"))

    def parameters(self) -> tuple[float, ...]:
        """Return the times, then the rows."""
        return (*self.times, *(x for row in self.wrenches for x in row))

    def structure(self) -> Hashable:
        """Return where the force acts and how many rows there are."""
        return (self.frame, len(self.times), self.axes, self.between)

    def check(self, model: Model) -> None:
        """Raise an error if there is no such body or frame."""
        model.plan.frame(self.frame)

    def act(self, now: Moment) -> Action:
        """Return the force of now."""
        wrench = _now(now, len(self.times), 6, self.between)
        outputs = dict(zip(self.output_names(now.model), wrench, strict=True))
        if self.axes == "world":
            R = transpose(now.frame_pose(self.frame).R)
            parts = (wrench[:3], wrench[3:])
            wrench = tuple(x for part in parts for x in matrix_vector(R, vec3(part)))
        return Action(wrenches={self.frame: wrench}, outputs=outputs)


@record
class JointForceSchedule(Element):
    """A joint force that follows a table; times and forces are run-time numbers.

    Example:
        ``tb.JointForceSchedule("sweep", "elbow", times=(0, 1, 2), forces=(0, 5, 0))``
    """

    name: str
    """Unique among the elements of a run."""

    joint: str
    """Name of the joint."""

    times: tuple[float, ...]
    """When each row holds, rising [s]."""

    forces: Rows
    """One row for each time, one number for each freedom of the joint [N or N m].

    For joints of one freedom a list of numbers will do.
    """

    between: str = "line"
    """Between two rows: "line" for a straight line, "hold" for the earlier row until the next."""

    def __post_init__(self) -> None:
        check_name(self.name, "joint force schedule")
        element = f"joint force schedule {self.name!r}"
        times, rows = checked_table(self.times, self.forces, None, self.between, element, self.name)
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "forces", rows)

    def parameters(self) -> tuple[float, ...]:
        """Return the times, then the rows."""
        return (*self.times, *(x for row in self.forces for x in row))

    def structure(self) -> Hashable:
        """Return where the force acts and how many rows of how many numbers there are."""
        return (self.joint, len(self.times), len(self.forces[0]), self.between)

    def check(self, model: Model) -> None:
        """Raise an error unless there is one number for each freedom of the joint."""
        count = model.joint(self.joint).freedom_count
        if len(self.forces[0]) != count:
            raise ModelError(
                f"joint force schedule {self.name!r}: joint {self.joint!r} has {count} freedoms, "
                f"got rows of {len(self.forces[0])}; give one number for each",
                name=self.name,
            )

    def act(self, now: Moment) -> Action:
        """Return the force of now."""
        force = _now(now, len(self.times), len(self.forces[0]), self.between)
        return Action(joint_force(now.model.joint(self.joint), force))


def _now(now: Moment, count: int, width: int, between: str) -> tuple[Scalar, ...]:
    """Return the row of a table in run-time numbers at the time of now."""
    times, numbers = now.p[:count], now.p[count:]
    rows: list[Sequence[Scalar]] = [numbers[width * k : width * (k + 1)] for k in range(count)]
    return read_table(times, rows, between, now.time)
