"""The exceptions and warnings of Tiburon: one small tree.

Every message says which element, what was expected, what was given and what to do. Every error
carries its data as attributes, so that programs need not read messages::

    TiburonError
    |-- ModelError            an invalid robot
    |   |-- UnknownNameError  a name the model does not hold (also LookupError)
    |   `-- ModelFileError    a robot file that cannot be read
    |-- ArgumentError         an argument of the wrong kind (also TypeError)
    |-- ShapeError            an argument with the wrong shape (also ValueError)
    |-- NonFiniteError        an argument holding NaN or infinity (also ValueError)
    |-- DomainError           a finite argument outside its documented range (also ValueError)
    |-- OptionError           a keyword choice that does not exist (also ValueError)
    |-- LoopError             loops that cannot be closed
    |-- SecondOrderCollisionError   contacts that no force can keep from penetrating
    |-- RunFileError          a saved run that cannot be read, written or resumed
    |-- PartnerError          a process that computes parts of a robot and does not answer
    |-- CaseError             a case of a sweep that cannot be computed
    |-- TraceError            code that cannot be traced (also TypeError)
    `-- CompileError          a graph that could not be turned into native code

    RunInterruptedError       Ctrl-C during a run, as a KeyboardInterrupt with the run

    TiburonWarning
    |-- ModelWarning          a robot that was repaired or looks suspicious
    `-- CacheWarning          a compile cache that could not be read or written
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MAX_TEXT_LENGTH = 80
"""How many characters of a value a message shows."""

MAX_MESSAGE_LENGTH = 1500
"""How many characters a message has at most."""


def shown(value: object) -> str:
    """Return a value as one short line."""
    try:
        text = repr(value)
    except Exception:
        text = object.__repr__(value)
    text = " ".join(text.split())
    if len(text) <= MAX_TEXT_LENGTH:
        return text
    kind = type(value).__name__
    size = f" of length {len(value)}" if isinstance(value, (list, tuple, dict, set, str)) else ""
    shape = getattr(value, "shape", None)
    size = f" of shape {shape}" if isinstance(shape, tuple) else size
    return f"a {kind}{size}, {text[: MAX_TEXT_LENGTH // 2]}..."


def _cut(text: str) -> str:
    """Return a text without its middle if it is longer than messages may be."""
    if len(text) <= MAX_MESSAGE_LENGTH:
        return text
    third = MAX_MESSAGE_LENGTH // 3
    return f"{text[: 2 * third - 10]} ... {text[-third:]}"


def _rebuild(
    kind: type["TiburonError"], args: tuple[object, ...], data: dict[str, object]
) -> "TiburonError":
    """Restore a pickled error without asking its constructor for the original arguments."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(data)
    return error


class TiburonError(Exception):
    """Base of every exception raised on purpose by this package; its text is never long."""

    def __init__(self, *args: object) -> None:
        """Cut the middle of a long text: names and files may have any length."""
        super().__init__(*(_cut(x) if isinstance(x, str) else x for x in args))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by message and attributes: errors travel between processes."""
        return _rebuild, (type(self), self.args, dict(self.__dict__))


class ModelError(TiburonError):
    """An invalid robot: a bad number, name or tree.

    Attributes:
        name: The body, joint or frame at fault; None when the whole model is.
    """

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class ModelFileError(ModelError):
    """A robot file that cannot be read, or describes what is impossible.

    Attributes:
        file: Name of the file, as it was given.
        line: Line number counted from 1, where known.
        element: The part of the file at fault, such as "joint 'elbow'", where known.
        problem: What was expected, what was found and what to do: the message without these.
    """

    def __init__(
        self,
        file: object,
        problem: str,
        *,
        line: int | None = None,
        element: str | None = None,
        name: str | None = None,
    ) -> None:
        """Compose the message of the attributes."""
        self.file = str(file)
        self.line = line
        self.element = element
        self.problem = problem
        place = self.file if line is None else f"{self.file}, line {line}"
        parts = [place, problem] if element is None else [place, element, problem]
        super().__init__(": ".join(parts), name=name)


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like the given one, or None if none is close."""
    names = list(known)
    # a wrong letter case is the most common slip and must win over any fuzzy match
    for candidate in names:
        if candidate.casefold() == name.casefold():
            return candidate
    import difflib

    matches = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return matches[0] if matches else None


def spelling_hint(name: str, known: Sequence[str]) -> str:
    """Return advice for an unknown word: the most similar known one, or all of them."""
    near = nearest_name(name, known)
    return f"did you mean {near!r}?" if near else f"write one of {', '.join(known)}"


