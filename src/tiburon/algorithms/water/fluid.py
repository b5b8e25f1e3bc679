"""Hydrodynamic forces on the bodies of a robot.

Symbols (McMillan 1994, Tables 13-15; McMillan, Orin and McGhee 1995, Table I):
    X       motion transform from the parent's frame to the body's
    w       angular velocity of a body
    v^r     velocity of its origin relative to the water
    a_fg    acceleration of the water minus gravity
    R, p    axes and origin of a body in the world

The part proportional to acceleration is added mass, which belongs to the bodies (`PlanBody.added`).
The rest is a force on each body. In uniform flow, v^r and a_fg are propagated like velocities, and
bodies connected by fixed joints are combined; in nonuniform flow and at a free surface, each body
is evaluated at its own position.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tiburon.algorithms.kinematics import WORLD_PLACE, Place
from tiburon.algorithms.traversal import outward
from tiburon.errors import ModelError
from tiburon.hydro.immersion import Immersion, Strips, Surroundings, added_to, immersion_of
from tiburon.model import Model, Plan, PlanBody, Water
from tiburon.model.body_fluid import BodyFluid
from tiburon.model.model import per_model
from tiburon.model.plan import WORLD_BODY
from tiburon.model.water import FlowField
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Scalars, Transform, Vec3
from tiburon.spatial.vec3 import ZERO3, add, matrix_vector, subtract, transpose_vector

# imported on first use
if TYPE_CHECKING:
    from tiburon.algorithms.water.floating import Floating

Link: TypeAlias = tuple[Immersion, ...]
"""Immersion of one plan body: of its bodies combined, or of each."""


class WaterAround(NamedTuple):
    """The water around a robot, with its parameter values."""

    density: Scalar
    """[kg/m^3]."""

    field: FlowField
    """Flow field."""

    is_uniform: bool
    """Whether the flow is uniform."""

    strips: Strips
    """Strips of cylinders for drag."""

    links: tuple[Link, ...]
    """Immersion of each plan body."""

    added: tuple[ArticulatedInertia | None, ...]
    """Added mass of each plan body; None without hydrodynamic data."""

    time: Scalar
    """Time [s]."""

    floating: "Floating | None" = None
    """Links at the free surface; None without one."""


@per_model
def immersions(model: Model, apart: bool) -> tuple[Link, ...]:
    """Return the immersion of each plan body; empty without hydrodynamic data.

    Args:
        model: The robot.
        apart: Whether bodies on fixed joints are separate, in the order of the model; else they are
            combined.

    Raises:
        ModelError: If no body has hydrodynamic data.
    """
    run_time = model.run_time.fluids
    members = members_in_water(model, run_time)
    if not any(members):
        raise ModelError(
            f"model {model.name!r}: expected bodies with hydrodynamic data in a fluid, got none; "
            "give bodies fluid=BodyFluid(volume=..., added_mass=...), or leave the fluid out"
        )
    return tuple(link_in_water(listed, apart, run_time) for listed in members)


Member: TypeAlias = tuple[str, BodyFluid, Transform]
"""A body in water: its name, its data, and the transform from the plan body's frame."""


def members_in_water(model: Model, run_time: Collection[str]) -> list[list[Member]]:
    """Return the bodies with hydrodynamic data of each plan body, in the order of the model.

    Args:
        model: The robot.
        run_time: Names of bodies that are included even without hydrodynamic data.
    """
    plan = model.plan
    members: list[list[Member]] = [[] for _ in plan.bodies]
    for body in model.bodies:
        frame = plan.frame(body.name)
        fluid = whole(body.fluid) if body.name in run_time else body.fluid
        # bodies fixed to the world do not count
        if fluid is not None and frame.body != WORLD_BODY:
            members[frame.body].append((body.name, fluid, frame.transform))
    return members


