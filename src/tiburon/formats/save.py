"""Save a model to a file, with mesh paths relative to the file's folder.

Readers open meshes only in the folder of a robot file and in package_paths. Meshes elsewhere are
therefore copied beside the saved file, unless the caller keeps them in place.
"""

import importlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tiburon.arguments import public
from tiburon.errors import ModelError, ModelFileError
from tiburon.model.model import Model
from tiburon.model.world import World
from tiburon.regular_file import read_regular_file
from tiburon.written_file import write_file

MESH_BYTES = 64 * 2**20
"""Largest mesh that is copied, equal to the largest that is read [bytes]."""


class SavedMeshes:
    """Names the meshes of a saved robot file, and copies those outside its folder."""

    def __init__(self, path: Path, *, copy: bool = False) -> None:
        """Start without meshes.

        Args:
            path: Path of the robot file.
            copy: Whether meshes outside its folder are copied beside it.
        """
        self.sentences: list[str] = []
        """Notes about meshes for the user."""
        self._folder = os.path.realpath(path.parent)
        self._place = f"{path.stem}_meshes"
        self._copy = copy
        self._names: dict[str, str] = {}
        self._copies: dict[str, bytes] = {}
        self._outside: set[str] = set()

    def name(self, mesh: str) -> str:
        """Return the name of a mesh in the file: relative to its folder, with slashes.

        Args:
            mesh: Path of the mesh, absolute or from the working directory; URIs such as
                ``package://...``, and names of missing files, are not changed.
        """
        if "://" in mesh or "\0" in mesh:
            return mesh
        path = os.path.abspath(mesh)
        exists = os.path.isfile(path)
        if not exists and not os.path.isabs(mesh):
            return mesh
        # links to the folder are resolved, links within it are kept
        path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        if self._is_inside(path) and (not exists or self._is_inside(os.path.realpath(path))):
            return _relative(path, self._folder)
        if not exists:
            return mesh
        if path not in self._names:
            self._names[path] = self._name_outside(path)
        return self._names[path]

    def write(self) -> None:
        """Copy meshes; existing files are not replaced.

        Raises:
            ModelFileError: If one cannot be written.
        """
        for name, content in self._copies.items():
            file = Path(self._folder, name)
            try:
                file.parent.mkdir(exist_ok=True)
            except OSError as error:
                raise ModelFileError(
                    file.parent, f"cannot be created as a folder ({error.strerror}); check the path"
                ) from error
            if not file.exists():
                write_file(file, content, ModelFileError)

    def _name_outside(self, path: str) -> str:
        """Return the name of a mesh outside the folder, and schedule its copy."""
        place = os.path.dirname(path)
        known = place in self._outside
        self._outside.add(place)
        if not self._copy:
            if not known:
                self.sentences.append(
                    f"meshes in {place} are outside the folder of the file; load it with "
                    "package_paths=[...]"
                )
            return _relative(path, self._folder)
        try:
            content = read_regular_file(
                Path(path), MESH_BYTES, "a mesh", "simplify it in a mesh editor"
            )
        except ModelFileError as error:
            self.sentences.append(
                f"a mesh was not copied, so load with package_paths=[...]: {error}"
            )
            return _relative(path, self._folder)
        if not known:
            self.sentences.append(
                f"meshes in {place} were copied to the folder {self._place} beside the file"
            )
        name = self._free_name(os.path.basename(path), content)
        self._copies[name] = content
        return name

    def _free_name(self, file: str, content: bytes) -> str:
        """Return a name that is free or has the same content."""
        stem, ending = os.path.splitext(file)
        number = 1
        while True:
            name = f"{self._place}/{stem if number == 1 else f'{stem}_{number}'}{ending}"
            there = self._copies.get(name)
            if there is None and os.path.lexists(os.path.join(self._folder, name)):
                there = self._content(name)
            if there is None or there == content:
                return name
            number += 1

    def _content(self, name: str) -> bytes:
        """Return the content of an existing file; empty if it is unreadable."""
        try:
            return read_regular_file(Path(self._folder, name), MESH_BYTES, "a mesh", "remove it")
        except ModelFileError:
            return b""

    def _is_inside(self, path: str) -> bool:
        return path.startswith(self._folder.rstrip(os.sep) + os.sep)


def _relative(path: str, folder: str) -> str:
    """Return a relative path with slashes; absolute on another drive."""
    with suppress(ValueError):
        path = os.path.relpath(path, folder)
    return path.replace(os.sep, "/")


WRITERS = {
    ".toml": ("tiburon.formats.native_write", "write_native"),
    ".urdf": ("tiburon.formats.urdf_write", "write_urdf"),
}
"""Module and function that write each format, by file suffix."""

Writer = Callable[..., tuple[str, tuple[str, ...]]]
"""Function of model, path and mesh names; returns the text and its losses."""


@public
def save(
    model: Model,
    path: str | os.PathLike[str],
    *,
    copy_meshes: bool = True,
    world: World | None = None,
) -> tuple[str, ...]:
    """Save a robot to a file; an existing file is replaced atomically.

    Mesh names are relative to the folder of the file, so that both can be moved together.

    Args:
        model: The robot.
        path: File to write; native files (.toml) represent every model, URDF (.urdf) not all.
        copy_meshes: Whether meshes outside the folder of the file are copied beside it, into
            ``<name of the file>_meshes``, so that it loads from there. Otherwise they are not
            copied, and loading needs ``package_paths=[...]``.
        world: The surroundings the robot is meant for: gravity, ground, and water with a constant
            current, which `load_world` reads from the same native file.

    Returns:
        Sentences about what the format cannot represent, and about meshes outside the folder; none
        for a complete native file.

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
            f"a robot can be saved as {' or '.join(WRITERS)}, got {suffix!r}; choose one of these",
        )
    module, function = WRITERS[suffix]
    write: Writer = getattr(importlib.import_module(module), function)
    meshes = SavedMeshes(target, copy=copy_meshes)
    if world is not None and not isinstance(world, World):
        raise ModelError(f"save: expected a World, got {world!r}; write world=World(ground=...)")
    given = {} if world is None or suffix != ".toml" else {"world": world}
    text, losses = write(model, target, meshes, **given)
    if world is not None and not given:
        losses = (*losses, f"the world is left out: {suffix} files hold robots alone")
    meshes.write()
    write_file(target, text, ModelFileError)
    return losses
