"""Three formulations of one problem: sizes, equal optima, joint wrenches, independent branches."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.loops.mechanisms import arms_on_object
from tiburon.actuation.passive import FRICTION_SPEED
from tiburon.load_sharing.complete import motion_basis, subspace_duals
from tiburon.load_sharing.elimination import eliminate, independent_parts, null_basis
from tiburon.trace import solve_qp

FORMULATIONS = ("compact", "superposition", "complete")

AGREES = 1e-10
"""Difference of optima of different formulations, relative to the largest force: rounding of a few
hundred operations on matrices with condition numbers of some thousands."""

FLOOR = tb.World(ground=tb.Ground(static_friction=0.6))


def home(model):
    return np.array(model.poses.get("home", model.poses.get("stand", model.neutral())))


def kicked(model, seed, size=1.0):
    """Return a pose of a robot, and any velocity and acceleration."""
    rng = np.random.default_rng(seed)
    return (
        home(model),
        size * rng.standard_normal(model.nv),
        3 * size * rng.standard_normal(model.nv),
    )


@pytest.mark.parametrize(
    ("name", "sizes", "redundancy"),
    [
        # Nahon 1991, section 4.2.5 (L1389-L1443): 15/16, 7/8 and 3/4
        ("two_finger_hand", ((3, 4), (7, 8), (15, 16)), 1),
        # table 5.1: 9 equations, 12 unknowns
        ("planar_walker", ((3, 6), (9, 12), (21, 24)), 3),
        # section 6.2.6, stick insect: 24 equations, 36 unknowns
        ("osu_hexapod", ((6, 18), (24, 36), (114, 126)), 12),
        # pick and pour: 9 unknowns, 6 equations
        ("three_finger_hand", ((6, 9), (15, 18), (60, 63)), 3),
        # eq. 7.3 with three motors of four: 9 equations
        ("balanced_four_bar", ((0, 2), (3, 5), (9, 11)), 2),
    ],
)
def test_sizes_are_those_of_the_source(name, sizes, redundancy):
    """E2, E6: unknowns less equations are r in every formulation."""
    model = tb.load(name)
    world = FLOOR if model.contacts else None
    plan = tb.LoadSharing.of(model, world=world, torque_limits=False).with_pyramids(4)
    q = home(model)
    for formulation, size in zip(FORMULATIONS, sizes, strict=True):
        problem = plan.problem(q, formulation=formulation)
        assert problem.A1.shape == size
        assert (len(problem.equation_names), len(problem.names)) == size
        assert problem.redundancy == redundancy == plan.redundancy
    if model.loops:
        assert tb.mobility(model, q).redundancy == redundancy


def tendon_hand():
    """An object in a hand whose outer finger joint follows by a gear, another by a coupling."""
    rng = np.random.default_rng(4)
    hand = arms_on_object((4, 3, 3), tb.Spherical)
    bodies = []
    for body in hand.bodies:
        joint = body.joint
        if joint.name == "a0_3":
            moves = tb.Revolute("turn", joint.axis)
            joint = tb.Coupled("a0_3", moves, leader="a0_2", ratio=0.7, pose=joint.pose)
        if joint.name == "a1_1":
            joint = tb.Revolute("a1_1", joint.axis, pose=joint.pose, armature=0.3)
        bodies.append(tb.Body(body.name, body.parent, joint=joint, inertia=body.inertia))
    gear = tb.JointCoupling("gear", "a2_2", "a2_1", (0.0, 0.5 + 0.1 * rng.random()))
    return tb.Model("tendon hand", bodies, loops=[*hand.loops, gear])


def agreement(plan, q, v, vd, **options):
    """Check that all formulations have one optimum; return the problems and solutions."""
    found = []
    for formulation in FORMULATIONS:
        problem = plan.problem(q, v, vd, formulation=formulation, **options)
        solution = problem.solve()
        assert solution.status == 0.0
        found.append((problem, solution.x))
    n = len(plan.names)
    size = np.abs(found[0][1]).max()
    for _, x in found[1:]:
        np.testing.assert_allclose(x[:n], found[0][1], rtol=0, atol=AGREES * size)
    share = plan.share(q, v, vd, **options)
    np.testing.assert_allclose(share.x, found[0][1], rtol=0, atol=AGREES * size)
    driven = list(plan.layout.driven)
    efforts = found[1][1][n:]
    largest = np.abs(share.tau).max()
    np.testing.assert_allclose(efforts, share.tau[driven], rtol=0, atol=AGREES * largest)
    np.testing.assert_allclose(
        found[2][1][n : n + len(driven)], efforts, rtol=0, atol=AGREES * largest
    )
    return found, share


@pytest.mark.parametrize(
    ("name", "objective"),
    [
        ("two_finger_hand", None),
        ("planar_walker", tb.InternalForce() + 0.3 * tb.TorqueNorm()),
        ("three_finger_hand", tb.TorqueNorm()),
        ("two_pumas", tb.InternalForce(length=0.45) + tb.MotorLoss()),
        ("balanced_four_bar", tb.TorqueNorm()),
        ("quadruped", tb.InternalForce() + 0.1 * tb.TorqueNorm()),
    ],
)
def test_optima_are_equal(name, objective):
    """Same forces and torques to 1e-10, with friction pyramids and torque limits where given."""
    model = tb.load(name)
    world = FLOOR if model.contacts else None
    size = 0.1 if model.contacts else 1.0
    limits = name == "quadruped"
    plan = tb.LoadSharing.of(model, world=world, objective=objective, torque_limits=limits)
    plan = plan.with_pyramids(6)
    agreement(plan, *kicked(model, 7, size))


def test_exact_cones_hold_in_every_formulation():
    """Three fingers hold a glass at the limit of friction: active cones, one optimum."""
    hand = tb.load("three_finger_hand")
    q = home(hand)
    R, center = tb.forward_kinematics(hand, q, "glass")
    grips = []
    for loop in hand.loops:
        tip, origin = tb.forward_kinematics(hand, q, loop.first)
        frame = tip @ np.array(loop.joint.pose.rotation)
        inward = center - (origin + tip @ np.array(loop.joint.pose.translation))
        grips.append(tb.GripLimit(loop.name, tuple(frame.T @ inward / 0.03), 0.5))
    plan = tb.LoadSharing.of(hand, grips=grips, torque_limits=False)
    vd = np.zeros(hand.nv)
    vd[hand.slice("glass", of="v")] = 0.3, -0.2, 0.1, 0.4, -0.3, 0.2
    _, share = agreement(plan, q, np.zeros(hand.nv), vd)
    assert share.margins.friction.min() < 1e-6
    assert R.shape == (3, 3)


def test_planar_robots_have_no_out_of_plane_unknowns():
    """A planar biped with point feet: two forces per foot count, though friction needs three."""
    leg = tb.Inertia.box(1.0, (0.1, 0.1, 0.5))
    upright = tb.Pose(rotation=[[1, 0, 0], [0, 0, -1], [0, 1, 0]])
    bodies = [tb.Body("body", joint=tb.Planar("body", pose=upright), inertia=leg)]
    feet = []
    for k, x in enumerate((-0.3, 0.3)):
        hip = tb.Revolute(f"hip_{k}", pose=tb.Pose(translation=(x, 0.0, 0.0)))
        bodies.append(tb.Body(f"leg_{k}", "body", joint=hip, inertia=leg))
        feet.append(tb.ContactPoint(f"foot_{k}", f"leg_{k}", (0.0, -0.5, 0.0)))
    model = tb.Model("biped", bodies, contacts=feet)
    plan = tb.LoadSharing.of(model, world=FLOOR, driven=["hip_0", "hip_1"])
    # four forces, three equations
    assert plan.redundancy == 1
    assert plan.problem(model.neutral()).redundancy == 3
    found = tb.gait_mobility(
        model, model.neutral(), [["foot_0", "foot_1"]], driven=["hip_0", "hip_1"]
    )
    assert found[0].mobility.redundancy == 1


def test_gears_and_armatures_are_unknowns_of_the_complete_formulation():
    """Coupled joints, couplings and rotors: the joint that follows transmits a gear force."""
    model = tendon_hand()
    motors = [name for name in model.joint_names if name.startswith("a") and name != "a0_3"]
    plan = tb.LoadSharing.of(model, driven=motors, torque_limits=False)
    rng = np.random.default_rng(2)
    v, vd = rng.standard_normal((2, model.nv))
    found, _ = agreement(plan, model.neutral(), v, vd)
    names = found[2][0].names
    assert "a0_3: gear 0" in names
    assert any(name.startswith("gear") for name in plan.names)


def test_water_and_external_forces_enter_every_formulation():
    """A hand under water: buoyancy, added mass and drag are part of what the motion needs."""
    arms = tb.load("two_arm_rov")
    sea = tb.World(fluid=tb.Water(density=1025.0, current=(0.3, 0.1, 0.0)))
    closed = tb.Model(
        "closed",
        [*arms.bodies],
        loops=[_closing(arms)],
        actuators=arms.actuators,
        thrusters=(),
    )
    motors = [actuator.joint for actuator in closed.actuators]
    plan = tb.LoadSharing.of(
        closed,
        world=sea,
        driven=[*motors, closed.joints[0].name],
        torque_limits=False,
        objective=tb.TorqueNorm(),
    )
    q, v, vd = closed.neutral(), *np.random.default_rng(3).standard_normal((2, closed.nv))
    agreement(plan, q, v, vd)


def _closing(arms):
    """Return a loop that connects the ends of two arms where they are."""
    first, second = (body.name for body in (arms.bodies[-1], arms.bodies[len(arms.bodies) // 2]))
    q = arms.neutral()
    (R1, p1), (R2, p2) = (tb.forward_kinematics(arms, q, name) for name in (first, second))
    pose = tb.Pose(rotation=R1.T @ R2, translation=R1.T @ (p2 - p1))
    return tb.LoopClosure("grasp", first, second, tb.Fixed("grasp", pose=pose))


# -- joint wrenches --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["quadruped", "three_finger_hand", "two_pumas"])
def test_recovered_wrenches_are_those_of_inverse_dynamics(name):
    """(4.29) against Newton and Euler with contact and loop forces as external ones."""
    model = tb.load(name)
    world = FLOOR if model.contacts else None
    plan = tb.LoadSharing.of(model, world=world, torque_limits=False)
    q, v, vd = kicked(model, 5, 0.05)
    share = plan.share(q, v, vd)
    assert share.is_feasible
    found = plan.joint_wrenches(share)
    # the work of each joint's wrench along its axis: effort and friction
    for joint in model.joints:
        if joint.nv != 1:
            continue
        index = model.slice(joint.name, of="v").start
        body = next(b.name for b in model.bodies if b.joint.name == joint.name)
        R, _ = tb.forward_kinematics(model, q, body)
        axis = R @ np.array(joint.axis)
        armature = float(np.ravel(joint.armature or 0.0)[0]) * vd[index]
        rubs = joint.passive or tb.JointPassive()
        friction = -rubs.damping * v[index] - rubs.friction * np.tanh(v[index] / FRICTION_SPEED)
        along = axis @ found.of(joint.name)[:3] + armature - friction
        assert along == pytest.approx(share.tau[index], abs=1e-9 * np.abs(share.tau).max())
    # what has no actuator transmits nothing
    base = next(joint.name for joint in model.joints if joint.nv == 6)
    wrench = found.of(base)
    np.testing.assert_allclose(wrench, 0.0, atol=1e-9 * np.abs(found.wrenches).max())
    with pytest.raises(tb.UnknownNameError, match="nose"):
        found.of("nose")


def test_recovered_wrenches_are_those_of_the_complete_formulation():
    """Newton's law of each link under the wrenches of its joints: f_b - sum f_c = net force."""
    hand = tb.load("three_finger_hand")
    plan = tb.LoadSharing.of(hand, torque_limits=False)
    q, v, vd = kicked(hand, 9)
    share = plan.share(q, v, vd)
    found = plan.joint_wrenches(share)
    tip, middle = found.of("finger_2_joint_3"), found.of("finger_2_joint_2")
    _, pt = tb.forward_kinematics(hand, q, "finger_2_tip")
    Rm, pm = tb.forward_kinematics(hand, q, "finger_2_middle")
    inertia = hand.body("finger_2_middle").inertia
    moving = tb.frame_velocity(hand, q, v, "finger_2_middle")
    acceleration = tb.frame_acceleration(hand, q, v, vd, "finger_2_middle")
    w, wd, a = moving[:3], acceleration[:3], acceleration[3:]
    c = Rm @ np.array(inertia.com)
    a_c = a + np.cross(wd, c) + np.cross(w, np.cross(w, c))
    # gravity points down: the links accelerate upward relative to falling ones (B12)
    force = inertia.mass * (a_c + np.array([0, 0, 9.81]))
    np.testing.assert_allclose(middle[3:] - tip[3:], force, atol=1e-12)
    xx, xy, xz, yy, yz, zz = inertia.tensor
    I = Rm @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ Rm.T
    moment = I @ wd + np.cross(w, I @ w) + np.cross(c, force)
    np.testing.assert_allclose(
        middle[:3] - tip[:3] - np.cross(pt - pm, tip[3:]), moment, atol=1e-12
    )


