"""Orthogonal complements of Khan 2002 as printed, and as they must be.

Method II of the source projects the equations of motion with a basis S of the null space of A:

    qd = S nu + eta,   qdd = S nud + gamma,   nud = (S^T H S)^-1 S^T (u - C - H gamma)

(2.13)-(2.18).

With constant rows W and [R T] = [A; W]^-1 (A.12)-(A.17) everything follows: S = T, nu = W qd,
eta = -sigma R c, gamma = R (-sigma A - Ad) qd. Printed is eta = -sigma A^+ c and
gamma = A^+ (-sigma A - Ad) qd for any S (2.20), (2.22), which is right only if S^T Sd = 0 (C6);
and S from the singular value decomposition of the projector 1 - A^+ A, whose equal singular values
leave the basis to rounding (L1228). Both are here because `simulate` must not have them: its
`Embedding` is the consistent form.

All in coordinates of the source, see `khan_mechanism`.
"""

from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.reproduce.khan_mechanism import ACTUATED, Motion, Terms, series_at, terms


class Complement(NamedTuple):
    """A basis and what goes with it in one state."""

    S: Array
    """Basis of the null space of A, shape (9, 3)."""

    R: Array
    """Right inverse of A that gives eta and gamma, shape (9, 6)."""


Rule = Callable[[Terms], Complement]


def boolean_rows(independent: Sequence[int] = ACTUATED) -> Array:
    """Return W that selects independent coordinates, shape (3, 9)."""
    W = np.zeros((3, 9))
    W[range(3), list(independent)] = 1.0
    return W


def consistent(W: Array) -> Rule:
    """Return the rule of constant rows W: [R T] = [A; W]^-1."""

    def rule(at: Terms) -> Complement:
        inverse = np.linalg.inv(np.vstack([at.A, W]))
        return Complement(inverse[:, 6:], inverse[:, :6])

    return rule


def frozen(at: Terms) -> Array:
    """Return rows W = N^T of Kim and Vanderploeg: the null space of A by QR in one state."""
    # A^T = Q [R; 0], so that A = R^T Q1^T with a lower triangular R^T (D7)
    return np.linalg.qr(at.A.T, mode="complete")[0][:, 6:].T.copy()


def mixed(W: Array) -> Rule:
    """Return the basis T of constant rows with the printed pseudo-inverse in eta and gamma (C6)."""

    def rule(at: Terms) -> Complement:
        return Complement(consistent(W)(at).S, _pseudo_inverse(at.A))

    return rule


def _pseudo_inverse(A: Array) -> Array:
    return np.asarray(np.linalg.pinv(A), dtype=float)


def projector_basis(A: Array) -> Array:
    """Return S of Yun and Sarkar: three columns of U of the projector 1 - A^+ A (L1228-1236)."""
    return _basis(A, _pseudo_inverse(A))


def _basis(A: Array, inverse: Array) -> Array:
    return np.linalg.svd(np.eye(9) - inverse @ A)[0][:, :3]


def yun_sarkar(at: Terms) -> Complement:
    """Return basis and right inverse as printed."""
    inverse = _pseudo_inverse(at.A)
    return Complement(_basis(at.A, inverse), inverse)


def smooth_orthonormal(at: Terms) -> Complement:
    """Return a smooth orthonormal basis with the printed pseudo-inverse (C6).

    Gram and Schmidt's method on the null space that the actuated angles parameterize.
    """
    T = consistent(boolean_rows())(at).S
    Q, R = np.linalg.qr(T)
    return Complement(Q * np.sign(np.diag(R)), _pseudo_inverse(at.A))


class Embedded(NamedTuple):
    """Embedded equations of motion: states q and nu."""

    rule: Rule
    sigma: float
    gains: tuple[float, float] = (0.0, 0.0)
    """Feedback at the actuated joints: stiffness [N m/rad] and damping [N m s/rad]."""

    target: Callable[[float], tuple[Array, Array]] | None = None
    """Actuated angles and rates that feedback follows."""

    def torque(self, time: float, q: Array, qd: Array) -> Array:
        """Return the actuated torques [N m]."""
        found = series_at(time)
        if self.target is not None:
            angle, rate = self.target(time)
            driven = list(ACTUATED)
            found = found + self.gains[0] * (angle - q[driven])
            found = found + self.gains[1] * (rate - qd[driven])
        return found

    def rate(self, time: float, x: Array) -> Array:
        """Return the rates of x = [q, nu]."""
        q, nu = x[:9], x[9:]
        still = terms(q, np.zeros(9))
        S, R = self.rule(still)
        qd = S @ nu - self.sigma * (R @ still.c)
        at = terms(q, qd)
        gamma = -R @ (self.sigma * (at.A @ qd) + at.bias)
        u = np.zeros(9)
        u[list(ACTUATED)] = self.torque(time, q, qd)
        nud = np.linalg.solve(S.T @ at.H @ S, S.T @ (u - at.C - at.H @ gamma))
        return np.concatenate([qd, nud])


