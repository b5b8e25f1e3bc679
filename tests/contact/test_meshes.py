"""Contact of meshes themselves, convex and not: features, runs, refusals."""

import math
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tiburon as tb
from tiburon.contact import meshes
from tiburon.contact.geometry.contact_geometry import Placed
from tiburon.contact.geometry.located import located_contacts
from tiburon.contact.meshes import locate, solid_of

coal = pytest.importorskip("coal", reason="contact of meshes needs coal")
trimesh = pytest.importorskip("trimesh")

G = 9.81
SIZE = 0.3
ROOT = math.sqrt(0.5)


def rotation(seed):
    q, r = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    q = q * np.sign(np.diag(r))
    return q * np.linalg.det(q)


def contacts_of(first, second, places):
    """Gaps, points and normals of the contacts that two shapes have at a pose."""
    sizes = locate(solid_of(first), solid_of(second), places)
    placed = [
        Placed(tuple(map(tuple, R.tolist())), tuple(p), tuple(size))
        for (R, p), size in zip(places, sizes, strict=True)
    ]
    found = [one for one in located_contacts(*placed) if one.gap < 1e8]
    return tuple(
        np.array([getattr(one, name) for one in found]) for name in ("gap", "point", "normal")
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("meshes")


def saved(folder, name, vertices, faces):
    path = folder / f"{name}.obj"
    trimesh.Trimesh(vertices, faces, process=False).export(path)
    return tb.MeshShape(str(path))


@pytest.fixture(scope="module")
def cube(folder):
    box = trimesh.creation.box((SIZE, SIZE, SIZE))
    return saved(folder, "cube", box.vertices, box.faces)


@pytest.fixture(scope="module")
def groove(folder):
    """A block of 2 m x 1 m x 1.5 m with a notch of 90 degrees along y: not convex."""
    outline = [(-1, -0.5), (1, -0.5), (1, 1), (0, 0), (-1, 1)]
    vertices = [(x, y, z) for y in (-0.5, 0.5) for x, z in outline]
    faces = []
    for a, b, c in ((0, 1, 3), (1, 2, 3), (0, 3, 4)):
        faces += [(a, b, c), (5 + a, 5 + c, 5 + b)]
    for k in range(5):
        m = (k + 1) % 5
        faces += [(k, 5 + k, 5 + m), (k, 5 + m, m)]
    return saved(folder, "groove", np.array(vertices, dtype=float), np.array(faces))


def free_body(shape, mass=2.0):
    inertia = tb.Inertia.box(mass, (SIZE, SIZE, SIZE))
    return tb.Body("body", joint=tb.Free("body"), inertia=inertia, shapes=(tb.Shape(shape),))


def in_groove(shape, groove, mass=2.0):
    fixed = tb.Body("groove", joint=tb.Fixed("groove"), shapes=(tb.Shape(groove),))
    return tb.Model("model", [free_body(shape, mass), fixed])


@pytest.mark.parametrize("seed", range(12))
def test_smallest_gaps_are_distances_of_boxes(cube, seed):
    """Meshes of boxes at random poses, 2 mm apart: the distance that coal finds for the boxes."""
    R1, R2 = rotation(seed), rotation(seed + 100)
    p = np.random.default_rng(seed).normal(size=3)
    boxes = [coal.Box(SIZE, SIZE, SIZE), coal.Box(SIZE, SIZE, SIZE)]
    near = coal.Transform3s(R2, np.zeros(3))

    def distance(p):
        result = coal.DistanceResult()
        place = coal.Transform3s(R1, p)
        gap = coal.distance(boxes[0], place, boxes[1], near, coal.DistanceRequest(), result)
        return gap, result.getNearestPoint2() - result.getNearestPoint1()

    for _ in range(60):
        gap, apart = distance(p)
        p = p + (gap - 2e-3) * apart / np.linalg.norm(apart)
    gaps, _, normals = contacts_of(cube, cube, ((R1, p), (R2, np.zeros(3))))
    gap, apart = distance(p)
    assert gaps.min() == pytest.approx(gap, abs=1e-9)
    np.testing.assert_allclose(normals[gaps.argmin()], apart / gap, atol=1e-5)


def test_faces_touch_at_the_corners_of_their_overlap(cube):
    """Turned on each other: corners of an octagon; aligned and shifted: of a rectangle."""
    turned = np.array([[ROOT, -ROOT, 0.0], [ROOT, ROOT, 0.0], [0.0, 0.0, 1.0]])
    above = np.array([0.0, 0.0, SIZE])
    eye, origin = np.eye(3), np.zeros(3)
    gaps, points, normals = contacts_of(cube, cube, ((turned, above), (eye, origin)))
    np.testing.assert_allclose(gaps, 0.0, atol=1e-15)
    np.testing.assert_allclose(normals, [[0.0, 0.0, -1.0]] * len(gaps), atol=1e-15)
    # a regular octagon around the incircle of both squares
    assert len(gaps) == 8
    np.testing.assert_allclose(
        np.linalg.norm(points[:, :2], axis=1), SIZE / 2 / math.cos(math.pi / 8), atol=1e-12
    )
    for shift in (0.0, 1e-9, 0.299):
        moved = above + np.array([shift, 0.0, 0.0])
        _, points, normals = contacts_of(cube, cube, ((eye, moved), (eye, origin)))
        np.testing.assert_allclose(normals, [[0.0, 0.0, -1.0]] * len(normals), atol=1e-12)
        assert np.ptp(points[:, 0]) == pytest.approx(SIZE - shift, abs=1e-8)
        assert np.ptp(points[:, 1]) == pytest.approx(SIZE, abs=1e-8)


@pytest.mark.parametrize(
    ("shape", "place", "expected"),
    [
        (tb.SphereShape(0.1), (0.0, 0.0, 0.1 / ROOT), [(-ROOT, -ROOT), (ROOT, -ROOT)]),
        # over the border of the left top edge, which is sharp
        (tb.SphereShape(0.1), (-1.06, 0.0, 1.08), [(0.6, -0.8)]),
        (tb.CapsuleShape(0.1, 0.6), (-1.0, 0.45, 1.1), [(0.0, -1.0)] * 2),
    ],
)
def test_round_shapes_touch_faces_and_sharp_edges(groove, shape, place, expected):
    """A sphere in a notch touches both sides, at an edge its nearest point; a capsule lies."""
    lying = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])
    places = (lying, np.array(place)), (np.eye(3), np.zeros(3))
    gaps, _, normals = contacts_of(shape, groove, places)
    np.testing.assert_allclose(gaps, 0.0, atol=1e-15)
    found = sorted(map(tuple, normals[:, [0, 2]].round(12).tolist()))
    np.testing.assert_allclose(found, sorted(expected), atol=1e-12)
    mirrored = contacts_of(groove, shape, places[::-1])
    np.testing.assert_allclose(sorted(mirrored[0]), sorted(gaps), atol=1e-15)


