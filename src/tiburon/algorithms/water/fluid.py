"""What water does to every body of a robot.

Symbols (McMillan 1994, Tables 13-15; McMillan, Orin and McGhee 1995, Table I):
    X       map of motion from the parent's frame to the body's
    w       angular velocity of a body
    v^r     velocity of its origin relative to the water
    a_fg    acceleration of the water less that of free fall
    R, p    axes and origin of a body in the world

The part that goes with acceleration is added mass: it belongs to the bodies (`PlanBody.added`). All
the rest is a force on each body. Where water moves alike everywhere, v^r and a_fg pass from body to
body like velocities do, and bodies held by fixed joints meet the water as one; elsewhere, and at a
surface, each body meets the water at its own place.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tiburon.algorithms.kinematics import WORLD_PLACE, Place
from tiburon.algorithms.sweep import outward
from tiburon.errors import ModelError
from tiburon.hydro.immersion import Immersion, Strips, Surroundings, added_to, immersion_of
from tiburon.model import Model, Plan, PlanBody, Water
from tiburon.model.body_fluid import BodyFluid
from tiburon.model.model import per_model
from tiburon.model.plan import WORLD_BODY
from tiburon.model.water import FlowField
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Transform, Vec3
from tiburon.spatial.vec3 import ZERO3, add, matrix_vector, subtract, transpose_vector

# a surface is loaded where water has one
if TYPE_CHECKING:
    from tiburon.algorithms.water.floating import Floating

__all__ = [
    "WaterAround",
    "force_on_link",
    "immersions",
    "relative_motions",
    "water_around",
    "water_forces",
]

Link: TypeAlias = tuple[Immersion, ...]
"""What water meets of one plan body: of its bodies together, or of each by itself."""


class WaterAround(NamedTuple):
    """The water that a robot is in, with the numbers to use for it."""

    density: Scalar
    """[kg/m^3]."""

    field: FlowField
    """How the water moves."""

    is_uniform: bool
    """Whether it moves alike everywhere."""

    strips: Strips
    """How cylinders are cut for drag."""

    links: tuple[Link, ...]
    """What water meets, one entry per plan body."""

    added: tuple[ArticulatedInertia | None, ...]
    """The added mass of each plan body; None where water meets nothing."""

    time: Scalar
    """When [s]."""

    floating: "Floating | None" = None
    """What a surface leaves of the links under water; None where there is no surface."""


@per_model
def immersions(model: Model, apart: bool) -> tuple[Link, ...]:
    """Return what water meets of each plan body; nothing where it meets nothing.

    Args:
        model: The robot.
        apart: Whether bodies on fixed joints meet the water each by itself, in the order of the
            model; else they meet it as one.

    Raises:
        ModelError: If no body has any water numbers.
    """
    run_time = model.run_time.fluids
    members = members_in_water(model, run_time)
    if not any(members):
        raise ModelError(
            f"model {model.name!r}: expected bodies with water numbers in a fluid, got none; give "
            "bodies fluid=BodyFluid(volume=..., added_mass=...), or leave the fluid out"
        )
    return tuple(link_in_water(listed, apart, run_time) for listed in members)


Member: TypeAlias = tuple[str, BodyFluid, Transform]
"""A body in water: its name, its numbers, and the map to its frame from that of the plan body."""


def members_in_water(model: Model, run_time: Collection[str]) -> list[list[Member]]:
    """Return the bodies that water meets, of each plan body in the order of the model.

    Args:
        model: The robot.
        run_time: Names of bodies that water meets even if they have no water numbers.
    """
    plan = model.plan
    members: list[list[Member]] = [[] for _ in plan.bodies]
    for body in model.bodies:
        frame = plan.frame(body.name)
        fluid = whole(body.fluid) if body.name in run_time else body.fluid
        # what is fixed to the world moves no water
        if fluid is not None and frame.body != WORLD_BODY:
            members[frame.body].append((body.name, fluid, frame.transform))
    return members


def whole(fluid: BodyFluid | None) -> BodyFluid:
    """Return the water numbers of a body with zeros in place of matrices that it does not have."""
    found = fluid or BodyFluid()
    none = ((0.0,) * 6,) * 6
    words = ("added_mass", "linear_damping", "quadratic_damping")
    missing: dict[str, Any] = {word: none for word in words if getattr(found, word) is None}
    return replace(found, **missing)


def link_in_water(members: Sequence[Member], apart: bool, run_time: Collection[str]) -> Link:
    """Return what water meets of one plan body."""
    groups = [[one] for one in members] if apart else [members][: len(members)]
    found = []
    for group in groups:
        part = immersion_of([(fluid, X) for _, fluid, X in group])
        if any(name in run_time for name, _, _ in group):
            # whether there is any is a matter of numbers too
            constant = part.constant_added
            constant = ArticulatedInertia.zero() if constant is None else constant
            part = replace(part, constant_added=constant, run_time=True)
        found.append(part)
    return tuple(found)


def water_around(
    model: Model, water: Water, numbers: Sequence[Scalar], bodies: Sequence[Scalar], time: Scalar
) -> WaterAround:
    """Return the water around a robot with other scalars in place of its numbers.

    Args:
        model: The robot.
        water: The water.
        numbers: For `Water.numbers`.
        bodies: For those of all `immersions`, one after the other.
        time: When [s].
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
    """What is known of a body in water that moves alike everywhere."""

    relative: Motion
    a_fg: Vec3


