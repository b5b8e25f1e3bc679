"""Names of meshes become paths only inside the file's folder and the packages given."""

import os

import pytest

import tiburon as tb
from tiburon.formats.mesh_paths import MeshPaths
from tiburon.formats.xml_tree import XmlElement

HERE = XmlElement("mesh", {}, 7, "robot.urdf")


@pytest.fixture
def folders(tmp_path):
    """Make a folder of a robot, one of packages, and a file outside both."""
    for name in ("robot/meshes/a b.stl", "packages/arm/meshes/c.stl", "secret/d.stl"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text("solid")
    os.symlink(tmp_path / "secret" / "d.stl", tmp_path / "robot" / "meshes" / "link.stl")
    return tmp_path


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("meshes/a b.stl", "robot/meshes/a b.stl"),
        ("./meshes/../meshes/a b.stl", "robot/meshes/a b.stl"),
        ("package://arm/meshes/c.stl", "packages/arm/meshes/c.stl"),
        ("model://arm/meshes/c.stl", "packages/arm/meshes/c.stl"),
        ("package://robot/meshes/a%20b.stl", "robot/meshes/a b.stl"),
    ],
)
def test_meshes_are_found(folders, uri, found):
    """Relative names, packages, and the robot's own folder as a package."""
    meshes = MeshPaths(folders / "robot", [folders / "packages"])
    assert meshes.find(uri, HERE) == str(folders / found)


def test_a_package_folder_may_be_the_package_itself(folders):
    """Both the folder of packages and a package are understood."""
    meshes = MeshPaths(folders / "robot", [folders / "packages" / "arm"])
    found = meshes.find("package://arm/meshes/c.stl", HERE)
    assert found == str(folders / "packages/arm/meshes/c.stl")


def test_file_addresses_inside_the_folder_are_found(folders):
    """An absolute name is as good as a relative one where it leads inside."""
    path = folders / "robot" / "meshes" / "a b.stl"
    meshes = MeshPaths(folders / "robot")
    assert meshes.find(path.as_uri(), HERE) == str(path)
    assert meshes.find(str(path), HERE) == str(path)


def test_relative_file_addresses_are_in_the_folder(folders):
    """Two slashes make a host of the first folder; programs take it for a folder."""
    path = folders / "robot" / "meshes" / "a b.stl"
    for uri in ("file://meshes/a%20b.stl", f"file://localhost{path}"):
        assert MeshPaths(folders / "robot").find(uri, HERE) == str(path)


@pytest.mark.parametrize(
    "uri",
    [
        "file://../secret/d.stl",
        "../secret/d.stl",
        "meshes/../../secret/d.stl",
        "package://arm/../../secret/d.stl",
        "package://../secret/d.stl",
        "package://arm/%2e%2e/%2e%2e/secret/d.stl",
        "../no-such-folder/d.stl",
        "file://{root}/secret/d.stl",
        "{root}/secret/d.stl",
        "meshes/link.stl",
    ],
)
def test_mesh_paths_outside_the_folder_are_refused(folders, uri):
    """Dots, escapes, absolute names and links that lead outside are errors with the cure."""
    meshes = MeshPaths(folders / "robot", [folders / "packages"])
    with pytest.raises(tb.ModelFileError, match=r"line 7: <mesh>: .*package_paths=\[") as caught:
        meshes.find(uri.format(root=folders), HERE)
    assert caught.value.line == 7


@pytest.mark.parametrize(
    "uri",
    [
        "meshes/missing.stl",
        "package://unknown/x.stl",
        "https://example.org/x.stl",
        "file:///no/such/place/on/this/machine.stl",
        "x" * 5000,
        "file://[bad/x.stl",
    ],
)
def test_mesh_names_without_a_file_are_kept(folders, uri):
    """A robot can be computed without its meshes."""
    assert MeshPaths(folders / "robot").find(uri, HERE) == uri


def test_zero_bytes_are_refused(folders):
    """A name that no system can open is an error, not a crash."""
    with pytest.raises(tb.ModelFileError, match="null byte"):
        MeshPaths(folders / "robot").find("a\0b", HERE)
