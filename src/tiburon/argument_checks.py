"""Checks of single arguments: a value that can be used, or an error that names the argument."""

import inspect
import typing
from collections.abc import Callable, Sequence
from typing import Any

from tiburon.errors import (
    BY_JOINT,
    DomainError,
    ModelError,
    NonFiniteError,
    OptionError,
    ShapeError,
    shown,
)


def positive(argument: str, value: object, unit: str = "") -> float:
    """Return a finite number above zero.

    Raises:
        DomainError: If the value is anything else.
    """
    unit = f" [{unit}]" if unit else ""
    if not is_number(value) or not 0.0 < float(value) < float("inf"):  # type: ignore[arg-type]
        raise DomainError(argument, f"a finite number above 0{unit}", shown(value))
    return float(value)  # type: ignore[arg-type]


def at_least(argument: str, value: object, least: int) -> int:
    """Return a whole number that is not below a bound.

    Raises:
        DomainError: If the value is anything else.
    """
    if not is_whole(value) or int(value) < least:  # type: ignore[call-overload]
        raise DomainError(argument, f"a whole number of at least {least}", shown(value))
    return int(typing.cast(int, value))


def vector(argument: str, value: object, size: int, *, spread: bool = False) -> Any:
    """Return a one-dimensional array of floats.

    Args:
        argument: Name of the argument.
        value: Anything NumPy can read.
        size: Length of the array.
        spread: Whether a single number is repeated to that length.

    Raises:
        DomainError: If an element is masked.
        ShapeError: If the length differs, or the value is not numeric.
    """
    import numpy as np

    refuse_unusable(argument, value)
    array = np.asarray(value, dtype=np.float64) if is_numeric(value) else None
    if array is not None and spread and array.ndim == 0:
        array = np.full(size, array)
    if array is None or array.shape != (size,):
        raise ShapeError(argument, f"{size} numbers", shown(value))
    return array


def check_finite(argument: str, array: Any) -> None:
    """Refuse an array that holds NaN or infinity; the error names the first such entry."""
    import numpy as np

    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        index = tuple(bad[0].tolist())
        raise NonFiniteError(argument, index, float(array[index]))


def choice(argument: str, value: object, choices: Sequence[Any]) -> None:
    """Raise `OptionError` unless a value equals one of the choices, type included."""
    if not any(type(value) is type(word) and value == word for word in choices):
        raise OptionError(argument, choices, value)


def check_signature(
    function: Callable[..., Any], what: str, takes: tuple[str, ...], *, advice: str
) -> None:
    """Raise an error if a function cannot be called with the given positional arguments.

    Args:
        function: The function.
        what: Leads the message: which element, and which function of it.
        takes: Names of the arguments it is called with, in order.
        advice: What to write instead.

    Raises:
        ModelError: If it takes other arguments.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # functions of extension modules may have no signature
        return
    try:
        signature.bind(*takes)
    except TypeError:
        own = ", ".join(str(parameter) for parameter in signature.parameters.values())
        raise ModelError(
            f"{what}: expected a function of ({', '.join(takes)}), got one of ({own}); {advice}"
        ) from None


MAX_NESTING = 64
"""Dimensions that arrays of NumPy have at most."""


def unusable_element(value: object, depth: int = 0) -> str | None:
    """Return what keeps an array from being real numbers, in words; None if nothing does.

    NumPy drops masks and imaginary parts when it converts to floats, and what is left looks like
    numbers.

    Args:
        value: Anything.
        depth: How many lists it is in.
    """
    if isinstance(value, (list, tuple)):
        if depth >= MAX_NESTING:
            return f"lists in each other, more than {MAX_NESTING} deep"
        found = (
            unusable_element(x, depth + 1) for x in value if not isinstance(x, (int, float, str))
        )
        return next((x for x in found if x is not None), None)
    if getattr(getattr(value, "dtype", None), "kind", "") == "c":
        return "complex numbers"
    mask: Any = getattr(value, "mask", None)
    if mask is None or not hasattr(value, "filled") or not mask.any():
        return None
    place = tuple(int(k[0]) for k in mask.nonzero()) if mask.ndim else ()
    index = f" at index {place[0] if len(place) == 1 else place}" if place else ""
    return f"a masked element{index} ({int(mask.sum())} of {mask.size} are masked)"


def refuse_unusable(argument: str, value: object) -> None:
    """Raise an error for dictionaries, and for arrays whose elements are masked or complex.

    Args:
        argument: Name of the argument.
        value: What was given for it; other values are left to their own checks.
    """
    if isinstance(value, dict):
        raise ShapeError(argument, "an array", "a dictionary", advice=BY_JOINT)
    found = unusable_element(value)
    if found is not None:
        raise DomainError(
            argument,
            "a real number in every element",
            found,
            advice="pass x.filled(...), x.real, or leave these cases out",
        )


def is_number(value: Any) -> bool:
    """Return whether a value is one real number."""
    import numpy as np

    if isinstance(value, (bool, np.bool_, str, bytes, complex)):
        return False
    if isinstance(value, int):
        return abs(value) < 10**300
    return isinstance(value, (float, np.floating, np.integer)) or (
        isinstance(value, np.ndarray) and value.ndim == 0 and is_numeric(value)
    )


def is_whole(value: Any) -> bool:
    """Return whether a value is an integer of 64 bits."""
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
