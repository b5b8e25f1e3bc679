"""Meshes of saved robots: named from the folder of the file, and there when it is loaded."""

import os
import shutil
from pathlib import Path

import pytest

import tiburon as tb
from tiburon.formats import save

TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"

ENDINGS = (".toml", ".urdf")


def _robot(*meshes):
    """Return a robot with a mesh on each of its bodies."""
    bodies = [
        tb.Body(
            f"body{k}",
            "world" if k == 0 else f"body{k - 1}",
            joint=tb.Revolute(f"joint{k}"),
            inertia=tb.Inertia.sphere(1.0, 0.1),
            shapes=(tb.Shape(tb.MeshShape(str(mesh)), role="visual"),),
        )
        for k, mesh in enumerate(meshes)
    ]
    return tb.Model("arm", bodies)


def _paths(model):
    """Return the paths of all meshes of a robot."""
    return [shape.geometry.path for body in model.bodies for shape in body.shapes]


@pytest.fixture
def folders(tmp_path):
    """Return a folder with a mesh, and one where nothing is yet."""
    cad, robots = tmp_path / "tree" / "cad", tmp_path / "tree" / "robots"
    for folder in (cad, robots):
        folder.mkdir(parents=True)
    (cad / "link.obj").write_text(TETRAHEDRON)
    return cad, robots


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_robot_saved_in_another_folder_loads_from_there(folders, ending):
    """Meshes come along: the file loads without package_paths, also after both are moved."""
    cad, robots = folders
    path = robots / f"arm{ending}"
    sentences = tb.save(_robot(cad / "link.obj"), path)
    assert f"meshes in {cad} were copied to the folder arm_meshes beside the file" in sentences
    (found,) = _paths(tb.load(path))
    assert Path(found) == robots / "arm_meshes" / "link.obj"
    moved = robots.rename(robots.parent / "elsewhere")
    shutil.rmtree(cad)
    (found,) = _paths(tb.load(moved / path.name))
    assert Path(found) == moved / "arm_meshes" / "link.obj"
    assert Path(found).read_text() == TETRAHEDRON


@pytest.mark.parametrize("ending", ENDINGS)
def test_meshes_that_stay_are_named_from_the_folder_of_the_file(folders, ending):
    """Without copies, a tree of folders can be moved; package_paths lets the file reach them."""
    cad, robots = folders
    path = robots / f"arm{ending}"
    sentences = tb.save(_robot(cad / "link.obj"), path, copy_meshes=False)
    assert any(
        "are outside the folder of the file; load it with package_paths" in s for s in sentences
    )
    assert '"../cad/link.obj"' in path.read_text()
    assert [p.name for p in robots.iterdir()] == [path.name]
    with pytest.raises(tb.ModelFileError, match="package_paths"):
        tb.load(path)
    tree = cad.parent.rename(cad.parent.with_name("moved"))
    (found,) = _paths(tb.load(tree / "robots" / path.name, package_paths=[tree / "cad"]))
    assert Path(found) == tree / "cad" / "link.obj"


@pytest.mark.parametrize("ending", ENDINGS)
def test_paths_from_the_current_folder_are_found_from_others(folders, monkeypatch, ending):
    """A mesh given relative to the current folder is written relative to that of the file."""
    cad, robots = folders
    monkeypatch.chdir(cad)
    inside = cad / f"arm{ending}"
    tb.save(_robot("link.obj"), inside)
    assert '"link.obj"' in inside.read_text()
    tb.save(_robot("link.obj"), Path("..") / "robots" / f"arm{ending}")
    monkeypatch.chdir(robots.parent)
    for folder, place in ((cad, cad), (robots, robots / "arm_meshes")):
        (found,) = _paths(tb.load(folder / f"arm{ending}"))
        assert Path(found) == place / "link.obj"