def test_meshes_far_apart_and_deep_inside_have_gaps(cube):
    eye = np.eye(3)
    for height, gap in ((2.0, 2.0 - SIZE), (0.1, 0.1 - SIZE)):
        gaps, _, _ = contacts_of(cube, cube, ((eye, np.array([0, 0, height])), (eye, np.zeros(3))))
        np.testing.assert_allclose(gaps, [gap], atol=1e-9)


@pytest.mark.parametrize("factor", [0.99, 1.02])
def test_mesh_block_on_a_slope_sticks_and_slides_as_a_block_does(cube, factor):
    """At rest up to atan mu; above, g (sin - mu cos)."""
    mu, angle = 0.5, factor * math.atan(0.5)
    gravity = (G * math.sin(angle), 0.0, -G * math.cos(angle))
    slope = tb.World(gravity=gravity, ground=tb.Ground(static_friction=mu))
    model = tb.Model("block", [free_body(cube)])
    q = [math.cos(0.3), 0.0, 0.0, math.sin(0.3), 0.0, 0.0, SIZE / 2]
    run = tb.simulate(model, 0.1, q=q, world=slope)
    path = max(0.5 * G * (math.sin(angle) - mu * math.cos(angle)) * 0.01, 0.0)
    np.testing.assert_allclose(run.q[-1, 4:], [path, 0.0, SIZE / 2], atol=1e-8)
    summary = run.contact_summary()
    assert (summary.peak_force > 0.0).sum() == 4
    assert summary.depth.max() < 1e-9


