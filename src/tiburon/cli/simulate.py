"""`tiburon simulate`: run a robot in its world, and keep, draw and tell what happened."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiburon.cli.exit_codes import OF_STATUS
from tiburon.cli.loading import complete_robot

if TYPE_CHECKING:
    from tiburon.results.trajectory import Trajectory

DURATION = 5.0
"""Simulated time where none is asked for [s]."""

PICTURES = (".png", ".svg", ".pdf", ".jpg")
"""Endings of figures."""

Triple = tuple[float, float, float]

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
            help="A robot file, the name of one that ships, or with --resume a stored run.",
            autocompletion=complete_robot,
        ),
    ],
    duration: Annotated[
        float | None,
        typer.Option("--duration", "-t", help="Simulated time [s]; 5 by default."),
    ] = None,
    dt: Annotated[float, typer.Option(help="Length of a step [s].")] = 1e-3,
    method: Annotated[
        str, typer.Option(help="Integrator: rk4, semi_implicit_euler, dopri5, rosenbrock, ...")
    ] = "rk4",
    rtol: Annotated[float, typer.Option(help="Of methods that adapt their steps.")] = 1e-6,
    atol: Annotated[float, typer.Option(help="Of methods that adapt their steps.")] = 1e-8,
    pose: Annotated[str | None, typer.Option(help="A named position to start from.")] = None,
    q: Annotated[
        str | None, typer.Option(help="Position: 0.1,0.2,... or elbow=0.5,wrist=-1 [m or rad].")
    ] = None,
    v: Annotated[
        str | None, typer.Option(help="Velocity, in the same way [m/s or rad/s]; at rest else.")
    ] = None,
    gravity: Annotated[
        Triple | None, typer.Option(help="World axes [m/s^2]; 0 0 -9.81 by default.")
    ] = None,
    density: Annotated[
        float | None, typer.Option(min=0.0, help="Of the water [kg/m^3]; puts the robot in water.")
    ] = None,
    current: Annotated[
        Triple | None, typer.Option(help="Velocity of the water [m/s]; puts the robot in water.")
    ] = None,
    surface: Annotated[
        float | None, typer.Option(help="Height of the water's surface [m]; none by default.")
    ] = None,
    world: Annotated[
        Path | None, typer.Option(help="A file of surroundings (DynaMechs .env, MJCF .xml).")
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(
            help="gravity (bears the weight), hold (keeps joints), station (keeps a vehicle and "
            "its joints), FILE.csv (logged commands), module:function or file.py:function."
        ),
    ] = None,
    control_dt: Annotated[
        float | None, typer.Option(help="Time between two calls of the controller [s].")
    ] = None,
    command: Annotated[
        list[str] | None, typer.Option(help="name=number, held all the time; may be repeated.")
    ] = None,
    passive: Annotated[
        bool, typer.Option("--passive/--no-passive", help="Friction and springs of joints.")
    ] = True,
    limits: Annotated[
        bool, typer.Option("--limits/--no-limits", help="Stops at the limits of joints.")
    ] = True,
    record_dt: Annotated[
        float | None, typer.Option(help="Time between recorded rows [s]; 0.01 by default.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=0.0, help="Wall time after which to stop [s].")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="Directory (.zarr) to which rows go on the way.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a stored run, -t longer or to its end.")
    ] = False,
    csv: Annotated[Path | None, typer.Option(help="Write the recorded rows as a table.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw positions and velocities (.png, .svg, .pdf).")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page that replays the run in a browser.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write one page about the run (HTML).")
    ] = None,
    package_path: Annotated[
        list[Path] | None, typer.Option(help="Folder of packages for meshes; may be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Run a robot in its world; tell how it ended; keep, draw and replay it.

    Exit codes: 0 finished or ended by an event, 1 bad input, 2 usage, 3 diverged, 4 out of budget,
    5 events without end, 130 interrupted (Ctrl-C keeps what was computed).
    """
    began = perf_counter()
    outputs = {"csv": csv, "plot": plot, "html": html, "report": report}
    check_folders(outputs.values())
    if plot is not None and plot.suffix.lower() not in PICTURES:
        from tiburon.errors import OptionError

        raise OptionError("--plot: ending", PICTURES, plot.suffix)
    if resume:
        done, before = _resume(store or Path(robot), duration, control, budget)
    else:
        options: dict[str, Any] = {
            "dt": dt,
            "method": method,
            "rtol": rtol,
            "atol": atol,
            "control_dt": control_dt,
            "passive": passive,
            "limits": limits,
            "record_dt": record_dt,
            "budget": budget,
            "store": store,
        }
        around = (world, gravity, density, current, surface)
        place = (pose, q, v)
        done = _start(
            robot,
            DURATION if duration is None else duration,
            place,
            around,
            control,
            command or [],
            package_path or [],
            options,
            said=not as_json,
        )
        before = done.span[0]
    elapsed = perf_counter() - began
    written = {name: _write(done, name, path) for name, path in outputs.items() if path is not None}
    if done.store is not None:
        written["store"] = done.store.path
    _tell(done, elapsed, before, written, as_json)
    raise typer.Exit(OF_STATUS[done.outcome.status])


