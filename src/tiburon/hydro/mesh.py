"""Closed triangle meshes: checks, volume, center and inertia.

Symbols (integrals of polynomials over tetrahedra between the faces and one point, in closed form;
Mirtich 1996, J. Graphics Tools 1(2), computes the same integrals):
    a, b, c     corners of a face, from that point
    V           a . (b x c) / 6, the volume of its tetrahedron, with a sign
    s           a + b + c

    integral of x       = V s / 4
    integral of x x^T   = V (a a^T + b b^T + c c^T + s s^T) / 20

The faces around an edge of a closed surface pass it once in each direction. Otherwise the surface
has holes, which is an error, or faces with flipped orientation, which are corrected.
"""

from collections import deque
from functools import cached_property
from pathlib import Path

import numpy as np

from tiburon.argument_checks import refuse_unusable
from tiburon.arguments import public
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import ModelError, ModelFileError
from tiburon.hydro.mesh_file import MAX_FACES, MAX_SHELLS, read_triangles
from tiburon.model.inertia import Inertia
from tiburon.model.pose import Pose
from tiburon.model.value_checks import Vec3, number, vec3

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PROBE_POINTS = 6
"""Points of a shell that are tested for lying inside another one."""

GENERIC_AXES = np.linalg.qr([[0.62, 0.37, 0.69], [-0.28, 0.91, 0.33], [0.41, 0.13, -0.77]])[0]
"""Axes in generic directions, possibly mirrored: only the winding of rays matters."""


def merged_vertices(vertices: Floats, faces: Integers, distance: float) -> tuple[Floats, Integers]:
    """Merge coincident vertices.

    Args:
        vertices: Positions [m], shape (n, 3).
        faces: Three vertices each, shape (m, 3).
        distance: Grid on which positions coincide [m]; zero requires equal coordinates.
    """
    # adding zero turns -0.0 into 0.0
    keys = np.round(vertices / distance) if distance > 0.0 else vertices + 0.0
    _, first, place = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    renamed = place.reshape(-1)[faces]
    distinct = (renamed != np.roll(renamed, 1, axis=1)).all(axis=1)
    kept = renamed[distinct]
    used, indices = np.unique(kept, return_inverse=True)
    return vertices[first[used]], indices.reshape(-1, 3).astype(np.int64)


def oriented(vertices: Floats, faces: Integers, name: str) -> tuple[Integers, int]:
    """Return consistently oriented faces, and how many were flipped.

    Args:
        vertices: Positions [m], shape (n, 3).
        faces: Three vertices each, shape (m, 3).
        name: Prefix of messages, such as "mesh".

    Raises:
        ModelError: If edges are open, or the faces at an edge enclose no volume.
    """
    ends = _directed(faces)
    low, high = np.sort(ends, axis=1).T
    keys = low * len(vertices) + high
    sense = np.where(ends[:, 0] < ends[:, 1], 1, -1)
    edges, place, count = np.unique(keys, return_inverse=True, return_counts=True)
    balance = np.bincount(place, weights=sense, minlength=len(edges))
    if not balance.any():
        return faces, 0
    open_edges = np.flatnonzero(count % 2 == 1)
    if len(open_edges):
        first = edges[open_edges[0]]
        a, b = (_formatted(vertices[k]) for k in divmod(int(first), len(vertices)))
        raise ModelError(
            f"{name}: must be watertight, got {len(open_edges)} open edges of {len(edges)}, the "
            f"first from {a} to {b} m; close the holes in a mesh editor, or use simple shapes"
        )
    if (count > 2).any():
        raise ModelError(
            f"{name}: faces must be consistently oriented, got {int((balance != 0).sum())} edges "
            "passed twice in one direction, some of them shared by more than two faces; separate "
            "the parts in a mesh editor"
        )
    turned = _flipped(place, sense, len(faces), name)
    if 2 * turned.sum() > len(faces):
        turned = ~turned
    corrected = faces.copy()
    corrected[turned] = corrected[turned, ::-1]
    return corrected, int(turned.sum())


def _directed(faces: Integers) -> Integers:
    """Return the directed edges of all faces: all first edges, then second, then third ones."""
    return np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])


def _formatted(place: Floats) -> str:
    return f"({', '.join(f'{x:.4g}' for x in place)})"