def test_block_falls_into_a_notch_and_rests_on_both_sides(cube, groove):
    """On edge, turned by 45 degrees: it rests on the sides, each of which carries half."""
    model = in_groove(cube, groove)
    q = [math.cos(math.pi / 8), 0.0, math.sin(math.pi / 8), 0.0, 0.0, 0.0, SIZE * ROOT + 1e-3]
    run = tb.simulate(model, 0.1, q=q, contact=tb.RigidContact())
    assert run.q[-1, 6] == pytest.approx(SIZE * ROOT, abs=1e-9)
    force = run.get("contact_force").values[-1]
    left, right = (force[sign * force[:, 0] > 0.0].sum(axis=0) for sign in (-1.0, 1.0))
    np.testing.assert_allclose(left + right, [0.0, 0.0, 2.0 * G], atol=1e-5)
    np.testing.assert_allclose(left[2], right[2], rtol=1e-6)
    here = tb.contacts(model, run.q[-1], run.v[-1])
    assert here.gap.min() > -1e-10
    assert (here.gap < 1e-9).sum() >= 4


def test_pairs_that_stay_apart_keep_what_was_located(cube, groove, monkeypatch):
    """Few steps of a flight need triangles, and the collision is that of pairs located always."""
    notched = replace(groove, scale=(0.15, 0.3, 0.2))
    bodies = [
        replace(free_body(shape), name=name, joint=tb.Free(name))
        for name, shape in (("a", cube), ("b", notched))
    ]
    model = tb.Model("two", bodies)
    q, v = model.neutral(), np.zeros(12)
    q[4:7], q[11:14] = (0.0, 0.0, 0.0), (1.3, 0.1, 0.05)
    v[3:6], v[6:9], v[9:12] = (2.0, 0.0, 0.0), (0.5, 1.0, -0.4), (-1.0, 0.0, 0.0)
    called = []
    located = meshes._located
    monkeypatch.setattr(meshes, "_located", lambda *given: called.append(1) or located(*given))
    options = {"v": v, "world": tb.World(gravity=(0.0, 0.0, 0.0)), "contact": tb.RigidContact()}
    run = tb.simulate(model, 0.4, q=q, **options)
    some = len(called)
    fill = meshes.LocatedPairs.fill
    monkeypatch.setattr(meshes.LocatedPairs, "fill", lambda self, *given: fill(self, *given[:3]))
    whole = tb.simulate(model, 0.4, q=q, **options)
    assert abs(run.v[-1, 3] - 2.0) > 0.1
    assert some < 0.5 * (len(called) - some)
    np.testing.assert_allclose(run.q, whole.q, atol=1e-10)


def test_batches_and_resumed_runs_agree_in_bits(cube):
    model = tb.Model("block", [free_body(cube)])
    floor = tb.World(ground=tb.Ground(static_friction=0.5, restitution=0.3))
    q = np.array([[1.0, 0, 0, 0, 0, 0, 0.2], [0.9, 0.1, 0.2, 0.3, 0, 0, 0.3]])
    both = tb.simulate(model, 0.15, q=q, world=floor)
    alone = tb.simulate(model, 0.15, q=q[1], world=floor)
    assert both.q[:, 1].tobytes() == alone.q.tobytes()
    # forces, too, with the signs of their zeros
    assert both.z[:, 1].tobytes() == alone.z.tobytes()
    part = tb.simulate(model, 0.08, q=q[1], world=floor).resume(0.07)
    assert part.q[-1].tobytes() == alone.q[-1].tobytes()
    assert alone.contact_summary().peak_force.max() > 100.0


