"""Event-driven contact against closed forms (g = 9.81 m/s^2), kicked and tilted off the axes."""

import math

import numpy as np
import pytest

import tiburon as tb
from tests.verification.sloped import (
    BALL,
    BLOCK,
    RADIUS,
    G,
    on_shaking_table,
    single_body,
    slope,
    turned,
)
from tiburon.spatial import axis_angle_to_matrix


def exact(model, duration, pairs=None, **more):
    return tb.simulate(model, duration, contact=tb.ExactContact(pairs=pairs), **more)


def kinds(run):
    return [event.name.rpartition(".")[2] for event in run.events]


def moved(run):
    return float(np.linalg.norm(run.q[-1, 4:] - run.q[0, 4:]))


# one ball: all these share their kernels


def test_bouncing_ball_comes_to_rest_after_the_sum_of_its_bounces():
    """All bounces end after sqrt(2 h / g) (1 + e) / (1 - e)."""
    world = tb.World(ground=tb.Ground(restitution=0.8, static_friction=0.3))
    run = exact(BALL, 5.0, q=turned(0.3, 1.0 + RADIUS), world=world, record=tb.Record(dt=1.0))
    assert run.outcome.status == "finished"
    first, last = run.events[0], run.events[-1]
    assert abs(first.time - math.sqrt(2 / G)) < 1e-13
    assert (kinds(run)[0], kinds(run)[-1]) == ("impact", "rest")
    # gaps of the last bounces are known to 1e-17 of 1e-11 m
    assert abs(last.time - 4.063712768872) < 2e-10
    assert np.abs(run.v[-1]).max() == 0.0
    assert abs(run.q[-1, 6] - RADIUS) < 1e-15


def test_elastic_ball_conserves_energy():
    """With e = 1 every bounce returns all of the speed."""
    world = tb.World(ground=tb.Ground(restitution=1.0, static_friction=0.0, kinetic_friction=0.0))
    q, v = turned(0.3, 0.01 + RADIUS), np.array([0, 0, 0, 0.3, -0.1, 0.0])
    run = exact(BALL, 2.0, q=q, v=v, world=world, record=tb.Record(dt=1.0))
    assert kinds(run).count("impact") == 22
    energy = 0.5 * np.sum(run.v[:, 3:] ** 2, axis=1) + G * (run.q[:, 6] - RADIUS)
    assert np.abs(energy - energy[0]).max() < 1e-13


@pytest.mark.slow
def test_elastic_ball_conserves_energy_over_a_thousand_bounces():
    """Nothing accumulates but rounding."""
    world = tb.World(ground=tb.Ground(restitution=1.0, static_friction=0.0, kinetic_friction=0.0))
    q, v = turned(0.3, 0.01 + RADIUS), np.array([1.0, -2.0, 3.0, 0.3, -0.1, 0.0])
    run = exact(BALL, 92.0, q=q, v=v, world=world, record=tb.Record(dt=4.0))
    assert kinds(run).count("impact") >= 1000
    energy = tb.kinetic_energy(BALL, run.q, run.v) + G * (run.q[:, 6] - RADIUS)
    assert np.abs(energy - energy[0]).max() < 1e-10 * energy[0]


def test_ball_rolls_down_a_slope_at_five_sevenths_of_g_sin():
    """2.396584004 m/s^2 at 20 degrees."""
    run = exact(BALL, 1.0, q=turned(0.4, RADIUS), world=slope(20, static_friction=0.11))
    assert abs(2.0 * moved(run) - 2.396584004) < 1e-9
    assert np.all(run.get("contact_mode")[:, 0] == 2.0)


def test_ball_slips_down_a_slope_steeper_than_seven_halves_of_mu():
    """It slides at g (sin - mu cos), and spins up by 5/2 mu g cos / r."""
    mu, angle = 0.1, math.radians(20)
    run = exact(BALL, 1.0, q=turned(0.4, RADIUS), world=slope(20, static_friction=mu))
    assert abs(2.0 * moved(run) - G * (math.sin(angle) - mu * math.cos(angle))) < 1e-9
    spin = 2.5 * mu * G * math.cos(angle) / RADIUS
    assert abs(np.linalg.norm(run.v[-1, :3]) - spin) < 1e-8
    assert np.all(run.get("contact_mode")[:, 0] == 1.0)


def test_sliding_ball_starts_to_roll():
    """After 2 v / (7 mu g), 12 v^2 / (49 mu g) m on, at 5/7 v."""
    v, mu = 1.3, 0.25
    world = tb.World(ground=tb.Ground(static_friction=mu))
    start = np.array([0, 0, 0, v * math.cos(0.3), v * math.sin(0.3), 0.0])
    run = exact(BALL, 1.0, q=turned(0.4, RADIUS), v=start, world=world)
    rolls = 2.0 * v / (7.0 * mu * G)
    assert kinds(run) == ["touch_down", "stick"]
    assert abs(run.events[1].time - rolls) < 1e-12
    there = np.linalg.norm(run.events[1].q[4:] - run.q[0, 4:])
    assert abs(there - 12.0 * v**2 / (49.0 * mu * G)) < 1e-12
    assert abs(np.linalg.norm(run.v[-1, 3:]) - 5.0 / 7.0 * v) < 1e-12


