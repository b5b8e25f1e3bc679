"""Derivatives of dynamics in water against central differences on the manifold."""

import numpy as np
import pytest

import tiburon as tb
from tests.hydro.sources import DOWN, reference_1995, state_1995, water_1995
from tests.hydro.test_motion import ADDED, hull
from tests.tolerances import DIFFERENCE, DIFFERENCE_STEP, SOLVE, assert_close

TIME = 0.7
SHEAR = tb.Water(1025.0, tb.LinearShear((0.4, 0.1, 0.05), 20.0, surface=3.0))


def differences(function, steps):
    h = DIFFERENCE_STEP
    return np.array([(function(h * e) - function(-h * e)) / (2 * h) for e in steps]).T


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("water", [water_1995(TIME), SHEAR], ids=["uniform", "shear"])
def test_derivatives_are_central_differences(water):
    model, (q, v, tau) = reference_1995(2), state_1995(2)
    around = {"world": DOWN, "fluid": water, "time": TIME}
    found = tb.forward_dynamics_derivatives(model, q, v, tau, **around)

    def vd(q, v, tau):
        return tb.forward_dynamics(model, q, v, tau, **around)

    units = np.eye(model.nv)
    assert_close(found.vd, vd(q, v, tau), SOLVE)
    by_q = differences(lambda e: vd(model.integrate(q, e), v, tau), units)
    by_v = differences(lambda e: vd(q, v + e, tau), units)
    by_tau = differences(lambda e: vd(q, v, tau + e), units)
    assert_close(found.by_q, by_q, DIFFERENCE)
    assert_close(found.by_v, by_v, DIFFERENCE)
    assert_close(found.by_tau, by_tau, DIFFERENCE)


def test_drag_at_rest_has_the_derivative_zero():
    """Every law of drag starts from rest with slope zero, and without NaN."""
    drag = (
        tb.CylinderDrag(0.05, 0.8, 1.0, (0.8, 0.9), (-0.4, 0, 0), (1, 0, 0)),
        tb.SphereDrag(0.1),
        tb.BoxDrag((1, 0.5, 0.4)),
        tb.EllipsoidDrag((0.5, 0.3, 0.2)),
    )
    model = hull(added=ADDED, drag=drag)
    world = tb.World(gravity=(0, 0, 0), fluid=tb.Water(1000.0))
    q, v = model.neutral(), np.zeros(6)
    found = tb.forward_dynamics_derivatives(model, q, v, np.zeros(6), world=world)
    # 1e-100 m/s is what a length at rest is taken for, so that its derivative exists
    assert np.abs(found.by_v).max() < 1e-90
    assert np.array_equal(found.by_q, np.zeros((6, 6)))


def test_linear_models_in_water():
    """A vehicle on its trim: damping in the stream shows in the linear model."""
    damping = np.diag([1.0, 2, 3, 4, 5, 6])
    fluid = tb.BodyFluid(
        0.03, (0, 0, 0.02), ADDED, linear_damping=damping, reference_density=1000.0
    )
    inertia = tb.Inertia(30.0, (0, 0, 0), (1, 2, 2.5))
    model = tb.Model("auv", [tb.Body("hull", joint=tb.Free("f"), inertia=inertia, fluid=fluid)])
    q, v, tau = model.neutral(), np.zeros(6), np.zeros(6)
    linear = tb.linearize(model, q, v, tau, fluid=tb.Water(1000.0))
    H = ADDED + np.diag([1.0, 2, 2.5, 30, 30, 30])
    assert_close(linear.A[6:, 6:], -np.linalg.solve(H, np.diag([1.0, 2, 3, 4, 5, 6])))
    # buoyancy above the center of mass rights the vehicle: m g b per angle
    righting = 30.0 * 9.81 * 0.02
    expected = -np.linalg.solve(H, np.diag([righting, righting, 0, 0, 0, 0]))
    assert_close(linear.A[6:, :6], expected)
    assert_close(linear.B[6:], np.linalg.inv(H))
