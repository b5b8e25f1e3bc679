"""Continuity in time: the four-legged walker whose foot lands (Nahon 1991, section 6.2.8)."""

import pickle

import numpy as np
import pytest

import tiburon as tb
from tiburon.load_sharing.shock import torque_programs
from tiburon.load_sharing.smoothing import (
    Blending,
    ForcePrograms,
    SmoothingPenalty,
    StepBound,
    blended,
    least_step,
    ramp,
    smallest_step,
    smoothed_forces,
)

DT = 0.01
LANDING = 50
"""Index of the time at which foot 1 touches."""

FRICTION = 0.5


def feet(x):
    """Return the feet relative to the center of mass (6.65)."""
    return [(1.5 - x, -0.5, -0.7), (1.5 - x, 0.5, -1.0), (-x, -0.5, -0.6), (-x, 0.5, -0.7)]


def problem(x, weight, standing):
    """Return A1, b1, A2, b2 of the walker at rest: forces only, pyramids of four sides."""
    A1, A2 = np.zeros((6, 12)), np.zeros((20, 12))
    for i, (a, b, c) in enumerate(feet(x)):
        at = slice(3 * i, 3 * i + 3)
        if i in standing:
            A1[:3, at] = np.eye(3)
            A1[3:, at] = [[0, -c, b], [c, 0, -a], [-b, a, 0]]
        A2[5 * i : 5 * i + 5, at] = [
            (0, 0, 1),
            *((s * u, s * w, FRICTION) for u, w in ((1, 0), (0, 1)) for s in (1, -1)),
        ]
    return A1, np.array([0, 0, weight, 0, 0, 0.0]), A2, np.zeros(20)


def walk(speed=0.3, weight=1000.0, count=101, start=0.45):
    """Return the walker whose mass center moves ahead; foot 1 touches at 0.5 s.

    Weight and motion are ours: the figures that showed them are lost.
    """
    found = []
    for k in range(count):
        standing = (1, 2, 3) if k < LANDING else (0, 1, 2, 3)
        found.append(problem(start + speed * k * DT, weight, standing))
    A1, b1, A2, b2 = (np.array(part) for part in zip(*found, strict=True))
    W = np.tile(np.eye(12), (count, 1, 1))
    return ForcePrograms(W, np.zeros((count, 12)), A1, b1, A2, b2)


def norms(x):
    return np.linalg.norm(np.reshape(x, (-1, 4, 3)), axis=-1)


def static(x, standing):
    A1, b1, A2, b2 = (part[None] for part in problem(x, 1.0, standing))
    programs = ForcePrograms(np.eye(12)[None], np.zeros((1, 12)), A1, b1, A2, b2)
    return smoothed_forces(programs, dt=DT)


def test_static_optima_are_those_of_the_source():
    """Unit weight, at rest: forces to the printed digits, friction rows active where they are."""
    three = static(0.6, (1, 2, 3))
    expected = [
        (0.01923, -0.01282, 0.39744),
        (0.01923, 0.02564, 0.49359),
        (-0.03846, -0.01282, 0.10897),
    ]
    np.testing.assert_allclose(three.x.reshape(4, 3)[1:], expected, atol=6e-6)
    assert three.active[0] == 0
    np.testing.assert_allclose(
        norms(static(0.6, range(4)).x)[0], (0.20113, 0.20273, 0.29789, 0.29896), atol=6e-6
    )
    steep = static(0.7, (1, 2, 3))
    np.testing.assert_allclose(norms(steep.x)[0, 1:], (0.46438, 0.49720, 0.04803), atol=6e-6)
    np.testing.assert_allclose(steep.x[0, 9:], (-0.01961, -0.01961, 0.03922), atol=6e-6)
    assert steep.active[0] == 2
    np.testing.assert_allclose(
        norms(static(0.5, range(4)).x)[0], (0.16859, 0.17204, 0.32991, 0.33165), atol=6e-6
    )


def test_least_forces_of_the_walker_have_no_internal_force():
    """Differences of forces have no component along the lines between feet (B20)."""
    for x in (0.5, 0.6, 0.7):
        force, place = static(x, range(4)).x.reshape(4, 3), np.array(feet(x))
        for i in range(4):
            for j in range(i):
                assert abs((force[i] - force[j]) @ (place[i] - place[j])) < 1e-15


