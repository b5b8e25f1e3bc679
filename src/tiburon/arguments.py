"""Failed public calls: which argument is wrong, what was expected, what was given.

Public functions and constructors check their arguments where they use them (`argument_checks.py`).
Whatever passes these checks fails somewhere inside with an error of Python or NumPy. Only then does
`public` compare the arguments with their annotations and raise an `ArgumentError` that names the
one that does not match; where all do, an error of ours names all that were given, with the cause. A
call that succeeds is not inspected and costs nothing more. On a class, `public` marks all methods.
"""

import inspect
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

from tiburon.argument_checks import is_number, is_numeric, is_whole
from tiburon.arrays import ArrayLike
from tiburon.errors import (
    BY_JOINT,
    ArgumentError,
    DomainError,
    ModelFileError,
    RunFileError,
    TiburonError,
    UnknownNameError,
    shown,
)

Function = TypeVar("Function", bound=Callable[..., Any])

MAX_CHECKED_ELEMENTS = 200
"""How many elements of a collection are compared with their annotation."""


MAX_LISTED_ARGUMENTS = 4
"""How many arguments a message shows with their values."""

UNUSABLE = (
    *(TypeError, ValueError, LookupError, AttributeError),
    *(ArithmeticError, OSError, RecursionError, MemoryError, StopIteration),
)
"""Errors of Python and NumPy that wrong values cause; others are defects of this package."""


def public(function: Function) -> Function:
    """Mark a public function, or all public methods of a class: errors name the wrong argument."""
    if isinstance(function, type):
        _mark_methods(function)
        return function

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            # calls of the package itself are explained by the one that users made
            outermost = not _is_own(sys._getframe(1))
            found = explained(function, args, kwargs, error, outermost=outermost)
            if found is None:
                raise
            raise found from error

    call.__is_public__ = True  # type: ignore[attr-defined]
    return typing.cast(Function, call)


def _mark_methods(kind: type) -> None:
    """Mark what a class itself defines; methods without arguments have none that is wrong."""
    for name, item in list(vars(kind).items()):
        if name.startswith("_"):
            continue
        function = getattr(item, "__func__", item)
        if not isinstance(function, types.FunctionType) or hasattr(function, "__is_public__"):
            continue
        code = function.__code__
        bound = not isinstance(item, staticmethod)
        if code.co_argcount + code.co_kwonlyargcount <= bound and not code.co_flags & (
            inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
        ):
            continue
        marked = public(function)
        setattr(kind, name, marked if function is item else type(item)(marked))


def fail(
    function: Callable[..., Any], error: Exception, *args: Any, **kwargs: Any
) -> typing.NoReturn:
    """Raise what `public` would, for functions whose fast path must not go through a wrapper."""
    found = explained(function, args, kwargs, error)
    if found is None:
        raise error
    raise found from error


def explained(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    error: Exception,
    *,
    outermost: bool = True,
) -> TiburonError | None:
    """Return the error that names the wrong argument of a failed call; None if it is ours.

    Args:
        function: What was called.
        args: By place.
        kwargs: By name.
        error: What it raised.
        outermost: Whether the call came from outside of this package.
    """
    if not isinstance(error, TiburonError) and _is_of_user(error, function):
        return None
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError:
        # too many arguments or an unknown keyword: the message of Python is clear
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
    found = about(error, mismatch(where, annotations(function), given), given)
    if found is not None or not given or not outermost:
        return found
    if isinstance(error, TiburonError):
        first = next(iter(signature.parameters))
        if first not in ("self", "cls") or function.__name__ == "__init__":
            # iterators are used up: their elements were refused in another function
            given = {name: value for name, value in given.items() if isinstance(value, Iterator)}
        _name_arguments(error, given)
        return None
    # generators change it to a RuntimeError
    ended = isinstance(error.__cause__, StopIteration)
    return _unusable(where, given, error) if ended or isinstance(error, UNUSABLE) else None


def _name_arguments(error: TiburonError, given: Mapping[str, Any]) -> None:
    """Append the names of arguments to a message that names none: methods call each other."""
    if isinstance(error, (UnknownNameError, ModelFileError, RunFileError)):
        # these quote the name or the file that they are about
        return
    text = str(error)
    if given and error.args and not any(is_named(name, text) for name in given):
        names = ", ".join(repr(name) for name in given)
        plural = "s" if len(given) > 1 else ""
        error.args = (f"{text} (argument{plural} {names})", *error.args[1:])


