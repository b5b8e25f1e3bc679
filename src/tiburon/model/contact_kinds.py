"""Kinds of contacts and kinematic pairs: degrees of freedom, wrench bases, unilateral directions.

The catalogue follows Nahon 1991, section 2.3. A contact with N degrees of freedom transmits
wrenches of a (6 - N)-dimensional space; its basis is reciprocal to the free motions. Wrenches are
[n; f] and twists [w; v], moment and angular velocity first, about the origin of the contact frame:
z is the normal of a contact, pointing to the body the wrench acts on, or the axis of a pair; x is
the direction of a line contact.

Friction closes directions as long as it sticks: a point contact keeps 3 of 5 degrees of freedom, a
soft finger 2. Breakaway frees them again (`ContactKind.sliding`). Rolling contacts have the basis
of contacts that stick, but their point moves over both surfaces: the constraints on velocities
are non-holonomic.

Extended contacts consist of points (Featherstone 1987, L2786-2790): an edge of its two ends, a
polygon of the corners of its convex hull, a disc of points on its rim. `independent_normals` drops
those that are positively dependent on others, which leaves the cone of contact wrenches unchanged.
"""

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from tiburon.argument_checks import at_least, check_finite, choice, positive
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import DomainError, ModelError, OptionError, ShapeError, shown
from tiburon.model.value_checks import number
from tiburon.record import record

DIRECTIONS = ("nx", "ny", "nz", "fx", "fy", "fz")
"""Components of a wrench in the contact frame."""


@record
class ContactKind:
    """A kind of contact or kinematic pair; immutable, compares by value."""

    name: str
    """Name, as in `CONTACT_KINDS`."""

    constrained: tuple[str, ...]
    """Components of the wrench that geometry transmits, of `DIRECTIONS`; "screw" for the wrench
    along the thread of a helical pair."""

    unilateral: tuple[str, ...] = ()
    """Those that act in their positive direction alone."""

    frictional: tuple[str, ...] = ()
    """Further components, which friction transmits while it sticks."""

    rolling: bool = False
    """Whether the contact point moves over both bodies as they turn."""

    pitch: float = 0.0
    """Advance of a helical pair per angle [m/rad]."""

    @property
    def wrench_labels(self) -> tuple[str, ...]:
        """Names of the columns of `wrench_basis`: `constrained`, then `frictional`."""
        return (*self.constrained, *self.frictional)

    @property
    def dof(self) -> int:
        """Degrees of freedom N of the relative motion."""
        return 6 - len(self.wrench_labels)

    @property
    def wrench_basis(self) -> NDArray[np.float64]:
        """Basis of the transmitted wrenches [n; f], shape (6, 6 - N)."""
        basis = np.zeros((6, len(self.wrench_labels)))
        for column, label in zip(basis.T, self.wrench_labels, strict=True):
            if label == "screw":
                # no power along the thread: nz + pitch fz = 0
                column[2], column[5] = -self.pitch, 1.0
            else:
                column[DIRECTIONS.index(label)] = 1.0
        return basis

    @property
    def freedom_basis(self) -> NDArray[np.float64]:
        """Basis of the free motions [w; v], reciprocal to the wrenches, shape (6, N)."""
        labels = self.wrench_labels
        if "screw" in labels:
            thread = np.array([[0.0, 0.0, 1.0, 0.0, 0.0, self.pitch]]).T
            return thread[:, : self.dof]
        return np.eye(6)[:, [k for k, label in enumerate(DIRECTIONS) if label not in labels]]

    @property
    def unilateral_columns(self) -> tuple[bool, ...]:
        """For each column of `wrench_basis`, whether its coefficient must not be negative."""
        return tuple(label in self.unilateral for label in self.wrench_labels)

    @property
    def sliding(self) -> "ContactKind":
        """The kind after breakaway: the same geometry without friction."""
        name = "point" if self.name == "soft finger" else self.name
        return contact_kind(name, pitch=self.pitch)


_POINT, _LINE, _PLANE = ("fz",), ("fz", "ny"), ("fz", "nx", "ny")

