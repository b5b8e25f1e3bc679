"""Mechanisms of the IFToMM multibody benchmark library, simulated and compared with references.

`iftomm_references` cites the origin of the references. Models are those of the zoo, which cite the
sources of their data.
"""

import math
import time as clock
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from tiburon.arrays import Array
from tiburon.formats.load import load
from tiburon.functions.closed_loops import constraint_residual, loop_jacobian
from tiburon.functions.kinematics import kinetic_energy, potential_energy
from tiburon.loops.constraints import constraint_count
from tiburon.model import Model, World
from tiburon.reproduce import iftomm_references as references
from tiburon.reproduce.cells import (
    INDEPENDENT,
    PRINTED,
    Cell,
    CellTable,
    chosen_tables,
    claim,
    measured,
)
from tiburon.results.record import Record
from tiburon.results.trajectory import Trajectory
from tiburon.simulation.integrators.rk4 import RK4
from tiburon.simulation.simulate import simulate

DURATION = 10.0
"""Simulated time of the library's problems [s]."""

RESIDUAL_TOLERANCE = 1e-10
"""Largest loop-closure error [m or rad]."""

DRIFT_TOLERANCE = 1e-6
"""Largest energy drift, relative to the largest kinetic energy."""


def benchmarks(names: Iterable[str] = ()) -> tuple[CellTable, ...]:
    """Simulate mechanisms among `PROBLEMS` and compare them with references; all by default."""
    makers = {name: partial(problem, name) for name, problem in PROBLEMS.items()}
    return chosen_tables(makers, names, "problem")


def _four_bars(name: str) -> CellTable:
    """Simulate N four-bars through the singular poses in which all rods are collinear."""
    windows = int(name.rpartition("-")[2])
    model = load(f"n_four_bar_{windows}")
    uprights = [joint.startswith("pivot") for joint in model.v_names]
    start = np.where(uprights, -1.0, 1.0)
    run, seconds = _timed(model, DURATION, q=model.neutral(), v=start, dt=1e-3)
    exact = np.array([references.rotating_four_bars(windows, t) for t in run.time])
    # position of the tip of one upright
    tip, tip_exact = (np.stack([np.sin(a), np.cos(a)], -1) for a in (-run.q[:, 0], exact[:, 0]))
    flat = model.neutral() - start * (math.pi / 2)
    # in singular poses each window adds a DoF, which keeps the velocity that rounding gave it
    near = 5e-7 * windows
    rows = (
        _row("x of B0 at 10 s [m]", tip_exact[-1, 0], tip[-1, 0], near),
        _row("y of B0 at 10 s [m]", tip_exact[-1, 1], tip[-1, 1], near),
        _row("B0, largest position error [m]", 0.0, _largest(tip - tip_exact), near),
        _row("B0, largest speed error [m/s]", 0.0, _largest(run.v[:, 0] + exact[:, 1]), near),
        _row("singular poses passed", _crossings(exact[:, 0]), _crossings(run.q[:, 0]), 0.0),
        _row("degrees of freedom in regular poses", 1, _dof(model, run.q[-1]), 0.0, PRINTED),
        _row("degrees of freedom in singular poses", windows + 1, _dof(model, flat), 0.0, PRINTED),
        *_conserved(model, run, _mechanical(model, run)),
    )
    return _table(
        name,
        f"N-four-bar, N = {windows}: {DURATION:g} s in steps of 1 ms",
        "degrees of freedom: library; motion: a rotating pendulum, in elliptic functions",
        seconds,
        rows,
    )


