"""Traps of Nahon 1991, each tested by its number: what would go wrong with what is printed."""

import math
from itertools import pairwise

import numpy as np
import pytest

import tiburon as tb
from tests.loops.mechanisms import planar_hand
from tiburon.load_sharing.elimination import independent_parts
from tiburon.load_sharing.equality import solve_orthogonally
from tiburon.load_sharing.kkt import optimality
from tiburon.load_sharing.linear_program import LargestResidual, LinearData
from tiburon.load_sharing.smoothing import ForcePrograms, StepBound, blended, smoothed_forces
from tiburon.reproduce.dual_active_set import dual_active_set
from tiburon.reproduce.nahon_problems import (
    feet_of_walker,
    kerr_roth,
    walker_plan,
    walker_pose,
)
from tiburon.spatial import linear_invariant_rates, linear_invariants
from tiburon.trace import solve_qp

FLOOR = tb.World(ground=tb.Ground(static_friction=0.6))


def standing(name="quadruped"):
    model = tb.load(name)
    return model, np.array(model.poses["stand"])


def test_B1_multipliers_of_entering_constraints_accumulate():
    """Listing: the last step overwrites them, and some problems end where nothing is optimal."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(60):
        G = rng.standard_normal((6, 6))
        W, c = G @ G.T + 0.1 * np.eye(6), 3.0 * rng.standard_normal(6)
        A, x = rng.standard_normal((20, 6)), rng.standard_normal(6)
        b = A @ x - rng.exponential(0.3, 20)
        none = np.zeros((0, 6)), np.zeros(0)
        ours = solve_qp(W, c, None, None, A, b)
        prose = dual_active_set(W, c, *none, A, b)
        np.testing.assert_allclose(prose.x, ours.x, atol=1e-8)
        listed = dual_active_set(W, c, *none, A, b, listing=True)
        wrong += listed.status != "optimal" or np.abs(listed.x - ours.x).max() > 1e-6
    assert wrong > 0


def test_B2_connectivity_with_motors_locked_starts_at_the_actuated_mobility():
    """(2.14): M_a - sum max(0, g' - g'_a - d) - ..., not M and not m; here by rank as well."""
    hand = planar_hand((3, 3, 3))
    q = hand.neutral()
    for driven, expected in (([], 3), (["f0_0"], 2), (["f0_0", "f0_1", "f1_0"], 0)):
        assert tb.connectivity(hand, "world", "object", q, driven=driven) == expected
        counted = tb.topology(hand).actuated_connectivity(driven)
        assert max(counted, 0) == expected


def test_B3_first_link_of_a_finger_moves_its_tip_backward_too():
    """(4.35b): j11 = -l1 s1 - l2 s12, both terms with a minus."""
    hand = tb.load("two_finger_hand")
    q = np.array(hand.poses["home"])
    R, _ = tb.forward_kinematics(hand, q, "left_distal")
    J = tb.frame_jacobian(hand, q, "left_distal", at=(0.025, 0.0, 0.0))
    columns = [hand.slice(name, of="v").start for name in ("left_base", "left_middle")]
    # the plane stands upright: its y is z of the world
    ours = J[[3, 5]][:, columns]
    l1, l2 = 0.035, 0.025
    a = q[hand.slice("left_base")][0] + hand.joint("left_base").offset
    b = a + q[hand.slice("left_middle")][0]
    expected = [
        [-l1 * math.sin(a) - l2 * math.sin(b), -l2 * math.sin(b)],
        [l1 * math.cos(a) + l2 * math.cos(b), l2 * math.cos(b)],
    ]
    np.testing.assert_allclose(ours, expected, atol=1e-15)
    assert abs(ours[0, 0] - (l1 * math.sin(a) - l2 * math.sin(b))) > 1e-3
    assert R.shape == (3, 3)


def test_B4_blended_steps_have_the_length_of_rate_times_step():
    """(4.45c) without dt would go the rate itself in one step."""
    x = np.array(blended([0.0, 0.0], [3.0, 4.0], 2.0, 0.01))
    assert np.linalg.norm(x) == pytest.approx(0.02, rel=1e-12)


def test_B5_targets_attract():
    """(6.25b): c - W x_o; with a plus, forces would flee from their targets."""
    dog, q = standing()
    name = "front_left_foot"
    targets = {name: (0.0, 0.0, 60.0)}
    plain = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False).share(q)
    objective = tb.InternalForce() + 5.0 * tb.LoadTarget(targets)
    plan = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False, objective=objective)
    place = plan.names.index(f"{name}.n")
    sign = np.sign(plain.x[place])
    target = tb.InternalForce() + 5.0 * tb.LoadTarget({name: (0.0, 0.0, 60.0 * sign)})
    plan = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False, objective=target)
    problem = plan.problem(q)
    # InternalForce adds 1, the target 5: c = -5 * 60 sign there
    assert problem.c[place] == pytest.approx(-300.0 * sign)
    assert abs(plan.share(q).x[place] - 60.0 * sign) < abs(plain.x[place] - 60.0 * sign)


def test_B6_wrenches_of_joints_have_blocks_of_six():
    """(6.31b): F_i is 6 by 6 g, one block of six per joint, for each contact wrench."""
    hand = tb.load("three_finger_hand")
    q = np.array(hand.poses["home"])
    plan = tb.LoadSharing.of(hand, torque_limits=False)
    found = plan.joint_wrenches(plan.share(q))
    assert found.rows.shape == (10, 9, 6)
    # a finger's contact loads its own three joints, with the same force and other moments
    own = found.rows[:3, :3]
    np.testing.assert_allclose(own[0, :, 3:], own[2, :, 3:], atol=1e-15)
    assert np.abs(own[0, :, :3] - own[2, :, :3]).max() > 1e-3
    assert not found.rows[3:9, :3].any()


def test_B7_rates_of_linear_invariants_are_those_of_differences():
    """(3.20b): rows (tr(Q) 1 - Q) / 2 and -vect(Q)^T; the print lacks the half and the minus."""
    rng = np.random.default_rng(2)
    pose = tb.Pose.from_axis_angle(rng.standard_normal(3), 0.8)
    Q = np.array(pose.rotation)
    H = np.array(linear_invariant_rates(Q.tolist()))

    def invariants(R):
        vector, scalar = linear_invariants(R.tolist())
        return np.array([*vector, scalar])

    h = 1e-6
    for k, axis in enumerate(np.eye(3)):
        turns = [np.array(tb.Pose.from_axis_angle(axis, s * h).rotation) @ Q for s in (1, -1)]
        rate = (invariants(turns[0]) - invariants(turns[1])) / (2 * h)
        np.testing.assert_allclose(H[:, k], rate, atol=1e-9)


def test_B8_columns_of_open_paths_leave_their_forces_open():
    """Zero columns do not force w_l = 0: the lifted foot's force is a part that no row holds."""
    dog, q = standing()
    plan = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False, sides=4)
    problem = plan.problem(q, touching=[0, 1, 1, 1])
    assert not problem.A1[:, :3].any()
    assert {(0,), (1,), (2,)} <= {tuple(part) for part in independent_parts(problem.A1)}
    np.testing.assert_allclose(plan.share(q, touching=[0, 1, 1, 1]).x[:3], 0.0, atol=1e-12)


