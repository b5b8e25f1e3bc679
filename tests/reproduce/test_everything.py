"""All reproductions on one page."""

import json
import re

import pytest

from tiburon.cli.reproduce import _cells_as_json, application
from tiburon.errors import DomainError, UnknownNameError
from tiburon.reproduce import everything
from tiburon.reproduce.cell_page import cell_page
from tiburon.reproduce.cells import (
    BASES,
    DERIVED,
    NO_REFERENCE,
    SURROGATE,
    CellTable,
    claim,
    count_cells,
    lost,
    measured,
    number,
    operations,
    print_check,
)
from tiburon.reproduce.published import Cost
from tiburon.reproduce.solids import PARTS

QUICK = ("vehicle-paper", "decoupled")


@pytest.fixture(scope="module")
def found():
    return everything.reproduce(QUICK)


def test_every_command_is_part_of_all():
    """A new reproduction is added to the page."""
    commands = {command.name for command in application.registered_commands} - {"all"}
    assert commands <= set(everything.GROUPS)


def test_percentages_of_the_paper_are_those_of_its_table(found):
    """75 and 115 % in the text are 78.8 and 116.9 % by the totals of table II."""
    cells = found[0].tables[0].cells[:2]
    assert [(c.reference, c.corrected, c.good) for c in cells] == [
        ("75", "78.8", True),
        ("115", "116.9", True),
    ]


def test_error_of_decoupled_dynamics_is_linear_in_the_mass_of_a_light_arm(found):
    """The reaction of the arm on the vehicle is proportional to the mass of the arm."""
    texts = [cell.ours for cell in found[1].tables[0].cells]
    vehicle = [float(text.split()[0]) for text in texts]
    assert vehicle[1] / vehicle[0] == pytest.approx(10.0, rel=0.1)
    assert vehicle == sorted(vehicle)


def test_page_and_json_hold_all_cells(found):
    """Every table with its cells, and the verdict of each."""
    text = everything.page(found)
    data = json.loads(_cells_as_json(found))
    for group, entry in zip(found, data, strict=True):
        assert entry["reproduction"] == group.name
        for table, kept in zip(group.tables, entry["tables"], strict=True):
            assert table.title in text
            assert [c["quantity"] for c in kept["cells"]] == [c.quantity for c in table.cells]


def test_summary_counts_tables_cells_corrections_and_losses():
    """The first thing on the page."""
    cells = (
        claim("x", "1", "1", True),
        number("y", 1.0, 2.0, 0.1, corrected=2.0, reason="misprint"),
        number("z", 1.0, 2.0, 0.1, DERIVED),
        operations("f", Cost(3, 4), Cost(3, 3)),
        lost("u", "a figure"),
        lost("v", "another"),
        measured("w", "2", "3"),
    )
    text = cell_page("title", "about", [CellTable("t", "some values", cells)])
    summary = re.findall(r"<div class='card'>(.*?)</div>", text)
    shown = [" ".join(re.sub(r"<[^>]+>", " ", card).split()) for card in summary]
    assert shown[0] == "7 cells in 1 tables"
    assert shown[1] == "2 of 2 agree, reference: printed"
    assert shown[2] == "1 of 1 agree, reference: corrected print"
    assert shown[3] == "0 of 1 agree, reference: derived from print"
    assert shown[4] == "1 of these fewer"
    assert [card[:3] for card in shown[5:]] == ["1 d", "2 l", "1 n"]
    assert BASES["corrected print"] in text
    assert BASES["surrogate"] not in text


def test_origins_of_references_are_counted_apart():
    """A reader sees how many values are printed, and how many are not."""
    cells = (
        claim("a", "1", "1", True),
        number("b", 1.0, 1.0, 0.1, DERIVED),
        number("c", 1.0, 2.0, 0.1, SURROGATE),
        print_check("d", 2.0, 2.0, 0.1),
        operations("e", Cost(30, 20), Cost(31, 10)),
        measured("g", NO_REFERENCE, "3"),
        claim("h", "breaks", "runs on", True, corrected="runs on", reason="misprint"),
        print_check("i", 1.0, 2.0, 0.1, corrected=2.0, reason="misprint"),
    )
    counts = count_cells([CellTable("t", "some values", cells)])
    assert counts.summary == (
        "agree: 2 of 2 printed, 1 of 1 corrected print, 1 of 1 derived from print, "
        "0 of 1 surrogate, 2 of 2 print itself (1 fewer in sum); 1 differ, 1 not judged"
    )
    assert cells[3].verdict == "consistent"
    assert cells[5].kind == ""


@pytest.mark.parametrize(
    ("theirs", "ours", "verdict"),
    [
        ((30, 20), (30, 20), "agrees"),
        ((30, 20), (29, 20), "fewer"),
        ((30, 20), (32, 17), "fewer in sum"),
        ((30, 20), (32, 18), "equal in sum"),
        ((30, 20), (30, 21), "DIFFERS"),
    ],
)
def test_a_smaller_count_is_fewer_and_does_not_agree(theirs, ours, verdict):
    assert operations("x", Cost(*theirs), Cost(*ours)).verdict == verdict


@pytest.mark.parametrize("reference", ["-", "", " "])
def test_nothing_is_judged_without_a_reference(reference):
    """A cell that agrees with nothing would count as agreement."""
    with pytest.raises(DomainError, match="measured"):
        claim("x", reference, "2", True)
    with pytest.raises(DomainError, match="printed"):
        claim("x", "2", "2", True, "published")


def test_added_mass_is_judged_by_the_panels_of_its_command(monkeypatch):
    """Fewer panels miss the tolerance of rotations."""
    asked = []
    monkeypatch.setattr(
        "tiburon.reproduce.solids.panel_rows", lambda parts: asked.append(parts) or ()
    )
    (group,) = everything.reproduce(("added-mass",))
    assert asked == [PARTS]
    assert group.tables[0].remarks == ("500, 980, 2000 panels; the last agree within 1.5 %",)


def test_run_times_are_shown_and_never_judged():
    """Table 20 of the thesis and section VI of the paper."""
    (group,) = everything.reproduce(("run-times",))
    names = [table.name for table in group.tables]
    assert names == ["McMillan 1994, Table 20", "McMillan, Orin and McGhee 1995, section VI"]
    assert all(cell.good is None for table in group.tables for cell in table.cells)


def test_missing_extra_is_named_as_skipped(monkeypatch):
    """The others run all the same."""

    def absent():
        raise ModuleNotFoundError("no scipy", name="scipy")

    good = CellTable("t", "one value", (claim("x", "1", "1", True), measured("y", "2", "3")))
    groups = {
        "first": everything.Group("Somebody 1900", absent),
        "second": everything.Group("Somebody 1901", lambda: [good]),
    }
    monkeypatch.setattr(everything, "GROUPS", groups)
    skipped, done = everything.reproduce()
    assert skipped.skipped == "scipy is not installed"
    assert done.tables == (good,)
    assert "scipy is not installed" in everything.page((skipped, done))


def test_unknown_reproduction_is_refused():
    """The message lists those that exist."""
    with pytest.raises(UnknownNameError, match="khan"):
        everything.reproduce(["kahn"])
