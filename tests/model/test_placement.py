"""Placements taken apart: the moves put together again are the placement."""

import numpy as np
import pytest

from tests.model.samples import ROUNDING, random_pose, turn
from tiburon.model import Pose, Prismatic, Revolute
from tiburon.model.reframe import (
    BETWEEN_BODIES,
    place_sliding,
    place_turning,
    place_whole,
)
from tiburon.spatial import AxisRotation, Rotation

PERMUTATIONS = [
    Pose.from_rpy(np.pi / 2 * np.array(quarters))
    for quarters in [(0, 0, 0), (1, 0, 0), (0, 1, 2), (3, 0, 1), (2, 0, 0), (1, 1, 1)]
]


def homogeneous(X):
    T = np.eye(4)
    T[:3, :3] = np.array(X.rotation).T
    T[:3, 3] = X.translation
    return T


def poses():
    """Return placements in general position, and all kinds of special ones."""
    rng = np.random.default_rng(1)
    found = [random_pose(rng) for _ in range(5)]
    found += PERMUTATIONS
    for axis in np.eye(3):
        for permutation in PERMUTATIONS:
            found.append(Pose(turn(0.7 * axis), rng.standard_normal(3)) @ permutation)
            found.append(permutation @ Pose(turn(-2.0 * axis), axis))
    return found


@pytest.mark.parametrize("k", [0, 1, 2])
@pytest.mark.parametrize(("place", "kind"), [(place_turning, Revolute), (place_sliding, Prismatic)])
def test_moves_and_joint_offset_compose_the_placement(place, kind, k):
    for pose in poses():
        placement = place(pose.rotation, pose.translation, k)
        joint = kind("j", np.eye(3)[k], placement.offset)
        T = homogeneous(placement.transform.then(joint.transform((0.0,))))
        np.testing.assert_allclose(T, pose.matrix, rtol=0, atol=ROUNDING)


def test_whole_placement_is_kept_when_the_joint_absorbs_nothing():
    for pose in poses():
        placement = place_whole(pose.rotation, pose.translation)
        np.testing.assert_allclose(
            homogeneous(placement.transform), pose.matrix, rtol=0, atol=ROUNDING
        )


@pytest.mark.parametrize("k", [0, 1, 2])
def test_rotations_and_translations_are_counted(k):
    for pose in poses():
        for place in (place_turning, place_sliding):
            placement = place(pose.rotation, pose.translation, k)
            factors = placement.transform.factors
            turns = [f for f in factors if isinstance(f, AxisRotation) and f.cosine * f.sine]
            rotations = [f for f in factors if isinstance(f, Rotation)]
            assert placement.turns == len(turns)
            assert all(abs(x) in (0.0, 1.0) for f in rotations for row in f.E for x in row)
            moved = [x for f in factors if hasattr(f, "r") for x in f.r if x != 0.0]
            assert placement.steps == len(moved)
            assert placement.cost(BETWEEN_BODIES) == 89 * len(turns) + 36 * len(moved)


@pytest.mark.parametrize("k", [0, 1, 2])
def test_number_of_rotations_is_minimal(k):
    """A direction needs one turn per coordinate beyond the first; about itself it is free."""
    axis = np.eye(3)[k]
    general = random_pose(np.random.default_rng(2))
    assert place_turning(general.rotation, (0, 0, 0), k).turns == 2
    assert place_sliding(general.rotation, (0, 0, 0), k).turns == 3
    for permutation in PERMUTATIONS:
        own = (permutation @ Pose(turn(0.7 * axis))).rotation
        assert place_turning(own, (0, 0, 0), k).turns == 0
        assert place_sliding(own, (0, 0, 0), k).turns == 1
        for other in (k + 1, k + 2):
            planar = (Pose(turn(0.7 * np.eye(3)[other % 3])) @ Pose(turn(0.4 * axis))).rotation
            assert place_turning(planar, (0, 0, 0), k).turns == 1


def test_denavit_hartenberg_placement_is_one_screw_and_the_joints_own():
    """P = a x + d z_child: one component before the turn, one after it (McMillan 1994, A.1-A.7)."""
    alpha, a, theta, d = 0.6, 0.3, 0.4, 0.2
    pose = (
        Pose(translation=(a, 0, 0))
        @ Pose.from_axis_angle((1, 0, 0), alpha)
        @ Pose.from_axis_angle((0, 0, 1), theta, (0, 0, d))
    )
    placement = place_turning(pose.rotation, pose.translation, 2)
    assert (placement.turns, placement.steps) == (1, 2)
    assert placement.offset == pytest.approx(theta, abs=ROUNDING)
    sliding = place_sliding(pose.rotation, pose.translation, 2)
    assert (sliding.turns, sliding.steps) == (2, 1)
    assert sliding.offset == pytest.approx(d, abs=ROUNDING)
