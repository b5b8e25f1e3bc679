"""Joints on links without inertia, whose inertia vanishes at the stop of another joint."""

import math
import warnings

import numpy as np
import pytest

import tiburon as tb

STOP = 1.570795
"""A quarter turn, as robot files have it [rad]."""


def hip(stop=STOP, **middle):
    """Return a leg on three revolute joints that meet in a point, with massless links between."""
    inertia = tb.Inertia.box(8.0, (0.15, 0.4, 0.12), com=(0.02, -0.2, 0.01))
    upper = tb.JointLimits(lower=-1.0, upper=stop)
    joints = [
        tb.Revolute("hip_z", (0, 0, 1)),
        tb.Revolute("hip_x", (1, 0, 0), limits=upper, **middle),
        tb.Revolute("hip_y", (0, -1, 0)),
    ]
    inertias = [tb.Inertia(), tb.Inertia(), inertia]
    names = ["first", "second", "leg"]
    bodies = [
        tb.Body(name, *names[k - 1 : k], joint=joint, inertia=part)
        for k, (name, joint, part) in enumerate(zip(names, joints, inertias, strict=True))
    ]
    return tb.Model("hip", bodies)


def test_a_hip_that_swings_onto_its_stop_at_a_quarter_turn_runs():
    """Without armatures its mass matrix is singular there, and velocities have no bound."""
    robot = hip()
    own = np.array(tb.mass_matrix(robot, [0.0, STOP, 0.0]))
    assert np.linalg.cond(own) > 1e9
    start = {"q": [0.0, 1.0, 0.3], "v": [0.4, 3.0, -0.5], "record": tb.Record(every=1)}
    with pytest.warns(tb.ModelWarning, match="hip_z', 'hip_y' turn links without inertia"):
        run = tb.simulate(robot, 1.0, **start)
    assert run.outcome.ok
    assert (run.q[:, 1] > STOP - 1e-3).any()
    assert np.abs(run.v).max() < 100.0
    energy = run.get("kinetic_energy").values + run.get("potential_energy").values
    assert (energy - np.minimum.accumulate(energy)).max() < 1e-2 * np.ptp(energy)
    with pytest.warns(tb.ModelWarning, match="hip_z"):
        tb.stepper(robot)


def test_armatures_of_ones_own_and_joints_out_of_reach_are_left_alone():
    """No warning, and the inertias of the robot itself."""
    plain = hip(1.2)
    armed = hip().with_armatures({"hip_z": 0.02, "hip_y": 0.01})
    assert armed.joint("hip_z").armature == 0.02
    difference = np.array(tb.mass_matrix(armed, [0.1, 0.2, 0.3])) - np.array(
        tb.mass_matrix(hip(), [0.1, 0.2, 0.3])
    )
    np.testing.assert_allclose(difference, np.diag([0.02, 0.0, 0.01]), rtol=0, atol=1e-12)
    for robot in (plain, armed):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run = tb.simulate(robot, 0.01)
        assert run.model == robot
    with pytest.raises(tb.ModelError, match="hip_w"):
        armed.with_armatures({"hip_w": 0.1})
    with pytest.raises(tb.ModelError, match="armature"):
        armed.with_armatures({"hip_z": -0.1})


def test_the_armatures_are_a_hundredth_of_the_neutral_inertia():
    """Those of the two joints that become parallel, not that of the one between them."""
    robot = hip()
    with pytest.warns(tb.ModelWarning):
        run = tb.simulate(robot, 0.01)
    inertia = 1.0 / np.diag(np.linalg.inv(np.array(tb.mass_matrix(robot, robot.neutral()))))
    assert run.model.joint("hip_z").armature == pytest.approx(1e-2 * inertia[0])
    assert run.model.joint("hip_y").armature == pytest.approx(1e-2 * inertia[2])
    assert run.model.joint("hip_x").armature == 0.0
    assert math.isfinite(run.v.max())
