"""Contact points at the start of a run: those that slip there have kinetic friction."""

from collections.abc import Mapping

import numpy as np

from tiburon.actuation.contact_element import POINT_STATES, ContactElement
from tiburon.arrays import Array, ArrayLike
from tiburon.contact.candidates import Candidate
from tiburon.functions.contact import AT_REST, contacts_among
from tiburon.functions.parameters import CaseRows, geometry_of
from tiburon.model import Model
from tiburon.model.configuration import as_batch
from tiburon.simulation.system import System

STICKING = POINT_STATES.index("sticking")
"""Place of the mark among the states of a point."""


def starting_states(
    system: System, q: Array, v: Array, time: float, rows: Mapping[str, Array] | None = None
) -> Array:
    """Return the discrete states of a system at a start, shape (cases, nz).

    Contact points that slip do not stick; all else is as the elements say.

    Args:
        system: The system.
        q: Position [m or rad], shape (cases, nq).
        v: Joint velocity [m/s or rad/s], shape (cases, nv).
        time: When [s].
        rows: Tables of run-time parameters, of which those of the geometry count.
    """
    found = np.repeat(system.z0[None], len(q), axis=0)
    contact = system.find(ContactElement)
    # event-driven runs decide all modes themselves
    if contact is not None and not contact.element.is_event_driven:
        own, candidates = system.z0[contact.z], contact.element.candidates
        found[:, contact.z] = contact_states(
            system.model, candidates, own, q, v, time, geometry_of(rows)
        )
    return found


def contact_states(
    model: Model,
    candidates: tuple[Candidate, ...],
    states: Array,
    q: ArrayLike,
    v: ArrayLike,
    time: ArrayLike | None = None,
    geometry: CaseRows | None = None,
) -> Array:
    """Return the states of contact points at a start, shape (..., states).

    Args:
        model: The robot.
        candidates: The shapes that may touch.
        states: Initial states of all points, in the order of `POINT_STATES`, and what follows.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        time: When [s]; zero by default.
        geometry: Placements that replace those of the robot.
    """
    position = as_batch(q, model.nq, "q", model.describe_q())
    velocity = as_batch(v, model.nv, "v", model.describe_v())
    if not (velocity.any() or model.plan.depends_on_time):
        return states
    here = contacts_among(model, candidates, position, velocity, time=time, geometry=geometry)
    assert here.velocity is not None
    along = np.sum(here.velocity * here.normal, axis=-1, keepdims=True)
    slip = np.linalg.norm(here.velocity - along * here.normal, axis=-1)
    found = np.broadcast_to(states, (*slip.shape[:-1], states.size)).copy()
    width, count = len(POINT_STATES), slip.shape[-1]
    found[..., STICKING : width * count : width] *= slip <= AT_REST
    return found
