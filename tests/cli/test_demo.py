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
    words = ["demo", "--duration", "3.0", "--output", str(directory)]
    result = CliRunner().invoke(application, words)
    assert result.exit_code == 0, result.output
    return result.output, directory


def test_demo_writes_the_figures_it_names(demonstration):
    """Each named file is a PNG image."""
    output, directory = demonstration
    for name in ("station.png", "arm.png", "energy.png"):
        assert f"wrote {directory / name}" in output
        assert (directory / name).read_bytes().startswith(PNG)


def test_demo_writes_a_page_that_replays_it(demonstration):
    output, directory = demonstration
    assert f"wrote {directory / 'replay.html'}" in output
    page = (directory / "replay.html").read_text()
    assert "Station keeping in a current" in page


def test_demo_holds_its_place_and_follows_its_path(demonstration):
    """Within centimeters and a degree, in a current that would carry it more than a meter."""
    output, _ = demonstration
    stray, lag = re.findall(
        r"largest error: vehicle position (\S+) mm, arm joints (\S+) degrees", output
    )[0]
    assert 0.0 < float(stray) < 50.0
    assert 0.0 < float(lag) < 1.0


def test_demo_accounts_for_its_energy(demonstration):
    """Work is energy and drag, as well as sums over rows of 1 ms can tell."""
    output, _ = demonstration
    (gap,) = re.findall(r"relative residual (\S+)", output)
    assert 0.0 < float(gap) < 1e-4


@pytest.mark.parametrize("words", [["--step", "-1"], ["--step", "1"], ["--duration", "0"]])
def test_demo_refuses_invalid_parameters(words):
    """A step or duration out of range is a usage error, before anything is computed."""
    result = CliRunner().invoke(application, ["demo", *words])
    assert result.exit_code == 2
    assert words[0] in result.output
