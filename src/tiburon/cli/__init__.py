"""The command line: one file per subcommand, each parses, calls the library and prints."""


def main() -> None:
    """Run the `tiburon` command."""
    # typer and rich load here, so that importing the package never pays for them
    from tiburon.cli.application import application

    application()
