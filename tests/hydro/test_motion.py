"""Bodies moving in water against closed forms and conservation laws."""

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import assert_close

RHO = 1000.0
STILL = tb.World(gravity=(0.0, 0.0, 0.0), fluid=tb.Water(RHO))


def hull(mass=30.0, volume=0.03, added=None, drag=(), moments=(1.0, 2.0, 2.5), com=(0, 0, 0)):
    fluid = tb.BodyFluid(volume, com, added, drag, reference_density=RHO)
    inertia = tb.Inertia(mass, com, moments)
    return tb.Model("hull", [tb.Body("hull", joint=tb.Free("float"), inertia=inertia, fluid=fluid)])


def at_rest():
    return np.array([1.0, 0, 0, 0, 0, 0, 0]), np.zeros(6)


@pytest.mark.parametrize("ratio", [0.1, 1.0, 10.0, 1000.0])
@pytest.mark.parametrize("step", [1e-3, 5e-3, 1e-2])
def test_added_mass_of_any_size_is_stable(ratio, step):
    """Speed a t under the force (m + m_A) a: where lagged added mass fails beyond ratio 1."""
    mass, a, steps = 20.0, 0.7, 100
    model = hull(mass, 0.0, np.diag([1.0, 1, 1, *(ratio * mass,) * 3]))
    q, v = at_rest()
    tau = np.array([0, 0, 0, (1.0 + ratio) * mass * a, 0, 0])
    run = tb.integrate_rk4(model, q, v, tau, dt=step, steps=steps, world=STILL)
    assert_close(run.v[:, 3], a * run.time, 1e-12)


ADDED = np.diag([0.1, 0.8, 0.9, 3.0, 20.0, 25.0])
ADDED[1, 5] = ADDED[5, 1] = -2.0
ADDED[2, 4] = ADDED[4, 2] = 1.5


@pytest.mark.parametrize("stream", [(0.0, 0.0, 0.0), (0.4, -0.3, 0.1)])
def test_kirchhoff(stream):
    """A neutral body keeps energy, impulse, and impulse . angular impulse (Lamb 1932, art. 124).

    All are those of the motion relative to the water. With the absolute velocity in the cross
    products, as McMillan 1995 prints (16), the energy drifts by 27 % in a second.
    """
    model = hull(added=ADDED)
    q, v = model.random_state(5)
    run = tb.integrate_rk4(
        model, q, v, dt=1e-3, steps=10_000, record_every=500, fluid=tb.Water(RHO, stream)
    )
    R, _ = tb.forward_kinematics(model, run.q, "hull")
    relative = run.v[:, 3:] - np.einsum("tji,j->ti", R, stream)
    x = np.concatenate([run.v[:, :3], relative], axis=1)
    M = ADDED + np.diag([1.0, 2.0, 2.5, 30, 30, 30])
    h = x @ M
    impulse = np.einsum("tij,tj->ti", R, h[:, 3:])
    angular = np.einsum("tij,tj->ti", R, h[:, :3])
    for kept in ((x * h).sum(1), np.linalg.norm(impulse, axis=1), (impulse * angular).sum(1)):
        assert_close(kept, np.full_like(kept, kept[0]), 1e-9)
    assert np.ptp(run.v[:, 0]) > 0.1


def test_kirchhoff_invariants_have_the_order_of_the_integrator():
    """Halving the step divides the error of the energy by 2^4 at least."""
    model = hull(added=ADDED)
    q, v = model.random_state(5)
    errors = []
    for step in (0.04, 0.02):
        run = tb.integrate_rk4(model, q, 2 * v, dt=step, steps=round(4 / step), world=STILL)
        x = run.v
        energy = np.einsum("ti,ij,tj->t", x, ADDED + np.diag([1.0, 2.0, 2.5, 30, 30, 30]), x)
        errors.append(abs(energy[-1] / energy[0] - 1.0))
    # the energy error of a conservative flow is often one order better
    assert 2**3.7 < errors[0] / errors[1] < 2**5.5


def test_munk_moment():
    """n_z = -(m22 - m11) U V on a body that does not turn (McMillan 1994 digest, 6.2)."""
    model = hull(added=np.diag([1.0, 1, 1, 10, 30, 30]))
    q, _ = at_rest()
    v = np.array([0, 0, 0, 2.0, 0.3, 0])
    held = tb.inverse_dynamics(model, q, v, np.zeros(6), world=STILL)
    # what holds the body opposes what the water does
    assert_close(held, np.array([0, 0, 12.0, 0, 0, 0]))


