"""Added mass of a solid of any shape by flat source panels [Hess and Smith 1967].

Symbols (Hess and Smith 1967, Progress in Aeronautical Sciences 8; Newman 1977, sec. 4.16):
    x           a point, here the centroid of a panel
    n           outward normal of a panel; (x cross n, n) is its generalized normal
    sigma       source strength, constant over a panel
    S           potential at x of unit sources on a panel, the integral of 1 / r over it
    K           normal velocity at x of the same
    L           ln((r_a + r_b + l) / (r_a + r_b - l)) of an edge from a to b of length l
    m           normal of an edge in the plane of its panel, outward
    d           distance of the edge from the foot of x on that plane
    h           height of x over that plane
    Omega       solid angle of the panel seen from x, of the sign of h

    S = sum of d L - h Omega,   grad S = - sum of m L - n Omega,
    phi = S sigma,   K sigma = (x cross n, n),   A = - rho integral of phi (x cross n, n)

The sources of a panel must not cause net flow into the body. Discretization violates this on
curved bodies and near edges, because the mean velocity over a panel is not that at its centroid.
Here the self-influence of each panel is chosen so that flux is conserved, which makes the error of
smooth bodies proportional to 1 / n instead of 1 / sqrt(n) for n panels. The difference from the
matrix without this correction is the error estimate: for bodies with known added mass the exact
value lies between the two, at most two fifths of the way from the first, where edges are sharp.

Meshes are refined by subdivision and coarsened by edge collapse [Garland and Heckbert 1997,
SIGGRAPH, "Surface simplification using quadric error metrics"]: each vertex keeps the sum of
squared distances from the planes that met in it, a quadratic form of ten coefficients; the cost of
an edge is the minimum of the sum of both ends' forms. The surface stays closed: an edge only
collapses where its ends share exactly the two neighbors of its two faces, and where no face flips.

Where walls are too thin for panels, added mass is that of the ellipsoid with the same second
moments. Drag of a mesh is that of the box or the ellipsoid with the same second moments, whichever
has the volume closer to that of the solid.
"""

import heapq
import math
from operator import add
from typing import NamedTuple

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import DomainError, ModelFileError
from tiburon.hydro.coefficients import ellipsoid_added_mass, velocity_shift
from tiburon.hydro.mesh import Mesh, load_mesh
from tiburon.model.body import MeshShape
from tiburon.model.body_fluid import BoxDrag, Drag, EllipsoidDrag
from tiburon.model.pose import Pose
from tiburon.model.value_checks import Matrix6, Vec3, matrix3, matrix6, positive_density, vec3
from tiburon.record import record

Floats = NDArray[np.float64]
Point = tuple[float, float, float]

EDGE_LENGTH_WEIGHT = 1e-3
"""Weight of edge length against distance from the planes: on flat parts, where collapses cost
nothing, short edges collapse first and panels keep similar sizes."""

MIN_NORMAL_COSINE = 0.2
"""Smallest cosine between the normals of a face before and after a collapse."""


def reduced(mesh: Mesh, faces: int) -> Mesh:
    """Coarsen a solid to about a number of faces, with the volume preserved.

    Args:
        mesh: The solid.
        faces: Target number of faces; shells keep at least a tetrahedron each.
    """
    if len(mesh.faces) <= faces:
        return mesh
    work = _Collapse(mesh)
    work.run(faces)
    places, triangles = work.result()
    found = mesh._with(places, triangles)
    # coarsening reduces the volume: restore it by scaling about the centroid
    center = np.array(found.center) - mesh._middle
    factor = (mesh.volume / found.volume) ** (1.0 / 3.0)
    return mesh._with(center + (places - center) * factor, triangles)


