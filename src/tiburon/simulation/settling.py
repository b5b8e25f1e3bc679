"""States after a step, moved onto what holds them: paths of joints, loops, contacts in modes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tiburon.actuation.exact_contact import ExactContactElement
from tiburon.actuation.piecewise import Prescribed
from tiburon.model import Plan
from tiburon.simulation.step_end import MAX_GAP
from tiburon.spatial import Scalar, Scalars

if TYPE_CHECKING:
    from tiburon.simulation.system import System


def settle_state(
    system: "System",
    q: Scalars,
    w: Scalars,
    time: Scalar,
    u: Scalars = (),
    p: Scalars | None = None,
) -> tuple[Scalars, Scalars, Scalar]:
    """Project a state onto its constraints after a step; a tree stays as it is.

    The configuration moves by the least motion that closes the loops; then the velocity is
    projected by an impulse of the constraint forces. The same with the contacts of event-driven
    runs, whose modes are among the held values u.

    Returns:
        Configuration, velocity with continuous states, and the largest loop-closure error [m or
        rad]; above `HeldLoops.most_open` the loops could not be closed.
    """
    hold: Sequence[int] = ()
    if system.prescribes:
        prescribed, before = system.prescribed(time, p), q
        q, w = _onto_paths(q, w, prescribed)
        if system.ends_in_contact:
            # unsolved contacts are non-finite, which paths must not hide
            q = tuple(np.where(old <= MAX_GAP, x, old) for x, old in zip(q, before, strict=True))
        hold = [i for joint in prescribed for i, _ in joint.accelerations]
    loops = system.held_loops
    q, w, residual = loops.project(q, w, time, hold)
    contact = system.find(ExactContactElement)
    if contact is not None:
        v, x = w[: system.model.nv], w[system.model.nv :]

        def around(q: Scalars) -> tuple[Plan, tuple[Any, ...]]:
            plan = system.plan_at(q, v, time)
            return plan, loops.rows(plan, q, x)

        z, own = u[system.discrete][contact.z], system.own_parameters(contact, p)
        q, v_after = contact.element.settled(system.model, q, v, z, own, around)
        # contacts move within what loops allow to first order
        q, w, residual = loops.project(q, (*v_after, *x), time)
    return q, w, residual


def _onto_paths(
    q: Scalars, w: Scalars, prescribed: Sequence[Prescribed]
) -> tuple[Scalars, Scalars]:
    """Return a state with prescribed joints on their paths."""
    position, velocity = list(q), list(w)
    for joint in prescribed:
        x, xd, _ = joint.sample
        position[joint.q : joint.q + len(x)] = x
        velocity[joint.v : joint.v + len(xd)] = xd
    return tuple(position), tuple(velocity)
