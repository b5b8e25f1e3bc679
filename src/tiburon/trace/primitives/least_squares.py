"""Equations of any shape and rank: `factor_orthogonal` and `solve_least_squares`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tiburon.errors import ShapeError
from tiburon.trace.primitives.orthogonal import FactorOrthogonal
from tiburon.trace.primitives.orthogonal_apply import ApplyOrthogonal
from tiburon.trace.primitives.primitive import (
    numbers_of,
    right_hand_sides,
    shape_of,
    solve_columns,
)

__all__ = [
    "RANK_CUT",
    "LeastSquares",
    "OrthogonalFactor",
    "factor_orthogonal",
    "solve_least_squares",
]

RANK_CUT = 1e-10
"""Columns shorter than this times the longest, after what they share is removed, are dependent."""


class OrthogonalFactor:
    """A factored matrix of any shape and rank.

    Attributes:
        shape: Rows and columns of the matrix A.
        rank: Its rank at the cut, a float or traced value; counts as constant in derivatives.
        ratio: Estimate of the smallest kept over the largest singular value (0 for a zero
            matrix); tells how far the matrix is from losing rank. Counts as constant too.
    """

    def __init__(self, shape: tuple[int, int], numbers: Sequence[Any]) -> None:
        """Keep the numbers of the factor; see `factor_orthogonal`."""
        self.shape = shape
        self.rank = numbers[-2]
        self.ratio = numbers[-1]
        self._numbers = list(numbers[:-2])

    def solve(self, b: Any) -> Any:
        """Return A^+ b: of all x with the smallest |A x - b|, the shortest.

        Args:
            b: Right-hand sides, shape (rows,) or (rows, more).

        Returns:
            Shape (columns,) or (columns, more).
        """
        return self._apply("P", b)

    def solve_transpose(self, c: Any) -> Any:
        """Return A^+T c: of all y with the smallest |A^T y - c|, the shortest.

        Args:
            c: Right-hand sides, shape (columns,) or (columns, more).

        Returns:
            Shape (rows,) or (rows, more).
        """
        return self._apply("T", c)

    def project_range(self, b: Any) -> Any:
        """Return A A^+ b: the part of b that A can produce, shape of b."""
        return self._apply("R", b)

    def project_rows(self, x: Any) -> Any:
        """Return A^+ A x: the part of x that A can see, shape of x."""
        return self._apply("W", x)

    def _apply(self, mode: str, vectors: Any) -> Any:
        primitive = ApplyOrthogonal(*self.shape, mode)
        shape, columns = right_hand_sides("vector", primitive.length, vectors)
        return solve_columns(
            shape,
            primitive.result_count,
            columns,
            lambda column: primitive.apply([*self._numbers, *column]),
        )


class LeastSquares(NamedTuple):
    """A least-squares solution and how sure it is."""

    x: Any
    """The solution, shape (columns,) or (columns, more)."""
    rank: Any
    """Rank of the matrix at the cut."""
    ratio: Any
    """Estimate of the smallest kept over the largest singular value."""


def factor_orthogonal(matrix: Any, *, cut: Any = RANK_CUT) -> OrthogonalFactor:
    """Factor a matrix of any shape and rank.

    Works on lengths, not on their squares, so the rank is decided where the digits end and not
    halfway before. Elements must lie within about 1e-150 and 1e150, or be zero.

    Args:
        matrix: A, shape (rows, columns).
        cut: Columns whose independent part is at most this times the longest count as dependent.

    Returns:
        The factor, which solves and projects.

    Raises:
        ShapeError: If it is no matrix, or empty.
    """
    shape = shape_of(matrix)
    if len(shape) != 2 or 0 in shape:
        raise ShapeError("matrix", "(rows, columns), both at least 1", shape)
    rows, columns = shape
    numbers = FactorOrthogonal(rows, columns).apply([*numbers_of(matrix), cut])
    return OrthogonalFactor((rows, columns), numbers)


def solve_least_squares(matrix: Any, b: Any, *, cut: Any = RANK_CUT) -> LeastSquares:
    """Solve A x = b in the least-squares sense; of several solutions, give the shortest.

    Args:
        matrix: A, shape (rows, columns).
        b: Right-hand sides, shape (rows,) or (rows, more).
        cut: See `factor_orthogonal`.

    Returns:
        Solution, rank and ratio.

    Raises:
        ShapeError: If the shapes do not fit.
    """
    factor = factor_orthogonal(matrix, cut=cut)
    return LeastSquares(factor.solve(b), factor.rank, factor.ratio)
