"""What is known of a run before it starts, and what it takes to go on with one.

How a run is written down, for those who run one::

    header = RunHeader(model, world, batch=(), columns=(*state_columns(...), ...), setup={...})
    recorder = Recorder(header, rows=1001, store=None)
    recorder.append(times, {"q": ..., "v": ..., "power": ...}, checkpoint=lambda: Checkpoint(...))
    ...
    run = recorder.finish(outcomes, events, Checkpoint(...))     # a Trajectory
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiburon.errors import DomainError
from tiburon.model import Model, World
from tiburon.record import field, record
from tiburon.results.units import position_units, velocity_units

__all__ = ["Checkpoint", "Column", "RunHeader", "state_columns"]

Array = NDArray[np.float64]


@record
class Column:
    """One recorded quantity: a number, or a row of named numbers, for each time and case."""

    key: str
    """What whoever writes rows calls it, such as "q"."""

    name: str
    """Its name among the results, such as "joint_position"."""

    labels: tuple[str, ...] | None = None
    """Names along its last dimension; None for a single number."""

    units: tuple[str, ...] | str = ""
    """Unit of all, or one for each label; "" where it is not known, "1" where there is none."""

    dimension: str = ""
    """Name of the last dimension, such as "velocity"."""

    title: str = ""
    """What it is, in words for axes and tables."""

    @property
    def width(self) -> tuple[int, ...]:
        """Shape of one entry."""
        return () if self.labels is None else (len(self.labels),)

    @property
    def attributes(self) -> dict[str, str]:
        """What other programs read: title and units."""
        units = self.units if isinstance(self.units, str) else " or ".join(sorted(set(self.units)))
        given = {"long_name": self.title or self.name.replace("_", " "), "units": units}
        return {key: text for key, text in given.items() if text}

    @property
    def coordinates(self) -> dict[str, tuple[str, ...]]:
        """Names, and units where they differ, along its last dimension."""
        if self.labels is None:
            return {}
        found = {self.dimension: self.labels}
        if not isinstance(self.units, str):
            found[f"{self.name}_unit"] = self.units
        return found


def state_columns(
    model: Model, x_names: Sequence[str] = (), command_names: Sequence[str] = ()
) -> tuple[Column, ...]:
    """Return the columns of every run, with keys "q", "v", "x" and "u"; empty ones are left out.

    Args:
        model: The robot.
        x_names: Names of the inner states of elements.
        command_names: Names of commands: joint forces first, named as velocities are.
    """
    forces = tuple(force_unit(unit) for unit in velocity_units(model))
    count = len(command_names)
    columns = (
        Column(
            "q",
            "joint_position",
            model.q_names,
            position_units(model),
            "position",
            "joint position",
        ),
        Column(
            "v",
            "joint_velocity",
            model.v_names,
            velocity_units(model),
            "velocity",
            "joint velocity",
        ),
        Column("x", "inner_state", tuple(x_names), "", "state", "inner state"),
        Column(
            "u",
            "command",
            tuple(command_names),
            (*forces, *[""] * count)[:count],
            "actuator",
            "command",
        ),
    )
    return tuple(column for column in columns if column.labels)


def force_unit(velocity: str) -> str:
    """Return the unit of the force that works on a velocity, given the velocity's unit."""
    return {"rad/s": "N m", "m/s": "N"}.get(velocity, "")


@record(eq=False)
class RunHeader:
    """What is known of a run before it starts."""

    model: Model
    """The robot."""

    world: World | None
    """What surrounds it; None where the file of a loaded run could not hold it."""

    batch: tuple[int, ...]
    """Shape of the cases; () for one robot."""

    columns: tuple[Column, ...]
    """What is recorded beside the time."""

    setup: Mapping[str, Any] = field(default_factory=dict)
    """Keywords with which the run was started, as it takes them to go on: numbers, texts, arrays,
    records such as elements, or code, which a file cannot hold and is then given again."""

    elements: tuple[Any, ...] = ()
    """What acts on the robot beside joint forces, in order; of an element that the file of a loaded
    run could not hold, its name."""

    case_parameters: Mapping[str, Array] = field(default_factory=dict)
    """Numbers that differ from case to case, by the name kernels know them by ("inertia"), shape
    (*batch, count)."""

    missing: tuple[str, ...] = ()
    """Keywords of the start that the file of a loaded run could not hold."""

    def column(self, key: str) -> Column | None:
        """Return the column with a key or name, or None."""
        for column in self.columns:
            if key in (column.key, column.name):
                return column
        return None

    def shape(self, column: Column) -> tuple[int, ...]:
        """Return the shape of one row of a column."""
        return (*self.batch, *column.width)

    @property
    def row_bytes(self) -> int:
        """Size of one row of all columns and the time [bytes]."""
        return 8 * (1 + sum(int(np.prod(self.shape(column))) for column in self.columns))

    @property
    def case_dimensions(self) -> tuple[str, ...]:
        """Names of the dimensions of the batch."""
        if len(self.batch) <= 1:
            return ("case",) * len(self.batch)
        return tuple(f"case_{k}" for k in range(len(self.batch)))


@record(eq=False)
class Checkpoint:
    """All it takes to go on with a run, so that the bits are those of a run without a break."""

    step: int
    """Steps taken since the start of the run; of adaptive methods, intervals of recording."""

    time: float
    """When [s]."""

    arrays: Mapping[str, Any]
    """Numbers by name: "q", "v", "x", "u", and what the integrator remembers; any shapes."""

    notes: Mapping[str, Any] = field(default_factory=dict)
    """Anything else as plain data: numbers, texts, lists and dictionaries of these."""

    def __post_init__(self) -> None:
        arrays = {
            name: value if _is_final(value) else np.array(value)
            for name, value in self.arrays.items()
        }
        for name, value in arrays.items():
            if value.dtype == object:
                raise DomainError(
                    f"checkpoint, {name}", "an array of numbers", f"dtype {value.dtype}"
                )
        # copies: a run goes on while its checkpoint is written
        object.__setattr__(self, "arrays", arrays)


def _is_final(value: Any) -> bool:
    """Tell whether nobody can change an array any more."""
    return isinstance(value, np.ndarray) and value.base is None and not value.flags.writeable
