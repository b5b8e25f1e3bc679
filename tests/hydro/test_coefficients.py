"""Water numbers of simple shapes against published values."""

import math

import numpy as np
import pytest

from tests.tolerances import assert_close
from tiburon.errors import DomainError, ModelError
from tiburon.hydro.coefficients import (
    carlson_rd,
    ellipsoid_added_mass,
    estimate_hydrodynamics,
    lamb_coefficients,
)
from tiburon.model import Pose, Shape
from tiburon.model.body import (
    BoxShape,
    CapsuleShape,
    CylinderShape,
    EllipsoidShape,
    MeshShape,
    PlaneShape,
    SphereShape,
)

RHO = 1000.0


@pytest.mark.parametrize("ratio", [1.01, 1.5, 2.0, 5.0, 20.0])
def test_long_spheroids_in_closed_form(ratio):
    """Lamb 1932, art. 114: logarithms in place of the integrals, e the eccentricity."""
    e = math.sqrt(1.0 - 1.0 / ratio**2)
    logarithm = math.log((1.0 + e) / (1.0 - e))
    alpha = 2.0 * (1.0 - e * e) / e**3 * (0.5 * logarithm - e)
    beta = 1.0 / e**2 - (1.0 - e * e) / (2.0 * e**3) * logarithm
    turning = e**4 * (beta - alpha) / ((2 - e * e) * (2 * e * e - (2 - e * e) * (beta - alpha)))
    moments, masses = ellipsoid_added_mass((ratio, 1.0, 1.0), RHO)
    displaced = RHO * 4.0 / 3.0 * math.pi * ratio
    # near the sphere the closed forms lose digits, as e^3
    tolerance = 1e-13 / e**6
    assert_close(masses[0], displaced * alpha / (2.0 - alpha), tolerance)
    assert_close(masses[1], displaced * beta / (2.0 - beta), tolerance)
    assert_close(moments[1], displaced * (ratio**2 + 1.0) / 5.0 * turning, tolerance)
    assert moments[0] == 0.0


@pytest.mark.parametrize(
    ("ratio", "along", "across", "turning"),
    # length by width; added by displaced mass along, across, turning
    [(1.50, 0.305, 0.621, 0.094), (3.99, 0.082, 0.860, 0.608), (9.97, 0.021, 0.960, 0.883)],
)
def test_spheroids_of_lambs_table(ratio, along, across, turning):
    """Lamb 1932, art. 115; computed by hand, to a unit or two of the third digit."""
    moments, masses = ellipsoid_added_mass((ratio, 1.0, 1.0), RHO)
    displaced = RHO * 4.0 / 3.0 * math.pi * ratio
    found = (
        masses[0] / displaced,
        masses[1] / displaced,
        moments[1] / (displaced * (ratio**2 + 1.0) / 5.0),
    )
    assert_close(found, (along, across, turning), 2e-3)


def test_sphere_and_disk():
    """Half the displaced mass; 8/3 rho r^3 and 16/45 rho r^5 (Lamb, arts. 92, 102, 108)."""
    r = 0.7
    _, masses = ellipsoid_added_mass((r, r, r), RHO)
    assert_close(masses, (RHO * 2 / 3 * math.pi * r**3,) * 3)
    moments, masses = ellipsoid_added_mass((r, r, 1e-6 * r), RHO)
    # a disk is approached linearly in its thickness
    assert_close(masses[2], 8 / 3 * RHO * r**3, 1e-5)
    assert_close(moments[0], 16 / 45 * RHO * r**5, 1e-5)


def test_integrals_of_an_ellipsoid_sum_to_two():
    for radii in ((1.0, 0.3, 0.2), (5.0, 4.0, 1e-3), (1.0, 1.0, 1.0)):
        assert_close(sum(lamb_coefficients(radii)), 2.0)


def test_carlsons_integral_has_the_right_scale():
    """R_D(x, x, x) = x^(-3/2), and degree -3/2."""
    assert_close(carlson_rd(2.0, 2.0, 2.0), 2.0**-1.5)
    assert_close(carlson_rd(3.0, 6.0, 9.0), 3.0**-1.5 * carlson_rd(1.0, 2.0, 3.0))


def test_an_ellipsoid_turns_in_any_order_of_its_axes():
    moments, masses = ellipsoid_added_mass((1.0, 0.6, 0.3), RHO)
    turned_moments, turned_masses = ellipsoid_added_mass((0.3, 1.0, 0.6), RHO)
    assert_close(turned_masses, np.roll(masses, 1))
    assert_close(turned_moments, np.roll(moments, 1))


