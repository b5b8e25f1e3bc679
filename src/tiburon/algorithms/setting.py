"""Surroundings of a robot in one state: gravity, water, external forces.

Dynamics algorithms run in a `Setting`, which the front door makes of keywords and `Setting.at`
evaluates in a state. A new kind of force on bodies is one more field, applied in `Setting.at`.
"""

from collections.abc import Mapping, Sequence
from operator import add as plus
from typing import TYPE_CHECKING, Any, NamedTuple

from tiburon.algorithms.surroundings import surroundings, wetted
from tiburon.algorithms.tape_calls import JointVector, scalars
from tiburon.model import Model, Plan, PlanBody, World
from tiburon.model.plan import WORLD_BODY, PlanFrame
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Scalars, Transform, Vec3
from tiburon.spatial.vec3 import ZERO3, add, cross, matrix_vector, transpose

if TYPE_CHECKING:
    from tiburon.algorithms.water.fluid import WaterAround

Options = tuple[tuple[str, Any], ...]
"""Compile-time options, by name: hashable data that `structure_text` accepts."""

Arrays = Sequence[Any]


class Setting(NamedTuple):
    """Model, options and surroundings of an algorithm in one state."""

    model: Model
    """The robot as its user built it."""

    options: Options
    """Compile-time options."""

    arrays: Arrays
    """Arrays of the conditions, in the order of `condition_inputs`."""

    plan: Plan
    """Layout of the model, with its parameters under these conditions."""

    gravity: Vec3
    """Gravitational acceleration, world axes [m/s^2]."""

    water: "WaterAround | None" = None
    """The water around the robot; None on land."""

    external: tuple[Force, ...] | None = None
    """External wrench on each plan body, in its frame [N m, N]; None for no force."""

    @property
    def is_rigid(self) -> bool:
        """Whether bodies have rigid-body inertia and given forces only.

        False in water and with given inertias, which recursions over ten inertial parameters per
        body do not include.
        """
        return self.water is None and all(body.added is None for body in self.plan.bodies)

    @property
    def now(self) -> tuple[Scalar, ...]:
        """The time [s] as argument of `at`: empty if nothing depends on it."""
        if self.water is not None:
            return (self.water.time,)
        return (self.plan.time,) if self.plan.depends_on_time else ()

    def at(self, q: Scalars, v: Scalars, *time: Scalar) -> "Setting":
        """Return the surroundings in a state, and at a time [s] if given."""
        plan = self.plan.at(*time) if time else self.plan
        water = self.water
        external = given_forces(plan, q, v, self.gravity, self.options, self.arrays)
        if water is not None:
            from tiburon.algorithms.water.fluid import water_forces

            water = water._replace(time=time[0]) if time else water
            plan, water = wetted(plan, q, water)
            # lists do not say which of their elements belong to one joint of like branches
            lanes = all(isinstance(x, JointVector) for x in (q, v))
            hydrodynamic = water_forces(plan, q, v, self.gravity, water, lanes=lanes)
            external = (
                hydrodynamic if external is None else tuple(map(plus, external, hydrodynamic))
            )
        return self._replace(plan=plan, water=water, external=external)


def setting_in(
    model: Model, world: World, q: Scalars, v: Scalars, time: Scalar | None = None
) -> Setting:
    """Return what surrounds a robot in a state.

    Args:
        model: The robot.
        world: Its surroundings.
        q: Configuration [m or rad].
        v: Joint velocity [m/s or rad/s].
        time: Time [s]; None where nothing depends on it.
    """
    around = Setting(model, (), (), *surroundings(model, world))
    return around.at(q, v, *(() if time is None else (time,)))


class _GivenInertia(NamedTuple):
    """A force proportional to the acceleration of a frame."""

    frame: PlanFrame
    inertia: ArticulatedInertia


def _inertias(plan: Plan, options: Options, arrays: Sequence[Any]) -> list[_GivenInertia]:
    """Return the given inertias, from the arrays of `external_inputs`."""
    choices = dict(options)
    names = choices.get("external_inertia", ())
    found = []
    for name, matrix in zip(names, arrays[len(choices.get("external_force", ())) :], strict=True):
        frame, entries = plan.frame(name), scalars(matrix)
        # the world does not accelerate
        if frame.body != WORLD_BODY:
            rows = [entries[6 * i : 6 * i + 6] for i in range(6)]
            found.append(_GivenInertia(frame, ArticulatedInertia.from_rows(rows)))
    return found


def with_given_inertias(plan: Plan, options: Options, arrays: Sequence[Any]) -> Plan:
    """Return the plan with given inertias added to its bodies."""
    added = [body.added for body in plan.bodies]
    inertias = _inertias(plan, options, arrays)
    for frame, inertia in inertias:
        known, moved = added[frame.body], frame.transform.inertia_to_parent(inertia)
        added[frame.body] = moved if known is None else known + moved
    return plan.in_water(added) if inertias else plan


