"""Writing URDF: what was written is read again, and what is lost is said."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import tiburon as tb
from tests.algorithms.on_floats import on_floats
from tests.model.samples import random_inertia, random_pose
from tests.strategies import few_examples, models, seeds
from tests.tolerances import ALGEBRA, assert_close
from tiburon.formats.urdf_read import read_urdf
from tiburon.formats.urdf_write import roll_pitch_yaw, write_urdf

ARM = Path(__file__).parents[1] / "data" / "two_link.urdf"
RANDOM = np.random.default_rng(0)


def again(model, folder):
    """Write a model and read it; return it and what was lost."""
    path = Path(folder) / "written.urdf"
    text, losses = write_urdf(model, path)
    path.write_text(text, encoding="utf-8")
    return read_urdf(path), losses


def body(name, joint, parent="world", **parts):
    """Return a body with mass."""
    return tb.Body(name, parent, joint=joint, inertia=random_inertia(RANDOM), **parts)


def test_a_robot_from_a_file_is_written_as_it_was_read(tmp_path):
    """Everything that URDF can say comes back to the last bit, rotations to rounding."""
    model = read_urdf(ARM)
    copy, losses = again(model, tmp_path)
    assert losses == ()
    assert copy.loops[0].second_pose == model.loops[0].second_pose
    assert copy.actuators == model.actuators
    for ours, theirs in zip(copy.bodies, model.bodies, strict=True):
        assert_close(ours.joint.pose.matrix, theirs.joint.pose.matrix)
        assert replace(ours, joint=theirs.joint) == theirs
        assert replace(ours.joint, pose=theirs.joint.pose) == theirs.joint


KINDS = ("revolute", "prismatic", "fixed", "free", "planar", "universal", "cylindrical", "screw")


@few_examples
@given(models(kinds=KINDS, root=KINDS), seeds)
def test_written_robots_move_equally(tmp_path_factory, model, seed):
    """Joints that URDF lacks become chains of others with the same frames and mass matrix."""
    copy, _ = again(model, tmp_path_factory.mktemp("urdf"))
    rng = np.random.default_rng(seed)
    q, _ = model.random_state(rng)
    other = np.array([x for name in copy.q_names for x in position(model, q, name)])
    assert set(model.frame_names) <= set(copy.frame_names)
    for name in model.frame_names[1:]:
        for a, b in zip(place(model, q, name), place(copy, other, name), strict=True):
            assert_close(a, b)
    assert sorted(copy.v_names) == sorted(model.v_names)
    rows = [model.v_names.index(name) for name in copy.v_names]
    assert_close(mass(copy, other), mass(model, q)[np.ix_(rows, rows)])


def position(model, q, name):
    """Return the number of one of our variables by the name it has in the copy."""
    return [q[i] for i, ours in enumerate(model.q_names) if ours == name]


def place(model, q, name):
    """Return rotation and origin of a frame, computed on plain numbers."""
    found = on_floats("forward_kinematics", model, q, options=(("frames", name),))
    return found["rotation"], found["translation"]


def mass(model, q):
    """Return the mass matrix, computed on plain numbers."""
    return on_floats("mass_matrix", model, q)


def test_joint_offsets_are_written_into_poses(tmp_path):
    """A body at rest stands where its offset put it."""
    hinge = tb.Revolute("hinge", (0.6, 0.0, 0.8), 0.7, pose=random_pose(RANDOM))
    slide = tb.Prismatic("slide", (0, 1, 0), -0.2, limits=tb.JointLimits(-1.0, 2.0))
    model = tb.Model("arm", [body("a", hinge), body("b", slide, "a")])
    copy, losses = again(model, tmp_path)
    assert losses == ()
    assert copy.joint("slide").limits == slide.limits
    q = [0.4, -0.3]
    for name in ("a", "b"):
        for x, y in zip(place(model, q, name), place(copy, q, name), strict=True):
            assert_close(x, y)


def test_absent_limits_stay_absent(tmp_path):
    """The format demands numbers; those that stand for none are read as none."""
    slide = tb.Prismatic("slide", limits=tb.JointLimits(velocity=2.0))
    hinge = tb.Revolute("hinge", limits=tb.JointLimits(lower=-1.0))
    model = tb.Model("arm", [body("a", slide), body("b", hinge, "a")])
    copy, _ = again(model, tmp_path)
    assert copy.joint("slide").limits == slide.limits
    assert copy.joint("hinge").limits == hinge.limits


def test_lost_data_are_reported(tmp_path):
    """Water, thrusters, contacts, positions, armature, springs and odd shapes are."""
    hull = body(
        "hull",
        tb.Free("float"),
        shapes=(tb.Shape(tb.PlaneShape()), tb.Shape(tb.EllipsoidShape((1, 1, 2)))),
        fluid=tb.BodyFluid(volume=1.0),
    )
    spring = tb.JointPassive(stiffness=3.0)
    arm = body("arm", tb.Revolute("elbow", passive=spring, armature=0.1), "hull")
    wrist = body("wrist", tb.Spherical("ball"), "arm")
    model = tb.Model(
        "rov",
        [hull, arm, wrist],
        [tb.Frame("tip", "arm")],
        loops=[tb.LoopClosure("screw", "tip", "hull", tb.Screw("s", pitch=1.0))],
        thrusters=[tb.Thruster("port", "hull")],
        contacts=[tb.ContactPoint("foot", "hull")],
        actuators=[tb.Actuator("motor", "elbow", 10.0, rotor_inertia=1e-3)],
        poses={"home": {"elbow": 0.3}},
        about="an example -- with dashes",
    )
    copy, losses = again(model, tmp_path)
    told = "\n".join(losses)
    for words in [
        "shape of kind plane",
        "shape of kind ellipsoid",
        "armature 0.1 was left out",
        "spring of stiffness 3.0",
        "spherical joint was written as three revolute joints",
        "loop 'screw'",
        "actuator 'motor': only its ratio",
        "hydrodynamic coefficients were left out: hull",
        "thrusters were left out: port",
        "contact points were left out: foot",
        "named configurations were left out: home",
    ]:
        assert words in told
    assert copy.nv == model.nv
    assert copy.body("tip").parent == "arm"


def test_joints_that_urdf_cannot_have_are_refused(tmp_path):
    """Rolling has no chain of URDF joints."""
    ball = tb.Inertia.sphere(1.0, 0.5)
    model = tb.Model("ball", [tb.Body("b", joint=tb.RollingSphere("roll", 0.5), inertia=ball)])
    with pytest.raises(tb.ModelFileError, match=r"joint 'roll': URDF has no equivalent .*toml"):
        write_urdf(model, tmp_path / "ball.urdf")


@pytest.mark.parametrize("name", ['a "b" <c> & d', "Größe", "tab\tline\nend", "x" * 500])
def test_names_with_any_characters_round_trip(tmp_path, name):
    """What XML must escape is escaped."""
    model = tb.Model("m", [body(name, tb.Revolute(f"joint of {name}"))])
    copy, _ = again(model, tmp_path)
    assert copy.body_names == (name,)


def test_characters_that_xml_cannot_hold_are_refused(tmp_path):
    """A control character has no place in XML."""
    model = tb.Model("m", [body("a\x01b", tb.Revolute("j"))])
    with pytest.raises(tb.ModelFileError, match=r"does not permit the character '\\x01'"):
        write_urdf(model, tmp_path / "m.urdf")


def test_meshes_below_the_folder_are_written_relative_to_it(tmp_path):
    """A folder with robot and meshes can be moved as a whole."""
    mesh = tmp_path / "meshes" / "part.stl"
    mesh.parent.mkdir()
    mesh.write_text("solid")
    shape = tb.Shape(tb.MeshShape(str(mesh)), role="visual")
    model = tb.Model("m", [body("a", tb.Revolute("j"), shapes=(shape,))])
    text, _ = write_urdf(model, tmp_path / "m.urdf")
    assert 'filename="meshes/part.stl"' in text
    copy, _ = again(model, tmp_path)
    assert copy.body("a").shapes == (shape,)


@pytest.mark.parametrize("pitch", [0.3, math.pi / 2, -math.pi / 2, math.pi / 2 - 1e-9, 2.5])
def test_angles_give_the_rotation_back_at_any_pitch(pitch):
    """Also where roll and yaw are not defined by themselves."""
    pose = tb.Pose.from_rpy((0.7, pitch, -1.1))
    found = tb.Pose.from_rpy(roll_pitch_yaw(pose))
    # entries within 1e-12 of 0 and 1 are snapped, here and there
    assert_close(found.rotation, pose.rotation, 3.0 * ALGEBRA)
