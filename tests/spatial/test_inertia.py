"""Rigid and articulated inertias against dense 6x6 algebra (rows A11-A15, A18, K3, K6)."""

import numpy as np
import pytest

from tests.spatial.dense import (
    assert_close,
    crf,
    crm,
    random_articulated,
    random_force,
    random_motion,
    random_rigid,
    random_rotation,
    random_transform,
    rigid,
    skew,
)
from tiburon.errors import DomainError, ShapeError
from tiburon.spatial import (
    ArticulatedInertia,
    Force,
    Motion,
    RigidInertia,
    Transform,
    centripetal_matrix,
    rate_matrix,
    spatial_to_classical,
)


@pytest.fixture
def rng():
    """Return a seeded source of random numbers."""
    return np.random.default_rng(314)


@pytest.fixture(params=[random_rigid, random_articulated], ids=["rigid", "articulated"])
def pair(request, rng):
    """Return an inertia of either kind, and its dense matrix."""
    return request.param(rng)


def test_matrix_and_momentum(pair, rng):
    """A11: P = I v with I = [Ibar h x; (h x)^T m 1] (eqs. 3.1-3.4)."""
    (inertia, dense), (m, a) = pair, random_motion(rng)
    assert_close(inertia.matrix(), dense)
    assert_close(inertia.apply(m).array, dense @ a)


def test_inertia_round_trips_through_an_array(pair):
    """Ten or 21 numbers in a documented order."""
    inertia, dense = pair
    again = type(inertia).from_array(inertia.array)
    assert again == inertia
    assert len(inertia.array) == len(list(inertia)) in (10, 21)
    assert_close(inertia.articulated().matrix(), dense)


def test_inertias_add_and_scale(rng):
    """A12: a composite body has the sum of the inertias (eq. 3.8), of either kind."""
    (a, A), (b, B), (c, C) = random_rigid(rng), random_rigid(rng), random_articulated(rng)
    assert type(a + b) is RigidInertia
    assert_close((a + b).matrix(), A + B)
    assert_close((a - b).matrix(), A - B)
    assert_close((c + a).matrix(), C + A)
    assert_close((a + c).matrix(), C + A)
    assert_close((c - a).matrix(), C - A)
    assert_close((2.0 * a).matrix(), 2.0 * A)
    assert_close((c * 0.5).matrix(), 0.5 * C)
    assert_close((a + RigidInertia.zero()).matrix(), A)
    assert_close((c + ArticulatedInertia.zero()).matrix(), C)
    with pytest.raises(TypeError):
        a + 1.0


def test_mass_center_and_moments_are_recovered(rng):
    """The ten numbers hold mass, center of mass and inertia about it."""
    mass, com, R = 2.3, rng.normal(size=3), random_rotation(rng)
    moments = R @ np.diag([0.2, 0.3, 0.4]) @ R.T
    inertia = RigidInertia.from_mass(mass, com, moments)
    assert inertia.mass == mass
    assert_close(inertia.com, com)
    assert_close(inertia.inertia_about_com, moments[np.triu_indices(3)])


def test_moments_may_be_given_three_ways():
    """A 3x3 matrix, six distinct numbers, or a diagonal."""
    full = np.array([[2.0, 0.1, 0.2], [0.1, 3.0, 0.3], [0.2, 0.3, 4.0]])
    com = (0.1, 0.2, 0.3)
    expected = rigid(1.5, com, full)
    for given in (full, full.tolist(), [2.0, 0.1, 0.2, 3.0, 0.3, 4.0]):
        assert_close(RigidInertia.from_mass(1.5, com, given).matrix(), expected)
    diagonal = RigidInertia.from_mass(1.5, com, [2.0, 3.0, 4.0])
    assert_close(diagonal.matrix(), rigid(1.5, com, np.diag([2.0, 3.0, 4.0])))
    with pytest.raises(ShapeError, match="inertia"):
        RigidInertia.from_mass(1.5, com, [1.0, 2.0, 3.0, 4.0])


