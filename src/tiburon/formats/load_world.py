"""From a file to the surroundings it states."""

import importlib
import os
from collections.abc import Iterable
from pathlib import Path

from tiburon.arguments import public
from tiburon.errors import ModelFileError
from tiburon.formats.limits import read_start
from tiburon.model import World

READERS = {
    "mjcf": ("tiburon.formats.mjcf", "read_mjcf_world"),
    "dynamechs": ("tiburon.formats.dynamechs_world", "read_dynamechs_world"),
}
"""Module and function that read each format; loaded when first needed."""


@public
def load_world(
    source: str | os.PathLike[str], *, package_paths: Iterable[str | os.PathLike[str]] = ()
) -> World:
    """Load the surroundings of a robot from a file: gravity, ground and what fills the space.

    Args:
        source: Path of a DynaMechs environment file (.env), or of an MJCF file (.xml; needs the
            extra "mjcf"), which states gravity and what fills the space.
        package_paths: Folders that may be read beside the file's own.

    Raises:
        ModelFileError: If the file cannot be read; the message names file, line where known,
            element and cure.

    Example:
        ``sea = tiburon.load_world("seabed.env")``
    """
    path = Path(source)
    start = read_start(path).decode("utf-8", errors="replace")
    if path.suffix.lower() in (".xml", ".mjcf") or "<mujoco" in start:
        word = "mjcf"
    elif path.suffix.lower() == ".env" or "Gravity_Vector" in start:
        word = "dynamechs"
    else:
        raise ModelFileError(
            path,
            f"surroundings come from a DynaMechs environment (.env) or an MJCF file (.xml), got "
            f"{path.suffix!r}; write World(gravity=..., ground=..., fluid=...) instead",
        )
    module, function = READERS[word]
    world: World = getattr(importlib.import_module(module), function)(
        path, package_paths=[Path(folder) for folder in package_paths]
    )
    return world
