"""What kernels accept: any array NumPy can read, any batch; what they refuse, and how."""

import re

import numpy as np
import pytest

from tests.native.programs import (
    PROGRAMS,
    SCALE_NUMBERS,
    bits,
    cases,
    compiled,
    kernel,
    scale_kernel,
    scaled,
)
from tiburon.errors import DomainError, OptionError, ShapeError, TraceError
from tiburon.native.engine import host
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.trace import Input, trace


@pytest.fixture(scope="module")
def scale():
    return scale_kernel()


@pytest.fixture(scope="module")
def numbers():
    return SCALE_NUMBERS


def close(found, wanted):
    # three products and their sum, rounded in another order
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)
    return True


# kinds of arrays


def test_one_case(scale, numbers):
    """Float64 arrays and a number."""
    assert close(scale(*numbers), scaled(*numbers))


@pytest.mark.parametrize(
    "number", [1.75, np.float64(1.75), np.array(1.75), np.float32(1.75), [1.75][0]], ids=repr
)
def test_scalar_arguments_may_have_any_numeric_type(scale, numbers, number):
    """Python's and NumPy's numbers, and an array without dimensions."""
    A, b, c = numbers
    assert bits(scale(A, b, number)) == bits(scale(A, b, np.array(c)))


@pytest.mark.parametrize("number", [2, True, np.int32(2), np.True_], ids=repr)
def test_scalar_arguments_may_be_int_or_bool(scale, numbers, number):
    """Integers and truth values are numbers."""
    A, b, _ = numbers
    assert bits(scale(A, b, number)) == bits(scale(A, b, float(number)))


class Half(float):
    """A kind of float that Python code made up."""


def test_a_subclass_of_float_is_read_by_its_value(scale, numbers):
    """It does not fit the fast path and must not be misread there."""
    A, b, _ = numbers
    assert bits(scale(A, b, Half(0.5))) == bits(scale(A, b, 0.5))


@pytest.mark.parametrize(
    "convert",
    [
        lambda a: a.tolist(),
        lambda a: tuple(map(tuple, a.tolist())),
        np.asfortranarray,
        lambda a: np.ascontiguousarray(a[:, ::-1])[:, ::-1],
        lambda a: a[::-1].copy()[::-1],
        lambda a: np.repeat(np.repeat(a, 2, axis=0), 3, axis=1)[::2, ::3],
        lambda a: a.astype(">f8"),
        lambda a: a.astype(np.longdouble),
        lambda a: np.frombuffer(b"\0" + a.tobytes(), dtype=np.uint8)[1:].view(float).reshape(3, 3),
        lambda a: a.view(np.matrix),
        lambda a: memoryview(a),
    ],
    ids=[
        "list",
        "tuples",
        "fortran",
        "negative columns",
        "negative rows",
        "strided",
        "big endian",
        "long double",
        "unaligned",
        "matrix",
        "buffer",
    ],
)
def test_layout_and_type_of_an_array_do_not_matter(scale, numbers, convert):
    """Same numbers, same bits; one case and a batch."""
    A, b, c = numbers
    wanted = bits(scale(A, b, c))
    assert bits(scale(convert(A), b, c)) == wanted
    rows = np.stack([b, 2.0 * b, b])
    batch = scale(convert(A), rows, c)
    assert bits(batch[0]) == wanted
    assert bits(batch[2]) == wanted


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int64, np.int8, np.uint16, np.bool_])
def test_other_number_types_are_converted(scale, kind):
    """Each number is converted, then everything is float64."""
    generator = np.random.default_rng(5)
    A, b = generator.uniform(0, 9, (4, 3, 3)).astype(kind), generator.uniform(0, 9, 3).astype(kind)
    assert bits(scale(A, b, 2.0)) == bits(scale(A.astype(float), b.astype(float), 2.0))
    assert bits(scale(A[0], b, 2)) == bits(scale(A[0].astype(float), b.astype(float), 2.0))


def test_read_only_inputs_are_read(scale, numbers):
    """Nothing is ever written to an input."""
    A, b, c = (np.array(value) for value in numbers)
    before = [value.copy() for value in (A, b, c)]
    for value in (A, b, c):
        value.flags.writeable = False
    assert close(scale(A, b, c), scaled(*before))
    assert close(scale(A, np.broadcast_to(b, (5, 3)), c), np.tile(scaled(*before), (5, 1)))
    assert all(np.array_equal(a, b) for a, b in zip((A, b, c), before, strict=True))