def test_landing_jumps_without_smoothing_and_not_with_it():
    """The jump of 201 N becomes 20 N by step limits, and 19 N by the penalty."""
    programs = walk()
    plain = smoothed_forces(programs, dt=DT, changes=[LANDING])
    assert plain.steps.max() == plain.steps[LANDING] == pytest.approx(201.10, abs=5e-3)
    limited = smoothed_forces(programs, StepBound(20.0), dt=DT, changes=[LANDING])
    assert limited.steps.max() == pytest.approx(20.0, abs=1e-9)
    np.testing.assert_allclose(norms(limited.x)[55], (121.17, 289.64, 373.65, 217.69), atol=6e-3)
    soft = smoothed_forces(programs, SmoothingPenalty(10.0, 0.5), dt=DT, changes=[LANDING])
    assert soft.steps.max() == soft.steps[LANDING] == pytest.approx(19.17, abs=5e-3)
    np.testing.assert_allclose(norms(soft.x)[55], (96.30, 313.63, 400.30, 191.47), atol=6e-3)
    # all of them carry the weight, and end at the same optimum
    for found in (plain, limited, soft):
        force = np.einsum("kij,kj->ki", programs.A1, found.x)
        np.testing.assert_allclose(force, programs.b1, atol=1e-9)
        np.testing.assert_allclose(found.x[-1], plain.x[-1], atol=0.1)


def test_b16_several_step_limits_are_active_at_once():
    """Four limits are active in the same step: the printed remark "only one" is not general."""
    limited = smoothed_forces(walk(), StepBound(20.0), dt=DT, changes=[LANDING])
    assert limited.active.max() == 4


def test_smallest_feasible_step_is_found_and_reported():
    """From the start: 2 N feasible, 1 N not, threshold 1.8208 N; from the landing on 0.9284 N."""
    programs = walk()
    options = {"dt": DT, "changes": [LANDING]}
    assert smoothed_forces(programs, StepBound(2.0), **options).failed is None
    failed = smoothed_forces(programs, StepBound(1.0), **options)
    assert failed.failed == 1
    assert np.isnan(failed.x[1:]).all()
    # what the first step needs is less than what the whole walk needs
    assert 1.0 < failed.least < smallest_step(programs, **options)
    assert smallest_step(programs, **options) == pytest.approx(1.8208, abs=5e-5)
    assert smallest_step(programs, **options, start=LANDING) == pytest.approx(0.9284, abs=5e-5)


def test_least_step_is_the_smallest_change_that_limits_allow():
    """A load on two supports moves: closed form of the least largest change."""
    # x1 + x2 = 10 after x = (4, 4): each must rise by 1
    A1, b1, A2, b2 = np.ones((1, 2)), np.array([10.0]), np.eye(2), np.zeros(2)
    offset = -np.array([4.0, 4.0])
    assert least_step(A1, b1, A2, b2, np.eye(2), offset) == pytest.approx(1.0, rel=1e-8)
    # a limit x2 <= 4.5 leaves the rest to x1
    A2, b2 = np.vstack([A2, [[0.0, -1.0]]]), np.array([0.0, 0.0, -4.5])
    assert least_step(A1, b1, A2, b2, np.eye(2), offset) == pytest.approx(1.5, rel=1e-8)
    assert least_step(A1, b1, -A2, -b2 + 1.0, np.eye(2), offset) is None


def test_b4_blended_steps_have_the_length_of_rate_times_step():
    """The step of time stands in (4.45c): twice the time step, twice the change."""
    x, goal = [0.0, 0.0, 0.0], [30.0, 0.0, 40.0]
    for dt in (0.01, 0.02):
        found = np.array(blended(x, goal, 100.0, dt))
        np.testing.assert_allclose(found, dt * 100.0 * np.array([0.6, 0.0, 0.8]), rtol=1e-14)
    np.testing.assert_array_equal(blended(x, goal, 1e9, 0.01), goal)


def test_blending_carries_the_load_at_every_step_and_needs_a_machine_at_rest():
    """Every blended vector satisfies the new equations; a moving machine is refused."""
    still = walk(speed=0.0, start=0.6)
    found = smoothed_forces(still, Blending(1000.0), dt=DT, changes=[LANDING])
    force = np.einsum("kij,kj->ki", still.A1, found.x)
    np.testing.assert_allclose(force[LANDING:], still.b1[LANDING:], atol=1e-9)
    moved = np.linalg.norm(np.diff(found.x, axis=0), axis=1)
    assert moved.max() == pytest.approx(10.0, rel=1e-12)
    plain = smoothed_forces(still, dt=DT, changes=[LANDING])
    np.testing.assert_allclose(found.x[-1], plain.x[-1], rtol=1e-9, atol=1e-9)
    with pytest.raises(tb.DomainError, match="stands still"):
        smoothed_forces(walk(), Blending(1000.0), dt=DT, changes=[LANDING])


