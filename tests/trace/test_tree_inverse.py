"""The inverse of a tree's mass matrix: floats, graph, lanes, derivatives, count."""

import numpy as np
import pytest

from tests.native.lanes import assert_same_bits
from tests.tolerances import SOLVE, assert_close
from tests.trace.test_primitives import TREES, ancestors, tree_matrix
from tests.trace.test_region_derivatives import assert_derivatives
from tiburon.errors import DomainError
from tiburon.trace import count, invert_tree, trace

RANDOM = np.random.default_rng(31)
LONG = [*range(-1, 17), 3]
"""A chain with a branch, long enough to be compiled as loops."""


def entries_of(parents):
    return [(i, j) for i in range(len(parents)) for j in ancestors(parents, i)]


def inverse_of(parents, inline):
    """Return the inverse as a function of the elements that are not zero."""
    n = len(parents)

    def f(x):
        H = np.zeros((n, n), like=x)
        for place, (i, j) in enumerate(entries_of(parents)):
            H[i, j] = x[place]
        return invert_tree(parents, H, inline=inline)

    return f


def packed(parents, H):
    return np.array([H[i, j] for i, j in entries_of(parents)])


@pytest.mark.parametrize("name", TREES)
def test_inverse_on_floats_is_that_of_numpy(name):
    """Full, symmetric in bits, zero between trees that share nothing."""
    H = tree_matrix(TREES[name], RANDOM)
    found = invert_tree(TREES[name], H)
    assert np.array_equal(found, found.T)
    expected = np.linalg.inv(H)
    assert_close(found, expected, SOLVE * np.linalg.cond(H), np.abs(expected).max())
    if name == "forest":
        # rows 0 and 3 hang together, rows 1, 2 and 4, and row 5 alone
        assert not found[0, [1, 2, 4, 5]].any()


@pytest.mark.parametrize(
    ("name", "inline"), [("fork", True), ("fork", False), ("forest", True), ("long", False)]
)
def test_inverse_has_the_same_bits_in_any_number_of_lanes(name, inline):
    """Spelled out, as a function without loops, and as one with loops."""
    parents = TREES.get(name, LONG)
    H = np.stack([tree_matrix(parents, RANDOM) for _ in range(11)])
    x = np.stack([packed(parents, matrix) for matrix in H])
    program = trace(inverse_of(parents, inline), {"x": (x.shape[1],)})
    found = assert_same_bits(program, x).reshape(H.shape)
    for ours, matrix in zip(found, H, strict=True):
        expected = np.linalg.inv(matrix)
        assert_close(ours, expected, SOLVE * np.linalg.cond(matrix), np.abs(expected).max())


@pytest.mark.parametrize("inline", [True, False])
def test_derivatives_equal_differences(inline):
    """First and second, by both modes."""
    parents = [-1, 0, 0, 2, -1]
    f = inverse_of(parents, inline)
    x = packed(parents, tree_matrix(parents, RANDOM) + 4.0 * np.eye(5))
    assert_derivatives(f, x)


def test_a_chain_costs_a_third_of_n_cubed():
    """n^3/6 products for the inverse of L and as many for the sum, and lower powers."""
    n = 12
    program = trace(inverse_of(range(-1, n - 1), False), {"x": (n * (n + 1) // 2,)})
    # one more product per pivot compares it with what it was
    factor = n * (n * n - 1) // 6 + n * (n - 1) // 2 + n
    invert_L = sum(t + 1 for i in range(n) for t in range(i))
    scale = n * (n + 1) // 2
    product = sum(j + 1 for i in range(n) for j in range(i + 1))
    assert count(program).multiplications == factor + invert_L + scale + product
    # branches share only the trunk: two chains of half the length on one row cost far less
    fork = [-1, *range(5), 0, *range(6, 11)]
    forked = trace(inverse_of(fork, False), {"x": (len(entries_of(fork)),)})
    assert count(forked).multiplications < 0.5 * count(program).multiplications


def test_a_matrix_that_is_not_positive_definite_is_refused():
    """As by the solvers."""
    with pytest.raises(DomainError, match="positive definite"):
        invert_tree([-1, 0], np.array([[1.0, 2.0], [2.0, 1.0]]))
