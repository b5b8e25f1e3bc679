"""Forward dynamics: the articulated-body algorithm in body coordinates.

Symbols (Featherstone 1987, chapter 6):
    X       map of motion from the parent's frame to the body's
    vel     spatial velocity of a body, vJ that relative to its parent
    c       velocity product of a joint
    IA, pA  articulated-body inertia and bias force of a body with all beyond it
    Ia, pa  what a joint passes on of them
    a       spatial acceleration of a body
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.binding import plan_and_gravity
from tiburon.algorithms.external import external_inputs, external_options, given_forces
from tiburon.algorithms.library import LibraryFunction, Options, call, scalars
from tiburon.algorithms.rnea import upward
from tiburon.algorithms.sweep import inward, outward
from tiburon.model import Model, Plan, PlanBody, World
from tiburon.model.joints.joint import Carry
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Transform, Vec3
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input, current_graph

__all__ = ["aba", "forward_dynamics"]


class _Articulated:
    """Inertia and bias force of a body and all beyond it; they add."""

    __slots__ = ("IA", "pA")

    def __init__(self, IA: ArticulatedInertia, pA: Force) -> None:
        self.IA = IA
        self.pA = pA

    def __add__(self, other: "_Articulated") -> "_Articulated":
        return _Articulated(self.IA + other.IA, self.pA + other.pA)


class _Moving(NamedTuple):
    """What the first pass knows of a body."""

    X: Transform
    vel: Motion
    c: Motion
    alone: _Articulated


class _Accelerating(NamedTuple):
    """What the last pass knows of a body."""

    qdd: tuple[Scalar, ...]
    a: Motion


def aba(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    tau: Sequence[Scalar],
    gravity: Vec3,
    external: Sequence[Force] | None = None,
) -> tuple[Scalar, ...]:
    """Compute the joint accelerations that given joint forces produce.

    Featherstone 1987, eqs. 6.46-6.55 in link coordinates (6.56-6.65), for trees (7.6) and joints of
    several freedoms (7.19); a free root is a joint of six freedoms (7.20). O(number of bodies).

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        tau: Joint force [N or N m], nv scalars.
        gravity: Acceleration of free fall, world axes [m/s^2].
        external: Force on each body from outside, in its plan frame [N m, N]; none by default.

    Returns:
        Joint acceleration [m/s^2 or rad/s^2], nv scalars.
    """

    def motion(body: PlanBody, parent: _Moving) -> _Moving:
        X = body.transform(q[body.q])
        vJ = body.joint.velocity(q[body.q], v[body.v])
        vel = X.motion(parent.vel) + vJ
        c = vel.cross(vJ) + body.joint.bias(q[body.q], v[body.v])
        p = body.inertia.bias(vel)
        # p is a force the body needs; what comes from outside need not be supplied
        pA = p if external is None else p - external[body.index]
        return _Moving(X, vel, c, _Articulated(body.inertia.articulated(), pA))

    def release(body: PlanBody, total: _Articulated, moving: _Moving) -> tuple[Carry, _Articulated]:
        IA, pA = total.IA, total.pA
        Ia, pa, carry = body.joint.release(q[body.q], IA, pA, moving.c, tau[body.v])
        X = moving.X
        return carry, _Articulated(X.inertia_to_parent(Ia), X.force_to_parent(pa))

    def accelerate(
        body: PlanBody, parent: _Accelerating, moving: _Moving, carry: Carry
    ) -> _Accelerating:
        a = moving.X.motion(parent.a) + moving.c
        return _Accelerating(*body.joint.accelerate(q[body.q], carry, a))

    # outward: velocities, and what each body would need alone
    nothing = _Articulated(ArticulatedInertia.zero(), Force.zero())
    at_rest = _Moving(Transform.identity(), Motion.zero(), Motion.zero(), nothing)
    moving = outward(plan, motion, at_rest)
    # inward: free each joint and hand its parent what is felt through it
    carries = inward(plan, release, [visit.alone for visit in moving], moving)
    # outward: the world accelerating upward acts on every body as gravity does
    root = _Accelerating((), upward(gravity))
    accelerating = outward(plan, accelerate, root, moving, carries)
    return tuple(x for visit in accelerating for x in visit.qdd)


def _inputs(model: Model, options: Options) -> list[Input]:
    return [
        Input("q", (model.nq,), described=model.describe_q()),
        Input("v", (model.nv,), described=model.describe_v()),
        Input("tau", (model.nv,), described=model.describe_v()),
        *external_inputs(model, options),
    ]


def _run(
    model: Model, world: World | None, options: Options, q: Any, v: Any, tau: Any, *wrenches: Any
) -> Any:
    plan, gravity = plan_and_gravity(model, world)
    position = scalars(q)
    forces = given_forces(plan, position, options, wrenches)
    return as_traced(list(aba(plan, position, scalars(v), scalars(tau), gravity, forces)))


_FUNCTION = LibraryFunction("forward_dynamics", _inputs, _run)
_latest, _recent = _FUNCTION.latest, _FUNCTION.recent


def forward_dynamics(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    *,
    world: World | None = None,
    external_force: Mapping[str, ArrayLike] | None = None,
    external_axes: str = "frame",
) -> NDArray[np.float64]:
    """Compute the joint accelerations that given joint forces produce.

    One state or a batch: leading dimensions of all arrays broadcast. Inside a function given to
    `tiburon.compile` the arrays may be traced, one state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        tau: Joint force [N or N m], shape (..., nv).
        world: Surroundings; gravity (0, 0, -9.81) m/s^2 by default.
        external_force: By name of a body or frame, the force on it from outside, [n; f] at the
            frame's origin [N m, N], shape (..., 6).
        external_axes: "frame" if external forces are given in the frame's own axes, "world" if in
            world axes.

    Returns:
        Joint acceleration, the time derivative of v [m/s^2 or rad/s^2], shape (..., nv).
    """
    if world is None and external_force is None and current_graph() is None:
        # the plain case, in as few steps as Python allows
        known, kernel = _latest[0]
        if known is not model:
            kernel = _recent.get(id(model))
        if kernel is not None:
            result: NDArray[np.float64] = kernel(q, v, tau)
            return result
    options = external_options(external_force, external_axes)
    wrenches = () if external_force is None else external_force.values()
    answer: NDArray[np.float64] = call(_FUNCTION, model, (q, v, tau, *wrenches), world, options)
    return answer
