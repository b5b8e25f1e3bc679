"""From actuator efforts to the wrench on a body that closed paths hold (Nahon 1991, sec. 3.6)."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tiburon.algorithms.kinematics import body_places, frame_places, jacobian_columns
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import ModelError, UnknownNameError
from tiburon.functions.mobility import driven_joints, loop_rows, null_space, position_of
from tiburon.loops.metric import rank_cut
from tiburon.model import Model

RANK_TOLERANCE = 1e-9
"""Relative singular value below which a motion of the joints does not move the body."""


class WrenchMap(NamedTuple):
    """Wrench on a body per effort of each actuator."""

    joints: tuple[str, ...]
    """Names of the driven joints."""

    variables: tuple[int, ...]
    """Velocity variable of each column."""

    matrix: Array
    """A of w = A tau, moment first, world axes about the body's origin, shape (6, efforts)."""


@public
def wrench_map(
    model: Model, body: str, q: ArrayLike | None = None, *, driven: Iterable[str] | None = None
) -> WrenchMap:
    """Compute the wrench on a body that efforts of actuators exert through closed paths.

    w = A tau with A = [J_1^-T ... J_p^-T] P^T for non-redundant paths, passive joints included
    (Nahon 1991, eq. 3.61): by duality with v = A^T t, the rates of the driven joints under a twist
    t of the body. Where the body cannot move in all six directions, the wrench is the one of least
    norm that does the same work.

    Args:
        model: The robot.
        body: Name of a body or frame that the paths hold.
        q: Position with closed loops [m or rad], shape (nq,); as in `mobility`.
        driven: Names of the driven joints; those of actuators and cylinders by default.

    Raises:
        ModelError: If joints move while the body stands: their efforts do not determine a wrench.

    Example:
        ``A = tb.wrench_map(tb.load("two_pumas"), "bar").matrix``
    """
    if body not in model.frame_names:
        raise UnknownNameError("body or frame", body, model.frame_names)
    at = position_of(model, q)
    names = driven_joints(model) if driven is None else tuple(driven)
    places = [int(i) for i in model.indices(names, of="v")] if names else []
    residuals, J = loop_rows(model, at)
    Z = null_space(J, float(rank_cut(model, residuals.tolist(), RANK_TOLERANCE)))
    moved = _twist_rows(model, at, body) @ Z
    U, sizes, rows = np.linalg.svd(moved, full_matrices=False)
    rank = int(np.sum(sizes > RANK_TOLERANCE * sizes[0])) if sizes.size else 0
    if rank < Z.shape[1]:
        loose = Z @ np.linalg.svd(moved)[2][rank:].T
        still = [
            joint.name
            for joint in model.joints
            if joint.nv and np.any(np.abs(loose[model.slice(joint.name, of="v")]) > 1e-6)
        ]
        raise ModelError(
            f"body {body!r}: expected joints whose motion it determines, got "
            f"{', '.join(still[:4])}, which move while it stands; name a body that all paths hold",
            name=body,
        )
    # t = moved z, so that rates of driven joints are Z_a (moved)^+ t
    inverse = rows.T @ (U / sizes).T
    return WrenchMap(names, tuple(places), (Z[places] @ inverse).T)


def _twist_rows(model: Model, q: Array, body: str) -> Array:
    """Return the twist of a body per joint velocity, world axes at its origin, shape (6, nv)."""
    plan, position = model.plan, [float(x) for x in q]
    (place,) = frame_places(plan, position, [body])
    own = plan.frame(body).body
    columns = jacobian_columns(plan, position, body_places(plan, position), own, place.p)
    rows = np.zeros((6, model.nv))
    for variable, motion in columns.items():
        rows[:, variable] = [*motion.angular, *motion.linear]
    return rows
