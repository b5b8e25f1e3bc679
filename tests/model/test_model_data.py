"""Data that dynamics does not apply: checked when it is made, carried along when robots change."""

import dataclasses
import math
import pickle

import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import random_inertia, random_pose

BOX = tb.Inertia.box(1.0, (0.1, 0.2, 0.3))


# -- joints ---------------------------------------------------------------------------------------


def test_limits_are_one_value_or_one_per_degree_of_freedom():
    limits = tb.JointLimits((-1, -2), 3, velocity=(1, 2))
    joint = tb.Universal("u", limits=limits)
    assert joint.limits.lower == (-1.0, -2.0)
    assert joint.limits.upper == 3.0
    assert joint.limits.force == math.inf
    with pytest.raises(tb.ModelError, match=r"joint 'h': limits.lower must be one value or one "):
        tb.Revolute("h", limits=limits)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"lower": 2, "upper": 1}, "lower must not exceed upper, got lower 2 and upper 1"),
        ({"velocity": -1}, "velocity must be at least 0, got -1"),
        ({"force": (1, -2)}, r"force\[1\] must be at least 0"),
        ({"lower": math.nan}, "lower must be finite"),
        ({"lower": (1, 2), "upper": (3, 4, 5)}, "must have equal length, got 2 and 3"),
        ({"lower": "low"}, "lower must be one number"),
    ],
)
def test_wrong_limits_are_refused(numbers, message):
    with pytest.raises(tb.ModelError, match=message):
        tb.JointLimits(**numbers)


def test_passive_forces_are_checked():
    passive = tb.JointPassive(damping=0.1, friction=(0.2,), stiffness=3, rest=-1)
    assert tb.Revolute("j", passive=passive).passive.friction == (0.2,)
    for quantity in ("damping", "friction", "stiffness"):
        with pytest.raises(tb.ModelError, match=f"{quantity} must be at least 0"):
            tb.JointPassive(**{quantity: -0.1})
    # a spring of a ball joint rests at a quaternion
    tb.Spherical("b", passive=tb.JointPassive(stiffness=1, rest=(1, 0, 0, 0)))
    with pytest.raises(tb.ModelError, match="passive must be a JointPassive, got"):
        tb.Revolute("j", passive=0.1)


def test_armature_is_checked_against_the_degrees_of_freedom():
    assert tb.Revolute("j", armature=2).armatures == (2.0,)
    assert tb.Spherical("j", armature=2).armatures == (2.0, 2.0, 2.0)
    assert tb.Universal("j", armature=(1, 2)).armatures == (1.0, 2.0)
    assert tb.Fixed("j").armatures == ()
    with pytest.raises(tb.ModelError, match="joint 'j': armature must be at least 0, got -1"):
        tb.Revolute("j", armature=-1)
    with pytest.raises(tb.ModelError, match="armature must be one value or one for each of 2"):
        tb.Universal("j", armature=(1, 2, 3))
    with pytest.raises(tb.ModelError, match="a fixed joint cannot have an armature"):
        tb.Fixed("j", armature=1)


def test_joints_inside_others_have_no_data_of_their_own():
    inner = tb.Revolute("turn", armature=0.1)
    with pytest.raises(tb.ModelError, match="joint 'c': 'turn' inside it must have no limits"):
        tb.Coupled("c", inner, "leader")
    with pytest.raises(tb.ModelError, match="give them to 'd'"):
        tb.Driven("d", tb.Prismatic("p"), tb.Harmonic(1, 1), carried=inner)
    path = tb.Harmonic(1, 1)
    driven = tb.Driven("d", tb.Prismatic("p"), path, carried=tb.Universal("u"), armature=(1, 2))
    assert driven.armatures == (1.0, 2.0)


