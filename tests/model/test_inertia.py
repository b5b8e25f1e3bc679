"""Inertias: input forms, shapes against integrals, physical checks."""

import numpy as np
import pytest

from tests.model.samples import ROUNDING, random_inertia
from tiburon.errors import ModelError
from tiburon.model import Body, Fixed, Inertia


def test_tensor_may_be_matrix_diagonal_or_six_entries():
    matrix = Inertia(1.0, tensor=[[3, 0.1, 0.2], [0.1, 4, 0.3], [0.2, 0.3, 5]])
    assert matrix.tensor == (3, 0.1, 0.2, 4, 0.3, 5)
    assert Inertia(1.0, tensor=(3, 0.1, 0.2, 4, 0.3, 5)) == matrix
    assert Inertia(1.0, tensor=(3, 4, 5)).tensor == (3, 0, 0, 4, 0, 5)
    np.testing.assert_array_equal(matrix.matrix, matrix.matrix.T)


def test_rigid_inertia_is_that_about_the_origin():
    inertia = random_inertia(np.random.default_rng(1))
    m, c = inertia.mass, np.array(inertia.com)
    skew = np.cross(np.eye(3), c)  # rows e_i x c: the matrix of c x
    M = np.block([[inertia.matrix + m * skew @ skew.T, m * skew], [m * skew.T, m * np.eye(3)]])
    np.testing.assert_allclose(inertia.rigid.matrix(), M, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_solid_shapes_agree_with_sampled_points(axis):
    rng = np.random.default_rng(5)
    points = rng.uniform(-0.5, 0.5, (200_000, 3)) * [0.2, 0.4, 0.6]
    check_against_points(Inertia.box(2.0, (0.2, 0.4, 0.6)), points)
    cube = rng.uniform(-1, 1, (200_000, 3))
    ball = 0.3 * cube[np.linalg.norm(cube, axis=1) < 1]
    check_against_points(Inertia.sphere(2.0, 0.3), ball)
    check_against_points(Inertia.ellipsoid(2.0, (0.3, 0.6, 0.15)), ball * [1.0, 2.0, 0.5])
    assert Inertia.ellipsoid(2.0, (0.3, 0.3, 0.3)) == Inertia.sphere(2.0, 0.3)
    across = [i for i in range(3) if i != axis]
    rod = cube[np.linalg.norm(cube[:, across], axis=1) < 1]
    size = np.full(3, 0.3)
    size[axis] = 0.25
    check_against_points(Inertia.cylinder(2.0, 0.3, 0.5, axis=axis), rod * size)


def check_against_points(inertia, points):
    """Compare with the sum over equal point masses; sampling errors are about 1/sqrt(100 000)."""
    m = inertia.mass / len(points)
    sampled = m * (np.sum(points * points) * np.eye(3) - points.T @ points)
    np.testing.assert_allclose(inertia.matrix, sampled, rtol=0, atol=0.01 * np.abs(sampled).max())


def test_point_mass_has_no_tensor():
    point = Inertia.point(2.0, (0, 0, 1))
    assert point.tensor == (0,) * 6
    assert not point.is_definite
    assert Inertia.sphere(1.0, 0.1).is_definite
    assert not Inertia().is_definite


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Inertia(1.0, tensor=[[1, 2, 0], [0, 1, 0], [0, 0, 1]]), "must be symmetric, got"),
        (lambda: Inertia(1.0, tensor=(1, 2)), "3 x 3 matrix, 3 diagonal entries or 6 entries"),
        (lambda: Inertia(1.0, tensor=[[1, 2], [3]]), "3 x 3 matrix, 3 diagonal entries"),
        (lambda: Inertia(np.nan), "mass must be finite, got nan"),
        (lambda: Inertia(-1.0), "inertia: mass must be positive, got -1 kg"),
        (lambda: Inertia.sphere(-1.0, 0.1), "inertia: mass must be positive, got -1 kg"),
        (lambda: Inertia((1, 2)), "mass must be one number, got shape (2,)"),
        (lambda: Inertia(1.0, com=(0, np.inf, 0)), "center of mass must be finite"),
        (lambda: Inertia(1.0, tensor=(1, np.nan, 1)), "tensor must be finite"),
        (lambda: Inertia.cylinder(1, 1, 1, axis=3), "cylinder axis must be 0, 1 or 2, got 3"),
        (lambda: Inertia.box(1.0, (1.0, -2.0, 3.0)), "box size must be at least 0, got -2"),
        (lambda: Inertia.ellipsoid(1.0, (1.0, 2.0, -3.0)), "radii must be at least 0, got -3"),
    ],
)
def test_unreadable_inertia_is_refused(make, message):
    with pytest.raises(ModelError) as caught:
        make()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("inertia", "message"),
    [
        (Inertia(0.0, com=(1, 0, 0)), "body 'link': a massless body cannot have an inertia"),
        (Inertia(0.0, tensor=(1, 1, 1)), "body 'link': a massless body cannot have an inertia"),
        (Inertia(1.0, tensor=(-1, 1, 1)), "must not be negative, got -1, 1, 1 kg m^2"),
        (
            Inertia(1.0, tensor=(1, 2, 3.1)),
            "triangle inequality a + b >= c within 1e-06 c, got 1 +",
        ),
    ],
)
def test_impossible_inertia_is_refused_by_the_body(inertia, message):
    with pytest.raises(ModelError) as caught:
        Body("link", joint=Fixed("weld"), inertia=inertia)
    assert message in str(caught.value)
    assert caught.value.name == "link"


def test_thin_plate_passes_the_triangle_inequality():
    plate = Inertia(1.0, tensor=(1.0, 2.0, 3.0 + 2e-6))
    assert Body("link", joint=Fixed("weld"), inertia=plate).inertia == plate
