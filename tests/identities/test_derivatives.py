"""Derivatives of dynamics: recursion, central differences on the manifold and graph agree."""

import numpy as np
import pytest
from hypothesis import given, settings

import benchmarks.robots as measured
import tiburon as tb
from tests.model.samples import named_inertias, random_inertia, random_pose, random_tree
from tests.robots import ROBOTS, kicked
from tests.running import OnFloats
from tests.strategies import GRAVITY, models, seeds, state
from tests.tolerances import ALGEBRA, DIFFERENCE, DIFFERENCE_STEP, SOLVE, assert_close
from tiburon.algorithms.crba import composite_products, crba
from tiburon.algorithms.derivatives.inverse_dynamics import (
    force_matrices,
    force_vectors,
    state_terms,
)
from tiburon.algorithms.pair_products import MAX_INLINED_BODIES
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.setting import Setting
from tiburon.functions.derivatives import acceleration_derivatives
from tiburon.functions.kernel_source import INLINED_BODIES, LibrarySource
from tiburon.trace import count, interpret, jacobian

few = settings(max_examples=40)


def largest(x):
    return max(1.0, float(np.abs(x).max(initial=0.0)))


def lists(*arrays):
    return [array.tolist() for array in arrays]


def recursion(model, q, v, vd, gravity=GRAVITY):
    """Run the recursion on floats: joint forces, derivatives by q and v, mass matrix."""
    return recursion_of(model.plan, q, v, vd, gravity)


def recursion_of(plan, q, v, vd, gravity=GRAVITY):
    """Run the recursion on a plan."""
    terms = state_terms(plan, *lists(q, v), gravity)
    found = force_vectors(plan, *lists(q, v, vd), terms)
    matrices = (*force_matrices(plan, found), composite_products(plan, terms.S, terms.inertial))
    return [np.array(found.tau), *(np.reshape(x, (plan.nv, plan.nv)) for x in matrices)]


def slopes(f, model, q, v, h=DIFFERENCE_STEP):
    """Differentiate f(q, v) along each freedom and each velocity by central differences."""
    units = h * np.eye(model.nv)
    by_q = [f(model.integrate(q, d), v) - f(model.integrate(q, -d), v) for d in units]
    by_v = [f(q, v + d) - f(q, v - d) for d in units]
    return [np.array(part).T.reshape(-1, model.nv) / (2.0 * h) for part in (by_q, by_v)]


def tangent_map(model, q):
    """Return how positions change with a step along each freedom, shape (nq, nv)."""
    N = np.zeros((model.nq, model.nv))
    for joint in model.joints:
        if joint.nv:
            i, j = model.slice(joint.name, of="q"), model.slice(joint.name, of="v")
            columns = [joint.position_rate(q[i].tolist(), unit) for unit in np.eye(joint.nv)]
            N[i, j] = np.array(columns, dtype=float).T
    return N


@few
@given(models(), seeds)
def test_recursion_gives_joint_forces_and_mass_matrix_on_the_way(model, seed):
    """The force is ID and dtau/dvd = H, by the two-pass algorithms in body frames."""
    q, v, vd, _ = state(model, seed)
    tau, _, _, mass = recursion(model, q, v, vd)
    expected = OnFloats(model, GRAVITY).inverse_dynamics(q, v, vd)
    assert_close(tau, expected, ALGEBRA, 10 * largest(expected))
    assert_close(mass, np.array(crba(model.plan, q.tolist())))


@few
@given(models(), seeds)
def test_force_derivatives_equal_central_differences(model, seed):
    """dID/dq along steps of the manifold and dID/dv, every joint kind."""
    q, v, vd, _ = state(model, seed)
    _, by_q, by_v, _ = recursion(model, q, v, vd)
    ours = OnFloats(model, GRAVITY)
    expected = slopes(lambda q, v: ours.inverse_dynamics(q, v, vd), model, q, v)
    # truncation grows with the rate of turning, rounding with the forces
    scale = largest(expected) * largest(v) ** 2
    assert_close(by_q, expected[0], DIFFERENCE, scale)
    assert_close(by_v, expected[1], DIFFERENCE, scale)


