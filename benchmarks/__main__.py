"""The benchmark runner: `python -m benchmarks`, or `tiburon bench` from a checkout."""

import argparse
import os
import pkgutil
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from rich.console import Console

import benchmarks
from benchmarks.figure import Figure, Measurement, MeasurementError
from benchmarks.loop_table import has_loops, print_loops
from benchmarks.machine import describe_run
from benchmarks.published import ROOT, Family, MissingPlaceError, publish, render, rendered
from benchmarks.report import print_figures, print_run, write_json
from benchmarks.requirements import advice, missing_packages
from tiburon.errors import TiburonError

PREFIX = "measure_"

COMPILER = "TIBURON_COMPILER"
"""Variable that chooses how functions are compiled."""

INTERRUPTED = 130
"""Exit code of what the keyboard stopped, as shells have it."""


def find_measurements() -> dict[str, Measurement]:
    """Load every module named `measure_*` and collect its `MEASUREMENT`, by name, in order.

    These modules import the peers inside their functions, so that listing works without them.
    """
    found = []
    for module in pkgutil.iter_modules(benchmarks.__path__):
        if module.name.startswith(PREFIX):
            found.append(import_module(f"benchmarks.{module.name}").MEASUREMENT)
    found.sort(key=lambda measurement: measurement.place)
    return {measurement.name: measurement for measurement in found}


def parse(words: list[str], known: dict[str, Measurement]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Check that results agree with other codes, then compare times.",
    )
    parser.add_argument("names", nargs="*", metavar="name", help="what to measure; all by default")
    parser.add_argument("--list", action="store_true", help="list what can be measured")
    parser.add_argument(
        "--duration", type=float, default=1.0, metavar="s", help="time to spend on each side [s]"
    )
    parser.add_argument("--json", type=Path, metavar="file", help="also write the figures here")
    parser.add_argument(
        "--publish",
        action="store_true",
        help="keep figures in docs/benchmarks.json; write page, charts and README rows from it",
    )
    parser.add_argument(
        "--render",
        action="store_true",
        help="measure nothing: write page, charts and README rows from docs/benchmarks.json",
    )
    options = parser.parse_args(words)
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; --list shows what can be measured")
    if options.publish or options.render:
        try:
            rendered()
        except MissingPlaceError as missing_place:
            parser.error(str(missing_place))
    return options


def main(words: list[str]) -> int:
    """Run the measurements asked for.

    Returns:
        Exit code: 0 if every bound was met, 1 if one was missed, two results disagree or a
        package is not installed, which is found out before anything is measured; 130 if it was
        interrupted. Figures are written as they come.
    """
    known = find_measurements()
    options = parse(words, known)
    if options.list:
        for measurement in known.values():
            print(f"{measurement.name:<24} {measurement.summary}")
        return 0
    if options.render:
        _tell_written(render())
        return 0

    chosen = [known[name] for name in options.names or known]
    missing = missing_packages(chosen)
    if missing:
        print(f"benchmarks: {advice(missing)}", file=sys.stderr)
        return 1
    absent = missing_packages(chosen, optional=True)
    if absent:
        print(f"benchmarks: rows are left out, {advice(absent)}", file=sys.stderr)

    # wide enough for the table even when the output goes to a file
    console = Console() if sys.stdout.isatty() else Console(width=140)
    run = describe_run()
    print_run(run, console)
    families: dict[str, list[Figure]] = {}
    whole: dict[str, Family] = {}

    def keep() -> None:
        """Write everything measured so far."""
        if options.json:
            write_json(options.json, run, families)

    good = True
    # of repeated calls, those of optimized code count
    before = os.environ.get(COMPILER)
    os.environ[COMPILER] = before or "optimized"
    try:
        for measurement in chosen:
            ended, met = _measure(measurement, options.duration, families, keep, console)
            good = good and ended and met
            if ended and measurement.name in families:
                figures = tuple(families[measurement.name])
                whole[measurement.name] = Family(measurement.summary, run, figures)
    except KeyboardInterrupt:
        print("benchmarks: interrupted; what was measured is kept", file=sys.stderr)
        return INTERRUPTED
    finally:
        if before is None:
            del os.environ[COMPILER]
        if options.json and families:
            console.print(f"\nwrote {options.json}")
        if options.publish and whole:
            _tell_written(publish(whole, list(known)))
    return 0 if good else 1


def _measure(
    measurement: Measurement,
    duration: float,
    families: dict[str, list[Figure]],
    keep: Callable[[], None],
    console: Console,
) -> tuple[bool, bool]:
    """Run one family; whatever happens, its figures so far are shown and kept.

    Returns:
        Whether it ran to its end, and whether it met every bound.
    """
    figures: list[Figure] = []
    ended = True
    try:
        for figure in measurement.run(duration):
            figures.append(figure)
            families[measurement.name] = figures
            keep()
    except (MeasurementError, TiburonError, ModuleNotFoundError) as failure:
        # the other families still deserve their figures
        print(f"benchmarks: {measurement.name}: {failure}", file=sys.stderr)
        ended = False
    finally:
        if figures:
            show = print_loops if has_loops(figures) else print_figures
            show(measurement.summary, figures, console)
    return ended, all(figure.met is not False for figure in figures)


def _tell_written(paths: list[Path]) -> None:
    """Print which files of the checkout were written."""
    for path in paths:
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
