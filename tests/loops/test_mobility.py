"""Mobility, motor sets and their description, against Nahon 1991 and Featherstone 1987."""

import math

import numpy as np
import pytest
from typer.testing import CliRunner

import tiburon as tb
from tests.loops.mechanisms import arms_on_object, link, piston, piston_position, planar_hand
from tiburon.cli.application import application
from tiburon.functions import mobility
from tiburon.functions.mobility import cycle_jacobian, rank_of
from tiburon.reproduce.nahon_structure import CONDITIONS, JACOBIAN, JACOBIAN_JOINTS

WALKER = "planar_walker"


def test_jacobian_of_the_walker_is_the_printed_one():
    """Eq. 3.50a, up to the sign of columns and the order of rows and columns."""
    model = tb.load(WALKER)
    found = cycle_jacobian(model, tb.topology(model), model.neutral())
    order = [found.names.index(f"joint_{k}") for k in JACOBIAN_JOINTS]
    ours, printed = found.matrix[:, order], JACOBIAN
    # a product of rows is the same whatever the signs of rows and the axes of the plane
    ours_size = np.linalg.svd(ours, compute_uv=False)
    np.testing.assert_allclose(ours_size[:6], np.linalg.svd(printed, compute_uv=False), atol=1e-13)
    np.testing.assert_allclose(np.abs(ours.T @ ours), np.abs(printed.T @ printed), atol=1e-13)


def test_motor_sets_of_the_walker_have_the_derived_conditions():
    """E4: kappa(J_u) of all triples, unit lengths; {1, 2, 3} and {4, 5, 6} leave one loose."""
    model = tb.load(WALKER)
    found = tb.motor_sets(model, model.neutral())
    rated = {"".join(name[-1] for name in s.joints): s.condition for s in found}
    assert rated.keys() == CONDITIONS.keys()
    # the table has two decimals
    for name, value in CONDITIONS.items():
        assert rated[name] == pytest.approx(value, abs=0.00501), name
    assert found[0].joints == ("joint_1", "joint_4", "joint_6")
    assert [s.condition for s in found] == sorted(rated.values())


def test_additional_motors_never_worsen_the_condition():
    """E4, the theorem of section 3.5: kappa of nested sets."""
    model = tb.load(WALKER)
    q = model.neutral()
    rated = [
        tb.mobility(model, q, driven=[f"joint_{k}" for k in names]).condition
        for names in ("135", "1235", "12345", "123456")
    ]
    np.testing.assert_allclose(rated, [11.830, 11.009, 7.624, 3.8208], atol=5e-4)


def test_locked_hips_leave_the_knees_of_the_walker_loose():
    """Nahon 1991, section 3.5: nullity 1 with motors 1, 2, 3."""
    model = tb.load(WALKER)
    found = tb.mobility(model, model.neutral(), driven=["joint_1", "joint_2", "joint_3"])
    assert found.mobility == 3
    assert found.loose_mobility == 1
    assert found.redundancy == 0
    assert math.isinf(found.condition)
    assert {"joint_4", "joint_5", "joint_6"} <= set(found.loose)
    assert "cannot drive it alone, 1 degree of freedom is left to" in found.summary


def test_six_motors_of_the_walker_are_three_more_than_needed():
    """E1: r = 3."""
    found = tb.mobility(tb.load(WALKER))
    assert found.redundancy == 3
    assert "3 more than needed" in found.summary


@pytest.mark.parametrize(
    ("joint_counts", "tie", "redundancy"),
    [((6, 6, 6), tb.Fixed, 12), ((3, 3, 3), tb.Spherical, 3)],
)
def test_redundancy_of_arms_and_fingers(joint_counts, tie, redundancy):
    """E2: three arms with a rigid grasp have r = 12, three fingers with point contacts r = 3."""
    model = arms_on_object(joint_counts, tie)
    motors = [name for name in model.joint_names if name.startswith("a")]
    found = tb.mobility(model, model.neutral(), driven=motors)
    assert found.mobility == 6
    assert found.redundancy == redundancy
    assert found.loose_mobility == 0


