"""`tiburon simulate` and `report`: what they run, keep and tell, and how they end."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import tiburon as tb
from tiburon.cli.application import application
from tiburon.cli.run_options import controller, load_function, surroundings, values_by_name

ARM = "double_pendulum"
PNG = b"\x89PNG"


def invoke(*words):
    return CliRunner().invoke(application, [str(word) for word in words])


def data_of(*words):
    """Run with --json and return what a script would read."""
    result = invoke(*words, "--json")
    if isinstance(result.exception, tb.TiburonError):
        raise result.exception
    return result.exit_code, json.loads(result.output)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """One run with all its files: exit code, words and folder."""
    folder = tmp_path_factory.mktemp("run")
    files = {word: folder / f"run.{end}" for word, end in [("csv", "csv"), ("plot", "png")]}
    files |= {"html": folder / "replay.html", "report": folder / "page.html"}
    options = [x for word, path in files.items() for x in (f"--{word}", path)]
    result = invoke(
        *("simulate", ARM, "-t", 0.5, "--q", "0.5,0.2", "--v", "elbow=1", "--record-dt", 0.05),
        *("--store", folder / "run.zarr", *options),
    )
    return result, folder


def test_a_run_is_that_of_the_library(kept):
    """Start, duration and rows reach `tb.simulate` as they were given."""
    result, folder = kept
    assert result.exit_code == 0, result.output
    run = tb.load_run(folder / "run.zarr")
    ours = tb.simulate(
        tb.load(ARM),
        0.5,
        q=[0.5, 0.2],
        v=[0.0, 1.0],
        record=tb.Record(dt=0.05),
        execution=tb.Execution(progress=False),
    )
    np.testing.assert_array_equal(run.q, ours.q)
    np.testing.assert_array_equal(run.time, ours.time)


def test_files_are_written_and_named(kept):
    """Table, figure, replay and report, each what its name says."""
    result, folder = kept
    for name in ("run.csv", "run.png", "replay.html", "page.html", "run.zarr"):
        assert f"wrote {folder / name}" in result.output
    assert (folder / "run.png").read_bytes().startswith(PNG)
    assert "joint_position.elbow" in (folder / "run.csv").read_text().splitlines()[0]
    for page in ("replay.html", "page.html"):
        assert "</html>" in (folder / page).read_text()


def test_the_outcome_is_printed(kept):
    result, _ = kept
    assert "outcome:       finished at 0.5 s" in result.output
    assert "elbow [rad]" in result.output
    assert "energy of the robot: " in result.output


def test_a_stored_run_continues_with_the_same_bits(kept, tmp_path):
    """`--resume -t` adds to the run; the end is that of a run without a break."""
    _, folder = kept
    copy = tmp_path / "run.zarr"
    tb.load_run(folder / "run.zarr").save(copy)
    code, data = data_of("simulate", copy, "--resume", "-t", 0.5)
    assert (code, data["status"], data["time"]) == (0, "finished", 1.0)
    whole = tb.simulate(
        tb.load(ARM), 1.0, q=[0.5, 0.2], v=[0.0, 1.0], execution=tb.Execution(progress=False)
    )
    assert [*data["q"].values()] == whole.q[-1].tolist()
    assert tb.load_run(copy).span == (0.0, 1.0)


def test_report_of_a_saved_run(kept, tmp_path):
    """Page, figures, replay and table of a run on disk; JSON without a page."""
    _, folder = kept
    page, figures = tmp_path / "page.html", tmp_path / "figures"
    result = invoke(
        *("report", folder / "run.zarr", page, "--figures", figures),
        *("--replay", tmp_path / "replay.html", "--csv", tmp_path / "run.csv"),
    )
    assert result.exit_code == 0, result.output
    assert "finished at 0.5 s" in page.read_text()
    assert {path.name for path in figures.iterdir()} == {
        *("positions.png", "velocities.png", "commands.png", "energy.png")
    }
    assert (tmp_path / "run.csv").exists()
    assert "</html>" in (tmp_path / "replay.html").read_text()
    code, data = data_of("report", folder / "run.zarr")
    assert (code, data["status"], data["files"]) == (0, "finished", [])
    assert data["energy"]["end"] == pytest.approx(data["energy"]["start"], rel=1e-9)


def test_report_overwrites_no_file_by_default(kept, tmp_path, monkeypatch):
    """A file that exists stays, and nothing else is written, unless --force is given."""

    def savefig(figure, stream, **options):
        # what figures show is none of this test's business, and takes most of its time
        stream.write("<svg />" if options["format"] == "svg" else PNG)

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", savefig)
    run, page = tmp_path / "run.zarr", tmp_path / "new.html"
    tb.load_run(kept[1] / "run.zarr").save(run)
    replay, csv, figure = (
        tmp_path / x for x in ("replay.html", "run.csv", "figures/positions.png")
    )
    options = {
        tmp_path / "page.html": [tmp_path / "page.html"],
        tmp_path / "run.html": [],
        replay: [page, "--replay", replay],
        csv: [page, "--csv", csv],
        figure: [page, "--figures", figure.parent],
    }
    for file, words in options.items():
        file.parent.mkdir(exist_ok=True)
        file.write_text("years of work")
        result = invoke("report", run, *words)
        assert isinstance(result.exception, tb.RunFileError)
        assert str(result.exception) == (
            f"{file}: exists already; choose another name, or pass --force to replace it"
        )
        assert file.read_text() == "years of work"
        assert not page.exists()
    together = [*options[replay][1:], *options[csv][1:], *options[figure][1:]]
    for words in ([tmp_path / "page.html"], together):
        result = invoke("report", run, *words, "--force")
        assert result.exit_code == 0, result.output
    assert not [file for file in options if file.read_bytes()[:13] == b"years of work"]


def test_diverged_runs_have_a_code_and_a_cause(tmp_path):
    """A controller that pushes without end: code 3, and JSON says who left first."""
    (tmp_path / "wild.py").write_text("def push(state):\n    return 1e14 * state.q**3\n")
    code, data = data_of(
        "simulate", ARM, "-t", 0.5, "--q", "0.5,0.2", "--control", f"{tmp_path}/wild.py:push"
    )
    assert code == 3
    assert data["status"] == "diverged"
    assert data["quantity"] in data["message"]
    assert all(np.isfinite([*data["q"].values()]))


def test_runs_out_of_budget_have_a_code():
    code, data = data_of("simulate", ARM, "-t", 0.5, "--budget", 0)
    assert (code, data["status"]) == (4, "budget")


INTERRUPTED = """
import os, runpy, signal
from tiburon.results.store import RunStore
from tiburon.simulation import recorder
recorder.FLUSH_SECONDS = 0.0
commit = RunStore.commit

