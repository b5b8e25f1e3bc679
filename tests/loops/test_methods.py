"""Methods of forward dynamics with loops agree with each other and with dense linear algebra.

Conditions are water with added mass and drag, external forces and inertias, armatures, gears and
rotors, alone and together. The last part pins two bodies at two points a small distance apart: the
ratio of singular values is proportional to that distance, the forces to its inverse, and no method
may square the ratio.
"""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.loops.dense import allowed, closed, dense_acceleration, dense_constraints
from tests.loops.random_mechanisms import KINDS, _closed_here, random_mechanism
from tiburon.algorithms.crba import crba
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.setting import Setting, with_given_inertias
from tiburon.algorithms.surroundings import surroundings
from tiburon.algorithms.tape_calls import JointVector
from tiburon.loops.constraints import constraints
from tiburon.loops.methods import METHODS, constrained_motion, residual
from tiburon.loops.metric import ArticulatedMetric, CoupledMetric

RANDOM = np.random.default_rng(12)

GRAVITY = (0.3, -0.2, -9.81)

TOLERANCE = 1e-9
"""Between methods, relative: round-off over a squared ratio of singular values of 1e-3."""


def dense(model, q, v, tau, gravity=GRAVITY):
    """Solve the augmented system densely: accelerations, shortest forces, ratio, rank."""
    plan, position, velocity = model.plan, JointVector(q), JointVector(v)
    H = np.array(crba(plan, position), dtype=float)
    C = np.array(rnea(plan, position, velocity, JointVector(np.zeros(model.nv)), gravity))
    held = dense_constraints(model, q, v)
    L = np.linalg.cholesky(H)
    G = np.linalg.solve(L, held.J.T)
    sizes = np.linalg.svd(G, compute_uv=False)
    sizes = sizes[sizes > 1e-10 * sizes[0]]
    free = np.linalg.solve(H, tau - C)
    y = np.linalg.pinv(G.T, rcond=1e-10) @ (-held.bias - held.J @ free)
    vd = free + np.linalg.solve(L.T, y)
    return vd, np.linalg.pinv(G, rcond=1e-10) @ y, sizes[-1] / sizes[0], len(sizes)


def motion(model, q, v, tau, method, gravity=GRAVITY, plan=None):
    """Run one method on floats."""
    around = Setting(model, (("method", method),), (), plan or model.plan, gravity)
    return constrained_motion(around, *(JointVector(list(x)) for x in (q, v, tau)))


def methods_of(model):
    """Return the names of all methods for a mechanism."""
    return [*METHODS, *(["star"] if tb.star(model).is_star else [])]


def kicked(model, q):
    return q, allowed(model, q, RANDOM.standard_normal(model.nv)), RANDOM.standard_normal(model.nv)


@pytest.mark.parametrize(
    "number", [0, 1, *(pytest.param(number, marks=pytest.mark.slow) for number in (2, 3))]
)
@pytest.mark.parametrize("kind", KINDS)
def test_methods_agree_with_dense_algebra_on_random_mechanisms(kind, number):
    model, q = random_mechanism(kind, np.random.default_rng([number, KINDS.index(kind)]))
    assert np.abs(dense_constraints(model, q).value).max() < 1e-12
    q, v, tau = kicked(model, q)
    expected, forces, ratio, rank = dense(model, q, v, tau)
    assert ratio > 1e-3
    if kind == "redundant":
        assert rank < np.count_nonzero(np.abs(dense_constraints(model, q).J).max(axis=1) > 1e-9)
    assert tb.star(model).is_star is (kind != "tied")
    for method in methods_of(model):
        found = motion(model, q, v, tau, method)
        np.testing.assert_allclose(
            found.vd, expected, atol=TOLERANCE * np.abs(expected).max(), err_msg=method
        )
        # repeated constraints share their forces only as far as proximal passes come
        loose = 1e-5 if method == "proximal" else TOLERANCE
        np.testing.assert_allclose(
            found.multipliers, forces, atol=loose * np.abs(forces).max(), err_msg=method
        )
        assert found.rank == (-1.0 if method == "proximal" else rank)


