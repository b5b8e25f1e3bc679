"""How runs end: diverged, interrupted, out of budget, finished; nothing raises or is silent."""

import signal
import threading

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator
from tests.robots import double_pendulum, pendulum
from tiburon.results.store import RunStore
from tiburon.simulation import run as run_module
from tiburon.simulation.recorder import RowWriter


@tb.traced
def explosive(state):
    """Push the elbow ever harder the faster it turns."""
    return {"elbow": 50.0 * state.v[1] * state.v[1] * state.v[1]}


@tb.traced
def lively(state):
    """Push the elbow harder the faster it turns, so gently that only fast ones explode."""
    return {"elbow": 0.05 * state.v[1] * state.v[1] * state.v[1]}


@tb.traced
def fails_at_half(state):
    """Return a NaN force after half a second."""
    return {"shoulder": np.sqrt(0.5 - state.time)}


def test_a_run_that_reaches_its_end_is_finished():
    """With the time and the last state."""
    run = tb.simulate(pendulum(), 0.5, q=[0.4])
    assert (run.status, run.outcome.ok, run.outcome.time) == ("finished", True, 0.5)
    np.testing.assert_array_equal(run.outcome.q, run.q[-1])
    assert str(run.outcome) == "finished at 0.5 s"


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_divergence_names_body_and_quantity_and_keeps_the_last_finite_state(method):
    """The rate of the elbow leaves all numbers in finite time: dv/dt = c v^3."""
    run = tb.simulate(
        double_pendulum(),
        2.0,
        v=[0.0, 1.0],
        control=explosive,
        method=integrator(method),
    )
    outcome = run.outcome
    assert outcome.status == "diverged"
    assert not outcome.ok
    assert outcome.body == "lower"
    assert "elbow" in outcome.quantity
    assert 0.0 < outcome.time < 0.5
    assert np.isfinite(outcome.q).all()
    assert np.isfinite(outcome.v).all()
    assert np.isfinite(run.q).all()
    assert "diverged" in outcome.message


def test_last_finite_state_does_not_depend_on_the_call_length():
    """Recorded at every step or at none, the same step fails."""
    start = {"q": [0.2, 0.1], "control": fails_at_half}
    fine = tb.simulate(double_pendulum(), 1.0, **start, record=tb.Record(every=1))
    coarse = tb.simulate(double_pendulum(), 1.0, **start, record=tb.Record(every=1000))
    assert fine.outcome.time == coarse.outcome.time
    # the stage at the end of a step is the first that fails
    assert abs(fine.outcome.time - 0.5) < 1.1e-3
    np.testing.assert_array_equal(fine.outcome.q, coarse.outcome.q)
    np.testing.assert_array_equal(fine.outcome.q, fine.q[-1])
    assert fine.time[-1] == fine.outcome.time


def test_each_case_of_a_batch_has_its_own_outcome():
    """One diverges; the others move as if it were not there; its rows are NaN from then on."""
    q = np.array([[0.1, 0.0], [0.3, 0.2], [0.2, -0.1]])
    v = np.array([[0.0, 1e-3], [0.0, 9.0], [0.1, 1e-3]])
    batch = tb.simulate(double_pendulum(), 0.3, q=q, v=v, control=lively, record=tb.Record(every=1))
    assert batch.status.tolist() == ["finished", "diverged", "finished"]
    for case in range(3):
        alone = tb.simulate(
            double_pendulum(), 0.3, q=q[case], v=v[case], control=lively, record=tb.Record(every=1)
        )
        count = len(alone.time)
        np.testing.assert_array_equal(batch.q[:count, case], alone.q)
        np.testing.assert_array_equal(batch.u[:count, case], alone.u)
        assert np.isnan(batch.q[count:, case]).all()
        assert alone.outcome.time == batch.outcomes[case].time
        assert alone.outcome.body == batch.outcomes[case].body
    assert batch.outcome.status == "diverged"


def test_a_non_finite_command_is_reported_by_name():
    """What a controller in Python gave is not blamed on a body."""

    def control(state):
        return {"elbow": np.nan if state.time > 0.045 else 0.1}

    run = tb.simulate(double_pendulum(), 0.2, control=tb.Sampled(control, dt=0.01))
    assert run.status == "diverged"
    assert run.outcome.quantity == "command 'elbow'"
    assert run.outcome.time == pytest.approx(0.05)
    assert np.isfinite(run.q).all()


