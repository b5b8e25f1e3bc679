"""Steps with rigid contact to first order: central differences of the step itself.

A contact that is held closed has one-sided derivatives where its gap opens: lifted by d it falls
for sqrt(2 d / g) first. `linearize` keeps it closed, and differences are taken along changes that
do so: neither the gap nor its rate at the start changes.
"""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import turn
from tiburon.actuation.rigid_contact import RigidContactElement
from tiburon.errors import ModelError
from tiburon.functions.kernel_source import LibrarySource
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.simulation.contact_linearization import contacts_of
from tiburon.simulation.integrators.manifold import Manifold
from tiburon.simulation.linearization import CONTACT_MODES, joint_move, rotating_joints
from tiburon.simulation.step import StepSource, step_kernel
from tiburon.simulation.step_derivative import step_derivative_kernel
from tiburon.simulation.system import System
from tiburon.trace.derivative import forward_derivative, reverse_derivative
from tiburon.trace.interpret import interpret
from tiburon.trace.primitives.contact_chain import MOST_TOGETHER, PANEL, ContactChain
from tiburon.trace.primitives.tree import SolveTreeColumns

STEP = 1e-6
"""Of central differences; impulses are solved for to 12 digits."""

TOLERANCE = 2e-5
"""Rounding and the tolerance of the solver over `STEP`, for velocities below 10."""


def first_states(system):
    """Return discrete states in which no contact forces of a step before act."""
    return np.where(np.array(system.z_names) == "contact.acting", 0.0, system.z0)


def stepper(model, world, pairs=None):
    """Return a function of a batch of states, joint forces and z: a step by itself, as in a run."""
    element = replace(RigidContactElement.of(model, world, pairs), tolerance=1e-12)
    system = System(model, world, [element], steps=True)
    kernel = step_kernel(StepSource(system, "rk4"), "many")
    count = len(system.z0)

    def step(q, v, tau, dt, z=None):
        u = np.zeros((len(q), system.drive_size))
        u[:, : model.nv], u[:, -count:] = tau, first_states(system)
        if z is not None:
            u[:, -count : -count + len(z)] = z
        after = kernel(q, v, u, np.array([0.0, dt, dt, 0.0]))
        return after[0], after[1]

    return step


def starts(model, q, v, dt, world, pairs):
    """Return gaps, and their rates at the start as the step takes them."""
    ahead = np.asarray(model.integrate(q, dt * v))
    here, there = (tb.contacts(model, at, v, world=world, pairs=pairs) for at in (q, ahead))
    steady = np.sum(there.normal * there.velocity, axis=-1)
    return np.concatenate([here.gap, 2.0 * (there.gap - here.gap) / dt - steady], axis=-1)


def directions(model, q, v, dt, world, pairs, held):
    """Return directions of (dq, v, tau) that keep contacts closed, one per row."""
    n = model.nv
    if not held.any():
        return np.eye(3 * n)
    sides = []
    for sign in (1.0, -1.0):
        steps = sign * STEP * np.eye(2 * n)
        moved = np.asarray(model.integrate(q, steps[:, :n]))
        sides.append(starts(model, moved, v + steps[:, n:], dt, world, pairs))
    rows = np.zeros((2 * held.sum(), 3 * n))
    rows[:, : 2 * n] = ((sides[0] - sides[1]) / (2 * STEP))[:, np.tile(held, 2)].T
    _, sizes, basis = np.linalg.svd(rows)
    return basis[np.sum(sizes > 1e-6) :]


def check(model, q, v, tau, dt, world, pairs=None, z=None):
    """Compare A and B with central differences; return the linearization."""
    n = model.nv
    found = tb.linearize(
        model,
        q,
        v,
        tau,
        dt=dt,
        world=world,
        contact=tb.DefaultContact(pairs=pairs),
        contact_state=z,
    )
    A, B = found
    here = starts(model, q, v, dt, world, pairs)[: len(found.points)]
    held = (found.modes != "open") & (np.abs(here) < 1e-7)
    along = directions(model, q, v, dt, world, pairs, held)
    step = stepper(model, world, pairs)
    (q_end,), _ = step(q[None], v[None], tau[None], dt, z)
    sides = []
    for sign in (1.0, -1.0):
        dq, dv, dtau = np.split(sign * STEP * along, 3, axis=1)
        moved = np.asarray(model.integrate(q, dq))
        after, rate = step(moved, v + dv, tau + dtau, dt, z)
        ends = np.broadcast_to(q_end, after.shape)
        sides.append(np.concatenate([model.difference(ends, after), rate], axis=1))
    expected = (sides[0] - sides[1]) / (2 * STEP)
    got = along @ np.concatenate([A, B], axis=1).T
    assert not found.near_mode_change
    np.testing.assert_allclose(got, expected, atol=TOLERANCE * max(1.0, np.abs(expected).max()))
    assert len(along) >= n
    return found


def ball(restitution=0.0, friction=0.3):
    body = tb.Body(
        "ball",
        joint=tb.Free("ball"),
        inertia=tb.Inertia(2.0, (0.01, 0.02, -0.01), (0.01, 0.012, 0.009)),
        shapes=(tb.Shape(tb.SphereShape(0.1)),),
    )
    ground = tb.Ground(static_friction=friction, restitution=restitution)
    return tb.Model("ball", [body]), tb.World(ground=ground)


def ball_state(height, velocity, spin=(0.3, 0.5, -0.7)):
    """Return a ball turned off its axes, with a velocity in world axes."""
    quaternion = np.array([0.8, 0.2, 0.5, -0.1])
    quaternion /= np.linalg.norm(quaternion)
    w, u = quaternion[0], quaternion[1:]
    R = turn(2.0 * np.arctan2(np.linalg.norm(u), w) * u / np.linalg.norm(u))
    q = np.array([*quaternion, 0.2, -0.3, 0.1 + height])
    return q, np.array([*spin, *(R.T @ np.array(velocity))])


