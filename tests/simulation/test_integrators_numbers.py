"""The numbers of the methods: conditions that they fulfil, and SciPy's steps of the same ones."""

import numpy as np
import pytest
from scipy.integrate import DOP853 as SciPyDop853
from scipy.integrate import RK45 as SciPyDopri5

import tiburon as tb
from tests.robots import double_pendulum, kicked
from tiburon.simulation.integrators import dop853 as numbers
from tiburon.simulation.integrators.adaptive import Tolerances, scaled_error
from tiburon.simulation.integrators.dop853 import DOP853
from tiburon.simulation.integrators.dopri5 import DENSE, DOPRI5, ERROR
from tiburon.simulation.integrators.manifold import Chart, Manifold
from tiburon.simulation.integrators.method import interpolate
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.integrators.predictor_corrector import integration_weights
from tiburon.simulation.integrators.rosenbrock import GAMMA, RESULT, A, C

# printed with 16 digits or more, sums of up to twelve terms of size 50
ROUNDING = 2e-13


@pytest.mark.parametrize(("tableau", "order"), [(DOPRI5, 5), (DOP853, 8)])
def test_explicit_methods_fulfil_simplifying_conditions(tableau, order):
    """Rows sum to nodes, weights integrate powers, and tall trees come out (sec. II.2)."""
    a = np.zeros((len(tableau.c), len(tableau.c)))
    for i, row in enumerate(tableau.a, start=1):
        a[i, : len(row)] = row
    b, c = np.array(tableau.b), np.array(tableau.c)
    np.testing.assert_allclose(a.sum(axis=1), c, rtol=0, atol=ROUNDING)
    for power in range(order):
        assert b @ c**power == pytest.approx(1 / (power + 1), abs=ROUNDING)
    # the tall tree of each order: b a^(k-1) 1 = 1/k!
    tall = np.ones(len(c))
    factorial = 1.0
    for k in range(1, order + 1):
        factorial *= k
        assert b @ tall == pytest.approx(1 / factorial, abs=ROUNDING)
        tall = a @ tall


def test_error_estimate_vanishes_for_constant_rates():
    """Differences of two methods that both follow constant rates exactly."""
    for weights in (ERROR, DENSE, numbers.ERROR_5, numbers.ERROR_3, *numbers.DENSE_WEIGHTS):
        # weights of interpolation are of size 1000
        assert sum(weights) == pytest.approx(0.0, abs=1e-11)
    for node, row in zip(numbers.DENSE_NODES, numbers.DENSE_ROWS, strict=True):
        assert sum(row) == pytest.approx(node, abs=ROUNDING)


@pytest.fixture(scope="module")
def arm():
    """Return a robot of hinges, whose steps add, and its equation of motion."""
    model = double_pendulum()
    q, v, _ = kicked(model, 3)

    def rates(q, w, *time):
        return tuple(tb.forward_dynamics(model, np.array(q), np.array(w), np.zeros(2)).tolist())

    return model, q, v, rates


@pytest.mark.parametrize(("name", "peer"), [("dopri5", SciPyDopri5), ("dop853", SciPyDop853)])
def test_one_step_equals_that_of_scipy(arm, name, peer):
    """Result, size of the error, and interpolation inside the step."""
    model, q, v, rates = arm
    nq, h = model.nq, 0.02
    solver = peer(
        lambda t, y: np.concatenate([y[nq:], rates(y[:nq], y[nq:])]),
        0.0,
        np.concatenate([q, v]),
        1.0,
        first_step=h,
        rtol=1e-3,
        atol=1e-3,
    )
    start = solver.y.copy()
    solver.step()
    assert solver.t == h
    pair = METHODS[name].pair
    chart = Chart(Manifold(model), rates, tuple(q))
    first = rates(q, v)
    found = pair.attempt(chart, tuple(v), first, h, 0.0)
    np.testing.assert_allclose([*found.q, *found.w], solver.y, rtol=0, atol=1e-13)
    np.testing.assert_allclose(found.rate, solver.f[nq:], rtol=0, atol=1e-11)
    # the same tolerance for all coordinates, so that both divide by the same
    expected = solver._estimate_error_norm(solver.K, h, 1e-3 * np.ones(4))
    if name == "dopri5":
        # SciPy takes the root mean square of one estimate
        expected = np.sqrt(np.mean((h * solver.K.T @ solver.E) ** 2)) / 1e-3
    error = scaled_error(
        pair, chart, (0.0,) * 2, found._replace(w=(0.0,) * 2), h, Tolerances(0.0, 1e-3)
    )
    assert error == pytest.approx(expected, rel=1e-8)
    dense, theirs = pair.dense(chart, tuple(v), found.pieces, h, 0.0), solver.dense_output()
    for part in (0.0, 0.2, 0.5, 0.9, 1.0):
        ours = start + np.array(interpolate(dense, part))
        # SciPy's interpolation of order 4 is another one: equal to that order only
        slack = 1e-13 if name == "dop853" else 1e-6
        np.testing.assert_allclose(ours, theirs(part * h), rtol=0, atol=slack)


