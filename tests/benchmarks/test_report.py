"""Reports say what was measured, what was wished for, and what was missed."""

import json

import pytest

from benchmarks import __main__ as runner
from benchmarks.figure import DisagreementError, Figure, Measurement
from benchmarks.machine import describe_run, usable_cores
from benchmarks.markdown import (
    BEGIN,
    END,
    MissingPlaceError,
    check_place,
    markdown_section,
    markdown_table,
    write_markdown,
)
from benchmarks.report import format_bound, format_quantity, notes_of
from benchmarks.timing import Timing, measure

FAST, SLOW = Timing(1e-6, 2e-6), Timing(8e-6, 9e-6)


@pytest.mark.parametrize(
    ("must", "aim", "verdict"),
    [(8.5, 9.0, "MISSED"), (7.0, 8.5, "met"), (7.0, 8.0, "aim met"), (7.0, None, "met")],
)
def test_verdict_distinguishes_bound_from_aim(must, aim, verdict):
    """A figure of 8x is judged by both."""
    assert Figure("x", FAST, "peer", SLOW, must=must, aim=aim).verdict == verdict


def test_figure_without_bound_has_no_verdict():
    """What is only shown is not praised."""
    assert Figure("x", FAST, "peer", SLOW).verdict == ""


def test_sizes_are_judged_and_written_as_sizes():
    """Memory has its own unit."""
    figure = Figure("memory", Timing(80e6, 81e6), must=120e6, unit="B")
    assert figure.met is True
    assert format_quantity(figure.ours.minimum, figure.unit) == "80 MB"
    assert format_bound(figure, figure.must) == "120 MB"


def test_time_of_a_piece_is_the_share_of_the_whole():
    """A batch is reported per state."""
    assert Timing(8e-3, 16e-3).per(4) == Timing(2e-3, 4e-3)


def test_arguments_reach_the_timed_call():
    """A call given as function and arguments is made with exactly those."""
    seen = []
    measure(
        {"call": (lambda *given: seen.append(given), 3, "four")}, duration=0.0, sample_time=1e-5
    )
    assert set(seen) == {(3, "four")}


def test_notes_are_listed_once():
    """Three figures with one remark give one line."""
    figures = [Figure(name, FAST, note="the same") for name in "abc"]
    assert notes_of(figures) == ["the same"]


def test_table_shows_misses_bounds_and_both_sides():
    """Every cell a reader needs is in the row."""
    figure = Figure("arm", FAST, "pin.aba", SLOW, must=8.5, aim=9.0)
    table = markdown_table({"one": [figure]}, {"one": "Forward | dynamics"})
    lines = table.splitlines()
    # the title's bar must not open a column
    assert lines[2].startswith("| **Forward \\| dynamics** |")
    assert lines[3] == "| arm | 1 us | pin.aba 8 us | 8.00x | 8.5x (aim 9x) | MISSED |"


def test_section_counts_misses_and_names_command_machine_and_notes():
    """The summary above the table cannot be better than the table."""
    figures = [
        Figure("a", FAST, "p", SLOW, must=9.0, note="mind this"),
        Figure("b", FAST, "p", SLOW, must=7.0),
        Figure("c", FAST),
    ]
    section = markdown_section(
        {"command": "make bench", "processor": "Z80"}, {"f": figures}, {"f": "title"}
    )
    assert "Of 2 bounds 1 are met, 1 missed." in section
    assert "`make bench`" in section
    assert "processor: Z80" in section
    assert "- mind this" in section
    # medians are twice the minima here
    assert "at most 2.00 times" in section


def test_a_section_replaces_only_the_text_between_its_marks(tmp_path):
    """The rest of a README is its author's."""
    path = tmp_path / "README.md"
    path.write_text(f"# Title\n\n{BEGIN}\nold\n{END}\n\nThe end.\n")
    write_markdown(path, "new | table")
    write_markdown(path, "newer | table")
    assert path.read_text() == f"# Title\n\n{BEGIN}\n\nnewer | table\n\n{END}\n\nThe end.\n"


def test_file_without_marks_is_never_overwritten(tmp_path):
    """A wrong file name destroys nothing, and is found before anything is measured."""
    path = tmp_path / "notes.md"
    path.write_text("mine")
    for act in (check_place, lambda where: write_markdown(where, "figures")):
        with pytest.raises(MissingPlaceError, match="no place for the figures"):
            act(path)
    with pytest.raises(SystemExit):
        runner.main(["--markdown", str(path)])
    assert path.read_text() == "mine"


def test_new_file_gets_marks_for_the_next_time(tmp_path):
    """A second run finds its place in what the first one wrote."""
    path = tmp_path / "deep" / "figures.md"
    check_place(path)
    write_markdown(path, "first")
    write_markdown(path, "second")
    assert "second" in path.read_text()
    assert "first" not in path.read_text()


@pytest.fixture
def two_families(monkeypatch):
    """One family that agrees and meets its bound, one whose sides disagree."""

    def disagree(duration):
        raise DisagreementError("arm: results differ")

    found = {
        "bad": Measurement("bad", "Bad", disagree, place=1),
        "good": Measurement("good", "Good", lambda _: [Figure("x", FAST, must=1e-3)], place=2),
    }
    monkeypatch.setattr(runner, "find_measurements", lambda: found)


@pytest.mark.usefixtures("two_families")
def test_failing_measurement_neither_stops_nor_hides_others(tmp_path, capsys):
    """The others are still measured and written; the run as a whole fails."""
    json_path, markdown_path = tmp_path / "figures.json", tmp_path / "figures.md"
    code = runner.main(["--json", str(json_path), "--markdown", str(markdown_path)])
    assert code == 1
    assert "bad: arm: results differ" in capsys.readouterr().err
    assert list(json.loads(json_path.read_text())["figures"]) == ["good"]
    assert "**Good**" in markdown_path.read_text()


@pytest.mark.usefixtures("two_families")
def test_met_bounds_give_success():
    """The exit code serves scripts."""
    assert runner.main(["good"]) == 0


def test_every_measurement_has_its_own_place_and_name():
    """The report is in one order on every machine, and needs no peer to be listed."""
    found = runner.find_measurements()
    places = [measurement.place for measurement in found.values()]
    assert places == list(range(1, len(places) + 1))
    assert all(name == measurement.name for name, measurement in found.items())


def test_report_names_vector_width_and_cores():
    """Batches cannot be judged without them."""
    run = describe_run()
    assert "float64 lanes" in run["vector"]
    assert f"{usable_cores()} logical cores" in run["processor"]
