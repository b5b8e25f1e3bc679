"""What went wrong in a kernel: which cases failed, and why the first of them did."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tiburon.errors import DomainError, NonFiniteError, TiburonError
from tiburon.native.arguments import Array
from tiburon.native.signature import Signature
from tiburon.trace.diagnose import diagnose
from tiburon.trace.program import Program


def failed_cases(
    signature: Signature, arrays: Sequence[Array], batch: tuple[int, ...], results: Sequence[Array]
) -> NDArray[np.bool_]:
    """Mark the cases that read or gave a non-finite number.

    Args:
        signature: What the kernel takes and gives.
        arrays: Its inputs, each of shape (..., *shape of one case).
        batch: Shape of the cases.
        results: Its outputs, of shape (*batch, *shape of one case).

    Returns:
        Truth values of shape `batch`.
    """
    failed = np.zeros(batch, dtype=bool)
    shapes = [item.shape for item in signature.inputs]
    shapes += [result.shape for result in signature.outputs]
    for shape, array in zip(shapes, [*arrays, *results], strict=True):
        axes = tuple(range(array.ndim - len(shape), array.ndim))
        failed |= ~np.isfinite(array).all(axis=axes)
    return failed


def explain_failure(
    name: str,
    program: Callable[[], Program],
    signature: Signature,
    arrays: Sequence[Array],
    failed: NDArray[np.bool_],
) -> TiburonError:
    """Make the error for the first failed case.

    Args:
        name: Name of the kernel.
        program: Gives the program; called only if the inputs do not tell.
        signature: What the kernel takes and gives.
        arrays: Its inputs.
        failed: Which cases failed; at least one.

    Returns:
        The error to raise.
    """
    for item, array in zip(signature.inputs, arrays, strict=True):
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            # the place in the array as it was given, so that the caller finds it there
            place = tuple(int(k) for k in bad[0])
            index = (place[0] if len(place) == 1 else place) if place else None
            return NonFiniteError(item.name, index, float(array[place]))
    batch = failed.shape
    case = tuple(int(k) for k in np.argwhere(failed)[0]) if batch else ()
    inputs = {
        item.name: np.broadcast_to(array, batch + item.shape)[case]
        for item, array in zip(signature.inputs, arrays, strict=True)
    }
    cause = diagnose(program(), inputs)
    where = f" in case {case[0] if len(case) == 1 else case}" if case else ""
    count = int(failed.sum())
    more = f" ({count} of {failed.size} cases failed)" if batch and count > 1 else ""
    reason = cause.message if cause else "a result beyond the range of float64"
    return DomainError(
        name,
        "a finite result",
        f"none{where}{more}: {reason}",
        advice="check the inputs and the model" + (", or pass errors='flag'" if batch else ""),
    )
