"""Transforms against dense 6x6 algebra (rows A6, A12, K2-K5)."""

import numpy as np
import pytest

from tests.spatial.dense import (
    assert_close,
    passive,
    plucker,
    random_articulated,
    random_factor,
    random_force,
    random_motion,
    random_rigid,
    random_rotation,
    random_transform,
)
from tiburon.errors import OptionError, ShapeError
from tiburon.spatial import ArticulatedInertia, RigidInertia, Transform

KINDS = ("x", "y", "z", "rotation", "translation")


@pytest.fixture
def rng():
    """Return a seeded source of random numbers."""
    return np.random.default_rng(1994)


@pytest.fixture(params=[*((kind,) for kind in KINDS), KINDS, KINDS[::-1]], ids="-".join)
def pair(request, rng):
    """Return a transform of one or several moves, and its dense matrix."""
    return random_transform(rng, request.param)


def test_motions_and_forces_transform_both_ways(pair, rng):
    """K2: motion by X, force by X^-T, and back by X^-1 and X^T."""
    (X, dense), (m, a), (f, b) = pair, random_motion(rng), random_force(rng)
    assert_close(X.motion(m).array, dense @ a)
    assert_close(X.motion_to_parent(m).array, np.linalg.solve(dense, a))
    assert_close(X.force(f).array, np.linalg.solve(dense.T, b))
    assert_close(X.force_to_parent(f).array, dense.T @ b)


def test_transforms_equal_their_matrices(pair):
    """A6: X = [E 0; E (r x)^T E] (eq. 2.18), on forces X^-T."""
    X, dense = pair
    assert_close(X.matrix(), dense)
    assert_close(X.force_matrix(), np.linalg.inv(dense).T)
    assert_close(plucker(np.array(X.rotation), np.array(X.translation)), dense)


def test_inertias_transform_by_congruence(pair, rng):
    """A12, K3, K5: X^T I X, ten numbers stay ten and 21 stay 21."""
    X, dense = pair
    for (inertia, matrix), kind in (
        (random_rigid(rng), RigidInertia),
        (random_articulated(rng), ArticulatedInertia),
    ):
        moved = X.inertia_to_parent(inertia)
        assert type(moved) is kind
        assert_close(moved.matrix(), dense.T @ matrix @ dense)


def test_inverse_transform_restores_the_vector(pair):
    """A6: the inverse transform (eq. 2.19), factor by factor in reverse."""
    X, dense = pair
    assert_close(X.inverse().matrix(), np.linalg.inv(dense))
    assert_close(X.then(X.inverse()).matrix(), np.eye(6))


def test_points_and_directions(pair, rng):
    """Points follow the origin, directions only turn; both ways are inverse."""
    (X, _), a = pair, tuple(rng.normal(size=3))
    E, r = np.array(X.rotation), np.array(X.translation)
    assert_close(X.direction(a), E @ a)
    assert_close(X.direction_to_parent(a), E.T @ a)
    assert_close(X.point(a), E @ (a - r))
    assert_close(X.point_to_parent(a), E.T @ a + r)


def test_composition_follows_matrix_order(rng):
    """A6: X_CA = X_CB X_BA (eq. 2.17); factors are kept, not multiplied out."""
    (X, A), (Y, B) = random_transform(rng), random_transform(rng)
    assert_close((Y @ X).matrix(), B @ A)
    assert_close(X.then(Y).matrix(), B @ A)
    assert (Y @ X).factors == X.factors + Y.factors
    assert list(X) == list(X.factors)
    assert Transform.identity().matrix().tolist() == np.eye(6).tolist()
    with pytest.raises(TypeError):
        X @ 3.0


def test_power_does_not_depend_on_the_frame(rng):
    """K2: f . v is the same in parent and child."""
    (X, _), (m, a), (f, b) = random_transform(rng), random_motion(rng), random_force(rng)
    assert X.force(f).dot(X.motion(m)) == pytest.approx(a @ b, rel=1e-12)
    assert X.force_to_parent(f).dot(X.motion_to_parent(m)) == pytest.approx(a @ b, rel=1e-12)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_screw_turns_about_and_moves_along_one_axis(axis, rng):
    """K2: X(axis, d, theta), and turn and move commute."""
    angle, distance = rng.uniform(-3, 3), rng.normal()
    r = distance * np.eye(3)[axis]
    X = Transform.screw(axis, angle, distance)
    assert_close(X.matrix(), plucker(passive(axis, angle), r))
    swapped = Transform.from_translation(r).then(Transform.axis_rotation(axis, angle))
    assert_close(X.matrix(), swapped.matrix())


def test_modified_denavit_hartenberg_matches_the_printed_matrices(rng):
    """K4: rotation (A.1) and origin (A.4), equal to the product of both screws (A.5)."""
    a, alpha, d, theta = rng.normal(size=4)
    ct, st, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
    E = np.array([[ct, st * ca, st * sa], [-st, ct * ca, ct * sa], [0.0, -sa, ca]])
    X = Transform.modified_dh(a, alpha, d, theta)
    assert_close(X.matrix(), plucker(E, np.array([a, -d * sa, d * ca])))
    screws = Transform.screw(2, theta, d) @ Transform.screw(0, alpha, a)
    assert_close(X.matrix(), screws.matrix())
    # inverse of a modified Denavit-Hartenberg transform (McMillan 1994, eq. 2.27)
    back = Transform.screw(2, -theta, -d).then(Transform.screw(0, -alpha, -a))
    assert_close(X.inverse().matrix(), back.matrix())


def test_pose_holds_the_child_axes_as_columns(rng):
    """A pose is the child seen from the parent: body-to-parent rotation and origin."""
    R, r = random_rotation(rng), rng.normal(size=3)
    X = Transform.from_pose(R, r)
    assert_close(X.matrix(), plucker(R.T, r))
    assert_close(Transform.from_rotation(R.T).rotation, R.T)


def test_kinetic_energy_does_not_depend_on_the_frame(rng):
    """A12: v . I v is the same in parent and child."""
    (X, _), (m, _) = random_transform(rng), random_motion(rng)
    for inertia, _ in (random_rigid(rng), random_articulated(rng)):
        there = inertia.kinetic_energy(X.motion(m))
        here = X.inertia_to_parent(inertia).kinetic_energy(m)
        assert here == pytest.approx(there, rel=1e-12)


def test_wrong_axis_and_shape_are_refused():
    """A coordinate axis is 0, 1 or 2; a rotation is 3x3."""
    with pytest.raises(OptionError, match="axis: expected 0 or 1 or 2, got 3"):
        Transform.screw(3, 0.1, 0.2)
    with pytest.raises(ShapeError, match=r"rotation: expected \(3, 3\), got \(3, 4\)"):
        Transform.from_rotation(np.ones((3, 4)))
    with pytest.raises(ShapeError, match="translation"):
        Transform.from_translation([1.0, 2.0])


@pytest.mark.parametrize("kind", KINDS)
def test_transforms_are_values(kind):
    """Equal factors make equal transforms that hash alike."""
    X, Y = (Transform((random_factor(np.random.default_rng(5), kind)[0],)) for _ in range(2))
    assert X == Y
    assert hash(X) == hash(Y)
    assert X.inverse() != X
