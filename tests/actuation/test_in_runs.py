"""Elements in whole runs: what `simulate` makes of a robot's data."""

import math

import numpy as np
import pytest

import tiburon as tb
from tests.actuation.stepping import FREE, slider, wheel


def test_runs_apply_friction_springs_and_stops_of_the_robot():
    """A block released beside its spring comes to rest at it, unless passive forces are off."""
    block = slider(passive=tb.JointPassive(damping=6.0, stiffness=40.0, rest=0.3))
    run = tb.simulate(block, 8.0, q=[0.8], world=FREE, record=tb.Record(dt=1.0))
    assert run.q[-1, 0] == pytest.approx(0.3, abs=1e-4)
    still = tb.simulate(block.without_passive(), 1.0, q=[0.8], world=FREE, record=tb.Record(dt=1.0))
    assert still.q[-1, 0] == 0.8


def test_stick_slip_friction_holds_a_load_under_which_smooth_friction_creeps():
    """A hinge with friction under half its load: at rest with the one, slow with the other."""
    load = tb.JointForceSchedule("load", "hinge", times=(0.0,), forces=(0.5,))
    rubbing = wheel(passive=tb.JointPassive(friction=1.0))
    creeping = tb.simulate(
        rubbing,
        1.0,
        world=FREE,
        elements=[load],
        method=tb.DormandPrince(),
        record=tb.Record(dt=1.0),
    )
    assert creeping.v[-1, 0] == pytest.approx(0.01 * math.atanh(0.5), rel=1e-5)
    holding = tb.simulate(
        rubbing.without_passive("friction"),
        1.0,
        world=FREE,
        elements=[load, *tb.StickSlip.of(rubbing)],
        record=tb.Record(dt=1.0),
    )
    assert abs(holding.v[-1, 0]) < 1e-12
    # half the load bends the bristles by half of what friction over m w^2 gives
    assert holding.q[-1, 0] == pytest.approx(0.5 * 1.0 / (0.05 * 300.0**2), rel=1e-9)


def test_motors_of_a_batch_take_their_own_voltages():
    """Each case reaches the speed of its voltage; a batch has the bits of its singles."""
    model = wheel(0.01)
    motor = tb.Motor(0.8, 0.05, inductance=1e-3)
    geared = tb.Model(
        "geared", model.bodies, actuators=[tb.Actuator("drive", "hinge", ratio=10.0, motor=motor)]
    )
    volts = np.array([2.0, -5.0, 12.0])
    batch = tb.simulate(
        geared,
        2.0,
        q=np.zeros((3, 1)),
        world=FREE,
        command={"drive": volts},
        record=tb.Record(dt=1.0),
    )
    # unloaded and without friction: voltage over back-EMF
    assert batch.v[-1, :, 0] == pytest.approx(volts / (10.0 * 0.05), rel=1e-6)
    single = tb.simulate(geared, 2.0, world=FREE, command={"drive": -5.0}, record=tb.Record(dt=1.0))
    assert np.array_equal(single.v, batch.v[:, 1])
    assert np.array_equal(single.x, batch.x[:, 1])


def test_springs_of_the_model_and_of_the_run_act_equally():
    """A spring as part of a robot, or given to the run: the same bits."""
    block = slider()
    spring = tb.Spring("coil", "world", "block", stiffness=30.0, rest_length=1.0)
    own = tb.Model("slider", block.bodies, springs=[spring])
    runs = [
        tb.simulate(own, 1.0, q=[1.3], world=FREE, record=tb.Record(dt=0.1)),
        tb.simulate(block, 1.0, q=[1.3], world=FREE, record=tb.Record(dt=0.1), elements=[spring]),
    ]
    assert np.array_equal(runs[0].q, runs[1].q)
    w = math.sqrt(30.0 / 2.0)
    assert runs[0].q[-1, 0] == pytest.approx(1.0 + 0.3 * math.cos(w), abs=1e-9)


def test_modes_include_springs_between_points():
    """A block between a spring and a damper of its own: the textbook frequency and ratio."""
    spring = tb.Spring("coil", "world", "block", stiffness=50.0, damping=2.0, rest_length=0.4)
    model = tb.Model("slider", slider().bodies, springs=[spring])
    found = tb.modes(model, q=[0.5], world=FREE)
    assert found.q[0] == pytest.approx(0.4, abs=1e-9)
    w = math.sqrt(50.0 / 2.0)
    assert abs(found[0].eigenvalue) == pytest.approx(w, rel=1e-9)
    assert -found[0].eigenvalue.real == pytest.approx(2.0 / (2.0 * 2.0), rel=1e-9)