SHAPES = [
    SphereShape(0.3),
    EllipsoidShape((0.5, 0.3, 0.2)),
    CylinderShape(0.1, 1.0),
    CapsuleShape(0.1, 0.8),
    BoxShape((1.0, 0.5, 0.3)),
]


@pytest.mark.parametrize("geometry", SHAPES)
def test_coefficients_of_a_shape_follow_its_pose(geometry):
    """The water's energy does not depend on how the body axes lie in the shape."""
    pose = Pose.from_rpy((0.4, -0.7, 1.1), translation=(0.3, -0.2, 0.5))
    here = estimate_hydrodynamics([Shape(geometry)], RHO).fluid
    there = estimate_hydrodynamics([Shape(geometry, pose=pose)], RHO).fluid
    R, p = np.array(pose.rotation), np.array(pose.translation)
    w, v = np.array([0.3, -0.5, 0.7]), np.array([1.0, 0.4, -0.2])
    W = R @ w
    V = R @ v - np.cross(W, p)
    own, moved = np.concatenate([w, v]), np.concatenate([W, V])
    assert_close(moved @ np.array(there.added_mass) @ moved, own @ np.array(here.added_mass) @ own)
    assert_close(there.center_of_buoyancy, p)
    assert_close(there.volume, here.volume)


def test_plates_and_prisms_of_the_tables():
    """DNV-RP-H103 table A-2: a square and a 2:1 plate, a cube, a long cylinder."""
    square = estimate_hydrodynamics([Shape(BoxShape((1.0, 1.0, 1e-9)))], RHO).fluid
    assert_close(square.added_mass[5][5], 0.579 * RHO * math.pi / 4, 1e-6)
    plate = estimate_hydrodynamics([Shape(BoxShape((2.0, 1.0, 1e-9)))], RHO).fluid
    assert_close(plate.added_mass[5][5], 0.757 * RHO * math.pi / 4 * 2.0, 1e-6)
    cube = estimate_hydrodynamics([Shape(BoxShape((1.0, 1.0, 1.0)))], RHO).fluid
    assert_close(np.diag(cube.added_mass)[3:], (0.68 * RHO,) * 3, 1e-12)
    rod = estimate_hydrodynamics([Shape(CylinderShape(0.1, 1.0))], RHO).fluid
    assert_close(rod.added_mass[3][3], 0.90 * RHO * math.pi * 0.01, 1e-12)


def test_coefficients_state_their_quality():
    ball = estimate_hydrodynamics([Shape(SphereShape(0.3))])
    assert ball.quality == {
        "volume": "exact",
        "added_mass": "exact",
        "added_moments": "exact",
        "drag": "fitted",
    }
    # the tables of boxes are of straight motion; how they turn is that of an ellipsoid
    box = estimate_hydrodynamics(Shape(BoxShape((1.0, 0.6, 0.4))))
    assert (box.quality["added_mass"], box.quality["added_moments"]) == ("fitted", "guessed")
    both = estimate_hydrodynamics([Shape(SphereShape(0.3)), Shape(CylinderShape(0.1, 1.0))])
    assert set(both.quality.values()) == {"guessed"}
    assert_close(both.fluid.volume, 4 / 3 * math.pi * 0.027 + math.pi * 0.01)


def test_shapes_without_known_coefficients_are_refused():
    with pytest.raises(ModelError, match="at least one shape"):
        estimate_hydrodynamics([])
    with pytest.raises(ModelError, match="simple shape"):
        estimate_hydrodynamics([Shape(PlaneShape())])
    with pytest.raises(ModelError, match=r"hull.stl: there is no such file"):
        estimate_hydrodynamics([Shape(MeshShape("hull.stl"))])
    with pytest.raises(ModelError, match="package_paths"):
        estimate_hydrodynamics([Shape(MeshShape("package://robot/hull.stl"))])
    with pytest.raises(ModelError, match=r"expected shapes, got SphereShape.*write Shape"):
        estimate_hydrodynamics([SphereShape(0.3)])
    for density in (-1.0, math.nan):
        with pytest.raises(ModelError, match="hydrodynamic coefficients: density must be"):
            estimate_hydrodynamics([Shape(SphereShape(0.3))], density)
    with pytest.raises(DomainError, match="radii"):
        lamb_coefficients((1.0, -0.2, 0.3))
