"""Compliant contact as an element: forces of spring-dampers, friction on anchors.

Anchors are material points of both bodies, kept as discrete states: where the contact point is on
the first body, and where its anchor is on the second. Within a step the displacement between
them is a function of the configuration, so that springs are conservative and keep the order of the
integrator; at the end of each step both are set anew at the contact point, with the displacement
that the law leaves. A ball therefore rolls without deforming its spring.

The law is evaluated at the end of each step, for anchors and recorded forces. The next step begins
with these forces.
"""

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tiburon.actuation.contact_element import POINT_STATES, ContactElement
from tiburon.actuation.element import Action, ElementContext
from tiburon.algorithms.kinematics import WORLD_PLACE, Place
from tiburon.contact.candidates import FIELDS, Candidate, Part
from tiburon.contact.compliant import (
    HELD_OPEN,
    ContactLaw,
    PointForce,
    Touch,
    gives_friction,
    point_force,
    spring_damper,
    tangential,
)
from tiburon.contact.geometry.bounds import bounding_radius
from tiburon.contact.geometry.contact_geometry import NO_CONTACT, ContactGeometry
from tiburon.errors import ModelError
from tiburon.model import WORLD, Model
from tiburon.record import field, record
from tiburon.spatial import Scalar, Scalars, Vec3
from tiburon.spatial.vec3 import (
    ZERO3,
    add,
    add_cross,
    add_matrix_vector,
    dot,
    matrix_product,
    matrix_vector,
    negate,
    scale,
    subtract,
    transpose_vector,
)
from tiburon.trace.declared import is_declared
from tiburon.trace.regions import where_needed

PLACE = ("place_x", "place_y", "place_z")
"""Discrete states of a contact point: where it is on the first body, axes of that body [m].

Points of radius 0 have none of them: they do not move over their body.
"""

ANCHOR = ("anchor_x", "anchor_y", "anchor_z")
"""Discrete states of a contact point: where its anchor is on the second body, axes of that body, or
of the world [m]."""


Pushes = dict[str, tuple[Vec3, Vec3]]
"""Moment about the origin of a body [N m] and force on it [N], by its name."""


class _Carrier(NamedTuple):
    """A body or frame with contact shapes, world axes."""

    place: Place
    """Its pose."""

    angular: Vec3
    """Its angular velocity [rad/s]."""

    linear: Vec3
    """Velocity of its origin [m/s]."""

    def velocity(self, arm: Vec3) -> Vec3:
        """Return the velocity of a material point at an arm from its origin [m/s]."""
        return add_cross(self.linear, self.angular, arm)


class _Acting(NamedTuple):
    """One contact point in one state. Arms are from the origin of each body, world axes [m]."""

    candidate: Candidate
    normal: Vec3
    first_arm: Vec3
    second_arm: Vec3
    touch: Touch
    force: PointForce

    @property
    def on_first(self) -> Vec3:
        """Force on the first body, world axes [N]."""
        return subtract(self.force.tangential, scale(self.normal, self.force.normal))

    @property
    def energy(self) -> Scalar:
        """Energy of the springs [J]."""
        surface, d, s = self.touch.surface, self.touch.depth, self.touch.displacement
        both = surface.normal_stiffness * d * d + surface.planar_stiffness * dot(s, s)
        return np.where(d > 0.0, 0.5 * both, 0.0)


