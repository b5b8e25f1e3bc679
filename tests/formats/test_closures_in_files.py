"""Closures of every kind in files: said, read back, and what MuJoCo makes of tendons."""

import warnings

import numpy as np
import pytest

import tiburon as tb
from tests.formats.rich_models import random_pose
from tests.loops.mechanisms import link

RANDOM = np.random.default_rng(83)


def every_closure():
    """One closure of each kind that a file can hold, on a wheel and three revolute joints."""
    joints = [
        tb.Revolute("c0", (0, 0.6, 0.8), pose=random_pose(RANDOM)),
        tb.Prismatic("c1"),
        tb.Cylindrical("c2"),
        tb.Screw("c3", (0, 0, 1), pitch=0.01),
        tb.Universal("c4"),
        tb.Spherical("c5"),
        tb.Planar("c6"),
        tb.Fixed("c7"),
        tb.RollingSphere("c8", radius=0.2),
    ]
    loops = [
        tb.LoopClosure(joint.name, "a", "wheel", joint, random_pose(RANDOM)) for joint in joints
    ]
    return [
        *loops,
        tb.JointCoupling("d0", "a", "b", (0.1, 2.0, 0.3)),
        tb.JointCoupling("d1", "a", None, (0.1,)),
        tb.Blade("d2", "world", "wheel"),
        tb.Blade("d3", "a", "tip", pose=random_pose(RANDOM), second_pose=random_pose(RANDOM)),
        tb.RollingDisc("d4", "world", "wheel", radius=0.31, axis=(0.0, 0.6, -0.8)),
        tb.RollingDisc("d5", "tip", "wheel", pose=random_pose(RANDOM)),
        tb.TendonCoupling("d6", ("a", "b"), (0.5, -1.5), coefficients=(0.3,)),
        tb.TendonCoupling(
            "d7",
            ("a",),
            (1.0,),
            leaders=("b", "c"),
            leader_arms=(2.0, 3.0),
            coefficients=(0.1, 1.0, 0.2),
        ),
    ]


BODIES = [
    link("wheel", "world", tb.Free("float")),
    link("a", "world", tb.Revolute("a")),
    link("b", "a", tb.Revolute("b")),
    link("c", "b", tb.Prismatic("c")),
]


def test_closures_of_every_kind_round_trip_through_a_file(tmp_path):
    """The native format says all that a robot can be but functions."""
    tip = tb.Frame("tip", "c", random_pose(RANDOM))
    model = tb.Model("all", BODIES, [tip], loops=every_closure())
    path = tmp_path / "all.toml"
    tb.save(model, path)
    assert tb.load(path) == model
    assert tb.load(path).structure_key() == model.structure_key()


def test_contacts_and_tendons_are_written_in_text(tmp_path):
    """A file as a user would write it."""
    path = tmp_path / "cart.toml"
    tb.save(tb.Model("cart", BODIES), path)
    path.write_text(
        path.read_text()
        + """
[[loop]]
kind = "blade"
name = "keel"
first = "world"
second = "wheel"

[[loop]]
kind = "rolling_disc"
name = "rim"
first = "world"
second = "wheel"
radius = 0.4
pose.position = [0, 0, 1.5]

[[loop]]
kind = "tendon"
name = "cable"
joints = ["a", "b"]
arms = [1, 2]
"""
    )
    keel, rim, cable = tb.load(path).loops
    assert keel == tb.Blade("keel", "world", "wheel")
    at = tb.Pose(translation=(0.0, 0.0, 1.5))
    assert rim == tb.RollingDisc("rim", "world", "wheel", radius=0.4, pose=at)
    assert cable == tb.TendonCoupling("cable", ("a", "b"), (1.0, 2.0))


@pytest.mark.parametrize(
    ("loop", "message"),
    [
        ('kind = "skid"\nname = "x"', "kind"),
        ('kind = "tendon"\nname = "x"\narms = [1]', "joints"),
        ('kind = "tendon"\nname = "x"\njoints = "a"\narms = [1]', "a list of strings"),
        ('kind = "tendon"\nname = "x"\njoints = ["a"]\narms = [1, 2]', "arms"),
        ('kind = "tendon"\nname = "x"\njoints = ["float"]\narms = [1]', "one variable"),
        ('kind = "blade"\nname = "x"\nfirst = "world"\nsecond = "weel"', "'wheel'"),
        ('kind = "blade"\nname = "x"\nfirst = "world"\nsecond = "wheel"\nradius = 1.0', "radius"),
        (
            'kind = "rolling_disc"\nname = "x"\nfirst = "world"\nsecond = "wheel"\nradius = -1.0',
            "radius must be positive",
        ),
    ],
)
def test_invalid_closures_are_refused_with_their_line(tmp_path, loop, message):
    """File, line where known, and the loop."""
    path = tmp_path / "cart.toml"
    tb.save(tb.Model("cart", BODIES), path)
    path.write_text(f"{path.read_text()}\n[[loop]]\n{loop}\n")
    with pytest.raises(tb.ModelFileError, match=r"cart\.toml") as caught:
        tb.load(path)
    assert message in str(caught.value)


# -- couplings of URDF+ ----------------------------------------------------------------------------

BELTS = """<robot name="belts">
  <link name="base"/>
  {}
  <coupling name="belt">
    <predecessor link="{}"/><successor link="{}"/><ratio value="2.5"/>
  </coupling>
</robot>"""


def _urdf_link(name, parent, inside=""):
    return f"""<link name="{name}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"
        ixy="0" ixz="0" iyz="0"/></inertial></link>
    <joint name="{name}_joint" type="continuous"><parent link="{parent}"/><child link="{name}"/>
        <axis xyz="0 0 1"/>{inside}</joint>"""


