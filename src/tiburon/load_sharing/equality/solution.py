"""Solution of a quadratic program with equations alone, and checks of its data."""

from typing import NamedTuple

import numpy as np

from tiburon.arrays import NDArray
from tiburon.errors import DomainError, ShapeError

__all__ = ["EqualitySolution", "checked", "cholesky", "with_multipliers"]

Array = NDArray[np.float64]


class EqualitySolution(NamedTuple):
    """Minimum of c^T x + x^T W x / 2 with A1 x = b1."""

    x: Array
    """Unknowns, shape (n,)."""

    multipliers: Array
    """y with W x + c = A1^T y (5.14), shape (m,)."""


def checked(W: Array, c: Array, A1: Array, b1: Array) -> tuple[Array, Array, Array, Array]:
    """Return the data of a program as arrays of fitting shapes."""
    given = tuple(np.asarray(array, dtype=np.float64) for array in (W, c, A1, b1))
    n = given[1].size
    m = given[3].size
    for name, array, shape in zip(
        ("W", "c", "A1", "b1"), given, ((n, n), (n,), (m, n), (m,)), strict=True
    ):
        if array.shape != shape:
            raise ShapeError(name, shape, array.shape)
        if not np.all(np.isfinite(array)):
            raise DomainError(name, "finite values", "a value that is not finite")
    if m > n:
        raise ShapeError("A1", f"at most {n} equations, one per unknown", given[2].shape)
    return given[0], given[1], given[2], given[3]


def cholesky(W: Array) -> Array:
    """Return L of W = L L^T.

    Raises:
        DomainError: If W is not positive definite.
    """
    try:
        return np.asarray(np.linalg.cholesky(W))
    except np.linalg.LinAlgError:
        raise DomainError(
            "W",
            "a positive definite matrix",
            f"a least eigenvalue of {np.linalg.eigvalsh(W)[0]:.3g}",
            advice="add a small multiple of the identity, or eliminate the equations",
        ) from None


def with_multipliers(W: Array, c: Array, A1: Array, x: Array) -> EqualitySolution:
    """Return a solution with the multipliers that its gradient needs."""
    gradient = W @ x + c
    return EqualitySolution(x, np.asarray(np.linalg.lstsq(A1.T, gradient, rcond=None)[0]))
