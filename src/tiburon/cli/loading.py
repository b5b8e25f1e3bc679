"""What commands about robots share: loading without tracebacks, and a console to print on."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from tiburon.model import Model

PIPE_WIDTH = 140
"""Columns of tables that go to a file or another program."""


def open_console() -> "Console":
    """Return a console as wide as the terminal, or wide enough where there is none."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=max(PIPE_WIDTH, console.width))


def complete_robot(incomplete: str) -> list[str]:
    """Return the robots that ship whose names begin so; shells complete files themselves."""
    from tiburon import zoo

    return [name for name in zoo.names() if name.startswith(incomplete)]


def load_quietly(source: str, package_paths: Sequence[Path] = ()) -> tuple["Model", list[str]]:
    """Load a robot and keep what was to be said about its file.

    Args:
        source: Path of a file, or the name of a robot that ships.
        package_paths: Folders in which meshes are looked for.

    Returns:
        The robot, and the warnings given while it was read.
    """
    import tiburon as tb

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", tb.ModelWarning)
        model = tb.load(source, package_paths=package_paths)
    said = [str(entry.message) for entry in caught if issubclass(entry.category, tb.ModelWarning)]
    return model, said
