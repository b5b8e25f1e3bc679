"""Armature: an inertia on the diagonal of the mass matrix that every recursion must feel alike."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiburon as tb
from tests.model.samples import named_inertias, random_axis, random_inertia, random_pose
from tests.running import Interpreted, OnFloats, raw_kernel
from tests.strategies import GRAVITY, models, seeds, state
from tests.tolerances import ALGEBRA, DIFFERENCE, DIFFERENCE_STEP, SOLVE, assert_close
from tiburon.algorithms.floating_base import floating_rnea, is_floating_base
from tiburon.algorithms.hybrid import coupled_aba, hybrid_aba, hybrid_crba
from tiburon.algorithms.joint_space import forward_by_mass_matrix

few = settings(max_examples=25)
WORLD = tb.World(gravity=GRAVITY)


def armed(model, rng):
    """Return a model with armatures at most of its degrees of freedom, and none at some."""

    def one(body):
        if body.joint.dof == 0 or rng.random() < 0.2:
            return body
        numbers = rng.uniform(0.1, 2.0, body.joint.dof)
        numbers[rng.random(len(numbers)) < 0.2] = 0.0
        return replace(body, joint=replace(body.joint, armature=tuple(numbers)))

    return tb.Model(model.name, [one(body) for body in model.bodies], model.frames)


@st.composite
def armed_models(draw, **choices):
    """Draw a tree with armatures; the tree without them comes along."""
    plain = draw(models(**choices))
    return plain, armed(plain, np.random.default_rng(draw(seeds)))


def diagonal(model):
    """Return the armature of each velocity variable, from the user's joints alone."""
    found = np.zeros(model.nv)
    for joint in model.joints:
        where = model.slice(joint.name, of="v")
        ratio = getattr(joint, "ratio", 1.0)
        found[where] += ratio**2 * np.array(joint.armatures)
    return found


def lists(*arrays):
    return [np.asarray(array).tolist() for array in arrays]


def scale_of(H, *right):
    """Return how large a solution may be, times the condition that solving may lose."""
    sizes = [np.abs(np.linalg.solve(H, x)).max() for x in right]
    return max(1.0, *sizes) * np.linalg.cond(H)


@few
@given(armed_models(), seeds)
def test_armature_adds_to_the_diagonal_of_the_mass_matrix_alone(pair, seed):
    plain, model = pair
    q, v, vd, _ = state(model, seed)
    for way in (OnFloats, Interpreted):
        more, less = way(model, GRAVITY), way(plain, GRAVITY)
        a = diagonal(model)
        H = less.mass_matrix(q)
        assert_close(more.mass_matrix(q), H + np.diag(a))
        tau = less.inverse_dynamics(q, v, vd)
        assert_close(more.inverse_dynamics(q, v, vd), tau + a * vd, scale=np.abs(tau).max() + 10.0)
        energy = 0.5 * v @ (H + np.diag(a)) @ v
        assert_close(more.kinetic_energy(q, v), energy, scale=max(energy, 1.0))
        assert_close(more.potential_energy(q), less.potential_energy(q))


@few
@given(armed_models(), seeds)
def test_forward_dynamics_inverts_inverse_dynamics_in_every_way(pair, seed):
    _, model = pair
    q, v, vd, _ = state(model, seed)
    ours = OnFloats(model, GRAVITY)
    tau = ours.inverse_dynamics(q, v, vd)
    H = ours.mass_matrix(q)
    scale = scale_of(H, tau, vd)
    given = lists(q, v, tau)
    assert_close(ours.forward_dynamics(q, v, tau), vd, SOLVE, scale)
    assert_close(Interpreted(model, GRAVITY).forward_dynamics(q, v, tau), vd, SOLVE, scale)
    assert_close(forward_by_mass_matrix(model.plan, *given, GRAVITY), vd, SOLVE, scale)
    assert_close(coupled_aba(model.plan, *given, GRAVITY), vd, SOLVE, scale)