# -- bodies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tb.BoxShape((1, 0, 1)), "box: size must be positive, got"),
        (lambda: tb.SphereShape(-1), "sphere: radius must be positive"),
        (lambda: tb.CylinderShape(1, 0), "cylinder: length must be positive"),
        (lambda: tb.CapsuleShape(1, -1), "capsule: length must be at least 0"),
        (lambda: tb.EllipsoidShape((1, 1)), "radii must be 3 numbers"),
        (lambda: tb.MeshShape(""), "mesh: path must be a non-empty string"),
        (lambda: tb.MeshShape("a.stl", (1, 0, 1)), "scale must not be zero"),
        (lambda: tb.Shape("box"), "geometry must be such as BoxShape"),
        (lambda: tb.Shape(tb.PlaneShape(), color=(255, 0, 0, 1)), "divide 8-bit values by 255"),
        (lambda: tb.Shape(tb.PlaneShape(), pose=(1, 2, 3)), "pose must be a Pose"),
        (lambda: tb.Body("b", joint=tb.Free("f"), shapes="box"), "shapes must be a tuple of Shape"),
        (lambda: tb.Body("b", joint=tb.Free("f"), fluid=1.0), "fluid must be a BodyFluid"),
        (lambda: tb.BodyFluid(volume=-1), "volume must be at least 0, got -1"),
        (lambda: tb.BodyFluid(drag=(1,)), "drag must be a tuple of drag shapes"),
        (lambda: tb.BodyFluid(added_mass=np.eye(5)), "added_mass must be 6 x 6 numbers"),
        (lambda: tb.BodyFluid(added_mass=-np.eye(6)), "X_udot are the negative of its entries"),
        (lambda: tb.BodyFluid(added_mass=np.triu(np.ones((6, 6)))), "added mass must be symmetric"),
        (lambda: tb.BodyFluid(linear_damping=-np.ones(6)), "such as X_u and X_u|u| are the negat"),
        (lambda: tb.BodyFluid(quadratic_damping=-np.eye(6)), "no negative entry on its diagonal"),
        (lambda: tb.CylinderDrag(1, 1, axis=(0, 0, 0)), "axis must not be zero"),
        (lambda: tb.BoxDrag((1, 1, 1), (1, -1, 1)), "coefficients must not be negative"),
        (lambda: tb.SphereDrag(-1), "radius must be at least 0"),
    ],
)
def test_wrong_body_data_is_refused(make, message):
    with pytest.raises(tb.ModelError, match=message):
        make()


def test_roles_of_shapes():
    with pytest.raises(tb.OptionError, match="expected 'both' or 'visual' or 'collision'"):
        tb.Shape(tb.PlaneShape(), role="nice")


def test_added_mass_from_published_orders():
    """Coupling blocks tell: rows and columns change places together, signs by axes."""
    rng = np.random.default_rng(7)
    L = rng.standard_normal((6, 6))
    M = L @ L.T
    linear_first = np.block([[M[3:, 3:], M[3:, :3]], [M[:3, 3:], M[:3, :3]]])
    np.testing.assert_array_equal(tb.added_mass_from(linear_first, order="linear-first"), M)
    upper = linear_first[np.triu_indices(6)]
    np.testing.assert_array_equal(tb.added_mass_from(upper, order="linear-first"), M)
    # half a turn about x: y and z of both parts change sign
    T = np.diag([1.0, -1.0, -1.0] * 2)
    np.testing.assert_array_equal(tb.added_mass_from(T @ M @ T, axes="ned"), M)
    np.testing.assert_array_equal(tb.matrix_from_fossen(linear_first), T @ M @ T)
    turned = tb.added_mass_from(tb.matrix_to_fossen(M), order="linear-first", axes="ned")
    np.testing.assert_allclose(turned, M, rtol=1e-15)


def test_added_mass_about_another_point():
    """A point mass m at p, given about p, is the inertia of that point about the origin."""
    m, p = 3.0, np.array([0.2, -0.4, 0.7])
    found = tb.added_mass_from([0, 0, 0, m, m, m], about=p)
    for motion in np.eye(6):
        moved = np.cross(motion[:3], p) + motion[3:]
        expected = np.concatenate([np.cross(p, m * moved), m * moved])
        # a few products of numbers near 1
        np.testing.assert_allclose(found @ motion, expected, atol=1e-15)


