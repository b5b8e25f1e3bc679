"""Runs in independent velocities (embedding) against projection, closed forms and the reference."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator
from tests.interpreted import interpreting
from tests.loops.dense import allowed, closed
from tests.loops.mechanisms import piston, piston_position
from tests.loops.random_mechanisms import KINDS, random_mechanism
from tests.loops.test_stabilization import WEIGHTLESS, moving_state
from tiburon.algorithms.tape_calls import JointVector
from tiburon.loops.complement import Complement
from tiburon.loops.complement_basis import BASES, gauss_basis, total_pivots
from tiburon.loops.constraints import constraints
from tiburon.simulation.loop_coordinates import coordinates_element, select_coordinates

SIGMA = 10.0


def embedded_rates(model, method, q, v, tau, world=None):
    """Return accelerations and constraint forces by the embedding of a run, on floats."""
    element = coordinates_element(model, method, q)
    system = tb.System(model, world, [element], loops=method)
    x = select_coordinates(model, method, q, element.count)
    rates, forces, _ = system.motion(q.tolist(), [*v, *x], list(tau))
    return np.array(rates[: model.nv], float), np.array(forces, float)


def reference_rates(model, q, v, tau, world=None):
    """Return the same by the reference method, on floats."""
    vd, forces, _ = tb.System(model, world).motion(q.tolist(), v.tolist(), list(tau))
    return np.array(vd, float), np.array(forces, float)


def closed_state(model, q, rng):
    """Return a state with closed loops near a configuration, without kernels."""
    q = np.array(closed(model, q, 5))
    return q, allowed(model, q, rng.normal(size=model.nv))


@pytest.mark.parametrize("kind", KINDS)
def test_accelerations_are_those_of_the_reference(kind):
    """Where loops are closed, the complement only changes the way: same motion, same forces."""
    rng = np.random.default_rng(KINDS.index(kind))
    model, q = random_mechanism(kind, rng)
    q, v = closed_state(model, q, rng)
    tau = rng.normal(size=model.nv)
    vd, forces = reference_rates(model, q, v, tau)
    for basis in BASES:
        found = embedded_rates(model, tb.Embedding(basis, SIGMA), q, v, tau)
        np.testing.assert_allclose(found[0], vd, atol=1e-9 * np.abs(vd).max())
        np.testing.assert_allclose(found[1], forces, atol=1e-8 * (1.0 + np.abs(forces).max()))


def test_accelerations_in_water():
    rng = np.random.default_rng(9)
    model, q = random_mechanism("spatial", rng)
    fluid = tb.BodyFluid(volume=1e-2, added_mass=2.0 * np.eye(6), linear_damping=(3.0,) * 6)
    wet = tb.Model("wet", [replace(body, fluid=fluid) for body in model.bodies], loops=model.loops)
    q, v = closed_state(wet, q, rng)
    sea = tb.World(fluid=tb.Water(1025.0, current=(0.3, 0.1, -0.2)))
    tau = rng.normal(size=wet.nv)
    vd, _ = reference_rates(wet, q, v, tau, sea)
    assert np.abs(vd - reference_rates(wet, q, v, tau)[0]).max() > 0.1
    found, _ = embedded_rates(wet, tb.Embedding("qr"), q, v, tau, sea)
    np.testing.assert_allclose(found, vd, atol=1e-9 * np.abs(vd).max())


@pytest.mark.parametrize(
    ("name", "basis"),
    [
        ("four_bar", "svd"),
        ("four_bar", "gauss"),
        pytest.param("stewart", "qr", marks=pytest.mark.slow),
    ],
)
def test_residuals_decay_at_the_given_rate(name, basis):
    """K-G17: from an open start every residual is c0 exp(-sigma t)."""
    model = tb.load(name)
    q, v = moving_state(model)
    q = np.array(model.integrate(q, 1e-3 * np.random.default_rng(8).normal(size=model.nv)))
    c0 = np.array(tb.constraint_residual(model, q))
    method = tb.Embedding(basis, decay=SIGMA)
    run = tb.simulate(model, 0.2, q=q, v=v, method=tb.RK4(dt=5e-4), world=WEIGHTLESS, loops=method)
    c = np.array(tb.constraint_residual(model, run.q))
    # RK4 leaves 1e-11
    np.testing.assert_allclose(c, c0 * np.exp(-SIGMA * run.time)[:, None], atol=1e-9)
    row = int(np.argmax(np.abs(c0)))
    rate = np.polyfit(run.time, np.log(np.abs(c[:, row])), 1)[0]
    assert rate == pytest.approx(-SIGMA, rel=1e-5)
    # recorded velocities belong to that motion
    J = np.array(tb.loop_jacobian(model, run.q[3]))
    np.testing.assert_allclose(J @ run.v[3], -SIGMA * c[3], atol=1e-9)


def test_runs_follow_projection_with_order_four():
    """The error against a fine projected run falls with the fourth power of the step."""
    model = tb.load("planar_3rrr")
    q, v = moving_state(model)
    fine = tb.simulate(model, 0.2, q=q, v=v, method=tb.RK4(dt=1e-4)).q[-1]
    errors = [
        np.abs(
            tb.simulate(model, 0.2, q=q, v=v, method=tb.RK4(dt=dt), loops=tb.Embedding("gauss")).q[
                -1
            ]
            - fine
        ).max()
        for dt in (4e-3, 2e-3)
    ]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(4.0, abs=0.5)


@pytest.mark.parametrize(
    ("method", "accuracy"), [("rk4", 1e-5), ("b1pc5", 1e-7), ("b2pc5", 1e-7), ("dopri5", 1e-4)]
)
def test_other_velocities_are_selected_at_a_dead_center(method, accuracy):
    """K-G26: the lean of a rod selects nothing where the crank stands upright."""
    model = piston()
    q = piston_position(0.3)
    v = np.array(tb.project_velocity(model, q, [12.0, 0.0, 0.0]))
    how = {"q": q, "v": v, "world": WEIGHTLESS}
    lean = tb.Embedding("gauss", SIGMA, ("small end",))
    run = tb.simulate(model, 0.6, loops=lean, method=integrator(method), **how)
    assert run.outcome.status == "finished"
    (event,) = run.events
    assert event.name == "loop coordinates"
    # before the dead center, at which the lean stands still
    assert 0.8 < event.q[0] < 0.5 * np.pi
    exact = tb.simulate(model, 0.6, **how)
    np.testing.assert_allclose(run.q, exact.q, atol=accuracy)
    energy = tb.kinetic_energy(model, run.q, run.v)
    np.testing.assert_allclose(energy, energy[0], rtol=accuracy)
    # the velocity at the event is that of the motion: z of the new rows is exact
    np.testing.assert_allclose(
        np.array(tb.loop_jacobian(model, event.q)) @ event.v,
        -SIGMA * np.array(tb.constraint_residual(model, event.q)),
        atol=1e-12,
    )


def dense_condition(A, W, rank):
    """Condition number of W beside an orthonormal basis of the constraints."""
    N = np.linalg.svd(A)[2][:rank]
    return np.linalg.cond(np.vstack([N, W]))


@pytest.mark.parametrize("kind", KINDS)
@interpreting()
def test_condition_is_that_of_independent_velocities_and_constraints(kind):
    """However long and close to each other the rows are: orthonormal W, well and badly chosen."""
    rng = np.random.default_rng(8)
    model, q = random_mechanism(kind, rng)
    A = np.asarray(tb.loop_jacobian(model, q))
    rank = len(total_pivots(A).rows)
    terms = constraints(model, model.plan, JointVector(q.tolist()))
    null = np.linalg.svd(A)[2][rank:]
    drawn = np.linalg.qr(rng.normal(size=(model.nv, model.nv - rank)))[0].T
    for W in (gauss_basis(A), null, drawn, np.linalg.qr((null + 3.0 * drawn).T)[0].T):
        found = Complement(model, terms, W.tolist()).coordinate_condition()
        # rounding, and 1e-8 at W orthogonal to the constraints, whose tangent is a root of zero
        expected = 1.0 / dense_condition(A, W, rank)
        np.testing.assert_allclose(float(found), expected, rtol=1e-6)


@pytest.mark.parametrize("basis", ["gauss", "svd"])
@pytest.mark.parametrize("kind", ["spatial", "redundant"])
def test_other_velocities_are_selected_at_tenfold_condition(kind, basis):
    """Never later; and the run keeps to the projected one."""
    rng = np.random.default_rng(2)
    model, q = random_mechanism(kind, rng)
    v = np.asarray(tb.project_velocity(model, q, 3.0 * rng.normal(size=model.nv)))
    rank = len(total_pivots(np.asarray(tb.loop_jacobian(model, q))).rows)
    how = {"q": q, "v": v, "record": tb.Record(dt=2e-3)}
    run = tb.simulate(model, 0.6, method=tb.RK4(dt=1e-3), loops=tb.Embedding(basis), **how)
    assert run.outcome.status == "finished"
    count = model.nv - rank
    rows = np.asarray(run.x)[:, -count * model.nv :].reshape(-1, count, model.nv)
    start, last = 1.0, None
    for at, W in zip(run.q, rows, strict=True):
        condition = dense_condition(np.asarray(tb.loop_jacobian(model, at)), W, rank)
        if last is None or not np.array_equal(W, last):
            start, last = condition, W
        # W was selected within the last two steps before the first row that has it
        assert condition < 12.0 * start
    assert run.events
    exact = tb.simulate(model, 0.6, method=tb.RK4(dt=2.5e-4), **how)
    projected = tb.simulate(model, 0.6, method=tb.RK4(dt=1e-3), **how)
    error, usual = (np.abs(one.q - exact.q).max() for one in (run, projected))
    # the error of a step of order four has derivatives of T, each a factor of the condition: 10^4
    assert error < 1e4 * usual


@pytest.mark.parametrize("distance", [0.0, 1e-7, 1e-5])
@interpreting()
def test_badly_chosen_velocities_determine_others_off_the_loops(distance):
    """A closure given twice: short rows of A P are constraints, whatever the residual is."""
    rng = np.random.default_rng(9)
    model, q = random_mechanism("redundant", rng)
    A = np.asarray(tb.loop_jacobian(model, q))
    rank = len(total_pivots(A).rows)
    span = np.linalg.svd(A)[2]
    # one row of W is a constraint but for a small angle
    angle, W = 3e-5, span[rank:].copy()
    W[0] = np.sin(angle) * W[0] + np.cos(angle) * span[0]
    q = model.integrate(q, distance * rng.normal(size=model.nv))
    terms = constraints(model, model.plan, JointVector(q.tolist()))
    of = Complement(model, terms, W.tolist())
    assert of.is_basis
    assert of.rank == rank
    T = np.array(of.T(), dtype=float)
    # rounding over the angle, and over its square in the constraints
    np.testing.assert_allclose(W @ T.T, np.eye(len(W)), atol=1e-10)
    np.testing.assert_allclose(np.asarray(tb.loop_jacobian(model, q)) @ T.T, 0.0, atol=1e-6)


def test_batch_resumed_and_single_runs_have_the_same_bits(tmp_path):
    """Also over a selection of other velocities, which cases make at times of their own."""
    model = piston()
    q = np.array([piston_position(0.3), piston_position(0.7)])
    v = np.array([tb.project_velocity(model, one, [12.0, 0.0, 0.0]) for one in q])
    how = {"method": tb.RK4(dt=1e-3), "world": WEIGHTLESS}
    how["loops"] = tb.Embedding("gauss", SIGMA, ("small end",))
    batch = tb.simulate(model, 0.2, q=q, v=v, **how)
    assert len({event.time for event in batch.events}) == 2
    for case in range(2):
        whole = tb.simulate(model, 0.2, q=q[case], v=v[case], **how)
        assert np.array_equal(batch.q[:, case], whole.q)
    half = tb.simulate(model, 0.1, q=q[1], v=v[1], **how)
    half.save(tmp_path / "half.zarr")
    resumed = tb.load_run(tmp_path / "half.zarr").resume(0.1)
    assert np.array_equal(resumed.q[-1], whole.q[-1])
    assert np.array_equal(resumed.x[-1], whole.x[-1])


@pytest.mark.parametrize("name", ["rolling_disc", "chaplygin_sleigh"])
def test_constraints_on_velocities_work(name):
    """Nonholonomic constraints beside loops: the same motion as by projection."""
    model = tb.load(name)
    q = np.array(model.poses.get("home", model.neutral()))
    rng = np.random.default_rng(4)
    v = np.array(tb.project_velocity(model, q, rng.normal(size=model.nv)))
    exact = tb.simulate(model, 0.2, q=q, v=v)
    run = tb.simulate(model, 0.2, q=q, v=v, loops=tb.Embedding("qr"))
    np.testing.assert_allclose(run.q, exact.q, atol=1e-8)


def complement_at(model, q, v, basis="gauss"):
    terms = constraints(model, model.plan, JointVector(q.tolist()), JointVector(v.tolist()))
    A = np.array(tb.loop_jacobian(model, q))
    return Complement(model, terms, BASES[basis](A).tolist()), terms, A


def test_c4_rows_of_the_jacobian_span_forbidden_directions():
    """The source says that they span the feasible ones (L386)."""
    model = tb.load("planar_3rrr")
    q, v = moving_state(model)
    basis, _, A = complement_at(model, q, v)
    T = np.array(basis.T(), float)
    assert np.abs(A @ v).max() < 1e-12 < np.abs(v).max()
    np.testing.assert_allclose(A @ T.T, 0.0, atol=1e-12)


def test_c5_gamma_has_one_entry_per_velocity_and_t_one_column_per_degree_of_freedom():
    """The source prints both transposed or too short (L489, L521)."""
    model = tb.load("planar_3rrr")
    q, v = moving_state(model)
    basis, terms, _ = complement_at(model, q, v)
    assert len(basis.gamma(terms, SIGMA)) == model.nv
    assert np.array(basis.T()).T.shape == (model.nv, 3)


@pytest.mark.parametrize("basis", list(BASES))
def test_c6_gamma_is_the_rate_of_the_velocity_at_constant_z(basis):
    """With R it is the derivative of T z; with the pseudo-inverse, as printed, it is not."""
    model = tb.load("planar_3rrr")
    q, v = moving_state(model)
    here, terms, A = complement_at(model, q, v, basis)
    rows = here.W

    def velocity(at):
        there = constraints(model, model.plan, JointVector(at.tolist()))
        return np.array(Complement(model, there, rows).velocity(there, v, SIGMA), float)

    h = 1e-4
    slope = (velocity(q + h * v) - velocity(q - h * v)) / (2.0 * h)
    gamma = np.array(here.gamma(terms, SIGMA), float)
    np.testing.assert_allclose(gamma, slope, atol=1e-6 * np.abs(slope).max())
    right = -SIGMA * np.array(terms.rate, float) - np.array(terms.bias, float)
    printed = np.linalg.pinv(A) @ right
    # only where rows span the null space here, at the selection itself, do both agree
    if basis == "gauss":
        assert np.abs(printed - slope).max() > 1e-2 * np.abs(slope).max()
    q1 = np.array(tb.project_configuration(model, q + 0.05 * v).q)
    later = constraints(model, model.plan, JointVector(q1.tolist()), JointVector(v.tolist()))
    v1 = np.array(Complement(model, later, rows).velocity(later, v, 0.0), float)
    later = constraints(model, model.plan, JointVector(q1.tolist()), JointVector(v1.tolist()))
    gamma = np.array(Complement(model, later, rows).gamma(later, 0.0), float)
    printed = -np.linalg.pinv(np.array(tb.loop_jacobian(model, q1))) @ np.array(later.bias, float)
    assert np.abs(printed - gamma).max() > 1e-3 * np.abs(gamma).max()


def test_total_pivoting_selects_the_motors_of_khan():
    """K-G25, digest B4: theta_1, theta_2, theta_3 are independent at the start."""
    model = tb.load("planar_3rrr")
    A = np.array(tb.loop_jacobian(model, model.poses["home"]))
    dependent = total_pivots(A).columns
    assert len(dependent) == 4
    W = BASES["gauss"](A)
    assert W.shape == (3, 7)
    np.testing.assert_array_equal(np.sort(np.concatenate([dependent, np.nonzero(W)[1]])), range(7))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"basis": "lu"}, "gauss"),
        ({"decay": -1.0}, r"Embedding\.decay"),
        ({"decay": np.nan}, r"Embedding\.decay"),
        ({"basis": "qr", "independent": ("theta_1",)}, "independent"),
        ({"independent": (3,)}, "names of joints"),
    ],
)
def test_wrong_options_are_named(change, named):
    with pytest.raises(tb.TiburonError, match=named):
        tb.Embedding(**change)


def test_rows_that_are_no_basis_are_refused():
    model = tb.load("planar_3rrr")
    with pytest.raises(tb.DomainError, match="with 3 velocities"):
        tb.simulate(model, 0.1, loops=tb.Embedding(independent=("theta_1", "theta_2")))
    with pytest.raises(tb.UnknownNameError, match="theta_9"):
        tb.simulate(model, 0.1, loops=tb.Embedding(independent=("theta_9",)))
    rod = piston()
    with pytest.raises(tb.DomainError, match="small end, which do not"):
        tb.simulate(
            rod,
            0.1,
            q=piston_position(0.5 * np.pi),
            loops=tb.Embedding(independent=("small end",)),
        )


def test_loops_that_open_and_trees_are_refused():
    model = tb.load("four_bar")
    switch = tb.LoopSwitch("latch", model.loops[0].name)
    with pytest.raises(tb.ModelError, match="opens and closes"):
        tb.simulate(model, 0.1, elements=[switch], loops=tb.Embedding())
    with pytest.raises(tb.ModelError, match="robots with loops"):
        tb.simulate(tb.load("panda"), 0.1, loops=tb.Embedding())
    with pytest.raises(tb.ShapeError, match="a case or more"):
        tb.simulate(model, 0.1, q=np.empty((0, model.nq)), loops=tb.Embedding())
