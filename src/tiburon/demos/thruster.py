"""An underwater vehicle loses a thruster in a current: the others take over, and it holds."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

import tiburon as tb
from tiburon.actuation.piecewise import entries
from tiburon.arrays import Array
from tiburon.demos.demo import Demonstration, attitude
from tiburon.model import Model
from tiburon.record import record
from tiburon.simulation.state import State
from tiburon.trace.declared import traced
from tiburon.viewer.plots import PALETTE, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tiburon.results.trajectory import Trajectory

CURRENT = (0.45, 0.28, 0.0)
"""Of the water, world axes [m/s]."""

FAILURE, DETECTED = 8.0, 9.0
"""When the thruster fails, and when the controller learns of it [s]."""

FAILED_THRUSTER = "front_left"
"""The thruster."""

FREQUENCY = 2.5
"""Of the closed loop [rad/s]: below 1.6 the current turns the vehicle over, since added mass across
it is larger than along it, and righting moments are compensated."""

STEP = 5e-3
"""Of the integrator [s]."""

DURATION = 20.0
"""Simulated time [s]."""

AXES = ("roll", "pitch", "yaw", "surge", "sway", "heave")
"""Components of a wrench."""


@traced
@record
class FailingThruster:
    """Station keeping with a thruster that fails, and a new allocation once this is known."""

    whole: tb.StationKeeping
    """Before."""

    left: tb.StationKeeping
    """After: with the thrusters that are left."""

    lost: str
    """Name of the thruster."""

    fails: float
    """When it fails [s]."""

    detected: float
    """When the allocation changes [s]."""

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return the integrals, which both share."""
        return self.whole.state_names(model)

    def initial_state(self, model: Model) -> tuple[float, ...]:
        """Return zeros."""
        return self.whole.initial_state(model)

    def __call__(self, state: State) -> tuple[Any, Any]:
        """Return commands, that of the lost thruster zero, and the rates of the integrals."""
        known = state.time >= self.detected
        before, rates_before = self.whole(state)
        after, rates_after = self.left(state)
        commands = {name: np.where(known, after[name], before[name]) for name in before}
        commands[self.lost] = np.where(state.time >= self.fails, 0.0, commands[self.lost])
        rates = [
            np.where(known, b, a)
            for a, b in zip(entries(rates_before), entries(rates_after), strict=True)
        ]
        return commands, np.stack(rates, axis=-1) if np.ndim(rates[0]) else rates

    def structure(self) -> Hashable:
        """Return all of it: nothing is a run-time parameter."""
        parts = (self.whole, self.left)
        forms = tuple((part.structure(), part.parameters()) for part in parts)
        return (*forms, self.lost, self.fails, self.detected)


def thruster(duration: float | None = None) -> Demonstration:
    """Let a vehicle keep station in a current while a thruster fails.

    Args:
        duration: Simulated time [s]; 20 by default.
    """
    length = DURATION if duration is None else duration
    rov = tb.load("bluerov2_heavy")
    sea = tb.Water(1025.0, current=CURRENT)
    allocation = tb.ThrusterAllocation.of(rov)
    keepers = [
        tb.StationKeeping.of(rov, frequency=FREQUENCY, fluid=sea, allocation=shares)
        for shares in (allocation, allocation.without(FAILED_THRUSTER))
    ]
    control = FailingThruster(keepers[0], keepers[1], FAILED_THRUSTER, FAILURE, DETECTED)
    run = tb.simulate(
        rov,
        length,
        fluid=sea,
        control=control,
        method=tb.RK4(dt=STEP),
        execution=tb.Execution(progress=False),
    )
    before, after = allocation.authority(), allocation.without(FAILED_THRUSTER).authority()
    way = np.linalg.norm(run.q[:, 4:7] - run.q[0, 4:7], axis=-1)
    heading = np.degrees(np.abs(attitude(run.q)[2]))
    late = run.time >= FAILURE
    end = run.time >= length - 2.0
    low, high = np.array(allocation.limits).T
    spent = _thrusts(run)[end]
    used = float(np.maximum(spent / high, spent / low).max(initial=0.0))
    facts = [
        f"a current of {np.linalg.norm(CURRENT):.2f} m/s; {FAILED_THRUSTER} fails at "
        f"{FAILURE:g} s, the allocation changes at {DETECTED:g} s",
        f"it drifts by {1e3 * way[late].max(initial=0.0):.0f} mm and turns by "
        f"{heading[late].max(initial=0.0):.1f} degrees, then holds within "
        f"{1e3 * way[end].max(initial=0.0):.1f} mm and {heading[end].max(initial=0.0):.2f} degrees",
        f"the others now push with up to {100.0 * used:.0f} % of their largest thrust",
        *_lost_sentences(before, after),
    ]
    title = "A vehicle loses a thruster in a current"
    captions = [
        (0.0, f"eight thrusters hold it in a current of {np.linalg.norm(CURRENT):.2f} m/s"),
        (FAILURE, f"{FAILED_THRUSTER} has failed, undetected"),
        (DETECTED, f"without {FAILED_THRUSTER}: " + "; ".join(_lost_sentences(before, after))),
    ]
    figures = {"thruster.png": _figure(run, before, after, title)}
    return Demonstration(run, tuple(facts), figures, title, {"captions": captions})


