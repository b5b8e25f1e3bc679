"""Stars: reference member and arms, against the augmented system and dense algebra."""

import numpy as np
import pytest

import tiburon as tb
from tests.interpreted import interpreting
from tests.loops.dense import allowed, closed, dense_constraints
from tests.loops.random_stars import GRASPS, TREES, closed_at, random_star
from tests.loops.test_methods import dense, dense_under, motion, setting
from tiburon.algorithms.kinematics import body_places
from tiburon.algorithms.tape_calls import JointVector
from tiburon.loops.constraints import loop_joint_load
from tiburon.loops.methods import cheaper_loop_method, constrained_motion

TOLERANCE = 1e-9
"""Between methods, relative: round-off over a squared ratio of singular values of 1e-3."""


def kicked(model, q, rng):
    return q, allowed(model, q, rng.standard_normal(model.nv)), rng.standard_normal(model.nv)


def assert_close(found, expected):
    scale = max(np.abs(expected).max(), 1e-3)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=TOLERANCE * scale)


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("tree", TREES)
def test_star_agrees_with_dense_algebra_on_random_stars(tree, number):
    """Arms of all joint kinds and lengths, all grasps, whatever tree the file has."""
    rng = np.random.default_rng([number, TREES.index(tree)])
    model, q = random_star(tree, rng)
    assert tb.star(model).is_star, tb.star(model).summary
    q, v, tau = kicked(model, q, rng)
    assert np.abs(dense_constraints(model, q).value).max() < 1e-12
    expected, forces, ratio, rank = dense(model, q, v, tau)
    assert ratio > 1e-4
    found = motion(model, q, v, tau, "star")
    assert_close(found.vd, expected)
    assert_close(found.multipliers, forces)
    assert found.rank == rank


@pytest.mark.parametrize("tree", TREES)
def test_star_in_water_with_external_forces_agrees_with_dense_algebra(tree):
    rng = np.random.default_rng([7, TREES.index(tree)])
    wet = tb.BodyFluid(
        volume=0.8e-3,
        added_mass=np.diag([0.02, 0.03, 0.04, 0.5, 0.8, 0.9]),
        center_of_buoyancy=(0.01, 0.0, 0.02),
    )
    model, q = random_star(tree, rng, arms=3, wet=wet)
    state = [JointVector(list(x)) for x in kicked(model, q, rng)]
    names = ("load", model.body_names[-1])
    options = (("external_force", names), ("external_axes", "world"))
    arrays = tuple(rng.standard_normal(6) for _ in names)
    world = tb.World(fluid=tb.Water(1025.0, (0.4, -0.2, 0.1)))
    around = setting(model, "star", world, options, arrays).at(*state[:2])
    expected, forces, ratio = dense_under(around, *state)
    assert ratio > 1e-4
    found = constrained_motion(around, *state)
    assert_close(found.vd, expected)
    assert_close(found.multipliers, forces)
    dry = setting(model, "star", tb.World(), (), ()).at(*state[:2])
    assert np.abs(np.subtract(constrained_motion(dry, *state).vd, found.vd)).max() > 1e-3


@pytest.mark.parametrize("name", [pytest.param("two_pumas", marks=pytest.mark.slow), "stewart"])
def test_star_agrees_with_augmented_in_the_zoo(name):
    model, rng = tb.load(name), np.random.default_rng(3)
    home = np.array(model.poses.get("home", model.neutral()))
    states = []
    for _ in range(3):
        near = model.integrate(home, 0.1 * rng.standard_normal(model.nv))
        states.append(kicked(model, closed(model, near), rng))
    q, v, tau = (np.stack(x) for x in zip(*states, strict=True))
    found = tb.loop_dynamics(model, q, v, tau, method="star")
    for k, state in enumerate(states):
        expected = motion(model, *state, "augmented", gravity=(0.0, 0.0, -9.81))
        assert_close(found.acceleration[k], np.array(expected.vd))
        assert_close(found.constraint_force[k], np.array(expected.multipliers))
        assert found.rank[k] == expected.rank
    assert np.all(found.residual < 1e-9)
    assert found.singular_arms == ((), (), ())
    # alone and in a batch: the same bits
    alone = tb.loop_dynamics(model, q[1], v[1], tau[1], method="star")
    np.testing.assert_array_equal(alone.acceleration, found.acceleration[1])
    np.testing.assert_array_equal(alone.constraint_force, found.constraint_force[1])
    assert alone.singular_arms == ()


@pytest.mark.parametrize("wet", [False, True])
def test_arms_on_a_floating_base_share_a_second_reference_member(wet):
    """Two arms of an underwater robot hold a bar: one system of twelve variables."""
    rng = np.random.default_rng(0)
    rov = tb.load("two_arm_rov")
    water = tb.BodyFluid(volume=3e-3, added_mass=np.diag([0.01, 0.2, 0.2, 0.5, 3.0, 3.0]))
    inertia = tb.Inertia(8.0, (0.0, 0.0, 0.0), (0.02, 0.0, 0.0, 0.9, 0.0, 0.9))
    bar = tb.Body("bar", joint=tb.Free("bar joint"), inertia=inertia, fluid=water)
    tree = tb.Model("robot with a bar", [*rov.bodies, bar])
    q = tree.integrate(tree.neutral(), 0.4 * rng.standard_normal(tree.nv))
    grips = [
        closed_at(tree, q, "bar", f"{side}_gripper", tb.Fixed(f"{side}_grip"))
        for side in ("left", "right")
    ]
    model = tb.Model(tree.name, tree.bodies, loops=grips)
    found = tb.star(model)
    assert found.summary == ("bar held by 2 arms of 8 joints, rigid grasps; arms stand on vehicle")
    assert found.carriers == ("base", "bar joint")
    state = [JointVector([float(y) for y in x]) for x in kicked(model, q, rng)]
    world = tb.World(fluid=tb.Water(1025.0, (0.4, -0.2, 0.1))) if wet else tb.World()
    around = setting(model, "star", world, (), ()).at(*state[:2])
    expected, forces, ratio = dense_under(around, *state)
    assert ratio > 1e-3
    answer = constrained_motion(around, *state)
    assert_close(answer.vd, expected)
    assert_close(answer.multipliers, forces)


