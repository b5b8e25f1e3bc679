"""Random functions of a vector, to be run on floats, on complex numbers and on traced values.

A function is a list of choices that a search can shrink: each step applies one operation to
earlier results. Every operation keeps its result within a few units and away from poles, so that
rounding errors stay small and derivatives exist.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

INPUTS = 3

SMOOTH = {
    "add": lambda a, b: 0.5 * (a + b),
    "subtract": lambda a, b: 0.5 * (a - b),
    "multiply": lambda a, b: 0.25 * a * b,
    "divide": lambda a, b: a / (1.5 + 0.2 * b * b),
    "negative": lambda a, b: -a,
    "sin": lambda a, b: np.sin(a + b),
    "cos": lambda a, b: np.cos(a * b),
    "tan": lambda a, b: np.tan(0.3 * np.tanh(a)),
    "sqrt": lambda a, b: np.sqrt(1.0 + a * a),
    "exp": lambda a, b: np.exp(-(a * a)),
    "expm1": lambda a, b: np.expm1(0.3 * np.tanh(b)),
    "log": lambda a, b: np.log(1.0 + a * a),
    "arcsin": lambda a, b: np.arcsin(0.9 * np.tanh(a)),
    "arccos": lambda a, b: np.arccos(0.9 * np.tanh(b)),
    "arctan": lambda a, b: np.arctan(a),
    "sinh": lambda a, b: np.sinh(np.tanh(a)),
    "cosh": lambda a, b: np.cosh(np.tanh(b)),
    "power": lambda a, b: (1.0 + a * a) ** (0.3 * np.tanh(b)),
    "cube": lambda a, b: 0.1 * a**3,
}
"""Operations that also take complex numbers, so that a complex step gives exact derivatives."""

REAL = {
    "abs": lambda a, b: np.abs(a),
    "arctan2": lambda a, b: np.arctan2(a, 1.0 + np.abs(b)),
    "hypot": lambda a, b: np.hypot(a, b),
    "minimum": lambda a, b: np.minimum(a, b),
    "maximum": lambda a, b: np.maximum(a, b),
    "where": lambda a, b: np.where(a < 0.3 * b, a, 0.5 * b),
    "choice": lambda a, b: np.where((a <= b) & ~(a > 0.4) | (b == 0.0), a * b, 0.7),
    "sign": lambda a, b: np.sign(a) * b,
    "floor": lambda a, b: np.floor(3.0 * a) / 8.0 + b,
}
"""Operations with kinks and jumps, on real numbers only."""

Step = tuple[str, int, int]


def steps(operations: dict, most: int = 14) -> st.SearchStrategy[list[Step]]:
    """Draw the steps of a function."""
    names = st.sampled_from(sorted(operations))
    place = st.integers(0, 100)
    return st.lists(st.tuples(names, place, place), min_size=1, max_size=most)


def build(chosen: list[Step]):
    """Return a function of a vector of `INPUTS` numbers; its results are the last few steps'."""
    operations = {**SMOOTH, **REAL}

    def function(x):
        pool = [x[place] for place in range(INPUTS)] + [1.25]
        for name, first, second in chosen:
            a, b = pool[first % len(pool)], pool[second % len(pool)]
            pool.append(operations[name](a, b))
        return np.array([*pool[-3:], pool[0]], like=x)

    return function


def points(count: int) -> np.ndarray:
    """Return a few vectors with no symmetry, shape (count, INPUTS)."""
    return np.random.default_rng(20240611).uniform(-1.5, 1.5, (count, INPUTS))
