"""Drag of boxes, ellipsoids and cylinders against dense quadrature of the drag integral."""

import numpy as np
import pytest

import tiburon as tb
from tests.hydro.wet import SEAS, OnFloats, OnGraph
from tests.model.samples import random_pose
from tests.tolerances import assert_close

RHO = 1000.0
STILL = (0.0, 0.0, 0.0)

FLOWS = {
    "shear": (
        # wide enough for all places that are drawn
        tb.LinearShear((0.9, 0.4, 0.2), 12.0, surface=6.0),
        lambda t, x: np.multiply.outer((0.9, 0.4, 0.2), 0.5 + x[2] / 12.0),
    ),
    "wave": (SEAS["wave"].water.current, SEAS["wave"].flow),
}
"""A current, and its velocity at many places."""


def craft(drag):
    """A free body on which water acts by drag alone."""
    inertia = tb.Inertia(1.0, (0, 0, 0), (0.1, 0.2, 0.25))
    return tb.Model(
        "craft",
        [
            tb.Body(
                "hull", joint=tb.Free("float"), inertia=inertia, fluid=tb.BodyFluid(drag=(drag,))
            )
        ],
    )


def drag_of(model, q, v, water):
    """What water does to the body about its origin in body axes, [n; f]."""
    return np.array(tuple(OnFloats(model, STILL, water).external(q, v)[0]), dtype=float)


def cells(disk, count):
    """Places on the unit square or disk and their weights: sums are means over the area."""
    side = (np.arange(count) + 0.5) / count
    if disk:
        # rings of equal width, which the rim does not cut, and turns
        radius, turn = np.meshgrid(side, 2.0 * np.pi * side, indexing="ij")
        return radius * np.cos(turn), radius * np.sin(turn), 2.0 * radius / count**2
    a, b = np.meshgrid(2.0 * side - 1.0, 2.0 * side - 1.0, indexing="ij")
    return a, b, np.full_like(a, 1.0 / count**2)


def dense(drag, q, v, flow):
    """The integral of -1/2 rho C |u_n| u_n over the three middle sections, to about 1e-8.

    Many cells, and Richardson's extrapolation of their error, which goes with their size squared.
    """
    coarse, fine = (_by_cells(drag, q, v, flow, count) for count in (120, 240))
    return fine + (fine - coarse) / 3.0


def _by_cells(drag, q, v, flow, count):
    disk = isinstance(drag, tb.EllipsoidDrag)
    halves = np.array(drag.radii if disk else drag.size) * (1.0 if disk else 0.5)
    R, center = np.array(drag.pose.rotation), np.array(drag.pose.translation)
    a, b, weight = (x.ravel() for x in cells(disk, count))
    w, x, y, z = q[:4]
    turn = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    total = np.zeros(6)
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        area = (np.pi if disk else 4.0) * halves[i] * halves[j]
        places = center + np.outer(a * halves[i], R[:, i]) + np.outer(b * halves[j], R[:, j])
        water = np.array(flow(0.0, (q[4:7] + places @ turn.T).T)).T @ turn
        u = (v[3:] + np.cross(v[:3], places) - water) @ R[:, k]
        f = -0.5 * RHO * drag.coefficients[k] * area * weight * np.abs(u) * u
        total[3:] += f.sum() * R[:, k]
        total[:3] += np.cross(places, np.outer(f, R[:, k])).sum(0)
    return total


def random_case(kind, seed):
    """A solid anywhere in its body, in any place and attitude, in translation and rotation."""
    rng = np.random.default_rng(seed)
    drag = kind(rng.uniform(0.1, 0.9, 3), rng.uniform(0.5, 1.5, 3), random_pose(rng))
    quaternion = rng.normal(size=4)
    q = np.array([*(quaternion / np.linalg.norm(quaternion)), *rng.normal(size=3)])
    return drag, q, rng.normal(size=6) * np.repeat((2.0, 0.3), 3)


@pytest.mark.parametrize("kind", [tb.BoxDrag, tb.EllipsoidDrag])
@pytest.mark.parametrize("seed", range(3))
def test_drag_in_a_uniform_flow_is_the_integral_over_the_sections(kind, seed):
    drag, q, v = random_case(kind, seed)
    current = np.array([0.2, -0.1, 0.3])
    model, water = craft(drag), tb.Water(RHO, tuple(current))
    expected = dense(drag, q, v, lambda t, x: np.repeat(current[:, None], x.shape[1], 1))
    assert_close(drag_of(model, q, v, water), expected, 1e-7, scale=np.abs(expected).max())