FORCE = np.array([0.01, 0.02, -0.01, 0.3, 0.1, -0.2])


def test_sliding_ball():
    model, world = ball()
    q, v = ball_state(0.0, (1.0, 0.4, 0.0))
    assert check(model, q, v, FORCE, 0.01, world).modes == "sliding"


def test_points_that_slip_have_kinetic_friction():
    """Of two coefficients the kinetic one acts where a state slips, as in the step of a run."""
    world = tb.World(ground=tb.Ground(static_friction=0.4, kinetic_friction=0.1))
    slide, lift = tb.Prismatic("slide", (1, 0, 0)), tb.Prismatic("lift", (0, 0, 1))
    bodies = [
        tb.Body("cart", joint=slide),
        tb.Body("block", "cart", joint=lift, inertia=tb.Inertia.box(3.0, (0.2, 0.2, 0.2))),
    ]
    foot = tb.ContactPoint("foot", "block", (0, 0, -0.1))
    block = tb.Model("block", bodies, contacts=[foot])
    q, v, tau = np.array([0.3, 0.1]), np.array([2.0, 0.0]), np.array([0.0, -7.0])
    step = tb.linearize(block, q, v, tau, dt=1e-3, world=world)
    # one more newton of load costs mu_k h / m of speed
    assert step.B[2, 1] == pytest.approx(0.1 * 1e-3 / 3.0, rel=1e-9)
    both = tb.linearize(block, q, np.array([v, 0.0 * v]), tau, dt=1e-3, world=world)
    np.testing.assert_array_equal(both.A[0], step.A)
    assert both.modes[:, 0].tolist() == ["sliding", "sticking"]


def test_rolling_ball():
    model, world = ball(friction=0.9)
    q, v = ball_state(0.0, (0.0, 0.0, 0.0), spin=(0.0, 0.0, 0.0))
    R = rotation(q)
    v[:3] = R.T @ np.array([3.0, -1.0, 0.2])
    v[3:] = R.T @ np.cross([3.0, -1.0, 0.2], [0.0, 0.0, 0.1])
    assert check(model, q, v, FORCE, 0.01, world).modes == "sticking"


@pytest.mark.parametrize(
    ("omega", "friction"),
    [
        # turning on, with friction at its bounds; held in torsion; held in both
        ((3.0, -1.0, 4.0), (0.004, 0.003)),
        ((3.0, -1.0, 0.0), (0.01, 0.003)),
        ((3.0, -1.0, 4.0), (0.0, 0.003)),
        ((0.0, 0.0, 0.0), (0.01, 0.02)),
    ],
)
def test_ball_with_torsional_and_rolling_friction(omega, friction):
    spin, roll = friction
    model, world = ball(friction=0.9)
    ground = replace(world.ground, torsional_friction=spin, rolling_friction=roll)
    q, v = ball_state(0.0, (0.0, 0.0, 0.0), spin=(0.0, 0.0, 0.0))
    R = rotation(q)
    v[:3] = R.T @ np.array(omega)
    v[3:] = R.T @ np.cross(omega, [0.0, 0.0, 0.1])
    found = check(model, q, v, FORCE, 0.01, tb.World(ground=ground))
    assert found.modes == "sticking"
    plain = tb.linearize(model, q, v, FORCE, dt=0.01, world=world)
    assert np.abs(found.A - plain.A).max() > 1e-2


def rotation(q):
    u = q[1:4]
    return turn(2.0 * np.arctan2(np.linalg.norm(u), q[0]) * u / np.linalg.norm(u))


@pytest.mark.parametrize("restitution", [0.0, 0.6])
def test_impact_within_the_step(restitution):
    """A ball lands within the step; restitution returns part of its impulse."""
    q, v = ball_state(0.004, (1.0, 0.4, -1.0))
    for friction, mode in ((0.9, "sticking"), (0.1, "sliding")):
        model, world = ball(restitution, friction)
        assert check(model, q, v, FORCE, 0.01, world).modes == mode


def test_flight_equals_linearization_without_contact():
    """Far from the ground, A and B are those of `contact=None`."""
    model, world = ball()
    q, v = ball_state(1.0, (1.0, 0.4, -1.0))
    found = tb.linearize(model, q, v, FORCE, dt=0.01, world=world)
    assert found.modes == "open"
    assert found.near_mode_change == ()
    free = tb.linearize(model, q, v, FORCE, dt=0.01, world=world, contact=None)
    np.testing.assert_allclose(found.A, free.A, rtol=0, atol=1e-13)
    np.testing.assert_allclose(found.B, free.B, rtol=0, atol=1e-13)


def test_pressed_side_of_a_held_contact():
    """Pressed into the ground, a held contact is moved out within the step: its gap is gone."""
    model, world = ball()
    # without spin: a constant velocity in turning axes is no straight line
    q, v = ball_state(0.0, (1.0, 0.4, 0.0), spin=np.zeros(3))
    A, _ = tb.linearize(model, q, v, FORCE, dt=0.01, world=world)
    down = np.concatenate([np.zeros(3), rotation(q).T @ [0.0, 0.0, -1.0], np.zeros(6)])
    step = stepper(model, world)
    (q0, q1), (v0, v1) = step(
        np.array([q, model.integrate(q, STEP * down[:6])]), np.array([v, v]), FORCE, 0.01
    )
    change = np.concatenate([model.difference(q0, q1), v1 - v0]) / STEP
    np.testing.assert_allclose(A @ down, change, atol=1e-4)


