"""The benchmark tools tell the truth: about time, about agreement, about bounds."""

import functools
import io
import json
import math
import re
import timeit
import tomllib
import types
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks import __main__ as runner
from benchmarks import requirements, timing
from benchmarks.__main__ import main
from benchmarks.figure import DisagreementError, Figure, Measurement, check_equal
from benchmarks.machine import describe_run
from benchmarks.report import format_time, print_figures, write_json
from benchmarks.timing import Timing, measure

ROOT = Path(__file__).parents[2]


@pytest.fixture
def work(monkeypatch):
    """Replace the clock by one that only moves, in whole microseconds, when work is done."""
    now = [0.0]

    def clock():
        return math.floor(now[0] / 1e-6) * 1e-6

    def do(seconds):
        now[0] += seconds

    timers = types.SimpleNamespace(Timer=functools.partial(timeit.Timer, timer=clock))
    monkeypatch.setattr(timing, "timeit", timers)
    monkeypatch.setattr(timing, "perf_counter", clock)
    return do


@pytest.mark.parametrize("seconds", [4e-3, 1e-7])
def test_measured_time_is_that_of_one_call(work, seconds):
    """Of one call, not several, and finer than the clock where calls are short."""
    found = measure({"work": lambda: work(seconds)}, duration=0.05)["work"]
    assert found.minimum <= found.median
    # a sample lasts 2 ms and the clock resolves 1 us at each of its ends
    assert found.minimum == pytest.approx(seconds, rel=2e-3)


def test_sides_are_timed_in_turns(work):
    """A disturbance affects all sides, because samples alternate."""
    order = []

    def side(name):
        order.append(name)
        work(1e-5)

    measure({name: (side, name) for name in "ab"}, duration=0.01, sample_time=1e-4)
    changes = sum(one != next_one for one, next_one in pairwise(order))
    # five turns of two sides at the least
    assert changes >= 9


def test_equal_results_pass_and_unequal_ones_stop_the_comparison():
    """No time is compared between sides that compute different things."""
    rng = np.random.default_rng(7)
    peer = rng.standard_normal((5, 3))
    check_equal("same", peer * (1.0 + 1e-15), peer, tolerance=1e-12)
    with pytest.raises(DisagreementError, match="differ by"):
        check_equal("off", peer + 1e-6, peer, tolerance=1e-12)
    with pytest.raises(DisagreementError, match="shape"):
        check_equal("shape", peer[:-1], peer, tolerance=1e-12)
    with pytest.raises(DisagreementError, match="finite"):
        check_equal("nan", np.full((5, 3), np.nan), peer, tolerance=1e-12)


def test_bound_with_a_peer_is_a_ratio_and_without_one_a_time():
    """The verdict follows from the minima."""
    fast, slow = Timing(1e-6, 2e-6), Timing(8e-6, 9e-6)
    assert Figure("x", fast, "peer", slow, must=8.0).met is True
    assert Figure("x", fast, "peer", slow, must=8.5).met is False
    assert Figure("x", fast, must=1e-6).met is True
    assert Figure("x", slow, must=1e-6).met is False
    assert Figure("x", fast).met is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.6e-8, "26 ns"), (9.996e-7, "1 us"), (1.886e-6, "1.89 us"), (0.35, "350 ms"), (2.0, "2 s")],
)
def test_times_are_formatted(seconds, text):
    """Times are shown with three digits and the unit that fits."""
    assert format_time(seconds) == text


def test_a_missed_bound_is_visible_in_table_and_file(tmp_path):
    """Neither the printed nor the stored report can hide it."""
    figure = Figure("arm", Timing(2e-6, 2e-6), "peer", Timing(4e-6, 5e-6), must=3.0)
    console = Console(width=120, record=True, file=io.StringIO())
    print_figures("title", [figure], console)
    assert "MISSED" in console.export_text()
    write_json(tmp_path / "deep" / "figures.json", {"python": "3"}, {"family": [figure]})
    stored = json.loads((tmp_path / "deep" / "figures.json").read_text())
    assert stored["figures"]["family"][0]["met"] is False
    assert stored["figures"]["family"][0]["ratio"] == 2.0


