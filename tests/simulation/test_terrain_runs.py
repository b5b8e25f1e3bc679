"""Runs on uneven ground: flat grids, tile edges, slopes, rough terrain, the border."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.actuation.rigid_contact import RigidContactElement
from tiburon.simulation.step import StepSource
from tiburon.simulation.system import System
from tiburon.spatial import axis_angle_to_matrix, quaternion_to_matrix

DOG = tb.load("quadruped")
STAND = np.array(DOG.poses["stand"])


@tb.traced
def hold(state):
    forces = [100.0 * (float(a) - q) for a, q in zip(STAND[7:], state.q[7:], strict=True)]
    return [0.0] * 6 + [f - 3.0 * v for f, v in zip(forces, state.v[6:], strict=True)]


def uneven(heights, spacing=0.15, friction=0.8, smooth=False, height=0.0):
    corner = -0.5 * spacing * (len(heights) - 1)
    rows = np.asarray(heights, dtype=float).tolist()
    grid = tb.GroundGrid((spacing, spacing), rows, (corner, corner), smooth)
    return tb.World(ground=tb.Ground(height, grid, static_friction=friction))


def body(shape, mass=1.0, moment=(0.01, 0.012, 0.009)):
    inertia = tb.Inertia(mass, (0, 0, 0), np.diag(moment))
    part = tb.Body(
        "body", "world", joint=tb.Free("body"), inertia=inertia, shapes=(tb.Shape(shape),)
    )
    return tb.Model("thing", [part])


def standing_dog(count):
    rng = np.random.default_rng(3)
    q = np.tile(STAND, (count, 1))
    q[:, 4:6] += 0.5 * rng.uniform(-1.0, 1.0, (count, 2))
    q[:, 6] += 0.06
    return q, 0.3 * rng.standard_normal((count, DOG.nv))


@pytest.mark.parametrize("smooth", [False, True])
def test_a_flat_grid_is_a_plane(smooth):
    """A falling, sliding robot with kicked joints moves the same to 1e-12."""
    q, v = standing_dog(1)
    flat = uneven(np.full((31, 31), 0.1), smooth=smooth, height=-0.1)
    plane = tb.World(ground=tb.Ground(static_friction=0.8))
    # feet have three points on the grid and one on the plane: solved alike to the tolerance only
    runs = [
        tb.simulate(
            DOG,
            0.3,
            q=q[0],
            v=v[0],
            world=world,
            control=hold,
            contact=tb.RigidContact(tolerance=1e-13),
        )
        for world in (flat, plane)
    ]
    np.testing.assert_allclose(runs[0].q, runs[1].q, atol=1e-12)
    assert runs[0].contact_summary().touching.max() > 0.5


@pytest.mark.parametrize("shape", [tb.SphereShape(0.1), tb.BoxShape((0.3, 0.2, 0.2))])
def test_sliding_over_tile_edges_keeps_the_velocity(shape):
    """Without friction on level and tilted coplanar tiles: no impulse along the ground."""
    thing = body(shape)
    slope = np.array([0.2, -0.1])
    x = 0.15 * (np.arange(41) - 20)
    heights = slope[0] * x[:, None] + slope[1] * x[None, :]
    n = np.array([-slope[0], -slope[1], 1.0])
    n /= np.linalg.norm(n)
    # gravity along the normal: on the slope nothing but an edge could change the velocity
    world = tb.World(gravity=tuple(-9.81 * n), ground=uneven(heights, friction=0.0).ground)
    axis = np.cross([0.0, 0.0, 1.0], n)
    angle = np.arcsin(np.linalg.norm(axis))
    w = np.cos(angle / 2)
    xyz = np.sin(angle / 2) * axis / np.linalg.norm(axis)
    q = np.array([w, *xyz, *(0.1 * n)])
    along = np.cross(n, [0.3, 1.0, 0.2])
    along /= np.linalg.norm(along)
    rotation = np.array(axis_angle_to_matrix(tuple(axis / np.linalg.norm(axis)), angle))
    v = np.array([0.0, 0.0, 0.0, *(rotation.T @ (1.7 * along))])
    run = tb.simulate(thing, 1.0, q=q, v=v, world=world, record=tb.Record(dt=0.01))
    speeds = run.v
    np.testing.assert_allclose(speeds, np.tile(v, (len(speeds), 1)), atol=1e-11)
    assert run.contact_summary().touching.max() > 0.9
    assert np.linalg.norm(run.q[-1, 4:] - q[4:]) > 1.6


def test_changed_heights_compile_nothing():
    """Heights, spacing, origin, height of the ground and size of the grid are data."""
    rough = uneven(np.random.default_rng(4).uniform(-0.03, 0.03, (25, 27)), 0.2, 0.3, height=0.02)
    keys = set()
    for world in (uneven(np.zeros((31, 31))), rough):
        system = System(DOG, world, (RigidContactElement.of(DOG, world),), steps=True)
        keys.add(StepSource(system, "rk4").key)
    assert len(keys) == 1
    smooth = uneven(np.zeros((31, 31)), smooth=True)
    system = System(DOG, smooth, (RigidContactElement.of(DOG, smooth),), steps=True)
    assert StepSource(system, "rk4").key not in keys


@pytest.mark.parametrize("smooth", [False, True])
def test_robots_on_rough_terrain_in_a_batch_have_the_bits_of_single_runs(smooth, tmp_path):
    """Also resumed from a file; feet rest on the ground without depth."""
    q, v = standing_dog(5)
    rough = uneven(np.random.default_rng(5).uniform(-0.03, 0.03, (31, 31)), smooth=smooth)
    options = {"world": rough, "control": hold}
    many = tb.simulate(DOG, 0.4, q=q, v=v, execution=tb.Execution(threads=2), **options)
    for case in (0, 3):
        alone = tb.simulate(DOG, 0.4, q=q[case], v=v[case], **options)
        assert np.array_equal(many.q[:, case], alone.q)
        assert np.array_equal(many.z[:, case], alone.z)
    half = tb.simulate(DOG, 0.2, q=q, v=v, **options)
    half.save(tmp_path / "run")
    again = tb.load_run(tmp_path / "run").resume(0.2, control=hold)
    assert np.array_equal(again.q[-1], many.q[-1])
    summary = many.contact_summary()
    assert all(outcome.status == "finished" for outcome in many.outcomes)
    assert summary.touching[0] > 0.3
    assert summary.depth.max() < 1e-6


def test_ball_rests_in_a_valley_with_two_contacts():
    """Forces of two slopes of 45 degrees carry a ball: m g / sqrt(2) each."""
    heights = 0.2 * np.abs(np.arange(21) - 10)[:, None] * np.ones((1, 21))
    world = uneven(heights, spacing=0.2, friction=0.5)
    r = 0.15
    q = np.array([1.0, 0, 0, 0, 0, 0.03, r * np.sqrt(2.0)])
    run = tb.simulate(body(tb.SphereShape(r)), 0.5, q=q, world=world)
    np.testing.assert_allclose(run.q[-1, 4:], q[4:], atol=1e-9)
    force = run.z[-1, :12].reshape(3, 4)[:, :3]
    np.testing.assert_allclose(force.sum(axis=0), [0, 0, 9.81], atol=1e-6)
    assert np.sum(np.linalg.norm(force, axis=1) > 1.0) == 2


def test_leaving_the_terrain_ends_the_run_and_names_the_contact():
    """A ball that slides over the border; the other case of the batch continues."""
    ball = body(tb.SphereShape(0.1))
    world = uneven(np.zeros((11, 11)), friction=0.0)
    q = np.tile([1.0, 0, 0, 0, 0, 0, 0.1], (2, 1))
    v = np.zeros((2, 6))
    v[1, 3] = 5.0
    run = tb.simulate(ball, 0.3, q=q, v=v, world=world)
    assert [outcome.status for outcome in run.outcomes] == ["finished", "diverged"]
    assert "contact 'body/ground' beyond the grid of the ground" in run.outcomes[1].message
    assert "enlarge the grid" in run.outcomes[1].message
    assert 0.14 < run.outcomes[1].time < 0.16
    far = [1.0, 0, 0, 0, 2.0, 0, 0.1]
    message = r"contact point 'body/ground\[0\]' over the grid.*enlarge"
    with pytest.raises(tb.DomainError, match=message):
        tb.contacts(ball, far, world=world)
    with pytest.raises(tb.DomainError, match=message):
        tb.simulate(ball, 0.1, q=far, world=world)


def test_impact_and_lift_out_on_a_slope():
    """A ball on 45 degrees: the normal velocity is reversed by e, and the least way out is n."""
    heights = 0.2 * np.arange(21)[:, None] * np.ones((1, 21))
    world = uneven(heights, spacing=0.2, friction=0.0)
    ball = body(tb.SphereShape(0.1))
    n = np.array([-1.0, 0.0, 1.0]) / np.sqrt(2.0)
    place = np.array([0.03, 0.05, 2.03])
    q = np.array([1.0, 0, 0, 0, *(place + 0.1 * n)])
    after = tb.impact(ball, q, [0, 0, 0, 0.3, 0, -2.0], world=world, restitution=0.5)
    v = np.array([0.3, 0.0, -2.0])
    np.testing.assert_allclose(after.v[3:], v - 1.5 * (v @ n) * n, atol=1e-12)
    deep = q.copy()
    deep[4:] -= 0.02 * n
    np.testing.assert_allclose(tb.lift_out(ball, deep, world=world), q, atol=1e-12)


def test_contact_dynamics_on_a_slope_of_triangles():
    """A ball that slides down a slope of 20 degrees: g (sin - mu cos), as on a plane."""
    angle = np.radians(20.0)
    heights = -np.tan(angle) * 0.2 * (np.arange(21) - 10.0)[:, None] * np.ones((1, 21))
    world = uneven(heights, spacing=0.2, friction=0.05)
    ball = body(tb.SphereShape(0.1), moment=(0.004, 0.004, 0.004))
    n, along = np.array([[np.sin(angle), 0, np.cos(angle)], [np.cos(angle), 0, -np.sin(angle)]])
    q = np.array([1.0, 0, 0, 0, *(0.1 * n + 0.07 * along)])
    now = tb.contact_dynamics(ball, q, [0, 0, 0, *(1.5 * along)], np.zeros(6), world=world)
    expected = 9.81 * (np.sin(angle) - 0.05 * np.cos(angle))
    np.testing.assert_allclose(now.vd[3:], expected * along, atol=1e-9)


def test_a_beam_lies_on_the_ridge_below_it():
    """A capsule across an edge and a box over a peak stay there, balanced by their own weight."""
    ridge = -0.3 * np.abs(np.arange(9) - 4)[:, None] * np.ones((1, 9))
    capsule = body(tb.CapsuleShape(0.05, 0.5), moment=(0.03, 0.03, 0.03))
    q = [np.sqrt(0.5), 0, np.sqrt(0.5), 0, 0, 0.4, 0.05]
    run = tb.simulate(capsule, 0.3, q=q, world=uneven(ridge, spacing=1.0))
    assert run.status == "finished"
    np.testing.assert_allclose(run.q[-1], q, atol=1e-6)
    # a point carries a plate of little weight for a while
    peak = np.zeros((9, 9))
    peak[4, 4] = 0.1
    plate = body(tb.BoxShape((0.4, 0.4, 0.02)), moment=(0.3, 0.3, 0.3))
    q = [1, 0, 0, 0, 0, 0, 0.11]
    run = tb.simulate(plate, 0.2, q=q, world=uneven(peak, spacing=0.25))
    np.testing.assert_allclose(run.q[-1], q, atol=1e-6)


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize(
    ("shape", "height"),
    [(tb.CylinderShape(0.1, 0.3), 0.15), (tb.EllipsoidShape((0.2, 0.15, 0.1)), 0.1)],
)
def test_cylinders_and_ellipsoids_move_on_a_flat_grid_as_on_a_plane(shape, height, smooth):
    """One stands, the other rocks after a kick: to the tolerance of the impulses."""
    thing = body(shape)
    q, v = [1, 0, 0, 0, 0.03, 0.05, height], [0.0, 0.3, 0.1, 0.1, 0.0, 0.0]
    if isinstance(shape, tb.CylinderShape):
        v = [0.0] * 6
    flat = uneven(np.zeros((21, 21)), 0.25, smooth=smooth)
    plane = tb.World(ground=tb.Ground(static_friction=0.8))
    # of two places, one beside the other on the grid
    q = np.array([q, q]) + [[0.0], [1.0]] * np.array([0, 0, 0, 0, 0.11, 0.07, 0])
    runs = [tb.simulate(thing, 0.2, q=q, v=v, world=world) for world in (flat, plane)]
    assert [list(run.status) for run in runs] == [["finished"] * 2] * 2
    np.testing.assert_allclose(runs[0].q[-1], runs[1].q[-1], atol=1e-6)


def test_a_box_lies_across_ridges_without_vertices_below_it():
    """Ridges of 0.25 m along y, 1 m apart: a plank rests on two of them, tilted off the grid."""
    i = np.arange(9)[:, None] + np.zeros(9)
    grid = tb.GroundGrid((0.5, 0.5), (-0.25 * (i % 2)).tolist(), (-2.0, -2.0))
    world = tb.World(ground=tb.Ground(grid=grid, static_friction=0.5))
    size = np.array([1.4, 0.2, 0.1])
    moment = 3.0 / 12.0 * (np.sum(size**2) - size**2)
    model = body(tb.BoxShape(tuple(size.tolist())), 3.0, moment)
    # vertices are at multiples of 0.5 m; dropped by 1 mm, turned by 0.1 rad
    q = np.array([np.cos(0.05), 0, 0, np.sin(0.05), 0.45, 0.25, 0.051])
    run = tb.simulate(model, 0.3, q=q, world=world, record=tb.Record(dt=0.1))
    assert run.status == "finished"
    assert abs(run.q[-1, 6] - 0.05) < 1e-6
    np.testing.assert_allclose(run.q[-1, :4], q[:4], atol=1e-6)
    weight = run.get("contact_force").values[-1][:, 2]
    assert weight.sum() == pytest.approx(3.0 * 9.81, rel=1e-6)
    # moments about the ridges at 0 and 1 m
    point = run.get("contact_point").values[-1]
    assert weight @ point[:, 0] == pytest.approx(3.0 * 9.81 * 0.45, rel=1e-5)


SHAPES = {
    "rod": (tb.CylinderShape(0.08, 0.3), (0.0182, 0.0182, 0.0064)),
    "disc": (tb.CylinderShape(0.15, 0.06), (0.0119, 0.0119, 0.0225)),
    "egg": (tb.EllipsoidShape((0.2, 0.12, 0.08)), (0.0083, 0.0186, 0.0218)),
    "ball": (tb.SphereShape(0.12), (0.0115,) * 3),
    "box": (tb.BoxShape((0.3, 0.2, 0.1)), (0.0083, 0.0167, 0.0217)),
}


def check_drops(name, smooth, count, duration, seed):
    """Drop bodies that spin onto hills of their own size, and look at energy and depth.

    Without restitution contacts take energy: what a step may add is its error of first order where
    normals turn, 2e-4 of the energy of the fall (docs/contact.md). The bound of the depth is what
    a body falls in one step.
    """
    rng = np.random.default_rng(seed)
    shape, moment = SHAPES[name]
    mass, spacing, rough = 2.0, 0.15, 0.05
    world = uneven(rng.uniform(-rough, rough, (27, 27)), spacing, 0.6, smooth)
    model = body(shape, mass, moment)
    q = np.zeros((count, 7))
    q[:, :4] = rng.standard_normal((count, 4))
    q[:, :4] /= np.linalg.norm(q[:, :4], axis=1)[:, None]
    q[:, 4:6] = rng.uniform(-0.8, 0.8, (count, 2))
    q[:, 6] = 1.3 * rough + 0.45 + rng.uniform(0.0, 0.3, count)
    v = np.concatenate(
        [3 * rng.standard_normal((count, 3)), 0.7 * rng.standard_normal((count, 3))], 1
    )
    run = tb.simulate(model, duration, q=q, v=v, world=world, record=tb.Record(every=1))
    assert [outcome.status for outcome in run.outcomes] == ["finished"] * count
    energy = mass * (0.5 * np.sum(run.v[..., 3:] ** 2, -1) + 9.81 * run.q[..., 6])
    energy += 0.5 * np.sum(np.array(moment) * run.v[..., :3] ** 2, -1)
    fall = 2.0 * 9.81 * 0.6
    assert np.diff(energy, axis=0).max() < 5e-4 * fall
    lowest = np.minimum.accumulate(energy, axis=0)
    assert (energy - lowest).max() < 2e-3 * fall
    summary = run.contact_summary()
    assert summary.deepest.depth < 2.5e-3
    # they did come down
    assert summary.peak_force.max() > 10 * mass * 9.81


def overlap_of_box(world, size, q):
    """Return the largest vertical overlap of a box with dense points of edges of triangles."""
    heights = np.array(world.ground.grid.heights)
    spacing, corner = world.ground.grid.spacing[0], world.ground.grid.origin[0]
    R, half = np.array(quaternion_to_matrix(tuple(q[:4]))), 0.5 * np.array(size)
    reach = int(np.linalg.norm(half) / spacing) + 2
    below = np.floor((q[4:6] - corner) / spacing).astype(int) - reach
    i, j = np.indices((2 * reach + 1,) * 2).reshape(2, -1, 1) + below[:, None, None]
    t = np.linspace(0.0, 1.0, 40)
    lines = []
    for a, b in ((1, 0), (0, 1), (1, 1)):
        x, y = corner + spacing * (i + a * t), corner + spacing * (j + b * t)
        z = heights[i, j] + t * (heights[i + a, j + b] - heights[i, j])
        lines.append(np.stack([x, y, z], -1).reshape(-1, 3))
    points = np.concatenate(lines)
    # how far above the lower side of the box
    arm = points - q[4:]
    enter, leave = np.full(len(arm), -np.inf), np.full(len(arm), np.inf)
    for k in range(3):
        rate, height = R[2, k], arm @ R[:, k]
        ends = np.sort([(height - half[k]) / rate, (height + half[k]) / rate], axis=0)
        enter, leave = np.maximum(enter, ends[0]), np.minimum(leave, ends[1])
    return np.where(enter < leave, leave, -np.inf).max()


@pytest.mark.parametrize("count", [30, pytest.param(60, marks=pytest.mark.slow)])
def test_a_box_does_not_sink_into_steep_triangles_of_half_its_length(count):
    """Sharp ridges and peaks of up to 69 degrees: no energy is gained, nothing overlaps."""
    rng = np.random.default_rng(1)
    size, mass, spacing = (0.2, 0.2, 0.2), 2.0, 0.1
    world = uneven(rng.uniform(-0.135, 0.135, (45, 45)), spacing, 0.6)
    moment = np.full(3, mass * 0.2**2 / 6.0)
    q = np.zeros((count, 7))
    q[:, :4] = rng.standard_normal((count, 4))
    q[:, :4] /= np.linalg.norm(q[:, :4], axis=1)[:, None]
    q[:, 4:6] = rng.uniform(-0.6, 0.6, (count, 2))
    # just above the ground, with the speed of a fall by 0.3 m to 0.6 m
    q[:, 6] = 0.32 + rng.uniform(0.0, 0.05, count)
    w, linear = 3 * rng.standard_normal((count, 3)), 0.7 * rng.standard_normal((count, 3))
    linear[:, 2] -= np.sqrt(2.0 * 9.81 * rng.uniform(0.3, 0.6, count))
    turned = [
        np.transpose(quaternion_to_matrix(tuple(x[:4]))) @ y for x, y in zip(q, linear, strict=True)
    ]
    v = np.hstack([w, turned])
    box = body(tb.BoxShape(size), mass, moment)
    run = tb.simulate(box, 0.5, q=q, v=v, world=world, record=tb.Record(every=1))
    assert [outcome.status for outcome in run.outcomes] == ["finished"] * count
    energy = mass * (0.5 * np.sum(run.v[..., 3:] ** 2, -1) + 9.81 * run.q[..., 6])
    energy += 0.5 * np.sum(moment * run.v[..., :3] ** 2, -1)
    # as in `check_drops`
    assert np.diff(energy, axis=0).max() < 5e-4 * mass * 9.81 * 0.6
    # a thousandth of the box; what is closed within a step is pushed out at its end
    rows = run.q[50::30].reshape(-1, 7)
    assert max(overlap_of_box(world, size, row) for row in rows) < 2e-4


@pytest.mark.parametrize(
    "shape", [tb.BoxShape((0.1, 0.1, 0.1)), tb.CapsuleShape(0.03, 0.1), tb.CylinderShape(0.05, 0.1)]
)
def test_fast_bodies_do_not_pass_ridges_within_a_step(shape):
    """Steps of 0.3 m toward a ridge of 0.2 m; one that flies over it by 1 cm is not disturbed."""
    heights = np.zeros((41, 41))
    heights[20] = 0.4
    world = tb.World(gravity=(0.0, 0.0, 0.0), ground=uneven(heights, 0.1, 0.5).ground)
    top = {tb.BoxShape: 0.05, tb.CapsuleShape: 0.08, tb.CylinderShape: 0.05}[type(shape)]
    count = 12
    q = np.zeros((count, 7))
    q[:, 0] = 1.0
    q[:, 4] = np.linspace(-0.8, -0.6, count)
    q[:, 5] = np.linspace(-0.1, 0.1, count)
    q[:, 6] = np.where(np.arange(count) % 3 == 0, 0.4 + top + 0.01, 0.25)
    v = np.zeros((count, 6))
    v[:, 3] = 15.0
    run = tb.simulate(body(shape), 0.1, q=q, v=v, world=world, method=tb.RK4(dt=0.02))
    over = q[:, 6] > 0.4
    np.testing.assert_array_equal(run.v[-1, over], v[over])
    np.testing.assert_allclose(run.q[-1, over, 4], q[over, 4] + 1.5, atol=1e-12)
    assert run.q[-1, ~over, 4].max() < 0.0
    energy = 0.5 * np.sum(run.v[-1] ** 2 * [0.01, 0.012, 0.009, 1.0, 1.0, 1.0], axis=-1)
    assert energy.max() <= 0.5 * 15.0**2 + 1e-9


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("name", ["rod", "box"])
def test_drops_of_cylinders_and_boxes_onto_hills_gain_no_energy(name, smooth):
    check_drops(name, smooth, 6, 0.45, 11)


def test_a_plank_lies_across_two_smooth_ridges():
    """Its corners are in the air: edges carry it, and energy only falls until it rests."""
    heading, x = 0.7, 0.25 * (np.arange(33) - 16)
    across = np.cos(heading) * x[:, None] + np.sin(heading) * x[None, :]
    heights = 0.15 * sum(np.exp(-(((across - d) / 0.3) ** 2)) for d in (-0.5, 0.5))
    size, mass = (1.6, 0.2, 0.1), 3.0
    moment = mass / 12.0 * (np.sum(np.square(size)) - np.square(size))
    turn = 0.5 * heading + 0.05
    q = [np.cos(turn), 0, 0, np.sin(turn), 0.03, 0.02, 0.26]
    plank = body(tb.BoxShape(size), mass, moment)
    world = uneven(heights, 0.25, 0.8, smooth=True)
    run = tb.simulate(plank, 1.0, q=q, world=world, record=tb.Record(every=1))
    assert run.status == "finished"
    energy = mass * (0.5 * np.sum(run.v[:, 3:] ** 2, -1) + 9.81 * run.q[:, 6])
    energy += 0.5 * np.sum(moment * run.v[:, :3] ** 2, -1)
    # ridges turn under it as it lands: first order in the step
    assert np.diff(energy).max() < 1e-6
    assert np.abs(run.v[-1]).max() < 1e-9
    assert run.contact_summary().deepest.depth < 1e-6
    force = run.get("contact_force").values[-1]
    np.testing.assert_allclose(force.sum(axis=0), [0, 0, mass * 9.81], atol=1e-6)
    # on the ridges of 0.15 m, not on the ground between and beyond them
    assert run.q[-1, 6] == pytest.approx(0.2, abs=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_a_hundred_drops_onto_hills_gain_no_energy(name, smooth):
    check_drops(name, smooth, 100, 1.0, 7)
