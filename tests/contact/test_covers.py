"""Covers of meshes contain them; pads transmit the wrenches of their outlines."""

import sys

import numpy as np
import pytest
import trimesh

import tiburon as tb
from tiburon.contact.geometry.contact_geometry import Placed
from tiburon.contact.geometry.pairs import pair, shape_kind, shape_size


def mesh_file(tmp_path, mesh, name="part.stl"):
    path = tmp_path / name
    mesh.export(path)
    return str(path)


def bent():
    """An L of two bars: not convex."""
    bars = [trimesh.creation.box((0.6, 0.1, 0.1)), trimesh.creation.box((0.1, 0.1, 0.5))]
    bars[0].apply_translation((0.3, 0.0, 0.0))
    bars[1].apply_translation((0.55, 0.0, 0.3))
    return trimesh.util.concatenate(bars)


def gaps_to(shapes, points):
    """Return the signed distance of points to the nearest shape."""
    found = np.full(len(points), np.inf)
    for shape in shapes:
        placed = Placed(shape.pose.rotation, shape.pose.translation, shape_size(shape.geometry))
        function = pair("sphere", shape_kind(shape.geometry)).function
        for k, point in enumerate(points):
            one = Placed(tb.Pose().rotation, tuple(point.tolist()), (0.0,))
            found[k] = min(found[k], float(function(one, placed)[0].gap))
    return found


def volume(shape):
    geometry = shape.geometry
    if isinstance(geometry, tb.BoxShape):
        return float(np.prod(geometry.size))
    length = getattr(geometry, "length", 0.0)
    return float(np.pi * geometry.radius**2 * (length + 4 / 3 * geometry.radius))


@pytest.mark.parametrize("kind", ["capsule", "sphere", "box"])
@pytest.mark.parametrize("count", [1, 4])
def test_a_cover_contains_the_mesh(tmp_path, kind, count):
    """Also scaled, mirrored and placed; more shapes fill less."""
    mesh = bent()
    rng = np.random.default_rng(0)
    shape = tb.Shape(
        tb.MeshShape(mesh_file(tmp_path, mesh), (1.0, -2.0, 1.5)),
        tb.Pose.from_axis_angle((0.3, 0.5, -0.2), 0.8, (0.1, 0.2, 0.3)),
        material=tb.ContactMaterial(0.6),
        name="bar",
    )
    cover = tb.cover_mesh(shape, kind=kind, count=count)
    assert len(cover) == count
    assert all(one.material == shape.material and one.role == "collision" for one in cover)
    points, _ = trimesh.sample.sample_surface(mesh, 300, seed=1)
    points = points * shape.geometry.scale
    points = points @ np.array(shape.pose.rotation).T + np.array(shape.pose.translation)
    points = np.concatenate([points, points[rng.permutation(len(points))[:0]]])
    assert gaps_to(cover, points).max() < 1e-7
    if count > 1:
        one = tb.cover_mesh(shape, kind=kind)
        assert sum(map(volume, cover)) < 0.9 * volume(one[0])


def test_covers_of_simple_solids_are_tight(tmp_path):
    """A box is its own box; a capsule and a ball are theirs, up to the triangles."""
    box = tb.MeshShape(mesh_file(tmp_path, trimesh.creation.box((0.3, 0.2, 0.1)), "box.stl"))
    (found,) = tb.cover_mesh(box, kind="box")
    np.testing.assert_allclose(sorted(found.geometry.size), [0.1, 0.2, 0.3], rtol=1e-6)
    ball = trimesh.creation.icosphere(subdivisions=3, radius=0.2)
    (found,) = tb.cover_mesh(tb.MeshShape(mesh_file(tmp_path, ball, "ball.stl")), kind="sphere")
    assert 0.199 < found.geometry.radius < 0.201
    capsule = trimesh.creation.capsule(height=0.5, radius=0.1)
    (found,) = tb.cover_mesh(tb.MeshShape(mesh_file(tmp_path, capsule, "capsule.stl")))
    assert 0.099 < found.geometry.radius < 0.102
    assert 0.49 < found.geometry.length < 0.51


