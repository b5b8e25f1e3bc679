"""JSON encoding of headers, and of the robots, worlds, elements and plain data in them.

Values are restored bitwise. Records are written field by field and restored by their constructors,
with all checks of these; a field that a constructor would normalize once more keeps its stored
bits. Only value classes of this package are restored, so that reading an untrusted file never runs
its code; functions cannot be written.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tiburon.actuation.contact_element import ContactElement
from tiburon.arguments import annotations, mismatch
from tiburon.contact.candidates import FIELDS
from tiburon.errors import ModelError, RunFileError, TiburonError, shown
from tiburon.loops.loop_method import LoopMethod
from tiburon.model import Body, Inertia, Model, Water, World
from tiburon.model.composition import changed
from tiburon.results.header import Column, RunHeader
from tiburon.version import installed_version

PACKAGE = "tiburon"

VALUE_ROOMS = (
    *("actuation", "contact", "control", "functions", "hydro", "load_sharing", "loops", "model"),
    *("results", "simulation", "spatial"),
)
"""Rooms whose records and named tuples files hold: values, whose constructors only check them."""

ROUNDING = 1e-9
"""Largest relative change of a stored number by a constructor that is taken for rounding."""

MAX_NAME_LENGTH = 40
"""Most characters of a name in the place of an error."""

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
    "loops": (LoopMethod,),
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
}
"""Least values of some of these keywords."""


class NotDataError(TiburonError):
    """A value that no file can hold, such as a function; or a text that encodes no value.

    Attributes:
        problem: What is wrong: the message without the place.
        place: Where in the value, such as "[0].thruster"; empty for the value itself.
    """

    def __init__(self, problem: str, place: str = "") -> None:
        """Compose the message of the attributes."""
        self.problem = problem
        self.place = place
        super().__init__(f"{place.removeprefix('.')}: {problem}" if place else problem)

    def inside(self, part: str) -> "NotDataError":
        """Return the error of a part of a value as that of the value."""
        return NotDataError(self.problem, f"{part}{self.place}")


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
    if _has_values(kind.__module__) and (named or is_dataclass(kind)):
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
        return tuple(_decode_items(data))
    if not isinstance(data, dict):
        return data
    match data:
        case {"dict": dict(items)}:
            return _decode_entries(items, "[{!r}]")
        case {"list": list(items)}:
            return _decode_items(items)
        case {"array": str(text), "dtype": str(dtype), "shape": list(shape)}:
            return _decode_array(text, dtype, shape)
        case {"model": dict(parts)}:
            return _decode_model(parts)
        case {"record": str(place), "fields": dict(values)}:
            return _decode_record(place, values)
    raise NotDataError(f"unknown kind of value: {str(data)[:60]}")


def decode_part(data: Mapping[str, Any], name: str) -> Any:
    """Return a value of a dictionary of encoded ones; an error names it.

    Raises:
        NotDataError: If there is no such value.
    """
    try:
        return decode(data[name])
    except NotDataError as error:
        raise error.inside(name) from error


def _decode_items(items: list[Any]) -> list[Any]:
    """Return the items of a sequence; an error names the index of its item."""
    found: list[Any] = []
    try:
        for item in items:
            found.append(decode(item))
    except NotDataError as error:
        raise error.inside(f"[{len(found)}]") from error
    return found


def _decode_entries(items: Mapping[str, Any], part: str = ".{}") -> dict[str, Any]:
    """Return values by name; an error names its entry, written as `part`."""
    found = {}
    for name, item in items.items():
        try:
            found[name] = decode(item)
        except NotDataError as error:
            raise error.inside(part.format(name[:MAX_NAME_LENGTH])) from error
    return found


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
    given = _decode_entries({"poses": {"dict": data.get("poses")}, **_without(data, "poses")})
    model: Model = _constructed("model", Model, given)
    return model


def _without(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


def _decode_record(place: str, values: dict[str, Any]) -> Any:
    kind = _class_at(place)
    what = kind.__name__
    if not is_dataclass(kind):
        given = _decode_entries(values)
        _check_annotations(kind, given)
        return _constructed(what, kind, given)
    # fields of later versions, and those that follow from others, are not read
    saved = {item.name: item for item in fields(kind) if item.metadata.get("saved", True)}
    given = _decode_entries({name: values[name] for name in saved if name in values})
    for item in saved.values():
        if item.name in given:
            _check_field(what, item, given[item.name])
        elif item.init and item.default is MISSING and item.default_factory is MISSING:
            raise NotDataError(f"{what}: {item.name} is missing")
    if not hasattr(kind, "__post_init__"):
        _check_annotations(kind, given)
    arguments = {name: value for name, value in given.items() if saved[name].init}
    found = _constructed(what, _body if kind is Body else kind, arguments)
    for name, value in given.items():
        _keep_bits(found, name, value)
    return found


def _constructed(what: str, make: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Call a constructor with values from a file.

    Raises:
        NotDataError: If it refuses them, for whatever reason.
    """
    try:
        return make(**given)
    except Exception as error:
        # values of any type and shape: constructors raise anything
        raise NotDataError(f"{what}: {first_line(error)}") from error


