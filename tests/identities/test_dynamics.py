"""A = B on random trees: what the algorithms owe each other and the laws of motion."""

import numpy as np
import pytest
from hypothesis import given, settings

from tests.oracles import absolute
from tests.robots import ROBOTS
from tests.running import WAYS, OnFloats
from tests.strategies import GRAVITY, models, seeds, state
from tests.tolerances import ALGEBRA, DIFFERENCE, DIFFERENCE_STEP, SOLVE, assert_close

NO_GRAVITY = (0.0, 0.0, 0.0)

on_floats_and_graph = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
# tracing takes a hundred times as long as running: fewer trees, the same identities
few = settings(max_examples=25)


def largest(x):
    return max(1.0, float(np.abs(x).max()))


@on_floats_and_graph
@few
@given(models(), seeds)
def test_forward_dynamics_inverts_inverse_dynamics(way, model, seed):
    """FD(ID(vd)) = vd."""
    q, v, vd, _ = state(model, seed)
    ours = way(model, GRAVITY)
    tau = ours.inverse_dynamics(q, v, vd)
    # errors of tau relative to its terms are what the mass matrix magnifies
    H = ours.mass_matrix(q)
    scale = largest(np.linalg.solve(H, tau)) * np.linalg.cond(H)
    assert_close(ours.forward_dynamics(q, v, tau), vd, SOLVE, max(scale, largest(vd)))


@on_floats_and_graph
@few
@given(models(), seeds)
def test_inverse_dynamics_inverts_forward_dynamics(way, model, seed):
    """ID(FD(tau)) = tau."""
    q, v, _, tau = state(model, seed)
    ours = way(model, GRAVITY)
    vd = ours.forward_dynamics(q, v, tau)
    H = ours.mass_matrix(q)
    bias = ours.inverse_dynamics(q, v, 0.0 * vd)
    # the forces that cancel: inertia times acceleration, against velocity and gravity terms
    scale = largest(np.abs(H) @ np.abs(vd) + np.abs(bias))
    assert_close(ours.inverse_dynamics(q, v, vd), tau, ALGEBRA, scale)


@on_floats_and_graph
@few
@given(models(), seeds)
def test_mass_matrix_columns_are_forces_of_unit_accelerations(way, model, seed):
    """H e_k = ID(q, 0, e_k) without gravity, the first method of Featherstone 1987, sec. 5.2."""
    q, *_ = state(model, seed)
    ours = way(model, NO_GRAVITY)
    at_rest = np.zeros(model.nv)
    columns = [ours.inverse_dynamics(q, at_rest, unit) for unit in np.eye(model.nv)]
    assert_close(ours.mass_matrix(q), np.array(columns).T)


@given(models(), seeds)
def test_mass_matrix_is_symmetric_and_positive_definite(model, seed):
    """H = H^T exactly, and every motion has energy."""
    q, *_ = state(model, seed)
    H = OnFloats(model).mass_matrix(q)
    assert np.array_equal(H, H.T)
    assert np.linalg.eigvalsh(H).min() > 0.0


@on_floats_and_graph
@few
@given(models(), seeds)
def test_kinetic_energy_equals_half_v_M_v(way, model, seed):
    """T = 1/2 v . H v."""
    q, v, _, _ = state(model, seed)
    ours = way(model)
    H = ours.mass_matrix(q)
    scale = largest(np.abs(v) @ np.abs(H) @ np.abs(v))
    assert_close(ours.kinetic_energy(q, v), 0.5 * v @ H @ v, ALGEBRA, scale)


@given(models(), seeds)
def test_energy_rate_equals_power_of_joint_and_external_forces(model, seed):
    """d(T + U)/dt = tau . v + the power of a force at a frame."""
    q, v, _, tau = state(model, seed)
    external = {"tip": np.random.default_rng(seed).standard_normal(6)}
    ours = OnFloats(model, GRAVITY)
    vd = ours.forward_dynamics(q, v, tau, external)
    h = DIFFERENCE_STEP / largest(v) / np.sqrt(largest(vd))

    def energy(t):
        at, speed = model.integrate(q, t * v + 0.5 * t * t * vd), v + t * vd
        return ours.kinetic_energy(at, speed) + ours.potential_energy(at)

    rate = (energy(h) - energy(-h)) / (2.0 * h)
    # the frame's velocity: its place after a short while, seen from where it was
    before, after = (absolute.frame_pose(model, model.integrate(q, t * v), "tip") for t in (-h, h))
    turn = before[:3, :3].T @ after[:3, :3]
    spin = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
    now = absolute.frame_pose(model, q, "tip")
    speed = now[:3, :3].T @ (after[:3, 3] - before[:3, 3])
    power = tau @ v + np.concatenate([0.5 * spin, speed]) @ external["tip"] / (2.0 * h)
    terms = [
        np.abs(tau) @ np.abs(v),
        np.abs(v) @ np.abs(ours.mass_matrix(q)) @ np.abs(vd),
        ours.kinetic_energy(q, v) * largest(v),
        abs(ours.potential_energy(q)),
    ]
    # rounding of the energies themselves is divided by the step
    scale = max(1.0, *terms) / min(1.0, h / DIFFERENCE_STEP)
    assert abs(rate - power) <= DIFFERENCE * scale


