"""Bulk data movement in LLVM code: copies, fills, and transposition between rows and lanes.

The cases of a batch are rows in memory; vector code needs one vector per element (columns). Short
rows are transposed in registers. Long rows, and runs of many stores, become loops: as straight-line
code LLVM would need seconds for some hundred loads and stores and minutes for some thousand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tiburon.native.llvm import LlvmMachine, LlvmTarget, element, load, pairwise_sum
from tiburon.native.target import Ref, Slots

Origins = dict[Ref, tuple[Ref, int]]
"""Array and index that values were loaded from."""

MIN_COPY_LOOP = 16
"""Values from which on a loop moves them, rather than single instructions."""

MIN_RUN_LOOP = 64
"""Length from which on a contiguous run gets a loop of its own, without an index table."""

MAX_LOOPS = 16
"""Number of loops beyond which one loop with an index table replaces them."""

MANY_RESULTS = 64
"""Values of one array from which on loops copy them, and results are stored as soon as known."""

MOVED_AT_ONCE = 8
"""Floats that loops of code for one case move by one instruction."""

UNROLLED_MOVES = 4
"""Moves in one pass of a loop: quick code keeps what it counts in memory."""

STORES_PER_FENCE = 32
"""Single stores between compiler fences. A fence emits no instruction; it keeps LLVM from comparing
the addresses of hundreds of stores with each other, which takes seconds."""


def store_values(
    target: LlvmTarget,
    stack_lines: list[str],
    values: Sequence[Ref],
    origins: Origins,
    there: Slots,
    *,
    align: str = "",
) -> None:
    """Emit the stores of values to consecutive elements.

    Args:
        target: Where to emit.
        stack_lines: Lines at the start of the function, for its stack arrays.
        values: References of the values.
        origins: Memory locations of some of them, which loops copy from there.
        there: Destination. Values that are at their destination already are not stored.
        align: Alignment clause of single stores.
    """
    constants: dict[Ref, list[int]] = {}
    moved: dict[Ref, list[tuple[int, int]]] = {}
    straight: list[int] = []
    in_place = False
    for place, value in enumerate(values):
        if value in origins:
            array, source = origins[value]
            if array == there.address and source == there.offset + place:
                in_place = True
            else:
                moved.setdefault(array, []).append((place, source))
        elif value.startswith("%"):
            straight.append(place)
        else:
            constants.setdefault(value, []).append(place)
    # the most frequent constant fills the whole array first, if it dominates
    for value, places in sorted(constants.items(), key=lambda item: -len(item[1])):
        runs = _runs(places)
        if len(runs) > MAX_LOOPS and len(places) > len(values) // 4 and not in_place:
            _fill(target, stack_lines, value, there, 0, len(values))
        else:
            for start, end in runs:
                if end - start >= MIN_COPY_LOOP and len(runs) <= MAX_LOOPS:
                    _fill(target, stack_lines, value, there, start, end)
                else:
                    straight += range(start, end)
        in_place = True
    for array, pairs in moved.items():
        left = _copy_runs(target, stack_lines, array, there, pairs)
        if len(left) >= MIN_COPY_LOOP:
            _copy_scattered(target, stack_lines, array, there, left)
        else:
            straight += [place for place, _ in left]
    for count, place in enumerate(sorted(straight)):
        if len(values) > STORES_PER_FENCE:
            fence_stores(target, count)
        address = target.emit(
            f"getelementptr {target.float_type}, ptr {there.address}, i64 {there.offset + place}"
        )
        target.lines.append(f"  store {target.float_type} {values[place]}, ptr {address}{align}")


def fence_stores(target: LlvmTarget, count: int) -> None:
    """Emit a compiler fence before a store, if as many came before as a fence is due after."""
    if count % STORES_PER_FENCE == 0:
        target.lines.append('  fence syncscope("singlethread") seq_cst')


def whole_array(values: Sequence[Ref], origins: Origins) -> Slots | None:
    """Return the memory where values are contiguous and in order, None if there is none."""
    known = origins.get(values[0]) if values else None
    if known is None:
        return None
    array, first = known
    whole = all(origins.get(value) == (array, first + k) for k, value in enumerate(values))
    return Slots(array, offset=first) if whole else None


def copy_run(
    target: LlvmTarget, stack_lines: list[str], origin: Slots, given: Slots, length: int
) -> None:
    """Emit a loop that copies a contiguous run."""
    m = _copy_machine(target, stack_lines)
    width = MOVED_AT_ONCE if target.lanes == 1 else 1
    kind = f"<{width} x double>" if width > 1 else target.float_type
    for place in _moves(m, length, width):
        number = target.emit(f"load {kind}, ptr {m.address(origin, place)}, align 8")
        target.lines.append(f"  store {kind} {number}, ptr {m.address(given, place)}, align 8")
    for place in m.loop(length - length % width, length):
        m.store_slot(given, place, m.load_slot(origin, place))


def _moves(m: LlvmMachine, length: int, width: int) -> Iterator[Any]:
    """Write the body for the start of each whole group of consecutive elements, in a loop."""
    groups = length // width
    whole = groups // UNROLLED_MOVES
    for part in m.loop(0, whole):
        for k in range(UNROLLED_MOVES):
            yield part * (UNROLLED_MOVES * width) + k * width
    for k in range(whole * UNROLLED_MOVES, groups):
        yield k * width


def _copy_machine(target: LlvmTarget, stack_lines: list[str]) -> LlvmMachine:
    return LlvmMachine(target, "", stack_lines, labels=f"copy{len(stack_lines)}_")


def _runs(places: Sequence[int]) -> list[tuple[int, int]]:
    """Return start and end of each contiguous run of indices."""
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
    """Emit a loop that stores one value to consecutive elements."""
    m, first = _copy_machine(target, stack_lines), Slots(there.address, offset=there.offset + start)
    length = end - start
    width = MOVED_AT_ONCE if target.lanes == 1 else 1
    kind, numbers = target.float_type, value
    if width > 1:
        kind = f"<{width} x double>"
        numbers = f"<{', '.join([f'double {value}'] * width)}>"
    for place in _moves(m, length, width):
        target.lines.append(f"  store {kind} {numbers}, ptr {m.address(first, place)}, align 8")
    for place in m.loop(length - length % width, length):
        m.store_slot(first, place, value)


def _copy_runs(
    target: LlvmTarget,
    stack_lines: list[str],
    array: Ref,
    there: Slots,
    pairs: Sequence[tuple[int, int]],
) -> list[tuple[int, int]]:
    """Emit loops for long contiguous runs; return destination and source of the other values."""
    runs: list[list[tuple[int, int]]] = []
    for pair in pairs:
        if runs and pair == (runs[-1][-1][0] + 1, runs[-1][-1][1] + 1):
            runs[-1].append(pair)
        else:
            runs.append([pair])
    least = MIN_COPY_LOOP if len(runs) == 1 else MIN_RUN_LOOP
    long = [run for run in runs if len(run) >= least]
    if len(long) > MAX_LOOPS:
        if target.lanes > 1:
            return list(pairs)
        _copy_pieces(target, stack_lines, array, there, long)
        return [pair for run in runs if len(run) < least for pair in run]
    for run in long:
        place, source = run[0]
        to = Slots(there.address, offset=there.offset + place)
        copy_run(target, stack_lines, Slots(array, offset=source), to, len(run))
    return [pair for run in runs if len(run) < least for pair in run]


def _copy_pieces(
    target: LlvmTarget,
    stack_lines: list[str],
    array: Ref,
    there: Slots,
    runs: Sequence[Sequence[tuple[int, int]]],
) -> None:
    """Emit a loop over tables of pieces of runs; the last one of a run overlaps the one before."""
    width, m = MOVED_AT_ONCE, _copy_machine(target, stack_lines)
    starts = [run[min(k, len(run) - width)] for run in runs for k in range(0, len(run), width)]
    places, sources = (target.table([start[k] for start in starts]) for k in (0, 1))
    kind = f"<{width} x double>"
    for k in _moves(m, len(starts), 1):
        origin = m.address(Slots(array), m.lookup_index(sources, k))
        number = target.emit(f"load {kind}, ptr {origin}, align 8")
        place = m.address(there, m.lookup_index(places, k))
        target.lines.append(f"  store {kind} {number}, ptr {place}, align 8")


def _copy_scattered(
    target: LlvmTarget,
    stack_lines: list[str],
    array: Ref,
    there: Slots,
    pairs: Sequence[tuple[int, int]],
) -> None:
    """Emit a loop over tables of destinations and sources."""
    m = _copy_machine(target, stack_lines)
    places, sources = (target.table([pair[k] for pair in pairs]) for k in (0, 1))
    for k in _moves(m, len(pairs), 1):
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
        # swap the off-diagonal blocks of each 2 x 2 arrangement of distance x distance blocks
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
        size: Floats in a row.

    Returns:
        One vector per element of the row.
    """
    lanes = target.lanes
    columns: list[Ref] = []
    if lanes == 1:
        return [load(target, "double", starts[0], k) for k in range(size)]
    while len(columns) < size >= lanes:
        # the last square starts early enough to be full; elements that it reads again are dropped
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
            # the last square starts early enough to be full and writes some elements twice
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


