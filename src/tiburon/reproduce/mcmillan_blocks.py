"""McMillan 1994, chapter 3: tables 3 to 6, tasks over chains and points of a block.

Synchronizations and solutions for the reference member are counted while tasks run, and must be
those of table 3. Times are not judged: the processors of the source are the lanes of one core here,
and start-up, first step and model data of the source are lost.
"""

import time as clock
from functools import cache
from typing import Any

import numpy as np

from tiburon.functions.compilation import compile
from tiburon.functions.dynamics import forward_dynamics
from tiburon.operating_system import cpu_count
from tiburon.parallel.blocks import BlockTasks
from tiburon.reproduce.cells import DERIVED, Cells, cell_table, claim, lost, measured, shown, timing
from tiburon.reproduce.mcmillan_lift import BLOCKS, four_pumas, lift_run
from tiburon.trace.array import as_traced
from tiburon.trace.regions import function
from tiburon.trace.regions.lanes import lanes

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
    yield claim("results do not depend on the partition", "assumed", text, same, DERIVED)
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
            yield measured(name, f"{published}", "same bits and counts; no time")
    yield measured("S_p of B4PC5, 4 x 4", "for 16 processors, not run", _sixteen_workers())
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


@cell_table("table 6", "total speed at 1e-6 m")
def _table_6() -> Cells:
    for (m, p, block), (speed, total) in TABLE_6.items():
        S_a = TABLE_5[block][1]
        good = abs(speed * S_a - total) <= 0.006
        name = f"{m} x {p}, B = {block}"
        yield claim(f"S_T = S_p S_a, {name}", f"{total}", f"{speed * S_a:.2f}", good, DERIVED)
        if m == 1:
            ours = speedup_of_lanes(p) * efficiency(block)
            yield timing(f"S_T, {name}: points in lanes of one core", total, ours)
    yield "Rows are scrambled in the scan; T_serial/T = S_p and S_T = S_p S_a place them."


TABLES = {"table-3": _table_3, "table-4": _table_4, "table-5": _table_5, "table-6": _table_6}
"""Tables by name."""
