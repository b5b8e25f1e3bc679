"""Figures of McMillan 1994, part I: operation counts over arms and joints; the lift."""

from typing import TYPE_CHECKING

import numpy as np

from tiburon.arrays import Array
from tiburon.formats.load import load
from tiburon.loops import dual_arm
from tiburon.reproduce import arms_on_load
from tiburon.reproduce.cell_page import WIDTH, PageFigure, panels
from tiburon.reproduce.chebyshev import series_value
from tiburon.reproduce.mcmillan_lift import BLOCKS, DURATION, lift_motion, lift_run, lift_torques
from tiburon.reproduce.published import arms_on_load as published_arms
from tiburon.reproduce.published import lilly_orin_arms_on_load
from tiburon.spatial import Transform, Translation
from tiburon.viewer.plots import styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@styled
def figures() -> tuple[PageFigure, ...]:
    """Return all figures."""
    return (
        PageFigure(
            "Operations of four arms on a load",
            "Multiplications and additions over the joints of an arm: Table 2, Lilly and "
            "Orin's O(mN) method, and ours by the same rules.",
            _counts(),
        ),
        PageFigure(
            "Singular arms (chapter 4)",
            "Above: a stretched elbow does not feel a force along the arm (one singular arm); "
            "two arms push each other along one line; three directions of which no two agree "
            "sum to zero. Internal forces of the last two are not unique, the acceleration of "
            "the load is. Below: error of that acceleration of two PUMA 560 whose second elbow "
            "approaches its stretched pose, by inverting Lambda (chapter 2) and by method II.",
            singular_figure(),
        ),
        PageFigure(
            "The lift (section 3.5)",
            "Height of the load, and torques of the first arm, least norm. Arms, grips and way "
            "are ours.",
            _lift(),
        ),
        PageFigure(
            "Error of the lift over the step (Fig. 14)",
            "Final position error of the load by blocks of one, two and four points. The "
            "source's curves of time over error are lost.",
            _errors(),
        ),
    )


def _counts() -> "Figure":
    figure, (axes,) = panels(1, 3.4)
    joints = list(range(6, 28))
    for published, name in (
        (published_arms(4), "Table 2"),
        (lilly_orin_arms_on_load(4), "Lilly and Orin, O(mN)"),
    ):
        axes.plot(joints, [published.at(n).total for n in joints], label=name)
    counted = [n for n in joints if n <= 24]
    ours = [arms_on_load.closed_chain(4, n).total for n in counted]
    axes.plot(counted, ours, "o", markersize=4, label="ours")
    axes.set(xlabel="joints of an arm N", ylabel="operations")
    axes.legend(frameon=False)
    return figure


STRETCHED = (0.3, -0.8, 0.4, 0.9, -0.2)
"""Other joints of the arm that is stretched [rad]."""


def _elbow(third: float) -> list[float]:
    return [*STRETCHED[:2], third, *STRETCHED[2:]]


def stretched_elbow() -> float:
    """Return the third joint of a PUMA 560 at which its elbow is stretched [rad]."""
    plan = load("puma560").plan
    # from elbow to wrist, in axes of the forearm; the upper arm is along x of the joint's axes
    x, y, _ = (float(value) for value in plan.bodies[3].placement.translation)
    return float(-np.arctan2(y, x))


def singular_errors(distances: Array) -> tuple[Array, Array]:
    """Return relative errors of the load's acceleration by chapter 2 and by method II.

    Two PUMA 560 hold a load; the second elbow is off its stretched pose by given angles [rad]. The
    reference is the whole system (4.3), which no singular arm makes ill-conditioned.
    """
    plan, gravity = load("puma560").plan, (0.0, 0.0, -9.81)
    v, tau = [0.5] * 6, [5.0, -20.0, 10.0, 1.0, -1.0, 0.5]
    moments = np.array([0.2, 0.3, 0.25, 4.0, 4.0, 4.0])
    c = [0.1, -0.2, 0.3, 1.0, 2.0, -3.0]
    tip = Transform((Translation((0.1, 0.0, 0.2)),))
    bent = arms_on_load.open_arm(plan, _elbow(2.4), v, tau, gravity, tip)
    middle = stretched_elbow()
    found = []
    for off in distances:
        arm = arms_on_load.open_arm(plan, _elbow(middle + off), v, tau, gravity, tip)
        inverses, x = [bent.inverse, arm.inverse], [bent.x, arm.x]
        K = np.zeros((18, 18))
        for k, A in enumerate(inverses):
            own = slice(6 * k, 6 * k + 6)
            K[own, own] = A
            K[own, 12:] = K[12:, own] = np.eye(6)
        K[12:, 12:] = -np.diag(moments)
        exact = np.linalg.solve(K, np.concatenate([*x, c]))[12:]
        first, _ = dual_arm.method_one(inverses, x, moments.tolist(), c)
        second, _ = dual_arm.method_two(inverses, x, (1.0 / moments).tolist(), c)
        size = np.abs(exact).max()
        found.append([np.abs(np.array(a) - exact).max() / size for a in (first, second)])
    errors = np.array(found)
    return errors[:, 0], errors[:, 1]


