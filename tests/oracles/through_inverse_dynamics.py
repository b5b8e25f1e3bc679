"""Forward dynamics by calling inverse dynamics: the methods of Featherstone 1987, section 5.2.

They serve as evidence only, being slower than articulated bodies and composite bodies for any robot
of interest. All are given two functions: `bias(q, v)`, which is inverse dynamics at zero
acceleration (eq. 5.3), and `product(q, u)`, which is inverse dynamics without velocity and gravity:
H u (eq. 5.5). Nothing else is asked of a robot.
"""

import numpy as np


def mass_matrix_by_columns(product, q, n):
    """Return H column by column, from n unit accelerations (Walker and Orin's method 1)."""
    return np.array([product(q, unit) for unit in np.eye(n)]).T


def mass_matrix_by_lower_triangle(product, q, n):
    """Return H from its lower triangle alone (method 2): what is above follows by symmetry."""
    H = np.zeros((n, n))
    for column, unit in enumerate(np.eye(n)):
        # a robot cut off before this joint would give the same: rows above are never looked at
        H[column:, column] = product(q, unit)[column:]
    return np.tril(H) + np.tril(H, -1).T


def accelerations_by_columns(bias, product, q, v, tau):
    """Solve H vd = tau - C with H of method 1."""
    return np.linalg.solve(mass_matrix_by_columns(product, q, len(v)), tau - bias(q, v))


def accelerations_by_lower_triangle(bias, product, q, v, tau):
    """Solve H vd = tau - C with H of method 2, by Cholesky factors."""
    L = np.linalg.cholesky(mass_matrix_by_lower_triangle(product, q, len(v)))
    return np.linalg.solve(L.T, np.linalg.solve(L, tau - bias(q, v)))


def accelerations_without_matrix(bias, product, q, v, tau):
    """Solve H vd = tau - C by products H u alone (method 4), in at most n of them.

    Conjugate directions: each new one is the residual, made conjugate to all before it, so that
    rounding cannot let old ones back in.

    Returns:
        The accelerations, and how many products were formed.
    """
    residual = tau - bias(q, v)
    found = np.zeros(len(v))
    directions, images = [], []
    start = float(np.abs(residual).max(initial=0.0))
    while len(directions) < len(v) and float(np.abs(residual).max()) > 1e-15 * start:
        u = residual.copy()
        for _ in range(2):
            for known, image in zip(directions, images, strict=True):
                u -= known * (image @ u) / (image @ known)
        # a unit length keeps later products of numbers within reach
        u /= np.linalg.norm(u)
        Hu = product(q, u)
        step = (u @ residual) / (u @ Hu)
        found += step * u
        residual -= step * Hu
        directions.append(u)
        images.append(Hu)
    return found, len(directions)
