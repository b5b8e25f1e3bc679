"""Initial states of runs with loops, and the end of runs whose loops cannot close."""

import numpy as np
import pytest

import tiburon as tb
from benchmarks.mechanisms import four_bar_state
from tests.loops.mechanisms import stretched_elbow
from tiburon.functions.assembly import closed_start
from tiburon.zoo import n_four_bar

RANDOM = np.random.default_rng(23)

FLAT = np.array([-0.5, -0.5, -0.5, 0.5, 0.5]) * np.pi
"""All rods of the two-loop four-bar on one line, where it can change branch."""


@pytest.fixture(scope="module")
def four_bar():
    model = tb.load("four_bar")
    return model, np.array(model.poses["home"])


def test_robots_with_loops_start_at_home(four_bar):
    model, home = four_bar
    run = tb.simulate(model, 0.01)
    np.testing.assert_array_equal(run.q[0], home)


def test_open_loops_at_the_start_are_refused(four_bar):
    model, home = four_bar
    with pytest.raises(tb.DomainError, match=r"loop 'closure' open by 0\.1.*tb\.assemble"):
        tb.simulate(model, 0.01, q=home + 0.1)
    starts = np.array([home, home + 0.1])
    with pytest.raises(tb.DomainError, match="in case 1"):
        tb.simulate(model, 0.01, q=starts)


def test_residuals_of_rounding_are_projected(four_bar):
    model, home = four_bar
    q = np.array([home, home + 1e-8])
    run = tb.simulate(model, 0.01, q=q)
    np.testing.assert_array_equal(run.q[0, 0], home)
    assert np.abs(tb.constraint_residual(model, run.q[0, 1])).max() < 1e-12
    assert np.abs(run.q[0, 1] - home).max() < 1e-7


def test_velocities_that_open_loops_are_refused(four_bar):
    model, home = four_bar
    with pytest.raises(tb.DomainError, match="project_velocity"):
        tb.simulate(model, 0.01, q=home, v=[1.0, 0.0, 0.0])


def test_resting_at_a_bifurcation_is_refused_unless_a_velocity_is_given():
    model = tb.load("n_four_bar_2")
    with pytest.raises(tb.DomainError, match="2 independent constraints here, 4 beside it"):
        tb.simulate(model, 0.01, q=FLAT)
    # the velocity of the branch on which uprights stay parallel
    run = tb.simulate(model, 0.01, q=FLAT, v=[1.0, 1.0, 1.0, -1.0, -1.0])
    assert run.outcome.ok
    np.testing.assert_allclose(run.q[-1, 1:3], run.q[-1, 0], atol=1e-9)


def test_velocity_is_continuous_through_a_singular_pose():
    """Falling through the line on which it could change branch, the mechanism goes straight on."""
    model = tb.load("n_four_bar_2")
    tree = model.without_loops()
    v = -np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    # falls through the line at 5.65 rad/s; steps of 0.1 ms come within some 1e-4 rad of it
    run = tb.simulate(
        model,
        0.9,
        v=v,
        method=tb.RK4(dt=1e-4),
        record=tb.Record(every=1, quantities=["constraint_singular_value"]),
    )
    near = run.data["constraint_singular_value"].values
    assert near.min() < 1e-3
    assert near.max() > 0.1
    # second differences of smooth motion are 1e-8 s^2 times its jerk, here near zero
    at = int(near.argmin())
    window = slice(at - 10, at + 11)
    jump = np.diff(run.v[window], n=2, axis=0)
    H = tb.mass_matrix(tree, run.q[window][1:-1])
    size = np.sqrt(np.einsum("ti,tij,tj->t", jump, H, jump))
    assert size.max() < 1e-6
    # one freedom: its speed follows from its energy
    energy = tb.kinetic_energy(tree, run.q, run.v) + tb.potential_energy(tree, run.q)
    assert np.ptp(energy) < 1e-6 * np.abs(energy).max()