def test_measured_added_mass_may_be_averaged():
    M = np.eye(6)
    M[0, 4] = 0.1
    with pytest.raises(tb.ModelError, match="in row 1, column 5 but 0 mirrored"):
        tb.added_mass_from(M)
    assert tb.added_mass_from(M, symmetrize=True)[4, 0] == 0.05
    with pytest.raises(tb.OptionError, match="angular-first"):
        tb.added_mass_from(M, order="mixed")
    with pytest.raises(tb.OptionError, match="ned"):
        tb.added_mass_from(M, axes="xyz")


# -- what is fixed to a robot ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tb.Thruster("t", "b", direction=(0, 0, 0)), "thruster 't': direction must not be"),
        (lambda: tb.Thruster("t", "b", curve=3.0), "curve must be LinearThrust"),
        (lambda: tb.Thruster("t", "b", time_constant=-1), "time_constant must be at least 0"),
        (lambda: tb.Thruster("t", "b", thrust_limits=(1, -1)), "in this order, got 1 and -1"),
        (lambda: tb.Thruster("t", "b", command_limits=5), "command_limits must be two numbers"),
        (lambda: tb.LinearThrust(1, (0.1, 0.2)), "dead_band must contain zero"),
        (lambda: tb.TableThrust((0, 1), (1,)), "equal length, at least two, got 2 and 1"),
        (lambda: tb.TableThrust((0, 0), (1, 2)), "commands must increase"),
        (lambda: tb.Actuator("a", "j", ratio=0), "actuator 'a': ratio must not be zero"),
        (lambda: tb.Actuator("a", "j", motor=1), "motor must be a Motor"),
        (lambda: tb.Motor(-1, 0.1), "resistance must be at least 0"),
        (lambda: tb.ContactPoint("c", "b", radius=-1), "contact 'c': radius must be at least 0"),
        (lambda: tb.LoopClosure("l", "a", "a", tb.Fixed("f")), "must connect two different frames"),
        (lambda: tb.LoopClosure("l", "a", "b", "pin"), "joint must be a joint such as Revolute"),
        (lambda: tb.JointCoupling("l", "a", "a"), "must couple two different joints"),
        (lambda: tb.JointCoupling("l", "a", None, (1, 2)), "has one coefficient, its position"),
        (lambda: tb.GroundGrid((0, 1), [[1, 2], [3, 4]]), "spacing must be positive"),
        (lambda: tb.GroundGrid((1, 1), [[1, 2]]), "at least 2 x 2 heights"),
        (lambda: tb.Ground(static_friction=-1), "static_friction must be at least 0"),
        (lambda: tb.World(ground=1.0), "ground must be a Ground"),
    ],
)
def test_wrong_data_is_refused(make, message):
    with pytest.raises(tb.ModelError, match=message):
        make()


def arm(**data):
    """Return an arm of two links with a frame."""
    bodies = [
        tb.Body("upper", joint=tb.Revolute("shoulder"), inertia=BOX),
        tb.Body("lower", "upper", joint=tb.Revolute("elbow"), inertia=BOX),
        tb.Body("hand", "lower", joint=tb.Spherical("wrist"), inertia=BOX),
    ]
    return tb.Model("arm", bodies, [tb.Frame("tip", "hand")], **data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"thrusters": [tb.Thruster("t", "hnad")]},
            "thruster 't': unknown body or frame 'hnad'; d",
        ),
        ({"thrusters": [tb.Thruster("t", "world")]}, "thruster 't': unknown body or frame 'world'"),
        ({"contacts": [tb.ContactPoint("c", "Tip")]}, "contact 'c'.*did you mean 'tip'"),
        ({"actuators": [tb.Actuator("a", "elbo")]}, "actuator 'a': unknown joint 'elbo'; did you"),
        ({"loops": [tb.LoopClosure("l", "tip", "x", tb.Fixed("f"))]}, "loop 'l': unknown body"),
        (
            {"loops": [tb.JointCoupling("l", "elbow", "wrist")]},
            "only joints with one degree of freedom",
        ),
        ({"thrusters": [tb.Thruster("t", "tip")] * 2}, "thruster name 't' is used twice"),
        ({"contacts": [tb.Frame("c", "tip")]}, "expected a ContactPoint, got Frame"),
        ({"poses": {"home": [1.0]}}, "model 'arm', pose 'home': position must be 6 numbers"),
        ({"poses": {"home": {"elbw": 1}}}, "unknown moving joint 'elbw'; did you mean 'elbow'"),
        ({"poses": {"home": {"wrist": 1}}}, "position of joint 'wrist' must be 4 numbers"),
        ({"poses": [1.0]}, "poses must be positions by name"),
        ({"about": 3}, "about must be a string"),
    ],
)
def test_data_of_unknown_elements_are_refused(data, message):
    with pytest.raises(tb.ModelError, match=message):
        arm(**data)


