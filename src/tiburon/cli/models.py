"""`tiburon models`: the robots of the zoo."""

from typing import Annotated, Any

import typer

from tiburon.cli.console import AsJson

WIDE_COLUMNS = 120
"""Terminal width from which descriptions are a column of the table."""

EXAMPLES = """
tiburon models
tiburon models underwater
tiburon models --json
"""


def run(
    like: Annotated[
        str, typer.Argument(help="Show only robots whose name or description contains this.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the robots of the zoo: topology, degrees of freedom, mass, loops, description.

    Load one with tiburon.load("name"); `tiburon info NAME` describes it. Degrees of freedom are
    those of the tree, without loop constraints.
    """
    rows = [row for row in _rows() if like.casefold() in f"{row['name']} {row['about']}".casefold()]
    if as_json:
        import json

        print(json.dumps(rows, indent=2))
        return
    if not rows:
        print(f"no robot of the zoo matches {like!r}; `tiburon models` lists all")
        raise typer.Exit(1)
    _print_table(rows)


def _rows() -> list[dict[str, Any]]:
    """Return one row per robot."""
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

    from tiburon.cli.console import open_console

    console = open_console()
    # on a narrow terminal the description follows below its row
    wide = console.width >= WIDE_COLUMNS
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("robot", style="cyan", no_wrap=True)
    table.add_column("topology", no_wrap=True)
    table.add_column("DoF", justify="right", no_wrap=True)
    table.add_column(Text("mass [kg]"), justify="right", no_wrap=True)
    table.add_column("loops", justify="right", no_wrap=True)
    if wide:
        table.add_column("description")
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
    # render the table for its column widths, then add a description after each line
    with console.capture() as captured:
        console.print(table)
    header, *lines = captured.get().splitlines()
    print(header)
    for line, row in zip(lines, rows, strict=True):
        print(line)
        console.print(Text(f"  {row['about']}", style="dim"))
