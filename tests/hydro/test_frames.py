"""The same robot described in other frames, by other joints or in more parts moves the same."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.hydro.wet import SEAS, OnFloats, random_fluid
from tests.model.samples import random_axis, random_inertia, random_pose
from tests.oracles import absolute
from tests.tolerances import SOLVE, assert_close

GRAVITY = (1.5, -2.5, -9.0)
in_every_water = pytest.mark.parametrize("sea", SEAS)


def moved_inertia(inertia, pose):
    """Return an inertia in a frame in which its own has a given pose."""
    R = np.array(pose.rotation)
    com = R @ inertia.com + pose.translation
    return tb.Inertia(inertia.mass, com, R @ inertia.matrix @ R.T)


def moved_fluid(fluid, pose):
    """Return water numbers in a frame in which their own has a given pose."""
    R, p = np.array(pose.rotation), np.array(pose.translation)
    # motions at the old origin, along old axes, from those at the new origin along new axes
    X = np.block([[R.T, np.zeros((3, 3))], [-R.T @ absolute.skew(p), R.T]])
    shapes = []
    for drag in fluid.drag:
        if isinstance(drag, tb.CylinderDrag):
            shapes.append(replace(drag, start=R @ drag.start + p, axis=R @ drag.axis))
        elif isinstance(drag, tb.SphereDrag):
            shapes.append(replace(drag, center=R @ drag.center + p))
        else:
            shapes.append(replace(drag, pose=pose @ drag.pose))
    return tb.BodyFluid(
        fluid.volume,
        R @ fluid.center_of_buoyancy + p,
        X.T @ fluid.added_mass @ X,
        tuple(shapes),
        X.T @ fluid.linear_damping @ X,
        fins=tuple(
            replace(fin, position=R @ fin.position + p, span=R @ fin.span, chord=R @ fin.chord)
            for fin in fluid.fins
        ),
    )


def parts(seed):
    """Return a hull with an arm: inertias, water numbers, hinge."""
    rng = np.random.default_rng(seed)
    # quadratic damping weighs each component alone, and belongs to one set of axes
    fluids = [replace(random_fluid(rng), quadratic_damping=None) for _ in range(3)]
    inertias = [random_inertia(rng) for _ in range(3)]
    hinge = tb.Revolute("hinge", random_axis(rng).tolist(), pose=random_pose(rng))
    return inertias, fluids, hinge, random_pose(rng), rng


def tip_acceleration(model, water, q, v, tau):
    """Return the classical acceleration of the arm in the world, by the dense oracle."""
    vd = OnFloats(model, GRAVITY, water).forward_dynamics(q, v, tau)
    links = absolute.links_of(model, q)
    speed = absolute.velocities(links, v)[-1]
    rates = []
    for link, product in zip(links, absolute.velocity_products(links, v), strict=True):
        carrier = np.zeros(6) if link.parent < 0 else rates[link.parent]
        rates.append(carrier + product + link.S @ vd[link.v])
    return rates[-1], speed, vd


@in_every_water
@pytest.mark.parametrize("seed", range(4))
def test_a_moved_base_frame_gives_the_same_motion(sea, seed):
    """The sources put the base's frame on its mass center; any other place, h != 0, will do."""
    (hull, arm, _), (wet_hull, wet_arm, _), hinge, pose, rng = parts(seed)
    water = SEAS[sea].water
    bodies = [
        tb.Body("hull", joint=tb.Free("float"), inertia=hull, fluid=wet_hull),
        tb.Body("arm", "hull", joint=hinge, inertia=arm, fluid=wet_arm),
    ]
    here = tb.Model("here", bodies)
    q, v = here.random_state(rng)
    tau = rng.normal(size=here.nv)
    expected, speed, vd = tip_acceleration(here, water, q, v, tau)
    # the new frame of the hull, in which the old one has the pose drawn
    bodies = [
        tb.Body(
            "hull",
            joint=tb.Free("float"),
            inertia=moved_inertia(hull, pose),
            fluid=moved_fluid(wet_hull, pose),
        ),
        tb.Body(
            "arm", "hull", joint=replace(hinge, pose=pose @ hinge.pose), inertia=arm, fluid=wet_arm
        ),
    ]
    there = tb.Model("there", bodies)
    frame = absolute.frame_pose(here, q, "hull") @ np.linalg.inv(pose.matrix)
    w = absolute.frame_pose(here, q, "hull")[:3, :3] @ v[:3]
    origin = absolute.velocities(absolute.links_of(here, q), v)[0]
    at = origin[3:] + np.cross(w, frame[:3, 3])
    R = frame[:3, :3]
    q_there = np.concatenate([quaternion(R), frame[:3, 3], q[7:]])
    v_there = np.concatenate([R.T @ w, R.T @ at, v[6:]])
    # forces on the hull act at its origin: carry them
    P = np.array(pose.rotation)
    n, f = P @ tau[:3], P @ tau[3:6]
    tau_there = np.concatenate([n + np.cross(pose.translation, f), f, tau[6:]])
    found, same, _ = tip_acceleration(there, water, q_there, v_there, tau_there)
    condition = np.linalg.cond(OnFloats(there, GRAVITY, water).mass_matrix(q_there))
    assert_close(same, speed)
    assert_close(found, expected, SOLVE, condition * max(1.0, np.abs(vd).max()))


