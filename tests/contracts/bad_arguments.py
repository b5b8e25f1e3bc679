"""Every public callable and method with arguments replaced by values of other kinds.

Callables are found in the table of exports, their arguments in their signatures, and good values by
the names of the arguments: a new function is covered without being listed. One whose arguments have
new names needs a sample value in `SAMPLES` or `OWN` of `good_arguments.py`.
"""

import contextlib
import enum
import functools
import inspect
import math
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

import tiburon as tb
from tests.contracts.good_arguments import (
    INSTANCES,
    OPENING,
    OWN,
    QUIET,
    RESULTS,
    SAMPLES,
    arm,
    linkage,
    of_joint,
)
from tiburon.arguments import annotations, is_named, mismatch
from tiburon.errors import (
    MissingExtraError,
    ModelFileError,
    RunFileError,
    TiburonError,
    UnknownNameError,
)
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


def _circle() -> list[Any]:
    """Return a list that holds itself."""
    found: list[Any] = []
    found.append(found)
    return found


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
    "long text": lambda: "x" * 300,
    "tiny": lambda: 5e-324,
    "short float": lambda: np.float16(1.0),
    "numbers in turn": lambda: (x for x in (1.0, 2.0)),
    "itself": _circle,
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


def instance(name: str) -> Any:
    """Return an instance of an exported class: made by its constructor, or by a sample."""
    if name in INSTANCES:
        return INSTANCES[name]()
    kind = getattr(tb, name)
    return kind(**good_call(name, kind))


def methods() -> Iterator[tuple[str, str]]:
    """Yield all public methods of exported classes that take arguments, as class and name."""
    for name in EXPORTS:
        kind = getattr(tb, name)
        if not inspect.isclass(kind) or issubclass(kind, (BaseException, enum.Enum)):
            continue
        if name not in INSTANCES and (name in RESULTS or inspect.isabstract(kind)):
            continue
        for key, item in inspect.getmembers_static(kind):
            if key.startswith("_") or key in OPENING or not inspect.isfunction(item):
                continue
            if item.__module__.startswith("tiburon") and len(_names(item)) > 1:
                yield name, key


def unmarked() -> list[str]:
    """Return public methods with arguments of all exported classes that are not marked."""
    found = []
    for name in EXPORTS:
        kind = getattr(tb, name)
        if not inspect.isclass(kind) or issubclass(kind, BaseException):
            continue
        for key, item in inspect.getmembers_static(kind):
            function = getattr(item, "__func__", item)
            if key.startswith("_") or not inspect.isfunction(function):
                continue
            ours = (function.__module__ or "").startswith("tiburon")
            bound = not isinstance(item, staticmethod)
            if ours and len(_names(function)) > bound and not hasattr(function, "__is_public__"):
                found.append(f"{name}.{key}")
    return found


def property_complaints(name: str) -> Iterator[Complaint]:
    """Read all properties of an instance; yield those that raise errors that are not ours."""
    this = instance(name)
    for key, item in inspect.getmembers_static(type(this)):
        if key.startswith("_") or not isinstance(item, (property, functools.cached_property)):
            continue
        try:
            with _hurried(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                getattr(this, key)
        except TiburonError:
            pass
        except Exception as error:
            yield Complaint(name, key, "", f"{type(error).__name__}: {str(error)[:120]}")


class Count:
    """How many calls were made, and how they ended."""

    calls = 0
    foreign = 0
    nameless = 0
    long = 0

    def __str__(self) -> str:
        return (
            f"{self.calls} calls: {self.foreign} foreign exceptions, {self.nameless} messages "
            f"without the argument's name, {self.long} long messages"
        )

    def add(self, found: Iterable[Complaint]) -> None:
        """Count complaints."""
        for one in found:
            self.nameless += "does not name" in one.problem
            self.long += "characters" in one.problem
            self.foreign += "does not name" not in one.problem and "characters" not in one.problem


def method_complaints(
    name: str,
    key: str,
    values: Mapping[str, Callable[[], Any]] = BAD,
    count: Count | None = None,
    pairs: int = 0,
) -> Iterator[Complaint]:
    """Call a method with wrong arguments; yield what goes otherwise than it should.

    Args:
        name: Name of the class.
        key: Name of the method.
        values: Wrong values.
        count: Counts the calls.
        pairs: How many pairs of wrong arguments to try beside single ones.
    """
    this = instance(name)
    call, label = getattr(this, key), f"{name}.{key}"
    good, known = _good_values(label, call, this)
    names = [
        p.name for p in inspect.signature(call).parameters.values() if p.kind is not p.VAR_KEYWORD
    ]
    tried = [((one, word),) for one in names for word in values]
    rng = np.random.default_rng(len(label) * 1000 + sum(map(ord, label)))
    words = list(values)
    for _ in range(pairs if len(names) > 1 else 0):
        two = rng.choice(len(names), 2, replace=False)
        tried.append(tuple((names[k], words[rng.integers(len(words))]) for k in two))
    for wrong in tried:
        arguments = {**good, **{one: values[word]() for one, word in wrong}}
        if count is not None:
            count.calls += 1
        strict = known and len(wrong) == 1
        problem = _problem(call, arguments, wrong[0][0], any_name=not strict)
        if problem:
            yield Complaint(
                label, " and ".join(a for a, _ in wrong), " and ".join(b for _, b in wrong), problem
            )


def _good_values(label: str, call: Callable[..., Any], this: Any) -> tuple[dict[str, Any], bool]:
    """Return values for the arguments that a method needs, and whether all of them are known."""
    found: dict[str, Any] = {}
    known, own, samples = True, OWN.get(label, {}), SAMPLES
    model = this if isinstance(this, tb.Model) else getattr(this, "model", None)
    model = model if isinstance(model, tb.Model) else arm()
    if isinstance(this, tb.Joint):
        samples = SAMPLES | of_joint(this)
    for parameter in inspect.signature(call).parameters.values():
        key = parameter.name
        if key in own:
            found[key] = own[key](model)
        elif key in QUIET:
            found[key] = QUIET[key]
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            # the engine alone makes some of them, such as parts of a traced problem
            known = known and key in samples
            found[key] = samples[key](model) if key in samples else 0.5
    return found, known


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
    name: str,
    function: Callable[..., Any],
    values: Mapping[str, Callable[[], Any]] = BAD,
    count: Count | None = None,
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
            if count is not None:
                count.calls += 1
            problem = _problem(function, {**arguments, key: make()}, key)
            if problem:
                yield Complaint(name, key, label, problem)


def _call(function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """Call with arguments by name, those of `*names` by place."""
    several = [
        p.name
        for p in inspect.signature(function).parameters.values()
        if p.kind is p.VAR_POSITIONAL and p.name in arguments
    ]
    listed = [arguments[name] for name in several]
    function(*listed, **{name: x for name, x in arguments.items() if name not in several})


def _problem(
    function: Callable[..., Any], arguments: dict[str, Any], key: str, *, any_name: bool = False
) -> str:
    """Return what is wrong with the end of a call; nothing where it is right."""
    try:
        with _hurried(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _call(function, arguments)
    except (UnknownNameError, ModelFileError, RunFileError, MissingExtraError):
        # these quote the name, the file or the package that they are about
        return ""
    except TiburonError as error:
        text = str(error)
        # a value that is right by itself may make another argument wrong
        fits = mismatch("", annotations(function), {key: arguments[key]}) is None
        accepted = (key, WORDS.get(key, key), *(_names(function) if fits or any_name else ()))
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
