"""Elements that users write as one function."""

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
    """An element whose action a function gives, on floats or traced values.

    The function takes an `ElementContext` and uses only arithmetic and NumPy functions on its
    values, no `if` on one. It returns an `Action`; or, where forces at joints are all it does,
    these by joint name; or nv joint forces. Its graph is compiled into the loop: a function that
    does something else is compiled anew, values in `numbers` may change without that.

    Example:
        A wall of 10 kN/m at x = 2 m, for the tip of an arm::

            def wall(now):
                depth = np.maximum(now.frame_pose("tip").p[0] - 2.0, 0.0)
                push = (0, 0, 0, -now.p[0] * depth, 0, 0)
                return tb.Action(wrenches={"tip": push})

            tb.ForceFunction("wall", wall, numbers=(1e4,))
    """

    name: str
    """Unique among the elements of a run."""

    function: Callable[[ElementContext], Any]
    """Gives the action."""

    states: Mapping[str, float] | tuple[tuple[str, float], ...] = field(default=(), kw_only=True)
    """Inner states by name, with their values at the start; the element's name leads theirs."""

    commands: tuple[str, ...] = field(default=(), kw_only=True)
    """Names of its commands."""

    outputs: tuple[str, ...] = field(default=(), kw_only=True)
    """Names of what it reports in `Action.outputs`."""

    numbers: tuple[float, ...] = field(default=(), kw_only=True)
    """Run-time numbers, which the function finds as `now.p`."""

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
        numbers = tuple(number(x, element, "numbers", self.name) for x in self.numbers)
        object.__setattr__(self, "numbers", numbers)
        for quantity in ("commands", "outputs"):
            object.__setattr__(self, quantity, tuple(getattr(self, quantity)))

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of its states behind its own name."""
        return tuple(f"{self.name}.{name}" for name, _ in self._states)

    def initial_state(self, model: Model) -> tuple[float, ...]:
        """Return the states at the start."""
        return tuple(x for _, x in self._states)

    def command_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of its commands."""
        return self.commands

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of what it reports."""
        return self.outputs

    def parameters(self) -> tuple[float, ...]:
        """Return its run-time parameters."""
        return self.numbers

    @property
    def state_count(self) -> int:
        """How many inner states it has."""
        return len(self._states)

    def act(self, now: ElementContext) -> Action:
        """Return what the function says."""
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
