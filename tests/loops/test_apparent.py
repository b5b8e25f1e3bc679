"""Inertias of handles: against dense algebra, with loops and without, grounded and afloat."""

import numpy as np
import pytest

import tiburon as tb
from tests.interpreted import interpreting
from tests.loops.dense import closed, dense_constraints


@pytest.fixture(scope="module", autouse=True)
def interpreted():
    """Formulas are tested here, not their code."""
    with interpreting():
        yield


RANDOM = np.random.default_rng(13)


def dense_inverse(model, q, frames):
    """J (H^-1 - H^-1 C^T (C H^-1 C^T)^+ C H^-1) J^T, C the rows of the loops."""
    tree = model.without_loops()
    H = tb.mass_matrix(tree, q)
    J = np.vstack([tb.frame_jacobian(tree, q, name) for name in frames])
    G = np.linalg.solve(np.linalg.cholesky(H), J.T)
    if model.loops:
        C = np.linalg.solve(np.linalg.cholesky(H), dense_constraints(model, q).J.T)
        G = G - C @ (np.linalg.pinv(C, rcond=1e-10) @ G)
    return G.T @ G


@pytest.mark.parametrize(
    ("name", "frames", "rank"),
    [
        ("four_bar", ("coupler", "rocker"), 1),
        ("stewart", ("platform",), 6),
        ("puma560", None, 6),
    ],
)
def test_inverse_inertia_is_that_of_dense_algebra(name, frames, rank):
    model = tb.load(name)
    frames = frames or (model.bodies[-1].name,)
    q = model.integrate(model.neutral(), 0.3 * RANDOM.standard_normal(model.nv))
    if model.loops:
        start = model.poses.get("home", model.neutral())
        q = closed(model, model.integrate(start, 0.05 * RANDOM.standard_normal(model.nv)))
    found = tb.apparent_inertia(model, q, frames)
    expected = dense_inverse(model, q, frames)
    # round-off of two factorizations
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found.inverse, expected, atol=1e-11 * scale)
    assert found.rank == rank
    seen = found.inverse @ found.inertia @ found.inverse
    np.testing.assert_allclose(seen, found.inverse, atol=1e-9 * scale)


def test_apparent_inertia_of_a_free_body_is_its_own():
    inertia = tb.Inertia(2.0, (0.0, 0.0, 0.0), (0.3, 0.0, 0.0, 0.4, 0.0, 0.5))
    model = tb.Model("stone", [tb.Body("stone", joint=tb.Free("float"), inertia=inertia)])
    found = tb.apparent_inertia(model, model.neutral(), "stone")
    expected = np.diag([0.3, 0.4, 0.5, 2.0, 2.0, 2.0])
    np.testing.assert_allclose(found.inertia, expected, atol=1e-14)


def test_unknown_frames_raise_an_error():
    model = tb.load("four_bar")
    with pytest.raises(tb.UnknownNameError, match="elbow"):
        tb.apparent_inertia(model, model.neutral(), "elbow")
