"""`tiburon hydro`: hydrodynamic coefficients from the shapes of a robot, with their quality."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiburon.cli.console import AsJson, Base, Force, PackagePath, Robot, load_quietly, open_console

if TYPE_CHECKING:
    from tiburon.hydro.coefficients import BodyHydrodynamics
    from tiburon.model import BodyFluid

QUALITIES = {"exact": "green", "computed": "green", "fitted": "yellow", "guessed": "red"}
"""Color of each quality of a coefficient."""

EXAMPLES = """
tiburon hydro arm.urdf
tiburon hydro arm.urdf arm_wet.toml --density 1025
tiburon hydro arm.urdf --json
tiburon hydro rov.urdf rov_wet.toml --base free --fossen sheet.toml
"""


def run(
    source: Robot,
    target: Annotated[
        Path | None,
        typer.Argument(metavar="[OUT]", help="The native file (.toml) to write; none by default."),
    ] = None,
    density: Annotated[
        float, typer.Option(min=0.0, help="Density of the water [kg/m^3].")
    ] = 1025.0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace coefficients that bodies already have.")
    ] = False,
    panels: Annotated[
        int, typer.Option(min=20, max=4000, help="Panels for the added mass of a mesh.")
    ] = 1000,
    fossen: Annotated[
        Path | None,
        typer.Option(
            help="Data sheet (.toml) with coefficients in Fossen's order and axes, by body; other "
            "bodies are estimated."
        ),
    ] = None,
    base: Base = None,
    package_path: PackagePath = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Estimate hydrodynamic coefficients from shapes and rate their quality.

    Exact values follow from potential flow or geometry, computed ones from panels on a watertight
    mesh, fitted ones from tables of measured or computed values, guessed ones from the nearest
    known shape. A data sheet in Fossen's order and axes (linear first, z down) gives measured ones.
    """
    import tiburon as tb
    from tiburon.hydro.coefficients import BodyHydrodynamics, with_estimates

    if target is not None:
        if target.suffix != ".toml":
            raise tb.ModelFileError(
                target, "only native files hold hydrodynamic coefficients; name it .toml"
            )
        if target.exists() and not force:
            raise tb.ModelFileError(target, "exists already; choose another name, or pass --force")
    model, warnings = load_quietly(source, package_path or (), base)
    given: dict[str, BodyFluid] = {}
    if fossen is not None:
        from tiburon.formats.fossen_read import read_fossen

        given = read_fossen(fossen)
        model = model.with_fluids(given)
    report = tb.hydrodynamics_report(model, density, overwrite=overwrite, panels=panels)
    # those of the sheet stay, whatever else is overwritten
    report = tuple(
        BodyHydrodynamics(entry.body, given[entry.body], reason="from the data sheet")
        if entry.body in given
        else entry
        for entry in report
    )
    if target is not None:
        tb.save(with_estimates(model, report), target)
    if as_json:
        import json

        data = {"name": model.name, "bodies": [_body(entry) for entry in report]}
        print(json.dumps({**data, "density": density, "warnings": warnings}, indent=2))
        return
    for warning in warnings:
        print(f"warning: {warning}")
    _print(report)
    if target is not None:
        print(f"\nwrote {target}")


def _body(entry: "BodyHydrodynamics") -> dict[str, Any]:
    """Return one body as plain data."""
    fluid = entry.fluid
    found: dict[str, Any] = {
        "body": entry.body,
        "estimated": bool(entry.quality),
        "quality": entry.quality,
        "reason": entry.reason,
        "remark": entry.remark,
    }
    if fluid is not None:
        found |= {
            "volume": fluid.volume,
            "center_of_buoyancy": list(fluid.center_of_buoyancy),
            "added_mass": [list(row) for row in fluid.added_mass] if fluid.added_mass else None,
            "drag": [type(shape).__name__ for shape in fluid.drag],
        }
    return found


def _print(report: "Sequence[BodyHydrodynamics]") -> None:
    """Print one row per body."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("body", "volume [l]", "added mass x, y, z [kg]", "drag", "remark"):
        table.add_column(Text(heading), no_wrap=heading != "remark")
    for entry in report:
        fluid, quality = entry.fluid, entry.quality
        if fluid is None:
            table.add_row(Text(entry.body), "", "", "", Text(entry.reason))
            continue
        masses = ""
        if fluid.added_mass is not None:
            masses = ", ".join(f"{fluid.added_mass[k][k]:.4g}" for k in (3, 4, 5))
        drag = ", ".join(type(shape).__name__.removesuffix("Drag").lower() for shape in fluid.drag)
        cells = [
            _graded(f"{1e3 * fluid.volume:.4g}", quality.get("volume")),
            _graded(masses, quality.get("added_mass")),
            _graded(drag, quality.get("drag")),
        ]
        table.add_row(Text(entry.body), *cells, Text(entry.reason or entry.remark))
    console = open_console()
    console.print(table)


def _graded(text: str, quality: str | None) -> Any:
    """Return a value followed by its quality."""
    from rich.text import Text

    if quality is None:
        return Text(text)
    return Text.assemble(text, " ", (quality, QUALITIES[quality]))
