"""Terms of the equation of motion, hybrid dynamics, regressor and reactions as users call them.

Machine code against plain floats, batches, options, closed forms, and refusals.
"""

from dataclasses import replace

import numpy as np
import pytest

import benchmarks.robots as measured
import tiburon as tb
from tests.hydro.wet import immersed
from tests.model.samples import random_inertia, random_tree
from tests.model.test_coupled import tied
from tests.robots import ROBOTS, double_pendulum, kicked, pendulum
from tests.tolerances import ALGEBRA, SOLVE, assert_close
from tiburon.algorithms.bias import bias, gravity_forces
from tiburon.algorithms.coriolis import coriolis
from tiburon.algorithms.floating_base import floating_rnea
from tiburon.algorithms.forward import METHODS
from tiburon.algorithms.hybrid import hybrid_aba
from tiburon.algorithms.regressor import regressor_rows
from tiburon.errors import OptionError, ShapeError, UnknownNameError
from tiburon.functions.dynamics import cheaper_method
from tiburon.functions.kernel_source import LibrarySource
from tiburon.trace.count import count

ROVER = ROBOTS["rover"]
GRAVITY = (0.5, -1.0, -9.0)
WORLD = tb.World(gravity=GRAVITY)
SLOW = pytest.param("orrery", marks=pytest.mark.slow)
SOME = ["rover", "gantry", "balloon", "welded", "screw_chain", SLOW]
"""Branches, floating bases, floats inside a tree, welds; at length, every joint kind."""


def rows_of(*arrays):
    """Return the cases of a batch as lists of numbers."""
    return [[x.tolist() for x in case] for case in zip(*arrays, strict=True)]


def operations(model, name, options=()):
    """Count multiplications and additions of a public function."""
    found = count(LibrarySource(model, (name,), tb.World(), options).program())
    return found.multiplications + found.additions


@pytest.mark.parametrize("name", SOME)
def test_machine_code_equals_plain_floats(name):
    """Each function on a batch, against its recursion run on one case after the other."""
    model = ROBOTS[name]
    plan, bodies = model.plan, model.body_names
    q, v, vd = kicked(model, 51, (3,))
    expected = [bias(plan, *case, GRAVITY) for case in rows_of(q, v)]
    scale = max(1.0, np.abs(expected).max())
    assert_close(tb.bias_force(model, q, v, world=WORLD), expected, ALGEBRA, scale)
    expected = [gravity_forces(plan, *case, GRAVITY) for case in rows_of(q)]
    assert_close(tb.gravity_force(model, q, world=WORLD), expected)
    expected = [coriolis(plan, *case) for case in rows_of(q, v)]
    assert_close(tb.coriolis_matrix(model, q, v), expected)
    expected = [regressor_rows(plan, bodies, *case, GRAVITY) for case in rows_of(q, v, vd)]
    assert_close(tb.regressor(model, q, v, vd, world=WORLD), expected)
    rates, forces = tb.floating_base_inverse_dynamics(model, q, v, vd, world=WORLD)
    H = tb.mass_matrix(model, q)
    for number, case in enumerate(rows_of(q, v, vd)):
        found = floating_rnea(plan, *case, GRAVITY)
        scale = max(1.0, np.abs(found).max()) * np.linalg.cond(H[number])
        assert_close([rates[number], forces[number]], found, SOLVE, scale)


@pytest.mark.parametrize("name", SOME)
def test_inverse_mass_matrix_is_symmetric_and_inverts(name):
    """H^-1 H = 1, and the two triangles are equal in bits."""
    model = ROBOTS[name]
    q, *_ = kicked(model, 52, (3,))
    H, inverse = tb.mass_matrix(model, q), tb.inverse_mass_matrix(model, q)
    assert np.array_equal(inverse, np.swapaxes(inverse, -1, -2))
    assert_close(inverse @ H, [np.eye(model.nv)] * 3, SOLVE, np.linalg.cond(H).max())


