"""Screws and subspaces of motions and forces: complements, components, bases and inertia dyads.

Every spatial vector is the sum of a line vector (a turn about an axis, a force along a line) and
a free vector (a pure translation, a couple). Taken parallel, the two make a screw with an axis and
a pitch, which no change of frame alters (Featherstone 1987, sec. 2.3.1).

A subspace is a matrix of floats, shape (6, r), whose columns span it. The scalar product is defined
between a motion and a force only, so the complement and the reciprocal basis of a motion subspace
are force subspaces and the other way round (Featherstone 1987, sec. 3.10). The spatial transpose of
the book is the ordinary transpose here, because moments come before forces.

Symbols: a the direction part that names the line (angular of a motion, force of a force), a_O the
other part, rho the pitch; S, T subspace matrices, I inertia, Phi inverse inertia.
"""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from tiburon.arrays import Array
from tiburon.errors import DomainError, ShapeError
from tiburon.record import record
from tiburon.spatial.inertia import ArticulatedInertia, RigidInertia
from tiburon.spatial.vec3 import (
    ZERO3,
    Scalar,
    Scalars,
    Vec3,
    add_cross,
    cross,
    dot,
    scale,
    subtract,
    vec3,
)
from tiburon.spatial.vectors import Force, Motion

SpatialVector = TypeVar("SpatialVector", Motion, Force)


@record
class Screw(Generic[SpatialVector]):
    """A spatial vector taken apart into a line vector and a parallel free vector."""

    line: SpatialVector
    """The part along the screw axis: a pure rotation, or a pure force."""

    free: SpatialVector
    """The parallel rest: a pure translation, or a couple."""

    pitch: Scalar
    """Free part per line part: m/rad for a motion, m for a force."""

    point: Vec3
    """Point of the screw axis nearest the origin, frame axes [m]."""


def decompose(vector: SpatialVector) -> Screw[SpatialVector]:
    """Take a spatial vector apart: a = [a; a_O - rho a] + [0; rho a], rho = a . a_O / a . a.

    Featherstone 1987, sec. 2.3.1.

    Args:
        vector: A motion with nonzero angular part, or a force with nonzero linear part.
    """
    a, a_O = _line_and_free(vector)
    square = dot(a, a)
    rho = dot(a, a_O) / square
    moment = subtract(a_O, scale(a, rho))
    point = cross(a, moment)
    return Screw(
        line=_join(vector, a, moment),
        free=_join(vector, ZERO3, scale(a, rho)),
        pitch=rho,
        point=(point[0] / square, point[1] / square, point[2] / square),
    )


def _line_and_free(vector: SpatialVector) -> tuple[Vec3, Vec3]:
    """Return the part that names the line, and the other one."""
    if isinstance(vector, Motion):
        return vector.angular, vector.linear
    return vector.force, vector.moment


def _join(kind: SpatialVector, line: Vec3, free: Vec3) -> SpatialVector:
    """Build a vector of the same kind from its line and free parts."""
    if isinstance(kind, Motion):
        return Motion(line, free)
    return Force(free, line)


def line_motion(omega: Scalars, point: Scalars, pitch: Scalar = 0.0) -> Motion:
    """Return the motion of turning about a line, and sliding along it by pitch per radian.

    Args:
        omega: Angular velocity, frame axes [rad/s], shape (3,).
        point: Any point of the line, frame axes [m], shape (3,).
        pitch: Slide along the line per turn [m/rad].
    """
    w = vec3(omega, "omega")
    # the body point at the origin moves as if tied to the line: v_O = r x omega
    return Motion(w, add_cross(scale(w, pitch), vec3(point, "point"), w))


def free_motion(velocity: Scalars) -> Motion:
    """Return the motion of pure translation, velocity in frame axes [m/s], shape (3,)."""
    return Motion(ZERO3, vec3(velocity, "velocity"))


def revolute_axis(axis: Scalars, point: Scalars = ZERO3) -> Motion:
    """Return the axis of a revolute joint: a unit line vector (Featherstone 1987, sec. 2.3.2).

    Args:
        axis: Unit vector, frame axes, shape (3,).
        point: Any point of the axis, frame axes [m], shape (3,).
    """
    return line_motion(axis, point)


def prismatic_axis(axis: Scalars) -> Motion:
    """Return the axis of a prismatic joint: a unit free vector (sec. 2.3.2), shape (3,)."""
    return free_motion(axis)


