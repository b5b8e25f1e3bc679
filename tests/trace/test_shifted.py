"""Shifted systems with eliminated unknowns: against dense solutions, and differentiated."""

import numpy as np
import pytest

from tests.native.lanes import assert_same_bits
from tests.tolerances import ALGEBRA, DIFFERENCE, DIFFERENCE_STEP, assert_close
from tiburon.trace import interpret, jacobian, trace
from tiburon.trace.primitives.shifted import ShiftedMatrix, ShiftedRight
from tiburon.trace.program import Input

KEPT, GONE = 3, 2
LINKS = [(0, 0), (2, 0), (1, 1)]
MATRIX, RIGHT = ShiftedMatrix(KEPT, GONE, LINKS), ShiftedRight(KEPT, GONE)


def numbers(primitive, seed):
    """Return a shift and entries of order one."""
    found = np.random.default_rng(seed).standard_normal(primitive.argument_count)
    found[0] = 0.4
    return found


def program(primitive):
    inputs = [Input("x", (primitive.argument_count,))]
    return trace(lambda x: primitive.apply(x.tolist()), inputs)


def test_the_kept_unknowns_are_those_of_the_whole_system():
    """(1/s - J) u = r, solved with and without elimination."""
    given, right = numbers(MATRIX, 1), np.random.default_rng(2).standard_normal(KEPT + GONE)
    s, inner = given[0], given[1:10].reshape(3, 3).T
    outer, slopes = given[10:16].reshape(2, 3).T, given[16:]
    J = np.zeros((5, 5))
    J[:3, :3], J[:3, 3:] = inner, outer
    for (j, e), slope in zip(LINKS, slopes, strict=True):
        J[3 + e, j] = slope
    whole = np.linalg.solve(np.eye(5) / s - J, right)
    found = np.array(MATRIX.apply(given.tolist()))
    matrix, rows, columns = found[:9].reshape(3, 3), found[9:12], found[12:]
    reduced = RIGHT.apply([s, *rows, *outer.T.reshape(-1), *right])
    assert_close(columns * np.linalg.solve(matrix, reduced), whole[:3], ALGEBRA)


@pytest.mark.parametrize("primitive", [MATRIX, RIGHT], ids=["matrix", "right"])
def test_all_lanes_give_the_same_bits(primitive):
    rows = np.array([numbers(primitive, seed) for seed in range(9)])
    assert_same_bits(program(primitive), rows)


@pytest.mark.parametrize("primitive", [MATRIX, RIGHT], ids=["matrix", "right"])
def test_derivatives_are_differences(primitive):
    """Forward and reverse mode; scales follow the largest element."""
    x = numbers(primitive, 3)
    steps = DIFFERENCE_STEP * np.eye(len(x))

    def value(x):
        return np.array(primitive.apply(x.tolist()))

    expected = np.stack(
        [(value(x + d) - value(x - d)) / (2.0 * DIFFERENCE_STEP) for d in steps], axis=-1
    )
    for mode in ("forward", "reverse"):
        found = interpret(jacobian(program(primitive), mode=mode), [x])
        assert_close(found, expected, DIFFERENCE, np.abs(expected).max())
