"""Platforms on legs by DeNOC against the reference, the source's numbers and other formulations."""

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator
from tests.interpreted import interpreting
from tests.loops.dense import allowed, closed
from tests.loops.parallel_robots import carried_by_vehicles, on_moving_base, parallel_robot
from tests.loops.random_mechanisms import _inertia
from tests.loops.test_embedding import embedded_rates
from tests.loops.test_loop_motion import khan_angles
from tests.loops.test_stabilization import WEIGHTLESS, moving_state
from tests.native.test_c_source import needs_compiler, run_c
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.surroundings import surroundings
from tiburon.algorithms.tape_calls import JointVector
from tiburon.loops import denoc
from tiburon.loops.augmented import closed_configurations
from tiburon.loops.denoc import (
    LegState,
    LegTerms,
    Projected,
    forward_method,
    forward_states,
    inverse_method,
    kinematics_method,
    leg_parts,
    project,
    reverse_elimination,
)
from tiburon.loops.legs import legs_of, platform_on_legs
from tiburon.loops.methods import constrained_motion
from tiburon.loops.parts import exchanges, message_size, part_function
from tiburon.trace.array import as_traced
from tiburon.trace.structure import flatten

SEA = tb.World(fluid=tb.Water(1025.0, current=(0.2, -0.1, 0.1)))


def rates_by(method, model, q, v, tau, world=None):
    """Return the constrained motion by a method, on floats."""
    q, v, tau = (JointVector([float(x) for x in values]) for values in (q, v, tau))
    around = tb.System(model, world).setting(q, v, 0.0)
    return constrained_motion(around._replace(options=(("method", method),)), q, v, tau)


def drawn(seed, legs, planar, **options):
    rng = np.random.default_rng(seed)
    model, q = parallel_robot(rng, legs, planar, **options)
    q = np.array(closed(model, q, 5))
    v = allowed(model, q, rng.normal(size=model.nv))
    return model, q, v, rng.normal(size=model.nv)


# -- agreement -------------------------------------------------------------------------------------

ROBOTS = [
    (0, 2, True, {"carried": "free", "branches": True, "motors": 0}),
    (1, 3, False, {"carried": "free", "branches": True, "motors": 3}),
    (2, 4, True, {"motors": 0}),
    pytest.param(3, 5, True, {}, marks=pytest.mark.slow),
    (4, 6, True, {"carried": "free", "branches": True, "motors": 2}),
    pytest.param(9, 6, False, {"carried": "free", "motors": 0}, marks=pytest.mark.slow),
    pytest.param(11, 3, False, {"branches": True}, marks=pytest.mark.slow),
    (24, 6, False, {"branches": True, "motors": 0}),
    pytest.param(30, 2, False, {"branches": True}, marks=pytest.mark.slow),
    # legs of different lengths with screws, planar joints and rotors
    (101, 2, False, {"branches": True, "motors": 2, "varied": True}),
    (103, 3, True, {"carried": "free", "varied": True}),
    (124, 3, False, {"carried": "free", "varied": True}),
    pytest.param(129, 4, False, {"motors": 0, "varied": True}, marks=pytest.mark.slow),
    # motors near a singular configuration: with K^-1 alone accelerations are off by 2e-8
    (202, 2, False, {"carried": "free", "branches": True, "motors": 1}),
]


@pytest.mark.parametrize(("seed", "legs", "planar", "options"), ROBOTS)
def test_all_formulations_agree_on_random_robots(seed, legs, planar, options):
    """Reference, handles, star, embedding and DeNOC; on land or in water."""
    model, q, v, tau = drawn(seed, legs, planar, wet=True, **options)
    for world in (None, SEA) if legs < 4 else (SEA,):
        expected = rates_by("augmented", model, q, v, tau, world)
        # poorly conditioned robots are no evidence
        assert expected.ratio > 1e-3
        vd = np.array(expected.vd, float)
        close = {"atol": 1e-9 * np.abs(vd).max()}
        found = rates_by("denoc", model, q, v, tau, world)
        np.testing.assert_allclose(np.array(found.vd, float), vd, **close)
        forces = np.array(expected.multipliers, float)
        np.testing.assert_allclose(
            np.array(found.multipliers, float), forces, atol=1e-8 * (1.0 + np.abs(forces).max())
        )
        assert found.rank == expected.rank
        # legs that are cut in the middle are no arms of a star
        for method in ("handles",) if tb.star(model).reason else ("handles", "star"):
            other = rates_by(method, model, q, v, tau, world)
            np.testing.assert_allclose(np.array(other.vd, float), vd, **close)
        embedded, _ = embedded_rates(model, tb.Embedding("qr"), q, v, tau, world)
        np.testing.assert_allclose(embedded, vd, **close)


