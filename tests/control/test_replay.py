"""Logs given again: held and linear, from arrays, files and runs."""

import os

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import assert_close
from tiburon.control.combined import CombinedControl
from tiburon.control.pd import PD
from tiburon.control.replay import Replay
from tiburon.simulation.control_calls import decide
from tiburon.simulation.system import System
from tiburon.trace import interpret, trace
from tiburon.trace.declared import is_traced

RANDOM = np.random.default_rng()

TIMES = np.array([0.5, 1.0, 2.5])
ROWS = np.array([[1.0, -1.0], [3.0, 0.5], [2.0, 2.0]])


def slider():
    body = tb.Body(
        "block", joint=tb.Prismatic("rail", axis=(1, 0, 0)), inertia=tb.Inertia.point(2.0)
    )
    return tb.Model("slider", [body])


def test_rows_are_held_or_interpolated():
    held = Replay.of(TIMES, ROWS, ["a", "b"])
    lines = Replay.of(TIMES, ROWS, ["a", "b"], interpolation="linear")
    assert_close(
        held.at(np.array([0.0, 0.5, 0.99, 1.0, 2.4, 2.5, 9.0]))[:, 0], [1, 1, 1, 3, 3, 2, 2]
    )
    assert_close(
        lines.at(np.array([0.0, 0.75, 1.0, 1.75, 2.5, 9.0]))[:, 1], [-1, -0.25, 0.5, 1.25, 2, 2]
    )


def test_rounded_times_use_their_row():
    """Three steps of 0.1 s are 2e-16 s short of 0.3: the row of that time counts all the same."""
    held = Replay.of([0.0, 0.3, 0.7], [[1.0], [2.0], [3.0]], ["a"])
    assert held.at(0.3 - 1e-15) == 2.0
    assert held.at(0.3 - 1e-6) == 1.0
    assert held.at(7 * 0.1 - 2e-16) == 3.0


@pytest.mark.parametrize("between", ["hold", "linear"])
def test_traced_logs_give_the_same(between):
    replay = Replay.of(TIMES, ROWS, ["a", "b"], interpolation=between)
    program = trace(lambda t: replay.at(t), {"t": ()})
    times = np.linspace(0.0, 3.0, 31)
    assert_close(interpret(program, [times]), replay.at(times))


def test_a_log_drives_a_run():
    """A force that is held gives a parabola; natively as in Python."""
    model = slider()
    short = Replay.of([0.0, 0.5], [[4.0], [0.0]], ["rail"])
    assert is_traced(short)
    run = tb.simulate(model, 1.0, control=tb.Sampled(short, dt=0.01))
    # half a second at 2 m/s^2, then on at 1 m/s
    assert_close(run.v[-1], [1.0])
    assert_close(run.q[-1], [0.25 + 0.5])
    times = 1e-4 * np.arange(200_000)
    long = Replay.of(times, np.where(times < 0.5 - 1e-9, 4.0, 0.0)[:, None], ["rail"])
    assert is_traced(long)
    again = tb.simulate(model, 1.0, control=tb.Sampled(long, dt=0.01))
    assert np.array_equal(again.q, run.q)
    # read in Python at the same times
    python = tb.simulate(model, 1.0, control=tb.Sampled(lambda state: long(state), dt=0.01))
    assert np.array_equal(python.q, run.q)


