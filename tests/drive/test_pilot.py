"""Pilots of many kinds of robots, on floats: what can be held, and rates that are numbers."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.drive.edits import ready_for_edits
from tiburon.drive.pilot import AXES, external_forces_of, piloted
from tiburon.functions.assembly import resting_position
from tiburon.simulation.control_calls import commands_at

# robot: axes its thrusters steer along, and how many joints are held
ROBOTS = {
    "remus100": (["surge"], 0),
    "rexrov": (list(AXES), 0),
    "two_arm_rov": (["roll", "yaw", "surge", "sway", "heave"], 14),
    "panda": ([], 8),
    "quadruped": ([], 12),
    "stewart": ([], 6),
    "four_bar": ([], 1),
    "spherical_pendulum": ([], 0),
}


def system_of(name):
    model = tb.load(name)
    wet = any(body.fluid for body in model.bodies)
    world = ready_for_edits(tb.World(fluid=tb.Water() if wet else None))
    return piloted(model, world)


@pytest.mark.parametrize("name", ROBOTS)
def test_joints_that_can_be_position_controlled(name):
    """Axes with strength and driven joints are those that the robot's data says."""
    system, _ = system_of(name)
    axes, joints = ROBOTS[name]
    vehicle = system.control.vehicle
    strengths = () if vehicle is None else zip(AXES, vehicle.strength, strict=True)
    assert [axis for axis, most in strengths if most > 0.0] == axes
    assert len(system.control.joints) == joints


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("keeping", [0.0, 1.0])
def test_joint_rates_are_bounded_and_held(name, keeping):
    """Half sticks in a kicked state: no strength or limit without end gets into the rates."""
    system, start = system_of(name)
    model = system.model
    random = np.random.default_rng(3)
    q = np.array(next(iter(model.poses.values()))) if model.poses else model.neutral()
    v = np.zeros(model.nv) if model.loops else 0.1 * random.standard_normal(model.nv)
    u = np.zeros(system.drive_size)
    sticks = {k: 0.5 for k in start if k.startswith("panel.joint.") or k[6:] in AXES}
    modes = {k: keeping for k in ("panel.station", "panel.arm_hold") if k in start}
    system.commands.write(u, {**start, **sticks, **modes})
    x = system.x0.copy()
    own = system.control.start(model, q.tolist())
    x[len(x) - len(own) :] = own
    rates = system.rates(tuple(q), (*v, *x), tuple(u), 0.0)
    assert len(rates) == model.nv + system.nx
    assert np.isfinite(np.array(rates, dtype=float)).all()


def row_and_state(name, **panel):
    """A robot where it starts, at rest: its system, commands as the panel says, and its state."""
    system, start = system_of(name)
    model = system.model
    q = resting_position(model)
    u = np.zeros(system.drive_size)
    system.commands.write(u, {**start, **{f"panel.{k}": value for k, value in panel.items()}})
    x = system.x0.copy()
    own = system.control.start(model, q.tolist())
    x[len(x) - len(own) :] = own
    return system, u, q, x


@pytest.mark.parametrize("name", ["stewart", "four_bar", "puma560"])
def test_held_joints_compensate_gravity_from_the_start(name):
    """Nothing accelerates: also with loops, and where no largest force is known."""
    system, u, q, x = row_and_state(name)
    rates = system.rates(tuple(q), (*np.zeros(system.model.nv), *x), tuple(u), 0.0)
    # of gravity's 10 m/s^2 only round-off is left, through a matrix of condition 1e4 at most
    assert np.abs(np.array(rates[: system.model.nv], dtype=float)).max() < 1e-9


@pytest.mark.parametrize("name", ["stewart", "two_arm_rov", "panda", "spherical_pendulum"])
def test_pushes_are_for_all_degrees_of_freedom_but_those_that_thrusters_move(name):
    system, _ = system_of(name)
    vehicle = system.control.vehicle
    pushes = external_forces_of(system.model, system.commands, vehicle, system.control.joints)
    assert len(pushes) == system.model.nv - (6 if vehicle else 0)
    assert all(0.0 < push.most < np.inf for push in pushes)
    assert [push.command for push in pushes] == [system.command_names[push.v] for push in pushes]


@pytest.mark.parametrize("hold", [0.0, 1.0])
@pytest.mark.parametrize("name", ["panda", "two_arm_rov"])
def test_a_push_adds_to_the_holding_torque(name, hold):
    """In the joint's own units, by hand and held, with an actuator before the joint or without."""
    system, u, q, x = row_and_state(name, arm_hold=hold)
    v = np.zeros(system.model.nv)
    grip = system.control.joints[1]
    before = np.array(commands_at(system, tuple(q), (*v, *x), tuple(u), 0.0), dtype=float)
    u[grip.v] = 1.5
    after = np.array(commands_at(system, tuple(q), (*v, *x), tuple(u), 0.0), dtype=float)
    change = np.zeros(len(before))
    change[grip.v] = 1.5
    # the sum is rounded once
    assert after - before == pytest.approx(change, abs=1e-12)
