"""Distances of coal and MuJoCo at random poses, live."""

import numpy as np
import pytest

from tests.contact.geometry.cases import NAMES as ALL_NAMES
from tests.contact.geometry.cases import POLYHEDRA, random_pair
from tests.tolerances import assert_close
from tiburon.contact.geometry.box_box import FACE_PREFERENCE
from tiburon.contact.geometry.pairs import pair

NAMES = [name for name in ALL_NAMES if "field" not in name]

pytestmark = pytest.mark.slow

ITERATIVE = 2e-6
"""Both codes find distances of general convex shapes by iteration, to about 1e-6 m."""

NORMAL = 1e-2
"""A distance that is off by e leaves its normal off by sqrt(2 e / (r1 + r2 + gap)), with radii of
curvature r; their sum is above 0.05 m here."""

CASES = 200

ROUNDED = {"sphere", "capsule"}
"""Kinds whose depth of overlap coal finds without iteration, as against planes."""


def coal_shape(coal, kind, size):
    makers = {
        "sphere": coal.Sphere,
        "capsule": coal.Capsule,
        "cylinder": coal.Cylinder,
        "box": coal.Box,
        "ellipsoid": coal.Ellipsoid,
    }
    if kind == "plane":
        return coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0)
    vertices = POLYHEDRA.rows[int(size[0]) : int(size[0] + size[1])] if len(size) == 8 else None
    if kind == "hull":
        points = coal.StdVec_Vec3s()
        for vertex in vertices:
            points.append(vertex)
        return coal.ConvexBase.convexHull(points, True, "Qt")
    if kind == "rod":
        return coal.Capsule(size[5], float(np.ptp(vertices, axis=0)[2]))
    if kind == "ball":
        return coal.Sphere(size[5])
    return makers[kind](*size)


def coal_distance(coal, name, one, two):
    shapes = [coal_shape(coal, k, s.size) for k, s in zip(name.split("-"), (one, two), strict=True)]
    places = [coal.Transform3s(np.array(s.rotation), np.array(s.position)) for s in (one, two)]
    result = coal.DistanceResult()
    request = coal.DistanceRequest()
    request.enable_signed_distance = True
    gap = coal.distance(shapes[0], places[0], shapes[1], places[1], request, result)
    return gap, np.array(result.normal)


def geom(kind, shape):
    size = shape.size
    numbers = {
        "sphere": size,
        "capsule": (size[0], 0.5 * size[1]) if len(size) == 2 else (),
        "cylinder": (size[0], 0.5 * size[1]) if len(size) == 2 else (),
        "box": tuple(0.5 * x for x in size),
        "ellipsoid": size,
        "plane": (1.0, 1.0, 1.0),
    }[kind]
    R = np.array(shape.rotation)
    return (
        f'<body pos="{" ".join(map(repr, shape.position))}" '
        f'xyaxes="{" ".join(map(repr, [*R[:, 0].tolist(), *R[:, 1].tolist()]))}">'
        f'<geom type="{kind}" size="{" ".join(map(repr, numbers))}"/></body>'
    )


def mujoco_distance(mujoco, name, one, two):
    bodies = "".join(geom(k, s) for k, s in zip(name.split("-"), (one, two), strict=True))
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return mujoco.mj_geomDistance(model, data, 0, 1, 10.0, np.zeros(6))


def touching(name, one, two):
    """Return our contact of smallest gap."""
    return min(pair(*name.split("-")).function(one, two), key=lambda contact: contact.gap)


@pytest.mark.parametrize("name", NAMES)
def test_gaps_and_normals_agree_with_coal(name):
    """Separated shapes of all kinds, and overlapping ones of rounded kinds and planes."""
    coal = pytest.importorskip("coal", reason="live comparison with coal")
    rng = np.random.default_rng(11)
    (first, second), compared = name.split("-"), 0
    for _ in range(CASES):
        one, two = random_pair(rng, name)
        ours = touching(name, one, two)
        if ours.gap < 1e-3 and not (second == "plane" or {first, second} <= ROUNDED):
            continue
        gap, normal = coal_distance(coal, name, one, two)
        if abs(gap) < 1e-3:
            continue
        assert_close(ours.gap, gap, ITERATIVE)
        assert_close(ours.normal, normal, NORMAL)
        compared += 1
    assert compared > CASES // 5


@pytest.mark.parametrize("name", [name for name in NAMES if "hull" not in name])
def test_gaps_agree_with_mujoco(name):
    """Separated shapes."""
    mujoco = pytest.importorskip("mujoco", reason="live comparison with MuJoCo")
    rng = np.random.default_rng(12)
    compared = 0
    for _ in range(CASES):
        one, two = random_pair(rng, name)
        ours = touching(name, one, two)
        if ours.gap < 1e-3:
            continue
        assert_close(ours.gap, mujoco_distance(mujoco, name, one, two), ITERATIVE)
        compared += 1
    assert compared > CASES // 5


def test_boxes_overlap_where_those_of_coal_do():
    """The smallest gap is minus coal's depth, up to the preference for faces."""
    coal = pytest.importorskip("coal", reason="live comparison with coal")
    rng = np.random.default_rng(13)
    overlaps = 0
    for _ in range(8 * CASES):
        one, two = random_pair(rng, "box-box")
        ours = touching("box-box", one, two)
        gap, _ = coal_distance(coal, "box-box", one, two)
        smallest = min(*one.size, *two.size)
        if gap < 0.0:
            overlaps += 1
            assert ours.gap <= gap + 1e-6
            assert ours.gap >= gap - FACE_PREFERENCE * smallest - 1e-6
        else:
            assert ours.gap >= -1e-9
    assert overlaps > CASES // 2