def test_impacts_of_a_mesh_are_those_of_a_box(cube):
    """Without friction, with which velocities after impacts at four corners are not unique."""
    floor = tb.World(ground=tb.Ground(static_friction=0.0, restitution=0.5))
    q, v = [math.cos(0.2), 0, 0, math.sin(0.2), 0, 0, SIZE / 2], [0.5, -0.3, 0.2, 1.0, 0.4, -2.0]
    found, expected = (
        tb.impact(tb.Model("block", [free_body(shape)]), q, v, world=floor)
        for shape in (cube, tb.BoxShape((SIZE, SIZE, SIZE)))
    )
    np.testing.assert_allclose(found.v, expected.v, atol=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_gaps_on_the_ground_are_heights_of_vertices(folder, seed):
    """A mesh that is not convex at random poses: the lowest of all its vertices, once."""
    rng = np.random.default_rng(seed)
    ball = trimesh.creation.icosphere(2)
    vertices = ball.vertices * rng.uniform(0.2, 1.0, (len(ball.vertices), 1)) * [1.0, 0.6, 0.3]
    vertices = np.asarray(vertices).round(8)  # as files store them
    model = tb.Model("rock", [free_body(saved(folder, f"rock{seed}", vertices, ball.faces))])
    q = np.concatenate([rng.normal(size=(40, 4)), rng.normal(size=(40, 3))], axis=1)
    q[:, :4] /= np.linalg.norm(q[:, :4], axis=1, keepdims=True)
    found = tb.contacts(model, q, world=tb.World(ground=tb.Ground(height=-0.5)))
    R, p = tb.forward_kinematics(model, q, "body")
    world = vertices @ np.moveaxis(R, -1, -2) + p[:, None]
    height = world[..., 2] + 0.5
    np.testing.assert_allclose(found.gap.min(axis=-1), height.min(axis=-1), rtol=0, atol=1e-14)
    for case in range(len(q)):
        real = found.gap[case] < 1e8
        points = found.point[case][real] + 0.5 * found.gap[case][real][:, None] * [0.0, 0.0, 1.0]
        apart = np.linalg.norm(points[:, None] - world[case], axis=-1)
        # each contact is a vertex, and no vertex has two
        assert apart.min(axis=1).max() < 1e-12
        assert len(set(apart.argmin(axis=1).tolist())) == real.sum()


def test_corners_of_a_face_on_the_ground_each_have_a_contact(folder):
    """Prisms of three to six sides, standing at any heading; the edge of a cylinder is covered."""
    for sides in (3, 4, 5, 6, 40):
        angles = 2.0 * np.pi * np.arange(sides) / sides
        rim = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        vertices = np.array([[*xy, z] for z in (-0.5, 0.5) for xy in rim])
        faces = [[k, (k + 1) % sides, sides + k] for k in range(sides)]
        faces += [[(k + 1) % sides, sides + (k + 1) % sides, sides + k] for k in range(sides)]
        faces += [[0, k + 1, k] for k in range(1, sides - 1)]
        faces += [[sides, sides + k, sides + k + 1] for k in range(1, sides - 1)]
        model = tb.Model("prism", [free_body(saved(folder, f"prism{sides}", vertices, faces))])
        for heading in np.linspace(0.0, np.pi, 17):
            q = [math.cos(heading), 0.0, 0.0, math.sin(heading), 0.0, 0.0, 0.5]
            found = tb.contacts(model, q, world=tb.World(ground=tb.Ground()))
            low = found.gap < 1e-12
            assert low.sum() >= min(sides, 7)
            around = np.sort(np.arctan2(found.point[low, 1], found.point[low, 0]))
            widest = np.diff([*around, around[0] + 2.0 * np.pi]).max()
            assert widest < (2.0 * np.pi / sides + 1e-7 if sides < 7 else 1.3)


@pytest.mark.parametrize("degrees", [0.1, 0.5, 3.0])
def test_a_slab_with_a_shallow_chamfer_lies_still_on_its_face(folder, degrees):
    """The rim of a chamfer is farther out than the corners of the face below."""
    rise = 0.05 * math.tan(math.radians(degrees))
    levels = ((0.0, 0.15), (rise, 0.2), (0.1, 0.2))
    vertices = np.array([(x, y, z) for z, r in levels for x in (-r, r) for y in (-r, r)])
    slab = saved(folder, f"slab{degrees}", vertices, trimesh.convex.convex_hull(vertices).faces)
    model = tb.Model("slab", [free_body(slab)])
    floor = tb.World(ground=tb.Ground(static_friction=0.5))
    q = [math.cos(0.3), 0.0, 0.0, math.sin(0.3), 0.0, 0.0, 1e-3]
    run = tb.simulate(model, 0.5, q=q, v=[0.2, -0.1, 0.0, 0.0, 0.0, 0.0], world=floor)
    assert np.abs(run.v[-1]).max() < 1e-9
    assert abs(run.q[-1, 6]) < 1e-9
    assert (tb.contacts(model, run.q[-1], world=floor).gap < 1e-9).sum() >= 3


def test_a_mesh_of_a_box_tumbles_as_the_box_does(cube):
    """Without friction, kicked: velocities after impacts are unique."""
    floor = tb.World(ground=tb.Ground(static_friction=0.0))
    q = [0.9, 0.1, 0.2, 0.3, 0.0, 0.0, 0.31]
    q = np.array(q) / [*[np.linalg.norm(q[:4])] * 4, 1.0, 1.0, 1.0]
    v = [1.0, -2.0, 0.5, 0.3, 0.2, -0.1]
    ends = []
    for shape in (cube, tb.BoxShape((SIZE, SIZE, SIZE))):
        model = tb.Model("block", [free_body(shape)])
        run = tb.simulate(model, 0.25, q=q, v=v, world=floor)
        assert run.outcome.status == "finished"
        assert run.contact_summary().peak_force.max() > 30.0
        ends.append(np.concatenate([run.q[-1], run.v[-1]]))
    # impulses are solved to 1e-8 of the largest
    np.testing.assert_allclose(ends[0], ends[1], rtol=0, atol=1e-6)


def test_dynamics_and_linearization_of_a_mesh_on_the_ground_are_those_of_a_box(cube):
    """A block that slides along its floor; with friction, four corners would share it at will."""
    floor = tb.World(ground=tb.Ground(static_friction=0.0))
    q = [math.cos(0.2), 0.0, 0.0, math.sin(0.2), 0.0, 0.0, SIZE / 2]
    v, tau = [0.0, 0.0, 0.0, 0.7, 0.2, 0.0], [0.0, 0.0, 0.0, 0.3, 0.1, -1.0]
    mesh, box = (
        tb.Model("block", [free_body(shape)]) for shape in (cube, tb.BoxShape((SIZE,) * 3))
    )
    vd = [tb.contact_dynamics(one, q, v, tau, world=floor).vd for one in (mesh, box)]
    np.testing.assert_allclose(vd[0], vd[1], atol=1e-9)
    lines = [tb.linearize(one, q, v, tau, dt=1e-3, world=floor) for one in (mesh, box)]
    np.testing.assert_allclose(lines[0].A, lines[1].A, atol=1e-8)
    np.testing.assert_allclose(lines[0].B, lines[1].B, atol=1e-8)


def test_meshes_on_the_ground_need_no_coal(cube, monkeypatch, folder):
    """Of a divided surface the same hull: the same contacts."""
    box = trimesh.creation.box((SIZE, SIZE, SIZE)).subdivide()
    same = saved(folder, "divided", box.vertices, box.faces)
    monkeypatch.setitem(sys.modules, "coal", None)
    floor = tb.World(ground=tb.Ground(static_friction=0.5))
    q = [0.8, 0.36, 0.48, 0.0, 0.0, 0.0, 0.4]
    runs = [
        tb.simulate(tb.Model("block", [free_body(s)]), 0.2, q=q, world=floor) for s in (cube, same)
    ]
    np.testing.assert_allclose(runs[1].q[-1], runs[0].q[-1], atol=1e-9)


def test_flat_meshes_lie_on_the_ground_and_are_refused_elsewhere(cube, folder):
    """A sheet without thickness has no hull with a volume."""
    corners = [(x, y, 0.0) for x in (-1.0, 1.0) for y in (-1.0, 1.0)]
    sheet = saved(folder, "sheet", np.array(corners), [[0, 1, 3], [0, 3, 2], [0, 3, 1], [0, 2, 3]])
    model = tb.Model("sheet", [free_body(sheet)])
    found = tb.contacts(model, [1.0, 0, 0, 0, 0, 0, 0.2], world=tb.World(ground=tb.Ground()))
    np.testing.assert_allclose(np.sort(found.gap)[:5], [*[0.2] * 4, 1e9], atol=1e-15)
    with pytest.raises(tb.ModelFileError, match="got a flat mesh; give it a thickness"):
        tb.contacts(in_groove(cube, sheet), [1.0, 0, 0, 0, 0, 0, 1.0])


def test_unsupported_mesh_contacts_are_refused(cube, groove, folder):
    model = in_groove(cube, groove)
    q, still = [1.0, 0, 0, 0, 0, 0, 1.5], np.zeros(6)
    floor = tb.World(ground=tb.Ground())
    for kind in (tb.ExactContact, tb.CompliantContact):
        # on the ground, too: their contacts have a past
        for robot, world in ((model, None), (tb.Model("block", [free_body(cube)]), floor)):
            with pytest.raises(
                tb.ModelError, match=rf"contact={kind.__name__}.* takes no.*tb\.cover_mesh"
            ):
                tb.simulate(robot, 0.1, q=q, world=world, contact=kind())
    with pytest.raises(tb.ModelError, match="contact_dynamics takes no meshes"):
        tb.contact_dynamics(model, q, still, still)
    with pytest.raises(tb.ModelError, match="linearize takes no meshes"):
        tb.linearize(model, q, still, still, dt=1e-3, contact=tb.RigidContact())
    grid = tb.GroundGrid(spacing=(1.0, 1.0), heights=[[0.0] * 4] * 4)
    with pytest.raises(tb.ModelError, match="meshes do not touch height fields"):
        tb.contacts(model, q, world=tb.World(ground=tb.Ground(grid=grid)))


def test_cylinders_touch_meshes_as_prisms(cube):
    """Ends touch exactly, sides to 0.5 % of the radius; the volume is that of the cylinder."""
    cylinder = tb.CylinderShape(0.2, 0.5)
    solid = solid_of(cylinder)
    corners = solid.vertices[solid.faces]
    volume = np.linalg.det(corners).sum() / 6.0
    assert volume == pytest.approx(np.pi * 0.2**2 * 0.5)
    top = 0.5 * SIZE
    for R, height, tolerance in (
        (np.eye(3), 0.25, 1e-12),
        (rotation_about_x(0.5 * np.pi), 0.2, 0.005 * 0.2),
    ):
        places = [(R, np.array([0.0, 0.0, top + height + 0.001])), (np.eye(3), np.zeros(3))]
        gap, _, normal = contacts_of(cylinder, cube, places)
        assert gap.min() == pytest.approx(0.001, abs=tolerance)
        np.testing.assert_allclose(np.abs(normal[np.argmin(gap)]), [0, 0, 1], atol=1e-9)


def test_ellipsoids_touch_meshes_as_polyhedra(cube):
    """To 0.5 % of the radii on each axis; the volume is that of the ellipsoid."""
    radii = (0.3, 0.2, 0.1)
    ellipsoid = tb.EllipsoidShape(radii)
    solid = solid_of(ellipsoid)
    assert solid.faces.shape == (1280, 3)
    volume = np.linalg.det(solid.vertices[solid.faces]).sum() / 6.0
    assert volume == pytest.approx(4.0 / 3.0 * np.pi * np.prod(radii))
    np.testing.assert_allclose(np.linalg.norm(solid.vertices / radii, axis=1), 1.0, atol=5e-3)
    for R, height in ((np.eye(3), 0.1), (rotation_about_x(0.5 * np.pi), 0.2)):
        places = [(R, np.array([0.0, 0.0, 0.5 * SIZE + height + 0.001])), (np.eye(3), np.zeros(3))]
        gap, _, normal = contacts_of(ellipsoid, cube, places)
        assert gap.min() == pytest.approx(0.001, abs=0.005 * height)
        np.testing.assert_allclose(np.abs(normal[np.argmin(gap)]), [0, 0, 1], atol=1e-9)


def rotation_about_x(angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])