def test_urdf_plus_couplings_couple_the_joints_between_their_links(tmp_path):
    """2.5 times the predecessor's joints are the successor's, from the link that bears both.

    One joint of the successor's path mimics another: its share goes to its leader.
    """
    mimic = '<mimic joint="a_joint" multiplier="3" offset="0.5"/>'
    links = [
        _urdf_link("trunk", "base"),
        _urdf_link("a", "trunk"),
        _urdf_link("b", "a"),
        _urdf_link("c", "trunk"),
        _urdf_link("d", "c", mimic),
    ]
    path = tmp_path / "belts.urdf"
    path.write_text(BELTS.format("".join(links), "b", "d"))
    model = tb.load(path)
    (loop,) = model.loops
    assert (loop.name, loop.joints, loop.leaders) == (
        "belt",
        ("c_joint", "a_joint"),
        ("a_joint", "b_joint"),
    )
    q = model.random_state(RANDOM)[0]
    a, b, c = (q[model.slice(f"{name}_joint")][0] for name in "abc")
    expected = c + (3.0 * a + 0.5) - 2.5 * (a + b)
    np.testing.assert_allclose(tb.constraint_residual(model, q), [expected], atol=1e-14)


def test_invalid_couplings_are_reported(tmp_path):
    """Unknown links are errors; what no tie can say is left out with a word."""
    path = tmp_path / "belts.urdf"
    path.write_text(BELTS.format(_urdf_link("a", "base"), "a", "aa"))
    with pytest.raises(tb.ModelFileError, match=r"coupling 'belt': unknown link 'aa'.*'a'"):
        tb.load(path)
    ball = _urdf_link("b", "base").replace("continuous", "spherical")
    path.write_text(BELTS.format(_urdf_link("a", "base") + ball, "a", "b"))
    with pytest.warns(tb.ModelWarning, match="left out, only joints with one degree of freedom"):
        assert not tb.load(path).loops


# -- tendons of MuJoCo -----------------------------------------------------------------------------

TENDONS = """
    <mujoco><worldbody>
      <body name="a"><joint name="a" axis="0 1 0" ref="10"/><geom size="0.1" pos="1 0 0"/>
        <body name="b"><joint name="b" axis="1 1 0"/><geom size="0.1" pos="1 0 0"/>
          <site name="s"/>
          <body name="c"><joint name="c" type="slide" axis="0 0 1" ref="0.3"/>
            <geom size="0.1" pos="1 0 0"/><site name="t" pos="0 1 0"/></body></body></body>
      <body name="d"><joint name="d" axis="0 0 1"/><geom size="0.1" pos="1 0 0"/></body>
    </worldbody>
    <tendon>
      <fixed name="long"><joint joint="a" coef="0.5"/><joint joint="b" coef="-1.5"/></fixed>
      <fixed name="short"><joint joint="c" coef="2"/><joint joint="d" coef="0.7"/></fixed>
      <spatial name="free"><site site="s"/><site site="t"/></spatial>
    </tendon>
    <equality>{}</equality></mujoco>"""


def _load(tmp_path, equality):
    path = tmp_path / "tendons.xml"
    path.write_text(TENDONS.format(equality))
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model = tb.load(path)
    return model, path, " ".join(str(x.message) for x in heard)


@pytest.mark.parametrize(
    "equality",
    [
        '<tendon name="e" tendon1="long" tendon2="short" polycoef="0.1 2 0.3 -0.2 0.5"/>',
        '<tendon name="e" tendon1="long" tendon2="short"/>',
        '<tendon name="e" tendon1="long" polycoef="0.2 0 0 0 0"/>',
        # the other tendon has no part in it
        '<tendon name="e" tendon1="long" tendon2="short" polycoef="0.2 0 0 0 0"/>',
        # of the joints of the tendon one follows another and one stands still
        '<tendon name="e" tendon1="long" tendon2="short" polycoef="0.1 2 0.3 0 0"/>'
        '<joint joint1="b" joint2="c" polycoef="0.4 3 0 0 0"/>'
        '<joint joint1="d" polycoef="0.2 0 0 0 0"/>',
    ],
)
def test_fixed_tendons_are_closures_with_the_lengths_of_mujoco(tmp_path, equality):
    """The gap at random positions against MuJoCo's residual of the same equality."""
    mujoco = pytest.importorskip("mujoco")
    model, path, _ = _load(tmp_path, equality)
    assert [loop.kind for loop in model.loops] == ["tendon"]
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(peer)
    q = model.random_state(RANDOM)[0]
    for i in range(peer.njnt):
        name = peer.joint(i).name
        joint = model.joint(name)
        if joint.kind == "coupled":
            data.qpos[i] = joint.ratio * q[model.slice(joint.leader)][0] + joint.offset
        elif joint.nq:
            data.qpos[i] = q[model.slice(name)][0]
        else:
            # equalities may leave a joint no freedom
            data.qpos[i] = peer.qpos0[i] + 0.2
    mujoco.mj_forward(peer, data)
    own = data.efc_pos[(data.efc_type == 0) & (data.efc_id == 0)]
    np.testing.assert_allclose(tb.constraint_residual(model, q), own, atol=1e-12)


def test_spatial_tendons_are_ignored_with_a_warning(tmp_path):
    """And those that tie nothing; the others need no word."""
    _, _, heard = _load(tmp_path, '<tendon name="e" tendon1="long" tendon2="free"/>')
    assert "1 equalities of spatial tendons" in heard
    _, _, heard = _load(tmp_path, '<tendon name="e" tendon1="long" tendon2="short"/>')
    assert "left out: 1 tendons" in heard
