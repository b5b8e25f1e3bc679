"""URDF files: what they say arrives, and what is wrong with them is said."""

import math
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import ALGEBRA, assert_close
from tiburon.formats.urdf_read import read_urdf

DATA = Path(__file__).parents[1] / "data"
ARM = DATA / "two_link.urdf"

LINK = (
    '<link name="{0}"><inertial><mass value="1"/>'
    '<inertia ixx="1" iyy="1" izz="1"/></inertial></link>'
)


def joint(name, parent, child, inside="", kind="revolute"):
    """Return the text of a joint."""
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f"{inside}</joint>"
    )


def read(tmp_path, *parts, **options):
    """Read a robot from the text of its elements."""
    path = tmp_path / "robot.urdf"
    path.write_text('<robot name="r">\n' + "\n".join(parts) + "\n</robot>")
    return read_urdf(path, **options)


def links(*names):
    """Return the text of links with mass."""
    return "\n".join(LINK.format(name) for name in names)


def test_bodies_and_joints_keep_the_order_of_the_file():
    """Every link is a body, fixed ones too; the root link stands still."""
    model = read_urdf(ARM)
    assert model.name == "two_link"
    assert model.joint_names == (
        *("root_joint", "shoulder", "elbow", "wrist"),
        *("left", "right", "drift", "table"),
    )
    kinds = [j.kind for j in model.joints]
    assert kinds == [
        *("fixed", "revolute", "revolute", "fixed"),
        *("prismatic", "coupled", "free", "planar"),
    ]
    assert model.body("hand").parent == "lower"


def test_inertia_is_turned_into_link_axes():
    """The tensor is given in axes of the inertial origin."""
    model = read_urdf(ARM)
    given = np.array([[0.05, 0.001, -0.002], [0.001, 0.06, 0.003], [-0.002, 0.003, 0.02]])
    R = np.array(tb.Pose.from_rpy((0.4, 0.1, -0.3)).rotation)
    found = model.body("upper").inertia
    assert_close(found.matrix, R @ given @ R.T)
    assert (found.mass, found.com) == (2.0, (0.0, 0.02, 0.25))


def test_joint_data_are_converted():
    """Pose, axis of length 1, limits, damping and friction; a continuous joint has no bounds."""
    model = read_urdf(ARM)
    shoulder = model.joint("shoulder")
    assert shoulder.pose == tb.Pose.from_rpy((0.3, -0.2, 0.5), (0.1, 0.0, 0.2))
    assert shoulder.axis == (0.0, 1.0, 0.0)
    assert shoulder.limits == tb.JointLimits(-1.5, 2.0, velocity=3.0, force=60.0)
    assert shoulder.passive == tb.JointPassive(damping=0.4, friction=0.1)
    assert model.joint("elbow").limits is None


def test_a_mimic_joint_follows_exactly():
    """It has no variable, and its body moves by the multiplier and the offset."""
    model = read_urdf(ARM)
    follower = model.joint("right")
    assert (follower.leader, follower.ratio, follower.offset) == ("left", -1.0, 0.001)
    q = model.neutral()
    q[model.slice("left")] = 0.03
    places = [tb.forward_kinematics(model, q, name) for name in ("hand", "right_finger")]
    (R, hand), (_, finger) = places
    assert_close(R.T @ (finger - hand), (0.0, -0.02 - 0.03 + 0.001, 0.0))


def test_shapes_loops_and_actuators_are_read():
    """Colors by name and in place, meshes with scale, a loop with its two frames, a motor."""
    model = read_urdf(ARM)
    (plate,) = model.body("base").shapes
    box = tb.BoxShape((0.4, 0.4, 0.02))
    assert plate == tb.Shape(box, role="visual", color=(0.5, 0.5, 0.6, 1.0), name="plate")
    tube, hull = model.body("upper").shapes
    assert tube.color == (1.0, 0.0, 0.0, 0.5)
    assert tube.pose == tb.Pose(translation=(0.0, 0.0, 0.25))
    assert hull.geometry == tb.MeshShape("meshes/upper.stl", (0.001, 0.001, 0.001))
    (loop,) = model.loops
    assert (loop.first, loop.second, loop.joint.kind) == ("base", "lower", "revolute")
    assert loop.joint.pose == tb.Pose.from_rpy((0.0, 0.0, 0.2), (0.0, 0.0, 0.1))
    assert loop.second_pose == tb.Pose(translation=(0.0, 0.0, 0.3))
    assert model.actuators == (tb.Actuator("elbow_motor", "elbow", 50.0),)