def assert_agrees(model, q, seed, world=None):
    """Compare motors, and joints selected in the state, with the reference."""
    rng = np.random.default_rng(seed)
    v, tau = allowed(model, q, rng.normal(size=model.nv)), rng.normal(size=model.nv)
    expected = rates_by("augmented", model, q, v, tau, world)
    assert expected.ratio > 1e-3
    vd = np.array(expected.vd, float)
    for ratio in (denoc.DOUBTFUL_RATIO, 2.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(denoc, "DOUBTFUL_RATIO", ratio)
            found = rates_by("denoc", model, q, v, tau, world)
        np.testing.assert_allclose(np.array(found.vd, float), vd, atol=1e-9 * np.abs(vd).max())
        assert found.rank == expected.rank


@pytest.mark.parametrize(
    ("seed", "legs", "planar", "options"), [ROBOTS[0], ROBOTS[2], ROBOTS[9], ROBOTS[10]]
)
def test_any_independent_joints_give_the_same_accelerations(seed, legs, planar, options):
    """All joints of legs and of the platform may be independent, selected in each state."""
    model, q, _, _ = drawn(seed, legs, planar, wet=True, **options)
    assert_agrees(model, q, seed, SEA)


@pytest.mark.parametrize(
    "joint",
    [tb.Free("hull"), tb.Revolute("hull", (0.36, 0.48, 0.8)), tb.Prismatic("hull", (1, 0, 0))],
    ids=["free", "hinge", "slide"],
)
@pytest.mark.parametrize(
    ("seed", "legs", "planar", "options"),
    [
        (0, 3, True, {}),
        (2, 4, False, {"carried": "free", "branches": True}),
        (3, 3, True, {"carried": "free", "branches": True}),
        (101, 2, False, {"branches": True, "motors": 2, "varied": True}),
    ],
)
def test_legs_on_moving_bases_agree_with_the_reference(joint, seed, legs, planar, options):
    """A hull that floats, turns or slides under the legs; the platform hangs on it or floats."""
    robot, q, _, _ = drawn(seed, legs, planar, wet=True, **options)
    model, start = on_moving_base(robot, q, joint, seed)
    structure = platform_on_legs(model)
    assert model.plan.bodies[structure.base].name == "hull"
    assert len(structure.moving) == joint.nv
    assert_agrees(model, start, seed, SEA)


@pytest.mark.parametrize("is_held", [True, False])
def test_floating_vehicles_are_legs(is_held):
    """Their free joints close the loops: each has six degrees of freedom of a leg."""
    model, q = carried_by_vehicles(4, 3, is_held=is_held)
    assert [leg.joints[0] for leg in platform_on_legs(model).legs[:3]] == [
        "hull0",
        "hull1",
        "hull2",
    ]
    assert_agrees(model, q, 1)


@pytest.mark.parametrize(
    "name",
    [
        "planar_3rrr",
        "five_bar",
        pytest.param("stewart", marks=pytest.mark.slow),
        pytest.param("two_pumas", marks=pytest.mark.slow),
    ],
)
def test_zoo_robots_agree_with_the_reference(name):
    """Native kernels; motors at the base, in the middle of legs, and in all joints."""
    model = tb.load(name)
    q, v = moving_state(model)
    tau = np.random.default_rng(5).normal(size=model.nv)
    expected = tb.loop_dynamics(model, q, v, tau, method="augmented")
    found = tb.loop_dynamics(model, q, v, tau, method="denoc")
    scale = np.abs(expected.acceleration).max()
    np.testing.assert_allclose(found.acceleration, expected.acceleration, atol=1e-9 * scale)
    scale = np.abs(expected.constraint_force).max()
    np.testing.assert_allclose(found.constraint_force, expected.constraint_force, atol=1e-8 * scale)
    assert found.residual < 1e-9 * (1.0 + np.abs(found.acceleration).max())


def test_batches_have_the_bits_of_single_cases():
    model = tb.load("planar_3rrr")
    q, v = moving_state(model)
    tau = np.random.default_rng(1).normal(size=(5, model.nv))
    many = tb.loop_dynamics(model, q, v, tau, method="denoc").acceleration
    for k in range(5):
        one = tb.loop_dynamics(model, q, v, tau[k], method="denoc").acceleration
        assert np.array_equal(many[k], one)


def pinned_platform():
    """Return a platform on a ball of the world, held by two legs of two joints each."""
    rng = np.random.default_rng(12)
    bodies = [tb.Body("platform", joint=tb.Free("float"), inertia=_inertia(rng))]
    loops = [tb.LoopClosure("pivot", "world", "platform", tb.Spherical("pivot"), tb.Pose())]
    for k, side in enumerate((1.0, -1.0)):
        foot = tb.Pose(translation=(side, 0.3 * k, -0.5))
        crank = tb.Revolute(f"crank_{k}", (0.0, 1.0, 0.0), pose=foot)
        rod = tb.Universal(
            f"rod_{k}", (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), pose=tb.Pose(translation=(0.4, 0.0, 0.2))
        )
        bodies.append(tb.Body(f"crank_{k}", joint=crank, inertia=_inertia(rng)))
        bodies.append(tb.Body(f"rod_{k}", parent=f"crank_{k}", joint=rod, inertia=_inertia(rng)))
        tip = tb.Spherical(f"tip_{k}", pose=tb.Pose(translation=(-0.3, 0.2, 0.4)))
        at = np.add(foot.translation, (0.1, 0.2, 0.6))
        loops.append(
            tb.LoopClosure(f"tip_{k}", f"rod_{k}", "platform", tip, tb.Pose(translation=at))
        )
    motors = [tb.Actuator(f"motor_{k}", f"crank_{k}") for k in range(2)]
    return tb.Model("pinned", bodies, loops=loops, actuators=motors)


def test_a_leg_without_joints_is_the_joint_that_closes_it():
    """A platform on a pivot of the world: one leg is the pivot alone."""
    model = pinned_platform()
    legs = platform_on_legs(model).legs
    assert [leg.variables for leg in legs if leg.joints == ("pivot",)] == [()]
    rng = np.random.default_rng(2)
    q = model.neutral()
    v, tau = allowed(model, q, rng.normal(size=model.nv)), rng.normal(size=model.nv)
    expected = np.array(rates_by("augmented", model, q, v, tau).vd, float)
    found = np.array(rates_by("denoc", model, q, v, tau).vd, float)
    np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


# -- numbers of the source (digest of Khan 2002, section 3.3) --------------------------------------

TORQUES = {
    0.0: (-1.4186165879, -20.7072327410, 44.2761921876),
    1.5: (-18.4426202073, -16.4788719218, 50.9683435485),
    3.0: (-21.3159155634, -12.5447133577, 60.5089643521),
}
INERTIA = [
    [1.2458306753, -0.4144538412, -0.3832866230],
    [-0.4144538412, 1.2225031357, 0.1577943187],
    [-0.3832866230, 0.1577943187, 1.5272079732],
]
GOLDEN = 1e-9
"""Ten digits are given."""


def khan_motion(t):
    model = tb.load("planar_3rrr")
    q = model.poses["home"]
    for now in np.arange(0.25, t, 0.25):
        q = tb.loop_motion(model, q, khan_angles(now)[0]).q
    return model, tb.loop_motion(model, q, *khan_angles(t))


@pytest.mark.parametrize("t", list(TORQUES))
def test_torques_of_khan(t):
    """K-G35: inverse dynamics of his motion."""
    model, motion = khan_motion(t)
    tau = tb.loop_inverse_dynamics(model, motion.q, motion.v, motion.vd, method="denoc").tau
    np.testing.assert_allclose(tau[:3], TORQUES[t], atol=GOLDEN)


@interpreting()
def test_inertia_that_motors_see_in_khans_robot():
    """K-G37: from torques of unit accelerations of the motors at rest, without gravity."""
    model, motion = khan_motion(0.0)
    G = []
    for unit in np.eye(3):
        moved = tb.loop_motion(model, motion.q, acceleration=unit)
        forces = tb.loop_inverse_dynamics(
            model, moved.q, moved.v, moved.vd, method="denoc", world=WEIGHTLESS
        )
        G.append(forces.tau[:3])
    np.testing.assert_allclose(G, INERTIA, atol=GOLDEN)


def test_drop_of_khans_robot():
    """K-G39: accelerations of the motors from rest without torque."""
    model = tb.load("planar_3rrr")
    rest = np.zeros(model.nv)
    vd = tb.loop_dynamics(model, model.poses["home"], rest, rest, method="denoc").acceleration
    expected = (-1.777660559184, 20.407554563218, -31.546287547439)
    np.testing.assert_allclose(vd[:3], expected, atol=1e-9)


# -- corrections -----------------------------------------------------------------------------------


def leg_state(turn=0.3):
    """A leg of three hinges in the plane: screws about the platform's center, outermost first."""
    points = np.array([[0.2, 0.1], [0.7, -0.3], [1.1, 0.4]]) @ np.array(
        [[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]
    )
    S = [[1.0, y, -x] for x, y in points]
    leg = platform_on_legs(tb.load("planar_3rrr")).legs[0]
    # the driven joint is the innermost, and comes first
    return leg, LegTerms([S[2], S[0], S[1]], [], [], [], [], [0.5])


def test_c7_passive_screws_are_projected_one_after_the_other():
    """With p~2 = B p2 in place of Phi3 B p2, as printed in L835, Phi2 is no projector."""
    leg, own = leg_state()
    found: Projected = project(leg, own, 3)
    Phi, S = np.array(found.Phi, float), np.array(own.S)
    np.testing.assert_allclose(Phi @ Phi, Phi, atol=1e-14)
    np.testing.assert_allclose(Phi @ S[1:].T, 0.0, atol=1e-14)
    first = np.eye(3) - np.outer(S[1], S[1]) / (S[1] @ S[1])
    printed = first - np.outer(S[2], S[2]) / (S[2] @ S[2])
    assert np.abs(printed @ printed - printed).max() > 0.1


def test_passive_rates_are_found_by_back_substitution():
    """P inverts the passive screws, whatever twist lies in their span."""
    leg, own = leg_state()
    found = project(leg, own, 3)
    S = np.array(own.S)[1:]
    rates = np.array([0.7, -1.3])
    np.testing.assert_allclose(np.array(found.P, float) @ (S.T @ rates), rates, atol=1e-14)


def test_c8_external_wrenches_are_subtracted():
    """With the printed sign of the weight, torques are off by 89 to 121 N m."""
    model, motion = khan_motion(0.0)
    tau = tb.loop_inverse_dynamics(model, motion.q, motion.v, motion.vd, method="denoc").tau[:3]
    up = tb.World(gravity=(0.0, 0.0, 9.81))
    wrong = tb.loop_inverse_dynamics(
        model, motion.q, motion.v, motion.vd, method="denoc", world=up
    ).tau[:3]
    # at rest the sign of the weight is that of all torques
    np.testing.assert_allclose(wrong, -tau, atol=1e-9)
    assert np.abs(wrong - tau).max() > 80.0


def test_c9_and_c13_accelerations_have_all_their_terms():
    """Rates of rates: velocities by differences along the motion, of all joints."""
    model = tb.load("planar_3rrr")
    near = khan_motion(0.75)[1].q
    h, t = 1e-4, 0.8
    v = [tb.loop_motion(model, near, *khan_angles(t + k * h)).v for k in (-1, 1)]
    motion = tb.loop_motion(model, near, *khan_angles(t))
    np.testing.assert_allclose(motion.vd, (v[1] - v[0]) / (2.0 * h), atol=1e-6)
    tau = tb.loop_inverse_dynamics(model, motion.q, motion.v, motion.vd, method="denoc").tau
    found = tb.loop_dynamics(model, motion.q, motion.v, tau, method="denoc").acceleration
    np.testing.assert_allclose(found, motion.vd, atol=1e-9)


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_c10_reverse_elimination_equals_the_dense_solution(size):
    """K-G38: also where alpha_1 needs the term that is missing in L1078."""
    rng = np.random.default_rng(size)
    A = rng.normal(size=(size, size))
    G, right = A @ A.T + 0.1 * np.eye(size), rng.normal(size=size)
    found = reverse_elimination(G.tolist(), right.tolist())
    np.testing.assert_allclose(found, np.linalg.solve(G, right), rtol=1e-10)


def test_c15_and_c16_every_leg_moves_the_platform():
    """Without one leg's term the twist of the platform would not depend on its motor."""
    model = tb.load("planar_3rrr")
    q = model.poses["home"]
    still = tb.loop_motion(model, q, velocity=[0.0, 0.0, 0.0]).v
    assert np.abs(still).max() == 0.0
    for motor in range(3):
        rates = tb.loop_motion(model, q, velocity=np.eye(3)[motor]).v
        assert np.abs(rates[3:]).min() > 1e-2


# -- inverse dynamics ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["planar_3rrr", pytest.param("stewart", marks=pytest.mark.slow)])
def test_shares_of_the_platform_change_no_torques(name):
    """K-G29: any cut of the platform gives the torques of the reference."""
    model = tb.load(name)
    q, v = moving_state(model)
    tau = model.actuated(np.random.default_rng(2).normal(size=len(model.actuated_joint_names)))
    vd = tb.forward_dynamics(model, q, v, tau)
    leg = model.actuated_joint_names[0]
    for shares in (None, {leg: 40.0}, "condition"):
        found = tb.loop_inverse_dynamics(model, q, v, vd, method="denoc", shares=shares)
        np.testing.assert_allclose(found.tau, tau, atol=1e-9 * (1.0 + np.abs(tau).max()))


@pytest.mark.parametrize("has_base_motor", [True, False])
@interpreting()
def test_forces_on_a_moving_base_are_those_that_make_the_motion(has_base_motor):
    """A base without motor needs no force in free motion; one with motor gets the force given."""
    robot, q, _, _ = drawn(2, 4, False, carried="free", branches=True)
    model, start = on_moving_base(robot, q, tb.Free("hull"), 2)
    structure = platform_on_legs(model)
    driven = [i for i in structure.independent if has_base_motor or i not in structure.moving]
    names = [
        j.name for j in model.joints if {*range(model.nv)[model.slice(j.name, of="v")]} & {*driven}
    ]
    rng = np.random.default_rng(6)
    tau = np.zeros(model.nv)
    tau[driven] = rng.normal(size=len(driven))
    v = allowed(model, start, rng.normal(size=model.nv))
    vd = np.array(rates_by("augmented", model, start, v, tau).vd, float)
    found = tb.loop_inverse_dynamics(model, start, v, vd, actuators=names, method="denoc").tau
    np.testing.assert_allclose(found, tau, atol=1e-9 * (1.0 + np.abs(vd).max()))
    if not has_base_motor:
        pushed = np.array(rates_by("augmented", model, start, v, tau + np.eye(model.nv)[0]).vd)
        with pytest.raises(tb.DomainError, match="actuators that hold"):
            tb.loop_inverse_dynamics(model, start, v, pushed, actuators=names, method="denoc")


@interpreting()
def test_legs_of_which_all_joints_are_driven_carry_their_shares():
    """K-G34, K-G40: two arms on a bar; each alone holds its own links and its part of the bar."""
    model = tb.load("two_pumas")
    q, v = moving_state(model)
    vd = tb.forward_dynamics(model, q, v, np.zeros(model.nv))
    tau = {}
    for weight in (1.0, 3.0, 1e9):
        found = tb.loop_inverse_dynamics(
            model, q, v, vd, method="denoc", shares={"left_joint_1": weight}
        ).tau
        # all distributions make the same motion
        np.testing.assert_allclose(
            tb.forward_dynamics(model, q, v, found), vd, atol=1e-9 * (1.0 + np.abs(vd).max())
        )
        tau[weight] = found
    # torques are linear in the share of the bar: 1/2, 3/4, 1
    np.testing.assert_allclose(
        tau[3.0], 0.5 * (tau[1.0] + tau[1e9]), atol=1e-6 * np.abs(tau[1.0]).max()
    )
    # an arm without load moves as a tree
    tree = model.without_loops()
    alone = tb.inverse_dynamics(tree, q, v, vd)
    right = model.indices([f"right_joint_{k}" for k in range(1, 7)], of="v")
    np.testing.assert_allclose(tau[1e9][right], alone[right], atol=1e-6)


def test_motors_that_do_not_hold_the_platform_are_refused():
    model = tb.load("planar_3rrr")
    q, v = moving_state(model)
    vd = tb.forward_dynamics(model, q, v, np.zeros(model.nv))
    with pytest.raises(tb.DomainError, match="hold the platform"):
        tb.loop_inverse_dynamics(model, q, v, vd, method="denoc", actuators=("theta_1", "theta_2"))
    with pytest.raises(tb.DomainError, match="keep loops closed"):
        tb.loop_inverse_dynamics(model, q, v, vd + 1.0, method="denoc")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"method": "star"}, "denoc"),
        ({"shares": {"theta_1": 2.0}}, "shares without"),
        ({"method": "denoc", "shares": {"elbow": 2.0}}, "elbow"),
        ({"method": "denoc", "shares": {"theta_1": -2.0}}, r"shares\['theta_1'\]"),
        ({"method": "denoc", "shares": 3.0}, "shares"),
    ],
)
def test_wrong_options_of_inverse_dynamics_are_named(change, named):
    model = tb.load("planar_3rrr")
    q = model.poses["home"]
    rest = np.zeros(model.nv)
    with pytest.raises(tb.TiburonError, match=named):
        tb.loop_inverse_dynamics(model, q, rest, rest, **change)