def test_ctrl_c_keeps_the_computed_rows():
    """The first signal ends the run in good order, and the handler of before is back."""
    before = signal.getsignal(signal.SIGINT)

    def control(state):
        if state.time >= 0.3:
            signal.raise_signal(signal.SIGINT)
        return {"elbow": 0.0}

    with pytest.raises(KeyboardInterrupt, match=r"interrupted at 0\.3.*\.run") as stop:
        tb.simulate(double_pendulum(), 5.0, q=[0.3, 0.2], control=tb.Sampled(control, dt=0.01))
    run = stop.value.run
    assert run.status == "interrupted"
    assert 0.3 <= run.outcome.time <= 0.32
    assert run.time[-1] == run.outcome.time
    plain = tb.simulate(double_pendulum(), 0.5, q=[0.3, 0.2])
    count = len(run.time)
    np.testing.assert_array_equal(run.q, plain.q[:count])
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_ctrl_c_reaches_native_loops(method):
    """A signal ends a long native run between two calls of the loop, and the run can be resumed."""
    senders = []

    def interrupt(done, duration):
        if not senders:
            senders.append(threading.Thread(target=signal.raise_signal, args=[signal.SIGINT]))
            senders[0].start()

    # a run that ignores the signal finishes
    with pytest.raises(KeyboardInterrupt) as stop:
        tb.simulate(
            pendulum(),
            1e6,
            method=integrator(method),
            q=[0.5],
            record=tb.Record(dt=10.0),
            execution=tb.Execution(progress=interrupt),
        )
    run = stop.value.run
    assert run.status == "interrupted"
    assert run.outcome.time > 0.0
    more = run.resume(0.2)
    assert more.time[-1] == pytest.approx(run.outcome.time + 0.2)


def test_a_budget_of_wall_time_ends_a_run():
    """Out of budget is not finished."""
    run = tb.simulate(
        pendulum(),
        1e6,
        q=[0.5],
        execution=tb.Execution(budget=1e-3, progress=False),
        record=tb.Record(dt=1.0),
    )
    assert run.status == "budget"
    assert "0.001 s of wall time" in run.outcome.message
    assert run.time[-1] == run.outcome.time


def test_progress_is_reported_and_changes_no_bit():
    """From start to end, ever further."""
    told = []
    start = {"q": [0.5], "record": tb.Record(every=3)}
    shown = tb.simulate(
        pendulum(), 3.0, **start, execution=tb.Execution(progress=lambda *now: told.append(now))
    )
    quiet = tb.simulate(pendulum(), 3.0, **start, execution=tb.Execution(progress=False))
    np.testing.assert_array_equal(shown.q, quiet.q)
    assert told[-1] == (3.0, 3.0)
    assert told == sorted(told)


def test_ctrl_c_while_rows_are_written_is_raised_when_they_are_safe(tmp_path, monkeypatch):
    """Signals that come at the end neither cut the store short nor get lost."""
    finish = RunStore.finish

    def interrupted(store, *given):
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
        finish(store, *given)

    monkeypatch.setattr(RunStore, "finish", interrupted)
    path = tmp_path / "run.zarr"
    with pytest.raises(KeyboardInterrupt) as stop:
        tb.simulate(pendulum(), 0.1, q=[0.5], record=tb.Record(store=path))
    assert stop.value.run.status == "finished"
    assert tb.load_run(path).status == "finished"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_ctrl_c_before_the_first_step_leaves_a_run_to_resume(tmp_path, monkeypatch, method):
    """A signal right after the store was made: no lock stays, and nothing of the run is lost."""
    make = run_module.Recorder

    def pressed(*given, **options):
        found = make(*given, **options)
        signal.raise_signal(signal.SIGINT)
        return found

    path = tmp_path / "run.zarr"
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "Recorder", pressed)
        with pytest.raises(KeyboardInterrupt) as stop:
            tb.simulate(
                pendulum(), 0.1, q=[0.5], method=integrator(method), record=tb.Record(store=path)
            )
    assert stop.value.run.outcome.time == 0.0
    whole = tb.load_run(path).resume()
    assert whole.status == "finished"
    plain = tb.simulate(pendulum(), 0.1, q=[0.5], method=integrator(method))
    np.testing.assert_array_equal(whole.q, plain.q)


def test_ctrl_c_while_a_run_is_reopened_keeps_its_rows(tmp_path, monkeypatch):
    """A signal while the rows of an earlier part are taken over."""
    path = tmp_path / "run.zarr"
    earlier = tb.simulate(pendulum(), 0.1, q=[0.5], record=tb.Record(store=path))
    reopen = RunStore.reopen

    def pressed(*given):
        reopen(*given)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(RunStore, "reopen", pressed)
        with pytest.raises(KeyboardInterrupt) as stop:
            earlier.resume(0.1)
    assert stop.value.run.outcome.time == pytest.approx(0.1)
    whole = tb.load_run(path).resume()
    np.testing.assert_array_equal(whole.q, tb.simulate(pendulum(), 0.2, q=[0.5]).q)


