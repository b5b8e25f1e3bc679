"""States as controllers and events see them, and commands by name."""

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tiburon.actuation.element import Element
from tiburon.argument_checks import refuse_unusable
from tiburon.arguments import public
from tiburon.errors import ModelError, ShapeError, UnknownNameError
from tiburon.model import Model

if TYPE_CHECKING:
    from tiburon.model import Model, World
    from tiburon.simulation.system import System


def control_structure(control: Any, model: "Model", world: "World") -> Hashable:
    """Return what the code of a controller depends on in a run.

    Controllers whose code depends on more of the run's robot and world than their structure, as
    where they compare them with their own, define ``structure_in(model, world)``.
    """
    within = getattr(control, "structure_in", None)
    found: Hashable = control.structure() if within is None else within(model, world)
    return found


class Readings(dict[str, Any]):
    """Latest sensor readings, by the name of the sensor."""

    def __missing__(self, name: str) -> Any:
        """Raise an error that lists the sensors of the run."""
        if not self:
            raise ModelError(
                f"state.sensors: expected a run with a sensor {name!r}, got one without sensors; "
                "pass sensors=[...]",
                name=name,
            )
        raise UnknownNameError("sensor", name, tuple(self), where="state.sensors")

    def copied(self) -> "Readings":
        """Return the same readings in arrays of their own."""
        return Readings({name: values.copy() for name, values in self.items()})


EMPTY_READINGS = Readings()


@public
class State:
    """A robot at one time of a run, or many of them: in a batch the cases lead in all arrays."""

    __slots__ = (
        *("own", "own_z", "owner", "p", "q", "sensors", "system"),
        *("tables", "time", "u", "v", "x", "z"),
    )

    time: Any
    """Time [s]; shape (...) where cases have steps of their own."""

    q: Any
    """Configuration [m or rad], shape (..., nq)."""

    v: Any
    """Joint velocity [m/s or rad/s], shape (..., nv)."""

    x: Any
    """Continuous states, in the order of `System.x_names`, shape (..., nx)."""

    u: Any
    """Commands held until now, as `System.command_names` lists them, shape (..., commands)."""

    own: Any
    """Those of x that are the controller's own; None for one without states."""

    z: Any
    """Discrete states at the start of the step, in the order of `System.z_names`, shape (nz,); None
    outside of traced controllers."""

    own_z: Any
    """Those of z that are the controller's own; None for one without discrete states."""

    sensors: Any
    """Latest readings by name of the sensor."""

    p: Any
    """Run-time parameters of a traced controller, as its `parameters` lists them; None outside of
    loops, where its own numbers hold."""

    tables: Any
    """Handles of the tables of a traced controller, one after the other; None outside of loops."""

    owner: Any
    """The controller that p and tables belong to; None outside of loops."""

    system: "System"
    """The system: robot, surroundings, elements."""

    @public
    def __init__(
        self,
        system: "System",
        time: Any,
        q: Any,
        v: Any,
        x: Any,
        u: Any = None,
        own: Any = None,
        sensors: Any = None,
    ) -> None:
        self.system = system
        self.time = time
        self.q = q
        self.v = v
        self.x = x
        self.u = u
        self.own = own
        self.z = None
        self.own_z = None
        self.sensors = EMPTY_READINGS if sensors is None else sensors
        self.p = None
        self.tables = None
        self.owner = None

    @property
    def model(self) -> "Model":
        """The robot."""
        return self.system.model

    def position(self, joint: str) -> Any:
        """Return the position variables of a joint [m or rad], shape (..., nq of the joint)."""
        return self.q[..., self.system.model.slice(joint, of="q")]

    def velocity(self, joint: str) -> Any:
        """Return the velocity variables of a joint [m/s or rad/s], shape (..., nv of the joint)."""
        return self.v[..., self.system.model.slice(joint, of="v")]

    def inner(self, name: str) -> Any:
        """Return a continuous state by its name, shape (...)."""
        return self.x[..., self.system.x_names.index(name)]

    def __repr__(self) -> str:
        return f"<State at {self.time} s: q {self.q}, v {self.v}>"


def new_state(
    system: "System", time: Any, q: Any, v: Any, x: Any, u: Any, sensors: Readings
) -> State:
    """Return a state without the checks of its constructor, which take as long as a short step."""
    state: State = _new(State)
    state.system = system
    state.time = time
    state.q = q
    state.v = v
    state.x = x
    state.u = u
    state.sensors = sensors
    state.own = state.z = state.own_z = state.p = state.tables = state.owner = None
    return state


_new = object.__new__


# commands by name

EXAMPLE = "return {'name': command}, or one joint force per velocity"


