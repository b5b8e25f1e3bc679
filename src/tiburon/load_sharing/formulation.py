"""Three formulations of one problem: complete, superposition, compact (Nahon 1991, section 4.2).

| formulation | unknowns | equations |
|---|---|---|
| compact | contact and loop forces x | one per velocity variable that nothing drives |
| superposition | x and actuator efforts | one per velocity variable |
| complete | x, efforts and joint wrenches | d per link: 6, or 3 in a plane |

Unknowns less equations are the same in all: the degree of actuation redundancy r, where the loops
are independent of each other (4.14), (4.26), (4.28).

The superposition formulation has one equation per velocity variable of the tree (4.23), (4.24):
those of the moving pole, and for each joint of a path what its actuator and the forces x do
together,

    J_u^T x = tau'_u,           J_a^T x + tau_a = tau'_a

For a pole on p paths these are the rows B, D and A~ of the source. The rows of an open path hold
its own efforts alone, tau_a = tau'_a (4.42a): they decouple.
"""

import numpy as np

from tiburon.arrays import Array
from tiburon.contact.rows import ContactRow
from tiburon.load_sharing.complete import complete, complete_names
from tiburon.load_sharing.problem import Layout, Problem, System
from tiburon.model import Model
from tiburon.spatial import Scalar

COMPACT, SUPERPOSITION, COMPLETE = "compact", "superposition", "complete"

FORMULATIONS = (COMPACT, SUPERPOSITION, COMPLETE)


def formulated(formulation: str, problem: Problem) -> Problem:
    """Return a problem with the unknowns and equations of a formulation."""
    if formulation == COMPACT:
        return problem
    system = _superposition(problem) if formulation == SUPERPOSITION else complete(problem)
    # unknowns less equations are the same in all formulations (4.14), (4.26), (4.28)
    assert system.size - len(system.rows) == problem.layout.redundancy
    return problem._replace(system=system)


def _superposition(problem: Problem) -> System:
    """Return unknowns and equations of the superposition formulation."""
    first = problem.layout.size
    torques = {index: first + k for k, index in enumerate(problem.layout.driven)}
    rows: list[ContactRow] = []
    right: list[Scalar] = []
    for index, needed in enumerate(problem.needed):
        row = problem.row(index)
        if index in torques:
            row[torques[index]] = 1.0
        rows.append(row)
        right.append(needed)
    return System(first + len(torques), rows, right, torques)


def formulation_names(
    formulation: str, model: Model, layout: Layout
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the unknowns and of the equations of a formulation."""
    if formulation == COMPLETE:
        return complete_names(model, layout)
    if formulation == SUPERPOSITION:
        efforts = (f"{model.v_names[i]}: effort" for i in layout.driven)
        return (*layout.names, *efforts), tuple(model.v_names)
    return layout.names, tuple(model.v_names[i] for i in layout.undriven)


def completed_objective(W: Array, c: Array, A1: Array, b1: Array) -> tuple[Array, Array]:
    """Return an objective with the squares of the equations' residuals added.

    On solutions of A1 x = b1 the sum is the same; beyond them it is positive definite wherever W is
    on the null space of A1.
    """
    sizes = np.linalg.norm(A1, axis=1)
    some = sizes > 0.0
    scale = float(np.diag(W)[np.diag(W) > 0.0].mean()) if np.any(np.diag(W) > 0.0) else 1.0
    A, b = A1[some] / sizes[some, None], b1[some] / sizes[some]
    return W + scale * A.T @ A, c - scale * A.T @ b