PARALLEL_SUMS = 8
"""Independent partial sums of an array: an addition has a latency of several cycles."""


def stage_columns(
    target: LlvmTarget, stack_lines: list[str], starts: Sequence[Ref], size: int
) -> tuple[Slots, Ref]:
    """Emit the loop that turns one row per lane into an array of vectors.

    Lane-blocked rows are that array as they are.

    Args:
        target: Where to emit.
        stack_lines: Lines at the start of the function, for its stack arrays.
        starts: Address of each lane's row.
        size: Floats in a row.

    Returns:
        The array with one vector per element of the row, and the sum of all elements; without those
        that are lane-blocked, which were summed when they were written.
    """
    m = _staging_machine(target, stack_lines)
    lanes = target.lanes
    columns, total = m.slots(size), m.slots(1)
    m.store_slot(total, 0, target.const(0.0))
    if lanes > 1:
        blocked = are_blocked(target, starts)
        array = target.emit(f"select i1 {blocked}, ptr {starts[0]}, ptr {columns.address}")
        for _ in m.skip_if(blocked):
            _stage_rows(m, starts, size, columns, total)
        return Slots(array), m.load_slot(total, 0)
    _stage_rows(m, starts, size, columns, total)
    return columns, m.load_slot(total, 0)


def are_blocked(target: LlvmTarget, starts: Sequence[Ref]) -> Ref:
    """Emit whether the rows of all lanes are lane-blocked: element by element beside each other."""
    first, second = (target.emit(f"ptrtoint ptr {start} to i64") for start in starts[:2])
    return target.emit(f"icmp eq i64 {target.emit(f'sub i64 {second}, {first}')}, 8")


