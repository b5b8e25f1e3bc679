"""`tiburon reproduce`: published values beside computed ones, with a verdict for each."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from tiburon.reproduce.cells import CellTable
    from tiburon.reproduce.everything import Reproduced

application = typer.Typer(
    help="Compare published values with computed ones.", no_args_is_help=True, rich_markup_mode=None
)

EXAMPLES = """
tiburon reproduce operation-counts --summary
tiburon reproduce added-mass --coarse
tiburon reproduce iftomm bricard andrews
tiburon reproduce contact-statistics
tiburon reproduce nahon E9 E14
tiburon reproduce khan torques penalty
tiburon reproduce mcmillan table-2 lift
tiburon reproduce all --html reproduced.html
"""


SummaryOption = Annotated[
    bool, typer.Option("--summary", help="Print one line per table, and cells that differ.")
]
PageOption = Annotated[Path | None, typer.Option(help="Write tables and figures as an HTML page.")]
"""Options that several subcommands share."""


@application.callback()
def _group() -> None:
    """Group the tables as subcommands."""


@application.command("operation-counts")
def print_operation_counts(
    largest: Annotated[
        int, typer.Option(min=2, max=40, help="Largest number of joints in the tables.")
    ] = 12,
    summary: SummaryOption = False,
) -> None:
    """Compare operation counts of our algorithms with published ones.

    Rules of the sources: divisions and square roots count as multiplications; sines, cosines and
    operations on constants are free; a fused multiply-add counts as one product and one sum.
    Floating bodies are counted with three angles, as in the sources, and with the Free joint of
    models. Counts below the published ones are called fewer. Exits with 1 if a count by the rules
    of the sources exceeds the published one.
    """
    from tiburon.reproduce.operation_counts import cell_tables

    _print_cells(tuple(cell_tables(largest)), summary)


@application.command("added-mass")
def print_added_mass(
    coarse: Annotated[
        bool, typer.Option("--coarse", help="Skip 2000 panels, which take most of the time.")
    ] = False,
) -> None:
    """Compute the added mass of known bodies with 500, 980 and 2000 panels.

    Ellipsoids are compared with Lamb's closed forms, regular solids with published values. Values
    are relative to the displaced water; panel corners lie on the ellipsoid, so that panels enclose
    less volume. Exits with 1 if the error of the finest mesh exceeds 1.5 %.
    """
    from tiburon.reproduce.solids import PARTS, added_mass_table

    _print_cells([added_mass_table(PARTS[:-1] if coarse else PARTS)])


@application.command("contact-statistics")
def print_contact_statistics(
    problems: Annotated[
        int, typer.Option(min=20, max=100000, help="Random problems per number of contacts.")
    ] = 400,
) -> None:
    """Compare searches for contact forces with the statistics of their source.

    Featherstone 1987, section 9.8.1: the pruned search tries about 1.5^n of 2^n patterns, and
    choosing the contact with the most negative acceleration is right in 98 to 99 % of all cases
    for random problems, 95 to 100 % for single rigid bodies. Problems are random with a fixed seed.
    Exits with 1 if a value differs from the published one by more than three standard errors.
    """
    from tiburon.reproduce.contact_statistics import statistics_tables

    _print_cells(statistics_tables(problems))


@application.command("nahon")
def print_nahon(
    examples: Annotated[
        list[str] | None, typer.Argument(help="Examples such as E9 or S1; all if none.")
    ] = None,
    summary: SummaryOption = False,
) -> None:
    """Compare force distribution with the tables and examples of its source.

    Nahon 1991: tables 5.1, 6.1 to 6.7 and 7.1, examples E1 to E16, and studies S1 to S3 of what it
    leaves to later work. References are printed in the source, derived from its data, or
    surrogate where its data are lost; what is lost is listed.
    Ratios of times are measured in this run and not judged. Linear programs need SciPy. Exits with
    1 if a value differs.
    """
    from tiburon.reproduce.nahon import nahon_tables

    _print_cells(nahon_tables(examples or ()), summary, source="Nahon 1991")


@application.command("khan")
def print_khan(
    parts: Annotated[
        list[str] | None,
        typer.Argument(help="Tables such as torques, penalty or complement; all if none."),
    ] = None,
    summary: SummaryOption = False,
    html: PageOption = None,
) -> None:
    """Compare closed-chain formulations with their source: a platform on three legs.

    Khan 2002, chapters 2 to 5. Each value is published, corrected with a reason, or lost in the
    scan; errors of unstable runs are not judged. Exits with 1 if a value differs.
    """
    from tiburon.reproduce.khan import khan_page, khan_tables

    tables = khan_tables(parts or ())
    if html is not None:
        _write_page(html, khan_page(tables))
    _print_cells(tables, summary, source="Khan 2002")


@application.command("mcmillan")
def print_mcmillan(
    parts: Annotated[
        list[str] | None,
        typer.Argument(help="Tables such as table-2, dual-arm or lift; all if none."),
    ] = None,
    summary: SummaryOption = False,
    html: PageOption = None,
) -> None:
    """Compare arms on a load with their source: operation counts, accelerations, a lift.

    McMillan 1994, chapters 2 to 4. Counts must not be above the published ones in sum; those below
    are called fewer. The source has no model data: arms, grips and way of the lift are ours, and
    its errors are shown. Exits with 1 if a value differs.
    """
    from tiburon.reproduce.mcmillan import mcmillan_page, mcmillan_tables

    tables = mcmillan_tables(parts or ())
    if html is not None:
        _write_page(html, mcmillan_page(tables))
    _print_cells(tables, summary, source="McMillan 1994")


@application.command("all")
def reproduce_all(
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="A reproduction such as khan; may be repeated."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write all tables as one HTML page.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write all cells as a JSON file.")] = None,
) -> None:
    """Run every reproduction: reference, its origin, corrected value, ours, verdict.

    Prints a line per reproduction and every value that differs; pages and JSON files hold all
    cells. Times are not judged; a reproduction whose extra is not installed is named as skipped.
    Takes some minutes. Exits with 1 if a value differs.
    """
    from rich.console import Console

    from tiburon.reproduce.cells import count_cells
    from tiburon.reproduce.everything import page, reproduce

    console = Console(stderr=True)
    with console.status("") as status:
        found = reproduce(
            only or (),
            lambda name, number, count: status.update(f"{name}: {number + 1} of {count}"),
        )
    if html is not None:
        _write_page(html, page(found))
    if json is not None:
        _write_page(json, _cells_as_json(found))
    for group in found:
        line = f"skipped: {group.skipped}" if group.skipped else count_cells(group.tables).summary
        print(f"{group.name} ({group.source}): {line}")
        for table in group.tables:
            for cell in table.cells:
                if cell.good is False:
                    print(f"  {table.name}: {cell.quantity}: {cell.reference}, ours {cell.ours}")
    tables = [table for group in found for table in group.tables]
    counts = count_cells(tables)
    cells = sum(len(table.cells) for table in tables)
    print(f"\n{len(tables)} tables, {cells} cells; {counts.summary}")
    raise typer.Exit(1 if counts.differing else 0)


def _cells_as_json(found: "Sequence[Reproduced]") -> str:
    """Return all cells of all tables as JSON text."""
    import json

    return json.dumps(
        [
            {
                "reproduction": group.name,
                "source": group.source,
                "skipped": group.skipped,
                "tables": [
                    {
                        "name": table.name,
                        "title": table.title,
                        "remarks": table.remarks,
                        "cells": [{**c._asdict(), "verdict": c.verdict} for c in table.cells],
                    }
                    for table in group.tables
                ],
            }
            for group in found
        ],
        indent=1,
    )


def _write_page(path: Path, text: str) -> None:
    from tiburon.errors import RunFileError
    from tiburon.written_file import write_file

    write_file(path, text, RunFileError)
    print(f"wrote {path}")


def _print_cells(
    tables: Sequence["CellTable"], summary: bool = False, *, source: str = ""
) -> NoReturn:
    """Print tables of cells with their verdicts, and exit: 1 if a value differs."""
    from tiburon.reproduce.cells import HEAD, cell_rows, count_cells

    for table in tables:
        print(f"{', '.join(filter(None, (source, table.name)))}: {table.title}")
        if summary:
            print(f"  {count_cells([table]).summary}")
        cells = [cell for cell in table.cells if not summary or cell.good is False]
        rows = cell_rows(cells)
        if rows:
            lines = rows if summary else [HEAD, *rows]
            # a column for corrections only where there are some
            kept = [k for k, name in enumerate(HEAD) if name != "corrected" or _some(rows, k)]
            widths = {k: max(len(line[k]) for line in lines) for k in kept[:-1]}
            for line in lines:
                texts = (f"{line[k]:<{widths[k]}}" for k in kept[:-1])
                print("  " + "  ".join((*texts, line[-1])).rstrip())
        for reason in dict.fromkeys(cell.reason for cell in cells if cell.corrected):
            print(f"  corrected: {reason}")
        for remark in () if summary else table.remarks:
            print(f"  {remark}")
        print()
    counts = count_cells(tables)
    print(
        f"{counts.summary}: times, measures without a reference, what is lost or depends on lost "
        "data"
    )
    raise typer.Exit(1 if counts.differing else 0)


def _some(rows: Sequence[Sequence[str]], column: int) -> bool:
    return any(row[column] for row in rows)


@application.command("iftomm")
def print_benchmarks(
    problems: Annotated[
        list[str] | None,
        typer.Argument(help="four-bar-2, four-bar-40, andrews, bricard or governor; all if none."),
    ] = None,
) -> None:
    """Run mechanisms of the IFToMM multibody benchmark library against references.

    Ten seconds each: positions, energy drift, loop-closure errors, and wall-clock time with cached
    code. The library publishes curves; reference digits come from the IVP test set, closed forms
    and equations in minimal coordinates. Exits with 1 if a value exceeds its tolerance.
    """
    from tiburon.reproduce.iftomm import benchmarks

    _print_cells(benchmarks(problems or ()), source="IFToMM library")
