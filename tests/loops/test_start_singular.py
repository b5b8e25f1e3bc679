"""Where robots with loops may rest at the start, and where they could go several ways."""

import numpy as np
import pytest

import tiburon as tb
from benchmarks.mechanisms import four_bar_state, four_bars
from tests.loops.mechanisms import stretched_elbow
from tiburon.loops.start import closed_start


def test_many_four_bars_flat_on_one_line_could_go_many_ways():
    """Almost all first-order motions are none: the search for poses nearby must not give up."""
    model = four_bars(12)
    q, v = four_bar_state(12, np.pi / 2)
    rest = np.zeros((1, model.nv))
    with pytest.raises(tb.DomainError, match="12 independent constraints here") as caught:
        closed_start(model, q[None], rest, 0.0)
    assert "project_velocity" in str(caught.value)
    # a velocity chooses, and beside the pose there is nothing to choose
    assert closed_start(model, q[None], v[None], 0.0).v is not None
    beside, _ = four_bar_state(12, np.pi / 2 - 0.05)
    closed_start(model, beside[None], rest, 0.0)


def test_a_stretched_elbow_has_nowhere_to_go_and_may_rest():
    """Singular to first order, but no way leads away: nothing needs to be chosen."""
    model = stretched_elbow()
    start = closed_start(model, np.zeros((1, 2)), np.zeros((1, 2)), 0.0)
    assert not start.q.any()
