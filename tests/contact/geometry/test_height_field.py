"""Terrain: distances to a mesh of triangles, flat grids, tile edges, valleys, borders."""

import itertools

import numpy as np
import pytest

from tests.contact.geometry.cases import (
    Terrain,
    flat,
    kernel,
    random_shape,
    rotation,
    tuples,
    unflat,
)
from tests.tolerances import assert_close
from tiburon.contact.geometry.contact_geometry import NO_CONTACT, Placed
from tiburon.contact.geometry.height_field import (
    Reach,
    is_over_grid,
    placed_field,
    reach_of,
    terrain_contacts,
)
from tiburon.contact.geometry.pairs import pair
from tiburon.errors import ShapeError
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.spatial import axis_angle_to_matrix
from tiburon.trace import Input, trace
from tiburon.trace.primitives.grid_patch import read_patch

UPRIGHT = tuples(np.eye(3))


def field_of(heights, spacing=(0.5, 0.4), origin=(-1.0, -1.0)):
    return Terrain(heights, spacing, origin)


def ball(center, radius=0.1):
    return Placed(UPRIGHT, tuples(center), (radius,))


def triangles(heights, spacing):
    """Return all triangles, in axes of the field."""
    rows, columns = heights.shape
    for i, j in itertools.product(range(rows - 1), range(columns - 1)):
        corner = {
            (a, b): np.array([(i + a) * spacing[0], (j + b) * spacing[1], heights[i + a, j + b]])
            for a in (0, 1)
            for b in (0, 1)
        }
        yield np.array([corner[0, 0], corner[1, 0], corner[1, 1]])
        yield np.array([corner[0, 0], corner[0, 1], corner[1, 1]])


def distance_to_triangle(point, triangle):
    """Return the distance by brute force: the face where the foot is inside, else the edges."""
    a, b, c = triangle
    n = np.cross(b - a, c - a)
    n /= np.linalg.norm(n)
    foot = point - n * ((point - a) @ n)
    weights = np.linalg.lstsq(np.vstack([triangle.T, np.ones(3)]), [*foot, 1.0], rcond=None)[0]
    if weights.min() >= 0.0:
        return np.linalg.norm(point - foot)
    found = []
    for p, q in ((a, b), (b, c), (c, a)):
        s = np.clip((point - p) @ (q - p) / ((q - p) @ (q - p)), 0.0, 1.0)
        found.append(np.linalg.norm(point - p - s * (q - p)))
    return min(found)


def height_at(heights, spacing, x, y):
    """Return the height of the terrain at places, as DynaMechs interpolates it."""
    i, j = np.floor(x / spacing[0]).astype(int), np.floor(y / spacing[1]).astype(int)
    t, u = x / spacing[0] - i, y / spacing[1] - j
    z, end = heights[i, j], heights[i + 1, j + 1]
    one, other = heights[i + 1, j], heights[i, j + 1]
    return np.where(
        t > u, z + t * (one - z) + u * (end - one), z + u * (other - z) + t * (end - other)
    )


@pytest.mark.parametrize("reach", [1, 2])
def test_the_gap_is_the_distance_to_the_nearest_triangle(reach):
    """Random terrain, points above it within the range where gaps are exact."""
    rng = np.random.default_rng(1)
    heights, spacing = rng.uniform(-0.2, 0.2, (8, 9)), (0.5, 0.4)
    holder = field_of(heights, spacing, (0.0, 0.0))
    mesh = list(triangles(heights, spacing))
    compared = 0
    for _ in range(60):
        x, y = rng.uniform(1.0, 2.3, 2)
        center = np.array([x, y, height_at(heights, spacing, x, y) + rng.uniform(0.0, 0.5)])
        near = [t for t in mesh if np.abs(t.mean(axis=0) - center)[:2].max() < 1.0]
        truth = min(distance_to_triangle(center, triangle) for triangle in near)
        if truth > (reach - 0.5) * 0.4:
            continue
        (found,) = terrain_contacts(tuple(center), 0.0, holder.placed, 1, reach)
        assert_close(found.gap, truth)
        assert_close(center + truth * np.array(found.normal) / 2.0, found.point)
        compared += 1
    assert compared > 25


