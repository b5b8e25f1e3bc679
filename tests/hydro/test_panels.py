"""Added mass by panels: integrals, known bodies, and what moving a body does to it."""

import math

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import assert_close
from tiburon.hydro.coefficients import ellipsoid_added_mass
from tiburon.hydro.panels import influence, reduced, refined
from tiburon.reproduce import solids

RANDOM = np.random.default_rng(52)
RHO = 1000.0


def quadrature(corners, count):
    """Points spread over a triangle, all of the same weight."""
    u, v = np.meshgrid(*[(np.arange(count) + 0.5) / count] * 2)
    root = np.sqrt(u).ravel()
    shares = np.stack([1.0 - root, root * (1.0 - v.ravel()), root * v.ravel()], axis=1)
    return shares @ corners


def test_integrals_over_a_panel_are_those_of_many_small_sources():
    """Potential and velocity, from above, below, far and near."""
    corners = RANDOM.standard_normal((3, 3))
    points = np.concatenate(
        [2.0 * RANDOM.standard_normal((6, 3)), 30.0 * RANDOM.normal(size=(2, 3))]
    )
    area = 0.5 * np.linalg.norm(np.cross(corners[1] - corners[0], corners[2] - corners[0]))
    small = quadrature(corners, 600)
    apart = points[:, None] - small
    r = np.linalg.norm(apart, axis=2)
    potential = area * (1.0 / r).mean(axis=1)
    velocity = -area * (apart / r[..., None] ** 3).mean(axis=1)
    faces = np.array([(0, 1, 2)])
    for k in range(3):
        along = np.tile(np.eye(3)[k], (len(points), 1))
        S, K = influence(corners, faces, points, along)
        # the middle rule errs with the square of 1 / 600 by that of the distance
        assert_close(S[:, 0], potential, 1e-5)
        assert_close(K[:, 0], velocity[:, k], 2e-5)


def test_source_panel_emits_half_its_flow_to_each_side():
    """Close to its middle, the normal velocity of a panel is 2 pi from above and below."""
    corners = RANDOM.standard_normal((3, 3))
    normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
    n = normal / np.linalg.norm(normal)
    points = corners.mean(axis=0) + 1e-9 * np.array([n, -n])
    _, K = influence(corners, np.array([(0, 1, 2)]), points, np.array([n, n]))
    assert_close(K[:, 0], (-2.0 * np.pi, 2.0 * np.pi), 1e-7)


ELLIPSOIDS = [(1.0, 1.0, 1.0), (3.0, 1.0, 1.0), (1.0, 1.0, 0.3), (1.0, 0.6, 0.3)]


@pytest.mark.parametrize("radii", ELLIPSOIDS)
def test_added_mass_of_ellipsoids_equals_lambs_table(radii):
    """Sphere, long and flat spheroid, three different axes, by 500 panels inscribed in them."""
    mesh = solids.ellipsoid(radii, 5)
    found = tb.panel_added_mass(mesh, RHO, panels=500)
    assert found.panels == 500
    moments, masses = ellipsoid_added_mass(radii, RHO)
    # inscribed, the mesh is 2.2 % smaller than the ellipsoid
    lost = 1.0 - mesh.volume / (4.0 / 3.0 * math.pi * np.prod(radii))
    A = np.array(found.matrix)
    errors = np.diag(A)[3:] / masses - 1.0
    assert (errors < 0.0).all()
    assert (errors > -lost).all()
    # moments go with the fifth power of lengths, masses with the third
    largest = max(moments) or 1.0
    displaced = mesh.inertia(RHO).matrix.max()
    assert np.abs(np.diag(A)[:3] - moments).max() <= 2.1 * lost * largest + 1e-4 * displaced
    # three planes of symmetry leave the diagonal; the cut icosahedron has them, too
    assert_close(A - np.diag(np.diag(A)), np.zeros((6, 6)), 1e-10, scale=masses[0])
    assert found.asymmetry < 1e-12
    # the reported error covers what the volume does not
    assert np.abs(errors + 0.6 * lost).max() < found.error


