"""Order and energy of steps with rigid contact: closed forms, references, random drops."""

import numpy as np
import pytest

import tiburon as tb

QUIET = {"execution": tb.Execution(progress=False)}
ROUGH = tb.World(ground=tb.Ground(static_friction=1.0))


def free(name, shape, mass, size):
    """Return a free body with the inertia of a box."""
    return tb.Body(
        name, joint=tb.Free(name), inertia=tb.Inertia.box(mass, size), shapes=(tb.Shape(shape),)
    )


def energy(model, run):
    """Return kinetic and potential energy of all rows [J]."""
    return tb.kinetic_energy(model, run.q, run.v) + tb.potential_energy(model, run.q)


def orders(errors):
    """Return the order between each pair of errors of halved steps."""
    return np.log2(np.array(errors[:-1]) / np.array(errors[1:]))


def test_bodies_that_touch_nothing_keep_the_order_beside_others_that_do():
    """A body that spins in the air beside a box at rest moves as it does alone: fourth order."""
    top = tb.Body(
        "top", joint=tb.Free("top"), inertia=tb.Inertia(1.0, (0, 0, 0), np.diag([0.02, 0.1, 0.11]))
    )
    box = free("box", tb.BoxShape((0.4, 0.3, 0.2)), 2.0, (0.4, 0.3, 0.2))
    model = tb.Model("scene", [top, box])
    q = [0.8, 0.2, -0.4, 0.4, 3.0, 0.0, 50.0, 1, 0, 0, 0, 0, 0, 0.1]
    v = [20.0, 10.0, 20.0, 0, 0, 10.0, *[0] * 6]
    ends = [
        tb.simulate(model, 0.4, q=q, v=v, world=ROUGH, method=tb.RK4(dt=dt), **QUIET).q[-1]
        for dt in (4e-3, 2e-3, 1e-3, 1.25e-4)
    ]
    errors = [np.abs(end[:7] - ends[-1][:7]).max() for end in ends[:-1]]
    assert orders(errors).min() > 3.7
    # and the box stays where it is
    assert np.abs(ends[0][7:] - q[7:]).max() < 1e-10


def test_what_stands_on_a_plate_at_rest_moves_as_on_one_that_is_bolted_down():
    """A double pendulum on a plate of 50 kg, kicked: second order."""
    rod = tb.Inertia(1.0, (0, 0, -0.25), np.diag([0.02, 0.02, 0.001]))

    def model(joint):
        plate = tb.Body(
            "plate",
            joint=joint,
            inertia=tb.Inertia.box(50.0, (1.0, 1.0, 0.1)),
            shapes=(tb.Shape(tb.BoxShape((1.0, 1.0, 0.1))),),
        )
        high, low = (tb.Pose(translation=(0, 0, z)) for z in (1.5, -0.5))
        upper = tb.Revolute("upper", (0, 1, 0), pose=high)
        lower = tb.Revolute("lower", (0, 1, 0), pose=low)
        rods = [tb.Body("upper", "plate", joint=upper, inertia=rod)]
        rods.append(tb.Body("lower", "upper", joint=lower, inertia=rod))
        return tb.Model("pendulum", [plate, *rods])

    bolted = tb.Fixed("plate", pose=tb.Pose(translation=(0, 0, 0.05)))
    v = [0.5, -1.0]
    exact = tb.simulate(model(bolted), 0.6, q=[1.5, 0.5], v=v, method=tb.RK4(dt=2.5e-4)).q[-1]
    errors = []
    for dt in (4e-3, 2e-3, 1e-3):
        run = tb.simulate(
            model(tb.Free("plate")),
            0.6,
            q=[1, 0, 0, 0, 0, 0, 0.05, 1.5, 0.5],
            v=[0] * 6 + v,
            world=ROUGH,
            method=tb.RK4(dt=dt),
        )
        errors.append(np.abs(run.q[-1, 7:] - exact).max())
    assert orders(errors).min() > 1.7
    assert errors[-1] < 2e-5


@pytest.mark.parametrize("friction", [0.0, 1.0])
def test_ellipsoids_that_roll_and_slide_keep_their_energy_to_second_order(friction):
    """Contact normals stay, lever arms turn; what slides without friction loses nothing either."""
    model = tb.Model(
        "egg", [free("egg", tb.EllipsoidShape((0.2, 0.15, 0.1)), 2.0, (0.3, 0.2, 0.15))]
    )
    world = tb.World(ground=tb.Ground(static_friction=friction))
    q, v = [1, 0, 0, 0, 0, 0, 0.1], [2.0, 3.0, 0.5, 0.3, -0.2, 0.0]
    losses = []
    for dt in (2e-3, 1e-3, 5e-4):
        run = tb.simulate(
            model,
            0.2,
            q=q,
            v=v,
            world=world,
            method=tb.RK4(dt=dt),
            record=tb.Record(every=1),
            **QUIET,
        )
        found = energy(model, run)
        # the first step takes what does not roll
        losses.append(abs(found[-1] - found[round(0.02 / dt)]))
    assert orders(losses).min() > 1.6


