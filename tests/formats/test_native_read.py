"""Native files: shorthands, what is refused and how it is said."""

import math
import re
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiburon as tb
from tests.formats.text_mutations import mutated_text
from tiburon import zoo
from tiburon.formats import native_schema as schema
from tiburon.formats import toml_table
from tiburon.formats.limits import MAX_DEPTH, MAX_LINKS, Budget
from tiburon.formats.native_read import model_from_native
from tiburon.formats.native_write import Inline, native_text, toml_text
from tiburon.zoo.index import GENERATED

HEAD = 'format = "tiburon-model"\nversion = 1\nname = "robot"\n'

ARM = (
    HEAD
    + """
about = "an arm"

[[body]]
name = "upper"
[body.joint]
kind = "revolute"
name = "shoulder"
axis = [0, 1, 0]
limits = { lower = -1.5, upper = 1.5, force = 60 }
[body.inertia]
mass = 2
center_of_mass = [0, 0, 0.1]
tensor = [0.02, 0.02, 0.001]

[[body]]
name = "lower"
parent = "upper"
[body.joint]
kind = "revolute"
name = "elbow"
axis = [0, 1, 0]
position = [0, 0, 0.3]
[body.inertia]
mass = 1.0
tensor = [0.01, 0.01, 0.01]
[[body.shape]]
kind = "box"
size = [0.1, 0.1, 0.3]
[body.fluid]
volume = 0.001
added_mass = { order = "linear-first", axes = "ned", matrix = [1, 2, 3, 0.1, 0.2, 0.3] }
[[body.fluid.drag]]
kind = "sphere"
radius = 0.1

[[frame]]
name = "tip"
body = "lower"
position = [0, 0, 0.3]

[[actuator]]
name = "motor"
joint = "elbow"

[poses]
home = { elbow = 0.5 }
"""
)


def read(text):
    content = text if isinstance(text, bytes) else text.encode()
    return model_from_native(content, Budget("arm.toml"))


def one_body(more, inertia="[body.inertia]\nmass = 1.0\ntensor = [1.0, 1.0, 1.0]"):
    """Return a file of one body whose joint table holds more lines."""
    return HEAD + f'[[body]]\nname = "b"\n{inertia}\n[body.joint]\nname = "j"\n{more}\n'


def test_a_file_written_by_hand():
    model = read(ARM)
    assert model.joint_names == ("shoulder", "elbow")
    assert model.joint("shoulder").limits == tb.JointLimits(-1.5, 1.5, force=60)
    assert model.body("upper").inertia.com == (0.0, 0.0, 0.1)
    fluid = model.body("lower").fluid
    np.testing.assert_array_equal(np.diag(fluid.added_mass), [0.1, 0.2, 0.3, 1, 2, 3])
    assert model.poses == {"home": (0.0, 0.5)}
    assert model.actuated_joint_names == ("elbow",)
    assert read(native_text(model)) == model


@pytest.mark.parametrize(
    ("line", "pose"),
    [
        ("rpy = [0.1, 0.2, 0.3]", tb.Pose.from_rpy((0.1, 0.2, 0.3))),
        ("quaternion = [1, 2, 3, 4]", tb.Pose.from_quaternion((1, 2, 3, 4))),
        ("axis_angle = [1, 1, 0, 0.5]", tb.Pose.from_axis_angle((1, 1, 0), 0.5)),
        (
            "rotation = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]",
            tb.Pose([[0, -1, 0], [1, 0, 0], [0, 0, 1]]),
        ),
        ("position = [1, 2, 3]", tb.Pose(translation=(1, 2, 3))),
    ],
)
def test_poses_can_be_given_in_several_forms(line, pose):
    assert read(one_body(f'kind = "free"\n{line}')).joint("j").pose == pose


def test_matrices_state_their_order_and_axes():
    """The coupling of heave force and pitch rate, in the words of marine craft."""
    M = np.diag([10.0, 20, 30, 1, 2, 3])
    M[2, 4] = M[4, 2] = -0.7
    rows = ", ".join(str(list(map(float, row))) for row in M)
    table = f'order = "linear-first"\naxes = "ned"\nmatrix = [{rows}]'
    text = (
        one_body('kind = "free"') + f"[body.fluid]\nvolume = 1.0\n[body.fluid.added_mass]\n{table}"
    )
    found = np.array(read(text).body("b").fluid.added_mass)
    np.testing.assert_array_equal(found, tb.matrix_from_fossen(M))
    # z and y axes both turn over: heave and pitch keep their product
    assert found[5, 1] == -0.7
    with pytest.raises(tb.ModelFileError, match="expected the key 'order', got none"):
        read(text.replace('order = "linear-first"\n', ""))
    with pytest.raises(tb.ModelFileError, match="expected the key 'axes', got none"):
        read(text.replace('axes = "ned"\n', ""))


