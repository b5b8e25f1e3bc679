"""Sub-spaces, reciprocal bases and inertia dyads (rows A14, A19-A23, K8)."""

import numpy as np
import pytest

from tests.spatial.dense import assert_close, random_articulated, random_force, random_rigid
from tiburon.errors import DomainError, ShapeError
from tiburon.spatial import (
    Motion,
    constrained_inverse_inertia,
    inertia_dyads,
    inertia_orthogonal_basis,
    orthogonal_complement,
    prismatic_axis,
    reciprocal_basis,
    resolve,
    revolute_axis,
    subspace_matrix,
)


@pytest.fixture
def rng():
    """Return a seeded source of random numbers."""
    return np.random.default_rng(310)


def test_joint_sub_spaces_are_columns():
    """K8: revolute e3, prismatic e6, ball 6x3."""
    eye = np.eye(6)
    assert_close(subspace_matrix([revolute_axis((0, 0, 1))]), eye[:, [2]])
    assert_close(subspace_matrix([prismatic_axis((0, 0, 1))]), eye[:, [5]])
    ball = [revolute_axis(tuple(row)) for row in np.eye(3)]
    assert_close(subspace_matrix(ball), eye[:, :3])
    assert subspace_matrix([]).shape == (6, 0)


@pytest.mark.parametrize("r", range(7))
def test_orthogonal_complement_does_no_work(r, rng):
    """A19: S^T S_perp = 0, of dimension 6 - r (eq. 3.25), and both together span everything."""
    S = rng.normal(size=(6, r))
    T = orthogonal_complement(S)
    assert T.shape == (6, 6 - r)
    assert_close(S.T @ T, np.zeros((r, 6 - r)))
    assert np.linalg.matrix_rank(np.hstack([S, T])) == 6


def test_reaction_forces_of_a_revolute_joint_have_no_moment_about_it(rng):
    """A19: the complement of a joint axis are the forces its bearing can carry."""
    s = revolute_axis((0.6, 0.0, 0.8), rng.normal(size=3))
    T = orthogonal_complement([s])
    assert T.shape == (6, 5)
    assert_close(T.T @ s.array, np.zeros(5))


@pytest.mark.parametrize("r", [1, 3, 5, 6])
def test_components_sum_to_the_vector(r, rng):
    """A20: a = S alpha + rest with T^T rest = 0 (eqs. 3.26, 3.27)."""
    S, T, a = rng.normal(size=(6, r)), rng.normal(size=(6, r)), rng.normal(size=6)
    alpha, rest = resolve(a, S, T)
    assert_close(S @ alpha + rest, a)
    # the random r x r pairing has a condition number up to about 1e2
    assert_close(T.T @ rest, np.zeros(r), 1e-11)
    known = rng.normal(size=r)
    assert_close(resolve(S @ known, S, T)[0], known, 1e-11)


def test_resolving_accepts_motions(rng):
    """A20: vectors may be given as motions and forces."""
    s, t = Motion.from_array(rng.normal(size=6)), random_force(rng)[0]
    alpha, rest = resolve(s * 2.5, [s], [t])
    assert_close(alpha, [2.5])
    assert_close(rest, np.zeros(6))


def test_a_split_that_is_not_unique_is_refused(rng):
    """A20: T^T S must be invertible."""
    S = rng.normal(size=(6, 2))
    T = orthogonal_complement(S)[:, :2]
    with pytest.raises(DomainError, match=r"T\^T S invertible"):
        resolve(np.ones(6), S, T)
    with pytest.raises(ShapeError, match="dual subspace"):
        resolve(np.ones(6), S, T[:, :1])


@pytest.mark.parametrize("r", [1, 4, 6])
def test_reciprocal_basis_reads_off_components(r, rng):
    """A22: f_i . e_j = delta_ij (eq. 3.28) and v_i = f_i . v (eq. 3.29)."""
    E, v = rng.normal(size=(6, r)), rng.normal(size=r)
    F = reciprocal_basis(E)
    assert_close(F.T @ E, np.eye(r), 1e-11)
    assert_close(F.T @ (E @ v), v, 1e-11)


