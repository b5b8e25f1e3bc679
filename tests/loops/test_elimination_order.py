"""The factorization without pivoting serves every robot of the zoo with independent constraints."""

import numpy as np
import pytest

import tiburon as tb
from tiburon import zoo
from tiburon.loops import augmented
from tiburon.loops.augmented import WELL_CONDITIONED, loop_pattern, solve_augmented

OVERCONSTRAINED = {"bricard", "chaplygin_sleigh", "kerr_roth_grasp"}
"""Robots with redundant constraints in every configuration: the pivoted factorization is theirs."""


def _robots():
    """Return the robots with loops that are small enough for the pivoted factorization."""
    loaded = {name: tb.load(name) for name in zoo.names()}
    return [n for n, m in loaded.items() if m.loops and not loop_pattern(m).is_large]


@pytest.mark.parametrize("name", _robots())
def test_fast_factorization_at_closed_configurations(name, monkeypatch):
    """Home pose and random closed configurations need no pivoting."""
    model = tb.load(name)
    rng = np.random.default_rng(5)
    home = np.array(model.poses.get("home", model.neutral()))
    starts = [home] + [model.integrate(home, 0.1 * rng.normal(size=model.nv)) for _ in range(3)]
    worst = []

    class Recorded(augmented.SaddleFactor):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            worst.append(self.worst)

    monkeypatch.setattr(augmented, "SaddleFactor", Recorded)
    for start in starts:
        q = tb.assemble(model, start).q
        plan, pattern = model.plan, loop_pattern(model)
        terms = augmented.constraints(model, plan, augmented.JointVector(list(q)))
        with augmented.taping(None):
            H = augmented.mass_elements(plan, augmented.JointVector(list(q)))
        mass = [H[i * model.nv + j] for i, j in pattern.mass]
        zeros = [0.0] * model.nv
        solve_augmented(model, plan, mass, terms.jacobian, zeros, [0.0] * len(terms.jacobian))
    if name in OVERCONSTRAINED:
        assert max(worst) < WELL_CONDITIONED
    else:
        # ten times the limit: no sample is there by chance
        assert min(worst) > 10.0 * WELL_CONDITIONED