def test_drag_of_a_turning_plate_and_disk_in_closed_form():
    """About an axis through the middle: 1/2 rho C w |w| times the integral of |x|^3."""
    w, a, b = 1.7, 0.4, 0.3
    v = np.array([w, 0.0, 0.0, 0.0, 0.0, 0.0])
    q = np.array([1.0, 0, 0, 0, 0, 0, 0])
    plate = tb.BoxDrag((2 * b, 2 * a, 1e-30), (0.0, 0.0, 1.2))
    disk = tb.EllipsoidDrag((b, a, 1e-30), (0.0, 0.0, 1.2))
    for solid, integral in ((plate, b * a**4), (disk, 8.0 / 15.0 * b * a**4)):
        found = drag_of(craft(solid), q, v, tb.Water(RHO))
        expected = -0.5 * RHO * 1.2 * integral * w**2
        assert_close(found, [expected, 0, 0, 0, 0, 0], 1e-14, scale=abs(expected))


@pytest.mark.parametrize("kind", [tb.BoxDrag, tb.EllipsoidDrag])
def test_drag_has_no_jump_where_one_slope_vanishes(kind):
    """Rates from 1 down to 1e-300 of another, against the limit of none, in all orders."""
    drag = kind((0.5, 0.4, 0.3))
    q = np.array([1.0, 0, 0, 0, 0, 0, 0])
    for order in np.array([[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 2, 1]]):
        for through in (0.0, 0.2):
            found = {}
            for size in (0.0, 1e-300, 1e-160, 1e-20, 1e-12, 1e-9):
                v = np.array([*np.array([1.0, size, -size])[order], through, -through, through])
                found[size] = drag_of(craft(drag), q, v, tb.Water(RHO))
            for size, force in found.items():
                # forces are smooth in rates, of slope about one
                assert_close(force, found[0.0], 1e-13 + 10 * size, scale=100.0)


@pytest.mark.parametrize("kind", [tb.BoxDrag, tb.EllipsoidDrag])
@pytest.mark.parametrize("sea", ["shear", "wave"])
def test_drag_in_a_varying_flow_converges_with_strips(kind, sea):
    """Flows that are linear in space are exact with three strips or more; waves converge."""
    current, flow = FLOWS[sea]
    for seed in range(2):
        drag, q, v = random_case(kind, seed)
        model = craft(drag)
        expected = dense(drag, q, v, flow)
        errors = []
        for strips in (4, 16):
            sea_now = tb.Water(RHO, current, strips=strips)
            error = np.abs(drag_of(model, q, v, sea_now) - expected).max()
            errors.append(error / np.abs(expected).max())
        # the expected values are good to about 1e-8
        assert errors[1] < 1e-7
        assert errors[0] < (1e-7 if sea == "shear" else 3e-6)


@pytest.mark.parametrize("kind", [tb.BoxDrag, tb.EllipsoidDrag])
def test_number_of_strips_matters_in_curved_flow(kind):
    """A jet narrower than the body: few points miss it, more find it."""
    drag, q, v = random_case(kind, 11)

    def jet(t, x):
        size = np.exp(-10.0 * (x[0] - q[4]) ** 2)
        return (0.7 * size, -0.9 * size, 0.4 * size)

    expected = dense(drag, q, v, jet)
    errors = [
        np.abs(drag_of(craft(drag), q, v, tb.Water(RHO, jet, strips=n)) - expected).max()
        for n in (2, 12, 40)
    ]
    scale = np.abs(expected).max()
    assert errors[0] > 1e-2 * scale
    assert errors[1] < 3e-3 * scale
    assert errors[2] < 2e-4 * scale


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("kind", [tb.BoxDrag, tb.EllipsoidDrag])
@pytest.mark.parametrize("sea", ["stream", "wave"])
def test_traced_drag_has_the_derivative_of_differences(kind, sea):
    """Also at states with one rate, or none, where closed forms have their special cases."""
    drag, q, v = random_case(kind, 5)
    model, water = craft(drag), SEAS[sea].water
    on_graph = OnGraph(model, STILL, water)
    states = [v]
    if sea == "stream":
        flow = np.array(water.current)
        still = np.array([1.0, 0, 0, 0, *q[4:]])
        q = still if kind is tb.BoxDrag else q
        states += [v * [0, 1, 0, 0, 0, 0], v * [0, 0, 0, 1, 1, 1], np.array([0, 0, 0, *flow])]
    for state in states:
        found = tb.inverse_dynamics_derivatives(model, q, state, np.zeros(6), fluid=water)
        h = 1e-6
        for k in range(6):
            step = np.eye(6)[k] * h
            high, low = (
                on_graph.inverse_dynamics(q, state + x, np.zeros(6)) for x in (step, -step)
            )
            # the second derivative jumps by about rho where a flow changes sign: h rho at rest
            assert_close(found.by_v[:, k], (high - low) / (2 * h), h, scale=RHO)


