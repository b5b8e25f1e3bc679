"""Quadratic programs by the dual active set method: optimality, certificates, published answers."""

import numpy as np
import pytest

import tiburon as tb
from tiburon import trace as tracing
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.trace.primitives.quadratic import INFEASIBLE, OPTIMAL, solve_qp

KKT = 1e-9
"""Residuals of the optimality conditions relative to their terms."""

KINDS = ("plain", "degenerate", "nearly dependent", "scaled", "infeasible")


def problems(rng, cases, n, equations, rows, kind):
    """Return random problems; all but those of kind "infeasible" have a feasible point."""
    G = rng.standard_normal((cases, n, n))
    W = G @ G.transpose(0, 2, 1) + 0.1 * np.eye(n)
    c = 3.0 * rng.standard_normal((cases, n))
    A1, A2 = (rng.standard_normal((cases, k, n)) for k in (equations, rows))
    x = rng.standard_normal((cases, n))
    slack = rng.exponential(0.3, (cases, rows))
    half = A2[:, 1::2].shape[1]
    if kind == "degenerate":
        A2[:, 1::2] = 2.0 * A2[:, 0::2][:, :half]
        slack = np.where(rng.random(slack.shape) < 0.5, 0.0, slack)
    if kind == "nearly dependent":
        A2[:, 1::2] = A2[:, 0::2][:, :half] + 1e-6 * rng.standard_normal((cases, half, n))
    b1 = np.einsum("kij,kj->ki", A1, x)
    b2 = np.einsum("kij,kj->ki", A2, x) - slack
    if kind == "infeasible":
        b2 = b2 + rng.exponential(3.0, b2.shape)
    if kind == "scaled":
        d = 10.0 ** rng.uniform(-3, 3, (cases, n))
        W, c, A1, A2 = W * d[:, :, None] * d[:, None], c * d, A1 * d[:, None], A2 * d[:, None]
        e = 10.0 ** rng.uniform(-3, 3, (cases, rows))
        A2, b2 = A2 * e[..., None], b2 * e
    return W, c, A1, b1, A2, b2


def compiled(n, equations, rows):
    """Return a kernel for problems of one size."""

    def solve(W, c, A1, b1, A2, b2):
        found = solve_qp(W, c, A1, b1, A2, b2)
        return {
            "x": found.x,
            "y1": found.equation_multipliers,
            "y2": found.inequality_multipliers,
            "status": found.status,
        }

    shapes = {
        "W": (n, n),
        "c": n,
        "A1": (equations, n),
        "b1": equations,
        "A2": (rows, n),
        "b2": rows,
    }
    return tb.compile(solve, shapes=shapes, name="quadratic program")


def worst_violation(problem, x, y1, y2):
    """Return the largest residual of the optimality conditions of each case."""
    W, c, A1, b1, A2, b2 = problem

    def apply(A, y, absolute=False):
        A, y = (np.abs(A), np.abs(y)) if absolute else (A, y)
        return np.einsum("kij,kj->ki", A, y)

    T1, T2 = A1.transpose(0, 2, 1), A2.transpose(0, 2, 1)
    size = apply(W, x, True) + np.abs(c) + apply(T1, y1, True) + apply(T2, y2, True)
    gradient = (np.abs(apply(W, x) + c - apply(T1, y1) - apply(T2, y2)) / size).max(axis=1)
    equations = np.abs(apply(A1, x) - b1) / (apply(A1, x, True) + np.abs(b1))
    slack = (apply(A2, x) - b2) / (apply(A2, x, True) + np.abs(b2))
    held = np.where(y2 > 0.0, np.abs(slack), 0.0)
    negative = -y2 / np.maximum(np.abs(y2).max(axis=1, keepdims=True), 1e-300)
    parts = [equations.max(axis=1), -slack.min(axis=1), held.max(axis=1), negative.max(axis=1)]
    return np.maximum.reduce([gradient, *parts])


