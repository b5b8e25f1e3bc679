"""Regions that run only where they are needed: values and derivatives on both sides."""

import numpy as np
import pytest

from tests.native.lanes import LANES, run_lanes, run_one
from tiburon.trace.array import as_traced
from tiburon.trace.derivative import jacobian
from tiburon.trace.interpret import interpret
from tiburon.trace.program import Input, trace
from tiburon.trace.regions import function, trace_body, where_needed


def changed_where_positive(x):
    """Return (sin x0 x1, the same, x1) where x0 > 0, else (x1, x0, 3)."""

    def changed():
        first = np.sin(x[0] * x[1])
        # one value twice, and one that comes from outside
        return first, first, x[1]

    a, b, c = where_needed(x[0] > 0.0, changed, (x[1], x[0], 3.0))
    return as_traced([a, b * x[1], c])


PROGRAM = trace(changed_where_positive, [Input("x", (2,))], name="changed")


def expected(x):
    """Return the Jacobian by hand."""
    a, b = x
    if a > 0.0:
        slope, sine = np.cos(a * b), np.sin(a * b)
        return np.array([[b, a], [b * b, a * b], [0.0, 0.0]]) * slope + [[0, 0], [0, sine], [0, 1]]
    return np.array([[0.0, 1.0], [b, a], [0.0, 0.0]])


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("x", [(0.7, 1.3), (-0.7, 1.3)])
def test_derivative_is_that_of_the_side_taken(mode, x):
    found = interpret(jacobian(PROGRAM, mode=mode), [np.array(x)])
    np.testing.assert_allclose(found, expected(x), atol=1e-15)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_infinite_slopes_of_the_side_not_taken_are_ignored(mode):
    def rooted(x):
        (found,) = where_needed(x[0] > 0.0, lambda: (np.sqrt(x[0]),), (2.0 * x[0],))
        return as_traced([found])

    program = trace(rooted, [Input("x", (1,))], name="rooted")
    found = interpret(jacobian(program, mode=mode), [np.array([0.0])])
    assert np.array_equal(found, [[2.0]])


def test_lanes_on_different_sides_agree_in_bits():
    x = np.random.default_rng(1).normal(size=(13, 2))
    single = run_one(jacobian(PROGRAM, mode="reverse"), x)
    for lanes in LANES:
        assert np.array_equal(run_lanes(jacobian(PROGRAM, mode="reverse"), x, lanes), single)
    for row, of in zip(single, x, strict=True):
        np.testing.assert_allclose(row.reshape(3, 2), expected(of), atol=1e-14)


def test_operations_on_captured_values_stay_in_the_body():
    """What only the changed state needs is not computed around the region."""

    def twice(given):
        (x,) = given

        # the inner region, too, works on values of the outermost graph only
        def changed():
            return where_needed(x > 2.0, lambda: np.sin(-x * x), np.cos(abs(x)))

        return where_needed(x > 1.0, changed, x)

    graph, _, _ = trace_body(None, (1,), twice)
    assert not {"sin", "cos", "mul", "abs", "neg"} & set(graph.ops)
    (outer,) = [
        callee for op, callee in zip(graph.ops, graph.payloads, strict=True) if op == "call"
    ]
    assert "cos" in outer.graph.ops
    assert "sin" not in outer.graph.ops


def test_function_made_around_the_region_is_shared():
    """A function of captured values that is first called in a conditional body works outside."""

    def twice(given):
        (x,) = given

        @function
        def shifted(y):
            return y + np.sin(x * x)

        changed = where_needed(x > 1.0, lambda: shifted(x), x)
        return changed + shifted(2.0 * x)

    program = trace(lambda x: as_traced([twice([x[0]])]), [Input("x", (1,))], name="shared")
    for x in (0.5, 1.5):
        first = x + np.sin(x * x) if x > 1.0 else x
        found = run_one(program, np.array([[x]]))
        np.testing.assert_allclose(found, [[first + 2.0 * x + np.sin(x * x)]], rtol=1e-15)


@pytest.mark.parametrize("used_again", [False, True])
def test_long_states_are_changed_in_place_only_if_nothing_else_reads_them(used_again):
    """Results of one call are the state; lanes that need no change keep it in bits."""
    count = 80

    @function
    def many(a, b):
        return [a * (k + 1.0) - b for k in range(count)]

    @function
    def total(values):
        found = 0.0
        for value in values:
            found = found + value
        return found

    def changed(a, b):
        return [a * a * (k + 1.0) + b for k in range(count)]

    def run(x):
        state = many(x[0], x[1])
        found = where_needed(x[0] > 0.0, lambda: changed(x[0], x[1]), state)
        last = total(state) if used_again else 0.0
        return as_traced([*found[1:], last, found[0]])

    program = trace(run, [Input("x", (2,))], name="in place")
    x = np.random.default_rng(4).normal(size=(19, 2))
    single = run_one(program, x)
    first, numbers = x[:, :1], np.arange(1.0, count + 1.0)
    state = first * numbers - x[:, 1:]
    found = np.where(first > 0.0, first * first * numbers + x[:, 1:], state)
    last = state.sum(axis=1)[:, None] if used_again else np.zeros((len(x), 1))
    expected = np.concatenate([found[:, 1:], last, found[:, :1]], axis=1)
    np.testing.assert_allclose(single, expected, rtol=1e-12, atol=1e-12)
    for lanes in LANES:
        assert np.array_equal(run_lanes(program, x, lanes), single)