def rich():
    """Return the arm with everything that can be fixed to it."""
    return arm(
        loops=[
            tb.LoopClosure("pin", "world", "tip", tb.Spherical("pin joint")),
            tb.LoopClosure("back", "tip", "world", tb.Fixed("weld"), random_pose(RANDOM)),
            tb.JointCoupling("gear", "elbow", "shoulder", (0.1, 2.0, 3.0)),
        ],
        thrusters=[tb.Thruster("jet", "hand")],
        contacts=[tb.ContactPoint("toe", "tip"), tb.ContactPoint("knee", "lower")],
        actuators=[tb.Actuator("m2", "elbow"), tb.Actuator("m1", "shoulder")],
        poses={"home": {"elbow": 0.5}, "other": [0.1, 0.2, 1, 0, 0, 0]},
        about="an arm",
    )


RANDOM = np.random.default_rng(3)


def test_models_compare_hash_and_pickle_by_all_data():
    model = rich()
    again = pickle.loads(pickle.dumps(model))
    assert again == model
    assert hash(again) == hash(model)
    assert (
        again.poses
        == model.poses
        == {
            "home": (0.0, 0.5, 1.0, 0.0, 0.0, 0.0),
            "other": (0.1, 0.2, 1.0, 0.0, 0.0, 0.0),
        }
    )
    for key in ("loops", "thrusters", "contacts", "actuators"):
        assert getattr(again, key)
    assert model != arm()
    assert "3 loops" in repr(model)
    assert "loops" not in repr(arm())
    assert model.without_loops().loops == ()
    assert model.without_loops().thrusters == model.thrusters


def parts_of(model):
    """Return all that a robot is made of, by kind."""
    return {**model._parts._asdict(), "about": model.about, "joints": model.joints}


def test_adding_loops_motors_and_poses_keeps_other_parts():
    model = rich()
    closure = tb.LoopClosure("more", "lower", "hand", tb.Spherical("more joint"))
    motor = tb.Actuator("m3", "wrist")
    camera = tb.Frame("camera", "hand")
    jet = tb.Thruster("bow", "lower")
    here = RANDOM.standard_normal(model.nq)
    for changed, key, added in (
        (model.with_loops(closure), "loops", (*model.loops, closure)),
        (model.with_actuators(motor), "actuators", (*model.actuators, motor)),
        (model.with_frames(camera), "frames", (*model.frames, camera)),
        (model.with_thrusters(jet), "thrusters", (*model.thrusters, jet)),
    ):
        assert parts_of(changed) == {**parts_of(model), key: added}
    changed = model.with_poses({"here": here, "home": {"elbow": 0.7}}, name="posed")
    assert changed.name == "posed"
    assert tuple(changed.poses) == ("home", "other", "here")
    assert changed.poses["home"][1] == 0.7
    assert changed.poses["here"] == tuple(here)
    assert {**parts_of(changed), "poses": ()} == {**parts_of(model), "poses": ()}
    assert model.with_loops(closure).without_loops() == model.without_loops()
    assert model.with_loops() == model


