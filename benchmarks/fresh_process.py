"""Run a task in a new Python process, for all that happens only once in a process."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.figure import MeasurementError

ROOT = Path(__file__).resolve().parent.parent


class FreshProcessError(MeasurementError):
    """A task that did not end well in its process."""


def run_fresh(
    task: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run one of `fresh_tasks` in a new process and wait for its answer.

    Args:
        task: Name of the task.
        arguments: Words for it.
        environment: Variables to set for it, beyond those of this process.

    Returns:
        What the task printed, read as JSON.

    Raises:
        FreshProcessError: If the process failed; with what it said.
    """
    variables = {**os.environ, **(environment or {})}
    # the sources of this checkout, whatever is installed and wherever we were started
    inherited = [variables["PYTHONPATH"]] if variables.get("PYTHONPATH") else []
    variables["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT), *inherited])
    # an installed package has its bytecode; without it every import would compile the sources
    variables["PYTHONDONTWRITEBYTECODE"] = ""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.fresh_tasks", task, *arguments],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise FreshProcessError(f"{task} {' '.join(arguments)}: {done.stderr.strip()}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def repeats(duration: float) -> int:
    """Choose how many processes to start; each gives one sample.

    Args:
        duration: Time to spend on each side where calls can be repeated [s].
    """
    return max(3, round(10 * duration))


def join_names(names: Sequence[str]) -> str:
    """Pack names into one word, for `run_fresh`."""
    return ",".join(names)
