"""Linear quadratic regulators: Riccati equations, closed forms, free bases, loops, refusals."""

import numpy as np
import pytest

import tiburon as tb


def mass(count=1):
    """Return point masses that slide, without gravity along their axes."""
    bodies = [
        tb.Body(f"cart {k}", joint=tb.Prismatic(f"slide {k}", (1.0, 0.0, 0.0)), inertia=block())
        for k in range(count)
    ]
    return tb.Model("carts", bodies)


def block():
    return tb.Inertia(2.0, (0.0, 0.0, 0.0), (0.1, 0.0, 0.0, 0.1, 0.0, 0.1))


def test_a_sliding_mass_has_the_gain_of_the_closed_form():
    # double integrator of mass m: K = sqrt(a/r), sqrt(b/r + 2 m sqrt(a/r))
    a, b, r, m = 3.0, 0.5, 0.2, 2.0
    found = tb.lqr(mass(), [0.3], None, [a, b], r)
    first = np.sqrt(a / r)
    assert np.allclose(found.gain, [[first, np.sqrt(b / r + 2.0 * m * first)]], rtol=1e-9)
    assert found.poles.real.max() < 0.0
    # the cost of a start is what the run costs
    run = tb.simulate(
        mass(), 30.0, q=[0.8], control=found, method=tb.RK4(dt=0.002), record=tb.Record(dt=0.002)
    )
    x = found.state(run.q, run.v)
    u = found.tau(run.q, run.v)[:, 0]
    spent = a * x[:, 0] ** 2 + b * x[:, 1] ** 2 + r * u**2
    total = float(np.sum(0.5 * (spent[1:] + spent[:-1]) * np.diff(run.time)))
    assert total == pytest.approx(0.5**2 * found.cost[0, 0], rel=1e-4)


@pytest.mark.parametrize("dt", [None, 0.05])
def test_gains_of_a_vehicle_in_a_current_solve_the_riccati_equation(dt):
    linalg = pytest.importorskip("scipy.linalg")
    rov = tb.load("bluerov2_heavy")
    water = tb.Water(current=(0.2, 0.1, 0.0))
    q = rov.integrate(rov.neutral(), np.array([0.1, -0.2, 0.4, 1.0, 2.0, 3.0]))
    found = tb.lqr(rov, q, None, np.linspace(1.0, 2.0, 12), 0.1, dt=dt, fluid=water)
    assert found.inputs == tuple(range(6))
    A, B = tb.linearize(rov, q, np.zeros(6), found.force, dt=dt, fluid=water)
    solve = linalg.solve_continuous_are if dt is None else linalg.solve_discrete_are
    S = solve(A, B, np.diag(np.linspace(1.0, 2.0, 12)), 0.1 * np.eye(6))
    assert np.abs(S - found.cost).max() < 1e-9 * np.abs(S).max()


def test_a_vehicle_returns_from_a_turn_with_its_quaternion_of_either_sign():
    rov = tb.load("bluerov2_heavy")
    water = tb.Water()
    home = np.array(rov.neutral())
    weights = np.concatenate([np.full(6, 20.0), np.ones(6)])
    hold = tb.lqr(rov, home, None, weights, 0.05, dt=0.05, fluid=water)
    away = rov.integrate(home, np.array([0.4, -0.3, 2.0, 0.5, -0.4, 0.3]))
    away[:4] *= -1.0
    run = tb.simulate(rov, 30.0, q=away, control=tb.Sampled(hold, dt=0.05), fluid=water)
    assert run.outcome.status == "finished"
    assert np.abs(rov.difference(home, run.q[-1])).max() < 1e-2


def test_a_pole_on_a_cart_is_held_upright_by_the_cart_alone():
    cart = tb.load("cart_pole")
    upright = np.zeros(2)
    found = tb.lqr(cart, upright, None, np.ones(4), 1.0)
    assert len(found.inputs) == 1
    run = tb.simulate(cart, 12.0, q=np.array([0.1, 0.15]), control=found, method=tb.RK4(dt=0.005))
    assert np.abs(run.q[-1] - upright).max() < 1e-2
    loose = tb.simulate(cart, 12.0, q=np.array([0.1, 0.15]), method=tb.RK4(dt=0.005))
    assert np.abs(loose.q - upright).max() > 0.5
    with pytest.raises(tb.ModelError, match="expected an equilibrium"):
        tb.lqr(cart, np.array([0.0, 0.7]), None, np.ones(4), 1.0)


def test_loops_are_held_by_one_motor():
    robot = tb.load("four_bar")
    q = tb.assemble(robot).q
    found = tb.lqr(robot, q, None, np.full(2 * robot.nv, 10.0), 0.1)
    assert found.poles.real.max() < 0.0
    push = tb.project_velocity(robot, q, np.full(robot.nv, 0.3))
    run = tb.simulate(robot, 10.0, q=q, v=push, control=found, method=tb.RK4(dt=0.002))
    assert np.abs(robot.difference(q, run.q[-1])).max() < 1e-3


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"Q": np.ones(3)}, tb.ShapeError, "Q"),
        ({"R": 0.0}, tb.DomainError, "R"),
        ({"Q": [1.0, -1.0]}, tb.DomainError, "Q"),
        ({"Q": [0.0, 1.0]}, tb.DomainError, "weigh all positions"),
        ({"Q": np.array([1.0, 1.0 + 2.0j])}, tb.DomainError, "Q: expected a real number"),
        ({"dt": -0.1}, tb.DomainError, "dt"),
        ({"inputs": []}, tb.ModelError, "one input"),
        ({"inputs": "slid 0"}, tb.UnknownNameError, "slid 0"),
        ({"q": np.zeros((2, 1))}, tb.ShapeError, "one state"),
        ({"errors": "flag"}, TypeError, "lqr: takes no 'errors'"),
        ({"out": np.zeros(1)}, TypeError, "lqr: takes no 'out'"),
    ],
)
def test_bad_input_is_refused(changes, error, words):
    given = {"q": [0.0], "v": None, "Q": np.ones(2), "R": 1.0, **changes}
    args = [given.pop(name) for name in ("q", "v", "Q", "R")]
    with pytest.raises(error, match=words):
        tb.lqr(mass(), *args, **given)


def test_what_no_input_reaches_has_no_gain():
    # two carts, one motor: the other one drifts
    with pytest.raises(tb.DomainError, match="add inputs"):
        tb.lqr(mass(2), [0.0, 0.0], None, np.ones(4), 1.0, inputs="slide 0")
