"""Derivatives of inverse dynamics with loops: against differences and forward dynamics."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.loops.dense import dense_constraints
from tests.loops.test_inverse import moving

RANDOM = np.random.default_rng(31)

STEP = 1e-6
"""Of central differences: they keep some nine digits."""


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
    """As many actuators as freedoms, and more: then the shortest forces turn with the loops."""
    whole, q, v = moving("four_bar")
    assert set(joints) <= set(whole.joint_names)
    model = driven(whole, joints)
    vd = tb.forward_dynamics(model, q, v, RANDOM.standard_normal(3))
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
def test_they_undo_the_derivatives_of_forward_dynamics(water):
    """Whatever step is taken, forces that forward dynamics turns into its change come back."""
    model, q, v = moving("four_bar")
    around = {"external_force": {"coupler": RANDOM.standard_normal(6)}}
    if water:
        model, around["fluid"] = wet(model), tb.Water()
    tau = model.actuated([0.7])
    forward = tb.forward_dynamics_derivatives(model, q, v, tau, **around)
    inverse = tb.inverse_dynamics_derivatives(model, q, v, forward.vd, **around)
    np.testing.assert_allclose(inverse.tau, tau, atol=1e-10)
    dq, dv = RANDOM.standard_normal((2, 3))
    push = model.actuated(RANDOM.standard_normal(1))
    change = forward.by_q @ dq + forward.by_v @ dv + forward.by_tau @ push
    found = inverse.by_q @ dq + inverse.by_v @ dv + inverse.by_vd @ change
    # round-off of two small systems
    np.testing.assert_allclose(found, push, atol=1e-10 * np.abs(change).max())


@pytest.mark.slow
def test_they_undo_those_of_a_platform_on_six_legs():
    model, q, v = moving("stewart")
    tau = model.actuated(RANDOM.standard_normal(6))
    forward = tb.forward_dynamics_derivatives(model, q, v, tau)
    inverse = tb.inverse_dynamics_derivatives(model, q, v, forward.vd)
    np.testing.assert_allclose(inverse.tau, tau, atol=1e-8)
    dq, dv = RANDOM.standard_normal((2, model.nv))
    push = model.actuated(RANDOM.standard_normal(6))
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


def test_motions_that_open_loops_are_refused():
    model, q, v = moving("four_bar")
    with pytest.raises(tb.DomainError, match="keep loops closed"):
        tb.inverse_dynamics_derivatives(model, q, v, np.ones(3))