class _Collapse:
    """Edge collapse: connectivity of the mesh and a queue of edges by cost."""

    def __init__(self, mesh: Mesh) -> None:
        self.places: list[Point] = [(x, y, z) for x, y, z in mesh._around.tolist()]
        self.faces: dict[int, tuple[int, int, int]] = {
            k: (a, b, c) for k, (a, b, c) in enumerate(mesh.faces.tolist())
        }
        self.around: list[set[int]] = [set() for _ in self.places]
        for k, corners in self.faces.items():
            for vertex in corners:
                self.around[vertex].add(k)
        self.quadrics = _quadrics(mesh)
        self.version = [0] * len(self.places)
        self.queue: list[tuple[float, int, int, int, int, Point]] = []
        edges = np.concatenate([mesh.faces[:, pair] for pair in ([0, 1], [1, 2], [2, 0])])
        one_way = edges[edges[:, 0] < edges[:, 1]]
        for a, b in np.unique(one_way, axis=0).tolist():
            self.offer(a, b)

    def run(self, wanted: int) -> None:
        """Collapse edges until the wanted number of faces is reached, or none can."""
        while len(self.faces) > wanted and self.queue:
            _, a, b, version_a, version_b, place = heapq.heappop(self.queue)
            if self.version[a] != version_a or self.version[b] != version_b:
                continue
            if self.allowed(a, b, place):
                self.collapse(a, b, place)

    def result(self) -> tuple[Floats, NDArray[np.int64]]:
        """Return the remaining vertices and faces."""
        faces = np.array(list(self.faces.values()))
        used, indices = np.unique(faces, return_inverse=True)
        return np.array(self.places)[used], indices.reshape(-1, 3).astype(np.int64)

    def offer(self, a: int, b: int) -> None:
        """Put an edge into the queue with its cost."""
        Q = list(map(add, self.quadrics[a], self.quadrics[b]))
        p, q = self.places[a], self.places[b]
        length = _square(p, q)
        middle = (0.5 * (p[0] + q[0]), 0.5 * (p[1] + q[1]), 0.5 * (p[2] + q[2]))
        place = _minimum(Q)
        # where planes are nearly parallel the minimum is far away along them
        if place is None or _square(place, middle) > length:
            place = min((middle, p, q), key=lambda choice: _value(Q, choice))
        cost = max(_value(Q, place), 0.0) + EDGE_LENGTH_WEIGHT * length * length
        heapq.heappush(self.queue, (cost, a, b, self.version[a], self.version[b], place))

    def neighbors(self, vertex: int) -> set[int]:
        """Return the vertices that share a face with a vertex."""
        faces = self.faces
        found = set().union(*[faces[k] for k in self.around[vertex]])
        found.discard(vertex)
        return found

    def allowed(self, a: int, b: int, place: Point) -> bool:
        """Return whether the surface stays closed and manifold, and no face flips."""
        shared = self.around[a] & self.around[b]
        if len(shared) != 2 or len(self.neighbors(a) & self.neighbors(b)) != 2:
            return False
        # a closed surface has at least four faces
        if len(self.around[a] | self.around[b]) <= 4:
            return False
        for vertex in (a, b):
            for k in self.around[vertex] - shared:
                before = [self.places[x] for x in self.faces[k]]
                after = [place if x == vertex else self.places[x] for x in self.faces[k]]
                if not _keeps_orientation(before, after):
                    return False
        return True

    def collapse(self, a: int, b: int, place: Point) -> None:
        """Merge the two vertices of an edge."""
        for k in self.around[a] & self.around[b]:
            for vertex in self.faces.pop(k):
                self.around[vertex].discard(k)
        for k in self.around[b]:
            x, y, z = (a if vertex == b else vertex for vertex in self.faces[k])
            self.faces[k] = (x, y, z)
        self.around[a] |= self.around[b]
        self.around[b] = set()
        self.places[a] = place
        self.quadrics[a] = list(map(add, self.quadrics[a], self.quadrics[b]))
        self.version[a] += 1
        self.version[b] += 1
        for other in self.neighbors(a):
            self.offer(min(a, other), max(a, other))


