"""Apparent (operational-space) inertia at frames of a robot, with loops closed.

Symbols (Featherstone 1987, section 9.5):
    Phi     acceleration of all handles per force on them, from rest (eq. 9.18)
    G       shares that joints take of unit forces, in the metric of the mass matrix

From the world outward Phi = G^T G, for grounded and floating robots alike; loops take out of G what
they resist: Phi = G^T (1 - P) G with P the projector on the shares of the constraints.
"""

from collections.abc import Sequence
from typing import Any, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.closed_form import has_closed_form
from tiburon.algorithms.coupled_response import Rates
from tiburon.algorithms.jacobian import jacobian_columns
from tiburon.algorithms.kinematics import body_places, frame_places
from tiburon.algorithms.surroundings import surroundings_at
from tiburon.algorithms.tape_calls import scalars
from tiburon.arguments import public
from tiburon.functions.keywords import WorldCall, takes_conditions
from tiburon.functions.library import INERTIA, LibraryFunction, Options, call_under, inputs_of
from tiburon.loops.constraints import Row, constraints, entries_in_use
from tiburon.loops.metric import CUT, articulated_metric, rank_cut
from tiburon.model import Model, Plan, World
from tiburon.model.plan import WORLD_BODY
from tiburon.native.arguments import checked_targets, deliver
from tiburon.record import record
from tiburon.spatial import Force, Scalar
from tiburon.spatial.vec3 import matrix_vector
from tiburon.trace.array import as_traced
from tiburon.trace.primitives import OrthogonalFactor, factor_orthogonal

__all__ = ["ApparentInertia", "apparent_inertia"]

Array = NDArray[np.float64]

ZERO_RESPONSE = 1e-10
"""Share of the largest acceleration per force below which a direction counts as held."""


@record(eq=False)
class ApparentInertia:
    """What one feels in pulling at frames of a robot, one position or a batch."""

    inverse: Array
    """Acceleration of all frames per force on them, [alpha; a] per [n; f] at their origins, world
    axes [1/(kg m^2), 1/(kg m), 1/kg], symmetric, shape (..., 6 n, 6 n); zero along directions that
    the robot and its loops forbid."""

    inertia: Array
    """Force per acceleration [kg m^2, kg m, kg], shape (..., 6 n, 6 n): the inverse of `inverse`
    where all directions are free, its pseudo-inverse where some are not. Along those the true
    inertia is infinite, and here it is zero."""

    rank: Array
    """In how many independent directions the frames can move, shape (...)."""


class LoopResponse:
    """How a robot with loops answers forces from rest, as `tiburon.algorithms.coupled_response`.

    Attributes:
        d: One for each velocity variable, all expressed at the world: shares have unit inertia.
        cut: Relative length below which shares are dependent.
    """

    def __init__(self, model: Model, plan: Plan, q: Sequence[Scalar]) -> None:
        """Factor the mass matrix, and constraints in its metric.

        Args:
            model: The robot, with loops or without.
            plan: Its layout.
            q: Position [m or rad], nq scalars.
        """
        self._plan, self._q, self._places = plan, q, body_places(plan, q)
        self._metric = articulated_metric(plan, q)
        self._roots = [np.sqrt(x) for x in self._metric.softness]
        self.d = {WORLD_BODY: (1.0,) * plan.nv}
        self._loops: OrthogonalFactor | None = None
        self.cut: Scalar = CUT
        used = entries_in_use(model) if model.loops else ()
        if any(used):
            held = constraints(model, plan, q)
            rows = [
                self._share(row)
                for row, columns in zip(held.jacobian, used, strict=True)
                if columns
            ]
            self.cut = rank_cut(model, held.value)
            self._loops = factor_orthogonal(as_traced(rows), cut=self.cut)

    def _share(self, row: Row) -> list[Scalar]:
        lowered = self._metric.lowered(row)
        return [lowered[i] * root if i in lowered else 0.0 for i, root in enumerate(self._roots)]

    def free(self, row: Row) -> list[Scalar]:
        """Return the shares that joints take of a joint force, less what loops resist."""
        share = self._share(row)
        if self._loops is None:
            return share
        kept = self._loops.project_rows(as_traced(share))
        return [x - y for x, y in zip(share, kept, strict=True)]

    def rates(self, body: int, forces: Sequence[Force]) -> dict[int, Rates]:
        """Push a body from rest.

        Args:
            body: Index of the plan body, or that of the world.
            forces: Forces on it, in its frame; each acts alone.
        """
        if body == WORLD_BODY:
            return {}
        place = self._places[body]
        columns = jacobian_columns(self._plan, self._q, self._places, body, place.p)
        by_force = []
        for force in forces:
            n, f = matrix_vector(place.R, force.moment), matrix_vector(place.R, force.force)
            pushed = Force(n, f)
            by_force.append(self.free({i: x.dot(pushed) for i, x in columns.items()}))
        return {WORLD_BODY: tuple(zip(*by_force, strict=True))}


