"""Shorter instructions: addresses near a register take one byte instead of four.

Thousands of instructions in a row do not fit where the processor keeps decoded ones, so their
bytes have to be fetched again for every group of cases, and the fetching sets the pace. Operands
in memory lie in a few tables of vectors; registers that nothing else needs point into the middle
of eight vectors each, and move on when others are used more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_OPERAND = re.compile(r"(\d+)\((%\w+)\)")
# a displacement of one byte reaches from 128 bytes below a register to 127 above
_REACH = 256
_MIDDLE = 128
# a register is moved (7 bytes) for operands that save 2 or 3 bytes each
_FEWEST_USES = 3
_USES_AHEAD = 80

Page = tuple[str, int]
"""Register that points to a table, and number of the 256 bytes in it."""


def shorten_addresses(lines: Sequence[str], registers: Sequence[str]) -> list[str]:
    """Write operands in memory relative to registers that point near them.

    Args:
        lines: Instructions with at most one operand in memory each, at a distance in bytes from
            a register that they do not change.
        registers: Registers that are free.

    Returns:
        The instructions, with others in between that set the registers.
    """
    found = [_OPERAND.search(line) for line in lines]
    pages = [(m[2], int(m[1]) // _REACH) for m in found if m is not None]
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
        if page not in resident and _is_worth_it(following, use):
            if not free and resident:
                idle = max(resident, key=lambda other: next_use[other])
                # a page that is used sooner stays
                if next_use[idle] > following[use]:
                    free.append(resident.pop(idle))
            if free:
                resident[page] = free.pop()
                middle = page[1] * _REACH + _MIDDLE
                written.append(f"leaq {middle}({page[0]}), {resident[page]}")
        if page in resident:
            next_use[page] = following[use]
            distance = int(operand[1]) - page[1] * _REACH - _MIDDLE
            short = f"{distance}({resident[page]})"
            line = f"{line[: operand.start()]}{short}{line[operand.end() :]}"
        written.append(line)
        use += 1
    return written


def _next_uses(pages: Sequence[Page]) -> list[int]:
    """Give for each use of a page the number of its next use."""
    later: dict[Page, int] = {}
    following = [0] * len(pages)
    never = 2 * len(pages) + _USES_AHEAD
    for use in range(len(pages) - 1, -1, -1):
        following[use] = later.get(pages[use], never)
        later[pages[use]] = use
    return following


def _is_worth_it(following: Sequence[int], use: int) -> bool:
    """Tell whether a page is used often enough soon."""
    last = use
    for _ in range(_FEWEST_USES - 1):
        if last >= len(following):
            return False
        last = following[last]
    return last <= use + _USES_AHEAD