def _body(**given: Any) -> Body:
    """Return a body; a physically impossible inertia is kept, as readers of robot files do."""
    inertia = given.get("inertia")
    try:
        return Body(**given)
    except ModelError:
        if not isinstance(inertia, Inertia):
            raise
        return changed(Body(**_without(given, "inertia")), inertia=inertia)


def _keep_bits(made: Any, name: str, stored: Any) -> None:
    """Restore the stored bits of a field that a constructor normalized once more.

    Raises:
        NotDataError: If the constructor made another value of the stored one.
    """
    value = getattr(made, name)
    if value is stored:
        return
    if _is_near(value, stored):
        object.__setattr__(made, name, stored)
    elif not _is_equal(value, stored):
        what = type(made).__name__
        raise NotDataError(f"{what}: {name} must be {shown(value)}, got {shown(stored)}")


def _is_near(value: Any, stored: Any) -> bool:
    """Return whether two values have the same types and differ by rounding at most."""
    if type(value) is not type(stored):
        return False
    if isinstance(value, (tuple, list)):
        pairs = zip(value, stored, strict=False)
        return len(value) == len(stored) and all(_is_near(a, b) for a, b in pairs)
    if isinstance(value, float):
        error = abs(value - stored)
        return bool(value == stored or error <= ROUNDING * max(1.0, abs(value)))
    return _is_equal(value, stored)


def _is_equal(value: Any, stored: Any) -> bool:
    if isinstance(value, np.ndarray) or isinstance(stored, np.ndarray):
        return np.array_equal(value, stored)
    return bool(value == stored)


def _check_field(what: str, item: Any, value: Any) -> None:
    """Check the type of a plain field, which not all constructors do.

    Raises:
        NotDataError: If a number, text or boolean is expected, and the value is not one.
    """
    annotation = item.type if isinstance(item.type, str) else getattr(item.type, "__name__", "")
    kinds = [PLAIN_TYPES.get(word) for word in annotation.split(" | ")]
    if None in kinds:
        return
    allowed = tuple(kind for some in kinds if some is not None for kind in some)
    if not _is_of_type(value, allowed):
        raise NotDataError(f"{what}: {item.name} must be {annotation}, got {shown(value)}")


def _check_annotations(kind: type[Any], given: Mapping[str, Any]) -> None:
    """Check the fields of a class whose constructor checks nothing.

    Raises:
        NotDataError: If one does not match its annotation.
    """
    hints: Mapping[str, Any] = _hints(kind)  # type: ignore[arg-type]
    if error := mismatch(kind.__name__, hints, given):
        raise NotDataError(str(error))


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    """Return the annotations of a class of this package; checkpoints hold many of one class."""
    return annotations(kind)


def _class_at(place: str) -> type[Any]:
    """Return a value class of this package by module and name."""
    module, _, name = place.partition(":")
    found: type[Any] | None = None
    if _has_values(module) and name.isidentifier():
        try:
            found = getattr(import_module(module), name, None)
        except ImportError:
            found = None
    if (
        not isinstance(found, type)
        or found.__module__ != module
        or not (is_dataclass(found) or (issubclass(found, tuple) and hasattr(found, "_fields")))
    ):
        raise NotDataError(f"{place[:80]}: no such class in this version of the package")
    return found


def _has_values(module: str) -> bool:
    """Return whether the records of a module are values, whose constructors only check them."""
    package, _, rest = module.partition(".")
    return package == PACKAGE and rest.partition(".")[0] in VALUE_ROOMS


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
        around = decode_part(data, "world") if world is None else world
        header = RunHeader(
            decode_part(data, "model") if model is None else model,
            around,
            tuple(data["batch"]),
            decode_part(data, "columns"),
            decode_part(data, "setup"),
            _on_ground(decode_part(data, "elements"), around),
            decode_part(data, "case_parameters"),
            tuple(data["missing"]),
        )
        _check_header(header)
        return header
    except RunFileError:
        raise
    except Exception as error:
        # damaged texts raise anything
        raise RunFileError(
            path,
            f"its header cannot be understood ({first_line(error)}); restore zarr.json from a "
            "copy, or update tiburon",
        ) from error


def _on_ground(elements: Any, world: Any) -> Any:
    """Return elements with the heights of the ground, which are saved with the world alone."""
    check_type("elements", elements, tuple)
    ground = world.ground if isinstance(world, World) else None
    if ground is None or ground.grid is None:
        for element in elements:
            parts = element.candidates if isinstance(element, ContactElement) else ()
            if any(part.second.kind in FIELDS for part in parts):
                raise ValueError(f"{element.name} is on uneven ground, which world has not")
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
