"""Constraints that functions of frames and joints tell: values, rows and biases from their graphs.

What the functions do, with their derivatives, is one traced program (`closure_program`). It is
given where frames are and how they move, in world axes; what it gives back for a frame is a wrench
there, which the joints carry inward as they do for any loop (Featherstone 1987, eqs. 9.6 to 9.10).

Symbols:
    n, f    wrench at a frame's origin whose power is the rate of a residual, world axes
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tiburon.algorithms.articulated_response import ancestors
from tiburon.algorithms.frame_motion import Moving
from tiburon.algorithms.kinematics import Place, body_places
from tiburon.algorithms.sweep import to_root
from tiburon.algorithms.tape_calls import JointVector
from tiburon.errors import ModelError
from tiburon.loops.constraint_rows import Constraints, End, Felt, Row, end_of, transmitter
from tiburon.model import Model, Plan, TracedClosure
from tiburon.model.closure_program import MOTION, ClosureProgram, Seen, closure_program
from tiburon.model.plan import WORLD_BODY
from tiburon.model.surface_contact import SurfaceContact
from tiburon.spatial import Force, Scalar, Vec3
from tiburon.spatial.vec3 import add_cross, matrix_vector, transpose_vector
from tiburon.trace.value import Value, require

__all__ = ["traced_constraint", "traced_entries", "traced_wrenches"]

GENERIC_POSITIONS = 3
"""How many positions tell which joints can move a frame at all."""

CANCELLED_POSITIONS = 24
"""How many positions tell that a joint moves frames together, so that no residual sees it."""

LARGEST = 1e100
"""Size of a residual beyond which it is no number."""


class _Held(NamedTuple):
    """A closure in one state: its program, what that sees, and the frames it holds on to."""

    program: ClosureProgram
    seen: Seen
    ends: tuple[tuple[int, End], ...]


def _held(
    loop: TracedClosure,
    model: Model,
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar] | None,
    places: Sequence[Place],
    motions: Sequence[Moving] | None,
) -> _Held:
    """Return a closure with all that its program takes; at rest where no velocity is given."""
    joints = tuple(model.joint(name) for name in loop.seen_joints)
    ends = tuple(end_of(plan, name, pose.transform, places, motions) for name, pose in loop.ends)
    x: list[Scalar] = []
    y: list[Scalar] = []
    z: list[Scalar] = []
    for _, end in ends:
        R, p = end.place
        (w, pd), (wd, a) = ((part.angular, part.linear) for part in end.moving)
        x += [*R[0], *R[1], *R[2], *p]
        y += [*matrix_vector(R, w), *matrix_vector(R, pd)]
        # a spatial acceleration lacks w x v of the classical one
        z += [*matrix_vector(R, wd), *matrix_vector(R, add_cross(a, w, pd))]
    for name in loop.seen_joints:
        x += q[model.slice(name, of="q")]
        own = model.slice(name, of="v")
        y += [0.0] * (own.stop - own.start) if v is None else list(v[own])
    return _Held(closure_program(loop, joints), Seen(x, y, z), ends)


def traced_constraint(
    loop: TracedClosure,
    model: Model,
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar] | None,
    transmit: Callable[..., Felt],
    places: Sequence[Place],
    motions: Sequence[Moving] | None,
) -> Constraints:
    """Find what a traced closure asks for in one state.

    Args:
        loop: The closure.
        model: The robot.
        plan: Its layout.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars; None where no bias is wanted.
        transmit: Carries forces over a joint, from `transmitter`.
        places: Of all plan bodies, from `body_places`.
        motions: Of all plan bodies, from `body_motions`; None without velocity.
    """
    held = _held(loop, model, plan, q, v, places, motions)
    program, seen, ends = held
    value = _checked(loop, program.evaluate("value", seen))
    gradient = program.evaluate("gradient", seen)
    none = (0.0,) * len(value)
    rate = none if v is None else program.evaluate("rate", seen)
    bias = none if v is None else _checked(loop, program.evaluate("bias", seen))
    rows = _rows(model, plan, loop, program, ends, gradient, transmit)
    return Constraints(value, rows, rate, bias)


def _checked(loop: TracedClosure, values: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """Return traced residuals that fail with the name of their loop where they are no numbers."""
    expected = f"loop {loop.name!r}: its residuals must be finite, but are not at this position"
    return tuple(
        require(np.abs(x) <= LARGEST, x, expected) if isinstance(x, Value) else x for x in values
    )


def traced_wrenches(
    loop: TracedClosure,
    model: Model,
    plan: Plan,
    q: Sequence[Scalar],
    places: Sequence[Place],
    forces: Sequence[Scalar],
) -> tuple[tuple[int, Force], ...]:
    """Return what a traced closure does to plan bodies: index and force in the body's frame.

    What it does along joints that it looks at is not among these.

    Args:
        loop: The closure.
        model: The robot.
        plan: Its layout.
        q: Position [m or rad], nq scalars.
        places: Of all plan bodies, from `body_places`.
        forces: Along each residual [N or N m].
    """
    program, seen, ends = _held(loop, model, plan, q, None, places, None)
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


def _on_end(
    program: ClosureProgram, gradient: Sequence[Scalar], k: int, end: End
) -> tuple[Force, ...]:
    """Return the wrench of each residual on the plan body of one end, in that body's frame."""
    found = []
    for start in range(MOTION * k, len(gradient), program.width):
        n: Vec3 = (gradient[start], gradient[start + 1], gradient[start + 2])
        f: Vec3 = (gradient[start + 3], gradient[start + 4], gradient[start + 5])
        R = end.place.R
        own = Force(transpose_vector(R, n), transpose_vector(R, f))
        found.append(end.X.force_to_parent(own))
    return tuple(found)


