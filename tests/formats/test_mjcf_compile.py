"""MJCF files that may keep MuJoCo busy are compiled in a process that can be ended."""

import os
import struct
import subprocess
from pathlib import Path

import pytest

import tiburon as tb
from tests.fresh_process import run_python
from tiburon.formats.limits import Budget

pytest.importorskip("mujoco", reason="MJCF is read by MuJoCo")

from tiburon.formats import mjcf_compile
from tiburon.formats.mjcf_guard import check_files

TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"

RICH = """
<mujoco model="rich">
  <compiler angle="radian" meshdir="parts"/>
  <option density="1000" viscosity="1e-3" wind="1 0 0"><flag gravity="disable"/></option>
  <asset>
    <mesh name="m" file="m.obj" scale="0.1 0.1 0.1"/>
    <hfield name="h" nrow="2" ncol="3" size="1 1 1 1" elevation="0 1 0 1 0 1"/>
    <material name="red" rgba="1 0 0 1"/>
  </asset>
  <worldbody>
    <geom type="hfield" hfield="h"/>
    <body name="a" pos="0 0 2"><freejoint name="base"/>
      <geom name="g" type="mesh" mesh="m" material="red"/>
      <body pos="0 0 1"><joint name="j" axis="1 2 3" range="-1 1" damping="2" frictionloss="0.1"/>
        <joint name="k" type="slide" stiffness="3" armature="0.2"/>
        <geom type="capsule" size="0.1 0.2" condim="1"/><site name="tip" pos="0 0 0.5"/>
        <body name="b"><joint name="l"/><geom size="0.1" contype="2" conaffinity="4"/></body>
      </body>
    </body>
  </worldbody>
  <contact><exclude body1="a" body2="b"/></contact>
  <equality><joint joint1="l" joint2="j" polycoef="0.1 2 0 0 0"/></equality>
  <tendon><fixed name="t"><joint joint="j" coef="1"/></fixed></tendon>
  <actuator><motor name="motor" joint="j" gear="5" forcerange="-1 1"/></actuator>
  <keyframe><key name="up" qpos="0 0 3 1 0 0 0 0.1 0.2 0.3"/></keyframe>
</mujoco>
"""

BUSY = """
<mujoco>
  <asset><mesh name="m" builtin="supersphere" params="1000 1 1"/></asset>
  <worldbody><body><joint/><geom type="mesh" mesh="m"/></body></worldbody>
</mujoco>
"""
"""Takes MuJoCo tens of seconds: the hull of a million points."""