@pytest.mark.parametrize(
    ("name", "kept", "cure"),
    [("odd", 12, "they were turned alike"), ("open", 11, "the convex hull was taken")],
)
def test_meshes_of_mixed_orientation_are_turned_or_taken_by_their_hull(
    cube, groove, folder, name, kept, cure
):
    """A cube with two triangles the wrong way round touches as the cube does, with one warning."""
    box = trimesh.creation.box((SIZE, SIZE, SIZE))
    faces = box.faces.copy()
    faces[[0, 5]] = faces[[0, 5], ::-1]
    odd = saved(folder, name, box.vertices, faces[:kept])
    places = [(rotation(3), np.array([0.2, 0.1, 1.4])), (np.eye(3), np.zeros(3))]
    with pytest.warns(tb.ModelWarning, match=rf"{name}\.obj': triangles should be .*; {cure}"):
        found = contacts_of(odd, groove, places)
    expected = contacts_of(cube, groove, places)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        contacts_of(odd, groove, places)


def test_inside_out_parts_of_mixed_meshes_are_turned_outward(groove, folder):
    """Turned alike may be turned inward alike: the volume decides, of each part."""
    box = trimesh.creation.box((SIZE, SIZE, SIZE))
    faces = box.faces[:, ::-1].copy()
    faces[3] = faces[3][::-1]
    with pytest.warns(tb.ModelWarning, match="they were turned alike"):
        solid = solid_of(saved(folder, "inward", box.vertices, faces))
    centers = solid.vertices[solid.faces].mean(axis=1)
    assert (np.sum(solid.normals * centers, axis=1) > 0.0).all()


