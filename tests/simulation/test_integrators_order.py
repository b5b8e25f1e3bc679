"""Every method has its order: on rotations, rolling, inner states, and motion that time drives."""

import numpy as np
import pytest

import tiburon as tb
from tests.simulation.integrator_runs import PLANTS, Plant, swinging, symmetric_tumbling
from tests.simulation.samples import fitted_order, pendulum_closed_form, symmetric_top_closed_form
from tiburon.simulation.integrators.manifold import Manifold
from tiburon.simulation.integrators.methods import METHODS

# the next power of the step bends the fit over these counts by less than a quarter of an order
SLACK = 0.25

RUNS = {
    "euler": (0.25, (50, 100, 200)),
    "semi_implicit_euler": (0.25, (50, 100, 200)),
    "rk4": (0.25, (20, 40, 80)),
    "rosenbrock": (0.25, (6, 12)),
    "dopri5": (0.25, (10, 20, 40)),
    "dop853": (1.0, (12, 16, 24)),
    "b1pc5": (0.25, (40, 80)),
    "b2pc5": (0.25, (40, 80)),
    "b4pc5": (0.25, (80, 160)),
}
"""Duration [s] and steps, few enough that errors stay above rounding."""


LONG_COMPILED = {("rosenbrock", "rolling"), ("rosenbrock", "spherical_pendulum")}
"""Pairs whose claims others make: a rolling constraint with other methods, a pendulum in space."""


def orders(plant, name, ends):
    """Return the fitted order, and the errors."""
    duration, counts = RUNS[name]
    errors = [plant.distance(plant.run(name, n, duration), ends[duration]) for n in counts]
    return fitted_order(counts, errors), errors


@pytest.fixture(scope="module")
def ends():
    """Return the systems, and their states at both ends by steps that leave rounding only."""
    found = {}
    for name, make in PLANTS.items():
        plant = make()
        states = plant.run("dop853", 60, 1.0, every=15)
        found[name] = plant, {0.25: states[1], 1.0: states[4]}
    return found


@pytest.mark.parametrize(
    ("name", "system"),
    [
        # the Jacobian of an implicit method compiles longer than its steps take
        pytest.param(
            name, system, marks=pytest.mark.slow if (name, system) in LONG_COMPILED else ()
        )
        for name in METHODS
        for system in PLANTS
    ],
)
def test_error_falls_with_the_order_of_the_method(ends, name, system):
    """Fit over smaller and smaller steps; block methods and some motions do better."""
    plant, expected = ends[system]
    order, errors = orders(plant, name, expected)
    assert order > METHODS[name].order - SLACK, errors
    assert order < METHODS[name].order + 1.6, errors
    assert errors[-1] < 0.1


@pytest.mark.parametrize("name", ["dopri5", "dop853", "b1pc5", "b4pc5"])
def test_free_top_reaches_its_closed_form(name):
    """The reference itself may be wrong on rotations; Euler's solution is not."""
    plant = symmetric_tumbling()
    start = np.array(plant.q), np.array(plant.w)
    end = {time: symmetric_top_closed_form(*start, time) for time in (0.25, 1.0)}
    order, errors = orders(plant, name, end)
    assert order > METHODS[name].order - SLACK, errors


def test_pendulum_reaches_its_closed_form_with_order_eight():
    """Angle and rate of a wide swing against Jacobi's elliptic functions."""
    plant = Plant(swinging().model, (0.0,), (5.0,))
    expected = pendulum_closed_form(5.0, 2.0)
    counts = (12, 16, 24)
    errors = [np.abs(np.ravel(plant.run("dop853", n, 2.0)) - expected).max() for n in counts]
    assert fitted_order(counts, errors) > 8.0 - SLACK
    # (w h)^8 with w h = 3.7 / 12, a small constant times one radian
    assert errors[-1] < 1e-8


class _NoTurns(Manifold):
    """Positions whose coordinates are taken to change at the rates of steps."""

    def coordinate_rate(self, theta, rates):
        return rates


@pytest.mark.parametrize("name", ["dopri5", "dop853", "b1pc5"])
def test_without_the_inverse_of_the_exponentials_derivative_the_order_is_lost(name):
    """The correction is needed: without it rotations are integrated with order 2."""
    plant = symmetric_tumbling()
    plant.manifold = _NoTurns(plant.model)
    end = symmetric_top_closed_form(np.array(plant.q), np.array(plant.w), 0.5)
    errors = [plant.distance(plant.run(name, n, 0.5), end) for n in (40, 80, 160)]
    assert fitted_order((40, 80, 160), errors) == pytest.approx(2.0, abs=SLACK)


@pytest.mark.parametrize("name", ["dopri5", "dop853", "b1pc5"])
def test_energy_of_a_spherical_pendulum_is_kept_with_the_order_of_the_method(name):
    """Nothing drives or brakes it: what energy changes by falls with the step at least as fast."""
    plant = PLANTS["spherical_pendulum"]()
    duration, counts = RUNS[name]
    lost = []
    for count in counts:
        q, w = (np.array(part) for part in plant.run(name, count, duration))
        start = np.array(plant.q), np.array(plant.w)
        kinetic = [tb.kinetic_energy(plant.model, *state) for state in (start, (q, w))]
        potential = [tb.potential_energy(plant.model, position) for position in (start[0], q)]
        lost.append(abs(kinetic[1] + potential[1] - kinetic[0] - potential[0]))
    assert fitted_order(counts, lost) > METHODS[name].order - SLACK, lost


def test_semi_implicit_euler_keeps_the_energy_of_a_swing():
    """Over many swings energy wavers with the step and does not drift; Euler's gains."""
    plant = swinging()
    drift = {}
    for name in ("euler", "semi_implicit_euler"):
        states = plant.run(name, 2000, 40.0, every=50)
        q, v = (np.array([state[part] for state in states]) for part in (0, 1))
        energy = tb.kinetic_energy(plant.model, q, v) + tb.potential_energy(plant.model, q)
        drift[name] = np.abs(energy / energy[0] - 1.0).max()
    # frequency times step is 0.07: a waver of half of that; Euler's gains 0.07^2 a step
    assert drift["semi_implicit_euler"] < 0.07
    assert drift["euler"] > 1.0
