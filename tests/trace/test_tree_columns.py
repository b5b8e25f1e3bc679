"""Many right-hand sides with a tree's mass matrix: floats, lanes, derivatives, count."""

import numpy as np
import pytest

from tests.native.lanes import assert_same_bits
from tests.tolerances import SOLVE, assert_close
from tests.trace.test_primitives import TREES, tree_matrix
from tests.trace.test_region_derivatives import assert_derivatives
from tests.trace.test_tree_inverse import LONG, entries_of, packed
from tiburon.errors import DomainError, ShapeError
from tiburon.trace import count, solve_tree_columns, trace

RANDOM = np.random.default_rng(41)


def solution_of(parents, columns, inline):
    """Return the solution as a function of the matrix' elements and the right-hand sides."""
    n, entries = len(parents), entries_of(parents)

    def f(x):
        H = np.zeros((n, n), like=x)
        for place, (i, j) in enumerate(entries):
            H[i, j] = x[place]
        b = x[len(entries) :].reshape(n, columns)
        return solve_tree_columns(parents, H, b, inline=inline)

    return f


def case(parents, columns):
    H, B = tree_matrix(parents, RANDOM), RANDOM.standard_normal((len(parents), columns))
    return H, B, np.concatenate([packed(parents, H), B.reshape(-1)])


@pytest.mark.parametrize("name", TREES)
def test_solution_on_floats_is_that_of_numpy(name):
    H, B, _ = case(TREES[name], 3)
    expected = np.linalg.solve(H, B)
    found = solve_tree_columns(TREES[name], H, B)
    assert_close(found, expected, SOLVE * np.linalg.cond(H), np.abs(expected).max())


@pytest.mark.parametrize(
    ("name", "inline"), [("fork", True), ("fork", False), ("forest", True), ("long", False)]
)
def test_solution_has_the_same_bits_in_any_number_of_lanes(name, inline):
    """Spelled out, as a function without loops, and as one with loops."""
    parents = TREES.get(name, LONG)
    cases = [case(parents, 4) for _ in range(11)]
    x = np.stack([numbers for _, _, numbers in cases])
    program = trace(solution_of(parents, 4, inline), {"x": (x.shape[1],)})
    found = assert_same_bits(program, x)
    for row, (H, B, _) in zip(found, cases, strict=True):
        expected = np.linalg.solve(H, B)
        assert_close(
            row.reshape(B.shape), expected, SOLVE * np.linalg.cond(H), np.abs(expected).max()
        )


@pytest.mark.parametrize("inline", [True, False])
def test_derivatives_equal_differences(inline):
    """First and second, by both modes."""
    parents = [-1, 0, 0, -1]
    f = solution_of(parents, 2, inline)
    H, B, _ = case(parents, 2)
    x = np.concatenate([packed(parents, H + 4.0 * np.eye(4)), B.reshape(-1)])
    assert_derivatives(f, x)


def test_each_column_of_a_chain_costs_n_squared():
    """Each triangle takes n (n - 1) / 2 products, the diagonal n."""
    n = 9
    entries = n * (n + 1) // 2
    programs = [
        trace(solution_of(range(-1, n - 1), width, False), {"x": (entries + n * width,)})
        for width in (3, 5)
    ]
    few, many = (count(program).multiplications for program in programs)
    assert many - few == 2 * n * n


def test_arguments_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match="b"):
        solve_tree_columns([-1, 0], np.eye(2), np.ones(2))
    with pytest.raises(DomainError, match="positive definite"):
        solve_tree_columns([-1, 0], np.array([[1.0, 2.0], [2.0, 1.0]]), np.ones((2, 1)))