def test_denavit_hartenberg_tables():
    text = (
        HEAD
        + """
[dh]
convention = "modified"
base = { position = [0, 0, 0.5] }
tool = { position = [0, 0, 0.1] }
[[dh.link]]
alpha = 0.3
inertia = { mass = 1.0, tensor = [0.1, 0.1, 0.1] }
[[dh.link]]
kind = "prismatic"
a = 0.2
d = 0.1
name = "slider"
joint = "slide"
inertia = { mass = 2.0, tensor = [0.1, 0.1, 0.1] }
[[body]]
name = "camera"
parent = "slider"
[body.joint]
kind = "fixed"
name = "mount"
"""
    )
    cube = (0.1, 0.1, 0.1)
    rows = [
        tb.DHLink(alpha=0.3, inertia=tb.Inertia(1.0, tensor=cube)),
        tb.DHLink(
            joint="prismatic",
            a=0.2,
            d=0.1,
            body_name="slider",
            joint_name="slide",
            inertia=tb.Inertia(2.0, tensor=cube),
        ),
    ]
    places = {"base": tb.Pose(translation=(0, 0, 0.5)), "tool": tb.Pose(translation=(0, 0, 0.1))}
    arm = tb.Model.from_dh("robot", rows, convention="modified", **places)
    model = read(text)
    assert model.without("camera") == arm
    with pytest.raises(tb.ModelFileError, match="line 5: dh: convention: expected 'classic'"):
        read(text.replace('"modified"', '"craig"'))


WRONG = [
    # what to replace, by what, a text that stands in the line to be named, the message
    (
        "axis = [0, 1, 0]\nposition",
        "axsi = [0, 1, 0]\nposition",
        "axsi",
        "body 'lower', joint: unknown key 'axsi'; did you mean 'axis'",
    ),
    (
        'kind = "box"',
        'kind = "bx"',
        '"bx"',
        "body 'lower', shape 1: kind must be a known word, got 'bx'; did you mean 'box'",
    ),
    ("size = [0.1, 0.1, 0.3]", "size = [0.1, 0.1]", "[[body.shape]]", "size must be 3 numbers"),
    ("size =", "sise =", "sise", "shape 1: expected the key 'size', got 'sise'; rename it"),
    ("size = [0.1, 0.1, 0.3]", "", "[[body.shape]]", "expected the key 'size', got none; write"),
    ("mass = 2\n", 'mass = "2"\n', '"2"', "body 'upper', inertia: mass must be a number"),
    ("mass = 2\n", "mass = -2\n", "[body.inertia]", "mass must be positive, got -2 kg"),
    ("mass = 2\n", "mass = nan\n", "[body.inertia]", "mass must be finite"),
    ("mass = 2\n", "mass = 1e60\n", "1e60", r"mass must be a number below 1e\+50"),
    ("mass = 2\n", "mass = true\n", "true", "mass must be a number"),
    (
        'parent = "upper"',
        'parent = "uper"',
        None,
        "unknown parent body 'uper'; did you mean 'upper'",
    ),
    ('parent = "upper"', 'parent = "lower"', None, "got the cycle lower -> lower"),
    ('name = "lower"', 'name = "upper"', None, "body or frame name 'upper' is used twice"),
    ("upper = 1.5", "upper = -2", "limits =", "limits: joint limits: lower must not exceed upper"),
    ('joint = "elbow"', 'joint = "elbw"', None, "actuator 'motor': unknown joint 'elbw'"),
    ('kind = "sphere"', "", "[[body.fluid.drag]]", "expected the key 'kind', got none; write"),
    ("[[frame]]", "[frame]", "[frame]", "frame must be a list of tables, each under"),
    ("home = { elbow", "home = { elbw", None, "pose 'home': unknown moving joint 'elbw'"),
    ("version = 1", "version = 2", "version", "version must be at most 1, got 2; update the"),
    ("version = 1", 'version = "1"', "version", "version must be a whole number"),
    ('"tiburon-model"', '"other"', "format =", "must have format = 'tiburon-model'"),
    ("[[frame]]", "[[frame]", "[[frame]", "this is not well-formed TOML"),
    ('kind = "box"', 'kind = "box"\nrole = "nice"', "[[body.shape]]", "role: expected 'both' or"),
]


