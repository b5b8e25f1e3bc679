"""Functions and loops as native code: right, and the same bits in any number of lanes."""

import numpy as np
import pytest

from tests.native.lanes import assert_same_bits, run_lanes
from tests.tolerances import ALGEBRA, DIFFERENCE, assert_close
from tests.trace.test_region_derivatives import CASES as DERIVED
from tests.trace.test_regions import kepler
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.native.llvm_module import module_for_many, module_for_one
from tiburon.trace import fixed_loop, function, interpret, jacobian, trace, while_loop

RANDOM = np.random.default_rng(50)


def check(f, x, *, fused=True):
    """Native code agrees with the interpreter, and with itself to the bit."""
    program = trace(f, {"x": x.shape[1:]})
    found = assert_same_bits(program, x, fused=fused)
    expected = interpret(program, [x]).reshape(len(x), -1)
    assert_close(found, expected, ALGEBRA)
    return found


def nested(x):
    """Functions in loops in functions; values read over several levels; sines in all of them."""
    k = x[0] * np.cos(x[1])

    @function
    def outer(y):
        m = k + y[0]

        def body(i, z):
            @function
            def inner(w):
                return 0.5 * np.sin(w * k) + m * i

            def halve(s):
                return {"v": s["v"] * 0.5 + 0.1 * np.cos(m), "n": s["n"] + 1.0}

            loop = while_loop(lambda s: np.abs(s["v"]) > 1.0, halve, {"v": z, "n": 0.0}, 30)
            return inner(loop.state["v"]) + y[1] + 0.01 * loop.state["n"] + 0.1 * loop.count

        return fixed_loop(3, body, 10.0 * y[2])

    return np.stack([outer(x), outer(2.0 * x), k])


@pytest.mark.parametrize("fused", [True, False])
def test_nested_regions(fused):
    """Captures of several levels, calls in conditions and bodies."""
    check(nested, RANDOM.normal(size=(21, 3)), fused=fused)


def test_lanes_of_a_while_loop_stop_at_different_counts():
    """Neighbors that need more iterations do not change a finished case."""
    x = np.column_stack([RANDOM.uniform(0.0, 0.98, 61), RANDOM.uniform(-3.1, 3.1, 61)])
    found = check(kepler, x)
    assert len(set(found[:8, 1])) > 1
    assert (found[:, 2] == 1.0).all()


def test_order_of_cases_does_not_matter_to_a_while_loop():
    """Each case with other neighbors: the same bits."""
    x = np.column_stack([RANDOM.uniform(0.0, 0.98, 32), RANDOM.uniform(-3.1, 3.1, 32)])
    program = trace(kepler, {"x": (2,)})
    forward = run_lanes(program, x, 8)
    order = RANDOM.permutation(32)
    np.testing.assert_array_equal(run_lanes(program, x[order], 8), forward[order])


def test_limit_of_iterations_is_kept_in_each_lane():
    """Some cases stop by condition, some exactly at the limit, some are cut off."""

    def f(x):
        result = while_loop(lambda y: y > 1.0, lambda y: y / 2.0, x[0], 4)
        return np.stack([result.state, result.count, np.where(result.converged, 1.0, 0.0)])

    x = np.array([[0.5], [16.0], [16.1], [1e9], [3.0], [1.0], [2.0], [40.0], [7.0]])
    found = check(f, x)
    halvings = np.minimum(np.maximum(np.ceil(np.log2(x[:, 0])), 0.0), 4.0)
    np.testing.assert_array_equal(found[:, 1], halvings)
    np.testing.assert_array_equal(found[:, 2], x[:, 0] <= 16.0)


def test_while_loop_with_a_constant_condition():
    """Known to hold, and known to fail, while tracing."""

    def f(x):
        forever = while_loop(lambda y: True, lambda y: y * 0.5 + 1.0, x[0], 5)
        never = while_loop(lambda y: False, lambda y: y * 0.5 + 1.0, x[0], 5)
        return np.stack([forever.state, forever.count, never.state, never.count])

    found = check(f, RANDOM.normal(size=(9, 1)))
    assert (found[:, 1] == 5.0).all()
    assert (found[:, 3] == 0.0).all()


def test_result_of_a_call_in_the_condition_is_used_by_the_body():
    """The body continues with what the condition computed."""
    sides = function(lambda y: (np.sin(y) - 0.3, np.cos(y)))

    def f(x):
        def newton(y):
            value, slope = sides(y)
            return y - value / slope

        return while_loop(lambda y: np.abs(sides(y)[0]) > 1e-13, newton, x[0], 40).state

    found = check(f, RANDOM.uniform(-1.0, 1.0, size=(17, 1)))
    assert_close(np.sin(found), np.full((17, 1), 0.3), 1e-12)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("name", DERIVED)
def test_derivatives_of_regions(name, mode):
    """The derivative graphs compile, agree with the interpreter, and with themselves."""
    f, shape = DERIVED[name]
    program = jacobian(trace(f, {"x": shape}), mode=mode)
    x = RANDOM.uniform(0.2, 0.8, size=(9, *shape))
    found = assert_same_bits(program, x)
    # iterations that end one step apart differ by the square root of what they stop at
    assert_close(found, interpret(program, [x]).reshape(9, -1), DIFFERENCE)


def test_function_is_compiled_once():
    """Six calls, one internal function, in both kinds of modules."""
    g = function(lambda y: np.sin(y) * y + np.exp(-y * y))
    program = trace(lambda x: g(g(g(g(g(g(x)))))), {"x": ()})
    for text in (
        module_for_one(program, vector_lanes=4, fused=True),
        module_for_many(program, lanes=4, fused=True),
    ):
        assert text.count("define internal void @callee") == 1
        assert text.count("call void @callee") == 6


def test_loops_carry_large_states():
    """A long vector that goes through several functions without being looked at."""
    size = 50
    turn = function(lambda y: np.concatenate([y[1:], y[:1] * 0.5]))
    bend = function(lambda y: y * y * 0.25 + 1.0)

    def f(x):
        return turn(bend(bend(turn(x))))

    x = RANDOM.normal(size=(11, size))
    program = trace(f, {"x": (size,)})
    assert "copy" in module_for_one(program, vector_lanes=4, fused=True)
    check(f, x)


def test_kernel_runs_regions_alone_and_in_batches():
    """The way users reach them."""
    kernel = make_kernel(ProgramSource(trace(nested, {"x": (3,)})))
    x = RANDOM.normal(size=(19, 3))
    batch = kernel(x)
    alone = np.stack([kernel(case) for case in x])
    np.testing.assert_array_equal(batch, alone)
    assert_close(batch, np.stack([nested(case) for case in x]))
