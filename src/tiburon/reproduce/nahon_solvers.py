"""Nahon 1991, chapters 5 and 6.1: solvers, linear against quadratic programs (E7-E10, E15)."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tiburon.arrays import Array
from tiburon.functions.compilation import compile as compile_function
from tiburon.functions.kinematics import forward_kinematics
from tiburon.functions.load_sharing import LoadSharing
from tiburon.load_sharing.equality import (
    DirectSubstitution,
    solve_by_inversion,
    solve_orthogonally,
    solve_with_multipliers,
)
from tiburon.load_sharing.kkt import optimality
from tiburon.load_sharing.linear_program import (
    FORMS,
    LargestResidual,
    LinearData,
    LinearProgram,
    SumOfNormals,
    optimal_ranges,
    solve_linear,
)
from tiburon.model import LoopClosure
from tiburon.reproduce.cells import (
    DERIVED,
    INDEPENDENT,
    SURROGATE,
    Cell,
    Cells,
    cell_table,
    claim,
    lost,
    measured,
    number,
    operations,
    shown,
    timing,
)
from tiburon.reproduce.chains import inverse_dynamics
from tiburon.reproduce.dual_active_set import Steps, dual_active_set
from tiburon.reproduce.nahon_problems import (
    Constraints,
    ball_motion,
    ball_plan,
    grasped_ball,
    kerr_roth,
    soft_grasp,
    walker_problem,
    without_pushing,
)
from tiburon.reproduce.published import Cost
from tiburon.trace import solve_qp

METHODS = ("explicit inversion", "orthogonal decomposition", "multipliers", "direct substitution")

TABLE_5_1 = ((46.6, 58.6), (15.3, 29.2), (64.6, 65.9), (2.5, 7.5))
"""Milliseconds for diagonal and general weights, by method (Sun 3/60)."""

TABLE_6_2 = ((102.5, 1232.1), (15.7, 443.1), (11.3, 32.4), (13.1, 58.3))
"""Milliseconds of the author's code and of IMSL: original, compact primal, compact dual LP, QP."""

TABLE_6_3 = ((600.0, 7200.0), (193.0, 2932.0), (128.0, 361.0), (88.0, 177.0))


def best_time(call: Callable[[], Any], rounds: int = 12) -> float:
    """Return the least time of a call in microseconds, over some rounds."""
    call()
    best = np.inf
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return 1e6 * best


def compiled_qp(problem: Constraints) -> Any:
    """Return a kernel for problems of one size: W, c, A1, b1, A2, b2 to x."""

    def solve(W: Any, c: Any, A1: Any, b1: Any, A2: Any, b2: Any) -> Any:
        return solve_qp(W, c, A1, b1, A2, b2).x

    n, m, rows = problem.A1.shape[1], len(problem.b1), len(problem.b2)
    shapes = {"W": (n, n), "c": n, "A1": (m, n), "b1": m, "A2": (rows, n), "b2": rows}
    return compile_function(solve, shapes=shapes, name="quadratic program")


@cell_table("E7", "continuity of linear and quadratic programs")
def _continuity() -> Cells:
    A2, b2 = np.eye(2), np.zeros(2)
    for alpha in (0.5, 1.0, 2.0):
        A1, b1 = np.array([[alpha, 1.0]]), np.array([alpha + 1.0])
        program = LinearProgram(np.ones(2), A1, b1, A2, b2)
        found = solve_linear(program)
        if alpha == 1.0:
            low, high = optimal_ranges(program)
            yield number("LP value at alpha = 1", 2.0, found.value, 5e-9)
            yield number(
                "all its optima: least and largest x1", (0.0, 2.0), (low[0], high[0]), 5e-6
            )
        else:
            expected = (0.0, alpha + 1.0) if alpha < 1.0 else ((alpha + 1.0) / alpha, 0.0)
            yield number(f"LP optimum at alpha = {alpha:g}", expected, found.x, 5e-9, DERIVED)
        quadratic = solve_qp(2.0 * np.eye(2), np.zeros(2), A1, b1, A2, b2).x
        closed = (alpha + 1.0) / (alpha**2 + 1.0) * np.array([alpha, 1.0])
        yield number(f"QP optimum at alpha = {alpha:g}", closed, quadratic, 5e-9, DERIVED)
    steps: dict[str, list[Array]] = {"LP": [], "QP": []}
    for alpha in np.linspace(0.9, 1.1, 41):
        A1, b1 = np.array([[alpha, 1.0]]), np.array([alpha + 1.0])
        steps["LP"].append(solve_linear(LinearProgram(np.ones(2), A1, b1, A2, b2)).x)
        steps["QP"].append(np.asarray(solve_qp(2.0 * np.eye(2), np.zeros(2), A1, b1, A2, b2).x))
    jumps = {key: float(np.abs(np.diff(x, axis=0)).max()) for key, x in steps.items()}
    yield claim(
        "largest step of LP and QP through alpha = 1",
        "severe discontinuities, continuous",
        f"{jumps['LP']:.3f} and {jumps['QP']:.3f}",
        jumps["LP"] > 1.9 and jumps["QP"] < 0.01,
    )


