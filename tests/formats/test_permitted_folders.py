"""Files above a robot file are read up to the folder of its package, and no further."""

import os
import re

import pytest

import tiburon as tb
from tiburon.formats.permitted_folders import MAX_LEVELS, PermittedFolders

TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"

URDF = """<robot name="arm"><link name="base">
  <visual><geometry><mesh filename="{mesh}"/></geometry></visual></link></robot>"""

MJCF = """<mujoco><compiler meshdir="../meshes"/><asset><mesh file="link.obj"/></asset>
  <include file="../parts/option.xml"/>
  <worldbody><body name="b"><joint/><geom type="mesh" mesh="link"/></body></worldbody></mujoco>"""


@pytest.fixture
def package(tmp_path):
    """Make a package with robot files beside their meshes and includes; without a mark."""
    folder = tmp_path / "site" / "arm_package"
    for name, text in [
        ("robots/arm.urdf", URDF.format(mesh="../meshes/link.obj")),
        ("robots/named.urdf", URDF.format(mesh="package://arm_package/meshes/link.obj")),
        ("robots/arm.xml", MJCF),
        ("parts/option.xml", '<mujoco><option gravity="0 0 -3"/></mujoco>'),
        ("meshes/link.obj", TETRAHEDRON),
        ("../secret/link.obj", TETRAHEDRON),
    ]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def mesh_of(model):
    return model.bodies[0].shapes[0].geometry.path


@pytest.mark.parametrize(
    "mark", ["package.xml", "__init__.py", "../arm_package-1.0.dist-info/METADATA"]
)
@pytest.mark.parametrize("name", ["arm.urdf", "arm.xml"])
def test_meshes_and_includes_of_the_package_are_read(package, mark, name):
    """A ROS package, a Python package or an installed wheel is one unit with its robot files."""
    if name.endswith(".xml"):
        pytest.importorskip("mujoco", reason="MJCF is read by MuJoCo")
    robot = package / "robots" / name
    with pytest.raises(tb.ModelFileError, match="is elsewhere"):
        tb.load(robot)
    path = package / mark
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    assert mesh_of(tb.load(robot)) == str(package / "meshes" / "link.obj")
    if name.endswith(".xml"):
        assert tb.load_world(robot).gravity == (0.0, 0.0, -3.0)


def test_the_nearest_mark_counts(package):
    """A package inside of another one is a package of its own."""
    (package / "__init__.py").write_text("")
    (package / "robots" / "__init__.py").write_text("")
    with pytest.raises(tb.ModelFileError, match="is elsewhere; load it with root="):
        tb.load(package / "robots" / "arm.urdf")


def test_marks_count_up_to_five_levels_above(tmp_path):
    """A mark far above is that of something else."""
    (tmp_path / "__init__.py").write_text("")
    folder = tmp_path
    for level in range(1, MAX_LEVELS + 2):
        folder = folder / f"level{level}"
        folder.mkdir()
        expected = tmp_path if level <= MAX_LEVELS else folder
        assert PermittedFolders(folder).root == str(expected)


@pytest.mark.parametrize("name", ["arm.urdf", "arm.xml"])
def test_links_that_leave_the_package_are_refused(package, name):
    """The real path of a file counts, not the name under which it is found."""
    if name.endswith(".xml"):
        pytest.importorskip("mujoco", reason="MJCF is read by MuJoCo")
    (package / "__init__.py").write_text("")
    mesh = package / "meshes" / "link.obj"
    mesh.unlink()
    mesh.symlink_to(package.parent / "secret" / "link.obj")
    with pytest.raises(tb.ModelFileError, match="is elsewhere"):
        tb.load(package / "robots" / name)
    mesh.unlink()
    mesh.symlink_to(package / "robots" / "link.obj")
    (package / "robots" / "link.obj").write_text(TETRAHEDRON)
    assert tb.load(package / "robots" / name).bodies


