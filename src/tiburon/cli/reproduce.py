"""`tiburon reproduce`: tables of the sources, each with the published value, ours and a verdict."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tiburon.reproduce.operation_counts import CountTable

application = typer.Typer(
    help="Set published numbers beside ours, with a verdict for each.", no_args_is_help=True
)


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
    sum. Exits with 1 if a count of ours is above the published one.
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
    print(f"\n{len(gaps)} counts: {len(gaps) - above} at or below the published one, {above} above")
    raise typer.Exit(1 if above else 0)


def _print_table(table: "CountTable", summary: bool) -> None:
    """Print one table, or a line that says how it ended."""
    print(f"{table.source}: {table.title}")
    if summary:
        worst = max(table.rows, key=lambda row: row.gap)
        print(f"  {len(table.rows)} counts, closest: {worst.label} ({worst.verdict})")
        return
    plain = table.unit != "operations"
    lines = [(table.label, "published", "ours", "verdict")]
    for row in table.rows:
        published, ours = (
            str(cost.multiplications if plain else cost) for cost in (row.published, row.ours)
        )
        lines.append((row.label, published, ours, row.verdict))
    # plain columns, so that the text reads the same in a terminal, a file and a pipe
    label, second, third = (max(len(line[k]) for line in lines) for k in range(3))
    for name, published, ours, verdict in lines:
        print(f"  {name:<{label}}  {published:>{second}}  {ours:>{third}}  {verdict}")
    print()
