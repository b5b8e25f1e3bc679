"""Long runs of robots with loops, in air and under water: closed to rounding, energy kept."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb

RANDOM = np.random.default_rng(27)


def kicked(model, size):
    home = np.array(model.poses["home"]) if "home" in model.poses else model.neutral()
    return home, tb.project_velocity(model, home, size * RANDOM.standard_normal(model.nv))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [("four_bar", 2.0), ("stewart", 0.3)])
def test_ten_seconds_at_a_millisecond(name, size):
    """Default integrator, no gains: gaps below 1e-10, relative energy error below 1e-6."""
    model = tb.load(name)
    tree = model.without_loops()
    q, v = kicked(model, size)
    run = tb.simulate(
        model.without_passive().without_limits(),
        10.0,
        q=q,
        v=v,
        record=tb.Record(quantities=["constraint_residual"]),
    )
    assert run.outcome.status == "finished"
    assert run.data["constraint_residual"].values.max() < 1e-10
    kinetic = tb.kinetic_energy(tree, run.q, run.v)
    energy = kinetic + tb.potential_energy(tree, run.q)
    # potential energy has no zero of its own: relative to what moves
    assert np.ptp(energy) < 1e-6 * kinetic.max()


def in_water(model):
    """The robot with added mass and damping on every body."""
    added = 0.3 * np.diag([0.01, 0.01, 0.01, 1.0, 1.0, 1.0])
    fluid = tb.BodyFluid(volume=1e-3, added_mass=added, quadratic_damping=(0.0,) * 3 + (5.0,) * 3)
    bodies = [replace(body, fluid=fluid) for body in model.bodies]
    return tb.Model("wet", bodies, loops=model.loops, poses=model.poses)


def test_a_closed_chain_under_water_slows_down_and_stays_closed():
    """Added mass and drag act on all bodies; the work of drag is what the energy loses."""
    model = in_water(tb.load("four_bar"))
    tree = model.without_loops()
    world = tb.World(gravity=(0.0, 0.0, 0.0), fluid=tb.Water())
    q, v = kicked(model, 2.0)
    run = tb.simulate(model, 0.5, q=q, v=v, world=world, record=tb.Record(every=1))
    assert run.outcome.status == "finished"
    assert np.abs(tb.constraint_residual(model, run.q)).max() < 1e-10
    kinetic = tb.kinetic_energy(tree, run.q, run.v, fluid=world.fluid)
    assert kinetic[-1] < 0.9 * kinetic[0]
    # with accelerations taken out, what the tree still needs in still water is drag and Coriolis
    # forces, of which the latter do no work
    power = np.einsum("ti,ti->t", tb.bias_force(tree, run.q, run.v, world=world), run.v)
    turning = np.einsum("ti,ti->t", rate_of_mass(tree, run, world), run.v)
    lost = integrated(power - 0.5 * turning, run.time)
    # trapezoids of a millisecond leave some 1e-6
    assert abs(kinetic[0] - kinetic[-1] - lost) < 1e-5 * kinetic[0]


def rate_of_mass(tree, run, world):
    """Return (dH/dt) v by central differences, which keep some nine digits."""
    h = 1e-6
    ahead, behind = (
        tb.mass_matrix(tree, run.q + s * h * run.v, fluid=world.fluid) for s in (1.0, -1.0)
    )
    return np.einsum("tij,tj->ti", (ahead - behind) / (2.0 * h), run.v)


def integrated(values, time):
    """Return the integral over time by trapezoids."""
    return float(np.sum(0.5 * (values[1:] + values[:-1]) * np.diff(time)))
