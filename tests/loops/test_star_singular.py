"""Singular arms of stars: each number of them, overlapping null spaces, the change of branch."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.loops.dense import allowed, dense_constraints
from tests.loops.random_mechanisms import _inertia, _pose
from tests.loops.random_stars import closed_at
from tests.loops.test_methods import GRAVITY, dense, motion
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.tape_calls import JointVector
from tiburon.loops import star_dynamics
from tiburon.spatial import matrix_to_rotation_vector

X, Y, Z = np.eye(3).tolist()


def _link(rng, name, parent, axis, offset=(0.0, 0.0, 0.0), base=None):
    pose = tb.Pose(translation=offset) if base is None else base
    joint = tb.Revolute(f"{name} joint", tuple(axis), pose=pose)
    return tb.Body(name, parent=parent, joint=joint, inertia=_inertia(rng))


def elbow_arm(rng, prefix, base):
    """Return an arm with a shoulder, an elbow and a spherical wrist: 6R, like a PUMA."""
    axes = [Z, Y, Y, X, Y, X]
    offsets = [None, (0.1, 0.0, 0.3), (0.0, 0.0, 0.5), (0.45, 0.0, 0.0), (0, 0, 0), (0, 0, 0)]
    bodies, parent = [], "world"
    for k, (axis, offset) in enumerate(zip(axes, offsets, strict=True)):
        name = f"{prefix}_{k + 1}"
        bodies.append(_link(rng, name, parent, axis, offset, base if k == 0 else None))
        parent = name
    return bodies


BENT = np.array([0.3, 0.4, -0.7, 0.5, 0.8, -0.2])


def arms_on_load(rng, poses, bases=None, joint=tb.Fixed):
    """Return a load in the hands of elbow arms at given joint positions, and the configuration."""
    bases = [_pose(rng) for _ in poses] if bases is None else bases
    bodies = [tb.Body("load", joint=tb.Free("load joint"), inertia=_inertia(rng))]
    for k, base in enumerate(bases):
        bodies += elbow_arm(rng, f"arm_{k + 1}", base)
    tree = tb.Model("arms on a load", bodies)
    q = tree.neutral()
    turn = np.array([0.9, 0.3, -0.2, 0.1])
    q[:7] = [*(turn / np.linalg.norm(turn)), 0.2, -0.1, 0.4]
    q[7:] = np.concatenate(poses)
    loops = [
        closed_at(tree, q, "load", f"arm_{k + 1}_6", joint(f"grasp_{k + 1}"))
        for k in range(len(poses))
    ]
    return tb.Model(tree.name, bodies, loops=loops), q


def stretched(kind):
    """Return joint positions with a coaxial wrist, or with a stretched elbow."""
    found = BENT.copy()
    if kind == "wrist":
        found[4] = 0.0
    else:
        # the wrist's center on the line from shoulder to elbow: 0.45 m along x, 0.5 m along z
        found[2] = np.arctan2(0.45, 0.0) - np.pi
    return found


def kicked(model, q, rng):
    return q, allowed(model, q, rng.standard_normal(model.nv)), rng.standard_normal(model.nv)


def star_of(model, q, v, tau, **options):
    """Run the method for stars on floats."""
    around = Setting(model, (), (), model.plan, GRAVITY)
    state = [JointVector(list(x)) for x in (q, v, tau)]
    return star_dynamics.star_motion(around, *state, **options)


def names_of(model, found):
    arms = [arm.name for arm in tb.star(model).arms]
    return [name for name, flag in zip(arms, found.singular_arms, strict=True) if flag]


def assert_as_dense(model, q, v, tau, tolerance=1e-8):
    """Compare with the whole system (M-G2) by least squares; return the motion."""
    expected, forces, _, rank = dense(model, q, v, tau)
    found = motion(model, q, v, tau, "star")
    np.testing.assert_allclose(found.vd, expected, atol=tolerance * np.abs(expected).max())
    np.testing.assert_allclose(found.multipliers, forces, atol=tolerance * np.abs(forces).max())
    assert found.rank == rank
    return found


@pytest.mark.parametrize(
    ("singular", "kind"),
    [
        *(((), "wrist"), ((1,), "wrist"), ((3,), "elbow"), ((0, 2), "wrist"), ((0, 2), "elbow")),
        *(((0, 1, 3), "elbow"), ((0, 1, 2, 3), "wrist")),
        *(
            pytest.param(*x, marks=pytest.mark.slow)
            for x in (((1,), "elbow"), ((3,), "wrist"), ((0, 1, 3), "wrist"))
        ),
        pytest.param((0, 1, 2, 3), "elbow", marks=pytest.mark.slow),
    ],
)
def test_each_number_of_singular_arms_solves_the_whole_system(singular, kind):
    """(4.1), (4.9), (4.16) to (4.18) and (4.20) to (4.23) against (4.3) by least squares."""
    rng = np.random.default_rng([11, len(singular), kind == "wrist"])
    poses = [stretched(kind) if k in singular else BENT + 0.1 * k for k in range(4)]
    model, q = arms_on_load(rng, poses)
    q, v, tau = kicked(model, q, rng)
    found = assert_as_dense(model, q, v, tau)
    assert names_of(model, found) == [f"arm_{k + 1}" for k in singular]


def test_overlapping_null_spaces_leave_the_acceleration_unique():
    """Two arms with the same tip force in N(J^T): f_1 + v, f_2 - v leave a_r (trap 11)."""
    rng = np.random.default_rng(4)
    base = _pose(rng)
    model, q = arms_on_load(rng, [stretched("wrist")] * 2 + [BENT], [base, base, _pose(rng)])
    q, v, tau = kicked(model, q, rng)
    found = assert_as_dense(model, q, v, tau)
    assert found.rank == 17.0
    assert names_of(model, found) == ["arm_1", "arm_2"]
    # the null vector: same force, opposite sign, on both grasps; no joint feels it
    J = dense_constraints(model, q).J
    null = np.linalg.svd(J)[0][:, -1]
    assert np.abs(null @ J).max() < 1e-12
    assert np.abs(null[:6]).max() > 0.1
    assert np.abs(null[6:12]).max() > 0.1
    assert np.abs(null[12:]).max() < 1e-12
    # shortest: nothing of it
    assert abs(null @ np.array(found.multipliers)) < 1e-9 * np.abs(found.multipliers).max()


@pytest.mark.parametrize("kind", ["regular", "one", "both", "overlapping"])
def test_method_ii_of_the_dual_arm_serves_every_pose(kind):
    """Table 7: two arms as if both were singular; trap 11: where their null spaces meet, too."""
    rng = np.random.default_rng(17)
    base = _pose(rng)
    bases = [base, base if kind == "overlapping" else _pose(rng)]
    first = BENT if kind == "regular" else stretched("wrist")
    second = stretched("wrist") if kind in ("both", "overlapping") else BENT + 0.1
    model, q = arms_on_load(rng, [first, second], bases)
    state = kicked(model, q, rng)
    expected, forces, _, rank = dense(model, *state)
    found = star_of(model, *state, threshold=2.0)
    assert all(found.singular_arms)
    assert found.rank == rank == (11.0 if kind == "overlapping" else 12.0)
    np.testing.assert_allclose(found.vd, expected, atol=1e-8 * np.abs(expected).max())
    np.testing.assert_allclose(found.multipliers, forces, atol=1e-8 * np.abs(forces).max())
    # method I, where it exists: (4.9) to (4.11) where one arm is singular, else (4.1), (4.2)
    if kind in ("regular", "one"):
        first_method = star_of(model, *state)
        assert sum(first_method.singular_arms) == (kind == "one")
        np.testing.assert_allclose(first_method.vd, found.vd, atol=1e-8 * np.abs(expected).max())


def test_free_components_of_the_source_are_zero():
    """L1103: full pivoting, free components zero; arms after the first lose one each."""
    arms = 3
    rng = np.random.default_rng(arms)
    base = _pose(rng)
    poses = [stretched("wrist")] * arms + [BENT]
    model, q = arms_on_load(rng, poses, [*[base] * arms, _pose(rng)])
    q, v, tau = kicked(model, q, rng)
    shortest, found = star_of(model, q, v, tau), star_of(model, q, v, tau, redundant_forces="zero")
    size = np.abs(shortest.vd).max()
    np.testing.assert_allclose(found.vd, shortest.vd, atol=1e-9 * size)
    # the same joint forces, since the difference is felt by no joint
    J = dense_constraints(model, q).J
    missing = len(J) - np.linalg.matrix_rank(J, tol=1e-8)
    assert missing == arms - 1
    forces = np.array(found.multipliers)
    force = np.abs(shortest.multipliers).max()
    apart = forces - np.array(shortest.multipliers)
    assert np.abs(apart @ J).max() < 1e-8 * force
    assert np.abs(apart).max() > 1e-3 * force
    zero = forces.reshape(-1, 6) == 0.0
    assert zero[0].sum() == 0
    assert zero.sum() == missing


def test_free_components_are_zero_on_floats_as_in_kernels():
    rng = np.random.default_rng(2)
    base = _pose(rng)
    model, q = arms_on_load(rng, [stretched("wrist")] * 2, [base, base])
    state = kicked(model, q, rng)
    world = tb.World(gravity=GRAVITY)
    kernel = tb.loop_dynamics(model, *state, method="star", redundant_forces="zero", world=world)
    floats = star_of(model, *state, redundant_forces="zero")
    size = np.abs(kernel.constraint_force).max()
    np.testing.assert_allclose(floats.multipliers, kernel.constraint_force, atol=1e-8 * size)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"redundant_forces": "zero"}, "redundant_forces without method='star'"),
        ({"method": "augmented", "redundant_forces": "zero"}, "without method='star'"),
        ({"method": "star", "redundant_forces": "none"}, "shortest"),
    ],
)
def test_other_choices_of_forces_are_refused(change, named):
    model = tb.load("two_pumas")
    rest = np.zeros(model.nv)
    with pytest.raises(tb.OptionError, match=named):
        tb.loop_dynamics(model, model.poses["home"], rest, rest, **change)


def table_arm(rng, prefix, normal, point):
    """Return an arm of two slides in a plane and a ball: its tip cannot move along the normal."""
    first = np.cross(normal, (0.0, 0.0, 1.0))
    first /= np.linalg.norm(first)
    second = np.cross(normal, first)
    joints = [
        tb.Prismatic(f"{prefix} x", tuple(first), pose=tb.Pose(translation=point)),
        tb.Prismatic(f"{prefix} y", tuple(second)),
        tb.Spherical(f"{prefix} ball"),
    ]
    bodies, parent = [], "world"
    for k, joint in enumerate(joints):
        bodies.append(tb.Body(f"{prefix}_{k}", parent=parent, joint=joint, inertia=_inertia(rng)))
        parent = bodies[-1].name
    return bodies


@pytest.mark.parametrize("dependent", [True, False])
def test_three_dependent_directions_lose_one_rank(dependent):
    """L1269 names pairs; three forces through one point in one plane can sum to zero as well."""
    rng = np.random.default_rng(8)
    bodies = [tb.Body("load", joint=tb.Free("load joint"), inertia=_inertia(rng))]
    normals = [(np.cos(a), np.sin(a), 0.0) for a in (0.0, 2.1, 4.2)]
    if not dependent:
        normals[2] = (0.0, 0.6, 0.8)
    for k, normal in enumerate(normals):
        bodies += table_arm(rng, f"arm_{k + 1}", np.array(normal), (0.3, 0.2, 0.1))
    tree = tb.Model("three tables", bodies)
    q = tree.neutral()
    loops = [
        closed_at(tree, q, "load", f"arm_{k + 1}_2", tb.Fixed(f"grasp_{k + 1}")) for k in range(3)
    ]
    # all balls at one point: closed_at puts the weld elsewhere, which moves no force line
    model = tb.Model(tree.name, bodies, loops=loops)
    q, v, tau = kicked(model, q, rng)
    found = assert_as_dense(model, q, v, tau)
    assert found.rank == (17.0 if dependent else 18.0)
    assert len(names_of(model, found)) == 3


def test_planar_legs_under_a_free_platform_are_always_singular():
    """The planar 3-RRR with a platform that could move in space: s = 3, redundant constraints."""
    flat = tb.load("planar_3rrr")
    home = np.array(flat.poses["home"])
    tree = flat.without_loops()
    platform = next(body for body in flat.bodies if body.name == "platform")
    rotation, position = tb.forward_kinematics(flat, home, "platform")
    others = [body for body in flat.bodies if body.name != "platform"]
    # by name: q of the other joints, and the platform as a free body where it is
    free = tb.Body("platform", joint=tb.Free("float"), inertia=platform.inertia)
    corner = replace(platform.joint, name="corner_1")
    first = tb.LoopClosure("corner_1", platform.parent, "platform", corner)
    model = tb.Model("free platform", [*others, free], loops=[first, *flat.loops])
    assert tb.star(model).summary == "platform held by 3 arms of 2 joints, hinge grasps"
    q = model.neutral()
    for body in others:
        q[model.slice(body.joint.name)] = home[tree.slice(body.joint.name)]
    turn = np.array(matrix_to_rotation_vector(rotation.tolist()))
    angle = np.linalg.norm(turn)
    axis = turn * np.sin(angle / 2.0) / angle
    q[model.slice("float")] = [np.cos(angle / 2.0), *axis, *position]
    assert np.abs(dense_constraints(model, q).value).max() < 1e-12
    rng = np.random.default_rng(5)
    v_flat = allowed(flat, home, rng.standard_normal(flat.nv))
    tau_flat = rng.standard_normal(flat.nv)
    tau_flat[flat.slice(platform.joint.name, of="v")] = 0.0
    rates = tb.frame_velocity(flat, home, v_flat, "platform")
    v, tau = np.zeros(model.nv), np.zeros(model.nv)
    for body in others:
        own, old = model.slice(body.joint.name, of="v"), flat.slice(body.joint.name, of="v")
        v[own], tau[own] = v_flat[old], tau_flat[old]
    v[model.slice("float", of="v")] = [*(rotation.T @ rates[:3]), *(rotation.T @ rates[3:])]
    found = motion(model, q, v, tau, "star")
    expected = motion(flat, home, v_flat, tau_flat, "augmented")
    assert all(found.singular_arms)
    for body in others:
        own, old = model.slice(body.joint.name, of="v"), flat.slice(body.joint.name, of="v")
        np.testing.assert_allclose(found.vd[own], expected.vd[old], atol=1e-9)


@pytest.mark.parametrize("kind", ["wrist", "elbow"])
def test_the_branch_makes_no_jump(kind):
    """On both sides of the threshold the same state has the same acceleration to 1e-8."""
    rng = np.random.default_rng(21)
    joint = 4 if kind == "wrist" else 2
    model, q = arms_on_load(rng, [stretched(kind), BENT])
    tree = model.without_loops()
    seen = []
    for offset in (0.3, 0.03, 3e-3, 1e-3, 3e-4, 1e-4, 0.0):
        at = q.copy()
        at[7 + joint] += offset
        loops = [
            closed_at(tree, at, "load", f"arm_{k + 1}_6", tb.Fixed(f"grasp_{k + 1}"))
            for k in range(2)
        ]
        moved = tb.Model(tree.name, tree.bodies, loops=loops)
        state = kicked(moved, at, np.random.default_rng(2))
        branches = {limit: star_of(moved, *state, threshold=limit) for limit in (1e-30, 1.0)}
        usual = motion(moved, *state, "star")
        regular, singular = (np.array(branches[limit].vd) for limit in (1e-30, 1.0))
        assert any(branches[1.0].singular_arms)
        if not any(branches[1e-30].singular_arms):
            jump = np.abs(regular - singular).max() / np.abs(singular).max()
            seen.append((bool(usual.singular_arms[0]), jump))
        np.testing.assert_allclose(
            usual.vd, dense(moved, *state)[0], atol=1e-8 * np.abs(usual.vd).max()
        )
    # where the usual threshold takes the regular branch, it is as good as the other
    assert any(not is_singular for is_singular, _ in seen)
    assert any(is_singular for is_singular, _ in seen)
    assert max(jump for is_singular, jump in seen if not is_singular) < 1e-8


def fingers_on_load(rng):
    """Return a load in the balls of three 3R fingers, and a configuration with bent ones."""
    bodies = [tb.Body("load", joint=tb.Free("load joint"), inertia=_inertia(rng))]
    for k in range(3):
        angle = 2.0 * np.pi * k / 3.0
        base = tb.Pose.from_rpy((0.0, 0.0, angle), (np.cos(angle), np.sin(angle), 0.1 * k))
        parent = "world"
        for n, axis in enumerate([Z, Y, Y]):
            name = f"finger_{k + 1}_{n + 1}"
            offset = (0.5, 0.0, 0.0) if n == 2 else (0.0, 0.0, 0.0)
            bodies.append(_link(rng, name, parent, axis, offset, base if n == 0 else None))
            parent = name
    tree = tb.Model("fingers on a load", bodies)
    q = tree.neutral()
    q[7:] = np.array([0.3, -0.8, 0.9, 0.2, -0.7, 1.0, -0.3, -0.9, 0.8])
    loops = []
    for k in range(3):
        rotation, position = tb.forward_kinematics(tree, q, f"finger_{k + 1}_3")
        at = position + rotation @ np.array([0.45, 0.0, 0.0])
        ball = tb.Spherical(f"ball_{k + 1}", pose=tb.Pose(translation=at))
        tip = tb.Pose(translation=(0.45, 0.0, 0.0))
        loops.append(tb.LoopClosure(f"ball_{k + 1}", "load", f"finger_{k + 1}_3", ball, tip))
    return tb.Model(tree.name, bodies, loops=loops), q


def test_batches_mix_numbers_of_singular_arms_with_the_bits_of_single_calls():
    """Straight fingers: none, one, two and all three, in one batch and alone."""
    rng = np.random.default_rng(31)
    model, start = fingers_on_load(rng)
    straight = ((), (0,), (1, 2), (0, 1, 2), (2,))
    states = []
    for which in straight:
        hold = {f"finger_{k + 1}_3 joint": 0.0 for k in which}
        q = tb.assemble(model, start, hold=hold).q if which else start
        states.append(kicked(model, q, rng))
    q, v, tau = (np.stack(x) for x in zip(*states, strict=True))
    found = tb.loop_dynamics(model, q, v, tau, method="star")
    named = tuple(tuple(f"finger_{k + 1}" for k in which) for which in straight)
    assert found.singular_arms == named
    for k, state in enumerate(states):
        alone = tb.loop_dynamics(model, *state, method="star")
        for field in ("acceleration", "constraint_force", "rank", "ratio", "residual"):
            np.testing.assert_array_equal(getattr(alone, field), getattr(found, field)[k])
        assert alone.singular_arms == named[k]
        # the sources' earth; native code rounds otherwise than Python does
        exact = dense(model, *state, gravity=(0.0, 0.0, -9.81))[0]
        np.testing.assert_allclose(alone.acceleration, exact, atol=1e-8 * np.abs(exact).max())


def test_runs_pass_through_singular_arms_with_their_energy():
    """A finger stretches and bends to the other side; back in time it meets the same states."""
    model, start = fingers_on_load(np.random.default_rng(31))
    q = tb.assemble(model, start, hold={"finger_1_3 joint": 0.0}).q
    v = np.zeros(model.nv)
    v[model.slice("finger_1_3 joint", of="v")] = 3.0
    v = tb.project_velocity(model, q, v)
    space = tb.World(gravity=(0.0, 0.0, 0.0))
    half = tb.simulate(model, 0.05, q=q, v=v, world=space)
    run = tb.simulate(model, 0.1, q=half.q[-1], v=-half.v[-1], world=space)
    elbow = run.q[:, model.slice("finger_1_3 joint", of="q").start]
    assert elbow[0] > 0.05
    assert elbow[-1] < -0.05
    energy = tb.kinetic_energy(model.without_loops(), run.q, run.v)
    assert np.abs(energy / energy[0] - 1.0).max() < 1e-8
    assert np.abs(tb.constraint_residual(model, run.q)).max() < 1e-11
    middle = tb.loop_dynamics(model, run.q[5], run.v[5], np.zeros(model.nv), method="star")
    assert middle.singular_arms == ("finger_1",)
    np.testing.assert_allclose(run.q[5], q, atol=1e-9)
