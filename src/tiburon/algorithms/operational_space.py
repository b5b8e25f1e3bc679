"""Operational-space inertia: how heavy frames feel, alone or together.

Symbols (McMillan 1994, sec. 2.2; Featherstone 1987, sec. 9.5):
    J, M        Jacobian of the frames and mass matrix
    u, d        directions and inertias of the factored M^-1 = sum u u^T / d
    C           columns u / sqrt(d): J M^-1 J^T = C C^T
    Lambda      operational-space inertia, the inverse of J M^-1 J^T
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.articulated_response import (
    Held,
    Response,
    articulated_inertias,
    directions,
    passed_on,
)
from tiburon.algorithms.articulated_response import response as responses_of
from tiburon.algorithms.kinematics import (
    Place,
    Reference,
    chosen_frames,
    frame_places,
    references,
)
from tiburon.algorithms.setting import Options, Setting
from tiburon.algorithms.sweep import ancestors, to_root
from tiburon.algorithms.tape_calls import scalars
from tiburon.errors import DomainError
from tiburon.model import Plan, PlanBody
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Force, Scalar
from tiburon.spatial.vec3 import IDENTITY3, ZERO3
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.orthogonal import RANK_CUT, factor_orthogonal
from tiburon.trace.value import require

__all__ = ["inertia", "inverse_inertia"]

PARTS = {"both": slice(0, 6), "orientation": slice(0, 3), "position": slice(3, 6)}
"""Which rows of a frame's motion take part, by name."""

Forces = tuple[Force, ...]


class Answer(NamedTuple):
    """How the joint of one body answers forces on a frame that it carries."""

    rates: tuple[tuple[Scalar, ...], ...] = ()
    """u . f / d for each force f, for each direction u of the joint."""

    softness: tuple[Scalar, ...] = ()
    """1/d of each direction."""


def answers(
    plan: Plan, q: Sequence[Scalar], loads: Sequence[tuple[int, Sequence[Force]]]
) -> tuple[tuple[Answer, ...], ...]:
    """Find how all joints answer unit forces on some bodies.

    M^-1 = sum u u^T / d over the directions of all joints, those of the articulated-body algorithm.
    A force on a body reaches the joints that carry it, one after the other on the way to the root.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        loads: Index of a plan body, or that of the world, and forces on it in its frame.

    Returns:
        For each load one answer per plan body, empty where the body does not carry it.
    """

    def visit(body: PlanBody, forces: Forces, held: Held) -> tuple[Answer, Forces]:
        felt = [passed_on(body, held, q, f) for f in forces]
        softness = tuple(direction.softness for direction in directions(body, held, q))
        by_direction = tuple(zip(*(rates for rates, _ in felt), strict=True))
        return Answer(by_direction, softness), tuple(f for _, f in felt)

    held = articulated_inertias(plan, q)
    found = []
    for number, forces in loads:
        answer = [Answer() for _ in plan.bodies]
        if number != WORLD_BODY:
            start = plan.bodies[number]
            for body, own in to_root(plan, start, visit, tuple(forces), held):
                answer[body.index] = own
        found.append(tuple(answer))
    return tuple(found)


def response(
    plan: Plan, a: Sequence[Answer], b: Sequence[Answer], size: int, common: int
) -> tuple[Scalar, ...]:
    """Return the accelerations of one frame per force on another: sum (u.f/d) d (u.g/d).

    Args:
        plan: Layout of the model.
        a: Answers to the unit forces on the one frame.
        b: Those on the other.
        size: Number of unit forces on each.
        common: Index of the last plan body that carries both.

    Returns:
        Entries by rows, size times size.
    """

    def visit(
        body: PlanBody, total: tuple[Scalar, ...], one: Answer, other: Answer
    ) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...]]:
        for x, y, softness in zip(one.rates, other.rates, one.softness, strict=True):
            force = [rate / softness for rate in x]
            parts = [f * rate for f in force for rate in y]
            total = tuple(t + part for t, part in zip(total, parts, strict=True))
        return total, total

    start = (0.0,) * (size * size)
    if common == WORLD_BODY:
        return start
    return to_root(plan, plan.bodies[common], visit, start, a, b)[-1][1]


def _unit_forces(place: Place, reference: Reference, options: Options) -> list[Force]:
    """Return the forces whose powers are the rows of a frame's motion, in the frame's own axes."""
    choices = dict(options)
    basis = IDENTITY3 if choices.get("axes", "world") == "frame" else place.R
    # a couple works on a turn alone; a force at the point also turns about the frame's origin
    couples = [Force(axis, ZERO3) for axis in basis]
    pushes = [Force.at_point(axis, reference.offset) for axis in basis]
    return [*couples, *pushes][PARTS[choices.get("part", "both")]]


class _Loads(NamedTuple):
    """What all frames are pushed by."""

    plan: Plan
    q: Sequence[Scalar]

    forces: tuple[tuple[int, tuple[Force, ...]], ...]
    """For each frame its plan body and the unit forces on it, in the body's frame."""

    tied: Response | None
    """How the robot answers where its joints are tied to each other; None where they are not."""

    @property
    def size(self) -> int:
        """Number of unit forces on all frames."""
        return sum(len(forces) for _, forces in self.forces)


