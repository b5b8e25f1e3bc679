"""`tiburon bench`: benchmarks against other codes.

The benchmarks live beside the package, in `benchmarks/` of a source checkout, because they need
the codes they compare with. This command finds the checkout and starts its runner.
"""

import subprocess
import sys
from pathlib import Path

import typer

import tiburon

# everything after `bench`, including --help, goes to the runner
PASS_ON = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}

_ELSEWHERE = """\
tiburon: no benchmarks found: they are part of the source checkout, not of the installed package.
Inside a checkout of the tiburon repository, run

    make bench

which installs the codes to compare with (pin, mujoco) and measures."""


def find_checkout(start: Path) -> Path | None:
    """Find the source checkout that holds the benchmarks.

    Returns:
        The nearest directory, from `start` upward, that holds both the benchmark runner and this
        package's sources; None if there is none.
    """
    for directory in (start, *start.parents):
        runner = directory / "benchmarks" / "__main__.py"
        sources = directory / "src" / "tiburon" / "__init__.py"
        if runner.is_file() and sources.is_file():
            return directory
    return None


def run(context: typer.Context) -> None:
    """Run benchmarks against other codes, after checking that results agree.

    All options are passed to the benchmark runner; --help lists them. Needs a source checkout.
    """
    # an editable install finds its checkout from any working directory
    package = Path(tiburon.__file__).resolve().parent
    checkout = find_checkout(Path.cwd()) or find_checkout(package)
    if checkout is None:
        print(_ELSEWHERE, file=sys.stderr)
        raise typer.Exit(1)
    command = [sys.executable, "-m", "benchmarks", *context.args]
    raise typer.Exit(subprocess.run(command, cwd=checkout, check=False).returncode)