@pytest.fixture
def rich(tmp_path):
    """The path of a file with something of every kind."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "m.obj").write_text(TETRAHEDRON)
    path = tmp_path / "robot.xml"
    path.write_text(RICH)
    return path


@pytest.fixture
def apart(monkeypatch):
    """Let no file be small."""
    checked = mjcf_compile.check_files
    monkeypatch.setattr(mjcf_compile, "check_files", lambda *given: checked(*given) and False)


@pytest.mark.filterwarnings("ignore::tiburon.errors.ModelWarning")
def test_both_processes_compile_the_same_model(rich, monkeypatch, request):
    """Equal in every value: the arrays are those of MuJoCo, as they are."""
    here, world = tb.load(rich), tb.load_world(rich)
    request.getfixturevalue("apart")
    monkeypatch.setattr(mjcf_compile, "compile_mjcf", pytest.fail)
    assert tb.load(rich) == here
    assert tb.load_world(rich) == world
    assert world.gravity == (0.0, 0.0, 0.0)
    assert here.poses["up"] is not None


def test_errors_of_the_process_are_those_of_mujoco(tmp_path, apart):
    """File, line, element and text are as without a process."""
    path = tmp_path / "robot.xml"
    path.write_text("<mujoco>\n<worldbody>\n<bdy/></worldbody></mujoco>")
    with pytest.raises(tb.ModelFileError, match=r"MuJoCo cannot read it: .*bdy") as caught:
        tb.load(path)
    assert (caught.value.file, caught.value.line) == (str(path), 3)


@pytest.mark.skipif(os.name != "posix", reason="needs limits on processor time")
def test_processor_time_of_the_compiler_is_limited(tmp_path):
    """The limit is that of the system: MuJoCo itself looks at no clock."""
    path = tmp_path / "robot.xml"
    path.write_text(BUSY)
    assert not check_files(path, (), Budget(str(path)))
    with pytest.raises(tb.ModelFileError, match="at most 10 s of processor time"):
        mjcf_compile._compile_apart(path, Budget(str(path), 0.5))


def test_waiting_ends_where_processor_time_is_not_limited(tmp_path, monkeypatch):
    """Wall-clock time counts then, and for processes that wait without end."""
    path = tmp_path / "robot.xml"
    path.write_text(BUSY)
    monkeypatch.setattr(mjcf_compile, "processor_time_is_limited", lambda: False)
    monkeypatch.setattr(mjcf_compile, "WALL_FACTOR_UNLIMITED", -1.0)
    with pytest.raises(tb.ModelFileError, match="at most 10 s of processor time"):
        mjcf_compile._compile_apart(path, Budget(str(path)))


def test_ctrl_c_ends_the_process_at_once(tmp_path, monkeypatch):
    """It reaches the process that waits, which ends the one that compiles."""
    path = tmp_path / "robot.xml"
    path.write_text(BUSY)
    started = []

    class Interrupted(subprocess.Popen):
        def poll(self):
            if self not in started:
                started.append(self)
                raise KeyboardInterrupt
            return super().poll()

    monkeypatch.setattr(mjcf_compile.subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        tb.load(path)
    assert [process.returncode is None for process in started] == [False]


def test_a_process_that_crashes_is_reported(tmp_path, monkeypatch, apart):
    """What kills it does not kill the caller; the message says how it ended."""
    path = tmp_path / "robot.xml"
    path.write_text("<mujoco><worldbody><body/></worldbody></mujoco>")
    monkeypatch.setattr(mjcf_compile, "_START", "raise SystemExit('no such library')")
    with pytest.raises(tb.ModelFileError, match=r"process ended with 1 \(no such library\)"):
        tb.load(path)


@pytest.mark.parametrize(
    "written", ["b''", "b'PK' + bytes(100)", "b'\\x93NUMPY'"], ids=["nothing", "damaged", "other"]
)
def test_results_of_the_process_are_read_within_bounds(tmp_path, monkeypatch, apart, written):
    """Neither size nor content of what it returns is taken on trust."""
    path = tmp_path / "robot.xml"
    path.write_text("<mujoco><worldbody><body/></worldbody></mujoco>")
    with monkeypatch.context() as patch:
        patch.setattr(mjcf_compile, "_START", f"import sys; sys.stdout.buffer.write({written})")
        with pytest.raises(tb.ModelFileError, match="cannot be used"):
            tb.load(path)
    monkeypatch.setattr(mjcf_compile, "MAX_ARRAY_BYTES", 1000)
    with pytest.raises(tb.ModelFileError, match=r"claims .* which is too much"):
        tb.load(path)


def test_the_process_imports_nothing_from_the_working_directory(tmp_path, monkeypatch, apart):
    """Files of strangers may lie beside a module of any name."""
    for name in ("json", "numpy", "mujoco", "re"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')")
    path = tmp_path / "robot.xml"
    path.write_text('<mujoco><worldbody><body name="b"/></worldbody></mujoco>')
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    assert tb.load("robot.xml").body_names == ("b",)


def test_scripts_without_a_guard_may_load_large_files(rich):
    """The process runs none of the script that started it."""
    script = rich.with_name("script.py")
    script.write_text(
        "import sys, warnings; warnings.simplefilter('ignore'); print('begin')\n"
        "from tiburon.formats import mjcf_guard; mjcf_guard.SMALL_BYTES = 0\n"
        "import tiburon as tb; print(tb.load(sys.argv[1]).name)"
    )
    done = run_python(
        "import runpy, sys; sys.argv[:] = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')",
        script,
        rich,
    )
    assert done.split() == ["begin", "rich"]


BODY = '<body><joint/><geom size="0.1"/></body>'

LARGE = {
    "generated mesh": BUSY,
    "flexible part": '<mujoco><worldbody><flexcomp name="f" type="grid" count="3 3 1"/></worldbody>'
    "</mujoco>",
    "plugin": '<mujoco><actuator><plugin plugin="x"/></actuator></mujoco>',
    "unknown element": "<mujoco><worldbody><body><novel/></body></worldbody></mujoco>",
    "attached model": '<mujoco><asset><model name="m" file="part.xml"/></asset></mujoco>',
    "picture of heights": '<mujoco><asset><hfield name="h" file="h.png" size="1 1 1 1"/></asset>'
    "</mujoco>",
    "elements": f"<mujoco><worldbody>{700 * BODY}</worldbody></mujoco>",
    "replicated": f'<mujoco><worldbody><replicate count="700">{BODY}</replicate></worldbody>'
    "</mujoco>",
    "one mesh often": "<mujoco><asset>"
    + "".join(f'<mesh name="m{k}" file="m.obj"/>' for k in range(30))
    + "</asset></mujoco>",
    "text": f'<mujoco><worldbody><body><geom user="{300_000 * "1 "}"/></body></worldbody></mujoco>',
}


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE.keys())
def test_files_that_may_take_long_are_not_small(tmp_path, text):
    """Whatever is not known to be quick is compiled apart."""
    path = tmp_path / "robot.xml"
    path.write_text(text)
    (tmp_path / "part.xml").write_text("<mujoco/>")
    (tmp_path / "h.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(8) + struct.pack(">II", 3, 3))
    (tmp_path / "m.obj").write_text(TETRAHEDRON + 10_000 * "#")
    assert not check_files(path, (), Budget("robot.xml"))


def test_ordinary_files_are_small(rich):
    """Also those of the environments of Gymnasium."""
    assert check_files(rich, (), Budget("robot.xml"))
    gymnasium = pytest.importorskip("gymnasium")
    assets = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
    files = sorted(assets.glob("*.xml"))
    assert files
    assert all(check_files(file, (), Budget(str(file))) for file in files)


def test_elements_as_written_are_counted(tmp_path):
    """Keyframes alone kept MuJoCo busy for a minute in a file of three megabytes."""
    path = tmp_path / "robot.xml"
    path.write_text(f"<mujoco><keyframe>{100_000 * '<key/>'}</keyframe></mujoco>")
    with pytest.raises(tb.ModelFileError, match="may have 100000 elements, got 100002"):
        tb.load(path)


@pytest.mark.parametrize(("sides", "count"), [((2000, 2000), 1), ((1000, 1000), 5)])
def test_points_of_pictures_of_heights_are_counted(tmp_path, sides, count):
    """A small picture may unpack to gigabytes."""
    picture = b"\x89PNG\r\n\x1a\n" + bytes(8) + struct.pack(">II", *sides)
    (tmp_path / "h.png").write_bytes(picture)
    fields = "".join(f'<hfield name="h{k}" file="h.png" size="1 1 1 1"/>' for k in range(count))
    path = tmp_path / "robot.xml"
    path.write_text(f"<mujoco><asset>{fields}</asset></mujoco>")
    with pytest.raises(tb.ModelFileError, match=r"may have .* points, got more"):
        tb.load(path)