def test_a_flat_grid_is_a_plane():
    """All kinds on level and tilted flat grids: equal to the contact with a plane to 1e-12."""
    rng = np.random.default_rng(2)
    tilted = 0.3 * np.arange(9)[:, None] * 0.5 - 0.2 * np.arange(9)[None, :] * 0.5
    for heights, slopes in ((np.full((9, 9), 0.25), (0.0, 0.0)), (tilted, (0.3, -0.2))):
        R = rotation(rng)
        holder = field_of(heights, (0.5, 0.5), (0.0, 0.0))
        field = holder.placed._replace(rotation=tuples(R), position=(0.3, 0.1, 0.2))
        z = np.array([-slopes[0], -slopes[1], 1.0])
        z /= np.linalg.norm(z)
        x = np.cross([0.0, 1.0, 0.0], z)
        x /= np.linalg.norm(x)
        axes = R @ np.column_stack([x, np.cross(z, x), z])
        start = R @ [0.0, 0.0, heights[0, 0]] + field.position
        plane = Placed(tuples(axes), tuples(start))
        for _ in range(40):
            place = R @ [*rng.uniform(1.5, 2.5, 2), 0.0] + start
            height = z @ (R.T @ (place - start))
            center = place + axes[:, 2] * (rng.uniform(-0.05, 0.3) - height)
            shape = Placed(tuples(rotation(rng)), tuples(center), (0.15,))
            first, *others = pair("sphere", "height field").function(shape, field)
            (expected,) = pair("sphere", "plane").function(shape, plane)
            assert_close(first.gap, expected.gap)
            assert_close(first.normal, expected.normal)
            assert_close(first.point, expected.point)
            smooth, *none = pair("sphere", "smooth height field").function(shape, field)
            assert all(other.gap == NO_CONTACT for other in none)
            assert_close(smooth.gap, expected.gap)
            assert_close(smooth.normal, expected.normal)
            assert_close(smooth.point, expected.point)
            for other in others:
                # on a tile edge two tiles hold the foot; both give the same contact
                assert other.gap == NO_CONTACT or abs(other.gap - first.gap) < 1e-12


def test_sliding_ball_is_not_disturbed_by_tile_edges():
    """Over coplanar tiles the normal keeps its bits, at edges and corners of tiles, too."""
    holder = field_of(np.zeros((9, 9)), (0.5, 0.5), (0.0, 0.0))
    for x in np.linspace(1.0, 2.0, 41):
        for y in (1.0, 1.3, 1.5, x):
            found = pair("sphere", "height field").function(ball((x, y, 0.1)), holder.placed)
            assert found[0].normal == (0.0, 0.0, -1.0)
            assert abs(found[0].gap) < 1e-15
            assert not np.any(found[0].relative_curvature)


def test_a_ball_in_a_valley_touches_both_sides():
    """Two slopes of 45 degrees that meet along y, and along the diagonal of cells."""
    i, j = np.meshgrid(np.arange(9), np.arange(9), indexing="ij")
    r = 0.1
    along_y = field_of(0.5 * np.abs(i - 4), (0.5, 0.5), (0.0, 0.0))
    first, second, _ = pair("sphere", "height field").function(
        ball((2.0, 1.7, r * np.sqrt(2.0)), r), along_y.placed
    )
    assert_close([first.gap, second.gap], [0.0, 0.0])
    assert_close(sorted([first.normal[0], second.normal[0]]), np.sqrt([0.5, 0.5]) * [-1, 1])
    diagonal = field_of(np.abs(i - j) * 0.5, (0.5, 0.5), (0.0, 0.0))
    slope = np.array([-1.0, 1.0, 1.0]) / np.sqrt(3.0)
    first, second, _ = pair("sphere", "height field").function(
        ball((2.2, 2.2, r / slope[2]), r), diagonal.placed
    )
    assert_close([first.gap, second.gap], [0.0, 0.0])
    assert_close(np.abs([first.normal, second.normal]), np.abs([slope, slope]))
    assert_close(np.dot(first.normal, second.normal), -1.0 / 3.0)


def test_a_ball_on_a_ridge_touches_its_edge_and_on_a_peak_its_vertex():
    """The distance to an edge, with the curvature of a cylinder, and to a vertex."""
    i, j = np.meshgrid(np.arange(9), np.arange(9), indexing="ij")
    ridge = field_of(-0.5 * np.abs(i - 4), (0.5, 0.5), (0.0, 0.0))
    edge, *rest = pair("sphere", "height field").function(ball((2.03, 1.7, 0.12)), ridge.placed)
    distance = np.hypot(0.03, 0.12)
    assert_close(edge.gap, distance - 0.1)
    assert_close(edge.normal, np.array([-0.03, 0.0, -0.12]) / distance)
    assert_close(np.linalg.eigvalsh(edge.relative_curvature), [0.0, 0.0, 1.0 / distance])
    assert all(contact.gap == NO_CONTACT for contact in rest)
    peak = field_of(-0.5 * np.maximum(np.abs(i - 4), np.abs(j - 4)), (0.5, 0.5), (0.0, 0.0))
    vertex, *_ = pair("sphere", "height field").function(ball((2.02, 2.01, 0.12)), peak.placed)
    distance = np.sqrt(0.02**2 + 0.01**2 + 0.12**2)
    assert_close(vertex.gap, distance - 0.1)
    eigenvalues = np.linalg.eigvalsh(vertex.relative_curvature)
    assert_close(eigenvalues, [0.0, 1.0 / distance, 1.0 / distance])


