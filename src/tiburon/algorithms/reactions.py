"""What joints carry: the wrench of the actuator and that of the bearing.

Symbols (Featherstone 1987, section 7.4.2):
    f       force a joint transmits to its body, F tau + fr
    S       motion sub-space of the joint
    F       force sub-space of its actuators: wrenches of unit force; S^T F = 1 where none are named
    Qa      forces of the actuators, S^T F Qa = S^T f
    fr      reaction of the bearing, which does no work: S^T fr = 0
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.conditions import Setting, dynamics_function
from tiburon.algorithms.gathering import by_velocity
from tiburon.algorithms.rnea import transmitted
from tiburon.algorithms.tape_calls import scalars
from tiburon.arguments import public
from tiburon.errors import DomainError, ShapeError
from tiburon.functions.keywords import DynamicsCall, takes_conditions
from tiburon.functions.library import Options, record_under
from tiburon.model import Model
from tiburon.record import named_line
from tiburon.spatial import Force, Motion, Scalar
from tiburon.spatial.vec3 import ZERO3
from tiburon.trace.array import as_traced
from tiburon.trace.primitives import factor_orthogonal
from tiburon.trace.primitives.spd import factor_spd
from tiburon.trace.program import Input
from tiburon.trace.value import require

__all__ = ["JointReactions", "joint_reactions", "reactions_under", "split", "unit_forces"]

Scalars = Sequence[Scalar]


class JointReactions(NamedTuple):
    """What every joint that moves carries, in the order of `model.joint_names`.

    Wrenches are [n; f] in axes of the body that the joint holds, about its origin: what acts on the
    body; the opposite acts on its parent.
    """

    tau: NDArray[np.float64]
    """Joint force [N or N m], shape (..., nv), with what accelerates armatures."""

    actuator: NDArray[np.float64]
    """Wrench of the actuator on the body [N m, N], shape (..., joints, 6)."""

    bearing: NDArray[np.float64]
    """Wrench of the bearing [N m, N], shape (..., joints, 6)."""

    def __repr__(self) -> str:
        return named_line(self)


def unit_forces(S: Sequence[Motion]) -> tuple[Force, ...]:
    """Return the wrenches that unit joint forces are taken to be, with S^T F = 1.

    Work alone does not tell: any wrench that does none may be added. Where every one of several
    freedoms turns the body, they are couples. Otherwise they lie along S, as in the book for a
    screw, whose unit force is shared between its axis' couple and force (sec. 7.3).

    Args:
        S: Columns of the motion sub-space, in any frame.

    Returns:
        One wrench per column, in the same frame.
    """
    turning = len(S) > 1 and all(any(_maybe(x) for x in s.angular) for s in S)
    along = [Force(s.angular, ZERO3 if turning else s.linear) for s in S]
    if not along:
        return ()
    gram = as_traced([s.dot(f) for s in S for f in along]).reshape(len(S), len(S))
    # S^T along is symmetric; its inverse turns the directions into duals of S
    weights = scalars(factor_spd(gram, inline=True).solve(np.eye(len(S))))
    found = []
    for column in range(len(S)):
        total = Force.zero()
        for row, direction in enumerate(along):
            total = total + direction * weights[row * len(S) + column]
        found.append(total)
    return tuple(found)


def _maybe(x: Scalar) -> bool:
    """Tell whether a number may be other than zero: a constant that is not, or a traced one."""
    return not isinstance(x, float) or x != 0.0


def split(
    S: Sequence[Motion], f: Force, F: Sequence[Force] | None = None
) -> tuple[tuple[Scalar, ...], Force, Force]:
    """Split the force a joint transmits (Featherstone 1987, eqs. 7.14 and 7.15).

    Args:
        S: Columns of the motion sub-space.
        f: The force [N m, N], in the same frame.
        F: Wrenches of unit forces of the joint's actuators; those of `unit_forces` by default.

    Returns:
        Joint forces S^T f, the wrench F Qa of the actuators, and that of the bearing.
    """
    tau = tuple(s.dot(f) for s in S)
    units, forces = (unit_forces(S), tau) if F is None else (F, _actuator_forces(S, F, tau))
    actuator = Force.zero()
    for unit, force in zip(units, forces, strict=True):
        actuator = actuator + unit * force
    return tau, actuator, f - actuator


def _actuator_forces(S: Sequence[Motion], F: Sequence[Force], tau: Scalars) -> Scalars:
    """Solve S^T F Qa = tau; of more actuators than freedoms, take those of least squares."""
    if not S:
        return (0.0,) * len(F)
    work = as_traced([s.dot(f) for s in S for f in F]).reshape(len(S), len(F))
    factor = factor_orthogonal(work)
    powered = factor.rank >= len(S)
    expected = "actuators that work on every freedom of their joint in this position"
    return [require(powered, x, expected) for x in scalars(factor.solve(as_traced(list(tau))))]


def reactions_under(
    around: Setting, q: Scalars, v: Scalars, vd: Scalars, *lines: Scalars
) -> dict[str, Any]:
    """Return the arrays of `JointReactions` by name.

    Args:
        around: What acts in this state; loops count as open.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars.
        *lines: Wrenches of the actuators that the options name.
    """
    model, plan = around.model, around.plan
    named = dict(zip((name for name, _ in _lines(around.options)), lines, strict=True))
    forces = transmitted(plan, q, v, vd, around.gravity, around.external)
    tau: list[tuple[Scalar, ...]] = []
    actuators: list[Scalar] = []
    bearings: list[Scalar] = []
    for body, f in zip(plan.bodies, forces, strict=True):
        # the user's own joint and body frame: what is reported must not depend on plan frames
        joint = model.body(body.name).joint
        S = joint.subspace(q[body.q])
        felt = plan.frame(body.name).transform.force(f)
        numbers = named.get(joint.name)
        F = None
        if numbers is not None:
            F = [Force.from_array(numbers[k : k + 6]) for k in range(0, len(numbers), 6)]
        joint_force, actuator, bearing = split(S, felt, F)
        if body.armature is not None:
            shares = zip(joint_force, body.armature, vd[body.v], strict=True)
            joint_force = tuple(force + own * rate for force, own, rate in shares)
        tau.append(joint_force)
        actuators += actuator
        bearings += bearing
    shape = (len(plan.bodies), 6)
    return {
        "tau": as_traced(list(by_velocity(plan, tau))),
        "actuator": as_traced(actuators).reshape(shape),
        "bearing": as_traced(bearings).reshape(shape),
    }


def _lines(options: Options) -> tuple[tuple[str, int], ...]:
    """Return the joints whose actuators are named, and how many each has."""
    found: tuple[tuple[str, int], ...] = dict(options).get("actuators", ())
    return found


def _line_inputs(model: Model, options: Options) -> list[Input]:
    described = "6 (moment and force of a unit actuator force)"
    return [
        Input(f"actuators[{name!r}]", (count, 6), described=described)
        for name, count in _lines(options)
    ]


def _actuator_options(model: Model, actuators: Mapping[str, ArrayLike] | None) -> Options:
    """Return the option of code that knows actuators by their lines."""
    found = []
    for name, wrenches in (actuators or {}).items():
        shape, freedoms = np.shape(wrenches), model.joint(name).nv
        if len(shape) < 2 or shape[-1] != 6:
            raise ShapeError(
                f"actuators[{name!r}]", "(..., actuators, 6)", shape, advice="one row [n; f] each"
            )
        if shape[-2] < freedoms or not freedoms:
            raise DomainError(
                f"actuators[{name!r}]",
                f"at least one for each of {freedoms} freedoms, and a joint that has some",
                f"{shape[-2]}",
                advice="leave joints without power out; joint_actuation() tells which they are",
            )
        found.append((name, shape[-2]))
    return (("actuators", tuple(found)),) if found else ()


_FUNCTION = dynamics_function(
    "joint_reactions", ("q", "v", "vd"), reactions_under, more=_line_inputs
)


@public
@takes_conditions
def joint_reactions(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    vd: ArrayLike,
    *,
    actuators: Mapping[str, ArrayLike] | None = None,
    **conditions: Unpack[DynamicsCall],
) -> JointReactions:
    """Compute what every joint carries, split into the wrenches of its actuator and its bearing.

    The actuator's wrench is what the joint force stands for: a couple about the axis of a
    hinge, a force along a slide, unless actuators with lines of their own are named. The
    bearing carries the rest and does no work. With loops, the robot's own actuators are taken
    to drive the motion (`loop_inverse_dynamics`); `loop_reactions` takes joint forces instead.
    One state or a batch; traced arrays inside a compiled function, one state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        vd: Joint acceleration [m/s^2 or rad/s^2], shape (..., nv).
        actuators: By joint name, the wrench [n; f] of a unit force of each of its actuators on the
            body, body axes about the body origin, shape (..., actuators, 6), as `joint_actuation`
            takes them. Of more actuators than freedoms, forces of least squares are taken.
        **conditions: What acts on the robot, and when: the keywords of `Conditions`; `out` and
            `errors`: those of `Delivery`.

    Returns:
        Joint forces, actuator wrenches and bearing wrenches of all joints that move, in the order
        of `model.joint_names`; fixed joints are left out, their bodies being one with their parent.

    Raises:
        DomainError: If a joint has fewer actuators than freedoms, or they work on fewer.

    Example:
        A cylinder that pushes along x, 0.1 m above a hinge about y, loads its bearing::

            cylinder = {"hinge": [(0, 0.1, 0, 1, 0, 0)]}
            bearing = tb.joint_reactions(arm, q, v, vd, actuators=cylinder).bearing
    """
    lines = () if actuators is None else tuple(actuators.values())
    options = _actuator_options(model, actuators)
    return record_under(JointReactions, conditions, _FUNCTION, model, (q, v, vd, *lines), options)