# -- contacts that are lost ------------------------------------------------------------------------


def standing_walk(*standing, x=0.6):
    """Return the walker at rest, with the feet that stand at each time."""
    found = [problem(x, 1000.0, feet) for feet in standing]
    A1, b1, A2, b2 = (np.array(part) for part in zip(*found, strict=True))
    W = np.tile(np.eye(12), (len(standing), 1, 1))
    return ForcePrograms(W, np.zeros((len(standing), 12)), A1, b1, A2, b2)


ALL, THREE = (0, 1, 2, 3), (1, 2, 3)


def check_new_system(programs, found, lost):
    """Equations and limits hold with no force at an open contact (4.3.1)."""
    last = len(found.x) if found.failed is None else found.failed
    for k in range(last):
        np.testing.assert_allclose(programs.A1[k] @ found.x[k], programs.b1[k], atol=1e-8)
        assert (programs.A2[k] @ found.x[k] - programs.b2[k]).min() > -1e-8
    assert not found.x[lost:last, :3].any()


@pytest.mark.parametrize("on", ["forces", "torques"])
def test_a_lost_contact_carries_nothing_under_any_scheme(on):
    """A loaded foot is lost: others take over its load, or the result says that none can."""
    programs = standing_walk(*[ALL] * 10, *[THREE] * 30)
    rng = np.random.default_rng(5)
    if on == "torques":
        # joints of a foot that is lost feel no force of it
        rows = np.repeat([np.diag(rng.uniform(0.3, 0.6, 12))], 40, axis=0)
        rows += 0.1 * programs.A1[:, :1] * rng.standard_normal((40, 12, 1))[:1]
        rows[10:, :, :3] = 0.0
        programs = programs._replace(rows=rows, offset=np.ones((40, 12)))
    options = {"dt": DT, "changes": [10]}
    plain = smoothed_forces(programs, **options)
    load = np.abs(plain.kept[9, :3] - plain.kept[10, :3]).max()
    assert load > 10.0
    soft = smoothed_forces(programs, SmoothingPenalty(10.0, 0.2, on=on), **options)
    assert soft.failed is None
    check_new_system(programs, soft, 10)
    # what is left of the jump is smoothed; least forces of three feet leave nothing to smooth
    jumps = [np.linalg.norm(run.kept[10] - run.kept[9]) for run in (soft, plain)]
    assert jumps[0] <= (1.0 + 1e-12 if on == "forces" else 0.999) * jumps[1]
    np.testing.assert_allclose(soft.x[-1], plain.x[-1], atol=1e-6)
    small = smoothed_forces(programs, StepBound(0.5 * load, on=on), **options)
    large = smoothed_forces(programs, StepBound(1.01 * plain.steps[10], on=on), **options)
    assert small.failed == 10
    assert 0.99 * load < small.least <= plain.steps[10] * (1.0 + 1e-6)
    assert large.failed is None
    check_new_system(programs, large, 10)
    blended_at = smoothed_forces(programs, Blending(200.0, on=on), **options)
    assert blended_at.failed == 10
    assert blended_at.least == pytest.approx(small.least, rel=1e-6)
    fast = 1.01 * np.linalg.norm(plain.kept[10] - plain.kept[9]) / DT
    quick = smoothed_forces(programs, Blending(fast, on=on), **options)
    assert quick.failed is None
    check_new_system(programs, quick, 10)


def test_a_contact_that_was_unloaded_is_lost_without_a_jump():
    """Limits unload the foot before its end: blending and step limits go on."""
    programs = standing_walk(*[ALL] * 10, *[THREE] * 30)
    A2 = np.concatenate([programs.A2, np.zeros((40, 1, 12))], axis=1)
    A2[:, -1, 2] = -1.0
    # the normal force of foot 1 is at most 1 N when it ends
    b2 = np.concatenate([programs.b2, np.zeros((40, 1))], axis=1)
    b2[:10, -1] = -1.0 - 300.0 * np.linspace(1.0, 0.0, 10)
    programs = programs._replace(A2=A2, b2=b2)
    bounded = smoothed_forces(programs, StepBound(60.0), dt=DT, changes=[10])
    assert bounded.failed is None
    check_new_system(programs, bounded, 10)
    assert bounded.steps.max() <= 60.0 * (1.0 + 1e-9)
    rate = 400.0
    found = smoothed_forces(programs, Blending(rate), dt=DT, changes=[10])
    assert found.failed is None
    check_new_system(programs, found, 10)
    moved = np.linalg.norm(np.diff(found.x[9:], axis=0), axis=1)
    assert moved.max() <= rate * DT * (1.0 + 1e-9)