def test_B9_one_reflection_per_equation_suffices():
    """(5.28): m_eq reflections, not n: the rest of the columns needs none."""
    rng = np.random.default_rng(4)
    A1, b1 = rng.standard_normal((3, 8)), rng.standard_normal(3)
    left, Q = A1.T.copy(), np.eye(8)
    for k in range(3):
        u = left[k:, k].copy()
        u[0] += math.copysign(np.linalg.norm(u), u[0])
        H = np.eye(8)
        H[k:, k:] -= 2.0 * np.outer(u, u) / (u @ u)
        left, Q = H @ left, Q @ H
    np.testing.assert_allclose(left[3:], 0.0, atol=1e-14)
    x = Q[:, :3] @ np.linalg.solve(left[:3].T, b1)
    found = solve_orthogonally(np.eye(8), np.zeros(8), A1, b1).x
    np.testing.assert_allclose(found, x, atol=1e-13)


def test_B10_moments_of_a_link_have_arms_to_its_own_joints():
    """(4.31c): from the centroid of a link to its own far joint, chat_11, not to the next one."""
    hand = tb.load("two_finger_hand")
    q = np.array(hand.poses["home"])
    rng = np.random.default_rng(5)
    v, vd = rng.standard_normal((2, hand.nv))
    plan = tb.LoadSharing.of(hand, torque_limits=False)
    found = plan.joint_wrenches(plan.share(q, v, vd))
    near, far = found.of("left_base"), found.of("left_middle")
    R, origin = tb.forward_kinematics(hand, q, "left_proximal")
    _, joint = tb.forward_kinematics(hand, q, "left_distal")
    tip = joint + tb.forward_kinematics(hand, q, "left_distal")[0] @ (0.025, 0.0, 0.0)
    inertia = hand.body("left_proximal").inertia
    center = origin + R @ inertia.com
    wd = tb.frame_acceleration(hand, q, v, vd, "left_proximal")[:3]
    # about the normal of the plane
    moments = {}
    for name, arm in (("own", joint - center), ("next", tip - center)):
        total = near[:3] - far[:3] + np.cross(origin - center, near[3:]) - np.cross(arm, far[3:])
        moments[name] = total[1]
    assert moments["own"] == pytest.approx(inertia.tensor[5] * wd[1], rel=1e-9)
    assert abs(moments["next"] - moments["own"]) > 1e-6 * abs(moments["own"])


