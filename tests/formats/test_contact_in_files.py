"""Friction, restitution, contact pairs and ground in files of all formats."""

import math
import random
import warnings

import numpy as np
import pytest

import tiburon as tb
from tests.formats.mutations import DAMAGES, mutated
from tiburon.contact.candidates import candidates_of

MJCF = """<mujoco><asset><hfield name="h" nrow="3" ncol="4" size="3 2 1.5 0.1"
 elevation="0 0 0 0  0 1 0 0  0 0 0 0.5"/></asset>
<worldbody>{world}
<body name="a"><freejoint/><geom name="g1" size=".1" friction="0.5"/>
  <body name="b" pos="1 0 0"><joint/><geom name="g2" size=".1" condim="1" friction="0.5"/>
    <body name="c" pos="1 0 0"><joint/><geom name="g3" size=".1" contype="0" conaffinity="0"/>
    </body></body></body>
<body name="d" pos="0 5 0"><freejoint/><geom size=".1" contype="2" conaffinity="2"/></body>
<body name="e" pos="0 9 0"><freejoint/><geom size=".1"/></body>
</worldbody><contact>{contact}</contact></mujoco>"""


def load(tmp_path, text, name="robot.xml", **options):
    (tmp_path / name).write_text(text)
    return tb.load(tmp_path / name, **options)


def materials(model):
    return {
        body.name: [shape.material for shape in body.shapes if shape.role != "visual"]
        for body in model.bodies
        if body.shapes
    }


def test_mjcf_friction_and_pairs(tmp_path):
    """Sliding friction, none at condim 1; pairs, exclusions, and bits that do not match."""
    pytest.importorskip("mujoco")
    pairs = """<pair geom1="g1" geom2="g2" friction="0.3 0.3 0.1 0.1 0.1"/>
    <exclude body1="e" body2="a"/>"""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        robot = load(tmp_path, MJCF.format(world="", contact=pairs))
    found = materials(robot)
    assert found["a"] == [tb.ContactMaterial(0.5, friction_rule="larger")]
    assert found["b"] == [tb.ContactMaterial(0.0, friction_rule="larger")]
    assert found["c"] == []
    assert found["d"] == [tb.ContactMaterial(1.0, friction_rule="larger")]
    assert {(p.first, p.second, p.touches) for p in robot.contact_pairs} == {
        ("a", "b", True),
        ("a", "e", False),
        ("b", "e", True),
    }
    assert {b.name: b.shapes[0].contact_bits for b in robot.bodies if b.shapes} == {
        **dict.fromkeys("abe", (1, 1)),
        "c": None,
        "d": (2, 2),
    }
    floor = tb.World(ground=tb.Ground(static_friction=0.8))
    touching = {one.name: one.material.static_friction for one in candidates_of(robot, floor)}
    assert touching == {
        "a/ground": 0.8,
        "b/ground": 0.8,
        "d/ground": 1.0,
        "e/ground": 1.0,
        "b/e": 1.0,
        "a/b": 0.3,
    }


def test_mjcf_torsional_and_rolling_friction(tmp_path):
    """From condim 4 and 6 on, of geometries, pairs and the ground."""
    pytest.importorskip("mujoco")
    pair = '<pair geom1="g1" geom2="g2" condim="6" friction="0.3 0.3 0.02 0.01 0.01"/>'
    text = MJCF.format(world="", contact=pair)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        robot = load(tmp_path, text)
    found = robot.contact_pairs[0].material
    assert found == tb.ContactMaterial(0.3, torsional_friction=0.02, rolling_friction=0.01)
    rows = {one.name: one.turning for one in candidates_of(robot, tb.World(ground=tb.Ground()))}
    assert rows["a/b"] == (True, True)
    assert rows["a/ground"] == (False, False)
    for condim, spin, roll in ((1, 0, 0), (3, 0, 0), (4, 0.02, 0), (6, 0.02, 0.01)):
        plane = f'<geom type="plane" size="5 5 .1" condim="{condim}" friction="0.7 0.02 0.01"/>'
        (tmp_path / "world.xml").write_text(MJCF.format(world=plane, contact=""))
        ground = tb.load_world(tmp_path / "world.xml").ground
        assert (ground.torsional_friction, ground.rolling_friction) == (spin, roll)


