"""Which robots there are, and where their files lie."""

from functools import cache
from pathlib import Path

from tiburon.errors import UnknownNameError

DIRECTORY = Path(__file__).parent
"""Where the files are; each is called as its robot, with ".toml" behind."""


@cache
def names() -> tuple[str, ...]:
    """Return the names of all robots that ship, sorted."""
    return tuple(sorted(file.stem for file in DIRECTORY.glob("*.toml")))


def path(name: str) -> Path:
    """Return the file of a robot that ships.

    Args:
        name: One of `names`.

    Raises:
        UnknownNameError: If no robot has this name; the message gives the nearest one.
    """
    if name not in names():
        raise UnknownNameError("robot", name, names(), listing="`tiburon models`")
    return DIRECTORY / f"{name}.toml"
