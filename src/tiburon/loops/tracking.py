"""Forces that make a robot with loops follow desired accelerations, as far as loops and motors can.

Desired accelerations of some joints are independent numbers, which loops as a rule do not allow
together. Of all accelerations that keep the loops closed, those are taken that come nearest to the
desired ones in the sum of squares, and of these the shortest:

    vd = argmin |S vd - a|^2   with   J vd + bias = 0

With a = k e + d de/dt and e = q_target - q the Lyapunov function k |e|^2 + |de/dt|^2 of the
controlled joints never grows, because the residual is orthogonal to every motion that the loops
allow. Then inverse dynamics of that motion; joint forces that the actuators cannot make stay
unmade, as they do on trees.

Symbols: J Jacobian of the constraints, S selection of the controlled joints, P projector on the
motions that loops allow.
"""

from typing import Any, Unpack

from numpy.typing import ArrayLike

from tiburon.algorithms.conditions import Setting, dynamics_function
from tiburon.algorithms.keywords import DynamicsCall
from tiburon.algorithms.library import call_under
from tiburon.algorithms.rnea import rnea
from tiburon.loops.constraints import Constraints, constraints, entries_in_use
from tiburon.loops.inverse import Sharing
from tiburon.model import Model
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced
from tiburon.trace.primitives import factor_orthogonal

__all__ = ["nearest_accelerations", "tracking_forces"]


def nearest_accelerations(
    model: Model, held: Constraints, sharing: Sharing, desired: list[Scalar], places: list[int]
) -> list[Scalar]:
    """Return the accelerations nearest to desired ones that keep loops closed.

    Args:
        model: The robot.
        held: Its constraints in this state.
        sharing: Of this position.
        desired: Desired accelerations [m/s^2 or rad/s^2], one per place.
        places: The velocity variables they belong to.
    """
    nv = model.nv
    bias = [-held.bias[k] for k in sharing.live] or [0.0]
    start = list(sharing.loops.solve(as_traced(bias)))
    # P is symmetric: the rows of S P are what is allowed of unit vectors
    rows = [sharing.allowed([1.0 if i == k else 0.0 for i in range(nv)]) for k in places]
    missing = [a - start[k] for a, k in zip(desired, places, strict=True)]
    step = list(factor_orthogonal(as_traced(rows), cut=sharing.cut).solve(as_traced(missing)))
    return [x + y for x, y in zip(start, step, strict=True)]


def _undriven(model: Model, actuators: tuple[str, ...]) -> tuple[str, ...]:
    """Return the joints that no loop binds and no actuator drives, such as a floating base."""
    bound = {i for used in entries_in_use(model) for i in used}
    found = []
    for joint in model.joints:
        own = model.slice(joint.name, of="v")
        if joint.nv and joint.name not in actuators and not bound & set(range(own.start, own.stop)):
            found.append(joint.name)
    return tuple(found)


def _run(around: Setting, q: Any, v: Any, desired: Any) -> Any:
    model, options = around.model, dict(around.options)
    joints, actuators = options["joints"], options["actuators"]
    held = constraints(model, around.plan, q, v)
    # what joints outside of all loops would need is not shared out among the actuators
    sharing = Sharing(model, held, (*actuators, *_undriven(model, actuators)))
    places = [int(k) for k in model.indices(joints, of="v")]
    wanted = [desired[k] for k in places]
    vd = nearest_accelerations(model, held, sharing, wanted, places)
    needed = rnea(around.plan, q, v, vd, around.gravity, around.external)
    own = set(model.indices(actuators, of="v").tolist())
    found = sharing.spread(sharing.shares(needed))
    return as_traced([force if k in own else 0.0 for k, force in enumerate(found)])


_FUNCTION = dynamics_function("tracking_forces", ("q", "v", "vd"), _run, of_trees=False)


def tracking_forces(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    desired: ArrayLike,
    *,
    joints: tuple[str, ...],
    actuators: tuple[str, ...],
    **conditions: Unpack[DynamicsCall],
) -> Any:
    """Compute forces of actuators that bring a robot with loops nearest to desired accelerations.

    Args:
        model: The robot; it has loops.
        q: Position with closed loops [m or rad], shape (..., nq).
        v: Joint velocity that keeps them closed [m/s or rad/s], shape (..., nv).
        desired: Desired acceleration [m/s^2 or rad/s^2], shape (..., nv); only those of `joints`
            count.
        joints: Names of the joints that are controlled.
        actuators: Names of the joints that are driven.
        **conditions: What acts on the robot, and when: the keywords of `Conditions`.

    Returns:
        Joint force [N or N m], shape (..., nv), zero at joints that are not driven.
    """
    options = (("joints", joints), ("actuators", actuators))
    return call_under(conditions, _FUNCTION, model, (q, v, desired), options)