BodyInertias = tuple[tuple[Transform, ArticulatedInertia], ...]
"""Given inertias at frames of one plan body, with the motion transforms to the frames."""


def inertias_by_body(
    plan: Plan, options: Options, arrays: Sequence[Any]
) -> tuple[BodyInertias, ...]:
    """Return the given inertias of each plan body."""
    found: list[BodyInertias] = [() for _ in plan.bodies]
    for frame, inertia in _inertias(plan, options, arrays):
        found[frame.body] = (*found[frame.body], (frame.transform, inertia))
    return tuple(found)


def force_of_inertia(X: Transform, inertia: ArticulatedInertia, w: Vec3, g: Vec3) -> Force:
    """Compute the part of -A a of a given inertia that is not in the recursion's acceleration.

    Args:
        X: Motion transform from the plan frame to the frame of the inertia.
        inertia: A.
        w: Angular velocity, plan axes [rad/s].
        g: Gravitational acceleration, plan axes [m/s^2].
    """
    a = X.direction(add(g, cross(w, cross(w, X.translation))))
    return X.force_to_parent(-inertia.apply(Motion(ZERO3, a)))


class _Turning(NamedTuple):
    """Angular velocity of a body, and gravity in its axes."""

    w: Vec3
    g: Vec3


def _forces_of_inertias(
    plan: Plan, q: Scalars, v: Scalars, gravity: Vec3, inertias: Sequence[_GivenInertia]
) -> list[tuple[int, Force]]:
    """Compute the remaining part of -A a of each given inertia, by plan body.

    Recursions use accelerations minus gravity at the origins of plan frames; other points have
    centripetal acceleration too.
    """

    def turn(body: PlanBody, parent: _Turning) -> _Turning:
        X = body.transform(q[body.q])
        vJ = body.joint.velocity(q[body.q], v[body.v])
        return _Turning(add(X.direction(parent.w), vJ.angular), X.direction(parent.g))

    # a kernel from the cache needs no driver
    from tiburon.algorithms.traversal import outward

    turning = outward(plan, turn, _Turning(ZERO3, gravity))
    found = []
    for frame, inertia in inertias:
        force = force_of_inertia(frame.transform, inertia, *turning[frame.body])
        found.append((frame.body, force))
    return found


def given_forces(
    plan: Plan, q: Scalars, v: Scalars, gravity: Vec3, options: Options, arrays: Sequence[Any]
) -> tuple[Force, ...] | None:
    """Compute the given force on each plan body, from the arrays of `external_inputs`."""
    found = forces_of_options(plan, q, options, arrays)
    inertias = _inertias(plan, options, arrays)
    if not inertias:
        return found
    forces = list(found or (Force.zero() for _ in plan.bodies))
    for body, f in _forces_of_inertias(plan, q, v, gravity, inertias):
        forces[body] = forces[body] + f
    return tuple(forces)


def forces_of_options(
    plan: Plan, q: Scalars, options: Options, arrays: Sequence[Any]
) -> tuple[Force, ...] | None:
    """Compute the given force on each plan body, without given inertias."""
    choices = dict(options)
    names = choices.get("external_force", ())
    given = {name: scalars(x) for name, x in zip(names, arrays[: len(names)], strict=True)}
    return forces_on_bodies(plan, q, given, choices.get("external_axes", "frame"))


def forces_on_bodies(
    plan: Plan, q: Scalars, wrenches: Mapping[str, Scalars], axes: str
) -> tuple[Force, ...] | None:
    """Sum the wrenches on each plan body.

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        wrenches: By frame name, [n; f] at the frame's origin [N m, N].
        axes: Axes of the wrenches, "frame" or "world".

    Returns:
        The wrench on each plan body in its frame; None if there is none.
    """
    if not wrenches:
        return None
    forces = [Force.zero() for _ in plan.bodies]
    from tiburon.algorithms.kinematics import frame_places

    places = frame_places(plan, q, tuple(wrenches)) if axes == "world" else None
    for index, (name, wrench) in enumerate(wrenches.items()):
        frame = plan.frame(name)
        # forces on the world have no effect
        if frame.body == WORLD_BODY:
            continue
        force = Force.from_array(tuple(wrench))
        if places is not None:
            R = transpose(places[index].R)
            force = Force(matrix_vector(R, force.moment), matrix_vector(R, force.force))
        to_body: Transform = frame.transform
        forces[frame.body] = forces[frame.body] + to_body.force_to_parent(force)
    return tuple(forces)
