"""Load machine code without LLVM: ELF objects whose relocations are all relative to their place.

Importing LLVM takes most of the time from a cached kernel to its first result. What it compiles
here needs little of a linker: code and constants refer to each other by distance, so that a mapping
of all sections at fixed distances is the loaded program. `map_object` does that on Linux x86-64; it
returns None for anything else, which LLVM then loads.

Sections are copied while their pages are writable, and become executable after that: no page is
ever both.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from tiburon.operating_system import PAGE_SIZE, PageGroup, is_linux, map_pages, unmap_pages

# layout of ELF files: System V Application Binary Interface, AMD64 supplement
_HEADER = np.dtype(
    {
        "names": ("magic", "type", "machine", "sections", "count"),
        "formats": ("S6", "<u2", "<u2", "<u8", "<u2"),
        "offsets": (0, 16, 18, 40, 60),
        "itemsize": 64,
    }
)
_SECTION = np.dtype(
    {
        "names": ("type", "flags", "offset", "size", "link", "info", "align"),
        "formats": ("<u4", "<u8", "<u8", "<u8", "<u4", "<u4", "<u8"),
        "offsets": (4, 8, 24, 32, 40, 44, 48),
        "itemsize": 64,
    }
)
_SYMBOL = np.dtype(
    {
        "names": ("name", "info", "section", "value"),
        "formats": ("<u4", "u1", "<u2", "<u8"),
        "offsets": (0, 4, 6, 8),
        "itemsize": 24,
    }
)
_RELOCATION = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
_MAGIC = b"\x7fELF\x02\x01"
_RELOCATABLE, _X86_64 = 1, 62
_CONTENT, _SYMBOLS, _RELOCATIONS, _ZEROS, _UNWINDING = 1, 2, 4, 8, 0x70000001
_WRITABLE, _IN_MEMORY, _EXECUTABLE, _PER_THREAD = 1, 2, 4, 0x400
_FUNCTION = 2
# R_X86_64_PC32 and R_X86_64_PLT32: distance from the place to the symbol, 32 bits
_DISTANCES = (2, 4)
# R_X86_64_GOTPCRELX and R_X86_64_REX_GOTPCRELX: load an address from a table, or compute it
_ADDRESSES = (41, 42)
_MOV, _LEA = 0x8B, 0x8D


class MappedObject:
    """Machine code in memory, as long as this object lives.

    Attributes:
        addresses: Address of each function, by name.
    """

    def __init__(self, address: int, size: int, addresses: dict[str, int]) -> None:
        self.addresses = addresses
        # at exit threads may still run the code: the system frees it then
        weakref.finalize(self, unmap_pages, address, size).atexit = False


class _UnsupportedError(Exception):
    """The object needs a real linker."""


def map_object(code: bytes) -> MappedObject | None:
    """Load an object file.

    Args:
        code: The file; it must come from a trusted source.

    Returns:
        The mapped code; None if this system, the kind of file or a relocation is not supported.
    """
    if not is_linux("x86_64"):
        return None
    try:
        return _map(np.frombuffer(code, dtype=np.uint8))
    except (_UnsupportedError, IndexError, ValueError, OverflowError, MemoryError, OSError):
        return None


def _require(condition: Any) -> None:
    if not condition:
        raise _UnsupportedError


def _table(file: Any, offset: int, size: int, kind: np.dtype[Any]) -> Any:
    """Return part of a file as an array of records."""
    _require(offset + size <= len(file) and size % kind.itemsize == 0)
    return file[offset : offset + size].view(kind)


def _map(file: Any) -> MappedObject:
    header = _table(file, 0, _HEADER.itemsize, _HEADER)[0]
    _require(header["magic"] == _MAGIC)
    _require((header["type"], header["machine"]) == (_RELOCATABLE, _X86_64))
    size = int(header["count"]) * _SECTION.itemsize
    sections = _table(file, int(header["sections"]), size, _SECTION)
    places, groups = _layout(sections)
    image = np.zeros(groups[-1][1], dtype=np.uint8)
    for number, place in places.items():
        section = sections[number]
        if section["type"] == _CONTENT:
            start, size = int(section["offset"]), int(section["size"])
            image[place : place + size] = _table(file, start, size, np.dtype(np.uint8))
    functions: dict[str, int] = {}
    for section in sections[sections["type"] == _SYMBOLS]:
        functions |= _functions(file, sections, section, places)
    for section in sections[sections["type"] == _RELOCATIONS]:
        if int(section["info"]) in places:
            _relocate(file, sections, section, places, image)
    address = map_pages(image.ctypes.data, len(image), groups)
    if address is None:
        raise _UnsupportedError
    found = {name: address + place for name, place in functions.items()}
    return MappedObject(address, len(image), found)


def _layout(sections: Any) -> tuple[dict[int, int], list[PageGroup]]:
    """Place sections in memory, grouped by what may be done with their pages.

    Returns:
        Place of each section by its number; start, end and protection of each group.
    """
    places: dict[int, int] = {}
    groups = []
    end = 0
    kept = [
        (number, section)
        for number, section in enumerate(sections)
        if section["flags"] & _IN_MEMORY and section["size"] and section["type"] != _UNWINDING
    ]
    _require(all(s["type"] in (_CONTENT, _ZEROS) for _, s in kept))
    _require(not any(s["flags"] & _PER_THREAD for _, s in kept))
    kinds = (
        (_EXECUTABLE, "rx"),
        (0, "r"),
        (_WRITABLE, "rw"),
    )
    for kind, protection in kinds:
        start = end
        for number, section in kept:
            if int(section["flags"]) & (_EXECUTABLE | _WRITABLE) == kind:
                align = max(int(section["align"]), 1)
                _require(align <= PAGE_SIZE)
                end = places[number] = -(-end // align) * align
                end += int(section["size"])
        end = -(-end // PAGE_SIZE) * PAGE_SIZE
        groups.append((start, end, protection))
    # nothing that is both writable and executable, and something to run
    _require(len(places) == len(kept) and groups[0][1])
    return places, groups


def _functions(file: Any, sections: Any, section: Any, places: dict[int, int]) -> dict[str, int]:
    """Return the place of each function of a symbol table."""
    symbols = _table(file, int(section["offset"]), int(section["size"]), _SYMBOL)
    names = sections[int(section["link"])]
    text = file[int(names["offset"]) : int(names["offset"]) + int(names["size"])].tobytes()
    found = {}
    for symbol in symbols[symbols["info"] & 15 == _FUNCTION]:
        if int(symbol["section"]) in places:
            start = int(symbol["name"])
            name = text[start : text.index(b"\0", start)].decode()
            found[name] = places[int(symbol["section"])] + int(symbol["value"])
    return found


def _relocate(file: Any, sections: Any, section: Any, places: dict[int, int], image: Any) -> None:
    """Write the distances of a section of relocations."""
    table = sections[int(section["link"])]
    symbols = _table(file, int(table["offset"]), int(table["size"]), _SYMBOL)
    entries = _table(file, int(section["offset"]), int(section["size"]), _RELOCATION)
    _require(np.isin(entries["type"], _DISTANCES + _ADDRESSES).all())
    wanted = symbols[entries["symbol"]]
    _require(np.isin(wanted["section"], list(places)).all())
    starts = np.zeros(len(sections), dtype=np.int64)
    starts[list(places)] = list(places.values())
    here = starts[int(section["info"])] + entries["offset"].astype(np.int64)
    there = starts[wanted["section"]] + wanted["value"].astype(np.int64) + entries["addend"]
    inside = entries["offset"] + 4 <= sections[int(section["info"])]["size"]
    distances = there - here
    _require(inside.all() and (np.abs(distances) < 2**31).all())
    # symbols are near: computing their address needs no table
    loads = here[np.isin(entries["type"], _ADDRESSES)] - 2
    _require((image[loads] == _MOV).all())
    image[loads] = _LEA
    image[here[:, None] + np.arange(4)] = distances.astype("<i4").view(np.uint8).reshape(-1, 4)