@pytest.mark.parametrize("r", [1, 4, 6])
def test_inertia_orthogonal_basis_spans_the_same_space(r, rng):
    """A22: s_i . I s_j = delta_ij, and no vector of the sub-space is lost."""
    S, (inertia, I) = rng.normal(size=(6, r)), random_articulated(rng)
    s = inertia_orthogonal_basis(S, inertia)
    assert_close(s.T @ I @ s, np.eye(r))
    assert np.linalg.matrix_rank(np.hstack([S, s]), tol=1e-9) == r


def test_dyads_add_up_to_inertia_inverse_and_identity(rng):
    """A23: eqs. 3.31-3.33; the right side of 3.33 is the identity. Each part has rank one."""
    inertia, I = random_rigid(rng)
    dyads = inertia_dyads(rng.normal(size=(6, 6)), inertia)
    # six Gram-Schmidt steps on inertias with condition numbers up to about 1e3
    assert_close(dyads.inertia.sum(axis=0), I, 1e-11)
    assert_close(dyads.inverse.sum(axis=0), np.linalg.inv(I), 1e-11)
    assert_close(dyads.identity.sum(axis=0), np.eye(6), 1e-11)
    for parts in dyads:
        assert {np.linalg.matrix_rank(part, tol=1e-9) for part in parts} == {1}


@pytest.mark.parametrize("r", [0, 1, 3, 6])
def test_constrained_body_accelerates_in_its_degrees_of_freedom(r, rng):
    """A14, A21: Phi = S (S^T I S)^-1 S^T is symmetric, of rank r, blind to reaction forces."""
    (inertia, I), S = random_rigid(rng), rng.normal(size=(6, r))
    Phi = constrained_inverse_inertia(S, inertia)
    assert_close(Phi, Phi.T)
    assert np.linalg.matrix_rank(Phi, tol=1e-9) == r
    assert_close(Phi, S @ np.linalg.solve(S.T @ I @ S, S.T) if r else np.zeros((6, 6)), 1e-10)
    assert_close(Phi @ orthogonal_complement(S), np.zeros((6, 6 - r)), 1e-11)
    if r == 6:
        assert_close(Phi, inertia.inverse(), 1e-10)


def test_constrained_acceleration_leaves_a_reaction_only(rng):
    """A21: the force not spent on I a does no work on the allowed motions (example 3)."""
    (inertia, I), S, (f, b) = random_rigid(rng), rng.normal(size=(6, 2)), random_force(rng)
    a = constrained_inverse_inertia(S, inertia) @ b
    assert_close(S.T @ (b - I @ a), np.zeros(2), 1e-11)
    alone = inertia.solve(f)
    assert not np.allclose(a, alone.array)


def test_dependent_vectors_and_bad_inertias_are_refused(rng):
    """Messages name the argument and what to do."""
    S = rng.normal(size=(6, 2))
    dependent = np.column_stack([S, S @ [1.0, -2.0]])
    with pytest.raises(DomainError, match="linearly independent vectors, got 3 vectors"):
        orthogonal_complement(dependent)
    with pytest.raises(DomainError, match="zero vector"):
        reciprocal_basis(np.zeros((6, 1)))
    with pytest.raises(DomainError, match="linearly independent"):
        reciprocal_basis(rng.normal(size=(6, 7)))
    with pytest.raises(ShapeError, match=r"expected \(6, r\), got \(3, 2\)"):
        orthogonal_complement(np.ones((3, 2)))
    with pytest.raises(DomainError, match="positive definite"):
        inertia_orthogonal_basis(S, np.zeros((6, 6)))
    with pytest.raises(ShapeError, match="inertia"):
        inertia_orthogonal_basis(S, np.eye(3))
