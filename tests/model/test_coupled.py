"""Joints that follow another: exactly the reduction of the untied robot by a constant matrix."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import ROUNDING, random_axis, random_inertia, random_joint, random_pose
from tests.tolerances import ALGEBRA, SOLVE, assert_close

WORLD = tb.World(gravity=(1.5, -2.5, -9.0))


def tied(seed=1, base="free"):
    """Return a tree where joints follow others on the same branch and across branches."""
    rng = np.random.default_rng(seed)
    plan = [
        ("trunk", "world", base),
        ("left", "trunk", "revolute"),
        ("left_tip", "left", ("left", 1.7, 0.2, tb.Revolute("a", random_axis(rng)))),
        ("right", "trunk", ("left", -0.6, -0.1, tb.Prismatic("b", (0, 0, 1)))),
        ("right_tip", "right", "prismatic"),
        ("rotor", "trunk", ("right_tip", 30.0, 0.0, tb.Revolute("c", (0, 1, 0)))),
        ("nut", "rotor", ("left", 2.0, 0.0, tb.Screw("d", (1, 0, 0), pitch=0.1))),
    ]
    bodies = []
    for name, parent, kind in plan:
        if isinstance(kind, str):
            joint = random_joint(rng, f"j_{name}", (kind,))
        else:
            leader, ratio, offset, moves = kind
            pose = random_pose(rng)
            joint = tb.Coupled(f"j_{name}", moves, f"j_{leader}", ratio, offset, pose=pose)
        bodies.append(tb.Body(name, parent, joint=joint, inertia=random_inertia(rng)))
    return tb.Model("tied", bodies, [tb.Frame("tip", "nut", random_pose(rng))])


def untied(model):
    """Return the robot with followers free, and G, g with q' = G q + g where positions add."""
    bodies = []
    for body in model.bodies:
        joint = body.joint
        if joint.follows is not None:
            joint = replace(joint.moves, name=joint.name, pose=joint.pose)
        bodies.append(replace(body, joint=joint))
    loose = tb.Model("untied", bodies, model.frames)
    G = np.zeros((loose.nv, model.nv))
    for body in model.bodies:
        own = loose.slice(body.joint.name, of="v")
        ratio = getattr(body.joint, "ratio", 1.0)
        G[own, model.slice(body.joint.name, of="v")] = ratio * np.eye(own.stop - own.start)
    return loose, G


def loosened(model, loose, q):
    """Return the untied robot's position."""
    found = np.zeros(loose.nq)
    for body in model.bodies:
        joint = body.joint
        x = q[model.slice(joint.name)]
        if joint.follows is not None:
            x = joint.ratio * x + joint.offset
        found[loose.slice(joint.name)] = x
    return found


@pytest.fixture(params=[(1, "free"), (3, "spherical")], ids=lambda p: p[1])
def case(request):
    model = tied(*request.param)
    loose, G = untied(model)
    rng = np.random.default_rng(request.param[0])
    q, v = model.random_state(rng)
    x = rng.standard_normal(model.nv)
    return model, loose, G, q, v, x, loosened(model, loose, q)


def test_followers_add_bodies_but_no_variables(case):
    model, loose, *_ = case
    assert len(model.bodies) == len(loose.bodies)
    assert model.nv == loose.nv - 4
    assert len(model.q_names) == model.nq
    assert model.slice("j_rotor") == model.slice("j_right_tip")


def test_mass_matrix_is_reduced(case):
    """H = G^T H' G."""
    model, loose, G, q, *_, q_loose = case
    expected = G.T @ tb.mass_matrix(loose, q_loose) @ G
    assert_close(tb.mass_matrix(model, q), expected)


@pytest.mark.usefixtures("interpreted")
def test_inverse_dynamics_is_reduced(case):
    """Joint forces are G^T ID'(q', G v, G vd)."""
    model, loose, G, q, v, vd, q_loose = case
    expected = G.T @ tb.inverse_dynamics(loose, q_loose, G @ v, G @ vd, world=WORLD)
    found = tb.inverse_dynamics(model, q, v, vd, world=WORLD)
    # spins of 30 times the leader's, squared
    assert_close(found, expected, ALGEBRA, 1e3 * np.abs(expected).max())
    bias = G.T @ tb.bias_force(loose, q_loose, G @ v, world=WORLD)
    assert_close(tb.bias_force(model, q, v, world=WORLD), bias, ALGEBRA, 1e3 * np.abs(bias).max())


def test_forward_dynamics_equals_that_of_the_constrained_robot(case):
    """H vd = tau - C, and inverse dynamics leads back."""
    model, loose, G, q, v, tau, q_loose = case
    H = G.T @ tb.mass_matrix(loose, q_loose) @ G
    C = G.T @ tb.bias_force(loose, q_loose, G @ v, world=WORLD)
    expected = np.linalg.solve(H, tau - C)
    found = tb.forward_dynamics(model, q, v, tau, world=WORLD)
    scale = np.abs(expected).max() * np.linalg.cond(H)
    assert_close(found, expected, SOLVE, scale)
    batch = tb.forward_dynamics(model, np.stack([q, q]), v, tau, world=WORLD)
    assert (batch == found).all()