def test_mjcf_losses_are_reported(tmp_path):
    """Pairs with several coefficients for two bodies."""
    pytest.importorskip("mujoco")
    text = MJCF.format(world="", contact='<pair geom1="g1" geom2="g2" condim="6"/>')
    two = text.replace('<geom name="g1"', '<geom name="g0" size=".05"/><geom name="g1"').replace(
        '<pair geom1="g1" geom2="g2" condim="6"/>',
        '<pair geom1="g1" geom2="g2" friction="0.2"/><pair geom1="g0" geom2="g2" friction="0.4"/>',
    )
    with pytest.warns(tb.ModelWarning, match="'a' and 'b': several coefficients"):
        robot = load(tmp_path, two)
    assert robot.contact_pairs[0].material == tb.ContactMaterial(0.2)


def test_mjcf_ground(tmp_path):
    """Planes and height fields of the world; tilted ones are reported."""
    mujoco = pytest.importorskip("mujoco")
    plane = '<geom type="plane" size="5 5 .1" pos="0 0 0.3" friction="0.7"/>'
    (tmp_path / "world.xml").write_text(MJCF.format(world=plane, contact=""))
    assert tb.load_world(tmp_path / "world.xml").ground == tb.Ground(
        0.3, static_friction=0.7, contact_bits=(1, 1), friction_rule="larger"
    )
    field = '<geom type="hfield" hfield="h" pos="1 2 3"/>'
    text = MJCF.format(world=field, contact="")
    (tmp_path / "world.xml").write_text(text)
    ground = tb.load_world(tmp_path / "world.xml").ground
    assert ground.height == 3.0
    assert ground.grid.array.max() == 1.5
    # the same surface as MuJoCo's: rays from above
    point = tb.Body("p", joint=tb.Free("p"), inertia=tb.Inertia.sphere(1.0, 0.1))
    probe = tb.Model("probe", [point], contacts=[tb.ContactPoint("tip", "p")])
    compiled = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(compiled)
    mujoco.mj_forward(compiled, data)
    rng = np.random.default_rng(0)
    for _ in range(30):
        x, y = rng.uniform([-1.9, 0.1], [3.9, 3.9])
        down = np.array([0.0, 0.0, -1.0])
        hit = np.zeros(1, dtype=np.int32)
        origin = np.array([x, y, 20.0])
        z = 20.0 - mujoco.mj_ray(compiled, data, origin, down, None, 1, -1, hit)
        q = [1, 0, 0, 0, x, y, z]
        gap = tb.contacts(probe, q, world=tb.World(ground=ground)).gap
        # MuJoCo keeps heights in single precision
        assert abs(gap[0]) < 1e-6
    tilted = '<geom type="plane" size="5 5 .1" euler="0 10 0"/>'
    (tmp_path / "world.xml").write_text(MJCF.format(world=tilted, contact=""))
    assert tb.load_world(tmp_path / "world.xml").ground is None
    turned = '<geom name="hill" type="hfield" hfield="h" euler="0 0 10"/>'
    (tmp_path / "world.xml").write_text(MJCF.format(world=turned, contact=""))
    with pytest.warns(tb.ModelWarning, match="height field of geom 'hill' of body 'world'; a wor"):
        assert tb.load_world(tmp_path / "world.xml").ground is None


ROOM = """<mujoco>{compiler}<worldbody><geom name="shadow" type="plane" size="9 9 .1" pos="0 0 -9"
  contype="0" conaffinity="0"/><geom name="lamp" size=".2" pos="0 0 5" contype="0" conaffinity="0"/>
<geom name="table" type="box" size="1 1 .25" pos="0 0 .25" friction=".6"/>
<geom name="wall" type="plane" size="5 5 .1" pos="-2 0 0" euler="0 90 0"/>
<geom name="ghost" type="box" size="3 3 .1" pos="0 0 2" contype="4" conaffinity="4"/>
<body name="ball" pos="0 0 .65"><freejoint/><geom name="skin" size=".1"/></body>
<body name="post" pos="3 3 0"><geom type="box" size=".1 .1 .1"/>
  <body name="arm"><joint axis="0 1 0"/><geom name="rod" type="capsule" size=".02 .2"/></body>
</body>
</worldbody><contact>{contact}</contact></mujoco>"""


