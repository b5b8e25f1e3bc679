"""What one check found."""

from typing import Any

from tiburon.record import record

__all__ = ["FAILED", "LOOK", "PASSED", "SKIPPED", "Finding", "judged"]

PASSED, FAILED, LOOK, SKIPPED = "passed", "failed", "look", "skipped"
"""Verdicts: as it must be; not so; possible, but hardly meant; not asked of this robot."""


@record
class Finding:
    """The verdict of one check, and why."""

    name: str
    """What was checked."""

    verdict: str
    """"passed", "failed", "look" (possible, but hardly meant) or "skipped"."""

    text: str
    """What was found, in a sentence."""

    measured: float | None = None
    """The error, relative where not said otherwise; None for findings that are no number."""

    bound: float | None = None
    """Largest error that passes."""

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "text": self.text,
            "measured": self.measured,
            "bound": self.bound,
        }


def judged(name: str, measured: float, bound: float, text: str) -> Finding:
    """Return the finding for an error and its bound; an error that is no number fails."""
    return Finding(name, PASSED if measured <= bound else FAILED, text, float(measured), bound)
