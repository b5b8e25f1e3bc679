"""Solvers for positive definite matrices, trees, and the safe length."""

import numpy as np
import pytest

from tests.tolerances import ALGEBRA, DIFFERENCE, SOLVE, assert_close
from tests.trace.test_region_derivatives import differences, jacobians, program_differences
from tiburon.errors import DomainError, ShapeError
from tiburon.trace import (
    count,
    diagnose,
    factor_spd,
    factor_tree,
    interpret,
    jacobian,
    norm,
    solve_spd,
    solve_tree,
    trace,
)

RANDOM = np.random.default_rng(30)

# a chain, a fork, a forest, a humanoid-like tree with a floating base of six rows
TREES = {
    "chain": [-1, 0, 1, 2, 3],
    "fork": [-1, 0, 1, 1, 3, 0, 5],
    "forest": [-1, -1, 1, 0, 1, -1],
    "floating": [-1, 0, 1, 2, 3, 4, 5, 6, 7, 5, 9, 10, 5, 12],
}


def positive_definite(n, generator=RANDOM):
    """Return a random matrix with eigenvalues between about 0.1 n and 4 n."""
    A = generator.normal(size=(n, n))
    return A @ A.T + 0.1 * n * np.eye(n)


def ancestors(parents, i):
    """Return a row and all rows it hangs on."""
    return [i, *(ancestors(parents, parents[i]) if parents[i] >= 0 else [])]


def tree_matrix(parents, generator=RANDOM):
    """Return a random positive definite matrix with the zeros of a tree."""
    n = len(parents)
    L = np.zeros((n, n))
    for i in range(n):
        L[i, ancestors(parents, i)] = generator.normal(size=len(ancestors(parents, i)))
        L[i, i] = 1.5
    return L.T @ L


def limit(A):
    """Return what solving with A may lose."""
    return SOLVE * np.linalg.cond(A)


# on floats and interpreted


@pytest.mark.parametrize("n", [1, 2, 3, 6, 7, 13, 30])
@pytest.mark.parametrize("shape", [(), (1,), (4,)])
def test_solve_spd_solves(n, shape):
    """Against NumPy, for a vector and several columns."""
    A, b = positive_definite(n), RANDOM.normal(size=(n, *shape))
    assert_close(solve_spd(A, b), np.linalg.solve(A, b), limit(A))


@pytest.mark.parametrize("inline", [True, False])
def test_solve_spd_is_the_same_traced_spelled_out_or_called(inline):
    """A batch of matrices, a factor used twice."""

    def f(A, b):
        factor = factor_spd(A, inline=inline)
        return factor.solve(factor.solve(b))

    program = trace(f, {"A": (5, 5), "b": (5, 2)})
    A = np.stack([positive_definite(5) for _ in range(4)])
    b = RANDOM.normal(size=(4, 5, 2))
    found = interpret(program, [A, b])
    for k in range(4):
        assert_close(found[k], f(A[k], b[k]))
        assert_close(found[k], np.linalg.solve(A[k] @ A[k], b[k]), limit(A[k] @ A[k]))


def test_only_the_lower_triangle_is_read():
    """The upper triangle may hold anything, even NaN."""
    A, b = positive_definite(4), RANDOM.normal(size=4)
    dirty = np.tril(A) + np.triu(np.full((4, 4), np.nan), 1)
    np.testing.assert_array_equal(solve_spd(dirty, b), solve_spd(A, b))


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("inline", [True, False])
def test_solve_tree_solves_with_the_zeros_of_the_tree(name, inline):
    """Against NumPy; elements off the tree's pattern are never read."""
    parents = TREES[name]
    n = len(parents)
    H = np.stack([tree_matrix(parents) for _ in range(3)])
    b = RANDOM.normal(size=(3, n))
    program = trace(lambda H, b: solve_tree(parents, H, b, inline=inline), {"H": (n, n), "b": (n,)})
    dirty = np.full_like(H, np.nan)
    for i in range(n):
        dirty[:, i, ancestors(parents, i)] = H[:, i, ancestors(parents, i)]
    found = interpret(program, [dirty, b])
    for k in range(3):
        expected = np.linalg.solve(H[k], b[k])
        assert_close(found[k], expected, limit(H[k]))
        assert_close(solve_tree(parents, H[k], b[k]), expected, limit(H[k]))