def _quadrics(mesh: Mesh) -> list[list[float]]:
    """Return the quadric of each vertex: xx, xy, xz, yy, yz, zz, x, y, z, constant."""
    a, b, c = mesh._around[mesh.faces].transpose(1, 0, 2)
    normal = np.cross(b - a, c - a)
    double = np.linalg.norm(normal, axis=1)
    x, y, z = (normal / np.maximum(double, 1e-300)[:, None]).T
    d = -(x * a[:, 0] + y * a[:, 1] + z * a[:, 2])
    planes = np.stack([x * x, x * y, x * z, y * y, y * z, z * z, x * d, y * d, z * d, d * d], 1)
    planes *= double[:, None]
    total = np.zeros((len(mesh.vertices), 10))
    for k in range(3):
        np.add.at(total, mesh.faces[:, k], planes)
    rows: list[list[float]] = total.tolist()
    return rows


def _square(p: Point, q: Point) -> float:
    """Return the squared distance of two points."""
    x, y, z = p[0] - q[0], p[1] - q[1], p[2] - q[2]
    return x * x + y * y + z * z


def _value(Q: list[float], p: Point) -> float:
    """Return the area-weighted sum of squared distances of a point."""
    x, y, z = p
    return (
        x * (Q[0] * x + 2.0 * (Q[1] * y + Q[2] * z + Q[6]))
        + y * (Q[3] * y + 2.0 * (Q[4] * z + Q[7]))
        + z * (Q[5] * z + 2.0 * Q[8])
        + Q[9]
    )


def _minimum(Q: list[float]) -> Point | None:
    """Return the minimum of a quadric; None if it is not unique."""
    xx, xy, xz, yy, yz, zz, x, y, z, _ = Q
    A, B, C = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
    determinant = xx * A + xy * B + xz * C
    if abs(determinant) <= 1e-9 * (xx + yy + zz) ** 3:
        return None
    D, E, F = xx * zz - xz * xz, xy * xz - xx * yz, xx * yy - xy * xy
    k = -1.0 / determinant
    return k * (A * x + B * y + C * z), k * (B * x + D * y + E * z), k * (C * x + E * y + F * z)


def _keeps_orientation(before: list[Point], after: list[Point]) -> bool:
    """Return whether a face keeps its orientation."""
    p, q = _normal(before), _normal(after)
    along = p[0] * q[0] + p[1] * q[1] + p[2] * q[2]
    sizes = (p[0] ** 2 + p[1] ** 2 + p[2] ** 2) * (q[0] ** 2 + q[1] ** 2 + q[2] ** 2)
    return along > 0.0 and along * along >= MIN_NORMAL_COSINE * MIN_NORMAL_COSINE * sizes


def _normal(corners: list[Point]) -> Point:
    a, b, c = corners
    ux, uy, uz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    vx, vy, vz = c[0] - a[0], c[1] - a[1], c[2] - a[2]
    return uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx


