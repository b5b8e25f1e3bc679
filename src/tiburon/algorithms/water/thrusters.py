"""From the commands of thrusters to joint forces.

Thrusters push on their bodies; what that means for the joints is the projection of those forces,
summed from the tips to the root (Featherstone 1987, eqs. 4.14 and 4.15 without the bodies' own).
"""

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.gathering import by_velocity
from tiburon.algorithms.surroundings import plan_and_gravity
from tiburon.algorithms.sweep import inward, outward
from tiburon.algorithms.tape_calls import scalars
from tiburon.arguments import public
from tiburon.errors import ModelError
from tiburon.functions.keywords import DELIVERY, TIMED_CALL, Delivery, TimedCall, takes_conditions
from tiburon.functions.library import LibraryFunction, Options, call_under
from tiburon.hydro.thrust import thrust_of, thruster_wrench
from tiburon.model import Model, Plan, PlanBody, Thruster, World
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Force, Scalar, Transform
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input

__all__ = ["thrust_after", "thruster_force", "thruster_force_of_thrust", "thrusts"]


def thrusts(thrusters: Sequence[Thruster], commands: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """Return the steady thrust of each thruster for its command [N]."""
    return tuple(thrust_of(t, u) for t, u in zip(thrusters, commands, strict=True))


def projected(plan: Plan, q: Sequence[Scalar], forces: Sequence[Force]) -> tuple[Scalar, ...]:
    """Compute the joint forces that do as much as forces on bodies.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        forces: On each plan body, in its frame [N m, N].

    Returns:
        Joint force [N or N m], nv scalars.
    """

    def place(body: PlanBody, _: Transform) -> Transform:
        return body.transform(q[body.q])

    def transmit(body: PlanBody, f: Force, X: Transform) -> tuple[tuple[Scalar, ...], Force]:
        return body.joint.project(q[body.q], f), X.force_to_parent(f)

    transforms = outward(plan, place, Transform.identity())
    return by_velocity(plan, inward(plan, transmit, list(forces), transforms))


def thruster_joint_forces(
    model: Model, plan: Plan, q: Sequence[Scalar], thrust: Sequence[Scalar]
) -> tuple[Scalar, ...]:
    """Compute the joint forces of given thrusts [N], one per thruster of the model."""
    forces = [Force.zero() for _ in plan.bodies]
    for thruster, push in zip(model.thrusters, thrust, strict=True):
        frame = plan.frame(thruster.body)
        # what pushes against the world moves nothing
        if frame.body != WORLD_BODY:
            wrench = frame.transform.force_to_parent(thruster_wrench(thruster, push))
            forces[frame.body] = forces[frame.body] + wrench
    return projected(plan, q, forces)


def _per_thruster(name: str, model: Model) -> Input:
    """Return an array with one number per thruster."""
    count = len(model.thrusters)
    if count == 0:
        raise ModelError(
            f"model {model.name!r}: expected a robot with thrusters, got none; give it "
            "thrusters=(Thruster(...), ...)"
        )
    described = f"{count} (one per thruster: {', '.join(t.name for t in model.thrusters[:4])}"
    described += ", ...)" if count > 4 else ")"
    return Input(name, (count,), described=described)


def _inputs(name: str) -> Any:
    def inputs(model: Model, options: Options) -> list[Input]:
        return [
            Input("q", (model.nq,), described=model.describe_q()),
            _per_thruster(name, model),
        ]

    return inputs


def _lag_inputs(model: Model, options: Options) -> list[Input]:
    return [_per_thruster("thrust", model), _per_thruster("commands", model), Input("dt", ())]


def _options(model: Model) -> Options:
    """Return what code depends on beside the layout: thrusters are compiled in."""
    return (("thrusters", model.thrusters),)


def _run(model: Model, world: World | None, options: Options, q: Any, commands: Any) -> Any:
    plan, _ = plan_and_gravity(model, world)
    thrust = thrusts(model.thrusters, scalars(commands))
    return as_traced(list(thruster_joint_forces(model, plan, scalars(q), thrust)))


def _run_thrust(model: Model, world: World | None, options: Options, q: Any, thrust: Any) -> Any:
    plan, _ = plan_and_gravity(model, world)
    return as_traced(list(thruster_joint_forces(model, plan, scalars(q), scalars(thrust))))


def _run_lag(
    model: Model, world: World | None, options: Options, thrust: Any, commands: Any, dt: Any
) -> Any:
    (step,) = scalars(dt)
    now, wanted = scalars(thrust), thrusts(model.thrusters, scalars(commands))
    later = []
    for thruster, f, steady in zip(model.thrusters, now, wanted, strict=True):
        T = thruster.time_constant
        later.append(steady + (f - steady) * np.exp(-step / T) if T > 0.0 else steady)
    return as_traced(later)


_FUNCTION = LibraryFunction(
    "thruster_force", _inputs("commands"), _run, parameters=(), keywords=TIMED_CALL
)
_OF_THRUST = LibraryFunction(
    "thruster_force_of_thrust",
    _inputs("thrust"),
    _run_thrust,
    parameters=(),
    keywords=TIMED_CALL,
)
_LAG = LibraryFunction("thrust_after", _lag_inputs, _run_lag, parameters=(), keywords=DELIVERY)


@public
@takes_conditions
def thruster_force(
    model: Model, q: ArrayLike, commands: ArrayLike, **options: Unpack[TimedCall]
) -> NDArray[np.float64]:
    """Compute the joint forces of all thrusters at their commands.

    Add them to the forces of motors: ``tau = tb.thruster_force(rov, q, u) + motors``. One state or
    a batch; traced arrays inside a compiled function, one state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        commands: One per thruster, in the order of `model.thrusters` and the unit of their curves,
            shape (..., thrusters).
        **options: `time`, `out` and `errors`: see `Conditions` and `Delivery`.

    Returns:
        Joint force [N or N m], shape (..., nv): steady thrust, without the lag of the propellers.
    """
    answer: NDArray[np.float64] = call_under(
        options, _FUNCTION, model, (q, commands), _options(model)
    )
    return answer


@public
@takes_conditions
def thruster_force_of_thrust(
    model: Model, q: ArrayLike, thrust: ArrayLike, **options: Unpack[TimedCall]
) -> NDArray[np.float64]:
    """Compute the joint forces of thrusters whose thrusts are known.

    Where propellers lag, the thrust is a state, which `thrust_after` moves on.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        thrust: One per thruster, along its direction [N], shape (..., thrusters).
        **options: `time`, `out` and `errors`: see `Conditions` and `Delivery`.

    Returns:
        Joint force [N or N m], shape (..., nv); linear in the thrusts.
    """
    answer: NDArray[np.float64] = call_under(
        options, _OF_THRUST, model, (q, thrust), _options(model)
    )
    return answer


@public
@takes_conditions
def thrust_after(
    model: Model,
    thrust: ArrayLike,
    commands: ArrayLike,
    dt: ArrayLike,
    **delivery: Unpack[Delivery],
) -> NDArray[np.float64]:
    """Compute what thrusts become while commands are held: they follow with a lag of first order.

    d thrust / dt = (steady thrust - thrust) / `time_constant`, solved exactly, so that no step is
    too long. A thruster whose time constant is zero follows at once.

    Args:
        model: The robot.
        thrust: Now, one per thruster [N], shape (..., thrusters).
        commands: Held meanwhile, in the unit of the curves, shape (..., thrusters).
        dt: How long [s], shape (...).
        **delivery: `out` and `errors`, the keywords of `Delivery`.

    Returns:
        Thrust after that time [N], shape (..., thrusters).

    Example:
        ``thrust = tb.thrust_after(rov, thrust, u, 0.01)``, then
        ``tau = tb.thruster_force_of_thrust(rov, q, thrust)``
    """
    answer: NDArray[np.float64] = call_under(
        delivery, _LAG, model, (thrust, commands, dt), _options(model)
    )
    return answer
