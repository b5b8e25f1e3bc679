"""Many numbers moved from where they lie to where they are wanted, by loops.

In straight lines LLVM would take seconds over some hundred loads and stores, and minutes over some
thousand.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiburon.native.llvm_machine import LlvmMachine
from tiburon.native.llvm_target import LlvmTarget
from tiburon.native.machine import Slots
from tiburon.native.target import Ref

Origins = dict[Ref, tuple[Ref, int]]
"""Array and place that values were loaded from."""

SHORTEST_COPY = 16
"""Numbers that are moved together by a loop, rather than one by one."""

LONG_COPY = 64
"""Neighbors that stay neighbors and get a loop of their own, without a table of places."""

MOST_LOOPS = 16
"""Loops beyond which one loop with a table of places, or over everything, takes their place."""

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
    m = _machine(target, stack_lines)
    for place in m.loop(0, length, independent=True):
        m.store_slot(given, place, m.load_slot(origin, place))


def _machine(target: LlvmTarget, stack_lines: list[str]) -> LlvmMachine:
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
    m = _machine(target, stack_lines)
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
    m = _machine(target, stack_lines)
    places, sources = (target.table([pair[k] for pair in pairs]) for k in (0, 1))
    for k in m.loop(0, len(pairs)):
        number = m.load_slot(Slots(array), m.lookup_index(sources, k))
        m.store_slot(there, m.lookup_index(places, k), number)
