"""Going on with runs: killed, interrupted, or finished; the bits are those of one run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator
from tests.robots import double_pendulum, kicked
from tests.simulation.slow_run import DURATION, HALT, START, control, wind
from tiburon.simulation import recorder as recorder_module
from tiburon.simulation import run as run_module
from tiburon.simulation import step_plan

ROOT = Path(__file__).parents[2]

CHILD = "import sys; from tests.simulation.slow_run import main; main(*sys.argv[1:])"


def start_child(path, kind):
    """Start a run in a process of its own, and return when it waits in the middle."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), kind],
        cwd=ROOT,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "halted\n"
    return child


def given(kind):
    """Return the keywords that a file cannot hold."""
    return {"control": control} if kind == "control" else {"elements": [wind()]}


def equal(run, other):
    """Return whether two runs are the same in bits."""
    return all(np.array_equal(getattr(run, k), getattr(other, k)) for k in ("time", "q", "v", "u"))


@pytest.mark.parametrize("kind", ["control", "forces"])
def test_killed_run_resumes_to_the_bits_of_an_uninterrupted_one(tmp_path, kind):
    """After kill -9 in the middle of a streamed run, resume gives the same bits."""
    path = tmp_path / "run.zarr"
    with start_child(path, kind) as child:
        child.kill()
    assert child.returncode == -signal.SIGKILL
    killed = tb.load_run(path)
    assert killed.status == "killed"
    assert 1000 * HALT / 2 < len(killed) < 1000 * DURATION
    whole = tb.simulate(
        double_pendulum(),
        DURATION,
        v=START,
        method=tb.RK4(dt=1e-3),
        record=tb.Record(every=1),
        **given(kind),
    )
    count = len(killed)
    assert np.array_equal(killed.q, whole.q[:count])
    run = killed.resume(**given(kind))
    assert run.status == "finished"
    assert equal(run, whole)
    assert equal(tb.load_run(path), whole)


@pytest.mark.parametrize("calls", [1, 2, 5])
def test_a_crash_between_two_portions_of_rows_loses_none(tmp_path, monkeypatch, calls):
    """A native call gives more rows than a portion holds: no checkpoint may be ahead of them."""
    monkeypatch.setattr(recorder_module, "FLUSH_SECONDS", 0.0)
    monkeypatch.setattr(recorder_module, "MOST_GATHERED", 5)
    monkeypatch.setattr(run_module, "INTERVAL", 0.0)
    monkeypatch.setattr(step_plan, "PLAN_STEPS", 32)
    left = [calls]

    def crash(done, duration):
        left[0] -= 1
        if not left[0]:
            raise RuntimeError("crash")

    model = double_pendulum()
    keywords = {"v": START, "method": tb.RK4(dt=1e-3), "record": tb.Record(every=1)}
    with pytest.raises(RuntimeError, match="crash"):
        tb.simulate(
            model,
            0.5,
            execution=tb.Execution(progress=crash),
            **{**keywords, "record": tb.Record(every=1, store=tmp_path / "run.zarr")},
        )
    found = tb.load_run(tmp_path / "run.zarr")
    assert found.status == "killed"
    if found.checkpoint is None:
        # nothing was safe yet, and nothing is said to be
        assert len(found) == 0
        return
    assert equal(found.resume(), tb.simulate(model, 0.5, **keywords))


def test_interrupted_runs_keep_the_computed_rows(tmp_path):
    """Ctrl-C raises an exception with the run; its store is whole and continues."""
    path = tmp_path / "run.zarr"
    with start_child(path, "control") as child:
        child.send_signal(signal.SIGINT)
        child.stdin.close()
        said = child.stdout.read()
    assert said == "interrupted"
    assert child.returncode == 0
    run = tb.load_run(path)
    assert run.status == "interrupted"
    assert len(run) > 1000 * HALT / 2
    assert run.outcome.time == run.span[1]
    whole = tb.simulate(
        double_pendulum(),
        DURATION,
        v=START,
        method=tb.RK4(dt=1e-3),
        record=tb.Record(every=1),
        control=control,
    )
    assert equal(run.resume(control=control), whole)


@pytest.mark.parametrize(
    ("stored", "every", "shape"),
    [
        # quick: every pair of choices once
        *((False, 1, ()), (False, 7, (3,)), (True, 1, (3,)), (True, 7, ())),
        *(
            pytest.param(*choice, marks=pytest.mark.slow)
            for choice in ((False, 1, (3,)), (False, 7, ()), (True, 1, ()), (True, 7, (3,)))
        ),
    ],
)
def test_finished_runs_can_be_extended(tmp_path, stored, every, shape):
    """A longer run equals a short one gone on with, also where its end was between two rows."""
    model = double_pendulum()
    q, v, u = kicked(model, 3, shape)
    keywords = {
        "q": q,
        "v": v,
        "method": tb.RK4(dt=1e-3),
        "record": tb.Record(every=every),
        "command": u,
    }
    store = tmp_path / "run.zarr" if stored else None
    run = tb.simulate(model, 0.1, **{**keywords, "record": tb.Record(every=every, store=store)})
    if stored:
        run = tb.load_run(tmp_path / "run.zarr")
    longer = run.resume(0.05).resume(0.03)
    whole = tb.simulate(model, 0.18, **keywords)
    assert equal(longer, whole)
    assert longer.data.equals(whole.data)


