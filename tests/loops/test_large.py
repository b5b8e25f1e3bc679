"""Large mechanisms: special configurations, operation counts, redundant constraints."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from benchmarks.mechanisms import four_bar_state, ring
from tests.interpreted import interpreting
from tests.loops.dense import closed, dense_acceleration, dense_constraints
from tests.loops.mechanisms import planar_hand
from tests.loops.test_methods import dense, motion
from tiburon.algorithms.surroundings import DEFAULT_WORLD
from tiburon.functions.kernel_source import LibrarySource
from tiburon.loops.augmented import MAX_PIVOTED_SIZE, loop_pattern
from tiburon.loops.methods import cheaper_loop_method
from tiburon.trace.count import count
from tiburon.zoo import n_four_bar

RANDOM = np.random.default_rng(10)

COUNT = 34
"""Four-bars in a row, just above what `MAX_PIVOTED_SIZE` allows."""


def four_bar_acceleration(count, angle, rate):
    """Acceleration of the uprights: all rods move equally (Lagrange, one freedom).

    Uprights turn about their ends (1/3 kg m^2), couplers are carried along without turning
    (1 kg m^2); heights are cos(angle)/2 for uprights and cos(angle) for couplers.
    """
    inertia = (count + 1) / 3.0 + count
    weight = 9.81 * ((count + 1) / 2.0 + count)
    return weight * np.sin(angle) / inertia


@pytest.mark.parametrize("angle", [0.3, 1.2])
def test_a_row_of_four_bars_moves_as_one_pendulum(angle):
    """Couplers lie level: half of the constraint rows of a loop vanish there."""
    model = n_four_bar(COUNT)
    assert loop_pattern(model).is_large
    q, v = four_bar_state(COUNT, angle)
    assert np.abs(dense_constraints(model, q).value).max() < 1e-13
    found = tb.forward_dynamics(model, q, v, np.zeros(model.nv))
    expected = four_bar_acceleration(COUNT, angle, v[0]) * np.sign(q)
    # the ratio of singular values is some 1e-2 here, and enters squared
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_work_grows_as_a_row_of_four_bars_does():
    """Twice the four-bars take twice the operations; a tenth more for the ends."""

    def operations(bars):
        source = LibrarySource(n_four_bar(bars), ("forward_dynamics",), DEFAULT_WORLD)
        return count(source.program()).total

    assert operations(2 * COUNT) / operations(COUNT) < 2.2


def test_the_large_method_is_chosen_beyond_the_limit_of_the_dense_one():
    small, large = n_four_bar(31), n_four_bar(33)
    assert small.nv * 62 <= MAX_PIVOTED_SIZE < large.nv * 66
    assert not loop_pattern(small).is_large
    assert loop_pattern(large).is_large


def test_long_rings_are_solved_by_handles():
    assert cheaper_loop_method(ring(42)) == "handles"
    assert cheaper_loop_method(tb.load("stewart")) == "star"
    # each of its arms has five degrees of freedom for six constraints
    assert cheaper_loop_method(tb.load("delta")) == "augmented"
    assert cheaper_loop_method(n_four_bar(COUNT)) == "augmented"


@interpreting()
def test_long_ring_agrees_with_dense_algebra():
    model = ring(42)
    # from a wave that is almost closed
    q = np.zeros(model.nv)
    q[0], q[1:] = 1.0, 0.1 * RANDOM.standard_normal(model.nv - 1)
    q = closed(model, q, steps=60)
    assert np.abs(dense_constraints(model, q).value).max() < 1e-12
    v = tb.project_velocity(model, q, 0.1 * RANDOM.standard_normal(model.nv))
    assert np.abs(dense_constraints(model, q).J @ v).max() < 1e-10
    tau = RANDOM.standard_normal(model.nv)
    expected, forces = dense_acceleration(model, q, v, tau)
    found = tb.loop_dynamics(model, q, v, tau)
    # the mass matrix of 42 links in a row is conditioned like 1e7
    np.testing.assert_allclose(found.acceleration, expected, atol=1e-8 * np.abs(expected).max())
    np.testing.assert_allclose(found.constraint_force, forces, atol=1e-8 * np.abs(forces).max())
    assert found.rank == 2


# -- redundant constraints -------------------------------------------------------------------------


REDUNDANT_RANDOM = np.random.default_rng(35)

EARTH = (0.0, 0.0, -9.81)


def pinned_again(count, every):
    """A row of four-bars, some of whose pins are doubled."""
    model = n_four_bar(count)
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


@pytest.mark.parametrize("every", [1, 5])
def test_doubled_pins_share_their_load(every):
    model = pinned_again(COUNT, every)
    assert loop_pattern(model).is_large
    q, v = four_bar_state(COUNT, 0.4)
    tau = REDUNDANT_RANDOM.standard_normal(model.nv)
    expected, forces, _, rank = dense(model, q, v, tau, EARTH)
    assert rank == 2 * COUNT
    check(model, q, v, motion(model, q, v, tau, "augmented", EARTH), forces, expected, rank)
    # two pins in one place carry half each
    names = tb.constraint_names(model)
    both = [k for k, name in enumerate(names) if name.startswith(("pin_0.", "pin_0 again."))]
    shares = forces[both].reshape(2, -1)
    np.testing.assert_allclose(shares[0], shares[1], atol=1e-9 * np.abs(forces).max())


@pytest.mark.parametrize("fingers", [[2] * 45, [2] * 16 + [4] * 16], ids=["table", "hand"])
def test_a_load_on_many_legs(fingers):
    """Far more legs than are needed, around one body: statics alone cannot tell their forces."""
    model = planar_hand(fingers)
    assert loop_pattern(model).is_large
    q, rest = model.neutral(), np.zeros(model.nv)
    tau = REDUNDANT_RANDOM.standard_normal(model.nv)
    expected, forces, _, rank = dense(model, q, rest, tau, EARTH)
    assert rank < len(loop_pattern(model).live)
    check(model, q, rest, motion(model, q, rest, tau, "augmented", EARTH), forces, expected, rank)


def test_collinear_configuration_has_half_the_constraints_redundant():
    """A singular configuration of many four-bars: COUNT + 1 degrees of freedom to first order."""
    model = n_four_bar(COUNT)
    q, v = four_bar_state(COUNT, np.pi / 2)
    tau = REDUNDANT_RANDOM.standard_normal(model.nv)
    expected, forces, _, rank = dense(model, q, v, tau, EARTH)
    assert rank == COUNT
    check(model, q, v, motion(model, q, v, tau, "augmented", EARTH), forces, expected, rank)


@pytest.mark.slow
def test_native_code_agrees_with_floats():
    """Compiled, in a batch with a case that has nothing to share."""
    model = pinned_again(33, 3)
    states = [four_bar_state(33, angle) for angle in (0.3, 1.1)]
    tau = REDUNDANT_RANDOM.standard_normal((2, model.nv))
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


def test_cost_is_linear_with_redundant_constraints():
    """What is left out early fills nothing in: twice the bars, twice the entries."""
    small, large = (loop_pattern(pinned_again(count, 1)) for count in (40, 80))
    assert large.saddle.stored < 2.2 * small.saddle.stored
    assert large.shortest.stored < 2.2 * small.shortest.stored
