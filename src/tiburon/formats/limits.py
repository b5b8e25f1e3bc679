"""Time and size limits for reading untrusted robot files.

Every reader gets its bytes from `read_bytes` and reports to a `Budget`, so that an absurd file
raises an error instead of exhausting memory or time.
"""

import time
from pathlib import Path
from typing import NoReturn

from tiburon.errors import ModelFileError
from tiburon.regular_file import read_regular_file

FILE_BYTES = 64 * 2**20
"""Largest file read [bytes]; the largest known robot files, without meshes, have about 1 MB."""

MAX_LINKS = 20_000
"""Most bodies in one robot."""

MAX_DEPTH = 2_000
"""Most bodies between the world and a tip."""

MAX_MAGNITUDE = 1e50
"""Magnitude from which values are rejected: products of such values would overflow."""

MAX_SECONDS = 10.0
"""Longest processor time spent on one file [s]."""


class Budget:
    """Time and size limits for one file and those it includes.

    Processor time counts, of the thread that made the budget and of processes that work for it: a
    busy machine refuses no file.

    Attributes:
        file: Name of the file in messages.
        deadline: Time limit on the clock of `time.thread_time` [s].
    """

    __slots__ = ("deadline", "file")

    def __init__(self, file: str, seconds: float = MAX_SECONDS) -> None:
        """Begin to count.

        Args:
            file: Name of the file in messages.
            seconds: Processor time that reading may take [s].
        """
        self.file = file
        self.deadline = time.thread_time() + seconds

    @property
    def left(self) -> float:
        """Processor time that is left [s], not negative."""
        return max(0.0, self.deadline - time.thread_time())

    def spend(self, seconds: float) -> None:
        """Count processor time of another process [s]."""
        self.deadline -= seconds

    def check_time(self) -> None:
        """Raise `ModelFileError` after the deadline."""
        if time.thread_time() > self.deadline:
            self.exceed()

    def exceed(self) -> NoReturn:
        """Raise `ModelFileError`: reading takes too long."""
        raise ModelFileError(
            self.file,
            f"reading must take at most {MAX_SECONDS:g} s of processor time, got more; split the "
            "file, or build the robot in Python",
        )

    def check_links(self, count: int) -> None:
        """Raise `ModelFileError` if there are too many bodies."""
        if count > MAX_LINKS:
            raise ModelFileError(
                self.file,
                f"a robot from a file may have {MAX_LINKS} links, got {count} or more; build it in "
                "Python if this is intended",
            )

    def check_depth(self, depth: int, name: str) -> None:
        """Raise `ModelFileError` if a body is too deep in the tree."""
        if depth > MAX_DEPTH:
            raise ModelFileError(
                self.file,
                f"trees may be {MAX_DEPTH} links deep, got more on the path to {name!r}; "
                "build the robot in Python if this is intended",
                element=f"link {name!r}",
            )


def read_bytes(path: Path, *, most: int = FILE_BYTES, whole: bool = True) -> bytes:
    """Return the content of a regular file of limited size.

    Args:
        path: The file.
        most: Largest number of bytes to read.
        whole: Whether a longer file is an error; otherwise its beginning is returned.

    Raises:
        ModelFileError: If there is no such file, it cannot be read, or it is too large.
    """
    advice = "keep meshes in separate files"
    return read_regular_file(path, most, "a robot file", advice, whole=whole)


def read_start(path: Path) -> bytes:
    """Return the first bytes of a regular file, enough to detect its format."""
    return read_bytes(path, most=65536, whole=False)
