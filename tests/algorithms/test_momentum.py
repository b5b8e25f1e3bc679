"""Momentum, its matrix and the center of mass against sums over bodies."""

import numpy as np
import pytest
from hypothesis import given

import tiburon as tb
from tests.algorithms.on_floats import on_floats
from tests.model.samples import random_axis, random_inertia, random_pose
from tests.oracles import absolute, frames
from tests.robots import ROBOTS, kicked
from tests.strategies import few_examples, models, seeds, state
from tests.tolerances import ALGEBRA, DIFFERENCE, DIFFERENCE_STEP, assert_close

ABOUT_ORIGIN = (("at", "world"),)


@few_examples
@given(models(), seeds)
def test_momentum_and_its_matrix_equal_sums_over_bodies(model, seed):
    """About the origin and about the center of mass."""
    q, v, *_ = state(model, seed)
    center = frames.center_of_mass(model, q)
    assert_close(on_floats("center_of_mass", model, q), center)
    about_origin = frames.momentum_matrix(model, q, np.zeros(3))
    # moments about the center of mass are differences of those about the origin
    scale = max(1.0, float(np.abs(about_origin).max())) * (1.0 + float(np.abs(center).max()))
    about_center = frames.momentum_matrix(model, q, center)
    for expected, options in ((about_center, ()), (about_origin, ABOUT_ORIGIN)):
        matrix = on_floats("momentum_matrix", model, q, options=options)
        assert_close(matrix, expected, ALGEBRA, scale)
        momentum = on_floats("momentum", model, q, v, options=options)
        assert_close(momentum, expected @ v, ALGEBRA, scale * max(1.0, float(np.abs(v).sum())))


@few_examples
@given(models(), seeds)
def test_center_of_mass_moves_with_its_jacobian(model, seed):
    """J v is the rate of the center, by central differences."""
    q, v, *_ = state(model, seed)
    v = v / max(1.0, float(np.linalg.norm(v)))
    h = DIFFERENCE_STEP
    after, before = (
        frames.center_of_mass(model, model.integrate(q, s * h * v)) for s in (1.0, -1.0)
    )
    J = on_floats("center_of_mass_jacobian", model, q)
    scale = max(1.0, float(np.abs(J).max()))
    assert_close(J @ v, (after - before) / (2.0 * h), DIFFERENCE, scale)


@pytest.mark.parametrize("name", ["orrery", "rover", "welded"])
def test_linear_momentum_is_mass_times_velocity_of_the_center(name):
    """Native: rows of the momentum matrix, total mass and the Jacobian of the center agree."""
    model = ROBOTS[name]
    q, v, _ = kicked(model, 3, (5,))
    momentum = tb.momentum(model, q, v)
    moving = sum(body.inertia.mass for body in model.plan.bodies)
    speed = np.einsum("bij,bj->bi", tb.center_of_mass_jacobian(model, q), v)
    assert_close(momentum[:, 3:], moving * speed)
    matrix = tb.momentum_matrix(model, q)
    assert_close(np.einsum("bij,bj->bi", matrix, v), momentum)
    assert_close(momentum[2], on_floats("momentum", model, q[2], v[2]))


def test_external_forces_change_momentum_at_their_rate():
    """The rate of momentum about the origin is gravity's wrench: d'Alembert for a free robot."""
    model = ROBOTS["quadruped"]
    q, v, tau = kicked(model, 4)
    tau[:6] = 0.0
    v = 0.2 * v
    vd = tb.forward_dynamics(model, q, v, tau)
    h = DIFFERENCE_STEP
    after, before = (
        tb.momentum(
            model, model.integrate(q, s * h * v + 0.5 * h * h * vd), v + s * h * vd, at="world"
        )
        for s in (1.0, -1.0)
    )
    weight = np.array([0.0, 0.0, -9.81]) * model.total_mass
    center = frames.center_of_mass(model, q)
    expected = np.concatenate([np.cross(center, weight), weight])
    # accelerations of unloaded legs are large: the terms that cancel set the scale
    M = absolute.crba(model, q)
    scale = float((np.abs(M) @ np.abs(vd)).max())
    assert_close((after - before) / (2.0 * h), expected, DIFFERENCE, scale)


