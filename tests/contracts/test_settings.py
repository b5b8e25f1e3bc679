"""Settings and limits that the documents name are those of the code."""

import re
from pathlib import Path

import pytest

from tiburon.algorithms.pair_products import MAX_INLINED_BODIES
from tiburon.functions.kernel_source import INLINED_BODIES
from tiburon.native.cache import DEFAULT_SIZE_LIMIT
from tiburon.native.code import CODES_IN_MEMORY
from tiburon.native.tape import MIN_CALLS

ROOT = Path(__file__).resolve().parents[2]
ENGINE = " ".join((ROOT / "docs" / "engine.md").read_text().split())


def test_every_environment_variable_is_documented():
    """And none that is documented was forgotten in the code."""
    code = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    read = set(re.findall(r"environ\.get\(\s*\"(TIBURON_\w+)\"", code))
    documented = set(re.findall(r"^\| `(TIBURON_\w+)` \|", _settings(), re.MULTILINE))
    assert read
    assert read == documented


def _settings():
    text = (ROOT / "docs" / "engine.md").read_text()
    return text[text.index("## Settings") :]


@pytest.mark.parametrize(
    "sentence",
    [
        f"Above {INLINED_BODIES} bodies",
        f"from {MAX_INLINED_BODIES + 1} bodies on",
        f"at least {MIN_CALLS} calls",
        f"last {CODES_IN_MEMORY} programs",
        f"| {DEFAULT_SIZE_LIMIT >> 20} MiB |",
    ],
)
def test_documented_limits_are_those_of_the_code(sentence):
    """A limit that is tuned must be tuned in both places."""
    assert sentence in ENGINE
