"""Numbers that are not finite: found wherever they are, explained, and kept to their case."""

import warnings

import numpy as np
import pytest

from tests.native.programs import PROGRAMS, bits, cases, compiled, kernel
from tiburon.errors import DomainError, NonFiniteError
from tiburon.native.elementary import SIN_COS_LIMIT
from tiburon.native.engine import host
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.trace import Input, interpret, require, trace
from tiburon.trace.graph import ANGLE_LIMIT

BAD = [np.nan, np.inf, -np.inf]


@pytest.fixture(scope="module")
def careless():
    """Give a kernel whose result depends on one number of its first argument only."""
    return compiled(lambda x, unused: 2.0 * x[1], {"x": (5,), "unused": (2, 2)})


# one case


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_non_finite_input_raises(name, bad):
    """Also where the result would be finite."""
    x, y = cases(1)
    for argument, given in (("x", x[0]), ("y", y[0])):
        for place in range(len(given)):
            value, given[place] = given[place], bad
            with pytest.raises(NonFiniteError) as caught:
                kernel(name)(x[0], y[0])
            given[place] = value
            assert (caught.value.argument, caught.value.index) == (argument, place)
            assert str(caught.value) == (
                f"{argument}: every value must be finite, got {bad} at index {place}; "
                "check the computation that made it"
            )
    assert np.isfinite(kernel(name)(x[0], y[0])[0]).all()


@pytest.mark.parametrize("bad", BAD)
def test_unused_non_finite_input_raises(careless, bad):
    """The graph drops what is multiplied by zero; the border does not."""
    x, unused = np.ones(5), np.ones((2, 2))
    for place in range(5):
        x[place] = bad
        with pytest.raises(NonFiniteError, match=f"got {bad} at index {place};"):
            careless(x, unused)
        x[place] = 1.0
    for place in np.ndindex(2, 2):
        unused[place] = bad
        with pytest.raises(NonFiniteError) as caught:
            careless(x, unused)
        assert caught.value.index == place
        unused[place] = 1.0
    assert careless(x, unused) == 2.0


def test_infinities_of_both_signs_do_not_cancel(careless):
    """The check is a sum, in which they meet."""
    with pytest.raises(NonFiniteError, match="got inf at index 0"):
        careless(np.array([np.inf, 1.0, -np.inf, 0.0, 0.0]), np.ones((2, 2)))


@pytest.mark.parametrize("bad", BAD)
def test_non_finite_scalar_raises(bad):
    """As a Python float, as a NumPy number, and in an array."""
    double = compiled(lambda c: 2.0 + 0.0 * c, {"c": ()})
    for value in (bad, np.float64(bad), np.array(bad)):
        with pytest.raises(NonFiniteError) as caught:
            double(value)
        assert caught.value.index is None
        assert str(caught.value).startswith(f"c: every value must be finite, got {bad};")


