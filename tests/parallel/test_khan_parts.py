"""Distributed formulations of Khan 2002: digest 2.6 by the message log, ambiguity D1 by errors."""

import numpy as np
import pytest

import tiburon as tb
from tests.parallel.test_exchange import same
from tiburon.reproduce import khan
from tiburon.reproduce.khan_mechanism import mechanism, to_absolute

STEPS = 50
SHORT = {"duration": STEPS * 1e-3}


def in_parts(loops, exchange=None, *, zoo=False, **options):
    """Run the manipulator in dyads and platform, or in legs."""
    model = tb.load("planar_3rrr") if zoo else mechanism()
    parts = tb.partition(model, "legs")
    how = {
        "zoo": zoo,
        "execution": tb.Execution(partition=parts, exchange=exchange),
        **SHORT,
        **options,
    }
    return khan.simulated(loops, **how)


def counted(run):
    """Return the messages of a run as phase, numbers and times."""
    return [(m.phase, m.numbers, m.times) for m in run.messages]


@pytest.mark.parametrize(
    ("loops", "dyad"),
    [(tb.Penalty(1e4, implicit=False), 4), (tb.Embedding("gauss", decay=10.0), 5)],
)
def test_methods_one_and_two_exchange_states_once_a_step(loops, dyad):
    two = in_parts(loops, tb.ThreadExchange(2))
    assert counted(two) == [("state", dyad, STEPS)] * 3 + [("state", 6, STEPS)]
    # everyone receives all of them
    assert all(m.receivers == (1 - m.sender,) for m in two.messages)
    assert same(two, in_parts(loops))
    whole = khan.simulated(loops, **SHORT)
    # redundant evaluation is the undistributed run: D1
    assert np.abs(two.q - whole.q).max() < 1e-13


def test_method_three_takes_four_rounds_per_evaluation():
    two = in_parts(tb.DeNOC("minimal"), tb.ThreadExchange(2), zoo=True)
    evaluations = 4 * STEPS
    # Phi (6), Phi S (3) and the condition of the leg; 3; 3; inertia (6) and force (1) of motors
    sizes = {"reach": 6 + 3 + 1, "rate": 3, "pull": 3, "share": 6 + 1}
    expected = [(phase, n, evaluations) for phase, n in sizes.items() for _ in range(3)]
    assert counted(two)[: len(expected)] == expected
    assert same(two, in_parts(tb.DeNOC("minimal"), zoo=True))
    assert same(two, khan.simulated(tb.DeNOC("minimal"), zoo=True, **SHORT))


def test_projection_in_legs_equals_the_undivided_robot():
    run = in_parts(tb.Projection(), tb.ThreadExchange(3), zoo=True)
    whole = khan.simulated(zoo=True, **SHORT)
    assert np.abs(run.q - whole.q).max() < 1e-12


def test_held_states_of_other_parts_are_first_order():
    """Published by nobody: derived values, 8.9e-3 and 1.1e-3 at 0.5 s for k = 1e4."""
    errors = []
    for dt in (1e-3, 1e-4):
        whole = khan.simulated(tb.Penalty(1e4, implicit=False), dt=dt, duration=0.5)
        held = in_parts(
            tb.Penalty(1e4, implicit=False),
            tb.ThreadExchange(1, hold_remote=True),
            dt=dt,
            duration=0.5,
        )
        errors.append(np.abs(to_absolute(held.q[-1]) - to_absolute(whole.q[-1])).max())
    assert errors == pytest.approx([8.9e-3, 1.1e-3], rel=0.05)


def test_held_states_have_the_same_bits_in_threads():
    held = [
        in_parts(tb.Penalty(1e4, implicit=False), tb.ThreadExchange(n, hold_remote=True))
        for n in (1, 2, 4)
    ]
    assert same(held[0], held[1])
    assert same(held[0], held[2])


def test_adaptive_steps_exchange_in_every_evaluation():
    how = {
        "method": "dopri5",
        "rtol": 1e-5,
    }
    two = in_parts(tb.Penalty(1e4, implicit=False), tb.ThreadExchange(2), **how)
    assert {m.phase for m in two.messages} == {"handles", "results"}
    assert same(two, in_parts(tb.Penalty(1e4, implicit=False), **how))


def test_what_does_not_fit_is_refused():
    with pytest.raises(tb.OptionError, match="Embedding"):
        in_parts(tb.Embedding("gauss"), rtol=1e-6, method="dopri5")
    with pytest.raises(tb.OptionError, match="hold_remote"):
        in_parts(tb.Projection(), tb.ThreadExchange(1, hold_remote=True), zoo=True)
