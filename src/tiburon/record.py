"""Immutable records: frozen dataclasses that are quick to define and to make.

The standard decorator writes and compiles six methods for every class, about half a millisecond
each; with a hundred classes that is a quarter of the time from start to first result. Here only
the constructor is compiled, when it is first used, and it stores each field directly. All
else is as usual:
`fields`, `replace`, defaults, `__post_init__`, comparing and hashing by value, pickling, copying.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from types import MappingProxyType, MemberDescriptorType
from typing import Any, ClassVar, NoReturn, TypeVar, dataclass_transform, overload

__all__ = ["UNSAVED", "field", "named_line", "record"]

T = TypeVar("T")

UNSAVED = MappingProxyType({"saved": False})
"""Metadata of a field that files leave out: its value follows from other data."""

MAX_TEXT_LENGTH = 200
"""Characters that the text of a record has at most."""

MAX_SHOWN_LENGTH = 40
"""Characters of one field of a record whose text would be longer."""


@overload
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T], /) -> type[T]: ...


@overload
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(*, slots: bool = True, eq: bool = True) -> Callable[[type[T]], type[T]]: ...


def record(cls: type[Any] | None = None, /, *, slots: bool = True, eq: bool = True) -> Any:
    """Make a class an immutable record of its annotated fields, as `dataclass(frozen=True)` does.

    Args:
        cls: The class.
        slots: Whether instances have room for the fields only.
        eq: Whether instances compare, and hash, by value.
    """
    if cls is None:
        return lambda decorated: _make(decorated, slots, eq)
    return _make(cls, slots, eq)


def _make(cls: type[Any], slots: bool, eq: bool) -> type[Any]:
    written = set(cls.__dict__)
    if cls.__dict__.get("__hash__") is None:
        # Python itself puts None there when a class says how to compare
        written.discard("__hash__")
    found: dict[str, Field[Any]] = {}
    for base in cls.__mro__[:0:-1]:
        found |= vars(base).get("__dataclass_fields__", {})
    found |= _own_fields(cls)
    items = tuple(found.values())
    if slots:
        cls = _with_slots(cls, [item.name for item in items])
    by_place = [item.name for item in items if item.init and not item.kw_only]
    # where the standard functions look: `fields`, `replace`, the decorator of a subclass
    for name, mark in (("__dataclass_fields__", found), ("__dataclass_params__", _PARAMETERS)):
        setattr(cls, name, mark)
    cls.__doc__ = cls.__doc__ or cls.__name__
    made: dict[str, Any] = {
        "__init__": _LateConstructor(cls, items, slots),
        "__repr__": _representation(items),
        "__match_args__": tuple(by_place),
    }
    if eq:
        made |= _comparison([item.name for item in items if item.compare])
    if slots:
        made |= _state([item.name for item in items])
    if getattr(cls, "__setattr__", None) is not _refuse_setting:
        made |= {"__setattr__": _refuse_setting, "__delattr__": _refuse_deleting}
    for name, method in made.items():
        if name not in written:
            setattr(cls, name, method)
    return cls


@dataclass(frozen=True, init=False, repr=False, eq=False)
class _Sample:
    """A class of the standard decorator, whose marks records have."""

    item: None


_PARAMETERS = vars(_Sample)["__dataclass_params__"]


def _own_fields(cls: type[Any]) -> dict[str, Field[Any]]:
    """Return the fields that a class annotates itself, and put their defaults in their place."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations

        annotations = get_annotations(cls, format=Format.FORWARDREF)
    else:
        annotations = vars(cls).get("__annotations__", {})
    found: dict[str, Field[Any]] = {}
    for name, kind in annotations.items():
        written = kind.partition("[")[0] if isinstance(kind, str) else ""
        of_class = kind is ClassVar or getattr(kind, "__origin__", None) is ClassVar
        if of_class or written.endswith("ClassVar"):
            continue
        given: Any = getattr(cls, name, MISSING)
        if isinstance(given, MemberDescriptorType):
            # the slot of a base
            given = MISSING
        item: Any = given if isinstance(given, Field) else field(default=given)
        if item.default.__class__.__hash__ is None:
            raise ValueError(f"field {name}: expected an immutable default, got {item.default!r}")
        item.name, item.type, item._field_type = name, kind, _FIELD
        item.kw_only = item.kw_only is True
        if item.default is not MISSING:
            setattr(cls, name, item.default)
        elif name in vars(cls):
            delattr(cls, name)
        found[name] = item
    return found


_FIELD = fields(_Sample)[0]._field_type  # type: ignore[attr-defined]


def _with_slots(cls: type[Any], names: Sequence[str]) -> type[Any]:
    """Return a class with a slot for each field that its bases have none for."""
    content = dict(vars(cls))
    for name in (*names, "__dict__", "__weakref__"):
        content.pop(name, None)
    there = {name for base in cls.__mro__[1:] for name in vars(base).get("__slots__", ())}
    content["__slots__"] = tuple([name for name in names if name not in there])
    kind: Any = type(cls)
    made: type[Any] = kind(cls.__name__, cls.__bases__, content)
    return made


