"""Compliant contact against closed forms and conservation laws."""

import math

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator

G = 9.81
RADIUS = 0.1


def free(name, shape=None, mass=1.0, inertia=0.004, **more):
    shapes = () if shape is None else (tb.Shape(shape),)
    turning = inertia * np.eye(3) if np.ndim(inertia) == 0 else np.diag(inertia)
    return tb.Body(
        name,
        joint=tb.Free(name),
        inertia=tb.Inertia(mass, (0, 0, 0), turning),
        shapes=shapes,
        **more,
    )


BALL = tb.Model("ball", [free("ball", tb.SphereShape(RADIUS))])

SLIDER = tb.Model(
    "slider",
    [
        tb.Body("rail", joint=tb.Prismatic("x", axis=(1, 0, 0))),
        tb.Body("cross", "rail", joint=tb.Prismatic("y", axis=(0, 1, 0))),
        tb.Body(
            "mass",
            "cross",
            joint=tb.Prismatic("z", axis=(0, 0, 1)),
            inertia=tb.Inertia(2.0, (0, 0, 0), np.eye(3)),
        ),
    ],
    contacts=[tb.ContactPoint("tip", "mass")],
)
"""A mass of 2 kg that does not turn, on one point."""


def slope(angle, heading=0.0, **surface):
    a, b = math.radians(angle), heading
    gravity = (G * math.sin(a) * math.cos(b), G * math.sin(a) * math.sin(b), -G * math.cos(a))
    return tb.World(gravity=gravity, ground=tb.Ground(**surface))


def at(height, *more):
    return [1.0, 0, 0, 0, 0, 0, height, *more]


SOFT = {"normal_stiffness": 2e4, "normal_damping": 60.0}


def test_a_start_with_slip_slides_at_once():
    """At the depth of its weight: mu_k m g from the first step on, where mu_s would hold it."""
    mass, k = 2.0, SOFT["normal_stiffness"]
    ground = {**SOFT, "static_friction": 0.9, "kinetic_friction": 0.1}
    start = [0.0, 0.0, -mass * G / k]
    run = tb.simulate(
        SLIDER,
        1e-3,
        q=start,
        v=[0.2, 0, 0],
        world=slope(0, **ground),
        method=tb.RK4(dt=1e-4),
        record=tb.Record(every=1),
    )
    # spring and damper pull with 12 N and more: between both limits of friction
    assert 0.1 * mass * G < 60.0 * 0.2 < 0.9 * mass * G
    np.testing.assert_allclose(run.v[:, 0], 0.2 - 0.1 * G * run.time, atol=1e-9)


def test_a_ball_at_rest_is_carried_at_the_depth_of_its_spring():
    world = tb.World(ground=tb.Ground(**SOFT))
    run = tb.simulate(BALL, 3.0, q=at(RADIUS), world=world)
    assert run.z[-1, 2] == pytest.approx(G, rel=1e-12)
    assert RADIUS - run.q[-1, 6] == pytest.approx(G / 2e4, rel=1e-9)
    assert run.contact_summary().depth[0] > G / 2e4


def test_contact_never_pulls():
    """A strong damper would hold a ball back as it leaves."""
    world = tb.World(ground=tb.Ground(normal_stiffness=2e4, normal_damping=120.0))
    run = tb.simulate(
        BALL,
        0.5,
        q=at(0.2),
        v=[0, 0, 0, 0, 0, -2],
        world=world,
        method=tb.RK4(dt=5e-4),
        record=tb.Record(every=1),
    )
    force = run.z[:, 2]
    assert force.min() == 0.0
    assert force.max() > 100.0
    # the damper alone would pull while the ball is still in the ground
    inside = run.q[:, 6] < RADIUS
    assert np.any(inside[1:] & (force[1:] == 0.0))


