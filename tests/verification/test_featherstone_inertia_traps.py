"""Where Featherstone 1987 prints an articulated-body inertia for a rigid one, tested by number."""

import numpy as np

import tiburon as tb
from tests.model.samples import random_inertia, random_pose
from tests.tolerances import ALGEBRA, SOLVE, assert_close

G = np.array([1.5, -2.5, -9.0])
WORLD = tb.World(gravity=tuple(G))
NO_GRAVITY = tb.World(gravity=(0.0, 0.0, 0.0))


def tree():
    """Return a trunk with a limb of two links and one of one link, at odd places."""
    rng = np.random.default_rng(51)
    parents = {"trunk": "world", "upper": "trunk", "lower": "upper", "arm": "trunk"}
    bodies = []
    for name, parent in parents.items():
        joint = tb.Revolute(f"j_{name}", (0, 0.6, 0.8), pose=random_pose(rng))
        bodies.append(tb.Body(name, parent, joint=joint, inertia=random_inertia(rng)))
    return tb.Model("tree", bodies)


def needed_alone(model, name, q, v, vd):
    """Return the wrench that moves one rigid body, less its weight, body axes at its origin.

    Newton and Euler: f = m (a_c - g), n = I_c alpha + omega x I_c omega + c x f.
    """
    body = model.body(name).inertia
    R = tb.forward_kinematics(model, q, name)[0]
    omega = tb.frame_velocity(model, q, v, name, axes="frame")[:3]
    alpha, a = np.split(tb.frame_acceleration(model, q, v, vd, name, axes="frame"), 2)
    c = np.array(body.com)
    I_c = body.matrix
    a_c = a + np.cross(alpha, c) + np.cross(omega, np.cross(omega, c))
    f = body.mass * (a_c - R.T @ G)
    n = I_c @ alpha + np.cross(omega, I_c @ omega) + np.cross(c, f)
    return np.concatenate([n, f])


def in_parent(model, name, q, wrench):
    """Return a wrench on a body in axes of its parent, about the parent's origin."""
    R, p = tb.forward_kinematics(model, q, name)
    R0, p0 = tb.forward_kinematics(model, q, model.body(name).parent)
    n, f = R @ wrench[:3], R @ wrench[3:]
    return np.concatenate([R0.T @ (n + np.cross(p - p0, f)), R0.T @ f])


def test_T4_forces_transmitted_by_joints_act_on_the_rigid_body():
    """Eq. 6.30: the force on body 1 less that on its successors is I_1 a_1 + p_1, not I^A_1."""
    model = tree()
    rng = np.random.default_rng(52)
    q, v = model.random_state(rng)
    vd = tb.forward_dynamics(model, q, v, rng.standard_normal(model.nv), world=WORLD)
    carried = tb.joint_reactions(model, q, v, vd, world=WORLD)
    names = [body.name for body in model.bodies]
    wrench = dict(zip(names, carried.actuator + carried.bearing, strict=True))
    for body in model.bodies:
        beyond = [child.name for child in model.bodies if child.parent == body.name]
        left = wrench[body.name] - sum(in_parent(model, x, q, wrench[x]) for x in beyond)
        scale = max(np.abs(x).max() for x in wrench.values())
        assert_close(left, needed_alone(model, body.name, q, v, vd), ALGEBRA, scale)


def test_T5_joint_of_known_acceleration_transmits_inertia_as_a_weld():
    """Eq. 7.35: with I^A for I the subtree beyond the joint would be counted twice."""
    model = tree()
    rng = np.random.default_rng(53)
    q, v = model.random_state(rng)
    tau = rng.standard_normal(model.nv)
    known = model.slice("j_upper", of="v")
    v[known] = 0.0
    welded = model.lock({"j_upper": q[model.slice("j_upper")]})
    others = [row for row in range(model.nv) if row != known.start]
    expected = tb.forward_dynamics(welded, q[others], v[others], tau[others], world=WORLD)
    for method in ("articulated", "composite"):
        vd, _ = tb.hybrid_dynamics(
            model, q, v, tau, np.zeros(model.nv), "j_upper", method=method, world=WORLD
        )
        scale = np.abs(expected).max() * np.linalg.cond(tb.mass_matrix(welded, q[others]))
        assert_close(vd[others], expected, SOLVE, scale)


def test_T6_the_base_of_a_floating_robot_is_rigid():
    """Text before eq. 7.21: limbs of given acceleration push back on I_0 and on themselves.

    From rest, one limb: (I_0 + X^T I_1 X) a_0 = -X^T I_1 S vdd, with rigid inertias.
    """
    rng = np.random.default_rng(54)
    bodies = [
        tb.Body("trunk", joint=tb.Free("float"), inertia=random_inertia(rng)),
        tb.Body(
            "limb",
            "trunk",
            joint=tb.Revolute("hinge", (0, 0.6, 0.8), pose=random_pose(rng)),
            inertia=random_inertia(rng),
        ),
    ]
    model = tb.Model("swimmer", bodies)
    q, _ = model.random_state(rng)
    still = np.zeros(model.nv)
    wanted = np.array([*np.zeros(6), 3.0])
    found, _ = tb.floating_base_inverse_dynamics(model, q, still, wanted, world=NO_GRAVITY)
    I_0, I_1 = (body.inertia.rigid.matrix().astype(float) for body in model.bodies)
    J = tb.frame_jacobian(model, q, "limb", axes="frame")
    X, S = J[:, :6], J[:, 6]
    a_0 = np.linalg.solve(I_0 + X.T @ I_1 @ X, -X.T @ I_1 @ S * wanted[6])
    # the free joint's velocity is that of its body, in its axes at its origin
    assert_close(found[:6], a_0, SOLVE, np.abs(a_0).max() * np.linalg.cond(I_0 + X.T @ I_1 @ X))
    # the articulated inertia of the same base is smaller: its limb would swing freely
    U = I_1 @ S
    articulated = I_0 + X.T @ (I_1 - np.outer(U, U) / (S @ U)) @ X
    wrong = np.linalg.solve(articulated, -X.T @ I_1 @ S * wanted[6])
    assert np.abs(wrong - found[:6]).max() > 0.01 * np.abs(a_0).max()
