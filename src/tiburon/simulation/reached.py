"""What acts on a robot in a state that a run has reached, contacts included.

Recorded rows and sensors ask for it: accelerations, wrenches, forces that prescribed joints take.
"""

import itertools
from collections.abc import Sequence
from operator import add
from typing import TYPE_CHECKING, NamedTuple

from tiburon.actuation.contact_element import ContactElement, PointForces
from tiburon.actuation.element import AppliedForces, summed_wrenches
from tiburon.algorithms.kinematics import frame_places
from tiburon.algorithms.setting import Setting, forces_on_bodies
from tiburon.algorithms.tape_calls import JointVector
from tiburon.contact.candidates import Candidate
from tiburon.contact.mode_forces import HeldContacts
from tiburon.errors import ModelError
from tiburon.model import WORLD, Plan
from tiburon.simulation.accelerations import accelerations, hybrid_motion
from tiburon.spatial import Scalar, Scalars
from tiburon.spatial.vec3 import ZERO3, cross, negate, subtract, transpose_vector
from tiburon.spatial.vec3 import add as add3

if TYPE_CHECKING:
    from tiburon.simulation.system import System


class Reached(NamedTuple):
    """What acts on a robot in a state at the end of a step, contacts included."""

    here: Setting
    """Conditions with all external forces."""

    driving: AppliedForces
    """The sum of what elements and contacts exert."""

    vd: Scalars
    """Joint accelerations [m/s^2 or rad/s^2], nv scalars."""

    constraint_force: Scalars
    """Constraint forces of loops [N or N m]."""


def reached(
    system: "System", q: Scalars, w: Scalars, u: Scalars, time: Scalar, p: Scalars | None = None
) -> Reached:
    """Return what acts in a state at the end of a step, contacts included; see `System.rates`.

    Rigid contacts act with their mean forces over that step.

    Raises:
        ModelError: If contacts of meshes act, whose points are known to their step alone.
    """
    contact = system.find(ContactElement)
    for candidate in () if contact is None else contact.element.candidates:
        if candidate.is_located:
            raise ModelError(
                f"contact {candidate.name!r}: accelerations and joint forces in contact "
                "are not known for meshes, whose contacts are located before every step; "
                "cover them with simple shapes: tb.cover_meshes",
                name=candidate.name,
            )
    guided = None
    if system.held_loops.is_guided:
        guided = system.held_loops.guided_state(q, w)
        q, w = guided.q, (*guided.v, *w[system.model.nv :])
    q, v, x = system.split(q, w)
    here, driving, _ = system.acting(q, v, x, u, time, p, updated=True)
    prescribed = system.prescribed(time, p)

    # contacts push by the forces of their points instead
    driving.force = list(system.with_carried_forces(driving.force, q, u, besides=contact))

    def moved() -> tuple[Scalars, Scalars]:
        return accelerations(system, here, q, v, x, driving.force, prescribed, guided)

    def held() -> HeldContacts:
        found = system.held_contacts(here, q, v, x, moved()[0], u, p)
        assert found is not None
        return found

    known = None
    if contact is not None:
        element, z = contact.element, u[system.discrete][contact.z]
        known = element.point_forces(here.plan, q, z, system.own_parameters(contact, p), held)
    if contact is None or known is None:
        return Reached(here, driving, *moved())
    found = _contact_wrenches(contact.element.candidates, here.plan, q, known)
    driving.wrenches += found.items()
    pushed = forces_on_bodies(here.plan, q, found, "frame")
    if pushed is not None:
        others = here.external
        here = here._replace(external=pushed if others is None else tuple(map(add, others, pushed)))
    return Reached(here, driving, *moved())


def _contact_wrenches(
    candidates: Sequence[Candidate],
    plan: Plan,
    q: JointVector,
    acting: PointForces,
) -> dict[str, Scalars]:
    """Return wrenches of contacts on frames, in their axes."""
    pairs = [
        (candidate.first.body, candidate.second.body)
        for candidate in candidates
        for _ in candidate.point_names
    ]
    frames = [one for one in dict.fromkeys(itertools.chain(*pairs)) if one != WORLD]
    places = dict(zip(frames, frame_places(plan, q, tuple(frames)), strict=True))
    found: list[tuple[str, Scalars]] = []
    points = zip(pairs, acting.geometries, acting.forces, strict=True)
    for k, (pair, geometry, push) in enumerate(points):
        turns = acting.moments.get(k, ZERO3)
        both = (push, negate(push)), (turns, negate(turns))
        for frame, force, own in zip(pair, *both, strict=True):
            if frame != WORLD:
                R, origin = places[frame].R, places[frame].p
                moment = cross(subtract(geometry.point, origin), force)
                if k in acting.moments:
                    moment = add3(moment, own)
                found.append((frame, (*transpose_vector(R, moment), *transpose_vector(R, force))))
    return summed_wrenches(found)


def prescribed_force(
    system: "System", q: Scalars, w: Scalars, u: Scalars, time: Scalar, p: Scalars | None = None
) -> Scalars:
    """Return the forces that move prescribed joints along their paths [N or N m], nv scalars.

    They act beside the forces of elements and commands; zero at all other joints. Contacts act
    as in `reached`.
    """
    prescribed, nv = system.prescribed(time, p), system.model.nv
    if not prescribed:
        return (0.0,) * nv
    here, driving, *_ = reached(system, q, w, u, time, p)
    position, v, x = system.split(q, w)
    force = JointVector(driving.force)
    _, needed, _ = hybrid_motion(system, here, position, v, x, force, prescribed)
    wanted = {i for joint in prescribed for i, _ in joint.accelerations}
    return tuple(needed[i] - force[i] if i in wanted else 0.0 for i in range(nv))