def test_a_second_ctrl_c_raises_in_user_code_alone(tmp_path, monkeypatch):
    """Rows and steps are never left half done; a controller that does not return is stopped."""
    room, raised = RowWriter.room, []

    def pressed(writer, count):
        # the caller is a method of the run: what it has begun is finished
        try:
            for _ in range(3):
                signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raised.append("while a row is recorded")
        return room(writer, count)

    path = tmp_path / "run.zarr"
    with monkeypatch.context() as patch:
        patch.setattr(RowWriter, "room", pressed)
        with pytest.raises(KeyboardInterrupt) as stop:
            tb.simulate(pendulum(), 0.1, q=[0.5], record=tb.Record(store=path))
    assert len(stop.value.run) == 1
    assert not raised
    whole = tb.load_run(path).resume()
    np.testing.assert_array_equal(whole.q, tb.simulate(pendulum(), 0.1, q=[0.5]).q)

    def endless(state):
        signal.raise_signal(signal.SIGINT)
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raised.append(state.time)
            raise
        return {}

    with pytest.raises(KeyboardInterrupt) as stop:
        tb.simulate(double_pendulum(), 0.1, q=[0.3, 0.2], control=endless)
    assert raised == [0.0]
    assert stop.value.run.status == "interrupted"


def test_ctrl_c_ends_a_loop_of_runs_and_a_resumed_run():
    """Every kind of run raises, also one that is resumed, and the rows go on from there."""
    runs = []

    def control(state):
        if len(runs) == 1 and state.time > 0.1:
            signal.raise_signal(signal.SIGINT)
        return {"elbow": 0.0}

    def study():
        for _ in range(3):
            runs.append(tb.simulate(double_pendulum(), 0.2, q=[0.3, 0.2], control=control))

    with pytest.raises(KeyboardInterrupt) as first:
        study()
    assert len(runs) == 1
    with pytest.raises(KeyboardInterrupt) as second:
        first.value.run.resume()
    part = second.value.run
    assert part.status == "interrupted"
    runs.append(part)
    whole = part.resume()
    np.testing.assert_array_equal(whole.q, runs[0].q)
    assert whole.status == "finished"


def test_ctrl_c_ends_a_run_in_parts():
    """The other threads end at once, and the run has its count of messages."""
    model = tb.load("panda")
    parts = tb.partition(model, cuts=[model.moving_joint_names[3]])

    def interrupt(done, duration):
        signal.raise_signal(signal.SIGINT)

    execution = tb.Execution(partition=parts, exchange=tb.ThreadExchange(2), progress=interrupt)
    with pytest.raises(KeyboardInterrupt) as stop:
        tb.simulate(model, 1e3, execution=execution)
    assert stop.value.run.status == "interrupted"
    assert stop.value.run.messages is not None


def test_interruptions_are_pickled_with_their_run():
    """Errors travel between processes."""
    import pickle

    from tiburon.errors import RunInterruptedError

    error = pickle.loads(pickle.dumps(RunInterruptedError("at 1 s", [1.0])))
    assert (str(error), error.run) == ("at 1 s", [1.0])


def test_the_outcome_of_a_batch_tells_the_notes_of_its_cases():
    """Those of cases that finished, and beside the first that did not."""
    run = tb.simulate(double_pendulum(), 0.02, v=[[0.0, 0.0], [0.0, 1.0], [0.0, 2.0]])
    assert str(run.outcome) == "finished at 0.02 s"
    run.outcomes.add(1, "; contact 'foot' penetrated by 1 mm")
    run.outcomes.add(2, "; contact 'hand' penetrated by 2 mm")
    told = "2 of 3 cases carry a note, case 1: contact 'foot' penetrated by 1 mm"
    assert str(run.outcome) == f"finished at 0.02 s; {told}"
    assert run.part(case=2).outcome.message == run.outcomes[2].message
    fast = [[0.0, 0.0], [0.0, 30.0]]
    run = tb.simulate(double_pendulum(), 0.05, v=fast, control=explosive)
    ended = str(run.outcome)
    assert list(run.status) == ["finished", "diverged"]
    run.outcomes.add(0, "; contact 'foot' penetrated by 1 mm")
    assert str(run.outcome).startswith(
        f"{ended}; 1 of 2 cases carry a note, case 0: contact 'foot'"
    )
