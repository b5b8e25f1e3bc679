"""The catalogue of contacts, points of extended contacts, and positively dependent normals."""

import math

import numpy as np
import pytest
from scipy.optimize import nnls

from tests.tolerances import assert_close
from tiburon.errors import DomainError, ModelError, NonFiniteError, OptionError, ShapeError
from tiburon.model.contact_kinds import (
    CONTACT_KINDS,
    contact_kind,
    disc_points,
    edge_points,
    hull_corners,
    independent_normals,
)

NAHON = {
    # degrees of freedom without and with friction that sticks
    "revolute": (1, 0),
    "prismatic": (1, 0),
    "helical": (1, 0),
    "cylindrical": (2, 0),
    "spherical": (3, 0),
    "planar": (3, 0),
    "point": (5, 3),
    "line": (4, 1),
    "plane": (3, 0),
    "soft finger": (2, 2),
}


@pytest.mark.parametrize("name", CONTACT_KINDS)
@pytest.mark.parametrize("friction", [False, True])
def test_degrees_of_freedom_and_ranks_are_those_of_the_catalogue(name, friction):
    """Rank of the wrench basis = 6 - N; wrenches do no work on the free motions."""
    kind = contact_kind(name, friction=friction, pitch=0.3 if name == "helical" else 0.0)
    assert kind.dof == NAHON[name][friction]
    assert kind.wrench_basis.shape == (6, 6 - kind.dof)
    assert np.linalg.matrix_rank(kind.wrench_basis) == 6 - kind.dof
    assert kind.freedom_basis.shape == (6, kind.dof)
    assert np.linalg.matrix_rank(kind.freedom_basis) == kind.dof if kind.dof else True
    assert_close(kind.wrench_basis.T @ kind.freedom_basis, np.zeros((6 - kind.dof, kind.dof)))


def test_contacts_are_unilateral_and_pairs_bilateral():
    """The normal force of contacts is the one unilateral direction."""
    for name in CONTACT_KINDS:
        kind = contact_kind(name, friction=True)
        contact = name in ("point", "line", "plane", "soft finger")
        assert sum(kind.unilateral_columns) == contact
        if contact:
            column = kind.wrench_basis[:, kind.unilateral_columns.index(True)]
            assert_close(column, [0, 0, 0, 0, 0, 1])
        assert kind.dof + len(kind.frictional) == contact_kind(name).sliding.dof or (
            name == "soft finger"
        )


def test_breakaway_frees_the_directions_of_friction():
    """Point 3 -> 5 and soft finger 2 -> 5 degrees of freedom; the pitch of a thread stays."""
    assert contact_kind("point", friction=True).sliding.dof == 5
    assert contact_kind("soft finger").sliding.dof == 5
    assert contact_kind("helical", friction=True, pitch=0.2).sliding.pitch == 0.2


def test_rolling_contacts_have_the_wrenches_of_contacts_that_stick():
    """Rolling changes what moves, not what is transmitted."""
    for name in ("point", "line", "soft finger"):
        rolling = contact_kind(name, friction=True, rolling=True)
        assert rolling.rolling
        assert rolling.wrench_labels == contact_kind(name, friction=True).wrench_labels


def test_line_contact_resists_turning_about_its_normal_plane():
    """The moments of two points at (+-a, 0, 0) with normal z span the same wrenches."""
    a = 0.2
    ends = np.array([[*np.cross([x, 0, 0], [0, 0, 1]), 0, 0, 1] for x in (-a, a)]).T
    basis = contact_kind("line").wrench_basis
    assert np.linalg.matrix_rank(np.hstack([basis, ends])) == 2


def test_screw_of_pitch_zero_is_a_revolute_pair():
    """Both transmit the same wrenches."""
    both = np.hstack([contact_kind("helical").wrench_basis, contact_kind("revolute").wrench_basis])
    assert np.linalg.matrix_rank(both) == 5


