"""The files around the code agree with each other and with the code."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_version_is_the_same_everywhere():
    """The citation names the version that is built."""
    (cited,) = re.findall(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited == PROJECT["version"]


def test_changelog_opens_with_unreleased_changes():
    """The first entry of the changelog is the one to write into."""
    first = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first is not None
    assert first[1] == "[Unreleased]"


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "docs/install.md"])
def test_documents_mention_only_make_targets_that_exist(document):
    """Commands of the documents exist."""
    declared = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert declared is not None
    text = (ROOT / document).read_text()
    mentioned = set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE))
    assert mentioned
    assert mentioned <= set(declared[1].split())


def test_contributing_explains_every_run_time_dependency():
    """A dependency without a reason has no place."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for requirement in PROJECT["dependencies"]:
        name = re.split(r"[<>=\[ ]", requirement)[0]
        assert f"| {name} |" in text


def test_architecture_describes_every_room():
    """Each directory of the package has its row."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    for room in (ROOT / "src" / "tiburon").glob("*/__init__.py"):
        assert f"| `{room.parent.name}/` |" in text


def test_files_and_names_of_the_architecture_exist():
    """Every file, room and name that ARCHITECTURE.md points to is in the tree."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    source = ROOT / "src" / "tiburon"
    files = {path.relative_to(source).as_posix() for path in source.rglob("*")}
    # tables name files of a room by their last part
    ends = {part for path in files for part in (path, path.rpartition("/")[2])}
    named = set(re.findall(r"(?<![\w/<>])[\w/]+\.py\b", text)) - {"tiburon/__init__.py"}
    assert len(named) > 100
    assert named - ends == set()
    code = " ".join(path.read_text() for path in source.rglob("*.py"))
    words = set(re.findall(r"\w+", code))
    names = {name.rpartition(".")[2] for name in re.findall(r"`([A-Za-z_][\w.]*)`", text)}
    assert names - {"py", "toml", "md"} - words == set()


def test_architecture_lists_every_table_in_memory():
    """A cached function or a table of a module has its reason there; a new one needs one."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    source = ROOT / "src" / "tiburon"
    table = (
        r"^@(functools\.)?(lru_)?cache\b"
        r"|^_\w+: .*[dD]ict(ionary)?\[.* = (\{\}|OrderedDict\(\)|weakref\.Weak\w+\(\))$"
    )
    found = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(table, path.read_text(), re.MULTILINE)
    }
    assert found > {"model/currents.py", "model/closure.py"}
    # named by their room, or constants of the language
    rooms, constants = ("native/", "reproduce/"), {"trace/graph.py"}
    left = {path for path in found - constants if not path.startswith(rooms)}
    assert {path for path in left if f"`{path}`" not in text} == set()


def test_installation_lists_every_extra():
    """In its tables, and no extra that is not there."""
    text = (ROOT / "docs" / "install.md").read_text()
    rows = re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert listed == set(PROJECT["optional-dependencies"])


def test_type_information_is_packaged():
    """The marker that makes type checkers read our annotations is in the package."""
    assert (ROOT / "src" / "tiburon" / "py.typed").is_file()


def test_readme_shows_eight_benchmarks_with_misses():
    """Rows come from the file of published figures; a README that shows no miss hides some."""
    text = (ROOT / "README.md").read_text()
    rows = re.findall(r"^\| [^|]+ \| .+x \| .+ \| (.+) \|$", text, re.MULTILINE)
    assert len(rows) == 8
    assert "MISSED" in rows
    assert text.count("\n") <= 150