def check(problem, found):
    """Check that every case is optimal, or has a certificate that there is no solution."""
    x, y1, y2, status = found
    optimal, none = status == OPTIMAL, status == INFEASIBLE
    assert np.all(optimal | none)
    part = tuple(array[optimal] for array in problem)
    if optimal.any():
        assert worst_violation(part, x[optimal], y1[optimal], y2[optimal]).max() < KKT
    _, _, A1, b1, A2, b2 = (array[none] for array in problem)
    y1, y2 = y1[none], y2[none]
    sums = np.einsum("kji,kj->ki", A1, y1) + np.einsum("kji,kj->ki", A2, y2)
    sizes = np.einsum("kji,kj->ki", np.abs(A1), np.abs(y1)) + np.einsum(
        "kji,kj->ki", np.abs(A2), y2
    )
    assert np.all(y2 >= 0.0)
    assert np.all(np.abs(sums) <= KKT * sizes)
    assert np.all(np.sum(b1 * y1, axis=1) + np.sum(b2 * y2, axis=1) > 0.0)
    return optimal


@pytest.mark.parametrize("kind", KINDS)
def test_random_problems_are_optimal_or_have_a_certificate(kind):
    """Optimality conditions to 1e-9, or a Farkas vector; none undecided."""
    rng = np.random.default_rng(KINDS.index(kind))
    problem = problems(rng, 2000, 6, 2, 20, kind)
    optimal = check(problem, compiled(6, 2, 20)(*problem))
    assert optimal.all() or kind == "infeasible"
    assert kind != "infeasible" or (~optimal).sum() > 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "equations", "rows"), [(3, 1, 8), (9, 6, 33), (12, 6, 44), (24, 6, 96)]
)
def test_many_random_problems(n, equations, rows):
    """The sizes of hands, walking machines and arms, 25,000 problems each."""
    rng = np.random.default_rng(n)
    kernel = compiled(n, equations, rows)
    for kind in KINDS:
        problem = problems(rng, 5000, n, equations, rows, kind)
        check(problem, kernel(*problem))


def test_one_case_equals_its_place_in_a_batch():
    """Same bits alone, in a batch, and on plain floats up to rounding."""
    problem = problems(np.random.default_rng(7), 19, 6, 2, 20, "plain")
    kernel = compiled(6, 2, 20)
    batch = kernel(*problem)
    for k in (0, 8, 18):
        alone = kernel(*(array[k] for array in problem))
        for a, b in zip(alone, batch, strict=True):
            np.testing.assert_array_equal(a, b[k])
    plain = solve_qp(*(array[3] for array in problem))
    np.testing.assert_allclose(plain.x, batch[0][3], rtol=0, atol=1e-12)


def test_a_warm_start_changes_rounding_only():
    """Constraints that were active enter first; the optimum is the same."""
    rng = np.random.default_rng(3)
    steps = np.zeros(2)
    for _ in range(40):
        W, c, A1, b1, A2, b2 = (a[0] for a in problems(rng, 1, 6, 2, 14, "plain"))
        cold = solve_qp(W, c, A1, b1, A2, b2)
        prefer = (cold.inequality_multipliers > 0.0).astype(float)
        wrong = rng.integers(0, 2, 14).astype(float)
        for hint in (prefer, wrong):
            warm = solve_qp(W, c, A1, b1, A2, b2, prefer=hint)
            np.testing.assert_allclose(warm.x, cold.x, rtol=0, atol=1e-10)
        again = solve_qp(W, c, A1, b1, A2, b2, prefer=prefer)
        steps += cold.iterations, again.iterations
    assert steps[1] < steps[0]


def test_kerr_roth_grasp():
    """Nahon 1991, L2419-L2477: the published optimum, one active row with multiplier 20."""
    A1 = np.zeros((6, 8))
    for row, entries in enumerate(
        [{1: 1, 4: 1}, {2: 1, 6: -1}, {0: 1, 5: 1}, {0: -1, 5: 1}, {3: 1, 7: -1}, {1: 1, 4: -1}]
    ):
        for column, value in entries.items():
            A1[row, column] = value
    b1 = np.array([0, -1, -1, 0, 0, 0.0])
    A2 = []
    for first in (0, 4):
        for column, mu in ((0, 0.25), (1, 0.25), (3, 0.5)):
            for sign in (1.0, -1.0):
                row = np.zeros(8)
                row[first + 2], row[first + column] = mu, sign
                A2.append(row)
    found = solve_qp(np.eye(8), np.zeros(8), A1, b1, np.array(A2), np.zeros(12))
    np.testing.assert_allclose(found.x, [-0.5, 0, 2, 0, 0, -0.5, 3, 0], atol=1e-13)
    assert 0.5 * found.x @ found.x == pytest.approx(6.75, abs=1e-12)
    assert found.active == 1
    assert max(found.inequality_multipliers) == pytest.approx(20.0, abs=1e-10)


