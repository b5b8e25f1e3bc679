"""Equations of Khan 2002, chapter 2, as printed and corrected, for comparison with ours.

Dyad and platform in absolute angles (2.1), (2.2), loop closures (2.3)-(2.6). `printed=True` keeps
the slips C1 to C3 of the source. These formulas serve comparisons only: the library computes
dyads, platforms and constraints as it does any others.

Symbols: th angles of proximal and distal link, thd rates, l lengths, m masses, I moments of inertia
about mass centers, cm distances of mass centers from the joints.
"""

import numpy as np

from tiburon.arrays import Array, ArrayLike
from tiburon.reproduce.khan_mechanism import DISTAL, OFFSETS, PIVOTS, PROXIMAL, RADIUS

G = 9.81
"""g [m/s^2]; not printed."""

M1, M2, MP = 3.0, 4.0, 8.0
I1, I2, IP = 0.04, 0.12, 0.0817
CM1, CM2 = 0.5 * PROXIMAL, 0.5 * DISTAL


def dyad_inertia(th: ArrayLike, *, printed: bool = False) -> Array:
    """Return the inertia of a dyad in absolute angles (2.1), shape (2, 2) [kg m^2].

    Args:
        th: Angles of both links [rad].
        printed: Whether to keep C1, m_1 c_2^2 in the last entry.
    """
    first, second = np.asarray(th)
    coupling = M2 * PROXIMAL * CM2 * np.cos(second - first)
    last = I2 + (M1 if printed else M2) * CM2**2
    return np.array([[I1 + M1 * CM1**2 + M2 * PROXIMAL**2, coupling], [coupling, last]])


def dyad_bias(th: ArrayLike, thd: ArrayLike, *, printed: bool = False) -> Array:
    """Return the bias of a dyad (2.1), shape (2,) [N m].

    Args:
        th: Angles of both links [rad].
        thd: Their rates [rad/s].
        printed: Whether to keep C2, gravity with a minus.
    """
    (first, second), (w1, w2) = np.asarray(th), np.asarray(thd)
    turning = M2 * PROXIMAL * CM2 * np.sin(second - first)
    weight = -G if printed else G
    return np.array([
        -turning * w2**2 + (M1 * CM1 + M2 * PROXIMAL) * weight * np.cos(first),
        turning * w1**2 + M2 * CM2 * weight * np.cos(second),
    ])  # fmt: skip


def platform_wrench(moment: float, force: ArrayLike, *, printed: bool = False) -> Array:
    """Return w^P beside t^P = [phid, xd, yd] (2.2), shape (3,).

    Args:
        moment: About the mass center [N m].
        force: In the plane [N], gravity excluded.
        printed: Whether to keep C3, the moment last and no gravity.
    """
    fx, fy = np.asarray(force)
    if printed:
        return np.array([fx, fy, moment])
    return np.array([moment, fx, fy - MP * G])


def closures(q: ArrayLike) -> tuple[Array, Array]:
    """Return c and A of the loop closures (2.3)-(2.6), shapes (6,) and (6, 9)."""
    x = np.asarray(q, dtype=float)
    c, A = np.zeros(6), np.zeros((6, 9))
    for leg, (pivot, offset) in enumerate(zip(PIVOTS, OFFSETS, strict=True)):
        rows = slice(2 * leg, 2 * leg + 2)
        angles = x[2 * leg], x[2 * leg + 1], x[6] + offset
        lengths = PROXIMAL, DISTAL, -RADIUS
        c[rows] = np.array(pivot) - x[7:]
        for column, angle, length in zip((2 * leg, 2 * leg + 1, 6), angles, lengths, strict=True):
            c[rows] += length * np.array([np.cos(angle), np.sin(angle)])
            A[rows, column] = length * np.array([-np.sin(angle), np.cos(angle)])
        A[rows, 7:] = -np.eye(2)
    return c, A


def equations(q: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
    """Return inertia and bias of all parts (2.5), shapes (9, 9) and (9,)."""
    x, rate = np.asarray(q, dtype=float), np.asarray(v, dtype=float)
    H, b = np.zeros((9, 9)), np.zeros(9)
    for leg in range(3):
        own = slice(2 * leg, 2 * leg + 2)
        H[own, own], b[own] = dyad_inertia(x[own]), dyad_bias(x[own], rate[own])
    H[6:, 6:] = np.diag([IP, MP, MP])
    b[6:] = -platform_wrench(0.0, (0.0, 0.0))
    return H, b


def leg_projectors(q: ArrayLike) -> list[tuple[Array, Array]]:
    """Return Phi_2 of each leg and the twist of the platform by its motor (3.4)-(3.9), C7.

    Twists [omega; v of the platform's mass center], in rad/s and m/s.
    """
    x = np.asarray(q, dtype=float)
    found = []
    for leg, pivot in enumerate(PIVOTS):
        base = np.array(pivot)
        elbow = base + PROXIMAL * np.array([np.cos(x[2 * leg]), np.sin(x[2 * leg])])
        distal = x[2 * leg + 1]
        corner = elbow + DISTAL * np.array([np.cos(distal), np.sin(distal)])
        first, second, third = (
            np.array([1.0, -arm[1], arm[0]])
            for arm in (x[7:] - base, x[7:] - elbow, x[7:] - corner)
        )
        Phi = np.eye(3) - np.outer(third, third) / (third @ third)
        inner = Phi @ second
        found.append((Phi - np.outer(inner, inner) / (inner @ inner), first))
    return found


def platform_condition(q: ArrayLike) -> float:
    """Return the condition number of K = sum Phi_2 (3.10); it depends on the units of twists."""
    return float(np.linalg.cond(np.sum([Phi for Phi, _ in leg_projectors(q)], axis=0)))