def test_runs_agree_with_scipy_to_its_tolerance(arm):
    """A second of a chaotic double pendulum."""
    from scipy.integrate import solve_ivp

    from tests.simulation.integrator_runs import Plant

    model, q, v, rates = arm
    nq = model.nq
    expected = solve_ivp(
        lambda t, y: np.concatenate([y[nq:], rates(y[:nq], y[nq:])]),
        (0.0, 1.0),
        np.concatenate([q, v]),
        method="DOP853",
        rtol=1e-11,
        atol=1e-11,
    ).y[:, -1]
    for name, count in (("dopri5", 800), ("dop853", 100), ("b2pc5", 1600)):
        found = np.concatenate(Plant(model, q, v).run(name, count, 1.0))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


def test_weights_of_blocks_are_those_of_adams_bashforth_and_moulton():
    """Printed weights (McMillan 1994, ch. 3, by exact integration; Hairer et al. sec. III.1)."""
    old = (0, -1, -2, -3, -4)
    for upper, weights, below in (
        (1, (1901, -2774, 2616, -1274, 251), 720),
        (2, (1079, -2396, 2544, -1316, 269), 90),
        (3, (2877, -7638, 8712, -4698, 987), 80),
        (4, (3914, -11456, 13704, -7616, 1634), 45),
    ):
        np.testing.assert_array_equal(integration_weights(upper, old), np.array(weights) / below)
    for upper, nodes, weights, below in (
        (1, (1, 0, -1, -2, -3), (251, 646, -264, 106, -19), 720),
        (2, (2, 1, 0, -1, -2), (29, 124, 24, 4, -1), 90),
        (3, (4, 3, 2, 1, 0), (-3, 42, 72, 102, 27), 80),
        (4, (4, 3, 2, 1, 0), (14, 64, 24, 64, 14), 45),
    ):
        np.testing.assert_array_equal(integration_weights(upper, nodes), np.array(weights) / below)


def stability(z):
    """Return by what one Rosenbrock step multiplies y in y' = z y / h, by its definition."""
    stages = []
    for row, past in zip(A, C, strict=True):
        at = 1.0 + sum(a * u for a, u in zip(row, stages, strict=False))
        right = z * at + sum(c * u for c, u in zip(past, stages, strict=False))
        stages.append(right / (1.0 / GAMMA - z))
    return 1.0 + sum(m * u for m, u in zip(RESULT, stages, strict=True))


def test_rosenbrock_is_l_stable():
    """|R| <= 1 on the imaginary axis, so on the left of it; R vanishes at minus infinity."""
    y = np.concatenate([np.linspace(0.0, 30.0, 3001), np.logspace(1.5, 8, 200)])
    assert np.abs(stability(1j * y)).max() <= 1.0 + 1e-12
    assert np.abs(stability(-np.logspace(6, 12, 7))).max() < 1e-5
    # order 3: R(z) = exp(z) + O(z^4)
    z = 1e-2
    assert abs(stability(z) - np.exp(z)) < z**4
