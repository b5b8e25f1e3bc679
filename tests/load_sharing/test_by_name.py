"""Weights, targets, step bounds and contacts of load sharing by name."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.load_sharing.smoothing import ForcePrograms, smoothed_forces

FLOOR = tb.World(ground=tb.Ground(static_friction=0.8))
ROUNDING = 1e-9
"""Of forces of some ten newtons that a quadratic program determines [N or N m]."""


@pytest.fixture(scope="module")
def dog():
    return tb.load("quadruped")


def moving(dog):
    """Return a state and an acceleration that no symmetry makes easy."""
    rng = np.random.default_rng(35)
    q = np.array(dog.poses["stand"])
    q[7:] += 0.05 * rng.standard_normal(12)
    v, vd = 0.3 * rng.standard_normal((2, dog.nv))
    vd[3:6] += (1.0, -0.5, 0.8)
    return q, v, vd


def bounded(dog, what):
    return tb.LoadSharing.of(dog, world=FLOOR, friction=0.6, torque_limits=False, step_limits=what)


@pytest.mark.parametrize("what", ["forces", "torques"])
def test_each_force_has_its_own_step_bound(dog, what):
    """(4.56) to (4.61): bounds by array, by name and by traced array agree, and all are kept."""
    plan = bounded(dog, what)
    q, v, vd = moving(dog)
    last = plan.share(q, v)
    count = len(plan.step_names)
    pick = (lambda s: s.x) if what == "forces" else (lambda s: s.tau[6:])
    free = plan.share(q, v, vd, before=last, max_step=np.inf)
    change = np.abs(pick(free) - pick(last))
    bounds = np.full(count, 50.0)
    bounds[[2, 9]] = 0.6 * change[[2, 9]]
    share = plan.share(q, v, vd, before=last, max_step=bounds)
    assert share.status == "at limits"
    steps = np.abs(pick(share) - pick(last))
    assert (steps <= bounds + ROUNDING).all()
    assert steps[[2, 9]] == pytest.approx(bounds[[2, 9]], abs=ROUNDING)
    names = [plan.step_names[k] for k in (2, 9)]
    named = plan.share(
        q, v, vd, before=last, max_step=dict(zip(names, bounds[[2, 9]], strict=True))
    )
    assert named.x == pytest.approx(share.x, abs=1e-7)

    def traced(q, v, vd, before, bounds):
        return plan.share(q, v, vd, before=before, max_step=bounds).x

    sizes = {"q": dog.nq, "v": dog.nv, "vd": dog.nv, "before": plan.memory, "bounds": count}
    found = tb.compile(traced, shapes=sizes)(q, v, vd, last.warm_start, bounds)
    assert found == pytest.approx(share.x, abs=1e-7)


def test_step_bounds_of_a_contact_hold_for_all_its_components(dog):
    """A name of a contact stands for three forces, that of a component overrides it."""
    plan = bounded(dog, "forces")
    q, v, vd = moving(dog)
    last = plan.share(q, v)
    foot = [plan.names.index(f"hind_left_foot.{x}") for x in ("t1", "t2", "n")]
    own = {"hind_left_foot": 4.0, "hind_left_foot.n": 16.0}
    share = plan.share(q, v, vd, before=last, max_step=own)
    steps = np.abs(share.x - last.x)[foot]
    assert (steps <= np.array([4.0, 4.0, 16.0]) + ROUNDING).all()
    assert steps[2] > 10.0
    assert np.delete(np.abs(share.x - last.x), foot).max() > 4.5


def test_arrays_of_step_bounds_are_per_joint_not_per_case(dog):
    """As many bounds as joints give one result; one bound per case has a last axis of 1."""
    plan = bounded(dog, "torques")
    q, v, vd = moving(dog)
    last = plan.share(q, v)
    assert np.shape(plan.share(q, v, before=last, max_step=np.linspace(1, 3, 12)).status) == ()
    sizes = np.array([0.05, 30.0])
    cases = plan.share(q, v, vd, before=last, max_step=sizes[:, None])
    for k, size in enumerate(sizes):
        one = plan.share(q, v, vd, before=last, max_step=size)
        assert cases.status[k] == one.status
        assert cases.tau[k] == pytest.approx(one.tau, nan_ok=True, abs=ROUNDING)
    assert cases.status[0] == "infeasible"
    assert "rises" in cases.explain(0).sentence or "falls" in cases.explain(0).sentence
    with pytest.raises(tb.ShapeError, match="max_step"):
        plan.share(q, v, before=last, max_step=sizes)
    with pytest.raises(tb.UnknownNameError, match="front_left_nee"):
        plan.share(q, v, before=last, max_step={"front_left_nee": 1.0})
    with pytest.raises(tb.DomainError, match="max_step"):
        plan.share(q, v, before=last, max_step={"front_left_knee": [1.0, -1.0]})


def weighted_optimum(problem, W, c):
    """Return the optimum of another quadratic term by the solver alone."""
    from tiburon.trace.primitives.quadratic import solve_qp

    plan = problem.plan
    return np.asarray(
        solve_qp(
            W, c, problem.A1, problem.b1, problem.A2, problem.b2, cones=plan._cones, mu=problem.mu
        ).x
    )


def test_weights_by_name_are_those_of_a_diagonal_matrix(dog):
    """The least x^T D x / 2 and (tau' - J^T x)^T D (tau' - J^T x) / 2, with D written by hand."""
    q, v, vd = moving(dog)
    plain = tb.LoadSharing.of(dog, world=FLOOR, friction=0.6)
    problem = plain.problem(q, v, vd)
    D = np.ones(12)
    D[3:6], D[8] = 7.0, 40.0
    weights = {"front_right_foot": 7.0, "hind_left_foot.n": 40.0}
    plan = tb.LoadSharing.of(
        dog, world=FLOOR, friction=0.6, objective=tb.InternalForce(weights=weights)
    )
    assert plan.names[8] == "hind_left_foot.n"
    expected = weighted_optimum(problem, np.diag(D), np.zeros(12))
    assert plan.share(q, v, vd).x == pytest.approx(expected, abs=1e-8)
    assert np.abs(plain.share(q, v, vd).x - expected).max() > 1.0
    whole = plain.problem(q, v, vd, formulation="superposition")
    J, needed = whole.A1[6:, :12], whole.b1[6:]
    E = np.ones(12)
    E[4] = 30.0
    both = tb.InternalForce() + tb.TorqueNorm({plain.model.v_names[10]: 30.0})
    plan = tb.LoadSharing.of(dog, world=FLOOR, friction=0.6, objective=both)
    W, c = np.eye(12) + J.T @ (E[:, None] * J), -J.T @ (E * needed)
    expected = weighted_optimum(problem, W, c)
    assert plan.share(q, v, vd).x == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(
    ("objective", "word"),
    [
        (lambda: tb.TorqueNorm({"knee": 2.0}), "knee"),
        (lambda: tb.InternalForce(weights={"front_left_knee": 2.0}), "front_left_knee"),
        (lambda: tb.InternalForce(weights={"front_left_foot": 0.0}), "front_left_foot"),
        (lambda: tb.TorqueNorm({"front_left_knee": -1.0}), "front_left_knee"),
        (lambda: tb.InternalForce({"front_left_foot": 2.0}), "weights="),
        (lambda: tb.Smoothness([1.0, 2.0]), "Smoothness"),
    ],
)
def test_wrong_weights_are_refused_by_name(dog, objective, word):
    """Neither unknown names nor weights that leave forces open pass."""
    with pytest.raises(tb.TiburonError, match=word):
        tb.LoadSharing.of(dog, world=FLOOR, objective=objective())


def test_weights_of_changes_are_per_component(dog):
    """(6.60): W + D, c - D x^-, also in sequences of problems, with names or one per force."""
    q, v, vd = moving(dog)
    plain = tb.LoadSharing.of(dog, world=FLOOR, friction=0.6, sides=8)
    last = plain.share(q, v)
    D = np.ones(12)
    D[:3] = 25.0
    objective = tb.InternalForce() + tb.Smoothness({"front_left_foot": 25.0})
    plan = tb.LoadSharing.of(dog, world=FLOOR, friction=0.6, sides=8, objective=objective)
    problem = plain.problem(q, v, vd)
    expected = weighted_optimum(problem, np.eye(12) + np.diag(D), -D * last.x)
    assert plan.share(q, v, vd, before=last).x == pytest.approx(expected, abs=1e-7)
    two = plain.problem(np.stack([q, q]), np.stack([v, v]), np.stack([0 * vd, vd]))
    steps = ForcePrograms(*two[1:7], names=plain.names)
    for weight in ({"front_left_foot": 25.0, "front_right_foot": 1.0}, [25.0] * 3 + [1.0] * 9):
        if isinstance(weight, dict):
            weight |= {"hind_left_foot": 1.0, "hind_right_foot": 1.0}
        found = smoothed_forces(steps, tb.SmoothingPenalty(weight, 1.0), dt=0.01, changes=[1])
        assert found.x[1] == pytest.approx(expected, abs=1e-7)
    held = smoothed_forces(steps, tb.StepBound({"front_left_foot.n": 0.3}), dt=0.01, changes=[1])
    assert abs(held.x[1, 2] - held.x[0, 2]) <= 0.3 + ROUNDING
    assert held.steps[1] > 0.3
    with pytest.raises(tb.ShapeError, match="max_step"):
        smoothed_forces(steps, tb.StepBound([1.0, 2.0]), dt=0.01)
    with pytest.raises(tb.UnknownNameError, match="fore_left"):
        smoothed_forces(steps, tb.StepBound({"fore_left": 2.0}), dt=0.01)


def test_contacts_that_touch_are_given_by_name(dog):
    """Marks by name, names, and marks in order give the same forces; also in batches, traced."""
    plan = tb.LoadSharing.of(dog, world=FLOOR, friction=0.8, relax=True)
    q, v, vd = moving(dog)
    feet = ("front_left_foot", "front_right_foot", "hind_left_foot", "hind_right_foot")
    assert plan.contact_names == feet
    expected = plan.share(q, v, vd, touching=[1, 1, 1, 0]).x
    assert plan.share(q, v, vd, touching={"hind_right_foot": 0}).x == pytest.approx(expected)
    assert plan.share(q, v, vd, touching=feet[:3]).x == pytest.approx(expected)
    both = plan.share(q, v, vd, touching={"hind_right_foot": [0, 1]})
    assert both.x[0] == pytest.approx(expected)
    assert both.x[1] == pytest.approx(plan.share(q, v, vd).x)
    assert plan.problem(q, v, vd, touching=feet[:3]).A1[:, 9:].any() == 0.0

    def traced(q, v, vd, on):
        return plan.share(q, v, vd, touching={"hind_right_foot": on[0]}).x

    kernel = tb.compile(traced, shapes={"q": dog.nq, "v": dog.nv, "vd": dog.nv, "on": 1})
    assert kernel(q, v, vd, np.zeros(1)) == pytest.approx(expected, abs=1e-7)
    for wrong in (["hind_foot"], {"hind_foot": 1}, "hind_foot"):
        with pytest.raises(tb.UnknownNameError, match="hind_foot"):
            plan.share(q, v, vd, touching=wrong)
    with pytest.raises(tb.DomainError, match="touching"):
        plan.share(q, v, vd, touching={"hind_right_foot": 0.5})


def test_names_of_grips_leave_loops_and_drives_in_place():
    """Cables take part whether contacts are named or not, and failed ones do not."""
    robot = tb.load("cable_robot")
    plan = tb.LoadSharing.of(robot, relax=True)
    home = np.array(robot.poses["home"])
    name = plan.contact_names[2]
    off = plan.share(home, touching={name: 0.0})
    assert off.x == pytest.approx(plan.share(home, failed=[name]).x)
    assert off.x[2] == pytest.approx(0.0, abs=ROUNDING)
    assert plan.share(home, touching=[]).x == pytest.approx(plan.share(home).x)


def test_problems_are_those_that_share_solves(dog):
    """`problem` takes what `share` takes: forces from outside, axes, steps, failures, water."""
    q, v, vd = moving(dog)
    plan = bounded(dog, "forces")
    last = plan.share(q, v)
    force = {"trunk": np.array([0.3, -0.2, 0.5, 4.0, 9.0, -20.0])}
    conditions = {
        "external_force": force,
        "external_axes": "world",
        "external_inertia": {"front_left_shank": 0.2 * np.eye(6)},
    }
    given = {"before": last, "max_step": {"front_left_foot.n": 30.0, "hind_left_foot": 40.0}}
    problem = plan.problem(q, v, vd, **given, **conditions)
    share = plan.share(q, v, vd, **given, **conditions)
    assert share.is_feasible
    assert problem.solve().x == pytest.approx(share.x, abs=1e-7)
    assert np.abs(plan.problem(q, v, vd).b1 - problem.b1).max() > 1.0
    cases = {"external_force": {"trunk": np.stack([force["trunk"], 0.0 * force["trunk"]])}}
    assert plan.problem(q, v, vd, **cases).b1[1] == pytest.approx(plan.problem(q, v, vd).b1)
    plan.check(q, **cases, max_gap=0.1)
    with pytest.raises(tb.UnknownNameError, match="trunc"):
        plan.check(q, external_force={"trunc": force["trunk"]}, max_gap=0.1)
    with pytest.raises(tb.DomainError, match="max_step"):
        plan.problem(q, v, vd, before=last)


def test_targets_are_forces_and_joint_forces_with_weights(dog):
    """(6.24), (6.25): differences from targets of a foot and of a knee, with weights by name."""
    q, v, vd = moving(dog)
    plain = tb.LoadSharing.of(dog, world=FLOOR, friction=0.6)
    problem = plain.problem(q, v, vd)
    whole = plain.problem(q, v, vd, formulation="superposition")
    J, needed = whole.A1[6:, :12], whole.b1[6:]
    knee = dog.v_names[6:].index("hind_left_knee")
    targets = {"front_left_foot": (1.0, -2.0, 40.0), "hind_left_knee": 3.0}
    weights = {"hind_left_knee": 60.0}
    objective = tb.InternalForce() + tb.LoadTarget(targets, weights)
    plan = tb.LoadSharing.of(dog, world=FLOOR, friction=0.6, objective=objective)
    D = np.diag([1.0] * 3 + [0.0] * 9)
    row, offset = -J[knee], needed[knee] - 3.0
    W = np.eye(12) + D + 60.0 * np.outer(row, row)
    c = 60.0 * offset * row - D @ np.array([1.0, -2.0, 40.0, *[0.0] * 9])
    assert plan.share(q, v, vd).x == pytest.approx(weighted_optimum(problem, W, c), abs=1e-7)
    with pytest.raises(tb.UnknownNameError, match="knees"):
        tb.LoadSharing.of(dog, world=FLOOR, objective=tb.LoadTarget({"knees": 1.0}))
    with pytest.raises(tb.UnknownNameError, match="foot"):
        tb.LoadTarget({"knee": 1.0}, {"foot": 2.0})


def test_weights_and_targets_are_parameters_of_runs_by_name(dog):
    """Runs set weights, targets and failures of single elements by name, one or one per case."""
    foot = tb.InternalForce(weights={"front_left_foot": 2.0})
    knee = tb.LoadTarget({"front_left_knee": 3.0}, {"front_left_knee": 2.0})
    plan = tb.LoadSharing.of(dog, world=FLOOR, friction=0.6, objective=foot + 0.1 * knee)
    path = dog.poses["stand"]
    scheme = tb.SmoothingPenalty({"front_left_foot.n": 3.0})
    control = tb.LoadSharingControl(plan, path, smoothing=scheme, failed={"hind_left_knee": 9.0})
    table = tb.parameters(dog, world=FLOOR, control=control)
    assert {
        "control.plan.objective.parts.0.1.weights.front_left_foot",
        "control.plan.objective.parts.1.1.forces.front_left_knee",
        "control.plan.objective.parts.1.1.weights.front_left_knee",
        "control.smoothing.weight.front_left_foot.n",
        "control.failed.hind_left_knee",
    } <= set(table)
