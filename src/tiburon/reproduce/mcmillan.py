"""McMillan 1994, "Computational Dynamics for Robotic Systems on Land and Under Water", Part I.

Chapters 2 to 4: arms that hold one load. Counts are compared by the rules of the source, and ours
must not exceed them; accelerations are compared with those of the sparse system of motion and
constraints, which the source does not print. It has no model data: the lift runs on those of the
zoo, and its errors are shown, not judged. Where both sides of a row are printed, as in sums of rows
and products of speedups, the row is a check of the print itself.

Tables 3 to 6 are of tasks over chains and points of a block. Synchronizations and solutions for the
reference member are counted while tasks run, and must be those of table 3. Times are not judged:
the processors of the source are the lanes of one core here, and its start-up and first step are
lost. No time of a partition is measured.
"""

import time as clock
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from tiburon.arrays import Array
from tiburon.formats.load import load
from tiburon.functions.closed_loops import (
    loop_dynamics,
    loop_jacobian,
    project_configuration,
    project_velocity,
)
from tiburon.functions.compilation import compile
from tiburon.functions.dynamics import forward_dynamics
from tiburon.loops import dual_arm
from tiburon.operating_system import cpu_count
from tiburon.parallel.blocks import BlockTasks
from tiburon.reproduce import arms_on_load
from tiburon.reproduce.cells import (
    DERIVED,
    INDEPENDENT,
    NO_REFERENCE,
    PRINT_CHECK,
    PRINTED,
    Cell,
    Cells,
    CellTable,
    cell_table,
    chosen_tables,
    claim,
    lost,
    measured,
    number,
    operations,
    print_check,
    shown,
    timing,
)
from tiburon.reproduce.mcmillan_arms import G, block_system, load_inertia, random_arms, table_1
from tiburon.reproduce.mcmillan_lift import BLOCKS, HEIGHT, four_pumas, lift_run
from tiburon.reproduce.published import DUAL_ARM, MASS_MATRIX_AND_JACOBIAN, Cost, crossover
from tiburon.reproduce.published import arms_on_load as published_arms
from tiburon.reproduce.published import lilly_orin_arms_on_load as published_lilly_orin
from tiburon.trace.array import as_traced
from tiburon.trace.regions import function
from tiburon.trace.regions.lanes import lanes

ARMS = 4
"""Arms of the printed instance."""


@cell_table("Table 2", "m arms on a load, operations")
def _table_2() -> Cells:
    published = published_arms(ARMS)
    yield print_check("m = 4, N = 6, by the rows", (7187, 6242), published.at(6), 0)
    yield print_check(
        "rows add up to m(N^3/6 + 20N^2 + 131 5/6 N + 225) + 99",
        (2.0 / 3.0, 80, 527 + 1.0 / 3.0, 999),
        [float(c) for c in published.multiplications.coefficients],
        1e-9,
    )
    for n in range(published.smallest, (published.largest or 0) + 1):
        yield operations(
            f"four arms of {n} joints",
            published.at(n),
            arms_on_load.closed_chain(ARMS, n),
            PRINTED if n == published.printed else DERIVED,
        )
    yield (
        "Counts other than those of six joints are the published polynomials. Ours are the steps "
        "of Table 1 on our kernels, Jacobians in axes of the load, see arms_on_load."
    )


@cell_table("section 2.4, Tables 8 and 9", "kernels and dual arm, operations")
def _kernels() -> Cells:
    for name, published in MASS_MATRIX_AND_JACOBIAN.items():
        for n in (6, 7, 12):
            ours = arms_on_load.mass_matrix_and_jacobian(n)
            title = f"mass matrix and Jacobian, {name}, N = {n}"
            yield operations(title, published.at(n), ours, DERIVED)
    counted = {"I": arms_on_load.dual_arm_first(), "II": arms_on_load.dual_arm_second()}
    for name, (table, rows, total) in DUAL_ARM.items():
        summed = Cost(
            sum(row.multiplications for row in rows.values()),
            sum(row.additions for row in rows.values()),
        )
        yield print_check(f"{table}: its rows add up", total, summed, 0)
        yield operations(f"{table}: dual arm, method {name}", total, counted[name])
    saved = [1.0 - b.total / a.total for a, b in ((Cost(512, 416), Cost(374, 284)), _pair(counted))]
    yield claim(
        "method II against I (L1179)",
        "about 30 % less",
        f"{100 * saved[1]:.0f} % less",
        saved[1] > 0.25,
    )
    yield (
        "Mass matrix and Jacobian: printed are two polynomials, of Lilly and Orin's method and of "
        "its improvement by the source; there is one count of ours. For six and seven joints it "
        "has more multiplications than the improved one and fewer additions."
    )