def test_two_balls_and_a_lever():
    """Bodies of different trees, one with universal and revolute joints, touch each other."""
    hinge = tb.Universal("hinge", (1, 0, 0), (0, 1, 0), pose=tb.Pose(translation=(0, 0, 1.0)))
    elbow = tb.Revolute("elbow", (0, 1, 0), pose=tb.Pose(translation=(0.4, 0, 0)))
    rod = tb.Inertia.box(1.0, (0.4, 0.05, 0.05), com=(0.2, 0, 0))
    tip = tb.Shape(tb.SphereShape(0.08), pose=tb.Pose(translation=(0.4, 0.0, 0.0)))
    free = ball()[0].bodies[0]
    model = tb.Model(
        "lever",
        [
            tb.Body("upper", joint=hinge, inertia=rod),
            tb.Body("lower", "upper", joint=elbow, inertia=rod, shapes=(tip,)),
            replace(free, joint=tb.Free("float")),
        ],
    )
    world = tb.World()
    pairs = [("lower", "ball")]
    at = np.array([0.2, 0.3, -0.4])
    lever = tb.forward_kinematics(model, np.array([*at, 1.0, 0, 0, 0, 0, 0, 0]), frames="lower")
    R, p = (np.asarray(part) for part in lever)
    center = p + R @ [0.4, 0.0, 0.0] + 0.181 * np.array([0.6, 0.0, -0.8])
    q = np.array([*at, *ball_state(0.0, np.zeros(3))[0][:4], *center])
    _, own = ball_state(0.0, (-0.5, 0.2, 0.9))
    v = np.array([0.4, 0.3, -0.5, *own])
    tau = 0.1 * np.arange(9.0)
    found = check(model, q, v, tau, 0.005, world, pairs)
    assert found.points == ("lower/ball",)
    assert found.modes != "open"


def test_ball_on_a_plate_on_the_ground():
    """A ball lands on a plate that the ground holds against its weight and the collision."""
    free = ball()[0].bodies[0]
    plane = tb.Shape(tb.PlaneShape(), pose=tb.Pose(translation=(0.0, 0.0, 0.05)))
    plate = tb.Body(
        "plate",
        joint=tb.Prismatic("lift", (0, 0, 1)),
        inertia=tb.Inertia.box(1.0, (2.0, 2.0, 0.1)),
        shapes=(plane,),
    )
    foot = tb.ContactPoint("foot", "plate", (0.0, 0.0, -0.05))
    model = tb.Model("stack", [plate, replace(free, joint=tb.Free("float"))], contacts=[foot])
    world = tb.World(ground=tb.Ground(static_friction=0.3))
    q, v = ball_state(0.104, (1.0, 0.4, -1.0))
    q, v, tau = np.concatenate([[0.05], q]), np.concatenate([[0.0], v]), np.array([0.0, *FORCE])
    found = check(model, q, v, tau, 0.01, world, [("plate", "ball"), ("plate", "world")])
    assert dict(zip(found.points, found.modes, strict=True))["plate/ball"] == "sliding"


@pytest.mark.slow
def test_ball_on_terrain():
    """A ball that rolls over triangles: points that do not exist disturb nothing."""
    heights = 0.05 * np.sin(0.7 * np.arange(20))[:, None] + 0.03 * np.cos(0.9 * np.arange(20))
    grid = tb.GroundGrid((0.3, 0.3), tuple(map(tuple, heights)), origin=(-3.0, -3.0))
    model, _ = ball()
    world = tb.World(ground=tb.Ground(static_friction=0.3, grid=grid))
    q, v = ball_state(0.3, (1.0, 0.4, 0.0))
    run = tb.simulate(
        model,
        0.6,
        q=q,
        v=v,
        world=world,
        execution=tb.Execution(progress=False),
        record=tb.Record(every=1),
    )
    q, v, z = run.q[590], run.v[590], run.z[590, :12]
    found = check(model, q, v, FORCE, 1e-3, world, z=np.where(np.arange(12) % 4 == 3, z, 0.0))
    assert found.modes.tolist() == ["sticking", "open", "open"]


@pytest.mark.parametrize(
    ("friction", "restitution", "mode"), [(0.1, 0.0, "sticking"), (0.0, 0.9, "sliding")]
)
def test_closed_loops(friction, restitution, mode):
    """The coupler of a falling four-bar lands within the step; states near it keep loops closed.

    With one degree of freedom it does not slip at the end unless it bounces; with friction, too,
    the impulses of the rebound would be indeterminate.
    """
    bar = tb.load("four_bar")
    middle = tb.ContactPoint("knee", "coupler", (0.3, 0.0, 0.0))
    model = tb.Model(
        "bar", bar.bodies, bar.frames, loops=bar.loops, contacts=(middle,), poses=bar.poses
    )
    low = tb.Ground(height=0.2, static_friction=friction, restitution=restitution)
    options = {
        "method": tb.RK4(dt=2e-3),
        "record": tb.Record(every=1),
        "execution": tb.Execution(progress=False),
    }
    fall = tb.simulate(
        model.without_passive(),
        0.6,
        q=np.array(bar.poses["home"]),
        world=tb.World(ground=low),
        **options,
    )
    first = int(np.argmax(fall.z[:, 2] != 0.0)) - 1
    q, v, tau = fall.q[first], fall.v[first], np.array([0.2, -0.1, 0.3])[: model.nv]
    world = tb.World(ground=low)
    found = tb.linearize(model, q, v, tau, dt=2e-3, world=world)
    assert found.modes == mode
    step = stepper(model, world)
    rng = np.random.default_rng(0)
    for _ in range(3):
        dq, dv, dtau = STEP * rng.normal(size=(3, model.nv))
        states, changes = [], []
        for sign in (1.0, -1.0):
            near = tb.project_configuration(model, model.integrate(q, sign * dq)).q
            rate = tb.project_velocity(model, near, v + sign * dv)
            states.append((near, rate, tau + sign * dtau))
            moved = [model.difference(q, near), rate - v, sign * dtau]
            changes.append(np.concatenate(moved))
        ends = [
            np.concatenate([part[0] for part in step(*map(np.atleast_2d, x), 2e-3)]) for x in states
        ]
        expected = ends[0] - ends[1]
        got = np.concatenate([found.A, found.B], axis=1) @ (changes[0] - changes[1])
        np.testing.assert_allclose(got / STEP, expected / STEP, atol=2e-4)


