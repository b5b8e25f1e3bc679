"""The `tiburon` command: gathers the subcommands."""

from typing import Annotated

import typer

from tiburon.cli import bench, cache, check, convert, demo, hydro, info, models, reproduce
from tiburon.version import installed_version

application = typer.Typer(
    name="tiburon",
    help="Robot dynamics on land and under water, in Python that runs as native code.",
    no_args_is_help=True,
    add_completion=False,
    # our errors speak for themselves; everything else deserves the plain traceback
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
application.command("demo")(demo.run)
application.command("models")(models.run)
application.command("info")(info.run)
application.command("check")(check.run)
application.command("convert")(convert.run)
application.command("hydro")(hydro.run)
application.command("bench", context_settings=bench.PASS_ON)(bench.run)
application.add_typer(cache.application, name="cache")
application.add_typer(reproduce.application, name="reproduce")


def _print_version(wanted: bool) -> None:
    """Print the version and end, before any subcommand is looked for."""
    if wanted:
        print(f"tiburon {installed_version()}")
        raise typer.Exit


@application.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Take the options that stand before a subcommand."""