@pytest.mark.parametrize("name", ["tiburon_titan", "andrews_squeezer", "aquarobot"])
def test_adding_frames_and_bodies_keeps_everything_else(name):
    """Water, thrusters, springs, actuators, contacts and poses stay."""
    robot = tb.load(name)
    first = robot.body_names[0]
    seen = robot.with_frames(tb.Frame("eye", first)).with_thrusters(tb.Thruster("jet", "eye"))
    assert seen.frames[-1].name == "eye"
    assert seen.thrusters[-1].body == "eye"
    same = {"frames": robot.frames, "thrusters": robot.thrusters}
    assert {**parts_of(seen), **same} == parts_of(robot)
    lead = tb.Body(
        "lead",
        first,
        joint=tb.Revolute("hang", (0.0, 1.0, 0.0)),
        inertia=tb.Inertia.sphere(1.0, 0.05),
    )
    heavy = robot.with_bodies(lead)
    assert "lead" in heavy.body_names
    assert heavy.nq == robot.nq + 1
    kept = [key for key in parts_of(robot) if key not in ("bodies", "joints", "poses")]
    assert {k: parts_of(heavy)[k] for k in kept} == {k: parts_of(robot)[k] for k in kept}
    assert tuple(heavy.poses) == tuple(robot.poses)
    assert heavy.without("lead") == robot


@pytest.mark.parametrize("name", ["tiburon_titan", "andrews_squeezer"])
def test_adding_loops_keeps_shapes_water_thrusters_and_springs(name):
    """A vehicle with thrusters and water numbers, a mechanism with loops and a spring."""
    robot = tb.load(name)
    joints = [joint.name for joint in robot.joints if joint.nv == 1][:2]
    tie = tb.JointCoupling("tie", *joints, (0.0, 1.0))
    changed = robot.with_loops(tie)
    assert parts_of(changed) == {**parts_of(robot), "loops": (*robot.loops, tie)}
    assert changed.without_loops() == robot.without_loops()


def test_added_parts_are_checked():
    with pytest.raises(tb.ModelError, match="'pin'"):
        rich().with_loops(tb.LoopClosure("pin", "world", "tip", tb.Fixed("other")))
    with pytest.raises(tb.ModelError, match="hnad"):
        rich().with_frames(tb.Frame("camera", "hnad"))
    with pytest.raises(tb.ModelError, match="'jet'"):
        rich().with_thrusters(tb.Thruster("jet", "hand"))
    with pytest.raises(tb.ModelError, match="tip"):
        rich().with_bodies(tb.Body("tip", "lower", joint=tb.Fixed("new")))
    with pytest.raises(tb.UnknownNameError, match="elbwo"):
        rich().with_actuators(tb.Actuator("m3", "elbwo"))
    with pytest.raises(tb.UnknownNameError, match="elbwo"):
        rich().with_poses({"home": {"elbwo": 1.0}})
    with pytest.raises(tb.ModelError, match="expected a LoopClosure"):
        rich().with_loops([tb.JointCoupling("tie", "elbow", "shoulder")])


def test_actuators_state_which_joints_are_actuated():
    assert arm().actuated_joint_names == ("shoulder", "elbow", "wrist")
    # in the order of joints, not of actuators
    assert rich().actuated_joint_names == ("shoulder", "elbow")
    np.testing.assert_array_equal(rich().actuated([1.0, 2.0]), [1, 2, 0, 0, 0])


def test_attached_robots_bring_their_data_under_a_prefix():
    place = random_pose(RANDOM)
    base = tb.Model(
        "base",
        [tb.Body("hull", joint=tb.Free("float"), inertia=random_inertia(RANDOM))],
        thrusters=[tb.Thruster("jet", "hull")],
        poses={"home": [1, 0, 0, 0, 0, 0, 5.0]},
    )
    model = rich()
    both = base.attach(model, at="hull", pose=place, prefix="left_")
    pin, back, gear = both.loops
    # the arm's world is now a place on the hull
    assert (pin.name, pin.first, pin.second) == ("left_pin", "hull", "left_tip")
    assert pin.joint.pose == place
    assert (back.second, back.second_pose) == ("hull", place @ model.loops[1].second_pose)
    assert (gear.joint, gear.leader) == ("left_elbow", "left_shoulder")
    assert [t.body for t in both.thrusters] == ["hull", "left_hand"]
    assert [c.body for c in both.contacts] == ["left_tip", "left_lower"]
    assert both.actuated_joint_names == ("left_shoulder", "left_elbow")
    assert both.poses["home"] == (1, 0, 0, 0, 0, 0, 5.0, 0.0, 0.5, 1, 0, 0, 0)
    assert both.poses["other"][:7] == (1, 0, 0, 0, 0, 0, 0)
    with pytest.raises(tb.ModelError, match="would use the thruster name 'jet' twice"):
        base.attach(model, at="hull")


