"""Limits of thrusters and cables: thrusts and tensions between a smallest and a largest one."""

from collections.abc import Iterator

from tiburon.load_sharing.drives import Drive
from tiburon.load_sharing.limits.limit import RangeLimit
from tiburon.record import record


@record
class DriveLimit(RangeLimit):
    """Thrusts and tensions between their limits; a drive that takes no part has none."""

    drives: tuple[Drive, ...]
    """Thrusters and cables."""

    def form(self) -> "DriveLimit":
        """Return which limits there are."""
        return DriveLimit(tuple(drive.form() for drive in self.drives))

    def ranges(self) -> Iterator[tuple[str, str, tuple[float, float]]]:
        """Yield thrust or tension of each drive."""
        for drive in self.drives:
            yield drive.name, drive.kind, drive.limits