def test_unknown_points_are_refused():
    """Momentum knows two points."""
    model = ROBOTS["pendulum"]
    with pytest.raises(tb.OptionError, match="at: expected 'com' or 'world', got 'frame'"):
        tb.momentum(model, [0.1], [0.2], at="frame")


def test_a_robot_that_cannot_move_has_no_center_of_mass():
    """Nothing moves, so there is nothing to average over; momentum about the origin is zero."""
    post = tb.Body("post", joint=tb.Fixed("weld"), inertia=tb.Inertia.box(1.0, (1, 1, 1)))
    model = tb.Model("post", [post])
    none = np.zeros(0)
    with pytest.raises(tb.ModelError, match="'post': expected bodies that move, got none"):
        tb.center_of_mass(model, none)
    assert not tb.momentum(model, none, none, at="world").any()
    assert tb.momentum_matrix(model, none, at="world").shape == (6, 0)
    assert tb.frame_jacobian(model, none, "post").shape == (6, 0)


def two_vehicles():
    """Return two vehicles with arms, one near the other."""
    rng = np.random.default_rng(5)
    bodies = []
    for name in ("a", "b"):
        wet = tb.BodyFluid(volume=1e-3, added_mass=np.diag(rng.uniform(0.1, 1.0, 6)))
        inertia = random_inertia(rng)
        hull = tb.Body(f"{name}_hull", joint=tb.Free(name), inertia=inertia, fluid=wet)
        hinge = tb.Revolute(f"{name}_hip", random_axis(rng), pose=random_pose(rng))
        arm = tb.Body(f"{name}_arm", f"{name}_hull", joint=hinge, inertia=random_inertia(rng))
        bodies += [hull, arm]
    return tb.Model("two", bodies, [tb.Frame("tip", "b_arm", random_pose(rng))])


def on_slides():
    """Return a vehicle with an arm on slides without mass, as files without free joints have it."""
    rng = np.random.default_rng(8)
    turned = np.array(random_pose(rng).rotation)
    parents = ("world", "x", "y")
    bodies = [
        tb.Body(name, parent, joint=tb.Prismatic(f"slide_{name}", axis))
        for name, parent, axis in zip("xyz", parents, turned, strict=True)
    ]
    ball, hip = tb.Spherical("ball"), tb.Revolute("hip", random_axis(rng), pose=random_pose(rng))
    wet = tb.BodyFluid(volume=1e-3, added_mass=np.diag(rng.uniform(0.1, 1.0, 6)))
    bodies.append(tb.Body("hull", "z", joint=ball, inertia=random_inertia(rng), fluid=wet))
    bodies.append(tb.Body("arm", "hull", joint=hip, inertia=random_inertia(rng)))
    return tb.Model("slides", bodies, [tb.Frame("tip", "arm", random_pose(rng))])


OWN = {"two": two_vehicles, "chain": lambda: floating_chain(), "slides": on_slides}


