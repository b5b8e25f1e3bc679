"""What acts on a robot apart from its joints, in one state: gravity, water, external forces.

Algorithms of dynamics run in a `Setting`. The front door makes it of keywords and `Setting.at`
brings it to a state. A new influence on the bodies is one more field, applied in `Setting.at`.
"""

from collections.abc import Mapping, Sequence
from operator import add as plus
from typing import TYPE_CHECKING, Any, NamedTuple

from tiburon.algorithms.kinematics import frame_places
from tiburon.algorithms.surroundings import wetted
from tiburon.algorithms.sweep import outward
from tiburon.algorithms.tape_calls import scalars
from tiburon.model import Model, Plan, PlanBody
from tiburon.model.plan import WORLD_BODY, PlanFrame
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Transform, Vec3
from tiburon.spatial.vec3 import ZERO3, add, cross, matrix_vector, transpose

if TYPE_CHECKING:
    from tiburon.algorithms.water.fluid import WaterAround

__all__ = [
    "Options",
    "Setting",
    "force_of_inertia",
    "forces_of_options",
    "forces_on_bodies",
    "given_forces",
    "inertias_by_body",
    "with_given_inertias",
]

Options = tuple[tuple[str, Any], ...]
"""Choices that change the code, by name: hashable data that `structure_text` accepts."""

Arrays = Sequence[Any]


class Setting(NamedTuple):
    """What an algorithm runs under, in one state."""

    model: Model
    """The robot as its user built it."""

    options: Options
    """Choices that change the code."""

    arrays: Arrays
    """The arrays that conditions brought, as `condition_inputs` lists them."""

    plan: Plan
    """Layout of the model, with the numbers that its bodies have under these conditions."""

    gravity: Vec3
    """Acceleration of free fall, world axes [m/s^2]."""

    water: "WaterAround | None" = None
    """The water around it; None on land."""

    external: tuple[Force, ...] | None = None
    """Force on each plan body from outside, in its frame [N m, N]; None for no force at all."""

    @property
    def is_rigid(self) -> bool:
        """Whether bodies feel their own inertia and given forces alone, as rigid bodies on land do.

        Otherwise water acts on them, or a force that goes with acceleration has joined what they
        feel: recursions that know the ten numbers of a rigid body alone would leave that out.
        """
        return self.water is None and all(body.added is None for body in self.plan.bodies)

    @property
    def now(self) -> tuple[Scalar, ...]:
        """The time [s], as `at` takes it: nothing where nothing depends on it."""
        if self.water is not None:
            return (self.water.time,)
        return (self.plan.time,) if self.plan.depends_on_time else ()

    def at(self, q: Sequence[Scalar], v: Sequence[Scalar], *time: Scalar) -> "Setting":
        """Return what acts in a state, and at a time [s] where one is given."""
        plan = self.plan.at(*time) if time else self.plan
        water = self.water
        external = given_forces(plan, q, v, self.gravity, self.options, self.arrays)
        if water is not None:
            from tiburon.algorithms.water.fluid import water_forces

            water = water._replace(time=time[0]) if time else water
            plan, water = wetted(plan, q, water)
            felt = water_forces(plan, q, v, self.gravity, water)
            external = felt if external is None else tuple(map(plus, external, felt))
        return self._replace(plan=plan, water=water, external=external)


class _GivenInertia(NamedTuple):
    """A force that goes with the acceleration of a frame."""

    frame: PlanFrame
    inertia: ArticulatedInertia


def _inertias(plan: Plan, options: Options, arrays: Sequence[Any]) -> list[_GivenInertia]:
    """Return the given inertias, from the arrays of `external_inputs`."""
    choices = dict(options)
    names = choices.get("external_inertia", ())
    found = []
    for name, matrix in zip(names, arrays[len(choices.get("external_force", ())) :], strict=True):
        frame, numbers = plan.frame(name), scalars(matrix)
        # the world does not accelerate
        if frame.body != WORLD_BODY:
            rows = [numbers[6 * i : 6 * i + 6] for i in range(6)]
            found.append(_GivenInertia(frame, ArticulatedInertia.from_rows(rows)))
    return found


def with_given_inertias(plan: Plan, options: Options, arrays: Sequence[Any]) -> Plan:
    """Return the plan with given inertias in what its bodies feel."""
    added = [body.added for body in plan.bodies]
    inertias = _inertias(plan, options, arrays)
    for frame, inertia in inertias:
        known, felt = added[frame.body], frame.transform.inertia_to_parent(inertia)
        added[frame.body] = felt if known is None else known + felt
    return plan.in_water(added) if inertias else plan


