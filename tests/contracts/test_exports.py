"""The facade: one table of public names, and everything else that lists them agrees with it."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import tiburon

FACADE = Path(tiburon.__file__)


def names_for_type_checkers() -> dict[str, str]:
    """Read the imports under `if TYPE_CHECKING:` as public name -> module."""
    found: dict[str, str] = {}
    for node in ast.parse(FACADE.read_text()).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for statement in node.body:
                if not isinstance(statement, ast.ImportFrom):
                    continue
                for alias in statement.names:
                    # `X as X` is what marks a name as exported to type checkers
                    assert alias.asname == alias.name, f"write {alias.name} as {alias.name}"
                    found[alias.name] = str(statement.module)
    return found


def test_every_public_name_loads():
    """Each name in the table is defined by the module the table gives."""
    assert not [name for name in tiburon.__all__ if getattr(tiburon, name) is None]


def test_type_checkers_see_the_names_that_run_time_sees():
    """The static imports and the run-time table list the same names from the same modules."""
    assert names_for_type_checkers() == tiburon._EXPORTS


def test_public_names_are_sorted_and_unique():
    """One sorted table has no duplicates and merges cleanly."""
    names = list(tiburon._EXPORTS)
    assert names == sorted(set(names))


def test_the_reference_has_every_public_name_once():
    """Pages of the API reference list each name in one topic."""
    pages = FACADE.parents[2] / "docs" / "reference"
    listed = [
        line.strip()
        for page in sorted(pages.glob("*.md"))
        for block in page.read_text().split(":nosignatures:")[1:]
        for line in block.partition("```")[0].splitlines()
        if line.strip()
    ]
    assert sorted(listed) == sorted(tiburon._EXPORTS)


def test_every_public_name_has_one_level_of_stability():
    """The tables of the levels list each name once, and no other."""
    page = (FACADE.parents[2] / "docs" / "stability.md").read_text()
    _, *levels = page.split("\n## ")
    assert [text.partition("\n")[0] for text in levels] == ["Stable", "Provisional", "Experimental"]
    rows = [line for text in levels for line in text.splitlines() if line.startswith("| `")]
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[2])]
    assert sorted(listed) == sorted(tiburon._EXPORTS)


def test_completion_lists_names_that_are_not_loaded_yet():
    """dir() shows every public name."""
    assert set(tiburon.__all__) <= set(dir(tiburon))


def test_unknown_name_is_an_attribute_error_that_names_it():
    """A missing name behaves like that of any module, so hasattr() and copy tools work."""
    with pytest.raises(AttributeError, match="'no_such_name'"):
        tiburon.no_such_name  # noqa: B018
    assert not hasattr(tiburon, "no_such_name")


def test_every_public_function_and_class_has_a_docstring():
    """help() describes each of them."""
    values = {name: getattr(tiburon, name) for name in tiburon.__all__}
    documented = {
        name: bool(inspect.getdoc(value))
        for name, value in values.items()
        if inspect.isclass(value) or inspect.isroutine(value)
    }
    assert documented
    assert not [name for name, found in documented.items() if not found]
