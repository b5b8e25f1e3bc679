"""Derivatives on the way to a result: on floats and while tracing."""

import numpy as np

from tests.tolerances import DIFFERENCE, assert_close
from tiburon.trace.derivative import rate_along, rate_program
from tiburon.trace.interpret import interpret
from tiburon.trace.primitives.spd import solve_spd
from tiburon.trace.program import trace

RANDOM = np.random.default_rng(0)


def field(t, x, y, z):
    """Every kind of operation: choices, comparisons, powers, functions of one and two arguments."""
    a = np.where((y > 0.0) & ~(x > 3.0), y * z, -x)
    b = np.minimum(np.hypot(x, y), np.exp(-z)) + np.abs(t) ** 1.5
    return np.sin(t) * x, a / (1.0 + z * z), b


def expected_rate(point, rates, step=1e-6):
    def at(s):
        return np.array(field(*(np.array(point) + s * np.array(rates))), dtype=float)

    return (at(step) - at(-step)) / (2.0 * step)


def test_rates_on_floats_are_differences():
    program = rate_program(field, 4)
    for _ in range(10):
        point = RANDOM.normal(size=4)
        values, rates = rate_along(program, point, lambda a, b, c: (1.0, a, b, c))
        assert_close(values, np.array(field(*point), dtype=float))
        assert_close(rates, expected_rate(point, (1.0, *values)), 10 * DIFFERENCE)


def test_rates_inside_a_trace_are_those_on_floats():
    program = rate_program(field, 4)

    def both(x):
        values, rates = rate_along(program, x.tolist(), lambda a, b, c: (1.0, a, b, c))
        return [*values, *rates]

    traced = trace(both, {"x": (4,)})
    for _ in range(10):
        point = RANDOM.normal(size=4)
        values, rates = rate_along(program, point, lambda a, b, c: (1.0, a, b, c))
        assert_close(interpret(traced, [point]), (*values, *rates))


def test_rates_of_primitives_follow_their_derivative_rules():
    """A function that calls a primitive stays one that can be traced and differentiated."""

    def solved(x, y):
        return list(
            solve_spd(np.array([[2.0 + x * x, y], [y, 3.0]]), np.array([x, y]), inline=False)
        )

    program = rate_program(solved, 2)

    def both(x):
        values, rates = rate_along(program, x.tolist(), lambda a, b: (0.5, -1.0))
        return [*values, *rates]

    point = np.array([0.3, 0.7])
    found = interpret(trace(both, {"x": (2,)}), [point])
    step = 1e-6 * np.array([0.5, -1.0])
    ahead, behind = solved(*(point + step)), solved(*(point - step))
    assert_close(found[:2], solved(*point))
    assert_close(found[2:], (np.array(ahead) - np.array(behind)) / 2e-6, 10 * DIFFERENCE)
