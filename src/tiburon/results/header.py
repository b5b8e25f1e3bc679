"""Headers of runs: the metadata known before a run starts, and the columns it records.

How a simulation loop records a run::

    header = RunHeader(model, world, batch=(), columns=(*state_columns(...), ...), setup={...})
    recorder = Recorder(header, rows=1001, store=None)
    recorder.append(times, {"q": ..., "v": ..., "power": ...}, checkpoint=lambda: Checkpoint(...))
    ...
    run = recorder.finish(outcomes, events, Checkpoint(...))     # a Trajectory
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tiburon.arrays import Array
from tiburon.errors import RunFileError
from tiburon.model import Model, World
from tiburon.model.joints import Driven, Joint
from tiburon.record import field, record

COORDINATE_UNITS = {
    "qw": "1",
    "qx": "1",
    "qy": "1",
    "qz": "1",
    "x": "m",
    "y": "m",
    "z": "m",
    "slide": "m",
    "vx": "m/s",
    "vy": "m/s",
    "vz": "m/s",
}
"""Units of coordinates by the last part of their name; all others are angles."""

FORCE_UNITS = {"rad/s": "N m", "m/s": "N"}
"""Units of generalized forces, by the unit of the velocity they act on."""


@record
class Column:
    """A recorded quantity: one scalar, or one vector with named entries, per time and case."""

    key: str
    """Key used by code that writes rows, such as "q"."""

    name: str
    """Name in the results, such as "joint_position"."""

    labels: tuple[str, ...] | None = None
    """Names along the last dimension; None for a scalar."""

    units: tuple[str, ...] | str = ""
    """Common unit, or one per label; "" if unknown, "1" if dimensionless."""

    dimension: str = ""
    """Name of the last dimension, such as "velocity"."""

    title: str = ""
    """Description for axes and tables."""

    @property
    def width(self) -> tuple[int, ...]:
        """Shape of one entry."""
        return () if self.labels is None else (len(self.labels),)

    @property
    def attributes(self) -> dict[str, str]:
        """Attributes that other programs read: title and units."""
        units = self.units if isinstance(self.units, str) else " or ".join(sorted(set(self.units)))
        given = {"long_name": self.title or self.name.replace("_", " "), "units": units}
        return {key: text for key, text in given.items() if text}

    @property
    def coordinates(self) -> dict[str, tuple[str, ...]]:
        """Names along the last dimension, and units where they differ."""
        if self.labels is None:
            return {}
        found = {self.dimension: self.labels}
        if not isinstance(self.units, str):
            found[f"{self.name}_unit"] = self.units
        return found


def state_columns(
    model: Model,
    x_names: Sequence[str] = (),
    command_names: Sequence[str] = (),
    z_names: Sequence[str] = (),
) -> tuple[Column, ...]:
    """Return the columns of every run, keys "q", "v", "x", "u" and "z"; empty ones are left out.

    Args:
        model: The robot.
        x_names: Names of the internal states of elements.
        command_names: Names of commands: joint forces first, with the names of velocities.
        z_names: Names of the discrete states of elements.
    """
    count = len(command_names)
    units = (*force_units(model), *[""] * count)[:count]
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
        Column("x", "internal_state", tuple(x_names), "", "state", "internal state"),
        Column("u", "command", tuple(command_names), units, "actuator", "command"),
        Column("z", "discrete_state", tuple(z_names), "", "discrete", "discrete state"),
    )
    return tuple(column for column in columns if column.labels)


def position_units(model: Model) -> tuple[str, ...]:
    """Return the unit of each of the nq position variables: "rad", "m", or "1" for quaternions."""
    return tuple(
        _unit(joint, name, "rad", "m")
        for joint in _coordinate_joints(model)
        for name in joint.q_names()
    )


def velocity_units(model: Model) -> tuple[str, ...]:
    """Return the unit of each of the nv velocity variables: "rad/s" or "m/s"."""
    return tuple(
        _unit(joint, name, "rad/s", "m/s")
        for joint in _coordinate_joints(model)
        for name in joint.v_names()
    )


def force_units(model: Model) -> tuple[str, ...]:
    """Return the unit of the generalized force on each velocity variable: "N m" or "N"."""
    return tuple(FORCE_UNITS.get(unit, "") for unit in velocity_units(model))


def _coordinate_joints(model: Model) -> list[Joint]:
    """Return the joints whose coordinates are those of the model."""
    joints = [body.joint for body in model.bodies]
    return [joint.carried if isinstance(joint, Driven) else joint for joint in joints]


def _unit(joint: Joint, name: str, angular: str, linear: str) -> str:
    """Return the unit of a coordinate of a joint."""
    if name == joint.name:
        # a joint with one degree of freedom
        return linear if joint.kind == "prismatic" else angular
    unit = COORDINATE_UNITS.get(name.rpartition(".")[2], angular)
    return linear if unit == "m" else unit


@record(eq=False)
class RunHeader:
    """Metadata of a run, known before it starts."""

    model: Model
    """The robot."""

    world: World | None
    """The surroundings; None where the file of a loaded run could not hold them."""

    batch: tuple[int, ...]
    """Shape of the batch; () for one robot."""

    columns: tuple[Column, ...]
    """Recorded columns beside the time."""

    setup: Mapping[str, Any] = field(default_factory=dict)
    """Keywords the run was started with, as needed to resume it: scalars, texts, arrays, records
    such as elements, or code, which a file cannot hold and which must be passed again."""

    elements: tuple[Any, ...] = ()
    """Elements that act on the robot, in order; the name alone of an element that the file of a
    loaded run could not hold."""

    case_parameters: Mapping[str, Array] = field(default_factory=dict)
    """Parameters that differ between cases, by their name in kernels ("inertia"), shape
    (*batch, count)."""

    missing: tuple[str, ...] = ()
    """Keywords of the setup that the file of a loaded run could not hold."""

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


def missing_world(place: str | Path) -> RunFileError:
    """Return the error for a loaded run whose world the file could not hold."""
    return RunFileError(
        place,
        "its world holds code (a current given as a function), which no file can; pass "
        "world= to load_run",
    )
