"""Motors whose winding or back-EMF is faster than a step: they act at the ends of steps."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.actuation.joint_laws import MOTOR, ended_laws

EXACT = tb.Rosenbrock(rtol=1e-9, atol=1e-10)


def arm(inductance=0.0, resistance=1.0, ratio=100.0, force=np.inf, **motor):
    """Return a light link with a geared motor under gravity."""
    drive = tb.Motor(resistance=resistance, torque_constant=0.05, inductance=inductance, **motor)
    joint = tb.Revolute("hinge", (0, 1, 0), armature=0.02)
    link = tb.Body(
        "link", joint=joint, inertia=tb.Inertia.box(0.5, (0.3, 0.05, 0.05), com=(0.15, 0, 0))
    )
    limits = (-force, force)
    actuator = tb.Actuator("drive", "hinge", ratio, motor=drive, force_limits=limits)
    return tb.Model("arm", [link], actuators=[actuator])


@tb.traced
def sweep(state):
    return [3.0 * np.sin(40.0 * state.time) ** 2]


def run(model, dt, duration=0.3, **options):
    options = {"method": tb.RK4(dt=dt), "record": tb.Record(dt=0.02), **options}
    return tb.simulate(model, duration, **options)


@pytest.mark.parametrize("inductance", [0.0, 1e-4, 1e-5])
def test_fast_motors_follow_an_adaptive_reference(inductance):
    """Rates of 1e3 to 1e5 per second at steps of 1 ms: velocity, and current where it is a state.

    In the first step the joint may move by up to half of it at the speed that it takes up.
    """
    model = arm(inductance)
    assert [one.law for one in ended_laws(model, 1e-3)] == [MOTOR]
    exact = run(model, 1e-3, command={"drive": 6.0}, method=EXACT)
    found = run(model, 1e-3, command={"drive": 6.0})
    np.testing.assert_allclose(found.v[1:], exact.v[1:], atol=2e-4)
    np.testing.assert_allclose(found.q, exact.q, atol=0.5 * 1e-3 * np.abs(exact.v).max())
    np.testing.assert_allclose(found.x[1:], exact.x[1:], atol=5e-3)


def test_back_emf_at_the_ends_of_steps_is_of_second_order():
    """Errors of position under a smooth voltage fall by four as the step is halved."""
    model = arm(ratio=180.0)
    exact = run(model, 1e-3, control=sweep, method=EXACT)
    errors = [
        np.abs(run(model, dt, control=sweep).q - exact.q).max() for dt in (1e-3, 5e-4, 2.5e-4)
    ]
    assert len(ended_laws(model, 2.5e-4)) == 1
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert errors[1] < 1e-4
    assert (orders > 1.7).all(), (errors, orders)


def test_slow_motors_have_the_order_of_the_method():
    """Below a rate times step of 0.5 nothing is added."""
    model = arm(inductance=0.05, resistance=5.0, ratio=1.0)
    assert ended_laws(model, 1e-3) == ()
    assert run(model, 1e-3).z.shape[-1] == 0


def test_forces_and_currents_keep_their_limits():
    """The mean force of every step is within the limits of force, and of current."""
    for model, most in (
        (arm(force=3.0), 3.0),
        (arm(1e-4, current_limit=1.2), 100.0 * 0.05 * 1.2),
    ):
        found = run(model, 1e-3, command={"drive": 20.0}, record=tb.Record(every=1))
        force = found.z[:, found.header.column("z").labels.index("drive.motor_force")]
        assert np.abs(force).max() <= most * (1.0 + 1e-9)
        assert np.abs(force).max() > 0.999 * most
        exact = run(model, 1e-3, command={"drive": 20.0}, method=EXACT)
        np.testing.assert_allclose(found.v[::20], exact.v, atol=0.02 * np.abs(exact.v).max())


def test_friction_of_the_rotor_holds_the_joint():
    """Without voltage a motor with friction above the load at the joint does not creep."""
    held = run(arm(friction=0.01), 1e-3, q=[0.3], record=tb.Record(every=1))
    # the weight turns the joint by 0.7 N m, friction of the rotor is 1 N m there
    assert np.abs(held.q - 0.3).max() < 1e-10


def test_what_a_driver_and_brushes_do_stays_at_the_stages():
    """Both limits, or brushes, are not linear in current and speed."""
    for words in ({"brush_drop": 0.5}, {"voltage_limit": 12.0, "current_limit": 3.0}):
        assert ended_laws(arm(**words), 1e-3) == ()


def test_cases_and_resumed_runs_have_the_bits_of_single_ones():
    """Currents are states that the ends of steps give."""
    model = arm(1e-4)
    given = {"drive.motor.resistance": np.array([0.8, 1.5])}
    both = run(model, 1e-3, command={"drive": 4.0}, parameters=given)
    for k, R in enumerate(given["drive.motor.resistance"]):
        alone = run(model, 1e-3, command={"drive": 4.0}, parameters={"drive.motor.resistance": R})
        np.testing.assert_array_equal(both.x[:, k], alone.x)
        np.testing.assert_array_equal(both.q[:, k], alone.q)
    whole = run(model, 1e-3, command={"drive": 4.0})
    parts = run(model, 1e-3, 0.1, command={"drive": 4.0}).resume(0.2)
    np.testing.assert_array_equal(parts.x[-1], whole.x[-1])
    np.testing.assert_array_equal(parts.z[-1], whole.z[-1])


def test_recorded_outputs_are_those_of_the_motor():
    """Power, heat and the mean force: at a constant speed they balance."""
    found = run(arm(), 1e-3, command={"drive": 6.0}, duration=0.1)
    power, loss, force = (
        float(found.get(f"drive.{word}").values[-1]) for word in ("power", "loss", "force")
    )
    assert power - loss == pytest.approx(force * found.v[-1, 0], rel=2e-2)