def committed(store, rows, checkpoint):
    commit(store, rows, checkpoint)
    if rows > 1:
        os.kill(os.getpid(), signal.SIGINT)

RunStore.commit = committed
runpy.run_module("tiburon", run_name="__main__")
"""
"""The program, with Ctrl-C as soon as rows beside that of the start are on disk."""


def test_ctrl_c_keeps_the_computed_rows(tmp_path):
    """The first Ctrl-C ends in good order: code 130, rows on disk, and it can continue."""
    store = tmp_path / "long.zarr"
    words = ["simulate", ARM, "-t", "3e5", "--q", "0.5,0.2", "--record-dt", "0.1"]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *words, "--store", store],
        capture_output=True,
        text=True,
        timeout=600.0,
    )
    assert done.returncode == 130, done.stderr
    assert "interrupted" in done.stdout
    assert "Traceback" not in done.stderr
    run = tb.load_run(store)
    assert run.outcome.status == "interrupted"
    assert 0.0 < run.outcome.time == run.time[-1] < 3e5
    rows = len(run)
    assert len(run.resume(0.1)) == rows + 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--q", "0.5"], "--q: expected 2 values (shoulder, elbow), or name=value, got 1"),
        (["--q", "elbwo=1"], "did you mean 'elbow'?"),
        (["--v", "elbow=fast"], "--v: elbow: expected a number, got 'fast'"),
        (["--pose", "home"], "unknown pose 'home'"),
        (["--control", "fly"], "--control: expected"),
        (["--control", "nothing.csv"], "nothing.csv: no such file"),
        (["--control", "no_such_module:f"], "no module 'no_such_module'"),
        (["--command", "elbow"], "--command: expected name=value, got 'elbow'"),
        (["--method", "rk5"], "method: expected"),
        (["--plot", "no/such/folder/a.png"], "there is no folder 'no/such/folder'"),
        (["--control", "station"], "station keeping needs one floating base, got 0"),
    ],
)
def test_invalid_options_are_refused_with_advice(words, message):
    """Before anything runs, by errors of ours, which the command shows with code 1."""
    result = invoke("simulate", ARM, "-t", 0.1, *words)
    assert isinstance(result.exception, tb.TiburonError)
    assert message in str(result.exception)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(state:\n", "mine.py, line 1: SyntaxError"),
        ("\nimport nowhere_at_all\n", "mine.py, line 2: ModuleNotFoundError"),
        ("def f(state):\n    return 1 / 0\n", "mine.py, line 2: ZeroDivisionError: division"),
        ("def f():\n    return 1\n", "control: expected a function of (state), got one of ()"),
    ],
)
def test_errors_of_users_are_reported_by_line(text, message, tmp_path):
    """Not by the way through this package."""
    file = tmp_path / "mine.py"
    file.write_text(text)
    result = invoke("simulate", ARM, "-t", "0.01", "--control", f"{file}:f")
    assert isinstance(result.exception, tb.ModelError)
    assert message in str(result.exception)


def test_files_that_cannot_be_written_are_reported_before_the_run(kept, tmp_path):
    """Endings of figures, and folders of reports."""
    result = invoke("simulate", ARM, "--plot", tmp_path / "run.xyz")
    assert isinstance(result.exception, tb.OptionError)
    assert "'.png'" in str(result.exception)
    run = kept[-1] / "run.zarr"
    assert run.exists()
    (tmp_path / "file").write_text("")
    result = invoke("report", run, "--figures", tmp_path / "file" / "figures")
    assert isinstance(result.exception, tb.RunFileError)
    assert "cannot be created as a folder" in str(result.exception)
    result = invoke("report", run, "--csv", tmp_path / "nowhere" / "run.csv")
    assert "there is no folder" in str(result.exception)


def test_values_are_read_by_position_or_by_name():
    start = np.array([1.0, 2.0])
    np.testing.assert_array_equal(values_by_name("--q", "3, 4", "ab", start), [3.0, 4.0])
    np.testing.assert_array_equal(values_by_name("--q", "b=5", "ab", start), [1.0, 5.0])
    np.testing.assert_array_equal(start, [1.0, 2.0])


def test_any_water_option_implies_water():
    assert surroundings(None, None, None, None, None) == tb.World()
    wet = surroundings(None, (0.0, 0.0, -1.6), None, (0.1, 0.0, 0.0), 0.5)
    assert wet.gravity == (0.0, 0.0, -1.6)
    assert wet.fluid == tb.Water(current=(0.1, 0.0, 0.0), surface=0.5)


def test_properties_of_the_water_are_given_by_name():
    """Each becomes that of `Water`; what is wrong, unknown or given twice is named."""
    words = ["current=0.1, 0,0", "density=1000", "strips=6", "split_strips=true"]
    wet = surroundings(None, None, None, None, None, fluid=words)
    expected = tb.Water(1000.0, current=(0.1, 0.0, 0.0), strips=6, split_strips=True)
    assert wet.fluid == expected
    for word, message in {
        "current=0.1": "--fluid: current: expected x,y,z, got '0.1'",
        "density=1,2": "--fluid: density: expected one number",
        "density=heavy": "--fluid: density: expected a number, got 'heavy'",
        "salt=1": "salt",
        "current": "expected name=value, such as current=0.3,0,0",
        "surface=1": "expected surface once, got it twice, in --surface too",
        "split_strips=yes": "split_strips",
    }.items():
        with pytest.raises(tb.TiburonError, match=re.escape(message)):
            surroundings(None, None, None, None, 0.5, fluid=[word])
    with pytest.raises(tb.DomainError, match="expected density once, got it twice"):
        surroundings(None, None, None, None, None, fluid=["density=1", "density=2"])


def test_a_vehicle_of_a_urdf_file_drifts_with_the_current(tmp_path):
    """`--base free` and `--fluid` on the command line: neutral buoyancy, carried along."""
    sphere = '<origin xyz="0 0 0"/><geometry><sphere radius="0.1"/></geometry>'
    inertia = '<inertia ixx="0.02" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/>'
    (tmp_path / "ball.urdf").write_text(
        f'<robot name="ball"><link name="hull"><inertial><mass value="4.29"/>{inertia}</inertial>'
        f"<collision>{sphere}</collision></link></robot>"
    )
    wet = tmp_path / "ball.toml"
    assert invoke("hydro", tmp_path / "ball.urdf", wet, "--base", "free").exit_code == 0
    assert tb.load(wet).nv == 6
    result = invoke("simulate", wet, "-t", 20, "--dt", 0.01, "--fluid", "current=0.3,0,0",
                    "--fluid", "density=1025", "--csv", tmp_path / "run.csv")  # fmt: skip
    assert result.exit_code == 0, result.output
    model = tb.load(wet)
    run = tb.simulate(model, 20.0, method=tb.RK4(dt=0.01), fluid=tb.Water(current=(0.3, 0.0, 0.0)))
    assert 0.15 < run.v[-1, model.v_names.index("base.vx")] < 0.3
    last = (tmp_path / "run.csv").read_text().splitlines()[-1].split(",")
    assert float(last[0]) == pytest.approx(20.0)
    assert repr(float(run.v[-1, model.v_names.index("base.vx")])) in last


def test_options_for_controllers(tmp_path, monkeypatch):
    """Each word is a controller of the library, or the user's own."""
    arm, rov = tb.load("panda"), tb.load("tiburon_titan")
    q, land = np.array(arm.poses["ready"]), tb.World()
    assert controller(None, arm, land, q) is None
    assert isinstance(controller("gravity", arm, land, q), tb.GravityCompensation)
    hold = controller("hold", arm, land, q)
    assert isinstance(hold, tb.ComputedTorque)
    assert hold.target == tuple(q)
    station = controller("station", rov, land, rov.neutral())
    assert [type(part) for part in station.parts] == [tb.StationKeeping, tb.ComputedTorque]
    (tmp_path / "log.csv").write_text("time,elbow\n0,1\n1,2\n")
    assert controller(f"{tmp_path}/log.csv", arm, land, q).names == ("elbow",)
    (tmp_path / "my_control.py").write_text("def f(state):\n    return {}\n")
    monkeypatch.chdir(tmp_path)
    assert load_function("my_control:f")(None) == {}
    assert str(tmp_path) not in sys.path
    with pytest.raises(tb.UnknownNameError, match="unknown function 'g'"):
        load_function("my_control.py:g")


