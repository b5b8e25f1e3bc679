"""`tiburon convert`: a robot file in another format, and what that format could not say."""

from pathlib import Path
from typing import Annotated

import typer

from tiburon.cli.loading import complete_robot, load_quietly

EXAMPLES = """
tiburon convert arm.urdf arm.toml
tiburon convert puma560 puma.urdf
"""


def run(
    source: Annotated[
        str,
        typer.Argument(
            metavar="IN",
            help="A robot file, or the name of one that ships.",
            autocompletion=complete_robot,
        ),
    ],
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="The file to write: .toml (native) or .urdf.")
    ],
    package_path: Annotated[
        list[Path] | None, typer.Option(help="Folder of packages for meshes; may be repeated.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> None:
    """Write a robot in another format and say what that could not express."""
    import tiburon as tb

    if target.exists() and not force:
        raise tb.ModelFileError(target, "exists already; choose another name, or pass --force")
    model, said = load_quietly(source, package_path or ())
    for warning in said:
        print(f"warning: {warning}")
    losses = tb.save(model, target)
    noun = "body" if len(model.bodies) == 1 else "bodies"
    print(f"wrote {target}: {model.name}, {len(model.bodies)} {noun}, {model.total_mass:.4g} kg")
    if losses:
        print(f"{target.suffix} could not say:")
        for loss in losses:
            print(f"- {loss}")
