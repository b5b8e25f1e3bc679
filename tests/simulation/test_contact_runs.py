"""Runs with rigid contact: bits, checkpoints, closed loops, and what is refused."""

import numpy as np
import pytest

import tiburon as tb
from tests.contact_models import CONTACTS
from tests.integrators import integrator

FLOOR = tb.World(ground=tb.Ground(static_friction=0.8, kinetic_friction=0.7, restitution=0.2))
DOG = tb.load("quadruped")
STAND = np.array(DOG.poses["stand"])


BARE = tb.Model(
    "bare",
    [
        tb.Body("rod", joint=tb.Free("rod"), inertia=tb.Inertia.sphere(1.0, 0.1)),
        tb.Body(
            "ball",
            joint=tb.Free("ball"),
            inertia=tb.Inertia.sphere(1.0, 0.1),
            shapes=(tb.Shape(tb.SphereShape(0.1)),),
        ),
    ],
)


@tb.traced
def hold(state):
    forces = [100.0 * (float(a) - q) for a, q in zip(STAND[7:], state.q[7:], strict=True)]
    return [0.0] * 6 + [f - 3.0 * v for f, v in zip(forces, state.v[6:], strict=True)]


def dropped(cases):
    """Dogs that fall from different heights, tilted and turning: feet land and lift again."""
    rng = np.random.default_rng(2)
    q = np.tile(STAND, (cases, 1))
    q[:, 6] += np.linspace(0.03, 0.12, cases)
    v = 0.4 * rng.standard_normal((cases, DOG.nv))
    return q, v


def run(duration, q, v, **options):
    return tb.simulate(DOG, duration, q=q, v=v, world=FLOOR, control=hold, **options)


def test_one_case_of_a_batch_has_the_bits_of_a_run_alone():
    q, v = dropped(9)
    many = run(0.25, q, v, execution=tb.Execution(threads=2))
    one_thread = run(0.25, q, v, execution=tb.Execution(threads=1))
    assert np.array_equal(many.q, one_thread.q)
    assert np.array_equal(many.z, one_thread.z)
    for case in (0, 5, 8):
        alone = run(0.25, q[case], v[case])
        assert np.array_equal(many.q[:, case], alone.q)
        assert np.array_equal(many.z[:, case], alone.z)
    touched = many.contact_summary().touching
    assert ((touched > 0.0) & (touched < 1.0)).all()


def test_boxes_that_fall_onto_each_other_have_the_bits_of_any_batch():
    """Solvers hold contacts that are far in this case because they are near in another one."""
    bodies = [
        tb.Body(
            name,
            joint=tb.Free(name),
            inertia=tb.Inertia.box(mass, size),
            shapes=(tb.Shape(tb.BoxShape(size)),),
        )
        for name, mass, size in (
            ("plate", 1.0, (0.5, 0.5, 0.05)),
            ("large", 2.0, (0.2, 0.2, 0.2)),
            ("small", 0.3, (0.15, 0.15, 0.15)),
        )
    ]
    model = tb.Model("stack", bodies)
    rng = np.random.default_rng(2)
    cases = 24
    q, v = np.zeros((cases, 21)), 0.3 * rng.normal(size=(cases, 18))
    for place, height in enumerate((0.025, 0.26, 0.55)):
        tilt = 0.15 * rng.normal(size=(cases, 3)) * bool(place)
        turn = np.concatenate([np.ones((cases, 1)), tilt], axis=1)
        q[:, 7 * place : 7 * place + 4] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
        q[:, 7 * place + 6] = height
    v[:, :6] = 0.0
    world = tb.World(ground=tb.Ground(static_friction=0.4))
    many = tb.simulate(model, 0.3, q=q, v=v, world=world)
    order = rng.permutation(cases)
    others = tb.simulate(model, 0.3, q=q[order], v=v[order], world=world)
    assert others.q.tobytes() == many.q[:, order].tobytes()
    for case in (0, 6):
        alone = tb.simulate(model, 0.3, q=q[case], v=v[case], world=world)
        assert alone.q.tobytes() == many.q[:, case].tobytes()


