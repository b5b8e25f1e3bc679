"""Load sharing: from contact points and Jacobians to forces, against the solver daqp alone.

Hands, walking machines and arms in motion: problems of the size of Nahon 1991, chapter 6, with
least forces or torques, friction pyramids of four sides and torque limits. Our side includes
building the problem; daqp gets finished matrices. Random dense problems have eight active rows, and
the cases of a batch nothing in common. Solutions are compared before times.
"""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, NamedTuple

import numpy as np

from benchmarks.figure import Figure, Measurement, MeasurementError
from benchmarks.timing import measure

SIZE = 4096
STEPS = 200
"""Consecutive states of a motion."""

MASS, INERTIA = 30.0, np.diag([0.5, 0.9, 1.1])
FRICTION, TORQUE, ARM_TORQUE = 0.5, 60.0, 16.0
BOUNDS = (2.5, 3.5, 10.0, 15.0)
"""Least ratio and aim of one call, and of a batch."""
DENSE_BOUNDS = (1.5, 2.5, 3.0, 6.0)
AGREEMENT = 1e-8
"""Largest difference of the solutions, relative to the largest force."""


class Case(NamedTuple):
    """A kind of problem: its motion, and what turns a state into a quadratic program."""

    name: str
    inputs: dict[str, tuple[int, ...]]
    states: dict[str, Any]
    build: Callable[..., tuple[Any, ...]]
    bounds: tuple[float, float, float, float] = BOUNDS


def run(duration: float) -> Iterator[Figure]:
    """Measure hands, walking machines and arms.

    Args:
        duration: Time to spend on each side [s].
    """
    try:
        import daqp
    except ImportError as error:
        raise MeasurementError("needs daqp: pip install daqp") from error
    for case in (_legs(3), _legs(4), _legs(6), _arms(4), _dense()):
        yield from _figures(case, daqp, duration)


def _legs(count: int) -> Case:
    """Return legs or fingers under a body that sways: forces of points, least internal force."""
    random = np.random.default_rng(0)
    angle = 2.0 * np.pi * np.arange(count) / count
    feet = np.c_[
        0.5 * np.cos(angle), 0.3 * np.sin(angle), -0.4 + 0.05 * random.standard_normal(count)
    ]
    jacobians = 0.1 * random.standard_normal((count, 3, 3)) + 0.25 * np.eye(3)
    t = np.arange(STEPS) / STEPS
    turn = 2.0 * np.pi * t
    # three legs tip over sooner
    wide = 0.9 if count == 3 else 1.0
    sway = wide * np.c_[0.25 * np.sin(turn), 0.12 * np.cos(turn), 0.0 * t]
    states = {
        "points": feet - sway[:, None],
        "force": MASS
        * np.c_[2.5 * wide * np.cos(turn), 1.5 * wide * np.sin(2 * turn), 9.81 + 0.0 * t],
        "moment": wide * np.sin(turn)[:, None] * (INERTIA @ np.array([1.0, -0.6, 0.4])),
        "jacobians": (1.0 + 0.05 * np.sin(turn[:, None] + np.arange(count)))[..., None, None]
        * jacobians,
    }

    def build(points: Any, force: Any, moment: Any, jacobians: Any) -> tuple[Any, ...]:
        n, mu = 3 * count, FRICTION / np.sqrt(2.0)
        A1 = [[0.0] * n for _ in range(6)]
        A2: list[list[Any]] = []
        b2: list[Any] = []
        total = 0.0
        for k in range(count):
            x, y, z = points[k]
            total = total + x * x + y * y + z * z
            cross = ((0.0, -z, y), (z, 0.0, -x), (-y, x, 0.0))
            for i in range(3):
                A1[i][3 * k + i] = 1.0
                for j in range(3):
                    A1[3 + i][3 * k + j] = cross[i][j]
            rows = [(0.0, 0.0, 1.0), (1, 0, mu), (-1, 0, mu), (0, 1, mu), (0, -1, mu)]
            sides = [[jacobians[k][i][j] for i in range(3)] for j in range(3)]
            rows += sides + [[-x for x in row] for row in sides]
            for row in rows:
                A2.append([*([0.0] * (3 * k)), *row, *([0.0] * (n - 3 * k - 3))])
            b2 += [0.0] * 5 + [-TORQUE] * 6
        W = [[total / count if i == j else 0.0 for j in range(n)] for i in range(n)]
        return W, [0.0] * n, A1, [*force, *moment], A2, b2

    names = {3: "three fingers", 4: "four legs", 6: "six legs"}
    inputs = {"points": (count, 3), "force": (3,), "moment": (3,), "jacobians": (count, 3, 3)}
    return Case(names[count], inputs, states, build)


