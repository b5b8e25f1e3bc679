"""`tiburon demo`: robots at work, with facts, figures and a replay of each.

The first one is an underwater vehicle that keeps station in a current while its arm moves. Two
built-in controllers run side by side at 100 Hz, as on-board computers do. They are part of the
native loop; the vehicle moves in a current with hydrodynamic forces on each of its links. The
others touch something: `tiburon.demos` has them.
"""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

import tiburon as tb

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from tiburon.checks.energy_flow import EnergyFlow
    from tiburon.model import Model, Water
    from tiburon.results.trajectory import Trajectory


EXAMPLES = """
tiburon demo
tiburon demo --list
tiburon demo quadruped --output trot
tiburon demo station --duration 10 --current 0.5 --output figures
"""

MILLIMETERS = 1e3
"""Millimeters per meter."""


STATION = "station"
"""Name of the demo that runs by default."""

DURATION, STEP, CURRENT = 20.0, 1e-3, 0.3
"""Simulated time [s], step of the integrator [s] and current [m/s] of that demo."""


def run(
    name: Annotated[str, typer.Argument(help="Name of the demo; --list shows all.")] = STATION,
    listing: Annotated[bool, typer.Option("--list", help="List the demos and end.")] = False,
    output: Annotated[Path, typer.Option(help="Directory for figures and the page.")] = Path(
        "tiburon-demo"
    ),
    duration: Annotated[
        float | None, typer.Option(min=0.1, help="Simulated time [s]; by the demo by default.")
    ] = None,
    step: Annotated[
        float | None,
        typer.Option(min=1e-4, max=0.01, help="Integrator step of station [s]; 1e-3 by default."),
    ] = None,
    current: Annotated[
        float | None,
        typer.Option(min=-1.0, max=1.0, help="Current of station [m/s]; 0.3 by default."),
    ] = None,
) -> None:
    """Simulate a robot at work; print what it shows; write figures and a replay page.

    By default an underwater vehicle keeps station in a current while its arm moves. The others are
    about contact and load sharing: robots walk over a hill, on the sea floor and on sand, a hand
    lifts a glass, a vehicle loses a thruster in a current.
    """
    from tiburon.demos.demo import DEMOS
    from tiburon.errors import OptionError, UnknownNameError

    if listing:
        print(f"{STATION:<12} an underwater vehicle keeps station in a current, its arm moves")
        for known, (_, _, about) in DEMOS.items():
            print(f"{known:<12} {about}")
        return
    if name == STATION:
        _keep_station(
            output,
            DURATION if duration is None else duration,
            STEP if step is None else step,
            CURRENT if current is None else current,
        )
        return
    if name not in DEMOS:
        raise UnknownNameError("demo", name, (STATION, *DEMOS), listing="`tiburon demo --list`")
    for option, value in (("--step", step), ("--current", current)):
        if value is not None:
            raise OptionError(f"demo {name}: {option}", ("no value: it is of station",), value)
    _show(name, duration, output)


def _show(name: str, duration: float | None, output: Path) -> None:
    """Run a demo of `tiburon.demos`, print its facts and write its files."""
    from tiburon.cli.console import EXIT_CODES
    from tiburon.cli.simulate import make_folder
    from tiburon.demos.demo import DEMOS, find
    from tiburon.viewer.plots import save_figure

    print(f"{name}: {DEMOS[name][2]}", flush=True)
    start = perf_counter()
    found = find(name)(duration)
    outcome = found.run.outcome
    print(f"{outcome}: {perf_counter() - start:.1f} s with compilation")
    for fact in found.facts:
        print(f"- {fact}")
    make_folder(output)
    for file, figure in found.figures.items():
        save_figure(figure, output / file)
        print(f"wrote {output / file}")
    page = found.run.save_html(output / "replay.html", title=found.title, **found.replay)
    print(f"wrote {page}: open it in a browser to replay the run")
    if not outcome.ok:
        raise typer.Exit(EXIT_CODES[outcome.status])


def _keep_station(output: Path, duration: float, step: float, current: float) -> None:
    """Simulate the vehicle; write three figures and a replay page."""
    import numpy as np
    from rich.console import Console
    from rich.progress import Progress

    from tiburon.checks.energy_flow import energy_flow
    from tiburon.cli.console import EXIT_CODES
    from tiburon.cli.simulate import make_folder
    from tiburon.viewer.plots import save_figure, styled

    vehicle = tb.load(VEHICLE)
    stream = (current, 0.25 * current, 0.0)
    water = tb.Water(density=1025.0, current=stream)
    print(f"{vehicle.name}: {vehicle.about}")
    print(f"{duration:g} s in a current of {np.linalg.norm(stream):.2f} m/s")
    start = perf_counter()
    # a run of one interval compiles, or loads cached code
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
        raise typer.Exit(EXIT_CODES[done.outcome.status])
    path = arm_path(vehicle)
    wanted = np.asarray(path.at(done.time).position)
    stray = MILLIMETERS * np.abs(done.q[:, 4:7]).max()
    lag = np.degrees(np.abs(done.q[:, 7:] - wanted).max())
    print(f"largest error: vehicle position {stray:.1f} mm, arm joints {lag:.2f} degrees")
    flow = energy_flow(done)
    print(
        f"energy balance: {flow.driven[-1]:.0f} J of work, {flow.stored[-1]:.0f} J stored, "
        f"{flow.lost[-1]:.0f} J dissipated by drag; relative residual {flow.residual:.1e}"
    )
    make_folder(output)
    figures = {
        "station.png": styled(draw_station)(done),
        "arm.png": styled(draw_arm)(done, wanted),
        "energy.png": styled(draw_energy)(done, flow),
    }
    for name, figure in figures.items():
        save_figure(figure, output / name)
        print(f"wrote {output / name}")
    page = done.save_html(output / "replay.html", title="Station keeping in a current")
    print(f"wrote {page}: open it in a browser to replay the run")


