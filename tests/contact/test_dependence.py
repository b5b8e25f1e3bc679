"""Dependence of contact normals on constructed sets (Featherstone 1987, L2995-3003)."""

import math

import numpy as np
import pytest

import tiburon as tb
from tiburon.contact.dependence import analyze_dependence

ROTATION = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
"""Off the axes."""


def test_contact_with_the_only_coefficient_of_its_sign_is_redundant():
    """Between two walls of a corner a third, which they never let approach."""
    rows = np.array([[1.0, 0, 0], [0, 1.0, 0], [2.0, 3.0, 0]]) @ ROTATION.T
    found = analyze_dependence(rows)
    assert found.rank == 2
    (one,) = found.sets
    assert (one.contacts, one.kind, one.redundant) == ((0, 1, 2), "redundant", 2)
    # unit normals: 2 n0 + 3 n1 - sqrt(13) n2 = 0, largest weight 1
    np.testing.assert_allclose(one.weights, np.array([2, 3, -math.sqrt(13)]) / math.sqrt(13))
    assert found.redundant == (2,)
    assert found.unbreakable == ()


def test_contacts_with_coefficients_of_one_sign_cannot_separate():
    """Three contacts around a disc in its plane, and one more along its axis."""
    angles = np.array([0.1, 2.0, 4.0])
    rows = np.array([[math.cos(a), math.sin(a), 0.0] for a in angles] + [[0.0, 0.0, 2.0]])
    found = analyze_dependence(rows @ ROTATION.T)
    assert found.rank == 3
    (one,) = found.sets
    assert (one.contacts, one.kind) == ((0, 1, 2), "unbreakable")
    assert min(one.weights) > 0.0
    assert found.unbreakable == ((0, 1, 2),)
    assert found.redundant == ()


def test_groups_that_share_contacts_are_one_joint():
    """Opposed pairs along x and y; a diagonal pair joins them to one group of six."""
    s = math.sqrt(0.5)
    rows = np.array([[1.0, 0], [-1.0, 0], [0, 1.0], [0, -1.0], [s, s], [-s, -s]])
    found = analyze_dependence(rows)
    pairs = {one.contacts for one in found.sets if len(one.contacts) == 2}
    assert pairs == {(0, 1), (2, 3), (4, 5)}
    assert all(one.kind == "unbreakable" for one in found.sets if len(one.contacts) == 2)
    # later ones go first, and the pairs that are left hold all motions
    assert found.redundant == (4, 5)
    assert sorted(k for group in found.unbreakable for k in group) == [0, 1, 2, 3, 4, 5]


def test_zero_normals_and_parallel_ones():
    """No motion moves the first; the others push alike, and one of them suffices."""
    rows = np.array([[0.0, 0, 0], [1.0, 2, 3], [2.0, 4, 6]])
    found = analyze_dependence(rows)
    assert found.rank == 1
    assert found.sets[0] == ((0,), (1.0,), "redundant", 0)
    assert found.sets[1].kind == "redundant"
    assert found.redundant == (0, 2)


def test_table_with_four_legs_is_indeterminate():
    """Fig. 9-7: signs + - - +, rank 3; nothing can be left out."""
    corners = [(x, y) for x in (-0.2, 0.2) for y in (-0.15, 0.15)]
    rows = np.array([[1.0, x, y] for x, y in corners])
    found = analyze_dependence(rows)
    assert found.rank == 3
    (one,) = found.sets
    assert one.kind == "indeterminate"
    np.testing.assert_allclose(one.weights, [1, -1, -1, 1])
    assert found.redundant == ()
    assert found.unbreakable == ()


def test_five_legs_on_a_line_keep_the_outer_two():
    """Points between others are redundant; their minimal sets have three contacts."""
    rows = np.array([[1.0, x] for x in (-2.0, -1.0, 0.0, 1.0, 2.0)])
    found = analyze_dependence(rows)
    assert found.redundant == (1, 2, 3)
    assert len(found.sets) == math.comb(5, 3)
    assert all(one.redundant == one.contacts[1] for one in found.sets)


def test_many_contacts_are_classified_without_listing():
    """A ring of forty around an axle cannot separate; listing their sets would take hours."""
    angles = np.linspace(0.0, 2.0 * math.pi, 40, endpoint=False)
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    found = analyze_dependence(rows)
    assert found.sets == ()
    assert sorted(k for group in found.unbreakable for k in group) == list(range(40))
    assert found.rank == 2


def test_bad_normals_are_refused():
    """Shapes and values; no contacts are no dependence."""
    with pytest.raises(tb.ShapeError, match="row per contact"):
        analyze_dependence([1.0, 2.0])
    with pytest.raises(tb.NonFiniteError, match="normals"):
        analyze_dependence([[1.0, math.inf]])
    assert analyze_dependence(np.zeros((0, 3))) == (0, (), (), ())
    assert analyze_dependence(np.zeros((2, 3))).redundant == (0, 1)