def test_a_root_link_named_world_is_the_world(tmp_path):
    """Its joints hang on the world itself."""
    model = read(tmp_path, '<link name="world"/>', links("a"), joint("j", "world", "a"))
    assert model.body("a").parent == "world"
    assert model.nv == 1


def test_the_root_may_float(tmp_path):
    """The caller says how the root link moves."""
    model = read(tmp_path, links("a"), root_joint=tb.Free("base"))
    assert model.joint_names == ("base",)
    assert model.nv == 6


def test_chains_of_mimics_are_one_coupling(tmp_path):
    """With c = 3 b - 1 and b = 2 a + 5, c = 6 a + 14."""
    model = read(
        tmp_path,
        links(*"rabc"),
        joint("c", "r", "c", '<mimic joint="b" multiplier="3" offset="-1"/>'),
        joint("b", "r", "b", '<mimic joint="a" multiplier="2" offset="5"/>'),
        joint("a", "r", "a"),
    )
    tie = model.joint("c")
    assert (tie.leader, tie.ratio, tie.offset) == ("a", 6.0, 14.0)
    assert model.nv == 1


def test_a_follower_of_a_fixed_joint_stands_at_its_offset(tmp_path):
    """Its leader never moves."""
    mimic = '<axis xyz="0 0 1"/><mimic joint="f" offset="0.5"/>'
    model = read(
        tmp_path,
        links(*"rab"),
        joint("f", "r", "a", kind="fixed"),
        joint("j", "r", "b", mimic),
    )
    held = model.joint("j")
    assert held.kind == "fixed"
    assert_close(held.pose.rotation, tb.Pose.from_axis_angle((0, 0, 1), 0.5).rotation)


def test_a_quaternion_may_give_the_origin(tmp_path):
    """As in version 1.2 of the format: x, y, z, w."""
    origin = '<origin xyz="1 2 3" quat_xyzw="0 0 0.6 0.8"/>'
    model = read(tmp_path, links(*"ab"), joint("j", "a", "b", origin))
    assert model.joint("j").pose == tb.Pose.from_quaternion((0.8, 0, 0, 0.6), (1, 2, 3))


BAD = [
    ("<link/>", "line 2: <link>: expected the attribute name"),
    (links("a", "a"), "line 3: link 'a': the name is used twice, first in line 2"),
    ("", "at least one <link>"),
    (links("a", "b"), r"line 3: link 'b': a robot has one root link, got 2 .*'a', 'b'.*fixed joi"),
    (links("a", "b") + joint("j", "a", "bb"), "unknown link 'bb'; did you mean 'b'"),
    (links("a", "b") + joint("j", "a", "b", kind="revolut"), "'revolut'; did you mean 'revolute'"),
    (
        links(*"abc") + joint("i", "a", "c") + joint("j", "b", "c"),
        "link 'c' is held already by joint 'i'.*<loop>",
    ),
    (links("a", "b") + joint("i", "a", "b") + joint("j", "b", "a"), "cycle|one root"),
    (links(*"abc") + joint("i", "b", "c") + joint("j", "c", "b"), "cycle through link 'b'"),
    (links("a", "world") + joint("j", "a", "world"), "'world' is reserved for"),
    (links("a", "b") + joint("j", "a", "b", '<axis xyz="0 0 0"/>'), "axis must have a direction"),
    (links("a", "b") + joint("j", "a", "b", '<origin xyz="0 0"/>'), "xyz must be 3 numbers"),
    (
        links("a", "b") + joint("j", "a", "b", '<mimic joint="j"/>'),
        "joint 'j' mimics itself",
    ),
    (
        links(*"abc")
        + joint("i", "a", "b", kind="floating")
        + joint("j", "a", "c", "<mimic joint='i'/>"),
        "can mimic a joint with one degree of freedom, got the floating joint 'i'",
    ),
    (
        links("a").replace('mass value="1"', 'mass value="-1"'),
        "mass must be positive, got -1 kg",
    ),
    (
        '<xacro:property name="x" value="1"/>' + links("a"),
        "contains unexpanded xacro .*name the file .xacro",
    ),
    (
        links("a")
        + '<loop name="l" type="revolute"><predecessor link="a"/><successor link="z"/></loop>',
        "loop 'l': unknown link 'z'",
    ),
    (
        links("a")
        + '<loop name="l" type="hinge"><predecessor link="a"/><successor link="a"/></loop>',
        "unknown type of loop 'hinge'",
    ),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_a_bad_file_is_refused_with_line_element_and_cure(tmp_path, text, message):
    """Every refusal is a `ModelFileError` that names the place."""
    with pytest.raises(tb.ModelFileError, match=message) as caught:
        read(tmp_path, text)
    assert caught.value.file.endswith("robot.urdf")
    assert caught.value.line is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<mujoco/>", "MJCF"),
        ("<sdf version='1.9'/>", "SDF"),
        ("<html/>", "not URDF"),
    ],
)
def test_other_formats_are_recognized(tmp_path, text, message):
    """A file of another format is named as such."""
    path = tmp_path / "robot.urdf"
    path.write_text(text)
    with pytest.raises(tb.ModelFileError, match=message):
        read_urdf(path)


