"""Reports and replays of runs: facts, figures and pages, for files, browsers and notebooks."""

import html
import sys
import tempfile
import webbrowser
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tiburon.actuation.contact_element import ContactElement
from tiburon.arrays import Array
from tiburon.errors import RunFileError
from tiburon.functions.library import GEOMETRY
from tiburon.hydro.thrust import thrust_of
from tiburon.model import Water, World
from tiburon.notebook import notebook_table
from tiburon.results.quantities import shown_model, touches
from tiburon.version import installed_version
from tiburon.viewer.plots import plot_dataset
from tiburon.viewer.replay import MAX_CURVES, default_plots, replay_html
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
    from tiburon.viewer.live_replay import LiveReplay

MAX_TABLE_ROWS = 12
"""Events or cases listed in a table."""

MAX_FIGURE_CURVES = 60
"""Curves above which a figure is unreadable and is left out."""

NOTEBOOK_FRAMES = 900
NOTEBOOK_CASES = 6
"""Limits of the replay in a notebook, which stores the page with every output."""


# -- facts -----------------------------------------------------------------------------------------


def facts_of(run: "Trajectory") -> dict[str, str]:
    """Return a summary of a run as texts by name."""
    model = run.model
    bodies = f"{len(model.bodies)} {'body' if len(model.bodies) == 1 else 'bodies'}"
    facts = {
        "robot": f"{model.name}: {bodies}, {model.nv} DoF, {model.total_mass:.4g} kg",
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
        facts["elements"] = ", ".join(f"{n} x {k}" if n > 1 else k for k, n in kinds.items())
    facts["outcome"] = _ending(run)
    return facts


def _surroundings(run: "Trajectory") -> str:
    world = run.header.world
    if world is None:
        return "not in the file"
    g = float(np.linalg.norm(world.gravity))
    text = f"gravity {g:.4g} m/s²" if g else "no gravity"
    fluid: Water | None = world.fluid
    if fluid is not None:
        text += f", water of {fluid.density:.5g} kg/m³"
        current: Any = fluid.current
        if isinstance(current, tuple):
            speed = float(np.linalg.norm(current))
            text += f", current {speed:.3g} m/s" if speed else ""
        else:
            text += f", {type(current).__name__}"
    return text


def _ending(run: "Trajectory") -> str:
    if not run.outcomes:
        return "part of a run, without an outcome"
    if not run.batch:
        return str(run.outcomes[0].message)
    kinds = Counter(outcome.status for outcome in run.outcomes)
    return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())


def _energies(run: "Trajectory") -> "dict[str, xarray.DataArray]":
    """Return kinetic energy, and potential energy relative to the start [J]."""
    potential = run.get("potential_energy")
    return {
        "kinetic": run.get("kinetic_energy"),
        "potential, from the start": potential - potential.isel(time=0),
    }


# -- reports ---------------------------------------------------------------------------------------


def run_as_html(run: "Trajectory") -> str:
    """Return a small table for notebooks."""
    names = ", ".join(run.names)
    note = f"run.data, run.plot(...), run.report(...); run.get: {names}"
    return notebook_table(f"Trajectory of {run.model.name}", facts_of(run).items(), note=note)


def write_run_report(run: "Trajectory", path: Path) -> Path:
    """Write a report of a run, and return its path.

    Raises:
        RunFileError: If it cannot be written.
    """
    sections = [Section("The run", body=facts_markup(facts_of(run)))]
    failed = [(k, o) for k, o in enumerate(run.outcomes) if not o.ok]
    if run.batch and failed:
        rows = [(k, o.status, f"{o.time:.6g} s", o.message) for k, o in failed]
        head = ("case", "status", "time", "message")
        sections.append(_table("Unsuccessful cases", rows, head))
    if run.events:
        case = ["case"] if run.batch else []
        events = [(e.name, f"{e.time:.9g} s", *(e.case for _ in case)) for e in run.events]
        sections.append(_table("Events", events, ("event", "time", *case)))
    if len(run) and touches(run.header.elements) and run.system is not None:
        sections.append(_contact_table(run))
    verdicts = _verdicts(run)
    if len(run):
        sections += _figures(run)
    page = report_html(
        f"{run.model.name}: simulated motion",
        run.model.about.strip(),
        verdicts,
        sections,
        f"Made by tiburon {installed_version()}.",
    )
    write_file(path, page, RunFileError)
    return path


def _contact_table(run: "Trajectory") -> Section:
    """Return a section with the contact points that touched."""
    found = run.contact_summary()
    rows = [
        (name, *(f"{100.0 * share:.1f} %" for share in shares), f"{f:.4g} N", f"{p:.3g} m")
        for name, *shares, f, p in zip(
            found.names,
            found.touching,
            found.sticking,
            found.slipping,
            found.peak_force,
            found.slip,
            strict=True,
        )
        if shares[0] > 0.0
    ]
    head = ("contact", "touching", "sticking", "slipping", "peak force", "slip path")
    return _table("Contacts", rows, head)


