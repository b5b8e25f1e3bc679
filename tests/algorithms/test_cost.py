"""Predicted costs of forward dynamics against counts of traced kernels."""

import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import random_inertia, random_pose, random_tree
from tests.model.test_coupled import tied
from tests.robots import ROBOTS
from tiburon.algorithms import cost
from tiburon.functions import dynamics
from tiburon.functions.kernel_source import LibrarySource
from tiburon.trace.count import count

TYPICAL = ["forest", "odd_arm", "balloon", "orrery", "screw_chain", "rover", "panda", "quadruped"]

FORMULA = 0.25
"""What a formula of a few features of each body may be off by: zeros among constants that traced
kernels fold, such as a product with a single component of velocity, are none of its features."""


def counted(model, method):
    source = LibrarySource(model, ("forward_dynamics",), tb.World(), (("method", method),))
    found = count(source.program())
    return found.multiplications + found.additions + found.divisions


@pytest.fixture
def operations_only(monkeypatch):
    """Let operations of loops count as operations."""
    monkeypatch.setattr(cost, "LOOP_FACTOR", 1.0)
    monkeypatch.setattr(cost, "LOOP_ROW", 0.0)


@pytest.mark.parametrize("name", TYPICAL)
@pytest.mark.usefixtures("operations_only")
def test_predicted_operations_are_those_of_traced_kernels(name):
    """Every kind of joint, chains and trees, fixed and floating, to a quarter."""
    model = ROBOTS[name]
    assert cost.articulated_cost(model.plan) == pytest.approx(
        counted(model, "articulated"), rel=FORMULA
    )
    assert cost.composite_cost(model.plan) == pytest.approx(
        counted(model, "composite"), rel=FORMULA
    )


@pytest.mark.parametrize("seed", [1, 4, 6])
@pytest.mark.usefixtures("operations_only")
def test_the_cheaper_method_of_random_trees_is_predicted(seed):
    """Where counts differ by more than the formula is good for, it names the smaller one."""
    model = random_tree(seed, 5 + seed, ("revolute", "free", "spherical", "screw"))
    a, b = counted(model, "articulated"), counted(model, "composite")
    assert max(a, b) > (1.0 + FORMULA) * min(a, b)
    assert (cost.articulated_cost(model.plan) < cost.composite_cost(model.plan)) == (a < b)


@pytest.mark.usefixtures("operations_only")
def test_shared_variables_are_predicted_to_cost_more_than_none():
    """What stays open costs: less than twice the count, more than half of it."""
    model = tied(1, "free")
    predicted = cost.articulated_cost(model.plan) / counted(model, "articulated")
    assert 0.5 < predicted < 2.0


@pytest.mark.parametrize("linked", [1, 2, 200], ids=["bush", "pairs", "chain"])
def test_no_graph_is_made_beyond_six_dof(linked, monkeypatch):
    """Two hundred joints in chains of one, two or all: the formula decides, nothing is traced."""
    rng = np.random.default_rng(4)
    bodies = []
    for k in range(200):
        parent = f"b{k - 1}" if k % linked else "world"
        joint = tb.Revolute(f"j{k}", pose=random_pose(rng))
        bodies.append(tb.Body(f"b{k}", parent, joint=joint, inertia=random_inertia(rng)))
    monkeypatch.setattr(dynamics, "LibrarySource", None)
    # the factorization is a loop in memory, whose rows alone cost more than short chains
    assert dynamics.cheaper_method(tb.Model(f"chains of {linked}", bodies)) == "articulated"
