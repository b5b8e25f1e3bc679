"""Print figures as a table, and keep them as a file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.figure import Figure


def format_time(seconds: float) -> str:
    """Write a duration with three digits and the unit that fits, such as "1.89 us"."""
    for unit, factor in (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3)):
        # 999.5 would be rounded to 1000
        if seconds < 999.5 * factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def _verdict(figure: Figure) -> str:
    if figure.met is None:
        return ""
    return "met" if figure.met else "[bold red]MISSED[/]"


def _bound(figure: Figure) -> str:
    if figure.must is None:
        return ""
    return format_time(figure.must) if figure.peer is None else f"{figure.must:g}x"


def print_run(run: Mapping[str, str], console: Console) -> None:
    """Print machine, versions and command."""
    width = max(len(key) for key in run)
    for key, value in run.items():
        console.print(f"{key:<{width}}  {value}", markup=False, highlight=False, soft_wrap=True)


def print_figures(title: str, figures: Sequence[Figure], console: Console) -> None:
    """Print one family of figures; times are minimum / median of one evaluation."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("what")
    for heading in ("ours", "peer", "ratio", "must"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for figure in figures:
        ours = f"{format_time(figure.ours.minimum)} / {format_time(figure.ours.median)}"
        peer = ratio = ""
        if figure.peer is not None and figure.ratio is not None:
            times = f"{format_time(figure.peer.minimum)} / {format_time(figure.peer.median)}"
            peer, ratio = f"{figure.peer_name} {times}", f"{figure.ratio:.2f}x"
        table.add_row(figure.name, ours, peer, ratio, _bound(figure), _verdict(figure))
    console.print()
    console.print(table)


def write_json(
    path: Path, run: Mapping[str, str], families: Mapping[str, Sequence[Figure]]
) -> None:
    """Write everything measured, times in seconds."""
    content = {
        "run": dict(run),
        "figures": {
            name: [asdict(figure) | {"ratio": figure.ratio, "met": figure.met} for figure in family]
            for name, family in families.items()
        },
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")
