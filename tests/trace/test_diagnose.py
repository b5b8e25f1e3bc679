"""Why a result is not finite."""

import numpy as np
import pytest

from tiburon.errors import ShapeError
from tiburon.trace import diagnose, fixed_loop, function, require, solve_spd, trace


def test_a_finite_result_needs_no_diagnosis():
    """Nothing is reported, even if a branch that was not taken is infinite."""
    program = trace(lambda x: np.where(x > 0.0, 1.0 / x, 0.0), {"x": (2,)})
    assert diagnose(program, [[0.0, 2.0]]) is None


def test_non_finite_input_is_named_with_its_index():
    """NaN or infinity that came in is blamed first."""
    program = trace(lambda q, M: M @ q / q[0], {"q": (2,), "M": (2, 2)})
    found = diagnose(program, [[0.0, 1.0], [[1.0, 2.0], [np.inf, 3.0]]])
    assert (found.kind, found.inputs, found.index) == ("input", ("M",), (1, 0))
    assert found.message == "M[1, 0] is inf"
    number = diagnose(trace(lambda c: c + 1.0, {"c": ()}), [np.nan])
    assert (number.message, number.index) == ("c is nan", None)


def test_a_failed_requirement_raises_its_message():
    """Its message is reported even though an earlier operation is non-finite too."""

    def unit(q, v):
        square = q @ q
        length = np.sqrt(require(square > 0.25, square, "a unit quaternion"))
        return v / length + 1.0 / (square - square * v[0])

    program = trace(unit, {"q": (4,), "v": (1,)})
    found = diagnose(program, [[0.1, 0.1, 0.0, 0.0], [1.0]])
    assert (found.kind, found.message) == ("requirement", "a unit quaternion")
    assert found.inputs == ("q",)
    assert found.values == pytest.approx((0.02,))
    assert diagnose(program, [[1.0, 0.0, 0.0, 0.0], [0.5]]) is None


def test_a_requirement_in_a_branch_not_taken_is_silent():
    """Only what made the result non-finite is reported."""
    program = trace(
        lambda x: np.where(x < 0.0, 1.0 / (x + 1.0), require(x > 0.0, x, "positive")), {"x": ()}
    )
    found = diagnose(program, [-1.0])
    assert (found.kind, found.operation) == ("operation", "div")


def test_the_first_operation_that_fails_is_named():
    """Operation, arguments and inputs behind it; not the many that pass the NaN on."""

    def chain(a, b, c):
        root = np.sqrt(a[0] - 2.0 * b)
        return np.sin(root * c) + c

    program = trace(chain, {"a": (2,), "b": (), "c": ()})
    found = diagnose(program, [[1.0, 5.0], 3.0, 2.0])
    assert (found.kind, found.operation, found.values) == ("operation", "sqrt", (-5.0,))
    assert found.inputs == ("a", "b")
    assert found.message == "sqrt(-5) is nan; it depends on a, b"


def test_overflow_is_located_at_its_first_operation():
    """Infinity minus infinity is NaN; the cause is the exponential."""
    program = trace(lambda x: np.exp(x) * 2.0 - np.exp(x), {"x": ()})
    found = diagnose(program, [1000.0])
    assert (found.operation, found.values) == ("exp", (1000.0,))


def test_a_batch_is_refused():
    """The caller picks the case."""
    program = trace(lambda x: 1.0 / x, {"x": (2,)})
    with pytest.raises(ShapeError, match=r"one case, got a batch of shape \(3,\)"):
        diagnose(program, [np.zeros((3, 2))])


def test_a_requirement_inside_a_function_raises_its_message():
    """The message comes out of nested regions, with the inputs of the call."""

    @function
    def inverse(x):
        return 1.0 / require(x > 0.0, x, "a positive mass")

    @function
    def pair(x):
        return inverse(x) + inverse(x * 2.0)

    program = trace(lambda mass, other: pair(mass) + np.sqrt(other), {"mass": (), "other": ()})
    found = diagnose(program, [-2.0, 4.0])
    assert (found.kind, found.message) == ("requirement", "a positive mass")
    assert (found.values, found.inputs) == ((-2.0,), ("mass",))


def test_an_operation_inside_a_loop_is_named_with_its_values():
    """The loop is run again until the repetition that fails."""
    program = trace(
        lambda x: fixed_loop(5, lambda i, s: np.sqrt(s - i), x), {"x": ()}, name="roots"
    )
    # sqrt(9) = 3, sqrt(3 - 1) = 1.41, sqrt(1.41 - 2) fails
    found = diagnose(program, [9.0])
    assert (found.kind, found.operation) == ("operation", "sqrt")
    assert found.values[0] == pytest.approx(np.sqrt(2.0) - 2.0)
    assert "inside fixed_loop" in found.message
    assert found.message.endswith("it depends on x")


def test_a_failing_primitive_is_named():
    """A singular matrix has no solution; the solver says what it requires."""
    program = trace(lambda A, b: solve_spd(A, b), {"A": (8, 8), "b": (8,)})
    assert any(program.graph.ops[node] == "call" for node in program.graph.live(program.roots))
    found = diagnose(program, [np.ones((8, 8)), np.arange(8.0)])
    assert found.kind == "requirement"
    assert found.message.startswith("factor_spd: ")
    assert "expected a positive definite matrix" in found.message