def test_replaced_roots_lose_their_actuators():
    free = tb.Model("base", [tb.Body("hull", joint=tb.Free("float"), inertia=BOX)])
    both = free.attach(rich(), at="hull", joint=tb.Fixed("mount"))
    assert both.actuated_joint_names == ("elbow",)
    assert [loop.name for loop in both.loops] == ["pin", "back"]
    assert both.poses["other"] == (1, 0, 0, 0, 0, 0, 0, 0.2, 1, 0, 0, 0)


def test_removing_bodies_removes_their_attachments():
    less = rich().without("hand")
    assert [loop.name for loop in less.loops] == ["gear"]
    assert less.thrusters == ()
    assert [c.name for c in less.contacts] == ["knee"]
    assert less.poses["home"] == (0.0, 0.5)
    assert less.about == "an arm"


def test_locking_joints_resolves_their_couplings():
    model = rich()
    held = model.lock({"shoulder": 0.5})
    gear = held.loops[-1]
    assert (gear.leader, gear.joint) == (None, "elbow")
    assert gear.coefficients == pytest.approx((0.1 + 2.0 * 0.5 + 3.0 * 0.25,))
    assert held.actuated_joint_names == ("elbow",)
    assert held.poses["home"] == (0.5, 1, 0, 0, 0)
    both = model.lock({"shoulder": 0.5, "elbow": 0.2})
    assert [loop.name for loop in both.loops] == ["pin", "back"]
    assert both.actuators == ()
    with pytest.raises(tb.ModelError, match="'elbow' cannot be locked while its leader 'shoulder'"):
        model.lock("elbow")


def test_locked_joints_drop_limits_and_armature():
    body = tb.Body(
        "b", joint=tb.Revolute("j", armature=1, limits=tb.JointLimits(-1, 1)), inertia=BOX
    )
    model = tb.Model("m", [body, tb.Body("c", "b", joint=tb.Revolute("k"), inertia=BOX)])
    joint = model.lock({"j": 0.3}).joint("j")
    assert (joint.kind, joint.armature, joint.limits) == ("fixed", 0.0, None)


def test_unit_vectors_keep_their_bits():
    rng = np.random.default_rng(1)
    for _ in range(200):
        axis = rng.standard_normal(3)
        once = tb.Thruster("t", "b", direction=axis).direction
        assert tb.Thruster("t", "b", direction=once).direction == once
        joint = tb.Revolute("j", axis / np.linalg.norm(axis))
        assert tb.Revolute("j", joint.axis).axis == joint.axis
        pose = random_pose(rng) @ random_pose(rng) @ random_pose(rng)
        assert tb.Pose(pose.rotation, pose.translation) == pose


@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e-3, 1e3, 1e200, 1.7e308])
def test_directions_may_have_any_length(size):
    """Squares of these sizes leave the range of numbers; directions do not."""
    assert tb.Thruster("t", "b", direction=(0, -size, 0)).direction == (0.0, -1.0, 0.0)
    assert tb.CylinderDrag(0.1, 1.0, axis=(size, 0, 0)).axis == (1.0, 0.0, 0.0)


def test_drag_shapes_take_dimensions_then_coefficients_then_their_place():
    """In one order, so that a call by position is not a matter of the shape."""
    place = {"center", "start", "axis", "pose"}
    for kind in (tb.SphereDrag, tb.CylinderDrag, tb.BoxDrag, tb.EllipsoidDrag):
        names = [field.name for field in dataclasses.fields(kind)]
        ranks = [2 if name in place else 1 if "coefficient" in name else 0 for name in names]
        assert ranks == sorted(ranks), kind
        assert set(ranks) == {0, 1, 2}, kind
    with pytest.raises(tb.TiburonError, match="side_coefficient"):
        tb.CylinderDrag(0.1, 1.0, (0.0, 0.0, 0.0), (1.0, 0.0, 0.0))
