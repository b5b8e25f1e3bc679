"""Graphs of links and joints against the counts of Nahon 1991."""

import networkx
import numpy as np
import pytest

import tiburon as tb
from tests.loops.mechanisms import arms_on_object, piston, planar_hand

CLASSES = {
    "puma560": "simple open",
    "four_bar": "simple closed",
    "quadruped": "complex open",
    "stewart": "complex closed",
    "planar_walker": "complex closed",
    "strandbeest": "complex closed",
}


@pytest.mark.parametrize("name", CLASSES)
def test_classes_of_nahon_1991(name):
    """Definitions 2.13 to 2.17: serial arm, four-bar, free hand, platform."""
    assert tb.topology(tb.load(name)).kind == CLASSES[name]


def test_a_walker_with_a_raised_foot_is_hybrid():
    walker = tb.load("planar_walker")
    raised = tb.Model("raised", walker.bodies, loops=walker.loops[:2], actuators=walker.actuators)
    found = tb.topology(raised)
    assert found.kind == "complex hybrid"
    # a single cycle is left: its poles have to be named
    named = tb.topology(raised, poles=("world", "body"))
    assert len(named.paths) == 2
    assert named.open_paths == (("joint_3", "joint_6"),)
    # a lifted foot frees d less the freedom of its contact: 3 - 1
    assert found.counted_mobility == tb.topology(walker).counted_mobility + 2


def test_the_walker_of_the_source_has_mobility_3():
    """E1: d = 3, b = 8, g = 9, all f = 1, so M = 3."""
    found = tb.topology(tb.load("planar_walker"))
    assert {line.dimension for line in found.joints} == {3}
    assert len(found.links) == 8
    assert len(found.joints) - len(found.placeholders) == 9
    assert found.counted_mobility == 3
    assert found.poles == ("world", "body")
    assert [len(path) for path in found.paths] == [3, 3, 3]


def test_three_arms_with_4_5_and_6_dof_leave_3():
    """E2: d = 6, p = 3, g' = 15."""
    found = tb.topology(arms_on_object((4, 5, 6), tb.Fixed))
    assert found.counted_mobility == 3
    assert len(found.paths) == 3


def test_full_mobility_takes_6_dof_per_path():
    """E2: g' = 6 p leaves M = 6; point contacts have three of these."""
    assert tb.topology(arms_on_object((3, 3, 3), tb.Spherical)).counted_mobility == 6


@pytest.mark.parametrize(("joint_counts", "connectivity"), [((2, 3, 4), 2), ((3, 3, 3), 3)])
def test_hands_of_equal_mobility_hold_objects_differently(joint_counts, connectivity):
    """E3: both have M = 3; a finger of two degrees of freedom leaves the object two."""
    found = tb.topology(planar_hand(joint_counts))
    assert found.counted_mobility == 3
    assert found.counted_connectivity == connectivity


def test_the_cycle_count_is_that_of_euler():
    """Eq. 2.1: c = Q - P + 1."""
    for name in ("stewart", "strandbeest", "delta", "n_four_bar_40", "andrews_squeezer"):
        found = tb.topology(tb.load(name))
        graph = found.graph()
        parts = networkx.number_connected_components(graph)
        count = graph.number_of_edges() - graph.number_of_nodes() + parts
        assert found.cycle_count == count > 0


@pytest.mark.parametrize("name", ["four_bar", "delta", "strandbeest", "n_four_bar_40", "stewart"])
def test_cycles_close_and_are_independent(name):
    """Each walk returns to where it started, and no cycle is a sum of others."""
    found = tb.topology(tb.load(name))
    order = {line.name: k for k, line in enumerate(found.joints)}
    rows = np.zeros((found.cycle_count, len(order)))
    for k, cycle in enumerate(found.cycles):
        walk = []
        for joint, sense in cycle:
            line = found.joint(joint)
            walk.append((line.first, line.second)[:: 1 if sense > 0 else -1])
            rows[k, order[joint]] += sense
        assert all(walk[i][1] == walk[(i + 1) % len(walk)][0] for i in range(len(walk)))
    assert np.linalg.matrix_rank(rows) == found.cycle_count


def test_legs_are_in_the_order_of_their_numbers():
    """The tenth after the second, whichever joints close loops."""
    model = arms_on_object((3,) * 12, tb.Spherical)
    paths = tb.topology(model).paths
    assert [path[0] for path in paths] == [f"a{k}_0" for k in range(12)]


def test_welded_bodies_are_one_link():
    model = tb.load("two_pumas")
    found = tb.topology(model)
    assert any({"bar"} < set(link) for link in found.links)
    assert found.placeholders == ("bar",)


def test_the_piston_is_planar():
    found = tb.topology(piston())
    assert {line.dimension for line in found.joints} == {3}
    assert found.counted_mobility == 1


def test_unknown_bodies_raise_an_error():
    with pytest.raises(tb.UnknownNameError, match=r"poles.*'bodi'.*did you mean 'body'"):
        tb.topology(tb.load("planar_walker"), poles=("world", "bodi"))