# -- messages --------------------------------------------------------------------------------------


def forward_messages(model):
    """Return degrees of freedom of the platform, motors of each leg, and sizes of messages."""
    structure = platform_on_legs(model)
    q, v = moving_state(model)
    q, v, tau = (JointVector([float(x) for x in values]) for values in (q, v, np.ones(model.nv)))
    around = Setting(model, (), (), model.plan, (0.0, 0.0, -9.81))
    parts = leg_parts(around, structure)
    given = forward_states(around, structure, parts, q, v, tau)
    motors = [len(leg.driven) for leg in structure.legs]
    return len(structure.basis), motors, exchanges(forward_method(structure, parts), *given)


def test_messages_of_the_planar_robot_have_the_sizes_of_the_table():
    """Kinematics 9, inverse 6 + 3; forward 9, 3, 3, and 6 + 1 (Khan 2002 sends 45)."""
    model = tb.load("planar_3rrr")
    structure = platform_on_legs(model)
    around = Setting(model, (), (), model.plan, (0.0, 0.0, -9.81))
    q, v = moving_state(model)
    for part in leg_parts(around, structure):
        own_q, own_v = (
            JointVector([float(x[i]) for i in of]) for x, of in ((q, part.part.q), (v, part.part.v))
        )
        rates = [0.1] * len(part.variables)
        state = LegState(own_q, own_v, rates, [0.0] * len(part.live), [])
        # projectors come with one condition
        round_of = kinematics_method(structure, (part,)).rounds[0]
        assert message_size(round_of.local(part, state, None)[0]) == 9 + 1
        moving = state._replace(given=own_v)
        round_of = inverse_method(structure, (part,)).rounds[0]
        assert message_size(round_of.local(part, moving, None)[0]) == 9 + 1
    _, _, rounds = forward_messages(model)
    assert [step.sent for step in rounds] == [(9 + 1,) * 3, (3,) * 3, (3,) * 3, (6 + 1,) * 3]
    assert [step.received for step in rounds] == [(9,) * 3, (3,) * 3, (3,) * 3, (3,) * 3]