@pytest.mark.usefixtures("interpreted")
def test_energies_momentum_and_poses_equal_those_of_the_uncoupled_robot(case):
    model, loose, G, q, v, _, q_loose = case
    assert tb.kinetic_energy(model, q, v) == pytest.approx(
        tb.kinetic_energy(loose, q_loose, G @ v), rel=1e-12
    )
    assert tb.potential_energy(model, q) == pytest.approx(
        tb.potential_energy(loose, q_loose), rel=1e-12
    )
    assert_close(tb.momentum(model, q, v), tb.momentum(loose, q_loose, G @ v))
    assert_close(tb.momentum_matrix(model, q), tb.momentum_matrix(loose, q_loose) @ G)
    assert_close(tb.frame_jacobian(model, q, "tip"), tb.frame_jacobian(loose, q_loose, "tip") @ G)
    assert_close(
        tb.frame_velocity(model, q, v, "tip"), tb.frame_velocity(loose, q_loose, G @ v, "tip")
    )
    assert_close(
        tb.center_of_mass_jacobian(model, q), tb.center_of_mass_jacobian(loose, q_loose) @ G
    )
    for ours, theirs in zip(
        tb.forward_kinematics(model, q, "tip"),
        tb.forward_kinematics(loose, q_loose, "tip"),
        strict=True,
    ):
        assert_close(ours, theirs)


@pytest.mark.usefixtures("interpreted")
def test_coriolis_matrix_and_regressor_are_reduced(case):
    model, loose, G, q, v, vd, q_loose = case
    C = tb.coriolis_matrix(loose, q_loose, G @ v)
    assert_close(tb.coriolis_matrix(model, q, v), G.T @ C @ G, ALGEBRA, 1e3 * np.abs(C).max())
    Y = G.T @ tb.regressor(loose, q_loose, G @ v, G @ vd)
    assert_close(tb.regressor(model, q, v, vd), Y, ALGEBRA, 1e3 * np.abs(Y).max())


def test_inverse_mass_matrix_inverts(case):
    model, *_, q, _, _, _ = case
    H = tb.mass_matrix(model, q)
    product = tb.inverse_mass_matrix(model, q) @ H
    assert_close(product, np.eye(model.nv), SOLVE, np.linalg.cond(H))


@pytest.mark.usefixtures("interpreted")
def test_joint_forces_of_reactions_add_up(case):
    model, _, _, q, v, vd, _ = case
    tau = tb.inverse_dynamics(model, q, v, vd)
    assert_close(tb.joint_reactions(model, q, v, vd).tau, tau, ALGEBRA, 1e3 * np.abs(tau).max())


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("kind", [tb.Revolute, tb.Prismatic])
def test_reactions_at_a_follower_of_ratio_zero_are_those_at_a_held_joint(kind):
    """It does not move; its gear carries what acts along its axis, its bearing all else."""
    rng = np.random.default_rng(8)
    axis, pose = random_axis(rng), random_pose(rng)
    arm = tb.Body("arm", joint=tb.Revolute("elbow", random_axis(rng)), inertia=random_inertia(rng))
    inertia = random_inertia(rng)

    def robot(joint):
        return tb.Model("held", [arm, tb.Body("hand", "arm", joint=joint, inertia=inertia)])

    held = robot(tb.Coupled("grip", kind("turn", axis), "elbow", 0.0, offset=0.6, pose=pose))
    loose = robot(kind("grip", axis, pose=pose))
    found = tb.joint_reactions(held, [0.4], [1.3], [0.7])
    expected = tb.joint_reactions(loose, [0.4, 0.6], [1.3, 0.0], [0.7, 0.0])
    assert_close(found.bearing, expected.bearing)
    assert_close(found.actuator, expected.actuator)
    assert_close(found.tau, expected.tau[:1])
    assert np.abs(expected.tau[1]) > 0.1


def test_energy_of_coupled_joints_is_conserved():
    """Runge-Kutta of order four at 0.5 ms over 0.1 s."""
    model = tied(2, "revolute")
    q, v = model.random_state(4)
    run = tb.integrate_rk4(model, q, 0.3 * v, dt=5e-4, steps=200, record_every=20)
    energy = tb.kinetic_energy(model, run.q, run.v) + tb.potential_energy(model, run.q)
    # (rate dt)^4 with rates of 30 rad/s in the rotor's frame: 5e-8 of energies near 100 J
    assert np.ptp(energy) < 1e-5 * np.abs(energy).max()


def test_rotor_on_the_ground_adds_ratio_squared_times_its_inertia():
    """The armature of simple models: exact where the housing does not turn."""
    rng = np.random.default_rng(5)
    arm = tb.Body("arm", joint=tb.Revolute("elbow", random_axis(rng)), inertia=random_inertia(rng))
    motor = tb.rotor("motor", "world", "elbow", ratio=-50.0, inertia=3e-5, mass=0.2)
    bare, geared = tb.Model("bare", [arm]), tb.Model("geared", [arm, motor])
    H, H_geared = tb.mass_matrix(bare, [0.3]), tb.mass_matrix(geared, [0.3])
    assert H_geared[0, 0] - H[0, 0] == pytest.approx(2500 * 3e-5, rel=1e-12)


