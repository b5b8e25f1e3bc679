"""Contact at the level of accelerations against closed forms (g = 9.81 m/s^2), off the axes."""

import math

import numpy as np
import pytest

import tiburon as tb
import tiburon.functions.contact_dynamics as contact_dynamics_module
from tests.verification.sloped import BALL, BLOCK, RADIUS, G, on_shaking_table, slope, turned


def dynamics(model, q, v=None, **more):
    v = np.zeros(6) if v is None else v
    return tb.contact_dynamics(model, q, v, np.zeros(6), **more)


@pytest.mark.parametrize("heading", [0.0, 0.7, 2.5])
def test_block_slides_at_g_sin_minus_mu_cos_in_every_heading(heading):
    """The closed form at 20 degrees with mu = 0.2, whatever the direction of the slope."""
    found = dynamics(BLOCK, turned(0.4, 0.1), world=slope(20, heading, static_friction=0.2))
    assert abs(np.linalg.norm(found.vd[3:]) - 1.511540684043) < 1e-12
    # down the slope, in axes of the block
    down = np.array([math.cos(heading - 0.4), math.sin(heading - 0.4), 0.0])
    assert np.abs(found.vd[3:] - 1.511540684043 * down).max() < 1e-11
    assert np.abs(found.vd[:3]).max() < 1e-11
    assert set(found.modes[found.modes != "separated"]) == {"sliding"}
    assert (found.rank, found.unknowns) == (3, 4)


@pytest.mark.parametrize(
    ("mu", "mode", "low", "high"),
    [(0.4, "sticking", 10.8959934, 7.5407758), (0.2, "sliding", 10.1402231, 8.2965461)],
)
def test_forces_on_the_edges_of_a_block_on_a_slope(mu, mode, low, high):
    """Balance of moments: the lower edge carries more, by (h / l) of the friction force."""
    found = dynamics(BLOCK, turned(0.7, 0.1), world=slope(20, 0.7, static_friction=mu))
    closed = found.modes != "separated"
    assert set(found.modes[closed]) == {mode}
    points = tb.contacts(BLOCK, turned(0.7, 0.1), world=slope(20, 0.7)).point
    down = (points - [0.1, -0.2, 0.0]) @ [math.cos(0.7), math.sin(0.7), 0.0]
    assert abs(found.forces[closed & (down > 0), 2].sum() - low) < 1e-7
    assert abs(found.forces[closed & (down < 0), 2].sum() - high) < 1e-7
    # some tangential forces of least norm lie outside the cone: others are returned
    tangential = np.linalg.norm(found.forces[:, :2], axis=1)
    assert np.all(tangential <= mu * found.forces[:, 2] * (1 + 1e-8) + 1e-9)


def test_ball_rolls_until_the_slope_is_too_steep():
    """5/7 g sin while rolling; g (sin - mu cos) and slip where tan > 7/2 mu."""
    rolls = dynamics(BALL, turned(0.4, RADIUS), world=slope(20, 0.7, static_friction=0.11))
    assert list(rolls.modes) == ["sticking"]
    assert abs(np.linalg.norm(rolls.vd[3:]) - 2.396584004) < 1e-9
    mu = 0.1
    slips = dynamics(BALL, turned(0.4, RADIUS), world=slope(20, 0.7, static_friction=mu))
    angle = math.radians(20)
    assert list(slips.modes) == ["sliding"]
    assert abs(np.linalg.norm(slips.vd[3:]) - G * (math.sin(angle) - mu * math.cos(angle))) < 1e-12


def test_static_friction_holds_and_kinetic_friction_acts_once_it_slides():
    """At rest below the static limit nothing moves; with slip the smaller force acts."""
    world = slope(20, 0.7, static_friction=0.4, kinetic_friction=0.2)
    q = turned(0.0, 0.1)
    assert np.abs(dynamics(BLOCK, q, world=world).vd).max() < 1e-12
    sliding = 0.3 * np.array([0, 0, 0, math.cos(0.7), math.sin(0.7), 0])
    assert abs(np.linalg.norm(dynamics(BLOCK, q, sliding, world=world).vd) - 1.511540684) < 1e-9


def test_modes_of_a_block_that_is_lifted():
    """A block that is pushed up breaks contact, one that just floats is inactive."""
    world = slope(0, 0.0, static_friction=0.0, kinetic_friction=0.0)
    q = turned(0.3, 0.1)
    for lift, mode in ((10.0, "remaining"), (2.0 * G, "inactive"), (30.0, "breaking")):
        found = dynamics(BLOCK, q, world=world, external_force={"body": [0, 0, 0, 0, 0, lift]})
        assert set(found.modes[found.modes != "separated"]) == {mode}
        assert abs(found.forces[:, 2].sum() - max(0.0, 2.0 * G - lift)) < 1e-12


# Painleve's rod

LENGTH = 0.5
ROD = tb.Model(
    "rod",
    [
        tb.Body(
            "rod",
            "world",
            joint=tb.Free("rod"),
            inertia=tb.Inertia(1.3, (0, 0, 0), 1.3 * LENGTH**2 / 3 * np.diag([1e-3, 1, 1])),
        )
    ],
    contacts=[tb.ContactPoint("tip", "rod", (LENGTH, 0, 0))],
)


