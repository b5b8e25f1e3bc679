"""Claims that hold for every pair of shapes: rates, exchange, frames, batches."""

import itertools

import numpy as np
import pytest

from tests.contact.geometry.cases import (
    NAMES,
    RANGES,
    batch,
    contacts,
    derivative,
    flat,
    kernel,
    moved,
    random_pair,
    random_shape,
    results,
    rotation,
    tuples,
    velocity_at,
    world_vertices,
)
from tests.tolerances import ALGEBRA, assert_close
from tiburon.contact.geometry.box_plane import box_corners
from tiburon.contact.geometry.contact_geometry import NO_CONTACT, Placed, exchanged, normal_rate
from tiburon.contact.geometry.pairs import KINDS, PAIRS, pair, shape_kind, shape_size
from tiburon.errors import ModelError, OptionError
from tiburon.model.body import BoxShape, CapsuleShape, MeshShape, PlaneShape
from tiburon.spatial import axis_angle_to_matrix

STEP = 1e-6
"""Time step of central differences [s]: rounding 1e-16 m / 1e-6 s, truncation 1e-12 times the third
derivative, which grows as the inverse cube of the distance of cores."""

RATE = 2e-6
"""Allowed error of these differences, relative to velocities of about 1 m/s."""


ROUNDED = {
    "capsule-ellipsoid",
    "box-ellipsoid",
    "cylinder-ellipsoid",
    "capsule-cylinder",
    "box-cylinder",
    "cylinder-cylinder",
    # ridges of the ground
    "cylinder-height field",
    "ellipsoid-height field",
}
"""Pairs whose edges are rounded by 1e-9 of their size."""

ROUNDED_TOLERANCE = 1e-7
"""Rounding of 1e-16 turns a surface of radius 1e-9 by 1e-7."""

ROUNDED_DEPTH = 0.02
"""Overlap up to which the normals of these pairs are found at all poses [m]: a fifth of the
smallest dimension."""


def allowed(name, tolerance=ALGEBRA):
    return max(tolerance, ROUNDED_TOLERANCE) if name in ROUNDED else tolerance


def function_of(name):
    return pair(*name.split("-")).function


def is_exact(name, contact, found, one, two):
    """Return whether the rate of a contact's gap is exact: not of points that slide on edges."""
    if contact.gap == NO_CONTACT or (name in ROUNDED and found[0].gap < -ROUNDED_DEPTH):
        return False
    if two.size and "hull" in name.split("-")[1:]:
        return is_exact_of_hulls(contact, one, two)
    if name != "box-box":
        return True
    cosines = np.abs([np.transpose(box.rotation) @ contact.normal for box in (one, two)])
    if cosines.max() < 1.0 - 1e-12:
        return True  # crossing edges
    corners = np.array([*box_corners(one), *box_corners(two)])
    ends = [
        np.array(contact.point) + s * contact.gap * np.array(contact.normal) for s in (-0.5, 0.5)
    ]
    return min(np.linalg.norm(corners - end, axis=1).min() for end in ends) < 1e-9


def is_exact_of_hulls(contact, one, two):
    """Return whether a contact is no corner that clipping makes, which slides over both bodies."""
    n, gap = np.array(contact.normal), contact.gap
    corners = [world_vertices(shape) for shape in (one, two)]
    out = [corners[0] @ n, -corners[1] @ n]
    flat = [(height > height.max() - 1e-9).sum() > 2 for height in out]
    ends = [
        np.array(contact.point) + s * (0.5 * gap + r) * n
        for s, r in zip((-1, 1), (one.size[5], two.size[5]), strict=True)
    ]
    is_corner = [
        np.linalg.norm(some - end, axis=1).min() < 1e-9
        for some, end in zip(corners, ends, strict=True)
    ]
    # a corner over a face of the other; edges and points have no face across the normal
    return (flat[0] and is_corner[1]) or (flat[1] and is_corner[0]) or not any(flat)


def values(contact):
    return np.array(results([contact]))


def aligned(rng, kind, turn):
    """Return a shape whose axes are those of the world but for a small angle, at round places."""
    shape = random_shape(rng, kind)
    w = turn * rng.standard_normal(3)
    angle = float(np.linalg.norm(w))
    rotation = np.eye(3) if angle == 0.0 else axis_angle_to_matrix(tuple(w / angle), angle)
    if "field" in kind:
        return shape._replace(rotation=tuples(rotation), position=(-4.0, -4.0, 0.0))
    size = shape.size if kind in RANGES else tuple(0.2 for _ in shape.size)
    position = tuples(0.1 * rng.integers(-2, 3, 3) + turn * rng.standard_normal(3))
    return Placed(tuples(rotation), position, size)


