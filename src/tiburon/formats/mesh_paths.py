"""Mesh paths of robot files, restricted to permitted folders.

Paths outside the folders of `permitted_folders` are rejected, also through symbolic links. Meshes
are not opened here.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tiburon.formats.permitted_folders import PermittedFolders, is_inside
from tiburon.formats.xml_tree import XmlElement

PACKAGE_SCHEMES = ("package", "model")
"""``package://name/path`` of ROS and ``model://name/path`` of Gazebo."""


class MeshPaths:
    """Resolves the mesh names of one robot file."""

    def __init__(
        self,
        folder: str | Path,
        package_paths: Iterable[str | Path] = (),
        root: str | Path | None = None,
    ) -> None:
        """Set the permitted folders.

        Args:
            folder: Folder of the robot file.
            package_paths: Folders that hold packages, or are packages.
            root: Folder above the file up to which names may lead; found by default.
        """
        self._places = PermittedFolders(folder, package_paths, root)

    def of_included(self, folder: str) -> "MeshPaths":
        """Return the paths of an included file: the same folders, and its own."""
        own = self._places
        return MeshPaths(folder, [own.folder, *own.packages], own.root)

    def find(self, uri: str, element: XmlElement) -> str:
        """Return the path of a mesh, or the name as written if there is no such file.

        Names are relative paths, ``package://``, ``model://`` or ``file://``.

        Raises:
            ModelFileError: If the path is outside the permitted folders.
        """
        if "\0" in uri:
            element.fail("the name of a mesh must be a path, got one with a null byte; correct it")
        for path, package in self._candidates(uri):
            exists = os.path.isfile(path)
            if not self._allowed(os.path.realpath(path) if exists else path, package):
                # absolute paths of the author's machine are ignored if they do not exist
                if os.path.isabs(uri.removeprefix("file://")) and not exists:
                    continue
                element.fail(
                    "meshes must be in the folder of the robot file, in that of its package, or in "
                    f"package_paths, got {uri[:80]!r}, which is elsewhere; "
                    f"{self._places.advice(path, 'it')}"
                )
            if exists:
                return path
        return uri

    def find_model(self, uri: str, element: XmlElement) -> str:
        """Return the file of an included model: the one named, or "model.sdf" in that folder."""
        for name in (uri, uri.rstrip("/") + "/model.sdf"):
            path = self.find(name, element)
            if os.path.isabs(path) and os.path.isfile(path):
                return path
        element.fail(
            f"the model {uri[:80]!r} was not found in the folder of the file or in package_paths; "
            "load it with package_paths=[...] naming the folder that holds it"
        )

    def _candidates(self, uri: str) -> Iterator[tuple[str, str | None]]:
        """Iterate over candidate absolute paths of a name, best first, without links resolved.

        The second value is the package above the file that the name refers to, if any.
        """
        scheme, separator, rest = uri.partition("://")
        folder = self._places.folder
        if not separator:
            yield os.path.normpath(os.path.join(folder, uri)), None
        elif scheme in PACKAGE_SCHEMES:
            package, _, inside = unquote(rest).lstrip("/").partition("/")
            for root, is_above in self._places.packages_named(package):
                yield os.path.normpath(os.path.join(root, inside)), root if is_above else None
        elif scheme == "file":
            yield os.path.normpath(os.path.join(folder, unquote(_local_path(uri)))), None
        # other schemes, such as https, are not local files

    def _allowed(self, path: str, package: str | None) -> bool:
        """Return whether a path may be opened: it is permitted, or in a package above the file."""
        inside = package is not None and is_inside(path, package)
        return inside or self._places.allows(path)


def _local_path(uri: str) -> str:
    """Return the path of a ``file://`` address; the host of a relative one is its first folder."""
    try:
        parts = urlsplit(uri)
        host = "" if parts.netloc == "localhost" else parts.netloc
        return host + parts.path
    except ValueError:  # unbalanced brackets
        return uri.removeprefix("file://")
