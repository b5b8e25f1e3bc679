"""`tiburon reproduce`: tables of the sources, each with the published value, ours and a verdict."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tiburon.reproduce.iftomm import Benchmark
    from tiburon.reproduce.operation_counts import CountTable

application = typer.Typer(
    help="Set published numbers beside ours, with a verdict for each.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

EXAMPLES = """
tiburon reproduce operation-counts --summary
tiburon reproduce added-mass --coarse
tiburon reproduce iftomm bricard andrews
"""


@application.callback()
def _group() -> None:
    """Keep the name of the table a word of its own, also while there is only one."""


@application.command("operation-counts")
def print_operation_counts(
    largest: Annotated[
        int, typer.Option(min=2, max=40, help="Largest number of joints in the tables.")
    ] = 12,
    summary: Annotated[
        bool, typer.Option("--summary", help="Print one line per table instead of its rows.")
    ] = False,
) -> None:
    """Count multiplications and additions of our algorithms against the published ones.

    Rules of the sources: divisions and square roots count as multiplications; sines, cosines and
    what depends on constants alone are free; a fused multiply-add counts as its product and its
    sum. Floating bodies are counted as the sources have them, by three angles, and beside that on
    the Free joint that models have. Exits with 1 if a count by the rules of the sources is above
    the published one.
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
    gaps = [row.gap for table in tables for row in table.rows]
    above = sum(gap > 0 for gap in gaps)
    _print_public(tables)
    print(
        f"\n{len(gaps)} counts by the rules of the sources: {len(gaps) - above} at or below the "
        f"published one, {above} above"
    )
    raise typer.Exit(1 if above else 0)


def _print_public(tables: Sequence["CountTable"]) -> None:
    """Print how counts on the Free joint compare, and which are above the published ones."""
    gaps = [row.public_gap for table in tables for row in table.rows if row.public_gap is not None]
    if not gaps:
        return
    above = sum(gap > 0 for gap in gaps)
    print(
        "\nFloating bodies on the Free joint of models, with a quaternion in place of three angles "
        f"and body\nrates in place of classical accelerations: {len(gaps) - above} of {len(gaps)} "
        f"counts at or below the published one, {above} above"
    )
    for table in tables:
        rows = [row for row in table.rows if (row.public_gap or 0) > 0]
        if rows:
            labels = ", ".join(row.label for row in rows)
            most = max(row.public_gap or 0 for row in rows)
            title = table.title.partition(":")[0]
            print(f"  {table.source}, {title}: N = {labels} (by up to {most})")


@application.command("added-mass")
def print_added_mass(
    coarse: Annotated[
        bool, typer.Option("--coarse", help="Leave out 2000 panels, which take most of the time.")
    ] = False,
) -> None:
    """Compute the added mass of known bodies by panels, with 500, 980 and 2000 of them.

    Ellipsoids stand beside Lamb's closed forms, regular solids beside published values. Numbers are
    by those of the displaced water; corners of panels lie on the ellipsoid, which they do not fill.
    Exits with 1 if the last error is above 1.5 %.
    """
    from tiburon.reproduce.solids import PARTS, panel_rows

    parts = PARTS[:-1] if coarse else PARTS
    heads = [f"{20 * k * k} panels" for k in parts]
    print(f"{'body':<20} {'motion':<8} {'published':>9}", *(f"{h:>12}" for h in heads), " told")
    bad = count = 0
    for row in panel_rows(parts):
        errors = (f"{100 * error:>+10.2f} %" for error in row.errors)
        verdict = "" if row.good else "  too far"
        told = f"{100 * row.told:>4.1f} %"
        print(f"{row.body:<20} {row.motion:<8} {row.published:>9.4f}", *errors, told + verdict)
        bad += not row.good
        count += 1
    print(f"\n{count} numbers: {count - bad} within 1.5 % with {heads[-1]}, {bad} not")
    raise typer.Exit(1 if bad else 0)


@application.command("iftomm")
def print_benchmarks(
    problems: Annotated[
        list[str] | None,
        typer.Argument(help="four-bar-2, four-bar-40, andrews, bricard or governor; all if none."),
    ] = None,
) -> None:
    """Run mechanisms of the IFToMM multibody benchmark library beside their references.

    Ten seconds each: positions, drift of the energy, gaps of the loops, wall time with compiled
    code at hand. The library prints curves; digits are those of the IVP test set, closed forms, and
    equations in the fewest coordinates. Exits with 1 if a number is too far from its reference.
    """
    from tiburon.reproduce.iftomm import benchmarks

    rows = bad = 0
    for found in benchmarks(problems or ()):
        _print_benchmark(found)
        rows += len(found.rows)
        bad += sum(not row.good for row in found.rows)
    print(f"{rows} numbers: {rows - bad} as close as they should be, {bad} not")
    raise typer.Exit(1 if bad else 0)


def _print_benchmark(found: "Benchmark") -> None:
    """Print one mechanism: what it is compared with, and its rows."""
    print(f"{found.title}\n  references: {found.source}")
    wide = max(len(row.quantity) for row in found.rows)
    print(f"  {'':<{wide}} {'reference':>16} {'ours':>16} {'apart':>9} {'allowed':>9}")
    for row in found.rows:
        numbers = (
            f"{row.reference:>16.10g} {row.ours:>16.10g} {row.error:>9.1e} {row.allowed:>9.1e}"
        )
        print(f"  {row.quantity:<{wide}} {numbers}" + ("" if row.good else "  too far"))
    published = found.published_wall_time
    beside = "" if published is None else f"; OpenSim 3.2 on a Core i5-4570: {published:g} s"
    print(f"  wall time {found.wall_time:.3f} s{beside}")
    for remark in found.remarks:
        print(f"  {remark}")
    print()


def _print_table(table: "CountTable", summary: bool) -> None:
    """Print one table, or a line that says how it ended."""
    print(f"{table.source}: {table.title}")
    if summary:
        worst = max(table.rows, key=lambda row: row.gap)
        free = f"; on Free {worst.public_verdict}" if worst.public_verdict else ""
        print(f"  {len(table.rows)} counts, closest: {worst.label} ({worst.verdict}{free})")
        return
    plain = table.unit != "operations"
    floats = any(row.public is not None for row in table.rows)
    lines = [(table.label, "published", "ours", "verdict", "on Free", "verdict")]
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
