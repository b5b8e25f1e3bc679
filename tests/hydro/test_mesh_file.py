"""Mesh files: all formats give the same solid, and damaged ones a sentence."""

import json
import random
import struct
import sys

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import assert_close
from tiburon.hydro import mesh_file
from tiburon.hydro.mesh_file import read_triangles
from tiburon.reproduce import solids

CORNERS = solids.CUBE_CORNERS * (1.0, 2.0, 0.5) + (0.25, 0.0, -1.0)
"""Numbers that single precision holds exactly."""


def binary_stl(corners=CORNERS, faces=solids.CUBE_FACES):
    content = b"\0" * 80 + struct.pack("<I", len(faces))
    for face in faces:
        content += struct.pack("<12fH", 0, 0, 0, *corners[face].ravel(), 0)
    return content


def text_stl():
    lines = ["solid box"]
    for face in solids.CUBE_FACES:
        lines += ["facet normal 0 0 0", "outer loop"]
        lines += ["vertex {} {} {}".format(*corner) for corner in CORNERS[face]]
        lines += ["endloop", "endfacet"]
    return "\n".join([*lines, "endsolid box"]).encode()


def obj():
    lines = ["mtllib ../../../etc/passwd", "o box"]
    lines += ["v {} {} {}".format(*corner) for corner in CORNERS]
    # squares, numbered from one, with numbers of normals that are not there
    lines += [f"f {a + 1} {b + 1} {c + 1} {d + 1}" for a, b, c, d in solids.CUBE_SQUARES]
    return "\n".join(lines).encode()


def ply(binary=False):
    head = [
        "ply",
        f"format {'binary_little_endian' if binary else 'ascii'} 1.0",
        f"element vertex {len(CORNERS)}",
        *(f"property float {axis}" for axis in "xyz"),
        f"element face {len(solids.CUBE_FACES)}",
        "property list uchar int vertex_indices",
        "end_header",
    ]
    content = ("\n".join(head) + "\n").encode()
    if binary:
        content += CORNERS.astype("<f4").tobytes()
        return content + b"".join(struct.pack("<B3i", 3, *face) for face in solids.CUBE_FACES)
    rows = ["{} {} {}".format(*corner) for corner in CORNERS]
    rows += ["3 {} {} {}".format(*face) for face in solids.CUBE_FACES]
    return content + "\n".join(rows).encode() + b"\n"


def off():
    rows = ["OFF", f"{len(CORNERS)} {len(solids.CUBE_FACES)} 0"]
    rows += ["{} {} {}".format(*corner) for corner in CORNERS]
    rows += ["3 {} {} {}".format(*face) for face in solids.CUBE_FACES]
    return "\n".join(rows).encode() + b"\n"


FILES = {
    "binary.stl": binary_stl(),
    "text.STL": text_stl(),
    "box.obj": obj(),
    "text.ply": ply(),
    "binary.ply": ply(binary=True),
    "box.off": off(),
}


@pytest.mark.parametrize("name", FILES)
def test_all_formats_give_the_same_solid(name, tmp_path):
    (tmp_path / name).write_bytes(FILES[name])
    mesh = tb.load_mesh(tmp_path / name)
    assert_close(mesh.volume, 1.0)
    assert_close(mesh.center, (0.75, 1.0, -0.75))
    assert mesh.notes == ()


def test_binary_stl_is_read_as_trimesh_reads_it(tmp_path):
    """Vertices in bits and faces in order, of a shape whose coordinates are rounded."""
    import trimesh

    rng = np.random.default_rng(4)
    content = binary_stl(rng.normal(size=(50, 3)), rng.integers(0, 50, size=(30, 3)))
    path = tmp_path / "shape.stl"
    path.write_bytes(content)
    vertices, faces = read_triangles(path)
    peer = trimesh.load_mesh(path, process=False)
    assert vertices.dtype == np.float64
    assert np.array_equal(vertices, peer.vertices)
    assert np.array_equal(faces, peer.faces)


