"""`tiburon convert`: conversion of robot files, with a list of what the format cannot express."""

from pathlib import Path
from typing import Annotated

import typer

from tiburon.cli.console import Base, Force, PackagePath, Robot, load_quietly

EXAMPLES = """
tiburon convert arm.urdf arm.toml
tiburon convert puma560 puma.urdf
"""


def run(
    source: Robot,
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="The file to write: .toml (native) or .urdf.")
    ],
    base: Base = None,
    package_path: PackagePath = None,
    force: Force = False,
) -> None:
    """Write a robot in another format and list what that format cannot express."""
    import tiburon as tb

    if target.exists() and not force:
        raise tb.ModelFileError(target, "exists already; choose another name, or pass --force")
    model, warnings = load_quietly(source, package_path or (), base)
    for warning in warnings:
        print(f"warning: {warning}")
    losses = tb.save(model, target)
    noun = "body" if len(model.bodies) == 1 else "bodies"
    print(f"wrote {target}: {model.name}, {len(model.bodies)} {noun}, {model.total_mass:.4g} kg")
    if losses:
        print(f"{target.suffix} cannot express:")
        for loss in losses:
            print(f"- {loss}")
