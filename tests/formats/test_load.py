"""What `load` and `save` make of names, paths and contents."""

import importlib
import os
import pickle
from pathlib import Path

import pytest

import tiburon as tb
from tiburon import zoo
from tiburon.formats import load as loading
from tiburon.formats import save as saving
from tiburon.formats.load import format_of

DATA = Path(__file__).parents[1] / "data"
URDF = '<robot name="r"><link name="a"/></robot>'


@pytest.mark.parametrize("format", loading.READERS)
def test_every_format_has_its_reader(format):
    module, function = loading.READERS[format]
    assert callable(getattr(importlib.import_module(module), function))


@pytest.mark.parametrize("suffix", saving.WRITERS)
def test_every_suffix_has_its_writer(suffix, tmp_path):
    module, function = saving.WRITERS[suffix]
    assert callable(getattr(importlib.import_module(module), function))
    path = tmp_path / f"arm{suffix.upper()}"
    assert isinstance(tb.save(zoo.chain(2), path), tuple)
    assert {"joint_1", "joint_2"} <= set(tb.load(path).joint_names)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.urdf", URDF, "urdf"),
        ("a.xml", f"<?xml version='1.0'?>\n<!-- <mujoco> -->\n{URDF}", "urdf"),
        ("a.xml", "<mujoco/>", "mjcf"),
        ("a.xml", "<!DOCTYPE x>\n<sdf version='1.9'/>", "sdf"),
        ("a.urdf", "<mujoco/>", "mjcf"),
        ("a", URDF, "urdf"),
        ("a.sdf", "<unknown/>", "sdf"),
        ("a.urdf", "", "urdf"),
        ("a.xml", URDF.encode("utf-16"), "urdf"),
        ("a.toml", "nonsense", "native"),
        ("a.robot", 'format = "tiburon-model"', "native"),
        ("a.dm", "Articulation {}", "dynamechs"),
        ("a.cfg", "# DynaMechs V 2.1 ascii", "dynamechs"),
    ],
)
def test_format_is_detected_by_content_then_by_name(tmp_path, name, content, expected):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert format_of(path) == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.obj", "v 1 2 3", "must end in .toml, .urdf, .*got '.obj'"),
        ("a.txt", "<html></html>", "must be <robot>, <mujoco> or <sdf>, got <html>; check"),
        ("a.txt", "<!-- only", "got no root element"),
    ],
)
def test_unknown_contents_are_refused(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(tb.ModelFileError, match=message) as caught:
        tb.load(path)
    assert caught.value.file == str(path)


def test_names_of_robots_that_ship(tmp_path, monkeypatch):
    name = zoo.names()[0]
    model = tb.load(name)
    assert tb.load(zoo.path(name)) == model
    # a file of this name comes first; elsewhere it does not
    monkeypatch.chdir(tmp_path)
    tb.save(zoo.chain(2), "other.toml")
    os.rename("other.toml", name)
    assert tb.load(name).name == "chain_2"
    with pytest.raises(tb.ModelFileError, match="did you mean 'puma560'"):
        tb.load("puma56")
    with pytest.raises(tb.ModelFileError, match="`tiburon models` lists the zoo"):
        tb.load("qqqqqqqq")
    with pytest.raises(tb.ModelFileError, match="there is no such file"):
        tb.load("robots/puma560")
    with pytest.raises(tb.ModelFileError, match="there is no such file"):
        tb.load(Path("puma560"))


@pytest.mark.parametrize("source", [3, None, b"puma560"])
def test_sources_that_are_not_names(source):
    with pytest.raises(tb.ModelError, match="load: expected the path of a file"):
        tb.load(source)


def test_folders_and_strange_names_are_refused(tmp_path):
    with pytest.raises(tb.ModelFileError):
        tb.load(tmp_path)
    with pytest.raises(tb.ModelFileError):
        tb.load("a\0b")


def test_root_joint_applies_to_formats_without_one():
    model = tb.load(DATA / "two_link.urdf", root_joint=tb.Free("base"))
    assert model.joints[0].kind == "free"
    with pytest.raises(tb.ModelError, match="root_joint is for urdf and sdf files"):
        tb.load("puma560", root_joint=tb.Free("base"))


def test_one_package_path_needs_no_list(tmp_path):
    path = tmp_path / "r.urdf"
    path.write_bytes((DATA / "two_link.urdf").read_bytes())
    assert tb.load(path, package_paths=str(tmp_path)) == tb.load(path, package_paths=[tmp_path])


def test_models_that_cannot_be_saved_are_refused(tmp_path):
    model = zoo.chain(1)
    with pytest.raises(tb.ModelFileError, match=r"saved as .toml or .urdf, got '.sdf'; choose"):
        tb.save(model, tmp_path / "a.sdf")
    with pytest.raises(tb.ModelError, match="save: expected a Model, got 'a'"):
        tb.save("a", tmp_path / "a.toml")
    with pytest.raises(tb.ModelFileError, match="cannot be written"):
        tb.save(model, tmp_path / "no folder" / "a.toml")
    strange = tb.Model("\ud800", model.bodies)
    with pytest.raises(tb.ModelFileError, match="which UTF-8 cannot express"):
        tb.save(strange, tmp_path / "a.toml")
    assert not (tmp_path / "a.toml").exists()


def test_meshes_elsewhere_are_reported_when_saving(tmp_path):
    mesh = tmp_path / "meshes" / "a.stl"
    mesh.parent.mkdir()
    mesh.write_bytes(b"solid")
    shape = tb.Shape(tb.MeshShape(str(mesh)))
    body = tb.Body("b", joint=tb.Free("f"), inertia=tb.Inertia.sphere(1, 1), shapes=(shape,))
    model = tb.Model("m", [body])
    folder = tmp_path / "robots"
    folder.mkdir()
    (sentence,) = tb.save(model, folder / "m.toml", copy_meshes=False)
    assert str(mesh.parent) in sentence
    assert tb.load(folder / "m.toml", package_paths=mesh.parent) == model


def test_file_errors_have_attributes():
    error = tb.ModelFileError("a.urdf", "no; fix it", line=3, element="joint 'x'", name="x")
    assert str(error) == "a.urdf, line 3: joint 'x': no; fix it"
    again = pickle.loads(pickle.dumps(error))
    assert (again.file, again.line, again.element, again.problem, again.name) == (
        "a.urdf",
        3,
        "joint 'x'",
        "no; fix it",
        "x",
    )
    assert str(tb.ModelFileError("a.urdf", "no; fix it")) == "a.urdf: no; fix it"
    assert isinstance(error, tb.ModelError)