# batches


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("count", [1, 3, 8, host().lanes + 1, 41])
def test_non_finite_input_in_any_case_of_a_batch_raises(careless, count, bad):
    """First, last and in the middle; the message states the index in the given array."""
    for case in {0, count // 2, count - 1}:
        x = np.ones((count, 5))
        x[case, 3] = bad
        with pytest.raises(NonFiniteError) as caught:
            careless(x, np.ones((2, 2)))
        assert caught.value.index == (case, 3)
        assert np.array_equal(caught.value.value, bad, equal_nan=True)


def test_error_names_the_index_in_the_array_of_the_caller(careless):
    """An argument shared by all cases has no index of a case."""
    x = np.ones((6, 5))
    unused = np.ones((2, 2))
    unused[1, 0] = np.nan
    with pytest.raises(NonFiniteError) as caught:
        careless(x, unused)
    assert (caught.value.argument, caught.value.index) == ("unused", (1, 0))
    x = np.ones((2, 3, 5))
    x[1, 2, 4] = np.inf
    with pytest.raises(NonFiniteError, match=r"at index \(1, 2, 4\)"):
        careless(x, np.ones((2, 2)))


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_flagged_cases_are_nan_and_the_others_untouched(name):
    """A failed case says so and leaves its neighbors in the same vector alone."""
    x, y = cases(29)
    wanted = kernel(name)(x, y)
    spoiled = x.copy()
    spoiled[[4, 17, 28], [0, 2, 4]] = BAD
    found, failed = kernel(name)(spoiled, y, errors="flag")
    assert np.flatnonzero(failed).tolist() == [4, 17, 28]
    pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
    for result, good in pairs:
        assert np.isnan(result[failed]).all()
        assert bits(result[~failed]) == bits(good[~failed])


def test_flags_have_the_shape_of_the_batch(careless):
    """Any leading dimensions, one case, and no failure."""
    x = np.ones((2, 3, 5))
    x[1, 1, 0] = np.nan
    result, failed = careless(x, np.ones((2, 2)), errors="flag")
    assert failed.tolist() == [[False, False, False], [False, True, False]]
    assert np.isnan(result).tolist() == failed.tolist()
    result, failed = careless(x[0], np.ones((2, 2)), errors="flag")
    assert failed.tolist() == [False] * 3
    assert result.tolist() == [2.0] * 3
    result, failed = careless(x[1, 1], np.ones((2, 2)), errors="flag")
    assert failed.shape == ()
    assert bool(failed)
    assert np.isnan(result)
    result, failed = careless(x[0, 0], np.ones((2, 2)), errors="flag")
    assert (result, bool(failed)) == (2.0, False)


def test_flags_with_out():
    """Failed cases are NaN in the given array too, also where it is written by way of another."""
    double = compiled(lambda x: 2.0 * x, {"x": (2,)})
    x = np.array([[1.0, 2.0], [np.inf, 1.0], [3.0, 4.0]])
    for out in (np.zeros((3, 2)), np.zeros((3, 4))[:, ::2], x):
        result, failed = double(x.copy(), out=out, errors="flag")
        assert result is out
        assert failed.tolist() == [False, True, False]
        np.testing.assert_array_equal(out, [[2.0, 4.0], [np.nan, np.nan], [6.0, 8.0]])


def test_a_failure_on_a_worker_thread_is_found(careless, monkeypatch):
    """Every part of a split batch reports its status."""
    monkeypatch.setattr("tiburon.native.code.MIN_THREAD_WORK", 1e-12)
    for case in (3, 250, 996):
        x = np.ones((997, 5))
        x[case, 0] = np.nan
        _, failed = careless(x, np.ones((2, 2)), errors="flag", threads=2)
        assert np.flatnonzero(failed).tolist() == [case]


# large but finite


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_large_finite_values_are_accepted(careless, sign):
    """Their sum overflows, which only costs a closer look."""
    x = np.full(5, sign * 1.7e308)
    x[1] = 0.25
    unused = np.full((2, 2), sign * 1.7e308)
    with np.errstate(all="raise"):
        assert careless(x, unused) == 0.5
        batch = np.tile(x, (11, 1))
        assert careless(batch, unused).tolist() == [0.5] * 11
        result, failed = careless(batch, unused, errors="flag")
    assert result.tolist() == [0.5] * 11
    assert not failed.any()


def test_large_finite_results_are_returned():
    """Results are added up as well."""
    grow = compiled(lambda x: x * 2.0**1000, {"x": (4,)})
    assert grow(np.full(4, 2.0**23)).tolist() == [2.0**1023] * 4
    assert grow(np.full((9, 4), -(2.0**23))).tolist() == [[-(2.0**1023)] * 4] * 9


# results that are not finite


def test_non_finite_result_is_diagnosed():
    """Operation, values and inputs behind it; case and number of failures in a batch."""
    root = compiled(lambda a, b: np.sqrt(a[0] - 2.0 * b) + a[1], {"a": (2,), "b": ()})
    with pytest.raises(DomainError) as caught:
        root(np.array([1.0, 0.0]), 3.0)
    assert str(caught.value) == (
        "<lambda>: expected a finite result, got none: sqrt(-5) is nan; it depends on a, b; "
        "check the inputs and the model"
    )
    with pytest.raises(DomainError) as caught:
        root(np.ones((6, 2)), np.array([0.0, 0.1, 3.0, 0.2, 8.0, 0.0]))
    assert str(caught.value) == (
        "<lambda>: expected a finite result, got none in case 2 (2 of 6 cases failed): "
        "sqrt(-5) is nan; it depends on a, b; check the inputs and the model, "
        "or pass errors='flag'"
    )
    with pytest.raises(DomainError, match=r"none in case \(1, 0\): sqrt\(-1\) is nan"):
        root(np.ones((2, 2, 2)), np.array([[0.0, 0.0], [1.0, 0.0]]))
    with pytest.raises(DomainError, match=r"exp\(1000\) is inf"):
        compiled(lambda x: np.exp(x), {"x": ()})(1000.0)


def test_an_overflow_of_fused_operations_is_reported():
    """Whatever the interpreter makes of it, there is an error and not an infinity."""
    product = compiled(lambda x, y: x * y, {"x": (), "y": ()})
    with pytest.raises(DomainError, match=r"mul\(1e\+200, 1e\+200\) is inf"):
        product(1e200, 1e200)


def test_a_failed_requirement_is_quoted():
    """Its own words reach the caller of native code."""

    def normalize(q):
        square = q @ q
        return q / np.sqrt(require(square > 0.25, square, "|q| must be at least 0.5"))

    unit = compiled(normalize, {"q": (4,)})
    with pytest.raises(DomainError, match=r"got none: \|q\| must be at least 0.5;"):
        unit(np.full(4, 0.1))
    result, failed = unit(np.array([[1.0, 0.0, 0.0, 0.0], [0.1] * 4]), errors="flag")
    assert failed.tolist() == [False, True]
    assert result[0].tolist() == [1.0, 0.0, 0.0, 0.0]


# angles


def test_angle_limit_is_the_same_in_all_code():
    """Interpreter, folding and native code agree on it."""
    assert ANGLE_LIMIT == SIN_COS_LIMIT == 1e8


@pytest.mark.parametrize("function", [np.sin, np.cos, np.tan])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_angles_beyond_the_limit_are_refused(function, sign):
    """The message names function, angle, limit and input."""
    program = trace(lambda q, v: function(q) + v, {"q": (3,), "v": (3,)})
    turn = make_kernel(ProgramSource(program))
    inside = np.array([0.1, sign * 1e8, 0.2])
    # one ulp of the angle is 1.5e-8 rad, which both sides take alike; tan is below 1e2 here
    np.testing.assert_allclose(turn(inside, np.zeros(3)), function(inside), rtol=1e-12)
    beyond = np.array([0.1, sign * 2.5e8, 0.2])
    named = {np.sin: "sin", np.cos: "cos", np.tan: "tan"}[function]
    angle = f"{sign * 2.5e8:.6g}"
    message = (
        f"<lambda>: expected a finite result, got none: {named}({angle}) is nan, for angles are "
        "limited to 1e+08 rad; it depends on q; check the inputs and the model"
    )
    with pytest.raises(DomainError) as caught:
        turn(beyond, np.zeros(3))
    assert str(caught.value) == message
    result, failed = turn(np.stack([inside, beyond, inside]), np.zeros(3), errors="flag")
    assert failed.tolist() == [False, True, False]
    expected = interpret(program, [np.stack([inside, beyond]), np.zeros(3)])
    assert np.isnan(expected).tolist() == [[False] * 3, [False, True, False]]
    assert np.isnan(result[1]).all()


def test_a_constant_angle_beyond_the_limit_is_refused_too():
    """Constants fold to what native code would compute."""
    # NumPy notices while the function is traced
    with np.errstate(invalid="ignore"):
        shift = compiled(lambda x: x + np.sin(0.0 * x + 3e8), {"x": ()})
    with pytest.raises(DomainError, match=r"<lambda>: expected a finite result"):
        shift(1.0)


# parameters


@pytest.fixture(scope="module")
def heavy():
    """Give a kernel that depends on the sign of its first parameter only."""
    program = trace(
        lambda x, m: np.where(m[0] > 0.0, x, -x),
        [Input("x", (2,)), Input("m", (2,), parameter=True)],
    )
    return make_kernel(ProgramSource(program), {"m": [1.0, 2.0]})


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("place", [0, 1])
def test_bad_parameters_are_refused(heavy, bad, place):
    """Bound, for one call, for all cases of a batch, and for one case of many."""
    m = np.array([1.0, 2.0])
    m[place] = bad
    each = np.ones((9, 2))
    each[6, place] = bad
    x = np.ones((9, 2))
    for call in (
        lambda: heavy.__self__.with_parameters(m=m),
        lambda: heavy(x[0], m=m),
        lambda: heavy(x, m=m),
    ):
        with pytest.raises(NonFiniteError) as caught:
            call()
        assert (caught.value.argument, caught.value.index) == ("m", place)
    with pytest.raises(NonFiniteError) as caught:
        heavy(x, m=each)
    assert caught.value.index == (6, place)
    _, failed = heavy(x, m=each, errors="flag")
    assert np.flatnonzero(failed).tolist() == [6]


def test_failures_raise_no_numpy_warnings():
    """NumPy's warnings inside the explanation stay there."""
    x, y = cases(2)
    x[1, 2] = np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(NonFiniteError):
            kernel("elementary")(x, y)
        kernel("elementary")(x, y, errors="flag")
        with pytest.raises(DomainError):
            compiled(lambda a: np.log(a), {"a": ()})(-1.0)
