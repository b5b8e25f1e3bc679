"""Motion and force vectors against dense 6x6 algebra (rows A1, A2, A7-A9, A16, A17, K1)."""

import numpy as np
import pytest

from tests.spatial.dense import (
    assert_close,
    crf,
    crm,
    random_force,
    random_motion,
    random_transform,
    skew,
)
from tiburon.errors import ShapeError
from tiburon.spatial import Force, Motion, Transform
from tiburon.spatial import vec3 as three

SWAP = np.block([[np.zeros((3, 3)), np.eye(3)], [np.eye(3), np.zeros((3, 3))]])
"""Maps a force [n; f] to the order [f; n] of Featherstone 1987 and back."""


def spatial_transpose(tensor):
    """Return the spatial transpose of a tensor (Featherstone 1987, eq. 3.20)."""
    return SWAP @ tensor.T @ SWAP


@pytest.fixture
def rng():
    """Return a seeded source of random numbers."""
    return np.random.default_rng(1987)


def test_angular_part_comes_first(rng):
    """K1: v = [w; v], f = [n; f]."""
    m, f = Motion.from_array([1, 2, 3, 4, 5, 6]), Force.from_array([1, 2, 3, 4, 5, 6])
    assert m.angular == f.moment == (1, 2, 3)
    assert m.linear == f.force == (4, 5, 6)
    assert list(m) == list(f) == [1, 2, 3, 4, 5, 6]
    a = rng.normal(size=6)
    assert_close(Motion.from_array(a).array, a)
    assert_close(Force.from_array(a).array, a)


def test_vectors_are_linear(rng):
    """Sums, differences, negatives and multiples act on each of the six numbers."""
    for random in (random_motion, random_force):
        (x, a), (y, b) = random(rng), random(rng)
        assert_close((x + y).array, a + b)
        assert_close((x - y).array, a - b)
        assert_close((-x).array, -a)
        assert_close((x * 2.5).array, 2.5 * a)
        assert_close((2.5 * x).array, 2.5 * a)
        assert_close((np.float64(2.5) * x).array, 2.5 * a)
        assert_close((x + type(x).zero()).array, a)


def test_a_motion_and_a_force_cannot_be_added(rng):
    """Motion and force are different types: mixing them is an error, not a number."""
    (m, _), (f, _) = random_motion(rng), random_force(rng)
    for wrong in (lambda: m + f, lambda: f - m, lambda: m * f, lambda: f * f):
        with pytest.raises(TypeError):
            wrong()


def test_wrong_length_names_the_argument():
    """Five numbers are no spatial vector."""
    with pytest.raises(ShapeError, match=r"motion: expected \(6,\), got \(5,\)"):
        Motion.from_array([1.0] * 5)
    with pytest.raises(ShapeError, match=r"force: expected \(6,\), got \(6, 1\)"):
        Force.from_array(np.ones((6, 1)))
    with pytest.raises(ShapeError, match="point"):
        Force.at_point((0, 0, 1), (1, 2))


def test_shifting_the_origin_twice_equals_the_direct_shift(rng):
    """A1: v_O = v_P + OP x omega (eq. 2.1), along any path."""
    m, _ = random_motion(rng)
    first, second = rng.normal(size=3), rng.normal(size=3)
    twice = Transform.from_translation(first).then(Transform.from_translation(second)).motion(m)
    direct = Transform.from_translation(first + second).motion(m)
    assert_close(twice.array, direct.array)
    assert_close(direct.linear, m.at_point(first + second))
    assert_close(direct.linear, np.add(m.linear, np.cross(m.angular, first + second)))


def test_resultant_of_forces_equals_their_sum(rng):
    """A2: forces along lines and couples on one body add up to one force and one moment."""
    forces, points, couples = rng.normal(size=(3, 5, 3))
    total = Force.zero()
    for f, p, n in zip(forces, points, couples, strict=True):
        total = total + Force.at_point(f, p, couple=n)
    assert_close(total.force, forces.sum(axis=0))
    assert_close(total.moment, (np.cross(points, forces) + couples).sum(axis=0))


def test_a_force_may_slide_along_its_line(rng):
    """A2: any point of the line of action gives the same force."""
    f, p = rng.normal(size=3), rng.normal(size=3)
    assert_close(Force.at_point(f, p).array, Force.at_point(f, p + 2.3 * f).array)


