"""`tiburon hydro`: what it prints and writes, and how it fails."""

import json

import pytest
from typer.testing import CliRunner

import tiburon as tb
from tiburon.cli.application import application


def run(*words):
    return CliRunner().invoke(application, ["hydro", *(str(word) for word in words)])


def test_coefficients_and_their_quality_are_shown_and_written(tmp_path):
    """The table grades each number; the file holds them."""
    target = tmp_path / "wet.toml"
    result = run("panda", target)
    assert result.exit_code == 0, result.output
    assert "guessed" in result.output or "fitted" in result.output
    assert f"wrote {target}" in result.output.replace("\n", "")
    written, shipped = tb.load(target), tb.load("panda")
    assert any(body.fluid for body in written.bodies)
    assert written.with_fluids({b.name: None for b in written.bodies}) == shipped


def test_bodies_with_coefficients_keep_them():
    output = run("tiburon_titan").output
    assert output.count("has coefficients already") == 9
    assert "has coefficients already" not in run("tiburon_titan", "--overwrite").output


def test_json_lists_every_body():
    found = json.loads(run("remus100", "--json", "--overwrite", "--density", "1000").output)
    assert found["density"] == 1000.0
    (body,) = found["bodies"]
    assert body["estimated"]
    assert body["quality"]["volume"] in ("exact", "fitted", "guessed")
    assert len(body["added_mass"]) == 6


def test_only_native_files_are_written_and_none_is_replaced(tmp_path):
    assert isinstance(run("panda", tmp_path / "wet.urdf").exception, tb.ModelFileError)
    target = tmp_path / "wet.toml"
    target.write_text("mine")
    with pytest.raises(tb.ModelFileError, match="exists already"):
        raise run("panda", target).exception
    assert target.read_text() == "mine"
    assert run("panda", target, "--force").exit_code == 0
