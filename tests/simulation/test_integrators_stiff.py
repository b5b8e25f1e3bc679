"""The implicit method on stiff systems: stable and right at steps far above the time constant."""

import numpy as np
import pytest

import tiburon as tb
from tests.simulation.integrator_runs import Plant, lagging, rolling, tumbling
from tests.simulation.samples import fitted_order
from tiburon.actuation.defaults import elements_of
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.simulation.integrators.manifold import Chart, Manifold
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.integrators.rate_jacobian import ImplicitRates, rate_changes
from tiburon.simulation.system import System
from tiburon.trace.program import trace
from tiburon.trace.regions import function

MASS, WEIGHT = 2.0, 2.0 * 9.81


def sinking(stiffness):
    """Return a body that sinks on a slide through something viscous, drag = stiffness * speed."""
    slide = tb.Prismatic("slide", axis=(0, 0, 1))
    model = tb.Model("sinker", [tb.Body("b", joint=slide, inertia=tb.Inertia.sphere(MASS, 0.1))])

    def force(q, v, x, time):
        return (-stiffness * v[0],), ()

    return Plant(model, (0.0,), (3.0,), force)


def test_stiff_drag_decays_within_one_long_step():
    """Speed falls to that of sinking at once, as it does exactly; explicit methods explode."""
    stiffness = 2e4
    plant = sinking(stiffness)
    h = 100 * MASS / stiffness
    rest = -WEIGHT / stiffness
    q, w = plant.run("rosenbrock", 3, 3 * h)
    # exactly, exp(-100) of the start is left; R(-100)^3 of the method is 1e-5
    assert w[0] == pytest.approx(rest, abs=3.0 * 3e-5)
    # the start's momentum carries it 3 * time constant, then it sinks
    exact = 3.0 * MASS / stiffness + rest * (3 * h - MASS / stiffness)
    assert q[0] == pytest.approx(exact, abs=3.0 * 0.05 * h)
    _, wild = plant.run("rk4", 3, 3 * h)
    assert abs(wild[0]) > 1e6


def test_slow_motion_of_a_stiff_system_is_followed_with_order_two_or_better():
    """A damper 1e5 times stiffer than the motion, forced slowly: the error falls on and on."""
    lag = 1e-6

    def force(q, v, x, time):
        # a thrust that follows sin(t) within a microsecond, and a spring
        return (5.0 * x[0] - 3.0 * q[0],), ((np.sin(2.0 * time) - x[0]) / lag,)

    model = sinking(0.0).model
    plant = Plant(model, (0.1,), (0.5, 0.0), force, world=tb.World(gravity=(0, 0, 0)))
    # the thrust is sin(2t) to 2e-6: a forced spring, k/m = 1.5, forced by 2.5 sin(2t)
    T, w0 = 1.0, np.sqrt(1.5)
    b = 2.5 / (1.5 - 4.0)
    a1, a2 = 0.1, (0.5 - 2 * b) / w0
    exact = a1 * np.cos(w0 * T) + a2 * np.sin(w0 * T) + b * np.sin(2 * T)
    errors = [abs(plant.run("rosenbrock", n, T)[0][0] - exact) for n in (4, 8, 16)]
    assert fitted_order((4, 8, 16), errors) > 2.0
    assert errors[-1] < 1e-3


@pytest.mark.parametrize("make", [tumbling, rolling, lagging])
def test_jacobian_equals_central_differences(make):
    """Of the rates of coordinates, by coordinates and by time, where steps do not commute."""
    plant = make()
    chart = Chart(plant.manifold, plant.rates, plant.q)
    y, time = np.array(chart.start(plant.w)), 0.3
    found = rate_changes(chart, tuple(y.tolist()), time)
    h = 1e-6
    for place, column in enumerate((*found.by_state, found.by_time)):
        step = h * np.eye(len(y) + 1)[place]
        ends = [
            np.array(chart.rates(tuple((y + s * step[:-1]).tolist()), time + s * step[-1]))
            for s in (-1, 1)
        ]
        # h^2 of third derivatives, and rounding of rates of order 100 over h
        np.testing.assert_allclose(column, (ends[1] - ends[0]) / (2 * h), rtol=1e-6, atol=1e-6)


