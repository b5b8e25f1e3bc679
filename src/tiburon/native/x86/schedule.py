"""Instruction scheduling: for low register pressure, and to hide latency.

`schedule_for_registers` is a list scheduler. Each value that leaves a register costs a store, and a
reload or a longer instruction later. The order of the algorithm is a good start; among the next few
dozen ready instructions, the scheduler prefers those that end live ranges and need no spilled
value.

`hide_latency` moves independent instructions next to long dependency chains. The last instructions
of forward dynamics form such a chain, body after body; the instructions of the next integrator
stage are beyond the reorder window of the processor.

`overlap_groups` pipelines the groups of a batch: the tail of one group runs beside the head of the
next.
"""

from __future__ import annotations

import heapq
from collections.abc import Set
from typing import NamedTuple

from tiburon.native.target import Ref
from tiburon.native.x86.instruction import X86Instruction

REGISTER_WINDOW = 60
"""Instructions that `schedule_for_registers` looks ahead. A longer window gains nothing."""

# score of an instruction: per operand that was spilled, and per position it moves forward
_RELOAD_PENALTY = 0.3
_DISTANCE_PENALTY = 0.02

LATENCY_WINDOW = 400
"""Instructions that `hide_latency` looks ahead. A longer window gains nothing."""

HIDDEN_CYCLES = 20.0
"""Latency that the processor hides itself [cycles]; much lower or higher values gain less."""

INSTRUCTIONS_PER_CYCLE = 2.0
"""Throughput: two vector multiplications per cycle."""

# latency [cycles]; 1 for all other operations
_LATENCY = {
    **dict.fromkeys(("add", "sub", "mul", "floor"), 3.0),
    **dict.fromkeys(("fmadd", "fmsub", "fnmadd", "fnmsub"), 4.0),
    **dict.fromkeys(("less", "less_equal", "equal", "unordered"), 3.0),
    "select": 2.0,
    "div": 13.0,
    "sqrt": 20.0,
}


def schedule_for_registers(
    instructions: list[X86Instruction], results: Set[Ref], registers: int
) -> list[X86Instruction]:
    """Schedule instructions for few spills.

    Args:
        instructions: In an order that respects their dependencies.
        results: Values that are live after the last instruction.
        registers: Number of vector registers.

    Returns:
        The same instructions in another order that respects their dependencies.
    """
    producer = {instruction.result: k for k, instruction in enumerate(instructions)}
    # operands in memory occupy no register for long
    sources = [
        tuple({producer[a] for a in instruction.args if a in producer})
        for instruction in instructions
    ]
    users: list[list[int]] = [[] for _ in instructions]
    for k, needed in enumerate(sources):
        for source in needed:
            users[source].append(k)
    uses_left = [
        len(users[k]) + (instruction.result in results)
        for k, instruction in enumerate(instructions)
    ]
    missing = [len(needed) for needed in sources]

    waiting = [k for k, count in enumerate(missing) if count == 0]
    heapq.heapify(waiting)
    ready: list[int] = []
    # values in registers, least recently used first
    in_registers: dict[int, None] = {}
    done = [False] * len(instructions)
    scheduled: list[X86Instruction] = []
    first = 0
    while len(scheduled) < len(instructions):
        while done[first]:
            first += 1
        while waiting and waiting[0] <= first + REGISTER_WINDOW:
            ready.append(heapq.heappop(waiting))
        best, best_score, best_position = 0, float("-inf"), 0
        for number, position in enumerate(ready):
            score = _DISTANCE_PENALTY * (first - position)
            for source in sources[position]:
                if source not in in_registers:
                    score -= _RELOAD_PENALTY
                elif uses_left[source] == 1:
                    score += 1.0
            if score > best_score or (score == best_score and position < best_position):
                best, best_score, best_position = number, score, position
        chosen = ready[best]
        ready[best] = ready[-1]
        ready.pop()
        done[chosen] = True
        scheduled.append(instructions[chosen])
        for source in sources[chosen]:
            uses_left[source] -= 1
            in_registers.pop(source, None)
            if uses_left[source]:
                in_registers[source] = None
        in_registers[chosen] = None
        while len(in_registers) > registers:
            del in_registers[next(iter(in_registers))]
        for user in users[chosen]:
            missing[user] -= 1
            if missing[user] == 0:
                heapq.heappush(waiting, user)
    return scheduled


