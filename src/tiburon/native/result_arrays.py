"""Arrays that callers give for results: checked before anything is written to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiburon.errors import ShapeError
from tiburon.native.arguments import Array

__all__ = ["checked_targets", "deliver"]

OVERLAP_WORK = 100_000
"""How many candidates an exact comparison of two strided views may try; beyond, they count as
overlapping."""


def checked_targets(
    out: Any, shapes: Sequence[tuple[int, ...]], single: bool
) -> tuple[np.ndarray[Any, Any], ...]:
    """Return the arrays that results are written to.

    Args:
        out: What the caller gave: an array, or a tuple or list of them.
        shapes: Shape of each result.
        single: Whether there is one result, given by itself.

    Raises:
        ShapeError: If an array does not fit its result, or two results would lie in one place.
    """
    if single:
        out = (out,)
    if not isinstance(out, (tuple, list)) or len(out) != len(shapes):
        raise ShapeError("out", f"a tuple of {len(shapes)} arrays", _kind_of(out))
    for place, (target, expected) in enumerate(zip(out, shapes, strict=True)):
        name = "out" if single else f"out[{place}]"
        if not isinstance(target, np.ndarray) or target.shape != expected:
            raise ShapeError(name, f"an array of shape {expected}", _kind_of(target))
        if isinstance(target, np.ma.MaskedArray):
            raise ShapeError(name, "an array without a mask", "a masked array")
        if target.dtype.kind != "f":
            raise ShapeError(name, "an array of floats", _kind_of(target))
        if not target.flags.writeable:
            raise ShapeError(name, "an array that can be written", "a read-only one")
        if _overlaps_itself(target):
            raise ShapeError(
                name,
                "an array with a place of its own for each element",
                f"one whose elements share memory (strides {target.strides})",
                advice="pass a copy",
            )
        for other in range(place):
            if shares_memory(target, out[other]):
                raise ShapeError(
                    "out",
                    "arrays that do not overlap, since each takes a result of its own",
                    f"out[{other}] and out[{place}] in the same memory",
                    advice="pass one array per result",
                )
    return tuple(out)


def deliver(targets: Sequence[np.ndarray[Any, Any]], results: Sequence[Array]) -> None:
    """Copy results to where the caller wants them, unless they have been written there."""
    for target, result in zip(targets, results, strict=True):
        if target is not result:
            target[...] = result


def shares_memory(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Return whether two arrays have an element in common; True where that is too hard to tell."""
    try:
        # its stubs know the two extreme amounts of work alone
        return np.shares_memory(one, other, max_work=OVERLAP_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _overlaps_itself(array: np.ndarray[Any, Any]) -> bool:
    """Return whether elements of an array may share memory: no stride clears those below it."""
    steps = sorted(
        (abs(step), count)
        for step, count in zip(array.strides, array.shape, strict=True)
        if count > 1
    )
    extent = array.itemsize
    for step, count in steps:
        if array.size and step < extent:
            return True
        extent += step * (count - 1)
    return False


def _kind_of(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"shape {value.shape} of type {value.dtype}"
    kind = type(value).__name__
    return f"{kind} of {len(value)}" if isinstance(value, (tuple, list)) else kind