@pytest.mark.parametrize("alpha", [0.5, 0.999999, 1.0, 1.000001, 2.0])
def test_optima_are_continuous_where_linear_programs_jump(alpha):
    """Nahon 1991, L1916: x = (alpha + 1) / (alpha^2 + 1) (alpha, 1)."""
    found = solve_qp(
        2 * np.eye(2), np.zeros(2), [[alpha, 1.0]], [alpha + 1.0], np.eye(2), np.zeros(2)
    )
    expected = (alpha + 1) / (alpha**2 + 1) * np.array([alpha, 1.0])
    np.testing.assert_allclose(found.x, expected, atol=1e-14)


def test_multipliers_accumulate_over_partial_steps():
    """The printed listing overwrites the multiplier of an entering constraint (Nahon, B1).

    With that rule some of these problems, in which constraints leave, end where a multiplier does
    not belong to the gradient.
    """

    def listing(W, c, A, b):
        """Return the multipliers of a dual active set method with the rule of the listing."""
        x, active, y = -np.linalg.solve(W, c), [], np.zeros(0)
        inverse = np.linalg.inv(W)
        for _ in range(200):
            s = A @ x - b
            worst = min((s[i] / np.linalg.norm(A[i]), i) for i in range(len(b)))
            if worst[0] > -1e-9:
                break
            p, t = worst[1], 0.0
            while True:
                N = A[active].T
                M = N.T @ inverse @ N
                r = np.linalg.solve(M, N.T @ inverse @ A[p]) if active else np.zeros(0)
                z = inverse @ (A[p] - N @ r)
                ratios = [(y[k] / r[k], k) for k in range(len(active)) if r[k] > 1e-12]
                partial = min(ratios, default=(np.inf, -1))
                full = (b[p] - A[p] @ x) / (z @ A[p]) if z @ A[p] > 1e-12 else np.inf
                step = min(partial[0], full)
                if not np.isfinite(step):
                    return None
                x, y, t = x + step * z, y - step * r, step
                if step == full:
                    active, y = [*active, p], np.append(y, t)
                    break
                del active[partial[1]]
                y = np.delete(y, partial[1])
        found = np.zeros(len(b))
        found[active] = y
        return np.abs(W @ x + c - A.T @ found).max()

    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(60):
        W, c, _, _, A, b = (a[0] for a in problems(rng, 1, 6, 1, 20, "plain"))
        ours = solve_qp(W, c, None, None, A, b)
        residual = W @ ours.x + c - A.T @ ours.inequality_multipliers
        assert np.abs(residual).max() < 1e-10
        theirs = listing(W, c, A, b)
        wrong += theirs is None or theirs > 1e-6
    assert wrong > 0


def test_nearest_point_of_a_friction_cone():
    """The nearest point of a friction cone, in closed form."""
    rng = np.random.default_rng(2)
    mu = 0.4
    for _ in range(20):
        target = rng.standard_normal(3) * (1.0, 1.0, 0.3) + (0.0, 0.0, 1.0)
        cone = solve_qp(np.eye(3), -target, cones=[(0, 1, 2)], mu=[mu], A2=[[0.0, 0, 1]], b2=[0.0])
        length = np.hypot(target[0], target[1])
        if length <= mu * target[2]:
            expected = target
        elif mu * length <= -target[2]:
            expected = np.zeros(3)
        else:
            # projection on the cone
            normal = (mu * length + target[2]) / (1 + mu * mu)
            expected = np.array([*(mu * normal * target[:2] / length), normal])
        np.testing.assert_allclose(cone.x, expected, atol=1e-8)