def whole(fluid: BodyFluid | None) -> BodyFluid:
    """Return hydrodynamic data with zeros for missing matrices."""
    found = fluid or BodyFluid()
    none = ((0.0,) * 6,) * 6
    words = ("added_mass", "linear_damping", "quadratic_damping")
    missing: dict[str, Any] = {word: none for word in words if getattr(found, word) is None}
    return replace(found, **missing)


def link_in_water(members: Sequence[Member], apart: bool, run_time: Collection[str]) -> Link:
    """Return the immersion of one plan body."""
    groups = [[one] for one in members] if apart else [members][: len(members)]
    found = []
    for group in groups:
        part = immersion_of([(fluid, X) for _, fluid, X in group])
        if any(name in run_time for name, _, _ in group):
            # added mass may be nonzero at run time
            constant = part.constant_added
            constant = ArticulatedInertia.zero() if constant is None else constant
            part = replace(part, constant_added=constant, run_time=True)
        found.append(part)
    return tuple(found)


def water_around(
    model: Model, water: Water, numbers: Scalars, bodies: Scalars, time: Scalar
) -> WaterAround:
    """Return the water around a robot with given parameter values.

    Args:
        model: The robot.
        water: The water.
        numbers: Values of `Water.parameters`.
        bodies: Values of the parameters of all `immersions`, in order.
        time: Time [s].
    """
    given = iter(bodies)
    density, field, surface = water.state(numbers)
    links = tuple(
        tuple(
            part.with_parameters([next(given) for _ in part.parameters()]).in_fluid(density)
            for part in link
        )
        for link in immersions(model, water.meets_bodies_apart)
    )
    added = tuple(map(added_to, links))
    strips = Strips(water.strips, water.split_strips)
    floating = None
    if surface is not None:
        from tiburon.algorithms.water.floating import floating_links

        floating = floating_links(model, surface, links, added)
    return WaterAround(density, field, water.is_uniform, strips, links, added, time, floating)


def at_rest(around: WaterAround) -> WaterAround:
    """Return the same water without its current."""
    still = FlowField(Water().motion, ())
    return around._replace(field=still, is_uniform=True)


class _Drifting(NamedTuple):
    """Relative motion of a body in uniform flow."""

    relative: Motion
    a_fg: Vec3


class _Placed(NamedTuple):
    """Velocity and pose of a body in nonuniform flow."""

    velocity: Motion
    place: Place


def water_forces(
    plan: Plan, q: Scalars, v: Scalars, gravity: Vec3, around: WaterAround, *, lanes: bool = False
) -> tuple[Force, ...]:
    """Compute the hydrodynamic force on each body, without the added-mass term of its acceleration.

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        gravity: Gravitational acceleration, world axes [m/s^2].
        around: The water.
        lanes: Whether like branches are computed side by side, in uniform flow.

    Returns:
        Force on each plan body in its frame [N m, N]: drag, total buoyancy and beta^A.
    """
    if around.is_uniform:
        return _forces_in_uniform_flow(plan, q, v, gravity, around, lanes=lanes)
    return _forces_in_varying_flow(plan, q, v, gravity, around)


def relative_motions(
    plan: Plan, q: Scalars, v: Scalars, around: WaterAround
) -> tuple[tuple[Motion, ...], ...]:
    """Compute the velocities of immersed bodies relative to the water.

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        around: The water, evaluated at the center of buoyancy of each body.

    Returns:
        For each plan body, one velocity per entry of its link, at the origin of the plan frame, in
        its axes [rad/s, m/s].
    """
    if around.is_uniform:
        drifting = _drifting(plan, q, v, ZERO3, around)
        return tuple((x.relative,) * len(y) for x, y in zip(drifting, around.links, strict=True))

    def relative(
        body: PlanBody, _: tuple[Motion, ...], placed: _Placed, link: Link
    ) -> tuple[Motion, ...]:
        velocity, (R, p) = placed.velocity, placed.place
        found = []
        for part in link:
            there = add(p, matrix_vector(R, part.place))
            v_f = transpose_vector(R, around.field.at(around.time, there).velocity)
            found.append(Motion(velocity.angular, subtract(velocity.linear, v_f)))
        return tuple(found)

    return outward(plan, relative, (), _placed(plan, q, v), around.links)