def _arms(count: int) -> Case:
    """Return arms that hold a load rigidly: wrenches, least torques."""
    random = np.random.default_rng(3)
    base = 0.5 * np.eye(6) + 0.25 * random.standard_normal((count, 6, 6))
    points = 0.4 * random.standard_normal((count, 3))
    needed = 5.0 * random.standard_normal((count, 6))
    t = np.arange(STEPS) / STEPS
    states = {
        "points": np.broadcast_to(points, (STEPS, count, 3)),
        "force": MASS * np.c_[3 * np.cos(6 * t), 2 * np.sin(6 * t), 9.81 + 0.0 * t],
        "moment": np.sin(6 * t)[:, None] * (INERTIA @ np.array([2.0, -1.0, 1.0])),
        "jacobians": (1.0 + 0.05 * np.sin(6 * t))[:, None, None, None] * base,
        "needed": np.broadcast_to(needed, (STEPS, count, 6)),
    }

    def build(points: Any, force: Any, moment: Any, jacobians: Any, needed: Any) -> tuple[Any, ...]:
        n = 6 * count
        A1 = [[0.0] * n for _ in range(6)]
        A2: list[list[Any]] = []
        b2: list[Any] = []
        W = [[0.0] * n for _ in range(n)]
        c: list[Any] = [0.0] * n
        for k in range(count):
            x, y, z = points[k]
            cross = ((0.0, -z, y), (z, 0.0, -x), (-y, x, 0.0))
            J = jacobians[k]
            for i in range(3):
                A1[i][6 * k + 3 + i] = 1.0
                A1[3 + i][6 * k + i] = 1.0
                for j in range(3):
                    A1[3 + i][6 * k + 3 + j] = cross[i][j]
            for i in range(6):
                c[6 * k + i] = sum(J[i][m] * needed[k][m] for m in range(6))
                for j in range(6):
                    square = sum(J[i][m] * J[j][m] for m in range(6))
                    W[6 * k + i][6 * k + j] = square + (1e-6 if i == j else 0.0)
            for sign in (1.0, -1.0):
                for j in range(6):
                    row = [sign * J[i][j] for i in range(6)]
                    A2.append([*([0.0] * (6 * k)), *row, *([0.0] * (n - 6 * k - 6))])
                    b2.append(-sign * needed[k][j] - ARM_TORQUE)
        return W, c, A1, [*force, *moment], A2, b2

    inputs = {
        "points": (count, 3),
        "force": (3,),
        "moment": (3,),
        "jacobians": (count, 6, 6),
        "needed": (count, 6),
    }
    return Case("four arms", inputs, states, build)


def _dense() -> Case:
    """Return random problems without structure, of 12 variables and 20 rows."""
    n, rows = 12, 20
    random = np.random.default_rng(0)
    G = random.standard_normal((STEPS, n, n))
    A = random.standard_normal((STEPS, rows, n))
    states = {
        "W": G @ G.transpose(0, 2, 1) / n + 0.1 * np.eye(n),
        "c": 2.0 * random.standard_normal((STEPS, n)),
        "A": A / np.linalg.norm(A, axis=2, keepdims=True),
        "b": -0.05 - 0.5 * random.random((STEPS, rows)),
    }

    def build(W: Any, c: Any, A: Any, b: Any) -> tuple[Any, ...]:
        return W, c, None, None, A, b

    inputs = {"W": (n, n), "c": (n,), "A": (rows, n), "b": (rows,)}
    return Case("random dense problems", inputs, states, build, DENSE_BOUNDS)


def _figures(case: Case, daqp: Any, duration: float) -> Iterator[Figure]:
    import tiburon as tb
    from tiburon.trace import solve_qp

    @wraps(case.build)
    def share(*state: Any) -> Any:
        found = solve_qp(*case.build(*state))
        return {
            "x": found.x,
            "active": found.active,
            "iterations": found.iterations,
            "status": found.status,
        }

    kernel = tb.compile(share, shapes=case.inputs, name="shared_load")
    arrays = list(case.states.values())
    x, active, iterations, status = kernel(*arrays)
    programs = []
    for k in range(STEPS):
        W, c, A1, b1, A2, b2 = case.build(*(a[k] for a in arrays))
        equations = (np.zeros((0, len(c))), np.zeros(0)) if A1 is None else (A1, b1)
        parts = (W, c, *equations, A2, b2)
        programs.append([np.array(part, dtype=np.float64) for part in parts])
    sense = np.zeros(len(programs[0][3]) + len(programs[0][5]), dtype=np.intc)
    sense[: len(programs[0][3])] = 5
    calls = []
    for W, c, A1, b1, A2, b2 in programs:
        upper = np.r_[b1, np.full(len(b2), 1e30)]
        calls.append((W, c, np.vstack([A1, A2]), upper, np.r_[b1, b2], sense))
    for k, call in enumerate(calls):
        theirs, _, code, _ = daqp.solve(*call)
        worst = np.abs(x[k] - theirs).max() / np.abs(theirs).max()
        if code <= 0 or status[k] or worst > AGREEMENT:
            raise MeasurementError(f"{case.name}: solutions of state {k} differ by {worst:.1e}")
    # the state with the median number of active rows stands for all
    k = int(np.argsort(active, kind="stable")[STEPS // 2])
    one = [np.ascontiguousarray(a[k]) for a in arrays]
    rows = len(programs[0][5])
    note = (
        f"{x.shape[1]} unknowns, {rows} limits, {active.mean():.1f} active and "
        f"{iterations.mean():.1f} iterations on average; daqp gets finished matrices"
    )
    must, aim, batch_must, batch_aim = case.bounds
    times = measure({"ours": (kernel, *one), "peer": (daqp.solve, *calls[k])}, duration=duration)
    yield Figure(
        f"{case.name}, one call", times["ours"], "daqp", times["peer"], must, aim, note=note
    )
    many = [np.resize(a, (SIZE, *a.shape[1:])) for a in arrays]

    def batch() -> Any:
        return kernel(*many, threads=1)

    def loop() -> None:
        for call in calls:
            daqp.solve(*call)

    times = measure({"ours": batch, "peer": loop}, duration=duration)
    yield Figure(
        f"{case.name}, {SIZE} cases, one thread",
        times["ours"].per(SIZE),
        "daqp",
        times["peer"].per(STEPS),
        batch_must,
        batch_aim,
    )


MEASUREMENT = Measurement("load-sharing", "Load sharing, time of a problem", run, place=21)
