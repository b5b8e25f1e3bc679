"""What is known of a run before it starts, as text inside its file."""

import json
import math
import re
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from tiburon.errors import RunFileError
from tiburon.model import Model, Water, World
from tiburon.results.embedding import decode, encode, is_data
from tiburon.results.run_header import Column, RunHeader
from tiburon.results.store_guard import first_line
from tiburon.version import installed_version

__all__ = ["header_from_text", "header_to_text"]

MOST_CASES = 2**40
"""Most cases of a batch that a reader accepts."""

RESERVED = {"time", "checkpoint"}
"""Arrays of every store."""

SETUP: dict[str, tuple[type, ...]] = {
    "method": (str,),
    "adaptive": (bool,),
    "hold": (int,),
    "steps": (int,),
    "record_every": (int,),
    "threads": (int,),
    "rtol": (float, int),
    "atol": (float, int),
    "dt": (float, int),
    "begin": (float, int),
    "record": (tuple,),
    "sensors": (tuple,),
    "events": (tuple,),
    "parameters": (dict,),
    "redundancy_tolerance": (float, int),
    "named": (dict,),
}
"""Keywords with which a run was started, and what they are: all that `RunSetup` holds beside robot,
surroundings, elements and controller."""

LEAST = {
    "hold": 1,
    "steps": 0,
    "record_every": 1,
    "threads": 1,
    "dt": 5e-324,
    "begin": -math.inf,
    "redundancy_tolerance": 0.0,
}
"""Least values of some of them."""


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
        header = RunHeader(
            decode(data["model"]) if model is None else model,
            _rebuilt(decode(data["world"])) if world is None else world,
            tuple(data["batch"]),
            decode(data["columns"]),
            decode(data["setup"]),
            decode(data["elements"]),
            decode(data["case_parameters"]),
            tuple(data["missing"]),
        )
        _check(header)
        return header
    except RunFileError:
        raise
    except Exception as error:
        # records are restored without their constructors: whatever damage makes of them
        raise RunFileError(
            path,
            f"what it says of robot and run cannot be understood ({first_line(error)}); restore "
            "zarr.json from a copy, or update tiburon",
        ) from error


def _rebuilt(world: Any) -> Any:
    """Return a world made by its constructors, which restoring does not call."""
    if not isinstance(world, World):
        return world
    fluid = replace(world.fluid) if isinstance(world.fluid, Water) else world.fluid
    return replace(world, fluid=fluid)


def _check(header: RunHeader) -> None:
    """Raise `ValueError` if parts of a header are not of their kinds, or do not fit together."""
    model = header.model
    _need("model", model, Model)
    # goes through all of its parts
    _robot_key(model)
    if header.world is not None:
        _need("world", header.world, World)
        if header.world.fluid is not None:
            _need("fluid", header.world.fluid, Water)
    for size in header.batch:
        _need("batch", size, int)
    if not all(size >= 0 for size in header.batch) or math.prod(header.batch) > MOST_CASES:
        raise ValueError(f"batch must have up to {MOST_CASES} cases, got {header.batch}")
    _need("columns", header.columns, tuple)
    for column in header.columns:
        _check_column(column)
    names = [name for column in header.columns for name in {column.key, column.name}]
    if len(set(names)) < len(names) or RESERVED & set(names):
        raise ValueError(f"columns must have names of their own, got {names}")
    for key, count in (("q", model.nq), ("v", model.nv)):
        found = header.column(key)
        width = (0,) if found is None else found.width
        if width != (count,):
            raise ValueError(f"column {key!r} must have {count} numbers, got {width}")
    _need("setup", header.setup, dict)
    for name, kinds in SETUP.items():
        value = header.setup.get(name)
        if value is not None:
            _need(name, value, *kinds)
        if name in LEAST and value is not None and not LEAST[name] <= value < math.inf:
            raise ValueError(f"{name} must be at least {LEAST[name]}, got {value}")
    _need("elements", header.elements, tuple)
    for element in header.elements:
        _need("name of an element", element if isinstance(element, str) else element.name, str)
    _need("case_parameters", header.case_parameters, dict)
    for table in header.case_parameters.values():
        _need("case_parameters", table, np.ndarray)
        if table.shape[:-1] != header.batch:
            raise ValueError(f"case_parameters must be those of {header.batch} cases")
    for name in header.missing:
        _need("missing", name, str)


def _check_column(column: Any) -> None:
    """Raise `ValueError` if a column is not one, or its name is no plain name of a directory."""
    _need("columns", column, Column)
    for text in (column.key, column.name, column.dimension, column.title):
        _need("names of columns", text, str)
    if not re.fullmatch(r"\w[\w .:-]*", column.name):
        raise ValueError(f"a column must have a plain name, got {column.name[:40]!r}")
    units = column.units
    if column.labels is not None:
        _need("labels", column.labels, tuple)
        for label in column.labels:
            _need("labels", label, str)
    if isinstance(units, tuple):
        for unit in units:
            _need("units", unit, str)
        if len(units) != math.prod(column.width):
            raise ValueError(f"column {column.name!r} must have as many units as labels")
    else:
        _need("units", units, str)


def _need(name: str, value: Any, *kinds: type) -> None:
    """Raise `ValueError` if a value is of no kind that it may have."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"{name} must be {wanted}, got {str(value)[:60]!r}")


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