def test_terrain_is_level_beyond_its_border():
    """Heights of the border continue; the grid's extent is available."""
    heights = np.zeros((4, 5))
    heights[-1] = 0.3
    holder = field_of(heights, (0.5, 0.4), (0.0, 0.0))
    (found,) = terrain_contacts((30.0, -20.0, 1.0), 0.0, holder.placed, 1)
    assert_close(found.gap, 0.7)
    assert not is_over_grid((30.0, -20.0, 1.0), holder.placed)
    assert is_over_grid((0.7, 0.8, 1.0), holder.placed)


def test_penetrating_centers_have_negative_gaps():
    """A center below the ground, at any depth within reach."""
    rng = np.random.default_rng(5)
    heights, spacing = rng.uniform(-0.2, 0.2, (8, 9)), (0.5, 0.4)
    holder = field_of(heights, spacing, (0.0, 0.0))
    for _ in range(100):
        x, y = rng.uniform(1.0, 2.3, 2)
        center = (x, y, height_at(heights, spacing, x, y) - rng.uniform(1e-9, 1.0))
        for contact in pair("sphere", "height field").function(ball(center), holder.placed):
            assert contact.gap < -0.1 or contact.gap == NO_CONTACT
            assert contact.normal[2] < 0.0


def test_each_case_of_a_batch_has_its_own_grid():
    """The address of the heights is a run-time value."""
    fields = [field_of(np.full((5, 5), h)) for h in (0.1, 0.2, 0.3)]
    shape = flat(ball((0.0, 0.0, 1.0)))
    found = kernel("sphere-height field")(
        np.array([shape] * 3), np.array([flat(field.placed) for field in fields])
    )
    assert_close(np.asarray(found)[:, 0], [0.8, 0.7, 0.6])


def test_corners_of_boxes_and_ends_of_capsules_meet_the_terrain():
    """On flat ground: the contacts of the plane."""
    rng = np.random.default_rng(6)
    holder = field_of(np.zeros((9, 9)), (1.0, 1.0), (-4.0, -4.0))
    plane = Placed(UPRIGHT, (0.0, 0.0, 0.0))
    box = random_shape(rng, "box")
    there = pair("box", "height field").function(box, holder.placed)
    expected = pair("box", "plane").function(box, plane)
    # of opposite corners the nearer one comes first
    pairs = [sorted((expected[k], expected[7 - k]), key=lambda c: c.gap) for k in range(4)]
    expected = [one for one, _ in pairs] + [other for _, other in pairs]
    assert_close([c.gap for c in there], [c.gap for c in expected])
    assert_close([c.point for c in there], [c.point for c in expected])
    capsule = random_shape(rng, "capsule")
    there = pair("capsule", "height field").function(capsule, holder.placed)
    expected = pair("capsule", "plane").function(capsule, plane)
    assert_close([c.gap for c in there[:4:2]], [c.gap for c in expected])
    assert all(c.gap == NO_CONTACT for c in there[4:])


def test_reach_covers_the_radius():
    """(reach - 1/2) spacing exceeds the radius."""
    for radius in (0.0, 0.1, 0.24, 0.25, 0.26, 0.5, 0.75, 2.0):
        reach = reach_of(radius, (0.5, 0.7))
        assert (reach - 0.5) * 0.5 > radius >= (reach - 1.5) * 0.5


def test_bad_input_is_refused():
    """A handle has three numbers: other ones would read arbitrary memory."""
    with pytest.raises(ShapeError, match=r"handle of the ground's heights: expected 3 numbers"):
        placed_field((0.0,) * 6, ())
    with pytest.raises(ShapeError, match=r"handle of a grid: expected 3 numbers, got 2"):
        read_patch(3, (0.0, 1.0), 0.0, 0.0)