@pytest.mark.parametrize("name", ["four_bar", "stewart"])
@interpreting()
def test_messages_of_platforms_on_legs_have_their_general_sizes(name):
    """d(d+1)/2 and d for each motor of a leg; d; d; n(n+1)/2 for n motors and one for each own."""
    d, motors, rounds = forward_messages(tb.load(name))
    n = sum(motors)
    expected = [
        [d * (d + 1) // 2 + d * own + 1 for own in motors],
        [d] * len(motors),
        [d] * len(motors),
        [n * (n + 1) // 2 + own for own in motors],
    ]
    assert [list(step.sent) for step in rounds] == expected
    assert [step.received[0] for step in rounds] == [d * n, d, d, n]


# -- grouping --------------------------------------------------------------------------------------


def leg_messages(which, inline):
    """Return a function of a robot that computes what some legs send first."""

    def messages(model, q, v, tau):
        plan, gravity, _ = surroundings(model, None)
        around, structure = Setting(model, (), (), plan, gravity), platform_on_legs(model)
        parts = leg_parts(around, structure)
        _, states = forward_states(around, structure, parts, list(q), list(v), list(tau))
        (reach, *_), found = forward_method(structure, parts).rounds, []
        for k in which:
            local = part_function(reach.local, parts[k], inline=inline)
            found += flatten(local(states[k], None)[0])[0]
        return as_traced(found)

    return messages


def test_results_do_not_depend_on_who_computes_which_leg(monkeypatch):
    """All legs in one kernel, in pairs, alone, called or copied: the same bits on ten states."""
    model = tb.load("planar_3rrr")
    rng = np.random.default_rng(4)
    near, _ = moving_state(model)
    states = []
    for _ in range(10):
        q = np.array(closed(model, near + 0.1 * rng.standard_normal(model.nq), 8))
        states.append((q, allowed(model, q, rng.normal(size=model.nv)), rng.normal(size=model.nv)))

    def results(function):
        kernel = tb.compile(function, model)
        return np.stack([kernel(*state) for state in states])

    together = results(leg_messages((0, 1, 2), True))
    size = together.shape[1] // 3
    for which, inline in [((0, 1), False), ((2,), False), ((1,), True), ((2, 0), True)]:
        apart = results(leg_messages(which, inline))
        for place, k in enumerate(which):
            np.testing.assert_array_equal(
                apart[:, place * size : (place + 1) * size],
                together[:, k * size : (k + 1) * size],
            )

    def accelerations(model, q, v, tau):
        return tb.loop_dynamics(model, q, v, tau, method="denoc").acceleration

    copied = results(accelerations)
    monkeypatch.setattr(denoc, "MAX_INLINED_VARIABLES", 0)

    def by_calls(model, q, v, tau):
        return accelerations(model, q, v, tau)

    np.testing.assert_array_equal(results(by_calls), copied)


def test_a_leg_knows_its_own_bodies_and_what_carries_the_platform():
    """Nothing of a leg is computed over the whole robot: its plan lacks the other legs."""
    model = tb.load("planar_3rrr")
    structure = platform_on_legs(model)
    around = Setting(model, (), (), model.plan, (0.0, 0.0, -9.81))
    names = [{body.name for body in one.part.plan.bodies} for one in leg_parts(around, structure)]
    carried = {"proximal_1", "distal_1", "platform"}
    assert names == [
        carried,
        carried | {"proximal_2", "distal_2"},
        carried | {"proximal_3", "distal_3"},
    ]
    heavy = [
        {b.name for b in one.part.plan.bodies if b.inertia.mass}
        for one in leg_parts(around, structure)
    ]
    assert heavy == [{f"proximal_{k}", f"distal_{k}"} for k in (1, 2, 3)]


# -- runs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["minimal", "extended"])
def test_runs_follow_projection(state):
    """K-G39: both states of the source, the extended one stabilized."""
    model = tb.load("planar_3rrr")
    q, v = moving_state(model)
    exact = tb.simulate(model, 0.2, q=q, v=v, method=tb.RK4(dt=2e-4))
    run = tb.simulate(model, 0.2, q=q, v=v, method=tb.RK4(dt=1e-3), loops=tb.DeNOC(state))
    # RK4 at 1 ms
    np.testing.assert_allclose(run.q, exact.q, atol=1e-8)
    residual = np.abs(tb.constraint_residual(model, run.q)).max()
    assert residual < (1e-11 if state == "minimal" else 1e-8)


def test_residuals_of_the_extended_state_decay():
    """The stabilization that the author lacked: c0 exp(-sigma t) from an open start."""
    model = tb.load("four_bar")
    q, v = moving_state(model)
    q = q + 1e-3 * np.random.default_rng(8).normal(size=model.nv)
    c0 = np.array(tb.constraint_residual(model, q))
    method = tb.DeNOC("extended", decay=12.0)
    run = tb.simulate(model, 0.2, q=q, v=v, method=tb.RK4(dt=5e-4), world=WEIGHTLESS, loops=method)
    c = np.array(tb.constraint_residual(model, run.q))
    np.testing.assert_allclose(c, c0 * np.exp(-12.0 * run.time)[:, None], atol=1e-9)


def test_minimal_states_keep_energy_with_other_integrators():
    model = tb.load("four_bar")
    q, v = moving_state(model)
    how = {"q": q, "v": v, "world": WEIGHTLESS, "loops": tb.DeNOC("minimal")}
    for method, accuracy in (("b1pc5", 1e-8), ("dopri5", 1e-4)):
        run = tb.simulate(model, 0.3, method=integrator(method), **how)
        energy = tb.kinetic_energy(model, run.q, run.v)
        np.testing.assert_allclose(energy, energy[0], rtol=accuracy)
        assert np.abs(tb.constraint_residual(model, run.q)).max() < 1e-11


def test_resumed_and_batched_runs_have_the_same_bits(tmp_path):
    model = tb.load("four_bar")
    q, v = moving_state(model)
    method = tb.DeNOC("minimal", platform="coupler")
    whole = tb.simulate(model, 0.1, q=q, v=v, loops=method)
    batch = tb.simulate(model, 0.1, q=[q, q], v=[v, 0.5 * v], loops=method)
    assert np.array_equal(batch.q[:, 0], whole.q)
    half = tb.simulate(model, 0.05, q=q, v=v, loops=method)
    half.save(tmp_path / "half.zarr")
    resumed = tb.load_run(tmp_path / "half.zarr").resume(0.05)
    assert np.array_equal(resumed.q[-1], whole.q[-1])


@pytest.mark.parametrize("state", ["minimal", "extended"])
def test_runs_select_other_joints_where_motors_lose_the_platform(state):
    """The drop of Khan's robot leads through a configuration that is singular for its motors."""
    model = tb.load("planar_3rrr")
    exact = tb.simulate(model, 1.0, method=tb.RK4(dt=2e-4))
    run = tb.simulate(model, 1.0, method=tb.RK4(dt=1e-3), loops=tb.DeNOC(state))
    assert run.outcome.status == "finished"
    first = run.events[0]
    assert first.name == "loop coordinates"
    # well before the configuration, which is met at 0.4833 s
    assert 0.2 < first.time < 0.47
    # RK4 at 1 ms, in coordinates of which a third of the condition is lost
    np.testing.assert_allclose(run.q[-1], exact.q[-1], atol=1e-5)
    residual = np.abs(tb.constraint_residual(model, run.q)).max()
    assert residual < (1e-11 if state == "minimal" else 1e-7)


FREE_RUNS = {
    "planar_3rrr": 1e-4,
    "stewart": 2e-2,
    "mobile_manipulators": 1e-3,
    "five_bar": 1e-5,
    "andrews_squeezer": 1e-9,
    "kerr_roth_grasp": 1e-5,
    "n_four_bar_2": 1e-6,
    "two_finger_hand": 1e-2,
    "planar_walker": 2e-2,
    "bricard": 1e-9,
    "four_bar": 1e-8,
    "stewart on a hull": 1e-8,
}
"""Change of energy over the largest kinetic energy: ten times that of RK4 at 1 ms, or twice where a
fast passage near a singular configuration decides it."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FREE_RUNS)
def test_free_runs_finish(name):
    """Kicked robots fall for 3 s through configurations that are singular for their motors."""
    model = tb.load(name.partition(" ")[0])
    rng = np.random.default_rng(sum(map(ord, name)))
    q = np.array(model.poses.get("home", model.neutral()))
    if name.endswith("hull"):
        model, q = on_moving_base(model, q, tb.Free("hull"), 1)
    q = tb.project_configuration(model, model.integrate(q, 0.05 * rng.normal(size=model.nv))).q
    v = tb.project_velocity(model, q, rng.normal(size=model.nv))
    how = {"q": q, "v": v, "method": tb.RK4(dt=1e-3)}
    run = tb.simulate(
        model.without_passive().without_limits(), 3.0, loops=tb.DeNOC("minimal"), **how
    )
    assert run.outcome.status == "finished"
    kinetic = tb.kinetic_energy(model, run.q, run.v)
    energy = kinetic + tb.potential_energy(model, run.q)
    assert np.abs(energy - energy[0]).max() < FREE_RUNS[name] * kinetic.max()
    assert np.abs(tb.constraint_residual(model, run.q)).max() < 1e-11


def test_runs_begin_with_other_joints_where_motors_are_singular():
    """The first rows are those of the motors only where these determine the others."""
    model = tb.load("planar_3rrr")
    fall = tb.simulate(model, 0.5, method=tb.RK4(dt=1e-3), record=tb.Record(every=1))
    motors = np.eye(model.nv)[:3]
    for row, is_held in ((0, True), (483, False)):
        run = tb.simulate(model, 2e-3, q=fall.q[row], v=fall.v[row], loops=tb.DeNOC("extended"))
        W = run.x[0, 1:].reshape(3, model.nv)
        assert np.array_equal(W, motors) == is_held
        assert run.outcome.status == "finished"


def test_states_that_are_singular_for_the_motors_are_answered():
    """Accelerations do not depend on the independent joints: others are selected there."""
    model = tb.load("planar_3rrr")
    fall = tb.simulate(model, 0.5, method=tb.RK4(dt=1e-3), record=tb.Record(every=1))
    near = slice(475, 491)
    tau = np.zeros(model.nv)
    expected = tb.loop_dynamics(model, fall.q[near], fall.v[near], tau, method="augmented")
    found = tb.loop_dynamics(model, fall.q[near], fall.v[near], tau, method="denoc")
    scale = np.abs(expected.acceleration).max()
    np.testing.assert_allclose(found.acceleration, expected.acceleration, atol=1e-9 * scale)


def test_cases_of_a_batch_select_by_themselves():
    """Each case has rows of its own; a case alone has the same bits."""
    model = tb.load("planar_3rrr")
    q = model.poses["home"]
    v = np.zeros((2, model.nv))
    v[1] = np.asarray(tb.project_velocity(model, q, np.full(model.nv, 0.3)))
    how = {"method": tb.RK4(dt=5e-3), "loops": tb.DeNOC("extended")}
    both = tb.simulate(model, 0.6, q=[q, q], v=v, **how)
    times = [[event.time for event in both.events if event.case == case] for case in (0, 1)]
    assert all(times)
    assert times[0] != times[1]
    for case in (0, 1):
        alone = tb.simulate(model, 0.6, q=q, v=v[case], **how)
        assert np.array_equal(both.q[:, case], alone.q)


def test_runs_on_a_floating_base_keep_energy_and_follow_projection():
    """A four-bar on a hull that turns freely in space."""
    robot = tb.load("four_bar")
    model, start = on_moving_base(robot, np.array(robot.poses["home"]), tb.Free("hull"), 1)
    v = allowed(model, start, np.random.default_rng(2).normal(size=model.nv))
    model = model.without_passive()
    how = {"q": start, "v": v, "world": WEIGHTLESS}
    exact = tb.simulate(model, 0.4, method=tb.RK4(dt=5e-4), **how)
    run = tb.simulate(model, 0.4, method=tb.RK4(dt=1e-3), loops=tb.DeNOC("minimal"), **how)
    assert run.outcome.status == "finished"
    np.testing.assert_allclose(run.q[-1], exact.q[-1], atol=1e-7)
    energy = tb.kinetic_energy(model, run.q, run.v)
    np.testing.assert_allclose(energy, energy[0], rtol=1e-7)


# -- refusals --------------------------------------------------------------------------------------


def test_velocity_constraints_are_refused_by_name():
    disc = tb.load("rolling_disc")
    state = (disc.neutral(), np.zeros(disc.nv), np.zeros(disc.nv))
    with pytest.raises(tb.ModelError, match="constrains velocities") as caught:
        tb.loop_dynamics(disc, *state, method="denoc")
    assert caught.value.name == disc.loops[0].name
    with pytest.raises(tb.ModelError, match="constrains velocities"):
        tb.simulate(disc, 0.1, loops=tb.DeNOC())


@pytest.mark.parametrize(
    ("name", "named"),
    [("delta", "one platform"), ("panda", "tree")],
)
def test_other_mechanisms_are_refused_by_name(name, named):
    model = tb.load(name)
    with pytest.raises(tb.ModelError, match=named):
        platform_on_legs(model)


def test_platforms_that_move_alone_have_independent_coordinates_of_their_own():
    """A bar between two balls spins without any joint of its arms."""
    rng = np.random.default_rng(3)
    bodies = [tb.Body("bar", joint=tb.Free("bar"), inertia=_inertia(rng))]
    loops = []
    for k, side in enumerate((1.0, -1.0)):
        base = tb.Pose(translation=(side, 0.2, -0.5))
        cross = tb.Universal(f"arm_{k}", (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), pose=base)
        bodies.append(tb.Body(f"arm_{k}", joint=cross, inertia=_inertia(rng)))
        ball = tb.Spherical(f"ball_{k}", pose=tb.Pose(translation=(0.1, 0.3, 0.4)))
        at = tb.Pose(translation=np.add(base.translation, (0.1, 0.3, 0.4)))
        loops.append(tb.LoopClosure(f"ball_{k}", f"arm_{k}", "bar", ball, at))
    model = tb.Model("bar", bodies, loops=loops)
    legs = platform_on_legs(model).legs
    assert legs[-1].is_carrier
    assert legs[-1].driven
    assert_agrees(model, model.neutral(), 2)


def test_singular_configurations_of_the_mechanism_are_refused():
    """A flat parallelogram has another degree of freedom, whatever joints are independent."""
    rod = tb.Inertia.point(1.0, com=(0.5, 0.1, 0.0))
    upright = (0.0, 0.0, 1.0)
    bodies = [
        tb.Body("crank", joint=tb.Revolute("crank", upright), inertia=rod),
        tb.Body(
            "coupler",
            "crank",
            joint=tb.Revolute("coupler", upright, pose=tb.Pose(translation=(1.0, 0.0, 0.0))),
            inertia=rod,
        ),
        tb.Body(
            "rocker",
            joint=tb.Revolute("rocker", upright, pose=tb.Pose(translation=(2.0, 0.0, 0.0))),
            inertia=rod,
        ),
    ]
    pin = tb.Revolute("pin", upright, pose=tb.Pose(translation=(2.0, 0.0, 0.0)))
    loop = tb.LoopClosure("pin", "coupler", "rocker", pin, tb.Pose(translation=(1.0, 0.0, 0.0)))
    model = tb.Model("flat", bodies, loops=[loop])
    v = np.zeros(3)
    for angle in (0.4, 0.0):
        q = np.array([angle, -angle, angle])
        assert np.abs(tb.constraint_residual(model, q)).max() < 1e-15
        if angle:
            tb.forward_dynamics(model, q, v, v, method="denoc")
            continue
        with pytest.raises(tb.DomainError, match="this one is singular"):
            tb.forward_dynamics(model, q, v, v, method="denoc")


def without_poses(model):
    return tb.Model(model.name, model.bodies, loops=model.loops, actuators=model.actuators)


@pytest.mark.parametrize("seed", [22, 27])
def test_no_stored_pose_is_needed(seed):
    """Loops of these robots do not close around the neutral configuration."""
    robot, q, _, _ = drawn(seed, 4, False)
    model = without_poses(robot)
    assert not closed_configurations(model)
    assert_agrees(model, q, 3)


def test_parts_of_legs_that_float_are_refused_by_name():
    """Two links of a ring with free joints: only one of them is the platform."""
    link = tb.Inertia(1.0, (0.0, 0.0, 0.0), (0.1, 0.0, 0.0, 0.1, 0.0, 0.1))
    bodies = [tb.Body(name, joint=tb.Revolute(name), inertia=link) for name in ("crank", "rocker")]
    bodies += [tb.Body(name, joint=tb.Free(name), inertia=link) for name in ("first", "second")]
    ends = [("crank", "first"), ("first", "second"), ("second", "rocker")]
    loops = [
        tb.LoopClosure(f"pin_{k}", *names, tb.Revolute(f"pin_{k}")) for k, names in enumerate(ends)
    ]
    model = tb.Model("ring", bodies, loops=loops)
    with pytest.raises(tb.ModelError, match=r"'second'.*recut the robot"):
        platform_on_legs(model)


def test_couplings_and_unknown_platforms_are_refused():
    model = tb.load("four_bar")
    tied = tb.Model(
        "tied",
        model.bodies,
        loops=[*model.loops, tb.JointCoupling("tie", "input", coefficients=(0.1,))],
    )
    with pytest.raises(tb.ModelError, match="tie"):
        platform_on_legs(tied)
    with pytest.raises(tb.UnknownNameError, match="table"):
        platform_on_legs(model, "table")
    robot = tb.load("planar_3rrr")
    with pytest.raises(tb.ModelError, match="one platform on which legs meet"):
        platform_on_legs(robot, "distal_1")


def test_redundant_motors_leave_as_many_independent_as_degrees_of_freedom():
    model = tb.load("two_pumas")
    assert len(platform_on_legs(model).independent) == 6
    every = [int(i) for i in model.indices(list(model.actuated_joint_names), of="v")]
    assert len(legs_of(model, driven=every).independent) == 12


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"state": "full"}, "minimal"),
        ({"decay": -1.0}, r"DeNOC\.decay"),
        ({"platform": 3}, r"DeNOC\.platform"),
    ],
)
def test_wrong_options_are_named(change, named):
    with pytest.raises(tb.TiburonError, match=named):
        tb.DeNOC(**change)


# -- source ----------------------------------------------------------------------------------------


@needs_compiler
def test_the_traced_graph_is_exported_as_source(tmp_path):
    """The wish for symbolic DeNOC: equations of motion as C, with the bits of the kernel."""
    model = tb.load("four_bar")
    q, v = moving_state(model)
    tau = np.array([0.3, -0.2, 0.1])

    def accelerations(model, q, v, tau):
        return tb.loop_dynamics(model, q, v, tau, method="denoc").acceleration

    kernel = tb.compile(accelerations, model)
    (found,) = run_c(tb.c_source(kernel, name="denoc"), "denoc", kernel, [q, v, tau], tmp_path)
    np.testing.assert_array_equal(found, kernel(q, v, tau))
