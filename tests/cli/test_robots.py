"""`tiburon models`, `info` and `convert`: what they print, and how they fail."""

import json

import pytest
from typer.testing import CliRunner

import tiburon as tb
from tiburon import zoo
from tiburon.cli.application import application


def output_of(*words):
    """Run a subcommand that must succeed and return what it prints."""
    result = CliRunner().invoke(application, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


def test_models_lists_every_robot_with_its_properties():
    """One row each: name, topology, DoF, mass, loops, one line."""
    lines = output_of("models").splitlines()
    assert lines[0].split() == [
        *("robot", "topology", "DoF", "mass", "[kg]", "loops", "description")
    ]
    rows = {line.split()[0]: line for line in lines[1:] if not line.startswith(" ")}
    assert set(rows) == set(zoo.names())
    assert rows["four_bar"].split()[1:5] == ["tree", "3", "4.5", "1"]
    assert rows["rexrov"].split()[1:5] == ["floating", "body", "6", "1863"]


def test_models_can_be_searched_and_read_by_programs():
    """A word narrows the list; --json is JSON."""
    found = json.loads(output_of("models", "PUMA", "--json"))
    assert [row["name"] for row in found] == ["four_pumas", "puma560", "two_pumas"]
    assert found[1]["mass"] == pytest.approx(36.45)
    result = CliRunner().invoke(application, ["models", "zeppelin"])
    assert result.exit_code == 1
    assert "no robot of the zoo matches 'zeppelin'" in result.output


def test_info_shows_tree_state_actuators_and_loops():
    """The sections a reader looks for, with the numbers of the robot."""
    text = output_of("info", "four_bar")
    assert "four_bar  Crank, coupler and rocker" in text
    assert "tree, 1 loop; 3 bodies, nq = 3, nv = 3; 4.5 kg; 1.21 x 0.03 x 0.925 m" in text
    assert "│   └── coupler  2 kg  elbow: revolute about z" in text
    assert "└── rocker  1.5 kg  output: revolute about z" in text
    for section in ("State", "Actuators", "Loops", "Poses: home"):
        assert section in text
    assert "Warnings" not in text
    assert "Thrusters" not in text


def test_info_shows_thrusters_limits_and_water():
    """Ranges of joints, thrusters with place and direction, and hydrodynamic coefficients."""
    text = output_of("info", "tiburon_titan")
    assert "hydrodynamic coefficients: 9 of 9 bodies" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["azimuth", "revolute", "7", "6", "-2.094", "..", "2.094", "1200"] in lines
    assert "port_main           vehicle  (-1.3, 0.6, 0.1)   (1, 0, 0)  -500 .. 500" in text
    assert "right_jaw  1.5 kg  other_jaw: coupled to jaw" in text


def test_info_shows_limits_of_joints_with_several_degrees_of_freedom(tmp_path):
    """One number each, "any" where one is open, nothing where all are."""
    limits = tb.JointLimits(lower=(-0.5, -float("inf")), upper=(0.5, float("inf")))
    rod = tb.Inertia.cylinder(1.0, 0.1, 1.0)
    bodies = [
        tb.Body("a", joint=tb.Universal("bound", limits=limits), inertia=rod),
        tb.Body("b", "a", joint=tb.Universal("open", limits=tb.JointLimits(force=3)), inertia=rod),
    ]
    tb.save(tb.Model("two", bodies), tmp_path / "two.toml")
    lines = [line.split() for line in output_of("info", tmp_path / "two.toml").splitlines()]
    assert ["bound", "universal", "0:2", "0:2", "-0.5,", "any", "..", "0.5,", "any"] in lines
    assert ["open", "universal", "2:4", "2:4", "3"] in lines


def test_info_shortens_long_lists_by_default():
    """A chain of hundred links is cut, and --all shows it whole."""
    short, whole = output_of("info", "chain_100"), output_of("info", "chain_100", "--all")
    assert "and 77 more below; --all shows them" in short
    assert "and 88 more; --all shows them" in short
    assert "link_100  1 kg" not in short
    assert "then link_100  1 kg  joint_100: revolute about x" in whole
    assert "more" not in whole


def test_info_lists_contact_pairs_and_materials():
    """With the ground of the robot's own world, or level ground under contact points."""
    text = output_of("info", "gripper_block", "--all")
    (row,) = (line.split() for line in text.splitlines() if "right_finger.pad_2/block" in line)
    assert row == ["right_finger.pad_2/block", "sphere", "on", "box", "1", "0.8", "/", "0.6", "0"]
    assert "block/ground" in text
    assert "Warnings" not in text
    assert "hind_left_foot" in output_of("info", "quadruped").split("What may touch")[1]
    assert "What may touch" not in output_of("info", "panda")
    data = json.loads(output_of("info", "newtons_cradle", "--json"))
    assert data["contact_candidates"][0]["restitution"] == 0.95
    assert data["contact_candidates"][0]["bodies"] == ["ball_1", "ball_2"]


def test_info_as_json_is_the_description():
    """For programs: the same data as `tiburon.describe`."""
    assert json.loads(output_of("info", "delta", "--json")) == tb.describe(tb.load("delta"))


def test_info_warns_of_implausible_values(tmp_path):
    """A robot in millimeters and grams is shown, with warnings that name the bodies."""
    link = tb.Body(
        "link[a]",
        joint=tb.Revolute("hinge", limits=tb.JointLimits(-90.0, 90.0)),
        inertia=tb.Inertia(2000.0, (0, 0, -250.0), (1, 1, 1)),
        shapes=(tb.Shape(tb.BoxShape((0.1, 0.1, 0.5))),),
    )
    tb.save(tb.Model("slips", [link]), tmp_path / "slips.toml")
    text = output_of("info", tmp_path / "slips.toml")
    assert "Warnings (4)" in text
    # names are no markup
    assert "- body 'link[a]': all moments of inertia are 1 kg m^2" in text
    assert "└── link[a]  2000 kg  hinge: revolute about z" in text


def test_info_without_a_robot_explains_its_usage():
    """An unknown name is an error of ours with a hint."""
    result = CliRunner().invoke(application, ["info", "puma650"])
    assert isinstance(result.exception, tb.ModelFileError)
    assert "did you mean 'puma560'?" in str(result.exception)


def test_convert_round_trip_is_the_same_robot(tmp_path):
    """Native to native keeps every number."""
    target = tmp_path / "copy.toml"
    text = output_of("convert", "stewart", target)
    assert text == f"wrote {target}: stewart, 13 bodies, 1911 kg\n"
    assert tb.load(target) == tb.load("stewart")


def test_convert_reports_data_that_the_target_cannot_hold(tmp_path):
    """URDF knows neither thrusters nor water."""
    target = tmp_path / "rov.urdf"
    text = output_of("convert", "rexrov", target)
    assert ".urdf cannot express:" in text
    assert "thrusters" in text
    assert "hydrodynamic coefficients" in text
    assert tb.load(target).total_mass == pytest.approx(1862.87)


def test_convert_overwrites_no_file_by_default(tmp_path):
    """An existing file stays, until --force."""
    target = tmp_path / "kept.toml"
    target.write_text("mine")
    result = CliRunner().invoke(application, ["convert", "pendulum", str(target)])
    assert isinstance(result.exception, tb.ModelFileError)
    assert "pass --force" in str(result.exception)
    assert target.read_text() == "mine"
    output_of("convert", "pendulum", target, "--force")
    assert tb.load(target) == tb.load("pendulum")


def test_convert_refuses_formats_it_cannot_write(tmp_path):
    """The message lists those it can."""
    result = CliRunner().invoke(application, ["convert", "pendulum", str(tmp_path / "a.sdf")])
    assert isinstance(result.exception, tb.ModelFileError)
    assert ".toml or .urdf" in str(result.exception)


def test_models_fit_a_narrow_terminal(monkeypatch):
    """Where the table has no room for descriptions, they follow their rows."""
    from rich.console import Console

    import tiburon.cli.console

    monkeypatch.setattr(tiburon.cli.console, "open_console", lambda: Console(width=80))
    lines = output_of("models", "four_bar").splitlines()
    assert max(len(line) for line in lines) <= 80
    row = next(number for number, line in enumerate(lines) if line.startswith("four_bar "))
    assert lines[row].split() == ["four_bar", "tree", "3", "4.5", "1"]
    assert lines[row + 1] == "  Crank, coupler and rocker: one loop, one degree of freedom"


URDF = """<robot name="hull"><link name="hull"><inertial><mass value="2.0"/>
<inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>"""


def test_urdf_files_float_on_request(tmp_path):
    file = tmp_path / "hull.urdf"
    file.write_text(URDF)
    assert json.loads(output_of("info", file, "--base", "free", "--json"))["nv"] == 6
    target = tmp_path / "hull.toml"
    output_of("convert", file, target, "--base", "free")
    assert tb.load(target).joint("base").kind == "free"
    result = CliRunner().invoke(application, ["info", "puma560", "--base", "free"])
    assert isinstance(result.exception, tb.ModelError)
    stored = ["simulate", "run.zarr", "--resume", "--base", "free"]
    assert CliRunner().invoke(application, stored).exit_code == 2
    output_of("simulate", file, "--base", "free", "-t", "0.02")
