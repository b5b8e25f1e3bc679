"""Rows in memory to lanes and back: the cases of a batch lie in rows, vectors need columns."""

from __future__ import annotations

from collections.abc import Sequence

from tiburon.native.llvm_target import LlvmTarget
from tiburon.native.module_parts import element, load
from tiburon.native.target import Ref


def _shuffle(target: LlvmTarget, a: Ref, b: Ref, picked: Sequence[int]) -> Ref:
    kind = target.float_type
    listed = ", ".join(f"i32 {k}" for k in picked)
    return target.emit(f"shufflevector {kind} {a}, {kind} {b}, <{len(picked)} x i32> <{listed}>")


def _transpose(target: LlvmTarget, rows: Sequence[Ref]) -> list[Ref]:
    """Emit the transpose of a square of vectors: log2(lanes) rounds of pairwise exchange."""
    lanes = target.lanes
    square = list(rows)
    distance = 1
    while distance < lanes:
        # exchange the off-diagonal blocks of each 2 x 2 arrangement of distance x distance blocks
        low = [k if not k & distance else k - distance + lanes for k in range(lanes)]
        high = [k + distance if not k & distance else k + lanes for k in range(lanes)]
        for row in range(lanes):
            if not row & distance:
                a, b = square[row], square[row + distance]
                square[row] = _shuffle(target, a, b, low)
                square[row + distance] = _shuffle(target, a, b, high)
        distance *= 2
    return square


def columns_from_rows(target: LlvmTarget, starts: Sequence[Ref], size: int) -> list[Ref]:
    """Emit the loads of one row per lane, as one vector per element.

    Args:
        target: Where to emit.
        starts: Address of each lane's row.
        size: Numbers in a row.

    Returns:
        One vector per element of the row.
    """
    lanes = target.lanes
    columns: list[Ref] = []
    if lanes == 1:
        return [load(target, "double", starts[0], k) for k in range(size)]
    while len(columns) < size >= lanes:
        # the last square begins early enough to be full; what it reads twice is dropped
        first = min(len(columns), size - lanes)
        square = []
        for start in starts:
            address = element(target, "double", start, first)
            square.append(target.emit(f"load {target.float_type}, ptr {address}, align 8"))
        columns += _transpose(target, square)[len(columns) - first :]
    for place in range(len(columns), size):
        vector = "poison"
        for lane, start in enumerate(starts):
            number = load(target, "double", start, place)
            vector = target.emit(
                f"insertelement {target.float_type} {vector}, double {number}, i64 {lane}"
            )
        columns.append(vector)
    return columns


def rows_from_columns(target: LlvmTarget, starts: Sequence[Ref], columns: Sequence[Ref]) -> None:
    """Emit the stores of one vector per element, as one row per lane."""
    lanes, size = target.lanes, len(columns)
    done = 0
    if lanes > 1:
        while done < size >= lanes:
            # the last square begins early enough to be full and writes some numbers twice
            first = min(done, size - lanes)
            rows = _transpose(target, columns[first : first + lanes])
            for start, row in zip(starts, rows, strict=True):
                address = element(target, "double", start, first)
                target.lines.append(f"  store {target.float_type} {row}, ptr {address}, align 8")
            done = first + lanes
    for place in range(done, size):
        for lane, start in enumerate(starts):
            number = columns[place]
            if lanes > 1:
                number = target.emit(
                    f"extractelement {target.float_type} {columns[place]}, i64 {lane}"
                )
            address = element(target, "double", start, place)
            target.lines.append(f"  store double {number}, ptr {address}, align 8")
