"""Like branches side by side: which are alike, and accelerations of legged robots of all kinds."""

import dataclasses

import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import GENERAL, general_joint, random_axis, random_inertia, random_pose
from tests.robots import ROBOTS, kicked
from tests.tolerances import ALGEBRA, assert_close
from tiburon.algorithms.like_branches import like_branches
from tiburon.algorithms.pair_products import MAX_INLINED_BODIES
from tiburon.algorithms.traversal import to_roots
from tiburon.functions.kernel_source import LibrarySource
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.trace import interpret, trace
from tiburon.trace.regions.lanes import LanesRegion


def groups(model):
    """Groups of like branches in a trace."""
    found = []
    trace(lambda x: found.append(like_branches(model.plan)) or x, {"x": ()})
    return found[0]


def regions(model, function=tb.forward_dynamics):
    """Calls in lanes of a function."""
    return calls_in_lanes(LibrarySource(model, (function.__name__,), tb.World()).program())


def calls_in_lanes(program):
    """Calls in lanes of a program."""
    graph = program.graph
    called = [graph.payloads[n] for n in graph.live(program.roots) if graph.ops[n] == "call"]
    return [callee for callee in called if isinstance(callee, LanesRegion)]


def legged(seed, legs, kinds, *, base="free", toes=0, mirrored=False):
    """A base with legs of the same kinds of joints, placed at random or mirrored."""
    rng = np.random.default_rng(seed)
    bodies, parent = [], "world"
    if base != "world":
        joint = tb.Free("float") if base == "free" else tb.Revolute("turn", (0.0, 0.0, 1.0))
        bodies.append(tb.Body("base", joint=joint, inertia=random_inertia(rng)))
        parent = "base"
    first = [(random_axis(rng), random_pose(rng)) for _ in (*kinds, *range(toes))]
    for leg in range(legs):
        above = parent
        for k, kind in enumerate((*kinds, *["revolute"] * toes)):
            name = f"leg{leg}_{k}"
            axis, pose = first[k] if mirrored else (random_axis(rng), random_pose(rng))
            if mirrored:
                signs = np.array([1.0 - 2.0 * (leg & 1), 1.0 - (leg & 2), 1.0])
                pose = tb.Pose(np.eye(3), signs * np.array(pose.translation))
                axis = np.eye(3)[k % 3]
            if kind in GENERAL:
                joint = general_joint(rng, kind, name, axis, pose)
            elif kind == "revolute":
                joint = tb.Revolute(name, axis, float(rng.uniform(-1, 1)), pose=pose)
            else:
                joint = tb.Prismatic(name, axis, pose=pose)
            bodies.append(tb.Body(name, above, joint=joint, inertia=random_inertia(rng)))
            # toes hang on the last body of the leg
            above = name if k < len(kinds) - 1 else f"leg{leg}_{len(kinds) - 1}"
    return tb.Model(f"legged{seed}", bodies)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("quadruped", [(4, 3)]),
        ("osu_hexapod", [(6, 3)]),
        ("aquarobot", [(6, 4)]),
        ("panda", []),
        ("tiburon_titan", []),
    ],
)
def test_branches_of_known_robots(name, expected):
    """Legs that are mirrored, stand elsewhere or at right angles are alike."""
    model = tb.load(name)
    assert [(len(group), len(group[0])) for group in groups(model)] == expected
    assert [region.calls for region in regions(model)] == [n for n, _ in expected for _ in range(3)]


def test_bodies_at_one_place_are_alike_and_others_are_not():
    """Different kinds of joints, and different shapes of branches, divide groups."""
    like = legged(1, 4, ("revolute", "prismatic"), toes=2)
    (group,) = groups(like)
    names = [[like.plan.bodies[index].name for index in branch] for branch in group]
    assert names == [[f"leg{leg}_{k}" for k in range(4)] for leg in range(4)]
    bodies = list(like.bodies)
    odd = tb.Body("more", "leg2_3", joint=tb.Revolute("more", (1, 0, 0)), inertia=bodies[0].inertia)
    ((*rest,),) = groups(tb.Model("odd", [*bodies, odd]))
    assert [like.plan.bodies[branch[0]].name for branch in rest] == ["leg0_0", "leg1_0", "leg3_0"]
    assert groups(legged(1, 1, ("revolute", "prismatic"))) == ()
    assert groups(legged(1, 3, ("revolute",))) == ()
    # outside of a trace visits run one by one
    assert like_branches(like.plan) == ()