def test_a_ball_lifts_off_when_a_growing_force_exceeds_its_weight():
    """The normal force vanishes at m g / k; the gap then opens by k t^3 / 6 m."""

    @tb.traced
    def lift(state):
        return [0.0, 0.0, 0.0, 0.0, 0.0, 12.0 * state.time]

    world = tb.World(ground=tb.Ground(static_friction=0.3))
    run = exact(BALL, 1.0, q=turned(0.0, RADIUS), world=world, control=lift)
    assert kinds(run) == ["touch_down", "lift_off"]
    assert abs(run.events[1].time - G / 12.0) < 1e-12
    assert abs(run.q[-1, 6] - RADIUS - 2.0 * (1.0 - G / 12.0) ** 3) < 1e-12


# blocks: forces that are not unique


@pytest.mark.slow
@pytest.mark.parametrize("kick", [0.0, 0.3])
@pytest.mark.parametrize("heading", [0.0, 0.7, 2.5])
def test_block_slides_in_every_heading(heading, kick):
    """At g (sin - mu cos) = 1.511540684 m/s^2, without turning; kicked down the slope or not."""
    v = kick * np.array([0, 0, 0, math.cos(heading - 0.4), math.sin(heading - 0.4), 0])
    world = slope(20, heading, static_friction=0.2)
    run = exact(BLOCK, 1.0, q=turned(0.4, 0.1), v=v, world=world)
    assert abs(2.0 * (moved(run) - kick) - 1.511540684043) < 1e-11
    assert np.abs(run.q[-1, :4] - run.q[0, :4]).max() < 1e-14


@pytest.mark.slow
def test_block_sticks_for_an_hour_below_the_angle_of_friction():
    """At 0.999 atan(mu) it moves less than 1e-9 m in 3600 s."""
    mu = 0.4
    world = slope(math.degrees(0.999 * math.atan(mu)), static_friction=mu)
    run = exact(
        BLOCK,
        3600.0,
        q=turned(0.4, 0.1),
        world=world,
        method=tb.Dop853(rtol=1e-12, atol=1e-13, dt=1.0),
        record=tb.Record(dt=600.0),
    )
    assert np.abs(run.q[-1] - run.q[0]).max() < 1e-9
    assert kinds(run) == ["touch_down"] * 4


@pytest.mark.slow
def test_dropped_block_comes_to_rest():
    """Hundreds of impacts, slips and sticks later nothing moves, and no corner is below."""
    q = np.array([0.9, 0.2, 0.3, 0.1, 0, 0, 0.5])
    q[:4] /= np.linalg.norm(q[:4])
    world = tb.World(ground=tb.Ground(static_friction=0.5, restitution=0.3))
    run = exact(BLOCK, 2.0, q=q, v=np.array([1, 2, 3, 1, 0.5, 0.0]), world=world)
    assert run.outcome.status == "finished"
    assert np.abs(run.v[-1]).max() < 1e-15
    assert run.contact_summary().depth.max() < 1e-12
    assert abs(run.get("contact_force")[-1, :, 2].sum() - 2.0 * G) < 1e-9
    energy = run.get("kinetic_energy") + run.get("potential_energy")
    # friction and inelastic impacts only ever take energy
    assert np.diff(np.ravel(energy)).max() < 1e-11


# machines


