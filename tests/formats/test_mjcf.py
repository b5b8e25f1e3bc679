"""MJCF files: the same numbers as MuJoCo, everything else as data."""

import warnings

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import ALGEBRA, assert_close
from tiburon.contact.candidates import candidates_of

mujoco = pytest.importorskip("mujoco", reason="MJCF is read by MuJoCo")

from tests.cross.loaded_mujoco import LoadedPeer  # noqa: E402

RANDOM = np.random.default_rng(0)


@pytest.fixture
def load(tmp_path):
    """Load a model from text, expecting no warning."""

    def function(text, name="robot.xml"):
        path = tmp_path / name
        path.write_text(f"<mujoco>{text}</mujoco>")
        return tb.load(path)

    return function


@pytest.fixture
def agree(tmp_path):
    """Compare a model with MuJoCo at a random state; return both."""

    def function(text):
        path = tmp_path / "robot.xml"
        path.write_text(f"<mujoco>{text}</mujoco>")
        peer = LoadedPeer(path)
        q, v = peer.model.random_state(RANDOM)
        matrix, force, pose = peer.errors(q, v, RANDOM.standard_normal(peer.model.nv))
        # a few hundred products added in another order
        assert matrix < ALGEBRA
        assert force < ALGEBRA
        assert pose < ALGEBRA
        return peer

    return function


def one_body(joints, more=""):
    return f"""
    <compiler angle="radian"/>
    <worldbody>
      <body name="base" pos="0.1 -0.2 0.3" euler="0.3 -0.2 0.5">
        {joints}
        <geom name="bar" type="box" size="0.1 0.2 0.3" pos="0.05 0.02 -0.1" euler="0.1 0.2 0.3"/>
        <site name="tip" pos="0.2 0.1 0" euler="0 0 1"/>
      </body>
    </worldbody>{more}"""


JOINTS = {
    "hinge": '<joint name="a" axis="1 2 3"/>',
    "hinge off the origin": '<joint name="a" axis="1 2 3" pos="0.3 -0.1 0.2"/>',
    "reference angle": '<joint name="a" axis="0 1 0" ref="0.7" pos="0 0 0.4"/>',
    "slide": '<joint name="a" type="slide" axis="1 -1 2" ref="0.2"/>',
    "ball": '<joint name="a" type="ball"/>',
    "ball off the origin": '<joint name="a" type="ball" pos="0.1 0.2 -0.3"/>',
    "free": '<freejoint name="a"/>',
    "several": """<joint name="a" type="slide" axis="1 0 0"/>
        <joint name="b" axis="0 1 0" pos="0.1 0 0.2" armature="0.3"/>
        <joint name="c" axis="0 0 1" pos="0 -0.3 0"/>
        <joint name="d" type="ball" pos="0.1 0.1 0.1" armature="0.2"/>""",
    "armature": '<joint name="a" axis="1 2 3" armature="0.7"/>',
    "welded": "",
}


@pytest.mark.parametrize("joints", JOINTS.values(), ids=JOINTS)
def test_joints_move_as_in_mujoco(agree, joints):
    """Anchors, reference positions and the order of joints on one body."""
    agree(one_body(joints))


def test_armature_of_a_free_body_resists_rates_in_body_axes(tmp_path):
    """MuJoCo lets it resist rates in world axes, which differ by omega x v when the body turns."""
    path = tmp_path / "robot.xml"
    joint = '<joint name="a" type="free" armature="0.4"/>'
    path.write_text(f"<mujoco>{one_body(joint)}</mujoco>")
    peer = LoadedPeer(path)
    q, v = peer.model.random_state(RANDOM)
    a = RANDOM.standard_normal(6)
    matrix, _, pose = peer.errors(q, v, a)
    assert max(matrix, pose) < ALGEBRA
    theirs = peer.reduction(q).T @ peer.data.qfrc_inverse
    difference = theirs - peer.ours.inverse_dynamics(q, v, a)
    scale = float(np.abs(theirs).max())
    assert_close(difference[:3], np.zeros(3), ALGEBRA, scale)
    assert_close(difference[3:], 0.4 * np.cross(v[:3], v[3:]), ALGEBRA, scale)


