"""Wrong arguments: which one it is, what was expected, what was given.

Public functions and constructors check what they are given where they use it. Whatever slips
through fails somewhere inside, in words of Python or NumPy. `public` looks at the arguments then,
and only then: the one that is not what its annotation says is named in an `ArgumentError`. A call
that succeeds is never looked at and costs nothing more.
"""

import inspect
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

from tiburon.errors import (
    ArgumentError,
    DomainError,
    ModelError,
    OptionError,
    ShapeError,
    TiburonError,
    refuse_masked,
)

__all__ = [
    "about",
    "at_least",
    "caller_level",
    "check_signature",
    "choice",
    "explained",
    "fail",
    "is_named",
    "is_numeric",
    "mismatch",
    "positive",
    "public",
    "shown",
    "vector",
]

Function = TypeVar("Function", bound=Callable[..., Any])

LONGEST = 80
"""How many characters of a value a message shows."""

LOOKED_AT = 200
"""How many elements of a collection are looked at."""


def public(function: Function) -> Function:
    """Mark a public function: where it fails, say which of its arguments is wrong."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            found = explained(function, args, kwargs, error)
            if found is None:
                raise
            raise found from error

    return typing.cast(Function, call)


def fail(
    function: Callable[..., Any], error: Exception, *args: Any, **kwargs: Any
) -> typing.NoReturn:
    """Raise what `public` would: for functions whose short way no wrapper may lengthen."""
    found = explained(function, args, kwargs, error)
    if found is None:
        raise error
    raise found from error


def explained(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], error: Exception
) -> ArgumentError | None:
    """Return what was wrong with the arguments of a call that failed; None if nothing was.

    Args:
        function: What was called.
        args: By place.
        kwargs: By name.
        error: What it raised.
    """
    if not isinstance(error, TiburonError) and _is_of_user(error, function):
        return None
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError:
        # too many arguments, or a name that there is not: Python says it best
        return None
    given: dict[str, Any] = {}
    for name, value in bound.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            given |= value
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            # the annotation is that of each
            given.update((name, item) for item in value[:1])
        elif name not in ("self", "cls"):
            given[name] = value
    where = function.__qualname__.removesuffix(".__init__").lstrip("_")
    return about(error, mismatch(where, function, given), given)


def about(
    error: Exception, found: ArgumentError | None, given: Iterable[str]
) -> ArgumentError | None:
    """Return what to raise instead of an error; None where it stays, with the argument named.

    Args:
        error: What was raised.
        found: The argument that is not what it should be; None if all are.
        given: Names of all arguments.
    """
    # what a function was given may fail in another one that it calls
    if found is None or not isinstance(error, TiburonError) or isinstance(error, ArgumentError):
        return found
    text = str(error)
    if not any(is_named(name, text) for name in given):
        error.args = (f"{text} (argument {found.argument!r})", *error.args[1:])
    return None


def is_named(argument: str, text: str) -> bool:
    """Return whether a message names an argument: as written, in words, or as one of several."""
    plain = argument.replace("_", " ")
    forms = (argument, plain, argument.removesuffix("s"), plain.removesuffix("s"))
    return any(re.search(rf"\b{re.escape(form)}", text) for form in forms)


def _is_of_user(error: Exception, function: Callable[..., Any]) -> bool:
    """Return whether an error was raised in code of the user's, such as a controller."""
    import sysconfig

    own = inspect.unwrap(function).__code__
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_code is own:
        return False
    # code that was compiled names its source by a relative path, its module by a real one
    frame = trace.tb_frame
    file = str(frame.f_globals.get("__file__") or frame.f_code.co_filename)
    installed = tuple(sysconfig.get_paths().values())
    return not file.startswith(("<", os.path.dirname(__file__), *installed))


