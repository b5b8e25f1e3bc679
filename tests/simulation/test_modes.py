"""Modes against closed forms: rigid bodies on land, afloat and under water."""

import numpy as np
import pytest

import tiburon as tb
from tests.robots import ROBOTS, kicked
from tests.tolerances import SOLVE, assert_close

G = 9.81
WEIGHTLESS = tb.World(gravity=(0.0, 0.0, 0.0))


def pendulum(length=0.7, mass=1.3, moment=0.05, **fluid):
    """A rigid pendulum about world y, its center of mass below."""
    body = tb.Body(
        "bob",
        joint=tb.Revolute("pivot", axis=(0, 1, 0)),
        inertia=tb.Inertia(mass, (0, 0, -length), (moment, moment, moment)),
        fluid=tb.BodyFluid(**fluid) if fluid else None,
    )
    return tb.Model("pendulum", [body])


def double_pendulum(l1, m1, l2, m2):
    """Two points on massless rods."""
    upper = tb.Body(
        "upper",
        joint=tb.Revolute("shoulder", axis=(0, 1, 0)),
        inertia=tb.Inertia.point(m1, (0, 0, -l1)),
    )
    lower = tb.Body(
        "lower",
        "upper",
        joint=tb.Revolute("elbow", axis=(0, 1, 0), pose=tb.Pose(translation=(0, 0, -l1))),
        inertia=tb.Inertia.point(m2, (0, 0, -l2)),
    )
    return tb.Model("double pendulum", [upper, lower])


def floating(mass, moments, com, geometry=None, **fluid):
    body = tb.Body(
        "hull",
        joint=tb.Free("base"),
        inertia=tb.Inertia(mass, com, moments),
        shapes=() if geometry is None else (tb.Shape(geometry),),
        fluid=tb.BodyFluid(**fluid),
    )
    return tb.Model("floating", [body])


def test_a_physical_pendulum():
    """w^2 = m g l / (I + m l^2), from any start that Newton's steps lead down from."""
    expected = np.sqrt(1.3 * G * 0.7 / (0.05 + 1.3 * 0.7**2))
    for start in (0.0, 0.6, -1.1):
        found = tb.modes(pendulum(), [start])
        assert_close(found.frequencies, [expected])
        # what remains of an angle that Newton's steps square each time
        assert abs(found.q[0]) < 1e-12
        assert found.oscillations[0].period == pytest.approx(2.0 * np.pi / expected, rel=1e-12)
        assert abs(found[0].damping_ratio) < 1e-12
        assert found.is_stable


def test_upright_pendulum_is_unstable():
    """Lambda = +- sqrt(m g l / I): the nearest equilibrium may be an unstable one."""
    found = tb.modes(pendulum(), [np.pi + 0.2])
    rate = np.sqrt(1.3 * G * 0.7 / (0.05 + 1.3 * 0.7**2))
    assert_close(found.q, [np.pi])
    assert sorted(mode.kind for mode in found) == ["decay", "growth"]
    assert_close(sorted(mode.eigenvalue.real for mode in found), [-rate, rate])
    assert not found.is_stable
    grows = next(mode for mode in found if mode.kind == "growth")
    assert grows.time_constant == pytest.approx(-1.0 / rate, rel=1e-12)


def test_a_double_pendulum():
    """det(K - w^2 M) = 0 with the textbook's M and K in absolute angles."""
    l1, m1, l2, m2 = 0.8, 1.5, 0.5, 0.7
    M = np.array([[(m1 + m2) * l1**2, m2 * l1 * l2], [m2 * l1 * l2, m2 * l2**2]])
    K = np.diag([(m1 + m2) * G * l1, m2 * G * l2])
    squares, shapes = np.linalg.eig(np.linalg.solve(M, K))
    order = np.argsort(squares)
    found = tb.modes(double_pendulum(l1, m1, l2, m2), [0.4, -0.3])
    assert_close(found.frequencies, np.sqrt(squares[order]))
    for mode, shape in zip(found, shapes.T[order], strict=True):
        # ours are relative angles
        relative = np.array([shape[0], shape[1] - shape[0]])
        relative /= relative[np.argmax(np.abs(relative))]
        assert_close(mode.shape.real, relative)
        assert np.abs(mode.shape.imag).max() < 1e-12


