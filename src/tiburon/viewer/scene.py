"""What is to be drawn of a robot: solids with colors, frames, centers and thrusters, as plain data.

Poses are fixed in their body; where the bodies are is the business of who draws. Both the replay
page and the live scene draw from this, so that a robot looks the same everywhere.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tiburon.model import Body, Model, Shape
from tiburon.model.pose import Pose
from tiburon.model.shape import (
    BoxShape,
    CapsuleShape,
    CylinderShape,
    EllipsoidShape,
    MeshShape,
    SphereShape,
)
from tiburon.model.value_checks import Vec3
from tiburon.record import record
from tiburon.spatial.rotations import matrix_to_quaternion
from tiburon.viewer.scene_mesh import Mesh, read_mesh
from tiburon.viewer.scene_stand_in import robot_size, stand_in

__all__ = [
    "Scene",
    "SceneBody",
    "SceneFrame",
    "ScenePart",
    "SceneThruster",
    "half_extents",
    "quaternions",
    "scene_of",
]

Array = NDArray[np.float64]
Color = tuple[float, float, float, float]
Quaternion = tuple[float, float, float, float]

PALETTE: tuple[Color, ...] = (
    (0.22, 0.42, 0.69, 1.0),
    (0.90, 0.55, 0.18, 1.0),
    (0.36, 0.62, 0.60, 1.0),
    (0.74, 0.32, 0.30, 1.0),
    (0.55, 0.58, 0.63, 1.0),
    (0.52, 0.42, 0.66, 1.0),
)
"""Colors of bodies that have none of their own, one after the other: red, green, blue, opacity."""

ONLY_COLLISION: Color = (0.55, 0.60, 0.66, 1.0)
"""Color of shapes that were meant for collisions alone."""


@record
class ScenePart:
    """One solid, fixed in a body."""

    kind: str
    """ "box", "sphere", "cylinder", "capsule", "ellipsoid", "plane" or "mesh"."""

    size: tuple[float, ...]
    """Edge lengths; radius; radius and length along z; half axes; nothing for plane and mesh [m].

    The length of a capsule is that between the centers of its half balls."""

    position: Vec3
    """Its middle, body axes [m]."""

    quaternion: Quaternion
    """(w, x, y, z), axes of the solid to body axes."""

    color: Color
    """Red, green, blue and opacity, each between 0 and 1, as on a screen (sRGB)."""

    stand_in: bool = False
    """Whether it was made up because the body has no shape of its own."""

    mesh: Mesh | None = None
    """The surface, where the kind is "mesh"."""

    @property
    def rotation(self) -> Array:
        """Axes of the solid in body axes, shape (3, 3)."""
        w, x, y, z = self.quaternion
        return np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )


@record
class SceneFrame:
    """A named frame, fixed in a body."""

    name: str
    body: str
    """Name of the body, or "world"."""

    position: Vec3
    """Origin in body axes [m]."""

    quaternion: Quaternion
    """(w, x, y, z), axes of the frame to body axes."""


@record
class SceneThruster:
    """A propeller, fixed in a body."""

    name: str
    body: str
    position: Vec3
    """Where it pushes, body axes [m]."""

    direction: Vec3
    """Unit vector of positive thrust on the body, body axes."""

    radius: float
    """How large it is drawn [m]; models do not say."""


@record
class SceneBody:
    """A body: what it looks like, and what its centers follow from."""

    name: str
    parts: tuple[ScenePart, ...]
    mass: float
    """[kg]."""

    center_of_mass: Vec3
    """Body axes [m]."""

    volume: float
    """Of water it displaces [m^3]; 0 where water does nothing to it."""

    center_of_buoyancy: Vec3
    """Body axes [m]."""


@record
class Scene:
    """A robot as it is drawn."""

    name: str
    about: str
    bodies: tuple[SceneBody, ...]
    """In the order of the model's bodies."""

    frames: tuple[SceneFrame, ...]
    thrusters: tuple[SceneThruster, ...]
    size: float
    """Rough extent of the robot [m]: how large arrows, axes and labels should be."""

    notes: tuple[str, ...]
    """What could not be drawn as the model says, one sentence each."""


def scene_of(
    model: Model, *, colors: Sequence[Color] | None = None, triangles: int = 8000
) -> Scene:
    """Return what is to be drawn of a robot.

    Bodies show their visual shapes, or those for collision if they have no other. A body without
    any gets a stand-in from its joints, its inertia or the water it displaces.

    Args:
        model: The robot.
        colors: Given in turn to bodies that have no color; `PALETTE` by default.
        triangles: Largest number of triangles kept of one mesh file.
    """
    palette = tuple(colors) if colors else PALETTE
    size = robot_size(model)
    notes: list[str] = []
    bodies = []
    for number, body in enumerate(model.bodies):
        color = palette[number % len(palette)]
        parts = _parts(body, color, triangles, notes)
        if not parts:
            made = stand_in(model, body, size)
            parts = [_part(shape, color, triangles, notes, stand_in=True) for shape in made]
        bodies.append(_scene_body(body, [part for part in parts if part is not None]))
    frames = [
        SceneFrame(f.name, f.body, f.pose.translation, _quaternion(f.pose)) for f in model.frames
    ]
    return Scene(
        model.name,
        model.about,
        tuple(bodies),
        tuple(frames),
        tuple(_thrusters(model, size)),
        size,
        tuple(notes),
    )


