"""Textbook systems whose equations of motion can be written down."""

import numpy as np
import pytest

from tests.robots import cart_pendulum, double_pendulum, pendulum, top
from tests.running import WAYS, OnFloats
from tests.tolerances import ALGEBRA, assert_close

G = 9.81
STATES = np.random.default_rng(20).uniform(-3.0, 3.0, (6, 6))

on_floats_and_graph = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


@on_floats_and_graph
def test_pendulum_follows_its_equation_of_motion(way):
    """Point mass on a rod: m l^2 qdd + m g l sin q = tau."""
    length, mass = 0.7, 1.3
    ours = way(pendulum(length, mass))
    for q, v, tau, *_ in STATES:
        expected = (tau - mass * G * length * np.sin(q)) / (mass * length**2)
        assert_close(ours.forward_dynamics(*np.array([[q], [v], [tau]])), [expected])
        assert_close(ours.mass_matrix(np.array([q])), [[mass * length**2]])
        potential = -mass * G * length * np.cos(q)
        assert_close(ours.potential_energy(np.array([q])), potential)
        kinetic = 0.5 * mass * length**2 * v**2
        assert_close(ours.kinetic_energy(np.array([q]), np.array([v])), kinetic)


@on_floats_and_graph
def test_double_pendulum_follows_lagranges_equations(way):
    """Two point masses on rods, the second angle relative to the first.

    H11 = (m1 + m2) l1^2 + m2 l2^2 + 2 m2 l1 l2 cos q2, H12 = m2 l2^2 + m2 l1 l2 cos q2,
    H22 = m2 l2^2; velocity terms h (-2 v1 v2 - v2^2) and h v1^2 with h = m2 l1 l2 sin q2.
    """
    (l1, l2), (m1, m2) = (0.7, 0.4), (1.3, 0.8)
    ours = way(double_pendulum((l1, l2), (m1, m2)))
    for q1, q2, v1, v2, t1, t2 in STATES:
        c = m2 * l1 * l2 * np.cos(q2)
        h = m2 * l1 * l2 * np.sin(q2)
        H = np.array(
            [
                [(m1 + m2) * l1**2 + m2 * l2**2 + 2.0 * c, m2 * l2**2 + c],
                [m2 * l2**2 + c, m2 * l2**2],
            ]
        )
        outer = m2 * G * l2 * np.sin(q1 + q2)
        bias = np.array(
            [
                -h * (2.0 * v1 * v2 + v2**2) + (m1 + m2) * G * l1 * np.sin(q1) + outer,
                h * v1**2 + outer,
            ]
        )
        q, v, tau = np.array([q1, q2]), np.array([v1, v2]), np.array([t1, t2])
        assert_close(ours.mass_matrix(q), H)
        assert_close(ours.inverse_dynamics(q, v, np.zeros(2)), bias)
        # the condition number is below 100, and forces cancel to a tenth: far within ALGEBRA
        assert_close(ours.forward_dynamics(q, v, tau), np.linalg.solve(H, tau - bias))


@on_floats_and_graph
def test_pendulum_on_a_cart_follows_lagranges_equations(way):
    """The bob is at (x - l sin q, -l cos q).

    (M + m) xdd - m l cos q qdd + m l sin q v^2 = F; m l^2 qdd - m l cos q xdd + m g l sin q = tau.
    """
    cart, mass, length = 2.0, 0.7, 0.6
    ours = way(cart_pendulum(cart, mass, length))
    for x, q, xd, v, force, tau in STATES:
        coupling = -mass * length * np.cos(q)
        H = np.array([[cart + mass, coupling], [coupling, mass * length**2]])
        rest = np.array(
            [
                force - mass * length * np.sin(q) * v**2,
                tau - mass * G * length * np.sin(q),
            ]
        )
        actual = ours.forward_dynamics(*np.array([[x, q], [xd, v], [force, tau]]))
        assert_close(actual, np.linalg.solve(H, rest))


