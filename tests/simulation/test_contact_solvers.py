"""Laws and tolerance of rigid contact in runs: lift-off, stacks, residuals, what is refused."""

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import tiburon as tb
from tiburon.trace.primitives.contact_step import CARRIED_SPEED

FLOOR = tb.World(ground=tb.Ground(static_friction=0.3))


def box(name="box", mass=2.0, size=(0.4, 0.3, 0.2)):
    inertia = (
        mass / 12 * np.diag([size[(k + 1) % 3] ** 2 + size[(k + 2) % 3] ** 2 for k in range(3)])
    )
    return tb.Body(
        name,
        "world",
        joint=tb.Free(name),
        inertia=tb.Inertia(mass, (0, 0, 0), inertia),
        shapes=(tb.Shape(tb.BoxShape(size)),),
    )


BOX = tb.Model("box", [box()])
LYING = [1, 0, 0, 0, 0, 0, 0.1]


def slide(law, **options):
    given = {
        "method": tb.RK4(dt=1e-3),
        "contact": tb.RigidContact(law=law),
        "record": tb.Record(every=1),
    } | options
    return tb.simulate(BOX, 0.02, q=LYING, v=[0, 0, 0, 0.9, 0.4, 0], world=FLOOR, **given)


def test_points_that_slide_lift_off_with_the_convex_law_only():
    """u_n = mu |u_t| after the first step; Coulomb's law keeps the box on the ground."""
    convex, coulomb = slide("convex"), slide("coulomb")
    up, along = convex.v[1, 5], np.linalg.norm(convex.v[1, 3:5])
    assert up == pytest.approx(0.3 * along, rel=1e-6)
    assert np.abs(coulomb.v[:, 5]).max() < 1e-9
    # what sliding friction does, in the heading of the motion
    speed = np.linalg.norm(coulomb.v[-1, 3:5])
    assert speed == pytest.approx(np.hypot(0.9, 0.4) - 0.3 * 9.81 * 0.02, rel=1e-9)


def test_laws_agree_where_nothing_slides():
    """A box that rests on a slope below the angle of friction."""
    angle = np.deg2rad(10.0)
    gravity = 9.81 * np.array([0.6 * np.sin(angle), 0.8 * np.sin(angle), -np.cos(angle)])
    slope = tb.World(gravity=tuple(gravity), ground=FLOOR.ground)
    runs = [
        tb.simulate(BOX, 0.05, q=LYING, world=slope, contact=tb.RigidContact(law=law))
        for law in ("coulomb", "convex")
    ]
    np.testing.assert_allclose(runs[0].q, runs[1].q, atol=1e-9)


def test_the_tolerance_bounds_the_residual_of_each_step():
    for tolerance in (1e-6, 1e-12):
        run = slide("coulomb", contact=tb.RigidContact(tolerance=tolerance))
        assert run.contact_summary().residual <= tolerance
        assert run.contact_summary().iterations > 0


CUBE = (0.2, 0.2, 0.2)
DOWN, ALONG, FRICTION = 0.15, 0.5, 0.5
"""Velocity of a box that lands, down and along the ground [m/s]; coefficient of friction."""
PILED = [1, 0, 0, 0, 0, 0, 0.1, 1, 0, 0, 0, 0, 0, 0.3]


def rough(*parts):
    """Return bodies side by side whose surfaces have the friction of those that land."""
    material = tb.ContactMaterial(FRICTION)
    return tb.Model(
        "landing",
        [replace(one, shapes=(replace(one.shapes[0], material=material),)) for one in parts],
    )


def stacked(model):
    """Return pairs of bodies that lie on each other in this order, the first on the ground."""
    names = ["world", *(one.name for one in model.bodies)]
    return [(b, a) for a, b in itertools.pairwise(names)]


