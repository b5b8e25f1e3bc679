"""Solids from mesh files: STL (binary and text), OBJ, PLY, OFF and binary glTF.

Files come from strangers. What a damaged one makes of the reader ends in a sentence; files that
name other files (materials, textures) get none of them.
"""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import ModelError, ModelFileError
from tiburon.hydro.mesh import FACES, Mesh
from tiburon.model.value_checks import vec3
from tiburon.regular_file import read_regular_file

__all__ = ["load_mesh", "read_triangles"]

FILE_BYTES = 64 * 2**20
"""Largest mesh file read [bytes]."""

KINDS = ("stl", "obj", "ply", "off", "glb")
"""Formats, by how names of files end."""


@public
def load_mesh(path: str | Path, scale: float | ArrayLike = 1.0) -> Mesh:
    """Read a watertight solid from a file.

    Args:
        path: An STL, OBJ, PLY, OFF or GLB file.
        scale: What its numbers are multiplied by to be meters: one factor, or three along x, y, z.

    Raises:
        ModelFileError: If the file cannot be read, or its triangles do not enclose a solid.

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


def read_triangles(file: Path) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Read all triangles of a file, whether or not they enclose anything.

    Returns:
        Vertices as the file has them, shape (n, 3), and three of them per triangle, shape (m, 3).

    Raises:
        ModelFileError: If the file cannot be read.
    """
    kind = file.suffix.lower().removeprefix(".")
    if kind not in KINDS:
        listed = ", ".join(f".{known}" for known in KINDS)
        raise ModelFileError(file, f"expected a mesh ({listed}), got {file.suffix!r}; convert it")
    content = read_regular_file(file, FILE_BYTES, "a mesh file", "simplify it in a mesh editor")
    return _triangles(content, kind, file)


def _triangles(
    content: bytes, kind: str, file: Path
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the vertices and faces of everything in a file."""
    import trimesh

    if kind == "stl":
        _check_stl(content, file)
    if kind == "glb":
        _check_glb(content, file)
    try:
        # numbers beyond all bounds are found by Mesh, which also cleans up and tells about it
        with np.errstate(all="ignore"):
            found: Any = trimesh.load_mesh(
                io.BytesIO(content),
                file_type=kind,
                process=False,
                resolver=None,
                skip_materials=True,
            )
        vertices = np.asarray(found.vertices, dtype=np.float64).reshape(-1, 3)
        faces = np.asarray(found.faces, dtype=np.int64).reshape(-1, 3)
    except MemoryError as error:
        raise ModelFileError(file, "claims more data than memory holds; write it anew") from error
    except Exception as error:
        # whatever damage makes of a reader: the caller learns which file and what it was
        told = f"{type(error).__name__}: {str(error)[:120]}"
        raise ModelFileError(
            file, f"cannot be read as {kind.upper()} ({told}); write it anew"
        ) from error
    if not 4 <= len(faces) <= FACES:
        raise ModelFileError(
            file, f"must hold 4 to {FACES} triangles, got {len(faces)}; write it anew, or simplify"
        )
    return vertices, faces


def _check_glb(content: bytes, file: Path) -> None:
    """Refuse a binary glTF file that claims more than it holds: numbers, or copies of a mesh.

    An accessor without data stands for zeros, as many as it says, and any number of nodes may show
    the same mesh.
    """
    try:
        size = int.from_bytes(content[12:16], "little")
        header = json.loads(content[20 : 20 + size])
        counts = [int(accessor["count"]) for accessor in header.get("accessors", ())]
        sums = [
            sum(_corners(part, counts) for part in mesh["primitives"])
            for mesh in header.get("meshes", ())
        ]
        shown = sum(sums[node["mesh"]] for node in header.get("nodes", ()) if "mesh" in node)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ModelFileError(
            file,
            f"cannot be read as GLB ({type(error).__name__}: {str(error)[:120]}); write it anew",
        ) from error
    most = max([shown, *counts])
    if most > 3 * FACES or min(counts, default=0) < 0:
        raise ModelFileError(
            file,
            f"must hold 4 to {FACES} triangles, got numbers for {most // 3}; write it anew, or "
            "simplify",
        )


def _corners(part: dict[str, Any], counts: list[int]) -> int:
    """Return how many numbers the corners of a part of a mesh take, or its vertices if more."""
    places = part.get("indices"), part["attributes"].get("POSITION")
    return max((counts[place] for place in places if place is not None), default=0)


def _check_stl(content: bytes, file: Path) -> None:
    """Refuse a binary file that ends early: half of a solid is none."""
    if content[:5].lower() == b"solid" and b"facet" in content[:1000].lower():
        return
    if len(content) < 84:
        raise ModelFileError(
            file, f"cannot be read as STL (only {len(content)} bytes); write it anew"
        )
    wanted = 84 + 50 * int.from_bytes(content[80:84], "little")
    if len(content) < wanted:
        raise ModelFileError(
            file, f"must have {wanted} bytes by its own count, got {len(content)}; it was cut off"
        )