def test_missing_coal_raises_an_error_naming_the_extra(cube, groove, monkeypatch):
    monkeypatch.setitem(sys.modules, "coal", None)
    monkeypatch.setattr(meshes, "_kept", {})
    with pytest.raises(
        tb.ModelError, match=r"contact 'body/groove'.*pip install 'tiburon\[mesh\]'"
    ):
        tb.contacts(in_groove(cube, groove), [1.0, 0, 0, 0, 0, 0, 1.5])


def test_a_mesh_file_that_changes_is_read_again(folder):
    floor = tb.World(ground=tb.Ground())
    for size in (0.2, 0.4):
        box = trimesh.creation.box((size, size, size))
        shape = saved(folder, "changing", box.vertices, box.faces)
        model = tb.Model("block", [free_body(shape)])
        gap = tb.contacts(model, [1.0, 0, 0, 0, 0, 0, 1.0], world=floor).gap.min()
        assert gap == pytest.approx(1.0 - size / 2, abs=1e-9)


def test_edges_inside_flat_surfaces_are_ignored(cube, folder):
    """On a plate of many triangles a tilted block and a sphere have the normal of the plate."""
    plate = trimesh.creation.box((1.0, 1.0, 0.2))
    for _ in range(3):
        plate = plate.subdivide()
    plate = saved(folder, "plate", plate.vertices, plate.faces)
    c, s = math.cos(0.06), math.sin(0.06)
    tilt = np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]]) @ np.array(
        [[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]]
    )
    corners = 0.5 * SIZE * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    below = np.array([0.017, 0.023, 0.1 - (corners @ tilt.T)[:, 2].min()])
    plane = (np.eye(3), np.zeros(3))
    for shape, place in (
        (cube, (tilt, below)),
        (tb.SphereShape(0.1), (tilt, np.array([0.1251, 0.0623, 0.2]))),
    ):
        gaps, _, normals = contacts_of(shape, plate, (place, plane))
        assert gaps.min() == pytest.approx(0.0, abs=1e-12)
        np.testing.assert_allclose(normals, [[0.0, 0.0, -1.0]] * len(normals), atol=1e-9)


