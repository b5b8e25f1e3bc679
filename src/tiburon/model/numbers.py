"""Numbers on their way into a model: shapes, finiteness, names and the snapping of round-off.

Model data is held in plain tuples of floats, which compare, hash and pickle without surprises.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.errors import ModelError

Vec3: TypeAlias = tuple[float, float, float]
Matrix3: TypeAlias = tuple[Vec3, Vec3, Vec3]

SNAP = 1e-12
"""Rotation entries this close to 0, 1 or -1 become exactly that.

Right angles given in radians come out of sin and cos with errors near 1e-16; products of a few of
them stay far below 1e-12, and no real mechanism is built to 1e-12 rad.
"""


def check_name(name: object, kind: str) -> str:
    """Return the name of a body, joint or frame if it is a usable string."""
    if not isinstance(name, str) or not name.strip():
        raise ModelError(f"{kind}: the name must be a non-empty string, got {name!r}")
    return name


def finite_array(
    value: ArrayLike, shape: tuple[int, ...], element: str, quantity: str, name: str | None = None
) -> NDArray[np.float64]:
    """Convert to a float array of a given shape, or say which quantity of which element is wrong.

    Args:
        value: Anything NumPy can read.
        shape: The shape expected.
        element: Leads the message, such as "body 'arm'".
        quantity: What the numbers are, such as "mass".
        name: Name of the element, for the error's attribute.

    Raises:
        ModelError: If the value is not numeric, has another shape, or is not finite.
    """
    wanted = "one number" if shape == () else " x ".join(map(str, shape)) + " numbers"
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"{element}: {quantity} must be {wanted}, got {value!r}; pass plain numbers", name=name
        ) from error
    if array.shape != shape:
        raise ModelError(
            f"{element}: {quantity} must be {wanted}, got shape {array.shape}; check its length",
            name=name,
        )
    if not np.isfinite(array).all():
        raise ModelError(
            f"{element}: {quantity} must be finite, got {_plain(array)}; "
            "check the computation or file it came from",
            name=name,
        )
    return array


def vec3(value: ArrayLike, element: str, quantity: str, name: str | None = None) -> Vec3:
    """Convert to three finite floats."""
    x, y, z = finite_array(value, (3,), element, quantity, name).tolist()
    return (x, y, z)


def matrix3(array: NDArray[np.float64]) -> Matrix3:
    """Convert a 3 x 3 array to nested tuples."""
    rows: list[list[float]] = array.tolist()
    return ((*rows[0],), (*rows[1],), (*rows[2],))  # type: ignore[return-value]


def snap(values: Iterable[float]) -> tuple[float, ...]:
    """Replace entries within `SNAP` of 0, 1 or -1 by exactly that."""
    return tuple(_snap_one(float(x)) for x in values)


def _snap_one(x: float) -> float:
    nearest = round(x)
    return float(nearest) if abs(x - nearest) <= SNAP and -1 <= nearest <= 1 else x


def _plain(array: NDArray[Any]) -> object:
    """Return the value as Python numbers, which print shorter than arrays."""
    return array.tolist()