# -- null basis, branches, wrench map --------------------------------------------------------------


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_elimination_agrees_with_the_full_problem(formulation):
    """(5.19)-(5.24), N36, N38: r unknowns without equations, the same optimum."""
    dog = tb.load("quadruped")
    plan = tb.LoadSharing.of(dog, world=FLOOR, sides=4)
    problem = plan.problem(*kicked(dog, 3, 0.1), formulation=formulation)
    reduced = eliminate(*problem[1:7])
    assert reduced.basis.shape[1] == problem.redundancy == 6
    np.testing.assert_allclose(problem.A1 @ reduced.basis, 0.0, atol=1e-12)
    np.testing.assert_allclose(reduced.basis.T @ reduced.basis, np.eye(6), atol=1e-13)
    small = solve_qp(reduced.W, reduced.c, None, None, reduced.A2, reduced.b2)
    full = problem.solve()
    x = reduced.full(small.x)
    np.testing.assert_allclose(x, full.x, atol=AGREES * np.abs(full.x).max())
    value = problem.c @ full.x + 0.5 * full.x @ problem.W @ full.x
    reduced_value = reduced.c @ small.x + 0.5 * small.x @ reduced.W @ small.x
    assert reduced_value + reduced.constant == pytest.approx(value, rel=1e-10)
    # duality gap (5.38): both programs have the value of the dual
    y = small.inequality_multipliers
    V = np.linalg.inv(reduced.W)
    dual = (
        (reduced.b2 + reduced.A2 @ V @ reduced.c) @ y
        - 0.5 * y @ reduced.A2 @ V @ reduced.A2.T @ y
        - 0.5 * reduced.c @ V @ reduced.c
    )
    assert dual == pytest.approx(reduced_value, rel=1e-9)


