"""Inverse and hybrid dynamics and reactions with loops against forward dynamics and statics."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.interpreted import interpreting
from tests.loops.random_mechanisms import random_mechanism
from tests.loops.test_projection import near_home
from tiburon.loops.complement_basis import total_pivots

RANDOM = np.random.default_rng(12)


def moving(name):
    model = tb.load(name)
    q = tb.project_configuration(model, near_home(model, 0.02)).q
    return model, q, tb.project_velocity(model, q, RANDOM.standard_normal(model.nv))


@pytest.mark.parametrize("name", ["four_bar", "planar_3rrr", "stewart"])
@interpreting()
def test_forces_of_the_actuators_are_recovered(name):
    """As many actuators as degrees of freedom: their forces are unique."""
    model, q, v = moving(name)
    joints = model.actuated_joint_names
    tau = model.actuated(RANDOM.standard_normal(len(joints)))
    motion = tb.loop_dynamics(model, q, v, tau)
    found = tb.loop_inverse_dynamics(model, q, v, motion.acceleration)
    np.testing.assert_allclose(found.tau, tau, atol=1e-8 * (1.0 + np.abs(tau).max()))
    np.testing.assert_allclose(
        found.constraint_force,
        motion.constraint_force,
        atol=1e-8 * (1.0 + np.abs(motion.constraint_force).max()),
    )
    np.testing.assert_array_equal(tb.inverse_dynamics(model, q, v, motion.acceleration), found.tau)


def test_more_actuators_share_with_least_squares():
    """All three joints of a four-bar driven: the same motion, by a shorter vector of forces."""
    model, q, v = moving("four_bar")
    tau = np.array([0.7, 0.0, 0.0])
    vd = tb.forward_dynamics(model, q, v, tau)
    shared = tb.loop_inverse_dynamics(model, q, v, vd, actuators=model.joint_names).tau
    assert np.linalg.norm(shared) < np.linalg.norm(tau)
    np.testing.assert_allclose(tb.forward_dynamics(model, q, v, shared), vd, atol=1e-9)


@interpreting()
def test_legs_of_a_platform_at_rest_carry_its_weight():
    """Statics: what the legs' motors do in a small lift is the weight lifted."""
    model, q, _ = moving("stewart")
    rest = np.zeros(model.nv)
    tau = tb.loop_inverse_dynamics(model, q, rest, rest).tau
    lift = tb.project_velocity(model, q, RANDOM.standard_normal(model.nv))
    tree = model.without_loops()
    np.testing.assert_allclose(tau @ lift, tb.gravity_force(tree, q) @ lift, rtol=1e-9)


def test_actuators_that_cannot_drive_it_are_refused():
    model, q, v = moving("planar_3rrr")
    vd = tb.forward_dynamics(model, q, v, np.ones(model.nv))
    with pytest.raises(tb.DomainError, match="actuators that can drive"):
        tb.loop_inverse_dynamics(model, q, v, vd, actuators=model.actuated_joint_names[:1])


@interpreting()
def test_a_robot_without_actuators_needs_no_forces_and_takes_no_others():
    """A disc rolls by itself."""
    model = tb.load("rolling_disc")
    q = np.array(model.poses["home"])
    v = tb.project_velocity(model, q, np.random.default_rng(3).standard_normal(model.nv))
    vd = tb.forward_dynamics(model, q, v, np.zeros(model.nv))
    assert np.abs(vd).max() > 0.1
    assert not tb.inverse_dynamics(model, q, v, vd).any()
    for slope in tb.inverse_dynamics_derivatives(model, q, v, vd):
        assert not np.any(slope)
    with pytest.raises(tb.DomainError, match="the robot has none, and moves as forward_dynamics"):
        tb.inverse_dynamics(model, q, v, tb.project_acceleration(model, q, v, vd + 1.0))


@interpreting()
def test_motions_that_open_loops_are_refused():
    model, q, v = moving("stewart")
    with pytest.raises(tb.DomainError, match="keep loops closed"):
        tb.loop_inverse_dynamics(model, q, v, np.ones(model.nv))


