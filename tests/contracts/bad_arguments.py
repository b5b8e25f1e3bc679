"""Every public callable with one argument replaced by a value of another kind.

Callables are found in the table of exports, their arguments in their signatures, and good values by
the names of the arguments: a new function is covered without being listed. One whose arguments have
new names needs a sample value in `SAMPLES` or `OWN` of `good_arguments.py`.
"""

import contextlib
import inspect
import math
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

import tiburon as tb
from tests.contracts.good_arguments import OWN, QUIET, RESULTS, SAMPLES, arm, linkage
from tiburon.arguments import is_named, mismatch
from tiburon.errors import ModelFileError, RunFileError, TiburonError, UnknownNameError
from tiburon.exports import EXPORTS

SECONDS = 20.0
"""Processor time that one call may take [s]."""

WORDS = {"com": "center of mass", "rpy": "roll-pitch-yaw"}
"""Arguments that messages write out."""


class Complaint(NamedTuple):
    """A call that ended otherwise than it should."""

    call: str
    argument: str
    value: str
    problem: str

    def __str__(self) -> str:
        return f"{self.call}({self.argument}={self.value}): {self.problem}"


class _Plain:
    """An object that is nothing in particular."""

    def __repr__(self) -> str:
        return "an object"


BAD: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "text": lambda: "nonsense",
    "empty text": lambda: "",
    "bytes": lambda: b"\x00\xff",
    "object": _Plain,
    "function": lambda: lambda *_, **__: None,
    "zero": lambda: 0,
    "minus one": lambda: -1,
    "half": lambda: 0.5,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "huge": lambda: 10**400,
    "large": lambda: 1e300,
    "complex": lambda: 1.0 + 2.0j,
    "empty list": list,
    "ragged": lambda: [[1.0], [1.0, 2.0]],
    "three": lambda: (1.0, 2.0, 3.0),
    "nan array": lambda: np.full(6, np.nan),
    "cube": lambda: np.ones((2, 3, 4)),
    "no cases": lambda: np.zeros((0, 6)),
    "texts": lambda: np.array(["a", "b"]),
    "objects": lambda: [_Plain(), _Plain()],
    "masked": lambda: np.ma.masked_array(np.ones(6), [True] + [False] * 5),
    "empty dict": dict,
    "dict": lambda: {"nonsense": 1.0},
    "number keys": lambda: {1: 2},
    "set": lambda: {1.0, 2.0},
    "iterator": lambda: iter(()),
    "model": arm,
    "water": tb.Water,
}
"""Values of every kind; most are wrong for most arguments."""


EXTRAS = {
    "build_library": "ziglang",
    "to_casadi": "casadi",
    "to_jax": "jax",
    "to_torch": "torch",
    "export_fmu": "ziglang",
}
"""Functions that no call reaches without an optional package."""


def callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield all public functions, classes that users make, and their other constructors."""
    for name in EXPORTS:
        if name in EXTRAS and find_spec(EXTRAS[name]) is None:
            continue
        value = getattr(tb, name)
        if not inspect.isclass(value):
            yield name, value
        elif name not in RESULTS and not issubclass(value, BaseException):
            if inspect.isabstract(value):
                continue
            yield name, value
            for key, item in inspect.getmembers_static(value):
                if isinstance(item, (classmethod, staticmethod)) and not key.startswith("_"):
                    yield f"{name}.{key}", getattr(value, key)


@contextlib.contextmanager
def _hurried() -> Iterator[None]:
    """Raise `TimeoutError` in what takes too long."""

    def ring(*_: object) -> None:
        raise TimeoutError(f"took more than {SECONDS:g} s")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def _arguments(name: str, function: Callable[..., Any], model: tb.Model) -> dict[str, Any]:
    """Return good values for the arguments that a callable needs, and for options it keeps."""
    found = {}
    own = OWN.get(name, {})
    for parameter in inspect.signature(function).parameters.values():
        key = parameter.name
        if key in own:
            found[key] = own[key](model)
        elif key in QUIET:
            found[key] = QUIET[key]
        elif parameter.default is parameter.empty and parameter.kind in (
            parameter.POSITIONAL_OR_KEYWORD,
            parameter.KEYWORD_ONLY,
            parameter.POSITIONAL_ONLY,
        ):
            if key not in SAMPLES:
                raise LookupError(
                    f"{name}: no sample for the argument {key!r}; add one to good_arguments.py"
                )
            found[key] = SAMPLES[key](model)
    return found


def _names(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


def good_call(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """Return arguments with which a callable works: of one of two robots.

    Raises:
        AssertionError: If it works with neither.
    """
    errors = []
    for model in (arm(), linkage()):
        try:
            arguments = _arguments(name, function, model)
            with _hurried(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                function(**arguments)
            return arguments
        except (TiburonError, TimeoutError, IndexError) as error:
            errors.append(f"{model.name}: {type(error).__name__}: {error}")
    raise AssertionError(f"{name}: no call with sample arguments works: " + " | ".join(errors))


def complaints(
    name: str, function: Callable[..., Any], values: Mapping[str, Callable[[], Any]] = BAD
) -> Iterator[Complaint]:
    """Call with one argument wrong, one after the other; yield what goes otherwise than it should.

    A call may succeed (the value is right there), or raise one of our own errors whose message
    names the argument and stays short.
    """
    arguments = good_call(name, function)
    parameters = inspect.signature(function).parameters.values()
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        key = parameter.name
        for label, make in values.items():
            problem = _problem(function, {**arguments, key: make()}, key)
            if problem:
                yield Complaint(name, key, label, problem)


def _problem(function: Callable[..., Any], arguments: dict[str, Any], key: str) -> str:
    """Return what is wrong with the end of a call; nothing where it is right."""
    try:
        with _hurried(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(**arguments)
    except (UnknownNameError, ModelFileError, RunFileError):
        # these quote the name or the file that they are about
        return ""
    except TiburonError as error:
        text = str(error)
        # a value that is right by itself may make another argument wrong
        fits = mismatch("", function, {key: arguments[key]}) is None
        accepted = (key, WORDS.get(key, key), *(_names(function) if fits else ()))
        named = any(is_named(name, text) for name in accepted)
        # what overflows is refused by the quantity that did
        if not named and "inf" not in text:
            return f"the message does not name the argument: {text[:120]}"
        if len(text) > 1500:
            return f"the message has {len(text)} characters: {text[:120]}"
    except TimeoutError:
        # at work on what it was given
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:120]}"
    return ""
