"""How the disk cache keeps within its size, without looking at all of its files at each store.

Beside the entries lies a ledger: a file of zeros that is one byte long for every `UNIT` bytes that
were stored. Each store makes it longer by appending, which processes may do at once; its length is
all that counts. Where it says that the limit is passed, and only there, the directory is listed,
the entries not used for longest are removed, and the ledger is set to what is left. Since that
frees a tenth of the limit, listing costs each store little, however many files there are.

The ledger may say too much, where entries were replaced or removed by hand: then the directory is
listed early. It may miss what is stored while another process lists: the next listing finds it.
"""

import contextlib
import os
import re
import time
from pathlib import Path

ENTRY_NAME = r"[0-9a-f]+\.(?:kernel|link)"
"""Pattern of the names of entries: machine code, and links to it."""

TEMPORARY_NAME = rf"{ENTRY_NAME}\.[0-9]+-[0-9]+\.part"
"""Pattern of the names under which entries are written."""

LEDGER_NAME = "stored.ledger"
"""Name of the file that tells by its length how much was stored."""

UNIT = 4096
"""What one byte of the ledger stands for [bytes]: the space that disks give out at once."""

# neither links nor pipes: the ledger is a file of this directory
_PLAIN = 0
for _flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):
    _PLAIN |= getattr(os, _flag, 0)
# what is still being written after this long was left behind by a process that died
_STALE_AFTER = 3600.0
# pruning frees some room to spare, so that it is not needed again at once
_PRUNED_SHARE = 0.9


def keep_within(directory: Path, limit: int, *, stored: int, keep: str) -> None:
    """Note that an entry was stored, and remove others if all together take more than the limit.

    Args:
        directory: Where the entries are.
        limit: Space they may take together [bytes].
        stored: Size of the entry [bytes].
        keep: Name of its file, which stays.

    Raises:
        OSError: If the directory cannot be listed, or entries cannot be removed.
    """
    ledger = directory / LEDGER_NAME
    noted = _note(ledger, stored)
    if noted is not None and noted <= limit:
        return
    left = _prune(directory, limit, keep)
    with contextlib.suppress(OSError):
        file = os.open(ledger, os.O_WRONLY | os.O_CREAT | _PLAIN, 0o600)
        try:
            os.ftruncate(file, -(-left // UNIT))
        finally:
            os.close(file)


def _note(ledger: Path, stored: int) -> int | None:
    """Add an entry to the ledger; return how much it tells of [bytes], None if there was none."""
    try:
        # without O_CREAT: a ledger that begins now would not know of the entries before it
        file = os.open(ledger, os.O_WRONLY | os.O_APPEND | _PLAIN)
    except OSError:
        return None
    try:
        os.write(file, bytes(-(-stored // UNIT)))
        return os.fstat(file).st_size * UNIT
    except OSError:
        return None
    finally:
        os.close(file)


def _prune(directory: Path, limit: int, keep: str) -> int:
    """Remove the entries not used for longest, if all together take more than the limit.

    Returns:
        What the entries that are left take together [bytes].
    """
    is_entry, is_temporary = re.compile(ENTRY_NAME).fullmatch, re.compile(TEMPORARY_NAME).fullmatch
    now = time.time()
    found = []
    with os.scandir(directory) as items:
        for item in items:
            # another process may have removed it meanwhile
            with contextlib.suppress(FileNotFoundError):
                if is_entry(item.name):
                    status = item.stat(follow_symlinks=False)
                    found.append((status.st_mtime, status.st_size, item.name))
                elif is_temporary(item.name):
                    written = item.stat(follow_symlinks=False).st_mtime
                    if now - written > _STALE_AFTER:
                        os.unlink(item.path)
    total = sum(size for _, size, _ in found)
    if total <= limit:
        return total
    for _, size, name in sorted(found):
        if total <= _PRUNED_SHARE * limit:
            break
        if name != keep:
            with contextlib.suppress(FileNotFoundError):
                (directory / name).unlink()
            total -= size
    return total
