"""Where kernels write to: any float array of the right shape, wherever it lies."""

import numpy as np
import pytest

from tests.native.programs import SCALE_NUMBERS, bits, cases, compiled, kernel, scale_kernel
from tiburon.errors import ShapeError
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.trace import Input, trace


@pytest.fixture(scope="module")
def scale():
    return scale_kernel()


@pytest.fixture(scope="module")
def numbers():
    return SCALE_NUMBERS


def test_out_is_filled_and_returned(scale, numbers):
    """One case and a batch."""
    A, b, c = numbers
    for rows in (b, np.stack([b] * 5), np.ones((2, 3, 3))):
        out = np.empty(rows.shape)
        assert scale(A, rows, c, out=out) is out
        assert bits(out) == bits(scale(A, rows, c))


@pytest.mark.parametrize("lead", [(), (7,)], ids=str)
def test_out_may_have_any_layout(scale, numbers, lead):
    """Strided, reversed, Fortran order, unaligned, float32: written as requested, nowhere else."""
    A, b, c = numbers
    rows = np.broadcast_to(b, (*lead, 3))
    wanted = scale(A, rows, c)
    room = np.full((*lead, 9), 55.0)
    assert scale(A, rows, c, out=room[..., 1:7:2]).base is room
    assert bits(room[..., 1:7:2]) == bits(wanted)
    assert (room[..., [0, 2, 4, 6, 7, 8]] == 55.0).all()
    reverse = np.empty((*lead, 3))[..., ::-1]
    assert bits(scale(A, rows, c, out=reverse)) == bits(wanted)
    fortran = np.empty((*lead, 3), order="F")
    assert bits(scale(A, rows, c, out=fortran)) == bits(wanted)
    unaligned = np.zeros(1 + 8 * wanted.size, dtype=np.uint8)[1:].view(float).reshape(wanted.shape)
    assert not unaligned.flags.aligned
    assert bits(scale(A, rows, c, out=unaligned).copy()) == bits(wanted)
    single = np.empty((*lead, 3), dtype=np.float32)
    assert np.array_equal(scale(A, rows, c, out=single), wanted.astype(np.float32))


@pytest.mark.parametrize("lead", [(), (6,)], ids=str)
def test_out_may_overlap_an_input(lead):
    """The result is what it would be in an array of its own."""
    mix = compiled(
        lambda x, y: np.array([x[1] + y[2], x[2] - y[0], x[0] * y[1]], like=x),
        {"x": (3,), "y": (3,)},
    )
    generator = np.random.default_rng(17)
    for offset in (0, 1, 3):
        memory = generator.normal(size=(*lead, 8))
        x, y, out = memory[..., 0:3], memory[..., 4:7], memory[..., offset : offset + 3]
        wanted = mix(x.copy(), y.copy())
        assert mix(x, y, out=out) is out
        assert bits(out) == bits(wanted)
    together = generator.normal(size=(*lead, 3))
    wanted = mix(together.copy(), together.copy())
    assert bits(mix(together, together, out=together)) == bits(wanted)


def test_out_that_is_a_shifted_batch_of_the_input():
    """Row k of the result lies where row k + 1 of the input was."""
    double = compiled(lambda x: 2.0 * x, {"x": (3,)})
    memory = np.arange(60.0).reshape(20, 3)
    wanted = 2.0 * memory[:-1]
    double(memory[:-1], out=memory[1:])
    assert np.array_equal(memory[1:], wanted)


def test_out_that_overlaps_a_parameter():
    """Parameters given for a call are inputs like any other."""
    program = trace(lambda x, m: x * m[::-1], [Input("x", (2,)), Input("m", (2,), parameter=True)])
    product = make_kernel(ProgramSource(program), {"m": [1.0, 2.0]})
    m = np.array([5.0, 7.0])
    assert product([1.0, 10.0], m=m, out=m).tolist() == [7.0, 50.0]


def test_several_results_in_out():
    """One array each, in order."""
    x, y = cases(6)
    chain = kernel("pendulums")
    wanted = chain(x, y)
    out = (np.empty((6, 4)), np.empty(6))
    assert chain(x, y, out=out) is out
    assert bits(out) == bits(wanted)


