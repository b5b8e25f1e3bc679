"""Robots from robots: a composed model is the one written by hand; a locked joint is a weld."""

import inspect

import numpy as np
import pytest

import tiburon as tb
from tests.model.places import place_of
from tests.model.samples import random_inertia, random_pose, random_tree
from tests.robots import balloon, kicked, odd_arm, welded
from tests.running import OnFloats
from tests.tolerances import ALGEBRA, assert_close
from tiburon.model.composition import Parts

GRAVITY = (1.5, -2.5, -9.0)
MOUNT = tb.Pose.from_rpy((0.3, -0.2, 0.5), (0.1, 0.4, -0.2))
EXTRA = tb.Pose.from_rpy((-0.7, 0.4, 0.2), (0.0, 0.05, 0.3))


def vehicle():
    """Build a floating body with a mount that lies along no axis."""
    inertia = random_inertia(np.random.default_rng(1))
    return tb.Model(
        "rov",
        [tb.Body("hull", joint=tb.Free("float"), inertia=inertia)],
        [tb.Frame("mount", "hull", MOUNT)],
    )


def arm():
    """Build two hinges on the world, with frames on the tip and on the world itself."""
    rng = np.random.default_rng(2)
    shoulder = tb.Revolute("shoulder", axis=(0, 0.6, 0.8), pose=random_pose(rng))
    elbow = tb.Revolute("elbow", axis=(1, 0, 0), offset=0.4, pose=random_pose(rng))
    return tb.Model(
        "arm",
        [
            tb.Body("upper", joint=shoulder, inertia=random_inertia(rng)),
            tb.Body("lower", "upper", joint=elbow, inertia=random_inertia(rng)),
        ],
        [tb.Frame("tip", "lower", random_pose(rng)), tb.Frame("plug", "world", random_pose(rng))],
    )


def moved(joint, pose, name):
    """Return a hinge of the arm written out for the place where it is mounted."""
    return tb.Revolute(name, axis=joint.axis, offset=joint.offset, pose=pose @ joint.pose)


def rov_with_arm(prefix):
    """Write the composed robot by hand: products of poses, names with the prefix."""
    base, (upper, lower) = vehicle(), arm().bodies
    tip, plug = arm().frames
    place = MOUNT @ EXTRA
    return tb.Model(
        "rov",
        [
            *base.bodies,
            tb.Body(
                f"{prefix}upper",
                "hull",
                joint=moved(upper.joint, place, f"{prefix}shoulder"),
                inertia=upper.inertia,
            ),
            tb.Body(
                f"{prefix}lower",
                f"{prefix}upper",
                joint=moved(lower.joint, tb.Pose(), f"{prefix}elbow"),
                inertia=lower.inertia,
            ),
        ],
        [
            *base.frames,
            tb.Frame(f"{prefix}tip", f"{prefix}lower", tip.pose),
            tb.Frame(f"{prefix}plug", "hull", place @ plug.pose),
        ],
    )


def assert_same_dynamics(model, other, seed=0):
    """Compare the dynamics of two models with the same numbers, in a kicked state."""
    assert (model.q_names, model.v_names) == (other.q_names, other.v_names)
    q, v, tau = kicked(model, seed)
    ours, theirs = OnFloats(model, GRAVITY), OnFloats(other, GRAVITY)
    assert_close(ours.mass_matrix(q), theirs.mass_matrix(q))
    assert_close(ours.inverse_dynamics(q, v, tau), theirs.inverse_dynamics(q, v, tau))
    condition = np.linalg.cond(ours.mass_matrix(q))
    expected = theirs.forward_dynamics(q, v, tau)
    assert_close(ours.forward_dynamics(q, v, tau), expected, ALGEBRA * condition)
    assert set(model.frame_names) == set(other.frame_names)
    for name in model.frame_names:
        for a, b in zip(place_of(model, q, name), place_of(other, q, name), strict=True):
            assert_close(a, b)


def test_parts_hold_everything_a_model_is_built_from():
    """A new kind of part must be carried along, or composed robots would silently lose it."""
    parameters = set(inspect.signature(tb.Model.__init__).parameters)
    assert set(Parts._fields) == parameters - {"self", "name", "about", "movable"}


@pytest.mark.parametrize("prefix", ["", "left_"])
def test_attached_robot_equals_the_one_written_by_hand(prefix):
    """Dynamics, frames and names of a composed robot are those of its hand-written twin."""
    composed = vehicle().attach(arm(), at="mount", pose=EXTRA, prefix=prefix)
    by_hand = rov_with_arm(prefix)
    assert composed.body_names == by_hand.body_names
    assert composed.joint_names == by_hand.joint_names
    assert composed.frame_names == by_hand.frame_names
    assert_same_dynamics(composed, by_hand)


