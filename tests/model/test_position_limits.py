"""Random states and inverse kinematics within the limits that the joints of a model have."""

import math
from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import random_inertia

PANDA = tb.load("panda")


def angles_of(quaternions):
    """Return the angles of turns [rad]."""
    sines = np.linalg.norm(quaternions[..., 1:], axis=-1)
    return 2.0 * np.arctan2(sines, np.abs(quaternions[..., 0]))


def limited():
    """Build one joint of each kind of limit: two-sided, one-sided, per freedom, tied, a ball."""
    rng = np.random.default_rng(1)
    at = tb.Pose(translation=(0.1, 0.05, 0.3))
    kinds = [
        tb.Revolute("both", (0, 1, 0), limits=tb.JointLimits(-0.4, 1.1, velocity=0.3)),
        tb.Prismatic("low", (1, 0, 0), limits=tb.JointLimits(lower=0.2)),
        tb.Revolute("high", (0, 0, 1), limits=tb.JointLimits(upper=-0.5)),
        tb.Universal("each", limits=tb.JointLimits((-0.3, 0.1), (0.2, 0.6))),
        tb.Spherical("ball", limits=tb.JointLimits(upper=0.7)),
        tb.Revolute("leader", (1, 0, 0), limits=tb.JointLimits(-2.0, 2.0)),
        tb.Coupled(
            "follower",
            tb.Revolute("turn", (0, 1, 0)),
            leader="leader",
            ratio=-2.0,
            offset=0.1,
            limits=tb.JointLimits(-0.9, 0.5, velocity=0.2),
        ),
        tb.Revolute("open", (0, 1, 0)),
    ]
    bodies, parent = [], "world"
    for number, joint in enumerate(kinds):
        name = f"b{number}"
        placed = replace(joint, pose=at)
        bodies.append(tb.Body(name, parent, joint=placed, inertia=random_inertia(rng)))
        parent = name
    return tb.Model("limited", bodies, [tb.Frame("tip", parent, at)])


def assert_inside(model, q):
    """Check every position of the model `limited` against its limits as they were written."""
    part = {joint.name: q[..., model.slice(joint.name)] for joint in model.joints if joint.nq}
    rounding = 1e-15

    def between(x, low, high):
        assert np.all(x >= low)
        assert np.all(x <= high)

    between(part["both"], -0.4, 1.1)
    between(part["low"], 0.2, np.inf)
    between(part["high"], -np.inf, -0.5)
    between(part["each"], np.array([-0.3, 0.1]), np.array([0.2, 0.6]))
    # an angle is computed from a quaternion with a few roundings
    between(angles_of(part["ball"]), 0.0, 0.7 + 10.0 * rounding)
    between(-2.0 * part["leader"] + 0.1, -0.9 - rounding, 0.5 + rounding)


def test_random_states_stay_within_all_limits():
    """Positions and speeds; joints that follow others bound their leaders."""
    model = limited()
    q, v = model.random_state(3, (500,))
    assert_inside(model, q)
    speed = {name: np.abs(v[:, model.slice(name, of="v")]) for name in ("both", "leader", "open")}
    assert speed["both"].max() <= 0.3
    assert speed["leader"].max() <= 0.1
    assert speed["open"].max() > 2.0
    # the whole range is used
    both = q[:, model.slice("both")]
    assert both.min() < -0.35
    assert both.max() > 1.05


def test_limited_turns_are_uniform_among_rotations():
    """Rotations by less than a are a share of (a - sin a) / (A - sin A) of those up to A."""
    model = limited()
    angles = angles_of(model.random_state(4, (4000,))[0][:, model.slice("ball")])
    for a in (0.3, 0.5, 0.6):
        share = (a - math.sin(a)) / (0.7 - math.sin(0.7))
        # four standard deviations of 4000 draws
        assert abs(np.mean(angles < a) - share) < 4.0 * math.sqrt(share * (1 - share) / 4000)


