"""Apparent (operational-space) inertia at frames of a robot, with loops closed.

Symbols (Featherstone 1987, section 9.5):
    Phi     acceleration of all handles per force on them, from rest (eq. 9.18)
    G       D^-1/2 L^-T J^T of unit forces, with H = L^T D L

Phi = G^T G for fixed and floating bases; with loops Phi = G^T (1 - P) G, with P the projector on
the rows of the constraints in the same metric.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiburon.algorithms.articulated_response import Rates
from tiburon.algorithms.kinematics import body_places, frame_places, jacobian_columns
from tiburon.algorithms.setting import Setting
from tiburon.loops.constraints import Row, constraints, jacobian_pattern
from tiburon.loops.metric import MIN_CUT, articulated_metric, projection_error, rank_cut
from tiburon.model import Model, Plan
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Force, Scalar, Scalars
from tiburon.spatial.vec3 import matrix_vector
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.orthogonal import (
    SMALLEST_SQUARE,
    OrthogonalFactor,
    factor_orthogonal,
)


class LoopResponse:
    """Acceleration of a robot with loops per force, from rest: a `Response`.

    Attributes:
        d: Ones, one per velocity variable, at the world: columns of G have unit inertia.
        cut: Relative singular value below which columns of G are dependent.
        floor: Length below which they are zero: the rounding error of those computed so far.
    """

    def __init__(self, model: Model, plan: Plan, q: Scalars) -> None:
        """Factor the mass matrix, and the constraints in its metric."""
        self._plan, self._q, self._places = plan, q, body_places(plan, q)
        self._metric = articulated_metric(plan, q)
        self._roots = [np.sqrt(x) for x in self._metric.inverse_D]
        self.d = {WORLD_BODY: (1.0,) * plan.nv}
        self._loops: OrthogonalFactor | None = None
        self.cut: Scalar = MIN_CUT
        self.floor: Scalar = 0.0
        used = jacobian_pattern(model) if model.loops else ()
        if any(used):
            terms = constraints(model, plan, q)
            rows = [
                self._column(row)
                for row, columns in zip(terms.jacobian, used, strict=True)
                if columns
            ]
            self.cut = rank_cut(model, terms.value)
            self._loops = factor_orthogonal(as_traced(rows), cut=self.cut)
            self._error = projection_error(self._loops, self.cut)

    def _column(self, row: Row) -> list[Scalar]:
        found = self._metric.solve_transpose(row)
        return [found[i] * root if i in found else 0.0 for i, root in enumerate(self._roots)]

    def free(self, row: Row) -> list[Scalar]:
        """Return (1 - P) G for a joint force."""
        share = self._column(row)
        if self._loops is None:
            return share
        length = np.sqrt(sum((x * x for x in share), start=0.0))
        self.floor = np.maximum(self.floor, self._error * length)
        kept = self._loops.project_rows(as_traced(share))
        return [x - y for x, y in zip(share, kept, strict=True)]

    def rates(self, body: int, forces: Sequence[Force]) -> dict[int, Rates]:
        """Return columns of G for single forces on a plan body, in body frame."""
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


def handle_response(setting: Setting, q: Scalars) -> dict[str, Any]:
    """Compute Phi of the frames in the options, and the rank cut, by name."""
    plan, names = setting.plan, dict(setting.options)["frames"]
    response = LoopResponse(setting.model, plan, q)
    places = body_places(plan, q)
    free: list[list[Scalar]] = []
    for name, place in zip(names, frame_places(plan, q, names), strict=True):
        columns = jacobian_columns(plan, q, places, plan.frame(name).body, place.p)
        by_variable = {i: tuple(column) for i, column in columns.items()}
        free += [response.free({i: x[k] for i, x in by_variable.items()}) for k in range(6)]
    size = len(free)
    Phi: list[list[Scalar]] = [[0.0] * size for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            products = (x * y for x, y in zip(free[i], free[j], strict=True))
            Phi[i][j] = Phi[j][i] = sum(products, start=0.0)
    # the columns are as long as their largest singular value at least
    longest = np.sqrt(np.maximum(sum(Phi[i][i] for i in range(size)), SMALLEST_SQUARE))
    cut = np.maximum(response.cut, response.floor / longest)
    return {
        "inverse": as_traced([x for row in Phi for x in row]).reshape(size, size),
        "cut": as_traced(cut),
    }