@pytest.mark.parametrize("method", [None, *METHODS])
def test_hybrid_dynamics_by_joint_and_by_variable(method):
    """Names of joints and of single variables choose what is known; both methods agree."""
    q, v, tau = kicked(ROVER, 53, (4,))
    vd = kicked(ROVER, 54, (4,))[2]
    joint = ROVER.joint_names[-1]
    names = [joint, "float.wy"]
    rates, forces = tb.hybrid_dynamics(
        ROVER, q, v, tau, vd, known_acceleration=names, world=WORLD, method=method
    )
    known = np.zeros(ROVER.nv, dtype=bool)
    known[ROVER.slice(joint, of="v")] = True
    known[ROVER.v_names.index("float.wy")] = True
    assert np.array_equal(rates[:, known], vd[:, known])
    assert np.array_equal(forces[:, ~known], tau[:, ~known])
    H = tb.mass_matrix(ROVER, q)
    scale = max(1.0, np.abs(rates).max() * np.abs(H).max()) * np.linalg.cond(H).max()
    assert_close(tb.inverse_dynamics(ROVER, q, v, rates, world=WORLD), forces, SOLVE, scale)
    one = [x[0].tolist() for x in (q, v, tau, vd)]
    assert_close(rates[0], hybrid_aba(ROVER.plan, *one, known, GRAVITY)[0], SOLVE, scale)


def test_hybrid_dynamics_with_the_mass_matrix_skips_columns_of_known_accelerations():
    """The fewer accelerations are unknown, the less is computed (Featherstone 1987, sec. 7.5.2)."""
    model = measured.chain(6)

    def cost(known):
        options = (("method", "composite"), ("known_acceleration", tuple(known)))
        return operations(model, "hybrid_dynamics", options)

    all_forces, last_known, all_known = cost([]), cost([5]), cost(range(6))
    assert all_known < last_known < all_forces
    assert all_known == operations(model, "inverse_dynamics")


def test_floating_base_costs_less_than_forward_dynamics():
    """As Featherstone 1987, sec. 7.5.1 says, on a quadruped."""
    model = measured.quadruped()
    floating = operations(model, "floating_base_inverse_dynamics")
    assert operations(model, "inverse_dynamics") < floating
    assert floating < operations(model, "forward_dynamics")


def test_the_method_of_small_models_is_chosen_by_counted_operations():
    """Short chains use the mass matrix, long ones articulated bodies; either can be forced."""
    assert cheaper_method(ROBOTS["gantry"]) == "composite"
    assert cheaper_method(measured.chain(16)) == "articulated"
    for model in (double_pendulum(), ROBOTS["welded"], ROBOTS["gantry"], ROBOTS["top"]):
        costs = {m: operations(model, "forward_dynamics", (("method", m),)) for m in METHODS}
        chosen = operations(model, "forward_dynamics")
        assert chosen == costs[cheaper_method(model)]
        # one division may outweigh one product, never more than the degrees of freedom
        assert chosen <= min(costs.values()) + model.nv
    q, v, tau = kicked(double_pendulum(), 55)
    for method in METHODS:
        kernel = tb.compile(tb.forward_dynamics, double_pendulum(), method=method)
        expected = tb.forward_dynamics(double_pendulum(), q, v, tau, method=method)
        assert np.array_equal(kernel(q, v, tau), expected)


def test_prepared_dynamics_solve_for_many_forces_at_once():
    """One factorization, a batch of forces; the same for a batch of states."""
    q, v, tau = kicked(ROVER, 56, (7,))
    one = tb.prepare_dynamics(ROVER, q[0], v[0], world=WORLD)
    found = one.accelerations(tau)
    expected = tb.forward_dynamics(ROVER, q[0], v[0], tau, world=WORLD)
    scale = max(1.0, np.abs(expected).max()) * np.linalg.cond(tb.mass_matrix(ROVER, q[0]))
    assert_close(found, expected, SOLVE, scale)
    many = tb.prepare_dynamics(ROVER, q, v, world=WORLD).accelerations(tau)
    expected = tb.forward_dynamics(ROVER, q, v, tau, world=WORLD)
    scale = max(1.0, np.abs(expected).max()) * np.linalg.cond(tb.mass_matrix(ROVER, q)).max()
    assert_close(many, expected, SOLVE, scale)


def test_error_of_reused_dynamics_grows_in_proportion_to_the_time_of_reuse():
    """Featherstone 1987, sec. 5.2: some accuracy is lost; ten times less reused for a tenth."""
    model = measured.panda()
    q, v, tau = kicked(model, 57)
    prepared = tb.prepare_dynamics(model, q, v)
    vd = tb.forward_dynamics(model, q, v, tau)
    errors = []
    for t in (1e-3, 1e-4, 1e-5):
        now = model.integrate(q, t * v), v + t * vd
        errors.append(
            np.abs(prepared.accelerations(tau) - tb.forward_dynamics(model, *now, tau)).max()
        )
    # second-order terms at 1 ms are a few percent of the first-order ones
    assert errors[0] / errors[1] == pytest.approx(10.0, rel=0.05)
    assert errors[1] / errors[2] == pytest.approx(10.0, rel=0.05)


