"""Robots, worlds, elements and plain data as JSON text, exact to the last bit.

Run files hold what was simulated beside its motion. Records are written field by field and restored
without running their constructors: these would normalize axes once more, and refuse the odd inertia
that robot files do contain. Only classes of this package are restored, so that reading a stranger's
file never runs code of theirs; functions cannot be written.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np

from tiburon.errors import TiburonError
from tiburon.model import Model

__all__ = ["NotDataError", "decode", "encode", "from_text", "is_data", "to_text"]

PACKAGE = "tiburon."

PLAIN: dict[str, tuple[type, ...]] = {
    "float": (float, int),
    "int": (int,),
    "str": (str,),
    "bool": (bool,),
    "None": (type(None),),
}
"""Annotations of fields that hold plain values, and what they may be."""


class NotDataError(TiburonError):
    """A value that no file can hold, such as a function; or a text that holds no value."""


def to_text(value: object) -> str:
    """Return a value as text.

    Raises:
        NotDataError: If it holds code.
    """
    return json.dumps(encode(value), separators=(",", ":"))


def from_text(text: str) -> Any:
    """Return the value that `to_text` wrote.

    Raises:
        NotDataError: If the text is not whole, or speaks of classes that do not exist here.
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
    """Return a value in terms of what JSON has; a tuple is a plain list there.

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
        names = kind._fields if named else [item.name for item in fields(kind)]
        parts = {n: encode(getattr(value, n)) for n in names if hasattr(value, n)}
        return {"record": f"{kind.__module__}:{kind.__qualname__}", "fields": parts}
    raise NotDataError(
        f"a {kind.__name__} is code or unknown here, which no file can hold; give it again when "
        "the file is used"
    )


def decode(data: Any) -> Any:
    """Return the value that `encode` gave.

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
            raise NotDataError(f"an array of {dtype} was never written")
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
            _check_kind(place, item, value)
        elif item.default is not MISSING:
            # a field that came after the file was written
            value = item.default
        elif item.default_factory is not MISSING:
            value = item.default_factory()
        elif item.init:
            raise NotDataError(f"{place}: {item.name} is missing")
        else:
            continue
        object.__setattr__(found, item.name, value)
    return found


def _check_kind(place: str, item: Any, value: Any) -> None:
    """Refuse a plain value of another kind than its field: no constructor would.

    Raises:
        NotDataError: If a number, text or truth value is expected, and the value is not one.
    """
    annotation = item.type if isinstance(item.type, str) else getattr(item.type, "__name__", "")
    kinds = [PLAIN.get(word) for word in annotation.split(" | ")]
    if None in kinds:
        return
    allowed = tuple(kind for some in kinds if some is not None for kind in some)
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
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
