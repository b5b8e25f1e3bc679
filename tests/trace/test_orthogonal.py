"""Equations of any shape and rank: accuracy, rank decisions, derivatives."""

import numpy as np
import pytest

from tests.tolerances import ALGEBRA, DIFFERENCE, SOLVE, assert_close
from tests.trace.test_region_derivatives import differences, jacobians, program_differences
from tiburon.errors import ShapeError
from tiburon.trace import factor_orthogonal, interpret, jacobian, solve_least_squares, trace

RANDOM = np.random.default_rng(40)
SHAPES = [(1, 1), (1, 5), (5, 1), (3, 3), (4, 7), (7, 4), (6, 6), (12, 18)]


def with_singular_values(rows, columns, values):
    """Return a random matrix with given singular values."""
    U, _ = np.linalg.qr(RANDOM.normal(size=(rows, rows)))
    V, _ = np.linalg.qr(RANDOM.normal(size=(columns, columns)))
    k = len(values)
    return U[:, :k] @ np.diag(values) @ V[:, :k].T


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_solution_is_that_of_the_pseudo_inverse(rows, columns):
    """Every rank from 0 to full; solution, transposed solution and both projections."""
    for rank in range(min(rows, columns) + 1):
        A = RANDOM.normal(size=(rows, rank)) @ RANDOM.normal(size=(rank, columns))
        P = np.linalg.pinv(A, rcond=1e-10)
        factor = factor_orthogonal(A)
        b, c = RANDOM.normal(size=(rows, 2)), RANDOM.normal(size=columns)
        # the pseudo-inverse's condition is that of the kept singular values
        values = np.linalg.svd(A, compute_uv=False)[:rank]
        allowed = SOLVE * (values[0] / values[-1] if rank else 1.0)
        assert factor.rank == rank
        assert_close(factor.solve(b), P @ b, allowed)
        assert_close(factor.solve_transpose(c), P.T @ c, allowed)
        assert_close(factor.project_range(b), A @ P @ b, allowed)
        assert_close(factor.project_rows(c), P @ A @ c, allowed)


def test_interpreter_decides_rank_for_each_case():
    """A batch whose cases differ in rank and in pivots."""
    program = trace(lambda A, b: tuple(solve_least_squares(A, b)), {"A": (4, 5), "b": (4,)})
    ranks = [4, 2, 0, 1, 3, 4]
    A = np.stack([RANDOM.normal(size=(4, r)) @ RANDOM.normal(size=(r, 5)) for r in ranks])
    b = RANDOM.normal(size=(6, 4))
    x, rank, ratio = interpret(program, [A, b])
    np.testing.assert_array_equal(rank, ranks)
    for k in range(6):
        alone = solve_least_squares(A[k], b[k])
        np.testing.assert_array_equal(x[k], alone.x)
        assert ratio[k] == alone.ratio


@pytest.mark.parametrize("exponent", [3, 5, 7, 9])
def test_rank_is_right_for_redundant_and_nearly_singular_constraints(exponent):
    """Nine degrees of freedom, six constraints, one of them redundant, one nearly so.

    The error grows with the condition number, not with its square: measured in the same way,
    the normal equations lose all digits at 1e-8.
    """
    small = 10.0**-exponent
    for _ in range(60):
        J = with_singular_values(5, 9, [1.0, 0.8, 0.5, 0.3, small])
        # the sixth row repeats a mixture of the others
        J = np.vstack([J, RANDOM.normal(size=5) @ J])[RANDOM.permutation(6)]
        x = np.linalg.pinv(J, rcond=1e-11) @ J @ RANDOM.normal(size=9)
        found = solve_least_squares(J, J @ x)
        assert found.rank == 5
        assert_close(found.x, x, SOLVE / small)
        # the estimate of the smallest singular value is right within a factor
        values = np.linalg.svd(J, compute_uv=False)
        assert 1 / 3 < found.ratio / (values[4] / values[0]) < 3


@pytest.mark.parametrize(("small", "rank"), [(1e-8, 4), (1e-9, 4), (1e-11, 3), (1e-13, 3)])
def test_rank_threshold_is_1e_10(small, rank):
    """A decade to both sides; another cut moves the border."""
    for _ in range(30):
        A = with_singular_values(6, 4, [1.0, 0.9, 0.7, small])
        assert factor_orthogonal(A).rank == rank
        assert factor_orthogonal(A, cut=1e-5).rank == 3


