"""Recordings of a driven robot: on disk and whole, whatever ended them."""

import pytest

import tiburon as tb
from tests.drive.vehicles import wait
from tiburon.drive.dispatcher import Dispatcher
from tiburon.drive.session import Drive
from tiburon.simulation.recorder import Recorder


@pytest.fixture
def dispatcher(drive, tmp_path):
    made = Dispatcher(drive, tmp_path)
    yield made
    drive.reset()
    drive.ticker.paused = False


def begin(dispatcher, rows=50):
    """Record some rows; returns the client."""
    client = dispatcher.add_client()
    assert dispatcher.handle(client, {"type": "record", "on": True, "every": 1})["type"] == "done"
    first = dispatcher.drive.ticker.latest().steps
    wait(lambda: dispatcher.drive.ticker.latest().steps >= first + rows)
    return client


@pytest.mark.parametrize(
    ("jump", "why"),
    [
        ({"type": "reset"}, "the robot was reset"),
        ({"type": "restore", "name": "here"}, "the robot returned to snapshot 'here'"),
    ],
    ids=["reset", "restore"],
)
def test_a_jump_ends_a_recording_and_loses_nothing(dispatcher, tmp_path, jump, why):
    """`record on`, `reset`, `record off`: the run until the reset, in a file."""
    dispatcher.drive.snapshot("here")
    client = begin(dispatcher)
    ended = dispatcher.handle(client, jump)
    wait(lambda: dispatcher.drive.recording is None)
    found = dispatcher.handle(client, {"type": "record", "on": False})
    assert found["type"] == "done", found
    assert found["path"] == ended["path"]
    run = tb.load_run(found["path"])
    assert len(run) == found["rows"] >= 50
    # of one piece: every step, none from after the jump
    assert (run.time[1:] - run.time[:-1]).max() == pytest.approx(1e-3, rel=1e-6)
    assert why in found["outcome"]
    assert run.outcome.ok
    answer = dispatcher.handle(client, {"type": "record", "on": False})
    assert "got none; start one first" in answer["message"]


def test_a_reset_loses_nothing_in_python_either(drive):
    """The run until the reset is returned once, and stays the last one."""
    drive.start_recording(every=1)
    first = drive.ticker.latest().steps
    wait(lambda: drive.ticker.latest().steps >= first + 50)
    drive.reset()
    run = drive.stop_recording()
    assert len(run) >= 50
    assert run.outcome.message.endswith("the robot was reset")
    assert drive.last_run is run
    with pytest.raises(tb.ModelError, match="recording: none is in progress; start one first"):
        drive.stop_recording()


def test_each_recording_has_a_file_of_its_own(dispatcher, tmp_path):
    """Also recordings that were never stopped."""
    client = begin(dispatcher)
    dispatcher.handle(client, {"type": "reset"})
    dispatcher.remove_client(client)
    client = begin(dispatcher)
    last = dispatcher.handle(client, {"type": "record", "on": False})
    runs = sorted(tmp_path.glob("*.zarr"))
    assert len(runs) == 2
    assert last["path"] == str(runs[1])
    assert all(len(tb.load_run(path)) >= 50 for path in runs)


def test_a_recording_right_after_a_reset_begins_at_the_start(dispatcher):
    """A tick may pass until the robot is there: neither rows nor snapshots are of before."""
    drive, client = dispatcher.drive, dispatcher.add_client()
    before = drive.ticker.latest().steps
    wait(lambda: drive.ticker.latest().steps > before + 100)
    # a tick a second: time enough for all that follows to come before the next
    drive.ticker.speed = 1e-3
    before = drive.ticker.latest().steps
    wait(lambda: drive.ticker.latest().steps > before)
    for message in (
        {"type": "reset"},
        {"type": "snapshot", "name": "start"},
        {"type": "record", "on": True, "every": 1},
    ):
        assert dispatcher.handle(client, message)["type"] == "done"
    seen = drive.forecast(0.01, 1)
    drive.ticker.speed = 1.0
    # a loaded machine may have taken a few ticks
    assert drive.snapshots["start"].steps <= 5
    assert seen.time[0] <= 5e-3
    wait(lambda: 50 <= drive.ticker.latest().steps < before)
    run = tb.load_run(dispatcher.handle(client, {"type": "record", "on": False})["path"])
    assert run.time[0] <= 5e-3
    assert len(run) == round((run.time[-1] - run.time[0]) / 1e-3) + 1
    assert len(run) > 40


def test_a_robot_that_diverges_leaves_its_recording(dispatcher):
    drive, client = dispatcher.drive, begin(dispatcher)
    state = drive.ticker.latest().state.copy()
    state[drive.model.nq : drive.model.nq + drive.model.nv] = 1e200
    drive.ticker.post_state(state, drive.ticker.latest().steps)
    wait(lambda: drive.recording is None)
    found = dispatcher.handle(client, {"type": "record", "on": False})
    assert "the motion diverged" in found["outcome"]
    assert tb.load_run(found["path"]).outcome.status == "diverged"


def test_closing_writes_the_recording(tmp_path):
    with Drive(tb.load("cart_pole")) as drive:
        begin(Dispatcher(drive, tmp_path))
    (path,) = tmp_path.glob("*.zarr")
    assert len(tb.load_run(path)) >= 50
    assert drive.last_run.outcome.ok


def test_a_full_disk_ends_the_recording_and_is_reported(dispatcher, monkeypatch):
    """The robot continues, and so do its readings."""

    def full(*_):
        raise tb.RunFileError("run.zarr", "the disk is full")

    client = begin(dispatcher)
    monkeypatch.setattr(Recorder, "took", full)
    drive = dispatcher.drive
    wait(lambda: drive.recording is None)
    answer = dispatcher.handle(client, {"type": "record", "on": False})
    assert "the disk is full" in answer["message"]
    before = drive.readings()["steps"]
    wait(lambda: drive.readings()["steps"] > before)
    assert drive._poller.is_alive()