@pytest.mark.parametrize(("aside", "mode"), [((3.0, 0.4), "sliding"), ((0.3, 0.05), "sticking")])
def test_ball_on_a_driven_plate(aside, mode):
    """A ball lands within the step on a plate that rises and moves aside, at a later time."""
    axis, speed, now, dt = np.array([0.6, 0.0, 0.8]), 0.5, 0.13, 0.01
    lift = tb.Driven("lift", tb.Prismatic("lift", tuple(axis)), tb.Polynomial((0.0, speed)))
    plate = tb.Body(
        "plate",
        joint=lift,
        inertia=tb.Inertia.box(1.0, (2.0, 2.0, 0.1)),
        shapes=(tb.Shape(tb.BoxShape((2.0, 2.0, 0.1)), material=tb.ContactMaterial(0.3)),),
    )
    model = tb.Model("elevator", [plate, replace(ball()[0].bodies[0], joint=tb.Free("float"))])
    world = tb.World()
    spin = (0.03, 0.05, -0.7)
    q, v = ball_state(0.05 + 0.8 * speed * now + 0.004, (*aside, -0.6), spin=spin)
    element = replace(RigidContactElement.of(model, world, [("plate", "ball")]), tolerance=1e-12)
    system = System(model, world, [element], steps=True)
    kernel = step_kernel(StepSource(system, "rk4"), "many")
    found = tb.linearize(
        model,
        q,
        v,
        FORCE,
        dt=dt,
        world=world,
        contact=tb.DefaultContact(pairs=[("plate", "ball")]),
        time=now,
    )
    assert found.modes == mode
    assert not found.near_mode_change

    def step(q, v, tau):
        u = np.zeros((len(q), system.drive_size))
        u[:, :6], u[:, -len(system.z0) :] = tau, first_states(system)
        return kernel(q, v, u, np.array([now, dt, dt, 0.0]))[:2]

    (center,), _ = step(q[None], v[None], FORCE)
    sides = []
    for sign in (1.0, -1.0):
        dq, dv, dtau = np.split(sign * STEP * np.eye(18), 3, axis=1)
        after, rate = step(np.asarray(model.integrate(q, dq)), v + dv, FORCE + dtau)
        moved = model.difference(np.broadcast_to(center, after.shape), after)
        sides.append(np.concatenate([moved, rate], axis=1))
    expected = (sides[0] - sides[1]).T / (2.0 * STEP)
    got = np.concatenate([found.A, found.B], axis=1)
    np.testing.assert_allclose(got, expected, atol=TOLERANCE * np.abs(expected).max())


def hopper():
    """Return a body with two legs of two joints and spherical feet."""
    bodies = [
        tb.Body("trunk", joint=tb.Free("float"), inertia=tb.Inertia.box(3.0, (0.4, 0.2, 0.1)))
    ]
    points = []
    for name, x in (("front", 0.2), ("rear", -0.2)):
        hip = tb.Revolute(f"{name}_hip", (0, 1, 0), pose=tb.Pose(translation=(x, 0.02, 0.0)))
        knee = tb.Prismatic(f"{name}_knee", (0, 0, 1), pose=tb.Pose(translation=(0, 0, -0.2)))
        rod = tb.Inertia.box(0.4, (0.03, 0.03, 0.2), com=(0, 0, -0.1))
        bodies.append(tb.Body(f"{name}_thigh", "trunk", joint=hip, inertia=rod))
        bodies.append(tb.Body(f"{name}_shank", f"{name}_thigh", joint=knee, inertia=rod))
        points.append(tb.ContactPoint(f"{name}_foot", f"{name}_shank", (0, 0, -0.2), radius=0.02))
    return tb.Model("hopper", bodies, contacts=points)


@pytest.mark.slow
def test_robot_along_a_run():
    """States of a run of a kicked robot whose feet stick, slide and lift."""
    model = hopper()
    world = tb.World(ground=tb.Ground(static_friction=0.5, kinetic_friction=0.4))
    start = np.zeros(model.nq)
    start[0], start[6] = 1.0, 0.42
    start[7:] = 0.1, 0.0, -0.15, 0.0
    start = np.asarray(tb.lift_out(model, start, world=world))
    rng = np.random.default_rng(3)

    @tb.traced
    def hold(state):
        errors = zip(start[7:].tolist(), state.q[7:], state.v[6:], strict=True)
        return [0.0] * 6 + [200.0 * (a - q) - 6.0 * v for a, q, v in errors]

    run = tb.simulate(
        model.without_passive().without_limits(),
        0.2,
        q=start,
        v=0.4 * rng.normal(size=model.nv),
        world=world,
        control=hold,
        record=tb.Record(dt=1e-3),
        execution=tb.Execution(progress=False),
    )
    seen = set()
    for k in range(5, 200, 15):
        q, v = run.q[k], run.v[k]
        tau = np.concatenate([np.zeros(6), 200.0 * (start[7:] - q[7:]) - 6.0 * v[6:]])
        near = tb.linearize(
            model, q, v, tau, dt=2e-3, world=world, contact_state=run.z[k, :8]
        ).near_mode_change
        if not near:
            # from a close guess, sweeps end before they have seen a small change
            z = np.where(np.arange(8) % 4 == 3, run.z[k, :8], 0.0)
            found = check(model, q, v, tau, 2e-3, world, z=z)
            seen.update(found.modes.tolist())
    assert seen == {"open", "sticking", "sliding"}