def _rows(
    model: Model,
    plan: Plan,
    loop: TracedClosure,
    program: ClosureProgram,
    ends: Sequence[tuple[int, End]],
    gradient: Sequence[Scalar],
    transmit: Callable[..., Felt],
) -> tuple[Row, ...]:
    """Return the rows of the Jacobian from gradients by frames and joints."""
    width = program.width
    rows: list[Row] = [{} for _ in range(len(gradient) // width)]

    def put(row: Row, index: int, part: Scalar) -> None:
        row[index] = row[index] + part if index in row else part

    for k, (body, end) in enumerate(ends):
        if body == WORLD_BODY:
            continue
        forces = _on_end(program, gradient, k, end)
        for passed, felt in to_root(plan, plan.bodies[body], transmit, forces):
            for row, parts in zip(rows, felt, strict=True):
                for index, part in enumerate(parts, start=passed.v.start):
                    put(row, index, part)
    for name, columns in zip(loop.seen_joints, program.joint_columns, strict=True):
        start = model.slice(name, of="v").start
        for k, row in enumerate(rows):
            for i, column in enumerate(columns):
                put(row, start + i, gradient[k * width + column])
    return tuple(rows)


def traced_entries(loop: TracedClosure, model: Model, never: float) -> list[set[int]]:
    """Return, for each residual, the velocity variables it can ever depend on.

    Functions may have slopes that vanish over whole regions, or no values at random positions, so
    that their graphs are asked: any wrench that a residual could have tells which joints it feels.
    Joints that move all frames together are asked by numbers where the residuals have no pieces;
    elsewhere a piece that no sample hits may see them.

    Args:
        loop: The closure.
        model: The robot.
        never: Size of an entry that rounding alone explains.

    Raises:
        ModelError: If a blade or a disc touches its plane at no one point, wherever the robot is.
    """
    plan = model.plan
    rng = np.random.default_rng(7)
    shared: set[int] | None = None
    found: list[set[int]] = []
    moved: list[set[int]] = []
    touches = not isinstance(loop, SurfaceContact)
    for number in range(CANCELLED_POSITIONS):
        q = JointVector([x for joint in model.joints for x in joint.random(rng)])
        places, transmit = body_places(plan, q), transmitter(q)
        program, seen, ends = _held(loop, model, plan, q, None, places, None)
        if shared is None:
            together = _borne_by_all(plan, [body for body, _ in ends])
            shared = set(together) if program.is_smooth("gradient") else set()
            found = [set() for _ in program.pattern()]
            moved = [set() for _ in found]
        if number < GENERIC_POSITIONS:
            any_slope = [
                float(rng.uniform(0.5, 1.5)) if used else 0.0
                for row in program.pattern()
                for used in row
            ]
            rows = _rows(model, plan, loop, program, ends, any_slope, transmit)
            for used, row in zip(found, rows, strict=True):
                used |= {i for i, x in row.items() if abs(x) > never}
            touches = touches or bool(np.isfinite(program.evaluate("gradient", seen)).all())
        if not shared:
            continue
        rows = _rows(model, plan, loop, program, ends, program.evaluate("gradient", seen), transmit)
        for used, row in zip(moved, rows, strict=True):
            # what is no number may be anything
            used |= {i for i, x in row.items() if not abs(x) <= never}
    if not touches:
        raise ModelError(
            f"loop {loop.name!r}: its {loop.kind} has no point of contact wherever the robot is, "
            "for it stands on end or lies flat on its plane; turn pose or second_pose",
            name=loop.name,
        )
    invisible = shared or set()
    return [
        used - (invisible - seen_to_move) for used, seen_to_move in zip(found, moved, strict=True)
    ]


def _borne_by_all(plan: Plan, bodies: Sequence[int]) -> list[int]:
    """Return the velocity variables of joints that move several bodies, all of them."""
    if WORLD_BODY in bodies or len(bodies) < 2:
        return []
    bearing = set.intersection(*(set(ancestors(plan, body)) for body in bodies))
    return [
        i for index in bearing for i in range(plan.bodies[index].v.start, plan.bodies[index].v.stop)
    ]
