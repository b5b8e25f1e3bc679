"""Mechanisms of the IFToMM multibody benchmark library, run beside their references.

Every row has a reference, our number and how far they may be apart. `iftomm_references` tells where
references come from. Robots are those of the zoo, which name the sources of their data.
"""

import math
import time as clock
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiburon.arrays import NDArray
from tiburon.errors import OptionError
from tiburon.formats.load import load
from tiburon.functions.closed_loops import constraint_residual, loop_jacobian
from tiburon.functions.momentum_energy import kinetic_energy, potential_energy
from tiburon.loops.constraints import constraint_count
from tiburon.model import Model, World
from tiburon.reproduce import iftomm_references as references
from tiburon.results.trajectory import Trajectory
from tiburon.simulation.simulate import simulate

__all__ = ["PROBLEMS", "Benchmark", "BenchmarkRow", "benchmarks"]

Array = NDArray[np.float64]

DURATION = 10.0
"""How long the library has its mechanisms run [s]."""

GAP = 1e-10
"""How far loops may be open [m or rad]."""

DRIFT = 1e-6
"""How much energy may drift, as a fraction of the largest kinetic energy."""


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """One number of one mechanism."""

    quantity: str
    """What it is, with its unit."""

    reference: float
    """What it should be."""

    ours: float
    """What it is here."""

    allowed: float
    """How far apart the two may be."""

    @property
    def error(self) -> float:
        """How far apart they are."""
        return abs(self.ours - self.reference)

    @property
    def good(self) -> bool:
        """Whether that is close enough; numbers that are none are not."""
        return self.error <= self.allowed


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One mechanism."""

    name: str
    """Its word on the command line."""

    title: str
    """What ran, for how long and in which steps."""

    source: str
    """Where the references come from."""

    wall_time: float
    """Seconds of the run, compiled code at hand."""

    published_wall_time: float | None
    """Seconds of another code, see `references.OPENSIM_WALL_TIMES`."""

    rows: tuple[BenchmarkRow, ...]
    """What was compared."""

    remarks: tuple[str, ...] = ()
    """What else to know: times of further runs, what is not compared and why."""

    @property
    def good(self) -> bool:
        """Whether all rows are."""
        return all(row.good for row in self.rows)


def benchmarks(names: Sequence[str] = ()) -> Iterator[Benchmark]:
    """Yield mechanisms beside their references, as they have run.

    Args:
        names: Which of `PROBLEMS`; all by default.

    Raises:
        OptionError: If there is no such problem.
    """
    for name in names:
        if name not in PROBLEMS:
            raise OptionError("problem", PROBLEMS, name)
    for name in names or PROBLEMS:
        yield PROBLEMS[name](name)


def _four_bars(name: str) -> Benchmark:
    """N four-bars through the poses in which all rods lie on one line."""
    windows = int(name.rpartition("-")[2])
    model = load(f"n_four_bar_{windows}")
    uprights = [joint.startswith("pivot") for joint in model.v_names]
    start = np.where(uprights, -1.0, 1.0)
    run, seconds = _timed(model, DURATION, q=model.neutral(), v=start, dt=1e-3)
    exact = np.array([references.turning_four_bars(windows, t) for t in run.time])
    # points that nothing but rotations of one upright moves: where its tip is
    tip, tip_exact = (np.stack([np.sin(a), np.cos(a)], -1) for a in (-run.q[:, 0], exact[:, 0]))
    flat = model.neutral() - start * (math.pi / 2)
    # each window is one more direction that is free for an instant and keeps what rounding gave it
    near = 5e-7 * windows
    rows = (
        BenchmarkRow("x of B0 at 10 s [m]", tip_exact[-1, 0], tip[-1, 0], near),
        BenchmarkRow("y of B0 at 10 s [m]", tip_exact[-1, 1], tip[-1, 1], near),
        BenchmarkRow("B0 off its way, largest [m]", 0.0, _largest(tip - tip_exact), near),
        BenchmarkRow(
            "speed off that way, largest [m/s]", 0.0, _largest(run.v[:, 0] + exact[:, 1]), near
        ),
        BenchmarkRow(
            "singular poses passed", _crossings(exact[:, 0]), _crossings(run.q[:, 0]), 0.0
        ),
        BenchmarkRow("degrees of freedom in between", 1, _freedoms(model, run.q[-1]), 0.0),
        BenchmarkRow(
            "degrees of freedom in singular poses", windows + 1, _freedoms(model, flat), 0.0
        ),
        *_kept(model, run, _mechanical(model, run)),
    )
    return Benchmark(
        name,
        f"N-four-bar, N = {windows}: {DURATION:g} s in steps of 1 ms",
        "degrees of freedom: library; motion: a pendulum that goes round, in elliptic functions",
        seconds,
        references.OPENSIM_WALL_TIMES.get(name),
        rows,
    )


def _andrews(name: str) -> Benchmark:
    """Andrews' squeezer with its motor for 0.05 s, as in the library; then 10 s without."""
    model = load("andrews_squeezer")
    dt, moment = 5e-6, 0.033
    flat = World(gravity=(0.0, 0.0, 0.0))
    home = np.array(model.poses["home"])
    driven, seconds = _timed(
        model, 0.05, q=home, world=flat, dt=dt, record_dt=1e-3, command={"motor": moment}
    )
    at = int(np.argmin(np.abs(driven.time - references.ANDREWS_END)))
    rows = []
    for joint, angle in references.ANDREWS_ANGLES.items():
        found = _number(driven.q[at], model, joint)
        rows.append(BenchmarkRow(f"{joint} at 0.03 s [rad]", angle, found, 1e-7))
    for joint, speed in references.ANDREWS_SPEEDS.items():
        found = _number(driven.v[at], model, joint)
        # speeds of a crank at 1140 rad/s: as many digits as angles have
        rows.append(BenchmarkRow(f"rate of {joint} [rad/s]", speed, found, 1e-4))
    tree = model.without_loops()
    beta = driven.q[:, model.slice("beta", of="q")][:, 0]
    # energy less what the motor has put in
    energy = kinetic_energy(tree, driven.q, driven.v) + _coil_energy(model, driven.q)
    rows += _kept(model, driven, energy - moment * (beta - home[0]), "motor on")
    last = {"q": driven.q[-1], "v": driven.v[-1]}
    free, free_seconds = _timed(model, DURATION, **last, world=flat, dt=2 * dt, record_dt=0.05)
    energy = kinetic_energy(tree, free.q, free.v) + _coil_energy(model, free.q)
    rows += _kept(model, free, energy, "motor off")
    return Benchmark(
        name,
        "Andrews' squeezer: 0.05 s in steps of 5 us, then 10 s of 10 us without its motor",
        "test set for IVP solvers, t = 0.03 s",
        seconds,
        references.OPENSIM_WALL_TIMES.get(name),
        tuple(rows),
        (f"motor off: wall time {free_seconds:.3f} s for {DURATION:g} s",),
    )


