"""Dynamics with loops under all that can act: forces and inertias from outside, water, ties."""

from dataclasses import replace

import numpy as np

import tiburon as tb
from tests.loops.test_inverse import moving

RANDOM = np.random.default_rng(28)


def test_forces_come_back_under_all_conditions():
    """Inverse after forward dynamics, with water, a push on a link and an inertia beside it."""
    dry, q, v = moving("four_bar")
    fluid = tb.BodyFluid(volume=1e-3, added_mass=0.2 * np.eye(6), linear_damping=(0.3,) * 6)
    model = tb.Model(
        "wet",
        [replace(body, fluid=fluid) for body in dry.bodies],
        loops=dry.loops,
        actuators=dry.actuators,
    )
    around = {
        "fluid": tb.Water(),
        "external_force": {"coupler": RANDOM.standard_normal(6)},
        "external_inertia": {"rocker": 0.4 * np.eye(6)},
    }
    tau = model.actuated([0.9])
    motion = tb.loop_dynamics(model, q, v, tau, **around)
    # each of them matters
    for name in around:
        others = {key: value for key, value in around.items() if key != name}
        changed = tb.forward_dynamics(model, q, v, tau, **others)
        assert np.abs(changed - motion.acceleration).max() > 1e-3
    found = tb.loop_inverse_dynamics(model, q, v, motion.acceleration, **around)
    np.testing.assert_allclose(found.tau, tau, atol=1e-9)
    np.testing.assert_allclose(found.constraint_force, motion.constraint_force, atol=1e-8)


def test_a_bent_tie_between_joints_holds_in_a_run():
    """One joint follows a parabola of another: energy of one freedom is kept, the tie holds."""
    rod = tb.Inertia(1.0, (0.5, 0.0, 0.0), (1e-3, 0.0, 0.0, 0.1, 0.0, 0.1))
    bodies = [
        tb.Body("first", joint=tb.Revolute("lead", (0, 1, 0)), inertia=rod),
        tb.Body("second", "first", joint=tb.Revolute("follow", (0, 1, 0)), inertia=rod),
    ]
    tie = tb.JointCoupling("cam", "follow", "lead", (0.2, -0.5, 0.3))
    model = tb.Model("cam", bodies, loops=[tie])
    tree = model.without_loops()
    q = np.array([0.4, 0.2 - 0.5 * 0.4 + 0.3 * 0.4**2])
    v = tb.project_velocity(model, q, np.array([1.5, 0.0]))
    np.testing.assert_allclose(v[1], (-0.5 + 2.0 * 0.3 * 0.4) * v[0], atol=1e-12)
    run = tb.simulate(model, 1.0, q=q, v=v)
    x = run.q[:, 0]
    np.testing.assert_allclose(run.q[:, 1], 0.2 - 0.5 * x + 0.3 * x**2, atol=1e-11)
    energy = tb.kinetic_energy(tree, run.q, run.v) + tb.potential_energy(tree, run.q)
    assert np.ptp(x) > 0.3
    # steps of 1 ms at some radians per second
    assert np.ptp(energy) < 1e-8 * np.abs(energy).max()
