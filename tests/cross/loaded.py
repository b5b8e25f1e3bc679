"""Robots that other codes ship, loaded from their own files and compared with those codes.

The command writes the table of the documentation; run from the top of a checkout, with the `bench`
extra and the package `example-robot-data` installed::

    python -m tests.cross.loaded
"""

import importlib
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

AGREEMENT = 1e-10
"""Largest error relative to the largest number of an array. Both codes add up the same products in
another order and lose about 1e-14; files with seven digits leave rotations off by 1e-7 only if the
two codes repair them differently, which this must find."""

STATES = 4
"""Random states per robot."""

PEERS = ("tests.cross.loaded_pinocchio", "tests.cross.loaded_mujoco")
"""Modules that compare with one code each: `HEADING`, `ABOUT` and `compare_all()`."""

PAGE = Path("docs/robots_loaded.md")


@dataclass(frozen=True)
class Compared:
    """One robot file, and how far the two codes agree on it."""

    robot: str
    """Folder and name of the file."""

    peer_loads: bool
    """Whether the other code loads it."""

    loads: bool
    """Whether we do."""

    freedoms: int = 0
    """Velocity variables."""

    error: float = np.nan
    """Largest relative error of inverse dynamics, mass matrix and frame poses."""

    note: str = ""
    """What differs, or what was noticed."""

    @property
    def agrees(self):
        """Whether the numbers are the same up to rounding."""
        return self.loads and self.error <= AGREEMENT


def relative_error(ours, theirs, floor=1e-9):
    """Return the largest difference relative to the largest number.

    Args:
        ours: Our numbers.
        theirs: Those of the other code.
        floor: Numbers below this size are compared absolutely.
    """
    ours, theirs = np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float)
    assert ours.shape == theirs.shape
    if ours.size == 0:
        return 0.0
    return float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), floor))


def quietly(function, *arguments, **options):
    """Call a function and return its result and the warnings it gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*arguments, **options)
    return result, [str(warning.message) for warning in caught]


def table(compared):
    """Return the Markdown table of some robots, and a sentence that counts them."""
    lines = [
        "| robot | DoF | loads | agrees | largest error | note |",
        "|---|---|---|---|---|---|",
    ]
    for c in compared:
        loads = "yes" if c.loads else ("no" if c.peer_loads else "neither")
        agrees = ("yes" if c.agrees else "**no**") if c.loads and c.peer_loads else ""
        error = f"{c.error:.0e}" if np.isfinite(c.error) else ""
        freedoms = c.freedoms if c.loads else ""
        lines.append(f"| {c.robot} | {freedoms} | {loads} | {agrees} | {error} | {c.note} |")
    theirs = [c for c in compared if c.peer_loads]
    good = [c for c in theirs if c.agrees]
    count = f"{len(good)} of the {len(theirs)} files that the other code loads agree."
    return "\n".join(lines), count


def page():
    """Return the page of the documentation."""
    parts = [
        "# Robots loaded from files",
        "",
        "Made by `python -m tests.cross.loaded`, which loads robots that other packages ship and",
        f"compares inverse dynamics, mass matrix and the poses of all frames at {STATES} random",
        "states. *Agrees*: the largest error, relative to the largest number, is below "
        f"{AGREEMENT:g}.",
    ]
    for name in PEERS:
        try:
            peer = importlib.import_module(name)
        except ModuleNotFoundError as error:
            sys.stderr.write(f"{name}: {error}\n")
            continue
        rows, count = table(peer.compare_all())
        parts += ["", f"## {peer.HEADING}", "", peer.ABOUT, "", count, "", rows]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