def singular_figure() -> "Figure":
    """Draw what singular arms are, and what they do to the accuracy of the load's acceleration."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 6.2), layout="constrained")
    grid = figure.add_gridspec(2, 3, height_ratios=(1.0, 1.15))
    for k, draw in enumerate((_one_stretched, _two_opposed, _three_summing)):
        axes = figure.add_subplot(grid[0, k])
        draw(axes)
        axes.set(aspect="equal")
        axes.axis("off")
    axes = figure.add_subplot(grid[1, :])
    distances = np.logspace(-9.0, 0.0, 46)
    first, second = singular_errors(distances)
    floor = 1e-17
    axes.loglog(distances, np.maximum(first, floor), "o-", markersize=3, label="inverse of Lambda")
    axes.loglog(distances, np.maximum(second, floor), "o-", markersize=3, label="method II")
    axes.set(xlabel="elbow off its stretched pose [rad]", ylabel="relative error of a_r")
    axes.legend(frameon=False)
    return figure


def _arm_lines(axes: "Axes", *points: tuple[float, float]) -> None:
    x, y = zip(*points, strict=True)
    axes.plot(x, y, "o-", color="#1f6f8b", linewidth=3.0, markersize=6)
    axes.plot(x[:1], y[:1], "^", color="black", markersize=11)


def _load_square(axes: "Axes", x: float, y: float, half: float = 0.12) -> None:
    xs = [x - half, x + half, x + half, x - half]
    axes.fill(xs, [y - half, y - half, y + half, y + half], color="#f2c14e", zorder=3)


def _arrow(axes: "Axes", start: tuple[float, float], end: tuple[float, float]) -> None:
    style = {"arrowstyle": "-|>", "color": "#b3363f", "linewidth": 2.0}
    axes.annotate("", xy=end, xytext=start, arrowprops=style, zorder=4)


def _one_stretched(axes: "Axes") -> None:
    _load_square(axes, 0.0, 0.0)
    _arm_lines(axes, (-1.3, 0.0), (-0.75, 0.55), (-0.12, 0.0))
    _arm_lines(axes, (1.5, 0.0), (0.8, 0.0), (0.12, 0.0))
    _arrow(axes, (0.15, 0.14), (0.75, 0.14))
    axes.set_title("one singular arm: unique", fontsize=10)
    axes.set(xlim=(-1.6, 1.7), ylim=(-0.9, 0.9))


def _two_opposed(axes: "Axes") -> None:
    _load_square(axes, 0.0, 0.0)
    _arm_lines(axes, (-1.5, 0.0), (-0.8, 0.0), (-0.12, 0.0))
    _arm_lines(axes, (1.5, 0.0), (0.8, 0.0), (0.12, 0.0))
    _arrow(axes, (0.15, 0.14), (0.75, 0.14))
    _arrow(axes, (-0.15, 0.14), (-0.75, 0.14))
    axes.set_title("v, -v: forces not unique", fontsize=10)
    axes.set(xlim=(-1.7, 1.7), ylim=(-0.9, 0.9))


def _three_summing(axes: "Axes") -> None:
    _load_square(axes, 0.0, 0.0, 0.1)
    for angle in (np.pi / 2.0, np.pi * 7.0 / 6.0, np.pi * 11.0 / 6.0):
        x, y = float(np.cos(angle)), float(np.sin(angle))
        _arm_lines(axes, (1.2 * x, 1.2 * y), (0.65 * x, 0.65 * y), (0.1 * x, 0.1 * y))
        side = (-0.14 * y, 0.14 * x)
        start = (0.15 * x + side[0], 0.15 * y + side[1])
        _arrow(axes, start, (0.6 * x + side[0], 0.6 * y + side[1]))
    axes.set_title("v_1 + v_2 + v_3 = 0: not unique", fontsize=10)
    axes.set(xlim=(-1.4, 1.4), ylim=(-0.9, 1.4))


def _lift() -> "Figure":
    figure, (upper, lower) = panels(2)
    time = np.linspace(0.0, DURATION, 41)
    upper.plot(time, lift_motion(time).q[:, 6])
    torque = np.array([series_value(lift_torques(), DURATION, t) for t in time])
    for k in range(6):
        lower.plot(time, torque[:, 6 + k], label=f"joint {k + 1}")
    upper.set(ylabel="height of the load [m]")
    lower.set(ylabel="torque [N m]", xlabel="time [s]")
    lower.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _errors() -> "Figure":
    figure, (axes,) = panels(1, 3.2)
    steps = (0.04, 0.02, 0.01)
    for name in BLOCKS.values():
        axes.loglog(steps, [lift_run(name, dt).error for dt in steps], "o-", label=name)
    axes.axhline(1e-6, color="black", linewidth=0.8, linestyle=":")
    axes.set(xlabel="step [s]", ylabel="final error [m]")
    axes.legend(frameon=False)
    return figure