@pytest.mark.parametrize("hybrid", [hybrid_aba, hybrid_crba], ids=lambda f: f.__name__)
@few
@given(armed_models(), seeds)
def test_hybrid_dynamics_finds_the_unknown_accelerations_and_forces(hybrid, pair, seed):
    _, model = pair
    q, v, vd, _ = state(model, seed)
    ours = OnFloats(model, GRAVITY)
    tau = ours.inverse_dynamics(q, v, vd)
    known = np.random.default_rng(seed).random(model.nv) < 0.5
    asked = lists(q, v, np.where(known, 0.0, tau), np.where(known, vd, 0.0))
    found_vd, found_tau = hybrid(model.plan, *asked, known.tolist(), GRAVITY)
    scale = scale_of(ours.mass_matrix(q), tau, vd)
    assert_close(found_vd, vd, SOLVE, scale)
    assert_close(found_tau, tau, SOLVE, scale * max(1.0, np.abs(tau).max()))


@few
@given(armed_models(root=("free", "revolute")), seeds)
def test_floating_bases_need_no_force(pair, seed):
    _, model = pair
    q, v, vd, _ = state(model, seed)
    found_vd, tau = floating_rnea(model.plan, *lists(q, v, vd), GRAVITY)
    ours = OnFloats(model, GRAVITY)
    again = ours.inverse_dynamics(q, v, np.array(found_vd, dtype=float))
    scale = scale_of(ours.mass_matrix(q), again, vd) * max(1.0, np.abs(again).max())
    assert_close(again, tau, SOLVE, scale)
    for body in model.plan.bodies:
        if is_floating_base(body):
            assert not any(tau[body.v])


def arm_with_gears(rng):
    """Return a branched robot whose joints lead others, with armatures at leaders and followers."""
    joint = {"pose": random_pose(rng)}
    return tb.Model(
        "geared",
        [
            tb.Body("base", joint=tb.Free("float", armature=0.3), inertia=random_inertia(rng)),
            tb.Body(
                "upper",
                "base",
                joint=tb.Revolute("shoulder", random_axis(rng), armature=0.7, **joint),
                inertia=random_inertia(rng),
            ),
            tb.Body(
                "lower",
                "upper",
                joint=tb.Coupled(
                    "elbow", tb.Revolute("e", random_axis(rng)), "shoulder", -2.0, armature=0.4
                ),
                inertia=random_inertia(rng),
            ),
            tb.Body(
                "finger",
                "lower",
                joint=tb.Prismatic("close", random_axis(rng), **joint),
                inertia=random_inertia(rng),
            ),
            tb.Body(
                "thumb",
                "base",
                joint=tb.Coupled(
                    "mirror", tb.Prismatic("m", random_axis(rng)), "close", 0.5, armature=2.0
                ),
                inertia=random_inertia(rng),
            ),
        ],
    )


def test_armature_of_followers_acts_on_their_leader():
    rng = np.random.default_rng(6)
    model = arm_with_gears(rng)
    a = diagonal(model)
    # 0.7 + 2^2 0.4, and 0.5^2 2 at a leader that has none of its own
    assert_close(a[6:], [2.3, 0.5])
    bodies = [replace(b, joint=replace(b.joint, armature=0.0)) for b in model.bodies]
    plain = tb.Model("plain", bodies)
    q, v = model.random_state(rng)
    vd = rng.standard_normal(model.nv)
    more, less = OnFloats(model, GRAVITY), OnFloats(plain, GRAVITY)
    assert_close(more.mass_matrix(q), less.mass_matrix(q) + np.diag(a))
    tau = less.inverse_dynamics(q, v, vd) + a * vd
    assert_close(more.inverse_dynamics(q, v, vd), tau)
    found = coupled_aba(model.plan, *lists(q, v, tau), GRAVITY)
    assert_close(found, vd, SOLVE, scale_of(more.mass_matrix(q), tau, vd))


