"""Joints that nothing resists: refused in models built by hand, listed in those from files."""

import pickle

import numpy as np
import pytest

import tiburon as tb

BOX = tb.Inertia.box(1.0, (0.3, 0.2, 0.1), com=(0.1, 0.0, 0.2))


def bodies():
    """Return an arm with a finger of no mass."""
    return [
        tb.Body("arm", joint=tb.Revolute("elbow", (0, 1, 0)), inertia=BOX),
        tb.Body("finger", "arm", joint=tb.Revolute("knuckle", (1, 0, 0))),
        tb.Body("nail", "finger", joint=tb.Fixed("glue", pose=tb.Pose(translation=(0, 0, 0.1)))),
    ]


def hand():
    """Return the arm as a file would give it."""
    return tb.Model("hand", bodies(), movable=False)


def test_immovable_joints_are_refused_by_default():
    """The check is on unless it is switched off, and names the body that lacks the mass."""
    with pytest.raises(tb.ModelError, match="body 'finger': mass must be positive"):
        tb.Model("hand", bodies())


def test_immovable_joints_are_listed_by_name():
    """Only the finger is listed, and no joint of a model that can move."""
    assert hand().immovable_joint_names == ("knuckle",)
    assert tb.Model("arm", bodies()[:1], movable=False).immovable_joint_names == ()


def test_point_mass_on_the_axis_has_no_inertia_about_it():
    """Mass alone is not enough: it must be moved by the joint."""
    point = tb.Body("finger", "arm", joint=tb.Revolute("knuckle"), inertia=tb.Inertia.point(1.0))
    model = tb.Model("hand", [bodies()[0], point], movable=False)
    assert model.immovable_joint_names == ("knuckle",)
    with pytest.raises(tb.ModelError, match="its inertia must be positive"):
        tb.Model("hand", [bodies()[0], point])


def test_copies_and_compositions_keep_accepting_immovable_joints():
    """Pickled, prefixed, attached, cut and locked robots keep the joint and the list."""
    model = hand()
    again = pickle.loads(pickle.dumps(model))
    assert again == model
    assert again.immovable_joint_names == ("knuckle",)
    base = tb.Model("base", [tb.Body("cart", joint=tb.Prismatic("rail"), inertia=BOX)])
    both = base.attach(model, at="cart", prefix="left_")
    assert both.immovable_joint_names == ("left_knuckle",)
    assert model.without("nail").immovable_joint_names == ("knuckle",)
    assert model.lock("knuckle").immovable_joint_names == ()


def test_functions_without_division_accept_immovable_joints():
    """Frames, inverse dynamics and mass matrix are those of the arm; the finger feels nothing."""
    model, arm = hand(), tb.Model("arm", bodies()[:1])
    q, v, vd = np.array([0.3, 0.4]), np.array([0.5, -0.6]), np.array([0.7, 0.8])
    tau = tb.inverse_dynamics(model, q, v, vd)
    assert np.allclose(tau, [*tb.inverse_dynamics(arm, q[:1], v[:1], vd[:1]), 0.0])
    assert np.allclose(tb.mass_matrix(model, q)[1], 0.0)
    _, place = tb.forward_kinematics(model, q, "nail")
    assert np.isclose(np.linalg.norm(place), 0.1)


def test_forward_dynamics_names_the_joint():
    """No acceleration is made up where none is definite."""
    with pytest.raises(tb.ModelError, match="joint 'knuckle': it has no inertia"):
        tb.forward_dynamics(hand(), [0.3, 0.4], [0.5, 0.6], [1.0, 2.0])
