"""Joints of files with branches in the order in which Pinocchio itself reads them."""

import numpy as np
import pytest

import tiburon as tb
from tests.robots import kicked
from tests.tolerances import SOLVE, assert_close

pin = pytest.importorskip("pinocchio")

LINK = """<link name="{0}"><inertial><origin xyz="0.1 0.02 {1}"/><mass value="{1}"/>
<inertia ixx=".1" iyy=".2" izz=".25" ixy="0.01" ixz="0" iyz="0"/></inertial></link>"""
JOINT = """<joint name="{0}" type="{3}"><parent link="{1}"/><child link="{2}"/>
<origin xyz="0.1 0.2 0.3" rpy="0.3 -0.2 0.5"/><axis xyz="0 0.6 0.8"/>
<limit lower="-3" upper="3" effort="1" velocity="1"/></joint>"""
LINKS = ("base", "a", "m", "k", "x", "aa", "ab")
JOINTS = (
    ("z_j", "base", "a", "revolute"),
    ("m_j", "base", "m", "fixed"),
    ("b_j", "m", "k", "prismatic"),
    ("c_j", "base", "x", "revolute"),
    ("t_j", "a", "ab", "revolute"),
    ("s_j", "a", "aa", "continuous"),
)


@pytest.mark.parametrize("base", ["fixed", "floating"])
def test_dynamics_in_the_order_of_pinocchio_is_that_of_pinocchio(tmp_path, base):
    """Branches that are not in alphabetical order: refused without its model, right with it."""
    path = tmp_path / "branches.urdf"
    links = [LINK.format(name, 0.5 + 0.3 * k) for k, name in enumerate(LINKS)]
    joints = [JOINT.format(*joint) for joint in JOINTS]
    path.write_text(f'<robot name="r">{"".join([*links, *joints])}</robot>')
    model = tb.load(path)
    free = ()
    if base == "floating":
        first, *others = model.bodies
        root = tb.Body("base", joint=tb.Free("float"), inertia=first.inertia)
        model, free = tb.Model("r", [root, *others]), (pin.JointModelFreeFlyer(),)
    theirs = pin.buildModelFromUrdf(str(path), *free)
    q, v, tau = kicked(model, 1)
    with pytest.raises(tb.ModelError, match="the order of joints in Pinocchio is not known"):
        tb.to_pinocchio(model, q, v, force=tau)
    given = tb.to_pinocchio(model, q, v, force=tau, joints=theirs)
    found = pin.aba(theirs, theirs.createData(), given.q, given.v, given.force)
    back = tb.from_pinocchio(model, given.q, given.v, acceleration=found, joints=theirs)
    expected = tb.forward_dynamics(model, q, v, tau)
    scale = np.linalg.cond(tb.mass_matrix(model, q)) * max(1.0, np.abs(expected).max())
    assert_close(back.acceleration, expected, SOLVE, scale)
