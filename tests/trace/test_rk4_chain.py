"""The chain rule over Runge-Kutta stages: against dense matrices, in lanes, and differentiated."""

import numpy as np

from tests.native.lanes import assert_same_bits
from tests.tolerances import ALGEBRA, DIFFERENCE, DIFFERENCE_STEP, assert_close
from tiburon.trace.derivative import forward_derivative
from tiburon.trace.interpret import interpret
from tiburon.trace.primitives.rk4_chain import BLOCKS, Rk4Chain
from tiburon.trace.program import Input, trace

SIZE, JOINTS = 5, [(1, 3)]
CHAIN = Rk4Chain(SIZE, JOINTS)


def numbers(seed):
    given = np.random.default_rng(seed).standard_normal(CHAIN.argument_count)
    given[0] = 0.3
    return given


def dense(given):
    """The same with whole matrices, block diagonal where joints have blocks of their own."""
    n, h = SIZE, given[0]
    stages = given[1 : 1 + 12 * n * n].reshape(4, 3, n, n)
    own = dict(zip(BLOCKS, given[1 + 12 * n * n :].reshape(len(BLOCKS), 3, 3), strict=True))

    def whole(name, factor):
        matrix = factor * np.eye(n)
        matrix[1:4, 1:4] = own[name]
        return matrix

    dq1, dv1, dtau = np.eye(3 * n).reshape(3, n, 3 * n)
    dq, dv = dq1, dv1
    end_q, end_v = whole("M5", 1.0) @ dq1, dv1
    for k, factor in enumerate((h / 2, h / 2, h, None)):
        A, B, T = stages[k]
        da = A @ dq + B @ dv + T @ dtau
        weight = h / 6 * (1, 2, 2, 1)[k]
        end_v = end_v + weight * da
        end_q = end_q + whole(f"C5{k + 1}", weight) @ dv
        if factor is not None:
            dq = whole(f"M{k + 2}", 1.0) @ dq1 + whole(f"C{k + 2}{k + 1}", factor) @ dv
            dq = dq + whole(f"D{k + 2}", 0.0) @ dv1
            dv = dv1 + factor * da
    return np.concatenate([end_q, end_v]).reshape(-1)


def program():
    inputs = [Input("x", (CHAIN.argument_count,))]
    return trace(lambda x: CHAIN.apply(x.tolist()), inputs)


def test_chain_is_that_of_dense_matrices():
    for seed in range(3):
        assert_close(np.array(CHAIN.apply(numbers(seed).tolist())), dense(numbers(seed)), ALGEBRA)


def test_all_lanes_give_the_same_bits():
    rows = np.array([numbers(seed) for seed in range(9)])
    found = assert_same_bits(program(), rows)
    assert_close(found[0], dense(rows[0]), ALGEBRA)


def test_tangent_is_the_central_difference():
    x, along = numbers(4), numbers(5)
    found = np.asarray(interpret(forward_derivative(program()), [x, along]))
    h = DIFFERENCE_STEP
    expected = (dense(x + h * along) - dense(x - h * along)) / (2.0 * h)
    assert_close(found, expected, DIFFERENCE, np.abs(expected).max())
