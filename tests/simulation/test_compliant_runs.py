"""Runs with compliant contact: bits, combination with batches, grids, water and loops, refusals."""

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator
from tiburon.model.contact_kinds import disc_points

DOG = tb.load("quadruped")
STAND = np.array(DOG.poses["stand"])
SURFACE = {
    "static_friction": 0.8,
    "kinetic_friction": 0.7,
    "normal_stiffness": 1e4,
    "normal_damping": 40.0,
}
FLOOR = tb.World(ground=tb.Ground(**SURFACE))


@tb.traced
def hold(state):
    torque = [100.0 * (float(a) - q) for a, q in zip(STAND[7:], state.q[7:], strict=True)]
    return [0.0] * 6 + [t - 3.0 * v for t, v in zip(torque, state.v[6:], strict=True)]


def run(duration, q=STAND, v=None, **options):
    options = {"world": FLOOR, "control": hold, "record": tb.Record(every=5), **options}
    return tb.simulate(DOG, duration, q=q, v=v, **options)


def kicked(cases):
    generator = np.random.default_rng(2)
    q = np.tile(STAND, (cases, 1))
    q[:, 6] += 0.03 * generator.random(cases)
    return q, generator.standard_normal((cases, DOG.nv)) * np.r_[[0.5] * 6, [1.0] * 12]


def test_single_batch_and_resumed_runs_agree_in_bits_while_contacts_open_and_close():
    q, v = kicked(7)
    whole = run(0.3, q, v)
    touching = whole.z[..., 2] > 0.0
    assert 0.2 < touching.mean() < 0.95
    for case in (0, 6):
        one = run(0.3, q[case], v[case])
        assert one.q.tobytes() == whole.q[:, case].tobytes()
        assert one.z.tobytes() == whole.z[:, case].tobytes()
    part = run(0.11, q, v).resume(0.19)
    assert part.q[-1].tobytes() == whole.q[-1].tobytes()
    assert part.z[-1].tobytes() == whole.z[-1].tobytes()
    threads = run(0.3, q, v, execution=tb.Execution(threads=2))
    assert threads.z.tobytes() == whole.z.tobytes()


@pytest.mark.parametrize("when", [0.02, 0.0205])
@pytest.mark.parametrize("method", ["rk4", "semi_implicit_euler"])
def test_forces_end_where_an_action_moves_a_robot_off_the_ground(when, method):
    """At the end of a step or within one: steps begin with the forces of their state."""
    ball = tb.Body(
        "ball",
        joint=tb.Free("ball"),
        inertia=tb.Inertia.sphere(2.0, 0.1),
        shapes=(tb.Shape(tb.SphereShape(0.1)),),
    )
    model = tb.Model("ball", [ball])

    def lifted(state):
        return {"q": [*state.q[:6], 1.0], "v": np.zeros(6)}

    found = tb.simulate(
        model,
        0.05,
        q=[1, 0, 0, 0, 0, 0, 0.099],
        world=FLOOR,
        method=integrator(method, dt=1e-3),
        record=tb.Record(every=1),
        events=[tb.TimeEvent("lift", when, action=lifted)],
    )
    assert found.z[:20, 2].min() > 10.0
    np.testing.assert_allclose(found.v[-1, 5], -9.81 * (0.05 - when), atol=1e-12)
    assert np.all(found.z[-1, :3] == 0.0)


def test_the_default_is_compliant_where_the_ground_has_a_stiffness():
    chosen = run(0.05)
    assert chosen.q.tobytes() == run(0.05, contact=tb.CompliantContact()).q.tobytes()
    assert chosen.q.tobytes() != run(0.05, contact=tb.RigidContact()).q.tobytes()


def test_forces_carry_the_weight_and_are_recorded_at_the_start():
    low = STAND.copy()
    low[6] -= 2e-3
    found = run(1.5, low)
    points = found.z[:, :16].reshape(-1, 4, 4)
    depth = -tb.contacts(DOG, low, world=FLOOR).gap
    np.testing.assert_allclose(points[0, :, 2], 1e4 * depth, rtol=1e-12)
    weight = 9.81 * sum(body.inertia.mass for body in DOG.bodies)
    assert points[-1, :, 2].sum() == pytest.approx(weight, rel=2e-3)
    summary = found.contact_summary()
    assert summary.names == tuple(point.name for point in DOG.contacts)
    assert np.all(summary.touching == 1.0)
    assert summary.residual == 0.0
    assert "front_left_foot" in str(summary)


