"""Contact forces by a search that guesses (Featherstone 1987, section 9.8.1, L2969-2977).

The contact with the most negative acceleration probably carries force. It is eliminated (9.59), the
others are solved for, and its force follows (9.56). If that is negative, the guess was wrong and
the contact is left out (9.58). Contacts of which none approaches carry no force. If only one
approaches it carries force for certain.
"""

from typing import NamedTuple

import numpy as np

from tiburon.arrays import ArrayLike, NDArray
from tiburon.contact.complementarity import ContactForces, Tolerances, completed
from tiburon.contact.pruned import definite_problem, eliminated

Array = NDArray[np.float64]

MOST_CONTACTS = 60
"""Contacts up to which is searched: wrong guesses double the work."""


class Guesses(NamedTuple):
    """How a search by guesses went."""

    forces: Array
    """Force of each contact [N]."""

    patterns: int
    """Patterns tried."""

    decisions: int
    """Contacts chosen to carry force, those that carry it for certain included."""

    wrong: int
    """Guesses that were wrong."""


def solve_heuristic(
    C: ArrayLike, d: ArrayLike, tolerances: Tolerances | None = None
) -> ContactForces:
    """Solve a contact problem by guesses; arguments and errors are those of `solve_pruned`."""
    matrix, vector = definite_problem(C, d, MOST_CONTACTS)
    found = guess(matrix, vector)
    support = np.flatnonzero(found.forces).tolist()
    return completed(matrix, vector, support, found.patterns, tolerances)


def guess(C: Array, d: Array) -> Guesses:
    """Search for the forces of a positive definite problem, and count guesses."""
    if not len(d) or d.min() >= 0.0:
        return Guesses(np.zeros(len(d)), 1, 0, 0)
    i = int(d.argmin())
    others = np.arange(len(d)) != i
    forces = np.zeros(len(d))
    held = guess(*eliminated(C, d, i))
    force = -(C[i, others] @ held.forces + d[i]) / C[i, i]
    decisions = held.decisions + 1
    if force >= 0.0:
        forces[others], forces[i] = held.forces, force
        return Guesses(forces, held.patterns, decisions, held.wrong)
    free = guess(C[np.ix_(others, others)], d[others])
    forces[others] = free.forces
    return Guesses(
        forces,
        held.patterns + free.patterns,
        decisions + free.decisions,
        held.wrong + free.wrong + 1,
    )