def _table(title: str, rows: list[tuple[Any, ...]], head: tuple[str, ...]) -> Section:
    """Return a section with the first rows of a table."""
    count = len(rows)
    text = f"The first {MAX_TABLE_ROWS} of {count}." if count > MAX_TABLE_ROWS else ""
    return Section(title, text, table_markup(rows[:MAX_TABLE_ROWS], head))


def _verdicts(run: "Trajectory") -> list[Verdict]:
    found = []
    if not run.outcomes:
        found.append(Verdict("unknown", "outcome", "bad"))
    elif not run.batch:
        found.append(Verdict(run.status, "outcome", "good" if run.outcomes[0].ok else "bad"))
    else:
        good = sum(outcome.ok for outcome in run.outcomes)
        mood = "good" if good == len(run.outcomes) else "bad"
        found.append(Verdict(f"{good} of {len(run.outcomes)}", "cases successful", mood))
    if len(run):
        first, last = run.span
        found.append(Verdict(f"{last - first:.4g} s", "simulated time"))
    found.append(Verdict(str(run.model.nv), "degrees of freedom"))
    if len(run) and run.header.world is not None:
        energy = run.get("kinetic_energy").values
        if np.isfinite(energy).any():
            found.append(Verdict(f"{np.nanmax(energy):.4g} J", "largest kinetic energy"))
    return found


def _figures(run: "Trajectory") -> list[Section]:
    marks: dict[str, list[float]] = {}
    if not run.batch:
        for event in run.events[:MAX_TABLE_ROWS]:
            marks.setdefault(event.name, []).append(event.time)
    arrays: dict[str, Any] = {name: run.get(name) for name in ("joint_position", "joint_velocity")}
    # commands that are zero throughout are left out
    used = np.flatnonzero(np.any(np.nan_to_num(run.u), axis=tuple(range(run.u.ndim - 1))))
    if len(used):
        arrays["command"] = run.get("command").isel(actuator=used)
    if run.header.world is not None:
        arrays["energy"] = _energy_figure(run)
    found = []
    for name, array in arrays.items():
        title = str(array.attrs["long_name"])
        over = ("time", *run.header.case_dimensions)
        count = int(np.prod([n for along, n in array.sizes.items() if along not in over]))
        if count > MAX_FIGURE_CURVES:
            text = f"{count} curves are too many for a figure; draw some with run.plot(labels=...)."
            found.append(Section(title.capitalize(), text))
            continue
        figure = plot_dataset({name: array}, marks=marks)
        drawn = figure_markup(figure, f"{title} of {run.model.name} over time")
        found.append(Section(title.capitalize(), body=drawn))
    return found


def _energy_figure(run: "Trajectory") -> "xarray.DataArray":
    """Return kinetic, potential and total energy as one quantity."""
    import xarray

    parts = _energies(run)
    kinetic, potential = parts.values()
    parts["total"] = kinetic + potential
    found = xarray.concat(list(parts.values()), dim="part").assign_coords(part=list(parts))
    found.name = "energy"
    found.attrs = {"long_name": "energy", "units": "J"}
    return found.transpose("time", ..., "part")


# -- replays ---------------------------------------------------------------------------------------


def replay_of(run: "Trajectory", **options: Any) -> str:
    """Return the replay page of a run as text; options as in `tiburon.viewer.replay_html`.

    Thrusters show their thrust, contacts their forces; the plots show positions, speeds, thrust,
    contact forces and energy.
    """
    given = _scene_options(run)
    if "plots" not in options:
        given["plots"] = _plots(run, given.get("thrust"), given.get("contacts"))
    return replay_html(shown_model(run), run.time, run.q, v=run.v, **(given | options))


def _scene_options(run: "Trajectory") -> dict[str, Any]:
    """Return the options that replay pages and the live scene share."""
    if not len(run):
        raise RunFileError(
            run.place, "holds no recorded times to replay; let it run before it is shown"
        )
    given: dict[str, Any] = {"world": run.header.world or World()}
    thrust = _thrust(run)
    if thrust is not None:
        given["thrust"] = thrust
    contacts = _contacts(run)
    if contacts is not None:
        given["contacts"] = contacts
    return given


def _contacts(run: "Trajectory") -> Array | None:
    """Return points, forces, modes, normals and friction of the contacts of the first case.

    None without contact.
    """
    if not touches(run.header.elements):
        return None
    shown = run
    for _ in run.batch:
        shown = shown.part(case=0)
    point, force, mode, normal = (
        shown.get(f"contact_{name}").values for name in ("point", "force", "mode", "normal")
    )
    element = next(x for x in run.header.elements if isinstance(x, ContactElement))
    friction = [
        candidate.material.static_friction
        for candidate in element.candidates
        for _ in candidate.point_names
    ]
    parts = [
        point,
        force,
        mode[..., None],
        normal,
        np.broadcast_to(friction, mode.shape)[..., None],
    ]
    return np.concatenate(parts, axis=-1)