def test_rank_does_not_depend_on_units():
    """Scaling a matrix as a whole changes neither rank nor ratio."""
    A = with_singular_values(5, 6, [1.0, 0.1, 1e-6])
    for scale in (1e-120, 1e-6, 1e6, 1e120):
        factor = factor_orthogonal(scale * A)
        assert factor.rank == 3
        assert_close(factor.ratio, factor_orthogonal(A).ratio, 1e-8)


def test_hilbert_matrix_is_solved_to_its_condition():
    """Columns that differ less and less: factors stay orthogonal because it is done twice."""
    n = 6
    H = 1.0 / (np.arange(n)[:, None] + np.arange(n)[None, :] + 1.0)
    x = RANDOM.normal(size=n)
    found = solve_least_squares(H, H @ x)
    assert found.rank == n
    assert_close(found.x, x, SOLVE * np.linalg.cond(H))


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_rounding_below_the_floor_is_zero(rows, columns):
    """Differences that vanish leave noise, which has no scale of its own."""
    noise = 1e-16 * RANDOM.normal(size=(rows, columns))
    assert factor_orthogonal(noise).rank > 0
    held = factor_orthogonal(noise, floor=1e-13)
    assert held.rank == 0
    np.testing.assert_array_equal(held.solve(np.ones(rows)), np.zeros(columns))
    # what is longer stays, and what is shorter beside it goes
    one = noise + np.outer(RANDOM.normal(size=rows), RANDOM.normal(size=columns)) * 1e-6
    assert factor_orthogonal(one, floor=1e-13).rank == 1


def test_nan_propagates_to_the_solution():
    """A NaN must not pass for a dependent column."""
    for place in range(4):
        A = RANDOM.normal(size=(2, 2))
        A.flat[place] = np.nan
        assert np.isnan(solve_least_squares(A, np.ones(2)).x).any()


def test_empty_matrix_is_refused():
    """There is nothing to solve."""
    with pytest.raises(ShapeError, match="at least 1"):
        factor_orthogonal(np.zeros((0, 3)))


# derivatives


def products(rows, columns, rank):
    """Everything a factor gives, of a matrix that keeps its rank when its inputs move."""
    left = rows * rank

    def f(x):
        A = x[:left].reshape(rows, rank) @ x[left : left + rank * columns].reshape(rank, columns)
        b, c = x[-rows:], x[:columns]
        factor = factor_orthogonal(A)
        return np.concatenate(
            [
                factor.solve(b),
                factor.solve_transpose(c),
                factor.project_range(b),
                factor.project_rows(c),
            ]
        )

    return f, left + rank * columns + rows


@pytest.mark.parametrize("shape", [(3, 3, 3), (3, 5, 3), (5, 3, 3), (4, 5, 2), (4, 3, 1)])
def test_derivative_equals_differences(shape):
    """Full and deficient rank, in both modes; Golub and Pereyra 1973."""
    f, size = products(*shape)
    program = trace(f, {"x": (size,)})
    x = RANDOM.normal(size=size) + 0.5
    expected = differences(f, x)
    for found in jacobians(program, x):
        # the third derivative of a pseudo-inverse grows with the fourth power of its condition
        assert_close(found, expected, 10 * DIFFERENCE)


@pytest.mark.parametrize("shape", [(2, 3, 1), (3, 2, 1)])
def test_second_derivative_equals_differences(shape):
    """The rules are made of factors and can be differentiated again."""
    f, size = products(*shape)
    first = jacobian(trace(f, {"x": (size,)}), mode="forward")
    x = RANDOM.normal(size=size) + 0.5
    found = interpret(jacobian(first, mode="reverse"), [x])
    assert_close(found, program_differences(first, x), 100 * DIFFERENCE)


def test_solution_of_a_square_matrix_agrees_with_elimination():
    """Where both apply."""
    A, b = RANDOM.normal(size=(8, 8)) + 4.0 * np.eye(8), RANDOM.normal(size=8)
    assert_close(solve_least_squares(A, b).x, np.linalg.solve(A, b), ALGEBRA)