def piled(tolerance):
    """Return a run of a heavy box on a light one, a mass ratio of 10^4."""
    model = rough(box("plate_0", 1.0, CUBE), box("lander", 1e4, CUBE))
    return tb.simulate(
        model,
        0.02,
        q=PILED,
        world=FLOOR,
        record=tb.Record(every=1),
        contact=tb.RigidContact(tolerance=tolerance, pairs=stacked(model)),
    )


def test_a_heavy_box_stands_on_a_light_one():
    """Sweeps over contacts alone do not resolve it."""
    # the residual is relative to the impulses of the heavy one, which the light one also feels
    run = piled(1e-10)
    assert str(run.outcome) == "finished at 0.02 s"
    # 1e-10 of 98 N s turn the light one by 1e-7 rad/s in a step, over 20 ms
    assert np.abs(run.q[-1] - PILED).max() < 1e-6
    assert run.contact_summary().residual <= 1e-10


@pytest.mark.parametrize("ratio", [1.0, 1e4])
def test_a_light_plate_stays_below_a_heavy_box_that_slides(ratio):
    """Friction above and below it is some thousand times its weight, and cancels; kicked, turned.

    Both fall together without contact: when they close is not told by their speeds.
    """
    model = rough(box("plate_0", 1.0, (0.3, 0.3, 0.02)), box("lander", ratio, CUBE))
    q = np.array([1, 0, 0, 0, 0, 0, 0.01, np.cos(0.15), 0, 0, np.sin(0.15), 0.01, 0.02, 0.12])
    v = np.zeros(12)
    v[9:11] = [0.4, 0.3]
    world = tb.World(ground=tb.Ground(static_friction=0.5))
    run = tb.simulate(
        model,
        0.01,
        q=q,
        v=v,
        world=world,
        record=tb.Record(every=1),
        contact=tb.DefaultContact(pairs=stacked(model)),
    )
    assert run.status == "finished"
    # 1e-8 of 98 N s leave a plate of 1 kg with 1e-6 m/s, corrected in the next step
    assert np.abs(run.q[:, :7] - q[:7]).max() < 1e-9
    moved = np.linalg.norm(run.q[-1, 11:14] - q[11:14])
    assert moved == pytest.approx(0.5 * 0.01 - 0.5 * 0.5 * 9.81 * 0.01**2, abs=1e-8)


def landing(mass, fractions, plates=1, tilt=0.0, speed=0.0, contact=tb.DefaultContact, **options):
    """Return runs of a box that lands with slip on light plates, and the length of its flight.

    Args:
        mass: Of each plate, relative to the box.
        fractions: Shares of the fourth step at which the box lands.
        plates: Number of plates, on top of each other.
        tilt: Angle of gravity to the ground [rad].
        speed: Of the plates along the ground [m/s].
        contact: Makes the model of contact of the pairs of bodies in the stack.
        options: Of the runs.
    """
    parts = [box(f"plate_{i}", 2.0 * mass, (0.6, 0.6, 0.02)) for i in range(plates)]
    model = rough(*parts, box("lander", 2.0, CUBE))
    gravity = (9.81 * np.sin(tilt), 0.0, -9.81 * np.cos(tilt))
    time = 1e-3 * (3.0 + np.asarray(fractions))
    gap = DOWN * time - 0.5 * gravity[2] * time**2
    q = [
        np.broadcast_to([1, 0, 0, 0, 0, 0, 0.01 + 0.02 * i], (*time.shape, 7))
        for i in range(plates)
    ]
    lander = np.zeros((*time.shape, 7))
    lander[..., 0], lander[..., 6] = 1.0, 0.02 * plates + 0.1 + gap
    run = tb.simulate(
        model,
        0.02,
        q=np.concatenate([*q, lander], axis=-1),
        v=[0, 0, 0, speed, 0, 0] * plates + [0, 0, 0, ALONG, 0, -DOWN],
        world=tb.World(gravity=gravity, ground=tb.Ground(static_friction=FRICTION)),
        contact=contact(pairs=stacked(model)),
        record=tb.Record(every=1),
        **options,
    )
    return run, time


