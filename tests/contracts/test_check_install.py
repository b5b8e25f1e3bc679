"""The check of oldest and newest versions reads what `pyproject.toml` says."""

import sys

import pytest

from tools.check_install import interpreters, least_python, pinned_to_oldest, requirements


def test_every_requirement_has_a_lower_bound_that_can_be_installed():
    """A bound that is not there cannot be checked, so each has one."""
    pinned = pinned_to_oldest(requirements())
    assert len(pinned) == len(requirements())
    assert all("==" in line for line in pinned)
    names = {line.partition("==")[0] for line in pinned}
    assert {"numpy", "llvmlite", "typer", "mujoco", "viser"} <= names


def test_the_lower_bound_becomes_the_version():
    """Other bounds give way, markers stay."""
    assert pinned_to_oldest(["a>=1.2", "b-c>=3,<4; os_name == 'nt'"]) == [
        "a==1.2",
        "b-c==3; os_name == 'nt'",
    ]
    with pytest.raises(ValueError, match="expected 'package>=version', got 'a'"):
        pinned_to_oldest(["a"])


def test_interpreters_come_from_the_path(monkeypatch, tmp_path):
    """Those on PATH that are new enough, by version; nothing is found where there is none."""
    version = sys.version_info[:2]
    program = tmp_path / f"python3.{version[1]}"
    program.symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert interpreters() in ({version: str(program)}, {})
    assert version >= least_python()
    program.unlink()
    assert interpreters() == {}