@settings(max_examples=15)
@given(models(most=4), seeds)
def test_force_derivatives_equal_those_of_the_graph(model, seed):
    """The traced inverse dynamics differentiated node by node, then from numbers of q to steps."""
    q, v, vd, _ = state(model, seed)
    source = LibrarySource(model, ("inverse_dynamics",), tb.World(gravity=GRAVITY))
    program = jacobian(source.program(), by=["q", "v", "vd"])
    by_q, by_v, by_vd = interpret(program, [q, v, vd, *source.parameters().values()])
    _, ours_q, ours_v, mass = recursion(model, q, v, vd)
    scale = 100 * max(largest(by_q), largest(by_v), largest(by_vd))
    assert_close(ours_q, by_q @ tangent_map(model, q), ALGEBRA, scale)
    assert_close(ours_v, by_v, ALGEBRA, scale)
    assert_close(mass, by_vd, ALGEBRA, scale)


@few
@given(models(), seeds)
def test_acceleration_derivatives_equal_central_differences(model, seed):
    """Slopes of FD by q and v, against articulated bodies; dFD/dtau is the inverse mass matrix."""
    q, v, tau, _ = state(model, seed)
    plan, ours = model.plan, OnFloats(model, GRAVITY)
    around = Setting(model, (), (), plan, GRAVITY)
    vd, by_q, by_v, by_tau = acceleration_derivatives(around, *lists(q, v, tau))
    H = ours.mass_matrix(q)
    condition = np.linalg.cond(H)
    expected = slopes(lambda q, v: ours.forward_dynamics(q, v, tau), model, q, v)
    # an error of H^-1 is the condition number times that of H
    scale = largest(expected) * largest(v) ** 2 * condition
    assert_close(by_q, expected[0], DIFFERENCE, scale)
    assert_close(by_v, expected[1], DIFFERENCE, scale)
    assert_close(vd, ours.forward_dynamics(q, v, tau), SOLVE * condition, largest(vd))
    assert_close(by_tau, np.linalg.inv(H), SOLVE * condition, largest(by_tau))


@pytest.mark.parametrize("axes", ["frame", "world"])
@pytest.mark.parametrize("name", ["balloon", "rover", "odd_arm"])
def test_external_forces_keep_their_axes_in_derivatives(name, axes):
    """A force in world axes turns back as its body turns; central differences know of it."""
    model = ROBOTS[name]
    q, v, vd = kicked(model, 31)
    rng = np.random.default_rng(32)
    frames = ["tip", model.body_names[1]]
    wrenches = {frame: 5.0 * rng.standard_normal(6) for frame in frames}
    found = tb.inverse_dynamics_derivatives(
        model, q, v, vd, external_force=wrenches, external_axes=axes
    )
    ours = OnFloats(model)
    expected = slopes(lambda q, v: ours.inverse_dynamics(q, v, vd, wrenches, axes), model, q, v)
    assert_close(found.by_q, expected[0], DIFFERENCE, 10 * largest(expected))
    assert_close(found.by_v, expected[1], DIFFERENCE, 10 * largest(expected))
    assert_close(found.tau, ours.inverse_dynamics(q, v, vd, wrenches, axes), ALGEBRA, 1e2)


def driven_and_tied():
    """Build a robot with driven joints that carry others, gears and a rotor."""
    rng = np.random.default_rng(33)
    crank = tb.Driven(
        "crank",
        tb.Revolute("turn", (0, 1, 0)),
        tb.Polynomial((0.3, 2.0, -0.7)),
        carried=tb.Universal("cross", pose=random_pose(rng)),
        pose=random_pose(rng),
    )
    shaker = tb.Driven("shaker", tb.Prismatic("shake", (1, 0, 0)), tb.Harmonic(0.1, frequency=3.0))
    joints = [
        ("table", "world", shaker),
        ("fork", "table", crank),
        ("arm", "fork", tb.Revolute("elbow", (0, 0, 1), pose=random_pose(rng))),
        ("ball", "arm", tb.Spherical("ball", pose=random_pose(rng))),
        (
            "rotor",
            "arm",
            tb.Coupled("rotor", tb.Revolute("spin", (1, 0, 0)), leader="elbow", ratio=-7.0),
        ),
        (
            "finger",
            "ball",
            tb.Coupled("mirror", tb.Prismatic("slide", (0, 1, 0)), leader="elbow", ratio=0.4),
        ),
    ]
    bodies = [tb.Body(n, p, joint=j, inertia=random_inertia(rng)) for n, p, j in joints]
    return tb.Model("driven_and_tied", bodies)


