"""Linear programs: three forms of one value, published optima, jumps, linear objectives."""

import builtins

import numpy as np
import pytest

import tiburon as tb
from tiburon.load_sharing.linear_program import (
    FORMS,
    FrictionMargin,
    LargestEffort,
    LargestNormal,
    LargestResidual,
    LinearData,
    LinearProgram,
    LoadAndEffort,
    SteadyLateralForces,
    SumOfNormals,
    optimal_ranges,
    solve_linear,
)
from tiburon.reproduce.nahon_problems import grasped_ball, kerr_roth
from tiburon.trace import solve_qp

FLOOR = tb.World(ground=tb.Ground(static_friction=0.6))


def test_both_forms_have_the_same_optimum():
    """Strong duality on random problems: original, compact primal, compact dual (5.22), (5.23)."""
    rng = np.random.default_rng(1)
    for _ in range(40):
        n, m, rows = rng.integers(3, 9), rng.integers(0, 3), rng.integers(10, 24)
        A1, A2 = rng.standard_normal((m, n)), rng.standard_normal((rows, n))
        x = rng.standard_normal(n)
        # bounded: the cost is a positive combination of the rows
        c = A2.T @ rng.exponential(1.0, rows)
        program = LinearProgram(c, A1, A1 @ x, A2, A2 @ x - rng.exponential(0.5, rows))
        found = [solve_linear(program, form) for form in FORMS]
        for form, one in zip(FORMS, found, strict=True):
            assert one.status == "optimal", form
            assert one.value == pytest.approx(found[0].value, rel=1e-8, abs=1e-8)
            np.testing.assert_allclose(A1 @ one.x, program.b1, atol=1e-8)
            assert np.all(A2 @ one.x >= program.b2 - 1e-8)
            assert np.all(one.multipliers >= -1e-9)
            slack = A2 @ one.x - program.b2
            np.testing.assert_allclose(one.multipliers * slack, 0.0, atol=1e-7)
        r = n - m
        assert [one.size for one in found] == [(2 * n, m, rows), (2 * r, 0, rows), (rows, r, 0)]


def test_forms_agree_that_there_is_no_solution():
    """Contradiction and unboundedness are distinguished in all forms."""
    A1, b1 = np.array([[1.0, 1.0]]), np.array([1.0])
    against = LinearProgram(
        np.array([1.0, 0.0]), A1, b1, np.array([[-1.0, -1.0]]), np.array([-0.5])
    )
    below = LinearProgram(np.array([1.0, 0.0]), A1, b1, np.array([[0.0, 1.0]]), np.array([0.0]))
    for form in FORMS:
        assert solve_linear(against, form).status == "infeasible"
        assert solve_linear(below, form).status == "unbounded"
        assert np.all(np.isnan(solve_linear(below, form).x))


@pytest.mark.parametrize("form", FORMS)
def test_linear_optima_jump_where_quadratic_ones_do_not(form):
    """E7: min x1 + x2 with alpha x1 + x2 = alpha + 1 jumps from (0, 2) to (2, 0) at alpha = 1."""
    A2, b2 = np.eye(2), np.zeros(2)
    for alpha in (0.2, 0.5, 0.999, 1.001, 2.0, 5.0):
        A1, b1 = np.array([[alpha, 1.0]]), np.array([alpha + 1.0])
        linear = solve_linear(LinearProgram(np.ones(2), A1, b1, A2, b2), form)
        expected = (0.0, alpha + 1.0) if alpha < 1.0 else ((alpha + 1.0) / alpha, 0.0)
        np.testing.assert_allclose(linear.x, expected, atol=1e-9)
        quadratic = solve_qp(2.0 * np.eye(2), np.zeros(2), A1, b1, A2, b2)
        closed = (alpha + 1.0) / (alpha**2 + 1.0) * np.array([alpha, 1.0])
        np.testing.assert_allclose(quadratic.x, closed, atol=1e-14)
    program = LinearProgram(np.ones(2), np.ones((1, 2)), np.array([2.0]), A2, b2)
    assert solve_linear(program, form).value == pytest.approx(2.0)
    low, high = optimal_ranges(program)
    np.testing.assert_allclose(low, 0.0, atol=1e-6)
    np.testing.assert_allclose(high, 2.0, atol=1e-6)