@pytest.mark.parametrize("name", FILES)
def test_simple_formats_are_read_without_trimesh(name, tmp_path, monkeypatch):
    """Which takes most of a second to import, and quadratic time for materials and solids."""
    path = tmp_path / name
    path.write_bytes(FILES[name])
    monkeypatch.setitem(sys.modules, "trimesh", None)
    assert len(read_triangles(path)[1]) == len(solids.CUBE_FACES)


def _soup(vertices, faces):
    """Return triangles in an order of their own, each from its least corner."""
    corners = np.asarray(vertices)[np.asarray(faces)]
    first = [np.lexsort(triangle.T[::-1])[0] for triangle in corners]
    turned = np.stack([np.roll(t, -k, axis=0) for t, k in zip(corners, first, strict=True)])
    return turned[np.lexsort(turned.reshape(len(turned), -1).T[::-1])]


VARIANTS = {
    "slashes.obj": b"v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv .5 .5 1 1 0 0\nvt 0 0\nvn 0 0 1\n"
    b"usemtl a\nf 4/1/1 3/1/1 2/1/1 1/1/1\n g x\nf -1//1 1//1 \\\n 2//1\r\nf 2 3 5\nf 3 4 5\n"
    b"f 4 1 5\n# f 1 2 3\n",
    "solids.stl": text_stl() + b"\n" + text_stl().replace(b"box", b"other").upper(),
    "color.off": b"COFF\n# of a box\n5 5 0\n0 0 0 1 0 0 1\n1 0 0\n1 1 0\n\n0 1 0\n.5 .5 1\n"
    b"4 3 2 1 0\n3 4 0 1 255 0 0\n3 1 2 4\n3 2 3 4\n3 3 0 4\n",
    "big.ply": b"ply\nformat binary_big_endian 1.0\ncomment x\nelement vertex 4\n"
    b"property double x\nproperty uchar red\nproperty double y\nproperty double z\n"
    b"element face 4\nproperty uchar flag\nproperty list uchar uint vertex_index\nend_header\n"
    + b"".join(struct.pack(">dBdd", x, 7, y, z) for x, y, z in np.eye(4, 3, -1))
    + b"".join(
        struct.pack(">BB3I", 1, 3, *f) for f in ([0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2])
    ),
}
"""Files with everything that formats allow."""


@pytest.mark.parametrize("name", VARIANTS)
def test_simple_formats_are_read_as_trimesh_reads_them(name, tmp_path):
    """The same triangles, however they are numbered."""
    import trimesh

    path = tmp_path / name
    path.write_bytes(VARIANTS[name])
    peer = trimesh.load_mesh(path, process=False)
    assert np.array_equal(_soup(*read_triangles(path)), _soup(peer.vertices, peer.faces))


def test_lines_of_obj_files_may_be_indented(tmp_path):
    """As some programs write them; trimesh leaves out such faces."""
    (tmp_path / "box.obj").write_bytes(obj().replace(b"\nf", b"\n \tf").replace(b"\nv", b"\n  v"))
    assert_close(tb.load_mesh(tmp_path / "box.obj").volume, 1.0)


def test_vertices_of_a_file_are_limited(tmp_path, monkeypatch):
    """Also those that no face uses."""
    monkeypatch.setattr(mesh_file, "MAX_VERTICES", 1000)
    (tmp_path / "box.obj").write_bytes(1001 * b"v 0 0 0\n")
    with pytest.raises(tb.ModelFileError, match="500000 triangles, got more"):
        tb.load_mesh(tmp_path / "box.obj")


def test_polygons_of_binary_ply_files_may_differ_in_size(tmp_path):
    """A pyramid of one square and four triangles, with lists of another kind before them."""
    head = (
        "ply\nformat binary_little_endian 1.0\nelement strip 2\nproperty list ushort float a\n"
        "element vertex 5\nproperty float x\nproperty float y\nproperty float z\nelement face 5\n"
        "property list uchar int vertex_indices\nend_header\n"
    )
    corners = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0.5, 0.5, 1)]
    faces = [(3, 2, 1, 0), (4, 0, 1), (4, 1, 2), (4, 2, 3), (4, 3, 0)]
    content = head.encode() + struct.pack("<HHff", 0, 2, 1.0, 2.0)
    content += b"".join(struct.pack("<3f", *corner) for corner in corners)
    content += b"".join(struct.pack(f"<B{len(f)}i", len(f), *f) for f in faces)
    (tmp_path / "pyramid.ply").write_bytes(content)
    assert_close(tb.load_mesh(tmp_path / "pyramid.ply").volume, 1.0 / 3.0)


