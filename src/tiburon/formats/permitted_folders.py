"""Folders in which the files that a robot file names may be: meshes, includes, height fields.

A robot file names files of its own folder, and often of its neighbors: ``../meshes/arm.stl``. The
permitted folder therefore reaches up to the nearest folder above the file that marks a unit of
distribution: it holds ``package.xml`` (ROS) or ``__init__.py`` (Python), or has a ``*.dist-info``
beside it (an installed wheel). Without such a mark within `MAX_LEVELS` it is the file's own folder.
The caller may state it (``root=``) and add others (``package_paths=``).

Files count by their real paths, so that no symbolic link leads out.
"""

import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from tiburon.errors import ModelFileError

MAX_LEVELS = 5
"""Most levels from the folder of a file up to the folder that is permitted without being given."""

PACKAGE_FILE = "package.xml"
"""What a ROS package holds."""

MARKS = (PACKAGE_FILE, "__init__.py")
"""Files that mark the root of a package."""

INSTALLED = ".dist-info"
"""Ending of the folder that pip writes beside each installed package."""


class PermittedFolders:
    """Folders in which one robot file may name other files."""

    def __init__(
        self,
        folder: str | Path,
        package_paths: Iterable[str | Path] = (),
        root: str | Path | None = None,
    ) -> None:
        """Set the folders; none is opened before a file outside of them is asked for.

        Args:
            folder: Folder of the robot file.
            package_paths: Folders that hold packages, or are packages.
            root: Folder above the file, instead of the one that is found.
        """
        self._given = folder
        self._package_paths = tuple(package_paths)
        self._root = root

    @cached_property
    def folder(self) -> str:
        """Folder of the robot file, a real path."""
        return os.path.realpath(self._given)

    @cached_property
    def packages(self) -> list[str]:
        """Real paths of the folders that hold packages, or are packages."""
        return [os.path.realpath(path) for path in self._package_paths]

    @cached_property
    def root(self) -> str:
        """The folder up to which names may lead, a real path."""
        return root_above(self.folder) if self._root is None else os.path.realpath(self._root)

    def allows(self, path: str | Path) -> bool:
        """Return whether a real path is inside the permitted folders."""
        path = os.fspath(path)
        if any(is_inside(path, folder) for folder in (self.folder, *self.packages)):
            return True
        return is_inside(path, self.root)

    def packages_named(self, name: str) -> Iterator[tuple[str, bool]]:
        """Iterate over the folders that ``package://name`` or ``model://name`` may mean.

        A package is one of `packages`, in one of them, or above the file: a folder of this name, or
        one beside the folders above that holds ``package.xml``.

        Yields:
            The folder, and whether files in it are permitted since it is above the file.
        """
        given = (*self.packages, self.folder)
        yield from ((root, False) for root in given if os.path.basename(root) == name)
        yield from ((os.path.join(root, name), False) for root in given)
        if name in ("", os.curdir, os.pardir):
            return
        for folder in folders_above(self.folder):
            if self._root is not None and not is_inside(folder, self.root):
                # the caller has drawn the border
                return
            beside = os.path.join(folder, name)
            if os.path.basename(folder) == name and not _is_home(folder):
                yield folder, True
            elif os.path.isfile(os.path.join(beside, PACKAGE_FILE)):
                yield beside, True

    def advice(self, path: str | Path, load: str) -> str:
        """Return the call that permits a file; `load` names what is loaded."""
        try:
            shared = os.path.commonpath([self.folder, os.path.realpath(path)])
        except ValueError:
            # different drives
            shared = ""
        if os.path.dirname(shared) == shared:
            return f"load {load} with package_paths=[...] naming a folder that holds it"
        return (
            f"load {load} with root={shared!r}, or with package_paths=[...] naming a folder that "
            "holds it"
        )


def checked_root(path: Path, root: str | Path) -> str:
    """Return the real path of a root that a caller gives.

    Args:
        path: The robot file.
        root: The folder.

    Raises:
        ModelFileError: If it is no folder, or the file is not inside of it.
    """
    real, folder = os.path.realpath(root), os.path.realpath(path.parent)
    if not os.path.isdir(real) or not is_inside(folder, real):
        what = "one that does not hold it" if os.path.isdir(real) else "no folder"
        raise ModelFileError(
            path,
            f"root must be a folder above the file, got {os.fspath(root)!r}, {what}; pass the "
            "folder that holds the file and its meshes, or other folders as package_paths=[...]",
        )
    return real


def folders_above(folder: str) -> Iterator[str]:
    """Iterate over a folder and those above it, at most `MAX_LEVELS` above."""
    for _ in range(MAX_LEVELS + 1):
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def root_above(folder: str) -> str:
    """Return the nearest folder at or above a folder that is the root of a package; else itself.

    Args:
        folder: A real path.
    """
    return next((place for place in folders_above(folder) if _is_marked(place)), folder)


def is_inside(path: str, folder: str) -> bool:
    """Return whether a path is a folder or in it; both are real paths."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _is_marked(folder: str) -> bool:
    """Return whether a folder is the root of a package."""
    if any(os.path.isfile(os.path.join(folder, mark)) for mark in MARKS):
        return True
    above = os.path.dirname(folder)
    try:
        with os.scandir(above) as entries:
            return above != folder and any(entry.name.endswith(INSTALLED) for entry in entries)
    except OSError:
        return False


def _is_home(folder: str) -> bool:
    """Return whether a folder is the user's home or holds it: no package, whatever its name."""
    return is_inside(os.path.realpath(os.path.expanduser("~")), folder)
