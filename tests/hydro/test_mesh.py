"""Solids of triangles: closed forms of their integrals, and what is no solid."""

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import assert_close
from tiburon.reproduce import solids

RANDOM = np.random.default_rng(51)


def skewed(rng):
    """A tetrahedron without any symmetry, faces outward."""
    corners = rng.standard_normal((4, 3))
    if np.linalg.det(corners[1:] - corners[0]) < 0.0:
        corners = corners[[0, 2, 1, 3]]
    return corners, np.array([(0, 2, 1), (0, 1, 3), (1, 2, 3), (0, 3, 2)])


def test_mesh_of_a_box_has_its_closed_form_integrals():
    size = (0.4, 1.3, 0.2)
    mesh = solids.box(size)
    assert_close(mesh.volume, np.prod(size))
    assert_close(mesh.center, (0, 0, 0))
    assert_close(mesh.area, 2 * (0.4 * 1.3 + 1.3 * 0.2 + 0.2 * 0.4))
    assert_close(mesh.extent, size)
    expected = tb.Inertia.box(700.0 * mesh.volume, size)
    assert_close(mesh.inertia(700.0).mass, expected.mass)
    assert_close(mesh.inertia(700.0).tensor, expected.tensor)
    assert mesh.notes == ()


def test_a_skew_tetrahedron_has_the_moments_of_its_corners():
    """Mean of the corners; covariance 1/20 of the sum of their squares about it."""
    corners, faces = skewed(RANDOM)
    mesh = tb.Mesh(corners, faces)
    volume = np.linalg.det(corners[1:] - corners[0]) / 6.0
    assert_close(mesh.volume, volume)
    assert_close(mesh.center, corners.mean(axis=0))
    apart = corners - corners.mean(axis=0)
    covariance = apart.T @ apart / 20.0
    tensor = volume * (np.trace(covariance) * np.eye(3) - covariance)
    assert_close(mesh.inertia(1.0).matrix, tensor)


def test_round_solids_are_approached_with_the_square_of_the_edges():
    """Inscribed polyhedra: errors of volume and moments fall fourfold when edges are halved."""
    radii = (1.0, 0.7, 0.4)
    volume = 4.0 / 3.0 * np.pi * np.prod(radii)
    moment = volume / 5.0 * (0.7**2 + 0.4**2)
    errors = []
    for parts in (6, 12):
        mesh = solids.ellipsoid(radii, parts)
        errors.append((1 - mesh.volume / volume, 1 - mesh.inertia(1.0).matrix[0, 0] / moment))
    ratios = np.array(errors[0]) / np.array(errors[1])
    # the next order is another square: a few percent at these sizes
    assert_close(ratios, (4.0, 4.0), 0.05)
    assert min(errors[1]) > 0.0


def test_integrals_follow_translation_and_scaling():
    corners, faces = skewed(RANDOM)
    mesh = tb.Mesh(corners, faces)
    pose = tb.Pose.from_rpy((0.4, -0.7, 1.1), translation=(0.3, -20.0, 5.0))
    moved, expected = mesh.moved(pose).inertia(3.0), mesh.inertia(3.0).moved(pose)
    assert_close(moved.mass, expected.mass)
    assert_close(moved.com, expected.com)
    # around its own middle: 20 m of offset must not cost digits
    assert_close(moved.tensor, expected.tensor, 1e-13)
    k = np.array((2.0, -0.5, 3.0))
    stretched = mesh.scaled(k)
    assert_close(stretched.volume, 3.0 * mesh.volume)
    assert_close(stretched.center, k * mesh.center)
    assert_close(mesh.scaled(2.0).inertia(1.0).tensor, 32.0 * np.array(mesh.inertia(1.0).tensor))
    again = tb.Mesh(stretched.vertices, stretched.faces)
    assert again.notes == ()
    assert_close(again.volume, stretched.volume)


def test_integrals_far_from_the_origin_keep_precision():
    """Coordinates of 1e5 m carry 1e-11 m of rounding, and the integrals not much more."""
    mesh = tb.Mesh(solids.CUBE_CORNERS + 1e5, solids.CUBE_FACES)
    assert_close(mesh.volume, 1.0, 1e-9)
    assert_close(np.diag(mesh.inertia(1.0).matrix), np.full(3, 1 / 6), 1e-9)


def test_holes_are_counted_and_located():
    with pytest.raises(tb.ModelError, match=r"must be watertight, got 3 open edges of 18, the "):
        tb.Mesh(solids.CUBE_CORNERS, solids.CUBE_FACES[1:])
    with pytest.raises(tb.ModelError, match=r"from \(.*\) to \(.*\) m; close the holes"):
        tb.Mesh(solids.CUBE_CORNERS, solids.CUBE_FACES[1:])


