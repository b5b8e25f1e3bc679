"""Eigenvalues of motion near an equilibrium, with exact zeros.

Symbols:
    A       rate of z = [dq, v, x] per z: steps of position, velocities, continuous states
    H = L L'  mass matrix; L' dq and L' v measure steps by their energy
    N, R    orthonormal bases of what A maps to zero, and of the rest

A free body has pairs of zero eigenvalues that belong to one vector (it drifts): rounding of 1e-16
moves them by 1e-8. They are therefore taken out one level at a time before eigenvalues are computed
(the staircase of Golub and Van Loan 2013, "Matrix computations", sec. 7.6.4): with A N = 0, those
left are the eigenvalues of R' A R.
"""

from typing import NamedTuple

import numpy as np

from tiburon.arrays import Array, NDArray

Complex = NDArray[np.complex128]

BALANCING_ROUNDS = 20
"""Rounds of scaling rows against columns; it converges in a few."""

IMAGINARY_ROUNDING = 1e-8
"""Imaginary parts below this fraction of an eigenvalue are rounding of a double real one."""


class EigenModes(NamedTuple):
    """What a linear motion is made of."""

    values: Complex
    """Eigenvalues that are not zero, one of each conjugate pair (that with a positive imaginary
    part), slowest first [1/s], shape (k,)."""

    vectors: Complex
    """One row per eigenvalue, of unit energy, shape (k, n)."""

    free: Array
    """Directions in which nothing drives back: A maps them to zero, shape (j, n); each has a
    variable of its own that is 1 in it and 0 in the others."""

    zeros: int
    """How often zero is an eigenvalue: twice for a direction in which a body drifts on."""


def eigen_modes(A: Array, H: Array, slowest: float) -> EigenModes:
    """Find eigenvalues and vectors of motion near an equilibrium.

    A is the rate of z = [dq, v, x], H the mass matrix; frequencies below the fraction `slowest` of
    the highest count as zero.
    """
    root = np.asarray(np.linalg.cholesky(H), dtype=np.float64).T
    return modes_within(A, root, root, np.eye(len(A)), slowest)


def modes_within(A: Array, steps: Array, speeds: Array, into: Array, slowest: float) -> EigenModes:
    """Find eigenvalues and vectors of motion in coordinates of a part of all states.

    Args:
        A: Rate of [a, b, x]: coordinates of steps, of velocities, continuous states; shape (n, n).
        steps: What takes a to coordinates in which energy is that of unit masses, shape (k, k).
        speeds: The same for b, shape (j, j), k + j <= n.
        into: What takes [a, b, x] to [dq, v, x], shape (m, n); vectors are of length m.
        slowest: Frequencies below this fraction of the highest count as zero.
    """
    n, moving = len(A), len(steps) + len(speeds)
    scale = _energy_scale(A, steps, speeds)
    inverse = np.linalg.inv(scale)
    B = scale @ A @ inverse
    factors = _balance(B) if n > moving else np.ones(n)
    B = B * factors[:, None] / factors
    back = into @ (inverse / factors)  # from scaled to plain variables
    values, vectors, free, zeros = _deflated(B, slowest)
    order = np.lexsort((-values.real, np.round(np.abs(values), 12)))
    kept = [k for k in order if values[k].imag >= 0.0]
    return EigenModes(values[kept], vectors[kept] @ back.T, _reduced_rows(free @ back.T), n - zeros)


def _energy_scale(A: Array, steps: Array, speeds: Array) -> Array:
    """Return the matrix that measures steps and velocities by their energy, in one unit of time."""
    k, moving = len(steps), len(steps) + len(speeds)
    stiffness = speeds @ A[k:moving, :k] @ np.linalg.inv(steps)
    rate = np.sqrt(np.linalg.norm(stiffness, 2)) if stiffness.size else 1.0
    scale = np.eye(len(A))
    scale[:k, :k] = (rate or 1.0) * steps
    scale[k:moving, k:moving] = speeds
    return scale


def _balance(B: Array) -> Array:
    """Return powers of two that make rows as large as columns (Osborne 1960)."""
    factors = np.ones(len(B))
    for _ in range(BALANCING_ROUNDS):
        scaled = np.abs(B) * factors[:, None] / factors
        np.fill_diagonal(scaled, 0.0)
        rows, columns = scaled.sum(axis=1), scaled.sum(axis=0)
        both = (rows > 0.0) & (columns > 0.0)
        change = np.ones(len(B))
        change[both] = 2.0 ** np.round(0.5 * np.log2(columns[both] / rows[both]))
        # neighbors answer each other: one of two at a time
        place = int(np.argmax(np.abs(np.log2(change))))
        if change[place] == 1.0:
            break
        factors[place] *= change[place]
    return factors


def _deflated(B: Array, slowest: float) -> tuple[Complex, Complex, Array, int]:
    """Return eigenvalues but zeros, their vectors, the null space, and how many there are."""
    n = len(B)
    largest = float(np.linalg.norm(B, 2)) if n else 0.0
    # frequencies enter singular values by their squares
    allowed = slowest**2 * largest
    free = np.zeros((0, n))
    levels: list[tuple[Array, Array, Array]] = []
    rest = B
    while len(rest):
        _, sizes, rows = np.linalg.svd(rest)
        rank = int(np.sum(sizes > allowed))
        if rank == len(rest):
            break
        R, N = rows[:rank], rows[rank:]
        if not levels:
            free = N
        levels.append((R, N, rest))
        rest = R @ rest @ R.T
    if not len(rest):
        return np.zeros(0, dtype=np.complex128), np.zeros((0, n), dtype=np.complex128), free, 0
    values, columns = np.linalg.eig(rest)
    doubled = np.abs(values.imag) <= IMAGINARY_ROUNDING * np.abs(values)
    values = np.where(doubled, values.real + 0j, values)
    vectors: Complex = columns.T.astype(np.complex128)
    for R, N, whole in reversed(levels):
        # A (N a + R y) = lambda (N a + R y) with A N = 0 gives a = N' A R y / lambda
        a = vectors @ (N @ whole @ R.T).T / values[:, None]
        vectors = vectors @ R + a @ N
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    return values, vectors, free, len(rest)


def _reduced_rows(rows: Array) -> Array:
    """Return a basis of the same space, each row with a variable of its own."""
    rows = rows.copy()
    own: list[int] = []
    for k in range(len(rows)):
        size = np.abs(rows[k:])
        size[:, own] = 0.0
        row, column = (int(x) for x in np.unravel_index(int(np.argmax(size)), size.shape))
        own.append(column)
        rows[[k, k + row]] = rows[[k + row, k]]
        rows[k] /= rows[k, column]
        others = np.arange(len(rows)) != k
        rows[others] -= np.outer(rows[others, column], rows[k])
    rows[np.abs(rows) < IMAGINARY_ROUNDING] = 0.0
    return rows[np.argsort(own)]