@pytest.mark.parametrize("method", ["augmented", "handles"])
@pytest.mark.parametrize("distance", [1e-2, 1e-4, 1e-6])
def test_condition_is_not_squared_near_singular_poses(method, distance):
    """Two four-bars next to lying flat: ratios of singular values down to 1e-6."""
    model = tb.load("n_four_bar_2")
    lean = np.pi / 2 - distance
    leaning = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    q, v = lean * leaning, 0.7 * leaning
    tau = RANDOM.standard_normal(5)
    _, _, ratio, _ = dense(model, q, v, tau)
    assert 1e-7 < ratio < 2.0 * distance
    found = motion(model, q, v, tau, method)
    # one freedom: what the joints do must add up along it, whatever loops carry (principle of
    # virtual power), and loops must stay closed
    H = np.array(crba(model.plan, JointVector(q)), dtype=float)
    C = np.array(
        rnea(model.plan, JointVector(q), JointVector(v), JointVector(np.zeros(5)), GRAVITY)
    )
    rate = leaning @ (tau - C) / (leaning @ H @ leaning)
    # round-off over the ratio itself
    np.testing.assert_allclose(found.vd, rate * leaning, atol=1e-14 / ratio * 100.0)


def test_proximal_passes_and_residual_are_reported():
    model = tb.load("bricard")
    q = closed(model, model.integrate(model.neutral(), 0.05 * RANDOM.standard_normal(model.nv)))
    q, v, tau = kicked(model, q)
    found = tb.loop_dynamics(model, q, v, tau, method="proximal")
    assert 1 <= found.iterations <= 10
    J, bias = dense_constraints(model, q, v)[1:]
    left = np.abs(J @ found.acceleration + bias).max()
    np.testing.assert_allclose(found.residual, left, atol=1e-13)
    assert found.residual < 1e-9
    assert found.rank == -1


@pytest.mark.parametrize("distance", [0.3, 1e-2, 1e-3])
def test_rate_of_proximal_passes_shows_the_distance_from_a_singular_pose(distance):
    """Two four-bars next to lying flat: right accelerations, and the ratio of the constraints."""
    model = tb.load("n_four_bar_2")
    leaning = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    q, v = (np.pi / 2 - distance) * leaning, 0.7 * leaning
    tau = RANDOM.standard_normal(5)
    exact = tb.loop_dynamics(model, q, v, tau, method="augmented")
    found = tb.loop_dynamics(model, q, v, tau, method="proximal")
    # iterations end at a residual of 1e-12, over the ratio and the squared compliance
    scale = 1.0 + np.abs(exact.acceleration).max()
    np.testing.assert_allclose(found.acceleration, exact.acceleration, atol=1e-6 * scale)
    # an estimate from the slowest constraint that carries load
    assert 0.2 < found.ratio / exact.ratio < 5.0


@pytest.mark.parametrize("distance", [1e-5, 1e-6, 1e-8])
def test_proximal_passes_that_do_not_converge_are_refused(distance):
    """Their residual is small and their accelerations are wrong by a third."""
    model = tb.load("n_four_bar_2")
    leaning = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    q = (np.pi / 2 - np.array([[distance], [0.3]])) * leaning
    v, tau = 0.7 * leaning, RANDOM.standard_normal(5)
    for function in (tb.loop_dynamics, tb.forward_dynamics):
        with pytest.raises(tb.DomainError, match=r"near a singular configuration.*'augmented'"):
            function(model, q[0], v, tau, method="proximal")
    found, failed = tb.forward_dynamics(model, q, v, tau, method="proximal", errors="flag")
    assert failed.tolist() == [True, False]
    assert np.isnan(found[0]).all()


def test_residual_detects_wrong_solutions():
    model = tb.load("four_bar")
    q, v, tau = kicked(model, closed(model, model.poses["home"]))
    held = constraints(model, model.plan, JointVector(q), JointVector(v))
    found = motion(model, q, v, tau, "handles")
    assert residual(held, found.vd) < 1e-12
    wrong = [found.vd[0] + 0.1, *found.vd[1:]]
    assert residual(held, wrong) > 1e-3


