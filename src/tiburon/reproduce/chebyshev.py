"""Smooth functions of time as Chebyshev series, for drives that integrators evaluate at any time.

A table that is interpolated between samples has errors that unstable motions amplify. The series
of a smooth function is accurate to rounding with some tens of terms, and can be traced.
"""

import math
from typing import Any

import numpy as np

from tiburon.arrays import Array, ArrayLike


def chebyshev_nodes(count: int, duration: float) -> Array:
    """Return the times at which a function must be known, rising, within [0, duration] [s]."""
    angles = math.pi * (np.arange(count) + 0.5) / count
    return np.asarray(0.5 * duration * (1.0 - np.cos(angles)))


def chebyshev_series(values: Array) -> Array:
    """Return coefficients from values at the nodes, shape (count, width)."""
    n = len(values)
    angles = math.pi * (np.arange(n) + 0.5) / n
    # cos(angle) falls with the angle, times rise
    found = 2.0 / n * np.cos(np.outer(np.arange(n), angles)) @ values[::-1]
    found[0] *= 0.5
    return np.asarray(found)


def series_value(series: ArrayLike, duration: float, time: Any) -> list[Any]:
    """Return all columns of a series at some time by Clenshaw's recurrence; time may be traced."""
    x = (2.0 / duration) * time - 1.0
    double = x + x
    found = []
    for column in np.asarray(series).T.tolist():
        after = last = 0.0 * x
        for coefficient in column[:0:-1]:
            after, last = double * after - last + coefficient, after
        found.append(x * after - last + column[0])
    return found
