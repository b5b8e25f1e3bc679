"""Contact of convex meshes with each other and with simple shapes, inside of compiled steps."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.contact.geometry.cases import (
    POLYHEDRA,
    RANGES,
    contacts,
    random_pair,
    random_shape,
    world_vertices,
)
from tiburon.actuation.rigid_contact import RigidContactElement
from tiburon.contact import active
from tiburon.contact.candidates import candidates_of, numbers_of
from tiburon.contact.geometry.contact_geometry import NO_CONTACT, Placed
from tiburon.contact.geometry.hull_hull import ANY_DISTANCE, NEAR
from tiburon.contact.polyhedra import Polyhedron, box, convex_hull, polyhedron, prism, rounded
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.native.module import write_module
from tiburon.simulation.integrators.manifold import Manifold
from tiburon.trace import trace
from tiburon.trace.digest import program_digest
from tiburon.trace.primitives.primitive import address_of
from tiburon.trace.regions import function

trimesh = pytest.importorskip("trimesh")

SIZE = 0.3
G = 9.81


def rotation(rng):
    q, r = np.linalg.qr(rng.normal(size=(3, 3)))
    q = q * np.sign(np.diag(r))
    return q * np.linalg.det(q)


def quaternion(rng):
    x = rng.normal(size=4)
    return x / np.linalg.norm(x)


def saved(folder, name, mesh):
    path = folder / f"{name}.obj"
    trimesh.Trimesh(mesh.vertices, mesh.faces, process=False).export(path)
    return tb.MeshShape(str(path))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hulls")


@pytest.fixture(scope="module")
def cube(folder):
    return saved(folder, "cube", trimesh.creation.box((SIZE,) * 3))


@pytest.fixture(scope="module")
def plate(folder):
    return saved(folder, "plate", trimesh.creation.box((2.0, 2.0, 0.2)))


def free_body(name, shape, mass=2.0):
    inertia = tb.Inertia.box(mass, (SIZE, SIZE, SIZE))
    surface = tb.ContactMaterial(0.5)
    return tb.Body(
        name, joint=tb.Free(name), inertia=inertia, shapes=(tb.Shape(shape, material=surface),)
    )


def on_table(bodies, plate):
    """Bodies over a table whose top is at the height 0."""
    at = tb.Pose(translation=(0.0, 0.0, -0.1))
    top = tb.Shape(plate, at, material=tb.ContactMaterial(0.5))
    return tb.Model("scene", [*bodies, tb.Body("table", joint=tb.Fixed("table"), shapes=(top,))])


def separation(first, second, n):
    """Distance of two vertex sets along a direction: a lower bound of that of their hulls."""
    return float((second @ n).min() - (first @ n).max())


def distance_of_points(first, second):
    """Distance of two hulls by Wolfe's algorithm of the nearest point, on all differences."""
    points = (second[:, None] - first[None]).reshape(-1, 3)
    chosen, weights = [int(np.argmin(np.einsum("ij,ij->i", points, points)))], np.array([1.0])
    while True:
        x = weights @ points[chosen]
        k = int(np.argmin(points @ x))
        if k in chosen or points[k] @ x > x @ x - 1e-14 * max(1.0, x @ x):
            return float(np.linalg.norm(x))
        chosen.append(k)
        weights = np.append(weights, 0.0)
        while True:
            P = points[chosen]
            system = np.block([[P @ P.T, np.ones((len(P), 1))], [np.ones((1, len(P))), 0.0]])
            affine = np.linalg.lstsq(system, [0.0] * len(P) + [1.0], rcond=None)[0][:-1]
            if (affine > 1e-13).all():
                weights = affine
                break
            falls = affine <= 1e-13
            share = (weights[falls] / np.maximum(weights[falls] - affine[falls], 1e-300)).min()
            weights = weights + min(share, 1.0) * (affine - weights)
            kept = weights > 1e-13
            chosen = [c for c, keep in zip(chosen, kept, strict=True) if keep]
            weights = weights[kept] / weights[kept].sum()