_GEOMETRIES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "point": (_POINT, ("fx", "fy")),
    "soft finger": (_POINT, ("fx", "fy", "nz")),
    "line": (_LINE, ("fx", "fy", "nz")),
    "plane": (_PLANE, ("fx", "fy", "nz")),
    "revolute": (("nx", "ny", "fx", "fy", "fz"), ("nz",)),
    "prismatic": (("nx", "ny", "nz", "fx", "fy"), ("fz",)),
    "helical": (("nx", "ny", "fx", "fy", "screw"), ("nz",)),
    "cylindrical": (("nx", "ny", "fx", "fy"), ("nz", "fz")),
    "spherical": (("fx", "fy", "fz"), ("nx", "ny", "nz")),
    "planar": (_PLANE, ("fx", "fy", "nz")),
}
"""By name: components that geometry transmits, and those that friction adds."""

CONTACT_KINDS = tuple(_GEOMETRIES)
"""Names: contacts, then the lower pairs R, P, H, C, S and E."""

UNILATERAL_KINDS = ("point", "soft finger", "line", "plane")
"""Kinds whose normal force only pushes; pairs transmit both signs."""

ROLLING_KINDS = ("point", "soft finger", "line")
"""Kinds that can roll, by friction."""


def contact_kind(
    name: str, *, friction: bool = False, rolling: bool = False, pitch: float = 0.0
) -> ContactKind:
    """Return a kind of contact.

    Args:
        name: One of `CONTACT_KINDS`.
        friction: Whether friction sticks. A soft finger always has friction.
        rolling: Whether the contact point moves over both bodies as they turn; needs friction.
        pitch: Advance of a helical pair per angle [m/rad].

    Raises:
        OptionError: If the kind does not exist.
        ModelError: If the kind cannot roll, or has no pitch.
    """
    if name not in _GEOMETRIES:
        raise OptionError("name", CONTACT_KINDS, name)
    for argument, value in (("friction", friction), ("rolling", rolling)):
        choice(argument, value, (True, False))
    element = f"{name} contact"
    pitch = number(pitch, element, "pitch")
    if pitch and name != "helical":
        raise ModelError(f"{element}: pitch must be 0, got {pitch:g} m/rad; use 'helical'")
    friction = friction or name == "soft finger"
    if rolling and name not in ROLLING_KINDS:
        raise ModelError(
            f"{element}: cannot roll; leave out rolling=True, or use one of "
            f"{', '.join(ROLLING_KINDS)}"
        )
    if rolling and not friction:
        raise ModelError(f"{element}: rolling needs friction; add friction=True")
    constrained, frictional = _GEOMETRIES[name]
    return ContactKind(
        name,
        constrained,
        ("fz",) if name in UNILATERAL_KINDS else (),
        frictional if friction else (),
        rolling,
        pitch,
    )


