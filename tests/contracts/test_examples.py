"""Every Python example in the documents runs as printed."""

import re
from pathlib import Path

import pytest

from tiburon import MissingExtraError

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "howto").glob("*.md")),
]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("[!i]*.md"))
EXAMPLES = [
    pytest.param(document, code, id=f"{document.name}-{number}")
    for document in DOCUMENTS
    for number, code in enumerate(
        re.findall(r"^```python\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL)
    )
]


@pytest.mark.parametrize(("document", "code"), EXAMPLES)
def test_example_runs(document, code):
    """A reader who copies the block sees it work, or which extra to install."""
    try:
        exec(compile(code, f"<{document.name}>", "exec"), {"__name__": "__main__"})
    except MissingExtraError as missing:
        pytest.skip(str(missing))


@pytest.mark.slow
@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda page: page.stem)
def test_tutorial_runs(tutorial):
    """Cells of a tutorial run in their order, as in a notebook."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    cells = re.findall(
        r"^```\{code-cell\}\n(.*?)^```$", tutorial.read_text(), re.MULTILINE | re.DOTALL
    )
    assert cells
    names = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        exec(compile(cell, f"<{tutorial.name}, cell {number}>", "exec"), names)


def test_the_readme_examples_keep_the_promise_of_ten_lines():
    """Not counting blank lines, each has at most ten."""
    codes = [example.values[1] for example in EXAMPLES if "README" in example.id]
    assert codes
    for code in codes:
        assert len([line for line in code.splitlines() if line.strip()]) <= 10