def test_articulated_bodies_factor_the_mass_matrix():
    """J H^-1 J^T = sum over joints of shares (Featherstone 1987, eq. 9.27, from the world out)."""
    model, q = random_mechanism("floating", np.random.default_rng(5))
    metric = ArticulatedMetric(model.plan, JointVector(q))
    J = dense_constraints(model, q).J
    shares = [metric.solve_transpose({i: x for i, x in enumerate(row) if x != 0.0}) for row in J]
    G = np.zeros(J.shape)
    for row, share in zip(G, shares, strict=True):
        for i, x in share.items():
            row[i] = x * np.sqrt(metric.inverse_D[i])
    H = np.array(crba(model.plan, JointVector(q)), dtype=float)
    np.testing.assert_allclose(G @ G.T, J @ np.linalg.solve(H, J.T), atol=1e-11)


@pytest.mark.parametrize("method", METHODS)
def test_constraint_forces_vanish_in_free_fall(method):
    """T12: gravity must not pull at the world's end of a loop.

    A robot that falls as a whole, hung on nothing but a free joint, feels no loop forces at rest.
    """
    model, q = random_mechanism("floating", np.random.default_rng(6))
    at_rest = np.zeros(model.nv)
    found = motion(model, q, at_rest, at_rest, method)
    assert np.abs(found.multipliers).max() < 1e-9
    still = motion(model, q, at_rest, at_rest, method, gravity=(0.0, 0.0, 0.0))
    assert np.abs(still.vd).max() == 0.0


@pytest.mark.parametrize("method", METHODS)
def test_gravity_enters_loops_to_the_world_once(method):
    """T12: a pendulum pinned to the world twice at one point swings as if pinned once."""
    body = tb.Body(
        "bob",
        joint=tb.Revolute("pivot", (0.0, 1.0, 0.0)),
        inertia=tb.Inertia(2.0, (0.5, 0.0, 0.0), (0.1, 0.0, 0.0, 0.2, 0.0, 0.2)),
    )
    pin = tb.LoopClosure("again", "world", "bob", tb.Revolute("pin", (0.0, 1.0, 0.0)))
    model = tb.Model("pinned twice", [body], loops=[pin])
    free = tb.Model("free", [replace(body, joint=tb.Free("float"))], loops=[pin])
    q, v = np.array([0.4]), np.array([1.3])
    # m g c cos(q) / (I + m c^2), about +y downward from the x axis
    expected = 2.0 * 9.81 * 0.5 * np.cos(0.4) / (0.2 + 2.0 * 0.25)
    half = 0.2
    afloat = np.array([np.cos(half), 0.0, np.sin(half), 0.0, 0.0, 0.0, 0.0])
    turning = np.array([0.0, 1.3, 0.0, 0.0, 0.0, 0.0])
    earth = (0.0, 0.0, -9.81)
    found = motion(free, afloat, turning, np.zeros(6), method, gravity=earth)
    np.testing.assert_allclose(found.vd[1], expected, rtol=1e-9)
    found = motion(model, q, v, np.zeros(1), method, gravity=earth)
    np.testing.assert_allclose(found.vd[0], expected, rtol=1e-9)


def test_methods_are_offered_by_name():
    model = tb.load("four_bar")
    state = model.poses["home"], np.zeros(3), np.zeros(3)
    with pytest.raises(tb.OptionError, match="handles"):
        tb.forward_dynamics(model, *state, method="articulated")
    with pytest.raises(tb.OptionError, match="composite"):
        tb.forward_dynamics(model.without_loops(), *state, method="handles")


# -- the augmented system --------------------------------------------------------------------------


AUGMENTED_RANDOM = np.random.default_rng(9)

MECHANISMS = ["four_bar", "planar_3rrr", "stewart", "delta", "bricard", "andrews_squeezer"]


def closed_state(model):
    """A closed, moving state away from special poses."""
    q = closed(
        model, model.integrate(model.neutral(), 0.05 * AUGMENTED_RANDOM.standard_normal(model.nv))
    )
    v = allowed(model, q, AUGMENTED_RANDOM.standard_normal(model.nv))
    return q, v, AUGMENTED_RANDOM.standard_normal(model.nv)


