"""User-defined force elements: one function."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.argument_checks import check_signature
from tiburon.errors import ModelError, ShapeError, shown
from tiburon.model import Model
from tiburon.model.value_checks import check_name, number
from tiburon.record import field, record

__all__ = ["ForceFunction"]


@record
class ForceFunction(Element):
    """A force element defined by a function of an `ElementContext`, on floats or traced values.

    The function uses only arithmetic and NumPy functions on values, no `if`. It returns an
    `Action`, joint forces by joint name, or nv joint forces. Its graph is compiled into the time
    loop; changing `parameter_values` does not recompile.

    Example:
        A wall of 10 kN/m at x = 2 m, for the tip of an arm::

            def wall(now):
                depth = np.maximum(now.frame_pose("tip").p[0] - 2.0, 0.0)
                push = (0, 0, 0, -now.p[0] * depth, 0, 0)
                return tb.Action(wrenches={"tip": push})

            tb.ForceFunction("wall", wall, parameter_values=(1e4,))
    """

    name: str
    """Unique among the elements of a run."""

    function: Callable[[ElementContext], Any]
    """Returns the action."""

    states: Mapping[str, float] | tuple[tuple[str, float], ...] = field(default=(), kw_only=True)
    """States by name, with their initial values; the element's name is prefixed."""

    commands: tuple[str, ...] = field(default=(), kw_only=True)
    """Names of its commands."""

    outputs: tuple[str, ...] = field(default=(), kw_only=True)
    """Names of its `Action.outputs`."""

    parameter_values: tuple[float, ...] = field(default=(), kw_only=True)
    """Run-time parameters, which the function reads as `now.p`."""

    def __post_init__(self) -> None:
        check_name(self.name, "force function")
        element = f"force function {self.name!r}"
        given: object = self.function
        if not callable(given):
            raise ModelError(
                f"{element}: function must be callable, got {shown(given)}; write a function of a "
                "ElementContext that returns an Action",
                name=self.name,
            )
        advice = "write def force(now): ..., which finds now.q, now.v, now.x, now.u and now.time"
        check_signature(given, f"{element}: function", ("now",), advice=advice)
        states = self.states.items() if isinstance(self.states, Mapping) else self.states
        checked = tuple(
            (check_name(n, f"{element}: states"), number(x, element, n)) for n, x in states
        )
        object.__setattr__(self, "states", checked)
        values = tuple(
            number(x, element, "parameter_values", self.name) for x in self.parameter_values
        )
        object.__setattr__(self, "parameter_values", values)
        for quantity in ("commands", "outputs"):
            object.__setattr__(self, quantity, tuple(getattr(self, quantity)))

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of its states, prefixed with its own name."""
        return tuple(f"{self.name}.{name}" for name, _ in self._states)

    def initial_state(self, model: Model) -> tuple[float, ...]:
        """Return the initial states."""
        return tuple(x for _, x in self._states)

    def command_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of its commands."""
        return self.commands

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of its outputs."""
        return self.outputs

    def parameters(self) -> tuple[float, ...]:
        """Return its run-time parameters."""
        return self.parameter_values

    @property
    def state_count(self) -> int:
        """Number of states."""
        return len(self._states)

    def act(self, now: ElementContext) -> Action:
        """Call the function, and convert its result to an `Action`."""
        answer = self.function(now)
        if isinstance(answer, Action):
            return answer
        if answer is None:
            return Action()
        if isinstance(answer, Mapping):
            named = {
                joint: (force,) if np.ndim(force) == 0 else tuple(force)
                for joint, force in answer.items()
            }
            return Action(named)
        if np.ndim(answer) != 1:
            raise ShapeError(
                f"force function {self.name!r}",
                "an Action, forces by joint name, or a vector of nv joint forces",
                f"{type(answer).__name__}",
            )
        return Action(tuple(answer))

    @property
    def _states(self) -> tuple[tuple[str, float], ...]:
        assert isinstance(self.states, tuple)
        return self.states
