"""The published figures: one file, and the pages and charts that are written from it.

`docs/benchmarks.json` holds every family of figures with the run that measured it. The tables and
charts of `docs/benchmarks.md`, the tables of topics and the rows of the README are written from
this file alone, so that they cannot disagree.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.chart import Bar, bar_chart
from benchmarks.figure import Accuracy, Figure
from benchmarks.loop_table import LOOP_HEADINGS, has_loops, loop_rows
from benchmarks.report import (
    format_bounds,
    format_quantity,
    format_ratio,
    notes_of,
    replace_text,
)
from benchmarks.timing import Timing

ROOT = Path(__file__).resolve().parents[1]

BEGIN = "<!-- figures: written by `make bench`, not by hand -->"
END = "<!-- end of figures -->"

GROUPS = {
    "Dynamics": (
        "one-call",
        "library-call",
        "inverse",
        "batch",
        "threads",
        "humanoid",
        "large",
        "derivatives",
        "inverse-kinematics",
        "lanes",
    ),
    "Water": ("water",),
    "Runs over time": ("simulation", "sweeps", "learning", "processes", "frameworks"),
    "Closed mechanisms": ("loops", "loop-runs"),
    "Contact": ("contact", "compliant-contact", "gymnasium", "contact-derivative"),
    "Load sharing": ("load-sharing", "load-sharing-robots"),
    "First calls": ("compile", "cached-call", "import", "loading"),
}
"""Families of figures by section of the page."""

TOPICS = {"processes.md": "processes"}
"""Pages of topics that show one family of figures, too."""

SUMMARY = (
    ("one-call", "panda", "forward dynamics, panda (7 DoF), one call"),
    ("batch", "quadruped", "forward dynamics, quadruped (18 DoF), batch of 4096, per state"),
    ("large", "256 links, one call", "forward dynamics, chain of 256 links, one call"),
    ("derivatives", "panda, one call", "forward dynamics with derivatives, panda, one call"),
    ("simulation", "panda, rk4, 4096 cases", "simulation, panda, RK4, 4096 cases, per step"),
    (
        "simulation",
        "quadruped, rk4, 4096 cases",
        "simulation, quadruped, RK4, 4096 cases, per step",
    ),
    (
        "contact",
        "quadruped trotting, 4096 cases, one thread",
        "rigid contact: quadruped trotting, 4096 cases, per step",
    ),
    (
        "loading",
        "panda",
        "URDF file to first result, kernel cached, imports done, panda",
    ),
)
"""Rows of the README: family, figure, and what they are called there."""

THROUGHPUT = (
    ("simulation", "panda, rk4, 4096 cases", "panda, RK4"),
    ("simulation", "panda, semi_implicit_euler, 4096 cases", "panda, semi-implicit Euler"),
    ("simulation", "quadruped, rk4, 4096 cases", "quadruped in the air, RK4"),
    (
        "simulation",
        "quadruped, semi_implicit_euler, 4096 cases",
        "quadruped in the air, semi-implicit Euler",
    ),
    (
        "contact",
        "quadruped trotting, 4096 cases, one thread",
        "quadruped trotting on the ground, rigid contact",
    ),
    (
        "learning",
        "4096 quadrupeds that trot, one thread, step of 1 ms",
        "the same as an environment: observations, rewards and restarts in the time",
    ),
)
"""Rows of the page of throughput: family, figure of one step of one robot, and its name there."""

HEADINGS = ("", "ours", "peer", "ratio", "bound", "verdict")


@dataclass(frozen=True, slots=True)
class Family:
    """Figures of one measurement, and the run that took them."""

    title: str
    run: Mapping[str, str]
    """Machine, versions and command."""

    figures: tuple[Figure, ...]


class MissingPlaceError(Exception):
    """A page without a place for figures, which must not be overwritten."""


def _without_defaults(value: Any) -> Any:
    """Return nested dictionaries without empty entries, which are defaults."""
    if not isinstance(value, dict):
        return value
    return {k: _without_defaults(x) for k, x in value.items() if x is not None and x != ""}


def read_figures(path: Path) -> dict[str, Family]:
    """Read the published figures, by name of their measurement."""
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    found = {}
    for name, entry in content.get("families", {}).items():
        figures = []
        for given in entry["figures"]:
            values = dict(given)
            for side in ("ours", "peer"):
                if side in values:
                    values[side] = Timing(**values[side])
            for kept in ("accuracy", "peer_accuracy"):
                if kept in values:
                    values[kept] = Accuracy(**values[kept])
            figures.append(Figure(**values))
        run = content["runs"][entry["run"]]
        found[name] = Family(entry["title"], run, tuple(figures))
    return found


def write_figures(path: Path, families: Mapping[str, Family]) -> None:
    """Write the published figures; runs are listed once."""
    runs: list[Mapping[str, str]] = []
    entries = {}
    for name, family in families.items():
        if family.run not in runs:
            runs.append(family.run)
        entries[name] = {
            "title": family.title,
            "run": runs.index(family.run),
            "figures": [_without_defaults(asdict(figure)) for figure in family.figures],
        }
    text = json.dumps({"runs": runs, "families": entries}, indent=1)
    replace_text(path, f"{text}\n")


def publish(families: Mapping[str, Family], order: Sequence[str], root: Path = ROOT) -> list[Path]:
    """Replace families in the file of published figures, and write all pages from it.

    Args:
        families: Measured to their end, by name.
        order: Names of all measurements; figures of others are dropped.
        root: The checkout.

    Returns:
        The files written.
    """
    path = root / "docs" / "benchmarks.json"
    known = {**read_figures(path), **families}
    write_figures(path, {name: known[name] for name in order if name in known})
    return [path, *render(root)]


def render(root: Path = ROOT) -> list[Path]:
    """Write tables and charts of all pages from the file of published figures."""
    written = []
    for path, text in rendered(root).items():
        replace_text(path, text)
        written.append(path)
    return written


def rendered(root: Path = ROOT) -> dict[Path, str]:
    """Return the text of every file that shows published figures.

    Raises:
        MissingPlaceError: If a page has no marks.
    """
    families = read_figures(root / "docs" / "benchmarks.json")
    images = root / "docs" / "images"
    page, readme = root / "docs" / "benchmarks.md", root / "README.md"
    files: dict[Path, str] = {
        page: _between_marks(page, page_section(families)),
        readme: _between_marks(readme, readme_section(families)),
    }
    for name, shown in TOPICS.items():
        topic = root / "docs" / name
        files[topic] = _between_marks(topic, topic_section(shown, families))
    throughput = root / "docs" / "throughput.md"
    files[throughput] = _between_marks(throughput, throughput_section(families))
    charts: dict[str, list[Bar | str]] = {"benchmarks.svg": [*_bars_of(summary_rows(families))]}
    for title, names in GROUPS.items():
        rows = charts[_chart_name(title)] = []
        for family in (families[name] for name in names if name in families):
            bars = _bars_of((figure.name, figure) for figure in family.figures)
            rows += [family.title, *bars] if bars else []
    return files | {images / name: bar_chart(rows) for name, rows in charts.items() if rows}


def page_section(families: Mapping[str, Family]) -> str:
    """Return the sections of the page: chart, tables, notes, and what was measured with what."""
    figures = [figure for family in families.values() for figure in family.figures]
    missed = sum(figure.met is False for figure in figures)
    bounded = sum(figure.met is not None for figure in figures)
    parts = [
        "Times are minima, ratios those of minima. Results were compared before any time was "
        f"taken. Of {bounded} bounds {bounded - missed} are met, {missed} missed."
    ]
    for title, names in GROUPS.items():
        present = {name: families[name] for name in names if name in families}
        if not present:
            continue
        parts.append(f"## {title}")
        if _bars_of((figure.name, figure) for f in present.values() for figure in f.figures):
            parts.append(f"![Ratios of {title.lower()}](images/{_chart_name(title)})")
        for family in present.values():
            parts.append(f"### {family.title}")
            parts += _tables(family.figures)
            notes = notes_of(family.figures)
            if notes:
                parts.append("\n".join(f"- {note}" for note in notes))
        for run in _distinct(family.run for family in present.values()):
            of = [name for name, family in present.items() if family.run == run]
            parts.append(_run_text(of, run))
    return "\n\n".join(parts)


def topic_section(name: str, families: Mapping[str, Family]) -> str:
    """Return the tables of one family for the page of its topic.

    Args:
        name: Name of its measurement.
        families: All published figures.
    """
    if name not in families:
        return f"No figures are published yet; `tiburon bench {name}` measures them."
    family = families[name]
    notes = "\n".join(f"- {note}" for note in notes_of(family.figures))
    return "\n\n".join([*_tables(family.figures), notes, _run_text([name], family.run)])


def throughput_section(families: Mapping[str, Family]) -> str:
    """Return the table of steps per second, and what they were measured with."""
    lines = [_row(("4096 robots at once", "time of a step", "steps/s")), "|---|---|---|"]
    for label, figure in _chosen(THROUGHPUT, families):
        rate = 1.0 / figure.ours.minimum
        time = format_quantity(figure.ours.minimum, figure.unit)
        lines.append(_row((label, time, f"{rate * 1e-6:.3g} million")))
    present = [name for name in _distinct(row[0] for row in THROUGHPUT) if name in families]
    runs = [_run_text([name], families[name].run) for name in present]
    return "\n\n".join(["\n".join(lines), *runs])


def summary_rows(families: Mapping[str, Family]) -> list[tuple[str, Figure]]:
    """Return the rows of the README that were measured, with their names there."""
    return _chosen(SUMMARY, families)


def _chosen(
    rows: Sequence[tuple[str, str, str]], families: Mapping[str, Family]
) -> list[tuple[str, Figure]]:
    """Return the figures that were measured of a selection, with their names there."""
    return [
        (label, figure)
        for name, what, label in rows
        for figure in (families[name].figures if name in families else ())
        if figure.name == what
    ]


def readme_section(families: Mapping[str, Family]) -> str:
    """Return chart and table of the README."""
    rows = summary_rows(families)
    lines = [_row([label, *_cells(figure)]) for label, figure in rows]
    chart = "![How many times faster than other codes](docs/images/benchmarks.svg)"
    table = "\n".join([_row(HEADINGS), "|---" * len(HEADINGS) + "|", *lines])
    run = families[SUMMARY[0][0]].run if SUMMARY[0][0] in families else {}
    machine = f"{run.get('processor', '')}, {run.get('vector', '').partition(' (')[0]}"
    peers = f"Pinocchio {run.get('pin', '')}, MuJoCo {run.get('mujoco', '')}"
    return f"Measured on {machine}, against {peers}.\n\n{chart}\n\n{table}"


def _cells(figure: Figure) -> list[str]:
    peer = ""
    if figure.peer is not None:
        peer = f"{figure.peer_name} {format_quantity(figure.peer.minimum, figure.unit)}"
    ours = format_quantity(figure.ours.minimum, figure.unit)
    return [ours, peer, format_ratio(figure), format_bounds(figure), figure.verdict]


def _tables(figures: Sequence[Figure]) -> Iterator[str]:
    """Return the tables of a family: of loops, of functions by robots, of all else."""
    if has_loops(figures):
        lines = [_row(LOOP_HEADINGS), "|---" * len(LOOP_HEADINGS) + "|"]
        yield "\n".join([*lines, *map(_row, loop_rows(figures))])
        return
    grid = {}
    for figure in figures:
        if figure.row:
            grid[figure.row, figure.column] = figure
    rest = [figure for figure in figures if not figure.row]
    if rest:
        lines = [_row([figure.name, *_cells(figure)]) for figure in rest]
        yield "\n".join([_row(HEADINGS), "|---" * len(HEADINGS) + "|", *lines])
    if grid:
        columns = list(_distinct(column for _, column in grid))
        lines = [_row(["", *columns]), "|---" * (len(columns) + 1) + "|"]
        for row in _distinct(row for row, _ in grid):
            cells = [grid.get((row, column)) for column in columns]
            lines.append(_row([f"`{row}`", *map(_grid_cell, cells)]))
        yield "\n".join(lines)


def _grid_cell(figure: Figure | None) -> str:
    if figure is None:
        return ""
    text = format_quantity(figure.ours.minimum, figure.unit)
    return f"**{text}**" if figure.met is False else text


def _bars_of(named: Any) -> list[Bar]:
    """Return the bars of figures that are compared with a peer."""
    return [
        Bar(name, figure.peer_name, figure.ratio, figure.must)
        for name, figure in named
        if figure.ratio is not None
    ]


def _run_text(names: Sequence[str], run: Mapping[str, str]) -> str:
    listed = "; ".join(f"{key}: {value}" for key, value in run.items() if key != "command")
    return f'Measured by `make bench ARGS="{" ".join(names)}"`. {listed}.'


def _chart_name(title: str) -> str:
    return f"benchmarks-{title.lower().replace(' ', '-')}.svg"


def _distinct(values: Any) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _between_marks(path: Path, section: str) -> str:
    """Return the text of a page with another section between its marks."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise MissingPlaceError(
            f"{path} has no place for the figures; put these two lines where they belong:\n"
            f"{BEGIN}\n{END}"
        )
    return f"{before}{BEGIN}\n{section}\n\n{END}{after}"
