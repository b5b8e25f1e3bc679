"""Fossen's equation of motion: M vd + C v + D v + g = tau.

Symbols (Fossen 2011, "Handbook of marine craft hydrodynamics and motion control", sec. 6.1, 8.1):
    v       velocity relative to the water
    M       mass matrix with added mass
    C       Coriolis matrix with added mass; dM/dt - 2 C is skew
    D       damping matrix
    g       weight minus buoyancy
    u, a    velocity and acceleration of the water

Drag f is the sum of a part of first degree in v and one of second degree. By Euler's theorem on
homogeneous functions f_1 = (df_1/dv) v and f_2 = 1/2 (df_2/dv) v. The slope of f_2 is zero at rest,
so that f = 1/2 [df/dv(v) + df/dv(0)] v, and D is minus that matrix.

In uniform flow, in the frame of the water, a floating robot is in still water, with gravity
reduced by a.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tiburon.algorithms.bias import gravity_forces
from tiburon.algorithms.coriolis import coriolis
from tiburon.algorithms.crba import mass_elements
from tiburon.algorithms.floating_base import is_floating_base
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.tape_calls import JointVector
from tiburon.algorithms.water.thrusters import projected
from tiburon.errors import ModelError
from tiburon.model import Model, Plan
from tiburon.model.currents import UniformCurrent
from tiburon.model.plan import WORLD_BODY
from tiburon.model.water import FlowField
from tiburon.spatial import ArticulatedInertia, Scalar, Scalars, Vec3
from tiburon.spatial.vec3 import ZERO3, cross, subtract
from tiburon.trace.array import as_traced
from tiburon.trace.differentiation import push_forward
from tiburon.trace.program import current_graph
from tiburon.trace.regions import as_value, float_node, function

if TYPE_CHECKING:
    from tiburon.algorithms.water.fluid import WaterAround
    from tiburon.hydro.immersion import Immersion


def damping_matrix(plan: Plan, q: Scalars, v: Scalars, around: "WaterAround") -> list[Scalar]:
    """Compute D, nv times nv scalars row by row, while tracing.

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        v: Velocity relative to the water [m/s or rad/s], nv scalars.
        around: The water, still.
    """
    from tiburon.algorithms.water.fluid import water_forces

    links = tuple(tuple(map(_resisting, link)) for link in around.links)
    water = around._replace(links=links)

    def slopes(q: Scalars, v: Scalars) -> list[Any]:
        position, rate = JointVector(q), JointVector(v)
        forces = water_forces(plan, position, rate, ZERO3, water)
        graph = current_graph()
        assert graph is not None
        roots = [float_node(graph, x) for x in projected(plan, position, forces)]
        live, one = graph.live(roots), float_node(graph, 1.0)
        found = []
        for x in rate:
            found += push_forward(graph, roots, {float_node(graph, x): one}, live=live)
        return [as_value(graph, node) for node in found]

    # separate functions, so that the derivatives refer to their own inputs
    region, n = function(slopes), plan.nv
    there, at_rest = region(list(q), list(v)), region(list(q), [0.0] * n)
    # derivatives are stored by columns
    return [
        -0.5 * (there[column * n + row] + at_rest[column * n + row])
        for row in range(n)
        for column in range(n)
    ]


def _resisting(link: "Immersion") -> "Immersion":
    """Return an immersion with drag and lift only."""
    return replace(link, added=ArticulatedInertia.zero(), volume=0.0, moment=ZERO3)


def _relative(
    plan: Plan, q: Scalars, v: Scalars, u: Vec3, a: Vec3
) -> tuple[list[Scalar], list[Scalar]]:
    """Compute the velocity relative to the water, and vd minus its rate."""
    relative: list[Scalar] = list(v)
    drift: list[Scalar] = [0.0] * plan.nv
    for body in plan.bodies:
        if is_floating_base(body):
            X, w = body.transform(q[body.q]), v[body.v][:3]
            along = X.direction(u)
            # in body axes a steady flow rotates
            change = subtract(X.direction(a), cross((w[0], w[1], w[2]), along))
            for k in range(3):
                row = body.v.start + 3 + k
                relative[row], drift[row] = v[row] - along[k], change[k]
    return relative, drift


def _refuse(model: Model, plan: Plan, around: "WaterAround") -> None:
    """Raise `ModelError` if the velocity relative to the water is not defined."""
    if not around.is_uniform:
        raise ModelError(
            f"model {model.name!r}: velocity relative to the water needs water that moves alike "
            f"everywhere, got {type(around.field.current).__name__}; take the current at the "
            "robot, Water(current=(x, y, z)), or bias_force and forward_dynamics, which meet any "
            "water"
        )
    still = isinstance(around.field.current, UniformCurrent) and not around.field.numbers
    for body in plan.bodies:
        if body.parent == WORLD_BODY and not is_floating_base(body) and not still:
            raise ModelError(
                f"model {model.name!r}: velocity relative to moving water needs a robot that "
                f"floats, got joint {body.joint.name!r} on the world; take still water, or "
                "bias_force and forward_dynamics, which meet any water",
                name=body.joint.name,
            )


def marine_terms(setting: Setting, q: Scalars, v: Scalars) -> dict[str, Any]:
    """Compute M, C, D, g, the velocity relative to the water and its drift, by name.

    Args:
        setting: The robot and the water around it.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.

    Raises:
        ModelError: If there is no velocity of the robot relative to the water.
    """
    model, plan, gravity, around = setting.model, setting.plan, setting.gravity, setting.water
    if plan.depends_on_time:
        name = next(body.joint.name for body in plan.bodies if body.joint.depends_on_time)
        raise ModelError(
            f"model {model.name!r}: fossen_form needs joints that forces move, got joint {name!r}, "
            "which time moves; use bias_force and mass_matrix",
            name=name,
        )
    n = plan.nv
    relative: Scalars = v
    drift: Scalars = [0.0] * n
    D: Scalars = [0.0] * (n * n)
    if around is not None:
        _refuse(model, plan, around)
        flow = around.field.at(around.time, ZERO3)
        relative, drift = _relative(plan, q, relative, flow.velocity, flow.acceleration)
        relative = JointVector(relative)
        # in the frame of accelerating water, gravity is reduced
        gravity = subtract(gravity, flow.acceleration)
        around = around._replace(field=FlowField(UniformCurrent(), ()))
        D = damping_matrix(plan, q, relative, around)
    C = coriolis(plan, q, relative)
    return {
        "M": as_traced(mass_elements(plan, q)).reshape(n, n),
        "C": as_traced([x for row in C for x in row]).reshape(n, n),
        "D": as_traced(list(D)).reshape(n, n),
        "g": as_traced(list(gravity_forces(plan, q, gravity, around))),
        "v": as_traced(list(relative)),
        "drift": as_traced(list(drift)),
    }
