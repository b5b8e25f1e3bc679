"""Load a model or a world from a file of any supported format, or a robot of the zoo by name."""

import importlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tiburon.zoo as zoo
from tiburon.arguments import public
from tiburon.errors import ModelError, ModelFileError, nearest_name
from tiburon.formats.limits import read_start
from tiburon.model import World
from tiburon.model.joints import Joint
from tiburon.model.model import Model
from tiburon.zoo.index import GENERATED

READERS = {
    "native": ("tiburon.formats.native_read", "read_native"),
    "urdf": ("tiburon.formats.urdf_read", "read_urdf"),
    "mjcf": ("tiburon.formats.mjcf_read", "read_mjcf"),
    "sdf": ("tiburon.formats.sdf_read", "read_sdf"),
    "dynamechs": ("tiburon.formats.dynamechs_read", "read_dynamechs"),
}
"""Module and function that read each format; loaded when first needed."""

ROOTED_FORMATS = ("urdf", "mjcf", "sdf")
"""Formats whose files may name others up to the folder of their package."""

ROOTLESS_FORMATS = ("urdf", "sdf")
"""Formats that do not specify the joint between world and root link."""

SUFFIXES = {
    ".toml": "native",
    ".urdf": "urdf",
    ".xacro": "urdf",
    ".xml": "mjcf",
    ".mjcf": "mjcf",
    ".sdf": "sdf",
    ".world": "sdf",
    ".dm": "dynamechs",
}
"""Formats by file suffix; the root element of XML files takes precedence."""

ROOTS = {"robot": "urdf", "mujoco": "mjcf", "mujocoinclude": "mjcf", "sdf": "sdf", "gazebo": "sdf"}
"""Formats by the root element of XML."""

_ROOT = re.compile(r"<([A-Za-z_][\w.:-]*)")
_XML_PROLOG = re.compile(r"<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|<!.*?(?:>|\Z)", re.DOTALL)


@public
def load(
    source: str | os.PathLike[str],
    *,
    package_paths: Iterable[str | os.PathLike[str]] = (),
    root: str | os.PathLike[str] | None = None,
    root_joint: Joint | None = None,
    xacro_arguments: Mapping[str, object] | None = None,
) -> Model:
    """Load a robot from a file, or a robot of the zoo by name.

    Args:
        source: A name such as "puma560" (`tiburon models` lists them), or the path of a native
            (.toml), URDF (.urdf), xacro (.xacro; needs the extra "xacro"), MJCF (.xml; needs the
            extra "mjcf"), SDF (.sdf) or DynaMechs (.dm) file. Xacro files are programs: load only
            those you trust.
        package_paths: Folders that hold packages, or are packages, for meshes named
            ``package://name/...``; in addition to the folder of the file.
        root: Folder above the file: other files that it names, as ``../meshes/arm.stl``, must be
            inside of it. By default, for URDF, MJCF and SDF, the nearest folder up to five levels
            above the file that holds ``package.xml`` or ``__init__.py``, or has a ``*.dist-info``
            beside it; else the folder of the file.
        root_joint: Joint between world and root link, for URDF and SDF, which do not specify it; by
            default the convention of the format. ``Free("base")`` makes a floating robot.
        xacro_arguments: Values of ``$(arg name)`` in a xacro file, by name.

    Raises:
        ModelFileError: If the file is invalid; the message names file, line if known, element
            and cure.

    Warns:
        ModelWarning: If something was corrected or cannot be represented.

    Example:
        ``arm = tiburon.load("arm.urdf")``, ``arm = tiburon.load("puma560")``
    """
    path = _find(source)
    folders = _folders(package_paths)
    file_format = "generated" if path is None else format_of(path)
    options: dict[str, Any] = {}
    if root_joint is not None:
        if file_format not in ROOTLESS_FORMATS:
            raise ModelError(
                f"{source}: root_joint is for {' and '.join(ROOTLESS_FORMATS)} files, which do not "
                f"specify the root joint, got a {file_format} robot; change the file, or attach "
                "the robot with Model.attach(..., joint=...)"
            )
        options["root_joint"] = root_joint
    if xacro_arguments is not None:
        if path is None or not str(path).endswith(".xacro"):
            raise ModelError(
                f"{source}: xacro_arguments are for xacro files (.xacro), got a {file_format} "
                "robot; leave them out"
            )
        options["xacro_arguments"] = xacro_arguments
    if path is None:
        return zoo.generate(str(source))
    folders = _with_root(path, folders, root, file_format, options)
    module, function = READERS[file_format]
    model: Model = getattr(importlib.import_module(module), function)(
        path, package_paths=folders, **options
    )
    return model


