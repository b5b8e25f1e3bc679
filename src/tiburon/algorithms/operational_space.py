"""Operational-space inertia of one or several frames.

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
    ArticulatedBody,
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
    seen_from,
)
from tiburon.algorithms.setting import Options, Setting
from tiburon.algorithms.tape_calls import scalars
from tiburon.algorithms.traversal import ancestors, to_root
from tiburon.errors import DomainError
from tiburon.model import Plan, PlanBody
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Force, Scalar, Scalars
from tiburon.spatial.vec3 import IDENTITY3, ZERO3
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.orthogonal import RANK_CUT, factor_orthogonal
from tiburon.trace.value import require

PARTS = {"both": slice(0, 6), "orientation": slice(0, 3), "position": slice(3, 6)}
"""Rows of a frame's motion, by name of the part."""

Forces = tuple[Force, ...]


class JointResponse(NamedTuple):
    """Response of one joint to forces on a frame that it carries."""

    rates: tuple[tuple[Scalar, ...], ...] = ()
    """u . f / d for each force f, for each direction u of the joint."""

    inverse_d: tuple[Scalar, ...] = ()
    """1/d of each direction."""


def joint_responses(
    plan: Plan, q: Scalars, loads: Sequence[tuple[int, Sequence[Force]]]
) -> tuple[tuple[JointResponse, ...], ...]:
    """Compute the response of all joints to unit forces on some bodies.

    M^-1 = sum u u^T / d over the axes that the articulated-body algorithm eliminates.

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        loads: Index of a plan body, or that of the world, and forces on it in its frame.

    Returns:
        For each load one response per plan body, empty if the body does not carry the load.
    """

    def visit(
        body: PlanBody, forces: Forces, articulated: ArticulatedBody
    ) -> tuple[JointResponse, Forces]:
        passed = [passed_on(body, articulated, q, f) for f in forces]
        inverse_d = tuple(direction.inverse_d for direction in directions(body, articulated, q))
        by_direction = tuple(zip(*(rates for rates, _ in passed), strict=True))
        return JointResponse(by_direction, inverse_d), tuple(f for _, f in passed)

    articulated = articulated_inertias(plan, q)
    found = []
    for index, forces in loads:
        answer = [JointResponse() for _ in plan.bodies]
        if index != WORLD_BODY:
            start = plan.bodies[index]
            for body, own in to_root(plan, start, visit, tuple(forces), articulated):
                answer[body.index] = own
        found.append(tuple(answer))
    return tuple(found)


def response(
    plan: Plan, a: Sequence[JointResponse], b: Sequence[JointResponse], size: int, common: int
) -> tuple[Scalar, ...]:
    """Compute accelerations of one frame per force on another: sum (u.f/d) d (u.g/d), by rows.

    Args:
        plan: Layout of the model.
        a: Responses to the unit forces on the first frame.
        b: Responses to those on the second.
        size: Number of unit forces on each.
        common: Index of the last common ancestor.
    """

    def visit(
        body: PlanBody, total: tuple[Scalar, ...], one: JointResponse, other: JointResponse
    ) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...]]:
        for x, y, inverse_d in zip(one.rates, other.rates, one.inverse_d, strict=True):
            force = [rate / inverse_d for rate in x]
            parts = [f * rate for f in force for rate in y]
            total = tuple(t + part for t, part in zip(total, parts, strict=True))
        return total, total

    start = (0.0,) * (size * size)
    if common == WORLD_BODY:
        return start
    return to_root(plan, plan.bodies[common], visit, start, a, b)[-1][1]


def _unit_forces(place: Place, reference: Reference, options: Options) -> list[Force]:
    """Return the unit forces dual to the rows of a frame's motion, in frame axes."""
    choices = dict(options)
    basis = IDENTITY3 if choices.get("axes", "world") == "frame" else place.R
    # couples are dual to rotation, forces at the point to its velocity
    couples = [Force(axis, ZERO3) for axis in basis]
    pushes = [Force.at_point(axis, reference.offset) for axis in basis]
    return [*couples, *pushes][PARTS[choices.get("part", "both")]]


