"""Modes of contacts with friction: enumeration against Gauss-Seidel, and centered forces."""

import numpy as np
import pytest

from tiburon.contact.modes import (
    BREAKING,
    SLIDING,
    STICKING,
    ContactProblem,
    centered_forces,
    solve_modes,
)
from tiburon.contact.rigid import Compliance, solve_impulses


def gauss_seidel(A, d, mu):
    """Forces of contacts at rest: the problem of one impact, with accelerations for velocities."""
    rows = [dict(enumerate(row)) for row in A.tolist()]
    compliance = Compliance(rows, tuple, A.shape[1])
    none = [0.0] * len(mu)
    start = [0.0] * len(d)
    found = solve_impulses(compliance, d.tolist(), mu.tolist(), none, start, tolerance=1e-13)
    return np.array([float(x) for x in found.p]).reshape(-1, 3)


def random_problem(seed):
    """Two contacts at rest, pulled along the surface more or less."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(6, 9)) * np.array([0.3, 0.3, 1.0, 0.3, 0.3, 1.0])[:, None]
    d = rng.normal(size=6) * np.array([1, 1, 2, 1, 1, 2])
    d[[0, 1, 3, 4]] *= 10.0 ** rng.uniform(-3, 0)
    return A, d, rng.uniform(0.3, 0.9, size=2)


@pytest.mark.parametrize("seed", range(10))
def test_forces_of_contacts_at_rest_are_those_of_gauss_seidel(seed):
    """Whether contacts break, stick or begin to slide; with the guess and without."""
    A, d, mu = random_problem(seed)
    expected = gauss_seidel(A, d, mu)
    problem = ContactProblem(A @ A.T, d, np.zeros((2, 2)), mu, mu)
    for guess in (expected, np.zeros((2, 3))):
        answers = solve_modes(problem, guess)
        assert len(answers.found) == 1
        np.testing.assert_allclose(answers.found[0].f, expected, atol=1e-9)


def test_random_problems_cover_every_mode():
    """The random problems above break, stick and slide."""
    seen = set()
    for seed in range(10):
        A, d, mu = random_problem(seed)
        problem = ContactProblem(A @ A.T, d, np.zeros((2, 2)), mu, mu)
        seen |= set(solve_modes(problem, np.zeros((2, 3))).found[0].modes)
    assert seen == {BREAKING, STICKING, SLIDING}


def test_a_soft_tangent_has_its_direction_of_incipient_slip():
    """Compliance differs a hundredfold between tangents, static from kinetic friction: one foot."""
    G = np.diag([1.0, 100.0, 2.0])
    d = np.array([0.9, 5.0, -2.0])
    mu_s, mu_k = np.array([0.4]), np.array([0.3])
    found = solve_modes(ContactProblem(G, d, np.zeros((1, 2)), mu_s, mu_k), np.zeros((1, 3))).found
    assert [one.modes for one in found] == [(SLIDING,)]
    f, a = found[0].f[0], found[0].a[0]
    assert abs(np.hypot(*f[:2]) - 0.3 * f[2]) < 1e-12
    # friction is exactly against the acceleration
    assert abs(f[0] * a[1] - f[1] * a[0]) < 1e-9
    assert f[:2] @ a[:2] < 0.0


def test_centered_forces_keep_accelerations_and_friction_margin():
    """A block on four corners: forces of least norm leave the cone of the upper ones."""
    corners = np.array([[x, y, -0.1] for x in (-0.2, 0.2) for y in (-0.15, 0.15)])
    rows = []
    for r in corners:
        cross = np.array([[0, -r[2], r[1]], [r[2], 0, -r[0]], [-r[1], r[0], 0]])
        for axis in np.eye(3):
            rows.append(np.concatenate([axis, cross.T @ axis * 4.0]))
    A = np.array(rows)
    angle = 0.95 * np.arctan(0.4)
    pull = 9.81 * np.array([np.sin(angle), 0, -np.cos(angle)])
    d = np.tile(pull, 4)
    mu = np.full(4, 0.4)
    problem = ContactProblem(A @ A.T, d, np.zeros((4, 2)), mu, mu)
    least = -np.linalg.pinv(A @ A.T) @ d
    usage = np.hypot(*least.reshape(4, 3)[:, :2].T) / (mu * least.reshape(4, 3)[:, 2])
    assert usage.max() > 1.0
    f = centered_forces(problem, (STICKING,) * 4, least.reshape(4, 3), 0.5)
    assert np.abs(A.T @ (f.reshape(-1) - least)).max() < 1e-12 * np.abs(least).max()
    assert (np.hypot(*f[:, :2].T) / (mu * f[:, 2])).max() < 0.999
