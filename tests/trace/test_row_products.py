"""Matrices of scalar products on a pattern: floats, lanes, derivatives, count."""

import numpy as np
import pytest

from tests.native.lanes import assert_same_bits
from tests.tolerances import assert_close
from tests.trace.test_region_derivatives import assert_derivatives
from tiburon.trace import count, jacobian, trace
from tiburon.trace.primitives.primitive import CountingMachine, array_of, numbers_of
from tiburon.trace.primitives.row_products import ZERO, Piece, RowProducts

RANDOM = np.random.default_rng(43)
PRODUCT = 1e-14  # a handful of products of numbers of order 1

# three arrays: vectors of rows, vectors of columns, and shorter ones of either
ROWS, COLUMNS, SHORT = 0, 1, 2
KINDS = [[(ROWS, COLUMNS)], [(COLUMNS, ROWS), (SHORT, ROWS)]]


def pattern(size):
    """Return sizes and pieces of a square matrix with zeros, both kinds, and pieces of length 1."""
    sizes = [(4, size), (4, size), (2, size)]
    pieces = []
    for row in range(size):
        marks = [(row * column + column) % 5 // 2 - 1 for column in range(size)]
        start = 0
        for stop in range(1, size + 1):
            if stop == size or marks[stop] != marks[start]:
                pieces.append(Piece(row, start, stop, marks[start], row * size + start))
                start = stop
    assert {piece.kind for piece in pieces} == {ZERO, 0, 1}
    return sizes, pieces


def products_of(size, inline=False):
    sizes, pieces = pattern(size)
    primitive = RowProducts(sizes, KINDS, pieces)

    def f(x):
        return array_of(primitive.apply(numbers_of(x), inline=inline), (size, size))

    return primitive, f


def expected(size, x):
    """Compute each entry from its definition."""
    a, b, c = (
        x[start : start + n * size].reshape(n, size)
        for start, n in [(0, 4), (4 * size, 4), (8 * size, 2)]
    )
    full = [a.T @ b, b.T @ a + c.T @ a[:2]]
    result = np.zeros((size, size))
    for row, start, stop, kind, _ in pattern(size)[1]:
        if kind != ZERO:
            result[row, start:stop] = full[kind][row, start:stop]
    return result


@pytest.mark.parametrize("size", [4, 19])
def test_entries_are_the_products_of_their_kind(size):
    primitive, f = products_of(size)
    x = RANDOM.uniform(-1.0, 1.0, primitive.argument_count)
    assert_close(f(x), expected(size, x), PRODUCT)


@pytest.mark.parametrize(("size", "inline"), [(4, True), (4, False), (19, False)])
def test_any_number_of_lanes_gives_the_same_bits(size, inline):
    """Spelled out, as a function without loops, and as one with loops that run in vectors."""
    primitive, f = products_of(size, inline)
    assert primitive.is_short is (size == 4)
    x = RANDOM.uniform(-1.0, 1.0, (11, primitive.argument_count))
    found = assert_same_bits(trace(f, {"x": x.shape[1:]}), x)
    for row, numbers in zip(found, x, strict=True):
        assert_close(row.reshape(size, size), expected(size, numbers), PRODUCT)


@pytest.mark.parametrize("inline", [True, False])
def test_derivatives_equal_differences(inline):
    """First and second, by both modes."""
    primitive, f = products_of(3, inline)
    x = RANDOM.uniform(-1.0, 1.0, primitive.argument_count)
    assert_derivatives(f, x)


def test_derivative_by_some_vectors_multiplies_only_those():
    """What does not change costs nothing: one kind loses its entries, the other a pair."""
    size = 4
    sizes, pieces = pattern(size)
    primitive = RowProducts(sizes, KINDS, pieces)
    fixed = RANDOM.uniform(-1.0, 1.0, 8 * size)

    def f(x):
        return array_of(primitive.apply([*fixed, *numbers_of(x)]), (size, size))

    program = jacobian(trace(f, {"x": (2 * size,)}), mode="forward")
    calls = [p for p in program.graph.payloads if isinstance(p, RowProducts) and p != primitive]
    assert calls
    assert all(kind == ((3, ROWS),) for call in calls for kind in call.kinds)


def test_count_is_that_of_the_operations():
    """The formula against the machine that counts them one by one."""
    primitive, f = products_of(19)
    machine = CountingMachine()
    primitive.write(machine, [0.0] * primitive.argument_count, [None] * primitive.result_count)
    assert primitive.count() == machine.count()
    assert count(trace(f, {"x": (primitive.argument_count,)})) == primitive.count()
