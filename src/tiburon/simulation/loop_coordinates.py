"""Independent velocities of runs: selected again by `Embedding(...)`, watched by `DeNOC(...)`.

Rows W are selected at the start and again where A and W together have lost a digit of their
condition since (Khan 2002, section 4.3.2: the integrator is started again then). The velocity stays
as it is, so that z = W v of the new rows is exact.

The motors of a run by `DeNOC` stay independent: where they cease to determine all other joints, the
run ends.
"""

from typing import Any

import numpy as np

from tiburon.actuation.loop_switch import LoopCoordinates
from tiburon.algorithms.tape_calls import JointVector, taping
from tiburon.arrays import Array
from tiburon.errors import DomainError
from tiburon.functions.closed_loops import loop_jacobian
from tiburon.loops.complement import Complement
from tiburon.loops.complement_basis import BASES, total_pivots
from tiburon.loops.constraints import constraints
from tiburon.loops.denoc_state import LEAST_SINE
from tiburon.loops.metric import MIN_CUT
from tiburon.loops.stabilization import DeNOC, Embedding
from tiburon.model import Model
from tiburon.simulation.diagnosis import UNDETERMINED
from tiburon.simulation.events import Event, Watch
from tiburon.simulation.state import State
from tiburon.simulation.system import System
from tiburon.trace.program import Program

COORDINATES = "loop coordinates"
"""Name of the element and of the event."""

SINGULAR_EVENT = "singular for motors"
"""Start of the names of events at which runs by `DeNOC` end."""

MAX_LOSS = 0.1
"""Condition of A and W, relative to that at the selection, at which others are selected."""


def coordinates_element(model: Model, method: Embedding, q: Array) -> LoopCoordinates:
    """Return the element that holds W; its size is that at the configuration q, shape (nq,).

    Raises:
        DomainError: If joints are named that are not a basis of the permitted velocities.
    """
    count = model.nv - len(total_pivots(np.asarray(loop_jacobian(model, q))).columns)
    if method.independent:
        for name in method.independent:
            model.joint(name)
        given = sum(model.joint(name).nv for name in method.independent)
        if given != count:
            raise DomainError(
                "Embedding.independent",
                f"joints with {count} velocities, the degrees of freedom of {model.name!r} here",
                f"{', '.join(method.independent)} with {given}",
                advice="leave them out to have them selected",
            )
    return LoopCoordinates(COORDINATES, count)


def select_coordinates(model: Model, method: Embedding, q: Array, count: int) -> Array:
    """Return the states of the element at a configuration: condition of W, then W by rows.

    Raises:
        DomainError: If the configuration has another number of degrees of freedom, or the joints
            that are named are not a basis.
    """
    A = np.asarray(loop_jacobian(model, q))
    if method.independent:
        W = np.eye(model.nv)[model.indices(list(method.independent), of="v")]
    else:
        W = BASES[method.basis](A)
    if len(W) != count:
        raise DomainError(
            "q",
            f"a configuration with {count} degrees of freedom, as at the start of the first case",
            f"one with {len(W)}: it is singular",
            advice="start elsewhere, or leave loop_method out",
        )
    with taping(None):
        terms = constraints(model, model.plan, JointVector([float(x) for x in q]))
        basis = Complement(model, terms, W.tolist(), MIN_CUT)
        if not bool(basis.is_basis):
            raise DomainError(
                "Embedding.independent",
                "joints whose velocities determine all others",
                f"{', '.join(method.independent)}, which do not at this configuration",
                advice="name others, or leave them out to have them selected",
            )
        return np.array([float(basis.condition), *W.ravel()])


def starting_coordinates(system: System, q: Array) -> Array:
    """Return the states of the element for each case, shape (cases, states); q has (cases, nq)."""
    method, place = system.loop_method, system.coordinates
    assert isinstance(method, Embedding)
    assert place is not None
    return np.array([select_coordinates(system.model, method, one, place.rows) for one in q])


def coordinates_events(system: System) -> tuple[Event, ...]:
    """Return the events of a run that concern its independent velocities.

    Those of `Embedding` are selected again; a run by `DeNOC` ends at `SINGULAR_EVENT`.
    """
    method, place = system.loop_method, system.coordinates
    if isinstance(method, DeNOC):
        return _unheld(system)
    if not isinstance(method, Embedding) or place is None:
        return ()
    model = system.model
    # named joints are a choice for the start
    later = Embedding(method.basis, method.decay)

    def loss(state: State) -> Any:
        condition, now = system.coordinates_condition(state.q.tolist(), state.x.tolist())
        return now - MAX_LOSS * condition

    def select(state: State) -> dict[str, Array]:
        x = np.array(state.x, dtype=np.float64)
        x[place.states] = select_coordinates(model, later, np.asarray(state.q), place.rows)
        return {"x": x}

    return (Event(COORDINATES, loss, direction=-1, action=select),)


def _unheld(system: System) -> tuple[Event, ...]:
    """Return the events at which motors do not determine all other joints.

    Steps may pass over the band around zero, from both sides, or a run may start within.
    """

    def sine(state: State) -> Any:
        return system.held_sine(state.q.tolist())

    return (
        Event(
            f"{SINGULAR_EVENT}, from above",
            lambda state: sine(state) - LEAST_SINE,
            direction=-1,
            terminal=True,
        ),
        Event(
            f"{SINGULAR_EVENT}, from below",
            lambda state: sine(state) + LEAST_SINE,
            direction=1,
            terminal=True,
        ),
        Event(f"{SINGULAR_EVENT}, at once", sine, terminal=True),
    )


def unheld_message(system: System, q: Array, time: float) -> str:
    """Return the outcome of a run by `DeNOC` that ended at a configuration, as a sentence."""
    names = [system.model.v_names[i] for i in system.legs.independent]
    sine = abs(float(system.held_sine([float(x) for x in q])))
    listed = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    return (
        f"diverged at {time:.9g} s: joints {listed}, {UNDETERMINED}: the smallest sine between "
        f"motions of dependent joints fell to {sine:.1e}, runs end at {LEAST_SINE:g}; the "
        "mechanism is in a singular configuration for them: leave loop_method out, or use "
        "Embedding(...), which selects others"
    )


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
