"""Convex polyhedra: hulls of points, their faces, edges and corners, as rows that code reads.

Hulls are found by quickhull (Barber, Dobkin, Huhdanpaa 1996): the point farthest out of all is
added, so that what is left out when it stops is known. Among points that are equally far out the
one farthest from the middle is a vertex; others on the same edge or face are none.

A polyhedron is a row of floats for code: x, y, z of its vertices, links of each of them to its
neighbors and faces, and the faces, each with the lines that bound it. What is elsewhere in the row
is known by its place. A ball is a polyhedron of one vertex with a radius around it, a capsule one
of two.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiburon.arrays import NDArray
from tiburon.errors import DomainError
from tiburon.trace.primitives.table_rows import Table

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

ROUNDING = 1e-9
"""Height of points over a face of their hull that is none, relative to their size."""

TIE = 1e-10
"""Difference of heights that is rounding, relative to the size."""

EXACT_VERTICES = 1000
"""Vertices up to which a hull has all of its own."""

MOST_ERROR = 1e-3
"""Height of points over a hull of more vertices that is left out, relative to the size."""

FLAT_HEIGHT = 1e-6
"""Height of vertices over the plane of a face that they belong to, relative to the size: what is
left of flat faces in files of single precision."""

EDGE_HEIGHT = 1e-13
"""The same up to which a triangle continues its neighbor, and no edge is between them."""

MOST_CORNERS = 32
"""Corners of a face; those of others are the ones farthest out in as many directions."""

SIDES = 32
"""Sides of the prism as which a cylinder touches meshes: its radius varies by 0.5 %."""

SUBDIVISIONS = 3
"""How often the triangles of an icosahedron are divided into four, for ellipsoids: their radii vary
by 0.5 %."""

HEADER = 2
"""Numbers that lead the links: see `Polyhedron.links`."""

FACE_HEADER = 9
"""Numbers of a face before its corners: outward normal, offset, direction of its first side, count
of corners, and how far its vertices are above or below it."""

CORNER = 5
"""Numbers of a corner of a face: place of its vertex; inward normal and offset of the side that
starts there."""


class Hull(NamedTuple):
    """The convex hull of points."""

    vertices: Array
    """Shape (n, 3)."""

    triangles: Indices
    """Counter-clockwise seen from outside, shape (m, 3)."""

    error: float
    """How far points are outside."""


def is_flat(points: Array) -> bool:
    """Return whether points are in a plane, so that no hull has a volume."""
    sizes = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    return len(points) < 4 or bool(sizes[-1] <= 1e-6 * sizes[0])


def convex_hull(points: Array) -> Hull:
    """Return the convex hull of points.

    Hulls of more than `EXACT_VERTICES` vertices leave out those that are less than `MOST_ERROR` of
    the size outside of the others.

    Raises:
        DomainError: If they are in a plane.
    """
    if is_flat(points):
        raise DomainError(
            "points", "a solid, that they are not in a plane", f"{len(points)} points"
        )
    size = float(np.ptp(points, axis=0).max())
    middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
    local = (points - middle) / size
    radius = np.einsum("ij,ij->i", local, local)
    faces = _Faces(local, _first_simplex(local, radius))
    rest = np.setdiff1d(np.arange(len(local)), faces.triangles[:4])
    face, height = faces.highest(rest, np.arange(4))
    used, count = 4, len(local)
    while True:
        kept = height > ROUNDING
        rest, face, height = rest[kept], face[kept], height[kept]
        if not len(rest):
            break
        top = float(height.max())
        if used >= EXACT_VERTICES and top <= MOST_ERROR:
            break
        tied = np.flatnonzero(height >= top - TIE)
        # of those on top of one face the vertex
        tied = tied[face[tied] == face[tied[0]]]
        k = int(tied[np.argmax(radius[rest[tied]])])
        gone, new = faces.add(int(rest[k]), int(face[k]))
        used += 1
        keep = np.arange(len(rest)) != k
        rest, face, height = rest[keep], face[keep], height[keep]
        moved = np.isin(face, gone)
        face[moved], height[moved] = faces.highest(rest[moved], new)
        assert used <= count
    triangles = faces.triangles[faces.alive]
    error = float(height.max()) * size if len(height) else 0.0
    vertices, where = np.unique(triangles, return_inverse=True)
    return Hull(points[vertices], where.reshape(-1, 3).astype(np.int64), error)


def _first_simplex(points: Array, radius: Array) -> list[int]:
    """Return four points far from each other, all vertices of the hull."""

    def farthest(height: Array) -> int:
        tied = np.flatnonzero(height >= height.max() - TIE)
        return int(tied[np.argmax(radius[tied])])

    a = farthest(points @ [1.0, 0.0, 0.0])
    away = points - points[a]
    b = farthest(np.einsum("ij,ij->i", away, away))
    u = away[b] / np.linalg.norm(away[b])
    across = away - np.outer(away @ u, u)
    c = farthest(np.einsum("ij,ij->i", across, across))
    n = np.cross(u, across[c] / np.linalg.norm(across[c]))
    height = away @ n
    above, below = farthest(height), farthest(-height)
    return [a, b, c, above if height[above] >= -height[below] else below]


class _Faces:
    """The triangles of a hull that grows.

    Attributes:
        triangles: Vertices of all that there have been, shape (n, 3).
        alive: Whether they still are.
    """

    def __init__(self, points: Array, simplex: list[int]) -> None:
        self._points = points
        self.triangles = np.zeros((0, 3), dtype=np.int64)
        self.alive = np.zeros(0, dtype=bool)
        self._normals, self._offsets = np.zeros((0, 3)), np.zeros(0)
        a, b, c, d = simplex
        first = np.array([(a, b, c), (a, d, b), (b, d, c), (c, d, a)], dtype=np.int64)
        outward = np.linalg.det(points[first[0]] - points[d]) > 0.0
        self._append(first if outward else first[:, ::-1])

    def _append(self, triangles: Indices) -> Indices:
        """Add triangles that are counter-clockwise seen from outside; return their numbers."""
        corners = self._points[triangles]
        n = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        n /= np.linalg.norm(n, axis=1, keepdims=True)
        start = len(self.triangles)
        self.triangles = np.concatenate([self.triangles, triangles])
        self._normals = np.concatenate([self._normals, n])
        self._offsets = np.concatenate(
            [self._offsets, np.einsum("kij,kj->ki", corners, n).max(axis=1)]
        )
        self.alive = np.concatenate([self.alive, np.ones(len(triangles), dtype=bool)])
        return np.arange(start, len(self.triangles))

    def highest(self, points: Indices, faces: Indices) -> tuple[Indices, Array]:
        """Return for each point the face of some that it is highest over, and its height."""
        if not len(points):
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        heights = self._points[points] @ self._normals[faces].T - self._offsets[faces]
        best = np.argmax(heights, axis=1)
        return faces[best], heights[np.arange(len(points)), best]

    def add(self, point: int, face: int) -> tuple[Indices, Indices]:
        """Add a point outside of a face; return the faces that it ends, and those that it makes."""
        seen = (self._normals @ self._points[point] - self._offsets > TIE) & self.alive
        gone = np.flatnonzero(seen)
        border = self._border(gone)
        if len(np.unique(border[:, 0])) < len(border) or not _is_one_loop(border):
            # rounding on thin triangles: what is seen is one part, and what is not is one part
            joined = self._joined(face, seen)
            rest = self.alive & ~joined
            kept = np.zeros_like(rest)
            while rest.any():
                part = self._joined(int(np.argmax(rest)), rest)
                kept = part if part.sum() > kept.sum() else kept
                rest &= ~part
            gone = np.flatnonzero(self.alive & ~kept)
            border = self._border(gone)
        self.alive[gone] = False
        made = np.concatenate([border, np.full((len(border), 1), point)], axis=1)
        return gone, self._append(made)

    def _border(self, gone: Indices) -> Indices:
        """Return the sides of some triangles that only one of them has."""
        sides = self.triangles[gone][:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
        count = len(self._points)
        return sides[~np.isin(sides @ [count, 1], sides @ [1, count])]

    def _joined(self, start: int, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which of some triangles are joined to one of them by sides."""
        numbers = np.flatnonzero(among).tolist()
        sides = {side: k for k in numbers for side in _sides(self.triangles[k].tolist())}
        found = np.zeros_like(among)
        found[start], ahead = True, [start]
        while ahead:
            for a, b in _sides(self.triangles[ahead.pop()].tolist()):
                other = sides.get((b, a))
                if other is not None and not found[other]:
                    found[other] = True
                    ahead.append(other)
        return found


