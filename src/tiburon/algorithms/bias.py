"""Bias and gravity forces: inverse dynamics at zero joint acceleration.

Symbols (Featherstone 1987, chapters 4 and 5):
    C       bias force: joint forces at zero joint acceleration
    X       motion transform from the parent's frame to the body's
    a       acceleration of the base equivalent to gravity, in body axes
    f       force a joint must transmit to its body
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tiburon.algorithms.rnea import base_acceleration, rnea
from tiburon.algorithms.tape_calls import scalars
from tiburon.algorithms.traversal import by_velocity, inward, outward
from tiburon.model import Plan, PlanBody
from tiburon.spatial import Force, Motion, Scalar, Scalars, Transform, Vec3

if TYPE_CHECKING:
    from tiburon.algorithms.water.fluid import Link, WaterAround


class _Accelerated(NamedTuple):
    """Results of the outward pass for a body."""

    X: Transform
    a: Motion


def bias(
    plan: Plan,
    q: Scalars,
    v: Scalars,
    gravity: Vec3,
    external: Sequence[Force] | None = None,
    *,
    lanes: bool = False,
) -> tuple[Scalar, ...]:
    """Compute the bias force C = ID(q, v, 0) [N or N m], nv scalars (Featherstone 1987, eq. 5.3).

    Arguments are those of `rnea`.
    """
    return rnea(plan, q, v, scalars(np.zeros(plan.nv)), gravity, external, lanes=lanes)


def gravity_forces(
    plan: Plan, q: Scalars, gravity: Vec3, water: "WaterAround | None" = None
) -> tuple[Scalar, ...]:
    """Compute the joint forces that balance weight minus buoyancy.

    Featherstone 1987, eqs. 4.12-4.15 at zero velocity; McMillan 1994, eq. 6.31.

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        gravity: Gravitational acceleration, world axes [m/s^2].
        water: The water around the robot, at rest; none by default.

    Returns:
        Joint force [N or N m], nv scalars.
    """

    def lift(body: PlanBody, parent: _Accelerated) -> _Accelerated:
        X = body.transform(q[body.q])
        return _Accelerated(X, X.motion(parent.a))

    def transmit(
        body: PlanBody, f: Force, accelerated: _Accelerated
    ) -> tuple[tuple[Scalar, ...], Callable[[], Force]]:
        return body.joint.project(q[body.q], f), lambda: accelerated.X.force_to_parent(f)

    def weigh(body: PlanBody, _: Force, accelerated: _Accelerated, link: "Link") -> Force:
        f = body.inertia.apply(accelerated.a)
        for part in link:
            f = f - part.buoyancy(density, accelerated.a.linear)
        return f

    accelerated = outward(
        plan, lift, _Accelerated(Transform.identity(), base_acceleration(gravity))
    )
    density: Scalar = 0.0 if water is None else water.density
    links = ((),) * len(plan.bodies) if water is None else water.links
    weights = outward(plan, weigh, Force.zero(), accelerated, links)
    kept = inward(plan, transmit, weights, accelerated)
    return by_velocity(plan, kept)