# -- external forces and inertias, water, couplings ------------------------------------------------


CONDITIONS_RANDOM = np.random.default_rng(28)


@interpreting()
def test_forces_are_recovered_under_all_conditions():
    """Inverse after forward dynamics, with water, a push on a link and an inertia beside it."""
    dry, q, v = moving("four_bar")
    fluid = tb.BodyFluid(volume=1e-3, added_mass=0.2 * np.eye(6), linear_damping=(0.3,) * 6)
    model = tb.Model(
        "wet",
        [replace(body, fluid=fluid) for body in dry.bodies],
        loops=dry.loops,
        actuators=dry.actuators,
    )
    around = {
        "fluid": tb.Water(),
        "external_force": {"coupler": CONDITIONS_RANDOM.standard_normal(6)},
        "external_inertia": {"rocker": 0.4 * np.eye(6)},
    }
    tau = model.actuated([0.9])
    motion = tb.loop_dynamics(model, q, v, tau, **around)
    # each of them matters
    for name in around:
        others = {key: value for key, value in around.items() if key != name}
        changed = tb.forward_dynamics(model, q, v, tau, **others)
        assert np.abs(changed - motion.acceleration).max() > 1e-3
    found = tb.loop_inverse_dynamics(model, q, v, motion.acceleration, **around)
    np.testing.assert_allclose(found.tau, tau, atol=1e-9)
    np.testing.assert_allclose(found.constraint_force, motion.constraint_force, atol=1e-8)


def test_nonlinear_coupling_of_joints_holds_in_a_run():
    """One joint follows a parabola of another: energy of one freedom is kept, the tie holds."""
    rod = tb.Inertia(1.0, (0.5, 0.0, 0.0), (1e-3, 0.0, 0.0, 0.1, 0.0, 0.1))
    bodies = [
        tb.Body("first", joint=tb.Revolute("lead", (0, 1, 0)), inertia=rod),
        tb.Body("second", "first", joint=tb.Revolute("follow", (0, 1, 0)), inertia=rod),
    ]
    tie = tb.JointCoupling("cam", "follow", "lead", (0.2, -0.5, 0.3))
    model = tb.Model("cam", bodies, loops=[tie])
    tree = model.without_loops()
    q = np.array([0.4, 0.2 - 0.5 * 0.4 + 0.3 * 0.4**2])
    v = tb.project_velocity(model, q, np.array([1.5, 0.0]))
    np.testing.assert_allclose(v[1], (-0.5 + 2.0 * 0.3 * 0.4) * v[0], atol=1e-12)
    run = tb.simulate(model, 1.0, q=q, v=v)
    x = run.q[:, 0]
    np.testing.assert_allclose(run.q[:, 1], 0.2 - 0.5 * x + 0.3 * x**2, atol=1e-11)
    energy = tb.kinetic_energy(tree, run.q, run.v) + tb.potential_energy(tree, run.q)
    assert np.ptp(x) > 0.3
    # steps of 1 ms at some radians per second
    assert np.ptp(energy) < 1e-8 * np.abs(energy).max()


# -- joint reactions and hybrid dynamics -----------------------------------------------------------


REACTIONS_RANDOM = np.random.default_rng(24)


def world_wrench(model, q, frame, wrench):
    """Return a wrench in axes of a frame about its origin in world axes about the world's."""
    R, p = tb.forward_kinematics(model, q, frames=[frame])
    n, f = R[0] @ wrench[:3], R[0] @ wrench[3:]
    return np.concatenate([n + np.cross(p[0], f), f])


