"""JSON encoding of headers, and of the robots, worlds, elements and plain data in them.

Values are restored bitwise. Records are written field by field and restored without running their
constructors: these would normalize axes once more, and reject the unusual inertias that robot files
do contain. Only classes of this package are restored, so that reading an untrusted file never runs
its code; functions cannot be written.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tiburon.actuation.contact_element import ContactElement
from tiburon.errors import RunFileError, TiburonError
from tiburon.model import Model, Water, World
from tiburon.results.header import Column, RunHeader
from tiburon.version import installed_version

PACKAGE = "tiburon."

PLAIN_TYPES: dict[str, tuple[type, ...]] = {
    "float": (float, int),
    "int": (int,),
    "str": (str,),
    "bool": (bool,),
    "None": (type(None),),
}
"""Types that a field may hold, by its annotation; fields of other annotations are not checked."""

MAX_CASES = 2**40
"""Most cases of a batch that a reader accepts."""

RESERVED_NAMES = {"time", "checkpoint"}
"""Arrays of every store, which no column may be named after."""

SETUP_TYPES: dict[str, tuple[type, ...]] = {
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
    "loop_method": (tuple,),
    "named": (dict,),
    "case_numbers": (np.ndarray,),
    "cuts": (tuple,),
}
"""Types of the keywords in a setup: all fields of `RunSetup` except model, world, elements and
control."""

SETUP_MINIMA = {
    "hold": 1,
    "steps": 0,
    "record_every": 1,
    "threads": 1,
    "dt": 5e-324,
    "begin": -math.inf,
    "redundancy_tolerance": 0.0,
}
"""Least values of some of these keywords."""


class NotDataError(TiburonError):
    """A value that no file can hold, such as a function; or a text that encodes no value."""


# -- values ----------------------------------------------------------------------------------------


def to_text(value: object) -> str:
    """Return a value as text.

    Raises:
        NotDataError: If it holds code.
    """
    return json.dumps(encode(value), separators=(",", ":"))


def from_text(text: str) -> Any:
    """Return the value that `to_text` wrote.

    Raises:
        NotDataError: If the text is incomplete, or names classes that do not exist here.
    """
    try:
        return decode(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise NotDataError(f"text of a value: not readable ({error})") from error


def is_data(value: object) -> bool:
    """Return whether a value can be written."""
    try:
        encode(value)
    except NotDataError:
        return False
    return True


def encode(value: Any) -> Any:
    """Return a value in terms of JSON types; a tuple becomes a plain list.

    Raises:
        NotDataError: If it holds code.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return encode(value.item())
    if isinstance(value, np.ndarray):
        return _encode_array(value)
    if isinstance(value, Model):
        return {"model": _encode_model(value)}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise NotDataError(f"{value!r}: keys of a saved dictionary must be texts")
        return {"dict": {key: encode(item) for key, item in value.items()}}
    if isinstance(value, list):
        return {"list": [encode(item) for item in value]}
    kind = type(value)
    named = isinstance(value, tuple) and hasattr(kind, "_fields")
    if isinstance(value, tuple) and not named:
        return [encode(item) for item in value]
    if kind.__module__.startswith(PACKAGE) and (named or is_dataclass(kind)):
        saved = () if named else (i for i in fields(kind) if i.metadata.get("saved", True))
        names = kind._fields if named else [item.name for item in saved]
        parts = {n: encode(getattr(value, n)) for n in names if hasattr(value, n)}
        return {"record": f"{kind.__module__}:{kind.__qualname__}", "fields": parts}
    raise NotDataError(
        f"a {kind.__name__} is code or unknown here, which no file can hold; give it again when "
        "the file is used"
    )


def decode(data: Any) -> Any:
    """Return the value that `encode` wrote.

    Raises:
        NotDataError: If there is no such value.
    """
    if isinstance(data, list):
        return tuple(decode(item) for item in data)
    if not isinstance(data, dict):
        return data
    match data:
        case {"dict": dict(items)}:
            return {key: decode(item) for key, item in items.items()}
        case {"list": list(items)}:
            return [decode(item) for item in items]
        case {"array": str(text), "dtype": str(dtype), "shape": list(shape)}:
            return _decode_array(text, dtype, shape)
        case {"model": dict(parts)}:
            return _decode_model(parts)
        case {"record": str(place), "fields": dict(values)}:
            return _decode_record(place, values)
    raise NotDataError(f"unknown kind of value: {str(data)[:60]}")