has_closed_form("response")(LoopResponse)


def _run(model: Model, world: World | None, options: Options, q: Any) -> Any:
    position = scalars(q)
    plan, _, _ = surroundings_at(model, world, position)
    names = dict(options)["frames"]
    told = LoopResponse(model, plan, position)
    places = body_places(plan, position)
    free: list[list[Scalar]] = []
    for name, place in zip(names, frame_places(plan, position, names), strict=True):
        columns = jacobian_columns(plan, position, places, plan.frame(name).body, place.p)
        by_variable = {i: tuple(column) for i, column in columns.items()}
        free += [told.free({i: x[k] for i, x in by_variable.items()}) for k in range(6)]
    size = len(free)
    Phi: list[list[Scalar]] = [[0.0] * size for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            products = (x * y for x, y in zip(free[i], free[j], strict=True))
            Phi[i][j] = Phi[j][i] = sum(products, start=0.0)
    return {
        "inverse": as_traced([x for row in Phi for x in row]).reshape(size, size),
        "cut": as_traced(told.cut),
    }


_FUNCTION = LibraryFunction("apparent_inertia", inputs_of("q"), _run, parameters=(INERTIA,))


@public
@takes_conditions
def apparent_inertia(
    model: Model,
    q: ArrayLike,
    frames: str | Sequence[str],
    **surroundings: Unpack[WorldCall],
) -> ApparentInertia:
    """Compute what one feels in pulling at links of a robot from rest, its loops closed.

    Blocks beside the diagonal tell how a force on one frame accelerates another. Robots may stand
    on the ground or float, with loops or without. One position or a batch.

    Args:
        model: The robot.
        q: Position with closed loops [m or rad], shape (..., nq).
        frames: Name of a body or frame, or a sequence of n names.
        **surroundings: `time`; `world` and `fluid`, whose added mass counts; `out` and `errors`:
            see `Conditions` and `Delivery`.

    Example:
        ``tb.apparent_inertia(stewart, q, "platform").inertia``
    """
    names = (frames,) if isinstance(frames, str) else tuple(frames)
    for name in names:
        model.plan.frame(name)
    options = (("frames", names),)
    out, flag = surroundings.pop("out", None), surroundings.get("errors") == "flag"
    found = call_under(surroundings, _FUNCTION, model, (q,), options)
    parts, failed = found if flag else (found, False)
    inverse, cut = parts.values() if isinstance(parts, dict) else parts
    # failed cases are left out, not inverted
    bad = np.asarray(failed)
    clean = np.where(bad[..., None, None], 0.0, inverse)
    # off the manifold the projector is off by as much as the cut, and `inverse` by its square
    unmoved = np.where(bad, ZERO_RESPONSE, np.maximum(ZERO_RESPONSE, cut**2))
    rank = np.linalg.matrix_rank(clean, hermitian=True, rtol=unmoved)
    inertia = np.linalg.pinv(clean, rcond=unmoved, hermitian=True).astype(np.float64)
    inertia, ranks = np.where(bad[..., None, None], np.nan, inertia), np.where(bad, np.nan, rank)
    results = [inverse, inertia, ranks.astype(np.float64)]
    if out is not None:
        given = out
        if isinstance(out, ApparentInertia):
            given = (out.inverse, out.inertia, out.rank)
        targets = checked_targets(given, [np.shape(x) for x in results], single=False)
        deliver(targets, results)
        results = list(targets)
    made = ApparentInertia(*results)
    # the type stated is that of results alone
    return cast(ApparentInertia, (made, failed)) if flag else made
