"""Operational-space inertia: how heavy frames feel, alone or together.

Symbols (McMillan 1994, sec. 2.2; Featherstone 1987, sec. 9.5):
    J, M        Jacobian of the frames and mass matrix
    u, d        directions and inertias of the factored M^-1 = sum u u^T / d
    C           columns u / sqrt(d): J M^-1 J^T = C C^T
    Lambda      operational-space inertia, the inverse of J M^-1 J^T
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.articulated_response import (
    Freed,
    all_ancestors,
    freed_joints,
    propagated,
)
from tiburon.algorithms.binding import plan_and_gravity
from tiburon.algorithms.frame_motion import chosen_frames, moved_to
from tiburon.algorithms.kinematics import frame_places
from tiburon.algorithms.library import INERTIA, LibraryFunction, Options, call, scalars
from tiburon.algorithms.reference_point import expressed, point_inputs, references, told_options
from tiburon.algorithms.sweep import outward
from tiburon.errors import DomainError, OptionError
from tiburon.model import Model, Plan, PlanBody, World
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Motion, Scalar
from tiburon.trace.array import as_traced
from tiburon.trace.primitives import factor_orthogonal
from tiburon.trace.program import Input
from tiburon.trace.value import require

__all__ = ["operational_space_inertia", "operational_space_inverse_inertia"]

PARTS = {"both": slice(0, 6), "orientation": slice(0, 3), "position": slice(3, 6)}
"""Which rows of a frame's motion take part, by name."""

Carried = dict[int, Motion]
"""Acceleration of a body per unit of each direction that moves it, by velocity variable."""


def directions_at(
    plan: Plan, q: Sequence[Scalar], frames: Sequence[str]
) -> tuple[tuple[Carried, ...], dict[int, Scalar]]:
    """Carry the factors of M^-1 out to some frames.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        frames: Names of bodies or frames, or "world".

    Returns:
        For each frame, by velocity variable, its acceleration u in its own axes at its origin; and
        1/d of every direction that moves any of them.
    """
    joints = freed_joints(plan, q)
    bodies = [plan.frame(name).body for name in frames]
    needed = all_ancestors(plan, bodies)

    def carry(body: PlanBody, parent: Carried, freed: Freed) -> Carried:
        if body.index not in needed:
            return {}
        moved = {k: propagated(body, freed, q, a) for k, a in parent.items()}
        own = enumerate(freed.directions, start=body.v.start)
        return moved | {k: direction.u for k, direction in own}

    nothing: Carried = {}
    carried = outward(plan, carry, nothing, joints)
    softness = {
        k: direction.softness
        for body, freed in zip(plan.bodies, joints, strict=True)
        if body.index in needed
        for k, direction in enumerate(freed.directions, start=body.v.start)
    }
    found = []
    for name, body in zip(frames, bodies, strict=True):
        X = plan.frame(name).transform
        at = {} if body == WORLD_BODY else carried[body]
        found.append({k: X.motion(u) for k, u in at.items()})
    return tuple(found), softness


def _rows(
    model: Model, world: World | None, options: Options, q: Any, point: Sequence[Any]
) -> tuple[list[list[Scalar]], list[Scalar]]:
    """Return rows of u for all frames, one column per direction, and 1/d of each direction."""
    plan, _ = plan_and_gravity(model, world)
    position = scalars(q)
    names, _ = chosen_frames(model, options)
    places = frame_places(plan, position, names)
    carried, softness = directions_at(plan, position, names)
    part = PARTS[dict(options).get("part", "both")]
    rows: list[list[Scalar]] = []
    for at, place, reference in zip(
        carried,
        places,
        references(plan, position, None, places, options, point),
        strict=True,
    ):
        columns = []
        for k in softness:
            u = moved_to(at.get(k, Motion.zero()), reference.offset)
            columns.append(tuple(expressed(u, place, options))[part])
        rows.extend(list(row) for row in zip(*columns, strict=True))
    return rows, list(softness.values())


def _run_inverse(model: Model, world: World | None, options: Options, q: Any, *point: Any) -> Any:
    rows, softness = _rows(model, world, options, q, point)
    size = _size(model, options)
    A: list[list[Scalar]] = [[0.0] * size for _ in range(size)]
    for i, a in enumerate(rows):
        scaled = [x * s for x, s in zip(a, softness, strict=True)]
        for j in range(i + 1):
            total: Scalar = 0.0
            for x, y in zip(scaled, rows[j], strict=True):
                total = total + x * y
            A[i][j] = A[j][i] = total
    return as_traced([x for row in A for x in row]).reshape(size, size)


