"""Contacts of meshes: features of triangles that are near each other, found by coal.

coal (BSD-3, https://github.com/coal-library/coal) lists pairs of triangles within a margin, from
its hierarchies of bounding volumes, and closest points of meshes that are apart. From the triangles
follow the contacts: corners of one mesh over faces of the other, and crossings of edges. A feature
is a contact if the mesh around it lies behind it, as seen from the other body: at concave or flat
edges nothing touches. Spheres and capsules touch faces, edges and corners with a radius; boxes are
meshes of twelve triangles, cylinders prisms of 32 sides, ellipsoids polyhedra of 1280 triangles.

This is Python code between native steps: some tenths of a millisecond for each pair that is near.
"""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from tiburon.arguments import caller_level
from tiburon.arrays import NDArray
from tiburon.contact.geometry.located import ABSENT_CONTACTS, POINTS
from tiburon.contact.polyhedra import box, convex_hull, is_flat, prism, rounded
from tiburon.errors import ModelError, ModelFileError, ModelWarning
from tiburon.hydro.mesh_file import read_triangles
from tiburon.model.body import (
    BoxShape,
    CapsuleShape,
    CylinderShape,
    EllipsoidShape,
    Geometry,
    MeshShape,
    SphereShape,
)
from tiburon.spatial.vec3 import Vec3
from tiburon.trace.primitives.farthest_rows import MAX_POINTS

if TYPE_CHECKING:
    from tiburon.contact.candidates import Candidate

Array = NDArray[np.float64]
T = TypeVar("T")

Indices = NDArray[np.int64]
Pose = tuple[Array, Array]

MARGIN = 0.05
"""Gap up to which features are contacts, relative to the radius of the smaller shape."""

TILT = 0.1
"""Sine of the angle up to which parts of a mesh may rise toward the other body around a contact."""

FLAT_SINE = 1e-6
"""Sine of the angle up to which neighboring triangles are one face."""

FACE_MARGIN = 1e-9
"""How far a contact may be beyond the border of a face or edge, relative to its size."""

DEEP_RATIO = 1e-6
"""Depth from which on a shallower contact nearby replaces one, relative to the smaller radius."""

CONVEX_DEPTH = 1e-3
"""Depth below its hull up to which a surface is convex, relative to its size."""

CONVEX_VOLUME = 1e-2
"""Part of the volume of its hull that a convex mesh may lack."""

MOST_DEPTHS = 2_000_000
"""Depths of points below faces that are computed at once."""

MERGE_DISTANCE = 1e-9
"""Distance of vertices that are one, relative to the size of the mesh."""

FIRST_ANGLE = 0.3
"""Angle of the first direction in which contacts are chosen [rad]: off the axes of most shapes."""

DIRECTIONS, NORMALS = 8, 3
"""Directions in which contacts farthest out are chosen, by place and by normal; one more is the
deepest."""


def coal_module() -> Any:
    """Return coal; None if it is not installed."""
    try:
        import coal
    except ImportError:
        return None
    return coal


def require_coal(element: str) -> Any:
    """Return coal.

    Raises:
        ModelError: If it is not installed.
    """
    coal = coal_module()
    if coal is None:
        raise ModelError(
            f"{element}: contact of a mesh that is not convex needs coal, which is not installed; "
            "run `pip install 'tiburon[mesh]'`, or cover the mesh with simple shapes, which is "
            "much faster: tb.cover_mesh, or tb.cover_meshes for all meshes of a robot"
        )
    return coal


def scaled_triangles(mesh: MeshShape) -> tuple[Array, Indices]:
    """Read the triangles of a mesh, in meters.

    Raises:
        ModelFileError: If the file cannot be read, or has no triangles.
    """
    if "://" in mesh.path:
        raise ModelFileError(
            mesh.path,
            "was not found when the robot was loaded; pass the folder that holds its package: "
            "tb.load(..., package_paths=[folder])",
        )
    vertices, faces = read_triangles(Path(mesh.path))
    if not len(faces) or not np.isfinite(vertices[faces]).all():
        raise ModelFileError(mesh.path, "expected triangles, got none; check the file")
    return vertices * np.array(mesh.scale), faces