def test_kerr_and_roths_grasp_has_the_published_optima():
    """E9: [-0.5 0 3.2 +-1.3 0 -0.5 4.2 +-1.3] with a residual of 0.3, and all between."""
    grasp = kerr_roth()
    assert np.linalg.matrix_rank(grasp.A1) == 6
    assert grasp.A2.shape == (20, 8)
    data = LinearData(*grasp, normals=(2, 6))
    plain = LargestResidual(normalized=False).program(data)
    for form in FORMS:
        found = solve_linear(plain, form)
        assert found.x[8] == pytest.approx(0.3, abs=1e-9)
        np.testing.assert_allclose(found.x[[2, 6]], [3.2, 4.2], atol=1e-9)
    low, high = optimal_ranges(plain)
    np.testing.assert_allclose(low[:8], [-0.5, 0, 3.2, -1.3, 0, -0.5, 4.2, -1.3], atol=1e-6)
    np.testing.assert_allclose(high[:8], [-0.5, 0, 3.2, 1.3, 0, -0.5, 4.2, 1.3], atol=1e-6)


def test_trap_b23_the_residual_has_an_entry_per_inequality():
    """B23: d in (6.6) has as many entries as inequalities, not n - m_eq: 20 rows here, not 2."""
    data = LinearData(*kerr_roth(), normals=(2, 6))
    program = LargestResidual(normalized=False).program(data)
    assert np.count_nonzero(program.A2[:, 8]) == 20
    # normalized residuals do not depend on the scale of a row; plain ones do
    scaled = data._replace(A2=data.A2.copy(), b2=data.b2.copy())
    scaled.A2[19] *= 7.0
    scaled.b2[19] *= 7.0
    for normalized, same in ((True, True), (False, False)):
        objective = LargestResidual(normalized)
        values = [solve_linear(objective.program(one)).x[2] for one in (data, scaled)]
        assert bool(abs(values[0] - values[1]) < 1e-9) is same
    found = solve_linear(LargestResidual().program(data))
    # distances instead of residuals (digest of the source: d = 1.06066, fN = 2.75 and 3.75)
    assert found.x[8] == pytest.approx(1.06066, abs=5e-6)
    np.testing.assert_allclose(found.x[[2, 6]], [2.75, 3.75], atol=1e-9)


def stance(sides=4, formulation="superposition"):
    dog = tb.load("quadruped")
    plan = tb.LoadSharing.of(dog, world=FLOOR, sides=sides, torque_limits=False)
    vd = np.zeros(dog.nv)
    vd[3:6] = 0.8, 0.3, 0.2
    q = np.array(dog.poses["stand"])
    return plan, plan.problem(q, vd=vd, formulation=formulation), (q, vd)


def test_objectives_minimize_their_quantity():
    """No feasible forces have less: each is compared with all the others and the quadratic one."""
    plan, problem, (q, vd) = stance()
    normals = [group.normal for group in plan.layout.groups]
    efforts = [k for k, name in enumerate(problem.names) if name.endswith("effort")]
    friction = [k for k, name in enumerate(plan.limit_names) if ": friction" in name]
    costs = tuple(np.linspace(0.1, 1.0, 12))
    measures = {
        SumOfNormals(): lambda x: x[normals].sum(),
        LargestNormal(): lambda x: x[normals].max(),
        LargestNormal(0.5): lambda x: x[normals].max() + 0.5 * x[normals].sum(),
        FrictionMargin(False): lambda x: -(problem.A2 @ x - problem.b2)[friction].min(),
        LargestResidual(False): lambda x: -(problem.A2 @ x - problem.b2).min(),
        LargestEffort(): lambda x: np.abs(x[efforts]).max(),
        LoadAndEffort(2.0, costs): lambda x: 2.0 * x[normals].max() + costs @ x[efforts],
    }
    found = {o: problem.solve_linear(o) for o in measures}
    points = [one.x for one in found.values()] + [problem.solve().x]
    for objective, measure in measures.items():
        own = measure(found[objective].x)
        assert found[objective].value == pytest.approx(own, rel=1e-8)
        assert all(own <= measure(x) + 1e-7 for x in points), objective
        for form in FORMS:
            other = problem.solve_linear(objective, form=form)
            assert other.value == pytest.approx(own, rel=1e-7)
    share = plan.share(q, vd=vd)
    assert share.x[normals].max() >= measures[LargestNormal()](found[LargestNormal()].x) - 1e-9


