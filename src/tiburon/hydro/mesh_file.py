"""Mesh files: STL, OBJ, PLY, OFF, binary glTF and Collada as triangles.

They are untrusted: every failure of a reader becomes an error that names the file, and references
to other files (materials, textures) are ignored. Simple formats are read here, in time and memory
that grow with the size of the file; of glTF and Collada, which other packages read, everything that
takes more is counted before.
"""

import io
import itertools
import json
import re
import struct
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tiburon.arrays import NDArray
from tiburon.errors import MissingExtraError, ModelFileError
from tiburon.regular_file import read_regular_file

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Surface = tuple[Floats, Integers]
"""Vertices, shape (n, 3), and their indices per triangle, shape (m, 3)."""

FILE_BYTES = 64 * 2**20
"""Largest mesh file read [bytes]."""

MAX_FACES = 500_000
"""Most faces of a mesh."""

MAX_VERTICES = 3 * MAX_FACES
"""Most vertices of a mesh file."""

MAX_SHELLS = 200
"""Most separate shells of one mesh; assemblies of machine parts have more."""

MAX_LINE = 1_000_000
"""Longest line of a text file that is parsed [bytes]: a polygon of a hundred thousand corners."""

MESH_FORMATS = ("stl", "obj", "ply", "off", "glb", "dae")
"""Formats, by file suffix; Collada (.dae) needs the extra `collada`."""


def read_triangles(file: Path) -> Surface:
    """Read all triangles of a file, whether or not they enclose a volume.

    Returns:
        Vertices in the units of the file, shape (n, 3), and their indices per triangle, shape (m,
        3).

    Raises:
        ModelFileError: If the file cannot be read.
    """
    kind = file.suffix.lower().removeprefix(".")
    if kind not in MESH_FORMATS:
        listed = ", ".join(f".{known}" for known in MESH_FORMATS)
        raise ModelFileError(file, f"expected a mesh ({listed}), got {file.suffix!r}; convert it")
    content = read_regular_file(file, FILE_BYTES, "a mesh file", "simplify it in a mesh editor")
    try:
        vertices, faces = _READERS[kind](content, file)
    except (ModelFileError, MissingExtraError):
        raise
    except _SizeError:
        _raise_size(file, "more")
    except MemoryError as error:
        reason = "claims more data than fits into memory; export it again"
        raise ModelFileError(file, reason) from error
    except Exception as error:
        # any exception of the reader becomes an error that names the file
        cause = f"{type(error).__name__}: {str(error)[:120]}"
        raise ModelFileError(
            file, f"cannot be read as {kind.upper()} ({cause}); export it again"
        ) from error
    if not 4 <= len(faces) <= MAX_FACES:
        _raise_size(file, f"{len(faces)}")
    return vertices, faces


def _raise_size(file: Path, got: str) -> NoReturn:
    raise ModelFileError(
        file,
        f"must hold 4 to {MAX_FACES} triangles, got {got}; export it again, or simplify",
    )


class _SizeError(Exception):
    """More vertices or triangles than a mesh may have."""


class _Polygons:
    """Vertices and polygons of a file; each polygon becomes a fan of triangles."""

    def __init__(self) -> None:
        self.places, self.corners = array("d"), array("q")

    @property
    def vertex_count(self) -> int:
        return len(self.places) // 3

    def add_vertex(self, words: Sequence[bytes]) -> None:
        """Add a vertex whose coordinates are written."""
        x, y, z = words
        self.places.extend((float(x), float(y), float(z)))
        if len(self.places) > 3 * MAX_VERTICES:
            raise _SizeError

    def add(self, polygon: Sequence[int]) -> None:
        """Add a polygon."""
        first = polygon[0]
        for second, third in itertools.pairwise(polygon[1:]):
            self.corners.extend((first, second, third))
        if len(self.corners) > 3 * MAX_FACES:
            raise _SizeError

    def surface(self) -> Surface:
        """Return all triangles.

        Raises:
            ValueError: If a corner is not a vertex.
        """
        vertices = np.array(self.places, dtype=np.float64).reshape(-1, 3)
        return vertices, _checked(np.array(self.corners, dtype=np.int64), len(vertices))


