"""Energy and mass in water: what bodies give to the water, and get back."""

import numpy as np
import pytest

import tiburon as tb
from tests.hydro.sources import fixture_b, state_b
from tests.running import raw_kernel
from tests.tolerances import DIFFERENCE, DIFFERENCE_STEP, assert_close

STREAM = tb.Water(1000.0, (0.3, -0.2, 0.1))
STILL = tb.Water(1000.0)


def without_drag(model):
    bodies = []
    for body in model.bodies:
        fluid = tb.BodyFluid(
            body.fluid.volume, body.fluid.center_of_buoyancy, body.fluid.added_mass
        )
        bodies.append(
            tb.Body(body.name, body.parent, joint=body.joint, inertia=body.inertia, fluid=fluid)
        )
    return tb.Model("smooth", bodies)


@pytest.mark.usefixtures("interpreted")
def test_mass_matrix_holds_added_mass():
    """Columns are forces of unit accelerations at rest in still water without gravity."""
    model = fixture_b()
    q, *_ = state_b()
    H = tb.mass_matrix(model, q, fluid=STILL)
    world = tb.World(gravity=(0, 0, 0), fluid=STILL)
    rest = np.zeros(model.nv)
    columns = [tb.inverse_dynamics(model, q, rest, e, world=world) for e in np.eye(model.nv)]
    assert_close(H, np.array(columns).T)
    assert np.linalg.eigvalsh(H - tb.mass_matrix(model, q)).min() > -1e-12 * np.abs(H).max()
    assert_close(tb.inverse_mass_matrix(model, q, fluid=STILL) @ H, np.eye(model.nv), 1e-11)


def test_kinetic_energy_is_that_of_the_mass_matrix_in_still_water():
    model = fixture_b()
    q, v, *_ = state_b()
    H = tb.mass_matrix(model, q, fluid=STILL)
    assert_close(tb.kinetic_energy(model, q, v, fluid=STILL), 0.5 * v @ H @ v)


@pytest.mark.usefixtures("interpreted")
def test_gravity_force_is_the_slope_of_potential_energy():
    model = fixture_b()
    q, *_ = state_b()
    h = DIFFERENCE_STEP
    slope = [
        (
            tb.potential_energy(model, model.integrate(q, h * e), fluid=STILL)
            - tb.potential_energy(model, model.integrate(q, -h * e), fluid=STILL)
        )
        / (2 * h)
        for e in np.eye(model.nv)
    ]
    assert_close(tb.gravity_force(model, q, fluid=STREAM), slope, DIFFERENCE)


def energy(model, q, v, fluid):
    return tb.kinetic_energy(model, q, v, fluid=fluid) + tb.potential_energy(model, q, fluid=fluid)


@pytest.mark.usefixtures("interpreted")
def test_power_of_joint_forces_is_the_rate_of_energy_in_still_water():
    model = without_drag(fixture_b())
    q, v, tau, _ = state_b()
    vd = tb.forward_dynamics(model, q, v, tau, fluid=STILL)
    h = DIFFERENCE_STEP
    ahead = energy(model, model.integrate(q, h * v), v + h * vd, STILL)
    behind = energy(model, model.integrate(q, -h * v), v - h * vd, STILL)
    assert_close((ahead - behind) / (2 * h), tau @ v, 10 * DIFFERENCE, abs(tau @ v) + 100.0)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("fluid", [STILL, STREAM], ids=["still", "stream"])
def test_drag_dissipates_energy(fluid):
    """Against the water, drag never does work on the robot that drifts with it."""
    model = fixture_b()
    smooth = without_drag(model)
    q, v, *_ = state_b()
    with_drag = tb.inverse_dynamics(model, q, v, np.zeros(model.nv), fluid=fluid)
    without = tb.inverse_dynamics(smooth, q, v, np.zeros(model.nv), fluid=fluid)
    R, _ = tb.forward_kinematics(model, q, "base")
    relative = v.copy()
    relative[3:6] -= R.T @ np.array(fluid.current)
    assert (with_drag - without) @ relative > 0.0


def test_a_kernel_serves_other_water_without_compiling_again():
    """Density, current and the numbers of bodies are parameters."""
    model = fixture_b()
    q, v, tau, _ = state_b()
    kernel = raw_kernel(tb.forward_dynamics, model, fluid=STREAM)
    other = tb.Water(1030.0, (0.1, 0.5, -0.4))
    found = kernel(q, v, tau, fluid=np.array(other.parameters()))
    assert np.array_equal(found, tb.forward_dynamics(model, q, v, tau, fluid=other))
    assert not np.array_equal(found, kernel(q, v, tau))


def test_user_functions_use_the_water_they_are_compiled_for():
    model = fixture_b()
    q, v, tau, _ = state_b()

    def own(model, q, v, tau):
        return tb.forward_dynamics(model, q, v, 2.0 * tau)

    kernel = tb.compile(own, model, fluid=STREAM)
    assert np.array_equal(
        kernel(q, v, tau), tb.forward_dynamics(model, q, v, 2 * tau, fluid=STREAM)
    )


@pytest.mark.usefixtures("interpreted")
def test_inverse_inertias_at_frames_include_added_mass():
    """J M^-1 J^T and its inverse, with added mass in M."""
    model = fixture_b()
    q, *_ = state_b()
    J = tb.frame_jacobian(model, q, "link_11")
    H = tb.mass_matrix(model, q, fluid=STILL)
    expected = J @ np.linalg.solve(H, J.T)
    found = tb.operational_space_inverse_inertia(model, q, "link_11", fluid=STILL)
    # the condition of the mass matrix, some thousand, costs that many digits
    assert_close(found, expected, 1e-12 * np.linalg.cond(H))
    inertia = tb.operational_space_inertia(model, q, "link_11", fluid=STILL)
    assert_close(inertia @ expected, np.eye(6), 1e-12 * np.linalg.cond(H))
    for pair in (tb.cross_inverse_inertia, tb.apparent_inverse_inertia):
        other = "link_11" if pair is tb.cross_inverse_inertia else "world"
        at_frame = pair(model, q, "link_11", other, fluid=STILL)
        assert_close(at_frame, expected, 1e-12 * np.linalg.cond(H))
        assert not np.allclose(at_frame, pair(model, q, "link_11", other))
