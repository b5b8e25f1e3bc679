"""What is drawn of a robot: every robot is visible, in its own shapes or in stand-ins for them."""

import math
import struct

import numpy as np
import pytest

import tiburon as tb
from tiburon import zoo
from tiburon.viewer.scene import coarsened, half_extents, quaternions, read_mesh, scene_of

ROUNDING = 1e-12
"""A few operations on numbers near one."""


def bare(model: tb.Model) -> tb.Model:
    """The same robot without shapes."""
    bodies = [
        tb.Body(b.name, b.parent, joint=b.joint, inertia=b.inertia, fluid=b.fluid)
        for b in model.bodies
    ]
    return tb.Model(model.name, bodies, model.frames, loops=model.loops)


@pytest.mark.parametrize("name", zoo.names())
def test_every_body_of_every_robot_is_visible_with_and_without_shapes(name):
    """Shapes are drawn as they are; without them every body with mass gets a stand-in."""
    model = tb.load(name)
    scene = scene_of(model)
    assert [body.name for body in scene.bodies] == list(model.body_names)
    for body, drawn in zip(model.bodies, scene.bodies, strict=True):
        assert len(drawn.parts) == sum(shape.role != "collision" for shape in body.shapes)
        assert not any(part.placeholder for part in drawn.parts)
    for body, drawn in zip(model.bodies, scene_of(bare(model)).bodies, strict=True):
        if body.inertia.mass > 0.0:
            assert drawn.parts
            assert all(part.placeholder for part in drawn.parts)
    assert scene.size > 0.0


def test_body_without_shape_is_drawn_as_a_rod_between_joints():
    """The capsule of a link without shapes starts at its joint and ends at the next one."""
    model = tb.Model(
        "arm",
        [
            tb.Body("upper", joint=tb.Revolute("a", (0, 1, 0)), inertia=tb.Inertia.point(1.0)),
            tb.Body(
                "lower",
                "upper",
                joint=tb.Revolute("b", (0, 1, 0), pose=tb.Pose(translation=(0.3, 0.0, -0.4))),
                inertia=tb.Inertia.box(1.0, (0.1, 0.1, 0.4), com=(0.0, 0.0, -0.2)),
            ),
        ],
    )
    (rod,) = scene_of(model).bodies[0].parts
    assert rod.kind == "capsule"
    half = rod.rotation @ [0.0, 0.0, 0.5 * rod.size[1]]
    ends = sorted(
        [np.array(rod.position) - half, np.array(rod.position) + half], key=np.linalg.norm
    )
    np.testing.assert_allclose(ends[0], 0.0, atol=ROUNDING)
    np.testing.assert_allclose(ends[1], [0.3, 0.0, -0.4], atol=ROUNDING)
    # the last link reaches as far beyond its center of mass as its joint is before
    (last,) = scene_of(model).bodies[1].parts
    np.testing.assert_allclose(last.position, (0.0, 0.0, -0.2), atol=ROUNDING)


def test_floating_body_without_shape_is_drawn_as_its_inertia_box():
    """Size and axes of a solid box follow from its mass and tensor."""
    turned = tb.Pose.from_rpy((0.3, -0.5, 1.1), (0.02, 0.01, -0.03))
    inertia = tb.Inertia.box(7.0, (0.6, 0.4, 0.2)).moved(turned)
    body = tb.Body("hull", joint=tb.Free("base"), inertia=inertia)
    (box,) = scene_of(tb.Model("vehicle", [body])).bodies[0].parts
    assert box.kind == "box"
    np.testing.assert_allclose(sorted(box.size), [0.2, 0.4, 0.6], rtol=1e-9)
    np.testing.assert_allclose(box.position, turned.translation, atol=ROUNDING)
    # the longest edge lies where it was put, either way round
    longest = box.rotation[:, int(np.argmax(box.size))]
    assert abs(longest @ np.array(turned.rotation)[:, 0]) == pytest.approx(1.0, abs=1e-9)


def test_body_with_volume_only_is_drawn_as_a_sphere():
    """A body whose mass is a point is seen by the water it displaces."""
    fluid = tb.BodyFluid(volume=4.0 / 3.0 * math.pi * 0.5**3, center_of_buoyancy=(0.1, 0.0, 0.0))
    body = tb.Body(
        "buoy",
        joint=tb.Free("base"),
        inertia=tb.Inertia(1.0, (0, 0, 0), (1e-9, 0, 0, 1e-9, 0, 0)),
        fluid=fluid,
    )
    model = tb.Model("buoy", [body], movable=False)
    (ball,) = scene_of(model).bodies[0].parts
    assert ball.kind == "sphere"
    assert ball.size[0] == pytest.approx(0.5)
    assert ball.position == (0.1, 0.0, 0.0)