@cell_table("E8, table 5.1", "equations alone, planar walker, 9 equations and 12 unknowns")
def _equality() -> Cells:
    rng = np.random.default_rng(51)
    feet = np.array([1.0, 0.0, -1.0])
    samples = [walker_problem(feet + rng.uniform(-0.2, 0.2, 3), 0.2 * k)[0] for k in range(4)]
    A1, b1 = walker_problem(feet + 0.05, 0.3)
    G = rng.standard_normal((12, 12))
    general = G @ G.T + 12.0 * np.eye(12)
    worst = 0.0
    times: list[list[float]] = [[], [], [], []]
    for W in (np.diag(rng.uniform(0.5, 2.0, 12)), general):
        c = np.zeros(12)
        weights = np.array([W, W + np.diag(rng.uniform(0.1, 0.2, 12))])
        if W is general:
            weights = np.array([W, W + rng.uniform(0.1, 0.2) * np.ones((12, 12))])
        solver = DirectSubstitution.of(weights, np.array(samples))
        solve = (solve_by_inversion, solve_orthogonally, solve_with_multipliers)
        expected = solve_orthogonally(W, c, A1, b1).x
        size = float(np.abs(expected).max())
        for k, method in enumerate(solve):
            worst = max(worst, float(np.abs(method(W, c, A1, b1).x - expected).max()) / size)
            times[k].append(best_time(partial(method, W, c, A1, b1)))
        found = solver.solve(W, c, A1, b1)
        worst = max(worst, float(np.abs(found.solution.x - expected).max()) / size)
        # the compiled elimination alone, as the source timed its printed code
        times[3].append(best_time(solver.prepared(W, c, A1, b1)))
    yield claim("four methods agree, relative", "yes", f"{worst:.1e}", worst < 1e-10, INDEPENDENT)
    coincident, right = walker_problem((0.4, -0.6, 0.4), 0.2)
    alone = DirectSubstitution.of(np.eye(12), np.array(samples), partitions=6)
    replaced = alone.solve(np.eye(12), np.zeros(12), coincident, right)
    exact = solve_with_multipliers(np.eye(12), np.zeros(12), coincident, right).x
    error = float(np.abs(replaced.solution.x - exact).max() / np.abs(exact).max())
    yield claim(
        "feet 1 and 3 coincide: the partition is singular, another one is used",
        "singular",
        f"{replaced.tried} tried, error {error:.1e}",
        replaced.tried > 1 and replaced.least_pivot > 1e-6 and error < 1e-10,
    )
    for column, name in ((0, "diagonal"), (1, "general")):
        for k, title in enumerate(METHODS):
            if k == 1:
                continue
            yield timing(
                f"{title}, {name} weights, relative to orthogonal",
                TABLE_5_1[k][column] / TABLE_5_1[1][column],
                times[k][column] / times[1][column],
            )
    yield "weights of the source are lost; ours are random"
    yield "times: first three methods in NumPy, direct substitution as compiled code"


