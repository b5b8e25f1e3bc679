"""Functions and loops as regions: on floats, traced and interpreted they compute the same."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import ALGEBRA, assert_close
from tiburon.errors import TraceError
from tiburon.trace import (
    count,
    fixed_loop,
    function,
    interpret,
    jacobian,
    trace,
    while_loop,
)

RANDOM = np.random.default_rng(20)


def calls(program):
    """Return the callees of a program's call nodes."""
    graph = program.graph
    return [graph.payloads[n] for n in graph.live(program.roots) if graph.ops[n] == "call"]


def assert_same_on_floats(f, x):
    """The interpreter on a batch equals plain Python on each case."""
    program = trace(f, {"x": x.shape[1:]})
    found = interpret(program, [x])
    for case, result in zip(x, found, strict=True):
        assert_close(result, f(case), ALGEBRA)
    return program


# function


def test_function_is_traced_once_and_called_many_times():
    """A Runge-Kutta step holds its dynamics once."""
    runs = []

    @function
    def rate(y):
        runs.append(1)
        return np.stack([y[1], -np.sin(y[0])])

    def step(y):
        a = rate(y)
        b = rate(y + 0.05 * a)
        c = rate(y + 0.05 * b)
        d = rate(y + 0.1 * c)
        return y + (a + 2.0 * b + 2.0 * c + d) * (0.1 / 6.0)

    program = trace(step, {"y": (2,)})
    assert len(runs) == 1
    assert len(calls(program)) == 4
    assert len({callee.key for callee in calls(program)}) == 1
    assert_same_on_floats(step, RANDOM.normal(size=(5, 2)))


@pytest.mark.parametrize("nested", [False, True])
def test_what_surrounds_sealed_functions_does_not_depend_on_what_they_compute(nested):
    """Which of two products is fused depends on what computes them, but not across a seal."""

    def whole(way, seal):
        def within(a, x):
            # the same number by other operations, in some ways with one more captured value
            bound = 10.0 + way + (x[4] * 0.5 if way % 2 else 0.0)
            return np.minimum(np.maximum(a, -bound), bound)

        def products(x):
            part = function(lambda a: within(a, x), seal=seal)
            return part(x[0]) * x[2] + part(x[1]) * x[3]

        def called(x):
            rate = function(products) if nested else products
            first = rate(x)
            second = rate(np.stack([first, *x[1:]])) if nested else first
            return np.stack([first * x[2] + second * x[3], x[0] * x[1] + second * x[2]])

        return called

    x = np.random.default_rng(2).uniform(0.1, 0.9, (50, 5))
    bits = {
        seal: {
            b"".join(
                found.tobytes() for found in map(tb.compile(whole(k, seal), shapes={"x": 5}), x)
            )
            for k in range(8)
        }
        for seal in (False, True)
    }
    assert len(bits[True]) == 1
    assert len(bits[False]) > 1


def test_copied_functions_have_the_bits_of_calls():
    """Sums outside must not fuse with products inside, nor fold with what is there."""

    def scaled(a, b):
        return a * b, a - b, -a

    def program(inline):
        part = function(scaled, inline=inline)

        def whole(x):
            product, difference, opposite = part(x[0] * x[1], x[2])
            # with what is inside these would be fused products, x[2] + (p - x[2]) = p, and x - p
            return np.stack([product + x[3], x[2] + difference, x[3] + opposite])

        return whole

    x = RANDOM.standard_normal((200, 4))
    called, copied = (tb.compile(program(inline), shapes={"x": 4}) for inline in (False, True))
    np.testing.assert_array_equal(called(x), copied(x))
    assert np.any(
        tb.compile(lambda x: np.stack([x[0] * x[1] * x[2] + x[3]]), shapes={"x": 4})(x)
        != called(x)[:, :1]
    )
    traced = trace(program(True), {"x": (4,)})
    assert not calls(traced)
    assert len(calls(trace(program(False), {"x": (4,)}))) == 1
    # copies cost nothing, and have derivatives
    assert count(traced).multiplications == 2
    slopes = [interpret(jacobian(trace(program(k), {"x": (4,)})), [x]) for k in (False, True)]
    np.testing.assert_allclose(*slopes, rtol=1e-12)