def test_a_flat_grid_is_a_plane():
    flat = tb.GroundGrid((0.5, 0.5), np.zeros((9, 9)), (-2.0, -2.0))
    world = tb.World(ground=tb.Ground(grid=flat, **SURFACE))
    q, v = kicked(1)
    plane, grid = run(0.2, q[0], v[0]), run(0.2, q[0], v[0], world=world)
    assert np.abs(plane.q - grid.q).max() < 1e-12
    far = run(1.0, STAND, np.r_[0, 0, 0, 12.0, 0, 0, np.zeros(12)], world=world)
    assert far.status == "diverged"
    assert "beyond the grid" in str(far.outcome)


def test_robot_in_water_stands_with_its_weight_minus_buoyancy():
    robot = tb.load("aquarobot")
    surface = {**SURFACE, "normal_stiffness": 3e4, "normal_damping": 300.0}
    ground = tb.Ground(height=-5.0, **surface)
    q = np.array(robot.poses["stand"])
    world = tb.World(ground=ground)
    q[6] -= tb.contacts(robot, q, world=world).gap.min() + 1e-3
    stand = q.copy()
    legs = [
        (robot.slice(j.name, of="q").start, robot.slice(j.name, of="v").start)
        for j in robot.joints
        if j.kind == "revolute"
    ]

    @tb.traced
    def stiff(state):
        force = [0.0] * robot.nv
        for a, b in legs:
            force[b] = 3e4 * (float(stand[a]) - state.q[a]) - 2e3 * state.v[b]
        return force

    carried = []
    for fluid in (None, tb.Water()):
        found = tb.simulate(
            robot,
            2.0,
            q=q,
            world=world,
            fluid=fluid,
            control=stiff,
            method=tb.SemiImplicitEuler(dt=1e-3),
            record=tb.Record(dt=0.5),
        )
        carried.append(found.z[-1, : 4 * 54].reshape(54, 4)[:, 2].sum())
    weight = 9.81 * sum(body.inertia.mass for body in robot.bodies)
    lifted = (
        9.81
        * tb.Water().density
        * sum(body.fluid.volume for body in robot.bodies if body.fluid is not None)
    )
    assert lifted > 0.2 * weight
    np.testing.assert_allclose(carried, [weight, weight - lifted], rtol=5e-3)


def test_contact_of_closed_loops_does_not_depend_on_the_cut_joint():
    bar = tb.load("four_bar")
    middle = tb.ContactPoint("knee", "coupler", (0.3, 0.0, 0.0))
    bar = tb.Model(
        "bar", bar.bodies, bar.frames, loops=bar.loops, contacts=(middle,), poses=bar.poses
    )
    other = tb.recut(bar)
    world = tb.World(
        ground=tb.Ground(height=0.2, static_friction=0.6, normal_stiffness=5e3, normal_damping=20.0)
    )
    q = np.array(bar.poses["home"])
    start = tb.recut_state(bar, other, q)[0]
    first = tb.simulate(bar, 0.6, q=q, world=world, record=tb.Record(dt=0.1))
    second = tb.simulate(other, 0.6, q=start, world=world, record=tb.Record(dt=0.1))
    assert first.contact_summary().touching[0] > 0.1
    places = [
        tb.contacts(model, found.q, world=world).point
        for model, found in ((bar, first), (other, second))
    ]
    np.testing.assert_allclose(places[0], places[1], atol=1e-7)
    np.testing.assert_allclose(first.z[:, :3], second.z[:, :3], atol=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": tb.DormandPrince()}, "discrete state .*one-step method with equal steps"),
        ({"method": tb.RK4(keep_inertia=4)}, "discrete state .*one-step method"),
        (
            {
                "world": tb.World(ground=tb.Ground(static_friction=0.8)),
                "contact": tb.CompliantContact(),
            },
            "'front_left_foot': compliant contact needs a normal_stiffness",
        ),
        (
            {"world": tb.World(ground=tb.Ground(normal_stiffness=1e4, restitution=0.5))},
            "has no restitution, got 0.5",
        ),
        (
            {"world": tb.World(ground=tb.Ground(normal_stiffness=1e8, normal_damping=1e3))},
            "dt with compliant contact .*foot.*at most .* s.*Rosenbrock",
        ),
        ({"contact": tb.CompliantContact(law=lambda touch: (1.0, 2.0, 3.0))}, "contact law"),
        (
            {
                "world": tb.World(ground=tb.Ground(static_friction=0.8)),
                "contact": tb.CompliantContact(law=lambda touch: 1e4 * touch.depth),
            },
            "'front_left_foot': friction of compliant contact needs a planar_stiffness",
        ),
    ],
)
def test_unsupported_options_of_compliant_contact_are_refused(options, message):
    with pytest.raises(tb.TiburonError, match=message):
        run(0.01, **options)