def rod_state(theta, w, slip, heading=0.7):
    """A rod on its tip, which leads: at an angle from the floor, turning, slipping."""
    c, s = math.cos(theta), math.sin(theta)
    yaw = np.array([math.cos(heading / 2), 0, 0, math.sin(heading / 2)])
    pitch = np.array([math.cos(theta / 2), 0, math.sin(theta / 2), 0])
    scalar = yaw[0] * pitch[0] - yaw[1:] @ pitch[1:]
    vector = yaw[0] * pitch[1:] + pitch[0] * yaw[1:] + np.cross(yaw[1:], pitch[1:])
    # velocity of the center in axes of the rod, whose tip moves level in the plane of the rod
    angular = np.array([0.0, w, 0.0])
    level = slip * np.array([c, 0.0, s])
    linear = level - np.cross(angular, [LENGTH, 0, 0])
    return np.array([scalar, *vector, 0, 0, LENGTH * s]), np.concatenate([angular, linear])


@pytest.mark.parametrize("mu", [0.3, 1.3, 1.4, 3.0])
def test_painleve_rod_slides_lifts_does_both_or_neither(mu):
    """The signs of p = 1 + 3 cos (cos - mu sin) and b = l w^2 sin - g decide."""
    expected, states = [], []
    for degrees in (*np.arange(20, 88, 7.3), 63.43):
        for w in (0.0, 3.0, 4.2, 5.0, 9.0):
            theta = math.radians(degrees)
            c, s = math.cos(theta), math.sin(theta)
            expected.append((1 + 3 * c * (c - mu * s), LENGTH * w * w * s - G))
            states.append(rod_state(theta, w, 2.0))
    q, v = (np.array(part) for part in zip(*states, strict=True))
    world = tb.World(ground=tb.Ground(static_friction=mu))
    found = tb.contact_dynamics(ROD, q, v, np.zeros_like(v), world=world)
    for k, (p, b) in enumerate(expected):
        if p > 0:
            assert found.solutions[k] == "one"
            assert found.modes[k, 0] == ("breaking" if b > 0 else "sliding")
            assert abs(found.forces[k, 0, 2] - max(0.0, -1.3 * b / p)) < 1e-9 * abs(b / p) + 1e-12
        else:
            assert found.solutions[k] == ("several" if b > 0 else "none")
            assert np.isnan(found.vd[k]).all() == (b < 0)
    # 4/3 at 63.43 degrees is the smallest coefficient with a paradox
    assert any(p < 0 for p, _ in expected) == (mu > 4 / 3)


def test_of_several_solutions_the_one_nearest_to_the_last_forces_is_taken():
    """Where Painleve's rod may slide or lift, earlier forces decide."""
    q, v = rod_state(math.radians(65), 6.0, 2.0)
    world = tb.World(ground=tb.Ground(static_friction=3.0))
    c, s = math.cos(math.radians(65)), math.sin(math.radians(65))
    normal = -1.3 * (LENGTH * 36.0 * s - G) / (1 + 3 * c * (c - 3.0 * s))
    lifts = dynamics(ROD, q, v, world=world)
    assert (lifts.solutions, lifts.modes[0]) == ("several", "breaking")
    friction = -3.0 * normal * np.array([math.cos(0.7), math.sin(0.7)])
    slides = dynamics(ROD, q, v, world=world, last=[[*friction, normal]])
    assert (slides.solutions, slides.modes[0]) == ("several", "sliding")
    assert abs(slides.forces[0, 2] - normal) < 1e-9


def test_accelerations_differentiate_contact_velocities():
    """Bias terms with curvature: contact velocities of a rolling ball differentiated along v."""
    rng = np.random.default_rng(7)
    ball = tb.Body(
        "ball",
        "world",
        joint=tb.Free("ball"),
        inertia=tb.Inertia(1.0, (0.01, 0.02, 0), 0.004 * np.eye(3)),
        shapes=(tb.Shape(tb.EllipsoidShape((0.1, 0.15, 0.2)), role="collision"),),
    )
    model = tb.Model("egg", [ball])
    world = tb.World(ground=tb.Ground(static_friction=0.0, kinetic_friction=0.0))
    q = np.array([*rng.normal(size=4), 0, 0, 1.0])
    q[:4] /= np.linalg.norm(q[:4])
    q[6] -= tb.contacts(model, q, world=world).gap[0]
    v = rng.normal(size=6)
    # level slip: no approach
    here = tb.contacts(model, q, v, world=world)
    up = np.zeros(6)
    w, x, y, z = q[:4]
    up[3:] = [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]
    v -= up * (here.velocity[0] @ here.normal[0])
    found = dynamics(model, q, v, world=world)
    assert found.modes[0] == "remaining"

    def gap(t):
        step = t * v + 0.5 * t * t * found.vd
        return tb.contacts(model, model.integrate(q, step), world=world).gap[0]

    h = 1e-3
    second = (gap(h) - 2 * gap(0.0) + gap(-h)) / h**2
    # differences of second order: h^2 times fourth derivatives, and rounding 1e-16 / h^2
    assert abs(second) < 1e-4 * G


