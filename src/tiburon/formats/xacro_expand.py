"""Expansion of xacro, the macro language of URDF, by the package `xacro` (extra "xacro").

A xacro file is a program: it evaluates expressions and includes other files. Expand only files you
trust.
"""

import contextlib
import io
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tiburon.errors import MissingExtraError, ModelFileError

_lock = threading.Lock()
"""Held while a file is expanded: the package keeps its state in its modules."""


class _Arguments(dict[str, str]):
    """Arguments that know which names the file asked for."""

    def __init__(self, given: Mapping[str, object]) -> None:
        super().__init__({name: str(value) for name, value in given.items()})
        self.asked: dict[str, None] = {}

    def __contains__(self, name: object) -> bool:
        self.asked[str(name)] = None
        return super().__contains__(name)

    def __getitem__(self, name: str) -> str:
        self.asked[name] = None
        return super().__getitem__(name)


def expand_xacro(
    path: Path, package_paths: Sequence[str | Path] = (), arguments: Mapping[str, object] = {}
) -> bytes:
    """Return the URDF text that a xacro file makes.

    Args:
        path: The file.
        package_paths: Folders that hold packages, or are packages, for ``$(find name)``; beside
            the folders above the file, and those that ROS knows where it is installed.
        arguments: Values of ``$(arg name)``.

    Raises:
        MissingExtraError: If the package is not installed.
        ModelFileError: If the file cannot be expanded, or has no argument of a given name.
    """
    try:
        import xacro
        from xacro import substitution_args
    except ModuleNotFoundError as error:
        if error.name not in ("xacro", "yaml"):
            raise
        raise MissingExtraError("xacro", "xacro", f"{path.name}: a xacro file") from None
    roots = [Path(os.path.realpath(root)) for root in package_paths]
    roots += Path(os.path.realpath(path)).parents
    known = substitution_args._eval_find

    def find(package: str) -> str:
        for root in roots:
            for folder in (root, root / package):
                if folder.name == package and folder.is_dir():
                    return str(folder)
        try:
            return str(known(package))
        except Exception as error:
            raise substitution_args.SubstitutionException(
                f"package {package!r} was not found; load it with package_paths=[...] naming the "
                "folder that holds it"
            ) from error

    messages = io.StringIO()
    mappings = _Arguments(arguments)
    with _lock, contextlib.redirect_stderr(messages):
        substitution_args._eval_find = find
        try:
            document: Any = xacro.process_file(str(path), mappings=mappings)
            text: str = document.toxml()
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            advice = (
                "pass xacro_arguments={...} with its value"
                if "Undefined substitution argument" in reason
                else f"`xacro {path.name}` says more"
            )
            raise ModelFileError(path, f"xacro cannot expand it ({reason}); {advice}") from error
        finally:
            substitution_args._eval_find = known
    for name in arguments:
        if name not in mappings.asked:
            listed = ", ".join(map(repr, mappings.asked)) or "none"
            raise ModelFileError(
                path, f"xacro_arguments: the file has no argument {name!r}; it has {listed}"
            )
    return text.encode()
