"""Newton's method for contact impulses: projection, elimination, stacks and mass ratios."""

import numpy as np
import pytest

from tests.contact.solver_residuals import SOLVERS, problems, residuals
from tests.contact.test_friction_solver import Problem
from tiburon.trace.primitives import friction
from tiburon.trace.primitives.friction import FrictionGaussSeidel
from tiburon.trace.primitives.friction_newton import project
from tiburon.trace.primitives.friction_semismooth import natural_map
from tiburon.trace.primitives.primitive import DirectMachine
from tiburon.trace.primitives.sparse_system import elimination


def nearest(x, mu, least):
    """Return the nearest point of K by a fine search over angles of the cone's section."""
    T = np.hypot(x[0], x[1])
    direction = np.array(x[:2]) / T if T else np.zeros(2)
    n = np.linspace(max(least, 0.0), max(least, 0.0) + 20.0, 400001)
    t = np.minimum(T, mu * n)
    best = np.argmin((t - T) ** 2 + (n - x[2]) ** 2)
    return np.array([*(t[best] * direction), n[best]])


@pytest.mark.parametrize("mu", [0.3, 1.4])
@pytest.mark.parametrize("least", [0.0, 0.7])
def test_projection_is_the_nearest_point(mu, least):
    """All parts of the cone, its polar cone and the disc at the least impulse."""
    rng = np.random.default_rng(1)
    kinds = set()
    for scale in (1.0, 1.0, 0.05) * 6:
        x = rng.normal(size=3) * (scale, scale, 1.0)
        found = project(DirectMachine(), list(x), mu, least)
        np.testing.assert_allclose(found.value, nearest(x, mu, least), atol=1e-4)
        kinds.add((found.normal == 0.0, found.mixed > 0.0, found.across == 1.0))
    assert len(kinds) >= 3


def test_derivative_of_the_projection_equals_differences():
    """Along and across the tangent, normal, and the symmetric part between them."""
    rng = np.random.default_rng(2)
    m = DirectMachine()
    for least in (0.0, 0.5):
        for _ in range(10):
            x = rng.normal(size=3)
            found = project(m, list(x), 0.6, least)
            t = np.array([*found.t, 0.0])
            s = np.array([-t[1], t[0], 0.0])
            n = np.array([0.0, 0.0, 1.0])
            D = (
                found.along * np.outer(t, t)
                + found.across * np.outer(s, s)
                + found.normal * np.outer(n, n)
                + found.mixed * (np.outer(t, n) + np.outer(n, t))
            )
            for direction in rng.normal(size=(3, 3)):
                sides = [
                    np.array(project(m, list(x + e * direction), 0.6, least).value)
                    for e in (1e-6, -1e-6)
                ]
                np.testing.assert_allclose(D @ direction, (sides[0] - sides[1]) / 2e-6, atol=1e-7)


def test_derivative_of_the_natural_map_equals_differences():
    """Of points that stick, slide and open; the normal impulse does not depend on the slip."""
    rng = np.random.default_rng(3)
    m = DirectMachine()
    kinds = set()
    for least in (0.0, 0.5, -1e30):
        for mu in (0.6, 0.0):
            for _ in range(10):
                x = rng.normal(size=3)
                found = natural_map(m, list(x), mu, least)
                t = np.array([*found.t, 0.0])
                s = np.array([-t[1], t[0], 0.0])
                n = np.array([0.0, 0.0, 1.0])
                across = np.diag([1.0, 1.0, 0.0]) if found.along else np.outer(s, s)
                D = found.across * across + found.normal * np.outer(n, n)
                D += found.mixed * np.outer(t, n)
                kinds.add((found.along, found.normal, found.mixed > 0.0))
                for direction in rng.normal(size=(3, 3)):
                    sides = [
                        np.array(natural_map(m, list(x + e * direction), mu, least).value)
                        for e in (1e-6, -1e-6)
                    ]
                    slope = (sides[0] - sides[1]) / 2e-6
                    np.testing.assert_allclose(D @ direction, slope, atol=1e-7)
    assert len(kinds) >= 4


def test_paths_to_the_root_are_eliminated_without_new_entries():
    """A base with four legs: leaves first, and no entry beyond those of the supports."""
    supports = [[*range(6), *range(6 + 3 * k, 9 + 3 * k)] for k in range(4)]
    order, after = elimination(18, supports)
    assert set(order[:12]) == set(range(6, 18))
    pairs = {(order[k], order[i]) for k, later in enumerate(after) for i in later}
    allowed = {(a, b) for support in supports for a in support for b in support}
    assert pairs <= allowed


