"""Contacts whose geometry is known in closed form."""

import numpy as np
import pytest

import tiburon as tb
from tests.contact.geometry.cases import random_shape, rotation, tuples
from tests.tolerances import assert_close
from tiburon.contact.geometry.bounds import (
    bounding_radius,
    earliest_contact,
)
from tiburon.contact.geometry.box_plane import box_plane
from tiburon.contact.geometry.capsule_capsule import capsule_capsule
from tiburon.contact.geometry.contact_geometry import Placed
from tiburon.contact.geometry.cylinder_plane import cylinder_plane
from tiburon.contact.geometry.ellipsoid_plane import ellipsoid_plane
from tiburon.contact.geometry.pairs import shape_kind, shape_size
from tiburon.contact.geometry.sphere_box import sphere_box
from tiburon.contact.geometry.sphere_capsule import sphere_capsule
from tiburon.contact.geometry.sphere_plane import sphere_plane
from tiburon.contact.geometry.sphere_sphere import sphere_sphere
from tiburon.model.body import (
    BoxShape,
    CapsuleShape,
    CylinderShape,
    EllipsoidShape,
    PlaneShape,
    SphereShape,
)
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.trace import Input, trace
from tiburon.trace.value import where

UPRIGHT = tuples(np.eye(3))


def slope(rng):
    """Return a tilted plane through a random point, and its outward normal."""
    R = rotation(rng)
    return Placed(tuples(R), tuples(rng.standard_normal(3))), R[:, 2]


def test_sphere_on_a_slope():
    """Gap = height of the center minus the radius; the point halves the closest points."""
    rng = np.random.default_rng(1)
    plane, z = slope(rng)
    center = np.array(plane.position) + 0.7 * z + np.cross(z, rng.standard_normal(3))
    (found,) = sphere_plane(Placed(UPRIGHT, tuples(center), (0.2,)), plane)
    assert_close(found.gap, 0.5)
    assert_close(found.normal, -z)
    assert_close(found.point, center - 0.45 * z)


def test_concentric_spheres_use_the_documented_normal():
    """Gap = minus the sum of the radii, normal +z."""
    ball = Placed(UPRIGHT, (0.3, 0.2, 0.1), (0.2,))
    (found,) = sphere_sphere(ball, ball)
    assert found.gap == -0.4
    assert found.normal == (0.0, 0.0, 1.0)
    assert_close(found.point, ball.position)


def test_parallel_capsules_touch_at_both_ends_of_their_overlap():
    """Shifted by 0.3 along their common axis, and one reversed: overlap of 0.1 to 0.4."""
    rng = np.random.default_rng(2)
    R = rotation(rng)
    flipped = R @ np.diag([1.0, -1.0, -1.0])
    for other in (R, flipped):
        one = Placed(tuples(R), (0.0, 0.0, 0.0), (0.1, 0.8))
        two = Placed(tuples(other), tuples(R @ [0.0, 0.25, 0.5]), (0.1, 0.8))
        found = capsule_capsule(one, two)
        places = sorted(float((R.T @ c.point)[2]) for c in found)
        assert_close(places, [0.1, 0.4])
        for contact in found:
            assert_close(contact.gap, 0.05)
            assert_close(R.T @ contact.normal, [0.0, 1.0, 0.0])


def test_nearly_parallel_capsules_keep_both_ends():
    """Tilted either way by little angles, the two points stay at the ends of the overlap."""
    one = Placed(UPRIGHT, (0.0, 0.0, 0.0), (0.1, 0.8))
    for angle in (-1e-3, -1e-9, 1e-12, 1e-6, 1e-3):
        c, s = np.cos(angle), np.sin(angle)
        R = np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
        two = Placed(tuples(R), (0.0, 0.2, 0.0), (0.1, 0.8))
        places = sorted(contact.point[2] for contact in capsule_capsule(one, two))
        assert_close(places, [-0.4, 0.4], 1e-3)


def test_crossing_axes_give_a_common_perpendicular():
    """Axes that intersect at an angle: gap = minus both radii, normal perpendicular to both."""
    R = np.array([[0.6, 0.0, 0.8], [0.0, 1.0, 0.0], [-0.8, 0.0, 0.6]])
    one = Placed(UPRIGHT, (0.0, 0.0, 0.0), (0.1, 0.8))
    (closest, _) = capsule_capsule(one, Placed(tuples(R), (0.0, 0.0, 0.0), (0.2, 0.8)))
    assert_close(closest.gap, -0.3)
    assert_close(np.abs(closest.normal), [0.0, 1.0, 0.0])


