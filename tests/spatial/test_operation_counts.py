"""Multiplications and additions of the kernels, against the published ones (row K5, K6, K7).

McMillan 1994, app. A (the table of primitive operations) and Featherstone 1987, Table 8-5. The
figures published are upper bounds; the exact counts are pinned so that none of them creeps up.
"""

import numpy as np
import pytest

from tests.spatial.counting import count, number, variable
from tests.spatial.dense import assert_close, random_articulated, random_motion, random_rigid
from tiburon.spatial import (
    ArticulatedInertia,
    AxisRotation,
    Force,
    Motion,
    RigidInertia,
    Transform,
    Translation,
    rate_matrix,
)
from tiburon.spatial import vec3 as three

ANGLE, DISTANCE = 0.7, 0.3


def named(values, name):
    """Return counted inputs with the given values, one for each nonzero number."""
    return [variable(x, f"{name}{i}") if x != 0.0 else 0.0 for i, x in enumerate(values)]


def turn(axis, varies=True):
    """Return a turn with a variable angle, or with one known beforehand."""
    c, s = np.cos(ANGLE), np.sin(ANGLE)
    if varies:
        return AxisRotation(axis, variable(c, "c"), variable(s, "s"))
    return AxisRotation(axis, float(c), float(s))


def slide(axis):
    """Return a move along an axis by a distance known beforehand."""
    return Translation(tuple(DISTANCE if k == axis else 0.0 for k in range(3)))


def z_screw(varies=True):
    """Return the screw of a revolute joint."""
    return Transform((turn(2, varies), slide(2)))


def mdh():
    """Return modified Denavit-Hartenberg moves, of which the angle about z is variable."""
    return Transform((slide(0), turn(0, False), turn(2), slide(2)))


def numeric(transform):
    """Return the same transform on floats."""
    factors = [
        AxisRotation(f.axis, number(f.cosine), number(f.sine)) if isinstance(f, AxisRotation) else f
        for f in transform
    ]
    return Transform(tuple(factors))


@pytest.fixture
def rng():
    """Return a seeded source of random numbers."""
    return np.random.default_rng(11)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_planar_rotation_of_a_vector_takes_4_and_2(axis, rng):
    """Published [4M, 2A] (A.9), either way."""
    a = tuple(named(rng.normal(size=3), "a"))
    assert count(turn(axis).direction(a)) == (4, 2)
    assert count(turn(axis).direction_to_parent(a)) == (4, 2)


def test_mdh_rotation_of_a_vector_takes_8_and_4(rng):
    """Published [8M, 4A]; the dense product needs [9M, 6A] and [4M] to form it."""
    a = tuple(named(rng.normal(size=3), "a"))
    rotation = Transform((turn(0, False), turn(2)))
    assert count(rotation.direction(a)) == (8, 4)
    assert count(rotation.direction_to_parent(a)) == (8, 4)


def test_planar_screw_of_a_vector_takes_10_and_6(rng):
    """Published [10M, 6A] (A.12) for motions and forces, either way."""
    m = Motion.from_array(named(rng.normal(size=6), "m"))
    f = Force.from_array(named(rng.normal(size=6), "f"))
    X = z_screw()
    assert count(X.motion(m)) == count(X.motion_to_parent(m)) == (10, 6)
    assert count(X.force(f)) == count(X.force_to_parent(f)) == (10, 6)


def test_mdh_transform_of_a_vector_takes_20_and_12(rng):
    """Published [20M, 12A]."""
    m = Motion.from_array(named(rng.normal(size=6), "m"))
    f = Force.from_array(named(rng.normal(size=6), "f"))
    assert count(mdh().motion(m)) == (20, 12)
    assert count(mdh().force_to_parent(f)) == (20, 12)


def test_symmetric_planar_congruence_takes_8_and_8(rng):
    """Published [10M, 10A], [8M, 7A] for a constant angle; here [8M, 8A] and [8M, 7A]."""
    k = tuple(named(rng.normal(size=6), "k"))
    for axis in range(3):
        c, s = variable(0.6, "c"), variable(0.8, "s")
        assert count(three.rotate_symmetric_planar(axis, c, s, k)) == (8, 8)
        assert count(three.rotate_symmetric_planar(axis, 0.6, 0.8, k)) == (8, 7)


def test_symmetric_congruence_by_any_rotation_takes_33_and_26(rng):
    """Two products of three matrices take 45 and 30 if only distinct entries are formed."""
    k = tuple(named(rng.normal(size=6), "k"))
    R = tuple(tuple(named(row, f"r{i}")) for i, row in enumerate(rng.normal(size=(3, 3))))
    assert count(three.rotate_symmetric(R, k)) == (33, 26)
    turned = ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0))
    assert count(three.rotate_symmetric(turned, k)) == (0, 0)


def test_general_planar_congruence_takes_12_and_11(rng):
    """Published [14M, 12A], [12M, 12A] for a constant angle; here [12M, 11A] both times."""
    b = tuple(tuple(named(row, f"b{i}")) for i, row in enumerate(rng.normal(size=(3, 3))))
    for c, s in ((variable(0.6, "c"), variable(0.8, "s")), (0.6, 0.8)):
        rows = three.rotate_general_planar(2, c, s, b)
        assert count([x for row in rows for x in row]) == (12, 11)


