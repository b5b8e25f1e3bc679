"""Robots whose files leave loops open: commands close them and say so, or say what stays open."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import tiburon as tb
from tiburon.checks.model_check import _poses
from tiburon.cli.application import application
from tiburon.cli.run_options import assembled, closed_start, closed_velocity

AXIS = (0, -1, 0)
"""Of all hinges: the linkage moves in the xz plane."""


def invoke(*words):
    return CliRunner().invoke(application, [str(word) for word in words])


def linkage(base):
    """Return a four-bar with its pivots so far apart [m]; its neutral position is a flat line."""

    def link(name, parent, joint, along):
        hinge = tb.Revolute(joint, AXIS, pose=tb.Pose(translation=(along, 0, 0)))
        return tb.Body(name, parent, joint=hinge, inertia=tb.Inertia.sphere(1.0, 0.1))

    end = tb.Pose(translation=(0.9, 0, 0))
    pin = tb.Revolute("pin", AXIS, pose=tb.Pose(translation=(1.1, 0, 0)))
    return tb.Model(
        "linkage",
        [
            link("crank", "world", "motor", 0.0),
            link("coupler", "crank", "elbow", 0.4),
            link("rocker", "world", "pivot", base),
        ],
        loops=[tb.LoopClosure("closure", "coupler", "rocker", pin, end)],
        actuators=[tb.Actuator("drive", "motor")],
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A linkage that can be closed though it is open, and one whose links do not reach."""
    folder = tmp_path_factory.mktemp("linkages")
    for name, base in (("near", 1.0), ("far", 5.0)):
        tb.save(linkage(base), folder / f"{name}.toml")
    return folder


def gap(model, q):
    from tiburon.functions.mobility import loop_rows

    return float(np.abs(loop_rows(model, q)[0]).max())


def test_an_open_start_is_assembled_with_a_note(capsys):
    """The note names the loop with its gap, and what was moved how far."""
    robot = linkage(1.0)
    q = closed_start(robot, None, None)
    assert gap(robot, q) < 1e-12
    said = capsys.readouterr()
    assert said.out == ""
    # 1.5 m from the crank's pivot against 1.9 m
    assert said.err.startswith(
        "note: loops are open ('closure' by 0.4 [m or rad]) in the given configuration"
    )
    for name, angle in zip(robot.v_names, q, strict=True):
        assert f"{name} by {angle:+.3g} rad" in said.err


def test_joints_set_on_the_command_line_are_held(capsys):
    """--q motor=1 is where the motor starts; the others close the loop."""
    robot = linkage(1.0)
    q = closed_start(robot, None, "motor=1.0,")
    assert q[0] == 1.0
    assert gap(robot, q) < 1e-12
    assert "with motor held" in capsys.readouterr().err
    # numbers alone are where to begin
    given = closed_start(robot, None, ",".join(map(str, q + np.array([0.01, 0.02, -0.01]))))
    assert gap(robot, given) < 1e-12
    assert np.abs(given - q).max() < 0.1
    assert "held" not in capsys.readouterr().err


def test_closed_positions_keep_their_bits(capsys):
    """Nothing is moved or said where loops are closed, or where there are none."""
    robot = linkage(1.0)
    home = assembled(robot, robot.neutral())[0]
    posed = robot.with_poses({"home": home})
    np.testing.assert_array_equal(closed_start(posed, None, None), posed.poses["home"])
    np.testing.assert_array_equal(assembled(robot, home)[0], home)
    tree = robot.without_loops()
    np.testing.assert_array_equal(closed_start(tree, None, "elbow=0.3"), [0.0, 0.3, 0.0])
    assert capsys.readouterr().err == ""


def test_loops_that_cannot_close_are_reported_with_their_residuals(capsys):
    """Links of 2.4 m do not span 5 m: 2.6 m stay open; a picture of it is shown nevertheless."""
    robot = linkage(5.0)
    with pytest.raises(tb.LoopError, match=r"stay open at best 'closure' by 2\.6") as caught:
        closed_start(robot, None, None)
    # the nearest that three links on a line come
    assert caught.value.residuals["closure"] == pytest.approx(2.6, abs=1e-3)
    q = closed_start(robot, None, None, must_close=False)
    np.testing.assert_array_equal(q, robot.neutral())
    assert "shown as given: loops are open ('closure' by 4.4" in capsys.readouterr().err


def test_joints_without_given_speed_follow_the_loops(capsys):
    """--v motor=2 turns the crank; elbow and pivot follow, as differences of positions say."""
    robot = linkage(1.0)
    q = closed_start(robot, None, "motor=1.0")
    capsys.readouterr()
    v = closed_velocity(robot, q, "motor=2.0")
    assert v[0] == 2.0
    h = 1e-6
    there = tb.assemble(robot, q + h * v, hold={"motor": 1.0 + 2.0 * h}).q
    # a step of 1e-6 leaves curvature of 1e-6 and rounding of 1e-10
    np.testing.assert_allclose((there - q) / h, v, atol=1e-4)
    assert capsys.readouterr().err.startswith("note: to keep loops closed, ")
    with pytest.raises(tb.DomainError, match=r"--v: .*opens them by at least .*fewer joints"):
        closed_velocity(robot, q, "motor=2.0,elbow=5.0,pivot=-3.0")
    np.testing.assert_array_equal(closed_velocity(robot, q, "1,2,3"), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(closed_velocity(robot, q, None), np.zeros(3))
    tree = robot.without_loops()
    np.testing.assert_array_equal(closed_velocity(tree, q, "motor=2.0"), [2.0, 0.0, 0.0])
    assert capsys.readouterr().err == ""


def test_simulate_runs_a_robot_whose_loops_are_open(files):
    result = invoke(
        "simulate", files / "near.toml", "-t", 0.05, "--q", "motor=0.8", "--v", "motor=1", "--json"
    )
    assert result.exit_code == 0, result.output
    assert "assembled by moving" in result.stderr
    # standard output stays JSON
    assert json.loads(result.stdout)["status"] == "finished"
    result = invoke("simulate", files / "far.toml", "-t", 0.05)
    assert isinstance(result.exception, tb.LoopError)


def test_view_shows_open_and_closed_robots(files, tmp_path):
    for name, words in (("near", "assembled by moving"), ("far", "cannot be closed")):
        page = tmp_path / f"{name}.html"
        result = invoke("view", files / f"{name}.toml", "--html", page)
        assert result.exit_code == 0, result.output
        assert words in result.stderr
        assert page.stat().st_size > 1000


def test_info_warns_of_open_loops(files):
    described = json.loads(invoke("info", files / "near.toml", "--json").stdout)
    assert described["mobility"]["mobility"] == 1
    (warning,) = [text for text in described["warnings"] if "assembled" in text]
    assert warning.endswith("save a pose 'home' that closes them")
    described = json.loads(invoke("info", files / "far.toml", "--json").stdout)
    assert "cannot be assembled" in described["mobility"]["summary"]
    assert not any("assembled" in text for text in described["warnings"])


def test_check_looks_at_open_loops_and_fails_those_that_cannot_close():
    (near,) = _poses(linkage(1.0))
    assert (near.name, near.verdict) == ("loops in the neutral configuration", "warning")
    found = {f.name: f for f in tb.check_model(linkage(5.0)).findings}
    assert found["loops in poses"].verdict == "failed"
    assert "by 2.6" in found["loops in poses"].text
    assert "loops cannot be closed" in found["dynamics"].text
