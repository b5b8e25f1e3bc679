"""`tiburon validate`: options are checked before the work begins."""

import numpy as np
from typer.testing import CliRunner

import tiburon as tb
from tiburon.cli.application import application
from tiburon.reproduce import pool

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
