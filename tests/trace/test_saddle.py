"""Equations with constraints by sparse elimination: floats, lanes, derivatives, lost pivots."""

import numpy as np
import pytest

from tests.native.lanes import assert_same_bits
from tests.tolerances import DIFFERENCE, SOLVE, assert_close
from tests.trace.test_region_derivatives import differences, jacobians
from tiburon.errors import DomainError
from tiburon.trace import trace
from tiburon.trace.primitives.saddle import SaddleFactor, SaddlePattern

RANDOM = np.random.default_rng(42)

FREE = 6
MASS = [(i, i) for i in range(FREE)] + [(1, 0), (2, 0), (2, 1), (4, 3), (5, 3)]
BOUND = [(6, 2), (6, 4), (7, 1), (7, 2), (7, 5)]
ORDER = [2, 4, 6, 5, 1, 7, 0, 3]
"""Constraint 6 goes before some of the unknowns, as in a leg."""

PATTERN = SaddlePattern(FREE + 2, 2, [*MASS, *BOUND], ORDER)
LOST = 1e-8


def numbers():
    """Entries of a positive definite matrix and of two rows that bind it; a right-hand side."""
    mass = [RANDOM.uniform(3.0, 5.0) if i == j else RANDOM.uniform(-1.0, 1.0) for i, j in MASS]
    bound = RANDOM.uniform(0.5, 1.5, len(BOUND))
    return np.concatenate([mass, bound, RANDOM.standard_normal(FREE + 2)])


def dense(x):
    K = np.zeros((FREE + 2, FREE + 2))
    for (i, j), value in zip(PATTERN.entries, x, strict=False):
        K[i, j] = K[j, i] = value
    return K, x[len(PATTERN.entries) :]


def solution(inline):
    def f(x):
        entries, right = list(x[: len(PATTERN.entries)]), list(x[len(PATTERN.entries) :])
        return np.array(SaddleFactor(PATTERN, entries, LOST, inline=inline).solve(right), like=x)

    return f


def test_solution_on_floats_is_that_of_numpy():
    x = numbers()
    K, b = dense(x)
    factor = SaddleFactor(PATTERN, x[: len(PATTERN.entries)].tolist(), LOST, inline=False)
    expected = np.linalg.solve(K, b)
    assert_close(factor.solve(b.tolist()), expected, SOLVE * np.linalg.cond(K), 1.0)
    assert 0.0 < factor.worst <= 1.0


@pytest.mark.parametrize("inline", [True, False])
def test_solution_has_the_same_bits_in_any_number_of_lanes(inline):
    x = np.stack([numbers() for _ in range(11)])
    program = trace(solution(inline), {"x": (x.shape[1],)})
    found = assert_same_bits(program, x)
    for row, given in zip(found, x, strict=True):
        K, b = dense(given)
        assert_close(row, np.linalg.solve(K, b), SOLVE * np.linalg.cond(K), 1.0)


@pytest.mark.parametrize("inline", [True, False])
def test_derivatives_equal_differences(inline):
    x = numbers()
    program = trace(solution(inline), {"x": (len(x),)})
    expected = differences(solution(inline), x)
    for found in jacobians(program, x):
        assert_close(found, expected, DIFFERENCE)


def test_a_repeated_constraint_is_left_out():
    """Its unknown is zero; what is left solves the equations of the others."""
    pattern = SaddlePattern(4, 2, [(0, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)], [0, 1, 2, 3])
    entries = [2.0, 3.0, 1.0, -1.0, 2.0, -2.0]
    factor = SaddleFactor(pattern, entries, LOST, inline=False)
    assert factor.worst < 1e-15
    a, b, force, repeated = factor.solve([1.0, 5.0, 0.5, 1.0])
    assert repeated == 0.0
    assert a - b == pytest.approx(0.5, abs=1e-14)
    assert [2 * a + force, 3 * b - force] == pytest.approx([1.0, 5.0], abs=1e-14)


def test_a_constraint_on_nothing_is_left_out():
    pattern = SaddlePattern(2, 1, [(0, 0), (1, 0)], [0, 1])
    factor = SaddleFactor(pattern, [2.0, 0.0], LOST, inline=False)
    assert factor.worst == 0.0
    assert factor.solve([4.0, 7.0]) == [2.0, 0.0]


def test_mass_matrix_that_is_not_positive_definite_is_refused():
    pattern = SaddlePattern(2, 1, [(0, 0), (1, 0)], [0, 1])
    with pytest.raises(DomainError, match="positive definite mass matrix"):
        SaddleFactor(pattern, [0.0, 1.0], LOST, inline=False)
