"""Chains of the published operation counts, and the cost of our algorithms on them.

A chain has N revolute joints in modified Denavit-Hartenberg frames. Lengths, twists, inertias and
gravity components are all general, so that nothing cancels by chance, and constant, so that
operations on them alone are free. The first joint frame is the base frame, up to the joint angle.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np

from tiburon.algorithms.aba import aba
from tiburon.algorithms.crba import crba
from tiburon.algorithms.rnea import rnea
from tiburon.model import Body, Free, Inertia, Model, Plan, Revolute
from tiburon.model.joints import Joint
from tiburon.reproduce.published import Cost
from tiburon.spatial import AxisRotation, Scalar, Scalars, Transform, Translation, Vec3
from tiburon.trace.array import as_traced
from tiburon.trace.count import OperationCount, count
from tiburon.trace.primitives.tree import solve_tree
from tiburon.trace.program import trace

CONSTANTS = ("inertia", "lengths", "gravity")
"""Inputs of the counted programs that are constant."""


@dataclass(frozen=True)
class FreeByAngles(Free):
    """A floating base with three attitude angles, as in the sources.

    q = (yaw, pitch, roll [rad], position [m], nothing): the matrix from world to body axes is
    Rx(roll) Ry(pitch) Rz(yaw), three planar rotations (McMillan 1995, section V).
    """

    kind: ClassVar[str] = "free_by_angles"

    def transform(self, q: Scalars) -> Transform:
        """Return the map of motion from the joint frame to the body frame."""
        yaw, pitch, roll, x, y, z, _ = q
        turns = [
            AxisRotation(axis, np.cos(angle), np.sin(angle))
            for axis, angle in ((2, yaw), (1, pitch), (0, roll))
        ]
        return Transform((Translation((x, y, z)), *turns))


def cost_of(found: OperationCount) -> Cost:
    """Return a count by the sources' rules: divisions and square roots are multiplications."""
    products = found.multiplications + found.divisions + found.square_roots
    return Cost(products, found.additions)


@cache
def inverse_dynamics(n: int) -> Cost:
    """Count the recursive Newton-Euler algorithm on a chain of n links."""
    return _count(n, lambda plan, q, v, u, g: list(rnea(plan, q, v, u, g)))


@cache
def bias_force(n: int) -> Cost:
    """Count the recursive Newton-Euler algorithm at zero joint acceleration."""
    return _count(n, lambda plan, q, v, u, g: list(rnea(plan, q, v, [0.0] * n, g)))


@cache
def composite_rigid_body(n: int) -> Cost:
    """Count the composite-rigid-body algorithm (mass matrix)."""
    return _count(n, lambda plan, q, v, u, g: [x for row in crba(plan, q) for x in row])


@cache
def forward_by_composite_rigid_body(n: int) -> Cost:
    """Count forward dynamics by mass matrix, bias force and the solution of H vd = tau - C."""

    def run(plan: Plan, q: Any, v: Any, tau: Any, gravity: Vec3) -> Any:
        H = as_traced([x for row in crba(plan, q) for x in row]).reshape(n, n)
        C = rnea(plan, q, v, [0.0] * n, gravity)
        right = as_traced([force - c for force, c in zip(tau, C, strict=True)])
        return solve_tree(range(-1, n - 1), H, right)

    return _count(n, run)


@cache
def articulated_body(n: int) -> Cost:
    """Count the articulated-body algorithm."""
    return _count(n, lambda plan, q, v, u, g: list(aba(plan, q, v, u, g)))


@cache
def mobile_articulated_body(n: int, base: Joint | None = None) -> Cost:
    """Count the articulated-body algorithm on a chain of n links carried by a floating body.

    The frame of the floating body is the base frame of the chain. World z is vertical, so that
    gravity has one component there.

    Args:
        n: Number of links.
        base: Joint of the floating body; `FreeByAngles` by default.
    """
    run = lambda plan, q, v, u, g: list(aba(plan, q, v, u, (0.0, 0.0, g[2])))  # noqa: E731
    return _count(n, run, base=base or FreeByAngles("base"))


def _count(n: int, run: Callable[..., Any], base: Joint | None = None) -> Cost:
    """Count an algorithm, called as ``run(plan, q, v, u, gravity)``, on a chain of n links."""
    model = chain_model(n, base)
    first_link = 0 if base is None else 1

    def function(q: Any, v: Any, u: Any, inertia: Any, lengths: Any, gravity: Any) -> Any:
        plan = model.plan.with_parameters(inertia.tolist())
        bodies = list(plan.bodies)
        # joint 1 is in the base frame
        for place, (a, c, s, d) in enumerate(lengths.tolist(), start=first_link + 1):
            bodies[place] = replace(bodies[place], placement=mdh(a, c, s, d))
        general = replace(plan, bodies=tuple(bodies))
        x, y, z = gravity.tolist()
        return run(general, q.tolist(), v.tolist(), u.tolist(), (x, y, z))

    inputs = {
        "q": (model.nq,),
        "v": (model.nv,),
        "u": (model.nv,),
        "inertia": (len(model.plan.parameter_names),),
        "lengths": (n - 1, 4),
        "gravity": (3,),
    }
    return cost_of(count(trace(function, inputs), CONSTANTS))


def mdh(a: Scalar, cosine: Scalar, sine: Scalar, d: Scalar) -> Transform:
    """Return the transform of constant modified Denavit-Hartenberg parameters (eqs. A.5-A.7)."""
    return Transform(
        (Translation((a, 0.0, 0.0)), AxisRotation(0, cosine, sine), Translation((0.0, 0.0, d)))
    )


def chain_model(n: int, base: Joint | None = None) -> Model:
    """Return a chain about z axes whose links have ten nonzero inertial parameters each."""
    joints: list[Joint] = [] if base is None else [base]
    joints += [Revolute(f"joint_{number}") for number in range(1, n + 1)]
    inertia = Inertia(1.0, (0.1, 0.2, 0.3), (1.0, 0.1, 0.2, 1.1, 0.3, 1.2))
    bodies: list[Body] = []
    for joint in joints:
        parent = bodies[-1].name if bodies else "world"
        bodies.append(Body(f"{joint.name}_body", parent, joint=joint, inertia=inertia))
    return Model(f"chain_of_{n}", bodies)
