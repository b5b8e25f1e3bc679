"""A run in words and numbers: for the terminal, and as JSON for scripts."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from tiburon.results.trajectory import Trajectory

MOST_ROWS = 14
"""Variables shown in the terminal; a file has them all."""


def as_data(run: "Trajectory") -> dict[str, Any]:
    """Return how a run ended, as plain data."""
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
    """Return the energy in the first and last good row [J]; None for batches."""
    import numpy as np

    if run.batch or not len(run) or run.header.world is None:
        return None
    rows = np.flatnonzero(np.isfinite(run.q).all(axis=-1))
    if not len(rows):
        return None
    energy = np.asarray(run.get("total_energy").values)
    return float(energy[rows[0]]), float(energy[rows[-1]])


def print_run(run: "Trajectory") -> None:
    """Print where a run began and ended, and its energy."""
    from tiburon.cli.loading import open_console

    if run.batch or not len(run) or run.outcome is None:
        return
    print()
    open_console().print(_table(run))
    hidden = run.model.nq - MOST_ROWS
    if hidden > 0:
        print(f"and {hidden} more; --csv, --store and --json have them all")
    energy = energy_change(run)
    if energy is not None:
        print(f"\nenergy of the robot: {energy[0]:.6g} J at first, {energy[1]:.6g} J at last")
    for event in run.events[:MOST_ROWS]:
        print(f"event {event.name!r} at {event.time:.9g} s")


def _table(run: "Trajectory") -> "Table":
    """Return positions at both ends, and what they passed in between."""
    import numpy as np
    from rich.table import Table
    from rich.text import Text

    from tiburon.results.header import position_units

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("position", no_wrap=True)
    for heading in ("at first", "at last", "least", "largest"):
        table.add_column(heading, justify="right", no_wrap=True)
    q = run.q[np.isfinite(run.q).all(axis=-1)]
    last = run.outcome.q
    units = position_units(run.model)
    for k, name in enumerate(run.model.q_names[:MOST_ROWS]):
        unit = "" if units[k] == "1" else f" [{units[k]}]"
        numbers = (q[0, k], last[k], q[:, k].min(), q[:, k].max())
        table.add_row(Text(f"{name}{unit}"), *(f"{x + 0.0:.5g}" for x in numbers))
    return table