@pytest.mark.parametrize("name", ["four_bar", "planar_3rrr"])
@interpreting()
def test_wrenches_of_all_joints_move_every_body(name):
    """Newton and Euler for the whole: what the ground carries is the rate of momentum less weight.

    A body of the tree meets its own joint, those it bears, and loops; summed over all bodies only
    those to the ground are left.
    """
    model, q, v = moving(name)
    tree = model.without_loops()
    tau = REACTIONS_RANDOM.standard_normal(model.nv)
    found = tb.loop_reactions(model, q, v, tau)
    np.testing.assert_array_equal(found.acceleration, tb.forward_dynamics(model, q, v, tau))
    total = np.zeros(6)
    joints = [b for b in model.bodies if not isinstance(b.joint, tb.Fixed)]
    for body, actuator, bearing in zip(joints, found.actuator, found.bearing, strict=True):
        if body.parent == "world":
            total += world_wrench(model, q, body.name, actuator + bearing)
    # none of these loops is closed to the world: they are forces within
    assert all("world" not in (loop.first, loop.second) for loop in model.loops)
    # rate of momentum by central differences along the motion; they keep some nine digits
    h = 1e-6
    ahead, behind = (
        momentum_about_origin(
            tree, model.integrate(q, s * h * (v + 0.5 * s * h * a)), v + s * h * a
        )
        for s, a in ((1.0, found.acceleration), (-1.0, found.acceleration))
    )
    com, mass = tb.center_of_mass(tree, q), model.total_mass
    weight = mass * np.array([0.0, 0.0, -9.81])
    expected = (ahead - behind) / (2.0 * h) - np.concatenate([np.cross(com, weight), weight])
    np.testing.assert_allclose(total, expected, atol=1e-6 * (1.0 + np.abs(expected).max()))


def momentum_about_origin(tree, q, v):
    h = tb.momentum(tree, q, v)
    com = tb.center_of_mass(tree, q)
    return np.concatenate([h[:3] + np.cross(com, h[3:]), h[3:]])


def test_reactions_of_a_motion_are_those_of_its_forces():
    model, q, v = moving("four_bar")
    tau = model.actuated([0.8])
    given = tb.loop_reactions(model, q, v, tau)
    found = tb.joint_reactions(model, q, v, given.acceleration)
    np.testing.assert_allclose(found.tau, tau, atol=1e-9)
    np.testing.assert_allclose(found.bearing, given.bearing, atol=1e-8)
    np.testing.assert_allclose(found.actuator, given.actuator, atol=1e-8)


def test_a_cut_hinge_carries_no_moment_about_its_axis():
    model, q, _ = moving("four_bar")
    found = tb.loop_reactions(model, q, np.zeros(3), np.zeros(3))
    (loop,) = model.loops
    axis = np.array(loop.joint.axis)
    assert abs(found.loop[0, :3] @ axis) < 1e-12
    assert np.abs(found.loop[0, 3:]).max() > 0.1


def test_hybrid_dynamics_of_the_driven_joint_is_inverse_dynamics():
    model, q, v = moving("four_bar")
    vd = tb.forward_dynamics(model, q, v, np.array([0.6, 0.1, -0.2]))
    rates, forces = tb.hybrid_dynamics(
        model, q, v, np.array([0.0, 0.1, -0.2]), vd, known_acceleration=["input"]
    )
    np.testing.assert_allclose(rates, vd, atol=1e-9 * np.abs(vd).max())
    np.testing.assert_allclose(forces, [0.6, 0.1, -0.2], atol=1e-9)


def test_hybrid_dynamics_refuses_accelerations_that_open_loops():
    model, q, v = moving("four_bar")
    with pytest.raises(tb.DomainError, match="keep loops closed"):
        tb.hybrid_dynamics(
            model, q, v, np.zeros(3), np.ones(3), known_acceleration=["input", "elbow"]
        )


# structures: loops that permit no motion


def random_structure(kind, seed):
    """A random planar mechanism whose independent joints are tied to others; and its position."""
    rng = np.random.default_rng(seed)
    model, q = random_mechanism(kind, rng)
    jacobian = np.asarray(tb.loop_jacobian(model, q))
    names = model.joint_names
    chosen = [k for k in range(model.nv) if k not in total_pivots(jacobian).columns]
    ties = []
    for k in chosen:
        leader = int(rng.choice([i for i in range(model.nv) if i != k]))
        slope = rng.uniform(0.2, 0.9)
        coefficients = (q[k] - slope * q[leader], slope)
        ties.append(tb.JointCoupling(f"tie {k}", names[k], names[leader], coefficients))
    actuators = [tb.Actuator(f"motor {name}", name) for name in names]
    return model.with_loops(*ties).with_actuators(*actuators), q


