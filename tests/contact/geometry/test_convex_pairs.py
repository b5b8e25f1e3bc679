"""Boxes on boxes, capsules on boxes, ellipsoids, spheres at cylinders: known contacts."""

import itertools

import numpy as np
import pytest

from tests.contact.geometry.cases import random_pair, random_shape, rotation, tuples
from tests.tolerances import assert_close
from tiburon.contact.geometry.box_box import FACE_PREFERENCE, box_box
from tiburon.contact.geometry.capsule_box import capsule_box
from tiburon.contact.geometry.contact_geometry import NO_CONTACT, Placed
from tiburon.contact.geometry.ellipsoid_ellipsoid import ellipsoid_ellipsoid
from tiburon.contact.geometry.pairs import pair
from tiburon.contact.geometry.sphere_cylinder import sphere_cylinder
from tiburon.contact.geometry.sphere_ellipsoid import sphere_ellipsoid

UPRIGHT = np.eye(3)


def turn(axis, angle):
    c, s = np.cos(angle), np.sin(angle)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    R = np.eye(3)
    R[i, i], R[i, j], R[j, i], R[j, j] = c, -s, s, c
    return R


def existing(contacts):
    return [contact for contact in contacts if contact.gap < NO_CONTACT]


def seen_from(frame, contacts):
    """Return points of contacts in axes of a frame, sorted."""
    return np.array(sorted((frame.T @ c.point).round(9).tolist() for c in contacts))


@pytest.mark.parametrize("exchange", [False, True])
def test_a_box_on_a_larger_box_rests_on_its_four_corners(exchange):
    """Face on face, turned and tilted as a whole: four contacts at the corners, normal up."""
    R = rotation(np.random.default_rng(1))
    below = Placed(tuples(R), (0.0, 0.0, 0.0), (2.0, 2.0, 0.2))
    above = Placed(tuples(R @ turn(2, 0.3)), tuples(R @ [0.2, 0.1, 0.149]), (0.4, 0.6, 0.1))
    found = existing(box_box(above, below) if exchange else box_box(below, above))
    assert len(found) == 4
    corners = turn(2, 0.3) @ np.array([[x, y, 0.0] for x in (-0.2, 0.2) for y in (-0.3, 0.3)]).T
    expected = corners.T + np.array([0.2, 0.1, 0.0995])
    assert_close(seen_from(R, found), sorted(expected.round(9).tolist()), 1e-8)
    for contact in found:
        assert_close(contact.gap, -0.001)
        assert_close(R.T @ contact.normal, [0.0, 0.0, -1.0 if exchange else 1.0])


def test_crossed_beams_share_a_quadrilateral_and_turned_cubes_an_octagon():
    """The overlap of two faces is the polygon of contacts."""
    beam = (2.0, 0.2, 0.1)
    found = existing(
        box_box(
            Placed(tuples(UPRIGHT), (0.0, 0.0, 0.0), beam),
            Placed(tuples(turn(2, np.pi / 2)), (0.0, 0.0, 0.1), beam),
        )
    )
    assert_close(
        seen_from(UPRIGHT, found),
        [[-0.1, -0.1, 0.05], [-0.1, 0.1, 0.05], [0.1, -0.1, 0.05], [0.1, 0.1, 0.05]],
        1e-8,
    )
    cube = (1.0, 1.0, 1.0)
    found = existing(
        box_box(
            Placed(tuples(UPRIGHT), (0.0, 0.0, 0.0), cube),
            Placed(tuples(turn(2, np.pi / 4)), (0.0, 0.0, 1.0), cube),
        )
    )
    assert len(found) == 8
    radius = 0.5 / np.cos(np.pi / 8)
    assert_close([np.hypot(*c.point[:2]) for c in found], [radius] * 8)
    assert_close([c.gap for c in found], [0.0] * 8)


def test_equal_boxes_face_on_face_touch_at_their_corners():
    """Aligned to the last bit, and a rounding off."""
    rng = np.random.default_rng(7)
    for nudge in (0.0, 1e-17, -3e-17, 1e-12, *(1e-16 * rng.standard_normal(60))):
        one = Placed(tuples(UPRIGHT), (0.0, 0.0, 0.0), (0.4, 0.4, 0.4))
        two = Placed(tuples(turn(2, nudge)), (nudge, 0.0, 0.4), (0.4, 0.4, 0.4))
        found = existing(box_box(one, two))
        assert 4 <= len(found) <= 8
        assert_close([c.gap for c in found], [0.0] * len(found))
        corners = {tuple(np.round(c.point, 6).tolist()) for c in found}
        assert {(x, y, 0.2) for x in (-0.2, 0.2) for y in (-0.2, 0.2)} <= corners