def test_regressor_finds_the_parameters_of_a_pendulum():
    """Least squares over many states gives back what forces can tell: m l and m l^2."""
    model = pendulum(length=0.7, mass=1.3)
    q, v, vd = kicked(model, 58, (20,))
    tau = tb.inverse_dynamics(model, q, v, vd)
    Y = tb.regressor(model, q, v, vd).reshape(20, 10)
    found, *_ = np.linalg.lstsq(Y, tau.reshape(20), rcond=None)
    names = tb.inertial_parameter_names(model)
    by_name = dict(zip(names, found, strict=True))
    # only the first moment and the inertia about the axis can be felt in the joint
    assert by_name["rod.moment_z"] == pytest.approx(-1.3 * 0.7, rel=1e-10)
    assert by_name["rod.inertia_yy"] == pytest.approx(1.3 * 0.7**2, rel=1e-10)
    assert by_name["rod.mass"] == pytest.approx(0.0, abs=1e-10)


def test_bearing_of_a_pendulum_carries_weight_and_centripetal_force():
    """A point mass m at distance l swinging through the bottom: f = m (g + l v^2), tau = 0."""
    length, mass, rate = 0.7, 1.3, 2.0
    model = pendulum(length, mass)
    found = tb.joint_reactions(model, [0.0], [rate], [0.0])
    assert_close(found.tau, [0.0])
    assert_close(found.actuator, np.zeros((1, 6)))
    pull = mass * (9.81 + length * rate**2)
    assert_close(found.bearing, [[0.0, 0.0, 0.0, 0.0, 0.0, pull]], scale=pull)
    # held out sideways, the motor carries the moment and the bearing the weight, in body axes
    found = tb.joint_reactions(model, [np.pi / 2], [0.0], [0.0])
    assert_close(found.actuator, [[0.0, found.tau[0], 0.0, 0.0, 0.0, 0.0]])
    assert_close(abs(found.tau[0]), mass * 9.81 * length, scale=10.0)
    assert_close(np.abs(found.bearing[0, 3:]), [mass * 9.81, 0.0, 0.0], scale=10.0)


def test_reactions_of_a_batch_with_external_forces():
    """Shapes lead with the batch; a wrench at the tip goes through every joint."""
    model = ROBOTS["gantry"]
    q, v, vd = kicked(model, 59, (2, 3))
    wrench = np.random.default_rng(60).standard_normal(6)
    plain = tb.joint_reactions(model, q, v, vd)
    loaded = tb.joint_reactions(model, q, v, vd, external_force={"tip": wrench})
    assert plain.tau.shape == (2, 3, model.nv)
    assert plain.actuator.shape == plain.bearing.shape == (2, 3, 5, 6)
    assert_close(loaded.tau, tb.inverse_dynamics(model, q, v, vd, external_force={"tip": wrench}))
    change = (loaded.actuator + loaded.bearing) - (plain.actuator + plain.bearing)
    # slides and hinges pass the force on: its size is that of the wrench at every joint
    sizes = np.linalg.norm(change[..., 3:], axis=-1)
    assert_close(sizes, np.full((2, 3, 5), np.linalg.norm(wrench[3:])), scale=100.0)


def test_functions_can_be_called_inside_a_users_function():
    """Each gives the same numbers inside as outside."""

    def everything(model, q, v, tau, vd):
        rates, forces = tb.hybrid_dynamics(model, q, v, tau, vd, model.joint_names[-1])
        reactions = tb.joint_reactions(model, q, v, vd)
        return (
            tb.bias_force(model, q, v),
            tb.gravity_force(model, q),
            tb.coriolis_matrix(model, q, v),
            tb.inverse_mass_matrix(model, q),
            rates,
            forces,
            reactions.bearing,
            tb.regressor(model, q, v, vd),
            tb.prepare_dynamics(model, q, v).accelerations(tau),
        )

    q, v, tau = kicked(ROVER, 61)
    vd = kicked(ROVER, 62)[2]
    actual = tb.compile(everything, ROVER)(q, v, tau, vd)
    rates, forces = tb.hybrid_dynamics(ROVER, q, v, tau, vd, ROVER.joint_names[-1])
    expected = [
        tb.bias_force(ROVER, q, v),
        tb.gravity_force(ROVER, q),
        tb.coriolis_matrix(ROVER, q, v),
        tb.inverse_mass_matrix(ROVER, q),
        rates,
        forces,
        tb.joint_reactions(ROVER, q, v, vd).bearing,
        tb.regressor(ROVER, q, v, vd),
        tb.forward_dynamics(ROVER, q, v, tau),
    ]
    condition = np.linalg.cond(tb.mass_matrix(ROVER, q))
    for ours, theirs in zip(actual, expected, strict=True):
        assert_close(ours, theirs, SOLVE, condition * max(1.0, np.abs(theirs).max()))


