"""More and smaller triangles on the same surface."""

import heapq

import numpy as np

from tiburon.hydro.mesh import Mesh

__all__ = ["refined"]


def refined(mesh: Mesh, faces: int) -> Mesh:
    """Return the same solid with at least so many faces, if it has fewer.

    The longest edge is halved, over and over, with the faces on both of its sides: triangles stay
    as well shaped as they were (Rivara 1984, Int. J. Numer. Meth. Eng. 20), and none is cut that
    is small already.

    Args:
        mesh: The solid.
        faces: How many faces to reach.
    """
    if len(mesh.faces) >= faces:
        return mesh
    places = [tuple(row) for row in mesh._around.tolist()]
    triangles: list[list[int]] = mesh.faces.tolist()
    beside: dict[tuple[int, int], list[int]] = {}
    longest: list[tuple[float, int, int]] = []

    def enter(face: int) -> None:
        """Note a face at its three edges."""
        corners = triangles[face]
        for k in range(3):
            a, b = corners[k], corners[(k + 1) % 3]
            edge = (a, b) if a < b else (b, a)
            if edge not in beside:
                beside[edge] = []
                x, y = places[a], places[b]
                # rounded, so that equal edges of symmetric bodies are cut in the order they have
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
