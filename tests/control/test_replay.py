"""Logs given again: held and linear, from arrays, files and runs."""

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import assert_close
from tiburon.control.replay import TRACED_ROWS, Replay
from tiburon.trace import interpret, trace
from tiburon.trace.traced import is_traced

TIMES = np.array([0.5, 1.0, 2.5])
ROWS = np.array([[1.0, -1.0], [3.0, 0.5], [2.0, 2.0]])


def slider():
    body = tb.Body(
        "block", joint=tb.Prismatic("rail", axis=(1, 0, 0)), inertia=tb.Inertia.point(2.0)
    )
    return tb.Model("slider", [body])


def test_rows_hold_or_are_joined_by_lines():
    held = Replay.of(TIMES, ROWS, ["a", "b"])
    lines = Replay.of(TIMES, ROWS, ["a", "b"], between="linear")
    assert_close(
        held.at(np.array([0.0, 0.5, 0.99, 1.0, 2.4, 2.5, 9.0]))[:, 0], [1, 1, 1, 3, 3, 2, 2]
    )
    assert_close(
        lines.at(np.array([0.0, 0.75, 1.0, 1.75, 2.5, 9.0]))[:, 1], [-1, -0.25, 0.5, 1.25, 2, 2]
    )


def test_times_that_round_meet_their_row():
    """Three steps of 0.1 s are 2e-16 s short of 0.3: the row of that time counts all the same."""
    held = Replay.of([0.0, 0.3, 0.7], [[1.0], [2.0], [3.0]], ["a"])
    assert held.at(0.3 - 1e-15) == 2.0
    assert held.at(0.3 - 1e-6) == 1.0
    assert held.at(7 * 0.1 - 2e-16) == 3.0


@pytest.mark.parametrize("between", ["held", "linear"])
def test_traced_logs_give_the_same(between):
    replay = Replay.of(TIMES, ROWS, ["a", "b"], between=between)
    program = trace(lambda t: replay.at(t), {"t": ()})
    times = np.linspace(0.0, 3.0, 31)
    assert_close(interpret(program, [times]), replay.at(times))


def test_a_log_drives_a_run():
    """A force that is held gives a parabola; natively as in Python."""
    model = slider()
    short = Replay.of([0.0, 0.5], [[4.0], [0.0]], ["rail"])
    assert is_traced(short)
    run = tb.simulate(model, 1.0, control=short, control_dt=0.01)
    # half a second at 2 m/s^2, then on at 1 m/s
    assert_close(run.v[-1], [1.0])
    assert_close(run.q[-1], [0.25 + 0.5])
    times = 0.01 * np.arange(TRACED_ROWS + 40)
    long = Replay.of(times, np.where(times < 0.5 - 1e-9, 4.0, 0.0)[:, None], ["rail"])
    assert not is_traced(long)
    again = tb.simulate(model, 1.0, control=long, control_dt=0.01)
    assert_close(again.q, run.q)


def test_a_recorded_run_can_be_given_again(tmp_path):
    """Commands of a run with a controller, replayed without it: the same motion."""
    model = slider()
    first = tb.simulate(
        model,
        0.5,
        v=[0.3],
        control=lambda state: -9.0 * state.q - 0.5 * state.v,
        control_dt=0.01,
        record_dt=0.01,
    )
    replay = Replay.from_run(first)
    again = tb.simulate(model, 0.5, v=[0.3], control=replay, control_dt=0.01, record_dt=0.01)
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


def test_what_cannot_be_read_is_told(tmp_path):
    file = tmp_path / "bad.csv"
    file.write_text("time,rail\n0,1\n1,x\n")
    with pytest.raises(tb.DomainError, match="line 3"):
        Replay.from_csv(file)
    file.write_text("when,rail\n0,1\n")
    with pytest.raises(tb.UnknownNameError, match="when"):
        Replay.from_csv(file)
    with pytest.raises(tb.OptionError, match="linear"):
        Replay.of(TIMES, ROWS, ["a", "b"], between="cubic")
    with pytest.raises(tb.ShapeError, match="one per name"):
        Replay.of(TIMES, ROWS, ["a"])
