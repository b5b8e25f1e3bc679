"""How the forces of actuators change with a motion, where loops are closed.

Of all forces u that make a motion the shortest are u = E^T z with J z = 0, so that

    [ E E^T  J^T ] [   z    ]   [ Q ]
    [ J       0  ] [ lambda ] = [ 0 ]

Differentiating with lambda and z held where they stand beside J gives equations with the same
matrix (Golub and Pereyra 1973, where ranks stay constant):

    w = d(Q - J^T lambda),   g = -E^T J^+ d(J z),   du = g + (P E)^+ P (w - E g)

P E du = P w is what forward dynamics says; g turns u to where it stays the shortest, and is zero
for as many actuators as freedoms. Where actuators cannot make every motion near this one, du is
right for those that they can make.

Symbols: as in `inverse`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiburon.algorithms.closed_form import has_closed_form
from tiburon.algorithms.conditions import Setting
from tiburon.algorithms.crba import mass_elements
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.tape_calls import JointVector
from tiburon.loops.constraints import constraints
from tiburon.loops.derivatives import on_floats, pushed
from tiburon.loops.inverse import Sharing, forces
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced
from tiburon.trace.program import current_graph
from tiburon.trace.regions import function

__all__ = ["actuated_derivatives"]

Scalars = Sequence[Scalar]


def actuated_derivatives(
    around: Setting, q: Scalars, v: Scalars, vd: Scalars
) -> tuple[tuple[Scalar, ...], Any, Any, Any]:
    """Compute the forces of the robot's own actuators for a motion, and their derivatives.

    Args:
        around: What acts in this state.
        q: Position with closed loops [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars.

    Returns:
        tau, nv scalars, zero where no actuator is, and its derivatives by steps of position, by
        velocity and by acceleration, each an array of shape (nv, nv).
    """
    if current_graph() is None:
        return on_floats(actuated_derivatives, around, q, v, vd)
    model, plan, n = around.model, around.plan, around.plan.nv
    actuators = model.actuated_joint_names
    held = constraints(model, plan, q, v)
    sharing = Sharing(model, held, actuators)
    needed = rnea(plan, q, v, vd, around.gravity, around.external)
    tau, multipliers = forces(model, held, needed, vd, actuators, sharing)
    own = sharing.shares(needed)
    z = list(sharing.reach.solve_transpose(as_traced(own)))

    @function
    def solved(w: Scalars, opening: Scalars) -> list[Scalar]:
        back = list(sharing.loops.solve(as_traced(list(opening) or [0.0])))
        g = sharing.spread([-back[i] for i in sharing.driven])
        rest = sharing.spread(sharing.shares([x - y for x, y in zip(w, g, strict=True)]))
        return [x + y for x, y in zip(g, rest, strict=True)]

    @function
    def along(
        q: Scalars,
        v: Scalars,
        vd: Scalars,
        forces: Scalars,
        z: Scalars,
        step: Scalars,
        change: Scalars,
    ) -> list[Scalar]:
        # inside, all of these are leaves of a graph of their own
        position, rate = JointVector(q), JointVector(v)
        here = around.at(position, rate, *around.now)
        rows = constraints(model, here.plan, position, rate).jacobian
        left = list(rnea(here.plan, position, rate, JointVector(vd), here.gravity, here.external))
        opening: list[Scalar] = []
        for k in sharing.live:
            total: Scalar = 0.0
            for i, x in rows[k].items():
                left[i] = left[i] - x * forces[k]
                total = total + x * z[i]
            opening.append(total)
        return pushed(around, [*left, *opening], position, v, step, change)

    state = (tuple(q), tuple(v), tuple(vd), tuple(multipliers), tuple(z))
    H = mass_elements(plan, q)
    none, closed = (0.0,) * n, (0.0,) * len(sharing.live)
    columns: list[list[Scalar]] = []
    for k, unit in enumerate([tuple(row) for row in np.eye(n).tolist()]):
        for step, change in ((unit, none), (none, unit)):
            rate = along(*state, step, change)
            columns.append(solved(tuple(rate[:n]), tuple(rate[n:])))
        columns.append(solved(tuple(H[i * n + k] for i in range(n)), closed))
    by = [
        as_traced([columns[3 * k + kind][i] for i in range(n) for k in range(n)]).reshape(n, n)
        for kind in range(3)
    ]
    return tuple(tau), by[0], by[1], by[2]


@has_closed_form("inverse_dynamics_derivatives")
def _derivatives(around: Setting, q: Scalars, v: Scalars, vd: Scalars) -> Any:
    tau, by_q, by_v, by_vd = actuated_derivatives(around, q, v, vd)
    return {"tau": as_traced(list(tau)), "by_q": by_q, "by_v": by_v, "by_vd": by_vd}