def test_robots_with_loops_start_where_their_loops_are_closed():
    """A named pose is the default start where the neutral position leaves loops open."""
    from tiburon.cli.run_options import start_of

    bar = tb.load("four_bar")
    np.testing.assert_array_equal(start_of(bar, None, None), bar.poses["home"])


def test_robots_run_in_the_world_of_their_file_or_on_ground_that_options_give(tmp_path):
    """A block on its slope slides; with more friction it stays; without contact it falls."""
    words = ("simulate", "block_slope", "--pose", "rest", "-t", "0.2")
    ends = {}
    for name, options in {
        "slides": (),
        "stays": ("--ground", "0.5"),
        "falls": ("--contact", "none"),
    }.items():
        code, data = data_of(*words, *options)
        assert code == 0
        ends[name] = data["q"]
    assert ends["slides"]["float.x"] == pytest.approx(0.5 * 1.511540684 * 0.04, rel=1e-6)
    assert abs(ends["stays"]["float.x"]) < 1e-9
    assert ends["falls"]["float.z"] < 0.0
    printed = invoke(*words).output
    assert "peak force" in printed
    assert "block/ground[0]" in printed


def test_pairs_that_may_touch_are_named():
    code, data = data_of(
        "simulate", "newtons_cradle", "--pose", "raised", "--contact", "rigid", "-t", "0.25",
        "--pair", "ball_1:ball_2", "--dt", "1e-4",
    )  # fmt: skip
    assert code == 0
    assert data["v"]["string_2"] < -1.0
    assert data["v"]["string_3"] == 0.0
    result = invoke("simulate", "newtons_cradle", "--pair", "ball_1")
    assert "--pair" in str(result.exception)