def _pair(counted: Mapping[str, Cost]) -> tuple[Cost, Cost]:
    return counted["I"], counted["II"]


@cell_table("section 2.5", "crossover with Lilly and Orin's O(mN) method")
def _crossover() -> Cells:
    ours, other = published_arms(ARMS), published_lilly_orin(ARMS)
    per_product = crossover(ours.multiplications, other.multiplications, 6.0, 60.0)
    per_sum = crossover(ours.additions, other.additions, 6.0, 60.0)
    last = max(n for n in range(6, 60) if ours.at(n).total <= other.at(n).total)
    # ours cost less below: start there
    counted = last
    while arms_on_load.closed_chain(ARMS, counted + 1).total <= other.at(counted + 1).total:
        counted += 1
    yield print_check(
        "Lilly and Orin, m = 4, N = 6, by their polynomial",
        (15188, 12589),
        other.at(6),
        0,
        corrected=(15188, 12373),
        reason="546mN - 208m + 101 gives 12373; 12589 would need 555mN (L767)",
    )
    yield claim(
        "savings at m = 4, N = 6",
        "over 50 %",
        f"{100 * (1 - sum(ours.at(6)) / sum(other.at(6))):.1f} %",
        sum(ours.at(6)) < 0.5 * sum(other.at(6)),
        PRINT_CHECK,
    )
    yield print_check("largest N for which O(mN^3) costs less, by both polynomials", 21, last, 0)
    yield claim(
        "polynomials intersect at N =",
        "between 21 and 22",
        f"{per_product:.2f} by multiplications, {per_sum:.2f} by additions",
        21.0 < per_product < 22.0,
        PRINT_CHECK,
    )
    yield measured("largest N, our counts against their polynomial", "21", str(counted))


@cell_table("Table 1", "accelerations of arms with general parameters")
def _table_1() -> Cells:
    for arms, links, seed in ((2, 6, 1), (4, 6, 2), (3, 7, 3)):
        system = random_arms([links] * arms, seed)
        found = table_1(system)
        vd = forward_dynamics(system.model, system.q, system.v, system.tau)
        a = np.array(vd[:6])
        # classical acceleration in axes of the load
        a[3:] += np.cross(system.v[:3], system.v[3:6])
        size = float(np.abs(vd).max())
        apart = max(
            float(np.abs(np.concatenate(found.vd) - vd[6:]).max()), float(np.abs(found.a - a).max())
        )
        yield claim(
            f"{arms} arms of {links} joints against the sparse system",
            "equal",
            f"largest difference {apart:.1e} of {size:.0f}",
            apart < 1e-10 * size,
            INDEPENDENT,
        )
        if arms == 4:
            printed = found.a_prime - np.concatenate([np.zeros(3), G])
            yield number(
                "a_r along gravity [m/s^2]",
                printed[5],
                a[5],
                1e-9,
                DERIVED,
                corrected=found.a[5],
                reason="Table 1 prints a_r = a'_r - a_g; (2.18) has a plus",
            )
            total = np.sum(found.forces, axis=0)
            inertia = load_inertia(system)
            w = system.v[:3]
            turning = np.concatenate([np.cross(w, inertia[:3, :3] @ w), np.zeros(3)])
            balance = inertia @ found.a_prime + turning - total
            yield claim(
                "balance of the load (2.20)",
                "zero",
                f"{np.abs(balance).max():.1e} N of {np.abs(total).max():.0f}",
                bool(np.abs(balance).max() < 1e-10 * np.abs(total).max()),
                INDEPENDENT,
            )


