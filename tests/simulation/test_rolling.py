"""A rolling ball: five degrees of freedom of position, three of velocity, order four, no slip."""

import numpy as np
import pytest

import tiburon as tb
from tests.simulation.samples import fitted_order, rotate

RADIUS, MASS, GYRATION = 0.3, 1.7, 0.4
TILT = 0.2


def slope(com=(0.0, 0.0, 0.0)):
    """Return a ball on a plane tilted about y, its center of mass where one likes."""
    moment = GYRATION * MASS * RADIUS**2
    joint = tb.RollingSphere("contact", RADIUS, pose=tb.Pose.from_rpy((0.0, TILT, 0.0)))
    inertia = tb.Inertia(MASS, com, (moment, moment, moment))
    return tb.Model("slope", [tb.Body("ball", joint=joint, inertia=inertia)])


def kicked(model, seed=1):
    rng = np.random.default_rng(seed)
    q, v = model.random_state(rng)
    return q, 2.0 * v


def test_ball_on_a_slope_rolls_down_with_the_textbook_acceleration():
    """The slope pulls with g sin(tilt) / (1 + k^2): the spin is kept, the way is a parabola."""
    model = slope()
    q, v = kicked(model)
    duration = 1.5
    run = tb.integrate_rk4(model, q, v, dt=1e-3, steps=1500, record_every=1500)
    spin = rotate(q[2:], v)
    speed = RADIUS * np.array([spin[1], -spin[0]])
    fall = 9.81 * np.sin(TILT) / (1.0 + GYRATION) * np.array([1.0, 0.0])
    expected = q[:2] + speed * duration + 0.5 * fall * duration**2
    # 1500 steps of (8 rad/s * 1 ms)^5, over a few meters
    np.testing.assert_allclose(run.q[-1, :2], expected, rtol=0, atol=1e-6)
    end = rotate(run.q[-1, 2:], run.v[-1])
    np.testing.assert_allclose(end[2], spin[2], rtol=0, atol=1e-6)
    np.testing.assert_allclose(end[1], spin[1] + fall[0] * duration / RADIUS, rtol=0, atol=1e-6)


def test_point_of_contact_is_at_rest():
    """The material point that touches the plane has no velocity, whatever the ball does."""
    model = slope((0.05, -0.1, 0.08))
    q, v = kicked(model)
    h = 1e-6  # central differences: h^2 = 1e-12, rounding 1e-16 / h = 1e-10
    joint = model.joint("contact")
    R, _ = tb.forward_kinematics(model, q, "ball")
    normal = np.array(joint.pose.rotation) @ [0.0, 0.0, 1.0]
    material = R.T @ (-RADIUS * normal)  # the touching point in body axes
    points = []
    for t in (-h, h):
        rotation, center = tb.forward_kinematics(model, model.integrate(q, t * v), "ball")
        points.append(center + rotation @ material)
    np.testing.assert_allclose(points[1] - points[0], 0.0, rtol=0, atol=1e-9 * 2 * h + 1e-15)


def test_loaded_ball_converges_with_order_four_and_keeps_its_energy():
    """Off-center mass: place, orientation and velocity against a step eight times finer."""
    model = slope((0.05, -0.1, 0.08))
    q, v = kicked(model)
    counts = np.array([100, 200, 400])

    def final(n):
        run = tb.integrate_rk4(model, q, v, dt=1.0 / n, steps=n, record_every=n)
        energy = tb.kinetic_energy(model, run.q, run.v) + tb.potential_energy(model, run.q)
        return run.q[-1], run.v[-1], np.ptp(energy)

    q_end, v_end, _ = final(3200)
    errors, lost = [], []
    for n in counts:
        q_found, v_found, drift = final(int(n))
        turned = model.difference(q_end, q_found)
        errors.append(np.abs([*(q_found[:2] - q_end[:2]), *turned, *(v_found - v_end)]).max())
        lost.append(drift)
    # the next power of dt bends the fit by less than a tenth of an order
    assert fitted_order(counts, errors) == pytest.approx(4.0, abs=0.2)
    # energy converges with order four or, as often, one better
    assert fitted_order(counts, lost) > 3.8


def test_closed_path_of_a_rolling_ball_leaves_a_rotation():
    """Holonomy: a closed way on the plane leaves the ball turned, so no function of place binds it.

    Four legs of a square, a quarter of the circumference each.
    """
    model = slope()
    quarter = np.pi / 2
    q = model.neutral()
    for leg in [(quarter, 0, 0), (0, quarter, 0), (-quarter, 0, 0), (0, -quarter, 0)]:
        body_turn = rotate(q[2:] * [1, -1, -1, -1], np.array(leg, dtype=float))
        q = model.integrate(q, body_turn)
    np.testing.assert_allclose(q[:2], 0.0, rtol=0, atol=1e-14)
    # x, y, -x, -y quarter turns in world axes make a third of a turn about a diagonal
    assert abs(q[2]) == pytest.approx(0.5, abs=1e-14)
