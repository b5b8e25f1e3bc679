"""Beyond the source: redundant arms, parallel robots with more motors, flexible arms."""

from itertools import pairwise

import numpy as np
import pytest

import tiburon as tb

Y = (0.0, 1.0, 0.0)


def rod(mass, length):
    return tb.Inertia.cylinder(mass, 0.02, length, com=(length / 2, 0.0, 0.0), axis=0)


def redundant_arms(**limits):
    """Return two planar arms of four joints on one bar: three more joints than the bar needs."""
    bodies, actuators = [], []
    for side, x, count in (("left", -0.5, 3), ("right", 0.5, 4)):
        parent, place = "world", (x, 0.0, 0.0)
        for k in range(count):
            name = f"{side}_{k}"
            joint = tb.Revolute(f"{name}_joint", Y, pose=tb.Pose(translation=place))
            bodies.append(tb.Body(name, parent, joint=joint, inertia=rod(1.0, 0.35)))
            actuators.append(tb.Actuator(f"{name}_motor", f"{name}_joint", **limits))
            parent, place = name, (0.35, 0.0, 0.0)
        if side == "left":
            wrist = tb.Revolute("bar_joint", Y, pose=tb.Pose(translation=place))
            bodies.append(tb.Body("bar", parent, joint=wrist, inertia=rod(4.0, 0.6)))
            actuators.append(tb.Actuator("bar_motor", "bar_joint", **limits))
    pin = tb.Revolute("pin", Y, pose=tb.Pose(translation=(0.6, 0.0, 0.0)))
    held = tb.Pose(translation=(0.35, 0.0, 0.0))
    model = tb.Model(
        "arms",
        bodies,
        loops=[tb.LoopClosure("pin", "bar", "right_3", pin, held)],
        actuators=actuators,
    )
    guess = np.array([-2.2, 0.9, 0.9, 0.5, -1.2, -0.8, -0.7, 0.3])
    return model, tb.assemble(model, guess).q


def task_rows(model, q):
    """Return the motion of the bar in the plane, per joint velocity."""
    J = np.asarray(tb.frame_jacobian(model, q, "bar"))
    return J[[1, 3, 5]]


def null_basis(matrix):
    _, sizes, rows = np.linalg.svd(matrix)
    return rows[int(np.sum(sizes > 1e-9 * sizes[0])) :]


@pytest.mark.parametrize("passive", [(), ("right_1_joint",)])
def test_redundant_arms_choose_their_motion_with_their_forces(passive):
    """Torques are less than with any other motion of the arms; the bar does not feel it."""
    model, q = redundant_arms()
    driven = [name for name in model.joint_names if name not in passive]
    plan = tb.LoadSharing.of(model, driven=driven, objective=tb.TorqueNorm(), torque_limits=False)
    assert plan.redundancy == 2 - len(passive)
    rng = np.random.default_rng(1)
    v = np.asarray(tb.project_velocity(model, q, 0.5 * rng.standard_normal(8)))
    vd = np.asarray(tb.loop_dynamics(model, q, v, 3.0 * rng.standard_normal(8)).acceleration)
    J = np.asarray(tb.loop_jacobian(model, q))
    N = null_basis(np.vstack([J, task_rows(model, q)]))
    assert len(N) == 3
    found = tb.share_free_motion(plan, q, v, vd, N)
    assert found.status == "optimal"
    fixed = plan.share(q, v, vd)
    best = found.tau @ found.tau
    assert best < 0.9 * (fixed.tau @ fixed.tau)
    # the same torques with the motion that was found, and more with every other
    again = plan.share(q, v, found.vd)
    np.testing.assert_allclose(again.tau, found.tau, atol=1e-5 * np.abs(found.tau).max())
    others = [plan.share(q, v, found.vd + 0.3 * rng.standard_normal(3) @ N) for _ in range(6)]
    costs = [other.tau @ other.tau for other in others]
    # some of these motions cost little; rounding and the small weight that breaks ties, 1e-9
    assert min(costs) > best * (1 - 1e-9)
    assert max(costs) > best * (1 + 1e-4)
    # neither the bar nor the loop feels the choice
    np.testing.assert_allclose(task_rows(model, q) @ (found.vd - vd), 0.0, atol=1e-9)
    plan.check(q, v, found.vd)
    result = tb.loop_dynamics(model, q, v, found.tau).acceleration
    np.testing.assert_allclose(result, found.vd, atol=1e-7 * (1 + np.abs(found.vd).max()))
    # damping holds the motion near the given one
    held = tb.share_free_motion(plan, q, v, vd, N, damping=1e9)
    np.testing.assert_allclose(held.vd, vd, atol=1e-5)
    np.testing.assert_allclose(held.tau, fixed.tau, atol=1e-4 * np.abs(fixed.tau).max())


