"""Places where Featherstone 1987, taken as printed, goes wrong; each test names its trap.

T1 table 8-1, planar joint; T2 the two transposes; T3 eq. 7.9; T11 gravity on floating bases; T14
the denominator of the articulated-body algorithm.
"""

import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import random_inertia, random_joint, random_pose
from tests.running import OnFloats
from tests.strategies import GRAVITY
from tests.tolerances import ALGEBRA, DIFFERENCE, DIFFERENCE_STEP, SOLVE, assert_close
from tiburon.spatial import Force, Motion, subspace_matrix


def body_velocity(joint, q, qd):
    """Return the velocity of the body in body coordinates, by central differences of its pose."""
    h = DIFFERENCE_STEP

    def pose(t):
        X = joint.transform([a + t * b for a, b in zip(q, qd, strict=True)])
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = np.array(X.rotation).T, X.translation
        return T

    rate = np.linalg.inv(pose(0.0)) @ (pose(h) - pose(-h)) / (2 * h)
    return np.array([rate[2, 1], rate[0, 2], rate[1, 0], *rate[:3, 3]])


def test_T1_planar_joint_needs_columns_that_turn_with_the_angle():
    """S as printed is constant and misses the velocity by as much as the velocity itself."""
    joint = tb.Planar("table")
    q, qd = (0.7, -0.4, 1.1), (0.9, -1.3, 0.8)
    velocity = body_velocity(joint, q, qd)
    assert_close(joint.motion(q, qd).array, velocity, DIFFERENCE)
    x, y, angle = qd
    printed = np.array([0.0, 0.0, angle, x, y, 0.0])
    assert np.abs(printed - velocity).max() > 0.5


def test_T2_six_columns_are_a_subspace_and_not_a_tensor():
    """Joint forces of a tip wrench are J^T w, also where J happens to be square.

    The transpose of a 6x6 tensor exchanges its halves; on six joints both have the same shape.
    """
    rng = np.random.default_rng(2)
    bodies, parent = [], "world"
    for number in range(6):
        joint = random_joint(rng, f"j{number}", ("revolute", "prismatic"))
        bodies.append(tb.Body(f"b{number}", parent, joint=joint, inertia=random_inertia(rng)))
        parent = f"b{number}"
    arm = tb.Model("arm", bodies, [tb.Frame("tip", parent, random_pose(rng))])
    q, _ = arm.random_state(rng)
    wrench = rng.standard_normal(6)
    ours = OnFloats(arm, GRAVITY)
    rest = np.zeros(6)
    felt = ours.inverse_dynamics(q, rest, rest) - ours.inverse_dynamics(
        q, rest, rest, {"tip": wrench}
    )

    def tip(position):
        R, p = tb.forward_kinematics(arm, position, "tip")
        return R, p

    h = DIFFERENCE_STEP
    R, _ = tip(q)
    columns = []
    for unit in np.eye(6):
        (R1, p1), (R0, p0) = tip(q + h * unit), tip(q - h * unit)
        turn = R.T @ (R1 - R0) / (2 * h)
        columns.append([turn[2, 1], turn[0, 2], turn[1, 0], *(R.T @ (p1 - p0) / (2 * h))])
    J = np.array(columns).T
    assert_close(felt, J.T @ wrench, DIFFERENCE)
    P = np.roll(np.eye(6), 3, axis=0)
    assert np.abs(P @ J.T @ P @ wrench - felt).max() > 0.1


def test_T2_free_joint_projects_with_the_subspace_transpose():
    """Six degrees of freedom: joint force times velocity is power, in the order of the velocity."""
    rng = np.random.default_rng(5)
    joint = tb.Free("float")
    q, v, f = joint.random(rng), rng.standard_normal(6), rng.standard_normal(6)
    S = subspace_matrix(joint.subspace(q))
    force = Force.from_array(f.tolist())
    assert_close(joint.project(q, force), S.T @ f)
    assert Motion.from_array((S @ v).tolist()).dot(force) == pytest.approx(f @ v, rel=ALGEBRA)


FIGURE_7_1 = (0, 1, 2, 1, 4, 4)
"""Predecessors of links 1 to 6 of the tree in Featherstone 1987, fig. 7-1."""


