"""Identities on random trees with joints that follow others, and joints that time moves."""

import numpy as np
from hypothesis import given, settings

from tests.strategies import (
    GRAVITY,
    driven_models,
    seeds,
    state,
    tied_and_driven_models,
    tied_models,
)
from tests.tolerances import ALGEBRA, DIFFERENCE, DIFFERENCE_STEP, SOLVE, assert_close
from tiburon.algorithms.aba import aba
from tiburon.algorithms.bias import bias, gravity_forces
from tiburon.algorithms.coriolis import coriolis
from tiburon.algorithms.crba import crba
from tiburon.algorithms.energy import kinetic, potential
from tiburon.algorithms.hybrid import coupled_aba, hybrid_aba, hybrid_crba
from tiburon.algorithms.joint_space import forward_by_mass_matrix
from tiburon.algorithms.regressor import regressor_rows
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.tape_calls import scalars
from tiburon.functions.dynamics import inertial_parameters
from tiburon.functions.library import LIBRARY

NOW = 0.37
"""A time at which drives are away from their middle and on the move [s]."""

few = settings(max_examples=40)


def largest(*arrays):
    return max(1.0, *(float(np.abs(x).max(initial=0.0)) for x in arrays))


def at_now(model, seed):
    """Return the layout at the time, and a kicked state with two more vectors."""
    return model.plan.at(NOW), *map(scalars, state(model, seed))


def array(x):
    return np.array(x, dtype=float)


def assert_motion_is_solved(plan, q, v, vd, tau, forward):
    """Forward dynamics undoes inverse dynamics, and the terms of motion add up."""
    H = array(crba(plan, q)).reshape(plan.nv, plan.nv)
    force = array(rnea(plan, q, v, vd, GRAVITY))
    C = array(bias(plan, q, v, GRAVITY))
    # what is added up: inertia times acceleration, and the bias, each body at several times speed
    terms = np.abs(H) @ np.abs(array(vd)) + np.abs(C)
    assert_close(H @ array(vd) + C, force, ALGEBRA, 10 * largest(terms))
    loss = np.linalg.cond(H) * largest(np.linalg.solve(H, force), np.linalg.solve(H, C))
    for method in (forward, forward_by_mass_matrix):
        found = array(method(plan, q, v, scalars(force), GRAVITY))
        assert_close(found, array(vd), SOLVE, loss)
    known = [bool(row % 2) for row in range(plan.nv)]
    for hybrid in (hybrid_aba, hybrid_crba):
        rates, forces = hybrid(plan, q, v, scalars(force), vd, known, GRAVITY)
        assert_close(array(rates), array(vd), SOLVE, loss)
        assert_close(array(forces), force, SOLVE, np.linalg.cond(H) * largest(terms, force))


@few
@given(tied_models, seeds)
def test_forward_dynamics_of_coupled_joints_inverts_inverse_dynamics(model, seed):
    """All methods of forward and hybrid dynamics, wherever shared variables meet in the tree."""
    assert_motion_is_solved(*at_now(model, seed), forward=coupled_aba)


@few
@given(driven_models, seeds)
def test_forward_dynamics_of_driven_joints_inverts_inverse_dynamics(model, seed):
    """The same at a time when drives move and accelerate."""
    assert_motion_is_solved(*at_now(model, seed), forward=aba)


@few
@given(tied_models, seeds)
def test_power_of_joint_forces_is_the_rate_of_energy_of_coupled_robots(model, seed):
    """dT/dt + dV/dt = tau . v along a motion of constant acceleration."""
    q, v, vd, _ = state(model, seed)
    h = DIFFERENCE_STEP / largest(v) / np.sqrt(largest(vd))
    energies = []
    for t in (h, -h):
        there = model.integrate(q, t * v + 0.5 * t * t * vd), v + t * vd
        at, rate = map(scalars, there)
        energies.append(
            float(kinetic(model.plan, at, rate)) + float(potential(model.plan, at, GRAVITY))
        )
    tau = array(rnea(model.plan, *map(scalars, (q, v, vd)), GRAVITY))
    slope = (energies[0] - energies[1]) / (2 * h)
    # third derivatives grow with the cube of speeds that ratios of up to 3 raise
    size = largest(*energies) * (3.0 * largest(v)) ** 3 / min(1.0, h / DIFFERENCE_STEP)
    assert_close(np.array([slope]), np.array([tau @ v]), DIFFERENCE, size)


@few
@given(tied_models, seeds)
def test_rate_of_the_mass_matrix_of_coupled_robots_is_twice_coriolis(model, seed):
    """dH/dt = C + C^T along a motion, and C v is the bias force without weight."""
    plan, q, v, *_ = at_now(model, seed)
    C = array(coriolis(plan, q, v)).reshape(plan.nv, plan.nv)
    held = array(bias(plan, q, v, GRAVITY)) - array(gravity_forces(plan, q, GRAVITY))
    assert_close(C @ array(v), held, ALGEBRA, 100 * largest(held, C) * largest(array(v)))
    h = DIFFERENCE_STEP / largest(array(v))
    ahead, behind = (
        array(crba(plan, scalars(model.integrate(q, t * array(v))))).reshape(C.shape)
        for t in (h, -h)
    )
    size = largest(ahead) * (3.0 * largest(array(v))) ** 3
    assert_close((ahead - behind) / (2 * h), C + C.T, DIFFERENCE, size)


@few
@given(tied_and_driven_models, seeds)
def test_regressor_times_parameters_is_the_joint_force(model, seed):
    """Y p = ID(q, v, vd), followers and drives in one tree."""
    plan, q, v, vd, _ = at_now(model, seed)
    Y = array(regressor_rows(plan, model.body_names, q, v, vd, GRAVITY)).reshape(plan.nv, -1)
    parameters = inertial_parameters(model).ravel()
    expected = array(rnea(plan, q, v, vd, GRAVITY))
    size = largest(np.abs(Y) @ np.abs(parameters))
    assert_close(Y @ parameters, expected, ALGEBRA, size)


@few
@given(tied_models, seeds)
def test_inverse_inertia_of_frames_of_coupled_robots_is_J_over_M_J(model, seed):
    """J M^-1 J^T of the frame at the tip, through articulated bodies with shared variables."""
    q, *_ = state(model, seed)
    options = (("frames", ("tip",)),)
    found = array(LIBRARY["operational_space_inverse_inertia"].run(model, None, options, q))
    J = array(LIBRARY["frame_jacobian"].run(model, None, options, q)).reshape(6, model.nv)
    H = array(crba(model.plan, scalars(q))).reshape(model.nv, model.nv)
    expected = J @ np.linalg.solve(H, J.T)
    assert_close(found, expected, SOLVE, largest(expected) * np.linalg.cond(H))
