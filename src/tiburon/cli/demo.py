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
    from tiburon.simulation import StateRecord

    Array = NDArray[np.float64]

JOINT_COUNT = 7
LINK_LENGTH = 0.25  # m
LINK_RADIUS = 0.03  # m
LINK_MASS = 1.5  # kg
RECORD_INTERVAL = 0.01  # s, between two points of the figures
ROUNDING_FLOOR = 1e-16  # smaller relative errors are rounding of the energy itself


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
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 6.5), layout="constrained")
    rows: Any = figure.subplots(len(names), sharex=True, sharey=True)
    for number, (axes, name) in enumerate(zip(rows, names, strict=True)):
        # from the shoulder, dark, to the tip, light
        axes.plot(time, q[:, number], color=colormaps["viridis"](number / len(names)))
        _dress(axes, name.replace("_", " "))
        axes.set_xlabel("")
    rows[0].set_title("A seven-joint arm swings freely: joint angles [rad]", loc="left")
    rows[-1].set_xlabel("time [s]")
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

    figure = Figure(figsize=(9.0, 4.0), layout="constrained")
    axes: Any = figure.subplots()
    # exact zeros, such as the first point, have no place on a logarithmic axis
    shown = np.maximum(np.abs(error[1:]), ROUNDING_FLOOR)
    axes.semilogy(time[1:], shown, linewidth=1.2, color="tab:red")
    axes.set_title(
        f"Energy error of the swinging arm: Runge-Kutta of order 4, step {step * 1e3:g} ms",
        loc="left",
    )
    _dress(axes, "|E(t) - E(0)| / largest kinetic energy")
    return figure


def _dress(axes: Any, label: str) -> None:
    """Give axes over time their label, grid and frame."""
    axes.set(xlabel="time [s]", ylabel=label)
    axes.margins(x=0.0)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def simulate(
    arm: "Model", q: "Array", v: "Array", steps: int, step: float, record_every: int
) -> "StateRecord":
    """Let the arm swing freely, with a progress bar.

    Args:
        arm: The model.
        q: Initial joint angles [rad], shape (nq,).
        v: Initial joint rates [rad/s], shape (nv,).
        steps: Number of steps.
        step: Step of the integrator [s].
        record_every: Steps between two recorded states.

    Returns:
        The recorded states.
    """
    from rich.console import Console
    from rich.progress import Progress

    import tiburon as tb

    console = Console()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("simulating", total=steps)
        return tb.integrate_rk4(
            arm,
            q,
            v,
            dt=step,
            steps=steps,
            record_every=record_every,
            progress=lambda done, _: bar.update(task, completed=done),
        )


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
    steps = max(1, round(duration / step))
    record_every = max(1, round(RECORD_INTERVAL / step))

    print(f"{arm.name}: {arm.nv} joints, {steps * step:g} s, step {step * 1e3:g} ms")
    start = perf_counter()
    # one step compiles, or finds what an earlier run compiled
    tb.integrate_rk4(arm, q, v, dt=step, steps=1)
    ready = perf_counter()
    record = simulate(arm, q, v, steps, step, record_every)
    elapsed = perf_counter() - ready

    kinetic = tb.kinetic_energy(arm, record.q, record.v)
    energy = np.asarray(kinetic + tb.potential_energy(arm, record.q))
    error = (energy - energy[0]) / np.max(kinetic)
    print(
        f"{steps} steps in {elapsed:.3f} s ({steps / elapsed:.0f} steps/s, "
        f"{steps * step / elapsed:.0f}x real time), after {ready - start:.2f} s of compilation"
    )
    print(f"largest energy error: {np.max(np.abs(error)):.1e} of the largest kinetic energy")

    output.mkdir(parents=True, exist_ok=True)
    figures = {
        "joint_angles.png": draw_joint_angles(record.time, record.q, arm.q_names),
        "energy_error.png": draw_energy_error(record.time, error, step),
    }
    for name, figure in figures.items():
        figure.savefig(output / name, dpi=150)
        print(f"wrote {output / name}")
