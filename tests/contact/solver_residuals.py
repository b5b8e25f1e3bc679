"""Print how well each solver and law meets the laws of contact on random problems.

Run from the top of a checkout::

    python -m tests.contact.solver_residuals
"""

import sys
from unittest import mock

import numpy as np

from tests.contact.test_friction_solver import Problem
from tiburon.trace.primitives import friction
from tiburon.trace.primitives.contact_layout import ContactLayout
from tiburon.trace.primitives.contact_step import ContactStep
from tiburon.trace.primitives.friction import FrictionGaussSeidel

TOLERANCE = 1e-8
PROBLEMS = 30


def problems():
    """Return random problems with two to six points that stick, slide and stay open."""
    return [Problem(seed, contacts=2 + seed % 5, columns=18) for seed in range(PROBLEMS)]


def coulomb(problem, most, **changed):
    """Return impulses and iterations by Coulomb's law, with changed constants of the solver."""
    solver = FrictionGaussSeidel(problem.columns, problem.supports, most)
    with mock.patch.multiple(friction, **changed):
        found = solver.apply([*problem.arguments[:-1], TOLERANCE])
    return np.array(found[: 3 * problem.contacts]), found[-2]


def convex(problem):
    """Return impulses and iterations by the convex law: a step without approach and gaps."""
    solver = ContactStep(problem.columns, ContactLayout.of(problem.supports).groups, 1, convex=True)
    entries = problem.arguments[: solver.entries]
    none = [0.0] * problem.contacts
    rest = [*problem.b, *problem.mu, *none, *none, *none, *none, *problem.start, *none]
    acting = np.zeros(4 * problem.contacts + problem.columns + 1)
    found = solver.apply([*entries, *rest, 1.0, TOLERANCE, *acting])
    return np.array(found[: 3 * problem.contacts]), found[-2]


SOLVERS = {
    "sweeps alone, Coulomb": lambda one: coulomb(one, 5000, MOST_COLUMNS=0),
    "sweeps and Newton's method, Coulomb": lambda one: coulomb(one, 500, MOST_COLUMNS=120),
    "Newton's method from the first sweep, Coulomb": lambda one: coulomb(
        one, 500, SWEEPS_BEFORE_NEWTON=1.0, SLOW_CONVERGENCE=-1.0
    ),
    "Newton's method, convex": convex,
}


def residuals(problem, p):
    """Return the violations of Signorini's condition, Coulomb's cone and maximum dissipation.

    Velocities and impulses by their largest, powers by the product of both.
    """
    u = (problem.A @ (problem.A.T @ p) + problem.b).reshape(-1, 3)
    p = p.reshape(-1, 3)
    force, speed = max(np.abs(p).max(), 1e-300), np.abs(problem.b).max()
    t, slip = np.linalg.norm(p[:, :2], axis=1), np.linalg.norm(u[:, :2], axis=1)
    signorini = max(
        (np.maximum(-u[:, 2], 0) / speed).max(),
        (np.maximum(-p[:, 2], 0) / force).max(),
        (np.abs(p[:, 2] * u[:, 2]) / (force * speed)).max(),
    )
    cone = (np.maximum(t - problem.mu * p[:, 2], 0) / force).max()
    power = np.sum(p[:, :2] * u[:, :2], axis=1) + problem.mu * p[:, 2] * slip
    return signorini, cone, (np.abs(power) / (force * speed)).max()


def table():
    """Return per solver the largest residuals and the mean number of iterations."""
    found = {}
    for name, solve in SOLVERS.items():
        rows = []
        for problem in problems():
            p, iterations = solve(problem)
            rows.append((*residuals(problem, p), iterations))
        values = np.array(rows)
        found[name] = (*values[:, :3].max(axis=0), values[:, 3].mean())
    return found


if __name__ == "__main__":
    for title, (signorini, cone, power, iterations) in table().items():
        columns = f"{signorini:.1e} | {cone:.1e} | {power:.1e} | {iterations:.0f}"
        sys.stdout.write(f"| {title} | {columns} |\n")
