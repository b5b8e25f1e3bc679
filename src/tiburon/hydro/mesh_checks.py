"""Whether triangles enclose a solid: closed edges, directions of faces, shells in shells.

Every edge of a closed surface is passed once in each direction by the faces around it. Where that
does not hold, the surface has holes, or faces that look the wrong way; the latter can be mended.
"""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from tiburon.errors import ModelError

__all__ = ["merged_vertices", "outer_shells", "signed_volumes", "solid_angles", "turned_alike"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SHELLS = 200
"""Most separate shells of one mesh that are looked at; parts lists of whole machines have more."""

PROBES = 6
"""Places of a shell that are asked whether they lie inside another one."""

BLOCK = 2**19
"""Most pairs of points and faces at a time, which bounds the memory."""


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


def outer_shells(vertices: Floats, faces: Integers, name: str) -> tuple[Integers, list[str]]:
    """Return the faces that water meets, all looking outward, and what was done for it.

    Shells inside others are left out: water does not reach them.

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
    outward = []
    inward = 0
    for part in parts:
        inside_out = signed_volumes(vertices, part).sum() < 0.0
        inward += inside_out
        outward.append(part[:, ::-1] if inside_out else part)
    kept, inner, crossing = _not_inside(vertices, outward)
    turned = sum(
        signed_volumes(vertices, part).sum() < 0.0
        for part, keep in zip(parts, kept, strict=True)
        if keep
    )
    if turned:
        notes.append(f"faces of {turned} of {count} shells looked inward and were turned")
    if inner:
        notes.append(f"{inner} of {count} shells lie inside others and were left out")
    if crossing:
        notes.append(f"{crossing} of {count} shells overlap others, which counts water twice")
    return np.concatenate([part for part, keep in zip(outward, kept, strict=True) if keep]), notes


def _not_inside(vertices: Floats, parts: list[Integers]) -> tuple[list[bool], int, int]:
    """Return which shells lie in no other, how many do, and how many do in part."""
    corners = [vertices[np.unique(part)] for part in parts]
    boxes = [(points.min(axis=0), points.max(axis=0)) for points in corners]
    kept, inner, crossing = [], 0, 0
    for k, points in enumerate(corners):
        probes = points[np.linspace(0, len(points) - 1, min(PROBES, len(points))).astype(int)]
        low, high = boxes[k]
        inside = np.zeros(len(probes), dtype=bool)
        for j, part in enumerate(parts):
            if j == k or (boxes[j][0] > high).any() or (boxes[j][1] < low).any():
                continue
            # a full solid angle from inside, none from outside
            total = solid_angles(probes, vertices, part).sum(axis=1)
            inside |= np.abs(total) > 2.0 * np.pi
        kept.append(not inside.all())
        inner += bool(inside.all())
        crossing += bool(inside.any() and not inside.all())
    return kept, inner, crossing


def signed_volumes(vertices: Floats, faces: Integers) -> Floats:
    """Return the volumes of the tetrahedra between faces and the origin [m^3], with a sign."""
    a, b, c = vertices[faces].transpose(1, 0, 2)
    found: Floats = np.einsum("ij,ij->i", a, np.cross(b, c)) / 6.0
    return found


def solid_angles(points: Floats, vertices: Floats, faces: Integers) -> Floats:
    """Return the solid angles of faces seen from points, positive from behind a face [sr].

    Van Oosterom and Strackee 1983, IEEE Trans. Biomed. Eng. 30(2), eq. 8.

    Args:
        points: Places [m], shape (p, 3).
        vertices: Places [m], shape (n, 3).
        faces: Three vertices each, shape (m, 3).

    Returns:
        Shape (p, m).
    """
    found = np.empty((len(points), len(faces)))
    step = max(1, BLOCK // max(1, len(points)))
    for start in range(0, len(faces), step):
        some = slice(start, start + step)
        a, b, c = (vertices[faces[some, k]] - points[:, None] for k in range(3))
        ra, rb, rc = (np.sqrt(np.einsum("pmi,pmi->pm", x, x)) for x in (a, b, c))
        ab, bc, ca = (np.einsum("pmi,pmi->pm", x, y) for x, y in ((a, b), (b, c), (c, a)))
        triple = np.einsum("pmi,pmi->pm", a, np.cross(b, c))
        found[:, some] = 2.0 * np.arctan2(triple, ra * rb * rc + ab * rc + bc * ra + ca * rb)
    return found
