"""The bytes of a file that may come from a stranger: no pipe, no device, nothing without end."""

import os
import stat
from pathlib import Path

from tiburon.errors import ModelFileError

__all__ = ["read_regular_file"]


def read_regular_file(
    path: Path, most: int, kind: str, advice: str, *, whole: bool = True
) -> bytes:
    """Return the content of a regular file of bearable size.

    Args:
        path: The file.
        most: Largest number of bytes to read.
        kind: What it should be, such as "a robot file".
        advice: What to do about a file that is too large.
        whole: Whether a longer file is refused; otherwise its beginning is returned.

    Raises:
        ModelFileError: If there is no such file, it cannot be read, or it is too large.
    """
    file = str(path)
    try:
        with open(path, "rb", opener=_open_without_waiting) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise ModelFileError(file, f"expected a file, got something else; give {kind}")
            # one byte more than allowed tells a file that grows while it is read
            content = stream.read(most + 1 if whole else most)
    except FileNotFoundError as error:
        raise ModelFileError(file, "there is no such file; check the path") from error
    except (OSError, ValueError) as error:
        raise ModelFileError(file, f"cannot be read ({error}); check the path") from error
    if len(content) > most:
        raise ModelFileError(file, f"{kind} may have {most // 2**20} MB, got more; {advice}")
    return content


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe without a writer must not make the reader wait for one."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
