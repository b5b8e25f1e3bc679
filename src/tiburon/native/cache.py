"""The disk cache of compiled code: one file per kernel, shared by all processes of a user.

Two levels. A link leads from what a caller requests (the structure of a model and an algorithm, and
the time stamps of all files of this package) to the digest of a traced graph; with it nothing needs
to be traced. Machine code is stored under that digest and the content of the files in `trace/` and
`native/`: it is found again after edits elsewhere, from another directory, and by another function
with the same graph.

A file is written under another name and then moved into place, so readers see all of it or nothing.
A problem here costs a compilation, never a result: damaged files are removed, and a directory that
cannot be used is reported once and then ignored.

Settings, read from the environment at each use:

- `TIBURON_CACHE_DIR`: where the files are; empty or "off" turns the cache off;
- `TIBURON_CACHE_SIZE`: how much they may take, such as "200M" or "2G"; 512 MiB by default.

Trust. Entries are machine code that will run with the user's rights. They are read only from a
directory that belongs to the user and that no one else may write to, and only if they themselves
are regular files of the user that no one else may write to: no links, pipes or devices. Directory
and file are checked after they were opened, so that they cannot be exchanged in between. Where a
system has no user ids (Windows), the cache is in the user's own profile, which access lists
protect; there only files that are not regular are refused.

Size. Beside the entries lies a ledger: a file of zeros, one byte long for every `UNIT` bytes
stored. Each store appends to it, which processes may do at once; only its length counts. When the
length exceeds the limit, the directory is listed, the least recently used entries are removed, and
the ledger is set to what remains. That frees a tenth of the limit, so listing costs each store
little. The first store of a process lists it as well, and removes what killed processes left. The
ledger overestimates where entries were replaced or removed by hand: then the directory is listed
early. It may miss what is stored while another process lists: the next listing finds it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import stat
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tiburon.errors import CacheWarning
from tiburon.native.cache_file import FORMAT_VERSION, blake2b, pack_entry, read_name, unpack_entry
from tiburon.operating_system import (
    has_users,
    lock_file,
    open_flags,
    refuses_open_targets,
    user,
    user_cache_directory,
)
from tiburon.record import record
from tiburon.version import LOADED_NS, installed_version

WRITABLE_BY_OTHERS = 0o022

_HAS_USERS = has_users()

_READ = os.O_RDONLY | open_flags("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY", "O_NOCTTY")


class UntrustedError(Exception):
    """Somebody else may have written what is in the cache."""


@contextlib.contextmanager
def trusted_directory(directory: Path) -> Iterator[int | None]:
    """Open a directory that only the user may write to.

    Args:
        directory: Of the cache.

    Yields:
        A descriptor of it, or None on systems where it is named by its path.

    Raises:
        UntrustedError: If it belongs to another user, others may write to it, or it is a link.
        OSError: If it cannot be opened.
    """
    if not _HAS_USERS:
        yield None
        return
    if stat.S_ISLNK(os.lstat(directory).st_mode):
        raise UntrustedError(f"directory '{directory}' is a link; name the directory it leads to")
    place = os.open(directory, _READ | open_flags("O_DIRECTORY"))
    try:
        _check_owner(os.fstat(place), f"directory '{directory}'", str(directory))
        yield place
    finally:
        os.close(place)


def open_to_read(path: Path, place: int | None = None) -> int:
    """Open a file that only the user may have written; never wait for a pipe.

    Args:
        path: The file.
        place: Descriptor of its directory, from `trusted_directory`; None to go by the path.

    Returns:
        A descriptor, to be closed by the caller.

    Raises:
        UntrustedError: If it is not a regular file, belongs to another user, or others may write to
            it.
        OSError: If it cannot be opened.
    """
    # a link cannot be opened without following it
    seen = os.stat(path if place is None else path.name, dir_fd=place, follow_symlinks=False)
    _check_kind(seen, path)
    file = os.open(path if place is None else path.name, _READ, dir_fd=place)
    try:
        status = os.fstat(file)
        _check_kind(status, path)
        if _HAS_USERS:
            _check_owner(status, f"file '{path}'", str(path))
    except BaseException:
        os.close(file)
        raise
    return file


def open_to_write(path: Path) -> int:
    """Create a file that only the user may read and write; it must not exist.

    Returns:
        A descriptor, to be closed by the caller.
    """
    extra = open_flags("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY")
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | extra, 0o600)


def make_directory(directory: Path) -> None:
    """Make a directory, and all above it that are missing, for the user only."""
    for path in (*reversed(directory.parents), directory):
        with contextlib.suppress(FileExistsError, IsADirectoryError):
            if not path.is_dir():
                path.mkdir(mode=0o700)


def _check_kind(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "a link" if stat.S_ISLNK(status.st_mode) else "no regular file"
        raise UntrustedError(f"file '{path}' is {kind}; remove it")


def _check_owner(status: os.stat_result, what: str, path: str) -> None:
    own = user()
    if status.st_uid != own:
        raise UntrustedError(f"{what} belongs to user {status.st_uid}, not to user {own}")
    mode = stat.S_IMODE(status.st_mode)
    if mode & WRITABLE_BY_OTHERS:
        raise UntrustedError(
            f"{what} may be written to by others (mode {mode:04o}); run 'chmod go-w {path}'"
        )


ENTRY_NAME = r"[0-9a-f]+\.(?:kernel|link)"
"""Pattern of the names of entries: machine code, and links to it."""

TEMPORARY_NAME = rf"{ENTRY_NAME}\.[0-9]+-[0-9]+\.part"
"""Pattern of the names under which entries are written."""

LEDGER_NAME = "stored.ledger"
"""Name of the file whose length measures how much was stored."""

UNIT = 4096
"""What one byte of the ledger stands for [bytes]: the space that disks give out at once."""

# neither links nor pipes: the ledger is a file of this directory
_PLAIN = open_flags("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY")
# without locks, what is still being written after this long was left by a process that died
_STALE_AFTER = 3600.0
# directories that this process has listed: the first listing removes what killed processes left
_listed: set[Path] = set()
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
    if noted is not None and noted <= limit and directory in _listed:
        return
    _listed.add(directory)
    left = _prune(directory, limit, keep)
    with contextlib.suppress(OSError):
        file = os.open(ledger, os.O_WRONLY | os.O_CREAT | _PLAIN, 0o600)
        try:
            os.ftruncate(file, -(-left // UNIT))
        finally:
            os.close(file)


def _note(ledger: Path, stored: int) -> int | None:
    """Add an entry to the ledger; return its total [bytes], None if there was no ledger."""
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
                    _remove_unfinished(item.path, now - item.stat(follow_symlinks=False).st_mtime)
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


def _remove_unfinished(path: str, age: float) -> None:
    """Remove a temporary file that no process is writing; one too many costs a compilation."""
    file = os.open(path, os.O_RDWR | _PLAIN)
    try:
        lock_file(file, shared=False)
    except (BlockingIOError, PermissionError):
        return
    except OSError:
        # a file system without locks
        if age < _STALE_AFTER:
            return
    finally:
        os.close(file)
    os.unlink(path)


DEFAULT_SIZE_LIMIT = 512 << 20
"""Space the entries may take together [bytes]."""

_CODE = ".kernel"
_LINK = ".link"
_SECONDS_PER_DAY = 86400.0
# the rooms whose files decide which code a graph becomes
_GENERATOR = ("native", "trace")
# file systems take their times from a clock that moves in steps [ns]
_CLOCK_STEP_NS = 20_000_000

# keys of machine code that this process loaded or stored
_used: set[str] = set()
_warned: set[str] = set()
_warned_lock = threading.Lock()


@record
class CacheEntry:
    """One file of the cache.

    Attributes:
        key: What it is found by.
        name: Name of the kernel, empty if the file does not say.
        size: Size of the file [bytes].
        modified: When it was written or last used, to the day [s since 1970].
    """

    key: str
    name: str
    size: int
    modified: float

    @property
    def label(self) -> str:
        """What to call it in a list: the name, else the key."""
        return self.name or self.key


def cache_enabled() -> bool:
    """Return whether TIBURON_CACHE_DIR leaves the cache on."""
    setting = os.environ.get("TIBURON_CACHE_DIR")
    return setting is None or setting.strip().lower() not in ("", "off")


def cache_directory() -> Path:
    """Return where entries are kept, or would be kept if the cache were not turned off."""
    setting = os.environ.get("TIBURON_CACHE_DIR", "")
    try:
        if setting and cache_enabled():
            return Path(setting).expanduser().absolute()
        return user_cache_directory() / "tiburon"
    except RuntimeError:
        # no home directory: a place that cannot exist, so that the first use says what to do
        return Path(os.devnull) / "tiburon"


@functools.cache
def _machine() -> bytes:
    """Describe compiler and processor, which decide what machine code a module becomes."""
    from tiburon.native.engine import host, llvm_stamp

    machine = host()
    parts = [str(FORMAT_VERSION), str(llvm_stamp()), machine.triple, machine.cpu]
    return "\n".join([*parts, machine.features]).encode()


@functools.cache
def _package() -> bytes:
    """Describe the files of this package by size and time, which is quick: it reads none.

    An edited algorithm must not find code compiled from its older self, so the version number alone
    would not do; and reading it takes 20 times as long as looking at the files.
    """
    root, files = _source_files()
    if not files:
        # imported from an archive
        return f"{root}\n{installed_version()}".encode()
    stamps = [f"{path} {status.st_size} {status.st_mtime_ns}" for path, status in files]
    if _changed_since_loaded(files):
        # what runs may be the file as it was before: other processes must not find its code
        stamps.append(os.urandom(16).hex())
    return "\n".join([root, *stamps]).encode()


def _source_files(*rooms: str) -> tuple[str, list[tuple[str, os.stat_result]]]:
    """Return the directory of this package, and the paths in it of its source files, sorted.

    Args:
        *rooms: Directories of the package to look at; all of it by default.
    """
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    found = []
    pending = [os.path.join(root, room) for room in rooms] or [root]
    with contextlib.suppress(OSError):
        while pending:
            with os.scandir(pending.pop()) as items:
                for item in items:
                    if item.name.endswith(".py"):
                        found.append((item.path[len(root) + 1 :], item.stat()))
                    elif item.name != "__pycache__" and item.is_dir():
                        pending.append(item.path)
    return root, sorted(found)


def _changed_since_loaded(files: list[tuple[str, os.stat_result]]) -> bool:
    """Return whether a file changed after this process began to load the package."""
    changes = [max(status.st_mtime_ns, status.st_ctime_ns) for _, status in files]
    return max(changes, default=0) > LOADED_NS - _CLOCK_STEP_NS


@functools.cache
def source_digest(*rooms: str) -> str:
    """Return a digest of the source files of some rooms; the version where there are none."""
    root, files = _source_files(*rooms)
    digest = blake2b(digest_size=16)
    for path, _ in files:
        with open(os.path.join(root, path), "rb") as file:
            content = file.read()
        digest.update(f"{path.replace(os.sep, '/')} {len(content)}\n".encode() + content)
    return digest.hexdigest() if files else installed_version()


def generator_stamp() -> str | None:
    """Return what identifies the code generator: the content of its files, read once per process.

    Returns:
        The stamp; None if the files changed after this process began to load them, so that the
        version that runs is unknown.
    """
    try:
        stamp = source_digest(*_GENERATOR)
    except OSError:
        return None
    return None if _changed_since_loaded(_source_files(*_GENERATOR)[1]) else stamp


def link_key(*parts: str | int | bytes) -> str:
    """Return the key of what this very installation of the package compiles for this machine.

    Args:
        parts: What is compiled and how; the order matters.

    Returns:
        32 hexadecimal digits, as of `digest_key`.
    """
    return digest_key(_machine(), _package(), *parts)


def code_key(*parts: str | int | bytes) -> str:
    """Return the key of machine code that its parts determine for this machine.

    Args:
        parts: The text of a module, or a graph and the stamp of the generator that writes it.

    Returns:
        32 hexadecimal digits, as of `digest_key`.
    """
    return digest_key(_machine(), *parts)


def digest_key(*parts: str | int | bytes) -> str:
    """Return a key of what its parts determine anywhere; their order matters.

    Returns:
        32 hexadecimal digits. Different parts give different keys, also where their texts joined
        together would be equal.
    """
    digest = blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, int):
            kind, content = b"i", str(int(part)).encode()
        elif isinstance(part, str):
            kind, content = b"s", part.encode()
        else:
            kind, content = b"b", part
        digest.update(b"%s%d:" % (kind, len(content)))
        digest.update(content)
    return digest.hexdigest()


def load_link(key: str) -> str | None:
    """Return what `store_link` stored under a key; None if there is nothing."""
    entry = _load(key, _LINK)
    return None if entry is None else entry[0]["to"]


def store_link(key: str, to: str) -> None:
    """Store a text that a key leads to, such as a graph that need not be traced then."""
    _store(key, _LINK, {"to": to}, b"")


def load_entry(key: str) -> tuple[dict[str, Any], bytes] | None:
    """Read machine code.

    Args:
        key: Its key, from `code_key`.

    Returns:
        Metadata and object code, or None if the cache does not hold it in good order.
    """
    entry = _load(key, _CODE)
    if entry is not None:
        _used.add(key)
    return entry


def machine_digest() -> str:
    """Return what machines have in common that run each other's code: compiler and processor."""
    return digest_key(_machine())