@pytest.mark.slow
def test_rimless_wheel_walks_down_at_its_steady_speed():
    """8 spokes of 0.5 m, I = m l^2 / 4, 6 degrees: 2.463799064 before impact, 1.886495033 after."""
    length, count = 0.5, 8
    half = math.pi / count
    inertia = length**2 / 4 * np.eye(3)
    ends = [
        tb.ContactPoint(
            f"spoke_{k}",
            "wheel",
            (length * math.cos(2 * k * half), 0.0, length * math.sin(2 * k * half)),
        )
        for k in range(count)
    ]
    wheel = tb.Body(
        "wheel", "world", joint=tb.Free("wheel"), inertia=tb.Inertia(1.0, (0, 0, 0), inertia)
    )
    model = tb.Model("rimless", [wheel], contacts=ends)
    angle = math.radians(6)
    world = tb.World(
        gravity=(G * math.sin(angle), 0, -G * math.cos(angle)),
        ground=tb.Ground(static_friction=0.5),
    )
    q = np.array([math.cos(half / 2), 0, math.sin(half / 2), 0, 0, 0, length * math.cos(half)])
    # about the end of the leading spoke
    w = 1.886495
    reach = np.array([length * math.sin(half), 0.0, -length * math.cos(half)])
    linear = -np.cross([0.0, w, 0.0], reach)
    turn = np.array(
        [[math.cos(half), 0, -math.sin(half)], [0, 1, 0], [math.sin(half), 0, math.cos(half)]]
    )
    run = exact(model, 6.0, q=q, v=np.concatenate([[0, w, 0], turn @ linear]), world=world)
    impacts = [event for event in run.events if event.name.endswith("impact")]
    assert len(impacts) >= 12
    before = impacts[-1].v[1]
    # closed form: momentum about the new end, energy in between
    share = (math.cos(2 * half) * length**2 + length**2 / 4) / (1.25 * length**2)
    gained = 2.0 * G * length * 2.0 * math.sin(half) * math.sin(angle) / (1.25 * length**2)
    steady = math.sqrt(gained / (1.0 - share**2))
    assert abs(steady - 2.463799064) < 1e-9
    assert abs(steady * share - 1.886495033) < 1e-9
    # the deviation falls by the square of the share in each turn of a spoke
    assert abs(before - 2.463799064) < 1e-9
    after = tb.impact(model, impacts[-1].q, impacts[-1].v, world=world)
    assert abs(after.v[1] - 1.886495033) < 1e-9


@pytest.mark.slow
def test_block_on_a_moving_belt_sticks_and_slips_with_its_period():
    """2 A / V + (2 / w) (pi - atan(A w / V)), A = (mu_s - mu_k) g / w^2: 0.669357062342 s."""
    material = tb.ContactMaterial(static_friction=0.4, kinetic_friction=0.3)

    def body(name, parent, joint, mass, shape):
        return tb.Body(
            name,
            parent,
            joint=joint,
            inertia=tb.Inertia(mass, (0, 0, 0), mass * np.eye(3)),
            shapes=() if shape is None else (tb.Shape(shape, role="collision", material=material),),
        )

    # a belt with prescribed motion, and a slider free to move up
    belt = tb.Driven("belt", tb.Prismatic("belt", (1, 0, 0)), tb.Polynomial((0.0, 0.1)))
    parts = [
        body("belt", "world", belt, 1.0, tb.BoxShape((8.0, 1.0, 0.2))),
        body("rail", "world", tb.Prismatic("rail", axis=(0, 0, 1)), 1e-12, None),
        body("slider", "rail", tb.Prismatic("slider", axis=(1, 0, 0)), 1.0, tb.SphereShape(0.1)),
    ]
    model = tb.Model("belt", parts)

    speed, stiffness = 0.1, 100.0

    @tb.traced
    def spring(state):
        return [0.0, -stiffness * state.q[1]]

    q, v = [0.2, 0.0], [0.0, speed]
    run = exact(model, 3.0, q=q, v=v, control=spring)
    slips = [event.time for event in run.events if event.name.endswith("slip")]
    w = math.sqrt(stiffness)
    reach = (0.4 - 0.3) * G / w**2
    period = 2 * reach / speed + 2 / w * (math.pi - math.atan(reach * w / speed))
    assert abs(period - 0.669357062342) < 1e-12
    assert len(slips) >= 4
    assert np.abs(np.diff(slips)[1:] - period).max() < 1e-10


@pytest.mark.slow
def test_rigid_steps_converge_to_the_event_driven_run():
    """A ball that slides, then rolls, off the axes: positions to second order in the step."""
    world = slope(8, static_friction=0.25)
    q = turned(0.4, RADIUS)
    v = np.array([3.0, -2.0, 1.0, 0.8, -0.4, 0.0])
    end = exact(BALL, 0.5, q=q, v=v, world=world).q[-1, 4:]
    steps = np.array([4e-3, 2e-3, 1e-3, 5e-4])
    errors = [
        np.linalg.norm(
            tb.simulate(
                BALL, 0.5, q=q, v=v, world=world, contact=tb.RigidContact(), method=tb.RK4(dt=dt)
            ).q[-1, 4:]
            - end
        )
        for dt in steps
    ]
    order = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert 0.8 < order < 2.5
    assert errors[-1] < 1e-4


# tops: curved shapes that roll and slide


def rotation(quaternion):
    w, x, y, z = quaternion
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def jellett(model, run):
    """Angular momentum about the center of mass along the vector to the contact [kg m^3 / s]."""
    inertia = model.bodies[0].inertia
    xx, xy, xz, yy, yz, zz = inertia.tensor
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    found = []
    for q, v in zip(run.q, run.v, strict=True):
        arm = rotation(q[:4]).T @ [0, 0, -0.02] - np.array(inertia.com)
        found.append(tensor @ v[:3] @ arm)
    return np.array(found)


