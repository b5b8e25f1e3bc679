"""Contact problems at the level of accelerations: their terms, and solvers that must agree."""

import math

import numpy as np
import pytest

import tiburon as tb
from tiburon.contact.brute_force import solve_brute_force
from tiburon.contact.candidates import candidates_of, numbers_of
from tiburon.contact.certificate import find_certificate
from tiburon.contact.complementarity import (
    Tolerances,
    contact_accelerations,
    contact_modes,
)
from tiburon.contact.heuristic import solve_heuristic
from tiburon.contact.pivoting import solve_pivoting
from tiburon.contact.pruned import solve_pruned
from tiburon.contact.rows import along, contact_rows, in_world

SOLVERS = (solve_brute_force, solve_pruned, solve_heuristic, solve_pivoting)

SHAPES = {
    "sphere": tb.SphereShape(0.3),
    "capsule": tb.CapsuleShape(0.2, 0.5),
    "box": tb.BoxShape((0.4, 0.5, 0.6)),
    "ellipsoid": tb.EllipsoidShape((0.2, 0.3, 0.4)),
    "cylinder": tb.CylinderShape(0.3, 0.5),
}


def two_bodies(first, second):
    def body(name, shape, mass):
        inertia = tb.Inertia(mass, (0.1, 0.05, 0.02), np.diag([0.2, 0.3, 0.35]))
        shapes = (tb.Shape(SHAPES[shape], role="collision"),)
        return tb.Body(name, "world", joint=tb.Free(name), inertia=inertia, shapes=shapes)

    return tb.Model("two", [body("a", first, 1.0), body("b", second, 2.0)])


PAIRS = [
    ("sphere", "sphere"),
    ("sphere", "capsule"),
    ("sphere", "box"),
    ("capsule", "capsule"),
    ("box", "box"),
    ("sphere", "ellipsoid"),
    ("ellipsoid", "ellipsoid"),
    ("box", "ellipsoid"),
    ("cylinder", "cylinder"),
]


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_free_accelerations_equal_differences_of_velocities(pair):
    """Terms of velocity products, with turning normals and moving points (eqs. 9.43-9.47)."""
    rng = np.random.default_rng(len(pair[0]) + 10 * len(pair[1]))
    model = two_bodies(*pair)
    candidates = candidates_of(model, tb.World())
    p = [x for candidate in candidates for x in candidate.parameters()]
    q = rng.normal(size=14)
    q[:4], q[7:11] = (x / np.linalg.norm(x) for x in (q[:4], q[7:11]))
    q[4:7], q[11:14] = 0.0, 0.75 * q[11:14] / np.linalg.norm(q[11:14])
    v, vd = rng.normal(size=(2, 12))
    found = contact_accelerations(model.plan, list(q), list(v), list(vd), candidates, p)

    def moved(t):
        here, count = q, 40
        for k in range(count):
            here = model.integrate(here, (v + vd * (k + 0.5) * t / count) * t / count)
        points = contact_rows(model.plan, list(here), candidates, p)
        now = v + vd * t
        velocity = [
            sum(
                np.array(axis) * along(row, now)
                for axis, row in zip(point.axes, point.rows, strict=True)
            )
            for point in points
        ]
        gap = [point.geometry.gap for point in points]
        normal = [along(point.rows[2], now) for point in points]
        return np.array(gap), np.array(normal), np.array(velocity)

    h = 1e-4
    (gap, normal, velocity), (gap_before, normal_before, velocity_before) = moved(h), moved(-h)
    gap_now, normal_now, _ = moved(0.0)
    exist = gap_now < 1.0
    free = np.reshape(found.free, (-1, 3))[exist]
    rates = ((normal - normal_before) / (2 * h))[exist]
    np.testing.assert_allclose(free[:, 2], rates, atol=1e-5 * (1 + np.abs(rates).max()))
    # further points of a flat patch have gaps of their own only where shapes touch
    own = np.abs((gap - gap_before) / (2 * h) - normal_now)[exist] < 1e-5
    assert own[0]
    # second differences lose 8 digits, which leaves 1e-6 of curvatures up to 1e2
    second = ((gap - 2 * gap_now + gap_before) / h**2)[exist]
    np.testing.assert_allclose(free[own, 2], second[own], atol=2e-5 * (1 + np.abs(second).max()))
    rate = (velocity - velocity_before) / (2 * h)
    tangential = [
        [np.dot(axis, r) for axis in one.axes[:2]]
        for one, r in zip(found.points, rate, strict=True)
    ]
    tangential = np.array(tangential)[exist]
    np.testing.assert_allclose(free[:, :2], tangential, atol=1e-5 * (1 + np.abs(rate).max()))


