"""Water numbers of bodies that are meshes."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import tiburon as tb
from tests.hydro.test_mesh_file import binary_stl
from tests.tolerances import assert_close
from tiburon.cli.application import application
from tiburon.reproduce import solids

URDF = """<robot name="diver">
  <link name="hull">
    <inertial><mass value="3"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><geometry><mesh filename="none.stl"/></geometry></visual>
    <collision>
      <origin xyz="0.5 0 0" rpy="0 0 1.5707963267948966"/>
      <geometry><mesh filename="{name}" scale="0.1 0.1 0.1"/></geometry>
    </collision>
  </link>
</robot>
"""


def write_stl(path, corners, faces):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(binary_stl(np.asarray(corners), faces))
    return path


def write_box(path, size=(2.0, 1.0, 0.5)):
    return write_stl(path, (solids.CUBE_CORNERS - 0.5) * np.array(size), solids.CUBE_FACES)


def mesh_shape(path, **words):
    return tb.Shape(tb.MeshShape(str(path)), **words)


def test_mesh_of_an_ellipsoid_has_the_coefficients_of_the_ellipsoid(tmp_path):
    radii = (0.5, 0.3, 0.2)
    path = write_stl(tmp_path / "hull.stl", *solids.ellipsoid_triangles(radii, 7))
    pose = tb.Pose.from_rpy((0.4, -0.7, 1.1), translation=(0.3, -0.2, 0.5))
    found = tb.estimate_hydrodynamics(mesh_shape(path, pose=pose), 1000.0, panels=980)
    exact = tb.estimate_hydrodynamics(tb.Shape(tb.EllipsoidShape(radii), pose=pose), 1000.0)
    # 980 flat panels inside a round body: 1.1 % of volume, 2.2 % of moments
    assert_close(found.fluid.volume / exact.fluid.volume, 1.0, 0.012)
    A, B = np.array(found.fluid.added_mass), np.array(exact.fluid.added_mass)
    assert_close(A, B, 0.03, scale=np.abs(B).max())
    assert_close(found.fluid.center_of_buoyancy, pose.translation, 1e-6)
    assert found.quality == {
        "volume": "exact",
        "added_mass": "computed",
        "added_moments": "computed",
        "drag": "guessed",
    }
    (remark,) = found.remarks
    assert remark.startswith("added mass by 980 panels, error about 2 %, of moments ")
    # drag stands on the ellipsoid of the same second moments, along the same axes
    (drag,) = found.fluid.drag
    assert isinstance(drag, tb.EllipsoidDrag)
    assert_close(sorted(drag.radii), sorted(radii), 0.01)
    longest = np.array(drag.pose.rotation)[:, np.argmax(drag.radii)]
    assert_close(abs(longest @ np.array(pose.rotation)[:, 0]), 1.0, 1e-5)


def test_mesh_of_a_box_has_the_drag_of_the_box(tmp_path):
    found = tb.estimate_hydrodynamics(
        mesh_shape(write_box(tmp_path / "box.stl")), 1000.0, panels=300
    )
    (drag,) = found.fluid.drag
    assert isinstance(drag, tb.BoxDrag)
    assert_close(drag.size, (2.0, 1.0, 0.5), 1e-9)
    assert_close(drag.pose.rotation, np.eye(3), 1e-9)
    plain = tb.estimate_hydrodynamics(tb.Shape(tb.BoxShape((2.0, 1.0, 0.5))), 1000.0)
    assert_close(found.fluid.volume, plain.fluid.volume)
    # tables are of square prisms and of plates without thickness; a box between is within a sixth
    masses = np.diag(np.array(found.fluid.added_mass))[3:]
    assert_close(masses / np.diag(np.array(plain.fluid.added_mass))[3:], np.ones(3), 0.16)


def test_meshes_of_robot_files_are_found_as_the_reader_finds_them(tmp_path):
    """Beside the file and in packages; the collision mesh counts, with its place and scale."""
    write_box(tmp_path / "meshes" / "box.stl")
    write_box(tmp_path / "packages" / "diver" / "box.stl")
    for name in ("meshes/box.stl", "package://diver/box.stl"):
        (tmp_path / "diver.urdf").write_text(URDF.format(name=name))
        robot = tb.load(tmp_path / "diver.urdf", package_paths=[tmp_path / "packages"])
        (entry,) = tb.hydrodynamics_report(robot, 1000.0, panels=100)
        assert entry.reason == ""
        assert entry.remark.startswith("added mass by 100 panels")
        assert_close(entry.fluid.volume, 1e-3)
        assert_close(entry.fluid.center_of_buoyancy, (0.5, 0.0, 0.0))
        masses = np.diag(np.array(entry.fluid.added_mass))[3:]
        # turned about z: the long way is along y now, and the flat side up
        assert masses[1] < masses[0] < masses[2]
    (tmp_path / "diver.urdf").write_text(URDF.format(name="package://other/box.stl"))
    with pytest.raises(tb.ModelError, match=r"package_paths=\[...\] naming the folder"):
        tb.add_hydrodynamics(tb.load(tmp_path / "diver.urdf"))


def test_a_mesh_with_a_hole_is_reported_and_the_rest_continues(tmp_path):
    """The body keeps no numbers; its reason says what to do."""
    broken = write_stl(tmp_path / "open.stl", solids.CUBE_CORNERS, solids.CUBE_FACES[1:])
    inertia = tb.Inertia(1.0, (0, 0, 0), (0.1, 0.1, 0.1))
    base = tb.Body(
        "base", joint=tb.Free("float"), inertia=inertia, shapes=(tb.Shape(tb.SphereShape(0.1)),)
    )
    hull = tb.Body(
        "hull", "base", joint=tb.Fixed("weld"), inertia=inertia, shapes=(mesh_shape(broken),)
    )
    robot = tb.Model("two", [base, hull])
    with pytest.warns(tb.ModelWarning, match=r"for 1 of 2 bodies: 'hull' \(.*watertight"):
        added = tb.add_hydrodynamics(robot)
    assert added.body("hull").fluid is None
    assert added.body("base").fluid is not None
    assert tb.hydrodynamics_report(robot)[1].reason.startswith(
        f"{broken}: must be watertight, got 3 open edges"
    )


def test_coefficients_of_thin_plates_are_marked_as_guesses(tmp_path):
    """Panels much larger than the plate is thick cannot tell its sides apart."""
    found = tb.estimate_hydrodynamics(
        mesh_shape(write_box(tmp_path / "plate.stl", (1.0, 1.0, 0.004))), 1000.0, panels=200
    )
    assert found.quality["added_mass"] == "guessed"
    assert found.quality["volume"] == "exact"


def test_thin_shell_gets_the_coefficients_of_a_similar_ellipsoid(tmp_path):
    """A sheet of 0.1 mm: panels fail, which is said; what stands in for them is of its size."""
    pose = tb.Pose.from_rpy((0.4, -0.7, 1.1), translation=(0.3, -0.2, 0.5))
    corners = (solids.CUBE_CORNERS - 0.5) * (1.0, 0.8, 1e-4)
    path = write_stl(tmp_path / "sheet.stl", corners, solids.CUBE_FACES)
    found = tb.estimate_hydrodynamics(mesh_shape(path, pose=pose), 1000.0, panels=50)
    assert "too thin" in found.remarks[0]
    radii = tuple(np.sqrt(5.0 / 12.0) * np.array((1.0, 0.8, 1e-4)))
    expected = tb.estimate_hydrodynamics(
        tb.Shape(tb.EllipsoidShape(radii), pose=pose), 1000.0
    ).fluid
    A, B = np.array(found.fluid.added_mass), np.array(expected.added_mass)
    # coordinates of the file have seven digits
    assert_close(A, B, 1e-5, scale=np.abs(B).max())


def test_overlapping_shells_mark_all_coefficients_as_guesses(tmp_path):
    """What two of them share is counted twice, which makes all coefficients guesses."""
    corners = np.concatenate(
        [solids.CUBE_CORNERS, solids.CUBE_CORNERS + np.array((0.5, 0.25, 0.125))]
    )
    faces = np.concatenate([solids.CUBE_FACES, solids.CUBE_FACES + 8])
    path = write_stl(tmp_path / "two.stl", corners, faces)
    found = tb.estimate_hydrodynamics(mesh_shape(path), 1000.0, panels=100)
    assert set(found.quality.values()) == {"guessed"}
    assert "overlap; their common volume counts twice" in found.remarks[0]


def test_the_command_reports_panels_and_error(tmp_path):
    write_box(tmp_path / "box.stl")
    (tmp_path / "diver.urdf").write_text(URDF.format(name="box.stl"))
    words = ["hydro", str(tmp_path / "diver.urdf"), "--json", "--panels", "200"]
    result = CliRunner().invoke(application, words)
    assert result.exit_code == 0, result.output
    (body,) = json.loads(result.output)["bodies"]
    assert body["quality"]["added_mass"] == "computed"
    assert body["remark"].startswith("added mass by 200 panels, error about")
    shown = CliRunner().invoke(application, words[:2] + words[3:]).output
    assert "computed" in shown


def test_robot_with_mesh_coefficients_can_be_simulated(tmp_path):
    """A box of the density of water hangs where it is; pushed, it feels its added mass."""
    shape = mesh_shape(write_box(tmp_path / "box.stl"))
    inertia = tb.load_mesh(tmp_path / "box.stl").inertia(1025.0)
    body = tb.Body("box", joint=tb.Free("float"), inertia=inertia, shapes=(shape,))
    model = tb.add_hydrodynamics(tb.Model("box", [body]), panels=100)
    rest, push = np.zeros(6), np.zeros(6)
    sea = tb.Water(1025.0)
    vd = tb.forward_dynamics(model, model.neutral(), rest, push, fluid=sea)
    # buoyancy and weight cancel to rounding of 9.81
    assert_close(vd, np.zeros(6), 1e-12, scale=9.81)
    push[3] = 100.0
    added = model.body("box").fluid.added_mass[3][3]
    vd = tb.forward_dynamics(model, model.neutral(), rest, push, fluid=sea)
    # turning couples in by the asymmetry of the panels alone
    assert_close(vd[3], 100.0 / (inertia.mass + added), 1e-4)