def _checked(corners: Integers, count: int) -> Integers:
    """Return corners as triangles; raise if one is not a vertex."""
    if len(corners) and not 0 <= corners.min() <= corners.max() < count:
        raise ValueError(f"corners must be among the {count} vertices")
    return corners.reshape(-1, 3)


def _words(text: bytes, most: int = -1) -> list[bytes]:
    """Return the words of a line of bounded length."""
    if len(text) > MAX_LINE:
        raise ValueError(f"a line of {len(text)} bytes")
    return text.split(None, most)


def _take(lines: Iterator[bytes], count: int, what: str) -> Iterator[bytes]:
    """Iterate over a number of lines; raise if there are fewer, or too many to read."""
    if not 0 <= count <= MAX_VERTICES:
        raise ValueError(f"{count} {what}, expected up to {MAX_VERTICES}")
    for number in range(count):
        line = next(lines, None)
        if line is None:
            raise ValueError(f"{number} of {count} {what}, it is truncated")
        yield line


# -- STL -------------------------------------------------------------------------------------------

_STL_VERTEX = re.compile(rb"\bvertex\s+(\S+)\s+(\S+)\s+(\S+)", re.IGNORECASE)


def _read_stl(content: bytes, file: Path) -> Surface:
    """Return the triangles of a binary or text file, of all its solids."""
    if _is_binary_stl(content):
        return _binary_stl(content, file)
    if not re.search(rb"endsolid", content, re.IGNORECASE):
        raise ValueError("no endsolid, it is truncated")
    found = _Polygons()
    for vertex in _STL_VERTEX.finditer(content):
        found.add_vertex(vertex.groups())
    if found.vertex_count % 3:
        raise ValueError(f"{found.vertex_count} vertices, which are not triangles")
    found.corners.extend(range(found.vertex_count))
    return found.surface()


def _is_binary_stl(content: bytes) -> bool:
    """Return whether an STL file is not text."""
    return not (content[:5].lower() == b"solid" and b"facet" in content[:1000].lower())


def _binary_stl(content: bytes, file: Path) -> Surface:
    """Return the triangles of a binary file."""
    if len(content) < 84:
        raise ValueError(f"only {len(content)} bytes")
    wanted = 84 + 50 * int.from_bytes(content[80:84], "little")
    if len(content) != wanted:
        problem = "it is truncated" if len(content) < wanted else "export it again"
        raise ModelFileError(
            file, f"must have {wanted} bytes by its own count, got {len(content)}; {problem}"
        )
    row = np.dtype([("normal", "<f4", 3), ("vertices", "<f4", 9), ("attribute", "<u2")])
    vertices = np.frombuffer(content, row, offset=84)["vertices"].reshape(-1, 3)
    return vertices.astype(np.float64), np.arange(len(vertices)).reshape(-1, 3)


# -- OBJ, OFF --------------------------------------------------------------------------------------

_OBJ_LINE = re.compile(rb"^[ \t]*([vf])[ \t]+([^\r\n]*)", re.MULTILINE)


def _read_obj(content: bytes, file: Path) -> Surface:
    """Return the triangles of all objects; textures, normals and materials are ignored."""
    found = _Polygons()
    for line in _OBJ_LINE.finditer(re.sub(rb"\\\r?\n", b" ", content)):
        kind, text = line.groups()
        if kind == b"v":
            found.add_vertex(_words(text, 3)[:3])
        else:
            indices = [int(word.partition(b"/")[0]) for word in _words(text)]
            # counted from one, or back from the last vertex
            last = found.vertex_count
            found.add([last + index if index < 0 else index - 1 for index in indices])
    return found.surface()


_OFF_LINE = re.compile(rb"^[ \t]*([^\s#][^#\r\n]*)", re.MULTILINE)


def _read_off(content: bytes, file: Path) -> Surface:
    """Return the triangles of an OFF or COFF file; colors are ignored."""
    lines = (line[1] for line in _OFF_LINE.finditer(content))
    head = next(lines, b"")
    if not head.startswith((b"OFF", b"COFF")):
        raise ValueError("it does not begin with OFF")
    # the counts may stand in the first line
    counts = _words(head)[1:] or _words(next(lines, b""))
    vertex_count, face_count = int(counts[0]), int(counts[1])
    found = _Polygons()
    for line in _take(lines, vertex_count, "vertices"):
        found.add_vertex(_words(line, 3)[:3])
    for line in _take(lines, face_count, "faces"):
        count, *corners = map(int, _words(line))
        if not 0 <= count <= len(corners):
            raise ValueError(f"a face of {count} corners has {len(corners)}")
        found.add(corners[:count])
    return found.surface()


