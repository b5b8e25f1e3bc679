"""Large mechanisms: right in special poses, work in proportion to size, methods that agree."""

import numpy as np
import pytest

import tiburon as tb
from benchmarks.mechanisms import four_bar_state, four_bars, ring
from tests.loops.dense import closed, dense_acceleration, dense_constraints
from tiburon.algorithms.library import DEFAULT_WORLD, LibrarySource
from tiburon.loops.elimination import LARGEST, loop_pattern
from tiburon.loops.methods import cheaper_loop_method
from tiburon.trace.count import count

RANDOM = np.random.default_rng(10)

COUNT = 60


def four_bar_acceleration(count, angle, rate):
    """Acceleration of the uprights: all rods move alike (Lagrange, one freedom).

    Uprights turn about their ends (1/3 kg m^2), couplers are carried along without turning
    (1 kg m^2); heights are cos(angle)/2 for uprights and cos(angle) for couplers.
    """
    inertia = (count + 1) / 3.0 + count
    weight = 9.81 * ((count + 1) / 2.0 + count)
    return weight * np.sin(angle) / inertia


@pytest.mark.parametrize("angle", [0.3, 1.2])
def test_a_row_of_four_bars_moves_as_one_pendulum(angle):
    """Couplers lie level: half of what a loop asks of its own joints vanishes there."""
    model = four_bars(COUNT)
    assert loop_pattern(model).is_large
    q, v = four_bar_state(COUNT, angle)
    assert np.abs(dense_constraints(model, q).value).max() < 1e-13
    found = tb.forward_dynamics(model, q, v, np.zeros(model.nv))
    expected = four_bar_acceleration(COUNT, angle, v[0]) * np.sign(q)
    # the ratio of singular values is some 1e-2 here, and enters squared
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_work_grows_as_a_row_of_four_bars_does():
    """Ten times the four-bars take ten times the operations; a tenth more for the ends."""

    def operations(bars):
        source = LibrarySource(four_bars(bars), ("forward_dynamics",), DEFAULT_WORLD)
        return count(source.program()).total

    assert operations(200) / operations(20) < 12.0


def test_large_is_what_the_careful_way_cannot_take():
    small, large = four_bars(31), four_bars(33)
    assert small.nv * 62 <= LARGEST < large.nv * 66
    assert not loop_pattern(small).is_large
    assert loop_pattern(large).is_large


def test_long_rings_take_handles():
    assert cheaper_loop_method(ring(48)) == "handles"
    assert cheaper_loop_method(tb.load("stewart")) == "augmented"
    assert cheaper_loop_method(four_bars(COUNT)) == "augmented"


def test_a_long_ring_moves_as_dense_algebra_says():
    model = ring(48)
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
    # the mass matrix of 48 links in a row is conditioned like 1e7
    np.testing.assert_allclose(found.acceleration, expected, atol=1e-8 * np.abs(expected).max())
    np.testing.assert_allclose(found.constraint_force, forces, atol=1e-8 * np.abs(forces).max())
    assert found.rank == 2
