"""`tiburon demo`: an underwater vehicle holds its place in a current while its arm reaches."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tiburon.cli.station_keeping import EnergyBalance, Run
    from tiburon.model import Model

EXAMPLES = """
tiburon demo
tiburon demo --duration 10 --current 0.5 --output figures
"""

VEHICLE = "tiburon_titan"
MILLIMETERS = 1e3
"""In a meter."""


def draw_station(vehicle: "Model", run: "Run") -> "Figure":
    """Draw how far the vehicle strays, and what its thrusters do about it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 6.5), layout="constrained")
    upper, lower = figure.subplots(2, sharex=True)
    for k, axis in enumerate("xyz"):
        upper.plot(run.time, MILLIMETERS * run.q[:, 4 + k], label=axis, linewidth=1.4)
    upper.set_title("The vehicle holds its place in a current while its arm reaches", loc="left")
    _dress(upper, "error of position [mm]")
    upper.set_xlabel("")
    for k, thruster in enumerate(vehicle.thrusters):
        name = thruster.name.replace("_", " ")
        lower.plot(run.time, run.thrust[:, k], label=name, linewidth=1.2)
    _dress(lower, "thrust [N]")
    for axes in (upper, lower):
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure


def draw_arm(vehicle: "Model", run: "Run") -> "Figure":
    """Draw the angles of the arm, those it was asked for behind them, and its motors' moments."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 6.5), layout="constrained")
    upper, lower = figure.subplots(2, sharex=True)
    names = [name for name in vehicle.v_names[6:] if name != "jaw"]
    for k, name in enumerate(names):
        color = colormaps["viridis"](k / len(names))
        upper.plot(run.time, run.wanted[:, k], color="0.8", linewidth=4.0)
        upper.plot(run.time, run.q[:, 7 + k], color=color, label=name.replace("_", " "))
        lower.plot(run.time, run.tau[:, 6 + k], color=color, label=name.replace("_", " "))
    upper.set_title("The arm follows its path (wide gray lines)", loc="left")
    _dress(upper, "joint angle [rad]")
    upper.set_xlabel("")
    _dress(lower, "moment of the motor [N m]")
    for axes in (upper, lower):
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure


def draw_energy(run: "Run", balance: "EnergyBalance") -> "Figure":
    """Draw where the work of thrusters and motors goes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.0), layout="constrained")
    axes: Any = figure.subplots()
    axes.stackplot(
        run.time,
        balance.lost,
        balance.energy,
        labels=["taken by drag", "stored in robot and water"],
        colors=["#9ecae1", "#3182bd"],
    )
    axes.plot(run.time, balance.work, color="black", linewidth=1.2, label="done by the actuators")
    axes.set_title("Where the work goes, seen from the moving water", loc="left")
    _dress(axes, "work [J]")
    axes.legend(loc="upper left", frameon=False)
    return figure


def _dress(axes: Any, label: str) -> None:
    """Give axes over time their label, grid and frame."""
    axes.set(xlabel="time [s]", ylabel=label)
    axes.margins(x=0.0)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def run(
    output: Annotated[Path, typer.Option(help="Directory for the figures.")] = Path("tiburon-demo"),
    duration: Annotated[float, typer.Option(min=0.1, help="Simulated time [s].")] = 20.0,
    step: Annotated[float, typer.Option(min=1e-4, max=0.01, help="Integrator step [s].")] = 1e-3,
    current: Annotated[float, typer.Option(min=-1.0, max=1.0, help="Current [m/s].")] = 0.3,
) -> None:
    """Simulate an underwater vehicle that holds its place in a current while its arm reaches."""
    import numpy as np
    from rich.console import Console
    from rich.progress import Progress

    import tiburon as tb
    from tiburon.cli.station_keeping import energy_balance, simulate

    vehicle = tb.load(VEHICLE)
    stream = (current, 0.25 * current, 0.0)
    water = tb.Water(density=1025.0, current=stream)
    print(f"{vehicle.name}: {vehicle.about}")
    print(f"{duration:g} s in a current of {np.linalg.norm(stream):.2f} m/s")
    start = perf_counter()
    # one interval compiles, or finds what an earlier run compiled
    simulate(vehicle, water, 0.0, step)
    ready = perf_counter()
    console = Console()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("simulating", total=duration)
        recorded = simulate(
            vehicle, water, duration, step, lambda time: bar.update(task, completed=time)
        )
    elapsed = perf_counter() - ready
    print(
        f"simulated in {elapsed:.2f} s ({duration / elapsed:.0f}x real time, with a controller in "
        f"Python at 100 Hz), after {ready - start:.2f} s of compilation"
    )
    stray = MILLIMETERS * np.abs(recorded.q[:, 4:7]).max()
    lag = np.degrees(np.abs(recorded.q[:, 7:] - recorded.wanted).max())
    print(f"largest error: {stray:.1f} mm of the vehicle's place, {lag:.2f} degrees of its arm")
    balance = energy_balance(vehicle, water, recorded)
    gap = np.abs(balance.work - balance.energy - balance.lost).max() / np.abs(balance.work).max()
    print(f"energy balance: {balance.work[-1]:.0f} J of work, accounted for to {gap:.1e}")

    output.mkdir(parents=True, exist_ok=True)
    figures = {
        "station.png": draw_station(vehicle, recorded),
        "arm.png": draw_arm(vehicle, recorded),
        "energy.png": draw_energy(recorded, balance),
    }
    for name, figure in figures.items():
        figure.savefig(output / name, dpi=150)
        print(f"wrote {output / name}")
