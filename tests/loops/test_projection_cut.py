"""Beside singular poses projections leave alone what rounding decides."""

import numpy as np
import pytest

import tiburon as tb
from tests.loops.dense import dense_constraints
from tests.loops.test_methods import dense, motion
from tiburon.algorithms.crba import crba
from tiburon.algorithms.tape_calls import JointVector
from tiburon.loops import projection

RANDOM = np.random.default_rng(36)

BRANCH = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
"""How two four-bars lean; at a quarter turn they lie on one line and could go several ways."""

ROUNDING = 1e-13
"""What a step may leave of gaps, far below what counts as closed [rad]."""


def jump(distance):
    """Project a state of the branch with rounding beside its singular pose.

    Returns:
        Largest change of the velocity of some cases, in the metric of the mass matrix.
    """
    model = tb.load("n_four_bar_2")
    found = []
    for _ in range(5):
        off = ROUNDING * RANDOM.standard_normal(5)
        q, v = JointVector(list((np.pi / 2 - distance) * BRANCH + off)), list(0.7 * BRANCH)
        closed = projection.close_position(model, model.plan, q, least_steps=1)
        kept = projection.close_velocity(model, model.plan, closed.q, v)
        change = np.array(kept) - v
        H = np.array(crba(model.plan, q), dtype=float)
        found.append(np.sqrt(change @ H @ change))
        assert closed.gap < 1e-12
    return max(found)


@pytest.mark.parametrize("distance", [1e-3, 1e-4, 1e-5, 1e-6, 1e-7])
def test_projections_do_not_turn_velocities(distance):
    assert jump(distance) < 1e-6


def test_without_the_cut_rounding_would_turn_them(monkeypatch):
    """Rounding over the squared distance: the check above can fail."""
    monkeypatch.setattr(projection, "CUT", 1e-10)
    assert jump(1e-6) > 1e-6


@pytest.mark.parametrize("distance", [1e-1, 1e-3, 1e-5])
def test_the_ratio_tells_how_near_a_singular_pose_is(distance):
    """Rows that shrink together are as singular as rows that repeat each other."""
    model = tb.load("n_four_bar_2")
    q, v = (np.pi / 2 - distance) * BRANCH, 0.7 * BRANCH
    _, _, ratio, _ = dense(model, q, v, np.zeros(5))
    assert np.abs(dense_constraints(model, q).value).max() < 1e-12
    for method in ("augmented", "handles"):
        # an estimate from pivots: right to a small factor
        found = float(motion(model, q, v, np.zeros(5), method).ratio)
        assert ratio / 3.0 < found < 3.0 * ratio, method
