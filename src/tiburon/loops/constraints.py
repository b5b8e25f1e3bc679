"""What the loops of a robot ask of its joints: values, Jacobian and bias of all constraints.

A loop ties two frames. Its joint tells which measures vanish (`tiburon.model.closing`); the wrench
of each measure, carried from the two frames inward to the body that bears both, gives the row of
the Jacobian: joints that bear both ends cancel and never appear (Featherstone 1987, eqs. 9.6 to
9.10). No base acceleration stands for gravity here, so loops closed to the world need no care.

Symbols:
    F1, F2  joint frame on the first body of a loop, the frame it moves on the second
    J       Jacobian of the constraints: rate of the values = J v
    bias    rate of J times v: second rate of the values without joint accelerations
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.articulated_response import ancestors
from tiburon.algorithms.frame_motion import Moving, body_motions
from tiburon.algorithms.kinematics import Place, body_places
from tiburon.algorithms.sweep import each, to_root
from tiburon.algorithms.tape_calls import JointVector, recorder, taping
from tiburon.arguments import public
from tiburon.loops.constraint_rows import Constraints, End, Felt, Row, end_of, transmitter
from tiburon.loops.traced_constraints import traced_constraint, traced_entries
from tiburon.model import JointCoupling, LoopClosure, Model, Plan, PlanBody, TracedClosure
from tiburon.model.closing import Measure, RelativeMotion, Slip
from tiburon.model.closure import Closure
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Force, Mat3, Motion, Scalar, Vec3
from tiburon.spatial.vec3 import (
    add,
    add_cross,
    cross,
    dot,
    matrix_product,
    matrix_vector,
    negate,
    scale,
    subtract,
    transpose,
    transpose_vector,
)
from tiburon.trace.regions import function

__all__ = [
    "Carried",
    "Constraints",
    "Row",
    "binds_velocity",
    "carried_by",
    "constraint_count",
    "constraint_names",
    "constraints",
    "entries_in_use",
]

GENERIC_POSITIONS = 3
"""How many positions tell which entries of the Jacobian are always zero."""

NEVER = 1e-11
"""Size of an entry of the Jacobian that rounding alone explains, with arms of some meters."""


def constraint_count(model: Model) -> int:
    """Return the number of constraints of all loops."""
    return sum(_count(loop) for loop in model.loops)


@public
def constraint_names(model: Model) -> tuple[str, ...]:
    """Return one name per constraint: the loop, and the number within it."""
    return tuple(f"{loop.name}.{k}" for loop in model.loops for k in range(_count(loop)))


def _count(loop: Closure) -> int:
    if isinstance(loop, JointCoupling):
        return 1
    if isinstance(loop, LoopClosure):
        return len(loop.joint.closing())
    return loop.position_count + loop.velocity_count


def binds_velocity(model: Model) -> tuple[bool, ...]:
    """Return, for each constraint, whether it binds velocities alone: there is no gap to close."""
    found: list[bool] = []
    for loop in model.loops:
        if isinstance(loop, LoopClosure):
            found += [isinstance(measure, Slip) for measure in loop.joint.closing()]
        elif isinstance(loop, JointCoupling):
            found.append(False)
        else:
            found += [False] * loop.position_count + [True] * loop.velocity_count
    return tuple(found)


@lru_cache(maxsize=64)
def entries_in_use(model: Model) -> tuple[frozenset[int], ...]:
    """Return, for each constraint, the velocity variables it can ever depend on.

    In a planar mechanism three of the five things a hinge forbids can never happen: their rows are
    zero wherever the robot is. Generic positions tell: what is zero there is zero everywhere.
    Constraints that functions tell answer for themselves.
    """
    rng = np.random.default_rng(7)
    found: list[set[int]] = [set() for _ in range(constraint_count(model))]
    # on floats, whatever is being traced around
    with taping(None):
        for _ in range(GENERIC_POSITIONS):
            q = [x for joint in model.joints for x in joint.random(rng)]
            rows = _all(model, model.plan, JointVector(q), None).jacobian
            for used, row in zip(found, rows, strict=True):
                used |= {i for i, x in row.items() if abs(x) > NEVER}
        start = 0
        for loop in model.loops:
            if isinstance(loop, TracedClosure):
                found[start : start + _count(loop)] = traced_entries(loop, model, NEVER)
            start += _count(loop)
    return tuple(frozenset(used) for used in found)


def constraints(
    model: Model, plan: Plan, q: Sequence[Scalar], v: Sequence[Scalar] | None = None
) -> Constraints:
    """Find what all loops of a robot ask for in one state.

    Args:
        model: The robot.
        plan: Its layout.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars; None where no bias is wanted.

    Returns:
        Values, Jacobian, rate and bias, in the order of `model.loops`; the last two are zero
        without velocity.
        Rows hold no entries that are zero wherever the robot is.
    """
    in_use = entries_in_use(model)
    if recorder() is not None:
        return _apart(model, plan, q, v, in_use)
    found = _all(model, plan, q, v)
    rows = tuple(
        {i: x for i, x in row.items() if i in used}
        for row, used in zip(found.jacobian, in_use, strict=True)
    )
    return found._replace(jacobian=rows)


def _apart(
    model: Model,
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar] | None,
    in_use: Sequence[frozenset[int]],
) -> Constraints:
    """Find all constraints of a large robot in a function of their own, a tape without all else."""
    columns = [sorted(used) for used in in_use]

    @function
    def measured(position: Sequence[Scalar], velocity: Sequence[Scalar]) -> Any:
        rates = None if v is None else JointVector(velocity)
        found = _all(model, plan, JointVector(position), rates)
        rows = [row[i] for row, used in zip(found.jacobian, columns, strict=True) for i in used]
        return list(found.value), rows, list(found.rate), list(found.bias)

    value, entries, rate, bias = measured(list(q), [] if v is None else list(v))
    left = iter(entries)
    rows = tuple({i: next(left) for i in used} for used in columns)
    return Constraints(tuple(value), rows, tuple(rate), tuple(bias))


def _all(model: Model, plan: Plan, q: Sequence[Scalar], v: Sequence[Scalar] | None) -> Constraints:
    """Find all constraints with rows that may hold zeros."""
    places = body_places(plan, q)
    motions = None if v is None else body_motions(plan, q, v, None)
    transmit = transmitter(q)
    values: list[Scalar] = []
    rows: list[Row] = []
    rates: list[Scalar] = []
    biases: list[Scalar] = []
    for loop in model.loops:
        if isinstance(loop, JointCoupling):
            found = _coupling(loop, model, q, v)
        elif isinstance(loop, LoopClosure):
            found = _closure(loop, plan, transmit, places, motions)
        else:
            found = traced_constraint(loop, model, plan, q, v, transmit, places, motions)
        values.extend(found.value)
        rows.extend(found.jacobian)
        rates.extend(found.rate)
        biases.extend(found.bias)
    return Constraints(tuple(values), tuple(rows), tuple(rates), tuple(biases))


# -- joints that close loops ----------------------------------------------------------------------


class _Tied(NamedTuple):
    """What a loop measures, and what it does to the plan bodies of its two ends."""

    value: tuple[Scalar, ...]
    rate: tuple[Scalar, ...]
    bias: tuple[Scalar, ...]
    on_first: tuple[Force, ...]
    on_second: tuple[Force, ...]


def _tie(
    _: PlanBody, first: End, second: End, measures: tuple[Measure, ...], is_moving: bool
) -> _Tied:
    """Measure a loop: a visit to one of the two bodies, so that large robots trace it once."""
    at = _relative(first, second)
    wrenches = [measure.wrench(at) for measure in measures]
    on_second = [Force(transpose_vector(at.R, w.n), transpose_vector(at.R, w.f)) for w in wrenches]
    on_first = [Force(negate(add_cross(w.n, at.p, w.f)), negate(w.f)) for w in wrenches]
    return _Tied(
        tuple(measure.value(at) for measure in measures),
        tuple(dot(wrench.n, at.w) + dot(wrench.f, at.pd) for wrench in wrenches),
        tuple(measure.bias(at) if is_moving else 0.0 for measure in measures),
        tuple(first.X.force_to_parent(f) for f in on_first),
        tuple(second.X.force_to_parent(f) for f in on_second),
    )


def _closure(
    loop: LoopClosure,
    plan: Plan,
    transmit: Callable[..., Felt],
    places: Sequence[Place],
    motions: Sequence[Moving] | None,
) -> Constraints:
    own, first = end_of(plan, loop.first, loop.joint.pose.transform, places, motions)
    other, second = end_of(plan, loop.second, loop.second_pose.transform, places, motions)
    held = other if own == WORLD_BODY else own
    given = ([first], [second], [tuple(loop.joint.closing())], [motions is not None])
    (tied,) = each(plan, _tie, [held], *given)
    rows = _rows(plan, transmit, (own, tied.on_first), (other, tied.on_second))
    return Constraints(tied.value, rows, tied.rate, tied.bias)


class Carried(NamedTuple):
    """What a joint that closes a loop carries."""

    wrench: Force
    """On the second place, at the frame that the joint moves and in its axes [N m, N]."""

    on_bodies: tuple[tuple[int, Force], ...]
    """Index of a plan body and the force on it, in its frame [N m, N]; none on the world."""


def carried_by(
    loop: LoopClosure, plan: Plan, places: Sequence[Place], forces: Sequence[Scalar]
) -> Carried:
    """Return what the joint of a loop carries.

    Args:
        loop: The loop.
        plan: Layout of the model.
        places: Of all plan bodies, from `body_places`.
        forces: Along each constraint of the loop [N or N m].
    """
    own, first = end_of(plan, loop.first, loop.joint.pose.transform, places, None)
    other, second = end_of(plan, loop.second, loop.second_pose.transform, places, None)
    at = _relative(first, second)
    on_second, on_first = Force.zero(), Force.zero()
    for measure, force in zip(loop.joint.closing(), forces, strict=True):
        n, f = measure.wrench(at)
        pushed = Force(transpose_vector(at.R, n), transpose_vector(at.R, f))
        on_second = on_second + pushed * force
        on_first = on_first + Force(negate(add_cross(n, at.p, f)), negate(f)) * force
    ends = ((own, first.X.force_to_parent(on_first)), (other, second.X.force_to_parent(on_second)))
    return Carried(on_second, tuple(end for end in ends if end[0] != WORLD_BODY))


def _relative(first: End, second: End) -> RelativeMotion:
    """Return how the second end lies and moves in the first, in axes of the first.

    The rate of a vector told in turning axes lacks w1 x itself; that of a velocity lacks it twice.
    """
    R: Mat3 = matrix_product(transpose(first.place.R), second.place.R)
    p = transpose_vector(first.place.R, subtract(second.place.p, first.place.p))
    (w1, v1), (w2, v2) = (_parts(end.moving.vel) for end in (first, second))
    (wd1, a1), (wd2, a2) = (_parts(end.moving.acc) for end in (first, second))
    w = subtract(matrix_vector(R, w2), w1)
    pd = subtract(subtract(matrix_vector(R, v2), v1), cross(w1, p))
    wd = subtract(subtract(matrix_vector(R, wd2), wd1), cross(w1, w))
    # classical accelerations of both origins
    toward = subtract(matrix_vector(R, add_cross(a2, w2, v2)), add_cross(a1, w1, v1))
    turned = add(cross(wd1, p), cross(w1, add(cross(w1, p), scale(pd, 2.0))))
    return RelativeMotion(R, p, w, pd, wd, subtract(toward, turned))


def _parts(motion: Motion) -> tuple[Vec3, Vec3]:
    return motion.angular, motion.linear


def _rows(
    plan: Plan, transmit: Callable[..., Felt], *ends: tuple[int, tuple[Force, ...]]
) -> tuple[Row, ...]:
    """Return the rows of the Jacobian: what forces on two bodies do along each joint."""
    (first, forces), (second, _) = ends
    shared = ancestors(plan, first) & ancestors(plan, second)
    rows: list[Row] = [{} for _ in forces]
    for end, carried in ends:
        if end == WORLD_BODY:
            continue
        for body, felt in to_root(plan, plan.bodies[end], transmit, carried):
            if body.index in shared:
                break
            for row, parts in zip(rows, felt, strict=True):
                for index, part in enumerate(parts, start=body.v.start):
                    # joints that follow another share its variables
                    row[index] = row[index] + part if index in row else part
    return tuple(rows)


# -- ties between joints --------------------------------------------------------------------------


def _coupling(
    loop: JointCoupling, model: Model, q: Sequence[Scalar], v: Sequence[Scalar] | None
) -> Constraints:
    """Return the one row of a tie: position of the joint less a polynomial of the leader's."""
    own_q, own_v = model.slice(loop.joint, of="q").start, model.slice(loop.joint, of="v").start
    row: Row = {own_v: 1.0}
    c = loop.coefficients
    if loop.leader is None:
        return Constraints((q[own_q] - c[0],), (row,), (0.0 if v is None else v[own_v],), (0.0,))
    x = q[model.slice(loop.leader, of="q").start]
    leader = model.slice(loop.leader, of="v").start
    slope = _polynomial([k * c[k] for k in range(1, len(c))], x)
    row[leader] = row.get(leader, 0.0) - slope
    rate: Scalar = 0.0
    bias: Scalar = 0.0
    if v is not None:
        rate = v[own_v] - slope * v[leader]
        bend = _polynomial([k * (k - 1) * c[k] for k in range(2, len(c))], x)
        bias = -bend * v[leader] * v[leader]
    return Constraints((q[own_q] - _polynomial(c, x),), (row,), (rate,), (bias,))


def _polynomial(coefficients: Sequence[float], x: Scalar) -> Scalar:
    """Return c0 + c1 x + c2 x^2 + ... (Horner)."""
    total: Scalar = 0.0
    for c in reversed(coefficients):
        total = total * x + c
    return total