def total_energy(run):
    return np.ravel(run.get("kinetic_energy")) + np.ravel(run.get("potential_energy"))


@pytest.mark.slow
def test_tippe_top_inverts_and_keeps_jellett_integral():
    """Friction acts at the contact, along the vector from there to the center of mass it does not.

    The top hops on its way; rigid steps keep the integral to their order.
    """
    top = tb.load("tippe_top")
    world = tb.World(ground=tb.Ground(static_friction=0.03))
    q, v = np.array(top.poses["leaning"]), np.array([0, 0, 155.0, 0, 0, 0])
    run = exact(top, 16.0, q=q, v=v, world=world)
    kept = jellett(top, run)
    assert np.abs(kept / kept[0] - 1.0).max() < 1e-11
    assert rotation(run.q[0, :4])[2, 2] > 0.9
    assert rotation(run.q[-1, :4])[2, 2] < -0.99
    assert np.diff(total_energy(run)).max() < 1e-14
    errors = [
        np.abs(
            jellett(top, tb.simulate(top, 1.0, q=q, v=v, world=world, method=tb.RK4(dt=dt)))
            / kept[0]
            - 1
        )
        for dt in (1e-3, 5e-4, 2.5e-4)
    ]
    order = np.polyfit(np.log([4.0, 2.0, 1.0]), np.log([error.max() for error in errors]), 1)[0]
    assert order > 0.9


@pytest.mark.slow
def test_rattleback_turns_round_and_keeps_its_energy():
    """Spun the wrong way, a stone that rolls without slip reverses; rolling loses nothing."""
    stone = tb.load("rattleback")
    world = tb.World(ground=tb.Ground(static_friction=1.0))
    q = np.array(stone.poses["rest"])
    spin = np.array([0.05, 0.02, -5.0])
    reach = tb.contacts(stone, q, world=world).point[0] - q[4:]
    run = exact(stone, 8.0, q=q, v=np.concatenate([spin, -np.cross(spin, reach)]), world=world)
    assert run.v[-1, 2] > 4.9
    energy = total_energy(run)
    assert np.abs(energy - energy[0]).max() < 1e-11 * energy[0]


@pytest.mark.slow
def test_rolling_disc_conserves_energy():
    """A coin that rolls and precesses on the edge of its rim."""
    disc = single_body(tb.CylinderShape(0.2, 0.02), 1.0, [0.01, 0.01, 0.02])
    world = tb.World(ground=tb.Ground(static_friction=1.0))
    lean = math.radians(70)
    q = np.array([math.cos(lean / 2), math.sin(lean / 2), 0, 0, 0, 0, 1.0])
    q[6] -= tb.contacts(disc, q, world=world).gap.min()
    here = tb.contacts(disc, q, world=world)
    reach = rotation(q[:4]).T @ (here.point[np.argmin(here.gap)] - q[4:])
    spin = np.array([0.1, 0.2, 9.0])
    run = exact(disc, 5.0, q=q, v=np.concatenate([spin, -np.cross(spin, reach)]), world=world)
    energy = total_energy(run)
    assert np.abs(energy - energy[0]).max() < 1e-11 * energy[0]
    assert np.ptp(run.q[:, 6]) > 0.01


def jamming_rod():
    """Return Painleve's rod, its world, and a state in which no force satisfies Coulomb's law."""
    length = 0.5
    mass = tb.Inertia(1.3, (0, 0, 0), 1.3 * length**2 / 3 * np.diag([1e-3, 1, 1]))
    body = tb.Body("rod", "world", joint=tb.Free("rod"), inertia=mass)
    rod = tb.Model("rod", [body], contacts=[tb.ContactPoint("tip", "rod", (length, 0, 0))])
    theta = math.radians(70)
    c, s = math.cos(theta), math.sin(theta)
    q = np.array([math.cos(theta / 2), 0, math.sin(theta / 2), 0, 0, 0, length * s])
    assert 1 + 3 * c * (c - 2.5 * s) < 0
    world = tb.World(ground=tb.Ground(static_friction=2.5))
    return rod, q, np.array([0, 0, 0, 2 * c, 0, 2 * s]), world, 1.3 * (2.0 + G * length * s)


def test_painleve_rod_jams_and_continues_by_an_impulse():
    """Where no force satisfies Coulomb's law, an impulse stops the tip; energy is only lost."""
    rod, q, v, world, start = jamming_rod()
    run = exact(rod, 0.3, q=q, v=v, world=world)
    # the impulse leaves the tip at rest: none of the weight of a step lifts it
    assert [(event.name, event.time) for event in run.events] == [
        ("tip.jam", 0.0),
        ("tip.touch_down", 0.0),
    ]
    energy = total_energy(run)
    assert energy[1] < start
    assert np.diff(energy).max() < 1e-12
    assert run.contact_summary().depth.max() < 1e-12


