"""Servos: feedback inside actuators, at the stages of steps and at their ends."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.actuation.stepping import FREE
from tiburon.actuation.defaults import elements_of
from tiburon.actuation.joint_laws import SERVO, ended_laws
from tiburon.algorithms.tape_calls import scalars
from tiburon.native.kernel import make_kernel
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.layout import ELEMENTS
from tiburon.simulation.step import Stepping
from tiburon.simulation.step_derivative import step_columns
from tiburon.simulation.system import System
from tiburon.trace.program import Input

INFINITE = (-np.inf, np.inf)


def arm(stiffness, damping, limits=INFINITE, **servo):
    """Return a double pendulum whose first joint has a servo, and whose second has a weaker one."""

    def rod(mass, length):
        about = mass * length**2 / 12.0
        tensor = (1e-3 * mass, 0.0, 0.0, about, 0.0, about)
        return tb.Inertia(mass, (0.5 * length, 0.0, 0.0), tensor)

    axis = (0.0, 1.0, 0.0)
    elbow = tb.Revolute("elbow", axis, pose=tb.Pose(translation=(0.4, 0.0, 0.0)))
    bodies = [
        tb.Body("upper", joint=tb.Revolute("shoulder", axis), inertia=rod(1.0, 0.4)),
        tb.Body("lower", "upper", joint=elbow, inertia=rod(0.3, 0.3)),
    ]
    first = tb.Servo(stiffness, damping, **servo)
    actuators = [
        tb.Actuator("first", "shoulder", force_limits=limits, servo=first),
        tb.Actuator("second", "elbow", servo=tb.Servo(0.2 * stiffness, 0.05 * damping)),
    ]
    return tb.Model("arm", bodies, actuators=actuators)


def end(model, method, duration=0.4, **options):
    """Return the last position and velocity of a run from a kicked state."""
    given = {"q": [0.4, -0.9], "v": [0.5, -1.0], "command": {"first": 1.0, "second": -0.5}}
    run = tb.simulate(model, duration, method=method, **{**given, **options})
    return np.concatenate([run.q[-1], 0.1 * run.v[-1]])


def test_a_servo_that_steps_resolve_is_a_force_at_the_stages():
    """Its outputs are its law at the recorded states, limits of command and force included."""
    limits = (-4.0, 5.0)
    model = arm(20.0, 0.3, limits, command_limits=(-0.2, 0.6), gain=15.0, bias=0.7)
    run = tb.simulate(
        model, 0.3, q=[0.4, -0.9], v=[3.0, 0.0], command={"first": 1.0}, method=tb.RK4(dt=1e-4)
    )
    assert not ended_laws(model, 1e-4)
    expected = 15.0 * 0.6 + 0.7 - 20.0 * run.q[:, 0] - 0.3 * run.v[:, 0]
    assert expected.min() < -4.0 < 0.0 < expected.max()
    found = run.get("first.force").values
    np.testing.assert_allclose(found, np.clip(expected, *limits), atol=1e-12)


@pytest.mark.parametrize(
    ("limits", "servo"),
    [
        (INFINITE, {}),
        ((-8.0, 9.0), {}),
        (INFINITE, {"gain": 1500.0, "bias": 30.0, "command_limits": (-0.2, 0.6)}),
    ],
)
def test_stiff_servos_converge_to_an_adaptive_reference(limits, servo):
    """Twice the steps, a quarter of the error, also with limits that bind for a part of the run."""
    model = arm(2000.0, 60.0, limits, **servo)
    exact = end(model, tb.DormandPrince(rtol=1e-11, atol=1e-12))
    errors = [np.abs(end(model, tb.RK4(dt=dt)) - exact).max() for dt in (5e-3, 2.5e-3, 1.25e-3)]
    assert errors[0] < 0.07
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert (orders > 1.9).all()


def test_a_stiff_servo_rests_where_its_force_balances_the_weight():
    """At 10 ms, where explicit steps would diverge at once: k (u - q) = m g l cos q."""
    model = arm(5e4, 3e3)
    run = tb.simulate(
        model, 2.0, q=[0.4, -0.9], command={"first": 0.5, "second": 0.1}, method=tb.RK4(dt=0.01)
    )
    assert {one.law for one in ended_laws(model, 0.01)} == {SERVO}
    assert np.abs(run.v[-1]).max() < 1e-12
    weight = tb.inverse_dynamics(model, run.q[-1], [0.0, 0.0], [0.0, 0.0])
    np.testing.assert_allclose([5e4, 1e4] * (np.array([0.5, 0.1]) - run.q[-1]), weight, rtol=1e-9)
    np.testing.assert_allclose(run.get("first.force").values[-1], weight[0], rtol=1e-9)


def test_force_limits_of_a_stiff_servo_hold_in_every_step():
    """A wheel at its limit has a constant acceleration, then the servo catches it."""
    wheel = tb.Model(
        "wheel",
        [
            tb.Body(
                "rim",
                joint=tb.Revolute("hub"),
                inertia=tb.Inertia(1.0, tensor=(0.1, 0.0, 0.0, 0.1, 0.0, 0.1)),
            )
        ],
        actuators=[
            tb.Actuator("drive", "hub", force_limits=(-2.0, 2.0), servo=tb.Servo(damping=1e3))
        ],
    )
    run = tb.simulate(
        wheel,
        1.0,
        command={"drive": 10.0},
        world=FREE,
        method=tb.RK4(dt=0.01),
        record=tb.Record(every=1),
    )
    inertia = float(tb.mass_matrix(wheel, [0.0])[0, 0])
    force = run.get("drive.force").values[1:]
    assert np.abs(force).max() <= 2.0 * (1.0 + 1e-9)
    reached = 10.0 * inertia / 2.0
    expected = np.minimum(run.time / reached, 1.0) * 10.0
    np.testing.assert_allclose(run.v[:, 0], expected, atol=2e-2 * 10.0)
    before = run.time < reached - 0.01
    np.testing.assert_allclose(run.v[before, 0], expected[before], atol=1e-9)
    np.testing.assert_allclose(run.q[before, 0], (run.time**2 / inertia)[before], atol=1e-9)


def test_a_servo_within_its_limits_is_the_same_as_a_row_and_without():
    """Beside dry friction of another joint, whose rows every step solves."""
    runs = []
    for limits in (INFINITE, (-400.0, 500.0)):
        model = arm(2000.0, 60.0, limits)
        upper, lower = model.bodies
        rubbing = replace(lower.joint, passive=tb.JointPassive(friction=0.3))
        bodies = [upper, replace(lower, joint=rubbing)]
        model = tb.Model("arm", bodies, actuators=model.actuators[:1])
        method = tb.RK4(dt=5e-3)
        runs.append(tb.simulate(model, 0.5, q=[0.3, -0.9], method=method))
    assert np.abs(runs[0].get("first.force").values).max() > 10.0
    np.testing.assert_allclose(runs[1].q, runs[0].q, atol=1e-6)
    np.testing.assert_allclose(
        runs[1].get("first.force").values, runs[0].get("first.force").values, atol=1e-3
    )


def test_runs_start_with_the_set_points_of_the_pose_they_start_in():
    """Of each case; elsewhere, and by command=, others."""
    points = {"home": 0.4, "other": -0.3}
    model = arm(200.0, 10.0, set_points=points)
    poses = {"home": [0.4, -0.9], "other": [0.1, 0.2]}
    model = tb.Model("arm", model.bodies, actuators=model.actuators, poses=poses)
    q = [[0.4, -0.9], [0.1, 0.2], [0.1, 0.3]]
    run = tb.simulate(model, 0.01, q=q)
    np.testing.assert_array_equal(run.u[0, :, 2], [0.4, -0.3, 0.0])
    given = tb.simulate(model, 0.01, q=q, command={"second": 1.0})
    np.testing.assert_array_equal(given.u[0, :, 2:], [[0.4, 1.0], [-0.3, 1.0], [0.0, 1.0]])
    held = tb.simulate(model, 0.01, q=q, command={"first": 0.2})
    np.testing.assert_array_equal(held.u[0, :, 2], 0.2)


def test_cases_of_a_batch_move_as_alone():
    """Cases at their limits and within them, in one batch."""
    model = arm(2000.0, 60.0, (-8.0, 9.0))
    q = np.array([[0.4, -0.9], [0.02, 0.0], [-1.0, 0.5]])
    method = tb.RK4(dt=5e-3)
    batch = tb.simulate(model, 0.3, q=q, method=method)
    for k, start in enumerate(q):
        alone = tb.simulate(model, 0.3, q=start, method=method)
        np.testing.assert_array_equal(batch.q[:, k], alone.q)
        np.testing.assert_array_equal(batch.v[:, k], alone.v)


def test_sweeps_change_gains_and_where_servos_act():
    """Gains by name: steps take a servo at their ends where a case needs it."""
    model = arm(2.0, 0.1)
    values = {"first.servo.stiffness": [2.0, 4e4], "first.servo.damping": [0.1, 800.0]}
    assert not ended_laws(model, 1e-3)
    run = tb.simulate(model, 0.2, q=[0.0, 0.2], parameters=values, method=tb.RK4(dt=1e-3))
    for k, gains in enumerate(zip(*values.values(), strict=True)):
        actuator = tb.Actuator("first", "shoulder", servo=tb.Servo(*gains))
        own = tb.Model("arm", model.bodies, actuators=[actuator, model.actuators[1]])
        alone = tb.simulate(own, 0.2, q=[0.0, 0.2], method=tb.DormandPrince())
        np.testing.assert_allclose(run.q[-1, k], alone.q[-1], atol=1e-4)


def test_a_traced_controller_moves_the_set_point():
    """Commands within a step count at the mean of its ends: second order."""
    model = arm(2000.0, 60.0)

    def control(state):
        return {"first": 0.5 + 0.3 * state.q[1], "second": 0.2 * state.q[0]}

    exact = end(model, tb.DormandPrince(rtol=1e-11, atol=1e-12), control=control)
    errors = [
        np.abs(end(model, tb.RK4(dt=dt), control=control) - exact).max() for dt in (4e-3, 2e-3)
    ]
    assert errors[1] < 1e-4
    assert np.log2(errors[0] / errors[1]) > 1.7


def test_controllers_of_joint_forces_refuse_servos():
    """By name, with what to do; without servos they hold."""
    model = arm(200.0, 10.0)
    control = tb.PD([0.4, -0.9], 100.0, 10.0)
    with pytest.raises(tb.ModelError, match=r"actuator 'first': .* simulate model\.without_servos"):
        tb.simulate(model, 0.01, control=control)
    run = tb.simulate(model.without_servos(), 1.0, q=[0.4, -0.9], control=control)
    weight = tb.inverse_dynamics(model, run.q[-1], [0.0, 0.0], [0.0, 0.0])
    np.testing.assert_allclose(100.0 * ([0.4, -0.9] - run.q[-1]), weight, atol=0.05)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tb.Servo(stiffness=-1.0), "servo: stiffness must be at least 0, got -1"),
        (lambda: tb.Servo(1.0, set_points=3), "servo: set_points must be commands by pose, got 3"),
        (lambda: tb.Servo(1.0, command_limits=(1, 0)), "command_limits must be smallest and"),
        (
            lambda: tb.Actuator("a", "j", servo=3.0),
            "actuator 'a': servo must be a Servo, got 3.0; write Servo",
        ),
        (
            lambda: tb.Actuator("a", "j", command="force", servo=tb.Servo(1.0)),
            "actuator 'a': expected a servo without motor and command",
        ),
        (
            lambda: tb.Actuator("a", "j", force_limits=(-1, np.inf), servo=tb.Servo(1.0)),
            "actuator 'a': expected two finite force_limits of a servo or none",
        ),
        (
            lambda: tb.Actuator("a", "j", speed_limit=1.0, servo=tb.Servo(1.0)),
            "actuator 'a': speed_limit is for actuators that forces command",
        ),
        (
            lambda: tb.Model(
                "m",
                [tb.Body("b", joint=tb.Free("f"), inertia=tb.Inertia.sphere(1.0, 0.1))],
                actuators=[tb.Actuator("a", "f", servo=tb.Servo(1.0))],
            ),
            "actuator 'a': a servo drives a joint with one degree of freedom, got the free joint",
        ),
    ],
)
def test_wrong_servos_are_refused_by_name(make, message):
    """One sentence each."""
    with pytest.raises(tb.ModelError) as caught:
        make()
    assert message in str(caught.value)


def test_methods_that_cannot_end_steps_refuse_stiff_servos():
    """With the servo, its actuator and the longest step."""
    with pytest.raises(tb.DomainError, match=r"servo of actuator 'first'.*steps of at most"):
        tb.simulate(arm(1e5, 1e3), 0.1, method=tb.PredictorCorrector(dt=1e-2))


@pytest.mark.parametrize("kick", [0.0, 3.0])
def test_derivatives_of_steps_with_stiff_servos_match_differences(kick):
    """Within the limits of the first servo, and at them."""
    model, dt, eps = arm(2000.0, 60.0, (-8.0, 9.0)), 5e-3, 1e-6
    system = System(model, None, elements_of(model, laws=ended_laws(model, dt)), steps=True)
    count = len(system.z_names)
    forces = [2.0, -0.5]
    z = np.array([*forces, *(0.0,) * (count - 2)])

    class Derivatives:
        name = "servo_derivatives"
        key = f"test servo derivatives {system.key}"

        def inputs(self):
            return [Input("q", (2,)), Input("v", (2,)), Input("z", (count,))]

        def retrace(self):
            system.retrace()

        def program(self):
            def run(given):
                q, v, z = (tuple(scalars(given[name])) for name in ("q", "v", "z"))
                p = scalars(given[ELEMENTS])
                columns = step_columns(system, "rk4", (q, v, (0.0, 0.0), z), dt, 0.0, p)
                return [x for column in columns for x in column]

            return system.trace(run, self.inputs(), self.name)

    kernel = make_kernel(Derivatives(), system.parameters())
    q, v = np.array([1e-3, 0.02]), np.array([kick, -0.4])
    found = np.asarray(kernel(q, v, z)).reshape(-1, 4)[:4].T
    step = Stepping(system, METHODS["rk4"], scalars(np.array(system.numbers()))).step

    def after(state):
        u = (0.0,) * len(system.command_names)
        q1, w1, _, u1 = step(tuple(state[:2]), tuple(state[2:]), (), (*u, *z), dt, 0.0)
        return np.array([*q1, *w1]), u1[len(u)]

    start = np.concatenate([q, v])
    # the first servo is at its limit where the joint is fast
    assert (abs(after(start)[1] + 8.0) < 1e-9) == (kick > 0.0)
    ends = [[after(start + side * eps * e)[0] for side in (1.0, -1.0)] for e in np.eye(4)]
    columns = [(later - earlier) / (2.0 * eps) for later, earlier in ends]
    np.testing.assert_allclose(found, np.transpose(columns), atol=1e-5)