def test_contacts_may_be_lost_and_made_again_while_forces_are_blended():
    """Equations may change where contacts do, not between."""
    programs = standing_walk(*[THREE] * 5, *[ALL] * 10, *[THREE] * 10)
    found = smoothed_forces(programs, Blending(1e6), dt=DT, changes=[5, 15])
    assert found.failed is None
    check_new_system(programs, found, 15)
    A1 = programs.A1.copy()
    A1[20:, 4, :] *= 1.01
    with pytest.raises(tb.DomainError, match="A1 that changes after time 15"):
        smoothed_forces(programs._replace(A1=A1), Blending(1e6), dt=DT, changes=[5, 15])


def test_blended_torques_change_at_the_bounded_rate():
    """With rows of torques it is torques whose rate is bounded, not forces."""
    programs = standing_walk(*[THREE] * 5, *[ALL] * 40)
    rows = np.repeat([np.diag(np.linspace(0.1, 0.4, 12))], 45, axis=0)
    torques = programs._replace(rows=rows)
    found = smoothed_forces(torques, Blending(500.0, on="torques"), dt=DT, changes=[5])
    moved = np.linalg.norm(np.diff(found.kept, axis=0), axis=1)
    assert moved.max() == pytest.approx(5.0, rel=1e-9)
    check_new_system(torques, found, 45)


def test_forces_that_enter_no_equation_at_any_time_are_not_those_of_open_contacts():
    """The largest normal force is an unknown of the objective: a column of zeros in A1."""
    dog = tb.load("quadruped")
    objective = tb.InternalForce() + 5.0 * tb.LargestNormalForce()
    plan = tb.LoadSharing.of(dog, friction=0.6, sides=8, objective=objective)
    q, touching = np.tile(dog.poses["stand"], (6, 1)), np.ones((6, 4))
    touching[3:, 0] = 0.0
    whole = plan.problem(q, touching=touching)
    expected = plan.share(q, touching=touching).x
    for programs in (whole.programs(), ForcePrograms(*whole[1:7])):
        found = smoothed_forces(programs, dt=DT)
        np.testing.assert_allclose(found.x[:, :12], expected, atol=1e-6)
        np.testing.assert_allclose(found.x[:, 12], expected[:, 2::3].max(axis=1), rtol=1e-6)


def test_marks_of_open_contacts_hold_where_columns_do_not_tell():
    """A contact that is open at all times has columns of zeros, or any others."""
    programs = standing_walk(*[ALL] * 8)
    active = np.ones((8, 12))
    active[:, :3] = 0.0
    found = smoothed_forces(programs._replace(active=active), dt=DT)
    expected = smoothed_forces(standing_walk(*[THREE] * 8), dt=DT)
    np.testing.assert_allclose(found.x, expected.x, atol=1e-9)
    with pytest.raises(tb.ShapeError, match="active"):
        smoothed_forces(programs._replace(active=active[:, :4]), dt=DT)


def test_terms_that_couple_contacts_hold_for_those_that_touch():
    """W and c of an open contact and another: the optimum is that of the problem without it."""
    programs = standing_walk(*[ALL] * 4, *[THREE] * 8)
    rng = np.random.default_rng(8)
    root = rng.standard_normal((12, 12))
    W, c = np.repeat([np.eye(12) + root @ root.T], 12, axis=0), rng.standard_normal((12, 12))
    programs = programs._replace(W=W, c=20.0 * c)
    rest = np.arange(3, 12)
    limits = np.flatnonzero(programs.A2[4][:, 3:].any(axis=1))
    without = ForcePrograms(
        W[4:][:, rest][..., rest],
        20.0 * c[4:, 3:],
        programs.A1[4:, :, 3:],
        programs.b1[4:],
        programs.A2[4:, limits, 3:],
        programs.b2[4:, limits],
    )
    found = smoothed_forces(programs, dt=DT)
    check_new_system(programs, found, 4)
    np.testing.assert_allclose(found.x[4:, 3:], smoothed_forces(without, dt=DT).x, atol=1e-7)


