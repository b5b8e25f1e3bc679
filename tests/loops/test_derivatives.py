"""Derivatives of dynamics with loops against central differences."""

import numpy as np
import pytest

import tiburon as tb
from tests.loops.test_projection import near_home
from tiburon.loops.augmented import TreeMetric, constrained_acceleration
from tiburon.loops.constraints import constraints
from tiburon.trace.derivative import jacobian
from tiburon.trace.interpret import interpret
from tiburon.trace.program import Input, trace

RANDOM = np.random.default_rng(22)

STEP = 1e-6
"""Of central differences: they keep some nine digits."""


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_graph_of_accelerations_has_the_derivatives_of_its_values(mode):
    """Through the careful way too, which every derivative takes."""
    model = tb.load("four_bar")
    q = tb.project_configuration(model, near_home(model, 0.02)).q
    at = np.concatenate([q, RANDOM.standard_normal(2 * model.nv)])

    def accelerations(given):
        q, v, tau = np.split(given, 3)
        q, v, tau = q.tolist(), v.tolist(), tau.tolist()
        held = constraints(model, model.plan, q, v)
        found = constrained_acceleration(model, model.plan, held, q, v, tau, (0.0, 0.0, -9.81))
        return list(found.vd)

    program = trace(accelerations, [Input("state", at.shape)])
    found = np.asarray(interpret(jacobian(program, mode=mode), {"state": at}))

    def value(state):
        return np.asarray(interpret(program, {"state": state}))

    expected = [
        (value(at + STEP * unit) - value(at - STEP * unit)) / (2.0 * STEP)
        for unit in np.eye(len(at))
    ]
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, np.transpose(expected), atol=1e-7 * scale)


def test_factors_of_the_metric_change_with_the_matrix():
    """L and D one by one: L^T D L = H holds for the derivatives of L and D as well."""
    model = tb.load("stewart")
    parents_of = model.plan
    H = tb.mass_matrix(model.without_loops(), near_home(model, 0.1))
    pairs = _stored(parents_of)
    given = np.array([H[i, j] for i, j in pairs])

    def softness(elements):
        return TreeMetric(parents_of, elements.tolist()).softness

    program = trace(softness, [Input("H", given.shape)])
    found = np.asarray(interpret(jacobian(program, mode="forward"), {"H": given}))
    direction = RANDOM.standard_normal(len(given)) * given
    ahead, behind = (
        np.asarray(interpret(program, {"H": given + s * STEP * direction})) for s in (1.0, -1.0)
    )
    expected = (ahead - behind) / (2.0 * STEP)
    np.testing.assert_allclose(found @ direction, expected, rtol=1e-6, atol=1e-7)


def _stored(plan):
    from tiburon.algorithms.joint_space import freedom_parents
    from tiburon.trace.primitives.tree import FactorTree

    return list(FactorTree(freedom_parents(plan)).layout.elements())


@pytest.fixture(scope="module")
def moving_four_bar():
    model = tb.load("four_bar")
    q = np.array(model.poses["home"])
    v = tb.project_velocity(model, q, np.array([1.2, 0.3, -0.7]))
    return model, q, v, np.array([0.3, -0.1, 0.2])


def test_derivatives_of_accelerations_are_those_of_forward_dynamics(moving_four_bar):
    """Central differences along every step, those that leave the loops included."""
    model, q, v, tau = moving_four_bar
    found = tb.forward_dynamics_derivatives(model, q, v, tau)

    def slope(ahead, behind):
        return (tb.forward_dynamics(model, *ahead) - tb.forward_dynamics(model, *behind)) / (
            2.0 * STEP
        )

    for k, unit in enumerate(np.eye(model.nv)):
        by_q = slope(*((model.integrate(q, s * STEP * unit), v, tau) for s in (1.0, -1.0)))
        by_v = slope(*((q, v + s * STEP * unit, tau) for s in (1.0, -1.0)))
        by_tau = slope(*((q, v, tau + s * STEP * unit) for s in (1.0, -1.0)))
        np.testing.assert_allclose(found.by_q[:, k], by_q, atol=1e-6)
        np.testing.assert_allclose(found.by_v[:, k], by_v, atol=1e-6)
        np.testing.assert_allclose(found.by_tau[:, k], by_tau, atol=1e-6)


def test_linearization_tells_closed_states_near_each_other(moving_four_bar):
    """One step from a state beside, on the loops, ends where A says, to second order."""
    model, q, v, tau = moving_four_bar
    dt, size = 1e-3, 1e-4
    A, B = tb.linearize(model, q, v, tau, dt=dt)

    def after(q, v, tau):
        run = tb.simulate(model, dt, q=q, v=v, dt=dt, command=tau, passive=False, limits=False)
        return run.q[-1], run.v[-1]

    aside = tb.project_velocity(model, q, np.array([1.0, 0.0, 0.0]))
    moved = tb.project_configuration(model, model.integrate(q, size * aside)).q
    faster = tb.project_velocity(model, moved, v + size * np.array([0.5, 0.0, 0.0]))
    x = np.concatenate([model.difference(q, moved), faster - v])
    push = size * np.array([0.0, 1.0, 0.0])
    q0, v0 = after(q, v, tau)
    q1, v1 = after(moved, faster, tau + push)
    found = np.concatenate([model.difference(q0, q1), v1 - v0])
    np.testing.assert_allclose(found, A @ x + B @ push, atol=100.0 * size**2)


def test_in_equilibrium_gaps_keep_their_rates(moving_four_bar):
    """Two eigenvalues of the one freedom, and zeros along what would open the loop."""
    model, q, _, _ = moving_four_bar
    rest = np.zeros(model.nv)
    A, _ = tb.linearize(model, q, rest, tb.inverse_dynamics(model, q, rest, rest))
    J = tb.loop_jacobian(model, q)
    assert np.abs(J @ A[model.nv :]).max() < 1e-12
    found = np.sort(np.abs(np.linalg.eigvals(A)))
    # zeros that come in chains are found to the root of rounding
    assert found[3] < 1e-6
    assert found[4] > 1.0
