"""Columns that pivots leave free, against a pivoted QR factorization of SciPy."""

import numpy as np
import pytest
from scipy.linalg import qr

from tests.native.lanes import LANES, run_lanes, run_one
from tiburon.trace import interpret
from tiburon.trace.array import as_traced
from tiburon.trace.derivative import forward_derivative
from tiburon.trace.primitives.free_columns import FreeColumns, free_columns
from tiburon.trace.program import Input, trace

SHAPES = [(1, 3, 1), (4, 6, 3), (5, 5, 2), (18, 24, 18), (2, 3, 0)]


def program_of(rows, columns, rank):
    def selected(matrix):
        found, ratio = free_columns(matrix, rank)
        return as_traced([*(x for row in found for x in row), ratio])

    return trace(selected, [Input("matrix", (rows, columns))])


def matrices(rows, columns, rank):
    """Random ones of the given rank, one of them with a column of zeros."""
    rng = np.random.default_rng(5)
    A = rng.standard_normal((9, rows, rank)) @ rng.standard_normal((9, rank, columns))
    A[1, :, 0] = 0.0
    return A


@pytest.mark.parametrize(("rows", "columns", "rank"), SHAPES)
def test_pivots_are_those_of_a_pivoted_factorization(rows, columns, rank):
    """Rows are unit vectors, in the order of columns; the ratio is that of the triangle."""
    for A in matrices(rows, columns, rank):
        found, ratio = free_columns(A, rank)
        _, R, order = qr(A, pivoting=True)
        free = sorted(order[rank:])
        np.testing.assert_array_equal(np.reshape(found, (-1, columns)), np.eye(columns)[free])
        expected = abs(R[rank - 1, rank - 1] / R[0, 0]) if rank else 1.0
        assert ratio == pytest.approx(expected, rel=1e-9)


def test_a_matrix_of_lower_rank_has_a_ratio_of_rounding():
    assert free_columns(np.ones((3, 4)), 2)[1] < 1e-15
    assert free_columns(np.zeros((3, 4)), 2)[1] == 0.0


@pytest.mark.parametrize(("rows", "columns", "rank"), SHAPES[:4])
def test_lanes_have_the_bits_of_one_case(rows, columns, rank):
    program, A = program_of(rows, columns, rank), matrices(rows, columns, rank)
    x = A.reshape(len(A), -1)
    one = run_one(program, x)
    for lanes in LANES:
        np.testing.assert_array_equal(run_lanes(program, x, lanes), one)
    interpreted = [interpret(program, {"matrix": matrix}) for matrix in A]
    np.testing.assert_array_equal(np.array(interpreted)[:, :-1], one[:, :-1])


def test_the_selection_is_constant_in_derivatives():
    program = forward_derivative(program_of(3, 5, 2))
    matrix = matrices(3, 5, 2)[0]
    tangent = interpret(program, [matrix, np.ones_like(matrix)])
    assert not np.any(tangent)


def test_operations_of_one_pivot_are_counted():
    """A pivot of a row of two: lengths, the direction, its part in both columns, and the rest."""
    count = FreeColumns(1, 2, 1).count()
    assert count.divisions == 2
    assert count.square_roots == 1
