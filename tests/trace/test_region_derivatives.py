"""Derivatives of functions and loops against differences, and against each other."""

import numpy as np
import pytest

from tests.tolerances import ALGEBRA, DIFFERENCE, DIFFERENCE_STEP, assert_close
from tests.trace.test_regions import calls
from tiburon.trace import (
    derivative,
    diagnose,
    fixed_loop,
    function,
    interpret,
    jacobian,
    norm,
    regions,
    trace,
    while_loop,
)
from tiburon.trace.derivative import values_and_tangents
from tiburon.trace.regions import for_each
from tiburon.trace.regions.lanes import lanes

RANDOM = np.random.default_rng(21)


def differences(f, x):
    """Return the Jacobian of a function of a vector by central differences."""
    steps = DIFFERENCE_STEP * np.eye(len(x))
    return np.stack([(f(x + s) - f(x - s)) / (2 * DIFFERENCE_STEP) for s in steps], axis=-1)


def program_differences(program, x):
    """Return the same for a program, interpreted at all points at once."""
    steps = DIFFERENCE_STEP * np.eye(len(x))
    after, before = (interpret(program, [x + sign * steps]) for sign in (1.0, -1.0))
    return np.moveaxis((after - before) / (2 * DIFFERENCE_STEP), 0, -1)


def jacobians(program, x):
    """Return the Jacobian by forward and by reverse mode."""
    return [interpret(jacobian(program, mode=mode), [x]) for mode in ("forward", "reverse")]


def assert_derivatives(f, x):
    """Compare first derivatives in both modes and second ones with central differences."""
    program = trace(f, {"x": (len(x),)})
    expected = differences(f, x)
    for found in jacobians(program, x):
        assert_close(found, expected, DIFFERENCE)
    first = jacobian(program, mode="reverse")
    expected = program_differences(first, x)
    assert_close(interpret(jacobian(first, mode="forward"), [x]), expected, 10 * DIFFERENCE)


def runge_kutta(x):
    """Two steps of a pendulum of unknown stiffness, as function calls in a loop."""

    @function
    def rate(y):
        return np.stack([y[1], -x[0] * np.sin(y[0]) - x[1] * y[1]])

    def step(i, y):
        half = y + 0.05 * rate(y)
        return y + 0.1 * rate(half) * (1.0 + 0.1 * i)

    return fixed_loop(3, step, x[2:])


def late(x):
    """A chain where a state starts to depend on the input only after some repetitions."""

    def body(i, state):
        a, b, c, d = state
        return a, a * x[0] + b, np.sin(b) + c, d * 1.5 + c * i

    return np.stack(fixed_loop(4, body, (x[1], 0.0, 0.5, 2.0)))


def kepler(x):
    """Newton's method for Kepler's equation."""
    e, M = x[0], x[1]
    return while_loop(
        lambda E: np.abs(E - e * np.sin(E) - M) > 1e-13,
        lambda E: E - (E - e * np.sin(E) - M) / (1.0 - e * np.cos(E)),
        M,
        50,
    ).state


def contraction(x):
    """A slowly converging vector iteration, with a counter and a passed-on part in its state."""

    def body(state):
        y, n, k = state["y"], state["n"], state["k"]
        new = np.stack([0.4 * np.cos(y[1]) * k + x[0], 0.3 * np.sin(y[0]) + x[1] * k])
        return {"y": new, "n": n + 1.0, "k": k, "change": norm(new - y)}

    start = {"y": np.zeros(2, like=x), "n": 0.0, "k": x[2] * x[2], "change": 1.0}
    result = while_loop(lambda s: s["change"] > 1e-15, body, start, 200)
    return np.concatenate([result.state["y"] * x[0], result.state["y"]])


def each(x):
    """A body evaluated for each index, which reads values around it and calls a function."""
    g = function(lambda y: np.sin(y) * x[1])
    rows = for_each(3, lambda k: (g(x[0] * (1.0 + k)), x[1] * k, k * 2.0))
    return np.stack([value * x[2] for row in rows for value in row])