def test_shapes_for_collision_are_drawn_only_where_there_is_no_other():
    """Visual shapes first."""
    seen = tb.Shape(tb.SphereShape(0.1), role="visual", color=(1.0, 0.0, 0.0, 1.0))
    felt = tb.Shape(tb.BoxShape((1, 1, 1)), role="collision")

    def kinds(*shapes):
        body = tb.Body(
            "ball", joint=tb.Free("base"), inertia=tb.Inertia.sphere(1.0, 0.1), shapes=shapes
        )
        return [part.kind for part in scene_of(tb.Model("one", [body])).bodies[0].parts]

    assert kinds(felt, seen) == ["sphere"]
    assert kinds(felt) == ["box"]


@pytest.mark.parametrize(
    "geometry",
    [
        tb.BoxShape((0.3, 0.5, 0.9)),
        tb.SphereShape(0.3),
        tb.CylinderShape(0.2, 0.9),
        tb.CapsuleShape(0.2, 0.9),
        tb.EllipsoidShape((0.2, 0.4, 0.7)),
    ],
)
def test_extents_are_those_of_points_of_the_solid(geometry):
    """The box around a turned solid touches its points and lets none out."""
    rng = np.random.default_rng(5)
    pose = tb.Pose.from_rpy((0.4, 1.0, -0.7), (0.1, -0.2, 0.3))
    body = tb.Body(
        "b",
        joint=tb.Free("base"),
        inertia=tb.Inertia.sphere(1.0, 0.1),
        shapes=(tb.Shape(geometry, pose),),
    )
    (part,) = scene_of(tb.Model("m", [body])).bodies[0].parts
    directions = rng.normal(size=(200_000, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    points = _surface(part, directions) @ np.array(pose.rotation).T + pose.translation
    R = np.array(tb.Pose.from_rpy((1.1, 0.2, 0.5)).rotation)
    middle, reach = half_extents(part, R)
    turned = points @ R.T
    assert (turned <= middle + reach + ROUNDING).all()
    # the nearest of many random points is short of the extreme one by their spacing only
    np.testing.assert_allclose(turned.max(axis=0), middle + reach, atol=4e-3)
    np.testing.assert_allclose(turned.min(axis=0), middle - reach, atol=4e-3)


def _surface(part, directions):
    """Points of a solid's surface, in its own axes; many of them where it is extreme."""
    if part.kind == "sphere":
        return part.size[0] * directions
    if part.kind == "ellipsoid":
        return np.array(part.size) * directions
    if part.kind == "box":
        return 0.5 * np.array(part.size) * np.sign(directions)
    radius, length = part.size
    if part.kind == "capsule":
        return radius * directions + np.sign(directions[:, 2:]) * [0.0, 0.0, 0.5 * length]
    flat = directions[:, :2] / np.linalg.norm(directions[:, :2], axis=1, keepdims=True)
    return np.column_stack([radius * flat, 0.5 * length * np.sign(directions[:, 2])])


def test_quaternions_round_trip_through_rotations():
    """Also for half turns, where the first part is zero."""
    rng = np.random.default_rng(2)
    q = rng.normal(size=(50, 4))
    q = np.vstack([q, np.eye(4), [[0.0, 1.0, 1.0, 0.0]]])
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    R = np.array([tb.Pose.from_quaternion(x).rotation for x in q])
    found = quaternions(R)
    np.testing.assert_allclose(np.abs((found * q).sum(axis=1)), 1.0, atol=ROUNDING)


def binary_stl(triangles) -> bytes:
    records = [struct.pack("<12fH", 0, 0, 0, *np.ravel(t), 0) for t in triangles]
    return b"solid but binary".ljust(80) + struct.pack("<I", len(records)) + b"".join(records)


TETRAHEDRON = np.array(
    [
        [[0, 0, 0], [0, 1, 0], [1, 0, 0]],
        [[0, 0, 0], [1, 0, 0], [0, 0, 1]],
        [[0, 0, 0], [0, 0, 1], [0, 1, 0]],
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    ],
    dtype=float,
)


def volume(mesh) -> float:
    a, b, c = np.moveaxis(mesh.vertices[mesh.triangles].astype(float), 1, 0)
    return float((a * np.cross(b, c)).sum() / 6.0)


def test_all_mesh_formats_give_the_same_surface(tmp_path):
    """Binary and text STL and OBJ of a tetrahedron: four corners, four faces, volume one sixth."""
    (tmp_path / "a.stl").write_bytes(binary_stl(TETRAHEDRON))
    facets = "".join(
        "facet normal 0 0 0\nouter loop\n"
        + "".join("vertex {} {} {}\n".format(*p) for p in t)
        + "endloop\nendfacet\n"
        for t in TETRAHEDRON
    )
    (tmp_path / "b.stl").write_text(f"solid t\n{facets}endsolid t\n")
    (tmp_path / "c.obj").write_text(
        "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1/1 3/2 2/3\nf 1 2 4\nf 1 4 3\nf -3 -2 -1\n"
    )
    for file in sorted(tmp_path.iterdir()):
        notes: list[str] = []
        mesh = read_mesh(str(file), (1.0, 1.0, 1.0), 100, notes)
        assert mesh is not None, notes
        assert mesh.vertices.shape == (4, 3)
        assert mesh.triangles.shape == (4, 3)
        assert volume(mesh) == pytest.approx(1.0 / 6.0)
        # a mirrored surface still has its outside outside
        mirrored = read_mesh(str(file), (-2.0, 1.0, 1.0), 100, notes)
        assert volume(mirrored) == pytest.approx(2.0 / 6.0)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.stl", binary_stl(TETRAHEDRON)[:-7]),
        ("nothing.stl", b""),
        ("nan.stl", binary_stl(np.full((2, 3, 3), np.nan))),
        ("words.obj", b"v a b c\nf 1 2 3\n"),
        ("outside.obj", b"v 0 0 0\nv 1 0 0\nf 1 2 9\n"),
        ("unknown.xyz", b"?"),
    ],
)
def test_damaged_files_give_a_note_and_a_placeholder(tmp_path, name, content):
    """A robot with a broken mesh is still drawn."""
    file = tmp_path / name
    file.write_bytes(content)
    body = tb.Body(
        "link",
        joint=tb.Free("base"),
        inertia=tb.Inertia.box(1.0, (0.1, 0.2, 0.3)),
        shapes=(tb.Shape(tb.MeshShape(str(file))),),
    )
    scene = scene_of(tb.Model("broken", [body]))
    assert any(name in note for note in scene.notes)
    assert [part.kind for part in scene.bodies[0].parts] == ["box"]


