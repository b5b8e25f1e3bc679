"""Reading untrusted files: regular files only, of bounded size; archives of bounded content."""

import io
import os
import stat
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

from tiburon.errors import ModelFileError, TiburonError
from tiburon.operating_system import open_flags

FileProblem = Callable[[Path, str], TiburonError]
"""Makes an error from a file and what is wrong with it: `ModelFileError` or `RunFileError`."""

MAX_MEMBERS = 10_000
"""Most arrays of a NumPy archive."""


@contextmanager
def open_regular_file(
    path: Path, kind: str, error: FileProblem = ModelFileError
) -> Iterator[BinaryIO]:
    """Open a regular file for reading; pipes, devices and sockets are refused without waiting.

    Args:
        path: The file.
        kind: What it should be, such as "a robot file".
        error: Makes the error that is raised.

    Raises:
        TiburonError: As `error` makes it: if there is no such file, it is not a regular one, or it
            cannot be read.
    """
    try:
        with open(path, "rb", opener=_open_without_waiting) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise error(path, f"expected a regular file, got something else; give {kind}")
            yield stream
    except FileNotFoundError as problem:
        raise error(path, "there is no such file; check the path") from problem
    except (OSError, ValueError) as problem:
        raise error(path, f"cannot be read ({problem}); check the path") from problem


def read_regular_file(
    path: Path,
    most: int,
    kind: str,
    advice: str,
    *,
    whole: bool = True,
    error: FileProblem = ModelFileError,
) -> bytes:
    """Return the content of a regular file of bounded size.

    Args:
        path: The file.
        most: Largest number of bytes to read.
        kind: What it should be, such as "a robot file".
        advice: What to do about a file that is too large.
        whole: Whether a longer file is refused; otherwise its beginning is returned.
        error: Makes the error that is raised.

    Raises:
        TiburonError: As `error` makes it: if there is no such file, it cannot be read, or it is
            too large.
    """
    with open_regular_file(path, kind, error) as stream:
        size = os.fstat(stream.fileno()).st_size
        fitting = size <= most or not whole
        # one byte more than allowed detects a file that grows while it is read
        content = stream.read(min(size, most) + 1 if whole else most) if fitting else b""
        if fitting and len(content) > size:
            content += stream.read(most + 1 - len(content))
    if not fitting or (whole and len(content) > most):
        raise error(path, f"{kind} may have {most // 2**20} MB, got more; {advice}")
    return content


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe without a writer must not make the reader wait for one."""
    return os.open(path, flags | open_flags("O_NONBLOCK"))


def read_arrays(
    stream: IO[bytes],
    most: int,
    *,
    packed: bool = False,
    kinds: str = "biufU",
    wanted: Container[str] | None = None,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the arrays of a NumPy archive (.npz), without unpickling, and the names of all.

    Args:
        stream: The archive.
        most: Largest size of the arrays that are returned, all together [bytes].
        packed: Whether they may be compressed; others take no more memory than the file has bytes.
        kinds: Permitted kinds of elements, as in `numpy.dtype.kind`.
        wanted: Names of the arrays to return; others are not expanded. All by default.

    Raises:
        ValueError: If the archive is not one, too large, or holds other values; damaged archives
            raise other errors as well.
    """
    import zipfile

    import numpy as np

    permitted = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) if packed else (zipfile.ZIP_STORED,)
    found: dict[str, Any] = {}
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        if len(members) > MAX_MEMBERS:
            raise ValueError(f"at most {MAX_MEMBERS} arrays are expected, got {len(members)}")
        names = tuple(member.filename.removesuffix(".npy") for member in members)
        for name, member in zip(names, members, strict=True):
            if wanted is not None and name not in wanted:
                continue
            if name in found:
                raise ValueError(f"{name[:80]} is there twice")
            if member.compress_type not in permitted:
                raise ValueError(f"{name[:80]} must not be compressed")
            most -= member.file_size
            if most < 0:
                raise ValueError(f"{name[:80]} claims {member.file_size} bytes, which is too much")
            content = io.BytesIO(archive.read(member))
            version = np.lib.format.read_magic(content)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, fortran, kind = read(content)
            if kind.kind not in kinds:
                raise ValueError(f"{name[:80]} holds {kind}, expected numbers")
            flat = np.frombuffer(content.getbuffer()[content.tell() :], kind)
            # a copy, which the caller may change
            found[name] = flat.reshape(shape, order="F" if fortran else "C").copy()
    return found, names