def test_B11_directions_come_from_the_inverse_of_the_factor():
    """App. B: L^-1 of W = L L^T in Q^T L^-1; the factor itself misses the optimum."""
    rng = np.random.default_rng(6)
    G = rng.standard_normal((5, 5))
    W, A1, b1 = G @ G.T + np.eye(5), rng.standard_normal((2, 5)), rng.standard_normal(2)
    L = np.linalg.cholesky(W)
    best = np.asarray(solve_qp(W, np.zeros(5), A1, b1).x)
    for factor, same in ((np.linalg.inv(L), True), (L.T, False)):
        Q, R = np.linalg.qr(factor @ A1.T)
        x = factor.T @ Q @ np.linalg.solve(R.T, b1)
        np.testing.assert_allclose(A1 @ x, b1, atol=1e-10)
        assert bool(np.abs(x - best).max() < 1e-9) is same


def test_B12_gravity_is_an_upward_acceleration_of_what_stands():
    """(4.5), (4.7): m (a + g) with g up; the ground pushes up, by weight and acceleration."""
    dog, q = standing()
    mass = sum(body.inertia.mass for body in dog.bodies)
    plan = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False)
    for up in (0.0, 1.5, -1.5):
        vd = np.zeros(dog.nv)
        vd[5] = up
        total = plan.share(q, vd=vd).forces.sum(axis=0)
        np.testing.assert_allclose(total, [0.0, 0.0, mass * (9.81 + up)], atol=1e-8)


def test_B13_ground_forces_enter_torques_with_a_minus():
    """By tau = tau' + J^T w, w acts on the moving pole; the ground's force on a foot is -w."""
    dog, q = standing()
    share = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False).share(q)
    needed = np.asarray(tb.inverse_dynamics(dog, q, np.zeros(dog.nv), np.zeros(dog.nv)))
    here = tb.contacts(dog, q, world=FLOOR)
    total = np.zeros(dog.nv)
    for k, point in enumerate(dog.contacts):
        R, p = tb.forward_kinematics(dog, q, point.body)
        J = tb.frame_jacobian(dog, q, point.body, at=R.T @ (here.point[k] - p))
        total += J[3:].T @ share.forces[k]
    assert np.all(share.forces[:, 2] > 0.0)
    np.testing.assert_allclose(share.tau, needed - total, atol=1e-9)