def test_tree_of_all_joints_agrees(agree):
    """A floating tree with branches, inertia from geometry of several kinds, and given inertia."""
    agree("""
    <default><joint damping="0.1" armature="0.05"/><geom density="700"/>
      <default class="light"><geom density="90"/></default></default>
    <option gravity="0.3 -0.4 -9.7"/>
    <worldbody>
      <body name="trunk" pos="0 0 1" quat="1 2 3 4">
        <freejoint/>
        <geom type="capsule" fromto="0 0 0 0.3 0.2 0.1" size="0.05"/>
        <body name="arm" pos="0.3 0.2 0.1" euler="20 30 40">
          <joint axis="0 1 0" pos="0 0 0.02" range="-90 90"/>
          <geom class="light" type="cylinder" size="0.03 0.2" pos="0 0 0.2"/>
          <body pos="0 0 0.4">
            <joint type="ball"/>
            <joint type="slide" axis="1 0 0"/>
            <inertial mass="0.4" pos="0.01 0.02 0.03" fullinertia="2e-3 3e-3 4e-3 1e-4 2e-4 3e-4"/>
          </body>
        </body>
        <body name="leg" pos="-0.1 0 -0.2">
          <joint axis="1 0 0"/><joint axis="0 1 0"/>
          <geom type="ellipsoid" size="0.05 0.06 0.1"/>
          <body name="foot" pos="0 0 -0.3"><geom type="sphere" size="0.04" pos="0.02 0 0"/></body>
        </body>
      </body>
    </worldbody>""")


def test_replicas_agree(agree):
    """MuJoCo multiplies bodies; each copy is a body of its own."""
    peer = agree("""<worldbody><body name="hub"><freejoint/><geom size="0.1"/>
      <replicate count="3" euler="0 0 120"><body name="leg" pos="0.3 0 0">
        <joint name="leg" axis="0 1 0" pos="0 0 0.1"/><geom size="0.05" pos="0.1 0 0"/></body>
      </replicate></body></worldbody>""")
    assert peer.model.nv == 9


def test_bodies_joints_and_sites_keep_their_names_and_others_get_one(load):
    model = load("""<worldbody>
      <body name="arm"><joint/><geom size="0.1"/><site/><site name="arm"/></body>
      <body><joint name="joint_0" pos="1 0 0"/><geom size="0.1"/></body>
    </worldbody>""")
    assert model.joint_names == ("joint_0_2", "joint_0", "body_2_fixed")
    assert model.body_names == ("arm", "body_2.joint_0", "body_2")
    assert [frame.name for frame in model.frames] == ["site_0", "arm_site"]


def test_joint_data_are_read(load):
    """Limits, damping, friction and springs, in our units and order."""
    model = load(
        one_body(
            """<joint name="a" axis="0 0 1" pos="0.3 0 0" damping="0.4" frictionloss="0.3"
             stiffness="7" springref="0.2" range="-1 2" actuatorfrcrange="-3 5" ref="0.1"/>
            <joint name="b" type="ball" range="0 0.8" stiffness="2"/>"""
        )
    )
    a, b = model.joint("a"), model.joint("b")
    assert a.limits == tb.JointLimits(-1.0, 2.0, force=5.0)
    assert a.passive == tb.JointPassive(0.4, 0.3, 7.0, 0.2)
    assert b.limits == tb.JointLimits(upper=0.8)
    assert b.passive == tb.JointPassive(stiffness=2.0, rest=(1.0, 0.0, 0.0, 0.0))


def test_actuators_reflect_their_armature_by_the_gear(load):
    model = load(
        one_body(
            '<joint name="a" axis="0 0 1" armature="0.5"/>',
            """<actuator><motor name="m" joint="a" gear="-10" forcerange="-2 3"
            forcelimited="true"/></actuator>""",
        )
    )
    (motor,) = model.actuators
    assert motor == tb.Actuator("m", "a", -10.0, force_limits=(-30.0, 20.0))
    assert model.actuated_joint_names == ("a",)


def test_actuators_on_sites_are_thrusters(load):
    """The force along the gear's direction, the propeller's moment with it, limits of control."""
    model = load(
        one_body(
            "<freejoint/>",
            """<actuator>
            <general name="rotor" site="tip" gear="0 0 2 0 0 -0.1" gainprm="3"
             ctrlrange="0 5" ctrllimited="true"/></actuator>""",
        )
    )
    (rotor,) = model.thrusters
    assert rotor == tb.Thruster(
        "rotor",
        "tip",
        direction=(0.0, 0.0, 1.0),
        curve=tb.LinearThrust(6.0),
        torque_ratio=-0.05,
        command_limits=(0.0, 5.0),
    )


