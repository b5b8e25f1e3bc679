"""The decoupled vehicle of McMillan 1994, sec. 7.5.2: the motion of the base is prescribed."""

import numpy as np
import pytest

import tiburon as tb
from tests.hydro.sources import DOWN, reference_1995, state_1995, water_1995
from tests.tolerances import SOLVE, assert_close

TIME = 0.7


@pytest.mark.parametrize("method", ["articulated", "composite"])
def test_fed_with_the_coupled_base_acceleration_it_returns_the_coupled_joint_accelerations(method):
    model, (q, v, tau) = reference_1995(3), state_1995(3)
    around = {"world": DOWN, "fluid": water_1995(TIME), "time": TIME}
    coupled = tb.forward_dynamics(model, q, v, tau, **around)
    prescribed = np.concatenate([coupled[:6], np.zeros(3)])
    joints_only = np.concatenate([np.zeros(6), tau[6:]])
    vd, forces = tb.hybrid_dynamics(
        model, q, v, joints_only, prescribed, "base", method=method, **around
    )
    assert_close(vd, coupled, SOLVE)
    # and the wrench that the base needs for it is the one that thrusters gave
    assert_close(forces[:6], tau[:6], SOLVE, np.abs(tau).max() * 10)


def test_a_floating_base_needs_no_force_of_its_own():
    """Inverse dynamics of a drifting robot: the base goes where the arm's motion sends it."""
    model, (q, v, _) = reference_1995(3), state_1995(3)
    around = {"world": DOWN, "fluid": water_1995(TIME), "time": TIME}
    wanted = np.array([0.4, -0.3, 0.2])
    vd, tau = tb.floating_base_inverse_dynamics(
        model, q, v, np.concatenate([np.zeros(6), wanted]), **around
    )
    assert np.array_equal(tau[:6], np.zeros(6))
    assert_close(vd[6:], wanted)
    assert_close(tb.forward_dynamics(model, q, v, tau, **around), vd, SOLVE)