def test_public_functions_include_armature():
    """Inverse, reactions, regressor, operational space and Coriolis forces on a geared robot."""
    rng = np.random.default_rng(11)
    model = arm_with_gears(rng)
    q, v = model.random_state(rng)
    vd = rng.standard_normal(model.nv)
    run = Interpreted(model, GRAVITY)
    H = run.mass_matrix(q)
    tau = run.inverse_dynamics(q, v, vd)
    assert_close(run.run("inverse_mass_matrix", (q,)) @ H, np.eye(model.nv), 1e-10)
    assert_close(run.run("joint_reactions", (q, v, vd))[0], tau)
    regressed = run.run("regressor", (q, v, vd)) @ tb.inertial_parameters(model)
    assert_close(regressed + diagonal(model) * vd, tau)
    options = (("frames", ("finger", "thumb")), ("at", "frame"), ("axes", "world"))
    J = np.asarray(run.run("frame_jacobian", (q,), options)).reshape(12, model.nv)
    found = run.run("operational_space_inverse_inertia", (q,), options)
    assert_close(found, J @ np.linalg.solve(H, J.T), 1e-10)
    C = run.run("coriolis_matrix", (q, v))
    assert_close(H @ vd + C @ v + run.run("gravity_force", (q,)), tau)


@few
@given(armed_models(), seeds)
def test_apparent_inertia_is_that_of_the_mass_matrix(pair, seed):
    _, model = pair
    q, *_ = state(model, seed)
    run = Interpreted(model)
    tip = model.bodies[-1].name
    options = (("frame", tip), ("other", tip))
    J = run.run("frame_jacobian", (q,), (("frames", (tip,)), ("at", "frame"), ("axes", "world")))
    H = run.mass_matrix(q)
    J = np.asarray(J).reshape(6, model.nv)
    expected = J @ np.linalg.solve(H, J.T)
    found = run.run("cross_inverse_inertia", (q,), options)
    assert_close(found, expected, SOLVE, np.linalg.cond(H) * max(1.0, np.abs(expected).max()))


def test_derivatives_of_forward_dynamics_match_differences():
    rng = np.random.default_rng(3)
    model = arm_with_gears(rng)
    q, v = model.random_state(rng)
    tau = rng.standard_normal(model.nv)
    found = tb.forward_dynamics_derivatives(model, q, v, tau, world=WORLD)
    assert_close(found.vd, tb.forward_dynamics(model, q, v, tau, world=WORLD), 1e-11)
    h = DIFFERENCE_STEP
    steps = h * np.eye(model.nv)

    def rates(q, v, tau):
        return tb.forward_dynamics(model, q, v, tau, world=WORLD)

    by_q = (rates(model.integrate(q, steps), v, tau) - rates(model.integrate(q, -steps), v, tau)).T
    by_v = (rates(q, v + steps, tau) - rates(q, v - steps, tau)).T
    scale = np.abs(found.by_q).max() + np.abs(found.by_v).max()
    assert_close(found.by_q, by_q / (2 * h), DIFFERENCE, scale)
    assert_close(found.by_v, by_v / (2 * h), DIFFERENCE, scale)
    assert_close(found.by_tau, tb.inverse_mass_matrix(model, q), 1e-10)


def test_inertia_derivatives_include_armatures():
    """Of each degree of freedom; a follower's counts at its leader by the ratio squared."""
    model = arm_with_gears(np.random.default_rng(2))
    q, v = model.random_state(4)
    tau = np.random.default_rng(4).standard_normal(model.nv)
    found = tb.inertia_derivatives(model, q, v, tau, world=WORLD)
    numbers, h = model.parameters(), DIFFERENCE_STEP
    names = model.parameter_names
    listed = ["float.armature_6", "shoulder.armature", "elbow.armature", "close.armature"]
    for name in listed:
        column = names.index(name)
        sides = []
        for sign in (1.0, -1.0) if numbers[column] else (2.0, 0.0):
            step = sign * h * np.eye(len(numbers))[column]
            named = named_inertias(model, numbers + step)
            sides.append(tb.forward_dynamics(model, q, v, tau, world=WORLD, parameters=named))
        # of a zero the difference is one-sided, with an error of the step
        assert_close(
            found.by_inertia[:, column],
            (sides[0] - sides[1]) / (2 * h),
            DIFFERENCE if numbers[column] else 100 * h,
        )