def test_robots_of_mujoco_keep_their_meshes(folders, monkeypatch):
    """A file loaded by a relative path, saved elsewhere, loaded from a third folder."""
    pytest.importorskip("mujoco", reason="MJCF is read by MuJoCo")
    cad, robots = folders
    (cad / "arm.xml").write_text(
        '<mujoco><asset><mesh file="link.obj"/></asset><worldbody><body name="b"><joint/>'
        '<geom type="mesh" mesh="link"/></body></worldbody></mujoco>'
    )
    monkeypatch.chdir(cad)
    model = tb.load("arm.xml")
    assert _paths(model) == [str(cad / "link.obj")]
    monkeypatch.chdir(robots)
    tb.save(model, "arm.toml")
    monkeypatch.chdir(robots.parent)
    assert _paths(tb.load("robots/arm.toml")) == [str(robots / "arm_meshes" / "link.obj")]


def test_nothing_is_replaced_by_copies(folders):
    """Equal names of different meshes get numbers; a file that is there stays."""
    cad, robots = folders
    (cad / "other").mkdir()
    (cad / "other" / "link.obj").write_text(TETRAHEDRON + "# another\n")
    (robots / "arm_meshes").mkdir()
    (robots / "arm_meshes" / "link.obj").write_text("years of work")
    model = _robot(cad / "link.obj", cad / "other" / "link.obj", cad / "link.obj")
    for _ in range(2):
        tb.save(model, robots / "arm.toml")
        names = [Path(path).name for path in _paths(tb.load(robots / "arm.toml"))]
        assert names == ["link_2.obj", "link_3.obj", "link_2.obj"]
        assert len(list((robots / "arm_meshes").iterdir())) == 3
    assert (robots / "arm_meshes" / "link.obj").read_text() == "years of work"
    # saved in place, the meshes are those that are there
    assert tb.save(tb.load(robots / "arm.toml"), robots / "again.toml") == ()
    assert not (robots / "again_meshes").exists()


def test_meshes_that_cannot_be_copied_are_named(folders, monkeypatch):
    """A mesh larger than readers accept stays where it is, and a sentence says so."""
    cad, robots = folders
    monkeypatch.setattr(save, "MESH_BYTES", 10)
    (sentence,) = tb.save(_robot(cad / "link.obj"), robots / "arm.toml")
    assert sentence.startswith("a mesh was not copied, so load with package_paths=[...]: ")
    assert 'path = "../cad/link.obj"' in (robots / "arm.toml").read_text()
    (robots / "arm_meshes").write_text("a file")
    monkeypatch.undo()
    with pytest.raises(tb.ModelFileError, match="arm_meshes: cannot be created as a folder"):
        tb.save(_robot(cad / "link.obj"), robots / "arm.toml")


def test_mesh_names_without_a_file_are_preserved(folders):
    """Addresses, and meshes that are not on this machine, are written as they are."""
    _, robots = folders
    given = ["package://arm/link.stl", "/nowhere/at/all.stl", "not here.stl"]
    assert tb.save(_robot(*given), robots / "arm.toml") == ()
    text = (robots / "arm.toml").read_text()
    for mesh in given:
        assert f'path = "{mesh}"' in text


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
def test_links_that_lead_outside_are_copied(folders):
    """Readers follow links on the disk, and would refuse this one."""
    cad, robots = folders
    (robots / "link.obj").symlink_to(cad / "link.obj")
    tb.save(_robot(robots / "link.obj"), robots / "arm.toml")
    (found,) = _paths(tb.load(robots / "arm.toml"))
    assert Path(found) == robots / "arm_meshes" / "link.obj"
    assert not Path(found).is_symlink()


@pytest.mark.parametrize("package", ["cad", "cad/meshes"])
def test_files_moved_alone_find_meshes_in_packages(tmp_path, package):
    """A robot file that was sent without its meshes finds them by the end of their paths."""
    for folder in ("robots", "cad/meshes", "far/away"):
        (tmp_path / folder).mkdir(parents=True)
    mesh = tmp_path / "cad" / "meshes" / "link.obj"
    mesh.write_text(TETRAHEDRON)
    tb.save(_robot(mesh), tmp_path / "robots" / "arm.toml", copy_meshes=False)
    path = Path(shutil.move(tmp_path / "robots" / "arm.toml", tmp_path / "far" / "away"))
    packages = [tmp_path / package, tmp_path]
    assert _paths(tb.load(path, package_paths=packages)) == [str(mesh)]
