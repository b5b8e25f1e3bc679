"""A dog trots: what its feet carry when they land, with and without smoothing."""

from typing import TYPE_CHECKING, Any

import numpy as np

import tiburon as tb
from tiburon.demos.demo import Demonstration, attitude, contact_facts, contact_figure
from tiburon.viewer.plots import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tiburon.results.trajectory import Trajectory

DURATION = 3.0
"""Simulated time [s]."""

GROUND_FRICTION, PLANNED_FRICTION = 0.8, 0.6
SPEED = 0.3
"""Of the dog [m/s]."""

FIGURE_TIMES = (1.98, 2.32)
"""Times of the figure: one landing and one lift of each pair of feet [s]."""


def landing(duration: float | None = None) -> Demonstration:
    """Let the dog trot by load sharing, with and without smoothing.

    Args:
        duration: Simulated time [s]; 3 by default.
    """
    length = DURATION if duration is None else duration
    dog = tb.load("quadruped")
    feet = [point.name for point in dog.contacts]
    sudden, carried = _trot(dog, length, {"smoothing": None, "transfers": False})
    smooth, shared = _trot(dog, length, {})
    steps = [float(np.abs(np.diff(force, axis=0)).max()) for force in (carried, shared)]
    jerks = [float(np.abs(np.diff(run.u[:, 6:18], axis=0)).max()) for run in (sudden, smooth)]
    measured = smooth.get("contact_force").values[1:, :, 2]
    error = float(np.abs(measured - shared[:-1, :, 2]).max())
    roll, pitch, _ = (np.degrees(np.abs(angle).max()) for angle in attitude(smooth.q))
    title = "A dog trots by load sharing"
    facts = (
        f"without smoothing a foot takes {steps[0]:.0f} N in one sample of 1 ms, with it "
        f"{steps[1]:.1f} N",
        f"joint torques change by {jerks[0]:.1f} N m and {jerks[1]:.2f} N m a sample",
        f"measured forces differ from shared ones by {error:.2f} N at most",
        f"trots {smooth.q[-1, 4] - smooth.q[0, 4]:.2f} m in {length:.4g} s, leans by "
        f"{max(roll, pitch):.1f} degrees at most",
        *contact_facts(smooth, feet),
    )
    figures = {
        "landing.png": _figure((sudden, smooth), (carried, shared), feet),
        "contacts.png": contact_figure(smooth, feet, title),
    }
    return Demonstration(smooth, facts, figures, title)


def _trot(dog: Any, length: float, options: dict[str, Any]) -> "tuple[Trajectory, Any]":
    """Return a run, and shared forces along two tangents and the normal [N], (n, feet, 3)."""
    floor = tb.World(ground=tb.Ground(static_friction=GROUND_FRICTION, kinetic_friction=0.7))
    plan = tb.LoadSharing.of(dog, world=floor, friction=PLANNED_FRICTION)
    control = tb.LoadSharingControl(plan, tb.GaitPath.trot(dog, speed=SPEED), **options)
    run = tb.simulate(
        dog,
        length,
        q=dog.poses["stand"],
        world=floor,
        control=control,
        record=tb.Record(every=1),
        execution=tb.Execution(progress=False),
    )
    forces = control.read(run).forces
    return run, forces.reshape(len(forces), -1, 3)


@styled
def _figure(
    runs: "tuple[Trajectory, Trajectory]", forces: tuple[Any, Any], feet: list[str]
) -> "Figure":
    """Plot normal forces and knee torques around a landing, without and with smoothing."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 6.0), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True, sharey="row")
    last = float(runs[0].time[-1])
    begin, end = FIGURE_TIMES if last >= FIGURE_TIMES[1] else (0.0, last)
    headings = ("all load in one sample", "smoothed (default)")
    for column, (run, shared, heading) in enumerate(zip(runs, forces, headings, strict=True)):
        shown = (run.time >= begin) & (run.time <= end)
        upper, lower = panels[:, column]
        for k, foot in enumerate(feet):
            label = foot.replace("_", " ").removesuffix(" foot")
            upper.plot(run.time[shown], shared[shown, k, 2], linewidth=1.3, label=label)
            joint = f"{foot.removesuffix('_foot')}_knee"
            torque = run.u[:, run.model.slice(joint, of="v").start]
            lower.plot(run.time[shown], torque[shown], linewidth=1.3)
        upper.set_title(heading)
        lower.set(xlabel="time [s]")
    panels[0, 0].set(ylabel="normal force [N]")
    panels[1, 0].set(ylabel="knee torque [N m]")
    panels[0, 1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    for axes in panels.ravel():
        axes.margins(x=0.0)
    return figure
