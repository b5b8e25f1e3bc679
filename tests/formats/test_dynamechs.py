"""DynaMechs files: conventions against independent formulas, messages, surroundings."""

import re
from pathlib import Path

import numpy as np
import pytest

import tiburon as tb
from tests.running import OnFloats
from tests.tolerances import ALGEBRA, assert_close
from tiburon.algorithms.kinematics import frame_places

FOLDER = Path(__file__).parent.parent / "data" / "dynamechs"

RANDOM = np.random.default_rng(0)


@pytest.fixture(scope="module")
def load():
    """Load a sample without the warnings about what a model cannot hold."""

    def function(name):
        with pytest.warns(tb.ModelWarning):
            return tb.load(FOLDER / name)

    return function


def rotation(axis, angle):
    """Return a rotation about x, y or z, child to parent, written out."""
    c, s = np.cos(angle), np.sin(angle)
    i, j = [(1, 2), (2, 0), (0, 1)][axis]
    R = np.eye(3)
    R[i, i], R[i, j], R[j, i], R[j, j] = c, -s, s, c
    return R


def homogeneous(R=None, p=(0.0, 0.0, 0.0)):
    T = np.eye(4)
    T[:3, :3] = np.eye(3) if R is None else R
    T[:3, 3] = p
    return T


def modified_dh(a, alpha, d, theta):
    """Return McMillan 1994, eqs. A.1-A.7: Rx(alpha) Tx(a) Rz(theta) Tz(d)."""
    first = homogeneous(rotation(0, alpha), (a, 0.0, 0.0))
    return first @ homogeneous(rotation(2, theta), (0.0, 0.0, d))


def placed(model, q, name):
    (place,) = frame_places(model.plan, np.asarray(q).tolist(), [name])
    return homogeneous(np.array(place.R, dtype=float), place.p)