def test_a_ball_that_rolls_does_not_slip():
    """Rolling on level ground is no slip at any speed of the rim; free balls move as accurately."""
    r = 0.05
    ball = tb.Body(
        "ball",
        joint=tb.Free("ball"),
        inertia=tb.Inertia.sphere(1.0, r),
        shapes=(tb.Shape(tb.SphereShape(r)),),
    )
    model = tb.Model("ball", [ball])
    for w in (20.0, 100.0):
        v = [0, w, 0, w * r, 0, 0]
        run = tb.simulate(model, 0.5, q=[1, 0, 0, 0, 0, 0, r], v=v, world=ROUGH, **QUIET)
        end = run.v[-1]
        # both in body axes: the slip is what the spin does not explain of the speed
        speed, spin = np.linalg.norm(end[3:]), np.linalg.norm(end[:3])
        assert abs(speed - r * spin) < 1e-6 * w * r
        # what RK4 misses of a velocity that turns in body axes, also in flight
        assert run.q[-1, 4] == pytest.approx(0.5 * w * r, rel=(1e-3 * w) ** 4 / 24.0)


def hold(robot, stand):
    """Return a stiff controller of joints, near the limit of what steps of 1 ms resolve."""

    @tb.traced
    def control(state):
        angles = zip(stand[7:], state.q[7:], state.v[6:], strict=True)
        return [0.0] * 6 + [100.0 * (float(a) - x) - 3.0 * w for a, x, w in angles]

    return control


def test_runs_begin_with_the_contact_forces_of_their_first_step():
    """A robot that is put down in balance has the forces of its plan in the first row."""
    dog, floor = tb.load("quadruped"), tb.World(ground=tb.Ground(static_friction=1.0))
    plan = tb.LoadSharing.of(dog, world=floor, friction=0.6)
    stand = dog.poses["stand"]
    control = tb.LoadSharingControl(plan, stand)
    run = tb.simulate(
        dog, 0.02, q=stand, world=floor, control=control, record=tb.Record(every=1), **QUIET
    )
    pushes = run.get("contact_force").values[1:, :, 2]
    shared = control.read(run).forces.reshape(-1, 4, 3)[:-1, :, 2]
    np.testing.assert_allclose(pushes, shared, atol=1e-4)


def test_robots_that_land_come_to_rest():
    """Feet with restitution under stiff joints: no rebound goes on for ever by its own forces."""
    dog = tb.load("quadruped")
    world = tb.World(ground=tb.Ground(static_friction=0.8, kinetic_friction=0.7, restitution=0.2))
    stand = np.array(dog.poses["stand"])
    rng = np.random.default_rng(0)
    q, v = np.tile(stand, (4, 1)), 0.5 * rng.normal(size=(4, dog.nv))
    q[:, 6] += rng.uniform(0.0, 0.15, 4)
    run = tb.simulate(
        dog,
        2.5,
        q=q,
        v=v,
        world=world,
        control=hold(dog, stand),
        record=tb.Record(dt=0.5),
        **QUIET,
    )
    assert [outcome.status for outcome in run.outcomes] == ["finished"] * 4
    assert np.abs(run.v[-1]).max() < 5e-3
    acting = list(run.header.column("z").labels).index("contact.acting")
    assert (run.z[-1, :, acting] == 2.0).all()


def test_tumbling_boxes_move_alike_in_every_heading():
    """A scene turned about the vertical: no step differs by more than 1e-9 m from alike states."""
    size, count, angle = (0.4, 0.3, 0.2), 64, np.deg2rad(37.0)
    model = tb.Model("block", [free("block", tb.BoxShape(size), 2.0, size)])
    world = tb.World(ground=tb.Ground(static_friction=0.5))
    rng = np.random.default_rng(5)
    turns = rng.normal(size=(count, 4))
    turns /= np.linalg.norm(turns, axis=1)[:, None]
    v = rng.normal(size=(count, 6)) * [3, 3, 3, 1, 1, 1]
    c, s = np.cos(0.5 * angle), np.sin(0.5 * angle)
    w, x, y, z = turns.T
    headed = np.stack([c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w], axis=1)
    places = []
    for given in (turns, headed):
        q = np.c_[given, np.zeros((count, 2)), np.full(count, 0.5)]
        record = tb.Record(every=1)
        run = tb.simulate(model, 0.6, q=q, v=v, world=world, record=record, **QUIET)
        places.append(run.q[..., 4:7])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    first, second = places[0], places[1].copy()
    second[..., :2] = second[..., :2] @ turn
    assert np.abs(first - second).max() < 1e-9