def _loads(
    setting: Setting, tied: Response | None, q: Sequence[Scalar], point: Sequence[Sequence[Scalar]]
) -> _Loads:
    plan, options = setting.plan, setting.options
    names, _ = chosen_frames(setting)
    places = frame_places(plan, q, names)
    points = references(plan, q, None, places, options, point)
    found = []
    for name, place, reference in zip(names, places, points, strict=True):
        frame = plan.frame(name)
        forces = _unit_forces(place, reference, options)
        found.append((frame.body, tuple(frame.transform.force_to_parent(f) for f in forces)))
    return _Loads(plan, q, tuple(found), tied)


def _blocks(loads: _Loads) -> Iterator[tuple[int, int, Sequence[Scalar]]]:
    """Find J M^-1 J^T frame by frame: numbers of two frames, and entries by rows."""
    plan, bodies = loads.plan, [body for body, _ in loads.forces]
    pairs = [(i, j) for i in range(len(bodies)) for j in range(i + 1)]
    tied = loads.tied
    if tied is not None:
        rates = [tied.rates(body, forces) for body, forces in loads.forces]
        for i, j in pairs:
            rows = responses_of(tied, rates[i], rates[j])
            yield i, j, [x for row in rows for x in row]
        return
    found = answers(plan, loads.q, loads.forces)
    for i, j in pairs:
        shared = ancestors(plan, bodies[i]) & ancestors(plan, bodies[j])
        # parents come first, so the last shared body is the nearest
        common = max(shared, default=WORLD_BODY)
        yield i, j, response(plan, found[i], found[j], len(loads.forces[i][1]), common)


def _columns(loads: _Loads) -> list[list[Scalar]]:
    """Find C with J M^-1 J^T = C C^T: one column per direction that moves any frame."""
    plan, columns = loads.plan, []
    tied = loads.tied
    if tied is not None:
        rates = [tied.rates(body, forces) for body, forces in loads.forces]
        for body, inertias in tied.d.items():
            for k, d in enumerate(inertias):
                column: list[Scalar] = []
                for known, (_, forces) in zip(rates, loads.forces, strict=True):
                    column += known[body][k] if body in known else (0.0,) * len(forces)
                if any(body in known for known in rates):
                    columns.append([x * np.sqrt(d) for x in column])
        return columns
    found = answers(plan, loads.q, loads.forces)
    carried = (ancestors(plan, body) for body, _ in loads.forces)
    for body in sorted(frozenset().union(*carried)):
        softness = next(a[body].softness for a in found if a[body].rates)
        for k, s in enumerate(softness):
            rates_of_all = [
                a[body].rates[k] if a[body].rates else (0.0,) * len(forces)
                for a, (_, forces) in zip(found, loads.forces, strict=True)
            ]
            columns.append([x / np.sqrt(s) for part in rates_of_all for x in part])
    return columns


def inverse_inertia(
    setting: Setting, tied: Response | None, q: Sequence[Scalar], *point: Sequence[Scalar]
) -> Any:
    """Compute J M^-1 J^T of frames.

    Args:
        setting: Model, plan and options: frames, point, axes and part of their motion.
        tied: Response of a robot whose joints are coupled or closed in loops; None of others.
        q: Position [m or rad], nq scalars.
        *point: The point, where one is given.
    """
    loads = _loads(setting, tied, q, point)
    size = loads.size
    block = size // len(loads.forces)
    A: list[list[Scalar]] = [[0.0] * size for _ in range(size)]
    for i, j, entries in _blocks(loads):
        for place, entry in enumerate(entries):
            row, column = i * block + place // block, j * block + place % block
            # symmetric entries of a frame's own block come out twice: one serves both
            if column <= row:
                A[row][column] = A[column][row] = entry
    return as_traced([x for row in A for x in row]).reshape(size, size)


def inertia(
    setting: Setting, tied: Response | None, q: Sequence[Scalar], *point: Sequence[Scalar]
) -> Any:
    """Compute the inverse of J M^-1 J^T of frames; arguments are those of `inverse_inertia`."""
    loads = _loads(setting, tied, q, point)
    size, columns = loads.size, _columns(loads)
    if len(columns) < size:
        names, _ = chosen_frames(setting)
        raise DomainError(
            "frames",
            f"frames that can move in {size} independent directions",
            f"{', '.join(map(repr, names))}, moved by {len(columns)} joint velocities",
            advice="pass fewer frames, part='position' or part='orientation', or use "
            "operational_space_inverse_inertia, which always exists",
        )
    C = as_traced([x for row in zip(*columns, strict=True) for x in row])
    cut = RANK_CUT if loads.tied is None else loads.tied.cut
    factor = factor_orthogonal(C.reshape(size, len(columns)), cut=cut)
    # with independent rows, (C C^T)^-1 = (C^+)^T C^+: squared conditions never enter
    solved = [scalars(factor.solve(unit)) for unit in np.eye(size)]
    independent = factor.rank >= size
    expected = (
        f"frames that can move in {size} independent directions in this position; move away from "
        "the singular position, pass fewer frames or one part of the motion, or use "
        "operational_space_inverse_inertia"
    )
    Lambda: list[list[Scalar]] = [[0.0] * size for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            total: Scalar = 0.0
            for x, y in zip(solved[i], solved[j], strict=True):
                total = total + x * y
            Lambda[i][j] = Lambda[j][i] = require(independent, total, expected)
    return as_traced([x for row in Lambda for x in row]).reshape(size, size)