@pytest.mark.parametrize("dt", [1e-3, 1e-4, 1e-5])
def test_steps_of_painleves_rod_find_the_impulse(dt):
    """At the level of velocities there is a solution: the impulse that stops the tip, in one step.

    It does not vanish with the length of the step, as that of a force would.
    """
    rod, q, v, world, start = jamming_rod()
    options = {
        "contact": tb.RigidContact(),
        "method": tb.RK4(dt=dt),
        "record": tb.Record(every=1),
        "execution": tb.Execution(progress=False),
    }
    run = tb.simulate(rod, 3 * dt, q=q, v=v, world=world, **options)
    assert run.outcome.status == "finished"
    assert run.contact_summary().residual <= 1e-8
    mass, theta = 1.3, math.radians(70)
    x, z, inertia = 0.5 * math.cos(theta), -0.5 * math.sin(theta), mass * 0.5**2 / 3
    mobility = np.eye(2) / mass + np.array([[z * z, -x * z], [-x * z, x * x]]) / inertia
    stopping = -np.linalg.solve(mobility, [2.0, 0.0])
    np.testing.assert_allclose(run.z[1, [0, 2]] * dt, stopping, atol=20.0 * dt)
    # the tip stays where it stopped
    tip = [float(tb.contacts(rod, now, world=world).point[0, 0]) for now in run.q]
    np.testing.assert_allclose(np.diff(tip)[1:], 0.0, atol=1e-3 * dt)
    assert total_energy(run)[-1] < 0.9 * start


@pytest.mark.slow
def test_rigid_steps_of_a_landing_quadruped_converge_to_the_event_driven_run():
    """42 impacts, slips and sticks of four feet, in order; positions to first order in the step."""
    dog = tb.load("quadruped")
    world = tb.World(ground=tb.Ground(static_friction=0.8, kinetic_friction=0.7))
    stand = np.array(dog.poses["stand"])

    @tb.traced
    def hold(state):
        torque = [100.0 * (float(a) - q) for a, q in zip(stand[7:], state.q[7:], strict=True)]
        return [0.0] * 6 + [t - 3.0 * v for t, v in zip(torque, state.v[6:], strict=True)]

    q = stand.copy()
    q[6] += 0.05
    q[:4] = np.array([0.995, 0.08, 0.05, 0.02]) / np.linalg.norm([0.995, 0.08, 0.05, 0.02])
    steps, errors = np.array([1e-3, 5e-4, 2.5e-4]), []
    # at which instants of their steps feet land is chance: mean of several starts
    for speed in (0.3, 0.2, 0.1, 0.0):
        start = {"q": q, "v": np.r_[np.zeros(3), speed, 0.1, np.zeros(13)], "world": world}
        run = exact(dog, 0.5, control=hold, **start)
        assert run.outcome.status == "finished"
        assert {"impact", "touch_down", "slip", "stick", "lift_off"} <= set(kinds(run))
        ends = [
            tb.simulate(dog, 0.5, control=hold, method=tb.RK4(dt=dt), **start).q[-1] for dt in steps
        ]
        errors.append([np.abs(end - run.q[-1]).max() for end in ends])
    errors = np.mean(errors, axis=0)
    assert np.polyfit(np.log(steps), np.log(errors), 1)[0] > 0.9
    assert errors[-1] < 5e-4


@pytest.mark.slow
def test_ball_leaves_a_shaking_table_where_it_falls_faster_than_the_ball():
    """Table at A sin(w t): the ball lifts off where A w^2 sin(w t) = g, and flies from there."""
    amplitude, w = 0.02, 30.0
    model = on_shaking_table(amplitude, w)
    q = turned(0.3, 0.1 + RADIUS)
    run = exact(model, 0.06, q=q, v=np.array([0, 0, 0, 0, 0, amplitude * w]))
    leaves = math.asin(G / (amplitude * w**2)) / w
    assert kinds(run) == ["touch_down", "lift_off"]
    assert abs(run.events[1].time - leaves) < 1e-12
    flight = 0.06 - leaves
    height = amplitude * math.sin(w * leaves) + amplitude * w * math.cos(w * leaves) * flight
    assert abs(run.q[-1, 6] - q[6] - height + 0.5 * G * flight**2) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "inertia"),
    [
        (tb.CapsuleShape(0.1, 0.3), (0.01, 0.01, 0.004)),
        (tb.EllipsoidShape((0.1, 0.15, 0.2)), (0.012, 0.01, 0.006)),
        (tb.CylinderShape(0.15, 0.2), (0.01, 0.01, 0.011)),
    ],
    ids=["capsule", "ellipsoid", "cylinder"],
)
def test_bodies_thrown_at_random_never_gain_energy(shape, inertia):
    """Tumbling, bouncing, sliding and rolling: no energy gained, no penetration, no early end."""
    rng = np.random.default_rng(3)
    body = single_body(shape, 1.0, inertia)
    for restitution in (0.0, 0.3, 0.6):
        q = np.r_[rng.normal(size=4), 0, 0, 0.6]
        q[:4] /= np.linalg.norm(q[:4])
        mu = rng.uniform(0.05, 1.0)
        ground = tb.Ground(static_friction=mu, kinetic_friction=0.8 * mu, restitution=restitution)
        v = rng.normal(size=6) * [3, 3, 3, 1, 1, 1]
        run = exact(body, 1.2, q=q, v=v, world=tb.World(ground=ground))
        assert run.outcome.status == "finished"
        assert run.contact_summary().depth.max() < 1e-11
        assert np.diff(total_energy(run)).max() < 1e-11