@pytest.mark.parametrize(("old", "new", "where", "message"), WRONG)
def test_errors_are_reported_with_their_line(old, new, where, message):
    assert old in ARM
    text = ARM.replace(old, new, 1)
    with pytest.raises(tb.ModelFileError, match=message) as caught:
        read(text)
    error = caught.value
    line = None if where is None else text[: text.index(where)].count("\n") + 1
    assert error.file == "arm.toml"
    assert error.line == line
    assert str(error).startswith("arm.toml: " if line is None else f"arm.toml, line {line}: ")
    assert ";" in error.problem


def test_two_rotations_of_one_element_are_refused():
    with pytest.raises(tb.ModelFileError, match="got rpy and quaternion; keep one"):
        read(one_body('kind = "free"\nrpy = [0, 0, 1]\nquaternion = [1, 0, 0, 0]'))


def test_impossible_inertias_are_kept_with_a_warning():
    """Other readers keep them too, and what they read must survive a native file."""
    text = one_body('kind = "free"', "[body.inertia]\nmass = 1.0\ntensor = [1.0, 1.0, 5.0]")
    with pytest.warns(tb.ModelWarning, match="line 4: body 'b': principal moments"):
        model = read(text)
    assert model.body("b").inertia.tensor[5] == 5.0
    with pytest.warns(tb.ModelWarning, match="triangle"):
        assert read(native_text(model)) == model
    with pytest.warns(tb.ModelWarning, match="no inertia resists the motion of joint 'j'"):
        assert read(one_body('kind = "revolute"', "")).immovable_joint_names == ("j",)


def test_user_code_cannot_be_saved():
    class Mine(tb.Path):
        def at(self, time):
            return 0.0, 0.0, 0.0

    joint = tb.Driven("d", tb.Prismatic("p"), Mine())
    model = tb.Model("m", [tb.Body("b", joint=joint)])
    with pytest.raises(
        tb.ModelError, match="joint 'd': a Mine is code, which a file cannot contain"
    ):
        native_text(model)


# -- files from strangers -------------------------------------------------------------------------


def test_oversized_files_are_refused_early():
    deep = "x = " + "[" * 100_000 + "]" * 100_000
    long_key = "a" + ".a" * 100_000 + " = 1"
    quoted_key = '"a"' + '."a"' * 50_000 + " = 1"
    digits = "x = " + "9" * 5000
    many = "x = [" + "1," * 2_000_000 + "]"
    spaces = "x = 1" + " " * 30_000_000
    for text in (deep, long_key, quoted_key, digits, many, spaces, "\ufeff", b"\xff\xfe\x00"):
        begin = time.process_time()
        with pytest.raises(tb.ModelFileError, match=";"):
            read(text)
        assert time.process_time() - begin < 5.0


def test_limits_of_links_and_depth(monkeypatch):
    from tiburon.formats import limits

    assert (MAX_LINKS, MAX_DEPTH) == (20_000, 2_000)
    text = native_text(zoo.chain(30))
    monkeypatch.setattr(limits, "MAX_DEPTH", 29)
    with pytest.raises(tb.ModelFileError, match="trees may be 29 links deep"):
        read(text)
    monkeypatch.setattr(limits, "MAX_LINKS", 29)
    with pytest.raises(tb.ModelFileError, match="may have 29 links, got 30 or more"):
        read(text)


def test_a_thousand_links_load_within_two_seconds(tmp_path):
    path = tmp_path / "chain.toml"
    tb.save(zoo.chain(1000), path)
    begin = time.process_time()
    model = tb.load(path)
    # of the process, since other programs may run beside it
    assert time.process_time() - begin < 2.0
    assert model == zoo.chain(1000)


def test_mesh_paths_stay_inside_the_folder(tmp_path):
    robots = tmp_path / "robots"
    robots.mkdir()
    secret = tmp_path / "secret.stl"
    secret.write_bytes(b"solid")
    (robots / "link.stl").symlink_to(secret)
    text = one_body('kind = "free"') + '[[body.shape]]\nkind = "mesh"\npath = "PATH"\n'
    path = robots / "robot.toml"
    for mesh in ("../secret.stl", str(secret), "link.stl", "../nothing.stl", "a\\u0000b"):
        path.write_text(text.replace("PATH", mesh))
        with pytest.raises(tb.ModelFileError, match=r"line 14: body 'b', shape 1: .*path"):
            tb.load(path)
    path.write_text(text.replace("PATH", "../secret.stl"))
    assert tb.load(path, package_paths=[tmp_path]).body("b").shapes[0].geometry.path == str(secret)
    path.write_text(text.replace("PATH", "/nowhere/on/this/machine.stl"))
    assert tb.load(path).body("b").shapes[0].geometry.path == "/nowhere/on/this/machine.stl"


