"""One figure: ours against a peer, or ours against a limit."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.timing import Timing


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured comparison.

    With a peer the ratio peer / ours counts and must not be smaller than `must`. Without one, our
    own time counts and must not be larger than `must`.
    """

    name: str
    """What was measured, on which model."""

    ours: Timing
    """Time of our side, per evaluation [s]."""

    peer_name: str = ""
    """What it was measured against; empty if against a limit."""

    peer: Timing | None = None
    """Time of the peer, per evaluation [s]."""

    must: float | None = None
    """Bound: a ratio with a peer, a time [s] without."""

    @property
    def ratio(self) -> float | None:
        """How many times faster than the peer, by the minima; None without a peer."""
        return None if self.peer is None else self.peer.minimum / self.ours.minimum

    @property
    def met(self) -> bool | None:
        """Whether the bound holds; None if there is no bound."""
        if self.must is None:
            return None
        if self.ratio is not None:
            return self.ratio >= self.must
        return self.ours.minimum <= self.must


@dataclass(frozen=True, slots=True)
class Measurement:
    """A named family of figures, run as one."""

    name: str
    """Short name, for the command line."""

    summary: str
    """One line that says what is compared."""

    run: Callable[[float], list[Figure]]
    """Takes the time to spend on each side [s]; checks equality, then measures."""


class DisagreementError(Exception):
    """Two sides of a comparison do not compute the same thing, so no time may be compared."""


def check_equal(name: str, ours: ArrayLike, peer: ArrayLike, tolerance: float) -> None:
    """Insist that both sides give the same result.

    Args:
        name: What is compared.
        ours: Our result.
        peer: The peer's result, in our conventions.
        tolerance: Largest difference allowed, relative to the largest number of the peer's result.

    Raises:
        DisagreementError: If shapes differ, anything is not finite, or the difference is larger.
    """
    left, right = np.asarray(ours, dtype=float), np.asarray(peer, dtype=float)
    if left.shape != right.shape:
        raise DisagreementError(f"{name}: our shape {left.shape}, the peer's {right.shape}")
    if not (np.isfinite(left).all() and np.isfinite(right).all()):
        raise DisagreementError(f"{name}: a result is not finite")
    difference = np.abs(left - right).max() / np.abs(right).max()
    if difference > tolerance:
        raise DisagreementError(
            f"{name}: results differ by {difference:.1e} of the largest, allowed {tolerance:.1e}"
        )