def test_dependent_equations_agree_or_contradict():
    """A repeated equation changes nothing; a contradiction has no solution."""
    A = np.array([[1.0, 2.0, 0.5], [2.0, 4.0, 1.0]])
    found = solve_qp(np.eye(3), np.ones(3), A, [1.0, 2.0])
    once = solve_qp(np.eye(3), np.ones(3), A[:1], [1.0])
    assert found.status == OPTIMAL
    np.testing.assert_allclose(found.x, once.x, atol=1e-14)
    more = np.vstack([A, [[0.3, -1.0, 2.0]]])
    for right in ([1.0, 2.1, 0.5], [1.0, 1.9, 0.5]):
        none = solve_qp(np.eye(3), np.ones(3), more, right)
        assert none.status == INFEASIBLE
        np.testing.assert_allclose(more.T @ none.equation_multipliers, 0.0, atol=1e-12)
        assert right @ none.equation_multipliers > 0.0


def test_wrong_shapes_are_named():
    """The message names the argument."""
    with pytest.raises(tb.ShapeError, match="b2"):
        solve_qp(np.eye(2), np.zeros(2), A2=np.eye(2), b2=np.zeros(3))
    with pytest.raises(tb.ShapeError, match="mu"):
        solve_qp(np.eye(3), np.zeros(3), cones=[(0, 1, 2)], mu=[])


def varied(rng, cones):
    """Return a problem with active constraints and a direction in which its data change."""
    W, c, A1, _, A2, _ = (a[0] for a in problems(rng, 1, 6, 2, 8, "plain"))
    inside = 0.3 * rng.standard_normal(6)
    inside[[2, 5]] = 8.0
    b1, b2 = A1 @ inside, A2 @ inside - rng.exponential(0.3, 8)
    c = -W @ (inside + 5.0 * rng.standard_normal(6))
    data = [W, c, A1, b1, A2, b2, np.array([0.15, 0.2])[: len(cones)]]
    change = [rng.standard_normal(np.shape(a)) for a in data]
    change[0] = change[0] + change[0].T
    return data, change


@pytest.mark.parametrize("cones", [(), ((0, 1, 2), (3, 4, 5))])
def test_derivatives_follow_the_active_constraints(cones):
    """Tangents equal central differences, and adjoints equal transposed tangents."""
    rng = np.random.default_rng(11)
    shapes = {"W": (6, 6), "c": 6, "A1": (2, 6), "b1": 2, "A2": (8, 6), "b2": 8, "mu": len(cones)}
    if not cones:
        del shapes["mu"]

    def solve(W, c, A1, b1, A2, b2, mu=()):
        found = solve_qp(W, c, A1, b1, A2, b2, cones=cones, mu=mu)
        y2, yc = found.inequality_multipliers, found.cone_multipliers
        return {"x": found.x, "y2": y2, "yc": yc if cones else y2, "status": found.status}

    def active(found):
        return tuple(np.concatenate([found["y2"], found["yc"]]) > 0.0)

    inputs = [tracing.Input(k, s if isinstance(s, tuple) else (s,)) for k, s in shapes.items()]
    program = tracing.trace(solve, inputs, name="qp")
    forward, backward = (
        make_kernel(ProgramSource(derive(program, of="x")), {})
        for derive in (tracing.forward_derivative, tracing.reverse_derivative)
    )
    checked = curved = 0
    for _ in range(12):
        data, change = (rows[: len(shapes)] for rows in varied(rng, cones))
        now = solve(*data)
        h = 1e-6
        ends = [
            solve(*(a + s * h * d for a, d in zip(data, change, strict=True))) for s in (-1.0, 1.0)
        ]
        assert now["status"] == OPTIMAL
        if len({active(one) for one in (now, *ends)}) > 1:
            continue
        checked += 1
        curved += bool(cones) and max(now["yc"]) > 0.0
        slope = (ends[1]["x"] - ends[0]["x"]) / (2 * h)
        weight = rng.standard_normal(6)
        tangent = forward(*data, *change)
        adjoint = backward(*data, weight)
        np.testing.assert_allclose(tangent, slope, atol=1e-5 * (1 + np.abs(slope).max()))
        total = sum(np.sum(a * d) for a, d in zip(adjoint, change, strict=True))
        assert total == pytest.approx(weight @ np.asarray(tangent), rel=1e-7, abs=1e-9)
    assert checked >= 6
    assert curved >= 3 or not cones