def test_shapes_are_converted_from_half_lengths(load):
    model = load("""<worldbody><geom type="plane" size="1 1 1"/><body name="b">
        <geom name="a" size="0.1" rgba="1 0 0 0.5"/>
        <geom type="capsule" size="0.1 0.2" pos="1 2 3" contype="0" conaffinity="0"/>
        <geom type="cylinder" size="0.1 0.2" group="3"/>
        <geom type="box" size="0.1 0.2 0.3"/>
        <geom type="ellipsoid" size="0.1 0.2 0.3"/>
    </body></worldbody>""")
    a, capsule, cylinder, box, ellipsoid = model.body("b").shapes
    assert (a.geometry, a.color, a.name) == (tb.SphereShape(0.1), (1.0, 0.0, 0.0, 0.5), "a")
    assert (capsule.geometry, capsule.role) == (tb.CapsuleShape(0.1, 0.4), "visual")
    assert capsule.pose == tb.Pose(translation=(1.0, 2.0, 3.0))
    assert (cylinder.geometry, cylinder.role) == (tb.CylinderShape(0.1, 0.4), "collision")
    assert (box.geometry, box.role) == (tb.BoxShape((0.2, 0.4, 0.6)), "both")
    assert ellipsoid.geometry == tb.EllipsoidShape((0.1, 0.2, 0.3))


TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


def test_meshes_are_found_and_placed_as_in_their_file(load, tmp_path):
    """MuJoCo turns meshes into their principal axes; the shape undoes that."""
    (tmp_path / "shapes").mkdir()
    (tmp_path / "shapes" / "wedge.obj").write_text(TETRAHEDRON)
    model = load("""<compiler meshdir="shapes"/>
      <asset><mesh file="wedge.obj" scale="2 1 1"/></asset>
      <worldbody><body name="b"><joint/><geom type="mesh" mesh="wedge" pos="1 2 3"/></body>
      </worldbody>""")
    (shape,) = model.body("b").shapes
    path = str(tmp_path / "shapes" / "wedge.obj")
    assert shape.geometry == tb.MeshShape(path, (2.0, 1.0, 1.0), convex=True)
    assert_close(shape.pose.matrix, tb.Pose(translation=(1.0, 2.0, 3.0)).matrix, ALGEBRA)
    # a tetrahedron has a sixth of its box's volume, and its center a quarter of the way
    assert model.body("b").inertia.mass == pytest.approx(1000.0 * 2.0 / 6.0)
    assert_close(model.body("b").inertia.com, (1.5, 2.25, 3.25), ALGEBRA)


LOOP = """
    <worldbody>
      <body name="a"><joint name="a" axis="0 1 0"/><geom size="0.1" pos="1 0 0"/>
        <site name="a_end" pos="1 0 0" euler="0 0 30"/></body>
      <body name="b" pos="0 1 0"><joint name="b" axis="0 1 0"/><geom size="0.1" pos="1 0 0"/>
        <site name="b_end" pos="1 -1 0" euler="0 0 30"/></body>
    </worldbody>
    <equality>{}</equality>"""

LOOPS = {
    "connect": ('<connect name="e" body1="a" body2="b" anchor="1 0 0"/>', "spherical"),
    "connect to the world": ('<connect name="e" body1="a" anchor="1 0 0"/>', "spherical"),
    "connect sites": ('<connect name="e" site1="a_end" site2="b_end"/>', "spherical"),
    "weld": ('<weld name="e" body1="a" body2="b" anchor="0.1 0.2 0.3"/>', "fixed"),
    "weld sites": ('<weld name="e" site1="a_end" site2="b_end"/>', "fixed"),
}


@pytest.mark.parametrize(("equality", "kind"), LOOPS.values(), ids=LOOPS)
def test_loops_close_where_mujoco_starts(load, equality, kind):
    """Both frames of a closure coincide at MuJoCo's own starting position."""
    model = load(LOOP.format(equality))
    (loop,) = model.loops
    assert (loop.name, loop.joint.kind) == ("e", kind)
    tree = model.without_loops()
    ends = []
    for place, pose in [(loop.first, loop.joint.pose), (loop.second, loop.second_pose)]:
        T = np.eye(4)
        if place != "world":
            R, p = tb.forward_kinematics(tree, tree.neutral(), place)
            T[:3, :3], T[:3, 3] = R, p
        ends.append(T @ pose.matrix)
    gap = np.linalg.inv(ends[0]) @ ends[1]
    assert_close(gap[:3, 3], np.zeros(3), ALGEBRA)
    if kind == "fixed":
        assert_close(gap, np.eye(4), ALGEBRA)