def test_bias_force_equals_v_cross_I_v(rng):
    """A13: p = v x* I v (eqs. 3.10, 3.11), in its shortened form."""
    for _ in range(5):
        (inertia, dense), (v, a) = random_rigid(rng), random_motion(rng)
        assert_close(inertia.bias(v).array, crf(a) @ dense @ a)
        assert_close(inertia.bias(v).array, v.cross_force(inertia.apply(v)).array)


def test_rate_of_momentum_equals_apply_plus_bias(rng):
    """One formula for I a + v x* I v, in classical terms, equals its two parts."""
    for _ in range(5):
        (inertia, _), (v, _), (a, _) = random_rigid(rng), random_motion(rng), random_motion(rng)
        Omega = rate_matrix(v.angular, a.angular)
        force = inertia.rate_of_momentum(Omega, spatial_to_classical(a, v).linear)
        assert_close(force.array, (inertia.apply(a) + inertia.bias(v)).array)


def test_gyroscopic_force_is_the_bias_of_a_body_turning_about_its_origin(rng):
    """Without velocity of the origin, v x* I v = [w x Ibar w; w x (w x h)]."""
    (inertia, _), w = random_rigid(rng), tuple(rng.normal(size=3))
    turning = Motion(w, (0.0, 0.0, 0.0))
    assert_close(inertia.gyroscopic_force(w).array, inertia.bias(turning).array)
    r = rng.normal(size=3)
    xx, xy, xz, yy, yz, zz = centripetal_matrix(w)
    matrix = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    assert_close(matrix @ r, np.cross(w, np.cross(w, r)))


def test_apply_adds_to_a_given_force(rng):
    """I m added to a force is their sum."""
    (inertia, dense), (m, a) = random_articulated(rng), random_motion(rng)
    f, b = random_force(rng)
    assert_close(inertia.apply(m, start=f).array, dense @ a + b)


def test_mcmillan_B12_takes_entries_of_the_tensor(rng):
    """Trap of eq. B.12: u = Ibar wd + w x Ibar w holds for tensor entries, minus the products."""
    (w, wd), (inertia, dense) = rng.normal(size=(2, 3)), random_rigid(rng)
    Ibar = dense[:3, :3]
    u = Ibar @ wd + np.cross(w, Ibar @ w)
    Omega = rate_matrix(tuple(w), tuple(wd))
    assert_close(inertia.rate_of_momentum(Omega, (0.0, 0.0, 0.0)).moment, u)
    products = 2.0 * np.diag(np.diag(Ibar)) - Ibar
    wrong = products @ wd + np.cross(w, products @ w)
    assert np.abs(wrong - u).max() > 0.1


def test_rate_matrix_gives_the_acceleration_of_every_point(rng):
    """Omega r = wd x r + w x (w x r) (McMillan 1994, eq. B.9)."""
    w, wd, r = rng.normal(size=(3, 3))
    Omega = np.array(rate_matrix(tuple(w), tuple(wd)))
    assert_close(Omega @ r, np.cross(wd, r) + np.cross(w, np.cross(w, r)))


def test_equation_of_motion_equals_newton_and_euler(rng):
    """A13: f = I a + v x* I v is Newton at and Euler about the center of mass."""
    mass, com = 1.7, rng.normal(size=3)
    root = rng.normal(size=(3, 3))
    about_com = root @ root.T
    inertia = RigidInertia.from_mass(mass, com, about_com)
    (v, _), (a, _) = random_motion(rng), random_motion(rng)
    force = inertia.apply(a) + inertia.bias(v)
    w, wd = np.array(v.angular), np.array(a.angular)
    # classical acceleration of the center of mass: origin, plus what turning adds
    origin = np.array(a.linear) + np.cross(w, v.linear)
    center = origin + np.cross(wd, com) + np.cross(w, np.cross(w, com))
    newton = mass * center
    euler = about_com @ wd + np.cross(w, about_com @ w)
    assert_close(force.force, newton)
    assert_close(force.moment, euler + np.cross(com, newton))


