"""Suspicious values of a robot: wrong units, placeholders, missing data.

Impossible values are errors when a model is built. The values reported here are possible but
unlikely.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tiburon.arguments import public
from tiburon.model.body import (
    WORLD,
    Body,
    BoxShape,
    CapsuleShape,
    CylinderShape,
    EllipsoidShape,
    Geometry,
    MeshShape,
    SphereShape,
)
from tiburon.model.joints import Joint
from tiburon.model.model import Model
from tiburon.model.value_checks import Vec3

MAX_JOINT_DISTANCE = 30.0
"""Distance between neighboring joints [m] beyond which lengths look like millimeters."""

HEAVY, LIGHT = 25_000.0, 5.0
"""Range of plausible densities [kg/m^3]: osmium has 22 590, foam some 30."""

MAX_GYRATION_RATIO = 3.0
"""Largest radius of gyration and offset of the center of mass, relative to the size of a body."""

MESH_MARGIN = 10.0
"""Size margin for bodies with meshes, which are not opened."""

MIN_GYRATION_RATIO = 0.02
"""Smallest radius of gyration, relative to the size of a body."""

MAX_ANGLE_LIMIT = 15.0
"""Joint limit [rad] beyond which angles look like degrees: more than two turns either way."""

MAX_MASS_RATIO = 1e6
"""Mass ratio of a body to one that carries it, beyond which rounding of the light one matters."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """One suspicious value of a robot."""

    element: str
    """The element, such as "body 'hand'"."""

    sentence: str
    """Description and remedy."""

    def __str__(self) -> str:
        return f"{self.element}: {self.sentence}"


@public
def model_warnings(model: Model) -> tuple[Suspicion, ...]:
    """Return warnings about suspicious values of a robot.

    Checks for missing and placeholder inertias, for lengths in millimeters, masses in grams and
    angles in degrees, for centers of mass far from their bodies, for limits of zero, for volumes in
    liters, for bodies without hydrodynamic coefficients beside others that have them, and for mesh
    files that do not exist.

    Args:
        model: Any robot.

    Returns:
        One entry each, bodies first, in the order of the model, then joints, water and meshes.

    Example:
        ``for warning in tiburon.model_warnings(robot): print(warning)``
    """
    sizes = body_sizes(model)
    found: list[Suspicion] = []
    for body in model.bodies:
        element = f"body {body.name!r}"
        checks = [
            _inertia(model, body),
            _spread(body, sizes[body.name]),
            _density(body),
            _ratio(model, body),
        ]
        found += [Suspicion(element, sentence) for check in checks for sentence in check]
    for body in model.bodies:
        element = f"joint {body.joint.name!r}"
        checks = [_resisted(model, body.joint), _length(body), _limits(body.joint)]
        found += [Suspicion(element, sentence) for check in checks for sentence in check]
    return (*found, *_buoyancy(model), *_dry(model), *_meshes(model))


def body_sizes(model: Model) -> dict[str, float]:
    """Return the extent of each body from its origin [m]: to shapes and joints it carries."""
    sizes = {body.name: _shape_reach(body) for body in model.bodies}
    for body in model.bodies:
        if body.parent in sizes:
            reach = float(np.linalg.norm(body.joint.pose.translation))
            sizes[body.parent] = max(sizes[body.parent], reach)
    for frame in model.frames:
        if frame.body in sizes:
            reach = float(np.linalg.norm(frame.pose.translation))
            sizes[frame.body] = max(sizes[frame.body], reach)
    return sizes


def _shape_reach(body: Body) -> float:
    reach = 0.0
    for shape in body.shapes:
        half = half_size(shape.geometry)
        if half is not None:
            offset = float(np.linalg.norm(shape.pose.translation))
            reach = max(reach, offset + math.hypot(*half))
    return reach


def half_size(geometry: Geometry) -> Vec3 | None:
    """Return half the edges of the box around a geometry, along its own axes [m].

    None for planes, which are infinite, and for meshes, which are not opened.
    """
    match geometry:
        case BoxShape((x, y, z)):
            return (0.5 * x, 0.5 * y, 0.5 * z)
        case SphereShape(radius):
            return (radius, radius, radius)
        case CylinderShape(radius, length):
            return (radius, radius, 0.5 * length)
        case CapsuleShape(radius, length):
            return (radius, radius, radius + 0.5 * length)
        case EllipsoidShape(radii):
            return radii
        case _:
            return None


def _inertia(model: Model, body: Body) -> Iterator[str]:
    inertia = body.inertia
    if inertia.mass == 0.0:
        if not body.joint.is_rigid and not _carries_mass(model, body.name):
            yield "moves but has no mass; give it an inertia, or fix it if it is only a frame"
        return
    if not any(inertia.tensor):
        yield (
            f"has {inertia.mass:.4g} kg but no moments of inertia: a point mass; add the tensor "
            "if it is not one"
        )
        return
    xx, xy, xz, yy, yz, zz = inertia.tensor
    # cubes and spheres have equal moments too, but rarely powers of ten
    equal = xx == yy == zz and not any((xy, xz, yz))
    if equal and math.log10(xx).is_integer():
        yield f"all moments of inertia are {xx:g} kg m^2, a common placeholder; compute them"


def _carries_mass(model: Model, name: str) -> bool:
    """Return whether bodies welded to this one have mass."""
    welded = {name}
    for body in model.bodies:
        if body.parent in welded and body.joint.is_rigid:
            if body.inertia.mass > 0.0:
                return True
            welded.add(body.name)
    return False


def _spread(body: Body, size: float) -> Iterator[str]:
    inertia = body.inertia
    if inertia.mass == 0.0 or size == 0.0:
        return
    meshes = any(isinstance(shape.geometry, MeshShape) for shape in body.shapes)
    largest = MAX_GYRATION_RATIO * size * (MESH_MARGIN if meshes else 1.0)
    gyration = math.sqrt(max(np.linalg.eigvalsh(inertia.matrix)[-1], 0.0) / inertia.mass)
    if gyration > largest:
        yield (
            f"moments of inertia are those of {inertia.mass:.4g} kg at {gyration:.3g} m, but the "
            f"body reaches {size:.3g} m; check their unit (kg mm^2, g mm^2), and that they are "
            "about the center of mass"
        )
    elif 0.0 < gyration < MIN_GYRATION_RATIO * size:
        yield (
            f"moments of inertia are those of {inertia.mass:.4g} kg at {gyration:.3g} m, but the "
            f"body reaches {size:.3g} m; check their unit"
        )
    offset = float(np.linalg.norm(inertia.com))
    if offset > largest:
        yield (
            f"center of mass is {offset:.3g} m from the origin, but the body reaches {size:.3g} m; "
            "check its unit (millimeters?) and frame"
        )


def _density(body: Body) -> Iterator[str]:
    # visual shapes may be thicker or thinner than the body
    volume = sum(_volume(shape.geometry) for shape in body.shapes if shape.role != "visual")
    if volume == 0.0 or body.inertia.mass == 0.0:
        return
    density = body.inertia.mass / volume
    # small shapes that touch may stand on a body that is only drawn
    drawn = sum(_volume(shape.geometry) for shape in body.shapes if shape.role == "visual")
    if body.inertia.mass > HEAVY * max(volume, drawn):
        yield (
            f"would have a density of {density:.3g} kg/m^3, more than any metal; check the unit of "
            "its mass (grams?) and of its shapes"
        )
    elif density < LIGHT:
        yield (
            f"would have a density of {density:.3g} kg/m^3, less than foam; check the unit of its "
            "mass, and of its shapes (millimeters?)"
        )


def _volume(geometry: Geometry) -> float:
    match geometry:
        case BoxShape((x, y, z)):
            return x * y * z
        case SphereShape(radius):
            return 4.0 / 3.0 * math.pi * radius**3
        case CylinderShape(radius, length):
            return math.pi * radius**2 * length
        case CapsuleShape(radius, length):
            return math.pi * radius**2 * length + 4.0 / 3.0 * math.pi * radius**3
        case EllipsoidShape((a, b, c)):
            return 4.0 / 3.0 * math.pi * a * b * c
        case _:
            return 0.0


def _buoyancy(model: Model) -> Iterator[Suspicion]:
    """Compare displaced and actual mass of all bodies together."""
    wet = [body for body in model.bodies if body.fluid is not None and body.fluid.volume > 0.0]
    volume = sum(body.fluid.volume for body in wet if body.fluid is not None)
    mass = sum(body.inertia.mass for body in wet)
    if mass > 0.0 and not LIGHT <= mass / volume <= HEAVY:
        yield Suspicion(
            "water",
            f"bodies of {mass:.4g} kg displace {volume:.4g} m^3, a density of {mass / volume:.3g} "
            "kg/m^3; check the unit of volumes (liters?) and masses",
        )


def dry_bodies(model: Model) -> list[str]:
    """Return the bodies with mass or shapes that have no hydrodynamic coefficients."""
    return [
        body.name
        for body in model.bodies
        if body.fluid is None and (body.inertia.mass > 0.0 or body.shapes)
    ]


def bodies_of_added_mass_alone(model: Model) -> list[str]:
    """Return the bodies with added mass that have neither buoyancy nor drag, as of SDF files."""
    found = []
    for body in model.bodies:
        if (fluid := body.fluid) is not None and fluid.added_mass is not None:
            forces = (fluid.drag, fluid.fins, fluid.linear_damping, fluid.quadratic_damping)
            if fluid.volume == 0.0 and not any(forces):
                found.append(body.name)
    return found


def _dry(model: Model) -> Iterator[Suspicion]:
    """Report bodies without hydrodynamic coefficients among others that have them."""
    dry = dry_bodies(model)
    if dry and len(dry) < len(model.bodies) and any(body.fluid for body in model.bodies):
        yield Suspicion(
            "water",
            f"{len(dry)} of {len(model.bodies)} bodies have no hydrodynamic coefficients, such as "
            f"{dry[0]!r}: in water they have neither buoyancy nor drag; give them "
            "fluid=BodyFluid(...), or estimate it with add_hydrodynamics",
        )
    bare = bodies_of_added_mass_alone(model)
    if bare:
        yield Suspicion(
            "water",
            f"{len(bare)} of {len(model.bodies)} bodies have added mass, but neither buoyancy nor "
            f"drag, such as {bare[0]!r}; give them a volume and drag=(...), or estimate all "
            "coefficients with add_hydrodynamics(overwrite=True)",
        )


def _meshes(model: Model) -> Iterator[Suspicion]:
    """Report missing mesh files once: where one is missing, most are."""
    meshes = [shape.geometry for body in model.bodies for shape in body.shapes]
    paths = {mesh.path: None for mesh in meshes if isinstance(mesh, MeshShape)}
    missing = [path for path in paths if not os.path.isfile(path)]
    if missing:
        yield Suspicion(
            "meshes",
            f"{len(missing)} of {len(paths)} are missing, such as {missing[0]!r}; give the "
            "folders of their packages",
        )


def _ratio(model: Model, body: Body) -> Iterator[str]:
    if body.parent == WORLD or body.inertia.mass == 0.0:
        return
    carrier = model.body(body.parent).inertia.mass
    if carrier > MAX_MASS_RATIO * body.inertia.mass:
        yield (
            f"has {body.inertia.mass:.3g} kg on a body of {carrier:.3g} kg; check the unit of "
            "both masses"
        )


def _resisted(model: Model, joint: Joint) -> Iterator[str]:
    if joint.name in model.immovable_joint_names:
        yield "has no inertia; give the bodies it carries mass, or the joint an armature"


def _length(body: Body) -> Iterator[str]:
    length = float(np.linalg.norm(body.joint.pose.translation))
    # robots may be anywhere in the world
    if body.parent != WORLD and length > MAX_JOINT_DISTANCE:
        yield f"is {length:.4g} m from its parent's origin; check the unit (millimeters?)"


def _limits(joint: Joint) -> Iterator[str]:
    limits = joint.limits
    if limits is None:
        return
    if joint.kind == "revolute":
        low, high = limits.lower, limits.upper
        bounds = [x for x in (low, high) if isinstance(x, float) and math.isfinite(x)]
        if any(abs(x) > MAX_ANGLE_LIMIT for x in bounds):
            yield f"limits are {low:g} to {high:g} rad, many turns; check the unit (degrees?)"
    for quantity, value in (("speed", limits.velocity), ("force", limits.force)):
        if value == 0.0:
            yield f"largest {quantity} is 0; leave it out if it is not known"
