"""Impulses with friction to rounding: the laws themselves, on random problems."""

import numpy as np
import pytest

from tiburon.contact.coulomb import solve_coulomb
from tiburon.contact.pivoting import solve_pivoting
from tiburon.trace.primitives.friction import FrictionGaussSeidel


def problem(rng, friction, *, planar=False):
    count, columns = int(rng.integers(1, 6)), int(rng.integers(3, 10))
    A = rng.normal(size=(3 * count, columns))
    if planar:
        A[1::3] = 0.0
    return A @ A.T, A @ rng.normal(size=columns), rng.uniform(0.0, friction, count)


def natural_residual(W, b, mu, least, p):
    """The natural map, written again: impulses less those that a step r u projects onto cones."""
    r = 1.0 / np.diag(W).reshape(-1, 3).max(axis=1)
    z = p - r[:, None] * (W @ p.reshape(-1) + b).reshape(-1, 3)
    normal = np.maximum(z[:, 2], least)
    length = np.maximum(np.hypot(z[:, 0], z[:, 1]), 1e-300)
    tangential = z[:, :2] * np.minimum(1.0, mu * normal / length)[:, None]
    size = max((np.abs(b.reshape(-1, 3)).max(axis=1) * r).max(), least.max())
    return np.abs(p - np.column_stack([tangential, normal])).max() / size


def check_laws(W, b, mu, least, p):
    """Signorini, Coulomb and the direction of slip, each by itself."""
    u = (W @ p.reshape(-1) + b).reshape(-1, 3)
    size, speed = np.abs(p).max(initial=1e-300), np.abs(b).max()
    assert (p[:, 2] - least).min() >= -1e-10 * size
    assert u[:, 2].min() >= -1e-9 * speed
    assert np.abs((p[:, 2] - least) * u[:, 2]).max() <= 1e-9 * size * speed
    length, slip = np.hypot(*p[:, :2].T), np.hypot(*u[:, :2].T)
    assert (length - mu * p[:, 2]).max() <= 1e-10 * size
    # maximum dissipation: friction takes mu p_n |slip|
    taken = (p[:, :2] * u[:, :2]).sum(axis=1)
    np.testing.assert_allclose(taken, -mu * p[:, 2] * slip, atol=1e-9 * size * speed)


@pytest.mark.parametrize("planar", [False, True])
def test_laws_of_contact_hold(planar):
    """Compression and decompression with moderate friction."""
    rng = np.random.default_rng(12)
    for _ in range(40):
        W, b, mu = problem(rng, 1.0, planar=planar)
        none = np.zeros(len(mu))
        first = solve_coulomb(W, b, mu, none)
        assert first.residual < 1e-11
        check_laws(W, b, mu, none, first.p)
        least = (1.0 + rng.uniform(0.0, 1.0, len(mu))) * first.p[:, 2]
        second = solve_coulomb(W, b, mu, least, first.p)
        assert second.residual < 1e-11
        check_laws(W, b, mu, least, second.p)
        assert natural_residual(W, b, mu, least, second.p) == pytest.approx(second.residual)


def test_frictionless_solution_equals_the_normal_problem():
    """The same velocities as by pivoting, where impulses are not unique."""
    rng = np.random.default_rng(13)
    for _ in range(20):
        W, b, mu = problem(rng, 0.0)
        found = solve_coulomb(W, b, mu, np.zeros(len(mu)))
        exact = solve_pivoting(W[2::3, 2::3], b[2::3])
        np.testing.assert_allclose(
            W[2::3] @ found.p.reshape(-1) + b[2::3], exact.accelerations, atol=1e-10
        )


def test_open_contacts_are_ignored():
    """A normal velocity of 1e9 m/s marks them; the others are solved as if alone."""
    rng = np.random.default_rng(14)
    A = rng.normal(size=(9, 8))
    W, b = A @ A.T, A @ rng.normal(size=8)
    far = b.copy()
    far[5] = 1e9
    found = solve_coulomb(W, far, np.full(3, 0.4), np.zeros(3))
    near = [0, 1, 2, 6, 7, 8]
    alone = solve_coulomb(W[np.ix_(near, near)], b[near], np.full(2, 0.4), np.zeros(2))
    np.testing.assert_array_equal(found.p[1], 0.0)
    np.testing.assert_allclose(found.p[[0, 2]], alone.p, atol=1e-12)


def test_unsolved_problems_are_flagged():
    """The residual of wrong impulses is that of the laws, with the contact."""
    W, b = np.eye(6), np.array([0.0, 0.0, -1.0, 1.0, 0.0, -2.0])
    mu, none = np.array([0.0, 0.5]), np.zeros(2)
    right = solve_coulomb(W, b, mu, none)
    np.testing.assert_allclose(right.p, [[0, 0, 1], [-1, 0, 2]], atol=1e-13)
    assert natural_residual(W, b, mu, none, np.zeros((2, 3))) == pytest.approx(1.0)


def test_sweeps_over_contacts_find_the_same_velocities():
    """Gauss-Seidel and Newton's method, two solvers that share no code."""
    rng = np.random.default_rng(15)
    count, columns = 4, 9
    supports = [list(range(columns))] * count
    solver = FrictionGaussSeidel(columns, supports, 5000)
    for _ in range(12):
        A = rng.normal(size=(3 * count, columns))
        b, mu = A @ rng.normal(size=columns), rng.uniform(0.0, 0.6, count)
        least = np.where(rng.random(count) < 0.5, 0.3, 0.0)
        found = solver.apply([*A.reshape(-1), *b, *mu, *least, *[0.0] * (3 * count), 1e-12])
        swept = np.array(found[: 3 * count], dtype=float)
        exact = solve_coulomb(A @ A.T, b, mu, least)
        assert exact.residual < 1e-11
        np.testing.assert_allclose(A @ A.T @ swept, A @ A.T @ exact.p.reshape(-1), atol=1e-9)
