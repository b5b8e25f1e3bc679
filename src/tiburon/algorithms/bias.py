"""Joint forces that no acceleration calls for: bias and gravity.

Symbols (Featherstone 1987, chapters 4 and 5):
    C       bias force: what holds all joint accelerations at zero
    X       map of motion from the parent's frame to the body's
    a       acceleration of the world that has the effect of gravity, seen from a body
    f       force a joint must transmit to its body
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.conditions import Setting, dynamics_function
from tiburon.algorithms.gathering import by_velocity
from tiburon.algorithms.rnea import rnea, upward
from tiburon.algorithms.surroundings import surroundings_at
from tiburon.algorithms.sweep import inward, outward
from tiburon.algorithms.tape_calls import scalars
from tiburon.arguments import public
from tiburon.functions.keywords import DynamicsCall, WorldCall, takes_conditions
from tiburon.functions.library import LibraryFunction, Options, call_under, inputs_of
from tiburon.model import Model, Plan, PlanBody, World
from tiburon.spatial import Force, Motion, Scalar, Transform, Vec3
from tiburon.trace.array import as_traced

if TYPE_CHECKING:
    from tiburon.algorithms.water.fluid import Link, WaterAround

__all__ = ["bias", "bias_force", "gravity_force", "weight"]


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

    held = outward(plan, lift, _Held(Transform.identity(), upward(gravity)))
    density: Scalar = 0.0 if water is None else water.density
    links = ((),) * len(plan.bodies) if water is None else water.links
    weights = outward(plan, weigh, Force.zero(), held, links)
    kept = inward(plan, transmit, weights, held)
    return by_velocity(plan, kept)


def _run_bias(around: Setting, q: Sequence[Scalar], v: Sequence[Scalar]) -> Any:
    return as_traced(list(bias(around.plan, q, v, around.gravity, around.external)))


def _run_gravity(model: Model, world: World | None, options: Options, q: Any) -> Any:
    position = scalars(q)
    plan, g, water = surroundings_at(model, world, position)
    return as_traced(list(weight(plan, position, g, water)))


_BIAS = dynamics_function("bias_force", ("q", "v"), _run_bias)
_GRAVITY = LibraryFunction("gravity_force", inputs_of("q"), _run_gravity, of_trees=True)


@public
@takes_conditions
def bias_force(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    **conditions: Unpack[DynamicsCall],
) -> NDArray[np.float64]:
    """Compute the joint forces that hold all joint accelerations at zero.

    They balance Coriolis and centrifugal effects, gravity and forces from outside: the C of
    H vd + C = tau. One state or a batch; traced arrays inside a compiled function, one state at a
    time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        **conditions: What acts on the robot, and when: the keywords of `Conditions`; `out` and
            `errors`: those of `Delivery`.

    Returns:
        Joint force [N or N m], shape (..., nv).
    """
    answer: NDArray[np.float64] = call_under(conditions, _BIAS, model, (q, v))
    return answer


@public
@takes_conditions
def gravity_force(
    model: Model,
    q: ArrayLike,
    **options: Unpack[WorldCall],
) -> NDArray[np.float64]:
    """Compute the joint forces that hold the robot at rest against gravity.

    They are the slope of `potential_energy`. In water they are those against weight less buoyancy,
    without what a current does. One state or a batch; traced arrays inside a compiled
    function, one state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        **options: `time`, `world` and `fluid`; `out` and `errors`: see `Conditions` and
            `Delivery`.

    Returns:
        Joint force [N or N m], shape (..., nv).
    """
    answer: NDArray[np.float64] = call_under(options, _GRAVITY, model, (q,))
    return answer
