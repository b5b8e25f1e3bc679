"""One figure: ours against a peer, or ours against a limit."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.timing import Timing


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Constraint residual and energy error of a closed mechanism, beside its time."""

    residual: float
    """Largest constraint residual, in `unit`."""

    unit: str = "m"
    """Of positions of a run, or "m/s^2": of accelerations of one call."""

    energy: float | None = None
    """Largest error of energy, relative to the largest kinetic energy; None for one call."""

    residual_must: float | None = None
    """Upper bound of `residual`."""

    energy_must: float | None = None
    """Upper bound of `energy`."""

    @property
    def met(self) -> bool | None:
        """Whether all bounds hold; None if there are none."""
        pairs = ((self.residual, self.residual_must), (self.energy, self.energy_must))
        held = [value is not None and value <= bound for value, bound in pairs if bound is not None]
        return all(held) if held else None


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured comparison.

    With a peer the ratio peer / ours counts and must not be smaller than `must`. Without one, our
    own minimum counts and must not be larger than `must`.
    """

    name: str
    """What was measured, on which model."""

    ours: Timing
    """Our side, per evaluation, in `unit`."""

    peer_name: str = ""
    """What it was measured against; empty if against a limit."""

    peer: Timing | None = None
    """The peer, per evaluation, in `unit`."""

    must: float | None = None
    """Bound: a ratio with a peer, a number in `unit` without."""

    aim: float | None = None
    """What is wished for beyond the bound, of the same kind."""

    unit: str = "s"
    """Unit of both sides: "s" or "B" (bytes)."""

    note: str = ""
    """What a reader must know to judge the figure."""

    accuracy: Accuracy | None = None
    """What our side kept of loops and energy, where there are loops."""

    peer_accuracy: Accuracy | None = None
    """What the peer kept."""

    row: str = ""
    column: str = ""
    """Its place where figures are shown as a grid, such as function by robot; empty elsewhere."""

    @property
    def ratio(self) -> float | None:
        """How many times faster than the peer, by the minima; None without a peer."""
        return None if self.peer is None else self.peer.minimum / self.ours.minimum

    def reaches(self, bound: float | None) -> bool | None:
        """Tell whether the figure is as good as a bound; None if there is no bound."""
        if bound is None:
            return None
        if self.ratio is not None:
            return self.ratio >= bound
        return self.ours.minimum <= bound

    @property
    def met(self) -> bool | None:
        """Whether all bounds hold, those of accuracy too; None if there is none."""
        kept = None if self.accuracy is None else self.accuracy.met
        held = [verdict for verdict in (self.reaches(self.must), kept) if verdict is not None]
        return all(held) if held else None

    @property
    def verdict(self) -> str:
        """The outcome in words: "MISSED", "met", "aim met", or nothing without a bound."""
        if self.met is None:
            return ""
        if not self.met:
            return "MISSED"
        return "aim met" if self.reaches(self.aim) else "met"


@dataclass(frozen=True, slots=True)
class Measurement:
    """A named family of figures, run as one."""

    name: str
    """Short name, for the command line."""

    summary: str
    """One line that says what is compared."""

    run: Callable[[float], Iterable[Figure]]
    """Takes the time to spend on each side [s]; checks equality, then measures.

    Gives figures as they are found, so that none is lost if a later one fails.
    """

    place: int
    """Where it stands in the report."""


class MeasurementError(Exception):
    """A measurement that gave no figures, through no fault of the runner."""


class DisagreementError(MeasurementError):
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
