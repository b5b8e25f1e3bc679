"""Patches of grids beside the code: read by index in all ways of running, borders continued."""

import numpy as np

from tests.tolerances import assert_close
from tiburon.native.c_source import program_c_source
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.trace import Input, interpret, jacobian, trace
from tiburon.trace.primitives.grid_patch import read_patch
from tiburon.trace.primitives.primitive import address_of

SIDE = 3


def program():
    def look(handle, place):
        return [x for row in read_patch(SIDE, list(handle), place[0], place[1]) for x in row]

    return trace(look, [Input("handle", (3,)), Input("place", (2,))], name="look")


def patch(grid, i, j):
    rows = np.clip(np.arange(i, i + SIDE), 0, grid.shape[0] - 1)
    columns = np.clip(np.arange(j, j + SIDE), 0, grid.shape[1] - 1)
    return grid[np.ix_(rows, columns)].ravel()


def test_patches_are_read_on_floats_in_the_interpreter_and_in_native_code():
    """Inside, over the border and far beyond it; each case its own grid; batch = single bits."""
    rng = np.random.default_rng(1)
    grids = [rng.standard_normal(shape) for shape in ((7, 9), (2, 2), (30, 4))]
    handles = np.array([[address_of(grid), *map(float, grid.shape)] for grid in grids])
    which = rng.integers(0, 3, 40)
    places = rng.integers(-6, 35, (40, 2)).astype(float)
    places[:2] = [[-1e6, 1e6], [1e9, 0.0]]
    expected = np.array(
        [patch(grids[k], int(i), int(j)) for k, (i, j) in zip(which, places, strict=True)]
    )
    look = program()
    run = make_kernel(ProgramSource(look))
    together = np.asarray(run(handles[which], places))
    assert np.array_equal(together, expected)
    for k in range(40):
        args = (handles[which[k]], places[k])
        assert np.array_equal(run(*args), expected[k])
        assert np.array_equal(interpret(look, list(args)), expected[k])
        rows = read_patch(SIDE, tuple(args[0]), *args[1])
        assert np.array_equal(np.ravel(rows), expected[k])


def test_elements_are_constant_in_derivatives_and_c_code_exists():
    """Zero Jacobian; the primitive is written in C, too."""
    grid = np.random.default_rng(2).standard_normal((4, 4))
    handle = np.array([address_of(grid), 4.0, 4.0])
    found = interpret(jacobian(program(), by="place"), [handle, np.array([1.0, 1.0])])
    assert_close(np.asarray(found, dtype=float), np.zeros(np.shape(found)))
    assert "grid_patch" in program_c_source(program(), name="look")
