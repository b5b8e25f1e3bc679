"""More places where Featherstone 1987 misleads or leaves a sign open, each tested by its number."""

import numpy as np

import tiburon as tb
from tests.model.samples import random_inertia, random_pose
from tests.tolerances import ALGEBRA, assert_close

NO_GRAVITY = tb.World(gravity=(0.0, 0.0, 0.0))


def crawler(limbs):
    """Build a floating trunk with hinged limbs of two links each, at odd places."""
    rng = np.random.default_rng(31)
    bodies = [tb.Body("trunk", joint=tb.Free("float"), inertia=random_inertia(rng))]
    for limb in range(limbs):
        parent = "trunk"
        for link in range(2):
            joint = tb.Revolute(f"hinge_{limb}_{link}", axis=(0, 0.6, 0.8), pose=random_pose(rng))
            name = f"link_{limb}_{link}"
            bodies.append(tb.Body(name, parent, joint=joint, inertia=random_inertia(rng)))
            parent = name
    return tb.Model("crawler", bodies)


def test_T7_floating_base_depends_on_all_successors():
    """Eq. 7.21 is printed for one: at rest and without weight all momentum must stay zero."""
    model = crawler(3)
    rng = np.random.default_rng(32)
    q, _ = model.random_state(rng)
    wanted = rng.standard_normal(model.nv)
    vd, tau = tb.floating_base_inverse_dynamics(
        model, q, np.zeros(model.nv), wanted, world=NO_GRAVITY
    )
    assert_close(vd[6:], wanted[6:], ALGEBRA)
    assert np.all(tau[:6] == 0.0)
    # at rest the rate of momentum is A vd
    rate = tb.momentum_matrix(model, q) @ vd
    of_limbs = tb.momentum_matrix(model, q)[:, 6:] @ wanted[6:]
    assert np.max(np.abs(rate)) < ALGEBRA * np.max(np.abs(of_limbs))


def test_T17_accelerations_of_a_rolling_ball_are_rates_of_its_velocities():
    """Down a slope the center of a solid ball gains 5/7 g sin(slope), whatever its orientation."""
    slope, radius = 0.3, 0.2
    joint = tb.RollingSphere("ball", radius, pose=tb.Pose.from_rpy((0.0, slope, 0.0)))
    ball = tb.Inertia(2.0, (0.0, 0.0, 0.0), (0.4 * 2.0 * radius**2,) * 3)
    model = tb.Model("marble", [tb.Body("marble", joint=joint, inertia=ball)])
    q, v = model.random_state(33)
    vd = tb.forward_dynamics(model, q, v, np.zeros(3))
    # the axis that turns x, down the slope, into the way the ball rolls is y of the joint frame
    R = tb.Pose.from_quaternion(q[2:]).rotation
    expected = 5.0 / 7.0 * 9.81 * np.sin(slope) / radius
    assert_close(np.array(R) @ vd, [0.0, expected, 0.0], ALGEBRA)


def test_T18_frames_of_modified_tables_sit_on_their_own_joint():
    """A joint does not move the origin of its own frame there; in classic tables it does."""
    ball = tb.Inertia.sphere(1.0, 0.1)
    links = [
        tb.DHLink(a=0.3, d=0.1, alpha=0.4, inertia=ball),
        tb.DHLink(a=0.5, d=-0.2, alpha=-0.7, inertia=ball),
    ]
    moved = {}
    for convention in ("modified", "classic"):
        arm = tb.Model.from_dh("arm", links, convention=convention)
        places = [tb.forward_kinematics(arm, [0.2, q], "frame_2")[1] for q in (0.0, 1.0)]
        moved[convention] = np.linalg.norm(places[1] - places[0])
    assert moved["modified"] < ALGEBRA
    # the origin lies a = 0.5 m off the axis: a chord of one radian
    assert_close(moved["classic"], 2 * 0.5 * np.sin(0.5), ALGEBRA)


def test_T19_external_forces_act_along_their_direction():
    """Eq. 6.28 does not show their sign: p = v x I v - f."""
    body = tb.Body("block", joint=tb.Free("float"), inertia=tb.Inertia.box(2.0, (0.1, 0.2, 0.3)))
    model = tb.Model("block", [body])
    push = {"block": (0.0, 0.0, 0.0, 3.0, -1.0, 0.5)}
    q, still = model.neutral(), np.zeros(6)
    for method in ("articulated", "composite"):
        vd = tb.forward_dynamics(
            model, q, still, still, world=NO_GRAVITY, external_force=push, method=method
        )
        assert_close(vd, [0.0, 0.0, 0.0, 1.5, -0.5, 0.25], ALGEBRA)
    held = tb.inverse_dynamics(model, q, still, still, world=NO_GRAVITY, external_force=push)
    assert_close(held, [0.0, 0.0, 0.0, -3.0, 1.0, -0.5], ALGEBRA)


def test_T20_joint_forces_act_on_the_successor():
    """Their reaction turns the predecessor back: the hinge opens, the momentum stays zero."""
    model = crawler(1)
    q, _ = model.random_state(34)
    still, tau = np.zeros(model.nv), np.array([0, 0, 0, 0, 0, 0, 0.0, 1.3])
    vd = tb.forward_dynamics(model, q, still, tau, world=NO_GRAVITY)
    assert vd[7] > 0.0
    matrix = tb.momentum_matrix(model, q)
    assert np.max(np.abs(matrix @ vd)) < ALGEBRA * np.max(np.abs(matrix * vd))
    reactions = tb.joint_reactions(model, q, still, vd, world=NO_GRAVITY)
    # on the last link, the couple of the actuator is tau about the axis
    assert_close(reactions.actuator[-1], [0.0, 1.3 * 0.6, 1.3 * 0.8, 0.0, 0.0, 0.0], ALGEBRA)