def test_smooth_terrain_reproduces_a_paraboloid():
    """On z = -(a x^2 + b y^2)/2 a center on the normal at a point has its distance as gap."""
    rng = np.random.default_rng(7)
    a, b = 0.4, -0.3
    x = -4.0 + 0.5 * np.arange(17)
    heights = -0.5 * (a * x[:, None] ** 2 + b * x[None, :] ** 2)
    holder = field_of(heights, (0.5, 0.5), (-4.0, -4.0))
    for _ in range(30):
        px, py = rng.uniform(-2.0, 2.0, 2)
        foot = np.array([px, py, -0.5 * (a * px**2 + b * py**2)])
        n = np.array([a * px, b * py, 1.0])
        n /= np.linalg.norm(n)
        distance = rng.uniform(-0.2, 0.8)
        found, *none = pair("sphere", "smooth height field").function(
            ball(foot + distance * n, 0.3), holder.placed
        )
        assert all(other.gap == NO_CONTACT for other in none)
        assert_close(found.gap, distance - 0.3)
        assert_close(found.normal, -n)
    top, *_ = pair("sphere", "smooth height field").function(ball((0.0, 0.0, 0.5)), holder.placed)
    # principal curvatures k of the terrain: k / (1 + d k)
    assert_close(np.diag(top.relative_curvature), [a / (1 + 0.5 * a), b / (1 + 0.5 * b), 0.0])


def test_smooth_terrain_passes_through_the_heights():
    """Points on the grid touch; the normal is the same from all four cells around one."""
    rng = np.random.default_rng(8)
    heights = rng.uniform(-0.05, 0.05, (8, 8))
    holder = field_of(heights, (0.5, 0.4), (0.0, 0.0))
    for i, j in itertools.product(range(1, 7), repeat=2):
        point = np.array([0.5 * i, 0.4 * j, heights[i, j]])
        around = [
            pair("sphere", "smooth height field").function(
                ball(point + np.array([dx, dy, 0.0]), 0.0), holder.placed
            )[0]
            for dx in (-1e-9, 1e-9)
            for dy in (-1e-9, 1e-9)
        ]
        assert_close([c.gap for c in around], [0.0] * 4, 1e-8)
        assert_close([c.normal for c in around], [around[0].normal] * 4, 1e-7)


def test_triangle_behind_a_ridge_is_ignored():
    """Beside a ridge of 45 degrees, just above and just below its left slope."""
    i = np.meshgrid(np.arange(9), np.arange(9), indexing="ij")[0]
    ridge = field_of(-0.5 * np.abs(i - 4), (0.5, 0.5), (0.0, 0.0))
    n = np.array([-1.0, 0.0, 1.0]) / np.sqrt(2.0)
    on_slope = np.array([1.96, 1.7, -0.04])
    for distance in (0.02, 1e-9, -1e-9, -0.01):
        found = terrain_contacts(tuple(on_slope + distance * n), 0.0, ridge.placed, 3)
        assert_close(found[0].gap, distance)
        assert_close(found[0].normal, -n)
        assert [one.gap for one in found[1:]] == [NO_CONTACT] * 2


def test_a_large_ball_touches_what_is_far_from_its_center():
    """A ball of eight cells' radius between two peaks, against the distances to both."""
    heights = np.zeros((41, 41))
    heights[16, 20] = heights[25, 19] = 0.2
    holder = field_of(heights, (0.1, 0.1), (0.0, 0.0))
    r, center = 0.8, np.array([2.04, 1.96, 0.9])
    reach = reach_of(r, (0.1, 0.1))
    found = terrain_contacts(tuple(center), r, holder.placed, 3, reach)
    peaks = np.array([[1.6, 2.0, 0.2], [2.5, 1.9, 0.2]])
    expected = [*(np.linalg.norm(peaks - center, axis=1) - r), 0.1]
    assert_close(sorted(one.gap for one in found), sorted(expected))