def test_a_robot_of_meshes_stands_on_its_covers(tmp_path, monkeypatch):
    """A mesh that is not convex is refused without coal beside other shapes, with remedies."""
    path = mesh_file(tmp_path, trimesh.creation.box((0.3, 0.2, 0.1)))
    body = tb.Body("block", joint=tb.Free("block"), inertia=tb.Inertia.box(1.0, (0.3, 0.2, 0.1)),
                   shapes=(tb.Shape(tb.MeshShape(path)),))  # fmt: skip
    model, floor = tb.Model("mesh", [body]), tb.World(ground=tb.Ground(static_friction=0.5))
    q = [1, 0, 0, 0, 0, 0, 0.05]
    monkeypatch.setitem(sys.modules, "coal", None)
    ball = tb.Body("ball", joint=tb.Fixed("ball"), shapes=(tb.Shape(tb.SphereShape(0.1)),))
    ring = tb.MeshShape(mesh_file(tmp_path, trimesh.creation.annulus(0.1, 0.2, 0.1), "ring.stl"))
    hoop = tb.Body("block", joint=tb.Free("block"), inertia=body.inertia, shapes=(tb.Shape(ring),))
    with pytest.raises(tb.ModelError, match=r"'block/ball'.*tiburon.mesh.*tb.cover_mesh"):
        tb.contacts(tb.Model("mesh", [hoop, ball]), q)
    covered = tb.cover_meshes(model, kind="box")
    assert [shape.role for shape in covered.bodies[0].shapes] == ["visual", "collision"]
    run = tb.simulate(covered, 0.1, q=q, world=floor)
    np.testing.assert_allclose(run.q[-1], q, atol=1e-9)
    with pytest.raises(tb.ModelError, match="expected a MeshShape"):
        tb.cover_mesh(tb.Shape(tb.SphereShape(0.1)))
    with pytest.raises(tb.ModelFileError):
        tb.cover_mesh(tb.MeshShape(str(tmp_path / "none.stl")))


def test_pads_are_end_effectors():
    """Edges, polygons and discs; attached to a leg, they carry it where a point would not."""
    place = tb.Pose.from_axis_angle((1.0, 0.0, 0.0), np.pi, (0.0, 0.0, -0.1))
    sole = tb.contact_pad(
        "sole", "foot", [(-0.1, 0), (0.1, -0.05), (0.1, 0.05), (0.02, 0.0)], pose=place
    )
    assert [point.name for point in sole] == ["sole_0", "sole_1", "sole_2"]
    assert all(point.position[2] == -0.1 for point in sole)
    assert len(tb.contact_pad("edge", "foot", [(0, 0), (0.1, 0), (0.05, 0.0)])) == 2
    rubber = tb.ContactMaterial(0.5)
    disc = tb.contact_pad("disc", "foot", 0.08, count=5, radius=0.01, material=rubber)
    assert len(disc) == 5
    np.testing.assert_allclose(np.linalg.norm([p.position for p in disc], axis=1), 0.08)
    inertia = tb.Inertia.box(2.0, (0.2, 0.1, 0.2))

    def standing(points):
        foot = tb.Body("foot", joint=tb.Fixed("ankle"), inertia=inertia)
        shank = tb.Body("shank", joint=tb.Free("shank"), inertia=inertia)
        leg = tb.Model("leg", [shank]).attach(tb.Model("pad", [foot], contacts=points), at="shank")
        q = [1, 0, 0, 0, 0, 0, 0.1]
        floor = tb.World(ground=tb.Ground(static_friction=0.8))
        run = tb.simulate(leg, 0.5, q=q, v=[0.05, 0.05, 0, 0, 0, 0], world=floor)
        return abs(run.q[-1, 1:3]).max()

    assert standing(sole) < 0.01
    assert standing(sole[:1]) > 0.1
    with pytest.raises(tb.ShapeError, match="outline"):
        tb.contact_pad("pad", "foot", [1.0, 2.0])
    with pytest.raises(tb.DomainError, match="different points"):
        tb.contact_pad("pad", "foot", [(0, 0), (0, 0)])