@pytest.mark.parametrize("heading", [0.0, 0.7, 2.4])
def test_a_block_below_the_friction_angle_stays(heading):
    """Started at rest on its springs, it stays in bits but for rounding of its anchor."""
    mu, k = 0.5, 2e4
    angle = 0.999 * math.atan(mu)
    world = slope(math.degrees(angle), heading, static_friction=mu, **SOFT)
    down = np.array([math.cos(heading), math.sin(heading)])
    load = 2.0 * G * math.sin(angle)
    run = tb.simulate(
        SLIDER, 60.0, q=[0, 0, -2 * G * math.cos(angle) / k], world=world, record=tb.Record(dt=20.0)
    )
    # the first swing may slide; afterwards nothing creeps
    assert np.abs(run.q[3] - run.q[2]).max() < 1e-13
    np.testing.assert_allclose(run.z[-1, :2], -load * down, rtol=1e-9)
    assert run.z[-1, 3] == 1.0


@pytest.mark.parametrize("heading", [0.0, 0.7, 2.4])
def test_block_above_the_friction_angle_slides_by_coulombs_law(heading):
    world = slope(20.0, heading, static_friction=0.2, **SOFT)
    run = tb.simulate(SLIDER, 3.0, q=[0, 0, -1e-3], world=world, record=tb.Record(dt=1.0))
    speed = np.hypot(run.v[:, 0], run.v[:, 1])
    assert speed[3] - speed[2] == pytest.approx(1.511540684, rel=1e-9)
    assert run.z[-1, 3] == 0.0


def test_static_friction_holds_where_kinetic_friction_slides():
    """A block that stuck starts at tan = mu_s, one that slides stops only below tan = mu_k."""
    surface = {"static_friction": 0.4, "kinetic_friction": 0.2, **SOFT, "normal_damping": 400.0}
    world = slope(17.0, **surface)
    assert 0.2 < math.tan(math.radians(17.0)) < 0.4
    still, sliding = (
        tb.simulate(
            SLIDER, 2.0, q=[0, 0, -9e-4], v=[v, 0, 0], world=world, record=tb.Record(dt=1.0)
        )
        for v in (0.0, 0.3)
    )
    assert abs(still.v[-1, 0]) < 1e-6
    rate = G * (math.sin(math.radians(17.0)) - 0.2 * math.cos(math.radians(17.0)))
    assert sliding.v[-1, 0] - sliding.v[1, 0] == pytest.approx(rate, rel=1e-6)


def test_slider_on_a_belt_sticks_and_slips_with_the_period_of_coulomb():
    """Seen from the belt: the far end of the spring moves. The error falls with the stiffness."""
    m, k, mu_s, mu_k, V = 1.0, 100.0, 0.4, 0.3, 0.1
    w = math.sqrt(k / m)
    A = (mu_s - mu_k) * G / w**2
    period = 2 * A / V + (2 / w) * (math.pi - math.atan(A * w / V))
    assert period == pytest.approx(0.669357062342, rel=1e-12)
    rail = tb.Body("rail", joint=tb.Prismatic("x", axis=(1, 0, 0)))
    mass = tb.Body(
        "mass",
        "rail",
        joint=tb.Prismatic("z", axis=(0, 0, 1)),
        inertia=tb.Inertia(m, (0, 0, 0), np.eye(3)),
    )
    model = tb.Model("slider", [rail, mass], contacts=[tb.ContactPoint("tip", "mass")])

    def pull(now):
        return {"x": k * (V * now.time - now.joint_position("x")[0])}

    errors = []
    for stiffness in (1e5, 4e5):
        ground = tb.Ground(
            static_friction=mu_s,
            kinetic_friction=mu_k,
            normal_stiffness=1e5,
            normal_damping=300.0,
            planar_stiffness=stiffness,
            planar_damping=0.7 * math.sqrt(stiffness),
        )
        run = tb.simulate(
            model,
            8.0,
            q=[0, -m * G / 1e5],
            world=tb.World(ground=ground),
            elements=[tb.ForceFunction("pull", pull)],
            method=tb.RK4(dt=1e-4),
            record=tb.Record(every=5),
        )
        sticks = run.z[:, 3] > 0.5
        starts = run.time[1:][~sticks[1:] & sticks[:-1]]
        starts = starts[np.r_[True, np.diff(starts) > 0.3]]
        errors.append(abs(np.mean(np.diff(starts)[2:]) - period) / period)
    assert errors[0] < 6e-3
    assert errors[1] < 2e-3


