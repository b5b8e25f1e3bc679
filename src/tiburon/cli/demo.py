"""`tiburon demo`: a seven-joint arm swings freely; its energy shows how well we compute."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from tiburon.model import Model

    Array = NDArray[np.float64]

JOINT_COUNT = 7
LINK_LENGTH = 0.25  # m
LINK_RADIUS = 0.03  # m
LINK_MASS = 1.5  # kg
# between two recorded points [s]; also how often the progress bar moves
RECORD_INTERVAL = 0.01


def swinging_arm() -> "Model":
    """Build the arm: equal solid cylinders, hung one below the other.

    The joint axes alternate between y and x, so that the motion fills space. At q = 0 the arm
    hangs straight down from the world origin.

    Returns:
        The model, with revolute joints "joint_1" to "joint_7".
    """
    import tiburon as tb

    inertia = tb.Inertia.cylinder(
        LINK_MASS, LINK_RADIUS, LINK_LENGTH, com=(0.0, 0.0, -LINK_LENGTH / 2.0)
    )
    bodies = []
    for number in range(1, JOINT_COUNT + 1):
        first = number == 1
        joint = tb.Revolute(
            f"joint_{number}",
            axis=(0.0, 1.0, 0.0) if number % 2 else (1.0, 0.0, 0.0),
            pose=tb.Pose(translation=(0.0, 0.0, 0.0 if first else -LINK_LENGTH)),
        )
        parent = "world" if first else f"link_{number - 1}"
        bodies.append(tb.Body(f"link_{number}", parent=parent, joint=joint, inertia=inertia))
    return tb.Model("swinging_arm", bodies=bodies)


def draw_joint_angles(time: "Array", q: "Array", names: tuple[str, ...]) -> "Figure":
    """Draw the joint angles over time.

    Args:
        time: Recorded times [s], shape (n,).
        q: Joint angles [rad], shape (n, joints).
        names: One label per joint.

    Returns:
        The figure; the caller saves it.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.5), layout="constrained")
    axes: Any = figure.subplots()
    axes.plot(time, q, linewidth=1.2, label=names)
    axes.set(title="Swinging arm", xlabel="time [s]", ylabel="joint angle [rad]")
    axes.margins(x=0.0)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False)
    return figure


def draw_energy_error(time: "Array", error: "Array", step: float) -> "Figure":
    """Draw how far the total energy strays, on a logarithmic scale.

    Args:
        time: Recorded times [s], shape (n,).
        error: Energy error relative to the largest kinetic energy of the run, shape (n,).
        step: Step of the integrator [s].

    Returns:
        The figure; the caller saves it.
    """
    import numpy as np
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 3.5), layout="constrained")
    axes: Any = figure.subplots()
    # exact zeros, such as the first point, have no place on a logarithmic axis
    axes.semilogy(time, np.maximum(np.abs(error), 1e-17), linewidth=1.2)
    axes.set(
        title=f"Energy error, Runge-Kutta of order 4, step {step * 1e3:g} ms",
        xlabel="time [s]",
        ylabel="|E - E(0)| / largest kinetic energy",
    )
    axes.margins(x=0.0)
    axes.grid(alpha=0.3)
    return figure


def simulate(
    arm: "Model", q: "Array", v: "Array", times: "Array", step: float
) -> tuple["Array", "Array"]:
    """Let the arm swing freely, with a progress bar.

    Args:
        arm: The model.
        q: Initial joint angles [rad], shape (nq,).
        v: Initial joint rates [rad/s], shape (nv,).
        times: When to record [s], equally spaced from 0, shape (n,).
        step: Step of the integrator [s]; the interval between two times is a multiple of it.

    Returns:
        Joint angles and rates at the recorded times, shapes (n, nq) and (n, nv).
    """
    import numpy as np
    from rich.progress import track

    from tiburon.simulation.integrators.rk4 import rk4

    steps = round((times[1] - times[0]) / step)
    angles, rates = np.empty((len(times), arm.nq)), np.empty((len(times), arm.nv))
    angles[0], rates[0] = q, v
    for index in track(range(1, len(times)), description="simulating"):
        q, v = rk4(arm, q, v, dt=step, steps=steps)
        angles[index], rates[index] = q, v
    return angles, rates


def run(
    output: Annotated[Path, typer.Option(help="Directory for the figures.")] = Path("tiburon-demo"),
    duration: Annotated[float, typer.Option(min=0.1, help="Simulated time [s].")] = 10.0,
    step: Annotated[float, typer.Option(min=1e-5, max=0.01, help="Integrator step [s].")] = 1e-3,
) -> None:
    """Simulate a swinging seven-joint arm and draw its motion and its energy error."""
    import numpy as np

    import tiburon as tb

    arm = swinging_arm()
    # bent a little and kicked: every joint takes part, none goes over the top
    q = np.linspace(0.5, 0.1, arm.nq)
    v = np.linspace(-0.5, 0.5, arm.nv)
    # the recorded interval is a whole number of steps, at least one
    steps = max(1, round(RECORD_INTERVAL / step))
    times = np.arange(0.0, duration + 0.5 * steps * step, steps * step)

    print(f"{arm.name}: {arm.nv} joints, {times[-1]:g} s, step {step * 1e3:g} ms")
    start = perf_counter()
    angles, rates = simulate(arm, q, v, times, step)
    elapsed = perf_counter() - start

    kinetic = tb.kinetic_energy(arm, angles, rates)
    energy = kinetic + tb.potential_energy(arm, angles)
    error = (energy - energy[0]) / np.max(kinetic)
    print(
        f"simulated in {elapsed:.2f} s, compilation included: {times[-1] / elapsed:.0f}x real time"
    )
    print(f"largest energy error: {np.max(np.abs(error)):.1e} of the largest kinetic energy")

    output.mkdir(parents=True, exist_ok=True)
    figures = {
        "joint_angles.png": draw_joint_angles(times, angles, arm.q_names),
        "energy_error.png": draw_energy_error(times, error, step),
    }
    for name, figure in figures.items():
        figure.savefig(output / name, dpi=150)
        print(f"wrote {output / name}")