@pytest.mark.parametrize("name", MECHANISMS)
def test_accelerations_are_those_of_the_dense_system(name):
    model = tb.load(name)
    q, v, tau = closed_state(model)
    assert np.abs(dense_constraints(model, q).value).max() < 1e-12
    expected, _ = dense_acceleration(model, q, v, tau)
    found = tb.forward_dynamics(model, q, v, tau)
    # the squared condition of the constraints is at most 1e6 on the quick way
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_four_bar_of_the_digest():
    """Uniform rods 0.4, 1.1, 0.9 m; pivots 1 m apart (Featherstone 1987, eq. 9.17)."""
    model = tb.load("four_bar")
    q = model.poses["home"]
    J = dense_constraints(model, q).J
    v = np.array([3.0, *np.linalg.lstsq(J[:, 1:], -3.0 * J[:, 0], rcond=None)[0]])
    found = tb.forward_dynamics(model, q, v, np.zeros(3))
    # the digest gives eight decimals
    np.testing.assert_allclose(found, [-19.79873557, 26.87156196, -0.77944604], atol=5e-8)


def test_batch_has_the_bits_of_single_calls():
    model = tb.load("stewart")
    states = [closed_state(model) for _ in range(5)]
    batch = tb.forward_dynamics(model, *(np.array(x) for x in zip(*states, strict=True)))
    for row, state in zip(batch, states, strict=True):
        np.testing.assert_array_equal(row, tb.forward_dynamics(model, *state))


def test_functions_of_trees_still_refuse_loops():
    model = tb.load("four_bar")
    with pytest.raises(tb.ModelError, match="mass_matrix is for trees"):
        tb.mass_matrix(model, model.neutral())


@pytest.mark.parametrize("off", [0.0, 1e-13, 1e-11])
def test_vanishing_rows_are_redundant(off):
    """Four-bars flat on one line: rows along it are rounding alone, and no constraint."""
    model = tb.load("n_four_bar_2")
    start = np.where([name.startswith("pivot") for name in model.v_names], -1.0, 1.0)
    q, v, tau = model.neutral() + start * (np.pi / 2 + off), 2.0 * start, np.zeros(model.nv)
    found = tb.loop_dynamics(model, q, v, tau)
    vd, force = dense_acceleration(model, q, v, tau)
    assert found.rank == 2
    np.testing.assert_allclose(found.acceleration, vd, atol=1e-9)
    np.testing.assert_allclose(found.constraint_force, force, atol=1e-9)


def test_vanishing_pivots_of_the_elimination_order_are_detected():
    """Two arms welded to one load: at home some rows bind only joints that come later."""
    model = tb.load("two_pumas")
    q = np.array(model.poses["home"]) if "home" in model.poses else model.neutral()
    v = allowed(model, q, AUGMENTED_RANDOM.standard_normal(model.nv))
    tau = AUGMENTED_RANDOM.standard_normal(model.nv)
    expected, _ = dense_acceleration(model, q, v, tau)
    found = tb.forward_dynamics(model, q, v, tau)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


# -- under all conditions --------------------------------------------------------------------------


CONDITIONS_RANDOM = np.random.default_rng(34)


def rebuilt(model, bodies):
    return tb.Model(model.name, bodies, loops=model.loops)


def with_armatures(model):
    bodies = [
        replace(body, joint=replace(body.joint, armature=0.1 + 0.05 * k))
        if body.joint.nv == 1
        else body
        for k, body in enumerate(model.bodies)
    ]
    return rebuilt(model, bodies)


def with_gears(model):
    """Rotors in three links, spun by joints elsewhere: their variables meet at links and world."""
    leaders = [body for body in model.bodies if body.joint.nv == 1]
    first, last = leaders[0], leaders[-1]
    base, tip = model.bodies[0].name, model.bodies[-1].name
    across = tb.Pose.from_rpy((0.4, 0.2, -0.3), (0.1, 0.0, 0.05))
    rotors = [
        tb.rotor("r0", base, last.joint, ratio=-7.0, inertia=2e-3, mass=0.1, pose=across),
        tb.rotor("r1", last.name, last.joint, ratio=5.0, inertia=3e-3, mass=0.2, pose=across),
        tb.rotor("r2", tip, first.joint, ratio=3.0, inertia=4e-3, mass=0.15, pose=across),
    ]
    return rebuilt(model, [*model.bodies, *rotors])


def with_water(model):
    A = 0.1 * CONDITIONS_RANDOM.standard_normal((6, 6))
    fluid = tb.BodyFluid(
        volume=5e-4,
        center_of_buoyancy=(0.05, 0.0, 0.02),
        added_mass=0.1 * np.eye(6) + A @ A.T,
        linear_damping=(0.3,) * 6,
    )
    return rebuilt(model, [replace(body, fluid=fluid) for body in model.bodies])