def test_rolling_ball_has_the_closed_form_acceleration():
    world = slope(20.0, 0.4, static_friction=0.5, **SOFT)
    run = tb.simulate(BALL, 1.5, q=at(RADIUS - G / 2e4), world=world, record=tb.Record(dt=0.5))
    speed = np.hypot(run.v[:, 3], run.v[:, 4])
    speed = np.linalg.norm([_world_velocity(q, v) for q, v in zip(run.q, run.v, strict=True)],
                           axis=1)  # fmt: skip
    depth = G * math.cos(math.radians(20.0)) / 2e4
    # the contact point is in the middle of the overlap
    arm = RADIUS - 0.5 * depth
    expected = G * math.sin(math.radians(20.0)) / (1.0 + 0.004 / arm**2)
    assert speed[3] - speed[2] == pytest.approx(0.5 * expected, rel=2e-4)
    assert run.z[-1, 3] == 1.0


def _world_velocity(q, v):
    w, x, y, z = q[:4]
    R = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    return R @ v[3:6]


def test_restitution_of_hunt_and_crossley_is_that_of_the_closed_form():
    """ln((1 + c v)/(1 - c e v)) = c v (1 + e), whatever mass and stiffness; second order."""
    ground = tb.Ground(normal_stiffness=3e4, dissipation=0.5)
    world = tb.World(gravity=(0, 0, 0), ground=ground)
    errors = []
    for dt in (4e-4, 2e-4, 1e-4, 5e-5):
        run = tb.simulate(
            BALL,
            0.2,
            q=at(RADIUS + 0.01),
            v=[0, 0, 0, 0, 0, -0.8],
            world=world,
            method=tb.RK4(dt=dt),
            record=tb.Record(dt=0.2),
        )
        errors.append(abs(run.v[-1, 5] / 0.8 - 0.788539126))
    assert errors[-1] < 2e-6
    assert np.log2(errors[0] / errors[-1]) / 3 > 1.5
    c = tb.hunt_crossley_dissipation(0.788539126, 0.8)
    assert c == pytest.approx(0.5, rel=1e-8)
    assert tb.hunt_crossley_dissipation(1.0, 0.8) == 0.0
    # e = 1 - 2/3 c v for small losses
    assert tb.hunt_crossley_dissipation(1 - 2e-6, 3.0) == pytest.approx(1e-6, rel=1e-5)


def test_forces_of_a_block_converge_to_those_of_rigid_contact():
    """Edge forces on a slope of 20 degrees: 10.8959934 and 7.5407758 N; error like 1 / k."""
    size = (0.4, 0.3, 0.2)
    inertia = [2 / 12 * (a * a + b * b) for a, b in ((0.3, 0.2), (0.4, 0.2), (0.4, 0.3))]
    corners = [
        tb.ContactPoint(f"corner_{i}{j}", "block", (x * 0.2, y * 0.15, -0.1))
        for i, x in enumerate((-1, 1))
        for j, y in enumerate((-1, 1))
    ]
    block = free("block", mass=2.0, inertia=inertia)
    model = tb.Model("block", [block], contacts=corners)
    errors = []
    for k in (1e4, 4e4):
        world = slope(20.0, static_friction=0.5, normal_stiffness=k, normal_damping=0.3 * k**0.5)
        run = tb.simulate(
            model, 6.0, q=at(0.1), world=world, method=tb.RK4(dt=1e-3), record=tb.Record(dt=6.0)
        )
        normal = run.z[-1, :16].reshape(4, 4)[:, 2]
        edges = normal.reshape(2, 2).sum(axis=1)
        # the book's block is 0.2 high, gravity pulls toward +x
        errors.append(np.abs(edges - [7.5407758, 10.8959934]).max())
        assert edges.sum() == pytest.approx(2 * G * math.cos(math.radians(20)), rel=1e-9)
    assert size[2] == 0.2
    assert errors[1] < 0.02
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.1)


