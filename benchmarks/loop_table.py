"""Figures of closed mechanisms as rows: one per code, with its accuracy beside its time."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.figure import Accuracy, Figure
from benchmarks.report import format_bounds, format_quantity, format_ratio, notes_of

LOOP_HEADINGS = (
    "",
    "code",
    "time",
    "ratio",
    "constraint residual",
    "energy error",
    "bound",
    "verdict",
)
"""Columns of the table."""


def has_loops(figures: Sequence[Figure]) -> bool:
    """Return whether all figures have an accuracy of our side."""
    return bool(figures) and all(figure.accuracy is not None for figure in figures)


def format_residual(accuracy: Accuracy | None) -> str:
    """Format the constraint residual; empty where it is not known."""
    return "" if accuracy is None else f"{accuracy.residual:.1e} {accuracy.unit}"


def format_energy(accuracy: Accuracy | None) -> str:
    """Format the relative energy error; empty where there is none."""
    return "" if accuracy is None or accuracy.energy is None else f"{accuracy.energy:.1e}"


def _bounds(figure: Figure) -> str:
    words = [format_bounds(figure)] if figure.must is not None else []
    kept = figure.accuracy
    if kept is not None and kept.residual_must is not None:
        words.append(f"{kept.residual_must:g} {kept.unit}")
    if kept is not None and kept.energy_must is not None:
        words.append(f"energy {kept.energy_must:g}")
    return ", ".join(words)


def loop_rows(figures: Sequence[Figure]) -> Iterator[list[str]]:
    """Format figures as rows, minima only.

    Figures that follow each other with the same name share the row of our side.

    Args:
        figures: All with an accuracy of our side.

    Yields:
        Cells below `LOOP_HEADINGS`.
    """
    last = ""
    for figure in figures:
        judged = [_bounds(figure), figure.verdict]
        if figure.name != last:
            last = figure.name
            yield [
                figure.name,
                "ours",
                format_quantity(figure.ours.minimum, figure.unit),
                "",
                format_residual(figure.accuracy),
                format_energy(figure.accuracy),
                *(judged if figure.peer is None else ("", "")),
            ]
        if figure.peer is not None:
            yield [
                "",
                figure.peer_name,
                format_quantity(figure.peer.minimum, figure.unit),
                format_ratio(figure),
                format_residual(figure.peer_accuracy),
                format_energy(figure.peer_accuracy),
                *judged,
            ]


def print_loops(title: str, figures: Sequence[Figure], console: Console) -> None:
    """Print one family of closed mechanisms; times are minima of one evaluation."""
    table = Table(box=None, pad_edge=False)
    for heading in LOOP_HEADINGS:
        right = heading in ("time", "ratio")
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)
    for row in loop_rows(figures):
        table.add_row(*row[:-1], f"[bold red]{row[-1]}[/]" if row[-1] == "MISSED" else row[-1])
    console.print(f"\n{title}", style="bold", markup=False, highlight=False)
    console.print(table)
    for note in notes_of(figures):
        console.print(f"  {note}", markup=False, highlight=False)
