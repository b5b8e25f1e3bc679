"""What is known of a run before it starts, as text inside its file."""

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

from tiburon.errors import RunFileError, TiburonError
from tiburon.model import Model, World
from tiburon.simulation.embedding import NotDataError, decode, encode, is_data
from tiburon.simulation.run_header import RunHeader
from tiburon.version import installed_version

__all__ = ["header_from_text", "header_to_text"]


def header_to_text(header: RunHeader) -> str:
    """Return the text; what is code is only named in it."""
    held = {key: value for key, value in header.setup.items() if is_data(value)}
    return json.dumps(
        {
            "robot": header.model.name,
            "robot_key": _robot_key(header.model),
            "tiburon": installed_version(),
            "model": encode(header.model) if is_data(header.model) else None,
            "world": encode(header.world) if is_data(header.world) else None,
            "elements": encode(tuple(e if is_data(e) else e.name for e in header.elements)),
            "case_parameters": encode(header.case_parameters),
            "batch": list(header.batch),
            "columns": encode(header.columns),
            "setup": encode(held),
            "missing": sorted(set(header.setup) - set(held)),
        }
    )


def header_from_text(
    path: Path, text: str, model: Model | None = None, world: World | None = None
) -> RunHeader:
    """Return what a text says.

    Args:
        path: The run, for messages.
        text: What `header_to_text` gave.
        model: The robot, for runs whose robot no file can hold.
        world: What surrounds it, likewise.

    Raises:
        RunFileError: If it cannot be understood, the robot is not in it, or the one that is given
            is another.
    """
    try:
        data: dict[str, Any] = json.loads(text)
        if model is None and data["model"] is None:
            raise RunFileError(
                path,
                f"robot {data['robot']!r} has parts that are code, which no file can hold; pass "
                "it as tiburon.load_run(..., model=robot)",
            )
        if model is not None:
            _check_robot(path, data, model)
        return RunHeader(
            decode(data["model"]) if model is None else model,
            decode(data["world"]) if world is None else world,
            tuple(data["batch"]),
            decode(data["columns"]),
            decode(data["setup"]),
            decode(data["elements"]),
            decode(data["case_parameters"]),
            tuple(data["missing"]),
        )
    except RunFileError:
        raise
    except (NotDataError, TiburonError, ValueError, KeyError, TypeError) as error:
        raise RunFileError(
            path, f"what it says of robot and run cannot be understood ({error}); update tiburon"
        ) from error


def _robot_key(model: Model) -> str:
    """Return a text that is equal for robots that move alike."""
    return blake2b(model.parameters().tobytes(), key=model.structure_key()[:64]).hexdigest()


def _check_robot(path: Path, data: dict[str, Any], model: Model) -> None:
    """Refuse a robot that is not the one of the run.

    Raises:
        RunFileError: If it is another: the run would go on, and its energies would be told, with
            numbers that are not its own.
    """
    # what keys are made of may change from version to version
    known = data.get("robot_key") if data.get("tiburon") == installed_version() else None
    if known is not None and known != _robot_key(model):
        raise RunFileError(
            path,
            f"model= is robot {model.name!r}, the run is of {data['robot']!r}, and they differ in "
            "joints, places, masses, loops or functions; pass the robot that was simulated",
        )