def test_two_free_bodies_exchange_momentum_and_lose_energy():
    """No gravity: momentum is kept to rounding, also that of spin, and energy falls."""
    material = tb.ContactMaterial(0.4, 0.3, normal_stiffness=4e4, normal_damping=20.0)
    ball = tb.Body(
        "ball",
        joint=tb.Free("ball"),
        inertia=tb.Inertia(1.0, (0, 0, 0), 0.004 * np.eye(3)),
        shapes=(tb.Shape(tb.SphereShape(0.1), material=material),),
    )
    box = tb.Body(
        "box",
        joint=tb.Free("box"),
        inertia=tb.Inertia(2.0, (0.01, 0, 0), np.diag([0.02, 0.03, 0.04])),
        shapes=(tb.Shape(tb.BoxShape((0.3, 0.2, 0.25)), material=material),),
    )
    model = tb.Model("pair", [ball, box])
    q = np.array([*at(0.03), *at(0.0)])
    q[4], q[11] = -0.4, 0.02
    q[7:11] = np.array([0.9, 0.3, -0.2, 0.1]) / np.linalg.norm([0.9, 0.3, -0.2, 0.1])
    v = np.array([3.0, -5.0, 8.0, 2.0, 0.2, 0.1, 0.5, -0.3, 0.8, 0.0, 0.1, 0.0])
    world = tb.World(gravity=(0, 0, 0))
    run = tb.simulate(
        model,
        0.4,
        q=q,
        v=v,
        world=world,
        contact=tb.CompliantContact(),
        method=tb.RK4(dt=1e-4),
        record=tb.Record(every=10),
    )
    assert run.contact_summary().peak_force.max() > 20.0

    def momentum(k):
        return np.asarray(tb.momentum(model, run.q[k], run.v[k], at="world"))

    def energy(k):
        return float(tb.kinetic_energy(model, run.q[k], run.v[k]))

    np.testing.assert_allclose(momentum(-1), momentum(0), atol=2e-9)
    assert np.abs(run.v[-1] - run.v[0]).max() > 0.5
    assert energy(-1) < 0.99 * energy(0)


def test_energy_of_tumbling_boxes_never_grows():
    """Undamped springs, friction alone dissipates; the error is the integrator's."""
    inertia = [0.02, 0.03, 0.025]
    model = tb.Model("box", [free("box", tb.BoxShape((0.4, 0.3, 0.2)), 2.0, inertia)])
    world = tb.World(ground=tb.Ground(static_friction=0.6, kinetic_friction=0.5,
                                      normal_stiffness=2e4))  # fmt: skip
    generator = np.random.default_rng(3)
    q = np.tile(at(0.35), (16, 1))
    q[:, :4] = generator.standard_normal((16, 4))
    q[:, :4] /= np.linalg.norm(q[:, :4], axis=1, keepdims=True)
    v = 2.0 * generator.standard_normal((16, 6))
    run = tb.simulate(
        model,
        1.0,
        q=q,
        v=v,
        world=world,
        method=tb.RK4(dt=1e-4),
        record=tb.Record(every=20, quantities=["contact.energy"]),
    )
    kinetic = np.array([tb.kinetic_energy(model, a, b) for a, b in zip(run.q, run.v, strict=True)])
    total = kinetic + 2.0 * G * run.q[..., 6] + run.data["contact.energy"]
    assert run.contact_summary().slipping.max() > 0.0
    growth = np.diff(total, axis=0).max()
    assert growth < 2e-4 * total[0].max()
    assert np.all(total[-1] < total[0])


