"""Dense 6x6 NumPy algebra, written from the definitions: the oracle of the structured types."""

import mpmath
import numpy as np

from tiburon.spatial import (
    ArticulatedInertia,
    AxisRotation,
    Force,
    Motion,
    RigidInertia,
    Rotation,
    Transform,
    Translation,
)

ROUND_OFF = 1e-12
"""Relative tolerance: values of order one to a hundred, a few dozen operations of 1.1e-16 each."""


def assert_close(actual, expected, tolerance=ROUND_OFF):
    """Compare two arrays, relative to the largest entry expected (at least one)."""
    actual, expected = np.asarray(actual, dtype=float), np.asarray(expected, dtype=float)
    assert actual.shape == expected.shape
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(actual, expected, rtol=0.0, atol=tolerance * scale)


def skew(a):
    """Return the matrix of a x."""
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


def exponential(matrix):
    """Return the matrix exponential, computed in 40 digits."""
    with mpmath.workdps(40):
        result = mpmath.expm(mpmath.matrix(np.asarray(matrix).tolist()), method="taylor")
        return np.array(result.tolist(), dtype=float)


def crm(v):
    """Return the 6x6 matrix of v x on motions."""
    return np.block([[skew(v[:3]), np.zeros((3, 3))], [skew(v[3:]), skew(v[:3])]])


def crf(v):
    """Return the 6x6 matrix of v x* on forces: minus the transpose of the one on motions."""
    return -crm(v).T


def plucker(E, r):
    """Return the 6x6 motion transform of rotation E and origin r (Featherstone 1987, eq. 2.18)."""
    return np.block([[E, np.zeros((3, 3))], [E @ skew(r).T, E]])


def rigid(mass, com, inertia_about_com):
    """Return the 6x6 rigid-body inertia by the parallel-axis rule."""
    c = skew(com)
    upper = np.asarray(inertia_about_com) + mass * c @ c.T
    return np.block([[upper, mass * c], [mass * c.T, mass * np.eye(3)]])


def passive(axis, angle):
    """Return the rotation matrix child-from-parent of a turn about a coordinate axis."""
    c, s = np.cos(angle), np.sin(angle)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    E = np.eye(3)
    E[i, i] = E[j, j] = c
    E[i, j], E[j, i] = s, -s
    return E


def random_rotation(rng):
    """Return a rotation matrix far from the identity."""
    Q, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    return Q * np.sign(np.linalg.det(Q))


def random_motion(rng):
    """Return a motion and its six numbers."""
    a = rng.normal(size=6)
    return Motion.from_array(a), a


def random_force(rng):
    """Return a force and its six numbers."""
    a = rng.normal(size=6)
    return Force.from_array(a), a


def random_rigid(rng):
    """Return a rigid inertia with all ten numbers nonzero, and its 6x6 matrix."""
    mass, com = rng.uniform(0.5, 3.0), rng.normal(size=3)
    R = random_rotation(rng)
    a, b = rng.uniform(0.1, 1.0, size=2)
    # principal moments of a body with extent in all three directions
    about_com = R @ np.diag([a, b, 0.8 * (a + b)]) @ R.T
    return RigidInertia.from_mass(mass, com, about_com), rigid(mass, com, about_com)


def random_articulated(rng):
    """Return a positive definite 21-number inertia, and its 6x6 matrix."""
    root = rng.normal(size=(6, 6))
    matrix = root @ root.T + np.eye(6)
    return ArticulatedInertia.from_matrix(matrix), matrix


def random_factor(rng, kind):
    """Return one elementary move of a kind, and its 6x6 matrix."""
    if kind == "translation":
        r = rng.normal(size=3)
        return Translation(tuple(r.tolist())), plucker(np.eye(3), r)
    if kind == "rotation":
        E = random_rotation(rng)
        return Rotation(tuple(tuple(row) for row in E.tolist())), plucker(E, np.zeros(3))
    axis, angle = "xyz".index(kind), rng.uniform(-3.0, 3.0)
    factor = AxisRotation(axis, float(np.cos(angle)), float(np.sin(angle)))
    return factor, plucker(passive(axis, angle), np.zeros(3))


def random_transform(rng, kinds=("translation", "x", "rotation", "y", "translation", "z")):
    """Return a transform of several moves, and its 6x6 matrix."""
    factors, X = [], np.eye(6)
    for kind in kinds:
        factor, matrix = random_factor(rng, kind)
        factors.append(factor)
        X = matrix @ X
    return Transform(tuple(factors)), X
