"""`tiburon drive`: a robot by the clock on the wall, steered from a page or through a socket."""

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tiburon.drive.session import Drive
    from tiburon.model import Model

EXAMPLES = """
tiburon drive tiburon_titan --water
tiburon drive bluerov2_heavy --current 0.3 0 0 --surface 2
tiburon drive panda --pose ready
tiburon drive tiburon_titan --water --headless --port 9000 --rate 100
tiburon drive tiburon_titan --water --measure 60 --priority
"""


class Wait(StrEnum):
    """How ticks are waited for."""

    auto = "auto"
    sleep = "sleep"
    spin = "spin"


def run(
    source: Annotated[
        str, typer.Argument(metavar="FILE|NAME", help="Robot file, or the name of one that ships.")
    ],
    headless: Annotated[
        bool, typer.Option("--headless", help="No page: messages over a socket only.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address to bind.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the page, or of the socket; 0 for any.")
    ] = 8765,
    socket_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Of a socket beside the page.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="TIBURON_DRIVE_TOKEN",
            help="What clients must show; generated and printed if not given.",
        ),
    ] = None,
    no_token: Annotated[
        bool,
        typer.Option(
            "--no-token", help="Let all programs of this machine drive; on its own addresses only."
        ),
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Another name by which browsers reach the page; may be repeated."),
    ] = None,
    rate: Annotated[float, typer.Option(min=0.1, max=200.0, help="States per second [Hz].")] = 30.0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Whether to open a browser.")
    ] = True,
    pose: Annotated[str | None, typer.Option(help="A named position to start from.")] = None,
    q: Annotated[
        str | None, typer.Option("--q", help="Position at the start: all, or name=number,...")
    ] = None,
    world: Annotated[Path | None, typer.Option(help="File of surroundings: .env or .xml.")] = None,
    water: Annotated[bool, typer.Option("--water", help="Put the robot into sea water.")] = False,
    density: Annotated[float | None, typer.Option(help="Of the water [kg/m^3].")] = None,
    current: Annotated[
        tuple[float, float, float] | None, typer.Option(help="Of the water [m/s].")
    ] = None,
    surface: Annotated[float | None, typer.Option(help="Height of its surface [m].")] = None,
    dt: Annotated[float, typer.Option(min=1e-5, max=0.1, help="Step [s].")] = 1e-3,
    steps: Annotated[
        int, typer.Option(min=1, max=1000, help="Steps of a tick: ticks come every dt * steps.")
    ] = 1,
    method: Annotated[str, typer.Option(help="Integrator of equal steps.")] = "rk4",
    output: Annotated[Path, typer.Option(help="Folder for recordings and edited robots.")] = Path(
        "."
    ),
    wait: Annotated[
        Wait,
        typer.Option(help="How ticks are waited for; auto sleeps until shortly before each."),
    ] = Wait.auto,
    priority: Annotated[
        bool,
        typer.Option(
            "--priority",
            help="Ask for a thread that goes before ordinary ones, on processors that stay awake.",
        ),
    ] = False,
    core: Annotated[
        int | None, typer.Option(min=0, help="Processor that the ticks have for themselves.")
    ] = None,
    measure: Annotated[
        float | None,
        typer.Option(min=0.1, help="Run alone for so long [s], report how ticks kept time, end."),
    ] = None,
    package_path: Annotated[
        list[Path] | None, typer.Option(help="Folder of packages for meshes; may be repeated.")
    ] = None,
) -> None:
    """Drive a robot by the clock on the wall, from a page in the browser or through a socket.

    Physics runs on a thread of its own in native code, whoever watches. Ctrl-C ends, and reports
    how ticks kept to their times.
    """
    import tiburon as tb
    from tiburon.cli.assembling import closed_start
    from tiburon.cli.loading import load_quietly
    from tiburon.cli.run_options import surroundings
    from tiburon.drive.session import Drive

    model, said = load_quietly(source, package_path or [])
    for line in said:
        print(f"note: {line}")
    around = surroundings(world, None, density, current, surface)
    if water and around.fluid is None:
        around = tb.World(around.gravity, around.ground, tb.Water())
    if pose is None and q is None and model.poses and _beyond_limits(model):
        pose = next(iter(model.poses))
        print(f"note: starts in pose {pose!r}, for with all joints at zero it is beyond its limits")
    start = closed_start(model, pose, q)
    print(f"{model.name}: {model.about}" if model.about else model.name, flush=True)
    drive = Drive(
        model,
        world=around,
        q=start,
        dt=dt,
        steps=steps,
        method=method,
        priority=priority,
        core=core,
        wait=wait.value,
    )
    if not drive.ticker.native:
        print("note: no native loop on this system; ticks run in Python and will be late")
    try:
        if measure is not None:
            _measure(drive, measure)
        else:
            options: dict[str, Any] = {
                "host": host,
                "port": port,
                "socket_port": socket_port,
                "headless": headless,
                "token": token,
                "no_token": no_token,
                "allow_hosts": allow_host or (),
                "rate": rate,
                "folder": output,
            }
            asyncio.run(_serve(drive, browser, options))
    except KeyboardInterrupt:
        print()
    finally:
        drive.close()
    if priority and not drive.ticker.footing.priority:
        print("note: the system did not grant priority")
    print(drive.report())
    print(f"ticks: {drive.ticker.manner()}")
    if drive.ticker.diverged:
        print("the motion grew beyond all numbers; take a smaller --dt")
        raise typer.Exit(3)


def _beyond_limits(model: "Model") -> bool:
    """Return whether the neutral position is one that stops would push the robot out of."""
    import numpy as np

    position = model.neutral()
    for joint in model.joints:
        if joint.limits is None:
            continue
        here = position[model.slice(joint.name, of="q")]
        if np.any(here < joint.limits.lower) or np.any(here > joint.limits.upper):
            return True
    return False


def _measure(drive: "Drive", seconds: float) -> None:
    """Let the robot move by itself for a while."""
    import time

    drive.start()
    # the first moments belong to the start of the thread
    time.sleep(0.1)
    drive.ticker.clear_report()
    time.sleep(seconds)


async def _serve(drive: "Drive", browser: bool, options: dict[str, Any]) -> None:
    from tiburon.drive.serve import serve

    def ready(line: str) -> None:
        print(line, flush=True)
        if browser and line.startswith("page "):
            import webbrowser

            webbrowser.open(line.removeprefix("page "))

    await serve(drive, ready=ready, **options)