@pytest.mark.parametrize(("plates", "tilt"), [(1, 0.0), (2, 0.0), (1, 0.2)])
@pytest.mark.parametrize("mass", [1.0, 0.1, 1e-2, 1e-4, 1e-6])
def test_a_box_that_lands_with_slip_does_not_move_light_plates(mass, plates, tilt):
    """Whenever within a step: impulses above and below act over the same time; closed form.

    Plates that are not light may move once, by less than a third of what the box moves in the step.
    """
    # residuals are relative to the impulses of the box, which are up to 1e6 times those of a plate
    tolerance = min(1e-8, 1e-6 * mass)
    run, time = landing(
        mass,
        [0.1, 0.35, 0.5, 0.9],
        plates,
        tilt,
        contact=partial(tb.RigidContact, tolerance=tolerance),
    )
    assert run.status.tolist() == ["finished"] * 4
    moved = 2e-8 if mass <= 1e-2 else CARRIED_SPEED * 1e-3 * ALONG
    if mass < 1e-2:
        # friction above and below a lighter plate is the same but for the tolerance, and nothing
        # else holds it: in the step of landing it may move by 0.2 % of what the box does
        moved = 2e-3 * 1e-3 * ALONG
    for i in range(plates):
        there = [0.0, 0.0, 0.01 + 0.02 * i]
        assert np.abs(run.q[..., 7 * i + 4 : 7 * i + 7] - there).max() < moved
    down, along = 9.81 * np.cos(tilt), 9.81 * np.sin(tilt)
    left, speed = 0.02 - time, ALONG + along * time - FRICTION * (DOWN + down * time)
    x = ALONG * time + 0.5 * along * time**2
    x += speed * left + 0.5 * (along - FRICTION * down) * left**2
    # the tolerance of moments, of what moves the box by 0.1 mm; where plates move, friction
    # may act on the box for one step more or less
    missed = 1e-9 if mass <= 1e-2 else FRICTION * 9.81 * 1e-6
    assert np.abs(run.q[-1, :, 7 * plates + 4] - x).max() < missed


@tb.traced
def thrust_by_place(state):
    """Press the upper of three boxes down and lift the lower one, if the plate is at y = 1 m."""
    pressed = np.where(state.q[5] > 0.5, 1.0, 0.0)
    return [0.0] * 11 + [0.5 * pressed] + [0.0] * 5 + [-pressed]


@pytest.mark.parametrize("pressed", [0.0, 1.0])
@pytest.mark.parametrize("height", [0.0, 0.1])
@pytest.mark.parametrize("mass", [3.0, 0.05])
def test_a_stack_that_has_landed_on_a_free_plate_rests(mass, height, pressed):
    """Boxes land on a plate that lies on the ground, or falls onto it with them: forces are steady.

    Without other contacts nothing accelerates them relative to each other, or some forces do.
    """
    parts = [box("plate", mass, (0.5, 0.4, 0.04)), box("lower"), box("upper", 1.0, (0.2, 0.2, 0.2))]
    q = [[1, 0, 0, 0, 0, pressed, z] for z in (0.02 + height, 0.15 + height, 0.374 + height)]
    run = tb.simulate(
        tb.Model("stack", parts),
        0.6,
        q=np.ravel(q),
        v=[0, 0, 0, 0, 0, 0, 0, 0, 0, 0.3, 0.1, 0, *[0] * 6],
        world=FLOOR,
        record=tb.Record(every=1),
        # rounding leaves 7e-12 of a stack of three
        contact=tb.RigidContact(tolerance=1e-11),
        control=thrust_by_place,
    )
    assert run.status == "finished"
    force = np.abs(run.get("contact_force").values[-200:, :, 2])
    weights = 9.81 * np.array([mass + 3.0, 3.0, 1.0]) + pressed * np.array([0.5, 0.5, 1.0])
    # gaps of 1e-11 m that steps may leave are closed by 2e-5 m/s^2
    np.testing.assert_allclose(force.sum(axis=1), weights.sum(), rtol=1e-7)
    np.testing.assert_allclose(run.q[-200:, 6::7], [[0.02, 0.14, 0.34]] * 200, atol=1e-9)