def test_errors_name_the_options():
    """Unknown methods, joints and sizes."""
    q, v, tau = kicked(ROVER, 63)
    with pytest.raises(OptionError, match="method: expected 'articulated' or 'composite'"):
        tb.forward_dynamics(ROVER, q, v, tau, method="newton")
    with pytest.raises(UnknownNameError, match="unknown joint or velocity variable 'elbw'"):
        tb.hybrid_dynamics(ROVER, q, v, tau, tau, "elbw")
    with pytest.raises(ShapeError, match=r"vd: expected 9 \(6 base \+ 3 joints\)"):
        tb.regressor(ROVER, q, v, tau[:2])


@pytest.mark.usefixtures("interpreted")
def test_hybrid_and_floating_dynamics_with_coupled_joints():
    """Gears and rotors: known accelerations of leaders move followers too."""
    model = tied()
    q, v, tau = kicked(model, 64, (3,))
    vd = kicked(model, 65, (3,))[2]
    H = tb.mass_matrix(model, q)
    scale = np.abs(H).max() * np.linalg.cond(H).max()
    rates, forces = tb.hybrid_dynamics(model, q, v, tau, vd, "j_left", world=WORLD)
    known = np.zeros(model.nv, dtype=bool)
    known[model.slice("j_left", of="v")] = True
    assert np.array_equal(rates[:, known], vd[:, known])
    assert np.array_equal(forces[:, ~known], tau[:, ~known])
    found = tb.inverse_dynamics(model, q, v, rates, world=WORLD)
    assert_close(found, forces, SOLVE, scale * np.abs(rates).max())
    rates, forces = tb.floating_base_inverse_dynamics(model, q, v, vd, world=WORLD)
    assert np.array_equal(rates[:, 6:], vd[:, 6:])
    assert not forces[:, :6].any()
    found = tb.inverse_dynamics(model, q, v, rates, world=WORLD)
    assert_close(found, forces, SOLVE, scale * np.abs(rates).max())


@pytest.mark.usefixtures("interpreted")
def test_dynamics_terms_of_prescribed_joints_at_a_time():
    """A pendulum on a shaker: the equation of motion holds at any time, term by term."""
    shake = tb.Driven("shaker", tb.Prismatic("shake", (1, 0, 0)), tb.Harmonic(0.1, frequency=3))
    cart = tb.Body("cart", joint=shake, inertia=tb.Inertia.box(1.0, (0.2, 0.1, 0.1)))
    hinge = tb.Revolute("pivot", axis=(0, 1, 0))
    rod = tb.Body("rod", "cart", joint=hinge, inertia=tb.Inertia.point(1.3, com=(0.0, 0.0, -0.7)))
    model = tb.Model("shaken", [cart, rod])
    q, v, tau = kicked(model, 66)
    time = 0.13
    vd = tb.forward_dynamics(model, q, v, tau, time=time)
    assert np.abs(vd - tb.forward_dynamics(model, q, v, tau, time=0.2)).max() > 0.1
    prepared = tb.prepare_dynamics(model, q, v, time=time)
    assert_close(prepared.accelerations(tau), vd)
    assert_close(tb.hybrid_dynamics(model, q, v, tau, vd, (), time=time)[0], vd)
    assert_close(tb.hybrid_dynamics(model, q, v, 0.0 * tau, vd, "pivot", time=time)[1], tau)
    assert_close(tb.floating_base_inverse_dynamics(model, q, v, vd, time=time)[1], tau)
    Y = tb.regressor(model, q, v, vd, time=time)
    assert_close(Y @ tb.inertial_parameters(model), tau, scale=10.0)
    inverse = tb.inverse_mass_matrix(model, q, time=time)
    assert_close(inverse @ tb.mass_matrix(model, q, time=time), np.eye(1))
    # the shaker's acceleration adds to the joint force beyond C v and gravity
    bias = tb.bias_force(model, q, v, time=time)
    known = tb.coriolis_matrix(model, q, v, time=time) @ v + tb.gravity_force(model, q, time=time)
    pull = -0.1 * (2 * np.pi * 3) ** 2 * np.sin(2 * np.pi * 3 * time)
    assert_close(np.abs(bias - known), np.abs(1.3 * 0.7 * pull * np.cos(q)), scale=50.0)


