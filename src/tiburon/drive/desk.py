"""The desk where clients meet the robot: who is at the wheel, what they ask for, what they get.

Messages are objects with a "type"; docs/drive.md lists them. Transports hand in text or bytes and
carry out what comes back; the robot goes on whatever happens here.
"""

import math
import threading
import time as wall
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tiburon.drive.messages import FORMATS, MessageError, check_format, decode, short
from tiburon.drive.session import Drive
from tiburon.errors import TiburonError
from tiburon.simulation.run_header import force_unit
from tiburon.simulation.units import velocity_units

__all__ = ["VERSION", "Client", "Desk"]

VERSION = 1
"""Of the messages."""

FASTEST = 200.0
"""States per second that a client may ask for [Hz]."""


class Client:
    """One who is connected."""

    def __init__(self, name: str = "", rate: float = 30.0) -> None:
        self.name = name
        self.rate = rate
        """States per second that it gets [Hz]."""
        self.deadline = math.inf
        """Wall time at which its sticks go back to the middle unless it speaks again [s]."""
        self.format = FORMATS[0]
        """How its messages are written."""
        self.wanted_format = FORMATS[0]
        """How they are to be written after the answer that tells so."""


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
        self._watching: dict[str, Callable[[Client, Mapping[str, Any]], dict[str, Any]]] = {
            "hello": self._hello,
            "describe": lambda client, message: self.welcome(client),
            "state": lambda client, message: self.state(client),
            "report": lambda client, message: {"report": self.report()},
            "forecast": self._forecast,
        }
        self._changing: dict[str, Callable[[Client, Mapping[str, Any]], dict[str, Any]]] = {
            "command": self._command,
            "release": self._release,
            "pause": self._pause,
            "step": self._step,
            "speed": self._speed,
            "reset": self._reset,
            "snapshot": self._snapshot,
            "restore": self._restore,
            "record": self._record,
            "edit": self._edit,
            "save": self._save,
            "clear": self._clear,
            "leave": self._leave,
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

    def check_hands(self) -> None:
        """Let the sticks go of one who promised to speak again and did not."""
        with self._lock:
            pilot = self.wheel
            if pilot is not None and wall.monotonic() > pilot.deadline:
                pilot.deadline = math.inf
                self.drive.release()

    # what they say

    def handle(self, client: Client, data: str | bytes) -> dict[str, Any]:
        """Carry out a message and return the answer: never raises, whatever the data."""
        kind: Any = None
        number: int | str | None = None
        try:
            message = decode(data, client.format)
            kind = message.get("type")
            number = _echoed(message.get("id"))
            answer = self._carry_out(client, kind, message)
        except (MessageError, TiburonError) as error:
            answer = {"type": "error", "message": str(error)}
        except OSError as error:
            answer = {"type": "error", "message": f"file: {error}"}
        if isinstance(kind, str):
            answer.setdefault("request", kind[:64])
        if number is not None:
            answer["id"] = number
        return answer

    def _carry_out(self, client: Client, kind: Any, message: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(kind, str):
            raise MessageError(f'message: expected a "type" that is a text, got {short(kind)}')
        watching = self._watching.get(kind)
        if watching is not None:
            return {"type": "done", **watching(client, message)}
        changing = self._changing.get(kind)
        if changing is None:
            known = ", ".join([*self._watching, *self._changing])
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
            return {"type": "done", **changing(client, message)}

    def welcome(self, client: Client) -> dict[str, Any]:
        """Return what there is to know about the robot, once."""
        drive = self.drive
        model, system = drive.model, drive.system
        units = [force_unit(unit) for unit in velocity_units(model)]
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
        self.drive.reset()
        return {}

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
        rows = int(_number(message, "rows", 1.0, 1000.0, 50.0))
        found = self.drive.forecast(horizon, rows)
        return {
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
        self.drive.restore(_name(message))
        return {}

    def _record(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        if _switch(message):
            self.drive.start_recording(int(_number(message, "every", 1.0, 1e6, 10.0)))
            return {}
        run = self.drive.stop_recording()
        path = self._free_path("zarr")
        run.save(path)
        return {"path": str(path), "rows": len(run)}

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


def _echoed(number: Any) -> int | str | None:
    """Return what an answer repeats of the number of a message, None for nothing.

    Raises:
        MessageError: If it is a number that not every format can carry.
    """
    if isinstance(number, str):
        return number[:64]
    if not isinstance(number, int) or isinstance(number, bool):
        return None
    if not -(2**63) <= number < 2**64:
        raise MessageError(f"id: expected a number of at most 64 bits, got {short(number)}")
    return number


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