def used_entries(most: int) -> dict[str, bytes]:
    """Return the entries of machine code that this process loaded or stored, as files hold them.

    Args:
        most: Most bytes of all together; others are left out.
    """
    found: dict[str, bytes] = {}
    directory = cache_directory()
    for key in sorted(_used):
        with contextlib.suppress(OSError, UntrustedError):
            with trusted_directory(directory) as place:
                file = open_to_read(directory / f"{key}{_CODE}", place)
                with open(file, "rb") as stream:
                    content = stream.read(most + 1)
            if len(content) <= most:
                found[key] = content
                most -= len(content)
    return found


def keep_entries(entries: Mapping[str, bytes]) -> int:
    """Store entries that another process of the user sent; return how many were new.

    Args:
        entries: What `used_entries` returned there.
    """
    new = 0
    for key, content in entries.items():
        if _load(key, _CODE) is None:
            entry = unpack_entry(key, content)
            if entry is not None:
                _store(key, _CODE, *entry)
                new += 1
    return new


def _load(key: str, suffix: str) -> tuple[dict[str, Any], bytes] | None:
    if not cache_enabled():
        return None
    directory = cache_directory()
    path = directory / f"{key}{suffix}"
    try:
        with trusted_directory(directory) as place, open(open_to_read(path, place), "rb") as file:
            status = os.fstat(file.fileno())
            # a larger one was not stored here: a damaged file system, or a sparse file
            content = file.read() if status.st_size <= _size_limit() else b""
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UntrustedError as error:
        _warn_about_trust(error)
        return None
    except OSError as error:
        _warn_about_directory("read", error)
        return None
    except MemoryError:
        content = b""
    entry = unpack_entry(key, content)
    if entry is None:
        # the compiled replacement would hide it, but only if it can be written
        with contextlib.suppress(OSError):
            path.unlink()
    elif time.time() - status.st_mtime > _SECONDS_PER_DAY:
        # pruning goes by this time; once a day is enough and spares the disk
        with contextlib.suppress(OSError):
            os.utime(path)
    return entry