def test_a_resumed_run_has_the_bits_of_one_that_was_not_interrupted(tmp_path):
    q, v = dropped(3)
    whole = run(0.2, q, v)
    half = run(0.1, q, v)
    assert np.array_equal(half.resume(0.1).q, whole.q)
    half.save(tmp_path / "run")
    # functions are not saved with a run
    again = tb.load_run(tmp_path / "run").resume(0.1, control=hold)
    assert np.array_equal(again.q[-1], whole.q[-1])


def test_standing_quadruped_carries_its_weight_and_stays():
    settled = run(12.0, STAND, np.zeros(DOG.nv), record=tb.Record(dt=1.0))
    force = settled.z[-1, :16].reshape(4, 4)
    weight = 9.81 * sum(body.inertia.mass for body in DOG.bodies)
    np.testing.assert_allclose(force[:, :3].sum(axis=0), [0, 0, weight], atol=1e-5)
    assert force[:, 3].all()
    summary = settled.contact_summary()
    assert summary.depth.max() < 1e-9
    assert summary.residual < 1e-8
    assert "front_left_foot" in str(summary)


@pytest.mark.parametrize("contact", ["rigid", "exact", "compliant"])
def test_contacts_without_friction_slide(contact):
    """Without kinetic friction a body that slides goes on; without any, none sticks at rest."""
    springs = {"normal_stiffness": 1e4, "normal_damping": 50.0} if contact == "compliant" else {}
    ball = tb.Model("ball", [BARE.bodies[-1]])
    slides = tb.Ground(static_friction=0.8, kinetic_friction=0.0, **springs)
    for ground, speed in ((slides, 1.0), (tb.Ground(**springs), 0.0)):
        found = tb.simulate(
            ball,
            0.02,
            q=[1, 0, 0, 0, 0, 0, 0.1],
            v=[0, 0, 0, speed, 0, 0],
            world=tb.World(ground=ground),
            contact=CONTACTS[contact],
            record=tb.Record(dt=1e-3),
        )
        np.testing.assert_allclose(found.v[-1, :5], [0, 0, 0, speed, 0], atol=1e-14)
        assert (found.get("contact_mode").values[1:] == 1.0).all()


@pytest.mark.parametrize("friction", [0.0, 0.4])
def test_bodies_that_fall_together_slip_on_each_other_without_a_force(friction):
    """Their relative normal velocity is rounding, and so is every impulse."""
    surface = tb.ContactMaterial(static_friction=friction)
    sizes = {"box": (0.2, 0.2, 0.1), "plate": (0.6, 0.6, 0.1)}
    bodies = [
        tb.Body(
            name,
            joint=tb.Free(name),
            inertia=tb.Inertia.box(2.0, size),
            shapes=(tb.Shape(tb.BoxShape(size), material=surface),),
        )
        for name, size in sizes.items()
    ]
    model = tb.Model("pair", bodies)
    rng = np.random.default_rng(0)
    v = np.zeros((40, 12))
    v[:, [2, 3, 4, 9, 10]] = rng.standard_normal((40, 5))
    # some land on the plate, however slowly
    v[1::2, 5] = -(10.0 ** rng.integers(-17, -4, 20))
    q = [1, 0, 0, 0, 0.02, 0, 2.3, 1, 0, 0, 0, 0, 0, 2.2]
    falling = tb.simulate(
        model, 0.02, q=np.tile(q, (40, 1)), v=v, world=FLOOR, contact=tb.RigidContact()
    )
    assert {outcome.message for outcome in falling.outcomes} == {"finished at 0.02 s"}
    # 1e-4 m/s is the fastest landing
    assert np.abs(falling.q[-1, :, 3] - np.sin(0.01 * v[:, 2])).max() < 1e-4
    np.testing.assert_allclose(falling.q[-1, :, 13], 2.2 - 0.5 * 9.81 * 0.02**2, atol=1e-5)
    assert falling.contact_summary().residual < 1e-8


def test_friction_of_the_ground_is_a_parameter_that_compiles_nothing():
    q, v = dropped(1)
    v = v.copy()
    v[:, 3] += 1.0
    ends = []
    for friction in (0.1, 0.9):
        world = tb.World(ground=tb.Ground(static_friction=friction))
        found = tb.simulate(DOG, 0.3, q=q[0], v=v[0], world=world, control=hold)
        ends.append(found.q[-1, 4])
    assert ends[0] > ends[1] + 0.01


