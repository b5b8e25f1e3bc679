"""`tiburon drive`: a robot in real time, controlled from a web page or through a socket."""

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiburon.cli import console

if TYPE_CHECKING:
    from tiburon.drive.session import Drive
    from tiburon.model import Model

EXAMPLES = """
tiburon drive tiburon_titan --water
tiburon drive bluerov2_heavy --current 0.3 0 0 --surface 2
tiburon drive panda --pose ready
tiburon drive quadruped
tiburon drive tiburon_titan --water --headless --port 9000 --rate 100
tiburon drive tiburon_titan --water --measure 60 --priority
"""


class Wait(StrEnum):
    """Ways to wait for ticks."""

    auto = "auto"
    sleep = "sleep"
    spin = "spin"


def run(
    source: console.Robot,
    headless: Annotated[
        bool, typer.Option("--headless", help="No page: messages over a socket only.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address to bind.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page or socket; 0 for any.")
    ] = 8765,
    socket_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of a socket beside the page.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="TIBURON_DRIVE_TOKEN",
            help="Token of clients; generated and printed if not given.",
        ),
    ] = None,
    no_token: Annotated[
        bool,
        typer.Option("--no-token", help="No token, on loopback addresses only."),
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Further host name of the page; may be repeated."),
    ] = None,
    rate: Annotated[float, typer.Option(min=0.1, max=200.0, help="Rate of states [Hz].")] = 30.0,
    browser: console.Browser = True,
    pose: console.Pose = None,
    q: console.Position = None,
    world: console.WorldFile = None,
    ground: console.Ground = None,
    water: Annotated[bool, typer.Option("--water", help="Put the robot into sea water.")] = False,
    density: console.Density = None,
    current: console.Current = None,
    surface: console.Surface = None,
    fluid: console.Fluid = None,
    dt: Annotated[float, typer.Option(min=1e-5, max=0.1, help="Step [s].")] = 1e-3,
    steps: Annotated[
        int, typer.Option(min=1, max=1000, help="Steps per tick; the period is dt * steps.")
    ] = 1,
    method: Annotated[str, typer.Option(help="Fixed-step integrator.")] = "rk4",
    output: Annotated[Path, typer.Option(help="Folder for recordings and edited robots.")] = Path(
        "."
    ),
    wait: Annotated[
        Wait,
        typer.Option(help="How to wait for ticks; auto sleeps until shortly before."),
    ] = Wait.auto,
    priority: Annotated[
        bool,
        typer.Option(
            "--priority", help="Request real-time priority, no deep idle states, locked memory."
        ),
    ] = False,
    core: Annotated[
        int | None, typer.Option(min=0, help="Processor reserved for the ticks.")
    ] = None,
    measure: Annotated[
        float | None,
        typer.Option(min=0.1, help="Run for a time [s], report jitter and deadline misses, end."),
    ] = None,
    base: console.Base = None,
    package_path: console.PackagePath = None,
) -> None:
    """Drive a robot in real time, from a page in the browser or through a socket.

    The simulation runs on its own thread in native code. Ctrl-C ends it and reports jitter and
    deadline misses.
    """
    import tiburon as tb
    from tiburon.cli.run_options import clear_start, integrator_of, surroundings
    from tiburon.drive.session import Drive

    model, warnings = console.load_quietly(source, package_path or [], base)
    for line in warnings:
        print(f"note: {line}")
    around = surroundings(world, None, density, current, surface, ground, source, fluid)
    if water and around.fluid is None:
        around = tb.World(around.gravity, around.ground, tb.Water())
    if pose is None and q is None and model.poses and _beyond_limits(model):
        pose = next(iter(model.poses))
        print(f"note: starts in pose {pose!r}, since q = 0 violates its joint limits")
    start = clear_start(model, around, pose, q, tb.DefaultContact())
    print(f"{model.name}: {model.about}" if model.about else model.name, flush=True)
    drive = Drive(
        model,
        world=around,
        q=start,
        method=integrator_of(method, dt),
        steps=steps,
        priority=priority,
        core=core,
        wait=wait.value,
    )
    if not drive.ticker.native:
        print("note: no native loop on this system; ticks run in Python with more jitter")
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
    if priority and not drive.ticker.realtime.priority:
        print("note: the system did not grant real-time priority")
    print(drive.report())
    print(f"tick thread: {drive.ticker.summary()}")
    if drive.ticker.diverged:
        print("the motion diverged; use a smaller --dt")
        raise typer.Exit(console.DIVERGED)


def _beyond_limits(model: "Model") -> bool:
    """Return whether the neutral configuration violates joint limits."""
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
    """Run for a time without clients."""
    import time

    drive.start()
    # skip the start of the thread
    time.sleep(0.1)
    drive.ticker.clear_report()
    time.sleep(seconds)


async def _serve(drive: "Drive", browser: bool, options: dict[str, Any]) -> None:
    from tiburon.drive.servers import serve

    def ready(line: str) -> None:
        print(line, flush=True)
        if browser and line.startswith("page "):
            import webbrowser

            webbrowser.open(line.removeprefix("page "))

    await serve(drive, ready=ready, **options)
