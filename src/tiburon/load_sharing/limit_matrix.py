"""Limits A2 of a problem that also has exact friction cones, which no row of A2 states.

Whoever takes W, c, A1, b1, A2 and b2 of a problem must not lose its cones: A2 carries them.
"""

from collections.abc import Sequence
from typing import Any, Self, cast

import numpy as np

from tiburon.arrays import Array
from tiburon.errors import DomainError

Cones = tuple[tuple[int, int, int], ...]


class LimitMatrix(np.ndarray[Any, np.dtype[np.float64]]):
    """Rows of A2, shape (..., limits, unknowns), with the friction cones beside them.

    Copies, and cases and rows chosen by an index, keep the cones. Other arrays made of it, such as
    some of its columns, do not: `cones_of` refuses these.
    """

    cones: Cones
    """Columns of the two tangents and the normal of each cone."""

    mu: Array | None
    """Coefficient of each cone, shape (..., cones); None where they are lost."""

    @classmethod
    def of(cls, rows: Array, cones: Sequence[tuple[int, int, int]], mu: Array | None) -> Self:
        """Return rows with cones.

        Args:
            rows: A2, shape (..., limits, unknowns).
            cones: Columns of the two tangents and the normal of each cone.
            mu: Coefficient of each, shape (..., cones).
        """
        found = np.asarray(rows).view(cls)
        found.cones, found.mu = tuple(cones), mu
        return found

    def __array_finalize__(self, source: Any) -> None:
        self.cones = getattr(source, "cones", ())
        same = source is not None and np.shape(source) == self.shape
        self.mu = getattr(source, "mu", None) if same else None

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if isinstance(found, LimitMatrix) and not isinstance(key, tuple):
            mu = self.mu
            # of one case the index chooses rows, otherwise cases
            found.mu = mu if mu is None or mu.ndim < 2 else mu[key]
        return found

    def __reduce__(self) -> Any:
        return LimitMatrix.of, (np.asarray(self), self.cones, self.mu)


def cones_of(A2: Any) -> tuple[Cones, Array]:
    """Return the friction cones that limits carry, and their coefficients, shape (..., cones).

    Raises:
        DomainError: If the limits were cut from those of a problem with cones.
    """
    if not isinstance(A2, LimitMatrix) or not A2.cones:
        return (), np.zeros(0)
    if A2.mu is None:
        raise DomainError(
            "A2",
            "limits with their friction cones",
            "an array made from those of a problem with exact cones",
            advice="pass cones= and mu=, or sides= to LoadSharing.of for pyramids",
        )
    return A2.cones, cast(Array, np.asarray(A2.mu, dtype=np.float64))
