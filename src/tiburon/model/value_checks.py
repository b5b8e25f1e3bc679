"""Checks of values on their way into a model: shapes, finiteness, names; snapping of round-off."""

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.argument_checks import is_numeric, unusable_element
from tiburon.errors import ModelError, shown

Vec3: TypeAlias = tuple[float, float, float]
Matrix3: TypeAlias = tuple[Vec3, Vec3, Vec3]
Matrix6: TypeAlias = tuple[tuple[float, ...], ...]

SNAP = 1e-12
"""Rotation entries this close to 0, 1 or -1 become exactly that.

Right angles given in radians come out of sin and cos with errors near 1e-16; products of a few of
them stay far below 1e-12, and no real mechanism is built to 1e-12 rad.
"""


UNIT_ROUNDING = 4.0 * SNAP
"""Vectors this close to length 1 were normalized (and snapped) before: dividing again would only
move bits."""


def check_name(name: object, kind: str) -> str:
    """Return the name of a body, joint or frame if it is a usable string."""
    if not isinstance(name, str) or not name.strip():
        raise ModelError(f"{kind}: the name must be a non-empty string, got {shown(name)}")
    return name


def check_names(given: object, element: str, quantity: str) -> tuple[str, ...]:
    """Return names as a tuple; one alone may be given as it is.

    Args:
        given: A string, or a sequence of them.
        element: Leads the message, such as "loop 'cable'".
        quantity: What the names are, such as "joints".

    Raises:
        ModelError: If something else is given.
    """
    if isinstance(given, str):
        given = (given,)
    if not isinstance(given, Iterable):
        raise ModelError(
            f"{element}: {quantity} must be names, got {shown(given)}; write {quantity}=('name',)"
        )
    return tuple(check_name(name, f"{element}: {quantity}") for name in given)


def check_places(name: str, first: object, second: object) -> None:
    """Raise unless a loop has a name and stands between two places."""
    check_name(name, "loop")
    element = f"loop {name!r}"
    check_name(first, f"{element}: first")
    check_name(second, f"{element}: second")
    if first == second:
        raise ModelError(
            f"{element}: must tie two different places, got {first!r} twice; name another",
            name=name,
        )


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
    found = unusable_element(value)
    if found is not None:
        raise ModelError(
            f"{element}: {quantity} must be {wanted}, got {found}; pass x.filled(...) or x.real",
            name=name,
        )
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(
            f"{element}: {quantity} must be {wanted}, got {shown(value)}; pass plain numbers",
            name=name,
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
    # robots from files have thousands of such triples, which need no array to be seen through
    plain: object = value
    if type(plain) is tuple and len(plain) == 3:
        x, y, z = plain
        if type(x) is type(y) is type(z) is float and math.isfinite(x + y + z):
            return (x, y, z)
    x, y, z = finite_array(value, (3,), element, quantity, name).tolist()
    return (x, y, z)


def number(
    value: object,
    element: str,
    quantity: str,
    name: str | None = None,
    *,
    least: float = -math.inf,
    infinite: bool = False,
) -> float:
    """Convert to one float.

    Args:
        value: Anything NumPy can read as one number.
        element: Leads the message, such as "body 'arm'".
        quantity: What the number is, such as "mass".
        name: Name of the element, for the error's attribute.
        least: The smallest number allowed.
        infinite: Whether infinity may stand for "no limit".
    """
    if type(value) is float and value >= least and (infinite or math.isfinite(value)):
        return value
    if infinite and isinstance(value, (int, float)) and math.isinf(value) and value >= least:
        return float(value)
    x = float(finite_array(value, (), element, quantity, name))  # type: ignore[arg-type]
    if x < least:
        raise ModelError(
            f"{element}: {quantity} must be at least {least:g}, got {x:g}; check its sign",
            name=name,
        )
    return x


def positive_density(value: object, element: str, quantity: str = "density") -> float:
    """Convert to the density of a fluid that coefficients are stated for [kg/m^3]: above zero."""
    density = number(value, element, quantity)
    if density <= 0.0:
        raise ModelError(
            f"{element}: {quantity} must be positive, got {density:g} kg/m^3; give the density "
            "that the coefficients are measured or computed for"
        )
    return density


def per_freedom(
    value: object,
    element: str,
    quantity: str,
    name: str | None = None,
    *,
    least: float = -math.inf,
    infinite: bool = False,
) -> float | tuple[float, ...]:
    """Convert to one float that stands for every freedom, or to one float each.

    Arguments are those of `number`.
    """
    if (
        type(value) is not float
        and isinstance(value, Iterable)
        and not isinstance(value, str)
        and np.ndim(value) == 1  # type: ignore[arg-type]
    ):
        return tuple(
            number(x, element, f"{quantity}[{i}]", name, least=least, infinite=infinite)
            for i, x in enumerate(value)
        )
    return number(value, element, quantity, name, least=least, infinite=infinite)


def unit_vector(value: ArrayLike, element: str, quantity: str, name: str | None = None) -> Vec3:
    """Convert to three floats of length 1; any length but zero is accepted.

    Numbers of length 1 up to rounding are kept to the last bit, so that data written and read again
    stays the same.
    """
    x, y, z = vec3(value, element, quantity, name)
    length = math.sqrt(x * x + y * y + z * z)
    if not 1e-150 < length < 1e150:
        # squares left the range of numbers; a vector of size 1 points the same way
        largest = max(abs(x), abs(y), abs(z))
        if largest > 0.0:
            x, y, z = x / largest, y / largest, z / largest
        length = math.sqrt(x * x + y * y + z * z)
    if length == 0.0:
        raise ModelError(
            f"{element}: {quantity} must not be zero, got (0, 0, 0); say which way it points",
            name=name,
        )
    if abs(length - 1.0) <= UNIT_ROUNDING:
        return (x, y, z)
    return (x / length, y / length, z / length)


def matrix6(value: ArrayLike, element: str, quantity: str, name: str | None = None) -> Matrix6:
    """Convert a 6 x 6 matrix, or the six entries of a diagonal, to nested tuples."""
    if is_numeric(value) and np.shape(value) == (6,):
        value = np.diag(finite_array(value, (6,), element, quantity, name))
    rows = finite_array(value, (6, 6), element, quantity, name).tolist()
    return tuple(tuple(row) for row in rows)


def matrix3(array: NDArray[np.float64]) -> Matrix3:
    """Convert a 3 x 3 array to nested tuples."""
    rows: list[list[float]] = array.tolist()
    return ((*rows[0],), (*rows[1],), (*rows[2],))  # type: ignore[return-value]


def snap(values: Iterable[float]) -> tuple[float, ...]:
    """Replace entries within `SNAP` of 0, 1 or -1 by exactly that."""
    # one expression: laying out a robot snaps thousands of entries
    return tuple(
        [
            float(k) if abs(x - (k := round(x))) <= SNAP and -1 <= k <= 1 else float(x)
            for x in values
        ]
    )


def _plain(array: NDArray[Any]) -> object:
    """Return the value as Python numbers, which print shorter than arrays."""
    return array.tolist()