WALKER = np.array([[1.5, -0.5, -0.7], [1.5, 0.5, -1.0], [0.0, -0.5, -0.6], [0.0, 0.5, -0.7]])
"""Feet of a walking machine relative to its center of mass at x = 0 [m] (Nahon 1991, eq. 6.65)."""


def walker_program(x, feet, weight=1.0, mu=0.5):
    """Return A1, b1, A2, b2 of a machine at rest: forces of the feet, pyramids of four sides."""
    n = 3 * len(feet)
    A1, A2, b1 = np.zeros((6, n)), [], np.array([0, 0, weight, 0, 0, 0.0])
    for k, foot in enumerate(feet):
        c = WALKER[foot] - (x, 0.0, 0.0)
        A1[:3, 3 * k : 3 * k + 3] = np.eye(3)
        A1[3:, 3 * k : 3 * k + 3] = np.cross(np.eye(3), -c)
        for axis, sign in ((0, 1.0), (0, -1.0), (1, 1.0), (1, -1.0)):
            row = np.zeros(n)
            row[3 * k + 2], row[3 * k + axis] = mu, sign
            A2.append(row)
        A2.append(np.eye(n)[3 * k + 2])
    return A1, b1, np.array(A2), np.zeros(5 * len(feet))


@pytest.mark.parametrize(
    ("x", "feet", "norms"),
    [
        (0.6, (0, 1, 2, 3), (0.20113, 0.20273, 0.29789, 0.29896)),
        (0.7, (1, 2, 3), (0.46438, 0.49720, 0.04803)),
        (0.5, (0, 1, 2, 3), (0.16859, 0.17204, 0.32991, 0.33165)),
    ],
)
def test_walker_at_rest(x, feet, norms):
    """Least forces of a standing machine of unit weight, with and without active friction."""
    A1, b1, A2, b2 = walker_program(x, feet)
    found = solve_qp(np.eye(A1.shape[1]), np.zeros(A1.shape[1]), A1, b1, A2, b2)
    forces = found.x.reshape(-1, 3)
    np.testing.assert_allclose(np.linalg.norm(forces, axis=1), norms, atol=6e-6)
    if x == 0.7:
        np.testing.assert_allclose(forces[2], [-0.01961, -0.01961, 0.03922], atol=6e-6)
        assert found.active == 2
    else:
        # no force between feet
        points = WALKER[list(feet)]
        for i in range(len(feet)):
            for j in range(i):
                assert abs((forces[i] - forces[j]) @ (points[i] - points[j])) < 1e-15


def test_touch_down_of_a_walker():
    """Jump of the forces when a foot lands: free, bounded, and with a penalty (Nahon, E13)."""
    weight, dt = 1000.0, 0.01

    def program(t):
        feet = (0, 1, 2, 3) if t >= 0.5 - 1e-9 else (1, 2, 3)
        A1, b1, A2, b2 = walker_program(0.45 + 0.3 * t, feet, weight)
        wide = np.zeros((6, 12))
        limits = np.zeros((len(b2), 12))
        columns = [3 * foot + k for foot in feet for k in range(3)]
        wide[:, columns], limits[:, columns] = A1, A2
        if len(feet) == 3:
            wide = np.vstack([wide, np.eye(12)[:3]])
            b1 = np.concatenate([b1, np.zeros(3)])
        return wide, b1, limits, b2

    def run(bound=None, rho=0.0, since=0.0):
        before, jumps, norms = None, [], None
        # the foot lands in step 50; forces change slowly until then
        for step in range(44, 60):
            t = step * dt
            A1, b1, A2, b2 = program(t)
            ramp = rho * max(0.0, 1.0 - (t - 0.5) / 0.5) if t >= 0.5 - 1e-9 else 0.0
            W, c = (1.0 + ramp) * np.eye(12), np.zeros(12)
            if before is not None:
                c = -ramp * before
                if bound is not None and t >= since:
                    A2 = np.vstack([A2, np.eye(12), -np.eye(12)])
                    b2 = np.concatenate([b2, before - bound, -before - bound])
            found = solve_qp(W, c, A1, b1, A2, b2)
            if found.status == INFEASIBLE:
                return None
            x = np.asarray(found.x)
            if before is not None:
                jumps.append(np.abs(x - before).max())
            if step == 55:
                norms = np.linalg.norm(x.reshape(4, 3), axis=1)
            before = x
        return max(jumps), norms

    assert run()[0] == pytest.approx(201.10, abs=5e-3)
    jump, norms = run(bound=20.0)
    assert jump == pytest.approx(20.0, abs=1e-9)
    np.testing.assert_allclose(norms, [121.17, 289.64, 373.65, 217.69], atol=6e-3)
    jump, norms = run(rho=10.0)
    assert jump == pytest.approx(19.17, abs=6e-3)
    np.testing.assert_allclose(norms, [96.30, 313.63, 400.30, 191.47], atol=6e-3)
    assert run(bound=2.0) is not None
    assert run(bound=1.0) is None