@pytest.mark.parametrize(
    ("error", "match", "make"),
    [
        (OptionError, r"name: expected 'point' or .* got 'weld'", lambda: contact_kind("weld")),
        (ModelError, r"^plane contact: cannot roll; leave out rolling=True",
            lambda: contact_kind("plane", friction=True, rolling=True)),
        (ModelError, r"^point contact: rolling needs friction; add friction=True",
            lambda: contact_kind("point", rolling=True)),
        (ModelError, r"^spherical contact: pitch must be 0, got 1 m/rad; use 'helical'",
            lambda: contact_kind("spherical", pitch=1.0)),
        (ModelError, "pitch must be finite", lambda: contact_kind("helical", pitch=math.nan)),
        (OptionError, "friction: expected True or", lambda: contact_kind("point", friction=1)),
        (ShapeError, r"points: expected n x 2 coordinates", lambda: hull_corners(np.ones((3, 3)))),
        (NonFiniteError, "wrenches", lambda: independent_normals([[1.0, math.nan]])),
        (ShapeError, "wrenches: expected an array of 2 dim", lambda: independent_normals([1.0])),
        (DomainError, "edge: expected two different", lambda: edge_points([1, 2, 3], [1, 2, 3])),
        (ShapeError, "edge: expected two ends of 3", lambda: edge_points([1, 2], [1, 3])),
        (DomainError, "count: expected a whole number", lambda: disc_points(0.1, 2)),
        (DomainError, "radius", lambda: disc_points(-0.1, 6)),
    ],
)  # fmt: skip
def test_bad_input_is_refused(error, match, make):
    """Messages name the element, the expectation and the cure."""
    with pytest.raises(error, match=match):
        make()


def test_polygon_contacts_are_the_corners_of_the_hull():
    """Points inside and on edges are dropped, at any place and scale."""
    rng = np.random.default_rng(1)
    corners = np.array([[0.0, 0.0], [2.0, 0.3], [2.5, 1.5], [0.4, 1.9]])
    weights = rng.dirichlet(np.ones(4), 20)
    edge = [0.5 * (corners[k] + corners[k - 1]) for k in range(4)]
    points = np.vstack([weights @ corners, corners, edge, corners[:1]]) * 1e-3 + 7.0
    assert sorted(hull_corners(points)) == [20, 21, 22, 23]
    assert sorted(hull_corners([[0, 0], [1, 1], [3, 3], [2, 2]])) == [0, 2]
    assert hull_corners([[1, 2], [1, 2]]) == (0,)
    circle = disc_points(0.3, 12)[:, :2]
    assert sorted(hull_corners(circle)) == list(range(12))


def test_points_of_edges_and_discs():
    """Two ends; rim points at one distance, first at the phase."""
    assert_close(edge_points([0, 0, 0], [1, 2, 3]), [[0, 0, 0], [1, 2, 3]])
    rim = disc_points(0.2, 5, 0.3)
    assert_close(np.linalg.norm(rim, axis=1), [0.2] * 5)
    assert_close(rim[0], [0.2 * math.cos(0.3), 0.2 * math.sin(0.3), 0.0])
    assert_close(rim.sum(axis=0), [0, 0, 0])


def normals(points):
    """Return unit normals +z at points of a plane as wrenches about the origin."""
    return np.array([[*np.cross(p, [0, 0, 1]), 0, 0, 1] for p in points]).T


def test_inner_points_of_a_flat_contact_are_redundant():
    """E12: the wrench cone of a polygon is that of the corners of its hull."""
    rng = np.random.default_rng(2)
    points = np.hstack([rng.standard_normal((12, 2)), np.zeros((12, 1))])
    assert set(independent_normals(normals(points))) == set(hull_corners(points[:, :2]))


def test_contact_in_the_cone_of_others_is_redundant():
    """E19: a + b for a third contact; zero normals; three that add up to zero stay."""
    a, b = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.5])
    assert independent_normals(np.array([a, b, 2.0 * a + 0.3 * b, 0.0 * a]).T) == (0, 1)
    assert independent_normals(np.array([a, b, -a - b]).T) == (0, 1, 2)
    assert independent_normals(np.array([a, -a, b, b]).T) == (0, 1, 2)
    assert independent_normals(np.zeros((6, 3))) == ()


def test_the_wrench_cone_stays_the_same():
    """A normal is dropped just when SciPy's NNLS finds it in the cone of the kept ones."""
    rng = np.random.default_rng(3)
    dropped = 0
    for _ in range(60):
        rank, count = int(rng.integers(2, 7)), int(rng.integers(1, 11))
        wrenches = rng.standard_normal((rank, count))
        wrenches[0] = np.abs(wrenches[0])
        mixed = wrenches @ rng.exponential(size=(count, 3))
        both = np.hstack([mixed[:, :1], wrenches, mixed[:, 1:]])
        both = both[:, rng.permutation(both.shape[1])]
        kept = list(independent_normals(both))
        for k in range(both.shape[1]):
            unit = both[:, k] / np.linalg.norm(both[:, k])
            others = [i for i in kept if i != k]
            far = nnls(both[:, others], unit)[1] if others else 1.0
            assert (far < 1e-8) == (k not in kept)
        dropped += both.shape[1] - len(kept)
    assert dropped >= 180