SHAPES = {
    "box": (tb.BoxShape((0.3, 0.2, 0.1)), (0.3, 0.2, 0.1)),
    "rod": (tb.CylinderShape(0.1, 0.3), (0.17, 0.17, 0.3)),
    "disc": (tb.CylinderShape(0.15, 0.06), (0.25, 0.25, 0.06)),
    "capsule": (tb.CapsuleShape(0.06, 0.3), (0.1, 0.1, 0.38)),
    "egg": (tb.EllipsoidShape((0.2, 0.12, 0.08)), (0.3, 0.2, 0.12)),
    "ball": (tb.SphereShape(0.1), (0.15, 0.15, 0.15)),
}


def dropped(model, world, count, seed, duration=0.8, spin=5.0, height=0.4):
    """Return a run of bodies above each other that spin and fall, and their energies."""
    rng = np.random.default_rng(seed)
    parts = len(model.bodies)
    q, v = np.zeros((count, parts, 7)), np.zeros((count, parts, 6))
    turns = rng.normal(size=(count, parts, 4))
    q[..., :4] = turns / np.linalg.norm(turns, axis=-1, keepdims=True)
    q[..., 4:6] = rng.uniform(-0.05, 0.05, (count, parts, 2))
    q[..., 6] = height + 0.45 * np.arange(parts) + rng.uniform(0.0, 0.1, (count, parts))
    v[..., :3] = spin * rng.normal(size=(count, parts, 3))
    v[..., 3:] = rng.normal(size=(count, parts, 3))
    run = tb.simulate(
        model,
        duration,
        q=q.reshape(count, -1),
        v=v.reshape(count, -1),
        world=world,
        record=tb.Record(every=1),
        **QUIET,
    )
    assert [outcome.status for outcome in run.outcomes] == ["finished"] * count
    return run, energy(model, run)


def test_elastic_boxes_that_spin_fast_keep_their_energy():
    """Without friction at 20 to 80 rad/s: each step is parted at its collisions."""
    shape, size = SHAPES["box"]
    model = tb.Model("drop", [free("box", shape, 2.0, size)])
    world = tb.World(ground=tb.Ground(restitution=1.0))
    run, found = dropped(model, world, 20, seed=1, spin=25.0)
    peak = tb.kinetic_energy(model, run.q, run.v).max(axis=0)
    # an impact is part of a piece of the step in which its contact moves 1e-8 m
    assert np.abs(np.diff(found, axis=0) / peak).max() < 1e-6
    assert (np.abs(found - found[0]) / found[0]).max() < 1e-6


@pytest.mark.parametrize("restitution", [0.0, 0.5, 1.0])
def test_momentum_of_drops_follows_from_the_recorded_forces(restitution):
    """In steps that are parted at collisions, and in those whose bounces are slow, too."""
    shape, size = SHAPES["box"]
    model = tb.Model("drop", [free("box", shape, 2.0, size)])
    world = tb.World(ground=tb.Ground(static_friction=0.5, restitution=restitution))
    run, _ = dropped(model, world, 8, seed=2)
    turn, v = run.q[..., :4], run.v[..., 3:]
    # in world axes: v + 2 w (u x v) + 2 u x (u x v)
    across = 2.0 * np.cross(turn[..., 1:], v)
    momentum = 2.0 * (v + turn[..., :1] * across + np.cross(turn[..., 1:], across))
    forces = run.get("contact_force").values[1:].sum(axis=-2) + 2.0 * np.array([0.0, 0.0, -9.81])
    missed = np.diff(momentum, axis=0) - 1e-3 * forces
    # what impulses are solved to
    assert np.abs(missed).max() < 1e-8 * np.abs(momentum).max()


def ground(kind, friction, restitution):
    """Return level ground, or hills of the size of the bodies."""
    surface = {"static_friction": friction, "restitution": restitution}
    if kind == "level":
        return tb.Ground(**surface)
    heights = np.random.default_rng(3).uniform(-0.06, 0.06, (33, 33)).tolist()
    grid = tb.GroundGrid(
        spacing=(0.25, 0.25), heights=heights, origin=(-4.0, -4.0), smooth=kind == "smooth"
    )
    return tb.Ground(grid=grid, **surface)


SCENES = [
    *((name, "level") for name in ("box", "rod", "disc", "capsule", "egg", "three")),
    ("box", "smooth"),
    ("disc", "smooth"),
    ("box", "triangles"),
    ("rod", "triangles"),
]
"""Bodies and the ground below them."""