def _andrews(name: str) -> CellTable:
    """Simulate Andrews' squeezer for 0.05 s with motor, as in the library, then 10 s without."""
    model = load("andrews_squeezer")
    dt, moment = 5e-6, 0.033
    flat = World(gravity=(0.0, 0.0, 0.0))
    home = np.array(model.poses["home"])
    driven, seconds = _timed(
        model, 0.05, q=home, world=flat, dt=dt, record=Record(dt=1e-3), command={"motor": moment}
    )
    at = int(np.argmin(np.abs(driven.time - references.ANDREWS_END)))
    rows = []
    for joint, angle in references.ANDREWS_ANGLES.items():
        found = _coordinate(driven.q[at], model, joint)
        rows.append(_row(f"{joint} at 0.03 s [rad]", angle, found, 1e-7, PRINTED))
    for joint, speed in references.ANDREWS_SPEEDS.items():
        found = _coordinate(driven.v[at], model, joint)
        # at 1140 rad/s, as many digits as the angles have
        rows.append(_row(f"rate of {joint} [rad/s]", speed, found, 1e-4, PRINTED))
    tree = model.without_loops()
    beta = driven.q[:, model.slice("beta", of="q")][:, 0]
    # energy minus work of the motor
    energy = kinetic_energy(tree, driven.q, driven.v) + _coil_energy(model, driven.q)
    rows += _conserved(model, driven, energy - moment * (beta - home[0]), "motor on")
    last = {"q": driven.q[-1], "v": driven.v[-1]}
    free, free_seconds = _timed(
        model, DURATION, **last, world=flat, dt=2 * dt, record=Record(dt=0.05)
    )
    energy = kinetic_energy(tree, free.q, free.v) + _coil_energy(model, free.q)
    rows += _conserved(model, free, energy, "motor off")
    return _table(
        name,
        "Andrews' squeezer: 0.05 s in steps of 5 us, then 10 s of 10 us without its motor",
        "test set for IVP solvers, t = 0.03 s",
        seconds,
        rows,
        f"motor off: wall-clock time {free_seconds:.3f} s for {DURATION:g} s",
    )