def test_bodies_that_fall_together_carry_nothing_after_they_met():
    """A box meets a plate in free fall: one impulse, then no force and no gap."""
    model = rough(box("plate_0", 1.0, (0.5, 0.4, 0.04)), box("lander", 2.0, CUBE))
    q = [1, 0, 0, 0, 0, 0, 50.0, 1, 0, 0, 0, 0, 0, 50.14]
    v = [0, 0, 0, 0.2, 0.1, 0, 0, 0, 0, 0.2, 0.1, -0.5]
    run = tb.simulate(
        model,
        0.4,
        q=q,
        v=v,
        world=FLOOR,
        record=tb.Record(every=1),
        contact=tb.RigidContact(tolerance=1e-10, pairs=stacked(model)),
        # the sum of impulses is compared to 1e-9, by default they are solved for to 1e-8
    )
    impulse = 1e-3 * np.abs(run.get("contact_force").values[..., 2]).sum(axis=1)
    assert impulse.max() == pytest.approx(0.5 * 2.0 / 3.0, rel=1e-9)
    force = run.get("contact_force").values[-200:]
    np.testing.assert_allclose(force, 0.0, atol=1e-8)
    np.testing.assert_allclose(run.q[-200:, 13] - run.q[-200:, 6], 0.12, atol=1e-9)


@pytest.mark.parametrize("speed", [0.1, -0.1])
def test_plates_that_slide_below_a_box_that_lands_stay_slow(speed):
    """Whatever their mass: energy decreases, and plates go no further than their speed does."""
    for mass in (1.0, 1e-2, 1e-4):
        run, _ = landing(mass, 0.2, speed=speed)
        assert run.status == "finished"
        moved = np.abs(np.diff(run.q[:, 4]))
        assert moved.max() <= 1e-3 * abs(speed)
        weights = np.repeat([2.0 * mass, 2.0], 3)
        linear, heights = run.v[:, [3, 4, 5, 9, 10, 11]], run.q[:, [6, 13]]
        energy = 0.5 * linear**2 @ weights + 9.81 * heights @ weights[::3]
        assert np.diff(energy).max() < 1e-12
    exact, _ = landing(1.0, 0.2, speed=speed, contact=tb.ExactContact)
    for dt in (1e-3, 2.5e-4):
        run, _ = landing(1.0, 0.2, speed=speed, method=tb.RK4(dt=dt))
        # the slip of the plate ends within a step
        assert np.abs(run.q[-1] - exact.q[-1]).max() < 0.5 * dt * abs(speed)


def test_landings_of_a_batch_have_the_bits_of_single_ones():
    fractions = [0.1, 0.35, 0.5, 0.72, 0.9]
    many, _ = landing(1e-3, fractions, speed=-0.05)
    for k, fraction in enumerate(fractions):
        one, _ = landing(1e-3, fraction, speed=-0.05)
        assert np.array_equal(one.q, many.q[:, k])
        assert np.array_equal(one.v, many.v[:, k])


