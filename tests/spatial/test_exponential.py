"""Exponential and logarithm of rotations, and the left Jacobian, at and away from zero."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spatial.dense import assert_close, exponential, random_rotation, skew
from tiburon.spatial import (
    left_jacobian_inverse_product,
    left_jacobian_product,
    matrix_to_rotation_vector,
    quaternion_exp,
    quaternion_log,
    quaternion_to_matrix,
    rotation_vector_to_matrix,
)

AXIS = np.array([2.0, -3.0, 6.0]) / 7.0

# both sides of the switch at theta^2 = 1e-4, tiny, zero, half turn, beyond
ANGLES = [0.0, 1e-300, 1e-20, 1e-8, 1e-4, 0.00999999, 0.01000001, 0.1, 1.0, 3.0, np.pi, 4.0, 6.0]


@pytest.mark.parametrize("angle", ANGLES)
def test_quaternion_exp_is_exact_at_any_angle(angle):
    """(cos(theta/2), axis sin(theta/2)) in 40 digits, to a few units in the last place."""
    phi = AXIS * angle
    with mpmath.workdps(40):
        theta = mpmath.norm([mpmath.mpf(float(x)) for x in phi])
        k = mpmath.sin(theta / 2) / theta if theta else mpmath.mpf(0.5)
        expected = [mpmath.cos(theta / 2), *(k * mpmath.mpf(float(x)) for x in phi)]
    for x, y in zip(quaternion_exp(phi), expected, strict=True):
        # the angle is rebuilt by a square root: a few roundings of it
        assert float(x) == pytest.approx(float(y), rel=4e-16, abs=2e-16 * angle)


@pytest.mark.parametrize("angle", ANGLES)
def test_rotation_matrix_equals_the_matrix_exponential(angle):
    """R = exp(phi x)."""
    assert_close(rotation_vector_to_matrix(AXIS * angle), exponential(skew(AXIS * angle)), 1e-13)


@pytest.mark.parametrize("angle", [a for a in ANGLES if a < np.pi])
@pytest.mark.parametrize("length", [1.0, -0.7, 3.0])
def test_quaternion_log_inverts_exp_for_any_norm_and_sign(angle, length):
    """Quaternions of any length and either sign give back the rotation vector."""
    q = [length * x for x in quaternion_exp(AXIS * angle)]
    found = np.array(quaternion_log(q))
    np.testing.assert_allclose(found, AXIS * angle, rtol=2e-15, atol=1e-307)


def test_log_of_a_half_turn_and_beyond():
    """At pi either sign of the axis is right; beyond, the shorter way round is taken."""
    half = np.array(matrix_to_rotation_vector(rotation_vector_to_matrix(AXIS * np.pi)))
    assert np.linalg.norm(half) == pytest.approx(np.pi, abs=1e-14)
    assert abs(half @ AXIS) == pytest.approx(np.pi, abs=1e-14)
    beyond = matrix_to_rotation_vector(rotation_vector_to_matrix(AXIS * 4.0))
    assert_close(beyond, AXIS * (4.0 - 2 * np.pi), 1e-14)


def test_log_of_random_matrices():
    """exp(log(R)) = R for rotations far from the identity, and log(1) = 0 exactly."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        R = random_rotation(rng)
        assert_close(rotation_vector_to_matrix(matrix_to_rotation_vector(R)), R, 1e-14)
    assert_close(matrix_to_rotation_vector(np.eye(3)), np.zeros(3), 0.0)


@pytest.mark.parametrize("angle", ANGLES)
def test_left_jacobian_equals_the_integral_of_the_rotation(angle):
    """V = integral of exp(t phi x) over t in 0..1, as the block of a matrix exponential."""
    phi, a = AXIS * angle, np.array([0.3, -1.2, 0.5])
    block = np.zeros((4, 4))
    block[:3, :3], block[:3, 3] = skew(phi), a
    expected = exponential(block)[:3, 3]
    assert_close(left_jacobian_product(phi, a), expected, 1e-13)
    assert_close(left_jacobian_product(phi, a), expected, 1e-13)


@pytest.mark.parametrize("angle", [a for a in ANGLES if a < 6.1])
def test_left_jacobian_inverse_is_its_inverse(angle):
    """V^-1 V a = a for angles below a full turn."""
    phi, a = AXIS * angle, np.array([0.3, -1.2, 0.5])
    back = left_jacobian_inverse_product(phi, left_jacobian_product(phi, a))
    # near a full turn V loses rank: at 6 rad its condition number is about 20
    assert_close(back, a, 1e-13)


@given(st.floats(-4.0, -1.0))
def test_both_sides_of_the_switch_agree(exponent):
    """Closed form and series join smoothly: neighbors in angle stay neighbors in value."""
    angle = 10.0**exponent
    below, above = (np.array(quaternion_exp(AXIS * a)) for a in (angle, angle * (1 + 1e-12)))
    assert np.abs(above - below).max() <= angle * 1e-12 + 4e-16


def test_derivative_at_zero_is_finite_and_right():
    """d/dphi of exp at zero is 1/2 on the vector part, by differences across zero."""
    h = 1e-6
    for k in range(3):
        e = np.eye(3)[k] * h
        slope = (np.array(quaternion_exp(e)) - np.array(quaternion_exp(-e))) / (2 * h)
        expected = np.concatenate([[0.0], 0.5 * np.eye(3)[k]])
        # odd in phi: truncation h^2 / 24, rounding 1e-16
        assert_close(slope, expected, 1e-12)
    assert_close(quaternion_to_matrix(quaternion_exp((0.0, 0.0, 0.0))), np.eye(3), 0.0)