def test_repairs_are_reported_in_one_warning(tmp_path):
    """Limits the wrong way round, an unknown leader, an impossible tensor, a flat box."""
    parts = [
        links(*"abc"),
        '<link name="d"><inertial><mass value="1"/><inertia ixx="9" iyy="1" izz="1"/></inertial>'
        '<visual><geometry><box size="1 1 0"/></geometry></visual></link>',
        joint("i", "a", "b", '<limit lower="1" upper="-1" effort="1" velocity="-2"/>'),
        joint("j", "b", "c", '<mimic joint="ii"/>'),
        joint("k", "c", "d"),
    ]
    with pytest.warns(tb.ModelWarning) as caught:
        model = read(tmp_path, *parts)
    assert len(caught) == 1
    message = str(caught[0].message)
    for words in [
        "lower limit 1 exceeds upper -1; both were left out",
        "must not be negative, got -2 and 1",
        "mimics 'ii', which does not exist, perhaps 'i' was meant",
        "line 5: body 'd': principal moments of inertia must obey the triangle",
        "box: size must be positive, got (1, 1, 0) m",
    ]:
        assert words in message
    assert model.joint("i").limits == tb.JointLimits(force=1.0)
    assert model.joint("j").kind == "revolute"
    assert model.body("d").inertia.tensor[0] == 9.0
    assert model.body("d").shapes == ()


def test_a_robot_with_impossible_inertia_still_obeys_newton(tmp_path):
    """What is noted at loading does not keep dynamics from being consistent."""
    text = (
        '<link name="b"><inertial><origin xyz="0.1 0.2 0.3"/><mass value="1"/>'
        '<inertia ixx="9" iyy="1" izz="1"/></inertial></link>'
    )
    with pytest.warns(tb.ModelWarning, match="triangle"):
        model = read(tmp_path, links("a"), text, joint("j", "a", "b"))
    q, v, tau = [0.3], [0.7], [2.0]
    vd = tb.forward_dynamics(model, q, v, tau)
    assert_close(tb.inverse_dynamics(model, q, v, vd), tau, ALGEBRA)


INCOMPLETE = {
    "no mass": ('<inertia ixx="1" iyy="2" izz="2"/>', "mass", 0.0, (1.0, 0, 0, 2.0, 0, 2.0)),
    "no tensor": ('<mass value="3"/>', "inertia", 3.0, (0.0,) * 6),
    "neither": ('<origin xyz="1 0 0"/>', "mass", 0.0, (0.0,) * 6),
}