# -- PLY -------------------------------------------------------------------------------------------

MAX_HEADER = 100_000
"""Longest header of a PLY file [bytes]."""

MAX_LISTED = 10_000_000
"""Most values of PLY elements with lists, a list counted once."""

_PLY_TYPES = {
    **dict(zip(("char", "uchar", "short", "ushort", "int", "uint"), "bBhHiI", strict=True)),
    **dict(zip(("int8", "uint8", "int16", "uint16", "int32", "uint32"), "bBhHiI", strict=True)),
    "float": "f",
    "double": "d",
    "float32": "f",
    "float64": "d",
}
"""Types of PLY as the modules `struct` and `numpy` write them."""

_INDICES = ("vertex_indices", "vertex_index")
"""Names of the property that holds the corners of a face."""


class _Element(NamedTuple):
    """A kind of elements of a PLY file."""

    name: str
    size: int
    """Number of its elements."""

    properties: list[tuple[str, str, str]]
    """Name, type, and type of the count of a list, "" for a single value."""

    @property
    def has_lists(self) -> bool:
        return any(count for _, _, count in self.properties)

    def place(self, *names: str) -> int:
        """Return the place of a property by one of its names."""
        for place, (name, _, _) in enumerate(self.properties):
            if name in names:
                return place
        raise ValueError(f"{self.name} without {names[0]}")


def _read_ply(content: bytes, file: Path) -> Surface:
    """Return the triangles of a text or binary file."""
    head = re.compile(rb"end_header[ \t]*\r?\n").search(content, 0, MAX_HEADER)
    if head is None or not content.startswith(b"ply"):
        raise ValueError("no header")
    order, elements = _ply_header(content[: head.start()].decode("latin-1"))
    body = content[head.end() :]
    found = _Polygons()
    if order:
        place = 0
        for element in elements:
            place = _binary_elements(element, body, place, order, found)
    else:
        lines = (line[1] for line in _LINE.finditer(body))
        for element in elements:
            _text_elements(element, lines, found)
    return found.surface()


_LINE = re.compile(rb"^[ \t]*([^\s][^\r\n]*)", re.MULTILINE)


def _ply_header(text: str) -> tuple[str, list[_Element]]:
    """Return the byte order, "" of text files, and the elements up to the faces."""
    order, elements = "", []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["format"]:
            order = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}[words[1]]
        elif words[:1] == ["element"]:
            elements.append(_Element(words[1], int(words[2]), []))
            if not 0 <= elements[-1].size <= MAX_VERTICES:
                raise ValueError(f"{words[2]} elements {words[1]}, expected up to {MAX_VERTICES}")
        elif words[:2] == ["property", "list"]:
            count, kind, name = words[2:5]
            elements[-1].properties.append((name, _PLY_TYPES[kind], _PLY_TYPES[count]))
        elif words[:1] == ["property"]:
            elements[-1].properties.append((words[2], _PLY_TYPES[words[1]], ""))
    names = [element.name for element in elements]
    last = max(names.index("vertex"), names.index("face"))
    return order, elements[: last + 1]


def _text_elements(element: _Element, lines: Iterator[bytes], found: _Polygons) -> None:
    """Read the elements of one kind from text, one in a line."""
    rows = _take(lines, element.size, f"elements {element.name}")
    if element.name == "vertex":
        axes = [element.place(axis) for axis in "xyz"]
        if any(count for _, _, count in element.properties[: max(axes) + 1]):
            raise ValueError("a list before coordinates")
        for row in rows:
            words = _words(row, max(axes) + 1)
            found.add_vertex([words[axis] for axis in axes])
    elif element.name == "face":
        wanted = element.place(*_INDICES)
        for row in rows:
            words, place = _words(row), 0
            for _, _, count in element.properties[:wanted]:
                place += 1 + int(words[place]) if count else 1
            size = int(words[place])
            if not 0 < size < len(words) - place:
                raise ValueError(f"a face of {size} corners")
            found.add([int(word) for word in words[place + 1 : place + 1 + size]])
    else:
        for _ in rows:
            pass


