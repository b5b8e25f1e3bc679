"""SDF files: frames, axes, loops, nested models and added mass arrive as the format means them."""

from pathlib import Path

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import assert_close
from tiburon.formats.sdf_read import read_sdf

CRANE = Path(__file__).parents[1] / "data" / "crane.sdf"
RANDOM = np.random.default_rng(0)


def pose(x, y, z, roll=0.0, pitch=0.0, yaw=0.0):
    """Return the homogeneous matrix of a pose as the format writes it."""
    return tb.Pose.from_rpy((roll, pitch, yaw), (x, y, z)).matrix


def places(model, q):
    """Return the homogeneous matrices of all frames by name."""
    rotations, origins = tb.forward_kinematics(model, q)
    found = {}
    for name, R, p in zip(model.frame_names[1:], rotations, origins, strict=True):
        X = np.eye(4)
        X[:3, :3], X[:3, 3] = R, p
        found[name] = X
    return found


def read(tmp_path, inside, version="1.9", name="robot.sdf", **options):
    """Read a model from the text inside it."""
    path = tmp_path / name
    path.write_text(f'<sdf version="{version}">\n<model name="m">\n{inside}\n</model></sdf>')
    return read_sdf(path, **options)


def link(name, inside=""):
    """Return the text of a link with mass."""
    return (
        f'<link name="{name}">{inside}<inertial><mass>1</mass><inertia><ixx>1</ixx><iyy>1</iyy>'
        "<izz>1</izz></inertia></inertial></link>"
    )


def joint(name, parent, child, kind="revolute", inside="<axis><xyz>0 0 1</xyz></axis>"):
    """Return the text of a joint."""
    return (
        f'<joint name="{name}" type="{kind}"><parent>{parent}</parent><child>{child}</child>'
        f"{inside}</joint>"
    )


def test_frames_are_where_the_file_puts_them():
    """Poses relative to other frames, and a nested model placed by one of its frames."""
    model = read_sdf(CRANE)
    found = places(model, model.poses["initial"])
    M = pose(1, 2, 3, 0, 0, 0.5)
    hull = M @ pose(0, 0, 0.1)
    deck = hull @ pose(0.5, 0, 0.4, 0, 0, 0.3)
    boom = deck @ pose(0, 0, 0.8)
    hook = boom @ pose(0.3, 0, 0.5)
    # the pose places the flange, which lies 0.05 below the gripper's own frame
    gripper = hook @ pose(0, 0, 0.1, 0, 0.2, 0) @ np.linalg.inv(pose(0, 0, -0.05))
    expected = {
        "hull": hull,
        "deck": deck,
        "boom": boom,
        "hook": hook,
        "gripper::palm": gripper,
        "gripper::jaw": gripper @ pose(0, 0.03, 0.05),
        "gripper::flange": gripper @ pose(0, 0, -0.05),
    }
    for name, X in expected.items():
        assert_close(found[name], X)


def test_a_hinge_turns_about_its_own_frame_and_the_axis_given():
    """The joint lies off both links; its axis is given in the model's frame."""
    model = read_sdf(CRANE)
    q = np.array(model.poses["initial"])
    before = places(model, q)["boom"]
    q[model.slice("slew")] = 0.7
    after = places(model, q)["boom"]
    M = pose(1, 2, 3, 0, 0, 0.5)
    origin = M @ pose(0, 0, 0.1) @ pose(0.5, 0, 0.4, 0, 0, 0.3) @ pose(0.1, 0, 0.2, 0.1, 0, 0)
    axis = M[:3, :3] @ (0.0, 0.0, 1.0)
    turn = tb.Pose.from_axis_angle(axis, 0.7).matrix
    about = np.eye(4)
    about[:3, 3] = origin[:3, 3]
    assert_close(after, about @ turn @ np.linalg.inv(about) @ before)


def test_joint_data_are_converted():
    """Limits, springs, and limits per axis of a universal joint."""
    model = read_sdf(CRANE)
    slew = model.joint("slew")
    assert slew.limits == tb.JointLimits(lower=-1.0, force=100.0)
    assert slew.passive == tb.JointPassive(damping=0.5, stiffness=3.0, rest=0.2)
    grip = model.joint("gripper::grip")
    assert grip.kind == "universal"
    assert (grip.limits.lower, grip.limits.upper) == ((-0.5, -np.inf), (0.5, np.inf))


