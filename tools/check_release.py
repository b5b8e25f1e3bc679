"""Check that a tag may be released: `python tools/check_release.py v1.2.3`.

The version of the tag is that of `pyproject.toml` and `CITATION.cff`, and the changelog has a
section for it, with a date, below an empty "Unreleased". Exit code 0 if all of it holds.
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def problems(tag: str, root: Path = ROOT) -> Iterator[str]:
    """List what keeps a tag from being released."""
    match = re.fullmatch(r"v(\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?)", tag)
    if match is None:
        yield f"expected a tag such as v1.2.3 or v1.2.3rc1, got {tag!r}"
        return
    version = match.group(1)
    stated = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    if stated != version:
        yield f"pyproject.toml has version {stated}, the tag {version}"
    cited = re.search(r"^version: \"?([^\"\n]+)", (root / "CITATION.cff").read_text(), re.MULTILINE)
    if cited is None or cited.group(1) != version:
        yield f"CITATION.cff has version {cited and cited.group(1)}, the tag {version}"
    changes = (root / "CHANGELOG.md").read_text()
    heading = rf"^## \[?{re.escape(version)}\]? - \d{{4}}-\d\d-\d\d$"
    if re.search(heading, changes, re.MULTILINE) is None:
        yield f"CHANGELOG.md has no section '## [{version}] - YYYY-MM-DD'"
    unreleased = re.search(r"^## \[?Unreleased\]?$(.*?)(?=^## )", changes, re.MULTILINE | re.DOTALL)
    if unreleased is not None and unreleased.group(1).strip():
        yield "CHANGELOG.md has changes under 'Unreleased': move them to the section of the version"


def main(words: Sequence[str]) -> int:
    """Check one tag."""
    if len(words) != 1:
        print("expected one tag, such as v1.2.3", file=sys.stderr)
        return 2
    found = list(problems(words[0]))
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