def _binary_elements(
    element: _Element, body: bytes, place: int, order: str, found: _Polygons
) -> int:
    """Read the elements of one kind from bytes; return where the next ones begin."""
    if element.has_lists:
        return _binary_lists(element, body, place, order, found)
    row = np.dtype([(str(k), order + kind) for k, (_, kind, _) in enumerate(element.properties)])
    if element.name == "vertex":
        rows = np.frombuffer(body, row, element.size, place)
        axes = [rows[str(element.place(axis))].astype(np.float64) for axis in "xyz"]
        found.places.frombytes(np.stack(axes, axis=1).tobytes())
    return place + element.size * row.itemsize


def _binary_lists(element: _Element, body: bytes, place: int, order: str, found: _Polygons) -> int:
    """Read elements with lists; return where the next ones begin."""
    if element.size * len(element.properties) > MAX_LISTED:
        raise ValueError(f"more than {MAX_LISTED} lists and values")
    wanted = element.place(*_INDICES) if element.name == "face" else -1
    plain = [struct.Struct(order + (count or kind)) for _, kind, count in element.properties]
    for _ in range(element.size):
        for k, (_, kind, count) in enumerate(element.properties):
            (value,) = plain[k].unpack_from(body, place)
            place += plain[k].size
            if count:
                size = int(value) * struct.calcsize(kind)
                if not 0 <= size <= len(body) - place:
                    raise ValueError(f"a list of {value} values")
                if k == wanted:
                    corners = struct.unpack_from(f"{order}{int(value)}{kind}", body, place)
                    found.add([int(corner) for corner in corners])
                place += size
    return place


# -- formats of other packages ---------------------------------------------------------------------

MAX_PARTS = 1_000
"""Most parts of one file, each counted as often as it is placed."""

MAX_NODES = 10_000
"""Most nodes of a glTF file."""

MAX_JSON = 4 * 2**20
"""Longest description of a glTF file [bytes]; values are apart."""

MAX_VALUES = 30 * MAX_VERTICES
"""Most values of a glTF file: positions, normals, colors and others of all vertices."""

_GLTF_SIZES = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}
"""Values of one element of an accessor, by its type."""

MAX_TAGS = 200_000
"""Most tags of a Collada file; values are text between them."""

MAX_INDICES = 12 * MAX_FACES
"""Most indices of a Collada file: four at each corner."""


_PRIMITIVES = (
    *("triangles", "tristrips", "trifans", "polylist", "polygons"),
    *("lines", "linestrips"),
)
"""Elements of Collada that hold faces or lines."""


def _read_by_trimesh(content: bytes, kind: str) -> Surface:
    """Return vertices and faces as trimesh reads them."""
    import trimesh

    # non-finite values are rejected by Mesh
    with np.errstate(all="ignore"):
        found: Any = trimesh.load_mesh(
            io.BytesIO(content),
            file_type=kind,
            process=False,
            resolver=None,
            skip_materials=True,
        )
    vertices = np.asarray(found.vertices, dtype=np.float64).reshape(-1, 3)
    return vertices, np.asarray(found.faces, dtype=np.int64).reshape(-1, 3)


def _read_glb(content: bytes, file: Path) -> Surface:
    """Return the triangles of a binary glTF file.

    An accessor without data expands to as many zeros as it declares, and any number of nodes may
    place the same mesh.
    """
    size = int.from_bytes(content[12:16], "little")
    if size > MAX_JSON:
        raise ValueError(f"a description of {size} bytes")
    header = json.loads(content[20 : 20 + size])
    accessors = header.get("accessors", ())
    counts = [int(accessor["count"]) for accessor in accessors]
    if any("sparse" in accessor for accessor in accessors):
        # trimesh would leave out their values
        raise ValueError("sparse accessors are not supported")
    meshes, nodes = header.get("meshes", ()), header.get("nodes", ())
    sums = [sum(_corners(part, counts) for part in mesh["primitives"]) for mesh in meshes]
    placed = [node["mesh"] for node in nodes if "mesh" in node]
    most = max([sum(sums[mesh] for mesh in placed), *counts])
    if most > MAX_VERTICES or min(counts, default=0) < 0:
        _raise_size(file, f"data for {most // 3}")
    sizes = [_GLTF_SIZES.get(one.get("type"), 16) for one in accessors]
    values = sum(count * size for count, size in zip(counts, sizes, strict=True))
    if values > MAX_VALUES:
        raise ValueError(f"{values} values, expected up to {MAX_VALUES}")
    parts = sum(len(mesh["primitives"]) for mesh in meshes)
    parts += sum(len(meshes[mesh]["primitives"]) for mesh in placed)
    _check_parts(file, parts, len(nodes))
    return _read_by_trimesh(content, "glb")


