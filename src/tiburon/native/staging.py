"""Long rows to lanes and back, by loops.

Short rows are exchanged with lanes in straight lines, in registers. For hundreds of numbers LLVM
would take minutes over that, so long rows go through an array of vectors on the stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiburon.native.llvm_machine import LlvmMachine
from tiburon.native.llvm_target import LlvmTarget
from tiburon.native.machine import Slots
from tiburon.native.module_parts import element, load
from tiburon.native.moves import Origins, store_numbers, whole_array
from tiburon.native.target import Ref
from tiburon.native.transpose import columns_from_rows, rows_from_columns

SUMS_AT_ONCE = 8
"""Sums of an array that run side by side: an addition takes several cycles to arrive."""

LONG_ROW = 64
"""Numbers in a row from which on it is staged."""


def stage_columns(
    target: LlvmTarget, stack_lines: list[str], starts: Sequence[Ref], size: int
) -> tuple[Slots, Ref]:
    """Emit the loop that turns one row per lane into an array of vectors.

    Args:
        target: Where to emit.
        stack_lines: Lines at the very start of the function, for its stack arrays.
        starts: Address of each lane's row.
        size: Numbers in a row.

    Returns:
        The array with one vector per element of the row, and the sum of all elements.
    """
    m = _machine(target, stack_lines)
    lanes = target.lanes
    columns, total = m.slots(size), m.slots(1)
    m.store_slot(total, 0, target.const(0.0))

    def keep(first: Any, vectors: Sequence[Ref]) -> None:
        for number, vector in enumerate(vectors):
            m.store_slot(columns, first + number, vector)
        if vectors:
            so_far = m.load_slot(total, 0)
            m.store_slot(total, 0, target.add(so_far, pairwise_sum(target, vectors)))

    for block in m.loop(0, size // lanes):
        first = block * lanes
        offset = first if isinstance(first, int) else first.ref
        keep(first, columns_from_rows(target, _moved(target, starts, offset), lanes))
    done = size - size % lanes
    keep(done, columns_from_rows(target, _moved(target, starts, done), size % lanes))
    return columns, m.load_slot(total, 0)


def unstage_rows(
    target: LlvmTarget,
    stack_lines: list[str],
    starts: Sequence[Ref],
    columns: Sequence[Ref],
    origins: Origins,
) -> Ref:
    """Emit the stores of one vector per element to an array, and the loop that writes the rows.

    Args:
        target: Where to emit.
        stack_lines: Lines at the very start of the function, for its stack arrays.
        starts: Address of each lane's row.
        columns: One vector per element of the row.
        origins: Where results of calls lie; neighbors are copied by a loop.

    Returns:
        The sum of all columns.
    """
    m = _machine(target, stack_lines)
    lanes, size = target.lanes, len(columns)
    total = m.slots(1)
    # results of one call are read where they lie
    array = whole_array(columns, origins)
    if array is None:
        array = m.slots(size)
        store_numbers(target, stack_lines, columns, origins, array)
    m.store_slot(total, 0, target.const(0.0))
    for block in m.loop(0, size // lanes):
        first = block * lanes
        offset = first if isinstance(first, int) else first.ref
        square = [m.load_slot(array, first + number) for number in range(lanes)]
        rows_from_columns(target, _moved(target, starts, offset), square)
        so_far = m.load_slot(total, 0)
        m.store_slot(total, 0, target.add(so_far, pairwise_sum(target, square)))
    done = size - size % lanes
    rows_from_columns(target, _moved(target, starts, done), columns[done:])
    found = m.load_slot(total, 0)
    for column in columns[done:]:
        found = target.add(found, column)
    return found


def sum_of_vectors(
    target: LlvmTarget, stack_lines: list[str], pointer: Ref, count: int, lanes: int
) -> Ref:
    """Emit the loop that adds up an array, so many numbers at a time.

    Args:
        target: Where to emit.
        stack_lines: Lines at the very start of the function, for its stack arrays.
        pointer: Address of the first number.
        count: How many vectors to read.
        lanes: Numbers in a vector.

    Returns:
        The sum, a vector.
    """
    vector = LlvmTarget(lanes, fused=target.fused, prefix=f"sum{len(stack_lines)}_")
    vector.lines = target.lines
    m = _machine(vector, stack_lines)
    totals = [m.slots(1) for _ in range(SUMS_AT_ONCE)]
    for total in totals:
        m.store_slot(total, 0, vector.const(0.0))

    def add(total: Slots, place: Any) -> None:
        first = place * lanes
        offset = first if isinstance(first, int) else first.ref
        address = element(vector, "double", pointer, offset)
        part = vector.emit(f"load {vector.float_type}, ptr {address}, align 8")
        m.store_slot(total, 0, vector.add(m.load_slot(total, 0), part))

    for block in m.loop(0, count // SUMS_AT_ONCE):
        for k, total in enumerate(totals):
            add(total, block * SUMS_AT_ONCE + k)
    for k in range(count - count % SUMS_AT_ONCE, count):
        add(totals[0], k)
    found = [m.load_slot(total, 0) for total in totals]
    return pairwise_sum(vector, found)


def pairwise_sum(target: LlvmTarget, values: Sequence[Ref]) -> Ref:
    """Emit a sum whose additions wait for each other as little as possible."""
    left = list(values)
    while len(left) > 1:
        left = [*map(target.add, left[::2], left[1::2]), *left[len(left) & ~1 :]]
    return left[0]


def load_staged(target: LlvmTarget, array: Slots, place: int) -> Ref:
    """Emit the load of one vector of a staged row."""
    return load(target, target.float_type, array.address, place)


def _machine(target: LlvmTarget, stack_lines: list[str]) -> LlvmMachine:
    return LlvmMachine(target, "", stack_lines, labels=f"stage{len(stack_lines)}_")


def _moved(target: LlvmTarget, starts: Sequence[Ref], offset: int | Ref) -> list[Ref]:
    return [element(target, "double", start, offset) for start in starts]
