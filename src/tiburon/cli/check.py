"""`tiburon check`: is a robot what it is meant to be, and is what we compute on it right?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiburon.cli.exit_codes import BAD
from tiburon.cli.loading import complete_robot, load_quietly, open_console

if TYPE_CHECKING:
    from tiburon.checks.model_check import ModelCheck
    from tiburon.functions.water import CylinderFlow
    from tiburon.model import Model, Water

EXAMPLES = """
tiburon check arm.urdf
tiburon check arm.urdf --quick --strict
tiburon check tiburon_titan --html titan.html
tiburon check arm.urdf --json
"""

CRISIS = "critical"
"""Regime in which coefficients of drag are not constant."""

STYLES = {"passed": "green", "failed": "bold red", "look": "yellow", "skipped": "dim"}
"""Color of each verdict."""

FLOW_HEADINGS = (
    "cylinder of",
    "flow across [m/s]",
    "Reynolds number",
    "flow",
    "vortices [Hz]",
)


def run(
    robot: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A robot file, or the name of one that ships.",
            autocompletion=complete_robot,
        ),
    ],
    pose: Annotated[
        str | None, typer.Option(help="A named position; the neutral one by default.")
    ] = None,
    current: Annotated[
        tuple[float, float, float],
        typer.Option(help="Velocity of the water for the table of cylinders, world axes [m/s]."),
    ] = (0.0, 0.5, 0.0),
    density: Annotated[
        float, typer.Option(min=0.0, help="Density of the water [kg/m^3].")
    ] = 1025.0,
    viscosity: Annotated[float, typer.Option(min=0.0, help="Of the water [Pa s].")] = 1.2e-3,
    package_path: Annotated[
        list[Path] | None, typer.Option(help="Folder of packages for meshes; may be repeated.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Look at its numbers alone; compute no motion.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail if there is anything to look at.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the random states.")] = 0,
    html: Annotated[Path | None, typer.Option(help="Write the findings as a page.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Check a robot: its numbers, and all that is computed on it.

    Numbers that are hardly meant (units, placeholders), agreement of algorithms, derivatives,
    energy and momentum in a short run, power balance with motors, friction and water, loops, and
    which step suits it. For every cylinder that drag acts on, it tells how a robot at rest meets
    the current: Reynolds number, regime of the flow, frequency of vortices.

    Exit codes: 0 passed, 1 failed (with --strict also if there is anything to look at), 2 usage.
    """
    import tiburon as tb

    model, warnings = load_quietly(robot, package_path or ())
    if pose is not None and pose not in model.poses:
        raise tb.UnknownNameError("pose", pose, tuple(model.poses))
    water = tb.Water(density, current, viscosity)
    flows = _flows(model, pose, water)
    found = _check(model, pose, water, [*warnings, *_crises(flows)], quick, seed)
    if html is not None:
        _save(found, flows, html)
    if as_json:
        import json
        from dataclasses import asdict

        print(json.dumps({**found.as_data(), "cylinders": [*map(asdict, flows)]}, indent=2))
    else:
        _print(found, flows)
        if html is not None:
            print(f"wrote {html}")
    good = found.clean if strict else found.passed
    if not good:
        raise typer.Exit(BAD)


def _check(
    model: "Model", pose: str | None, water: "Water", said: list[str], quick: bool, seed: int
) -> "ModelCheck":
    """Check a robot, and show on a terminal what is being checked."""
    from rich.console import Console

    import tiburon as tb

    console = Console(stderr=True)
    with console.status(f"checking {model.name}") as status:
        return tb.check_model(
            model,
            pose=pose,
            fluid=water,
            warnings=said,
            motion=not quick,
            seed=seed,
            progress=lambda name: status.update(f"checking {model.name}: {name}"),
        )


def _flows(model: "Model", pose: str | None, water: "Water") -> "tuple[CylinderFlow, ...]":
    """Return the flow across all cylinders of a robot at rest; none where water meets nothing."""
    import numpy as np

    import tiburon as tb

    if not any(body.fluid is not None for body in model.bodies):
        return ()
    q = model.neutral() if pose is None else np.array(model.poses[pose])
    return tb.cylinder_flows(model, q, np.zeros(model.nv), water)


def _crises(flows: "tuple[CylinderFlow, ...]") -> list[str]:
    """Return doubts about cylinders whose drag changes with speed."""
    return [
        f"body {flow.body!r}, drag {flow.index + 1}: Reynolds number {flow.reynolds:.2g} lies in "
        "the drag crisis, where coefficients fall by half or more; check its coefficient"
        for flow in flows
        if flow.regime == CRISIS
    ]


def _row(flow: "CylinderFlow") -> tuple[str, str, str, str, str]:
    shed = f"{flow.shedding_frequency:.3g}" if flow.shedding_frequency else ""
    return (flow.body, f"{flow.speed:.3g}", f"{flow.reynolds:.2g}", flow.regime, shed)


def _save(found: "ModelCheck", flows: "tuple[CylinderFlow, ...]", path: Path) -> None:
    """Write the page."""
    from tiburon.viewer.report import Section, table_markup

    sections = []
    if flows:
        body = table_markup([_row(flow) for flow in flows], FLOW_HEADINGS)
        sections.append(Section("Cylinders across the current", body=body))
    found.save_page(path, sections)


def _print(found: "ModelCheck", flows: "tuple[CylinderFlow, ...]") -> None:
    """Print the verdict, findings and cylinders."""
    from rich.table import Table
    from rich.text import Text

    counts = {word: sum(f.verdict == word for f in found.findings) for word in STYLES}
    looks = f", {counts['look']} to look at" if counts["look"] else ""
    print(
        f"{found.model.name}: {'passed' if found.passed else 'FAILED'} "
        f"({counts['passed']} passed, {counts['failed']} failed{looks})"
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("verdict", "check", "measured", "bound", "what was found"):
        number = heading in ("measured", "bound")
        table.add_column(
            heading, justify="right" if number else "left", no_wrap=heading != "what was found"
        )
    for f in found.findings:
        numbers = ["" if x is None else f"{x:.1e}" for x in (f.measured, f.bound)]
        table.add_row(Text(f.verdict, STYLES[f.verdict]), Text(f.name), *numbers, Text(f.text))
    console = open_console()
    console.print(table)
    if flows:
        print()
        console.print(_flow_table(flows))


def _flow_table(flows: "tuple[CylinderFlow, ...]") -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in FLOW_HEADINGS:
        table.add_column(Text(heading), no_wrap=True)
    for flow in flows:
        style = "red" if flow.regime == CRISIS else ""
        table.add_row(*(Text(cell, style if cell == flow.regime else "") for cell in _row(flow)))
    return table