class _Loads(NamedTuple):
    """Unit forces on all frames."""

    plan: Plan
    q: Scalars

    forces: tuple[tuple[int, tuple[Force, ...]], ...]
    """For each frame its plan body and the unit forces on it, in the body's frame."""

    tied: Response | None
    """Response of a robot with coupled joints or loops; None for others."""

    @property
    def size(self) -> int:
        """Number of unit forces on all frames."""
        return sum(len(forces) for _, forces in self.forces)


def _loads(setting: Setting, tied: Response | None, q: Scalars, point: Sequence[Scalars]) -> _Loads:
    plan, options = setting.plan, setting.options
    names, _ = chosen_frames(setting)
    places = frame_places(plan, q, names, world=seen_from(plan, q, options))
    points = references(plan, q, None, places, options, point)
    found = []
    for name, place, reference in zip(names, places, points, strict=True):
        frame = plan.frame(name)
        forces = _unit_forces(place, reference, options)
        found.append((frame.body, tuple(frame.transform.force_to_parent(f) for f in forces)))
    return _Loads(plan, q, tuple(found), tied)


def _blocks(loads: _Loads) -> Iterator[tuple[int, int, Scalars]]:
    """Compute J M^-1 J^T by blocks: indices of two frames, and entries by rows."""
    plan, bodies = loads.plan, [body for body, _ in loads.forces]
    pairs = [(i, j) for i in range(len(bodies)) for j in range(i + 1)]
    tied = loads.tied
    if tied is not None:
        rates = [tied.rates(body, forces) for body, forces in loads.forces]
        for i, j in pairs:
            shape = (len(loads.forces[i][1]), len(loads.forces[j][1]))
            rows = responses_of(tied, rates[i], rates[j], shape)
            yield i, j, [x for row in rows for x in row]
        return
    found = joint_responses(plan, loads.q, loads.forces)
    for i, j in pairs:
        shared = ancestors(plan, bodies[i]) & ancestors(plan, bodies[j])
        # parents come first, so the last common ancestor has the largest index
        common = max(shared, default=WORLD_BODY)
        yield i, j, response(plan, found[i], found[j], len(loads.forces[i][1]), common)


def _columns(loads: _Loads) -> list[list[Scalar]]:
    """Compute C with J M^-1 J^T = C C^T: one column per direction that moves a frame."""
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
    found = joint_responses(plan, loads.q, loads.forces)
    carried = (ancestors(plan, body) for body, _ in loads.forces)
    for body in sorted(frozenset().union(*carried)):
        inverse_d = next(a[body].inverse_d for a in found if a[body].rates)
        for k, s in enumerate(inverse_d):
            rates_of_all = [
                a[body].rates[k] if a[body].rates else (0.0,) * len(forces)
                for a, (_, forces) in zip(found, loads.forces, strict=True)
            ]
            columns.append([x / np.sqrt(s) for part in rates_of_all for x in part])
    return columns


def inverse_inertia(setting: Setting, tied: Response | None, q: Scalars, *point: Scalars) -> Any:
    """Compute J M^-1 J^T of frames.

    Args:
        setting: Model, plan and options: frames, point, axes and part of their motion.
        tied: Response of a robot with coupled joints or loops; None for others.
        q: Configuration [m or rad], nq scalars.
        *point: The point, for at="point".
    """
    loads = _loads(setting, tied, q, point)
    size = loads.size
    block = size // len(loads.forces)
    A: list[list[Scalar]] = [[0.0] * size for _ in range(size)]
    for i, j, entries in _blocks(loads):
        for place, entry in enumerate(entries):
            row, column = i * block + place // block, j * block + place % block
            # diagonal blocks are symmetric: use the lower part
            if column <= row:
                A[row][column] = A[column][row] = entry
    return as_traced([x for row in A for x in row]).reshape(size, size)


def inertia(setting: Setting, tied: Response | None, q: Scalars, *point: Scalars) -> Any:
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
    tied = loads.tied
    cut, floor = (RANK_CUT, 0.0) if tied is None else (tied.cut, tied.floor)
    factor = factor_orthogonal(C.reshape(size, len(columns)), cut=cut, floor=floor)
    # (C C^T)^-1 = (C^+)^T C^+ does not square the condition number
    solved = [scalars(factor.solve(unit)) for unit in np.eye(size)]
    independent = factor.rank >= size
    expected = (
        f"frames that can move in {size} independent directions in this configuration; move away "
        "from the singular configuration, pass fewer frames or one part of the motion, or use "
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
