"""Pilots of many kinds of robots, on floats: what can be held, and rates that are numbers."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.drive.edits import ready_for_edits
from tiburon.drive.panel import AXES
from tiburon.drive.pilot import piloted

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
def test_what_can_be_held(name):
    """Axes with strength and driven joints are those that the robot's data says."""
    system, _ = system_of(name)
    axes, joints = ROBOTS[name]
    vehicle = system.control.vehicle
    strengths = () if vehicle is None else zip(AXES, vehicle.strength, strict=True)
    assert [axis for axis, most in strengths if most > 0.0] == axes
    assert len(system.control.joints) == joints


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("keeping", [0.0, 1.0])
def test_rates_are_finite_by_hand_and_kept(name, keeping):
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
