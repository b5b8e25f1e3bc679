"""What joints carry where loops are closed; hybrid dynamics with loops."""

import numpy as np
import pytest

import tiburon as tb
from tests.loops.test_inverse import moving

RANDOM = np.random.default_rng(24)


def world_wrench(model, q, frame, wrench):
    """Return a wrench in axes of a frame about its origin in world axes about the world's."""
    R, p = tb.forward_kinematics(model, q, frames=[frame])
    n, f = R[0] @ wrench[:3], R[0] @ wrench[3:]
    return np.concatenate([n + np.cross(p[0], f), f])


@pytest.mark.parametrize("name", ["four_bar", "planar_3rrr"])
def test_wrenches_of_all_joints_move_every_body(name):
    """Newton and Euler for the whole: what the ground carries is the rate of momentum less weight.

    A body of the tree meets its own joint, those it bears, and loops; summed over all bodies only
    those to the ground are left.
    """
    model, q, v = moving(name)
    tree = model.without_loops()
    tau = RANDOM.standard_normal(model.nv)
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