def test_linearly_coupled_joints_follow_exactly(agree):
    """q_b = 0.3 + 2 (q_a - 0.1) leaves one variable; masses are reduced by the tie."""
    text = LOOP.format('<joint joint1="b" joint2="a" polycoef="0.3 2 0 0 0"/>')
    peer = agree(text.replace('name="a" axis="0 1 0"', 'name="a" axis="0 1 0" ref="5.7295779513"'))
    follower = peer.model.joint("b")
    assert (peer.model.nv, follower.kind, follower.leader) == (1, "coupled", "a")
    assert follower.ratio == 2.0
    assert follower.offset == pytest.approx(0.3 - 2.0 * np.radians(5.7295779513))


def test_joints_coupled_to_a_constant_are_fixed(agree):
    peer = agree(LOOP.format('<joint joint1="b" polycoef="0.4 0 0 0 0"/>'))
    assert peer.model.moving_joint_names == ("a",)


def test_chains_of_couplings_refer_to_their_leader(load):
    model = load(
        LOOP.format(
            """<joint joint1="a" joint2="c" polycoef="1 2 0 0 0"/>
            <joint joint1="b" joint2="a" polycoef="0.5 3 0 0 0"/>"""
        ).replace(
            "</worldbody>",
            """<body name="c"><joint name="c" axis="0 1 0"/><geom size="0.1" pos="1 0 0"/></body>
            </worldbody>""",
        )
    )
    b = model.joint("b")
    assert (b.leader, b.ratio, b.offset) == ("c", 6.0, 3.5)


def test_nonlinear_or_cyclic_couplings_become_closures(load):
    model = load(LOOP.format('<joint name="e" joint1="b" joint2="a" polycoef="1 2 3 0 0"/>'))
    assert model.loops == (tb.JointCoupling("e", "b", "a", (1.0, 2.0, 3.0), may_start_open=True),)
    ring = """<joint name="e" joint1="b" joint2="a" polycoef="0 2 0 0 0"/>
        <joint name="f" joint1="a" joint2="b" polycoef="0 3 0 0 0"/>"""
    model = load(LOOP.format(ring))
    assert [loop.name for loop in model.loops] == ["f"]


def test_inactive_equalities_are_ignored(load):
    equality = LOOPS["connect"][0].replace("name=", 'active="false" name=')
    assert load(LOOP.format(equality)).loops == ()


def test_keyframes_and_the_start_are_poses(load):
    model = load(
        """<worldbody><body name="b" pos="1 2 3" quat="0 1 0 0"><freejoint/><geom size="0.1"/>
        <body><joint axis="0 0 1" pos="0 0 1"/><geom size="0.1"/></body></body></worldbody>
        <keyframe><key name="up" qpos="4 5 6 1 0 0 0 0.5"/></keyframe>"""
    )
    assert model.poses["initial"] == (0.0, 1.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.0)
    assert model.poses["up"] == (1.0, 0.0, 0.0, 0.0, 4.0, 5.0, 6.0, 0.5)


def test_surroundings_come_from_the_options(tmp_path):
    path = tmp_path / "robot.xml"
    path.write_text(
        '<mujoco><option gravity="1 2 3" density="1.2" viscosity="2e-5" wind="4 5 6"/></mujoco>'
    )
    world = tb.load_world(path)
    assert world.gravity == (1.0, 2.0, 3.0)
    assert (world.fluid.density, world.fluid.viscosity) == (1.2, 2e-5)
    assert world.fluid.current == (4.0, 5.0, 6.0)
    path.write_text('<mujoco><option gravity="1 2 3"><flag gravity="disable"/></option></mujoco>')
    assert tb.load_world(path) == tb.World(gravity=(0.0, 0.0, 0.0))


def fluid_force(compiled, data):
    """Return the force of MuJoCo's fluid on the joints."""
    mujoco.mj_forward(compiled, data)
    return np.array(data.qfrc_fluid)