SHAPES = {
    "floating": (4, ("revolute", "revolute", "revolute"), {}),
    "turning": (3, ("prismatic", "spherical"), {"base": "turning"}),
    "on_the_world": (5, ("spherical", "revolute"), {"base": "world"}),
    "toes": (4, ("revolute", "cylindrical"), {"toes": 2}),
    "mirrored": (4, ("revolute", "revolute", "revolute"), {"mirrored": True}),
    "screws": (9, ("screw", "planar"), {}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_accelerations_equal_those_of_the_mass_matrix(shape):
    """For one case and for batches, with the same bits."""
    legs, kinds, options = SHAPES[shape]
    model = legged(7, legs, kinds, **options)
    assert groups(model)
    q, v, tau = kicked(model, seed=2, shape=(3,))
    found = tb.forward_dynamics(model, q, v, tau, method="articulated")
    alone = [
        tb.forward_dynamics(model, *case, method="articulated")
        for case in zip(q, v, tau, strict=True)
    ]
    assert found.tobytes() == np.array(alone).tobytes()
    assert_close(found, tb.forward_dynamics(model, q, v, tau, method="composite"), 100 * ALGEBRA)
    assert_close(tb.inverse_dynamics(model, q, v, found), tau, 100 * ALGEBRA)


SIDE_BY_SIDE = {
    tb.inverse_dynamics: ("q", "v", "vd"),
    tb.bias_force: ("q", "v"),
    tb.mass_matrix: ("q",),
    tb.inverse_dynamics_derivatives: ("q", "v", "vd"),
}
"""Other functions of trees that visit like branches side by side, and their arguments."""


@pytest.mark.parametrize(
    "shape",
    # the test above has these shapes, too: signs of numbers, and more legs than lanes
    [
        pytest.param(x, marks=pytest.mark.slow if x in ("mirrored", "screws") else ())
        for x in SHAPES
    ],
)
def test_functions_of_like_branches_have_the_same_bits_alone_and_in_batches(shape):
    """And agree with each other: H vd + C, energies and differences of forces."""
    legs, kinds, options = SHAPES[shape]
    model = legged(7, legs, kinds, **options)
    q, v, vd = kicked(model, seed=3, shape=(3,))
    given = {"q": q, "v": v, "vd": vd}
    results = {}
    for call, names in SIDE_BY_SIDE.items():
        source = LibrarySource(model, (call.__name__,), tb.World())
        program = source.program()
        if call is not tb.inverse_dynamics_derivatives or len(model.bodies) <= MAX_INLINED_BODIES:
            assert calls_in_lanes(program), call.__name__
        kernel = make_kernel(ProgramSource(program), source.parameters())
        found = kernel(*(given[name] for name in names))
        parts = found if isinstance(found, tuple) else (found,)
        for case in range(3):
            alone = kernel(*(given[name][case] for name in names))
            for one, all_of in zip(
                alone if isinstance(alone, tuple) else (alone,), parts, strict=True
            ):
                assert one.tobytes() == all_of[case].tobytes(), call.__name__
        results[call] = found
    H, C = results[tb.mass_matrix], results[tb.bias_force]
    forces = results[tb.inverse_dynamics]
    assert_close(np.einsum("kij,kj->ki", H, vd) + C, forces, 100 * ALGEBRA)
    assert_close(
        0.5 * np.einsum("kij,ki,kj->k", H, v, v), tb.kinetic_energy(model, q, v), 100 * ALGEBRA
    )
    # accelerations by articulated bodies, whose visits are others
    back = tb.forward_dynamics(model, q, v, forces, method="articulated")
    assert_close(back, vd, 1e4 * ALGEBRA)
    _, _, by_v, _ = results[tb.inverse_dynamics_derivatives]
    for j in range(model.nv):
        step = np.eye(model.nv)[j]
        sides = [tb.inverse_dynamics(model, q, v + s * step, vd) for s in (1, -1)]
        # forces are quadratic in v: a central difference of any step is exact up to rounding
        assert_close(0.5 * (sides[0] - sides[1]), by_v[..., j], 1e3 * ALGEBRA)


@pytest.mark.parametrize("name", ["osu_hexapod", "aquarobot"])
def test_mass_matrix_of_many_like_legs_is_computed_side_by_side(name):
    """Robots of many bodies whose other functions compute products of vectors on a tape."""
    model = tb.load(name)
    assert regions(model, tb.mass_matrix)
    q, v, _ = kicked(model, seed=4, shape=(2,))
    H = tb.mass_matrix(model, q)
    assert H.tobytes() == np.array([tb.mass_matrix(model, one) for one in q]).tobytes()
    assert H.tobytes() == H.swapaxes(-1, -2).tobytes()
    rates = np.eye(model.nv)[:, None]
    assert_close(
        tb.inverse_dynamics(model, q, 0.0 * v, rates) - tb.bias_force(model, q, 0.0 * v),
        np.moveaxis(H, -1, 0),
        1e4 * ALGEBRA,
    )


def test_legs_in_water():
    """Added mass and drag of the legs differ in numbers only."""
    model, sea = tb.load("aquarobot"), tb.Water(current=(0.3, 0.1, 0.0))
    q, v, tau = kicked(model, seed=4)
    found = tb.forward_dynamics(model, q, v, tau, fluid=sea, method="articulated")
    expected = tb.forward_dynamics(model, q, v, tau, fluid=sea, method="composite")
    assert_close(found, expected, 1000 * ALGEBRA)


def test_legs_of_unlike_shapes_in_water():
    """Legs whose hydrodynamic data have other parts are visited one by one."""
    model, sea = tb.load("aquarobot"), tb.Water(current=(0.3, 0.1, 0.0))
    dry = [
        dataclasses.replace(body, fluid=None) if body.name == "leg_3_tibia" else body
        for body in model.bodies
    ]
    other = tb.Model("other", dry)
    q, v, tau = kicked(other, seed=6)
    found = tb.forward_dynamics(other, q, v, tau, fluid=sea, method="articulated")
    expected = tb.forward_dynamics(other, q, v, tau, fluid=sea, method="composite")
    assert_close(found, expected, 1000 * ALGEBRA)


@pytest.mark.parametrize("name", ["quadruped", "aquarobot"])
def test_values_from_feet_to_the_root_side_by_side(name):
    """Each foot passes what a visit by itself passes, along the same bodies."""
    model = tb.load(name)
    feet = [branch[-1] for branch in groups(model)[0]]

    def visit(body, value, weight):
        x = value * body.inertia.mass + weight
        return (x, x * x), lambda: x + 1.0

    def run(x):
        weights = [k + x[0] for k in range(len(model.plan.bodies))]
        values = [x[1] + k for k in range(len(feet))]
        found = []
        for lanes in (True, False):
            for way in to_roots(model.plan, feet, visit, values, weights, lanes=lanes):
                bodies.append([body.index for body, _ in way])
                found += [number for _, kept in way for number in kept]
        return found

    bodies = []
    program = trace(lambda x: np.array(run(x), dtype=object), {"x": (2,)})
    half = len(feet)
    assert bodies[:half] == bodies[half:]
    found = np.asarray(interpret(program, {"x": np.array([0.3, 0.7])}), float).ravel()
    assert_close(found[: len(found) // 2], found[len(found) // 2 :], ALGEBRA)
    called = [program.graph.payloads[n] for n in program.graph.live(program.roots)]
    assert [c.calls for c in called if isinstance(c, LanesRegion)] == [half]


def test_masses_of_one_leg_may_change():
    """Parameters of all legs are arguments of their own."""
    model = tb.load("quadruped")
    kernel = tb.compile(tb.forward_dynamics, model, parameters=("hind_left_shank.mass",))
    q, v, tau = kicked(model, seed=5)
    heavy = kernel(q, v, tau, parameters={"hind_left_shank.mass": 1.5})
    assert not np.allclose(heavy, kernel(q, v, tau), rtol=1e-3)
    state = tb.inverse_dynamics(model, q, v, kernel(q, v, tau))
    assert_close(state, tau, 100 * ALGEBRA)


def test_robots_without_like_branches_have_no_calls_in_lanes():
    """Their code stays as it was."""
    for name in ("panda", "chain_8", "forest"):
        model = ROBOTS[name] if name in ROBOTS else tb.load(name)
        for call in (tb.forward_dynamics, *SIDE_BY_SIDE):
            assert not regions(model, call)
