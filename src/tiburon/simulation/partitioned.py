"""Runs of a robot in parts: options they do not support, and the session of this process.

A partition and its exchanges belong to the room of processes above this one. A run in parts is an
ordinary run in each of the processes; the partition starts it, with its session in
`CURRENT_SESSION`.
"""

import hashlib
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

import numpy as np

from tiburon.errors import ModelError, OptionError, shown
from tiburon.loops.stabilization import PROJECTION
from tiburon.model import Model
from tiburon.results.trajectory import Trajectory
from tiburon.simulation.compatibility import refuse_method
from tiburon.simulation.execution import Execution
from tiburon.simulation.integrators.integrator import Integrator

CURRENT_SESSION: ContextVar[Any] = ContextVar("CURRENT_SESSION", default=None)
"""The parts that this process computes in the run that it starts; None for undivided robots."""

ADDRESS_PARAMETERS = ("tables", "partition")
"""Run-time parameters that hold addresses, which differ between processes."""

UNSUPPORTED_OPTIONS = {
    "prescribed": "prescribed joints are computed undivided",
    "parameters": "parts are cut from one robot; change it with Model.replace, and cut it again",
}
"""Options of runs that parts cannot honor, and why."""


def run_in_parts(
    model: Model,
    execution: Execution,
    options: Mapping[str, Any],
    call: Callable[[], Trajectory],
) -> Trajectory:
    """Carry out a run in parts.

    Args:
        model: The robot.
        execution: Its parts, and how processes exchange messages.
        options: Options of the run by name.
        call: Starts the run in this process, with `CURRENT_SESSION` set.

    Raises:
        OptionError: If an option has no meaning in parts.
        ModelError: If the parts are not those of the robot.
    """
    check_parts(model, execution, options)
    method = options.get("method")
    found: Trajectory = execution.partition.run(
        execution.exchange,
        call,
        options.get("loops", PROJECTION),
        isinstance(method, Integrator) and method.is_adaptive,
    )
    return found


def check_parts(model: Model, execution: Execution, options: Mapping[str, Any]) -> None:
    """Refuse what has no meaning in parts; arguments as of `run_in_parts`.

    Raises:
        OptionError: If an option has no meaning in parts.
        ModelError: If the parts are not those of the robot.
    """
    partition = execution.partition
    if not callable(getattr(partition, "run", None)):
        raise ModelError(
            f"partition: expected what tiburon.partition returns, got {shown(partition)}"
        )
    if partition.model != model:
        raise ModelError(
            f"partition: is that of another robot ({partition.model.name!r}), got model "
            f"{model.name!r}; cut this one with tiburon.partition",
            name=model.name,
        )
    for name, reason in UNSUPPORTED_OPTIONS.items():
        if options.get(name) is not None:
            raise OptionError(f"{name} with partition", ("None",), f"one: {reason}")
    method = options.get("method")
    if isinstance(method, Integrator):
        refuse_method(method, "a partition")


def run_digest(setup: Any, system: Any, checkpoint: Any) -> str:
    """Return a text that differs between processes unless they start the same run."""
    numbers = (setup.begin, setup.dt, setup.steps, setup.record_every, setup.rtol, setup.atol)
    options = (setup.method, setup.adaptive, setup.hold, checkpoint.step, *numbers)
    return digest_of(system, options, checkpoint.arrays)


def digest_of(system: Any, options: tuple[Any, ...], arrays: Mapping[str, Any]) -> str:
    """Return a text that differs between processes with another system, options or start."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(system.key.encode())
    digest.update(repr(options).encode())
    parameters = {k: x for k, x in system.parameters().items() if k not in ADDRESS_PARAMETERS}
    for name, values in (*sorted(parameters.items()), *sorted(arrays.items())):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def refuse_batch(batch: tuple[int, ...]) -> None:
    """Refuse several cases: their messages would be as many."""
    if batch:
        raise ModelError(
            f"partition: a robot in parts is one case, got a batch of shape {batch}; run cases one "
            "by one, or undivided with threads, or as a sweep"
        )