def test_geometry_fixed_to_the_world_is_touched(tmp_path):
    """A table and a tilted plane; shapes whose bits do not match are no candidates."""
    pytest.importorskip("mujoco")
    path = tmp_path / "room.xml"
    path.write_text(ROOM.format(compiler="", contact=""))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model, world = tb.load(path), tb.load_world(path)
    assert world.ground is None
    fixed = model.body("worldbody")
    assert (fixed.parent, fixed.joint.kind) == ("world", "fixed")
    assert {shape.name: shape.role for shape in fixed.shapes} == {
        "lamp": "visual",
        "table": "both",
        "wall": "both",
        "ghost": "both",
    }
    touching = {one.name for one in candidates_of(model, world)}
    assert touching == {
        *("ball/worldbody.table", "ball/worldbody.wall", "ball/post", "ball/arm"),
        *("arm/worldbody.table", "arm/worldbody.wall"),
    }
    # from where the file puts its bodies, not from the neutral configuration
    run = tb.simulate(model, 0.5, world=world, method=tb.RK4(dt=2e-3))
    np.testing.assert_array_equal(run.q[0], model.poses["initial"])
    height = run.q[-1][model.slice(model.body("ball").joint.name)][-1]
    assert abs(height - 0.6) < 1e-3


STANDS = """<mujoco><option timestep="0.002"/><worldbody>
<body name="room" pos="0 0 0.5" quat="0 0 0 1">{floor}
  <body name="table" pos="0 0 -0.1"><geom type="box" size="1 1 .1"/></body></body>
<body name="box" pos="0.2 0 0.61"><freejoint name="float"/><geom type="box" size=".1 .1 .1"/></body>
<body name="arm" pos="0 3 1"><joint name="turn" axis="1 0 0"/><geom type="capsule"
 fromto="0 0 0 0 0 .5" size=".05"/></body></worldbody>
<contact><exclude body1="room" body2="arm"/></contact></mujoco>"""


@pytest.mark.parametrize("floor", ["", '<geom type="plane" size="5 5 1" pos="1 0 -0.4"/>'])
def test_bodies_without_joints_are_touched_like_geometry_of_the_world(tmp_path, floor):
    """A table that is a body, with a floor that belongs to a body or without one."""
    pytest.importorskip("mujoco")
    path = tmp_path / "stands.xml"
    path.write_text(STANDS.format(floor=floor))
    model, world = tb.load(path), tb.load_world(path)
    assert (world.ground.height if world.ground else None) == (
        pytest.approx(0.1) if floor else None
    )
    names = {one.name for one in candidates_of(model, world)}
    assert names >= {"table/box"}
    assert ("box/ground" in names) == bool(floor)
    # the exclusion of the body whose plane is the ground is one of the ground
    assert "arm/ground" not in names
    run = tb.simulate(model, 0.5, world=world, method=tb.RK4(dt=2e-3))
    assert run.q[-1][model.slice("float")][-1] == pytest.approx(0.6, abs=1e-3)


