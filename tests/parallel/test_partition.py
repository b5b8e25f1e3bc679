"""Robots in parts: equal to the undivided robot, and the same bits wherever parts are computed."""

import numpy as np
import pytest

import tiburon as tb
from tests.loops.overconstrained import BENNETTS, bennett, sarrus
from tests.model.samples import random_tree
from tests.robots import ROBOTS, kicked
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.tape_calls import JointVector
from tiburon.parallel import cut

# sums over parts and over the undivided robot round differently, by some tens of units in the last
# place of the largest acceleration
EXACT = 1e-12


def chain(count):
    """Return a chain of links whose axes point along y, x and z in turn."""
    bodies = []
    for k in range(count):
        axis = [(0, 1, 0), (1, 0, 0), (0, 0, 1)][k % 3]
        pose = tb.Pose(translation=(0.0, 0.0, -0.2 if k else 0.0))
        joint = tb.Revolute(f"joint_{k}", axis=axis, pose=pose)
        inertia = tb.Inertia.box(0.8, (0.05, 0.06, 0.2), com=(0.01, 0.0, -0.1))
        bodies.append(
            tb.Body(f"link_{k}", f"link_{k - 1}" if k else "world", joint=joint, inertia=inertia)
        )
    return tb.Model("chain", bodies)


def short_chain():
    """Return a chain of four links in two parts."""
    robot = chain(4)
    return robot, tb.partition(robot, cuts=["joint_2"])


def error(parts, q, v, tau, **around):
    """Return the largest difference of accelerations, relative to the largest of them."""
    whole = tb.forward_dynamics(parts.model, q, v, tau, **around)
    found = parts.forward_dynamics(q, v, tau, **around)
    return np.abs(found - whole).max() / np.abs(whole).max()


def closed_state(robot, seed=0):
    """Return a state with closed loops, kicked."""
    rng = np.random.default_rng(seed)
    q = np.array(robot.poses["home"]) if "home" in robot.poses else robot.neutral()
    v = tb.project_velocity(robot, q, 0.5 * rng.standard_normal(robot.nv))
    return q, v, rng.standard_normal(robot.nv)


@pytest.mark.parametrize("cuts", [4, pytest.param(16, marks=pytest.mark.slow)])
def test_chain_of_60_joints_equals_the_undivided_one(cuts):
    robot = chain(60)
    parts = tb.partition(robot, processes=cuts + 1)
    assert len(parts.cuts) == cuts
    assert error(parts, *kicked(robot, seed=cuts)) < EXACT


def taken_apart(monkeypatch, robot, cuts, state):
    """Return the method of a robot in parts, and what each part sends, on floats."""
    seen = []
    once = cut.run
    monkeypatch.setattr(cut, "run", lambda *given, **how: seen.append(given) or once(*given, **how))
    layout = tb.partition(robot, cuts=cuts).layout(loops=False)
    here = Setting(robot, (), (), robot.plan, (0.0, 0.0, -9.81))
    cut.cut_motion(layout, robot, here, tuple(JointVector(x.tolist()) for x in state))
    method, _, states = seen[-1]
    local = method.rounds[0].local
    return method, layout, [local(*one, None)[0] for one in zip(method.parts, states, strict=True)]


