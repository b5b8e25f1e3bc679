"""The command line: one file per subcommand that parses options, calls the library and prints."""

import sys


def main() -> None:
    """Run the `tiburon` command."""
    # typer and rich load here, so that importing the package never pays for them
    from tiburon.cli.application import application
    from tiburon.errors import TiburonError

    try:
        application()
    except TiburonError as error:
        # the message contains the cure; a traceback would hide it
        print(f"tiburon: {error}", file=sys.stderr)
        sys.exit(1)