# -- exact friction cones --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def leaning():
    """A dog that accelerates sideways and turns, with cones that bind; a foot lands at time 4."""
    dog = tb.load("quadruped")
    plan = tb.LoadSharing.of(dog, friction=0.3, torque_limits=False)
    q, vd, touching = np.tile(dog.poses["stand"], (12, 1)), np.zeros((12, 18)), np.ones((12, 4))
    vd[:, 3], vd[:, 4], vd[:, 2] = 2.5, 0.6, 1.0
    touching[:4, 0] = 0.0
    return plan, plan.problem(q, vd=vd, touching=touching), plan.share(q, vd=vd, touching=touching)


def cone_violation(x, mu):
    f = x.reshape(*x.shape[:-1], -1, 3)
    return (np.hypot(f[..., 0], f[..., 1]) - mu * f[..., 2]).max()


def test_exact_friction_cones_hold_in_smoothed_forces(leaning):
    """However a plan's limits come in, its cones come with them; each time is what is shared."""
    plan, whole, share = leaning
    assert set(share.status) == {"at limits"}
    assert np.abs(share.margins.friction).min() < 1e-9
    parts = [
        (whole.programs(), slice(None)),
        (ForcePrograms(*whole[1:7]), slice(None)),
        (ForcePrograms(*(part[2:9] for part in whole[1:7])), slice(2, 9)),
        (ForcePrograms(*pickle.loads(pickle.dumps(whole))[1:7]), slice(None)),
        (ForcePrograms(*(part.copy() for part in whole[1:7])), slice(None)),
        (
            ForcePrograms(*map(np.array, whole[1:7]), cones=plan._cones, mu=np.full(4, 0.3)),
            slice(None),
        ),
    ]
    for programs, times in parts:
        plain = smoothed_forces(programs, dt=DT)
        np.testing.assert_allclose(plain.x, share.x[times], atol=1e-6)
        assert plain.active.min() >= 1
        change = 4 - (times.start or 0)
        for scheme in (SmoothingPenalty(10.0, 0.05), StepBound(20.0), Blending(500.0)):
            found = smoothed_forces(programs, scheme, dt=DT, changes=[change])
            assert found.failed is None
            assert cone_violation(found.x, 0.3) < 1e-9
            balance = np.einsum("kij,kj->ki", programs.A1, found.x) - programs.b1
            assert np.abs(balance).max() < 1e-8


def test_limits_without_their_cones_are_refused(leaning):
    """Some columns of the limits of a plan with exact cones say nothing of friction."""
    _, whole, _ = leaning
    few = ForcePrograms(
        whole.W[:, :11, :11], whole.c[:, :11], whole.A1[..., :11], whole.b1,
        whole.A2[..., :11], whole.b2,
    )  # fmt: skip
    with pytest.raises(tb.DomainError, match="friction cones"):
        smoothed_forces(few, dt=DT)
    free = smoothed_forces(few._replace(cones=(), b1=0.0 * whole.b1), dt=DT)
    assert free.failed is None
    with pytest.raises(tb.ShapeError, match="mu"):
        smoothed_forces(ForcePrograms(*whole[1:7], cones=((0, 1, 2),), mu=np.ones(2)), dt=DT)
    with pytest.raises(tb.DomainError, match="cones"):
        smoothed_forces(ForcePrograms(*whole[1:7], cones=((0, 1, 12),), mu=np.ones(1)), dt=DT)


def test_motions_that_cones_do_not_allow_fail(leaning):
    """What is infeasible for `share` is for sequences: with the least change where there is one."""
    plan = leaning[0]
    dog = plan.model
    q, vd = np.tile(dog.poses["stand"], (3, 1)), np.zeros((3, 18))
    vd[2, 4] = 5.0
    assert list(plan.share(q, vd=vd).status) == ["optimal", "optimal", "infeasible"]
    found = smoothed_forces(plan.problem(q, vd=vd).programs(), dt=DT)
    assert (found.failed, found.least) == (2, None)
    vd[2, 4] = 2.0
    programs = plan.problem(q, vd=vd).programs()
    bounded = smoothed_forces(programs, StepBound(0.5), dt=DT)
    assert bounded.failed == 2
    enough = smoothed_forces(programs, StepBound(1.001 * bounded.least), dt=DT)
    assert enough.failed is None
    assert cone_violation(enough.x, 0.3) < 1e-9
    assert smoothed_forces(programs, StepBound(0.999 * bounded.least), dt=DT).failed == 2
    assert smallest_step(programs, dt=DT) == pytest.approx(bounded.least, rel=1e-3)