BodyInertias = tuple[tuple[Transform, ArticulatedInertia], ...]
"""Inertias given at frames of one plan body, with the maps of motion to these frames."""


def inertias_by_body(
    plan: Plan, options: Options, arrays: Sequence[Any]
) -> tuple[BodyInertias, ...]:
    """Return the given inertias of each plan body."""
    found: list[BodyInertias] = [() for _ in plan.bodies]
    for frame, inertia in _inertias(plan, options, arrays):
        found[frame.body] = (*found[frame.body], (frame.transform, inertia))
    return tuple(found)


def force_of_inertia(X: Transform, inertia: ArticulatedInertia, w: Vec3, g: Vec3) -> Force:
    """Return the share of -A a of a given inertia that body accelerations do not cover.

    Args:
        X: Map of motion from the plan frame to the frame of the inertia.
        inertia: A.
        w: Angular velocity, plan axes [rad/s].
        g: Acceleration of free fall, plan axes [m/s^2].
    """
    a = X.direction(add(g, cross(w, cross(w, X.translation))))
    return X.force_to_parent(-inertia.apply(Motion(ZERO3, a)))


class _Turning(NamedTuple):
    """Angular velocity of a body, and gravity in its axes."""

    w: Vec3
    g: Vec3


def _forces_of_inertias(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    gravity: Vec3,
    inertias: Sequence[_GivenInertia],
) -> list[tuple[int, Force]]:
    """Return what is left of -A a where the acceleration of bodies has taken its share.

    Recursions work with accelerations less that of free fall, at the origins of plan frames; a
    point beyond moves on a circle around them.
    """

    def turn(body: PlanBody, parent: _Turning) -> _Turning:
        X = body.transform(q[body.q])
        vJ = body.joint.velocity(q[body.q], v[body.v])
        return _Turning(add(X.direction(parent.w), vJ.angular), X.direction(parent.g))

    turning = outward(plan, turn, _Turning(ZERO3, gravity))
    found = []
    for frame, inertia in inertias:
        force = force_of_inertia(frame.transform, inertia, *turning[frame.body])
        found.append((frame.body, force))
    return found


def given_forces(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    gravity: Vec3,
    options: Options,
    arrays: Sequence[Any],
) -> tuple[Force, ...] | None:
    """Return the force on each plan body, from the arrays of `external_inputs`."""
    found = forces_of_options(plan, q, options, arrays)
    inertias = _inertias(plan, options, arrays)
    if not inertias:
        return found
    forces = list(found or (Force.zero() for _ in plan.bodies))
    for body, f in _forces_of_inertias(plan, q, v, gravity, inertias):
        forces[body] = forces[body] + f
    return tuple(forces)


def forces_of_options(
    plan: Plan, q: Sequence[Scalar], options: Options, arrays: Sequence[Any]
) -> tuple[Force, ...] | None:
    """Return the given force on each plan body, without those of given inertias."""
    choices = dict(options)
    names = choices.get("external_force", ())
    given = {name: scalars(x) for name, x in zip(names, arrays[: len(names)], strict=True)}
    return forces_on_bodies(plan, q, given, choices.get("external_axes", "frame"))


def forces_on_bodies(
    plan: Plan, q: Sequence[Scalar], wrenches: Mapping[str, Sequence[Scalar]], axes: str
) -> tuple[Force, ...] | None:
    """Add up the forces on each plan body.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        wrenches: By frame name, [n; f] at the frame's origin [N m, N].
        axes: "frame" if the numbers are in the frame's own axes, "world" if in world axes.

    Returns:
        The force on each plan body in its frame; None if there is no force at all.
    """
    if not wrenches:
        return None
    forces = [Force.zero() for _ in plan.bodies]
    places = frame_places(plan, q, tuple(wrenches)) if axes == "world" else None
    for number, (name, wrench) in enumerate(wrenches.items()):
        frame = plan.frame(name)
        # what acts on the world moves nothing
        if frame.body == WORLD_BODY:
            continue
        force = Force.from_array(tuple(wrench))
        if places is not None:
            R = transpose(places[number].R)
            force = Force(matrix_vector(R, force.moment), matrix_vector(R, force.force))
        to_body: Transform = frame.transform
        forces[frame.body] = forces[frame.body] + to_body.force_to_parent(force)
    return tuple(forces)