def _flipped(place: Integers, sense: Integers, count: int, name: str) -> NDArray[np.bool_]:
    """Return which faces to flip so that neighbors agree; two faces at every edge."""
    order = np.argsort(place, kind="stable").reshape(-1, 2)
    first, second = (order % count).T
    differs = sense[order[:, 0]] == sense[order[:, 1]]
    neighbors: list[list[tuple[int, bool]]] = [[] for _ in range(count)]
    for a, b, odd in zip(first.tolist(), second.tolist(), differs.tolist(), strict=True):
        neighbors[a].append((b, odd))
        neighbors[b].append((a, odd))
    turned: list[bool | None] = [None] * count
    for start in range(count):
        if turned[start] is not None:
            continue
        turned[start] = False
        waiting = deque([start])
        while waiting:
            face = waiting.popleft()
            for other, odd in neighbors[face]:
                wanted = bool(turned[face]) != odd
                if turned[other] is None:
                    turned[other] = wanted
                    waiting.append(other)
                elif turned[other] != wanted:
                    raise ModelError(
                        f"{name}: the surface has only one side (as a Moebius strip or a Klein "
                        "bottle), and encloses no solid; correct it in a mesh editor"
                    )
    return np.array(turned, dtype=bool)


def shell_of(faces: Integers, vertex_count: int) -> tuple[Integers, int]:
    """Return the connected shell of each face, and the number of shells."""
    label = np.arange(vertex_count)
    ends = _directed(faces)
    while True:
        # neighbors get the smaller label, labels that of their label: converges in few rounds
        least = np.minimum(label[ends[:, 0]], label[ends[:, 1]])
        lower = label.copy()
        np.minimum.at(lower, ends[:, 0], least)
        np.minimum.at(lower, ends[:, 1], least)
        lower = lower[lower]
        if (lower == label).all():
            break
        label = lower
    _, shells = np.unique(label[faces[:, 0]], return_inverse=True)
    shells = shells.reshape(-1).astype(np.int64)
    return shells, int(shells.max()) + 1


def outer_shells(vertices: Floats, faces: Integers, name: str) -> tuple[Integers, list[str], int]:
    """Return the outward-oriented outer faces, notes on corrections, and the number of overlaps.

    Shells inside others are removed because water does not reach them. Shells that overlap others
    are kept and counted.

    Args:
        vertices: Positions [m], shape (n, 3).
        faces: Faces of a closed, consistently oriented surface, shape (m, 3).
        name: Prefix of messages.
    """
    shells, count = shell_of(faces, len(vertices))
    if count > MAX_SHELLS:
        raise ModelError(
            f"{name}: may consist of {MAX_SHELLS} separate shells, got {count}; join them, or keep "
            "the outer ones, in a mesh editor"
        )
    notes: list[str] = []
    parts = [faces[shells == k] for k in range(count)]
    inward = [signed_volumes(vertices, part).sum() < 0.0 for part in parts]
    outward = [part[:, ::-1] if out else part for part, out in zip(parts, inward, strict=True)]
    kept, inner, crossing = _not_inside(vertices, outward)
    turned = sum(bool(out and keep) for out, keep in zip(inward, kept, strict=True))
    if turned:
        notes.append(f"faces of {turned} of {count} shells were oriented inward and flipped")
    if inner:
        notes.append(f"{inner} of {count} shells lie inside others and were removed")
    if crossing:
        notes.append(f"{crossing} of {count} shells overlap; their common volume counts twice")
    outer = np.concatenate([part for part, keep in zip(outward, kept, strict=True) if keep])
    return outer, notes, crossing


def _not_inside(vertices: Floats, parts: list[Integers]) -> tuple[list[bool], int, int]:
    """Return which shells lie in no other one, how many do, and how many do partially."""
    corners = [vertices[np.unique(part)] for part in parts]
    boxes = [(points.min(axis=0), points.max(axis=0)) for points in corners]
    probes = [
        points[np.linspace(0, len(points) - 1, min(PROBE_POINTS, len(points))).astype(int)]
        for points in corners
    ]
    inside = [np.zeros(len(points), dtype=bool) for points in probes]
    # large ones first: what lies in them is not looked for again
    sizes = [float(np.prod(high - low)) for low, high in boxes]
    for j in sorted(range(len(parts)), key=lambda k: -sizes[k]):
        low, high = boxes[j]
        near = [
            k
            for k, (least, most) in enumerate(boxes)
            if k != j and not inside[k].all() and (least <= high).all() and (most >= low).all()
        ]
        if not near:
            continue
        found = windings(np.concatenate([probes[k] for k in near]), vertices, parts[j]) != 0
        ends = np.cumsum([len(probes[k]) for k in near])[:-1]
        for k, within in zip(near, np.split(found, ends), strict=True):
            inside[k] |= within
    kept = [not within.all() for within in inside]
    crossing = sum(bool(within.any() and not within.all()) for within in inside)
    return kept, kept.count(False), crossing