# batches


LEADS = [(), (1,), (5,), (2, 3), (1, 1), (4, 1), (3, 1, 2), (host().lanes + 1,), (97,)]


@pytest.mark.parametrize("lead", LEADS, ids=str)
def test_any_leading_dimensions(scale, lead):
    """The shape of the batch comes back in front of the result's."""
    generator = np.random.default_rng(11)
    A, b = generator.normal(size=(*lead, 3, 3)), generator.normal(size=(*lead, 3))
    c = generator.normal(size=lead)
    found = scale(A, b, c)
    assert found.shape == (*lead, 3)
    assert close(found, scaled(A, b, c))


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("lead", [(), (1,), (4,), (2, 1), (1, 4), (3, 2, 4)], ids=str)
def test_each_argument_broadcasts(scale, which, lead):
    """As NumPy's operators do."""
    generator = np.random.default_rng(12)
    shapes = [(3, 3), (3,), ()]
    values = [generator.normal(size=(2, 4, *shape)) for shape in shapes]
    values[which] = generator.normal(size=lead + shapes[which])
    found = scale(*values)
    assert found.shape == (*np.broadcast_shapes((2, 4), lead), 3)
    assert close(found, scaled(*values))


@pytest.mark.parametrize("lead", [(0,), (0, 3), (3, 0), (2, 0, 4)], ids=str)
def test_a_batch_without_cases_is_empty(scale, lead):
    """No case is computed, not even with numbers that would fail."""
    found = scale(np.full((3, 3), np.nan), np.zeros((*lead, 3)), 1.0)
    assert found.shape == (*lead, 3)
    result, failed = scale(np.zeros((3, 3)), np.zeros((*lead, 3)), 1.0, errors="flag")
    assert result.shape == (*lead, 3)
    assert failed.shape == lead
    assert failed.dtype == bool


def test_rows_may_have_any_stride(scale):
    """Rows of a wider array, every other row, overlapping rows, reversed rows, columns."""
    generator = np.random.default_rng(13)
    A = generator.normal(size=(3, 3))
    wide = generator.normal(size=(20, 9))
    overlapping = np.lib.stride_tricks.sliding_window_view(np.arange(20.0), 3)
    for rows in (
        wide[:, 2:5],
        wide[::3, :3],
        overlapping,
        wide[::-1, 4:7],
        wide[:, ::4],
        wide[:3].T,
    ):
        assert bits(scale(A, rows, 1.5)) == bits(scale(A, rows.copy(), 1.5))
        assert close(scale(A, rows, 1.5), scaled(A, rows, 1.5))


def test_arguments_of_size_zero():
    """A robot without joints has states of size zero."""
    double = compiled(lambda q, c: np.array([2.0 * c, *q], like=q), {"q": (0,), "c": ()})
    assert double(np.zeros(0), 3.0).tolist() == [6.0]
    assert double(np.zeros((2, 3, 0)), 3.0).tolist() == [[[6.0]] * 3] * 2
    assert double(np.zeros((5, 0)), np.arange(5.0)).tolist() == [[2.0 * k] for k in range(5)]
    nothing = compiled(lambda q: 2.0 * q, {"q": (0,)})
    assert nothing(np.zeros(0)).shape == (0,)
    assert nothing(np.zeros((4, 0))).shape == (4, 0)


def test_a_kernel_without_arguments():
    """A function of parameters only."""
    program = trace(lambda m: 2.0 * m, [Input("m", (2,), parameter=True)])
    double = make_kernel(ProgramSource(program), {"m": [1.0, 2.0]})
    assert double().tolist() == [2.0, 4.0]
    assert double(m=[[1.0, 1.0], [3.0, 2.0]]).tolist() == [[2.0, 2.0], [6.0, 4.0]]


# refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.eye(3), np.zeros(4), 1.0), "b: expected 3, got 4"),
        ((np.eye(3), 1.0, 1.0), "b: expected 3, got a single number"),
        ((np.eye(2), np.zeros(3), 1.0), "A: expected shape (..., 3, 3), got shape (2, 2)"),
        ((np.zeros(3), np.zeros(3), 1.0), "A: expected shape (..., 3, 3), got shape (3,)"),
        ((np.eye(3), np.zeros(3), "one"), "c: expected a number, got values of type <U3"),
        ((np.eye(3), None, 1.0), "b: expected numbers, shape (..., 3), got values of type object"),
        (
            (np.zeros((2, 3, 3)), np.zeros((3, 3)), 1.0),
            "batch dimensions: expected leading shapes that fit together, "
            "got A (2,), b (3,); give every array the same number of cases, or one case",
        ),
        ((np.eye(3), np.zeros(3)), "function: expected arguments A, b, c, got nothing for c"),
        ((), "function: expected arguments A, b, c, got nothing for A, b, c"),
        ((np.eye(3), np.zeros(3), 1.0, 2.0), "function: expected 3 arguments (A, b, c), got 4"),
    ],
)
def test_wrong_arguments_are_named(scale, arguments, message):
    """Which argument, what was expected, what was given."""
    with pytest.raises(ShapeError) as caught:
        scale(*arguments)
    assert str(caught.value) == message


def test_complex_arguments_are_named(scale):
    """NumPy would drop the imaginary parts."""
    with pytest.raises(DomainError) as caught:
        scale(np.eye(3), np.zeros(3) * 1j, 1.0)
    assert str(caught.value) == (
        "b: expected a real number in every element, got complex numbers; pass x.filled(...), "
        "x.real, or leave these cases out"
    )


def test_nested_lists_that_do_not_fit_are_refused(scale):
    """NumPy's complaint comes with the name of the argument."""
    with pytest.raises(ShapeError, match=r"^b: expected 3, got nested lists that do not fit"):
        scale(np.eye(3), [[1.0, 2.0, 3.0], [1.0]], 1.0)


def test_a_described_size_is_explained():
    """The error explains the size of a floating robot's velocity."""
    item = Input("v", (18,), described="18 (6 base + 12 joints)")
    double = make_kernel(ProgramSource(trace(lambda v: 2.0 * v, [item])))
    with pytest.raises(ShapeError) as caught:
        double(np.zeros(12))
    assert str(caught.value) == "v: expected 18 (6 base + 12 joints), got 12"
    with pytest.raises(ShapeError) as caught:
        double(np.zeros((18, 4)))
    assert str(caught.value) == "v: expected 18 (6 base + 12 joints), got 4"


def test_keywords(scale, numbers):
    """Arguments by name, in any order; two values or an unknown name are refused."""
    A, b, c = numbers
    wanted = bits(scale(A, b, c))
    assert bits(scale(c=c, A=A, b=b)) == wanted
    assert bits(scale(A, c=c, b=b)) == wanted
    with pytest.raises(ShapeError) as caught:
        scale(A, b, c, b=b)
    assert str(caught.value) == "function: expected one value for b, got two, by place and by name"
    with pytest.raises(OptionError) as unknown:
        scale(A, b, c, d=b)
    assert str(unknown.value).startswith("function: keyword: expected 'A' or 'b' or 'c' or 'out'")
    assert str(unknown.value).endswith("got 'd'")
    with pytest.raises(OptionError, match=r"^errors: expected 'raise' or 'flag', got 'ignore'$"):
        scale(A, b, c, errors="ignore")


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2"])
def test_threads_must_be_a_whole_number(scale, numbers, threads):
    """Also for one case, where nothing is split."""
    message = f"threads: expected a whole number of at least 1, got {threads!r}"
    with pytest.raises(ValueError, match=re.escape(message)):
        scale(*numbers, threads=threads)


def test_traced_values_are_refused(scale, numbers):
    """A compiled kernel cannot be part of another one."""
    with pytest.raises(TraceError, match="a compiled kernel cannot be traced") as caught:
        trace(lambda b: scale(numbers[0], b, 1.0), {"b": (3,)})
    assert "call the function it was compiled from" in str(caught.value)


def test_arguments_one_element_short_are_refused():
    """The fast path never reads beyond an array."""
    x, y = cases(1)
    for name in PROGRAMS:
        for wrong in (x[0, :4], np.append(x[0], 1.0), x[0].reshape(5, 1)):
            with pytest.raises(ShapeError, match=r"^x: expected 5, got (4|6|1)$"):
                kernel(name)(wrong, y[0])
