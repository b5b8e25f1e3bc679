"""Laws and tolerance of rigid contact in runs: lift-off, stacks, residuals, what is refused."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb

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
    given = {"dt": 1e-3, "contact_law": law, "record_every": 1} | options
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
        tb.simulate(BOX, 0.05, q=LYING, world=slope, contact_law=law)
        for law in ("coulomb", "convex")
    ]
    np.testing.assert_allclose(runs[0].q, runs[1].q, atol=1e-9)


def test_the_tolerance_bounds_the_residual_of_each_step():
    for tolerance in (1e-6, 1e-12):
        run = slide("coulomb", contact_tolerance=tolerance)
        assert run.contact_summary().residual <= tolerance
        assert run.contact_summary().iterations > 0


CUBE = (0.2, 0.2, 0.2)
TWO = tb.Model("two", [box("light", 1.0, CUBE), box("heavy", 1e4, CUBE)])
PILED = [1, 0, 0, 0, 0, 0, 0.1, 1, 0, 0, 0, 0, 0, 0.3]


def piled(tolerance):
    """Return a run of a heavy box on a light one, a mass ratio of 10^4."""
    return tb.simulate(
        TWO,
        0.02,
        q=PILED,
        world=FLOOR,
        contact_pairs=[("light", "world"), ("light", "heavy")],
        contact_tolerance=tolerance,
        method="semi_implicit_euler",
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
    plate, heavy = box("plate", 1.0, (0.3, 0.3, 0.02)), box("heavy", ratio, CUBE)
    material = tb.ContactMaterial(0.5)
    model = tb.Model(
        "two",
        [
            replace(one, shapes=(replace(one.shapes[0], material=material),))
            for one in (plate, heavy)
        ],
    )
    q = np.array([1, 0, 0, 0, 0, 0, 0.01, np.cos(0.15), 0, 0, np.sin(0.15), 0.01, 0.02, 0.12])
    v = np.zeros(12)
    v[9:11] = [0.4, 0.3]
    world = tb.World(ground=tb.Ground(static_friction=0.5))
    run = tb.simulate(
        model, 0.01, q=q, v=v, world=world, contact_pairs=[("plate", "world"), ("heavy", "plate")]
    )
    assert run.status == "finished"
    # 1e-8 of 98 N s leave a plate of 1 kg with 1e-6 m/s, corrected in the next step
    assert np.abs(run.q[:, :7] - q[:7]).max() < 1e-9
    moved = np.linalg.norm(run.q[-1, 11:14] - q[11:14])
    assert moved == pytest.approx(0.5 * 0.01 - 0.5 * 0.5 * 9.81 * 0.01**2, abs=1e-8)


def test_a_step_without_solution_names_the_contact():
    """A joint that is driven into the ground: no impulse can stop it."""
    inertia = tb.Inertia(1.0, (0, 0, 0), 0.01 * np.eye(3))
    ball = tb.Shape(tb.SphereShape(0.1))
    down, aside = tb.Prismatic("down", (0, 0, 1)), tb.Prismatic("aside", (1, 0, 0))
    press = tb.Driven("press", down, tb.Polynomial((0.11, -1.0)), carried=aside)
    ram = tb.Body("ram", "world", joint=press, inertia=inertia, shapes=(ball,))
    model = tb.Model("press", [ram])
    run = tb.simulate(model, 0.02, world=FLOOR, method="semi_implicit_euler")
    said = str(run.outcome)
    assert "contact 'ram/ground'" in said
    assert "which goes on closing at 1 m/s" in said
    assert "larger contact_tolerance" in said
    assert run.time[-1] < 0.02


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"contact_tolerance": 0.0}, "contact_tolerance: expected a value from 1e-13 to 0.001"),
        ({"contact_tolerance": "fine"}, "contact_tolerance: expected a value"),
        ({"contact_law": "coloumb"}, "contact_law with rigid contact"),
        ({"contact_tolerance": 1e-9, "contact": False}, "contact_tolerance: expected a model"),
    ],
)
def test_wrong_tolerances_and_laws_are_refused(options, words):
    with pytest.raises(tb.TiburonError, match=words):
        tb.simulate(BOX, 0.01, q=LYING, world=FLOOR, **options)


def test_a_stack_of_nearly_aligned_boxes_does_not_twist():
    """Equal boxes turned and shifted by 1e-15 to 1e-7: contacts keep their places, and forces."""
    material = tb.ContactMaterial(0.5)
    boxes = [
        tb.Body(
            f"box{k}",
            joint=tb.Free(f"box{k}"),
            inertia=tb.Inertia.box(1.0, (0.1, 0.1, 0.1)),
            shapes=(tb.Shape(tb.BoxShape((0.1, 0.1, 0.1)), material=material),),
        )
        for k in range(3)
    ]
    model = tb.Model("stack", boxes)
    pairs = [("box0", "world"), ("box0", "box1"), ("box1", "box2")]
    rng = np.random.default_rng(0)
    starts = []
    for size in (1e-15, 1e-13, 1e-11, 1e-9, 1e-7):
        turns, shifts = 0.5 * size * rng.uniform(-1, 1, 3), 0.1 * size * rng.uniform(-1, 1, (3, 2))
        starts.append(
            [
                x
                for k in range(3)
                for x in (np.cos(turns[k]), 0, 0, np.sin(turns[k]), *shifts[k], 0.05 + 0.1 * k)
            ]
        )
    world = tb.World(ground=tb.Ground(static_friction=0.5))
    run = tb.simulate(
        model, 1.0, q=np.array(starts), world=world, contact_pairs=pairs, record_dt=0.5
    )
    # by the tolerance of the solver in the first steps; contacts that changed places gave 1e-6
    assert np.abs(run.q[-1] - run.q[0]).max() < 1e-10