@given(models(kinds=("revolute", "prismatic", "fixed", "free"), root=("free",)), seeds)
def test_momentum_of_a_free_floating_system_is_conserved(model, seed):
    """Without gravity and without force on the base, internal forces change no momentum."""
    q, v, _, tau = state(model, seed)
    for body in model.bodies:
        if body.parent == "world":
            tau[model.slice(body.joint.name, of="v")] = 0.0
    vd = OnFloats(model, NO_GRAVITY).forward_dynamics(q, v, tau)
    h = DIFFERENCE_STEP / largest(v) / np.sqrt(largest(vd))
    after, before = (
        absolute.momentum(model, model.integrate(q, t * v + 0.5 * t * t * vd), v + t * vd)
        for t in (h, -h)
    )
    # single bodies exchange momentum at this rate, which cancels in the sum
    H = absolute.crba(model, q)
    exchanged = largest(np.abs(H) @ np.abs(vd)) + largest(v) * largest(np.abs(H) @ np.abs(v))
    scale = exchanged / min(1.0, h / DIFFERENCE_STEP)
    assert float(np.abs(after - before).max()) / (2.0 * h) <= DIFFERENCE * scale


@on_floats_and_graph
@few
@given(models(), seeds)
def test_external_force_is_balanced_by_the_joint_forces_it_replaces(way, model, seed):
    """A wrench on a frame does the work of J^T w, found from the power of unit velocities."""
    q, v, vd, _ = state(model, seed)
    wrench = np.random.default_rng(seed).standard_normal(6)
    ours = way(model, GRAVITY)
    with_force = ours.inverse_dynamics(q, v, vd, {"tip": wrench})
    without = ours.inverse_dynamics(q, v, vd)
    links = absolute.links_of(model, q)
    # velocity of the carrier of the frame for unit joint velocities, in frame coordinates
    X = np.linalg.inv(absolute.motion_matrix(absolute.frame_pose(model, q, "tip")))
    jacobian = np.array([X @ absolute.velocities(links, unit)[-1] for unit in np.eye(model.nv)]).T
    scale = largest(with_force) + largest(without)
    assert_close(without - with_force, jacobian.T @ wrench, ALGEBRA, scale)


@given(models(), seeds)
def test_gravity_compensation_holds_a_robot_at_rest(model, seed):
    """At rest under ID(q, 0, 0) nothing moves, and the force is the slope of potential energy."""
    q, *_ = state(model, seed)
    ours = OnFloats(model, GRAVITY)
    rest = np.zeros(model.nv)
    tau = ours.inverse_dynamics(q, rest, rest)
    h = DIFFERENCE_STEP
    slope = [
        (
            ours.potential_energy(model.integrate(q, h * unit))
            - ours.potential_energy(model.integrate(q, -h * unit))
        )
        / (2.0 * h)
        for unit in np.eye(model.nv)
    ]
    scale = max(largest(tau), abs(ours.potential_energy(q)))
    assert_close(tau, slope, DIFFERENCE, scale)


@pytest.mark.parametrize("name", ROBOTS)
def test_forward_dynamics_solves_the_equation_of_motion_on_the_fixed_robots(name):
    """H FD + bias = tau, with both sides from other algorithms."""
    model = ROBOTS[name]
    q, v, _, tau = state(model, 5)
    ours = OnFloats(model, GRAVITY)
    H, bias = ours.mass_matrix(q), ours.inverse_dynamics(q, v, np.zeros(model.nv))
    expected = np.linalg.solve(H, tau - bias)
    scale = largest(expected) * np.linalg.cond(H)
    assert_close(ours.forward_dynamics(q, v, tau), expected, SOLVE, scale)