def save_replay(run: "Trajectory", path: Path, **options: Any) -> Path:
    """Write the replay page of a run, and return its path.

    Raises:
        RunFileError: If it cannot be written.
    """
    write_file(path, replay_of(run, **options), RunFileError)
    return path


def view_run(
    run: "Trajectory",
    *,
    live: bool | None = None,
    browser: bool = True,
    wait: bool | None = None,
    **options: Any,
) -> "LiveReplay | Path":
    """Show a run in the live scene, or as a replay page where viser is missing.

    Args:
        run: The run.
        live: Whether to use the live scene; by default, where viser is installed.
        browser: Whether to open a browser.
        wait: Whether to wait until Ctrl-C, since the scene ends with the process; by default,
            unless Python is interactive.
        **options: As in `tiburon.viewer.LiveReplay`, or as in `tiburon.viewer.replay_html`.

    Returns:
        The live replay, or the path of the page.
    """
    from tiburon.viewer.live import has_viser

    if live is None:
        live = has_viser()
    if not live:
        # the browser reads the file later: it stays until the system clears temporary files
        folder = Path(tempfile.mkdtemp(prefix="tiburon-"))
        path = save_replay(run, folder / "replay.html", **options)
        if browser:
            webbrowser.open(path.as_uri())
        return path
    from tiburon.viewer.live_replay import LiveReplay

    replay = LiveReplay(shown_model(run), run.time, run.q, **(_scene_options(run) | options))
    if browser:
        webbrowser.open(replay.url)
    return wait_if_script(replay, wait)


def wait_if_script(replay: "LiveReplay", wait: bool | None) -> "LiveReplay":
    """Wait for Ctrl-C if `wait` is true, or if it is None and Python is not interactive."""
    if wait is None:
        # at a prompt and in a notebook Python continues after the last line
        wait = not (hasattr(sys, "ps1") or sys.flags.interactive or "ipykernel" in sys.modules)
    if wait:
        replay.wait()
    return replay


def notebook_frame(run: "Trajectory") -> str:
    """Return the replay page in a frame, for notebooks.

    "" for a run without valid rows, or of robots whose geometry differs.
    """
    if not len(run) or not np.isfinite(run.q).all(axis=-1).any():
        return ""
    if GEOMETRY in run.header.case_parameters and run.batch:
        return ""
    page = replay_of(run, max_frames=NOTEBOOK_FRAMES, cases=NOTEBOOK_CASES)
    return (
        "<iframe style='width:100%;height:520px;border:0;border-radius:8px' "
        f"sandbox='allow-scripts' title='replay' srcdoc='{html.escape(page)}'></iframe>"
    )


def _thrust(run: "Trajectory") -> Array | None:
    """Return the thrust of the model's thrusters [N]: a recorded state, or that of the command."""
    states, commands = _labels(run, "x"), _labels(run, "u")
    columns = []
    for thruster in run.model.thrusters:
        state = f"{thruster.name}.thrust"
        if state in states:
            columns.append(run.x[..., states.index(state)])
        elif thruster.name in commands:
            command = run.u[..., commands.index(thruster.name)]
            columns.append(np.asarray(thrust_of(thruster, command), dtype=np.float64))
        else:
            return None
    return np.stack(columns, axis=-1) if columns else None


def _labels(run: "Trajectory", key: str) -> list[str]:
    column = run.header.column(key)
    return [] if column is None or column.labels is None else list(column.labels)


def _plots(run: "Trajectory", thrust: Array | None, contacts: Array | None) -> Mapping[str, Any]:
    """Return curves of the first case: joint motion, thrust, contact forces, and energy."""
    count = len(run)
    model = run.model

    def first(values: Array, width: int) -> Array:
        return values.reshape(count, -1, width)[:, 0] if width else np.empty((count, 0))

    found: dict[str, Any] = dict(
        default_plots(model, first(run.q, model.nq), first(run.v, model.nv))
    )
    if thrust is not None:
        rows = first(thrust, len(model.thrusters))
        found["thrust [N]"] = {t.name: rows[:, k] for k, t in enumerate(model.thrusters)}
    if contacts is not None:
        sizes = np.linalg.norm(contacts[..., 3:6], axis=-1)
        names = run.get("contact_force").contact.values.tolist()
        touched = [(name, sizes[:, k]) for k, name in enumerate(names) if sizes[:, k].any()]
        found["contact force [N]"] = dict(touched[:MAX_CURVES])
    if run.header.world is not None and not run.batch:
        found["energy [J]"] = {name: part.values for name, part in _energies(run).items()}
    return found