def test_a_step_without_solution_names_the_contact():
    """A joint that is driven into the ground: no impulse can stop it."""
    inertia = tb.Inertia(1.0, (0, 0, 0), 0.01 * np.eye(3))
    ball = tb.Shape(tb.SphereShape(0.1))
    down, aside = tb.Prismatic("down", (0, 0, 1)), tb.Prismatic("aside", (1, 0, 0))
    press = tb.Driven("press", down, tb.Polynomial((0.11, -1.0)), carried=aside)
    ram = tb.Body("ram", "world", joint=press, inertia=inertia, shapes=(ball,))
    model = tb.Model("press", [ram])
    run = tb.simulate(model, 0.02, world=FLOOR, method=tb.SemiImplicitEuler())
    said = str(run.outcome)
    assert "contact 'ram/ground'" in said
    assert "which goes on closing at 1 m/s" in said
    assert "larger tolerance of RigidContact" in said
    assert run.time[-1] < 0.02


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tolerance": 0.0}, "RigidContact: tolerance: expected a value from 1e-13 to 0.001"),
        ({"tolerance": "fine"}, "RigidContact: tolerance: expected a value"),
        ({"tolerance": 2.0}, r"got 2\.0; write tb\.RigidContact\(\)"),
        ({"law": "coloumb"}, "RigidContact: law: expected 'coulomb' or 'convex'"),
    ],
)
def test_wrong_tolerances_and_laws_are_refused(options, words):
    with pytest.raises(tb.TiburonError, match=words):
        tb.RigidContact(**options)


def test_a_stack_of_nearly_aligned_boxes_does_not_twist():
    """Equal boxes turned and shifted by 1e-15 to 1e-7: contacts keep their places, and forces."""
    size = (0.1, 0.1, 0.1)
    model = rough(*(box(name, 1.0, size) for name in ("plate_0", "plate_1", "lander")))
    rng = np.random.default_rng(0)
    starts = []
    for off in (1e-15, 1e-13, 1e-11, 1e-9, 1e-7):
        turns, shifts = 0.5 * off * rng.uniform(-1, 1, 3), 0.1 * off * rng.uniform(-1, 1, (3, 2))
        starts.append(
            [
                x
                for k in range(3)
                for x in (np.cos(turns[k]), 0, 0, np.sin(turns[k]), *shifts[k], 0.05 + 0.1 * k)
            ]
        )
    world = tb.World(ground=tb.Ground(static_friction=0.5))
    run = tb.simulate(
        model,
        1.0,
        q=np.array(starts),
        world=world,
        contact=tb.DefaultContact(pairs=stacked(model)),
        record=tb.Record(dt=0.5),
    )
    # by the tolerance of the solver in the first steps; contacts that changed places gave 1e-6
    assert np.abs(run.q[-1] - run.q[0]).max() < 1e-10


def test_a_scene_that_is_turned_about_the_vertical_moves_alike():
    """Boxes that tumble, land and slide: no step differs by more than 1e-10 of their size.

    Gravity, level ground and the cone of friction have no heading, so that solvers must not have
    one either: where they did, by maximum norms, steps differed by up to 9e-6 m.
    """
    count, size = 64, (0.4, 0.3, 0.2)
    rng = np.random.default_rng(5)
    model = tb.Model("scene", [box("block", 2.0, size)])
    u = rng.normal(size=(count, 4))
    u /= np.linalg.norm(u, axis=1)[:, None]
    q = np.c_[u, np.zeros((count, 2)), np.full(count, 0.5)]
    v = rng.normal(size=(count, 6)) * [3, 3, 3, 1, 1, 1]
    angle = np.deg2rad(37.0)
    c, s = np.cos(angle / 2), np.sin(angle / 2)
    w, x, y, z = u.T
    turned = np.c_[c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w, q[:, 4:]]
    world = tb.World(ground=tb.Ground(static_friction=0.5))
    one, other = (
        tb.simulate(model, 0.45, q=start, v=v, world=world, record=tb.Record(every=1)).q
        for start in (q, turned)
    )
    back = other[..., 4:].copy()
    cosine, sine = np.cos(angle), np.sin(angle)
    back[..., :2] = other[..., 4:6] @ [[cosine, -sine], [sine, cosine]]
    steps = np.diff(np.abs(one[..., 4:] - back).max(axis=-1), axis=0)
    assert steps.max() < 1e-10 * max(size)