def test_dependent_equations_are_eliminated_or_refused():
    A = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]])
    x, N = null_basis(A, np.array([1.0, 2.0]))
    np.testing.assert_allclose(A @ x, [1, 2], atol=1e-14)
    assert N.shape == (3, 2)
    with pytest.raises(tb.DomainError, match="equations that can be satisfied"):
        null_basis(A, np.array([1.0, 2.1]))


def test_trap_b8_open_branches_are_parts_of_their_own():
    """B8: columns of a lifted foot leave its force undetermined; its joints decouple (4.42)."""
    dog = tb.load("quadruped")
    plan = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False, sides=4)
    q, v, vd = kicked(dog, 6, 0.1)
    touching = [1, 1, 0, 1]
    problem = plan.problem(q, v, vd, touching=touching, formulation="superposition")
    parts = independent_parts(problem.A1)
    lifted = plan.contact_names[2]
    names = np.array(problem.names)
    alone = [names[part[0]] for part in parts if len(part) == 1]
    own = [f"{lifted}.{axis}" for axis in ("t1", "t2", "n")]
    leg = lifted.removesuffix("_foot")
    efforts = [name for name in names if name.startswith(leg) and name.endswith("effort")]
    assert len(efforts) == 3
    assert set(alone) == {*own, *efforts}
    # nothing determines the force of the lifted foot
    columns = [list(names).index(name) for name in own]
    assert not problem.A1[:, columns].any()
    # solved alone, the leg has the torques of the whole problem, whatever the objective
    needed = tb.inverse_dynamics(dog, q, v, vd)
    plan = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False, relax=True)
    share = plan.share(q, v, vd, touching=touching)
    for name in efforts:
        index = dog.v_names.index(name.removesuffix(": effort"))
        assert share.tau[index] == pytest.approx(needed[index], abs=1e-12)
    np.testing.assert_allclose(share.forces[2], 0.0, atol=1e-9)