def test_box_of_inertia_drags_as_in_mujoco(load, tmp_path):
    """Along one axis of the box: half the density times the face, and Stokes' resistance."""
    text = one_body("<freejoint/>").replace(
        "<worldbody>", '<option {} gravity="0 0 0"/><worldbody>'
    )
    for option in ('density="800"', 'viscosity="0.3"'):
        fluid = load(text.format(option)).body("base").fluid
        compiled = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
        data = mujoco.MjData(compiled)
        R = np.array(tb.Pose.from_quaternion(compiled.body_iquat[1]).rotation)
        body = np.array(tb.Pose.from_quaternion(compiled.body_quat[1]).rotation)
        direction = body @ R[:, 1]
        data.qvel[:3] = 1.5 * direction
        force = fluid_force(compiled, data)[:3] @ direction
        if fluid.drag:
            (box,) = fluid.drag
            x, _, z = box.size
            assert force == pytest.approx(-0.5 * 800.0 * x * z * 1.5**2, rel=1e-9)
        else:
            D = np.array(fluid.linear_damping)
            v = np.concatenate([np.zeros(3), body.T @ direction * 1.5])
            assert force == pytest.approx(-(D @ v)[3:] @ (body.T @ direction), rel=1e-9)


def test_ellipsoids_drag_as_in_mujoco_along_their_axes(load, tmp_path):
    """Drag along an axis, and added mass, which MuJoCo shows in the force of turning flow."""
    model = load("""<option density="1000" gravity="0 0 0"/><worldbody>
      <body name="b"><freejoint/>
      <geom type="ellipsoid" size="0.1 0.2 0.3" pos="0.1 0.2 0.3" fluidshape="ellipsoid"
       fluidcoef="0.5 0.25 1.5 0 0"/></body></worldbody>""")
    fluid = model.body("b").fluid
    compiled = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
    (drag,) = fluid.drag
    for axis in range(3):
        data = mujoco.MjData(compiled)
        data.qvel[axis] = 1.5
        areas = np.pi * np.array([0.2 * 0.3, 0.3 * 0.1, 0.1 * 0.2])
        expected = -0.5 * 1000.0 * drag.coefficients[axis] * areas[axis] * 1.5**2
        assert fluid_force(compiled, data)[axis] == pytest.approx(expected, rel=1e-9)
    added = np.array(fluid.added_mass)
    assert_close(added, added.T, ALGEBRA)
    assert_close(np.diag(added)[3:], 1000.0 * compiled.geom_fluid[0][6:9], ALGEBRA)
    assert fluid.volume == 0.0


def test_actuators_and_forces_that_cannot_be_kept_are_reported(tmp_path):
    path = tmp_path / "robot.xml"
    text = one_body(
        '<joint name="a" axis="0 0 1"/>',
        '<tendon><fixed name="t"><joint joint="a" coef="1"/></fixed></tendon>'
        '<actuator><motor tendon="t"/></actuator>',
    )
    path.write_text(f"<mujoco>{text}</mujoco>")
    with pytest.warns(tb.ModelWarning) as caught:
        tb.load(path)
    message = str(caught[0].message)
    assert "left out: 1 tendons; models do not support them: 't'" in message
    assert "left out: 1 actuators that are neither motors nor thrusters: 'actuator_0'" in message


def test_tendons_over_one_joint_are_part_of_the_joint(tmp_path):
    """Armature, damping and friction, by the moment arm, as MuJoCo's mass matrix has them."""
    text = """<mujoco><worldbody><body name="a"><joint name="one" axis="0 1 0" damping=".5"/>
    <geom size=".1"/><body name="b" pos=".5 0 0"><joint name="two" axis="0 1 0"/><geom size=".1"/>
    </body></body></worldbody><tendon>
    <fixed name="belt" armature="0.2" damping="0.3" frictionloss="0.4">
    <joint joint="one" coef="-2"/></fixed>{more}</tendon></mujoco>"""
    path = tmp_path / "robot.xml"
    path.write_text(text.format(more=""))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = tb.load(path)
    joint = model.joint("one")
    assert joint.armature == pytest.approx(0.8)
    assert joint.passive.damping == pytest.approx(0.5 + 4.0 * 0.3)
    assert joint.passive.friction == pytest.approx(0.8)
    compiled = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(compiled)
    data.qpos[:] = [0.3, -0.7]
    mujoco.mj_forward(compiled, data)
    M = np.zeros((2, 2))
    mujoco.mj_fullM(compiled, data, M)
    np.testing.assert_allclose(tb.mass_matrix(model, [0.3, -0.7]), M, rtol=1e-12)
    both = '<joint joint="one" coef="1"/><joint joint="two" coef="1"/>'
    two = f'<fixed name="pair" armature="1">{both}</fixed>'
    path.write_text(text.format(more=two))
    with pytest.warns(tb.ModelWarning, match="left out: 1 tendons; models .* 'pair'"):
        tb.load(path)