def step_program(model, world):
    """Return the step of a run as a program, with its run-time parameters."""
    system = System(model, world, [RigidContactElement.of(model, world)], steps=True)
    return StepSource(system, "rk4").program(), system


@pytest.mark.parametrize(("height", "speed"), [(0.0, 0.0), (0.004, -1.0)])
def test_both_derivatives_of_a_contact_step_agree(height, speed):
    """Analytical parts and forward mode of the whole step: different algorithms, one result."""
    model, world = ball()
    q, v = ball_state(height, (1.0, 0.4, speed))
    near = tb.linearize(model, q, v, FORCE, dt=0.01, world=world)
    system = System(model, world, [RigidContactElement.of(model, world)], steps=True)
    A, B, modes, margin, residual = step_derivative_kernel(system)(
        q, v, FORCE, 0.01, system.z0, 0.0
    )
    np.testing.assert_allclose(A, near.A, atol=1e-11)
    np.testing.assert_allclose(B, near.B, atol=1e-11)
    assert near.modes == ("open", "sticking", "sliding")[int(modes[0])]
    np.testing.assert_allclose(margin, near.margin, atol=1e-9)
    # one contact is solved to rounding
    assert max(residual, near.residual) < 1e-10


def test_impulses_are_solved_more_closely_for_derivatives():
    """Three points that land and slide: errors of impulses come back a hundredfold."""
    points = {"a": (0.2, 0.05, -0.1), "b": (-0.2, 0.03, -0.1), "c": (0.0, -0.2, -0.1)}
    part = tb.Body(
        "bar",
        joint=tb.Free("bar"),
        inertia=tb.Inertia(1.3, (0.02, 0.01, 0.0), (0.01, 0.02, 0.025)),
    )
    model = tb.Model("bar", [part], contacts=[tb.ContactPoint(k, "bar", points[k]) for k in points])
    world = tb.World(ground=tb.Ground(static_friction=0.3))
    element = replace(RigidContactElement.of(model, world), tolerance=1e-12)
    system = System(model, world, [element], steps=True)
    kernel, rng = step_derivative_kernel(system), np.random.default_rng(1)
    for _ in range(6):
        turned = 0.004 * rng.standard_normal(3)
        q = np.array([1.0, *turned, 0.0, 0.0, 0.104])
        q[:4] /= np.linalg.norm(q[:4])
        v = np.array([*0.5 * rng.standard_normal(3), 1.5, 0.5 * rng.standard_normal(), -1.7])
        near = tb.linearize(model, q, v, np.zeros(6), dt=0.01, world=world)
        assert set(near.modes.tolist()) == {"sliding"}
        A, B, *_ = kernel(q, v, np.zeros(6), 0.01, system.z0, 0.0)
        scale = np.abs(A).max()
        np.testing.assert_allclose(A, near.A, atol=5e-9 * scale)
        np.testing.assert_allclose(B, near.B, atol=5e-9 * scale)


def test_adjoint_of_a_step_is_its_transposed_tangent():
    """Reverse and forward mode of the step of a run, by state, commands and parameters."""
    model, world = ball(0.5)
    program, system = step_program(model, world)
    q, v = ball_state(0.004, (1.0, 0.4, -1.0))
    rng = np.random.default_rng(2)
    u = np.concatenate([FORCE, system.z0])
    given = {"q": q, "v": v, "u": u, "clock": np.array([0.0, 0.01, 0.01, 0.0])}
    given |= system.parameters()
    by = ["q", "v", "u", "inertia", "elements"]
    forward = forward_derivative(program, of=["q", "v"], by=by)
    directions = {f"{name}_tangent": rng.normal(size=np.shape(given[name])) for name in by}
    change = interpret(forward, given | directions)
    reverse = reverse_derivative(program, of=["q", "v"], by=by)
    weights = {"q_adjoint": rng.normal(size=7), "v_adjoint": rng.normal(size=6)}
    back = interpret(reverse, given | weights)
    left = sum(np.dot(w, x) for w, x in zip(weights.values(), change, strict=True))
    right = sum(np.dot(x, d) for x, d in zip(back, directions.values(), strict=True))
    assert np.isfinite(left)
    assert right == pytest.approx(left, rel=1e-9)


def test_derivatives_of_a_batch_of_steps_are_those_of_each():
    """In flight, landing, sliding, at rest and leaving: both modes agree, in every case, finite."""
    model, world = ball(0.5)
    program, system = step_program(model, world)
    starts = [(1.0, (1.0, 0.4, -1.0)), (0.004, (1.0, 0.4, -1.0)), (0.0, (1.0, 0.4, 0.0))]
    starts += [(0.0, (0.0, 0.0, 0.0)), (0.0, (0.0, 0.0, 1.0))]
    states = [ball_state(height, velocity) for height, velocity in starts]
    q, v = (np.array(part) for part in zip(*states, strict=True))
    rng = np.random.default_rng(5)
    u, clock = np.concatenate([FORCE, system.z0]), np.array([0.0, 0.01, 0.01, 0.0])
    given = {"q": q, "v": v, "u": u, "clock": clock} | system.parameters()
    by = ["q", "v", "elements"]
    forward = forward_derivative(program, of=["q", "v"], by=by)
    reverse = reverse_derivative(program, of=["q", "v"], by=by)
    sizes = {"q": 7, "v": 6, "elements": np.shape(given["elements"])}
    directions = {f"{name}_tangent": rng.normal(size=sizes[name]) for name in by}
    weights = {"q_adjoint": rng.normal(size=7), "v_adjoint": rng.normal(size=6)}
    change, back = interpret(forward, given | directions), interpret(reverse, given | weights)
    left = sum(x @ w for w, x in zip(weights.values(), change, strict=True))
    right = sum(
        np.sum((x * d).reshape(len(q), -1), axis=1)
        for x, d in zip(back, directions.values(), strict=True)
    )
    np.testing.assert_allclose(right, left, rtol=1e-9, atol=1e-12)
    for k in range(len(q)):
        alone = given | {"q": q[k], "v": v[k]}
        for whole, part in zip(change, interpret(forward, alone | directions), strict=True):
            np.testing.assert_allclose(whole[k], part, rtol=0, atol=1e-12)