def test_sticking_contact_keeps_the_order_of_the_integrator():
    """Points that stay closed and stick are springs on their anchors from the start on: order 4."""
    world = slope(10.0, 0.3, static_friction=0.9, normal_stiffness=2e3, normal_damping=3.0)

    def end(dt):
        run = tb.simulate(
            SLIDER,
            0.4,
            q=[0.3, -0.2, -0.0096],
            v=[0.05, -0.03, 0.0],
            world=world,
            method=tb.RK4(dt=dt),
            record=tb.Record(every=1),
        )
        assert np.all(run.z[:, 3] == 1.0)
        assert run.z[0, 2] > 0.0
        return np.r_[run.q[-1], run.v[-1]]

    exact = end(1.25e-4)
    errors = [np.abs(end(dt) - exact).max() for dt in (4e-3, 2e-3, 1e-3)]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(orders > 3.7), (errors, orders)


def test_a_law_of_the_user_replaces_spring_and_damper():
    """Hertz: depth (m g / k)^(2/3); a law with tangential force replaces friction."""

    def hertz(touch):
        d = np.maximum(touch.depth, 0.0)
        return 3e6 * d * np.sqrt(d) * (1.0 + 0.8 * touch.rate)

    world = tb.World(ground=tb.Ground(static_friction=0.5, planar_stiffness=2e4))
    options = {"world": world, "record": tb.Record(dt=1.0)}
    run = tb.simulate(
        BALL,
        8.0,
        q=at(RADIUS),
        contact=tb.CompliantContact(law=hertz),
        method=tb.RK4(dt=5e-4),
        **options,
    )
    assert RADIUS - run.q[-1, 6] == pytest.approx((G / 3e6) ** (2 / 3), rel=1e-3)

    def viscous(touch):
        u = touch.slip
        return 2e4 * touch.depth + 60.0 * touch.rate, (-5.0 * u[0], -5.0 * u[1], -5.0 * u[2])

    options["world"] = tb.World(ground=tb.Ground(static_friction=0.5))
    law = tb.CompliantContact(law=viscous)
    run = tb.simulate(SLIDER, 1.0, q=[0, 0, -9.81e-4], v=[1.0, 0.5, 0], contact=law, **options)
    np.testing.assert_allclose(run.v[-1, :2] / run.v[0, :2], math.exp(-2.5), rtol=1e-6)


def test_patches_stick_and_slide_by_their_friction():
    """A slider leaves rough ground, and keeps its speed on ice."""
    ice = tb.ContactMaterial(0.0, normal_stiffness=1e5, normal_damping=100.0)
    patch = tb.GroundPatch("ice", (0.2, -1.0), (9.0, 1.0), ice)
    ground = tb.Ground(static_friction=0.5, patches=[patch], **SOFT)
    run = tb.simulate(SLIDER, 1.0, q=[0, 0, -9.81e-4], v=[2.0, 0, 0], world=tb.World(ground=ground))
    # the spring of the friction takes up what it is stretched by at first
    expected = math.sqrt(4.0 - 2 * 0.5 * G * 0.2)
    assert run.v[-1, 0] == pytest.approx(expected, rel=5e-3)
    assert run.v[-1, 0] == pytest.approx(run.v[60, 0], rel=1e-9)
    assert run.z[-1, 2] == pytest.approx(2 * G, rel=1e-3)


def test_rosenbrock_is_stable_where_explicit_steps_diverge():
    world = slope(10.0, 0.5, static_friction=0.5, normal_stiffness=1e9, normal_damping=1e5)
    with pytest.raises(tb.DomainError, match=r"contact 'tip'.*at most .* s.*Rosenbrock"):
        tb.simulate(SLIDER, 0.1, q=[0, 0, 0], world=world)
    run = tb.simulate(SLIDER, 0.5, q=[0, 0, -2e-8], world=world, method=tb.Rosenbrock.fixed())
    assert run.z[-1, 2] == pytest.approx(2 * G * math.cos(math.radians(10.0)), rel=1e-6)
    assert np.abs(run.q[-1]).max() < 1e-4