@record
class CompliantContactElement(ContactElement):
    """Shapes that penetrate each other against springs and dampers, with Coulomb friction.

    The normal force and friction follow from the materials of surfaces (`ContactMaterial`,
    `Ground`), or from a law of the user. Both bodies get the same force, one with the opposite
    sign, at the same point. Discrete states are force and mode of each point, its anchor, and its
    peak force.

    Example:
        A foot pad that hardens, with the usual friction::

            def pad(touch):
                k = touch.surface.normal_stiffness
                return k * touch.depth * (1.0 + 200.0 * touch.depth)

            tb.simulate(dog, 1.0, world=floor, contact=tb.CompliantContact(law=pad))
    """

    starts_steps: ClassVar[bool] = True

    law: ContactLaw | None = field(default=None, kw_only=True)
    """A law of the user instead of spring and damper; see `Touch`."""

    @property
    def is_declared(self) -> bool:
        """Whether its law is its own."""
        return is_declared(self.law)

    def own_state_names(self) -> tuple[str, ...]:
        """Return the names of the anchors."""
        return tuple(
            f"{point}.{part}"
            for candidate in self.candidates
            for point in candidate.point_names
            for part in _anchor_states(candidate)
        )

    @property
    def keeps_forces(self) -> bool:
        """Whether steps begin with forces of the last one; located contacts move in between."""
        return not any(candidate.is_located for candidate in self.candidates)

    def structure(self) -> Hashable:
        """Return the pairs of shapes, which of them are points, and the law."""
        return (ContactElement.structure(self), tuple(map(_is_sharp, self.candidates)), self.law)

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return the elastic energy of all points [J]; not with a law of the user."""
        return () if self.law is not None else (f"{self.name}.energy",)

    def check(self, model: Model) -> None:
        """Raise an error if a surface has no stiffness, or restitution."""
        hangs = self.law is None or not gives_friction(self.law)
        for candidate in self.candidates:
            patches = ((patch.name, patch.material) for patch in candidate.patches)
            for where, material in (("", candidate.material), *patches):
                at = f" on patch {where!r}" if where else ""
                if not material.normal_stiffness and self.law is None:
                    raise ModelError(
                        f"contact {candidate.name!r}{at}: compliant contact needs a "
                        "normal_stiffness above 0, got none; give the Ground or a ContactMaterial "
                        "one, or write contact=tb.RigidContact()",
                        name=candidate.name,
                    )
                if hangs and material.static_friction and not material.planar_stiffness:
                    raise ModelError(
                        f"contact {candidate.name!r}{at}: friction of compliant contact needs a "
                        "planar_stiffness above 0, got none; give the Ground or a ContactMaterial "
                        "one, leave the friction out, or let the law return a tangential force",
                        name=candidate.name,
                    )
                if material.restitution:
                    raise ModelError(
                        f"contact {candidate.name!r}{at}: compliant contact bounces by its damping "
                        f"and has no restitution, got {material.restitution:g}; leave it out and "
                        "give normal_damping or dissipation (hunt_crossley_dissipation), or pass "
                        "contact=tb.RigidContact()",
                        name=candidate.name,
                    )

    def act(self, now: ElementContext) -> Action:
        """Compute the wrenches on all bodies that touch."""
        carriers = self._carriers(now)
        energy: Scalar = 0.0
        if now.updated and self.keeps_forces:
            # steps need no outputs
            pushes = self._known_forces(now, carriers)
        else:
            acting = self._acting(now, carriers)
            energy = sum((one.energy for one in acting), start=energy)
            pushes = {}
            for one in acting:
                first, second = one.candidate.first.body, one.candidate.second.body
                _push(pushes, first, one.first_arm, one.on_first)
                _push(pushes, second, one.second_arm, negate(one.on_first))
            pushes = _turned(pushes, carriers)
        return Action(
            wrenches={body: (*n, *f) for body, (n, f) in pushes.items()},
            outputs={} if self.law is not None else {f"{self.name}.energy": energy},
        )

    def update_discrete_state(self, now: ElementContext) -> Scalars:
        """Return forces and modes at the end of a step, and the anchors, projected."""
        carriers = self._carriers(now)
        points: list[Scalar] = []
        anchors: list[Scalar] = []
        peaks: list[Scalar] = []
        for acting in self._acting(now, carriers):
            force = acting.on_first
            points += (*force, np.where(acting.force.sticking, 1.0, 0.0))
            peaks.append(dot(force, force))
            first, second = acting.candidate.first, acting.candidate.second
            # an open contact has no spring, wherever its anchor is
            if not _is_sharp(acting.candidate):
                anchors += transpose_vector(carriers[first.body].place.R, acting.first_arm)
            s = acting.force.displacement
            if second.body == WORLD:
                below = subtract(acting.first_arm, s)
                anchors += add(carriers[first.body].place.p, below)
            else:
                below = subtract(acting.second_arm, s)
                anchors += transpose_vector(carriers[second.body].place.R, below)
        return (*points, *anchors, *self.raised_peaks(now.z, peaks))

    def pushes(self, z: Scalars) -> list[Any]:
        """Return whether each contact point pushes, from its discrete states."""
        width = len(POINT_STATES)
        forces = [z[width * k : width * k + 3] for k in range(len(self.point_names))]
        return [(x != 0.0) | (y != 0.0) | (z != 0.0) for x, y, z in forces]

    def held_open(self, z: Scalars) -> Scalars:
        """Return discrete states with which points that do not push stay open in the next step."""
        found, width = list(z), len(POINT_STATES)
        for k, pushes in enumerate(self.pushes(z)):
            place = width * k + POINT_STATES.index("sticking")
            found[place] = np.where(pushes, found[place], HELD_OPEN)
        return tuple(found)

    def levels(self, now: ElementContext) -> list[Scalar]:
        """Return what is positive of each point as soon as it begins or ceases to push.

        Of points that did not push in the last update that is the depth [m],
        of others the normal force, if it could pull, the other way [N]; with a law of the user the
        gap [m].
        """
        found = []
        acting = self._acting(now, self._carriers(now))
        for one, pushes in zip(acting, self.pushes(now.z), strict=True):
            touch = one.touch
            pulls = -spring_damper(touch) if self.law is None else -touch.depth
            found.append(np.where(pushes, pulls, touch.depth))
        return found

    def _carriers(self, now: ElementContext) -> dict[str, _Carrier]:
        """Return all bodies and frames with contact shapes, by name."""
        pairs = ((one.first.body, one.second.body) for one in self.candidates)
        names = dict.fromkeys(name for pair in pairs for name in pair)
        return {name: _carrier(now, name) for name in names}

    def _known_forces(self, now: ElementContext, carriers: dict[str, _Carrier]) -> Pushes:
        """Return what the forces of the last update exert on each body, in its axes.

        Points are known by their place on the first body: in its axes no arm needs to be turned.
        """
        width, k = len(POINT_STATES), 0
        at = width * len(self.point_names)
        found: Pushes = {}
        others: Pushes = {}
        for candidate in self.candidates:
            first, second = candidate.first, candidate.second
            R = carriers[first.body].place.R
            offset = subtract(carriers[second.body].place.p, carriers[first.body].place.p)
            for _ in candidate.point_names:
                fx, fy, fz, _sticking = now.z[width * k : width * (k + 1)]
                *place, _x, _y, _z = now.z[at : at + len(_anchor_states(candidate))]
                k, at = k + 1, at + len(_anchor_states(candidate))
                ax, ay, az = place or first.pose.translation
                force = (fx, fy, fz)
                _push(found, first.body, (ax, ay, az), transpose_vector(R, force))
                arm = subtract(matrix_vector(R, (ax, ay, az)), offset)
                _push(others, second.body, arm, negate(force))
        for body, (n, f) in _turned(others, carriers).items():
            before = found.get(body, (ZERO3, ZERO3))
            found[body] = add(before[0], n), add(before[1], f)
        return found

    def _acting(self, now: ElementContext, carriers: dict[str, _Carrier]) -> list[_Acting]:
        """Return all contact points in a state."""
        found: list[_Acting] = []
        width = len(POINT_STATES)
        start, at = 0, width * len(self.point_names)
        for candidate in self.candidates:
            own = now.p[start : start + len(candidate.parameters())]
            start += len(own)
            sharp = _is_sharp(candidate)
            first, second = (carriers[part.body] for part in (candidate.first, candidate.second))
            offset = subtract(second.place.p, first.place.p)
            # both shapes as seen from the origin of the first body; height fields are in the world
            uneven = candidate.second.kind in FIELDS
            origin = first.place.p if uneven else ZERO3
            placed = [
                _placed(first, candidate.first, origin),
                _placed(second, candidate.second, add(origin, offset)),
            ]
            sizes = (0.0, *own[1:]) if sharp else own
            for geometry in _geometry(candidate, placed, sizes, now.tables):
                arm = placed[0][1] if sharp else geometry.point
                if uneven:
                    arm = subtract(arm, origin)
                k = len(found)
                state = now.z[width * k : width * (k + 1)]
                anchor = now.z[at : at + len(_anchor_states(candidate))]
                at += len(anchor)
                arms = arm, subtract(arm, offset)
                touch = _touch(candidate, own, geometry, arms, (first, second), state, anchor)
                force = point_force(touch, self.law)
                found.append(_Acting(candidate, geometry.normal, *arms, touch, force))
        return found


def _push(found: Pushes, body: str, arm: Vec3, force: Vec3) -> None:
    """Add a force on a body at an arm from its origin, unless it is the world."""
    if body != WORLD:
        n, total = found.get(body, (ZERO3, ZERO3))
        found[body] = add_cross(n, arm, force), add(total, force)


def _turned(pushes: Pushes, carriers: dict[str, _Carrier]) -> Pushes:
    """Return moments and forces in axes of the bodies, given in those of the world."""
    return {
        body: (
            transpose_vector(carriers[body].place.R, n),
            transpose_vector(carriers[body].place.R, f),
        )
        for body, (n, f) in pushes.items()
    }


def _is_sharp(candidate: Candidate) -> bool:
    """Return whether the first shape is a point: it stays where it is on its body."""
    return candidate.first.kind == "sphere" and candidate.first.size == (0.0,)


def _anchor_states(candidate: Candidate) -> tuple[str, ...]:
    return ANCHOR if _is_sharp(candidate) else (*PLACE, *ANCHOR)


def _geometry(
    candidate: Candidate, placed: Sequence[tuple[Any, Vec3]], sizes: Scalars, tables: Scalars
) -> Sequence[ContactGeometry]:
    """Return the contact points of two shapes; costly ones only where bounding spheres meet."""
    parts = candidate.first, candidate.second
    if not candidate.can_be_crossed or {part.kind for part in parts} <= {"sphere", "capsule"}:
        return candidate.geometry(placed, sizes, tables)
    split = len(candidate.first.size)
    own = sizes[:split], sizes[split : split + len(candidate.second.size)]
    reach = sum(bounding_radius(part.kind, size) for part, size in zip(parts, own, strict=True))
    offset = subtract(placed[1][1], placed[0][1])

    def narrow() -> Any:
        found = candidate.geometry(placed, sizes, tables)
        return tuple((one.gap, one.point, one.normal) for one in found)

    far = (NO_CONTACT, ZERO3, (0.0, 0.0, 1.0))
    near = dot(offset, offset) < reach * reach
    found = where_needed(near, narrow, (far,) * candidate.point_count)
    return [ContactGeometry(*one) for one in found]


def _carrier(now: ElementContext, name: str) -> _Carrier:
    """Return a body or frame in a state."""
    if name == WORLD:
        return _Carrier(WORLD_PLACE, ZERO3, ZERO3)
    place, motion = now.frame_pose(name), now.frame_velocity(name)
    return _Carrier(
        place, matrix_vector(place.R, motion.angular), matrix_vector(place.R, motion.linear)
    )


def _placed(carrier: _Carrier, part: Part, origin: Vec3) -> tuple[Any, Vec3]:
    """Return rotation and position of a shape, its body at a given origin."""
    R, pose = carrier.place.R, part.pose
    arm = matrix_vector(R, pose.translation)
    return matrix_product(R, pose.rotation), arm if origin is ZERO3 else add(origin, arm)


def _touch(
    candidate: Candidate,
    p: Scalars,
    geometry: ContactGeometry,
    arms: tuple[Vec3, Vec3],
    carriers: tuple[_Carrier, _Carrier],
    state: Scalars,
    anchor: Scalars,
) -> Touch:
    """Return the state of one contact point; its point is an arm from the first body's origin."""
    first, second = carriers
    n = geometry.normal
    velocity = first.velocity(arms[0])
    if candidate.second.body != WORLD:
        velocity = subtract(velocity, second.velocity(arms[1]))
    fx, fy, fz, sticking = state
    *place, bx, by, bz = anchor
    # both as seen from the origin of the first body
    on_first = arms[0]
    if place:
        ax, ay, az = place
        on_first = matrix_vector(first.place.R, (ax, ay, az))
    on_second = subtract((bx, by, bz), first.place.p)
    if candidate.second.body != WORLD:
        apart = subtract(second.place.p, first.place.p)
        on_second = add_matrix_vector(apart, second.place.R, (bx, by, bz))
    # the force on the first body is against the normal where the contact was closed
    was_closed = dot((fx, fy, fz), n) < 0.0
    x, y, z = (np.where(was_closed, s, 0.0) for s in tangential(subtract(on_first, on_second), n))
    point = add(first.place.p, geometry.point) if candidate.patches else None
    return Touch(
        -geometry.gap,
        dot(velocity, n),
        (x, y, z),
        tangential(velocity, n),
        n,
        sticking,
        candidate.surface(p, point),
    )