class _LateConstructor:
    """The constructor of a class until it is first looked up; most classes are never used."""

    def __init__(self, cls: type[Any], items: Sequence[Field[Any]], slots: bool) -> None:
        self.given = cls, items, slots

    def __get__(self, instance: Any, owner: type[Any]) -> Any:
        cls = self.given[0]
        if vars(cls)["__init__"] is self:
            type.__setattr__(cls, "__init__", _constructor(*self.given))
        return vars(cls)["__init__"].__get__(instance, owner)


class _Default:
    """Stands for a value that each instance makes for itself; signatures show such a value."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def __repr__(self) -> str:
        return repr(self.make())


def _constructor(cls: type[Any], items: Sequence[Field[Any]], slots: bool) -> Callable[..., None]:
    """Compile the one method whose speed counts."""
    names: dict[str, Any] = {"_put": object.__setattr__}
    by_place: list[str] = ["self"]
    by_name: list[str] = []
    lines: list[str] = []
    for item in items:
        name, value, argument = item.name, item.name, item.name
        if item.default_factory is not MISSING:
            names[f"_default_{name}"] = _Default(item.default_factory)
            value = f"_default_{name}.make()"
            if item.init:
                value = f"{value} if {name} is _default_{name} else {name}"
            argument = f"{name}=_default_{name}"
        elif item.default is not MISSING:
            names[f"_default_{name}"] = item.default
            value = name if item.init else f"_default_{name}"
            argument = f"{name}=_default_{name}"
        elif not item.init:
            # left to `__post_init__`
            continue
        if item.init:
            (by_name if item.kw_only else by_place).append(argument)
        if slots:
            # a slot stores its value without looking for a name
            names[f"_put_{name}"] = getattr(cls, name).__set__
            lines.append(f"  _put_{name}(self, {value})")
        else:
            lines.append(f"  _put(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        names["_explain"] = _explain
        lines += [
            "  try: self.__post_init__()",
            "  except Exception as error: _explain(self, error)",
        ]
    arguments = [*by_place, "*", *by_name] if by_name else by_place
    text = [
        f"def write({', '.join(names)}):",
        f" def __init__({', '.join(arguments)}):",
        *(lines or ["  pass"]),
        " return __init__",
    ]
    space: dict[str, Any] = {}
    exec("\n".join(text), {}, space)
    constructor: Callable[..., None] = space["write"](**names)
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    constructor.__annotations__ = {item.name: item.type for item in items if item.init}
    return constructor


def _explain(thing: Any, error: Exception) -> NoReturn:
    """Raise what was wrong with a field, where a check failed for a foreign reason."""
    from tiburon.arguments import about, annotations, mismatch

    given = {item.name: getattr(thing, item.name, None) for item in fields(thing) if item.init}
    found = about(error, mismatch(type(thing).__qualname__, annotations(type(thing)), given), given)
    if found is not None:
        raise found from error
    raise error


def _representation(items: Sequence[Field[Any]]) -> Callable[[Any], str]:
    shown = [item.name for item in items if item.repr]

    def __repr__(self: Any) -> str:
        return _line(type(self).__qualname__, {name: getattr(self, name) for name in shown})

    return __repr__


def named_line(given: Any) -> str:
    """Return a named tuple as one short line; the `__repr__` of results that are such tuples."""
    return _line(type(given).__qualname__, given._asdict())


def _line(kind: str, values: dict[str, Any]) -> str:
    """Return fields as one line: as the standard decorator does where that is short."""
    text = f"{kind}({', '.join([f'{name}={value!r}' for name, value in values.items()])})"
    if len(text) <= MAX_TEXT_LENGTH and "\n" not in text:
        return text
    text = f"{kind}({', '.join([f'{name}={_short(value)}' for name, value in values.items()])})"
    return text if len(text) <= MAX_TEXT_LENGTH else f"{text[: MAX_TEXT_LENGTH - 4]}...)"


def _short(value: Any) -> str:
    """Return a field of a long record: few characters, or what it is and its size."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"<{' x '.join(map(str, shape))} numbers>"
    text = " ".join(repr(value).split())
    if len(text) <= MAX_SHOWN_LENGTH:
        return text
    if isinstance(value, (tuple, list, dict)):
        return f"<{len(value)} entries>"
    return f"{text[: MAX_SHOWN_LENGTH - 3]}..."


def _comparison(names: Sequence[str]) -> dict[str, Callable[..., Any]]:
    # always a tuple, also of one field or none
    key: Callable[[Any], tuple[Any, ...]]
    if len(names) > 1:
        key = attrgetter(*names)
    else:

        def key(thing: Any) -> tuple[Any, ...]:
            return tuple([getattr(thing, name) for name in names])

    def __eq__(self: Any, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return key(self) == key(other)

    def __hash__(self: Any) -> int:
        return hash(key(self))

    return {"__eq__": __eq__, "__hash__": __hash__}


def _state(names: Sequence[str]) -> dict[str, Callable[..., Any]]:
    """Return how instances travel: the usual way would set attributes, which records refuse."""

    def __getstate__(self: Any) -> list[Any]:
        return [getattr(self, name) for name in names]

    def __setstate__(self: Any, state: list[Any]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return {"__getstate__": __getstate__, "__setstate__": __setstate__}


def _refuse_setting(self: Any, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deleting(self: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")