class Solid:
    """A shape as features: corners, edges and faces, with a radius around them.

    Attributes:
        vertices: Corners, shape axes [m], shape (n, 3); of a sphere its center, of a capsule the
            ends of its axis.
        radius: Radius around the features [m]; 0 for meshes and boxes.
        faces: Vertices of each triangle, counter-clockwise seen from outside, shape (m, 3).
        extent: Radius of a sphere around the origin that holds the shape [m].
        center: Middle of the box around the corners [m].
        reach: Radius of a sphere around it that holds the shape [m].
    """

    def __init__(self, vertices: Array, faces: Indices, radius: float = 0.0) -> None:
        """Prepare the features of a shape."""
        self.vertices, self.faces, self.radius = vertices, faces, radius
        self.extent = float(np.linalg.norm(vertices, axis=1).max()) + radius
        self.center = 0.5 * (vertices.min(axis=0) + vertices.max(axis=0))
        self.reach = float(np.linalg.norm(vertices - self.center, axis=1).max()) + radius
        corners = vertices[faces]
        across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        self.normals = across / np.linalg.norm(across, axis=1, keepdims=True)
        self._find_edges()
        self.object: Any = None
        self.hull: Any = None

    def _find_edges(self) -> None:
        """List convex edges with the vertices opposite to them, and the neighbors of vertices."""
        faces, count = self.faces, len(self.vertices)
        sides = faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
        opposite = faces[:, [2, 0, 1]].reshape(-1)
        owner = np.repeat(np.arange(len(faces)), 3)
        edges, where = np.unique(np.sort(sides, axis=1), axis=0, return_inverse=True)
        where = where.reshape(-1)
        # up to two triangles share an edge; at a border the only one counts twice
        first = np.full(len(edges), -1)
        second = np.full(len(edges), -1)
        for side, edge in enumerate(where.tolist()):
            if first[edge] < 0:
                first[edge] = side
            else:
                second[edge] = side
        second = np.where(second < 0, first, second)
        self.edges = edges
        self.opposite = opposite[np.stack([first, second], axis=1)].reshape(-1, 2)
        self.edge_normals = self.normals[owner[first]] + self.normals[owner[second]]
        rise = self.vertices[self.opposite[:, 1]] - self.vertices[edges[:, 0]]
        length = np.linalg.norm(rise, axis=1)
        height = np.sum(self.normals[owner[first]] * rise, axis=1)
        self.is_sharp = (height < -FLAT_SINE * length) | (first == second)
        self.face_edges = where.reshape(-1, 3)
        ends = np.concatenate([edges, edges[:, ::-1]])
        ends = ends[np.argsort(ends[:, 0], kind="stable")]
        degree = np.bincount(ends[:, 0], minlength=count)
        width = int(degree.max()) if len(ends) else 0
        # a vertex without more neighbors is its own
        self.neighbors = np.repeat(np.arange(count)[:, None], max(width, 1), axis=1)
        place = np.arange(len(ends)) - np.repeat(np.cumsum(degree) - degree, degree)
        self.neighbors[ends[:, 0], place] = ends[:, 1]
        self.is_corner = np.zeros(count, dtype=bool)
        self.is_corner[edges[self.is_sharp].reshape(-1)] = True


def _mesh_solid(mesh: MeshShape, coal: Any) -> Solid:
    """Return the features of a mesh.

    Raises:
        ModelFileError: If it is flat.

    Warns:
        ModelWarning: If its triangles are not oriented alike: they are turned, or the mesh is
            replaced by its convex hull.
    """
    import trimesh

    vertices, faces = scaled_triangles(mesh)
    _refuse_flat(mesh, vertices[np.unique(faces)])
    unit = MERGE_DISTANCE * float(np.ptp(vertices[faces].reshape(-1, 3), axis=0).max())
    _, first, where = np.unique(
        np.round(vertices / unit), axis=0, return_index=True, return_inverse=True
    )
    vertices, faces = vertices[first], where.reshape(-1)[faces]
    distinct = (faces != np.roll(faces, 1, axis=1)).all(axis=1)
    corners = vertices[faces]
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    faces = faces[distinct & (np.linalg.norm(across, axis=1) > unit * unit)]
    whole = trimesh.Trimesh(vertices, faces, process=False)
    if not whole.is_winding_consistent:
        vertices, faces = _oriented(mesh.path, vertices, faces)
        whole = trimesh.Trimesh(vertices, faces, process=False)
    if whole.is_watertight and whole.volume < 0.0:
        faces = faces[:, ::-1]
    found = Solid(vertices, faces)
    _add_objects(found, coal)
    return found


def _oriented(path: str, vertices: Array, faces: Indices) -> tuple[Array, Indices]:
    """Return a mesh whose triangles are oriented alike: the same one, or its convex hull."""
    import trimesh

    whole: Any = trimesh.Trimesh(vertices, faces, process=False)
    repair: Any = trimesh.repair
    repair.fix_winding(whole)
    if whole.is_winding_consistent and whole.is_watertight:
        # each closed part outward
        repair.fix_inversion(whole, multibody=True)
        vertices, faces = np.array(whole.vertices), np.array(whole.faces)
        cure = "they were turned alike"
    else:
        vertices, faces, _ = convex_hull(vertices[np.unique(faces)])
        cure = "the convex hull was taken, since its surface is not closed"
    warnings.warn(
        f"mesh {path!r}: triangles should be counter-clockwise seen from outside, got both "
        f"orientations; {cure}. Repair the mesh in a mesh editor",
        ModelWarning,
        stacklevel=caller_level(),
    )
    return vertices, faces


