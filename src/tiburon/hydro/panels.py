"""Added mass of a solid of any shape: sources on flat panels (Hess and Smith).

Symbols (Hess and Smith 1967, Progress in Aeronautical Sciences 8; Newman 1977, sec. 4.16):
    x           a point, here the middle of a panel
    n           outward normal of a panel, and of its motion (x cross n, n)
    sigma       strength of the sources, the same all over a panel
    S           potential at x of unit sources on a panel, the integral of 1 / r over it
    K           normal velocity at x of the same
    L           ln((r_a + r_b + l) / (r_a + r_b - l)) of an edge from a to b of length l
    m           normal of an edge in the plane of its panel, outward
    d           distance of the edge from the foot of x on that plane
    h           height of x over that plane
    Omega       solid angle of the panel seen from x, of the sign of h

    S = sum of d L - h Omega,   grad S = - sum of m L - n Omega,
    phi = S sigma,   K sigma = (x cross n, n),   A = - rho integral of phi (x cross n, n)

All that flows out of a panel must flow away from the body, and none into it. Panels that are flat
where the body is round, or close to an edge, break this: their mean velocity is not that of their
middle. Here the velocity of a panel at itself is chosen so that its flow is kept, which makes the
error of smooth bodies fall as the number of panels instead of its root. What the matrix would be
without it tells how good it is: the truth of bodies with known answers lies between the two, at
most two fifths of the way from the first, where edges are sharp.
"""

import math

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import DomainError
from tiburon.hydro.mesh import Mesh
from tiburon.hydro.mesh_resolution import reduced, refined
from tiburon.model.value_checks import Matrix6, matrix6, number, vec3
from tiburon.record import record

