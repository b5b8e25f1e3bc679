"""Keys made without tracing, from values and classes of this package.

Compiled code is found by a key. Where everything that determines the code is data of this package,
the data are the key: that is cheap, and the same in every process. User code has no such key: two
functions with the same name, text or `repr` may compute different things, because of what they
close over, a global or another function. It is keyed by its traced graph alone.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType
from typing import Any

import numpy as np

__all__ = [
    "Identical",
    "by_identity",
    "is_declared",
    "replaced_names",
    "structure_text",
    "undeclared_in",
]

_OURS = __name__.partition(".")[0]
_LEAVES = (type(None), bool, int, float, complex, str, bytes, slice, range)
_METHODS = (FunctionType, property, classmethod, staticmethod)

_NEUTRAL = frozenset(
    {
        *("__module__", "__qualname__", "__doc__", "__annotations__", "__dict__", "__weakref__"),
        *("__slots__", "__firstlineno__", "__static_attributes__", "__annotate_func__"),
        *("__annotations_cache__", "__init__", "__new__", "__post_init__", "__init_subclass__"),
        *("__repr__", "__str__", "__eq__", "__hash__", "__setattr__", "__delattr__", "_abc_impl"),
        *("__getstate__", "__setstate__", "__replace__", "__dataclass_fields__", "__match_args__"),
        *("__dataclass_params__", "__abstractmethods__", "__parameters__", "__orig_bases__"),
    }
)
"""What a class may have of its own without acting differently from what it is derived from."""


def is_declared(thing: object) -> bool:
    """Return whether an object is determined by data of this package.

    False for user code: functions, instances of their classes, instances of classes of
    this package whose methods were replaced, and everything that holds such a thing.
    """
    return _declared(thing, {})


def _declared(thing: object, known: dict[type, bool]) -> bool:
    kind = type(thing)
    if kind in _LEAVES:
        return True
    if kind is tuple or kind is list or kind is frozenset or kind is set:
        # mostly rows of numbers
        return all(type(x) is float or _declared(x, known) for x in thing)  # type: ignore[attr-defined]
    if kind is dict or kind is MappingProxyType:
        return all(_declared(x, known) for pair in thing.items() for x in pair)  # type: ignore[attr-defined]
    if kind is np.ndarray:
        return thing.dtype != object  # type: ignore[attr-defined,no-any-return]
    if isinstance(thing, (np.generic, np.dtype)):
        return _root(kind) == "numpy"
    if isinstance(thing, type):
        return _declared_class(thing, known)
    if kind is FunctionType:
        cells = thing.__closure__ or ()  # type: ignore[attr-defined]
        return _shipped_function(thing) and all(_declared(c.cell_contents, known) for c in cells)
    if kind is MethodType:
        owner, function = thing.__self__, thing.__func__  # type: ignore[attr-defined]
        return _shipped_function(function) and _declared(owner, known)
    if kind is BuiltinFunctionType or isinstance(thing, np.ufunc):
        return True
    if _root(kind) != _OURS or not _declared_class(kind, known):
        return False
    own = getattr(thing, "__dict__", None)
    if own and any(_shadows(kind, name) for name in own):
        return False
    answer = getattr(thing, "is_declared", None)
    if answer is not None:
        return bool(answer)
    return all(_declared(value, known) for _, value in _held(thing))


def _root(thing: Any) -> str:
    return str(getattr(thing, "__module__", "") or "").partition(".")[0]


def _shipped_function(function: Any) -> bool:
    """Return whether a function came with this package or with Python."""
    # what `record` and named tuples write is of no module, or of one made up for it
    root = _root(function)
    return (
        root in (_OURS, "", "numpy")
        or root.startswith("namedtuple_")
        or root in sys.stdlib_module_names
    )


def _declared_class(kind: type, known: dict[type, bool]) -> bool:
    """Return whether a class and all it is derived from are as they were shipped."""
    found = known.get(kind)
    if found is None:
        found = known[kind] = all(
            _root(base) in (_OURS, "numpy") or _root(base) in sys.stdlib_module_names
            for base in kind.__mro__
        ) and all(
            _shipped_function(method)
            for base in kind.__mro__
            if _root(base) == _OURS
            for method in vars(base).values()
            if type(method) is FunctionType
        )
    return found


def _shadows(kind: type, name: str) -> bool:
    """Return whether an attribute of an instance hides a method or property of its class."""
    for base in kind.__mro__:
        if name in vars(base):
            return isinstance(vars(base)[name], _METHODS)
    return False


def _held(thing: object) -> Iterator[tuple[str, Any]]:
    """Give the fields of a record, or all attributes of another object, by name."""
    if dataclasses.is_dataclass(thing):
        for item in dataclasses.fields(thing):
            yield item.name, getattr(thing, item.name, None)
        return
    if isinstance(thing, tuple):
        yield from zip(map(str, range(len(thing))), thing, strict=True)
        return
    for base in type(thing).__mro__:
        for name in np.atleast_1d(vars(base).get("__slots__", ())):
            if name not in ("__dict__", "__weakref__") and hasattr(thing, str(name)):
                yield str(name), getattr(thing, str(name))
    for name, value in getattr(thing, "__dict__", {}).items():
        # what is worked out when asked for follows from the rest
        if not isinstance(getattr(type(thing), name, None), functools.cached_property):
            yield name, value


def replaced_names(thing: object) -> list[str]:
    """Return what users replaced of a class of this package: methods, properties and fields.

    Empty for its own instances, and for those of derived classes that only add to it.
    """
    kind = type(thing)
    ours = [base for base in kind.__mro__ if _root(base) == _OURS]
    names = {
        name
        for base in kind.__mro__
        if _root(base) != _OURS and _root(base) not in sys.stdlib_module_names
        for name in vars(base)
        if name not in _NEUTRAL
    }
    names |= {name for name in getattr(thing, "__dict__", {}) if _shadows(kind, name)}
    replaced = [n for n in names if n.startswith("__") or any(hasattr(b, n) for b in ours)]
    return sorted(replaced)


def _plain_record(value: object, known: dict[type, bool]) -> bool:
    """Return whether fields tell all that an object of this package does."""
    kind = type(value)
    if _root(kind) == _OURS:
        return _declared_class(kind, known)
    return any(_root(base) == _OURS for base in kind.__mro__) and not replaced_names(value)


def undeclared_in(thing: object, apart: type | None = None) -> Iterator[object]:
    """Give what is of classes that users derived from those of this package, in a thing's fields.

    Args:
        thing: A record.
        apart: A class whose instances are left out, with all they hold.
    """
    kind = type(thing)
    if kind in _LEAVES or (apart is not None and isinstance(thing, apart)):
        return
    if kind is tuple or kind is list:
        for part in thing:  # type: ignore[attr-defined]
            if type(part) is not float:
                yield from undeclared_in(part, apart)
    elif isinstance(thing, Mapping):
        for part in thing.values():
            yield from undeclared_in(part, apart)
    elif dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        if _root(kind) != _OURS:
            yield thing
        for _, part in _held(thing):
            yield from undeclared_in(part, apart)


class Identical:
    """A key for one very thing: equal to itself alone, whatever the thing compares by."""

    __slots__ = ("thing",)

    def __init__(self, thing: Any) -> None:
        """Hold the thing, so that its `id` stays its own."""
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identical) and other.thing is self.thing

    def __hash__(self) -> int:
        return id(self.thing)


def by_identity(thing: Any) -> Any:
    """Return a key for work on an object: its value if it is declared, else its identity."""
    return thing if is_declared(thing) else Identical(thing)


def structure_text(value: object) -> str:
    """Return a text that is equal exactly if two declared values are.

    Raises:
        TypeError: If a value is not declared, so that no text determines it.
    """
    parts: list[str] = []
    _write(value, parts.append, {})
    return "".join(parts)


def _write(value: Any, put: Any, known: dict[type, bool]) -> None:
    kind = type(value)
    if kind is float or isinstance(value, float):
        put(float.__repr__(value))
    elif kind is str or kind is bytes or kind is bool or value is None or kind is complex:
        put(repr(value))
    elif kind is int or isinstance(value, (int, np.integer)):
        put(int.__repr__(int(value)))
    elif isinstance(value, (np.bool_, str)):
        put(repr(bool(value) if isinstance(value, np.bool_) else str(value)))
    elif isinstance(value, np.ndarray) and value.dtype != object:
        put(f"array {value.dtype.str} {value.shape} {value.tobytes().hex()}")
    elif kind is tuple or kind is list:
        put("(")
        for part in value:
            _write(part, put, known)
            put(",")
        put(")")
    elif kind is slice:
        _write((value.start, value.stop, value.step), put, known)
    elif isinstance(value, Mapping) and kind in (dict, MappingProxyType):
        put("{")
        for key, part in value.items():
            _write(key, put, known)
            put(":")
            _write(part, put, known)
            put(",")
        put("}")
    elif isinstance(value, (set, frozenset)):
        texts = sorted(structure_text(part) for part in value)
        put(f"{{{','.join(texts)}}}")
    elif isinstance(value, type) and _declared_class(value, known):
        put(f"{value.__module__}.{value.__qualname__}")
    elif _plain_record(value, known):
        # a class that users derived and changed nothing in stands for the one it is derived from
        kind = next(base for base in kind.__mro__ if _root(base) == _OURS)
        put(f"{kind.__module__}.{kind.__qualname__}(")
        for _, part in _held(value):
            _write(part, put, known)
            put(",")
        put(")")
    else:
        raise TypeError(
            f"a key cannot hold {kind.__module__}.{kind.__qualname__}: only its traced graph "
            "determines what it computes"
        )