def test_inward_faces_are_reversed_with_a_note():
    inward = tb.Mesh(solids.CUBE_CORNERS, solids.CUBE_FACES[:, ::-1])
    assert_close(inward.volume, 1.0)
    assert inward.notes == ("faces of 1 of 1 shells were oriented inward and flipped",)
    mixed = solids.CUBE_FACES.copy()
    mixed[[1, 4, 7]] = mixed[[1, 4, 7], ::-1]
    mesh = tb.Mesh(solids.CUBE_CORNERS, mixed)
    assert_close(mesh.volume, 1.0)
    assert mesh.notes == ("3 of 12 faces were oriented inconsistently and flipped",)


def test_duplicate_vertices_are_merged():
    """Three vertices per face, as STL has them; nearly the same ones with a note."""
    loose = solids.CUBE_CORNERS[solids.CUBE_FACES].reshape(-1, 3)
    numbers = np.arange(len(loose)).reshape(-1, 3)
    mesh = tb.Mesh(loose, numbers)
    assert len(mesh.vertices) == 8
    assert mesh.notes == ()
    shaken = loose + 1e-9 * RANDOM.standard_normal(loose.shape)
    mesh = tb.Mesh(shaken, numbers)
    assert len(mesh.vertices) == 8
    assert_close(mesh.volume, 1.0, 1e-7)
    assert mesh.notes == ("vertices closer than 1e-06 m were merged",)
    with pytest.raises(tb.ModelError, match="36 open edges of 36"):
        tb.Mesh(loose + 1e-3 * RANDOM.standard_normal(loose.shape), numbers)


def joined(*parts):
    """Several sets of vertices and faces as one."""
    vertices, faces, count = [], [], 0
    for points, triangles in parts:
        vertices.append(points)
        faces.append(triangles + count)
        count += len(points)
    return tb.Mesh(np.concatenate(vertices), np.concatenate(faces))


def test_inner_shells_are_ignored_and_separate_ones_counted():
    cube, faces = solids.CUBE_CORNERS, solids.CUBE_FACES
    inner = 0.25 + 0.5 * cube
    # a cavity looks inward, a part inside outward: water reaches neither
    for inside in (faces, faces[:, ::-1]):
        mesh = joined((cube, faces), (inner, inside))
        assert_close(mesh.volume, 1.0)
        assert mesh.notes == ("1 of 2 shells lie inside others and were removed",)
    beside = joined((cube, faces), (cube + 2.0, faces[:, ::-1]))
    assert_close(beside.volume, 2.0)
    assert beside.notes == ("faces of 1 of 2 shells were oriented inward and flipped",)
    across = joined((cube, faces), (cube + np.array((0.5, 0.2, 0.3)), faces))
    assert across.notes == ("2 of 2 shells overlap; their common volume counts twice",)
    assert (across.overlaps, across.scaled(2.0).overlaps, beside.overlaps) == (2, 2, 0)


def test_mesh_is_immutable():
    mesh = solids.box()
    with pytest.raises(ValueError, match="read-only"):
        mesh.vertices[0, 0] = 3.0


@pytest.mark.parametrize(
    ("vertices", "faces", "message"),
    [
        (np.zeros((4, 2)), np.zeros((4, 3), int), "rows of three finite numbers, got shape"),
        (np.full((8, 3), np.nan), solids.CUBE_FACES, "8 of them with NaN or infinity"),
        (solids.CUBE_CORNERS, solids.CUBE_FACES.astype(float), "rows of three whole numbers"),
        (solids.CUBE_CORNERS, solids.CUBE_FACES + 1, "name vertices 0 to 7, got 1 to 8"),
        (solids.CUBE_CORNERS, solids.CUBE_FACES[:3], "4 to 500000 faces, got 3; add faces"),
        (solids.CUBE_CORNERS * 1e10, solids.CUBE_FACES, "below 1e9 m"),
        (solids.CUBE_CORNERS * (1, 1, 1e-12), solids.CUBE_FACES, "must enclose a volume"),
        (solids.CUBE_CORNERS * 0.0, solids.CUBE_FACES, "at least 4 faces, got 0"),
    ],
)
def test_anything_but_a_solid_is_refused_with_a_message(vertices, faces, message):
    with pytest.raises(tb.ModelError, match=message):
        tb.Mesh(vertices, faces)


def test_a_surface_with_one_side_is_refused():
    """A projective plane of ten faces: every edge has two, and no directions agree."""
    faces = [
        *((0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5), (0, 5, 1)),
        *((1, 2, 4), (2, 3, 5), (3, 4, 1), (4, 5, 2), (5, 1, 3)),
    ]
    with pytest.raises(tb.ModelError, match="only one side"):
        tb.Mesh(RANDOM.standard_normal((6, 3)), faces)