def hide_latency(instructions: list[X86Instruction]) -> list[X86Instruction]:
    """Move independent instructions forward to where others wait for their operands.

    As few as fill the time: each occupies a register earlier than necessary.

    Args:
        instructions: In an order that respects their dependencies.

    Returns:
        The same instructions, in the old order except for those that moved.
    """
    producer = {instruction.result: k for k, instruction in enumerate(instructions)}
    sources = [tuple(producer[a] for a in i.args if a in producer) for i in instructions]
    never = float("inf")
    # cycle in which each result is available
    available = [never] * len(instructions)
    left = list(range(len(instructions)))
    scheduled: list[X86Instruction] = []
    now, head = 0.0, 0
    while head < len(left):
        chosen, ready = -1, never
        for number in range(head, min(head + LATENCY_WINDOW, len(left))):
            operands_ready = 0.0
            for source in sources[left[number]]:
                if available[source] > operands_ready:
                    operands_ready = available[source]
            if operands_ready < ready:
                chosen, ready = number, operands_ready
                if operands_ready <= now + HIDDEN_CYCLES:
                    break
        position = left[chosen]
        if chosen != head:
            # the instructions it overtakes move back by one
            left[head + 1 : chosen + 1] = left[head:chosen]
        head += 1
        now = max(now, ready - HIDDEN_CYCLES)
        available[position] = max(now, ready) + _LATENCY.get(instructions[position].op, 1.0)
        now += 1.0 / INSTRUCTIONS_PER_CYCLE
        scheduled.append(instructions[position])
    return scheduled


class Overlap(NamedTuple):
    """Instructions of two groups of cases: the head of one, the tail of the previous one.

    Attributes:
        instructions: The instructions. Names of values of the previous group end in `PREVIOUS`.
        kept: Values of the head that the tail of the same group reads, one call later.
        ends: Name of each result as the tail defines it.
    """

    instructions: list[X86Instruction]
    kept: list[Ref]
    ends: dict[Ref, Ref]


PREVIOUS = "~"
"""Suffix of the names of values of the previous group."""

# The last instructions of dynamics form a dependency chain, body after body, so the last seventh
# takes longer than its share. It runs beside the first part of the next group; spread over more of
# it, its values would take registers from the rest.
_HEAD_SHARE = 0.86
_OVERLAPPED_SHARE = 0.45
_CHUNK = 4


def overlap_groups(instructions: list[X86Instruction], results: Set[Ref]) -> Overlap:
    """Interleave the tail of one group of cases with the head of the next.

    Args:
        instructions: All instructions of one group, scheduled.
        results: Values that are live after the last instruction.

    Returns:
        The head of a group and the tail of the previous one. The tail defines all results: those
        that the head has computed already are copied.
    """
    cut = int(len(instructions) * _HEAD_SHARE)
    head, tail = instructions[:cut], instructions[cut:]
    wanted = {value for instruction in tail for value in instruction.args} | results
    kept = [instruction.result for instruction in head if instruction.result in wanted]
    late = [
        X86Instruction(i.op, i.result + PREVIOUS, tuple(a + PREVIOUS for a in i.args), i.shift)
        for i in tail
    ]
    ends = {value: value + PREVIOUS for value in results}
    for value in kept:
        if value in results:
            ends[value] = f"copy {value}"
            late.append(X86Instruction("copy", ends[value], (value + PREVIOUS,)))
    overlapped = int(len(head) * _OVERLAPPED_SHARE)
    merged: list[X86Instruction] = []
    done = 0
    for first in range(0, overlapped, _CHUNK):
        stop = min(first + _CHUNK, overlapped)
        merged += head[first:stop]
        share = len(late) * stop // overlapped
        merged += late[done:share]
        done = share
    return Overlap([*merged, *late[done:], *head[overlapped:]], kept, ends)
