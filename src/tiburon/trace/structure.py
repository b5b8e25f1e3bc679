"""Nested values as a flat list of scalars and a structure, and back.

Regions take and return scalars, arrays, tuples, lists, dicts, named tuples and dataclasses of them.
A structure is hashable: two values with equal structures differ only in their scalars, so a
function traced for one serves the other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tiburon.errors import TraceError
from tiburon.record import record
from tiburon.trace.array import TracedArray
from tiburon.trace.value import Value

_NUMBERS = (float, np.floating, np.integer)


@record
class Structure:
    """The structure of a nested value, without its scalars.

    Attributes:
        kind: "number", "truth", "array", "sequence", "named", "dict", "record" or "static".
        form: Depends on the kind: shape, type, keys, field names or the static object itself.
        parts: Structures of the parts, in order.
    """

    kind: str
    form: Any = None
    parts: tuple[Structure, ...] = ()


class _Static:
    """A static object: compared by identity, plain Python values by equality."""

    __slots__ = ("thing",)

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def _mark(self) -> Any:
        plain = isinstance(self.thing, (str, bytes, int, float, bool, type(None)))
        return (type(self.thing), self.thing) if plain else id(self.thing)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and self._mark() == other._mark()

    def __hash__(self) -> int:
        return hash(self._mark())

    def __repr__(self) -> str:
        return repr(self.thing)


def flatten(value: Any, *, numeric: bool = False) -> tuple[list[Any], Structure]:
    """Take a nested value apart.

    Args:
        value: Floats, traced values, arrays, and tuples, lists, dicts or dataclasses of them.
        numeric: Whether every part must be numeric, as in the state of a loop. Otherwise Python
            integers, strings and other objects are static: part of the structure.

    Returns:
        The scalars in order, and the structure.

    Raises:
        TraceError: If `numeric` and a part is not numeric.
    """
    leaves: list[Any] = []
    return leaves, _take(value, leaves, numeric, inside_record=False)


def _take(value: Any, leaves: list[Any], numeric: bool, inside_record: bool) -> Structure:
    if isinstance(value, Value):
        leaves.append(value)
        return Structure("truth" if value.graph.is_boolean(value.node) else "number")
    if isinstance(value, (bool, np.bool_)):
        if not numeric:
            return Structure("static", _Static(bool(value)))
        leaves.append(bool(value))
        return Structure("truth")
    if isinstance(value, _NUMBERS) or (numeric and isinstance(value, int)):
        # the zeros and ones in a transform are its pattern, and must stay open to folding
        if inside_record and not numeric and value in (0.0, 1.0, -1.0):
            return Structure("static", _Static(float(value)))
        leaves.append(float(value))
        return Structure("number")
    if isinstance(value, np.ndarray) and (value.dtype == object or value.dtype.kind in "fiub"):
        if value.ndim == 0:
            return _take(value[()], leaves, numeric, inside_record)
        return _take_array(value, leaves)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if numeric or _holds_traced(value):
            names = tuple(item.name for item in dataclasses.fields(value) if item.init)
            return _parts(
                "record", (type(value), names), [getattr(value, n) for n in names], leaves, numeric
            )
        return Structure("static", _Static(value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _parts("named", type(value), list(value), leaves, numeric, inside_record)
    if isinstance(value, (tuple, list)):
        kind = tuple if isinstance(value, tuple) else list
        return _parts("sequence", kind, list(value), leaves, numeric, inside_record)
    if isinstance(value, dict):
        return _parts("dict", tuple(value), list(value.values()), leaves, numeric, inside_record)
    if numeric and value is not None:
        raise TraceError(
            f"the state of a loop holds {type(value).__name__}; it must be made of numbers, "
            "arrays, and tuples, lists, dicts or dataclasses of them"
        )
    return Structure("static", _Static(value))


def _take_array(array: Any, leaves: list[Any]) -> Structure:
    flat = array.view(np.ndarray).reshape(-1)
    if array.dtype != object:
        leaves.extend(float(number) for number in flat)
        return Structure("array", array.shape)
    for element in flat:
        if isinstance(element, Value):
            truth = element.graph.is_boolean(element.node)
            leaves.append(
                Value(element.graph, element.graph.to_float(element.node)) if truth else element
            )
        else:
            leaves.append(float(element))
    return Structure("array", array.shape)


def _parts(
    kind: str,
    form: Any,
    values: list[Any],
    leaves: list[Any],
    numeric: bool,
    inside_record: bool = True,
) -> Structure:
    parts = tuple(_take(value, leaves, numeric, inside_record) for value in values)
    return Structure(kind, form, parts)


def _holds_traced(value: Any) -> bool:
    if isinstance(value, (Value, TracedArray)):
        return True
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return any(_holds_traced(getattr(value, f.name)) for f in dataclasses.fields(value))
    if isinstance(value, dict):
        return any(_holds_traced(part) for part in value.values())
    if isinstance(value, (tuple, list)):
        return any(_holds_traced(part) for part in value)
    return isinstance(value, np.ndarray) and value.dtype == object


def rebuild(structure: Structure, leaves: Iterator[Any]) -> Any:
    """Rebuild a nested value from its structure and its scalars."""
    return _BUILD[structure.kind](structure, leaves)


def _build_array(structure: Structure, leaves: Iterator[Any]) -> Any:
    size = int(np.prod(structure.form, dtype=int))
    numbers = [next(leaves) for _ in range(size)]
    if any(isinstance(number, Value) for number in numbers):
        array = np.empty(size, dtype=object)
        array[:] = numbers
        return array.reshape(structure.form).view(TracedArray)
    return np.array(numbers, dtype=np.float64).reshape(structure.form)


def _rebuilt_parts(structure: Structure, leaves: Iterator[Any]) -> list[Any]:
    return [rebuild(part, leaves) for part in structure.parts]


_BUILD: dict[str, Callable[[Structure, Iterator[Any]], Any]] = {
    "number": lambda structure, leaves: next(leaves),
    "truth": lambda structure, leaves: next(leaves) != 0.0,
    "static": lambda structure, leaves: structure.form.thing,
    "array": _build_array,
    "sequence": lambda structure, leaves: structure.form(_rebuilt_parts(structure, leaves)),
    "named": lambda structure, leaves: structure.form(*_rebuilt_parts(structure, leaves)),
    "dict": lambda structure, leaves: dict(
        zip(structure.form, _rebuilt_parts(structure, leaves), strict=True)
    ),
    "record": lambda structure, leaves: structure.form[0](
        **dict(zip(structure.form[1], _rebuilt_parts(structure, leaves), strict=True))
    ),
}
