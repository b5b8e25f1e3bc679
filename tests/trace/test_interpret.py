"""The interpreter against the function itself, one case and batches of any shape."""

import numpy as np
import pytest
from hypothesis import given

from tests.trace.random_functions import INPUTS, REAL, SMOOTH, build, points, steps
from tiburon.errors import ShapeError
from tiburon.trace import interpret, trace

# results are near 1; folding changes a product or a sign here and there, and 14 steps of at most
# unit slope pass each rounding error on
ROUND_OFF = 1e-12


@given(steps({**SMOOTH, **REAL}))
def test_interpreted_trace_equals_the_function_on_floats(chosen):
    """Tracing and interpreting changes no result, whatever the graph."""
    function = build(chosen)
    program = trace(function, {"x": (INPUTS,)})
    cases = points(5)
    expected = np.array([function(x) for x in cases], dtype=float)
    np.testing.assert_allclose(interpret(program, [cases]), expected, rtol=0, atol=ROUND_OFF)


@given(steps({**SMOOTH, **REAL}))
def test_a_batch_equals_its_cases(chosen):
    """A case gives the same in a batch, but for the last bits of NumPy's vector functions."""
    program = trace(build(chosen), {"x": (INPUTS,)})
    cases = points(6)
    batch = interpret(program, [cases.reshape(2, 3, INPUTS)])
    singles = np.array([interpret(program, [x]) for x in cases])
    np.testing.assert_allclose(batch.reshape(6, -1), singles, rtol=0, atol=ROUND_OFF)


@pytest.fixture
def product():
    """Matrix times vector plus number."""
    return trace(lambda M, x, c: M @ x + c, {"M": (2, 3), "x": (3,), "c": ()})


def test_leading_dimensions_broadcast(product):
    """Each input may have its own cases; results have them all."""
    rng = np.random.default_rng(1)
    M, x, c = rng.normal(size=(4, 1, 2, 3)), rng.normal(size=(5, 3)), rng.normal(size=(4, 5))
    expected = np.einsum("aoij,bj->abi", M, x) + c[..., None]
    found = interpret(product, [M, x, c])
    assert found.shape == (4, 5, 2)
    # three products and three sums of numbers near 1
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


def test_inputs_by_name_lists_and_integers(product):
    """Anything NumPy turns into floats is taken."""
    M = [[1, 2, 3], [4, 5, 6]]
    found = interpret(product, {"c": 1, "x": [1, 0, -1], "M": M})
    np.testing.assert_array_equal(found, [-1.0, -1.0])


def test_an_empty_batch_gives_an_empty_result(product):
    """No cases in, no cases out."""
    found = interpret(product, [np.zeros((0, 2, 3)), np.zeros(3), 1.0])
    assert found.shape == (0, 2)


def test_constant_results_fill_the_batch():
    """A result that depends on no input still has one value per case."""
    program = trace(lambda x: (x * 0.0 + 2.0, 3.0, x), {"x": (2,)})
    two, three, same = interpret(program, [np.ones((4, 2))])
    np.testing.assert_array_equal(two, np.full((4, 2), 2.0))
    np.testing.assert_array_equal(three, np.full(4, 3.0))
    np.testing.assert_array_equal(same, np.ones((4, 2)))


def test_branches_not_taken_give_no_warning():
    """A division by zero in the branch not taken raises no warning."""
    program = trace(lambda x: np.where(x == 0.0, 7.0, 1.0 / x), {"x": ()})
    np.testing.assert_array_equal(interpret(program, [[0.0, 4.0]]), [7.0, 0.25])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([np.ones((2, 2)), np.ones(3), 1.0], r"M: expected shape \(..., 2, 3\), got \(2, 2\)"),
        ([np.ones((2, 3)), np.ones(4), 1.0], r"x: expected shape \(..., 3\), got \(4,\)"),
        ([np.ones((2, 3)), 1.0, 1.0], r"x: expected shape \(..., 3\), got \(\)"),
        ([np.ones((2, 3)), np.ones(3)], r"expected 3 arrays, got 2; .* takes M \(2, 3\), x"),
        ({"M": np.ones((2, 3)), "x": np.ones(3)}, r"c: expected an array, got nothing"),
        (
            [np.ones((4, 2, 3)), np.ones((5, 3)), 1.0],
            r"leading dimensions that broadcast, got M \(4,\), x \(5,\), c \(\)",
        ),
    ],
)
def test_wrong_shapes_are_named(product, inputs, message):
    """The error says which input, what it must be and what it was."""
    with pytest.raises(ShapeError, match=message):
        interpret(product, inputs)