def _sides(triangle: list[int]) -> list[tuple[int, int]]:
    a, b, c = triangle
    return [(a, b), (b, c), (c, a)]


def _is_one_loop(sides: Indices) -> bool:
    """Return whether sides that each start elsewhere follow each other in one loop."""
    following: dict[int, int] = dict(sides.tolist())
    first: int = next(iter(following))
    place = first
    for _ in range(len(following) - 1):
        place = following.get(place, first)
        if place == first:
            return False
    return following.get(place) == first


class Polyhedron:
    """A convex polyhedron, or a point or two with a radius around them.

    Attributes:
        vertices: Shape (n, 3) [m].
        inscribed: Radius of the largest sphere around the origin inside [m].
    """

    def __init__(self, vertices: Array, triangles: Indices) -> None:
        """Take vertices and outward triangles of a hull; none of a point or two."""
        self.vertices = vertices
        self._neighbors: list[list[int]] = [[] for _ in vertices]
        self._faces: list[tuple[Array, float, list[int], float]] = []
        self.inscribed = 0.0
        if len(triangles):
            self._find_neighbors(triangles)
            self._find_faces(triangles)
            self.inscribed = max(min(offset for _, offset, *_ in self._faces), 0.0)
        else:
            every = list(range(len(vertices)))
            # of one point or two: the only side, over which nothing is
            self._neighbors = [[k for k in every if k != j] or [j] for j in every]
            self._faces = [(np.zeros(3), 1e300, every[:2], 0.0)]

    @functools.cached_property
    def _size(self) -> float:
        return float(np.ptp(self.vertices, axis=0).max())

    def _find_neighbors(self, triangles: Indices) -> None:
        """List the ends of the edges at each vertex."""
        x = self.vertices
        opposite = {(a, b): c for t in triangles.tolist() for a, b, c in _turned(t)}
        normals = np.cross(
            x[triangles[:, 1]] - x[triangles[:, 0]], x[triangles[:, 2]] - x[triangles[:, 0]]
        )
        normals /= np.linalg.norm(normals, axis=1, keepdims=True)
        for (a, b, c), n in zip(triangles.tolist(), normals, strict=True):
            for start, end, _ in _turned([a, b, c]):
                other = opposite.get((end, start))
                if other is None or n @ (x[other] - x[start]) < -EDGE_HEIGHT * self._size:
                    self._neighbors[start].append(end)

    def _find_faces(self, triangles: Indices) -> None:
        """Join triangles in one plane to faces."""
        x = self.vertices
        across = np.cross(
            x[triangles[:, 1]] - x[triangles[:, 0]], x[triangles[:, 2]] - x[triangles[:, 0]]
        )
        area = np.linalg.norm(across, axis=1)
        normals = across / area[:, None]
        owner = {(a, b): k for k, t in enumerate(triangles.tolist()) for a, b, _ in _turned(t)}
        free = set(range(len(triangles)))
        for seed in np.argsort(-area, kind="stable").tolist():
            if seed not in free:
                continue
            free.discard(seed)
            height = (x - x[triangles[seed, 0]]) @ normals[seed]
            flat = np.abs(height) <= FLAT_HEIGHT * self._size
            members, ahead = [seed], [seed]
            while ahead:
                for a, b, _ in _turned(triangles[ahead.pop()].tolist()):
                    other = owner.get((b, a))
                    if other in free and flat[triangles[other]].all():
                        free.discard(other)
                        members.append(other)
                        ahead.append(other)
            n = across[members].sum(axis=0)
            n /= np.linalg.norm(n)
            own = np.unique(triangles[members])
            heights = x[own] @ n
            flatness = float(np.ptp(heights)) if len(members) > 1 else 0.0
            corners = self._fewer(self._around(own, n), n)
            self._faces.append((n, float(heights.max()), corners, flatness))

    def _around(self, vertices: Indices, n: Array) -> list[int]:
        """Return the corners of a flat face, counter-clockwise; those on its sides are none."""
        t = _unit(np.cross(n, np.eye(3)[int(np.argmin(np.abs(n)))]))
        flat = np.stack([self.vertices[vertices] @ t, self.vertices[vertices] @ np.cross(n, t)], 1)
        order = np.lexsort(flat.T[::-1]).tolist()
        least = FLAT_HEIGHT * self._size

        def chain(order: list[int]) -> list[int]:
            found: list[int] = []
            for k in order:
                while len(found) > 1:
                    a, b, c = flat[found[-2]], flat[found[-1]], flat[k]
                    (p, q), (u, v) = (c - a).tolist(), (b - a).tolist()
                    # how far the one before is outside of the line past it
                    if u * q - v * p > least * math.hypot(p, q):
                        break
                    found.pop()
                found.append(k)
            return found[:-1]

        if len(vertices) == 3:
            a, b, c = order
            turn = np.cross(np.r_[flat[b] - flat[a], 0.0], np.r_[flat[c] - flat[a], 0.0])[2]
            around = [a, b, c] if turn > 0.0 else [a, c, b]
        else:
            around = chain(order) + chain(order[::-1])
        first = around.index(min(around))
        return [int(vertices[k]) for k in around[first:] + around[:first]]

    def _fewer(self, corners: list[int], n: Array) -> list[int]:
        """Return a face with at most `MOST_CORNERS` corners, all of its own."""
        if len(corners) <= MOST_CORNERS:
            return corners
        t = np.cross(n, np.eye(3)[int(np.argmin(np.abs(n)))])
        angles = 2.0 * np.pi * np.arange(MOST_CORNERS) / MOST_CORNERS
        ways = np.outer(np.cos(angles), t) + np.outer(np.sin(angles), np.cross(n, t))
        chosen = set(np.argmax(self.vertices[corners] @ ways.T, axis=0).tolist())
        return [corner for k, corner in enumerate(corners) if k in chosen]

    def links(self, vertices: int, start: int) -> list[float]:
        """Return the numbers that follow the vertices: a header, then links and faces.

        The header has the place of the first vertex, and what leads from the place of a vertex to
        that of its links.

        Args:
            vertices: Place of the first vertex in the row.
            start: Place of the header.
        """
        x = self.vertices
        at = [[] for _ in x]  # type: ignore[var-annotated]
        faces: list[float] = []
        begin = start + HEADER + 3 * len(x)
        for n, offset, corners, flatness in self._faces:
            for vertex in corners:
                at[vertex].append(begin + len(faces))
            side = x[corners[1 % len(corners)]] - x[corners[0]]
            faces += [*n, offset, *_unit(side - n * (n @ side)), float(len(corners)), flatness]
            for a, b in zip(corners, corners[1:] + corners[:1], strict=True):
                inward = _unit(np.cross(n, x[b] - x[a]))
                faces += [float(vertices + 3 * a), *inward, float(inward @ x[a])]
        links: list[float] = []
        lists: list[float] = []
        behind = begin + len(faces)
        for own, around in zip(self._neighbors, at, strict=True):
            links.append(float(behind + len(lists)))
            lists += [float(len(own)), *(float(vertices + 3 * k) for k in own)]
            links.append(float(behind + len(lists)))
            # vertices that faces leave out have those of their neighbors
            some = around or list(dict.fromkeys(f for k in own for f in at[k]))
            lists += [float(len(some)), *map(float, some), 0.0]
            links.append(0.0)
        jump = start + HEADER - vertices
        return [float(number) for number in (vertices, jump, *links, *faces, *lists)]


