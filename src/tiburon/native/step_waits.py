"""Steps beside those that wait for each other.

The last steps of dynamics wait for each other, body after body. The processor looks some hundred
steps ahead for others that it could do meanwhile; those of the next stage of an integrator are
farther away. They are put beside the ones that wait, as few as fill the time, for each takes a
register earlier than it had to.
"""

from __future__ import annotations

from tiburon.native.steps import Step

AHEAD = 400
"""How far a step may be moved forward. More gains nothing."""

HIDDEN = 20.0
"""Cycles of waiting that the processor hides by itself; much less or more gains less."""

PER_CYCLE = 2.0
"""Steps in a cycle: the processor multiplies two vectors."""

# cycles from the operands of a step to its result; those not named take one
_LATENCY = {
    **dict.fromkeys(("add", "sub", "mul", "floor"), 3.0),
    **dict.fromkeys(("fmadd", "fmsub", "fnmadd", "fnmsub"), 4.0),
    **dict.fromkeys(("less", "less_equal", "equal", "unordered"), 3.0),
    "choose": 2.0,
    "div": 13.0,
    "sqrt": 20.0,
}


def fill_waits(steps: list[Step]) -> list[Step]:
    """Move steps forward to where others wait.

    Args:
        steps: Steps, each after those it uses.

    Returns:
        The same steps; in the old order, except for those that were moved.
    """
    maker = {step.result: place for place, step in enumerate(steps)}
    sources = [tuple(maker[a] for a in step.args if a in maker) for step in steps]
    never = float("inf")
    # when the result of each step is there, and when its operands are
    finish = [never] * len(steps)
    left = list(range(len(steps)))
    ordered: list[Step] = []
    now, head = 0.0, 0
    while head < len(left):
        chosen, ready = -1, never
        for number in range(head, min(head + AHEAD, len(left))):
            known = 0.0
            for source in sources[left[number]]:
                if finish[source] > known:
                    known = finish[source]
            if known < ready:
                chosen, ready = number, known
                if known <= now + HIDDEN:
                    break
        place = left[chosen]
        if chosen != head:
            # those before it move back by one
            left[head + 1 : chosen + 1] = left[head:chosen]
        head += 1
        now = max(now, ready - HIDDEN)
        finish[place] = max(now, ready) + _LATENCY.get(steps[place].op, 1.0)
        now += 1.0 / PER_CYCLE
        ordered.append(steps[place])
    return ordered
