"""Print figures as a table, and keep them as a file."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.figure import Figure
from benchmarks.timing import Timing


def format_time(seconds: float) -> str:
    """Write a duration with three digits and the unit that fits, such as "1.89 us"."""
    for unit, factor in (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3)):
        # 999.5 would be rounded to 1000
        if seconds < 999.5 * factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def format_quantity(value: float, unit: str) -> str:
    """Write a duration in seconds ("s") or a size in bytes ("B") for people."""
    return format_time(value) if unit == "s" else f"{value / 1e6:.3g} MB"


def format_side(timing: Timing, unit: str) -> str:
    """Write minimum and median."""
    return f"{format_quantity(timing.minimum, unit)} / {format_quantity(timing.median, unit)}"


def format_bound(figure: Figure, bound: float | None) -> str:
    """Write a bound of a figure, or nothing if there is none."""
    if bound is None:
        return ""
    return format_quantity(bound, figure.unit) if figure.peer is None else f"{bound:g}x"


def format_ratio(figure: Figure) -> str:
    """Write how many times faster than the peer, or nothing without one."""
    return "" if figure.ratio is None else f"{figure.ratio:.2f}x"


def format_bounds(figure: Figure) -> str:
    """Write the bound of a figure and what is wished for beyond it."""
    must = format_bound(figure, figure.must)
    return f"{must} (aim {format_bound(figure, figure.aim)})" if figure.aim is not None else must


def notes_of(figures: Sequence[Figure]) -> list[str]:
    """List what is to be known about figures, each remark once."""
    return list(dict.fromkeys(figure.note for figure in figures if figure.note))


def print_run(run: Mapping[str, str], console: Console) -> None:
    """Print machine, versions and command."""
    width = max(len(key) for key in run)
    for key, value in run.items():
        console.print(f"{key:<{width}}  {value}", markup=False, highlight=False, soft_wrap=True)


def print_figures(title: str, figures: Sequence[Figure], console: Console) -> None:
    """Print one family of figures; times are minimum / median of one evaluation."""
    table = Table(box=None, pad_edge=False)
    table.add_column("what")
    for heading in ("ours", "peer", "ratio", "must", "aim"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for figure in figures:
        peer = ""
        if figure.peer is not None:
            peer = f"{figure.peer_name} {format_side(figure.peer, figure.unit)}"
        missed = figure.met is False
        table.add_row(
            figure.name,
            format_side(figure.ours, figure.unit),
            peer,
            format_ratio(figure),
            format_bound(figure, figure.must),
            format_bound(figure, figure.aim),
            f"[bold red]{figure.verdict}[/]" if missed else figure.verdict,
        )
    # a title of the table itself would be broken to the table's width
    console.print(f"\n{title}", style="bold", markup=False, highlight=False)
    console.print(table)
    for note in notes_of(figures):
        console.print(f"  {note}", markup=False, highlight=False)


def write_json(
    path: Path, run: Mapping[str, str], families: Mapping[str, Sequence[Figure]]
) -> None:
    """Write everything measured: times in seconds, sizes in bytes."""
    content = {
        "run": dict(run),
        "figures": {
            name: [asdict(figure) | {"ratio": figure.ratio, "met": figure.met} for figure in family]
            for name, family in families.items()
        },
    }
    replace_text(path, json.dumps(content, indent=2) + "\n")


def replace_text(path: Path, text: str) -> None:
    """Write a file; what it held before stays whole if the write fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
