"""What callers pass to a kernel, checked and brought into the form that native code reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiburon.argument_checks import refuse_unusable
from tiburon.errors import ShapeError, TraceError
from tiburon.trace.array import TracedArray
from tiburon.trace.program import Input
from tiburon.trace.value import Value

Array = NDArray[np.float64]


def as_floats(item: Input, value: Any) -> Array:
    """Convert an argument to float64 and check its last dimensions.

    Args:
        item: The input it is for.
        value: Anything NumPy can read: arrays of any number type, lists, numbers.

    Returns:
        The array, of shape (..., *item.shape).

    Raises:
        ShapeError: If it is no array of numbers, or has the wrong shape.
        TraceError: If it holds traced values.
    """
    if isinstance(value, (TracedArray, Value)):
        raise TraceError(
            f"{item.name}: a compiled kernel cannot be traced; "
            "call the function it was compiled from instead",
            function=item.name,
        )
    refuse_unusable(item.name, value)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ShapeError(
            item.name, _expected(item), f"nested lists that do not fit ({error})"
        ) from error
    if array.dtype.kind not in "fiub":
        given = f"values of type {array.dtype}"
        wanted = f"numbers, shape (..., {_shape(item)})" if item.shape else "a number"
        raise ShapeError(item.name, wanted, given)
    nd = len(item.shape)
    if array.ndim < nd or (nd and array.shape[-nd:] != item.shape):
        raise ShapeError(item.name, _expected(item), _given(item, array.shape))
    return array.astype(np.float64, copy=False)


def _shape(item: Input) -> str:
    return ", ".join(map(str, item.shape))


def _expected(item: Input) -> str:
    if len(item.shape) == 1:
        return item.described or str(item.shape[0])
    return f"shape (..., {_shape(item)})" if item.shape else "a number"


def _given(item: Input, shape: tuple[int, ...]) -> str:
    if len(item.shape) == 1:
        return str(shape[-1]) if shape else "a single number"
    return f"shape {shape}"


def batch_shape(inputs: Sequence[Input], arrays: Sequence[Array]) -> tuple[int, ...]:
    """Return the common leading shape of arguments.

    Raises:
        ShapeError: If their leading dimensions do not fit together.
    """
    leads = [
        array.shape[: array.ndim - len(i.shape)] for i, array in zip(inputs, arrays, strict=True)
    ]
    try:
        return np.broadcast_shapes(*leads)
    except ValueError:
        # what all cases share fits in any case
        several = [(i.name, lead) for i, lead in zip(inputs, leads, strict=True) if lead]
        listed = ", ".join(f"{name} {lead}" for name, lead in several)
        raise ShapeError(
            "batch dimensions",
            "leading shapes that fit together",
            listed,
            advice="give every array the same number of cases, or one case",
        ) from None


def as_rows(item: Input, array: Array, batch: tuple[int, ...]) -> tuple[Array, int]:
    """Return an array whose cases lie at a fixed distance, and that distance in numbers.

    One case for all keeps its place and gets the distance 0; rows that are contiguous themselves
    are read where they are. There must be at least one case.
    """
    nd = len(item.shape)
    lead = array.shape[: array.ndim - nd]
    if all(n == 1 for n in lead):
        return np.require(array.reshape(item.shape), requirements=("C", "A")), 0
    if lead != batch:
        array = np.broadcast_to(array, batch + item.shape)
    rows = array.reshape((int(np.prod(batch)), *item.shape)) if len(batch) != 1 else array
    inner, step = rows[0], rows.strides[0]
    if inner.flags.c_contiguous and rows.flags.aligned and step % 8 == 0 and step >= 0:
        return rows, step // 8
    return np.require(rows, requirements=("C", "A")), item.size


def pointers(arrays: Sequence[Array]) -> NDArray[np.int64]:
    """Return a table of the addresses of arrays."""
    return np.array([a.__array_interface__["data"][0] for a in arrays], dtype=np.int64)
