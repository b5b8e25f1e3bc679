"""`tiburon reproduce`: published values beside computed ones, with a verdict for each."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from tiburon.reproduce.cells import CellTable
    from tiburon.reproduce.everything import Reproduced
    from tiburon.reproduce.iftomm import Benchmark
    from tiburon.reproduce.operation_counts import CountTable

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
    summary: Annotated[
        bool, typer.Option("--summary", help="Print one line per table instead of its rows.")
    ] = False,
) -> None:
    """Compare operation counts of our algorithms with published ones.

    Rules of the sources: divisions and square roots count as multiplications; sines, cosines and
    operations on constants are free; a fused multiply-add counts as one product and one sum.
    Floating bodies are counted with three angles, as in the sources, and with the Free joint of
    models. Exits with 1 if a count by the rules of the sources exceeds the published one.
    """
    from tiburon.reproduce.operation_counts import count_tables, crossovers

    tables = count_tables(largest)
    for table in tables:
        _print_table(table, summary)
    print("Featherstone 1987, section 8.4: articulated bodies beat composite rigid bodies above")
    for crossing in crossovers():
        print(
            f"  N = {crossing.published:.2f} by {crossing.counted} as published, "
            f"{crossing.ours:.2f} as counted here"
        )
    excesses = [row.excess for table in tables for row in table.rows]
    above = sum(excess > 0 for excess in excesses)
    _print_public(tables)
    print(
        f"\n{len(excesses)} counts by the rules of the sources: {len(excesses) - above} at or "
        f"below the published one, {above} above"
    )
    raise typer.Exit(1 if above else 0)


def _print_public(tables: Sequence["CountTable"]) -> None:
    """Print how counts on the Free joint compare, and which exceed the published ones."""
    rows = [row for table in tables for row in table.rows]
    excesses = [row.public_excess for row in rows if row.public_excess is not None]
    if not excesses:
        return
    above = sum(excess > 0 for excess in excesses)
    print(
        "\nFloating bodies with the Free joint of models, a quaternion in place of three angles "
        f"and body\nrates in place of classical accelerations: {len(excesses) - above} of "
        f"{len(excesses)} counts at or below the published one, {above} above"
    )
    for table in tables:
        rows = [row for row in table.rows if (row.public_excess or 0) > 0]
        if rows:
            labels = ", ".join(row.label for row in rows)
            most = max(row.public_excess or 0 for row in rows)
            title = table.title.partition(":")[0]
            print(f"  {table.source}, {title}: N = {labels} (by up to {most})")


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
    from tiburon.reproduce.solids import PARTS, panel_rows

    parts = PARTS[:-1] if coarse else PARTS
    heads = [f"{20 * k * k} panels" for k in parts]
    print(f"{'body':<20} {'motion':<8} {'published':>9}", *(f"{h:>12}" for h in heads), " estimate")
    bad = count = 0
    for row in panel_rows(parts):
        errors = (f"{100 * error:>+10.2f} %" for error in row.errors)
        verdict = "" if row.good else "  FAILED"
        estimate = f"{100 * row.estimate:>7.1f} %"
        print(f"{row.body:<20} {row.motion:<8} {row.published:>9.4f}", *errors, estimate + verdict)
        bad += not row.good
        count += 1
    print(f"\n{count} values: {count - bad} within 1.5 % with {heads[-1]}, {bad} not")
    raise typer.Exit(1 if bad else 0)


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
    from tiburon.reproduce.contact_statistics import count_rows, statistics_tables

    tables = statistics_tables(problems)
    for table in tables:
        print(f"Featherstone 1987, section 9.8.1: {table.title}")
        print(f"  {'contacts':>8} {'problems':>8} {'published':>16} {'ours':>8} {'error':>7}")
        for row in table.rows:
            share = "%" in row.published
            factor, unit = (100.0, " %") if share else (1.0, "  ")
            values = f"{factor * row.ours:>8.2f} {factor * row.error:>7.2f}{unit}"
            verdict = "" if row.good else "  FAILED"
            print(f"  {row.contacts:>8} {row.problems:>8} {row.published:>16} {values}{verdict}")
        print()
    count, good = count_rows(tables)
    print(f"{count} values: {good} agree with the published ones, {count - good} do not")
    raise typer.Exit(0 if good == count else 1)


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

    _print_cells("Nahon 1991", nahon_tables(examples or ()), summary)


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
    _print_cells("Khan 2002", tables, summary)


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

    McMillan 1994, chapters 2 to 4. Counts agree if ours are not above the published ones. The
    source has no model data: arms, grips and way of the lift are ours, and its errors are shown.
    Exits with 1 if a value differs.
    """
    from tiburon.reproduce.mcmillan import mcmillan_page, mcmillan_tables

    tables = mcmillan_tables(parts or ())
    if html is not None:
        _write_page(html, mcmillan_page(tables))
    _print_cells("McMillan 1994", tables, summary)