def test_rolling_ball_has_no_acceleration_where_it_touches():
    """The material point accelerates by r w^2, the contact point does not."""
    radius, w = 0.1, 7.0
    ball = tb.Model(
        "ball",
        [
            tb.Body(
                "ball",
                "world",
                joint=tb.Free("ball"),
                inertia=tb.Inertia(1.0, (0, 0, 0), 0.004 * np.eye(3)),
                shapes=(tb.Shape(tb.SphereShape(radius)),),
            )
        ],
    )
    candidates = candidates_of(ball, tb.World(ground=tb.Ground()))
    q = np.array([math.cos(0.3), 0.0, 0.0, math.sin(0.3), 0.2, -0.1, radius])
    # turning about the y axis of a body that is turned by 0.6 rad about z
    v = np.array([0.0, w, 0.0, radius * w, 0.0, 0.0])
    convective = np.cross(v[:3], v[3:])
    vd = np.concatenate([np.zeros(3), -convective])
    p = candidates[0].parameters()
    found = contact_accelerations(ball.plan, list(q), list(v), list(vd), candidates, p)
    np.testing.assert_allclose(found.velocity, 0.0, atol=1e-15)
    np.testing.assert_allclose(found.free, 0.0, atol=1e-14)


def test_relative_velocities_are_those_of_the_jacobian_rows():
    """Of bodies of a gripper and its block in motion, in world axes."""
    model, world = tb.load("gripper_block"), tb.load_world("gripper_block")
    rng = np.random.default_rng(3)
    q = np.array(model.integrate(model.poses["open"], rng.uniform(-0.01, 0.01, model.nv)))
    v = rng.uniform(-1, 1, model.nv)
    candidates = candidates_of(model, world)
    points = contact_rows(model.plan, list(q), candidates, numbers_of(candidates))
    expected = [in_world(point, point.velocity(list(v))) for point in points]
    found = tb.contacts(model, q, v, world=world)
    shown = found.gap < 1.0
    assert shown.sum() > 8
    np.testing.assert_allclose(found.velocity[shown], np.array(expected)[shown], atol=1e-13)


def definite(rng, count):
    A = rng.uniform(-1, 1, (count, count))
    return A @ A.T + 1e-3 * np.eye(count), rng.uniform(-1, 1, count)


def check_conditions(C, d, found):
    """Signorini's conditions, and forces whose part in the null space cannot be reduced."""
    np.testing.assert_allclose(found.accelerations, C @ found.forces + d, atol=1e-9)
    assert found.forces.min() >= 0.0
    assert found.accelerations.min() >= -1e-9 * np.abs(d).max()
    assert np.abs(found.forces * found.accelerations).max() <= 1e-9 * (1 + found.forces.max())
    assert found.residual < 1e-9


def test_solvers_agree_on_definite_problems():
    """Pruned = heuristic = brute force = pivoting, and all satisfy the conditions."""
    rng = np.random.default_rng(5)
    carried = 0
    for _ in range(60):
        C, d = definite(rng, int(rng.integers(1, 8)))
        first, *others = (solve(C, d) for solve in SOLVERS)
        check_conditions(C, d, first)
        assert first.is_unique
        carried += (first.forces > 0).sum()
        for other in others:
            np.testing.assert_allclose(other.forces, first.forces, rtol=1e-10, atol=1e-12)
            assert other.modes == first.modes
            assert other.rank == first.rank
    assert carried > 60


