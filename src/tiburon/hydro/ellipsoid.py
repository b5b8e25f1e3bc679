"""Added mass of ellipsoids, exactly.

Symbols (Lamb, Hydrodynamics, 6th ed. 1932, arts. 114 and 115; Newman 1977, sec. 4.15):
    a, b, c                 semi-axes
    alpha, beta, gamma      abc times the integral of dl / ((a^2 + l) Delta) from 0 on, and so on
    R_D                     Carlson's symmetric elliptic integral of the second kind

    alpha = 2/3 abc R_D(b^2, c^2, a^2); alpha + beta + gamma = 2
"""

import math

from tiburon.errors import DomainError
from tiburon.model.value_checks import Vec3

__all__ = ["ellipsoid_added_mass", "lamb_coefficients"]


def lamb_coefficients(radii: Vec3) -> Vec3:
    """Return alpha, beta and gamma of an ellipsoid.

    Args:
        radii: Semi-axes along x, y, z [m].
    """
    if not all(math.isfinite(r) and r > 0.0 for r in radii):
        raise DomainError("radii", "three positive lengths [m]", f"{radii}")
    a, b, c = radii
    factor = 2.0 / 3.0 * a * b * c
    x, y, z = a * a, b * b, c * c
    return factor * carlson_rd(y, z, x), factor * carlson_rd(z, x, y), factor * carlson_rd(x, y, z)


def ellipsoid_added_mass(radii: Vec3, density: float) -> tuple[Vec3, Vec3]:
    """Return the added moments of inertia and added masses of a deeply immersed ellipsoid.

    Args:
        radii: Semi-axes along x, y, z [m].
        density: Of the fluid [kg/m^3].

    Returns:
        Added moments about x, y, z through the center [kg m^2], and added masses along them [kg].
    """
    a, b, c = radii
    displaced = density * 4.0 / 3.0 * math.pi * a * b * c
    alpha, beta, gamma = lamb_coefficients(radii)
    masses = tuple(displaced * k / (2.0 - k) for k in (alpha, beta, gamma))
    moments = tuple(
        displaced / 5.0 * _turning(p, q, p_share, q_share)
        for p, q, p_share, q_share in (
            (b, c, beta, gamma),
            (c, a, gamma, alpha),
            (a, b, alpha, beta),
        )
    )
    return (moments[0], moments[1], moments[2]), (masses[0], masses[1], masses[2])


def _turning(p: float, q: float, p_share: float, q_share: float) -> float:
    """Return the added moment about the third axis, per mass displaced and fifth (art. 115)."""
    difference, total = p * p - q * q, p * p + q * q
    # a circle of turning moves no water; near it the difference of shares is lost in rounding,
    # while the answer goes with the square of the difference of axes
    if abs(difference) <= 1e-9 * total:
        return 0.0
    spread = q_share - p_share
    return difference * difference * spread / (2.0 * difference - total * spread)


def carlson_rd(x: float, y: float, z: float) -> float:
    """Return R_D(x, y, z) by duplication (Carlson 1979, Numer. Math. 33, algorithm 4).

    Args:
        x: Not negative.
        y: Not negative; not zero together with x.
        z: Positive.
    """
    total, power = 0.0, 1.0
    mean = (x + y + 3.0 * z) / 5.0
    # the series below errs by the sixth power of the relative spread, which each step quarters
    while max(abs(mean - x), abs(mean - y), abs(mean - z)) > 1e-3 * mean:
        root = math.sqrt(x * y) + math.sqrt(y * z) + math.sqrt(z * x)
        total += power / (math.sqrt(z) * (z + root))
        power *= 0.25
        x, y, z = 0.25 * (x + root), 0.25 * (y + root), 0.25 * (z + root)
        mean = (x + y + 3.0 * z) / 5.0
    X, Y = (mean - x) / mean, (mean - y) / mean
    Z = -(X + Y) / 3.0
    E2, E3 = X * Y - 6.0 * Z * Z, (3.0 * X * Y - 8.0 * Z * Z) * Z
    E4, E5 = 3.0 * (X * Y - Z * Z) * Z * Z, X * Y * Z**3
    series = (
        1.0
        - 3.0 * E2 / 14.0
        + E3 / 6.0
        + 9.0 * E2 * E2 / 88.0
        - 3.0 * E4 / 22.0
        - 9.0 * E2 * E3 / 52.0
        + 3.0 * E5 / 26.0
    )
    return 3.0 * total + power * series / (mean * math.sqrt(mean))
