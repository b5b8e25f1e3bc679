"""The scene of a robot: solids with colors, frames, centers and thrusters, as plain data.

All poses are fixed in their body. The replay page and the live scene both draw this scene, so that
a robot looks the same in both. Mesh files are untrusted: a damaged one adds a note and no surface.
Bodies without shapes get placeholders.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tiburon.arrays import Array, NDArray
from tiburon.errors import ModelFileError
from tiburon.hydro.mesh_file import read_triangles
from tiburon.model import Body, LoopClosure, Model, Shape
from tiburon.model.attachments import Cable, Spring
from tiburon.model.body import (
    BoxShape,
    CapsuleShape,
    CylinderShape,
    EllipsoidShape,
    MeshShape,
    SphereShape,
)
from tiburon.model.pose import Pose
from tiburon.model.value_checks import Matrix3, Vec3, matrix3
from tiburon.record import record
from tiburon.spatial.rotations import matrix_to_quaternion

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
"""Colors of bodies without one, in turn: red, green, blue, opacity."""

CABLE_COLOR: Color = (0.16, 0.18, 0.22, 1.0)
"""Color of cables."""

SPRING_COLOR: Color = (0.85, 0.62, 0.20, 1.0)
"""Color of springs."""

LINE_RADIUS = 0.02
"""Radius of cables and springs in the drawing, relative to the size of the robot."""

COLLISION_COLOR: Color = (0.55, 0.60, 0.66, 1.0)
"""Color of collision shapes, drawn where a body has no visual ones."""


Points = NDArray[np.float32]
Corners = NDArray[np.int32]


@record(eq=False)
class Mesh:
    """A triangle mesh."""

    vertices: Points
    """Vertices in shape axes [m], shape (n, 3)."""

    triangles: Corners
    """Vertex indices, counterclockwise seen from outside, shape (m, 3)."""


@record
class ScenePart:
    """One solid, fixed in a body."""

    kind: str
    """ "box", "sphere", "cylinder", "capsule", "ellipsoid", "plane" or "mesh"."""

    size: tuple[float, ...]
    """Edge lengths; radius; radius and length along z; semi-axes; () for plane and mesh [m].

    The length of a capsule is the distance between the centers of its hemispheres."""

    position: Vec3
    """Center, body axes [m]."""

    quaternion: Quaternion
    """(w, x, y, z), from solid axes to body axes."""

    color: Color
    """Red, green, blue (sRGB) and opacity, each between 0 and 1."""

    placeholder: bool = False
    """Whether it stands for a body without shapes."""

    mesh: Mesh | None = None
    """The surface of a "mesh"."""

    @property
    def rotation(self) -> Array:
        """Rotation from solid axes to body axes, shape (3, 3)."""
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
    """(w, x, y, z), from frame axes to body axes."""


@record
class SceneThruster:
    """A thruster, fixed in a body."""

    name: str
    body: str
    position: Vec3
    """Point of application, body axes [m]."""

    direction: Vec3
    """Unit vector of positive thrust on the body, body axes."""

    radius: float
    """Radius in the drawing [m]; models do not specify it."""


@record
class SceneLine:
    """A cable or spring between two points."""

    name: str
    first: str
    """Name of the body of its first end, or "world"."""

    first_point: Vec3
    """In body axes [m]."""

    second: str
    second_point: Vec3

    color: Color
    """Red, green, blue (sRGB) and opacity."""

    radius: float
    """Radius in the drawing [m]."""


@record
class SceneBody:
    """A body: its solids, and its centers of mass and buoyancy."""

    name: str
    parts: tuple[ScenePart, ...]
    mass: float
    """Mass [kg]."""

    center_of_mass: Vec3
    """Body axes [m]."""

    volume: float
    """Displaced volume [m^3]; 0 for bodies without hydrodynamics."""

    center_of_buoyancy: Vec3
    """Body axes [m]."""


@record
class Scene:
    """The drawing of a robot."""

    name: str
    about: str
    bodies: tuple[SceneBody, ...]
    """In the order of the model's bodies."""

    frames: tuple[SceneFrame, ...]
    thrusters: tuple[SceneThruster, ...]
    size: float
    """Approximate extent of the robot [m], which scales arrows, axes and labels."""

    notes: tuple[str, ...]
    """Shapes that could not be drawn, one sentence each."""

    lines: tuple[SceneLine, ...] = ()
    """Cables and springs."""