def test_stopping_distance_of_a_sliding_block():
    """Gradients through 100 steps: d = v^2 / (2 mu g), by the speed and by the friction.

    Constant deceleration is integrated exactly, so that the chain of all steps is exact while the
    block slides: its position after a time t is v t - mu g t^2 / 2, its speed v - mu g t.
    """
    g, mu, speed, dt, steps = 9.81, 0.4, 2.0, 1e-3, 100
    slide = tb.Prismatic("slide", (1, 0, 0))
    lift = tb.Prismatic("lift", (0, 0, 1))
    mass = tb.Inertia.box(3.0, (0.2, 0.2, 0.2))
    point = tb.ContactPoint("foot", "block", (0.0, 0.0, -0.1))
    model = tb.Model(
        "block",
        [tb.Body("cart", joint=slide), tb.Body("block", "cart", joint=lift, inertia=mass)],
        contacts=[point],
    )
    world = tb.World(gravity=(0, 0, -g), ground=tb.Ground(static_friction=mu))
    run = tb.simulate(
        model,
        steps * dt,
        q=[0.0, 0.1],
        v=[speed, 0.0],
        world=world,
        record=tb.Record(every=1),
        execution=tb.Execution(progress=False),
    )
    near = tb.linearize(
        model, run.q[:-1], run.v[:-1], np.zeros(2), dt=dt, world=world, contact_state=run.z[:-1, :4]
    )
    assert np.all(near.modes == "sliding")
    total = np.eye(4)
    for A in near.A:
        total = A @ total
    t = steps * dt
    # by the initial speed: t for the position, 1 for the speed
    np.testing.assert_allclose(total[[0, 2], 2], [t, 1.0], rtol=1e-9)
    x, v = run.q[-1, 0], run.v[-1, 0]
    distance = x + v * v / (2.0 * mu * g)
    assert distance == pytest.approx(speed**2 / (2.0 * mu * g), rel=1e-9)
    by_speed = total[0, 2] + v / (mu * g) * total[2, 2]
    assert by_speed == pytest.approx(speed / (mu * g), rel=1e-9)
    # by friction: a parameter of the step, through the same chain
    program, system = step_program(model, world)
    derivative = forward_derivative(program, of=["q", "v"], by=["elements"])
    given = system.parameters()
    # static and kinetic friction together
    direction = np.where(np.asarray(given["elements"]) == mu, 1.0, 0.0)
    assert direction.sum() == 2.0
    change = np.zeros(4)
    clock = np.array([0.0, dt, dt, 0.0])
    u = np.concatenate([np.broadcast_to(np.zeros(2), (steps, 2)), run.z[:-1]], axis=1)
    kernel = make_kernel(ProgramSource(derivative), given)
    # as `linearize` takes them, steps begin without forces of the last one
    u[:, 2:] = np.where(np.arange(u.shape[1] - 2) == 3, u[:, 2:], 0.0)
    own = kernel(run.q[:-1], run.v[:-1], u, clock, direction)
    for A, *part in zip(near.A, *own, strict=True):
        change = A @ change + np.concatenate(part)
    np.testing.assert_allclose(change[[0, 2]], [-0.5 * g * t * t, -g * t], rtol=1e-9)
    by_friction = change[0] + v / (mu * g) * change[2] - v * v / (2.0 * mu * mu * g)
    assert by_friction == pytest.approx(-(speed**2) / (2.0 * mu * mu * g), rel=1e-9)


def test_batches_equal_single_states_in_bits():
    model, world = ball()
    states = [ball_state(h, (1.0, 0.4, w)) for h, w in ((0.0, 0.0), (0.004, -1.0), (1.0, 0.0))]
    q, v = (np.array(part) for part in zip(*states, strict=True))
    many = tb.linearize(model, q, v, FORCE, dt=0.01, world=world)
    assert many.A.shape == (3, 12, 12)
    assert many.modes.shape == (3, 1)
    for k in range(3):
        one = tb.linearize(model, q[k], v[k], FORCE, dt=0.01, world=world)
        assert np.array_equal(one.A, many.A[k])
        assert np.array_equal(one.B, many.B[k])
        assert np.array_equal(one.margin, many.margin[k])


def test_a_contact_near_another_mode_is_named():
    """Friction close to its limit: the point is about to slide."""
    model, world = ball(friction=0.25)
    q, _ = ball_state(0.0, np.zeros(3))
    pushed = [
        tb.linearize(
            model,
            q,
            np.zeros(6),
            np.array([0, 0, 0, *(rotation(q).T @ [f, 0, 0])]),
            dt=0.01,
            world=world,
        )
        for f in np.linspace(0.0, 40.0, 9)
    ]
    margins = [float(one.margin[0]) for one in pushed]
    assert pushed[0].near_mode_change == ()
    modes = [str(one.modes[0]) for one in pushed]
    change = modes.index("sliding")
    assert change > 0
    low, high = 5.0 * (change - 1), 5.0 * change
    for _ in range(40):
        middle = 0.5 * (low + high)
        tau = np.array([0, 0, 0, *(rotation(q).T @ [middle, 0, 0])])
        found = tb.linearize(model, q, np.zeros(6), tau, dt=0.01, world=world)
        low, high = (middle, high) if found.modes == "sticking" else (low, middle)
    assert found.near_mode_change == ("ball/ground",)
    assert margins[0] > 0.1