def test_faces_of_a_cylinder_use_the_local_flow():
    """A current that grows along the axis, against both faces: each has its own speed."""
    C, r, length = (0.8, 0.5), 0.1, 1.5
    rod = tb.CylinderDrag(r, length, 0.0, C, (-0.5, 0, 0), (1, 0, 0))
    q = np.array([1.0, 0, 0, 0, 0.3, 0.2, 0.1])
    factor = 0.5 * RHO * np.pi * r**2

    def stream(t, x):
        return (0.4 - 0.9 * x[0], 0.0 * x[0], 0.0 * x[0])

    first, other = (0.4 - 0.9 * (0.3 + s) for s in (-0.5, 1.0))
    for speed in (0.0, 1.5, -1.5):
        u = np.array([speed - first, speed - other])
        force = C[0] * factor * min(u[0], 0.0) ** 2 - C[1] * factor * max(u[1], 0.0) ** 2
        v = np.array([0, 0, 0, speed, 0, 0])
        found = drag_of(craft(rod), q, v, tb.Water(RHO, stream))
        assert_close(found, [0, 0, 0, force, 0, 0], 1e-13)
    # between the ends of the flow's zero both faces meet it, at 0.83 and 0.53 m/s from either side
    assert first > 0.0 > other


@pytest.mark.parametrize("ends", [(0.8, 0.8), (0.8, 0.3)])
@pytest.mark.parametrize("seed", range(4))
def test_cylinders_in_a_varying_flow_converge_to_the_integral(ends, seed):
    """Side and faces at any attitude in waves, against many strips summed by hand."""
    rng = np.random.default_rng(seed)
    water, flow = SEAS["wave"]
    axis = rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    start, r, length = rng.normal(size=3), 0.1, 3.0
    rod = tb.CylinderDrag(r, length, 1.1, ends, start, axis)
    q, v = np.array([1.0, 0, 0, 0, 0.4, -0.7, 25.0]), rng.normal(size=6)

    def relative(place):
        return v[3:] + np.cross(v[:3], place) - flow(0.0, q[4:] + place)

    count = 4000
    places = start + np.outer((np.arange(count) + 0.5) / count * length, axis)
    u = v[3:] + np.cross(v[:3], places) - np.array(flow(0.0, (q[4:] + places).T)).T
    u = u - np.outer(u @ axis, axis)
    f = -RHO * 1.1 * r * length / count * np.linalg.norm(u, axis=1, keepdims=True) * u
    expected = np.concatenate([np.cross(places, f).sum(axis=0), f.sum(axis=0)])
    for place, outward, C in ((start, -axis, ends[0]), (start + length * axis, axis, ends[1])):
        f = -0.5 * RHO * C * np.pi * r**2 * max(outward @ relative(place), 0.0) ** 2 * outward
        expected += [*np.cross(place, f), *f]
    for split in (False, True):
        sea = tb.Water(RHO, water.current, strips=30, split_strips=split)
        found = drag_of(craft(rod), q, v, sea)
        assert_close(found, expected, 1e-6, scale=np.abs(expected).max())


def test_split_strips_follow_a_flow_that_varies():
    """A linear shear that changes sign along the rod: four strips are off, split ones exact."""
    rod = tb.CylinderDrag(0.1, 1.0, axis=(1, 0, 0))
    q = np.array([1.0, 0, 0, 0, 0, 0, 0])

    def shear(t, x):
        return (0.0 * x[0], 0.7 * (x[0] - 0.37), 0.0 * x[0])

    exact = RHO * 0.1 * 0.7**2 * (0.63**3 - 0.37**3) / 3.0
    found = [
        drag_of(craft(rod), q, np.zeros(6), tb.Water(RHO, shear, split_strips=split))[4]
        for split in (False, True)
    ]
    assert abs(found[0] - exact) > 1e-3 * exact
    assert_close(found[1], exact, 1e-13)
