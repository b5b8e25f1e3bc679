"""Load sharing against closed forms: stances, fingers on a ball, boxes on arms, a five-bar."""

import numpy as np
import pytest

import tiburon as tb

G = 9.81


def free_body(inertia, name="body"):
    return tb.Model(name, [tb.Body(name, joint=tb.Free(name), inertia=inertia)])


def test_each_foot_of_a_symmetric_stance_carries_a_quarter():
    """W / 4 per foot wherever the machine stands and looks; no sideways force."""
    table = free_body(tb.Inertia.box(20.0, (0.6, 0.4, 0.1)))
    feet = [
        tb.ContactSite(f"foot_{k}", "body", 0.4, point=(x, y, -0.5))
        for k, (x, y) in enumerate([(0.3, 0.2), (0.3, -0.2), (-0.3, 0.2), (-0.3, -0.2)])
    ]
    plan = tb.LoadSharing.of(table, sites=feet, driven=[])
    step = np.zeros((5, 6))
    step[:, 2] = np.linspace(0.0, 3.0, 5)
    step[:, 3:] = np.linspace(-1.0, 2.0, 5)[:, None]
    share = plan.share(table.integrate(np.tile(table.neutral(), (5, 1)), step))
    np.testing.assert_allclose(share.forces[..., 2], 20.0 * G / 4, rtol=1e-12)
    np.testing.assert_allclose(share.forces[..., :2], 0.0, atol=1e-9)
    # accelerated upward, (W + m a) / 4
    up = plan.share(table.neutral(), vd=[0, 0, 0, 0, 0, 2.0])
    np.testing.assert_allclose(up.forces[:, 2], 20.0 * (G + 2.0) / 4, rtol=1e-12)


@pytest.mark.parametrize(("mass", "mu", "count"), [(0.4, 0.5, 3), (0.4, 0.5, 4), (1.3, 0.8, 3)])
def test_fingers_on_a_ball_press_with_weight_over_friction(mass, mu, count):
    """Each presses with m g / (n mu): 2.616 N for 0.4 kg, mu 0.5 and three fingers."""
    ball = free_body(tb.Inertia.sphere(mass, 0.03), "ball")
    angles = 2 * np.pi * np.arange(count) / count + 0.3
    tips = [
        tb.ContactSite(
            f"tip_{k}",
            "ball",
            mu,
            point=(0.03 * np.cos(a), 0.03 * np.sin(a), 0.0),
            normal=(np.cos(a), np.sin(a), 0.0),
            along=(0, 0, 1),
        )
        for k, a in enumerate(angles)
    ]
    share = tb.LoadSharing.of(ball, sites=tips, driven=[]).share(ball.neutral())
    assert share.is_feasible
    normal = share.x.reshape(count, 3)[:, 2]
    # the cone is met to 1e-9 of the forces
    np.testing.assert_allclose(normal, mass * G / (count * mu), rtol=1e-7)
    if (mass, mu, count) == (0.4, 0.5, 3):
        np.testing.assert_allclose(normal, 2.616, rtol=1e-7)
    np.testing.assert_allclose(share.margins.friction, 0.0, atol=1e-6)


def test_a_box_between_two_arms_is_pressed_with_half_its_weight_over_friction():
    """Both press with m g / (2 mu); a box that hangs beside the line needs torsion for it."""
    for beside, most in ((0.0, 0.0), (0.01, 0.05)):
        box = free_body(tb.Inertia.box(3.0, (0.3, 0.2, 0.2), (0.0, beside, 0.0)), "box")
        pads = [
            tb.ContactSite(
                f"pad_{k}",
                "box",
                0.6,
                point=(0.15 * x, 0, 0),
                normal=(x, 0, 0),
                torsion=0.05,
                along=(0, 0, 1),
            )
            for k, x in enumerate((1.0, -1.0))
        ]
        share = tb.LoadSharing.of(box, sites=pads, driven=[]).share(box.neutral())
        x = share.x.reshape(2, 4)
        np.testing.assert_allclose(x[:, 2], 3.0 * G / (2 * 0.6), rtol=1e-7)
        # the moment of the weight about the line, shared by both
        np.testing.assert_allclose(np.abs(x[:, 3]), 3.0 * G * beside / 2, atol=1e-8)
        assert np.abs(x[:, 3]).max() <= 0.05 * x[:, 2].min() + 1e-9
        assert (np.abs(x[:, 3]).max() > 0.0) == (most > 0.0)


