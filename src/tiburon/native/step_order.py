"""The order of steps: few numbers at a time in use, so that registers suffice more often.

A store costs as much as a fused multiply-add on hardware where both need the same ports, so the
order is chosen for few stores. The order of the algorithm is a good one to begin with; of the next
few dozen steps that could run, the one goes first that ends the use of numbers in registers and
needs none that had to leave them.
"""

from __future__ import annotations

import heapq
from collections.abc import Set

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