@pytest.mark.parametrize("name", [*OWN, "quadruped"])
def test_nothing_but_positions_depends_on_the_distance_from_the_origin(name):
    """A thousand kilometers away bodies are as far from each other and their center of mass."""
    model = OWN[name]() if name in OWN else ROBOTS[name]
    rng = np.random.default_rng(6)
    q, _ = model.random_state(rng)
    v, vd = rng.standard_normal((2, model.nv))
    # eighths of a meter, which sums keep
    for joint in model.joints:
        if isinstance(joint, tb.Free):
            q[model.slice(joint.name)][4:] = rng.integers(-16, 16, 3) / 8.0
    far = q.copy()
    for joint in model.joints:
        if isinstance(joint, tb.Free):
            far[model.slice(joint.name)][4:] += 2.0**20
        if isinstance(joint, tb.Prismatic):
            far[model.slice(joint.name)] += 2.0**20
    frame, other, sea = model.frame_names[-1], model.body_names[-2], tb.Water()
    calls = {
        "momentum": lambda x: tb.momentum(model, x, v),
        "momentum_matrix": lambda x: tb.momentum_matrix(model, x),
        "center_of_mass_jacobian": lambda x: tb.center_of_mass_jacobian(model, x),
        "apparent_inverse_inertia": lambda x: tb.apparent_inverse_inertia(model, x, frame, other),
        "cross_inverse_inertia": lambda x: tb.cross_inverse_inertia(model, x, frame, other),
    }
    if any(body.fluid is not None for body in model.bodies):
        calls["momentum in water"] = lambda x: tb.momentum(model, x, v, fluid=sea)
        calls["momentum_matrix in water"] = lambda x: tb.momentum_matrix(model, x, fluid=sea)
    for at in ("frame", "com", (0.1, 0.2, 0.3)):
        point = {"at": at}
        calls |= {
            f"jacobian {at}": lambda x, o=point: tb.frame_jacobian(model, x, frame, **o),
            f"velocity {at}": lambda x, o=point: tb.frame_velocity(model, x, v, frame, **o),
            f"acceleration {at}": lambda x, o=point: tb.frame_acceleration(
                model, x, v, vd, frame, **o
            ),
            f"bias {at}": lambda x, o=point: tb.frame_jacobian_bias(model, x, v, frame, **o),
            f"inertia {at}": lambda x, o=point: tb.operational_space_inverse_inertia(
                model, x, frame, **o
            ),
        }
    for call, function in calls.items():
        here, there = function(q), function(far)
        # sums in another order of a few terms that are no larger than the result
        np.testing.assert_allclose(
            there, here, rtol=0, atol=1e-13 * np.abs(here).max(), err_msg=call
        )


def test_jacobians_of_a_tree_do_not_depend_on_where_other_trees_are():
    """A Jacobian of the second of two robots far apart is that of the robot alone."""
    rng = np.random.default_rng(9)
    axes = [random_axis(rng) for _ in range(3)]
    inertias = [random_inertia(rng) for _ in range(3)]
    arm, tool = random_pose(rng), random_pose(rng)

    def robots(distance):
        poses = (tb.Pose(), tb.Pose(translation=(distance, 0.0, 0.0)), arm)
        parts = zip(("other", "base", "arm"), axes, poses, inertias, strict=True)
        return [
            tb.Body(
                name,
                "base" if name == "arm" else "world",
                joint=tb.Revolute(name, axis, pose=pose),
                inertia=inertia,
            )
            for name, axis, pose, inertia in parts
        ]

    frame = [tb.Frame("tool", "arm", tool)]
    one, both = tb.Model("one", robots(0.0)[1:], frame), tb.Model("both", robots(2.0**20), frame)
    q = np.array([0.3, -0.4, 0.9])
    for axes_of in ("world", "frame"):
        for at in ("frame", (0.1, 0.2, 0.3)):
            point = {"at": at, "axes": axes_of}
            expected = tb.frame_jacobian(one, q[1:], "tool", **point)
            found = tb.frame_jacobian(both, q, "tool", **point)[:, 1:]
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)
    expected = tb.apparent_inverse_inertia(one, q[1:], "tool", "base")
    found = tb.apparent_inverse_inertia(both, q, "tool", "base")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


def floating_chain(links=60):
    """Return a vehicle with an arm too long to inline."""
    rng = np.random.default_rng(7)
    bodies = [tb.Body("hull", joint=tb.Free("base"), inertia=random_inertia(rng))]
    for k in range(links):
        pose = tb.Pose(translation=tuple(rng.uniform(-0.05, 0.05, 3)))
        joint = tb.Revolute(f"j{k}", random_axis(rng), pose=pose)
        parent = f"b{k - 1}" if k else "hull"
        bodies.append(tb.Body(f"b{k}", parent, joint=joint, inertia=random_inertia(rng)))
    return tb.Model("chain", bodies)
