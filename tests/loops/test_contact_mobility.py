"""Mobility of walkers phase by phase, connectivity with locked motors, and failed motors."""

import math
from itertools import pairwise

import numpy as np
import pytest

import tiburon as tb
from tests.loops.test_topology import planar_hand

FEET = ("front_left_foot", "front_right_foot", "hind_left_foot", "hind_right_foot")


def test_mobility_of_a_gait_follows_its_feet():
    """M = 18 - 3 p + f of feet, r = 12 - M: each foot that lands takes three DoF (E2, N4)."""
    dog = tb.load("quadruped")
    q = np.array(dog.poses["stand"])
    phases = [FEET, FEET[1:], (FEET[0], FEET[3]), FEET[:1], ()]
    found = tb.gait_mobility(dog, q, phases)
    # bases with fewer than three feet can tip: what no motor holds
    for phase, M, r, loose in zip(
        found, (6, 9, 12, 15, 18), (6, 3, 0, -3, -6), (0, 0, 1, 3, 6), strict=True
    ):
        assert phase.mobility.mobility == M
        assert phase.mobility.redundancy == r
        assert phase.mobility.loose_mobility == loose
    assert found[0].summary.endswith("mobility 6, redundancy 6")
    assert "1 DoF that no actuator drives" in found[2].summary
    # the same by the unknowns and equations of load sharing, as long as feet can hold the base
    plan = tb.LoadSharing.of(dog, world=tb.World(ground=tb.Ground()))
    assert plan.redundancy == found[0].mobility.redundancy
    with pytest.raises(tb.ModelError, match="phase by phase"):
        tb.gait_mobility(dog, q, ["front_left_foot"])
    with pytest.raises(tb.UnknownNameError, match="paw"):
        tb.gait_mobility(dog, q, [["paw"]])
    with pytest.raises(tb.ShapeError, match="q"):
        tb.gait_mobility(dog, np.zeros((3, dog.nq)), phases)


@pytest.mark.parametrize(
    ("joint_counts", "locked", "expected"),
    [
        ((3, 3, 3), (), 3),
        ((3, 3, 3), (1, 1, 1), 0),
        ((3, 3, 3), (1, 1, 0), 1),
        ((3, 3, 3), (1, 0, 0), 2),
        ((2, 3, 4), (0, 0, 1), 2),
        ((2, 3, 4), (0, 1, 1), 1),
    ],
)
def test_connectivity_with_locked_motors_is_that_of_the_corrected_count(
    joint_counts, locked, expected
):
    """B2, N10: C_a of (2.14) with M_a first and d in the sum; by count and by rank."""
    model = planar_hand(joint_counts)
    q = model.neutral()
    shape = tb.topology(model, poles=("world", "object"))
    driven = [
        name
        for path, count in zip(shape.paths, locked, strict=False)
        for name in [n for n in path if n in model.joint_names][:count]
    ]
    d, g = 3, [f - n for f, n in zip(joint_counts, [*locked, 0, 0, 0], strict=False)]
    M_a = sum(g) - d * (len(g) - 1)
    assert max(0, M_a - sum(max(0, f - d) for f in g)) == expected
    assert shape.actuated_connectivity(driven) == expected
    assert tb.connectivity(model, "world", "object", q, driven=driven) == expected
    with pytest.raises(tb.UnknownNameError, match="wheel"):
        shape.actuated_connectivity(["wheel"])
    with pytest.raises(tb.UnknownNameError, match="wheel"):
        tb.connectivity(model, "world", "object", q, driven=["wheel"])


def test_the_best_remaining_triple_of_the_walker():
    """E4: {1, 4, 6} has the least kappa of 20 triples, {1, 3, 5} of those without motor 4."""
    walker = tb.load("planar_walker")
    whole = tb.feathering(walker)
    assert math.comb(6, 3) == len(whole.ranked) == 20
    assert whole.best.joints == ("joint_1", "joint_4", "joint_6")
    assert whole.best.condition == pytest.approx(10.39, abs=0.005)
    assert whole.condition == whole.condition_before == pytest.approx(3.8208, abs=5e-5)
    found = tb.feathering(walker, failed=["joint_4"])
    assert len(found.ranked) == math.comb(5, 3)
    # the table of the source, without the triples with motor 4
    assert found.best.joints == ("joint_1", "joint_3", "joint_5")
    assert found.best.condition == pytest.approx(11.83, abs=0.005)
    assert found.redundancy == 2
    assert "1 of 6 motors failed" in found.summary
    assert "joint_1, joint_3, joint_5" in found.summary


def test_more_motors_never_worsen_the_condition():
    """E4: {1, 3, 5} 11.830 > {1, 2, 3, 5} 11.009 > {1 ... 5} 7.624 > {1 ... 6} 3.821."""
    walker = tb.load("planar_walker")
    expected = {("joint_2", "joint_4", "joint_6"): 11.830, ("joint_4", "joint_6"): 11.009}
    expected |= {("joint_6",): 7.624, (): 3.821}
    found = [tb.feathering(walker, failed=failed) for failed in expected]
    np.testing.assert_allclose([one.condition for one in found], list(expected.values()), atol=5e-4)
    assert all(a.condition > b.condition for a, b in pairwise(found))


def test_lost_mobility_is_named():
    """The hips alone cannot hold the walker (E4: nullity 1): the knees and feet may still move."""
    walker = tb.load("planar_walker")
    found = tb.feathering(walker, failed=["joint_4", "joint_5", "joint_6"])
    assert found.best is None
    assert found.lost_mobility == 1
    assert {"joint_4", "joint_5", "joint_6"} <= set(found.lost)
    assert "1 of 3 degrees of freedom cannot be held any more" in found.summary
    with pytest.raises(tb.UnknownNameError, match="joint_9"):
        tb.feathering(walker, failed=["joint_9"])
    with pytest.raises(tb.DomainError, match="hold all"):
        tb.feathering(tb.load("quadruped"))


def test_a_quadruped_on_three_feet_loses_a_knee():
    """Three feet: M = 9 of 12 motors; a lost knee leaves a redundancy of 2."""
    dog = tb.load("quadruped")
    found = tb.feathering(dog, dog.poses["stand"], failed=["hind_right_knee"], touching=FEET[:3])
    # the lifted leg has a motor less than joints
    assert found.lost_mobility == 1
    assert found.lost == ("hind_right_knee",)
    standing = tb.feathering(dog, dog.poses["stand"], failed=["hind_right_knee"], touching=FEET)
    assert standing.lost_mobility == 0
    assert (standing.mobility, standing.redundancy) == (6, 5)
    assert standing.condition > standing.condition_before


@pytest.mark.slow
def test_a_hexapod_has_18564_choices_of_six_motors():
    """(3.53): K = 18! / (6! 12!), J_u is 30 x 30; all are ranked."""
    robot = tb.load("osu_hexapod")
    found = tb.feathering(
        robot, robot.poses["stand"], touching=[point.name for point in robot.contacts]
    )
    assert len(found.ranked) == math.comb(18, 6) == 18564
    conditions = [one.condition for one in found.ranked]
    assert conditions == sorted(conditions)
    assert found.best.condition < np.inf