def screw_axis(axis: Scalars, pitch: Scalar, point: Scalars = ZERO3) -> Motion:
    """Return the axis of a screw joint: a unit line vector plus pitch times the parallel free one.

    Args:
        axis: Unit vector, frame axes, shape (3,).
        pitch: Slide per turn [m/rad].
        point: Any point of the axis, frame axes [m], shape (3,).
    """
    return line_motion(axis, point, pitch)


def screw_unit_force(axis: Scalars, pitch: Scalar, point: Scalars = ZERO3) -> Force:
    """Return the force along a screw axis that does unit work on the unit screw motion.

    A force rho / (1 + rho^2) along the axis and a couple 1 / (1 + rho^2) about it (Featherstone
    1987, sec. 7.3).

    Args:
        axis: Unit vector, frame axes, shape (3,).
        pitch: Slide per turn rho [m/rad].
        point: Any point of the axis, frame axes [m], shape (3,).
    """
    n = vec3(axis, "axis")
    share = 1.0 / (1.0 + pitch * pitch)
    return Force.at_point(scale(n, pitch * share), point, couple=scale(n, share))


Columns = Array | Sequence[Motion] | Sequence[Force]
Inertia = RigidInertia | ArticulatedInertia | Array

# columns of unit length whose smallest singular value is below this are taken as dependent
_DEPENDENT = 1e-10


def subspace_matrix(columns: Columns, argument: str = "subspace") -> Array:
    """Return the matrix of a subspace given by its vectors or already as a matrix.

    Args:
        columns: Motions or forces, or an array of shape (6, r).
        argument: Name used in messages.

    Returns:
        Matrix of shape (6, r).

    Raises:
        ShapeError: The array does not have six rows.
    """
    if isinstance(columns, np.ndarray):
        matrix = np.asarray(columns, dtype=np.float64)
    else:
        vectors = [vector.array for vector in columns]
        matrix = np.stack(vectors, axis=1) if vectors else np.zeros((6, 0))
    if matrix.ndim != 2 or matrix.shape[0] != 6:
        raise ShapeError(argument, "(6, r)", matrix.shape, advice="vectors are columns")
    return matrix


def _check_independent(matrix: Array, argument: str) -> None:
    """Raise unless the columns of a matrix are linearly independent."""
    lengths = np.linalg.norm(matrix, axis=0)
    if not np.all(lengths > 0.0):
        raise DomainError(argument, "nonzero vectors", "a zero vector", advice="drop it")
    if matrix.shape[1] == 0:
        return
    # lengths carry units of the caller's choice: only directions decide
    smallest = np.linalg.svd(matrix / lengths, compute_uv=False)[-1]
    if matrix.shape[1] > 6 or smallest < _DEPENDENT:
        raise DomainError(
            argument,
            "linearly independent vectors",
            f"{matrix.shape[1]} vectors with smallest singular value {smallest:.3g}",
            advice="drop the dependent ones",
        )


def orthogonal_complement(columns: Columns) -> Array:
    """Return a basis of all vectors of the opposite kind that do no work on a subspace.

    S^T S_perp = 0 (Featherstone 1987, eq. 3.25). For the motion subspace of a joint these are its
    reaction forces.

    Args:
        columns: Independent vectors, shape (6, r).

    Returns:
        Orthonormal columns in the Euclidean sense, shape (6, 6 - r).
    """
    S = subspace_matrix(columns)
    _check_independent(S, "subspace")
    Q, _ = np.linalg.qr(S, mode="complete")
    return Q[:, S.shape[1] :]


def resolve(vector: Any, columns: Columns, dual: Columns) -> tuple[Array, Array]:
    """Split a vector into a part in S and a rest on which T does no work.

    a = S alpha + rest, T^T rest = 0, alpha = (T^T S)^-1 T^T a (Featherstone 1987, eq. 3.27).

    Args:
        vector: Six elements, or a motion or force, of the kind of S.
        columns: S, shape (6, r).
        dual: T, of the opposite kind, shape (6, r).

    Returns:
        The components alpha, shape (r,), and the rest, shape (6,).

    Raises:
        DomainError: Some vector of S does no work on any of T: the split is not unique.
    """
    S, T = subspace_matrix(columns), subspace_matrix(dual, "dual subspace")
    if S.shape != T.shape:
        raise ShapeError("dual subspace", S.shape, T.shape)
    a = np.asarray(list(vector), dtype=np.float64)
    _check_independent(S, "subspace")
    _check_independent(T, "dual subspace")
    pairing = T.T @ S
    singular = np.linalg.svd(pairing, compute_uv=False)
    scale = np.linalg.norm(S) * np.linalg.norm(T)
    if singular.size and singular[-1] < _DEPENDENT * scale:
        raise DomainError(
            "dual subspace",
            "T^T S invertible",
            f"smallest singular value {singular[-1]:.3g}",
            advice="choose T so that every vector of S does work on some vector of T",
        )
    alpha: Array = np.linalg.solve(pairing, T.T @ a).astype(np.float64)
    return alpha, a - S @ alpha


