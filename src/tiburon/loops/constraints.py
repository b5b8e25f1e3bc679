"""The constraints of closed loops: residual, Jacobian and bias.

A loop connects two frames. Its joint defines which relative measures vanish
(`tiburon.model.joint_constraints`). The wrench of each measure, transmitted from both frames inward
to their common ancestor, gives a row of the constraint Jacobian; joints that carry both frames
cancel and never appear (Featherstone 1987, eqs. 9.6 to 9.10). Gravity is not modelled as a base
acceleration here, so loops closed to the world need no special case.

Loops defined by functions of frames and joints (`TracedClosure`) are one traced program with its
derivatives (`closure_program`). It takes poses and motions of frames in world axes; the gradient
for a frame is a wrench, transmitted inward like any other.

Switched loops (latches, grasps, releases) multiply each of their constraints by 1 while closed and
by 0 while open, so that switching does not recompile. A loop may also close where it is: its
residual at that instant is then its set point.

Symbols:
    F1, F2  joint frame on the first body of a loop, the frame it moves on the second
    J       constraint Jacobian: rate of the residual = J v
    bias    dJ/dt v: second derivative of the residual at zero joint acceleration
    n, f    wrench at a frame's origin whose power is the rate of a residual, world axes
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.kinematics import WORLD_PLACE, Moving, Place, body_motions, body_places
from tiburon.algorithms.tape_calls import JointVector, recorder, taping
from tiburon.algorithms.traversal import ancestors, each, to_root
from tiburon.arguments import public
from tiburon.arrays import NDArray
from tiburon.errors import ModelError
from tiburon.model import JointCoupling, LoopClosure, Model, Plan, PlanBody, TracedClosure
from tiburon.model.closure import MOTION_SIZE, Closure, ClosureProgram, Seen, closure_program
from tiburon.model.closure_kinds import SurfaceContact
from tiburon.model.joint_constraints import Measure, RelativeMotion, Slip, Wrench
from tiburon.model.model import per_model
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Force, Mat3, Motion, Scalar, Scalars, Transform, Vec3
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
from tiburon.trace.value import Value, require

Row = dict[int, Scalar]
"""Entries of one row that are not structurally zero, by velocity variable."""

Transmitted = tuple[tuple[tuple[Scalar, ...], ...], Callable[[], tuple[Force, ...]]]
"""Projections of forces on a joint's motion subspace, and the forces at the parent."""

_REST = Moving(Motion.zero(), Motion.zero())


class Constraints(NamedTuple):
    """All constraints of a robot in one state, one entry per row."""

    value: tuple[Scalar, ...]
    """Constraint residual [m or rad]."""

    jacobian: tuple[Row, ...]
    """J, sparse rows."""

    rate: tuple[Scalar, ...]
    """Rate of the residual, with driven joints [m/s or rad/s]."""

    bias: tuple[Scalar, ...]
    """Second derivative of the residual at vd = 0 [m/s^2 or rad/s^2]."""

    def dense_jacobian(self, nv: int) -> NDArray[np.float64]:
        """Return J on floats, shape (rows, nv)."""
        J = np.zeros((len(self.jacobian), nv))
        for k, row in enumerate(self.jacobian):
            for i, x in row.items():
                J[k, i] = x
        return J


class End(NamedTuple):
    """One end of a loop: its attachment, pose and motion."""

    X: Transform
    """Motion transform from the plan body's frame to the end's."""

    place: Place
    moving: Moving


def end_of(
    plan: Plan,
    name: str,
    pose: Transform,
    places: Sequence[Place],
    motions: Sequence[Moving] | None,
) -> tuple[int, End]:
    """Return the index of the plan body of an end, and the end."""
    frame = plan.frame(name)
    X = frame.transform.then(pose)
    if frame.body == WORLD_BODY:
        return frame.body, End(X, WORLD_PLACE.moved(X), _REST)
    moving = _REST
    if motions is not None:
        carrier = motions[frame.body]
        moving = Moving(X.motion(carrier.vel), X.motion(carrier.acc))
    return frame.body, End(X, places[frame.body].moved(X), moving)


