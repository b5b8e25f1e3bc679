"""Robots from MJCF and DynaMechs files survive our own format, to the last bit."""

import warnings
from pathlib import Path

import pytest

import tiburon as tb

DATA = Path(__file__).parents[1] / "data"
FILES = [*sorted((DATA / "dynamechs").glob("*.dm")), DATA / "mjcf" / "diver.xml"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_native_file_keeps_all_data_of_a_loaded_robot(path, tmp_path):
    if path.suffix == ".xml":
        pytest.importorskip("mujoco", reason="MJCF is read by MuJoCo")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.ModelWarning)
        robot = tb.load(path)
        tb.save(robot, tmp_path / "robot.toml")
        again = tb.load(tmp_path / "robot.toml")
    assert again == robot
    assert (again.loops, again.thrusters, again.contacts, again.actuators, again.poses) == (
        robot.loops,
        robot.thrusters,
        robot.contacts,
        robot.actuators,
        robot.poses,
    )