def test_cross_products_match_the_dense_operators(rng):
    """A8: v x on motions, v x* on forces (eq. 2.24)."""
    (v, a), (m, b), (f, c) = random_motion(rng), random_motion(rng), random_force(rng)
    assert_close(v.cross(m).array, crm(a) @ b)
    assert_close(v.cross_force(f).array, crf(a) @ c)
    assert_close(v.cross_matrix(), crm(a))
    assert_close(v.cross_force_matrix(), crf(a))


def test_three_dimensional_cross_operator_identities(rng):
    """A7: the identities of eqs. 2.8-2.14 for plain tuples."""
    a, b = (tuple(x) for x in rng.normal(size=(2, 3)))
    assert_close(three.cross(a, b), np.cross(a, b))
    assert_close(three.skew(a), skew(a))
    assert_close(three.cross(a, b), three.negate(three.cross(b, a)))
    product = skew(a) @ skew(b)
    assert_close(skew(np.cross(a, b)), product - product.T)
    assert_close(product, np.outer(b, a) - np.dot(a, b) * np.eye(3))


def test_cross_operator_is_covariant(rng):
    """A8: (X v) x = X (v x) X^-1, and the same for forces."""
    (v, _), (X, _) = random_motion(rng), random_transform(rng)
    M, F = X.matrix(), X.force_matrix()
    assert_close(X.motion(v).cross_matrix(), M @ v.cross_matrix() @ np.linalg.inv(M))
    assert_close(X.motion(v).cross_force_matrix(), F @ v.cross_force_matrix() @ np.linalg.inv(F))


def test_cross_operator_is_a_commutator(rng):
    """A8: (a x b) x = (a x)(b x) - (b x)(a x)."""
    (x, _), (y, _) = random_motion(rng), random_motion(rng)
    A, B = x.cross_matrix(), y.cross_matrix()
    assert_close(x.cross(y).cross_matrix(), A @ B - B @ A)


def test_spatial_transpose_facts_of_the_other_force_order(rng):
    """A17: with forces as [f; n], X^-1 = X^S, (v x)^S = -(v x), one operator for both kinds."""
    (v, _), (X, _) = random_motion(rng), random_transform(rng)
    M = X.matrix()
    assert_close(spatial_transpose(M) @ M, np.eye(6))
    assert_close(spatial_transpose(v.cross_matrix()), -v.cross_matrix())
    assert_close(SWAP @ X.force_matrix() @ SWAP, M)
    assert_close(SWAP @ v.cross_force_matrix() @ SWAP, v.cross_matrix())


def test_scalar_product_does_not_depend_on_the_frame(rng):
    """A16: f . v = n . w + f . v_O (eq. 3.17), the same in every frame."""
    (m, a), (f, b), (X, _) = random_motion(rng), random_force(rng), random_transform(rng)
    assert m.dot(f) == pytest.approx(a @ b, rel=1e-13)
    assert f.dot(m) == m.dot(f)
    assert X.motion(m).dot(X.force(f)) == pytest.approx(a @ b, rel=1e-12)


def test_scalar_product_is_invariant_under_rigid_motion(rng):
    """A9: carried along together, a motion and a force keep their product: its rate is zero."""
    (v, _), (m, _), (f, _) = random_motion(rng), random_motion(rng), random_force(rng)
    assert v.cross(m).dot(f) + m.dot(v.cross_force(f)) == pytest.approx(0.0, abs=1e-13)


def test_a_vector_fixed_in_a_moving_body_changes_by_v_cross(rng):
    """A9: d/dt a = v x a for a vector carried along (eq. 2.27), by central differences."""
    (m, _), (f, _), w, v = random_motion(rng), random_force(rng), *rng.normal(size=(2, 3))
    r0, axis = rng.normal(size=3), w / np.linalg.norm(w)

    def pose(t):
        """Return body-from-world for a body that turns about its moving origin at r0 + v t."""
        angle = np.linalg.norm(w) * t
        K = skew(axis)
        R = np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * K @ K
        return Transform.from_pose(R, r0 + v * t)

    # world velocity of the body: its point now at the world origin moves with v + r0 x w
    velocity = Motion(tuple(w), tuple(v + np.cross(r0, w)))
    h = 1e-5
    for vector, back, rate in (
        (m, Transform.motion_to_parent, Motion.cross),
        (f, Transform.force_to_parent, Motion.cross_force),
    ):
        difference = (back(pose(h), vector).array - back(pose(-h), vector).array) / (2 * h)
        expected = rate(velocity, back(pose(0.0), vector)).array
        # central differences: h^2 of truncation and 1e-16 / h of rounding, both about 1e-10
        assert_close(difference, expected, tolerance=1e-8)