def test_the_error_falls_with_the_number_of_panels():
    """Twice the panels, half the error: the square of their edges."""
    radii = (1.0, 0.6, 0.3)
    _, masses = ellipsoid_added_mass(radii, RHO)
    errors = []
    for parts in (3, 6):
        found = tb.panel_added_mass(solids.ellipsoid(radii, parts), RHO, panels=20 * parts**2)
        errors.append(1.0 - np.diag(found.matrix)[3:] / masses)
    # fourfold, with a rest of higher order of a few percent at 180 panels
    assert_close(errors[0] / errors[1], np.full(3, 4.0), 0.05)


@pytest.mark.parametrize(
    ("solid", "share"),
    [
        (solids.box, 0.6383),
        (solids.tetrahedron, 0.8063),
        (solids.octahedron, 0.5871),
        (solids.icosahedron, 0.5236),
    ],
)
def test_regular_solids_have_the_published_added_mass(solid, share):
    """Added by displaced mass, from polarizabilities of solids that keep all field out.

    Sihvola, Yla-Oijala, Jarvenpaa and Avelin 2004, IEEE Trans. Antennas Propag. 52(9): normalized
    polarizability at permittivity zero, which is minus one minus this share.
    """
    mesh = solid()
    found = tb.panel_added_mass(mesh, 1.0, about=mesh.center, panels=700)
    masses = np.linalg.eigvalsh(np.array(found.matrix)[3:, 3:]) / mesh.volume
    # one to two percent at 700 panels, as reported
    assert 0.001 < found.error < 0.02
    assert_close(masses, np.full(3, share), found.error, scale=share)


def crooked():
    """A solid without symmetry, away from the origin."""
    vertices, faces = solids.ellipsoid_triangles((0.5, 0.3, 0.2), 4)
    x, y, _ = vertices.T
    bent = vertices + np.stack([0.1 * y, 0.4 * x * x, 0.2 * x + 0.3 * x * y], axis=1)
    return tb.Mesh(bent + np.array((0.4, -0.1, 0.3)), faces)


def test_a_moved_and_turned_solid_keeps_the_energy_of_the_water():
    """The same motion, expressed in two frames, has the same kinetic energy of the water."""
    mesh = crooked()
    pose = tb.Pose.from_rpy((0.4, -0.7, 1.1), translation=(0.3, -2.0, 0.5))
    R, p = np.array(pose.rotation), np.array(pose.translation)
    A = np.array(tb.panel_added_mass(mesh, RHO, panels=320).matrix)
    B = np.array(tb.panel_added_mass(mesh.moved(pose), RHO, panels=320).matrix)
    w, v = RANDOM.standard_normal((2, 3))
    W = R @ w
    V = R @ v - np.cross(W, p)
    own, moved = np.concatenate([w, v]), np.concatenate([W, V])
    energy = own @ A @ own
    # two solves of 320 equations, each a hundredfold of rounding off
    assert_close(moved @ B @ moved, energy, 1e-10)
    # off-center and crooked: turning moves water along, too
    assert np.abs(A[:3, 3:]).max() > 0.01 * A.max()


def test_added_mass_about_any_point():
    """The matrix about another point is that of the same solid, moved so that it is the origin."""
    mesh, point = crooked(), np.array((0.2, 0.7, -0.4))
    about = tb.panel_added_mass(mesh, RHO, about=point, panels=320).matrix
    moved = tb.panel_added_mass(mesh.moved(tb.Pose(translation=tuple(-point))), RHO, panels=320)
    assert_close(about, moved.matrix, 1e-11)


def test_added_mass_scales_with_size_and_density():
    mesh = crooked()
    once = np.array(tb.panel_added_mass(mesh, RHO, panels=320).matrix)
    large = np.array(tb.panel_added_mass(mesh.scaled(10.0), 2.0 * RHO, panels=320).matrix)
    powers = np.repeat([10.0**2.5, 10.0**1.5], 3)
    expected = 2.0 * once * np.outer(powers, powers)
    assert_close(large / np.outer(powers, powers), expected / np.outer(powers, powers), 1e-11)


