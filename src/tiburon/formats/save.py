"""From a model to a file."""

import importlib
import os
from collections.abc import Callable
from pathlib import Path

from tiburon.arguments import public
from tiburon.errors import ModelError, ModelFileError
from tiburon.formats.saved_meshes import SavedMeshes
from tiburon.model.model import Model
from tiburon.written_file import write_file

WRITERS = {
    ".toml": ("tiburon.formats.native_write", "write_native"),
    ".urdf": ("tiburon.formats.urdf_write", "write_urdf"),
}
"""Module and function that write each format, by the end of a file's name."""

Writer = Callable[[Model, Path, SavedMeshes], tuple[str, tuple[str, ...]]]
"""Takes a model, the path to be and how meshes are named; returns the text and what it lacks."""


@public
def save(
    model: Model, path: str | os.PathLike[str], *, copy_meshes: bool = True
) -> tuple[str, ...]:
    """Save a robot in a file; one that exists is replaced once the new one is safe on disk.

    Meshes are named relative to the folder of the file, so that both can be moved together.

    Args:
        model: The robot.
        path: Where to; native files (.toml) say everything a model can, URDF (.urdf) less.
        copy_meshes: Whether meshes outside the folder of the file are copied beside it, into
            ``<name of the file>_meshes``, so that it loads from there. Otherwise they stay where
            they are, and loading needs ``package_paths=[...]``.

    Returns:
        Sentences about what the format could not express, and about meshes that lie elsewhere;
        none for a native file that says all.

    Example:
        ``for loss in tiburon.save(arm, "arm.urdf"): print(loss)``
    """
    if not isinstance(model, Model):
        raise ModelError(f"save: expected a Model, got {model!r}; pass the robot first")
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in WRITERS:
        raise ModelFileError(
            target,
            f"a robot can be saved in files that end in {' or '.join(WRITERS)}, got {suffix!r}; "
            "choose one of these",
        )
    module, function = WRITERS[suffix]
    write: Writer = getattr(importlib.import_module(module), function)
    meshes = SavedMeshes(target, copy=copy_meshes)
    text, losses = write(model, target, meshes)
    meshes.write()
    write_file(target, text, ModelFileError)
    return losses