def _thrusts(run: "Trajectory") -> Array:
    """Return the thrust of each thruster [N], shape (n, thrusters)."""
    names = [part.name for part in run.model.thrusters]
    return np.stack([np.asarray(run.get(f"{name}.thrust").values) for name in names], axis=-1)


def _lost_sentences(before: Array, after: Array) -> list[str]:
    """Return what the vehicle can no longer do, axis by axis."""
    found = []
    for k, axis in enumerate(AXES):
        old, new = np.abs(before[k]).max(), np.abs(after[k]).max()
        unit = "N m" if k < 3 else "N"
        if new == 0.0 < old:
            found.append(f"no {axis} alone any more (before {old:.0f} {unit})")
        elif new < 0.995 * old:
            found.append(f"{axis} at most {new:.0f} {unit} (before {old:.0f})")
    return found


@styled
def _figure(run: "Trajectory", before: Array, after: Array, title: str) -> "Figure":
    """Plot the way, the thrusts, and what the vehicle can do before and after."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 6.5), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(3, 2))
    place, pushes = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[1, 0])
    for k, axis in enumerate("xyz"):
        place.plot(run.time, 1e3 * (run.q[:, 4 + k] - run.q[0, 4 + k]), label=axis, linewidth=1.4)
    for k, (part, row) in enumerate(zip(run.model.thrusters, _thrusts(run).T, strict=True)):
        lost = part.name == FAILED_THRUSTER
        pushes.plot(
            run.time,
            row,
            label=part.name.replace("_", " "),
            linewidth=2.2 if lost else 1.1,
            color="#e5373d" if lost else PALETTE[k % len(PALETTE)],
        )
    place.set(ylabel="way from its station [mm]")
    place.set_title(title)
    pushes.set(ylabel="thrust [N]", xlabel="time [s]")
    for axes in (place, pushes):
        axes.axvspan(FAILURE, DETECTED, color="#e5373d", alpha=0.12, linewidth=0)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7)
        axes.margins(x=0.0)
    bars = figure.add_subplot(grid[:, 1])
    y = np.arange(len(AXES))
    for values, offset, color, label in (
        (before, 0.2, "#9db4c8", "eight thrusters"),
        (after, -0.2, "#e5373d", f"without {FAILED_THRUSTER.replace('_', ' ')}"),
    ):
        part = values / np.abs(before).max(axis=1, keepdims=True)
        bars.barh(y + offset, part[:, 1], 0.38, color=color, label=label)
        bars.barh(y + offset, part[:, 0], 0.38, color=color)
    for k in range(len(AXES)):
        unit = "N m" if k < 3 else "N"
        bars.text(1.03, k, f"{np.abs(after[k]).max():.0f} of {np.abs(before[k]).max():.0f} {unit}",
                  va="center", fontsize=8)  # fmt: skip
    bars.set_yticks(y, AXES)
    bars.set(xlim=(-1.05, 1.45), xlabel="largest wrench along one axis, relative to before")
    bars.set_title("What it can do")
    bars.legend(loc="upper center", bbox_to_anchor=(0.5, -0.09), fontsize=8, ncols=2)
    bars.axvline(0.0, color="black", linewidth=0.8)
    return figure