def test_irregular_solids_give_valid_added_mass():
    """Nearly symmetric before it is made so, and positive: energy goes into the water."""
    found = tb.panel_added_mass(crooked(), RHO, panels=320)
    assert 0.0 < found.asymmetry < 5e-3
    A = np.array(found.matrix)
    assert (A == A.T).all()
    assert np.linalg.eigvalsh(A)[0] > 0.0
    tb.BodyFluid(volume=1.0, added_mass=found.matrix)
    # a ball turns without moving water; what flat panels leave of that must not become negative
    ball = np.array(tb.panel_added_mass(solids.ellipsoid(parts=3), RHO, panels=180).matrix)
    assert np.linalg.eigvalsh(ball)[0] >= -1e-12 * ball.max()


def test_refining_keeps_the_solid():
    mesh = crooked()
    fine = refined(mesh, 700)
    assert 700 <= len(fine.faces) <= 701
    assert_close(fine.volume, mesh.volume)
    assert_close(fine.area, mesh.area)
    assert_close(fine.inertia(1.0).tensor, mesh.inertia(1.0).tensor)
    # closed still: the constructor checks it
    assert tb.Mesh(fine.vertices, fine.faces).notes == ()
    assert refined(mesh, 10) is mesh
    edges = fine.vertices[fine.faces] - fine.vertices[np.roll(fine.faces, 1, axis=1)]
    lengths = np.linalg.norm(edges, axis=2)
    # halving the longest never makes triangles much longer than they were
    assert (lengths.max(axis=1) / lengths.min(axis=1)).max() < 6.0


def test_reducing_keeps_volume_and_closes():
    """From 3920 to 500 faces: the same volume, nearly the same moments and added mass."""
    radii = (1.0, 0.6, 0.3)
    mesh = solids.ellipsoid(radii, 14)
    coarse = reduced(mesh, 500)
    assert len(coarse.faces) == 500
    assert tb.Mesh(coarse.vertices, coarse.faces).notes == ()
    assert_close(coarse.volume, mesh.volume)
    tensor = np.array(mesh.inertia(1.0).tensor)
    # 500 flat faces for a round body: about a percent
    assert_close(coarse.inertia(1.0).tensor, tensor, 0.02, scale=tensor.max())
    found = tb.panel_added_mass(mesh, RHO, panels=500)
    assert found.notes == ("coarsened from 3920 to 500 panels",)
    _, masses = ellipsoid_added_mass(radii, RHO)
    assert_close(np.diag(found.matrix)[3:] / masses, np.ones(3), 0.012)


def test_mesh_reduction_keeps_flat_sides():
    """A box of 3000 faces loses nothing on the way to 300."""
    coarse = reduced(refined(solids.box((1.0, 2.0, 0.5)), 3000), 300)
    assert len(coarse.faces) == 300
    assert_close(coarse.extent, (1.0, 2.0, 0.5), 1e-9)
    assert_close(coarse.area, 7.0, 1e-9)


def test_a_ring_keeps_its_hole():
    """Corners less edges plus faces of a torus are zero, whatever collapses."""
    around, across = 40, 8
    u, v = np.meshgrid(np.arange(around), np.arange(across), indexing="ij")
    angle, tilt = 2 * np.pi * u / around, 2 * np.pi * (v + 0.3 * u / around) / across
    out = 1.0 + 0.15 * np.cos(tilt)
    corners = np.stack([out * np.cos(angle), out * np.sin(angle), 0.15 * np.sin(tilt)], axis=-1)
    number = (u % around) * across + v % across
    right, up = np.roll(number, -1, axis=0), np.roll(number, -1, axis=1)
    both = np.roll(right, -1, axis=1)
    faces = np.concatenate(
        [np.stack(x, -1).reshape(-1, 3) for x in ((number, right, both), (number, both, up))]
    )
    ring = tb.Mesh(corners.reshape(-1, 3), faces)
    coarse = reduced(ring, 20)
    edges = np.unique(np.sort(coarse.faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1), axis=0)
    assert len(coarse.vertices) - len(edges) + len(coarse.faces) == 0
    assert 2 * len(edges) == 3 * len(coarse.faces)
    assert len(coarse.faces) < 60
    assert_close(coarse.volume, ring.volume)


@pytest.mark.parametrize("panels", [19, 4001])
def test_number_of_panels_is_bounded(panels):
    with pytest.raises(tb.DomainError, match=f"panels: expected 20 to 4000, got {panels}"):
        tb.panel_added_mass(solids.box(), panels=panels)