def figure_tree(seed=1):
    rng = np.random.default_rng(seed)
    bodies = []
    for number, parent in enumerate(FIGURE_7_1, start=1):
        bodies.append(
            tb.Body(
                f"link{number}",
                f"link{parent}" if parent else "world",
                joint=random_joint(rng, f"joint{number}", ("revolute", "prismatic")),
                inertia=random_inertia(rng),
            )
        )
    return tb.Model("figure", bodies)


def test_T3_joints_couple_exactly_if_one_supports_the_other():
    """H_ij is zero unless i lies in the sub-tree of j or j in that of i; eq. 7.9 swaps them.

    Taken literally, the condition keeps entries of the wrong triangle alone.
    """
    model = figure_tree()
    q, _ = model.random_state(1)
    H = OnFloats(model).mass_matrix(q)

    def supports(j, i):
        while i:
            if i == j:
                return True
            i = FIGURE_7_1[i - 1]
        return False

    for i in range(1, 7):
        for j in range(1, 7):
            coupled = supports(j, i) or supports(i, j)
            assert (H[i - 1, j - 1] != 0.0) == coupled, (i, j)
    assert H[1, 4] == H[2, 4] == 0.0  # H_25 and H_35 of the book
    # joint 5 couples with 1, 4 and itself alone
    assert np.flatnonzero(H[4]).tolist() == [0, 3, 4]


def test_T11_acceleration_of_a_floating_base_is_the_true_one():
    """A free robot falls with g; the accelerating-world trick alone would leave a - g.

    Gravity moves all bodies alike, so joint accelerations do not depend on it.
    """
    rng = np.random.default_rng(6)
    bodies = [
        tb.Body("base", joint=tb.Free("float", pose=random_pose(rng)), inertia=random_inertia(rng)),
        tb.Body(
            "arm",
            "base",
            joint=random_joint(rng, "arm", ("revolute",)),
            inertia=random_inertia(rng),
        ),
        tb.Body(
            "hand",
            "arm",
            joint=random_joint(rng, "hand", ("spherical",)),
            inertia=random_inertia(rng),
        ),
    ]
    model = tb.Model("diver", bodies)
    q, v = model.random_state(rng)
    tau = rng.standard_normal(model.nv)
    falling = OnFloats(model, GRAVITY).forward_dynamics(q, v, tau)
    floating = OnFloats(model, (0.0, 0.0, 0.0)).forward_dynamics(q, v, tau)
    R, _ = tb.forward_kinematics(model, q, "base")
    difference = np.zeros(model.nv)
    difference[3:6] = R.T @ np.array(GRAVITY)
    scale = np.abs(falling).max() * np.linalg.cond(OnFloats(model).mass_matrix(q))
    assert_close(falling - floating, difference, SOLVE, scale)


@pytest.mark.parametrize("kind", ["revolute", "spherical", "universal", "screw"])
def test_T14_joint_without_inertia_is_refused(kind):
    """S^T I S is positive only if something resists: a point mass on the axis does not."""
    rng = np.random.default_rng(7)
    joint = random_joint(rng, "weightless", (kind,))
    if kind == "screw":
        # a screw also slides, which a mass does resist: only no mass at all leaves it free
        with pytest.raises(tb.ModelError, match="mass must be positive on the screw joint"):
            tb.Model("m", [tb.Body("leaf", joint=joint)])
        return
    with pytest.raises(tb.ModelError, match="joint 'weightless': its inertia must be positive"):
        tb.Model("m", [tb.Body("leaf", joint=joint, inertia=tb.Inertia.point(1.0, com=(0, 0, 0)))])


def test_T14_massless_links_between_joints_are_fine():
    """What a massless link carries resists for it."""
    rng = np.random.default_rng(8)
    model = tb.Model(
        "m",
        [
            tb.Body("cross", joint=tb.Revolute("x", (1, 0, 0))),
            tb.Body(
                "leaf", "cross", joint=tb.Revolute("y", (0, 1, 0)), inertia=random_inertia(rng)
            ),
        ],
    )
    q, v = model.random_state(rng)
    tau = rng.standard_normal(2)
    ours = OnFloats(model, GRAVITY)
    vd = ours.forward_dynamics(q, v, tau)
    assert_close(ours.inverse_dynamics(q, v, vd), tau, ALGEBRA, 100.0)
