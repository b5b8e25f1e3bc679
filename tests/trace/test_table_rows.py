"""Tables beside the code: found, read and joined by lines in all ways of running."""

import gc

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import assert_close
from tiburon.algorithms.tape_calls import scalars
from tiburon.native.c_source import program_c_source
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.trace import interpret, jacobian, trace
from tiburon.trace.primitives.primitive import read_outside
from tiburon.trace.primitives.table_rows import Table, read_rows
from tiburon.trace.program import Input

RANDOM = np.random.default_rng()


def uneven(count, width=3):
    places = np.cumsum(RANDOM.uniform(0.1, 2.0, count)) - 3.0
    return Table(places, RANDOM.standard_normal((count, width)))


def program_of(table, *, line):
    def look(handle, x):
        return read_rows(table.form, scalars(handle), x, line=line)

    return trace(look, [Input("handle", (3,), parameter=True), Input("x", ())], name="look")


def asked(table):
    """Places before, on, right before, between and after rows."""
    places = table.places
    inside = RANDOM.uniform(places[0] - 1.0, places[-1] + 1.0, 60)
    return np.concatenate([inside, places[:20], np.nextafter(places[:20], -1e9), places[-3:]])


def expected(table, x, *, line):
    if line:
        return np.stack([np.interp(x, table.places, row) for row in table.rows.T], axis=-1)
    place = np.searchsorted(table.places, x, side="right") - 1
    return table.rows[np.maximum(place, 0)]


@pytest.mark.parametrize("count", [1, 2, 31, 255, 256, 70_000])
@pytest.mark.parametrize("line", [True, False])
def test_rows_are_found_and_joined(count, line):
    """Against NumPy's own search, on floats and in the interpreter."""
    table = uneven(count)
    x = asked(table)
    want = expected(table, x, line=line)
    assert_close([read_rows(table.form, table.handle, one, line=line) for one in x], want)
    found = interpret(program_of(table, line=line), [np.array(table.handle), x])
    assert_close(np.stack(found, axis=-1) if isinstance(found, (list, tuple)) else found, want)


def test_native_code_reads_any_table_of_a_form():
    """One kernel, several tables, single and in lanes, each case its own."""
    tables = [uneven(n) for n in (300, 5000, 60_000)]
    kernel = make_kernel(
        ProgramSource(program_of(tables[0], line=True)), {"handle": tables[0].handle}
    )
    for table in tables:
        x = asked(table)
        bound = kernel.__self__.with_parameters(handle=table.handle)
        together = np.asarray(bound(x))
        assert_close(together, expected(table, x, line=True))
        alone = np.array([bound(one) for one in x])
        assert np.array_equal(alone, together)
    which = RANDOM.integers(0, 3, 50)
    handles = np.array([tables[k].handle for k in which])
    x = RANDOM.uniform(-5.0, 300.0, 50)
    mixed = np.asarray(kernel(x, handle=handles))
    want = [expected(tables[k], one, line=True) for k, one in zip(which, x, strict=True)]
    assert_close(mixed, np.array(want))


def test_the_derivative_is_the_slope_of_the_line():
    """Zero beyond both ends."""
    table = uneven(40, 1)
    program = jacobian(program_of(table, line=True), by=("x",))
    middle = 0.5 * (table.places[1:] + table.places[:-1])
    x = np.array([table.places[0] - 1.0, *middle, table.places[-1] + 1.0])
    slope = np.diff(table.rows[:, 0]) / np.diff(table.places)
    found = np.ravel(np.asarray(interpret(program, [np.array(table.handle), x])))
    assert_close(found, [0.0, *slope, 0.0])


def test_c_code_reads_tables_too():
    """The address is what C calls a pointer."""
    text = program_c_source(program_of(uneven(5), line=True), name="look")
    assert "(const double *)(uintptr_t)" in text


def test_anything_but_a_table_is_refused():
    """Messages say what is wrong; equal tables are equal, others are not."""
    with pytest.raises(tb.DomainError, match="rising places, got 1 after 2"):
        Table([0.0, 2.0, 1.0], [1.0, 2.0, 3.0])
    with pytest.raises(tb.ShapeError, match="one per place"):
        Table([0.0, 1.0], [[1.0, 2.0]])
    with pytest.raises(tb.NonFiniteError, match=r"rows of a table: .* got nan at index \(1, 0\)"):
        Table([0.0, 1.0], [1.0, float("nan")])
    assert Table([0.0, 1.0], [1.0, 2.0]) == Table([0.0, 1.0], [1.0, 2.0])
    assert Table([0.0, 1.0], [1.0, 2.0]) != Table([0.0, 1.0], [1.0, 2.5])


@pytest.mark.parametrize("count", [0, 2])
def test_only_the_handle_of_one_table_is_read(count):
    """Neither an element that lists no table, nor one that hands over two, reads any memory."""
    table = Table([0.0, 1.0], [1.0, 2.0])
    with pytest.raises(tb.ShapeError, match="handle of a table: expected 3 numbers"):
        read_rows(table.form, table.handle * count, 0.5, line=True)


def test_freed_table_is_not_read():
    """On floats its address is no longer known."""
    table = uneven(5)
    handle = table.handle
    assert read_outside(handle[0], 2.0) == table.places[2]
    del table
    gc.collect()
    with pytest.raises(tb.DomainError, match="the address of a living array"):
        read_outside(handle[0], 2.0)