@cell_table("E9, table 6.1", "grasp of Kerr and Roth with two soft fingers")
def _kerr_roth() -> Cells:
    grasp, plan = kerr_roth(), soft_grasp()
    W, c = np.eye(8), np.zeros(8)
    q = plan.model.neutral()
    share = plan.share(q)
    x = _soft_axes(plan, share.x)
    active = np.asarray(share.multipliers) > 1e-9
    yield number("QP optimum", (-0.5, 0, 2.0, 0, 0, -0.5, 3.0, 0), x, 5e-8)
    yield number("its value x^T x / 2", 6.75, 0.5 * x @ x, 5e-8, DERIVED)
    yield number("its active rows", 1, np.count_nonzero(active), 0, DERIVED)
    yield number("their multiplier", 20.0, share.multipliers.max(), 5e-6, DERIVED)
    residual = float(np.abs(grasp.A1 @ x - grasp.b1).max())
    yield claim("(6.9), (6.10) at our optimum", "0", f"{residual:.1e}", residual < 1e-9)
    own = without_pushing(plan.problem(q))
    yield number("rank of A1", 6, np.linalg.matrix_rank(own.A1), 0)
    normals = tuple(k for k, name in enumerate(plan.names) if name.endswith(".n"))
    data = LinearData(*own, normals=normals)
    plain = LargestResidual(normalized=False).program(data)
    low, high = optimal_ranges(plain)
    turned = [_soft_axes(plan, np.asarray(ends)[:8]) for ends in (low, high)]
    low, high = np.minimum(*turned), np.maximum(*turned)
    yield number(
        "LP optima, least", (-0.5, 0, 3.2, -1.3, 0, -0.5, 4.2, -1.3), low[:8], 5e-6, SURROGATE
    )
    yield number(
        "LP optima, largest", (-0.5, 0, 3.2, 1.3, 0, -0.5, 4.2, 1.3), high[:8], 5e-6, SURROGATE
    )
    yield number("least residual d", 0.3, solve_linear(plain).x[8], 5e-9, SURROGATE)
    scaled = LargestResidual().program(data)
    distance = solve_linear(scaled)
    yield number("normalized (6.8): d", 1.06066, distance.x[8], 5e-6, SURROGATE)
    forces = distance.x[list(normals)]
    yield number("normalized: normal forces", (2.75, 3.75), forces, 5e-8, SURROGATE)
    # table 6.1: unknowns, equations, inequalities
    reduced = solve_linear(plain, "compact primal")
    sizes = (len(plan.names), len(own.b1), len(own.b2))
    yield number("QP: unknowns, equations, inequalities", (8, 6, 20), sizes, 0)
    yield measured(
        "LP: unknowns, equations, inequalities", "5 0 20", " ".join(map(str, reduced.size))
    )
    kernel = compiled_qp(own)
    quadratic = best_time(lambda: kernel(W, c, *own), 200)
    linear = best_time(lambda: solve_linear(plain, "compact primal"))
    yield timing("time of LP over QP", 38.0 / 19.5, linear / quadratic)
    yield "through LoadSharing of the zoo's kerr_roth_grasp, fingers without weight"
    yield "the matrix of limits (6.11) is lost: torque rows are ours, which give the printed LP"
    yield (
        "unknowns of the LP: two of the null space, each as a difference of two, and the residual; "
        "ours has that as a difference too"
    )
    yield "LP by SciPy's HiGHS called from Python, QP compiled: the ratio says little"


def _soft_axes(plan: LoadSharing, x: Array) -> Array:
    """Return unknowns of the grasp along x, y and z of its contacts, as in the source.

    Forces of the plan are those on the object along two tangents that the plan chooses.
    """
    model, q = plan.model, plan.model.neutral()
    found = np.array(x, dtype=float).reshape(2, 4)
    for k, loop in enumerate(model.loops):
        assert isinstance(loop, LoopClosure)
        joint = forward_kinematics(model, q, loop.first)[0] @ np.array(loop.joint.pose.rotation)
        # tangents y and -x of the joint, for a normal along its z
        tangents = joint @ np.array([[0.0, -1.0], [1.0, 0.0], [0.0, 0.0]])
        axes = forward_kinematics(model, q, loop.name)[0]
        found[k, :2] = (axes.T @ tangents @ found[k, :2])[:2]
    return found.ravel()