def test_edges_cross_at_one_contact():
    """Two cubes, each on edge, at right angles: distance of the edges."""
    one = Placed(tuples(turn(0, np.pi / 4)), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    two = Placed(tuples(turn(1, np.pi / 4)), (0.1, 0.2, np.sqrt(2.0) - 0.01), (1.0, 1.0, 1.0))
    (found,) = existing(box_box(one, two))
    assert_close(found.gap, -0.01)
    assert_close(found.normal, [0.0, 0.0, 1.0])
    assert_close(found.point, [0.1, 0.0, np.sqrt(0.5) - 0.005])


def test_a_box_that_passes_beside_another_has_no_contact():
    """1 mm beside the edge, at the height of the face and below it: none with a gap below zero."""
    one = Placed(tuples(UPRIGHT), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    for z in (-0.4, 0.0, 0.6, 0.999, 1.2):
        two = Placed(tuples(UPRIGHT), (1.001, 0.0, z), (1.0, 1.0, 1.0))
        assert min(c.gap for c in box_box(one, two)) >= 0.001 - 1e-12


def test_a_capsule_lies_on_a_box_and_across_it():
    """Shorter than the box it touches at its ends, longer at the edges of the box."""
    R = rotation(np.random.default_rng(2))
    box = Placed(tuples(R), (0.1, 0.2, 0.3), (1.0, 0.6, 0.4))
    lying = R @ turn(1, np.pi / 2)
    for length, places in ((0.5, (-0.25, 0.25)), (3.0, (-0.5, 0.5))):
        center = R @ [0.0, 0.1, 0.2 + 0.05 + 0.01] + box.position
        found = existing(capsule_box(Placed(tuples(lying), tuples(center), (0.05, length)), box))
        assert_close([c.gap for c in found], [0.01] * len(found), 1e-9)
        seen = np.array([R.T @ (np.array(c.point) - box.position) for c in found])
        for place in places:
            assert np.abs(seen - [place, 0.1, 0.205]).max(axis=1).min() < 1e-9
        for contact in found:
            assert_close(R.T @ contact.normal, [0.0, 0.0, -1.0])


def test_a_tilted_capsule_keeps_contacts_at_both_ends():
    """Tilted by little angles either way; the gaps follow the tilt."""
    box = Placed(tuples(UPRIGHT), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    for angle in (-1e-3, -1e-8, 1e-8, 1e-3):
        R = turn(1, np.pi / 2 + angle)
        found = existing(capsule_box(Placed(tuples(R), (0.0, 0.0, 0.6), (0.1, 0.8)), box))
        gaps = sorted(c.gap for c in found)
        assert_close([gaps[0], gaps[-1]], [-0.4 * abs(np.sin(angle)), 0.4 * abs(np.sin(angle))])


def test_ellipsoid_distances_are_certified():
    """The gap along the normal is a lower bound, the distance of two points an upper one."""
    rng = np.random.default_rng(3)
    separated = 0
    for name in ("ellipsoid-ellipsoid", "sphere-ellipsoid"):
        for _ in range(200):
            one, two = random_pair(rng, name)
            (found,) = pair(*name.split("-")).function(one, two)
            n, ends = np.array(found.normal), []
            for shape, side in ((one, 1.0), (two, -1.0)):
                R, E = np.array(shape.rotation), np.array([*shape.size] * 3)[:3]
                m = E * (R.T @ n) * side
                ends.append(np.array(shape.position) + R @ (E * m) / np.linalg.norm(m))
            assert_close(found.gap, n @ (ends[1] - ends[0]))
            assert_close(found.point, 0.5 * (ends[0] + ends[1]))
            if found.gap > 0.0:
                separated += 1
                assert_close(found.gap, np.linalg.norm(ends[1] - ends[0]))
            # supports are parallel to the normal in overlap, too
            assert_close(ends[1] - ends[0], found.gap * n, 1e-9)
    assert separated > 200


def test_round_ellipsoids_are_spheres():
    """Equal half axes: the contact of spheres, with its curvature."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        one, two = random_pair(rng, "sphere-sphere")
        (expected,) = pair("sphere", "sphere").function(one, two)
        r1, r2 = one.size[0], two.size[0]
        round_two = two._replace(size=(r2, r2, r2))
        (a,) = sphere_ellipsoid(one, round_two)
        (b,) = ellipsoid_ellipsoid(one._replace(size=(r1, r1, r1)), round_two)
        for found in (a, b):
            assert_close(found.gap, expected.gap)
            assert_close(found.normal, expected.normal)
            assert_close(found.relative_curvature, expected.relative_curvature, 1e-10)
            assert_close(found.first_share, expected.first_share, 1e-10)


@pytest.mark.parametrize(
    ("center", "gap", "normal"),
    [
        ((0.6, 0.8, 0.1), 0.5, (-0.6, -0.8, 0.0)),  # mantle
        ((0.1, 0.2, -0.9), 0.3, (0.0, 0.0, 1.0)),  # end face
        ((0.7, 0.0, 0.9), 0.4, (-0.6, 0.0, -0.8)),  # rim
        ((0.3, 0.0, 0.1), -0.2, (-1.0, 0.0, 0.0)),  # inside, mantle
        ((0.1, 0.0, 0.4), -0.2, (0.0, 0.0, -1.0)),  # inside, end face
        ((0.0, 0.0, 0.0), -0.5, (-1.0, 0.0, 0.0)),  # on the axis
    ],
)
def test_sphere_at_the_features_of_a_cylinder(center, gap, normal):
    """A sphere of 0.1 m at a cylinder of radius 0.4 m and length 1 m, in a tilted frame."""
    R = rotation(np.random.default_rng(5))
    cylinder = Placed(tuples(R), (1.0, 2.0, 3.0), (0.4, 1.0))
    ball = Placed(tuples(UPRIGHT), tuples(R @ center + cylinder.position), (0.1,))
    (found,) = sphere_cylinder(ball, cylinder)
    assert_close(found.gap, gap)
    assert_close(R.T @ found.normal, normal)


def test_sphere_at_a_thin_long_cylinder_is_at_a_capsule():
    """Beside the mantle both are the same, with equal curvature."""
    rng = np.random.default_rng(6)
    for _ in range(20):
        ball, tube = random_shape(rng, "sphere"), random_shape(rng, "capsule")
        tube = tube._replace(size=(tube.size[0], 5.0))
        (a,) = pair("sphere", "capsule").function(ball, tube)
        (b,) = pair("sphere", "cylinder").function(ball, tube)
        if a.gap > -ball.size[0]:
            assert_close(b.gap, a.gap)
            assert_close(b.relative_curvature, a.relative_curvature, 1e-10)
            assert_close(b.first_share, a.first_share, 1e-10)


def test_a_cylinder_stands_and_lies_on_a_box():
    """Standing it has three contacts on its rim beside the closest one, lying two at its ends."""
    R = rotation(np.random.default_rng(8))
    box = Placed(tuples(R), (0.1, 0.2, 0.3), (2.0, 2.0, 0.4))
    for tilt, height in ((UPRIGHT, 0.3), (turn(0, np.pi / 2), 0.15)):
        center = R @ [0.1, -0.2, 0.2 + height - 0.001] + box.position
        cylinder = Placed(tuples(R @ tilt), tuples(center), (0.15, 0.6))
        found = [c for c in pair("box", "cylinder").function(box, cylinder) if c.gap < 0.01]
        assert len(found) == (4 if height == 0.3 else 3)
        assert_close([c.gap for c in found], [-0.001] * len(found), 2e-8)
        for contact in found:
            assert_close(R.T @ contact.normal, [0.0, 0.0, 1.0], 1e-7)
        seen = np.array([R.T @ (np.array(c.point) - box.position) for c in found])
        # the closest contact is inside the patch, the others around it
        assert_close(seen[1:].mean(axis=0)[:2], [0.1, -0.2], 1e-7)
        assert np.abs(seen[0][:2] - [0.1, -0.2]).max() < 0.1


def test_a_box_lies_on_the_end_of_a_cylinder_and_cylinders_stack():
    """Corners of the box carry it; the rim of the smaller cylinder carries that."""
    drum = Placed(tuples(UPRIGHT), (0.0, 0.0, 0.0), (1.0, 0.5))
    plate = Placed(tuples(turn(2, 0.4)), (0.1, 0.1, 0.3), (0.5, 0.6, 0.1))
    found = [c for c in pair("box", "cylinder").function(plate, drum) if abs(c.gap) < 1e-3]
    assert len(found) == 5
    assert_close([c.gap for c in found], [0.0] * 5, 2e-8)
    can = Placed(tuples(turn(2, 0.4)), (0.1, 0.1, 0.35), (0.3, 0.2))
    found = [c for c in pair("cylinder", "cylinder").function(can, drum) if abs(c.gap) < 1e-3]
    assert len(found) == 4
    assert_close([c.gap for c in found], [0.0] * 4, 2e-8)
    log = turn(0, np.pi / 2)
    one = Placed(tuples(log), (0.0, 0.0, 0.0), (0.2, 1.0))
    two = Placed(tuples(log), (0.0, 0.3, 0.5), (0.3, 1.0))
    for name in ("cylinder-cylinder", "capsule-cylinder"):
        found = [c for c in pair(*name.split("-")).function(one, two) if abs(c.gap) < 1e-3]
        places = sorted(round(c.point[1], 6) for c in found)
        assert places[0] <= -0.2
        assert places[-1] == 0.5
        assert_close([c.gap for c in found], [0.0] * len(found), 2e-8)


def enclosed_area(points):
    """Return the area of the convex hull of points in a plane."""
    from_center = points - points.mean(axis=0)
    order = np.argsort(np.arctan2(from_center[:, 1], from_center[:, 0]))
    x, y = points[order].T
    return 0.5 * abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))


@pytest.mark.parametrize("size", [1e-4, 2e-6, 1e-6, 3e-7, 1e-9, 1e-12, 1e-15])
def test_nearly_aligned_boxes_of_equal_size_lose_no_corner(size):
    """Turned, shifted, tilted by small amounts and by right angles: the contacts span the face."""
    rng = np.random.default_rng(12)
    right = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    for k in range(16):
        base, place = rotation(rng), rng.uniform(-0.3, 0.3, 3)
        a, b, c, x, y = size * rng.uniform(-1.0, 1.0, 5)
        b, c = (b, c) if k % 3 == 0 else (0.0, 0.0)
        small = np.array([[1.0, -a, b], [a, 1.0, c], [-b, -c, 1.0]]) @ (
            right if k % 2 else np.eye(3)
        )
        boxes = [
            Placed(tuples(base), tuples(place), (0.1, 0.1, 0.1)),
            Placed(
                tuples(base @ small), tuples(place + base @ [0.1 * x, 0.1 * y, 0.1]), (0.1,) * 3
            ),
        ]
        found = pair("box", "box").function(*(boxes if k % 4 else boxes[::-1]))
        points = np.array([c.point for c in found if c.gap < NO_CONTACT])
        area = enclosed_area(((points - place) @ base)[:, :2])
        assert abs(area - 0.01) < 0.01 * (1e-6 + 10 * size)


def segment_distance(a, u, b, v):
    """Return the distance of segments a + s u and b + t v, s and t from 0 to 1 (Ericson 2005)."""
    A, e, c, f, w = u @ u, v @ v, u @ v, v @ (a - b), u @ (a - b)
    s = np.clip((c * f - w * e) / max(A * e - c * c, 1e-300), 0.0, 1.0)
    t = (c * s + f) / e
    if not 0.0 <= t <= 1.0:
        t = np.clip(t, 0.0, 1.0)
        s = np.clip((c * t - w) / A, 0.0, 1.0)
    return np.linalg.norm(a + s * u - b - t * v)


def test_gaps_of_boxes_that_are_apart_are_their_distance():
    """Random boxes, every third pair with parallel edges; all edges, and corners over faces."""
    rng = np.random.default_rng(14)
    signs = np.array(list(itertools.product((-0.5, 0.5), repeat=3)))
    pairs = itertools.combinations(range(8), 2)
    ends = [(i, j) for i, j in pairs if np.sum(signs[i] != signs[j]) == 1]
    compared, found = 0, []
    for number in range(150):
        boxes = list(random_pair(rng, "box-box"))
        if number % 3 == 0:
            boxes[0] = boxes[0]._replace(rotation=boxes[1].rotation)
        contacts = box_box(*boxes)
        corners = [
            signs * box.size @ np.transpose(box.rotation) + np.array(box.position) for box in boxes
        ]
        distance = np.inf
        for one, two in (boxes, boxes[::-1]):
            local = (corners[boxes.index(two)] - one.position) @ np.array(one.rotation)
            beyond = np.abs(local) - 0.5 * np.array(one.size)
            distance = min(distance, np.linalg.norm(np.maximum(beyond, 0.0), axis=1).min())
        for (i, j), (k, m) in itertools.product(ends, ends):
            a, b = corners
            distance = min(distance, segment_distance(a[i], a[j] - a[i], b[k], b[m] - b[k]))
        nearest = min(contacts, key=lambda contact: contact.gap)
        if nearest.gap < FACE_PREFERENCE * min(*boxes[0].size, *boxes[1].size):
            continue
        assert_close(nearest.gap, distance, 1e-9)
        # the closest points are on the boxes
        for box, side in zip(boxes, (-0.5, 0.5), strict=True):
            point = np.array(nearest.point) + side * nearest.gap * np.array(nearest.normal)
            local = np.abs((point - box.position) @ np.array(box.rotation))
            assert np.max(local - 0.5 * np.array(box.size)) < 1e-6
        compared += 1
        found.append(len(existing(contacts)))
    assert compared > 100
    # faces and closest points
    assert 1 in found
    assert max(found) > 1
