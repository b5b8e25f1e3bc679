"""Chosen frames: never dearer than the user's, and left alone where they are cheap already."""

import numpy as np
import pytest

from tests.model.samples import random_inertia, random_pose, random_tree
from tiburon.algorithms.kinematics import frame_places
from tiburon.model import Body, Fixed, Frame, Free, Inertia, Model, Pose, Prismatic, Revolute
from tiburon.model import reframe as reframe_module
from tiburon.model.reframe import WORLD_LINK, join_fixed
from tiburon.spatial import AxisRotation


def chain(count, make_joint, seed=1):
    rng = np.random.default_rng(seed)
    bodies = []
    for i in range(count):
        parent = f"body{i - 1}" if i else "world"
        joint = make_joint(i, rng)
        bodies.append(Body(f"body{i}", parent, joint=joint, inertia=random_inertia(rng)))
    return Model("chain", bodies)


def turning(i, rng):
    axis = rng.standard_normal(3)
    return Revolute(f"joint{i}", axis / np.linalg.norm(axis), pose=random_pose(rng))


def mixed(i, rng):
    axis = rng.standard_normal(3)
    kind = Prismatic if i % 3 == 2 else Revolute
    return kind(f"joint{i}", axis / np.linalg.norm(axis), pose=random_pose(rng))


def total_cost(links, frames):
    """Return the cost the choice minimizes, for any frames of the links."""
    total = 0
    for link, frame in zip(links, frames, strict=True):
        parent = reframe_module._WORLD if link.parent == WORLD_LINK else frames[link.parent]
        placement, _ = reframe_module._place(parent, link, frame)
        total += placement.cost(reframe_module._weight(link))
        total += reframe_module._inertia_cost(link, frame)
    return total


@pytest.mark.parametrize("seed", range(8))
def test_chosen_frames_never_cost_more_than_the_given_ones(seed):
    model = random_tree(seed, 10)
    links = join_fixed(model.bodies, model.frames).links
    kept = [reframe_module._kept(link) for link in links]
    chosen = reframe_module._cheapest(links)
    assert total_cost(links, chosen) <= total_cost(links, kept)


def test_chosen_frames_cost_less_in_general_position():
    """Two turns per joint become one, and an arm of eight joints saves at least six of them."""
    links = join_fixed(chain(8, turning).bodies, ()).links
    kept = [reframe_module._kept(link) for link in links]
    saved = total_cost(links, kept) - total_cost(links, reframe_module._cheapest(links))
    assert saved >= 6 * reframe_module.BETWEEN_BODIES.turn


@pytest.mark.parametrize("make", [turning, mixed])
def test_chain_in_general_position_gets_one_turn_per_joint(make):
    """All but the first placement become x-screws; a slide keeps a constant turn about its axis."""
    model = chain(8, make)
    for body in model.plan.bodies[1:]:
        turns = [f for f in body.placement.factors if isinstance(f, AxisRotation)]
        sliding = body.joint.kind == "prismatic"
        last = not body.children
        assert len(turns) <= 1 + sliding + (last and sliding)
        assert body.joint.coordinate() is not None


def test_right_angled_models_keep_their_frames():
    pose = Pose.from_rpy((np.pi / 2, 0, 0), (0.1, 0.2, 0.3))
    model = chain(4, lambda i, rng: Revolute(f"joint{i}", np.eye(3)[i % 3], pose=pose))
    for body in model.plan.bodies:
        assert model.plan.frame(body.name).transform.factors == ()
        assert body.joint.axis == model.joint(body.joint.name).axis


def test_free_bodies_keep_their_frames():
    model = random_tree(3, 10)
    free = [body for body in model.plan.bodies if body.joint.kind == "free"]
    assert free
    for body in free:
        assert model.plan.frame(body.name).transform.factors == ()


