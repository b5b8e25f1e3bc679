"""`tiburon check`: what it finds, and how it ends."""

import json

import pytest
from typer.testing import CliRunner

import tiburon as tb
from tiburon.cli.application import application


def run(*words):
    return CliRunner().invoke(application, ["check", *(str(word) for word in words)])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """All checks of a small robot, with a page."""
    page = tmp_path_factory.mktemp("check") / "page.html"
    return run("double_pendulum", "--html", page), page


def test_a_good_robot_passes_every_check(whole):
    result, _ = whole
    assert result.exit_code == 0, result.output
    assert result.output.startswith("double_pendulum: passed (9 passed, 0 failed)\n")
    for name in (
        *("forward and inverse dynamics", "mass matrix and bias force", "kinetic energy"),
        *("derivatives", "energy, on land", "power balance", "step size", "plausible parameters"),
    ):
        (line,) = (line for line in result.output.splitlines() if f"  {name} " in line)
        assert line.startswith("passed")
    assert "skipped  momentum in free space" in result.output


def test_the_page_has_the_same_verdicts(whole):
    _, page = whole
    text = page.read_text()
    assert "<title>Checks of double_pendulum</title>" in text
    assert "<td>skipped</td>" in text
    assert text.count("<td>passed</td>") == 9


def test_zoo_robots_pass_the_check():
    result = run("puma560", "--strict", "--quick")
    assert result.exit_code == 0
    assert result.output.startswith("puma560: passed (1 passed, 0 failed)\n")


def test_warnings_are_listed_and_may_fail(tmp_path):
    """Limits in degrees are reported; the command fails for them only on request."""
    link = tb.Body(
        "link",
        joint=tb.Revolute("hinge", limits=tb.JointLimits(-90, 90)),
        inertia=tb.Inertia.box(1.0, (0.5, 0.1, 0.1)),
    )
    path = tmp_path / "slip.toml"
    tb.save(tb.Model("slip", [link]), path)
    result = run(path, "--quick")
    assert result.exit_code == 0
    assert result.output.startswith("slip: passed (0 passed, 0 failed, 1 warnings)\n")
    assert "warning  plausible parameters                   joint 'hinge': limits are -90" in (
        result.output
    )
    assert run(path, "--quick", "--strict").exit_code == 1


def test_robots_that_cannot_move_fail(tmp_path):
    """A finger without mass has no motion to check: that is a failure, in words."""
    bodies = [
        tb.Body("arm", joint=tb.Revolute("hinge"), inertia=tb.Inertia.box(1.0, (0.5, 0.1, 0.1))),
        tb.Body("finger", "arm", joint=tb.Revolute("knuckle"), inertia=tb.Inertia(0.0)),
    ]
    path = tmp_path / "limp.toml"
    tb.save(tb.Model("limp", bodies, movable=False), path)
    result = run(path, "--json")
    assert result.exit_code == 1
    found = json.loads(result.output)
    assert not found["passed"]
    (failed,) = (f for f in found["findings"] if f["verdict"] == "failed")
    assert "no inertia resists 'knuckle'" in failed["text"]


def test_flow_around_cylinders_is_reported():
    """Reynolds number and vortices of a hull across the stream, by the library's own report."""
    found = json.loads(run("remus100", "--quick", "--json").output)
    assert found["passed"]
    (flow,) = found["cylinders"]
    rov = tb.load("remus100")
    water = tb.Water(1025.0, (0.0, 0.5, 0.0), viscosity=1.2e-3)
    (expected,) = tb.cylinder_flows(rov, rov.neutral(), [0.0] * 6, water)
    assert flow["reynolds"] == expected.reynolds == pytest.approx(1025 * 0.5 * 0.19 / 1.2e-3)
    assert flow["shedding_frequency"] == expected.shedding_frequency > 0.0
    table = run("remus100", "--quick").output
    assert "8.1e+04" in table
    assert "subcritical" in table


def test_drag_crisis_is_a_warning():
    result = run("remus100", "--current", "0", "5", "0", "--strict", "--json", "--quick")
    assert result.exit_code == 1
    (doubt,) = (f["text"] for f in json.loads(result.output)["findings"])
    assert doubt.startswith("body 'hull', drag 1: Reynolds number 8.1e+05 is in the drag crisis")


def test_poses_are_known_by_name():
    assert run("aquarobot", "--pose", "stand", "--quick").exit_code == 0
    with pytest.raises(tb.UnknownNameError, match="did you mean 'stand'"):
        raise run("aquarobot", "--pose", "stnad", "--quick").exception
