"""Whether triangles enclose a solid: closed edges, directions of faces, shells in shells.

Every edge of a closed surface is passed once in each direction by the faces around it. Where that
does not hold, the surface has holes, or faces that look the wrong way; the latter can be mended.
"""

from collections import deque

import numpy as np

from tiburon.arrays import NDArray
from tiburon.errors import ModelError

__all__ = ["merged_vertices", "outer_shells", "signed_volumes", "turned_alike", "windings"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SHELLS = 200
"""Most separate shells of one mesh that are looked at; parts lists of whole machines have more."""

PROBES = 6
"""Places of a shell that are asked whether they lie inside another one."""

SKEW = np.linalg.qr([[0.62, 0.37, 0.69], [-0.28, 0.91, 0.33], [0.41, 0.13, -0.77]])[0]
"""Axes along nothing in particular, perhaps mirrored: only whether rays wind matters."""


def merged_vertices(vertices: Floats, faces: Integers, distance: float) -> tuple[Floats, Integers]:
    """Return a mesh in which vertices at the same place are one.

    Args:
        vertices: Places [m], shape (n, 3).
        faces: Three vertices each, shape (m, 3).
        distance: Grid on which places are the same [m]; zero asks for equal numbers.
    """
    # adding zero makes the two zeros of floating point one
    keys = np.round(vertices / distance) if distance > 0.0 else vertices + 0.0
    _, first, place = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    renamed = place.reshape(-1)[faces]
    distinct = (renamed != np.roll(renamed, 1, axis=1)).all(axis=1)
    kept = renamed[distinct]
    used, numbers = np.unique(kept, return_inverse=True)
    return vertices[first[used]], numbers.reshape(-1, 3).astype(np.int64)


def turned_alike(vertices: Floats, faces: Integers, name: str) -> tuple[Integers, int]:
    """Return the faces with directions that agree, and how many had to be turned.

    Args:
        vertices: Places [m], shape (n, 3).
        faces: Three vertices each, shape (m, 3).
        name: Leads messages, such as "mesh".

    Raises:
        ModelError: If edges are open, or shared by faces in a way that encloses nothing.
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
        a, b = (_spelled(vertices[k]) for k in divmod(int(first), len(vertices)))
        raise ModelError(
            f"{name}: must be watertight, got {len(open_edges)} open edges of {len(edges)}, the "
            f"first from {a} to {b} m; close the holes in a mesh editor, or give simple shapes"
        )
    if (count > 2).any():
        raise ModelError(
            f"{name}: faces must look outward alike, got {int((balance != 0).sum())} edges passed "
            "twice in one direction, some of them shared by more than two faces; separate the "
            "parts in a mesh editor"
        )
    turned = _flipped(place, sense, len(faces), name)
    if 2 * turned.sum() > len(faces):
        turned = ~turned
    mended = faces.copy()
    mended[turned] = mended[turned, ::-1]
    return mended, int(turned.sum())


def _directed(faces: Integers) -> Integers:
    """Return the edges of all faces, first edges of all, then second, then third ones."""
    return np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])


def _spelled(place: Floats) -> str:
    return f"({', '.join(f'{x:.4g}' for x in place)})"


def _flipped(place: Integers, sense: Integers, count: int, name: str) -> NDArray[np.bool_]:
    """Return which faces to turn so that neighbors agree; two faces on every edge."""
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
    """Return which connected shell each face belongs to, and how many there are."""
    label = np.arange(vertex_count)
    ends = _directed(faces)
    while True:
        # neighbors take the smaller label, and labels that of their label: few rounds suffice
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
    """Return the faces that water meets, all looking outward, what was done for it, and overlaps.

    Shells inside others are left out: water does not reach them. Those that reach into others stay;
    how many they are is the last of what is returned.

    Args:
        vertices: Places [m], shape (n, 3).
        faces: Of a closed surface with directions that agree, shape (m, 3).
        name: Leads messages.
    """
    shells, count = shell_of(faces, len(vertices))
    if count > SHELLS:
        raise ModelError(
            f"{name}: may consist of {SHELLS} separate shells, got {count}; join them, or keep the "
            "outer ones, in a mesh editor"
        )
    notes: list[str] = []
    parts = [faces[shells == k] for k in range(count)]
    inward = [signed_volumes(vertices, part).sum() < 0.0 for part in parts]
    outward = [part[:, ::-1] if out else part for part, out in zip(parts, inward, strict=True)]
    kept, inner, crossing = _not_inside(vertices, outward)
    turned = sum(bool(out and keep) for out, keep in zip(inward, kept, strict=True))
    if turned:
        notes.append(f"faces of {turned} of {count} shells looked inward and were turned")
    if inner:
        notes.append(f"{inner} of {count} shells lie inside others and were left out")
    if crossing:
        notes.append(f"{crossing} of {count} shells overlap others, which counts water twice")
    met = np.concatenate([part for part, keep in zip(outward, kept, strict=True) if keep])
    return met, notes, crossing


def _not_inside(vertices: Floats, parts: list[Integers]) -> tuple[list[bool], int, int]:
    """Return which shells lie in no other, how many do, and how many do in part."""
    corners = [vertices[np.unique(part)] for part in parts]
    boxes = [(points.min(axis=0), points.max(axis=0)) for points in corners]
    probes = [
        points[np.linspace(0, len(points) - 1, min(PROBES, len(points))).astype(int)]
        for points in corners
    ]
    inside = [np.zeros(len(points), dtype=bool) for points in probes]
    for j, (low, high) in enumerate(boxes):
        near = [
            k
            for k, (least, most) in enumerate(boxes)
            if k != j and (least <= high).all() and (most >= low).all()
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
    """Return the volumes of the tetrahedra between faces and the origin [m^3], with a sign."""
    a, b, c = vertices[faces].transpose(1, 0, 2)
    found: Floats = np.einsum("ij,ij->i", a, np.cross(b, c)) / 6.0
    return found


def windings(points: Floats, vertices: Floats, faces: Integers) -> Integers:
    """Return how often a closed surface winds around each point: 1 inside a solid, 0 outside.

    A ray from the point counts the faces it leaves through, less those it enters by.

    Args:
        points: Places, not on the surface [m], shape (p, 3).
        vertices: Places [m], shape (n, 3).
        faces: Counterclockwise from outside, shape (m, 3).
    """
    # along a direction that no edge of a machine has, so that rays meet none
    turned = vertices @ SKEW.T
    a, b, c = turned[faces].transpose(1, 0, 2)
    # one row per coordinate: most faces are told off by a few comparisons of long rows
    left, front, _ = np.ascontiguousarray(np.minimum(np.minimum(a, b), c).T)
    right, back, top = np.ascontiguousarray(np.maximum(np.maximum(a, b), c).T)
    found = np.zeros(len(points), dtype=np.int64)
    for k, p in enumerate(points @ SKEW.T):
        x, y, z = p
        near = np.flatnonzero((left <= x) & (right >= x) & (front <= y) & (back >= y) & (top >= z))
        A, B, C = (corner[near] - p for corner in (a, b, c))
        # twice the areas of the three parts into which the foot of the ray cuts the shadow
        parts = np.stack([_across(B, C), _across(C, A), _across(A, B)], axis=1)
        hit = (parts > 0.0).all(axis=1) | (parts < 0.0).all(axis=1)
        whole = parts[hit].sum(axis=1)
        heights = np.stack([A[hit, 2], B[hit, 2], C[hit, 2]], axis=1)
        above = (parts[hit] * heights).sum(axis=1) / whole > 0.0
        found[k] = np.sign(whole[above]).sum()
    return found


def _across(a: Floats, b: Floats) -> Floats:
    """Return the third component of cross products."""
    found: Floats = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    return found