def test_boxes_and_capsules_touch_peaks_and_ridges_between_their_corners():
    """A peak under a face, and a ridge of one long edge: the gap of the face above it."""
    heights = np.zeros((9, 9))
    heights[4, 4] = 0.1
    peak = field_of(heights, (0.5, 0.5), (0.0, 0.0))
    box = Placed(UPRIGHT, (2.1, 1.95, 0.2), (1.2, 1.2, 0.1))
    found = pair("box", "height field").function(box, peak.placed, Reach(1, 3))
    assert_close(min(c.gap for c in found), 0.05)
    lowest = min(found, key=lambda c: c.gap)
    assert_close(lowest.normal, [0.0, 0.0, -1.0])
    assert_close(lowest.point[:2], [2.0, 2.0])
    i = np.meshgrid(np.arange(9), np.arange(9), indexing="ij")[0]
    ridge = field_of(-0.5 * np.abs(i - 4), (0.5, 0.5), (0.0, 0.0))
    # across the ridge, between two vertices of it
    along_x = tuples([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
    capsule = Placed(along_x, (2.1, 1.7, 0.2), (0.05, 0.4))
    found = pair("capsule", "height field").function(capsule, ridge.placed, Reach(1, 1))
    lowest = min(found, key=lambda c: c.gap)
    assert_close(lowest.gap, 0.15)
    assert_close(lowest.point[:2], [2.0, 1.7])


def test_a_box_touches_a_ridge_between_vertices():
    """Level on it, at both edges of the face and between; tilted, where the edges cross."""
    i = np.meshgrid(np.arange(9), np.arange(9), indexing="ij")[0]
    ridge = field_of(-0.5 * np.abs(i - 4), (0.5, 0.5), (0.0, 0.0))
    size, reach = (0.6, 0.2, 0.1), Reach(1, 2)
    # vertices of the ridge are at y = 1.5 and 2
    box = Placed(UPRIGHT, (2.05, 1.75, 0.1), size)
    found = pair("box", "height field").function(box, ridge.placed, reach)
    assert len(found) == 8
    touching = [c for c in found if c.gap < 0.06]
    assert_close([c.gap for c in touching], [0.05] * len(touching))
    assert_close([c.normal for c in touching], [[0.0, 0.0, -1.0]] * len(touching))
    places = [c.point[1] for c in touching]
    assert_close([min(places), max(places)], [1.65, 1.85])
    assert_close([c.point[0] for c in touching], [2.0] * len(touching))
    # rolled about x by 0.2: the lower edge of the box crosses the ridge
    c, s = np.cos(0.2), np.sin(0.2)
    rolled = Placed(tuples([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]]), (2.05, 1.75, 0.2), size)
    lowest = min(pair("box", "height field").function(rolled, ridge.placed, reach), key=gap_of)
    assert_close(lowest.gap, 0.2 - 0.1 * s - 0.05 * c)
    assert_close(lowest.normal, [0.0, 0.0, -1.0])
    assert_close(lowest.point[:2], [2.0, 1.75 - 0.1 * c + 0.05 * s])


def width(kind, placed, n):
    """Return how far a shape reaches from its center along unit vectors, shape (..., 3)."""
    local = n @ np.array(placed.rotation)
    if kind == "ellipsoid":
        return np.linalg.norm(local * placed.size, axis=-1)
    radius, length = placed.size
    return radius * np.hypot(local[..., 0], local[..., 1]) + 0.5 * length * np.abs(local[..., 2])


@pytest.mark.parametrize(
    ("kind", "size"), [("ellipsoid", (0.15, 0.1, 0.06)), ("cylinder", (0.1, 0.24))]
)
def test_round_shapes_touch_a_ridge_between_vertices(kind, size):
    """The gap is the largest separation from the line of the ridge, over all normals across it."""
    i = np.meshgrid(np.arange(9), np.arange(9), indexing="ij")[0]
    ridge = field_of(-0.5 * np.abs(i - 4), (0.5, 0.5), (0.0, 0.0))
    angles = np.linspace(-0.7, 0.7, 200001)
    n = np.stack([np.sin(angles), np.zeros_like(angles), np.cos(angles)], axis=1)
    rng = np.random.default_rng(3)
    for height in (0.2, 0.1, 0.08):
        # vertices of the ridge are at y = 1.5 and 2
        shape = Placed(tuples(rotation(rng)), (2.01, 1.75, height), size)
        apart = n @ (np.array(shape.position) - [2.0, 1.75, 0.0]) - width(kind, shape, n)
        nearest = apart.argmax()
        assert 0 < nearest < len(angles) - 1
        found = min(pair(kind, "height field").function(shape, ridge.placed), key=gap_of)
        # at the edge of a rim the separation has a kink between two of the angles
        assert_close(found.gap, apart[nearest], 1e-6)
        assert_close(found.normal, -n[nearest], 1e-4)
        assert_close(found.point[0] + 0.5 * found.gap * found.normal[0], 2.0, 1e-6)


def gap_of(contact):
    return contact.gap


def test_peaks_replace_corners_that_are_farther():
    """Four peaks below a face, and four corners of it: all eight are among the contacts."""
    heights = np.zeros((9, 9))
    heights[3:5, 3:5] = 0.1
    table = field_of(heights, (0.5, 0.5), (0.0, 0.0))
    box = Placed(UPRIGHT, (1.75, 1.75, 0.2), (1.2, 1.2, 0.16))
    found = pair("box", "height field").function(box, table.placed, Reach(1, 3))
    peaks = sorted(c.point[:2] for c in found if abs(c.gap - 0.02) < 1e-12)
    assert_close(peaks, [(1.5, 1.5), (1.5, 2.0), (2.0, 1.5), (2.0, 2.0)])
    # those of the lower corners, over slopes of 1 to 5 and less
    assert sum(0.03 < c.gap < 0.121 for c in found) == 4


def test_cylinders_and_ellipsoids_on_a_flat_grid_touch_as_on_a_plane():
    """The lowest gap, at any orientation; tilted ground, too."""
    rng = np.random.default_rng(9)
    level = field_of(np.zeros((9, 9)), (1.0, 1.0), (-4.0, -4.0))
    plane = Placed(UPRIGHT, (0.0, 0.0, 0.0))
    for kind in ("cylinder", "ellipsoid"):
        for _ in range(20):
            shape = random_shape(rng, kind)
            there = pair(kind, "height field").function(shape, level.placed)
            expected = pair(kind, "plane").function(shape, plane)
            assert_close(min(c.gap for c in there), min(c.gap for c in expected))
            lowest = min(there, key=lambda c: c.gap)
            assert_close(lowest.normal, [0.0, 0.0, -1.0])


def hills(rng):
    """Return smooth ground with radii of curvature above 0.5 m."""
    return field_of(rng.uniform(-0.05, 0.05, (9, 9)), (0.5, 0.5), (0.0, 0.0))


def test_ellipsoids_touch_smooth_ground_where_normals_agree():
    """The closest points are on both surfaces, with the normal of each; a ball is a ball."""
    rng = np.random.default_rng(10)
    ground = hills(rng)
    for _ in range(20):
        radii = rng.uniform(0.1, 0.3, 3)
        R, center = rotation(rng), np.array([*rng.uniform(1.0, 3.0, 2), rng.uniform(0.15, 0.4)])
        shape = Placed(tuples(R), tuples(center), tuples(radii))
        contacts = pair("ellipsoid", "smooth height field").function(shape, ground.placed)
        found = min(contacts, key=gap_of)
        n = np.array(found.normal)
        on_body = np.array(found.point) - 0.5 * found.gap * n
        local = R.T @ (on_body - center)
        assert_close(np.sum((local / radii) ** 2), 1.0, 1e-11)
        outward = R @ (local / radii**2)
        assert_close(outward / np.linalg.norm(outward), n, 1e-11)
        foot = ball(on_body + found.gap * n, 0.0)
        there, *_ = pair("sphere", "smooth height field").function(foot, ground.placed)
        assert_close(there.gap, 0.0, 1e-12)
        assert_close(there.normal, n, 1e-11)
        round_one = shape._replace(size=(0.2, 0.2, 0.2))
        found, expected = (
            min(pair(kind, "smooth height field").function(one, ground.placed), key=gap_of)
            for kind, one in (("ellipsoid", round_one), ("sphere", ball(center, 0.2)))
        )
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other, 1e-10)