@pytest.mark.parametrize("method", ["rk4", "semi_implicit_euler"])
def test_contact_of_closed_loops_does_not_depend_on_the_cut_joint(method):
    bar = tb.load("four_bar")
    middle = tb.ContactPoint("knee", "coupler", (0.3, 0.0, 0.0))
    bar = tb.Model(
        "bar", bar.bodies, bar.frames, loops=bar.loops, contacts=(middle,), poses=bar.poses
    )
    other = tb.recut(bar)
    # the crank falls until the coupler rests on the ground
    # without friction, which would make forces of this mechanism indeterminate
    world = tb.World(ground=tb.Ground(height=0.2))
    q = np.array(bar.poses["home"])
    first = tb.simulate(
        bar, 0.6, q=q, world=world, method=integrator(method), record=tb.Record(dt=0.1)
    )
    start = tb.recut_state(bar, other, q)[0]
    second = tb.simulate(
        other, 0.6, q=start, world=world, method=integrator(method), record=tb.Record(dt=0.1)
    )
    for model, found in ((bar, first), (other, second)):
        assert found.contact_summary().touching[0] > 0.1
        gap = tb.contacts(model, found.q, world=world).gap
        assert gap.min() > -1e-9
        assert np.abs(tb.constraint_residual(model, found.q)).max() < 1e-9
    places = [
        tb.contacts(model, found.q, world=world).point
        for model, found in ((bar, first), (other, second))
    ]
    np.testing.assert_allclose(places[0], places[1], atol=1e-6)
    np.testing.assert_allclose(first.z[:, :3], second.z[:, :3], atol=1e-3)


def test_named_pairs_replace_those_that_are_found():
    def ball(name, x):
        joint = tb.Free(name, pose=tb.Pose(translation=(x, 0.0, 0.0)))
        inertia = tb.Inertia(1.0, (0, 0, 0), np.eye(3) * 0.01)
        shapes = (tb.Shape(tb.SphereShape(0.1)),)
        return tb.Body(name, "world", joint=joint, inertia=inertia, shapes=shapes)

    balls = tb.Model("balls", [ball("a", 0.0), ball("b", 0.5), ball("c", 1.0)])
    here = tb.contacts(balls, balls.neutral(), pairs=[("a", "c")])
    assert here.names == ("a/c",)
    assert here.gap == pytest.approx([0.8])
    assert tb.contacts(balls, balls.neutral()).names == ("a/b", "a/c", "b/c")


def test_initial_penetration_is_refused_or_lifted_out():
    low = STAND.copy()
    low[6] -= 0.02
    with pytest.raises(tb.DomainError, match=r"'front_left_foot'.*0\.02 m.*lift_out"):
        run(0.1, low, np.zeros(DOG.nv))
    free = tb.lift_out(DOG, low, world=FLOOR)
    assert tb.contacts(DOG, free, world=FLOOR).gap.min() > -1e-11
    assert run(0.05, free, np.zeros(DOG.nv)).status == "finished"