RUBBER = tb.ContactMaterial(0.6, normal_stiffness=2e4, normal_damping=40.0)


def _leg(**foot):
    """A mass of 3 kg on a leg that moves up and down, with a foot of 0.2 kg on a ball joint."""
    contacts, shapes = foot.get("contacts", ()), foot.get("shapes", ())
    bodies = [
        tb.Body(
            "leg",
            joint=tb.Prismatic("leg", axis=(0, 0, 1)),
            inertia=tb.Inertia(3.0, (0, 0, 0), 0.1 * np.eye(3)),
        ),
        tb.Body(
            "foot",
            "leg",
            joint=tb.Revolute("ankle", axis=(0, 1, 0)),
            inertia=tb.Inertia(0.2, (0, 0, -0.02), 1e-3 * np.eye(3)),
            shapes=shapes,
        ),
    ]
    return tb.Model("leg", bodies, contacts=contacts)


def test_end_effectors_are_replaceable():
    """Ball, pad and disc on one leg, each with its law, carry the same weight."""
    ball = tb.ContactPoint("ball", "foot", (0, 0, -0.03), 0.02, material=RUBBER)
    disc = [
        tb.ContactPoint(f"rim_{k}", "foot", (x, y, -0.05), material=RUBBER)
        for k, (x, y, _) in enumerate(disc_points(0.04, 6))
    ]
    pad = tb.Shape(
        tb.BoxShape((0.1, 0.08, 0.02)),
        pose=tb.Pose(translation=(0, 0, -0.04)),
        role="collision",
        material=RUBBER,
    )
    ground = tb.World(ground=tb.Ground(height=-0.051, static_friction=0.9))
    depths = []
    for foot, points in (
        ({"contacts": [ball]}, 1),
        ({"contacts": disc}, 6),
        ({"shapes": (pad,)}, 4),
    ):
        model = _leg(**foot)
        found = tb.simulate(
            model, 3.0, q=[0.0, 0.0], world=ground, contact=tb.CompliantContact(), control=_level
        )
        states = found.z[-1, : 4 * len(found.contact_summary().names)].reshape(-1, 4)
        assert states[:, 2].sum() == pytest.approx(3.2 * 9.81, rel=1e-6)
        assert np.count_nonzero(states[:, 2]) == points
        depths.append(found.contact_summary().depth.max())
    assert depths[1] < depths[0]


@tb.traced
def _level(state):
    return [0.0, -2.0 * state.q[1] - 0.05 * state.v[1]]