def test_rims_of_cylinders_touch_smooth_ground_at_their_nearest_points():
    """Against the nearest of many points of each rim; on level ground as on a plane."""
    rng = np.random.default_rng(11)
    ground, level = hills(rng), field_of(np.zeros((9, 9)), (0.5, 0.5), (0.0, 0.0))
    plane = Placed(UPRIGHT, (0.0, 0.0, 0.0))
    angles = np.linspace(0.0, 2.0 * np.pi, 361)[:-1]
    for _ in range(3):
        R, center = rotation(rng), (*rng.uniform(1.5, 2.5, 2), 0.4)
        shape = Placed(tuples(R), tuples(center), (0.15, 0.3))
        found = pair("cylinder", "smooth height field").function(shape, ground.placed)
        for side in (-0.15, 0.15):
            ring = np.stack(
                [0.15 * np.cos(angles), 0.15 * np.sin(angles), np.full(360, side)], axis=1
            )
            points = np.array([flat(ball(np.array(center) + R @ point, 0.0)) for point in ring])
            gaps = kernel("sphere-smooth height field")(points, flat(ground.placed))[:, 0]
            # half a degree away, the gap of a rim of 0.15 m is 1e-5 m larger
            assert any(min(gaps) - 2e-5 < one.gap <= min(gaps) + 1e-12 for one in found[:5])
        on_level = pair("cylinder", "smooth height field").function(shape, level.placed)
        on_plane = pair("cylinder", "plane").function(shape, plane)
        for contact in on_plane[:2]:
            assert min(abs(one.gap - contact.gap) for one in on_level[:5]) < 1e-12
        lowest = [min(contacts, key=gap_of) for contacts in (on_level, on_plane)]
        assert_close(lowest[0].point, lowest[1].point, 1e-8)