@pytest.mark.parametrize("scale", [0.0, 1.0, 50.0])
def test_neutrally_buoyant_body_follows_accelerating_water(scale):
    def current(t, p):
        return (0.3 * t, 0.1 * t - 0.2, -0.2 * t * t)

    model = hull(added=scale * ADDED, com=(0.1, -0.2, 0.3))
    rng = np.random.default_rng(2)
    q, _ = model.random_state(rng)
    time = 0.8
    R, _ = tb.forward_kinematics(model, q, "hull")
    v = np.concatenate([np.zeros(3), R.T @ current(time, None)])
    vd = tb.forward_dynamics(model, q, v, np.zeros(6), fluid=tb.Water(RHO, current), time=time)
    assert_close(R @ vd[3:], (0.3, 0.1, -0.4 * time))
    assert_close(vd[:3], np.zeros(3))


def test_release_of_a_sphere():
    """(m - rho V) g / (m + rho V / 2) downward (McMillan 1994 digest, 6.2)."""
    r, mass, g = 0.2, 50.0, 9.81
    volume = 4 / 3 * np.pi * r**3
    model = hull(mass, volume, np.diag([0, 0, 0, *(0.5 * RHO * volume,) * 3]))
    q, v = at_rest()
    vd = tb.forward_dynamics(model, q, v, np.zeros(6), fluid=tb.Water(RHO))
    assert_close(vd[5], -(mass - RHO * volume) * g / (mass + 0.5 * RHO * volume))


def test_terminal_speed_of_a_cylinder_sinking_broadside():
    """sqrt((m - rho V) g / (rho C r l)) (McMillan 1994 digest, 6.2)."""
    r, length, C, mass = 0.05, 0.8, 1.2, 8.0
    volume = np.pi * r * r * length
    drag = tb.CylinderDrag(r, length, C, start=(-length / 2, 0, 0), axis=(1, 0, 0))
    model = hull(mass, volume, np.diag([0, 0.1, 0.1, 0, 6, 6]), (drag,))
    q, v = at_rest()
    run = tb.integrate_rk4(model, q, v, dt=2e-3, steps=5000, record_every=5000, fluid=tb.Water(RHO))
    expected = np.sqrt((mass - RHO * volume) * 9.81 / (RHO * C * r * length))
    # ten seconds are some forty time constants
    assert_close(run.v[-1, 5], -expected, 1e-12)


def test_speed_decays_under_quadratic_drag():
    """Speed v0 / (1 + v0 t / L) with L = (m + m_A) / (1/2 rho C A)."""
    r, C, mass, added, v0 = 0.1, 0.5, 4.0, 2.0, 1.5
    model = hull(mass, 0.0, np.diag([1, 1, 1, *(added,) * 3]), (tb.SphereDrag(r, C),))
    q, v = at_rest()
    v[4] = v0
    length = (mass + added) / (0.5 * RHO * C * np.pi * r * r)
    ends = []
    for step in (0.02, 0.01):
        run = tb.integrate_rk4(model, q, v, dt=step, steps=round(2 / step), world=STILL)
        ends.append(abs(run.v[-1, 4] - v0 / (1 + v0 * run.time[-1] / length)))
    assert ends[1] < 1e-6
    # the order of the integrator
    assert 2**3.5 < ends[0] / ends[1] < 2**4.8


def test_linear_damping_decays_exponentially():
    mass, D = 5.0, 3.0
    fluid = tb.BodyFluid(0.0, linear_damping=np.diag([0, 0, 0, D, D, D]), reference_density=RHO)
    inertia = tb.Inertia(mass, (0, 0, 0), (1, 1, 1))
    model = tb.Model("x", [tb.Body("x", joint=tb.Free("x"), inertia=inertia, fluid=fluid)])
    q, v = at_rest()
    v[3] = 1.0
    run = tb.integrate_rk4(model, q, v, dt=1e-2, steps=200, world=STILL)
    assert_close(run.v[:, 3], np.exp(-D / mass * run.time), 1e-11)


