"""How closely two numbers must agree, and why; never tuned to pass."""

import numpy as np

EPSILON = float(np.finfo(float).eps)

ALGEBRA = 1e-12
"""Two ways to sum the same few hundred products: each sum loses about the square root of its
length in units of 2e-16, so 1e-14; terms that cancel may be a hundred times their sum."""

SOLVE = 1e3 * EPSILON
"""Per unit of the mass matrix's condition number: what solving for accelerations may lose. Two
stable solvers differ by at most (a small power of) n times the condition number times 2e-16."""

DIFFERENCE_STEP = 1e-5
"""Step of central differences of analytic functions: truncation h^2 = 1e-10 relative, rounding
2e-16 / h = 2e-11 relative; near the optimum of their sum."""

DIFFERENCE = 1e-8
"""What central differences at `DIFFERENCE_STEP` may lose: 1e-10 of the third derivative, which in
states with angular rates up to about 5 rad/s may be a hundred times the first."""

PRINTED = 6e-11
"""Reference values printed with ten decimals: half a unit of the last, with a margin for how the
last digit was rounded."""


def assert_close(actual, expected, tolerance=ALGEBRA, scale=None):
    """Compare arrays with an error allowed relative to the largest expected number.

    Args:
        actual: What was computed.
        expected: What it should be.
        tolerance: Largest error as a fraction of the scale.
        scale: Size of the numbers that were added up; the largest expected one, at least 1, by
            default.
    """
    actual, expected = np.asarray(actual, dtype=float), np.asarray(expected, dtype=float)
    assert actual.shape == expected.shape
    if actual.size == 0:
        return
    scale = max(1.0, float(np.abs(expected).max())) if scale is None else scale
    error = float(np.abs(actual - expected).max())
    assert error <= tolerance * scale, f"error {error:.3g}, allowed {tolerance * scale:.3g}"
