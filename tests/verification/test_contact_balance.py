"""Rigid contact of random and ill-conditioned mechanisms: balances of momentum, energy and force.

Impulses are recorded as mean forces over a step. Their sum must be what changes the momentum, and
no contact with restitution up to 1 may add energy.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import turn

G = 9.81
QUIET = {"execution": tb.Execution(progress=False)}


def free(name, shape, mass, size, **rest):
    """Return a free body whose inertia is that of a box."""
    inertia = tb.Inertia.box(mass, size)
    shapes = (tb.Shape(shape, role="collision"),)
    return tb.Body(name, joint=tb.Free(name), inertia=inertia, shapes=shapes, **rest)


def forces(run, model, world):
    """Return the sum of contact forces on the robot over all steps, world axes [N]."""
    names = tb.contacts(model, run.q[0], world=world).names
    rows = run.z[:, : 4 * len(names)].reshape(len(run.q), len(names), 4)
    # between two bodies of the robot, forces cancel
    outer = [k for k, name in enumerate(names) if "/" not in name or "ground" in name]
    return rows[:, outer, :3].sum(axis=1)


def linear_momentum(model, run):
    """Return the linear momentum in world axes, one row per record [kg m/s]."""
    return np.asarray(tb.momentum(model, run.q, run.v))[..., 3:]


def energy(model, run, world):
    """Return kinetic and potential energy, one value per record [J]."""
    kinetic = tb.kinetic_energy(model, run.q, run.v)
    return kinetic + tb.potential_energy(model, run.q, world=world)


def imbalance(model, run, world, weight):
    """Return the largest error of momentum in a step, relative to the largest impulse."""
    dt = run.time[1] - run.time[0]
    change = np.diff(linear_momentum(model, run), axis=0)
    push = dt * (forces(run, model, world)[1:] + weight)
    return np.abs(change - push).max() / np.abs(push).max()


def balance(model, run, world, weight):
    """Check momentum step by step, and return the growth of the energy [J]."""
    # round-off of momenta; impulses enter velocities exactly as they are recorded
    assert imbalance(model, run, world, weight) < 1e-9
    return np.diff(energy(model, run, world))


@pytest.mark.parametrize("restitution", [0.0, 0.8])
def test_random_pile(restitution):
    """A box, a capsule and a ball, thrown at each other over rough ground."""
    model = tb.Model(
        "pile",
        [
            free("box", tb.BoxShape((0.4, 0.3, 0.2)), 2.0, (0.4, 0.3, 0.2)),
            free("capsule", tb.CapsuleShape(0.08, 0.3), 0.7, (0.16, 0.16, 0.4)),
            free("ball", tb.SphereShape(0.12), 0.05, (0.2, 0.2, 0.2)),
        ],
    )
    ground = tb.Ground(static_friction=0.5, kinetic_friction=0.4, restitution=restitution)
    world = tb.World(ground=ground)
    rng = np.random.default_rng(7)
    q, v = [], []
    for k in range(3):
        quaternion = rng.normal(size=4)
        q += [*(quaternion / np.linalg.norm(quaternion)), 0.05 * k, -0.04 * k, 0.35 + 0.4 * k]
        v += [*rng.normal(size=3), *rng.uniform(-0.5, 0.5, size=2), -1.0 - k]
    run = tb.simulate(
        model,
        0.6,
        q=q,
        v=v,
        world=world,
        method=tb.RK4(dt=1e-3),
        record=tb.Record(every=1),
        **QUIET,
    )
    touched = run.z[:, : 4 * len(tb.contacts(model, q, world=world).names)]
    assert np.any(touched != 0.0)
    mass = sum(body.inertia.mass for body in model.bodies)
    growth = balance(model, run, world, np.array([0, 0, -mass * G]))
    scale = energy(model, run, world)[0]
    # forces are constant within a step: errors of gyroscopic terms are of third order
    assert growth.max() < 1e-5 * scale
    assert growth.sum() < -0.1 * scale
    gaps = tb.contacts(model, run.q, world=world).gap
    # gaps are closed to first order in what a step turns
    assert gaps.min() > -1e-5


def test_spinning_tall_box_lands_on_an_edge():
    """A gyroscopic body on an edge: momentum, energy, and the spin it keeps about the vertical."""
    size = (0.1, 0.14, 0.8)
    model = tb.Model("box", [free("box", tb.BoxShape(size), 3.0, size)])
    world = tb.World(ground=tb.Ground(static_friction=0.0))
    R = turn(np.array([0.5, 0.0, 0.0]))
    lowest = 0.5 * np.abs(R[2]) @ np.array(size)
    q = np.array([np.cos(0.25), np.sin(0.25), 0, 0, 0, 0, lowest + 0.01])
    spin = R.T @ np.array([0.0, 0.0, 30.0])
    run = tb.simulate(
        model,
        0.3,
        q=q,
        v=[*spin, 0, 0, 0],
        world=world,
        method=tb.RK4(dt=5e-4),
        record=tb.Record(every=1),
        **QUIET,
    )
    growth = balance(model, run, world, np.array([0, 0, -3.0 * G]))
    assert growth.max() < 1e-5 * energy(model, run, world)[0]
    # without friction, vertical forces turn about horizontal axes only; an impact keeps the
    # velocity, not the momentum, of what the body turns on within its step: first order in dt
    spins = np.asarray(tb.momentum(model, run.q, run.v, at="com"))[:, 2]
    np.testing.assert_allclose(spins, spins[0], rtol=30.0 * 5e-4 / 5.0)
    before = run.z[:, : 4 * 8].reshape(len(run.q), 8, 4)[:, :, 2].sum(axis=1) == 0.0
    first = int(np.argmin(before)) - 1
    np.testing.assert_allclose(spins[:first], spins[0], rtol=1e-7)


def mixed_robot():
    """Return a base with universal, spherical and planar joints and four contact points."""
    rod = tb.Inertia.box(0.6, (0.05, 0.05, 0.3), com=(0, 0, -0.15))
    below = tb.Pose(translation=(0, 0, -0.3))
    bodies = [free("base", tb.SphereShape(0.05), 2.0, (0.3, 0.2, 0.1))]
    points = []
    for name, joint, x in (
        ("u", tb.Universal("u", (1, 0, 0), (0, 1, 0)), 0.2),
        ("s", tb.Spherical("s"), -0.2),
        ("p", tb.Planar("p", (0, 1, 0)), 0.0),
    ):
        at = tb.Pose(translation=(x, 0.05 if name == "p" else 0.0, 0.0))
        bodies.append(tb.Body(name, "base", joint=replace(joint, pose=at), inertia=rod))
        points.append(tb.ContactPoint(f"{name}_foot", name, below.translation, radius=0.02))
    return tb.Model("mixed", bodies, contacts=points)


def test_universal_spherical_and_planar_joints():
    """A robot of unusual joints falls on its feet, kicked: momentum and energy.

    Joint velocities are what an impact finds; the momentum they have changes with what the robot
    turns on within the step: first order in dt.
    """
    model = mixed_robot()
    world = tb.World(ground=tb.Ground(static_friction=0.6, restitution=0.3))
    rng = np.random.default_rng(5)
    q = np.asarray(model.neutral()).copy()
    q[model.slice("base", of="q")][-1] = 0.36
    v = 0.6 * rng.normal(size=model.nv)
    mass = sum(body.inertia.mass for body in model.bodies)
    errors = []
    for dt in (1e-3, 2.5e-4):
        run = tb.simulate(
            model,
            0.25,
            q=q,
            v=v,
            world=world,
            method=tb.RK4(dt=dt),
            record=tb.Record(every=1),
            **QUIET,
        )
        errors.append(imbalance(model, run, world, np.array([0, 0, -mass * G])))
    assert errors[0] < 2e-3
    assert errors[1] < 0.5 * errors[0]
    growth = np.diff(energy(model, run, world))
    scale = np.abs(energy(model, run, world)).max()
    assert growth.max() < 2e-5 * scale
    assert growth.sum() < -0.01 * scale
    assert tb.contacts(model, run.q, world=world).gap.min() > -1e-5


def test_sea_floor_carries_the_weight_in_water():
    """At rest on the sea floor: weight less buoyancy, added mass or not."""
    wet = tb.BodyFluid(volume=1.2e-3, added_mass=np.diag([0.01, 0.01, 0.01, 0.5, 0.6, 0.9]))
    size = (0.2, 0.15, 0.1)
    model = tb.Model("crab", [free("crab", tb.BoxShape(size), 2.0, size, fluid=wet)])
    world = tb.World(ground=tb.Ground(static_friction=0.5, height=-20.0), fluid=tb.Water(1025.0))
    run = tb.simulate(
        model, 0.2, q=[1, 0, 0, 0, 3, -2, -19.95], world=world, record=tb.Record(every=1), **QUIET
    )
    total = forces(run, model, world)[-1]
    np.testing.assert_allclose(total, [0, 0, (2.0 - 1025.0 * 1.2e-3) * G], atol=1e-7)
    np.testing.assert_allclose(run.q[-1], run.q[0], atol=1e-9)


def test_results_do_not_depend_on_the_heading():
    """A block that slides and turns down a slope, turned about the normal: the same motion."""
    size = (0.4, 0.3, 0.2)
    model = tb.Model("block", [free("block", tb.BoxShape(size), 2.0, size)])
    ends = []
    for heading in (0.0, 0.7, 2.1):
        R = turn(np.array([0, 0, heading]))
        gravity = R @ [G * np.sin(0.5), 0.0, -G * np.cos(0.5)]
        world = tb.World(gravity=tuple(gravity), ground=tb.Ground(static_friction=0.2))
        half = 0.5 * (heading + 0.3)
        q = [np.cos(half), 0, 0, np.sin(half), 0, 0, 0.1]
        v = np.array([0, 0, 0.8, 0.5, 0.2, 0.0])
        run = tb.simulate(model, 0.3, q=q, v=v, world=world, **QUIET)
        ends.append([*(R.T @ run.q[-1, 4:7]), *run.v[-1]])
    # four corners share the load as the solver decides: it ends at 8 digits
    np.testing.assert_allclose(ends[1], ends[0], atol=2e-6)
    np.testing.assert_allclose(ends[2], ends[0], atol=2e-6)


def test_positions_converge_with_the_second_order():
    """A ball with spin, sliding and turning: errors of positions fall with the square of dt."""
    model = tb.Model("ball", [free("ball", tb.SphereShape(0.1), 1.0, (0.1, 0.14, 0.12))])
    world = tb.World(ground=tb.Ground(static_friction=0.3))
    q, v = [1, 0, 0, 0, 0, 0, 0.1], [3.0, -20.0, 8.0, 2.0, 0.5, 0.0]
    ends = [
        tb.simulate(model, 0.2, q=q, v=v, world=world, method=tb.RK4(dt=dt), **QUIET).q[-1, 4:6]
        for dt in (4e-3, 2e-3, 1e-3, 5e-4)
    ]
    errors = [np.linalg.norm(a - b) for a, b in itertools.pairwise(ends)]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(orders > 1.6), (errors, orders)


def test_arm_presses_a_wall():
    """Two links press a point against the ground with much friction: forces from the torques."""
    arm = tb.Model(
        "arm",
        [
            tb.Body(
                "upper",
                joint=tb.Revolute("shoulder", (0, 1, 0), pose=tb.Pose(translation=(0, 0, 0.5))),
                inertia=tb.Inertia.box(1.0, (0.4, 0.04, 0.04), com=(0.2, 0, 0)),
            ),
            tb.Body(
                "lower",
                "upper",
                joint=tb.Revolute("elbow", (0, 1, 0), pose=tb.Pose(translation=(0.4, 0, 0))),
                inertia=tb.Inertia.box(1.0, (0.4, 0.04, 0.04), com=(0.2, 0, 0)),
            ),
        ],
        contacts=[tb.ContactPoint("tip", "lower", (0.4, 0, 0))],
    )
    # gravity points along the wall: the ground is the wall
    world = tb.World(gravity=(-G, 0.0, 0.0), ground=tb.Ground(static_friction=1e4))
    bend = 1.0
    lean = np.arcsin(0.5 / (2 * 0.4 * np.cos(0.5 * bend))) - 0.5 * bend
    q = np.array([lean, bend])
    assert tb.contacts(arm, q, world=world).gap[0] == pytest.approx(0.0, abs=1e-12)
    tau = np.array([3.0, 2.0])
    run = tb.simulate(arm, 0.05, q=q, world=world, command=tau, record=tb.Record(every=1), **QUIET)
    np.testing.assert_allclose(run.q, np.broadcast_to(q, run.q.shape), atol=1e-10)
    # statics: tau + J^T f = gravity; the point is held in the plane of the arm
    J = np.asarray(tb.frame_jacobian(arm, q, "lower", at=(0.4, 0, 0)))[3:]
    needed = np.asarray(tb.inverse_dynamics(arm, q, [0, 0], [0, 0], world=world)) - tau
    expected = np.linalg.lstsq(J.T, needed, rcond=None)[0]
    found = -run.z[-1, :3] if run.z[-1, 2] < 0 else run.z[-1, :3]
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


def test_light_link_between_heavy_ones():
    """A stack of joints, heavy on a gram on heavy: the foot carries all of it at once."""

    def stage(name, parent, mass):
        joint = tb.Prismatic(name, (0, 0, 1), pose=tb.Pose(translation=(0, 0, 0.1)))
        return tb.Body(name, parent, joint=joint, inertia=tb.Inertia.point(mass))

    model = tb.Model(
        "stack",
        [stage("low", "world", 10.0), stage("thin", "low", 1e-3), stage("high", "thin", 50.0)],
        contacts=[tb.ContactPoint("foot", "low", (0, 0, -0.1))],
    )
    world = tb.World(ground=tb.Ground(static_friction=0.5))
    held = np.array([0.0, (50.0 + 1e-3) * G, 50.0 * G])
    run = tb.simulate(
        model, 0.05, q=np.zeros(3), world=world, command=held, record=tb.Record(every=1), **QUIET
    )
    # the first joint has no command: the foot holds what all of them press on it
    np.testing.assert_allclose(run.z[1:, 2], (60.0 + 1e-3) * G, rtol=1e-7)
    np.testing.assert_allclose(run.q, 0.0, atol=1e-9)


@pytest.mark.parametrize("mu", [0.0, 10.0])
def test_extremes_of_friction(mu):
    """No friction keeps horizontal momentum; much of it makes a dropped ball roll at once."""
    radius = 0.1
    inertia = tb.Inertia(1.0, (0, 0, 0), 0.4 * radius**2 * np.eye(3))
    ball = tb.Body(
        "ball",
        joint=tb.Free("ball"),
        inertia=inertia,
        shapes=(tb.Shape(tb.SphereShape(radius), role="collision"),),
    )
    model = tb.Model("ball", [ball])
    world = tb.World(ground=tb.Ground(static_friction=mu))
    v = np.array([0.4, 6.0, -0.8, 1.0, -0.5, -2.0])
    run = tb.simulate(
        model,
        0.05,
        q=[1, 0, 0, 0, 0, 0, 0.12],
        v=v,
        world=world,
        record=tb.Record(every=1),
        **QUIET,
    )
    here = tb.contacts(model, run.q[-1], run.v[-1], world=world)
    if mu == 0.0:
        np.testing.assert_allclose(linear_momentum(model, run)[-1, :2], v[3:5], atol=1e-12)
    else:
        # Signorini and Coulomb hold where a constant velocity leads: to the second order, (w h)^2 v
        np.testing.assert_allclose(here.velocity[0], 0.0, atol=(7.0 * 1e-3) ** 2)
        # angular momentum about the point of contact is kept, 7/5 of the rolling speed; impulses
        # act where a constant velocity leads, up to v h beyond the point
        speed = linear_momentum(model, run)[-1, :2]
        w = v[:3]
        expected = (v[3:5] + 0.4 * radius * np.array([w[1], -w[0]])) / 1.4
        np.testing.assert_allclose(speed, expected, rtol=2.1 * 1e-3 / radius / 5.0)


def test_coincident_contact_points_act_as_one():
    """Two points at one place share a force; the motion is that of one."""

    def block(count):
        points = [tb.ContactPoint(f"foot{k}", "block", (0.1, 0.05, -0.1)) for k in range(count)]
        points.append(tb.ContactPoint("other", "block", (-0.15, -0.02, -0.1)))
        body = tb.Body(
            "block", joint=tb.Free("block"), inertia=tb.Inertia.box(2.0, (0.4, 0.3, 0.2))
        )
        return tb.Model("block", [body], contacts=points)

    world = tb.World(ground=tb.Ground(static_friction=0.4))
    q, v = [1, 0, 0, 0, 0, 0, 0.1], [0.3, -0.2, 0.5, 0.6, -0.3, 0.0]
    one, two = (
        tb.simulate(block(count), 0.05, q=q, v=v, world=world, record=tb.Record(every=1), **QUIET)
        for count in (1, 2)
    )
    np.testing.assert_allclose(two.q, one.q, atol=1e-8)
    shared = two.z[:, 0:3] + two.z[:, 4:7]
    np.testing.assert_allclose(shared, one.z[:, 0:3], atol=1e-5 * np.abs(one.z[:, :3]).max())


def test_separating_contacts_have_no_force():
    """At the start a point touches exactly and moves away: no impulse, free flight."""
    model = tb.Model("ball", [free("ball", tb.SphereShape(0.1), 1.0, (0.1, 0.14, 0.12))])
    world = tb.World(ground=tb.Ground(static_friction=0.9, restitution=1.0))
    q, v = [1, 0, 0, 0, 0, 0, 0.1], [1.0, 2.0, 3.0, 0.5, 0.2, 0.3]
    run = tb.simulate(model, 0.05, q=q, v=v, world=world, record=tb.Record(every=1), **QUIET)
    free_run = tb.simulate(
        model, 0.05, q=q, v=v, world=world, contact=None, record=tb.Record(every=1), **QUIET
    )
    assert np.all(run.z[:, :3] == 0.0)
    np.testing.assert_allclose(run.q, free_run.q, atol=1e-14)