class _Placed(NamedTuple):
    """What is known of a body in water that moves differently in different places."""

    velocity: Motion
    place: Place


def water_forces(
    plan: Plan, q: Sequence[Scalar], v: Sequence[Scalar], gravity: Vec3, around: WaterAround
) -> tuple[Force, ...]:
    """Compute all that water does to each body but the share of its acceleration.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        gravity: Acceleration of free fall, world axes [m/s^2].
        around: The water.

    Returns:
        Force on each plan body in its frame [N m, N]: drag, total buoyancy and beta^A.
    """
    find = _forces_in_uniform_flow if around.is_uniform else _forces_in_varying_flow
    return find(plan, q, v, gravity, around)


def relative_motions(
    plan: Plan, q: Sequence[Scalar], v: Sequence[Scalar], around: WaterAround
) -> tuple[tuple[Motion, ...], ...]:
    """Compute the velocity of all that water meets, relative to the water around it.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        around: The water, taken where the center of buoyancy of each body is.

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
    plan: Plan, q: Sequence[Scalar], v: Sequence[Scalar], gravity: Vec3, around: WaterAround
) -> tuple[_Drifting, ...]:
    """Hand the motion relative to the water from body to body (1995, Table I, part I)."""

    def drift(body: PlanBody, parent: _Drifting) -> _Drifting:
        X = body.transform(q[body.q])
        vJ = body.joint.velocity(q[body.q], v[body.v])
        return _Drifting(X.motion(parent.relative) + vJ, X.direction(parent.a_fg))

    flow = around.field.at(around.time, ZERO3)
    # seen from the water, the world drifts the other way
    still = Motion(ZERO3, subtract(ZERO3, flow.velocity))
    root = _Drifting(still, subtract(flow.acceleration, gravity))
    return outward(plan, drift, root)


def _placed(plan: Plan, q: Sequence[Scalar], v: Sequence[Scalar]) -> tuple[_Placed, ...]:
    """Find velocity and place of every body."""

    def move(body: PlanBody, parent: _Placed) -> _Placed:
        X = body.transform(q[body.q])
        vJ = body.joint.velocity(q[body.q], v[body.v])
        return _Placed(X.motion(parent.velocity) + vJ, parent.place.moved(X))

    return outward(plan, move, _Placed(Motion.zero(), WORLD_PLACE))


def _forces_in_uniform_flow(
    plan: Plan, q: Sequence[Scalar], v: Sequence[Scalar], gravity: Vec3, around: WaterAround
) -> tuple[Force, ...]:
    """Add up what water does to each body (1995, Table I, part I)."""

    def force(body: PlanBody, _: Force, drifting: _Drifting, link: Link) -> Force:
        relative, total = drifting.relative, Force.zero()
        here = Surroundings(around.density, relative.angular, relative.linear, drifting.a_fg)
        for part in link:
            total = total + part.force(here, around.strips)
        return total

    drifting = _drifting(plan, q, v, gravity, around)
    return outward(plan, force, Force.zero(), drifting, around.links)


def _forces_in_varying_flow(
    plan: Plan, q: Sequence[Scalar], v: Sequence[Scalar], gravity: Vec3, around: WaterAround
) -> tuple[Force, ...]:
    """Meet the water where each body is; strips meet it where they are."""

    def force(body: PlanBody, _: Force, placed: _Placed, link: Link) -> Force:
        return force_on_link(placed.velocity, placed.place, link, gravity, around)

    return outward(plan, force, Force.zero(), _placed(plan, q, v), around.links)


def force_on_link(
    velocity: Motion, place: Place, link: Link, gravity: Vec3, around: WaterAround
) -> Force:
    """Compute the force of water on one link from its own pose and velocity.

    Args:
        velocity: Of the link, in its plan frame [rad/s, m/s].
        place: Pose of its plan frame in the world.
        link: What water meets of it.
        gravity: Acceleration of free fall, world axes [m/s^2].
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
