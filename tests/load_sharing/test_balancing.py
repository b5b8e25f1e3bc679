"""Balancing by redundant motors: the published four-bar, any mechanism, motors in cut joints."""

import numpy as np
import pytest

import tiburon as tb
from tests.loops.mechanisms import arms_on_object
from tiburon.load_sharing.balancing import least_by_levels
from tiburon.reproduce.four_bar_motion import exactly_balanced, four_bar_motion

FREE = tb.World(gravity=(0.0, 0.0, 0.0))

TIMES = (0.0125, 0.025, 0.05, 0.075, 0.0875)

POWER = (8.9774, 17.5636, 25.4948, -24.9484, -6.3713)

ONE = ((2.4067, 2.4067, 1.9513), (1.3545, 1.3545, 1.1181), (3.8351, 3.8350, 0.8115),
       (1.8419, 1.8418, -1.5883), (1.5032, 1.5031, -1.3848))  # fmt: skip
"""Norms of f1 and f4, and tau1, with one motor."""

THREE = ((-3.8432, -3.8915, -2.8342), (-2.2903, -2.3887, -1.3288), (7.3902, 7.2528, 5.7478),
         (-3.8383, -3.8085, -3.5043), (-3.3344, -3.2920, -2.8859))  # fmt: skip

FOUR = ((-1.2010, -1.2493, -0.1920, 2.6422), (-0.7884, -0.8868, 0.1732, 1.5019),
        (2.2925, 2.1551, 0.6501, -5.0977), (-1.0505, -1.0207, -0.7165, 2.7878),
        (-0.9563, -0.9139, -0.5078, 2.3781))  # fmt: skip

PRINTED = 6e-5
"""Values have four decimals."""


@pytest.fixture(scope="module")
def linkage():
    return tb.load("balanced_four_bar")


@pytest.fixture(scope="module")
def four_motors(linkage):
    return tb.drive_cut_joint(linkage, "joint_4")


def norms(balance):
    return np.linalg.norm(balance.forces, axis=-1)


def test_four_bar_has_the_derived_values(linkage, four_motors):
    """E14: support forces, torques, frame moment and power with one, three and four motors."""
    for k, time in enumerate(TIMES):
        motion = four_bar_motion(linkage, time)
        one = tb.balance_frame(linkage, *motion, driven=["joint_1"], world=FREE)
        three = tb.balance_frame(linkage, *motion, world=FREE)
        moved = tb.driven_cut_state(linkage, four_motors, *motion)
        four = tb.balance_frame(four_motors, *moved, world=FREE)
        np.testing.assert_allclose([*norms(one), one.tau[0]], ONE[k], atol=PRINTED)
        for found in (three, four):
            assert norms(found).max() < 1e-4
            np.testing.assert_allclose(found.net_moment, one.net_moment, atol=1e-12)
            np.testing.assert_allclose(found.net_force, one.net_force, atol=1e-12)
        np.testing.assert_allclose(three.tau, THREE[k], atol=1e-4)
        # the source's fourth torque acts on the frame
        np.testing.assert_allclose(four.tau * [1, 1, 1, -1], FOUR[k], atol=1e-4)
        for found in (one, three, four):
            assert found.power == pytest.approx(POWER[k], abs=PRINTED)
            assert found.power == pytest.approx(float(one.power), abs=1e-12)


def test_exactly_balanced_linkages_do_not_shake(linkage):
    """With (7.1) imposed exactly, three motors leave no force on the frame: below 1e-12 N."""
    exact = exactly_balanced(linkage)
    four = tb.drive_cut_joint(exact, "joint_4")
    times = np.linspace(0.005, 0.095, 7)
    motions = [
        np.array(part) for part in zip(*(four_bar_motion(exact, t) for t in times), strict=True)
    ]
    found = tb.balance_frame(exact, *motions, world=FREE)
    assert norms(found).max() < 1e-12
    np.testing.assert_allclose(found.net_force, 0.0, atol=1e-12)
    for k in range(7):
        moved = tb.driven_cut_state(exact, four, *(part[k] for part in motions))
        assert norms(tb.balance_frame(four, *moved, world=FREE)).max() < 1e-12
    # two motors cannot
    two = tb.balance_frame(exact, *motions, world=FREE, driven=["joint_1", "joint_2"])
    assert norms(two).max() > 0.1


def test_unbalanced_linkages_share_what_cannot_be_removed(linkage):
    """Mass centers at mid-link: the net force stays, and both supports carry half of it."""
    rods = {"link_1": 0.5, "link_2": np.sqrt(2.0), "link_3": 1.0}
    bodies = [
        tb.Body(b.name, b.parent, joint=b.joint,
                inertia=tb.Inertia(b.inertia.mass, (rods[b.name], 0, 0), b.inertia.tensor))
        for b in linkage.bodies
    ]  # fmt: skip
    bare = tb.Model("rods", bodies, loops=linkage.loops, actuators=linkage.actuators)
    four = tb.drive_cut_joint(bare, "joint_4")
    motion = four_bar_motion(bare, 0.03)
    one = tb.balance_frame(bare, *motion, driven=["joint_1"], world=FREE)
    moved = tb.driven_cut_state(bare, four, *motion)
    best = tb.balance_frame(four, *moved, world=FREE)
    np.testing.assert_allclose(best.net_force, one.net_force, atol=1e-13)
    np.testing.assert_allclose(best.forces, 0.5 * best.net_force[None].repeat(2, 0), atol=1e-12)
    assert norms(best).max() < norms(one).max()


