"""Sub-spaces of motions and forces: complements, components, bases and inertia dyads.

Analysis on floats. A sub-space is a matrix of shape (6, r) whose columns span it. The scalar
product is defined between a motion and a force only, so the complement and the reciprocal basis of
a motion sub-space are force sub-spaces and the other way round (Featherstone 1987, sec. 3.10).
The spatial transpose of the book is the ordinary transpose here, because moments come before
forces.

Symbols: S, T sub-space matrices, I inertia, Phi inverse inertia.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.arrays import NDArray
from tiburon.errors import DomainError, ShapeError
from tiburon.spatial.articulated import ArticulatedInertia
from tiburon.spatial.inertia import RigidInertia
from tiburon.spatial.vectors import Force, Motion

__all__ = [
    "InertiaDyads",
    "constrained_inverse_inertia",
    "inertia_dyads",
    "inertia_orthogonal_basis",
    "orthogonal_complement",
    "reciprocal_basis",
    "resolve",
    "subspace_matrix",
]

Array = NDArray[np.float64]
Columns = Array | Sequence[Motion] | Sequence[Force]
Inertia = RigidInertia | ArticulatedInertia | Array

# columns of unit length whose smallest singular value is below this are taken as dependent
_DEPENDENT = 1e-10


def subspace_matrix(columns: Columns, argument: str = "sub-space") -> Array:
    """Return the matrix of a sub-space given by its vectors or already as a matrix.

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
    """Return a basis of all vectors of the opposite kind that do no work on a sub-space.

    S^T S_perp = 0 (Featherstone 1987, eq. 3.25). For the motion subspace of a joint these are its
    reaction forces.

    Args:
        columns: Independent vectors, shape (6, r).

    Returns:
        Orthonormal columns in the Euclidean sense, shape (6, 6 - r).
    """
    S = subspace_matrix(columns)
    _check_independent(S, "sub-space")
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
    S, T = subspace_matrix(columns), subspace_matrix(dual, "dual sub-space")
    if S.shape != T.shape:
        raise ShapeError("dual sub-space", S.shape, T.shape)
    a = np.asarray(list(vector), dtype=np.float64)
    _check_independent(S, "sub-space")
    _check_independent(T, "dual sub-space")
    pairing = T.T @ S
    singular = np.linalg.svd(pairing, compute_uv=False)
    scale = np.linalg.norm(S) * np.linalg.norm(T)
    if singular.size and singular[-1] < _DEPENDENT * scale:
        raise DomainError(
            "dual sub-space",
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
    """Return a basis of the same sub-space with s_i . I s_j = 0 for i != j and 1 for i = j.

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
    _check_independent(S, "sub-space")
    for i in range(S.shape[1]):
        # twice is enough: the second sweep removes rounding errors of the first
        for _ in range(2):
            S[:, i] -= S[:, :i] @ (S[:, :i].T @ (I @ S[:, i]))
        square = float(S[:, i] @ I @ S[:, i])
        if not square > 0.0:
            raise DomainError(
                "inertia",
                "a positive definite matrix on the sub-space",
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
    """Return the inverse inertia of a body that can only move in a sub-space.

    Phi = S (S^T I S)^-1 S^T, of rank r (Featherstone 1987, sec. 3.10, examples 3 and 4).

    Args:
        columns: The motions allowed, independent, shape (6, r).
        inertia: Inertia of the free body, or its matrix, shape (6, 6).

    Returns:
        Map from an applied force to the acceleration from rest, shape (6, 6).
    """
    s = inertia_orthogonal_basis(columns, inertia)
    return s @ s.T
