"""Rotation matrices, quaternions, axis-angle and roll-pitch-yaw."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spatial.dense import assert_close, exponential, passive, random_rotation, skew
from tiburon.errors import ShapeError
from tiburon.spatial import (
    axis_angle_to_matrix,
    axis_angle_to_quaternion,
    axis_rotation_matrix,
    matrix_to_quaternion,
    quaternion_conjugate,
    quaternion_multiply,
    quaternion_normalize,
    quaternion_rate,
    quaternion_rotate,
    quaternion_to_matrix,
    quaternion_to_roll_pitch_yaw,
    roll_pitch_yaw_to_quaternion,
)

coordinates = st.floats(-1.0, 1.0, allow_subnormal=False)
quaternions = st.tuples(coordinates, coordinates, coordinates, coordinates).filter(
    lambda q: np.linalg.norm(q) > 0.1
)
angles = st.floats(-3.1, 3.1)


def reference_matrix(q):
    """Return 1 + 2 w (u x) + 2 (u x)^2 for the unit quaternion (w, u)."""
    w, *u = np.array(q) / np.linalg.norm(q)
    return np.eye(3) + 2 * w * skew(u) + 2 * skew(u) @ skew(u)


@given(quaternions)
def test_quaternion_to_matrix_ignores_the_length(q):
    """Any multiple of a quaternion gives the same rotation, by the usual formula."""
    R = np.array(quaternion_to_matrix(q))
    assert_close(R, reference_matrix(q))
    assert_close(R @ R.T, np.eye(3))
    assert_close(quaternion_to_matrix([-2.5 * x for x in q]), R)


def test_matrix_is_body_to_world():
    """A quarter turn about z takes the body's x axis to the world's y axis."""
    half = np.sqrt(0.5)
    assert_close(quaternion_rotate((half, 0, 0, half), (1, 0, 0)), [0, 1, 0])
    assert_close(axis_rotation_matrix(2, np.pi / 2), [[0, -1, 0], [1, 0, 0], [0, 0, 1]])


@given(quaternions)
def test_matrix_to_quaternion_inverts_quaternion_to_matrix(q):
    """Up to length and sign; the result has unit length and w >= 0."""
    unit = np.array(quaternion_normalize(q))
    found = np.array(matrix_to_quaternion(quaternion_to_matrix(q)))
    assert found[0] >= 0.0
    assert np.linalg.norm(found) == pytest.approx(1.0, abs=1e-14)
    assert abs(found @ unit) == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("axis", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.6, 0.0, -0.8)])
def test_half_turns_have_quaternions(axis):
    """At half turns w = 0 and the three other formulas take over."""
    q = np.array(matrix_to_quaternion(axis_angle_to_matrix(axis, np.pi)))
    assert_close(q[0], 0.0)
    assert abs(q[1:] @ axis) == pytest.approx(1.0, abs=1e-14)


@given(quaternions, quaternions)
def test_products_of_quaternions_are_products_of_matrices(p, q):
    """R(p q) = R(p) R(q), and the conjugate is the inverse."""
    product = quaternion_multiply(p, q)
    assert_close(
        quaternion_to_matrix(product),
        np.array(quaternion_to_matrix(p)) @ np.array(quaternion_to_matrix(q)),
    )
    assert_close(
        quaternion_to_matrix(quaternion_conjugate(p)), np.transpose(quaternion_to_matrix(p))
    )


@given(quaternions, angles)
def test_axis_angle_by_matrix_and_by_quaternion(q, angle):
    """Rodrigues' formula, the half-angle quaternion and the matrix exponential agree."""
    axis = np.array(q[1:]) + np.array([0.3, -0.2, 0.1])
    if np.linalg.norm(axis) < 1e-3:
        axis = np.array([1.0, 0.0, 0.0])
    axis = axis / np.linalg.norm(axis)
    expected = exponential(skew(axis * angle))
    assert_close(axis_angle_to_matrix(axis, angle), expected)
    assert_close(quaternion_to_matrix(axis_angle_to_quaternion(axis, angle)), expected)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_axis_rotation_is_the_transpose_of_the_passive_one(axis):
    """Body-to-world here, child-from-parent in transforms."""
    assert_close(axis_rotation_matrix(axis, 0.7), passive(axis, 0.7).T)


@given(angles, st.floats(-1.5, 1.5), angles)
def test_roll_pitch_yaw_round_trip(roll, pitch, yaw):
    """R = Rz(yaw) Ry(pitch) Rx(roll), found again for pitch below a quarter turn."""
    R = passive(2, yaw).T @ passive(1, pitch).T @ passive(0, roll).T
    quaternion = np.array(roll_pitch_yaw_to_quaternion(roll, pitch, yaw))
    assert_close(quaternion_to_matrix(quaternion), R)
    found = quaternion_to_roll_pitch_yaw(quaternion)
    # cos(1.5) = 0.07: angles are known to 1e-16 / 0.07
    assert_close(found, (roll, pitch, yaw), tolerance=1e-13)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_roll_pitch_yaw_at_the_singular_pitch(sign):
    """At +-90 degrees roll is set to zero and the rotation is still the same."""
    given = np.array(roll_pitch_yaw_to_quaternion(0.4, sign * np.pi / 2, -0.9))
    roll, pitch, yaw = quaternion_to_roll_pitch_yaw(given)
    assert roll == 0.0
    assert pitch == pytest.approx(sign * np.pi / 2)
    found = roll_pitch_yaw_to_quaternion(roll, pitch, yaw)
    assert_close(quaternion_to_matrix(found), quaternion_to_matrix(given))


def test_quaternion_rate_matches_differences():
    """dq/dt = q omega / 2 with omega in body axes (Featherstone 1987, eq. 8.1)."""
    rng = np.random.default_rng(8)
    R, omega = random_rotation(rng), rng.normal(size=3)
    h = 1e-5
    turn = [
        R @ axis_angle_to_matrix(omega / np.linalg.norm(omega), t * np.linalg.norm(omega))
        for t in (-h, 0.0, h)
    ]
    before, now, after = (np.array(matrix_to_quaternion(x)) for x in turn)
    # central differences: h^2 of truncation, 1e-16 / h of rounding
    assert_close(quaternion_rate(now, omega), (after - before) / (2 * h), tolerance=1e-9)


def test_invalid_rotations_are_refused():
    """Shapes are checked where they enter."""
    with pytest.raises(ShapeError, match=r"quaternion: expected \(4,\), got \(3,\)"):
        quaternion_to_matrix((1.0, 0.0, 0.0))
    with pytest.raises(ShapeError, match="row of R"):
        matrix_to_quaternion([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])


def test_roll_pitch_yaw_of_quaternions_give_the_same_rotations():
    """Arrays of any length, and the singular pitch; the length of a quaternion does not matter."""
    rng = np.random.default_rng(4)
    quaternions = rng.standard_normal((30, 4))
    half = np.sqrt(0.5)
    quaternions[0] = (half, 0.0, half, 0.0)
    for one, angles in zip(quaternions, quaternion_to_roll_pitch_yaw(quaternions), strict=True):
        found = quaternion_to_matrix(roll_pitch_yaw_to_quaternion(*angles))
        np.testing.assert_allclose(found, quaternion_to_matrix(one), rtol=0, atol=1e-12)
