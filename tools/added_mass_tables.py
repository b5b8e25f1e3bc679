"""Compute the tables of added mass of boxes, cylinders and capsules, by panels.

    python -m tools.added_mass_tables    # writes src/tiburon/hydro/shape_tables.py in minutes

The method is that of `tiburon.hydro.panels` [Hess and Smith 1967], on one octant of each shape:
its mirror images carry the same source strengths up to a sign, so that an octant of a thousand
panels stands for eight thousand. Panels are small at edges. Each value is extrapolated in one over
the number of panels from two resolutions, with and without conserved flux; the mean is stored, and
half of the difference is its error.
"""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tiburon.arrays import NDArray
from tiburon.hydro.coefficients import (
    BOX_RATIOS,
    CAPSULE_LENGTHS,
    CYLINDER_LENGTHS,
    box_scales,
    capsule_scales,
    cylinder_scales,
)
from tiburon.hydro.panels import influence

Floats = NDArray[np.float64]
Octant = tuple[Floats, NDArray[np.int64]]

TARGET = Path(__file__).parent.parent / "src/tiburon/hydro/shape_tables.py"

COARSE, FINE = 12, 18
"""Panels along a half side, of the two resolutions."""

SIGNS = np.array([(x, y, z) for x in (1, -1) for y in (1, -1) for z in (1, -1)], dtype=float)
"""Mirror images of the octant with positive coordinates, itself first."""


def main() -> None:
    """Write the module of tables."""
    worst = 0.0

    def table(
        octant: Callable[[int], Octant], scales: tuple[Floats, Floats], rows: list[int]
    ) -> list[float]:
        nonlocal worst
        value, error = extrapolated(octant)
        scale = np.concatenate(scales)
        worst = max(worst, float((error[rows] / value[rows]).max()))
        return [float(f"{x:.4g}") for x in (value[rows] / scale[rows]).tolist()]

    boxes = []
    for slender in BOX_RATIOS[0]:
        for flat in BOX_RATIOS[1]:
            size = (slender * flat, flat, 1.0)
            boxes.append(table(lambda n, s=size: box(s, n), box_scales(size), list(range(6))))
            print(f"box {size}: {boxes[-1]}, error so far {worst:.2%}", flush=True)
    cylinders = []
    for length in CYLINDER_LENGTHS:
        scales = cylinder_scales(0.5, length)
        cylinders.append(table(lambda n, x=length: cylinder(0.5, x, n), scales, [0, 3, 5]))
        print(f"cylinder {length}: {cylinders[-1]}, error so far {worst:.2%}", flush=True)
    capsules = []
    for length in CAPSULE_LENGTHS:
        scales = capsule_scales(0.5, length)
        capsules.append(table(lambda n, x=length: capsule(0.5, x, n), scales, [0, 3, 5]))
        print(f"capsule {length}: {capsules[-1]}, error so far {worst:.2%}", flush=True)
    lines = [
        '"""Added mass of boxes, cylinders and capsules by panels, relative to simple scales.',
        "",
        "Computed by `tools/added_mass_tables.py`; what rows and columns mean is stated in",
        f"`coefficients.py`. Estimated error of any entry: {100 * worst:.1g} %.",
        '"""',
        "",
        f"ERROR = {float(f'{worst:.1g}')}",
        '"""Largest estimated relative error of an entry."""',
    ]
    for name, entries, what in (
        ("BOXES", boxes, "Longest / middle side, then middle / shortest side, row by row."),
        ("CYLINDERS", cylinders, "By length / diameter."),
        ("CAPSULES", capsules, "By length of the straight part / diameter."),
    ):
        lines += ["", f"{name} = ("]
        lines += [f"    ({', '.join(map(repr, row))})," for row in entries]
        lines += [")", f'"""{what}"""']
    TARGET.write_text("\n".join(lines) + "\n")


def extrapolated(octant: Callable[[int], Octant]) -> tuple[Floats, Floats]:
    """Return added moments and masses for unit density, shape (6,), and their errors."""
    (coarse, few), (fine, many) = (unit_added_mass(*octant(n)) for n in (COARSE, FINE))
    # errors are proportional to one over the number of panels
    limits = fine + (fine - coarse) * few / (many - few)
    return limits.mean(axis=0), 0.5 * np.abs(limits[0] - limits[1])