def test_fingers_hold_a_block_that_does_not_creep():
    """Two fingers press with 20 N each; friction 0.5 carries 1 kg, and nothing slides in 20 s."""
    tip = tb.Shape(tb.SphereShape(0.02), material=RUBBER)
    steel = tb.ContactMaterial(0.5, normal_stiffness=1e5, normal_damping=50.0)
    fingers = [
        tb.Body(
            name,
            joint=tb.Prismatic(name, axis=(side, 0, 0)),
            inertia=tb.Inertia(0.3, (0, 0, 0), 1e-3 * np.eye(3)),
            shapes=(tb.Shape(tip.geometry, tb.Pose(translation=(0, 0, 0)), material=RUBBER),),
        )
        for name, side in (("left", 1), ("right", -1))
    ]
    block = tb.Body(
        "block",
        joint=tb.Free("block"),
        inertia=tb.Inertia(1.0, (0, 0, 0), 2e-3 * np.eye(3)),
        shapes=(tb.Shape(tb.BoxShape((0.1, 0.1, 0.1)), material=steel),),
    )
    model = tb.Model("gripper", [*fingers, block])
    q = [-0.0699, -0.0699, 1, 0, 0, 0, 0, 0, 0]
    found = tb.simulate(
        model,
        25.0,
        q=q,
        contact=tb.CompliantContact(pairs=[("left", "block"), ("right", "block")]),
        command=[20.0, 20.0, *[0.0] * 6],
        record=tb.Record(dt=5.0),
    )
    height = found.q[:, 8]
    assert height[-1] > -0.02
    assert abs(height[-1] - height[1]) < 1e-9
    forces = found.z[-1, :8].reshape(2, 4)
    # on the fingers, which are the first bodies
    assert forces[:, 2].sum() == pytest.approx(-9.81, rel=1e-6)
    assert np.all(forces[:, 3] == 1.0)


def test_surfaces_of_the_ground_are_parameters_of_cases():
    """Each case has the ground that a world of its own would give it, in bits."""
    stiffness, friction = [5e3, 1e4, 2e4], [0.3, 0.8, 0.9]
    q = np.tile(STAND, (3, 1))
    given = {"ground.normal_stiffness": stiffness, "ground.static_friction": friction}
    world = tb.World(ground=tb.Ground(0.0, None, 1e4, 40.0, static_friction=0.8))
    found = run(0.2, q, world=world, parameters=given)
    for case, (k, mu) in enumerate(zip(stiffness, friction, strict=True)):
        own = tb.World(ground=tb.Ground(0.0, None, k, 40.0, static_friction=mu))
        assert run(0.2, world=own).q.tobytes() == found.q[:, case].tobytes()
    one = {"contact.front_left_foot.normal_stiffness": 3e4}
    assert run(0.1, parameters=one).q.tobytes() != run(0.1).q.tobytes()
    assert "ground.dissipation" in tb.parameters(DOG, world=FLOOR)
    with pytest.raises(tb.ModelError, match=r"case 1.*static_friction must be at least 0"):
        run(0.1, q[:2], world=world, parameters={"ground.static_friction": [0.3, -0.1]})
    with pytest.raises(tb.DomainError, match="at most"):
        run(0.1, q[:2], world=world, parameters={"ground.normal_stiffness": [1e4, 1e8]})
    with pytest.raises(tb.UnknownNameError, match=r"ground\.static_friction"):
        run(0.1, contact=None, parameters={"ground.static_friction": 0.3})


@pytest.mark.parametrize("height", [0.0, 1e-16])
def test_contact_that_starts_at_the_surface_keeps_the_order_of_rk4(height):
    """A mass on a spring and damper, thrown from the surface: the damper acts from there on."""
    m, k, c, g, v, end = 20.0, 8000.0, 120.0, 9.81, 0.7, 0.1
    body = tb.Body("foot", joint=tb.Free("foot"), inertia=tb.Inertia.box(m, (0.2, 0.2, 0.2)))
    foot = tb.Model("foot", [body], contacts=[tb.ContactPoint("p", "foot", (0, 0, 0))])
    world = tb.World(ground=tb.Ground(normal_stiffness=k, normal_damping=c))
    omega, still = np.sqrt(k / m), m * g / k
    z = c / (2 * m * omega)
    damped = omega * np.sqrt(1 - z * z)
    wave = np.sin(damped * end) * (v - z * omega * still) / damped - still * np.cos(damped * end)
    depth = still + np.exp(-z * omega * end) * wave
    errors = []
    for steps in (50, 100, 200):
        run = tb.simulate(
            foot,
            end,
            q=[1, 0, 0, 0, 0, 0, height],
            v=[0, 0, 0, 0, 0, -v],
            world=world,
            method=tb.RK4(dt=end / steps),
        )
        errors.append(abs(-run.q[-1, 6] - depth))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert orders.min() > 3.9