@pytest.mark.parametrize(("inside", "tag", "mass", "tensor"), INCOMPLETE.values(), ids=INCOMPLETE)
def test_incomplete_inertials_count_as_zero(tmp_path, inside, tag, mass, tensor):
    """A link without mass or tensor keeps what it has, with a warning that names it."""
    text = f'<link name="b"><inertial>{inside}</inertial></link>'
    with pytest.warns(tb.ModelWarning, match=f"line 3: link 'b': <inertial> without <{tag}>"):
        model = read(tmp_path, links("a"), text, links("c"), joint("j", "a", "b"), TO_C)
    assert model.body("b").inertia.mass == mass
    assert model.body("b").inertia.tensor == tensor
    assert model.body("b").inertia.com == (0.0, 0.0, 0.0)


TO_C = joint("k", "b", "c")


def test_a_mesh_scale_of_four_numbers_is_its_first_three(tmp_path):
    """As other readers take it, with a warning."""
    text = (
        '<link name="a"><visual><geometry><mesh filename="a.stl" scale="1 2 3 1"/></geometry>'
        "</visual></link>"
    )
    with pytest.warns(tb.ModelWarning, match=r"line 2: mesh 'a.stl': scale .* three .* got 4"):
        model = read(tmp_path, text)
    assert model.body("a").shapes[0].geometry.scale == (1.0, 2.0, 3.0)


def chain(count):
    """Return the text of a chain of links."""
    parts = [LINK.format(f"l{i}") for i in range(count + 1)]
    parts += [
        joint(f"j{i}", f"l{i}", f"l{i + 1}", '<origin xyz="0 0 1"/><axis xyz="0 1 0"/>')
        for i in range(count)
    ]
    return parts


def test_a_chain_of_a_thousand_links_loads_in_two_seconds(tmp_path):
    """Of the process, since other programs may run beside it."""
    parts = chain(1000)
    begin = time.process_time()
    model = read(tmp_path, *parts)
    assert time.process_time() - begin < 2.0
    assert model.nv == 1000


def test_too_deep_and_too_many_links_are_refused(tmp_path):
    """Chains of more than 2000, and more than 20 000 links."""
    with pytest.raises(tb.ModelFileError, match="2000 links deep"):
        read(tmp_path, *chain(2001))
    many = "".join(f'<link name="{i}"/>' for i in range(20_001))
    begin = time.process_time()
    with pytest.raises(tb.ModelFileError, match="20000 links"):
        read(tmp_path, many)
    assert time.process_time() - begin < 10.0


def test_a_clean_file_gives_no_warning():
    """Warnings are for what is not as it should be."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = read_urdf(ARM)
    assert model.immovable_joint_names == ()
    assert math.isclose(model.total_mass, 8.1)


def test_long_lists_of_mimics_take_linear_time(tmp_path):
    """Thousands of followers, one behind the other, or of a leader that does not exist."""
    count = 2000
    every = [LINK.format(i) for i in range(count)]
    one_behind_the_other = [
        joint(f"j{i}", 0, i, f'<mimic joint="j{i - 1}"/>' if i > 1 else "") for i in range(1, count)
    ]
    begin = time.process_time()
    assert read(tmp_path, *every, *one_behind_the_other).nv == 1
    of_nobody = [joint(f"j{i}", 0, i, '<mimic joint="k1"/>') for i in range(1, count)]
    with pytest.warns(tb.ModelWarning, match="and 1994 more"):
        read(tmp_path, *every, *of_nobody)
    # some tenths of a second each
    assert time.process_time() - begin < 10.0


def test_names_of_excessive_length_are_refused(tmp_path):
    """A name of megabytes would drown every message."""
    with pytest.raises(tb.ModelFileError, match="name may have 10000 characters") as caught:
        read(tmp_path, links("x" * 20_000))
    assert len(str(caught.value)) < 500


def test_warnings_point_at_the_caller(tmp_path):
    """The line that loads the file, not one inside the package."""
    path = tmp_path / "robot.urdf"
    path.write_text(f'<robot name="r">{links("a")}{joint("j", "a", "b")}<link name="b"/></robot>')
    with pytest.warns(
        tb.ModelWarning, match="no inertia resists the motion of joint 'j'"
    ) as caught:
        tb.load(path)
    assert caught[0].filename == __file__


def test_arguments_left_by_xacro_mean_nothing(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text('<robot name="arm"><xacro:arg name="x" default="1"/><link name="a"/></robot>')
    assert [body.name for body in tb.load(path).bodies] == ["a"]