def _stage_rows(
    m: LlvmMachine, starts: Sequence[Ref], size: int, columns: Slots, total: Slots
) -> None:
    """Emit the loop of `stage_columns`."""
    target, lanes = m.target, m.target.lanes

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


def unstage_rows(
    target: LlvmTarget,
    stack_lines: list[str],
    starts: Sequence[Ref],
    array: Slots,
    size: int,
    *,
    in_place: bool = False,
) -> Ref:
    """Emit the loop that writes an array of vectors as one row per lane, or lane-blocked.

    Args:
        target: Where to emit.
        stack_lines: Lines at the start of the function, for its stack arrays.
        starts: Address of each lane's row.
        array: One vector per element of the row.
        size: Floats in a row.
        in_place: Whether the array is where lane-blocked rows are.

    Returns:
        The sum of all vectors.
    """
    m = _staging_machine(target, stack_lines)
    total = m.slots(1)
    m.store_slot(total, 0, target.const(0.0))
    if target.lanes == 1:
        _unstage(m, starts, array, size, total)
        return m.load_slot(total, 0)
    blocked = are_blocked(target, starts)
    for _ in m.skip_if(blocked):
        _unstage(m, starts, array, size, total)
    rows = target.emit(f"xor i1 {blocked}, true")
    for _ in m.skip_if(rows):
        part = sum_of_vectors(target, stack_lines, array.address, size, target.lanes)
        m.store_slot(total, 0, part)
        if not in_place:
            copy_run(target, stack_lines, array, Slots(starts[0]), size)
    return m.load_slot(total, 0)


def _unstage(m: LlvmMachine, starts: Sequence[Ref], array: Slots, size: int, total: Slots) -> None:
    """Emit the loop of `unstage_rows` for rows."""
    target, lanes = m.target, m.target.lanes
    for block in m.loop(0, size // lanes):
        first = block * lanes
        offset = first if isinstance(first, int) else first.ref
        square = [m.load_slot(array, first + number) for number in range(lanes)]
        rows_from_columns(target, _moved(target, starts, offset), square)
        so_far = m.load_slot(total, 0)
        m.store_slot(total, 0, target.add(so_far, pairwise_sum(target, square)))
    done = size - size % lanes
    rest = [m.load_slot(array, place) for place in range(done, size)]
    rows_from_columns(target, _moved(target, starts, done), rest)
    found = m.load_slot(total, 0)
    for column in rest:
        found = target.add(found, column)
    m.store_slot(total, 0, found)


def sum_of_vectors(
    target: LlvmTarget, stack_lines: list[str], pointer: Ref, count: int, lanes: int
) -> Ref:
    """Emit the loop that sums an array, a vector at a time.

    Args:
        target: Where to emit.
        stack_lines: Lines at the start of the function, for its stack arrays.
        pointer: Address of the array.
        count: Number of vectors to read.
        lanes: Floats in a vector.

    Returns:
        The sum, a vector.
    """
    vector = LlvmTarget(lanes, fused=target.fused, prefix=f"sum{len(stack_lines)}_")
    vector.lines = target.lines
    m = _staging_machine(vector, stack_lines)
    totals = [m.slots(1) for _ in range(PARALLEL_SUMS)]
    for total in totals:
        m.store_slot(total, 0, vector.const(0.0))

    def add(total: Slots, place: Any) -> None:
        first = place * lanes
        offset = first if isinstance(first, int) else first.ref
        address = element(vector, "double", pointer, offset)
        part = vector.emit(f"load {vector.float_type}, ptr {address}, align 8")
        m.store_slot(total, 0, vector.add(m.load_slot(total, 0), part))

    for block in m.loop(0, count // PARALLEL_SUMS):
        for k, total in enumerate(totals):
            add(total, block * PARALLEL_SUMS + k)
    for k in range(count - count % PARALLEL_SUMS, count):
        add(totals[0], k)
    found = [m.load_slot(total, 0) for total in totals]
    return pairwise_sum(vector, found)


def _staging_machine(target: LlvmTarget, stack_lines: list[str]) -> LlvmMachine:
    return LlvmMachine(target, "", stack_lines, labels=f"stage{len(stack_lines)}_")


def _moved(target: LlvmTarget, starts: Sequence[Ref], offset: int | Ref) -> list[Ref]:
    return [element(target, "double", start, offset) for start in starts]
