"""Methods of forward dynamics with loops agree with each other and with dense linear algebra."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.loops.dense import allowed, closed, dense_constraints
from tests.loops.random_mechanisms import KINDS, random_mechanism
from tiburon.algorithms.conditions import Setting
from tiburon.algorithms.crba import crba
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.tape_calls import JointVector
from tiburon.loops.constraints import constraints
from tiburon.loops.handles import ArticulatedMetric
from tiburon.loops.methods import METHODS, constrained_motion, residual

RANDOM = np.random.default_rng(12)

GRAVITY = (0.3, -0.2, -9.81)

TOLERANCE = 1e-9
"""Between methods, relative: round-off over a squared ratio of singular values of 1e-3."""


def dense(model, q, v, tau, gravity=GRAVITY):
    """Solve the augmented system densely: accelerations, shortest forces, ratio, rank."""
    plan, position, velocity = model.plan, JointVector(q), JointVector(v)
    H = np.array(crba(plan, position), dtype=float)
    C = np.array(rnea(plan, position, velocity, JointVector(np.zeros(model.nv)), gravity))
    held = dense_constraints(model, q, v)
    L = np.linalg.cholesky(H)
    G = np.linalg.solve(L, held.J.T)
    sizes = np.linalg.svd(G, compute_uv=False)
    sizes = sizes[sizes > 1e-10 * sizes[0]]
    free = np.linalg.solve(H, tau - C)
    y = np.linalg.pinv(G.T, rcond=1e-10) @ (-held.bias - held.J @ free)
    vd = free + np.linalg.solve(L.T, y)
    return vd, np.linalg.pinv(G, rcond=1e-10) @ y, sizes[-1] / sizes[0], len(sizes)


def motion(model, q, v, tau, method, gravity=GRAVITY, plan=None):
    """Run one method on floats."""
    around = Setting(model, (("method", method),), (), plan or model.plan, gravity)
    return constrained_motion(around, *(JointVector(list(x)) for x in (q, v, tau)))


def kicked(model, q):
    return q, allowed(model, q, RANDOM.standard_normal(model.nv)), RANDOM.standard_normal(model.nv)


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_methods_agree_with_dense_algebra_on_random_mechanisms(kind, number):
    model, q = random_mechanism(kind, np.random.default_rng([number, KINDS.index(kind)]))
    assert np.abs(dense_constraints(model, q).value).max() < 1e-12
    q, v, tau = kicked(model, q)
    expected, forces, ratio, rank = dense(model, q, v, tau)
    assert ratio > 1e-3
    if kind == "redundant":
        assert rank < np.count_nonzero(np.abs(dense_constraints(model, q).J).max(axis=1) > 1e-9)
    for method in METHODS:
        found = motion(model, q, v, tau, method)
        np.testing.assert_allclose(
            found.vd, expected, atol=TOLERANCE * np.abs(expected).max(), err_msg=method
        )
        # repeated constraints share their forces only as far as proximal passes come
        loose = 1e-5 if method == "proximal" else TOLERANCE
        np.testing.assert_allclose(
            found.multipliers, forces, atol=loose * np.abs(forces).max(), err_msg=method
        )
        assert found.rank == (-1.0 if method == "proximal" else rank)


@pytest.mark.parametrize("method", ["augmented", "handles"])
@pytest.mark.parametrize("distance", [1e-2, 1e-4, 1e-6])
def test_near_a_singular_pose_nothing_is_squared(method, distance):
    """Two four-bars next to lying flat: ratios of singular values down to 1e-6."""
    model = tb.load("n_four_bar_2")
    lean = np.pi / 2 - distance
    leaning = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    q, v = lean * leaning, 0.7 * leaning
    tau = RANDOM.standard_normal(5)
    _, _, ratio, _ = dense(model, q, v, tau)
    assert 1e-7 < ratio < 2.0 * distance
    found = motion(model, q, v, tau, method)
    # one freedom: what the joints do must add up along it, whatever loops carry (principle of
    # virtual power), and loops must stay closed
    H = np.array(crba(model.plan, JointVector(q)), dtype=float)
    C = np.array(
        rnea(model.plan, JointVector(q), JointVector(v), JointVector(np.zeros(5)), GRAVITY)
    )
    rate = leaning @ (tau - C) / (leaning @ H @ leaning)
    # round-off over the ratio itself
    np.testing.assert_allclose(found.vd, rate * leaning, atol=1e-14 / ratio * 100.0)


def test_proximal_passes_and_residual_are_told():
    model = tb.load("bricard")
    q = closed(model, model.integrate(model.neutral(), 0.05 * RANDOM.standard_normal(model.nv)))
    q, v, tau = kicked(model, q)
    found = tb.loop_dynamics(model, q, v, tau, method="proximal")
    assert 1 <= found.iterations <= 10
    J, bias = dense_constraints(model, q, v)[1:]
    left = np.abs(J @ found.acceleration + bias).max()
    np.testing.assert_allclose(found.residual, left, atol=1e-13)
    assert found.residual < 1e-9
    assert found.rank == -1


def test_residual_sees_what_is_wrong():
    model = tb.load("four_bar")
    q, v, tau = kicked(model, closed(model, model.poses["home"]))
    held = constraints(model, model.plan, JointVector(q), JointVector(v))
    found = motion(model, q, v, tau, "handles")
    assert residual(held, found.vd) < 1e-12
    wrong = [found.vd[0] + 0.1, *found.vd[1:]]
    assert residual(held, wrong) > 1e-3


def test_articulated_bodies_factor_the_mass_matrix():
    """J H^-1 J^T = sum over joints of shares (Featherstone 1987, eq. 9.27, from the world out)."""
    model, q = random_mechanism("floating", np.random.default_rng(5))
    metric = ArticulatedMetric(model.plan, JointVector(q))
    J = dense_constraints(model, q).J
    shares = [metric.lowered({i: x for i, x in enumerate(row) if x != 0.0}) for row in J]
    G = np.zeros(J.shape)
    for row, share in zip(G, shares, strict=True):
        for i, x in share.items():
            row[i] = x * np.sqrt(metric.softness[i])
    H = np.array(crba(model.plan, JointVector(q)), dtype=float)
    np.testing.assert_allclose(G @ G.T, J @ np.linalg.solve(H, J.T), atol=1e-11)


@pytest.mark.parametrize("method", METHODS)
def test_falling_freely_loops_carry_nothing(method):
    """T12: gravity must not pull at the world's end of a loop.

    A robot that falls as a whole, hung on nothing but a free joint, feels no loop forces at rest.
    """
    model, q = random_mechanism("floating", np.random.default_rng(6))
    at_rest = np.zeros(model.nv)
    found = motion(model, q, at_rest, at_rest, method)
    assert np.abs(found.multipliers).max() < 1e-9
    still = motion(model, q, at_rest, at_rest, method, gravity=(0.0, 0.0, 0.0))
    assert np.abs(still.vd).max() == 0.0


@pytest.mark.parametrize("method", METHODS)
def test_loops_closed_to_the_world_feel_gravity_once(method):
    """T12: a pendulum pinned to the world twice at one point swings as if pinned once."""
    body = tb.Body(
        "bob",
        joint=tb.Revolute("pivot", (0.0, 1.0, 0.0)),
        inertia=tb.Inertia(2.0, (0.5, 0.0, 0.0), (0.1, 0.0, 0.0, 0.2, 0.0, 0.2)),
    )
    pin = tb.LoopClosure("again", "world", "bob", tb.Revolute("pin", (0.0, 1.0, 0.0)))
    model = tb.Model("pinned twice", [body], loops=[pin])
    free = tb.Model("free", [replace(body, joint=tb.Free("float"))], loops=[pin])
    q, v = np.array([0.4]), np.array([1.3])
    # m g c cos(q) / (I + m c^2), about +y downward from the x axis
    expected = 2.0 * 9.81 * 0.5 * np.cos(0.4) / (0.2 + 2.0 * 0.25)
    half = 0.2
    afloat = np.array([np.cos(half), 0.0, np.sin(half), 0.0, 0.0, 0.0, 0.0])
    turning = np.array([0.0, 1.3, 0.0, 0.0, 0.0, 0.0])
    earth = (0.0, 0.0, -9.81)
    found = motion(free, afloat, turning, np.zeros(6), method, gravity=earth)
    np.testing.assert_allclose(found.vd[1], expected, rtol=1e-9)
    found = motion(model, q, v, np.zeros(1), method, gravity=earth)
    np.testing.assert_allclose(found.vd[0], expected, rtol=1e-9)


def test_methods_are_offered_by_name():
    model = tb.load("four_bar")
    state = model.poses["home"], np.zeros(3), np.zeros(3)
    with pytest.raises(tb.OptionError, match="handles"):
        tb.forward_dynamics(model, *state, method="articulated")
    with pytest.raises(tb.OptionError, match="composite"):
        tb.forward_dynamics(model.without_loops(), *state, method="handles")