def heights_at(heights, places):
    """Return heights by the cubics of Catmull and Rom through four heights along each axis."""
    first = np.floor(places).astype(int)
    powers = (places - first)[..., None] ** np.arange(4)
    basis = 0.5 * np.array([[0, 2, 0, 0], [-1, 0, 1, 0], [2, -5, 4, -1], [-1, 3, -3, 1]])
    weights = powers @ basis
    k = np.arange(-1, 3)
    patches = heights[(first[:, 0, None] + k)[:, :, None], (first[:, 1, None] + k)[:, None, :]]
    return np.einsum("na,nab,nb->n", weights[:, 0], patches, weights[:, 1])


@pytest.mark.parametrize(("kind", "size"), [("capsule", (0.15, 2.4)), ("box", (2.0, 1.6, 0.4))])
def test_hills_between_ends_and_corners_touch_bodies(kind, size):
    """A hill below the middle of a body, against the nearest of many points of the ground."""
    rng = np.random.default_rng(12)
    reach = Reach(1, reach_of(1.5, (0.5, 0.5)))
    places = np.linspace(-0.3, 0.3, 61)
    for _ in range(4):
        heights = np.zeros((13, 13))
        i, j = rng.integers(5, 8, 2)
        heights[i, j] = top = rng.uniform(0.2, 0.35)
        ground = field_of(heights, (0.5, 0.5), (0.0, 0.0))
        # nearly level, from deep in the hill to above it, which ends or corners do not reach
        w = np.array([*rng.uniform(-0.06, 0.06, 2), rng.uniform(-3.0, 3.0)])
        turn = np.linalg.norm(w)
        K = np.cross(np.eye(3), -w / turn)
        R = np.eye(3) + np.sin(turn) * K + (1.0 - np.cos(turn)) * K @ K
        if kind == "capsule":
            R = R @ np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
        thick = 0.15 if kind == "capsule" else 0.2
        peak = np.array([0.5 * i, 0.5 * j, top])
        center = peak + rng.uniform(-0.05, 0.05, 3) + np.array([0.0, 0.0, thick])
        shape = Placed(tuples(R), tuples(center), size)
        contacts = pair(kind, "smooth height field").function(shape, ground.placed, reach)
        found = min(contacts, key=gap_of)
        around = peak[:2] + np.array(list(itertools.product(places, places)))
        ground_points = np.column_stack([around, heights_at(heights, around / 0.5)])
        local = np.abs((ground_points - center) @ R)
        if kind == "capsule":
            local[:, 2] = np.maximum(local[:, 2] - 0.5 * size[1], 0.0)
            gaps = np.linalg.norm(local, axis=1) - size[0]
        else:
            gaps = np.max(local - 0.5 * np.array(size), axis=1)
        # 5 mm beside the nearest place: half of both curvatures, 5 top / 0.25 + 1 / 0.15 at most
        assert min(gaps) - 3.5e-4 < found.gap <= min(gaps) + 1e-12
        assert found.normal[2] < -0.9


@pytest.mark.parametrize("size", [(0.8, 0.2, 0.1), (0.3, 0.3, 0.3), (1.2, 0.5, 0.05)])
def test_edges_of_boxes_touch_ridges_of_smooth_ground(size):
    """A box is as high over random ridges as 10^4 points of its edges and faces allow."""
    rng = np.random.default_rng(3)
    spacing, middle, half = 0.25, 16, 0.5 * np.array(size)
    reach = Reach(1, reach_of(float(np.linalg.norm(half)), (spacing, spacing)))
    function = pair("box", "smooth height field").function

    def gaps(box, field):
        found = function(unflat(box), unflat(field), reach)
        return np.array([one.gap for one in found], like=box)

    inputs = [Input("box", (15,)), Input("field", (17,))]
    gaps_of = make_kernel(ProgramSource(trace(gaps, inputs, name="gaps_of_edges")))
    points = []
    for k, side in itertools.product(range(3), (-1.0, 1.0)):
        u, v = np.meshgrid(np.linspace(-1.0, 1.0, 50), np.linspace(-1.0, 1.0, 50))
        face = np.full((u.size, 3), side)
        face[:, k - 1], face[:, k - 2] = u.ravel(), v.ravel()
        points.append(face)
        for other in (-1.0, 1.0):
            edge = np.full((1000, 3), side)
            edge[:, k - 1], edge[:, k - 2] = other, np.linspace(-1.0, 1.0, 1000)
            points.append(edge)
    points = np.concatenate(points) * half
    i = spacing * (np.arange(33) - middle)
    missed = 0
    for _ in range(30):
        heading, offset = rng.uniform(0.0, np.pi), rng.uniform(-0.12, 0.12)
        across = np.cos(heading) * i[:, None] + np.sin(heading) * i[None, :] - offset
        top, width = rng.uniform(0.1, 0.4), spacing * rng.uniform(1.2, 3.0)
        heights = top * np.exp(-((across / width) ** 2))
        ground = field_of(heights, (spacing, spacing), (0.0, 0.0))
        w = np.array([*rng.uniform(-0.4, 0.4, 2), rng.uniform(-3.0, 3.0)])
        turn = float(np.linalg.norm(w))
        R = np.array(axis_angle_to_matrix(tuple(w / turn), turn))
        center = np.array([*(spacing * middle + rng.uniform(-0.3, 0.3, 2)), 0.0])
        places = points @ R.T + center
        above = places[:, 2] - heights_at(heights, places[:, :2] / spacing)
        center[2] = -above.min()
        found = gaps_of(flat(Placed(tuples(R), tuples(center), size)), flat(ground.placed))
        # what may be lower lies between the points, up to 12 mm beside them: half of the
        # curvature of the ground, 2 top / width^2 < 9 / m, times the square
        assert -7e-4 < min(found) < 1e-12
        missed += min(found[:4]) > 1e-3
    # the claim is not about corners
    assert missed > 5