def test_wrench_map_is_the_transposed_inverse_of_the_arms():
    """(3.61): A = [J_1^-T J_2^-T] for two arms that hold a bar; power is the same on both sides."""
    pumas = tb.load("two_pumas")
    q = home(pumas)
    found = tb.wrench_map(pumas, "bar", q)
    assert found.matrix.shape == (6, 12)
    _, origin = tb.forward_kinematics(pumas, q, "bar")
    for side in ("left", "right"):
        joints = [name for name in found.joints if name.startswith(side)]
        hand = f"{side}_hand"
        J = tb.frame_jacobian(pumas, q, hand, axes="world")
        _, p = tb.forward_kinematics(pumas, q, hand)
        arm = origin - p
        J_s = np.vstack([J[:3], J[3:] + np.cross(J[:3].T, arm).T])
        own = [pumas.slice(name, of="v").start for name in joints]
        columns = [found.variables.index(i) for i in own]
        expected = np.linalg.inv(J_s[:, own]).T
        np.testing.assert_allclose(
            found.matrix[:, columns], expected, atol=1e-9 * np.abs(expected).max()
        )
    with pytest.raises(tb.ModelError, match="move while it stands"):
        tb.wrench_map(pumas, "left_trunk", q)


def test_planar_mechanisms_have_three_equations_per_link():
    """The basis of motions: a plane, all of space, and a plane seen from an inclined world."""
    assert motion_basis(tb.load("planar_walker")).names == ("moment y", "force x", "force z")
    assert motion_basis(tb.load("quadruped")).dimension == 6
    assert motion_basis(tb.load("pendulum")).dimension == 1
    assert motion_basis(tb.load("bricard")).dimension == 6


