"""`tiburon simulate`: simulation of a robot in its world, with tables, figures and replays."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tiburon.cli import console

if TYPE_CHECKING:
    from tiburon.results.trajectory import Trajectory

DEFAULT_DURATION = 5.0
"""Default simulated time [s]."""

FIGURE_SUFFIXES = (".png", ".svg", ".pdf", ".jpg")
"""File suffixes of figures."""

EXAMPLES = """
tiburon simulate double_pendulum -t 10 --q 0.5,0.2 --html swing.html
tiburon simulate panda --pose ready --control hold --plot panda.png
tiburon simulate tiburon_titan --current 0.3 0 0 --control station
tiburon simulate arm.urdf --control mine.py:control --store run.zarr
tiburon simulate run.zarr --resume -t 5
"""


def run(
    robot: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NAME",
            help="Robot file, name of a robot of the zoo, or with --resume a stored run.",
            autocompletion=console.complete_robot,
        ),
    ],
    duration: Annotated[
        float | None,
        typer.Option("--duration", "-t", help="Simulated time [s]; 5 by default."),
    ] = None,
    dt: Annotated[float, typer.Option(help="Step size [s].")] = 1e-3,
    method: Annotated[
        str | None,
        typer.Option(
            help="Integrator: rk4, semi_implicit_euler, dopri5, rosenbrock, ...; rk4 by default, "
            "dop853 with exact contact."
        ),
    ] = None,
    rtol: Annotated[
        float | None,
        typer.Option(
            help="Relative tolerance of adaptive methods; 1e-6, or 1e-12 with exact contact."
        ),
    ] = None,
    atol: Annotated[
        float | None,
        typer.Option(
            help="Absolute tolerance of adaptive methods; 1e-8, or 1e-13 with exact contact."
        ),
    ] = None,
    pose: console.Pose = None,
    q: console.Position = None,
    v: Annotated[
        str | None, typer.Option(help="Initial v, likewise [m/s or rad/s]; zero by default.")
    ] = None,
    gravity: Annotated[
        console.Triple | None,
        typer.Option(help="Gravity in world axes [m/s^2]; 0 0 -9.81 by default."),
    ] = None,
    density: console.Density = None,
    current: console.Current = None,
    surface: console.Surface = None,
    fluid: console.Fluid = None,
    world: console.WorldFile = None,
    ground: console.Ground = None,
    contact: console.Contact = None,
    pair: Annotated[
        list[str] | None,
        typer.Option(help="Bodies that may touch, FIRST:SECOND; may be repeated."),
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(
            help="gravity (compensation), hold (joints), station (a vehicle and its joints), "
            "FILE.csv (logged commands), module:function or file.py:function."
        ),
    ] = None,
    control_dt: Annotated[
        float | None, typer.Option(help="Sampling period of the controller [s].")
    ] = None,
    command: Annotated[
        list[str] | None, typer.Option(help="Constant command name=value; may be repeated.")
    ] = None,
    passive: Annotated[
        bool, typer.Option("--passive/--no-passive", help="Joint friction and springs.")
    ] = True,
    limits: Annotated[
        bool, typer.Option("--limits/--no-limits", help="Stops at joint limits.")
    ] = True,
    record_dt: Annotated[
        float | None, typer.Option(help="Time between recorded rows [s]; 0.01 by default.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=0.0, help="Wall-clock time after which to stop [s].")
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="Directory (.zarr) to which rows are written during the run."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a stored run, by -t or to its end.")
    ] = False,
    csv: Annotated[Path | None, typer.Option(help="Write the recorded rows as a table.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Plot positions and velocities (.png, .svg, .pdf).")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a replay page.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report page (HTML).")] = None,
    base: console.Base = None,
    package_path: console.PackagePath = None,
    as_json: console.AsJson = False,
) -> None:
    """Simulate a robot in its world; print the outcome; write tables, figures and replays.

    Exit codes: 0 finished or terminal event, 1 bad input, 2 usage, 3 diverged, 4 out of budget,
    5 Zeno behavior, 130 interrupted (Ctrl-C keeps the recorded rows).
    """
    began = perf_counter()
    outputs = {"csv": csv, "plot": plot, "html": html, "report": report}
    check_folders(outputs.values())
    if plot is not None and plot.suffix.lower() not in FIGURE_SUFFIXES:
        from tiburon.errors import OptionError

        raise OptionError("--plot: ending", FIGURE_SUFFIXES, plot.suffix)
    if resume and base is not None:
        raise typer.BadParameter("--base is of a new run; a stored one keeps its robot")
    if resume:
        done, before = _resume(store or Path(robot), duration, control, budget)
    else:
        from tiburon.cli.run_options import contact_of, integrator_of
        from tiburon.results.record import Record
        from tiburon.simulation.execution import Execution

        options: dict[str, Any] = {
            "method": integrator_of(method, dt, rtol, atol, is_exact=contact == "exact"),
            "record": Record(dt=record_dt, store=store),
            "execution": Execution(budget=budget),
        }
        surroundings = (world, gravity, density, current, surface, ground, robot, fluid)
        options["contact"] = contact_of(contact, pair)
        place = (pose, q, v)
        done = _start(
            robot,
            DEFAULT_DURATION if duration is None else duration,
            place,
            surroundings,
            (control, control_dt),
            command or [],
            (package_path or [], base),
            (passive, limits),
            options,
            print_warnings=not as_json,
        )
        before = done.span[0]
    elapsed = perf_counter() - began
    written = {name: _write(done, name, path) for name, path in outputs.items() if path is not None}
    if done.store is not None:
        written["store"] = done.store.path
    _print_outcome(done, elapsed, before, written, as_json)
    raise typer.Exit(console.EXIT_CODES[done.outcome.status])


def check_folders(paths: Any) -> None:
    """Raise for files that cannot be written, before anything is computed."""
    import tiburon as tb

    for path in paths:
        if path is not None and not path.parent.is_dir():
            raise tb.RunFileError(path, f"there is no folder {str(path.parent)!r}; create it first")


def make_folder(path: Path) -> None:
    """Create a directory for output files, unless it exists.

    Raises:
        RunFileError: If it cannot be created.
    """
    import tiburon as tb

    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"cannot be created as a folder ({error.strerror}); choose another name"
        raise tb.RunFileError(path, reason) from error


def _start(
    robot: str,
    duration: float,
    place: tuple[str | None, str | None, str | None],
    around: tuple[Any, ...],
    control: tuple[str | None, float | None],
    commands: list[str],
    loading: tuple[list[Path], console.RootJoint | None],
    acting: tuple[bool, bool],
    options: dict[str, Any],
    *,
    print_warnings: bool,
) -> "Trajectory":
    """Load a robot and simulate it."""
    import sys

    import tiburon as tb
    from tiburon.cli.run_options import (
        CONTROLS,
        clear_start,
        closed_velocity,
        commands_by_name,
        controller,
        surroundings,
        user_code_errors,
    )
    from tiburon.errors import RunInterruptedError

    model, warnings = console.load_quietly(robot, *loading)
    for warning in warnings if print_warnings else ():
        print(f"warning: {warning}", file=sys.stderr)
    if control[0] in CONTROLS:
        # they command joint forces
        model = model.without_servos()
    model = model if acting[0] else model.without_passive()
    model = model if acting[1] else model.without_limits()
    pose, position, velocity = place
    world = surroundings(*around)
    q = clear_start(model, world, pose, position, options["contact"])
    v = closed_velocity(model, q, velocity)
    held = commands_by_name("--command", commands)
    chosen: Any = controller(control[0], model, world, q)
    if chosen is not None and control[1] is not None:
        chosen = tb.Sampled(chosen, dt=control[1])
    with user_code_errors(control[0]):
        try:
            return tb.simulate(
                model,
                duration,
                q=q,
                v=v,
                world=world,
                control=chosen,
                command=held or None,
                **options,
            )
        except RunInterruptedError as stop:
            return cast("Trajectory", stop.run)


def _resume(
    path: Path, duration: float | None, control: str | None, budget: float | None
) -> "tuple[Trajectory, float]":
    """Continue a stored run; return it and the time of its checkpoint [s]."""
    import tiburon as tb
    from tiburon.cli.run_options import controller, user_code_errors
    from tiburon.errors import RunInterruptedError

    earlier = tb.load_run(path)
    changes: dict[str, Any] = {}
    if control is not None:
        first = earlier.q[0] if len(earlier) else earlier.outcome.q
        changes["control"] = controller(control, earlier.model, earlier.world, first)
    before = 0.0 if earlier.checkpoint is None else earlier.checkpoint.time
    with user_code_errors(control):
        try:
            return earlier.resume(
                duration, execution=tb.Execution(budget=budget), **changes
            ), before
        except RunInterruptedError as stop:
            return stop.run, before


def _write(done: "Trajectory", name: str, path: Path) -> Path:
    """Write one of the requested files."""
    if name == "csv":
        done.to_csv(path)
    elif name == "plot":
        done.plot(path=path)
    elif name == "html":
        done.save_html(path)
    else:
        done.report(path)
    return path


def _print_outcome(
    done: "Trajectory", elapsed: float, before: float, written: dict[str, Path], as_json: bool
) -> None:
    """Print the outcome of a run."""
    from tiburon.cli.report import as_data, print_run
    from tiburon.results.report import facts_of

    simulated = done.outcome.time - before
    if as_json:
        import json

        files = {name: str(path) for name, path in written.items()}
        data = {**as_data(done), "wall_time": elapsed, "files": files}
        print(json.dumps(data, indent=2))
        return
    for name, text in facts_of(done).items():
        print(f"{name + ':':<14} {text}")
    print(
        f"{'took:':<14} {elapsed:.2f} s for {simulated:.6g} s, loading and compiling included "
        f"({simulated / elapsed:.3g}x real time)"
    )
    print_run(done)
    for path in written.values():
        print(f"wrote {path}")
