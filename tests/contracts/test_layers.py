"""Rooms import downward only, and never through the facade."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "tiburon"


def room_heights() -> dict[str, int]:
    """Read the layers of the import contract: room -> height, higher rooms import lower ones."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (layers,) = (
        contract["layers"]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )
    heights = {}
    for height, layer in enumerate(reversed(layers)):
        for room in layer.split("|"):
            heights[room.strip(" ()")] = height
    return heights


def imported_modules(source: str, package: list[str]) -> set[str]:
    """List the tiburon modules a source text imports, at the top or inside functions.

    Args:
        source: Text of the module.
        package: Dotted path of the package the module is in, split.
    """
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from tiburon import model` names the room in the alias
            if module == "tiburon":
                found |= {f"tiburon.{alias.name}" for alias in node.names}
            else:
                found.add(module)
    return {module for module in found if module.split(".")[0] == "tiburon"}


def violations(room: str, modules: set[str], heights: dict[str, int]) -> list[str]:
    """List what a module of a room imports and must not."""
    wrong = []
    for module in sorted(modules):
        parts = module.split(".")
        if len(parts) == 1 or parts[1] not in heights:
            wrong.append(f"{module} (the facade; import from the room itself)")
        elif parts[1] != room and heights[parts[1]] >= heights[room]:
            wrong.append(f"{module} (not below {room})")
    return wrong


ROOMS = sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE)


@pytest.mark.parametrize("path", ROOMS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module_imports_only_from_rooms_below(path):
    """Each module imports its own room and rooms below; only the command line uses the facade."""
    parts = ["tiburon", *path.relative_to(PACKAGE).parent.parts]
    room = parts[1]
    wrong = violations(room, imported_modules(path.read_text(), parts), room_heights())
    if room == "cli":
        wrong = [entry for entry in wrong if "the facade" not in entry]
    assert not wrong


def test_every_room_has_its_place_in_the_contract():
    """A directory of the package that no layer names would escape the contract."""
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert rooms <= set(room_heights())


def test_the_check_itself_sees_upward_imports_and_the_facade():
    """The helper reports what it is there to report, relative imports included."""
    source = "import tiburon\nfrom ..model import Model\ndef f():\n    from tiburon.cli import demo"
    modules = imported_modules(source, ["tiburon", "spatial"])
    assert modules == {"tiburon", "tiburon.model", "tiburon.cli"}
    heights = {"cli": 3, "model": 2, "spatial": 1, "errors": 0}
    assert len(violations("spatial", modules, heights)) == 3
    assert violations("spatial", {"tiburon.errors"}, heights) == []