@on_floats_and_graph
def test_free_top_obeys_eulers_equations(way):
    """I wd + w x I w = n about the center of mass; in body axes vd + w x v = R^T g + f / m."""
    mass, moments = 1.1, np.array([0.02, 0.03, 0.045])
    model = top(mass, tuple(moments))
    ours = way(model)
    rng = np.random.default_rng(21)
    for _ in range(5):
        q, v = model.random_state(rng)
        tau = rng.standard_normal(6)
        w, linear = v[:3], v[3:]
        wd = (tau[:3] - np.cross(w, moments * w)) / moments
        a, b, c, d = q[:4]
        # third row of the rotation matrix: the world's z axis in body axes
        up = np.array([2 * (b * d - a * c), 2 * (c * d + a * b), a * a - b * b - c * c + d * d])
        vd = tau[3:] / mass - G * up - np.cross(w, linear)
        assert_close(ours.forward_dynamics(q, v, tau), [*wd, *vd])


def rk4(ours, model, q, v, step, steps):
    """Integrate without joint forces, on the manifold, by the classical Runge-Kutta method."""
    free = np.zeros(model.nv)
    for _ in range(steps):
        k1 = ours.forward_dynamics(q, v, free)
        v2 = v + 0.5 * step * k1
        k2 = ours.forward_dynamics(model.integrate(q, 0.5 * step * v), v2, free)
        v3 = v + 0.5 * step * k2
        k3 = ours.forward_dynamics(model.integrate(q, 0.5 * step * v2), v3, free)
        v4 = v + step * k3
        k4 = ours.forward_dynamics(model.integrate(q, step * v3), v4, free)
        q = model.integrate(q, step / 6.0 * (v + 2.0 * v2 + 2.0 * v3 + v4))
        v = v + step / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return q, v


def test_symmetric_top_precesses_at_the_known_rate():
    """Free of forces, w turns about the body's axis at (I3 - I1) / I1 w3, its length unchanged."""
    model = top(1.0, (0.02, 0.02, 0.03))
    ours = OnFloats(model, (0.0, 0.0, 0.0))
    q, _ = model.random_state(3)
    w = np.array([0.7, -0.4, 3.0])
    duration, steps = 1.0, 200
    _, after = rk4(ours, model, q, np.array([*w, 0.0, 0.0, 0.0]), duration / steps, steps)
    angle = (0.03 - 0.02) / 0.02 * w[2] * duration
    c, s = np.cos(angle), np.sin(angle)
    expected = [c * w[0] - s * w[1], s * w[0] + c * w[1], w[2]]
    # fourth order: (rate * step)^5 / 120 per step, rate 1.5 rad/s, 200 steps: 4e-11
    assert_close(after[:3], expected, 1e-9)


def test_pendulum_swings_with_the_period_of_the_elliptic_integral():
    """T = 4 sqrt(l / g) K(sin(q0 / 2)), K by the arithmetic-geometric mean."""
    length, start = 0.7, 2.0
    a, b = 1.0, np.cos(start / 2.0)
    for _ in range(6):
        a, b = 0.5 * (a + b), np.sqrt(a * b)
    period = 2.0 * np.pi * np.sqrt(length / G) / a
    steps = 1000
    model = pendulum(length)
    q, v = rk4(OnFloats(model), model, np.array([start]), np.zeros(1), period / steps, steps)
    # fourth order at 1000 steps per period: (2 pi / 1000)^4 = 1.6e-9 times a constant of order 1
    assert_close([*q, *v], [start, 0.0], 2e-8)


def test_double_pendulum_conserves_energy():
    """T + U is constant to the order of the integrator, in a large swing."""
    model = double_pendulum()
    ours = OnFloats(model)
    q, v = np.array([2.0, 1.0]), np.array([0.5, -1.0])
    before = ours.kinetic_energy(q, v) + ours.potential_energy(q)
    errors = []
    for steps in (200, 400):
        q1, v1 = rk4(ours, model, q, v, 0.5 / steps, steps)
        errors.append(abs(ours.kinetic_energy(q1, v1) + ours.potential_energy(q1) - before))
    # halving the step divides a fourth-order error by 16, and energy errors by up to 32
    assert errors[1] < errors[0] / 10.0
    assert errors[1] < 1e-6
    assert errors[1] > ALGEBRA
