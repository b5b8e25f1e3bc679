"""`tiburon check`: what it finds, and how it ends."""

import json

import pytest
from typer.testing import CliRunner

import tiburon as tb
from tiburon.cli.application import application


def run(*words):
    return CliRunner().invoke(application, ["check", *(str(word) for word in words)])


def test_robots_that_ship_are_without_blame():
    result = run("puma560", "--strict")
    assert (result.exit_code, result.output) == (0, "puma560: nothing found\n")


def test_doubts_are_listed_and_may_fail(tmp_path):
    """Limits in degrees are told; the command fails for them only where it is asked to."""
    link = tb.Body(
        "link",
        joint=tb.Revolute("hinge", limits=tb.JointLimits(-90, 90)),
        inertia=tb.Inertia.box(1.0, (0.5, 0.1, 0.1)),
    )
    path = tmp_path / "slip.toml"
    tb.save(tb.Model("slip", [link]), path)
    result = run(path)
    assert result.exit_code == 0
    assert result.output.startswith("slip: 1 thing to look at\n- joint 'hinge': limits are -90")
    assert run(path, "--strict").exit_code == 1


def test_cylinders_are_told_how_water_meets_them():
    """Reynolds number and vortices of a hull across the stream, by the library's own report."""
    found = json.loads(run("remus100", "--json").output)
    assert found["warnings"] == []
    (flow,) = found["cylinders"]
    rov = tb.load("remus100")
    water = tb.Water(1025.0, (0.0, 0.5, 0.0), viscosity=1.2e-3)
    (expected,) = tb.cylinder_flows(rov, rov.neutral(), [0.0] * 6, water)
    assert flow["reynolds"] == expected.reynolds == pytest.approx(1025 * 0.5 * 0.19 / 1.2e-3)
    assert flow["shedding_frequency"] == expected.shedding_frequency > 0.0
    table = run("remus100").output
    assert "8.1e+04" in table
    assert "subcritical" in table


def test_the_drag_crisis_is_a_doubt():
    result = run("remus100", "--current", "0", "5", "0", "--strict")
    assert result.exit_code == 1
    assert "body 'hull', drag 1: Reynolds number 8.1e+05 lies in the drag crisis" in result.output


def test_poses_are_known_by_name():
    assert run("aquarobot", "--pose", "stand").exit_code == 0
    with pytest.raises(tb.UnknownNameError, match="did you mean 'stand'"):
        raise run("aquarobot", "--pose", "stnad").exception
