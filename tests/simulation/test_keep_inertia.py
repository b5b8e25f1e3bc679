"""Runs that keep the mass matrix over some steps (Featherstone 1987, section 8.4)."""

import numpy as np
import pytest

import tiburon as tb
from tests.robots import double_pendulum

START = np.array([0.4, -0.7])


def end(**options):
    return tb.simulate(double_pendulum(), 0.5, v=START, **options).q[-1]


def test_the_error_grows_with_the_interval_and_is_small():
    exact = end()
    errors = [np.abs(end(method=tb.RK4(keep_inertia=k)) - exact).max() for k in (1, 4, 16)]
    assert 0.0 < errors[0] < errors[1] < errors[2] < 0.02


def test_methods_that_cannot_keep_inertia_are_refused():
    with pytest.raises(tb.TiburonError, match="keep_inertia"):
        end(method=tb.RK4(keep_inertia=0))
    with pytest.raises(TypeError, match="keep_inertia"):
        end(method=tb.PredictorCorrector(keep_inertia=2))
