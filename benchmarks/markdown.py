"""The figures as a Markdown section, for the README."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.figure import Figure
from benchmarks.loop_table import LOOP_HEADINGS, has_loops, loop_rows
from benchmarks.report import format_bounds, format_quantity, format_ratio, notes_of

BEGIN = "<!-- figures: made by `tiburon bench --markdown`, not by hand -->"
END = "<!-- end of figures -->"

HEADINGS = ("", "ours", "peer", "ratio", "bound", "verdict")


class MissingPlaceError(Exception):
    """A file that exists but has no place for the figures, and must not be overwritten."""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


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
                format_bounds(figure),
                figure.verdict,
            ]
            lines.append(_row(cells))
    return "\n".join(lines)


def loop_table(figures: Sequence[Figure]) -> str:
    """Write figures of closed mechanisms: one row per code, minima only.

    Args:
        figures: All with an accuracy of our side.
    """
    lines = [_row(LOOP_HEADINGS), "|---" * len(LOOP_HEADINGS) + "|"]
    return "\n".join([*lines, *map(_row, loop_rows(figures))])


def markdown_tables(
    families: Mapping[str, Sequence[Figure]], titles: Mapping[str, str]
) -> list[str]:
    """Write all families: one table, then one for each family of closed mechanisms.

    Args:
        families: Figures by the name of their measurement.
        titles: What each measurement compares, by name.
    """
    closed = {name for name, figures in families.items() if has_loops(figures)}
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