def _unit(a: Array) -> Array:
    length = float(np.linalg.norm(a))
    return a / length if length > 0.0 else a


def _turned(triangle: list[int]) -> list[tuple[int, int, int]]:
    """Return a triangle from each of its corners."""
    a, b, c = triangle
    return [(a, b, c), (b, c, a), (c, a, b)]


@functools.lru_cache(maxsize=256)
def polyhedron(numbers: tuple[float, ...]) -> Polyhedron:
    """Return the hull of points, given as x, y, z of each; of points in a plane without faces."""
    points = np.array(numbers).reshape(-1, 3)
    if is_flat(points):
        return Polyhedron(points, np.zeros((0, 3), dtype=np.int64))
    hull = convex_hull(points)
    return Polyhedron(hull.vertices, hull.triangles)


def table_of(
    polyhedra: Sequence[tuple[Polyhedron, float]],
) -> tuple[Table, list[tuple[float, ...]]]:
    """Return the numbers of some polyhedra as code reads them, and their dimensions.

    Args:
        polyhedra: Each with the radius around it.

    Returns:
        A table whose rows begin with all vertices; for each polyhedron its first row, its number of
        rows, the radii of spheres around and inside it, the place of its header, the radius, and
        how far it extends along each axis.
    """
    numbers = [float(x) for one, _ in polyhedra for x in one.vertices.ravel()]
    found: list[tuple[float, ...]] = []
    row = 0
    for one, radius in polyhedra:
        count, bound = len(one.vertices), float(np.linalg.norm(one.vertices, axis=1).max())
        spheres = (bound + radius, one.inscribed + radius)
        extents = (np.abs(one.vertices).max(axis=0) + radius).tolist()
        found.append((float(row), float(count), *spheres, float(len(numbers)), radius, *extents))
        numbers += one.links(3 * row, len(numbers))
        row += count
    numbers += [0.0] * (-len(numbers) % 3)
    rows = np.array(numbers).reshape(-1, 3)
    return Table(np.arange(float(len(rows))), rows), found


