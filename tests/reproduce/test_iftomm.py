"""Mechanisms of the IFToMM library beside their references: what is compared, and when it fails."""

import pytest
from typer.testing import CliRunner

from tiburon.cli.application import application
from tiburon.errors import UnknownNameError
from tiburon.reproduce import iftomm
from tiburon.reproduce.cells import CellTable
from tiburon.reproduce.iftomm import _row, benchmarks

QUICK = ("four-bar-2", "bricard")
"""Small robots and few steps."""


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in iftomm.PROBLEMS
    ],
)
def test_every_value_agrees_within_its_tolerance(name):
    (found,) = benchmarks([name])
    *rows, time = found.cells
    assert all(row.good for row in rows), [row for row in rows if not row.good]
    assert time.good is None
    assert float(time.ours) > 0.0
    quantities = [row.quantity for row in rows]
    assert len(set(quantities)) == len(quantities) >= 6
    # loops are compared wherever there are some
    assert any("loop-closure" in quantity for quantity in quantities) == (name != "governor")
    assert any("no loops" in remark for remark in found.remarks) == (name == "governor")
    assert any("wall-clock time" in remark for remark in found.remarks) == (name == "andrews")


def test_changed_initial_state_fails_the_comparison(monkeypatch):
    """Nine in ten of the initial speed: only DoF, energy and loop closure stay good."""
    start = iftomm.simulate

    def slower(model, duration, *, v, **options):
        return start(model, duration, v=0.9 * v, **options)

    monkeypatch.setattr(iftomm, "simulate", slower)
    (found,) = benchmarks(["four-bar-2"])
    bad = [row.quantity for row in found.cells if row.good is False]
    assert {"x of B0 at 10 s [m]", "B0, largest speed error [m/s]"} < set(bad)
    assert not any("loop-closure" in quantity or "energy" in quantity for quantity in bad)


def test_non_finite_values_fail():
    assert not _row("", 0.0, float("nan"), 1.0).good
    assert _row("", 1.0, 1.5, 0.5).good
    assert not _row("", 1.0, 1.6, 0.5).good


def test_an_unknown_problem_is_reported_before_any_runs():
    with pytest.raises(UnknownNameError, match=r"problem.*'fourbar'.*four-bar-2"):
        benchmarks(["bricard", "fourbar"])


def test_the_command_prints_errors_and_its_exit_code_reports_the_verdict(monkeypatch):
    row = _row("angle [rad]", 1.0, 1.0 + 1e-9, 1e-6)
    good = CellTable("bricard", "Bricard: 10 s", (row,), ("and more",))
    bad = good._replace(cells=(row, _row("angle [rad]", 1.0, 2.0, 1e-6)))
    for shown, code, last in (
        ([good], 0, "agree: 1 of 1 independent; 0 differ"),
        ([good, bad], 1, "agree: 2 of 3 independent; 1 differ"),
    ):
        asked = []
        monkeypatch.setattr(
            iftomm,
            "benchmarks",
            lambda names, shown=shown, asked=asked: asked.extend(names) or shown,
        )
        result = CliRunner().invoke(application, ["reproduce", "iftomm", "bricard"])
        assert result.exit_code == code
        assert asked == ["bricard"]
        assert result.output.splitlines()[-1].startswith(last)
        assert "IFToMM library, bricard: Bricard: 10 s\n" in result.output
        assert "1.000000001 (error 1.0e-09, allowed 1.0e-06)" in result.output
        assert "\n  and more\n" in result.output
        assert ("DIFFERS" in result.output) == bool(code)
