"""Demonstrations: a run, what it shows in words, its figures; all of them by name."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.spatial.rotations import quaternion_to_roll_pitch_yaw
from tiburon.viewer.plots import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tiburon.results.trajectory import Trajectory


class Demonstration(NamedTuple):
    """The result of a demonstration."""

    run: "Trajectory"
    """The run."""

    facts: tuple[str, ...]
    """What it shows, one sentence each."""

    figures: "dict[str, Figure]"
    """Figures by file name."""

    title: str
    """Heading of the replay."""

    replay: Mapping[str, Any] = {}
    """Further options of the replay, such as captions."""


def forces_by_group(run: "Trajectory", groups: Sequence[str]) -> Array:
    """Return the size of the contact force of each group [N], shape (n, groups).

    Args:
        run: A run of one robot.
        groups: Beginnings of the names of contact points: "leg_1_pad" for all points of the pad.
    """
    force = run.get("contact_force")
    names = force.contact.values.tolist()
    found = [
        np.linalg.norm(
            force.values[:, [k for k, name in enumerate(names) if name.startswith(group)]].sum(
                axis=1
            ),
            axis=-1,
        )
        for group in groups
    ]
    return np.stack(found, axis=-1)


def contact_facts(run: "Trajectory", groups: Sequence[str]) -> tuple[str, ...]:
    """Return sentences about peak force, slip and depth."""
    summary = run.contact_summary()
    forces = forces_by_group(run, groups)
    row, group = divmod(int(np.argmax(forces)), len(groups))
    slips = int(np.argmax(summary.slip))
    touching = summary.touching > 0.0
    sticking = summary.sticking[touching].sum() / summary.touching[touching].sum()
    return (
        f"peak force {forces.max():.4g} N at {groups[group]}, {run.time[row]:.2f} s",
        f"longest slip of a contact point {1e3 * summary.slip[slips]:.3g} mm "
        f"({summary.names[slips]}); points that touch stick {100.0 * sticking:.0f} % of the time",
        f"deepest penetration {1e6 * summary.depth.max():.2g} um",
    )


@contextmanager
def panels(
    title: str, upper: str, lower: str, heights: tuple[int, int] = (1, 1)
) -> Iterator[tuple["Figure", Any, Any]]:
    """Yield a figure and two axes over time; at the end give them labels, title and legends."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 5.5), layout="constrained")
    places: Any = figure.subplots(2, sharex=True, height_ratios=heights)
    yield figure, places[0], places[1]
    places[0].set_title(title)
    places[1].set(xlabel="time [s]")
    for axes, label in zip(places, (upper, lower), strict=True):
        axes.set(ylabel=label)
        axes.margins(x=0.0)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


@styled
def contact_figure(run: "Trajectory", groups: Sequence[str], title: str) -> "Figure":
    """Plot the size of contact forces, and when each group touches."""
    forces = forces_by_group(run, groups)
    mode = run.get("contact_mode")
    names = mode.contact.values.tolist()
    with panels(title, "contact force [N]", "", heights=(3, 2)) as (figure, upper, lower):
        for k, group in enumerate(groups):
            upper.plot(run.time, forces[:, k], linewidth=1.2, label=group.replace("_", " "))
            own = mode.values[:, [i for i, name in enumerate(names) if name.startswith(group)]]
            for value, color in ((2.0, "#18a558"), (1.0, "#e5373d")):
                shown = (own.max(axis=1) > 0.0) & ((own == 1.0).any(axis=1) == (value == 1.0))
                lower.fill_between(
                    run.time, k - 0.4, k + 0.4, where=shown, color=color, linewidth=0, step="post"
                )
        # impacts of single steps would hide all else
        usual = forces[forces > 0.0]
        if len(usual):
            upper.set_ylim(0.0, 1.3 * float(np.percentile(usual, 99.0)))
        lower.set(ylim=(len(groups) - 0.5, -0.5))
        lower.set_yticks(range(len(groups)), [group.replace("_", " ") for group in groups])
        lower.set_title("sticking (green), slipping (red)", loc="left", fontsize=10)
    return figure


@styled
def walk_figure(run: "Trajectory", title: str) -> "Figure":
    """Plot the way and the attitude of the first body of a walker."""
    with panels(title, "way of the body [m]", "attitude [deg]") as (figure, upper, lower):
        for k, axis in enumerate("xyz"):
            upper.plot(run.time, run.q[:, 4 + k] - run.q[0, 4 + k], label=axis, linewidth=1.4)
        for name, angle in zip(("roll", "pitch", "yaw"), attitude(run.q), strict=True):
            lower.plot(run.time, np.degrees(angle), label=name, linewidth=1.2)
    return figure


def attitude(q: Array) -> tuple[Array, Array, Array]:
    """Return roll, pitch and yaw of a floating first body [rad], shape (n,) each."""
    roll, pitch, yaw = quaternion_to_roll_pitch_yaw(q[:, :4]).T
    return roll, pitch, yaw


DEMOS: dict[str, tuple[str, str, str]] = {
    "station": (
        "station",
        "station",
        "an underwater vehicle keeps station in a current, its arm moves",
    ),
    "quadruped": ("walk", "quadruped", "a robot dog trots over a hill"),
    "hexapod": ("walk", "hexapod", "osu_hexapod walks over a hill, three legs at a time"),
    "aquarobot": ("walk", "aquarobot", "aquarobot walks on the sea floor in a current"),
    "hand": ("glass", "hand", "three_finger_hand lifts and releases a glass"),
    "thruster": ("thruster", "thruster", "a vehicle loses a thruster in a current and holds"),
    "landing": ("landing", "landing", "a dog trots by load sharing, with and without smoothing"),
    "pour": ("pour", "pick_and_pour", "a hand picks up a glass and pours, with 20 % less friction"),
    "bar": ("bar", "bar", "two arms turn a bar by the least loss, or with the least squeeze"),
    "four_bar": (
        "four_bar",
        "four_bar",
        "a linkage shakes its frame with one motor, not with three",
    ),
    "strandbeest": ("walk", "strandbeest", "Jansen's beach animal walks on sand"),
}
"""By name: module, function, description."""


def find(name: str) -> Callable[..., Demonstration]:
    """Return the function of a demonstration, which takes the simulated time [s] or None."""
    module, function, _ = DEMOS[name]
    found: Callable[..., Demonstration]
    found = getattr(import_module(f"tiburon.demos.{module}"), function)
    return found
