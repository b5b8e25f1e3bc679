"""`tiburon demo`: robots at work, with facts, figures and a replay of each; see `tiburon.demos`."""

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

EXAMPLES = """
tiburon demo
tiburon demo --list
tiburon demo quadruped --output trot
tiburon demo station --duration 10 --current 0.5 --output figures
"""

STATION = "station"
"""Name of the demo that runs by default."""


def run(
    name: Annotated[str, typer.Argument(help="Name of the demo; --list shows all.")] = STATION,
    listing: Annotated[bool, typer.Option("--list", help="List the demos and end.")] = False,
    output: Annotated[Path, typer.Option(help="Directory for figures and the page.")] = Path(
        "tiburon-demo"
    ),
    duration: Annotated[
        float | None, typer.Option(min=0.1, help="Simulated time [s]; by the demo by default.")
    ] = None,
    step: Annotated[
        float | None,
        typer.Option(min=1e-4, max=0.01, help="Integrator step of station [s]; 1e-3 by default."),
    ] = None,
    current: Annotated[
        float | None,
        typer.Option(min=-1.0, max=1.0, help="Current of station [m/s]; 0.3 by default."),
    ] = None,
) -> None:
    """Simulate a robot at work; print what it shows; write figures and a replay page.

    By default an underwater vehicle keeps station in a current while its arm moves. The others are
    about contact and load sharing: robots walk over a hill, on the sea floor and on sand, a hand
    lifts a glass, a vehicle loses a thruster in a current.
    """
    from tiburon.cli.console import EXIT_CODES
    from tiburon.cli.simulate import make_folder
    from tiburon.demos.demo import DEMOS, find
    from tiburon.errors import OptionError, UnknownNameError
    from tiburon.viewer.plots import save_figure

    if listing:
        for known, (_, _, about) in DEMOS.items():
            print(f"{known:<12} {about}")
        return
    if name not in DEMOS:
        raise UnknownNameError("demo", name, DEMOS, listing="`tiburon demo --list`")
    given = {"step": step, "current": current}
    options = {option: value for option, value in given.items() if value is not None}
    for option, value in options.items() if name != STATION else ():
        raise OptionError(f"demo {name}: --{option}", ("no value: it is of station",), value)
    print(f"{name}: {DEMOS[name][2]}", flush=True)
    start = perf_counter()
    found = find(name)(duration, **options)
    outcome = found.run.outcome
    print(f"{outcome}: {perf_counter() - start:.1f} s with compilation")
    for fact in found.facts:
        print(f"- {fact}")
    make_folder(output)
    for file, figure in found.figures.items():
        save_figure(figure, output / file)
        print(f"wrote {output / file}")
    page = found.run.save_html(output / "replay.html", title=found.title, **found.replay)
    print(f"wrote {page}: open it in a browser to replay the run")
    if not outcome.ok:
        raise typer.Exit(EXIT_CODES[outcome.status])