__all__ = ["PanelAddedMass", "panel_added_mass"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PANELS = 1000
"""How many panels serve by default: about half a second."""

MOST = 4000
"""Most panels; their matrices take some 0.5 GB."""

SHARE = 0.4
"""Error of bodies with sharp edges, by what keeping the flow changes."""

BLOCK = 2**18
"""Most pairs of points and panels at a time, which bounds the memory."""


@record
class PanelAddedMass:
    """Added mass by panels, and how good it is."""

    matrix: Matrix6
    """Added inertia, angular rows first, axes of the mesh [kg m^2, kg m, kg]."""

    panels: int
    """How many panels were used."""

    error: float
    """About how far added masses are off in the worst direction, as a fraction of themselves.

    Walls that are thin beside their panels, and slivers, make it large; it is infinite where the
    panels give no added mass at all. More panels help.
    """

    turning_error: float
    """The same of added moments, as a fraction of the largest moment of the displaced water."""

    asymmetry: float
    """Largest difference of mirrored entries before they were averaged, as a fraction of the
    largest, with lengths in units of the body's size."""

    notes: tuple[str, ...] = ()
    """What was done to the mesh, in sentences."""


@public
def panel_added_mass(
    mesh: Mesh, density: float = 1025.0, *, about: ArrayLike = (0.0, 0.0, 0.0), panels: int = PANELS
) -> PanelAddedMass:
    """Compute the added mass of a solid deep in fluid without end, by potential flow.

    Meshes with fewer faces are refined; those with more than twice as many are reduced, with the
    volume kept. The error told is that of the method; a mesh of a round body, whose corners lie on
    it, has a smaller volume besides.

    Args:
        mesh: The solid.
        density: Of the fluid [kg/m^3].
        about: The point that the matrix is about, axes of the mesh [m], shape (3,).
        panels: How many panels to use, 20 to 4000.

    Example:
        ``tb.panel_added_mass(tb.load_mesh("hull.stl"), 1025.0).matrix``
    """
    density = number(density, "added mass by panels", "density", least=0.0)
    point = np.array(vec3(about, "added mass by panels", "about"))
    if not 20 <= panels <= MOST:
        raise DomainError("panels", f"20 to {MOST}", f"{panels}")
    notes = mesh.notes
    solid = refined(mesh, panels)
    if len(mesh.faces) > 2 * panels:
        solid = reduced(mesh, panels)
        notes = (*notes, f"reduced from {len(mesh.faces)} to {len(solid.faces)} panels")
    # around the middle, in units of the size: numbers near one keep all their digits
    size = mesh.volume ** (1.0 / 3.0)
    center = np.array(mesh.center)
    raw, open_flow = _unit_added_mass((solid.vertices - center) / size, solid.faces)
    asymmetry = float(np.abs(raw - raw.T).max() / np.abs(raw).max())
    A, other = (0.5 * (M + M.T) for M in (raw, open_flow))
    error = SHARE * _relative_difference(A[3:, 3:], other[3:, 3:])
    A, other = _definite(A), _definite(other)
    displaced = np.array(mesh.inertia(1.0).matrix) / size**5
    return PanelAddedMass(
        matrix=matrix6(_about(A, size, density, center - point), "added mass by panels", "matrix"),
        panels=len(solid.faces),
        error=error,
        turning_error=float(
            SHARE * np.abs(A[:3, :3] - other[:3, :3]).max() / np.linalg.eigvalsh(displaced)[-1]
        ),
        asymmetry=asymmetry,
        notes=notes,
    )


def _unit_added_mass(vertices: Floats, faces: Integers) -> tuple[Floats, Floats]:
    """Return the added mass about the origin for unit density, with the flow kept and without."""
    a, b, c = vertices[faces].transpose(1, 0, 2)
    x = (a + b + c) / 3.0
    normal = np.cross(b - a, c - a)
    area = 0.5 * np.linalg.norm(normal, axis=1)
    n = normal / (2.0 * area)[:, None]
    motion = np.concatenate([np.cross(x, n), n], axis=1)
    S, K = influence(vertices, faces, x, n)
    # from outside, a panel sees itself as half of all directions
    np.fill_diagonal(K, -2.0 * np.pi)
    plain = np.linalg.solve(K, motion)
    np.fill_diagonal(K, 0.0)
    # the flow of each panel, 4 pi times its area, must pass through all of them
    np.fill_diagonal(K, -(4.0 * np.pi * area + area @ K) / area)
    kept = np.linalg.solve(K, motion)
    weighted = area[:, None] * motion
    return -(weighted.T @ (S @ kept)), -(weighted.T @ (S @ plain))


def influence(
    vertices: Floats, faces: Integers, points: Floats, directions: Floats
) -> tuple[Floats, Floats]:
    """Return S and K: potential and velocity that unit sources on panels cause at points.

    Args:
        vertices: Places [m], shape (n, 3).
        faces: Three vertices each, shape (m, 3).
        points: Places, not on edges [m], shape (p, 3).
        directions: In which velocities are asked for, unit vectors, shape (p, 3).

    Returns:
        Potentials [m] and velocities, shape (p, m) both.
    """
    a, b, c = vertices[faces].transpose(1, 0, 2)
    n = np.cross(b - a, c - a)
    area = 0.5 * np.linalg.norm(n, axis=1)
    n /= (2.0 * area)[:, None]
    # two panels share an edge, and several a corner: logarithms and roots are taken once
    ends = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    edges, place = np.unique(np.sort(ends, axis=1), axis=0, return_inverse=True)
    sides = place.reshape(3, -1)
    l = np.linalg.norm(vertices[edges[:, 1]] - vertices[edges[:, 0]], axis=1)
    m = [np.cross(q - p, n) for p, q in ((a, b), (b, c), (c, a))]
    m = [across / np.linalg.norm(across, axis=1)[:, None] for across in m]
    S, K = np.empty((2, len(points), len(faces)))
    step = max(1, BLOCK // len(faces))
    for start in range(0, len(points), step):
        some = slice(start, start + step)
        x, u = points[some], directions[some]
        r = np.linalg.norm(vertices - x[:, None], axis=2)
        both = r[:, edges[:, 0]] + r[:, edges[:, 1]]
        L = np.log((both + l) / np.maximum(both - l, 1e-15 * l))
        h = x @ n.T - np.einsum("ij,ij->i", a, n)
        ra, rb, rc = (r[:, faces[:, k]] for k in range(3))
        # scalar products of the corners, seen from x, by the law of cosines
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
    """Return a symmetric matrix without the negative energies that small errors leave."""
    values, vectors = np.linalg.eigh(A)
    found: Floats = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return found


def _relative_difference(A: Floats, B: Floats) -> float:
    """Return the largest difference of x A x and x B x by x A x over all directions x."""
    values = np.linalg.eigvalsh(A)
    if values[0] <= 1e-9 * values[-1]:
        return math.inf
    root = np.linalg.cholesky(A)
    scaled = np.linalg.solve(root, np.linalg.solve(root, B - A).T)
    return float(np.abs(np.linalg.eigvalsh(0.5 * (scaled + scaled.T))).max())


def _about(A: Floats, size: float, density: float, offset: Floats) -> Floats:
    """Return the added mass in SI units about a point.

    Args:
        A: About the center, lengths in units of the size, for unit density.
        size: [m].
        density: [kg/m^3].
        offset: Of the center from the point [m].
    """
    units = np.repeat([size**2.5, size**1.5], 3)
    x, y, z = offset
    # velocity of the center by that of the point
    to_center = np.eye(6)
    to_center[3:, :3] = [[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]]
    found: Floats = density * to_center.T @ (A * np.outer(units, units)) @ to_center
    return 0.5 * (found + found.T)