def _swept(fingers: int, steps: int = 101) -> tuple[list[Constraints], dict[str, Array]]:
    """Return half a second of the task: problems; forces by the forms of the LP and by the QP.

    The QP is that of `LoadSharing.share`; "active" are its active limits.
    """
    plan = ball_plan(fingers)
    q, v, vd = ball_motion(fingers, np.linspace(0.0, 0.5, steps))
    share = plan.share(q, v, vd)
    # the equation that two fingers give up asks for nothing
    assert float(np.abs(share.shortfall).max()) < 1e-8
    y = np.asarray(share.multipliers)
    found: dict[str, Any] = {form: [] for form in FORMS}
    problems = []
    for state in zip(q, v, vd, strict=True):
        problems.append(without_pushing(plan.problem(*state)))
        program = SumOfNormals().program(LinearData(*problems[-1], normals=_normals(fingers)))
        for form in FORMS:
            found[form].append(solve_linear(program, form).x)
    found["QP"] = share.x
    found["active"] = np.sum(y > 1e-9 * y.max(axis=1, keepdims=True), axis=1)
    return problems, {key: np.array(rows) for key, rows in found.items()}


def _normals(fingers: int) -> tuple[int, ...]:
    """Return the places of the normal forces among unknowns of the ball."""
    return tuple(range(2, 3 * fingers, 3))


def _timings(problem: Constraints, normals: Sequence[int], table: Any) -> list[Cell]:
    n = problem.A1.shape[1]
    program = SumOfNormals().program(LinearData(*problem, normals=tuple(normals)))
    times = [best_time(partial(solve_linear, program, form)) for form in FORMS]
    kernel = compiled_qp(problem)
    times.append(best_time(lambda: kernel(np.eye(n), np.zeros(n), *problem), 200))
    return [
        timing(f"time of {form} over compact dual", table[k][0] / table[2][0], times[k] / times[2])
        for k, form in enumerate((*FORMS, "QP"))
        if k != 2
    ]


def _sizes(
    problem: Constraints, normals: Sequence[int], sizes: Sequence[tuple[int, ...]]
) -> list[Cell]:
    program = SumOfNormals().program(LinearData(*problem, normals=tuple(normals)))
    cells = [
        number(
            f"{form}: unknowns, equations, inequalities", size, solve_linear(program, form).size, 0
        )
        for form, size in zip(FORMS, sizes, strict=False)
    ]
    own = (problem.A1.shape[1], len(problem.b1), len(problem.b2))
    cells.append(number("QP: unknowns, equations, inequalities", sizes[3], own, 0))
    return cells


@cell_table("E10, table 6.2", "DIGITS hand, two fingers turn a ball")
def _two_fingers() -> Cells:
    problems, found = _swept(2)
    normals = _normals(2)
    yield from _sizes(problems[0], normals, ((12, 5, 20), (2, 0, 20), (20, 1, 0), (6, 5, 20)))
    size = float(np.abs(found["QP"]).max())
    apart = max(float(np.abs(found[form] - found["QP"]).max()) for form in FORMS) / size
    yield claim(
        "LP and QP have the same, unique solution",
        "yes",
        f"difference {apart:.1e}",
        # the share gives up an equation, by a weight of 1e9
        apart < 1e-6,
        SURROGATE,
    )
    least = int(found["active"].min())
    yield claim(
        "a friction row is active throughout", "1", f"at least {least}", least >= 1, SURROGATE
    )
    yield from _timings(problems[3], normals, TABLE_6_2)
    yield lost("friction, torque limits, finger geometry", "mu = 0.5, 1 N m, links of 50, 40 mm")
    yield "through LoadSharing of a hand of ours; the QP is that of its share"
    yield "one cell of the printed table (inequalities of the compact dual) is lost"


