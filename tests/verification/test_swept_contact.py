"""Bodies that would cross each other within a step: bullets, thin plates, near misses, rods."""

import numpy as np
import pytest

import tiburon as tb
from tests.contact.geometry.cases import random_shape, tuples
from tiburon.contact.geometry.contact_geometry import Placed
from tiburon.contact.geometry.pairs import pair
from tiburon.contact.geometry.swept import Crossing, _Motion, swept_contacts
from tiburon.spatial import axis_angle_to_matrix, quaternion_to_matrix

STILL = tb.World(gravity=(0.0, 0.0, 0.0))


def ball(name, radius=0.005, mass=0.01, material=None):
    inertia = tb.Inertia(mass, (0, 0, 0), 0.4 * mass * radius**2 * np.eye(3))
    shapes = (tb.Shape(tb.SphereShape(radius), material=material),)
    return tb.Body(name, "world", joint=tb.Free(name), inertia=inertia, shapes=shapes)


def plate(joint=None, material=None):
    inertia = tb.Inertia(1.0, (0, 0, 0), 0.01 * np.eye(3))
    joint = joint or tb.Fixed("plate")
    material = material or tb.ContactMaterial(0.3)
    shapes = (tb.Shape(tb.BoxShape((0.002, 0.2, 0.2)), material=material),)
    return tb.Body("plate", "world", joint=joint, inertia=inertia, shapes=shapes)


def shot(bodies, q, v, duration=0.01, pairs=None):
    model = tb.Model("range", bodies)
    pairs = pairs or [(bodies[0].name, bodies[1].name)]
    return tb.simulate(
        model,
        duration,
        q=q,
        v=v,
        world=STILL,
        method=tb.RK4(dt=1e-3),
        contact=tb.DefaultContact(pairs=pairs),
    )


@pytest.mark.parametrize("distance", [0.0, 0.05, 0.11, 0.149, 0.25])
def test_a_fast_ball_stops_at_a_thin_plate(distance):
    """300 m/s against 2 mm, wherever in the step it arrives; it stays on the plate's surface."""
    q = [1, 0, 0, 0, -0.006 - 1e-6 - distance, 0.01, 0.02]
    run = shot([ball("ball"), plate()], q, [0, 0, 0, 300.0, 0, 0])
    assert run.status == "finished"
    np.testing.assert_allclose(run.q[-1, 4:], [-0.006, 0.01, 0.02], atol=1e-9)
    np.testing.assert_allclose(run.v[-1, 3:], 0.0, atol=1e-7)
    assert run.contact_summary().depth.max() < 1e-9


def test_a_fast_ball_bounces_where_it_arrives():
    """With e = 1/2, halfway through a step: the rest of the step at half the speed."""
    bouncy = tb.ContactMaterial(0.0, restitution=0.5)
    wall = plate(material=bouncy)
    q = [1, 0, 0, 0, -0.006 - 0.15, 0.0, 0.0]
    run = shot([ball("ball", material=bouncy), wall], q, [0, 0, 0, 300.0, 0, 0], duration=0.002)
    np.testing.assert_allclose(run.v[-1, 3], -150.0, rtol=1e-9)
    np.testing.assert_allclose(run.q[-1, 4], -0.006 - 1.5 * 150.0 * 1e-3, rtol=1e-6)


@pytest.mark.parametrize("miss", [0.001, 1e-6])
def test_a_fast_ball_that_misses_the_edge_passes_undisturbed(miss):
    """Beside the edge of the plate: not one bit of its velocity changes."""
    q = [1, 0, 0, 0, -0.1, 0.1 + 0.005 + miss, 0.0]
    v = [0, 0, 0, 300.0, 0, 0]
    run = shot([ball("ball"), plate()], q, v)
    assert np.array_equal(run.v, np.tile(v, (len(run.v), 1)))
    np.testing.assert_allclose(run.q[-1, 4], -0.1 + 3.0, rtol=1e-12)
    q[5] -= miss + 0.001
    assert shot([ball("ball"), plate()], q, v).v[-1, 3] != 300.0


def test_spinning_ball_on_a_skew_path_hits_the_target_point():
    """Against a plate that is turned in space: where its course meets the plate's surface."""
    axis = np.array([0.3, -0.5, 0.8]) / np.linalg.norm([0.3, -0.5, 0.8])
    R = np.array(axis_angle_to_matrix(tuple(axis), 0.7))
    fixed = tb.Fixed("plate", pose=tb.Pose(tuples(R), (0.0, 0.0, 0.0)))
    n, course = R[:, 0], R @ np.array([1.0, 0.3, -0.2])
    at = R @ np.array([-0.006, 0.02, -0.03])
    q = np.array([1, 0, 0, 0, *(at - 0.21 * course)])
    run = shot(
        [ball("ball"), plate(fixed, tb.ContactMaterial(0.0))],
        q,
        [4.0, -2.0, 30.0, *(300.0 * course)],
        0.001,
    )
    # the normal velocity ends, the tangential one stays
    after = np.array(quaternion_to_matrix(tuple(run.q[-1, :4]))) @ run.v[-1, 3:]
    np.testing.assert_allclose(after, 300.0 * (course - n * (course @ n)), atol=1e-6)
    assert abs(n @ run.q[-1, 4:] + 0.006) < 1e-3
    run = run.resume(0.001)
    assert abs(n @ run.q[-1, 4:] + 0.006) < 1e-3