MAX_TRIANGLES = 8000
"""Most triangles of one mesh file; finer meshes are coarsened."""


def scene_of(model: Model) -> Scene:
    """Return the scene of a robot.

    Bodies show their visual shapes, or their collision shapes if they have no others. A body
    without shapes gets a placeholder from its joints, its inertia or its displaced volume.
    """
    size = robot_size(model)
    notes: list[str] = []
    bodies = []
    for number, body in enumerate(model.bodies):
        color = PALETTE[number % len(PALETTE)]
        parts = _parts(body, color, notes)
        if not parts:
            made = placeholder_shapes(model, body, size)
            parts = [_part(shape, color, notes, placeholder=True) for shape in made]
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
        tuple(_lines(model, size)),
    )


def _lines(model: Model, size: float) -> Iterator[SceneLine]:
    """Yield cables and springs, with their ends in axes of bodies."""
    frames = {frame.name: frame for frame in model.frames}

    def end(name: str, point: Vec3) -> tuple[str, Vec3]:
        frame = frames.get(name)
        if frame is None:
            return name, point
        return frame.body, (frame.pose @ Pose(translation=point)).translation

    parts: list[tuple[Cable | Spring, Color]] = [(cable, CABLE_COLOR) for cable in model.cables]
    parts += [(spring, SPRING_COLOR) for spring in model.springs]
    for part, color in parts:
        first, second = end(part.first, part.first_point), end(part.second, part.second_point)
        yield SceneLine(part.name, *first, *second, color, LINE_RADIUS * size)


def _parts(body: Body, color: Color, notes: list[str]) -> list[ScenePart | None]:
    seen = [shape for shape in body.shapes if shape.role != "collision"]
    for shapes, default in ((seen, color), (body.shapes, COLLISION_COLOR)):
        found = [_part(shape, default, notes) for shape in shapes]
        if any(found):
            return found
    return []


def _part(
    shape: Shape, color: Color, notes: list[str], *, placeholder: bool = False
) -> ScenePart | None:
    """Return the solid of a shape; None for a mesh that cannot be read."""
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
        mesh = read_mesh(geometry.path, geometry.scale, MAX_TRIANGLES, notes)
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
        placeholder,
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
    """Return the thrusters in body axes: models may fix them to frames."""
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
    """Return unit quaternions (w, x, y, z) of rotation matrices, shape (..., 4), w >= 0.

    Args:
        R: Shape (..., 3, 3).
    """
    # vectorized: each entry of the matrix is an array
    entries = np.moveaxis(R, (-2, -1), (0, 1))
    return np.stack(matrix_to_quaternion([list(row) for row in entries]), axis=-1)