def check_folders(paths: Any) -> None:
    """Refuse files that could not be written before anything is computed."""
    import tiburon as tb

    for path in paths:
        if path is not None and not path.parent.is_dir():
            raise tb.RunFileError(path, f"there is no folder {str(path.parent)!r}; make it first")


def make_folder(path: Path) -> None:
    """Make a directory for output files, unless it exists.

    Raises:
        RunFileError: If it cannot be made.
    """
    import tiburon as tb

    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"cannot be made a folder ({error.strerror}); choose another name"
        raise tb.RunFileError(path, reason) from error


def _start(
    robot: str,
    duration: float,
    place: tuple[str | None, str | None, str | None],
    around: tuple[Any, ...],
    control: str | None,
    commands: list[str],
    package_paths: list[Path],
    options: dict[str, Any],
    *,
    said: bool,
) -> "Trajectory":
    """Load a robot and run it."""
    import sys

    import tiburon as tb
    from tiburon.cli.assembling import closed_start, closed_velocity
    from tiburon.cli.loading import load_quietly
    from tiburon.cli.run_options import (
        commands_by_name,
        controller,
        errors_of_users_code,
        surroundings,
    )

    model, warnings = load_quietly(robot, package_paths)
    for warning in warnings if said else ():
        print(f"warning: {warning}", file=sys.stderr)
    pose, position, velocity = place
    q = closed_start(model, pose, position)
    v = closed_velocity(model, q, velocity)
    world = surroundings(*around)
    held = commands_by_name("--command", commands)
    decides = controller(control, model, world, q)
    with errors_of_users_code(control):
        return tb.simulate(
            model,
            duration,
            q=q,
            v=v,
            world=world,
            control=decides,
            command=held or None,
            **options,
        )


def _resume(
    path: Path, duration: float | None, control: str | None, budget: float | None
) -> "tuple[Trajectory, float]":
    """Go on with a stored run; return it and the time at which it goes on [s]."""
    import tiburon as tb
    from tiburon.cli.run_options import controller, errors_of_users_code

    earlier = tb.load_run(path)
    changes: dict[str, Any] = {}
    if control is not None:
        first = earlier.q[0] if len(earlier) else earlier.outcome.q
        changes["control"] = controller(control, earlier.model, earlier.world, first)
    before = 0.0 if earlier.checkpoint is None else earlier.checkpoint.time
    with errors_of_users_code(control):
        return earlier.resume(duration, budget=budget, **changes), before


def _write(done: "Trajectory", name: str, path: Path) -> Path:
    """Write one of the files that were asked for."""
    if name == "csv":
        done.to_csv(path)
    elif name == "plot":
        done.plot(path=path)
    elif name == "html":
        done.save_html(path)
    else:
        done.report(path)
    return path


def _tell(
    done: "Trajectory", elapsed: float, before: float, written: dict[str, Path], as_json: bool
) -> None:
    """Print how it went."""
    from tiburon.cli.run_words import as_data, print_run
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
