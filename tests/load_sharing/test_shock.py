"""A force strikes a bar that two arms hold: the right sides jump, torques need not (7.14)."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.load_sharing.shock import Shock, struck, torque_programs
from tiburon.load_sharing.smoothing import smallest_step, smoothed_forces

HIT = 5
"""Time of the shock, as an index."""


@pytest.fixture(scope="module")
def sequence():
    """Two arms hold a bar at rest, weightless; 100 N strike it off its center."""
    arms = tb.load("two_pumas")
    plan = tb.LoadSharing.of(arms, world=tb.World(gravity=(0.0, 0.0, 0.0)))
    q = np.tile(arms.poses["home"], (60, 1))
    calm = plan.problem(q, formulation="superposition")
    rotation, _ = tb.forward_kinematics(arms, q[0], "bar")
    force = np.tile(rotation.T @ np.array([100.0, 0.0, 0.0]), (60, 1))
    shock = Shock(arms.slice("bar", of="v").start, force, np.array([0.1, 0.0, 0.02]), HIT)
    b1 = struck(calm.b1, shock)
    rows = list(plan.layout.driven), list(plan.layout.undriven)
    return plan, shock, torque_programs(calm.A1, b1, calm.A2, calm.b2, len(plan.names), *rows)


def test_a_shock_is_an_external_force_from_its_time_on(sequence):
    """The same torques as those of a force from outside in the shared load."""
    plan, shock, programs = sequence
    found = smoothed_forces(programs, dt=0.01, changes=[HIT])
    np.testing.assert_allclose(found.kept[:HIT], 0.0, atol=1e-9)
    force, lever = shock.force[0], shock.lever
    wrench = np.concatenate([np.cross(lever, force), force])
    plain = tb.LoadSharing.of(
        plan.model, world=plan.world, objective=tb.InternalForce(length=1.0)
    ).share(plan.model.poses["home"], external_force={"bar": wrench})
    np.testing.assert_allclose(found.kept[-1], plain.tau[list(plan.layout.driven)], atol=1e-6)


def test_smoothing_makes_the_jump_of_a_shock_smaller(sequence):
    """Step limits make the largest jump least; the penalty makes it smaller, and never fails."""
    programs = sequence[2]
    options = {"dt": 0.01, "changes": [HIT]}
    plain = smoothed_forces(programs, **options)
    least = smallest_step(programs, **options, start=HIT, on="torques")
    bounded = smoothed_forces(
        programs, tb.StepBound(1.01 * least, on="torques"), **options, start=HIT
    )
    soft = smoothed_forces(programs, tb.SmoothingPenalty(10.0, 0.3, on="torques"), **options)
    assert bounded.failed is None
    assert soft.failed is None
    assert least < bounded.steps[HIT] <= soft.steps[HIT] < plain.steps[HIT]
    below = smoothed_forces(programs, tb.StepBound(0.9 * least, on="torques"), **options, start=HIT)
    assert below.failed == HIT
    # the penalty spreads the jump: more motors take part
    moved = [np.abs(run.kept[HIT]) > 0.05 * np.abs(run.kept[HIT]).max() for run in (plain, soft)]
    assert moved[1].sum() >= moved[0].sum()
    # all carry the shock
    for run in (plain, bounded, soft):
        force = np.einsum("kij,kj->ki", programs.A1, run.x)
        np.testing.assert_allclose(force, programs.b1, atol=1e-8)


def test_shocks_that_do_not_fit_are_refused():
    with pytest.raises(tb.ShapeError, match="shock"):
        struck(np.zeros((4, 18)), Shock(0, np.zeros((3, 3)), np.zeros(3), 1))