def box(size: tuple[float, float, float]) -> tuple[Array, Indices]:
    """Return vertices and outward triangles of a box."""
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    faces = [
        *([0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1]),
        *([2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]),
    ]
    return 0.5 * signs * np.array(size), np.array(faces, dtype=np.int64)


def prism(radius: float, length: float) -> tuple[Array, Indices]:
    """Return vertices and outward triangles of a prism with the volume of a cylinder."""
    angles = 2.0 * np.pi * np.arange(SIDES) / SIDES
    # the area of the polygon is that of the circle
    reach = radius * math.sqrt(2.0 * math.pi / (SIDES * math.sin(2.0 * math.pi / SIDES)))
    ring = reach * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    low, high = (np.c_[ring, np.full(SIDES, z)] for z in (-0.5 * length, 0.5 * length))
    faces = []
    for k in range(SIDES):
        m = (k + 1) % SIDES
        faces += [(k, m, SIDES + m), (k, SIDES + m, SIDES + k)]
        if 0 < k < SIDES - 1:
            faces += [(0, m, k), (SIDES, SIDES + k, SIDES + m)]
    return np.concatenate([low, high]), np.array(faces, dtype=np.int64)


def rounded(radii: tuple[float, ...]) -> tuple[Array, Indices]:
    """Return vertices and outward triangles of a polyhedron with the volume of an ellipsoid."""
    vertices, triangles = _sphere()
    return vertices * np.asarray(radii), triangles