def test_motors_in_cut_joints_change_no_motion(linkage, four_motors):
    """The divided body moves as the whole one; the share of its mass does not matter."""
    q, v, vd = four_bar_motion(linkage, 0.04)
    torque = np.array([1.0, -0.5, 0.3])
    other = tb.drive_cut_joint(linkage, "joint_4", share=0.2)
    expected = tb.forward_dynamics(linkage, q, v, torque, world=FREE)
    for divided in (four_motors, other):
        at, rate, change = tb.driven_cut_state(linkage, divided, q, v, vd)
        found = tb.forward_dynamics(divided, at, rate, np.append(torque, 0.0), world=FREE)
        np.testing.assert_allclose(found[:3], expected, rtol=1e-8)
        np.testing.assert_allclose(tb.constraint_residual(divided, at), 0.0, atol=1e-9)
        assert rate[3] == pytest.approx(rate[:3].sum(), rel=1e-9)
        assert change[3] == pytest.approx(change[:3].sum(), rel=1e-9)
    assert "home" in four_motors.poses


def test_any_mechanism_is_balanced_within_its_limits():
    """Arms on an object: no efforts within the limits leave less force on the supports."""
    model = arms_on_object((6, 6), tb.Fixed)
    motors = [name for name in model.joint_names if name.startswith("a")]
    rng = np.random.default_rng(8)
    q, v = model.neutral(), np.zeros(model.nv)
    J = np.asarray(tb.loop_jacobian(model, q))
    # any motion that keeps the loops closed
    free = np.linalg.svd(J)[2][12:].T
    vd = free @ rng.standard_normal(free.shape[1])
    best = tb.balance_frame(model, q, v, vd, driven=motors)
    assert set(best.supports) == {"a0_0", "a1_0"}
    cost = np.sum(best.forces**2)
    for objective in (tb.InternalForce(length=1.0), tb.TorqueNorm()):
        plan = tb.LoadSharing.of(model, driven=motors, torque_limits=False, objective=objective)
        wrenches = plan.joint_wrenches(plan.share(q, v, vd))
        forces = np.array([wrenches.of(name)[3:] for name in best.supports])
        np.testing.assert_allclose(-forces.sum(axis=0), best.net_force, atol=1e-9)
        assert np.sum(forces**2) >= cost - 1e-9
    bound = 0.7 * float(np.abs(best.tau[6:]).max())
    limits = dict.fromkeys(motors, (-bound, bound))
    held = tb.balance_frame(model, q, v, vd, driven=motors, torque_limits=limits)
    assert np.abs(held.tau[6:]).max() == pytest.approx(bound, rel=1e-6)
    assert np.sum(held.forces**2) > cost
    with pytest.raises(tb.DomainError, match="limits within which"):
        tb.balance_frame(
            model, q, v, vd, driven=motors, torque_limits=dict.fromkeys(motors, (-1e-3, 1e-3))
        )
    with pytest.raises(tb.UnknownNameError, match="nowhere"):
        tb.balance_frame(model, q, v, vd, driven=motors, supports=["nowhere"])


def test_levels_come_one_after_the_other():
    """The first level decides alone what it can; the second takes the rest; limits bind both."""
    G, g = np.array([[1.0, 1.0, 0.0]]), np.array([-2.0])
    T, t = np.eye(3), np.array([0.0, 0.0, 5.0])
    none = np.zeros((0, 3)), np.zeros(0)
    x = least_by_levels([(G, g), (T, t)], *none, *none)
    np.testing.assert_allclose(x, [1.0, 1.0, -5.0], atol=1e-14)
    A2, b2 = np.array([[-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), np.array([-0.25, -3.0])
    x = least_by_levels([(G, g), (T, t)], *none, A2, b2)
    np.testing.assert_allclose(x, [0.25, 1.75, -3.0], atol=1e-12)


def test_invalid_loops_are_refused(linkage):
    with pytest.raises(tb.UnknownNameError, match="joint_9"):
        tb.drive_cut_joint(linkage, "joint_9")
    with pytest.raises(tb.DomainError, match="share"):
        tb.drive_cut_joint(linkage, "joint_4", share=1.0)
    pumas = tb.load("two_pumas")
    with pytest.raises(tb.ModelError, match="moving joint closes"):
        tb.drive_cut_joint(pumas, pumas.loops[0].name)
    with pytest.raises(tb.ModelError, match="drive_cut_joint"):
        tb.driven_cut_state(linkage, linkage, [0.0, 0.0, 0.0])
