"""Solvers as native code: right, and the same bits in any number of lanes."""

import numpy as np
import pytest

from tests.native.lanes import LANES, assert_same_bits, run_lanes
from tests.tolerances import ALGEBRA, SOLVE, assert_close
from tests.trace.test_primitives import TREES, ancestors, positive_definite, tree_matrix
from tests.trace.test_quadratic import problems
from tiburon.errors import DomainError
from tiburon.native.body import is_unrolled
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.native.llvm_module import module_for_many, module_for_one
from tiburon.trace import (
    factor_orthogonal,
    interpret,
    invert_tree,
    jacobian,
    norm,
    solve_least_squares,
    solve_qp,
    solve_spd,
    solve_tree,
    trace,
)
from tiburon.trace.primitives.primitive import Primitive
from tiburon.trace.primitives.spd import FactorSpd

RANDOM = np.random.default_rng(60)


def rows(*arrays):
    """Put arrays of many cases side by side, one row per case."""
    return np.concatenate([np.reshape(a, (len(a), -1)) for a in arrays], axis=1)


def spd_program(n, inline):
    return trace(
        lambda x: solve_spd(x[: n * n].reshape(n, n), x[n * n :], inline=inline),
        {"x": (n * n + n,)},
    )


@pytest.mark.parametrize(
    ("n", "inline"), [(1, False), (3, True), (6, False), (9, False), (14, False)]
)
@pytest.mark.parametrize("fused", [True, False])
def test_positive_definite_solutions(n, inline, fused):
    """Spelled out in the graph, as a function without loops, as a function with loops."""
    A = np.stack([positive_definite(n) for _ in range(11)])
    b = RANDOM.normal(size=(11, n))
    # vectors of every width where products are fused, as on all machines that have them
    widths = LANES if fused else None
    found = assert_same_bits(spd_program(n, inline), rows(A, b), fused=fused, widths=widths)
    for k in range(11):
        assert_close(found[k], np.linalg.solve(A[k], b[k]), SOLVE * np.linalg.cond(A[k]))


def test_short_solvers_are_unrolled_and_long_ones_loop():
    """Both forms are covered by the tests here."""
    assert is_unrolled(FactorSpd(9))
    assert not is_unrolled(FactorSpd(14))


@pytest.mark.parametrize("name", [*TREES, "long"])
def test_tree_solutions(name):
    """Short trees unrolled, a long chain with a branch in loops."""
    parents = TREES.get(name, [*range(-1, 17), 3])
    n = len(parents)
    entries = [(i, j) for i in range(n) for j in ancestors(parents, i)]
    H = np.stack([tree_matrix(parents) for _ in range(10)])
    b = RANDOM.normal(size=(10, n))
    packed = np.stack([[matrix[i, j] for i, j in entries] for matrix in H])

    def f(x):
        matrix = np.zeros((n, n), like=x)
        for place, (i, j) in enumerate(entries):
            matrix[i, j] = x[place]
        return solve_tree(parents, matrix, x[len(entries) :], inline=False)

    program = trace(f, {"x": (len(entries) + n,)})
    found = assert_same_bits(program, rows(packed, b))
    for k in range(10):
        assert_close(found[k], np.linalg.solve(H[k], b[k]), SOLVE * np.linalg.cond(H[k]))


@pytest.mark.parametrize(
    ("m", "n", "fused"), [(1, 1, True), (3, 5, True), (5, 3, False), (7, 9, True)]
)
def test_least_squares_with_pivots_and_ranks_that_differ_between_lanes(m, n, fused):
    """Each lane goes its own way through pivots and loop lengths."""

    def f(x):
        A = x[: m * n].reshape(m, n)
        factor = factor_orthogonal(A)
        b = x[m * n :]
        y = factor.solve(b)
        seen = factor.project_range(b) + factor.solve_transpose(y)
        return np.concatenate(
            [y, seen, factor.project_rows(y), np.stack([factor.rank, factor.ratio])]
        )

    ranks = RANDOM.integers(0, min(m, n) + 1, size=21)
    A = np.stack([RANDOM.normal(size=(m, r)) @ RANDOM.normal(size=(r, n)) for r in ranks])
    b = RANDOM.normal(size=(21, m))
    program = trace(f, {"x": (m * n + m,)})
    found = assert_same_bits(program, rows(A, b), fused=fused)
    np.testing.assert_array_equal(found[:, -2], ranks)
    expected = interpret(program, [rows(A, b)])
    for k in range(21):
        values = np.linalg.svd(A[k], compute_uv=False)[: ranks[k]]
        # solving twice in a row: the condition number counts twice
        condition = (values[0] / values[-1]) ** 2 if ranks[k] else 1.0
        assert_close(found[k], expected[k], SOLVE * condition)


