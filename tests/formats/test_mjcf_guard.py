"""MJCF files from strangers: nothing outside is read, nothing absurd is built, errors say why."""

import os
import re
import sys
import warnings

import pytest

import tiburon as tb
from tests.fresh_process import run_python

pytest.importorskip("mujoco", reason="MJCF is read by MuJoCo")

TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


@pytest.fixture
def load(tmp_path):
    """Load a model from text."""

    def function(text):
        path = tmp_path / "robot.xml"
        path.write_text(f"<mujoco>{text}</mujoco>")
        return tb.load(path)

    return function


def test_includes_are_read_from_the_same_folder(load, tmp_path):
    (tmp_path / "part.xml").write_text(
        '<mujoco><worldbody><body name="b"><joint/><geom size="0.1"/></body></worldbody></mujoco>'
    )
    assert load('<include file="part.xml"/>').body_names == ("b",)


REFUSED = {
    "no such joint": (
        '<equality><joint joint1="x"/></equality>',
        "MuJoCo cannot read it: .*unknown",
    ),
    "schema": ("<worldbody>\n<bdy/></worldbody>", "line 2.*MuJoCo cannot read it"),
    "xml": ("<worldbody>", "not well-formed XML"),
    "include outside": (
        '<include file="../part.xml"/>',
        r"is elsewhere; load the model with root='[^']*', or with package_paths=\[",
    ),
    "include missing": ('<include file="part.xml"/>', "there is no file 'part.xml' beside"),
    "mesh outside": ('<asset><mesh file="../m.obj"/></asset>', "is elsewhere"),
    "mesh folder outside": (
        '<compiler meshdir=".."/><asset><mesh file="m.obj"/></asset>',
        "is elsewhere",
    ),
    "absolute": (
        '<asset><hfield name="h" file="/etc/passwd" size="1 1 1 1"/></asset>',
        "is elsewhere",
    ),
    "copies": (
        '<worldbody><replicate count="1000"><replicate count="1000"><body/></replicate>'
        "</replicate></worldbody>",
        "may have 20000 links .*got more; lower the counts",
    ),
    "copies of geometry": (
        '<worldbody><replicate count="5000"><geom/><geom/><geom/><geom/><geom/></replicate>'
        "</worldbody>",
        "as many replicated elements",
    ),
    "user numbers": ('<size nuser_body="30000000"/>', "nuser_body may be 1000, got '30000000'"),
    "keyframes": (
        "<worldbody>"
        + "<body><joint/></body>" * 1500
        + "</worldbody><keyframe>"
        + "<key/>" * 1500
        + "</keyframe>",
        "1500 keyframes of 1500 joints; keep trajectories",
    ),
    "cable": (
        '<worldbody><composite type="cable" count="999999 1 1" size="1"/></worldbody>',
        "replicated elements",
    ),
    "field": ('<asset><hfield name="h" nrow="9999" ncol="9999" size="1 1 1 1"/></asset>', "points"),
    "fine mesh": (
        '<asset><mesh name="m" builtin="supersphere" params="99999 1 1"/></asset>',
        "params must be below 1000",
    ),
    "count": ('<worldbody><replicate count="1e300"/></worldbody>', "counts must be moderate"),
    "nan": (
        '<worldbody>\n<body name="b" pos="nan 0 0"/></worldbody>',
        "line 2: body 'b': pos must",
    ),
    "infinity": ('<option gravity="0 0 -Inf"/>', "gravity must be finite, got '0 0 -Inf'"),
    "blanks": (
        '<equality><connect body1="b" anchor=" "/></equality>',
        "anchor must have a value, got none",
    ),
    "nothing": ('<equality><connect body1="b" anchor=""/></equality>', "anchor must have a value"),
    "no mass": ('<worldbody><body name="b"><joint/></body></worldbody>', "mass and inertia"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_invalid_files_are_refused_with_an_explanation(tmp_path, text, message):
    folder = tmp_path / "robot"
    folder.mkdir()
    for name in ("part.xml", "m.obj"):
        (tmp_path / name).write_text("<mujoco/>")
    path = folder / "robot.xml"
    path.write_text(f"<mujoco>{text}</mujoco>")
    with pytest.raises(tb.ModelFileError, match=re.compile(message, re.DOTALL)) as caught:
        tb.load(path)
    assert caught.value.file == str(path)


def test_symbolic_links_outside_the_folder_are_refused(tmp_path):
    folder = tmp_path / "robot"
    folder.mkdir()
    (tmp_path / "m.obj").write_text(TETRAHEDRON)
    (folder / "m.obj").symlink_to(tmp_path / "m.obj")
    path = folder / "robot.xml"
    path.write_text('<mujoco><asset><mesh file="m.obj"/></asset></mujoco>')
    with pytest.raises(tb.ModelFileError, match="is elsewhere"):
        tb.load(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_are_not_opened(tmp_path):
    """MuJoCo would wait forever for data from a pipe that a file names as a mesh."""
    texts = [
        '<asset><mesh file="m.stl"/></asset>',
        '<compiler meshdir="parts"/><asset><mesh file="m.stl"/></asset>',
        '<asset><hfield name="h" file="m.stl" size="1 1 1 1"/></asset>',
    ]
    paths = []
    for number, text in enumerate(texts):
        folder = tmp_path / str(number) / ("parts" if "parts" in text else "")
        folder.mkdir(parents=True)
        os.mkfifo(folder / "m.stl")
        paths.append(tmp_path / str(number) / "robot.xml")
        paths[-1].write_text(f"<mujoco>{text}</mujoco>")
    # in a process of its own, which can be ended if it waits
    printed = run_python(
        "import sys, tiburon as tb\n"
        "for path in sys.argv[1:]:\n"
        "    try: tb.load(path)\n"
        "    except tb.ModelFileError as error: print(error)",
        *paths,
    )
    found = printed.splitlines()
    assert len(found) == len(texts)
    for line in found:
        assert "robot.xml, line 1: " in line
        assert "file='m.stl': expected a regular file, got something else; give a mesh" in line


def test_package_paths_open_other_folders(tmp_path):
    folder = tmp_path / "robot"
    folder.mkdir()
    (tmp_path / "m.obj").write_text(TETRAHEDRON)
    path = folder / "robot.xml"
    path.write_text(
        '<mujoco><asset><mesh file="../m.obj"/></asset><worldbody><body name="b"><joint/>'
        '<geom type="mesh" mesh="m"/></body></worldbody></mujoco>'
    )
    assert tb.load(path, package_paths=[tmp_path]).body_names == ("b",)


def test_after_a_failure_inside_mujoco_nothing_more_is_read(load, monkeypatch):
    """Such a failure leaves locks behind, on which MuJoCo would wait forever."""
    import mujoco

    from tiburon.formats import mjcf_compile

    class Broken:
        @staticmethod
        def from_file(path):
            raise RuntimeError("Caught an unknown exception!")

    monkeypatch.setattr(mjcf_compile, "_CRASHED_ON", [])
    with monkeypatch.context() as patch:
        patch.setattr(mujoco, "MjSpec", Broken)
        with pytest.raises(tb.ModelFileError, match="unknown exception"):
            load("<worldbody/>")
    with pytest.raises(tb.ModelFileError, match="restart Python"):
        load("<worldbody/>")


def test_entities_are_refused(tmp_path):
    path = tmp_path / "robot.xml"
    path.write_text(
        '<!DOCTYPE mujoco [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><mujoco model="&b;"/>'
    )
    with pytest.raises(tb.ModelFileError, match="entities"):
        tb.load(path)


@pytest.mark.parametrize(
    "start", ["<!DOCTYPE m [<!-- > {} -->]>", "<!DOCTYPE m [<?x > {} ?>]>", '<!DOCTYPE m "> {} ">']
)
def test_document_types_hide_no_elements(tmp_path, start):
    """MuJoCo takes the content of a document type for elements, and would open what they name."""
    hidden = '<mujoco><asset><mesh file="/etc/passwd"/></asset></mujoco>'.replace('"', "'")
    path = tmp_path / "robot.xml"
    path.write_text(start.format(hidden) + "<mujoco/>")
    with pytest.raises(tb.ModelFileError, match=r"external references|not well-formed"):
        tb.load(path)


def test_a_document_type_may_have_a_name(tmp_path):
    path = tmp_path / "robot.xml"
    path.write_text("<!DOCTYPE mujoco><mujoco><worldbody/></mujoco>")
    assert not tb.load(path).bodies


def test_other_encodings_are_refused(tmp_path):
    """MuJoCo does not decode what a file declares, so both would see different names."""
    path = tmp_path / "robot.xml"
    path.write_bytes('<?xml version="1.0" encoding="koi8-r"?><mujoco/>'.encode("koi8-r"))
    with pytest.raises(tb.ModelFileError, match="save the file as UTF-8"):
        tb.load(path)


def test_huge_declared_buffers_are_not_allocated(load):
    """Room for users, keyframes, contacts and sensors is not part of a robot."""
    text = """<size memory="8G" nuserdata="2000000000" nkey="100000000"/>
      <custom><numeric name="n" size="500"/><text name="t" data="x"/>
        <tuple name="u"><element objtype="sensor" objname="s"/></tuple></custom>
      <worldbody><body name="b"><joint/><geom size="0.1"/><site name="i"/></body></worldbody>
      <sensor><gyro name="s" site="i"/></sensor>"""
    assert load(text).nv == 1


def test_missing_textures_are_ignored(load):
    """Pictures are not opened, so a model without them loads."""
    text = """<asset><texture name="t" type="2d" file="none.png"/><material name="m" texture="t"/>
      </asset>
      <worldbody><body name="b"><joint/><geom size="0.1" material="m"/></body></worldbody>"""
    assert load(text).body_names == ("b",)


def test_reading_writes_no_log(load, tmp_path, monkeypatch):
    """MuJoCo logs its warnings into the current folder by default."""
    monkeypatch.chdir(tmp_path)
    slides = "".join(f'<joint type="slide" axis="{a}"/>' for a in ("1 0 0", "1 0 0"))
    with pytest.warns(tb.ModelWarning, match="no inertia resists"):
        load(f'<worldbody><body name="b">{slides}<geom size="0.1"/></body></worldbody>')
    assert [path.name for path in tmp_path.iterdir()] == ["robot.xml"]


def test_without_mujoco_the_error_states_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    path = tmp_path / "robot.xml"
    path.write_text("<mujoco/>")
    with pytest.raises(tb.ModelFileError, match=r"pip install 'tiburon\[mjcf\]'"):
        tb.load(path)


def test_deep_trees_load(tmp_path):
    """Bodies nest as deep as their elements; a snake of 300 is no attack."""
    path = tmp_path / "snake.xml"
    inside = '<body pos="0.1 0 0"><joint axis="0 0 1"/><geom size="0.1"/>'
    path.write_text(f"<mujoco><worldbody>{inside * 300}{'</body>' * 300}</worldbody></mujoco>")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = tb.load(path)
    assert (model.name, model.nv) == ("snake", 300)


def test_models_attached_to_models_are_counted_before_they_are_built(tmp_path):
    """Twenty copies of twenty copies of ...: each file is short, the fourth makes 160 000 links."""
    link = '<joint/><geom size="0.1"/>'
    for k in range(5):
        asset = f'<asset><model name="inner" file="m{k - 1}.xml"/></asset>' if k else ""
        attach = "".join(
            f'<attach model="inner" body="x" prefix="p{i}_"/>' for i in range(20 if k else 0)
        )
        (tmp_path / f"m{k}.xml").write_text(
            f'<mujoco model="m{k}">{asset}<worldbody><body name="x">{link}{attach}</body>'
            "</worldbody></mujoco>"
        )
    assert len(tb.load(tmp_path / "m1.xml").bodies) == 21
    for name in ("m3.xml", "m4.xml"):
        with pytest.raises(tb.ModelFileError, match="got more; lower the counts"):
            tb.load(tmp_path / name)


def test_models_that_attach_themselves_are_refused(tmp_path):
    """MuJoCo would call itself until the process dies."""
    for name, other in (("a.xml", "b.xml"), ("b.xml", "a.xml"), ("c.xml", "c.xml")):
        (tmp_path / name).write_text(
            f'<mujoco><asset><model name="inner" file="{other}"/></asset><worldbody>'
            '<body name="x"><joint/><geom size="0.1"/></body></worldbody></mujoco>'
        )
    for name in ("a.xml", "c.xml"):
        with pytest.raises(tb.ModelFileError, match="a model may not attach itself"):
            tb.load(tmp_path / name)


def test_models_may_be_attached_fifty_deep(tmp_path):
    (tmp_path / "m0.xml").write_text("<mujoco/>")
    for k in range(1, 60):
        (tmp_path / f"m{k}.xml").write_text(
            f'<mujoco><asset><model name="inner" file="m{k - 1}.xml"/></asset></mujoco>'
        )
    with pytest.raises(tb.ModelFileError, match="models may be attached 50 deep"):
        tb.load(tmp_path / "m59.xml")
