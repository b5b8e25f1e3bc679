"""The table of covered features names every row, and only files and tests that exist."""

import re
from pathlib import Path

from tiburon.reproduce import chains, stars
from tiburon.reproduce.operation_counts import COUNTED
from tiburon.reproduce.published import ALGORITHMS, STARS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "coverage.md").read_text()
LAST = {
    "A": 23,
    "B": 20,
    "C": 18,
    "D": 12,
    "E": 24,
    "K": 8,
    "S": 6,
    "H": 11,
    "U": 8,
    "L": 7,
    "N": 58,
}
"""Last row of each section of the sources' lists of features."""

OUT_OF_SCOPE = {"N42"}
"""Features that the page names as out of scope."""

CLOSED_CHAINS = {"K-G": 43, "M-C": 5, "M-G": 7, "M-P": 6}
"""Last row of the closed chains of Khan and of McMillan."""

CLOSED_ROWS = re.findall(
    r"^\| ((?:K-G|M-C|M-G|M-P)\d+) \| .* \| `([^`]+)` \| `([^`]+)` \|$", PAGE, re.MULTILINE
)

ROWS = re.findall(r"^\| ([ABCDEKSHULN]\d+) \| .* \| `([^`]+)` \| `([^`]+)` \|$", PAGE, re.MULTILINE)


def test_coverage_rows_are_complete_and_ordered():
    """No feature is left out in silence."""
    expected = [f"{letter}{k}" for letter, last in LAST.items() for k in range(1, last + 1)]
    assert [row for row, *_ in ROWS] == [row for row in expected if row not in OUT_OF_SCOPE]
    assert all(f"({row})" in PAGE for row in OUT_OF_SCOPE)


def test_every_row_of_closed_chains_is_there_once_and_in_order():
    """Khan's features and McMillan's, as far as they are on the page."""
    expected = [f"{name}{k}" for name, last in CLOSED_CHAINS.items() for k in range(1, last + 1)]
    assert [row for row, *_ in CLOSED_ROWS] == expected


def test_code_and_evidence_exist():
    """A file or test that was renamed must be renamed on the page, too."""
    missing = []
    for row, code, evidence in [*ROWS, *CLOSED_ROWS]:
        if not (ROOT / "src" / "tiburon" / code).is_file():
            missing.append(f"{row}: {code}")
        path, _, test = evidence.partition("::")
        file = ROOT / "tests" / path
        if not file.is_file() or (test and f"def {test}(" not in file.read_text()):
            missing.append(f"{row}: {evidence}")
    assert not missing


def test_traps_are_tested_under_their_names():
    """Every test of a trap is named on the page, and every one named there exists."""
    part = PAGE.split("## Errata of the sources")[1]
    named = re.findall(r"^\| .* \| .* \| `([^`:]+)::([^`]+)` \|$", part, re.MULTILINE)
    for path, test in named:
        assert f"def {test}(" in (ROOT / "tests" / path).read_text()
    listed = {re.match(r"test_[^_]+_?\d*", test).group() for _, test in named}
    for path in (ROOT / "tests" / "verification").glob("*traps.py"):
        for test in re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE):
            assert re.match(r"test_[^_]+_?\d*", test).group() in listed


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
