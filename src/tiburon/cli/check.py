"""`tiburon check`: checks of a robot's parameters and of computations on it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiburon.cli.console import (
    FAILURE,
    AsJson,
    Base,
    PackagePath,
    Robot,
    load_quietly,
    open_console,
)

if TYPE_CHECKING:
    from tiburon.checks.model_check import ModelCheck
    from tiburon.functions.water import CylinderFlow
    from tiburon.model import Model, Water, World

EXAMPLES = """
tiburon check arm.urdf
tiburon check arm.urdf --quick --strict
tiburon check tiburon_titan --html titan.html
tiburon check arm.urdf --json
"""

CRITICAL_REGIME = "critical"
"""Flow regime of the drag crisis, in which drag coefficients are not constant."""

STYLES = {"passed": "green", "failed": "bold red", "warning": "yellow", "skipped": "dim"}
"""Color of each verdict."""

FLOW_HEADINGS = (
    "cylinder",
    "cross flow [m/s]",
    "Reynolds number",
    "regime",
    "shedding [Hz]",
)


def run(
    robot: Robot,
    pose: Annotated[
        str | None, typer.Option(help="Named pose; the neutral configuration by default.")
    ] = None,
    current: Annotated[
        tuple[float, float, float],
        typer.Option(help="Water velocity for the table of cylinders, world axes [m/s]."),
    ] = (0.0, 0.5, 0.0),
    density: Annotated[
        float, typer.Option(min=0.0, help="Density of the water [kg/m^3].")
    ] = 1025.0,
    viscosity: Annotated[
        float, typer.Option(min=0.0, help="Viscosity of the water [Pa s].")
    ] = 1.2e-3,
    base: Base = None,
    package_path: PackagePath = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Check parameters only; no simulation.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Fail also on warnings.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random states.")] = 0,
    html: Annotated[Path | None, typer.Option(help="Write the findings as an HTML page.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check a robot: its parameters and the computations on it.

    Reports implausible parameters (units, placeholders), agreement of algorithms, derivatives,
    conservation of energy and momentum, power balance with motors, friction and water, loop
    closures, contacts (geometry, momentum, weight at rest, bits of batches), and a recommended
    step. For every drag cylinder it lists the flow in a current around
    the robot at rest: Reynolds number, flow regime, vortex shedding frequency.

    Exit codes: 0 passed, 1 failed (with --strict also on warnings), 2 usage.
    """
    import tiburon as tb
    from tiburon.cli.run_options import world_of

    model, warnings = load_quietly(robot, package_path or (), base)
    if pose is not None and pose not in model.poses:
        raise tb.UnknownNameError("pose", pose, tuple(model.poses))
    water = tb.Water(density, current, viscosity)
    flows = _flows(model, pose, water)
    world = world_of(robot)
    if pose is None and world.ground is not None and model.poses:
        # robots that come with ground stand on it in their first pose
        pose = next(iter(model.poses))
    notes = [*warnings, *_drag_crises(flows)]
    found = _check(model, pose, water, world, notes, quick, seed)
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
        raise typer.Exit(FAILURE)


def _check(
    model: "Model",
    pose: str | None,
    water: "Water",
    world: "World",
    warnings: list[str],
    quick: bool,
    seed: int,
) -> "ModelCheck":
    """Check a robot and show progress on a terminal."""
    from rich.console import Console

    import tiburon as tb

    console = Console(stderr=True)
    with console.status(f"checking {model.name}") as status:
        return tb.check_model(
            model,
            pose=pose,
            fluid=water,
            world=world,
            warnings=warnings,
            motion=not quick,
            seed=seed,
            progress=lambda name: status.update(f"checking {model.name}: {name}"),
        )


def _flows(model: "Model", pose: str | None, water: "Water") -> "tuple[CylinderFlow, ...]":
    """Return the cross flow of all drag cylinders of a robot at rest, if it has any."""
    import numpy as np

    import tiburon as tb

    if not any(body.fluid is not None for body in model.bodies):
        return ()
    q = model.neutral() if pose is None else np.array(model.poses[pose])
    return tb.cylinder_flows(model, q, np.zeros(model.nv), water)


def _drag_crises(flows: "tuple[CylinderFlow, ...]") -> list[str]:
    """Return warnings about cylinders in the drag crisis."""
    return [
        f"body {flow.body!r}, drag {flow.index + 1}: Reynolds number {flow.reynolds:.2g} is in "
        "the drag crisis, where coefficients drop by half or more; check its coefficient"
        for flow in flows
        if flow.regime == CRITICAL_REGIME
    ]


def _row(flow: "CylinderFlow") -> tuple[str, str, str, str, str]:
    shed = f"{flow.shedding_frequency:.3g}" if flow.shedding_frequency else ""
    return (flow.body, f"{flow.speed:.3g}", f"{flow.reynolds:.2g}", flow.regime, shed)


def _save(found: "ModelCheck", flows: "tuple[CylinderFlow, ...]", path: Path) -> None:
    """Write the HTML page."""
    from tiburon.viewer.report import Section, table_markup

    sections = []
    if flows:
        body = table_markup([_row(flow) for flow in flows], FLOW_HEADINGS)
        sections.append(Section("Cylinders in cross flow", body=body))
    found.save_page(path, sections)


def _print(found: "ModelCheck", flows: "tuple[CylinderFlow, ...]") -> None:
    """Print the verdict, the findings and the cylinder table."""
    from rich.table import Table
    from rich.text import Text

    counts = {word: sum(f.verdict == word for f in found.findings) for word in STYLES}
    warned = f", {counts['warning']} warnings" if counts["warning"] else ""
    print(
        f"{found.model.name}: {'passed' if found.passed else 'FAILED'} "
        f"({counts['passed']} passed, {counts['failed']} failed{warned})"
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("verdict", "check", "measured", "bound", "result"):
        number = heading in ("measured", "bound")
        table.add_column(
            heading, justify="right" if number else "left", no_wrap=heading != "result"
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
        style = "red" if flow.regime == CRITICAL_REGIME else ""
        table.add_row(*(Text(cell, style if cell == flow.regime else "") for cell in _row(flow)))
    return table