def side_by_side(x):
    """Calls in lanes: some arguments differ, some are shared, some constant; a loop inside."""

    def call(y, k, z):
        slow = fixed_loop(2, lambda i, s: 0.5 * np.sin(s) + i * z, y * k)
        return {"a": slow * x[1], "b": y * z + x[0], "c": k}

    found = lanes(call, [(x[0] * x[2], 0.5, x[2]), (x[1], 0.7, x[2]), (x[2] + x[0], 0.9, x[2])])
    return np.stack([f[name] * x[2] for f in found for name in "abc"])


CASES = {
    "lanes": (side_by_side, (3,)),
    "for_each": (each, (3,)),
    "function": (lambda x: function(lambda y: np.sin(y) * x[1] + y)(x[0] * x), (3,)),
    "runge_kutta": (runge_kutta, (4,)),
    "late": (late, (2,)),
    "kepler": (kepler, (2,)),
    "contraction": (contraction, (3,)),
}


@pytest.mark.parametrize("name", CASES)
def test_derivative_equals_differences(name):
    """Forward and reverse mode, at kicked points."""
    f, shape = CASES[name]
    program = trace(f, {"x": shape})
    for _ in range(3):
        x = RANDOM.uniform(0.2, 0.8, shape)
        expected = differences(lambda y: np.asarray(f(y)), x)
        for found in jacobians(program, x):
            assert_close(found, expected, DIFFERENCE)


@pytest.mark.parametrize("name", CASES)
def test_second_derivative_equals_differences_of_the_first(name):
    """The derivative of a region is a region, which can be derived again."""
    f, shape = CASES[name]
    first = jacobian(trace(f, {"x": shape}), mode="forward")
    x = RANDOM.uniform(0.2, 0.8, shape)
    expected = program_differences(first, x)
    for mode in ("forward", "reverse"):
        found = interpret(jacobian(first, mode=mode), [x])
        # slopes of slopes: the third derivative may be ten times larger again
        assert_close(found, expected, 10 * DIFFERENCE)


def test_derivative_of_a_function_is_called_not_inlined():
    """One derived function serves all calls."""
    g = function(lambda y: np.sin(y) * np.exp(y))
    program = jacobian(trace(lambda x: g(g(g(x))), {"x": ()}), mode="forward")
    derived = [callee for callee in calls(program) if callee.name.endswith("_tangent")]
    assert len(derived) == 3
    assert len({callee.key for callee in derived}) == 1


def test_directions_of_a_long_function_are_calls_of_one_function(monkeypatch):
    """Directions that change one argument each or two: derived for each, code is other code."""
    directions = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 2.0]]
    x = RANDOM.uniform(0.2, 0.8, 3)

    @function
    def body(y):
        # more results than directions: tangents go forward
        return [f(y[0]) * np.exp(y[2] * y[1]) for f in (np.sin, np.cos, np.tan, np.exp, np.sqrt)]

    def run(x):
        tangents = values_and_tangents(lambda y: (body(tuple(y)), directions), list(x))[1]
        return np.array(tangents, like=x)

    def derived():
        program = trace(run, {"x": (3,)})
        return program, [one.key for one in calls(program) if one.name.endswith("_tangent")]

    short, own = derived()
    assert len(set(own)) == 3
    monkeypatch.setattr(derivative, "LONG_BODY", 0)
    program, shared = derived()
    assert len(shared) == 3
    assert len(set(shared)) == 1
    found = interpret(program, [x])
    assert_close(found, interpret(short, [x]), ALGEBRA)
    J = differences(lambda y: np.asarray(body(tuple(y))), x)
    assert_close(found, np.array(directions) @ J.T, DIFFERENCE)


