"""The desk where clients meet the robot: who is at the wheel, what they ask for, what they get.

Messages are objects with a "type"; docs/drive.md lists them. Transports hand in objects and send
the answers; the robot goes on whatever happens here.

Nothing that takes long is done with the lock held: neither other clients nor the dead man's switch
wait for disks, for edits of large robots or for forecasts.
"""

import math
import threading
import time as wall
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tiburon.drive.messages import FORMATS, MessageError, check_format, short
from tiburon.drive.recording import Recording
from tiburon.drive.session import Drive
from tiburon.errors import TiburonError
from tiburon.results.header import force_units

__all__ = ["VERSION", "Client", "Desk"]

VERSION = 1
"""Of the messages."""

FASTEST = 200.0
"""States per second that a client may ask for [Hz]."""

MOST_FORECAST = 100_000
"""Values in the answer to a forecast: writing them as JSON takes 50 ms, which all clients wait."""

Action = Callable[["Client", Mapping[str, Any]], dict[str, Any]]


class Client:
    """One who is connected."""

    def __init__(self, name: str = "", rate: float = 30.0) -> None:
        self.name = name
        self.rate = rate
        """States per second that it gets [Hz]."""
        self.deadline = math.inf
        """Time at which its sticks go back to the middle unless it speaks again [s]; on the
        monotonic clock."""
        self.format = FORMATS[0]
        """How its messages are written."""
        self.wanted_format = FORMATS[0]
        """How they are to be written after the answer that tells so."""
        self.gone = threading.Event()
        """Set when it has left: what is still computed for it is given up."""


