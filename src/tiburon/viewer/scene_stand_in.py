"""Solids for bodies that have none: nobody should open a robot and see nothing.

From best to worst: rods from joint to joint; the solid box of the same inertia; a ball of the same
volume of water; a small ball where the body is.
"""

import math

import numpy as np
from numpy.typing import NDArray

from tiburon.model import Body, LoopClosure, Model, Shape
from tiburon.model.pose import Pose
from tiburon.model.shape import BoxShape, CapsuleShape, SphereShape
from tiburon.model.value_checks import Matrix3, matrix3

__all__ = ["robot_size", "stand_in"]

Array = NDArray[np.float64]

SLENDER = 0.07
"""Radius of a rod by its length."""

THICKEST = 0.035
"""Largest radius of a rod by the size of the robot."""

SMALL = 0.02
"""Radius of a joint's ball, and least length of a rod, by the size of the robot."""


def robot_size(model: Model) -> float:
    """Return a rough extent of a robot [m]: half of the way to its farthest part, at least a bit.

    From the links alone, at no position in particular: the longest chain of joint offsets and the
    largest shape.
    """
    reach: dict[str, float] = {}
    largest = 0.0
    for body in model.bodies:
        offset = _norm(body.joint.pose.translation) if body.parent != "world" else 0.0
        reach[body.name] = reach.get(body.parent, 0.0) + offset
        largest = max([largest, *(_shape_radius(shape) for shape in body.shapes)])
        largest = max(largest, _norm(body.inertia.com))
    for frame in model.frames:
        if frame.body in reach:
            largest = max(largest, _norm(frame.pose.translation))
    return max(0.5 * max(reach.values(), default=0.0) + largest, 0.05)


def stand_in(model: Model, body: Body, size: float) -> list[Shape]:
    """Return shapes for a body that has none.

    Args:
        model: The robot.
        body: One of its bodies.
        size: Rough extent of the robot [m].
    """
    ends = [end for end in _ends(model, body) if np.linalg.norm(end) > SMALL * size]
    floats = body.joint.kind == "free"
    box = _inertia_box(body)
    shapes: list[Shape] = []
    if floats and box is not None:
        shapes.append(box)
    shapes += [_rod(end, size) for end in ends]
    if shapes:
        return shapes
    com = np.array(body.inertia.com)
    if body.inertia.mass > 0.0 and np.linalg.norm(com) > 2.0 * SMALL * size:
        # the last link of an arm: as far beyond its center of mass as its joint is before
        return [_rod(2.0 * com, size)]
    if box is not None:
        return [box]
    if body.fluid is not None and body.fluid.volume > 0.0:
        radius = (0.75 * body.fluid.volume / math.pi) ** (1.0 / 3.0)
        pose = Pose(translation=body.fluid.center_of_buoyancy)
        return [Shape(SphereShape(radius), pose)]
    if body.joint.kind == "fixed" and body.inertia.mass == 0.0:
        # a mere place on its parent
        return []
    return [Shape(SphereShape(SMALL * size), Pose(translation=body.inertia.com))]


def _ends(model: Model, body: Body) -> list[Array]:
    """Return where other parts hold on to a body, body axes [m]."""
    places = {frame.name: frame for frame in model.frames}
    ends = [child.joint.pose.translation for child in model.bodies if child.parent == body.name]
    ends += [frame.pose.translation for frame in model.frames if frame.body == body.name]
    ends += [point.position for point in model.contacts if point.body == body.name]
    for loop in model.loops:
        if isinstance(loop, LoopClosure):
            for name, pose in ((loop.first, loop.joint.pose), (loop.second, loop.second_pose)):
                frame = places.get(name)
                if (name if frame is None else frame.body) == body.name:
                    place = pose if frame is None else frame.pose @ pose
                    ends.append(place.translation)
    distinct: dict[tuple[float, ...], Array] = {}
    for end in ends:
        distinct.setdefault(tuple(round(x, 6) for x in end), np.array(end))
    return list(distinct.values())


def _rod(end: Array, size: float) -> Shape:
    """Return a rod from the origin of a body to a point, body axes."""
    length = float(np.linalg.norm(end))
    radius = min(SLENDER * length, THICKEST * size)
    return Shape(CapsuleShape(radius, length), Pose(_along(end / length), tuple(0.5 * end)))


def _along(z: Array) -> Matrix3:
    """Return a rotation whose third axis has a direction."""
    across = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = np.cross(across, z)
    x /= np.linalg.norm(x)
    return matrix3(np.column_stack([x, np.cross(z, x), z]))


def _inertia_box(body: Body) -> Shape | None:
    """Return the solid box of the same mass and inertia; None unless all its edges have a length.

    A box of edges a, b, c has the principal moments m (b^2 + c^2) / 12 and so on.
    """
    mass = body.inertia.mass
    if mass <= 0.0:
        return None
    moments, axes = np.linalg.eigh(body.inertia.matrix)
    if np.linalg.det(axes) < 0.0:
        axes = -axes
    squares = 6.0 / mass * (moments.sum() - 2.0 * moments)
    if squares.min() <= 1e-6 * max(float(squares.max()), 1e-12):
        return None
    x, y, z = np.sqrt(squares).tolist()
    pose = Pose(matrix3(axes), body.inertia.com)
    return Shape(BoxShape((x, y, z)), pose)


def _shape_radius(shape: Shape) -> float:
    """Return how far a shape reaches from the origin of its body, roughly [m]."""
    geometry = shape.geometry
    if isinstance(geometry, BoxShape):
        reach = 0.5 * _norm(geometry.size)
    elif isinstance(geometry, SphereShape):
        reach = geometry.radius
    else:
        length, radius = getattr(geometry, "length", 0.0), getattr(geometry, "radius", 0.0)
        reach = max(0.5 * length + radius, *getattr(geometry, "radii", (0.0,)), 0.0)
    return reach + _norm(shape.pose.translation) if reach else 0.0


def _norm(vector: tuple[float, ...]) -> float:
    return math.sqrt(sum(x * x for x in vector))
