"""Matrices of pairs of joints, as products in one frame: what pairs in body frames give."""

import dataclasses

import numpy as np
import pytest

import tiburon as tb
from benchmarks.robots import chain, irregular_tree
from tests.model.samples import random_tree
from tests.robots import ROBOTS
from tests.tolerances import ALGEBRA, assert_close
from tiburon.algorithms import pair_products
from tiburon.algorithms.coriolis import coriolis
from tiburon.algorithms.crba import composite_products, composite_vectors, crba
from tiburon.algorithms.pair_products import MAX_INLINED_BODIES, components, joint_matrix
from tiburon.algorithms.regressor import regressor_rows
from tiburon.algorithms.surroundings import DEFAULT_WORLD
from tiburon.functions import kernel_source
from tiburon.functions.kernel_source import LibrarySource
from tiburon.native.kernel import make_kernel
from tiburon.trace import interpret
from tiburon.trace.primitives.row_products import RowProducts

RANDOM = np.random.default_rng(51)
GRAVITY = (0.3, -0.2, -9.7)
MATRICES = ("mass_matrix", "coriolis_matrix", "regressor", "inverse_mass_matrix")


def state_of(model):
    q, v = model.random_state(RANDOM)
    return q.tolist(), v.tolist(), RANDOM.standard_normal(model.nv).tolist()


def largest(x):
    return max(1.0, float(np.abs(x).max(initial=0.0)))


@pytest.mark.parametrize("robot", ROBOTS)
def test_products_give_the_composite_rigid_body_matrix(robot):
    """Every joint kind, forests, joints that follow others; on floats."""
    plan = ROBOTS[robot].plan
    q, _, _ = state_of(ROBOTS[robot])
    expected = np.array(crba(plan, q), dtype=float)
    found = np.reshape(composite_products(plan, *composite_vectors(plan, q)), expected.shape)
    assert_close(found, expected, ALGEBRA, largest(expected))
    assert np.array_equal(found, found.T)


def test_armatures_are_added_to_the_diagonal():
    """Against the matrix of the bodies alone; one joint of two has none."""
    model = ROBOTS["odd_arm"]
    joints = [joint for joint in model.joints if joint.nv]
    bodies = [
        dataclasses.replace(
            body, joint=dataclasses.replace(body.joint, armature=0.1 + 0.2 * number)
        )
        if body.joint in joints[::2]
        else body
        for number, body in enumerate(model.bodies)
    ]
    heavier = tb.Model("heavier", bodies)
    q, _, _ = state_of(model)
    added = np.array(crba(heavier.plan, q)) - np.array(crba(model.plan, q))
    vectors = composite_vectors(heavier.plan, q)
    found = np.reshape(composite_products(heavier.plan, *vectors), added.shape)
    assert np.count_nonzero(added) == len(joints[::2])
    assert_close(found, np.array(crba(heavier.plan, q)), ALGEBRA, largest(found))


@pytest.mark.parametrize("robot", ROBOTS)
def test_coriolis_matrix_and_regressor_agree_between_methods(robot, monkeypatch):
    """Forces carried from body to body, and products in one frame; on floats."""
    model = ROBOTS[robot]
    plan, (q, v, vd) = model.plan, state_of(model)

    def found():
        rows = regressor_rows(plan, model.body_names, q, v, vd, GRAVITY)
        return np.array(coriolis(plan, q, v), dtype=float), np.array(rows, dtype=float)

    monkeypatch.setattr(pair_products, "FEW_DOF", 10**9)
    by_pairs = found()
    monkeypatch.setattr(pair_products, "FEW_DOF", -1)
    for ours, expected in zip(found(), by_pairs, strict=True):
        assert_close(ours, expected, ALGEBRA, 10 * largest(expected))


def test_zero_vectors_are_skipped():
    """An entry all of whose products vanish is zero without a product."""
    plan = ROBOTS["odd_arm"].plan
    ones = components([(1.0,) * 6] * plan.nv, 6)
    zeros = components([(0.0,) * 6] * plan.nv, 6)
    full = np.reshape(joint_matrix(plan, [(ones, ones)], [(ones, ones)]), (plan.nv, plan.nv))
    part = np.reshape(joint_matrix(plan, [(ones, ones)], [(zeros, ones)]), (plan.nv, plan.nv))
    assert np.array_equal(part, np.triu(full, 1))
    assert full.max() == 6.0


@pytest.mark.parametrize("name", MATRICES)
def test_tape_equals_inlined_code(name, monkeypatch):
    """A tree beyond the size up to which vectors are found inline, on the interpreter."""
    model = random_tree(
        5, MAX_INLINED_BODIES + 2, ("revolute", "prismatic", "universal", "spherical")
    )
    source = LibrarySource(model, (name,), DEFAULT_WORLD)
    taped = source.program()
    monkeypatch.setattr(pair_products, "MAX_INLINED_BODIES", 10**9)
    monkeypatch.setattr(kernel_source, "INLINED_BODIES", 10**9)
    inlined = source.program()
    q, v, vd = (np.array(x) for x in state_of(model))
    given = {"q": q, "v": v, "vd": vd, **source.parameters()}
    state = [np.asarray(given[item.name]) for item in taped.inputs]
    found, expected = interpret(taped, state), interpret(inlined, state)
    condition = np.linalg.cond(crba(model.plan, q.tolist())) if "inverse" in name else 100.0
    assert_close(found, expected, ALGEBRA, condition * largest(expected))


@pytest.mark.parametrize(
    ("name", "bodies"),
    [
        ("mass_matrix", 42),
        ("inverse_mass_matrix", 42),
        ("coriolis_matrix", 42),
        ("regressor", 20),
        # all visits on the tape, as those of the matrices above
        pytest.param("regressor", 42, marks=pytest.mark.slow),
    ],
)
def test_large_models_give_the_same_bits_alone_and_in_batches(name, bodies):
    """Native code, of a tree in which few bodies are alike; values against floats."""
    model = irregular_tree(bodies)
    assert bodies > MAX_INLINED_BODIES
    source = LibrarySource(model, (name,), DEFAULT_WORLD)
    kernel = make_kernel(source, source.parameters())
    arguments = [RANDOM.standard_normal((5, *item.shape)) for item in kernel.__self__.inputs]
    batch = kernel(*arguments)
    for case in range(5):
        assert np.array_equal(batch[case], kernel(*[x[case] for x in arguments]))
    state = [x[0].tolist() for x in arguments]
    H = np.array(crba(model.plan, state[0]), dtype=float)
    expected = {
        "mass_matrix": lambda: H,
        "inverse_mass_matrix": lambda: np.linalg.inv(H),
        "coriolis_matrix": lambda: coriolis(model.plan, *state),
        "regressor": lambda: regressor_rows(
            model.plan, model.body_names, *state, DEFAULT_WORLD.gravity
        ),
    }[name]()
    condition = np.linalg.cond(H) if "inverse" in name else 100.0
    assert_close(batch[0], np.array(expected, dtype=float), ALGEBRA, condition * largest(expected))


@pytest.mark.parametrize("name", [*MATRICES, "forward_dynamics_derivatives"])
def test_graphs_of_large_models_grow_with_results_only(name):
    """Twice the links: at most as many more nodes as there are more numbers to give."""

    def beyond_results(links):
        program = LibrarySource(chain(links), (name,), DEFAULT_WORLD).program()
        graph = program.graph
        live = graph.live(program.roots)
        assert any(isinstance(graph.payloads[n], RowProducts) for n in live)
        return sum(graph.ops[n] != "result" for n in live)

    assert beyond_results(72) < 2.1 * beyond_results(36)