def format_of(path: Path) -> str:
    """Return the format of a file by its content and name: one of `READERS`.

    Raises:
        ModelFileError: If the format is unknown.
    """
    start = read_start(path)
    by_name = SUFFIXES.get(path.suffix.lower())
    text = _decoded(start)
    if text.lstrip().startswith("<"):
        root = _ROOT.search(_XML_PROLOG.sub("", text))
        by_content = ROOTS.get(root.group(1)) if root is not None else None
        if by_content is not None:
            return by_content
        if by_name in ("urdf", "mjcf", "sdf"):
            return by_name
        given = "no root element" if root is None else f"<{root.group(1)[:40]}>"
        raise ModelFileError(
            path, f"XML of a robot must be <robot>, <mujoco> or <sdf>, got {given}; check the file"
        )
    if by_name is not None:
        return by_name
    if "tiburon-model" in text:
        return "native"
    if "dynamechs" in text.lower():
        return "dynamechs"
    raise ModelFileError(
        path,
        f"a robot file must end in {', '.join(SUFFIXES)}, got {path.suffix!r} and an unknown "
        "content; rename it, or convert it first",
    )


def _decoded(start: bytes) -> str:
    """Return the beginning of a file as text in any encoding."""
    for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if start.startswith(mark):
            return start[2:].decode(encoding, errors="replace")
    return start.removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors="replace")


def _find(source: str | os.PathLike[str]) -> Path | None:
    """Return the file that a name or path refers to; None for a generated robot of the zoo."""
    if not isinstance(source, (str, os.PathLike)):
        raise ModelError(f"load: expected the path of a file or a name, got {source!r}")
    name = os.fspath(source)
    if not isinstance(name, str):
        raise ModelError(f"load: expected the path of a file as a string, got {name!r}")
    path = Path(name)
    if not isinstance(source, str) or "\0" in name or os.path.lexists(path):
        return path
    if name in zoo.names():
        return None if name in GENERATED else zoo.path(name)
    if path.suffix or len(path.parts) > 1:
        return path
    near = nearest_name(name, zoo.names())
    hint = f"did you mean {near!r}?" if near else "`tiburon models` lists the zoo"
    raise ModelFileError(name, f"there is neither a zoo robot nor a file of this name; {hint}")


def _with_root(
    path: Path,
    folders: tuple[str, ...],
    root: str | os.PathLike[str] | None,
    file_format: str,
    options: dict[str, Any],
) -> tuple[str, ...]:
    """Hand a given root to a reader: as an option, or as one more permitted folder."""
    if root is None:
        return folders
    from tiburon.formats.permitted_folders import checked_root

    real = checked_root(path, os.fspath(root))
    if file_format in ROOTED_FORMATS:
        options["root"] = real
        return folders
    return (*folders, real)


def _folders(package_paths: Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return folders as strings; accepts a single one without a list."""
    if isinstance(package_paths, (str, os.PathLike)):
        package_paths = (package_paths,)
    return tuple(os.fspath(folder) for folder in package_paths)


WORLD_READERS = {
    "native": ("tiburon.formats.native_world", "read_native_world"),
    "mjcf": ("tiburon.formats.mjcf_read", "read_mjcf_world"),
    "dynamechs": ("tiburon.formats.dynamechs_read", "read_dynamechs_world"),
}
"""Module and function that read each format; loaded when first needed."""


@public
def load_world(
    source: str | os.PathLike[str],
    *,
    package_paths: Iterable[str | os.PathLike[str]] = (),
    root: str | os.PathLike[str] | None = None,
) -> World:
    """Load a world from a file: gravity, ground and fluid.

    Args:
        source: Name of a robot of the zoo that has a world, or path of a native file (.toml) with
            a table [world], of a DynaMechs environment file (.env), or of an MJCF file (.xml; needs
            the extra "mjcf"), which has gravity, fluid, and a plane or height field as ground.
        package_paths: Permitted folders in addition to that of the file.
        root: Folder above the file up to which it may name files, as in `load`.

    Raises:
        ModelFileError: If the file is invalid; the message names file, line if known,
            element and cure.

    Example:
        ``tb.load_world("block_slope")``
    """
    path = _find(source)
    if path is None:
        raise ModelFileError(
            os.fspath(source), "this robot of the zoo has no world; write World(...) instead"
        )
    start = read_start(path).decode("utf-8", errors="replace")
    if path.suffix.lower() == ".toml" or "tiburon-model" in start:
        word = "native"
    elif path.suffix.lower() in (".xml", ".mjcf") or "<mujoco" in start:
        word = "mjcf"
    elif path.suffix.lower() == ".env" or "Gravity_Vector" in start:
        word = "dynamechs"
    else:
        raise ModelFileError(
            path,
            "a world is loaded from a native file (.toml), a DynaMechs environment (.env) or an "
            f"MJCF file (.xml), got {path.suffix!r}; write World(gravity=..., ground=..., "
            "fluid=...) instead",
        )
    options: dict[str, Any] = {}
    folders = _with_root(path, _folders(package_paths), root, word, options)
    module, function = WORLD_READERS[word]
    world: World = getattr(importlib.import_module(module), function)(
        path, package_paths=folders, **options
    )
    return world