def test_B14_singular_weights_have_one_answer():
    """J J^T of three joints per finger with moments is singular: ties are broken, not failed."""
    pumas = tb.load("two_pumas")
    q = np.array(pumas.poses["home"])
    few = [a.joint for a in pumas.actuators if not a.joint.endswith("6")]
    plan = tb.LoadSharing.of(pumas, driven=few, torque_limits=False, objective=tb.TorqueNorm())
    problem = plan.problem(q)
    driven = [i for i in range(pumas.nv) if i in plan.layout.driven]
    J = plan.problem(q, formulation="superposition").A1[driven, : len(plan.names)]
    assert np.linalg.matrix_rank(J.T @ J) < len(plan.names)
    assert plan.share(q).is_feasible
    assert np.linalg.eigvalsh(problem.W)[0] > 0.0


def test_B15_tolerances_follow_the_scale_of_the_data():
    """Absolute ones stop too early or never; rows of zeros divide by nothing."""
    rng = np.random.default_rng(7)
    G = rng.standard_normal((6, 6))
    W, c = G @ G.T + 0.1 * np.eye(6), 3.0 * rng.standard_normal(6)
    A, x = rng.standard_normal((20, 6)), rng.standard_normal(6)
    b = A @ x - rng.exponential(0.3, 20)
    best = np.asarray(solve_qp(W, c, None, None, A, b).x)
    assert solve_qp(W, c, None, None, A, b).active > 0
    for scale in (1e-6, 1e6):
        rows = np.where(np.arange(20) % 2, scale, 1.0)[:, None]
        found = solve_qp(W, scale * c, None, None, A * rows, scale * b * rows[:, 0])
        assert found.status == 0.0
        np.testing.assert_allclose(found.x, scale * best, atol=1e-9 * scale)
    wider = np.vstack([A, np.zeros(6)])
    assert solve_qp(W, c, None, None, wider, np.append(b, -1.0)).status == 0.0
    assert solve_qp(W, c, None, None, wider, np.append(b, 1.0)).status == 1.0


def test_B16_several_step_limits_are_active_at_once():
    """One at a time, as printed, does not hold: a landing foot has its limit, and others too."""
    q = np.array([walker_pose(0.45 + 0.003 * k) for k in range(60)])
    touching = np.ones((60, 4))
    touching[:50, 0] = 0.0
    rows = walker_plan().problem(q, touching=touching)
    programs = ForcePrograms(
        np.tile(np.eye(12), (60, 1, 1)), np.zeros((60, 12)), rows.A1, rows.b1, rows.A2, rows.b2
    )
    run = smoothed_forces(programs, StepBound(20.0), dt=0.01, changes=(50,))
    at_limit = np.abs(np.abs(np.diff(run.x, axis=0)) - 20.0) < 1e-6
    assert at_limit[49:].sum(axis=1).max() > 1


def test_B17_controllability_depends_on_the_unit_of_length():
    """More motors are never worse, though not always better; kappa mixes radians and lengths."""
    walker = tb.load("planar_walker")
    q = walker.neutral()
    sets = [[f"joint_{k}" for k in names] for names in ("135", "1235", "12345", "123456")]
    for length in (1.0, 0.01):
        rated = [tb.mobility(walker, q, driven=names, length=length).condition for names in sets]
        assert all(a >= b - 1e-12 for a, b in pairwise(rated))
    meters, centimeters = (
        tb.mobility(walker, q, driven=sets[0], length=x).condition for x in (1.0, 0.01)
    )
    assert abs(centimeters / meters - 1.0) > 0.1


def test_B18_equal_shares_are_least_squares_of_normal_forces():
    """(6.22), (6.23): sum (fN - W/p)^2 and sum fN^2 have one optimum: the sum is the weight."""
    dog, q = standing()
    mass = sum(body.inertia.mass for body in dog.bodies)
    quarter = mass * 9.81 / 4.0
    plan = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False, objective=tb.EqualShare())
    share = plan.share(q)
    normal = [group.normal for group in plan.layout.groups]
    sign = np.sign(share.x[normal][0])
    A1, b1 = plan.problem(q).A1, plan.problem(q).b1
    for target in (0.0, quarter * sign):
        W = 1e-9 * np.eye(12)
        c = np.zeros(12)
        W[normal, normal] = 1.0
        c[normal] = -target
        x = solve_orthogonally(W, c, A1, b1).x
        np.testing.assert_allclose(x[normal], share.x[normal], rtol=1e-6)