@pytest.mark.parametrize("tree", ["free load", "load on a joint"])
def test_bad_stars_are_refused_by_name(tree):
    rng = np.random.default_rng(9)
    model, q = random_star(tree, rng, arms=3, grasp="rigid", dof=6)
    tips = [loop.second for loop in model.loops]
    across = closed_at(model.without_loops(), q, tips[0], model.body("arm_0_0").name, tb.Fixed("x"))
    held = closed_at(model.without_loops(), q, "world", "load", tb.Spherical("anchor"))
    tie = tb.JointCoupling("tie", "arm_0_tool joint", "arm_1_tool joint")
    cases = {
        "loop 'x' closes inside an arm": across,
        "loop 'anchor' holds the reference member without joints between": held,
    }
    if "arm_0_tool" in model.body_names and "arm_1_tool" in model.body_names:
        cases["loop 'tie' is a JointCoupling"] = tie
    for words, loop in cases.items():
        bad = tb.Model("bad", model.bodies, loops=[*model.loops, loop])
        assert words in tb.star(bad).summary
        rest = np.zeros(model.nv)
        with pytest.raises(tb.ModelError, match=r"use method='augmented'") as error:
            tb.forward_dynamics(bad, q, rest, rest, method="star")
        assert words in str(error.value)
        assert cheaper_loop_method(bad) != "star"


def test_summaries_name_reference_member_arms_and_grasps():
    assert tb.star(tb.load("four_pumas")).summary == "load held by 4 arms of 6 joints, rigid grasps"
    found = tb.star(tb.load("two_pumas"))
    assert [arm.name for arm in found.arms] == ["left", "right"]
    assert found.reference == ("bar",)
    assert found.arms[0].dof == found.arms[0].constraints == 6
    assert tb.star(tb.load("stewart")).summary == "platform held by 6 arms of 2 joints, ball grasps"
    assert tb.star(tb.load("delta")).summary == "platform held by 3 arms of 3 joints, ball grasps"


def test_what_is_no_star_is_named():
    walker = tb.load("strandbeest")
    found = tb.star(walker)
    assert not found.is_star
    assert "closes inside an arm" in found.summary
    state = np.array(walker.poses.get("home", walker.neutral())), *np.zeros((2, walker.nv))
    with pytest.raises(tb.ModelError, match=r"closes inside an arm; use method='augmented'"):
        tb.loop_dynamics(walker, *state, method="star")
    assert "no loops" in tb.star(tb.load("puma560")).summary


@interpreting()
def test_other_methods_tell_no_arms_apart():
    model = tb.load("two_pumas")
    state = np.array(model.poses["home"]), *np.zeros((2, model.nv))
    found = tb.loop_dynamics(model, *state, method="augmented")
    with pytest.raises(tb.ModelError, match="method='star'"):
        _ = found.singular_arms


@pytest.mark.parametrize("grasp", GRASPS)
def test_grasps_carry_no_force_along_their_free_directions(grasp):
    """Two arms on a load: the constraint forces of a grasp do no work on it (M-C2)."""
    rng = np.random.default_rng([5, list(GRASPS).index(grasp)])
    model, q = random_star("free load", rng, arms=2, grasp=grasp)
    q, v, tau = kicked(model, q, rng)
    forces = np.array(motion(model, q, v, tau, "star").multipliers)
    assert len(forces) == sum(len(loop.joint.loop_constraints()) for loop in model.loops)
    # they do no work together, and each grasp none on the motion that its joint allows
    J = dense_constraints(model, q).J
    assert abs(forces @ J @ v) < 1e-10 * np.abs(forces).max()
    places = body_places(model.plan, JointVector(q.tolist()))
    for number, loop in enumerate(model.loops):
        count = len(loop.joint.loop_constraints())
        own = forces[number * count : (number + 1) * count]
        wrench = np.array([*loop_joint_load(loop, model.plan, places, list(own)).wrench])
        assert np.abs(wrench).max() > 1e-3
        # the joint is at its neutral position; its subspace is fixed in its moving frame
        for column in loop.joint.subspace(loop.joint.neutral()):
            power = np.dot([*column.angular, *column.linear], wrench)
            assert abs(power) < 1e-10 * np.abs(wrench).max()


def test_loads_without_mass_are_refused_by_name():
    model, _ = random_star("free load", np.random.default_rng(9), arms=2, grasp="rigid", dof=6)
    bodies = [
        tb.Body("load", joint=tb.Free("load joint")) if body.name == "load" else body
        for body in model.bodies
    ]
    with pytest.raises(tb.ModelError, match="body 'load': mass must be positive"):
        tb.Model("massless load", bodies, loops=model.loops)