def _ends(
    plan: Plan, loop: LoopClosure, places: Sequence[Place], motions: Sequence[Moving] | None
) -> tuple[tuple[int, End], tuple[int, End]]:
    """Return both ends of a loop as `end_of` does."""
    first, second = (
        plan.end(loop.name, k, pose) for k, pose in enumerate((loop.joint.pose, loop.second_pose))
    )
    return (
        end_of(plan, loop.first, first, places, motions),
        end_of(plan, loop.second, second, places, motions),
    )


def transmitter(q: Scalars) -> Callable[[PlanBody, tuple[Force, ...]], Transmitted]:
    """Return the visit that transmits forces over a joint and projects them on its axes."""

    def transmit(body: PlanBody, forces: tuple[Force, ...]) -> Transmitted:
        own = q[body.q]
        X = body.transform(own)
        projected = tuple(tuple(body.joint.project(own, f)) for f in forces)
        return projected, lambda: tuple(X.force_to_parent(f) for f in forces)

    return transmit


# -- switched loops --------------------------------------------------------------------------------


class Switches(NamedTuple):
    """The state of all loops, one entry per constraint."""

    closed: tuple[Scalar, ...]
    """1 for constraints of closed loops, 0 for those of open ones."""

    offset: tuple[Scalar, ...]
    """Set point of the residual [m or rad]."""


def loop_rows(model: Model, loop: str) -> range:
    """Return the rows of a loop."""
    names = [name.rpartition(".")[0] for name in constraint_names(model)]
    return range(names.index(loop), names.index(loop) + names.count(loop))


def switches_of(model: Model, given: Mapping[str, Scalars]) -> Switches:
    """Return the switch state of all loops.

    Args:
        model: The robot.
        given: By name of a switched loop: 1 or 0 for closed or open, then the set point of each of
            its constraints [m or rad]. All other loops are closed.
    """
    count = len(constraint_names(model))
    closed: list[Scalar] = [1.0] * count
    offset: list[Scalar] = [0.0] * count
    for loop, (is_closed, *set_points) in given.items():
        for row, value in zip(loop_rows(model, loop), set_points, strict=True):
            closed[row], offset[row] = is_closed, value
    return Switches(tuple(closed), tuple(offset))


def switched(terms: Constraints, switches: Switches | None) -> Constraints:
    """Apply switches: rows of open loops become zero, set points are subtracted."""
    if switches is None:
        return terms
    on, off = switches
    rows = zip(on, terms.jacobian, strict=True)
    return Constraints(
        tuple(c * (x - e) for c, x, e in zip(on, terms.value, off, strict=True)),
        tuple({i: c * x for i, x in row.items()} for c, row in rows),
        tuple(c * x for c, x in zip(on, terms.rate, strict=True)),
        tuple(c * x for c, x in zip(on, terms.bias, strict=True)),
    )


# -- loops defined by functions --------------------------------------------------------------------


PATTERN_SAMPLES = 3
"""Random configurations that determine which Jacobian entries are structurally nonzero."""

CANCELLATION_SAMPLES = 24
"""Random configurations that determine whether the entries of a joint that carries all frames of a
closure cancel."""

MAX_FINITE_RESIDUAL = 1e100
"""Residuals beyond this size count as non-finite."""


class _TracedState(NamedTuple):
    """A closure in one state: its program, its arguments, and the frames it acts on."""

    program: ClosureProgram
    seen: Seen
    ends: tuple[tuple[int, End], ...]


def _traced_state(
    loop: TracedClosure,
    model: Model,
    plan: Plan,
    q: Scalars,
    v: Scalars | None,
    places: Sequence[Place],
    motions: Sequence[Moving] | None,
) -> _TracedState:
    """Collect the arguments of a closure's program; velocities are zero if v is None."""
    joints = tuple(model.joint(name) for name in loop.seen_joints)
    ends = tuple(
        end_of(plan, name, plan.end(loop.name, k, pose), places, motions)
        for k, (name, pose) in enumerate(loop.ends)
    )
    x: list[Scalar] = []
    y: list[Scalar] = []
    z: list[Scalar] = []
    for _, end in ends:
        R, p = end.place
        (w, pd), (wd, a) = ((part.angular, part.linear) for part in end.moving)
        x += [*R[0], *R[1], *R[2], *p]
        y += [*matrix_vector(R, w), *matrix_vector(R, pd)]
        # classical acceleration = spatial acceleration + w x v
        z += [*matrix_vector(R, wd), *matrix_vector(R, add_cross(a, w, pd))]
    for name in loop.seen_joints:
        x += q[model.slice(name, of="q")]
        own = model.slice(name, of="v")
        y += [0.0] * (own.stop - own.start) if v is None else list(v[own])
    return _TracedState(closure_program(loop, joints), Seen(x, y, z), ends)


