"""The engine: it advances to a given step, and says why it stopped before."""

import numpy as np
import pytest

import tiburon as tb
from tests.robots import double_pendulum
from tiburon.native.row_loop import RowLoop
from tiburon.results.checkpoint import Checkpoint
from tiburon.simulation import engine as engine_module
from tiburon.simulation import run as run_module
from tiburon.simulation.engine import Stop
from tiburon.simulation.recorder import Recorder, RowWriter
from tiburon.simulation.simulate import prepare

STEPS = 60
METHODS = [tb.RK4(dt=1e-3), tb.DormandPrince()]


def made(method, **options):
    """Return an engine of a double pendulum at its start, with a recorder of its rows."""
    record = tb.Record(every=7)
    ready = prepare(double_pendulum(), STEPS * 1e-3, method=method, record=record, **options)
    batch, state, held, _ = ready.start(None, [1.0, -0.5], None, None)
    start = Checkpoint(0, 0.0, {"state": state, "held": held})
    setup, system = ready.setup, ready.system
    engine = run_module._engine(setup, system, start, batch == (), None, None)
    recorder = Recorder(run_module._header(setup, system, batch, None))
    engine.writer = RowWriter(recorder, system, 1, {}, lambda: start)
    return engine, recorder


@pytest.mark.parametrize("method", METHODS)
def test_an_engine_reaches_the_step_asked_for_in_any_portions(method, monkeypatch):
    """Whoever is due, and however long native calls may take: the same state."""
    monkeypatch.setattr(engine_module, "CHUNK_SECONDS", 1e3)
    found = []
    for portions in ([STEPS], [1, 2, 20, 37], [7] * 8 + [4]):
        engine, _ = made(method)
        for portion in portions:
            until = engine.done + portion
            while engine.done < until:
                # at recorded steps it waits for their rows
                stop = engine.advance(until)
                assert stop is (Stop.REACHED if engine.done == until else Stop.PAUSED)
        assert engine.time == STEPS * 1e-3
        found.append(engine.state.copy())
    assert not np.array_equal(found[0], made(method)[0].state)
    assert all(np.array_equal(found[0], other) for other in found)


def test_an_engine_pauses_when_a_native_call_has_lasted_its_time(monkeypatch):
    """As many steps as fit, one by one if none does."""
    monkeypatch.setattr(engine_module, "CHUNK_SECONDS", 0.0)
    engine, recorder = made(tb.RK4(dt=1e-3))
    stops = []
    while engine.done < STEPS:
        if engine.is_at_row:
            engine.record()
        stops.append(engine.advance(STEPS))
    assert stops == [Stop.PAUSED] * (STEPS - 1) + [Stop.REACHED]
    engine.record()
    engine.hand_rows(whole=True)
    engine.writer.flush()
    assert recorder.count == STEPS // 7 + 2


@pytest.mark.parametrize("method", METHODS)
def test_an_engine_of_which_no_case_goes_on_has_ended(method):
    """By an event, in the state of the event, with one outcome."""
    over = tb.TimeEvent("over", 0.0305, terminal=True)
    engine, _ = made(method, events=[over])
    stops = []
    while not stops or stops[-1] is not Stop.ENDED:
        stops.append(engine.advance(STEPS))
    assert not engine.is_running
    assert list(engine.outcomes) == [0]
    assert engine.outcomes[0].event == "over"
    assert 0.0305 <= engine.outcomes[0].time < 0.0305 + 1e-11


def test_the_engine_needs_no_machine_code(monkeypatch):
    """One robot and a batch, with and without events, a stepper: the same tables."""

    @tb.traced
    def angle(state):
        return state.q[0] - 0.01

    hit = tb.Event("hit", angle, action=lambda state: {"v": 0.9 * state.v})
    found = []
    for name in ("native", "interpreter"):
        monkeypatch.setenv("TIBURON_ENGINE", name)
        if name == "interpreter":
            # what has no machine code cannot run it
            for loop in ("run_one", "run_many"):
                monkeypatch.setattr(RowLoop, loop, None)
        model, states = double_pendulum(), []
        for v in ([1.0, -0.5], [[1.0, -0.5], [1e200, 1e200], [0.3, 0.2]]):
            for events in ([], [hit]):
                run = tb.simulate(model, 0.03, v=v, events=events)
                states += [run.q, run.v]
        assert run.status.tolist() == ["finished", "diverged", "finished"]
        stepper = tb.stepper(model, substeps=3)
        state = stepper.start(v=[[1.0, -0.5], [1e200, 1e200], [0.3, 0.2]])
        for _ in range(2):
            result = stepper.step(state)
            state = result.state
        assert result.failed.tolist() == [False, True, False]
        found.append([*states, state.q[::2], state.v[::2]])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
