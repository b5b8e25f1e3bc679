"""Bulk data movement in LLVM code: copies, fills, and transposition between rows and lanes.

The cases of a batch are rows in memory; vector code needs one vector per element (columns). Short
rows are transposed in registers. Long rows, and runs of many stores, become loops: as straight-line
code LLVM would need seconds for some hundred loads and stores and minutes for some thousand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiburon.native.llvm import LlvmMachine, LlvmTarget, element, load, pairwise_sum
from tiburon.native.target import Ref, Slots

Origins = dict[Ref, tuple[Ref, int]]
"""Array and place that values were loaded from."""

SHORTEST_COPY = 16
"""Numbers that are moved together by a loop, rather than one by one."""

LONG_COPY = 64
"""Neighbors that stay neighbors and get a loop of their own, without a table of places."""

MOST_LOOPS = 16
"""Loops beyond which one loop with a table of places, or over everything, takes their place."""

MANY_RESULTS = 64
"""Results of one call from which on only those are loaded that straight-line code reads."""

STORES_AT_ONCE = 32
"""Straight stores between fences. A fence is no instruction; it keeps LLVM from comparing the
places of hundreds of stores with each other, which takes it seconds."""


def store_numbers(
    target: LlvmTarget,
    stack_lines: list[str],
    values: Sequence[Ref],
    origins: Origins,
    there: Slots,
    *,
    align: str = "",
) -> None:
    """Emit the stores of numbers side by side.

    Args:
        target: Where to emit.
        stack_lines: Lines at the very start of the function, for its stack arrays.
        values: References of the numbers.
        origins: Where some of them lie; they are moved from there.
        there: Where they go. Numbers that lie in that very array stay where they are.
        align: What stands behind a straight store.
    """
    constants: dict[Ref, list[int]] = {}
    moved: dict[Ref, list[tuple[int, int]]] = {}
    straight: list[int] = []
    settled = False
    for place, value in enumerate(values):
        if value in origins:
            array, source = origins[value]
            if array == there.address and source == there.offset + place:
                settled = True
            else:
                moved.setdefault(array, []).append((place, source))
        elif value.startswith("%"):
            straight.append(place)
        else:
            constants.setdefault(value, []).append(place)
    # the most frequent constant first: where it is everywhere, it goes everywhere
    for value, places in sorted(constants.items(), key=lambda item: -len(item[1])):
        stretches = _stretches(places)
        if len(stretches) > MOST_LOOPS and len(places) > len(values) // 4 and not settled:
            _fill(target, stack_lines, value, there, 0, len(values))
        else:
            for start, end in stretches:
                if end - start >= SHORTEST_COPY and len(stretches) <= MOST_LOOPS:
                    _fill(target, stack_lines, value, there, start, end)
                else:
                    straight += range(start, end)
        settled = True
    for array, pairs in moved.items():
        left = _copy_neighbors(target, stack_lines, array, there, pairs)
        if len(left) >= SHORTEST_COPY:
            _copy_scattered(target, stack_lines, array, there, left)
        else:
            straight += [place for place, _ in left]
    for count, place in enumerate(sorted(straight)):
        if len(values) > STORES_AT_ONCE and count % STORES_AT_ONCE == 0:
            target.lines.append('  fence syncscope("singlethread") seq_cst')
        address = target.emit(
            f"getelementptr {target.float_type}, ptr {there.address}, i64 {there.offset + place}"
        )
        target.lines.append(f"  store {target.float_type} {values[place]}, ptr {address}{align}")


def whole_array(values: Sequence[Ref], origins: Origins) -> Slots | None:
    """Return where numbers already lie side by side in order, None if they do not."""
    known = origins.get(values[0]) if values else None
    if known is None:
        return None
    array, first = known
    whole = all(origins.get(value) == (array, first + k) for k, value in enumerate(values))
    return Slots(array, offset=first) if whole else None


def copy_run(
    target: LlvmTarget, stack_lines: list[str], origin: Slots, given: Slots, length: int
) -> None:
    """Emit a loop that copies numbers side by side."""
    m = _copy_machine(target, stack_lines)
    for place in m.loop(0, length, independent=True):
        m.store_slot(given, place, m.load_slot(origin, place))


def _copy_machine(target: LlvmTarget, stack_lines: list[str]) -> LlvmMachine:
    return LlvmMachine(target, "", stack_lines, labels=f"copy{len(stack_lines)}_")


def _stretches(places: Sequence[int]) -> list[tuple[int, int]]:
    """Return start and end of each stretch of neighbors."""
    found: list[tuple[int, int]] = []
    for place in places:
        if found and found[-1][1] == place:
            found[-1] = (found[-1][0], place + 1)
        else:
            found.append((place, place + 1))
    return found


def _fill(
    target: LlvmTarget, stack_lines: list[str], value: Ref, there: Slots, start: int, end: int
) -> None:
    """Emit a loop that stores one number at many places."""
    m = _copy_machine(target, stack_lines)
    for place in m.loop(start, end, independent=True):
        m.store_slot(there, place, value)


def _copy_neighbors(
    target: LlvmTarget,
    stack_lines: list[str],
    array: Ref,
    there: Slots,
    pairs: Sequence[tuple[int, int]],
) -> list[tuple[int, int]]:
    """Emit loops for long runs of neighbors that stay so; return place and source of the others."""
    runs: list[list[tuple[int, int]]] = []
    for pair in pairs:
        if runs and pair == (runs[-1][-1][0] + 1, runs[-1][-1][1] + 1):
            runs[-1].append(pair)
        else:
            runs.append([pair])
    least = SHORTEST_COPY if len(runs) == 1 else LONG_COPY
    long = [run for run in runs if len(run) >= least]
    if len(long) > MOST_LOOPS:
        return list(pairs)
    for run in long:
        place, source = run[0]
        to = Slots(there.address, offset=there.offset + place)
        copy_run(target, stack_lines, Slots(array, offset=source), to, len(run))
    return [pair for run in runs if len(run) < least for pair in run]


def _copy_scattered(
    target: LlvmTarget,
    stack_lines: list[str],
    array: Ref,
    there: Slots,
    pairs: Sequence[tuple[int, int]],
) -> None:
    """Emit a loop over tables of places and sources."""
    m = _copy_machine(target, stack_lines)
    places, sources = (target.table([pair[k] for pair in pairs]) for k in (0, 1))
    for k in m.loop(0, len(pairs)):
        number = m.load_slot(Slots(array), m.lookup_index(sources, k))
        m.store_slot(there, m.lookup_index(places, k), number)


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
    m = _staging_machine(target, stack_lines)
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
    m = _staging_machine(target, stack_lines)
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
    m = _staging_machine(vector, stack_lines)
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


def load_staged(target: LlvmTarget, array: Slots, place: int) -> Ref:
    """Emit the load of one vector of a staged row."""
    return load(target, target.float_type, array.address, place)


def _staging_machine(target: LlvmTarget, stack_lines: list[str]) -> LlvmMachine:
    return LlvmMachine(target, "", stack_lines, labels=f"stage{len(stack_lines)}_")


def _moved(target: LlvmTarget, starts: Sequence[Ref], offset: int | Ref) -> list[Ref]:
    return [element(target, "double", start, offset) for start in starts]