def test_inertia_of_a_moving_body_changes_by_its_rate(rng):
    """A12: dI/dt = v x* I - I v x (eq. 3.7), dense and by central differences."""
    (inertia, dense), (v, a) = random_rigid(rng), random_motion(rng)
    assert_close(inertia.rate(v).matrix(), crf(a) @ dense - dense @ crm(a))

    def seen_from_world(t):
        """Return the world inertia of the body after moving for t at about the velocity v."""
        angle = np.linalg.norm(a[:3]) * t
        K = skew(a[:3] / np.linalg.norm(a[:3]))
        R = np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * K @ K
        return Transform.from_pose(R, a[3:] * t).inertia_to_parent(inertia).matrix()

    h = 1e-5
    # second-order differences: truncation h^2, rounding 1e-16 / h
    assert_close(
        (seen_from_world(h) - seen_from_world(-h)) / (2 * h), inertia.rate(v).matrix(), 1e-8
    )


def test_kinetic_energy_equals_half_v_I_v(pair, rng):
    """A18: KE = 1/2 v . I v."""
    (inertia, dense), (v, a) = pair, random_motion(rng)
    assert inertia.kinetic_energy(v) == pytest.approx(0.5 * a @ dense @ a, rel=1e-13)


def test_kinetic_energy_of_a_rigid_body_is_the_conventional_one(rng):
    """A18: 1/2 m v_C^2 + 1/2 w . I_C w."""
    (inertia, _), (v, _) = random_rigid(rng), random_motion(rng)
    at_center, w = np.array(v.at_point(inertia.com)), np.array(v.angular)
    xx, xy, xz, yy, yz, zz = inertia.inertia_about_com
    about_com = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    expected = 0.5 * inertia.mass * at_center @ at_center + 0.5 * w @ about_com @ w
    assert inertia.kinetic_energy(v) == pytest.approx(expected, rel=1e-12)


def test_inverse_inertia_times_inertia_is_the_identity(rng):
    """A14: Phi I = 1 (eqs. 3.12-3.14), and the harmonic sum of a composite body."""
    (a, A), (b, B) = random_rigid(rng), random_rigid(rng)
    assert_close(a.inverse(), np.linalg.inv(A), tolerance=1e-11)
    assert_close(a.inverse() @ A, np.eye(6), tolerance=1e-11)
    harmonic = np.linalg.inv(np.linalg.inv(a.inverse()) + np.linalg.inv(b.inverse()))
    # three inversions of matrices with condition numbers up to about 1e3
    assert_close((a + b).inverse(), harmonic, tolerance=1e-10)
    assert_close((a + b).inverse(), np.linalg.inv(A + B), tolerance=1e-11)


def test_solve_inverts_apply(pair, rng):
    """A14: the motion of a force, through the center of mass or by L D L^T."""
    (inertia, dense), (f, b) = pair, random_force(rng)
    # conditioning of the random inertias is up to about 1e3
    assert_close(inertia.solve(f).array, np.linalg.solve(dense, b), tolerance=1e-11)
    assert_close(inertia.apply(inertia.solve(f)).array, b, tolerance=1e-11)


def test_columns_are_the_forces_of_unit_motions(rng):
    """A column of the matrix is I s for a coordinate motion s."""
    inertia, dense = random_articulated(rng)
    for k in range(6):
        assert_close(inertia.column(k).array, dense[:, k])
        assert_close(inertia.column(k).array, inertia.apply(Motion.from_array(np.eye(6)[k])).array)


@pytest.mark.parametrize("k", range(6))
def test_reducing_by_a_joint_axis_frees_that_motion(k, rng):
    """A15, K6: I - U U^T / D has no inertia left along the axis: row and column k vanish."""
    inertia, dense = random_articulated(rng)
    U = inertia.column(k)
    reduced = inertia.reduce(U, U.array[k])
    expected = dense - np.outer(dense[:, k], dense[:, k]) / dense[k, k]
    assert_close(reduced.matrix(), expected)
    assert_close(reduced.matrix()[k], np.zeros(6))
    assert np.linalg.eigvalsh(reduced.matrix())[0] > -1e-12