def _bricard(name: str) -> Benchmark:
    """Bricard's mechanism: counting gives it no degree of freedom, and it moves."""
    model = load("bricard")
    run, seconds = _timed(model, DURATION, q=model.neutral(), dt=1e-3)
    # Gruebler: six per body, five taken by each hinge, in the tree or not
    counted = model.nv - constraint_count(model)
    odd, even = run.q[:, ::2], run.q[:, 1::2]
    # all angles of the source's start, where they are zero here, are right ones
    curve = (1.0 + np.sin(odd[:, 0])) * (1.0 + np.sin(even[:, 0])) - 1.0
    rows = [
        BenchmarkRow("degrees of freedom by Gruebler's count", 0, counted, 0.0),
        BenchmarkRow(
            "degrees of freedom by rank", 1, _freedoms(model, run.q[len(run.q) // 3]), 0.0
        ),
    ]
    for instant, angles in references.BRICARD.items():
        at = int(np.argmin(np.abs(run.time - instant)))
        rows += [
            BenchmarkRow(f"{which} hinges at {instant:g} s [rad]", angle, float(found[at, 0]), 1e-8)
            for which, angle, found in zip(("odd", "even"), angles, (odd, even), strict=True)
        ]
    rows += [
        BenchmarkRow("off the curve of closed positions", 0.0, _largest(curve), GAP),
        BenchmarkRow("odd hinges apart [rad]", 0.0, float(np.ptp(odd, axis=1).max()), 1e-8),
        *_kept(model, run, _mechanical(model, run)),
    ]
    return Benchmark(
        name,
        f"Bricard's mechanism: {DURATION:g} s in steps of 1 ms",
        "degrees of freedom: library; curve: Chen, You and Tarnai 2005; angles: reduced equations",
        seconds,
        references.OPENSIM_WALL_TIMES.get(name),
        tuple(rows),
    )


def _governor(name: str) -> Benchmark:
    """The flyball governor: rods are springs of 8e5 N/m, so that steps must be short."""
    model = load("flyball_governor")
    start = np.zeros(model.nv)
    start[model.slice("spin", of="v")] = 2.0 * math.pi
    run, seconds = _timed(model, DURATION, q=model.neutral(), v=start, dt=2e-5)
    springs = sum(np.asarray(run.get(f"{side}_spring.energy")) for side in ("left", "right"))
    energy = np.asarray(run.get("total_energy")) + springs
    around_shaft = np.asarray(run.get("momentum"))[:, 2]
    reference = references.GOVERNOR
    height, spin = (_number(run.q[-1], model, joint) for joint in ("height", "spin"))
    arms = [_number(run.q[-1], model, f"{side}_hinge") for side in ("left", "right")]
    rows = (
        BenchmarkRow("rise of the slider [m]", reference.height, height, 1e-8),
        BenchmarkRow("left arm sinks by [rad]", reference.hinge, arms[0], 1e-8),
        BenchmarkRow("right arm sinks by [rad]", reference.hinge, arms[1], 1e-8),
        BenchmarkRow("shaft [rad]", reference.spin, spin, 1e-6),
        BenchmarkRow(
            "its rate [rad/s]", reference.spin_rate, _number(run.v[-1], model, "spin"), 1e-7
        ),
        BenchmarkRow(
            "angular momentum about the shaft, drift, relative",
            0.0,
            _largest(around_shaft / around_shaft[0] - 1.0),
            1e-9,
        ),
        BenchmarkRow("taken by dampers [J]", reference.lost, float(energy[0] - energy[-1]), 1e-8),
    )
    return Benchmark(
        name,
        f"flyball governor: {DURATION:g} s in steps of 20 us",
        "reduced equations",
        seconds,
        None,
        rows,
        ("no loops, so no gaps; dampers take energy: what they took stands for its drift",),
    )


PROBLEMS: dict[str, Callable[[str], Benchmark]] = {
    "four-bar-2": _four_bars,
    "four-bar-40": _four_bars,
    "andrews": _andrews,
    "bricard": _bricard,
    "governor": _governor,
}
"""The mechanisms by their words on the command line."""


def _timed(model: Model, duration: float, *, dt: float, **options: Any) -> tuple[Trajectory, float]:
    """Run a robot after a first few steps, which have its code compiled."""
    options = {"record_dt": 0.01, **options}
    simulate(model, options["record_dt"], dt=dt, **options)
    before = clock.perf_counter()
    run = simulate(model, duration, dt=dt, **options)
    return run, clock.perf_counter() - before


def _mechanical(model: Model, run: Trajectory) -> Array:
    """Return kinetic and potential energy of a run [J], shape (rows,)."""
    tree = model.without_loops()
    return np.asarray(kinetic_energy(tree, run.q, run.v) + potential_energy(tree, run.q))


def _kept(
    model: Model, run: Trajectory, energy: Array, when: str = ""
) -> tuple[BenchmarkRow, BenchmarkRow]:
    """Return what should be zero all the time: drift of the energy, gaps of the loops."""
    largest = float(kinetic_energy(model.without_loops(), run.q, run.v).max())
    after = f", {when}" if when else ""
    drift = _largest(energy - energy[0]) / largest
    gap = _largest(constraint_residual(model, run.q))
    return (
        BenchmarkRow(f"energy drift, relative{after}", 0.0, drift, DRIFT),
        BenchmarkRow(f"largest gap of the loops [m, rad]{after}", 0.0, gap, GAP),
    )


def _coil_energy(model: Model, q: Array) -> Array:
    """Return the energy of the squeezer's spring [J], from the angle of the body it pulls at."""
    coil = model.springs[0]
    gamma = q[..., model.slice("gamma", of="q")][..., 0]
    # one end on K3, which turns about B; the other fixed in C
    away, along = 0.02, -0.018
    x = -0.03635 + away * np.cos(gamma) - along * np.sin(gamma) - 0.014
    y = 0.03273 + away * np.sin(gamma) + along * np.cos(gamma) - 0.072
    energy: Array = 0.5 * coil.stiffness * (np.hypot(x, y) - coil.rest_length) ** 2
    return energy


def _freedoms(model: Model, q: Array) -> int:
    """Return how many ways a robot with loops can move in one pose."""
    return model.nv - int(np.linalg.matrix_rank(loop_jacobian(model, q), tol=1e-9))


def _crossings(angle: Array) -> int:
    """Return how often an angle from upright has passed horizontal."""
    return int(np.count_nonzero(np.diff(np.sign(np.cos(angle)))))


def _number(row: Array, model: Model, joint: str) -> float:
    """Return the position or velocity of a joint with one degree of freedom."""
    return float(row[model.slice(joint, of="v")][0])


def _largest(values: Array) -> float:
    """Return the largest size of some numbers."""
    return float(np.abs(values).max())
