"""Plans: the private layout moves, weighs and places exactly as the user's bodies do."""

import subprocess
import sys

import numpy as np
import pytest

from tests.model.samples import (
    GENERAL,
    ROUNDING,
    arm,
    random_inertia,
    random_pose,
    random_tree,
    turn,
)
from tiburon.errors import ShapeError, UnknownNameError
from tiburon.model import Body, Fixed, Frame, Inertia, Model, Plan, Pose, Prismatic, Revolute
from tiburon.spatial import Motion, Transform

MODELS = [
    arm(),
    *(random_tree(seed) for seed in range(8)),
    *(random_tree(seed, kinds=("revolute", "prismatic", *GENERAL)) for seed in range(8, 12)),
]
each_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)


def plan_motion(plan, q, v):
    """Return world poses (4 x 4) and body velocities of the plan bodies, world first."""
    poses, velocities = {-1: np.eye(4)}, {-1: Motion.zero()}
    for body in plan.bodies:
        X = body.transform(q[body.q].tolist())
        poses[body.index] = poses[body.parent] @ homogeneous(X)
        joint_velocity = body.joint.velocity(q[body.q].tolist(), v[body.v].tolist())
        velocities[body.index] = X.motion(velocities[body.parent]) + joint_velocity
    return poses, velocities


def homogeneous(X):
    T = np.eye(4)
    T[:3, :3] = np.array(X.rotation).T
    T[:3, 3] = X.translation
    return T


def user_motion(model, q, v):
    """Return world poses and body velocities of the user's frames, in dense 6 x 6 algebra."""
    poses, velocities = {"world": np.eye(4)}, {"world": np.zeros(6)}
    for body in model.bodies:
        joint = body.joint
        position = q[model.slice(joint.name)].tolist()
        X = joint.transform(position)
        poses[body.name] = poses[body.parent] @ joint.pose.matrix @ homogeneous(X)
        dense = X.matrix() @ joint.pose.transform.matrix()
        relative = joint.velocity(position, v[model.slice(joint.name, of="v")].tolist()).array
        velocities[body.name] = dense @ velocities[body.parent] + relative
    for frame in model.frames:
        poses[frame.name] = poses[frame.body] @ frame.pose.matrix
        velocities[frame.name] = frame.pose.transform.matrix() @ velocities[frame.body]
    return poses, velocities


@each_model
def test_frames_are_where_the_user_put_them_and_move_as_the_user_expects(model):
    q, v = model.random_state(11)
    poses, velocities = user_motion(model, q, v)
    plan_poses, plan_velocities = plan_motion(model.plan, q, v)
    assert set(model.plan.frames) == set(model.frame_names)
    for name in model.frame_names:
        frame = model.plan.frame(name)
        pose = plan_poses[frame.body] @ homogeneous(frame.transform)
        np.testing.assert_allclose(pose, poses[name], rtol=0, atol=ROUNDING)
        velocity = frame.transform.motion(plan_velocities[frame.body]).array
        # velocities grow with the depth of the tree to about 100
        np.testing.assert_allclose(velocity, velocities[name], rtol=0, atol=100 * ROUNDING)


@each_model
def test_kinetic_energy_and_momentum_are_those_of_the_users_bodies(model):
    q, v = model.random_state(12)
    poses, velocities = user_motion(model, q, v)
    plan_poses, plan_velocities = plan_motion(model.plan, q, v)
    expected = sum(
        0.5 * velocities[b.name] @ b.inertia.rigid.matrix() @ velocities[b.name]
        for b in model.bodies
    )
    energy = sum(b.inertia.kinetic_energy(plan_velocities[b.index]) for b in model.plan.bodies)
    assert energy == pytest.approx(expected, rel=ROUNDING)
    moving = [b for b in model.bodies if model.plan.frame(b.name).body != -1]
    first_moment = sum(b.inertia.mass * (poses[b.name] @ [*b.inertia.com, 1.0]) for b in moving)
    from_plan = sum(plan_poses[b.index] @ [*b.inertia.h, b.inertia.mass] for b in model.plan.bodies)
    np.testing.assert_allclose(from_plan, first_moment, rtol=0, atol=100 * ROUNDING)


@each_model
def test_the_plan_holds_moving_bodies_in_the_users_order(model):
    moving = [body for body in model.bodies if body.joint.nv > 0]
    assert [body.name for body in model.plan.bodies] == [body.name for body in moving]
    for body in model.plan.bodies:
        assert body.index > body.parent
        assert body.q == model.slice(body.joint.name)
        assert body.v == model.slice(body.joint.name, of="v")
        for child in body.children:
            assert model.plan.bodies[child].parent == body.index


