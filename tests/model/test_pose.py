"""Poses: constructors, algebra, snapping, refusals."""

import pickle

import numpy as np
import pytest

from tests.model.samples import ROUNDING, random_pose, turn
from tiburon.errors import ModelError
from tiburon.model import Pose


@pytest.mark.parametrize("seed", range(5))
def test_constructors_agree_with_the_exponential_of_the_turn(seed):
    rng = np.random.default_rng(seed)
    (roll, pitch, yaw), axis = rng.uniform(-3, 3, 3), rng.standard_normal(3)
    angle, unit, scale = float(rng.uniform(-3, 3)), axis / np.linalg.norm(axis), rng.uniform(0.5, 2)
    x, y, z = np.eye(3)
    fixed_axes = turn(yaw * z) @ turn(pitch * y) @ turn(roll * x)
    quaternion = scale * np.array([np.cos(angle / 2), *(np.sin(angle / 2) * unit)])
    for pose, expected in [
        (Pose.from_rpy((roll, pitch, yaw)), fixed_axes),
        (Pose.from_axis_angle(axis, angle), turn(angle * unit)),
        (Pose.from_quaternion(quaternion), turn(angle * unit)),
    ]:
        np.testing.assert_allclose(pose.rotation, expected, rtol=0, atol=ROUNDING)


def test_composition_and_inverse_are_those_of_homogeneous_matrices():
    rng = np.random.default_rng(3)
    a, b = random_pose(rng), random_pose(rng)
    np.testing.assert_allclose((a @ b).matrix, a.matrix @ b.matrix, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(a.inverse().matrix, np.linalg.inv(a.matrix), rtol=0, atol=ROUNDING)


def test_transform_maps_points_as_the_matrix_does():
    rng = np.random.default_rng(4)
    pose, x = random_pose(rng), rng.standard_normal(3)
    mapped = pose.transform.point_to_parent(tuple(x))
    np.testing.assert_allclose(mapped, (pose.matrix @ [*x, 1.0])[:3], rtol=0, atol=ROUNDING)


def test_right_angles_are_exact():
    pose = Pose.from_rpy((np.pi / 2, -np.pi / 2, np.pi))
    assert {x for row in pose.rotation for x in row} <= {0.0, 1.0, -1.0}
    turned = pose
    for _ in range(50):
        turned = turned @ Pose.from_axis_angle((1, 0, 0), np.pi / 2)
    assert {x for row in turned.rotation for x in row} <= {0.0, 1.0, -1.0}


def test_identity_transform_has_no_factor():
    assert Pose.identity().transform.factors == ()


def test_equal_poses_have_equal_hashes_and_survive_pickling():
    a = Pose.from_rpy([0.1, 0.2, 0.3], [1, 2, 3])
    b = Pose.from_rpy((0.1, 0.2, 0.3), np.array([1.0, 2.0, 3.0]))
    assert a == b
    assert hash(a) == hash(b)
    assert pickle.loads(pickle.dumps(a)) == a
    assert a != Pose()


def test_rounded_rotation_is_replaced_by_the_nearest_rotation():
    exact = np.array(Pose.from_rpy((0.3, 0.2, 0.1)).rotation)
    R = np.array(Pose(np.round(exact, 7)).rotation)
    assert np.abs(R @ R.T - np.eye(3)).max() < 1e-15 * 4
    assert np.abs(R - exact).max() < 2e-7


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pose(np.diag([1, 1, -1])), "determinant +1, got determinant -1"),
        (lambda: Pose(2 * np.eye(3)), "must be orthogonal with determinant +1, got determinant 8"),
        (lambda: Pose(np.eye(2)), "rotation must be 3 x 3 numbers, got shape (2, 2)"),
        (lambda: Pose(translation=(1, 2)), "translation must be 3 numbers, got shape (2,)"),
        (lambda: Pose(translation=(1, np.nan, 0)), "translation must be finite, got [1.0, nan"),
        (lambda: Pose(translation="abc"), "translation must be 3 numbers, got 'abc'"),
        (lambda: Pose.from_quaternion((0, 0, 0, 0)), "quaternion must not be zero"),
        (lambda: Pose.from_axis_angle((0, 0, 0), 1.0), "axis must not be zero"),
        (lambda: Pose.from_rpy((1, 2)), "roll-pitch-yaw must be 3 numbers"),
    ],
)
def test_bad_pose_is_refused(make, message):
    with pytest.raises(ModelError) as caught:
        make()
    assert message in str(caught.value)
    assert str(caught.value).startswith("pose: ")


@pytest.mark.parametrize("size", [5e-324, 1e-200, 1e-160, 1.0, 1e160, 1e300])
def test_an_axis_of_any_length_gives_the_same_rotation(size):
    """Squares of the smallest and largest numbers leave their range; the direction does not."""
    expected = Pose.from_axis_angle((0.0, 1.0, -1.0), 0.7)
    found = Pose.from_axis_angle((0.0, size, -size), 0.7)
    np.testing.assert_allclose(found.matrix, expected.matrix, rtol=0.0, atol=ROUNDING)