def quaternion(R):
    """Return the unit quaternion of a rotation matrix, from its largest component on."""
    values, vectors = np.linalg.eigh(
        np.array(
            [
                [np.trace(R), R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]],
                [0, 2 * R[0, 0] - np.trace(R), R[0, 1] + R[1, 0], R[0, 2] + R[2, 0]],
                [0, 0, 2 * R[1, 1] - np.trace(R), R[1, 2] + R[2, 1]],
                [0, 0, 0, 2 * R[2, 2] - np.trace(R)],
            ]
        ),
        UPLO="U",
    )
    return vectors[:, np.argmax(values)]


@pytest.mark.parametrize("sea", [name for name, sea in SEAS.items() if sea.water.is_uniform])
@pytest.mark.parametrize("seed", range(4))
def test_bodies_on_fixed_joints_are_one_body(sea, seed):
    """Masses, added masses and volumes add, where water moves alike; shapes of drag stay apart."""
    (hull, arm, pod), (wet_hull, wet_arm, wet_pod), hinge, pose, rng = parts(seed)
    water = SEAS[sea].water
    swinging = tb.Body("arm", "hull", joint=hinge, inertia=arm, fluid=wet_arm)
    floating = tb.Body("hull", joint=tb.Free("float"), inertia=hull, fluid=wet_hull)
    fixed = tb.Body("pod", "hull", joint=tb.Fixed("bolt", pose=pose), inertia=pod, fluid=wet_pod)
    apart = tb.Model("apart", [floating, fixed, swinging])
    other, more = moved_inertia(pod, pose), moved_fluid(wet_pod, pose)
    mass, volume = hull.mass + other.mass, wet_hull.volume + more.volume
    com = (hull.mass * np.array(hull.com) + other.mass * np.array(other.com)) / mass
    tensor = sum(
        part.matrix
        + part.mass * (lambda d: d @ d * np.eye(3) - np.outer(d, d))(np.array(part.com) - com)
        for part in (hull, other)
    )
    center = (
        wet_hull.volume * np.array(wet_hull.center_of_buoyancy)
        + more.volume * np.array(more.center_of_buoyancy)
    ) / volume
    fluid = tb.BodyFluid(
        volume,
        center,
        np.array(wet_hull.added_mass) + np.array(more.added_mass),
        (*wet_hull.drag, *more.drag),
        np.array(wet_hull.linear_damping) + np.array(more.linear_damping),
        fins=(*wet_hull.fins, *more.fins),
    )
    whole = tb.Body("hull", joint=tb.Free("float"), inertia=tb.Inertia(mass, com, tensor))
    joined = tb.Model("joined", [replace(whole, fluid=fluid), swinging])
    q, v = apart.random_state(rng)
    tau = rng.normal(size=apart.nv)
    found = OnFloats(apart, GRAVITY, water).forward_dynamics(q, v, tau)
    ours = OnFloats(joined, GRAVITY, water)
    expected = ours.forward_dynamics(q, v, tau)
    condition = np.linalg.cond(ours.mass_matrix(q))
    assert_close(found, expected, SOLVE, condition * max(1.0, np.abs(expected).max()))


@in_every_water
def test_a_floating_base_is_three_slides_and_three_hinges(sea):
    """Between bodies without mass, which water does not see."""
    (hull, arm, _), (wet_hull, wet_arm, _), hinge, _, rng = parts(7)
    water = SEAS[sea].water
    swinging = tb.Body("arm", "hull", joint=hinge, inertia=arm, fluid=wet_arm)
    floating = tb.Body("hull", joint=tb.Free("float"), inertia=hull, fluid=wet_hull)
    free = tb.Model("free", [floating, swinging])
    kinds = [(tb.Prismatic, k) for k in range(3)] + [(tb.Revolute, k) for k in (2, 1, 0)]
    bodies, parent = [], "world"
    for number, (kind, axis) in enumerate(kinds):
        joint = kind(f"joint_{number}", np.eye(3)[axis].tolist())
        name = "hull" if number == 5 else f"carrier_{number}"
        more = {"inertia": hull, "fluid": wet_hull} if number == 5 else {}
        bodies.append(tb.Body(name, parent, joint=joint, **more))
        parent = name
    chain = tb.Model("chain", [*bodies, swinging])
    q, v = rng.uniform(-1.0, 1.0, (2, 7))
    tau = np.zeros(7)
    tau[6] = 0.8
    expected, speed, vd = tip_acceleration(chain, water, q, v, tau)
    frame = absolute.frame_pose(chain, q, "hull")
    R, p = frame[:3, :3], frame[:3, 3]
    base = absolute.velocities(absolute.links_of(chain, q), v)[5]
    twist = np.concatenate([R.T @ base[:3], R.T @ (base[3:] + np.cross(base[:3], p))])
    state = np.concatenate([quaternion(R), p, q[6:]]), np.concatenate([twist, v[6:]])
    found, same, _ = tip_acceleration(free, water, *state, tau)
    condition = np.linalg.cond(OnFloats(chain, GRAVITY, water).mass_matrix(q))
    assert_close(same, speed)
    assert_close(found, expected, SOLVE, condition * max(1.0, np.abs(vd).max()))