class Desk:
    """Takes messages of all clients, one robot behind them.

    One client is at the wheel: the first that asks for something that changes the robot, until it
    leaves. Others watch, and are told so if they try. Sticks of one who leaves go to the middle.
    """

    def __init__(self, drive: Drive, folder: Path | str = ".", rate: float = 30.0) -> None:
        """Open the desk.

        Args:
            drive: The robot.
            folder: Where recordings and edited robots are written.
            rate: States per second for clients that ask for none [Hz].
        """
        self.drive, self.folder, self.rate = drive, Path(folder), rate
        self.clients: list[Client] = []
        self.wheel: Client | None = None
        self._lock = threading.RLock()
        self._new_deadline = threading.Condition(self._lock)
        self._watcher: threading.Thread | None = None
        self._recording: Recording | None = None
        self._watching: dict[str, Action] = {
            "hello": self._hello,
            "describe": lambda client, message: self.welcome(client),
            "state": lambda client, message: self.state(client),
            "report": lambda client, message: {"report": self.report()},
            "forecast": self._forecast,
        }
        # done with the lock held, and therefore quick
        self._changing: dict[str, Action] = {
            "command": self._command,
            "release": self._release,
            "pause": self._pause,
            "step": self._step,
            "speed": self._speed,
            "reset": self._reset,
            "snapshot": self._snapshot,
            "restore": self._restore,
            "clear": self._clear,
            "leave": self._leave,
        }
        # they write files or put the robot together anew
        self._lasting: dict[str, Action] = {
            "record": self._record,
            "edit": self._edit,
            "save": self._save,
        }

    # who is there

    def join(self, name: str = "") -> Client:
        """Let a client in."""
        with self._lock:
            client = Client(name, self.rate)
            self.clients.append(client)
            return client

    def part(self, client: Client) -> None:
        """Let a client go; if it was at the wheel its sticks go to the middle."""
        with self._lock:
            if client in self.clients:
                self.clients.remove(client)
            if self.wheel is client:
                self.wheel = None
                self.drive.release()

    def _watch_deadline(self) -> None:
        """Release the sticks of an operator that promised to speak again and did not.

        Runs on a thread of its own while there is a deadline: the dead man's switch depends on no
        client's rate and waits for no other work.
        """
        with self._new_deadline:
            while self.wheel is not None and self.wheel.deadline < math.inf:
                left = self.wheel.deadline - wall.monotonic()
                if left <= 0.0:
                    self.wheel.deadline = math.inf
                    self.drive.release()
                else:
                    self._new_deadline.wait(min(left, threading.TIMEOUT_MAX))
            self._watcher = None

    # what they say

    def lasts(self, message: Mapping[str, Any]) -> bool:
        """Return whether a message is to be answered when its answer is ready, others before it."""
        return message.get("type") == "forecast"

    def handle(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a message and return the answer: never raises, whatever the message."""
        try:
            _check_id(message)
            answer = self._carry_out(client, message.get("type"), message)
        except (MessageError, TiburonError) as error:
            return self.refused(message, str(error))
        except OSError as error:
            return self.refused(message, f"file: {error}")
        return self._labeled(message, answer)

    def refused(self, message: Mapping[str, Any], why: str) -> dict[str, Any]:
        """Return the answer to a message that is not carried out."""
        return self._labeled(message, {"type": "error", "message": why})

    @staticmethod
    def _labeled(message: Mapping[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        """Add to an answer which message it answers."""
        kind, number = message.get("type"), message.get("id")
        if isinstance(kind, str):
            answer.setdefault("request", kind[:64])
        if isinstance(number, str):
            answer["id"] = number[:64]
        elif _is_id(number):
            answer["id"] = number
        return answer

    def _carry_out(self, client: Client, kind: Any, message: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(kind, str):
            raise MessageError(f'message: expected a "type" that is a text, got {short(kind)}')
        watching = self._watching.get(kind)
        if watching is not None:
            return {"type": "done", **watching(client, message)}
        changing, lasting = self._changing.get(kind), self._lasting.get(kind)
        action = changing or lasting
        if action is None:
            known = ", ".join([*self._watching, *self._changing, *self._lasting])
            raise MessageError(f"message: expected a type among {known}, got {short(kind)}")
        with self._lock:
            if self.wheel is None:
                self.wheel = client
            if self.wheel is not client:
                name = self.wheel.name or "another client"
                raise MessageError(
                    f"{kind}: expected that nobody else is at the wheel, got {name!r} there; you "
                    "may watch until it leaves"
                )
            if changing is not None:
                return {"type": "done", **action(client, message)}
        return {"type": "done", **action(client, message)}

    def welcome(self, client: Client) -> dict[str, Any]:
        """Return what there is to know about the robot, once."""
        drive = self.drive
        model, system = drive.model, drive.system
        units = list(force_units(model))
        channels: Mapping[str, Any] = {}
        if drive.sensing is not None:
            channels = {s.name: list(s.channel_names(model)) for s in drive.sensing.sensors}
        return {
            "type": "welcome",
            "version": VERSION,
            "model": model.name,
            "about": model.about,
            "dt": drive.ticker.dt,
            "tick": drive.ticker.dt * drive.ticker.steps,
            "rate": client.rate,
            "format": client.wanted_format,
            "bodies": list(model.body_names),
            "q_names": list(model.q_names),
            "v_names": list(model.v_names),
            "force_units": units,
            "strengths": {grip.joint: grip.strength for grip in drive.pilot.joints},
            "commands": list(system.command_names),
            "sticks": list(drive.sticks),
            "panel": dict(drive.panel_start),
            "thrusters": {
                t.name: [t.thrust_limits[0], t.thrust_limits[1]]
                for t in model.thrusters
                if all(map(math.isfinite, t.thrust_limits))
            },
            "pushes": [
                {"name": p.command, "most": p.most, "unit": units[p.v]} for p in drive.pushes
            ],
            "sensors": dict(channels),
            "knobs": [{"name": k.name, "value": k.value, "unit": k.unit} for k in drive.knobs()],
            "native": drive.ticker.native,
        }

    def state(self, client: Client) -> dict[str, Any]:
        """Return where the robot is, for a client."""
        found = {"type": "state", **self.drive.readings()}
        pilot = self.wheel
        found["wheel"] = "you" if pilot is client else "free" if pilot is None else "taken"
        found["clients"] = len(self.clients)
        return found

    def report(self) -> dict[str, Any]:
        """Return how ticks kept to the clock."""
        report = self.drive.report()
        return {
            "ticks": report.ticks,
            "limit": report.limit,
            "punctual": report.punctual,
            "overruns": report.overruns,
            "gaps": report.gaps,
            "missed": report.missed,
            "lateness": {f"{p:g}": t for p, t in report.lateness.items()},
            "latest": report.latest,
            "lost": report.lost,
            "busy": report.busy,
            "busiest": report.busiest,
            "last_overruns": [list(pair) for pair in report.last_overruns[-16:]],
            # the last width has no end
            "histogram": [
                [high if math.isfinite(high) else None, count] for high, count in report.histogram
            ],
            "machine": report.machine._asdict(),
            "manner": self.drive.ticker.manner(),
        }

    # one method for each type

    def _release(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        self.drive.release()
        return {}

    def _reset(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        return self._ending_recording(self.drive.reset)

    def _clear(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        self.drive.ticker.clear_report()
        return {}

    def _hello(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        client.name = str(message.get("name", client.name))[:64]
        if "rate" in message:
            client.rate = _number(message, "rate", 0.1, FASTEST)
        if "format" in message:
            client.wanted_format = check_format(message["format"])
        return self.welcome(client)

    def _forecast(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        horizon = _number(message, "horizon", 0.0, 600.0, 5.0)
        model = self.drive.model
        most = min(1000, MOST_FORECAST // (model.nq + model.nv + 7 * len(model.bodies) + 1) - 1)
        rows = int(_number(message, "rows", 1.0, max(most, 1), min(50.0, max(most, 1))))
        found = self.drive.forecast(horizon, rows, stop=client.gone)
        return {
            "outcome": found.outcome,
            "time": found.time.tolist(),
            "q": found.q.tolist(),
            "v": found.v.tolist(),
            "poses": found.poses.tolist(),
            "seconds": found.seconds,
        }

    def _command(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        values = _table(message)
        hold = _number(message, "hold", 0.0, math.inf, math.inf)
        self.drive.command(values)
        client.deadline = wall.monotonic() + hold
        self._new_deadline.notify_all()
        if hold < math.inf and self._watcher is None:
            self._watcher = threading.Thread(
                target=self._watch_deadline, name="tiburon-dead-mans-switch", daemon=True
            )
            self._watcher.start()
        return {}

    def _pause(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        self.drive.ticker.paused = _switch(message)
        return {}

    def _step(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        count = int(_number(message, "count", 1.0, 1e6, 1.0))
        if not self.drive.ticker.paused:
            raise MessageError("step: expected a robot that is paused; send pause first")
        self.drive.ticker.step(count)
        return {}

    def _speed(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        self.drive.ticker.speed = _number(message, "value", 0.0, math.inf)
        return {}

    def _snapshot(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        if len(self.drive.snapshots) >= 100:
            raise MessageError("snapshot: expected at most 100; use the name of an earlier one")
        self.drive.snapshot(_name(message))
        return {"snapshots": list(self.drive.snapshots)}

    def _restore(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        return self._ending_recording(lambda: self.drive.restore(_name(message)))

    def _ending_recording(self, jump: Callable[[], None]) -> dict[str, Any]:
        """Let the robot jump, which ends a recording; return where that was written."""
        recording = self.drive.recording
        jump()
        if recording is None or recording is self.drive.recording or recording.store is None:
            return {}
        return {"path": str(recording.store)}

    def _record(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        drive = self.drive
        if _switch(message):
            every = int(_number(message, "every", 1.0, 1e6, 10.0))
            path = self._free_path("zarr")
            # on disk from the first row on: it is there whatever ends the recording
            self._recording = drive.start_recording(every, path)
            return {"path": str(path)}
        # a reset, a return to a snapshot or a robot that diverged may have ended it already
        recording = drive.recording or self._recording
        if recording is None:
            raise MessageError("record: expected a recording under way, got none; start one first")
        self._recording = None
        run = drive.stop_recording() if drive.recording is recording else recording.result()
        stored = recording.store
        if stored is None:
            stored = self._free_path("zarr")
            run.save(stored)
        return {"path": str(stored), "rows": len(run), "outcome": run.outcome.message}

    def _edit(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        self.drive.edit(_table(message))
        return {"knobs": {knob.name: knob.value for knob in self.drive.knobs()}}

    def _save(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        path = self._free_path("toml")
        losses = self.drive.save(path)
        return {"path": str(path), "losses": list(losses)}

    def _leave(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        self.wheel = None
        client.deadline = math.inf
        self.drive.release()
        return {}

    def _free_path(self, suffix: str) -> Path:
        """Return a path in the folder that nothing has yet; clients do not choose it."""
        letters = [c if c.isalnum() or c in "-_" else "_" for c in self.drive.model.name]
        stem = "".join(letters) or "robot"
        self.folder.mkdir(parents=True, exist_ok=True)
        count = 1
        while (path := self.folder / f"{stem}-{count}.{suffix}").exists():
            count += 1
        return path


def _is_id(number: Any) -> bool:
    """Return whether a number of a message is one that every format can carry."""
    return isinstance(number, int) and not isinstance(number, bool) and -(2**63) <= number < 2**64


def _check_id(message: Mapping[str, Any]) -> None:
    number = message.get("id")
    if isinstance(number, int) and not isinstance(number, bool) and not _is_id(number):
        raise MessageError(f"id: expected a number of at most 64 bits, got {short(number)}")


def _number(
    message: Mapping[str, Any], key: str, low: float, high: float, default: float | None = None
) -> float:
    value = message.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise MessageError(f"{key}: expected a number, got {short(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.nan
    if not low <= number <= high:
        raise MessageError(f"{key}: expected a number from {low:g} to {high:g}, got {short(value)}")
    return number


def _table(message: Mapping[str, Any]) -> dict[str, Any]:
    values = message.get("values")
    if not isinstance(values, dict):
        raise MessageError(f"values: expected an object of numbers by name, got {short(values)}")
    for name, value in values.items():
        if not isinstance(name, str):
            raise MessageError(f"values: expected names that are texts, got {short(name)}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e300:
            raise MessageError(f"values: expected a number for {short(name)}, got {short(value)}")
    return values


def _switch(message: Mapping[str, Any]) -> bool:
    on = message.get("on")
    if not isinstance(on, bool):
        raise MessageError(f"on: expected true or false, got {short(on)}")
    return on


def _name(message: Mapping[str, Any]) -> str:
    name = message.get("name", "quick")
    if not isinstance(name, str) or not 0 < len(name) <= 64:
        raise MessageError(f"name: expected a text of 1 to 64 letters, got {short(name)}")
    return name
