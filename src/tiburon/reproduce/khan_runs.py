"""Runs of Khan 2002, chapter 4: each once per process, for tables and figures."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.formats.load import load
from tiburon.functions.closed_loops import loop_jacobian
from tiburon.functions.dynamics import forward_dynamics
from tiburon.loops.stabilization import LoopMethod, Penalty
from tiburon.reproduce.khan_complements import (
    Embedded,
    EmbeddedRun,
    boolean_rows,
    consistent,
    frozen,
    mixed,
    rk4_run,
    smooth_orthonormal,
    yun_sarkar,
)
from tiburon.reproduce.khan_mechanism import (
    ACTUATED,
    DURATION,
    Motion,
    actuated_names,
    driven_angles,
    from_absolute,
    home,
    mechanism,
    motion,
    penalty_acceleration,
    printed_start,
    series_at,
    terms,
    to_absolute,
    torque_control,
)
from tiburon.reproduce.matlab_steps import MatlabRun, matlab_run
from tiburon.results.trajectory import Trajectory
from tiburon.simulation.integrators.method import Tableau
from tiburon.simulation.simulate import simulate

STIFFNESSES = (1e3, 1e4, 1e5, 1e6)
"""k of section 4.1 [N/m]."""

SIGMAS = (10.0, 20.0, 30.0, 40.0)
"""Convergence factors of section 4.2 [1/s]."""

EXPLICIT = ("euler", "semi_implicit_euler", "rk4", "dopri5", "dop853")
"""Explicit one-step methods of this package, with equal steps."""

GAINS = (100.0, 20.0)
"""Feedback of ours, for that of the source is lost: stiffness [N m/rad], damping [N m s/rad]."""


@cache
def prescribed(count: int = 3001) -> Motion:
    """Return the prescribed motion at equal times, ends included."""
    return motion(np.linspace(0.0, DURATION, count))


def simulated(
    loop_method: LoopMethod | None = None,
    *,
    dt: float = 1e-3,
    method: str = "rk4",
    gains: tuple[float, float] = (0.0, 0.0),
    v: Array | None = None,
    zoo: bool = False,
    q: Array | None = None,
    duration: float | None = None,
    **options: Any,
) -> Trajectory:
    """Run the manipulator for three seconds under the torques of the prescribed motion.

    Args:
        loop_method: How loops are held; projection by default.
        dt: Step [s].
        method: Integrator.
        gains: Feedback at the actuated joints.
        v: Velocity at the start, in the model's coordinates.
        zoo: Whether to run the zoo's `planar_3rrr` instead of `mechanism`.
        q: Configuration at the start; closed by default.
        duration: How long, if not three seconds [s].
        **options: Of `simulate`.
    """
    model = load("planar_3rrr") if zoo else mechanism()
    start = np.array(model.poses["home"]) if zoo else from_absolute(home())
    steps = "adaptive" not in options and method in ("dopri5", "dop853")
    if steps:
        options["adaptive"] = False
    return simulate(
        model,
        DURATION if duration is None else duration,
        q=start if q is None else q,
        v=v,
        control=torque_control(gains, model),
        loop_method=loop_method,
        method=method,
        dt=dt,
        progress=False,
        **options,
    )


@cache
def penalty_run(
    stiffness: float, dt: float, method: str = "rk4", gains: tuple[float, float] = (0.0, 0.0)
) -> Trajectory:
    """Run the penalty formulation with equal steps, d = 2 sqrt(k)."""
    return simulated(Penalty(stiffness), dt=dt, method=method, gains=gains)


def joint_errors(time: Array, q: Array) -> Array:
    """Return errors of the actuated angles, shape (n, 3) [rad], of q in the model's coordinates."""
    return to_absolute(q)[:, list(ACTUATED)] - driven_angles(time)[0]


@cache
def adaptive_penalty(stiffness: float, tolerance: float) -> MatlabRun:
    """Run the penalty formulation with the error test of the source, in its coordinates."""

    def rate(time: float, x: Array) -> Array:
        q, v = from_absolute(x[:9]), from_absolute(x[9:])
        vd = penalty_acceleration(q, v, series_at(time), stiffness)
        return np.concatenate([x[9:], to_absolute(vd)])

    start = np.concatenate([home(), np.zeros(9)])
    return matlab_run(rate, start, DURATION, rtol=tolerance, atol=tolerance)


def embedding(kind: str, sigma: float) -> Embedded:
    """Return the embedded equations with a complement of the source."""
    rules: dict[str, Callable[[], Any]] = {
        "gauss": lambda: consistent(boolean_rows()),
        "frozen": lambda: consistent(frozen(terms(home(), np.zeros(9)))),
        "mixed": lambda: mixed(boolean_rows()),
        "yun_sarkar": lambda: yun_sarkar,
        "smooth": lambda: smooth_orthonormal,
    }
    return Embedded(rules[kind](), sigma)


