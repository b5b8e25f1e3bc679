"""Random trees under water: derivatives, joints that follow others, joints that time moves."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import tiburon as tb
from tests.hydro.wet import SEAS, OnFloats, OnGraph, immersed, random_fluid
from tests.strategies import GRAVITY, driven_models, models, seeds, state, tied_models
from tests.tolerances import ALGEBRA, DIFFERENCE, DIFFERENCE_STEP, SOLVE, assert_close
from tiburon.algorithms.aba import aba
from tiburon.algorithms.crba import crba
from tiburon.algorithms.hybrid import coupled_aba
from tiburon.algorithms.joint_space import forward_by_mass_matrix
from tiburon.algorithms.rnea import rnea

NOW = 0.37
"""A time at which drives and waves are away from their middle and on the move [s]."""

any_water = st.sampled_from(sorted(SEAS))
# graphs of derivatives grow with degrees of freedom times bodies
few = settings(max_examples=6)
some = settings(max_examples=20)


def largest(*arrays):
    return max(1.0, *(float(np.abs(x).max(initial=0.0)) for x in arrays))


@few
@given(models(most=3), seeds, any_water)
def test_derivatives_are_central_differences(model, seed, sea):
    """Of inverse dynamics, by steps of position and by velocity, for every joint kind."""
    model = immersed(model, seed)
    q, v, vd, _ = state(model, seed)
    water = SEAS[sea].water
    graph, ours = OnGraph(model, GRAVITY, water), OnFloats(model, GRAVITY, water)
    tau, by_q, by_v, by_vd = graph.run("inverse_dynamics_derivatives", (q, v, vd))
    h = DIFFERENCE_STEP

    def slope(change):
        ends = [(change(h * e) - change(-h * e)) / (2.0 * h) for e in np.eye(model.nv)]
        return np.array(ends).T

    expected = ours.inverse_dynamics(q, v, vd)
    H = ours.mass_matrix(q)
    # forces change by parts of themselves per radian; with the square of speed beyond that
    scale = largest(expected, np.abs(H) @ np.abs(vd)) * largest(v) ** 3
    assert_close(tau, expected, ALGEBRA, 10 * scale)
    assert_close(by_vd, H, ALGEBRA, largest(H))
    steps = slope(lambda e: ours.inverse_dynamics(model.integrate(q, e), v, vd))
    assert_close(by_q, steps, DIFFERENCE, scale)
    assert_close(by_v, slope(lambda e: ours.inverse_dynamics(q, v + e, vd)), DIFFERENCE, scale)


def assert_motion_is_solved(model, seed, sea, forward):
    """All methods of forward dynamics undo inverse dynamics, at a time when things move."""
    model = immersed(model, seed)
    q, v, vd, _ = (x.tolist() for x in state(model, seed))
    ours = OnFloats(model, GRAVITY, SEAS[sea].water, NOW)
    here = ours.setting.at(q, v, NOW)
    plan, external = here.plan, here.external
    H = np.array(crba(plan, q), dtype=float)
    tau = np.array(rnea(plan, q, v, vd, GRAVITY, external), dtype=float)
    held = np.array(rnea(plan, q, v, [0.0] * plan.nv, GRAVITY, external), dtype=float)
    scale = largest(np.abs(H) @ np.abs(vd) + np.abs(held))
    assert_close(H @ vd + held, tau, ALGEBRA, 10 * scale)
    loss = np.linalg.cond(H) * largest(np.linalg.solve(H, tau), np.linalg.solve(H, held))
    for method in (forward, forward_by_mass_matrix):
        found = method(plan, q, v, tau.tolist(), GRAVITY, external)
        assert_close(np.array(found, dtype=float), vd, SOLVE, loss)


@some
@given(tied_models, seeds, any_water)
def test_forward_dynamics_of_coupled_joints_inverts_inverse_dynamics(model, seed, sea):
    """Joints that follow others, wherever shared variables meet in the tree."""
    assert_motion_is_solved(model, seed, sea, coupled_aba)


@some
@given(driven_models, seeds, any_water)
def test_forward_dynamics_of_driven_joints_inverts_inverse_dynamics(model, seed, sea):
    """Joints that time moves, in water that time moves."""
    assert_motion_is_solved(model, seed, sea, aba)


def test_a_driven_body_is_the_same_body_moved_by_its_joint():
    """A hinge driven along a path meets the water as a free hinge on that path does."""
    swing = tb.Harmonic(0.8, frequency=0.4, phase=0.3)
    fluid = random_fluid(np.random.default_rng(3))
    inertia = tb.Inertia(2.0, (0.2, 0.1, 0.0), (0.1, 0.2, 0.3))

    def robot(first):
        tip = tb.Revolute("tip", (0, 1, 0), pose=tb.Pose(translation=(0.4, 0, 0)))
        bodies = [tb.Body("arm", joint=first, inertia=inertia, fluid=fluid)]
        return tb.Model(
            "r", [*bodies, tb.Body("hand", "arm", joint=tip, inertia=inertia, fluid=fluid)]
        )

    moved = robot(tb.Driven("swing", tb.Revolute("turn", (0, 0, 1)), swing))
    free = robot(tb.Revolute("turn", (0, 0, 1)))
    angle, speed, rate = (float(x) for x in swing.at(NOW))
    water = SEAS["wave"].water
    driven = OnFloats(moved, GRAVITY, water, NOW)
    here = driven.setting.at([0.5], [-0.7], NOW)
    found = rnea(here.plan, [0.5], [-0.7], [1.1], GRAVITY, here.external)
    other = OnFloats(free, GRAVITY, water, NOW)
    state_of = np.array([angle, 0.5]), np.array([speed, -0.7]), np.array([rate, 1.1])
    assert_close(found, other.inverse_dynamics(*state_of)[1:])
