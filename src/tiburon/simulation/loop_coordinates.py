"""Independent velocities of runs by `Embedding` and `DeNOC`: selected, and selected again.

Rows W are selected at the start and again where A and W together have lost a digit of their
condition since, half a digit with `DeNOC` (Khan 2002, section 4.3.2: the integrator is started
again then). The velocity stays as it is, so that z = W v of the new rows is exact.

Runs by `DeNOC` begin with the motors, unless other joints are three times better conditioned.
"""

from typing import Any

import numpy as np

from tiburon.actuation.loop_switch import LoopCoordinates
from tiburon.algorithms.tape_calls import JointVector, taping
from tiburon.arrays import Array
from tiburon.errors import DomainError
from tiburon.functions.closed_loops import constraint_residual, loop_jacobian
from tiburon.loops.complement import Complement
from tiburon.loops.complement_basis import MIN_PIVOT, total_pivots
from tiburon.loops.constraints import constraints
from tiburon.loops.loop_method import LoopMethod
from tiburon.loops.metric import CUT_PER_RESIDUAL, max_cut
from tiburon.model import Model
from tiburon.simulation.events import Event, Watch
from tiburon.simulation.state import State
from tiburon.simulation.system import System
from tiburon.trace.program import Program

COORDINATES = "loop coordinates"
"""Name of the element and of the event."""


def coordinates_element(
    model: Model, method: LoopMethod, q: Array, tolerance: float = 0.0
) -> LoopCoordinates:
    """Return the element that holds W; its size is that at the configuration q, shape (nq,).

    Args:
        model: The robot.
        method: Selection of velocities.
        q: Configuration [m or rad], shape (nq,).
        tolerance: Relative size below which constraints are redundant.

    Raises:
        DomainError: If joints are named that are not a basis of the permitted velocities.
    """
    count = _independent(model, q, np.asarray(loop_jacobian(model, q)), tolerance)
    if method.independent:
        for name in method.independent:
            model.joint(name)
        given = sum(model.joint(name).nv for name in method.independent)
        if given != count:
            raise DomainError(
                f"{type(method).__name__}.independent",
                f"joints with {count} velocities, the degrees of freedom of {model.name!r} here",
                f"{', '.join(method.independent)} with {given}",
                advice="leave them out to have them selected",
            )
    return LoopCoordinates(COORDINATES, count)


def _independent(model: Model, q: Array, A: Array, tolerance: float) -> int:
    """Return the degrees of freedom at a configuration, whose loops may be slightly open."""
    residual = float(np.max(np.abs(constraint_residual(model, q)), initial=0.0))
    cut = max(MIN_PIVOT, tolerance, min(max_cut(model), CUT_PER_RESIDUAL * residual))
    return model.nv - len(total_pivots(A, cut=cut).columns)


def select_coordinates(model: Model, method: LoopMethod, q: Array, count: int) -> Array:
    """Return the states of the element at a configuration: condition of W, then W by rows.

    The condition is zero where no choice determines all velocities.

    Args:
        model: The robot.
        method: Selection of velocities.
        q: Configuration [m or rad], shape (nq,).
        count: Degrees of freedom at the start of the first case.
    """
    A = np.array(loop_jacobian(model, q))
    return _conditioned(model, method.select(model, A, count), q, count)


def select_at_start(model: Model, method: LoopMethod, q: Array, count: int) -> Array:
    """Return the same for the start of a run: the velocities that are preferred, where they serve.

    Those of `DeNOC` are the motors.
    """
    found, preferred = select_coordinates(model, method, q, count), method.preferred(model)
    if not preferred:
        return found
    own = _conditioned(model, np.eye(model.nv)[list(preferred)], q, count)
    if not own[0] > method.max_loss * found[0]:
        return found
    # the condition that others would have is the one to be lost
    return np.array([found[0], *own[1:]])


def _conditioned(model: Model, W: Array, q: Array, count: int) -> Array:
    """Return the condition of rows W at a configuration, then W by rows; zeros if they are few."""
    if len(W) != count:
        return np.zeros(1 + count * model.nv)
    with taping(None):
        terms = constraints(model, model.plan, JointVector([float(x) for x in q]))
        basis = Complement(model, terms, W.tolist())
        return np.array([float(basis.coordinate_condition()), *W.ravel()])


def _starting_row(
    model: Model, method: LoopMethod, q: Array, count: int, tolerance: float
) -> Array:
    """Return the states of the element at the start of a case.

    Raises:
        DomainError: If the configuration has another number of degrees of freedom, or the joints
            that are named are not a basis.
    """
    own = _independent(model, q, np.asarray(loop_jacobian(model, q)), tolerance)
    if own != count:
        raise DomainError(
            "q",
            f"a configuration with {count} degrees of freedom, as at the start of the first case",
            f"one with {own}: one of them is singular",
            advice="start elsewhere, or write loops=tb.Projection()",
        )
    found, named = select_at_start(model, method, q, count), method.independent
    if not found[0] > 0.0:
        raise DomainError(
            f"{type(method).__name__}.independent" if named else "q",
            "joints whose velocities determine all others",
            f"{', '.join(named) or 'joints selected here'}, which do not at this configuration",
            advice="name others, or leave them out to have them selected"
            if named
            else "start elsewhere, or write loops=tb.Projection()",
        )
    return found


def starting_coordinates(system: System, q: Array) -> Array:
    """Return the states of the element for each case, shape (cases, states); q has (cases, nq)."""
    method, place = system.loops, system.held_loops.coordinates
    assert place is not None
    how = (place.rows, system.loops.redundancy_tolerance)
    return np.array([_starting_row(system.model, method, one, *how) for one in q])


def coordinates_events(system: System) -> tuple[Event, ...]:
    """Return the event at which other independent velocities are selected."""
    method, place = system.loops, system.held_loops.coordinates
    if place is None:
        return ()
    model = system.model
    later = method.after_start()

    def loss(state: State) -> Any:
        condition, now = system.held_loops.coordinates_condition(state.q.tolist(), state.x.tolist())
        return now - method.max_loss * condition

    def select(state: State) -> dict[str, Array]:
        x = np.array(state.x, dtype=np.float64)
        found = select_coordinates(model, later, np.asarray(state.q), place.rows)
        # in a singular configuration no choice is better: the run ends where these are lost
        if found[0] > 0.0:
            x[place.states] = found
        return {"x": x}

    return (Event(COORDINATES, loss, direction=-1, action=select),)


class CoordinatesWatch(Watch):
    """Events of independent velocities as the only ones of a run; traced once per system.

    What users write may change from run to run and is traced each time; this cannot.
    """

    def program(self, system: System) -> Program:
        """Return the traced expression."""
        found: Program | None = system.kept.get(COORDINATES)
        if found is None:
            found = system.kept[COORDINATES] = super().program(system)
        return found