def test_copied_divisions_do_not_share_divisors_with_others():
    """One division stays one in a call; beside another by the same value it would not."""

    def program(inline):
        part = function(lambda a, b: (a / b,), inline=inline)

        def whole(x):
            return np.stack([part(x[0], x[2])[0], x[1] / x[2]])

        return whole

    x = RANDOM.standard_normal((200, 3))
    called, copied = (tb.compile(program(inline), shapes={"x": 3})(x) for inline in (False, True))
    np.testing.assert_array_equal(called[:, 0], copied[:, 0])


def test_function_runs_directly_on_floats():
    """Outside of a trace nothing is recorded: results are plain floats."""

    @function
    def double(x):
        return {"twice": 2.0 * x, "label": "kept"}

    assert double(3.0) == {"twice": 6.0, "label": "kept"}


@dataclass(frozen=True)
class Pair:
    first: Any
    second: Any


def test_function_accepts_and_returns_nested_values():
    """Dataclasses, dicts, tuples and keywords go in and come out with their structure."""

    @function
    def swap(pair, *, scale):
        return Pair(scale * pair.second, pair.first), {"sum": (pair.first + pair.second, None)}

    def f(x):
        pair, rest = swap(Pair(x[:2], x[2:]), scale=x[0])
        assert isinstance(pair, Pair)
        total, nothing = rest["sum"]
        assert nothing is None
        return np.concatenate([pair.first, pair.second, total])

    program = assert_same_on_floats(f, RANDOM.normal(size=(4, 4)))
    assert len(calls(program)) == 1


def test_integers_and_texts_are_fixed_when_a_function_is_traced():
    """Another integer is another trace; another float is not."""
    runs = []

    @function
    def power(x, exponent, scale):
        runs.append(exponent)
        return scale * x**exponent

    def f(x):
        return np.stack([power(x[0], 2, 0.5), power(x[1], 3, 0.5), power(x[0], 2, 0.7)])

    assert_same_on_floats(f, RANDOM.normal(size=(4, 2)))
    trace(f, {"x": (2,)})
    traced = runs[-2:]
    assert sorted(traced) == [2, 3]


def test_zeros_inside_a_record_are_folded():
    """The pattern of a transform must not turn into arguments of a call."""

    @function
    def dot(pair, y):
        return pair.first[0] * y[0] + pair.first[1] * y[1]

    def f(x):
        return dot(Pair((x[0], 0.0), 1.0), x)

    (callee,) = calls(trace(f, {"x": (2,)}))
    # x[0] as part of the record and of the vector; neither the zero nor what it multiplies
    assert callee.argument_count == 2


def test_function_reads_values_around_it_through_several_levels():
    """A value of the outermost trace reaches a function in a loop in a function."""

    def f(x):
        k = x[0] * x[1]

        @function
        def outer(y):
            m = k + y[0]

            def body(i, z):
                @function
                def inner(w):
                    return np.sin(k) * w + m * i

                return inner(z) + y[1]

            return fixed_loop(3, body, y[2])

        return np.stack([outer(x), outer(2.0 * x), k])

    assert_same_on_floats(f, RANDOM.normal(size=(6, 3)))


def test_truth_values_pass_through_functions():
    """A traced truth value goes in, chooses, and comes out as one."""

    @function
    def choose(condition, a, b):
        return np.where(condition, a, b), ~condition

    def f(x):
        chosen, other = choose(x[0] < x[1], x[0], x[1])
        return np.stack([chosen, np.where(other, 1.0, -1.0)])

    program = trace(f, {"x": (2,)})
    x = RANDOM.normal(size=(8, 2))
    expected = np.stack([x.min(axis=1), np.where(x[:, 0] < x[:, 1], -1.0, 1.0)], axis=1)
    np.testing.assert_array_equal(interpret(program, [x]), expected)


def test_calls_leave_out_constants_and_unused_arguments():
    """Constant results, passed arguments and unused arguments do not reach the call."""

    @function
    def many(a, b, c):
        return a * np.sin(a), 3.0, b, np.zeros(2)

    def f(x):
        product, constant, same, zeros = many(x[0], x[1], x[2])
        assert constant == 3.0
        assert not isinstance(zeros, list)
        return np.stack([product, same, zeros[0] + constant])

    program = assert_same_on_floats(f, RANDOM.normal(size=(3, 3)))
    (callee,) = calls(program)
    assert (callee.argument_count, callee.result_count) == (1, 1)