@application.command("all")
def reproduce_all(
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="A reproduction such as khan; may be repeated."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write all tables as one HTML page.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write all cells as a JSON file.")] = None,
) -> None:
    """Run every reproduction: published value, corrected value, ours, verdict.

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
        judged, good, rest = count_cells(group.tables)
        line = f"skipped: {group.skipped}" if group.skipped else f"{good} of {judged} agree"
        print(f"{group.name} ({group.source}): {line}, {rest} not judged")
        for table in group.tables:
            for cell in table.cells:
                if cell.good is False:
                    print(f"  {table.name}: {cell.quantity}: {cell.published}, ours {cell.ours}")
    tables = [table for group in found for table in group.tables]
    judged, good, rest = count_cells(tables)
    corrected = sum(bool(cell.corrected) for table in tables for cell in table.cells)
    print(
        f"\n{len(tables)} tables, {judged + rest} cells: {good} agree, {corrected} of them with a "
        f"corrected value, {judged - good} differ, {rest} are not judged"
    )
    raise typer.Exit(0 if good == judged else 1)


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
        default=bool,  # verdicts may be NumPy's
    )


def _write_page(path: Path, text: str) -> None:
    from tiburon.errors import RunFileError
    from tiburon.written_file import write_file

    write_file(path, text, RunFileError)
    print(f"wrote {path}")


def _print_cells(source: str, tables: Sequence["CellTable"], summary: bool) -> NoReturn:
    """Print tables of cells with their verdicts, and exit: 1 if a value differs."""
    from tiburon.reproduce.cells import count_cells

    for table in tables:
        print(f"{source}, {table.name}: {table.title}")
        judged, good, rest = count_cells([table])
        if summary:
            print(f"  {good} of {judged} agree, {rest} not judged")
        cells = [cell for cell in table.cells if not summary or cell.good is False]
        rows = [(c.quantity, c.published, c.corrected, c.ours, c.verdict) for c in cells]
        if rows:
            head = ("", "published", "corrected", "ours", "verdict")
            lines = rows if summary else [head, *rows]
            # a column for corrections only where there are some
            kept = [k for k in range(5) if k != 2 or any(row[2] for row in rows)]
            widths = {k: max(len(line[k]) for line in lines) for k in kept[:-1]}
            for line in lines:
                texts = (f"{line[k]:<{widths[k]}}" for k in kept[:-1])
                print("  " + "  ".join((*texts, line[4])).rstrip())
        for reason in dict.fromkeys(cell.reason for cell in cells if cell.reason):
            print(f"  corrected: {reason}")
        for remark in () if summary else table.remarks:
            print(f"  {remark}")
        print()
    judged, good, rest = count_cells(tables)
    print(
        f"{judged} values: {good} agree, {judged - good} differ; {rest} more are times, lost data "
        "or depend on lost data, and are not judged"
    )
    raise typer.Exit(0 if good == judged else 1)


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

    rows = bad = 0
    for found in benchmarks(problems or ()):
        _print_benchmark(found)
        rows += len(found.rows)
        bad += sum(not row.good for row in found.rows)
    print(f"{rows} values: {rows - bad} within tolerance, {bad} not")
    raise typer.Exit(1 if bad else 0)


def _print_benchmark(found: "Benchmark") -> None:
    """Print one mechanism: its references and its rows."""
    print(f"{found.title}\n  references: {found.source}")
    wide = max(len(row.quantity) for row in found.rows)
    print(f"  {'':<{wide}} {'reference':>16} {'ours':>16} {'error':>9} {'allowed':>9}")
    for row in found.rows:
        values = f"{row.reference:>16.10g} {row.ours:>16.10g} {row.error:>9.1e} {row.allowed:>9.1e}"
        print(f"  {row.quantity:<{wide}} {values}" + ("" if row.good else "  FAILED"))
    published = found.published_wall_time
    beside = "" if published is None else f"; OpenSim 3.2 on a Core i5-4570: {published:g} s"
    print(f"  wall-clock time {found.wall_time:.3f} s{beside}")
    for remark in found.remarks:
        print(f"  {remark}")
    print()


def _print_table(table: "CountTable", summary: bool) -> None:
    """Print one table, or its summary in one line."""
    print(f"{table.source}: {table.title}")
    if summary:
        worst = max(table.rows, key=lambda row: row.excess)
        free = f"; with Free {worst.public_verdict}" if worst.public_verdict else ""
        print(f"  {len(table.rows)} counts, closest: {worst.label} ({worst.verdict}{free})")
        return
    plain = table.unit != "operations"
    floats = any(row.public is not None for row in table.rows)
    lines = [(table.label, "published", "ours", "verdict", "with Free", "verdict")]
    for row in table.rows:
        published, ours, public = (
            str(cost.multiplications if plain and cost is not None else cost)
            for cost in (row.published, row.ours, row.public)
        )
        lines.append((row.label, published, ours, row.verdict, public, row.public_verdict))
    # plain columns, so that the text reads the same in a terminal, a file and a pipe
    widths = [max(len(line[k]) for line in lines) for k in range(6)]
    for line in lines:
        label, published, ours, verdict, public, last = (
            f"{text:<{width}}" if k in (0, 3) else f"{text:>{width}}" if k != 5 else text
            for k, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        tail = f"  {public}  {last}" if floats else ""
        print(f"  {label}  {published}  {ours}  {verdict}{tail}".rstrip())
    print()