def setting(model, method, world, options, arrays):
    """Return what a function of dynamics runs under, on floats."""
    plan, gravity, water = surroundings(model, world)
    chosen = (("method", method), *options)
    plan = with_given_inertias(plan, chosen, arrays)
    return Setting(model, chosen, arrays, plan, gravity, water)


def dense_under(around, q, v, tau):
    """Solve the augmented system of a setting densely."""
    model, zero = around.model, JointVector([0.0] * around.plan.nv)
    H = np.array(crba(around.plan, q), dtype=float)
    C = np.array(rnea(around.plan, q, v, zero, around.gravity, around.external), dtype=float)
    held = dense_constraints(model, list(q), list(v))
    L = np.linalg.cholesky(H)
    G = np.linalg.solve(L, held.J.T)
    s = np.linalg.svd(G, compute_uv=False)
    s = s[s > 1e-10 * s[0]]
    free = np.linalg.solve(H, np.array(tau) - C)
    y = np.linalg.pinv(G.T, rcond=1e-10) @ (-held.bias - held.J @ free)
    return free + np.linalg.solve(L.T, y), np.linalg.pinv(G, rcond=1e-10) @ y, s[-1] / s[0]


CONDITIONS = {
    "armatures": (with_armatures,),
    "gears": (with_gears,),
    "gears with armatures": (with_gears, with_armatures),
    "water": (with_water,),
    "pushes": (),
    "all": (with_gears, with_armatures, with_water),
}


FRAMES = ("planar", "spatial", "redundant", "floating")

PAIRS = [
    pytest.param(
        *(kind, condition),
        # quick: all kinds together with all conditions, and every second pair of the others
        marks=pytest.mark.slow if condition != "all" and (row + column) % 2 else (),
    )
    for row, condition in enumerate(CONDITIONS)
    for column, kind in enumerate(FRAMES)
]


@pytest.mark.parametrize(("kind", "condition"), PAIRS)
def test_methods_agree_under_all_conditions(kind, condition):
    bare, q = random_mechanism(kind, np.random.default_rng([3, len(kind)]))
    model = bare
    for change in CONDITIONS[condition]:
        model = change(model)
    world = tb.World(fluid=tb.Water() if condition in ("water", "all") else None)
    options, arrays = (), ()
    if condition in ("pushes", "all"):
        options = (("external_force", ("a1", "b2")), ("external_axes", "frame"))
        arrays = (CONDITIONS_RANDOM.standard_normal(6), CONDITIONS_RANDOM.standard_normal(6))
    v = allowed(model, q, CONDITIONS_RANDOM.standard_normal(model.nv))
    tau = CONDITIONS_RANDOM.standard_normal(model.nv)
    state = [JointVector(list(x)) for x in (q, v, tau)]
    here = setting(model, "augmented", world, options, arrays).at(*state[:2])
    expected, forces, ratio = dense_under(here, *state)
    assert ratio > 1e-3
    # each condition matters
    plain = setting(bare, "augmented", tb.World(), (), ()).at(*state[:2])
    assert np.abs(dense_under(plain, *state)[0] - expected).max() > 1e-3
    for method in methods_of(model):
        around = setting(model, method, world, options, arrays).at(*state[:2])
        found = constrained_motion(around, *state)
        np.testing.assert_allclose(
            found.vd, expected, atol=TOLERANCE * np.abs(expected).max(), err_msg=method
        )
        # repeated constraints share their forces only as far as proximal passes come
        loose = 1e-5 if method == "proximal" else TOLERANCE
        np.testing.assert_allclose(
            found.multipliers, forces, atol=loose * np.abs(forces).max(), err_msg=method
        )