@pytest.mark.slow
def test_large_models_run_every_function_on_the_tape():
    """A chain of 60: each term by itself, with a force at its end, against inverse dynamics."""
    model = measured.chain(60)
    q, v, tau = kicked(model, 67)
    vd = kicked(model, 68)[2]
    options = {"world": WORLD, "external_force": {model.body_names[-1]: np.arange(6.0)}}
    H = tb.mass_matrix(model, q)
    condition = np.linalg.cond(H)

    def check(rates, forces):
        found = tb.inverse_dynamics(model, q, v, rates, **options)
        scale = np.abs(H).max() * max(1.0, np.abs(rates).max()) * condition
        assert_close(found, forces, SOLVE, scale)

    for method in METHODS:
        check(tb.forward_dynamics(model, q, v, tau, method=method, **options), tau)
        for known in (model.joint_names[::2], model.joint_names[3]):
            check(*tb.hybrid_dynamics(model, q, v, tau, vd, known, method=method, **options))
    check(tb.prepare_dynamics(model, q, v, **options).accelerations(tau), tau)
    check(*tb.floating_base_inverse_dynamics(model, q, v, vd, **options))
    check(vd, tb.joint_reactions(model, q, v, vd, **options).tau)
    inverse = tb.inverse_mass_matrix(model, q)
    assert_close(inverse @ H, np.eye(60), SOLVE, condition)
    C, weight_ = tb.coriolis_matrix(model, q, v), tb.gravity_force(model, q, world=WORLD)
    bias_ = tb.bias_force(model, q, v, world=WORLD)
    scale = float((np.abs(C) @ np.abs(v) + np.abs(weight_)).max())
    assert_close(C @ v + weight_, bias_, ALGEBRA, scale)
    Y = tb.regressor(model, q, v, vd, world=WORLD)
    phi = tb.inertial_parameters(model)
    scale = float((np.abs(Y) @ np.abs(phi)).max())
    assert_close(Y @ phi, tb.inverse_dynamics(model, q, v, vd, world=WORLD), ALGEBRA, scale)


@pytest.mark.usefixtures("interpreted")
def test_regressor_refuses_water_and_its_advice_is_exact():
    """What water needs holds no inertial parameter: regressor on land plus that is the whole."""
    model = immersed(random_tree(5, 4), 2)
    q, v, vd = kicked(model, 4)
    water = tb.Water(1025.0, current=(0.4, -0.3, 0.2))
    for keywords in ({"fluid": water}, {"world": tb.World(fluid=water)}):
        with pytest.raises(tb.ModelError) as caught:
            tb.regressor(model, q, v, vd, **keywords)
        assert str(caught.value) == (
            f"model {model.name!r}: regressor has columns for inertial parameters alone, expected "
            "surroundings without fluid, got Water; call regressor without it and add the "
            "forces of the water, which no inertial parameter enters: inverse_dynamics(..., "
            "fluid=water) - inverse_dynamics(...)"
        )
    with pytest.raises(tb.ModelError, match="regressor has columns"):
        tb.compile(tb.regressor, model, fluid=water)
    with pytest.raises(tb.ModelError, match="regressor has columns"):
        tb.compile(lambda m, q, v, vd: tb.regressor(m, q, v, vd), model, fluid=water)
    # other masses: the same water
    wet, dry = (tb.inverse_dynamics(model, q, v, vd, fluid=x) for x in (water, None))
    rng = np.random.default_rng(0)
    bodies = [replace(body, inertia=random_inertia(rng)) for body in model.bodies]
    heavier = tb.Model(model.name, bodies, model.frames)
    whole = tb.inverse_dynamics(heavier, q, v, vd, fluid=water)
    found = tb.regressor(model, q, v, vd) @ tb.inertial_parameters(heavier) + (wet - dry)
    assert_close(found, whole, ALGEBRA, max(1.0, np.abs(whole).max() + np.abs(wet).max()))
