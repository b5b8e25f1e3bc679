"""Parts of a star: the same bits in every grouping, sizes of messages, projections."""

import numpy as np
import pytest

import tiburon as tb
from tests.loops.dense import allowed
from tests.loops.random_stars import TREES, random_star
from tests.loops.test_methods import motion
from tests.loops.test_star_singular import fingers_on_load, kicked
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.surroundings import surroundings
from tiburon.algorithms.tape_calls import JointVector
from tiburon.loops import parts as rounds
from tiburon.loops import projection, star_dynamics
from tiburon.loops.constraints import constraints
from tiburon.loops.like_parts import like_parts
from tiburon.loops.methods import residual
from tiburon.loops.parts import message_size, part_function
from tiburon.loops.star import layout
from tiburon.trace import Input, trace
from tiburon.trace.array import as_traced
from tiburon.trace.structure import flatten


def _setting(model):
    plan, gravity, _ = surroundings(model, None)
    return Setting(model, (), (), plan, gravity)


def _messages(which, inline):
    """Return a function of a robot that computes what some arms send."""

    def messages(model, q, v, tau):
        shape = layout(model)
        arms = star_dynamics.star_parts(_setting(model), shape)
        states = star_dynamics.star_states(shape, list(q), list(v), list(tau))
        found = []
        for k in which:
            local = part_function(star_dynamics.open_arm, arms[k], inline=inline)
            message, _ = local(states[k], None)
            found += flatten(message)[0]
        return as_traced(found)

    return messages


def _accelerations(model, q, v, tau):
    around = _setting(model)
    return as_traced(list(star_dynamics.star_motion(around, list(q), list(v), list(tau)).vd))


def test_results_do_not_depend_on_who_computes_which_arm(monkeypatch):
    """All arms in one kernel, in pairs, alone, called or copied: the same bits on ten states."""
    rng = np.random.default_rng(31)
    model, q = fingers_on_load(rng)
    states = []
    for _ in range(10):
        near = model.integrate(q, 0.05 * rng.standard_normal(model.nv))
        states.append(kicked(model, near, rng))

    def results(function):
        kernel = tb.compile(function, model)
        return np.stack([kernel(*state) for state in states])

    together = results(_messages((0, 1, 2), True))
    size = together.shape[1] // 3
    for which, inline in [((0, 1), False), ((2,), False), ((1,), True), ((2, 0), True)]:
        apart = results(_messages(which, inline))
        for place, k in enumerate(which):
            np.testing.assert_array_equal(
                apart[:, place * size : (place + 1) * size],
                together[:, k * size : (k + 1) * size],
            )
    copied = results(_accelerations)
    monkeypatch.setattr(star_dynamics, "MAX_INLINED_VARIABLES", 0)

    def by_calls(model, q, v, tau):
        return _accelerations(model, q, v, tau)

    np.testing.assert_array_equal(results(by_calls), copied)


def test_arms_traced_into_one_graph_have_other_bits():
    """Why parts are functions: operands are ordered by what else is in the graph."""
    rng = np.random.default_rng(31)
    model, q = fingers_on_load(rng)
    state = kicked(model, q, rng)

    def loose(model, q, v, tau):
        shape = layout(model)
        arms = star_dynamics.star_parts(_setting(model), shape)
        states = star_dynamics.star_states(shape, list(q), list(v), list(tau))
        found = []
        for arm, own in zip(arms, states, strict=True):
            found += flatten(star_dynamics.open_arm(arm, own, None)[0])[0]
        return as_traced(found)

    together = tb.compile(_messages((0, 1, 2), True), model)(*state)
    traced = tb.compile(loose, model)(*state)
    np.testing.assert_allclose(traced, together, rtol=1e-9, atol=1e-12)
    assert np.any(traced != together)


def _sent(model, q):
    """Return the arms of a star and what each of them sends at rest."""
    rest = JointVector([0.0] * model.nv)
    shape = layout(model)
    around = Setting(model, (), (), model.plan, (0.0, 0.0, -9.81))
    arms = star_dynamics.star_parts(around, shape)
    states = star_dynamics.star_states(shape, JointVector([float(x) for x in q]), rest, rest)
    opened = [star_dynamics.open_arm(*given, None) for given in zip(arms, states, strict=True)]
    return shape.arms, [message for message, _ in opened]


@pytest.mark.parametrize(
    ("grasp", "directions"), [("rigid", 6), ("hinge", 5), ("slide", 5), ("ball", 3)]
)
def test_an_arm_sends_a_triangle_and_a_vector_of_what_its_grasp_resists(grasp, directions):
    """c(c+1)/2 + c for a grasp that resists c directions: 27, 20, 9."""
    model, q = random_star("free load", np.random.default_rng(directions), arms=3, grasp=grasp)
    c = len(model.loops[0].joint.loop_constraints())
    assert c == directions
    for arm, message in zip(*_sent(model, q), strict=True):
        assert arm.directions == c
        assert message_size((message.A, message.g)) == c * (c + 1) // 2 + c
        # and three values by which the center judges its condition
        assert message_size(message) == c * (c + 1) // 2 + c + 3


@pytest.mark.parametrize(("name", "size"), [("two_pumas", 27), ("stewart", 9), ("planar_3rrr", 5)])
def test_sizes_of_messages_of_the_zoo(name, size):
    """Rigid grasps, ball grasps, and hinges of which two directions are in the plane."""
    model = tb.load(name)
    for message in _sent(model, model.poses.get("home", model.neutral()))[1]:
        assert message_size((message.A, message.g)) == size