class CommandRow:
    """The commands of a system in order: joint forces first, then those of each element."""

    def __init__(self, model: Model, elements: Sequence[Element]) -> None:
        """List the commands: one joint force per velocity, then those of the elements.

        Raises:
            ModelError: If two elements have a command of the same name.
        """
        own = [name for e in elements for name in e.command_names(model)]
        taken = set(own)
        # an actuator may be named like the joint it drives: then the name means the actuator
        forces = [f"{name}.force" if name in taken else name for name in model.v_names]
        self.names = unique_names("command", (*forces, *own))
        self.nv = model.nv
        self._joints = {
            joint.name: (model.slice(joint.name, of="v"), joint.nv)
            for joint in model.joints
            if joint.nv and joint.name not in taken
        }
        self._places = {name: place for place, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def place(self, name: str) -> int:
        """Return the place of a command by its name."""
        found = self._places.get(name)
        if found is None:
            raise UnknownNameError(
                "command",
                name,
                list(dict.fromkeys([*self._places, *self._joints])),
                listing="system.command_names",
            )
        return found

    def fill(self, row: list[Any], given: Any) -> list[Any]:
        """Put commands into a row of scalars, or of arrays with one value per case.

        Args:
            row: Default values, one per command; changed in place.
            given: By name of a command or joint; or one joint force per velocity; or all commands.

        Returns:
            The row.
        """
        if isinstance(given, Mapping):
            for name, value in given.items():
                place = self._places.get(name)
                if place is not None:
                    row[place] = _one(name, value)
                elif name in self._joints:
                    where, count = self._joints[name]
                    row[where] = _several(name, value, count)
                else:
                    self.place(name)
            return row
        values = _last_dimension(given)
        if len(values) not in (self.nv, len(row)):
            raise ShapeError("control", self.described, f"{len(values)} numbers", advice=EXAMPLE)
        row[: len(values)] = values
        return row

    def write(self, row: Any, given: Any, argument: str = "control") -> None:
        """Put commands into an array of floats, shape (..., commands), in place.

        Args:
            row: Default values.
            given: As `fill` takes it.
            argument: Name for messages.
        """
        if isinstance(given, Mapping):
            places = self._places
            for name, value in given.items():
                if type(value) not in _PLAIN:
                    refuse_unusable(f"command {name!r}", value)
                place = places.get(name)
                if place is not None:
                    # None would become a NaN
                    try:
                        row[..., place] = _one(name, value) if value is None else value
                    except (TypeError, ValueError):
                        _put(row[..., place], _one(name, value), f"command {name!r}", "1 number")
                elif name in self._joints:
                    where, count = self._joints[name]
                    if np.ndim(value) == 0 or np.shape(value)[-1] != count:
                        given = f"shape {np.shape(value)}"
                        raise ShapeError(f"command {name!r}", f"{count} joint forces", given)
                    _put(row[..., where], value, f"command {name!r}", f"{count} joint forces")
                else:
                    self.place(name)
            return
        if type(given) not in _PLAIN:
            refuse_unusable(argument, given)
        size = np.shape(given)[-1] if np.ndim(given) else 0
        if size in (self.nv, len(self.names)):
            _put(row[..., :size], given, argument, self.described)
        else:
            got = f"shape {np.shape(given)}" if np.ndim(given) else f"{given!r}"
            raise ShapeError(argument, self.described, got, advice=EXAMPLE)

    def cases(self, given: Any) -> tuple[int, ...]:
        """Return the shape of the batch that initial commands have.

        Raises:
            ShapeError: If these are not numbers, or their cases do not broadcast.
        """
        named = given if isinstance(given, Mapping) else {"": given}
        shapes: dict[str, tuple[int, ...]] = {}
        for name, value in named.items():
            refuse_unusable(f"command {name!r}" if name else "command", value)
        try:
            for name, value in named.items():
                shape = np.asarray(value, dtype=np.float64).shape
                shapes[name] = shape if name in self._places else shape[:-1]
        except (TypeError, ValueError):
            raise ShapeError("command", "numbers by name, or an array", f"{given!r}") from None
        try:
            return np.broadcast_shapes(*shapes.values())
        except ValueError:
            listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            raise ShapeError("command", "cases that broadcast", listed) from None

    @property
    def described(self) -> str:
        """The number of commands, as a phrase for messages."""
        if len(self.names) == self.nv:
            return f"{self.nv} joint forces"
        return f"{self.nv} joint forces or {len(self.names)} commands"


_PLAIN = (np.ndarray, float, np.float64)
"""Types that controllers mostly return, and that have no mask."""


def _put(places: Any, given: Any, argument: str, expected: str) -> None:
    """Write numbers into places of an array, which has the cases of a run."""
    try:
        places[...] = given
    except (TypeError, ValueError) as error:
        got = f"shape {np.shape(given)}" if np.asarray(given).dtype.kind in "biuf" else f"{given!r}"
        cases = places.shape[:-1] if expected != "1 number" else places.shape
        where = f" for each of {cases} cases" if cases else ""
        raise ShapeError(argument, f"{expected}{where}", got, advice=EXAMPLE) from error


def _one(name: str, value: Any) -> Any:
    if value is None or isinstance(value, str):
        raise ShapeError(f"command {name!r}", "1 number", f"{value!r}")
    if np.ndim(value) == 0:
        return value
    values = _last_dimension(value)
    if len(values) != 1:
        raise ShapeError(f"command {name!r}", "1 number", f"{len(values)}")
    return values[0]


def _several(name: str, value: Any, count: int) -> list[Any]:
    values = [value] if np.ndim(value) == 0 else _last_dimension(value)
    if len(values) != count:
        raise ShapeError(f"command {name!r}", f"{count} joint forces", f"{len(values)}")
    return values


def _last_dimension(value: Any) -> list[Any]:
    """Return the entries of a vector; of an array with cases, one array per entry."""
    if np.ndim(value) == 0:
        raise ShapeError("control", "commands by name or a vector", f"{value!r}", advice=EXAMPLE)
    refuse_unusable("control", value)
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    if array.ndim == 1:
        # scalars, not arrays without dimensions; integers would count as constants of the code
        return [float(x) if isinstance(x, (int, np.integer)) else x for x in array]
    return [array[..., place] for place in range(array.shape[-1])]


def unique_names(kind: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return names as a tuple.

    Raises:
        ModelError: If a name occurs twice.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ModelError(
                f"{kind} {name!r}: expected names that differ, got this one twice; give one of the "
                "elements another name",
                name=name,
            )
        seen.add(name)
    return tuple(names)
