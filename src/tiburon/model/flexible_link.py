"""Flexible links: beams as rigid segments connected by springs.

A beam of length l is divided into n equal cells. A spring in the middle of each cell represents the
cell's bending and torsion; the part between two springs is a rigid segment, half a cell at both
ends (the rigid finite elements of Wittbrodt, Adamiec-Wojcik and Wojciech 2006, "Dynamics of
Flexible Multibody Systems", chapter 2). Frequencies and deflections converge to those of the beam
with 1 / n^2.

Symbols: E, G moduli; Iy, Iz second moments of the section about y and z; J torsion constant; A
area; rho density. The beam lies along x.
"""

import math
from collections.abc import Iterable

from tiburon.arguments import public
from tiburon.errors import ModelError, OptionError
from tiburon.model.body import WORLD, Body, BoxShape, CylinderShape, Frame, Shape
from tiburon.model.inertia import Inertia
from tiburon.model.joints import Fixed, Joint, Revolute, Spherical, Universal
from tiburon.model.joints.joint import JointPassive
from tiburon.model.model import Model
from tiburon.model.pose import Pose
from tiburon.model.value_checks import check_name, number
from tiburon.record import record

DEFORMATIONS = ("twist", "bend_y", "bend_z")
"""Deformations of a beam: torsion about its own axis x, bending about y and z."""

AXES = {"twist": (1.0, 0.0, 0.0), "bend_y": (0.0, 1.0, 0.0), "bend_z": (0.0, 0.0, 1.0)}

MOST_SEGMENTS = 1000
"""Largest number of cells of one beam."""

SMALLEST_MASS = 1e-100
"""Smallest mass of a segment [kg]; moments of inertia of far smaller ones underflow."""


@record
class BeamSection:
    """The section of a beam, in axes y and z across it; immutable, compares by value.

    Example:
        ``BeamSection.rectangle(0.05, 0.005)`` is 50 mm along y and 5 mm along z;
        ``BeamSection.tube(0.02, 0.018)`` has these radii.
    """

    area: float
    """A [m^2]."""

    second_moment_y: float
    """Iy, the integral of z^2, for bending about y [m^4]."""

    second_moment_z: float
    """Iz, the integral of y^2, for bending about z [m^4]."""

    torsion_constant: float
    """J: torsion constant [m^4]; Iy + Iz for round sections, less for all others."""

    outline: tuple[float, ...] = ()
    """How it is drawn: width along y and height along z of a box [m], or a radius; or nothing."""

    def __post_init__(self) -> None:
        for quantity in ("area", "second_moment_y", "second_moment_z", "torsion_constant"):
            value = number(getattr(self, quantity), "beam section", quantity)
            if value <= 0.0:
                raise ModelError(
                    f"beam section: {quantity} must be positive, got {value:g}; check its unit"
                )
            object.__setattr__(self, quantity, value)
        outline = tuple(number(x, "beam section", "outline", least=0.0) for x in self.outline)
        object.__setattr__(self, "outline", outline)

    @classmethod
    @public
    def rectangle(cls, width: float, height: float) -> "BeamSection":
        """Return a solid rectangle.

        Args:
            width: Along y [m].
            height: Along z [m].
        """
        width = _positive(width, "beam section", "width", "")
        height = _positive(height, "beam section", "height", "")
        a, b = max(width, height), min(width, height)
        # Timoshenko and Goodier 1970, "Theory of Elasticity", section 109: a fit within 0.5 %
        J = a * b * b * b * (1.0 / 3.0 - 0.21 * b / a * (1.0 - (b / a) ** 4 / 12.0))
        area = width * height
        moments = (area * height * height / 12.0, area * width * width / 12.0)
        return cls(area, *moments, J, (width, height))

    @classmethod
    @public
    def tube(cls, radius: float, inner_radius: float = 0.0) -> "BeamSection":
        """Return a round rod, or a tube.

        Args:
            radius: Outer radius [m].
            inner_radius: Radius of the hole [m].
        """
        radius = _positive(radius, "beam section", "radius", "")
        inner_radius = number(inner_radius, "beam section", "inner_radius", least=0.0)
        if inner_radius >= radius:
            raise ModelError(
                f"beam section: inner_radius must be below the radius of {radius:g} m, got "
                f"{inner_radius:g} m; check both"
            )
        outer, inner = radius * radius, inner_radius * inner_radius
        area = math.pi * (outer - inner)
        moment = 0.25 * math.pi * (outer * outer - inner * inner)
        return cls(area, moment, moment, 2.0 * moment, (radius,))