def signed_volumes(vertices: Floats, faces: Integers) -> Floats:
    """Return the signed volumes of the tetrahedra between faces and the origin [m^3]."""
    a, b, c = vertices[faces].transpose(1, 0, 2)
    found: Floats = np.einsum("ij,ij->i", a, np.cross(b, c)) / 6.0
    return found


WINDING_PAIRS = 2_000_000
"""Pairs of points and faces that are compared at once."""


def windings(points: Floats, vertices: Floats, faces: Integers) -> Integers:
    """Return the winding number of a closed surface about each point: 1 inside a solid, 0 outside.

    A ray from the point counts the faces it leaves through, less those it enters by.

    Args:
        points: Positions off the surface [m], shape (p, 3).
        vertices: Positions [m], shape (n, 3).
        faces: Counterclockwise from outside, shape (m, 3).
    """
    # in a generic direction, so that rays hit no edges
    turned, rays = vertices @ GENERIC_AXES.T, points @ GENERIC_AXES.T
    a, b, c = turned[faces].transpose(1, 0, 2)
    # one row per coordinate: vectorized comparisons exclude most faces
    left, front, _ = np.ascontiguousarray(np.minimum(np.minimum(a, b), c).T)
    right, back, top = np.ascontiguousarray(np.maximum(np.maximum(a, b), c).T)
    # a closed surface does not wind around points outside its boxes
    used = np.unique(faces)
    inside = _in_box(points, vertices[used]) & _in_box(rays, turned[used])
    chosen = np.flatnonzero(inside)
    found = np.zeros(len(points), dtype=np.int64)
    size = max(1, WINDING_PAIRS // max(1, len(faces)))
    for start in range(0, len(chosen), size):
        some = chosen[start : start + size]
        x, y, z = rays[some].T[:, :, None]
        pairs = (left <= x) & (right >= x) & (front <= y) & (back >= y) & (top >= z)
        ray, near = np.nonzero(pairs)
        ray = some[ray]
        A, B, C = (corner[near] - rays[ray] for corner in (a, b, c))
        # twice the areas of the three parts into which the ray divides the projected face
        parts = np.stack([_across(B, C), _across(C, A), _across(A, B)], axis=1)
        hit = (parts > 0.0).all(axis=1) | (parts < 0.0).all(axis=1)
        whole = parts[hit].sum(axis=1)
        heights = np.stack([A[hit, 2], B[hit, 2], C[hit, 2]], axis=1)
        above = (parts[hit] * heights).sum(axis=1) / whole > 0.0
        np.add.at(found, ray[hit][above], np.sign(whole[above]).astype(np.int64))
    return found


def _in_box(points: Floats, corners: Floats) -> NDArray[np.bool_]:
    """Return which points lie in the bounding box of others."""
    low, high = corners.min(axis=0), corners.max(axis=0)
    found: NDArray[np.bool_] = ((points >= low) & (points <= high)).all(axis=1)
    return found


def _across(a: Floats, b: Floats) -> Floats:
    """Return the third component of cross products."""
    found: Floats = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    return found


MIN_VOLUME = 1e-9
"""Smallest volume relative to the cube of the longest side: less is a sheet."""

MERGE_DISTANCE = 1e-6
"""Distance relative to the size of the mesh at which vertices are merged if merging equal ones
leaves holes: files have single precision."""


@public
class Mesh:
    """A watertight solid bounded by triangles, in SI units; immutable.

    Coincident vertices are merged, faces oriented inward are flipped, and shells inside others are
    removed because water does not reach them; `notes` lists these corrections.

    Example:
        ``tb.Mesh([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)], [(0, 2, 1), (0, 1, 3), (1, 2, 3),
        (0, 3, 2)]).volume`` is 1 / 6.
    """

    @public
    def __init__(self, vertices: ArrayLike, faces: ArrayLike, *, name: str = "mesh") -> None:
        """Check that the triangles enclose a solid.

        Args:
            vertices: Positions [m], shape (n, 3).
            faces: Indices of three vertices each, counterclockwise from outside, shape (m, 3).
            name: Prefix of messages.

        Raises:
            ModelError: If the triangles do not enclose a solid; the message names the place.
        """
        places, corners = _checked(vertices, faces, name)
        middle = 0.5 * (places.min(axis=0) + places.max(axis=0))
        size = float(np.ptp(places, axis=0).max())
        # sums of large coordinates lose digits: use coordinates from the center of the box
        around = places - middle
        notes = []
        try:
            around, corners = merged_vertices(around, corners, 0.0)
            corners, turned = oriented(around, corners, name)
        except ModelError:
            # retry with nearly coincident vertices merged
            around, corners = merged_vertices(around, corners, MERGE_DISTANCE * size)
            corners, turned = oriented(around, corners, name)
            notes.append(f"vertices closer than {MERGE_DISTANCE * size:.2g} m were merged")
        if len(corners) < 4:
            raise ModelError(f"{name}: must have at least 4 faces, got {len(corners)}; add faces")
        if turned:
            notes.append(
                f"{turned} of {len(corners)} faces were oriented inconsistently and flipped"
            )
        corners, more, overlaps = outer_shells(around, corners, name)
        used, indices = np.unique(corners, return_inverse=True)
        self._fill(around[used], indices.reshape(-1, 3), middle, (*notes, *more), overlaps)
        least = MIN_VOLUME * size**3
        if self.volume <= least:
            raise ModelError(
                f"{name}: must enclose a volume, got {self.volume:.3g} m^3 in a box {size:.3g} m "
                "long; a sheet has none: add a thickness"
            )

    def _fill(
        self, around: Floats, faces: Integers, middle: Floats, notes: tuple[str, ...], overlaps: int
    ) -> None:
        self._around, self._middle = around, middle
        self.vertices: Floats = around + middle
        """Positions [m], shape (n, 3)."""
        self.faces: Integers = faces.astype(np.int64)
        """Indices of three vertices each, counterclockwise from outside, shape (m, 3)."""
        self.notes = notes
        """Corrections, in sentences."""
        self.overlaps = overlaps
        """Number of shells that overlap others; their common volume counts twice."""
        for array in (self.vertices, self.faces, self._around, self._middle):
            array.flags.writeable = False

    def _with(
        self, around: Floats, faces: Integers | None = None, middle: Floats | None = None
    ) -> "Mesh":
        """Return a mesh of other triangles, without checks.

        Args:
            around: Positions from the middle [m], shape (n, 3).
            faces: Three vertices each; the same by default.
            middle: Origin of these positions [m]; the same by default.
        """
        mesh = Mesh.__new__(Mesh)
        mesh._fill(
            np.array(around),
            np.array(self.faces if faces is None else faces),
            np.array(self._middle if middle is None else middle),
            self.notes,
            self.overlaps,
        )
        return mesh

    def __repr__(self) -> str:
        return f"Mesh({len(self.faces)} faces, {self.volume:.4g} m^3)"

    @cached_property
    def _moments(self) -> tuple[float, Floats, Floats]:
        """Volume, and integrals of x and x x^T about the center of the bounding box."""
        V = signed_volumes(self._around, self.faces)
        a, b, c = self._around[self.faces].transpose(1, 0, 2)
        s = a + b + c
        first = V @ s / 4.0
        second = sum(np.einsum("i,ij,ik->jk", V, x, x) for x in (a, b, c, s)) / 20.0
        return float(V.sum()), first, np.asarray(second)

    @property
    def volume(self) -> float:
        """Enclosed volume [m^3]."""
        return self._moments[0]

    @property
    def center(self) -> Vec3:
        """Centroid, the center of buoyancy of the submerged solid [m]."""
        volume, first, _ = self._moments
        x, y, z = (self._middle + first / volume).tolist()
        return x, y, z

    @property
    def area(self) -> float:
        """Area of all faces [m^2]."""
        a, b, c = self._around[self.faces].transpose(1, 0, 2)
        return float(0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1).sum())

    @property
    def extent(self) -> Vec3:
        """Sides of the bounding box [m]."""
        x, y, z = np.ptp(self._around, axis=0).tolist()
        return x, y, z

    def inertia(self, density: float) -> Inertia:
        """Return mass, center and inertia of the homogeneous solid of a density [kg/m^3]."""
        density = number(density, "mesh", "density", least=0.0)
        volume, first, second = self._moments
        central = second - np.outer(first, first) / volume
        tensor = density * (np.trace(central) * np.eye(3) - central)
        return Inertia(density * volume, self.center, 0.5 * (tensor + tensor.T))

    def moved(self, pose: Pose) -> "Mesh":
        """Return the solid in the coordinates of another frame.

        Args:
            pose: Pose of the frame of this mesh in the other frame.
        """
        R, p = np.array(pose.rotation), np.array(pose.translation)
        return self._with(self._around @ R.T, middle=R @ self._middle + p)

    def scaled(self, factors: float | ArrayLike) -> "Mesh":
        """Return the solid scaled along x, y and z; negative factors mirror.

        Args:
            factors: One factor, or three.
        """
        given = np.full(3, factors) if np.ndim(factors) == 0 else factors
        scale = np.array(vec3(given, "mesh", "scale"))
        if not scale.all():
            raise ModelError(f"mesh: scale must not be zero, got {scale.tolist()}; use 1 to keep")
        # mirroring flips the orientation of faces
        faces = self.faces[:, ::-1] if np.prod(scale) < 0.0 else self.faces
        return self._with(self._around * scale, faces, self._middle * scale)