def test_water_without_density_or_coefficients_has_no_effect():
    """Zero density, added mass and volume give the land result to the bit."""
    rng = np.random.default_rng(4)
    bodies = []
    for k in range(4):
        joint = tb.Free("base") if k == 0 else tb.Revolute(f"j{k}", (0.0, 0.6, 0.8))
        inertia = tb.Inertia(2.0, rng.normal(size=3) * 0.1, (0.1, 0.12, 0.13))
        parent = "world" if k == 0 else f"b{k - 1}"
        bodies.append(tb.Body(f"b{k}", parent, joint=joint, inertia=inertia, fluid=tb.BodyFluid()))
    model = tb.Model("dry", bodies)
    q, v = model.random_state(rng)
    tau = rng.normal(size=model.nv)
    land = tb.forward_dynamics(model, q, v, tau)
    assert_close(tb.forward_dynamics(model, q, v, tau, fluid=tb.Water(RHO)), land)
    assert_close(tb.forward_dynamics(model, q, v, tau, fluid=tb.Water(0.0)), land)


@pytest.mark.parametrize("size", [1e-5, 1e3])
def test_bodies_of_any_size_move_equally(size):
    """Lengths and gravity times s, the same density and times: linear accelerations times s."""

    def scaled(s):
        about = np.diag([s, s, s, 1.0, 1.0, 1.0])
        model = tb.Model(
            "hull",
            [
                tb.Body(
                    "hull",
                    joint=tb.Free("float"),
                    inertia=tb.Inertia(30.0 * s**3, (0, 0, 0), np.array([1.0, 2.0, 2.5]) * s**5),
                    fluid=tb.BodyFluid(
                        0.03 * s**3,
                        np.array([0.01, -0.02, 0.03]) * s,
                        s**3 * about @ ADDED @ about,
                        (
                            tb.CylinderDrag(
                                0.1 * s, 0.8 * s, start=(0, 0.1 * s, 0), axis=(0.6, 0.8, 0)
                            ),
                        ),
                    ),
                )
            ],
        )
        world = tb.World(gravity=(0.0, 0.0, -9.81 * s), fluid=tb.Water(RHO))
        q, v = model.random_state(3)
        vd = tb.forward_dynamics(model, q, about[::-1, ::-1] @ v, np.zeros(6), world=world)
        return vd / np.diag(about)[::-1]

    assert_close(scaled(size), scaled(1.0))


def test_body_without_displaced_volume_uses_its_center_of_buoyancy():
    """Sheets and frames of no volume feel shear at the place given, whatever frame they are in."""
    shear = tb.Water(RHO, tb.LinearShear((1.0, 0.0, 0.0), 10.0))
    fluid = tb.BodyFluid(
        0.0,
        (0.0, 0.0, -4.0),
        linear_damping=np.diag([0, 0, 0, 5.0, 5.0, 5.0]),
        reference_density=RHO,
    )
    inertia = tb.Inertia(10.0, (0, 0, 0), (1.0, 1.0, 1.0))
    model = tb.Model("m", [tb.Body("b", joint=tb.Free("f"), inertia=inertia, fluid=fluid)])
    q, v = at_rest()
    vd = tb.forward_dynamics(
        model, q, v, np.zeros(6), world=tb.World(gravity=(0, 0, 0), fluid=shear)
    )
    # 4 m down of 10 the water moves with 0.6 m/s
    assert_close(vd, [0, 0, 0, 5.0 * 0.6 / 10.0, 0, 0])


def test_drag_has_a_derivative_at_rest():
    drag = tb.CylinderDrag(0.05, 0.8, 1.0, (0.8, 0.9), (-0.4, 0, 0), (1, 0, 0))
    model = hull(added=ADDED, drag=(drag, tb.SphereDrag(0.1), tb.BoxDrag((1, 0.5, 0.4))))
    q, v = at_rest()
    vd = tb.forward_dynamics(model, q, v, np.zeros(6), world=STILL)
    assert np.array_equal(vd, np.zeros(6))


def test_robot_without_hydrodynamic_coefficients_is_refused():
    model = tb.Model(
        "dry",
        [tb.Body("rod", joint=tb.Revolute("hinge"), inertia=tb.Inertia.point(1.0, (1, 0, 0)))],
    )
    with pytest.raises(tb.ModelError, match="hydrodynamic data"):
        tb.forward_dynamics(model, [0.0], [0.0], [0.0], fluid=tb.Water())
