"""Inverse inertia of links: of one link, between two links, and of their relative motion.

Symbols (Featherstone 1987, sec. 9.5):
    Phi_ij  acceleration of link i per force on link j, from rest, all joints free
    A       propagator of a joint (eq. 9.39)
    S, d    joint axis, and S^T I^A S

The book's recursion (eq. 9.32) starts from the inertia of the root, which a fixed-base robot does
not have. Started from the world, which does not accelerate, the same propagators give

    Phi_0 = 0,    Phi_i = A Phi_parent A^T + sum u u^T / d,    Phi_ij = A_ic Phi_c A_jc^T

for fixed and floating bases; c is the last common ancestor of i and j.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tiburon.algorithms.articulated_response import (
    ArticulatedBody,
    Response,
    articulated_inertias,
    directions,
    propagated,
    response,
)
from tiburon.algorithms.kinematics import Place, frame_places, moved_to, world_from_robot
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.traversal import ancestors, outward
from tiburon.model import Plan, PlanBody
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Force, Motion, Scalars, Vec3
from tiburon.spatial.vec3 import matrix_vector, subtract, transpose_vector
from tiburon.trace.array import as_traced

Columns = tuple[Motion, ...]
"""A 6x6 matrix whose columns are motions, one per unit force."""

_ZERO: Columns = (Motion.zero(),) * 6


def _transposed(columns: Columns) -> Columns:
    return tuple(Motion.from_array(row) for row in zip(*columns, strict=True))


def _sum(a: Columns, b: Columns, sign: float = 1.0) -> Columns:
    return tuple(x + y * sign for x, y in zip(a, b, strict=True))


def pair_response(
    plan: Plan, q: Scalars, articulated: Sequence[ArticulatedBody], i: int, j: int
) -> Columns:
    """Compute Phi_ij in the plan frames of two plan bodies (Featherstone 1987, eqs. 9.34, 9.35).

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        articulated: From `articulated_inertias`.
        i: Index of the plan body that accelerates, or that of the world.
        j: Index of the plan body the force acts on, or that of the world.

    Returns:
        The acceleration of body i, in its frame, per unit force on body j in its frame.
    """

    def respond(body: PlanBody, parent: Columns, own: ArticulatedBody, concerned: bool) -> Columns:
        if not concerned:
            return parent
        # A Phi A^T: the propagator acts on columns, then on rows
        half = tuple(propagated(body, own, q, column) for column in parent)
        Phi = tuple(propagated(body, own, q, row) for row in _transposed(half))
        for u, inverse_d in directions(body, own, q):
            Phi = _sum(Phi, tuple(u * (x * inverse_d) for x in u))
        return Phi

    def reach(body: PlanBody, parent: Columns, own: ArticulatedBody, concerned: bool) -> Columns:
        if not concerned:
            return parent
        return tuple(propagated(body, own, q, column) for column in parent)

    def among(path: frozenset[int]) -> list[bool]:
        return [body.index in path for body in plan.bodies]

    to_i, to_j = ancestors(plan, i), ancestors(plan, j)
    shared = to_i & to_j
    if not shared:
        return _ZERO
    # parents come first, so the last common ancestor has the largest index
    Phi = outward(plan, respond, _ZERO, articulated, among(shared))[max(shared)]
    from_c = outward(plan, reach, Phi, articulated, among(to_i - shared))[i]
    back = outward(plan, reach, _transposed(from_c), articulated, among(to_j - shared))[j]
    return _transposed(back)


def tied_pair_response(tied: Response, i: int, j: int) -> Columns:
    """Compute Phi_ij as `pair_response` does, for coupled joints or loops."""
    units = [Force.from_array(unit) for unit in np.eye(6).tolist()]
    rows = response(tied, tied.rates(j, units), tied.rates(i, units), (6, 6))
    return tuple(Motion.from_array(row) for row in rows)


def _in_world(columns: Columns, place: Place, offset: Vec3) -> Columns:
    """Return accelerations given in frame axes, in world axes at a point."""
    return tuple(
        Motion(matrix_vector(place.R, m.angular), matrix_vector(place.R, m.linear))
        for m in (moved_to(column, offset) for column in columns)
    )


class _Pairs:
    """Responses of frames by name, each at one world point."""

    def __init__(self, plan: Plan, tied: Response | None, q: Scalars, names: Sequence[str]) -> None:
        self.plan = plan
        self._pair: Callable[[int, int], Columns]
        if tied is not None:
            self._pair = partial(tied_pair_response, tied)
        else:
            self._pair = partial(pair_response, plan, q, articulated_inertias(plan, q))
        # differences of positions alone
        places = frame_places(
            plan, q, names, world=world_from_robot(plan, q, plan.frame(names[0]).body)
        )
        self.places = dict(zip(names, places, strict=True))

    def response(self, name: str, other: str, at: str, other_at: str) -> Columns:
        """Return Phi of two frames, world axes, at the origins of other frames."""
        i, j = self.plan.frame(name), self.plan.frame(other)
        if WORLD_BODY in (i.body, j.body):
            return _ZERO
        Phi = self._pair(i.body, j.body)
        columns = self._moved(tuple(i.transform.motion(m) for m in Phi), name, at)
        rows = tuple(j.transform.motion(m) for m in _transposed(columns))
        return _transposed(self._moved(rows, other, other_at))

    def _moved(self, columns: Columns, name: str, at: str) -> Columns:
        place = self.places[name]
        arm = subtract(self.places[at].p, place.p)
        return _in_world(columns, place, transpose_vector(place.R, arm))


def _flat(columns: Columns) -> Any:
    rows = zip(*columns, strict=True)
    return as_traced([x for row in rows for x in row]).reshape(6, 6)


def cross_response(setting: Setting, tied: Response | None, q: Scalars) -> Any:
    """Compute Phi_ij, each frame at its own origin.

    Args:
        setting: Plan and options: names of the frames.
        tied: Response of a robot with coupled joints or loops; None for others.
        q: Configuration [m or rad], nq scalars.
    """
    choices = dict(setting.options)
    i, j = choices["frame"], choices["other"]
    pairs = _Pairs(setting.plan, tied, q, (i, j))
    return _flat(pairs.response(i, j, i, j))


def relative_response(setting: Setting, tied: Response | None, q: Scalars) -> Any:
    """Compute Phi_ii - Phi_ij - Phi_ji + Phi_jj; arguments are those of `cross_response`."""
    choices = dict(setting.options)
    i, j = choices["frame"], choices["other"]
    pairs = _Pairs(setting.plan, tied, q, (i, j))
    # a force and its reaction share a line of action: one point for both
    own = _sum(pairs.response(i, i, i, i), pairs.response(j, j, i, i))
    coupling = pairs.response(i, j, i, i)
    return _flat(_sum(_sum(own, coupling, -1.0), _transposed(coupling), -1.0))
