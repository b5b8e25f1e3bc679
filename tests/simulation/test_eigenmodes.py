"""Eigenvalues with zeros distinguished, on matrices whose eigenvalues are known."""

import numpy as np
import pytest

from tests.tolerances import assert_close
from tiburon.simulation.eigenmodes import eigen_modes


def known(seed, scales=1.0):
    """A matrix of eight with two drifting directions, one constant one, a pair and a decay."""
    blocks = [
        np.array([[0.0, 1.0], [0.0, 0.0]]),
        np.array([[0.0, 3.0], [0.0, 0.0]]),
        np.array([[0.0]]),
        np.array([[-0.3, 2.0], [-2.0, -0.3]]),
        np.array([[-1.7]]),
    ]
    A = np.zeros((8, 8))
    at = 0
    for block in blocks:
        A[at : at + len(block), at : at + len(block)] = block
        at += len(block)
    rng = np.random.default_rng(seed)
    T = np.linalg.qr(rng.normal(size=(8, 8)))[0] + 0.1 * rng.normal(size=(8, 8))
    T = scales * T
    return T @ A @ np.linalg.inv(T)


@pytest.mark.parametrize("seed", range(5))
def test_zeros_are_counted_and_others_are_exact(seed):
    """Five zeros, four of them in pairs of one vector: taken as they come, those are 1e-8 off."""
    A = known(seed)
    found = eigen_modes(A, np.eye(4), 1e-6)
    assert found.zeros == 5
    assert len(found.free) == 3
    assert np.abs(A @ found.free.T).max() < 1e-12
    assert_close(np.sort(found.values.real), [-1.7, -0.3], 1e-11)
    assert_close(found.values.imag.max(), 2.0, 1e-11)
    for value, vector in zip(found.values, found.vectors, strict=True):
        assert np.abs(A @ vector - value * vector).max() < 1e-10 * np.abs(vector).max()
    assert np.sum(np.abs(np.linalg.eigvals(A)) < 1e-10) < 5


def test_eigenvalues_do_not_depend_on_the_scaling_of_variables():
    """Inner states in other units, by factors of a million: the same eigenvalues and zeros."""
    A = known(3, np.array([1, 1, 1, 1, 1, 1, 1e6, 1e-6])[:, None])
    found = eigen_modes(A, np.eye(3), 1e-6)
    assert found.zeros == 5
    assert_close(np.sort(found.values.real), [-1.7, -0.3], 1e-6)


def test_free_directions_have_a_variable_each():
    found = eigen_modes(known(1), np.eye(4), 1e-6).free
    own = [k for k in range(8) if np.sort(np.abs(found[:, k]))[-2] == 0.0]
    assert len(own) >= 3
    assert (np.abs(found[:, own]).max(axis=1) == 1.0).all()
