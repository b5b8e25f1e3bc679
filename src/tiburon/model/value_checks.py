"""Checks of values on their way into a model: shapes, finiteness, names; snapping of round-off."""

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from tiburon.argument_checks import is_numeric, unusable_element
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import ModelError, shown

Vec3: TypeAlias = tuple[float, float, float]
Matrix3: TypeAlias = tuple[Vec3, Vec3, Vec3]
Matrix6: TypeAlias = tuple[tuple[float, ...], ...]

SNAP_TOLERANCE = 1e-12
"""Rotation entries this close to 0, 1 or -1 become exactly that.

Right angles in radians have errors near 1e-16 in sin and cos; products of a few of them stay far
below 1e-12, and no real mechanism is accurate to 1e-12 rad.
"""


UNIT_ROUNDING = 4.0 * SNAP_TOLERANCE
"""Vectors this close to length 1 were normalized (and snapped) before: dividing again would change
bits."""


def check_name(name: object, kind: str) -> str:
    """Return the name of a body, joint or frame if it is a valid string."""
    if not isinstance(name, str) or not name.strip():
        raise ModelError(f"{kind}: the name must be a non-empty string, got {shown(name)}")
    return name


def check_names(given: object, element: str, quantity: str) -> tuple[str, ...]:
    """Return names as a tuple; a single name need not be in a sequence.

    Args:
        given: A string, or a sequence of them.
        element: Leads the message, such as "loop 'cable'".
        quantity: The argument, such as "joints".

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
    """Raise unless a loop has a name and connects two different frames."""
    check_name(name, "loop")
    element = f"loop {name!r}"
    check_name(first, f"{element}: first")
    check_name(second, f"{element}: second")
    if first == second:
        raise ModelError(
            f"{element}: must connect two different frames, got {first!r} twice; name another",
            name=name,
        )


def finite_array(
    value: ArrayLike, shape: tuple[int, ...], element: str, quantity: str, name: str | None = None
) -> NDArray[np.float64]:
    """Convert to a float array of a given shape, or raise naming element and quantity.

    Args:
        value: Anything NumPy can read.
        shape: The shape expected.
        element: Leads the message, such as "body 'arm'".
        quantity: The quantity, such as "mass".
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
    # fast path: files have thousands of such triples
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
        quantity: The quantity, such as "mass".
        name: Name of the element, for the error's attribute.
        least: The smallest value allowed.
        infinite: Whether infinity is allowed for "no limit".
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


def convert(
    thing: object, check: Callable[..., object], element: str, *quantities: str, **how: object
) -> None:
    """Replace fields of a record by what a check, such as `number` or `vec3`, returns for them.

    Args:
        thing: The record, while it is made.
        check: Called with value, element, quantity and the keywords.
        element: Leads the message, such as "body 'arm'".
        *quantities: Names of the fields.
        **how: Further keywords of the check.
    """
    for quantity in quantities:
        value = check(getattr(thing, quantity), element, quantity, **how)
        object.__setattr__(thing, quantity, value)


def positive_density(value: object, element: str, quantity: str = "density") -> float:
    """Convert to the reference density of coefficients [kg/m^3], above zero."""
    density = number(value, element, quantity)
    if density <= 0.0:
        raise ModelError(
            f"{element}: {quantity} must be positive, got {density:g} kg/m^3; give the density "
            "for which the coefficients were measured or computed"
        )
    return density


def per_dof(
    value: object,
    element: str,
    quantity: str,
    name: str | None = None,
    *,
    least: float = -math.inf,
    infinite: bool = False,
) -> float | tuple[float, ...]:
    """Convert to one float for all degrees of freedom, or one each.

    Arguments as for `number`.
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
    """Convert to a unit vector; any non-zero length is accepted.

    Vectors of length 1 up to rounding are kept to the last bit, so that saved data reads back
    unchanged.
    """
    x, y, z = vec3(value, element, quantity, name)
    length = math.sqrt(x * x + y * y + z * z)
    if not 1e-150 < length < 1e150:
        # squares overflow; normalize by the largest component first
        largest = max(abs(x), abs(y), abs(z))
        if largest > 0.0:
            x, y, z = x / largest, y / largest, z / largest
        length = math.sqrt(x * x + y * y + z * z)
    if length == 0.0:
        raise ModelError(
            f"{element}: {quantity} must not be zero, got (0, 0, 0); give a direction", name=name
        )
    if abs(length - 1.0) <= UNIT_ROUNDING:
        return (x, y, z)
    return (x / length, y / length, z / length)


def limit_pair(
    value: object, element: str, quantity: str, name: str | None = None
) -> tuple[float, float]:
    """Convert to a lower and an upper limit, either of which may be infinite."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ModelError(
            f"{element}: {quantity} must be two numbers, smallest and largest, got {shown(value)}",
            name=name,
        )
    low, high = (number(x, element, quantity, name, infinite=True) for x in value)
    if not low <= high:
        raise ModelError(
            f"{element}: {quantity} must be smallest and largest in this order, got {low:g} and "
            f"{high:g}; swap them",
            name=name,
        )
    return low, high


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
    """Replace entries within `SNAP_TOLERANCE` of 0, 1 or -1 by exactly that."""
    # one expression, because a plan snaps thousands of entries
    return tuple(
        [
            float(k) if abs(x - (k := round(x))) <= SNAP_TOLERANCE and -1 <= k <= 1 else float(x)
            for x in values
        ]
    )


def _plain(array: NDArray[Any]) -> object:
    """Return the value as Python floats, which print shorter than arrays."""
    return array.tolist()
