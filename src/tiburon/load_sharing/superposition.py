"""The superposition formulation: unknown contact and loop forces, and actuator efforts.

One equation per velocity variable of the tree (Nahon 1991, eqs. 4.23 and 4.24): those of the moving
pole, and for each joint of a path what its actuator and the forces x do together,

    J_u^T x = tau'_u,           J_a^T x + tau_a = tau'_a

For a pole on p paths these are the rows B, D and A~ of the source. The rows of an open path hold
its own efforts alone, tau_a = tau'_a (4.42a): they decouple.
"""

from tiburon.contact.rows import ContactRow
from tiburon.load_sharing.problem import Problem, System
from tiburon.spatial import Scalar


def superposition(problem: Problem) -> System:
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