@public
def flexible_link(
    name: str,
    section: BeamSection,
    *,
    length: float,
    segments: int,
    youngs_modulus: float,
    density: float,
    shear_modulus: float | None = None,
    deformations: Iterable[str] = DEFORMATIONS,
    damping_time: float = 0.0,
) -> Model:
    """Build a flexible beam, as a model to attach to others.

    Its root is fixed to the world at the origin, it lies along x, and the frame ``{name}_tip`` is
    at its end. Segments are called ``{name}_0``, ``{name}_1``, ... and the joints between them
    ``{name}_joint_1``, ...; springs and dampers are the `JointPassive` of these, which simulations
    apply. Deflections may be large: only each single spring is linear.

    Args:
        name: Name of the link, and of the model.
        section: Cross section.
        length: l [m].
        segments: n, the number of springs.
        youngs_modulus: E [Pa].
        density: rho [kg/m^3].
        shear_modulus: G [Pa]; E / 2.6, that of a Poisson's ratio of 0.3, by default.
        deformations: Which of "twist", "bend_y" and "bend_z" it has; it is rigid otherwise.
        damping_time: Damping per stiffness [s] (Kelvin-Voigt material): a mode of frequency w has
            the damping ratio w damping_time / 2.

    Returns:
        The link: n + 1 bodies, n degrees of freedom for each deformation.

    Example:
        An arm with a flexible second link::

            blade = tb.flexible_link("blade", tb.BeamSection.rectangle(0.005, 0.05), length=1.0,
                                     segments=10, youngs_modulus=70e9, density=2700.0)
            arm = hub.attach(blade, at="flange")
    """
    check_name(name, "flexible link")
    element = f"flexible link {name!r}"
    count: object = segments
    if not isinstance(count, int) or not 1 <= count <= MOST_SEGMENTS:
        raise ModelError(
            f"{element}: segments must be a whole number from 1 to {MOST_SEGMENTS}, got "
            f"{segments!r}; ten give the first frequency of a beam within 0.5 %",
            name=name,
        )
    E, rho, l = (
        _positive(x, element, word, name)
        for x, word in (
            (youngs_modulus, "youngs_modulus"),
            (density, "density"),
            (length, "length"),
        )
    )
    G = (
        E / 2.6
        if shear_modulus is None
        else _positive(shear_modulus, element, "shear_modulus", name)
    )
    damping = number(damping_time, element, "damping_time", name, least=0.0)
    given = (deformations,) if isinstance(deformations, str) else tuple(deformations)
    for word in given:
        if word not in DEFORMATIONS:
            raise OptionError("deformations", DEFORMATIONS, word)
    # in a fixed order, because the order of the axes matters
    chosen = tuple(word for word in DEFORMATIONS if word in given)
    if not chosen:
        raise OptionError("deformations", DEFORMATIONS, given)
    cell = l / segments
    if rho * section.area * 0.5 * cell < SMALLEST_MASS:
        raise ModelError(
            f"{element}: density times the volume of a segment must be at least "
            f"{SMALLEST_MASS:g} kg, got {rho:g} kg/m^3; check units",
            name=name,
        )
    stiffness = {
        "twist": G * section.torsion_constant / cell,
        "bend_y": E * section.second_moment_y / cell,
        "bend_z": E * section.second_moment_z / cell,
    }
    springs = JointPassive(
        damping=tuple(damping * stiffness[word] for word in chosen),
        stiffness=tuple(stiffness[word] for word in chosen),
    )
    bodies = [_piece(f"{name}_0", WORLD, Fixed(f"{name}_root"), section, rho, 0.5 * cell)]
    for k in range(1, segments + 1):
        begin = 0.5 * cell if k == 1 else cell
        place = Pose(translation=(begin, 0.0, 0.0))
        joint = _joint(f"{name}_joint_{k}", chosen, place, springs)
        long = 0.5 * cell if k == segments else cell
        bodies.append(_piece(f"{name}_{k}", bodies[-1].name, joint, section, rho, long))
    tip = Frame(f"{name}_tip", bodies[-1].name, Pose(translation=(0.5 * cell, 0.0, 0.0)))
    about = f"A beam of {l:g} m as {segments + 1} rigid segments connected by springs"
    return Model(name, bodies, [tip], about=about)


def _positive(value: float, element: str, quantity: str, name: str) -> float:
    found = number(value, element, quantity, name)
    if found <= 0.0:
        raise ModelError(
            f"{element}: {quantity} must be positive, got {found:g}; check its unit", name=name
        )
    return found


def _joint(name: str, deformations: tuple[str, ...], pose: Pose, springs: JointPassive) -> Joint:
    """Return the joint for some deformations: revolute, universal or spherical."""
    axes = [AXES[word] for word in deformations]
    if len(axes) == 1:
        return Revolute(name, axes[0], pose=pose, passive=springs)
    if len(axes) == 2:
        return Universal(name, axes[0], axes[1], pose=pose, passive=springs)
    return Spherical(name, pose=pose, passive=springs)


def _piece(
    name: str, parent: str, joint: Joint, section: BeamSection, rho: float, length: float
) -> Body:
    """Return a rigid segment of a beam that begins at its joint."""
    mass = rho * section.area * length
    slender = mass * length * length / 12.0
    # rotary inertia of the section
    y, z = rho * length * section.second_moment_y, rho * length * section.second_moment_z
    middle = (0.5 * length, 0.0, 0.0)
    inertia = Inertia(mass, middle, (y + z, 0.0, 0.0, slender + y, 0.0, slender + z))
    shapes: tuple[Shape, ...] = ()
    if len(section.outline) == 2:
        shapes = (Shape(BoxShape((length, *section.outline)), Pose(translation=middle)),)
    elif section.outline:
        along = Pose.from_rpy((0.0, 0.5 * math.pi, 0.0), middle)
        shapes = (Shape(CylinderShape(section.outline[0], length), along),)
    return Body(name, parent, joint=joint, inertia=inertia, shapes=shapes)