def test_a_mesh_whose_package_was_not_found_names_the_remedy():
    model = tb.Model("block", [free_body(tb.MeshShape("package://robot/foot.stl"))])
    floor = tb.World(ground=tb.Ground())
    with pytest.raises(tb.ModelFileError, match=r"package://robot/foot\.stl.*package_paths"):
        tb.contacts(model, [1.0, 0, 0, 0, 0, 0, 1.0], world=floor)


def test_saved_runs_of_meshes_on_the_ground_are_resumed_without_their_files(folder, tmp_path):
    """The file of a run holds the vertices of hulls, since code reads them at an address."""
    box = trimesh.creation.box((SIZE, SIZE, 2.0 * SIZE))
    shapes = [
        saved(folder, name, box.vertices * size, box.faces)
        for name, size in (("a", 1.0), ("b", 0.5))
    ]
    bodies = [
        replace(free_body(shape), name=name, joint=tb.Free(name))
        for shape, name in zip(shapes, "ab", strict=True)
    ]
    apart = tb.ContactPair("a", "b", touches=False)
    model = tb.Model("blocks", bodies, contact_pairs=[apart])
    q = np.array([0.8, 0.36, 0.48, 0.0, 0.0, 0.0, 0.6, 0.8, 0.0, 0.36, 0.48, 3.0, 0.0, 0.3])
    world = tb.World(ground=tb.Ground(static_friction=0.5))
    whole = tb.simulate(model, 0.4, q=q, world=world)
    tb.simulate(model, 0.2, q=q, world=world).save(tmp_path / "run.zarr")
    for shape in shapes:
        Path(shape.path).unlink()
    resumed = tb.load_run(tmp_path / "run.zarr").resume(0.2)
    assert np.array_equal(resumed.q[-1], whole.q[-1])
    assert np.array_equal(resumed.contact_summary().peak_force, whole.contact_summary().peak_force)


