"""Laws that runs keep: momentum of what floats freely, energy over many steps."""

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator
from tests.robots import pendulum
from tests.simulation.samples import WEIGHTLESS


@tb.traced
def wave(state):
    """Move the arm by forces inside it: none from outside."""
    count = len(state.model.v_names)
    return [0.0] * 6 + [2.0 * np.sin(3.0 * state.time + k) for k in range(count - 6)]


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_floating_arm_conserves_momentum_under_internal_forces(method):
    """No force from outside: momentum, and moment about the center of mass, stay as they were."""
    model = tb.load("space_arm")
    generator = np.random.default_rng(2)
    q = model.integrate(model.neutral(), 0.5 * generator.standard_normal(model.nv))
    v = 0.3 * generator.standard_normal(model.nv)
    run = tb.simulate(
        model.without_passive().without_limits(),
        2.0,
        q=q,
        v=v,
        control=wave,
        world=WEIGHTLESS,
        method=integrator(method, rtol=1e-11, atol=1e-12),
        record=tb.Record(dt=0.5),
    )
    assert run.status == "finished"
    momentum = run.get("momentum").values
    moved = np.abs(run.q[-1] - run.q[0]).max()
    assert moved > 0.1
    # error of RK4 at 1 ms, and tolerance of the other, relative to what is there
    np.testing.assert_allclose(momentum, momentum[:1].repeat(len(momentum), 0), rtol=0, atol=1e-8)
    # the controller did work
    energy = run.get("kinetic_energy").values
    assert np.ptp(energy) > 1e-2


def test_floating_walking_machine_conserves_momentum():
    """Aquarobot (McMillan 1994, chapter 8) released in space: motors brake, momentum stays."""
    model = tb.load("aquarobot")
    v = 0.3 * np.random.default_rng(3).standard_normal(model.nv)
    run = tb.simulate(
        model.without_passive().without_limits(),
        0.5,
        v=v,
        world=WEIGHTLESS,
        record=tb.Record(dt=0.1),
    )
    assert run.status == "finished"
    momentum, energy = run.get("momentum").values, run.get("kinetic_energy").values
    # RK4 at 1 ms, legs swinging at some tenths of a radian per second
    np.testing.assert_allclose(momentum, momentum[:1].repeat(len(momentum), 0), rtol=1e-9)
    # motors without voltage are brakes: they only take energy
    assert np.all(np.diff(energy) < 0.0)
    assert np.abs(model.difference(run.q[0], run.q[-1])).max() > 0.05


@pytest.mark.slow
def test_energy_drifts_as_the_order_predicts_over_a_million_steps():
    """RK4 loses energy with the fifth power of the step: halving it leaves a thirty-second."""
    model = pendulum()
    drifts = []
    for dt, steps in ((4e-3, 250_000), (2e-3, 500_000), (1e-3, 1_000_000)):
        run = tb.simulate(
            model,
            dt * steps,
            q=[1.2],
            method=tb.RK4(dt=dt),
            record=tb.Record(every=steps // 10),
            execution=tb.Execution(progress=False),
        )
        assert run.status == "finished"
        energy = run.get("total_energy").values
        drifts.append(abs(float(energy[-1] - energy[0])))
    orders = np.log2(np.array(drifts[:-1]) / drifts[1:])
    # the last is near rounding: a million sums of numbers near 10
    np.testing.assert_allclose(orders[0], 5.0, atol=0.2)
    assert drifts[-1] < 1e-8
