"""Rows that are active, in slots: against NumPy, in all lanes, and their derivatives."""

import itertools

import numpy as np
import pytest

from tests.native.lanes import assert_same_bits
from tests.tolerances import assert_close
from tiburon.errors import TraceError
from tiburon.trace import interpret
from tiburon.trace.array import as_traced
from tiburon.trace.derivative import jacobian
from tiburon.trace.primitives.active_rows import (
    ROW,
    SLOT,
    RowTable,
    active_rows,
    each_active,
    picked_rows,
    spread_rows,
)
from tiburon.trace.program import Input, trace

ROWS, SLOTS, WIDTH = 7, 4, 3


def body(shared, own, other, slot):
    """Use everything that a function of a slot may use."""
    a, b = shared
    size = np.sqrt(np.abs(own[1]) + 2.0)
    x = own[1] * other[0] - a / size + slot[0]
    y = np.where(x > other[1], np.minimum(x, b), np.maximum(own[2], -x))
    return [[x, y * x], [size * b]]


def chosen(keys, table, shared, slot):
    """Choose rows, evaluate them with rows of a second table, and write them back."""
    places, count, total = active_rows(keys, 1.0, 1e-3, SLOTS)
    other = [1.5, -0.5, -2.0, 0.25]
    rows = [
        (RowTable(ROWS, WIDTH, ROW), table),
        (RowTable(2, 2, 0), other),
        (RowTable(SLOTS, 1, SLOT), slot),
    ]
    pairs, sizes = each_active(places, count, body, shared, rows, [(0.0, 7.0), (0.0,)])
    picked = picked_rows(places, table, WIDTH)
    spread = spread_rows(places, [pairs[2 * k : 2 * k + 2] for k in range(SLOTS)], table[:14])
    flat = [x for row in picked for x in row]
    return [*places, count, total, *pairs, *sizes, *flat, *spread]


def inputs_of(rng):
    keys = rng.normal(size=ROWS) + 1.3
    table = rng.normal(size=(ROWS, WIDTH))
    table[:, 0] = rng.integers(0, 2, ROWS)
    return keys, table.ravel(), rng.normal(size=2) + 2.0, rng.normal(size=SLOTS)


def program():
    def run(x):
        x = list(x)
        ends = np.cumsum([0, ROWS, ROWS * WIDTH, 2, SLOTS])
        return as_traced(chosen(*(x[a:b] for a, b in itertools.pairwise(ends))))

    return trace(run, [Input("x", (ROWS + ROWS * WIDTH + 2 + SLOTS,))])


@pytest.mark.parametrize("seed", range(6))
def test_slots_hold_the_rows_below_the_limit_in_order(seed):
    keys, table, shared, slot = inputs_of(np.random.default_rng(seed))
    found = chosen(list(keys), list(table), list(shared), list(slot))
    limit = 1.0
    while (keys <= limit).sum() > SLOTS and limit > 1e-3:
        limit = max(0.5 * limit, 1e-3)
    expected = list(np.flatnonzero(keys <= limit))[:SLOTS]
    used = len(expected)
    assert found[:SLOTS] == [*expected, *[-1.0] * (SLOTS - used)]
    assert found[SLOTS] == used
    rows = table.reshape(ROWS, WIDTH)
    pairs = np.reshape(found[SLOTS + 2 : SLOTS + 2 + 2 * SLOTS], (SLOTS, 2))
    other = [[1.5, -0.5], [-2.0, 0.25]]
    spread = table[:14].reshape(ROWS, 2).copy()
    for s, k in enumerate(expected):
        (x, y), _ = body(shared, rows[k], other[int(rows[k][0])], slot[s : s + 1])
        assert_close(pairs[s], [x, y])
        spread[k] = x, y
    assert pairs[used:].tolist() == [[0.0, 7.0]] * (SLOTS - used)
    assert_close(np.reshape(found[-14:], (ROWS, 2)), spread)


def test_where_slots_do_not_suffice_the_nearest_rows_have_them():
    keys = [9.0, 0.5, 5.0, float("nan"), 1.0, 3.0]
    assert active_rows(keys, 10.0, 0.1, 3) == ([1.0, 3.0, 4.0], 3.0, 3.0)
    # the least limit leaves too many
    assert active_rows(keys, 10.0, 4.0, 3) == ([1.0, 3.0, 4.0], 3.0, 4.0)


def test_all_lanes_and_the_interpreter_have_the_bits_of_one_case():
    rng = np.random.default_rng(1)
    x = np.array([np.concatenate(inputs_of(rng)) for _ in range(21)])
    # some cases have no rows, and some too many
    x[3, :ROWS], x[5, :ROWS], x[8, 2] = 2.0, -1.0, np.nan
    compiled = program()
    one = assert_same_bits(compiled, x)
    assert_close(interpret(compiled, [x]), one)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("seed", range(3))
def test_derivatives_are_those_of_central_differences(mode, seed):
    x = np.concatenate(inputs_of(np.random.default_rng(seed + 10)))
    compiled = program()
    J = np.reshape(interpret(jacobian(compiled, mode=mode), [x]), (-1, len(x)))
    whole, h = [k for k in range(len(x)) if k >= ROWS], 1e-6
    # the first number of a row is that of a row itself
    whole = [k for k in whole if k >= ROWS + ROWS * WIDTH or (k - ROWS) % WIDTH]
    assert not J[:, :ROWS].any()
    for k in whole:
        step = np.zeros(len(x))
        step[k] = h
        difference = (interpret(compiled, [x + step]) - interpret(compiled, [x - step])) / (2 * h)
        assert_close(J[:, k], difference, 1e-6)


def test_functions_of_a_slot_are_arithmetic():
    with pytest.raises(TraceError, match="'sin' is not arithmetic"):
        each_active([0.0], 1.0, lambda a, b: [[np.sin(b[0])]], [], [(RowTable(1, 1), [2.0])], [[0]])