def test_mass_fixed_to_the_world_is_ignored():
    stand = Body("stand", joint=Fixed("bolt"), inertia=Inertia.sphere(100.0, 1.0))
    arm = Body("arm", "stand", joint=Revolute("j"), inertia=Inertia.sphere(1.0, 0.1))
    model = Model("m", [stand, arm])
    assert [body.name for body in model.plan.bodies] == ["arm"]
    assert model.plan.bodies[0].parent == -1
    assert model.plan.frame("stand").body == -1
    assert model.plan.parameter_names == (
        "arm.mass",
        "arm.inertia_xx",
        "arm.inertia_yy",
        "arm.inertia_zz",
    )


def test_chains_of_fixed_joints_are_joined_to_one_link():
    rng = np.random.default_rng(2)
    bodies = [Body("a", joint=Revolute("j"), inertia=random_inertia(rng))]
    for parent, name in zip("abc", "bcd", strict=True):
        joint = Fixed(f"weld_{name}", pose=random_pose(rng))
        bodies.append(Body(name, parent, joint=joint, inertia=random_inertia(rng)))
    model = Model("m", bodies, [Frame("tip", "d", random_pose(rng))])
    (link,) = model.plan.bodies
    assert link.inertia.mass == pytest.approx(model.total_mass, rel=1e-15 * 4)
    assert [model.plan.frame(name).body for name in "abcd"] == [link.index] * 4


@each_model
def test_parameters_are_the_nonzero_inertial_numbers_in_order(model):
    plan, parameters = model.plan, model.plan.parameters
    numbers = [x for body in plan.bodies for x in body.inertia]
    assert list(parameters) == [x for x in numbers if x != 0.0]
    assert len(plan.parameter_names) == len(parameters)
    assert len(set(plan.parameter_names)) == len(parameters)


@each_model
def test_plan_takes_other_parameters_of_any_scalar_type(model):
    plan = Plan.build(model, [f"p{i}" for i in range(len(model.plan.parameter_names))])
    given = [x for body in plan.bodies for x in body.inertia if x != 0.0]
    assert given == [f"p{i}" for i in range(len(model.plan.parameter_names))]
    assert plan.parameters == tuple(given)
    assert Plan.build(model, model.plan.parameters).bodies == model.plan.bodies


def test_wrong_number_of_parameters_is_refused():
    model = arm()
    with pytest.raises(ShapeError, match=r"parameters: expected \d+ inertial parameters of model"):
        Plan.build(model, [1.0, 2.0])


def test_unknown_frame_gives_the_nearest():
    with pytest.raises(
        UnknownNameError, match=r"unknown frame 'tipp'; did you mean 'tip'\? \(model"
    ):
        arm().plan.frame("tipp")


def two_links(mass=1.0, com=(0.1, 0.0, 0.2), angle=0.3, axis=(0, 0, 1), kind=Revolute, length=0.5):
    inertia = Inertia(mass, com, (0.1, 0.1, 0.1))
    a = Body("a", joint=Revolute("j", (0, 1, 0)), inertia=inertia)
    pose = Pose(turn(np.array([angle, 0, 0])), (length, 0, 0))
    b = Body("b", "a", joint=kind("k", axis, pose=pose), inertia=inertia)
    return Model("m", [a, b])


def test_structure_key_ignores_values_of_inertial_numbers_only():
    key = two_links().structure_key()
    assert two_links(mass=2.0, com=(0.3, 0.0, 0.1)).structure_key() == key
    assert two_links(mass=2.0).parameters().tolist() != two_links().parameters().tolist()
    for other in (
        two_links(com=(0.1, 0.1, 0.2)),
        two_links(angle=0.4),
        two_links(axis=(0, 1, 0)),
        two_links(kind=Prismatic),
        two_links(length=0.6),
    ):
        assert other.structure_key() != key


def test_structure_key_is_the_same_in_another_process():
    """A digest of text with exact floats, not of Python hashes, which change from run to run."""
    code = "from tests.model.test_plan import two_links; print(two_links().structure_key().hex())"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == two_links().structure_key().hex()


def test_placements_are_plain_floats():
    """NumPy floats would be slower in tracing and print differently in the key."""
    for model in MODELS:
        transforms = [body.placement for body in model.plan.bodies]
        transforms += [frame.transform for frame in model.plan.frames.values()]
        for X in transforms:
            assert isinstance(X, Transform)
            assert "np." not in repr(X)
