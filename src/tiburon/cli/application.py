"""The `tiburon` command and its subcommands."""

from typing import Annotated

import typer

from tiburon.cli import (
    bench,
    cache,
    check,
    convert,
    demo,
    drive,
    export,
    hydro,
    info,
    models,
    report,
    reproduce,
    simulate,
    sweep,
    validate,
    view,
)
from tiburon.version import installed_version

application = typer.Typer(
    name="tiburon",
    help="Robot dynamics on land and under water, in Python that runs as native code.",
    no_args_is_help=True,
    # our errors are caught in `main`; everything else keeps the plain traceback
    pretty_exceptions_enable=False,
    # markup would swallow units in brackets
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _examples(text: str) -> str:
    """Format examples as the end of a help text, one per line."""
    # the mark \b disables wrapping of the lines below it in click
    lines = "\n".join(f"  {line}" for line in text.strip().splitlines())
    return f"\b\nExamples:\n{lines}"


for name, module in {
    "simulate": simulate,
    "view": view,
    "drive": drive,
    "report": report,
    "demo": demo,
    "check": check,
    "models": models,
    "info": info,
    "convert": convert,
    "hydro": hydro,
}.items():
    application.command(name, epilog=_examples(module.EXAMPLES))(module.run)
application.command("bench", context_settings=bench.PASS_ON)(bench.run)
application.add_typer(cache.application, name="cache", epilog=_examples(cache.EXAMPLES))
application.add_typer(export.application, name="export", epilog=_examples(export.EXAMPLES))
application.add_typer(sweep.application, name="sweep", epilog=_examples(sweep.EXAMPLES))
application.add_typer(reproduce.application, name="reproduce", epilog=_examples(reproduce.EXAMPLES))
application.add_typer(validate.application, name="validate", epilog=_examples(validate.EXAMPLES))


def _print_version(wanted: bool) -> None:
    """Print the version and exit before any subcommand is parsed."""
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
    """Parse the options before a subcommand."""