def many(rng, count, armature):
    """Return an irregular tree of many bodies, with armatures at some of them."""
    kinds = [tb.Revolute, tb.Prismatic, tb.Universal, tb.Spherical, tb.Cylindrical]
    bodies = []
    for number in range(count):
        kind = kinds[int(rng.integers(len(kinds)))] if rng.random() < 0.3 else tb.Revolute
        joint = kind(f"j{number}", pose=random_pose(rng))
        if rng.random() < 0.7:
            joint = replace(joint, armature=armature * float(rng.uniform(0.5, 1.5)))
        parent = "world" if number == 0 else f"b{int(rng.integers(max(0, number - 4), number))}"
        bodies.append(tb.Body(f"b{number}", parent, joint=joint, inertia=random_inertia(rng)))
    return tb.Model("many", bodies)


def test_tapes_of_large_models_include_armature():
    model = many(np.random.default_rng(8), 45, 0.5)
    q, v = model.random_state(1)
    vd = np.random.default_rng(1).standard_normal(model.nv)
    floats_say, tape_says = OnFloats(model), Interpreted(model)
    tau = floats_say.inverse_dynamics(q, v, vd)
    assert_close(tape_says.inverse_dynamics(q, v, vd), tau, scale=np.abs(tau).max())
    H = floats_say.mass_matrix(q)
    assert_close(tape_says.mass_matrix(q), H, scale=np.abs(H).max())
    scale = scale_of(H, tau, vd)
    assert_close(tape_says.forward_dynamics(q, v, tau), vd, SOLVE, scale)
    energy = 0.5 * v @ H @ v
    assert_close(tape_says.kinetic_energy(q, v), energy, ALGEBRA, energy)


@pytest.mark.slow
def test_native_tapes_include_armature():
    model = many(np.random.default_rng(8), 45, 0.5)
    q, v = model.random_state(1)
    vd = np.random.default_rng(1).standard_normal(model.nv)
    tau = tb.inverse_dynamics(model, q, v, vd)
    H = tb.mass_matrix(model, q)
    assert_close(H, OnFloats(model).mass_matrix(q), scale=np.abs(H).max())
    assert_close(tb.forward_dynamics(model, q, v, tau), vd, SOLVE, scale_of(H, tau, vd))


@pytest.mark.slow
def test_derivatives_of_large_models_include_armature():
    model = many(np.random.default_rng(8), 45, 0.5)
    plain = many(np.random.default_rng(8), 45, 0.0)
    q, v = model.random_state(1)
    vd = np.random.default_rng(1).standard_normal(model.nv)
    more, less = (tb.inverse_dynamics_derivatives(m, q, v, vd) for m in (model, plain))
    a = diagonal(model)
    assert_close(more.tau, less.tau + a * vd, scale=np.abs(less.tau).max())
    # armature is constant: positions and velocities do not change what it needs
    assert_close(more.by_q, less.by_q, scale=np.abs(less.by_q).max())
    assert_close(more.by_v, less.by_v, scale=np.abs(less.by_v).max())
    assert_close(more.by_vd, less.by_vd + np.diag(a), scale=np.abs(less.by_vd).max())
    forward = tb.forward_dynamics_derivatives(model, q, v, more.tau)
    H = more.by_vd
    assert_close(forward.vd, vd, SOLVE, scale_of(H, more.tau, vd))
    inverse = np.linalg.inv(H)
    assert_close(forward.by_tau, inverse, SOLVE, np.linalg.cond(H) * np.abs(inverse).max())


def test_armature_is_a_run_time_parameter():
    rng = np.random.default_rng(8)
    model, other = (many(np.random.default_rng(8), 4, a) for a in (0.5, 0.9))
    assert model.structure_key() == other.structure_key()
    none = many(np.random.default_rng(8), 4, 0.0)
    assert none.structure_key() != model.structure_key()
    q, v = model.random_state(rng)
    tau = rng.standard_normal(model.nv)
    kernel = raw_kernel(tb.forward_dynamics, model)
    found = kernel(q, v, tau, inertia=np.array(other.plan.parameters))
    assert_close(found, tb.forward_dynamics(other, q, v, tau), 1e-13)
    assert [n for n in model.plan.parameter_names if "armature" in n]