def test_derivatives_of_driven_and_coupled_joints_equal_central_differences():
    """At a given time: drives are upstream of what they carry, followers share variables."""
    model = driven_and_tied()
    q, v, vd = kicked(model, 34)
    plan = model.plan.at(0.4)

    def forces(q, v):
        return np.array(rnea(plan, *lists(q, v, vd), GRAVITY), dtype=float)

    tau, by_q, by_v, mass = recursion_of(plan, q, v, vd)
    expected = slopes(forces, model, q, v)
    assert_close(tau, forces(q, v))
    assert_close(mass, np.array(crba(plan, q.tolist())))
    assert_close(by_q, expected[0], DIFFERENCE, 10 * largest(expected))
    assert_close(by_v, expected[1], DIFFERENCE, 10 * largest(expected))


@pytest.mark.parametrize(
    "name", [pytest.param("orrery", marks=pytest.mark.slow), "screw_chain", "panda", "forest"]
)
def test_native_derivatives_are_those_on_floats_one_state_or_a_batch(name):
    """Both directions; a batch row has the bits of a single call."""
    model = ROBOTS[name]
    q, v, x = kicked(model, 35, (3,))
    inverse = tb.inverse_dynamics_derivatives(model, q, v, x)
    forward = tb.forward_dynamics_derivatives(model, q, v, x)
    for row in range(3):
        alone = tb.forward_dynamics_derivatives(model, q[row], v[row], x[row])
        for part, single in zip(forward, alone, strict=True):
            assert np.array_equal(part[row], single)
        expected = recursion(model, q[row], v[row], x[row], (0.0, 0.0, -9.81))
        for part, wanted in zip(inverse, expected, strict=True):
            assert_close(part[row], wanted, ALGEBRA, 100 * largest(wanted))
    # FD inverts ID, so their derivatives are tied by the mass matrix
    tied = tb.inverse_dynamics_derivatives(model, q, v, forward.vd)
    scale = SOLVE * np.linalg.cond(tied.by_vd).max()
    for part, wanted in ((forward.by_q, tied.by_q), (forward.by_v, tied.by_v)):
        assert_close(-tied.by_vd @ part, wanted, scale, 10 * largest(wanted))


def test_large_models_have_the_same_derivatives_on_the_tape():
    """A tree beyond the size up to which visits are inlined."""
    model = random_tree(3, INLINED_BODIES + 1, ("revolute", "prismatic", "universal"))
    assert len(model.plan.bodies) > INLINED_BODIES
    q, v, vd = kicked(model, 38)
    found = tb.inverse_dynamics_derivatives(model, q, v, vd)
    expected = recursion(model, q, v, vd, (0.0, 0.0, -9.81))
    for part, wanted in zip(found, expected, strict=True):
        assert_close(part, wanted, ALGEBRA, 100 * largest(wanted))


@pytest.mark.slow
def test_large_models_invert_their_mass_matrix_between_tapes():
    """Derivatives of forward dynamics are tied to those of inverse dynamics."""
    model = measured.chain(INLINED_BODIES + 1)
    q, v, tau = kicked(model, 39)
    forward = tb.forward_dynamics_derivatives(model, q, v, tau)
    tied = tb.inverse_dynamics_derivatives(model, q, v, forward.vd)
    scale = SOLVE * np.linalg.cond(tied.by_vd)
    assert_close(tied.tau, tau, scale, 10 * largest(tau))
    for part, wanted in ((forward.by_q, tied.by_q), (forward.by_v, tied.by_v)):
        assert_close(-tied.by_vd @ part, wanted, scale, 10 * largest(wanted))


def test_derivatives_do_not_depend_on_the_distance_from_the_origin():
    """A million meters cost no digit: bodies are seen from the first of their tree."""
    model = ROBOTS["quadruped"]
    q, v, vd = kicked(model, 36)
    far = q.copy()
    far[4:7] += 1e6
    here, there = (tb.inverse_dynamics_derivatives(model, x, v, vd) for x in (q, far))
    for a, b in zip(here, there, strict=True):
        assert np.array_equal(a, b)


