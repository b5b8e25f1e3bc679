"""The command line: one file per subcommand that parses options, calls the library and prints."""

import atexit
import signal
import sys

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + signal 2, as shells count."""


def main() -> None:
    """Run the `tiburon` command."""
    try:
        _run()
    except KeyboardInterrupt:
        ignore_ctrl_c()
        sys.exit(INTERRUPTED)
    finally:
        # first of all that is done when the process ends
        atexit.register(ignore_ctrl_c)


def _run() -> None:
    # typer and rich load here, so that importing the package never pays for them
    from tiburon.cli.application import application
    from tiburon.errors import TiburonError

    try:
        application()
    except TiburonError as error:
        # the message contains the cure; a traceback would hide it
        print(f"tiburon: {error}", file=sys.stderr)
        sys.exit(1)


def ignore_ctrl_c() -> None:
    """Ignore further Ctrl-C: a process that ends would print a traceback, or lose its exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
