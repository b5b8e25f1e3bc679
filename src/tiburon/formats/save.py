"""From a model to a file."""

import importlib
import os
from collections.abc import Callable
from pathlib import Path

from tiburon.arguments import public
from tiburon.errors import ModelError, ModelFileError
from tiburon.model.model import Model
from tiburon.written_file import write_file

WRITERS = {
    ".toml": ("tiburon.formats.native_write", "write_native"),
    ".urdf": ("tiburon.formats.urdf_write", "write_urdf"),
}
"""Module and function that write each format, by the end of a file's name."""

Writer = Callable[[Model, Path], tuple[str, tuple[str, ...]]]
"""Takes a model and the path to be, gives the text and what it could not express."""


@public
def save(model: Model, path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Save a robot in a file; one that exists is replaced once the new one is safe on disk.

    Args:
        model: The robot.
        path: Where to; native files (.toml) say everything a model can, URDF (.urdf) less.

    Returns:
        Sentences about what the format could not express; none for a native file that says all.

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
    text, losses = write(model, target)
    write_file(target, text, ModelFileError)
    return losses
