"""Rigid contact against closed forms (g = 9.81 m/s^2), tilted off the axes."""

import math

import numpy as np
import pytest

import tiburon as tb
from tests.verification.sloped import BALL, BLOCK, HEADING, RADIUS, SIZE, G, slope, turned

ALONG = np.array([math.cos(HEADING), math.sin(HEADING), 0.0])


def resting(height, turn=0.4):
    return turned(turn, height)


def test_block_sticks_below_the_angle_of_friction():
    mu = 0.4
    world = slope(math.degrees(0.999 * math.atan(mu)), static_friction=mu)
    start = resting(SIZE[2] / 2)
    run = tb.simulate(BLOCK, 10.0, q=start, world=world, record=tb.Record(dt=1.0))
    # tolerance of the solver in the first steps, which begin without known forces
    assert np.abs(run.q[-1] - start).max() < 1e-9
    # rounding: of the forces of the last step, and of the impulses that replace them
    assert np.abs(run.q[-1] - run.q[1]).max() < 1e-13
    assert run.contact_summary().depth.max() < 1e-11


@pytest.mark.slow
def test_block_sticks_for_an_hour_below_the_angle_of_friction():
    """900 000 steps of 4 ms: less than 1e-9 m, and nothing but rounding after the first."""
    mu = 0.4
    world = slope(math.degrees(0.999 * math.atan(mu)), static_friction=mu)
    start = resting(SIZE[2] / 2)
    run = tb.simulate(
        BLOCK, 3600.0, q=start, world=world, method=tb.RK4(dt=4e-3), record=tb.Record(dt=600.0)
    )
    assert run.status == "finished"
    assert np.abs(run.q - start).max() < 1e-9
    assert np.abs(run.q[-1] - run.q[1]).max() < 5e-12


@pytest.mark.parametrize("kick", [0.0, 0.3])
@pytest.mark.parametrize("heading", [0.0, HEADING, 2.5, 4.0])
def test_block_slides_above_the_angle_of_friction(heading, kick):
    """At g (sin - mu cos) in every heading, from rest or from a speed down the slope."""
    down = np.array([math.cos(heading), math.sin(heading), 0.0])
    # in axes of the block
    v = kick * np.array([0, 0, 0, math.cos(heading - 0.4), math.sin(heading - 0.4), 0])
    world = slope(20, heading, static_friction=0.2)
    run = tb.simulate(BLOCK, 1.0, q=resting(0.1), v=v, world=world, record=tb.Record(dt=0.1))
    travel = (run.q[:, 4:7] - run.q[0, 4:7]) @ down
    expected = kick * run.time + 0.5 * 1.511540684 * run.time**2
    np.testing.assert_allclose(travel, expected, atol=3e-10)
    across = run.q[:, 4:7] - run.q[0, 4:7] - np.outer(travel, down)
    assert np.abs(across).max() < 1e-11


@pytest.mark.parametrize(
    ("mu", "lower", "upper"), [(0.4, 10.8959934, 7.5407758), (0.2, 10.1402231, 8.2965461)]
)
def test_edge_forces_of_a_block_on_a_slope(mu, lower, upper):
    world = slope(20, static_friction=mu)
    # the block lies along the slope: its edges across it carry these normal forces
    run = tb.simulate(
        BLOCK,
        0.1,
        q=resting(0.1, HEADING),
        world=world,
        record=tb.Record(dt=0.1),
        contact=tb.RigidContact(tolerance=1e-12),
    )
    force = run.z[-1, :32].reshape(8, 4)[:, 2]
    here = tb.contacts(BLOCK, run.q[-1], world=world)
    front = (here.point - run.q[-1, 4:7]) @ ALONG > 0
    # to the last digit
    assert force[front].sum() == pytest.approx(lower, abs=6e-8)
    assert force[~front].sum() == pytest.approx(upper, abs=6e-8)


def test_static_friction_holds_where_kinetic_friction_slides():
    # tan 20 deg = 0.364 lies between the two coefficients
    world = slope(20, static_friction=0.4, kinetic_friction=0.2)
    rest = tb.simulate(BLOCK, 1.0, q=resting(0.1, HEADING), world=world, record=tb.Record(dt=0.5))
    assert np.abs(rest.q[-1] - rest.q[0]).max() < 1e-9
    # body axes lie along the slope
    v = np.array([0, 0, 0, 0.3, 0, 0])
    run = tb.simulate(
        BLOCK, 1.0, q=resting(0.1, HEADING), v=v, world=world, record=tb.Record(dt=0.5)
    )
    travel = (run.q[-1, 4:7] - run.q[0, 4:7]) @ ALONG
    assert travel == pytest.approx(0.3 + 0.5 * 1.511540684, abs=1e-9)