def test_cost_of_a_tree_factorization_follows_its_sparsity():
    """Featherstone 2005: sum over rows of d(d+1)/2 products of updates, d = number of ancestors."""
    parents = TREES["floating"]
    n = len(parents)
    program = trace(
        lambda H: factor_tree(parents, H, inline=False).solve(np.eye(n)[0]), {"H": (n, n)}
    )
    depth = [len(ancestors(parents, i)) - 1 for i in range(n)]
    # per row: d scaled entries, d(d+1)/2 updates, one product for the pivot's limit; the solution:
    # two products an entry, one a row
    expected = sum(d + d * (d + 1) // 2 + 1 for d in depth) + sum(2 * d + 1 for d in depth)
    assert count(program).multiplications == expected
    assert count(program).divisions == n


def test_spd_factorization_counts_n_cubed_over_six():
    """(n^3 - n)/6 updates, (n^2 - n)/2 scaled entries, n limits; n^2 products for the solution."""
    n = 9
    program = trace(lambda A, b: solve_spd(A, b, inline=False), {"A": (n, n), "b": (n,)})
    factor = (n**3 - n) // 6 + (n * n - n) // 2 + n
    assert count(program).multiplications == factor + n * n
    assert count(program).square_roots == 0


@pytest.mark.parametrize(
    "matrix", [[[1, 1], [1, 1]], [[1, 2], [2, 1]], [[0, 0], [0, 1]], [[-1, 0], [0, 1]]]
)
def test_matrix_that_is_not_positive_definite_is_refused(matrix):
    """On floats by an error; traced by NaN with a reason that can be found."""
    A, b = np.array(matrix, dtype=float), np.array([1.0, 2.0])
    with pytest.raises(DomainError, match="positive definite"):
        solve_spd(A, b)
    with pytest.raises(DomainError, match="positive definite"):
        solve_tree([-1, 0], A, b)
    for inline in (True, False):
        program = trace(
            lambda A, b, inline=inline: solve_spd(A, b, inline=inline), {"A": (2, 2), "b": (2,)}
        )
        assert np.isnan(interpret(program, [A, b])).any()
        assert "positive definite" in diagnose(program, [A, b]).message


def test_singular_case_does_not_affect_other_cases():
    """NaN stays in its case."""
    program = trace(lambda A, b: solve_spd(A, b, inline=False), {"A": (3, 3), "b": (3,)})
    A = np.stack([positive_definite(3), np.ones((3, 3)), positive_definite(3)])
    b = RANDOM.normal(size=(3, 3))
    found = interpret(program, [A, b])
    assert np.isnan(found[1]).any()
    for k in (0, 2):
        assert_close(found[k], np.linalg.solve(A[k], b[k]), limit(A[k]))


def test_nearly_singular_matrix_keeps_its_accuracy():
    """Condition 1e10: the error stays below the condition number times rounding."""
    U, _ = np.linalg.qr(RANDOM.normal(size=(6, 6)))
    A = U @ np.diag(10.0 ** -np.arange(0.0, 12.0, 2.0)) @ U.T
    A = (A + A.T) / 2.0
    x = RANDOM.normal(size=6)
    assert_close(solve_spd(A, A @ x), x, limit(A))


def test_wrong_shapes_are_refused():
    """Each message names the argument."""
    with pytest.raises(ShapeError, match=r"matrix: expected a square matrix, got \(2, 3\)"):
        solve_spd(np.ones((2, 3)), np.ones(2))
    with pytest.raises(ShapeError, match=r"b: expected \(3,\) or \(3, columns\), got \(2,\)"):
        solve_spd(np.eye(3), np.ones(2))
    with pytest.raises(ShapeError, match="parents: expected 3"):
        solve_tree([-1, 0], np.eye(3), np.ones(3))
    with pytest.raises(ShapeError, match="a row before 1"):
        solve_tree([-1, 1], np.eye(2), np.ones(2))


def test_zero_columns_cost_nothing():
    """A right-hand side that is known to be zero is not solved for."""
    program = trace(
        lambda A, b: solve_spd(A, np.stack([b, np.zeros(7)], axis=1), inline=False),
        {"A": (7, 7), "b": (7,)},
    )
    graph = program.graph
    solves = [n for n in graph.live(program.roots) if graph.ops[n] == "call"]
    assert len(solves) == 2


# derivatives


def spd_of(inline):
    def f(x):
        M = x[:16].reshape(4, 4)
        A = M @ M.T + 2.0 * np.eye(4)
        return solve_spd(A, x[16:], inline=inline)

    return f


def tree_of(x):
    parents = [-1, 0, 0, 2, 2]
    H = np.zeros((5, 5), like=x)
    entries = [(i, j) for i in range(5) for j in ancestors(parents, i)]
    for place, (i, j) in enumerate(entries):
        H[i, j] = H[i, j] + x[place] + (6.0 if i == j else 0.0)
    return solve_tree(parents, H, x[-5:], inline=False)


FUNCTIONS = {
    "spd called": (spd_of(False), 20),
    "spd inline": (spd_of(True), 20),
    "tree": (tree_of, 11 + 5),
    "norm": (lambda x: norm(x[:3] * x[3]) * x[:2], 4),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivative_equals_differences(name):
    """Forward and reverse, through matrix and right-hand side."""
    f, size = FUNCTIONS[name]
    program = trace(f, {"x": (size,)})
    x = RANDOM.normal(size=size)
    expected = differences(f, x)
    for found in jacobians(program, x):
        assert_close(found, expected, DIFFERENCE)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivative_equals_differences(name):
    """The handle of a factor can be differentiated again."""
    f, size = FUNCTIONS[name]
    first = jacobian(trace(f, {"x": (size,)}), mode="reverse")
    x = RANDOM.normal(size=size)
    expected = program_differences(first, x)
    found = interpret(jacobian(first, mode="forward"), [x])
    # slopes of slopes: the third derivative may be ten times larger again
    assert_close(found, expected, 10 * DIFFERENCE)


def test_all_directions_share_one_factorization():
    """The derivative by every element of b calls the solver again, the factorization never."""
    program = jacobian(
        trace(lambda A, b: solve_spd(A, b, inline=False), {"A": (5, 5), "b": (5,)}), mode="forward"
    )
    graph = program.graph
    names = [graph.payloads[n].name for n in graph.live(program.roots) if graph.ops[n] == "call"]
    assert names.count("factor_spd") == 1
    assert names.count("solve_spd") == 1 + 15 + 5


# the safe length


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_norm_is_accurate_over_the_range_of_floats(scale):
    """3-4-5 triangles of any size, on floats and interpreted."""
    x = np.array([3.0, -4.0]) * scale
    expected = 5.0 * scale
    # one unit of the last place, which for denormal numbers is the smallest number there is
    allowed = 2.0 * np.spacing(expected)
    assert abs(norm(x) - expected) <= allowed
    assert abs(interpret(trace(norm, {"x": (2,)}), [x]) - expected) <= allowed


def test_norm_at_zero_is_zero_with_derivative_zero():
    """No NaN from 0/0, in both modes, also for one component and in the middle of a product."""
    for f, size in ((norm, 3), (norm, 1), (lambda x: norm(x) * x, 3)):
        program = trace(f, {"x": (size,)})
        for found in jacobians(program, np.zeros(size)):
            np.testing.assert_array_equal(found, np.zeros_like(found))


def test_norm_propagates_nan():
    """A NaN must reach the border, not vanish in a choice."""
    program = trace(norm, {"x": (3,)})
    assert np.isnan(interpret(program, [[0.0, np.nan, 0.0]]))
    assert np.isnan(norm([0.0, np.nan, 0.0]))
    assert norm([]) == 0.0


def test_norm_agrees_with_numpy():
    """On ordinary numbers, for several lengths."""
    for size in (1, 2, 3, 10):
        x = RANDOM.normal(size=(20, size))
        found = interpret(trace(norm, {"x": (size,)}), [x])
        assert_close(found, np.linalg.norm(x, axis=1), ALGEBRA)
