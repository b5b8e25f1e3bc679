"""Layout of a robot with its elements and controller: where states, held values and parameters are.

Symbols:
    x   continuous states of elements and controller
    u   held values: commands (joint forces, then those of the elements in order), rates of a
        sampled controller, sensor readings of a traced controller, z
    z   discrete states: of elements, updated once per step; of a sampled controller, by itself
    p   run-time parameters of the elements
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from tiburon.actuation.element import Element, ElementContext, check_count
from tiburon.arguments import public
from tiburon.errors import ModelError, ShapeError
from tiburon.model import Model
from tiburon.results.header import Column, state_columns
from tiburon.simulation.state import CommandRow, unique_names
from tiburon.spatial import Scalars
from tiburon.trace.primitives.table_rows import HANDLE, Table

ELEMENTS = "elements"
"""Name of the kernel parameter with the run-time parameters of all elements."""

CONTROL = "control"
"""Name of the kernel parameter with the run-time parameters of a traced controller."""

TABLES = "tables"
"""Name of the kernel parameter with the handles of all tables; users cannot set it."""

PARTITION = "partition"
"""Name of the kernel parameter with the parts that a process computes, and addresses of messages;
users cannot set it."""

RUN_TIME = (ELEMENTS, CONTROL, TABLES, PARTITION)
"""Kernel parameters of the system itself."""

E = TypeVar("E", bound=Element)


class Placed(NamedTuple, Generic[E]):
    """An element, and the places of its values among those of all elements."""

    element: E

    x: slice
    """Continuous states."""

    u: slice
    """Commands, after those of the joints."""

    z: slice
    """Discrete states."""

    p: slice
    """Run-time parameters."""

    tables: slice
    """Handles of tables."""

    @property
    def state_count(self) -> int:
        """Number of its continuous states."""
        return int(self.x.stop - self.x.start)

    def updated(self, now: ElementContext) -> Scalars:
        """Return its discrete states after a step, from the state at the end of the step."""
        count = int(self.z.stop - self.z.start)
        if not count:
            return ()
        found = tuple(self.element.update_discrete_state(now))
        check_count(self.element, "discrete states", count, found)
        return found


@public
class Layout:
    """The values of a robot with its elements and controller, in order.

    Attributes:
        sensed: Sensors that the controller reads, by name, with their number of channels.
        partition: The robot in parts during a run; None undivided.
        own_names: Names of the controller's own continuous states.
        own_z_names: Names of its discrete states.

    Others are those of `System`.
    """

    def __init__(
        self,
        model: Model,
        elements: Sequence[Element],
        control: Any,
        *,
        held: bool,
        sensed: Sequence[tuple[str, int]],
        steps: bool,
        partition: Any,
    ) -> None:
        """List the values; arguments as of `System`."""
        self.model = model
        self.elements = tuple(elements)
        self.control = control
        self.held = held
        self.sensed = tuple(sensed)
        self.partition = partition
        unique_names("element", [element.name for element in self.elements])
        for element in self.elements:
            element.check(model)
        self.commands = CommandRow(model, self.elements)
        self.command_names = self.commands.names
        own = getattr(control, "state_names", None)
        self.own_names: tuple[str, ...] = () if own is None else tuple(called(own, model))
        own_z = getattr(control, "discrete_state_names", ())
        self.own_z_names: tuple[str, ...] = tuple(called(own_z, model))
        if self.own_z_names and not held:
            raise ModelError(
                f"control: expected a sampled controller, since it has the discrete state "
                f"{self.own_z_names[0]!r}, got one that runs at every stage; pass tb.Sampled"
            )
        # kept as long as code may read them
        self._tables = [e.tables() for e in self.elements]
        self.placed = tuple(_placed(model, self.elements, self._tables))
        self._control_tables = tuple(called(getattr(control, "tables", ())))
        self._found: dict[type[Element], Placed[Any] | None] = {}
        self._bound: Mapping[str, Scalars] | None = None
        self.x_names = unique_names(
            "inner state",
            [*(n for e in self.elements for n in e.state_names(model)), *self.own_names],
        )
        self.nx = len(self.x_names)
        start = [x for e in self.elements for x in e.initial_state(model)]
        if self.own_names:
            start += called(control.initial_state, model)
        self.x0 = np.array(start, dtype=np.float64)
        in_order = sorted(self.elements, key=attrgetter("states_last"))
        self.z_names = unique_names(
            "discrete state",
            [*(n for e in in_order for n in e.discrete_state_names(model)), *self.own_z_names],
        )
        first = [z for e in in_order for z in e.initial_discrete_state(model)]
        self.z0 = np.array([*first, *self.first_control_states()], dtype=np.float64)
        if self.z_names and not steps:
            found = [e.name for e in self.elements if e.discrete_state_names(model)]
            who = f"element {found[0]!r}" if found else "control"
            raise ModelError(
                f"{who}: expected a run of equal steps, which updates its "
                f"discrete states, got another use; use simulate, or leave the "
                f"{'element' if found else 'controller'} out",
                name=found[0] if found else None,
            )

    def first_control_states(self) -> tuple[float, ...]:
        """Return the initial discrete states of the controller: zeros by default."""
        count = len(self.own_z_names)
        given = getattr(self.control, "initial_discrete_state", (0.0,) * count) if count else ()
        found = tuple(float(z) for z in called(given, self.model))
        if len(found) != count:
            raise ShapeError(
                "control: initial discrete states",
                f"{count} ({', '.join(self.own_z_names)})",
                len(found),
            )
        return found

    def find(self, kind: type[E]) -> Placed[E] | None:
        """Return the first element of a kind with the places of its values; None without one."""
        if kind not in self._found:
            own = (one for one in self.placed if isinstance(one.element, kind))
            self._found[kind] = next(own, None)
        return self._found[kind]

    # what elements do

    @cached_property
    def prescribes(self) -> bool:
        """Whether joints follow given paths."""
        return any(element.prescribes for element in self.elements)

    @cached_property
    def stops_joints(self) -> bool:
        """Whether joints have stops."""
        return any(element.stops_joints for element in self.elements)

    @cached_property
    def event_driven(self) -> Placed[Element] | None:
        """The element that constrains accelerations, in modes that events change; None without."""
        return next((one for one in self.placed if one.element.is_event_driven), None)

    @cached_property
    def is_exact(self) -> bool:
        """Whether contacts constrain accelerations, in modes that events change."""
        return self.event_driven is not None

    @cached_property
    def acts_in_contact(self) -> bool:
        """Whether steps begin with forces of elements that are known from the last one."""
        return any(element.starts_steps for element in self.elements)

    @cached_property
    def ends_in_contact(self) -> bool:
        """Whether impulses of contact act at the ends of steps."""
        return any(element.ends_steps for element in self.elements)

    @cached_property
    def has_meshes(self) -> bool:
        """Whether contacts are located outside of compiled code."""
        return any(element.is_located for element in self.elements)

    # places

    @cached_property
    def drive_size(self) -> int:
        """Number of held values: commands, rates of a sampled controller, readings, z."""
        return int(self.discrete.stop)

    @cached_property
    def readings(self) -> slice:
        """Place of the sensor readings among the held values."""
        start = len(self.command_names) + (len(self.own_names) if self.held else 0)
        return slice(start, start + sum(count for _, count in self.sensed))

    @cached_property
    def discrete(self) -> slice:
        """Place of the discrete states among the held values."""
        return slice(self.readings.stop, self.readings.stop + len(self.z_names))

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Recorded columns: states, commands, discrete states."""
        return state_columns(self.model, self.x_names, self.command_names, self.z_names)

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs that elements report."""
        return unique_names(
            "output", [name for e in self.elements for name in e.output_names(self.model)]
        )

    # run-time parameters

    def numbers(self) -> tuple[float, ...]:
        """Return the run-time parameters of all elements."""
        return tuple(x for element in self.elements for x in element.parameters())

    def control_numbers(self) -> tuple[float, ...]:
        """Return the run-time parameters of the traced controller."""
        given = called(getattr(self.control, "parameters", ()))
        return tuple(np.ravel(np.asarray(given, dtype=np.float64)).tolist())

    @cached_property
    def _handles(self) -> tuple[float, ...]:
        """Handles of all tables: of elements in order, then of the controller."""
        tables = (table for own in (*self._tables, self._control_tables) for table in own)
        return tuple(x for table in tables for x in table.handle)

    @property
    def control_handles(self) -> Scalars:
        """Handles of the tables of the controller."""
        handles = self.run_time(TABLES)
        return tuple(handles[len(handles) - HANDLE * len(self._control_tables) :])

    def run_time(self, name: str) -> Scalars:
        """Return run-time parameters: those bound in a trace, or their values."""
        if self._bound is not None:
            return self._bound[name]
        if name == TABLES:
            return self._handles
        if name == PARTITION:
            return self.partition.numbers if self.partition is not None else ()
        return self.numbers() if name == ELEMENTS else self.control_numbers()

    def of_all(self, p: Scalars | None) -> Scalars:
        """Return the run-time parameters of all elements: given ones, or their own."""
        return self.run_time(ELEMENTS) if p is None else p

    def own_parameters(self, placed: Placed[Any], p: Scalars | None = None) -> Scalars:
        """Return the run-time parameters of an element, then the handles of its tables."""
        return (*self.of_all(p)[placed.p], *self.run_time(TABLES)[placed.tables])


def _placed(
    model: Model, elements: Sequence[Element], tables: Sequence[tuple[Table, ...]]
) -> Iterator[Placed[Element]]:
    """Yield each element with the places of its values."""
    ends = [0, model.nv, 0, 0]
    held = [len(e.discrete_state_names(model)) for e in elements]
    last = sum(n for n, e in zip(held, elements, strict=True) if not e.states_last)
    first = 0
    for e, own, n in zip(elements, tables, held, strict=True):
        names = (e.state_names(model), e.command_names(model))
        counts = (*map(len, names), len(e.parameters()), HANDLE * len(own))
        begins, ends = ends, [end + count for end, count in zip(ends, counts, strict=True)]
        x, u, p, handles = map(slice, begins, ends)
        if e.states_last:
            z, last = slice(last, last + n), last + n
        else:
            z, first = slice(first, first + n), first + n
        yield Placed(e, x, u, z, p, handles)


def called(thing: Any, *given: Any) -> Any:
    """Return names or numbers that may be given as such, or by a function."""
    return thing(*given) if callable(thing) else thing