@cell_table("E10, table 6.3", "DIGITS hand, four fingers turn a ball")
def _four_fingers() -> Cells:
    problems, found = _swept(4)
    normals = _normals(4)
    yield from _sizes(problems[0], normals, ((24, 6, 40), (12, 0, 40), (40, 6, 0), (12, 6, 40)))
    steps = {key: float(np.abs(np.diff(found[key], axis=0)).max()) for key in (*FORMS, "QP")}
    worst = max(steps[form] for form in FORMS)
    yield claim(
        "largest change of a force per step of 5 ms: LP jumps, QP does not [N]",
        "jumps, smooth",
        f"{worst:.3f}, {steps['QP']:.3f}",
        worst > 5.0 * steps["QP"],
        SURROGATE,
    )
    apart = float(np.abs(found["original"] - found["compact dual"]).max())
    yield claim(
        "LP solutions differ between formulations [N]",
        "yes",
        f"by {apart:.3f}",
        apart > 0.01,
        SURROGATE,
    )
    value = max(
        float(
            np.abs(
                found[form][:, list(normals)].sum(axis=1)
                - found["original"][:, list(normals)].sum(axis=1)
            ).max()
        )
        for form in FORMS
    )
    yield claim("though not in value [N]", "yes", f"by {value:.1e}", value < 1e-7, SURROGATE)
    active = found["active"]
    yield shown("active rows of the QP throughout", "3", f"{active.min()} to {active.max()}")
    yield from _timings(problems[3], normals, TABLE_6_3)
    yield 'the printed 193 reads "19 3", and 12 unknowns of the QP read "19"'


