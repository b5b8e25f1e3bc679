"""Large mechanisms whose constraints repeat each other: the shortest forces, and the rank."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from benchmarks.mechanisms import four_bar_state, four_bars
from tests.loops.dense import dense_constraints
from tests.loops.mechanisms import planar_hand
from tests.loops.test_methods import dense, motion
from tiburon.loops.elimination import loop_pattern

RANDOM = np.random.default_rng(35)

EARTH = (0.0, 0.0, -9.81)


def pinned_again(count, every):
    """A row of four-bars, some of whose pins are doubled."""
    model = four_bars(count)
    more = [
        replace(pin, name=f"{pin.name} again", joint=replace(pin.joint, name=f"{pin.name} again"))
        for pin in model.loops[::every]
    ]
    return tb.Model("pinned again", model.bodies, loops=[*model.loops, *more])


def check(model, q, v, found, forces, expected, rank):
    assert np.abs(dense_constraints(model, q).value).max() < 1e-13
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found.vd, expected, atol=1e-10 * scale)
    np.testing.assert_allclose(found.multipliers, forces, atol=1e-9 * np.abs(forces).max())
    assert found.rank == rank


@pytest.mark.parametrize("every", [1, 2, 5])
def test_doubled_pins_share_their_load(every):
    model = pinned_again(40, every)
    assert loop_pattern(model).is_large
    q, v = four_bar_state(40, 0.4)
    tau = RANDOM.standard_normal(model.nv)
    expected, forces, _, rank = dense(model, q, v, tau, EARTH)
    assert rank == 80
    check(model, q, v, motion(model, q, v, tau, "augmented", EARTH), forces, expected, rank)
    # two pins in one place carry half each
    names = tb.constraint_names(model)
    both = [k for k, name in enumerate(names) if name.startswith(("pin_0.", "pin_0 again."))]
    shares = forces[both].reshape(2, -1)
    np.testing.assert_allclose(shares[0], shares[1], atol=1e-9 * np.abs(forces).max())


@pytest.mark.parametrize("fingers", [[2] * 50, [2] * 20 + [4] * 20], ids=["table", "hand"])
def test_a_load_on_many_legs(fingers):
    """Far more legs than are needed, around one body: statics alone cannot tell their forces."""
    model = planar_hand(fingers)
    assert loop_pattern(model).is_large
    q, rest = model.neutral(), np.zeros(model.nv)
    tau = RANDOM.standard_normal(model.nv)
    expected, forces, _, rank = dense(model, q, rest, tau, EARTH)
    assert rank < len(loop_pattern(model).live)
    check(model, q, rest, motion(model, q, rest, tau, "augmented", EARTH), forces, expected, rank)


def test_flat_on_one_line_half_of_the_constraints_are_none():
    """A singular pose of a large row of four-bars: 41 freedoms to first order."""
    model = four_bars(40)
    q, v = four_bar_state(40, np.pi / 2)
    tau = RANDOM.standard_normal(model.nv)
    expected, forces, _, rank = dense(model, q, v, tau, EARTH)
    assert rank == 40
    check(model, q, v, motion(model, q, v, tau, "augmented", EARTH), forces, expected, rank)


@pytest.mark.slow
def test_natively_too():
    """Compiled, in a batch with a case that has nothing to share."""
    model = pinned_again(33, 3)
    states = [four_bar_state(33, angle) for angle in (0.3, 1.1)]
    tau = RANDOM.standard_normal((2, model.nv))
    q, v = (np.array(part) for part in zip(*states, strict=True))
    found = tb.loop_dynamics(model, q, v, tau)
    for case in range(2):
        expected, forces, _, rank = dense(model, q[case], v[case], tau[case], EARTH)
        np.testing.assert_allclose(
            found.constraint_force[case], forces, atol=1e-9 * np.abs(forces).max()
        )
        np.testing.assert_allclose(
            found.acceleration[case], expected, atol=1e-10 * np.abs(expected).max()
        )
        assert found.rank[case] == rank == 66


def test_work_grows_in_proportion_where_constraints_repeat():
    """What is left out early fills nothing in: twice the bars, twice the entries."""
    small, large = (loop_pattern(pinned_again(count, 1)) for count in (40, 80))
    assert large.saddle.stored < 2.2 * small.saddle.stored
    assert large.shortest.stored < 2.2 * small.shortest.stored
