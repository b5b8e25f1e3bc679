"""Every integrator on every overconstrained linkage: energy is kept to the order of the method."""

import numpy as np
import pytest

from tests.loops.overconstrained import LINKAGES, moving
from tests.loops.test_overconstrained import drift
from tiburon.simulation.integrators.methods import METHODS

ROUNDING = 1e-11
"""Relative energy that a thousand steps may lose by rounding."""


@pytest.mark.slow
@pytest.mark.parametrize("method", list(METHODS))
@pytest.mark.parametrize("name", LINKAGES)
def test_energy_is_kept_to_the_order_of_the_method(name, method):
    model, q = LINKAGES[name]()
    v = moving(model, q)
    fine = drift(model, q, v, method, 1e-3)
    if np.abs(v).max() > 10.0:
        # 0.2 rad per step of 10 ms: too long for blocks of steps, which then diverge and say so
        assert METHODS[method].order < 3 or fine < 1e-4
        return
    coarse = drift(model, q, v, method, 1e-2)
    # lengths of some meters and rates of some rad/s: 1 at order 1, where 10 ms are long
    assert coarse < (0.3 if METHODS[method].order == 1 else 1e-4)
    # a tenth of the step; half an order for what is not yet asymptotic
    assert fine <= 10.0 ** (0.5 - METHODS[method].order) * coarse + ROUNDING
