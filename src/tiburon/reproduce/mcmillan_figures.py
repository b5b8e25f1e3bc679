"""Figures of McMillan 1994, part I: operation counts over arms and joints; the lift."""

from typing import TYPE_CHECKING

import numpy as np

from tiburon.reproduce import arms_on_load
from tiburon.reproduce.cell_page import PageFigure, panels
from tiburon.reproduce.chebyshev import series_value
from tiburon.reproduce.mcmillan_lift import BLOCKS, DURATION, lift_motion, lift_run, lift_torques
from tiburon.reproduce.published import arms_on_load as published_arms
from tiburon.reproduce.published import lilly_orin_arms_on_load
from tiburon.viewer.plots import STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["figures"]


def figures() -> tuple[PageFigure, ...]:
    """Return all figures."""
    from matplotlib import rc_context

    with rc_context(STYLE):
        return (
            PageFigure(
                "Operations of four arms on a load",
                "Multiplications and additions over the joints of an arm: Table 2, Lilly and "
                "Orin's O(mN) method, and ours by the same rules.",
                _counts(),
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