@pytest.mark.parametrize(
    ("name", "mobility", "redundancy"),
    [("two_finger_hand", 3, 1), ("three_finger_hand", 6, 3), ("two_pumas", 6, 6)],
)
def test_redundancy_of_hands_and_arms_that_ship(name, mobility, redundancy):
    """E2: planar two-finger hand r = 1; d (p - 1) - g_u = 12 - 9 and 6 - 0 (eq. 2.17)."""
    found = tb.mobility(tb.load(name))
    assert (found.mobility, found.counted_mobility) == (mobility, mobility)
    assert (found.redundancy, found.loose_mobility) == (redundancy, 0)


def test_motors_are_removed_greedily_if_there_are_many_sets(monkeypatch):
    """18 motors for 6 DoF have 18564 choices (eq. 3.53); with fewer allowed, one is built."""
    model = tb.load(WALKER)
    every = {s.joints: s.condition for s in tb.motor_sets(model, model.neutral())}
    monkeypatch.setattr(mobility, "MOST_SETS", 19)
    (only,) = tb.motor_sets(model, model.neutral())
    assert only.condition == pytest.approx(every[only.joints], rel=1e-12)
    assert only.condition < np.median(list(every.values()))


@pytest.mark.parametrize(("joint_counts", "connectivity"), [((2, 3, 4), 2), ((3, 3, 3), 3)])
def test_connectivity_by_rank_equals_the_published_one(joint_counts, connectivity):
    """E3: M = 3 in both hands, but C = 2 and 3."""
    model = planar_hand(joint_counts)
    q = model.neutral()
    assert np.abs(tb.constraint_residual(model, q)).max() < 1e-14
    assert tb.mobility(model, q).mobility == 3
    assert tb.connectivity(model, "world", "object", q) == connectivity


def test_connectivity_of_a_chain_counts_the_joints_between():
    model = tb.load("puma560")
    q, _ = model.random_state(4)
    names = model.body_names
    assert tb.connectivity(model, names[1], names[3], q) == 2
    assert tb.connectivity(model, "world", names[-1], q) == 6


def test_piston_has_5_constraints_of_which_3_are_redundant():
    """Featherstone 1987, Fig. 9-2."""
    model = piston()
    found = tb.mobility(model, piston_position(0.7))
    assert (found.equations, len(found.redundant), found.mobility) == (5, 3, 1)
    assert set(found.redundant) == {
        "cylinder: offset along z",
        "cylinder: turn about x",
        "cylinder: turn about y",
    }
    assert found.summary == (
        "5 loop equations, 3 redundant, mobility 1: any one of crank, big end and small end can "
        "drive it"
    )


def test_a_parallelogram_laid_flat_is_singular():
    """Its four pins in one line, it can continue as a parallelogram or cross over."""
    model = tb.load("n_four_bar_2")
    upright = tb.mobility(model, model.neutral())
    assert not upright.is_singular
    found = tb.mobility(model, 0.5 * np.pi * np.array([1.0, 1.0, 1.0, -1.0, -1.0]))
    assert found.is_singular
    assert (found.mobility, found.regular_mobility) == (3, 1)
    assert "(singular pose: 1 beside it)" in found.summary


@pytest.mark.parametrize(
    "name", ["four_bar", "planar_3rrr", "stewart", "bricard", "delta", "panda"]
)
def test_rank_of_all_cycles_gives_the_same_mobility(name):
    """Cut or not, joints around cycles leave as many DoF as the loops of the tree do."""
    model = tb.load(name)
    q = np.array(model.poses.get("home", model.neutral()))
    found = cycle_jacobian(model, tb.topology(model), q)
    assert len(found.names) - rank_of(found.matrix) == tb.mobility(model, q).mobility


