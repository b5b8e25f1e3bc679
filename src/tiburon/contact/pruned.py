"""Contact forces by a pruned search (Featherstone 1987, section 9.8.1, Fig. 9-6).

For a positive definite matrix there is exactly one solution. Contact 0 is first assumed not to
carry force; the others are solved for by recursion. If contact 0 then approaches, the assumption
was wrong: its force is eliminated (eqs. 9.56 and 9.59), and the others are solved for again. Where
both roots are equally likely, about 1.5^n of 2^n patterns are tried.
"""

import numpy as np

from tiburon.arrays import ArrayLike, NDArray
from tiburon.contact.certificate import RANK_CUT
from tiburon.contact.complementarity import (
    ContactForces,
    Tolerances,
    checked_problem,
    completed,
    smallest_eigenvalue,
)
from tiburon.errors import DomainError

Array = NDArray[np.float64]

MOST_CONTACTS = 24
"""Contacts up to which patterns are searched: some 17000 of them."""


def solve_pruned(C: ArrayLike, d: ArrayLike, tolerances: Tolerances | None = None) -> ContactForces:
    """Solve a contact problem without friction whose matrix is positive definite.

    Args:
        C: Inverse inertia at the contacts [1/kg], symmetric, shape (n, n).
        d: Relative normal accelerations without contact forces [m/s^2], shape (n,).
        tolerances: When forces and accelerations count as zero; 1e-9 of the largest by default.

    Raises:
        DomainError: If the matrix is not positive definite, or there are too many contacts.
    """
    matrix, vector = definite_problem(C, d, MOST_CONTACTS)
    forces, tried = _search(matrix, vector) if len(vector) else (vector, 1)
    return completed(matrix, vector, np.flatnonzero(forces).tolist(), tried, tolerances)


def definite_problem(C: ArrayLike, d: ArrayLike, most: int) -> tuple[Array, Array]:
    """Return a problem as arrays, if a search applies to it.

    Raises:
        DomainError: If the matrix is not positive definite, or there are more contacts than `most`.
    """
    matrix, vector = checked_problem(C, d)
    if len(matrix) > most:
        raise DomainError(
            "C", f"at most {most} contacts", f"{len(matrix)}", advice="use solve_pivoting"
        )
    least = smallest_eigenvalue(matrix)
    if least <= RANK_CUT:
        raise DomainError(
            "C",
            "a positive definite matrix",
            f"one whose smallest eigenvalue is {least:.3g} of its diagonal",
            advice="contacts depend on each other; use solve_pivoting",
        )
    return matrix, vector


def eliminated(C: Array, d: Array, i: int) -> tuple[Array, Array]:
    """Return the problem of the other contacts while contact i stays closed (9.59)."""
    others = np.arange(len(d)) != i
    column = C[others, i] / C[i, i]
    return C[np.ix_(others, others)] - np.outer(column, C[i, others]), d[others] - column * d[i]


def _search(C: Array, d: Array) -> tuple[Array, int]:
    """Return the forces, and the number of patterns tried."""
    if len(d) == 1:
        # the zero root is one pattern, the other one a second
        return (np.array([-d[0] / C[0, 0]]), 2) if d[0] < 0.0 else (np.zeros(1), 1)
    rest, tried = _search(C[1:, 1:], d[1:])
    if C[0, 1:] @ rest + d[0] >= 0.0:
        return np.concatenate([[0.0], rest]), tried
    rest, more = _search(*eliminated(C, d, 0))
    first = -(C[0, 1:] @ rest + d[0]) / C[0, 0]
    return np.concatenate([[first], rest]), tried + more
