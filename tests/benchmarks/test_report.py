"""Reports say what was measured, what was wished for, and what was missed."""

import json
import re

import pytest

from benchmarks import __main__ as runner
from benchmarks.figure import Accuracy, DisagreementError, Figure, Measurement
from benchmarks.machine import describe_run, usable_cores
from benchmarks.published import (
    BEGIN,
    END,
    GROUPS,
    ROOT,
    Family,
    MissingPlaceError,
    publish,
    read_figures,
    rendered,
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


RUN = {"command": "make bench", "processor": "Z80", "vector": "1 lane", "pin": "9", "mujoco": "8"}


def checkout(tmp_path):
    """Make a checkout whose pages have a place for figures."""
    (tmp_path / "docs").mkdir()
    for page in ("README.md", "docs/benchmarks.md", "docs/processes.md", "docs/throughput.md"):
        (tmp_path / page).write_text(f"# Title\n\n{BEGIN}\nold\n{END}\n\nThe end.\n")
    return tmp_path


def test_page_and_readme_show_the_figures_of_one_file(tmp_path):
    """Every cell a reader needs is in the row; bars in titles open no column."""
    root = checkout(tmp_path)
    arm = Figure("panda", FAST, "pin.aba", SLOW, must=8.5, aim=9.0, note="mind this")
    more = Figure("b", FAST, "p", SLOW, must=7.0)
    families = {"one-call": Family("Forward | dynamics", RUN, (arm, more, Figure("c", FAST)))}
    publish(families, ["one-call"], root)
    page, readme = (root / "docs/benchmarks.md").read_text(), (root / "README.md").read_text()
    cells = "| 1 us | pin.aba 8 us | 8.00x | 8.5x (aim 9x) | MISSED |"
    assert f"| panda {cells}" in page
    assert cells in readme
    assert "Of 2 bounds 1 are met, 1 missed." in page
    assert "processor: Z80" in page
    assert "- mind this" in page
    assert "Z80, 1 lane, against Pinocchio 9, MuJoCo 8" in readme
    for text in (page, readme):
        assert text.startswith("# Title")
        assert text.endswith("The end.\n")
        assert "old" not in text
    assert "8x pin.aba" in (root / "docs/images/benchmarks.svg").read_text()


def test_page_of_a_topic_shows_its_family_alone(tmp_path):
    """Before its figures are published it says how to measure them."""
    root = checkout(tmp_path)
    page = root / "docs/processes.md"
    other = Family("Other", RUN, (Figure("panda", FAST),))
    publish({"one-call": other}, ["one-call", "processes"], root)
    assert "`tiburon bench processes` measures them" in page.read_text()
    own = Family("Parts", RUN, (Figure("27 numbers, two ranks", FAST, note="pays where"),))
    publish({"processes": own}, ["one-call", "processes"], root)
    text = page.read_text()
    assert "| 27 numbers, two ranks | 1 us |" in text
    assert "- pays where" in text
    assert 'make bench ARGS="processes"' in text
    assert "processor: Z80" in text
    assert "panda" not in text
    assert "measures them" not in text


def test_throughput_is_what_a_step_takes(tmp_path):
    """Steps per second are those of the published time; what was not measured is left out."""
    root = checkout(tmp_path)
    own = Family("Runs", RUN, (Figure("quadruped, rk4, 4096 cases", SLOW), Figure("other", FAST)))
    publish({"simulation": own}, ["simulation"], root)
    text = (root / "docs/throughput.md").read_text()
    assert "| quadruped in the air, RK4 | 8 us | 0.125 million |" in text
    assert 'make bench ARGS="simulation"' in text
    assert "other" not in text
    assert "panda" not in text


def test_figures_come_back_from_the_file(tmp_path):
    """Times, accuracies and places in grids; a later run replaces its own families only."""
    root = checkout(tmp_path)
    kept = Accuracy(1e-12, "m", 1e-9, 1e-10, 1e-6)
    first = Family("One", RUN, (Figure("a", FAST, "p", SLOW, accuracy=kept, peer_accuracy=kept),))
    second = Family(
        "Two", {**RUN, "load before": "0.1"}, (Figure("f, r", FAST, row="f", column="r"),)
    )
    publish({"one-call": first, "compile": second}, ["one-call", "compile"], root)
    assert read_figures(root / "docs/benchmarks.json") == {"one-call": first, "compile": second}
    again = Family("Two", RUN, (Figure("f, r", SLOW, row="f", column="r"),))
    publish({"compile": again}, ["one-call", "compile"], root)
    assert read_figures(root / "docs/benchmarks.json") == {"one-call": first, "compile": again}
    assert "| `f` | 8 us |" in (root / "docs/benchmarks.md").read_text()


def test_page_without_marks_is_never_overwritten(tmp_path):
    """A page that lost its marks is named before anything is written."""
    root = checkout(tmp_path)
    (root / "README.md").write_text("mine")
    with pytest.raises(MissingPlaceError, match="no place for the figures"):
        rendered(root)
    assert (root / "README.md").read_text() == "mine"


def test_published_pages_are_those_of_the_file():
    """Tables, charts and rows in the checkout are what the published file gives."""
    for path, text in rendered().items():
        assert path.read_text() == text, f"{path.name}: run `python -m benchmarks --render`"


def test_other_pages_repeat_no_times():
    """Times of calls stand in the published file alone, so that pages cannot disagree."""
    # the output of a command
    own = {"drive.md"}
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.name not in own]
    pages = [page for page in pages if not {"_build", "generated"} & set(page.parts)]
    assert len(pages) > 100
    found = [
        f"{page.name}: {line.strip()}"
        for page in pages
        for line in re.sub(f"{BEGIN}.*{END}", "", page.read_text(), flags=re.S).splitlines()
        if re.search(r"\d (us|ns)\b", line)
    ]
    assert found == []


def test_every_measurement_has_a_section():
    """None is measured and then not shown."""
    shown = [name for names in GROUPS.values() for name in names]
    assert sorted(shown) == sorted(runner.find_measurements())


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
def test_failing_measurement_neither_stops_nor_hides_others(tmp_path, capsys, monkeypatch):
    """The others are still measured and written; the run as a whole fails."""
    json_path, published = tmp_path / "figures.json", []
    monkeypatch.setattr(runner, "publish", lambda whole, order: published.extend(whole) or [])
    code = runner.main(["--json", str(json_path), "--publish"])
    assert code == 1
    assert "bad: arm: results differ" in capsys.readouterr().err
    assert list(json.loads(json_path.read_text())["figures"]) == ["good"]
    # a family that failed keeps the figures that were published before
    assert published == ["good"]


def test_a_family_without_figures_is_no_failure(monkeypatch):
    """Where an optional peer is absent, nothing is measured and nothing published."""
    empty = {"none": Measurement("none", "None", lambda _: [], place=1)}
    monkeypatch.setattr(runner, "find_measurements", lambda: empty)
    monkeypatch.setattr(runner, "publish", lambda whole, order: pytest.fail("nothing to publish"))
    assert runner.main(["--publish"]) == 0


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
