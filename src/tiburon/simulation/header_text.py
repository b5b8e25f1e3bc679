"""What is known of a run before it starts, as text inside its file."""

import json
from pathlib import Path
from typing import Any

from tiburon.errors import RunFileError, TiburonError
from tiburon.model import Model, World
from tiburon.simulation.embedding import NotDataError, decode, encode, is_data
from tiburon.simulation.run_header import RunHeader

__all__ = ["header_from_text", "header_to_text"]


def header_to_text(header: RunHeader) -> str:
    """Return the text; what is code is only named in it."""
    held = {key: value for key, value in header.setup.items() if is_data(value)}
    return json.dumps(
        {
            "robot": header.model.name,
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
        RunFileError: If it cannot be understood, or the robot is not in it.
    """
    try:
        data: dict[str, Any] = json.loads(text)
        if model is None and data["model"] is None:
            raise RunFileError(
                path,
                f"robot {data['robot']!r} has parts that are code, which no file can hold; pass "
                "it as tiburon.load_run(..., model=robot)",
            )
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
