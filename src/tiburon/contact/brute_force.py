"""Contact forces by trying every pattern of contacts (Featherstone 1987, section 9.8, L2893-2937).

The reference that other solvers are compared with: 2^n patterns for n contacts. Patterns whose
matrix is singular are left out; where forces are not unique, some other pattern has the same
accelerations and fewer contacts.
"""

from itertools import combinations

import numpy as np

from tiburon.arrays import ArrayLike
from tiburon.contact.certificate import RANK_CUT, refuse
from tiburon.contact.complementarity import (
    ContactForces,
    Tolerances,
    checked_problem,
    completed,
    is_solution,
    smallest_eigenvalue,
    tolerances_for,
)
from tiburon.errors import DomainError

MOST_CONTACTS = 16
"""Contacts up to which all patterns are tried: 65536 of them."""


def solve_brute_force(
    C: ArrayLike, d: ArrayLike, tolerances: Tolerances | None = None
) -> ContactForces:
    """Solve a contact problem without friction, positive semidefinite or definite.

    Args:
        C: Inverse inertia at the contacts [1/kg], symmetric, shape (n, n).
        d: Relative normal accelerations without contact forces [m/s^2], shape (n,).
        tolerances: When forces and accelerations count as zero; 1e-9 of the largest by default.

    Raises:
        DomainError: If there are more than `MOST_CONTACTS` contacts.
        SecondOrderCollisionError: If there is no solution.
    """
    matrix, vector = checked_problem(C, d)
    count = len(vector)
    if count > MOST_CONTACTS:
        raise DomainError(
            "C",
            f"at most {MOST_CONTACTS} contacts",
            f"{count}",
            advice="use solve_pivoting",
        )
    allowed = tolerances_for(matrix, vector, None, tolerances)
    tried = 0
    for size in range(count + 1):
        for pattern in combinations(range(count), size):
            tried += 1
            chosen = list(pattern)
            part = matrix[np.ix_(chosen, chosen)]
            if chosen and smallest_eigenvalue(part) <= RANK_CUT:
                continue
            forces = np.zeros(count)
            forces[chosen] = np.linalg.solve(part, -vector[chosen])
            if is_solution(matrix, vector, forces, allowed):
                return completed(matrix, vector, chosen, tried, tolerances)
    raise refuse(matrix, vector)