def _unusable(where: str, given: Mapping[str, Any], error: Exception) -> TiburonError:
    """Return the error of a call that failed although every argument is of the right kind."""
    names = ", ".join(given)
    listed = [f"{name}={shown(value)}" for name, value in given.items()]
    if len(listed) > MAX_LISTED_ARGUMENTS:
        listed[MAX_LISTED_ARGUMENTS:] = [f"{len(listed) - MAX_LISTED_ARGUMENTS} more"]
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    values = f"{', '.join(listed)} ({reason})"
    if isinstance(error, (TypeError, AttributeError)):
        return ArgumentError(where, names, "values that fit each other", values)
    return DomainError(f"{where}: {names}", "values that fit each other", values)


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
    if not is_named(found.argument, text):
        error.args = (f"{text} (argument {found.argument!r})", *error.args[1:])
    return None


def is_named(argument: str, text: str) -> bool:
    """Return whether a message names an argument: as written, in words, or as one of several."""
    plain = argument.replace("_", " ")
    forms = (argument, plain, argument.removesuffix("s"), plain.removesuffix("s"))
    return any(re.search(rf"\b{re.escape(form)}", text) for form in forms)


def _is_of_user(error: Exception, function: Callable[..., Any]) -> bool:
    """Return whether an error was raised in the user's own code, such as a controller."""
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


def mismatch(
    where: str, hints: Mapping[str, Any], given: Mapping[str, Any]
) -> ArgumentError | None:
    """Return the first argument that does not match its annotation; None if all do.

    Args:
        where: Name of the function or class, for the message.
        hints: Annotations by name.
        given: Arguments by name.
    """
    for name, value in given.items():
        if name in hints and not _fits(hints[name], value):
            expected, words = _words(hints[name]), shown(value)
            if isinstance(value, dict) and expected.startswith("numbers"):
                words += f"; {BY_JOINT}"
            return ArgumentError(where, name, expected, words)
    return None


def _is_own(frame: types.FrameType) -> bool:
    """Return whether a frame runs code of this package."""
    # generated constructors have no module
    module = str(frame.f_globals.get("__name__", "tiburon"))
    return module.partition(".")[0] == "tiburon"


def caller_level() -> int:
    """Return the level of the nearest caller outside this package, as `warnings.warn` takes it."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None:
        if not _is_own(frame):
            break
        frame, level = frame.f_back, level + 1
    return level


def annotations(annotated: Any) -> dict[str, Any]:
    """Return the annotations of a function or class, those that cannot be evaluated left out."""
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
    """Return whether a value matches an annotation, as far as that can be checked."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, TypeVar):
        hint = hint.__bound__ or Any
        origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if hint is ArrayLike:
        return is_numeric(value)
    if hint is None or hint is type(None):
        return value is None
    if origin is typing.Annotated:
        return _fits(parts[0], value)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(part, value) for part in parts)
    if origin is typing.Literal:
        return any(type(value) is type(part) and value == part for part in parts)
    if hint is float:
        return is_number(value)
    if hint is int:
        return is_whole(value)
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
        listed = list(value.items())[:MAX_CHECKED_ELEMENTS]
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
    plain = (
        parts
        and parts[0] is not Any
        and isinstance(parts[0], type)
        and not issubclass(parts[0], (int, float))
    )
    if isinstance(value, np.ndarray) and plain:
        # arrays hold numbers; elements of other kinds come in lists
        return False
    listed = list(value)[:MAX_CHECKED_ELEMENTS]
    if not parts:
        return True
    if issubclass(kind, tuple) and parts[-1] is not Ellipsis:
        return len(listed) == len(parts) and all(map(_fits, parts, listed))
    return all(_fits(parts[0], item) for item in listed)


def _words(hint: Any) -> str:
    """Return what an annotation expects, in words."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint is None or hint is type(None):
        return "None"
    if origin in (typing.Union, types.UnionType):
        found = list(dict.fromkeys(_words(part) for part in parts))
        return found[0] if len(found) == 1 else ", ".join(found[:-1]) + f" or {found[-1]}"
    if origin is typing.Literal:
        return " or ".join(map(repr, parts))
    simple = {
        ArrayLike: "numbers",
        float: "a number",
        int: "a whole number",
        bool: "True or False",
        str: "text",
    }
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
            known = parts and parts[0] is not Any
            return "a sequence" + (f" of {_words(parts[0])}" if known else "")
        return f"a {kind.__name__}"
    return str(hint).replace("typing.", "")