def test_turned_hips_of_a_hexapod_cost_an_offset_only():
    """Legs at 60 degrees on vertical hips: the turn about the hip is the joint's own."""
    ball = Inertia.sphere(1.0, 0.1)
    bodies = [Body("trunk", joint=Free("float"), inertia=ball)]
    for leg in range(6):
        pose = Pose.from_rpy((0, 0, leg * np.pi / 3), (np.cos(leg), np.sin(leg), 0))
        bodies.append(
            Body(f"hip{leg}", "trunk", joint=Revolute(f"h{leg}", pose=pose), inertia=ball)
        )
    plan = Model("hexapod", bodies).plan
    for body in plan.bodies[1:]:
        assert not [f for f in body.placement.factors if isinstance(f, AxisRotation)]
    # half a turn is a change of signs, which is as cheap as an offset
    expected = [0.0, np.pi / 3, 2 * np.pi / 3, 0.0, -2 * np.pi / 3, -np.pi / 3]
    assert [b.joint.offset for b in plan.bodies[1:]] == pytest.approx(expected, abs=1e-12)


def test_joint_keeps_name_and_variables():
    model = chain(6, mixed)
    for body in model.plan.bodies:
        joint = model.joint(body.joint.name)
        assert (body.joint.kind, body.joint.nq, body.joint.nv) == (joint.kind, joint.nq, joint.nv)


@pytest.mark.parametrize(
    ("point", "direction", "x", "foot"),
    [
        ((1, 0, 2), (0, 1, 0), (-1, 0, 0), (0, 0, 2)),  # skew lines
        ((0, 0, 3), (1, 0, 0), (0, 1, 0), (0, 0, 3)),  # crossing lines
        ((0, 2, 5), (0, 0, 1), (0, 2, 0), (0, 0, 0)),  # parallel lines
        ((0, 0, 5), (0, 0, -1), None, (0, 0, 0)),  # one line
    ],
)
def test_common_normal_of_two_lines(point, direction, x, foot):
    normal, at = reframe_module._common_normal((0.0, 0.0, 1.0), point, direction)
    assert at == pytest.approx(foot, abs=1e-15)
    assert np.dot(normal, (0, 0, 1)) == pytest.approx(0.0, abs=1e-15)
    assert np.dot(normal, direction) == pytest.approx(0.0, abs=1e-15)
    assert np.linalg.norm(normal) > 0.1
    if x is not None:
        assert normal == pytest.approx(x, abs=1e-15)


def test_models_without_moving_bodies_have_empty_plans():
    model = Model("still", [Body("rock", joint=Fixed("bolt"))], [Frame("top", "rock")])
    assert model.plan.bodies == ()
    assert model.plan.parameters == ()
    assert set(model.plan.frames) == {"world", "rock", "top"}


@pytest.mark.parametrize("tilt", [1e-8, 1e-7, 3.7e-6, 1e-3])
def test_nearly_parallel_axes_keep_full_precision(tilt):
    """Files type right angles with few digits; the common normal is then kilometers away."""
    rng = np.random.default_rng(4)
    bodies = []
    for i in range(4):
        pose = Pose.from_rpy((tilt * (i + 1), 0.0, 0.3), rng.uniform(-0.3, 0.3, 3))
        parent = f"body{i - 1}" if i else "world"
        joint = Revolute(f"joint{i}", pose=pose)
        bodies.append(Body(f"body{i}", parent, joint=joint, inertia=random_inertia(rng)))
    model = Model("nearly parallel", bodies)
    for body, chosen in zip(
        bodies, reframe_module.choose_frames(join_fixed(bodies, ())), strict=True
    ):
        assert np.linalg.norm(chosen.pose.translation) < 10.0, body.name
    q, _ = model.random_state(5)
    expected = Pose()
    for body, angle in zip(bodies, q, strict=True):
        expected = expected @ body.joint.pose @ Pose.from_axis_angle((0, 0, 1), angle)
    (place,) = frame_places(model.plan, q.tolist(), ["body3"])
    # rotation entries within 1e-12 of 0 or 1 are made exact, once per joint
    np.testing.assert_allclose(place.p, expected.translation, rtol=0, atol=1e-11)
    np.testing.assert_allclose(place.R, expected.rotation, rtol=0, atol=1e-11)