def half_extents(part: ScenePart, R: Array) -> tuple[Array, Array]:
    """Return the center and half extents of a solid along the axes of another frame.

    Args:
        part: The solid.
        R: Rotation from body axes to the axes of that frame, shape (..., 3, 3).

    Returns:
        The vector from the body's origin to the center of the solid, and the half extents around
        it, both in the axes of that frame [m], shape (..., 3).
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
        # a plane is unbounded and does not count
        reach = np.zeros(along.shape)
    return R @ middle, reach


def read_mesh(
    path: str, scale: tuple[float, float, float], triangles: int, notes: list[str]
) -> Mesh | None:
    """Read a mesh file; if it cannot be drawn, add a note and return None.

    Args:
        path: Path of the file.
        scale: Factors along x, y, z.
        triangles: Largest number of triangles; finer meshes are coarsened.
        notes: List to which a sentence is added if the file cannot be drawn.
    """
    try:
        vertices, corners = read_triangles(Path(path))
    except ModelFileError as problem:
        notes.append(f"mesh not drawn: {problem}")
        return None
    inside = corners.min() >= 0 and corners.max() < len(vertices)
    if not inside or not np.isfinite(vertices[corners]).all():
        notes.append(
            f"mesh not drawn: {path}: its triangles refer to missing or non-finite vertices"
        )
        return None
    vertices = np.where(np.isfinite(vertices), vertices, 0.0)
    points = (vertices * np.array(scale)).astype(np.float32)
    if np.prod(scale) < 0.0:
        # mirroring reverses the orientation of triangles
        corners = corners[:, ::-1]
    return coarsened(Mesh(points, np.ascontiguousarray(corners, dtype=np.int32)), triangles)


def coarsened(mesh: Mesh, triangles: int) -> Mesh:
    """Return a mesh with at most the given number of triangles, by vertex clustering.

    The vertices in one cell of a grid are replaced by their mean; cells grow until few enough
    triangles are left. The first grid is so fine that it only merges coincident vertices.
    """
    low = mesh.vertices.min(axis=0)
    extent = float((mesh.vertices.max(axis=0) - low).max()) or 1.0
    cells = 4096.0
    while True:
        place = np.round((mesh.vertices - low) * (cells / extent)).astype(np.int64)
        _, owner = np.unique(place @ np.array([1, 8192, 8192**2]), return_inverse=True)
        owner = owner.reshape(-1)
        count = np.bincount(owner)
        sums = [np.bincount(owner, weights=mesh.vertices[:, k]) for k in range(3)]
        vertices = (np.stack(sums, axis=1) / count[:, None]).astype(np.float32)
        corners = owner[mesh.triangles]
        a, b, c = corners.T
        kept = corners[(a != b) & (b != c) & (c != a)]
        kept = np.unique(_least_first(kept), axis=0) if len(kept) else kept
        if len(kept) <= triangles or cells < 2.0:
            return Mesh(vertices, kept.astype(np.int32))
        cells *= 0.7


def _least_first(corners: NDArray[Any]) -> NDArray[Any]:
    """Rotate the vertices of each triangle so that the smallest index is first."""
    start = np.argmin(corners, axis=1)[:, None]
    return np.take_along_axis(corners, (start + np.arange(3)) % 3, axis=1)


ROD_RADIUS = 0.07
"""Radius of a placeholder rod over its length."""

MAX_ROD_RADIUS = 0.035
"""Largest radius of a rod over the size of the robot."""

MIN_SIZE = 0.02
"""Radius of a placeholder sphere, and least length of a rod, over the size of the robot."""


def robot_size(model: Model) -> float:
    """Return the approximate extent of a robot [m], at least 0.05 m.

    Independent of the configuration: half the longest chain of joint offsets plus the largest
    shape.
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


def placeholder_shapes(model: Model, body: Body, size: float) -> list[Shape]:
    """Return shapes for a body that has none.

    In order of preference: rods from joint to joint; the solid box of the same inertia; a sphere
    of the displaced volume; a small sphere at the center of mass.

    Args:
        model: The robot.
        body: One of its bodies.
        size: Approximate extent of the robot [m].
    """
    ends = [end for end in _ends(model, body) if np.linalg.norm(end) > MIN_SIZE * size]
    floats = body.joint.kind == "free"
    box = _inertia_box(body)
    shapes: list[Shape] = []
    if floats and box is not None:
        shapes.append(box)
    shapes += [_rod(end, size) for end in ends]
    if shapes:
        return shapes
    com = np.array(body.inertia.com)
    if body.inertia.mass > 0.0 and np.linalg.norm(com) > 2.0 * MIN_SIZE * size:
        # the last link of an arm: its center of mass is in the middle of the rod
        return [_rod(2.0 * com, size)]
    if box is not None:
        return [box]
    if body.fluid is not None and body.fluid.volume > 0.0:
        radius = (0.75 * body.fluid.volume / math.pi) ** (1.0 / 3.0)
        pose = Pose(translation=body.fluid.center_of_buoyancy)
        return [Shape(SphereShape(radius), pose)]
    if body.joint.kind == "fixed" and body.inertia.mass == 0.0:
        # a fixed frame without mass
        return []
    return [Shape(SphereShape(MIN_SIZE * size), Pose(translation=body.inertia.com))]


def _ends(model: Model, body: Body) -> list[Array]:
    """Return the points where joints, frames, contacts and loops attach, body axes [m]."""
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
    radius = min(ROD_RADIUS * length, MAX_ROD_RADIUS * size)
    return Shape(CapsuleShape(radius, length), Pose(_along(end / length), tuple(0.5 * end)))


def _along(z: Array) -> Matrix3:
    """Return a rotation whose third axis has a given direction."""
    across = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = np.cross(across, z)
    x /= np.linalg.norm(x)
    return matrix3(np.column_stack([x, np.cross(z, x), z]))


def _inertia_box(body: Body) -> Shape | None:
    """Return the solid box of the same mass and inertia; None unless all edges are positive.

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
    """Return the approximate distance from the body origin to the end of a shape [m]."""
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