SOUND = [ARM.encode(), native_text(zoo.chain(3)).encode()]
EXAMPLES = [zoo.path(name).read_bytes() for name in zoo.names() if name not in GENERATED][:12]


def check(content):
    begin = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tb.ModelWarning)
            found = read(content)
    except tb.ModelFileError as error:
        found = error
    assert time.process_time() - begin < 2.0
    if isinstance(found, tb.ModelFileError):
        assert found.file == "arm.toml"
        assert len(str(found)) < 2000
        assert ";" in found.problem
    else:
        assert isinstance(found, tb.Model)


@settings(max_examples=300)
@given(st.sampled_from([*SOUND, *EXAMPLES]), st.integers(0, 2**32 - 1))
def test_damaged_files_give_a_model_or_a_clear_error(content, seed):
    check(mutated_text(content, seed))


@pytest.mark.slow
@settings(max_examples=10_000)
@given(st.sampled_from([*SOUND, *EXAMPLES]), st.integers(0, 2**32 - 1))
def test_many_damaged_files_give_a_model_or_a_clear_error(content, seed):
    check(mutated_text(content, seed))


@settings(max_examples=100)
@given(st.binary(max_size=300))
def test_any_bytes_give_a_clear_error(content):
    check(content)
    check(HEAD.encode() + content)


# -- the text itself ------------------------------------------------------------------------------

VALUES = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(2**62), 2**62),
        st.floats(allow_nan=False),
        st.text(st.characters(exclude_categories=("Cs",))),
    ),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=8,
)
KEYS = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
TABLES = st.recursive(
    st.dictionaries(KEYS, VALUES, max_size=4),
    lambda inner: st.one_of(
        st.dictionaries(KEYS, inner, max_size=3),
        st.dictionaries(KEYS, st.lists(inner, min_size=1, max_size=3), max_size=2),
        st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=3).map(Inline), max_size=2),
    ),
    max_leaves=6,
)


@settings(max_examples=200)
@given(TABLES)
def test_written_text_reads_back(document):
    table = toml_table.parse_toml(toml_text(document).encode(), Budget("x.toml"))
    assert table.data == document


def test_layout_of_text():
    document = {
        "name": "x",
        "lines": 'a\n"b"\n',
        "row": [1.0, -0.0, math.inf],
        "body": [{"joint": {"small": Inline(a=1, b=[2.5])}}],
        "poses": {"at home": [0.1]},
    }
    assert toml_text(document) == (
        'name = "x"\nlines = """\na\n\\"b\\"\n"""\nrow = [1.0, -0.0, inf]\n'
        "\n[[body]]\n[body.joint]\nsmall = { a = 1, b = [2.5] }\n"
        '\n[poses]\n"at home" = [0.1]\n'
    )


DOCUMENT = Path(__file__).parents[2] / "docs" / "files.md"
BLOCKS = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)


@pytest.mark.parametrize("text", BLOCKS, ids=["rover", "scara"])
def test_files_of_the_documentation_are_read(text):
    model = read(text)
    assert model.nv > 0
    assert read(native_text(model)) == model


def test_the_documentation_names_every_key():
    """Every key of the schema is documented."""
    page = DOCUMENT.read_text()
    records = [schema.INERTIA, schema.LIMITS, schema.PASSIVE, schema.MOTOR]
    for table in (schema.JOINTS, schema.PATHS, schema.GEOMETRIES, schema.DRAGS, schema.CURVES):
        records += table.values()
        assert all(word in page for word in table)
    keys = [record.key(name) for record in records for name in (*record.numbers, *record.texts)]
    keys += [*schema.THRUSTER, *schema.PAIRS, *schema.ACTUATOR, *schema.DAMPINGS]
    assert [key for key in keys if not re.search(rf"\b{key}\b", page)] == []


def test_many_findings_and_poses_take_linear_time():
    """Each finding looks up a line, each pose lists all joints."""
    body = '[[body]]\nname = "b{0}"\n[body.joint]\nkind = "free"\nname = "j{0}"\n'
    bad = "[body.inertia]\nmass = 1.0\ntensor = [1.0, 1.0, 5.0]\n"
    text = HEAD + "".join(body.format(n) + bad for n in range(2000))
    begin = time.process_time()
    with pytest.warns(tb.ModelWarning, match="and 1995 more"):
        read(text)
    # linear in the number of bodies: about 1 s; by the square it would be a minute
    assert time.process_time() - begin < 8.0
    poses = "[poses]\n" + "".join(f"p{n} = {{}}\n" for n in range(2000))
    with pytest.raises(tb.ModelFileError, match="got 2000 poses of 2000 bodies; keep traj"):
        read(text + poses)
