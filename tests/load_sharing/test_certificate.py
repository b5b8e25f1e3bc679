"""Certificates of infeasibility: Farkas vectors that hold on the data, and what would help."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.load_sharing import certificate
from tiburon.load_sharing.certificate import (
    Lifted,
    checked_contradiction,
    contradiction_of,
    least_excess,
)
from tiburon.trace.primitives.quadratic import OPTIMAL, solve_qp

EXCLUDED = 1e8
"""Forces, relative to the right-hand sides, that a certificate excludes: rounding is 1e-16, entries
of the equations are below 10."""


def unit(a):
    return a / np.linalg.norm(a, axis=-1, keepdims=True)


def walkers(rng, feet, count, friction=0.5, **kind):
    """Return a plan, random motions on tilted footholds, and their shared loads."""
    inertia = tb.Inertia(30.0, (0.02, -0.01, 0.03), (0.5, 0.02, 0.01, 1.2, 0.03, 1.4))
    body = tb.Body("trunk", joint=tb.Free("base"), inertia=inertia)
    sites = [tb.ContactSite(f"f{i}", "trunk", friction, point=(0, 0, -0.4)) for i in range(feet)]
    plan = tb.LoadSharing.of(tb.Model("walker", [body]), sites=sites, driven=[], **kind)
    angle = 2.0 * np.pi * np.arange(feet) / feet
    points = {}
    for i, (x, y) in enumerate(zip(0.4 * np.cos(angle), 0.3 * np.sin(angle), strict=True)):
        place = np.array([x, y, -0.45]) + 0.1 * rng.normal(size=(count, 3))
        points[f"f{i}"] = np.hstack(
            [place, unit(np.array([0, 0, -1.0]) + 0.2 * rng.normal(size=(count, 3)))]
        )
    q = np.hstack([unit(np.array([1.0, 0, 0, 0]) + 0.1 * rng.normal(size=(count, 4))),
                   rng.normal(size=(count, 3))])  # fmt: skip
    motion = (q, 0.5 * rng.normal(size=(count, 6)), 2.0 * rng.normal(size=(count, 6)))
    touching = (rng.uniform(size=(count, feet)) > 0.15).astype(float)
    given = {"touching": touching, "sites": points}
    return plan, motion, given, plan.share(*motion, **given)


def excluded_forces(problem, cones, found):
    """Return forces below which Farkas' lemma excludes all solutions, relative to the load.

    With g = A1^T y1 + A2^T y2 + z a solution x has b . y <= g . x <= max |g| sum |x|, if y2 >= 0
    and z . x >= 0 on the cones: z_n >= mu |z_t|, or z_n = 0 for a cone without friction.
    """
    A1, b1, A2, b2, mu = (np.asarray(x) for x in problem)
    assert (found.y2 >= 0.0).all()
    g = found.y1 @ A1 + found.y2 @ A2
    for cone, z, factor in zip(cones, found.z, mu, strict=True):
        assert z[2] >= factor * np.hypot(z[0], z[1]) * (1.0 - 1e-15)
        assert factor > 0.0 or z[2] == 0.0
        g[list(cone)] += z
    gain = found.y1 @ b1 + found.y2 @ b2
    return gain / max(np.abs(g).max(), 1e-300) / np.abs(b1).max()


KINDS = [{}, {"friction": 0.0}, {"sides": 4, "inscribed": False}, {"sides": 12}]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_infeasible_loads_have_a_certificate(kind):
    """Exact cones and pyramids: the vector of every infeasible case holds on the data."""
    rng = np.random.default_rng(11)
    checked = 0
    for feet in (3, 5):
        plan, motion, given, share = walkers(rng, feet, 60, **kind)
        batch = plan.problem(*motion, **given)
        cones = plan._cones
        for k in np.flatnonzero(share.status == "infeasible"):
            parts = (batch.A1, batch.b1, batch.A2, batch.b2, batch.mu)
            problem = [np.asarray(x)[k] for x in parts]
            found = contradiction_of(*problem[:4], cones, problem[4])
            assert found.holds
            assert excluded_forces(problem, cones, found) > EXCLUDED
            checked += 1
    assert checked > 60


def oracle_gap(A1, b1, A2, b2, mu, cones):
    """Return how far all limits must give way at least, by an interior-point method [N].

    Negative where forces can keep a distance from all limits; infinite where equations contradict.
    """
    clarabel = pytest.importorskip("clarabel")
    sparse = pytest.importorskip("scipy.sparse")
    n, scale = A1.shape[1], np.abs(b1).max()
    rows = [np.c_[A1, np.zeros(len(b1))], -np.c_[A2, np.ones(len(b2))]]
    right = [b1 / scale, -b2 / scale]
    kinds = [clarabel.ZeroConeT(len(b1)), clarabel.NonnegativeConeT(len(b2))]
    for (i, j, normal), factor in zip(cones, mu, strict=True):
        cone = np.zeros((3, n + 1))
        cone[0, [normal, n]], cone[1, i], cone[2, j] = (-factor, -1.0), -1.0, -1.0
        rows.append(cone)
        right.append(np.zeros(3))
        kinds.append(clarabel.SecondOrderConeT(3))
    # no farther than the load: forces could keep any distance else
    rows.append(-np.eye(n + 1)[-1:])
    right.append(np.ones(1))
    kinds.append(clarabel.NonnegativeConeT(1))
    options = clarabel.DefaultSettings()
    options.verbose = False
    none = sparse.csc_matrix((n + 1, n + 1))
    data = (np.eye(n + 1)[-1], sparse.csc_matrix(np.vstack(rows)), np.concatenate(right), kinds)
    found = clarabel.DefaultSolver(none, *data, options).solve()
    return np.inf if "Infeasible" in str(found.status) else scale * found.x[n]


@pytest.mark.parametrize("kind", [{}, {"sides": 6}], ids=str)
def test_statuses_are_those_of_an_interior_point_method(kind):
    """Feasible exactly where Clarabel finds forces, for one case and in a batch."""
    rng = np.random.default_rng(5)
    plan, motion, given, share = walkers(rng, 4, 60, **kind)
    batch = plan.problem(*motion, **given)
    for k in range(len(share.status)):
        data = [np.asarray(x)[k] for x in (batch.A1, batch.b1, batch.A2, batch.b2, batch.mu)]
        gap = oracle_gap(*data, plan._cones)
        # 1e-6 of the load is the accuracy of the oracle
        assert abs(gap) > 1e-6 * np.abs(data[1]).max()
        assert share.is_feasible[k] == (gap < 0.0)
        one = {name: x[k] for name, x in given["sites"].items()}
        single = plan.share(*(x[k] for x in motion), touching=given["touching"][k], sites=one)
        assert single.status == share.status[k]
    assert 5 < share.is_feasible.sum() < 50


def test_rounding_of_factors_loses_no_certificate():
    """A factor of -1e-16 counts as zero; one that is not in the combination disproves it."""
    # x >= 1 and -x >= 0, and a row that has no part in it
    A1, b1 = np.zeros((0, 1)), np.zeros(0)
    A2, b2 = np.array([[1.0], [-1.0], [0.3]]), np.array([1.0, 0.0, -5.0])
    for factor, holds in ((-1e-16, True), (0.1, False)):
        y2 = np.array([1.0, 1.0, factor])
        found = checked_contradiction(A1, b1, A2, b2, np.zeros(0), y2)
        assert found.holds is holds
        assert found.y2.min() >= 0.0


def test_factors_that_are_rounding_prove_nothing():
    """Rows without right-hand sides agree: a gain of the rounding of others is none."""
    # x1 - x2 = 0 twice, and x1 = 5: factors of 1e-14 of the latter
    A1, b1 = np.array([[1.0, -1.0], [1.0, -1.0], [1.0, 0.0]]), np.array([0.0, 0.0, 5.0])
    none = np.zeros((0, 2)), np.zeros(0)
    found = checked_contradiction(A1, b1, *none, np.array([1.0, -1.0, 1e-14]), np.zeros(0))
    assert found.gain == pytest.approx(1.0)
    assert not found.holds
    assert contradiction_of(A1, b1, *none) is None


@pytest.mark.parametrize("kind", [{}, {"sides": 8}], ids=str)
def test_light_forces_do_not_make_a_program_infeasible(kind, monkeypatch):
    """Weights 1e-12 apart: what rounding violates is not taken for a contradiction."""
    rng = np.random.default_rng(2)
    plan, motion, given, share = walkers(rng, 5, 30, friction=0.3, **kind)
    batch = plan.problem(*motion, **given)
    monkeypatch.setattr(certificate, "PROXIMAL_STEPS", 1)
    solved = 0
    for k in np.flatnonzero(share.status == "infeasible")[:12]:
        data = [np.asarray(x)[k] for x in (batch.A1, batch.b1, batch.A2, batch.b2)]
        friction = plan._cones, np.asarray(batch.mu)[k]
        for foot in range(len(plan._cones)) if not kind else range(5):
            rows = [i for i, x in enumerate(plan.limit_names) if x.startswith(f"f{foot}: friction")]
            lifted = Lifted(cones=[foot]) if not kind else Lifted(rows)
            found = []
            for light in (1.0, 1e-12):
                monkeypatch.setattr(certificate, "FORCE_WEIGHT", light)
                found.append(least_excess(*data, lifted, *friction))
            assert (found[0] is None) == (found[1] is None)
            solved += found[0] is not None
    assert solved > 5


def slider(friction, **kind):
    """Return a body of 2 kg that moves along three axes, and the contact that carries it."""
    slides = [
        tb.Body("rail", joint=tb.Prismatic("x", (1, 0, 0)), inertia=tb.Inertia.point(1e-9)),
        tb.Body("cart", "rail", joint=tb.Prismatic("y", (0, 1, 0)), inertia=tb.Inertia.point(1e-9)),
        tb.Body("load", "cart", joint=tb.Prismatic("z", (0, 0, 1)), inertia=tb.Inertia.point(2.0)),
    ]
    sites = [tb.ContactSite("foot", "load", friction)]
    return tb.LoadSharing.of(tb.Model("slider", slides), sites=sites, driven=[], **kind)


@pytest.mark.parametrize(("kind", "factor"), [({}, 1.0), ({"sides": 8}, np.cos(np.pi / 8))])
def test_missing_friction_is_named_with_its_amount(kind, factor):
    """A load on one foot: m a - mu m g is what lacks, whatever stands for the cone."""
    vd = np.array([3.0, 4.0, 0.0]) if not kind else np.array([5.0, 0.0, 0.0])
    found = slider(0.2, **kind).share(np.zeros(3), vd=vd).explain()
    lacking = 2.0 * 5.0 - factor * 0.2 * 2.0 * 9.81
    assert found.limits == ("foot: friction",)
    assert found.lifted == {"foot: friction": pytest.approx(lacking, rel=1e-6)}
    assert f"foot would need {lacking:.3g} N more friction" in found.sentence
    assert "side" not in found.sentence
    pull = slider(0.2, **kind).share(np.zeros(3), vd=[0, 0, -12.0]).explain()
    assert pull.lifted == {"foot: pushes": pytest.approx(2.0 * (12.0 - 9.81), rel=1e-6)}


@pytest.mark.parametrize("kind", [{}, {"sides": 8}], ids=str)
def test_lifted_limits_help_and_pulls_are_real(kind):
    """What is named suffices by itself, and no pull is below 1e-6 N."""
    rng = np.random.default_rng(21)
    plan, motion, given, share = walkers(rng, 4, 60, **kind)
    batch = plan.problem(*motion, **given)
    names, rows = np.array(plan.limit_names), batch.A2.shape[1]
    named = 0
    for k in np.flatnonzero(share.status == "infeasible")[:12]:
        found = share.explain(int(k))
        assert found.certificate.holds
        assert "side" not in found.sentence
        A1, b1, A2, b2, mu = (
            np.asarray(x)[k] for x in (batch.A1, batch.b1, batch.A2, batch.b2, batch.mu)
        )
        for name, amount in found.lifted.items():
            assert amount > 1e-6
            kept = ~np.char.startswith(names, name.partition(": ")[0])
            cones = [cone for cone, on in zip(plan._cones, kept[rows:], strict=True) if on]
            n = len(plan.names)
            W, c = np.eye(n), np.zeros(n)
            on = kept[:rows]
            free = solve_qp(W, c, A1, b1, A2[on], b2[on], cones=cones, mu=mu[kept[rows:]])
            assert free.status == OPTIMAL
            named += 1
    assert named > 3


def test_least_excess_of_a_cone_is_that_of_the_force():
    """|x_t| - mu x_n of a force that is given, and none where another limit contradicts."""
    A1, b1 = np.eye(3), np.array([3.0, 4.0, 10.0])
    A2, b2 = np.eye(3)[2:], np.zeros(1)
    cones, mu = [(0, 1, 2)], np.array([0.2])
    lifted = Lifted(cones=[0])
    assert least_excess(A1, b1, A2, b2, lifted, cones, mu) == pytest.approx(3.0, rel=1e-9)
    assert least_excess(A1, b1, A2, b2 + 11.0, lifted, cones, mu) is None
    both = least_excess(A1, b1, A2, b2 + 11.0, Lifted([0], [0]), cones, mu)
    assert both == pytest.approx(3.0, rel=1e-9)