def _made(vertices: Array, triangles: Indices, coal: Any) -> Solid:
    """Return a convex shape as a mesh."""
    found = Solid(vertices, triangles)
    _add_objects(found, coal)
    return found


def _add_objects(solid: Solid, coal: Any) -> None:
    """Build the hierarchy of bounding volumes of a mesh, and its convex hull."""
    points, triangles = coal.StdVec_Vec3s(), coal.StdVec_Triangle()
    for vertex in solid.vertices:
        points.append(vertex)
    for a, b, c in solid.faces.tolist():
        triangles.append(coal.Triangle(a, b, c))
    tree = coal.BVHModelOBBRSS()
    tree.beginModel(len(solid.faces), len(solid.vertices))
    tree.addSubModel(points, triangles)
    tree.endModel()
    solid.object = tree
    tree.buildConvexHull(True, "Qt")
    solid.hull = tree.convex


MAX_CACHED_SHAPES = 256
"""Shapes whose features or hulls are kept."""

_kept: dict[tuple[Callable[..., Any], Geometry], tuple[Any, Any]] = {}


def _remembered(make: Callable[[Any, str], T], geometry: Geometry, element: str, fresh: bool) -> T:
    """Return what a function makes of a shape, once; again if the file of a mesh has changed."""
    stamp, found = _kept.get((make, geometry), (None, None))
    if found is not None and not (fresh and stamp != _stamp(geometry)):
        return found  # type: ignore[no-any-return]
    stamp, made = _stamp(geometry), make(geometry, element)
    if len(_kept) >= MAX_CACHED_SHAPES:
        del _kept[next(iter(_kept))]
    _kept[make, geometry] = stamp, made
    return made


def solid_of(geometry: Geometry, element: str = "contact", *, fresh: bool = False) -> Solid:
    """Return the features of a shape; they are kept for the steps of a run.

    Args:
        geometry: The shape.
        element: Leads error messages.
        fresh: Whether the file of a mesh is read again if it has changed.

    Raises:
        ModelError: If the shape has no contacts with meshes, or coal is not installed.
    """
    return _remembered(_solid, geometry, element, fresh)


def is_convex(mesh: MeshShape, element: str) -> bool:
    """Return whether a mesh is meant by its hull, or within `CONVEX_DEPTH` of it."""
    return mesh.convex or _remembered(_is_convex, mesh, element, fresh=True)


