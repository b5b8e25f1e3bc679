"""`tiburon view`: a robot or a saved run in the browser."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tiburon.results.trajectory import Trajectory

EXAMPLES = """
tiburon view panda --pose ready
tiburon view arm.urdf --show frames --show labels
tiburon view run.zarr --camera follow
tiburon view run.zarr --html dive.html
tiburon view double_pendulum --mode 1
"""

RUN_ENDINGS = (".zarr", ".zip")
"""How saved runs are named; everything else is a robot."""


def run(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NAME|RUN",
            help="A robot file, the name of one that ships, or a saved run: run.zarr, run.zip.",
        ),
    ],
    html: Annotated[
        Path | None,
        typer.Option(help="Write a page that plays without a server instead; needs no viser."),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the live scene; if taken, the next free one.")
    ] = 8080,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Another name by which browsers reach the live scene; may be repeated."),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Whether to open a browser.")
    ] = True,
    camera: Annotated[
        str | None, typer.Option(help="How to look at first: orbit, follow, on-board.")
    ] = None,
    show: Annotated[
        list[str] | None,
        typer.Option(help="frames, labels, centers, forces, trails, water; may be repeated."),
    ] = None,
    speed: Annotated[float | None, typer.Option(help="Of the replay; 1 for real time.")] = None,
    pose: Annotated[
        str | None, typer.Option(help="A named position of a robot that stands still.")
    ] = None,
    mode: Annotated[
        int | None, typer.Option(help="Let a robot swing in one of the modes of `tb.modes`.")
    ] = None,
    water: Annotated[
        bool, typer.Option("--water", help="Put a robot that stands still into water.")
    ] = False,
    package_path: Annotated[
        list[Path] | None, typer.Option(help="Folder of packages for meshes; may be repeated.")
    ] = None,
) -> None:
    """Look at a robot, or replay a saved run, in the browser.

    The live scene needs viser (pip install 'tiburon[view]') and runs until Ctrl-C; without viser, a
    page is written and opened instead.
    """
    import tiburon as tb

    if html is not None and not html.parent.is_dir():
        raise tb.RunFileError(html, f"there is no folder {str(html.parent)!r}; make it first")
    options: dict[str, Any] = {"camera": camera, "show": show, "speed": speed}
    options = {name: value for name, value in options.items() if value is not None}
    shown: _OfRun | _OfMotion
    if Path(source).suffix in RUN_ENDINGS:
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
        """Show it, live if that can be."""
        from tiburon.viewer.live import has_viser

        if has_viser():
            options = {**options, **server, "wait": False}
        _stay(self._run.view(browser=browser, **options))


class _OfMotion:
    """A robot and how it moves, if it does."""

    def __init__(self, model: Any, time: Any, q: Any, given: dict[str, Any]) -> None:
        self._motion = (model, time, q)
        self._given = given

    def save(self, path: Path, options: dict[str, Any]) -> Path:
        """Write the page."""
        from tiburon.viewer import save_html

        return save_html(path, *self._motion, **(self._given | options))

    def open(self, options: dict[str, Any], server: dict[str, Any], browser: bool) -> None:
        """Show it, live if that can be."""
        import tempfile
        import webbrowser

        from tiburon.viewer.live import has_viser

        if not has_viser():
            path = self.save(Path(tempfile.mkdtemp(prefix="tiburon-")) / "view.html", options)
            if browser:
                webbrowser.open(path.as_uri())
            _stay(path)
            return
        from tiburon.viewer import LiveReplay

        replay = LiveReplay(*self._motion, **(self._given | options | server))
        if browser:
            webbrowser.open(replay.url)
        _stay(replay)


def _stay(shown: Any) -> None:
    """Say where it is, and stay while a live scene is served."""
    if isinstance(shown, Path):
        print(f"wrote {shown}; for the live scene, pip install 'tiburon[view]'")
        return
    print(f"look at {shown.url}; Ctrl-C ends it", flush=True)
    shown.wait()


def _robot_of(source: str, pose: str | None, water: bool, package_paths: list[Path]) -> _OfMotion:
    """Return a robot that stands still."""
    import sys

    import tiburon as tb
    from tiburon.cli.assembling import closed_start
    from tiburon.cli.loading import load_quietly

    model, warnings = load_quietly(source, package_paths)
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    # a robot that cannot be closed is looked at to find out why
    q = closed_start(model, pose, None, must_close=False)
    return _OfMotion(model, None, q, {"fluid": tb.Water() if water else None})


def _mode_of(
    source: str, pose: str | None, mode: int, water: bool, package_paths: list[Path]
) -> _OfMotion:
    """Return a robot that swings in one of its modes."""
    import tiburon as tb
    from tiburon.cli.loading import load_quietly
    from tiburon.cli.run_options import start_of
    from tiburon.simulation.modes import film_of_mode

    model, _ = load_quietly(source, package_paths)
    fluid = tb.Water() if water else None
    found = tb.modes(model, start_of(model, pose, None), fluid=fluid)
    time, q, shown = film_of_mode(found, mode)
    return _OfMotion(model, time, q, {**shown, "fluid": fluid})
