"""Figures of Khan 2002, redrawn: those of the source are lost."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tiburon.arrays import Array
from tiburon.loops.stabilization import DeNOC, Embedding, Penalty
from tiburon.reproduce.cell_page import WIDTH, PageFigure, panels
from tiburon.reproduce.khan import (
    GAINS,
    SIGMAS,
    STIFFNESSES,
    adaptive_denoc,
    adaptive_embedding,
    adaptive_penalty,
    driven_errors,
    embedded_run,
    feedback_of,
    growth,
    joint_errors,
    penalty_run,
    prescribed,
    simulated,
)
from tiburon.reproduce.khan_complements import projector_basis
from tiburon.reproduce.khan_mechanism import (
    ACTUATED,
    DISTAL,
    OFFSETS,
    PIVOTS,
    PROXIMAL,
    RADIUS,
    actuated_names,
    driven_angles,
    series_at,
    terms,
)
from tiburon.viewer.plots import styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@styled
def figures() -> tuple[PageFigure, ...]:
    """Return all figures in the order of the source."""
    return (
        PageFigure(
            "Motion of the manipulator (Fig. 4.1)",
            "The prescribed motion every 0.5 s, from light to dark. Closed from the printed "
            "pose with a base side of 1.0 m.",
            _postures(),
        ),
        PageFigure(
            "Desired trajectory and driving torques (Fig. 4.2)",
            "Inverse dynamics of the prescribed motion; g = 9.81 m/s^2.",
            _driving(),
        ),
        PageFigure(
            "Penalty formulation, evaluations (Figs. 4.3e and 4.4e)",
            "Evaluations of the equations of motion for 3 s with the error test of the source. "
            "Tenfold stiffness costs about three times the evaluations.",
            _evaluations(),
        ),
        PageFigure(
            "Penalty formulation, equal steps (Figs. 4.5 and 4.6)",
            "Errors of the first actuated angle. Curves that end early have diverged. The size "
            "of the errors does not characterize the method: the motion is unstable.",
            _penalty_errors(),
        ),
        PageFigure(
            "Basis of Yun and Sarkar (Fig. 4.8)",
            "First entry of the first column of S along the prescribed motion: the singular "
            "value decomposition of a projector has three equal singular values, and rounding "
            "decides the basis. Below, an entry of the consistent basis.",
            _bases(),
        ),
        PageFigure(
            "Complement by Gaussian elimination (Figs. 4.9 and 4.10)",
            "RK4 with steps of 0.01 s: errors from the closed pose, and from the printed pose, "
            "where A_d becomes singular and the run breaks as in the source.",
            _complement_errors(),
        ),
        PageFigure(
            "DeNOC, adaptive and equal steps (Figs. 4.12 and 4.13)",
            "Error of the first actuated angle: RK4 with minimal and extended state, and steps "
            "chosen by the error test of the source, without a cap. The motion amplifies what "
            "steps leave.",
            _denoc_errors(),
        ),
        PageFigure(
            "Growth of a small error",
            "Largest difference of an angle after an initial rate of 1e-6 rad/s.",
            _growth(),
        ),
        PageFigure(
            "Corrections under feedback (Figs. 4.7, 4.11 and 4.14)",
            "Torque corrections over the torque of the motion with gains of ours, "
            f"{GAINS[0]:g} N m/rad and {GAINS[1]:g} N m s/rad; those of the source are lost.",
            _corrections(),
        ),
    )


def _named(axes: "Axes", title: str = "") -> None:
    axes.legend(title=title or None, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _postures() -> "Figure":
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 6.0), layout="constrained")
    axes = figure.subplots()
    path = prescribed()
    shades = colormaps["viridis_r"](np.linspace(0.1, 1.0, 7))
    for place, shade in zip(range(0, 3001, 500), shades, strict=True):
        _draw(axes, path.q[place], shade, f"{path.time[place]:.1f} s")
    axes.set(aspect="equal", xlabel="x [m]", ylabel="y [m]")
    axes.plot(*np.array(PIVOTS).T, "^", color="black", markersize=9)
    _named(axes)
    return figure


def _draw(axes: "Axes", q: Array, shade: Any, label: str) -> None:
    corners = []
    for leg, (pivot, offset) in enumerate(zip(PIVOTS, OFFSETS, strict=True)):
        points = [np.array(pivot)]
        for length, angle in ((PROXIMAL, q[2 * leg]), (DISTAL, q[2 * leg + 1])):
            points.append(points[-1] + length * np.array([np.cos(angle), np.sin(angle)]))
        axes.plot(*np.array(points).T, "o-", color=shade, linewidth=1.6, markersize=3)
        angle = q[6] + offset
        corners.append(q[7:] + RADIUS * np.array([np.cos(angle), np.sin(angle)]))
    outline = np.array([*corners, corners[0]])
    axes.fill(*outline.T, color=shade, alpha=0.15)
    axes.plot(*outline.T, color=shade, linewidth=1.8, label=label)


def _driving() -> "Figure":
    figure, (upper, lower) = panels(2)
    time = np.linspace(0.0, 3.0, 301)
    angles, torque = driven_angles(time)[0], series_at(time)
    for k in range(3):
        style = "--" if k == 1 else "-"
        upper.plot(time, angles[:, k] - angles[0, k], style, label=f"theta_{k + 1}")
        lower.plot(time, torque[:, k], label=f"tau_{k + 1}")
    upper.set(ylabel="turned by [rad]")
    lower.set(ylabel="torque [N m]", xlabel="time [s]")
    _named(upper)
    _named(lower)
    return figure


def _evaluations() -> "Figure":
    figure, (axes,) = panels(1, 3.0)
    for tolerance in (1e-3, 1e-6):
        counts = [adaptive_penalty(k, tolerance).evaluations for k in STIFFNESSES]
        axes.loglog(STIFFNESSES, counts, "o-", label=f"RelTol {tolerance:.0e}")
    calm = [adaptive_embedding(sigma, 1e-6).evaluations for sigma in SIGMAS]
    axes.axhspan(min(calm), max(calm), alpha=0.15, label="complement, RelTol 1e-6")
    axes.set(xlabel="stiffness k [N/m]", ylabel="evaluations")
    _named(axes)
    return figure


def _until_wild(time: Array, error: Array, most: float = 10.0) -> tuple[Array, Array]:
    """Return a curve up to where it leaves the plot."""
    good = np.isfinite(error) & (np.abs(error) < most)
    end = len(good) if good.all() else int(np.argmin(good))
    return time[:end], error[:end]


def _penalty_errors() -> "Figure":
    figure, places = panels(2)
    for axes, dt in zip(places, (0.01, 0.001), strict=True):
        for k in STIFFNESSES:
            run = penalty_run(k, dt)
            time, error = np.asarray(run.time), joint_errors(np.asarray(run.time), run.q)[:, 0]
            ended = " (diverged)" if run.outcome.status == "diverged" else ""
            axes.plot(*_until_wild(time, error), label=f"k = {k:.0e}{ended}")
        axes.set(ylabel="error of theta_1 [rad]", title=f"steps of {dt} s")
        _named(axes)
    places[-1].set(xlabel="time [s]")
    return figure


def _bases() -> "Figure":
    figure, (upper, lower) = panels(2, 2.0)
    path = prescribed()
    picked = range(0, 3001, 10)
    jacobians = [terms(path.q[k], np.zeros(9)).A for k in picked]
    time = path.time[list(picked)]
    upper.plot(time, [projector_basis(A)[0, 0] for A in jacobians], ".", markersize=3)
    dependent = [k for k in range(9) if k not in ACTUATED]
    smooth = [-np.linalg.solve(A[:, dependent], A[:, 0])[0] for A in jacobians]
    lower.plot(time, smooth)
    upper.set(ylabel="S[1, 1], projector", ylim=(-1.05, 1.05))
    lower.set(ylabel="T[2, 1], consistent", xlabel="time [s]")
    return figure


def _complement_errors() -> "Figure":
    figure, places = panels(2)
    for axes, rounded in zip(places, (False, True), strict=True):
        for sigma in SIGMAS:
            run = embedded_run("gauss", sigma, 0.01, rounded=rounded)
            error = run.x[:, 0] - driven_angles(run.time)[0][:, 0]
            axes.plot(*_until_wild(run.time, error), label=f"sigma = {sigma:g} /s")
        start = "printed pose" if rounded else "closed pose"
        axes.set(ylabel="error of theta_1 [rad]", title=f"from the {start}")
        _named(axes)
    places[-1].set(xlabel="time [s]")
    return figure


def _growth() -> "Figure":
    figure, (axes,) = panels(1, 3.0)
    time, apart = growth()
    axes.semilogy(time[1:], apart[1:])
    axes.set(xlabel="time [s]", ylabel="difference [rad]")
    return figure


def _denoc_errors() -> "Figure":
    figure, (upper, lower) = panels(2)
    for state in ("minimal", "extended"):
        for dt in (0.01, 0.001):
            run = simulated(DeNOC(state), dt=dt, zoo=True)
            error = np.abs(driven_errors(run)[:, 0])
            upper.semilogy(run.time[1:], error[1:], label=f"{state}, {1000 * dt:g} ms")
    for tolerance in (1e-3, 1e-6):
        adaptive = adaptive_denoc(tolerance)
        wanted = driven_angles(adaptive.time)[0][:, 0]
        error = np.abs(adaptive.x[:, 0] - wanted)
        name = f"RelTol {tolerance:.0e}: {adaptive.steps} steps"
        lower.semilogy(adaptive.time[1:], error[1:], "o-", markersize=3, label=name)
    upper.set(ylabel="error of theta_1 [rad]")
    lower.set(ylabel="error of theta_1 [rad]", xlabel="time [s]")
    _named(upper)
    _named(lower)
    return figure


def _corrections() -> "Figure":
    runs: tuple[tuple[str, Any], ...] = (
        ("penalty, k = 1e5 (Fig. 4.7)", simulated(Penalty(1e5, implicit=False), gains=GAINS)),
        ("Embedding, sigma = 10 /s (Fig. 4.11)", simulated(Embedding("gauss", 10.0), gains=GAINS)),
        ("DeNOC (Fig. 4.14)", simulated(DeNOC("minimal"), gains=GAINS, zoo=True)),
    )
    figure, places = panels(3)
    for axes, (title, run) in zip(places, runs, strict=True):
        own = [run.model.v_names.index(name) for name in actuated_names(run.model)]
        found = feedback_of(np.asarray(run.time), run.q[:, own], run.v[:, own])
        for k in range(3):
            axes.semilogy(found.time[1:], 100.0 * found.history[1:, k], label=f"tau_{k + 1}")
        axes.set(ylabel="correction [%]", title=title)
        _named(axes)
    places[-1].set(xlabel="time [s]")
    return figure