@pytest.mark.parametrize("seed", [0, 3, 8, 13])
def test_solvers_agree(seed):
    """Sweeps and Newton's method find the same impulses; the convex law other ones that slide."""
    problem = problems()[seed]
    solutions = [solve(problem)[0] for solve in SOLVERS.values()]
    largest = np.abs(solutions[0]).max()
    for p in solutions[1:3]:
        np.testing.assert_allclose(p, solutions[0], atol=1e-6 * largest)
    signorini, cone, power = residuals(problem, solutions[3])
    assert cone < 1e-12
    assert power < 1e-7
    slides = np.abs(residuals(problem, solutions[0])[0] - signorini) > 1e-3
    assert slides == (np.abs(solutions[3] - solutions[0]).max() > 1e-3 * largest)


def stack(boxes: int, ratio: float) -> Problem:
    """Return four corners between each two of a stack of cubes that falls onto the ground."""
    problem = Problem(0, contacts=4 * boxes, columns=6 * boxes)
    problem.supports, rows, b = [], [], []
    masses = ratio ** (np.arange(boxes) / max(boxes - 1, 1))
    half, h = 0.1, 1e-3
    for upper in range(boxes):
        for corner in [(x, y) for x in (half, -half) for y in (half, -half)]:
            bodies = [upper - 1, upper] if upper else [upper]
            problem.supports.append([6 * k + i for k in bodies for i in range(6)])
            for axis in np.eye(3):
                row = np.zeros(6 * boxes)
                for k in bodies:
                    sign = 1.0 if k == upper else -1.0
                    arm = (*corner, -half if k == upper else half)
                    inertia = masses[k] * (2 * half) ** 2 / 6
                    row[6 * k : 6 * k + 3] = sign * np.cross(arm, axis) / np.sqrt(inertia)
                    row[6 * k + 3 : 6 * k + 6] = sign * axis / np.sqrt(masses[k])
                rows.append(row)
            # all fall alike: only the lowest meets something that does not
            b += [0.0, 0.0, 0.0 if upper else -9.81 * h]
    problem.A, problem.b = np.array(rows), np.array(b)
    problem.mu, problem.least = np.full(4 * boxes, 0.8), np.zeros(4 * boxes)
    problem.start = np.zeros(12 * boxes)
    return problem


@pytest.mark.parametrize(("boxes", "ratio"), [(4, 1.0), (3, 1e4), (3, 1e-4)])
def test_stacks_are_held_at_any_mass_ratio(boxes, ratio, monkeypatch):
    """Also where sweeps alone are far from a solution: many boxes, light ones below heavy ones."""
    problem = stack(boxes, ratio)
    arguments = [*problem.arguments[:-1], 1e-8]
    solver = FrictionGaussSeidel(problem.columns, problem.supports, 60)
    found = solver.apply(arguments)
    p = np.array(found[: 3 * problem.contacts])
    u = problem.A @ (problem.A.T @ p) + problem.b
    assert found[-3] <= 1e-8
    # everything stands still to what the residual allows, and the lowest corners carry all
    masses = ratio ** (np.arange(boxes) / (boxes - 1))
    assert np.abs(u).max() < 1e-8 * np.abs(p).max() * 10.0 / masses.min()
    assert p[2:12:3].sum() == pytest.approx(9.81e-3 * masses.sum(), rel=1e-6)
    if ratio < 1.0:
        return
    monkeypatch.setattr(friction, "MOST_COLUMNS", 0)
    assert solver.apply(arguments)[-3] > 1e-5


def test_impulses_of_a_body_between_two_walls_end_once_they_are_within_the_tolerance():
    """Nothing determines them: without an end they would grow by the same in each step."""
    supports, overlap = [[0, 1, 2]] * 2, 4e-11
    rows = [*np.eye(3).ravel(), *np.eye(3).ravel()]
    rows[-1] = -1.0
    b = [0.0, 0.0, -0.5 * overlap] * 2
    start = [0.0, 0.0, 1.0] * 2
    given = [*rows, *b, 0.5, 0.5, 0.0, 0.0, *start, 1e-8]
    found = FrictionGaussSeidel(3, supports, 60).apply(given)
    assert 1e-12 < found[-3] <= 1e-8
    assert 1 <= found[-2] <= 3
    np.testing.assert_allclose(found[:6], start, atol=0.02)