def changing(seed):
    """Return a tree with turned axes, welds, also to the world, gears and armatures."""
    rng = np.random.default_rng(seed)

    def body(name, parent, joint):
        return tb.Body(name, parent, joint=joint, inertia=random_inertia(rng))

    turn = tb.Revolute("turn", (0.6, 0.0, 0.8))
    bodies = [
        body("stand", "world", tb.Fixed("bolt", pose=random_pose(rng))),
        body(
            "upper", "stand", tb.Revolute("hip", (0, 0.6, 0.8), armature=0.1, pose=random_pose(rng))
        ),
        body("tool", "upper", tb.Fixed("weld", pose=random_pose(rng))),
        body("hand", "tool", tb.Spherical("ball", pose=random_pose(rng), armature=(0.1, 0.2, 0.3))),
        body("slide", "upper", tb.Prismatic("rail", (0.6, 0.8, 0), armature=0.4)),
        body("wheel", "slide", tb.Coupled("gear", turn, "rail", -2.5, armature=0.02)),
    ]
    return tb.Model("changing", bodies)


def test_inertia_derivatives_equal_central_differences_by_each_name():
    """By every parameter of every body in its own frame, whatever is welded, and by armatures."""
    model = changing(37)
    q, v, tau = kicked(model, 37)
    push = {"hand": np.array([0.3, -0.2, 0.5, 1.0, 2.0, -3.0])}
    numbers = model.parameters()
    vd, by_inertia = tb.inertia_derivatives(model, q, v, tau, external_force=push)
    assert by_inertia.shape == (model.nv, len(model.parameter_names))

    def accelerations(table):
        named = named_inertias(model, table)
        return tb.forward_dynamics(model, q, v, tau, external_force=push, parameters=named)

    condition = np.linalg.cond(tb.mass_matrix(model, q))
    for k, name in enumerate(model.parameter_names):
        step = DIFFERENCE_STEP * np.eye(len(numbers))[k]
        change = accelerations(numbers + step) - accelerations(numbers - step)
        expected = change / (2.0 * DIFFERENCE_STEP)
        scale = condition * largest(by_inertia)
        assert_close(by_inertia[:, k], expected, DIFFERENCE, scale)
        assert not name.startswith("stand.") or not by_inertia[:, k].any()
    assert_close(vd, accelerations(numbers), SOLVE * condition)


@pytest.mark.parametrize("name", ["changing", "orrery", "double_pendulum", "welded", "quadruped"])
def test_inertia_derivatives_are_the_regressor_over_the_mass_matrix(name):
    """Columns of the same names, and the values that they are taken at."""
    model = changing(38) if name == "changing" else ROBOTS[name]
    names = tb.inertial_parameter_names(model)
    assert model.parameter_names[: len(names)] == names
    assert np.array_equal(model.parameters()[: len(names)], tb.inertial_parameters(model))
    q, v, tau = kicked(model, 37)
    vd, by_inertia = tb.inertia_derivatives(model, q, v, tau)
    M = tb.mass_matrix(model, q)
    expected = -np.linalg.solve(M, tb.regressor(model, q, v, vd))
    scale = np.linalg.cond(M) * largest(expected)
    assert_close(by_inertia[:, : len(names)], expected, SOLVE, scale)


def operations(program):
    found = count(program)
    return found.multiplications + found.additions


@pytest.mark.parametrize(
    ("name", "ratio"), [("panda", 0.85), ("odd_arm", 0.8), ("quadruped", 0.65)]
)
def test_recursion_needs_fewer_operations_than_the_graphs_derivative(name, ratio):
    """Derivatives of inverse dynamics by q, v and vd, both with every saving the tracer knows."""
    model, world = ROBOTS[name], tb.World()
    ours = LibrarySource(model, ("inverse_dynamics_derivatives",), world).program()
    program = LibrarySource(model, ("inverse_dynamics",), world).program()
    graph = jacobian(program, by=["q", "v", "vd"], values=True)
    assert operations(ours) < ratio * operations(graph)


def test_derivatives_of_large_models_in_water_with_split_strips():
    """Strips that end where the flow is slowest, in visits that bodies share."""
    model = measured.wet_chain(18)
    assert len(model.bodies) > MAX_INLINED_BODIES
    water = tb.Water(current=(0.3, 0.1, 0.0), split_strips=True)
    rng = np.random.default_rng(12)
    q, v, vd = 0.5 * rng.standard_normal((3, model.nv))
    found = tb.inverse_dynamics_derivatives(model, q, v, vd, fluid=water)
    expected = slopes(lambda q, v: tb.inverse_dynamics(model, q, v, vd, fluid=water), model, q, v)
    for part, other in zip((found.by_q, found.by_v), expected, strict=True):
        assert_close(part, other, DIFFERENCE, largest(other))
