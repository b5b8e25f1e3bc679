"""Addressing modes: one-byte displacements instead of four-byte ones.

Thousands of straight-line instructions exceed the cache of decoded instructions, so they are
fetched and decoded again for every group of cases, and their size limits the throughput. Memory
operands are in a few tables of vectors. Free general-purpose registers point to the middle of
256-byte pages of these tables, and are reassigned like a cache of pages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_MEMORY_OPERAND = re.compile(r"(\d+)\((%\w+)\)")
# a one-byte displacement reaches from 128 bytes below a register to 127 above
_PAGE_BYTES = 256
_PAGE_MIDDLE = 128
# setting a register takes 7 bytes, a short displacement saves 2 or 3
_MIN_USES = 3
_USE_WINDOW = 80

Page = tuple[str, int]
"""Register that points to a table, and index of a 256-byte page in it."""


def shorten_addresses(lines: Sequence[str], registers: Sequence[str]) -> list[str]:
    """Rewrite memory operands relative to registers that point near them.

    Args:
        lines: Instructions with at most one memory operand each, at a displacement from a base
            register that they do not change.
        registers: Free general-purpose registers.

    Returns:
        The instructions, with `leaq` instructions that set the registers.
    """
    found = [_MEMORY_OPERAND.search(line) for line in lines]
    pages = [(m[2], int(m[1]) // _PAGE_BYTES) for m in found if m is not None]
    following = _next_uses(pages)
    resident: dict[Page, str] = {}
    next_use: dict[Page, int] = {}
    free = list(registers)
    written: list[str] = []
    use = 0
    for line, operand in zip(lines, found, strict=True):
        if operand is None:
            written.append(line)
            continue
        page = pages[use]
        if page not in resident and _is_used_often(following, use):
            if not free and resident:
                idle = max(resident, key=lambda other: next_use[other])
                # a page with an earlier next use stays
                if next_use[idle] > following[use]:
                    free.append(resident.pop(idle))
            if free:
                resident[page] = free.pop()
                middle = page[1] * _PAGE_BYTES + _PAGE_MIDDLE
                written.append(f"leaq {middle}({page[0]}), {resident[page]}")
        if page in resident:
            next_use[page] = following[use]
            displacement = int(operand[1]) - page[1] * _PAGE_BYTES - _PAGE_MIDDLE
            short = f"{displacement}({resident[page]})"
            line = f"{line[: operand.start()]}{short}{line[operand.end() :]}"
        written.append(line)
        use += 1
    return written


def _next_uses(pages: Sequence[Page]) -> list[int]:
    """Return for each use of a page the index of its next use."""
    later: dict[Page, int] = {}
    following = [0] * len(pages)
    never = 2 * len(pages) + _USE_WINDOW
    for use in range(len(pages) - 1, -1, -1):
        following[use] = later.get(pages[use], never)
        later[pages[use]] = use
    return following


def _is_used_often(following: Sequence[int], use: int) -> bool:
    """Return whether a page has enough uses in the window."""
    last = use
    for _ in range(_MIN_USES - 1):
        if last >= len(following):
            return False
        last = following[last]
    return last <= use + _USE_WINDOW