def test_meshes_of_pairs_that_are_left_out_are_not_read():
    """Neither those without contact nor those of bodies that nothing moves."""
    lost = tb.Shape(tb.MeshShape("package://robot/foot.stl"))
    ball = free_body(tb.SphereShape(0.1))
    bolted = tb.Body("bolted", joint=tb.Fixed("bolted"), shapes=(lost,))
    thrown = tb.Body("thrown", joint=tb.Free("thrown"), inertia=ball.inertia, shapes=(lost,))
    pairs = [("bolted", "body"), ("bolted", "thrown"), ("thrown", "body"), ("thrown", "world")]
    apart = [tb.ContactPair(*pair, touches=False) for pair in pairs]
    model = tb.Model("scene", [ball, bolted, thrown], contact_pairs=apart)
    q = [1.0, 0, 0, 0, 0, 0, 1.0] * 2
    found = tb.contacts(model, q, world=tb.World(ground=tb.Ground()))
    assert found.names == ("body/ground",)
    grid = tb.GroundGrid(spacing=(1.0, 1.0), heights=[[0.0] * 4] * 4, origin=(-2.0, -2.0))
    found = tb.contacts(model, q, world=tb.World(ground=tb.Ground(grid=grid)))
    assert {name.split("[")[0] for name in found.names} == {"body/ground"}


def test_planes_of_bodies_do_not_touch_the_ground():
    """Uneven or not; what touches level ground is named as users know it."""
    model = tb.Model("tray", [free_body(tb.PlaneShape())])
    q = [1.0, 0, 0, 0, 0, 0, 1.0]
    with pytest.raises(tb.ModelError, match=r"plane and plane.*cylinder, ellipsoid, mesh against"):
        tb.contacts(model, q, world=tb.World(ground=tb.Ground()))
    grid = tb.GroundGrid(spacing=(1.0, 1.0), heights=[[0.0] * 4] * 4, origin=(-2.0, -2.0))
    with pytest.raises(tb.ModelError, match=r"plane and height field.*ellipsoid against"):
        tb.contacts(model, q, world=tb.World(ground=tb.Ground(grid=grid)))
