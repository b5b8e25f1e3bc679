"""`tiburon validate`: options are checked before the work begins."""

import numpy as np
import pytest
from typer.testing import CliRunner

import tiburon as tb
from tiburon.cli.application import application
from tiburon.reproduce import pool
from tiburon.reproduce.pool_causes import Cause

RUNNER = CliRunner()


def run_of(folder):
    columns = [x[0] if isinstance(x, tuple) else x for x in pool.JOINTS.values()]
    time = 0.02 * np.arange(10)
    np.savez(
        folder / "run_001-0.npz",
        time=time,
        quaternion=np.tile([1.0, 0.0, 0.0, 0.0], (10, 1)),
        angular_velocity=np.zeros((10, 3)),
        joint_position=np.zeros((10, 4)),
        joint_names=np.array(columns),
    )


def test_a_replay_needs_a_page_and_a_run_that_exists(tmp_path):
    run_of(tmp_path)
    given = ["validate", "pool", "--data", str(tmp_path), "--replay"]
    answer = RUNNER.invoke(application, [*given, "run_001-0"])
    assert answer.exit_code == 2
    page = ["--html", str(tmp_path / "page.html")]
    answer = RUNNER.invoke(application, [*given, "run_009-0", *page])
    assert isinstance(answer.exception, tb.UnknownNameError)
    assert "run_001-0" in str(answer.exception)


def test_a_folder_without_runs_is_refused(tmp_path):
    answer = RUNNER.invoke(application, ["validate", "pool", "--data", str(tmp_path)])
    assert isinstance(answer.exception, tb.RunFileError)


@pytest.mark.parametrize(("pitch", "code"), [(0.09, 0), (0.11, 1)])
def test_the_exit_code_is_the_verdict(tmp_path, monkeypatch, pitch, code):
    """0 if all bounds are met, 1 if one is missed; the table says which."""
    run_of(tmp_path)
    rows = (
        pool.PoolRow("identified", 0.06, pitch, 0.3, 0.3),
        pool.PoolRow("identified, trimmed", 0.05, 0.07, 0.2, 0.2),
    )
    ringing = (pool.Ringing("run_005-1", 0.32, 0.33),)
    runs, causes = pool.load_pool(tmp_path), (Cause("height", 0.01, 0.01, "part", "why"),)
    table = pool.PoolTable(
        rows, (0.09, 0.07, 0.01, 0.02), ringing, {}, runs, {}, causes, (), None, 0.0, "other runs"
    )
    monkeypatch.setattr(pool, "validate_pool", lambda *_, **__: table)
    answer = RUNNER.invoke(application, ["validate", "pool", "--data", str(tmp_path)])
    assert answer.exception is None or isinstance(answer.exception, SystemExit)
    assert answer.exit_code == code
    line = next(text for text in answer.output.splitlines() if text.startswith("identified  "))
    assert line.rstrip().endswith("met" if code == 0 else "MISSED")
