"""`tiburon report`: one page about a run that was saved, and its figures."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """
tiburon report run.zarr
tiburon report run.zarr page.html --figures figures --replay replay.html
tiburon report run.zarr --force
tiburon report run.zarr --json
"""

FIGURES = {
    "positions": ("joint_position",),
    "velocities": ("joint_velocity",),
    "commands": ("command",),
    "energy": ("kinetic_energy", "potential_energy", "total_energy"),
}
"""Figures by the name of their file, and what they show."""


def run(
    path: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run that was saved: run.zarr, or run.zip.")
    ],
    page: Annotated[
        Path | None,
        typer.Argument(metavar="[PAGE]", help="The page to write; beside the run by default."),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Directory for the figures as files of their own (.png).")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(help="Write a page that replays the run in a browser.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the recorded rows as a table.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print how the run ended as JSON; no page unless named.")
    ] = False,
) -> None:
    """Write one page about a saved run: what it was, how it ended, figures.

    Works for runs that ended, that were interrupted, and that were killed. Files that exist are
    replaced only with --force.
    """
    import tiburon as tb
    from tiburon.cli.run_words import as_data
    from tiburon.cli.simulate import check_folders, make_folder
    from tiburon.results.report import facts_of

    check_folders((page, replay, csv))
    if page is None and not as_json:
        page = path.with_suffix(".html")
    drawn = {} if figures is None else {name: figures / f"{name}.png" for name in FIGURES}
    if not force:
        _check_new((page, replay, csv, *drawn.values()))
    done = tb.load_run(path)
    written: list[Path] = []
    if page is not None:
        written.append(done.report(page))
    if figures is not None and len(done):
        make_folder(figures)
        for name, shown in FIGURES.items():
            if name == "commands" and done.header.column("u") is None:
                continue
            done.plot(*shown, path=drawn[name])
            written.append(drawn[name])
    if replay is not None:
        written.append(done.save_html(replay))
    if csv is not None:
        done.to_csv(csv)
        written.append(csv)
    if as_json:
        import json

        print(json.dumps({**as_data(done), "files": [*map(str, written)]}, indent=2))
        return
    for name, text in facts_of(done).items():
        print(f"{name + ':':<14} {text}")
    for file in written:
        print(f"wrote {file}")


def _check_new(files: Iterable[Path | None]) -> None:
    """Refuse to replace files before anything is computed; devices and pipes hold nothing."""
    import tiburon as tb

    for file in files:
        if file is not None and (file.is_file() or file.is_dir()):
            raise tb.RunFileError(
                file, "exists already; choose another name, or pass --force to replace it"
            )
