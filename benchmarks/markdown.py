"""The figures as a Markdown section, for the README."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.figure import Figure
from benchmarks.report import (
    format_bound,
    format_energy,
    format_gap,
    format_quantity,
    format_ratio,
    notes_of,
)

BEGIN = "<!-- figures: made by `tiburon bench --markdown`, not by hand -->"
END = "<!-- end of figures -->"

HEADINGS = ("", "ours", "peer", "ratio", "bound", "verdict")

LOOP_HEADINGS = (
    "",
    "code",
    "time",
    "ours is faster",
    "left of loops",
    "energy error",
    "bound",
    "verdict",
)
"""Where loops are closed: a row for each code, with what it kept beside its time."""


class MissingPlaceError(Exception):
    """A file that exists but has no place for the figures, and must not be overwritten."""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _bounds(figure: Figure) -> str:
    must = format_bound(figure, figure.must)
    return f"{must} (aim {format_bound(figure, figure.aim)})" if figure.aim is not None else must


def markdown_table(families: Mapping[str, Sequence[Figure]], titles: Mapping[str, str]) -> str:
    """Write all families as one table, minima only, each opened by a row with its title.

    Args:
        families: Figures by the name of their measurement.
        titles: What each measurement compares, by name.
    """
    lines = [_row(HEADINGS), "|---|---|---|---|---|---|"]
    for name, figures in families.items():
        lines.append(_row([f"**{titles[name]}**", *[""] * (len(HEADINGS) - 1)]))
        for figure in figures:
            peer = ""
            if figure.peer is not None:
                peer = f"{figure.peer_name} {format_quantity(figure.peer.minimum, figure.unit)}"
            cells = [
                figure.name,
                format_quantity(figure.ours.minimum, figure.unit),
                peer,
                format_ratio(figure),
                _bounds(figure),
                figure.verdict,
            ]
            lines.append(_row(cells))
    return "\n".join(lines)


def _loop_bounds(figure: Figure) -> str:
    kept = figure.accuracy
    assert kept is not None
    words = [_bounds(figure)] if figure.must is not None else []
    if kept.gap_must is not None:
        words.append(f"{kept.gap_must:g} {kept.unit}")
    if kept.energy_must is not None:
        words.append(f"energy {kept.energy_must:g}")
    return ", ".join(words)


def loop_table(figures: Sequence[Figure]) -> str:
    """Write figures of closed mechanisms: one row per code, minima only.

    Figures that follow each other with the same name share the row of our side.

    Args:
        figures: All with an accuracy of our side.
    """
    lines = [_row(LOOP_HEADINGS), "|---" * len(LOOP_HEADINGS) + "|"]
    last = ""
    for figure in figures:
        alone = figure.peer is None
        if figure.name != last:
            ours = [
                figure.name,
                "ours",
                format_quantity(figure.ours.minimum, figure.unit),
                "",
                format_gap(figure.accuracy),
                format_energy(figure.accuracy),
                _loop_bounds(figure) if alone else "",
                figure.verdict if alone else "",
            ]
            lines.append(_row(ours))
            last = figure.name
        if figure.peer is not None:
            peer = [
                "",
                figure.peer_name,
                format_quantity(figure.peer.minimum, figure.unit),
                format_ratio(figure),
                format_gap(figure.peer_accuracy),
                format_energy(figure.peer_accuracy),
                _loop_bounds(figure),
                figure.verdict,
            ]
            lines.append(_row(peer))
    return "\n".join(lines)


def markdown_tables(
    families: Mapping[str, Sequence[Figure]], titles: Mapping[str, str]
) -> list[str]:
    """Write all families: one table, then one for each family of closed mechanisms.

    Args:
        families: Figures by the name of their measurement.
        titles: What each measurement compares, by name.
    """
    closed = {
        name
        for name, figures in families.items()
        if figures and all(figure.accuracy is not None for figure in figures)
    }
    open_families = {name: figures for name, figures in families.items() if name not in closed}
    parts = [markdown_table(open_families, titles)] if open_families else []
    for name, figures in families.items():
        if name in closed:
            parts += [f"**{titles[name]}**", loop_table(figures)]
    return parts


def markdown_section(
    run: Mapping[str, str],
    families: Mapping[str, Sequence[Figure]],
    titles: Mapping[str, str],
) -> str:
    """Write the table with all that a reader needs to judge and repeat it.

    Args:
        run: Machine, versions and command, by name.
        families: Figures by the name of their measurement.
        titles: What each measurement compares, by name.
    """
    figures = [figure for family in families.values() for figure in family]
    missed = sum(figure.met is False for figure in figures)
    bounded = sum(figure.met is not None for figure in figures)
    spread = max(
        (figure.ours.median / figure.ours.minimum for figure in figures if figure.unit == "s"),
        default=1.0,
    )
    parts = [
        f"Made by `{run['command']}`. Times are minima; medians are at most {spread:.2f} times as "
        "long on our side. Ratios are of minima. Results were compared before any time was taken. "
        f"Of {bounded} bounds {bounded - missed} are met, {missed} missed.",
        *markdown_tables(families, titles),
    ]
    notes = notes_of(figures)
    if notes:
        parts.append("\n".join(f"- {note}" for note in notes))
    parts.append("; ".join(f"{key}: {value}" for key, value in run.items() if key != "command"))
    return "\n\n".join(parts)


def _split(path: Path) -> tuple[str, str]:
    """Return what an existing file holds before and after its marks."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise MissingPlaceError(
            f"{path} has no place for the figures; put these two lines where they belong:\n"
            f"{BEGIN}\n{END}"
        )
    return before, after


def check_place(path: Path) -> None:
    """Make sure that figures can be written, before hours go into them.

    Raises:
        MissingPlaceError: If the file exists without the marks.
    """
    if path.exists():
        _split(path)


def write_markdown(path: Path, section: str) -> None:
    """Put the section into a file: between its marks if the file exists, else as a new file.

    Args:
        path: The file, such as README.md.
        section: Markdown text.

    Raises:
        MissingPlaceError: If the file exists without the marks.
    """
    before, after = _split(path) if path.exists() else ("", "\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{before}{BEGIN}\n\n{section}\n\n{END}{after}", encoding="utf-8")