def test_symmetric_6x6_screw_congruence_beats_the_published_count(rng):
    """Published [44M, 46A], constant [42M, 43A], x- and z-screw [86M, 89A]."""
    I = ArticulatedInertia.from_array(named(random_articulated(rng)[0], "I"))
    assert count(z_screw().inertia_to_parent(I)) == (38, 40)
    assert count(z_screw(varies=False).inertia_to_parent(I)) == (38, 39)
    assert count(mdh().inertia_to_parent(I)) == (76, 79)


def reflected(rng, axis):
    """Return an inertia with the zero row and column of a freed joint axis."""
    inertia, _ = random_articulated(rng)
    U = inertia.column(axis)
    matrix = inertia.reduce(U, U.array[axis]).matrix()
    matrix[axis, :] = matrix[:, axis] = 0.0
    plain = ArticulatedInertia.from_matrix(matrix)
    return ArticulatedInertia.from_array(named(plain, "N")), matrix


def test_reflected_inertia_of_a_revolute_joint_beats_the_published_count(rng):
    """K6: published z-screw [34M, 40A], then x-screw [36M, 31A], together [70M, 71A]."""
    N, _ = reflected(rng, axis=2)
    assert count(z_screw().inertia_to_parent(N)) == (28, 34)
    assert count(mdh().inertia_to_parent(N)) == (61, 61)


def test_reflected_inertia_of_a_prismatic_joint_beats_the_published_count(rng):
    """K6: published together [70M, 71A], recounted [68M, 68A]."""
    N, _ = reflected(rng, axis=5)
    X = Transform((slide(0), turn(0, False), turn(2, False)))
    X = X.then(Transform((Translation((0.0, 0.0, variable(DISTANCE, "d"))),)))
    assert count(X.inertia_to_parent(N)) == (61, 60)


def test_rigid_inertia_screw_beats_the_published_count(rng):
    """K7: published z-screw [17M, 21A] and [19M, 18A], constant [15M, 18A], MDH [32M, 39A]."""
    numbers = named(random_rigid(rng)[0], "I")
    free = RigidInertia.from_array(numbers)
    assert count(z_screw().inertia_to_parent(free)) == (16, 16)
    # the mass of a composite body is known beforehand, and so is its product with a distance
    known = RigidInertia.from_array([1.5, *numbers[1:]])
    assert count(z_screw(varies=False).inertia_to_parent(known)) == (15, 15)
    assert count(mdh().inertia_to_parent(known)) == (30, 31)


def test_rigid_inertia_through_a_sliding_joint_beats_the_published_count(rng):
    """K7: published [32M, 36A] for a prismatic joint."""
    numbers = named(random_rigid(rng)[0], "I")
    X = Transform((slide(0), turn(0, False), turn(2, False)))
    X = X.then(Transform((Translation((0.0, 0.0, variable(DISTANCE, "d"))),)))
    known = RigidInertia.from_array([1.5, *numbers[1:]])
    assert count(X.inertia_to_parent(known)) == (31, 30)


def test_bias_force_count(rng):
    """42M and 27A; the two steps I v, then v x*, take 42M and 30A."""
    I = RigidInertia.from_array(named(random_rigid(rng)[0], "I"))
    v = Motion.from_array(named(rng.normal(size=6), "v"))
    assert count(I.bias(v)) == (42, 27)
    assert count(v.cross_force(I.apply(v))) == (42, 30)


def test_gyroscopic_force_takes_27_and_15(rng):
    """Published beta [27M, 15A]."""
    I = RigidInertia.from_array(named(random_rigid(rng)[0], "I"))
    w = tuple(named(rng.normal(size=3), "w"))
    assert count(I.gyroscopic_force(w)) == (27, 15)


def test_rate_of_momentum_count(rng):
    """Published: Omega [6M, 9A], u [15M, 15A], n' [6M, 6A], f' [12M, 9A] (McMillan, Table 26)."""
    numbers = named(random_rigid(rng)[0], "I")
    w, wd, a = (tuple(named(rng.normal(size=3), name)) for name in ("w", "wd", "a"))
    Omega = rate_matrix(w, wd)
    assert count([x for row in Omega for x in row]) == (6, 9)
    # half the trace, and the three differences with it, belong to the body
    free = RigidInertia.from_array(numbers)
    assert count(free.rate_of_momentum(Omega, a)) == (39 + 1, 39 + 5)
    # the same motion in spatial accelerations takes more
    v, spatial = (Motion.from_array(named(rng.normal(size=6), name)) for name in ("v", "s"))
    assert count(free.apply(spatial) + free.bias(v)) == (66, 51)


def test_adding_a_rigid_to_an_articulated_inertia_takes_15_additions(rng):
    """The zeros of a rigid-body inertia are not added."""
    rigid = RigidInertia.from_array(named(random_rigid(rng)[0], "r"))
    other = ArticulatedInertia.from_array(named(random_articulated(rng)[0], "a"))
    assert count(other + rigid) == (0, 15)


def test_counted_values_equal_the_values_on_floats(rng):
    """The scalar that counts computes what floats compute, so the counts are of the right thing."""
    (m, _), (inertia, _), (rigid, _) = (
        random_motion(rng),
        random_articulated(rng),
        random_rigid(rng),
    )
    X = mdh()
    counted = X.motion(Motion.from_array(named(m, "m")))
    assert_close([number(x) for x in counted], numeric(X).motion(m).array)
    for kind, given in ((ArticulatedInertia, inertia), (RigidInertia, rigid)):
        moved = X.inertia_to_parent(kind.from_array(named(given, "I")))
        assert_close([number(x) for x in moved], numeric(X).inertia_to_parent(given).array)