def test_regions_of_constants_fold():
    """What is known while tracing leaves no call behind."""

    def f(x):
        half = function(lambda y: y / 2.0)(3.0)
        root = while_loop(
            lambda y: abs(y * y - 2.0) > 1e-12, lambda y: (y + 2.0 / y) / 2.0, 1.0, 20
        )
        power = fixed_loop(5, lambda i, y: 2.0 * y, 1.0)
        assert root.converged is True
        return x * half + root.state + power

    program = trace(f, {"x": ()})
    assert calls(program) == []
    assert_close(interpret(program, [2.0]), 3.0 + np.sqrt(2.0) + 32.0)


def test_equal_regions_of_two_traces_have_equal_keys():
    """Kernels are cached by structure, so keys must not depend on the trace."""

    def make(scale):
        def f(x):
            junk = np.cos(x[1])
            g = function(lambda y: scale * np.sin(y))
            loop = while_loop(lambda y: y > 1.0, lambda y: scale * y, x[0], 9)
            return g(x[0]) + loop.state + fixed_loop(4, lambda i, y: y * scale + i, junk)

        return trace(f, {"x": (2,)})

    assert make(0.5).key == make(0.5).key
    assert make(0.5).key != make(0.25).key


def test_loops_with_different_limits_have_different_keys():
    """The body alone does not make a loop."""

    def loops(limit):
        loop = lambda x: while_loop(lambda y: y > 1.0, lambda y: y / 2, x, limit).state  # noqa: E731
        repeat = lambda x: fixed_loop(limit, lambda i, y: y / 2, x)  # noqa: E731
        return [trace(f, {"x": ()}).key for f in (loop, repeat)]

    assert not set(loops(5)) & set(loops(6))


def test_values_leave_a_region_only_as_results():
    """A traced value that escapes through a list belongs to a graph that is closed."""
    escaped = []

    @function
    def leak(x):
        escaped.append(np.sin(x))
        return x * x

    with pytest.raises(TraceError, match="region"):
        trace(lambda x: leak(x) + escaped[0], {"x": ()})


# fixed_loop


def test_fixed_loop_counts_from_zero():
    """The sum of i x^i by Horner's rule from above, against the closed sum."""

    def f(x):
        def body(i, state):
            total, power = state
            return total + i * power, power * x

        return np.stack(fixed_loop(7, body, (0.0, 1.0)))

    x = RANDOM.normal(size=9)
    found = interpret(trace(f, {"x": ()}), [x])
    assert_close(found[:, 0], sum(i * x**i for i in range(7)))
    assert_close(found[:, 1], x**7)


def test_fixed_loop_without_repetitions_returns_its_state():
    """Nothing is recorded."""
    program = trace(lambda x: fixed_loop(0, lambda i, y: y + 1.0, x), {"x": (2,)})
    assert calls(program) == []
    np.testing.assert_array_equal(interpret(program, [[1.0, 2.0]]), [1.0, 2.0])


def test_state_in_place_of_another_structure_is_refused():
    """The message names the loop and both structures."""
    with pytest.raises(TraceError, match=r"fixed_loop: .*expected .*array.*got .*number"):
        trace(lambda x: fixed_loop(2, lambda i, y: y[0], x), {"x": (2,)})
    with pytest.raises(TraceError, match="while_loop: "):
        trace(lambda x: while_loop(lambda y: y[0] > 0, lambda y: (y, y), x, 5).state, {"x": (2,)})


def test_text_in_the_state_is_refused():
    """A state is made of numbers."""
    with pytest.raises(TraceError, match="state of a loop holds str"):
        trace(lambda x: fixed_loop(2, lambda i, y: y, (x, "label")), {"x": ()})


def test_body_that_changes_its_state_in_place_works():
    """NumPy code often does; the state of the caller must not change under it."""

    def body(i, y):
        y = y.copy()
        y[0] = y[0] + y[1] * i
        y[1] *= 0.5
        return y

    assert_same_on_floats(lambda x: fixed_loop(4, body, x) + x, RANDOM.normal(size=(4, 2)))


