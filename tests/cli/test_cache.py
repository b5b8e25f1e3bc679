"""`tiburon cache` shows and empties the cache it is pointed at, and nothing else."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tiburon.cli.application import application

COMPILE_ONE = """
import tiburon as tb
rod = tb.Inertia.cylinder(1.0, 0.05, 1.0, com=(0, 0, -0.5))
body = tb.Body("rod", joint=tb.Revolute("pivot", axis=(0, 1, 0)), inertia=rod)
tb.forward_dynamics(tb.Model("pendulum", bodies=[body]), [0.3], [1.0], [0.0])
"""


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """Point the cache to an empty directory."""
    monkeypatch.setenv("TIBURON_CACHE_DIR", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


def output_of(*words):
    """Run a subcommand that must succeed and return what it prints."""
    result = CliRunner().invoke(application, ["cache", *words])
    assert result.exit_code == 0, result.output
    return result.output


def test_path_follows_the_environment(directory):
    """TIBURON_CACHE_DIR decides where kernels are kept."""
    assert str(directory) in output_of("path")


def test_empty_cache_is_shown_as_empty(directory):
    """A cache that was never written is no error."""
    assert output_of("size") == "0 kernels, 0 B\n"
    assert "no kernels" in output_of("list")
    assert output_of("clear").startswith("removed 0 kernels")


def test_compiled_kernels_appear_and_can_be_removed(directory):
    """What another process compiled is listed, counted, and gone after `clear`."""
    subprocess.run([sys.executable, "-c", COMPILE_ONE], check=True)
    assert not output_of("size").startswith("0 kernels")
    listed = output_of("list")
    assert listed.split("\n")[0].split() == ["kernel", "size", "used"]
    assert "forward_dynamics" in listed
    output_of("clear")
    assert output_of("size") == "0 kernels, 0 B\n"
