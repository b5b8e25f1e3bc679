"""Subsystems that exchange states: penalty and embedding by parts against the whole mechanism."""

import numpy as np
import pytest

import tiburon as tb
from tests.interpreted import interpreting
from tests.loops.random_mechanisms import KINDS, random_mechanism
from tests.loops.test_embedding import SIGMA, reference_rates
from tests.loops.test_stabilization import moving_state
from tiburon.loops.complement_basis import BASES
from tiburon.loops.constraints import constraint_names
from tiburon.loops.parts import exchanges, message_size, part_function, run
from tiburon.loops.subsystems import (
    EmbeddedState,
    PenaltyState,
    Subsystem,
    embedding_method,
    neighbors,
    penalty_method,
    subsystems,
)
from tiburon.reproduce.khan_mechanism import home, mechanism
from tiburon.trace.array import as_traced

PENALTY = tb.Penalty(3e3, 40.0)


def surroundings_of(model, world=None):
    system = tb.System(model, world)
    return lambda q, v: system.setting(q, v, 0.0)


def states_of(parts, q, v):
    return [
        PenaltyState([q[i] for i in part.positions], [v[i] for i in part.velocities])
        for part in parts
    ]


def with_springs(model, q, v, tau, world=None):
    """Return accelerations and forces of loops with springs, from public functions alone."""
    J = np.array(tb.loop_jacobian(model, q))
    value = np.array(tb.constraint_residual(model, q))
    d = PENALTY.damping
    forces = -(PENALTY.stiffness * value + d * (J @ v))
    where = {} if world is None else {"world": world}
    vd = tb.forward_dynamics(model.without_loops(), q, v, tau + J.T @ forces, **where)
    return vd, forces


@pytest.mark.parametrize("kind", KINDS)
@interpreting()
def test_springs_by_parts_are_those_of_the_whole(kind):
    """(2.9), (2.10) against (2.7) where loops are open and moving."""
    rng = np.random.default_rng(KINDS.index(kind))
    model, q = random_mechanism(kind, rng)
    q = model.integrate(q, 0.02 * rng.standard_normal(model.nv))
    v, tau = rng.standard_normal(model.nv), rng.standard_normal(model.nv)
    parts = subsystems(model)
    assert len(parts) == (1 if kind == "floating" else 3)
    method = penalty_method(model, parts, surroundings_of(model), PENALTY, tau.tolist())
    found = run(method, (), states_of(parts, q, v))
    vd, forces = with_springs(model, q, v, tau)
    for part, result in zip(parts, found.results, strict=True):
        np.testing.assert_allclose(
            np.array(result.vd, float), vd[list(part.velocities)], atol=1e-10 * np.abs(vd).max()
        )
        names = [
            name
            for loop in result.forces
            for name in constraint_names(model)
            if name.rpartition(".")[0] == loop
        ]
        rows = [constraint_names(model).index(name) for name in names]
        sent = np.array([x for pushes in result.forces.values() for x in pushes], float)
        np.testing.assert_allclose(sent, forces[rows], atol=1e-10 * np.abs(forces).max())


def test_a_dyad_sends_four_values_and_the_platform_six():
    """The cut of chapter 2: dyads know the platform, the platform all of them."""
    model = mechanism()
    parts = subsystems(model)
    assert neighbors(model, parts) == [[3], [3], [3], [0, 1, 2]]
    q, v = home(), np.linspace(-1.0, 1.0, model.nv)
    method = penalty_method(model, parts, surroundings_of(model), PENALTY, [0.0] * model.nv)
    (step,) = exchanges(method, (), states_of(parts, q, v))
    assert step.sent == (4, 4, 4, 6)
    assert step.received == (6, 6, 6, 12)


def test_the_platform_of_the_zoo_belongs_to_the_leg_that_carries_it():
    model = tb.load("planar_3rrr")
    assert [len(part.velocities) for part in subsystems(model)] == [3, 2, 2]