def test_a_box_carried_by_two_arms_is_shared_by_the_least_wrenches():
    """Rigid grasps at +-a, weight at d: f = W / 2 +- a k, m = l^2 k each (6.20).

    With k = d W / (2 a^2 + 2 l^2), and l^2 = a^2 + d^2 from the center of mass to the grasps.
    """
    a, d, mass = 0.4, 0.1, 5.0
    box = free_body(tb.Inertia.box(mass, (1.0, 0.3, 0.2), (d, 0.0, 0.0)), "box")
    grasps = [
        tb.ContactSite(
            f"arm_{k}", "box", 10.0, point=(x, 0, 0), half_size=(50.0, 50.0), torsion=50.0
        )
        for k, x in enumerate((a, -a))
    ]
    share = tb.LoadSharing.of(box, sites=grasps, driven=[]).share(box.neutral())
    W, square = mass * G, a**2 + d**2
    k = d * W / (2 * a**2 + 2 * square)
    force = share.forces[:, 2]
    np.testing.assert_allclose(force, [W / 2 + a * k, W / 2 - a * k], rtol=1e-9)
    # moments of the arms about y of the box lift its heavy end: the rest of d W
    moments = share.x.reshape(2, 6)[:, 3:]
    np.testing.assert_allclose(np.abs(moments[:, 1]), square * k, rtol=1e-9)
    np.testing.assert_allclose(moments[:, [0, 2]], 0.0, atol=1e-9)
    balance = a * (force[0] - force[1]) + np.abs(moments[:, 1]).sum()
    assert balance == pytest.approx(d * W, rel=1e-9)


def test_the_internal_force_of_a_five_bar_runs_along_its_passive_arm():
    """Torques of a unit force along the right lower arm, by moments about three joints."""
    robot = tb.load("five_bar")
    rng = np.random.default_rng(5)
    q = tb.assemble(robot, np.array(robot.poses["home"]) + 0.1 * rng.standard_normal(4)).q
    v = np.asarray(tb.project_velocity(robot, q, rng.standard_normal(4)))
    vd = np.asarray(tb.loop_dynamics(robot, q, v, rng.standard_normal(4)).acceleration)
    plans = {
        name: tb.LoadSharing.of(robot, objective=o, torque_limits=False)
        for name, o in (("torque", tb.TorqueNorm()), ("force", tb.InternalForce()))
    }
    assert plans["torque"].redundancy == 1
    tau = {name: plan.share(q, v, vd).tau for name, plan in plans.items()}
    place = {
        name: np.asarray(tb.forward_kinematics(robot, q, name)[1])
        for name in ("left_upper", "left_lower", "right_upper", "right_lower", "tool")
    }
    # joints turn anticlockwise seen from -y: moments about -y of the world
    along = place["tool"] - place["right_lower"]
    along /= np.linalg.norm(along)

    def moment(joint, side):
        return side * -np.cross(place["tool"] - place[joint], along)[1]

    unit = np.zeros(4)
    for name, joint, side in (
        ("left_base", "left_upper", 1.0),
        ("left_elbow", "left_lower", 1.0),
        ("right_base", "right_upper", -1.0),
    ):
        unit[robot.slice(name, of="v").start] = moment(joint, side)
    assert abs(moment("right_lower", 1.0)) < 1e-12
    # solutions differ by an internal force; the least torques have none of it left
    difference = tau["force"] - tau["torque"]
    factor = difference @ unit / (unit @ unit)
    assert abs(factor) > 1e-3
    np.testing.assert_allclose(difference, factor * unit, atol=1e-8)
    assert abs(tau["torque"] @ unit) < 1e-8 * np.linalg.norm(tau["torque"]) * np.linalg.norm(unit)
    # both give the same motion, and the same power (6.43)
    np.testing.assert_allclose(tau["force"] @ v, tau["torque"] @ v, rtol=1e-9)
    for torques in tau.values():
        found = tb.loop_dynamics(robot, q, v, torques).acceleration
        np.testing.assert_allclose(found, vd, atol=1e-8)


def test_power_does_not_depend_on_the_sharing():
    """E11: internal forces of two arms on a bar do no work, to 1e-12 (6.43)."""
    arms = tb.load("two_pumas")
    q = np.array(arms.poses["home"])
    rng = np.random.default_rng(6)
    v = np.asarray(tb.project_velocity(arms, q, rng.standard_normal(arms.nv)))
    vd = np.asarray(tb.loop_dynamics(arms, q, v, 5.0 * rng.standard_normal(arms.nv)).acceleration)
    powers = []
    for objective in (tb.InternalForce(), tb.TorqueNorm()):
        share = tb.LoadSharing.of(arms, objective=objective, torque_limits=False).share(q, v, vd)
        powers.append(share.tau @ v)
    # the residual of the loops' velocity constraint bounds the difference
    np.testing.assert_allclose(powers, powers[0], rtol=1e-9)
    problem = tb.LoadSharing.of(arms, torque_limits=False).problem(
        q, v, vd, formulation="superposition"
    )
    n = 12
    J = problem.A1[:, :n].T
    scale = np.abs(J).max() * np.abs(v).max()
    # v is closed to rounding: every internal force does no work
    assert np.abs(J @ v).max() < 1e-12 * scale
