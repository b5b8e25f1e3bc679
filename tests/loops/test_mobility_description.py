"""What `tiburon info` says of loops."""

from typer.testing import CliRunner

import tiburon as tb
from tests.loops.mechanisms import link
from tiburon.cli.application import application


def info(name):
    """The text without line breaks, which depend on the terminal."""
    result = CliRunner().invoke(application, ["info", str(name)])
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_info_says_how_a_four_bar_moves():
    assert (
        "a simple closed chain; 5 loop equations, 3 redundant, mobility 1: input can drive it alone"
    ) in info("four_bar")


def test_info_counts_paths_and_spare_motors():
    assert (
        "a complex closed chain, 3 paths from world to body; 15 loop equations, 9 redundant, "
        "mobility 3: joint_1, joint_2, joint_3, joint_4, joint_5 and joint_6 can drive it, 3 more "
        "than needed"
    ) in info("planar_walker")


def test_trees_have_no_mobility_to_tell():
    assert tb.describe(tb.load("pendulum"))["mobility"] is None


def test_description_has_plain_numbers():
    found = tb.describe(tb.load("bricard"))["mobility"]
    assert (found["mobility"], found["counted_mobility"], found["cycles"]) == (1, 0, 1)
    # nothing drives it
    assert found["condition"] is None
    assert found["redundancy"] == -1


def test_a_robot_that_cannot_be_assembled_says_so(tmp_path):
    """Two rods of 1 m on pivots 3 m apart."""
    bodies = [
        link("left", "world", tb.Revolute("left")),
        link("right", "world", tb.Revolute("right", pose=tb.Pose(translation=(3, 0, 0)))),
    ]
    tip = tb.Pose(translation=(1, 0, 0))
    loop = tb.LoopClosure("pin", "left", "right", tb.Revolute("pin", pose=tip), tip)
    tb.save(tb.Model("apart", bodies, loops=[loop]), tmp_path / "apart.toml")
    text = info(tmp_path / "apart.toml")
    assert "it cannot be assembled: model 'apart': loops cannot be closed" in text
    assert "'pin' by 1 " in text


def test_info_tells_of_robots_whose_loops_have_no_numbers_where_they_start(tmp_path):
    """A coin that lies flat touches at no one point; all else is told."""
    rim = tb.RollingDisc("rim", "world", "coin", radius=0.3, axis=(0, 0, 1))
    coin = tb.Model("flat", [link("coin", "world", tb.Free("float"))], loops=[rim])
    tb.save(coin, tmp_path / "coin.toml")
    told = info(tmp_path / "coin.toml")
    assert "how it moves is not known in this pose" in told
    assert "lies flat on the plane" in told
    result = CliRunner().invoke(
        application, ["view", str(tmp_path / "coin.toml"), "--html", str(tmp_path / "coin.html")]
    )
    assert result.exit_code == 0, result.output
    assert "shown as it is" in result.stderr
