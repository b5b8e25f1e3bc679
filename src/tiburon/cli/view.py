"""`tiburon view`: a robot or a saved run in the browser."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiburon.cli import ignore_ctrl_c
from tiburon.cli.console import Browser, PackagePath, load_quietly

if TYPE_CHECKING:
    from tiburon.results.trajectory import Trajectory

EXAMPLES = """
tiburon view panda --pose ready
tiburon view arm.urdf --show frames --show labels
tiburon view run.zarr --camera follow
tiburon view run.zarr --html dive.html
tiburon view double_pendulum --mode 1
"""

RUN_SUFFIXES = (".zarr", ".zip")
"""File suffixes of saved runs; everything else is a robot."""


def run(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NAME|RUN",
            help="Robot file, name of a robot of the zoo, or a saved run: run.zarr, run.zip.",
        ),
    ],
    html: Annotated[
        Path | None,
        typer.Option(help="Write a self-contained page instead of serving; needs no viser."),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the live scene, or the next free one.")
    ] = 8080,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Further host name of the live scene; may be repeated."),
    ] = None,
    browser: Browser = True,
    camera: Annotated[
        str | None, typer.Option(help="Initial camera: orbit, follow, on-board.")
    ] = None,
    show: Annotated[
        list[str] | None,
        typer.Option(
            help="frames, labels, centers, forces, contacts, trails, water; may be repeated."
        ),
    ] = None,
    speed: Annotated[float | None, typer.Option(help="Playback speed; 1 for real time.")] = None,
    pose: Annotated[str | None, typer.Option(help="Named pose of a robot.")] = None,
    mode: Annotated[
        int | None, typer.Option(help="Animate one of the modes of `tb.modes`.")
    ] = None,
    water: Annotated[bool, typer.Option("--water", help="Show a robot in water.")] = False,
    package_path: PackagePath = None,
) -> None:
    """Show a robot, or replay a saved run, in the browser.

    The live scene needs viser (pip install 'tiburon[view]') and runs until Ctrl-C; without viser, a
    page is written and opened instead.
    """
    import tiburon as tb
    from tiburon.cli.simulate import check_folders

    check_folders((html,))
    options: dict[str, Any] = {"camera": camera, "show": show, "speed": speed}
    options = {name: value for name, value in options.items() if value is not None}
    shown: _OfRun | _OfMotion
    if Path(source).suffix in RUN_SUFFIXES:
        shown = _OfRun(tb.load_run(source))
    elif mode is not None:
        shown = _mode_of(source, pose, mode, water, package_path or [])
    else:
        shown = _robot_of(source, pose, water, package_path or [])
    if html is not None:
        print(f"wrote {shown.save(html, options)}")
        return
    shown.open(options, {"port": port, "allow_hosts": allow_host or ()}, browser)


class _OfRun:
    """A saved run."""

    def __init__(self, run: "Trajectory") -> None:
        self._run = run

    def save(self, path: Path, options: dict[str, Any]) -> Path:
        """Write the page."""
        return self._run.save_html(path, **options)

    def open(self, options: dict[str, Any], server: dict[str, Any], browser: bool) -> None:
        """Show it, in the live scene if viser is installed."""
        from tiburon.viewer.live import has_viser

        if has_viser():
            options = {**options, **server, "wait": False}
        _wait_for(self._run.view(browser=browser, **options))


class _OfMotion:
    """A robot at rest or in motion."""

    def __init__(self, model: Any, time: Any, q: Any, given: dict[str, Any]) -> None:
        self._motion = (model, time, q)
        self._given = given

    def save(self, path: Path, options: dict[str, Any]) -> Path:
        """Write the page."""
        from tiburon.viewer import save_html

        return save_html(path, *self._motion, **(self._given | options))

    def open(self, options: dict[str, Any], server: dict[str, Any], browser: bool) -> None:
        """Show it, in the live scene if viser is installed."""
        import tempfile
        import webbrowser

        from tiburon.viewer.live import has_viser

        if not has_viser():
            path = self.save(Path(tempfile.mkdtemp(prefix="tiburon-")) / "view.html", options)
            if browser:
                webbrowser.open(path.as_uri())
            _wait_for(path)
            return
        from tiburon.viewer import LiveReplay

        replay = LiveReplay(*self._motion, **(self._given | options | server))
        if browser:
            webbrowser.open(replay.url)
        _wait_for(replay)


def _wait_for(shown: Any) -> None:
    """Print the address or path, and wait while a live scene is served."""
    if isinstance(shown, Path):
        print(f"wrote {shown}; for the live scene, pip install 'tiburon[view]'")
        return
    try:
        print(f"open {shown.url}; Ctrl-C stops", flush=True)
        shown.wait()
    except KeyboardInterrupt:  # outside of the wait, whose own Ctrl-C closes the scene
        ignore_ctrl_c()
        shown.close()


def _robot_of(source: str, pose: str | None, water: bool, package_paths: list[Path]) -> _OfMotion:
    """Return a robot at rest."""
    import sys

    import tiburon as tb
    from tiburon.cli.run_options import closed_start

    model, warnings = load_quietly(source, package_paths)
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    # show also configurations that cannot be closed, so that users see why
    q = closed_start(model, pose, None, must_close=False)
    return _OfMotion(model, None, q, {"fluid": tb.Water() if water else None})


def _mode_of(
    source: str, pose: str | None, mode: int, water: bool, package_paths: list[Path]
) -> _OfMotion:
    """Return a robot that oscillates in one of its modes."""
    import tiburon as tb
    from tiburon.cli.run_options import start_of
    from tiburon.simulation.modes import film_of_mode

    model, _ = load_quietly(source, package_paths)
    fluid = tb.Water() if water else None
    found = tb.modes(model, start_of(model, pose, None), fluid=fluid)
    time, q, shown = film_of_mode(found, mode)
    return _OfMotion(model, time, q, {**shown, "fluid": fluid})
