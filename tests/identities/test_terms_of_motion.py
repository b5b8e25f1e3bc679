"""The terms of the equation of motion, one by one: H vd + C v + gravity force = tau."""

import numpy as np
from hypothesis import given, settings

import tiburon as tb
from tests.oracles import absolute
from tests.running import OnFloats
from tests.strategies import GRAVITY, models, seeds, state
from tests.tolerances import ALGEBRA, DIFFERENCE, DIFFERENCE_STEP, SOLVE, assert_close
from tiburon.algorithms.bias import bias, gravity_forces
from tiburon.algorithms.coriolis import coriolis
from tiburon.algorithms.reactions import split, unit_forces
from tiburon.algorithms.regressor import regressor_rows
from tiburon.functions.dynamics import inertial_parameters
from tiburon.functions.library import LIBRARY
from tiburon.spatial import Force

NO_GRAVITY = (0.0, 0.0, 0.0)
few = settings(max_examples=50)


def largest(x):
    return max(1.0, float(np.abs(x).max(initial=0.0)))


def lists(*arrays):
    return [array.tolist() for array in arrays]


@few
@given(models(), seeds)
def test_bias_force_is_coriolis_times_velocity_plus_gravity(model, seed):
    """ID(q, v, 0) = C v + g, with the three from three recursions."""
    q, v, *_ = state(model, seed)
    total = np.array(bias(model.plan, *lists(q, v), GRAVITY))
    C = np.array(coriolis(model.plan, *lists(q, v)))
    gravity = np.array(gravity_forces(model.plan, q.tolist(), GRAVITY))
    scale = largest(np.abs(C) @ np.abs(v) + np.abs(gravity))
    assert_close(C @ v + gravity, total, ALGEBRA, scale)


@few
@given(models(), seeds)
def test_rate_of_mass_matrix_minus_twice_coriolis_is_skew(model, seed):
    """dH/dt = C + C^T, the rate by central differences along the motion."""
    q, v, *_ = state(model, seed)
    C = np.array(coriolis(model.plan, *lists(q, v)))
    ours = OnFloats(model)
    h = DIFFERENCE_STEP / largest(v)
    after, before = (ours.mass_matrix(model.integrate(q, t * v)) for t in (h, -h))
    # rounding of H is divided by the step; truncation grows with the rate of turning
    scale = largest(after) * largest(v) ** 3
    assert_close(C + C.T, (after - before) / (2.0 * h), DIFFERENCE, scale)


@given(models(), seeds)
def test_gravity_force_is_the_slope_of_potential_energy(model, seed):
    """The work of lifting all bodies by a small step is that of the joint forces."""
    q, *_ = state(model, seed)
    ours = OnFloats(model, GRAVITY)
    h = DIFFERENCE_STEP
    slope = [
        (
            ours.potential_energy(model.integrate(q, h * unit))
            - ours.potential_energy(model.integrate(q, -h * unit))
        )
        / (2.0 * h)
        for unit in np.eye(model.nv)
    ]
    found = gravity_forces(model.plan, q.tolist(), GRAVITY)
    scale = max(largest(found), abs(ours.potential_energy(q)))
    assert_close(found, slope, DIFFERENCE, scale)


@few
@given(models(), seeds)
def test_regressor_times_parameters_is_the_joint_force(model, seed):
    """Y phi = ID, with the user's own bodies and frames, welded ones included."""
    q, v, vd, _ = state(model, seed)
    rows = regressor_rows(model.plan, model.body_names, *lists(q, v, vd), GRAVITY)
    Y, phi = np.array(rows, dtype=float), inertial_parameters(model)
    assert Y.shape == (model.nv, 10 * len(model.bodies))
    expected = absolute.rnea(model, q, v, vd, GRAVITY)
    assert_close(Y @ phi, expected, ALGEBRA, largest(np.abs(Y) @ np.abs(phi)))


def momentum_of(model, q, v, chosen):
    """Return the momentum of some bodies about the world origin."""
    links = absolute.links_of(model, q)
    speeds = absolute.velocities(links, v)
    return sum(links[i].inertia @ speeds[i] for i in chosen)