def test_floats_and_native_code_agree_in_batches_of_any_size():
    """The same steps on floats, natively, and as one case of a batch."""
    plant = lagging()
    method = METHODS["rosenbrock"]

    def steps(q, w):
        state = tuple(q.tolist()), tuple(w.tolist())
        rates = function(plant.rates)
        for step in range(3):
            state = method.step(plant.manifold, rates, *state, 0.05, 0.05 * step)
        return {"q": list(state[0]), "w": list(state[1])}

    kernel = make_kernel(ProgramSource(trace(steps, {"q": (8,), "w": (9,)})))
    q, w = kernel(np.array(plant.q), np.array(plant.w))
    expected = plant.run("rosenbrock", 3, 0.15)
    # rounding of accelerations of order 100, of which a step sees a twentieth
    np.testing.assert_allclose(q, expected[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(w, expected[1], rtol=0, atol=1e-11)
    many = np.random.default_rng(5).standard_normal((11, 9))
    places = np.array([plant.model.integrate(plant.q, 0.3 * row[:7]) for row in many])
    q, w = kernel(places, many)
    for case in range(11):
        alone = kernel(places[case], many[case])
        np.testing.assert_array_equal(alone[0], q[case])
        np.testing.assert_array_equal(alone[1], w[case])


def test_results_do_not_depend_on_the_units_of_states():
    """A pressure in Pa or in units of 1e9 Pa gives the same motion; no equation is dropped."""

    def plant(unit):
        def force(q, v, x, time):
            # oil of 1e9 N/m^3 behind a piston of 1e-3 m^2 that leaks
            return (1e-3 * unit * x[0],), ((-1e9 * v[0] - 2e-1 * 1e9 * unit * x[0] * 1e-9) / unit,)

        return Plant(sinking(0.0).model, (0.0,), (0.3, 1e5 / unit), force)

    q, w = plant(1.0).run("rosenbrock", 50, 0.05)
    other_q, other_w = plant(1e9).run("rosenbrock", 50, 0.05)
    assert other_q[0] == pytest.approx(q[0], rel=1e-9)
    assert other_w[0] == pytest.approx(w[0], rel=1e-8)
    assert other_w[1] * 1e9 == pytest.approx(w[1], rel=1e-8)
    q, _ = plant(1.0).run("rosenbrock", 400, 0.05)
    fine, _ = plant(1.0).run("rk4", 1000, 0.05)
    assert q[0] == pytest.approx(fine[0], rel=1e-3)


@pytest.mark.parametrize("name", ["four_bar", "bluerov2_heavy", "double_pendulum"])
def test_implicit_differentiation_equals_that_of_the_rates(name):
    """Of equations of motion with loops, water, thrusters and a controller that follows a path."""
    model = tb.load(name)
    world = tb.World(fluid=tb.Water()) if name == "bluerov2_heavy" else None
    control = None
    if name == "double_pendulum":
        control = tb.PID(tb.JointPath.through([0, 1], [(0, 0), (1, 0.5)]), 30.0, 4.0, 3.0)
    system = System(model, world, elements_of(model), control)
    rng = np.random.default_rng(4)
    q = np.array(model.poses["home"]) if model.loops else model.neutral()
    q = q if model.loops else model.integrate(q, 0.3 * rng.standard_normal(model.nv))
    v = rng.standard_normal(model.nv)
    v = tb.project_velocity(model, q, v) if model.loops else v
    w = (*v, *(system.x0 + 0.1 * rng.standard_normal(system.nx)))
    u = tuple(rng.standard_normal(system.drive_size))
    manifold = Manifold(model)

    def run(q, w, u, time):
        q, w, u = (tuple(x.tolist()) for x in (q, w, u))
        found = []
        for rates in (
            ImplicitRates(system).under(u),
            lambda q, w, time: system.rates(q, w, u, time),
        ):
            chart = Chart(manifold, rates, q)
            changes = rate_changes(chart, chart.start(w), time)
            found.append([*changes.by_state, changes.by_time])
        return {"implicit": found[0], "direct": found[1]}

    shapes = {"q": (model.nq,), "w": (len(w),), "u": (len(u),), "time": ()}
    implicit, direct = make_kernel(ProgramSource(trace(run, shapes)))(
        q, np.array(w), np.array(u), 0.4
    )
    # rounding of accelerations and of the inverse mass matrix
    scale = np.abs(direct).max()
    np.testing.assert_allclose(implicit, direct, rtol=0, atol=1e-12 * scale)
