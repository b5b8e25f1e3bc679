"""Arguments and results of kernels: signature, conversion of arguments, checks of `out=` arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiburon.argument_checks import refuse_unusable
from tiburon.arrays import NDArray
from tiburon.errors import ShapeError, TraceError
from tiburon.record import record
from tiburon.trace.array import TracedArray
from tiburon.trace.program import Input, Program
from tiburon.trace.value import Value

Array = NDArray[np.float64]


def as_floats(item: Input, value: Any) -> Array:
    """Convert an argument to float64 and check its last dimensions.

    Args:
        item: The input.
        value: Array-like: arrays of any real dtype, lists, scalars.

    Returns:
        The array, of shape (..., *item.shape).

    Raises:
        ShapeError: If it is not numeric, or has the wrong shape.
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
    """Return the common leading shape of arguments: the shape of the batch.

    Raises:
        ShapeError: If their leading dimensions do not fit together.
    """
    leads = [
        array.shape[: array.ndim - len(i.shape)] for i, array in zip(inputs, arrays, strict=True)
    ]
    try:
        return np.broadcast_shapes(*leads)
    except ValueError:
        # arguments without leading dimensions are broadcast
        several = [(i.name, lead) for i, lead in zip(inputs, leads, strict=True) if lead]
        listed = ", ".join(f"{name} {lead}" for name, lead in several)
        raise ShapeError(
            "batch dimensions",
            "leading shapes that fit together",
            listed,
            advice="give every array the same number of cases, or one case",
        ) from None


def as_rows(item: Input, array: Array, batch: tuple[int, ...]) -> tuple[Array, int]:
    """Return an array whose cases have a constant stride, and that stride in floats.

    A broadcast case has stride 0. Rows that are contiguous are not copied. There must be at least
    one case.
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


MAX_OVERLAP_WORK = 100_000
"""Candidates that the exact overlap test of two strided views may try; beyond, it assumes
overlap."""


def checked_targets(
    out: Any, shapes: Sequence[tuple[int, ...]], single: bool
) -> tuple[np.ndarray[Any, Any], ...]:
    """Check the arrays of `out=` and return them.

    Args:
        out: An array, or a tuple or list of arrays.
        shapes: Shape of each result.
        single: Whether there is one result, not in a tuple.

    Raises:
        ShapeError: If an array does not fit its result, or two arrays overlap.
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
    """Copy results to the arrays of `out=`, unless they were written there."""
    for target, result in zip(targets, results, strict=True):
        if target is not result:
            target[...] = result


def shares_memory(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Return whether two arrays share an element; True where the exact test takes too long."""
    try:
        # the stubs of NumPy accept only the two extreme values of max_work
        return np.shares_memory(one, other, max_work=MAX_OVERLAP_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _overlaps_itself(array: np.ndarray[Any, Any]) -> bool:
    """Return whether elements of an array may share memory."""
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


@record
class Result:
    """Name and shape of one result."""

    name: str
    shape: tuple[int, ...]


@record
class Signature:
    """Inputs and results of a kernel; stored with the code, so that no tracing is needed.

    Attributes:
        inputs: Arguments and parameters, in the order of native code.
        outputs: Results.
        single: Whether the only result is returned by itself, not in a tuple.
    """

    inputs: tuple[Input, ...]
    outputs: tuple[Result, ...]
    single: bool

    @property
    def arguments(self) -> tuple[Input, ...]:
        """Inputs that callers pass."""
        return tuple(item for item in self.inputs if not item.parameter)

    @property
    def parameters(self) -> tuple[Input, ...]:
        """Inputs that are bound to the kernel."""
        return tuple(item for item in self.inputs if item.parameter)

    @classmethod
    def of(cls, program: Program) -> Signature:
        """Return the signature of a program."""
        results = tuple(Result(output.name, output.shape) for output in program.outputs)
        return cls(program.inputs, results, program.single)

    def to_header(self) -> dict[str, Any]:
        """Return the signature as plain data."""
        return {
            "inputs": [[i.name, list(i.shape), i.parameter, i.described] for i in self.inputs],
            "outputs": [[o.name, list(o.shape)] for o in self.outputs],
            "single": self.single,
        }

    @classmethod
    def from_header(cls, header: dict[str, Any]) -> Signature:
        """Read the signature from plain data."""
        inputs = tuple(Input(n, tuple(s), bool(p), d) for n, s, p, d in header["inputs"])
        outputs = tuple(Result(n, tuple(s)) for n, s in header["outputs"])
        return cls(inputs, outputs, bool(header["single"]))