def test_held_legs_carry_the_robot():
    """On the ground of its own world the dog stands; computed torque would let it fall."""
    code, data = data_of("simulate", "quadruped", "--pose", "stand", "--control", "hold", "-t", "1")
    assert code == 0
    assert data["q"]["base.z"] > 0.28
    assert abs(data["q"]["base.x"]) < 0.02


def test_a_start_that_penetrates_the_ground_is_replaced_by_the_standing_pose():
    """Without --pose a robot starts in its pose "stand", or in its only clear one; this is said."""
    result = invoke("simulate", "quadruped", "--control", "hold", "-t", "0.1", "--json")
    assert result.exit_code == 0
    assert "note: starts in pose 'stand', since at q = 0 contact" in result.stderr
    assert "--pose" in result.stderr
    assert json.loads(result.stdout)["q"]["base.z"] > 0.28
    result = invoke("simulate", "block_slope", "-t", "0.01")
    assert "note: starts in pose 'rest'" in result.stderr
    # a given start is used as it is, and without contact there is nothing to avoid
    result = invoke("simulate", "block_slope", "-t", "0.01", "--contact", "none")
    assert result.exit_code == 0
    assert "starts in pose" not in result.stderr


def test_a_start_that_penetrates_is_refused_with_the_poses_that_do_not():
    for words, message in (
        (("gripper_block",), "pass --pose open or --pose closed, or move the robot with --q"),
        (("block_slope", "--q", "float.z=0.05"), "a penetration of 0.05 m; pass --pose rest"),
    ):
        result = invoke("simulate", *words, "-t", "0.1")
        assert isinstance(result.exception, tb.DomainError)
        assert message in str(result.exception)