def test_reducing_by_any_axis(rng):
    """A15: the same for a skew axis s: what is left does not resist s."""
    (inertia, dense), (s, a) = random_articulated(rng), random_motion(rng)
    U = inertia.apply(s)
    reduced = inertia.reduce(U, s.dot(U))
    assert_close(reduced.matrix(), dense - np.outer(dense @ a, dense @ a) / (a @ dense @ a))
    assert_close(reduced.apply(s).array, np.zeros(6))


def test_reducing_by_several_axes(rng):
    """A15: I - U D^-1 U^T for three degrees of freedom at once (eq. 7.19)."""
    inertia, dense = random_articulated(rng)
    S = rng.normal(size=(6, 3))
    U = dense @ S
    W = U @ np.linalg.inv(S.T @ U)
    columns = [[Force.from_array(matrix[:, r]) for r in range(3)] for matrix in (U, W)]
    # the upper part is kept, so the asymmetry of W U^T by rounding stays out
    assert_close(inertia.subtract_products(*columns).matrix(), dense - W @ U.T, tolerance=1e-11)


def test_sphere_on_a_cylindric_joint_has_no_center_of_mass():
    """A15: mass block diag(m1+m2, m1, m1+m2): the slider's mass is not felt along its shaft.

    Featherstone 1987, fig. 3-2, m1 = 3 kg and m2 = 2 kg, shaft along y.
    """
    sphere = RigidInertia.from_mass(3.0, (0, 0, 0), [0.5, 0.5, 0.5])
    cylinder = RigidInertia.from_mass(2.0, (0, 0, 0), [0.03, 0.02, 0.03]).articulated()
    for axis in (1, 4):
        U = cylinder.column(axis)
        cylinder = cylinder.reduce(U, U.array[axis])
    together = (cylinder + sphere).matrix()
    assert_close(together[3:, 3:], np.diag([5.0, 3.0, 5.0]))
    assert together[1, 1] == pytest.approx(0.5)


def test_sphere_on_a_screw_joint_couples_rotation_and_translation():
    """A15: closed form for axial inertia J and pitch rho: 4.0 kg, 0.51 kg m^2, -0.1 kg m."""
    m1, m2, J, rho, I1 = 3.0, 2.0, 0.02, 0.1, 0.5
    sphere = RigidInertia.from_mass(m1, (0, 0, 0), [I1] * 3)
    cylinder = RigidInertia.from_mass(m2, (0, 0, 0), [0.03, J, 0.03]).articulated()
    s = Motion((0.0, 1.0, 0.0), (0.0, rho, 0.0))
    U = cylinder.apply(s)
    together = (cylinder.reduce(U, s.dot(U)) + sphere).matrix()
    assert together[4, 4] == pytest.approx(4.0)
    assert together[1, 1] == pytest.approx(0.51)
    assert together[1, 4] == pytest.approx(-0.1)


def test_full_symmetric_matrices_are_kept(rng):
    """H2: added mass is any symmetric 6x6 matrix; the asymmetric part is refused."""
    (X, dense), (_, matrix) = random_transform(rng), random_articulated(rng)
    added = ArticulatedInertia.from_matrix(matrix)
    assert_close(X.inertia_to_parent(added).matrix(), dense.T @ matrix @ dense)
    assert_close(ArticulatedInertia.from_rows(matrix.tolist()).matrix(), matrix)
    matrix[4, 1] += 0.5
    with pytest.raises(DomainError, match=r"symmetric matrix, got .* at \(4, 1\)"):
        ArticulatedInertia.from_matrix(matrix)
    with pytest.raises(ShapeError, match="inertia matrix"):
        ArticulatedInertia.from_matrix(np.eye(5))