def apart_by(pair, gap):
    """Move the second shape toward the first until their distance is a gap, along its direction."""
    first, second = pair
    for _ in range(6):
        found = min(contacts_of(first, second), key=lambda contact: contact.gap)
        moved = np.array(second.position) - (found.gap - gap) * np.array(found.normal)
        second = second._replace(position=tuple(moved.tolist()))
    return first, second


def contacts_of(first, second):
    return contacts("hull-hull", [(first, second)])[0]


def far_pairs(count, seed=0):
    rng = np.random.default_rng(seed)
    found = []
    while len(found) < count:
        one, two = random_pair(rng, "hull-hull")
        away = 0.7 * rng.normal(size=3)
        two = two._replace(position=tuple(np.add(two.position, away).tolist()))
        if min(contact.gap for contact in contacts_of(one, two)) > 1e-3:
            found.append((one, two))
    return found


@pytest.mark.parametrize("gap", [None, 1e-3, 1e-6])
def test_distances_of_hulls_are_those_of_an_independent_method(gap):
    """Apart at random, and moved together: to 1e-9; the normal attains the distance."""
    pairs = far_pairs(150)
    if gap is not None:
        pairs = [apart_by(pair, gap) for pair in pairs]
    for (one, two), found in zip(pairs, contacts("hull-hull", pairs), strict=True):
        corners = world_vertices(one), world_vertices(two)
        nearest = min(found, key=lambda contact: contact.gap)
        exact = distance_of_points(*corners)
        assert nearest.gap == pytest.approx(exact, abs=1e-9)
        assert separation(*corners, np.array(nearest.normal)) == pytest.approx(exact, abs=2e-9)


def test_hulls_beyond_a_distance_have_no_contacts_and_others_keep_theirs():
    """Where steps ask for what is near alone."""
    pairs = far_pairs(60, seed=2)
    near = 0.1
    size = len(pairs[0][0].size)
    assert size == NEAR + 1
    asked = [
        tuple(shape._replace(size=(*shape.size[:NEAR], near)) for shape in pair) for pair in pairs
    ]
    absent = 0
    for whole, found in zip(
        contacts("hull-hull", pairs), contacts("hull-hull", asked), strict=True
    ):
        gap = min(contact.gap for contact in found)
        exact = min(contact.gap for contact in whole)
        if gap == NO_CONTACT:
            assert exact > near
            absent += 1
        else:
            assert gap == exact
    assert 10 < absent < 60


def test_overlaps_are_about_as_deep_as_the_least_translation_apart():
    """At some 1e-5 m within a factor of 2 of 97 in 100 pairs, and of 10 of all.

    Sharp corners that overlap have several normals along which the overlap is locally least.
    """
    pairs = [apart_by(pair, -1e-5) for pair in far_pairs(150, seed=1)]
    ratios = []
    for (one, two), found in zip(pairs, contacts("hull-hull", pairs), strict=True):
        corners = world_vertices(one), world_vertices(two)
        deepest = min(found, key=lambda contact: contact.gap)
        if deepest.gap > -1e-6:
            continue
        along = separation(*corners, np.array(deepest.normal))
        # a corner of two faces over each other may be less deep than the body behind it
        assert 2.0 * deepest.gap - 2e-8 < along < deepest.gap + 2e-8
        # the faces of the difference of both bodies, around the origin
        whole = convex_hull((corners[1][:, None] - corners[0][None]).reshape(-1, 3))
        a, b, c = np.moveaxis(whole.vertices[whole.triangles], 1, 0)
        n = np.cross(b - a, c - a)
        n /= np.linalg.norm(n, axis=1, keepdims=True)
        least = float(np.sum(n * a, axis=1).min())
        assert -along > least - 1e-9
        ratios.append(-deepest.gap / least)
    assert len(ratios) > 100
    assert min(ratios) > 0.9
    assert max(ratios) < 10.0
    assert np.quantile(ratios, 0.97) < 2.0


