"""Joints held stiffly enough to carry a robot."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.control.standing import hold_stance

STEPS = (1e-3, 2.5e-4)
"""Lengths of steps [s]."""


@pytest.mark.parametrize(
    "name", [pytest.param("aquarobot", marks=pytest.mark.slow), "four_legged_walker"]
)
def test_held_joints_move_alike_at_steps_of_a_millisecond_and_less(name):
    """Feet are light: damping of all joints at once keeps explicit steps stable."""
    robot = tb.load(name)
    stand = np.array(robot.poses["stand"])
    floor = tb.World(ground=tb.Ground(static_friction=0.8))
    control = hold_stance(robot, stand)
    runs = [
        tb.simulate(robot, 0.3, q=stand, world=floor, control=control, method=tb.RK4(dt=dt))
        for dt in STEPS
    ]
    assert [run.outcome.status for run in runs] == ["finished", "finished"]
    # contacts open and close at other instants, by a step
    assert np.abs(runs[0].q[-1] - runs[1].q[-1]).max() < 0.01
