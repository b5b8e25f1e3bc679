"""Derivatives of forward and inverse dynamics with loops against central differences."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.interpreted import interpreting
from tests.loops.dense import dense_constraints
from tests.loops.test_inverse import moving
from tests.loops.test_projection import near_home
from tiburon.loops.augmented import constrained_acceleration
from tiburon.loops.constraints import constraints
from tiburon.loops.metric import TreeMetric
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
        return TreeMetric(parents_of, elements.tolist()).inverse_D

    program = trace(softness, [Input("H", given.shape)])
    found = np.asarray(interpret(jacobian(program, mode="forward"), {"H": given}))
    direction = RANDOM.standard_normal(len(given)) * given
    ahead, behind = (
        np.asarray(interpret(program, {"H": given + s * STEP * direction})) for s in (1.0, -1.0)
    )
    expected = (ahead - behind) / (2.0 * STEP)
    np.testing.assert_allclose(found @ direction, expected, rtol=1e-6, atol=1e-7)


def _stored(plan):
    from tiburon.algorithms.joint_space import expanded_parents
    from tiburon.trace.primitives.tree import FactorTree

    return list(FactorTree(expanded_parents(plan)).layout.elements())


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

    def slope(*sides):
        ahead, behind = (tb.forward_dynamics(model, *side, closure=False) for side in sides)
        return (ahead - behind) / (2.0 * STEP)

    for k, unit in enumerate(np.eye(model.nv)):
        by_q = slope(*((model.integrate(q, s * STEP * unit), v, tau) for s in (1.0, -1.0)))
        by_v = slope(*((q, v + s * STEP * unit, tau) for s in (1.0, -1.0)))
        by_tau = slope(*((q, v, tau + s * STEP * unit) for s in (1.0, -1.0)))
        np.testing.assert_allclose(found.by_q[:, k], by_q, atol=1e-6)
        np.testing.assert_allclose(found.by_v[:, k], by_v, atol=1e-6)
        np.testing.assert_allclose(found.by_tau[:, k], by_tau, atol=1e-6)


def test_linearization_distinguishes_closed_states_near_each_other(moving_four_bar):
    """One step from a state beside, on the loops, ends where A says, to second order."""
    model, q, v, tau = moving_four_bar
    dt, size = 1e-3, 1e-4
    A, B = tb.linearize(model, q, v, tau, dt=dt)

    def after(q, v, tau):
        run = tb.simulate(
            model.without_passive().without_limits(),
            dt,
            q=q,
            v=v,
            method=tb.RK4(dt=dt),
            command=tau,
        )
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


def test_constraint_residuals_keep_their_rates_in_equilibrium(moving_four_bar):
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


# -- inverse dynamics ------------------------------------------------------------------------------


INVERSE_RANDOM = np.random.default_rng(31)


def driven(model, joints):
    """Return a robot with motors at these joints and no others."""
    motors = [tb.Actuator(f"{name} motor", name) for name in joints]
    return tb.Model(model.name, model.bodies, loops=model.loops, actuators=motors)


def dense_forces(model, q, v, vd, **around):
    """Shortest forces of the actuators by pseudo-inverses; steps off the loops are allowed."""
    tree = model.without_loops()
    needed = tb.inverse_dynamics(tree, q, v, vd, **around)
    J = dense_constraints(model, q).J
    _, s, rows = np.linalg.svd(J)
    N = rows[np.count_nonzero(s > 1e-9 * s[0]) :]
    places = model.indices(model.actuated_joint_names, of="v")
    tau = np.zeros(model.nv)
    tau[places] = np.linalg.pinv(N[:, places]) @ (N @ needed)
    return tau


def differences(function, size):
    """Return central differences of a function of a step, one column per direction."""
    return np.transpose([(function(STEP * e) - function(-STEP * e)) / (2 * STEP) for e in size])


@pytest.mark.parametrize("joints", [("input",), ("input", "output"), ("input", "elbow", "output")])
def test_derivatives_are_those_of_the_shortest_forces(joints):
    """As many actuators as DoF, and more: then the shortest forces turn with the loops."""
    whole, q, v = moving("four_bar")
    assert set(joints) <= set(whole.joint_names)
    model = driven(whole, joints)
    vd = tb.forward_dynamics(model, q, v, INVERSE_RANDOM.standard_normal(3))
    found = tb.inverse_dynamics_derivatives(model, q, v, vd)
    np.testing.assert_allclose(found.tau, dense_forces(model, q, v, vd), atol=1e-11)
    units = np.eye(3)
    by_q = differences(lambda d: dense_forces(model, model.integrate(q, d), v, vd), units)
    by_v = differences(lambda d: dense_forces(model, q, v + d, vd), units)
    by_vd = differences(lambda d: dense_forces(model, q, v, vd + d), units)
    for ours, theirs in ((found.by_q, by_q), (found.by_v, by_v), (found.by_vd, by_vd)):
        np.testing.assert_allclose(ours, theirs, atol=1e-7 * (1.0 + np.abs(theirs).max()))
    undriven = [i for i, name in enumerate(model.v_names) if name not in joints]
    assert not found.by_q[undriven].any()


def wet(model):
    fluid = tb.BodyFluid(volume=1e-3, added_mass=0.2 * np.eye(6), linear_damping=(0.3,) * 6)
    bodies = [replace(body, fluid=fluid) for body in model.bodies]
    return tb.Model("wet", bodies, loops=model.loops, actuators=model.actuators)


@pytest.mark.parametrize("water", [False, True])
@interpreting()
def test_inverse_and_forward_derivatives_are_inverse(water):
    """Whatever step is taken, forces that forward dynamics turns into its change come back."""
    model, q, v = moving("four_bar")
    around = {"external_force": {"coupler": INVERSE_RANDOM.standard_normal(6)}}
    if water:
        model, around["fluid"] = wet(model), tb.Water()
    tau = model.actuated([0.7])
    forward = tb.forward_dynamics_derivatives(model, q, v, tau, **around)
    inverse = tb.inverse_dynamics_derivatives(model, q, v, forward.vd, **around)
    np.testing.assert_allclose(inverse.tau, tau, atol=1e-10)
    dq, dv = INVERSE_RANDOM.standard_normal((2, 3))
    push = model.actuated(INVERSE_RANDOM.standard_normal(1))
    change = forward.by_q @ dq + forward.by_v @ dv + forward.by_tau @ push
    found = inverse.by_q @ dq + inverse.by_v @ dv + inverse.by_vd @ change
    # round-off of two small systems
    np.testing.assert_allclose(found, push, atol=1e-10 * np.abs(change).max())


@pytest.mark.slow
def test_inverse_and_forward_derivatives_of_a_hexapod_are_inverse():
    model, q, v = moving("stewart")
    tau = model.actuated(INVERSE_RANDOM.standard_normal(6))
    forward = tb.forward_dynamics_derivatives(model, q, v, tau)
    inverse = tb.inverse_dynamics_derivatives(model, q, v, forward.vd)
    np.testing.assert_allclose(inverse.tau, tau, atol=1e-8)
    dq, dv = INVERSE_RANDOM.standard_normal((2, model.nv))
    push = model.actuated(INVERSE_RANDOM.standard_normal(6))
    change = forward.by_q @ dq + forward.by_v @ dv + forward.by_tau @ push
    found = inverse.by_q @ dq + inverse.by_v @ dv + inverse.by_vd @ change
    np.testing.assert_allclose(found, push, atol=1e-9 * np.abs(change).max())


def test_a_batch_is_its_cases_one_by_one():
    model, q, v = moving("four_bar")
    states = []
    for force in (0.3, -0.8):
        states.append((q, v, tb.forward_dynamics(model, q, v, model.actuated([force]))))
    batch = tb.inverse_dynamics_derivatives(
        model, *(np.array(part) for part in zip(*states, strict=True))
    )
    for case, state in enumerate(states):
        for many, one in zip(batch, tb.inverse_dynamics_derivatives(model, *state), strict=True):
            np.testing.assert_array_equal(many[case], one)


def test_derivatives_of_motions_that_open_loops_are_refused():
    model, q, v = moving("four_bar")
    with pytest.raises(tb.DomainError, match="keep loops closed"):
        tb.inverse_dynamics_derivatives(model, q, v, np.ones(3))
