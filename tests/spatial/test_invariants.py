"""Linear invariants of rotations and their rates."""

import numpy as np
import pytest

from tests.oracles.absolute import turn
from tests.tolerances import ALGEBRA, DIFFERENCE, DIFFERENCE_STEP, assert_close
from tiburon.spatial import linear_invariant_rates, linear_invariants, turn_error


def axis_of(rng):
    """Return a random unit vector."""
    a = rng.standard_normal(3)
    return a / np.linalg.norm(a)


def invariants(Q):
    """Return the four invariants as one array."""
    vector, scalar = linear_invariants(Q.tolist())
    return np.array([*vector, scalar])


@pytest.mark.parametrize("angle", [0.0, 1e-6, 0.3, 1.5, 2.0, 3.1, np.pi])
def test_invariants_are_axis_times_sine_and_cosine(angle):
    """By definition."""
    axis = axis_of(np.random.default_rng(1))
    expected = np.array([*np.sin(angle) * axis, np.cos(angle)])
    assert_close(invariants(turn(axis, angle)), expected)


def test_trap_b7_rates_of_linear_invariants_have_half_and_minus():
    """H omega is the rate of the invariants; the printed eq. 3.20b fails this by its factors."""
    rng = np.random.default_rng(2)
    h = DIFFERENCE_STEP
    for _ in range(20):
        Q, omega = turn(axis_of(rng), rng.uniform(-3.0, 3.0)), rng.standard_normal(3)
        length = np.linalg.norm(omega)
        after, before = (invariants(turn(omega / length, s * h * length) @ Q) for s in (1.0, -1.0))
        rate = (after - before) / (2.0 * h)
        H = np.array(linear_invariant_rates(Q.tolist()))
        assert_close(H @ omega, rate, DIFFERENCE)
        printed = np.vstack([np.trace(Q) * np.eye(3) - Q, invariants(Q)[None, :3]])
        assert np.abs(printed @ omega - rate).max() > 1e-3


def test_newton_step_and_gradient_of_the_invariants_are_both_vect():
    """The least-squares solution of H omega = f, and H^T f, are vect Q: what the solver uses."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        Q = turn(axis_of(rng), rng.uniform(-2.8, 2.8))
        H, f = np.array(linear_invariant_rates(Q.tolist())), invariants(Q)
        f[3] -= 1.0
        vector = invariants(Q)[:3]
        # singular values of H are 1 and cos(phi / 2), at least 0.17 here
        assert_close(np.linalg.lstsq(H, f, rcond=None)[0], vector)
        assert_close(H.T @ f, vector)


@pytest.mark.parametrize("angle", [1e-8, 0.7, 1.6, 3.0, np.pi])
def test_rotation_error_is_along_the_axis_up_to_half_a_turn(angle):
    """It never vanishes but at no turn, and its square is that of the chord."""
    axis = axis_of(np.random.default_rng(4))
    found, square = turn_error(turn(axis, angle).tolist())
    length = np.linalg.norm(found)
    expected = np.sin(angle) if np.cos(angle) >= 0.0 else 2.0 * np.sin(0.5 * angle)
    assert_close(length, expected)
    assert_close(np.cross(found, axis), np.zeros(3))
    assert_close(square, 4.0 * np.sin(0.5 * angle) ** 2, ALGEBRA)
