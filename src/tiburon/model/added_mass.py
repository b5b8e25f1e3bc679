"""Added-mass matrices from the orders and axes in which they are published: the one place.

Ours maps [omega; v] to [n; f], angular rows and columns first, in body axes, about the body origin.
Newman, Fossen and SDF write linear rows first; marine axes have z down.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.arguments import public
from tiburon.errors import ModelError, OptionError
from tiburon.model.numbers import finite_array, vec3

ORDERS = ("angular-first", "linear-first")
"""Which rows and columns come first."""

AXES = {
    "flu": (1.0, 1.0, 1.0),
    "nwu": (1.0, 1.0, 1.0),
    "frd": (1.0, -1.0, -1.0),
    "ned": (1.0, -1.0, -1.0),
}
"""Signs that turn the matrix's axes into body axes with x forward, y left, z up."""

SYMMETRY = 1e-9
"""Largest difference of mirrored entries, relative to the largest entry: rounding only."""


@public
def added_mass_from(
    matrix: ArrayLike,
    *,
    order: str = "angular-first",
    axes: str = "flu",
    about: ArrayLike = (0.0, 0.0, 0.0),
    symmetrize: bool = False,
) -> NDArray[np.float64]:
    """Read an added-mass matrix as it is published.

    Args:
        matrix: 6 x 6; or the 21 entries of the upper triangle row by row, as SDF lists them; or the
            six entries of the diagonal [kg m^2, kg m, kg]. Positive: the sign of M_A, not of the
            derivatives X_udot.
        order: "angular-first" or "linear-first" (Newman, Fossen, SDF).
        axes: "flu" or "nwu" (forward, left, up) for our body axes, "frd" or "ned" (forward, right,
            down) for marine axes.
        about: The point its moments are taken about, in our body axes [m], shape (3,).
        symmetrize: Average mirrored entries, for matrices that were measured or computed.

    Returns:
        Added mass, angular first, body axes, about the body origin, shape (6, 6).

    Raises:
        ModelError: If the matrix is not symmetric and `symmetrize` is not set.

    Example:
        ``BodyFluid(added_mass=added_mass_from(MA, order="linear-first", axes="ned"))``
    """
    M = six_by_six_from(matrix, order=order, axes=axes)
    M = 0.5 * (M + M.T) if symmetrize else symmetric(M, "added mass")
    x, y, z = vec3(about, "added mass", "about")
    if any((x, y, z)):
        # motion at the origin to motion at the point: v_P = v_O + omega x p
        X = np.eye(6)
        X[3:, :3] = [[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]]
        M = X.T @ M @ X
        M = 0.5 * (M + M.T)
    return np.asarray(M, dtype=np.float64)


def six_by_six_from(
    matrix: ArrayLike, *, order: str = "angular-first", axes: str = "flu"
) -> NDArray[np.float64]:
    """Read a matrix from motion to force, such as damping, as it is published.

    Arguments are those of `added_mass_from`; nothing is assumed of the matrix.

    Returns:
        The matrix, angular first, body axes, shape (6, 6).
    """
    if order not in ORDERS:
        raise OptionError("order", ORDERS, order)
    if axes not in AXES:
        raise OptionError("axes", tuple(AXES), axes)
    M = _full(matrix)
    if order == "linear-first":
        swap = [3, 4, 5, 0, 1, 2]
        M = M[np.ix_(swap, swap)]
    signs = np.array(AXES[axes] * 2)
    return np.asarray(signs[:, None] * M * signs, dtype=np.float64)


def symmetric(M: NDArray[np.float64], element: str) -> NDArray[np.float64]:
    """Return a matrix whose mirrored entries are the same number, or refuse it."""
    skew = float(np.abs(M - M.T).max())
    if skew > SYMMETRY * float(np.abs(M).max()):
        i, j = np.unravel_index(int(np.argmax(np.abs(M - M.T))), M.shape)
        raise ModelError(
            f"{element}: added mass must be symmetric, got {M[i, j]:g} in row {i + 1}, column "
            f"{j + 1} but {M[j, i]:g} mirrored; correct one, or average them with "
            "added_mass_from(..., symmetrize=True)"
        )
    mirrored: NDArray[np.float64] = np.triu(M) + np.triu(M, 1).T
    return mirrored


def _full(matrix: ArrayLike) -> NDArray[np.float64]:
    """Return the 6 x 6 matrix from any of the ways to list it."""
    try:
        shape = np.shape(matrix)
    except ValueError:  # ragged nesting has no shape
        shape = (-1,)
    if shape == (21,):
        M = np.zeros((6, 6))
        M[np.triu_indices(6)] = finite_array(matrix, (21,), "added mass", "matrix")
        return M + np.triu(M, 1).T
    if shape == (6,):
        return np.diag(finite_array(matrix, (6,), "added mass", "matrix"))
    if shape == (36,):
        return finite_array(matrix, (36,), "added mass", "matrix").reshape(6, 6)
    return finite_array(matrix, (6, 6), "added mass", "matrix")
