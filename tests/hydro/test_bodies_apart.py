"""Bodies held by fixed joints: each meets varying water, and a surface, at its own place.

A robot whose joints are locked must do the same as the robot whose joints are held still by their
motors.
"""

import numpy as np
import pytest

import tiburon as tb
from tests.hydro.wet import OnGraph

SHEAR = tb.LinearShear((0.9, 0.4, 0.2), 12.0, surface=5.0)
WATERS = {
    "shear": tb.Water(1025.0, SHEAR),
    "waves": tb.Water(1025.0, tb.Waves((tb.Wave(1.5, 4.0, direction=0.4, phase=0.3),))),
    "surface": tb.Water(1025.0, (0.4, -0.2, 0.1), surface=0.1),
    "shear with a surface": tb.Water(1025.0, SHEAR, surface=0.1),
}


def held_and_locked(seed):
    """Return the vehicle with its arm, the same with the arm locked, and a state of both."""
    rng = np.random.default_rng(seed)
    free = tb.load("tiburon_titan")
    q, v = free.random_state(rng)
    q[4:7] = rng.uniform(-0.5, 0.5, 3)
    v[6:] = 0.0
    locked = free.lock(arm_joints(free), q)
    assert len(locked.plan.bodies) == 1
    return free, locked, q, v


def arm_joints(model):
    """Return the names of all joints that have variables of their own, but the first."""
    return [body.joint.name for body in model.bodies[1:] if body.joint.follows is None]


@pytest.mark.parametrize("water", WATERS.values(), ids=WATERS)
def test_locked_arm_needs_the_forces_of_an_arm_that_is_held(water):
    """Locking joints changes nothing that moves the vehicle, to rounding."""
    free, locked, q, v = held_and_locked(3)
    gravity = (0.0, 0.0, -9.81)
    vd = np.zeros(free.nv)
    vd[:6] = np.random.default_rng(4).normal(size=6)
    held = OnGraph(free, gravity, water).run("inverse_dynamics", (q, v, vd))[:6]
    alone = OnGraph(locked, gravity, water).run("inverse_dynamics", (q[:7], v[:6], vd[:6]))
    # two layouts sum the same terms in another order
    assert np.abs(held - alone).max() < 1e-12 * np.abs(alone).max()


@pytest.mark.parametrize("water", WATERS.values(), ids=WATERS)
def test_locked_arm_has_the_energies_of_an_arm_that_is_held(water):
    """Kinetic energy with that of the water, and potential energy, do not change by locking."""
    free, locked, q, v = held_and_locked(5)
    whole, alone = (OnGraph(model, (0.0, 0.0, -9.81), water) for model in (free, locked))
    moving = whole.run("kinetic_energy", (q, v))
    assert alone.run("kinetic_energy", (q[:7], v[:6])) == pytest.approx(moving, rel=1e-12)
    # buoyancy nearly bears the weight, so energies cancel
    weight = 9.81 * sum(body.inertia.mass for body in free.bodies)
    lifted = whole.run("potential_energy", (q,)) - alone.run("potential_energy", (q[:7],))
    assert abs(lifted) < 1e-12 * weight
    borne = whole.run("gravity_force", (q,))[:6] - alone.run("gravity_force", (q[:7],))
    assert np.abs(borne).max() < 1e-12 * weight


@pytest.mark.usefixtures("interpreted")
def test_locked_arm_falls_like_an_arm_that_is_held():
    """In machine code, hybrid dynamics with the joints still is forward dynamics of the locked."""
    water = WATERS["shear with a surface"]
    free, locked, q, v = held_and_locked(7)
    tau, still = np.zeros(free.nv), np.zeros(free.nv)
    tau[:6] = np.random.default_rng(8).normal(size=6) * 100.0
    whole, _ = tb.hybrid_dynamics(free, q, v, tau, still, arm_joints(free), fluid=water)
    alone = tb.forward_dynamics(locked, q[:7], v[:6], tau[:6], fluid=water)
    # two layouts sum the same terms in another order, and solve
    assert np.abs(whole[:6] - alone).max() < 1e-11 * np.abs(alone).max()


def test_cylinders_on_fixed_joints_report_the_flow_where_they_are():
    """The report of flows meets varying water where each body of a link is."""
    water = tb.Water(1025.0, SHEAR, viscosity=1.2e-3)
    free, locked, q, v = held_and_locked(9)
    held = tb.cylinder_flows(free, q, v, water)
    alone = tb.cylinder_flows(locked, q[:7], v[:6], water)
    assert [flow.body for flow in held] == [flow.body for flow in alone]
    assert len({flow.body for flow in held}) > 3
    speeds = [flow.speed for flow in held]
    assert [flow.speed for flow in alone] == pytest.approx(speeds, rel=1e-12)


@pytest.mark.usefixtures("interpreted")
def test_locked_arm_in_uniform_current_moves_as_one_body():
    """In a uniform stream bodies on fixed joints are one link, with the numbers of one."""
    _, locked, *_ = held_and_locked(3)
    stream = tb.compile(tb.forward_dynamics, locked, fluid=tb.Water(1025.0, (0.3, 0, 0)))
    shear = tb.compile(tb.forward_dynamics, locked, fluid=tb.Water(1025.0, SHEAR))
    few, many = (len(kernel.__self__.parameters["immersion"]) for kernel in (stream, shear))
    assert few < many