def lower_side(R, center, half, places):
    """Return the height of the lower side of a box at places; infinite beside the box."""
    origin = np.column_stack([places, np.zeros(len(places))])
    low, high = np.full(len(places), -np.inf), np.full(len(places), np.inf)
    for k in range(3):
        offset, rate = (origin - center) @ R[:, k], R[2, k]
        ends = np.sort([(-half[k] - offset) / rate, (half[k] - offset) / rate], axis=0)
        low, high = np.maximum(low, ends[0]), np.minimum(high, ends[1])
    return np.where(low < high, low, np.inf)


@pytest.mark.parametrize("size", [(0.3, 0.2, 0.1), (0.2, 0.2, 0.2), (0.6, 0.05, 0.1)])
def test_boxes_touch_steep_triangles_with_all_edges(size):
    """At any attitude a box is as high as dense points of its edges and of the ground's allow.

    Where it sinks by 3 mm, it is that deep at most, and along the normal of some slope nearly so.
    """
    rng = np.random.default_rng(4)
    spacing, half = 0.15, 0.5 * np.array(size)
    reach = Reach(1, reach_of(float(np.linalg.norm(half)), (spacing, spacing)))
    function = pair("box", "height field").function

    def gaps(box, field):
        found = function(unflat(box), unflat(field), reach)
        return np.array([one.gap for one in found], like=box)

    inputs = [Input("box", (15,)), Input("field", (17,))]
    gaps_of = make_kernel(ProgramSource(trace(gaps, inputs, name="gaps_of_ridges")))
    along = np.linspace(-1.0, 1.0, 400)
    edges = []
    for k, i, j in itertools.product(range(3), (-1.0, 1.0), (-1.0, 1.0)):
        edge = np.empty((len(along), 3))
        edge[:, k], edge[:, k - 1], edge[:, k - 2] = along, i, j
        edges.append(edge)
    edges = np.concatenate(edges) * half
    fraction = np.linspace(0.0, 1.0, 100)
    i, j = np.indices((11, 11)).reshape(2, -1, 1) + 3
    missed = 0
    for _ in range(80):
        heights = rng.uniform(-0.2, 0.2, (17, 17))
        ground = field_of(heights, (spacing, spacing), (0.0, 0.0))
        R = rotation(rng)
        center = np.array([*(8 * spacing + rng.uniform(-0.1, 0.1, 2)), 0.0])
        places = edges @ R.T + center
        x, y, z = places.T
        above = [np.min(z - height_at(heights, (spacing, spacing), x, y))]
        for p, q in ((1, 0), (0, 1), (1, 1)):
            x, y = spacing * (i + p * fraction), spacing * (j + q * fraction)
            z = heights[i, j] + fraction * (heights[i + p, j + q] - heights[i, j])
            lower = lower_side(R, center, half, np.column_stack([x.ravel(), y.ravel()]))
            above.append(np.min(lower - z.ravel()))
        center[2] = -min(above)
        found = gaps_of(flat(Placed(tuples(R), tuples(center), size)), flat(ground.placed))
        # half the way between points, 1.5 mm on the edges of the box and 2 mm on the ground's,
        # where slopes differ by up to 4
        assert -8e-3 < min(found) < 1e-9
        missed += min(found[:4]) > 1e-3
        center[2] -= 3e-3
        found = gaps_of(flat(Placed(tuples(R), tuples(center), size)), flat(ground.placed))
        # slopes of up to 70 degrees
        assert -11e-3 < min(found) < -0.3 * 3e-3
    # the claim is not about corners
    assert missed > 10