@cell_table("section 4.4.1", "dual arm, methods I and II")
def _dual_arm() -> Cells:
    rng = np.random.default_rng(3)
    cases = (
        "regular",
        "first arm singular",
        "both singular, null spaces apart",
        "both singular, null spaces meet",
    )
    for case in cases:
        inverses = []
        shared = np.linalg.qr(rng.standard_normal((6, 6)))[0]
        for k in range(2):
            J = rng.standard_normal((6, 6))
            if case.endswith("meet"):
                # both arms feel nothing of the same force
                J = shared[:, :5] @ rng.standard_normal((5, 6))
            elif (k == 0 and case != "regular") or case.startswith("both"):
                U, s, Vt = np.linalg.svd(J)
                J = U @ np.diag([*s[:5], 0.0]) @ Vt
            inverses.append((J @ J.T).tolist())
        load, c = rng.uniform(0.5, 2.0, 6), rng.standard_normal(6).tolist()
        # accelerations that the arms can have
        x = [(np.array(A) @ rng.standard_normal(6)).tolist() for A in inverses]
        a, forces = dual_arm.method_two(inverses, x, (1.0 / load).tolist(), c)
        # the whole system (4.3)
        K = np.zeros((18, 18))
        for k, A in enumerate(inverses):
            K[6 * k : 6 * k + 6, 6 * k : 6 * k + 6] = A
            K[6 * k : 6 * k + 6, 12:] = K[12:, 6 * k : 6 * k + 6] = np.eye(6)
        K[12:, 12:] = -np.diag(load)
        right = np.concatenate([*x, c])
        whole = np.linalg.lstsq(K, right, rcond=1e-10)[0]
        found = np.concatenate([*forces, a])
        # forces are not unique where null spaces meet: any that solve the system will do
        apart = float(np.abs(K @ found - right).max() + np.abs(found[12:] - whole[12:]).max())
        if not case.endswith("meet"):
            apart = float(np.abs(found - whole).max())
        yield claim(
            f"method II, {case}: against (4.3)",
            "equal",
            f"largest difference {apart:.1e} of {np.abs(whole).max():.0f}",
            apart < 1e-9 * np.abs(whole).max(),
            INDEPENDENT,
        )
        if case.endswith("meet"):
            zeros = int(np.sum(np.array(forces[1]) == 0.0))
            yield claim(
                "method II, null spaces meet: free components of f_2 (L1103)",
                "zero",
                f"{zeros} of 6 zero",
                zeros == 1,
            )
        if case == "regular":
            first, _ = dual_arm.method_one(inverses, x, load.tolist(), c)
            gap = float(np.abs(np.array(first) - np.array(a)).max())
            same = bool(gap < 1e-9 * np.abs(a).max())
            yield claim("method I equals II", "equal", f"{gap:.1e}", same, INDEPENDENT)


@cell_table("section 2.3", "arms on a load by loop_dynamics")
def _star() -> Cells:
    """The library's star: the same accelerations, its message, its operations."""
    rng = np.random.default_rng(4)
    for name in ("two_pumas", "four_pumas", "mobile_manipulators"):
        robot = load(name)
        q = project_configuration(
            robot, robot.integrate(robot.poses["home"], 0.02 * rng.standard_normal(robot.nv))
        ).q
        v = project_velocity(robot, q, 0.5 * rng.standard_normal(robot.nv))
        tau = 10.0 * rng.standard_normal(robot.nv)
        star, sparse = (
            loop_dynamics(robot, q, v, tau, method=method) for method in ("star", "augmented")
        )
        size = float(np.abs(sparse.acceleration).max())
        apart = float(np.abs(star.acceleration - sparse.acceleration).max())
        yield claim(
            f"{name}: star against the sparse system",
            "equal",
            f"largest difference {apart:.1e} of {size:.0f}",
            apart < 1e-9 * size,
            INDEPENDENT,
        )
    for title, model in (
        ("four_pumas as loop_dynamics computes it", load("four_pumas")),
        (
            "four arms with general parameters, as loop_dynamics computes them",
            random_arms([6] * 4).model,
        ),
    ):
        yield measured(title, str(Cost(7187, 6242)), str(arms_on_load.star_cost(model)))
    yield (
        "`loop_dynamics` takes arms of any kind: constraint Jacobians are in axes of the grasp, "
        "bases and grasps have general poses instead of Denavit-Hartenberg sets, and orthogonal "
        "columns that tell singular arms apart replace the inverse of Lambda. With general "
        "numbers everywhere that costs more than Table 2; the zeros of the PUMA make it less."
    )


