"""`tiburon models`: the robots that ship."""

from typing import Annotated, Any

import typer

WIDE = 120
"""Columns from which on descriptions stand beside the numbers."""

EXAMPLES = """
tiburon models
tiburon models underwater
tiburon models --json
"""


def run(
    like: Annotated[
        str, typer.Argument(help="Show only robots whose name or description holds this.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the robots that ship: topology, degrees of freedom, mass, loops, description.

    Load one with tiburon.load("name"); `tiburon info NAME` describes it. Degrees of freedom are
    those of the tree, without loop constraints.
    """
    rows = [row for row in _rows() if like.casefold() in f"{row['name']} {row['about']}".casefold()]
    if as_json:
        import json

        print(json.dumps(rows, indent=2))
        return
    if not rows:
        print(f"no robot that ships is like {like!r}; `tiburon models` lists all")
        raise typer.Exit(1)
    _print_table(rows)


def _rows() -> list[dict[str, Any]]:
    """Return one entry for each robot."""
    import tiburon as tb
    from tiburon import zoo
    from tiburon.formats.description import topology

    rows = []
    for name in zoo.names():
        model = tb.load(name)
        rows.append(
            {
                "name": name,
                "topology": topology(model).partition(",")[0],
                "nv": model.nv,
                "mass": model.total_mass,
                "loops": len(model.loops),
                "about": model.about,
            }
        )
    return rows


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from tiburon.cli.loading import open_console

    console = open_console()
    # on a narrow terminal the description goes below its row
    wide = console.width >= WIDE
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("robot", style="cyan", no_wrap=True)
    table.add_column("built as", no_wrap=True)
    table.add_column("freedoms", justify="right", no_wrap=True)
    table.add_column(Text("mass [kg]"), justify="right", no_wrap=True)
    table.add_column("loops", justify="right", no_wrap=True)
    if wide:
        table.add_column("what it is")
    for row in rows:
        cells = [
            row["name"],
            row["topology"],
            str(row["nv"]),
            f"{row['mass']:.4g}",
            str(row["loops"] or ""),
        ]
        table.add_row(*cells, *([row["about"]] if wide else []))
    if wide:
        console.print(table)
        return
    # the table alone knows its widths: print it, and a description after each of its lines
    with console.capture() as captured:
        console.print(table)
    header, *lines = captured.get().splitlines()
    print(header)
    for line, row in zip(lines, rows, strict=True):
        print(line)
        console.print(Text(f"  {row['about']}", style="dim"))
