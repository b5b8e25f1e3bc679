"""Poses, inertias and shapes from which generators and `tools/zoo` build robots."""

import math
from dataclasses import replace

import numpy as np

from tiburon.model import Body, CapsuleShape, Inertia, Pose, Shape
from tiburon.model.value_checks import Vec3

UPRIGHT = Pose(((1.0, 0.0, 0.0), (0.0, 0.0, -1.0), (0.0, 1.0, 0.0)))
"""Pose of a vertical planar mechanism: its x axis is x, its y axis up, its z axis world -y."""

GREY = (0.6, 0.6, 0.62, 1.0)
STEEL = (0.45, 0.48, 0.52, 1.0)
ORANGE = (0.95, 0.5, 0.1, 1.0)
YELLOW = (0.95, 0.8, 0.1, 1.0)
BLUE = (0.2, 0.4, 0.75, 1.0)


def at(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Pose:
    """Return a pose without rotation from a position [m]."""
    return Pose(translation=(x, y, z))


def upright(x: float = 0.0, y: float = 0.0) -> Pose:
    """Return a pose in the vertical plane of a planar mechanism, from the plane's x and y [m]."""
    return at(x, 0.0, y) @ UPRIGHT


def thin_rod(mass: float, length: float, radius: float = 0.01) -> Inertia:
    """Return the inertia of a uniform thin rod along x that starts at the origin.

    Across the rod it is exactly m l^2 / 12, as in textbooks on planar mechanisms; along the rod,
    which does not affect planar motion, that of a round bar.
    """
    across = mass * length * length / 12.0
    along = 0.5 * mass * radius * radius
    return Inertia(mass, (0.5 * length, 0.0, 0.0), (along, 0.0, 0.0, across, 0.0, across))


def plate(mass: float, com: Vec3, moment: float) -> Inertia:
    """Return the inertia of a flat body in the plane of x and y, given its moment about z.

    A flat body has Ixx + Iyy = Izz; both are taken as half of it.
    """
    half = 0.5 * moment
    return Inertia(mass, com, (half, 0.0, 0.0, half, 0.0, moment))


def bar_shape(
    length: float, radius: float, color: tuple[float, float, float, float] = GREY
) -> Shape:
    """Return a round bar along x that starts at the origin."""
    return line_shape((0.0, 0.0, 0.0), (length, 0.0, 0.0), radius, color)


def line_shape(
    start: Vec3, end: Vec3, radius: float, color: tuple[float, float, float, float] = GREY
) -> Shape:
    """Return a round bar between two points of a body, for display only."""
    a, b = np.array(start), np.array(end)
    length = math.hypot(*(b - a))
    pose = Pose(axes_along((b - a) / length), tuple(((a + b) / 2.0).tolist()))
    return Shape(CapsuleShape(radius, length), pose=pose, role="visual", color=color)


def axes_along(direction: np.ndarray) -> tuple[Vec3, Vec3, Vec3]:
    """Return a rotation matrix whose z axis points along a direction, as rows."""
    z = np.asarray(direction, dtype=float)
    z = z / math.hypot(*z)
    other = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = np.cross(other, z)
    x = x / math.hypot(*x)
    y = np.cross(z, x)
    rows = np.column_stack([x, y, z]) + 0.0
    return tuple(tuple(row) for row in rows.tolist())  # type: ignore[return-value]


def turned_z(angle: float, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Pose:
    """Return a pose rotated about z by an angle [rad]."""
    return Pose.from_axis_angle((0.0, 0.0, 1.0), angle, (x, y, z))


def degrees(*angles: float) -> tuple[float, ...]:
    """Convert angles from degrees to radians."""
    return tuple(math.radians(angle) for angle in angles)


def prefixed(body: Body, prefix: str, keep_parent: str | None = None) -> Body:
    """Return a body with a prefix before its name, its joint's and its parent's."""
    parent = body.parent if body.parent == keep_parent else f"{prefix}{body.parent}"
    joint = replace(body.joint, name=f"{prefix}{body.joint.name}")
    return replace(body, name=f"{prefix}{body.name}", parent=parent, joint=joint)