def test_variables_of_the_carrier_come_first():
    """Positions and velocities of the whole are those of the parts, one after the other."""
    composed = vehicle().attach(arm(), at="mount", name="uvms")
    assert composed.name == "uvms"
    assert composed.q_names == vehicle().q_names + arm().q_names
    assert composed.v_names == vehicle().v_names + arm().v_names


def test_one_arm_can_be_mounted_twice():
    """Two prefixes keep two copies apart; on the same mount they accelerate alike."""
    both = vehicle().attach(arm(), at="mount", prefix="a_").attach(arm(), at="mount", prefix="b_")
    q, v, tau = kicked(both)
    for of, x in (("q", q), ("v", v), ("v", tau)):
        for joint in arm().joint_names:
            x[both.slice(f"b_{joint}", of=of)] = x[both.slice(f"a_{joint}", of=of)]
    vd = OnFloats(both, GRAVITY).forward_dynamics(q, v, tau)
    a = both.indices(["a_shoulder", "a_elbow"], of="v")
    b = both.indices(["b_shoulder", "b_elbow"], of="v")
    condition = np.linalg.cond(OnFloats(both).mass_matrix(q))
    assert_close(vd[a], vd[b], ALGEBRA * condition)


def test_attaching_to_the_world_changes_the_pose_only():
    """A robot mounted on an empty place of the world is that robot."""
    alone = tb.Model("nothing", [])
    composed = alone.attach(arm(), at="world", name="arm")
    assert composed == arm()


def test_a_floating_robot_can_be_welded_on():
    """A given joint takes the place of the root's own; its pose counts from the mount."""
    welded_on = arm().attach(
        vehicle(), at="tip", pose=EXTRA, prefix="v_", joint=tb.Fixed("weld", pose=MOUNT)
    )
    assert welded_on.nv == 2
    tip, _ = arm().frames
    hull = vehicle().bodies[0]
    by_hand = tb.Model(
        "arm",
        [
            *arm().bodies,
            tb.Body(
                "v_hull",
                "lower",
                joint=tb.Fixed("weld", pose=tip.pose @ EXTRA @ MOUNT),
                inertia=hull.inertia,
            ),
        ],
        [*arm().frames, tb.Frame("v_mount", "v_hull", MOUNT)],
    )
    assert_same_dynamics(welded_on, by_hand)


def test_an_end_effector_is_replaced_at_its_joint_frame():
    """The new tool sits where the joint of the removed body was; frames beyond it are gone."""
    rng = np.random.default_rng(5)
    hand = tb.Body(
        "hand",
        "lower",
        joint=tb.Fixed("flange", pose=random_pose(rng)),
        inertia=random_inertia(rng),
    )
    finger = tb.Body(
        "finger", "hand", joint=tb.Prismatic("slide", pose=EXTRA), inertia=random_inertia(rng)
    )
    drill = tb.Body("drill", joint=tb.Revolute("spindle"), inertia=random_inertia(rng))
    frames = [*arm().frames, tb.Frame("pad", "finger")]
    tooled = tb.Model("arm", [*arm().bodies, hand, finger], frames)
    tool = tb.Model("drill", [drill], [tb.Frame("bit", "drill", EXTRA)])
    changed = tooled.replace("hand", tool, pose=MOUNT, prefix="new_")
    place = hand.joint.pose @ MOUNT
    by_hand = tb.Model(
        "arm",
        [
            *arm().bodies,
            tb.Body(
                "new_drill",
                "lower",
                joint=tb.Revolute("new_spindle", pose=place),
                inertia=drill.inertia,
            ),
        ],
        [*arm().frames, tb.Frame("new_bit", "new_drill", EXTRA)],
    )
    assert_same_dynamics(changed, by_hand)
    assert tooled.without("hand") == arm()


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda: arm().attach(arm(), at="tip"),
            "model 'arm': attaching 'arm' would use the body or frame name 'upper' twice; "
            "pass a prefix such as prefix='arm_'",
        ),
        (
            lambda: vehicle().attach(arm(), at="mont"),
            "model 'rov': unknown body or frame 'mont'; did you mean 'mount'? "
            "(model.frame_names lists all)",
        ),
        (
            lambda: vehicle().attach("arm", at="mount"),
            "model 'rov': can carry only a Model, got 'arm' (argument 'other')",
        ),
        (
            lambda: vehicle().attach(
                tb.Model("two", arm().attach(arm(), at="world", prefix="b_").bodies),
                at="mount",
                joint=tb.Fixed("weld"),
            ),
            "model 'two': a joint can be given for exactly one root body, got 2 (upper, b_upper); "
            "leave joint out to keep their own",
        ),
        (
            lambda: arm().replace("hand", vehicle()),
            "model 'arm': unknown body 'hand'; known: 'upper', 'lower' (model.body_names lists "
            "all)",
        ),
        (
            lambda: arm().lock("elbo"),
            "model 'arm': unknown joint 'elbo'; did you mean 'elbow'? (model.joint_names lists "
            "all)",
        ),
        (
            lambda: vehicle().lock({"float": [1.0, 0.0, 0.0]}),
            "position of joint 'float': expected 7 (one position of a free joint), got 3; "
            "batch dimensions lead",
        ),
        (
            lambda: vehicle().lock("float", vehicle().random_state(0, (2,))[0]),
            "position of joint 'float': expected 7 (one position of a free joint), "
            "got shape (2, 7)",
        ),
    ],
)
def test_errors_state_the_remedy(act, message):
    """Every refusal names the element, what was expected and the way out."""
    with pytest.raises(tb.TiburonError) as caught:
        act()
    assert str(caught.value) == message