def check_signature(
    function: Callable[..., Any], what: str, takes: tuple[str, ...], *, advice: str
) -> None:
    """Raise an error if a function cannot be called with some arguments in order.

    Args:
        function: The function.
        what: Leads the message: which element, and which function of it.
        takes: What it is called with, as names for the message.
        advice: What to write.

    Raises:
        ModelError: If it takes other arguments.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # functions of other languages do not tell
        return
    try:
        signature.bind(*takes)
    except TypeError:
        own = ", ".join(str(parameter) for parameter in signature.parameters.values())
        raise ModelError(
            f"{what}: expected a function of ({', '.join(takes)}), got one of ({own}); {advice}"
        ) from None


def mismatch(
    where: str, annotated: Callable[..., Any] | type, given: Mapping[str, Any]
) -> ArgumentError | None:
    """Return the first argument that is not what its annotation says; None if all are.

    Args:
        where: Name of the function or class, for the message.
        annotated: What has the annotations.
        given: Arguments by name.
    """
    hints = _hints(annotated)
    for name, value in given.items():
        if name in hints and not _fits(hints[name], value):
            return ArgumentError(where, name, _words(hints[name]), shown(value))
    return None


def positive(argument: str, value: object, unit: str = "") -> float:
    """Return a finite number above zero, or name the argument that is none.

    Raises:
        DomainError: If it is none.
    """
    unit = f" [{unit}]" if unit else ""
    if not _is_number(value) or not 0.0 < float(value) < float("inf"):  # type: ignore[arg-type]
        raise DomainError(argument, f"a finite number above 0{unit}", shown(value))
    return float(value)  # type: ignore[arg-type]


def at_least(argument: str, value: object, least: int) -> int:
    """Return a whole number that is not below a bound, or name the argument that is none.

    Raises:
        DomainError: If it is none.
    """
    if not _is_whole(value) or int(value) < least:  # type: ignore[call-overload]
        raise DomainError(argument, f"a whole number of at least {least}", shown(value))
    return int(typing.cast(int, value))


def vector(argument: str, value: object, size: int, *, spread: bool = False) -> Any:
    """Return an array of numbers of one dimension, or name the argument that is none.

    Args:
        argument: Its name.
        value: Anything NumPy can read.
        size: How many numbers there must be.
        spread: Whether one number may stand for all.

    Raises:
        ShapeError: If there are more or less, or if these are no numbers.
    """
    import numpy as np

    refuse_masked(argument, value)
    array = np.asarray(value, dtype=np.float64) if is_numeric(value) else None
    if array is not None and spread and array.ndim == 0:
        array = np.full(size, array)
    if array is None or array.shape != (size,):
        raise ShapeError(argument, f"{size} numbers", shown(value))
    return array


def choice(argument: str, value: object, choices: Sequence[Any]) -> None:
    """Raise `OptionError` unless a value is one of some words; arrays never are."""
    if not any(type(value) is type(word) and value == word for word in choices):
        raise OptionError(argument, choices, value)


def caller_level() -> int:
    """Return the level of the nearest caller outside this package, as `warnings.warn` takes it."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None:
        # generated constructors have no module
        module = str(frame.f_globals.get("__name__", "tiburon"))
        if module.partition(".")[0] != "tiburon":
            break
        frame, level = frame.f_back, level + 1
    return level


def shown(value: object) -> str:
    """Return a value as one short line."""
    try:
        text = repr(value)
    except Exception:
        text = object.__repr__(value)
    text = " ".join(text.split())
    if len(text) <= LONGEST:
        return text
    kind = type(value).__name__
    size = f" of length {len(value)}" if isinstance(value, (list, tuple, dict, set, str)) else ""
    shape = getattr(value, "shape", None)
    size = f" of shape {shape}" if isinstance(shape, tuple) else size
    return f"a {kind}{size}, {text[: LONGEST // 2]}..."


def _hints(annotated: Any) -> dict[str, Any]:
    """Return annotations by name, those that cannot be evaluated left out."""
    try:
        return {**_declared(annotated), **typing.get_type_hints(annotated)}
    except Exception:
        found = _declared(annotated)
        module = inspect.getmodule(annotated)
        for name, hint in getattr(annotated, "__annotations__", {}).items():
            if isinstance(hint, str):
                try:
                    hint = eval(hint, {}, _Names(vars(module) if module else {}))
                except Exception:
                    continue
            found[name] = hint
        return found


class _Names(dict[str, Any]):
    """Names of a module, and those that only type checkers import: public ones."""

    def __missing__(self, name: str) -> Any:
        if name in sys.modules:
            return sys.modules[name]
        try:
            return getattr(sys.modules["tiburon"], name)
        except AttributeError:
            raise KeyError(name) from None


def _declared(annotated: Any) -> dict[str, Any]:
    """Return the annotations of a signature that was written out, such as shared keywords."""
    listed = getattr(annotated, "__signature__", None)
    if listed is None:
        return {}
    found = {x.name: x.annotation for x in listed.parameters.values()}
    return {
        k: v
        for k, v in found.items()
        if v is not inspect.Parameter.empty and not isinstance(v, str)
    }


