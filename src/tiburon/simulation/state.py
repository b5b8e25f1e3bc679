"""What controllers and events see of a run: one state."""

from typing import TYPE_CHECKING, Any

from tiburon.arguments import public
from tiburon.errors import ModelError, UnknownNameError

if TYPE_CHECKING:
    from tiburon.model import Model
    from tiburon.simulation.system import System

__all__ = ["Readings", "State"]


class Readings(dict[str, Any]):
    """What sensors said last, by the name of the sensor."""

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


_NOTHING = Readings()


class State:
    """A robot at one time of a run, or many of them: in a batch the cases lead in all arrays."""

    __slots__ = ("own", "owner", "p", "q", "sensors", "system", "tables", "time", "u", "v", "x")

    time: Any
    """When [s]; shape (...) where cases have steps of their own."""

    q: Any
    """Position [m or rad], shape (..., nq)."""

    v: Any
    """Joint velocity [m/s or rad/s], shape (..., nv)."""

    x: Any
    """Inner states of elements and controller, as `System.x_names` lists them, shape (..., nx)."""

    u: Any
    """Commands held until now, as `System.command_names` lists them, shape (..., commands)."""

    own: Any
    """Those of x that are the controller's own; None for one without states."""

    sensors: Any
    """Latest readings by name of the sensor."""

    p: Any
    """Run-time numbers of a traced controller, as its `parameters` lists them; None outside of
    loops, where its own numbers hold."""

    tables: Any
    """Handles of the tables of a traced controller, one after the other; None outside of loops."""

    owner: Any
    """The controller that p and tables belong to; None outside of loops."""

    system: "System"
    """What moves: robot, surroundings, elements."""

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
        self.sensors = _NOTHING if sensors is None else sensors
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
        """Return an inner state by its name, shape (...)."""
        return self.x[..., self.system.x_names.index(name)]

    def __repr__(self) -> str:
        return f"<State at {self.time} s: q {self.q}, v {self.v}>"