LOCKED = [
    (odd_arm(), ["joint_1", "joint_4"]),
    (balloon(), ["j_basket"]),
    (balloon(), ["j_arm", "j_flap"]),
    (welded(), ["j_lid"]),
    *((tree, list(tree.moving_joint_names[::2])) for tree in map(random_tree, range(4))),
]


@pytest.mark.parametrize(("model", "joints"), LOCKED, ids=lambda x: getattr(x, "name", None))
def test_locked_robot_moves_as_the_whole_one_with_those_joints_held(model, joints):
    """Locking equals prescribing zero velocity and acceleration: blocks of H and of tau remain."""
    q, v, vd = kicked(model, 3)
    held = model.indices(joints, of="v")
    v[held] = vd[held] = 0.0
    reduced = model.lock(joints, q)
    kept = reduced.moving_joint_names
    assert set(kept) == set(model.moving_joint_names) - set(joints)
    assert reduced.joint_names == model.joint_names
    iq, iv = model.indices(kept), model.indices(kept, of="v")
    whole, part = OnFloats(model, GRAVITY), OnFloats(reduced, GRAVITY)
    # sums run in another order after links are joined; the largest entry sets the rounding
    H = whole.mass_matrix(q)
    assert_close(part.mass_matrix(q[iq]), H[np.ix_(iv, iv)], scale=max(1.0, np.abs(H).max()))
    tau = whole.inverse_dynamics(q, v, vd)
    ours = part.inverse_dynamics(q[iq], v[iv], vd[iv])
    assert_close(ours, tau[iv], scale=max(1.0, np.abs(tau).max()))
    for name in model.frame_names:
        pair = zip(place_of(reduced, q[iq], name), place_of(model, q, name), strict=True)
        for a, b in pair:
            assert_close(a, b)


def test_positions_to_lock_at_come_by_name_from_a_state_or_are_neutral():
    """The three ways to say where joints are held agree."""
    model = arm()
    q, _ = model.random_state(8)
    at = model.slice("elbow")
    assert model.lock({"elbow": q[at]}) == model.lock("elbow", q) == model.lock(["elbow"], q)
    assert model.lock({"elbow": float(q[at][0])}) == model.lock("elbow", q)
    assert model.lock("elbow") == model.lock({"elbow": 0.0})
    assert model.lock(model.joint_names, q, name="statue").nv == 0


def test_indices_follow_the_order_of_the_names():
    """Variables of several joints are gathered in the given order."""
    model = vehicle().attach(arm(), at="mount")
    assert model.indices(["elbow", "float"]).tolist() == [8, 0, 1, 2, 3, 4, 5, 6]
    assert model.indices("elbow", of="v").tolist() == [7]
    assert model.moving_joint_names == ("float", "shoulder", "elbow")


def test_driven_joints_take_part_with_all_their_names_and_keep_their_drive():
    """A prefix reaches the carried joint; locking holds that joint and lets the drive continue."""
    pin = tb.Revolute("pin", axis=(0, 1, 0), pose=EXTRA)
    crank = tb.Driven("crank", tb.Revolute("turn"), tb.Polynomial((0.2, 2.0)), carried=pin)
    rod = tb.Body("rod", joint=crank, inertia=random_inertia(np.random.default_rng(4)))
    whole = vehicle().attach(tb.Model("crank", [rod]), at="mount", prefix="p_")
    assert whole.joint_names == ("float", "p_crank")
    assert whole.q_names[7:] == ("p_pin",)
    held = whole.lock({"p_crank": 0.7})
    assert held.nv == 6
    q = np.array([*whole.neutral()[:7], 0.7])
    for time in (0.0, 0.4):
        moving, still = (model.body("p_rod").joint.at(time) for model in (whole, held))
        assert_close(moving.transform(q[7:]).matrix(), still.transform(()).matrix())
        assert_close(list(moving.velocity(q[7:], (0.0,))), list(still.velocity((), ())))