def test_report_names_machine_versions_and_command():
    """A figure without these is worth nothing."""
    run = describe_run()
    for key in ("command", "processor", "python", "revision", "tiburon", "numpy", "llvmlite"):
        assert run[key]


def test_unknown_measurement_is_refused(capsys):
    """A typing error measures nothing and says how to list what there is."""
    with pytest.raises(SystemExit) as leaving:
        main(["no-such-figure"])
    assert leaving.value.code == 2
    assert "--list" in capsys.readouterr().err


# what is needed, and what is kept


def test_missing_packages_are_named_before_anything_is_measured(monkeypatch, capsys):
    """All that is missing at once, for what, and how to install it; no minute is lost."""
    absent = {"scipy", "pinocchio"}
    real = requirements.find_spec
    monkeypatch.setattr(
        requirements, "find_spec", lambda name: None if name in absent else real(name)
    )
    monkeypatch.setattr(runner, "_measure", lambda *_: pytest.fail("measured"))
    # with Exudyn at hand its rows need SciPy
    monkeypatch.setattr(requirements, "OPTIONAL", frozenset({"pydrake"}))
    assert main(["one-call", "loop-runs"]) == 1
    told = capsys.readouterr().err
    assert "pin (for one-call, loop-runs)" in told
    assert "scipy (for loop-runs)" in told
    assert "run `pip install" in told


def test_the_extra_brings_all_that_measurements_need():
    """What a file of the benchmarks imports is installed by `make bench`, or by the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    listed = [*project["dependencies"], *extras["bench"]]
    packages = {re.match(r"[\w-]+", line)[0] for line in listed}
    needed = set()
    for path in (ROOT / "benchmarks").glob("*.py"):
        needed |= requirements._imports(path.stem)[1]
    # rows of optional packages are left out where these are not installed
    needed -= requirements.OPTIONAL
    assert {requirements.PACKAGES.get(module, module) for module in needed} <= packages


def _fake(monkeypatch, *, failing):
    """Put one measurement in place that fails behind its first figure, and one that does not."""

    def broken(duration):
        yield Figure("first", Timing(1e-6, 1e-6))
        raise failing

    def sound(duration):
        yield Figure("second", Timing(1e-6, 1e-6))

    found = {
        "broken": Measurement("broken", "breaks", broken, place=1),
        "sound": Measurement("sound", "holds", sound, place=2),
    }
    monkeypatch.setattr(runner, "find_measurements", lambda: found)
    monkeypatch.setattr(runner, "missing_packages", lambda *_, **__: {})


@pytest.mark.parametrize("failing", [ModuleNotFoundError("no scipy"), DisagreementError("differ")])
def test_failing_measurement_leaves_all_other_figures(failing, monkeypatch, tmp_path, capsys):
    """Its own first row, and the families behind it, are shown and written."""
    _fake(monkeypatch, failing=failing)
    path = tmp_path / "figures.json"
    assert main(["--json", str(path)]) == 1
    stored = json.loads(path.read_text())["figures"]
    assert [row["name"] for family in stored.values() for row in family] == ["first", "second"]
    told = capsys.readouterr()
    assert "first" in told.out
    assert str(failing) in told.err


@pytest.mark.parametrize(
    ("failing", "code"), [(KeyboardInterrupt(), 130), (RuntimeError("the peer crashed"), None)]
)
def test_figures_survive_a_stopped_runner(failing, code, monkeypatch, tmp_path, capsys):
    """Ctrl-C and unexpected errors lose no measured row."""
    _fake(monkeypatch, failing=failing)
    path = tmp_path / "figures.json"
    if code is None:
        with pytest.raises(RuntimeError, match="the peer crashed"):
            main(["--json", str(path)])
    else:
        assert main(["--json", str(path)]) == code
        assert "what was measured is kept" in capsys.readouterr().err
    stored = json.loads(path.read_text())["figures"]
    assert [row["name"] for row in stored["broken"]] == ["first"]
    # nothing half-written lies beside it
    assert list(tmp_path.iterdir()) == [path]