def _bricard(name: str) -> CellTable:
    """Simulate Bricard's mechanism, which has mobility 1 although Gruebler's count is 0."""
    model = load("bricard")
    run, seconds = _timed(model, DURATION, q=model.neutral(), dt=1e-3)
    # Gruebler: six DoF per body, five constraints per hinge, in the tree or not
    counted = model.nv - constraint_count(model)
    odd, even = run.q[:, ::2], run.q[:, 1::2]
    # angles that are zero here are right angles in the source
    curve = (1.0 + np.sin(odd[:, 0])) * (1.0 + np.sin(even[:, 0])) - 1.0
    rows = [
        _row("degrees of freedom by Gruebler's count", 0, counted, 0.0, PRINTED),
        _row("degrees of freedom by rank", 1, _dof(model, run.q[len(run.q) // 3]), 0.0, PRINTED),
    ]
    for instant, angles in references.BRICARD.items():
        at = int(np.argmin(np.abs(run.time - instant)))
        rows += [
            _row(f"{which} hinges at {instant:g} s [rad]", angle, float(found[at, 0]), 1e-8)
            for which, angle, found in zip(("odd", "even"), angles, (odd, even), strict=True)
        ]
    rows += [
        _row("closure equation, residual", 0.0, _largest(curve), RESIDUAL_TOLERANCE),
        _row("odd hinges, difference [rad]", 0.0, float(np.ptp(odd, axis=1).max()), 1e-8),
        *_conserved(model, run, _mechanical(model, run)),
    ]
    return _table(
        name,
        f"Bricard's mechanism: {DURATION:g} s in steps of 1 ms",
        "degrees of freedom: library; curve: Chen, You and Tarnai 2005; angles: reduced equations",
        seconds,
        rows,
    )


def _governor(name: str) -> CellTable:
    """Simulate the flyball governor, whose rods are springs of 8e5 N/m and need short steps."""
    model = load("flyball_governor")
    start = np.zeros(model.nv)
    start[model.slice("spin", of="v")] = 2.0 * math.pi
    run, seconds = _timed(model, DURATION, q=model.neutral(), v=start, dt=2e-5)
    springs = sum(np.asarray(run.get(f"{side}_spring.energy")) for side in ("left", "right"))
    energy = np.asarray(run.get("total_energy")) + springs
    around_shaft = np.asarray(run.get("momentum"))[:, 2]
    reference = references.GOVERNOR
    height, spin = (_coordinate(run.q[-1], model, joint) for joint in ("height", "spin"))
    arms = [_coordinate(run.q[-1], model, f"{side}_hinge") for side in ("left", "right")]
    rows = (
        _row("slider height [m]", reference.height, height, 1e-8),
        _row("left arm angle [rad]", reference.hinge, arms[0], 1e-8),
        _row("right arm angle [rad]", reference.hinge, arms[1], 1e-8),
        _row("shaft angle [rad]", reference.spin, spin, 1e-6),
        _row(
            "shaft speed [rad/s]", reference.spin_rate, _coordinate(run.v[-1], model, "spin"), 1e-7
        ),
        _row(
            "angular momentum about the shaft, drift, relative",
            0.0,
            _largest(around_shaft / around_shaft[0] - 1.0),
            1e-9,
        ),
        _row("damper losses [J]", reference.lost, float(energy[0] - energy[-1]), 1e-8),
    )
    return _table(
        name,
        f"flyball governor: {DURATION:g} s in steps of 20 us",
        "reduced equations",
        seconds,
        rows,
        "no loops; the energy dissipated by dampers is compared in place of energy drift",
    )


PROBLEMS: dict[str, Callable[[str], CellTable]] = {
    "four-bar-2": _four_bars,
    "four-bar-40": _four_bars,
    "andrews": _andrews,
    "bricard": _bricard,
    "governor": _governor,
}
"""Mechanisms by their names on the command line."""


def _table(
    name: str, title: str, source: str, seconds: float, cells: Iterable[Cell], *remarks: str
) -> CellTable:
    """Return the values of one mechanism, and the wall-clock time of its run with cached code."""
    published = references.OPENSIM_WALL_TIMES.get(name)
    time = measured(
        "wall-clock time [s], beside OpenSim 3.2 on a Core i5-4570",
        "-" if published is None else f"{published:g}",
        f"{seconds:.3f}",
    )
    return CellTable(name, title, (*cells, time), (f"references: {source}", *remarks))


def _row(
    quantity: str, reference: float, ours: float, allowed: float, kind: str = INDEPENDENT
) -> Cell:
    """Return a value that agrees within an absolute error; NaN does not."""
    error = abs(ours - reference)
    text = f"{ours:.10g} (error {error:.1e}, allowed {allowed:.1e})"
    return claim(quantity, f"{reference:.10g}", text, error <= allowed, kind)


def _timed(model: Model, duration: float, *, dt: float, **options: Any) -> tuple[Trajectory, float]:
    """Simulate a robot and time it, after a short run that compiles its code."""
    options = {"record": Record(dt=0.01), **options}
    simulate(model, options["record"].dt, method=RK4(dt=dt), **options)
    before = clock.perf_counter()
    run = simulate(model, duration, method=RK4(dt=dt), **options)
    return run, clock.perf_counter() - before


def _mechanical(model: Model, run: Trajectory) -> Array:
    """Return kinetic and potential energy of a run [J], shape (rows,)."""
    tree = model.without_loops()
    return np.asarray(kinetic_energy(tree, run.q, run.v) + potential_energy(tree, run.q))


def _conserved(model: Model, run: Trajectory, energy: Array, when: str = "") -> tuple[Cell, Cell]:
    """Return rows for energy drift and loop-closure error, which should be zero."""
    largest = float(kinetic_energy(model.without_loops(), run.q, run.v).max())
    after = f", {when}" if when else ""
    drift = _largest(energy - energy[0]) / largest
    residual = _largest(constraint_residual(model, run.q))
    return (
        _row(f"energy drift, relative{after}", 0.0, drift, DRIFT_TOLERANCE),
        _row(f"loop-closure error [m, rad]{after}", 0.0, residual, RESIDUAL_TOLERANCE),
    )


def _coil_energy(model: Model, q: Array) -> Array:
    """Return the energy of the squeezer's spring [J] from the angle of the attached body."""
    coil = model.springs[0]
    gamma = q[..., model.slice("gamma", of="q")][..., 0]
    # one end on K3, which rotates about B; the other fixed in C
    away, along = 0.02, -0.018
    x = -0.03635 + away * np.cos(gamma) - along * np.sin(gamma) - 0.014
    y = 0.03273 + away * np.sin(gamma) + along * np.cos(gamma) - 0.072
    energy: Array = 0.5 * coil.stiffness * (np.hypot(x, y) - coil.rest_length) ** 2
    return energy


def _dof(model: Model, q: Array) -> int:
    """Return the instantaneous mobility of a robot with loops in one configuration."""
    return model.nv - int(np.linalg.matrix_rank(loop_jacobian(model, q), tol=1e-9))


def _crossings(angle: Array) -> int:
    """Count how often an angle from upright passes horizontal."""
    return int(np.count_nonzero(np.diff(np.sign(np.cos(angle)))))


def _coordinate(row: Array, model: Model, joint: str) -> float:
    """Return the position or velocity of a joint with one degree of freedom."""
    return float(row[model.slice(joint, of="v")][0])


def _largest(values: Array) -> float:
    """Return the largest absolute value."""
    return float(np.abs(values).max())