def _is_convex(mesh: MeshShape, element: str) -> bool:
    vertices, faces = scaled_triangles(mesh)
    corners = vertices[faces]
    points = _distinct(corners.reshape(-1, 3))
    if is_flat(points):
        return False
    hull = convex_hull(points)
    size = float(np.ptp(points, axis=0).max())
    a, b, c = np.moveaxis(hull.vertices[hull.triangles], 1, 0)
    n = np.cross(b - a, c - a)
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    offset = np.sum(n * a, axis=1)
    # triangles inside, as of a gap between two parts, are below all faces
    middles = 0.5 * (corners + np.roll(corners, 1, axis=1))
    inner = np.concatenate([points, corners.mean(axis=1), middles.reshape(-1, 3)])
    for some in np.array_split(inner, max(1, len(inner) * len(n) // MOST_DEPTHS)):
        if (offset - some @ n.T).min(axis=1).max() > CONVEX_DEPTH * size:
            return False
    # an open surface, as of a box without a lid, holds less
    middle = hull.vertices.mean(axis=0)
    own, whole = (
        float(np.linalg.det(some - middle).sum())
        for some in (corners, hull.vertices[hull.triangles])
    )
    return abs(abs(own) - whole) <= CONVEX_VOLUME * whole


def hull_of(mesh: MeshShape, element: str, *, flat: bool) -> tuple[Array, Vec3]:
    """Return the vertices of the convex hull of a mesh, from its middle, and that.

    Args:
        mesh: The mesh.
        element: Leads error messages.
        flat: Whether it may be flat: then all of its points are returned.

    Returns:
        Vertices [m], shape (n, 3); the centroid in shape axes [m].

    Raises:
        ModelFileError: If it is flat and must not be.
        ModelError: If it is flat and has too many points.
    """
    vertices, middle, is_solid = _remembered(_hull_of, mesh, element, fresh=True)
    if not is_solid and not flat:
        _refuse_flat(mesh, vertices)
    return vertices, middle


def _hull_of(mesh: MeshShape, element: str) -> tuple[Array, Vec3, bool]:
    vertices, faces = scaled_triangles(mesh)
    points = _distinct(vertices[faces].reshape(-1, 3))
    if is_flat(points):
        if len(points) > MAX_POINTS:
            raise ModelError(
                f"{element}: expected a flat mesh of up to {MAX_POINTS} points, got {len(points)} "
                f"of {mesh.path!r}; simplify the mesh"
            )
        return points, (0.0, 0.0, 0.0), False
    hull = convex_hull(points)
    corners = hull.vertices[hull.triangles]
    start = hull.vertices.mean(axis=0)
    volumes = np.linalg.det(corners - start)
    middle = start + 0.25 * volumes @ (corners - start).sum(axis=1) / volumes.sum()
    x, y, z = middle.tolist()
    return hull.vertices - middle, (x, y, z), True


def _refuse_flat(mesh: MeshShape, points: Array) -> None:
    """Refuse a mesh whose points are in a plane.

    Raises:
        ModelFileError: If they are.
    """
    if is_flat(points):
        raise ModelFileError(
            mesh.path,
            "expected a solid, got a flat mesh; give it a thickness, or a box in its place",
        )


def _distinct(points: Array) -> Array:
    """Return points in order of x, then y, then z, each once; faster than `np.unique`."""
    ordered: Array = points[np.lexsort(points.T[::-1])]
    first = np.ones(len(ordered), dtype=bool)
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return ordered[first]


def _stamp(geometry: Geometry) -> Any:
    """Return when the file of a mesh was written, and its size; None for other shapes."""
    if not isinstance(geometry, MeshShape):
        return None
    try:
        status = Path(geometry.path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _solid(geometry: Geometry, element: str) -> Solid:
    """Return the features of a shape."""
    coal = require_coal(element)
    none = np.zeros((0, 3), dtype=np.int64)
    match geometry:
        case MeshShape():
            return _mesh_solid(geometry, coal)
        case BoxShape(size=size):
            return _made(*box(size), coal)
        case CylinderShape(radius=radius, length=length):
            return _made(*prism(radius, length), coal)
        case EllipsoidShape(radii=radii):
            return _made(*rounded(radii), coal)
        case SphereShape(radius=radius):
            found = Solid(np.zeros((1, 3)), none, radius)
            found.object = found.hull = coal.Sphere(radius)
            return found
        case CapsuleShape(radius=radius, length=length):
            ends = np.array([[0.0, 0.0, -0.5 * length], [0.0, 0.0, 0.5 * length]])
            found = Solid(ends, none, radius)
            found.object = found.hull = coal.Capsule(radius, length)
            return found
    raise ModelError(
        f"{element}: meshes touch meshes, simple shapes and planes, got "
        f"{type(geometry).__name__}; give it as a mesh, or leave the pair out"
    )


class LocatedPairs:
    """Pairs of shapes whose contacts are located, and what is known of them from step to step.

    A pair that was apart stays so until it has moved by as much: it is located anew when it has
    moved by half of that. Bounding spheres exclude pairs before their triangles.
    """

    def __init__(self, candidates: "Sequence[Candidate]", names: Sequence[str]) -> None:
        """Take the pairs, and the names of bodies in the order of their places."""
        place = {name: k for k, name in enumerate(names)}
        parts, start = [], 0
        self._slots: list[slice] = []
        self._solids: list[tuple[Solid, Solid]] = []
        for candidate in candidates:
            size = len(candidate.first.size) + len(candidate.second.size)
            if candidate.is_located:
                parts.append((candidate.first, candidate.second))
                self._slots.append(slice(start, start + size))
                one, other = (solid_of(_geometry(part)) for part in parts[-1])
                self._solids.append((one, other))
            start += len(candidate.parameters())
        self._bodies = np.array([[place[part.body] for part in both] for both in parts])
        self._turn = np.array([[part.pose.rotation for part in both] for both in parts])
        self._shift = np.array([[part.pose.translation for part in both] for both in parts])
        self._extent = np.array([[one.extent for one in both] for both in self._solids])
        self._center = np.array([[one.center for one in both] for both in self._solids])
        self._reach = np.array([sum(one.reach for one in both) for both in self._solids])
        self._margin = MARGIN * self._extent.min(axis=1)
        self._known: dict[int, tuple[Array, Array, Array]] = {}

    def fill(self, numbers: Array, R: Array, p: Array, case: int | None = None) -> None:
        """Write where the shapes touch into the parameters of all candidates.

        Args:
            numbers: Parameters in one case, as `numbers_of` lists them; changed here.
            R: Rotations of the bodies, shape (names, 3, 3).
            p: Their positions [m], shape (names, 3).
            case: Its number in runs, where pairs that stay apart keep what they have; None to
                locate all pairs.
        """
        turned = R[self._bodies] @ self._turn
        moved = p[self._bodies] + np.einsum("kaij,kaj->kai", R[self._bodies], self._shift)
        back = turned[:, 1].transpose(0, 2, 1)
        # first shapes in axes of the second
        R = back @ turned[:, 0]
        p = np.einsum("kij,kj->ki", back, moved[:, 0] - moved[:, 1])
        if case is None:
            for k in range(len(self._slots)):
                found = _located(*self._solids[k], R[k], p[k])
                numbers[self._slots[k]] = np.concatenate(found[:2])
            return
        count = len(self._slots)
        if case not in self._known:
            never = np.full(count, -np.inf), np.zeros((count, 3, 3)), np.zeros((count, 3))
            self._known[case] = never
        gap, R_then, p_then = self._known[case]
        way = np.linalg.norm(p - p_then, axis=1)
        way += np.linalg.norm(R - R_then, axis=(1, 2)) * self._extent[:, 0]
        # with a margin of two: as far again in the step
        due = np.flatnonzero(~(2.0 * way < gap - self._margin))
        if not len(due):
            return
        between = np.einsum("kij,kj->ki", R, self._center[:, 0]) + p - self._center[:, 1]
        apart = np.linalg.norm(between, axis=1) - self._reach
        for k in due.tolist():
            gap[k], R_then[k], p_then[k] = apart[k], R[k], p[k]
            if apart[k] > self._margin[k]:
                numbers[self._slots[k]] = _ABSENT
                continue
            one, other, gap[k] = _located(*self._solids[k], R[k], p[k])
            numbers[self._slots[k]] = np.concatenate([one, other])


_ABSENT = np.concatenate([np.array(size) for size in ABSENT_CONTACTS])


def _geometry(part: Any) -> Geometry:
    assert part.geometry is not None
    found: Geometry = part.geometry
    return found


class Features(NamedTuple):
    """Contacts of two shapes, in axes of the second; one row each."""

    first: Array
    """Points of the first shape, or centers of its radius [m]."""
    second: Array
    """Points of the second shape, or centers of its radius [m]."""
    normal: Array
    """Unit normals from the first to the second shape."""
    turns: Array
    """1 where the normal belongs to the first shape, else 0."""

    @classmethod
    def of(cls, first: Array, second: Array, normal: Array, turns: float) -> "Features":
        """Return features whose normals all belong to the same shape."""
        return cls(first, second, normal, np.full(len(first), turns))

    @classmethod
    def all(cls, parts: "list[Features]") -> "Features":
        """Return all features of a list."""
        return cls(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))

    def chosen(self, which: Any) -> "Features":
        """Return some of the features."""
        return Features(*(field[which] for field in self))

    def exchanged(self) -> "Features":
        """Return the contacts as the second shape has them with the first."""
        return Features(self.second, self.first, -self.normal, 1.0 - self.turns)


def locate(first: Solid, second: Solid, places: tuple[Pose, Pose]) -> tuple[Array, Array]:
    """Return the contacts of two shapes as dimensions of a located pair.

    Args:
        first: The first shape.
        second: The second shape.
        places: Rotation and position of each in the world.

    Returns:
        Dimensions of the first and of the second shape, as `located_contacts` takes them.
    """
    (R1, p1), (R2, p2) = places
    # the first shape in axes of the second
    return _located(first, second, R2.T @ R1, R2.T @ (p1 - p2))[:2]


def _located(first: Solid, second: Solid, R: Array, p: Array) -> tuple[Array, Array, float]:
    """Return dimensions as `locate` does, and the least gap [m]; the first one's pose is given."""
    least = min(solid.extent for solid in (first, second))
    margin, reach = MARGIN * least, first.radius + second.radius
    found = _features(first, second, R, p, margin)
    gap = np.sum(found.normal * (found.second - found.first), axis=1) - reach
    near = np.abs(gap) <= margin
    found, gap = found.chosen(near), gap[near]
    kept = _without_deep(found, gap, DEEP_RATIO * least)
    found, gap = found.chosen(kept), gap[kept]
    if not len(gap) or gap.min() > DEEP_RATIO * least:
        closest, apart = _closest(first, second, R, p)
        if not len(gap) or apart < 0.0:
            found, gap = Features.all([closest, found]), np.concatenate([[apart], gap])
    sizes = [np.array(size).reshape(POINTS, -1) for size in ABSENT_CONTACTS]
    for slot, k in _slots(found, gap, least, margin):
        sizes[0][slot] = (*(R.T @ (found.first[k] - p)), first.radius)
        normal = R.T @ found.normal[k] if found.turns[k] else found.normal[k]
        sizes[1][slot] = (*found.second[k], second.radius, *normal, found.turns[k], 1.0)
    return sizes[0].reshape(-1), sizes[1].reshape(-1), float(gap.min())


def _features(first: Solid, second: Solid, R: Array, p: Array, margin: float) -> Features:
    """Return all features of two shapes within a margin, in axes of the second."""
    if second.radius:
        # the mesh second, in its own axes
        return _moved(_features(second, first, R.T, -R.T @ p, margin).exchanged(), R, p)
    pairs = _near_triangles(first, second, R, p, margin)
    if not len(pairs):
        none = np.zeros((0, 3))
        return Features.of(none, none, none, 0.0)
    if first.radius:
        return _rounded(first.vertices @ R.T + p, second, np.unique(pairs[:, 1]))
    vertices = first.vertices @ R.T + p
    normals = first.normals @ R.T
    on_first = _corners_over_faces(
        second, second.vertices, first.faces, vertices, normals, pairs[:, ::-1]
    )
    return Features.all(
        [
            _corners_over_faces(
                first, vertices, second.faces, second.vertices, second.normals, pairs
            ),
            on_first.exchanged(),
            _crossings(first, second, vertices, R, pairs),
        ]
    )


def _moved(found: Features, R: Array, p: Array) -> Features:
    """Return features in other axes."""
    return Features(found.first @ R.T + p, found.second @ R.T + p, found.normal @ R.T, found.turns)


def _near_triangles(first: Solid, second: Solid, R: Array, p: Array, margin: float) -> Indices:
    """Return pairs of triangles within a margin, shape (n, 2)."""
    coal = require_coal("contact")
    most = 4 * (len(first.faces) + 1) * (len(second.faces) + 1)
    request = coal.CollisionRequest(coal.CONTACT, min(most, 1_000_000))
    request.security_margin = margin
    result = coal.CollisionResult()
    places = coal.Transform3s(R, p), coal.Transform3s(np.eye(3), np.zeros(3))
    coal.collide(first.object, places[0], second.object, places[1], request, result)
    found = [(contact.b1, contact.b2) for contact in result.getContacts()]
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _is_support(edges: Array, normal: Array) -> Any:
    """Return at which vertices no edge leads far below, against a normal.

    Args:
        edges: From vertices to their neighbors, shape (n, neighbors, 3).
        normal: From the other body toward them, shape (n, 3).
    """
    rise = np.einsum("nij,nj->ni", edges, normal)
    return (rise >= -TILT * np.linalg.norm(edges, axis=2)).all(axis=1)


def _corners_over_faces(
    solid: Solid,
    vertices: Array,
    faces: Indices,
    corners: Array,
    normals: Array,
    pairs: Indices,
) -> Features:
    """Return corners of a mesh over faces of another; all in the same axes.

    Args:
        solid: The mesh with the corners.
        vertices: Its vertices.
        faces: Triangles of the other mesh.
        corners: Vertices of the other mesh.
        normals: Normals of its triangles.
        pairs: Triangles of the first and of the other mesh that are near each other.
    """
    many = np.stack([solid.faces[pairs[:, 0]].reshape(-1), np.repeat(pairs[:, 1], 3)], axis=1)
    many = np.unique(many[solid.is_corner[many[:, 0]]], axis=0)
    vertex, face = many[:, 0], many[:, 1]
    x, n = vertices[vertex], normals[face]
    a, b, c = np.moveaxis(corners[faces[face]], 1, 0)
    height = np.sum(n * (x - a), axis=1)
    foot = x - height[:, None] * n
    inside = np.ones(len(many), dtype=bool)
    for start, end in ((a, b), (b, c), (c, a)):
        side, arm = end - start, foot - start
        area = np.sum(n * np.cross(side, arm), axis=1)
        inside &= area >= -FACE_MARGIN * np.sum(side * side, axis=1)
    inside &= _is_support(vertices[solid.neighbors[vertex]] - x[:, None], n)
    return Features.of(x[inside], foot[inside], -n[inside], 0.0)


def _closest_points(p1: Array, d1: Array, p2: Array, d2: Array) -> tuple[Any, ...]:
    """Return where lines p + s d come closest to each other.

    Returns:
        Whether they are not parallel; s on the first and t on the second line; both points; unit
        vectors along the common normal.
    """
    c = np.cross(d1, d2)
    square = np.sum(c * c, axis=1)
    skew = square > FLAT_SINE**2 * np.sum(d1 * d1, axis=1) * np.sum(d2 * d2, axis=1)
    safe = np.where(skew, square, 1.0)
    s, t = (np.sum(np.cross(p2 - p1, d) * c, axis=1) / safe for d in (d2, d1))
    return skew, s, t, p1 + s[:, None] * d1, p2 + t[:, None] * d2, c / np.sqrt(safe)[:, None]


def _sharp_edges(mesh: Solid, near: Indices) -> tuple[Indices, Array, Array]:
    """Return the sharp edges of some triangles, where they start, and the vectors to their ends."""
    edges = np.unique(mesh.face_edges[near].reshape(-1))
    edges = edges[mesh.is_sharp[edges]]
    start = mesh.vertices[mesh.edges[edges, 0]]
    return edges, start, mesh.vertices[mesh.edges[edges, 1]] - start


def _crossings(first: Solid, second: Solid, vertices: Array, R: Array, pairs: Indices) -> Features:
    """Return the crossings of sharp edges of two meshes, in axes of the second."""
    edges = np.stack(
        [
            np.repeat(first.face_edges[pairs[:, 0]], 3, axis=1).reshape(-1),
            np.tile(second.face_edges[pairs[:, 1]], 3).reshape(-1),
        ],
        axis=1,
    )
    sharp = first.is_sharp[edges[:, 0]] & second.is_sharp[edges[:, 1]]
    edges = np.unique(edges[sharp], axis=0)
    one, other = first.edges[edges[:, 0]], second.edges[edges[:, 1]]
    p1, p2 = vertices[one[:, 0]], second.vertices[other[:, 0]]
    d1, d2 = vertices[one[:, 1]] - p1, second.vertices[other[:, 1]] - p2
    crosses, s, t, x, y, n = _closest_points(p1, d1, p2, d2)
    crosses &= (
        (s >= -FACE_MARGIN)
        & (s <= 1.0 + FACE_MARGIN)
        & (t >= -FACE_MARGIN)
        & (t <= 1.0 + FACE_MARGIN)
    )
    outward = first.edge_normals[edges[:, 0]] @ R.T
    n = np.where(np.sum(n * outward, axis=1)[:, None] < 0.0, -n, n)
    crosses &= np.sum(n * second.edge_normals[edges[:, 1]], axis=1) < 0.0
    behind = vertices[first.opposite[edges[:, 0]]] - x[:, None]
    crosses &= _is_support(behind, -n)
    behind = second.vertices[second.opposite[edges[:, 1]]] - y[:, None]
    crosses &= _is_support(behind, n)
    return Features.of(x[crosses], y[crosses], n[crosses], 0.0)


def _rounded(axis: Array, mesh: Solid, near: Indices) -> Features:
    """Return where the axis of a capsule, or the center of a sphere, is nearest to a mesh.

    Args:
        axis: Both ends of the axis, or the center, in axes of the mesh, shape (2 or 1, 3).
        mesh: The mesh.
        near: Its triangles within reach.
    """
    parts = [_point_over(end, mesh, near) for end in axis]
    if len(axis) > 1:
        parts += [_axis_over_edges(axis, mesh, near), _axis_over_corners(axis, mesh, near)]
    return Features.all(parts)


def _outward(n: Array, y: Array, around: Array) -> Any:
    """Return where vertices around points of a mesh lie behind them, against outward normals."""
    behind = around - y[:, None]
    rise = np.einsum("nij,nj->ni", behind, n)
    return (rise <= FLAT_SINE * np.linalg.norm(behind, axis=2) + 1e-300).all(axis=1)


def _toward(x: Array, y: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return unit vectors from y to x, and whether they differ."""
    apart = x - y
    length = np.linalg.norm(apart, axis=1)
    differ = length > 0.0
    return apart / np.where(differ, length, 1.0)[:, None], differ


def _point_over(x: Array, mesh: Solid, near: Indices) -> Features:
    """Return a point over faces, edges and corners of a mesh, where these are nearest to it."""
    faces = mesh.faces[near]
    corners, n = mesh.vertices[faces], mesh.normals[near]
    height = np.sum(n * (x - corners[:, 0]), axis=1)
    foot = x - height[:, None] * n
    inside = np.ones(len(near), dtype=bool)
    for k in range(3):
        start, side = corners[:, k], corners[:, (k + 1) % 3] - corners[:, k]
        area = np.sum(n * np.cross(side, foot - start), axis=1)
        inside &= area >= -FACE_MARGIN * np.sum(side * side, axis=1)
    points = [foot[inside]]
    normals = [n[inside]]
    edges, start, side = _sharp_edges(mesh, near)
    s = np.sum(side * (x - start), axis=1) / np.sum(side * side, axis=1)
    y = start + s[:, None] * side
    direction, good = _toward(x[None], y)
    good &= (s > 0.0) & (s < 1.0) & _outward(direction, y, mesh.vertices[mesh.opposite[edges]])
    points.append(y[good])
    normals.append(direction[good])
    vertex = np.unique(faces.reshape(-1))
    y = mesh.vertices[vertex]
    direction, good = _toward(x[None], y)
    good &= _outward(direction, y, mesh.vertices[mesh.neighbors[vertex]])
    points.append(y[good])
    normals.append(direction[good])
    y, n = np.concatenate(points), np.concatenate(normals)
    return Features.of(np.broadcast_to(x, y.shape), y, -n, 0.0)


def _axis_over_edges(axis: Array, mesh: Solid, near: Indices) -> Features:
    """Return where the axis of a capsule passes sharp edges of a mesh."""
    edges, p2, d2 = _sharp_edges(mesh, near)
    p1, d1 = np.broadcast_to(axis[0], p2.shape), np.broadcast_to(axis[1] - axis[0], p2.shape)
    good, s, t, x, y, n = _closest_points(p1, d1, p2, d2)
    good &= (s > 0.0) & (s < 1.0) & (t > 0.0) & (t < 1.0)
    # away from the mesh
    n = np.where(np.sum(n * mesh.edge_normals[edges], axis=1)[:, None] < 0.0, -n, n)
    good &= _outward(n, y, mesh.vertices[mesh.opposite[edges]])
    return Features.of(x[good], y[good], -n[good], 0.0)


def _axis_over_corners(axis: Array, mesh: Solid, near: Indices) -> Features:
    """Return where the axis of a capsule passes corners of a mesh."""
    vertex = np.unique(mesh.faces[near].reshape(-1))
    y, d = mesh.vertices[vertex], axis[1] - axis[0]
    s = (y - axis[0]) @ d / float(d @ d)
    x = axis[0] + s[:, None] * d
    n, good = _toward(x, y)
    good &= (s > 0.0) & (s < 1.0) & _outward(n, y, mesh.vertices[mesh.neighbors[vertex]])
    return Features.of(x[good], y[good], -n[good], 0.0)


def _without_deep(found: Features, gap: Array, small: float) -> Any:
    """Return which contacts are none of deep ones with a shallower one nearby.

    A corner that has just passed a face is far behind the other faces of the same edge.
    """
    kept = np.ones(len(gap), dtype=bool)
    for k in np.flatnonzero(gap < -small):
        distance = np.linalg.norm(found.first - found.first[k], axis=1)
        kept[k] = not ((distance <= 2.0 * abs(gap[k])) & (gap > 0.5 * gap[k])).any()
    return kept


def _closest(first: Solid, second: Solid, R: Array, p: Array) -> tuple[Features, float]:
    """Return the closest points of two shapes and their gap; of hulls where shapes overlap."""
    coal = require_coal("contact")
    places = coal.Transform3s(R, p), coal.Transform3s(np.eye(3), np.zeros(3))
    result = coal.DistanceResult()
    objects = (first.object, second.object)
    gap = coal.distance(
        objects[0], places[0], objects[1], places[1], coal.DistanceRequest(), result
    )
    x, y = result.getNearestPoint1(), result.getNearestPoint2()
    length = float(np.linalg.norm(y - x))
    if gap > 0.0 and length > 0.0:
        normal = (y - x) / length
    else:
        result = coal.DistanceResult()
        hulls = (first.hull, second.hull)
        gap = coal.distance(
            hulls[0], places[0], hulls[1], places[1], coal.DistanceRequest(), result
        )
        x, y, normal = result.getNearestPoint1(), result.getNearestPoint2(), result.normal
    x, y = x - first.radius * normal, y + second.radius * normal
    return Features.of(x[None], y[None], normal[None], 0.0), float(gap)


def _slots(found: Features, gap: Array, size: float, margin: float) -> list[tuple[int, int]]:
    """Return which contacts are kept, each with its place.

    Contacts that are farthest out in fixed directions keep their places from step to step, and with
    them what steps carry on; normals that differ most, and the deepest contact, are kept too.
    """
    mean = found.normal.mean(axis=0)
    n = mean / max(float(np.linalg.norm(mean)), 1e-300)
    t = np.cross(n, np.eye(3)[int(np.argmin(np.abs(n)))])
    t /= np.linalg.norm(t)
    b = np.cross(n, t)
    across = np.stack([found.first @ t, found.first @ b], axis=1) / size
    tilted = np.stack([found.normal @ t, found.normal @ b], axis=1)
    kept: list[tuple[int, int]] = []
    slot = 0
    for values, count in ((across, DIRECTIONS), (tilted, NORMALS)):
        for angle in FIRST_ANGLE + 2.0 * np.pi * np.arange(count) / count:
            score = values @ [np.cos(angle), np.sin(angle)] - 0.5 * gap / margin
            _keep(kept, slot, int(np.argmax(score)), found, size)
            slot += 1
    _keep(kept, slot, int(np.argmin(gap)), found, size)
    return kept


def _keep(kept: list[tuple[int, int]], slot: int, k: int, found: Features, size: float) -> None:
    """Keep a contact unless the same one is kept already."""
    for _, known in kept:
        near = float(np.linalg.norm(found.first[known] - found.first[k])) < DEEP_RATIO * size
        if near and float(found.normal[known] @ found.normal[k]) > 1.0 - DEEP_RATIO:
            return
    kept.append((slot, k))
