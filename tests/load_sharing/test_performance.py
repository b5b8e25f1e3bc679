"""Power of motors and performance indices of two arms that turn a bar (Nahon 1991, 6.2.7)."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.reproduce.nahon_tasks import pumas_motion, two_pumas

FREE = tb.World(gravity=(0.0, 0.0, 0.0))


@pytest.fixture(scope="module")
def task():
    model = two_pumas()
    q, v, vd = pumas_motion(model, np.linspace(0.0, 1.0, 9))
    keep = slice(4, None)
    return model, q[keep], v[keep], vd[keep]


@pytest.fixture(scope="module")
def shares(task):
    model, *motion = task
    objectives = {
        "force": tb.InternalForce(length=0.45),
        "power": tb.MotorLoss(),
        "kopf": tb.MotorLoss(friction=False),
    }
    return {
        key: tb.LoadSharing.of(model, world=FREE, objective=o).share(*motion)
        for key, o in objectives.items()
    }


def test_power_imparted_does_not_depend_on_the_sharing(task, shares):
    """(6.43): forces between arms and bar do no work, so that joint power is that of the motion."""
    _, _, v, _ = task
    powers = [np.sum(share.tau * v, axis=-1) for share in shares.values()]
    size = np.abs(powers[0]).max()
    assert size > 1.0
    for power in powers[1:]:
        np.testing.assert_allclose(power, powers[0], rtol=0, atol=1e-12 * size)
    # while torques differ
    assert np.abs(shares["force"].tau - shares["power"].tau).max() > 0.1


def test_motor_power_is_that_of_the_circuit(task, shares):
    """Voltage times current: v = R i + K n thd, K n i = tau + rotor and friction (6.44)-(6.50)."""
    model, _, v, vd = task
    found = tb.motor_power(model, v, vd, shares["force"].tau)
    for k, actuator in enumerate(model.actuators):
        i = model.slice(actuator.joint, of="v").start
        motor, n = actuator.motor, actuator.ratio
        armature = float(np.ravel(model.joint(actuator.joint).armature)[0])
        rate, change = v[:, i], vd[:, i]
        torque = shares["force"].tau[:, i] + (n**2 * actuator.rotor_inertia - armature) * change
        torque = torque + n**2 * motor.damping * rate + abs(n) * motor.friction * np.sign(rate)
        current = torque / (n * motor.torque_constant)
        voltage = motor.resistance * current + motor.torque_constant * n * rate
        power = found.loss[:, k] + found.mechanical[:, k]
        np.testing.assert_allclose(power, voltage * current, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found.total, (found.loss + found.mechanical).sum(axis=1))


def test_each_objective_minimizes_its_quantity(task, shares):
    """Winding loss and internal force in the order of the source at every instant."""
    model, _, v, vd = task
    loss = {k: tb.motor_power(model, v, vd, s.tau).loss.sum(axis=1) for k, s in shares.items()}
    assert np.all(loss["power"] <= loss["kopf"] * (1 + 1e-9))
    assert np.all(loss["power"] <= loss["force"] * (1 + 1e-9))
    kinds = [kind for group in shares["force"].plan.layout.groups for kind in group.kinds]
    weights = np.array([1.0 if kind == "moment" else 0.45**2 for kind in kinds])
    force = {k: np.sum(weights * s.x**2, axis=1) for k, s in shares.items()}
    assert np.all(force["force"] <= force["power"])
    assert np.all(force["force"] <= force["kopf"])


def test_indices_are_ratios_at_instants_and_of_integrals():
    """(6.55)-(6.57), trapezoids over the task."""
    time = [0.0, 1.0, 3.0]
    found = tb.performance_indices(time, [1, 2, 2], [4, 4, 8], [10, 10, 10], [8, 9, 10])
    np.testing.assert_allclose(found.force, [0.25, 0.5, 0.25])
    np.testing.assert_allclose(found.power, [0.8, 0.9, 1.0])
    assert found.global_force == pytest.approx((1.5 + 4.0) / (4.0 + 12.0))
    assert found.global_power == pytest.approx((8.5 + 19.0) / 30.0)
    assert found.is_bounded.all()


def test_quantities_without_an_index_are_refused():
    with pytest.raises(tb.DomainError, match="time"):
        tb.performance_indices([0.0, 0.0], [1, 1], [1, 1], [1, 1], [1, 1])
    with pytest.raises(tb.ShapeError, match="least_power"):
        tb.performance_indices([0.0, 1.0], [1, 1], [1, 1], [1, 1], [1])
    hexapod = tb.load("osu_hexapod")
    still = np.zeros(hexapod.nv)
    with pytest.raises(tb.ModelError, match="MotorLoss needs a Motor"):
        tb.motor_power(hexapod, still, still, still)