def _parts(body: Body, color: Color, triangles: int, notes: list[str]) -> list[ScenePart | None]:
    seen = [shape for shape in body.shapes if shape.role != "collision"]
    for shapes, default in ((seen, color), (body.shapes, ONLY_COLLISION)):
        found = [_part(shape, default, triangles, notes) for shape in shapes]
        if any(found):
            return found
    return []


def _part(
    shape: Shape, color: Color, triangles: int, notes: list[str], *, stand_in: bool = False
) -> ScenePart | None:
    """Return a shape as it is drawn; None for a mesh that cannot be read."""
    geometry, mesh = shape.geometry, None
    if isinstance(geometry, BoxShape):
        kind, size = "box", tuple(geometry.size)
    elif isinstance(geometry, SphereShape):
        kind, size = "sphere", (geometry.radius,)
    elif isinstance(geometry, (CylinderShape, CapsuleShape)):
        kind = "cylinder" if isinstance(geometry, CylinderShape) else "capsule"
        size = (geometry.radius, geometry.length)
    elif isinstance(geometry, EllipsoidShape):
        kind, size = "ellipsoid", tuple(geometry.radii)
    elif isinstance(geometry, MeshShape):
        kind, size = "mesh", ()
        mesh = read_mesh(geometry.path, geometry.scale, triangles, notes)
        if mesh is None:
            return None
    else:
        kind, size = "plane", ()
    return ScenePart(
        kind,
        size,
        shape.pose.translation,
        _quaternion(shape.pose),
        color if shape.color is None else shape.color,
        stand_in,
        mesh,
    )


def _scene_body(body: Body, parts: Sequence[ScenePart]) -> SceneBody:
    fluid = body.fluid
    return SceneBody(
        body.name,
        tuple(parts),
        body.inertia.mass,
        body.inertia.com,
        0.0 if fluid is None else fluid.volume,
        (0.0, 0.0, 0.0) if fluid is None else fluid.center_of_buoyancy,
    )


def _thrusters(model: Model, size: float) -> list[SceneThruster]:
    """Find the thrusters in axes of their bodies: models may fix them to frames."""
    frames = {frame.name: frame for frame in model.frames}
    found = []
    for thruster in model.thrusters:
        at = frames.get(thruster.body)
        place = Pose() if at is None else at.pose
        position = place @ Pose(translation=thruster.position)
        x, y, z = (np.array(place.rotation) @ thruster.direction).tolist()
        body = thruster.body if at is None else at.body
        found.append(
            SceneThruster(thruster.name, body, position.translation, (x, y, z), 0.05 * size)
        )
    return found


def _quaternion(pose: Pose) -> Quaternion:
    w, x, y, z = quaternions(np.array(pose.rotation)).tolist()
    return (w, x, y, z)


def quaternions(R: Array) -> Array:
    """Return unit quaternions (w, x, y, z) of rotation matrices, shape (..., 4), w not negative.

    Args:
        R: Shape (..., 3, 3).
    """
    # all at once: each entry of the matrix is an array
    entries = np.moveaxis(R, (-2, -1), (0, 1))
    return np.stack(matrix_to_quaternion([list(row) for row in entries]), axis=-1)


def half_extents(part: ScenePart, R: Array) -> tuple[Array, Array]:
    """Return how far a solid reaches along the axes of another frame.

    Args:
        part: The solid.
        R: Body axes to the axes of that frame, shape (..., 3, 3).

    Returns:
        From the body's origin to the middle of the solid, and the half extents around it, both in
        those axes [m], shape (..., 3).
    """
    turned = R @ part.rotation
    middle = np.array(part.position)
    along = np.abs(turned[..., 2])
    if part.kind == "box":
        reach = np.abs(turned) @ (0.5 * np.array(part.size))
    elif part.kind == "sphere":
        reach = np.full(along.shape, part.size[0])
    elif part.kind == "cylinder":
        radius, length = part.size
        reach = radius * np.sqrt(np.maximum(1.0 - along**2, 0.0)) + 0.5 * length * along
    elif part.kind == "capsule":
        radius, length = part.size
        reach = radius + 0.5 * length * along
    elif part.kind == "ellipsoid":
        reach = np.sqrt(turned**2 @ np.square(part.size))
    elif part.mesh is not None:
        low, high = part.mesh.vertices.min(axis=0), part.mesh.vertices.max(axis=0)
        middle = middle + part.rotation @ (0.5 * (low + high))
        reach = np.abs(turned) @ (0.5 * (high - low))
    else:
        # a plane has no end: it says nothing about the size of the robot
        reach = np.zeros(along.shape)
    return R @ middle, reach