def test_spinning_rotor_has_a_gyroscopic_moment():
    """The gyroscopic moment is w x (J ratio v a): a rotor across a turning housing loads its base.

    Housing on a ball joint, rotor about y, driven hinge about y with almost no inertia of its own.
    """
    J, ratio, speed = 4e-4, 80.0, 3.0
    housing = tb.Body("housing", joint=tb.Spherical("ball"), inertia=tb.Inertia.sphere(2.0, 0.2))
    arm = tb.Body(
        "arm",
        "housing",
        joint=tb.Revolute("hinge", (0, 1, 0)),
        inertia=tb.Inertia.sphere(0.1, 0.05),
    )
    spin = tb.rotor("rotor", "housing", "hinge", ratio=ratio, inertia=J, mass=0.3, axis=(0, 1, 0))
    model = tb.Model("gyro", [housing, arm, spin])
    still = tb.Model("still", [housing, arm, replace(spin, joint=tb.Fixed("weld"))])
    rng = np.random.default_rng(6)
    q, _ = model.random_state(rng)
    w = rng.standard_normal(3)
    v = np.array([*w, speed])
    weightless = tb.World(gravity=(0.0, 0.0, 0.0))
    zero = np.zeros(4)
    tau = tb.inverse_dynamics(model, q, v, zero, world=weightless)
    without = tb.inverse_dynamics(still, q, v, zero, world=weightless)
    gyroscopic = np.cross(w, [0.0, J * ratio * speed, 0.0])
    np.testing.assert_allclose(tau[:3] - without[:3], gyroscopic, rtol=0, atol=1e-10)
    # turning the housing up takes the spin along: tau of the hinge feels J ratio wd_y
    turning = np.array([0.0, 1.0, 0.0, 0.0])
    felt = tb.inverse_dynamics(model, q, 0 * v, turning, world=weightless)
    base = tb.inverse_dynamics(still, q, 0 * v, turning, world=weightless)
    assert felt[3] - base[3] == pytest.approx(J * ratio, rel=1e-9)


def gripper():
    rng = np.random.default_rng(7)
    left = tb.Prismatic("left", (1, 0, 0))
    right = tb.Coupled("right", tb.Prismatic("slide", (1, 0, 0)), "left", -1.0)
    bodies = [
        tb.Body("palm", joint=tb.Revolute("wrist"), inertia=random_inertia(rng)),
        tb.Body("finger_a", "palm", joint=left, inertia=random_inertia(rng)),
        tb.Body("finger_b", "palm", joint=right, inertia=random_inertia(rng)),
    ]
    return tb.Model("gripper", bodies)


def test_prefixes_reach_the_leader():
    rng = np.random.default_rng(8)
    arm = tb.Model("arm", [tb.Body("link", joint=tb.Revolute("j"), inertia=random_inertia(rng))])
    both = arm.attach(gripper(), at="link", prefix="g_")
    assert both.joint("g_right").leader == "g_left"
    assert both.nv == 3
    assert tb.mass_matrix(both, np.zeros(3)).shape == (3, 3)


def test_locking_the_leader_locks_its_followers():
    """The follower stands where the leader's position put it."""
    model = gripper()
    held = model.lock({"left": 0.02})
    assert held.nv == 1
    for finger in ("finger_a", "finger_b"):
        expected = tb.forward_kinematics(model, [0.4, 0.02], finger)
        for ours, theirs in zip(tb.forward_kinematics(held, [0.4], finger), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=ROUNDING)
    with pytest.raises(tb.ModelError, match="joint 'right': follows 'left' and cannot be locked"):
        model.lock("right")


def follower(**values):
    joint = tb.Coupled("f", **{"moves": tb.Revolute("r"), "leader": "l", **values})
    ball = tb.Inertia.sphere(1.0, 0.1)
    leader = values.pop("first", tb.Revolute("l"))
    bodies = [tb.Body("a", joint=leader, inertia=ball), tb.Body("b", joint=joint, inertia=ball)]
    return tb.Model("m", bodies)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: follower(leader="k"), "joint 'f': unknown leader joint 'k'"),
        (lambda: follower(leader="f"), "joint 'f': its leader must have exactly one variable"),
        (
            lambda: follower(moves=tb.Spherical("s")),
            "joint 'f': moves must be a revolute, prismatic or screw joint",
        ),
        (lambda: follower(ratio=np.inf), "joint 'f': ratio must be finite"),
        (lambda: follower(leader=""), "joint 'f': leader: the name must be a non-empty string"),
        (
            lambda: tb.rotor("r", "a", "l", ratio=2, inertia=1e-3, mass=1, transverse=1e-4),
            "rotor 'r': inertia must be positive and transverse at least half of it",
        ),
    ],
)
def test_invalid_couplings_are_refused(make, message):
    with pytest.raises(tb.TiburonError) as caught:
        make()
    assert message in str(caught.value)