@pytest.mark.parametrize("name", NAMES)
def test_points_are_near_their_shapes(name):
    """Also those of contacts that do not exist: solvers multiply their rows of the Jacobian."""
    rng = np.random.default_rng(7)
    turns = np.repeat([0.0, 1e-16, 1e-15, 1e-13, 1e-11, 1e-8, 1e-4, 1.0], 12)
    pairs = [[aligned(rng, kind, turn) for kind in name.split("-")] for turn in turns]
    for turn, (one, two), found in zip(turns, pairs, contacts(name, pairs), strict=True):
        for contact in found:
            away = np.linalg.norm(np.subtract(contact.point, one.position))
            gap = 0.0 if contact.gap == NO_CONTACT else abs(contact.gap)
            # shapes are smaller than 1 m, and at most 4 m apart
            assert away < 5.0 + gap, (turn, one, two, contact)


@pytest.mark.parametrize("name", NAMES)
def test_gap_and_normal_rates_equal_finite_differences(name):
    """The gap opens with the relative velocity along the normal; n' follows from curvature."""
    rng = np.random.default_rng(1)
    checked, kinks = 0, 0
    cases = [(*random_pair(rng, name), *rng.standard_normal((2, 6))) for _ in range(60)]
    times = (0.0, -2 * STEP, -STEP, STEP, 2 * STEP)
    there, *sides = (
        contacts(name, [(moved(one, v1, h), moved(two, v2, h)) for one, two, v1, v2 in cases])
        for h in times
    )
    for (one, two, v1, v2), found, *around in zip(cases, there, *sides, strict=True):
        for k, contact in enumerate(found):
            if not is_exact(name, contact, found, one, two):
                continue
            far0, before, after, far1 = (values(side[k])[[0, 4, 5, 6]] for side in around)
            difference = (after - before) / (2.0 * STEP)
            # at a change of feature the two one-sided differences, or two steps, disagree
            jumps = np.abs((far1 - after) - (before - far0)) / STEP
            if jumps.max() > 1e-3:
                kinks += 1
                continue
            velocity = velocity_at(two, v2, contact.point) - velocity_at(one, v1, contact.point)
            rate = [
                np.dot(contact.normal, velocity),
                *normal_rate(contact, tuple(v1[:3]), tuple(v2[:3]), tuple(velocity)),
            ]
            # the condition of a normal grows as cores come close
            curvature = 1.0 + np.abs(contact.relative_curvature).max() ** 3
            curvature += np.abs(contact.first_share).max() ** 3
            assert_close(rate, difference, RATE * curvature)
            checked += 1
    assert checked > 10 * kinks


@pytest.mark.parametrize("name", NAMES)
def test_traced_derivative_of_the_gap_is_the_velocity_along_the_normal(name):
    """The derivative of the graph, in the direction of a rigid motion of both shapes."""
    rng = np.random.default_rng(2)
    cases, directions = [], ([], [])
    for _ in range(10):
        one, two = random_pair(rng, name)
        v1, v2 = rng.standard_normal((2, 6))
        cases.append((one, two, v1, v2))
        for shape, v, rows in zip((one, two), (v1, v2), directions, strict=True):
            turning = np.cross(v[:3], np.array(shape.rotation).T).T
            rows.append([*turning.ravel(), *v[3:], *[0.0] * len(shape.size)])
    all_rates = np.asarray(derivative(name)(*batch(cases), *map(np.array, directions)))
    all_rates = all_rates.reshape(len(cases), -1, 25)
    for (one, two, v1, v2), found, rates in zip(
        cases, contacts(name, cases), all_rates, strict=True
    ):
        for contact, row in zip(found, rates, strict=True):
            if not is_exact(name, contact, found, one, two):
                continue
            velocity = velocity_at(two, v2, contact.point) - velocity_at(one, v1, contact.point)
            assert_close(row[0], np.dot(contact.normal, velocity), allowed(name, 1e-9))
            scale = 1.0 + np.abs(contact.relative_curvature).max() ** 2
            ndot = normal_rate(contact, tuple(v1[:3]), tuple(v2[:3]), tuple(velocity))
            assert_close(row[4:7], ndot, allowed(name, 1e-9) * scale)


@pytest.mark.parametrize("name", NAMES)
def test_exchange_of_the_bodies_reverses_the_normal(name):
    """Gap and point stay, n changes its sign, T becomes P - T."""
    rng = np.random.default_rng(3)
    first, second = name.split("-")
    if first == second:
        pairs = [random_pair(rng, name) for _ in range(40)]
        there, back = contacts(name, pairs), contacts(name, [(two, one) for one, two in pairs])
    else:
        # the other order is the same function with its contacts exchanged
        pairs = [random_pair(rng, name) for _ in range(2)]
        there = [pair(first, second).function(one, two) for one, two in pairs]
        back = [pair(second, first).function(two, one) for one, two in pairs]
    for found, mirrored in zip(there, back, strict=True):
        if name == "cylinder-cylinder":
            # points of the first body's rims come before those of the second's
            mirrored = (mirrored[0], *mirrored[4:], *mirrored[1:4])
        for a, b in zip(found, mirrored, strict=True):
            scale = 1.0 + np.abs(a.relative_curvature).max() ** 2
            assert_close(values(exchanged(b)), values(a), allowed(name) * scale)
            assert_close(values(exchanged(exchanged(a))), values(a))