@pytest.mark.slow
def test_box_that_slides_on_another_one_stops():
    """After v / (mu g), v^2 / (2 mu g) m on; the box below stays where it is."""
    size, mu, v = (0.2, 0.2, 0.2), 0.4, 0.3
    material = tb.ContactMaterial(static_friction=0.5, kinetic_friction=mu)
    boxes = [
        tb.Body(
            name,
            "world",
            joint=tb.Free(name),
            inertia=tb.Inertia.box(1.0, size),
            shapes=(tb.Shape(tb.BoxShape(size), role="collision", material=material),),
        )
        for name in ("below", "above")
    ]
    model = tb.Model("boxes", boxes)
    q = np.r_[1, 0, 0, 0, 0, 0, 0.1, 1, 0, 0, 0, 0.03, 0.02, 0.3]
    start = np.r_[np.zeros(9), v, 0, 0]
    run = exact(model, 0.2, q=q, v=start, world=tb.World(ground=tb.Ground(static_friction=0.5)))
    stops = [event.time for event in run.events if event.name.endswith("stick")]
    assert stops
    assert max(abs(time - v / (mu * G)) for time in stops) < 1e-12
    assert abs(run.q[-1, 11] - q[11] - v**2 / (2.0 * mu * G)) < 1e-12
    assert np.abs(run.q[-1, :7] - q[:7]).max() < 1e-14


def test_bodies_that_fall_together_touch_without_force():
    """A ball on a plate, both thrown, turned off the axes; it slips on the plate and spins or not.

    Accelerations of the contact are rounding of terms that cancel: no mode may hang on them.
    """
    rng = np.random.default_rng(0)
    plate, ball = (
        tb.Body(
            name,
            "world",
            joint=tb.Free(name),
            inertia=tb.Inertia(mass, (0, 0, 0), np.diag(inertia)),
            shapes=(tb.Shape(shape, material=tb.ContactMaterial(0.5)),),
        )
        for name, mass, inertia, shape in (
            ("plate", 2.0, [0.2, 0.2, 0.35], tb.BoxShape((1, 1, 0.1))),
            ("ball", 1.0, [0.004] * 3, tb.SphereShape(RADIUS)),
        )
    )
    model = tb.Model("thrown", [plate, ball])
    q, v = np.zeros((6, 14)), np.zeros((6, 12))
    for k in range(6):
        axis = rng.standard_normal(3)
        axis, angle = axis / np.linalg.norm(axis), rng.uniform(0.5, 3.0)
        R = np.array(axis_angle_to_matrix(tuple(axis), angle))
        center, velocity = rng.standard_normal((2, 3))
        slip = R[:, 0] * rng.uniform(-0.3, 0.3) * (k % 2)
        q[k] = [
            *(math.cos(angle / 2), *(math.sin(angle / 2) * axis), *center),
            *(1, 0, 0, 0, *(center + R @ [0.1, -0.2, 0.05 + RADIUS])),
        ]
        v[k] = [0, 0, 0, *(R.T @ velocity), *(5.0 * (k % 3) * R[:, 2]), *(velocity + slip)]
    run = exact(
        model,
        0.3,
        q=q,
        v=v,
        world=tb.World(),
        pairs=[("plate", "ball")],
        record=tb.Record(dt=0.1),
    )
    assert run.outcome.status == "finished"
    assert [event.name for event in run.events] == ["plate/ball.touch_down"] * 6
    now = tb.contact_dynamics(model, q, v, np.zeros(12), pairs=[("plate", "ball")])
    assert np.all(now.modes == "inactive")
    alone = tb.forward_dynamics(model, q, v, np.zeros(12))
    np.testing.assert_allclose(now.vd, alone, atol=1e-12)


