"""Loading of robots, the console and the exit codes that all subcommands share."""

import warnings
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiburon.cli import INTERRUPTED

if TYPE_CHECKING:
    from rich.console import Console

    from tiburon.model import Model


PIPE_WIDTH = 140
"""Columns of tables that are written to a file or pipe."""


def open_console() -> "Console":
    """Return a console as wide as the terminal, or of PIPE_WIDTH without one."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=max(PIPE_WIDTH, console.width))


def complete_robot(incomplete: str) -> list[str]:
    """Return the zoo robots that match a prefix; shells complete files themselves."""
    from tiburon import zoo

    return [name for name in zoo.names() if name.startswith(incomplete)]


class RootJoint(StrEnum):
    """Joint between world and root link."""

    FREE = "free"
    FIXED = "fixed"


Robot = Annotated[
    str,
    typer.Argument(
        metavar="FILE|NAME",
        help="Robot file, or the name of a robot of the zoo.",
        autocompletion=complete_robot,
    ),
]
PackagePath = Annotated[
    list[Path] | None, typer.Option(help="Package folder with meshes; may be repeated.")
]
Base = Annotated[
    RootJoint | None,
    typer.Option(
        help="Joint between world and root link of a URDF or SDF file, which do not specify it: "
        "free for a vehicle, or fixed."
    ),
]
Pose = Annotated[str | None, typer.Option(help="Named initial pose.")]
Position = Annotated[
    str | None, typer.Option("--q", help="Initial q: 0.1,0.2,... or elbow=0.5,wrist=-1 [m or rad].")
]
Triple = tuple[float, float, float]
WorldFile = Annotated[
    Path | None,
    typer.Option(
        help="World file (native .toml, DynaMechs .env, MJCF .xml); that of the robot by default."
    ),
]
Ground = Annotated[
    float | None,
    typer.Option(min=0.0, help="Level ground at z = 0 with this coefficient of friction."),
]
Contact = Annotated[
    str | None,
    typer.Option(help="Contact: rigid, compliant, exact or none; by the ground by default."),
]
Density = Annotated[
    float | None, typer.Option(min=0.0, help="Density of the water [kg/m^3]; adds water.")
]
Current = Annotated[Triple | None, typer.Option(help="Velocity of the water [m/s]; adds water.")]
Surface = Annotated[
    float | None, typer.Option(help="Height of the free surface [m]; none by default.")
]
Fluid = Annotated[
    list[str] | None,
    typer.Option(
        help="A property of the water: current=0.3,0,0 [m/s], density, surface, viscosity, strips "
        "or split_strips; may be repeated; adds water."
    ),
]
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Whether to open a browser.")]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def load_quietly(
    source: str, package_paths: Sequence[Path] = (), base: RootJoint | None = None
) -> tuple["Model", list[str]]:
    """Load a robot and collect the warnings about its file.

    Args:
        source: Path of a file, or the name of a robot of the zoo.
        package_paths: Folders that are searched for meshes.
        base: Joint between world and root link, named "base"; by default that of the file.

    Returns:
        The robot, and the warnings raised while it was read.
    """
    import tiburon as tb

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", tb.ModelWarning)
        root = {RootJoint.FREE: tb.Free, RootJoint.FIXED: tb.Fixed}
        joint = None if base is None else root[base]("base")
        model = tb.load(source, package_paths=package_paths, root_joint=joint)
    caught = [entry for entry in caught if issubclass(entry.category, tb.ModelWarning)]
    return model, [str(entry.message) for entry in caught]


SUCCESS = 0
"""Success: a run reached its end or a terminal event, or a check passed."""

FAILURE = 1
"""Bad input, or a failed check."""

DIVERGED = 3
"""A run diverged. (2 is a usage error.)"""

BUDGET = 4
"""A run exceeded its wall-clock budget."""

ZENO = 5
"""A run was stopped by an infinite sequence of events (Zeno behavior)."""

KILLED = 137
"""The process of a run was killed. Shell convention: 128 + signal 9."""

EXIT_CODES = {
    "finished": SUCCESS,
    "event": SUCCESS,
    "diverged": DIVERGED,
    "budget": BUDGET,
    "zeno": ZENO,
    "interrupted": INTERRUPTED,
    "killed": KILLED,
}
"""Exit code of each run status."""