def mixed_arms(rng):
    """An object in three arms with joints of all kinds, some with rotors."""
    kinds = [
        lambda name, axis: tb.Universal(name, axis, tuple(np.cross(axis, _other(axis)))),
        lambda name, axis: tb.Cylindrical(name, axis),
        lambda name, axis: tb.Prismatic(name, axis, armature=0.4),
        lambda name, axis: tb.Spherical(name),
        lambda name, axis: tb.Screw(name, axis, pitch=0.05),
        lambda name, axis: tb.Planar(name),
        lambda name, axis: tb.Revolute(name, axis, armature=0.2),
    ]
    arms = arms_on_object((3, 3, 3), tb.Fixed)
    bodies = []
    for k, body in enumerate(arms.bodies):
        joint = body.joint
        if joint.name != "object":
            axis = tuple(rng.permutation(np.eye(3))[0])
            joint = replace(kinds[k % len(kinds)](joint.name, axis), pose=joint.pose)
        bodies.append(tb.Body(body.name, body.parent, joint=joint, inertia=body.inertia))
    ties = [tb.Revolute, tb.Fixed, tb.Universal]
    loops = [
        tb.LoopClosure(
            loop.name,
            loop.first,
            loop.second,
            replace(tie(loop.name), pose=loop.joint.pose),
            loop.second_pose,
        )
        for loop, tie in zip(arms.loops, ties, strict=True)
    ]
    return tb.Model("mixed arms", bodies, loops=loops)


