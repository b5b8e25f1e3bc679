"""`tiburon sweep`: scripts in parts, status, checksums, exit codes."""

import json

import pytest
from typer.testing import CliRunner

from tests.parallel.studies import study
from tiburon.cli.application import application

SCRIPT = """
import sys
from tests.parallel.studies import study
found = study(sys.argv[1], workers=None)
print("shape", found.data.status.shape, sys.argv[2:])
"""


def command(*words):
    """Run the command in this process."""
    return CliRunner().invoke(application, ["sweep", *map(str, words)])


@pytest.fixture
def script(tmp_path):
    """Return a script with a sweep."""
    path = tmp_path / "study.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_is_run_in_parts(tmp_path, script):
    """Parts end where results are read; the script as a whole reads them."""
    store = tmp_path / "study.zarr"
    for k in (1, 2):
        found = command(script, "--part", f"{k}/2", "--workers", 0, store)
        assert found.exit_code == 0, found.output
        assert f"part {k}/2: 3 of 3 blocks" in found.output
        assert "shape" not in found.output
    found = command("--workers", 0, script, store, "more", "--words")
    assert found.exit_code == 0, found.output
    assert "shape (3, 7) ['more', '--words']" in found.output
    assert "6 of 6 blocks, 21 of 21 cases" in found.output


def test_a_budget_that_ended_is_told_by_the_exit_code(tmp_path, script):
    """Exit code 4, as for runs."""
    found = command(script, "--budget", 1e-9, "--workers", 0, tmp_path / "study.zarr")
    assert found.exit_code == 4
    assert "0 of 6 blocks" in found.output


def test_status_shows_how_far_a_sweep_is(tmp_path):
    """As a table and as JSON; damage is counted."""
    path = study(tmp_path / "study.zarr").path
    (path / "status/receipts/0/5.json").unlink()
    (path / "end_time/c/1").write_bytes(b"")
    found = command("status", path)
    assert found.exit_code == 0
    lines = dict(line.split(None, 1) for line in found.output.splitlines() if " " in line.strip())
    assert lines["blocks"].split() == ["4", "of", "6"]
    assert lines["cases"].startswith("16 of 21 (76.2%)")
    assert lines["outcomes"].strip() == "16 finished"
    assert lines["damaged"].startswith("1 blocks")
    data = json.loads(command("status", path, "--json").output)
    assert (data["blocks_done"], data["cases_done"], data["complete"]) == (4, 16, False)
    assert data["outcomes"] == {"finished": 16}


def test_verify_finds_damaged_blocks(tmp_path):
    """Exit code 1 and the numbers of the blocks."""
    path = study(tmp_path / "study.zarr").path
    assert command("verify", path).exit_code == 0
    chunk = path / "joint_position/c/3/0/0"
    content = bytearray(chunk.read_bytes())
    content[20] ^= 1
    chunk.write_bytes(content)
    found = command("verify", path)
    assert found.exit_code == 1
    assert "5 blocks match their receipts" in found.output


@pytest.mark.parametrize("part", ["0/3", "4/3", "3", "a/b", "1/"])
def test_wrong_parts_are_usage_errors(script, part):
    """Exit code 2."""
    assert command(script, "--part", part).exit_code == 2


def test_scripts_without_a_sweep_are_told(tmp_path):
    """Exit code 1."""
    path = tmp_path / "empty.py"
    path.write_text("print('hello')")
    assert command(path).exit_code == 1
    assert command(tmp_path / "none.py").exit_code == 2