def cone_problems(rng, cases, kind):
    """Return random problems of two cones and one free variable, six rows and one equation."""
    W, c, A1, _, A2, _ = problems(rng, cases, 7, 1, 6, "plain")
    inside = 0.1 * rng.standard_normal((cases, 7))
    inside[:, [2, 5]] = rng.uniform(2.0, 6.0, (cases, 2))
    if kind == "tight":
        # unloaded contacts and targets far outside
        inside[:, [0, 1, 2]] = 0.0
        c = 8.0 * c
    b1 = np.einsum("kij,kj->ki", A1, inside)
    b2 = np.einsum("kij,kj->ki", A2, inside) - rng.exponential(0.3, (cases, 6))
    if kind == "infeasible":
        b2 = b2 + rng.exponential(4.0, b2.shape)
    return W, c, A1, b1, A2, b2


@pytest.mark.parametrize("kind", ["plain", "tight", "infeasible"])
def test_random_problems_with_cones_are_optimal(kind):
    """Optimality conditions on second-order cones to 1e-8; none undecided.

    The force of a cone lies in its dual, mu |f_t| <= f_n, and does no work: f . x = 0. Certificates
    are those of tangent planes, whose sum lies in the dual as well.
    """
    cones, mu = [(0, 1, 2), (3, 4, 5)], np.array([0.6, 0.3])
    kernel = tb.compile(
        lambda W, c, A1, b1, A2, b2: {
            "x": (found := solve_qp(W, c, A1, b1, A2, b2, cones=cones, mu=mu)).x,
            "y1": found.equation_multipliers,
            "y2": found.inequality_multipliers,
            "yc": found.cone_multipliers,
            "status": found.status,
        },
        shapes={"W": (7, 7), "c": 7, "A1": (1, 7), "b1": 1, "A2": (6, 7), "b2": 6},
        name="quadratic program with cones",
    )
    rng = np.random.default_rng(17)
    W, c, A1, b1, A2, b2 = data = cone_problems(rng, 3000, kind)
    x, y1, y2, yc, status = kernel(*data)
    optimal = status == OPTIMAL
    assert np.all(optimal | (status == INFEASIBLE))
    assert optimal.mean() == 1.0 if kind != "infeasible" else 0.05 < optimal.mean() < 0.95
    scale = np.abs(x).max(axis=1)
    force = np.einsum("kij,kj->ki", W, x) + c
    force -= np.einsum("kji,kj->ki", A1, y1) + np.einsum("kji,kj->ki", A2, y2)
    size = np.einsum("kij,kj->ki", np.abs(W), np.abs(x)).max(axis=1) + np.abs(c).max(axis=1)
    size += np.abs(y2).max(axis=1) * np.abs(A2).max(axis=(1, 2))
    size += np.abs(y1).max(axis=1) * np.abs(A1).max(axis=(1, 2))
    slack = np.einsum("kij,kj->ki", A2, x) - b2
    wrong = [
        np.abs(force[:, 6]) / size,
        np.abs(np.einsum("kij,kj->ki", A1, x) - b1).max(axis=1) / scale,
        -slack.min(axis=1) / scale,
        (np.abs(slack) * (y2 > 0.0)).max(axis=1) / scale,
        -y2.min(axis=1) / size,
    ]
    active = curved = 0
    for (i, j, n), m, y in zip(cones, mu, yc.T, strict=True):
        tangential = np.hypot(x[:, i], x[:, j])
        pressed = np.hypot(force[:, i], force[:, j])
        wrong += [
            (tangential - m * x[:, n]) / scale,
            (m * pressed - force[:, n]) / size,
            np.abs(np.sum(force[:, [i, j, n]] * x[:, [i, j, n]], axis=1)) / (size * scale),
            np.where(y > 0.0, 0.0, np.abs(force[:, [i, j, n]]).max(axis=1)) / size,
        ]
        active += np.sum(optimal & (y > 0.0))
        curved += np.sum(optimal & (y > 0.0) & (tangential > 1e-3 * scale))
    assert max(part[optimal].max() for part in wrong) < 1e-8
    assert active > 300 or kind == "infeasible"
    assert curved > 200 or kind == "infeasible"