def test_falling_table_unloads_the_block_on_it():
    """Prescribed motion: force m (g + a) on a table that accelerates by a, none where a < -g."""
    amplitude, w = 0.02, 30.0
    model = on_shaking_table(amplitude, w)
    times = np.array([0.0, 0.01, 0.02, 0.03])
    height = amplitude * np.sin(w * times)
    q = np.array([turned(0.4, 0.1 + RADIUS + z) for z in height])
    v = np.zeros((4, 6))
    v[:, 5] = amplitude * w * np.cos(w * times)
    found = tb.contact_dynamics(model, q, v, np.zeros(6), time=times)
    expected = np.maximum(G - w**2 * height, 0.0)
    assert np.abs(np.abs(found.forces[:, 0, 2]) - expected).max() < 1e-12
    assert list(found.modes[:, 0] == "breaking") == [False, False, True, True]


def test_friction_and_masses_by_name_are_those_of_each_case():
    """Accelerations g (sin - mu cos) with a coefficient per case, or rest where that holds."""
    mu = np.array([0.1, 0.2, 0.5])
    given = {"ground.static_friction": mu, "body.mass": [1.0, 2.0, 3.0]}
    world = slope(20, 0.7, static_friction=0.9)
    found = dynamics(BLOCK, turned(0.4, 0.1), world=world, parameters=given)
    angle = math.radians(20)
    expected = np.maximum(G * (math.sin(angle) - mu * math.cos(angle)), 0.0)
    np.testing.assert_allclose(np.linalg.norm(found.vd[:, 3:], axis=1), expected, atol=1e-9)
    load = np.array([1.0, 2.0, 3.0]) * G * math.cos(angle)
    np.testing.assert_allclose(found.forces[..., 2].sum(axis=1), load, rtol=1e-9)
    # one contact alone, whose kinetic coefficient is given too
    names = {f"contact.body/ground.{word}_friction": 0.2 for word in ("static", "kinetic")}
    alone = dynamics(BLOCK, turned(0.4, 0.1), world=world, parameters=names)
    assert abs(np.linalg.norm(alone.vd[3:]) - 1.511540684043) < 1e-9
    listed = tb.parameters(BLOCK, world=world)
    assert set(given) | set(names) <= set(listed)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ground.static_friction": -0.1}, "at least 0"),
        ({"ground.static_friction": [0.1, -0.1]}, "case 1"),
        ({"ground.restitution": 0.5}, "does not"),
        ({"ground.friction": 0.5}, "static_friction"),
    ],
)
def test_parameters_that_no_surface_can_have_are_refused(given, words):
    with pytest.raises(tb.TiburonError, match=words):
        dynamics(BLOCK, turned(0.4, 0.1), world=slope(20, 0.7), parameters=given)


def test_of_many_contact_points_only_touching_bodies_are_posed(monkeypatch):
    """The same modes, forces and accelerations as with all points at once, alone and in a batch."""
    dog, world = tb.load("quadruped"), tb.World(ground=tb.Ground(static_friction=0.8))
    stand = np.asarray(dog.poses["stand"])
    q = np.tile(stand, (4, 1))
    # all feet, all but one, two, none
    knees = [k for k, name in enumerate(dog.q_names) if name.endswith("knee")]
    for case, lifted in ((1, knees[:1]), (2, knees[1:3])):
        q[case, lifted] += np.sign(q[case, lifted]) * 0.2
    q[3, 6] += 0.1
    gap = tb.contacts(dog, q, world=world).gap
    closed = np.abs(gap) <= 1e-9
    assert closed.sum(axis=1).tolist() == [4, 3, 2, 0]
    assert gap.min() > -1e-9
    # knees push the feet down
    v, tau = np.zeros(dog.nv), np.zeros(dog.nv)
    tau[8::3] = 10.0, 11.0, 12.0, 13.0
    expected = tb.contact_dynamics(dog, q, v, tau, world=world)
    assert ((expected.forces[..., 2] > 1.0) == closed).all()
    posed = []
    original = contact_dynamics_module._problem.call

    def call(model, arrays, conditions, options):
        posed.append(len(dict(options)["candidates"]))
        return original(model, arrays, conditions, options)

    monkeypatch.setattr(contact_dynamics_module, "MOST_POINTS", 3)
    monkeypatch.setattr(contact_dynamics_module._problem, "call", call)
    found = tb.contact_dynamics(dog, q, v, tau, world=world)
    assert posed == [4, 3, 2, 1]
    assert np.array_equal(found.modes, expected.modes)
    assert np.array_equal(found.rank, expected.rank)
    assert np.abs(found.vd - expected.vd).max() < 1e-10 * np.abs(expected.vd).max()
    assert np.abs(found.forces - expected.forces).max() < 1e-10 * np.abs(expected.forces).max()
    for case in range(4):
        alone = tb.contact_dynamics(dog, q[case], v, tau, world=world)
        assert np.array_equal(alone.vd, found.vd[case])
        assert np.array_equal(alone.forces, found.forces[case])