def _encode_array(value: Any) -> dict[str, Any]:
    if value.dtype.kind not in "biuf":
        raise NotDataError(f"an array of {value.dtype} cannot be written; give numbers")
    plain = np.ascontiguousarray(value)
    return {
        "array": base64.b64encode(plain.tobytes()).decode("ascii"),
        "dtype": plain.dtype.str,
        "shape": list(value.shape),
    }


def _decode_array(text: str, dtype: str, shape: list[int]) -> Any:
    try:
        kind = np.dtype(dtype)
        if kind.kind not in "biuf":
            raise NotDataError(f"an array of {dtype} is never written")
        content = base64.b64decode(text, validate=True)
        return np.frombuffer(content, kind).reshape(shape).copy()
    except (binascii.Error, TypeError, ValueError) as error:
        raise NotDataError(f"array: not readable ({error})") from error


def _encode_model(model: Model) -> dict[str, Any]:
    parts = model._parts._asdict()
    poses = parts.pop("poses")
    return {
        "name": model.name,
        "about": model.about,
        "movable": not model.immovable_joint_names,
        "poses": {name: encode(positions) for name, positions in poses},
        **{key: encode(value) for key, value in parts.items()},
    }


def _decode_model(data: dict[str, Any]) -> Model:
    given = dict(data)
    poses = {name: decode(positions) for name, positions in given.pop("poses").items()}
    return Model(poses=poses, **{key: decode(value) for key, value in given.items()})


def _decode_record(place: str, values: dict[str, Any]) -> Any:
    kind = _class_at(place)
    if not is_dataclass(kind):
        return kind(**{name: decode(value) for name, value in values.items()})
    found = object.__new__(kind)
    for item in fields(kind):
        if item.name in values:
            value = decode(values[item.name])
            _check_field(place, item, value)
        elif item.default is not MISSING:
            # a field that was added after the file was written
            value = item.default
        elif item.default_factory is not MISSING:
            value = item.default_factory()
        elif item.init:
            raise NotDataError(f"{place}: {item.name} is missing")
        else:
            continue
        object.__setattr__(found, item.name, value)
    return found


def _check_field(place: str, item: Any, value: Any) -> None:
    """Check the type of a plain field, since no constructor does.

    Raises:
        NotDataError: If a number, text or boolean is expected, and the value is not one.
    """
    annotation = item.type if isinstance(item.type, str) else getattr(item.type, "__name__", "")
    kinds = [PLAIN_TYPES.get(word) for word in annotation.split(" | ")]
    if None in kinds:
        return
    allowed = tuple(kind for some in kinds if some is not None for kind in some)
    if not _is_of_type(value, allowed):
        raise NotDataError(f"{place}: {item.name} must be {annotation}, got {str(value)[:60]!r}")


def _class_at(place: str) -> type[Any]:
    """Return a record class of this package by module and name."""
    module, _, name = place.partition(":")
    found: Any = None
    if module.startswith(PACKAGE) and name.isidentifier():
        try:
            found = getattr(import_module(module), name, None)
        except ImportError:
            found = None
    named = isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")
    if not isinstance(found, type) or not (named or is_dataclass(found)):
        raise NotDataError(f"{place}: no such class in this version of the package")
    return found


# -- headers ---------------------------------------------------------------------------------------