def test_a_second_joint_on_a_link_closes_a_loop():
    """Its two frames coincide while no joint has moved."""
    model = read_sdf(CRANE)
    (loop,) = model.loops
    assert (loop.first, loop.second, loop.joint.kind) == ("hull", "hook", "spherical")
    found = places(model, model.poses["initial"])
    ends = found["hull"] @ loop.joint.pose.matrix, found["hook"] @ loop.second_pose.matrix
    assert_close(*ends)


def test_added_mass_gives_the_same_kinetic_energy():
    """21 numbers in link axes at the link's origin, linear first: any motion agrees.

    The inertial frame of the hull is offset and turned, and does not matter.
    """
    fluid = read_sdf(CRANE).body("hull").fluid
    upper = [
        [10, 1, 0, 0, 2, 0],
        [0, 20, 0, -3, 0, 4],
        [0, 0, 30, 0, 0, 0],
        [0, 0, 0, 5, 0, 0],
        [0, 0, 0, 0, 6, 0.5],
        [0, 0, 0, 0, 0, 7],
    ]
    mu = np.array(upper) + np.triu(upper, 1).T
    for _ in range(5):
        omega, v = RANDOM.standard_normal((2, 3))
        linear_first = np.concatenate([v, omega])
        ours = np.concatenate([omega, v])
        assert_close(ours @ np.array(fluid.added_mass) @ ours, linear_first @ mu @ linear_first)