def test_result_unpacks_pickles_and_prints():
    model, world = ball()
    q, v = ball_state(0.0, (1.0, 0.4, 0.0))
    found = tb.linearize(model, q, v, FORCE, dt=0.01, world=world)
    A, B = pickle.loads(pickle.dumps(found))
    assert np.array_equal(A, found.A)
    assert np.array_equal(B, found.B)
    assert pickle.loads(pickle.dumps(found)).modes == "sliding"
    assert "ContactLinearization" in repr(found)


def test_unsupported_contact_is_refused_rather_than_ignored():
    """Continuous time has no rigid contact: it is refused, not ignored."""
    model, world = ball()
    q, v = ball_state(0.0, (1.0, 0.4, 0.0))
    with pytest.raises(ModelError, match=r"rigid contact acts in steps.*dt=.*contact=None"):
        tb.linearize(model, q, v, FORCE, world=world)
    assert tb.linearize(model, q, v, FORCE, world=world, contact=None).A.shape == (12, 12)
    with pytest.raises(ModelError, match="contact_state"):
        tb.linearize(model, q, v, FORCE, dt=0.01, contact_state=np.zeros(4))
    with pytest.raises(ModelError, match=r"write contact=tb.RigidContact\(\)"):
        tb.linearize(model, q, v, FORCE, dt=0.01, world=world, contact="soft")


def test_surfaces_by_name_are_those_of_another_ground():
    """A sliding block: friction of each case enters A and B as that of its own ground does."""
    joints = [tb.Prismatic("slide", (1, 0, 0)), tb.Prismatic("lift", (0, 0, 1))]
    mass = tb.Inertia.box(3.0, (0.2, 0.2, 0.2))
    bodies = [
        tb.Body("cart", joint=joints[0]),
        tb.Body("block", "cart", joint=joints[1], inertia=mass),
    ]
    model = tb.Model("block", bodies, contacts=[tb.ContactPoint("foot", "block", (0, 0, -0.1))])
    args = (model, [0.0, 0.1], [2.0, 0.0], [0.0, -5.0])

    def floor(mu):
        return tb.World(ground=tb.Ground(static_friction=mu))

    mu = [0.1, 0.7]
    both = tb.linearize(
        *args,
        dt=1e-3,
        world=floor(0.4),
        parameters={"ground.static_friction": mu, "block.mass": 2.0},
    )
    inertia = tb.Inertia.box(2.0, (0.2, 0.2, 0.2))
    lighter = tb.Model(
        "block", [bodies[0], replace(bodies[1], inertia=inertia)], contacts=model.contacts
    )
    for k, x in enumerate(mu):
        alone = tb.linearize(lighter, *args[1:], dt=1e-3, world=floor(x))
        np.testing.assert_allclose(both.A[k], alone.A, atol=1e-12)
        np.testing.assert_allclose(both.B[k], alone.B, atol=1e-12)
    # pressing by B[1] moves the block less the more friction it has
    assert abs(both.B[1][2, 1]) > 5.0 * abs(both.B[0][2, 1]) > 0.0
    with pytest.raises(ModelError, match="does not"):
        tb.linearize(*args, dt=1e-3, world=floor(0.4), parameters={"ground.dissipation": 0.1})


def link(name, parent, kind, axis, at, mass):
    """Return a body on a joint of some kind."""
    pose = tb.Pose(translation=at)
    joint = kind(name, axis, pose=pose) if axis else kind(name, pose=pose)
    inertia = tb.Inertia(mass, (0.01, 0.02, -0.1), (0.011 * mass, 0.012 * mass, 0.006 * mass))
    return tb.Body(name, parent, joint=joint, inertia=inertia)


def spider():
    """Return three like legs with ball joints on a slider, with 13 velocities."""
    bodies = [link("slider", "world", tb.Prismatic, (0, 0, 1), (0.0, 0.0, 0.0), 6.0)]
    for k, angle in enumerate((0.3, 2.4, 4.5)):
        at = (0.2 * np.cos(angle), 0.2 * np.sin(angle), 0.0)
        bodies.append(link(f"hip {k}", "slider", tb.Spherical, None, at, 1.1))
        bodies.append(link(f"knee {k}", f"hip {k}", tb.Revolute, (0, 1, 0), (0.0, 0.0, -0.25), 0.5))
    points = [tb.ContactPoint(f"foot {k}", f"knee {k}", (0.02, 0.0, -0.2)) for k in range(3)]
    return tb.Model("spider", bodies, contacts=points)


def crawler():
    """Return a trunk on two unlike legs, one with a ball joint, with 13 velocities."""
    trunk = tb.Inertia(6.0, (0.01, 0.02, 0.03), (0.08, 0.11, 0.09))
    bodies = [
        tb.Body("trunk", joint=tb.Free("trunk"), inertia=trunk),
        link("hip", "trunk", tb.Revolute, (1, 0, 0), (0.2, 0.1, 0.0), 0.7),
        link("thigh", "hip", tb.Revolute, (0, 1, 0), (0.0, 0.05, -0.05), 0.9),
        link("shank", "thigh", tb.Revolute, (0, 1, 0), (0.0, 0.0, -0.2), 0.4),
        link("arm", "trunk", tb.Spherical, None, (-0.2, -0.1, 0.0), 1.1),
        link("hand", "arm", tb.Revolute, (0, 1, 0), (0.0, 0.0, -0.25), 0.5),
    ]
    points = [
        tb.ContactPoint("foot", "shank", (0.0, 0.01, -0.2)),
        tb.ContactPoint("heel", "shank", (-0.05, 0.01, -0.2)),
        tb.ContactPoint("fist", "hand", (0.02, 0.0, -0.2)),
    ]
    return tb.Model("crawler", bodies, contacts=points)


