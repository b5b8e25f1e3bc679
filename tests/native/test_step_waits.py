"""Steps that are moved beside those that wait: the same steps, each still after its operands."""

from __future__ import annotations

import numpy as np

from tiburon.native.step_waits import AHEAD, HIDDEN, fill_waits
from tiburon.native.steps import Step

RANDOM = np.random.default_rng(3)


def chain(name, length):
    """Steps of which each waits for the one before."""
    first = Step("mul", f"{name}0", ("x", "y"))
    return [
        first,
        *(Step("fmadd", f"{name}{k}", (f"{name}{k - 1}", "x", "y")) for k in range(1, length)),
    ]


def free(count):
    """Steps that wait for nothing."""
    return [Step("mul", f"f{k}", ("x", "y")) for k in range(count)]


def test_every_step_is_there_once_and_after_its_operands():
    steps = []
    for k in range(900):
        known = [f"s{j}" for j in RANDOM.integers(0, k, 2)] if k else ["x", "x"]
        steps.append(Step("div" if k % 7 == 0 else "mul", f"s{k}", tuple(known)))
    ordered = fill_waits(steps)
    assert sorted(ordered) == sorted(steps)
    assert ordered != steps
    place = {step.result: k for k, step in enumerate(ordered)}
    assert all(place[a] < place[s.result] for s in steps for a in s.args if a in place)


def test_what_waits_for_nothing_keeps_its_order():
    steps = [*free(300), *chain("c", 3)]
    assert fill_waits(steps) == steps


def test_free_steps_come_beside_a_long_wait():
    steps = [*chain("c", 60), *free(100)]
    ordered = fill_waits(steps)
    last = ordered.index(steps[59])
    # the chain takes four cycles a step: of them twenty are hidden, the others hold two steps each
    assert last == 59 + 100
    assert ordered[: int(HIDDEN / 4.0)] == steps[: int(HIDDEN / 4.0)]


def test_steps_far_away_stay_there():
    steps = [*chain("c", AHEAD + 40), *free(10)]
    assert fill_waits(steps)[:40] == steps[:40]