def test_derivative_of_a_while_loop_depends_on_its_fixed_point_only():
    """Closed form at the solution of Kepler's equation: dE/dM = 1 / (1 - e cos E)."""
    program = trace(kepler, {"x": (2,)})
    x = np.array([0.6, 0.9])
    E = kepler(x)
    slope = 1.0 / (1.0 - x[0] * np.cos(E))
    for found in jacobians(program, x):
        assert_close(found, [np.sin(E) * slope, slope], ALGEBRA)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_columns_of_a_long_body_are_calls_of_one_function(mode, monkeypatch):
    """Each state of the loop would have code of its own; the derivative is the same."""
    program, x = trace(contraction, {"x": (3,)}), RANDOM.uniform(0.2, 0.8, 3)
    short = interpret(jacobian(program, mode=mode), [x])
    monkeypatch.setattr(regions, "MOST_COLUMN_NODES", 0)
    derived = jacobian(program, mode=mode)
    # y and what changes with it move; the counter and the value that is passed on do not
    columns = [callee.key for callee in calls(derived) if callee.name.endswith("_column")]
    assert len(columns) == 3
    assert len(set(columns)) == 1
    found = interpret(derived, [x])
    assert_close(found, short, ALGEBRA)
    assert_close(found, differences(lambda y: np.asarray(contraction(y)), x), DIFFERENCE)


def test_derivative_of_a_loop_that_did_not_converge_is_refused():
    """The implicit rule would be wrong, so the result is NaN and the reason can be found."""

    def cut_short(x):
        return while_loop(lambda y: np.abs(y - x) > 1e-9, lambda y: (y + x) / 2.0, 0.0, 3).state

    program = jacobian(trace(cut_short, {"x": ()}), mode="forward")
    assert np.isnan(interpret(program, [1.0]))
    assert "fixed point" in diagnose(program, [1.0]).message


def test_derivative_of_a_loop_without_fixed_point_is_refused():
    """Time stepping until an event has no fixed point."""

    def until_event(x):
        def step(state):
            t, y = state
            return t + 0.125, y + 0.125 * x * y

        return while_loop(lambda s: s[0] < 1.0, step, (0.0, 1.0), 100).state[1]

    program = trace(until_event, {"x": ()})
    assert_close(interpret(program, [0.5]), 1.0625**8)
    for found in jacobians(program, 0.5):
        assert np.isnan(found)


def test_counters_in_the_state_have_zero_derivative():
    """A counter never rests at a fixed point; it must neither fail the check nor move."""

    def counted(x):
        def body(state):
            y, n = state
            return (y + x[0] / y) / 2.0, n + 1.0

        y, n = while_loop(lambda s: np.abs(s[0] * s[0] - x[0]) > 1e-12, body, (x[1], 0.0), 60).state
        return np.stack([y, n])

    x = np.array([2.0, 1.3])
    for found in jacobians(trace(counted, {"x": (2,)}), x):
        # d sqrt(x) / dx = 1 / (2 sqrt(x)); the start does not matter
        assert_close(found, [[0.5 / np.sqrt(2.0), 0.0], [0.0, 0.0]])


@pytest.mark.parametrize("most", [2, 60])
def test_a_loop_that_a_choice_leaves_out_does_no_harm(most):
    """Where iterations end too early, the other side of a choice has the derivative."""

    def guarded(x):
        def body(state):
            return (state + x[0] / state) / 2.0

        def far(state):
            return np.abs(state * state - x[0]) > 1e-12

        found = while_loop(far, body, 5.0 + 0.0 * x[1], most)
        return np.stack([np.where(found.converged, found.state, x[0] * x[1]), x[1]])

    x = np.array([2.0, 1.3])
    first = [0.5 / np.sqrt(2.0), 0.0] if most > 2 else [1.3, 2.0]
    for found in jacobians(trace(guarded, {"x": (2,)}), x):
        assert_close(found, [first, [0.0, 1.0]])
