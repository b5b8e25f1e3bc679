"""How the functions of trees find what to do where loops are closed.

Closed chains live in a room of their own above this one, which needs all that is here. Public
functions are the same for trees and closed chains: they ask here, by name, for the form of their
algorithm that heeds loops. The room of loops is loaded when the first robot with loops comes.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["INSTEAD", "LOOP_METHODS", "closed_form", "has_closed_form"]

CLOSED: dict[str, Callable[..., Any]] = {}
"""By name of a public function, what runs in its place where loops are closed."""

LOOP_METHODS = ("augmented", "handles", "proximal")
"""Methods of forward dynamics where loops are closed (`tiburon.loops.methods`)."""

INSTEAD = {
    "bias_force": "inverse_dynamics for what actuators must do",
    "floating_base_inverse_dynamics": "hybrid_dynamics with the accelerations that are known",
    "gravity_force": "inverse_dynamics at rest for what actuators must do",
    "inverse_kinematics": "assemble(model, q, place={frame: pose})",
    "inverse_mass_matrix": "forward_dynamics_derivatives(...).by_tau for what loops leave of it",
    "mass_matrix": "apparent_inertia for what is felt with loops closed",
    "prepare_dynamics": "forward_dynamics",
    "trim": "loop_inverse_dynamics for what holds a position",
}
"""By name of a function for trees alone, what to take where loops are closed."""

LOOPS = "tiburon.loops.closed_functions"
"""The module that fills the table."""


def closed_form(function: str) -> Callable[..., Any] | None:
    """Return what runs in place of a function where loops are closed; None if nothing can."""
    import_module(LOOPS)
    return CLOSED.get(function)


def has_closed_form(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a function as the form of a public one for robots with loops."""

    def keep(run: Callable[..., Any]) -> Callable[..., Any]:
        CLOSED[name] = run
        return run

    return keep