def _corners(part: dict[str, Any], counts: list[int]) -> int:
    """Return the number of indices of a mesh primitive, or of its vertices if larger."""
    places = part.get("indices"), part["attributes"].get("POSITION")
    return max((counts[place] for place in places if place is not None), default=0)


def _check_parts(file: Path, parts: int, nodes: int) -> None:
    if parts > MAX_PARTS or nodes > MAX_NODES:
        raise ModelFileError(
            file,
            f"must have up to {MAX_PARTS} parts and {MAX_NODES} nodes, got {parts} and {nodes}; "
            "join the meshes and export it again",
        )


def _read_dae(content: bytes, file: Path) -> Surface:
    """Return the triangles of a Collada file [m], as its own unit of length makes them.

    The axis that it calls up is ignored, as by other readers of robot files.

    Raises:
        ModelFileError: If it has too many mesh instances: any number of nodes may place a mesh.
        MissingExtraError: Without the extra `collada`.
    """
    from defusedxml.ElementTree import fromstring

    if content.count(b"<") > 2 * MAX_TAGS:
        raise ValueError(f"more than {MAX_TAGS} elements")
    # refuses entities, which would expand
    root = fromstring(content, forbid_dtd=True)
    _check_dae(root, file)
    try:
        import collada  # noqa: F401
    except ImportError:
        raise MissingExtraError("pycollada", "collada", f"{file.name}: a Collada mesh") from None
    units = (node.get("meter") for node in root.iter() if node.tag.endswith("}unit"))
    unit = float(next(units, None) or 1.0)
    vertices, faces = _read_by_trimesh(content, "dae")
    return unit * vertices, faces


def _check_dae(root: Any, file: Path) -> None:
    """Raise for too many instances, parts or triangles."""
    placed = [
        node.get("url", "") for node in root.iter() if node.tag.endswith("}instance_geometry")
    ]
    nested = any(node.tag.endswith("}instance_node") for node in root.iter())
    if len(placed) > MAX_SHELLS or nested:
        raise ModelFileError(
            file,
            f"must use at most {MAX_SHELLS} geometries, each placed directly, got {len(placed)}"
            f"{' and instances of nodes' if nested else ''}; join the meshes and export it again",
        )
    parts: dict[str, int] = {}
    indices: dict[str, int] = {}
    for geometry in root.iter():
        if geometry.tag.endswith("}geometry"):
            tags = [node.tag.rpartition("}")[2] for node in geometry.iter()]
            lists = (node.text or "" for node in geometry.iter() if node.tag.endswith("}p"))
            key = f"#{geometry.get('id', '')}"
            parts[key] = parts.get(key, 0) + sum(tag in _PRIMITIVES for tag in tags)
            indices[key] = indices.get(key, 0) + sum(map(_word_count, lists))
    _check_parts(file, sum(parts.values()) + sum(parts.get(url, 0) for url in placed), 0)
    most = max([sum(indices.get(url, 0) for url in placed), *indices.values()])
    if most > MAX_INDICES:
        _raise_size(file, f"{most} indices")


def _word_count(text: str) -> int:
    """Return an upper bound of the number of words of a text, without splitting it."""
    return 1 + sum(text.count(space) for space in " \t\r\n")


_READERS = {
    "stl": _read_stl,
    "obj": _read_obj,
    "ply": _read_ply,
    "off": _read_off,
    "glb": _read_glb,
    "dae": _read_dae,
}