def test_limits_may_be_disabled():
    model = limited()
    q, v = model.random_state(5, (200,), limits=False)
    assert np.abs(q[:, model.slice("both")]).max() > 3.0
    assert np.abs(v[:, model.slice("both", of="v")]).max() > 2.0
    q, _ = PANDA.random_state(0, (300,))
    for joint in PANDA.joints:
        if joint.nq:
            x = q[:, PANDA.slice(joint.name)]
            assert x.min() >= joint.limits.lower
            assert x.max() <= joint.limits.upper


def test_limits_of_leader_and_follower_that_exclude_each_other_are_refused():
    leader = tb.Revolute("a", limits=tb.JointLimits(0.0, 1.0))
    tied = tb.Coupled(
        "b", tb.Revolute("t"), leader="a", ratio=-1.0, limits=tb.JointLimits(0.5, 2.0)
    )
    inertia = tb.Inertia(1.0, tensor=(0.1, 0.1, 0.1))
    model = tb.Model(
        "m",
        [
            tb.Body("x", joint=leader, inertia=inertia),
            tb.Body("y", "x", joint=tied, inertia=inertia),
        ],
    )
    with pytest.raises(
        tb.ModelError, match="joint 'b': expected limits compatible with those of its leader"
    ):
        model.random_state(0)


def inside_panda(q):
    """Return which positions keep the limits of all joints."""
    kept = np.ones(q.shape[:-1], dtype=bool)
    for joint in PANDA.joints:
        if joint.nq:
            x = q[..., PANDA.slice(joint.name)]
            kept &= ((x >= joint.limits.lower) & (x <= joint.limits.upper)).all(axis=-1)
    return kept


def test_inverse_kinematics_keeps_the_limits_of_the_model():
    """Every position found is one the robot can take, and goals it can reach are reached."""
    goal, _ = PANDA.random_state(1, (40,))
    R, p = tb.forward_kinematics(PANDA, goal, "tool")
    target = tb.FrameTarget("tool", position=p, orientation=R)
    start = PANDA.random_state(2)[0]
    found = tb.inverse_kinematics(PANDA, start, target, starts=30)
    assert inside_panda(found.q).all()
    assert found.reached.mean() > 0.9
    free = tb.inverse_kinematics(PANDA, start, target, starts=30, limits=False)
    assert free.reached.all()
    # without limits most solutions are of no use
    assert inside_panda(free.q).mean() < 0.6


def test_all_kinds_of_limits_are_kept():
    """One-sided, per freedom, of a ball and of a joint that follows another."""
    model = limited()
    goal, _ = model.random_state(6, (20,))
    R, p = tb.forward_kinematics(model, goal, "tip")
    target = tb.FrameTarget("tip", position=p, orientation=R)
    start = model.random_state(7, limits=False)[0]
    found = tb.inverse_kinematics(model, start, target, starts=20)
    assert_inside(model, found.q)
    assert found.reached.mean() > 0.9
    # a step in vain is a step outside: the same search without limits leaves them
    free = tb.inverse_kinematics(model, start, target, limits=False)
    with pytest.raises(AssertionError):
        assert_inside(model, free.q)


def test_named_limits_replace_those_of_their_joints_alone():
    model = limited()
    goal, _ = model.random_state(8)
    _, p = tb.forward_kinematics(model, goal, "tip")
    target = tb.FrameTarget("tip", position=p)
    start = model.random_state(9)[0]
    found = tb.inverse_kinematics(
        model, start, target, limits={"both": (0.9, 3.0), "follower": (-0.2, 0.3)}, starts=5
    )
    part = {name: found.q[model.slice(name)] for name in ("both", "low", "leader")}
    assert 0.9 <= part["both"][0] <= 3.0
    assert part["low"][0] >= 0.2
    assert -0.2 <= -2.0 * part["leader"][0] + 0.1 <= 0.3
    with pytest.raises(tb.OptionError, match="limits: expected True or False or"):
        tb.inverse_kinematics(model, start, target, limits=3)
    with pytest.raises(tb.ShapeError, match=r"limits\['both'\]: expected a pair of lowest and"):
        tb.inverse_kinematics(model, start, target, limits={"both": 1.0})