def test_runs_report_residuals(four_bar):
    model, home = four_bar
    run = tb.simulate(model, 0.02, q=home, record=tb.Record(quantities=["constraint_residual"]))
    gaps = np.abs(tb.constraint_residual(model, run.q)).max(axis=-1)
    np.testing.assert_array_equal(run.data["constraint_residual"].values, gaps)


def test_loops_that_cannot_follow_end_the_run_by_name():
    """A rod of 1 m tied to a point, its foot driven away: it cannot reach further than that."""
    rod = tb.Inertia(1.0, (0.5, 0.0, 0.0), (1e-3, 0.0, 0.0, 0.1, 0.0, 0.1))
    pull = tb.Driven("pull", tb.Prismatic("away", (1, 0, 0)), tb.Polynomial((0.5, 2.0)))
    bodies = [
        tb.Body("foot", joint=pull, inertia=rod),
        tb.Body("rod", parent="foot", joint=tb.Revolute("hinge", (0, 1, 0)), inertia=rod),
        tb.Body("slide", joint=tb.Prismatic("up", (0, 0, 1)), inertia=rod),
    ]
    tie = tb.LoopClosure(
        "tie", "rod", "slide", tb.Spherical("tip", pose=tb.Pose(translation=(1.0, 0.0, 0.0)))
    )
    model = tb.Model("torn", bodies, loops=[tie])
    q = tb.project_configuration(model, [-2.1, 0.85]).q
    run = tb.simulate(model, 1.0, q=q)
    assert run.outcome.status == "diverged"
    assert "gap of loop 'tie'" in run.outcome.message
    # the foot is 1 m away after a quarter of a second
    assert run.outcome.time <= 0.25


def test_the_plain_integrator_takes_the_steps_of_a_run(four_bar):
    model, home = four_bar
    v = tb.project_velocity(model, home, RANDOM.standard_normal(model.nv))
    run = tb.simulate(
        model.without_passive().without_limits(), 0.05, q=home, v=v, record=tb.Record(every=10)
    )
    record = tb.integrate_rk4(model, home, v, dt=1e-3, steps=50, record_every=10)
    # the same steps in two programs: their rounding differs
    np.testing.assert_allclose(record.q, run.q, atol=1e-12)
    with pytest.raises(tb.DomainError, match="loop 'closure' open"):
        tb.integrate_rk4(model, home + 0.1, v, dt=1e-3, steps=50)


def test_rounding_beside_a_singular_pose_does_not_turn_velocities():
    """Along a branch, next to where it meets another: the velocity is that of the branch."""
    model = tb.load("n_four_bar_2")
    branch = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    # rows of the Jacobian shrink with the distance, their rounding does not: 5e-16 / 1e-8
    near = 10.0 ** -np.arange(3.0, 9.0)
    q = FLAT + near[:, None] * branch + 1e-16 * RANDOM.standard_normal((len(near), 5))
    kept = tb.project_velocity(model, q, np.tile(5.0 * branch, (len(near), 1)))
    np.testing.assert_allclose(kept, np.tile(5.0 * branch, (len(near), 1)), atol=1e-6)


# -- singular configurations -----------------------------------------------------------------------


def test_collinear_four_bars_are_singular():
    """Almost all first-order motions are none: the search for poses nearby must not give up."""
    model = n_four_bar(12)
    q, v = four_bar_state(12, np.pi / 2)
    rest = np.zeros((1, model.nv))
    with pytest.raises(tb.DomainError, match="12 independent constraints here") as caught:
        closed_start(model, q[None], rest, 0.0)
    assert "project_velocity" in str(caught.value)
    # a velocity chooses, and beside the pose there is nothing to choose
    assert closed_start(model, q[None], v[None], 0.0).v is not None
    beside, _ = four_bar_state(12, np.pi / 2 - 0.05)
    closed_start(model, beside[None], rest, 0.0)


def test_stretched_elbow_may_rest():
    """Singular to first order, but no way leads away: nothing needs to be chosen."""
    model = stretched_elbow()
    start = closed_start(model, np.zeros((1, 2)), np.zeros((1, 2)), 0.0)
    assert not start.q.any()