def reciprocal_basis(columns: Columns) -> Array:
    """Return the vectors of the opposite kind with f_i . e_j = 1 if i = j, else 0.

    Featherstone 1987, eq. 3.28. They extract components: v = sum e_i v_i implies v_i = f_i . v
    (eq. 3.29). For fewer than six vectors the reciprocal ones are taken in the same span.

    Args:
        columns: Independent vectors, shape (6, r).

    Returns:
        Reciprocal vectors as columns, shape (6, r).
    """
    E = subspace_matrix(columns)
    _check_independent(E, "basis")
    return np.linalg.pinv(E).T.astype(np.float64)


def _inertia_matrix(inertia: Inertia) -> Array:
    """Return an inertia as a 6x6 array of floats."""
    if isinstance(inertia, np.ndarray):
        matrix = np.asarray(inertia, dtype=np.float64)
        if matrix.shape != (6, 6):
            raise ShapeError("inertia", (6, 6), matrix.shape)
        return matrix
    return np.asarray(inertia.matrix(), dtype=np.float64)


def inertia_orthogonal_basis(columns: Columns, inertia: Inertia) -> Array:
    """Return a basis of the same subspace with s_i . I s_j = 0 for i != j and 1 for i = j.

    Gram-Schmidt in the inner product of the inertia (Featherstone 1987, sec. 3.10.3).

    Args:
        columns: Independent motions, shape (6, r).
        inertia: Positive definite inertia, or its matrix, shape (6, 6).

    Returns:
        Orthonormal motions with respect to the inertia, shape (6, r).

    Raises:
        DomainError: A motion meets no inertia.
    """
    S, I = subspace_matrix(columns).copy(), _inertia_matrix(inertia)
    _check_independent(S, "subspace")
    for i in range(S.shape[1]):
        # twice is enough: the second sweep removes rounding errors of the first
        for _ in range(2):
            S[:, i] -= S[:, :i] @ (S[:, :i].T @ (I @ S[:, i]))
        square = float(S[:, i] @ I @ S[:, i])
        if not square > 0.0:
            raise DomainError(
                "inertia",
                "a positive definite matrix on the subspace",
                f"s . I s = {square:.3g} for vector {i}",
                advice="give every moving body mass",
            )
        S[:, i] /= np.sqrt(square)
    return S


class InertiaDyads(NamedTuple):
    """The rank-one parts of an inertia in one inertia-orthogonal basis, shape (6, 6, 6) each."""

    inertia: Array
    """Parts I s s^T I / (s . I s): they add up to I (eq. 3.31)."""

    inverse: Array
    """Parts s s^T / (s . I s): they add up to the inverse inertia (eq. 3.32)."""

    identity: Array
    """Parts I s s^T / (s . I s): they add up to the identity on forces (eq. 3.33)."""


def inertia_dyads(basis: Columns, inertia: Inertia) -> InertiaDyads:
    """Return the dyads of an inertia (Featherstone 1987, eqs. 3.30-3.33).

    Args:
        basis: Six independent motions, made orthogonal with respect to the inertia first.
        inertia: Positive definite inertia, or its matrix, shape (6, 6).
    """
    I = _inertia_matrix(inertia)
    s = inertia_orthogonal_basis(basis, I)
    Is = I @ s
    return InertiaDyads(
        inertia=np.einsum("ik,jk->kij", Is, Is),
        inverse=np.einsum("ik,jk->kij", s, s),
        identity=np.einsum("ik,jk->kij", Is, s),
    )


def constrained_inverse_inertia(columns: Columns, inertia: Inertia) -> Array:
    """Return the inverse inertia of a body that can only move in a subspace.

    Phi = S (S^T I S)^-1 S^T, of rank r (Featherstone 1987, sec. 3.10, examples 3 and 4).

    Args:
        columns: The motions allowed, independent, shape (6, r).
        inertia: Inertia of the free body, or its matrix, shape (6, 6).

    Returns:
        Map from an applied force to the acceleration from rest, shape (6, 6).
    """
    s = inertia_orthogonal_basis(columns, inertia)
    return s @ s.T