def _checked(vertices: ArrayLike, faces: ArrayLike, name: str) -> tuple[Floats, Integers]:
    """Return vertices and faces as arrays, checked for shape, finite values and index range."""
    refuse_unusable(f"mesh {name!r}: vertices", vertices)
    refuse_unusable(f"mesh {name!r}: faces", faces)
    count = np.shape(vertices)[0] if np.ndim(vertices) == 2 else 0
    places = np.asarray(vertices, dtype=np.float64)
    if places.shape != (count, 3) or not np.isfinite(places).all():
        # the message counts vertices instead of listing them
        bad = int((~np.isfinite(places)).any(axis=-1).sum()) if places.ndim == 2 else 0
        raise ModelError(
            f"{name}: vertices must be rows of three finite numbers, got shape {places.shape}"
            + (f", {bad} of them with NaN or infinity; correct them" if bad else "; check them")
        )
    corners = np.asarray(faces)
    if corners.ndim != 2 or corners.shape[1] != 3 or corners.dtype.kind not in "iu":
        raise ModelError(
            f"{name}: faces must be rows of three whole numbers, got shape {corners.shape} of "
            f"{corners.dtype}; cut polygons into triangles"
        )
    if not 4 <= len(corners) <= MAX_FACES:
        raise ModelError(
            f"{name}: must have 4 to {MAX_FACES} faces, got {len(corners)}; "
            + ("add faces" if len(corners) < 4 else "simplify it in a mesh editor")
        )
    if corners.min() < 0 or corners.max() >= count:
        raise ModelError(
            f"{name}: faces must name vertices 0 to {count - 1}, got {int(corners.min())} to "
            f"{int(corners.max())}; count from zero"
        )
    largest = float(np.abs(places).max())
    if largest > 1e9:
        raise ModelError(
            f"{name}: coordinates must be below 1e9 m, got {largest:.3g}; check the unit"
        )
    return places, corners.astype(np.int64)


@public
def load_mesh(path: str | Path, scale: float | ArrayLike = 1.0) -> Mesh:
    """Read a watertight solid from a file.

    Args:
        path: An STL, OBJ, PLY, OFF or GLB file; with the extra `collada` also a DAE file, whose own
            unit of length applies first.
        scale: Meters per unit of the file: one factor, or three along x, y, z.

    Raises:
        ModelFileError: If the file cannot be read, or its triangles do not enclose a solid.
        MissingExtraError: For a Collada file, without the extra `collada`.

    Example:
        ``tb.load_mesh("hull.stl", scale=0.001).volume``
    """
    file = Path(path)
    factors = vec3(np.full(3, scale) if np.ndim(scale) == 0 else scale, f"mesh {file}", "scale")
    vertices, faces = read_triangles(file)
    try:
        return Mesh(vertices, faces).scaled(factors)
    except ModelError as error:
        raise ModelFileError(file, str(error).removeprefix("mesh: ")) from error
