"""Forward dynamics with loops against dense linear algebra and worked examples."""

import numpy as np
import pytest

import tiburon as tb
from tests.loops.dense import allowed, closed, dense_acceleration, dense_constraints

RANDOM = np.random.default_rng(9)

MECHANISMS = ["four_bar", "planar_3rrr", "stewart", "delta", "bricard", "andrews_squeezer"]


def kicked(model):
    """A closed, moving state away from special poses."""
    q = closed(model, model.integrate(model.neutral(), 0.05 * RANDOM.standard_normal(model.nv)))
    v = allowed(model, q, RANDOM.standard_normal(model.nv))
    return q, v, RANDOM.standard_normal(model.nv)


@pytest.mark.parametrize("name", MECHANISMS)
def test_accelerations_are_those_of_the_dense_system(name):
    model = tb.load(name)
    q, v, tau = kicked(model)
    assert np.abs(dense_constraints(model, q).value).max() < 1e-12
    expected, _ = dense_acceleration(model, q, v, tau)
    found = tb.forward_dynamics(model, q, v, tau)
    # the squared condition of the constraints is at most 1e6 on the quick way
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_four_bar_of_the_digest():
    """Uniform rods 0.4, 1.1, 0.9 m; pivots 1 m apart (Featherstone 1987, eq. 9.17)."""
    model = tb.load("four_bar")
    q = model.poses["home"]
    J = dense_constraints(model, q).J
    v = np.array([3.0, *np.linalg.lstsq(J[:, 1:], -3.0 * J[:, 0], rcond=None)[0]])
    found = tb.forward_dynamics(model, q, v, np.zeros(3))
    # the digest gives eight decimals
    np.testing.assert_allclose(found, [-19.79873557, 26.87156196, -0.77944604], atol=5e-8)


def test_batch_has_the_bits_of_single_calls():
    model = tb.load("stewart")
    states = [kicked(model) for _ in range(5)]
    batch = tb.forward_dynamics(model, *(np.array(x) for x in zip(*states, strict=True)))
    for row, state in zip(batch, states, strict=True):
        np.testing.assert_array_equal(row, tb.forward_dynamics(model, *state))


def test_functions_of_trees_still_refuse_loops():
    model = tb.load("four_bar")
    with pytest.raises(tb.ModelError, match="mass_matrix is for trees"):
        tb.mass_matrix(model, model.neutral())


@pytest.mark.parametrize("off", [0.0, 1e-13, 1e-11])
def test_rows_that_vanish_in_a_pose_count_as_none(off):
    """Four-bars flat on one line: rows along it are rounding alone, and no constraint."""
    model = tb.load("n_four_bar_2")
    start = np.where([name.startswith("pivot") for name in model.v_names], -1.0, 1.0)
    q, v, tau = model.neutral() + start * (np.pi / 2 + off), 2.0 * start, np.zeros(model.nv)
    found = tb.loop_dynamics(model, q, v, tau)
    vd, force = dense_acceleration(model, q, v, tau)
    assert found.rank == 2
    np.testing.assert_allclose(found.acceleration, vd, atol=1e-9)
    np.testing.assert_allclose(found.constraint_force, force, atol=1e-9)


def test_rows_that_earlier_joints_do_not_hold_up_are_noticed():
    """Two arms welded to one load: at home some rows bind only joints that come later."""
    model = tb.load("two_pumas")
    q = np.array(model.poses["home"]) if "home" in model.poses else model.neutral()
    v = allowed(model, q, RANDOM.standard_normal(model.nv))
    tau = RANDOM.standard_normal(model.nv)
    expected, _ = dense_acceleration(model, q, v, tau)
    found = tb.forward_dynamics(model, q, v, tau)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * np.abs(expected).max())