def test_steady_lateral_forces_keep_their_signs():
    """Load balance with given signs ("temporal continuity"), at no less cost."""
    plan, problem, _ = stance()
    free = problem.solve_linear(LargestNormal())
    tangents = [k for g in plan.layout.groups for k in (g.normal - 2, g.normal - 1)]
    signs = tuple(float(s) for s in np.where(problem.solve().x[tangents] >= 0.0, 1.0, -1.0))
    held = problem.solve_linear(SteadyLateralForces(signs))
    assert held.status == "optimal"
    assert np.all(np.array(signs) * held.x[tangents] >= -1e-9)
    assert held.value >= free.value - 1e-9
    with pytest.raises(tb.ShapeError, match="signs"):
        problem.solve_linear(SteadyLateralForces((1.0,)))


def test_open_contacts_are_ignored():
    plan, _, (q, _) = stance()
    problem = plan.problem(q, touching=[0, 1, 1, 1])
    found = problem.solve_linear(SumOfNormals())
    assert found.status == "optimal"
    assert not found.x[:3].any()
    np.testing.assert_allclose(problem.A1 @ found.x, problem.b1, atol=1e-8)


def test_missing_data_raise_an_error(monkeypatch):
    """Efforts in the compact formulation, exact cones, SciPy."""
    _, problem, _ = stance(formulation="compact")
    with pytest.raises(tb.ModelError, match="formulation='superposition'"):
        problem.solve_linear(LargestEffort())
    _, cones, _ = stance(sides=None)
    with pytest.raises(tb.ModelError, match="sides="):
        cones.solve_linear(SumOfNormals())
    with pytest.raises(tb.OptionError, match="form"):
        problem.solve_linear(SumOfNormals(), form="simplex")
    real = builtins.__import__

    def absent(name, *args, **kwargs):
        if name.startswith("scipy"):
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(tb.ModelError, match=r"pip install 'tiburon\[lp\]'"):
        problem.solve_linear(SumOfNormals())


def task(fingers, times):
    """Forces that turn a ball by all forms of the LP and by the QP, E10."""
    found = {form: [] for form in (*FORMS, "QP")}
    for t in times:
        limits = grasped_ball(fingers, t)
        program = SumOfNormals().program(
            LinearData(*limits, normals=tuple(range(2, 3 * fingers, 3)))
        )
        for form in FORMS:
            found[form].append(solve_linear(program, form).x)
        n = 3 * fingers
        found["QP"].append(np.asarray(solve_qp(np.eye(n), np.zeros(n), *limits).x))
    return {key: np.array(rows) for key, rows in found.items()}


def test_two_fingers_leave_one_solution():
    """E10: one friction row takes the only redundancy; linear and quadratic optima are equal."""
    found = task(2, np.linspace(0.0, 0.4, 7))
    for form in FORMS:
        np.testing.assert_allclose(found[form], found["QP"], atol=1e-9)


def test_four_fingers_jump_under_linear_objectives():
    """E10: vertices change while the ball turns smoothly, and forms disagree; QP does neither."""
    found = task(4, np.linspace(0.0, 0.5, 41))
    steps = {key: np.abs(np.diff(x, axis=0)).max() for key, x in found.items()}
    assert max(steps[form] for form in FORMS) > 20.0 * steps["QP"]
    assert np.abs(found["original"] - found["compact dual"]).max() > 0.1
    normals = [2, 5, 8, 11]
    sums = [found[form][:, normals].sum(axis=1) for form in FORMS]
    np.testing.assert_allclose(sums[1:], [sums[0]] * 2, rtol=1e-9)
    assert np.all(found["QP"][:, normals].sum(axis=1) >= sums[0] - 1e-9)


@pytest.mark.parametrize("form", ["original", "compact primal", "compact dual"])
def test_contradictory_equations_are_infeasible_in_all_forms(form):
    """Two feet cannot hold a dog: the same status, whatever the form and objective."""
    dog = tb.load("quadruped")
    plan = tb.LoadSharing.of(dog, world=FLOOR, sides=4, torque_limits=False)
    problem = plan.problem(np.array(dog.poses["stand"]), touching=[1, 0, 0, 1])
    for objective in (SumOfNormals(), LargestNormal(), FrictionMargin(), LargestResidual()):
        found = problem.solve_linear(objective, form=form)
        assert found.status == "infeasible"
        assert np.isnan(found.x).all()
    with pytest.raises(tb.ModelError, match="objective: expected a linear objective"):
        problem.solve_linear(None, form=form)