def test_sphere_beside_and_beyond_a_capsule():
    """The distance to a segment: beside it and past its end; on the axis, across it."""
    capsule = Placed(UPRIGHT, (0.0, 0.0, 0.0), (0.1, 1.0))
    (beside,) = sphere_capsule(Placed(UPRIGHT, (0.3, 0.4, 0.2), (0.1,)), capsule)
    assert_close(beside.gap, 0.3)
    assert_close(beside.normal, [-0.6, -0.8, 0.0])
    (beyond,) = sphere_capsule(Placed(UPRIGHT, (0.3, 0.0, 0.9), (0.1,)), capsule)
    assert_close(beyond.gap, 0.3)
    assert_close(beyond.normal, [-0.6, 0.0, -0.8])
    (inside,) = sphere_capsule(Placed(UPRIGHT, (0.0, 0.0, 0.2), (0.1,)), capsule)
    assert_close(inside.gap, -0.2)
    assert_close(inside.normal[2], 0.0)


@pytest.mark.parametrize(
    ("center", "gap", "normal"),
    [
        ((0.1, 0.2, 0.8), 0.2, (0.0, 0.0, -1.0)),  # face
        ((0.8, 0.1, 0.9), 0.4, (-0.6, 0.0, -0.8)),  # edge
        ((0.6, 0.7, 0.7), 0.2, (-1 / 3, -2 / 3, -2 / 3)),  # corner
        ((0.1, -0.4, 0.2), -0.2, (0.0, 1.0, 0.0)),  # inside, nearest face
        ((0.5, 0.1, 0.2), -0.1, (-1.0, 0.0, 0.0)),  # center on a face
    ],
)
def test_sphere_at_the_features_of_a_box(center, gap, normal):
    """A sphere of 0.1 m at a cube of 1 m, in a tilted frame."""
    R = rotation(np.random.default_rng(3))
    box = Placed(tuples(R), (1.0, 2.0, 3.0), (1.0, 1.0, 1.0))
    ball = Placed(UPRIGHT, tuples(R @ center + box.position), (0.1,))
    (found,) = sphere_box(ball, box)
    assert_close(found.gap, gap)
    assert_close(R.T @ found.normal, normal)


def test_box_on_its_face_has_four_equal_gaps():
    """A box lying on a slope: four corners at the gap of the face."""
    plane, z = slope(np.random.default_rng(4))
    box = Placed(plane.rotation, tuples(np.array(plane.position) + 0.31 * z), (0.4, 0.5, 0.6))
    gaps = sorted(contact.gap for contact in box_plane(box, plane))
    assert_close(gaps, [0.01] * 4 + [0.61] * 4)


def test_cylinder_standing_lying_and_tilted():
    """The smallest gap is the height of the lowest point; resting poses have enough of them."""
    rng = np.random.default_rng(5)
    plane, z = slope(rng)
    r, l = 0.2, 0.6
    base = np.array(plane.position) + z
    standing = cylinder_plane(Placed(plane.rotation, tuples(base), (r, l)), plane)
    fixed = [c for c in standing if abs(c.gap - 0.7) < 1e-12]
    assert len(fixed) == 4
    center = np.mean([c.point for c in fixed[-3:]], axis=0)
    assert_close(center, base - 0.3 * z - 0.35 * z)
    lying = np.array(plane.rotation)[:, [1, 2, 0]]
    gaps = sorted(c.gap for c in cylinder_plane(Placed(tuples(lying), tuples(base), (r, l)), plane))
    assert_close(gaps[:2], [0.8, 0.8])
    for _ in range(20):
        shape = random_shape(rng, "cylinder")
        u = np.array(shape.rotation)[:, 2]
        c = abs(u @ z)
        height = z @ (np.array(shape.position) - plane.position)
        lowest = height - shape.size[0] * np.sqrt(1.0 - c * c) - 0.5 * shape.size[1] * c
        assert_close(min(x.gap for x in cylinder_plane(shape, plane)), lowest)


def test_ellipsoid_rests_at_its_support_distance():
    """Gap = height minus |E m|, and a sphere is one."""
    rng = np.random.default_rng(6)
    plane, z = slope(rng)
    for _ in range(20):
        shape = random_shape(rng, "ellipsoid")
        m = np.array(shape.rotation).T @ z
        height = z @ (np.array(shape.position) - plane.position)
        (found,) = ellipsoid_plane(shape, plane)
        assert_close(found.gap, height - np.linalg.norm(np.array(shape.size) * m))
        ball = shape._replace(size=(0.2, 0.2, 0.2))
        (as_ellipsoid,) = ellipsoid_plane(ball, plane)
        (as_sphere,) = sphere_plane(ball._replace(size=(0.2,)), plane)
        assert_close(as_ellipsoid.point, as_sphere.point)


