"""Forces that follow a table in time, whatever the robot does."""

from collections.abc import Hashable

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.actuation.joint_access import joint_force
from tiburon.actuation.time_table import Rows, Times, TimeTable, checked_table
from tiburon.argument_checks import choice
from tiburon.errors import ModelError
from tiburon.model import Model
from tiburon.model.value_checks import check_name
from tiburon.record import record
from tiburon.spatial.vec3 import matrix_vector, transpose, vec3
from tiburon.trace.primitives.table_rows import Table

__all__ = ["JointForceSchedule", "WrenchSchedule"]


@record
class WrenchSchedule(Element):
    """A force on a body or frame that follows a table of any length, which is never compiled in.

    Times and forces of up to 32 rows are run-time parameters and may differ from case to case;
    longer tables are data that all cases share. Before the first row the first holds, after the
    last the last. High-order integrators are most accurate if steps end at the corners of the
    table.

    Example:
        A push of 50 N for a tenth of a second::

            tb.WrenchSchedule("kick", "hull", times=(0, 1.0, 1.1), between="hold",
                              wrenches=((0,) * 6, (0, 0, 0, 50, 0, 0), (0,) * 6))
    """

    name: str
    """Unique among the elements of a run."""

    frame: str
    """Name of the body or frame."""

    times: Times
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
        choice("axes", self.axes, ("frame", "world"))
        times, rows = checked_table(
            self.times, self.wrenches, 6, self.between, element, self.name, "wrenches"
        )
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "wrenches", rows)

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return moment and force as scheduled [N m, N]."""
        return tuple(f"{self.name}.{x}" for x in ("nx", "ny", "nz", "fx", "fy", "fz"))

    @property
    def _table(self) -> TimeTable:
        return TimeTable(self.times, self.wrenches, self.between)

    def parameters(self) -> tuple[float, ...]:
        """Return the times, then the rows, of a short table."""
        return self._table.numbers()

    def tables(self) -> tuple[Table, ...]:
        """Return a long table."""
        return self._table.tables()

    def structure(self) -> Hashable:
        """Return where the force acts and what kind of table there is."""
        return (self.frame, self._table.structure(), self.axes)

    def check(self, model: Model) -> None:
        """Raise an error if there is no such body or frame."""
        model.plan.frame(self.frame)

    def act(self, now: ElementContext) -> Action:
        """Return the force of now."""
        wrench = self._table.at(now.time, now.p, now.tables)
        outputs = dict(zip(self.output_names(now.model), wrench, strict=True))
        if self.axes == "world":
            R = transpose(now.frame_pose(self.frame).R)
            parts = (wrench[:3], wrench[3:])
            wrench = tuple(x for part in parts for x in matrix_vector(R, vec3(part)))
        return Action(wrenches={self.frame: wrench}, outputs=outputs)


@record
class JointForceSchedule(Element):
    """A joint force that follows a table of any length, as that of `WrenchSchedule`.

    Example:
        ``tb.JointForceSchedule("sweep", "elbow", times=(0, 1, 2), forces=(0, 5, 0))``
    """

    name: str
    """Unique among the elements of a run."""

    joint: str
    """Name of the joint."""

    times: Times
    """When each row holds, rising [s]."""

    forces: Rows
    """One row for each time, one value per degree of freedom of the joint [N or N m].

    For joints of one freedom a list of numbers will do.
    """

    between: str = "line"
    """Between two rows: "line" for a straight line, "hold" for the earlier row until the next."""

    def __post_init__(self) -> None:
        check_name(self.name, "joint force schedule")
        element = f"joint force schedule {self.name!r}"
        times, rows = checked_table(
            self.times, self.forces, None, self.between, element, self.name, "forces"
        )
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "forces", rows)

    @property
    def _table(self) -> TimeTable:
        return TimeTable(self.times, self.forces, self.between)

    def parameters(self) -> tuple[float, ...]:
        """Return the times, then the rows, of a short table."""
        return self._table.numbers()

    def tables(self) -> tuple[Table, ...]:
        """Return a long table."""
        return self._table.tables()

    def structure(self) -> Hashable:
        """Return where the force acts and what kind of table there is."""
        return (self.joint, self._table.structure())

    def check(self, model: Model) -> None:
        """Raise an error unless there is one value per degree of freedom of the joint."""
        count = model.joint(self.joint).dof
        if len(self.forces[0]) != count:
            raise ModelError(
                f"joint force schedule {self.name!r}: joint {self.joint!r} has {count} freedoms, "
                f"got rows of {len(self.forces[0])}; give one number for each",
                name=self.name,
            )

    def act(self, now: ElementContext) -> Action:
        """Return the force of now."""
        force = self._table.at(now.time, now.p, now.tables)
        return Action(joint_force(now.model.joint(self.joint), force))
