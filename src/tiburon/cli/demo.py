"""`tiburon demo`: an underwater vehicle holds its place in a current while its arm reaches."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tiburon.checks.energy_flow import EnergyFlow
    from tiburon.results.trajectory import Trajectory

EXAMPLES = """
tiburon demo
tiburon demo --duration 10 --current 0.5 --output figures
"""

MILLIMETERS = 1e3
"""In a meter."""


def run(
    output: Annotated[Path, typer.Option(help="Directory for figures and the page.")] = Path(
        "tiburon-demo"
    ),
    duration: Annotated[float, typer.Option(min=0.1, help="Simulated time [s].")] = 20.0,
    step: Annotated[float, typer.Option(min=1e-4, max=0.01, help="Integrator step [s].")] = 1e-3,
    current: Annotated[float, typer.Option(min=-1.0, max=1.0, help="Current [m/s].")] = 0.3,
) -> None:
    """Simulate an underwater vehicle that holds its place in a current while its arm reaches.

    Writes three figures and a page that replays the run in any browser.
    """
    import numpy as np
    from rich.console import Console
    from rich.progress import Progress

    import tiburon as tb
    from tiburon.checks.energy_flow import energy_flow
    from tiburon.cli.exit_codes import OF_STATUS
    from tiburon.cli.simulate import make_folder
    from tiburon.cli.station_keeping import VEHICLE, arm_path, simulate
    from tiburon.viewer.plots import save_figure

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
        done = simulate(
            vehicle, water, duration, step, lambda time, _: bar.update(task, completed=time)
        )
    elapsed = perf_counter() - ready
    simulated = done.outcome.time
    print(
        f"{done.outcome}: simulated in {elapsed:.2f} s ({simulated / elapsed:.0f}x real time, with "
        f"controllers at 100 Hz, every step recorded), after {ready - start:.2f} s of compilation"
    )
    if not done.outcome.ok:
        raise typer.Exit(OF_STATUS[done.outcome.status])
    path = arm_path(vehicle)
    wanted = np.asarray(path.at(done.time).position)
    stray = MILLIMETERS * np.abs(done.q[:, 4:7]).max()
    lag = np.degrees(np.abs(done.q[:, 7:] - wanted).max())
    print(f"largest error: {stray:.1f} mm of the vehicle's place, {lag:.2f} degrees of its arm")
    flow = energy_flow(done)
    print(
        f"energy balance: {flow.driven[-1]:.0f} J of work, {flow.stored[-1]:.0f} J stored, "
        f"{flow.lost[-1]:.0f} J taken by drag; accounted for to {flow.gap:.1e}"
    )
    make_folder(output)
    figures = {
        "station.png": draw_station(done),
        "arm.png": draw_arm(done, wanted),
        "energy.png": draw_energy(done, flow),
    }
    for name, figure in figures.items():
        save_figure(figure, output / name)
        print(f"wrote {output / name}")
    page = done.save_html(output / "replay.html", title="Station keeping in a current")
    print(f"wrote {page}: open it in a browser to see the run")


def draw_station(done: "Trajectory") -> "Figure":
    """Draw how far the vehicle strays, and what its thrusters do about it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 6.5), layout="constrained")
    upper, lower = figure.subplots(2, sharex=True)
    for k, axis in enumerate("xyz"):
        upper.plot(done.time, MILLIMETERS * done.q[:, 4 + k], label=axis, linewidth=1.4)
    upper.set_title("The vehicle holds its place in a current while its arm reaches", loc="left")
    _dress(upper, "error of position [mm]")
    upper.set_xlabel("")
    names = done.data["internal_state"].state.values.tolist()
    for thruster in done.model.thrusters:
        thrust = done.x[:, names.index(f"{thruster.name}.thrust")]
        lower.plot(done.time, thrust, label=thruster.name.replace("_", " "), linewidth=1.2)
    _dress(lower, "thrust [N]")
    for axes in (upper, lower):
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure


def draw_arm(done: "Trajectory", wanted: Any) -> "Figure":
    """Draw the angles of the arm, those it was asked for behind them, and its motors' moments."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 6.5), layout="constrained")
    upper, lower = figure.subplots(2, sharex=True)
    names = [name for name in done.model.v_names[6:] if name != "jaw"]
    for k, name in enumerate(names):
        color = colormaps["viridis"](k / len(names))
        label = name.replace("_", " ")
        upper.plot(done.time, wanted[:, k], color="0.8", linewidth=4.0)
        upper.plot(done.time, done.q[:, 7 + k], color=color, label=label)
        lower.plot(done.time, done.u[:, 6 + k], color=color, label=label)
    upper.set_title("The arm follows its path (wide gray lines)", loc="left")
    _dress(upper, "joint angle [rad]")
    upper.set_xlabel("")
    _dress(lower, "moment of the motor [N m]")
    for axes in (upper, lower):
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure


def draw_energy(done: "Trajectory", flow: "EnergyFlow") -> "Figure":
    """Draw where the work of thrusters and motors goes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.0), layout="constrained")
    axes: Any = figure.subplots()
    axes.stackplot(
        done.time,
        flow.lost,
        flow.stored,
        labels=["taken by drag", "stored in robot and water"],
        colors=["#9ecae1", "#3182bd"],
    )
    axes.plot(done.time, flow.driven, color="black", linewidth=1.2, label="done by the actuators")
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
