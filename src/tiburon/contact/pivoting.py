"""Contact forces by complementary pivoting: many contacts, dependent normals.

Lemke's method (Cottle, Pang and Stone 1992, algorithm 4.4.5). All contacts are first kept from
approaching by one artificial acceleration, which pivots then reduce to zero. For positive
semidefinite matrices it ends with a solution, or with a ray that shows that there is none. Ties of
the ratio test, frequent where robots stand symmetrically, are broken lexicographically, so that the
method does not cycle. The number of pivots is about that of contacts; the worst case is exponential
as that of the search is (Featherstone 1987, L2988).
"""

import numpy as np

from tiburon.arrays import ArrayLike, NDArray
from tiburon.contact.certificate import refuse
from tiburon.contact.complementarity import (
    ContactForces,
    Tolerances,
    checked_problem,
    completed,
    tolerances_for,
)
from tiburon.errors import DomainError

Array = NDArray[np.float64]

SMALLEST_PIVOT = 1e-10
"""Entry of a column, relative to its largest, that can be a pivot."""

TIE_TOLERANCE = 1e-11
"""Difference of ratios that counts as a tie, for problems scaled to unit size."""

PIVOTS_PER_CONTACT = 50
"""Pivots at most."""


def solve_pivoting(
    C: ArrayLike, d: ArrayLike, tolerances: Tolerances | None = None
) -> ContactForces:
    """Solve a contact problem of any size; arguments are those of `solve_brute_force`.

    Raises:
        SecondOrderCollisionError: If there is no solution.
        DomainError: If the matrix is not positive semidefinite.
    """
    matrix, vector = checked_problem(C, d)
    allowed = tolerances_for(matrix, vector, None, tolerances)
    diagonal = np.diag(matrix)
    size = float(diagonal.max(initial=0.0))
    # contacts without any normal carry no force
    empty = diagonal <= 1e-14 * size
    if np.any(vector[empty] < -allowed.acceleration):
        raise refuse(matrix, vector)
    live = np.flatnonzero(~empty)
    if not len(live) or float(vector[live].min()) >= 0.0:
        return completed(matrix, vector, (), 0, tolerances)
    scale = 1.0 / np.sqrt(diagonal[live])
    scaled = matrix[np.ix_(live, live)] * np.outer(scale, scale)
    start = scale * vector[live]
    support, pivots = _lemke(scaled, start / float(np.abs(start).max()))
    if support is None:
        raise refuse(matrix, vector)
    return completed(matrix, vector, live[support].tolist(), pivots, tolerances)


def _lemke(C: Array, d: Array) -> tuple[list[int] | None, int]:
    """Return the contacts that carry force, None if there is a ray, and the number of pivots."""
    count = len(d)
    artificial = 2 * count
    # w - C f - z = d: columns w, f, z, right-hand side; rows hold the basic variables
    tableau = np.hstack([np.eye(count), -C, -np.ones((count, 1)), d[:, None]])
    basis = list(range(count))
    # the most negative row first, of equal ones the last: all rows are then positive
    row = min(range(count), key=lambda i: (d[i], -i))
    entering = artificial
    for pivots in range(1, PIVOTS_PER_CONTACT * count + 1):
        leaving = basis[row]
        tableau[row] /= tableau[row, entering]
        column = tableau[:, entering].copy()
        column[row] = 0.0
        tableau -= np.outer(column, tableau[row])
        tableau[:, entering] = 0.0
        tableau[row, entering] = 1.0
        basis[row] = entering
        if leaving == artificial:
            return [k - count for k in basis if k >= count], pivots
        entering = leaving + count if leaving < count else leaving - count
        found = _leaving_row(tableau, basis, entering, artificial)
        if found is None:
            return None, pivots
        row = found
    raise DomainError(
        "C",
        "a positive semidefinite matrix",
        f"one for which {PIVOTS_PER_CONTACT * count} pivots find no solution",
        advice="use C = F^T H^-1 F",
    )


def _leaving_row(tableau: Array, basis: list[int], entering: int, artificial: int) -> int | None:
    """Return the row of the variable that first becomes zero; None if none does."""
    column = tableau[:, entering]
    usable = column > SMALLEST_PIVOT * max(1.0, float(np.abs(column).max()))
    rows = np.flatnonzero(usable)
    if not len(rows):
        return None
    count = len(column)
    # right-hand side, then the columns of the inverse of the basis
    for place in (2 * count + 1, *range(count)):
        ratios = tableau[rows, place] / column[rows]
        rows = rows[ratios <= ratios.min() + TIE_TOLERANCE * max(1.0, abs(float(ratios.min())))]
        if place == 2 * count + 1:
            for row in rows:
                if basis[row] == artificial:
                    return int(row)
        if len(rows) == 1:
            break
    return int(rows[0])
