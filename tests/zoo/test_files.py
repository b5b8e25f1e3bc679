"""Every robot that ships: its file, its numbers, and the identities on its tree."""

import ast
import tomllib

import numpy as np
import pytest

import tiburon as tb
from tests.algorithms.on_floats import on_floats
from tests.tolerances import SOLVE, assert_close
from tests.zoo.loops import gaps, pose_of
from tiburon import zoo
from tiburon.errors import DomainError, UnknownNameError
from tiburon.zoo.index import GENERATED

ALL = zoo.names()

WANTED = {
    *("tiburon_titan", "two_arm_rov", "aquarobot", "osu_hexapod", "puma560", "two_pumas"),
    *("four_pumas", "planar_3rrr", "stewart", "delta", "four_bar", "balanced_four_bar"),
    *("planar_walker", "four_legged_walker", "quadruped", "two_finger_hand", "three_finger_hand"),
    *("kerr_roth_grasp", "panda", "space_arm", "remus100", "rexrov", "bluerov2_heavy"),
    *("bluerov2_alpha", "strandbeest", "n_four_bar_2", "n_four_bar_40", "andrews_squeezer"),
    *("bricard", "flyball_governor", "pendulum", "double_pendulum", "spherical_pendulum"),
    *("cart_pole", "chain_10", "chain_100", "flexible_arm", "chaplygin_sleigh", "rolling_disc"),
    *("block_slope", "ball_ramp", "newtons_cradle", "painleve_rod", "rimless_wheel", "tippe_top"),
    *("rattleback", "box_stack", "gripper_block", "cable_robot", "five_bar"),
    "mobile_manipulators",
}


@pytest.fixture(scope="module")
def robots():
    """All robots by name."""
    return {name: tb.load(name) for name in ALL}


def test_zoo_contains_all_robots():
    """All documented robots, and no file that is not listed."""
    assert set(ALL) == WANTED


def test_file_loads_as_the_robot_of_its_name(robots):
    """One line describes it; its file begins with the sources of its values."""
    for name, model in robots.items():
        assert model.name == name
        assert 20 <= len(model.about) <= 90, name
        assert "\n" not in model.about
        text = zoo.path(name).read_text(encoding="utf-8")
        if name in GENERATED:
            head = ast.get_docstring(ast.parse(text))
        else:
            head = text.split("\n\nformat =")[0]
            assert all(line.startswith("#") for line in head.splitlines()), name
        assert len(head) > 60, name


def test_inertias_are_physically_possible(robots):
    """Masses are positive, moments obey the triangle inequality, centers of mass are near."""
    for body in (body for model in robots.values() for body in model.bodies):
        a, b, c = np.linalg.eigvalsh(body.inertia.matrix)
        assert body.inertia.mass > 0.0, body
        assert a > 0.0, body
        # a flat plate sits on the limit, up to rounding
        assert a + b >= c * (1.0 - 1e-9), body


@pytest.mark.parametrize("name", ALL)
def test_forward_dynamics_inverts_inverse_dynamics(name, robots):
    """FD(ID(vd)) = vd on the tree, in a random state in motion."""
    tree = robots[name].without_loops()
    rng = np.random.default_rng(7)
    q, v = tree.random_state(rng)
    vd = rng.normal(size=tree.nv)
    tau = on_floats("inverse_dynamics", tree, q, v, vd)
    H = on_floats("mass_matrix", tree, q)
    assert np.array_equal(H, H.T)
    assert np.linalg.eigvalsh(H).min() > 0.0
    scale = max(1.0, np.abs(np.linalg.solve(H, tau)).max()) * np.linalg.cond(H)
    assert_close(on_floats("forward_dynamics", tree, q, v, tau), vd, SOLVE, scale)
    half = 0.5 * v @ H @ v
    # the same sum of squares in another order
    assert on_floats("kinetic_energy", tree, q, v) == pytest.approx(half, rel=1e-11)


def test_loops_close_at_home(robots):
    """At the pose "home", or at zero where there is none, the gaps are rounding."""
    with_loops = [model for model in robots.values() if model.loops]
    assert len(with_loops) > 10
    for model in with_loops:
        q = np.array(model.poses["home"]) if "home" in model.poses else model.neutral()
        # a few products of lengths of about one meter
        assert np.abs(gaps(model, q)).max() < 1e-14, model.name


def test_mass_matrix_of_a_robot_with_loops_is_reported(robots):
    """That of the tree would ignore the loops: an error names one, and the way out."""
    for model in robots.values():
        if model.loops:
            q, _ = model.random_state(1)
            with pytest.raises(tb.ModelError, match=r"without_loops\(\)") as error:
                tb.mass_matrix(model, q)
            assert repr(model.loops[0].name) in str(error.value)


def test_feet_stand_on_the_ground(robots):
    """At the pose "stand" the lowest contact points touch z = 0 and none is below."""
    standing = [model for model in robots.values() if "stand" in model.poses]
    assert standing
    for model in standing:
        q = np.array(model.poses["stand"])
        heights = []
        for contact in model.contacts:
            R, p = pose_of(model, q, contact.body)
            heights.append((p + R @ contact.position)[2] - contact.radius)
        # sums of a few lengths of about one meter
        assert min(heights) == pytest.approx(0.0, abs=1e-14), model.name


def test_files_equal_the_output_of_the_tool():
    """The files and the Python they come from say the same, up to the last bits of sines."""
    from tools.zoo.__main__ import all_sheets
    from tools.zoo.sheet import write_text

    seen = set()
    for sheet in all_sheets():
        name = sheet.model.name
        seen.add(name)
        written = tomllib.loads(write_text(sheet))
        shipped = tomllib.loads(zoo.path(name).read_text(encoding="utf-8"))
        assert_same(written, shipped, name)
    assert seen == set(ALL) - set(GENERATED)


def assert_same(a, b, where):
    if isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_same(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list):
        assert len(a) == len(b), where
        for index, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{where}[{index}]")
    elif isinstance(a, float):
        # other libraries of mathematics may round sines and roots otherwise
        assert a == pytest.approx(b, rel=1e-12, abs=1e-14), where
    else:
        assert a == b, where


def test_unknown_name_gets_the_nearest():
    """A misspelled robot is answered with the one most like it."""
    with pytest.raises(UnknownNameError, match=r"unknown robot 'puma_560'; did you mean 'puma560'"):
        zoo.path("puma_560")


def test_chain_of_any_length():
    """A chain has the requested number of links, and equals the one that ships."""
    model = zoo.chain(7)
    assert model.nv == 7
    assert model.total_mass == pytest.approx(7.0)
    assert zoo.chain(10) == tb.load("chain_10")
    for generator in (zoo.chain, zoo.n_four_bar):
        for wrong in (0, -1, 2.5):
            with pytest.raises(DomainError, match="at least 1"):
                generator(wrong)


@pytest.mark.parametrize("name", GENERATED)
def test_generated_robots_can_be_saved_and_loaded_again(name, tmp_path):
    """A native file written from a generated robot holds the same robot."""
    tb.save(tb.load(name), tmp_path / "robot.toml")
    assert tb.load(tmp_path / "robot.toml") == tb.load(name)


def test_a_generated_robot_takes_no_root_joint():
    """Its root joint is part of the model, as in native files."""
    with pytest.raises(tb.ModelError, match="chain_10: root_joint is for urdf and sdf files"):
        tb.load("chain_10", root_joint=tb.Free("base"))
