"""Receipts: proof that a block of a sweep is on disk, with checksums of its files."""

import json
import os
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from tiburon.errors import RunFileError
from tiburon.regular_file import open_regular_file, read_regular_file
from tiburon.results.encoding import check_type
from tiburon.written_file import write_file

RECEIPT_BYTES = 2**20
"""Largest receipt [bytes]."""

READ_BYTES = 2**20
"""Bytes of a file that are hashed at a time."""


class Receipt(NamedTuple):
    """What is known of a finished block."""

    block: int
    first: int
    """Number of its first case."""

    stop: int
    """Number after that of its last case."""

    files: dict[str, tuple[int, str]]
    """Size [bytes] and checksum of each file, by its name inside the store."""

    outcomes: dict[str, int]
    """Number of cases by status."""

    messages: dict[str, str]
    """Messages of unsuccessful cases by number; not necessarily of all."""

    seconds: float
    """Wall-clock time of computing and writing it [s]."""

    started: float
    """When it was begun [s since 1970]."""

    worker: str
    """Host and process number."""

    versions: dict[str, Any]
    """Identity of the worker."""

    attempts: int
    """How often it was begun in the session that finished it."""

    session: str
    """The session that finished it: one run of a driver."""


def write_receipt(path: Path, receipt: Receipt, store: Path) -> None:
    """Write a receipt, atomically; the files it lists must be on disk.

    Raises:
        RunFileError: If it cannot be written.
    """
    text = json.dumps(receipt._asdict(), sort_keys=True)
    content = json.dumps({"receipt": text, "checksum": _digest(text.encode())})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise RunFileError(store, f"{path.parent.name} cannot be made ({reason})") from error
    write_file(path, content, lambda _, problem: RunFileError(store, problem))


def read_receipt(path: Path) -> Receipt | None:
    """Return a receipt; None if it is damaged."""
    try:
        data = json.loads(
            read_regular_file(path, RECEIPT_BYTES, "a receipt", "remove it", error=RunFileError)
        )
        text = data["receipt"]
        if _digest(text.encode()) != data["checksum"]:
            return None
        fields: dict[str, Any] = json.loads(text)
        fields["files"] = {name: (int(n), str(c)) for name, (n, c) in fields["files"].items()}
        if any(name.startswith("/") or ".." in name or "\\" in name for name in fields["files"]):
            # a path outside the store
            return None
        found = Receipt(**fields)
        whole = (found.block, found.first, found.stop, found.attempts)
        if not all(type(number) is int and number >= 0 for number in whole):
            return None
        check_type("outcomes", fields["outcomes"], dict)
        check_type("messages", fields["messages"], dict)
        return found
    except (RunFileError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def file_checksum(path: Path) -> tuple[int, str]:
    """Return size [bytes] and checksum of a file.

    Raises:
        RunFileError: If it cannot be read.
    """
    digest, size = blake2b(digest_size=16), 0
    with open_regular_file(path, "a chunk", RunFileError) as file:
        while part := file.read(READ_BYTES):
            digest.update(part)
            size += len(part)
    return size, digest.hexdigest()


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()