def refined(mesh: Mesh, faces: int) -> Mesh:
    """Refine a solid to at least a number of faces.

    The longest edge is bisected repeatedly, with the faces on both of its sides: triangles keep
    their quality (Rivara 1984, Int. J. Numer. Meth. Eng. 20), and small ones are not divided.

    Args:
        mesh: The solid.
        faces: Target number of faces.
    """
    if len(mesh.faces) >= faces:
        return mesh
    places = [tuple(row) for row in mesh._around.tolist()]
    triangles: list[list[int]] = mesh.faces.tolist()
    beside: dict[tuple[int, int], list[int]] = {}
    longest: list[tuple[float, int, int]] = []

    def enter(face: int) -> None:
        """Register a face at its three edges."""
        corners = triangles[face]
        for k in range(3):
            a, b = corners[k], corners[(k + 1) % 3]
            edge = (a, b) if a < b else (b, a)
            if edge not in beside:
                beside[edge] = []
                x, y = places[a], places[b]
                # rounded, so that equal edges of symmetric bodies are bisected in index order
                square = sum((p - q) ** 2 for p, q in zip(x, y, strict=True))
                heapq.heappush(longest, (-float(f"{square:.9e}"), *edge))
            beside[edge].append(face)

    for face in range(len(triangles)):
        enter(face)
    while len(triangles) < faces:
        _, a, b = heapq.heappop(longest)
        around = beside.pop((a, b), None)
        if around is None:
            continue
        middle = len(places)
        places.append(tuple(0.5 * (p + q) for p, q in zip(places[a], places[b], strict=True)))
        for face in around:
            corners = triangles[face]
            for k in range(3):
                x, y = corners[k], corners[(k + 1) % 3]
                edge = (x, y) if x < y else (y, x)
                if edge != (a, b):
                    beside[edge].remove(face)
            first = [middle if x == b else x for x in corners]
            second = [middle if x == a else x for x in corners]
            triangles[face] = first
            triangles.append(second)
            enter(face)
            enter(len(triangles) - 1)
    return mesh._with(np.array(places), np.array(triangles))


Integers = NDArray[np.int64]

DEFAULT_PANELS = 1000
"""Default number of panels: takes about half a second."""

MAX_PANELS = 4000
"""Most panels; their matrices take about 0.5 GB."""

ERROR_SHARE = 0.4
"""Error of bodies with sharp edges, relative to the change by flux conservation."""

MAX_PAIRS = 2**18
"""Most pairs of points and panels evaluated at a time, to bound memory."""


@record
class PanelAddedMass:
    """Added mass by panels, with error estimates."""

    matrix: Matrix6
    """Added inertia, angular rows first, axes of the mesh [kg m^2, kg m, kg]."""

    density: float
    """Density of the fluid it was computed for [kg/m^3]. `BodyFluid(added_mass=...)` takes this
    object whole and converts it to its reference density."""

    panels: int
    """Number of panels used."""

    error: float
    """Estimated relative error of added masses in the worst direction.

    It is large for walls thinner than their panels and for slivers, and infinite where the panels
    give no positive added mass. More panels reduce it.
    """

    rotational_error: float
    """Estimated error of added moments, relative to the largest moment of the displaced water."""

    asymmetry: float
    """Largest asymmetry of the computed matrix before averaging, relative to its largest entry
    (lengths in units of the body's size)."""

    notes: tuple[str, ...] = ()
    """Corrections and changes of the mesh, in sentences."""


@public
def panel_added_mass(
    mesh: Mesh,
    density: float = 1025.0,
    *,
    about: ArrayLike = (0.0, 0.0, 0.0),
    panels: int = DEFAULT_PANELS,
) -> PanelAddedMass:
    """Compute the added mass of a solid in unbounded fluid, by potential flow.

    Meshes with fewer faces are refined; those with more than twice as many are coarsened, with the
    volume preserved. The error estimate is that of the method; an inscribed mesh of a curved body
    also has a smaller volume.

    Args:
        mesh: The solid.
        density: Density of the fluid [kg/m^3], positive.
        about: Reference point of the matrix, axes of the mesh [m], shape (3,).
        panels: Number of panels, 20 to 4000.

    Example:
        ``tb.BodyFluid(added_mass=tb.panel_added_mass(tb.load_mesh("hull.stl"), 1000.0))``
    """
    density = positive_density(density, "added mass by panels")
    point = np.array(vec3(about, "added mass by panels", "about"))
    if not 20 <= panels <= MAX_PANELS:
        raise DomainError("panels", f"20 to {MAX_PANELS}", f"{panels}")
    notes = mesh.notes
    solid = refined(mesh, panels)
    if len(mesh.faces) > 2 * panels:
        solid = reduced(mesh, panels)
        notes = (*notes, f"coarsened from {len(mesh.faces)} to {len(solid.faces)} panels")
    # from the centroid in units of the size: values near one keep all digits
    size = mesh.volume ** (1.0 / 3.0)
    center = np.array(mesh.center)
    raw, open_flow = _unit_added_mass((solid.vertices - center) / size, solid.faces)
    asymmetry = float(np.abs(raw - raw.T).max() / np.abs(raw).max())
    A, other = (0.5 * (M + M.T) for M in (raw, open_flow))
    error = ERROR_SHARE * _relative_difference(A[3:, 3:], other[3:, 3:])
    A, other = _definite(A), _definite(other)
    largest = np.linalg.eigvalsh(np.array(mesh.inertia(1.0).matrix) / size**5)[-1]
    return PanelAddedMass(
        matrix=matrix6(_about(A, size, density, center - point), "added mass by panels", "matrix"),
        density=density,
        panels=len(solid.faces),
        error=error,
        rotational_error=float(ERROR_SHARE * np.abs(A[:3, :3] - other[:3, :3]).max() / largest),
        asymmetry=asymmetry,
        notes=notes,
    )


