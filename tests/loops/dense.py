"""Closed mechanisms by dense linear algebra, apart from the code they check."""

from typing import NamedTuple

import numpy as np

import tiburon as tb
from tiburon.loops.constraints import constraints

CUT = 1e-10
"""Singular values below this times the largest count as zero, as in the code under test."""


class Dense(NamedTuple):
    value: np.ndarray
    J: np.ndarray
    bias: np.ndarray


def dense_constraints(model, q, v=None) -> Dense:
    """Return the rows of all loops as arrays."""
    found = constraints(model, model.plan, list(q), None if v is None else list(v))
    J = np.zeros((len(found.value), model.nv))
    for k, row in enumerate(found.jacobian):
        for i, x in row.items():
            J[k, i] = x
    return Dense(np.array(found.value), J, np.array(found.bias))


def dense_acceleration(model, q, v, tau, gravity=(0.0, 0.0, -9.81)):
    """Solve the augmented system with pseudo-inverses in the metric of the mass matrix."""
    tree = model.without_loops()
    held = dense_constraints(model, q, v)
    H = tb.mass_matrix(tree, q)
    C = tb.bias_force(tree, q, v, world=tb.World(gravity=gravity))
    L = np.linalg.cholesky(H)
    free = np.linalg.solve(H, tau - C)
    G = np.linalg.solve(L, held.J.T)
    y = np.linalg.pinv(G.T, rcond=CUT) @ (-held.bias - held.J @ free)
    multipliers = np.linalg.pinv(G, rcond=CUT) @ y
    return free + np.linalg.solve(L.T, y), multipliers


def closed(model, q, steps=30):
    """Bring a position onto its loops by plain Newton steps, to rounding."""
    for _ in range(steps):
        held = dense_constraints(model, q)
        if np.abs(held.value).max(initial=0.0) < 1e-15:
            break
        q = model.integrate(q, -np.linalg.pinv(held.J, rcond=1e-8) @ held.value)
    return q


def allowed(model, q, v):
    """Return the part of a velocity that keeps loops closed."""
    J = dense_constraints(model, q).J
    return v - np.linalg.pinv(J, rcond=1e-8) @ (J @ v)
