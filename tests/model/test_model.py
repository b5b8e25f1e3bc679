"""Models: order, names, slices, value semantics, and every build-time check with its message."""

import pickle

import numpy as np
import pytest

from tests.model.samples import arm, random_tree
from tiburon.errors import ModelError, OptionError, UnknownNameError
from tiburon.model import Body, Fixed, Frame, Free, Inertia, Model, Prismatic, Revolute

BALL = Inertia.sphere(1.0, 0.1)


def link(name, parent="world", joint=None, inertia=BALL):
    return Body(name, parent, joint=joint or Revolute(f"{name}_joint"), inertia=inertia)


def test_bodies_are_ordered_parents_first_and_otherwise_as_given():
    assert arm().body_names == ("base", "upper", "lower", "camera", "slider")
    sorted_already = [link("a"), link("c", "a"), link("b", "a"), link("d", "c")]
    assert Model("m", sorted_already).body_names == ("a", "c", "b", "d")


def test_names_follow_the_bodies():
    model = arm()
    assert model.joint_names == ("float", "shoulder", "elbow", "bracket", "slide")
    assert model.frame_names == ("world", "base", "upper", "lower", "camera", "slider", "tip")
    assert (model.nq, model.nv) == (10, 9)
    assert model.q_names == (
        *("float.qw", "float.qx", "float.qy", "float.qz", "float.x", "float.y", "float.z"),
        *("shoulder", "elbow", "slide"),
    )
    assert model.v_names == (
        *("float.wx", "float.wy", "float.wz", "float.vx", "float.vy", "float.vz"),
        *("shoulder", "elbow", "slide"),
    )


def test_slices_match_variable_names():
    model = arm()
    for joint in model.joints:
        assert model.q_names[model.slice(joint.name)] == joint.q_names()
        assert model.v_names[model.slice(joint.name, of="v")] == joint.v_names()
    assert model.slice("bracket", of="v") == slice(8, 8)


def test_unknown_joint_in_slice_gives_the_nearest():
    with pytest.raises(UnknownNameError) as caught:
        arm().slice("elbw")
    assert str(caught.value) == (
        "model 'rover': unknown joint 'elbw'; did you mean 'elbow'? (model.joint_names lists all)"
    )
    with pytest.raises(OptionError, match="of: expected 'q' or 'v', got 'qdd'"):
        arm().slice("elbow", of="qdd")


def test_bodies_and_joints_are_found_by_name():
    model = arm()
    assert model.body("lower").joint is model.joint("elbow")
    with pytest.raises(UnknownNameError, match="did you mean 'camera'"):
        model.body("camra")
    with pytest.raises(UnknownNameError, match="did you mean 'slide'"):
        model.joint("slid")


@pytest.mark.parametrize(
    ("bodies", "q", "v"),
    [
        (arm().bodies, "10 (7 base + 3 joints)", "9 (6 base + 3 joints)"),
        ([link("a")], "1 (1 joint)", "1 (1 joint)"),
        ([link("a", joint=Free("f"))], "7 (7 base)", "6 (6 base)"),
        (
            [link("a", joint=Free("f")), link("b", joint=Free("g"))],
            "14 (14 bases)",
            "12 (12 bases)",
        ),
        ([link("a", joint=Fixed("f"))], "0 (0 joints)", "0 (0 joints)"),
    ],
)
def test_sizes_are_described_in_text(bodies, q, v):
    model = Model("m", bodies)
    assert (model.describe_q(), model.describe_v()) == (q, v)


def test_total_mass_is_the_sum():
    assert arm().total_mass == pytest.approx(1.0 + 0.3 + 3.0 + 2.0 + 3.0, rel=1e-15)


def test_models_compare_hash_and_pickle_by_value():
    model, same = arm(), arm()
    assert model == same
    assert hash(model) == hash(same)
    copy = pickle.loads(pickle.dumps(model))
    assert copy == model
    assert copy.structure_key() == model.structure_key()
    assert model != random_tree(1)
    assert model != "rover"
    assert {model: 1}[same] == 1


def test_model_cannot_be_changed():
    model = arm()
    with pytest.raises(AttributeError, match="a Model cannot be changed"):
        model.name = "other"
    with pytest.raises(AttributeError, match="a Model cannot be changed"):
        del model.bodies


def test_repr_describes_the_model():
    assert repr(arm()) == "<Model 'rover': 5 bodies, nq=10, nv=9, 9.3 kg>"