@cell_table("sections 4.2, 4.3 and 4.5", "singular arms")
def _singular() -> Cells:
    """Arms with five joints are singular in every pose: s of four arms, against (4.3)."""
    for s in range(1, 5):
        links = [6] * (4 - s) + [5] * s
        system = random_arms(links, seed=10 + s)
        found = loop_dynamics(system.model, system.q, system.v, system.tau, method="star")
        whole = block_system(system)
        a = np.array(found.acceleration[:6])
        a[3:] += np.cross(system.v[:3], system.v[3:6]) - G
        apart, size = float(np.abs(a - whole.solution[-6:]).max()), float(np.abs(a).max())
        named = len(found.singular_arms)
        yield claim(
            f"s = {s} of 4 arms: a'_r against (4.3)",
            "unique",
            f"largest difference {apart:.1e} of {size:.0f}",
            apart < 1e-9 * max(size, 1.0),
        )
        yield number(f"s = {s}: arms found to be singular", s, named, 0, INDEPENDENT)
    yield _chosen_forces()
    yield from _null_spaces()


def _chosen_forces() -> Cell:
    """Four arms of four joints: null spaces of eight dimensions in all, of which six are apart."""
    system = random_arms([4] * 4, seed=15)
    state = (system.model, system.q, system.v, system.tau)
    shortest = loop_dynamics(*state, method="star")
    chosen = loop_dynamics(*state, method="star", redundant_forces="zero")
    J = loop_jacobian(system.model, system.q)
    undetermined = len(J) - int(chosen.rank)
    zeros = int(np.sum(chosen.constraint_force == 0.0))
    # forces that no joint feels and that leave the load alone
    apart = chosen.constraint_force - shortest.constraint_force
    felt = float(np.abs(apart @ J).max() / np.abs(apart).max())
    same = float(np.abs(chosen.acceleration - shortest.acceleration).max())
    size = float(np.abs(shortest.acceleration).max())
    return claim(
        "null spaces meet: free components of tip forces (L1103)",
        "zero",
        f"{zeros} of {len(J)} zero, {undetermined} undetermined; a_r and joints feel {felt:.0e}",
        zeros == undetermined == 2 and felt < 1e-9 and same < 1e-9 * size,
    )


def _null_spaces() -> list[Cell]:
    """Existence and uniqueness (4.29)-(4.46) on matrices with known null spaces."""
    rng = np.random.default_rng(8)
    load_diagonal = rng.uniform(0.5, 2.0, 6)

    def arm(v: Array) -> Array:
        # Lambda^-1 that does not feel v
        P = np.eye(6) - np.outer(v, v) / (v @ v)
        L = P @ rng.standard_normal((6, 6))
        return np.asarray(L @ L.T + 0.1 * P)

    def system(inverses: Sequence[Array]) -> Array:
        m = len(inverses)
        K = np.zeros((6 * m + 6, 6 * m + 6))
        for k, A in enumerate(inverses):
            own = slice(6 * k, 6 * k + 6)
            K[own, own] = A
            K[own, -6:] = K[-6:, own] = np.eye(6)
        K[-6:, -6:] = -np.diag(load_diagonal)
        return K

    u, v = rng.standard_normal((2, 6))
    cases = {
        "two arms, null spaces apart": (u, v),
        "two arms, one null space": (u, u),
        "three arms, pairwise different, v_1 + v_2 + v_3 = 0": (u, v, -u - v),
        "three arms, independent": (u, v, rng.standard_normal(6)),
    }
    lost_ranks = {
        name: len(K) - int(np.linalg.matrix_rank(K, tol=1e-9))
        for name, K in ((name, system([arm(x) for x in vs])) for name, vs in cases.items())
    }
    printed = (0, 1, 0, 0)
    right = (0, 1, 1, 0)
    cells = [
        number(
            f"{name}: rank lost",
            printed[k],
            lost_ranks[name],
            0,
            DERIVED,
            corrected=right[k] if printed[k] != right[k] else None,
            reason="L1269 asks for an overlap of some pair; a sum of zero is enough"
            if printed[k] != right[k]
            else "",
        )
        for k, name in enumerate(cases)
    ]
    inverses = [arm(u), arm(u)]
    K = system(inverses)
    b = K @ rng.standard_normal(18)
    one = np.linalg.lstsq(K, b, rcond=1e-12)[0]
    other = one + np.concatenate([u, -u, np.zeros(6)])
    left = float(np.abs(K @ other - b).max())
    cells.append(
        claim(
            "f_1 + v and f_2 - v leave a_r (4.44)",
            "yes",
            f"residual {left:.1e}",
            left < 1e-12 * float(np.abs(b).max()) * 100.0,
        )
    )
    S = np.diag(1.0 / load_diagonal)
    inner = np.linalg.inv(inverses[0] + S)
    bracket = inverses[1] + S - S @ inner @ S
    smallest = float(np.linalg.eigvalsh(bracket)[0])
    cells.append(
        claim(
            "matrix of f_2 of method II where null spaces meet",
            "Cholesky",
            f"singular, smallest eigenvalue {smallest:.0e}",
            abs(smallest) < 1e-12,
            corrected="full pivoting",
            reason="the matrix is positive semidefinite there (trap 11)",
        )
    )
    return cells


