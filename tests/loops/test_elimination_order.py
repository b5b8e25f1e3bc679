"""The factorization without pivoting serves every robot of the zoo with independent constraints."""

import numpy as np

import tiburon as tb
from tests.loops.dense import closed, dense_constraints
from tiburon import zoo
from tiburon.loops import augmented
from tiburon.loops.augmented import WELL_CONDITIONED, loop_pattern, solve_augmented

OVERCONSTRAINED = {"bricard", "chaplygin_sleigh", "kerr_roth_grasp"}
"""Robots with redundant constraints in every configuration: the pivoted factorization is theirs."""


def test_fast_factorization_at_closed_configurations(monkeypatch):
    """Home pose and random closed configurations of all robots but the large need no pivoting."""
    robots = [tb.load(name) for name in zoo.names()]
    robots = [robot for robot in robots if robot.loops and not loop_pattern(robot).is_large]
    assert {robot.name for robot in robots} > OVERCONSTRAINED
    for robot in robots:
        with monkeypatch.context() as patch:
            check_factorization(robot, patch)


def check_factorization(model, monkeypatch):
    """Factorize at closed configurations of a robot, and look at the smallest pivots."""
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
        q = closed(model, start)
        assert np.abs(dense_constraints(model, q).value).max(initial=0.0) < 1e-12
        plan, pattern = model.plan, loop_pattern(model)
        terms = augmented.constraints(model, plan, augmented.JointVector(list(q)))
        with augmented.taping(None):
            H = augmented.mass_elements(plan, augmented.JointVector(list(q)))
        mass = [H[i * model.nv + j] for i, j in pattern.mass]
        zeros = [0.0] * model.nv
        solve_augmented(model, plan, mass, terms.jacobian, zeros, [0.0] * len(terms.jacobian))
    if model.name in OVERCONSTRAINED:
        assert max(worst) < WELL_CONDITIONED, model.name
    else:
        # ten times the limit: no sample is there by chance
        assert min(worst) > 10.0 * WELL_CONDITIONED, model.name