@pytest.mark.parametrize("lead", [(), (5,), (2, 3)])
def test_results_that_would_overlap_are_refused(lead):
    """The second would spoil the first; nothing is written."""
    pair = compiled(lambda a: (a + 1.0, a * 2.0), {"a": (2,)})
    a, room = np.ones((*lead, 2)), np.full((*lead, 5), -1.0)
    for out in ((room[..., :2], room[..., :2]), [room[..., 1:3], room[..., 2:4]]):
        with pytest.raises(ShapeError) as caught:
            pair(a, out=out)
        assert str(caught.value) == (
            "out: expected arrays that do not overlap, since each takes a result of its own, got "
            "out[0] and out[1] in the same memory; pass one array per result"
        )
    assert (room == -1.0).all()


@pytest.mark.parametrize("lead", [(), (5,), (2, 3)])
def test_results_side_by_side_and_interleaved_do_not_overlap(lead):
    """Columns of one array, each for a result of its own."""
    pair = compiled(lambda a: (a + 1.0, a * 2.0), {"a": (2,)})
    a, room = np.arange(2.0 * np.prod(lead, dtype=int)).reshape(*lead, 2), np.empty((*lead, 4))
    for out in ((room[..., :2], room[..., 2:]), (room[..., ::2], room[..., 1::2])):
        assert pair(a, out=out) is out
        assert out[0].tolist() == (a + 1.0).tolist()
        assert out[1].tolist() == (a * 2.0).tolist()


def test_an_array_whose_elements_share_memory_is_refused():
    """Rows of a window that overlap would spoil each other."""
    double = compiled(lambda x: 2.0 * x, {"x": (3,)})
    memory = np.zeros(8)
    windows = np.lib.stride_tricks.as_strided(memory, (4, 3), (8, 8))
    repeated = np.lib.stride_tricks.as_strided(memory, (4, 3), (0, 8))
    for out in (windows, repeated):
        with pytest.raises(ShapeError, match=r"^out: expected an array with a place of its own"):
            double(np.ones((4, 3)), out=out)
    assert (memory == 0.0).all()
    # gaps and negative steps are no overlap
    sparse = np.zeros((4, 9))[::-1, ::3]
    assert double(np.ones((4, 3)), out=sparse) is sparse


def test_out_for_a_number():
    """An array without dimensions takes it."""
    total = compiled(lambda a: a.sum(), {"a": (3,)})
    out = np.empty(())
    assert total([1.0, 2.0, 3.0], out=out) is out
    assert out == 6.0
    assert total(np.ones((4, 3)), out=np.empty(4)).tolist() == [3.0] * 4


READ_ONLY = np.zeros(3)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.zeros(4), "out: expected an array of shape (3,), got shape (4,) of type float64"),
        (
            np.zeros((1, 3)),
            "out: expected an array of shape (3,), got shape (1, 3) of type float64",
        ),
        ([0.0, 0.0, 0.0], "out: expected an array of shape (3,), got list of 3"),
        (
            np.zeros(3, int),
            "out: expected an array of floats, got shape (3,) of type int64",
        ),
        (READ_ONLY, "out: expected an array that can be written, got a read-only one"),
        (
            np.zeros(3, complex),
            "out: expected an array of floats, got shape (3,) of type complex128",
        ),
    ],
)
def test_out_that_cannot_be_used_is_refused(scale, numbers, out, message):
    """Before anything is computed."""
    with pytest.raises(ShapeError) as caught:
        scale(*numbers, out=out)
    assert str(caught.value) == message


def test_wrong_number_of_out_arrays_is_refused():
    """A kernel with two results wants two arrays."""
    x, y = cases(1)
    with pytest.raises(ShapeError, match=r"^out: expected a tuple of 2 arrays, got tuple of 1$"):
        kernel("pendulums")(x[0], y[0], out=(np.zeros(4),))
    with pytest.raises(ShapeError, match=r"^out: expected a tuple of 2 arrays, got shape \(4,\)"):
        kernel("pendulums")(x[0], y[0], out=np.zeros(4))