def test_nearly_singular_and_redundant_constraints():
    """The rank cases of the design: the native answer is that of the float run."""
    J = np.empty((24, 6, 9))
    for k in range(24):
        U, _ = np.linalg.qr(RANDOM.normal(size=(5, 5)))
        V, _ = np.linalg.qr(RANDOM.normal(size=(9, 9)))
        small = 10.0 ** -[3, 5, 7, 9][k % 4]
        J[k, :5] = U @ np.diag([1.0, 0.8, 0.5, 0.3, small]) @ V[:, :5].T
        J[k, 5] = RANDOM.normal(size=5) @ J[k, :5]
    program = trace(lambda x: solve_least_squares(x.reshape(6, 9), np.ones(6)).rank, {"x": (54,)})
    np.testing.assert_array_equal(assert_same_bits(program, rows(J)), np.full((24, 1), 5.0))


def test_singular_matrix_is_reported_at_the_rank_threshold():
    """One case raises with the reason; a batch can flag it and keeps its neighbors."""
    for inline in (True, False):
        kernel = make_kernel(ProgramSource(spd_program(3, inline)))
        A = np.stack([positive_definite(3), np.ones((3, 3)), positive_definite(3)])
        x = rows(A, RANDOM.normal(size=(3, 3)))
        with pytest.raises(DomainError, match="finite result"):
            kernel(x[1])
        results, failed = kernel(x, errors="flag")
        np.testing.assert_array_equal(failed, [False, True, False])
        for k in (0, 2):
            assert_close(results[k], np.linalg.solve(A[k], x[k, 9:]), SOLVE * np.linalg.cond(A[k]))


def test_derivatives_of_solvers():
    """Jacobians through both kinds of factors, compiled."""

    def f(x):
        M = x[:9].reshape(3, 3)
        A = M @ M.T + 2.0 * np.eye(3)
        y = solve_spd(A, x[9:12], inline=False)
        return solve_least_squares(M[:2], y[:2]).x * norm(y)

    x = RANDOM.normal(size=(10, 12))
    for mode in ("forward", "reverse"):
        program = jacobian(trace(f, {"x": (12,)}), mode=mode)
        found = assert_same_bits(program, x)
        expected = interpret(program, [x]).reshape(10, -1)
        # two rows of a random matrix may be a hundred times longer than their difference
        assert_close(found, expected, 100 * ALGEBRA)


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1.0, 1e200])
def test_norm_of_any_size(scale):
    """Including denormal numbers and squares that would overflow."""
    x = scale * RANDOM.normal(size=(13, 3))
    program = trace(norm, {"x": (3,)})
    found = assert_same_bits(program, x)
    assert_close(found[:, 0] / scale, np.linalg.norm(x / scale, axis=1))


def test_norm_and_its_derivative_at_zero():
    """Zero in one lane, numbers in the others."""
    x = RANDOM.normal(size=(8, 3))
    x[3] = 0.0
    found = run_lanes(jacobian(trace(norm, {"x": (3,)})), x, 8)
    np.testing.assert_array_equal(found[3], np.zeros(3))
    assert_close(found[0], x[0] / np.linalg.norm(x[0]))


def test_large_solvers_are_written_as_loops():
    """Sixty rows: loops instead of 72 000 operations unrolled."""
    n = 60

    def f(x):
        A = np.zeros((n, n), like=x)
        for i in range(n):
            A[i, i] = 4.0
            if i:
                A[i, i - 1] = x[i] * 0.1
        return solve_spd(A, x, inline=False)

    program = trace(f, {"x": (n,)})
    for text in (
        module_for_one(program, vector_lanes=4, fused=True),
        module_for_many(program, lanes=4, fused=True),
    ):
        # 93 000 lines if the solver is unrolled, for which LLVM takes minutes
        assert text.count("\n") < 2000
    x = RANDOM.normal(size=(5, n))
    assert_close(assert_same_bits(program, x), interpret(program, [x]))