def test_modes_agree_with_a_simulated_motion():
    """A small push along a shape comes back after one period; error by the square of the push."""
    model = double_pendulum(0.8, 1.5, 0.5, 0.7)
    found = tb.modes(model)
    for k, mode in enumerate(found):
        start = found.position(k, 1e-4)
        steps = 2000
        run = tb.integrate_rk4(
            model, start, np.zeros(2), np.zeros(2), dt=mode.period / steps, steps=steps
        )
        # cubes of 1e-4 in the forces; the method's own error is 1e-11 of a turn
        assert_close(run.q[-1], start, 1e-10)
        quarter = found.position(k, 1e-4, np.pi / 2.0)
        assert_close(run.q[steps // 4], quarter, 1e-10)


def test_a_free_robot_has_as_many_free_modes_as_degrees_of_freedom():
    """In space, every joint may drift: pairs of zeros, none mistaken for a slow oscillation."""
    model = tb.load("space_arm")
    q, _ = model.random_state(np.random.default_rng(7))
    found = tb.modes(model, q, world=WEIGHTLESS)
    assert [mode.kind for mode in found] == ["free"] * model.nv
    assert found.zeros == 2 * model.nv
    assert found.frequencies.size == 0
    shapes = np.array([mode.shape.real for mode in found])
    assert_close(shapes, np.eye(model.nv))


def test_a_hanging_robot_on_a_cart_keeps_one_free_mode():
    """A cart with a pendulum: w^2 = (1 + m/M) g/l beside a free way along the rail."""
    m, M, length = 0.6, 2.0, 0.9
    cart = tb.Body("cart", joint=tb.Prismatic("rail", axis=(1, 0, 0)), inertia=tb.Inertia.point(M))
    bob = tb.Body(
        "bob",
        "cart",
        joint=tb.Revolute("pivot", axis=(0, 1, 0)),
        inertia=tb.Inertia.point(m, (0, 0, -length)),
    )
    found = tb.modes(tb.Model("cart", [cart, bob]), [0.3, 0.2])
    assert len(found.free) == 1
    assert found.zeros == 2
    assert_close(found.free[0].shape.real, [1.0, 0.0])
    assert_close(found.frequencies, [np.sqrt((1.0 + m / M) * G / length)])
    # the center of mass stays
    shape = found.oscillations[0].shape.real
    assert_close((M + m) * shape[0], m * length * shape[1])


def test_floating_ball_heaves_and_rights_itself():
    """Half under water: w^2 = rho g pi r^2 / m up and down, and m g h / I about level axes."""
    r, rho, h = 0.3, 1000.0, 0.08
    volume = 4.0 / 3.0 * np.pi * r**3
    m = 0.5 * rho * volume
    moments = (0.9, 1.1, 1.0)
    model = floating(m, moments, (0, 0, -h), tb.SphereShape(r), volume=volume)
    sea = tb.Water(rho, surface=0.0)
    start = model.neutral()
    start[6] = 0.1
    found = tb.modes(model, start, fluid=sea)
    assert_close(found.q[6], 0.0, 1e-9)
    expected = sorted(
        [np.sqrt(rho * G * np.pi * r**2 / m), *(np.sqrt(m * G * h / x) for x in moments[:2])]
    )
    assert_close(found.frequencies, expected, 1e-9)
    # x, y and heading
    assert len(found.free) == 3
    assert {int(np.argmax(np.abs(mode.shape))) for mode in found.free} == {2, 3, 4}


def test_a_box_rolls_about_its_metacenter():
    """w^2 = m g GM / I with GM = KB + BM - KG and BM = waterplane's moment / volume."""
    a, b, c, draft, rho = 1.2, 0.8, 0.4, 0.15, 1000.0
    m = rho * a * b * draft
    com = -0.03
    moments = (m * (b * b + c * c) / 12.0, m * (a * a + c * c) / 12.0, m * (a * a + b * b) / 12.0)
    box = tb.BoxShape((a, b, c))
    model = floating(m, moments, (0, 0, com), box, volume=a * b * c)
    start = model.neutral()
    start[6] = 0.5 * c - draft + 0.01
    found = tb.modes(model, start, fluid=tb.Water(rho, surface=0.0), slowest=1e-4)
    expected = []
    for width, other, moment in ((b, a, moments[0]), (a, b, moments[1])):
        BM = other * width**3 / 12.0 / (a * b * draft)
        GM = 0.5 * draft + BM - (0.5 * c + com)
        expected.append(np.sqrt(m * G * GM / moment))
    expected.append(np.sqrt(rho * G * a * b / m))
    assert_close(found.frequencies, sorted(expected), 1e-6)


def test_added_mass_lowers_the_frequency_of_a_righting_body():
    """Neutral, center of buoyancy h above that of mass: w^2 = m g h / (I + added)."""
    m, h, moments, added = 30.0, 0.05, (1.2, 1.5, 1.1), (0.4, 0.9, 0.2, 12.0, 25.0, 30.0)
    common = {"volume": m / 1025.0, "center_of_buoyancy": (0, 0, h)}
    sea = tb.Water(1025.0)
    turned = floating(m, moments, (0, 0, 0), **common)
    heavy = floating(m, moments, (0, 0, 0), added_mass=added, **common)
    q = turned.integrate(turned.neutral(), [0.1, -0.2, 0.7, 1.0, 2.0, 3.0])
    dry = tb.modes(turned, q, fluid=sea)
    wet = tb.modes(heavy, q, fluid=sea)
    for found, extra in ((dry, (0.0, 0.0)), (wet, added[:2])):
        expected = [np.sqrt(m * G * h / (I + x)) for I, x in zip(moments, extra, strict=False)]
        assert_close(found.frequencies, sorted(expected), 1e-9)
        # heading and place are free, and nothing slows them
        assert len(found.free) == 4
        assert found.zeros == 8
    assert (wet.frequencies < dry.frequencies).all()


def test_linear_damping_of_water_damps():
    """I w'' + D w' + m g h w = 0: natural frequency and damping ratio of the textbook."""
    m, h, moment, D = 30.0, 0.05, 1.2, 2.0
    model = floating(
        m,
        (moment, 1.5 * moment, moment),
        (0, 0, 0),
        volume=m / 1025.0,
        center_of_buoyancy=(0, 0, h),
        linear_damping=(D, D, D, 20.0, 20.0, 20.0),
    )
    found = tb.modes(model, fluid=tb.Water(1025.0))
    for mode, I in zip(found.oscillations, (1.5 * moment, moment), strict=True):
        w = np.sqrt(m * G * h / I)
        assert mode.natural_frequency == pytest.approx(w, rel=1e-10)
        assert mode.damping_ratio == pytest.approx(D / (2.0 * I * w), rel=1e-10)
        assert mode.time_constant == pytest.approx(2.0 * I / D, rel=1e-10)
        damped = w * np.sqrt(1.0 - mode.damping_ratio**2)
        assert mode.period == pytest.approx(2.0 * np.pi / damped, rel=1e-10)
    assert_close(found.damping_ratios, [mode.damping_ratio for mode in found.oscillations], 0.0)
    assert len(found.damping_ratios) == 2
    decays = [mode.eigenvalue.real for mode in found if mode.kind == "decay"]
    assert_close(sorted(decays), sorted([-20.0 / m] * 3 + [-D / moment]), 1e-10)
    # place and heading stay where they are left
    assert len(found.free) == 4
    assert found.zeros == 4


def test_rotating_body_nutates():
    """A free axisymmetric body spinning at s: its axis wobbles at (Ia / It) s in the body."""
    It, Ia, spin = 0.7, 1.1, 3.0
    body = tb.Body("top", joint=tb.Free("base"), inertia=tb.Inertia(2.0, (0, 0, 0), (It, It, Ia)))
    found = tb.modes(
        tb.Model("top", [body]), v=[0, 0, spin, 0, 0, 0], world=WEIGHTLESS, slowest=1e-5
    )
    # seen from the body: wobble of rates, and the turning of fixed directions
    values = np.array([mode.natural_frequency for mode in found.oscillations])
    wobble = abs(Ia - It) / It * spin
    assert np.abs(values - wobble).min() < 1e-6
    assert np.abs(values - spin).min() < 1e-6


@pytest.mark.parametrize("name", ["top", "balloon"])
def test_the_linear_motion_is_that_of_linearize(name):
    """Any state that moves and accelerates, with joints whose steps do not commute."""
    model = ROBOTS[name]
    q, v, tau = kicked(model, 61)
    found = tb.modes(model, q, v=v, tau=tau, solve=False)
    near = tb.linearize(model, q, v, tau)
    # two ways to solve with the mass matrix
    H = tb.mass_matrix(model, q)
    assert_close(found.A, near.A, SOLVE * np.linalg.cond(H), np.abs(near.A).max())
    assert_close(found.residual, tb.forward_dynamics(model, q, v, tau), SOLVE * np.linalg.cond(H))


def test_missing_equilibrium_raises_an_error_with_advice():
    body = tb.Body("stone", joint=tb.Free("base"), inertia=tb.Inertia(2.0, (0, 0, 0), (1, 1, 1)))
    model = tb.Model("stone", [body])
    with pytest.raises(tb.DomainError, match=r"-19\.6 N or N m left at 'base\.vz'"):
        tb.modes(model)
    found = tb.modes(model, solve=False)
    assert_close(found.residual, [0, 0, 0, 0, 0, -G])


def test_table_reports_kind_frequency_and_dominant_joints():
    text = str(tb.modes(double_pendulum(1.0, 1.0, 1.0, 1.0)))
    head, first, second = text.splitlines()
    assert head.split() == ["kind", "rad/s", "Hz", "damping", "1/e", "time", "s", "moves", "most"]
    assert first.split()[:5] == ["0", "oscillation", "2.3972", "0.38153", "0.0000"]
    assert "shoulder +1.000, elbow +0.414" in first
    assert "elbow +1.000" in second
    assert repr(tb.modes(pendulum())).startswith("<Modes of 'pendulum': 0 free, 1 oscillating of 1")