def _unit_added_mass(vertices: Floats, faces: Integers) -> tuple[Floats, Floats]:
    """Return the added mass for unit density about the origin, with and without conserved flux."""
    a, b, c = vertices[faces].transpose(1, 0, 2)
    x = (a + b + c) / 3.0
    normal = np.cross(b - a, c - a)
    area = 0.5 * np.linalg.norm(normal, axis=1)
    n = normal / (2.0 * area)[:, None]
    motion = np.concatenate([np.cross(x, n), n], axis=1)
    S, K = influence(vertices, faces, x, n)
    # the solid angle of a panel from its own centroid is half of the sphere
    np.fill_diagonal(K, -2.0 * np.pi)
    plain = np.linalg.solve(K, motion)
    np.fill_diagonal(K, 0.0)
    # the flux of each panel, 4 pi times its area, passes through all panels
    np.fill_diagonal(K, -(4.0 * np.pi * area + area @ K) / area)
    conserving = np.linalg.solve(K, motion)
    weighted = area[:, None] * motion
    return -(weighted.T @ (S @ conserving)), -(weighted.T @ (S @ plain))


def influence(
    vertices: Floats, faces: Integers, points: Floats, directions: Floats
) -> tuple[Floats, Floats]:
    """Return S and K: potential and velocity of unit sources on panels at points.

    Args:
        vertices: Positions [m], shape (n, 3).
        faces: Three vertices each, shape (m, 3).
        points: Positions off the edges [m], shape (p, 3).
        directions: Directions of the velocities, unit vectors, shape (p, 3).

    Returns:
        Potentials [m] and velocities, shape (p, m) both.
    """
    a, b, c = vertices[faces].transpose(1, 0, 2)
    n = np.cross(b - a, c - a)
    area = 0.5 * np.linalg.norm(n, axis=1)
    n /= (2.0 * area)[:, None]
    # logarithms of shared edges and norms of shared corners are computed once
    ends = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    edges, place = np.unique(np.sort(ends, axis=1), axis=0, return_inverse=True)
    sides = place.reshape(3, -1)
    l = np.linalg.norm(vertices[edges[:, 1]] - vertices[edges[:, 0]], axis=1)
    m = [np.cross(q - p, n) for p, q in ((a, b), (b, c), (c, a))]
    m = [across / np.linalg.norm(across, axis=1)[:, None] for across in m]
    S, K = np.empty((2, len(points), len(faces)))
    step = max(1, MAX_PAIRS // len(faces))
    for start in range(0, len(points), step):
        some = slice(start, start + step)
        x, u = points[some], directions[some]
        r = np.linalg.norm(vertices - x[:, None], axis=2)
        both = r[:, edges[:, 0]] + r[:, edges[:, 1]]
        L = np.log((both + l) / np.maximum(both - l, 1e-15 * l))
        h = x @ n.T - np.einsum("ij,ij->i", a, n)
        ra, rb, rc = (r[:, faces[:, k]] for k in range(3))
        # scalar products of the corners relative to x, by the law of cosines
        ab, bc, ca = (
            0.5 * (p * p + q * q - l[side] ** 2)
            for p, q, side in zip((ra, rb, rc), (rb, rc, ra), sides, strict=True)
        )
        # van Oosterom and Strackee 1983, eq. 8
        whole = ra * rb * rc + ab * rc + bc * ra + ca * rb
        Omega = 2.0 * np.arctan2(2.0 * area * h, whole)
        potential, velocity = -h * Omega, -(u @ n.T) * Omega
        for across, corner, side in zip(m, (a, b, c), sides, strict=True):
            log = L[:, side]
            potential += (np.einsum("ij,ij->i", corner, across) - x @ across.T) * log
            velocity -= (u @ across.T) * log
        S[some], K[some] = potential, velocity
    return S, K


def _definite(A: Floats) -> Floats:
    """Return a symmetric matrix with negative eigenvalues set to zero."""
    values, vectors = np.linalg.eigh(A)
    found: Floats = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return found


def _relative_difference(A: Floats, B: Floats) -> float:
    """Return the largest |x A x - x B x| / x A x over all directions x."""
    values = np.linalg.eigvalsh(A)
    if values[0] <= 1e-9 * values[-1]:
        return math.inf
    root = np.linalg.cholesky(A)
    scaled = np.linalg.solve(root, np.linalg.solve(root, B - A).T)
    return float(np.abs(np.linalg.eigvalsh(0.5 * (scaled + scaled.T))).max())


def _about(A: Floats, size: float, density: float, offset: Floats) -> Floats:
    """Return the added mass in SI units about a point.

    Args:
        A: Added mass about the center in units of the size, for unit density.
        size: Unit of length [m].
        density: Density of the fluid [kg/m^3].
        offset: From the point to the center [m].
    """
    units = np.repeat([size**2.5, size**1.5], 3)
    to_center = velocity_shift(offset)
    found: Floats = density * to_center.T @ (A * np.outer(units, units)) @ to_center
    return 0.5 * (found + found.T)


MAX_COMPUTED_ERROR = 0.1
"""Relative error above which added mass has quality "guessed"."""


MAX_USABLE_ERROR = 0.5
"""Relative error above which the added mass of an ellipsoid is used instead."""

ALIGNMENT_TOLERANCE = 1e-6
"""Products of inertia relative to the moments that count as zero: precision of files."""


class MeshHydrodynamics(NamedTuple):
    """Hydrodynamic coefficients of a mesh, in its own axes."""

    volume: float
    """Displaced volume [m^3]."""

    center: Vec3
    """Center of buoyancy [m]."""

    added: NDArray[np.float64]
    """Added mass about the origin of the mesh, angular rows first."""

    drag: Drag
    """Equivalent drag shape."""

    volume_quality: str
    """ "exact", or "guessed" where shells overlap."""

    added_quality: str
    """ "computed", or "guessed" where shells overlap or panels fail."""

    rotational_quality: str
    """Quality of added moments."""

    remark: str
    """Method and error estimate, in a sentence."""

    solid: Mesh
    """The mesh."""


def mesh_hydrodynamics(
    geometry: MeshShape,
    density: float,
    coefficients: tuple[float, float],
    panels: int = DEFAULT_PANELS,
) -> MeshHydrodynamics:
    """Read a mesh and compute its hydrodynamic coefficients.

    Args:
        geometry: The mesh shape.
        density: Density of the water [kg/m^3].
        coefficients: Drag coefficients of a box and of an ellipsoid.
        panels: Number of panels for added mass.

    Raises:
        ModelFileError: If the file cannot be read, or encloses no solid.
    """
    if "://" in geometry.path:
        raise ModelFileError(
            geometry.path,
            "expected a local mesh file, got a URI that was not found; load the robot with "
            "package_paths=[...] naming the folder that holds it",
        )
    mesh = load_mesh(geometry.path, geometry.scale)
    found = panel_added_mass(mesh, density, panels=panels)
    if found.error > MAX_COMPUTED_ERROR and 2 * panels <= MAX_PANELS:
        # smaller panels often suffice for thin walls and slivers
        found = panel_added_mass(mesh, density, panels=2 * panels)
    usable = found.error <= MAX_USABLE_ERROR
    guessed, guessed_rotation = (
        mesh.overlaps or error > MAX_COMPUTED_ERROR
        for error in (found.error, found.rotational_error)
    )
    return MeshHydrodynamics(
        volume=mesh.volume,
        center=mesh.center,
        added=np.array(found.matrix) if usable else _ellipsoid_added(mesh, density),
        drag=_drag(mesh, *coefficients),
        volume_quality="guessed" if mesh.overlaps else "exact",
        added_quality="guessed" if guessed else "computed",
        rotational_quality="guessed" if guessed_rotation else "computed",
        remark=_remark(found, usable),
        solid=mesh,
    )


def _remark(found: PanelAddedMass, usable: bool) -> str:
    notes = "".join(f"; {note}" for note in found.notes)
    if not usable:
        return (
            f"walls are too thin, or faces too narrow, for {found.panels} panels: added mass is "
            f"that of the ellipsoid with the same second moments{notes}"
        )
    return (
        f"added mass by {found.panels} panels, error about {100.0 * found.error:.1g} %, of moments "
        f"{100.0 * found.rotational_error:.1g} %{notes}"
    )


def _ellipsoid_added(mesh: Mesh, density: float) -> NDArray[np.float64]:
    """Return the added mass of the ellipsoid with the same second moments, about the origin."""
    squares, axes = _mean_squares(mesh)
    a, b, c = np.sqrt(5.0 * squares).tolist()
    moments, masses = ellipsoid_added_mass((a, b, c), density)
    x, y, z = mesh.center
    # from the velocity of the origin to that of the center along the axes
    to_center = np.zeros((6, 6))
    to_center[:3, :3] = to_center[3:, 3:] = axes.T
    to_center[3:, :3] = axes.T @ [[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]]
    found: NDArray[np.float64] = to_center.T @ np.diag([*moments, *masses]) @ to_center
    return found


def _mean_squares(mesh: Mesh) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean squared distances along principal axes [m^2], and the axes as columns."""
    tensor = np.array(mesh.inertia(1.0 / mesh.volume).matrix)
    # mean squares along axes from moments about them
    spread = 0.5 * np.trace(tensor) * np.eye(3) - tensor
    if np.abs(spread - np.diag(np.diag(spread))).max() <= ALIGNMENT_TOLERANCE * np.trace(spread):
        # principal axes of a cube are arbitrary: keep the axes of the file
        squares, axes = np.diag(spread), np.eye(3)
    else:
        squares, axes = np.linalg.eigh(spread)
    if np.linalg.det(axes) < 0.0:
        axes[:, 0] *= -1.0
    return squares, axes


def _drag(mesh: Mesh, box: float, ellipsoid: float) -> Drag:
    """Return the drag shape with the same second moments and the closest volume."""
    squares, axes = _mean_squares(mesh)
    pose = Pose(matrix3(axes), mesh.center)
    sides, radii = (np.sqrt(k * squares).tolist() for k in (12.0, 5.0))
    volume_errors = (
        abs(math.log(math.prod(sides) / mesh.volume)),
        abs(math.log(4.0 / 3.0 * math.pi * math.prod(radii) / mesh.volume)),
    )
    if volume_errors[0] <= volume_errors[1]:
        return BoxDrag(tuple(sides), (box,) * 3, pose)
    return EllipsoidDrag(tuple(radii), (ellipsoid,) * 3, pose)