def test_many_results_of_a_solver_are_stored_by_loops():
    """In one case and in lanes."""
    n = 40
    program = trace(lambda H: invert_tree(range(-1, n - 1), H), {"H": (n, n)})
    for text in (
        module_for_one(program, vector_lanes=4, fused=True),
        module_for_many(program, lanes=4, fused=True),
    ):
        # 7200 lines if every result is stored by itself, for which LLVM takes a minute
        assert text.count("\n") < 3000
    H = np.stack([positive_definite(n) for _ in range(5)])
    found = assert_same_bits(program, H.reshape(5, -1)).reshape(5, n, n)
    for ours, matrix in zip(found, H, strict=True):
        assert_close(ours @ matrix, np.eye(n), SOLVE * np.linalg.cond(matrix))
    # one NaN in a long output is seen, also beyond the last full vector
    H[2, -1, -1] = -1.0
    kernel = make_kernel(ProgramSource(program), {})
    with pytest.raises(DomainError, match="positive definite"):
        kernel(H[2])
    _, bad = kernel(H, errors="flag")
    assert bad.tolist() == [False, False, True, False, False]


QP_SHAPES = {"W": (5, 5), "c": (5,), "A1": (1, 5), "b1": (1,), "A2": (12, 5), "b2": (12,)}


def quadratic_program(cones):
    """Return a program of one input that solves quadratic programs."""
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in QP_SHAPES.values())])

    def solve(x):
        parts = [
            x[a:b].reshape(shape)
            for a, b, shape in zip(ends[:-1], ends[1:], QP_SHAPES.values(), strict=True)
        ]
        found = solve_qp(*parts, cones=cones, mu=[0.3] * len(cones))
        y = [*found.equation_multipliers, *found.inequality_multipliers, *found.cone_multipliers]
        return [*found.x, *y, found.status, found.iterations, found.active]

    return trace(solve, {"x": (int(ends[-1]),)})


@pytest.mark.parametrize("kind", ["plain", "degenerate", "infeasible"])
def test_quadratic_programs(kind):
    """Constraints that enter and leave at different steps of a batch leave each case its bits."""
    x = rows(*problems(np.random.default_rng(5), 27, 5, 1, 12, kind))
    program = quadratic_program(((0, 1, 2),))
    found = assert_same_bits(program, x)
    assert len(set(found[:, -2])) > 2
    # rounding decides among equal violations: multipliers of degenerate problems are not unique
    same = slice(0, 5) if kind == "degenerate" else slice(0, -2)
    assert_close(interpret(program, [x])[:, same], found[:, same], 1e-8)


class Abreast(Primitive):
    """Sums over rows of a table, for several indices that do not depend on each other."""

    def __init__(self, count):
        super().__init__("abreast", count)
        self.count = count
        self.argument_count = 3 * count + 5
        self.result_count = 4 * count

    def write(self, m, given, found):
        count = self.count
        columns = m.table([(3 * k) % 5 for k in range(count)])
        least, kept = m.memory(1), m.memory(count)
        m.store(least, 0, m.constant(0.25))
        for i in m.abreast(count):
            # adjacent, spaced, by a table, the same for all, the index itself
            near, spaced = m.load(given, i), m.load(given, i * 2 + count)
            taken = m.load(given, m.lookup(columns, i) + 3 * count)
            total = m.add_product(near, spaced, taken)
            bound = m.load(least, 0)
            more = m.less(bound, total)
            m.store(kept, i, m.constant(-1.0))
            for _ in m.iterate(1, lambda more=more: more):
                root = m.sqrt(m.choose(more, total, m.constant(1.0)))
                m.store(kept, i, m.choose(more, root, m.load(kept, i)))
            for k in m.loop(0, 3):
                m.store(found, k * count + i, m.div(m.load(given, k + 3 * count), spaced))
        for i in m.abreast(count):
            m.store(found, i + 3 * count, m.add(m.load(kept, i), m.number(i * 10)))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 8, 9, 17])
@pytest.mark.parametrize("fused", [True, False])
def test_indices_that_run_abreast(count, fused):
    """In one case they are lanes of vectors, in a batch they follow each other: the same bits."""
    primitive = Abreast(count)
    program = trace(lambda x: primitive.apply(list(x)), {"x": (primitive.argument_count,)})
    x = RANDOM.normal(size=(11, primitive.argument_count))
    found = assert_same_bits(program, x, fused=fused)
    near, spaced, table = x[:, :count], x[:, count : 3 * count : 2], x[:, 3 * count :]
    total = near * spaced + table[:, [(3 * k) % 5 for k in range(count)]]
    roots = np.where(total > 0.25, np.sqrt(np.abs(total)), -1.0)
    parts = [table[:, [k]] / spaced for k in range(3)]
    assert_close(found, np.hstack([*parts, roots + 10.0 * np.arange(count)]), ALGEBRA)
