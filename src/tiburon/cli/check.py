"""`tiburon check`: what about a robot is hardly meant, and where its water numbers are doubtful."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiburon.cli.loading import load_quietly, open_console

if TYPE_CHECKING:
    from tiburon.algorithms.cylinder_flow import CylinderFlow
    from tiburon.model import Model

EXAMPLES = """
tiburon check arm.urdf
tiburon check tiburon_titan --html titan.html
tiburon check arm.urdf --strict --json
"""

CRISIS = "critical"
"""Regime in which coefficients of drag are not constant."""


def run(
    robot: Annotated[str, typer.Argument(help="A robot file, or the name of one that ships.")],
    pose: Annotated[
        str | None, typer.Option(help="A named position; the neutral one by default.")
    ] = None,
    current: Annotated[
        tuple[float, float, float], typer.Option(help="Velocity of the water, world axes [m/s].")
    ] = (0.0, 0.5, 0.0),
    density: Annotated[
        float, typer.Option(min=0.0, help="Density of the water [kg/m^3].")
    ] = 1025.0,
    viscosity: Annotated[float, typer.Option(min=0.0, help="Of the water [Pa s].")] = 1.2e-3,
    package_path: Annotated[
        list[Path] | None, typer.Option(help="Folder of packages for meshes; may be repeated.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail if there is anything to look at.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Look for what is hardly meant in a robot: units, placeholders, drag that is doubtful.

    For every cylinder that drag acts on, it tells how a robot at rest meets the current: Reynolds
    number, regime of the flow, and the frequency at which vortices leave the cylinder.
    """
    import tiburon as tb

    model, doubts = load_quietly(robot, package_path or ())
    doubts += [str(doubt) for doubt in tb.suspicions(model)]
    flows = _flows(model, pose, tb.Water(density, current, viscosity))
    doubts += [
        f"body {flow.body!r}, drag {flow.index + 1}: Reynolds number {flow.reynolds:.2g} lies in "
        "the drag crisis, where coefficients fall by half or more; check its coefficient"
        for flow in flows
        if flow.regime == CRISIS
    ]
    if as_json:
        import json
        from dataclasses import asdict

        described = {"name": model.name, "warnings": doubts, "cylinders": [*map(asdict, flows)]}
        print(json.dumps(described, indent=2))
    else:
        _print(model, doubts, flows)
    if strict and doubts:
        raise typer.Exit(1)


def _flows(model: "Model", pose: str | None, water: Any) -> "tuple[CylinderFlow, ...]":
    """Return the flow across all cylinders of a robot at rest; none where water meets nothing."""
    import numpy as np

    import tiburon as tb

    if pose is not None and pose not in model.poses:
        raise tb.UnknownNameError("pose", pose, tuple(model.poses))
    if not any(body.fluid is not None for body in model.bodies):
        return ()
    q = model.neutral() if pose is None else np.array(model.poses[pose])
    return tb.cylinder_flows(model, q, np.zeros(model.nv), water)


def _print(model: "Model", doubts: list[str], flows: "tuple[CylinderFlow, ...]") -> None:
    """Print doubts as a list and cylinders as a table."""
    from rich.table import Table
    from rich.text import Text

    noun = "thing" if len(doubts) == 1 else "things"
    print(f"{model.name}: {f'{len(doubts)} {noun} to look at' if doubts else 'nothing found'}")
    for doubt in doubts:
        print(f"- {doubt}")
    if not flows:
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("cylinder of", "flow across [m/s]", "Reynolds number", "flow", "vortices [Hz]"):
        table.add_column(Text(heading), no_wrap=True)
    for flow in flows:
        shed = f"{flow.shedding_frequency:.3g}" if flow.shedding_frequency else ""
        regime = Text(flow.regime, style="red" if flow.regime == CRISIS else "")
        table.add_row(
            Text(flow.body), f"{flow.speed:.3g}", f"{flow.reynolds:.2g}", regime, Text(shed)
        )
    print()
    open_console().print(table)
