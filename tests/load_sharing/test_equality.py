"""Quadratic programs with equations alone: four methods agree; singular partitions are found."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.load_sharing.equality import (
    DirectSubstitution,
    EqualitySolution,
    partition_of,
    solve_by_inversion,
    solve_orthogonally,
    solve_with_multipliers,
    substituted,
)
from tiburon.reproduce.nahon_problems import walker_problem


def solve_by_substitution(W, c, A1, b1):
    """The program that `DirectSubstitution` compiles, on floats."""
    rows = [[{k: float(x) for k, x in enumerate(row) if x} for row in A] for A in (W, A1)]
    values, _ = substituted(rows[0], list(c), rows[1], list(b1), partition_of(A1))
    x = np.array(values)
    return EqualitySolution(x, np.linalg.lstsq(A1.T, W @ x + c, rcond=None)[0])


METHODS = (solve_by_inversion, solve_orthogonally, solve_with_multipliers, solve_by_substitution)

AGREES = 1e-10
"""Difference of the methods relative to the largest unknown: rounding at condition numbers of the
equations up to some hundreds."""


def spd(rng, n):
    G = rng.standard_normal((n, n))
    return G @ G.T + 0.5 * np.eye(n)


@pytest.mark.parametrize("general", [False, True])
def test_methods_agree_on_the_walker(general):
    """E8: 9 equations, 12 unknowns, diagonal and general weights."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        A1, b1 = walker_problem(feet=rng.uniform(-1.5, 1.5, 3), load=rng.uniform(-1, 1))
        assert A1.shape == (9, 12)
        W = spd(rng, 12) if general else np.diag(rng.uniform(0.5, 2.0, 12))
        c = rng.standard_normal(12) if general else np.zeros(12)
        first = solve_orthogonally(W, c, A1, b1)
        size = np.abs(first.x).max()
        for method in METHODS:
            found = method(W, c, A1, b1)
            np.testing.assert_allclose(found.x, first.x, rtol=0, atol=AGREES * size)
            np.testing.assert_allclose(A1 @ found.x, b1, atol=AGREES * size)
            gradient = W @ found.x + c
            np.testing.assert_allclose(A1.T @ found.multipliers, gradient, atol=1e-9 * size)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 1), (8, 5), (12, 12), (36, 24)])
def test_methods_agree_on_random_problems(n, m):
    rng = np.random.default_rng(n)
    W, c, A1 = spd(rng, n), rng.standard_normal(n), rng.standard_normal((m, n))
    b1 = rng.standard_normal(m)
    expected = solve_with_multipliers(W, c, A1, b1)
    for method in METHODS:
        found = method(W, c, A1, b1)
        np.testing.assert_allclose(found.x, expected.x, atol=1e-9 * np.abs(expected.x).max())


def test_methods_agree_with_shared_loads():
    """The superposition formulation of a hand: weights of its objective, equations alone."""
    hand = tb.load("three_finger_hand")
    q = np.array(hand.poses["home"])
    plan = tb.LoadSharing.of(
        hand, torque_limits=False, objective=tb.InternalForce() + 5.0 * tb.TorqueNorm()
    )
    vd = np.random.default_rng(3).standard_normal(hand.nv)
    problem = plan.problem(q, vd=vd)
    share = plan.share(q, vd=vd)
    for method in METHODS:
        found = method(problem.W, problem.c, problem.A1, problem.b1)
        np.testing.assert_allclose(found.x, share.x, atol=AGREES * np.abs(share.x).max())
        np.testing.assert_allclose(
            found.multipliers, share.equation_multipliers, atol=1e-9 * np.abs(share.x).max()
        )


def samples(rng, count=4):
    """Walkers with other feet and loads: the structure of their equations."""
    return [
        walker_problem(feet=np.array([1.0, 0.0, -1.0]) + rng.uniform(-0.3, 0.3, 3), load=0.3 * k)
        for k in range(count)
    ]


def test_code_of_a_structure_solves_its_problems():
    """Constants of the topology are folded: fewer operations than for a full matrix."""
    rng = np.random.default_rng(2)
    rows = np.array([A for A, _ in samples(rng)])
    solver = DirectSubstitution.of(np.eye(12), rows)
    A1, b1 = walker_problem(feet=(1.2, 0.1, -0.7), load=0.4)
    W, c = np.eye(12), np.zeros(12)
    found = solver.solve(W, c, A1, b1)
    expected = solve_orthogonally(W, c, A1, b1)
    size = np.abs(expected.x).max()
    np.testing.assert_allclose(found.solution.x, expected.x, rtol=0, atol=AGREES * size)
    assert found.least_pivot > 1e-3
    full = DirectSubstitution.of(spd(rng, 12), rng.standard_normal((9, 12)), partitions=1)
    assert solver.counts[0].multiplications < 0.5 * full.counts[0].multiplications


def test_singular_partitions_are_found_and_changed():
    """E8: vertical forces of feet 1 and 3 as determined unknowns fail where those feet coincide."""
    rng = np.random.default_rng(5)
    apart = np.array([A for A, _ in samples(rng)])
    solver = DirectSubstitution.of(np.eye(12), apart, partitions=6)
    A1, b1 = walker_problem(feet=(0.4, -0.6, 0.4), load=0.2)
    # the partition with both feet's forces among the determined unknowns is singular there
    names = ["f1x", "f1y", "f2x", "f2y", "f3x", "f3y"]
    feet = [names.index(name) for name in ("f1y", "f3y")]
    first = partition_of(apart[0], [names.index(name) for name in ("f2x", "f2y", "f3x")])
    assert set(feet) <= set(first.determined)
    alone = DirectSubstitution(solver.W, solver.A1, (first,))
    with pytest.raises(tb.DomainError, match="least relative pivot"):
        alone.solve(np.eye(12), np.zeros(12), A1, b1)
    both = DirectSubstitution(solver.W, solver.A1, (first, *solver.partitions))
    found = both.solve(np.eye(12), np.zeros(12), A1, b1)
    assert found.tried > 1
    assert found.partition != first
    expected = solve_with_multipliers(np.eye(12), np.zeros(12), A1, b1)
    np.testing.assert_allclose(
        found.solution.x, expected.x, rtol=0, atol=AGREES * np.abs(expected.x).max()
    )


def test_invalid_data_are_refused():
    """Shapes, definiteness, dependence, another structure."""
    A1, b1 = walker_problem()
    with pytest.raises(tb.ShapeError, match="W"):
        solve_by_inversion(np.eye(3), np.zeros(12), A1, b1)
    with pytest.raises(tb.DomainError, match="positive definite"):
        solve_orthogonally(-np.eye(12), np.zeros(12), A1, b1)
    with pytest.raises(tb.DomainError, match="rank 1 of 2"):
        DirectSubstitution.of(np.eye(3), np.ones((2, 3)))
    with pytest.raises(tb.DomainError, match="finite"):
        solve_with_multipliers(np.eye(12) * np.nan, np.zeros(12), A1, b1)
    solver = DirectSubstitution.of(np.eye(12), A1)
    with pytest.raises(tb.DomainError, match=r"A1\[0, 1\]"):
        solver.solve(np.eye(12), np.zeros(12), A1 + 1.0, b1)