def _random(rng: np.random.Generator) -> tuple[Array, Array, Constraints]:
    """Return a random strictly convex program with a feasible point."""
    n = int(rng.integers(3, 13))
    m, rows = int(rng.integers(0, n // 2 + 1)), int(rng.integers(n, 4 * n + 1))
    G = rng.standard_normal((n, n))
    A1, A2, x = rng.standard_normal((m, n)), rng.standard_normal((rows, n)), rng.standard_normal(n)
    return (
        G @ G.T + 0.1 * np.eye(n),
        3.0 * rng.standard_normal(n),
        Constraints(A1, A1 @ x, A2, A2 @ x - rng.exponential(0.3, rows)),
    )


@cell_table("E15", "claims about the dual active set method")
def _claims() -> Cells:
    rng = np.random.default_rng(5)
    problems = [_random(rng) for _ in range(300)]
    wrong = drops = added = raw = entered = 0
    ours_wrong = 0
    for W, c, limits in problems:
        prose = dual_active_set(W, c, *limits)
        listed = dual_active_set(W, c, *limits, listing=True)
        raw += _steps(dual_active_set(W, c, *limits, normalized=False))
        entered += _steps(dual_active_set(W, c, *limits, equality_start=False))
        added, drops = added + prose.added, drops + prose.dropped
        ours_wrong += not _is_optimal(W, c, limits, prose)
        size = 1e-6 * max(1.0, float(np.abs(prose.x).max()))
        wrong += listed.status != "optimal" or float(np.abs(listed.x - prose.x).max()) > size
    forces = _swept(4, 21)[0]
    held = [dual_active_set(np.eye(12), np.zeros(12), *limits) for limits in forces]
    yield claim(
        "prose: optimal on random problems, by the conditions of optimality",
        "300 of 300",
        f"{300 - ours_wrong} of 300",
        ours_wrong == 0,
        INDEPENDENT,
    )
    yield claim(
        "printed listing: not optimal (402 of 3000)",
        "13 %",
        f"{100 * wrong / 300:.0f} %",
        # three standard errors of a share of 402/3000 in 300 problems
        abs(wrong / 300 - 402 / 3000) < 0.06,
        SURROGATE,
    )
    yield claim(
        "constraints once added are rarely dropped, force problems",
        "rarely",
        f"{sum(s.dropped for s in held)} of {sum(s.added for s in held)}",
        sum(s.dropped for s in held) <= 0.2 * sum(s.added for s in held),
        SURROGATE,
    )
    yield claim(
        "on random problems they are (3372 of 16949)",
        "20 %",
        f"{100 * drops / added:.0f} %",
        0.1 < drops / added < 0.3,
        SURROGATE,
    )
    yield measured(
        "steps with normalized violations against raw ones (5.40), random problems",
        "more efficient",
        f"{added + drops} against {raw}",
    )
    yield claim(
        "start at the equality optimum takes fewer steps, random problems",
        "fewer",
        f"{added + drops} against {entered}",
        added + drops < 0.9 * entered,
        SURROGATE,
    )
    title = "recursive Newton-Euler for 6 links: operations"
    yield operations(title, Cost(810, 684), inverse_dynamics(6))
    yield from _pyramids()
    yield from _claimed_times(problems)
    yield (
        "many sides are said to be free, as one of a pyramid is active at most; here as many "
        "rows are active in the end, but sides enter and leave one after another"
    )
    yield (
        "times of LPs are those of SciPy's HiGHS called from Python, those of QPs of compiled "
        "code; steps of the prose and its variants are timed in NumPy"
    )


def _steps(found: Steps) -> int:
    return found.added + found.dropped


def _is_optimal(W: Array, c: Array, limits: Constraints, found: Steps) -> bool:
    if found.status != "optimal":
        return False
    gradient = W @ found.x + c - limits.A2.T @ found.multipliers
    y1 = np.zeros(0)
    if len(limits.b1):
        y1 = np.asarray(np.linalg.lstsq(limits.A1.T, gradient, rcond=None)[0], dtype=np.float64)
    return optimality(W, c, *limits, found.x, y1, found.multipliers).residual < 1e-7


def _pyramids() -> list[Cell]:
    """Return how the steps grow with the sides of friction pyramids."""
    few, many = (
        sum(_steps(dual_active_set(np.eye(12), np.zeros(12), *grasped_ball(4, t, sides=sides)))
            for t in np.linspace(0.0, 0.5, 5))
        for sides in (4, 64)
    )  # fmt: skip
    return [
        shown("steps with pyramids of 64 sides, relative to 4", "1", f"{many / max(few, 1):.2f}")
    ]


def _claimed_times(problems: Sequence[tuple[Array, Array, Constraints]]) -> list[Cell]:
    """Return ratios of times that the source claims (L2215, L2266, L2299, L2510)."""
    cells, gains = [], []
    for fingers, published in ((2, 38.0), (4, 19.9)):
        problem = grasped_ball(fingers, 0.15)
        n = 3 * fingers
        data = LinearData(*problem, normals=_normals(fingers))
        program = SumOfNormals().program(data)
        original, _, dual = (best_time(partial(solve_linear, program, form)) for form in FORMS)
        kernel = compiled_qp(problem)
        quadratic = best_time(partial(kernel, np.eye(n), np.zeros(n), *problem), 200)
        gains.append(dual / quadratic)
        quantity = f"time of the original LP over the compact dual, {fingers} fingers"
        cells.append(timing(quantity, published, original / dual))
    grown = (TABLE_6_3[2][0] / TABLE_6_3[3][0]) / (TABLE_6_2[2][0] / TABLE_6_2[3][0])
    quantity = "time of LP over QP, four fingers relative to two"
    cells.append(timing(quantity, grown, gains[1] / gains[0]))
    usual, raw, entered = (
        best_time(partial(_solve_all, problems[:40], normalized, equality_start), 3)
        for normalized, equality_start in ((True, True), (False, True), (True, False))
    )
    cells.append(measured("time with raw violations", "longer", f"{raw / usual:.2f}"))
    quantity = "time with equations that enter one by one"
    cells.append(measured(quantity, "longer", f"{entered / usual:.2f}"))
    # natively: equations as pairs of inequalities
    W, c, limits = np.eye(12), np.zeros(12), grasped_ball(4, 0.15)
    pairs = Constraints(
        limits.A1[:0],
        limits.b1[:0],
        np.vstack([limits.A1, -limits.A1, limits.A2]),
        np.concatenate([limits.b1, -limits.b1, limits.b2]),
    )
    times = []
    for one in (limits, pairs, grasped_ball(4, 0.15, sides=64)):
        times.append(best_time(partial(compiled_qp(one), W, c, *one), 200))
    quantity = "the same in compiled code, as inequalities"
    cells.append(measured(quantity, "longer", f"{times[1] / times[0]:.2f}"))
    quantity = "time with pyramids of 64 sides as rows, relative to 4"
    cells.append(measured(quantity, "about 1", f"{times[2] / times[0]:.2f}"))
    return cells


def _solve_all(
    problems: Sequence[tuple[Array, Array, Constraints]], normalized: bool, equality_start: bool
) -> None:
    for W, c, limits in problems:
        dual_active_set(W, c, *limits, normalized=normalized, equality_start=equality_start)


SOLVERS = {
    "E7": _continuity,
    "E8": _equality,
    "E9": _kerr_roth,
    "E10": (_two_fingers, _four_fingers),
    "E15": _claims,
}
"""Tables of chapters 5 and 6.1 by example."""
