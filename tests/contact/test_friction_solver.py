"""Impulses of contacts with friction: the conditions themselves, on random problems."""

import numpy as np
import pytest

from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.friction import FrictionGaussSeidel
from tiburon.trace.program import Input, trace

TOLERANCE = 1e-12


class Problem:
    """Rows over supports of different lengths, velocities, friction and least impulses."""

    def __init__(self, seed: int, contacts: int, columns: int, *, planar: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self.contacts, self.columns = contacts, columns
        self.supports = [
            sorted(rng.choice(columns, size=rng.integers(3, columns + 1), replace=False).tolist())
            for _ in range(contacts)
        ]
        self.A = np.zeros((3 * contacts, columns))
        for k, support in enumerate(self.supports):
            self.A[3 * k : 3 * k + 3, support] = rng.normal(size=(3, len(support)))
            if planar:
                # no motion across a plane: a singular block
                self.A[3 * k + 1] = 0.0
        self.b = self.A @ rng.normal(size=columns) + 0.1 * rng.normal(size=3 * contacts)
        if planar:
            self.b[1::3] = 0.0
        self.mu = rng.uniform(0.1, 0.8, size=contacts)
        self.least = np.zeros(contacts)
        self.start = np.zeros(3 * contacts)

    @property
    def primitive(self) -> FrictionGaussSeidel:
        return FrictionGaussSeidel(self.columns, self.supports, 20000)

    @property
    def arguments(self) -> list[float]:
        rows = [
            self.A[3 * k + axis, support].tolist()
            for k, support in enumerate(self.supports)
            for axis in range(3)
        ]
        flat = [x for row in rows for x in row]
        return [*flat, *self.b, *self.mu, *self.least, *self.start, TOLERANCE]

    def solve(self) -> tuple[np.ndarray, np.ndarray, list[float]]:
        found = self.primitive.apply(self.arguments)
        n = 3 * self.contacts
        p = np.array(found[:n])
        return p, self.A @ (self.A.T @ p) + self.b, found

    def violation(self, p: np.ndarray, u: np.ndarray) -> float:
        """Return the largest violation of Signorini's condition and Coulomb's law."""
        p, u = p.reshape(-1, 3), u.reshape(-1, 3)
        t, n, ut, un = p[:, :2], p[:, 2] - self.least, u[:, :2], u[:, 2]
        size = np.linalg.norm(t, axis=1)
        limit = self.mu * p[:, 2]
        # against the slip, with the full force of the cone; zero slip inside it
        power = np.sum(t * ut, axis=1) + limit * np.linalg.norm(ut, axis=1)
        terms = [np.maximum(-n, 0), np.maximum(-un, 0), n * un, np.maximum(size - limit, 0), power]
        return float(np.abs(terms).max() / max(np.abs(p).max(), 1.0))


@pytest.mark.parametrize("seed", range(12))
def test_laws_of_contact_hold(seed):
    problem = Problem(seed, contacts=2 + seed % 5, columns=18)
    p, u, found = problem.solve()
    assert p.any()
    assert problem.violation(p, u) < 1e-9
    assert found[-3] <= TOLERANCE


@pytest.mark.parametrize("seed", range(4))
def test_more_rows_than_velocities(seed):
    # impulses are not unique, velocities are: the laws hold all the same
    problem = Problem(seed, contacts=8, columns=6)
    p, u, _ = problem.solve()
    assert problem.violation(p, u) < 1e-8


@pytest.mark.parametrize("seed", range(4))
def test_planar_robots_have_singular_blocks(seed):
    problem = Problem(seed, contacts=3, columns=9, planar=True)
    p, u, _ = problem.solve()
    assert np.abs(p[1::3]).max() < 1e-9
    assert problem.violation(p, u) < 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_least_normal_impulses_are_kept(seed):
    problem = Problem(seed, contacts=3, columns=12)
    p, _, _ = problem.solve()
    problem.least = 1.5 * p[2::3]
    more, u, _ = problem.solve()
    assert (more[2::3] >= problem.least - 1e-12).all()
    assert problem.violation(more, u) < 1e-9


def test_frictionless_solution_is_that_of_a_linear_complementarity_problem():
    problem = Problem(3, contacts=4, columns=18)
    problem.mu[:] = 0.0
    p, _, _ = problem.solve()
    n = slice(2, None, 3)
    G, b = (problem.A @ problem.A.T)[n, n], problem.b[n]
    found = None
    # brute force: all sets of contacts that close
    for pattern in range(16):
        closed = [k for k in range(4) if pattern >> k & 1]
        trial = np.zeros(4)
        if closed:
            trial[closed] = np.linalg.solve(G[np.ix_(closed, closed)], -b[closed])
        if (trial >= 0).all() and (G @ trial + b >= -1e-12).all():
            found = trial
    assert found is not None
    np.testing.assert_allclose(p[n], found, atol=1e-10)
    assert not p[0::3].any()
    assert not p[1::3].any()


def test_one_case_and_many_have_the_same_bits():
    problems = [Problem(seed, contacts=3, columns=7) for seed in range(13)]
    # code depends on the supports: take those of the first
    for problem in problems[1:]:
        problem.supports = problems[0].supports
        rows = np.zeros_like(problem.A)
        for k, support in enumerate(problem.supports):
            rows[3 * k : 3 * k + 3, support] = problem.A[3 * k : 3 * k + 3, : len(support)]
        problem.A = rows
    primitive, width = problems[0].primitive, len(problems[0].arguments)
    program = trace(lambda x: as_traced(primitive.apply(list(x))), [Input("x", (width,))])
    kernel = make_kernel(ProgramSource(program), {})
    arguments = np.array([problem.arguments for problem in problems])
    many = kernel(arguments)
    for row, one in zip(arguments, many, strict=True):
        assert np.array_equal(kernel(row), one)
    for problem, one in zip(problems, many, strict=True):
        p = one[: 3 * problem.contacts]
        assert problem.violation(p, problem.A @ (problem.A.T @ p) + problem.b) < 1e-9


def test_warm_start_reduces_the_iterations():
    problem = Problem(5, contacts=4, columns=18)
    p, _, cold = problem.solve()
    problem.start = p
    again, _, warm = problem.solve()
    assert warm[-2] < cold[-2]
    np.testing.assert_allclose(again, p, atol=1e-10)