def test_leg_follows_modified_denavit_hartenberg_frames_behind_a_z_screw(load):
    """Hip, knee and foot of the second leg stand where the products of matrices put them."""
    model = load("walker.dm")
    q, _ = model.random_state(3)
    hip, knee = (q[model.slice(f"link_{i}_joint")][0] for i in (5, 6))
    w, x, y, z = q[model.slice("link_7_joint")]
    foot = np.array(
        [
            [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
        ]
    )
    T = placed(model, q, "link_1") @ homogeneous(rotation(2, 1.0471976))
    T = T @ modified_dh(0.375, 0.0, 0.0, hip) @ modified_dh(0.20, 1.5708, 0.0, knee)
    T = T @ homogeneous(foot, (1.02, 0.0, 0.0))
    assert_close(placed(model, q, "link_7"), T, ALGEBRA)


def test_prismatic_link_slides_by_d_and_keeps_theta(load):
    """The variable of a prismatic link is d itself; theta stays where the file has it."""
    model = load("water_arm.dm")
    q = model.neutral()
    q[model.slice("carriage_joint")] = 0.8
    q[model.slice("arm_joint")] = 1.3
    base = homogeneous(rotation(2, np.pi / 2), (0.5, -0.25, 2.0))
    carriage = base @ modified_dh(0.1, -0.4, 0.8, 0.2)
    assert_close(placed(model, q, "carriage"), carriage, ALGEBRA)
    assert_close(placed(model, q, "arm"), carriage @ modified_dh(0.4, 1.1, 0.15, 1.3), ALGEBRA)


def test_initial_position_is_the_one_in_the_file(load):
    """Quaternions have w last there and first here; ball joints start at roll, pitch, yaw."""
    walker = load("walker.dm")
    q = walker.poses["initial"]
    base = np.array([0.97468, 0.1, 0.0, 0.2])
    assert_close(q[:4], base / np.linalg.norm(base), ALGEBRA)
    assert_close(q[4:7], [8.0, 10.0, 3.0], ALGEBRA)
    knee_to_foot = placed(walker, q, "link_4")[:3, :3]
    knee = placed(walker, q, "link_3")[:3, :3]
    turned = rotation(2, -0.4707) @ rotation(1, -0.2) @ rotation(0, 0.1)
    assert_close(knee.T @ knee_to_foot, turned, ALGEBRA)
    arm = load("water_arm.dm")
    assert arm.poses["initial"][arm.slice("carriage_joint")] == (0.3,)
    assert arm.poses["initial"][arm.slice("arm_joint")] == (-0.6,)
    assert arm.poses["initial"][arm.slice("float_joint")] == (0.5, 0.5, 0.5, -0.5)


def test_inertia_in_the_file_is_about_the_origin_of_the_link(load):
    """The 6 x 6 inertia about the link origin is the one DynaMechs puts together."""
    body = load("walker.dm").body("link_3")
    mass, center = 32.61, np.array([0.2, 0.06, 0.0])
    about_origin = np.array([[0.22, -0.39, 0.0], [-0.39, 3.6, 0.0], [0.0, 0.0, 3.7]])
    x, y, z = center
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    c = np.array(body.inertia.com)
    ours = body.inertia.matrix - body.inertia.mass * cross @ cross
    assert body.inertia.mass == mass
    assert_close(c, center, ALGEBRA)
    assert_close(ours, about_origin, ALGEBRA)


def test_hydrodynamic_coefficients_are_read(load):
    """Volume, buoyancy, the coupled added mass (angular first) and the cylinder of drag."""
    fluid = load("water_arm.dm").body("arm").fluid
    assert (fluid.volume, fluid.center_of_buoyancy) == (0.0055, (0.28, 0.0, 0.01))
    added = np.array(fluid.added_mass)
    assert added[1, 5] == -0.6
    assert added[2, 4] == 0.6
    assert added[4, 4] == 2.4
    (drag,) = fluid.drag
    assert (drag.axis, drag.start, drag.radius) == ((1.0, 0.0, 0.0), (-0.05, 0.0, 0.0), 0.06)
    assert drag.length == pytest.approx(0.65)
    assert (drag.side_coefficient, drag.end_coefficients) == (1.1, (1.1, 1.1))


def test_motors_contacts_limits_and_friction_are_read(load):
    model = load("walker.dm")
    motor = model.actuators[0]
    assert (motor.joint, motor.rotor_inertia) == ("link_2_joint", 5.3)
    assert motor.motor == tb.Motor(
        3.2, 32.0, back_emf_constant=32.5, damping=6.78, friction=10.24, brush_drop=2.0
    )
    hip, knee = model.joint("link_2_joint"), model.joint("link_3_joint")
    assert hip.armature == 5.3
    assert hip.limits == tb.JointLimits(-1.0472, 1.0472)
    assert knee.passive == tb.JointPassive(damping=0.35)
    assert [c.body for c in model.contacts] == ["link_1"] + [
        f"link_{i}" for i in (4, 7, 10) for _ in range(3)
    ]
    assert model.contacts[2].position == (0.03, 0.225, 0.0)
    assert load("water_arm.dm").contacts == (
        tb.ContactPoint("float_contact_1", "float", (0.1, 0.0, 0.0)),
    )


def test_loop_closes_where_the_file_starts(load):
    """At the start the piston's frame lies on the guide: same axes, shifted along z only."""
    model = load("slider_crank.dm")
    (loop,) = model.loops
    tree = model.without_loops()
    q = tree.neutral()
    guide = placed(tree, q, loop.first) @ loop.joint.pose.matrix
    piston = placed(tree, q, loop.second) @ loop.second_pose.matrix
    gap = np.linalg.inv(guide) @ piston
    assert_close(gap, homogeneous(p=(0.0, 0.0, 0.8)), ALGEBRA)
    assert loop.joint.passive == tb.JointPassive(damping=0.02)
    assert {frame.name for frame in model.frames} == {"base", "shaft"}


@pytest.mark.parametrize("name", ["walker.dm", "slider_crank.dm", "water_arm.dm"])
def test_forward_dynamics_inverts_inverse_dynamics(load, name):
    tree = load(name).without_loops()
    q, v = tree.random_state(RANDOM)
    vd = RANDOM.standard_normal(tree.nv)
    run = OnFloats(tree)
    tau = run.inverse_dynamics(q, v, vd)
    # the pads of the walker are light beside its torso: condition number about 1e4
    assert_close(run.forward_dynamics(q, v, tau), vd, 1e-10)


def test_graphics_models_are_shapes_where_their_files_are(load, tmp_path):
    text = (FOLDER / "walker.dm").read_text()
    (tmp_path / "robot").mkdir()
    (tmp_path / "robot" / "walker.dm").write_text(text.replace("thigh.xan", "../thigh.xan"))
    (tmp_path / "robot" / "pad.xan").write_text("")
    (tmp_path / "thigh.xan").write_text("")
    with pytest.warns(tb.ModelWarning):
        model = tb.load(tmp_path / "robot" / "walker.dm")
    assert model.body("link_4").shapes[0].geometry.path.endswith("pad.xan")
    # neither missing files nor those of other folders
    assert model.body("link_1").shapes == model.body("link_2").shapes == ()


EDITS = [
    ("Mass                            5.03", "", "line 31: RevoluteLink: expected Mass, got none"),
    ("14.7  0.0   0.0", "14.7  0.0", "Inertia must have 9 numbers, got 8 values"),
    ("210.28", "heavy", "Mass must have one number, got 0 values"),
    ("210.28", "nan", "line 16: DynamicRefMember: numbers must be finite and below 1e+50, got nan"),
    ("210.28", "-3", "mass must be positive, got -3 kg"),
    ("RevoluteLink {", "RevolutLink {", "'RevolutLink' is not a kind of link; did you mean 'Revol"),
    ('"torso.xan"', '"torso.xan', 'a string must end on its line; add the missing quote "'),
    ("DynamicRefMember {", "Member {", "expected StaticRefMember or DynamicRefMember first"),
    ("Actuator_Type                   1", "Actuator_Type 7", "Actuator_Type must be 0 (none) or"),
    ("Number_of_Contact_Points        1", "Number_of_Contact_Points 1.5", "whole number"),
    ("System {", "System {\n} }", "expected StaticRefMember"),
    ("System {", "{", "a block must have a kind"),
    ("System {", "Robot {", "expected a block System, Articulation or ClosedArticulation"),
]


@pytest.mark.parametrize(("old", "new", "message"), EDITS)
def test_errors_name_line_element_and_cure(tmp_path, old, new, message):
    text = (FOLDER / "walker.dm").read_text()
    assert old in text
    path = tmp_path / "walker.dm"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(tb.ModelFileError, match=re.escape(message)) as caught:
        tb.load(path)
    assert caught.value.file == str(path)


REPAIRS = [
    ("-1.0472 1.0472", "1.0472 -1.0472", "line 44: RevoluteLink: joint limits 1.0472 and -1.0472"),
    ("0.1 0.0 0.2 0.97468", "0 0 0 0", "a zero quaternion is read as identity"),
    ("0.22 -0.39  0.0", "0.22 -0.38  0.0", "mirrored entries of Inertia differ; averaged"),
]


@pytest.mark.parametrize(("old", "new", "message"), REPAIRS)
def test_common_file_errors_are_repaired_with_a_warning(tmp_path, old, new, message):
    """Files in use have them, and DynaMechs loads these."""
    text = (FOLDER / "walker.dm").read_text()
    assert old in text
    path = tmp_path / "walker.dm"
    path.write_text(text.replace(old, new, 1))
    with pytest.warns(tb.ModelWarning, match=re.escape(message)):
        model = tb.load(path)
    assert model.joint("link_2_joint").limits == tb.JointLimits(-1.0472, 1.0472)


def test_limits_without_a_spring_do_not_limit(load):
    """Programs write zeros for them; they act in DynaMechs by their spring alone."""
    model = load("water_arm.dm")
    assert model.joint("carriage_joint").limits is None
    assert model.joint("arm_joint").limits == tb.JointLimits(-2.0, 2.0)


def test_gear_of_a_motor_reflects_its_rotor_squared(tmp_path):
    text = (FOLDER / "walker.dm").read_text()
    path = tmp_path / "walker.dm"
    path.write_text(text.replace("Motor_Half_Drop_Value           3.0", "Motor_Gear_Ratio 100", 1))
    with pytest.warns(tb.ModelWarning):
        model = tb.load(path)
    assert model.actuators[0].ratio == 100.0
    assert model.joint("link_2_joint").armature == pytest.approx(5.3e4)


def test_loops_name_the_nearest_link(tmp_path):
    text = (FOLDER / "slider_crank.dm").read_text()
    path = tmp_path / "crank.dm"
    path.write_text(text.replace('Link_B_Name         "piston"', 'Link_B_Name "pistn"'))
    with pytest.raises(
        tb.ModelFileError, match="is not a link of this file; did you mean 'piston'"
    ):
        tb.load(path)
    path.write_text(text.replace("HardPrismaticJoint", "HardPrismJoint"))
    with pytest.raises(tb.ModelFileError, match="did you mean 'HardPrismaticJoint"):
        tb.load(path)


def test_unknown_labels_are_skipped_with_a_warning(tmp_path):
    text = (FOLDER / "slider_crank.dm").read_text()
    path = tmp_path / "crank.dm"
    path.write_text(text.replace("Joint_Friction              0.001", "Joint_Frict 0.001"))
    with pytest.warns(tb.ModelWarning, match="line 40: RevoluteLink 'crank': skipped the unknown"):
        tb.load(path)


def test_duplicate_link_names_are_renamed(tmp_path):
    text = (FOLDER / "slider_crank.dm").read_text()
    path = tmp_path / "crank.dm"
    path.write_text(text.replace('"rod"', '"crank"'))
    with pytest.warns(tb.ModelWarning, match="a second 'crank' is called 'crank_2'"):
        model = tb.load(path)
    assert model.body_names == ("crank", "crank_2", "piston")


def test_deep_nesting_and_endless_chains_are_refused(tmp_path):
    path = tmp_path / "deep.dm"
    path.write_text("System {" + "Branch {" * 5000)
    with pytest.raises(tb.ModelFileError, match="nested 2000 deep"):
        tb.load(path)
    link = (
        "RevoluteLink { Mass 1 Inertia 1 0 0 0 1 0 0 0 1 Center_of_Gravity 0 0 0\n"
        "MDH_Parameters 1 0 0 0 }\n"
    )
    path.write_text("Articulation {" + link * 2100 + "}")
    with pytest.raises(tb.ModelFileError, match="trees may be 2000 links deep"):
        tb.load(path)


def test_binary_files_are_refused(tmp_path):
    path = tmp_path / "robot.dm"
    path.write_bytes("System { }".encode("utf-16"))
    with pytest.raises(tb.ModelFileError, match="this is not plain text"):
        tb.load(path)


def test_environment_file_gives_gravity_ground_and_water():
    world = tb.load_world(FOLDER / "seabed.env")
    assert world.gravity == (0.0, 0.0, -9.81)
    assert world.fluid.density == 1020.0
    ground = world.ground
    assert (ground.planar_stiffness, ground.normal_stiffness) == (55000.0, 75000.0)
    assert (ground.planar_damping, ground.normal_damping) == (500.0, 600.0)
    assert (ground.static_friction, ground.kinetic_friction) == (2.84, 2.01)
    assert ground.grid.spacing == (0.5, 0.5)
    # rows go along x
    assert ground.grid.array.shape == (3, 4)
    assert ground.grid.heights[1][2] == 0.3


def test_terrain_is_read_from_known_folders_only(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "robot").mkdir()
    (tmp_path / "models" / "seabed.dat").write_text((FOLDER / "seabed.dat").read_text())
    path = tmp_path / "robot" / "sea.env"
    text = (FOLDER / "seabed.env").read_text()
    path.write_text(text.replace("seabed.dat", "../models/seabed.dat"))
    with pytest.raises(tb.ModelFileError, match=r"line 7: .*package_paths"):
        tb.load_world(path)
    world = tb.load_world(path, package_paths=[tmp_path / "models"])
    assert world.ground.grid.heights[1][2] == 0.3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("3 4 0.5\n1 2 3", "expected 3 x 4 heights, got 3"),
        ("3 x", "all numbers"),
        ("100000 100000 1", "a ground may have 1000000 heights"),
        ("3 4 -1" + " 0" * 12, "spacing must be positive"),
        ("3 4 1" + " inf" * 12, "must be finite"),
    ],
)
def test_wrong_terrain_is_refused(tmp_path, content, message):
    (tmp_path / "seabed.dat").write_text(content)
    (tmp_path / "sea.env").write_text((FOLDER / "seabed.env").read_text())
    with pytest.raises(tb.ModelFileError, match=message):
        tb.load_world(tmp_path / "sea.env")


def test_surroundings_of_unknown_files_are_refused(tmp_path):
    (tmp_path / "sea.txt").write_text("deep")
    with pytest.raises(tb.ModelFileError, match="a world is loaded from"):
        tb.load_world(tmp_path / "sea.txt")
