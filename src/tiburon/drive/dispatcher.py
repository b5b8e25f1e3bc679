"""The dispatcher: decodes and executes client messages and decides which client has control.

Messages are objects with a "type", encoded as JSON lines or as MessagePack with a length prefix;
docs/drive.md lists them. Incoming data is untrusted: `decode` returns an object or raises
`MessageError`. Servers pass in objects and send the answers; the real-time simulation is not
affected.

No long operation runs with the lock held: neither other clients nor the dead man's switch wait for
disks, for edits of large robots or for forecasts.
"""

import json
import math
import struct
import threading
import time as wall
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tiburon.drive.recording import Recording
from tiburon.drive.session import Drive
from tiburon.errors import TiburonError
from tiburon.results.header import force_units

FORMATS = ("json", "msgpack")
"""Encodings of messages; every connection begins with the first."""

MAX_MESSAGE_BYTES = 65536
"""Largest message [bytes]."""

LENGTH = struct.Struct(">I")
"""Length prefix of MessagePack messages on a socket: four bytes, big-endian."""


class MessageError(Exception):
    """A message that cannot be decoded or carried out."""


def short(value: Any) -> str:
    """Return the representation of a value, truncated."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def decode(data: str | bytes, form: str = "json") -> dict[str, Any]:
    """Return the object of a message.

    Args:
        data: Received data; text is always JSON.
        form: Encoding of bytes, "json" or "msgpack".

    Raises:
        MessageError: If it is too long, malformed, or not an object.
    """
    if len(data) > MAX_MESSAGE_BYTES:
        raise MessageError(f"message: expected at most {MAX_MESSAGE_BYTES} bytes, got {len(data)}")
    if form == "msgpack" and isinstance(data, bytes):
        name, message = "MessagePack map", _unpacked(data)
    else:
        name, message = "JSON object", _parsed(data)
    if not isinstance(message, dict):
        raise MessageError(f"message: expected a {name}, got {short(message)}")
    return message


def _parsed(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MessageError(
            f"message: expected a JSON object, got {short(text)} ({error})"
        ) from None


def _unpacked(data: bytes) -> Any:
    import msgpack

    try:
        # texts must be UTF-8, and keys must be texts
        return msgpack.unpackb(data, raw=False, strict_map_key=True)
    except (ValueError, RecursionError, msgpack.exceptions.UnpackException) as error:
        reason = str(error) or type(error).__name__
        raise MessageError(
            f"message: expected a MessagePack map, got {short(data)} ({reason[:200]})"
        ) from None


def encode(message: Mapping[str, Any], form: str = "json") -> bytes:
    """Return a message as bytes, without framing."""
    if form == "msgpack":
        import msgpack

        # lone surrogates, which JSON can hold, are replaced
        return bytes(msgpack.packb(message, unicode_errors="replace"))
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode()


def framed(message: Mapping[str, Any], form: str = "json") -> bytes:
    """Return a message with framing for a socket: a line, or a length prefix and the bytes."""
    data = encode(message, form)
    return LENGTH.pack(len(data)) + data if form == "msgpack" else data + b"\n"


def check_format(form: Any) -> str:
    """Return the name of an encoding after checking it.

    Raises:
        MessageError: If there is none of that name.
        TiburonError: If its package is not installed.
    """
    if form not in FORMATS:
        raise MessageError(f"format: expected one of {', '.join(FORMATS)}, got {short(form)}")
    if form == "msgpack":
        try:
            import msgpack  # noqa: F401
        except ImportError:
            raise TiburonError(
                "format: MessagePack needs a package that this server does not have; install it "
                "there with pip install msgpack, or use JSON"
            ) from None
    return str(form)


VERSION = 1
"""Version of the messages."""

MAX_RATE = 200.0
"""Largest rate of states for a client [Hz]."""

MAX_FORECAST_VALUES = 100_000
"""Most values in the answer to a forecast: their JSON encoding takes 50 ms, which delays all
clients."""

Action = Callable[["Client", Mapping[str, Any]], dict[str, Any]]


class Client:
    """A connected client."""

    def __init__(self, name: str = "", rate: float = 30.0) -> None:
        self.name = name
        self.rate = rate
        """Rate of its states [Hz]."""
        self.deadline = math.inf
        """Time at which its sticks are released unless it sends another command [s], on the
        monotonic clock."""
        self.format = FORMATS[0]
        """Encoding of its messages."""
        self.wanted_format = FORMATS[0]
        """Encoding after the answer that confirms it."""
        self.gone = threading.Event()
        """Set when it has disconnected; cancels its forecasts."""


class Dispatcher:
    """Carries out the messages of all clients.

    One client, the operator, has control authority: the first that sends a message that changes the
    robot, until it leaves. Others may only watch. Sticks are released when the operator leaves.
    """

    def __init__(self, drive: Drive, folder: Path | str = ".", rate: float = 30.0) -> None:
        """Prepare for clients.

        Args:
            drive: The robot.
            folder: Directory for recordings and edited robots.
            rate: Default rate of states [Hz].
        """
        self.drive, self.folder, self.rate = drive, Path(folder), rate
        self.clients: list[Client] = []
        self.operator: Client | None = None
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
        # short, with the lock held
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
        # long: these write files or rebuild the system
        self._lasting: dict[str, Action] = {
            "record": self._record,
            "edit": self._edit,
            "save": self._save,
        }

    # -- clients -----------------------------------------------------------------------------------

    def add_client(self, name: str = "") -> Client:
        """Add a client."""
        with self._lock:
            client = Client(name, self.rate)
            self.clients.append(client)
            return client

    def remove_client(self, client: Client) -> None:
        """Remove a client; release the sticks if it was the operator."""
        with self._lock:
            if client in self.clients:
                self.clients.remove(client)
            if self.operator is client:
                self.operator = None
                self.drive.release()

    def _watch_deadline(self) -> None:
        """Release the sticks of an operator whose deadline has passed.

        Runs on its own thread while there is a deadline: the dead man's switch depends on no
        client's rate and waits for no other work.
        """
        with self._new_deadline:
            while self.operator is not None and self.operator.deadline < math.inf:
                left = self.operator.deadline - wall.monotonic()
                if left <= 0.0:
                    self.operator.deadline = math.inf
                    self.drive.release()
                else:
                    self._new_deadline.wait(min(left, threading.TIMEOUT_MAX))
            self._watcher = None

    # -- messages ----------------------------------------------------------------------------------

    def is_asynchronous(self, message: Mapping[str, Any]) -> bool:
        """Return whether a message is answered asynchronously."""
        return message.get("type") == "forecast"

    def handle(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a message and return the answer; never raises."""
        try:
            _check_id(message)
            answer = self._carry_out(client, message.get("type"), message)
        except (MessageError, TiburonError) as error:
            return self.refused(message, str(error))
        except OSError as error:
            return self.refused(message, f"file: {error}")
        return self._labeled(message, answer)

    def refused(self, message: Mapping[str, Any], why: str) -> dict[str, Any]:
        """Return the answer to a rejected message."""
        return self._labeled(message, {"type": "error", "message": why})

    @staticmethod
    def _labeled(message: Mapping[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        """Add type and identifier of the message to its answer."""
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
            if self.operator is None:
                self.operator = client
            if self.operator is not client:
                name = self.operator.name or "another client"
                raise MessageError(
                    f"{kind}: expected that no other client has control, got {name!r}; you may "
                    "watch until it leaves"
                )
            if changing is not None:
                return {"type": "done", **action(client, message)}
        return {"type": "done", **action(client, message)}

    def welcome(self, client: Client) -> dict[str, Any]:
        """Return the description of the robot."""
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
            "strengths": {unit.joint: unit.strength for unit in drive.pilot.joints},
            "commands": list(system.command_names),
            "sticks": list(drive.sticks),
            "panel": dict(drive.panel_start),
            "thrusters": {
                t.name: [t.thrust_limits[0], t.thrust_limits[1]]
                for t in model.thrusters
                if all(map(math.isfinite, t.thrust_limits))
            },
            "external_forces": [
                {"name": p.command, "most": p.most, "unit": units[p.v]}
                for p in drive.external_forces
            ],
            "sensors": dict(channels),
            "parameters": [
                {"name": k.name, "value": k.value, "unit": k.unit}
                for k in drive.tunable_parameters()
            ],
            "native": drive.ticker.native,
        }

    def state(self, client: Client) -> dict[str, Any]:
        """Return the state of the robot, for a client."""
        found = {"type": "state", **self.drive.readings()}
        operator = self.operator
        found["operator"] = "you" if operator is client else "none" if operator is None else "other"
        found["clients"] = len(self.clients)
        return found

    def report(self) -> dict[str, Any]:
        """Return the timing statistics of ticks."""
        report = self.drive.report()
        return {
            "ticks": report.ticks,
            "limit": report.limit,
            "on_time": report.on_time,
            "deadline_misses": report.deadline_misses,
            "delays": report.delays,
            "skipped": report.skipped,
            "stolen": report.stolen,
            "lateness": {f"{p:g}": t for p, t in report.lateness.items()},
            "max_lateness": report.max_lateness,
            "lost_time": report.lost_time,
            "execution_time": report.execution_time,
            "max_execution_time": report.max_execution_time,
            "last_misses": [list(pair) for pair in report.last_misses[-16:]],
            # the last bin is unbounded
            "histogram": [
                [high if math.isfinite(high) else None, count] for high, count in report.histogram
            ],
            "machine": report.machine._asdict(),
            "settings": self.drive.ticker.summary(),
        }

    # -- one method per message type ---------------------------------------------------------------

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
            client.rate = _number(message, "rate", 0.1, MAX_RATE)
        if "format" in message:
            client.wanted_format = check_format(message["format"])
        return self.welcome(client)

    def _forecast(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        horizon = _number(message, "horizon", 0.0, 600.0, 5.0)
        model = self.drive.model
        most = min(
            1000, MAX_FORECAST_VALUES // (model.nq + model.nv + 7 * len(model.bodies) + 1) - 1
        )
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
            raise MessageError("step: expected a paused robot; send pause first")
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
        """Set the state, which ends a recording; return the path of the recording."""
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
            # on disk from the first row on, whatever ends the recording
            self._recording = drive.start_recording(every, path)
            return {"path": str(path)}
        # a reset, a snapshot or a divergence may have ended it already
        recording = drive.recording or self._recording
        if recording is None:
            raise MessageError(
                "record: expected a recording in progress, got none; start one first"
            )
        self._recording = None
        run = drive.stop_recording() if drive.recording is recording else recording.result()
        stored = recording.store
        if stored is None:
            stored = self._free_path("zarr")
            run.save(stored)
        return {"path": str(stored), "rows": len(run), "outcome": run.outcome.message}

    def _edit(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        self.drive.edit(_table(message))
        return {"parameters": {item.name: item.value for item in self.drive.tunable_parameters()}}

    def _save(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        path = self._free_path("toml")
        losses = self.drive.save(path)
        return {"path": str(path), "losses": list(losses)}

    def _leave(self, client: Client, message: Mapping[str, Any]) -> dict[str, Any]:
        self.operator = None
        client.deadline = math.inf
        self.drive.release()
        return {}

    def _free_path(self, suffix: str) -> Path:
        """Return an unused path in the folder; clients do not choose it."""
        letters = [c if c.isalnum() or c in "-_" else "_" for c in self.drive.model.name]
        stem = "".join(letters) or "robot"
        self.folder.mkdir(parents=True, exist_ok=True)
        count = 1
        while (path := self.folder / f"{stem}-{count}.{suffix}").exists():
            count += 1
        return path


def _is_id(number: Any) -> bool:
    """Return whether an identifier fits into every encoding."""
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