@pytest.mark.parametrize("record_every", [1, 3])
def test_outcomes_tell_the_deepest_penetration_of_all_steps(record_every):
    """Contact, depth and time of boxes that tumble fast for their steps; of one at rest nothing."""
    size = (0.3, 0.2, 0.1)
    part = tb.Body(
        "box",
        joint=tb.Free("box"),
        inertia=tb.Inertia.box(2.0, size),
        shapes=(tb.Shape(tb.BoxShape(size)),),
    )
    model = tb.Model("box", [part])
    # steps are parted at collisions with restitution, which leaves no penetration
    floor = tb.World(ground=tb.Ground(static_friction=0.8, kinetic_friction=0.7))
    q = np.array([[1.0, 0, 0, 0, 0, 0, 0.05], [0.8, 0.2, 0.5, -0.3, 0, 0, 0.25]])
    q[:, :4] /= np.linalg.norm(q[:, :4], axis=1)[:, None]
    v = np.array([[0.0] * 6, [9.46, -0.44, -19.58, 0.5, 1.6, -2.3]])
    steps = 30
    found = tb.simulate(
        model,
        0.05 * steps,
        method=tb.RK4(dt=0.05),
        q=q,
        v=v,
        world=floor,
        record=tb.Record(every=record_every),
    )
    # every step of the same run
    all_steps = tb.simulate(
        model,
        0.05 * steps,
        method=tb.RK4(dt=0.05),
        q=q,
        v=v,
        world=floor,
        record=tb.Record(every=1),
    )
    here = tb.contacts(model, all_steps.q[:, 1], world=floor)
    row, point = np.unravel_index(np.argmin(here.gap), here.gap.shape)
    deepest = found.contact_summary().deepest
    assert deepest.name == here.names[point]
    assert deepest.depth == pytest.approx(-here.gap.min(), rel=1e-9)
    assert deepest.depth > 2e-4
    assert deepest.time == pytest.approx(all_steps.time[row], abs=1e-12)
    assert deepest.case == 1
    message = found.outcomes[1].message
    assert f"contact {deepest.name!r} penetrated by {deepest.depth:.2g} m at" in message
    assert f"{deepest.time:.6g} s" in message
    assert "penetrated" not in found.outcomes[0].message
    assert deepest.name in str(found.contact_summary())
    # a run that ends with the step that penetrates, and the same run resumed
    short = tb.simulate(model, 0.05 * row, method=tb.RK4(dt=0.05), q=q[1], v=v[1], world=floor)
    for part in (short, short.resume(0.05 * (steps - row))):
        end = part.contact_summary().deepest
        assert end.name == deepest.name
        assert end[1:3] == pytest.approx(deepest[1:3], rel=1e-9)
        assert f"contact {deepest.name!r} penetrated by" in part.outcome.message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: run(0.1, STAND, None, contact="soft"),
            "contact: expected a model of contact, got 'soft'",
        ),
        (lambda: run(0.1, STAND, None, method=tb.DormandPrince()), "method with rigid contact"),
        (
            lambda: run(0.1, STAND, None, contact=tb.DefaultContact(pairs=[("trunk",)])),
            "pairs: expected",
        ),
        (
            lambda: tb.simulate(tb.load("pendulum"), 0.1, contact=tb.RigidContact()),
            "got none; give the",
        ),
        (lambda: tb.Ground(static_friction=0.2, kinetic_friction=0.3), "kinetic_friction must be"),
        (lambda: tb.Ground(restitution=1.2), "restitution must be between 0 and 1"),
        (lambda: tb.ContactMaterial(static_friction=-1.0), "static_friction must be at least 0"),
        (
            lambda: tb.contacts(
                DOG,
                STAND,
                world=tb.World(ground=tb.Ground(grid=tb.GroundGrid((1, 1), np.zeros((2, 2))))),
            ),
            "over the grid of the ground; enlarge the grid",
        ),
        (lambda: tb.contacts(DOG, STAND), "got none; give the world a Ground"),
        (lambda: tb.contacts(DOG, STAND, pairs=[("a", "b")]), "'a'"),
        (lambda: tb.contacts(DOG, STAND, world=FLOOR, pairs=[("trnk", "world")]), "'trunk'"),
        (lambda: tb.contacts(DOG, STAND, pairs=[("trunk", "trunk")]), "got one twice"),
        (
            lambda: tb.simulate(
                DOG, 0.1, q=STAND, contact=tb.DefaultContact(pairs=[("trunk", "world")])
            ),
            r"\('trunk', 'world'\): expected a world with ground, got none",
        ),
        (
            lambda: tb.simulate(
                BARE, 0.1, world=FLOOR, contact=tb.DefaultContact(pairs=[("rod", "world")])
            ),
            "expected contact points or collision shapes of 'rod', got none",
        ),
        (
            lambda: tb.simulate(
                BARE, 0.1, world=FLOOR, contact=tb.DefaultContact(pairs=[("rod", "ball")])
            ),
            "expected collision shapes of 'rod', got none",
        ),
    ],
)
def test_invalid_contact_arguments_are_refused(call, message):
    with pytest.raises(tb.TiburonError, match=message):
        call()


def test_contact_false_lets_robots_fall_through_the_ground():
    found = tb.simulate(DOG, 0.5, q=STAND, world=FLOOR, contact=None)
    assert found.q[-1, 6] < -0.5
    with pytest.raises(tb.ModelError, match="expected a run with contact, got none"):
        found.contact_summary()