@cell_table("section 3.5", "four PUMA 560 lift a load")
def _lift() -> Cells:
    steps = (0.04, 0.02, 0.01)
    errors = {B: [lift_run(name, dt).error for dt in steps] for B, name in BLOCKS.items()}
    limits: dict[int, float] = {}
    for B, found in errors.items():
        orders = ", ".join(f"{np.log2(a / b):.1f}" for a, b in pairwise(found))
        text = ", ".join(f"{e:.1e}" for e in found)
        yield measured(f"{BLOCKS[B]}: final error with 40, 20, 10 ms [m]", NO_REFERENCE, text)
        yield measured(f"{BLOCKS[B]}: orders between these steps", "5", orders)
        # the step for the source's accuracy of 1e-6 m
        rising = np.log(found[::-1]), np.log(steps[::-1])
        limits[B] = float(np.exp(np.interp(np.log(1e-6), *rising)))
    for B, ratio in ((2, 0.770), (4, 0.485)):
        yield shown(
            f"S_a of blocks of {B}: step for 1e-6 m over that of blocks of 1",
            f"{ratio}",
            f"{limits[B] / limits[1]:.3f}",
        )
    finest = lift_run(BLOCKS[1], steps[-1])
    yield claim(
        "largest constraint residual [m or rad]",
        "0",
        f"{finest.residual:.0e}",
        finest.residual < 1e-11,
        INDEPENDENT,
    )
    yield timing(
        "serial wall-clock time of 1 s: CRAY Y-MP, ours at 10 ms [s]", 0.117, finest.wall_time
    )
    yield lost("Figure 14, time against error", "errors above")
    yield (
        f"Of the lift only 4 kg, {HEIGHT} m and 1 s are given; arms, grips, way and torques are "
        "ours, so that errors and step ratios are shown and not judged. Neither are orders: final "
        "errors change their sign between steps, and orders from two steps scatter from 3 to 9. "
        "The source does not stabilize its loops."
    )


# -- tasks over chains and points of a block --------------------------------------------------
TABLE_3 = (
    (4, 1, 4, 4, 3, 2, 3, 2),
    (4, 2, 2, 4, 5, 4, 5, 4),
    (4, 2, 2, 2, 5, 2, 10, 4),
    (4, 4, 1, 4, 2, 8, 2, 8),
    (4, 4, 1, 2, 2, 4, 4, 8),
    (4, 4, 1, 1, 2, 2, 8, 8),
    (8, 2, 4, 4, 5, 2, 5, 2),
    (8, 4, 2, 4, 5, 4, 5, 4),
    (8, 4, 2, 2, 5, 2, 10, 4),
)
"""Processors, m~, p~, B; synchronizations and RMA per block, and per four points."""

TABLE_4 = {(1, 4): 3.78, (2, 2): 3.61, (4, 1): 3.30, (2, 4): 6.18, (4, 2): 5.78}
"""S_p of B4PC5 by m~ and p~."""

