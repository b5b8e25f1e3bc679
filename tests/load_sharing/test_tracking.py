"""Motion and forces in one problem: what is returned satisfies the equations of motion."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.functions.load_tracking import AIM_SIZE, TrackedLoad, tracked_load

FLOOR = tb.World(ground=tb.Ground(static_friction=0.6))


@pytest.fixture(scope="module")
def dog():
    return tb.load("quadruped")


def tracked(plan, q, v, wanted, touching, slip_damping=0.0):
    """Return the load that follows wanted accelerations, without feedback or smoothing."""
    layout = plan.layout
    groups, driven = len(layout.groups), len(layout.driven)
    parameters = plan.split_parameters(plan.parameters())
    given = (
        q,
        v,
        wanted,
        touching,
        np.zeros(layout.size),
        np.zeros(driven),
        np.zeros(0),
        np.zeros(len(plan.limit_names)),
        np.zeros(driven),
        np.zeros(0),
        *map(np.array, parameters),
        touching,
        np.zeros(AIM_SIZE),
        np.array([0.0, 0.0, slip_damping, 1.0, 0.0]),
        np.full(groups, 1e30),
        np.zeros(len(layout.undriven)),
        np.zeros(plan.model.nv),
    )
    options = (*plan.options, ("feet", (None,) * groups))
    found = tracked_load.call(plan.model, given, {"world": plan.world}, options)
    return TrackedLoad(*found)


def accelerations(model, q, v, found):
    """Return forward dynamics under joint and contact forces."""
    here = tb.contacts(model, q, world=FLOOR)
    wrenches = {}
    for k, point in enumerate(model.contacts):
        _, origin = tb.forward_kinematics(model, q, point.body)
        force = found.forces[k]
        wrench = np.concatenate([np.cross(here.point[k] - origin, force), force])
        wrenches[point.body] = wrenches.get(point.body, 0.0) + wrench
    return tb.forward_dynamics(
        model, q, v, found.tau, external_force=wrenches, external_axes="world"
    )


@pytest.mark.parametrize("feet", [(1, 1, 1, 1), (1, 0, 0, 1), (0, 1, 1, 0)])
def test_tracked_loads_satisfy_the_equations_of_motion(dog, feet):
    """Forces and torques produce the returned motion, in which contacts do not accelerate."""
    plan = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False)
    rng = np.random.default_rng(5)
    q = np.array(dog.poses["stand"])
    # a velocity at which feet on the ground are at rest
    touching = np.array(feet, dtype=float)
    rows = np.repeat(touching > 0.5, 3)
    jacobian = np.stack(
        [
            np.asarray(tb.contacts(dog, q, one, world=FLOOR).velocity).ravel()
            for one in np.eye(dog.nv)
        ],
        axis=-1,
    )
    v = 0.3 * rng.standard_normal(dog.nv)
    held = jacobian[rows]
    v = v - np.linalg.pinv(held) @ (held @ v)
    wanted = 0.5 * rng.standard_normal(dog.nv)
    found = tracked(plan, q, v, wanted, touching)
    assert found.status == 0.0
    vd = np.asarray(found.vd)
    np.testing.assert_allclose(accelerations(dog, q, v, found), vd, atol=1e-7)
    # velocities of contact points along the motion, by differences
    h = 1e-4
    before, after = (
        tb.contacts(dog, dog.integrate(q, t * v + 0.5 * t * t * vd), v + t * vd, world=FLOOR)
        for t in (-h, h)
    )
    rate = (np.asarray(after.velocity) - np.asarray(before.velocity))[touching > 0.5] / (2.0 * h)
    np.testing.assert_allclose(rate, 0.0, atol=1e-5)
    changes = np.asarray(found.x)[plan.layout.size :]
    kept = vd[:6] - wanted[:6]
    np.testing.assert_allclose(kept, changes, atol=1e-9)
    if sum(feet) == 4:
        # four feet produce any motion
        assert np.abs(changes).max() < 1e-3
    else:
        # two do not, about the line between them
        assert np.abs(changes).max() > 0.1
    np.testing.assert_allclose(np.asarray(found.forces)[touching < 0.5], 0, atol=1e-9)


def test_least_changes_are_those_of_gauss(dog):
    """About the line between two feet the change is the least in apparent masses."""
    plan = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False)
    q, rest = np.array(dog.poses["stand"]), np.zeros(dog.nv)
    found = tracked(plan, q, rest, rest, np.array([1.0, 0.0, 0.0, 1.0]))
    changes = np.asarray(found.x)[plan.layout.size :]
    masses = np.diag(np.asarray(tb.mass_matrix(dog, q)))[:6]
    # changes that forces of both feet leave open: one direction only
    wanted = [
        np.asarray(tracked(plan, q, rest, np.r_[e, rest[6:]], np.array([1.0, 0.0, 0.0, 1.0])).x)
        for e in np.eye(6)
    ]
    response = np.stack([x[plan.layout.size :] - changes for x in wanted], axis=-1)
    # the response is minus an orthogonal projection in the metric of masses, of rank one
    scaled = np.sqrt(masses)[:, None] * response / np.sqrt(masses)[None, :]
    np.testing.assert_allclose(scaled, scaled.T, atol=1e-3)
    values = np.sort(np.linalg.eigvalsh(-0.5 * (scaled + scaled.T)))
    np.testing.assert_allclose(values, [0, 0, 0, 0, 0, 1], atol=1e-3)


def test_tracked_loads_count_the_water_of_their_state():
    """Thrusters in water: the shared thrusts produce the wanted motion, drag and added mass too."""
    robot = tb.load("bluerov2_heavy")
    world = tb.World(fluid=tb.Water())
    plan = tb.LoadSharing.of(robot, world=world)
    rng = np.random.default_rng(8)
    q = robot.integrate(robot.neutral(), 0.3 * rng.normal(size=6))
    v, wanted = 0.3 * rng.normal(size=6), 0.3 * rng.normal(size=6)
    found = tracked(plan, q, v, wanted, np.ones(len(plan.contact_names)))
    # changes of the motion count a million times as much as forces
    np.testing.assert_allclose(found.vd, wanted, atol=1e-4)
    thrust = tb.thruster_force_of_thrust(robot, q, found.x[: len(plan.names)])
    moved = tb.forward_dynamics(robot, q, v, thrust, world=world)
    np.testing.assert_allclose(moved, found.vd, atol=1e-9)