def test_a_contact_without_friction_never_sticks():
    """A ball at rest on a smooth plate on rough ground: nothing slips, as nothing stuck."""
    plate, ball = (
        tb.Body(
            name,
            "world",
            joint=tb.Free(name),
            inertia=tb.Inertia(mass, (0, 0, 0), np.diag(inertia)),
            shapes=(tb.Shape(shape),),
        )
        for name, mass, inertia, shape in (
            ("plate", 2.0, [0.2, 0.2, 0.35], tb.BoxShape((1, 1, 0.1))),
            ("ball", 1.0, [0.004] * 3, tb.SphereShape(RADIUS)),
        )
    )
    model = tb.Model("smooth", [plate, ball])
    q = [1, 0, 0, 0, 0, 0, 0.05, 1, 0, 0, 0, 0.1, 0.2, 0.1 + RADIUS]
    pairs = [("plate", "ball"), ("plate", "world")]
    floor = tb.World(ground=tb.Ground(static_friction=0.5))
    run = exact(
        model,
        0.1,
        q=q,
        world=floor,
        pairs=pairs,
        record=tb.Record(dt=0.05),
    )
    assert run.outcome.status == "finished"
    assert set(kinds(run)) == {"touch_down"}
    assert np.abs(run.v[-1]).max() < 1e-12


# slip that begins, ends and turns round

SLIDER = tb.Model(
    "slider",
    [
        tb.Body("a", joint=tb.Prismatic("x", (1, 0, 0))),
        tb.Body("b", "a", joint=tb.Prismatic("y", (0, 1, 0))),
        tb.Body(
            "c",
            "b",
            joint=tb.Prismatic("z", (0, 0, 1)),
            inertia=tb.Inertia.box(2.0, (0.1, 0.1, 0.1)),
        ),
    ],
    contacts=[tb.ContactPoint("foot", "c")],
)
"""2 kg on one point that cannot turn."""


def test_a_load_that_grows_and_turns_starts_a_slip_in_its_direction():
    """Slip begins where the load is mu m g and grows with the square of time, while it turns.

    With one coefficient for rest and slip there is no acceleration at that instant: the direction
    of slip is that of the load. Compared with SciPy's Radau from 10 us later on.
    """
    integrate = pytest.importorskip("scipy.integrate")
    m, mu, rate, turn, end = 2.0, 0.4, 9.0, 3.0, 1.2
    begin = mu * m * G / rate

    @tb.traced
    def load(state):
        now = rate * state.time
        return [now * np.cos(turn * state.time), now * np.sin(turn * state.time), 0.0]

    world = tb.World(ground=tb.Ground(static_friction=mu))
    run = exact(SLIDER, end, world=world, control=load, record=tb.Record(dt=0.1))
    assert run.outcome.status == "finished"
    assert kinds(run) == ["touch_down", "slip"]
    assert abs(run.events[1].time - begin) < 1e-12

    def rates(time, state):
        u = state[2:]
        way = np.array([np.cos(turn * time), np.sin(turn * time)])
        return [*u, *(rate * time * way / m - mu * G * u / np.hypot(*u))]

    late = 1e-5
    way = np.array([np.cos(turn * begin), np.sin(turn * begin)])
    start = np.r_[rate / m * late**3 / 6.0 * way, rate / m * late**2 / 2.0 * way]
    span = begin + late, end
    y = integrate.solve_ivp(rates, span, start, method="Radau", rtol=1e-10, atol=1e-14).y[:, -1]
    # the reference is good to ten digits
    assert np.abs(run.q[-1, :2] - y[:2]).max() < 1e-10
    assert np.abs(run.v[-1, :2] - y[2:]).max() < 3e-10


def test_slip_that_reverses_without_rest_is_an_event():
    """Under F cos(w t) the slip F sin(w t) / (m w) - mu g t turns round; F is above mu m g then."""
    m, mu, force, omega = 2.0, 0.3, 40.0, 7.0

    @tb.traced
    def swing(state):
        return [force * np.cos(omega * state.time), 0.0, 0.0]

    world = tb.World(ground=tb.Ground(static_friction=mu))
    run = exact(SLIDER, 0.6, world=world, control=swing, record=tb.Record(dt=0.1))
    assert run.outcome.status == "finished"
    assert kinds(run) == ["touch_down", "reversal"]
    low, high = 0.2, 0.6
    for _ in range(60):
        middle = 0.5 * (low + high)
        left = force / (m * omega) * math.sin(omega * middle) - mu * G * middle
        low, high = (middle, high) if left > 0.0 else (low, middle)
    assert abs(run.events[1].time - low) < 1e-12
    # friction acts the other way from there on
    v = force / (m * omega) * (math.sin(omega * 0.6) - math.sin(omega * low))
    assert abs(run.v[-1, 0] - v - mu * G * (0.6 - low)) < 1e-11


