"""`tiburon demo` simulates right, says where its figures are, and draws them."""

import re

import pytest
from typer.testing import CliRunner

from tiburon.cli.application import application

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory):
    """Run a short demo once; return its output and its directory."""
    directory = tmp_path_factory.mktemp("demo") / "new" / "figures"
    words = ["demo", "--duration", "1.0", "--output", str(directory)]
    result = CliRunner().invoke(application, words)
    assert result.exit_code == 0, result.output
    return result.output, directory


def test_demo_writes_the_figures_it_names(demonstration):
    """Each named file is a PNG image."""
    output, directory = demonstration
    for name in ("joint_angles.png", "energy_error.png"):
        assert f"wrote {directory / name}" in output
        assert (directory / name).read_bytes().startswith(PNG)


def test_demo_conserves_energy(demonstration):
    """The error it reports is that of a fourth-order method at 1 ms: small, and not zero."""
    output, _ = demonstration
    (error,) = re.findall(r"largest energy error: (\S+)", output)
    # (rate times step)^4 with joint rates up to 20 rad/s and a step of 1 ms
    assert 0.0 < float(error) < 0.02**4


@pytest.mark.parametrize("words", [["--step", "-1"], ["--step", "1"], ["--duration", "0"]])
def test_demo_refuses_impossible_numbers(words):
    """A step or duration out of range is a usage error, before anything is computed."""
    result = CliRunner().invoke(application, ["demo", *words])
    assert result.exit_code == 2
    assert words[0] in result.output
