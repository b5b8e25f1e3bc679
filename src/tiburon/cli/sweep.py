"""`tiburon sweep`: run the sweeps of a script, in parts for job arrays; how far a sweep is."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from tiburon.cli import INTERRUPTED
from tiburon.cli.console import BUDGET, FAILURE, SUCCESS, AsJson

if TYPE_CHECKING:
    from tiburon.parallel.sweep_progress import SweepProgress

EXAMPLES = """
tiburon sweep study.py
tiburon sweep study.py --part 3/100
tiburon sweep status study.zarr
tiburon sweep status study.zarr --watch
tiburon sweep verify study.zarr
"""

WATCH_INTERVAL = 2.0
"""Time between two looks of --watch [s]."""


class ScriptGroup(TyperGroup):
    """Subcommands; what is none of them is the script of the subcommand `run`."""

    def resolve_command(self, context: Any, words: list[str]) -> Any:
        """Return the subcommand that some words ask for."""
        if words and words[0] not in self.commands:
            words = ["run", *words]
        return super().resolve_command(context, words)

    def parse_args(self, context: Any, words: list[str]) -> list[str]:
        """Let options of `run` come before the script, too."""
        own = ("--help", "-h")
        if words and words[0].startswith("-") and words[0] not in own:
            words = ["run", *words]
        return list(super().parse_args(context, words))


application = typer.Typer(
    cls=ScriptGroup,
    help="Run the sweeps of a script (tiburon sweep SCRIPT), or show how far a sweep is.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Store = Annotated[Path, typer.Argument(metavar="STORE", help="Sweep on disk: study.zarr.")]


@application.command(
    "run", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def run(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="Script that calls tb.sweep.")],
    part: Annotated[
        str | None,
        typer.Option(
            metavar="K/N",
            help="Compute part K of N of the blocks, K from 1 to N, for job arrays without a "
            "scheduler; the script ends where it reads results.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=0, help="Processes on this machine; 0 to compute in this process."),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(help="Wall-clock time after which no more blocks are begun [s]."),
    ] = None,
) -> None:
    """Run a script whose sweeps continue where they were; further words go to the script."""
    import runpy

    from tiburon.parallel.sweep import CommandLine, PartEnd, commanded

    share = _part(part)
    if not script.is_file():
        raise typer.BadParameter(f"there is no script {script}", param_hint="SCRIPT")
    before, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *context.args]
    sys.path.insert(0, str(script.resolve().parent))
    command = CommandLine(share, workers, budget)
    try:
        with commanded(command) as studies:
            try:
                runpy.run_path(str(script), run_name="__main__")
            except PartEnd:
                pass
            except KeyboardInterrupt as error:
                print(f"tiburon: interrupted: {error}", file=sys.stderr)
                raise typer.Exit(INTERRUPTED) from error
    finally:
        sys.argv, sys.path[:] = before, path
    if not studies:
        print(f"tiburon: {script} calls no tb.sweep(...)", file=sys.stderr)
        raise typer.Exit(FAILURE)
    done = True
    for study, tally in studies:
        which = "" if part is None else f"part {part}: "
        print(
            f"{study.path}: {which}{tally.blocks_done} of {tally.blocks} blocks, "
            f"{tally.cases_done} of {tally.cases} cases"
        )
        done = done and tally.blocks_done == tally.blocks
    raise typer.Exit(SUCCESS if done else BUDGET)


def _part(text: str | None) -> tuple[int, int]:
    """Return a share of the blocks, counted from 0."""
    if text is None:
        return 0, 1
    first, _, second = text.partition("/")
    if not (first.isdigit() and second.isdigit() and 1 <= int(first) <= int(second)):
        raise typer.BadParameter(
            f"expected K/N with K from 1 to N, such as 3/100, got {text!r}", param_hint="--part"
        )
    return int(first) - 1, int(second)


@application.command("status")
def show_status(
    path: Store,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it again and again until the sweep is complete.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show how far a sweep is: blocks, speed, outcomes, remaining time, workers, retries."""
    import tiburon as tb

    study = tb.load_sweep(path)
    now = study.progress
    if as_json:
        _print_json(now)
        return
    _print_table(now)
    while watch and not now.is_complete:
        time.sleep(WATCH_INTERVAL)
        now = tb.load_sweep(path).progress
        print()
        _print_table(now)


def _print_table(now: "SweepProgress") -> None:
    """Print the progress as a table."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    from tiburon.cli.console import open_console

    console = open_console()
    table = Table.grid(padding=(0, 2))
    for name, text in now.lines():
        table.add_row(f"[bold]{name}[/bold]", text)
        if name == "cases":
            table.add_row("", ProgressBar(total=now.cases, completed=now.cases_done, width=40))
    console.print(table)
    shown = list(now.messages.items())[:5]
    if shown:
        console.print()
        for case, text in shown:
            # the advice that follows is the same for many
            console.print(f"case {case}: {text.partition(';')[0]}", markup=False)
        if len(now.messages) > len(shown):
            console.print(f"and {len(now.messages) - len(shown)} more, in study.progress.messages")


def _print_json(now: "SweepProgress") -> None:
    import json

    print(
        json.dumps(
            {
                "path": str(now.path),
                "robot": now.robot,
                "blocks": now.blocks,
                "blocks_done": now.blocks_done,
                "cases": now.cases,
                "cases_done": now.cases_done,
                "complete": now.is_complete,
                "outcomes": now.outcomes,
                "cases_per_second": None if now.rate != now.rate else now.rate,
                "remaining_seconds": None if now.remaining != now.remaining else now.remaining,
                "workers": {
                    name: {"cases": cases, "cases_per_second": rate}
                    for name, (cases, rate) in now.workers.items()
                },
                "slowest": now.slowest,
                "retries": now.retries,
                "damaged": now.damaged,
                "drivers": [driver._asdict() for driver in now.drivers],
                "messages": {str(case): text for case, text in now.messages.items()},
            },
            indent=2,
        )
    )


@application.command("verify")
def verify(path: Store) -> None:
    """Compare the checksums of all blocks; exit code 1 if one is damaged."""
    from tiburon.parallel.sweep_store import SweepStore

    store = SweepStore.open(path)
    numbers = sorted(store.receipt_numbers())
    damaged = [number for number in numbers if store.receipt(number, verify=True) is None]
    print(f"{path}: {len(numbers) - len(damaged)} blocks match their receipts")
    if damaged:
        print(
            f"tiburon: damaged: {', '.join(map(str, damaged[:20]))}; "
            "tiburon.load_sweep(...).resume(verify=True) computes them again",
            file=sys.stderr,
        )
        raise typer.Exit(FAILURE)
