"""Lexicographic relaxation: levels give way in their order, and what is lacking is reported."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.load_sharing.problem import QuadraticProgram
from tiburon.load_sharing.relaxation import Level, relaxed

FLOOR = tb.World(ground=tb.Ground(static_friction=0.6))
KNEES = tuple(f"{foot}_knee" for foot in ("front_left", "front_right", "hind_left", "hind_right"))


@pytest.fixture(scope="module")
def dog():
    return tb.load("quadruped")


@pytest.fixture(scope="module")
def pushed(dog):
    """States in which the dog should accelerate sideways beyond friction, and the plan."""
    rng = np.random.default_rng(0)
    stand, count = np.array(dog.poses["stand"]), 48
    q = np.array([dog.integrate(stand, 0.05 * rng.normal(size=dog.nv)) for _ in range(count)])
    v, vd = 0.3 * rng.normal(size=(count, dog.nv)), rng.normal(size=(count, dog.nv))
    angle = rng.uniform(0.0, 2.0 * np.pi, count)
    vd[:, 3] += 9.0 * np.cos(angle)
    vd[:, 4] += 9.0 * np.sin(angle)
    plan = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False, relax=True)
    return plan, (q, v, vd)


def level_residuals(A1, s, D, x, mu):
    """Return complementarity and dual violation of a level of the motion, relative to its cost.

    With the gradient z = -A1^T D s, x is an optimum on the cones exactly if z_n >= mu |z_t| and
    z . x = 0 for each; then s is unique.
    """
    z = (-(A1.T @ (D * s))).reshape(-1, 3)
    forces = x.reshape(-1, 3)
    cost = s @ (D * s)
    outside = mu * np.hypot(z[:, 0], z[:, 1]) - z[:, 2]
    return abs(np.sum(z * forces)) / cost, outside.max() * np.abs(x).max() / cost


def test_feet_at_friction_have_the_least_shortfall(dog, pushed):
    """Exact cones, all feet at friction: optimality conditions of the level to 1e-8."""
    plan, motion = pushed
    share = plan.share(*motion)
    assert set(share.status) == {"relaxed"}
    # nearly all feet are at friction in nearly all cases
    largest = np.abs(share.x).max(axis=-1, keepdims=True)
    assert np.mean(np.abs(share.margins.friction) < 1e-9 * largest) > 0.9
    assert (share.margins.friction > -1e-9 * largest).all()
    problem = plan.problem(*motion)
    masses = np.asarray(tb.mass_matrix(dog, motion[0]))
    for k in range(len(share.x)):
        D = 1.0 / np.diag(masses[k])[:6]
        found = level_residuals(problem.A1[k], share.shortfall[k], D, share.x[k], 0.6)
        assert max(found) < 1e-8, k


def clarabel_shortfall(A1, b1, A2, b2, mu, D):
    """Return the least shortfall and forces by an interior-point method on cones."""
    clarabel = pytest.importorskip("clarabel")
    sparse = pytest.importorskip("scipy.sparse")
    (m, n), scale = A1.shape, np.abs(b1).max()
    rows = [np.hstack([A1, np.eye(m)]), np.hstack([-A2, np.zeros((len(b2), m))])]
    right = [b1 / scale, -b2 / scale]
    kinds = [clarabel.ZeroConeT(m), clarabel.NonnegativeConeT(len(b2))]
    for k, factor in enumerate(mu):
        cone = np.zeros((3, n + m))
        cone[0, 3 * k + 2], cone[1, 3 * k], cone[2, 3 * k + 1] = -factor, -1.0, -1.0
        rows.append(cone)
        right.append(np.zeros(3))
        kinds.append(clarabel.SecondOrderConeT(3))
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-12
    W = sparse.csc_matrix(np.diag(np.r_[np.zeros(n), D]))
    A = sparse.csc_matrix(np.vstack(rows))
    solver = clarabel.DefaultSolver(W, np.zeros(n + m), A, np.concatenate(right), kinds, options)
    found = scale * np.array(solver.solve().x)
    return found[n:], found[:n]


def test_shortfalls_are_those_of_an_interior_point_method(dog, pushed):
    """Clarabel finds no smaller shortfall, and the same to its own accuracy."""
    plan, motion = pushed
    share, problem = plan.share(*motion), plan.problem(*motion)
    masses = np.asarray(tb.mass_matrix(dog, motion[0]))
    apart = []
    for k in range(len(share.x)):
        D = 1.0 / np.diag(masses[k])[:6]
        rows = (problem.A1[k], problem.b1[k], problem.A2[k], problem.b2[k], problem.mu[k])
        theirs, _ = clarabel_shortfall(*rows, D)
        ours = share.shortfall[k]
        cost = theirs @ (D * theirs)
        assert ours @ (D * ours) < cost * (1.0 + 1e-9)
        apart.append(np.abs(ours - theirs).max() / np.abs(problem.b1[k]).max())
    assert np.median(apart) < 1e-7
    assert max(apart) < 1e-5


def polished(A1, b1, mu, D, found):
    """Return shortfall and forces of a solution with feet at friction, to rounding.

    Loaded feet stay at friction; their normal forces and directions minimize the shortfall.
    """
    x = found[1].reshape(-1, 3)
    loaded = np.flatnonzero(x[:, 2] > 1e-4 * np.abs(x).max())
    columns = np.concatenate([[3 * k, 3 * k + 1, 3 * k + 2] for k in loaded])
    count, factor, A = len(loaded), mu[loaded], A1[:, columns]

    def forces(p):
        r, angle = p[:count], p[count:]
        return (r * np.array([factor * np.cos(angle), factor * np.sin(angle), np.ones(count)])).T

    def gradient(p):
        r, angle = p[:count], p[count:]
        c, s = factor * np.cos(angle), factor * np.sin(angle)
        zero = np.zeros(count)
        steps = [np.array([c, s, zero + 1.0]).T, np.array([-r * s, r * c, zero]).T]
        pull = -(A.T @ (D * (b1 - A @ forces(p).ravel()))).reshape(-1, 3)
        return np.concatenate([np.sum(pull * step, axis=1) for step in steps])

    p = np.r_[x[loaded, 2], np.arctan2(x[loaded, 1], x[loaded, 0])]
    for _ in range(8):
        h = 1e-6 * np.maximum(np.abs(p), 1.0)
        H = np.array([(gradient(p + d) - gradient(p - d)) / (2 * d.max()) for d in np.diag(h)])
        p = p - np.linalg.solve(H, gradient(p))
    best = np.zeros_like(x)
    best[loaded] = forces(p)
    return b1 - A1 @ best.ravel(), best.ravel()


def test_forces_are_those_of_an_interior_point_method_where_they_are_unique():
    """Three feet in general position under a sideways push: forces to 1e-7, shortfall to 1e-8."""
    rng = np.random.default_rng(5)
    checked = 0
    for _ in range(16):
        feet = rng.normal(size=(3, 3)) * (0.5, 0.5, 0.05) - (0.0, 0.0, 0.4)
        A1 = np.zeros((6, 9))
        for k, (x, y, z) in enumerate(feet):
            A1[:3, 3 * k : 3 * k + 3] = np.eye(3)
            A1[3:, 3 * k : 3 * k + 3] = [[0, -z, y], [z, 0, -x], [-y, x, 0]]
        D = 1.0 / np.array([12.0, 12.0, 12.0, 0.2, 0.3, 0.4])
        angle = rng.uniform(0.0, 2.0 * np.pi)
        b1 = np.array([110.0 * np.cos(angle), 110.0 * np.sin(angle), 118.0, 0.0, 0.0, 0.0])
        b1[3:] = 3.0 * rng.normal(size=3)
        A2 = np.eye(9)[2::3]
        mu = np.array([0.5, 0.6, 0.7])

        def rows(A):
            return [{j: float(x) for j, x in enumerate(row) if x} for row in A]

        cones = [(0, 1, 2), (3, 4, 5), (6, 7, 8)]
        stated = QuadraticProgram(
            rows(np.eye(9)), [0.0] * 9, rows(A1), b1, rows(A2), [0.0] * 3, cones, list(mu)
        )
        ours = relaxed(stated, [Level(tuple(range(6)), ())], list(1.0 / D), [0.0] * 6)
        assert ours.status == 4.0
        x = np.asarray(ours.x, dtype=float)
        s = b1 - A1 @ x
        rough = clarabel_shortfall(A1, b1, A2, np.zeros(3), mu, D)
        f = rough[1].reshape(-1, 3)
        largest = np.abs(f).max()
        loaded = np.flatnonzero(f[:, 2] > 1e-4 * largest)
        margins = (mu * f[:, 2] - np.hypot(f[:, 0], f[:, 1]))[loaded]
        rays = np.array([A1[:, 3 * k : 3 * k + 3] @ f[k] for k in loaded])
        sizes = np.linalg.svd(rays, compute_uv=False)
        if margins.max() > 1e-4 * largest or sizes[-1] < 1e-2 * sizes[0]:
            continue
        checked += 1
        theirs, forces = polished(A1, b1, mu, D, rough)
        assert np.abs(s - theirs).max() < 1e-8 * np.abs(b1).max()
        assert np.abs(x - forces).max() < 1e-7 * np.abs(b1).max()
    assert checked >= 4


def test_symmetric_loads_are_shared_symmetrically(dog):
    """A push along the dog: left and right feet get the same, all within friction."""
    q, vd = np.array(dog.poses["stand"]), np.zeros(dog.nv)
    vd[3] = 9.0
    plan = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False, relax=True)
    share = plan.share(q, vd=vd)
    forces = share.forces
    np.testing.assert_allclose(forces[0, [0, 2]], forces[1, [0, 2]], atol=1e-8)
    np.testing.assert_allclose(forces[2, [0, 2]], forces[3, [0, 2]], atol=1e-8)
    np.testing.assert_allclose(share.margins.friction, 0.0, atol=1e-9)
    # closed form: the nearest point to (a, g) of the cone |f_t| <= mu f_n, per mass
    mu, g, a = 0.6, 9.81, 9.0
    normal = (mu * a + g) / (1.0 + mu * mu)
    expected = dog.total_mass * np.array([a - mu * normal, g - normal])
    np.testing.assert_allclose(share.shortfall[[3, 5]], expected, rtol=1e-8)


def test_feasible_loads_need_no_relaxation(dog):
    """The answer of `share` without levels, and nothing lacks."""
    q = np.array(dog.poses["stand"])
    plan = tb.LoadSharing.of(dog, world=FLOOR, sides=16, relax=[["motion"]])
    found = plan.share(q)
    assert found.status == "optimal"
    assert found.lacking() == ({},)
    strict = tb.LoadSharing.of(dog, world=FLOOR, sides=16)
    np.testing.assert_array_equal(found.tau, strict.share(q).tau)


@pytest.mark.parametrize("sides", [None, 16])
def test_levels_are_relaxed_in_order(dog, sides):
    """A push beyond friction: the first level lacks, the second holds while it can."""
    q, vd = np.array(dog.poses["stand"]), np.zeros(dog.nv)
    vd[3], vd[5] = 9.0, 0.5

    def share(levels):
        plan = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False, sides=sides, relax=levels)
        return plan, plan.share(q, vd=vd)

    turns, way = ["base.wx", "base.wy", "base.wz"], ["base.vx", "base.vy", "base.vz"]
    plan, found = share([["base.vx"]])
    assert found.status == "relaxed"
    assert set(found.lacking()[0]) == {"base.vx"}
    problem = plan.problem(q, vd=vd)
    lacking = problem.b1 - problem.A1 @ found.x
    np.testing.assert_allclose(np.delete(lacking, 3), 0.0, atol=1e-6)
    # along x all feet are at their friction limit; weights and moments hold
    friction = 0.6 if sides is None else 0.6 * np.cos(np.pi / 16)
    most = friction * dog.total_mass * (9.81 + 0.5)
    assert dog.total_mass * 9.0 - lacking[3] == pytest.approx(most, rel=0.02)
    # the way may be given up before the attitude, or the other way round
    _, one = share([way, turns])
    _, other = share([turns, way])
    assert one.lacking()[0]
    assert not one.lacking()[1]
    masses = np.diag(np.asarray(tb.mass_matrix(dog, q)))[:6]
    cost = {
        name: [np.sum(x.shortfall[part] ** 2 / masses[part]) for part in (slice(3), slice(3, 6))]
        for name, x in (("one", one), ("other", other))
    }
    # the more important level of each is at least as good as in the other order
    assert cost["one"][0] <= cost["other"][0] + 1e-9
    assert cost["other"][1] <= cost["one"][1] * (1 + 1e-9)
    assert "relaxed: base.v" in one.summary


def test_levels_in_batches_and_traced_functions_equal_single_calls(dog, pushed):
    """Same bits alone and in a batch."""
    plan, (q, v, vd) = pushed
    batch = plan.share(q, v, vd)
    for k in (0, 17):
        alone = plan.share(q[k], v[k], vd[k])
        np.testing.assert_array_equal(alone.x, batch.x[k])
        np.testing.assert_array_equal(alone.shortfall, batch.shortfall[k])


@pytest.mark.parametrize("sides", [None, 16])
def test_limits_may_be_exceeded_by_the_least(dog, sides):
    """Knees too weak to stand: torque limits give way, motion and friction hold."""
    q = np.array(dog.poses["stand"])
    free = tb.LoadSharing.of(dog, world=FLOOR, torque_limits=False, sides=sides)
    weak = dict.fromkeys(KNEES, (-1.0, 1.0))
    options = {"world": FLOOR, "torque_limits": weak, "sides": sides}
    assert tb.LoadSharing.of(dog, **options).share(q).status == "infeasible"
    found = tb.LoadSharing.of(dog, **options, relax=[list(KNEES)]).share(q)
    assert found.status == "relaxed"
    places = [dog.slice(name, of="v").start for name in KNEES]
    over = np.maximum(np.abs(found.tau[places]) - 1.0, 0.0)
    reported = sorted(abs(x) for x in found.lacking()[0].values())
    np.testing.assert_allclose(reported, np.sort(over[over > 1e-6]), rtol=1e-5)
    assert "exceeded by" in found.summary
    # no other sharing exceeds less: that without limits does more
    plain = np.maximum(np.abs(free.share(q).tau[places]) - 1.0, 0.0)
    assert np.sum(over**2) < np.sum(plain**2)
    np.testing.assert_allclose(found.shortfall, 0.0, atol=1e-6)
    assert (found.margins.friction > -1e-6).all()


def test_a_foot_may_slip_by_the_least(dog):
    """Friction of one foot in a level: its exact cone is exceeded, all others hold."""
    q, vd = np.array(dog.poses["stand"]), np.zeros(dog.nv)
    vd[3] = 2.1
    limit = "hind_left_foot: friction cone"
    plan = tb.LoadSharing.of(dog, world=FLOOR, friction=0.2, torque_limits=False, relax=[[limit]])
    share = plan.share(q, vd=vd)
    assert share.status == "relaxed"
    np.testing.assert_allclose(share.shortfall, 0.0, atol=1e-7)
    over = share.lacking()[0][limit]
    margins = dict(zip(plan.contact_names, share.margins.friction, strict=True))
    assert over == pytest.approx(-margins.pop("hind_left_foot"), rel=1e-9)
    assert min(margins.values()) > -1e-7
    # all weight is used, and what is missing of the push is what the foot lacks
    total = np.abs(share.forces[:, 0]).sum()
    assert over > total - 0.2 * share.forces[:, 2].sum() > 0.0


def test_thrusters_keep_the_direction_of_their_wrench():
    """Same direction, shorter: as `ThrusterAllocation` with keep="direction"."""
    robot = tb.load("bluerov2_heavy")
    world = tb.World(fluid=tb.Water())
    q, vd = robot.neutral(), np.array([0.3, -0.2, 1.0, 9.0, -6.0, 4.0])
    plan = tb.LoadSharing.of(robot, world=world, relax="direction")
    share = plan.share(q, vd=vd)
    assert share.status == "relaxed"
    needed = np.asarray(plan.problem(q, vd=vd).b1)
    done = needed - share.shortfall
    part = done @ needed / (needed @ needed)
    assert 0.0 < part < 1.0
    np.testing.assert_allclose(done, part * needed, atol=1e-8 * np.abs(needed).max())
    theirs = tb.ThrusterAllocation.of(robot, keep="direction").allocate(needed)
    np.testing.assert_allclose(needed - theirs.missing, done, rtol=1e-6)
    assert set(share.lacking()[0]) <= set(plan.equation_names)


def test_constraints_outside_all_levels_are_hard(dog):
    """Without feet nothing holds a dog but giving up its motion."""
    q = np.array(dog.poses["stand"])
    plan = tb.LoadSharing.of(dog, world=FLOOR, relax=[["base.wx"]])
    none = plan.share(q, touching=[0, 0, 0, 0])
    assert none.status == "infeasible"
    assert np.isnan(none.tau).all()
    assert none.explain().certificate.holds
    falls = tb.LoadSharing.of(dog, world=FLOOR, relax=True).share(q, touching=[0, 0, 0, 0])
    assert falls.lacking()[0]["base.vz"] == pytest.approx(dog.total_mass * 9.81, rel=1e-9)


def plate(unit):
    """Return a free plate of 3 kg with lengths in a unit of meters / unit, and its flat feet."""
    inertia = tb.Inertia(
        3.0, (0.0, 0.0, 0.3 * unit), tuple(unit**2 * x for x in (0.11, 0.0, 0.0, 0.10, 0.0, 0.03))
    )
    model = tb.Model("plate", [tb.Body("plate", joint=tb.Free("base"), inertia=inertia)])
    feet = [
        tb.ContactSite(
            f"foot_{k}",
            "plate",
            0.4,
            point=(x * unit, y * unit, 0.0),
            half_size=(0.05 * unit, 0.03 * unit),
            torsion=0.01 * unit,
        )
        for k, (x, y) in enumerate([(0.2, 0.1), (-0.15, -0.12)])
    ]
    return model, feet


def test_relaxed_motions_do_not_depend_on_the_unit_of_length():
    """Flat feet, torsion and friction at their limits: the same in meters and millimeters."""
    rng = np.random.default_rng(12)
    vd = rng.normal(size=(20, 6)) * (4.0, 4.0, 6.0, 4.0, 4.0, 2.0)
    vd[:, 3] += 5.0
    found = []
    for unit in (1.0, 1000.0):
        model, feet = plate(unit)
        world = tb.World(gravity=(0.0, 0.0, -9.81 * unit))
        plan = tb.LoadSharing.of(model, world=world, sites=feet, driven=[], relax=True)
        scaled = vd * np.r_[1.0, 1.0, 1.0, unit, unit, unit]
        share = plan.share(np.tile(model.neutral(), (20, 1)), vd=scaled)
        assert set(share.status) <= {"relaxed", "optimal", "at limits"}
        assert np.mean(share.status == "relaxed") > 0.5
        # forces in kg m/s^2 times the unit, moments times its square
        found.append(share.shortfall / np.r_[[unit**2] * 3, [unit] * 3])
    scale = np.abs(found[0]).max()
    np.testing.assert_allclose(found[1], found[0], atol=1e-8 * scale)