def pyramid_rows(mu, sides):
    """Return the sides of pyramids over neighboring triples of variables as rows."""
    rows = []
    for k, factor in enumerate(mu):
        for angle in 2.0 * np.pi * np.arange(sides) / sides:
            row = np.zeros(3 * len(mu))
            row[3 * k : 3 * k + 3] = -np.cos(angle), -np.sin(angle), factor
            rows.append(row)
    return np.array(rows)


def footed(rng, feet=3):
    """Return a problem of normal and tangential forces, and coefficients of friction."""
    n = 3 * feet
    G = rng.standard_normal((n, n))
    W = G @ G.T + 0.1 * np.eye(n)
    inside = 0.3 * rng.standard_normal(n)
    inside[2::3] = rng.uniform(2.0, 5.0, feet)
    A1 = rng.standard_normal((2, n))
    c = -W @ (inside + 4.0 * rng.standard_normal(n))
    return W, c, A1, A1 @ inside, rng.uniform(0.2, 0.8, feet)


FEET = [(0, 1, 2), (3, 4, 5), (6, 7, 8)]


@pytest.mark.parametrize("sides", [3, 4, 5, 8, 16, 31, 64])
def test_pyramids_equal_their_sides_as_rows(sides):
    """The same optimum as with one row per side, with multipliers that belong to the gradient."""
    rng = np.random.default_rng(sides)
    push = np.eye(9)[2::3]
    for _ in range(8):
        W, c, A1, b1, mu = footed(rng)
        rows = pyramid_rows(mu, sides)
        all_rows = np.vstack([push, rows])
        expected = solve_qp(W, c, A1, b1, all_rows, np.zeros(len(all_rows)))
        found = solve_qp(W, c, A1, b1, push, np.zeros(3), cones=FEET, mu=mu, sides=sides)
        assert found.status == expected.status == OPTIMAL
        np.testing.assert_allclose(found.x, expected.x, atol=1e-10)
        y = np.r_[found.inequality_multipliers, found.cone_multipliers]
        assert y.min() >= 0.0
        gradient = W @ found.x + c - A1.T @ found.equation_multipliers - all_rows.T @ y
        np.testing.assert_allclose(gradient, 0.0, atol=1e-9)
        # limits of a similar problem change nothing
        hint = np.where(y > 0.0, 1.0, 0.0)
        warm = solve_qp(
            W, c, A1, b1, push, np.zeros(3), cones=FEET, mu=mu, sides=sides, prefer=hint
        )
        np.testing.assert_allclose(warm.x, found.x, atol=1e-10)


def test_pyramids_without_solution_have_a_certificate():
    """A tangential force beyond friction: a Farkas vector over equations and sides."""
    sides, mu = 24, np.array([0.5])
    A1, b1 = np.eye(3)[[0, 2]], np.array([3.0, 2.0])
    found = solve_qp(
        np.eye(3), np.zeros(3), A1, b1, np.eye(3)[2:], [0.0], cones=FEET[:1], mu=mu, sides=sides
    )
    assert found.status == INFEASIBLE
    rows = np.vstack([np.eye(3)[2:], pyramid_rows(mu, sides)])
    y = np.r_[found.inequality_multipliers, found.cone_multipliers]
    assert y.min() >= 0.0
    np.testing.assert_allclose(A1.T @ found.equation_multipliers + rows.T @ y, 0.0, atol=1e-12)
    assert b1 @ found.equation_multipliers > 0.0