def test_meshes_without_a_file_are_named(tmp_path):
    """They touch others in MuJoCo, and would be missed without a word."""
    pytest.importorskip("mujoco")
    text = """<mujoco><asset><mesh name="wedge" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/></asset>
    <worldbody><body name="b"><freejoint/><geom name="{name}" type="mesh" mesh="wedge"
     contype="{bits}" conaffinity="{bits}"/></body></worldbody></mujoco>"""
    with pytest.warns(
        tb.ModelWarning, match="1 geometries that touch others.*geom 'g' of body 'b'"
    ):
        load(tmp_path, text.format(name="g", bits=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(tmp_path, text.format(name="g", bits=0))


CART = """<mujoco model="cart"><option timestep="0.002"/><worldbody>
<geom name="rail" type="capsule" fromto="-2 0.07 1 2 0.07 1" size="0.02"/>
<body name="cart" pos="0 0 1"><joint name="slide" type="slide" axis="1 0 0"/>
  <geom type="box" size="0.2 0.15 0.1"/>
  <body name="pole" pos="0 0.3 0"><joint name="swing" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 0.6" size="0.03"/></body></body></worldbody></mujoco>"""


def test_shapes_that_nothing_takes_apart_do_not_touch(tmp_path):
    """A cart on rails that pass through it slides, as the file means; overlaps of callers stay."""
    pytest.importorskip("mujoco")
    path = tmp_path / "cart.xml"
    path.write_text(CART)
    model, world = tb.load(path), tb.load_world(path)
    with pytest.warns(tb.ModelWarning, match="no motion takes it apart; contacts of 'cart' and"):
        run = tb.simulate(model, 0.5, v=[1.0, 0.0], world=world, method=tb.RK4(dt=2e-3))
    assert str(run.outcome) == "finished at 0.5 s"
    assert run.q[-1][0] > 0.4
    left_out = [x for x in run.model.contact_pairs if not x.touches]
    assert [{x.first, x.second} for x in left_out] == [{"cart", "worldbody"}]
    with pytest.raises(tb.DomainError, match="no motion opens together"):
        tb.lift_out(model, model.neutral(), world=world)
    with pytest.raises(tb.DomainError, match="penetration"):
        tb.simulate(model, 0.5, q=[0.3, 0.1], world=world, method=tb.RK4(dt=2e-3))


SUNK = """<mujoco model="sunk"><worldbody><geom type="plane" size="9 9 .1"/>
<body name="ball" pos="0 0 .09"><freejoint name="float"/><geom size=".1"/></body>
</worldbody><keyframe><key name="deep" qpos="1 0 .05 1 0 0 0"/></keyframe></mujoco>"""


def test_files_that_start_in_overlap_are_lifted_out(tmp_path):
    """Named configurations are moved by as much as needed, with a warning; others are refused."""
    pytest.importorskip("mujoco")
    path = tmp_path / "sunk.xml"
    path.write_text(SUNK)
    model, world = tb.load(path), tb.load_world(path)
    words = r"'sunk': shapes overlapped at the start, 'ball/ground' most, by 0.01 m.* by 0.01 m or"
    with pytest.warns(tb.ModelWarning, match=words):
        run = tb.simulate(model, 0.01, world=world, method=tb.RK4(dt=1e-3))
    np.testing.assert_allclose(run.q[0], [1, 0, 0, 0, 0, 0, 0.1], atol=1e-9)
    assert abs(run.q[-1][6] - 0.1) < 1e-6
    both = np.array([model.poses["deep"], [1, 0, 0, 0, 3, 0, 1.0]])
    with pytest.warns(tb.ModelWarning, match=r"at the start in 1 of 2 cases, .* by 0.05 m"):
        found = tb.simulate(model, 0.01, q=both, world=world, method=tb.RK4(dt=1e-3))
    np.testing.assert_allclose(found.q[0, 0, 4:], [1.0, 0.0, 0.1], atol=1e-9)
    np.testing.assert_array_equal(found.q[0, 1], both[1])
    with pytest.raises(tb.DomainError, match="a penetration of"):
        tb.simulate(model, 0.01, q=[1, 0, 0, 0, 0, 0, 0.06], world=world, method=tb.RK4(dt=1e-3))


def test_fixed_geometry_of_pairs_and_exclusions(tmp_path):
    """Pairs touch whatever their bits say; exclusions of the world body hold for its geometry."""
    pytest.importorskip("mujoco")
    pairs = """<pair geom1="ghost" geom2="skin" friction="0.3 0.3 0.1 0.1 0.1"/>
      <exclude body1="world" body2="arm"/>"""
    path = tmp_path / "room.xml"
    path.write_text(ROOM.format(compiler="", contact=pairs))
    touching = {one.name for one in candidates_of(tb.load(path), tb.load_world(path))}
    assert not any(name.startswith("arm/worldbody") for name in touching)
    assert "ball/worldbody.table" in touching


def test_bits_of_the_ground_hold(tmp_path):
    """What the ground of a file does not touch falls through it, without candidates."""
    pytest.importorskip("mujoco")
    path = tmp_path / "world.xml"
    path.write_text(
        """<mujoco><worldbody><geom type="plane" size="5 5 .1" contype="1" conaffinity="0"/>
        <body name="a"><freejoint/><geom size=".1" contype="2" conaffinity="2"/></body>
        <body name="b" pos="1 0 1"><freejoint/><geom size=".1" contype="2" conaffinity="3"/></body>
        </worldbody></mujoco>"""
    )
    model, world = tb.load(path), tb.load_world(path)
    assert world.ground.contact_bits == (1, 0)
    assert {one.name for one in candidates_of(model, world)} == {"b/ground", "a/b"}
    # another ground touches all
    every = candidates_of(model, tb.World(ground=tb.Ground()))
    assert {one.name for one in every} == {"a/ground", "b/ground", "a/b"}


def test_geometry_of_pairs_alone_touches_in_pairs_alone(tmp_path):
    """Bits of zero leave out all but named pairs: the ground, and another body."""
    pytest.importorskip("mujoco")
    path = tmp_path / "world.xml"
    path.write_text(
        """<mujoco><default><geom contype="0" conaffinity="0"/></default><worldbody>
        <geom name="floor" type="plane" size="5 5 .1"/>
        <body name="a" pos="0 0 1"><freejoint/><geom name="foot" size=".1"/></body>
        <body name="b" pos="1 0 1"><freejoint/><geom name="hand" size=".1"/></body>
        <body name="c" pos="2 0 1"><freejoint/><geom size=".1"/></body>
        </worldbody><contact><pair geom1="floor" geom2="foot"/><pair geom1="foot" geom2="hand"/>
        </contact></mujoco>"""
    )
    model, world = tb.load(path), tb.load_world(path)
    assert {one.name for one in candidates_of(model, world)} == {"a/ground", "a/b"}


SWITCHED = """<mujoco><option><flag {flag}="disable"/></option><worldbody>
<geom type="plane" size="5 5 .1"/><geom name="table" size=".1" pos="9 0 0"/>
<body name="a" pos="0 0 1"><joint name="j" range="-1 1" limited="true" frictionloss="0.1"
 damping="2" stiffness="3"/><geom size=".1"/></body>
<body name="b" pos="0 1 1"><joint name="k"/><geom name="ball" size=".1"/></body></worldbody>
<equality><connect body1="a" body2="b" anchor="0 .5 0"/></equality>
<contact><pair geom1="table" geom2="ball"/></contact></mujoco>"""


@pytest.mark.parametrize(
    ("flag", "absent"),
    [
        ("contact", {"contact"}),
        ("equality", {"loop"}),
        ("limit", {"limit"}),
        ("frictionloss", {"friction"}),
        ("constraint", {"contact", "loop", "limit", "friction"}),
        ("sensor", set()),
    ],
)
def test_what_a_file_switches_off_is_not_there(tmp_path, flag, absent):
    """Flags of MuJoCo disable contacts, equalities, limits and friction of a whole file."""
    pytest.importorskip("mujoco")
    path = tmp_path / "flags.xml"
    path.write_text(SWITCHED.format(flag=flag))
    model, world = tb.load(path), tb.load_world(path)
    joint = model.joint("j")
    found = {
        "contact": world.ground is not None and bool(candidates_of(model, world)),
        "loop": bool(model.loops),
        "limit": joint.limits is not None,
        "friction": joint.passive.friction > 0.0,
    }
    assert {name for name, there in found.items() if not there} == absent
    assert joint.passive.stiffness == 3.0


@pytest.mark.parametrize("bits", [(1,), (1, 2, 3), (-1, 0), (0.5, 1), "ab", 3])
def test_contact_bits_are_two_sets_of_bits(bits):
    """Anything else is refused with the name of the shape or the ground."""
    for make in (
        lambda: tb.Shape(tb.SphereShape(0.1), contact_bits=bits, name="s"),
        lambda: tb.Ground(contact_bits=bits),
    ):
        with pytest.raises(tb.ModelError, match="contact_bits must be two integers from 0"):
            make()


SDF = """<sdf version="1.9"><world name="w"><model name="m">
<link name="a"><inertial><mass>1</mass></inertial>
 <collision name="c"><geometry><sphere><radius>0.1</radius></sphere></geometry>
 <surface>{surface}</surface></collision></link>
<link name="b"><pose>1 0 0 0 0 0</pose><inertial><mass>1</mass></inertial>
 <collision name="c"><geometry><sphere><radius>0.1</radius></sphere></geometry>
 <surface><contact><collide_bitmask>0x02</collide_bitmask></contact></surface></collision></link>
</model></world></sdf>"""


@pytest.mark.parametrize(
    ("surface", "expected", "warning"),
    [
        ("<friction><ode><mu>0.6</mu><mu2>0.6</mu2></ode></friction>", (0.6, None, 0.0), None),
        ("<friction><ode><mu>0.6</mu></ode></friction>", (0.6, None, 0.0), None),
        ("<friction><bullet><friction>0.4</friction></bullet></friction>", (0.4, None, 0.0), None),
        (
            "<bounce><restitution_coefficient>0.25</restitution_coefficient></bounce>",
            (1.0, None, 0.25),
            None,
        ),
        (
            "<friction><ode><mu>0.6</mu><mu2>0.5</mu2></ode></friction>",
            (0.5, None, 0.0),
            "the smaller one",
        ),
        ("<friction><torsional/><ode><mu>0.6</mu></ode></friction>", (0.6, None, 0.0), None),
        (
            "<friction><torsional><coefficient>0.5</coefficient><patch_radius>0.02</patch_radius>"
            "</torsional><bullet><friction>0.4</friction><rolling_friction>0.003"
            "</rolling_friction></bullet></friction>",
            (0.4, None, 0.0, 0, 0, 0, 0, 0, "smaller", 3.0 * math.pi / 16.0 * 0.02 * 0.5, 0.003),
            None,
        ),
        (
            "<friction><torsional><use_patch_radius>false</use_patch_radius></torsional>"
            "<ode><mu>0.6</mu></ode></friction>",
            (0.6, None, 0.0),
            "torsional friction that grows with penetration",
        ),
        ("<friction><ode><mu>-3</mu></ode></friction>", None, "mu must be a number"),
        (
            "<bounce><restitution_coefficient>2</restitution_coefficient></bounce>",
            None,
            "restitution must be between 0 and 1",
        ),
        ("<contact><collide_bitmask>1</collide_bitmask></contact>", None, None),
    ],
)
def test_sdf_surfaces(tmp_path, surface, expected, warning):
    text = SDF.format(surface=surface)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        robot = load(tmp_path, text, "robot.sdf")
    if warning is None:
        assert not caught
    else:
        assert warning in str(caught[0].message)
    found = materials(robot)
    wanted = None if expected is None else tb.ContactMaterial(*expected)
    assert found["a"] == [wanted]
    assert found["b"] == [None]
    apart = [(p.first, p.second, p.touches) for p in robot.contact_pairs]
    assert apart == ([("a", "b", False)] if "<contact>" in surface else [])


URDF = """<robot name="r"><link name="a"><inertial><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
<visual><geometry><sphere radius="0.2"/></geometry></visual>
<collision><geometry><sphere radius="0.1"/></geometry></collision></link>
<gazebo reference="a">{gazebo}</gazebo>
<gazebo><plugin name="p"><mu1>9</mu1></plugin></gazebo></robot>"""


@pytest.mark.parametrize(
    ("gazebo", "expected", "warning"),
    [
        ("<mu1>0.7</mu1><mu2>0.7</mu2><kp>1e6</kp>", 0.7, None),
        ('<mu1 value="0.7"/>', 0.7, None),
        ("<material>Gazebo/Blue</material>", None, None),
        ("<mu1>0.7</mu1><mu2>0.3</mu2>", 0.3, "the smaller one"),
        ("<mu1>${mu}</mu1>", None, "mu1 must be a number"),
    ],
)
def test_urdf_friction_of_gazebo(tmp_path, gazebo, expected, warning):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        robot = load(tmp_path, URDF.format(gazebo=gazebo), "robot.urdf")
    assert bool(caught) == (warning is not None)
    if warning is not None:
        assert warning in str(caught[0].message)
    visual, collision = robot.bodies[0].shapes
    assert visual.material is None
    assert collision.material == (None if expected is None else tb.ContactMaterial(expected))


def test_urdf_files_keep_friction_and_report_the_rest(tmp_path):
    """One coefficient per link; restitution, kinetic friction and pairs are lost."""
    shape = tb.Shape(tb.SphereShape(0.1), role="collision", material=tb.ContactMaterial(0.6))
    bouncy = tb.Shape(
        tb.SphereShape(0.1), role="collision", material=tb.ContactMaterial(0.5, 0.4, 0.3)
    )

    def robot(*shapes, **parts):
        ball = tb.Body("ball", joint=tb.Free("root"), inertia=tb.Inertia.sphere(1.0, 0.1),
                       shapes=shapes)  # fmt: skip
        return tb.Model("robot", [ball], **parts)

    tb.save(robot(shape, shape), tmp_path / "plain.urdf")
    again = tb.load(tmp_path / "plain.urdf")
    assert materials(again)["ball"] == [tb.ContactMaterial(0.6)] * 2
    (loss,) = tb.save(robot(shape, bouncy), tmp_path / "two.urdf")
    assert "'ball': of its surfaces only the static friction 0.5 was kept" in loss
    assert materials(tb.load(tmp_path / "two.urdf"))["ball"] == [tb.ContactMaterial(0.5)] * 2
    left_out = [tb.ContactPair("ball", "world", touches=False)]
    losses = tb.save(robot(shape, contact_pairs=left_out), tmp_path / "pairs.urdf")
    assert losses == ("contact pairs were left out: ball/world",)


GROUND = """format = "tiburon-model"
version = 1
name = "ball"
[[body]]
name = "ball"
joint = {kind = "free", name = "float"}
inertia = {mass = 2.0, tensor = [0.02, 0.0, 0.0, 0.03, 0.0, 0.04]}
[[body.shape]]
kind = "sphere"
radius = 0.1
material = {static_friction = 0.7, kinetic_friction = 0.5, restitution = 0.3}
[[contact]]
name = "tip"
body = "ball"
position = [0.0, 0.0, -0.1]
[world.ground]
height = 0.2
static_friction = 0.6
kinetic_friction = 0.4
restitution = 0.1
"""


@pytest.mark.parametrize("kind", ["sdf", "urdf", "toml"])
def test_damaged_surfaces_give_a_model_or_a_clear_error(tmp_path, kind):
    """Friction, restitution, stiffness, contact points and ground, with a few damages each."""
    surface = (
        "<friction><ode><mu>0.7</mu><mu2>0.5</mu2></ode></friction>"
        "<bounce><restitution_coefficient>0.3</restitution_coefficient></bounce>"
        "<contact><ode><kp>1e6</kp><kd>10</kd></ode></contact>"
    )
    text = {
        "sdf": SDF.format(surface=surface),
        "urdf": URDF.format(gazebo="<mu1>0.7</mu1><mu2>0.5</mu2><kp>1e6</kp>"),
        "toml": GROUND,
    }[kind]
    file = tmp_path / f"robot.{kind}"
    refused = 0
    for seed in range(-1, 120):
        content = text.encode()
        if seed >= 0 and kind == "toml":
            rng = random.Random(seed)
            content = rng.choice(DAMAGES)(content, rng)
        elif seed >= 0:
            content = mutated(content, seed)
        file.write_bytes(content)
        for read, expected in ((tb.load, tb.Model), (tb.load_world, tb.World)):
            if read is tb.load_world and kind != "toml":
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", tb.ModelWarning)
                    found = read(file)
            except tb.ModelFileError as error:
                found = error
            if isinstance(found, tb.ModelFileError):
                assert seed >= 0
                assert found.file == str(file)
                assert ";" in found.problem
                refused += 1
            else:
                assert isinstance(found, expected)
    assert refused > 10


def test_contact_pairs_of_a_model():
    """Native files keep them; composition renames and removes them; bad ones are refused."""

    def link(name, parent):
        return tb.Body(name, parent, joint=tb.Revolute(f"j_{name}", axis=(0, 1, 0)),
                       inertia=tb.Inertia.sphere(1.0, 0.1, com=(0, 0, -0.3)),
                       shapes=(tb.Shape(tb.SphereShape(0.1)),))  # fmt: skip

    pairs = [
        tb.ContactPair("a", "c", material=tb.ContactMaterial(0.2, 0.1, 0.3)),
        tb.ContactPair("b", "world", touches=False),
    ]
    arm = tb.Model("arm", [link("a", "world"), link("b", "a"), link("c", "b")], contact_pairs=pairs)
    floor = tb.World(ground=tb.Ground(height=-2.0))
    names = [one.name for one in candidates_of(arm, floor)]
    assert names == ["a/ground", "c/ground", "a/c"]
    assert candidates_of(arm, floor)[-1].material.kinetic_friction == 0.1
    two = arm.attach(arm, at="world", prefix="second_")
    assert [pair.name for pair in two.contact_pairs] == [
        "a/c",
        "b/world",
        "second_a/second_c",
        "second_b/world",
    ]
    assert [pair.name for pair in arm.without("c").contact_pairs] == ["b/world"]
    # the pairs of a run replace those of the model, not their material
    (named,) = candidates_of(arm, floor, [("c", "a")])
    assert named.material.kinetic_friction == 0.1
    with pytest.raises(tb.UnknownNameError, match="contact pair 'a/x'"):
        tb.Model("arm", arm.bodies, contact_pairs=[tb.ContactPair("a", "x")])
    with pytest.raises(tb.ModelError, match="expected two bodies, got 'a' twice"):
        tb.ContactPair("a", "a")
    twice = [tb.ContactPair("a", "b"), tb.ContactPair("b", "a")]
    with pytest.raises(tb.ModelError, match="contact pair name 'a/b' is used twice"):
        tb.Model("arm", arm.bodies, contact_pairs=twice)