def test_accelerations_do_not_depend_on_who_computes_which_part():
    """Parts compiled together and apart: the same bits."""
    model = tb.load("planar_3rrr")
    parts = subsystems(model)
    q, v = moving_state(model)
    q = q + 1e-3

    def of(which):
        def accelerations(model, q, v, tau):
            around = surroundings_of(model)
            method = penalty_method(model, parts, around, PENALTY, list(tau))
            states = states_of(parts, list(q), list(v))
            (step,) = method.rounds
            answers, _ = step.solve((), states)
            found = []
            for k in which:
                held = part_function(method.recover, parts[k], name=f"part_{k}")
                found += held(states[k], answers[k]).vd
            return as_traced(found)

        return tb.compile(accelerations, model)(q, v, np.ones(model.nv))

    together = of((0, 1, 2))
    np.testing.assert_array_equal(np.concatenate([of((0,)), of((1, 2))]), together)
    np.testing.assert_array_equal(of((2, 0)), np.concatenate([together[5:], together[:3]]))


def test_parts_that_share_a_tree_are_refused():
    model = tb.load("planar_3rrr")
    parts = dyads(model)
    with pytest.raises(tb.ModelError, match=r"'platform'.*only loops connect.*'dyad 1'"):
        penalty_method(model, parts, surroundings_of(model), PENALTY, [0.0] * model.nv)


def dyads(model):
    """Return legs of the planar 3-RRR and its platform as parts."""
    groups = {f"dyad {k}": (f"theta_{k}", f"theta_{k + 3}") for k in (1, 2, 3)}
    groups["platform"] = ("theta_7",)
    return [
        Subsystem(
            name,
            tuple(int(i) for i in model.indices(list(joints), of="q")),
            tuple(int(i) for i in model.indices(list(joints), of="v")),
        )
        for name, joints in groups.items()
    ]


def test_shares_of_parts_add_up_to_the_whole():
    """K-G20: nu is the sum of the parts' shares, however it was divided at the start (D5)."""
    model = tb.load("planar_3rrr")
    q, v = moving_state(model)
    tau = np.random.default_rng(3).normal(size=model.nv)
    W = BASES["gauss"](np.array(tb.loop_jacobian(model, q)))
    parts, system = dyads(model), tb.System(model)

    def around(position, velocity):
        return system.setting(position, velocity, 0.0)

    method = embedding_method(parts, around, W.tolist(), tau.tolist(), SIGMA)
    expected, _ = reference_rates(model, q, v, tau)
    for seed in (1, 2):
        divided = np.random.default_rng(seed).normal(size=(4, 3))
        divided[-1] = W @ v - divided[:3].sum(axis=0)
        states = [
            EmbeddedState(q[list(part.positions)].tolist(), share.tolist())
            for part, share in zip(parts, divided, strict=True)
        ]
        found = run(method, (), states)
        total = np.sum([result.zd for result in found.results], axis=0)
        np.testing.assert_allclose(total, W @ expected, atol=1e-9 * np.abs(expected).max())
        for part, result in zip(parts, found.results, strict=True):
            np.testing.assert_allclose(
                np.array(result.v, float), v[list(part.velocities)], atol=1e-12
            )
    # each dyad sends two angles and three shares, the platform one joint and three
    assert [message_size(state) for state in states] == [5, 5, 5, 4]


def test_embedded_dyads_send_five_values_and_the_platform_six():
    """Positions, and a share of three independent velocities."""
    parts = subsystems(mechanism())
    states = [EmbeddedState([0.0] * len(part.positions), [0.0] * 3) for part in parts]
    method = embedding_method(parts, None, [[0.0]] * 3, [], SIGMA)
    (step,) = exchanges(method, (), states)
    assert step.sent == (5, 5, 5, 6)
    # all positions, and the sum of all shares
    assert step.received == (12, 12, 12, 12)
