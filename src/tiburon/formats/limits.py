"""What reading one robot file may cost; files come from strangers.

Every reader takes its bytes from `read_bytes` and reports to a `Budget`, so that an absurd file
ends in a sentence and not in a full memory or a frozen program.
"""

import time
from pathlib import Path

from tiburon.errors import ModelFileError
from tiburon.regular_file import read_regular_file

FILE_BYTES = 64 * 2**20
"""Largest file read [bytes]; the largest known robot files, without meshes, have about 1 MB."""

LINKS = 20_000
"""Most bodies in one robot."""

DEPTH = 2_000
"""Most bodies on the way from the world to a tip."""

LARGEST = 1e50
"""Numbers from here on are no measure of anything, and their products would overflow."""

SECONDS = 10.0
"""Longest time spent on one file [s]."""


class Budget:
    """The clock and the counts of reading one file, with those it includes.

    Attributes:
        file: The file asked for, as messages name it.
        deadline: When to give up, on the clock of `time.monotonic` [s].
    """

    __slots__ = ("deadline", "file")

    def __init__(self, file: str, deadline: float | None = None) -> None:
        self.file = file
        self.deadline = time.monotonic() + SECONDS if deadline is None else deadline

    def check_time(self) -> None:
        """Raise `ModelFileError` if the time is up."""
        if time.monotonic() > self.deadline:
            raise ModelFileError(
                self.file,
                f"reading must end within {SECONDS:g} s, and has not; split the file, or build "
                "the "
                "robot in Python",
            )

    def check_links(self, count: int) -> None:
        """Raise `ModelFileError` if there are too many bodies."""
        if count > LINKS:
            raise ModelFileError(
                self.file,
                f"a robot from a file may have {LINKS} links, got {count} or more; build it in "
                "Python if it is meant",
            )

    def check_depth(self, depth: int, name: str) -> None:
        """Raise `ModelFileError` if a body has too many others between itself and the world."""
        if depth > DEPTH:
            raise ModelFileError(
                self.file,
                f"links may stand {DEPTH} deep on one another, got more on the way to {name!r}; "
                "build the robot in Python if it is meant",
                element=f"link {name!r}",
            )


def read_bytes(path: Path, *, most: int = FILE_BYTES, whole: bool = True) -> bytes:
    """Return the content of a regular file of bearable size.

    Args:
        path: The file.
        most: Largest number of bytes to read.
        whole: Whether a longer file is refused; otherwise its beginning is returned.

    Raises:
        ModelFileError: If there is no such file, it cannot be read, or it is too large.
    """
    advice = "keep meshes in files of their own"
    return read_regular_file(path, most, "a robot file", advice, whole=whole)


def read_start(path: Path, count: int = 65536) -> bytes:
    """Return the first bytes of a regular file, enough to tell its format."""
    return read_bytes(path, most=count, whole=False)
