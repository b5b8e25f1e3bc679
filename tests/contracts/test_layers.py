"""Rooms import each other by their modules; import-linter checks the order of the rooms."""

import ast
from pathlib import Path

import pytest

from tiburon.errors import UnknownNameError
from tiburon.exports import EXPORTS
from tiburon.functions import library

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "tiburon"


def imports_facade(source: str) -> bool:
    """Return whether a source text imports the package itself, at the top or inside functions.

    ``import tiburon as tb`` and ``from tiburon import simulate`` do; ``from tiburon.model import
    Model`` does not.
    """
    if "import tiburon" not in source and "from tiburon import" not in source:
        # most files; parsing them all takes seconds
        return False
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            if any(alias.name == "tiburon" for alias in node.names):
                return True
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module == "tiburon":
            return True
    return False


def test_only_command_line_and_demonstrations_import_the_facade():
    """The facade loads names on first use, which would hide an import of a room above.

    Demonstrations are written as users write: nothing but the command line is above them.
    """
    found = [
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if not {"cli", "demos"} & set(path.relative_to(PACKAGE).parts)
        and imports_facade(path.read_text())
    ]
    assert not found


def test_imports_of_the_facade_are_recognized():
    """Both forms count, at the top and inside a function; imports of a room's module do not."""
    assert imports_facade("import tiburon as tb")
    assert imports_facade("def f():\n    from tiburon import load")
    assert not imports_facade("from tiburon.model import Model\nimport tiburon.model.body")


def test_functions_load_no_room_above_by_name(monkeypatch):
    """Import-linter does not see modules that are imported by a string."""
    loaded = []
    monkeypatch.setattr(library, "import_module", loaded.append)
    for name in EXPORTS:
        with pytest.raises(UnknownNameError):
            type(library.LIBRARY)()[name]
    assert loaded
    assert {module.rpartition(".")[0] for module in loaded} == {"tiburon.functions"}