@functools.cache
def _sphere() -> tuple[Array, Indices]:
    g = 0.5 * (1.0 + math.sqrt(5.0))
    corners = [(0.0, a, b * g) for a in (-1.0, 1.0) for b in (-1.0, 1.0)]
    points = [np.roll(corner, k) for k in range(3) for corner in corners]
    # edges of the icosahedron have length 2
    apart = np.linalg.norm(np.array(points)[:, None] - np.array(points), axis=-1)
    near = np.abs(apart - 2.0) < 0.1
    triples = itertools.combinations(range(12), 3)
    faces = [t for t in triples if all(near[a, b] for a, b in itertools.combinations(t, 2))]
    faces = [t if np.linalg.det([points[k] for k in t]) > 0.0 else t[::-1] for t in faces]
    points = [point / np.linalg.norm(point) for point in points]
    for _ in range(SUBDIVISIONS):
        middles: dict[frozenset[int], int] = {}

        def middle(a: int, b: int, middles: dict[frozenset[int], int] = middles) -> int:
            key = frozenset((a, b))
            if key not in middles:
                middles[key] = len(points)
                between = points[a] + points[b]
                points.append(between / np.linalg.norm(between))
            return middles[key]

        finer = []
        for a, b, c in faces:
            d, e, f = middle(a, b), middle(b, c), middle(c, a)
            finer += [(a, d, f), (d, b, e), (f, e, c), (d, e, f)]
        faces = finer
    vertices, triangles = np.array(points), np.array(faces, dtype=np.int64)
    volume = np.linalg.det(vertices[triangles]).sum() / 6.0
    vertices *= (4.0 / 3.0 * np.pi / volume) ** (1.0 / 3.0)
    return vertices, triangles