def _other(axis):
    other = np.eye(3)[int(np.argmin(np.abs(axis)))]
    return other / np.linalg.norm(np.cross(axis, other))


@pytest.mark.parametrize("seed", [2, 3])
def test_joints_of_all_kinds_agree(seed):
    """Joints with several degrees of freedom, driven or not, rotors, in any configuration."""
    rng = np.random.default_rng(seed)
    model = mixed_arms(rng)
    q, v = model.random_state(rng)
    vd = rng.standard_normal(model.nv)
    names = [name for name in model.joint_names if name != "object"]
    passive = set(rng.choice(names, 2, replace=False))
    plan = tb.LoadSharing.of(
        model,
        driven=[name for name in names if name not in passive],
        torque_limits=False,
        objective=tb.InternalForce(length=1.0) + 0.1 * tb.TorqueNorm(),
    )
    found, _ = agreement(plan, np.asarray(model.normalize(q)), v, vd)
    assert found[2][0].A1.shape[0] == 6 * len(model.plan.bodies)


def test_reactions_and_efforts_are_dual_to_the_motions_of_a_joint():
    """s^T T = 0 and s^T U = 1 for any columns, of any signs and angles."""
    rng = np.random.default_rng(12)
    for d in (1, 3, 6):
        for count in range(d + 1):
            s = rng.standard_normal((count, d))
            T, U = (np.array(rows).reshape(-1, d) for rows in subspace_duals(s.tolist(), d))
            assert (len(T), len(U)) == (d - count, count)
            np.testing.assert_allclose(s @ T.T, 0.0, atol=1e-13)
            np.testing.assert_allclose(s @ U.T, np.eye(count), atol=1e-12)
            np.testing.assert_allclose(T @ T.T, np.eye(d - count), atol=1e-13)


def test_invalid_arguments_are_refused():
    """Unknown formulations, and solutions of many cases at once."""
    hand = tb.load("two_finger_hand")
    plan = tb.LoadSharing.of(hand, torque_limits=False)
    q = home(hand)
    with pytest.raises(tb.OptionError, match="formulation"):
        plan.problem(q, formulation="short")
    many = plan.problem(np.array([q, q]), formulation="superposition")
    assert many.A1.shape == (2, 7, 8)
    with pytest.raises(tb.ShapeError, match="one case"):
        many.solve()
    with pytest.raises(tb.UnknownNameError, match="palm"):
        tb.wrench_map(hand, "palm")


@pytest.mark.parametrize("name", ["cable_robot", "bluerov2_heavy"])
def test_cables_and_thrusters_push_in_every_formulation(name):
    """Tensions and thrusts are unknowns as contact forces are; the free joint transmits nothing."""
    robot = tb.load(name)
    world = tb.World(fluid=tb.Water(density=1025.0)) if robot.thrusters else None
    plan = tb.LoadSharing.of(robot, world=world)
    rng = np.random.default_rng(1)
    v, vd = 0.1 * rng.standard_normal((2, robot.nv))
    found, share = agreement(plan, home(robot), v, vd)
    assert found[2][0].A1.shape == (6, 8)
    wrench = plan.joint_wrenches(share).wrenches
    np.testing.assert_allclose(wrench, 0.0, atol=1e-11 * np.abs(share.x).max())


def test_wrenches_of_batches_are_those_of_single_cases():
    """Each case has the bits of a call of its own."""
    dog = tb.load("quadruped")
    plan = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False)
    vd = 0.3 * np.random.default_rng(3).standard_normal((3, dog.nv))
    q = home(dog)
    many = plan.joint_wrenches(plan.share(np.tile(q, (3, 1)), 0 * vd, vd))
    assert many.wrenches.shape == (3, 13, 6)
    alone = plan.joint_wrenches(plan.share(q, 0 * vd[1], vd[1]))
    np.testing.assert_array_equal(many.wrenches[1], alone.wrenches)