@pytest.mark.parametrize("speed", [2.0, 1e-3])
def test_a_start_with_slip_has_kinetic_friction_from_the_first_step(speed):
    """A ball without spin loses mu_k g h in the first step, one that rolls nothing."""
    world = tb.World(ground=tb.Ground(static_friction=0.5, kinetic_friction=0.02))
    h = 1e-3
    v = np.zeros((2, 6))
    v[:, 3:5] = speed * np.array([math.cos(0.3), math.sin(0.3)])
    v[1, :3] = np.cross([0, 0, 1 / RADIUS], v[1, 3:])
    q = np.tile([1.0, 0, 0, 0, 0.1, -0.2, RADIUS], (2, 1))
    run = tb.simulate(
        BALL, h, q=q, v=v, world=world, method=tb.RK4(dt=h), record=tb.Record(every=1)
    )
    after = np.linalg.norm(run.v[-1, :, 3:], axis=-1)
    # body axes turn with the ball: the integral of its velocity does not depend on them
    moved = np.linalg.norm(run.q[-1, :, 4:] - q[:, 4:], axis=-1)
    assert after[0] == pytest.approx(speed - 0.02 * G * h, abs=1e-9)
    assert moved[0] == pytest.approx(speed * h - 0.5 * 0.02 * G * h * h, abs=1e-10)
    assert moved[1] == pytest.approx(speed * h, rel=1e-4)
    assert run.z[0, :, 3].tolist() == [0.0, 1.0]


def order(errors):
    """Fitted order of errors for steps that halve."""
    return np.polyfit(np.arange(len(errors)), -np.log2(errors), 1)[0]


@pytest.mark.parametrize("mu", [0.5, 0.05])
def test_ball_rolls_or_slips_down_a_slope(mu):
    angle = math.radians(20)
    assert (math.tan(angle) > 3.5 * mu) == (mu == 0.05)
    rolling = 2.396584004
    expected = rolling if mu == 0.5 else G * (math.sin(angle) - mu * math.cos(angle))
    errors = []
    for dt in (4e-3, 2e-3, 1e-3):
        run = tb.simulate(
            BALL,
            0.4,
            q=resting(RADIUS),
            world=slope(20, static_friction=mu),
            method=tb.RK4(dt=dt),
            record=tb.Record(dt=0.4),
        )
        errors.append(abs((run.q[-1, 4:7] - run.q[0, 4:7]) @ ALONG - 0.08 * expected))
        assert run.q[-1, 6] == pytest.approx(RADIUS, abs=1e-8)
    assert order(errors) > 1.8
    assert errors[-1] < 3e-6


def test_sliding_ball_starts_to_roll():
    mu, speed = 0.3, 2.0
    v = np.array([0, 0, 0, speed, 0, 0])
    errors = []
    for dt in (2e-3, 1e-3, 5e-4):
        world = tb.World(ground=tb.Ground(static_friction=mu))
        run = tb.simulate(
            BALL,
            0.3,
            q=resting(RADIUS, 0.0),
            v=v,
            world=world,
            method=tb.RK4(dt=dt),
            record=tb.Record(dt=0.1),
        )
        rolling = 2 * speed / (7 * mu * G)
        path = 12 * speed**2 / (49 * mu * G) + 5 / 7 * speed * (0.3 - rolling)
        errors.append(abs(run.q[-1, 4] - run.q[0, 4] - path))
    assert errors[-1] < 1e-4
    assert order(errors) > 0.8


def test_bouncing_ball_comes_to_rest_after_the_sum_of_its_bounces():
    world = tb.World(ground=tb.Ground(restitution=0.8))
    run = tb.simulate(BALL, 5.0, q=resting(RADIUS + 1.0), world=world, record=tb.Record(dt=0.001))
    height = run.q[:, 6] - RADIUS
    end = run.time[np.flatnonzero(np.abs(height) > 1e-7)[-1]]
    # bounces shorter than a step are lost: (1 + e)/(1 - e) of them
    assert 4.063712769 - 10e-3 < end <= 4.063712769 + 1e-3
    first = math.sqrt(2 / G)
    peak = height[(run.time > first) & (run.time < 2.5 * first)].max()
    assert peak == pytest.approx(0.64, abs=1e-5)
    assert height.min() > -1e-9
    assert np.abs(run.v[-1]).max() < 1e-12


def test_end_of_the_bounces_converges_with_the_step():
    """Bounces shorter than a step are lost: first order."""
    world = tb.World(ground=tb.Ground(restitution=0.8))
    steps, errors = np.array([4e-3, 2e-3, 1e-3, 5e-4, 2.5e-4]), []
    for dt in steps:
        run = tb.simulate(
            BALL,
            4.2,
            q=resting(RADIUS + 1.0),
            world=world,
            method=tb.RK4(dt=dt),
            record=tb.Record(every=1),
        )
        flying = np.flatnonzero(np.abs(run.q[:, 6] - RADIUS) > 1e-9)
        errors.append(4.063712769 - run.time[flying[-1]])
    assert np.polyfit(np.log(steps), np.log(errors), 1)[0] > 0.8
    assert 0.0 < errors[-1] < 2e-3