def test_materials_are_kept_in_native_files(tmp_path):
    rubber = tb.ContactMaterial(static_friction=0.9, kinetic_friction=0.8, restitution=0.1)
    body = tb.Body(
        "foot",
        "world",
        joint=tb.Free("foot"),
        inertia=tb.Inertia(1.0, (0, 0, 0), np.eye(3)),
        shapes=(tb.Shape(tb.SphereShape(0.1), material=rubber),),
    )
    model = tb.Model("foot", [body], contacts=[tb.ContactPoint("sole", "foot", material=rubber)])
    tb.save(model, tmp_path / "foot.toml")
    again = tb.load(tmp_path / "foot.toml")
    assert again.contacts[0].material == rubber
    assert again.body("foot").shapes[0].material == rubber


def test_bodies_fixed_to_the_world_touch_nothing_fixed():
    shape = (tb.Shape(tb.SphereShape(0.1)),)
    inertia = tb.Inertia(1.0, (0, 0, 0), np.eye(3))
    base = tb.Body("base", "world", joint=tb.Fixed("weld"), inertia=inertia, shapes=shape)
    arm = tb.Body(
        "arm",
        "base",
        joint=tb.Revolute("hinge", (0, 1, 0), pose=tb.Pose(translation=(0, 0, 1.0))),
        inertia=tb.Inertia(1.0, (0.5, 0, 0), np.eye(3)),
        shapes=(tb.Shape(tb.SphereShape(0.1), tb.Pose(translation=(1.2, 0, 0))),),
    )
    model = tb.Model("arm", [base, arm])
    world = tb.World(ground=tb.Ground())
    assert tb.contacts(model, [0.0], world=world).names == ("arm/ground",)
    # the arm falls onto the ground and stays there
    run = tb.simulate(model, 2.0, world=world)
    assert tb.contacts(model, run.q[-1], world=world).gap == pytest.approx([0.0], abs=1e-9)


def test_prescribed_motion_is_refused_where_its_time_is_unknown():
    inertia = tb.Inertia(1.0, (0, 0, 0), np.eye(3))
    joint = tb.Driven("belt", tb.Prismatic("belt", (1, 0, 0)), tb.Polynomial((0.0, 0.1)))
    body = tb.Body(
        "belt", "world", joint=joint, inertia=inertia, shapes=(tb.Shape(tb.SphereShape(0.1)),)
    )
    ball = tb.Body("ball", "world", joint=tb.Free("ball"), inertia=inertia, shapes=body.shapes)
    model = tb.Model("belt", [body, ball])
    floor = tb.World(ground=tb.Ground(height=-1.0))
    with pytest.raises(tb.ModelError, match=r"joint 'belt'.*prescribed motion"):
        tb.contact_dependence(model, model.neutral(), world=floor)
    with pytest.raises(tb.ModelError, match=r"joint 'belt'.*prescribed motion"):
        tb.contact_closure(model, "belt/ball", world=floor)


def test_resumed_runs_keep_their_ground():
    """Another ground would be ignored: it is refused."""
    body = tb.Body(
        "ball",
        joint=tb.Free("ball"),
        inertia=tb.Inertia(1.0, (0, 0, 0), 0.004 * np.eye(3)),
        shapes=(tb.Shape(tb.SphereShape(0.1)),),
    )
    ball = tb.Model("ball", [body])
    floor = tb.World(ground=tb.Ground(static_friction=0.5))
    run = tb.simulate(ball, 0.01, q=[1, 0, 0, 0, 0, 0, 0.1], world=floor)
    run.resume(0.01, world=floor)
    with pytest.raises(tb.ModelError, match="resume: the ground"):
        run.resume(0.01, world=tb.World(ground=tb.Ground(static_friction=0.1)))


