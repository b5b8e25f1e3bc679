"""`tiburon export`: C files that compile and print our numbers; refusals."""

import shutil
import subprocess

import numpy as np
import pytest
from typer.testing import CliRunner

import tiburon as tb
from tiburon.cli.application import application


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("name", ["panda", "quadruped"])
def test_the_example_prints_the_accelerations_of_the_robot(name, tmp_path):
    result = CliRunner().invoke(application, ["export", "c", name, str(tmp_path / "c")])
    assert result.exit_code == 0, result.output
    assert f"{name}_forward_dynamics" in result.output
    flags = ["-std=c99", "-O1", "-ffp-contract=off", "-march=native", "-Wall", "-Werror"]
    # of some calls not all results are used
    flags.append("-Wno-unused-variable")
    files = ["example.c", f"{name}.c"]
    subprocess.run(["cc", *flags, *files, "-o", "example", "-lm"], cwd=tmp_path / "c", check=True)
    printed = subprocess.run(
        [tmp_path / "c" / "example"], capture_output=True, text=True, check=True
    ).stdout
    model = tb.load(name)
    still = np.zeros(model.nv)
    expected = tb.forward_dynamics(model, model.neutral(), still, still)
    assert np.array(printed.split(), dtype=float).tobytes() == expected.tobytes()
    again = CliRunner().invoke(application, ["export", "c", name, str(tmp_path / "c")])
    assert again.exit_code != 0


def test_unknown_functions_and_taken_files_are_refused(tmp_path):
    words = ["export", "c", "panda", str(tmp_path), "--function", "fly"]
    assert CliRunner().invoke(application, words).exit_code != 0
    (tmp_path / "a.fmu").write_text("")
    words = ["export", "fmu", "panda", str(tmp_path / "a.fmu")]
    assert CliRunner().invoke(application, words).exit_code != 0


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_code_of_a_free_robot_in_water_is_written_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hull = tb.Inertia.box(mass=12.0, size=(0.6, 0.4, 0.2))
    fluid = tb.BodyFluid(volume=0.011, linear_damping=[2.0] * 3 + [30.0] * 3)
    vehicle = tb.Model("rov-1", [tb.Body("hull", joint=tb.Free("base"), inertia=hull, fluid=fluid)])
    tb.save(vehicle, "rov.toml")
    words = ["export", "c", "rov.toml", "--fluid", "current=0.3,0,0.1"]
    result = CliRunner().invoke(application, words)
    assert result.exit_code == 0, result.output
    flags = ["-std=c99", "-O1", "-ffp-contract=off", "-march=native"]
    files = ["example.c", "rov_1.c"]
    subprocess.run(["cc", *flags, *files, "-o", "a", "-lm"], cwd="rov_1-c", check=True)
    printed = subprocess.run(["rov_1-c/a"], capture_output=True, text=True, check=True).stdout
    water = tb.Water(current=(0.3, 0.0, 0.1))
    still = np.zeros(6)
    expected = tb.forward_dynamics(vehicle, vehicle.neutral(), still, still, fluid=water)
    assert np.array(printed.split(), dtype=float).tobytes() == expected.tobytes()
    # 12 kg less 11 kg of water sink, while the current pushes and lifts
    assert expected[3] > 0.1
    assert -1.0 < expected[5] < 1.0


def test_a_root_link_without_a_joint_may_be_free(tmp_path):
    text = """<robot name="box"><link name="hull"><inertial><mass value="2"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>"""
    (tmp_path / "box.urdf").write_text(text)
    words = ["export", "c", str(tmp_path / "box.urdf"), str(tmp_path / "c"), "--base", "free"]
    result = CliRunner().invoke(application, words)
    assert result.exit_code == 0, result.output
    assert "q[7]" in (tmp_path / "c" / "example.c").read_text()


def test_the_example_of_a_linkage_starts_in_its_closed_pose(tmp_path):
    result = CliRunner().invoke(application, ["export", "c", "four_bar", str(tmp_path)])
    assert result.exit_code == 0, result.output
    pose = next(iter(tb.load("four_bar").poses.values()))
    assert ", ".join(repr(float(x)) for x in pose) in (tmp_path / "example.c").read_text()