class EmbeddedRun(NamedTuple):
    """States of a run with equal steps, until it broke."""

    time: Array
    x: Array
    determinant: Array
    """Of A at the coordinates that are not actuated: zero where these cannot be solved for."""

    @property
    def singular_time(self) -> float | None:
        """First time at which the determinant has changed its sign [s]; None if it never does."""
        changed = np.flatnonzero(self.determinant[1:] * self.determinant[0] < 0.0)
        return float(self.time[changed[0] + 1]) if len(changed) else None


_DEPENDENT = [k for k in range(9) if k not in ACTUATED]


def rk4_run(system: Embedded, x: Array, h: float, steps: int) -> EmbeddedRun:
    """Integrate by RK4 until the end or until a state is not finite."""
    x = np.array(x, dtype=float)
    states, determinants = [x], [_determinant(x)]
    for step in range(steps):
        t = step * h
        try:
            with np.errstate(all="ignore"):
                k1 = system.rate(t, x)
                k2 = system.rate(t + 0.5 * h, x + 0.5 * h * k1)
                k3 = system.rate(t + 0.5 * h, x + 0.5 * h * k2)
                k4 = system.rate(t + h, x + h * k3)
                x = x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        except np.linalg.LinAlgError:
            break
        if not np.isfinite(x).all() or np.abs(x).max() > 1e6:
            break
        states.append(x)
        determinants.append(_determinant(x))
    time = h * np.arange(len(states), dtype=float)
    return EmbeddedRun(np.asarray(time, dtype=float), np.array(states), np.array(determinants))


def _determinant(x: Array) -> float:
    A = terms(x[:9], np.zeros(9)).A
    return float(np.linalg.det(A[:, _DEPENDENT]))


# -- choices of coordinates along the motion -------------------------------------------------------


def independent_by_total_pivoting(A: Array) -> tuple[int, ...]:
    """Return the coordinates that elimination with total pivoting leaves as independent (A.15)."""
    left, columns = A.copy(), list(range(A.shape[1]))
    for k in range(A.shape[0]):
        rest = np.abs(left[k:, k:])
        i, j = divmod(int(np.argmax(rest)), rest.shape[1])
        left[[k, k + i]] = left[[k + i, k]]
        left[:, [k, k + j]] = left[:, [k + j, k]]
        columns[k], columns[k + j] = columns[k + j], columns[k]
        left[k + 1 :] -= np.outer(left[k + 1 :, k] / left[k, k], left[k])
    return tuple(sorted(columns[A.shape[0] :]))


def pivot_switches(path: Motion) -> list[tuple[float, tuple[int, ...]]]:
    """Return when total pivoting changes its choice on a path, and the new choice; start first."""
    found: list[tuple[float, tuple[int, ...]]] = []
    for time, q in zip(path.time, path.q, strict=True):
        chosen = independent_by_total_pivoting(terms(q, np.zeros(9)).A)
        if not found or found[-1][1] != chosen:
            found.append((float(time), chosen))
    return found


def singular_triples(path: Motion) -> list[tuple[int, ...]]:
    """Return the triples of coordinates that cannot be independent everywhere on a path.

    The determinant of the other columns of A vanishes at a sample or changes sign between two.
    """
    jacobians = np.array([terms(q, np.zeros(9)).A for q in path.q])
    found: list[tuple[int, ...]] = []
    for triple in combinations(range(9), 3):
        others = [k for k in range(9) if k not in triple]
        values = np.linalg.det(jacobians[:, :, others])
        largest = np.abs(values).max()
        if largest < 1e-12 or values.min() * values.max() <= 0.0:
            found.append(triple)
    return found


def basis_jumps(path: Motion, allowed: float = 0.1) -> int:
    """Return at how many samples of a path an entry of the basis of Yun and Sarkar jumps."""
    bases = [projector_basis(terms(q, np.zeros(9)).A) for q in path.q]
    changes = [np.abs(b - a).max() for a, b in pairwise(bases)]
    return int(np.sum(np.array(changes) > allowed))
