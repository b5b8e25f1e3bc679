"""Runs of closed mechanisms of all codes are judged by the same measures."""

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

import tiburon as tb
from benchmarks.figure import Accuracy, DisagreementError, Figure
from benchmarks.loop_runs import (
    accuracy_of,
    check_same_motion,
    distance_of_frames,
    kinetic_scale,
    make_loop_case,
    run_ours,
)
from benchmarks.loop_table import print_loops
from benchmarks.measure_loop_runs import FAST_ENERGY_MUST
from benchmarks.published import Family, page_section
from benchmarks.timing import Timing

FAST, SLOW = Timing(1e-6, 2e-6), Timing(8e-6, 9e-6)


@pytest.fixture(scope="module")
def four_bar():
    return make_loop_case("four_bar", 40)


@pytest.fixture(scope="module")
def ours(four_bar):
    return run_ours(four_bar, repeats=1)


def test_our_run_keeps_loops_and_energy(four_bar, ours):
    kept = accuracy_of(four_bar, ours, kinetic_scale(four_bar, ours), (1e-10, 1e-6))
    assert ours.q.shape == (41, 3)
    assert kept.met


def test_energy_error_of_fast_motion_is_truncation_error():
    """Planar_3rrr whips past a dead point at 40 rad/s: half the step leaves 2^-4 of the error.

    Projection by forces that do work, or to a residual above rounding, would leave an error that
    does not fall.
    """
    case = make_loop_case("planar_3rrr, falling")
    errors = []
    for step in (1e-3, 5e-4):
        settings = {
            "execution": tb.Execution(progress=False),
            "record": tb.Record(every=1),
        }
        ran = tb.simulate(
            case.model.without_passive().without_limits(),
            2.0,
            world=case.world,
            q=case.q,
            v=case.v,
            method=tb.RK4(dt=step),
            **settings,
        )
        kinetic = tb.kinetic_energy(case.model, ran.q, ran.v)
        energy = kinetic + tb.potential_energy(case.model, ran.q, world=case.world)
        errors.append(np.abs(energy - energy[0]).max() / kinetic.max())
    assert np.abs(ran.v).max() > 35.0
    assert errors[0] < FAST_ENERGY_MUST[case.name]
    assert errors[1] < errors[0] / 12.0


def test_residual_is_the_distance_of_the_two_frames(four_bar):
    """The rocker turned away by an angle: a chord around its pivot, 0.9 m long."""
    turned = four_bar.q + np.array([0.0, 0.0, 0.02])
    # both ends are sums of a few numbers of order 1
    assert distance_of_frames(four_bar, turned) == pytest.approx(
        2.0 * 0.9 * np.sin(0.01), abs=1e-14
    )
    assert distance_of_frames(four_bar, np.array([four_bar.q, turned])) > 0.01


def test_energy_error_is_relative_to_the_kinetic_energy(four_bar, ours):
    scale = kinetic_scale(four_bar, ours)
    slowed = replace(ours, v=ours.v * np.linspace(1.0, 0.9, len(ours.v))[:, None])
    lost = 0.19 * tb.kinetic_energy(four_bar.model, ours.q[-1], ours.v[-1])
    assert accuracy_of(four_bar, slowed, scale).energy == pytest.approx(lost / scale, rel=0.05)


@pytest.mark.parametrize(("side", "what"), [("q", "start"), ("v", "start"), ("v", "first 10")])
def test_another_start_or_other_forces_are_refused(four_bar, ours, side, what):
    changed = getattr(ours, side).copy()
    changed[0 if what == "start" else 10] += 1e-2
    with pytest.raises(DisagreementError, match=what):
        check_same_motion(four_bar, ours, replace(ours, **{side: changed, "close": 1e-3}))
    check_same_motion(four_bar, ours, replace(ours, close=0.0))


def test_residual_and_energy_are_bounds_as_times_are():
    held = Accuracy(1e-12, "m", 1e-8, residual_must=1e-10, energy_must=1e-6)
    assert Figure("x", FAST, accuracy=held).met is True
    assert Figure("x", FAST, accuracy=replace(held, residual=1e-9)).met is False
    assert Figure("x", FAST, accuracy=replace(held, energy=1e-5)).met is False
    assert Figure("x", FAST, accuracy=replace(held, energy=None)).met is False
    assert Figure("x", FAST, "peer", SLOW, must=9.0, accuracy=held).met is False
    assert Figure("x", FAST, accuracy=Accuracy(1.0)).met is None


def test_every_code_has_a_row_with_its_time_residual_and_energy():
    kept = Accuracy(1e-12, "m", 1e-8, residual_must=1e-10, energy_must=1e-6)
    figures = [
        Figure("stewart", FAST, accuracy=kept),
        Figure("stewart", FAST, "A", SLOW, accuracy=kept, peer_accuracy=Accuracy(2e-3, "m", 0.5)),
        Figure("arm", FAST, "B", SLOW, 9.0, accuracy=Accuracy(1e-15, "m/s^2")),
    ]
    families = {
        "loops": Family("Loops", {}, tuple(figures)),
        "water": Family("Other", {}, (Figure("z", FAST),)),
    }
    section = page_section(families)
    rows = [
        "| stewart | ours | 1 us |  | 1.0e-12 m | 1.0e-08 | 1e-10 m, energy 1e-06 | met |",
        "|  | A | 8 us | 8.00x | 2.0e-03 m | 5.0e-01 | 1e-10 m, energy 1e-06 | met |",
        "| arm | ours | 1 us |  | 1.0e-15 m/s^2 |  |  |  |",
        "|  | B | 8 us | 8.00x |  |  | 9x | MISSED |",
    ]
    assert "\n".join(rows) in section
    assert "| z | 1 us |  |  |  |  |" in section
    console = Console(width=140, record=True, file=io.StringIO())
    print_loops("Loops", figures, console)
    printed = console.export_text()
    for word in ("MISSED", "2.0e-03 m", "5.0e-01"):
        assert word in printed


@pytest.mark.slow
def test_a_code_that_is_not_installed_leaves_a_remark_and_no_row(monkeypatch):
    from benchmarks import loop_runs, measure_loop_runs

    monkeypatch.setattr(loop_runs, "MECHANISMS", {"four_bar": loop_runs.MECHANISMS["four_bar"]})
    absent = {"nowhere": ("benchmarks.no_such_peer", "run", [{}])}
    monkeypatch.setattr(measure_loop_runs, "PEERS", absent)
    figures = list(measure_loop_runs.run(0.0))
    assert [figure.peer for figure in figures] == [None]
    assert any("no rows of nowhere" in figure.note for figure in figures)


@pytest.mark.slow
@pytest.mark.parametrize("package", ["pin", "mujoco", "drake", "exudyn"])
def test_a_peer_in_another_gravity_is_refused(package):
    from benchmarks import measure_loop_runs

    needed = {"pin": "pinocchio", "drake": "pydrake"}.get(package, package)
    pytest.importorskip(needed, reason="the peer is installed by `make bench`")
    _, _, settings = measure_loop_runs.PEERS[package]
    missing: dict[str, str] = {}
    calls = [call for call, _, of in measure_loop_runs._peers(missing) if of == package]
    case = make_loop_case("four_bar", 40)
    ours = run_ours(case, repeats=1)
    chosen = settings[-1] | ({"duration": 0.0} if package == "pin" else {})
    check_same_motion(case, ours, calls[-1](case, **chosen))
    lighter = replace(case, gravity=(0.0, 0.0, -8.0))
    with pytest.raises(DisagreementError, match="first 10 steps"):
        check_same_motion(case, ours, calls[-1](lighter, **chosen))