def test_spheres_and_capsules_touch_hulls_at_their_distance():
    """The distance of the core less the radius."""
    rng = np.random.default_rng(3)
    for kind in ("ball", "rod"):
        pairs = []
        while len(pairs) < 60:
            one, two = random_shape(rng, kind), random_shape(rng, "hull")
            away = rng.normal(size=3)
            two = two._replace(position=tuple((0.5 * away / np.linalg.norm(away)).tolist()))
            if distance_of_points(world_vertices(one), world_vertices(two)) > 1e-3:
                pairs.append((one, two))
        for (one, two), found in zip(pairs, contacts(f"{kind}-hull", pairs), strict=True):
            exact = distance_of_points(world_vertices(one), world_vertices(two)) - one.size[5]
            assert min(contact.gap for contact in found) == pytest.approx(exact, abs=1e-9)


def test_faces_touch_at_the_corners_of_their_overlap():
    """Cubes on each other: aligned and shifted a rectangle, turned by 45 degrees an octagon."""
    cube = [polyhedron(tuple(box((SIZE,) * 3)[0].ravel().tolist()))]
    from tiburon.contact.polyhedra import table_of

    table, sizes = table_of([(cube[0], 0.0)])
    size = (*sizes[0], address_of(table.rows), ANY_DISTANCE)
    eye = tuple(map(tuple, np.eye(3).tolist()))
    below = Placed(eye, (0.0, 0.0, 0.0), size)
    for shift in (0.0, 1e-9, 0.299):
        found = contacts_of(below, Placed(eye, (shift, 0.0, SIZE), size))
        touching = [contact for contact in found if contact.gap < NO_CONTACT]
        assert len(touching) == 4
        points = np.array([contact.point for contact in touching])
        np.testing.assert_allclose([contact.gap for contact in touching], 0.0, atol=1e-15)
        np.testing.assert_allclose(
            [contact.normal for contact in touching], [[0, 0, 1.0]] * 4, atol=1e-15
        )
        np.testing.assert_allclose(np.ptp(points, axis=0), [SIZE - shift, SIZE, 0.0], atol=1e-6)
    c = math.sqrt(0.5)
    turned = ((c, -c, 0.0), (c, c, 0.0), (0.0, 0.0, 1.0))
    found = contacts_of(below, Placed(turned, (0.0, 0.0, SIZE), size))
    points = np.array([contact.point for contact in found if contact.gap < NO_CONTACT])
    assert len(points) >= 6
    np.testing.assert_allclose(
        np.linalg.norm(points[:, :2], axis=1), SIZE / 2 / math.cos(math.pi / 8), atol=1e-6
    )


def test_contacts_keep_their_places_while_a_body_slides_and_turns():
    """A cube that turns by 40 degrees on another one, in steps of 0.1 degrees: few changes."""
    from tiburon.contact.polyhedra import table_of

    cubes = [polyhedron(tuple(box((s,) * 3)[0].ravel().tolist())) for s in (SIZE, 4.0 * SIZE)]
    table, sizes = table_of([(one, 0.0) for one in cubes])
    small, large = ((*size, address_of(table.rows), ANY_DISTANCE) for size in sizes)
    eye = tuple(map(tuple, np.eye(3).tolist()))
    below = Placed(eye, (0.0, 0.0, 0.0), large)
    pairs = []
    for angle in np.radians(np.arange(0.0, 40.0, 0.1)):
        c, s = math.cos(angle), math.sin(angle)
        tilt = 1e-10 * math.sin(1e3 * angle)
        turn = ((c, -s, 0.0), (s, c, tilt), (0.0, -tilt, 1.0))
        pairs.append((below, Placed(turn, (0.1 * angle, 0.0, 2.5 * SIZE - 1e-9), small)))
    used = [
        tuple(contact.gap < NO_CONTACT for contact in found)
        for found in contacts("hull-hull", pairs)
    ]
    assert {sum(some) for some in used} == {4}
    assert sum(a != b for a, b in itertools.pairwise(used)) <= 8