def test_a_linked_folder_is_left_at_its_real_place(package, tmp_path):
    """Names lead up from where a file really is, as they do for MuJoCo."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "__init__.py").write_text("")
    (other / "robots").symlink_to(package / "robots")
    with pytest.raises(tb.ModelFileError, match="is elsewhere"):
        tb.load(other / "robots" / "arm.urdf")


def test_the_message_gives_the_root(package):
    """Without a mark the message names the folder that holds both files, and that loads."""
    robot = package / "robots" / "arm.urdf"
    with pytest.raises(
        tb.ModelFileError, match=r"arm\.urdf, line 2: <mesh>: meshes must"
    ) as caught:
        tb.load(robot)
    (root,) = re.findall("root='(.*?)'", str(caught.value))
    assert root == str(package)
    assert mesh_of(tb.load(robot, root=root)) == str(package / "meshes" / "link.obj")


def test_a_given_root_replaces_that_of_the_package(package):
    """It narrows what a stranger's file may name, too."""
    pytest.importorskip("mujoco", reason="MJCF is read by MuJoCo")
    robot = package / "robots" / "arm.xml"
    assert tb.load_world(robot, root=package).gravity == (0.0, 0.0, -3.0)
    (package / "__init__.py").write_text("")
    for load in (tb.load, tb.load_world):
        with pytest.raises(tb.ModelFileError, match="is elsewhere"):
            load(robot, root=robot.parent)


@pytest.mark.parametrize(
    ("root", "reason"), [("secret", "does not hold it"), ("none", "no folder")]
)
def test_a_root_must_hold_the_file(package, root, reason):
    """Other folders are package_paths."""
    with pytest.raises(tb.ModelFileError, match=f"root must be a folder above .*{reason}"):
        tb.load(package / "robots" / "arm.urdf", root=package.parent / root)


def test_packages_above_the_file_are_found_by_name(package):
    """package://name is a folder of this name above the file, with or without package.xml."""
    robot = package / "robots" / "named.urdf"
    assert mesh_of(tb.load(robot)) == str(package / "meshes" / "link.obj")
    # some files have one slash too many
    robot.write_text(URDF.format(mesh="package:///arm_package/meshes/link.obj"))
    assert mesh_of(tb.load(robot)) == str(package / "meshes" / "link.obj")


def test_packages_beside_those_above_the_file_need_a_package_file(package):
    """Robot and meshes are often two packages of one workspace."""
    uri = "package://arm_meshes/link.obj"
    robot = package / "robots" / "arm.urdf"
    robot.write_text(URDF.format(mesh=uri))
    beside = package.parent / "arm_meshes"
    beside.mkdir()
    (beside / "link.obj").write_text(TETRAHEDRON)
    assert mesh_of(tb.load(robot)) == uri
    (beside / "package.xml").write_text("<package/>")
    assert mesh_of(tb.load(robot)) == str(beside / "link.obj")
    (beside / "link.obj").unlink()
    (beside / "link.obj").symlink_to(package.parent / "secret" / "link.obj")
    with pytest.raises(tb.ModelFileError, match="is elsewhere"):
        tb.load(robot)


def test_names_of_packages_lead_nowhere_else(package):
    """Neither dots nor the name of a folder above open what is beside it."""
    robot = package / "robots" / "arm.urdf"
    for uri in (
        "package://arm_package/../secret/link.obj",
        "package://../secret/link.obj",
        "package://arm_package/%2e%2e/secret/link.obj",
    ):
        robot.write_text(URDF.format(mesh=uri))
        with pytest.raises(tb.ModelFileError, match="is elsewhere"):
            tb.load(robot)


def test_a_home_is_no_package(package, monkeypatch):
    """A file in Downloads must not open the home by the user's name."""
    monkeypatch.setenv("HOME", str(package))
    monkeypatch.setenv("USERPROFILE", str(package))
    assert mesh_of(tb.load(package / "robots" / "named.urdf")).startswith("package://")


def test_folders_are_opened_only_for_files_outside(package, monkeypatch):
    """A file with its meshes beside it costs no search."""
    robot = package / "robots" / "arm.urdf"
    (package / "robots" / "link.obj").write_text(TETRAHEDRON)
    robot.write_text(URDF.format(mesh="link.obj"))

    def fail(folder):
        raise AssertionError("searched")

    monkeypatch.setattr(os, "scandir", fail)
    assert mesh_of(tb.load(robot)) == str(package / "robots" / "link.obj")
