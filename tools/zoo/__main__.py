"""Write the files of the zoo, or compare them with what would be written."""

import argparse
import sys
from collections.abc import Iterator
from importlib import import_module

from tiburon.zoo.index import DIRECTORY
from tools.zoo.sheet import Sheet, write_text

FAMILIES = (
    "arms",
    "classics",
    "hands",
    "linkages",
    "mechanisms",
    "mobile",
    "redundant",
    "rolling",
    "rov",
    "touching",
    "vehicles",
    "walkers",
)
"""Modules of robots, each with a function `sheets`."""


def all_sheets() -> Iterator[Sheet]:
    """Yield every robot of the zoo."""
    for family in FAMILIES:
        yield from import_module(f"tools.zoo.{family}").sheets()


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.zoo", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    stale = 0
    for sheet in all_sheets():
        file = DIRECTORY / f"{sheet.model.name}.toml"
        text = write_text(sheet)
        if check:
            if not file.is_file() or file.read_text(encoding="utf-8") != text:
                sys.stdout.write(f"{file.name} is not what would be written\n")
                stale += 1
        else:
            file.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {file.name}, {len(text) / 1000.0:.0f} kB\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