def scene(name):
    """Return one body, or three above each other."""
    names = ("box", "capsule", "rod") if name == "three" else (name,)
    masses = {"box": 1.0, "capsule": 2.0, "rod": 3.0} if name == "three" else {name: 2.0}
    parts = [free(one, SHAPES[one][0], masses[one], SHAPES[one][1]) for one in names]
    return tb.Model("drop", parts)


def gains(name, kind, friction, restitution, count):
    """Return the largest gain in a step and in all of each drop.

    Relative to the peak of kinetic energy, and to the initial energy.
    """
    model = scene(name)
    world = tb.World(ground=ground(kind, friction, restitution))
    run, found = dropped(model, world, count, seed=1, height=0.4 if kind == "level" else 0.5)
    peak = tb.kinetic_energy(model, run.q, run.v).max(axis=0)
    steps = (np.diff(found, axis=0) / peak).max(axis=0)
    return steps, ((found - found[0]) / np.abs(found[0])).max(axis=0)


@pytest.mark.parametrize("restitution", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("name", "count"), [(name, 8) for name in SHAPES] + [("three", 4)])
def test_drops_gain_no_energy(name, count, restitution):
    """In no step more than its error of third order, and nothing in all."""
    for friction in (0.0, 0.5):
        steps, total = gains(name, "level", friction, restitution, count)
        assert steps.max() < 1e-4
        assert total.max() < 1e-6


@pytest.mark.parametrize("restitution", [0.0, 1.0])
def test_a_scene_of_a_thousandth_of_the_length_moves_alike(restitution):
    """Lengths by 1e-3, times by its root: cylinders land within 2e-3 m of the unscaled places."""
    places = []
    for scale in (1.0, 1e-3):
        size = tuple(scale * x for x in SHAPES["rod"][1])
        shape = tb.CylinderShape(0.1 * scale, 0.3 * scale)
        model = tb.Model("drop", [free("rod", shape, 2.0, size)])
        world = tb.World(ground=tb.Ground(static_friction=0.5, restitution=restitution))
        rng, count, pace = np.random.default_rng(1), 16, np.sqrt(scale)
        q, v = np.zeros((count, 7)), rng.normal(size=(count, 6))
        q[:, :4] = rng.normal(size=(count, 4))
        q[:, :4] /= np.linalg.norm(q[:, :4], axis=1)[:, None]
        q[:, 6] = 0.4 * scale
        v[:, :3] *= 5.0 / pace
        v[:, 3:] *= pace
        method = tb.RK4(dt=1e-3 * pace)
        run = tb.simulate(model, 0.8 * pace, q=q, v=v, world=world, method=method, **QUIET)
        places.append(run.q[-1, :, 4:] / scale)
    assert np.abs(places[1] - places[0]).max() < 2e-3


@pytest.mark.slow
@pytest.mark.parametrize("restitution", [0.0, 0.5])
@pytest.mark.parametrize("name", ["box", "rod", "disc", "capsule", "egg"])
def test_random_event_driven_drops_finish(name, restitution):
    """200 drops of 0.6 s with friction: all but one rod, whose impacts do not end."""
    model, rng = scene(name), np.random.default_rng(11)
    world = tb.World(ground=tb.Ground(static_friction=0.5, restitution=restitution))
    finished = 0
    for _ in range(20):
        turn = rng.normal(size=4)
        q = [*turn / np.linalg.norm(turn), 0.0, 0.0, rng.uniform(0.35, 0.45)]
        v = rng.normal(size=6) * [5, 5, 5, 1, 1, 1]
        contact, record = tb.ExactContact(), tb.Record(dt=0.1)
        run = tb.simulate(
            model, 0.6, q=q, v=v, world=world, contact=contact, record=record, **QUIET
        )
        finished += run.status == "finished"
    assert finished >= (19 if (name, restitution) == ("rod", 0.0) else 20)


@pytest.mark.slow
@pytest.mark.parametrize("friction", [0.0, 0.5])
@pytest.mark.parametrize("restitution", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize(("name", "kind"), SCENES)
def test_random_drops_gain_no_energy(name, kind, restitution, friction):
    """2,400 drops of 0.8 s: boxes, cylinders, three bodies, hills."""
    steps, total = gains(name, kind, friction, restitution, 30)
    assert total.max() < 1e-6
    if kind == "level" or restitution > 0.0:
        assert steps.max() < 1e-4
    else:
        # what a landing on the curved or broken surface leaves of penetration is lifted out
        assert np.sort(steps)[-2] < 1e-4
        assert steps.max() < 2e-3