@pytest.mark.parametrize("count", [4, 30, 400])
def test_hulls_hold_all_points_and_close(count):
    """Every edge has two faces, Euler's formula holds, and no point is outside."""
    points = np.random.default_rng(count).normal(size=(count, 3))
    hull = convex_hull(points)
    a, b, c = np.moveaxis(hull.vertices[hull.triangles], 1, 0)
    n = np.cross(b - a, c - a)
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    assert (points @ n.T - np.sum(n * a, axis=1)).max() < 1e-8
    sides = np.sort(hull.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    edges, uses = np.unique(sides, axis=0, return_counts=True)
    assert (uses == 2).all()
    assert len(hull.vertices) - len(edges) + len(hull.triangles) == 2


def test_hulls_of_flat_faces_have_their_corners_alone():
    """A grid of points in a box, turned and in single precision: eight corners, six faces."""
    grid = np.array([(x, y, z) for x in range(9) for y in range(9) for z in range(9)], float)
    found = convex_hull(grid)
    assert len(found.vertices) == 8
    turned = (grid @ rotation(np.random.default_rng(0))).astype(np.float32).astype(float)
    hull = convex_hull(turned)
    whole = Polyhedron(hull.vertices, hull.triangles)
    assert len(whole._faces) == 6
    volume = np.linalg.det(hull.vertices[hull.triangles]).sum() / 6.0
    assert volume == pytest.approx(512.0, rel=1e-6)


def test_large_hulls_leave_out_little():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(4000, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    hull = convex_hull(points)
    assert 1000 <= len(hull.vertices) < 4000
    a, b, c = np.moveaxis(hull.vertices[hull.triangles], 1, 0)
    n = np.cross(b - a, c - a)
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    outside = float((points @ n.T - np.sum(n * a, axis=1)).max())
    assert outside <= hull.error + 1e-12
    assert hull.error <= 1e-3 * 2.0


def test_cylinders_and_ellipsoids_are_polyhedra_of_their_volume():
    """Radii vary by 0.5 %."""
    for (vertices, triangles), volume in (
        (prism(0.2, 0.5), math.pi * 0.2**2 * 0.5),
        (rounded((0.3, 0.2, 0.1)), 4.0 / 3.0 * math.pi * 0.3 * 0.2 * 0.1),
    ):
        assert np.linalg.det(vertices[triangles]).sum() / 6.0 == pytest.approx(volume)
    away = np.linalg.norm(rounded((0.3, 0.2, 0.1))[0] / [0.3, 0.2, 0.1], axis=1)
    np.testing.assert_allclose(away, 1.0, atol=5e-3)


def test_a_cube_rests_on_a_table_for_five_seconds(cube, plate):
    """Without creep and without turning."""
    model = on_table([free_body("cube", cube)], plate)
    q = [math.cos(0.2), 0.0, 0.0, math.sin(0.2), 0.1, 0.05, SIZE / 2]
    run = tb.simulate(model, 5.0, q=q, contact=tb.RigidContact(), record=tb.Record(every=100))
    np.testing.assert_allclose(run.q, [q] * len(run.q), rtol=0, atol=1e-9)
    assert np.abs(run.v[-1]).max() < 1e-9
    touching = tb.contacts(model, run.q[-1]).gap < 1e-9
    assert touching.sum() == 4


@pytest.mark.parametrize(
    "shape",
    [
        tb.BoxShape((SIZE,) * 3),
        tb.CylinderShape(SIZE / 2, SIZE),
        tb.CapsuleShape(SIZE / 4, SIZE),
        tb.SphereShape(SIZE / 2),
        tb.EllipsoidShape((0.2, 0.2, SIZE / 2)),
    ],
)
def test_simple_shapes_rest_on_a_mesh(shape, plate):
    """At their height over it, to the error of their polyhedra; a capsule lies."""
    model = on_table([free_body("body", shape)], plate)
    q = np.array([1.0, 0, 0, 0, 0, 0, SIZE / 2])
    height = SIZE / 2
    if isinstance(shape, tb.CapsuleShape):
        q[:4] = [math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0]
        height = SIZE / 4
    q[6] = height + 2e-3
    run = tb.simulate(model, 0.3, q=q, contact=tb.RigidContact())
    assert run.outcome.status == "finished"
    assert run.q[-1, 6] == pytest.approx(height, abs=5e-3 * height)
    assert np.abs(run.v[-1]).max() < 1e-6
    force = run.get("contact_force").values[-1].sum(axis=0)
    np.testing.assert_allclose(np.abs(force), [0.0, 0.0, 2.0 * G], atol=1e-5)


def test_a_stack_of_meshes_moves_as_that_of_boxes(cube, plate):
    """Tilted landing without friction, kicked; velocities after impacts are unique."""
    ends = []
    for shape, top in ((cube, plate), (tb.BoxShape((SIZE,) * 3), tb.BoxShape((2.0, 2.0, 0.2)))):
        model = on_table([free_body("body", shape)], top)
        smooth = tb.ContactMaterial(0.0)
        pair = tb.ContactPair("body", "table", material=smooth)
        model = tb.Model("scene", model.bodies, contact_pairs=[pair])
        q = np.array([0.9, 0.1, 0.2, 0.3, 0.0, 0.0, 0.31])
        q[:4] /= np.linalg.norm(q[:4])
        v = [1.0, -2.0, 0.5, 0.3, 0.2, -0.1]
        run = tb.simulate(model, 0.2, q=q, v=v, contact=tb.RigidContact())
        assert run.outcome.status == "finished"
        assert run.contact_summary().peak_force.max() > 30.0
        ends.append(np.concatenate([run.q[-1], run.v[-1]]))
    np.testing.assert_allclose(ends[0], ends[1], rtol=0, atol=1e-5)


def test_a_pile_of_hulls_comes_to_rest_without_gaining_energy(folder, plate):
    """Rocks that fall on each other: energy only falls, by step to rounding, and nothing sinks."""
    rng = np.random.default_rng(5)
    rocks = []
    for k in range(3):
        ball = trimesh.creation.icosphere(1)
        shape = trimesh.convex.convex_hull(
            ball.vertices * [0.15, 0.12, 0.1] * rng.uniform(0.8, 1.0, (len(ball.vertices), 1))
        )
        rocks.append(free_body(f"rock{k}", saved(folder, f"rock{k}", shape)))
    model = on_table(rocks, plate)
    q = model.neutral()
    for k in range(3):
        q[7 * k + 4 : 7 * k + 7] = [0.03 * k, 0.02 * k, 0.2 + 0.3 * k]
    run = tb.simulate(model, 0.8, q=q, contact=tb.RigidContact())
    assert run.outcome.status == "finished"
    energy = tb.kinetic_energy(model, run.q, run.v) + tb.potential_energy(model, run.q)
    assert energy[0] - energy[-1] > 1.0
    assert np.diff(energy).max() < 1e-4 * (energy.max() - energy.min())
    assert tb.contacts(model, run.q[-1]).gap.min() > -1e-4


def test_batches_equal_single_runs_in_bits(cube, plate):
    model = on_table([free_body("a", cube), free_body("b", cube)], plate)
    q = np.array(
        [
            [1.0, 0, 0, 0, 0, 0, 0.16, 1.0, 0, 0, 0, 0.05, 0.02, 0.47],
            [0.8, 0.6, 0, 0, 0, 0, 0.25, 0.6, 0, 0.8, 0, 0.05, 0.02, 0.7],
            [1.0, 0, 0, 0, 0, 0, 0.9, 1.0, 0, 0, 0, 0.05, 0.02, 3.0],
        ]
    )
    both = tb.simulate(model, 0.1, q=q, contact=tb.RigidContact())
    for case in range(len(q)):
        alone = tb.simulate(model, 0.1, q=q[case], contact=tb.RigidContact())
        assert both.q[:, case].tobytes() == alone.q.tobytes()
        assert both.z[:, case].tobytes() == alone.z.tobytes()


def test_hulls_need_no_coal_and_meshes_that_are_not_convex_say_so(folder, plate, monkeypatch):
    """Convex to 1e-3 of the size, or said to be: natively; a ring by its surface needs it."""
    import sys

    from tiburon.contact import meshes

    monkeypatch.setitem(sys.modules, "coal", None)
    monkeypatch.setattr(meshes, "_kept", {})
    ring = saved(folder, "ring", trimesh.creation.annulus(0.1, 0.2, 0.1))
    q = [1.0, 0, 0, 0, 0, 0, 1.0]
    with pytest.raises(tb.ModelError, match="needs coal"):
        tb.contacts(on_table([free_body("ring", ring)], plate), q)
    hull = replace(ring, convex=True)
    gap = tb.contacts(on_table([free_body("ring", hull)], plate), q).gap
    assert gap.min() == pytest.approx(0.95, abs=1e-9)
    tray = trimesh.creation.box((0.4, 0.4, 0.2))
    tray.update_faces(tray.face_normals[:, 2] < 0.5)
    apart = trimesh.util.concatenate(
        [trimesh.creation.box((0.1, 0.3, 0.3), np.eye(4)) for _ in range(1)]
        + [trimesh.creation.box((0.1, 0.3, 0.3)).apply_translation([0.3, 0.0, 0.0])]
    )
    for name, mesh in (("tray", tray), ("apart", apart)):
        with pytest.raises(tb.ModelError, match="needs coal"):
            tb.contacts(on_table([free_body("body", saved(folder, name, mesh))], plate), q)
    bent = trimesh.creation.box((0.4, 0.4, 0.2)).subdivide()
    middle = np.abs(bent.vertices[:, :2]).max(axis=1) < 1e-9
    for depth, is_convex in ((1e-4, True), (1e-2, False)):
        dented = bent.copy()
        dented.vertices[middle & (dented.vertices[:, 2] > 0.0), 2] -= depth
        shape = saved(folder, f"dented{is_convex}", dented)
        assert meshes.is_convex(shape, "test") == is_convex


def test_vertices_of_the_table_are_those_of_the_shapes():
    """What tests read from the table of polyhedra is what code reads."""
    for kind, some in RANGES.items():
        for size in some:
            first, count = map(int, size[:2])
            rows = POLYHEDRA.rows[first : first + count]
            assert np.linalg.norm(rows, axis=1).max() + size[5] == pytest.approx(size[2])
            assert len(rows) == {"ball": 1, "rod": 2}.get(kind, len(rows))


def test_dynamics_and_linearization_on_a_mesh_are_those_on_a_box(cube, plate):
    """A block that slides on a table without friction."""
    q = [math.cos(0.2), 0.0, 0.0, math.sin(0.2), 0.0, 0.0, SIZE / 2]
    v, tau = [0.0, 0.0, 0.0, 0.7, 0.2, 0.0], [0.0, 0.0, 0.0, 0.3, 0.1, -1.0]
    found = []
    for shape, top in ((cube, plate), (tb.BoxShape((SIZE,) * 3), tb.BoxShape((2.0, 2.0, 0.2)))):
        pair = tb.ContactPair("body", "table", material=tb.ContactMaterial(0.0))
        bodies = on_table([free_body("body", shape)], top).bodies
        model = tb.Model("scene", bodies, contact_pairs=[pair])
        line = tb.linearize(model, q, v, tau, dt=1e-3, contact=tb.RigidContact())
        found.append((tb.contact_dynamics(model, q, v, tau).vd, line.A, line.B))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)


def test_saved_runs_of_hulls_are_resumed_without_their_files(folder, plate, tmp_path):
    """The file of a run holds the vertices of hulls, and those of the shapes that touch them."""
    import pathlib

    shape = saved(folder, "lost", trimesh.creation.box((SIZE,) * 3))
    model = on_table([free_body("a", shape), free_body("b", tb.SphereShape(0.1))], plate)
    q = [0.8, 0.36, 0.48, 0.0, 0.0, 0.0, 0.3, 1.0, 0, 0, 0, 0.05, 0.0, 0.7]
    options = {"q": q, "contact": tb.RigidContact()}
    whole = tb.simulate(model, 0.3, **options)
    tb.simulate(model, 0.15, **options).save(tmp_path / "run.zarr")
    pathlib.Path(shape.path).unlink()
    resumed = tb.load_run(tmp_path / "run.zarr").resume(0.15)
    assert np.array_equal(resumed.q[-1], whole.q[-1])


def crowd(cube, count):
    """Loose cubes that may all touch each other."""
    bodies = [free_body(f"cube{k}", cube) for k in range(count)]
    return tb.Model(f"crowd{count}", bodies)


def approach_of(model):
    """The points that may act in a step of a tenth of a second, from q, v, v without contact."""
    candidates = candidates_of(model, tb.World())
    element, numbers = RigidContactElement("contact", candidates), numbers_of(candidates)
    plan, manifold = model.plan, Manifold(model)

    def near(q, v, free, p):
        ahead, end = (manifold.displaced(tuple(q), tuple(x), 0.1) for x in (v, free))
        gaps, points = element.approach((plan, plan), q, ahead, (v, v), 0.1, tuple(p), end)
        rows = [x for row in points.rows for x in row]
        return np.array([*gaps, *points.places, points.count, points.least, *rows], like=q)

    sizes = {"q": (model.nq,), "v": (model.nv,), "free": (model.nv,), "p": (len(numbers),)}
    return trace(near, sizes), numbers


def test_pairs_of_hulls_in_turn_are_those_of_separate_code(cube, monkeypatch):
    """Gaps, points, surfaces and bodies of all that come near, of single states and a batch."""
    model, rng = crowd(cube, 6), np.random.default_rng(2)
    poses = [model.neutral() for _ in range(3)]
    for q in poses:
        for k in range(6):
            q[7 * k : 7 * k + 4] = quaternion(rng)
            q[7 * k + 4 : 7 * k + 7] = rng.uniform(-0.35, 0.35, 3)
    states = (np.array(poses), 0.3 * rng.normal(size=(3, 36)), 0.3 * rng.normal(size=(3, 36)))
    (program, numbers), found = approach_of(model), []
    monkeypatch.setattr(active, "in_turn", lambda call, sets: [function(call)(*x) for x in sets])
    for each in (program, approach_of(model)[0]):
        run = make_kernel(ProgramSource(each))
        found.append([run(*(x[0] for x in states), np.array(numbers)), run(*states, numbers)])
    assert program_digest(program) != program_digest(approach_of(model)[0])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    slots = found[0][1][:, 15 * 8 : 15 * 8 + 64]
    assert ((slots >= 0.0).sum(axis=1) > 10).all()


def test_code_does_not_grow_with_pairs_of_hulls(cube):
    """Of 15 and of 66 pairs: by what is done for each of 6 and of 12 bodies."""
    lines = [write_module(approach_of(crowd(cube, n))[0], "one")[0].count("\n") for n in (6, 12)]
    assert lines[1] < 1.3 * lines[0]