def test_fast_small_balls_hit_each_other_as_in_closed_form():
    """Off-center without friction: the velocities along the line of centers are exchanged."""
    smooth = tb.ContactMaterial(0.0, restitution=1.0)
    bodies = [ball("a", material=smooth), ball("b", material=smooth)]
    offset = 0.006
    q = [1, 0, 0, 0, -0.1, 0, 0, 1, 0, 0, 0, 0.11, offset, 0.0]
    v = [0, 0, 0, 250.0, 0, 0, 0, 0, 0, -250.0, 0, 0]
    run = shot(bodies, q, v, duration=0.001)
    n = np.array([np.sqrt(0.01**2 - offset**2), offset, 0.0]) / 0.01
    a, b = np.array([250.0, 0, 0]), np.array([-250.0, 0, 0])
    exchanged = (b - a) @ n * n
    np.testing.assert_allclose(run.v[-1, 3:6], a + exchanged, atol=1e-3)
    np.testing.assert_allclose(run.v[-1, 9:12], b - exchanged, atol=1e-3)
    q[12] = 0.01 + 1e-5
    assert np.array_equal(shot(bodies, q, v, duration=0.001).v[-1], v)


def test_a_fast_turning_rod_does_not_cross_a_thin_bar():
    """A rod of 1 m that sweeps 0.5 rad a step meets a bar of 4 mm in its way."""
    rod = tb.Body(
        "rod",
        "world",
        joint=tb.Revolute("hinge", axis=(0, 0, 1)),
        inertia=tb.Inertia(1.0, (0.5, 0, 0), np.diag([1e-4, 0.09, 0.09])),
        shapes=(
            tb.Shape(
                tb.CapsuleShape(0.002, 0.9),
                tb.Pose(((0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (-1.0, 0.0, 0.0)), (0.5, 0, 0)),
            ),
        ),
    )
    bar = tb.Body(
        "bar",
        "world",
        joint=tb.Fixed("bar"),
        inertia=tb.Inertia(1.0, (0, 0, 0), 0.01 * np.eye(3)),
        shapes=(tb.Shape(tb.CapsuleShape(0.002, 0.2), tb.Pose(translation=(0.5, 0.3, 0.0))),),
    )
    run = shot([rod, bar], [0.1], [500.0], duration=0.01)
    # the rod lies against the bar: distance of the bar from its axis is 4 mm
    angle = np.arctan2(0.3, 0.5) - np.arcsin(0.004 / np.hypot(0.3, 0.5))
    # the path of the rod's center is a cubic: off its arc by 0.5^4 / 384 of 0.5 m
    np.testing.assert_allclose(run.q[-1, 0], angle, atol=1e-4)
    assert abs(run.v[-1, 0]) < 1e-6


@pytest.mark.parametrize("kinds", ["sphere-box", "box-box", "capsule-capsule", "sphere-ellipsoid"])
def test_first_contact_is_where_fine_sampling_finds_it(kinds):
    """Random shapes that move and turn: no sample before it overlaps, and it touches."""
    rng = np.random.default_rng(8)
    first, second = kinds.split("-")
    narrow = pair(first, second)
    hits = 0
    for _ in range(12):
        shapes = [random_shape(rng, kind) for kind in (first, second)]
        starts, ends = [], []
        for k, shape in enumerate(shapes):
            turn = 0.5 * rng.standard_normal(3)
            D = np.array(axis_angle_to_matrix(tuple(turn / np.linalg.norm(turn)),
                                              float(np.linalg.norm(turn))))  # fmt: skip
            place = np.array([2.0 * k - 1.0, 0, 0]) + 0.2 * rng.standard_normal(3)
            target = place + np.array([3.0 - 6.0 * k, 0, 0]) + 0.2 * rng.standard_normal(3)
            starts.append(Placed(shape.rotation, tuples(place), shape.size))
            ends.append(Placed(tuples(D @ np.array(shape.rotation)), tuples(target), shape.size))
        crossing = Crossing(*zip(starts, ends, strict=True), (first, second))
        speeds = tuple(
            tuple(tuples(np.subtract(b.position, a.position) + 0.3 * rng.standard_normal(3))
                  for _ in range(2))
            for a, b in zip(starts, ends, strict=True)
        )  # fmt: skip
        touches, s, contacts = swept_contacts(crossing, speeds, narrow)
        motions = [_Motion(a, b, *c) for a, b, c in zip(starts, ends, speeds, strict=True)]
        gaps = [
            min(c.gap for c in narrow.function(*(m.at(x) for m in motions)))
            for x in np.linspace(0.0, 1.0, 401)
        ]
        overlapping = np.flatnonzero(np.array(gaps) < 0.0)
        assert bool(touches) == bool(len(overlapping)) or min(gaps) < 1e-3
        if len(overlapping):
            hits += 1
            assert s <= overlapping[0] / 400
            assert s > (overlapping[0] - 1) / 400 - 1e-9
            assert -1e-9 < min(c.gap for c in contacts) < 1e-7
    assert hits > 3
