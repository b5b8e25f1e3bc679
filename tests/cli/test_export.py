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