def test_saved_runs_continue_where_they_were_saved(tmp_path):
    """Saving and loading changes nothing of what it takes to continue; the first run stays."""
    model = double_pendulum()
    _, v, _ = kicked(model, 5)
    run = tb.simulate(model, 0.1, v=v, method=tb.RK4(dt=1e-3))
    run.save(tmp_path / "run.zarr")
    longer = tb.load_run(tmp_path / "run.zarr").resume(0.1)
    assert equal(longer, tb.simulate(model, 0.2, v=v, method=tb.RK4(dt=1e-3)))
    assert len(run) == 11


def test_user_code_must_be_passed_again_on_resume(tmp_path):
    """The message names what is missing, and how to give it."""
    run = tb.simulate(
        double_pendulum(), 0.02, v=START, control=control, elements=[wind()], method=tb.RK4(dt=1e-3)
    )
    run.save(tmp_path / "run.zarr")
    found = tb.load_run(tmp_path / "run.zarr")
    with pytest.raises(
        tb.RunFileError,
        match=r"its control and element 'wind': code.*resume\(control=\.\.\., elements=\.\.\.\)",
    ):
        found.resume(0.1)
    with pytest.raises(tb.ModelError, match="its elements are code"):
        found.get("joint_acceleration")
    # energies need no elements
    assert np.isfinite(found.get("total_energy").values).all()
    assert len(found.resume(0.02, control=control, elements=[wind()])) == 5


def test_streaming_changes_no_bits(tmp_path, monkeypatch):
    """Rows in memory, on disk, and on disk with a checkpoint at every turn are the same."""
    model = double_pendulum()
    _, v, _ = kicked(model, 8)
    kept = tb.simulate(model, 0.5, v=v, method=tb.RK4(dt=1e-3), record=tb.Record(every=1))
    streamed = tb.simulate(
        model,
        0.5,
        v=v,
        method=tb.RK4(dt=1e-3),
        record=tb.Record(every=1, store=tmp_path / "a.zarr"),
    )
    monkeypatch.setattr(recorder_module, "FLUSH_SECONDS", 0.0)
    often = tb.simulate(
        model,
        0.5,
        v=v,
        method=tb.RK4(dt=1e-3),
        record=tb.Record(every=1, store=tmp_path / "b.zarr"),
    )
    assert equal(kept, streamed)
    assert equal(kept, often)


@pytest.mark.parametrize("method", ["dopri5", "b4pc5"])
def test_the_memory_of_integrators_is_part_of_a_checkpoint(tmp_path, method):
    """Lengths of steps that adapt, and histories of multi-step methods, go through the file."""
    model = double_pendulum()
    q, v, _ = kicked(model, 3)
    keywords = {"q": q, "v": v, "method": integrator(method, dt=1e-3), "record": tb.Record(every=7)}
    tb.simulate(
        model, 0.1, **{**keywords, "record": tb.Record(every=7, store=tmp_path / "run.zarr")}
    )
    longer = tb.load_run(tmp_path / "run.zarr").resume(0.05).resume(0.03)
    assert equal(longer, tb.simulate(model, 0.18, **keywords))


@tb.traced
def crossing(state):
    """Return what changes its sign where the first joint passes a place."""
    return state.q[0] + 2.5


@pytest.mark.parametrize(
    ("shape", "every"),
    [
        *(((), 7), ((3,), 1)),
        *(pytest.param(*choice, marks=pytest.mark.slow) for choice in (((), 1), ((3,), 7))),
    ],
)
def test_sensor_readings_and_events_continue_after_resume(tmp_path, shape, every):
    """Noise, delays and what happened before are those of an unbroken run, in every row."""
    model = double_pendulum()
    q, v, _ = kicked(model, 3, shape)
    encoders = tb.JointSensor("encoders", rate=100.0, noise=1e-2, delay=0.03, seed=3)

    def hold(state):
        told = state.sensors["encoders"]
        return -3.0 * told[..., :2] - told[..., 2:]

    events = [tb.Event("crossing", crossing), tb.TimeEvent("late", 0.03)]
    keywords = {
        "q": q,
        "v": v,
        "method": tb.RK4(dt=1e-3),
        "record": tb.Record(every=every),
        "sensors": [encoders],
    }
    path = tmp_path / "run.zarr"
    tb.simulate(
        model,
        0.105,
        control=hold,
        events=events,
        **{**keywords, "record": tb.Record(every=every, store=path)},
    )
    again = {"control": hold, "events": events}
    tb.load_run(path).resume(0.05, **again).resume(0.045, **again)
    found = tb.load_run(path)
    whole = tb.simulate(model, 0.2, **again, **keywords)
    assert equal(found, whole)
    assert np.array_equal(found.array("sensor"), whole.array("sensor"))
    assert len(whole.events) >= 1
    told = [[(e.name, e.time, e.case) for e in run.events] for run in (found, whole)]
    assert told[0] == told[1]


def test_rows_between_readings_hold_the_last_one():
    """A sensor that looks ten times less often than rows are recorded says the same ten times."""
    model = double_pendulum()
    q, v, _ = kicked(model, 3)
    sensor = tb.JointSensor("encoders", rate=100.0, noise=0.0)
    run = tb.simulate(
        model, 0.1, q=q, v=v, method=tb.RK4(dt=1e-3), record=tb.Record(every=1), sensors=[sensor]
    )
    told = run.array("sensor")[:-1, :2].reshape(10, 10, 2)
    assert np.array_equal(told, np.broadcast_to(told[:, :1], told.shape))
    assert np.allclose(told[:, 0], run.q[:-1:10], atol=1e-12)