def _drifting(
    plan: Plan, q: Scalars, v: Scalars, gravity: Vec3, around: WaterAround, *, lanes: bool = False
) -> tuple[_Drifting, ...]:
    """Propagate the motion relative to the water (1995, Table I, part I)."""

    def drift(body: PlanBody, parent: _Drifting) -> _Drifting:
        X = body.transform(q[body.q])
        vJ = body.joint.velocity(q[body.q], v[body.v])
        return _Drifting(X.motion(parent.relative) + vJ, X.direction(parent.a_fg))

    flow = around.field.at(around.time, ZERO3)
    # velocity of the world relative to the water
    still = Motion(ZERO3, subtract(ZERO3, flow.velocity))
    root = _Drifting(still, subtract(flow.acceleration, gravity))
    return outward(plan, drift, root, lanes=lanes)


def _placed(plan: Plan, q: Scalars, v: Scalars) -> tuple[_Placed, ...]:
    """Compute velocity and pose of every body."""

    def move(body: PlanBody, parent: _Placed) -> _Placed:
        X = body.transform(q[body.q])
        vJ = body.joint.velocity(q[body.q], v[body.v])
        return _Placed(X.motion(parent.velocity) + vJ, parent.place.moved(X))

    return outward(plan, move, _Placed(Motion.zero(), WORLD_PLACE))


def _forces_in_uniform_flow(
    plan: Plan, q: Scalars, v: Scalars, gravity: Vec3, around: WaterAround, *, lanes: bool
) -> tuple[Force, ...]:
    """Compute forces in uniform flow (1995, Table I, part I)."""

    def force(body: PlanBody, _: Force, drifting: _Drifting, link: Link) -> Force:
        relative, total = drifting.relative, Force.zero()
        here = Surroundings(around.density, relative.angular, relative.linear, drifting.a_fg)
        for part in link:
            total = total + part.force(here, around.strips)
        return total

    drifting = _drifting(plan, q, v, gravity, around, lanes=lanes)
    return outward(plan, force, Force.zero(), drifting, around.links, lanes=lanes)


def _forces_in_varying_flow(
    plan: Plan, q: Scalars, v: Scalars, gravity: Vec3, around: WaterAround
) -> tuple[Force, ...]:
    """Compute forces in nonuniform flow, evaluated at each body and strip."""

    def force(body: PlanBody, _: Force, placed: _Placed, link: Link) -> Force:
        return force_on_link(placed.velocity, placed.place, link, gravity, around)

    return outward(plan, force, Force.zero(), _placed(plan, q, v), around.links)


def force_on_link(
    velocity: Motion, place: Place, link: Link, gravity: Vec3, around: WaterAround
) -> Force:
    """Compute the hydrodynamic force on one link from its pose and velocity.

    Args:
        velocity: Of the link, in its plan frame [rad/s, m/s].
        place: Pose of its plan frame in the world.
        link: Immersion of the link.
        gravity: Gravitational acceleration, world axes [m/s^2].
        around: The water.

    Returns:
        Drag, total buoyancy and beta^A in the plan frame [N m, N].
    """
    R, p = place

    def world(point: Vec3) -> Vec3:
        return ZERO3 if around.is_uniform else add(p, matrix_vector(R, point))

    def on(part: Immersion) -> Force:
        flow = around.field.at(around.time, world(part.place))
        v_f = transpose_vector(R, flow.velocity)
        a_fg = transpose_vector(R, subtract(flow.acceleration, gravity))

        def faster(point: Vec3) -> Vec3:
            there = around.field.at(around.time, world(point)).velocity
            return subtract(transpose_vector(R, there), v_f)

        v_r = subtract(velocity.linear, v_f)
        varying = None if around.is_uniform else faster
        here = Surroundings(around.density, velocity.angular, v_r, a_fg, varying)
        return part.force(here, around.strips)

    return sum(map(on, link), Force.zero())
