"""An underwater vehicle keeps station in a current while its arm moves.

Two built-in controllers run side by side at 100 Hz, as on-board computers do. They are part of the
native loop; the vehicle moves in a current with hydrodynamic forces on each of its links.
"""

from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

import tiburon as tb
from tiburon.checks.energy_flow import EnergyFlow, energy_flow
from tiburon.demos.demo import Demonstration, panels
from tiburon.model import Model
from tiburon.viewer.plots import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tiburon.results.trajectory import Trajectory

DURATION, STEP, CURRENT = 20.0, 1e-3, 0.3
"""Simulated time [s], step of the integrator [s] and current [m/s]."""

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


def station(
    duration: float | None = None, step: float = STEP, current: float = CURRENT
) -> Demonstration:
    """Let the vehicle keep station, for 20 s, in a current along x and a quarter of it along y."""
    vehicle = tb.load("tiburon_titan")
    stream = (current, 0.25 * current, 0.0)
    water = tb.Water(density=1025.0, current=stream)
    path = _arm_path(vehicle)
    # a run of one interval compiles, or loads cached code
    _simulate(vehicle, water, path, 0.0, step, progress=False)
    start = perf_counter()
    run = _simulate(vehicle, water, path, DURATION if duration is None else duration, step)
    elapsed = perf_counter() - start
    wanted = np.asarray(path.at(run.time).position)
    stray = 1e3 * np.abs(run.q[:, 4:7]).max()
    lag = np.degrees(np.abs(run.q[:, 7:] - wanted).max())
    flow = energy_flow(run)
    facts = (
        f"{run.outcome.time:g} s in a current of {np.linalg.norm(stream):.2f} m/s, simulated in "
        f"{elapsed:.2f} s ({run.outcome.time / elapsed:.0f}x real time, with controllers at "
        "100 Hz, every step recorded)",
        f"largest error: vehicle position {stray:.1f} mm, arm joints {lag:.2f} degrees",
        f"energy balance: {flow.driven[-1]:.0f} J of work, {flow.stored[-1]:.0f} J stored, "
        f"{flow.lost[-1]:.0f} J dissipated by drag; relative residual {flow.residual:.1e}",
    )
    figures = {
        "station.png": _station_figure(run),
        "arm.png": _arm_figure(run, wanted),
        "energy.png": _energy_figure(run, flow),
    }
    return Demonstration(run, facts, figures, "Station keeping in a current")


def _arm_path(vehicle: Model) -> tb.JointPath:
    """Return the reference path of the arm: quintic, from rest to rest."""
    joints = [joint.name for joint in vehicle.joints if joint.nv == 1]
    start = [float(vehicle.neutral()[vehicle.slice(name, of="q").start]) for name in joints]
    goal = [
        angle + ARM_DISPLACEMENT.get(name, 0.0) for name, angle in zip(joints, start, strict=True)
    ]
    times = (ARM_START, ARM_START + ARM_DURATION)
    return tb.JointPath.through(times, [start, goal], kind="quintic", joints=joints)


def _simulate(
    vehicle: Model,
    water: tb.Water,
    path: tb.JointPath,
    duration: float,
    step: float,
    progress: bool | None = None,
) -> "Trajectory":
    """Simulate whole control intervals, at least one; every step is recorded."""
    shares = tb.ThrusterAllocation.of(vehicle, importance=ALLOCATION_WEIGHTS)
    keeper = tb.StationKeeping.of(
        vehicle, frequency=STATION_FREQUENCY, fluid=water, allocation=shares
    )
    arm = tb.ComputedTorque.critical(path, ARM_FREQUENCY, joints=path.joints)
    return tb.simulate(
        vehicle,
        max(1, round(duration / CONTROL_INTERVAL)) * CONTROL_INTERVAL,
        fluid=water,
        control=tb.Sampled(tb.CombinedControl((keeper, arm)), dt=CONTROL_INTERVAL),
        execution=tb.Execution(progress=progress),
        # whole steps per control interval
        method=tb.RK4(dt=CONTROL_INTERVAL / max(1, round(CONTROL_INTERVAL / step))),
        record=tb.Record(every=1),
    )


@styled
def _station_figure(run: "Trajectory") -> "Figure":
    """Plot the position error of the vehicle and the thrust of its thrusters."""
    title = "Station keeping in a current while the arm moves"
    with panels(title, "position error [mm]", "thrust [N]") as (figure, upper, lower):
        for k, axis in enumerate("xyz"):
            upper.plot(run.time, 1e3 * run.q[:, 4 + k], label=axis, linewidth=1.4)
        names = run.data["internal_state"].state.values.tolist()
        for thruster in run.model.thrusters:
            thrust = run.x[:, names.index(f"{thruster.name}.thrust")]
            lower.plot(run.time, thrust, label=thruster.name.replace("_", " "), linewidth=1.2)
    return figure


@styled
def _arm_figure(run: "Trajectory", wanted: Any) -> "Figure":
    """Plot the joint angles of the arm over their references, and the motor torques."""
    from matplotlib import colormaps

    title = "Joint angles and reference path (wide gray lines)"
    with panels(title, "joint angle [rad]", "motor torque [N m]") as (figure, upper, lower):
        names = [name for name in run.model.v_names[6:] if name != "jaw"]
        for k, name in enumerate(names):
            color = colormaps["viridis"](k / len(names))
            label = name.replace("_", " ")
            upper.plot(run.time, wanted[:, k], color="0.8", linewidth=4.0)
            upper.plot(run.time, run.q[:, 7 + k], color=color, label=label)
            lower.plot(run.time, run.u[:, 6 + k], color=color, label=label)
    return figure


@styled
def _energy_figure(run: "Trajectory", flow: EnergyFlow) -> "Figure":
    """Plot the energy balance of thrusters and motors."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.0), layout="constrained")
    axes: Any = figure.subplots()
    axes.stackplot(
        run.time,
        flow.lost,
        flow.stored,
        labels=["dissipated by drag", "stored in robot and water"],
        colors=["#9ecae1", "#3182bd"],
    )
    axes.plot(run.time, flow.driven, color="black", linewidth=1.2, label="work of the actuators")
    axes.set_title("Energy balance in the frame of the water")
    axes.set(xlabel="time [s]", ylabel="work [J]")
    axes.margins(x=0.0)
    axes.legend(loc="upper left")
    return figure