def test_fine_surfaces_are_coarsened_and_keep_their_volume(tmp_path):
    """A ball of many triangles becomes one of few."""
    u, w = np.meshgrid(np.linspace(0, np.pi, 90), np.linspace(0, 2 * np.pi, 180), indexing="ij")
    grid = np.stack([np.sin(u) * np.cos(w), np.sin(u) * np.sin(w), np.cos(u)], axis=-1)
    a, b, c, d = grid[:-1, :-1], grid[1:, :-1], grid[1:, 1:], grid[:-1, 1:]
    triangles = np.concatenate(
        [np.stack(t, axis=-2).reshape(-1, 3, 3) for t in ((a, b, c), (a, c, d))]
    )
    file = tmp_path / "ball.stl"
    file.write_bytes(binary_stl(triangles))
    fine = read_mesh(str(file), (1.0, 1.0, 1.0), 10**6, [])
    coarse = coarsened(fine, 1500)
    assert len(fine.triangles) > 25_000
    assert 300 < len(coarse.triangles) <= 1500
    # the corners of a coarse grid cell cut off some percent of the ball
    assert volume(coarse) == pytest.approx(4.0 / 3.0 * math.pi, rel=0.08)


def test_cables_and_springs_are_lines_between_points_of_bodies():
    """Ends on frames are given in axes of their bodies; those of the world stay."""
    scene = scene_of(tb.load("cable_robot"))
    assert len(scene.lines) == 8
    assert scene.lines[0].first == "world"
    assert scene.lines[0].first_point == (2.0, 1.5, 2.5)
    rod = tb.Body("rod", joint=tb.Revolute("pin"), inertia=tb.Inertia.point(1.0, (1, 0, 0)))
    tip = tb.Frame("tip", "rod", tb.Pose(translation=(1.0, 0.0, 0.0)))
    springs = [tb.Spring("coil", "world", "tip", second_point=(0.0, 0.5, 0.0))]
    (line,) = scene_of(tb.Model("one", [rod], [tip], springs=springs)).lines
    assert (line.second, line.second_point) == ("rod", (1.0, 0.5, 0.0))