def test_states_with_coupled_joints_convert(tmp_path):
    """A coupled joint has a variable in MuJoCo: position, velocity and work agree."""
    text = """<mujoco><worldbody><body name="a"><joint name="one" axis="0 1 0"/><geom size=".1"/>
    <body name="b" pos=".5 0 0"><joint name="two" axis="0 1 0"/><geom size=".1"/></body></body>
    <body name="c" pos="0 1 0"><freejoint name="float"/><geom size=".1"/></body></worldbody>
    <equality><joint joint1="one" joint2="two" polycoef="0.1 -2 0 0 0"/></equality></mujoco>"""
    path = tmp_path / "robot.xml"
    path.write_text(text)
    model = tb.load(path)
    assert model.joint("one").kind == "coupled"
    q, v = model.random_state(5, (3,))
    theirs = tb.to_mujoco(model, q, v, acceleration=2.0 * v, force=3.0 * v)
    follower, leader = theirs.q[:, 0], theirs.q[:, 1]
    np.testing.assert_allclose(follower, 0.1 - 2.0 * leader, rtol=1e-12)
    np.testing.assert_allclose(theirs.v[:, 0], -2.0 * theirs.v[:, 1], rtol=1e-12)
    np.testing.assert_array_equal(theirs.force[:, 0], 0.0)
    ours = tb.from_mujoco(model, theirs.q, theirs.v, force=theirs.force)
    np.testing.assert_allclose(ours.q, q, rtol=1e-12)
    np.testing.assert_allclose(ours.v, v, rtol=1e-12)
    # forces on the coupled joint do the same work on its leader
    loaded = tb.from_mujoco(model, theirs.q, theirs.v, force=[1.0, 0, 0, 0, 0, 0, 0, 0]).force
    np.testing.assert_allclose((loaded * v).sum(axis=1), theirs.v[:, 0], rtol=1e-12)
    independent = tb.to_mujoco(model, q, v, joints=["two", "float"])
    assert independent.q.shape == (3, 8)


def test_what_is_left_out_is_named(tmp_path):
    """Dynamics of actuators and mocap bodies, each in one sentence by name."""
    path = tmp_path / "robot.xml"
    text = one_body(
        '<joint name="a" axis="0 0 1"/><geom name="tyre" size="0.1" condim="6"/>',
        '<worldbody><body name="hand" mocap="true"/></worldbody>'
        '<actuator><position name="lag" joint="a" kp="5" timeconst="0.1"/>'
        '<motor name="m" joint="a"/></actuator>',
    )
    path.write_text(f"<mujoco>{text}</mujoco>")
    with pytest.warns(tb.ModelWarning) as caught:
        tb.load(path)
    message = str(caught[0].message)
    assert len(caught) == 1
    assert "law of 1 muscles or actuators with dynamics, which are actuators of forces" in message
    assert "forces here: 'lag'" in message
    assert "1 mocap bodies, which are fixed here; models do not support them: 'hand'" in message
    assert "friction" not in message


def test_friction_of_two_geometries_is_the_larger_one(tmp_path):
    """A block with condim 1 on a floor with condim 3 has the friction of the floor."""
    path = tmp_path / "block.xml"
    floor = '<geom name="floor" type="plane" size="5 5 1" friction="0.6"/>'
    text = one_body('<freejoint/><geom type="box" size=".1 .1 .1" condim="1" friction=".4"/>', "")
    path.write_text(f"<mujoco>{text.replace('<worldbody>', '<worldbody>' + floor, 1)}</mujoco>")
    model, world = tb.load(path), tb.load_world(path)
    found = {c.name: c.material.static_friction for c in candidates_of(model, world)}
    assert list(found.values()) == [0.6, 1.0], found


def test_friction_that_depends_on_more_than_the_larger_one_is_named(tmp_path):
    """A geometry with condim 1 and more friction than others, and priorities."""
    path = tmp_path / "block.xml"
    extra = (
        '<worldbody><geom name="ice" type="plane" size="5 5 1" friction="0.1" priority="1"/>'
        "</worldbody>"
    )
    body = '<freejoint/><geom name="pad" size=".1" condim="1" friction=".4"/>'
    path.write_text(f"<mujoco>{one_body(body, extra)}</mujoco>")
    with pytest.warns(tb.ModelWarning) as caught:
        tb.load(path)
    message = str(caught[0].message)
    assert "friction of 1 geometries with condim 1 was left out" in message
    assert "down to 0.1" in message
    assert "geom 'pad'" in message
    assert "the priority of geometries was left out" in message


