"""Mesh paths of robot files, restricted to permitted folders.

Paths outside the folder of the file and the caller's package folders are rejected, also through
symbolic links. Meshes are not opened here.
"""

import os
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tiburon.formats.xml_tree import XmlElement

PACKAGE_SCHEMES = ("package", "model")
"""``package://name/path`` of ROS and ``model://name/path`` of Gazebo."""


class MeshPaths:
    """Resolves the mesh names of one robot file."""

    def __init__(self, folder: str | Path, package_paths: Iterable[str | Path] = ()) -> None:
        """Set the permitted folders.

        Args:
            folder: Folder of the robot file.
            package_paths: Folders that hold packages, or are packages.
        """
        self._given = folder
        self._package_paths = tuple(package_paths)

    @cached_property
    def folder(self) -> str:
        """Folder of the robot file, resolved on first use."""
        return os.path.realpath(self._given)

    @cached_property
    def packages(self) -> list[str]:
        """Folders that hold packages, or are packages."""
        return [os.path.realpath(path) for path in self._package_paths]

    def find(self, uri: str, element: XmlElement) -> str:
        """Return the path of a mesh, or the name as written if there is no such file.

        Names are relative paths, ``package://``, ``model://`` or ``file://``.

        Raises:
            ModelFileError: If the path is outside the permitted folders.
        """
        if "\0" in uri:
            element.fail("the name of a mesh must be a path, got one with a null byte; correct it")
        for path in self._candidates(uri):
            exists = os.path.isfile(path)
            if not self._allowed(os.path.realpath(path) if exists else path):
                # absolute paths of the author's machine are ignored if they do not exist
                if os.path.isabs(uri.removeprefix("file://")) and not exists:
                    continue
                element.fail(
                    "meshes must be in the folder of the robot file or in package_paths, got "
                    f"{uri[:80]!r}, which is elsewhere; load it with package_paths=[...] naming "
                    "a folder that holds it"
                )
            if exists:
                return path
        return uri

    def find_model(self, uri: str, element: XmlElement) -> str:
        """Return the file of an included model: the one named, or "model.sdf" in that folder."""
        for name in (uri, uri.rstrip("/") + "/model.sdf"):
            path = self.find(name, element)
            if os.path.isabs(path) and os.path.isfile(path) and self._allowed(path):
                return path
        element.fail(
            f"the model {uri[:80]!r} was not found in the folder of the file or in package_paths; "
            "load it with package_paths=[...] naming the folder that holds it"
        )

    def _candidates(self, uri: str) -> list[str]:
        """Return candidate absolute paths of a name, best first, without links resolved."""
        scheme, separator, rest = uri.partition("://")
        roots = (*self.packages, self.folder)
        if not separator:
            paths = [os.path.join(self.folder, uri)]
        elif scheme in PACKAGE_SCHEMES:
            package, _, inside = unquote(rest).partition("/")
            named = [root for root in roots if os.path.basename(root) == package]
            holding = [os.path.join(root, package) for root in roots]
            paths = [os.path.join(root, inside) for root in (*named, *holding)]
        elif scheme == "file":
            paths = [os.path.join(self.folder, unquote(_local_path(uri)))]
        else:
            # other schemes, such as https, are not local files
            paths = []
        return [os.path.normpath(path) for path in paths]

    def _allowed(self, path: str) -> bool:
        return any(
            path == root or path.startswith(root.rstrip(os.sep) + os.sep)
            for root in (self.folder, *self.packages)
        )


def _local_path(uri: str) -> str:
    """Return the path of a ``file://`` address."""
    try:
        return urlsplit(uri).path
    except ValueError:  # unbalanced brackets
        return uri.removeprefix("file://")
