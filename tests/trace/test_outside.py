"""Functions outside of kernels, and triangular factors."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.algorithms.tape_calls import scalars
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.trace import Input, trace
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.outside import pass_outside
from tiburon.trace.primitives.primitive import OutsideFunction
from tiburon.trace.primitives.triangle import (
    Triangularize,
    _products,
    triangle_size,
    triangular_factor,
)


def passing(number=7):
    """Return a kernel of a handle and three values, which it hands out and doubles."""

    def call(handle, x):
        return 2.0 * as_traced(pass_outside(handle, number, list(scalars(x))))

    return make_kernel(
        ProgramSource(trace(call, [Input("handle", ()), Input("x", (3,))], name="f"))
    )


def test_function_outside_changes_values_in_place():
    seen = []

    def negate(number, values):
        seen.append((number, values.copy()))
        values *= -1.0

    outside = OutsideFunction(negate)
    x = np.array([1.0, 2.0, -3.0])
    kernel = passing()
    assert np.array_equal(kernel(outside.handle, x), -2.0 * x)
    assert np.array_equal(kernel(0.0, x), 2.0 * x)
    assert len(seen) == 1
    assert seen[0][0] == 7
    assert np.array_equal(seen[0][1], x)
    # on floats, without a kernel
    assert pass_outside(outside.handle, 7, [1.0, 2.0]) == [-1.0, -2.0]


def test_address_of_a_function_that_is_gone():
    outside = OutsideFunction(lambda number, values: None)
    handle = outside.handle
    del outside
    with pytest.raises(tb.DomainError, match="living function"):
        pass_outside(handle, 0, [1.0])


def test_batches_are_refused():
    with pytest.raises(tb.CompileError, match="one case at a time"):
        passing()(np.zeros(9), np.ones((9, 3)))


@pytest.mark.parametrize("shape", [(1, 1), (6, 6), (4, 9), (24, 18), (60, 7)])
def test_triangular_factor_has_the_products_of_the_matrix(shape):
    rows, columns = shape

    def call(a):
        return as_traced(Triangularize(rows, columns).apply(list(scalars(a))))

    kernel = make_kernel(ProgramSource(trace(call, [Input("a", shape)], name="t")))
    a = np.random.default_rng(1).standard_normal(shape)
    # columns that depend on others, and columns of zeros
    a[:, -1] = a[:, 0] if columns > 1 else a[:, -1]
    a[:, columns // 2] *= 0.0 if columns > 2 else 1.0
    found = kernel(a)
    assert found.size == triangle_size(rows, columns)
    R, start = np.zeros((min(shape), columns)), 0
    for i in range(min(shape)):
        R[i, i:] = found[start : start + columns - i]
        start += columns - i
    # sums of some tens of products
    assert np.abs(R.T @ R - a.T @ a).max() < 1e-14 * rows * np.abs(a.T @ a).max()


def _stacked(rng, shape):
    """Return a matrix of two stacked triangles and its places that are no structural zeros."""
    rows, columns = shape
    used = np.array([[j >= i % 6 for j in range(columns)] for i in range(rows)])
    return np.where(used, rng.standard_normal(shape), 0.0), used


@pytest.mark.parametrize("shape", [(1, 1), (6, 6), (12, 12), (12, 6), (9, 14), (7, 3)])
@pytest.mark.parametrize("empty", [None, 0, 2])
def test_triangular_factor_leaves_out_zeros(shape, empty):
    a, used = _stacked(np.random.default_rng(sum(shape)), shape)
    if empty is not None and empty < shape[1]:
        a[:, empty], used[:, empty] = 0.0, False

    def call(given):
        rows = [
            [given[i, j] if used[i, j] else 0.0 for j in range(shape[1])] for i in range(shape[0])
        ]
        return as_traced([x for row in triangular_factor(rows) for x in row])

    kernel = make_kernel(ProgramSource(trace(call, [Input("a", shape)], name="t")))
    R = np.zeros((min(shape), shape[1]))
    R[np.triu_indices(min(shape), m=shape[1])] = kernel(a)
    assert np.abs(R.T @ R - a.T @ a).max() < 1e-14 * shape[0] * max(np.abs(a.T @ a).max(), 1.0)


def test_stacked_triangles_take_a_fraction_of_the_products():
    _, used = _stacked(np.random.default_rng(0), (12, 12))
    sparse = _products([set(np.flatnonzero(row)) for row in used], 12)
    full = _products([set(range(12)) for _ in range(12)], 12)
    assert sparse < 0.6 * full
