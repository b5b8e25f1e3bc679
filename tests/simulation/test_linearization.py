"""Linear motion near a state: against central differences of motion, in both kinds of time."""

import numpy as np
import pytest

import tiburon as tb
from tests.robots import ROBOTS, kicked
from tests.tolerances import ALGEBRA, DIFFERENCE, DIFFERENCE_STEP, assert_close

NAMES = ["pendulum", "cart_pendulum", "top", "balloon"]


def largest(x):
    return max(1.0, float(np.abs(x).max(initial=0.0)))


def central(f, model, q, v, tau):
    """Differentiate a function of a state, which returns 2 nv numbers, by x and tau."""
    h, n = DIFFERENCE_STEP, model.nv
    columns = []
    for d in h * np.eye(n):
        columns.append(f(model.integrate(q, d), v, tau) - f(model.integrate(q, -d), v, tau))
    columns += [f(q, v + d, tau) - f(q, v - d, tau) for d in h * np.eye(n)]
    columns += [f(q, v, tau + d) - f(q, v, tau - d) for d in h * np.eye(n)]
    whole = np.array(columns).T / (2.0 * h)
    return whole[:, : 2 * n], whole[:, 2 * n :]


@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_linearized_as_integrate_rk4_takes_it(name):
    """The next state seen from the one reached without a change, by steps of position."""
    model = ROBOTS[name]
    q, v, tau = kicked(model, 51)
    dt = 0.02

    def after(q, v, tau):
        run = tb.integrate_rk4(model, q, v, tau, dt=dt, steps=1)
        return run.q[-1], run.v[-1]

    q1, _ = after(q, v, tau)

    def state(*given):
        reached, velocity = after(*given)
        return np.concatenate([model.difference(q1, reached), velocity])

    A, B = tb.linearize(model, q, v, tau, dt=dt)
    expected = central(state, model, q, v, tau)
    scale = largest(expected[0]) * largest(v) ** 2
    assert_close(A, expected[0], DIFFERENCE, scale)
    assert_close(B, expected[1], DIFFERENCE, scale)


@pytest.mark.parametrize("name", NAMES)
def test_continuous_time_is_the_limit_of_short_steps(name):
    """(A_d - 1) / dt and B_d / dt differ from A and B in proportion to dt."""
    model = ROBOTS[name]
    q, v, tau = kicked(model, 52)
    A, B = tb.linearize(model, q, v, tau)
    assert np.array_equal(A[: model.nv, model.nv :], np.eye(model.nv))
    errors = []
    for dt in (1e-3, 5e-4):
        A_d, B_d = tb.linearize(model, q, v, tau, dt=dt)
        parts = (A_d - np.eye(2 * model.nv)) / dt - A, B_d / dt - B
        errors.append(max(np.abs(part).max() for part in parts))
    # first order: half the step, half the error; quadratic terms are a hundredth of it here
    assert errors[0] / errors[1] == pytest.approx(2.0, rel=0.05)
    assert errors[1] < 0.1 * largest(A) ** 2


def test_linearization_of_rotating_bodies_includes_the_frame_rotation():
    """A top at constant spin w: d(dq)/dt = dq x w besides the change of velocity."""
    model = ROBOTS["top"]
    q, v, tau = kicked(model, 53)
    A, _ = tb.linearize(model, q, v, tau)
    step = np.random.default_rng(54).standard_normal(3)
    assert_close(A[:3, :3] @ step, np.cross(step, v[:3]), ALGEBRA)


def test_external_forces_and_time_enter_every_stage():
    """A force in world axes on an arm that stands on a shaking table."""
    shaker = tb.Driven("shaker", tb.Prismatic("shake", (1, 0, 0)), tb.Harmonic(0.1, frequency=3.0))
    rod = tb.Inertia.box(1.0, (0.3, 0.04, 0.04), com=(0.15, 0, 0.02))
    hinge = tb.Revolute("hinge", (0, 1, 0), pose=tb.Pose(translation=(0.1, 0.2, 0.3)))
    bodies = [
        tb.Body("table", joint=shaker, inertia=rod),
        tb.Body("arm", "table", joint=hinge, inertia=rod),
        tb.Body("ball", "arm", joint=tb.Spherical("ball"), inertia=rod),
    ]
    model = tb.Model("shaken", bodies)
    q, v, tau = kicked(model, 55)
    dt, time = 0.01, 0.13
    push = {"ball": np.array([0.3, -0.2, 0.5, 1.0, 2.0, -3.0])}
    given = {"external_force": push, "external_axes": "world", "time": time}
    A, B = tb.linearize(model, q, v, tau, **given)

    def rate(q, v, tau):
        return np.concatenate([v, tb.forward_dynamics(model, q, v, tau, **given)])

    expected = central(rate, model, q, v, tau)
    n = model.nv
    assert_close(A[n:], expected[0][n:], DIFFERENCE, 10 * largest(expected[0]))
    assert_close(B, expected[1], DIFFERENCE, 10 * largest(expected[1]))

    def after(q, v, tau):
        run = tb.integrate_rk4(model, q, v, tau, dt=dt, steps=1, time=time)
        return run.q[-1], run.v[-1]

    q1, _ = after(q, v, tau)

    def state(*given):
        reached, velocity = after(*given)
        return np.concatenate([model.difference(q1, reached), velocity])

    found = tb.linearize(model, q, v, tau, dt=dt, time=time)
    for part, wanted in zip(found, central(state, model, q, v, tau), strict=True):
        assert_close(part, wanted, DIFFERENCE, 10 * largest(wanted))


def test_a_batch_is_many_states_and_steps():
    model = ROBOTS["double_pendulum"]
    q, v, tau = kicked(model, 56, (3,))
    dt = np.array([0.01, 0.02, 0.05])
    A, B = tb.linearize(model, q, v, tau, dt=dt)
    for row in range(3):
        alone = tb.linearize(model, q[row], v[row], tau[row], dt=dt[row])
        assert np.array_equal(A[row], alone.A)
        assert np.array_equal(B[row], alone.B)


def test_rolling_joint_is_refused():
    ball = tb.Body("ball", joint=tb.RollingSphere("marble"), inertia=tb.Inertia.sphere(1.0, 0.1))
    model = tb.Model("rolling", [ball])
    q, v, tau = kicked(model, 57)
    with pytest.raises(tb.ModelError, match=r"joint 'marble'.*forward_dynamics_derivatives"):
        tb.linearize(model, q, v, tau)


def test_linear_models_may_be_used_inside_compiled_functions():
    """Both kinds of time, and derivatives beside them, give what calls outside give."""
    model = ROBOTS["cart_pendulum"]
    q, v, tau = kicked(model, 58)

    def predicted(model, q, v, tau):
        A, _ = tb.linearize(model, q, v, tau, dt=0.01)
        _, B = tb.linearize(model, q, v, tau)
        by_q = tb.forward_dynamics_derivatives(model, q, v, tau).by_q
        return {"next": A @ np.concatenate([v, v]), "rate": B @ tau, "change": by_q @ v}

    found = tb.compile(predicted, model)(q, v, tau)
    expected = (
        tb.linearize(model, q, v, tau, dt=0.01).A @ np.concatenate([v, v]),
        tb.linearize(model, q, v, tau).B @ tau,
        tb.forward_dynamics_derivatives(model, q, v, tau).by_q @ v,
    )
    for part, wanted in zip(found, expected, strict=True):
        assert_close(part, wanted, ALGEBRA)
