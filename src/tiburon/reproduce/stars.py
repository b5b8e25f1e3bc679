"""Stars of the published operation counts: chains on a floating body, on land or under water.

A star has m chains of N revolute joints. The frame of its floating body is, as in each source, at
the first joint of the only chain, or at its mass center along principal axes with a constant
z-screw to every chain. As in `chains`, lengths, inertias, volumes, coefficients and the density are
general constants. Velocity and acceleration of the water are variables.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, NamedTuple

from tiburon.algorithms.aba import aba
from tiburon.algorithms.crba import crba
from tiburon.algorithms.hybrid import hybrid_aba
from tiburon.algorithms.joint_space import expanded_parents
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.water.fluid import WaterAround, immersions, water_forces
from tiburon.hydro.immersion import Strips, added_to
from tiburon.model import Body, BodyFluid, CylinderDrag, Free, Inertia, Model, Plan, Revolute
from tiburon.model.currents import Flow, UniformCurrent
from tiburon.model.joints import Joint
from tiburon.model.water import FlowField
from tiburon.reproduce.chains import CONSTANTS, FreeByAngles, cost_of, mdh
from tiburon.reproduce.published import Cost
from tiburon.spatial import (
    AxisRotation,
    Force,
    Motion,
    Scalar,
    Scalars,
    Transform,
    Translation,
    Vec3,
)
from tiburon.spatial.vec3 import ZERO3
from tiburon.trace.array import as_traced
from tiburon.trace.count import count
from tiburon.trace.primitives.tree import solve_tree
from tiburon.trace.program import trace


class StarState(NamedTuple):
    """Inputs of an algorithm."""

    plan: Plan
    q: Scalars
    v: Scalars
    u: Scalars
    """Joint forces, those on the floating body first."""

    gravity: Vec3
    external: tuple[Force, ...]
    """Force on each body: hydrodynamic, and at the tip of each chain."""


@dataclass(frozen=True)
class FreeClassical(FreeByAngles):
    """The floating body of the sources, whose classical acceleration is computed."""

    kind: ClassVar[str] = "free_classical"

    def velocity(self, q: Scalars, v: Scalars) -> Motion:
        """Return the velocity relative to a frame that translates with the body.

        The dynamics of rigid bodies are the same, and the rate of v is the classical acceleration.
        """
        return Motion(Motion.from_array(tuple(v)).angular, ZERO3)


@dataclass(frozen=True)
class PrescribedBase(FreeByAngles):
    """A floating body of given velocity and acceleration: it has no variable to solve for."""

    kind: ClassVar[str] = "prescribed_base"

    given_velocity: tuple[Scalar, ...] = ()
    given_acceleration: tuple[Scalar, ...] = ()
    """Classical, in body axes."""

    def velocity(self, q: Scalars, v: Scalars) -> Motion:
        """Return the given velocity, relative to a frame that translates with the body."""
        return Motion(Motion.from_array(self.given_velocity).angular, ZERO3)

    def bias(self, q: Scalars, v: Scalars) -> Motion:
        """Return the given acceleration."""
        return Motion.from_array(self.given_acceleration)

    def subspace(self, q: Scalars) -> tuple[Motion, ...]:
        """Return no columns."""
        return ()


class _Base(NamedTuple):
    """Floating body of a source."""

    joint: Joint
    at_joint: bool
    """Whether its frame is at the first joint of its only chain, not at its mass center."""


PRINCIPAL = _Base(FreeClassical("vehicle"), at_joint=False)
"""At the mass center on principal axes (McMillan 1994, sections 5.3 and 7.2.3)."""

AT_JOINT = _Base(FreeClassical("vehicle"), at_joint=True)
"""At the first joint of the arm (1994, section 7.5.1; 1995, section V)."""


def _floating(base: _Base, public: bool) -> _Base:
    """Return the floating body of a source, on the public `Free` joint if requested."""
    return base._replace(joint=Free("vehicle")) if public else base


@cache
def articulated_star(chains: int, links: int, *, wet: bool, public: bool = False) -> Cost:
    """Count articulated bodies on chains with forces at their tips (McMillan 1994, Table 16)."""
    base = _floating(PRINCIPAL, public)
    return _count(chains, links, _forward, wet=wet, tips=True, base=base)


@cache
def composite_star(chains: int, links: int, *, public: bool = False) -> Cost:
    """Count forward dynamics by the mass matrix on land (McMillan 1994, Table 12)."""

    def run(star: StarState) -> Any:
        size = len(star.v)
        rows = crba(star.plan, star.q)
        H = as_traced([x for row in rows for x in row]).reshape(size, size)
        nothing = [0.0] * size
        C = rnea(star.plan, star.q, star.v, nothing, star.gravity, star.external)
        right = as_traced([force - c for force, c in zip(star.u, C, strict=True)])
        return solve_tree(expanded_parents(star.plan), H, right)

    return _count(chains, links, run, wet=False, tips=True, base=_floating(PRINCIPAL, public))


@cache
def vehicle_with_arm(links: int, *, public: bool = False) -> Cost:
    """Count a submerged vehicle whose frame is at the first joint of its arm (1995, Table II)."""
    return _count(1, links, _forward, wet=True, base=_floating(AT_JOINT, public))


@cache
def decoupled_vehicle(links: int, *, public: bool = False) -> Cost:
    """Count the arm of a vehicle whose acceleration is given (McMillan 1994, Table 19).

    On the `Free` joint this is `hybrid_dynamics` of any tree.
    """

    def hybrid(star: StarState) -> Any:
        known = [True] * 6 + [False] * links
        vd, _ = hybrid_aba(
            star.plan, star.q, star.v, star.u, star.u, known, star.gravity, star.external
        )
        return list(vd)[6:]

    run = hybrid if public else arm_of_moved_vehicle
    return _count(1, links, run, wet=True, base=_floating(AT_JOINT, public))


def arm_of_moved_vehicle(star: StarState) -> Any:
    """Return the accelerations of the arm of a vehicle that accelerates by the first six of u."""
    vehicle, *arm = star.plan.bodies
    moved = PrescribedBase("vehicle", tuple(star.v[:6]), tuple(star.u[:6]))
    bodies = (replace(vehicle, joint=moved, v=slice(0, 0)), *arm)
    return _forward(star._replace(plan=replace(star.plan, bodies=bodies)))


def star_model(chains: int, links: int, base: _Base = PRINCIPAL) -> Model:
    """Return a star; all bodies have the same hydrodynamic coefficients."""
    fluid = BodyFluid(
        0.1,
        (0.1, 0.2, 0.3),
        _FULL,
        (
            CylinderDrag(
                0.05, 0.4, axis=(1, 0, 0), side_coefficient=1.1, end_coefficients=(1.1, 1.1)
            ),
        ),
    )
    general = Inertia(1.0, (0.1, 0.2, 0.3), (1.0, 0.1, 0.2, 1.1, 0.3, 1.2))
    on_axes = Inertia(1.0, (0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 1.1, 0.0, 1.2))
    inertia = general if base.at_joint else on_axes
    bodies = [Body("vehicle", joint=base.joint, inertia=inertia, fluid=fluid)]
    for k in range(chains):
        parent = "vehicle"
        for i in range(links):
            joint: Joint = Revolute(f"joint_{k}_{i}")
            name = f"link_{k}_{i}"
            bodies.append(Body(name, parent, joint=joint, inertia=general, fluid=fluid))
            parent = name
    return Model(f"star_of_{chains}_by_{links}", bodies)


_FULL = tuple(
    tuple(0.01 * (1 + min(i, j)) + (1.0 if i == j else 0.001 * (i + j)) for j in range(6))
    for i in range(6)
)
"""An added mass without zeros: symmetric, positive definite."""


class _Stream(FlowField):
    """Uniform flow; its parameters are velocity and acceleration."""

    def at(self, time: Scalar, position: Vec3) -> Flow:
        """Return the flow, equal at all times and points."""
        x, y, z, ax, ay, az = self.numbers
        return Flow((x, y, z), (ax, ay, az))


def _forward(star: StarState) -> Any:
    return list(aba(star.plan, star.q, star.v, star.u, star.gravity, star.external))


def _count(
    chains: int,
    links: int,
    run: Callable[[StarState], Any],
    *,
    wet: bool,
    tips: bool = False,
    base: _Base = PRINCIPAL,
) -> Cost:
    model = star_model(chains, links, base)
    own = immersions(model, False)

    def function(
        q: Any,
        v: Any,
        u: Any,
        stream: Any,
        tip: Any,
        inertia: Any,
        lengths: Any,
        gravity: Any,
        fluid: Any,
    ) -> Any:
        plan = model.plan.with_parameters(inertia.tolist())
        plan = replace(plan, bodies=_placed(plan, links, lengths.tolist(), base.at_joint))
        g = (0.0, 0.0, gravity[2])
        state = q.tolist(), v.tolist(), u.tolist()
        forces = [Force.zero()] * len(plan.bodies)
        if wet:
            values = iter(fluid.tolist()[1:])
            immersed = tuple(
                tuple(
                    part.with_parameters([next(values) for _ in part.parameters()]) for part in link
                )
                for link in own
            )
            added = tuple(map(added_to, immersed))
            plan = plan.in_water(added)
            flow = _Stream(UniformCurrent(), tuple(stream.tolist()))
            water = WaterAround(fluid[0], flow, True, Strips(), immersed, added, 0.0)
            swimming = plan
            if isinstance(base.joint, FreeClassical):
                # hydrodynamic forces depend on the full velocity
                first = replace(plan.bodies[0], joint=FreeByAngles("vehicle"))
                swimming = replace(plan, bodies=(first, *plan.bodies[1:]))
            forces = list(water_forces(swimming, *state[:2], g, water))
        if tips:
            for k, given in enumerate(tip.tolist(), start=1):
                # the last link of a chain
                x = tuple(given)
                forces[k * links] = forces[k * links] + Force(x[:3], x[3:])
        return run(StarState(plan, *state, g, tuple(forces)))

    inputs = {
        "q": (model.nq,),
        "v": (model.nv,),
        "u": (model.nv,),
        "stream": (6,),
        "tip": (chains, 6),
        "inertia": (len(model.plan.parameter_names),),
        "lengths": (chains * links, 7),
        "gravity": (3,),
        "fluid": (1 + sum(len(part.parameters()) for link in own for part in link),),
    }
    return cost_of(count(trace(function, inputs), (*CONSTANTS, "fluid")))


def _placed(plan: Plan, links: int, lengths: Sequence[Scalars], at_joint: bool) -> tuple[Any, ...]:
    """Return the bodies placed with variable lengths."""
    bodies = list(plan.bodies)
    for place, (a, c, s, d, c_0, s_0, d_0) in enumerate(lengths, start=1):
        moves = mdh(a, c, s, d)
        if (place - 1) % links == 0:
            # first link of a chain: in the base frame, or after a screw along z
            screw = Transform((Translation((0.0, 0.0, d_0)), AxisRotation(2, c_0, s_0)))
            moves = Transform.identity() if at_joint else screw.then(moves)
        bodies[place] = replace(bodies[place], placement=moves)
    return tuple(bodies)