def test_free_motion_makes_limited_motions_possible():
    """A motion beyond the motors with the arms held is within them when they may move."""
    model, q = redundant_arms()
    free = tb.LoadSharing.of(model, objective=tb.TorqueNorm(), torque_limits=False)
    v = np.zeros(8)
    J = np.asarray(tb.loop_jacobian(model, q))
    task = task_rows(model, q)
    N = null_basis(np.vstack([J, task]))
    # the bar accelerates upward; any accelerations that do so
    vd = np.linalg.lstsq(np.vstack([J, task]), np.r_[np.zeros(len(J)), 0, 0, 4.0], rcond=None)[0]
    fixed, best = free.share(q, v, vd), tb.share_free_motion(free, q, v, vd, N)
    bound = 0.5 * (np.abs(fixed.tau).max() + np.abs(best.tau).max())
    assert np.abs(best.tau).max() < bound
    limited, _ = redundant_arms(force_limits=(-bound, bound))
    plan = tb.LoadSharing.of(limited, objective=tb.TorqueNorm())
    found = tb.share_free_motion(plan, q, v, vd, N)
    assert found.status == "optimal"
    assert np.abs(found.tau).max() <= bound * (1 + 1e-9)
    np.testing.assert_allclose(found.tau, best.tau, atol=1e-6 * bound)
    tight = tb.LoadSharing.of(
        redundant_arms(force_limits=(-0.1, 0.1))[0], objective=tb.TorqueNorm()
    )
    lost = tb.share_free_motion(tight, q, v, vd, N)
    assert lost.status == "infeasible"
    assert np.isnan(lost.tau).all()


def test_parallel_robots_share_a_wrench_among_more_motors():
    """Motors at the elbows of a 3-RRR: each adds one of redundancy, and torques fall or stay."""
    robot = tb.load("planar_3rrr")
    q = np.array(robot.poses["home"])
    rng = np.random.default_rng(2)
    v = np.asarray(tb.project_velocity(robot, q, rng.standard_normal(robot.nv)))
    vd = np.asarray(tb.loop_dynamics(robot, q, v, rng.standard_normal(robot.nv)).acceleration)
    costs = []
    bases = [actuator.joint for actuator in robot.actuators]
    elbows = [name for name in robot.joint_names if name not in bases][:3]
    for more in range(4):
        driven = [*bases, *elbows[:more]]
        plan = tb.LoadSharing.of(
            robot, driven=driven, objective=tb.TorqueNorm(), torque_limits=False
        )
        assert plan.redundancy == more == tb.mobility(robot, q, driven=driven).redundancy
        share = plan.share(q, v, vd)
        found = tb.loop_dynamics(robot, q, v, share.tau).acceleration
        np.testing.assert_allclose(found, vd, atol=1e-7 * (1 + np.abs(vd).max()))
        costs.append(share.tau @ share.tau)
    assert all(b <= a * (1 + 1e-9) for a, b in pairwise(costs))
    assert costs[3] < 0.8 * costs[0]