# while_loop


def kepler(x):
    """Solve E - e sin E = M by Newton's method; give E, the iterations, and success."""
    e, M = x[0], x[1]
    result = while_loop(
        lambda E: np.abs(E - e * np.sin(E) - M) > 1e-13,
        lambda E: E - (E - e * np.sin(E) - M) / (1.0 - e * np.cos(E)),
        M,
        50,
    )
    return np.stack([result.state, result.count, np.where(result.converged, 1.0, 0.0)])


def test_cases_of_a_while_loop_stop_independently():
    """Iterations differ between cases, and each result is that of the case alone."""
    x = np.column_stack([RANDOM.uniform(0.0, 0.95, 40), RANDOM.uniform(-3.0, 3.0, 40)])
    found = interpret(trace(kepler, {"x": (2,)}), [x])
    alone = np.array([kepler(case) for case in x])
    np.testing.assert_array_equal(found, alone)
    assert len(set(found[:, 1])) >= 4
    E = found[:, 0]
    # Newton's last step leaves a residual of rounding size, 1e-13 is the loop's own limit
    assert_close(E - x[:, 0] * np.sin(E), x[:, 1], 1e-13)


@pytest.mark.parametrize(
    ("start", "limit", "iterations", "converged"),
    [
        (0.5, 8, 0, True),
        (16.0, 4, 4, True),
        (16.1, 4, 4, False),
        (1e9, 3, 3, False),
        (2.0, 0, 0, False),
    ],
)
def test_while_loop_reports_whether_the_condition_failed_in_time(
    start, limit, iterations, converged
):
    """Halving until at most 1: on floats and interpreted alike, also exactly at the limit."""

    def f(x):
        result = while_loop(lambda y: y > 1.0, lambda y: y / 2.0, x, limit)
        return np.stack([result.state, result.count, np.where(result.converged, 1.0, 0.0)])

    expected = [start / 2.0**iterations, iterations, float(converged)]
    np.testing.assert_array_equal(interpret(trace(f, {"x": ()}), [start]), expected)
    plain = while_loop(lambda y: y > 1.0, lambda y: y / 2.0, start, limit)
    assert (plain.state, plain.count, plain.converged) == (expected[0], iterations, converged)


def test_while_loop_takes_nested_states_and_loops_inside():
    """A dict state, with a fixed loop and a function in the body."""
    damp = function(lambda y, k: y * (1.0 - k))

    def f(x):
        def body(state):
            slowed = fixed_loop(2, lambda i, y: damp(y, 0.1 * (i + 1.0)), state["y"])
            return {"y": slowed, "steps": state["steps"] + 1}

        result = while_loop(
            lambda s: s["y"] @ s["y"] > 0.5, body, {"y": x, "steps": 0}, max_iterations=100
        )
        return np.concatenate([result.state["y"], np.stack([result.state["steps"]])])

    assert_same_on_floats(f, 3.0 * RANDOM.normal(size=(7, 2)))


def test_condition_may_read_values_around_the_loop():
    """Also a truth value made outside."""

    def f(x):
        wanted = x[1] > 0.0
        scaled = x[0] * 2.0
        return while_loop(lambda y: (y < scaled) & wanted, lambda y: y + 0.25, x[2], 100).state

    assert_same_on_floats(f, RANDOM.normal(size=(12, 3)))


# counts


def test_counts_go_through_regions():
    """A function counts at every call, a fixed loop times its repetitions, a while loop once."""
    square_plus = function(lambda a, b: a * a + b)
    one = count(trace(lambda x: square_plus(square_plus(x[0], x[1]), x[0]), {"x": (2,)}))
    assert (one.multiplications, one.additions) == (2, 2)
    loop = count(trace(lambda x: fixed_loop(5, lambda i, y: y * x[1] + x[0], x[0]), {"x": (2,)}))
    assert (loop.multiplications, loop.additions) == (5, 5)
    until = count(
        trace(
            lambda x: while_loop(lambda y: y < 9.0, lambda y: y * x[1], x[0], 5).state, {"x": (2,)}
        )
    )
    assert (until.multiplications, until.selections) == (1, 1)
