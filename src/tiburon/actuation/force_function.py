"""User-defined force elements: one function."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.argument_checks import check_signature
from tiburon.arguments import public
from tiburon.errors import ModelError, ShapeError, shown
from tiburon.model import Model
from tiburon.model.value_checks import check_name, number
from tiburon.record import field, record


@public
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

    discrete_states: Mapping[str, float] | tuple[tuple[str, float], ...] = field(
        default=(), kw_only=True
    )
    """Discrete states by name, with their initial values, which the function reads as `now.z`."""

    update: Callable[[ElementContext], Any] | None = field(default=None, kw_only=True)
    """Returns the discrete states after a step, from the state at its end and `now.z`."""

    commands: tuple[str, ...] = field(default=(), kw_only=True)
    """Names of its commands."""

    outputs: tuple[str, ...] = field(default=(), kw_only=True)
    """Names of its `Action.outputs`."""

    parameter_values: tuple[float, ...] = field(default=(), kw_only=True)
    """Run-time parameters, which the function reads as `now.p`."""

    def __post_init__(self) -> None:
        check_name(self.name, "force function")
        element = f"force function {self.name!r}"
        for quantity in ("function", "update"):
            given: object = getattr(self, quantity)
            if quantity == "update" and given is None:
                continue
            if not callable(given):
                raise ModelError(
                    f"{element}: {quantity} must be callable, got {shown(given)}; write a function "
                    "of an ElementContext that returns an Action, or discrete states",
                    name=self.name,
                )
            advice = f"write def {quantity}(now): ..., which finds now.q, now.v, now.x and now.time"
            check_signature(given, f"{element}: {quantity}", ("now",), advice=advice)
        for quantity in ("states", "discrete_states"):
            listed: Any = getattr(self, quantity)
            pairs = listed.items() if isinstance(listed, Mapping) else listed
            checked = tuple(
                (check_name(n, f"{element}: {quantity}"), number(x, element, n)) for n, x in pairs
            )
            object.__setattr__(self, quantity, checked)
        if (self.update is None) == bool(self.discrete_states):
            there, lacking = "discrete_states", "update"
            if self.update is not None:
                there, lacking = lacking, there
            raise ModelError(
                f"{element}: {there}: expected discrete_states and update together, got no "
                f"{lacking}; pass both, or none",
                name=self.name,
            )
        values = tuple(
            number(x, element, "parameter_values", self.name) for x in self.parameter_values
        )
        object.__setattr__(self, "parameter_values", values)
        for quantity in ("commands", "outputs"):
            object.__setattr__(self, quantity, tuple(getattr(self, quantity)))

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of its states, prefixed with its own name."""
        return tuple(f"{self.name}.{name}" for name, _ in _pairs(self.states))

    def initial_state(self, model: Model) -> tuple[float, ...]:
        """Return the initial states."""
        return tuple(x for _, x in _pairs(self.states))

    def discrete_state_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of its discrete states, prefixed with its own name."""
        return tuple(f"{self.name}.{name}" for name, _ in _pairs(self.discrete_states))

    def initial_discrete_state(self, model: Model) -> tuple[float, ...]:
        """Return the initial discrete states."""
        return tuple(x for _, x in _pairs(self.discrete_states))

    def update_discrete_state(self, now: ElementContext) -> tuple[Any, ...]:
        """Call the update function."""
        assert self.update is not None
        return tuple(np.ravel(self.update(now)))

    def command_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of its commands."""
        return self.commands

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of its outputs."""
        return self.outputs

    def parameters(self) -> tuple[float, ...]:
        """Return its run-time parameters."""
        return self.parameter_values

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


def _pairs(states: Any) -> tuple[tuple[str, float], ...]:
    """Return states that `__post_init__` has checked."""
    return states  # type: ignore[no-any-return]