def crawling(model=None, height=(6, 5)):
    """Return a crawler with its world, and states in which some of its points touch.

    Another model has its height at some places of position and velocity.
    """
    model, rng, count = model or crawler(), np.random.default_rng(4), 8
    world = tb.World(ground=tb.Ground(static_friction=0.3, kinetic_friction=0.2))
    steps = 0.2 * rng.standard_normal((count, model.nv))
    q = np.asarray(model.integrate(np.broadcast_to(model.neutral(), (count, model.nq)), steps))
    q[:, height[0]] -= np.asarray(tb.contacts(model, q, world=world).gap).min(axis=1)
    v = np.linspace(0.0, 1.5, count)[:, None] * rng.standard_normal((count, model.nv))
    # points land within the step: at its start, derivatives are one-sided
    q[1:, height[0]] += 2e-4
    v[1:, height[1]] -= 1.0
    return model, world, q, v, rng.standard_normal(model.nv)


def test_directions_in_panels_give_the_bits_of_all_at_once():
    """The last panel of 39 directions overlaps the one before; code for one state has one panel."""
    model, world, q, v, tau = crawling()
    assert PANEL < 3 * model.nv < MOST_TOGETHER
    assert 3 * model.nv % PANEL
    many = tb.linearize(model, q, v, tau, dt=2e-3, world=world)
    assert {"sticking", "sliding", "open"} == set(many.modes.ravel().tolist())
    for k in range(len(q)):
        one = tb.linearize(model, q[k], v[k], tau, dt=2e-3, world=world)
        assert np.array_equal(one.A, many.A[k])
        assert np.array_equal(one.B, many.B[k])


@pytest.mark.slow
@pytest.mark.parametrize("legs", ["unlike", "like"])
def test_branches_agree_with_forward_mode(legs):
    """Trees whose matrices have blocks of several kinds: a step differentiated as a whole."""
    robot = () if legs == "unlike" else (spider(), (0, 0))
    model, world, q, v, tau = crawling(*robot)
    element = replace(RigidContactElement.of(model, world), tolerance=1e-12)
    system = System(model, world, [element], steps=True)
    kernel, z = step_derivative_kernel(system), system.z0[: 4 * len(model.contacts)]
    many = tb.linearize(model, q, v, tau, dt=2e-3, world=world, contact_state=z)
    for k in range(len(q)):
        A, B, modes, *_ = kernel(q[k], v[k], tau, 2e-3, system.z0, 0.0)
        assert many.modes[k].tolist() == [CONTACT_MODES[int(mode)] for mode in modes]
        # impulses have 10 digits
        scale = np.abs(A).max()
        np.testing.assert_allclose(many.A[k], A, atol=1e-8 * scale)
        np.testing.assert_allclose(many.B[k], B, atol=1e-8 * scale)


def test_code_of_many_contacts_has_no_dense_columns():
    """Impulses act through rows of few elements: no equations are solved for each of them."""

    def calls(graph, roots):
        for node in graph.live(roots):
            if graph.ops[node] == "call":
                callee = graph.payloads[node]
                yield callee
                if hasattr(callee, "graph"):
                    yield from calls(callee.graph, callee.roots)

    model = crawler()
    world = tb.World(ground=tb.Ground(static_friction=0.6))
    contacts = contacts_of(model, world, tb.RigidContact())
    source = LibrarySource(model, ("linearize_contact_step",), world, contacts.options)
    program = source.program()
    found = list(calls(program.graph, program.roots))
    assert not any(isinstance(x, SolveTreeColumns) for x in found)
    assert sum(isinstance(x, ContactChain) for x in found) == 1


def test_like_joints_are_traced_once():
    """Ball joints share their functions; joints of other kinds have their own."""
    bodies = [tb.Body("trunk", joint=tb.Free("trunk"), inertia=tb.Inertia.box(1.0, (1, 1, 1)))]
    for k in range(3):
        ball_joint = tb.Spherical(f"ball {k}")
        inertia = tb.Inertia.box(1.0 + k, (0.1, 0.2, 0.3))
        bodies.append(tb.Body(f"arm {k}", "trunk", joint=ball_joint, inertia=inertia))
    model = tb.Model("three arms", bodies)
    manifold = Manifold(model)
    assert [manifold.first_like(name) for name in manifold.joint_names] == [0, 1, 1, 1]
    assert len(rotating_joints(model, manifold)) == 4
    moves = [joint_move(manifold, joint) for joint in model.joints]
    assert moves[1] == moves[2] == moves[3] != moves[0]


@pytest.mark.slow
def test_54_contact_points_fit_in_the_memory_of_a_kernel():
    """One robot and batches have the same bits."""
    model, rng = tb.load("aquarobot"), np.random.default_rng(1)
    world = tb.World(ground=tb.Ground(static_friction=0.8, kinetic_friction=0.7))
    q = np.tile(model.poses["stand"], (2, 1))
    v, tau = 0.1 * rng.normal(size=(2, 2, model.nv))
    found = tb.linearize(model, q, v, tau, dt=1e-3, world=world)
    one = tb.linearize(model, q[1], v[1], tau[1], dt=1e-3, world=world)
    np.testing.assert_array_equal(one.A, found.A[1])
    np.testing.assert_array_equal(one.B, found.B[1])
