"""Apparent (operational-space) inertia at frames of a robot, with loops closed.

Symbols (Featherstone 1987, section 9.5):
    Phi     acceleration of all handles per force on them, from rest (eq. 9.18)
    G       shares that joints take of unit forces, in the metric of the mass matrix

From the world outward Phi = G^T G, for grounded and floating robots alike; loops take out of G what
they resist: Phi = G^T (1 - P) G with P the projector on the shares of the constraints.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiburon.algorithms.articulated_response import Rates
from tiburon.algorithms.kinematics import body_places, frame_places, jacobian_columns
from tiburon.algorithms.setting import Setting
from tiburon.arrays import NDArray
from tiburon.loops.constraints import Row, constraints, jacobian_pattern
from tiburon.loops.metric import CUT, articulated_metric, rank_cut
from tiburon.model import Model, Plan
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Force, Scalar
from tiburon.spatial.vec3 import matrix_vector
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.orthogonal import OrthogonalFactor, factor_orthogonal

__all__ = ["LoopResponse", "handle_response"]

Array = NDArray[np.float64]


class LoopResponse:
    """How a robot with loops responds to forces from rest: a `Response` of articulated bodies.

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
        used = jacobian_pattern(model) if model.loops else ()
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


def handle_response(setting: Setting, q: Sequence[Scalar]) -> dict[str, Any]:
    """Compute Phi of all frames that the options name, and the rank cut, by name."""
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
    return {
        "inverse": as_traced([x for row in Phi for x in row]).reshape(size, size),
        "cut": as_traced(response.cut),
    }
