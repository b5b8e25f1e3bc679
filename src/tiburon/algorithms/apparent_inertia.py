"""Inverse inertia of any link, of any pair of links, and between two links.

Symbols (Featherstone 1987, sec. 9.5):
    Phi_ij  acceleration of link i per force on link j, from rest, all joints free
    A       propagator of a joint (eq. 9.39)
    S, d    direction of a joint's freedom, and S^T I^A S along it

The book's recursion (eq. 9.32) starts from the inertia of the root, which a robot on the ground
does not have. Started from the world, which does not accelerate, the same propagators give

    Phi_0 = 0,    Phi_i = A Phi_parent A^T + sum u u^T / d,    Phi_ij = A_ic Phi_c A_jc^T

for grounded and floating robots alike; c is the last link that carries both i and j.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.articulated_response import (
    Held,
    ancestors,
    articulated_inertias,
    directions,
    propagated,
)
from tiburon.algorithms.coupled_response import Response, response, tied_response
from tiburon.algorithms.frame_motion import moved_to
from tiburon.algorithms.kinematics import Place, frame_places
from tiburon.algorithms.surroundings import surroundings_at
from tiburon.algorithms.sweep import outward
from tiburon.algorithms.tape_calls import scalars
from tiburon.arguments import public
from tiburon.functions.keywords import WorldCall, takes_conditions
from tiburon.functions.library import INERTIA, LibraryFunction, Options, call_under
from tiburon.model import Model, Plan, PlanBody, World
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Force, Motion, Scalar, Vec3
from tiburon.spatial.vec3 import matrix_vector, subtract, transpose_vector
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input

__all__ = ["apparent_inverse_inertia", "cross_inverse_inertia"]

Columns = tuple[Motion, ...]
"""A 6x6 matrix whose columns are motions, one per unit force."""

_ZERO: Columns = (Motion.zero(),) * 6


def _transposed(columns: Columns) -> Columns:
    return tuple(Motion.from_array(row) for row in zip(*columns, strict=True))


def _sum(a: Columns, b: Columns, sign: float = 1.0) -> Columns:
    return tuple(x + y * sign for x, y in zip(a, b, strict=True))


def pair_response(plan: Plan, q: Sequence[Scalar], held: Sequence[Held], i: int, j: int) -> Columns:
    """Find Phi_ij in the plan frames of two plan bodies (Featherstone 1987, eqs. 9.34, 9.35).

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        held: From `articulated_inertias`.
        i: Index of the plan body that accelerates, or that of the world.
        j: Index of the plan body the force acts on, or that of the world.

    Returns:
        The acceleration of body i, in its frame, per unit force on body j in its frame.
    """

    def respond(body: PlanBody, parent: Columns, own: Held, concerned: bool) -> Columns:
        if not concerned:
            return parent
        # A Phi A^T: the propagator acts on columns, then on rows
        half = tuple(propagated(body, own, q, column) for column in parent)
        Phi = tuple(propagated(body, own, q, row) for row in _transposed(half))
        for u, softness in directions(body, own, q):
            Phi = _sum(Phi, tuple(u * (x * softness) for x in u))
        return Phi

    def reach(body: PlanBody, parent: Columns, own: Held, concerned: bool) -> Columns:
        if not concerned:
            return parent
        return tuple(propagated(body, own, q, column) for column in parent)

    def among(path: frozenset[int]) -> list[bool]:
        return [body.index in path for body in plan.bodies]

    to_i, to_j = ancestors(plan, i), ancestors(plan, j)
    shared = to_i & to_j
    if not shared:
        return _ZERO
    # parents come first, so the last shared body carries all others
    Phi = outward(plan, respond, _ZERO, held, among(shared))[max(shared)]
    from_c = outward(plan, reach, Phi, held, among(to_i - shared))[i]
    back = outward(plan, reach, _transposed(from_c), held, among(to_j - shared))[j]
    return _transposed(back)


def tied_pair_response(tied: Response, i: int, j: int) -> Columns:
    """Find Phi_ij as `pair_response` does, where joints are tied to others."""
    units = [Force.from_array(unit) for unit in np.eye(6).tolist()]
    rows = response(tied, tied.rates(j, units), tied.rates(i, units))
    return tuple(Motion.from_array(row) for row in rows)


def _told(columns: Columns, place: Place, offset: Vec3) -> Columns:
    """Return accelerations given in a frame in world axes, at a point."""
    return tuple(
        Motion(matrix_vector(place.R, m.angular), matrix_vector(place.R, m.linear))
        for m in (moved_to(column, offset) for column in columns)
    )


class _Pairs:
    """Responses of frames by name, told at one world point each."""

    def __init__(self, model: Model, plan: Plan, q: Sequence[Scalar], names: Sequence[str]) -> None:
        self.plan = plan
        self._pair: Callable[[int, int], Columns]
        tied = tied_response(model, plan, q)
        if tied is not None:
            self._pair = partial(tied_pair_response, tied)
        else:
            self._pair = partial(pair_response, plan, q, articulated_inertias(plan, q))
        self.places = dict(zip(names, frame_places(plan, q, names), strict=True))

    def response(self, name: str, other: str, at: str, other_at: str) -> Columns:
        """Return Phi of two frames, world axes, told at the origins of other frames."""
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
        return _told(columns, place, transpose_vector(place.R, arm))


def _flat(columns: Columns) -> Any:
    rows = zip(*columns, strict=True)
    return as_traced([x for row in rows for x in row]).reshape(6, 6)


def _inputs(model: Model, options: Options) -> list[Input]:
    return [Input("q", (model.nq,), described=model.describe_q())]


def _pair(model: Model, world: World | None, options: Options, q: Any) -> tuple[_Pairs, str, str]:
    position = scalars(q)
    plan, _, _ = surroundings_at(model, world, position)
    choices = dict(options)
    frame, other = choices["frame"], choices["other"]
    return _Pairs(model, plan, position, (frame, other)), frame, other


def _run_cross(model: Model, world: World | None, options: Options, q: Any) -> Any:
    pairs, i, j = _pair(model, world, options, q)
    return _flat(pairs.response(i, j, i, j))


def _run_apparent(model: Model, world: World | None, options: Options, q: Any) -> Any:
    pairs, i, j = _pair(model, world, options, q)
    # a force on one and its reaction on the other share a line of action: one point serves both
    own = _sum(pairs.response(i, i, i, i), pairs.response(j, j, i, i))
    coupling = pairs.response(i, j, i, i)
    return _flat(_sum(_sum(own, coupling, -1.0), _transposed(coupling), -1.0))


_CROSS = LibraryFunction("cross_inverse_inertia", _inputs, _run_cross, parameters=(INERTIA,))
_APPARENT = LibraryFunction(
    "apparent_inverse_inertia", _inputs, _run_apparent, parameters=(INERTIA,)
)


@public
@takes_conditions
def cross_inverse_inertia(
    model: Model,
    q: ArrayLike,
    frame: str,
    other: str,
    **surroundings: Unpack[WorldCall],
) -> NDArray[np.float64]:
    """Compute the acceleration of one frame per force on another, from rest, without gravity.

    One state or a batch. Inside a function given to `tiburon.compile` q may be traced, one state at
    a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        frame: Name of the body or frame that accelerates.
        other: Name of the body or frame the force acts on; may be the same.
        **surroundings: `time`; `world` and `fluid`, whose added mass counts; `out` and `errors`:
            see `Conditions` and `Delivery`.

    Returns:
        Acceleration [alpha; a] at the first frame's origin per force [n; f] at the other's, world
        axes [1/(kg m^2), 1/(kg m), 1/kg], shape (..., 6, 6). Exchanging the frames transposes it.
    """
    options = (("frame", frame), ("other", other))
    answer: NDArray[np.float64] = call_under(surroundings, _CROSS, model, (q,), options)
    return answer


@public
@takes_conditions
def apparent_inverse_inertia(
    model: Model,
    q: ArrayLike,
    frame: str,
    other: str = "world",
    **surroundings: Unpack[WorldCall],
) -> NDArray[np.float64]:
    """Compute how two links accelerate apart per force between them, from rest, without gravity.

    Phi_ii - Phi_ij - Phi_ji + Phi_jj, what a loop joint or contact between the two meets
    (Featherstone 1987, eq. 9.27). Its inverse, where it exists, is the apparent inertia: always
    between a free link and the world, never in directions that the robot itself forbids. One state
    or a batch. Inside a function given to `tiburon.compile` q may be traced, one state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        frame: Name of a body or frame; a force acts on it.
        other: Name of the body or frame that takes the reaction.
        **surroundings: `time`; `world` and `fluid`, whose added mass counts; `out` and `errors`:
            see `Conditions` and `Delivery`.

    Returns:
        Relative acceleration [alpha; a] per force [n; f], both at the origin of `frame`, world axes
        [1/(kg m^2), 1/(kg m), 1/kg], symmetric, shape (..., 6, 6).
    """
    options = (("frame", frame), ("other", other))
    answer: NDArray[np.float64] = call_under(surroundings, _APPARENT, model, (q,), options)
    return answer