@pytest.mark.parametrize("method", ["semi_implicit_euler", "rk4"])
def test_the_largest_safe_step_is_the_one_that_holds(method):
    """Just below the limit a slider comes to rest on its springs, just above it is refused."""
    world = tb.World(ground=tb.Ground(static_friction=0.5, normal_stiffness=5e5,
                                      normal_damping=60.0))  # fmt: skip
    w, t = math.sqrt(5e5 / 2.0), 60.0 / 5e5
    # semi-implicit Euler: (w h)^2 + 2 w^2 t h < 4; RK4: its limit on the imaginary axis, nearly
    limit = {
        "semi_implicit_euler": -t + math.sqrt(t * t + 4.0 / w**2),
        "rk4": 2.828 / w,
    }[method]
    for share in (0.9, 1.1):
        dt = share * limit
        options = {"q": [0, 0, -4e-5], "world": world, "method": integrator(method, dt=dt)}
        if share > 1.0:
            with pytest.raises(tb.DomainError, match=r"largest|at most"):
                tb.simulate(SLIDER, 3000 * dt, record=tb.Record(every=3000), **options)
        else:
            run = tb.simulate(SLIDER, 3000 * dt, record=tb.Record(every=3000), **options)
            assert run.z[-1, 2] == pytest.approx(2 * G, rel=1e-3)


@pytest.mark.parametrize("damping", [0.0, 120.0])
@pytest.mark.parametrize("through", ["closing", "opening"])
def test_contacts_that_switch_within_a_step_keep_the_order(damping, through):
    """A foot falls onto its spring, and leaves it: order 4, wherever in a step that happens."""
    mass, stiffness = 20.0, 8000.0
    height, ends = (0.01234, (0.12, 0.1213)) if through == "closing" else (0.1234, (0.4, 0.4021))
    inertia = tb.Inertia.box(mass, (0.2, 0.2, 0.2))
    body = tb.Body("foot", joint=tb.Free("foot"), inertia=inertia)
    foot = tb.Model("foot", [body], contacts=[tb.ContactPoint("sole", "foot", (0, 0, 0))])
    ground = tb.Ground(normal_stiffness=stiffness, normal_damping=damping)

    def closed(time):
        """Free fall, then a damped oscillation about m g / k, until the force vanishes; flight."""
        fall, wn = np.sqrt(2.0 * height / G), np.sqrt(stiffness / mass)
        ratio, rest = damping / (2.0 * mass * wn), mass * G / stiffness
        wd, speed = wn * np.sqrt(1.0 - ratio * ratio), G * fall

        def oscillation(t):
            a, b = -rest, (speed - ratio * wn * rest) / wd
            decay, c, s = np.exp(-ratio * wn * t), np.cos(wd * t), np.sin(wd * t)
            depth = rest + decay * (a * c + b * s)
            rate = decay * ((b * wd - ratio * wn * a) * c - (a * wd + ratio * wn * b) * s)
            return depth, rate

        if through == "closing":
            return -oscillation(time - fall)[0]
        # when the force vanishes, by bisection
        low, high = 0.5 * np.pi / wd, 1.6 * np.pi / wd
        for _ in range(80):
            middle = 0.5 * (low + high)
            depth, rate = oscillation(middle)
            pushes = stiffness * depth + damping * rate > 0.0
            low, high = (middle, high) if pushes else (low, middle)
        depth, rate = oscillation(low)
        flight = time - fall - low
        assert flight > 0.0
        return -(depth + rate * flight) - 0.5 * G * flight * flight

    worst = []
    for steps in (60, 120, 240):
        errors = []
        for end in ends:
            run = tb.simulate(
                foot,
                end,
                q=[1, 0, 0, 0, 0, 0, height],
                world=tb.World(ground=ground),
                method=tb.RK4(dt=end / steps),
            )
            errors.append(abs(run.q[-1, 6] - closed(end)))
        worst.append(max(errors))
    assert np.log2(worst[0] / worst[-1]) / 2.0 > 3.5