def test_perfect_restitution_conserves_energy():
    world = tb.World(ground=tb.Ground(restitution=1.0))
    run = tb.simulate(BALL, 20.0, q=resting(RADIUS + 1.0), world=world, record=tb.Record(dt=0.01))
    energy = tb.kinetic_energy(BALL, run.q, run.v) + G * (run.q[:, 6] - RADIUS)
    # twenty-two bounces
    np.testing.assert_allclose(energy, G, rtol=1e-9)


@pytest.mark.parametrize("mu", [0.0, 0.6])
@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
def test_energy_never_grows_in_impact(mu, e):
    world = tb.World(ground=tb.Ground(static_friction=mu, restitution=e))
    rng = np.random.default_rng(1)
    q, v = [], []
    for _ in range(40):
        turn = rng.normal(size=4)
        q.append([*(turn / np.linalg.norm(turn)), 0, 0, 1.0])
        v.append(rng.normal(size=6))
    q, v = np.array(q), np.array(v)
    gap = tb.contacts(BLOCK, q, world=world).gap.min(axis=1)
    q[:, 6] -= gap
    after = tb.impact(BLOCK, q, v, world=world)
    change = tb.kinetic_energy(BLOCK, q, after.v) - tb.kinetic_energy(BLOCK, q, v)
    np.testing.assert_allclose(after.energy_change, change, atol=1e-10)
    assert after.energy_change.max() < 1e-10
    if mu == 0.0 and e == 1.0:
        assert np.abs(after.energy_change).max() < 1e-10


def test_impact_of_three_balls_in_a_row():
    def ball(name, x):
        joint = tb.Prismatic(name, axis=(1, 0, 0), pose=tb.Pose(translation=(x, 0, 0)))
        inertia = tb.Inertia(mass=1.0, com=(0, 0, 0), tensor=np.eye(3))
        shape = tb.Shape(tb.SphereShape(0.5))
        return tb.Body(name, "world", joint=joint, inertia=inertia, shapes=(shape,))

    row = tb.Model("row", [ball("a", 0.0), ball("b", 1.0), ball("c", 2.0)])
    v = [1.0, 0.0, 0.0]
    for e, expected in ((1.0, (-1, 2, 2)), (0.5, (0, 1.5, 1.5)), (0.0, (1, 1, 1))):
        after = tb.impact(row, np.zeros(3), v, restitution=e)
        np.testing.assert_allclose(after.v, np.array(expected) / 3, atol=1e-11)
        # compression takes 1/3 J from the relative motion
        assert after.energy_change == pytest.approx(-(1 - e * e) / 3, abs=1e-11)


def test_momentum_of_a_pile_is_conserved():
    """Balls that collide in free fall: only their mass center falls."""

    def ball(name, radius, mass):
        inertia = tb.Inertia(mass=mass, com=(0, 0, 0), tensor=0.4 * mass * radius**2 * np.eye(3))
        material = tb.ContactMaterial(static_friction=0.5, restitution=0.3)
        shape = tb.Shape(tb.SphereShape(radius), material=material)
        return tb.Body(name, "world", joint=tb.Free(name), inertia=inertia, shapes=(shape,))

    sizes = {"a": (0.1, 1.0), "b": (0.15, 2.5), "c": (0.2, 0.7)}
    pile = tb.Model("pile", [ball(name, *size) for name, size in sizes.items()])
    q = pile.neutral()
    for k, place in enumerate(((0, 0, 0), (0.5, 0.05, 0.02), (0.25, 0.5, -0.04))):
        q[7 * k + 4 : 7 * k + 7] = place
    v = np.zeros(18)
    v[3:6], v[9:12], v[6:9] = (1.0, 0.1, 0), (-1.5, 0.0, 0.0), (0, 3.0, 1.0)
    v[15:18] = (0.0, -1.6, 0.0)
    space = tb.World(gravity=(0, 0, 0))
    run = tb.simulate(
        pile, 0.5, q=q, v=v, world=space, contact=tb.RigidContact(), record=tb.Record(dt=0.001)
    )
    assert (run.contact_summary().peak_force > 0).sum() >= 2
    momentum = tb.momentum(pile, run.q, run.v, at="world")
    np.testing.assert_allclose(momentum, np.broadcast_to(momentum[0], momentum.shape), atol=2e-3)
    linear = momentum[:, 3:]
    np.testing.assert_allclose(linear, np.broadcast_to(linear[0], linear.shape), atol=1e-11)
    energy = tb.kinetic_energy(pile, run.q, run.v)
    assert (np.diff(energy) < 1e-10).all()
    assert energy[-1] < 0.95 * energy[0]
