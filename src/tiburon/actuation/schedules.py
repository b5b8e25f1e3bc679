"""Forces given by tables in time, independent of the state of the robot."""

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from tiburon.actuation.element import Action, Element, ElementContext, joint_force
from tiburon.argument_checks import choice, is_numeric, refuse_unusable
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import ModelError
from tiburon.model import Model
from tiburon.model.value_checks import check_name, finite_array
from tiburon.record import record
from tiburon.spatial import Scalar, Scalars
from tiburon.spatial.vec3 import matrix_vector, transpose, vec3
from tiburon.trace.primitives.table_rows import HANDLE, Table, read_rows, table_form

INTERPOLATIONS = ("linear", "hold")
"""Interpolation between rows: linear, or zero-order hold of the earlier row."""

MAX_PARAMETER_ROWS = 32
"""Number of rows up to which a table consists of run-time parameters, which may differ between
cases. Longer tables are stored beside the code and shared by all cases, because every row of a
short table costs time in each step."""


@record(eq=False)
class Column:
    """Times or rows of a long table: an immutable array, compared by value."""

    values: Array
    """Shape (n,) or (n, width)."""

    @classmethod
    def of(cls, values: ArrayLike) -> "Column":
        """Return a read-only copy of an array."""
        refuse_unusable("table", values)
        found = np.array(values, dtype=np.float64, order="C")
        found.flags.writeable = False
        return cls(found)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: Any) -> Any:
        return self.values[place]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values.tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Convert to an array, for NumPy functions."""
        return np.array(self.values, dtype=dtype) if copy else np.asarray(self.values, dtype=dtype)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Column):
            return NotImplemented
        return np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash(self.values.tobytes())

    def __repr__(self) -> str:
        return f"Column(shape {self.values.shape})"


Rows = tuple[tuple[float, ...], ...] | Column
Times = tuple[float, ...] | Column


def checked_table(
    times: ArrayLike,
    rows: ArrayLike,
    width: int | None,
    interpolation: str,
    element: str,
    name: str,
    argument: str = "rows",
) -> tuple[Times, Rows]:
    """Check times and rows of a table; return tuples for short tables, columns for long ones.

    Args:
        times: Increasing [s], shape (n,).
        rows: One row per time, shape (n, width), or (n,) for rows of one value.
        width: Number of values per row; any number if None.
        interpolation: One of `INTERPOLATIONS`.
        element: Prefix of messages.
        name: Name of the element, for the error's attribute.
        argument: Name of the rows in messages.
    """
    choice("interpolation", interpolation, INTERPOLATIONS)
    count = np.size(times)
    if not count:
        raise ModelError(
            f"{element}: times must be one or more, got none; leave the element out", name=name
        )
    when = finite_array(times, (count,), element, "times", name)
    fall = np.flatnonzero(np.diff(when) <= 0.0)
    if len(fall):
        k = int(fall[0])
        raise ModelError(
            f"{element}: times must rise, got {when[k + 1]:g} s after {when[k]:g} s (row {k + 1}); "
            "sort the rows",
            name=name,
        )
    shape = np.shape(rows) if is_numeric(rows) else (count, width or 1)
    given = finite_array(rows, shape, element, argument, name)
    given = given.reshape(-1, 1) if given.ndim == 1 and width in (None, 1) else given
    expected = given.shape[-1] if width is None and given.ndim == 2 else width or 1
    checked = finite_array(given, (count, expected), element, argument, name)
    if count > MAX_PARAMETER_ROWS:
        return Column.of(when), Column.of(checked)
    return tuple(when.tolist()), tuple(map(tuple, checked.tolist()))


class TimeTable:
    """A table of an element: run-time parameters if it is short, data beside the code if long."""

    def __init__(self, times: Times, rows: Rows, interpolation: str) -> None:
        """Store the results of `checked_table`."""
        self._times, self._rows, self._interpolation = times, rows, interpolation

    @property
    def _is_long(self) -> bool:
        return isinstance(self._times, Column)

    @property
    def width(self) -> int:
        """Number of values per row."""
        return len(self._rows[0])

    def parameters(self) -> tuple[float, ...]:
        """Return the run-time parameters of a short table: times, then rows."""
        if self._is_long:
            return ()
        assert isinstance(self._times, tuple)
        return (*self._times, *(x for row in self._rows for x in row))

    def tables(self) -> tuple[Table, ...]:
        """Return the data of a long table."""
        return (Table(self._times, self._rows),) if self._is_long else ()

    def structure(self) -> tuple[Any, ...]:
        """Return what compiled code depends on."""
        if self._is_long:
            return ("long", *self._form, self._interpolation)
        return (len(self._times), self.width, self._interpolation)

    @property
    def _form(self) -> tuple[int, int]:
        return table_form(len(self._times), self.width)

    def at(self, time: Scalar, parameters: Scalars, handle: Scalars) -> tuple[Scalar, ...]:
        """Interpolate the row at a time [s]; constant before the first and after the last row.

        Args:
            time: Time [s].
            parameters: Values of `parameters` in this run.
            handle: Handle of a long table, `HANDLE` scalars.
        """
        linear = self._interpolation == "linear"
        if self._is_long:
            return tuple(read_rows(self._form, handle[:HANDLE], time, line=linear))
        count, width = len(self._times), self.width
        times = parameters[:count]
        rows: list[Scalars] = [
            parameters[count + width * k : count + width * (k + 1)] for k in range(count)
        ]
        found = list(rows[0])
        for k in range(count - 1):
            begin, end = times[k], times[k + 1]
            if linear:
                share = np.minimum(np.maximum((time - begin) / (end - begin), 0.0), 1.0)
            else:
                share = np.where(time >= end, 1.0, 0.0)
            for j, (a, b) in enumerate(zip(rows[k], rows[k + 1], strict=True)):
                found[j] = found[j] + share * (b - a)
        return tuple(found)


class _Schedule(Element):
    """An element with a table; subclasses define `_table`."""

    __slots__ = ()

    @property
    def _table(self) -> TimeTable:
        raise NotImplementedError

    def parameters(self) -> tuple[float, ...]:
        """Return times and rows of a short table."""
        return self._table.parameters()

    def tables(self) -> tuple[Table, ...]:
        """Return a long table."""
        return self._table.tables()


@public
@record
class WrenchSchedule(_Schedule):
    """A wrench on a body or frame from a table of any length, which is never compiled in.

    Tables of up to 32 rows are run-time parameters and may differ between cases; longer ones are
    shared by all cases. The first and last row hold outside the table. High-order integrators are
    most accurate if steps end at the corners of the table.

    Example:
        A push of 50 N for a tenth of a second::

            tb.WrenchSchedule("kick", "hull", times=(0, 1.0, 1.1), interpolation="hold",
                              wrenches=((0,) * 6, (0, 0, 0, 50, 0, 0), (0,) * 6))
    """

    name: str
    """Unique among the elements of a run."""

    frame: str
    """Name of the body or frame."""

    times: Times
    """Time of each row, increasing [s]."""

    wrenches: Rows
    """One row [n; f] per time, at the frame's origin [N m, N]."""

    axes: str = "frame"
    """Axes of the rows: "frame", the frame's own, or "world"."""

    interpolation: str = "linear"
    """Between two rows: "linear", or "hold" for the earlier row."""

    def __post_init__(self) -> None:
        check_name(self.name, "wrench schedule")
        element = f"wrench schedule {self.name!r}"
        choice("axes", self.axes, ("frame", "world"))
        times, rows = checked_table(
            self.times, self.wrenches, 6, self.interpolation, element, self.name, "wrenches"
        )
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "wrenches", rows)

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return the scheduled moment and force [N m, N]."""
        return tuple(f"{self.name}.{x}" for x in ("nx", "ny", "nz", "fx", "fy", "fz"))

    @property
    def _table(self) -> TimeTable:
        return TimeTable(self.times, self.wrenches, self.interpolation)

    def structure(self) -> Hashable:
        """Return the frame, the form of the table and the axes."""
        return (self.frame, self._table.structure(), self.axes)

    def check(self, model: Model) -> None:
        """Raise an error if there is no such body or frame."""
        model.plan.frame(self.frame)

    def act(self, now: ElementContext) -> Action:
        """Compute the wrench at the present time."""
        wrench = self._table.at(now.time, now.p, now.tables)
        outputs = dict(zip(self.output_names(now.model), wrench, strict=True))
        if self.axes == "world":
            R = transpose(now.frame_pose(self.frame).R)
            parts = (wrench[:3], wrench[3:])
            wrench = tuple(x for part in parts for x in matrix_vector(R, vec3(part)))
        return Action(wrenches={self.frame: wrench}, outputs=outputs)


@public
@record
class JointForceSchedule(_Schedule):
    """A joint force from a table, as for `WrenchSchedule`.

    Example:
        ``tb.JointForceSchedule("sweep", "elbow", times=(0, 1, 2), forces=(0, 5, 0))``
    """

    name: str
    """Unique among the elements of a run."""

    joint: str
    """Name of the joint."""

    times: Times
    """Time of each row, increasing [s]."""

    forces: Rows
    """One row per time, one value per degree of freedom [N or N m]; for a single degree of freedom
    a list of values is accepted."""

    interpolation: str = "linear"
    """Between two rows: "linear", or "hold" for the earlier row."""

    def __post_init__(self) -> None:
        check_name(self.name, "joint force schedule")
        element = f"joint force schedule {self.name!r}"
        times, rows = checked_table(
            self.times, self.forces, None, self.interpolation, element, self.name, "forces"
        )
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "forces", rows)

    @property
    def _table(self) -> TimeTable:
        return TimeTable(self.times, self.forces, self.interpolation)

    def structure(self) -> Hashable:
        """Return the joint and the form of the table."""
        return (self.joint, self._table.structure())

    def check(self, model: Model) -> None:
        """Raise an error unless rows have one value per degree of freedom of the joint."""
        count = model.joint(self.joint).dof
        if len(self.forces[0]) != count:
            raise ModelError(
                f"joint force schedule {self.name!r}: joint {self.joint!r} has {count} degrees of "
                f"freedom, got rows of {len(self.forces[0])}; give one value for each",
                name=self.name,
            )

    def act(self, now: ElementContext) -> Action:
        """Compute the joint force at the present time."""
        force = self._table.at(now.time, now.p, now.tables)
        return Action(joint_force(now.model.joint(self.joint), force))