def traced_constraint(
    loop: TracedClosure,
    model: Model,
    plan: Plan,
    q: Scalars,
    v: Scalars | None,
    transmit: Callable[..., Transmitted],
    places: Sequence[Place],
    motions: Sequence[Moving] | None,
) -> Constraints:
    """Compute the constraints of a traced closure; rate and bias are zero if v is None.

    Args:
        loop: The closure.
        model: The robot.
        plan: Its layout.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars, or None.
        transmit: From `transmitter`.
        places: Poses of all plan bodies, from `body_places`.
        motions: Motions of all plan bodies, from `body_motions`; None without velocity.
    """
    program, seen, ends = _traced_state(loop, model, plan, q, v, places, motions)
    value = _checked(loop, program.evaluate("value", seen))
    gradient = program.evaluate("gradient", seen)
    none = (0.0,) * len(value)
    rate = none if v is None else program.evaluate("rate", seen)
    bias = none if v is None else _checked(loop, program.evaluate("bias", seen))
    rows = _traced_rows(model, plan, loop, program, ends, gradient, transmit)
    return Constraints(value, rows, rate, bias)


def _checked(loop: TracedClosure, values: Scalars) -> tuple[Scalar, ...]:
    """Make traced residuals fail with the name of their loop where they are not finite."""
    expected = (
        f"loop {loop.name!r}: its residuals must be finite, but are not in this configuration"
    )
    return tuple(
        require(np.abs(x) <= MAX_FINITE_RESIDUAL, x, expected) if isinstance(x, Value) else x
        for x in values
    )


def traced_wrenches(
    loop: TracedClosure,
    model: Model,
    plan: Plan,
    q: Scalars,
    places: Sequence[Place],
    forces: Scalars,
) -> tuple[tuple[int, Force], ...]:
    """Compute the wrenches of a traced closure on plan bodies: index, and wrench in body frame.

    Joint forces on joints among its arguments are not included. `forces` are those along each
    residual [N or N m]; the other arguments are as for `traced_constraint`.
    """
    program, seen, ends = _traced_state(loop, model, plan, q, None, places, None)
    gradient = program.evaluate("gradient", seen)
    found = []
    for k, (body, end) in enumerate(ends):
        if body == WORLD_BODY:
            continue
        total = Force.zero()
        for on_end, force in zip(_on_end(program, gradient, k, end), forces, strict=True):
            total = total + on_end * force
        found.append((body, total))
    return tuple(found)


def _on_end(program: ClosureProgram, gradient: Scalars, k: int, end: End) -> tuple[Force, ...]:
    """Return the unit wrench of each residual on the plan body of one end, in body frame."""
    found = []
    for start in range(MOTION_SIZE * k, len(gradient), program.width):
        n: Vec3 = (gradient[start], gradient[start + 1], gradient[start + 2])
        f: Vec3 = (gradient[start + 3], gradient[start + 4], gradient[start + 5])
        R = end.place.R
        own = Force(transpose_vector(R, n), transpose_vector(R, f))
        found.append(end.X.force_to_parent(own))
    return tuple(found)


