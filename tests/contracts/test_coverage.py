"""The table of covered features names every row, and only files and tests that exist."""

import re
from pathlib import Path

from tiburon.reproduce import chains, stars
from tiburon.reproduce.operation_counts import COUNTED
from tiburon.reproduce.published import ALGORITHMS, STARS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "coverage.md").read_text()
CORRECTIONS = (ROOT / "docs" / "corrections.md").read_text()

CHECKLISTS = {
    "Featherstone 1987": {"A": 23, "B": 20, "C": 18, "D": 12, "E": 24},
    "McMillan 1994": {
        "K": 8,
        "S": 6,
        "M-C": 5,
        "M-G": 7,
        "M-P": 7,
        "L": 7,
        "H": 11,
        "U": 8,
        "M-D": 14,
    },
    "McMillan, Orin and McGhee 1995": {"F": 34},
    "Nahon 1991": {"N": 58},
    "Khan 2002": {"K-G": 44},
}
"""Last row of each list of features; prefixes and the letter U keep rows of two lists apart."""

TRAPS = {
    "Featherstone": [f"T{k}" for k in range(1, 24)],
    "McMillan, *": [f"no. {k}" for k in range(1, 13)],
    "McMillan, Orin": [f"A{k}" for k in (1, *range(4, 11), *range(12, 16), 17, 18)],
    "Nahon": [f"B{k}" for k in range(1, 24)],
    "Khan": [f"C{k}" for k in range(1, 19)],
}
"""Numbered errors of each source that change a computation."""

NOT_BUILT = {"N42"}
"""Features that the page says are not built."""

ROWS = re.findall(
    r"^\| ((?:[MK]-)?[A-Z]\d+) \| .* \| `([^`]+)` \| `([^`]+)` \|$", PAGE, re.MULTILINE
)


def _exists(evidence: str) -> bool:
    """Return whether a test named `file::test`, or a file of tests, exists."""
    path, _, test = evidence.partition("::")
    file = ROOT / "tests" / path
    return file.is_file() and (not test or f"def {test}(" in file.read_text())


def test_every_row_of_the_checklists_is_there_once():
    """No feature is left out in silence, and none is listed twice."""
    expected = [
        f"{letter}{k}"
        for lists in CHECKLISTS.values()
        for letter, last in lists.items()
        for k in range(1, last + 1)
    ]
    assert sorted(row for row, *_ in ROWS) == sorted(set(expected) - NOT_BUILT)
    for row in NOT_BUILT:
        assert len(re.findall(rf"^\| {row} \|", PAGE, re.MULTILINE)) == 1


def test_code_and_evidence_exist():
    """A file or test that was renamed must be renamed on the page, too."""
    missing = [
        (row, code, evidence)
        for row, code, evidence in ROWS
        if not (ROOT / "src" / "tiburon" / code).is_file() or not _exists(evidence)
    ]
    assert not missing


def test_evidence_of_contact_names_tests_that_exist():
    """Closed forms, bad input and demonstrations, each with one or more tests."""
    section = PAGE.split("### Evidence of contact\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| .* \| (`.*`) \|$", section, re.MULTILINE)
    named = [test for row in rows for test in re.findall(r"`([^`]+)`", row)]
    assert len(rows) > 40
    assert [test for test in named if not _exists(test)] == []


def test_corrections_name_tests_that_exist():
    """Every correction has a test; every test of a trap is on the page."""
    named = re.findall(r"^\| (.*) \| .* \| .* \| .* \| `([^`]+)` \|$", CORRECTIONS, re.MULTILINE)
    assert len(named) > 100
    assert [(number, test) for number, test in named if not _exists(test)] == []
    listed = {test for _, test in named}
    files = {test.partition("::")[0] for test in listed}
    for path in (ROOT / "tests" / "verification").glob("*traps.py"):
        assert f"verification/{path.name}" in files
        for test in re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE):
            start = re.match(r"test_[^_]+_?\d*", test).group()
            assert any(start in other for other in listed), test


def test_every_numbered_error_is_corrected_once():
    """Each trap of the sources has one row in its section."""
    sections = CORRECTIONS.split("\n## ")[1:]
    assert len(sections) == len(TRAPS)
    for (source, traps), section in zip(TRAPS.items(), sections, strict=True):
        assert section.startswith(source)
        for trap in traps:
            assert len(re.findall(rf"^\| {trap} \|", section, re.MULTILINE)) == 1, trap


def test_counts_on_the_page_are_those_counted():
    """Published and ours for six joints, as the command prints them."""
    counted = {
        "inverse dynamics, Featherstone 1987": ("featherstone_inverse", chains.inverse_dynamics),
        "inverse dynamics, McMillan 1994": ("thesis_inverse", chains.inverse_dynamics),
        "mass matrix, Featherstone 1987": ("featherstone_mass_matrix", chains.composite_rigid_body),
        "mass matrix, McMillan 1994": ("thesis_mass_matrix", chains.composite_rigid_body),
        "forward dynamics by composite rigid bodies, Featherstone 1987": (
            "featherstone_forward",
            chains.forward_by_composite_rigid_body,
        ),
        "forward dynamics by articulated bodies, Featherstone 1987": (
            "featherstone_articulated",
            chains.articulated_body,
        ),
        "the same, McMillan 1994": ("thesis_articulated", chains.articulated_body),
        "the same, McMillan, Orin and McGhee 1995": ("paper_articulated", chains.articulated_body),
        "the same on a mobile base, 1995": ("paper_mobile", chains.mobile_articulated_body),
        "the same under water, 1995": ("paper_vehicle", stars.vehicle_with_arm),
        "the same under water, McMillan 1994": ("thesis_vehicle", stars.vehicle_with_arm),
        "the same, vehicle motion prescribed, 1994": ("thesis_decoupled", stars.decoupled_vehicle),
        "base at its mass center with one chain on land, 1994": (
            "thesis_star_land_1",
            COUNTED["thesis_star_land_1"],
        ),
        "base at its mass center with one chain under water, 1994": (
            "thesis_star_water_1",
            COUNTED["thesis_star_water_1"],
        ),
    }
    published = {**ALGORITHMS, **STARS}
    for name, (key, ours) in counted.items():
        costs = [f"{c.multiplications} + {c.additions}" for c in (published[key].at(6), ours(6))]
        assert f"| {name} | {costs[0]} | {costs[1]} |" in PAGE
    for key in ("composite_star_6", "star_land_6", "star_water_6"):
        for c in (STARS[f"thesis_{key}"].at(3), COUNTED[f"thesis_{key}"](3)):
            assert f"{c.multiplications} + {c.additions}" in PAGE