@pytest.mark.parametrize(
    ("geometry", "radius"),
    [
        (SphereShape(0.2), 0.2),
        (CapsuleShape(0.1, 0.6), 0.4),
        (CylinderShape(0.3, 0.8), 0.5),
        (BoxShape((0.4, 0.4, 0.2)), 0.3),
        (EllipsoidShape((0.1, 0.5, 0.2)), 0.5),
        (PlaneShape(), np.inf),
    ],
)
def test_bounding_radii(geometry, radius):
    """The farthest point of each shape from its origin."""
    kind, size = shape_kind(geometry), shape_size(geometry)
    assert bounding_radius(kind, size) == pytest.approx(radius)


def test_earliest_contact_of_moving_spheres():
    """At the root of |o + v t| = reach; a fast sphere that misses by 1 mm never touches."""
    hit = earliest_contact((3.0, 0.0, 0.0), (-300.0, 0.0, 0.0), 0.6, 0.01)
    assert (bool(hit.touches), hit.time) == (True, pytest.approx(0.008))
    miss = earliest_contact((3.0, 0.601, 0.0), (-300.0, 0.0, 0.0), 0.6, 0.01)
    assert (bool(miss.touches), miss.time) == (False, 0.01)
    apart = earliest_contact((3.0, 0.0, 0.0), (300.0, 0.0, 0.0), 0.6, 0.01)
    assert not apart.touches
    late = earliest_contact((3.0, 0.0, 0.0), (-3.0, 0.0, 0.0), 0.6, 0.01)
    assert (bool(late.touches), late.time) == (False, 0.01)
    resting = earliest_contact((0.5, 0.0, 0.0), (0.0, 0.0, 0.0), 0.6, 0.01)
    assert (bool(resting.touches), resting.time) == (True, 0.0)
    still = earliest_contact((0.7, 0.0, 0.0), (0.0, 0.0, 0.0), 0.6, 0.01)
    assert not still.touches


def test_earliest_contact_bounds_random_approaches():
    """At the time found the spheres touch, before it they do not."""
    rng = np.random.default_rng(8)
    touching = 0
    for _ in range(200):
        o = rng.standard_normal(3)
        v = rng.standard_normal(3) - 3.0 * o
        found = earliest_contact(tuple(o), tuple(v), 0.4, 1.0)
        before = np.linalg.norm(o + np.linspace(0.0, found.time, 50)[:-1, None] * v, axis=1)
        assert not found.time or (before > 0.4).all()
        if found.touches and found.time > 0.0:
            touching += 1
            assert_close(np.linalg.norm(o + found.time * v), 0.4, 1e-9)
    assert touching > 20


def test_earliest_contacts_are_traced():
    """A kernel has the values of the float function, for hits, misses and rest."""

    def approach(offset, velocity, reach):
        found = earliest_contact(tuple(offset), tuple(velocity), reach, 0.5)
        return np.array([found.time, where(found.touches, 1.0, 0.0)])

    inputs = [Input("offset", (3,)), Input("velocity", (3,)), Input("reach", ())]
    run = make_kernel(ProgramSource(trace(approach, inputs, name="approach")))
    rng = np.random.default_rng(9)
    offsets = rng.standard_normal((50, 3))
    velocities = rng.standard_normal((50, 3)) - 2.0 * offsets
    velocities[:3], offsets[0] = 0.0, 0.0
    found = np.asarray(run(offsets, velocities, np.full(50, 0.4)))
    for o, v, row in zip(offsets, velocities, found, strict=True):
        assert_close(row, approach(tuple(o), tuple(v), 0.4).astype(float))
    assert 5 < found[:, 1].sum() < 45


def test_a_standing_cylinder_touches_with_its_rim_whatever_its_heading():
    """Tilted by rounding alone, either end down: no point is lower than the rim can be."""
    radius, length, count = 0.4, 0.2, 400
    rng = np.random.default_rng(0)
    yaw = rng.uniform(0.0, 2.0 * np.pi, count)
    tilt = 10.0 ** rng.uniform(-18.0, -12.0, (count, 2)) * rng.choice([-1.0, 1.0], (count, 2))
    c, s = np.cos(yaw / 2.0), np.sin(yaw / 2.0)
    shapes = (tb.Shape(tb.CylinderShape(radius, length)),)
    inertia = tb.Inertia.cylinder(1.0, radius, length)
    can = tb.Model("can", [tb.Body("can", joint=tb.Free("can"), inertia=inertia, shapes=shapes)])
    world = tb.World(ground=tb.Ground())
    for turn in (np.c_[c, tilt, s], np.c_[tilt[:, 0], c, s, tilt[:, 1]]):
        q = np.c_[turn, np.zeros((count, 2)), np.full(count, length / 2.0)]
        gap = tb.contacts(can, q, world=world).gap
        # a rim point is lower than the center of the end by the radius times the tilt, 2e-12
        np.testing.assert_allclose(gap.min(axis=-1), 0.0, atol=2.0 * radius * 2e-12)