def truss(height):
    """Two bars of length 1 pinned to the ground and to each other; and its position."""
    bar = tb.Inertia(2.0, (0.5, 0.0, 0.0), (0.001, 0.0, 0.0, 0.17, 0.0, 0.17))
    width, angle = 2.0 * np.cos(height), height
    axis = (0.0, -1.0, 0.0)
    tip = tb.Pose(translation=(1.0, 0.0, 0.0))
    second = tb.Revolute("jb", axis, pose=tb.Pose(translation=(width, 0.0, 0.0)))
    bodies = [
        tb.Body("a", joint=tb.Revolute("ja", axis), inertia=bar),
        tb.Body("b", joint=second, inertia=bar),
    ]
    pin = tb.LoopClosure("apex", "a", "b", tb.Revolute("pin", axis, pose=tip), tip)
    motors = [tb.Actuator("ma", "ja"), tb.Actuator("mb", "jb")]
    return tb.Model("truss", bodies, loops=[pin], actuators=motors), np.array(
        [angle, np.pi - angle]
    )


STRUCTURES = {
    **{
        f"{kind} {seed}": (random_structure, kind, seed)
        for kind in ("planar", "redundant")
        for seed in range(3)
    },
    # nearly flat: the singular values of the constraints differ by the height
    **{f"truss {height}": (truss, height) for height in (0.9, 1e-2, 1e-4)},
}


@pytest.mark.parametrize("name", STRUCTURES)
@interpreting()
def test_motors_of_a_structure_at_rest_need_no_force(name):
    """Loops carry all of it: forces of least norm are zero, whatever rounding leaves of P E."""
    make, *arguments = STRUCTURES[name]
    model, q = make(*arguments)
    rest = np.zeros(model.nv)
    assert tb.mobility(model, q).mobility == 0
    push = {model.bodies[-1].name: [0.3, -0.2, 0.4, 5.0, -7.0, 3.0]}
    found = tb.loop_inverse_dynamics(model, q, rest, rest, external_force=push)
    np.testing.assert_array_equal(found.tau, rest)
    # and they carry it: the nearly flat truss by forces of 1 / height
    moved = tb.loop_dynamics(model, q, rest, rest, external_force=push).acceleration
    scale = np.abs(found.constraint_force).max()
    np.testing.assert_allclose(moved, rest, atol=1e-11 * (1.0 + scale))


@pytest.mark.parametrize("name", STRUCTURES)
@interpreting()
def test_links_of_a_structure_have_no_apparent_inertia(name):
    """No force moves them: rank 0."""
    make, *arguments = STRUCTURES[name]
    model, q = make(*arguments)
    frame = model.bodies[1].name
    found = tb.apparent_inertia(model, q, frame)
    assert found.rank == 0
    np.testing.assert_array_equal(found.inertia, np.zeros((6, 6)))


@interpreting()
def test_inertia_of_a_platform_that_legs_hold_is_refused():
    """Legs tied to passive joints hold the platform in all six directions: no inverse exists."""
    model = tb.load("stewart")
    q = tb.project_configuration(model, near_home(model, 0.02)).q
    driven = model.actuated_joint_names
    passive = [joint.name for joint in model.joints if joint.nv == 1 and joint.name not in driven]
    leaders = passive or [*driven[1:], driven[0]]
    ties = []
    for k, name in enumerate(driven):
        at, lead = (q[model.slice(one, of="q").start] for one in (name, leaders[k]))
        tie = tb.JointCoupling(f"tie {k}", name, leaders[k], (at - 0.4 * lead, 0.4))
        ties.append(tie)
    held = model.with_loops(*ties)
    assert tb.mobility(held, q).mobility == 0
    assert tb.apparent_inertia(held, q, "platform").rank == 0
    with pytest.raises(tb.DomainError, match="independent directions in this configuration"):
        tb.operational_space_inertia(held, q, "platform")