@pytest.mark.parametrize(
    ("bodies", "frames", "error", "message", "name"),
    [
        (
            [link("arm"), link("hand", "amr")],
            [],
            UnknownNameError,
            "body 'hand': unknown parent body 'amr'; did you mean 'arm'?",
            "amr",
        ),
        (
            [link("arm")],
            [Frame("tip", "armm")],
            UnknownNameError,
            "frame 'tip': unknown body 'armm'; did you mean 'arm'?",
            "armm",
        ),
        (
            [link("arm"), link("arm", joint=Revolute("other"))],
            [],
            ModelError,
            "model 'm': body or frame name 'arm' is used twice; rename one of them",
            "arm",
        ),
        (
            [link("arm")],
            [Frame("arm", "arm")],
            ModelError,
            "model 'm': body or frame name 'arm' is used twice",
            "arm",
        ),
        (
            [link("arm")],
            [Frame("world", "arm")],
            ModelError,
            "model 'm': body or frame name 'world' is used twice",
            "world",
        ),
        (
            [link("a", joint=Revolute("j")), link("b", "a", Revolute("j"))],
            [],
            ModelError,
            "model 'm': joint name 'j' is used twice",
            "j",
        ),
        (
            [link("root"), link("a", "c"), link("b", "a"), link("c", "b")],
            [],
            ModelError,
            "body 'a': bodies must form a tree rooted at 'world', got the cycle "
            "a -> c -> b -> a (child -> parent); give one of them another parent",
            "a",
        ),
        (
            [link("tail", "a"), link("a", "a")],
            [],
            ModelError,
            "got the cycle a -> a (child -> parent)",
            "a",
        ),
        (
            [link("a"), link("b", "a", Free("f"), Inertia())],
            [],
            ModelError,
            "body 'b': mass must be positive on the free joint 'f', got 0 kg and no mass beyond it",
            "b",
        ),
        (
            [link("a", inertia=Inertia()), link("b", "a", Fixed("f"), Inertia())],
            [],
            ModelError,
            "body 'a': mass must be positive on the revolute joint 'a_joint', got 0 kg",
            "a",
        ),
    ],
)
def test_impossible_tree_is_refused(bodies, frames, error, message, name):
    with pytest.raises(error) as caught:
        Model("m", bodies, frames)
    assert message in str(caught.value)
    assert caught.value.name == name


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Model("", [link("a")]), "model: the name must be a non-empty string"),
        (lambda: Model("m", ["arm"]), "model 'm': expected a Body, got 'arm'"),
        (lambda: Model("m", [link("a")], ["tip"]), "model 'm': expected a Frame, got 'tip'"),
        (lambda: link("world"), "body 'world': this name is reserved for the world frame"),
        (lambda: link(""), "body: the name must be a non-empty string"),
        (lambda: link("a", parent=link("b")), "body 'a': parent must be the name of a body"),
        (lambda: link("a", joint="hinge"), "body 'a': joint must be a joint such as Revolute"),
        (lambda: link("a", inertia=1.0), "body 'a': inertia must be an Inertia, got 1.0"),
        (lambda: Frame("", "a"), "frame: the name must be a non-empty string"),
        (lambda: Frame("tip", None), "frame 'tip': body must be the name of a body, got None"),
        (lambda: Frame("tip", "a", (0, 0, 1)), "frame 'tip': pose must be a Pose, got (0, 0, 1)"),
    ],
)
def test_part_of_the_wrong_kind_is_refused(make, message):
    with pytest.raises(ModelError) as caught:
        make()
    assert message in str(caught.value)


def test_massless_body_is_allowed_if_it_carries_mass():
    cross = link("cross", inertia=Inertia())
    outer = link("outer", "cross", Revolute("second", (1, 0, 0)))
    assert Model("universal", [cross, outer]).nv == 2
    bracket = link("bracket", joint=Prismatic("rail"), inertia=Inertia())
    load = link("load", "bracket", Fixed("weld"))
    assert Model("slide", [bracket, load]).nv == 1


@pytest.mark.parametrize(
    ("bodies", "joint"),
    [
        # a point mass on the axis turns for nothing
        ([link("a", inertia=Inertia.point(1.0, (0, 0, 1)))], "a_joint"),
        # two hinges on one line: the massless body between them is not held
        ([link("a", inertia=Inertia()), link("b", "a")], "a_joint"),
        # a point cannot resist rotation
        ([link("a", joint=Free("float"), inertia=Inertia.point(1.0))], "float"),
        # a massless base that a hinge releases
        ([link("a", joint=Free("float"), inertia=Inertia()), link("b", "a")], "float"),
    ],
)
def test_joint_that_nothing_resists_is_refused(bodies, joint):
    with pytest.raises(ModelError) as caught:
        Model("m", bodies)
    assert f"joint {joint!r}: its inertia must be positive" in str(caught.value)
    assert caught.value.name == joint


def test_point_masses_away_from_the_axis_are_allowed():
    pendulum = link("bob", joint=Revolute("pivot", (0, 1, 0)), inertia=Inertia.point(1, (0, 0, -1)))
    second = link(
        "bob2", "bob", Revolute("pivot2", (0, 1, 0)), Inertia.point(1, (0, 0, -np.sqrt(2)))
    )
    assert Model("double pendulum", [pendulum, second]).nv == 2