@cache
def embedded_run(
    kind: str, sigma: float, h: float, *, rounded: bool = False, feedback: bool = False
) -> EmbeddedRun:
    """Run a complement of the source by RK4: "gauss", "frozen", "mixed", "smooth".

    Args:
        kind: Which complement.
        sigma: Decay of residuals [1/s].
        h: Step [s].
        rounded: Whether to start in the printed pose.
        feedback: Whether to follow the motion with `GAINS`.
    """
    system = embedding(kind, sigma)
    if feedback:
        system = system._replace(gains=GAINS, target=lambda t: driven_angles(t)[:2])
    start = np.concatenate([printed_start() if rounded else home(), np.zeros(3)])
    return rk4_run(system, start, h, round(DURATION / h))


@cache
def adaptive_embedding(sigma: float, tolerance: float) -> MatlabRun:
    """Run the consistent complement, actuated angles independent, with the source's error test."""
    start = np.concatenate([home(), np.zeros(3)])
    rate = embedding("gauss", sigma).rate
    return matlab_run(rate, start, DURATION, rtol=tolerance, atol=tolerance)


def driven_errors(run: Trajectory) -> Array:
    """Return errors of the actuated angles of a run of either model, shape (n, 3) [rad]."""
    places = [run.model.v_names.index(name) for name in actuated_names(run.model)]
    return np.asarray(run.q)[:, places] - driven_angles(np.asarray(run.time))[0]


@cache
def adaptive_denoc(tolerance: float, longest: float | None = None) -> MatlabRun:
    """Run DeNOC with extended state, all angles and the actuated rates, and the error test."""
    robot = load("planar_3rrr")
    driven = [robot.v_names.index(name) for name in actuated_names(robot)]
    rest = [k for k in range(robot.nv) if k not in driven]

    def rate(time: float, x: Array) -> Array:
        q, w = x[:7], x[7:]
        J = np.asarray(loop_jacobian(robot, q))
        v = np.zeros(7)
        v[driven] = w
        v[rest] = -np.linalg.lstsq(J[:, rest], J[:, driven] @ w, rcond=1e-10)[0]
        tau = np.zeros(7)
        tau[driven] = series_at(time)
        vd = forward_dynamics(robot, q, v, tau, method="denoc")
        return np.concatenate([v, vd[driven]])

    start = np.concatenate([robot.poses["home"], np.zeros(3)])
    return matlab_run(rate, start, DURATION, rtol=tolerance, atol=tolerance, longest=longest)


@cache
def adaptive_yun_sarkar() -> MatlabRun:
    """Run the complement of Yun and Sarkar as printed, sigma = 10, RelTol 1e-3."""
    start = np.concatenate([home(), np.zeros(3)])
    rate = embedding("yun_sarkar", 10.0).rate
    return matlab_run(rate, start, DURATION, rtol=1e-3, atol=1e-3, most=400_000)


class Feedback(NamedTuple):
    """A run that feedback keeps on the prescribed motion."""

    error: float
    """Largest error of an actuated angle [rad]."""

    correction: Array
    """Largest correction of each torque over the torque of the motion then, shape (3,)."""

    history: Array
    """The same ratio over time, shape (n, 3)."""

    time: Array


def feedback_of(time: Array, angles: Array, rates: Array) -> Feedback:
    """Return errors and corrections of a run with `GAINS` from its actuated angles and rates."""
    wanted, speed, _ = driven_angles(time)
    error = wanted - angles
    correction = GAINS[0] * error + GAINS[1] * (speed - rates)
    ratio = np.abs(correction) / np.abs(series_at(time))
    return Feedback(float(np.abs(error).max()), ratio.max(axis=0), ratio, time)


@cache
def growth(perturbation: float = 1e-6) -> tuple[Array, Array]:
    """Return times and differences of angles that a small initial rate makes, shape (n,).

    Loops are projected at every step; the first actuated angle gets the rate.
    """
    at = terms(home(), np.zeros(9))
    v = consistent(boolean_rows())(at).S @ np.array([perturbation, 0.0, 0.0])
    runs = [simulated(v=from_absolute(x)) for x in (np.zeros(9), v)]
    apart = to_absolute(runs[1].q) - to_absolute(runs[0].q)
    return np.asarray(runs[0].time), np.abs(apart[:, :7]).max(axis=1)


def eigenvalues_across() -> Array:
    """Return eigenvalues of A H^-1 A^T at the start: accelerations per unit of force [1/kg]."""
    at = terms(home(), np.zeros(9))
    return np.linalg.eigvalsh(at.A @ np.linalg.solve(at.H, at.A.T))


def stiff_rate(stiffness: float) -> float:
    """Return the fastest decay of the penalty formulation at the start [1/s]."""
    a, d = float(eigenvalues_across().max()), 2.0 * math.sqrt(stiffness)
    roots = np.roots([1.0, d * a, stiffness * a])
    return float(np.abs(roots).max())


def stability_limit(tableau: Tableau) -> float:
    """Return the largest h |s| of a decay exp(-|s| t) for which an explicit method decays too."""
    n = len(tableau.b)
    stages = np.zeros((n, n))
    for k, row in enumerate(tableau.a, start=1):
        stages[k, : len(row)] = row
    for z in np.arange(0.01, 40.0, 0.01):
        solved = np.linalg.solve(np.eye(n) + z * stages, np.ones(n))
        if abs(1.0 - z * float(np.array(tableau.b) @ solved)) > 1.0:
            return float(z - 0.01)
    return math.inf