def test_log_of_similar_length_compiles_nothing():
    """What code depends on is names and rough length alone; logs side by side keep apart."""
    model = slider()
    first = Replay.of(np.arange(100.0), RANDOM.standard_normal((100, 1)), ["rail"])
    second = Replay.of(np.arange(80.0) + 0.5, RANDOM.standard_normal((80, 1)), ["rail"])
    assert System(model, control=first).key == System(model, control=second).key
    run, other = (
        tb.simulate(model, 2.0, control=tb.Sampled(log, dt=0.5), method=tb.RK4(dt=0.01))
        for log in (first, second)
    )
    for log, found in ((first, run), (second, other)):
        # constant force over half a second each
        steps = log.at(np.array([0.0, 0.5, 1.0, 1.5]))[:, 0]
        assert_close(found.v[-1, 0], 0.25 * steps.sum())
    both = CombinedControl((first, second, PD(0.0, 3.0, 1.0)))
    state = decide(System(model, control=both), [0.2], [0.1], (), [0.0], 0.7)[0]
    assert_close(state[0], first.at(0.7)[0] + second.at(0.7)[0] - 0.6 - 0.1)
    together = tb.simulate(model, 1.0, control=tb.Sampled(CombinedControl((first, second)), dt=0.5))
    assert_close(
        together.v[-1, 0], 0.25 * sum(log.at(t)[0] for log in (first, second) for t in (0.0, 0.5))
    )


def test_replay_ends_with_the_recorded_case():
    """One of two cases stops at an event; the other continues."""
    stop = tb.Event("far", lambda state: state.q[0] - 0.1, terminal=True)
    run = tb.simulate(
        slider(), 0.5, v=[[1.0], [0.1]], control=lambda state: -state.q, events=[stop]
    )
    assert list(run.status) == ["event", "finished"]
    ends = [Replay.from_run(run, case=case).times[-1] for case in (0, 1)]
    # the last row before 0.1 m at 1 m/s, a little slowed
    assert_close(ends, [0.1, 0.5])


def test_recorded_run_can_be_replayed(tmp_path):
    """Commands of a run with a controller, replayed without it: the same motion."""
    model = slider()
    first = tb.simulate(
        model,
        0.5,
        v=[0.3],
        control=tb.Sampled(lambda state: -9.0 * state.q - 0.5 * state.v, dt=0.01),
        record=tb.Record(dt=0.01),
    )
    replay = Replay.from_run(first)
    again = tb.simulate(
        model, 0.5, v=[0.3], control=tb.Sampled(replay, dt=0.01), record=tb.Record(dt=0.01)
    )
    assert_close(again.q, first.q, 1e-14)
    first.save(tmp_path / "run.zarr")
    assert Replay.from_run(tb.load_run(tmp_path / "run.zarr"), names=["rail"]) == replay
    file = tmp_path / "log.csv"
    rows = [
        "time,rail",
        *(f"{t!r},{u[0]!r}" for t, u in zip(first.time.tolist(), first.u.tolist(), strict=True)),
    ]
    file.write_text("\n".join(rows) + "\n")
    assert Replay.from_csv(file) == replay


def test_invalid_logs_are_refused(tmp_path):
    """A missing file, a folder, a pipe, which would wait for ever, and bytes that are no text."""
    with pytest.raises(tb.RunFileError, match="there is no such file"):
        Replay.from_csv(tmp_path / "no.csv")
    with pytest.raises(tb.RunFileError, match=r"cannot be read|regular file"):
        Replay.from_csv(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.csv")
        with pytest.raises(tb.RunFileError, match="expected a regular file"):
            Replay.from_csv(tmp_path / "pipe.csv")
    (tmp_path / "bytes.csv").write_bytes(b"time,a\n\xff\xfe,1\n")
    with pytest.raises(tb.RunFileError, match="save it as comma-separated UTF-8"):
        Replay.from_csv(tmp_path / "bytes.csv")


def test_unreadable_tables_are_reported(tmp_path):
    file = tmp_path / "bad.csv"
    file.write_text("time,rail\n0,1\n1,x\n")
    with pytest.raises(tb.DomainError, match="line 3"):
        Replay.from_csv(file)
    file.write_text("when,rail\n0,1\n")
    with pytest.raises(tb.UnknownNameError, match="when"):
        Replay.from_csv(file)
    with pytest.raises(tb.OptionError, match="linear"):
        Replay.of(TIMES, ROWS, ["a", "b"], interpolation="cubic")
    with pytest.raises(tb.DomainError, match="'a' more than once"):
        Replay.of(TIMES, ROWS, ["a", "a"])
    with pytest.raises(tb.ShapeError, match="one per name"):
        Replay.of(TIMES, ROWS, ["a"])