@pytest.mark.slow
def test_a_mechanism_of_many_loops_stands_on_rigid_ground():
    """Twelve legs in 36 loops, one and in a batch: hundreds of calls in one step."""
    beest = tb.load("strandbeest")
    world = tb.World(ground=tb.Ground(static_friction=0.6))
    q = tb.lift_out(beest, beest.neutral(), world=world)
    options = {
        "world": world,
        "contact": tb.RigidContact(),
        "method": tb.RK4(dt=1e-3),
        "execution": tb.Execution(progress=False),
    }
    one = tb.simulate(beest, 5e-3, q=q, **options)
    two = tb.simulate(beest, 5e-3, q=np.tile(q, (2, 1)), **options)
    summary = one.contact_summary()
    assert one.status == "finished"
    assert summary.touching.max() > 0.0
    assert summary.residual <= 1e-8
    assert summary.depth.max() < 1e-10
    assert np.array_equal(two.q[:, 1], one.q)
    assert np.array_equal(two.v[:, 0], one.v)


def two_links(**options):
    """Return two links of one tree with balls at their ends, the second on a bent first one."""
    ball = (tb.Shape(tb.SphereShape(0.1)),)
    own = tb.Inertia(1.0, (0.05, 0.0, 0.0), (0.02, 0, 0, 0.03, 0, 0.03))
    post = tb.Body("post", joint=tb.Revolute("turn", (0.0, 1.0, 0.0)), inertia=own, shapes=ball)
    slide = tb.Prismatic("slide", (0.0, 0.0, 1.0), pose=tb.Pose(translation=(0.03, 0.0, 0.5)))
    mass = tb.Body("mass", "post", joint=slide, inertia=own, shapes=ball)
    return tb.Model("links", [post, mass], **options)


def fall_on_post(model, **options):
    return tb.simulate(
        model,
        0.4,
        q=[0.1, 0.0],
        v=[0.2, -0.5],
        **{"method": tb.RK4(dt=2e-3), "execution": tb.Execution(progress=False), **options},
    )


@pytest.mark.parametrize("contact", [None, "rigid", "compliant", "exact"])
def test_pairs_of_the_model_alone_give_contact(contact):
    """A link that falls on another one of its tree stays outside it, in a world without ground."""
    stiff = tb.ContactMaterial(normal_stiffness=1e5, normal_damping=200.0)
    paired = two_links(contact_pairs=[tb.ContactPair("mass", "post", material=stiff)])
    options = {} if contact is None else {"contact": CONTACTS[contact]}
    if contact == "exact":
        options["method"] = tb.Dop853(rtol=1e-12, atol=1e-13, dt=2e-3)
    found = fall_on_post(paired, **options)
    gap = tb.contacts(paired, found.q).gap
    # compliant contact of 1e5 N/m gives way by m g / k and m v / sqrt(k m): below 2 cm at 3 m/s
    assert gap.min() > (-0.02 if contact == "compliant" else -1e-5)
    assert gap.min() < 1e-3
    assert found.header.column("z") is not None
    # the caller decides: without contact, or with other pairs, the mass falls through
    assert tb.contacts(paired, fall_on_post(paired, contact=None).q).gap.min() < -0.1


def test_pairs_that_do_not_touch_give_no_contact():
    """Excluded pairs and pairs with a ground that is not there leave runs as they are."""
    for pair in (tb.ContactPair("mass", "post", touches=False), tb.ContactPair("mass", "world")):
        found = fall_on_post(two_links(contact_pairs=[pair]))
        assert np.array_equal(found.q, fall_on_post(two_links()).q)


def test_pairs_of_the_model_act_in_steppers_and_linearizations():
    """Every way to run a robot has the contacts that its model names."""
    paired = two_links(contact_pairs=[tb.ContactPair("mass", "post")])
    whole = fall_on_post(paired, record=tb.Record(every=1))
    steps = tb.stepper(paired, method=tb.RK4(dt=2e-3))
    state = steps.start(q=[[0.1, 0.0]], v=[[0.2, -0.5]])
    for _ in range(200):
        state = steps.step(state).state
    np.testing.assert_array_equal(state.q[0], whole.q[-1])
    # the first step in contact: linearized with the impulse that stops the mass
    k = int(np.argmax(tb.contacts(paired, whole.q).gap < 1e-6))
    given = whole.q[k], whole.v[k], np.zeros(2)
    found = tb.linearize(paired, *given, dt=2e-3)
    assert found.modes.any()
    with pytest.raises(tb.ModelError, match="rigid contact acts in steps"):
        tb.linearize(paired, *given)
    free = tb.linearize(paired, *given, dt=2e-3, contact=None)
    assert not np.allclose(found[0], free[0])