def _shorten(names: Sequence[str], limit: int = 8) -> str:
    """Spell out a few names and count the rest."""
    shown = ", ".join(repr(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


class UnknownNameError(ModelError, LookupError):
    """A name the model does not hold.

    Attributes:
        kind: What was looked up, such as "joint".
        name: The name that was not found.
        known: All names of that kind.
        nearest: The known name most like it, or None.
    """

    name: str

    def __init__(
        self,
        kind: str,
        name: str,
        known: Iterable[str],
        *,
        where: str = "",
        listing: str = "",
        advice: str = "",
    ) -> None:
        """Compose the message, nearest match first.

        Args:
            kind: What was looked up, such as "joint" or "parent body".
            name: The name that was not found.
            known: All names that would have been right.
            where: The element that asked, such as "body 'hand'"; leads the message.
            listing: How to list all names, such as "model.joint_names".
            advice: What to do; ends the message.
        """
        self.kind = kind
        self.known = tuple(known)
        self.nearest = nearest_name(name, self.known)
        message = f"{where}: unknown {kind} {name!r}" if where else f"unknown {kind} {name!r}"
        if self.nearest is not None:
            message += f"; did you mean {self.nearest!r}?"
        elif self.known:
            message += f"; known: {_shorten(self.known)}"
        else:
            message += f"; there is no {kind} to choose from"
        if listing:
            message += f" ({listing} lists all)"
        if advice:
            message += f"; {advice}"
        super().__init__(message, name=name)


BY_JOINT = "model.joint_array(values, of=...) makes an array from values by joint name"
"""Advice where values of all joints are given as a dictionary."""


class ArgumentError(TiburonError, TypeError):
    """An argument of the wrong kind.

    Attributes:
        function: The function or class that was called.
        argument: Name of the argument.
        expected: What was expected, in words.
        given: What was given, in words.
    """

    def __init__(self, function: str, argument: str, expected: str, given: str) -> None:
        """Compose a message such as ``simulate: duration must be a number, got 'long'``."""
        super().__init__(f"{function}: {argument} must be {expected}, got {given}")
        self.function = function
        self.argument = argument
        self.expected = expected
        self.given = given


class _ExpectationError(TiburonError, ValueError):
    """An argument that is not what was expected.

    Attributes:
        argument: Name of the argument.
        expected: What was expected, in words or as a shape.
        given: What was given, in words or as a shape.
    """

    def __init__(
        self,
        argument: str,
        expected: str | int | tuple[int, ...],
        given: str | int | tuple[int, ...],
        *,
        advice: str = "",
    ) -> None:
        """Compose a message such as ``q: expected 18 (6 base + 12 joints), got 12``."""
        message = f"{argument}: expected {expected}, got {given}"
        super().__init__(f"{message}; {advice}" if advice else message)
        self.argument = argument
        self.expected = expected
        self.given = given


class ShapeError(_ExpectationError):
    """An argument with the wrong shape; attributes `argument`, `expected` and `given`."""


class DomainError(_ExpectationError):
    """A finite argument outside the range a function is documented for.

    Attributes `argument`, `expected` and `given`, the latter two in words.
    """

    expected: str
    given: str


class NonFiniteError(TiburonError, ValueError):
    """An argument that holds NaN or infinity.

    Attributes:
        argument: Name of the argument.
        index: Position of the first such value; None for a single number.
        value: That value, where known.
    """

    def __init__(
        self,
        argument: str,
        index: int | tuple[int, ...] | None = None,
        value: float | None = None,
        *,
        advice: str = "",
    ) -> None:
        """Compose a message such as ``q: every value must be finite, got nan at index 3``."""
        message = f"{argument}: every value must be finite, got "
        message += "a non-finite value" if value is None else f"{value}"
        if index is not None:
            message += f" at index {index}"
        message += f"; {advice or 'check the computation that made it'}"
        super().__init__(message)
        self.argument = argument
        self.index = index
        self.value = value


class OptionError(TiburonError, ValueError):
    """A keyword choice that does not exist.

    Attributes:
        argument: Name of the keyword.
        choices: The choices there are.
        given: The value that is none of them.
    """

    def __init__(self, argument: str, choices: Iterable[object], given: object) -> None:
        self.argument = argument
        self.choices = tuple(choices)
        self.given = given
        listed = " or ".join(repr(choice) for choice in self.choices)
        super().__init__(f"{argument}: expected {listed}, got {shown(given)}")


class LoopError(TiburonError):
    """Loops that cannot be closed.

    Attributes:
        residuals: By name of the loop, its largest constraint residual [m or rad].
    """

    def __init__(self, message: str, residuals: Mapping[str, float]) -> None:
        super().__init__(message)
        self.residuals = dict(residuals)


class SecondOrderCollisionError(TiburonError):
    """Contacts that no force can keep from penetrating.

    Surfaces curve into each other, or prescribed motion presses bodies together; then impulses
    cannot stop them either.

    Attributes:
        certificate: By name of the contact, its weight in a combination of forces that cancel each
            other; empty where rounding hides it.
        closing: Sum of the contacts' accelerations with these weights, which no force changes
            [m/s^2], or of their velocities, which no impulse does [m/s]; negative.
        joints: Names of the joints whose prescribed motion presses the contacts together.
    """

    def __init__(
        self,
        certificate: Mapping[str, float],
        closing: float,
        joints: Sequence[str] = (),
        *,
        impulses: bool = False,
    ) -> None:
        """Compose the message with the contacts, their weights and the joints."""
        listed = ", ".join(f"{name!r} {weight:.6g}" for name, weight in certificate.items())
        force, sums = (
            ("impulses", f"velocities sum to {closing:.6g} m/s")
            if impulses
            else ("forces", f"accelerations sum to {closing:.6g} m/s^2")
        )
        why, cure = "collision of second order", "stop the motion or leave one of them out"
        if joints:
            driven = ", ".join(repr(name) for name in joints)
            plural = "s" if len(joints) > 1 else ""
            why = f"prescribed motion of joint{plural} {driven} presses them together"
            cure = f"change the path of joint{plural} {driven}, or leave one of the contacts out"
        super().__init__(
            f"contacts {listed or 'of this state'}: expected {force} that keep them from "
            f"penetrating, got none ({why}): {force} in these proportions cancel each other, and "
            f"{sums} whatever {force} act; the contacts jam, so {cure}"
        )
        self.certificate = dict(certificate)
        self.closing = closing
        self.joints = tuple(joints)


class RunFileError(TiburonError):
    """A saved run that cannot be read, written or resumed.

    Attributes:
        file: Path of the run, as it was given.
        problem: The message without it.
    """

    def __init__(self, file: object, problem: str) -> None:
        """Compose a message such as ``run.zarr: the disk is full after 3.2 s; free some room``."""
        self.file = str(file)
        self.problem = problem
        super().__init__(f"{self.file}: {problem}")


class RunInterruptedError(KeyboardInterrupt):
    """Ctrl-C during a run: a `KeyboardInterrupt`, raised when the rows are safe.

    It is no `TiburonError`, so that loops over runs end as the user asked.

    Attributes:
        run: The run up to there, with the outcome "interrupted"; its `resume` continues it. A run
            that had reached its end when Ctrl-C came is whole.
    """

    def __init__(self, message: str, run: Any) -> None:
        """Compose a message such as ``interrupted at 3.2 s; the rows so far are in .run``."""
        super().__init__(message)
        self.run = run

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with the run."""
        return type(self), (*self.args, self.run)


class PartnerError(TiburonError):
    """A process that computes parts of a robot did not answer, or computes another run."""


class CaseError(TiburonError):
    """A case of a sweep that cannot be computed: its setup, run or reduction raised an error.

    Attributes:
        case: Number of the case.
        problem: The error in one line.
    """

    def __init__(self, case: int, point: str, step: str, problem: str) -> None:
        """Compose the message.

        Args:
            case: Number of the case.
            point: The case and its values, as text.
            step: What raised the error: "setup", "simulate" or "reduce".
            problem: The error in one line.
        """
        self.case, self.problem = case, problem
        super().__init__(
            f"{point}: {step} raised {problem}; correct it, or pass errors='record' to give such "
            "cases the status 'failed'"
        )


class TraceError(TiburonError, TypeError):
    """Code that cannot be traced: an `if` on a value, an unsupported NumPy function.

    Attributes:
        function: Name of the function or operation at fault, where known.
    """

    def __init__(self, message: str, *, function: str | None = None) -> None:
        super().__init__(message)
        self.function = function


class CompileError(TiburonError):
    """A graph that could not be turned into native code; the cause is chained."""


class MissingExtraError(TiburonError, ImportError):
    """An optional package that is not installed.

    Attributes:
        package: Its name.
        extra: The extra of this package that installs it.
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(
            f"{purpose} needs {package}, which is not installed; run `pip install "
            f"'tiburon[{extra}]'`"
        )


class TiburonWarning(UserWarning):
    """Base of every warning of this package."""


class ModelWarning(TiburonWarning):
    """A robot that was repaired on the way in, or whose numbers look suspicious."""


class CacheWarning(TiburonWarning):
    """A compile cache that could not be read or written; kernels are compiled without it."""