def test_scale_factors_convert_to_meters(tmp_path):
    (tmp_path / "box.stl").write_bytes(FILES["binary.stl"])
    assert_close(tb.load_mesh(tmp_path / "box.stl", 0.001).volume, 1e-9, scale=1e-9)
    mirrored = tb.load_mesh(tmp_path / "box.stl", (-1.0, 2.0, 1.0))
    assert_close(mirrored.volume, 2.0)
    assert_close(mirrored.center, (-0.75, 2.0, -0.75))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("box.stl", b"", "only 0 bytes"),
        ("box.stl", binary_stl()[:-60], r"must have 684 bytes by its own count, got 624"),
        ("box.stl", binary_stl(faces=solids.CUBE_FACES[2:]), "4 open edges of 17"),
        ("box.stl", binary_stl() + b"more", r"must have 684 bytes by its own count, got 688"),
        ("box.stl", b"solid x facet normal\nvertex 1 2", "no endsolid, it is truncated"),
        ("box.stl", text_stl().replace(b"vertex", b"corner", 1), "35 vertices, which are not tri"),
        ("box.off", off()[:-40], "of 12 faces, it is truncated"),
        ("box.ply", ply()[:-40], "of 12 elements face, it is truncated"),
        ("box.obj", obj().replace(b"f 1 ", b"f 9 "), "corners must be among the 8 vertices"),
        ("box.obj", b"f 1" + 10**6 * b" 1", "a line of 2000001 bytes"),
        ("box.obj", b"v 0 0\nf 1 2 9", "OBJ|triangles"),
        ("box.ply", b"ply\nformat ascii 1.0\nelement vertex 99999999999\nend_header\n", "PLY|tri"),
        ("box.off", b"OFF\n999999999999 4 0\n", "OFF"),
        ("box.glb", b"glTF" + b"\xff" * 40, "GLB"),
        ("box.fbx", b"x", r"expected a mesh \(.stl, .obj, .ply, .off, .glb, .dae\), got '.fbx'"),
        ("box.dae", b"<COLLADA", r"cannot be read as DAE"),
        (
            "box.dae",
            b'<!DOCTYPE a [<!ENTITY b "c">]><COLLADA>&b;</COLLADA>',
            r"cannot be read as DAE \(DTDForbidden",
        ),
        (
            "box.dae",
            b'<COLLADA xmlns="n"><instance_node/></COLLADA>',
            r"each placed directly, got 0 and instances of nodes",
        ),
    ],
)
def test_damaged_files_are_refused_with_a_message(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(tb.ModelFileError, match=message) as caught:
        tb.load_mesh(tmp_path / name)
    assert caught.value.file == str(tmp_path / name)


def test_absent_and_large_files_are_refused(tmp_path, monkeypatch):
    with pytest.raises(tb.ModelFileError, match="no such file"):
        tb.load_mesh(tmp_path / "none.stl")
    monkeypatch.setattr(mesh_file, "FILE_BYTES", 600)
    (tmp_path / "box.stl").write_bytes(FILES["binary.stl"])
    with pytest.raises(tb.ModelFileError, match="a mesh file may have 0 MB, got more; simplify"):
        tb.load_mesh(tmp_path / "box.stl")


def damaged(content, rng):
    """One to four damages of bytes."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(data) or 1)
        kind = rng.randrange(4)
        if kind == 0:
            data[start : start + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            del data[start:]
        elif kind == 2:
            del data[start : start + rng.randrange(200)]
        else:
            strange = [b"9" * 20, b"-1", b"nan", b"1e999", b"\xff\xff\xff\xff", b"\0"]
            data[start : start + 1] = rng.choice(strange)
    return bytes(data)


@pytest.mark.parametrize("name", FILES)
def test_damaged_files_give_a_solid_or_a_clear_error(name, tmp_path):
    """Two hundred damaged files of each format; whatever loads has a volume."""
    rng = random.Random(7)
    path = tmp_path / f"file.{name.rpartition('.')[2].lower()}"
    messages = []
    for _ in range(200):
        path.write_bytes(damaged(FILES[name], rng))
        try:
            mesh = tb.load_mesh(path)
        except tb.ModelFileError as error:
            messages.append(error.problem)
        else:
            assert mesh.volume > 0.0
            assert np.isfinite(mesh.vertices).all()
    # most damage opens the surface; some only moves a corner
    assert 20 < len(messages) <= 200
    assert max(map(len, messages)) < 400


_ACCESSORS = [
    {"count": 12, "componentType": 5126, "type": "VEC3"},
    {"count": 12, "componentType": 5125, "type": "SCALAR"},
]
_PRIMITIVE = [{"attributes": {"POSITION": 0}, "indices": 1}]


def _glb(**changes):
    """Return a binary glTF file of one mesh whose numbers are zeros that are not in the file."""
    header = {
        "asset": {"version": "2.0"},
        "buffers": [{"byteLength": 4}],
        "accessors": _ACCESSORS,
        "meshes": [{"primitives": _PRIMITIVE}],
        "nodes": [{"mesh": 0}],
        "scenes": [{"nodes": [0]}],
        "scene": 0,
        **changes,
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<II", len(text), 0x4E4F534A) + text
    chunks += struct.pack("<II", 4, 0x004E4942) + bytes(4)
    return struct.pack("<III", 0x46546C67, 2, 12 + len(chunks)) + chunks


def test_small_files_do_not_allocate_gigabytes(tmp_path):
    """Zeros that are not in the file, and copies of one mesh, count before they are made."""
    many = 3 * 10**8
    accessors = [
        {"count": many, "componentType": 5126, "type": "VEC3"},
        {"count": many, "componentType": 5125, "type": "SCALAR"},
    ]
    nodes = [{"mesh": 0}] * 200_000
    for name, changes in (("zeros", {"accessors": accessors}), ("copies", {"nodes": nodes})):
        file = tmp_path / f"{name}.glb"
        file.write_bytes(_glb(**changes))
        assert len(file.read_bytes()) < 4e6
        with pytest.raises(tb.ModelFileError, match=r"4 to 500000 triangles, got data for \d+"):
            tb.load_mesh(file)
    # a small one gets as far as its triangles, which enclose nothing
    (tmp_path / "small.glb").write_bytes(_glb())
    with pytest.raises(tb.ModelFileError) as caught:
        tb.load_mesh(tmp_path / "small.glb")
    assert "got numbers for" not in str(caught.value)


def _dae(parts=1, places=1, indices="0 2 1 0 1 3 0 3 2 1 2 3", more=""):
    """Return a Collada file of one mesh, with several parts and places."""
    node = '<node><instance_geometry url="#g"/></node>'
    part = (
        f'<triangles count="4"><input semantic="VERTEX" source="#w"/><p>{indices}</p></triangles>'
    )
    return (
        '<COLLADA xmlns="n"><library_geometries><geometry id="g"><mesh>'
        f"{parts * part}</mesh></geometry></library_geometries>{more}<library_visual_scenes>"
        f"{places * node}</library_visual_scenes></COLLADA>"
    ).encode()


ABSURD = {
    "parts.glb": (_glb(meshes=[{"primitives": 600 * _PRIMITIVE}]), "up to 1000 parts"),
    "nodes.glb": (_glb(nodes=[{"mesh": 0}, *(10_000 * [{}])]), "10000 nodes, got 2 and 10001"),
    "values.glb": (
        _glb(accessors=[*_ACCESSORS, *(50 * [{"count": 10**6, "type": "MAT4"}])]),
        "800000048 values",
    ),
    "sparse.glb": (
        _glb(accessors=[{**_ACCESSORS[0], "sparse": {}}, _ACCESSORS[1]]),
        "sparse accessors are not supported",
    ),
    "text.glb": (_glb(extras=5 * 10**6 * "x"), "a description of 50"),
    "parts.dae": (_dae(parts=10, places=100), "up to 1000 parts"),
    "indices.dae": (_dae(places=150, indices=50_000 * "0 "), "500000 triangles, got 7500150 ind"),
    "tags.dae": (_dae(more=500_000 * "<a/>"), "more than 200000 elements"),
    "lists.ply": (
        b"ply\nformat binary_little_endian 1.0\nelement x 1000000\n"
        + 20 * b"property list uchar uchar a\n"
        + b"element vertex 1\nelement face 1\nend_header\n",
        "more than 10000000 lists",
    ),
    "header.ply": (b"ply\n" + 20_000 * b"comment\n" + b"end_header\n", "no header"),
    "polygon.obj": (
        b"v 0 0 0\n" + 10 * (b"f" + 90_000 * b" 1" + b"\n"),
        "500000 triangles, got more",
    ),
    "count.ply": (
        b"ply\nformat ascii 1.0\nelement vertex 2000000\nelement face 4\nend_header\n",
        "2000000 elements vertex",
    ),
}
"""Files that would take long, or much memory, and the message."""


@pytest.mark.parametrize("name", ABSURD)
def test_what_takes_long_is_counted_before(name, tmp_path, monkeypatch):
    """Other packages do not get files that they would read in quadratic time."""
    monkeypatch.setitem(sys.modules, "trimesh", None)
    content, message = ABSURD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(tb.ModelFileError, match=message):
        tb.load_mesh(tmp_path / name)


def test_meshes_in_binary_gltf_are_read(tmp_path):
    """A box of known volume, as another program writes it."""
    import trimesh

    box = trimesh.creation.box((1.0, 2.0, 3.0))
    (tmp_path / "box.glb").write_bytes(box.export(file_type="glb"))
    assert tb.load_mesh(tmp_path / "box.glb").volume == pytest.approx(6.0, rel=1e-6)


DAE = """<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><created>2026-01-01T00:00:00</created><modified>2026-01-01T00:00:00</modified>
<unit name="cm" meter="0.01"/><up_axis>Y_UP</up_axis></asset>
<library_geometries><geometry id="g" name="g"><mesh>
<source id="v"><float_array id="a" count="12">0 0 0 60 0 0 0 60 0 0 0 60</float_array>
<technique_common><accessor source="#a" count="4" stride="3"><param name="X" type="float"/>
<param name="Y" type="float"/><param name="Z" type="float"/></accessor></technique_common></source>
<vertices id="w"><input semantic="POSITION" source="#v"/></vertices>
<triangles count="4"><input semantic="VERTEX" source="#w" offset="0"/>
<p>0 2 1 0 1 3 0 3 2 1 2 3</p></triangles></mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene id="s"><node id="n">
<matrix>1 0 0 100 0 1 0 0 0 0 1 0 0 0 0 1</matrix><instance_geometry url="#g"/></node>
</visual_scene></library_visual_scenes>
<scene><instance_visual_scene url="#s"/></scene></COLLADA>"""


def test_collada_meshes_are_read_in_meters(tmp_path):
    """The unit of the file and places of its nodes count; the axis that it calls up does not."""
    pytest.importorskip("collada", reason="pip install 'tiburon[collada]'")
    file = tmp_path / "corner.dae"
    file.write_text(DAE)
    mesh = tb.load_mesh(file)
    assert mesh.volume == pytest.approx(0.6**3 / 6.0)
    np.testing.assert_allclose(mesh.vertices.max(axis=0), (1.6, 0.6, 0.6))


def test_collada_without_its_reader_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "collada", None)
    file = tmp_path / "corner.dae"
    file.write_text(DAE)
    with pytest.raises(tb.MissingExtraError, match=r"pip install 'tiburon\[collada\]'"):
        tb.load_mesh(file)