def edge_points(first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    """Return the contact points of a straight edge: its two ends [m], shape (2, 3).

    Raises:
        ShapeError: If an end is not three numbers.
        DomainError: If both ends coincide.
    """
    ends = np.array([_finite("first", first, 1), _finite("second", second, 1)])
    if ends.shape != (2, 3):
        raise ShapeError("edge", "two ends of 3 numbers", str(ends.shape))
    if not (ends[0] != ends[1]).any():
        raise DomainError(
            "edge", "two different ends", str(ends[0].tolist()), advice="use a point contact"
        )
    return ends


def hull_corners(points: ArrayLike) -> tuple[int, ...]:
    """Return which points of a flat contact are corners of its convex hull.

    Args:
        points: Points in the plane of the contact, any unit, shape (n, 2).

    Returns:
        Indices, counterclockwise from the lowest x; one for coincident points, two for points of
        one line. Of equal points the first counts.

    Raises:
        ShapeError: If the points do not have two coordinates.
    """
    found = _finite("points", points, 2)
    if found.shape[1:] != (2,) or not len(found):
        raise ShapeError(
            "points", "n x 2 coordinates in the contact plane", " x ".join(map(str, found.shape))
        )
    size = float(np.ptp(found, axis=0).max())
    order: list[int] = []
    for k in sorted(range(len(found)), key=lambda k: (*found[k].tolist(), k)):
        if not order or np.abs(found[k] - found[order[-1]]).max() > 1e-12 * size:
            order.append(k)

    def chain(indices: Iterable[int]) -> list[int]:
        corners: list[int] = []
        for k in indices:
            while len(corners) > 1:
                (ax, ay), (bx, by) = (
                    found[corners[-1]] - found[corners[-2]],
                    (found[k] - found[corners[-2]]),
                )
                if ax * by - ay * bx > 1e-12 * size * size:
                    break
                corners.pop()
            corners.append(k)
        return corners[:-1]

    return (*chain(order), *chain(reversed(order))) or (order[0],)


def disc_points(radius: float, count: int, phase: float = 0.0) -> NDArray[np.float64]:
    """Return contact points of a disc: equally spaced points of its rim [m], shape (count, 3).

    The wrenches of an ideal disc are those of infinitely many points. `count` points shrink the
    support by at most the fraction 1 - cos(pi / count) of the radius.

    Args:
        radius: Radius [m].
        count: Number of points, at least 3.
        phase: Angle of the first point from the x axis [rad].

    Raises:
        DomainError: If the radius is not positive, or there are fewer than 3 points.
    """
    radius = positive("radius", radius, "m")
    count = at_least("count", count, 3)
    angles = number(phase, "disc", "phase") + 2.0 * math.pi * np.arange(count) / count
    return np.stack([radius * np.cos(angles), radius * np.sin(angles), 0.0 * angles], axis=1)


def independent_normals(wrenches: ArrayLike, tolerance: float = 1e-9) -> tuple[int, ...]:
    """Return which unilateral contacts suffice for the cone of contact wrenches.

    A contact whose normal is zero, or a non-negative combination of other normals, adds no wrench
    and blocks no motion that the others leave (Featherstone 1987, L2995-3003: one coefficient of
    odd sign, or a null vector). Later contacts are dropped before earlier ones.

    Args:
        wrenches: Unit normals [n; f] as columns, or their generalized forces; shape (r, m).
        tolerance: Distance of a normalized column from the cone of the others up to which it
            counts as inside. Rows should have comparable sizes: scale moments by a length.

    Returns:
        Indices of the columns to keep, in order.

    Raises:
        ShapeError: If the wrenches are not a matrix.
    """
    columns = _finite("wrenches", wrenches, 2).T
    tolerance = positive("tolerance", tolerance)
    lengths = np.linalg.norm(columns, axis=1)
    largest = float(lengths.max(initial=0.0))
    kept = [k for k in range(len(columns)) if lengths[k] > tolerance * largest]
    unit = columns / np.where(lengths > 0.0, lengths, 1.0)[:, None]
    for k in reversed(kept.copy()):
        others = [i for i in kept if i != k]
        if others:
            cone = unit[others].T
            nearest = cone @ nonnegative_least_squares(cone, unit[k])
            if float(np.linalg.norm(unit[k] - nearest)) <= tolerance:
                kept = others
    return tuple(kept)


def nonnegative_least_squares(
    A: NDArray[np.float64], b: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return x >= 0 that minimizes |A x - b| (Lawson and Hanson 1974, algorithm NNLS).

    Columns of comparable lengths are assumed. The columns of non-zero x are independent.
    """
    count = A.shape[1]
    x, passive = np.zeros(count), np.zeros(count, dtype=bool)
    # columns that rounding keeps from leaving zero
    refused = np.zeros(count, dtype=bool)
    least = 1e-13 * max(1.0, float(np.abs(A).max(initial=0.0))) * float(np.linalg.norm(b))
    for _ in range(10 * count):
        gradient = np.where(passive | refused, -np.inf, A.T @ (b - A @ x))
        k = int(gradient.argmax())
        if gradient[k] <= least:
            break
        passive[k] = True
        z = _on_columns(A, b, passive)
        if z[k] <= 0.0:
            passive[k], refused[k] = False, True
            continue
        while (blocked := passive & (z <= 0.0)).any():
            step = float(np.min(x[blocked] / (x[blocked] - z[blocked])))
            x = x + step * (z - x)
            passive &= x > 1e-15 * float(x.max())
            x[~passive] = 0.0
            z = _on_columns(A, b, passive)
        x = z
        refused[:] = False
    return x


def _on_columns(
    A: NDArray[np.float64], b: NDArray[np.float64], chosen: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the least-squares solution of A x = b that uses some columns only."""
    x = np.zeros(A.shape[1])
    x[chosen] = np.linalg.lstsq(A[:, chosen], b, rcond=None)[0]
    return x


def _finite(argument: str, value: ArrayLike, ndim: int) -> NDArray[np.float64]:
    """Return an array of finite floats with a given number of dimensions."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ShapeError(argument, f"an array of {ndim} dimensions", repr(value)) from error
    if array.ndim != ndim:
        raise ShapeError(argument, f"an array of {ndim} dimensions", array.shape)
    check_finite(argument, array)
    return array


# which shapes touch

ContactBits: TypeAlias = tuple[int, int]
"""Bits of what a shape is, and of what it touches (contype and conaffinity of MuJoCo)."""

MAX_BITS = 2**32
"""Bits of a shape are below this."""


def checked_bits(value: object, element: str) -> ContactBits:
    """Return two sets of bits as integers.

    Raises:
        ModelError: If they are something else.
    """
    given = value if isinstance(value, (tuple, list)) else ()
    if len(given) != 2 or not all(
        isinstance(x, (int, float)) and x == int(x) and 0 <= x < MAX_BITS for x in given
    ):
        raise ModelError(
            f"{element}: contact_bits must be two integers from 0 to {MAX_BITS - 1}, got "
            f"{shown(value)}; write (1, 1), or None for a shape that touches all others"
        )
    return (int(given[0]), int(given[1]))


def bits_match(first: ContactBits | None, second: ContactBits | None) -> bool:
    """Return whether two shapes touch: what one of them is, is among what the other touches."""
    if first is None or second is None:
        return True
    return bool(first[0] & second[1] or second[0] & first[1])


# surfaces

FRICTION_RULES = ("smaller", "larger")
"""Which coefficients of friction count of two surfaces in contact."""

MATERIAL = (
    "static_friction",
    "kinetic_friction",
    "restitution",
    "normal_stiffness",
    "normal_damping",
    "planar_stiffness",
    "planar_damping",
    "dissipation",
    "torsional_friction",
    "rolling_friction",
)
"""Fields of a surface, in the order of `ContactMaterial.values`."""


@record
class ContactMaterial:
    """Friction, restitution and compliance of a surface; immutable, compares by value.

    Rigid contact has restitution and no compliance; compliant contact the other way round.
    Stiffness and damping are those of one contact point; a surface without stiffness is rigid.
    """

    static_friction: float = 0.0
    """Coefficient of static friction."""

    kinetic_friction: float | None = None
    """Coefficient of kinetic friction; that of static friction by default."""

    restitution: float = 0.0
    """Poisson's coefficient of restitution: impulse of decompression per impulse of compression."""

    normal_stiffness: float = 0.0
    """Normal stiffness [N/m]."""

    normal_damping: float = 0.0
    """Normal damping [N s/m]."""

    planar_stiffness: float = 0.0
    """Tangential stiffness while sticking [N/m]; 0 for that of the normal, with its damping."""

    planar_damping: float = 0.0
    """Tangential damping while sticking [N s/m]."""

    dissipation: float = 0.0
    """Coefficient c of Hunt and Crossley [s/m]: the normal force is k d (1 + c d') at depth d."""

    friction_rule: str = "smaller"
    """Which coefficients of friction two surfaces have in contact: "smaller" for those of the
    surface with less, "larger" for the larger ones (as in MuJoCo). "larger" of one counts."""

    torsional_friction: float = 0.0
    """Largest moment about the normal per normal force [m], against spinning; rigid contact
    only."""

    rolling_friction: float = 0.0
    """Largest moment about the tangents per normal force [m], against rolling; rigid contact
    only."""

    def __post_init__(self) -> None:
        check_material(self, "contact material")

    @property
    def values(self) -> tuple[float, ...]:
        """Its values in the order of `MATERIAL`."""
        return tuple(getattr(self, name) for name in MATERIAL)


def check_material(surface: Any, element: str) -> None:
    """Check the values of a surface; kinetic friction becomes static by default.

    Raises:
        ModelError: If a value is negative, kinetic friction exceeds static friction, restitution
            exceeds 1, damping is given without stiffness, or the rule of friction does not exist.
    """
    if surface.friction_rule not in FRICTION_RULES:
        raise ModelError(
            f"{element}: friction_rule must be 'smaller' or 'larger', got "
            f"{shown(surface.friction_rule)}; 'larger' is that of MuJoCo"
        )
    if surface.kinetic_friction is None:
        object.__setattr__(surface, "kinetic_friction", surface.static_friction)
    for quantity in MATERIAL:
        value = number(getattr(surface, quantity), element, quantity, least=0.0)
        object.__setattr__(surface, quantity, value)
    static, kinetic, bounce = (
        surface.static_friction,
        surface.kinetic_friction,
        surface.restitution,
    )
    if kinetic > static:
        raise ModelError(
            f"{element}: kinetic_friction must be at most static_friction {static:g}, got "
            f"{kinetic:g}; exchange the two, or give the same value for both"
        )
    if bounce > 1.0:
        raise ModelError(
            f"{element}: restitution must be between 0 and 1, got {bounce:g}; 0 for contacts that "
            "do not bounce"
        )
    for direction in ("normal", "planar"):
        stiffness, damping = (
            getattr(surface, f"{direction}_{quantity}") for quantity in ("stiffness", "damping")
        )
        if damping and not stiffness:
            raise ModelError(
                f"{element}: {direction}_damping {damping:g} needs a {direction}_stiffness above "
                "0, got none; give both"
            )
    if surface.dissipation and not surface.normal_stiffness:
        raise ModelError(
            f"{element}: dissipation {surface.dissipation:g} needs a normal_stiffness above 0, got "
            "none; give both"
        )


def combined_material(
    first: ContactMaterial | None, second: ContactMaterial | None
) -> ContactMaterial:
    """Return the material of a contact of two surfaces.

    Of restitution the smaller value counts, of friction those that the rules of the surfaces
    choose. Compliant surfaces act in series: each takes the share of the depth that its stiffness
    allows, and dissipates with this share of the speed. A surface without material takes that of
    the other; two without have no friction.
    """
    one, other = first or second or ContactMaterial(), second or first or ContactMaterial()
    rule = max(one.friction_rule, other.friction_rule, key=FRICTION_RULES.index)
    choose = max if rule == "larger" else min
    static, kinetic = map(choose, one.values[:2], other.values[:2])
    spin, roll = map(choose, one.values[-2:], other.values[-2:])
    bounce = min(one.restitution, other.restitution)
    if first is None or second is None:
        other = ContactMaterial()
    k, b, c = _in_series(one, other, "normal")
    planar_k, planar_b, _ = _in_series(one, other, "planar")
    return ContactMaterial(static, kinetic, bounce, k, b, planar_k, planar_b, c, rule, spin, roll)


def _in_series(
    first: ContactMaterial, second: ContactMaterial, direction: str
) -> tuple[float, float, float]:
    """Return stiffness, damping and dissipation of two surfaces, one on the other.

    Depths are shared in the inverse ratio of the stiffnesses, rates likewise; damping and
    dissipation are those that dissipate the same power.
    """
    one, other = (_compliance(surface, direction) for surface in (first, second))
    if not (one[0] and other[0]):
        return one if one[0] else other
    total = one[0] + other[0]
    share, rest = other[0] / total, one[0] / total
    squares = share * share, rest * rest
    b, c = (squares[0] * one[k] + squares[1] * other[k] for k in (1, 2))
    return one[0] * share, b, c


def _compliance(surface: ContactMaterial, direction: str) -> tuple[float, float, float]:
    """Return stiffness, damping and dissipation; in the plane those of the normal by default."""
    normal = (surface.normal_stiffness, surface.normal_damping, surface.dissipation)
    if direction == "normal" or not surface.planar_stiffness:
        return normal
    return surface.planar_stiffness, surface.planar_damping, 0.0