def test_two_parts_combined_send_what_they_would_send_as_one(monkeypatch):
    """The factor of inverse inertia and the accelerations of the handle that both share."""
    robot = chain(6)
    state = kicked(robot, seed=2)
    method, layout, sent = taken_apart(monkeypatch, robot, ["joint_2", "joint_4"], state)
    node = layout.tree.left if isinstance(layout.tree.left, cut.Joined) else layout.tree.right
    left, right = (cut._group(layout.parts[k], sent[k]) for k in (node.left, node.right))
    both, _ = method.combine(left, right, node)
    first = node.left == 0
    _, whole, alone = taken_apart(monkeypatch, robot, ["joint_4" if first else "joint_2"], state)
    one = cut._group(whole.parts[0 if first else 1], alone[0 if first else 1])
    R, expected = np.array(both.R, float), np.array(one.R, float)
    np.testing.assert_allclose(R.T @ R, expected.T @ expected, rtol=1e-9, atol=1e-12)
    (a,), (b,) = both.a.values(), one.a.values()
    np.testing.assert_allclose(a, b, rtol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_random_trees_with_random_cuts_equal_the_undivided_ones(seed):
    rng = np.random.default_rng(seed)
    robot = random_tree(rng, 9)
    moving = [body.joint.name for body in robot.plan.bodies]
    cuts = sorted(rng.choice(moving, size=min(5, len(moving)), replace=False))
    try:
        parts = tb.partition(robot, cuts=cuts)
    except tb.ModelError as refused:
        pytest.skip(f"no inertia to split: {refused}")
    assert error(parts, *kicked(robot, seed)) < EXACT


KINDS = ["gantry", "balloon"] + [
    pytest.param(name, marks=pytest.mark.slow) for name in ("screw_chain", "odd_arm", "orrery")
]


@pytest.mark.parametrize("name", KINDS)
def test_cuts_at_every_joint_of_any_kind(name):
    robot = ROBOTS[name]
    plan = robot.plan
    done = 0
    for body in plan.bodies:
        if body.parent < 0:
            continue
        try:
            parts = tb.partition(robot, cuts=[body.joint.name])
        except tb.ModelError:
            # no inertia to split, or joints that follow each other
            continue
        done += 1
        assert error(parts, *kicked(robot, seed=done)) < EXACT
    assert done


def test_floating_base_with_legs():
    robot = tb.load("quadruped")
    assert error(tb.partition(robot, "legs"), *kicked(robot)) < EXACT


def test_floating_base_with_arms_in_a_current():
    robot = tb.load("two_arm_rov").without_loops()
    parts = tb.partition(robot, processes=3)
    sea = tb.Water(current=(0.3, -0.2, 0.1))
    assert error(parts, *kicked(robot), fluid=sea) < EXACT


@pytest.mark.parametrize(
    "name",
    ["planar_3rrr", *(pytest.param(x, marks=pytest.mark.slow) for x in ("four_pumas", "stewart"))],
)
def test_loops_across_cuts(name):
    robot = tb.load(name)
    for parts in (tb.partition(robot, "legs"), tb.partition(robot, processes=7)):
        assert error(parts, *closed_state(robot)) < 10 * EXACT


@pytest.mark.parametrize("build", [lambda: bennett(*BENNETTS[0]), sarrus])
def test_redundant_constraints_across_cuts(build):
    """The rank of assembled constraints is that of the undivided robot."""
    robot, q = build()
    v = tb.project_velocity(robot, q, np.ones(robot.nv))
    assert np.abs(v).max() > 0.1
    tau = np.linspace(-1.0, 1.0, robot.nv)
    joints = [body.joint.name for body in robot.plan.bodies if body.parent >= 0]
    for cuts in ([joints[0]], joints):
        # redundant constraints agree to the rounding of the closed pose
        assert error(tb.partition(robot, cuts=cuts), q, v, tau) < 1e-9


def test_rotors_at_the_cut():
    plain = chain(6)
    robot = tb.Model(
        "geared",
        [
            tb.Body(
                body.name,
                body.parent,
                joint=tb.Revolute(
                    body.joint.name, axis=body.joint.axis, pose=body.joint.pose, armature=0.02
                ),
                inertia=body.inertia,
            )
            for body in plain.bodies
        ],
    )
    assert error(tb.partition(robot, cuts=["joint_3"]), *kicked(robot)) < EXACT


def test_numbers_of_messages():
    robot = chain(30)
    # at the world: one handle; in between two; at the tip one
    assert tb.partition(robot, cuts=["joint_10", "joint_20"]).numbers == (27, 90, 27)


def test_summary_tells_parts_numbers_exchanges_and_times():
    text = tb.partition(chain(30), cuts=["joint_10", "joint_20"]).summary
    for said in ("3 parts", "2 handles: sends 90", "receives 12", "2 exchanges", "2 levels", "us"):
        assert said in text


def test_legs_of_the_planar_platform_are_dyads_and_platform():
    parts = tb.partition(tb.load("planar_3rrr"), "legs")
    assert sorted(len(bodies) for bodies in parts.bodies) == [1, 2, 2, 2]


def test_legs_of_a_tree_hang_on_its_trunk():
    parts = tb.partition(tb.load("quadruped"), "legs")
    assert len(parts.names) == 5


def test_owners_are_contiguous_and_use_all_processes():
    parts = tb.partition(chain(40), processes=8)
    for count in range(1, 9):
        owners = parts.owners(count)
        assert list(owners) == sorted(owners)
        assert set(owners) == set(range(count))


# -- bad input ------------------------------------------------------------------------------------


def test_exactly_one_way_to_cut():
    with pytest.raises(tb.OptionError, match="legs"):
        tb.partition(chain(3))
    with pytest.raises(tb.OptionError, match="kind and processes"):
        tb.partition(chain(3), "legs", processes=2)


def test_unknown_joint():
    with pytest.raises(tb.UnknownNameError, match="joint_9"):
        tb.partition(chain(3), cuts=["joint_9"])


def test_body_without_inertia_cannot_be_split():
    inertia = tb.Inertia.box(1.0, (0.1, 0.1, 0.1))
    robot = tb.Model(
        "cross",
        [
            tb.Body("first", joint=tb.Revolute("a", (1, 0, 0))),
            tb.Body("second", "first", joint=tb.Revolute("b", (0, 1, 0)), inertia=inertia),
        ],
    )
    with pytest.raises(tb.ModelError, match=r"first.*too little inertia"):
        tb.partition(robot, cuts=["b"])


def test_too_many_processes():
    with pytest.raises(tb.ModelError, match="3 parts at most"):
        tb.partition(chain(3), processes=4)


def test_chain_has_no_legs():
    with pytest.raises(tb.ModelError, match="without legs"):
        tb.partition(chain(3), "legs")
