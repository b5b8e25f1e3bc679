"""A joint of several DoF equals a chain of joints of one DoF with massless links between.

Featherstone 1987, section 7.4.1 (checklist C5): both must have the same dynamics.
"""

import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import general_joint, random_axis, random_inertia, random_pose
from tests.running import OnFloats
from tests.strategies import GRAVITY
from tests.tolerances import SOLVE, assert_close


def chain_of(joint):
    """Return the joints of one freedom that a joint is made of."""
    pose, name = joint.pose, joint.name
    if joint.kind == "cylindrical":
        return [
            tb.Revolute(f"{name}0", joint.axis, pose=pose),
            tb.Prismatic(f"{name}1", joint.axis),
        ]
    if joint.kind == "universal":
        first = tb.Revolute(f"{name}0", joint.axis, pose=pose)
        return [first, tb.Revolute(f"{name}1", joint.second_axis)]
    x, y = joint.in_plane()
    slides = [tb.Prismatic(f"{name}0", x, pose=pose), tb.Prismatic(f"{name}1", y)]
    return [*slides, tb.Revolute(f"{name}2", joint.axis)]


def pair(seed, kind):
    """Return an arm with a joint of a kind in its middle, and the same arm with a chain there."""
    rng = np.random.default_rng(seed)
    axis = random_axis(rng)
    middle = general_joint(rng, kind, "middle", axis, random_pose(rng))
    first = tb.Body(
        "first",
        joint=tb.Revolute("shoulder", random_axis(rng), pose=random_pose(rng)),
        inertia=random_inertia(rng),
    )
    inertia, tip_inertia = random_inertia(rng), random_inertia(rng)
    wrist = tb.Revolute("wrist", random_axis(rng), pose=random_pose(rng))
    tip = tb.Body("tip", "second", joint=wrist, inertia=tip_inertia)
    whole = tb.Model(
        "whole", [first, tb.Body("second", "first", joint=middle, inertia=inertia), tip]
    )
    links, parent = [], "first"
    joints = chain_of(middle)
    for number, joint in enumerate(joints[:-1]):
        links.append(tb.Body(f"massless{number}", parent, joint=joint))
        parent = links[-1].name
    links.append(tb.Body("second", parent, joint=joints[-1], inertia=inertia))
    return whole, tb.Model("chain", [first, *links, tip])


@pytest.mark.parametrize("kind", ["cylindrical", "universal", "planar"])
@pytest.mark.parametrize("seed", range(3))
def test_joint_of_several_degrees_of_freedom_equals_its_chain(kind, seed):
    """Same positions, velocities and forces give the same accelerations and energies."""
    whole, chain = pair(seed, kind)
    rng = np.random.default_rng(seed + 100)
    q, v = whole.random_state(rng)
    tau = rng.standard_normal(whole.nv)
    one, many = OnFloats(whole, GRAVITY), OnFloats(chain, GRAVITY)
    H = many.mass_matrix(q)
    assert_close(one.mass_matrix(q), H)
    expected = many.forward_dynamics(q, v, tau)
    scale = max(1.0, np.abs(expected).max()) * np.linalg.cond(H)
    assert_close(one.forward_dynamics(q, v, tau), expected, SOLVE, scale)
    forces = many.inverse_dynamics(q, v, tau)
    assert_close(one.inverse_dynamics(q, v, tau), forces)
    assert_close(one.kinetic_energy(q, v), many.kinetic_energy(q, v))


def test_ball_joint_equals_three_hinges_with_their_angles_mapped():
    """Angular velocity is a matrix times the rates of three angles; forces go by its transpose."""
    rng = np.random.default_rng(3)
    pose, inertia = random_pose(rng), random_inertia(rng)
    ball = tb.Model("ball", [tb.Body("b", joint=tb.Spherical("s", pose=pose), inertia=inertia)])
    hinges = tb.Model(
        "hinges",
        [
            tb.Body("x", joint=tb.Revolute("jx", (1, 0, 0), pose=pose)),
            tb.Body("y", "x", joint=tb.Revolute("jy", (0, 1, 0))),
            tb.Body("b", "y", joint=tb.Revolute("jz", (0, 0, 1)), inertia=inertia),
        ],
    )
    angles, rates, rates_rate = rng.uniform(-1, 1, 3), *rng.standard_normal((2, 3))
    quaternion = ball.neutral()
    for angle, axis in zip(angles, np.eye(3), strict=True):
        quaternion = ball.integrate(quaternion, angle * axis)

    def spin(a, rate):
        """Return angular velocity in body axes: each axis seen through the turns after it."""
        (_, cy, cz), (_, sy, sz) = np.cos(a), np.sin(a)
        first = np.array([cy * cz, -cy * sz, sy])
        second = np.array([sz, cz, 0.0])
        matrix = np.column_stack([first, second, [0.0, 0.0, 1.0]])
        return matrix, matrix @ rate

    A, omega = spin(angles, rates)
    h = 1e-6
    # central differences: h^2 = 1e-12 of truncation, 1e-16 / h = 1e-10 of rounding
    product = (spin(angles + h * rates, rates)[1] - spin(angles - h * rates, rates)[1]) / (2 * h)
    tau = OnFloats(hinges, GRAVITY).inverse_dynamics(angles, rates, rates_rate)
    moment = OnFloats(ball, GRAVITY).inverse_dynamics(quaternion, omega, A @ rates_rate + product)
    assert_close(A.T @ moment, tau, 1e-8)


def test_free_joint_equals_three_slides_and_a_ball():
    """The floating base is six DoF at once or in two steps; velocities are turned between."""
    rng = np.random.default_rng(4)
    inertia, arm_inertia = random_inertia(rng), random_inertia(rng)
    hinge = tb.Revolute("j", random_axis(rng), pose=random_pose(rng))
    arm = tb.Body("arm", "b", joint=hinge, inertia=arm_inertia)
    floating = tb.Model("f", [tb.Body("b", joint=tb.Free("free"), inertia=inertia), arm])
    slides = [
        tb.Body("x", joint=tb.Prismatic("jx", (1, 0, 0))),
        tb.Body("y", "x", joint=tb.Prismatic("jy", (0, 1, 0))),
        tb.Body("z", "y", joint=tb.Prismatic("jz", (0, 0, 1))),
    ]
    ball = tb.Body("b", "z", joint=tb.Spherical("ball"), inertia=inertia)
    parts = tb.Model("p", [*slides, ball, arm])
    q, v = floating.random_state(rng)
    tau = rng.standard_normal(7)
    R, _ = tb.forward_kinematics(floating, q, "b")
    q_parts = np.concatenate([q[4:7], q[:4], q[7:]])
    v_parts = np.concatenate([R @ v[3:6], v[:3], v[6:]])
    tau_parts = np.concatenate([R @ tau[3:6], tau[:3], tau[6:]])
    vd = OnFloats(floating, GRAVITY).forward_dynamics(q, v, tau)
    found = OnFloats(parts, GRAVITY).forward_dynamics(q_parts, v_parts, tau_parts)
    # the velocity in body axes turns with them: vd is its derivative there
    linear = R @ (vd[3:6] + np.cross(v[:3], v[3:6]))
    expected = np.concatenate([linear, vd[:3], vd[6:]])
    scale = np.abs(expected).max() * np.linalg.cond(OnFloats(parts).mass_matrix(q_parts))
    assert_close(found, expected, SOLVE, scale)
