"""`tiburon report`: one page about a saved run, with figures; summaries of runs."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from tiburon.results.trajectory import Trajectory


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
"""Quantities of each figure, by file name."""


def run(
    path: Annotated[Path, typer.Argument(metavar="RUN", help="Saved run: run.zarr or run.zip.")],
    page: Annotated[
        Path | None,
        typer.Argument(metavar="[PAGE]", help="Page to write; beside the run by default."),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Directory for the figures as separate files (.png).")
    ] = None,
    replay: Annotated[Path | None, typer.Option(help="Write a replay page.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the recorded rows as a table.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the outcome as JSON; no page unless named.")
    ] = False,
) -> None:
    """Write one page about a saved run: settings, outcome, figures.

    Works for finished, interrupted and killed runs. Existing files are replaced only with
    --force.
    """
    import tiburon as tb
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
    """Raise for existing files before anything is computed; devices and pipes are fine."""
    import tiburon as tb

    for file in files:
        if file is not None and (file.is_file() or file.is_dir()):
            raise tb.RunFileError(
                file, "exists already; choose another name, or pass --force to replace it"
            )


MAX_VARIABLES = 14
"""Variables and events shown in the terminal; files contain all."""


def as_data(run: "Trajectory") -> dict[str, Any]:
    """Return the outcome of a run as plain data."""
    outcome = run.outcome
    found: dict[str, Any] = {
        "robot": run.model.name,
        "status": run.status if not run.batch else run.status.tolist(),
        "recorded_rows": len(run),
    }
    if len(run):
        found["span"] = list(run.span)
    if outcome is not None:
        found |= {
            "message": outcome.message,
            "time": outcome.time,
            "event": outcome.event,
            "body": outcome.body,
            "quantity": outcome.quantity,
        }
    if outcome is not None and not run.batch:
        states = run.header.column("x")
        labels = () if states is None else states.labels or ()
        found |= {
            "q": dict(zip(run.model.q_names, outcome.q.tolist(), strict=True)),
            "v": dict(zip(run.model.v_names, outcome.v.tolist(), strict=True)),
            "x": dict(zip(labels, outcome.x.tolist(), strict=False)),
        }
    found["events"] = [{"name": event.name, "time": event.time} for event in run.events]
    energy = energy_change(run)
    if energy is not None:
        found["energy"] = dict(zip(("start", "end"), energy, strict=True))
    return found


def energy_change(run: "Trajectory") -> tuple[float, float] | None:
    """Return the energy in the first and last finite row [J]; None for batches."""
    import numpy as np

    from tiburon.results.quantities import computed_values, quantity_of

    if run.batch or not len(run) or run.header.world is None:
        return None
    rows = np.flatnonzero(np.isfinite(run.q).all(axis=-1))
    if not len(rows):
        return None
    # without xarray, whose import takes longer than a short run
    energy = computed_values(run, quantity_of(run, "total_energy"), {})
    return float(energy[rows[0]]), float(energy[rows[-1]])


def print_run(run: "Trajectory") -> None:
    """Print the initial and final configuration of a run, and its energy."""
    from tiburon.cli.console import open_console
    from tiburon.results.quantities import touches

    if run.batch or not len(run) or run.outcome is None:
        return
    print()
    open_console().print(_table(run))
    hidden = run.model.nq - MAX_VARIABLES
    if hidden > 0:
        print(f"and {hidden} more; --csv, --store and --json contain all")
    energy = energy_change(run)
    if energy is not None:
        print(f"\nenergy of the robot: initial {energy[0]:.6g} J, final {energy[1]:.6g} J")
    if touches(run.header.elements):
        print(f"\n{run.contact_summary()}")
    for event in run.events[:MAX_VARIABLES]:
        print(f"event {event.name!r} at {event.time:.9g} s")


def _table(run: "Trajectory") -> "Table":
    """Return the table of initial, final, smallest and largest joint positions."""
    import numpy as np
    from rich.table import Table
    from rich.text import Text

    from tiburon.results.header import position_units

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("position", no_wrap=True)
    for heading in ("initial", "final", "min", "max"):
        table.add_column(heading, justify="right", no_wrap=True)
    q = run.q[np.isfinite(run.q).all(axis=-1)]
    last = run.outcome.q
    units = position_units(run.model)
    for k, name in enumerate(run.model.q_names[:MAX_VARIABLES]):
        unit = "" if units[k] == "1" else f" [{units[k]}]"
        values = (q[0, k], last[k], q[:, k].min(), q[:, k].max())
        table.add_row(Text(f"{name}{unit}"), *(f"{x + 0.0:.5g}" for x in values))
    return table