@pytest.mark.parametrize("kind", ["planar", "spatial", "floating"])
def test_shared_variables_factor_the_mass_matrix(kind):
    """f^T H^-1 f = sum of squared shares over D, and L^-1 D^-1 L^-T f is H^-1 f."""
    model = with_armatures(with_gears(random_mechanism(kind, np.random.default_rng(8))[0]))
    q = model.integrate(model.neutral(), 0.7 * CONDITIONS_RANDOM.standard_normal(model.nv))
    metric = CoupledMetric(model.plan, JointVector(q))
    H = np.array(crba(model.plan, JointVector(q)), dtype=float)
    D = 1.0 / np.array(metric.inverse_D)
    np.testing.assert_allclose(np.prod(D), np.linalg.det(H), rtol=1e-10)
    for _ in range(3):
        force = CONDITIONS_RANDOM.standard_normal(model.nv)
        shares = metric.solve_transpose(dict(enumerate(force)))
        rates = np.array([shares.get(i, 0.0) for i in range(model.nv)]) / D
        expected = np.linalg.solve(H, force)
        # round-off of a mass matrix of condition some thousands
        np.testing.assert_allclose(
            metric.solve_lower(rates), expected, atol=1e-10 * abs(expected).max()
        )
        np.testing.assert_allclose(rates @ (D * rates), force @ expected, rtol=1e-10)


def test_gears_take_handles_natively():
    """A four-bar whose crank spins a flywheel in the coupler: both methods, compiled."""
    whole = tb.load("four_bar")
    wheel = tb.rotor("wheel", "coupler", "input", ratio=-4.0, inertia=2e-3, mass=0.1)
    model = tb.Model("geared", [*whole.bodies, wheel], loops=whole.loops)
    q = np.array(whole.poses["home"])
    v = tb.project_velocity(model, q, np.array([1.5, 0.0, 0.0]))
    tau = CONDITIONS_RANDOM.standard_normal(3)
    reference = tb.forward_dynamics(model, q, v, tau)
    found = tb.forward_dynamics(model, q, v, tau, method="handles")
    np.testing.assert_allclose(found, reference, atol=1e-10 * np.abs(reference).max())
    assert np.abs(tb.forward_dynamics(whole, q, v, tau) - reference).max() > 1e-2


# -- next to singular configurations ---------------------------------------------------------------


SINGULAR_RANDOM = np.random.default_rng(37)

EPSILON = np.finfo(float).eps


def pinned_beside(kind, distance, seed):
    """A random mechanism whose first two legs are tied once more, a distance beside their pin."""
    model, q = random_mechanism(kind, np.random.default_rng([seed, 7]))
    planar = kind in ("planar", "redundant")
    size = 4 if planar else 3
    first, second = f"a{size - 1}", f"b{size - 1}"
    pin = _closed_here(model.without_loops(), q, first, second, "beside", planar)
    own, other = pin.joint.pose, pin.second_pose
    # along x of the first body, as the second body sees it
    R = np.array(other.rotation) @ np.array(own.rotation).T
    step = np.array([distance, 0.0, 0.0])
    at = tb.Pose(own.rotation, np.array(own.translation) + step)
    there = tb.Pose(other.rotation, np.array(other.translation) + R @ step)
    tie = replace(pin, joint=replace(pin.joint, pose=at), second_pose=there)
    return tb.Model("pinned beside", model.bodies, loops=[*model.loops, tie]), q


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize(
    ("distance", "seed"),
    [
        *((1e-2, 0), (1e-6, 1)),
        *(
            pytest.param(*x, marks=pytest.mark.slow)
            for x in ((1e-2, 1), (1e-4, 0), (1e-4, 1), (1e-5, 0), (1e-5, 1), (1e-6, 0))
        ),
    ],
)
def test_methods_agree_with_dense_algebra_next_to_singular(kind, distance, seed):
    model, q = pinned_beside(kind, distance, seed)
    held = dense_constraints(model, q)
    assert np.abs(held.value).max() < 1e-14
    v = SINGULAR_RANDOM.standard_normal(model.nv)
    v = v - np.linalg.pinv(held.J, rcond=1e-10) @ (held.J @ v)
    tau = SINGULAR_RANDOM.standard_normal(model.nv)
    expected, forces, ratio, rank = dense(model, q, v, tau)
    assert 1e-8 < ratio < distance
    # below a ratio of 1e-6 dense algebra in doubles keeps no more itself
    kept = max(1e-9, 30.0 * EPSILON / ratio)
    for method in ("augmented", "handles"):
        found = motion(model, q, v, tau, method)
        np.testing.assert_allclose(
            found.vd, expected, atol=kept * np.abs(expected).max(), err_msg=method
        )
        np.testing.assert_allclose(
            found.multipliers, forces, atol=kept * np.abs(forces).max(), err_msg=method
        )
        assert found.rank == rank
        assert ratio / 3.0 < float(found.ratio) < 3.0 * ratio