def _fits(hint: Any, value: Any) -> bool:
    """Return whether a value is what an annotation says, as far as that can be told."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, TypeVar):
        hint = hint.__bound__ or Any
        origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if hint is None or hint is type(None):
        return value is None
    if origin is typing.Annotated:
        return _fits(parts[0], value)
    if origin in (typing.Union, types.UnionType):
        plain = [part for part in parts if not _is_array_part(part)]
        if len(plain) < len(parts):
            # what NumPy reads as an array is a union of its own, with text among it
            plain = [part for part in plain if part not in (str, bytes, complex, bool, float, int)]
            return is_numeric(value) or any(_fits(part, value) for part in plain)
        return any(_fits(part, value) for part in parts)
    if origin is typing.Literal:
        return any(type(value) is type(part) and value == part for part in parts)
    if hint is float:
        return _is_number(value)
    if hint is int:
        return _is_whole(value)
    if hint is bool:
        return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")
    if origin is Callable or hint is Callable or hint is typing.Callable:
        return callable(value)
    return _fits_class(origin or hint, parts, value)


def _fits_class(kind: Any, parts: tuple[Any, ...], value: Any) -> bool:
    """Return whether a value is of a class, with elements of others."""
    import numpy as np

    if not isinstance(kind, type):
        return True
    if issubclass(kind, np.ndarray):
        return isinstance(value, np.ndarray) and is_numeric(value)
    if issubclass(kind, Mapping):
        if not isinstance(value, Mapping):
            return False
        keys, values = parts if len(parts) == 2 else (Any, Any)
        listed = list(value.items())[:LOOKED_AT]
        return all(_fits(keys, k) and _fits(values, v) for k, v in listed)
    if kind is not str and issubclass(kind, Iterable) and kind.__module__ in _COLLECTIONS:
        return _fits_collection(kind, parts, value)
    if getattr(kind, "_is_protocol", False):
        wanted = {*getattr(kind, "__annotations__", {}), *vars(kind)}
        return all(hasattr(value, name) for name in wanted if not name.startswith("_"))
    return isinstance(value, kind)


_COLLECTIONS = ("builtins", "collections.abc", "typing")


def _fits_collection(kind: type, parts: tuple[Any, ...], value: Any) -> bool:
    """Return whether a value is a list, tuple or other collection of what it should hold."""
    import numpy as np

    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        return False
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return False
    if isinstance(value, (set, frozenset)) and issubclass(kind, Sequence):
        return False
    if not isinstance(value, (Sequence, set, frozenset, np.ndarray)):
        # an iterator: looking would use it up
        return kind is not tuple
    plain = parts and isinstance(parts[0], type) and not issubclass(parts[0], (int, float))
    if isinstance(value, np.ndarray) and plain:
        # arrays hold numbers; elements of other kinds come in lists
        return False
    listed = list(value)[:LOOKED_AT]
    if not parts:
        return True
    if issubclass(kind, tuple) and parts[-1] is not Ellipsis:
        return len(listed) == len(parts) and all(map(_fits, parts, listed))
    return all(_fits(parts[0], item) for item in listed)


_ARRAY_PARTS = ("_SupportsArray", "_NestedSequence", "_Buffer", "Buffer")


def _is_array_part(part: Any) -> bool:
    kind = typing.get_origin(part) or part
    return getattr(kind, "__name__", "") in _ARRAY_PARTS


def _is_number(value: Any) -> bool:
    import numpy as np

    if isinstance(value, (bool, np.bool_, str, bytes, complex)):
        return False
    if isinstance(value, int):
        return abs(value) < 10**300
    return isinstance(value, (float, np.floating, np.integer)) or (
        isinstance(value, np.ndarray) and value.ndim == 0 and is_numeric(value)
    )


def _is_whole(value: Any) -> bool:
    import numpy as np

    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        return False
    return abs(int(value)) < 2**63


def is_numeric(value: Any) -> bool:
    """Return whether NumPy reads a value as real numbers, none of them masked."""
    import numpy as np

    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        return False
    try:
        array = np.asarray(value)
    except Exception:
        return False
    if array.dtype.kind == "O":
        # traced values are objects to NumPy, and numbers too large for it
        return isinstance(value, np.ndarray) and type(value) is not np.ndarray
    return array.dtype.kind in "biuf"


def _words(hint: Any) -> str:
    """Return what an annotation asks for, in words."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint is None or hint is type(None):
        return "None"
    if origin in (typing.Union, types.UnionType):
        arrays = [part for part in parts if _is_array_part(part)]
        scalars = (str, bytes, complex, bool, float, int) if arrays else ()
        found = ["numbers"] if arrays else []
        found += [_words(part) for part in parts if part not in scalars and part not in arrays]
        found = list(dict.fromkeys(found))
        return found[0] if len(found) == 1 else ", ".join(found[:-1]) + f" or {found[-1]}"
    if origin is typing.Literal:
        return " or ".join(map(repr, parts))
    simple = {float: "a number", int: "a whole number", bool: "True or False", str: "text"}
    if hint in simple:
        return simple[hint]
    if origin is Callable or hint is Callable:
        return "a function"
    kind = origin or hint
    if isinstance(kind, type):
        if kind.__name__ == "ndarray":
            return "an array of numbers"
        if issubclass(kind, Mapping):
            return "a dict" + (f" of {_words(parts[1])} by {_words(parts[0])}" if parts else "")
        if issubclass(kind, Iterable) and kind.__module__ in _COLLECTIONS:
            fixed = issubclass(kind, tuple) and parts and parts[-1] is not Ellipsis
            if fixed:
                return f"{len(parts)} of {_words(parts[0])}"
            return "a sequence" + (f" of {_words(parts[0])}" if parts else "")
        return f"a {kind.__name__}"
    return str(hint).replace("typing.", "")