def semidefinite(rng, count):
    """Return a problem with dependent normals, and often with parallel ones."""
    A = rng.integers(-2, 3, (count, int(rng.integers(1, count)))).astype(float)
    d = A @ rng.uniform(-1, 1, A.shape[1]) if rng.random() < 0.6 else rng.integers(-2, 3, count)
    return A @ A.T, np.asarray(d, dtype=float)


def check_certificate(C, d, error):
    """A certificate is a proof by itself: y >= 0, C y = 0, d y < 0."""
    y = np.array([error.certificate.get(str(k), 0.0) for k in range(len(d))])
    assert y.min() >= 0.0
    assert y.max() == pytest.approx(1.0)
    np.testing.assert_allclose(C @ y, 0.0, atol=1e-8)
    assert d @ y < -1e-3
    assert error.closing == pytest.approx(d @ y)


def test_solvers_agree_on_semidefinite_problems():
    """Brute force = pivoting: accelerations, least forces, rank, and problems without solution."""
    rng = np.random.default_rng(6)
    solved = shared = refused = 0
    for _ in range(150):
        C, d = semidefinite(rng, int(rng.integers(2, 8)))
        if find_certificate(C, d) is not None:
            refused += 1
            for solve in (solve_brute_force, solve_pivoting):
                with pytest.raises(tb.SecondOrderCollisionError) as caught:
                    solve(C, d)
                check_certificate(C, d, caught.value)
            continue
        first = solve_brute_force(C, d)
        second = solve_pivoting(C, d)
        check_conditions(C, d, first)
        np.testing.assert_allclose(second.forces, first.forces, atol=1e-9)
        np.testing.assert_allclose(second.accelerations, first.accelerations, atol=1e-9)
        assert (second.modes, second.rank) == (first.modes, first.rank)
        assert second.is_unique == first.is_unique
        solved += 1
        shared += not first.is_unique
    assert solved > 60
    assert shared > 20
    assert refused > 10


def least_norm_by_projection(C, d, found):
    """Return the non-negative forces of least norm with the same accelerations, by Dykstra."""
    active = np.flatnonzero(found.accelerations <= 1e-9)
    K, b = C[np.ix_(active, active)], -d[active]
    inverse = np.linalg.pinv(K, rcond=1e-10)
    x, held, changed = np.zeros(len(b)), np.zeros(len(b)), np.zeros(len(b))
    for _ in range(20000):
        y = x + changed
        one = y - inverse @ (K @ y - b)
        changed = y - one
        two = np.maximum(one + held, 0.0)
        held = one + held - two
        x = two
    forces = np.zeros(len(d))
    forces[active] = x
    return forces


def test_forces_that_are_not_unique_have_least_norm():
    """Against alternating projections of another kind, where forces without signs would pull."""
    rng = np.random.default_rng(8)
    compared = bounded = 0
    while compared < 4:
        count = int(rng.integers(4, 7))
        A = rng.normal(size=(count, 2)) + np.array([1.5, 0.0])
        C, d = A @ A.T, A @ np.array([-1.0, rng.uniform(-0.6, 0.6)])
        try:
            found = solve_pivoting(C, d)
        except tb.SecondOrderCollisionError:
            continue
        if found.is_unique:
            continue
        compared += 1
        active = np.flatnonzero(found.accelerations <= 1e-9)
        free = np.linalg.pinv(C[np.ix_(active, active)], rcond=1e-10) @ -d[active]
        bounded += free.min() < -1e-3
        expected = least_norm_by_projection(C, d, found)
        np.testing.assert_allclose(found.forces, expected, atol=1e-6)
    assert bounded


def test_forces_can_be_unique_though_normals_depend_on_each_other():
    """Normals x, y, x + y, pressed along y: more of the third would need the first to pull."""
    normals = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    C = normals @ normals.T
    found = solve_pivoting(C, normals @ np.array([0.0, -1.0]))
    assert found.modes == ("inactive", "remaining", "inactive")
    assert (found.rank, found.is_unique) == (2, True)
    # pressed along x + y as well, force may move between the third and the others
    found = solve_pivoting(C, normals @ np.array([-1.0, -1.0]))
    assert (found.rank, found.is_unique) == (2, False)
    np.testing.assert_allclose(found.forces, [1 / 3, 1 / 3, 2 / 3], rtol=1e-13)
    # opposed contacts at rest: any pair of equal forces
    opposed = np.array([[1.0], [-1.0]])
    found = solve_pivoting(opposed @ opposed.T, np.zeros(2))
    assert found.modes == ("inactive", "inactive")
    assert not found.is_unique