def beyond(model, name):
    """Return the places of a body and of all that it carries."""
    carried = {name}
    found = []
    for number, body in enumerate(model.bodies):
        if body.name in carried or body.parent in carried:
            carried.add(body.name)
            found.append(number)
    return found


@few
@given(models(most=4), seeds)
def test_joint_reactions_balance_the_load_of_each_joint(model, seed):
    """Newton and Euler: wrench of a joint and weight beyond it are the rate of momentum beyond it.

    In the axes of the user's body, about its origin, whatever frames the dynamics runs in.
    """
    q, v, vd, _ = state(model, seed)
    found = LIBRARY["joint_reactions"].run(model, tb.World(gravity=GRAVITY), (), q, v, vd)
    links = absolute.links_of(model, q)
    h = DIFFERENCE_STEP / largest(v) / np.sqrt(largest(vd))
    moving = [number for number, body in enumerate(model.bodies) if body.joint.nv]
    for place, number in enumerate(moving):
        chosen = beyond(model, model.bodies[number].name)
        after, before = (
            momentum_of(model, model.integrate(q, t * v + 0.5 * t * t * vd), v + t * vd, chosen)
            for t in (h, -h)
        )
        rate = (after - before) / (2.0 * h)
        weight_beyond = sum(links[i].inertia for i in chosen) @ [0.0, 0.0, 0.0, *GRAVITY]
        # forces go to body coordinates by the transpose of the way motions come from there
        to_body = absolute.motion_matrix(links[number].pose).T
        wrench = np.array(found["actuator"][place] + found["bearing"][place], dtype=float)
        terms = largest(after) * largest(v) + largest(rate) + largest(weight_beyond)
        scale = terms * largest(v) ** 2 / min(1.0, h / DIFFERENCE_STEP)
        assert_close(wrench, to_body @ (rate - weight_beyond), DIFFERENCE, scale)


@given(models(), seeds)
def test_bearing_wrenches_do_no_work_and_actuator_wrenches_all_of_it(model, seed):
    """S^T fr = 0 and S^T F = 1: the split is a projector (Featherstone 1987, eq. 7.15)."""
    q, *_ = state(model, seed)
    rng = np.random.default_rng(seed)
    for joint in model.joints:
        S = joint.subspace(q[model.slice(joint.name)].tolist())
        columns = np.array([s.array for s in S], dtype=float).reshape(-1, 6)
        units = np.array([f.array for f in unit_forces(S)], dtype=float).reshape(-1, 6)
        assert_close(columns @ units.T, np.eye(joint.nv))
        f = Force.from_array(rng.standard_normal(6).tolist())
        tau = columns @ f.array.astype(float)
        actuator, bearing = split(S, f)
        reaction = bearing.array.astype(float)
        assert_close(columns @ reaction, np.zeros(joint.nv), scale=10.0)
        assert_close(columns @ actuator.array.astype(float), tau, scale=10.0)
        # what the bearing carries, split again, is all the bearing's
        assert_close(split(S, bearing)[1].array.astype(float), reaction, scale=10.0)


@few
@given(models(), seeds)
def test_forces_and_accelerations_are_reciprocal(model, seed):
    """A force here accelerates there as much as the same force there accelerates here.

    Work of the joint forces of one wrench on the accelerations caused by another, both ways.
    """
    q, v, vd, tau = state(model, seed)
    rng = np.random.default_rng(seed)
    one, other = {"tip": rng.standard_normal(6)}, {"body0": rng.standard_normal(6)}
    ours = OnFloats(model, GRAVITY)

    def felt(wrench):
        return ours.inverse_dynamics(q, v, vd) - ours.inverse_dynamics(q, v, vd, wrench)

    def caused(wrench):
        return ours.forward_dynamics(q, v, tau, wrench) - ours.forward_dynamics(q, v, tau)

    forward, backward = felt(other) @ caused(one), felt(one) @ caused(other)
    H = ours.mass_matrix(q)
    sizes = (
        largest(ours.forward_dynamics(q, v, tau)) + largest(caused(one)) + largest(caused(other))
    )
    scale = (largest(felt(one)) + largest(felt(other))) * sizes * np.linalg.cond(H)
    assert_close(forward, backward, SOLVE, scale)
