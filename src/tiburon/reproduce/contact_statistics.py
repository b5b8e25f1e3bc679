"""How many patterns of contacts a search tries, and how often a guess is right.

Featherstone 1987, section 9.8.1 (L2937, L2967, L2969): on random problems the pruned search tries
about 1.5^n of 2^n patterns, 58 of 1024 for ten contacts; the contact with the most negative
acceleration carries force in 98 to 99 % of all choices on random problems, and in 95 to 100 % for
contacts of a single rigid body.

The book says "random numbers with uniform distribution" of the first test and nothing of the
second. Here C = A A^T with A and d uniform in -1 to 1, as reproduced before; a single body is a box
of random edges with contacts at random points of its faces, under a random wrench.
"""

from collections.abc import Callable

import numpy as np

from tiburon.arrays import Array
from tiburon.contact.heuristic import guess, solve_heuristic
from tiburon.contact.pruned import solve_pruned
from tiburon.reproduce.cells import DERIVED, PRINTED, Cell, CellTable, claim

Problem = Callable[[np.random.Generator, int], tuple[Array, Array]]

SEED = 1987
"""Of the random problems."""

SIZES = (4, 6, 8, 10, 12)
"""Numbers of contacts of random problems."""

BODY_SIZES = (2, 3, 4, 5, 6)
"""Numbers of contacts of a single body; more than six depend on each other."""

MAX_ERRORS = 3.0
"""Standard errors by which a mean may differ from what is published."""


def statistics_tables(problems: int = 400) -> tuple[CellTable, ...]:
    """Return all tables, from so many random problems for each number of contacts."""
    return (
        CellTable(
            "Featherstone 1987, section 9.8.1",
            "patterns tried by the pruned search, of 2^n (mean)",
            tuple(_patterns(n, problems) for n in SIZES),
        ),
        CellTable(
            "Featherstone 1987, section 9.8.1",
            "choices of the heuristic that are right, random problems",
            tuple(_choices(random_problem, n, problems, 0.98, 0.99) for n in SIZES),
        ),
        CellTable(
            "Featherstone 1987, section 9.8.1",
            "choices of the heuristic that are right, single rigid bodies",
            tuple(_choices(body_problem, n, problems, 0.95, 1.0) for n in BODY_SIZES),
        ),
    )


def random_problem(rng: np.random.Generator, contacts: int) -> tuple[Array, Array]:
    """Return C and d of a random problem."""
    A = rng.uniform(-1.0, 1.0, (contacts, contacts))
    return A @ A.T, rng.uniform(-1.0, 1.0, contacts)


def body_problem(rng: np.random.Generator, contacts: int) -> tuple[Array, Array]:
    """Return C and d of a free box with contacts on its faces, independent of each other."""
    while True:
        edges, mass = rng.uniform(0.1, 1.0, 3), rng.uniform(0.5, 2.0)
        squares = edges * edges
        moments = mass / 12.0 * (squares.sum() - squares)
        scale = np.concatenate([1.0 / np.sqrt(moments), np.full(3, 1.0 / np.sqrt(mass))])
        rows = []
        for _ in range(contacts):
            axis, side = int(rng.integers(3)), float(rng.choice([-1.0, 1.0]))
            point = rng.uniform(-0.5, 0.5, 3) * edges
            point[axis] = 0.5 * side * edges[axis]
            normal = np.zeros(3)
            normal[axis] = -side
            rows.append(np.concatenate([np.cross(point, normal), normal]) * scale)
        A = np.array(rows)
        wrench = np.concatenate([rng.uniform(-1, 1, 3) * edges.mean(), rng.uniform(-1, 1, 3)])
        C = A @ A.T
        if float(np.linalg.eigvalsh(C)[0]) > 1e-9 * float(np.trace(C)):
            return C, A @ (wrench * scale)


def _patterns(contacts: int, problems: int) -> Cell:
    rng = np.random.default_rng([SEED, contacts])
    tried = [solve_pruned(*random_problem(rng, contacts)).patterns for _ in range(problems)]
    mean, error = float(np.mean(tried)), float(np.std(tried) / np.sqrt(problems))
    expected = 1.5**contacts
    return claim(
        f"{contacts} contacts, {problems} problems",
        f"{expected:.1f} of {2**contacts}",
        f"{mean:.2f} (standard error {error:.2f})",
        abs(mean - expected) <= MAX_ERRORS * error,
        # of 1.5^n only 58 of 1024 is printed as a number
        PRINTED if contacts == 10 else DERIVED,
    )


def _choices(problem: Problem, contacts: int, problems: int, low: float, high: float) -> Cell:
    rng = np.random.default_rng([SEED, contacts])
    wrong: list[int] = []
    made: list[int] = []
    for _ in range(problems):
        C, d = problem(rng, contacts)
        found = guess(C, d)
        _check(C, d)
        wrong.append(found.wrong)
        made.append(found.decisions)
    total = max(1, sum(made))
    right = 1.0 - sum(wrong) / total
    error = float(np.sqrt(max(sum(wrong), 1)) / total)
    return claim(
        f"{contacts} contacts, {problems} problems",
        f"{100 * low:.0f} to {100 * high:.0f} %",
        f"{100 * right:.2f} % (standard error {100 * error:.2f} %)",
        low - MAX_ERRORS * error <= right <= high + MAX_ERRORS * error,
    )


def _check(C: Array, d: Array) -> None:
    """Check that both searches find the same forces, which satisfy all conditions."""
    one, other = solve_pruned(C, d), solve_heuristic(C, d)
    assert one.modes == other.modes, "searches disagree"
    assert max(one.residual, other.residual) < 1e-7, "conditions are violated"