def draw_station(done: "Trajectory") -> "Figure":
    """Plot the position error of the vehicle and the thrust of its thrusters."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 6.5), layout="constrained")
    upper, lower = figure.subplots(2, sharex=True)
    for k, axis in enumerate("xyz"):
        upper.plot(done.time, MILLIMETERS * done.q[:, 4 + k], label=axis, linewidth=1.4)
    upper.set_title("Station keeping in a current while the arm moves")
    _format_axes(upper, "position error [mm]")
    upper.set_xlabel("")
    names = done.data["internal_state"].state.values.tolist()
    for thruster in done.model.thrusters:
        thrust = done.x[:, names.index(f"{thruster.name}.thrust")]
        lower.plot(done.time, thrust, label=thruster.name.replace("_", " "), linewidth=1.2)
    _format_axes(lower, "thrust [N]")
    for axes in (upper, lower):
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def draw_arm(done: "Trajectory", wanted: Any) -> "Figure":
    """Plot the joint angles of the arm over their references, and the motor torques."""
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
    upper.set_title("Joint angles and reference path (wide gray lines)")
    _format_axes(upper, "joint angle [rad]")
    upper.set_xlabel("")
    _format_axes(lower, "motor torque [N m]")
    for axes in (upper, lower):
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def draw_energy(done: "Trajectory", flow: "EnergyFlow") -> "Figure":
    """Plot the energy balance of thrusters and motors."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.0), layout="constrained")
    axes: Any = figure.subplots()
    axes.stackplot(
        done.time,
        flow.lost,
        flow.stored,
        labels=["dissipated by drag", "stored in robot and water"],
        colors=["#9ecae1", "#3182bd"],
    )
    axes.plot(done.time, flow.driven, color="black", linewidth=1.2, label="work of the actuators")
    axes.set_title("Energy balance in the frame of the water")
    _format_axes(axes, "work [J]")
    axes.legend(loc="upper left")
    return figure


def _format_axes(axes: Any, label: str) -> None:
    """Set label, grid and frame of axes over time."""
    axes.set(xlabel="time [s]", ylabel=label)
    axes.margins(x=0.0)


VEHICLE = "tiburon_titan"

CONTROL_INTERVAL = 0.01
"""Sampling period of the controllers [s]."""

ARM_DISPLACEMENT = {
    "azimuth": 0.7,
    "shoulder": -0.5,
    "elbow": 1.3,
    "wrist_pitch": -0.6,
    "wrist_roll": 1.0,
}
"""Displacement of the arm's joints [rad]."""

ARM_START, ARM_DURATION = 2.0, 6.0
"""Start and duration of the arm's motion [s]."""

STATION_FREQUENCY = 0.8
"""Closed-loop frequency of station keeping [rad/s]; thrusters lag by 0.2 s."""

ALLOCATION_WEIGHTS = (1.0, 1e-3, 1.0, 1.0, 1.0, 1.0)
"""Weights of torques, then forces: surge thrusters are the only source of pitch torque and must not
give up position for it; buoyancy rights the vehicle."""

ARM_FREQUENCY = 12.0
"""Closed-loop frequency of the arm's joints [rad/s]."""


def arm_path(vehicle: "Model") -> "tb.JointPath":
    """Return the reference path of the arm: quintic, from rest to rest."""
    joints = [joint.name for joint in vehicle.joints if joint.nv == 1]
    start = [float(vehicle.neutral()[vehicle.slice(name, of="q").start]) for name in joints]
    goal = [
        angle + ARM_DISPLACEMENT.get(name, 0.0) for name, angle in zip(joints, start, strict=True)
    ]
    times = (ARM_START, ARM_START + ARM_DURATION)
    return tb.JointPath.through(times, [start, goal], kind="quintic", joints=joints)


def simulate(
    vehicle: "Model",
    water: "Water",
    duration: float,
    step: float,
    progress: "Callable[[float, float], None] | None" = None,
) -> "Trajectory":
    """Simulate station keeping in a current while the arm moves; every step is recorded.

    Args:
        vehicle: A free body with thrusters, and an arm.
        water: Water with its current.
        duration: Simulated time [s].
        step: Step of the integrator [s].
        progress: Called with simulated time and duration.
    """
    shares = tb.ThrusterAllocation.of(vehicle, importance=ALLOCATION_WEIGHTS)
    keeper = tb.StationKeeping.of(
        vehicle, frequency=STATION_FREQUENCY, fluid=water, allocation=shares
    )
    path = arm_path(vehicle)
    arm = tb.ComputedTorque.critical(path, ARM_FREQUENCY, joints=path.joints)
    # whole steps per control interval, whole intervals per run
    inner = max(1, round(CONTROL_INTERVAL / step))
    intervals = max(1, round(duration / CONTROL_INTERVAL))
    return tb.simulate(
        vehicle,
        intervals * CONTROL_INTERVAL,
        fluid=water,
        control=tb.CombinedControl((keeper, arm)),
        control_dt=CONTROL_INTERVAL,
        dt=CONTROL_INTERVAL / inner,
        record_every=1,
        progress=False if progress is None else progress,
    )
