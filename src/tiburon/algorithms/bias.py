"""Joint forces that no acceleration calls for: bias and gravity.

Symbols (Featherstone 1987, chapters 4 and 5):
    C       bias force: what holds all joint accelerations at zero
    X       map of motion from the parent's frame to the body's
    a       acceleration of the world that has the effect of gravity, seen from a body
    f       force a joint must transmit to its body
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tiburon.algorithms.rnea import base_acceleration, rnea
from tiburon.algorithms.sweep import by_velocity, inward, outward
from tiburon.algorithms.tape_calls import scalars
from tiburon.model import Plan, PlanBody
from tiburon.spatial import Force, Motion, Scalar, Transform, Vec3

if TYPE_CHECKING:
    from tiburon.algorithms.water.fluid import Link, WaterAround

__all__ = ["bias", "weight"]


class _Held(NamedTuple):
    """What the outward pass knows of a body."""

    X: Transform
    a: Motion


def bias(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    gravity: Vec3,
    external: Sequence[Force] | None = None,
) -> tuple[Scalar, ...]:
    """Compute the joint forces at zero joint acceleration, C = ID(q, v, 0).

    Featherstone 1987, eq. 5.3.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        gravity: Acceleration of free fall, world axes [m/s^2].
        external: Force on each body from outside, in its plan frame [N m, N]; none by default.

    Returns:
        Bias force [N or N m], nv scalars.
    """
    return rnea(plan, q, v, scalars(np.zeros(plan.nv)), gravity, external)


def weight(
    plan: Plan, q: Sequence[Scalar], gravity: Vec3, water: "WaterAround | None" = None
) -> tuple[Scalar, ...]:
    """Compute the joint forces that bear the weight of all bodies, less their buoyancy in water.

    Featherstone 1987, eqs. 4.12-4.15 with every velocity left out; McMillan 1994, eq. 6.31.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        gravity: Acceleration of free fall, world axes [m/s^2].
        water: The water around the robot, taken to be still; none by default.

    Returns:
        Joint force [N or N m], nv scalars.
    """

    def lift(body: PlanBody, parent: _Held) -> _Held:
        X = body.transform(q[body.q])
        return _Held(X, X.motion(parent.a))

    def transmit(body: PlanBody, f: Force, held: _Held) -> tuple[tuple[Scalar, ...], Force]:
        return body.joint.project(q[body.q], f), held.X.force_to_parent(f)

    def weigh(body: PlanBody, _: Force, held: _Held, link: "Link") -> Force:
        f = body.inertia.apply(held.a)
        for part in link:
            f = f - part.buoyancy(density, held.a.linear)
        return f

    held = outward(plan, lift, _Held(Transform.identity(), base_acceleration(gravity)))
    density: Scalar = 0.0 if water is None else water.density
    links = ((),) * len(plan.bodies) if water is None else water.links
    weights = outward(plan, weigh, Force.zero(), held, links)
    kept = inward(plan, transmit, weights, held)
    return by_velocity(plan, kept)
