"""Singular values of small matrices, against LAPACK's decomposition."""

import numpy as np
import pytest

from tests.tolerances import assert_close
from tiburon.errors import TraceError
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.trace import interpret
from tiburon.trace.derivative import forward_derivative, reverse_derivative
from tiburon.trace.primitives.singular import singular_values
from tiburon.trace.program import Input, trace

SHAPES = [(1, 1), (1, 4), (2, 2), (5, 3), (6, 9), (18, 24)]


def program_of(rows, columns):
    return trace(singular_values, [Input("matrix", (rows, columns))])


def matrices(rows, columns):
    """Random ones, and those in which reflections or sweeps have nothing to do."""
    A = np.random.default_rng(3).standard_normal((64, rows, columns))
    A[0] = 0.0
    A[1] = np.eye(rows, columns)
    A[2] = 1.0
    A[3] = np.eye(rows, columns) * np.arange(1, columns + 1)
    A[4, -1] = 0.0
    A[5, :, 0] = 0.0
    A[6] = A[7, :1]
    # a bidiagonal matrix: its Gram matrix is tridiagonal, and decouples in the middle
    A[8] = np.eye(rows, columns) + 0.5 * np.eye(rows, columns, 1)
    A[8, rows // 2] = 0.0
    A[9] *= 1e6
    A[10] *= 1e-6
    return A


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_squares_of_the_values_are_those_of_the_decomposition(rows, columns):
    """Errors of eigenvalues are some roundings of the largest, whatever the matrix."""
    A = matrices(rows, columns)
    kernel = make_kernel(ProgramSource(program_of(rows, columns)))
    found = np.sort(kernel(A), axis=1)[:, ::-1]
    true = np.linalg.svd(A, compute_uv=False)
    scale = np.where(true[:, :1] > 0.0, true[:, :1], 1.0)
    # round-off of rows + columns sums and rotations, in both decompositions
    bound = np.finfo(float).eps * (rows + columns) * 4
    assert np.abs((found / scale) ** 2 - (true / scale) ** 2).max() <= bound
    assert np.array_equal(np.sort(kernel(A[20]))[::-1], found[20])


def test_interpreted_values_are_those_of_machine_code():
    """Fused operations change roundings alone."""
    program = program_of(4, 3)
    for case in matrices(4, 3)[7:16]:
        native = make_kernel(ProgramSource(program))(case)
        assert_close(interpret(program, {"matrix": case}) ** 2, native**2, 1e-13)
        # plain floats
        assert_close(np.array(singular_values(case), dtype=float) ** 2, native**2, 1e-13)


@pytest.mark.parametrize("derive", [forward_derivative, reverse_derivative])
def test_derivatives_are_refused(derive):
    """Equal values have none."""
    with pytest.raises(TraceError, match="no derivatives"):
        derive(program_of(3, 3))