def test_torsional_friction_that_depends_on_more_than_the_larger_one_is_named(tmp_path):
    """A floor that would add more to a geometry with condim 4."""
    path = tmp_path / "block.xml"
    extra = '<worldbody><geom name="mat" type="plane" size="5 5 1" friction="1 0.1"/></worldbody>'
    body = '<freejoint/><geom name="pad" size=".1" condim="4"/>'
    path.write_text(f"<mujoco>{one_body(body, extra)}</mujoco>")
    match = "torsional friction of 1 geometries with condim below 4 was left out.*'mat'"
    with pytest.warns(tb.ModelWarning, match=match):
        tb.load(path)


TURNING = """<mujoco><option timestep="1e-3" cone="elliptic" impratio="10"/><worldbody>
<geom type="plane" size="50 50 1" friction="0.8 0.001 0.0001"/>
<body name="ball" pos="0 0 .1"><freejoint/>
<geom size=".1" condim="{condim}" friction="{mu}"/></body></worldbody></mujoco>"""


def turned(tmp_path, condim, mu, v, duration):
    """Return our run of a ball on a floor, and velocities [omega, v] and positions of MuJoCo's."""
    mujoco = pytest.importorskip("mujoco")
    path = tmp_path / "ball.xml"
    path.write_text(TURNING.format(condim=condim, mu=mu))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model, world = tb.load(path), tb.load_world(path)
    run = tb.simulate(
        model,
        duration,
        world=world,
        v=v,
        method=tb.RK4(dt=1e-3),
        record=tb.Record(every=1),
        execution=tb.Execution(progress=False),
    )
    theirs = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(theirs)
    data.qvel[:] = [*v[3:], *v[:3]]
    rows = []
    for _ in range(round(duration / 1e-3)):
        mujoco.mj_step(theirs, data)
        rows.append([*data.qvel[3:], *data.qvel[:3], *data.qpos[:3]])
    return run, np.array(rows)


def test_a_spinning_ball_of_condim_4_stops_as_in_mujoco(tmp_path):
    """MuJoCo's soft constraint carries less at first: it stops some hundredths later."""
    run, theirs = turned(tmp_path, 4, "0.8 0.01 0", [0, 0, 20.0, 0, 0, 0], 1.2)
    stop = 0.4 * 0.1**2 * 20.0 / (0.01 * 9.81)
    ours = run.time[np.argmax(np.abs(run.v[:, 2]) < 1e-6)]
    other = 1e-3 * (1 + np.argmax(np.abs(theirs[:, 2]) < 1e-2))
    assert ours == pytest.approx(stop, abs=1e-3)
    assert other == pytest.approx(ours, rel=0.08)


def test_a_rolling_ball_of_condim_6_stops_as_in_mujoco(tmp_path):
    """With condim 4 it rolls on."""
    v = [0, 10.0, 0, 1.0, 0, 0]
    run, theirs = turned(tmp_path, 6, "0.8 0.005 0.004", v, 4.0)
    distance = 1.0 / (2.0 * 0.004 * 9.81 / (0.1 * 1.4))
    assert run.q[-1, 4] == pytest.approx(distance, rel=1e-6)
    assert theirs[-1, 6] == pytest.approx(run.q[-1, 4], rel=5e-3)
    assert np.abs(run.v[-1]).max() < 1e-10
    run, theirs = turned(tmp_path, 4, "0.8 0.005 0.004", v, 1.0)
    assert run.q[-1, 4] == pytest.approx(1.0, rel=1e-6)
    assert theirs[-1, 6] == pytest.approx(1.0, rel=5e-3)


SERVOS = """<mujoco><option timestep="{dt}" integrator="implicitfast"/><worldbody>
<body name="a"><joint name="one" axis="0 1 0" range="-60 60" {joint}/>
  <geom type="capsule" fromto="0 0 0 .4 0 0" size=".03" mass="1"/>
  <body name="b" pos=".4 0 0"><joint name="two" axis="0 1 0" damping=".1" ref="20"/>
    <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass=".3"/></body></body>
</worldbody><actuator>{servos}</actuator>
<keyframe><key name="home" qpos="0.3 -0.2" ctrl="0.4 -0.3"/></keyframe></mujoco>"""