def _traced_rows(
    model: Model,
    plan: Plan,
    loop: TracedClosure,
    program: ClosureProgram,
    ends: Sequence[tuple[int, End]],
    gradient: Scalars,
    transmit: Callable[..., Transmitted],
) -> tuple[Row, ...]:
    """Assemble the rows of the Jacobian from gradients with respect to frames and joints."""
    width = program.width
    rows: list[Row] = [{} for _ in range(len(gradient) // width)]

    def put(row: Row, index: int, part: Scalar) -> None:
        row[index] = row[index] + part if index in row else part

    for k, (body, end) in enumerate(ends):
        if body == WORLD_BODY:
            continue
        forces = _on_end(program, gradient, k, end)
        for passed, projected in to_root(plan, plan.bodies[body], transmit, forces):
            for row, parts in zip(rows, projected, strict=True):
                for index, part in enumerate(parts, start=passed.v.start):
                    put(row, index, part)
    for name, columns in zip(loop.seen_joints, program.joint_columns, strict=True):
        start = model.slice(name, of="v").start
        for k, row in enumerate(rows):
            for i, column in enumerate(columns):
                put(row, start + i, gradient[k * width + column])
    return tuple(rows)


def traced_entries(loop: TracedClosure, model: Model, never: float) -> list[set[int]]:
    """Return, for each residual, the velocity variables it can depend on.

    User functions may have zero slopes over whole regions, or be undefined at random
    configurations, so the sparsity follows from the pattern of their graph with random slopes.
    Joints that carry all frames are tested numerically if the residuals are smooth; otherwise a
    branch that no sample reaches might depend on them.

    Args:
        loop: The closure.
        model: The robot.
        never: Largest entry that counts as rounding error.

    Raises:
        ModelError: If a blade or disc has no unique contact point in any configuration.
    """
    plan = generic_plan(model)
    rng = np.random.default_rng(7)
    shared: set[int] | None = None
    found: list[set[int]] = []
    moved: list[set[int]] = []
    touches = not isinstance(loop, SurfaceContact)
    for index in range(CANCELLATION_SAMPLES):
        q = JointVector([x for joint in model.joints for x in joint.random(rng)])
        places, transmit = body_places(plan, q), transmitter(q)
        program, seen, ends = _traced_state(loop, model, plan, q, None, places, None)
        if shared is None:
            together = _common_variables(plan, [body for body, _ in ends])
            shared = set(together) if program.is_smooth("gradient") else set()
            found = [set() for _ in program.pattern()]
            moved = [set() for _ in found]
        if index < PATTERN_SAMPLES:
            any_slope = [
                float(rng.uniform(0.5, 1.5)) if used else 0.0
                for row in program.pattern()
                for used in row
            ]
            rows = _traced_rows(model, plan, loop, program, ends, any_slope, transmit)
            for used, row in zip(found, rows, strict=True):
                used |= {i for i, x in row.items() if abs(x) > never}
            touches = touches or bool(np.isfinite(program.evaluate("gradient", seen)).all())
        if not shared:
            continue
        rows = _traced_rows(
            model, plan, loop, program, ends, program.evaluate("gradient", seen), transmit
        )
        for used, row in zip(moved, rows, strict=True):
            # non-finite values count as nonzero
            used |= {i for i, x in row.items() if not abs(x) <= never}
    if not touches:
        raise ModelError(
            f"loop {loop.name!r}: expected a {loop.kind} with a contact point, got one that stands "
            "on end or lies flat on its plane in all configurations; rotate pose or second_pose",
            name=loop.name,
        )
    invisible = shared or set()
    return [
        used - (invisible - seen_to_move) for used, seen_to_move in zip(found, moved, strict=True)
    ]


def _common_variables(plan: Plan, bodies: Sequence[int]) -> list[int]:
    """Return the velocity variables of joints that carry all of several bodies."""
    if WORLD_BODY in bodies or len(bodies) < 2:
        return []
    bearing = set.intersection(*(set(ancestors(plan, body)) for body in bodies))
    return [
        i for index in bearing for i in range(plan.bodies[index].v.start, plan.bodies[index].v.stop)
    ]


# -- all loops -------------------------------------------------------------------------------------


ZERO_ENTRY = 1e-11
"""Largest entry of the Jacobian that counts as rounding error, for robots of some meters."""


def constraint_count(model: Model) -> int:
    """Return the number of constraints of all loops."""
    return sum(_count(loop) for loop in model.loops)


@public
def constraint_names(model: Model) -> tuple[str, ...]:
    """Return one name per constraint: "<loop>.<k>", with k counted within the loop.

    The forces and couples of a closing joint act on the second place of its loop, in axes of the
    first, in this order: revolute, spherical and universal joints have three forces, then couples;
    fixed and prismatic ones three couples, then forces; cylindrical, screw and planar ones forces
    across the axis, then couples. `loop_reactions` has whole wrenches.
    """
    return tuple(f"{loop.name}.{k}" for loop in model.loops for k in range(_count(loop)))


def _count(loop: Closure) -> int:
    if isinstance(loop, JointCoupling):
        return 1
    if isinstance(loop, LoopClosure):
        return len(loop.joint.loop_constraints())
    return loop.position_count + loop.velocity_count


def is_velocity_constraint(model: Model) -> tuple[bool, ...]:
    """Return, for each constraint, whether it is nonholonomic (without position residual)."""
    found: list[bool] = []
    for loop in model.loops:
        if isinstance(loop, LoopClosure):
            found += [isinstance(measure, Slip) for measure in loop.joint.loop_constraints()]
        elif isinstance(loop, JointCoupling):
            found.append(False)
        else:
            found += [False] * loop.position_count + [True] * loop.velocity_count
    return tuple(found)


def generic_plan(model: Model) -> Plan:
    """Return the layout of a robot, with random geometry where that is taken at run time.

    What vanishes for the robot itself, as in a planar mechanism, need not for others.
    """
    plan = model.plan
    if plan.geometry is None:
        return plan
    rng = np.random.default_rng(29)
    return plan.with_geometry([float(x) + rng.uniform(0.2, 0.4) for x in plan.geometry.numbers])


@per_model
def jacobian_pattern(model: Model) -> tuple[frozenset[int], ...]:
    """Return the sparsity pattern of J: for each constraint, its velocity variables.

    Entries that vanish in random configurations vanish everywhere: three of the five rows of a
    revolute joint in a planar mechanism, for instance. See `traced_entries` for user functions.
    """
    rng = np.random.default_rng(7)
    plan = generic_plan(model)
    found: list[set[int]] = [set() for _ in range(constraint_count(model))]
    # on floats, also while a function is being traced
    with taping(None):
        for _ in range(PATTERN_SAMPLES):
            q = [x for joint in model.joints for x in joint.random(rng)]
            rows = _all(model, plan, JointVector(q), None).jacobian
            for used, row in zip(found, rows, strict=True):
                used |= {i for i, x in row.items() if abs(x) > ZERO_ENTRY}
        start = 0
        for loop in model.loops:
            if isinstance(loop, TracedClosure):
                found[start : start + _count(loop)] = traced_entries(loop, model, ZERO_ENTRY)
            start += _count(loop)
    return tuple(frozenset(used) for used in found)


def constraints(model: Model, plan: Plan, q: Scalars, v: Scalars | None = None) -> Constraints:
    """Compute residual, Jacobian, rate and bias of all loops, in the order of `model.loops`.

    Args:
        model: The robot.
        plan: Its layout.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars; if None, rate and bias are zero.

    Returns:
        The constraints; rows of the Jacobian hold structurally nonzero entries only.
    """
    in_use = jacobian_pattern(model)
    if recorder() is not None:
        return _constraints_on_tape(model, plan, q, v, in_use)
    return _sparse(_all(model, plan, q, v), in_use)


def loop_constraints(
    model: Model, plan: Plan, loops: Sequence[str], q: Scalars, v: Scalars | None = None
) -> Constraints:
    """Compute the same for some loops, by name in the order of `model.loops`."""
    pattern = jacobian_pattern(model)
    in_use = [pattern[k] for loop in loops for k in loop_rows(model, loop)]
    return _sparse(_all(model, plan, q, v, loops=loops), in_use)


def _sparse(found: Constraints, in_use: Sequence[frozenset[int]]) -> Constraints:
    """Leave out entries of the Jacobian that are structurally zero."""
    rows = tuple(
        {i: x for i, x in row.items() if i in used}
        for row, used in zip(found.jacobian, in_use, strict=True)
    )
    return found._replace(jacobian=rows)


def constraint_values(
    model: Model, plan: Plan, q: Scalars, v: Scalars | None = None
) -> Constraints:
    """Compute the same without the Jacobian, which takes half of the time of tracing.

    Args:
        model: The robot.
        plan: Its layout.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars; if None, rate and bias are zero.

    Returns:
        The constraints; rows of the Jacobian are empty.
    """
    if recorder() is not None:
        return constraints(model, plan, q, v)
    return _all(model, plan, q, v, has_rows=False)


def add_to_rows(rows: Sequence[Row], body: PlanBody, projected: Sequence[Scalars]) -> None:
    """Add what a joint contributes to rows of a Jacobian, in place."""
    for row, parts in zip(rows, projected, strict=True):
        for index, part in enumerate(parts, start=body.v.start):
            # coupled joints share the variable of their leader
            row[index] = row[index] + part if index in row else part


def _stacked(parts: Sequence[Constraints]) -> Constraints:
    """Return the constraints of several loops as one."""
    return Constraints(
        tuple(x for one in parts for x in one.value),
        tuple(row for one in parts for row in one.jacobian),
        tuple(x for one in parts for x in one.rate),
        tuple(x for one in parts for x in one.bias),
    )


def closure_constraints(
    loops: Sequence[LoopClosure], plan: Plan, q: Scalars, v: Scalars | None = None
) -> Constraints:
    """Compute the constraints of some loops on a plan that holds the bodies they connect.

    Args:
        loops: The closures.
        plan: Layout of the robot, or of the part of it that carries both ends of every loop.
        q: Configuration of the plan [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars; if None, rate and bias are zero.
    """
    places = body_places(plan, q)
    motions = None if v is None else body_motions(plan, q, v, None)
    transmit = transmitter(q)
    found = [_closure(loop, plan, transmit, places, motions) for loop in loops]
    return _stacked(found)


def closure_values(loops: Sequence[LoopClosure], plan: Plan, q: Scalars, v: Scalars) -> Constraints:
    """Compute the same without the Jacobian; its rows are empty."""
    places, motions = body_places(plan, q), body_motions(plan, q, v, None)
    found = [_closure(loop, plan, None, places, motions) for loop in loops]
    return _stacked(found)


def _constraints_on_tape(
    model: Model, plan: Plan, q: Scalars, v: Scalars | None, in_use: Sequence[frozenset[int]]
) -> Constraints:
    """Compute the constraints of a large robot in a separate traced function, as its own tape."""
    columns = [sorted(used) for used in in_use]

    @function
    def measured(position: Scalars, velocity: Scalars) -> Any:
        rates = None if v is None else JointVector(velocity)
        found = _all(model, plan, JointVector(position), rates)
        rows = [row[i] for row, used in zip(found.jacobian, columns, strict=True) for i in used]
        return list(found.value), rows, list(found.rate), list(found.bias)

    value, entries, rate, bias = measured(list(q), [] if v is None else list(v))
    left = iter(entries)
    rows = tuple({i: next(left) for i in used} for used in columns)
    return Constraints(tuple(value), rows, tuple(rate), tuple(bias))


def _all(
    model: Model,
    plan: Plan,
    q: Scalars,
    v: Scalars | None,
    has_rows: bool = True,
    loops: Sequence[str] | None = None,
) -> Constraints:
    """Compute all constraints, or some, with rows that may hold zeros, or empty ones."""
    places = body_places(plan, q)
    motions = None if v is None else body_motions(plan, q, v, None)
    transmit = transmitter(q)
    found = []
    for loop in model.loops:
        if loops is not None and loop.name not in loops:
            continue
        if isinstance(loop, JointCoupling):
            found.append(_coupling(loop, model, q, v))
        elif isinstance(loop, LoopClosure):
            rows = transmit if has_rows else None
            found.append(_closure(loop, plan, rows, places, motions))
        else:
            found.append(traced_constraint(loop, model, plan, q, v, transmit, places, motions))
    return _stacked(found)


# -- joints that close loops ----------------------------------------------------------------------


class _Tied(NamedTuple):
    """Measures of a loop, and their unit wrenches on the plan bodies of its two ends."""

    value: tuple[Scalar, ...]
    rate: tuple[Scalar, ...]
    bias: tuple[Scalar, ...]
    on_first: tuple[Force, ...]
    on_second: tuple[Force, ...]


def _tie(
    _: PlanBody, first: End, second: End, measures: tuple[Measure, ...], is_moving: bool
) -> _Tied:
    """Evaluate a loop as a visit to one of its bodies, so that large robots trace it once."""
    at = _relative(first, second)
    wrenches = [measure.wrench(at) for measure in measures]
    on_first, on_second = loop_wrenches(at, wrenches)
    return _Tied(
        tuple(measure.value(at) for measure in measures),
        tuple(dot(wrench.n, at.w) + dot(wrench.f, at.pd) for wrench in wrenches),
        tuple(measure.bias(at) if is_moving else 0.0 for measure in measures),
        tuple(first.X.force_to_parent(f) for f in on_first),
        tuple(second.X.force_to_parent(f) for f in on_second),
    )


def loop_wrenches(
    at: RelativeMotion, wrenches: Sequence[Wrench]
) -> tuple[list[Force], list[Force]]:
    """Return wrenches of measures as they act on both frames, at their origins in their axes."""
    on_second = [Force(transpose_vector(at.R, w.n), transpose_vector(at.R, w.f)) for w in wrenches]
    on_first = [Force(negate(add_cross(w.n, at.p, w.f)), negate(w.f)) for w in wrenches]
    return on_first, on_second


def _closure(
    loop: LoopClosure,
    plan: Plan,
    transmit: Callable[..., Transmitted] | None,
    places: Sequence[Place],
    motions: Sequence[Moving] | None,
) -> Constraints:
    (own, first), (other, second) = _ends(plan, loop, places, motions)
    visited = other if own == WORLD_BODY else own
    given = ([first], [second], [tuple(loop.joint.loop_constraints())], [motions is not None])
    (tied,) = each(plan, _tie, [visited], *given)
    rows: tuple[Row, ...] = tuple({} for _ in tied.value)
    if transmit is not None:
        rows = _rows(plan, transmit, (own, tied.on_first), (other, tied.on_second))
    return Constraints(tied.value, rows, tied.rate, tied.bias)


class LoopJointLoad(NamedTuple):
    """Load of a joint that closes a loop."""

    wrench: Force
    """On the second body, at the origin of the joint's moving frame and in its axes [N m, N]."""

    on_bodies: tuple[tuple[int, Force], ...]
    """Index of a plan body and the wrench on it, in body frame [N m, N]; the world is left out."""


def loop_joint_load(
    loop: LoopClosure, plan: Plan, places: Sequence[Place], forces: Scalars
) -> LoopJointLoad:
    """Compute the load of a loop's joint from the force along each of its constraints [N or N m].

    `places` are the poses of all plan bodies, from `body_places`.
    """
    (own, first), (other, second) = _ends(plan, loop, places, None)
    at = _relative(first, second)
    on_second, on_first = Force.zero(), Force.zero()
    units = loop_wrenches(at, [measure.wrench(at) for measure in loop.joint.loop_constraints()])
    for unit_first, unit_second, force in zip(*units, forces, strict=True):
        on_first, on_second = on_first + unit_first * force, on_second + unit_second * force
    ends = ((own, first.X.force_to_parent(on_first)), (other, second.X.force_to_parent(on_second)))
    return LoopJointLoad(on_second, tuple(end for end in ends if end[0] != WORLD_BODY))


def _relative(first: End, second: End) -> RelativeMotion:
    """Compute pose and motion of the second end relative to the first, in axes of the first.

    In rotating axes the derivative of a vector lacks w1 x itself, that of a velocity twice as much.
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
    plan: Plan, transmit: Callable[..., Transmitted], *ends: tuple[int, tuple[Force, ...]]
) -> tuple[Row, ...]:
    """Compute rows of the Jacobian: unit forces on two bodies, projected on each joint."""
    (first, forces), (second, _) = ends
    shared = ancestors(plan, first) & ancestors(plan, second)
    rows: list[Row] = [{} for _ in forces]
    for end, carried in ends:
        if end == WORLD_BODY:
            continue
        for body, projected in to_root(plan, plan.bodies[end], transmit, carried, until=shared):
            add_to_rows(rows, body, projected)
    return tuple(rows)


# -- couplings between joints ---------------------------------------------------------------------


def _coupling(loop: JointCoupling, model: Model, q: Scalars, v: Scalars | None) -> Constraints:
    """Compute the constraint of a coupling: q minus a polynomial of the leader's position."""
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