def test_shapes_are_read():
    """An ellipsoid with a color of three numbers, and a plane whose normal is not z."""
    skin, floor = read_sdf(CRANE).body("hull").shapes
    assert skin.geometry == tb.EllipsoidShape((1.0, 0.5, 0.3))
    assert (skin.role, skin.color) == ("visual", (0.9, 0.8, 0.1, 1.0))
    assert_close(np.array(floor.pose.rotation)[:, 2], (1.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("version", "inside", "expected"),
    [
        ("1.4", "<xyz>1 0 0</xyz>", "model"),
        ("1.6", "<xyz>1 0 0</xyz>", "joint"),
        ("1.6", "<xyz>1 0 0</xyz><use_parent_model_frame>1</use_parent_model_frame>", "model"),
        ("1.9", '<xyz expressed_in="__model__">1 0 0</xyz>', "model"),
        ("1.9", '<xyz expressed_in="a">1 0 0</xyz>', "a"),
        ("1.9", "<xyz>1 0 0</xyz>", "joint"),
    ],
)
def test_axes_are_given_in_the_frame_of_their_version(tmp_path, version, inside, expected):
    """Old files mean the model's frame, later ones the joint's or any other."""
    model = read(
        tmp_path,
        link("a", "<pose>0 0 0 0 0 0.3</pose>")
        + link("b", "<pose>0 0 0 0 0 0.7</pose>")
        + joint("j", "a", "b", inside=f"<pose>0 0 0 0 0 0.2</pose><axis>{inside}</axis>"),
        version,
    )
    # the axis in link b, whose own yaw is 0.7
    yaw = {"model": -0.7, "a": 0.3 - 0.7, "joint": 0.2}[expected]
    assert_close(model.joint("j").axis, (np.cos(yaw), np.sin(yaw), 0.0))


def test_unconnected_link_floats_unless_the_model_is_static(tmp_path):
    """Free, or fixed where the model's pose puts it."""
    text = "<pose>1 0 0 0 0 0</pose>" + link("a", "<pose>0 2 0 0 0 0</pose>")
    model = read(tmp_path, text)
    assert model.joint_names == ("root_joint",)
    assert model.poses["initial"] == (1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 0.0)
    held = read(tmp_path, text + "<static>true</static>" + link("b") + joint("j", "a", "b"))
    assert held.joint("root_joint").pose == tb.Pose(translation=(1.0, 2.0, 0.0))
    given = read(tmp_path, text, root_joint=tb.Planar("slide"))
    assert given.joint_names == ("slide",)


def test_a_joint_to_the_world_holds_the_robot(tmp_path):
    """The model's pose counts from the world."""
    text = "<pose>1 0 0 0 0 0</pose>" + link("a") + joint("j", "world", "a")
    model = read(tmp_path, text)
    assert model.body("a").parent == "world"
    assert model.joint("j").pose == tb.Pose(translation=(1.0, 0.0, 0.0))


def test_a_joint_may_be_read_from_child_to_parent(tmp_path):
    """Two joints with one child make a tree, too; the turned one counts the same way."""
    text = (
        link("a")
        + link("b", "<pose>0 0 1 0 0 0</pose>")
        + link("c", "<pose>1 0 1 0 0 0</pose>")
        + joint("i", "a", "b")
        + joint("j", "c", "b", inside="<axis><xyz>0 1 0</xyz></axis>")
    )
    model = read(tmp_path, text)
    assert model.loops == ()
    q = model.neutral()
    q[model.slice("j")] = 0.4
    found = places(model, q)
    # the child b turns by 0.4 about y in c, so c turns by -0.4 in b, about b's origin
    assert_close(found["c"], pose(0, 0, 1) @ pose(0, 0, 0, 0, -0.4, 0) @ pose(1, 0, 0))


def test_screw_pitch_follows_the_tag(tmp_path):
    """Slide per turn, right-handed; the older tag is turn per meter, left-handed."""
    for tag, expected in [
        ("<screw_thread_pitch>0.01</screw_thread_pitch>", 0.01 / (2 * np.pi)),
        ("<thread_pitch>50</thread_pitch>", -0.02),
    ]:
        inside = f"{tag}<axis><xyz>0 0 1</xyz></axis>"
        model = read(tmp_path, link("a") + link("b") + joint("j", "a", "b", "screw", inside))
        assert model.joint("j").pitch == pytest.approx(expected, rel=1e-15)


def test_gears_couple_two_hinges(tmp_path):
    """Angle 2 is minus ratio times angle 1, both from the reference body, whatever their axes."""
    down = "<axis><xyz>0 0 -1</xyz></axis>"
    gear = (
        "<gearbox_ratio>3</gearbox_ratio><gearbox_reference_body>r</gearbox_reference_body>"
        "<axis><xyz>0 0 1</xyz></axis><axis2><xyz>0 0 1</xyz></axis2>"
    )
    model = read(
        tmp_path,
        link("r")
        + link("a")
        + link("b")
        + joint("i", "r", "a")
        + joint("j", "r", "b", inside=down)
        + joint("g", "a", "b", "gearbox", gear),
    )
    (tie,) = model.loops
    assert (tie.leader, tie.joint, tie.coefficients) == ("i", "j", (0.0, 3.0))


def test_mimics_are_reduced_exactly(tmp_path):
    """Follower = multiplier times (leader - reference) + offset."""
    mimic = (
        "<axis><xyz>0 0 1</xyz><mimic joint='i'><multiplier>2</multiplier><offset>1</offset>"
        "<reference>0.5</reference></mimic></axis>"
    )
    text = link("a") + link("b") + link("c") + joint("i", "a", "b")
    model = read(tmp_path, text + joint("j", "b", "c", inside=mimic), "1.11")
    tie = model.joint("j")
    assert (tie.leader, tie.ratio, tie.offset) == ("i", 2.0, 0.0)


def test_included_models_are_read_from_known_folders_only(tmp_path):
    """A folder with model.sdf beside the file, under a name of its own."""
    folder = tmp_path / "wheel"
    folder.mkdir()
    (folder / "model.sdf").write_text(
        f'<sdf version="1.6"><model name="w">{link("rim")}</model></sdf>'
    )
    include = "<include><uri>model://wheel</uri><name>left</name><pose>0 1 0 0 0 0</pose></include>"
    text = link("a") + include + joint("j", "a", "left::rim")
    model = read(tmp_path, text)
    assert model.joint("j").pose == tb.Pose(translation=(0.0, 1.0, 0.0))
    with pytest.raises(tb.ModelFileError, match="was not found"):
        read(tmp_path, link("a") + "<include><uri>model://other</uri></include>")
    with pytest.raises(tb.ModelFileError, match="is elsewhere"):
        read(tmp_path, link("a") + "<include><uri>../../x.sdf</uri></include>")


def test_a_file_that_includes_itself_ends(tmp_path):
    """Includes are counted."""
    include = "<include><uri>robot.sdf</uri><name>again</name></include>"
    with pytest.raises(tb.ModelFileError, match=r"nested|include"):
        read(tmp_path, link("a") + include)


def test_the_moving_model_of_a_world_is_taken(tmp_path):
    """Static scenery is left out and said so."""
    path = tmp_path / "world.sdf"
    path.write_text(
        '<sdf version="1.6"><world name="w">'
        f'<model name="ground"><static>1</static>{link("plane")}</model>'
        f'<model name="robot">{link("a")}</model></world></sdf>'
    )
    with pytest.warns(tb.ModelWarning, match="model 'ground': is static and was left out"):
        assert read_sdf(path).name == "robot"


def test_a_link_without_inertial_has_the_formats_default(tmp_path):
    """1 kg and 1 kg m^2, with a warning."""
    with pytest.warns(tb.ModelWarning, match="link 'a': no <inertial>"):
        model = read(tmp_path, '<link name="a"/>')
    assert model.body("a").inertia == tb.Inertia(1.0, tensor=(1.0, 1.0, 1.0))


BAD = [
    ("", "1.9", "at least one <link>"),
    (link("a") + link("a"), "1.9", "used twice"),
    (link("a", '<pose relative_to="b"/>'), "1.9", "unknown link or frame 'b'"),
    (link("a", '<pose relative_to="a">1 0 0 0 0 0</pose>'), "1.9", "relative to itself"),
    (link("a") + joint("j", "a", "bb"), "1.9", "unknown link or frame 'bb'"),
    (link("a") + joint("j", "a", "world"), "1.9", "world cannot be the child"),
    (link("a") + joint("j", "a", "a"), "1.9", "must connect two links, got 'a' twice"),
    (link("a") + link("b") + joint("j", "a", "b", "hinge"), "1.9", "unknown joint type 'hinge'"),
    (link("a", "<pose>1 2 3</pose>"), "1.9", "pose must be 6 numbers"),
    (link("a") + '<frame name="f" attached_to="f"/>', "1.9", "attached to no link"),
    (link("a"), "one", "version must be two numbers"),
    (
        link("a") + link("b") + joint("j", "a", "b", inside="<axis><xyz>0 0 0</xyz></axis>"),
        "1.9",
        "axis must have a direction",
    ),
]


@pytest.mark.parametrize(("text", "version", "message"), BAD)
def test_a_bad_file_is_refused_with_line_element_and_cure(tmp_path, text, version, message):
    """Every refusal is a `ModelFileError` that names the place."""
    with pytest.raises(tb.ModelFileError, match=message) as caught:
        read(tmp_path, text, version)
    assert caught.value.line is not None


def test_cut_joint_named_in_the_file_is_used(tmp_path):
    """A joint marked as loop joint closes the loop, wherever it stands."""
    cut = "<physics><simbody><must_be_loop_joint>true</must_be_loop_joint></simbody></physics>"
    axis = "<axis><xyz>0 0 1</xyz></axis>"
    text = (
        link("a")
        + link("b")
        + link("c")
        + joint("first", "a", "b", inside=axis + cut)
        + joint("second", "a", "c")
        + joint("third", "c", "b")
    )
    assert [loop.name for loop in read(tmp_path, text).loops] == ["first"]


def automatic(inside, density=""):
    """Return the text of a link whose inertia is to be computed."""
    return f'<link name="a"><inertial auto="true">{density}</inertial>{inside}</link>'


def collision(name, geometry, inside=""):
    """Return the text of a collision."""
    return f'<collision name="{name}">{inside}<geometry>{geometry}</geometry></collision>'


def test_automatic_inertia_is_that_of_the_solid_shapes(tmp_path):
    """Two half boxes are one box; a short capsule is nearly a ball; the file gives densities."""
    half = "<box><size>0.2 0.3 0.2</size></box>"
    apart = [f"<pose>{x} 0.1 0 0 0 0</pose>" for x in (-0.1, 0.1)]
    text = "".join(collision(f"c{i}", half, pose) for i, pose in enumerate(apart))
    found = read(tmp_path, automatic(text, "<density>500</density>")).body("a").inertia
    whole = tb.Inertia.box(500 * 0.4 * 0.3 * 0.2, (0.4, 0.3, 0.2), (0.0, 0.1, 0.0))
    assert_close(found.matrix, whole.matrix)
    assert_close(found.com, whole.com)
    capsule = "<capsule><radius>0.5</radius><length>1e-9</length></capsule>"
    text = collision("c", capsule, "<density>2</density>")
    found = read(tmp_path, automatic(text)).body("a").inertia
    ball = tb.Inertia.sphere(2.0 * 4.0 / 3.0 * np.pi * 0.125, 0.5)
    assert_close(found.matrix, ball.matrix, 1e-8)


@pytest.mark.parametrize(
    ("geometry", "inside"),
    [
        (
            "<capsule><radius>0.3</radius><length>0.8</length></capsule>",
            lambda x, y, z: np.hypot(np.hypot(x, y), np.maximum(abs(z) - 0.4, 0.0)) <= 0.3,
        ),
        (
            "<ellipsoid><radii>0.3 0.5 0.7</radii></ellipsoid>",
            lambda x, y, z: (x / 0.3) ** 2 + (y / 0.5) ** 2 + (z / 0.7) ** 2 <= 1.0,
        ),
        (
            "<cylinder><radius>0.5</radius><length>1.28</length></cylinder>",
            lambda x, y, z: (np.hypot(x, y) <= 0.5) & (abs(z) <= 0.64),
        ),
    ],
)
def test_solids_have_the_moments_of_their_points(tmp_path, geometry, inside):
    """Sums over a grid: 60 points along each edge leave errors of about a percent."""
    model = read(tmp_path, automatic(collision("c", geometry)))
    line = (np.arange(60) + 0.5) / 60 * 1.6 - 0.8
    x, y, z = (axis.ravel() for axis in np.meshgrid(line, line, line))
    kept = inside(x, y, z)
    cell = 1000.0 * (line[1] - line[0]) ** 3
    points = np.stack([x, y, z], axis=-1)[kept]
    tensor = cell * (np.sum(points**2) * np.eye(3) - points.T @ points)
    inertia = model.body("a").inertia
    assert inertia.mass == pytest.approx(cell * kept.sum(), rel=0.02)
    assert_close(inertia.matrix, tensor, 0.02)


def test_shapes_may_be_placed_in_another_frame(tmp_path):
    """A visual given relative to a frame on another link."""
    visual = (
        '<visual name="v"><pose relative_to="f">0 0 1 0 0 0</pose>'
        "<geometry><sphere><radius>1</radius></sphere></geometry></visual>"
    )
    model = read(
        tmp_path,
        link("a", visual)
        + link("b", "<pose>0 2 0 0 0 0</pose>")
        + '<frame name="f" attached_to="b"><pose>3 0 0 0 0 0</pose></frame>'
        + joint("j", "a", "b"),
    )
    (shape,) = model.body("a").shapes
    assert shape.pose == tb.Pose(translation=(3.0, 2.0, 1.0))


def test_warnings_point_at_the_caller(tmp_path):
    """The line that loads the file, not one inside the package."""
    path = tmp_path / "robot.sdf"
    path.write_text('<sdf version="1.9"><model name="m"><link name="a"/></model></sdf>')
    with pytest.warns(tb.ModelWarning) as caught:
        tb.load(path)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("version", ["1.4", "1.6", "1.9"])
@pytest.mark.parametrize("kind", ["revolute", "prismatic", "screw", "universal", "gearbox"])
def test_an_axis_without_direction_is_an_error_of_the_file(tmp_path, kind, version):
    """Whatever the joint is for: with file, line and element, as every refusal of a file."""
    nothing = "<axis><xyz>0 0 0</xyz></axis><axis2><xyz>0 1 0</xyz></axis2>"
    nothing += "<gearbox_reference_body>a</gearbox_reference_body>"
    parts = [link("a"), link("b"), link("c"), joint("base", "world", "a", "fixed")]
    parts += [joint("j", "a", "b"), joint("k", "a", "c"), joint("odd", "b", "c", kind, nothing)]
    with pytest.raises(tb.ModelFileError, match=r"robot\.sdf, line 3: <axis>: axis must have a"):
        read(tmp_path, "".join(parts), version)


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-200, 1e-3, 7.0, 1e49])
def test_an_axis_of_any_length_keeps_its_direction_to_the_last_digits(tmp_path, size):
    """Also where the length itself has few significant digits, as near the smallest numbers."""
    inside = link("a") + joint("j", "world", "a", inside=f"<axis><xyz>0 {size} {size}</xyz></axis>")
    axis = read(tmp_path, inside).joints[0].axis
    # a square root and a division: two roundings
    assert np.abs(np.array(axis) - (0.0, np.sqrt(0.5), np.sqrt(0.5))).max() < 3e-16


@pytest.mark.parametrize(
    ("normal", "expected"),
    [
        ("1e-320 0 1", (0, 0, 1)),
        ("1e-200 0 1", (0, 0, 1)),
        ("0 1e-300 0", (0, 1, 0)),
        ("0 0 -1e-300", (0, 0, -1)),
        ("3e-170 4e-170 0", (0.6, 0.8, 0)),
    ],
)
def test_a_plane_faces_along_its_normal_of_any_length(tmp_path, normal, expected):
    """Also where squares of its numbers are too small to be distinguished from zero."""
    plane = (
        f"<visual name='v'><geometry><plane><normal>{normal}</normal></plane></geometry></visual>"
    )
    (shape,) = read(tmp_path, link("a", plane)).bodies[-1].shapes
    assert_close(np.array(shape.pose.rotation)[:, 2], expected)


def test_a_plane_without_direction_is_an_error_of_the_file(tmp_path):
    plane = "<visual name='v'><geometry><plane><normal>0 0 0</normal></plane></geometry></visual>"
    with pytest.raises(tb.ModelFileError, match=r"<plane>: normal must have a direction"):
        read(tmp_path, link("a", plane))
