"""What a run was and how it ended, in words, numbers and figures: for pages and notebooks."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tiburon.errors import RunFileError
from tiburon.model import Water
from tiburon.version import installed_version
from tiburon.viewer.plots import plot_dataset
from tiburon.viewer.report import (
    Section,
    Verdict,
    facts_markup,
    figure_markup,
    report_html,
    table_markup,
)
from tiburon.written_file import write_file

if TYPE_CHECKING:
    import xarray

    from tiburon.results.trajectory import Trajectory

__all__ = ["facts_of", "run_as_html", "write_run_report"]

MOST_ROWS = 12
"""Events or cases that are listed one by one."""

MOST_FIGURE_CURVES = 60
"""Beyond so many curves a figure says nothing."""


def facts_of(run: "Trajectory") -> dict[str, str]:
    """Return what a run was, by name."""
    model = run.model
    facts = {
        "robot": f"{model.name}: {_count(len(model.bodies), 'body', 'bodies')}, "
        f"{_count(model.nv, 'freedom', 'freedoms')}, {model.total_mass:.4g} kg",
        "surroundings": _surroundings(run),
    }
    if len(run):
        first, last = run.span
        facts["recorded"] = f"{len(run)} times from {first:.6g} to {last:.6g} s"
    if run.batch:
        facts["cases"] = " x ".join(map(str, run.batch))
    setup = run.header.setup
    method, dt = setup.get("method"), setup.get("dt")
    if method is not None:
        facts["method"] = f"{method}" + (f", step {dt:.6g} s" if isinstance(dt, float) else "")
    elements = run.header.elements
    if elements:
        kinds = Counter(type(element).__name__ for element in elements)
        facts["acting on it"] = ", ".join(f"{n} x {k}" if n > 1 else k for k, n in kinds.items())
    facts["ended"] = _ending(run)
    return facts


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _surroundings(run: "Trajectory") -> str:
    world = run.header.world
    if world is None:
        return "not in the file"
    g = float(np.linalg.norm(world.gravity))
    words = f"gravity {g:.4g} m/s²" if g else "no gravity"
    fluid: Water | None = world.fluid
    if fluid is not None:
        words += f", water of {fluid.density:.5g} kg/m³"
        current: Any = fluid.current
        if isinstance(current, tuple):
            speed = float(np.linalg.norm(current))
            words += f", current {speed:.3g} m/s" if speed else ""
        else:
            words += f", {type(current).__name__}"
    return words


def _ending(run: "Trajectory") -> str:
    if not run.outcomes:
        return "a part of a run, which does not say how it ended"
    if not run.batch:
        return str(run.outcomes[0].message)
    kinds = Counter(outcome.status for outcome in run.outcomes)
    return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())


def _energies(run: "Trajectory") -> "xarray.DataArray":
    """Return kinetic, potential and total energy as one quantity."""
    import xarray

    kinetic, potential = run.get("kinetic_energy"), run.get("potential_energy")
    # potential energy counts from anywhere: from the start it can be seen beside the other
    rise = potential - potential.isel(time=0)
    parts = {"kinetic": kinetic, "potential, from the start": rise, "together": kinetic + rise}
    found = xarray.concat(list(parts.values()), dim="part").assign_coords(part=list(parts))
    found.name = "energy"
    found.attrs = {"long_name": "energy", "units": "J"}
    return found.transpose("time", ..., "part")


def run_as_html(run: "Trajectory") -> str:
    """Return a small table for notebooks."""
    from html import escape

    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(text)}</td></tr>"
        for name, text in facts_of(run).items()
    )
    names = ", ".join(run.names)
    return (
        f"<div><b>Trajectory of {escape(run.model.name)}</b><table>{rows}</table>"
        f"<small>run.data, run.plot(...), run.report(...); run.get: {escape(names)}</small></div>"
    )


def write_run_report(run: "Trajectory", path: Path) -> Path:
    """Write one page about a run, and return its path.

    Raises:
        RunFileError: If it cannot be written.
    """
    page = _page(run)
    write_file(path, page, RunFileError)
    return path


def _page(run: "Trajectory") -> str:
    sections = [Section("The run", body=facts_markup(facts_of(run)))]
    bad = [(k, o) for k, o in enumerate(run.outcomes) if not o.ok]
    if run.batch and bad:
        rows = [(k, o.status, f"{o.time:.6g} s", o.message) for k, o in bad[:MOST_ROWS]]
        more = f"The first {MOST_ROWS} of {len(bad)}." if len(bad) > MOST_ROWS else ""
        body = table_markup(rows, ("case", "status", "time", "what happened"))
        sections.append(Section("Cases that did not end well", more, body))
    if run.events:
        listed = run.events[:MOST_ROWS]
        case = ["case"] if run.batch else []
        happened = [(e.name, f"{e.time:.9g} s", *(e.case for _ in case)) for e in listed]
        more = f"The first {MOST_ROWS} of {len(run.events)}." if len(run.events) > MOST_ROWS else ""
        body = table_markup(happened, ("event", "time", *case))
        sections.append(Section("Events", more, body))
    verdicts = _verdicts(run)
    if len(run):
        sections += _figures(run)
    about = run.model.about.strip()
    return report_html(
        f"{run.model.name}: simulated motion",
        about,
        verdicts,
        sections,
        f"Made by tiburon {installed_version()}.",
    )


def _verdicts(run: "Trajectory") -> list[Verdict]:
    found = []
    if not run.outcomes:
        found.append(Verdict("unknown", "outcome", "bad"))
    elif not run.batch:
        found.append(Verdict(run.status, "outcome", "good" if run.outcomes[0].ok else "bad"))
    else:
        good = sum(outcome.ok for outcome in run.outcomes)
        mood = "good" if good == len(run.outcomes) else "bad"
        found.append(Verdict(f"{good} of {len(run.outcomes)}", "cases ended well", mood))
    if len(run):
        first, last = run.span
        found.append(Verdict(f"{last - first:.4g} s", "simulated time"))
    found.append(Verdict(str(run.model.nv), "freedoms"))
    if len(run) and run.header.world is not None:
        energy = run.get("kinetic_energy").values
        if np.isfinite(energy).any():
            found.append(Verdict(f"{np.nanmax(energy):.4g} J", "largest kinetic energy"))
    return found


def _figures(run: "Trajectory") -> list[Section]:
    marks: dict[str, list[float]] = {}
    if not run.batch:
        for event in run.events[:MOST_ROWS]:
            marks.setdefault(event.name, []).append(event.time)
    arrays: dict[str, Any] = {name: run.get(name) for name in ("joint_position", "joint_velocity")}
    # commands that nobody gave are not worth a line
    others = tuple(range(run.u.ndim - 1))
    given = np.flatnonzero(np.any(np.nan_to_num(run.u), axis=others))
    if len(given):
        arrays["command"] = run.get("command").isel(actuator=given)
    if run.header.world is not None:
        arrays["energy"] = _energies(run)
    found = []
    for name, array in arrays.items():
        title = str(array.attrs["long_name"])
        over = ("time", *run.header.case_dimensions)
        count = int(np.prod([n for along, n in array.sizes.items() if along not in over]))
        if count > MOST_FIGURE_CURVES:
            text = f"{count} curves are too many for a figure; draw some with run.plot(labels=...)."
            found.append(Section(title.capitalize(), text))
            continue
        figure = plot_dataset({name: array}, marks=marks)
        drawn = figure_markup(figure, f"{title} of {run.model.name} over time")
        found.append(Section(title.capitalize(), body=drawn))
    return found
