"""Sums of controllers."""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from tiburon.arguments import public
from tiburon.model import Model, World
from tiburon.record import record
from tiburon.simulation.state import State, control_structure
from tiburon.trace.declared import MARK, has_structure, is_traced
from tiburon.trace.primitives.table_rows import HANDLE, Table

DISCRETE = "discrete_state_names"
"""Attribute of controllers with discrete states."""


@public
@record
class CombinedControl:
    """The sum of several controllers: commands with the same name are added.

    Traced if all parts are. Parts with states keep their own.

    Example:
        ``CombinedControl((StationKeeping.of(rov, frequency=0.8), PD(0.0, 40.0, 6.0)))``
    """

    parts: tuple[Callable[[State], Any], ...]
    """Controllers, each returning commands by name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return the state names of all parts."""
        return tuple(name for part in self.parts for name in _names(part, model))

    def initial_state(self, model: Model) -> tuple[float, ...]:
        """Return the initial states of all parts."""
        return tuple(
            x
            for part in self.parts
            if hasattr(part, "state_names")
            for x in part.initial_state(model)  # type: ignore[attr-defined]
        )

    def discrete_state_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of the discrete states of all parts."""
        return tuple(name for part in self.parts for name in _names(part, model, DISCRETE))

    def initial_discrete_state(self, model: Model) -> tuple[float, ...]:
        """Return the initial discrete states of all parts: zeros by default."""
        found: list[float] = []
        for part in self.parts:
            count = len(_names(part, model, DISCRETE))
            given = getattr(part, "initial_discrete_state", (0.0,) * count)
            found += given(model) if callable(given) else given
        return tuple(found)

    def initial_position(self, model: Model) -> tuple[float, ...] | None:
        """Return the configuration that the first part with one starts from."""
        found = (getattr(part, "initial_position", None) for part in self.parts)
        return next((position(model) for position in found if position is not None), None)

    def __call__(self, state: State) -> Any:
        """Return the summed commands, and rates and next discrete states if there are any."""
        model = state.model
        commands: dict[str, Any] = {}
        rates: list[Any] = []
        discrete: list[Any] = []
        place, whole = 0, state.own
        place_z, whole_z = 0, state.own_z
        owner, values, handles = state.owner, state.p, state.tables
        at_p, at_t = 0, 0
        for part in self.parts:
            count = len(_names(part, model))
            count_z = len(_names(part, model, DISCRETE))
            state.own = whole[..., place : place + count] if count else None
            state.own_z = whole_z[..., place_z : place_z + count_z] if count_z else None
            if owner is self:
                after_p = at_p + len(_listed(part, "parameters"))
                after_t = at_t + HANDLE * len(_listed(part, "tables"))
                state.owner = part
                state.p, state.tables = values[at_p:after_p], handles[at_t:after_t]
                at_p, at_t = after_p, after_t
            answer = part(state)
            if count or count_z:
                answer, *more = answer
                if count:
                    rates.append(more.pop(0))
                discrete += more
            if not isinstance(answer, dict):
                names = state.system.command_names[: model.nv]
                answer = {name: answer[..., k] for k, name in enumerate(names)}
            for name, value in answer.items():
                commands[name] = commands[name] + value if name in commands else value
            place, place_z = place + count, place_z + count_z
        state.own, state.own_z = whole, whole_z
        state.owner, state.p, state.tables = owner, values, handles
        if not rates and not discrete:
            return commands
        return (commands, *(np.concatenate(x, axis=-1) for x in (rates, discrete) if x))

    def parameters(self) -> tuple[float, ...]:
        """Return the run-time parameters of all parts in order."""
        return tuple(x for part in self.parts for x in _listed(part, "parameters"))

    def tables(self) -> tuple[Table, ...]:
        """Return the tables of all parts in order."""
        return tuple(x for part in self.parts for x in _listed(part, "tables"))

    @property
    def structure(self) -> Callable[[], Hashable]:
        """Structures of all parts; missing if a part has none."""
        if not all(has_structure(part) for part in self.parts):
            raise AttributeError("structure: exists only if all parts have one")
        parts: Any = self.parts
        return lambda: tuple((type(part).__qualname__, part.structure()) for part in parts)

    def structure_in(self, model: Model, world: World) -> Hashable:
        """Return the structures of all parts in a run."""
        kinds = (type(part).__qualname__ for part in self.parts)
        own = (control_structure(part, model, world) for part in self.parts)
        return tuple(zip(kinds, own, strict=True))


def _names(part: Any, model: Model, kind: str = "state_names") -> tuple[str, ...]:
    names = getattr(part, kind, ())
    return tuple(names(model) if callable(names) else names)


def _listed(part: Any, what: str) -> tuple[Any, ...]:
    """Return an attribute or the result of a method of a part; empty if there is none."""
    given = getattr(part, what, ())
    return tuple(given() if callable(given) else given)


setattr(CombinedControl, MARK, property(lambda self: all(map(is_traced, self.parts))))