def test_data_that_is_not_dynamics_changes_no_code():
    body = tb.Body("b", joint=tb.Revolute("j"), inertia=tb.Inertia.box(1.0, (1, 2, 3)))
    joint = replace(body.joint, limits=tb.JointLimits(-1, 1), passive=tb.JointPassive(0.1))
    shape = tb.Shape(tb.BoxShape((1, 2, 3)))
    rich = replace(body, joint=joint, shapes=(shape,), fluid=tb.BodyFluid(volume=0.1))
    plain = tb.Model("m", [body])
    full = tb.Model(
        "m",
        [rich],
        thrusters=[tb.Thruster("t", "b")],
        contacts=[tb.ContactPoint("c", "b")],
        actuators=[tb.Actuator("a", "j")],
        poses={"home": [0.3]},
        about="all",
    )
    assert plain.structure_key() == full.structure_key()
    assert plain != full


def test_rotor_of_a_pendulum():
    """(m l^2 + a) qdd = tau - m g l sin q; nothing else changes."""
    m, l, a, g = 2.0, 0.7, 0.3, 9.81
    rod = tb.Body(
        "rod",
        joint=tb.Revolute("pivot", (0, 1, 0), armature=a),
        inertia=tb.Inertia.point(m, (0, 0, -l)),
    )
    model = tb.Model("pendulum", [rod])
    q, tau = 0.4, 1.1
    expected = (tau - m * g * l * np.sin(q)) / (m * l * l + a)
    assert_close(tb.forward_dynamics(model, [q], [2.0], [tau]), [expected])


def test_a_joint_that_moves_no_mass_may_have_armature():
    wheel = tb.Body("wheel", joint=tb.Revolute("axle", armature=0.2))
    model = tb.Model("wheel", [wheel])
    assert_close(tb.forward_dynamics(model, [0.1], [0.2], [1.0]), [5.0])


MUJOCO = """
<mujoco>
  <compiler autolimits="true"/>
  <option gravity="1.5 -2.5 -9"><flag contact="disable"/></option>
  <worldbody>
    <body name="a" pos="0 0 1" euler="10 20 30">
      <joint name="hinge" axis="1 2 3" armature="0.3"/>
      <geom type="box" size="0.1 0.2 0.3" pos="0.1 0 0"/>
      <body name="b" pos="0.2 0.1 0.3">
        <joint name="slide" type="slide" axis="0 1 1" armature="2.5"/>
        <joint name="second" axis="1 0 0" pos="0 0.1 0" armature="0.01"/>
        <geom type="capsule" size="0.1 0.2" euler="40 0 10"/>
        <body name="c" pos="0 0 0.4">
          <joint name="ball" type="ball" armature="0.7"/>
          <geom type="ellipsoid" size="0.1 0.2 0.15" pos="0 0.05 0.1"/>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


@pytest.mark.slow
def test_armature_agrees_with_mujoco(tmp_path):
    """Mass matrix, inverse and forward dynamics of a chain with hinge, slide and ball."""
    mujoco = pytest.importorskip("mujoco", reason="live comparison with MuJoCo")
    path = tmp_path / "armed.xml"
    path.write_text(MUJOCO)
    model = tb.load(path)
    theirs = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(theirs)
    rng = np.random.default_rng(1)
    for _ in range(5):
        q, v = model.random_state(rng)
        vd = rng.standard_normal(model.nv)
        numbers = tb.to_mujoco(model, q, v, acceleration=vd)
        data.qpos[:], data.qvel[:] = numbers.q, numbers.v
        mujoco.mj_forward(theirs, data)
        M = np.zeros((model.nv, model.nv))
        for row, unit in zip(M, np.eye(model.nv), strict=True):
            mujoco.mj_mulM(theirs, data, row, unit)
        assert_close(tb.mass_matrix(model, q), M)
        data.qacc[:] = numbers.acceleration
        mujoco.mj_inverse(theirs, data)
        tau = tb.inverse_dynamics(model, q, v, vd, world=WORLD)
        assert_close(tau, data.qfrc_inverse)
        scale = scale_of(M, tau, vd)
        assert_close(tb.forward_dynamics(model, q, v, tau, world=WORLD), vd, SOLVE, scale)