def test_a_universal_grasp_sends_one_direction_more_than_it_resists():
    """Its couple turns in a plane of the load: five directions for four constraints."""
    model, q = random_star("free load", np.random.default_rng(4), arms=2, grasp="soft finger")
    arms, messages = _sent(model, q)
    assert [len(arm.rows) for arm in arms] == [4, 4]
    assert [message_size((m.A, m.g)) for m in messages] == [20, 20]


def test_an_arm_on_the_reference_member_sends_what_its_variables_take():
    """Its own bodies act on all of them: d(d+1)/2 + d for d variables."""
    rng = np.random.default_rng(5)
    model, q = random_star("legs on the load", rng, arms=2, grasp="ball")
    for arm, message in zip(*_sent(model, q), strict=True):
        d = len(arm.border)
        assert message_size((message.A, message.g)) == d * (d + 1) // 2 + d


@pytest.mark.parametrize("grasp", ["hinge", "ball", "soft finger", "slide"])
def test_arms_hold_their_constraints_off_the_manifold(grasp):
    """The center completes messages with wrenches of closed grasps; arms keep their own rows."""
    rng = np.random.default_rng(9)
    model, q = random_star("free load", rng, arms=2, grasp=grasp)
    q = model.integrate(q, 1e-3 * rng.standard_normal(model.nv))
    v, tau = rng.standard_normal(model.nv), rng.standard_normal(model.nv)
    found, reference = (motion(model, q, v, tau, method) for method in ("star", "augmented"))
    size = np.abs(reference.vd).max()
    terms = constraints(model, model.plan, JointVector(q.tolist()), JointVector(v.tolist()))
    assert residual(terms, found.vd) < 1e-11 * size
    # forces act along the wrenches of the closed grasp, off by the residual of 1e-3
    assert np.abs(np.array(found.vd) - np.array(reference.vd)).max() < 0.1 * size


@pytest.mark.parametrize("tree", TREES)
def test_projection_by_arms_is_the_projection_of_the_whole(tree):
    rng = np.random.default_rng([2, TREES.index(tree)])
    model, q = random_star(tree, rng, arms=3)
    v = allowed(model, q, rng.standard_normal(model.nv))
    q = model.integrate(q, 1e-7 * rng.standard_normal(model.nv))
    v += 1e-7 * rng.standard_normal(model.nv)
    state = JointVector(q.tolist()), JointVector(v.tolist())
    failed, expected = projection._projected_once(model, model.plan, *state, 0.0)
    left, found = projection._projected_star(model, model.plan, *state, 0.0)
    assert not failed
    assert not left
    assert found[2] < 1e-12
    # one step of the same Newton iteration: corrections of 1e-7 agree to rounding
    np.testing.assert_allclose(found[0], expected[0], atol=1e-15)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-14)
    J = tb.loop_jacobian(model, np.array(found[0])) if tree == "free load" else None
    assert J is None or np.abs(J @ np.array(found[1])).max() < 1e-12


# -- like arms in lanes ---------------------------------------------------------------------------


def _groups(model):
    """Return the places of like arms."""

    def find(q, v, tau):
        shape = layout(model)
        arms = star_dynamics.star_parts(_setting(model), shape)
        states = star_dynamics.star_states(shape, list(q), list(v), list(tau))
        groups.extend(like_parts(arms, [flatten(state)[1] for state in states]))
        return q

    groups = []
    trace(find, [Input("q", (model.nq,)), Input("v", (model.nv,)), Input("tau", (model.nv,))])
    return [group.places for group in groups]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("four_pumas", [(0, 1, 2, 3)]),
        ("stewart", [(0, 1, 2, 3, 4, 5)]),
        ("delta", [(0, 1, 2)]),
        ("mobile_manipulators", [(0, 1, 2)]),
    ],
)
def test_arms_that_differ_in_numbers_alone_are_alike(name, expected):
    assert _groups(tb.load(name)) == expected


@pytest.mark.parametrize("seed", range(4))
def test_arms_of_other_joints_are_not_alike(seed):
    model, _ = random_star("free load", np.random.default_rng(seed), arms=5)
    joints = {joint.name: joint for joint in model.joints}
    grasps = [type(loop.joint) for loop in model.loops]
    kinds = [
        (grasp, *(type(joints[name]) for name in arm.joints))
        for grasp, arm in zip(grasps, tb.star(model).arms, strict=True)
    ]
    groups = _groups(model)
    assert sorted(k for group in groups for k in group) == [0, 1, 2, 3, 4]
    assert all(len({kinds[k] for k in group}) == 1 for group in groups)


@pytest.mark.parametrize("name", ["stewart", pytest.param("four_pumas", marks=pytest.mark.slow)])
def test_like_arms_in_lanes_have_the_bits_of_single_calls(name, monkeypatch):
    model = tb.load(name)
    rng = np.random.default_rng(5)
    q = np.array(model.poses["home"]) if "home" in model.poses else model.neutral()
    states = [kicked(model, q, rng) for _ in range(5)]

    def in_lanes(model, q, v, tau):
        return _accelerations(model, q, v, tau)

    def in_turn(model, q, v, tau):
        return _accelerations(model, q, v, tau)

    found = [tb.compile(in_lanes, model)(*state) for state in states]
    batch = tb.compile(in_lanes, model)(*[np.stack(x) for x in zip(*states, strict=True)])
    used = []

    def turns(call, sets):
        used.append(len(sets))
        return [call(*given) for given in sets]

    monkeypatch.setattr(rounds, "lanes", turns)
    single = tb.compile(in_turn, model)
    for state, here, row in zip(states, found, batch, strict=True):
        np.testing.assert_array_equal(single(*state), here)
        np.testing.assert_array_equal(row, here)
    assert used == [len(model.loops)] * 2
