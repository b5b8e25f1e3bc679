"""Inverse dynamics with loops against forward dynamics and statics."""

import numpy as np
import pytest

import tiburon as tb
from tests.loops.test_projection import near_home

RANDOM = np.random.default_rng(12)


def moving(name):
    model = tb.load(name)
    q = tb.project_configuration(model, near_home(model, 0.02)).q
    return model, q, tb.project_velocity(model, q, RANDOM.standard_normal(model.nv))


@pytest.mark.parametrize("name", ["four_bar", "planar_3rrr", "stewart", "delta"])
def test_forces_of_the_actuators_come_back(name):
    """As many actuators as freedoms: their forces are unique."""
    model, q, v = moving(name)
    joints = model.actuated_joint_names
    tau = model.actuated(RANDOM.standard_normal(len(joints)))
    motion = tb.loop_dynamics(model, q, v, tau)
    found = tb.loop_inverse_dynamics(model, q, v, motion.acceleration)
    np.testing.assert_allclose(found.tau, tau, atol=1e-8 * (1.0 + np.abs(tau).max()))
    np.testing.assert_allclose(
        found.constraint_force,
        motion.constraint_force,
        atol=1e-8 * (1.0 + np.abs(motion.constraint_force).max()),
    )
    np.testing.assert_array_equal(tb.inverse_dynamics(model, q, v, motion.acceleration), found.tau)


def test_more_actuators_share_with_least_squares():
    """All three joints of a four-bar driven: the same motion, by a shorter vector of forces."""
    model, q, v = moving("four_bar")
    tau = np.array([0.7, 0.0, 0.0])
    vd = tb.forward_dynamics(model, q, v, tau)
    shared = tb.loop_inverse_dynamics(model, q, v, vd, actuators=model.joint_names).tau
    assert np.linalg.norm(shared) < np.linalg.norm(tau)
    np.testing.assert_allclose(tb.forward_dynamics(model, q, v, shared), vd, atol=1e-9)


def test_legs_of_a_platform_at_rest_carry_its_weight():
    """Statics: what the legs' motors do in a small lift is the weight lifted."""
    model, q, _ = moving("stewart")
    rest = np.zeros(model.nv)
    tau = tb.loop_inverse_dynamics(model, q, rest, rest).tau
    lift = tb.project_velocity(model, q, RANDOM.standard_normal(model.nv))
    tree = model.without_loops()
    np.testing.assert_allclose(tau @ lift, tb.gravity_force(tree, q) @ lift, rtol=1e-9)


def test_actuators_that_cannot_drive_it_are_refused():
    model, q, v = moving("stewart")
    vd = tb.forward_dynamics(model, q, v, np.ones(model.nv))
    with pytest.raises(tb.DomainError, match="actuators that can drive"):
        tb.loop_inverse_dynamics(model, q, v, vd, actuators=["leg_1_stroke"])


def test_motions_that_open_loops_are_refused():
    model, q, v = moving("stewart")
    with pytest.raises(tb.DomainError, match="keep loops closed"):
        tb.loop_inverse_dynamics(model, q, v, np.ones(model.nv))