def unit_added_mass(vertices: Floats, faces: NDArray[np.int64]) -> tuple[Floats, int]:
    """Return added moments and masses with and without conserved flux, shape (2, 6); panels."""
    a, b, c = vertices[faces].transpose(1, 0, 2)
    x = (a + b + c) / 3.0
    normal = np.cross(b - a, c - a)
    area = 0.5 * np.linalg.norm(normal, axis=1)
    n = normal / (2.0 * area)[:, None]
    motion = np.concatenate([np.cross(x, n), n], axis=1)
    S, K = [], []
    for sign in SIGNS:
        # a mirror image of a panel is seen from its other side
        order = faces if sign.prod() > 0.0 else faces[:, ::-1]
        potential, velocity = influence(vertices * sign, order, x, n)
        S.append(potential)
        K.append(velocity)
    np.fill_diagonal(K[0], 0.0)
    conserving = -(4.0 * np.pi * area + area @ sum(K)) / area
    plain = np.full(len(faces), -2.0 * np.pi)
    values = np.empty((2, 6))
    for k in range(6):
        # rotation about an axis is odd in the other two coordinates, translation in its own
        parity = np.delete(SIGNS, k, axis=1).prod(axis=1) if k < 3 else SIGNS[:, k - 3]
        folded_S, folded_K = (np.tensordot(parity, np.array(M), 1) for M in (S, K))
        for row, own in enumerate((conserving, plain)):
            sigma = np.linalg.solve(folded_K + np.diag(own), motion[:, k])
            values[row, k] = -8.0 * (area * motion[:, k]) @ (folded_S @ sigma)
    return values, 8 * len(faces)


def box(size: tuple[float, float, float], n: int) -> Octant:
    """Return an octant of a box, sides in falling order."""
    a, b, c = size
    along = min(3 * n, round(n * math.sqrt(a / b)))
    counts = (along, n, max(4, round(n * math.sqrt(c / b))))
    sides = [0.5 * s * toward_edge(k) for s, k in zip(size, counts, strict=True)]
    patches = []
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        U, V = np.meshgrid(sides[i], sides[j], indexing="ij")
        points = np.empty((*U.shape, 3))
        points[..., i], points[..., j], points[..., k] = U, V, 0.5 * size[k]
        patches.append(points)
    return joined(patches)


def cylinder(radius: float, length: float, n: int) -> Octant:
    """Return an octant of a cylinder along z."""
    ratio = math.sqrt(length / (2.0 * radius))
    across, along = (max(4, min(2 * n, round(n * x))) for x in (1.0, ratio))
    r = np.concatenate([radius * toward_edge(across), np.full(along, radius)])
    half = 0.5 * length * toward_edge(along)
    return revolved(r, np.concatenate([np.full(across, half[-1]), half[::-1]]), n)


def capsule(radius: float, length: float, n: int) -> Octant:
    """Return an octant of a capsule along z."""
    angle = np.linspace(0.0, 0.5 * np.pi, n + 1)
    along = max(4, min(2 * n, round(n * math.sqrt(length / (2.0 * radius)))))
    r = np.concatenate([radius * np.sin(angle), np.full(along, radius)])
    straight = np.linspace(0.5 * length, 0.0, along + 1)
    return revolved(r, np.concatenate([straight[0] + radius * np.cos(angle), straight[1:]]), n)


def toward_edge(count: int) -> Floats:
    """Return points from 0 to 1, dense at 1."""
    return np.sin(np.linspace(0.0, 0.5 * np.pi, count + 1))


def revolved(r: Floats, z: Floats, count: int) -> Octant:
    """Return the octant that a profile sweeps, its polygons of the area of the circle."""
    angle = np.linspace(0.0, 0.5 * np.pi, count + 1)
    R = (r * math.sqrt(angle[1] / math.sin(angle[1])))[:, None]
    corners = [
        R * np.cos(angle),
        R * np.sin(angle),
        np.broadcast_to(z[:, None], (len(z), count + 1)),
    ]
    return joined([np.stack(corners, axis=-1)])


def joined(patches: list[Floats]) -> Octant:
    """Return triangles over grids of points, outward from the origin, shared corners merged."""
    points, triangles, count = [], [], 0
    for grid in patches:
        rows, columns = grid.shape[:2]
        i, j = (k.ravel() for k in np.indices((rows - 1, columns - 1)))
        p = count + i * columns + j
        q = p + columns
        # diagonals alternate
        even = ((i + j) % 2 == 0)[:, None]
        first = np.where(even, np.stack([p, q, p + 1], 1), np.stack([p, q, q + 1], 1))
        second = np.where(even, np.stack([q, q + 1, p + 1], 1), np.stack([p, q + 1, p + 1], 1))
        points.append(grid.reshape(-1, 3))
        triangles += [first, second]
        count += rows * columns
    vertices, place = np.unique(np.concatenate(points).round(12), axis=0, return_inverse=True)
    faces = place.reshape(-1)[np.concatenate(triangles)]
    a, b, c = vertices[faces].transpose(1, 0, 2)
    normal = np.cross(b - a, c - a)
    # triangles at a pole have no area
    area = np.linalg.norm(normal, axis=1)
    faces, inward = faces[area > 1e-13 * area.max()], np.einsum("ij,ij->i", normal, a + b + c) < 0.0
    inward = inward[area > 1e-13 * area.max()]
    faces[inward] = faces[inward][:, ::-1]
    return vertices, faces


if __name__ == "__main__":
    main()