@pytest.mark.parametrize(
    ("servos", "joint"),
    [
        ('<position joint="one" kp="50" kv="5"/><velocity joint="two" kv="0.5"/>', ""),
        (
            '<position joint="one" kp="500" dampratio="1"/>'
            '<position joint="two" kp="9" gear="-2"/>',
            "",
        ),
        (
            '<position joint="one" kp="90" kv="9" forcerange="-4 5"/>'
            '<general joint="two" biastype="affine" gainprm="3" biasprm="0.2 -7 -0.5" gear="1.5"/>',
            "",
        ),
        (
            '<position joint="one" kp="60" kv="6" inheritrange="0.2"/><motor joint="two"/>',
            'actuatorfrcrange="-6 6"',
        ),
    ],
)
def test_servos_move_robots_as_in_mujoco(servos, joint, tmp_path):
    """From a keyframe with its controls, over the rise and at rest, as steps of 0.1 ms do."""
    text = SERVOS.format(dt=1e-4, servos=servos, joint=joint)
    path = tmp_path / "robot.xml"
    path.write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = tb.load(path)
    q = model.poses["home"]
    command = {}
    if "motor" in servos:
        # commands of motors are joint forces, with which runs do not start
        command = {model.actuators[1].name: -0.3}
    method = tb.DormandPrince(rtol=1e-9, atol=1e-10)
    run = tb.simulate(
        model.without_limits(), 1.0, q=q, method=method, command=command, record=tb.Record(dt=0.1)
    )
    compiled = mujoco.MjModel.from_xml_string(text)
    compiled.jnt_limited[:] = 0
    data = mujoco.MjData(compiled)
    mujoco.mj_resetDataKeyframe(compiled, data, 0)
    for row in range(1, 11):
        for _ in range(1000):
            mujoco.mj_step(compiled, data)
        theirs = tb.from_mujoco(model, data.qpos, data.qvel).q
        np.testing.assert_allclose(run.q[row], theirs, atol=2e-3)
    assert tb.save(model, tmp_path / "saved.toml") == ()
    assert tb.load(tmp_path / "saved.toml").actuators == model.actuators


def test_gravity_compensation_is_that_of_mujoco(tmp_path):
    """A double pendulum with compensated weights moves as MuJoCo's, to rounding at equal steps."""
    text = """<mujoco><option timestep="0.001" integrator="RK4"/><worldbody>
    <body name="a" pos="0 0 1" gravcomp="0.7"><joint axis="0 1 0"/>
      <geom type="capsule" size=".05" fromto="0 0 0 .5 0 0"/>
      <body name="b" pos=".5 0 0" gravcomp="1.2"><joint axis="0 1 0"/>
        <geom type="capsule" size=".05" fromto="0 0 0 .3 .1 .1"/></body></body>
    </worldbody></mujoco>"""
    path = tmp_path / "robot.xml"
    path.write_text(text)
    model = tb.load(path)
    assert [body.gravity_compensation for body in model.bodies] == [0.7, 1.2]
    run = tb.simulate(model, 0.2, method=tb.RK4(dt=1e-3))
    compiled = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(compiled)
    for _ in range(200):
        mujoco.mj_step(compiled, data)
    np.testing.assert_allclose(run.q[-1], data.qpos, rtol=1e-9)
    # a passive force: data for dynamics functions, left out with the others
    free = tb.simulate(model.without_passive(), 0.2, method=tb.RK4(dt=1e-3))
    assert abs(free.q[-1][0] - run.q[-1][0]) > 0.05
    assert tb.save(model, tmp_path / "robot.toml") == ()
    assert tb.load(tmp_path / "robot.toml") == model


def test_negative_damping_is_none(tmp_path):
    """As a file of a robot has it: MuJoCo lets it drive the joint."""
    path = tmp_path / "driven.xml"
    path.write_text(
        '<mujoco><worldbody><body name="a"><joint name="hinge" axis="0 1 0" damping="-0.01" '
        'frictionloss="0.2"/><geom size="0.1"/></body></worldbody></mujoco>'
    )
    with pytest.warns(tb.ModelWarning, match=r"taken as 0, of the joints 'hinge'"):
        model = tb.load(path)
    assert model.joint("hinge").passive == tb.JointPassive(damping=0.0, friction=0.2)