def test_pyramids_in_batches_and_their_derivatives():
    """Same bits alone and in a batch; tangents equal central differences."""
    rng = np.random.default_rng(6)
    sides, push = 20, np.eye(9)[2::3]

    def solve(W, c, A1, b1, mu):
        found = solve_qp(W, c, A1, b1, push, np.zeros(3), cones=FEET, mu=mu, sides=sides)
        return {"x": found.x, "y": found.cone_multipliers, "status": found.status}

    shapes = {"W": (9, 9), "c": (9,), "A1": (2, 9), "b1": (2,), "mu": (3,)}
    kernel = tb.compile(solve, shapes=shapes, name="pyramids")
    cases = [footed(rng) for _ in range(11)]
    batch = kernel(*(np.array(part) for part in zip(*cases, strict=True)))
    for k in (0, 10):
        for a, b in zip(kernel(*cases[k]), batch, strict=True):
            np.testing.assert_array_equal(a, b[k])
    inputs = [tracing.Input(name, shape) for name, shape in shapes.items()]
    program = tracing.trace(solve, inputs, name="pyramids")
    forward, backward = (
        make_kernel(ProgramSource(derive(program, of="x")), {})
        for derive in (tracing.forward_derivative, tracing.reverse_derivative)
    )
    checked, h = 0, 1e-6
    for data in cases[:6]:
        change = [rng.standard_normal(np.shape(part)) for part in data]
        change[0] = change[0] + change[0].T
        ends = [
            solve(*(a + s * h * d for a, d in zip(data, change, strict=True))) for s in (-1.0, 1.0)
        ]
        if any(((end["y"] > 0.0) != (solve(*data)["y"] > 0.0)).any() for end in ends):
            continue
        checked += 1
        slope = (ends[1]["x"] - ends[0]["x"]) / (2 * h)
        tangent = np.asarray(forward(*data, *change))
        np.testing.assert_allclose(tangent, slope, atol=1e-5 * (1 + np.abs(slope).max()))
        weight = rng.standard_normal(9)
        pulled = backward(*data, weight)
        total = sum(np.sum(a * b) for a, b in zip(pulled, change, strict=True))
        assert total == pytest.approx(weight @ tangent, rel=1e-7, abs=1e-9)
    assert checked >= 2


def test_unloaded_and_frictionless_contacts_are_neither_infeasible_nor_without_multipliers():
    """Zero is the only solution of some: violations are rounding, and sides depend on each other.

    W x + c is a sum of normals with multipliers that are not negative. Limits hold to rounding of
    the optimum without limits, 1e-14 of it, over the least friction.
    """
    n, m, sides, count = 6, 2, 3, 400
    cones, push = [(0, 1, 2), (3, 4, 5)], np.eye(6)[2::3]

    def solve(W, c, A1, b1, mu):
        found = solve_qp(W, c, A1, b1, push, np.zeros(2), cones=cones, mu=mu, sides=sides)
        return dict(zip(("x", "y1", "y2", "yp", "status"), found[:5], strict=True))

    shapes = {"W": (n, n), "c": (n,), "A1": (m, n), "b1": (m,), "mu": (2,)}
    kernel = tb.compile(solve, shapes=shapes, name="unloaded")
    rng = np.random.default_rng(6)
    G = rng.standard_normal((count, n, n))
    W = G @ G.transpose(0, 2, 1) / n + 0.05 * np.eye(n)
    c = 10.0 * rng.standard_normal((count, n))
    A1 = rng.standard_normal((count, m, n))
    mu = rng.choice([0.0, 1e-3, 1.0], (count, 2))
    x, y1, y2, yp, status = kernel(W, c, A1, np.zeros((count, m)), mu)
    np.testing.assert_array_equal(status, 0.0)
    for k in range(count):
        A = np.vstack([push, pyramid_rows(mu[k], sides)])
        y = np.concatenate([y2[k], yp[k]])
        size = np.abs(np.linalg.solve(W[k], c[k])).max()
        assert (A @ x[k]).min() > -1e-11 * size
        assert np.abs(A1[k] @ x[k]).max() < 1e-11 * size
        assert y.min() >= -1e-9 * y.max()
        gradient = W[k] @ x[k] + c[k] - A1[k].T @ y1[k] - A.T @ y
        assert np.abs(gradient).max() < 1e-9 * max(1.0, y.max(), np.abs(y1[k]).max())