def block():
    """The block of Fig. 9-7: 0.4 x 0.3 x 0.2 m, 2 kg."""
    size, mass = (0.4, 0.3, 0.2), 2.0
    moments = [mass * (a * a + b * b) / 12 for a, b in ((0.3, 0.2), (0.4, 0.2), (0.4, 0.3))]
    body = tb.Body(
        "block",
        "world",
        joint=tb.Free("block"),
        inertia=tb.Inertia(mass, (0, 0, 0), np.diag(moments)),
        shapes=(tb.Shape(tb.BoxShape(size), role="collision"),),
    )
    return tb.Model("block", [body])


def normal_problem(model, world, q, v, touching=1e-9):
    """Return C and d of the contacts that touch, and their names."""
    candidates = candidates_of(model, world)
    p = [x for candidate in candidates for x in candidate.parameters()]
    q, v = list(np.asarray(q, dtype=float)), list(np.asarray(v, dtype=float))
    vd = tb.forward_dynamics(model, q, v, np.zeros(model.nv), world=world)
    found = contact_accelerations(model.plan, q, v, list(vd), candidates, p)
    A = np.zeros((len(found.free), model.nv))
    for k, row in enumerate(found.compliance.rows):
        for i, x in row.items():
            A[k, i] = x
    names = [name for candidate in candidates for name in candidate.point_names]
    closed = [k for k, point in enumerate(found.points) if point.geometry.gap <= touching]
    N = A[2::3][closed]
    return N @ N.T, np.array(found.free[2::3], dtype=float)[closed], [names[k] for k in closed]


def test_block_on_a_plane_has_rank_three_and_one_resultant():
    """Fig. 9-7: four contacts, rank 3, resultant 19.62 N; turned and placed off the axes."""
    q = [math.cos(0.2), 0, 0, math.sin(0.2), 0.3, -0.2, 0.1]
    C, d, names = normal_problem(block(), tb.World(ground=tb.Ground()), q, np.zeros(6))
    np.testing.assert_allclose(d, -9.81, atol=1e-13)
    assert len(names) == 4
    for solve in (solve_brute_force, solve_pivoting):
        found = solve(C, d)
        assert found.rank == 3
        assert not found.is_unique
        assert found.modes == ("remaining",) * 4
        np.testing.assert_allclose(found.forces, 4.905, rtol=1e-12)
        assert found.forces.sum() == pytest.approx(19.62, rel=1e-13)
        np.testing.assert_allclose(found.accelerations, 0.0, atol=1e-12)
    # opposite corners are solutions, too: their accelerations are the same
    for pair in ((0, 3), (1, 2)):
        forces = np.zeros(4)
        forces[list(pair)] = 9.81
        np.testing.assert_allclose(C @ forces + d, 0.0, atol=1e-12)
    for solve in (solve_pruned, solve_heuristic):
        with pytest.raises(tb.DomainError, match="positive definite"):
            solve(C, d)


def test_tolerances_of_forces_and_accelerations_are_separate():
    """A force below its tolerance is none, however small accelerations are."""
    modes = contact_modes(
        np.array([2.0, 0.5, 0.0, 0.0]),
        np.array([0.0, 0.0, 0.5, 2.0]),
        Tolerances(1.0, 1.0),
        np.array([0.0, 0.0, 0.0, 0.0]),
    )
    assert modes == ("remaining", "inactive", "inactive", "breaking")
    modes = contact_modes(
        np.zeros(2), np.zeros(2), Tolerances(1.0, 1.0), np.array([0.2, 0.05]), 0.1
    )
    assert modes == ("separated", "inactive")
    C, d = np.array([[2.0]]), np.array([-1e-3])
    assert solve_pivoting(C, d).modes == ("remaining",)
    assert solve_pivoting(C, d, Tolerances(1e-2, 1e-6)).modes == ("inactive",)