def _run_inertia(model: Model, world: World | None, options: Options, q: Any, *point: Any) -> Any:
    rows, softness = _rows(model, world, options, q, point)
    size = _size(model, options)
    if len(softness) < size:
        names, _ = chosen_frames(model, options)
        raise DomainError(
            "frames",
            f"frames that can move in {size} independent directions",
            f"{', '.join(map(repr, names))}, moved by {len(softness)} joint velocities",
            advice="pass fewer frames, part='position' or part='orientation', or use "
            "operational_space_inverse_inertia, which always exists",
        )
    roots = [np.sqrt(s) for s in softness]
    C = as_traced([x * r for row in rows for x, r in zip(row, roots, strict=True)])
    factor = factor_orthogonal(C.reshape(size, len(roots)))
    # with independent rows, (C C^T)^-1 = (C^+)^T C^+: squared conditions never enter
    columns = [scalars(factor.solve(unit)) for unit in np.eye(size)]
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
            for x, y in zip(columns[i], columns[j], strict=True):
                total = total + x * y
            Lambda[i][j] = Lambda[j][i] = require(independent, total, expected)
    return as_traced([x for row in Lambda for x in row]).reshape(size, size)


def _size(model: Model, options: Options) -> int:
    names, _ = chosen_frames(model, options)
    part = PARTS[dict(options).get("part", "both")]
    return len(names) * (part.stop - part.start)


def _inputs(model: Model, options: Options) -> list[Input]:
    return [Input("q", (model.nq,), described=model.describe_q()), *point_inputs(options)]


_INVERSE = LibraryFunction(
    "operational_space_inverse_inertia", _inputs, _run_inverse, parameters=(INERTIA,)
)
_INERTIA = LibraryFunction(
    "operational_space_inertia", _inputs, _run_inertia, parameters=(INERTIA,)
)


def _options(
    frames: str | Sequence[str], at: str | ArrayLike, axes: str, part: str
) -> tuple[Options, tuple[Any, ...]]:
    if part not in PARTS:
        raise OptionError("part", tuple(PARTS), part)
    options, point = told_options(frames, at, axes)
    return (options if part == "both" else (*options, ("part", part))), point


def operational_space_inverse_inertia(
    model: Model,
    q: ArrayLike,
    frames: str | Sequence[str],
    *,
    at: str | ArrayLike = "frame",
    axes: str = "world",
    part: str = "both",
) -> NDArray[np.float64]:
    """Compute how frames accelerate per force on them, from rest, without gravity: J M^-1 J^T.

    All frames together: blocks beside the diagonal say how a force on one frame accelerates
    another. It exists in every position; where the frames cannot move independently it is
    singular. One state or a batch. Inside a function given to `tiburon.compile` the arrays may be
    traced, one state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        frames: Name of a body or frame, or a sequence of n names.
        at: Where linear accelerations and forces are taken; see `frame_jacobian`.
        axes: "world" or "frame": axes of accelerations and forces.
        part: "both", or only "orientation" or "position".

    Returns:
        Symmetric matrix [1/(kg m^2), 1/(kg m), 1/kg], shape (..., 6 n, 6 n), or (..., 3 n, 3 n) for
        one part.
    """
    options, point = _options(frames, at, axes, part)
    answer: NDArray[np.float64] = call(_INVERSE, model, (q, *point), None, options)
    return answer


def operational_space_inertia(
    model: Model,
    q: ArrayLike,
    frames: str | Sequence[str],
    *,
    at: str | ArrayLike = "frame",
    axes: str = "world",
    part: str = "both",
) -> NDArray[np.float64]:
    """Compute the inertia one feels in moving frames from rest: (J M^-1 J^T)^-1.

    The inverse is taken of the factors, not of the product, so that its digits depend on the
    Jacobian's condition and not on its square. One state or a batch. Inside a function given to
    `tiburon.compile` the arrays may be traced, one state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        frames: Name of a body or frame, or a sequence of n names.
        at: Where linear accelerations and forces are taken; see `frame_jacobian`.
        axes: "world" or "frame": axes of accelerations and forces.
        part: "both", or only "orientation" or "position".

    Returns:
        Symmetric matrix [kg m^2, kg m, kg], shape (..., 6 n, 6 n), or (..., 3 n, 3 n) for one part.

    Raises:
        DomainError: If the frames cannot move in so many independent directions.
    """
    options, point = _options(frames, at, axes, part)
    answer: NDArray[np.float64] = call(_INERTIA, model, (q, *point), None, options)
    return answer
