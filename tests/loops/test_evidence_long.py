"""Large closed mechanisms for long times, and one from a stranger's file."""

import sys
from pathlib import Path

import numpy as np
import pytest

import tiburon as tb
from tests.loops.dense import dense_acceleration, dense_constraints

RANDOM = np.random.default_rng(18)

WEIGHTLESS = tb.World(gravity=(0.0, 0.0, 0.0))


@pytest.mark.slow
def test_jansen_legs_keep_energy_and_momentum_for_a_minute():
    """Twelve legs, 36 loops: the crankshaft turns them while the whole animal floats.

    Nothing acts from outside, so that momentum stays in all six directions; no loop opens.
    """
    model = tb.load("strandbeest")
    q = model.neutral()
    crank = model.v_names.index("crankshaft")
    turning = tb.project_velocity(model, q, np.eye(model.nv)[crank])
    push = tb.project_velocity(model, q, RANDOM.standard_normal(model.nv))
    v = 4.0 * turning / turning[crank] + 0.1 * push
    run = tb.simulate(
        model, 60.0, q=q, v=v, world=WEIGHTLESS, method=tb.RK4(dt=5e-3), record=tb.Record(dt=0.1)
    )
    assert run.outcome.status == "finished"
    # it did walk on the spot, and every loop stayed closed
    turned = run.q[-1, model.slice("crankshaft", of="q")][0]
    assert abs(turned) > 2 * np.pi * 10
    assert np.abs(tb.constraint_residual(model, run.q)).max() < 1e-10
    energy = tb.kinetic_energy(model.without_loops(), run.q, run.v)
    momentum = np.asarray(run.get("momentum"))
    # RK4 in steps of 5 ms where struts swing back at some 30 rad/s: 1e-6 of the energy in a minute
    assert np.abs(energy / energy[0] - 1.0).max() < 1e-5
    assert np.abs(momentum - momentum[0]).max() < 1e-5 * np.abs(momentum[0]).max()


def cassie(name):
    """Return a file of the biped Cassie from the package example-robot-data, or None."""
    inside = Path("share/example-robot-data/robots/cassie_description/robots") / name
    roots = [Path(sys.prefix), *(Path(entry) / "cmeel.prefix" for entry in sys.path)]
    return next((root / inside for root in roots if (root / inside).is_file()), None)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tiburon.ModelWarning")
def test_a_biped_with_four_loops_of_a_real_file():
    """Cassie's rods close loops from spring to heel and from crank to foot, in each leg.

    Accelerations and forces of the loops against dense linear algebra at random velocities, and a
    run in which it falls: loops stay closed, energy stays.
    """
    file = cassie("cassie_simple.sdf")
    if file is None:
        pytest.skip("needs the package example-robot-data")
    model = tb.load(file)
    assert len(model.loops) == 4
    q = model.neutral()
    assert np.abs(tb.constraint_residual(model, q)).max() < 1e-12
    v = tb.project_velocity(model, q, RANDOM.standard_normal(model.nv))
    tau = RANDOM.standard_normal(model.nv)
    # the same equations, though hinges that are not quite parallel open loops (see below)
    found = tb.loop_dynamics(model, q, v, tau, closure=False)
    vd, force = dense_acceleration(model, q, v, tau)
    # constraints of condition 1e5 in the metric of the mass matrix, and rounding of 2e-16
    np.testing.assert_allclose(found.acceleration, vd, rtol=0, atol=1e-9 * np.abs(vd).max())
    np.testing.assert_allclose(
        found.constraint_force, force, rtol=0, atol=1e-9 * np.abs(force).max()
    )
    held = dense_constraints(model, q)
    assert found.rank == np.linalg.matrix_rank(held.J, tol=1e-8)
    # the hinges of each foot's four-bar are parallel to some digits only: with all constraints
    # independent the feet cannot move, and the outcome says what to do
    options = {
        "q": q,
        "v": 0.1 * v,
        "record": tb.Record(every=10),
    }
    loose = model.without_passive().without_limits()
    locked = tb.simulate(loose, 0.2, **options)
    assert locked.outcome.status == "diverged"
    assert "redundancy_tolerance" in locked.outcome.message
    tolerance = 1e-4
    run = tb.simulate(loose, 0.2, **options, loops=tb.Projection(redundancy_tolerance=tolerance))
    assert run.outcome.status == "finished"
    assert np.abs(tb.constraint_residual(model, run.q)).max() < tolerance
    tree = model.without_loops()
    kinetic = tb.kinetic_energy(tree, run.q, run.v)
    energy = kinetic + tb.potential_energy(tree, run.q)
    assert np.abs(energy - energy[0]).max() < 1e-5 * kinetic.max()
    assert np.abs(run.q[-1] - run.q[0]).max() > 0.01