def test_cones_with_torsion_and_programs_of_torques_keep_all_limits():
    """Soft contacts: cones, moments about normals, and both over forces of torque programs."""
    sites = [
        tb.ContactSite(f"f{k}", "b", 0.25, point=(x, y, -0.3), torsion=0.02)
        for k, (x, y) in enumerate([(0.2, 0.15), (0.2, -0.15), (-0.2, 0.15), (-0.2, -0.15)])
    ]
    inertia = tb.Inertia(12.0, (-0.03, -0.02, 0), (0.1, 0, 0, 0.1, 0, 0.1))
    body = tb.Body("b", joint=tb.Free("b"), inertia=inertia)
    plan = tb.LoadSharing.of(tb.Model("m", [body]), sites=sites, driven=[])
    q, vd = np.tile([1.0, 0, 0, 0, 0, 0, 0.3], (20, 1)), np.zeros((20, 6))
    touching = np.ones((20, 4))
    touching[10:, 1] = 0.0
    vd[:, 2], vd[:, 3] = 3.0, 1.5
    whole = plan.problem(q, vd=vd, touching=touching)
    assert set(plan.share(q, vd=vd, touching=touching).status) <= {"optimal", "at limits"}
    rows = list(plan.layout.driven), list(plan.layout.undriven)
    full = plan.problem(q, vd=vd, touching=touching, formulation="superposition")
    torques = torque_programs(full.A1, full.b1, full.A2, full.b2, len(plan.names), *rows)
    for programs in (whole.programs(), torques._replace(rows=None, offset=None)):
        found = smoothed_forces(programs, SmoothingPenalty(10.0, 0.05), dt=DT, changes=[10])
        assert found.failed is None
        f = found.x.reshape(20, 4, 4)
        assert (np.hypot(f[..., 0], f[..., 1]) - 0.25 * f[..., 2]).max() < 1e-9
        assert (np.abs(f[..., 3]) - 0.02 * f[..., 2]).max() < 1e-9
        assert not f[10:, 1].any()
        assert np.abs(f[:10, 1]).max() > 1.0


def test_any_step_limit_that_is_enough_has_a_smallest_one():
    """Forces that need not change at all: the smallest step limit is none but for rounding."""
    programs = standing_walk(*[THREE] * 3, *[ALL] * 5)
    found = smallest_step(programs, dt=DT, changes=[3], start=3)
    assert 0.0 <= found < 1e-3


def test_penalty_on_torques_smooths_torques():
    """Rows of torques: their jump is smaller than that of the penalty on forces."""
    programs = walk()
    rng = np.random.default_rng(3)
    rows = np.tile(0.3 * rng.standard_normal((12, 12)), (len(programs.c), 1, 1))
    torques = programs._replace(rows=rows, offset=np.ones((len(programs.c), 12)))
    plain = smoothed_forces(torques, dt=DT, changes=[LANDING])
    soft = smoothed_forces(torques, SmoothingPenalty(50.0, on="torques"), dt=DT, changes=[LANDING])
    assert soft.steps[LANDING] < 0.2 * plain.steps[LANDING]
    np.testing.assert_allclose(soft.kept, np.einsum("kij,kj->ki", rows, soft.x) + 1.0, atol=1e-9)


def test_weights_fall_linearly_to_zero():
    """Zero before the first change, then from the weight to zero."""
    since = np.array([-1.0, 0.0, 0.25, 0.5, 0.7])
    np.testing.assert_allclose(ramp(10.0, since, 0.5), [0.0, 10.0, 5.0, 0.0, 0.0])


def test_bad_schemes_are_refused():
    """Bounds must be positive, quantities known, shapes fit."""
    for bad in (
        lambda: StepBound(0.0),
        lambda: Blending(-1.0),
        lambda: SmoothingPenalty(duration=0.0),
        lambda: smoothed_forces(walk(), dt=0.0),
    ):
        with pytest.raises(tb.DomainError):
            bad()
    with pytest.raises(tb.OptionError):
        StepBound(1.0, on="feet")
    programs = walk()
    with pytest.raises(tb.ShapeError, match="b2"):
        smoothed_forces(programs._replace(b2=programs.b2[:-1]), dt=DT)