TABLE_5 = {1: (0.117, 1.0), 2: (0.152, 0.770), 4: (0.241, 0.485)}
"""Serial time for 1e-6 m [s] and S_a by B."""

TABLE_6 = {
    (1, 4, 4): (3.78, 1.83),
    (2, 2, 4): (3.61, 1.75),
    (2, 2, 2): (3.42, 2.63),
    (4, 1, 4): (3.30, 1.60),
    (4, 1, 2): (3.28, 2.53),
    (4, 1, 1): (3.10, 3.10),
    (2, 4, 4): (6.18, 3.00),
    (4, 2, 4): (5.78, 2.80),
    (4, 2, 2): (5.15, 3.97),
}
"""S_p and S_T by m~, p~ and B."""

NO_PARTITION_TIMES = (
    "No time of a partition was measured: speedups of several processors are those of the source."
)

STEPS = (0.04, 0.02, 0.01)
"""Steps between which the one for an error of 1e-6 m lies [s]."""


def _start() -> tuple[Any, Any, Any]:
    model = four_pumas()
    rng = np.random.default_rng(3)
    return np.array(model.poses["home"]), np.zeros(model.nv), 0.1 * rng.standard_normal(model.nv)


@cell_table("table 3", "synchronizations and reference solutions")
def _table_3() -> Cells:
    model = four_pumas()
    bits: dict[int, set[bytes]] = {}
    for processors, m, p, block, *published in TABLE_3:
        run = BlockTasks(model, block, chains=m, points=p).run(*_start(), 1e-3, 2)
        bits.setdefault(block, set()).add(run.q.tobytes() + run.v.tobytes())
        per_block = [int(x) for x in run.counts]
        ours = [*per_block, *(x * 4 // block for x in per_block)]
        yield claim(
            f"{processors} tasks, {m} x {p}, B = {block}: sync and RMA per block, per 4 points",
            ", ".join(map(str, published)),
            ", ".join(map(str, ours)),
            ours == published,
        )
    same = all(len(found) == 1 for found in bits.values())
    text = "same bits" if same else "bits differ"
    yield claim("bits do not depend on the partition", "same bits", text, same, INDEPENDENT)
    yield "Cells that the scan dropped follow from sync = 2[m~ > 1] + 3[p~ > 1], RMA = 2B/p~."


@cache
def efficiency(block: int) -> float:
    """Return S_a: the step that reaches 1e-6 m, relative to that of blocks of one point."""

    def step(name: str) -> float:
        errors = [lift_run(name, dt).error for dt in STEPS]
        return float(np.exp(np.interp(np.log(1e-6), np.log(errors[::-1]), np.log(STEPS[::-1]))))

    return step(BLOCKS[block]) / step(BLOCKS[1])


@cache
def speedup_of_lanes(points: int) -> float:
    """Return how much faster so many evaluations are in lanes than one after another."""
    model = four_pumas()
    nq, nv = model.nq, model.nv

    def states(q: Any, v: Any, tau: Any) -> list[tuple[Any, ...]]:
        return [
            (q[k * nq : (k + 1) * nq], v[k * nv : (k + 1) * nv], tau[k * nv : (k + 1) * nv])
            for k in range(points)
        ]

    def in_lanes(model: Any, qs: Any, vs: Any, taus: Any) -> Any:
        found = lanes(lambda *at: forward_dynamics(model, *at), states(qs, vs, taus))
        return as_traced([x for a in found for x in a])

    def in_turn(model: Any, qs: Any, vs: Any, taus: Any) -> Any:
        one = function(lambda *at: forward_dynamics(model, *at))
        return as_traced([x for at in states(qs, vs, taus) for x in one(*at)])

    shapes = {"qs": points * nq, "vs": points * nv, "taus": points * nv}
    kernels = [compile(call, model, shapes=shapes) for call in (in_lanes, in_turn)]
    given = [np.tile(x, points) for x in _start()]
    first, second = (kernel(*given) for kernel in kernels)
    if first.tobytes() != second.tobytes():
        raise AssertionError("evaluations in lanes have other bits")
    best = [np.inf, np.inf]
    for _ in range(40):
        for k, kernel in enumerate(kernels):
            before = clock.process_time()
            for _ in range(200):
                kernel(*given)
            best[k] = min(best[k], clock.process_time() - before)
    return float(best[1] / best[0])


def _sixteen_workers() -> str:
    """Return the speed of 4 x 4 tasks in threads, where the machine has a core for each."""
    tasks, cores = 16, cpu_count()
    if cores < tasks:
        return f"not measured: this machine has {cores} cores"
    best = []
    for m, p in ((1, 1), (4, 4)):
        work = BlockTasks(four_pumas(), 4, chains=m, points=p)
        samples = []
        for _ in range(5):
            before = clock.perf_counter()
            work.run(*_start(), 1e-3, 20)
            samples.append(clock.perf_counter() - before)
        best.append(min(samples))
    return f"{best[0] / best[1]:.2f} in {tasks} threads"


@cell_table("table 4", "speed of tasks")
def _table_4() -> Cells:
    for (m, p), published in TABLE_4.items():
        name = f"S_p of B4PC5, {m} x {p}"
        if m == 1:
            yield timing(f"{name}: {p} points in lanes of one core", published, speedup_of_lanes(p))
        else:
            yield measured(name, f"{published}", "no time measured")
    yield measured("S_p of B4PC5, 4 x 4", "for 16 processors, not run", _sixteen_workers())
    yield NO_PARTITION_TIMES
    yield (
        "Ours: evaluations of four points in lanes against one after another, processor time, same "
        "bits. One evaluation computes its four arms in lanes already, m~ = 4 of one core, so that "
        "points side by side gain little; beside scalar code a block is 2.6 times as fast "
        "(`tiburon bench lanes`). Tasks in threads have the counts of table 3; Python starts their "
        "kernels, so that "
        "their times say nothing about the machine."
    )


@cell_table("table 5", "serial efficiency of blocks at 1e-6 m")
def _table_5() -> Cells:
    for block, (seconds, published) in TABLE_5.items():
        run = lift_run(BLOCKS[block], STEPS[-1])
        yield shown(f"S_a, B = {block}", f"{published}", f"{efficiency(block):.3f}")
        yield timing(
            f"serial time of 1 s, B = {block}: theirs at 1e-6 m, ours at 10 ms [s]",
            seconds,
            run.wall_time,
        )
    yield lost("start-up, first step, arms, grips and torques", "Dormand-Prince, the zoo's")
    yield NO_PARTITION_TIMES


@cell_table("table 6", "total speed at 1e-6 m")
def _table_6() -> Cells:
    for (m, p, block), (speed, total) in TABLE_6.items():
        S_a = TABLE_5[block][1]
        name = f"{m} x {p}, B = {block}"
        # half a digit of the product, and of its factors
        yield print_check(f"S_T = S_p S_a of tables 4 and 5, {name}", total, speed * S_a, 0.01)
        if m == 1:
            ours = speedup_of_lanes(p) * efficiency(block)
            yield timing(f"S_T, {name}: points in lanes of one core", total, ours)
    yield NO_PARTITION_TIMES
    yield "Rows are scrambled in the scan; T_serial/T = S_p and S_T = S_p S_a place them."


TABLES: Mapping[str, Callable[[], CellTable]] = {
    "table-1": _table_1,
    "table-2": _table_2,
    "kernels": _kernels,
    "crossover": _crossover,
    "dual-arm": _dual_arm,
    "star": _star,
    "singular": _singular,
    "lift": _lift,
    "table-3": _table_3,
    "table-4": _table_4,
    "table-5": _table_5,
    "table-6": _table_6,
}
"""Tables by name."""


def mcmillan_tables(parts: Iterable[str] = ()) -> tuple[CellTable, ...]:
    """Return tables by name, such as "table-2"; all by default."""
    return chosen_tables(TABLES, parts)


def mcmillan_page(tables: Iterable[CellTable]) -> str:
    """Return one HTML page with tables and figures."""
    from tiburon.reproduce.cell_page import cell_page
    from tiburon.reproduce.mcmillan_figures import figures

    return cell_page(
        "McMillan 1994, part I",
        "Arms that hold one load: operation counts, accelerations and a lift, as published, as "
        "corrected, and as computed here.",
        tuple(tables),
        figures(),
    )