@pytest.mark.parametrize("solve", SOLVERS)
def test_bad_problems_are_refused(solve):
    """Shapes, non-finite values, matrices that are not symmetric or too large."""
    with pytest.raises(tb.ShapeError, match="2 x 2"):
        solve(np.eye(3), np.zeros(2))
    with pytest.raises(tb.NonFiniteError, match="d"):
        solve(np.eye(2), [0.0, np.nan])
    with pytest.raises(tb.DomainError, match="symmetric"):
        solve([[1.0, 0.5], [0.0, 1.0]], np.zeros(2))
    if solve is not solve_pivoting:
        with pytest.raises(tb.DomainError, match="solve_pivoting"):
            solve(np.eye(100), -np.ones(100))


def test_no_contacts_give_no_forces():
    """Empty problems, and contacts that all break."""
    for solve in SOLVERS:
        assert solve(np.zeros((0, 0)), np.zeros(0)).forces.shape == (0,)
        assert solve(np.eye(2), [1.0, 2.0]).modes == ("breaking", "breaking")


def test_pivoting_solves_many_dependent_contacts():
    """120 contacts of rank 30, as a pile has."""
    rng = np.random.default_rng(4)
    A = rng.normal(size=(120, 30))
    C, d = A @ A.T, A @ rng.normal(size=30)
    found = solve_pivoting(C, d)
    check_conditions(C, d, found)
    assert found.patterns < 600


def test_pivoting_does_not_cycle_on_symmetric_problems():
    """Equal contacts on a ring, all ratios tied."""
    angles = np.linspace(0.0, 2.0 * math.pi, 24, endpoint=False)
    A = np.stack([np.ones(24), np.cos(angles), np.sin(angles)], axis=1)
    found = solve_pivoting(A @ A.T, -9.81 * np.ones(24))
    assert found.rank == 3
    np.testing.assert_allclose(found.forces, 9.81 / 24, rtol=1e-10)


def test_slot_that_closes_on_a_moving_point_is_a_collision_of_second_order():
    """Unit mass at speed 2 between y >= x^2 / 4 and y <= -x^2 / 4 (Fig. 9-8)."""
    # second derivatives of the gaps y - x^2 / 4 and -y - x^2 / 4
    C, d = np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([-2.0, -2.0])
    for solve in (solve_brute_force, solve_pivoting):
        with pytest.raises(tb.SecondOrderCollisionError, match="second order") as caught:
            solve(C, d)
        assert caught.value.certificate == pytest.approx({"0": 1.0, "1": 1.0})
        assert caught.value.closing == pytest.approx(-4.0)
    # slower on one side than the other opens: a wider slot has forces
    found = solve_pivoting(C, np.array([-2.0, 2.0]))
    assert found.rank == 1
    np.testing.assert_allclose(found.accelerations, 0.0, atol=1e-14)


def test_second_order_collision_of_a_robot_names_its_contact():
    """A bob at the top of its circle, moving along ground that it will curve into."""
    length, rate = 0.5, 3.0
    arm = tb.Body(
        "arm",
        joint=tb.Revolute("pivot", axis=(0, 1, 0)),
        inertia=tb.Inertia(1.0, (0, 0, length), 0.01 * np.eye(3)),
    )
    bob = tb.ContactPoint("bob", "arm", (0.0, 0.0, length))
    model = tb.Model("pendulum", [arm], contacts=[bob])
    world = tb.World(ground=tb.Ground(height=length))
    with pytest.raises(tb.SecondOrderCollisionError, match="'bob' 1") as caught:
        tb.contact_dynamics(model, [0.0], [rate], [0.0], world=world)
    assert caught.value.closing == pytest.approx(-length * rate**2)
    # at rest there is no curvature: the contact touches without force
    now = tb.contact_dynamics(model, [0.0], [0.0], [0.0], world=world)
    assert now.modes.tolist() == ["inactive"]