def store_entry(key: str, metadata: dict[str, Any], code: bytes) -> None:
    """Write machine code, replacing an entry of the same key; then keep the cache within its size.

    Args:
        key: Its key, from `code_key`.
        metadata: Texts, numbers, truth values, None, and lists, tuples and dicts of them; "name"
            is shown in lists.
        code: Object code.

    Raises:
        TypeError: If the metadata holds anything else.

    Warns:
        CacheWarning: Once per process, if the directory cannot be written.
    """
    _store(key, _CODE, metadata, code)
    _used.add(key)


def _store(key: str, suffix: str, metadata: dict[str, Any], code: bytes) -> None:
    # loading kernels does without it
    if not cache_enabled():
        return
    content = pack_entry(key, metadata, code)
    limit = _size_limit()
    if len(content) > limit:
        return
    directory = cache_directory()
    path = directory / f"{key}{suffix}"
    # no two writers share a temporary name: processes differ in number, threads in identity
    temporary = directory / f"{path.name}.{os.getpid()}-{threading.get_ident()}.part"
    try:
        make_directory(directory)
        try:
            with trusted_directory(directory), open(open_to_write(temporary), "wb") as file:
                with contextlib.suppress(OSError):
                    lock_file(file.fileno(), shared=False)
                file.write(content)
            _move(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        keep_within(directory, limit, stored=len(content), keep=path.name)
    except UntrustedError as error:
        _warn_about_trust(error)
    except OSError as error:
        _warn_about_directory("write", error)


def _move(temporary: Path, path: Path) -> None:
    try:
        os.replace(temporary, path)
    except FileNotFoundError:
        # someone emptied the cache meanwhile, and may have wanted it empty
        return
    except PermissionError:
        # then the entry is there already
        if not (refuses_open_targets() and path.exists()):
            raise
        temporary.unlink()


def _size_limit() -> int:
    """Return how much the entries may take together [bytes]."""
    setting = os.environ.get("TIBURON_CACHE_SIZE", "").strip()
    if not setting:
        return DEFAULT_SIZE_LIMIT
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?", setting.upper())
    if match is None:
        _warn_once(
            "size",
            "TIBURON_CACHE_SIZE: expected a number of bytes, or one with K, M, G or T such as "
            f"'512M', got {setting!r}; the cache keeps to {DEFAULT_SIZE_LIMIT >> 20} MiB",
        )
        return DEFAULT_SIZE_LIMIT
    number, unit = match.groups()
    return int(float(number) * 1024 ** " KMGT".index(unit or " "))


def _warn_about_directory(action: str, error: OSError) -> None:
    _warn_once(
        "directory",
        f"cache directory '{cache_directory()}': cannot {action} compiled code "
        f"({error.strerror or error}); work goes on, but kernels are compiled again in every "
        "process. Free some space or set TIBURON_CACHE_DIR to a directory that can be written "
        "('off' turns the cache off)",
    )


def _warn_about_trust(error: UntrustedError) -> None:
    _warn_once(
        "trust",
        f"cache directory '{cache_directory()}': compiled code is neither read nor written where "
        f"others could change it: {error}. Work goes on, but kernels are compiled again in every "
        "process; or set TIBURON_CACHE_DIR to a directory of your own ('off' turns the cache off)",
    )


def _warn_once(subject: str, message: str) -> None:
    with _warned_lock:
        if subject in _warned:
            return
        _warned.add(subject)
    warnings.warn(message, CacheWarning, stacklevel=3)


def cache_entries() -> list[CacheEntry]:
    """List the machine code that the cache holds, damaged files included, sorted by key.

    Returns:
        The entries; none if the directory does not exist or the cache is turned off.
    """
    if not cache_enabled():
        return []
    entries = []
    with (
        contextlib.suppress(FileNotFoundError, NotADirectoryError),
        os.scandir(cache_directory()) as items,
    ):
        for item in items:
            if re.fullmatch(ENTRY_NAME, item.name) and item.name.endswith(_CODE):
                with contextlib.suppress(FileNotFoundError):
                    status = item.stat(follow_symlinks=False)
                    key = item.name.removesuffix(_CODE)
                    name = _name_of(Path(item.path))
                    entries.append(CacheEntry(key, name, status.st_size, status.st_mtime))
    return sorted(entries, key=lambda entry: entry.key)


def _name_of(path: Path) -> str:
    """Return the name of the kernel in a file; empty if the file is not to be trusted."""
    try:
        with open(open_to_read(path), "rb") as file:
            return read_name(file)
    except FileNotFoundError:
        raise
    except (OSError, UntrustedError):
        return ""


def clear_cache() -> int:
    """Remove every entry; other files in the directory stay.

    Returns:
        Number of kernels removed.

    Raises:
        OSError: If an entry cannot be removed.
    """
    removed = 0
    if not cache_enabled():
        return removed
    with (
        contextlib.suppress(FileNotFoundError, NotADirectoryError),
        os.scandir(cache_directory()) as items,
    ):
        for item in items:
            is_entry = re.fullmatch(ENTRY_NAME, item.name) is not None
            # without a ledger the next store lists the directory, which is then short
            of_ours = item.name == LEDGER_NAME or re.fullmatch(TEMPORARY_NAME, item.name)
            if is_entry or of_ours:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(item.path)
                    removed += is_entry and item.name.endswith(_CODE)
    return removed
