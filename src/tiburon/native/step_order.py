"""The order of steps: few numbers at a time in use, so that registers suffice more often.

Every number that leaves a register costs a store, and a reload or a longer instruction later, so
the order is chosen for few stores. The order of the algorithm is a good one to begin with; of the
next few dozen steps that could run, the one goes first that ends the use of numbers in registers
and needs none that had to leave them.
"""

from __future__ import annotations

import heapq
from collections.abc import Set
from typing import NamedTuple

from tiburon.native.steps import Step
from tiburon.native.target import Ref

AHEAD = 60
"""How far a step may run ahead of the first one that waits. More gains nothing."""

# what counts for a step: numbers it needs that left the registers, and each place it runs ahead
_RELOAD = 0.3
_JUMP = 0.02


def order_steps(steps: list[Step], results: Set[Ref], registers: int) -> list[Step]:
    """Order steps so that few numbers have to leave the registers.

    Args:
        steps: Steps, each after those it uses.
        results: Values needed after the last step.
        registers: How many numbers there is room for.

    Returns:
        The same steps in another order, each after those it uses.
    """
    maker = {step.result: place for place, step in enumerate(steps)}
    sources = [
        tuple({maker[a] for a in step.args if a in maker}) for step in steps
    ]  # numbers from memory need no register for long
    users: list[list[int]] = [[] for _ in steps]
    for place, needed in enumerate(sources):
        for source in needed:
            users[source].append(place)
    uses_left = [len(users[place]) + (step.result in results) for place, step in enumerate(steps)]
    missing = [len(needed) for needed in sources]

    later = [place for place, count in enumerate(missing) if count == 0]
    heapq.heapify(later)
    open_steps: list[int] = []
    # numbers in registers; those touched longest ago come first and leave first
    held: dict[int, None] = {}
    done = [False] * len(steps)
    ordered: list[Step] = []
    first = 0
    while len(ordered) < len(steps):
        while done[first]:
            first += 1
        while later and later[0] <= first + AHEAD:
            open_steps.append(heapq.heappop(later))
        best, best_score, best_place = 0, float("-inf"), 0
        for number, place in enumerate(open_steps):
            score = _JUMP * (first - place)
            for source in sources[place]:
                if source not in held:
                    score -= _RELOAD
                elif uses_left[source] == 1:
                    score += 1.0
            if score > best_score or (score == best_score and place < best_place):
                best, best_score, best_place = number, score, place
        chosen = open_steps[best]
        open_steps[best] = open_steps[-1]
        open_steps.pop()
        done[chosen] = True
        ordered.append(steps[chosen])
        for source in sources[chosen]:
            uses_left[source] -= 1
            held.pop(source, None)
            if uses_left[source]:
                held[source] = None
        held[chosen] = None
        while len(held) > registers:
            del held[next(iter(held))]
        for user in users[chosen]:
            missing[user] -= 1
            if missing[user] == 0:
                heapq.heappush(later, user)
    return ordered


class Overlap(NamedTuple):
    """Steps of two groups of cases in one sequence: the start of one, the end of the one before.

    Attributes:
        steps: The steps. Values of the group before have names that end in `BEFORE`.
        kept: Values of the start that its end needs, when it is the group before.
        ends: Name of each result when the end has made it.
    """

    steps: list[Step]
    kept: list[Ref]
    ends: dict[Ref, Ref]


BEFORE = "~"
"""How names of values of the group before end."""

# The last steps of dynamics wait for each other, body after body, so the last seventh takes
# longer than its share. It is done beside the first steps of the next cases; spread over more of
# them, its numbers would take registers away from the rest.
_START = 0.86
_BESIDE = 0.45
_AT_ONCE = 4


def overlap_steps(steps: list[Step], results: Set[Ref]) -> Overlap:
    """Put the end of one group of cases beside the start of the next.

    Args:
        steps: All steps of one group, in order.
        results: Values needed after the last step.

    Returns:
        The start of a group and the end of the group before. All results are made by the end:
        those that the start has made already are copied.
    """
    cut = int(len(steps) * _START)
    start, end = steps[:cut], steps[cut:]
    wanted = {value for step in end for value in step.args} | results
    kept = [step.result for step in start if step.result in wanted]
    late = [
        Step(s.op, s.result + BEFORE, tuple(value + BEFORE for value in s.args), s.by) for s in end
    ]
    ends = {value: value + BEFORE for value in results}
    for value in kept:
        if value in results:
            ends[value] = f"copy {value}"
            late.append(Step("copy", ends[value], (value + BEFORE,)))
    beside = int(len(start) * _BESIDE)
    merged: list[Step] = []
    done = 0
    for first in range(0, beside, _AT_ONCE):
        upto = min(first + _AT_ONCE, beside)
        merged += start[first:upto]
        share = len(late) * upto // beside
        merged += late[done:share]
        done = share
    return Overlap([*merged, *late[done:], *start[beside:]], kept, ends)
