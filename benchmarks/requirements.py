"""What measurements need to have installed: found in their sources, before anything is measured."""

import ast
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from benchmarks.figure import Measurement

__all__ = ["OPTIONAL", "advice", "missing_packages"]

PACKAGES = {"pinocchio": "pin", "pydrake": "drake"}
"""What to install for a module whose package has another name."""

OPTIONAL = frozenset({"pydrake", "exudyn", "jax", "torch", "casadi", "fmpy", "ziglang"})
"""Peers without wheels for every machine, and large frameworks: without them rows are left out."""

FOLDER = Path(__file__).parent


def missing_packages(
    measurements: Iterable[Measurement], *, optional: bool = False
) -> dict[str, list[str]]:
    """Find what is not installed.

    Args:
        measurements: What is to be measured.
        optional: Whether to look for peers that may be absent, rather than for what is needed.

    Returns:
        Names of packages to install, each with the measurements that need it.
    """
    found: dict[str, list[str]] = {}
    for measurement in measurements:
        start = measurement.run.__module__.removeprefix("benchmarks.")
        for module in sorted(_needed(start)):
            if (module in OPTIONAL) == optional and find_spec(module) is None:
                found.setdefault(PACKAGES.get(module, module), []).append(measurement.name)
    return found


def advice(missing: Mapping[str, Iterable[str]]) -> str:
    """Say which packages are missing, for what, and how to install them."""
    listed = "; ".join(f"{package} (for {', '.join(of)})" for package, of in missing.items())
    return f"not installed: {listed}; run `pip install {' '.join(missing)}`, or `make bench`"


def _needed(start: str) -> frozenset[str]:
    """Return the foreign modules that a file of this folder imports, itself or through others."""
    seen: set[str] = set()
    pending = [start]
    foreign: set[str] = set()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        own, others = _imports(name)
        absent = {module for module in others & OPTIONAL if find_spec(module) is None}
        # a file that cannot be loaded asks for nothing else
        foreign |= absent or others
        pending += () if absent else own
    return frozenset(foreign)


@cache
def _imports(name: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return what a file imports anywhere in it: files of this folder, and foreign modules.

    Files that are started as processes, or loaded by name, are named in texts.
    """
    path = FOLDER / f"{name}.py"
    if not path.is_file():
        return (), frozenset()
    named: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            named.add(node.module)
            if node.module == "benchmarks":
                named |= {f"benchmarks.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and str(node.value).startswith("benchmarks."):
            named.add(str(node.value))
    own = {x.removeprefix("benchmarks.") for x in named if x.startswith("benchmarks.")}
    roots = {x.partition(".")[0] for x in named} - {"benchmarks", "tiburon", "__future__"}
    return tuple(sorted(own)), frozenset(roots - sys.stdlib_module_names)