def test_B19_touching_limits_need_no_positive_multiplier():
    """An optimum that just touches a limit has a multiplier of zero, and is optimal."""
    W, c = np.eye(2), np.array([-1.0, 0.0])
    A2, b2 = np.array([[-1.0, 0.0]]), np.array([-1.0])
    none = np.zeros((0, 2)), np.zeros(0)
    found = solve_qp(W, c, None, None, A2, b2)
    conditions = optimality(W, c, *none, A2, b2, found.x, none[1], found.inequality_multipliers)
    assert conditions.residual < 1e-12
    assert not conditions.is_strict


def test_B20_no_interaction_means_differences_across_the_line_of_contacts():
    """(f_i - f_j) . (c_i - c_j) = 0; the forces themselves do have components along it."""
    force = walker_plan().share(walker_pose(0.55)).x.reshape(4, 3) / 1000.0
    feet = feet_of_walker(0.55)
    line = feet[0] - feet[2]
    assert abs((force[0] - force[2]) @ line) < 1e-12
    assert abs(force[0] @ line) > 1e-3


def test_B21_weights_depend_on_the_unit_of_length():
    """Meters and millimeters: one physical answer with (6.20), and not with W = 1."""
    rng = np.random.default_rng(9)
    arms = rng.standard_normal((2, 3))
    load = np.array([0.3, -0.2, 0.5, 4.0, 1.0, -9.0])
    length = math.sqrt(np.mean(np.sum(arms**2, axis=1)))

    def shared(unit, invariant):
        """Return forces [N] of two grips, moments in N times the unit."""
        A = np.zeros((6, 12))
        for k, arm in enumerate(arms):
            x, y, z = arm / unit
            A[:3, 6 * k : 6 * k + 3] = np.eye(3)
            A[:3, 6 * k + 3 : 6 * k + 6] = [[0, -z, y], [z, 0, -x], [-y, x, 0]]
            A[3:, 6 * k + 3 : 6 * k + 6] = np.eye(3)
        weight = (length / unit) ** 2 if invariant else 1.0
        W = np.diag(np.tile([1.0] * 3 + [weight] * 3, 2))
        b = np.concatenate([load[:3] / unit, load[3:]])
        x = solve_orthogonally(W, np.zeros(12), A, b).x.reshape(2, 6)
        return x[:, 3:]

    np.testing.assert_allclose(shared(1.0, True), shared(1e-3, True), atol=1e-9)
    assert np.abs(shared(1.0, False) - shared(1e-3, False)).max() > 0.1
    # ours is the invariant one: it knows its lever
    arms_model = tb.load("two_pumas")
    q = np.array(arms_model.poses["home"])
    plan = tb.LoadSharing.of(
        arms_model, torque_limits=False, objective=tb.InternalForce(length=0.45)
    )
    diagonal = np.diag(plan.problem(q).W)
    kinds = [kind for group in plan.layout.groups for kind in group.kinds]
    for kind, value in zip(kinds, diagonal, strict=True):
        assert value == pytest.approx(1.0 / 0.45**2 if kind == "moment" else 1.0)


def test_B22_power_indices_bound_nothing_where_power_is_negative():
    """eta_p <= 1 needs positive power: instants that regenerate have no index."""
    time = np.array([0.0, 1.0, 2.0])
    found = tb.performance_indices(time, [1, 1, 1], [2, 4, 5], [3.0, -1.0, 2.0], [2.0, -1.5, 1.0])
    np.testing.assert_array_equal(found.is_bounded, [True, False, True])
    assert np.isnan(found.power[1])
    np.testing.assert_allclose(found.power[[0, 2]], [2 / 3, 0.5])
    np.testing.assert_allclose(found.force, [0.5, 0.25, 0.2])
    assert found.global_force == pytest.approx(2.0 / 7.5)
    # integrals: 1.5 and 0
    assert np.isnan(found.global_power)


def test_B23_the_least_residual_holds_for_every_inequality():
    """(6.6): d has m_in entries, 20 here, and not n - m_eq = 2."""
    data = LinearData(*kerr_roth(), normals=(2, 6))
    program = LargestResidual(normalized=False).program(data)
    assert np.count_nonzero(program.A2[:, -1] == -1.0) == 20
