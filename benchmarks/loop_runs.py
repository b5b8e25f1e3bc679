"""Runs of closed mechanisms by any code: one start for all, and one measure of what was kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import tiburon as tb
from benchmarks.figure import Accuracy, check_equal
from benchmarks.mechanisms import closed_state, depth_first
from benchmarks.timing import Timing

Array = NDArray[np.float64]

DURATION, STEP = 10.0, 1e-3
"""Of a run, and of its steps [s]."""

COMPARED = 10
"""Steps after which velocities of all codes are compared: 10 ms."""

WEIGHT = (0.0, 0.0, -9.81)
"""The planes of planar mechanisms stand upright: they fall and swing [m/s^2]."""

WEIGHTLESS = (0.0, 0.0, 0.0)
"""Without motors parallel robots would fall through their legs."""

MECHANISMS = {
    "four_bar": ("four_bar", WEIGHT, 1.0),
    "planar_3rrr": ("planar_3rrr", WEIGHTLESS, 1.0),
    "planar_3rrr, falling": ("planar_3rrr", WEIGHT, 1.0),
    "stewart": ("stewart", WEIGHTLESS, 0.1),
}
"""Robot, gravity [m/s^2], and how fast to start: stewart drifts for 10 s within its legs' reach;
planar_3rrr, when it falls, whips past dead points at up to 40 rad/s."""


@dataclass(frozen=True)
class LoopCase:
    """A closed mechanism and the state that all codes start it from."""

    name: str
    """One of `MECHANISMS`."""

    model: tb.Model
    """Bodies listed depth first."""

    gravity: tuple[float, float, float]
    """In world axes [m/s^2]."""

    q: Array
    """Position, loops closed [m or rad], shape (nq,)."""

    v: Array
    """Velocity that keeps them closed [m/s or rad/s], shape (nv,)."""

    steps: int = round(DURATION / STEP)
    """Number of steps of `STEP`."""

    @property
    def world(self) -> tb.World:
        """The world it moves in."""
        return tb.World(gravity=self.gravity)

    @property
    def body_names(self) -> list[str]:
        """Names of all bodies."""
        return [body.name for body in self.model.bodies]


@dataclass(frozen=True)
class LoopRun:
    """What one code made of a case: states at every step, in our order and axes."""

    code: str
    """Name of the code, with the settings that matter."""

    q: Array
    """Positions, the start included, shape (steps + 1, nq)."""

    v: Array
    """Velocities, shape (steps + 1, nv)."""

    time: Timing
    """Of one step [s]."""

    close: float
    """Largest difference from our change of velocity over 10 ms, relative to the largest."""

    apart: float | None = None
    """Largest distance between frames that a joint holds together [m], for codes with coordinates
    of their own; else it follows from `q`."""


def make_loop_case(name: str, steps: int | None = None) -> LoopCase:
    """Load a mechanism and draw its start.

    Args:
        name: One of `MECHANISMS`.
        steps: Number of steps; as many as fill `DURATION` by default.
    """
    robot, gravity, speed = MECHANISMS[name]
    model = depth_first(tb.load(robot))
    q, v, _ = closed_state(model)
    return LoopCase(name, model, gravity, q, speed * v, steps or round(DURATION / STEP))


def distance_of_frames(case: LoopCase, q: Array) -> float:
    """Measure how far the two frames of any loop were apart at the worst [m].

    Args:
        case: The mechanism.
        q: Positions, shape (..., nq).
    """
    names = case.body_names
    # one kernel for all bodies; the world comes last
    R, p = tb.forward_kinematics(case.model, q, names)
    R = np.concatenate([R, np.broadcast_to(np.eye(3), (*R.shape[:-3], 1, 3, 3))], axis=-3)
    p = np.concatenate([p, np.zeros((*p.shape[:-2], 1, 3))], axis=-2)
    place = {name: number for number, name in enumerate([*names, "world"])}
    worst = 0.0
    for loop in case.model.loops:
        sides = ((loop.first, loop.joint.pose), (loop.second, loop.second_pose))
        one, other = (
            R[..., place[body], :, :] @ np.array(pose.translation) + p[..., place[body], :]
            for body, pose in sides
        )
        worst = max(worst, float(np.linalg.norm(one - other, axis=-1).max()))
    return worst


def kinetic_scale(case: LoopCase, run: LoopRun) -> float:
    """Return the largest kinetic energy of a run [J], which errors of all runs are related to."""
    return float(tb.kinetic_energy(case.model, run.q, run.v).max())


def accuracy_of(
    case: LoopCase,
    run: LoopRun,
    scale: float,
    bounds: tuple[float | None, float | None] = (None, None),
) -> Accuracy:
    """Judge a run by our own geometry and energy, whoever made it.

    Args:
        case: The mechanism.
        run: States of the run.
        scale: Energy that errors are related to [J].
        bounds: Upper bounds of residual [m] and relative energy error.
    """
    energy = tb.kinetic_energy(case.model, run.q, run.v)
    energy = energy + tb.potential_energy(case.model, run.q, world=case.world)
    return Accuracy(
        residual=distance_of_frames(case, run.q) if run.apart is None else run.apart,
        energy=float(np.abs(energy - energy[0]).max()) / scale,
        residual_must=bounds[0],
        energy_must=bounds[1],
    )


def check_same_motion(case: LoopCase, ours: LoopRun, peer: LoopRun) -> None:
    """Insist that a peer moves the same mechanism from the same start.

    Args:
        case: The mechanism.
        ours: Our run.
        peer: The peer's run.

    Raises:
        DisagreementError: If the start or the change of velocity over 10 ms differ.
    """
    what = f"{case.name}, {peer.code}"
    for side in ("q", "v"):
        # the peers' own coordinates are converted forth and back: a few rounding errors
        check_equal(f"{what}, start", getattr(peer, side)[0], getattr(ours, side)[0], 1e-12)
    # displacements would tell of the start alone: forces show in what becomes of velocities
    gained = [run.v[COMPARED] - run.v[0] for run in (ours, peer)]
    check_equal(f"{what}, first {COMPARED} steps", gained[1], gained[0], peer.close)


def run_ours(case: LoopCase, repeats: int = 10) -> LoopRun:
    """Run by `tb.simulate` with its default method, all states recorded.

    Args:
        case: The mechanism.
        repeats: How often to run; times are those of whole runs, set-up included.
    """
    from time import perf_counter

    # friction and stops of joints would take energy out
    settings = {
        "world": case.world,
        "q": case.q,
        "v": case.v,
        "method": tb.RK4(dt=STEP),
        "record": tb.Record(every=1),
    }
    settings |= {"execution": tb.Execution(progress=False)}
    model = case.model.without_passive().without_limits()
    tb.simulate(model, COMPARED * STEP, **settings)
    samples = []
    for _ in range(repeats):
        start = perf_counter()
        ran = tb.simulate(model, case.steps * STEP, **settings)
        samples.append((perf_counter() - start) / case.steps)
    return LoopRun("ours", ran.q, ran.v, Timing.of(samples), close=0.0)