def header_to_text(header: RunHeader) -> str:
    """Return a header as text; of code, it holds only the names."""
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
    """Return the header that `header_to_text` wrote.

    Args:
        path: Path of the run, for messages.
        text: The text.
        model: The robot, for runs whose robot no file can hold.
        world: The surroundings, likewise.

    Raises:
        RunFileError: If the text is damaged, the robot is not in it, or `model` is another robot.
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
        around = _rebuilt(decode(data["world"])) if world is None else world
        header = RunHeader(
            decode(data["model"]) if model is None else model,
            around,
            tuple(data["batch"]),
            decode(data["columns"]),
            decode(data["setup"]),
            _on_ground(decode(data["elements"]), around),
            decode(data["case_parameters"]),
            tuple(data["missing"]),
        )
        _check_header(header)
        return header
    except RunFileError:
        raise
    except Exception as error:
        # records are restored without their constructors: damaged ones raise anything
        raise RunFileError(
            path,
            f"its header cannot be understood ({first_line(error)}); restore zarr.json from a "
            "copy, or update tiburon",
        ) from error


def _rebuilt(world: Any) -> Any:
    """Return a world built by its constructors, which `decode` does not call."""
    if not isinstance(world, World):
        return world
    fluid = replace(world.fluid) if isinstance(world.fluid, Water) else world.fluid
    ground = world.ground
    if ground is not None and ground.grid is not None:
        # code relies on the number of heights
        ground = replace(ground, grid=replace(ground.grid))
    return replace(world, fluid=fluid, ground=ground)


def _on_ground(elements: Any, world: Any) -> Any:
    """Return elements with the heights of the ground, which are saved with the world alone."""
    check_type("elements", elements, tuple)
    ground = world.ground if isinstance(world, World) else None
    return tuple(e.on(ground) if isinstance(e, ContactElement) else e for e in elements)


def _check_header(header: RunHeader) -> None:
    """Raise `ValueError` if parts of a header have wrong types, or are inconsistent."""
    model = header.model
    check_type("model", model, Model)
    # reads all parts of the model
    _robot_key(model)
    check_type("world", header.world, World, type(None))
    if header.world is not None:
        check_type("fluid", header.world.fluid, Water, type(None))
    for size in header.batch:
        check_type("batch", size, int)
    if not all(size >= 0 for size in header.batch) or math.prod(header.batch) > MAX_CASES:
        raise ValueError(f"batch must have up to {MAX_CASES} cases, got {header.batch}")
    check_type("columns", header.columns, tuple)
    for column in header.columns:
        check_column(column)
    names = [name for column in header.columns for name in {column.key, column.name}]
    if len(set(names)) < len(names) or RESERVED_NAMES & set(names):
        raise ValueError(f"columns must have unique names, got {names}")
    for key, count in (("q", model.nq), ("v", model.nv)):
        found = header.column(key)
        width = (0,) if found is None else found.width
        if width != (count,):
            raise ValueError(f"column {key!r} must have {count} entries, got {width}")
    check_type("setup", header.setup, dict)
    for name, kinds in SETUP_TYPES.items():
        value = header.setup.get(name)
        if value is None:
            continue
        check_type(name, value, *kinds)
        if name in SETUP_MINIMA and not SETUP_MINIMA[name] <= value < math.inf:
            raise ValueError(f"{name} must be at least {SETUP_MINIMA[name]}, got {value}")
    check_type("elements", header.elements, tuple)
    for element in header.elements:
        name = element if isinstance(element, str) else element.name
        check_type("name of an element", name, str)
    check_type("case_parameters", header.case_parameters, dict)
    for table in header.case_parameters.values():
        check_type("case_parameters", table, np.ndarray)
        if table.shape[:-1] != header.batch:
            raise ValueError(f"case_parameters must have the batch shape {header.batch}")
    for name in header.missing:
        check_type("missing", name, str)


def check_column(column: Any) -> None:
    """Raise `ValueError` if a value is not a column, or its name is not a plain directory name."""
    check_type("columns", column, Column)
    for text in (column.key, column.name, column.dimension, column.title):
        check_type("names of columns", text, str)
    if not re.fullmatch(r"\w[\w .:-]*", column.name):
        raise ValueError(f"a column must have a plain name, got {column.name[:40]!r}")
    units = column.units
    if column.labels is not None:
        check_type("labels", column.labels, tuple)
        for label in column.labels:
            check_type("labels", label, str)
    if isinstance(units, tuple):
        for unit in units:
            check_type("units", unit, str)
        if len(units) != math.prod(column.width):
            raise ValueError(f"column {column.name!r} must have as many units as labels")
    else:
        check_type("units", units, str)


def _robot_key(model: Model) -> str:
    """Return a text that is equal for robots with the same dynamics."""
    return blake2b(
        np.array(model.plan.parameters, dtype=np.float64).tobytes(), key=model.structure_key()[:64]
    ).hexdigest()


def _check_robot(path: Path, data: dict[str, Any], model: Model) -> None:
    """Check that a model is the robot of a run.

    Raises:
        RunFileError: If it is another one, whose parameters would give wrong energies and a wrong
            continuation.
    """
    # keys may differ between versions of the package
    known = data.get("robot_key") if data.get("tiburon") == installed_version() else None
    if known is not None and known != _robot_key(model):
        raise RunFileError(
            path,
            f"model= is robot {model.name!r}, the run is of {data['robot']!r}, and they differ in "
            "joints, places, masses, loops or functions; pass the robot that was simulated",
        )


# -- checks ----------------------------------------------------------------------------------------


def _is_of_type(value: Any, kinds: tuple[type, ...]) -> bool:
    """Return whether a value has one of some types; a boolean is not an integer here."""
    return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def check_type(name: str, value: Any, *kinds: type) -> Any:
    """Return a value after checking its type.

    Raises:
        ValueError: If it has none of the given types.
    """
    if not _is_of_type(value, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"{name} must be {wanted}, got {str(value)[:60]!r}")
    return value


def first_line(error: BaseException) -> str:
    """Return the message of an error as one line of bounded length."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