@pytest.mark.parametrize("name", NAMES)
def test_geometry_moves_with_a_common_rigid_motion(name):
    """Contacts seen from another frame are the same contacts."""
    rng = np.random.default_rng(4)
    R, p = rotation(rng), rng.standard_normal(3)
    pairs = [random_pair(rng, name) for _ in range(20)]
    turned = [
        [
            Placed(tuples(R @ np.array(shape.rotation)), tuples(R @ shape.position + p), shape.size)
            for shape in shapes
        ]
        for shapes in pairs
    ]
    for here, there in zip(contacts(name, pairs), contacts(name, turned), strict=True):
        for a, b in zip(here, there, strict=True):
            scale = 1.0 + np.abs(a.relative_curvature).max() ** 2
            assert_close(b.gap, a.gap, allowed(name))
            assert_close(b.point, R @ a.point + p, allowed(name))
            assert_close(b.normal, R @ a.normal, allowed(name) * scale)
            D = R @ np.array(a.relative_curvature) @ R.T
            assert_close(b.relative_curvature, D, allowed(name) * scale)


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_has_the_bits_of_single_calls(name):
    """Kernels of pairs, one case and many; and they agree with floats."""
    rng = np.random.default_rng(5)
    pairs = [random_pair(rng, name) for _ in range(13)]
    run = kernel(name)
    together = np.asarray(run(*batch(pairs)))
    for (one, two), row in zip(pairs, together, strict=True):
        assert np.array_equal(run(flat(one), flat(two)), row)
        expected = np.array(results(function_of(name)(one, two)))
        known = expected < NO_CONTACT
        scale = np.abs(expected[known]).max() ** 2 + 1.0
        assert_close(row[known], expected[known], allowed(name, 1e-10), scale)


@pytest.mark.parametrize("name", NAMES)
def test_aligned_and_coincident_poses_give_finite_values(name):
    """Same origin, same axes, right angles: unit normals, no NaN, also in derivatives."""
    first, second = name.split("-")
    rng = np.random.default_rng(6)
    axes = [np.eye(3), np.diag([1.0, -1.0, -1.0]), np.eye(3)[[1, 2, 0]]]
    offsets = [np.zeros(3), *np.eye(3), *(-0.2 * np.eye(3)), np.array([0.1, 0.1, 0.0])]
    poses = []
    for R, offset in itertools.product(axes, offsets):
        one = random_shape(rng, first)._replace(rotation=tuples(np.eye(3)), position=(0, 0, 0))
        two = Placed(tuples(R), tuples(offset), random_shape(rng, second).size)
        poses.append((one, two))
        for contact in function_of(name)(one, two):
            assert np.isfinite(values(contact)).all()
            assert_close(np.linalg.norm(contact.normal), 1.0)
    cases = batch(poses)
    assert np.isfinite(kernel(name)(*cases)).all()
    directions = [rng.standard_normal(case.shape) for case in cases]
    assert np.isfinite(derivative(name)(*cases, *directions)).all()


def test_point_counts_are_those_of_the_table():
    """Every function returns as many contacts as its row says, at most eight."""
    rng = np.random.default_rng(7)
    for (first, second), row in PAIRS.items():
        found = row.function(random_shape(rng, first), random_shape(rng, second))
        assert len(found) == row.points <= 8


def test_pairs_without_a_narrow_phase_are_refused():
    """The message says which pair, and what to do."""
    with pytest.raises(ModelError, match=r"^floor: no contact between plane and plane; cover the"):
        pair("plane", "plane", "floor")
    with pytest.raises(OptionError, match="second: expected 'sphere' or"):
        pair("sphere", "torus")
    with pytest.raises(ModelError, match=r"body 'hand': contact needs a simple shape, got mesh"):
        shape_kind(MeshShape("hand.stl"), "body 'hand'")
    with pytest.raises(ModelError, match=r"^shape: expected a shape such as"):
        shape_size("ball")


def test_shapes_have_a_kind_and_dimensions():
    """Dimensions in the order of the fields."""
    assert shape_kind(PlaneShape()) in KINDS
    assert shape_size(PlaneShape()) == ()
    assert (shape_kind(CapsuleShape(0.1, 0.4)), shape_size(CapsuleShape(0.1, 0.4))) == (
        "capsule",
        (0.1, 0.4),
    )
    assert shape_size(BoxShape((1.0, 2.0, 3.0))) == (1.0, 2.0, 3.0)