ROD = tb.Model(
    "rod",
    [
        tb.Body(
            "rod",
            joint=tb.Free("rod"),
            inertia=tb.Inertia(1.0, (0, 0, 0), (1 / 12, 0, 0, 1 / 12, 0, 1e-3)),
        )
    ],
    contacts=[
        tb.ContactPoint("low", "rod", (0, 0, -0.5)),
        tb.ContactPoint("high", "rod", (0, 0, 0.5)),
    ],
)
"""A uniform rod of 1 m and 1 kg."""


@pytest.mark.parametrize(("mu", "tilt"), [(0.2, 0.05), (0.8, 0.3), (1.0, 0.05)])
def test_rod_that_falls_out_of_a_plane_begins_to_slip(mu, tilt):
    """No jam: Painleve's paradox needs friction above 4/3; the run agrees with contact_dynamics."""
    w = np.array([1.5, 0.3, 0.0])
    q = [math.cos(tilt / 2), 0, math.sin(tilt / 2), 0, 0, 0, 0.5 * math.cos(tilt)]
    world = tb.World(ground=tb.Ground(static_friction=mu))
    v = [*w, *np.cross(w, [0, 0, 0.5])]
    run = exact(ROD, 0.5, q=q, v=v, world=world, record=tb.Record(dt=0.01))
    assert run.outcome.status == "finished"
    assert kinds(run)[:2] == ["touch_down", "slip"]
    energy = 0.5 * np.sum(run.v[:, 3:] ** 2, axis=1) + G * run.q[:, 6]
    energy += 0.5 * np.sum(run.v[:, :3] ** 2 * [1 / 12, 1 / 12, 1e-3], axis=1)
    assert np.diff(energy).max() < 1e-12
    after = int(np.searchsorted(run.time, run.events[1].time + 0.02))
    there = tb.contact_dynamics(ROD, run.q[after], run.v[after], np.zeros(6), world=world)
    assert np.abs(run.get("contact_force")[after] - there.forces).max() < 1e-9


def dropped(kind, case):
    """Return a body thrown at random, with random friction and restitution of the ground."""
    shapes = {
        "box": (tb.BoxShape((0.4, 0.3, 0.2)), (0.4, 0.3, 0.2)),
        "cylinder": (tb.CylinderShape(0.15, 0.3), (0.3, 0.3, 0.3)),
        "capsule": (tb.CapsuleShape(0.1, 0.3), (0.2, 0.2, 0.4)),
        "sphere": (tb.SphereShape(0.15), (0.2, 0.25, 0.3)),
    }
    model = ROD
    if kind in shapes:
        shape, size = shapes[kind]
        collision = (tb.Shape(shape, role="collision"),)
        inertia = tb.Inertia.box(2.0, size)
        body = tb.Body("b", joint=tb.Free("b"), inertia=inertia, shapes=collision)
        model = tb.Model("b", [body])
    rng = np.random.default_rng([case, len(kind)])
    mu = float(rng.choice([0.0, 0.2, 0.5, 1.0, rng.uniform(0, 1)]))
    e = float(rng.choice([0.0, 0.0, 0.3, 0.7, rng.uniform(0, 0.9)]))
    kinetic = mu * float(rng.choice([1.0, 0.8]))
    u = rng.normal(size=4)
    q = [*(u / np.linalg.norm(u)), 0, 0, 0.6 if kind == "rod" else 0.4]
    v = rng.normal(size=6) * [4, 4, 4, 1, 1, 1]
    ground = tb.Ground(static_friction=mu, kinetic_friction=kinetic, restitution=e)
    return model, q, v, tb.World(ground=ground)


def assert_lands_without_gain(kind, case):
    model, q, v, world = dropped(kind, case)
    run = exact(model, 1.0, q=q, v=v, world=world, record=tb.Record(dt=0.01))
    assert run.outcome.status == "finished", (kind, case, run.outcome.message)
    inertia = [np.asarray(tb.mass_matrix(model, q)) for q in run.q]
    kinetic = [0.5 * v @ H @ v for v, H in zip(run.v, inertia, strict=True)]
    mass = model.bodies[0].inertia.mass
    energy = np.array(kinetic) + mass * G * run.q[:, 6]
    # rounding and the tolerance of 1e-12 of the integrator
    assert np.diff(energy).max() < 1e-10 * energy[0], (kind, case)
    assert run.contact_summary().depth.max(initial=0.0) < 1e-10, (kind, case)


@pytest.mark.parametrize(("kind", "case"), [("capsule", 14), ("cylinder", 9), ("rod", 2)])
def test_bodies_that_tip_rock_and_slip_come_through(kind, case):
    """Slip that begins on one point or on both ends of an edge."""
    assert_lands_without_gain(kind, case)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["box", "cylinder", "capsule", "sphere", "rod"])
def test_two_hundred_drops_finish_and_never_gain_energy(kind):
    """Forty of each kind; friction 0 to 1, restitution 0 to 0.9."""
    for case in range(40):
        assert_lands_without_gain(kind, case)