def test_bricard_linkage_is_mobile_despite_its_count():
    found = tb.mobility(tb.load("bricard"))
    assert (found.counted_mobility, found.mobility) == (0, 1)
    assert "mobility 1 (by counting 0)" in found.summary


def test_coupling_removes_a_degree_of_freedom():
    chain = tb.load("double_pendulum")
    first, second = chain.moving_joint_names
    tied = tb.Model(
        "tied", chain.bodies, loops=[tb.JointCoupling("gear", second, first, (0.1, 2.0))]
    )
    q = np.array([0.3, 0.7])
    found = tb.mobility(tied, q)
    assert (found.equations, found.mobility, found.counted_mobility) == (1, 1, 1)
    both = cycle_jacobian(tied, tb.topology(tied), q)
    assert len(both.names) - rank_of(both.matrix) == 1


def test_motors_that_cannot_drive_are_refused():
    with pytest.raises(
        tb.ModelError, match=r"\(theta_1\) cannot drive its 3 degrees of freedom, 2 are left"
    ):
        tb.motor_sets(tb.load("planar_3rrr"), driven=["theta_1"])


def test_too_many_motors_are_refused():
    with pytest.raises(tb.DomainError, match="size: expected 1 to 6 motors, got 7"):
        tb.motor_sets(tb.load(WALKER), size=7)


# -- `tiburon info` --------------------------------------------------------------------------------


def info(name):
    """The text without line breaks, which depend on the terminal."""
    result = CliRunner().invoke(application, ["info", str(name)])
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_info_states_how_a_four_bar_moves():
    assert (
        "a simple closed chain; 5 loop equations, 3 redundant, mobility 1: input can drive it alone"
    ) in info("four_bar")


def test_info_counts_paths_and_spare_motors():
    assert (
        "a complex closed chain, 3 paths from world to body; 15 loop equations, 9 redundant, "
        "mobility 3: joint_1, joint_2, joint_3, joint_4, joint_5 and joint_6 can drive it, 3 more "
        "than needed"
    ) in info("planar_walker")


def test_trees_have_no_mobility_to_report():
    assert tb.describe(tb.load("pendulum"))["mobility"] is None


def test_description_contains_python_floats():
    found = tb.describe(tb.load("bricard"))["mobility"]
    assert (found["mobility"], found["counted_mobility"], found["cycles"]) == (1, 0, 1)
    # nothing drives it
    assert found["condition"] is None
    assert found["redundancy"] == -1


def test_a_robot_that_cannot_be_assembled_is_reported(tmp_path):
    """Two rods of 1 m on pivots 3 m apart."""
    bodies = [
        link("left", "world", tb.Revolute("left")),
        link("right", "world", tb.Revolute("right", pose=tb.Pose(translation=(3, 0, 0)))),
    ]
    tip = tb.Pose(translation=(1, 0, 0))
    loop = tb.LoopClosure("pin", "left", "right", tb.Revolute("pin", pose=tip), tip)
    tb.save(tb.Model("apart", bodies, loops=[loop]), tmp_path / "apart.toml")
    text = info(tmp_path / "apart.toml")
    assert "it cannot be assembled: model 'apart': loops cannot be closed" in text
    assert "'pin' by 1 " in text


def test_info_reports_robots_whose_loops_are_undefined_at_the_start(tmp_path):
    """A coin that lies flat touches at no one point; all else is reported."""
    rim = tb.RollingDisc("rim", "world", "coin", radius=0.3, axis=(0, 0, 1))
    coin = tb.Model("flat", [link("coin", "world", tb.Free("float"))], loops=[rim])
    tb.save(coin, tmp_path / "coin.toml")
    told = info(tmp_path / "coin.toml")
    assert "how it moves is not known in this pose" in told
    assert "lies flat on the plane" in told
    result = CliRunner().invoke(
        application, ["view", str(tmp_path / "coin.toml"), "--html", str(tmp_path / "coin.html")]
    )
    assert result.exit_code == 0, result.output
    assert "shown as given" in result.stderr
