"""Work that takes long, such as forecasts, edits and files: neither clients nor the robot wait."""

import contextlib
import threading

import pytest

import tiburon as tb
from tests.drive.serving import Line
from tests.drive.vehicles import pause, posted, wait
from tiburon.drive import ticker as ticker_module
from tiburon.drive.dispatcher import Dispatcher
from tiburon.drive.session import MAX_FORECASTS
from tiburon.drive.tick_steps import TickSteps


class Gate:
    """Work that begins and does not end until its gate is opened."""

    def __init__(self):
        self.begun, self.open = threading.Event(), threading.Event()

    def __call__(self, *_, **__):
        self.begun.set()
        assert self.open.wait(60.0)


@pytest.fixture
def gate():
    made = Gate()
    yield made
    made.open.set()


@pytest.fixture
def slow(drive, gate, monkeypatch):
    """A robot whose forecasts take as long as the gate is shut; its ticks do not."""

    class Slow(TickSteps):
        def advance(self, count):
            gate()
            return super().advance(count)

    if not drive.ticker.native:
        pytest.skip("no machine code here: ticks would be slow, too")
    monkeypatch.setattr(ticker_module, "TickSteps", Slow)
    return gate


def test_clients_and_the_dead_mans_switch_do_not_wait_for_a_forecast(served, drive, slow):
    """An observer requests a forecast that does not end; the operator stops sending."""
    port = served.lines.port
    operator = Line(port, token="secret", rate=100)
    observer = Line(port, token="secret", rate=100)
    operator.say(type="command", values={"surge": 1.0}, hold=1.0)
    assert operator.hear("done", "error")["type"] == "done"
    observer.say(type="forecast", horizon=1.0, rows=1, id="f")
    assert slow.begun.wait(30.0)
    wait(lambda: posted(drive, "surge") == 0.0, 20.0)
    operator.say(type="command", values={"surge": 0.5}, id="go")
    assert operator.hear("done", "error")["id"] == "go"
    before = operator.hear("state")["time"]
    wait(lambda: operator.hear("state")["time"] > before)
    operator.say(type="snapshot", id="s")
    assert operator.hear("done", "error")["id"] == "s"
    slow.open.set()
    assert observer.hear("done", "error")["id"] == "f"
    for line in (operator, observer):
        line.close()
    wait(lambda: not served.dispatcher.clients)


def test_an_operator_continues_while_its_own_forecast_is_computed(served, drive, slow):
    """A second one is refused meanwhile; the first one's answer comes when it is ready."""
    line = Line(served.lines.port, token="secret")
    line.say(type="forecast", horizon=1.0, rows=2, id="f")
    assert slow.begun.wait(30.0)
    line.say(type="command", values={"surge": 0.25}, id="go")
    assert line.hear("done", "error")["id"] == "go"
    assert posted(drive, "surge") == 0.25
    line.say(type="forecast", id="second")
    refused = line.hear("done", "error")
    assert refused["message"].startswith("forecast: expected one at a time")
    assert refused["id"] == "second"
    slow.open.set()
    found = line.hear("done", "error")
    assert found["id"] == "f"
    assert found["outcome"] == "finished"
    assert len(found["q"]) == 3
    line.close()


def test_forecasts_are_limited_and_end_with_their_client(served, drive, slow):
    port = served.lines.port
    lines = [Line(port, token="secret") for _ in range(MAX_FORECASTS + 1)]
    for line in lines[:-1]:
        slow.begun.clear()
        line.say(type="forecast")
        assert slow.begun.wait(30.0)
    lines[-1].say(type="forecast")
    said = lines[-1].hear("done", "error")["message"]
    assert said.startswith(f"forecast: expected at most {MAX_FORECASTS} at a time")
    for line in lines[:-1]:
        line.close()
    wait(lambda: len(served.dispatcher.clients) == 1)
    slow.open.set()

    def accepted():
        lines[-1].say(type="forecast", horizon=0.01, rows=1)
        return lines[-1].hear("done", "error")["type"] == "done"

    wait(accepted)
    lines[-1].close()


def test_forecasts_are_bounded_in_time(drive):
    """Ten minutes ahead in a tenth of a second: fewer rows, and a word why."""
    found = drive.forecast(600.0, 600, limit=0.1)
    assert found.outcome == "out of time"
    assert 1 <= len(found.time) < 601
    assert len(found.q) == len(found.v) == len(found.poses) == len(found.time)
    # one portion beyond the limit, and a loaded machine
    assert found.seconds < 5.0
    whole = drive.forecast(0.01, 2)
    assert whole.outcome == "finished"
    assert len(whole.time) == 3
    stop = threading.Event()
    stop.set()
    assert drive.forecast(1.0, 5, stop=stop).outcome == "stopped"
    with pytest.raises(tb.DomainError, match="limit: expected a time above 0 s"):
        drive.forecast(1.0, 5, limit=0.0)


def test_a_forecast_keeps_the_commands_it_began_with(drive, monkeypatch):
    """Commands that change while it is computed are not its own."""
    pause(drive)
    try:
        drive.reset()
        wait(lambda: drive.ticker.latest().steps == 0)
        changed = []

        class Meddling(TickSteps):
            def advance(self, count):
                if not changed:
                    changed.append(drive.command({"surge": 1.0}))
                return super().advance(count)

        expected = drive.forecast(0.5, 5)
        monkeypatch.setattr(ticker_module, "TickSteps", Meddling)
        found = drive.forecast(0.5, 5)
        assert changed
        assert (found.q == expected.q).all()
    finally:
        drive.release()
        drive.ticker.paused = False


@pytest.mark.parametrize(
    ("kind", "given", "where"),
    [
        ("save", {}, "tiburon.drive.session.Drive.save"),
        ("edit", {"values": {"density": 1001.0}}, "tiburon.drive.edits.edited"),
        ("record", {"on": True}, "tiburon.drive.session.Recording"),
        ("record", {"on": False}, "tiburon.drive.recording.Recording.result"),
    ],
    ids=["save", "edit", "record on", "record off"],
)
def test_clients_do_not_wait_for_disks_and_edits(
    drive, gate, monkeypatch, tmp_path, kind, given, where
):
    """The operator's sticks are released while its work is not done; others get states."""
    dispatcher = Dispatcher(drive, tmp_path)
    operator, observer = dispatcher.add_client("operator"), dispatcher.add_client("observer")
    if given.get("on") is False:
        assert dispatcher.handle(operator, {"type": "record", "on": True})["type"] == "done"
    with monkeypatch.context() as patch:
        patch.setattr(where, gate)
        steer = {"type": "command", "values": {"surge": 1.0}, "hold": 0.5}
        assert dispatcher.handle(operator, steer)["type"] == "done"
        message = {"type": kind, **given}

        def act():
            # what the gate returns is no result
            with contextlib.suppress(AttributeError, TypeError):
                dispatcher.handle(operator, message)

        work = threading.Thread(target=act, daemon=True)
        work.start()
        assert gate.begun.wait(30.0)
        done = []
        watching = threading.Thread(
            target=lambda: done.append(dispatcher.handle(observer, {"type": "state"})), daemon=True
        )
        watching.start()
        watching.join(20.0)
        assert done
        wait(lambda: posted(drive, "surge") == 0.0, 20.0)
        gate.open.set()
        work.join(30.0)
    dispatcher.remove_client(operator)
    if drive.recording is not None:
        drive.stop_recording()
