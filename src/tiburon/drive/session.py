"""`Drive`: a robot under way by the clock on the wall, and everything one may do to it."""

import threading
import time as wall
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.actuation.stick_slip import refuse_long_steps
from tiburon.algorithms.surroundings import DEFAULT_WORLD, world_with
from tiburon.arguments import public
from tiburon.drive import edits
from tiburon.drive.dashboard import Dashboard, modes_of
from tiburon.drive.forecast import Forecast, forecast
from tiburon.drive.panel import checked_command, pushes_of, sticks_of
from tiburon.drive.pilot import Pilot, piloted
from tiburon.drive.recording import Recording
from tiburon.drive.ticker import Row, Ticker
from tiburon.drive.timing import TickReport
from tiburon.errors import DomainError, ModelError, TiburonError, UnknownNameError
from tiburon.loops.start import closed_start, resting_position
from tiburon.model import Model, Water, World
from tiburon.model.configuration import as_batch
from tiburon.results.trajectory import Trajectory
from tiburon.simulation.sensing import Sensing, Sensor
from tiburon.simulation.system import System

__all__ = ["Drive", "Snapshot"]

Array = NDArray[np.float64]

HOUSEKEEPING = 0.05
"""Time between two looks of the thread that takes rows and notices a robot that diverged [s]."""

PACE_WINDOW = 1.0
"""Wall time over which the real-time factor is measured [s]."""

FORECAST_SECONDS = 5.0
"""Wall time that a forecast may take unless told otherwise [s]."""

MOST_FORECASTS = 2
"""Forecasts at a time: each keeps a processor busy that ticks may want."""


class Snapshot(NamedTuple):
    """A state to come back to."""

    steps: int
    state: Array


class Drive:
    """A robot that moves by the clock on the wall while one holds its sticks.

    Example:
        A vehicle that keeps its place, then goes ahead::

            with Drive(rov, fluid=sea) as drive:
                drive.command({"station": 1.0, "surge": 0.5})
                time.sleep(5.0)
                print(drive.readings()["depth"], drive.report())
    """

    @public
    def __init__(
        self,
        model: Model,
        *,
        world: World | None = None,
        fluid: Water | None = None,
        q: ArrayLike | None = None,
        v: ArrayLike | None = None,
        forces: Sequence[Any] = (),
        sensors: Sequence[Sensor] = (),
        passive: bool | str = True,
        limits: bool = True,
        method: str = "rk4",
        dt: float = 1e-3,
        steps: int = 1,
        limit: float = 1e-3,
        priority: bool = False,
        core: int | None = None,
        wait: str = "auto",
        native: bool | None = None,
    ) -> None:
        """Put the robot together and compile its step, or find it compiled; nothing moves yet.

        Args:
            model: The robot.
            world: Surroundings; gravity (0, 0, -9.81) m/s^2 on dry land by default.
            fluid: The water the robot is in: short for a world of this fluid.
            q: Position at the start [m or rad], shape (nq,), with closed loops; `model.neutral()`
                by default, or the pose "home" of a robot with loops.
            v: Joint velocity at the start [m/s or rad/s], shape (nv,); at rest by default.
            forces: Elements that act beside the robot's own.
            sensors: What measures; their rates divide those of the steps.
            passive: Whether friction and springs act, as in `simulate`.
            limits: Whether joints stop at their limits.
            method: Integrator of equal steps without memory.
            dt: Length of a step [s].
            steps: Steps of a tick: ticks come every ``steps * dt`` on the wall.
            limit: Lateness from which a tick counts as an overrun [s].
            priority: Whether to ask the system for a thread that goes before ordinary ones,
                processors that stay awake and memory that stays in place.
            core: Number of a processor for the ticks alone; other threads of the process leave it.
            wait: How ticks are waited for: "sleep", "spin" (awake all the time), or "auto" (asleep
                until shortly before).
            native: Whether the loop is machine code; by default where that is possible.
        """
        around = world_with(world, fluid, one_case="Drive") or DEFAULT_WORLD
        surroundings = edits.ready_for_edits(around)
        self._settings: dict[str, Any] = {"forces": forces, "passive": passive, "limits": limits}
        self.system, panel = piloted(model, surroundings, **self._settings)
        refuse_long_steps(self.system.elements, dt, {})
        self.method = method
        self._factors: dict[str, float] = {}
        place = resting_position(model) if q is None else q
        position = as_batch(place, model.nq, "q", model.describe_q())
        velocity = np.zeros(model.nv)
        if v is not None:
            velocity = as_batch(v, model.nv, "v", model.describe_v())
        if model.loops:
            closed = closed_start(model, position[None], velocity[None], 0.0)
            position, velocity = closed.q[0], closed.v[0]
        self._start = Snapshot(0, self._state_at(position, velocity))
        self._places = {name: k for k, name in enumerate(self.system.command_names)}
        self._held = np.zeros(self.system.drive_size)
        self.system.commands.write(self._held, panel)
        self.panel_start = panel
        self.pushes = pushes_of(model, self.system.commands, self.pilot.vehicle, self.pilot.joints)
        self.ticker = Ticker(
            self.system,
            self._start.state,
            self._held,
            method=method,
            dt=dt,
            steps=steps,
            limit=limit,
            priority=priority,
            core=core,
            wait=wait,
            native=native,
        )
        self.dashboard = Dashboard(self.system)
        # compiled now, not while someone waits at the page
        self.dashboard.read(0.0, self._start.state, self._held)
        self.dashboard.poses(np.zeros(2), np.stack([position, position]))
        self.sensing = Sensing(self.system, sensors, dt) if sensors else None
        self._sensed_row = 0
        self.snapshots: dict[str, Snapshot] = {}
        self.recording: Recording | None = None
        self._last_recording: Recording | None = None
        self._lock = threading.RLock()
        """Guards what readings are made of; never held for long, for clients wait for it."""
        self._posting = threading.Lock()
        """Guards commands alone, so that letting sticks go waits for nothing else."""
        self._arranging = threading.RLock()
        """Lets one edit or start of a recording after the other."""
        self._forecasts = threading.BoundedSemaphore(MOST_FORECASTS)
        self._pace: deque[tuple[float, float]] = deque()
        self._closing = threading.Event()
        self._keeper: threading.Thread | None = None

    def _state_at(self, q: Array, v: Array) -> Array:
        """Return a whole state: inner states at their start, targets where the robot is."""
        x = self.system.x0.copy()
        own = self.pilot.start(self.system.model, q.tolist())
        x[len(x) - len(own) :] = own
        return np.concatenate([q, v, x])

    # under way

    def start(self) -> "Drive":
        """Let time run."""
        self.ticker.start()
        if self._keeper is None:
            self._closing.clear()
            self._keeper = threading.Thread(
                target=self._keep_house, name="tiburon-drive", daemon=True
            )
            self._keeper.start()
        return self

    def close(self) -> None:
        """Stop, and finish a recording that is under way.

        Raises:
            TiburonError: If a recording could not be written, and nobody knows yet.
        """
        self._closing.set()
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.join()
        self.ticker.stop()
        self._end_recording("the drive was closed")
        last = self._last_recording
        if last is not None and not last.reported:
            # on disk before the process may end
            last.result()

    def __enter__(self) -> "Drive":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _keep_house(self) -> None:
        """Take rows and readings at their rate, whoever watches."""
        while not self._closing.wait(HOUSEKEEPING):
            with self._lock:
                self._look()
                now = self.ticker.latest()
                self._pace.append((wall.monotonic(), now.time))
                while self._pace[-1][0] - self._pace[0][0] > PACE_WINDOW:
                    self._pace.popleft()
                recording = self.recording
                if recording is not None and (self.ticker.diverged or recording.failed):
                    self._end_recording("the motion diverged")

    def _look(self) -> None:
        """Let sensors look at all rows that were their turn."""
        if self.sensing is None:
            return
        rows, self._sensed_row, _ = self.ticker.rows(self._sensed_row)
        nq = self.model.nq
        for numbers in rows:
            row = self.ticker.rows_of(numbers)
            if row.steps % self.sensing.every == 0:
                self.sensing.look(
                    row.steps,
                    np.ascontiguousarray(row.state[:nq]),
                    np.ascontiguousarray(row.state[nq:]),
                    np.ascontiguousarray(row.held),
                    np.asarray(row.time),
                )

    @property
    def model(self) -> Model:
        """The robot with the numbers it has now."""
        return self.system.model

    @property
    def world(self) -> World:
        """Its surroundings with the numbers they have now."""
        return self.system.world

    @property
    def pilot(self) -> Pilot:
        """What turns sticks into commands."""
        assert isinstance(self.system.control, Pilot)
        return self.system.control

    @property
    def real_time_factor(self) -> float:
        """Simulated seconds per second on the wall, over the last second."""
        with self._lock:
            if len(self._pace) < 2:
                return 0.0
            (a, first), (b, last) = self._pace[0], self._pace[-1]
            return max(0.0, (last - first) / (b - a)) if b > a else 0.0

    # what one does to it

    def place(self, name: str) -> int:
        """Return where a command stands; those of the panel also by their short names."""
        place = self._places.get(f"panel.{name}", self._places.get(name))
        if place is not None:
            return place
        words = [n.removeprefix("panel.") for n in self._places]
        raise UnknownNameError("command", name, words, listing="drive.system.command_names")

    def command(self, commands: Mapping[str, Any]) -> None:
        """Change commands; all others hold.

        Args:
            commands: By name: sticks ("surge", "joint.elbow": -1 to 1), switches ("station",
                "arm_hold": 0 or 1), gains ("station_frequency" [rad/s], "speed" [m/s], ...),
                thrusters and actuators by their own names, in their own units.

        Raises:
            UnknownNameError: If there is no such command.
            DomainError: If one is no finite number.
        """
        changes = {}
        for name, value in commands.items():
            place = self.place(name)
            changes[place] = checked_command(self.system.command_names[place], value)
        with self._posting:
            held = self._held.copy()
            for place, number in changes.items():
                held[place] = number
            self.ticker.post(held)
            self._held = held

    @property
    def sticks(self) -> tuple[str, ...]:
        """Full names of the commands that go back to the middle when let go."""
        return sticks_of(self.system.command_names)

    def release(self) -> None:
        """Let all sticks, thrusters and joint forces go; modes and gains stay."""
        kept = set(self.panel_start).difference(self.sticks)
        self.command({name: 0.0 for name in self._places if name not in kept})

    def reset(self) -> None:
        """Go back to the start, and let everything go; ends a recording, which is kept."""
        self._jump(self._start, "the robot was reset")
        self.release()

    def snapshot(self, name: str = "quick") -> Snapshot:
        """Remember where the robot is."""
        row = self.ticker.present()
        found = Snapshot(row.steps, row.state)
        self.snapshots[name] = found
        return found

    def restore(self, name: str = "quick") -> None:
        """Go back to a snapshot; ends a recording, which is kept.

        Raises:
            UnknownNameError: If there is none of that name.
        """
        if name not in self.snapshots:
            raise UnknownNameError("snapshot", name, self.snapshots)
        self._jump(self.snapshots[name], f"the robot went back to snapshot {name!r}")

    def _jump(self, to: Snapshot, why: str) -> None:
        with self._lock:
            # times would go back: what was recorded until here is a run of its own
            self._end_recording(why)
            self.ticker.post_state(to.state, to.steps)
            self._pace.clear()

    # numbers

    def knobs(self) -> tuple[edits.Knob, ...]:
        """Return the numbers of robot and water that may be changed."""
        return edits.knobs_of(self.model, self.world, self._factors)

    def edit(self, changes: Mapping[str, Any]) -> None:
        """Change numbers of robot and water while it moves; nothing is compiled.

        Args:
            changes: By names as `knobs` lists them.

        Raises:
            UnknownNameError: If there is no such number.
            ModelError: If the robot with these numbers would need other code, or is recorded.
        """
        with self._arranging:
            if self.recording is not None:
                raise ModelError(
                    "numbers: expected no recording under way, for a run has one set of numbers; "
                    "stop the recording first"
                )
            # robots of many bodies take a while: put together before anybody has to wait
            model, world, factors = edits.edited(self.model, self.world, changes, self._factors)
            system = System(model, world, self._elements(model, world), self.system.control)
            if not edits.same_code(self.system, system):
                raise ModelError(
                    f"numbers {', '.join(changes)}: expected a change that needs no other code, "
                    "got one from or to zero; start again with these numbers"
                )
            parameters, reading = system.parameters(), self.dashboard.kernel_of(system)
            with self._lock:
                with self._posting:
                    self.ticker.post(self._held, parameters)
                self.dashboard.exchange(system, reading)
                self.system, self._factors = system, factors
                if self.sensing is not None:
                    edits.exchange_sensing(self.sensing, system, parameters)

    def _elements(self, model: Model, world: World) -> tuple[Any, ...]:
        """Return what acts on the robot with other numbers; stops keep their stiffness."""
        from tiburon.actuation.defaults import as_elements, elements_of

        passive, limits = self._settings["passive"], self._settings["limits"]
        own = elements_of(model, world, passive=passive, limits=limits)
        return (*own, *as_elements(self._settings["forces"]), self.system.elements[-1])

    def save(self, path: str | Path) -> tuple[str, ...]:
        """Save the robot with the numbers it has now as a native file."""
        from tiburon.formats.save import save

        return save(self.model, path)

    # what comes out of it

    def readings(self, row: Row | None = None) -> dict[str, Any]:
        """Return all that a dashboard shows, ready to be written as JSON."""
        now = self.ticker.latest() if row is None else row
        found: dict[str, Any] = {"time": now.time, "steps": now.steps}
        with self._lock:
            self._look()
            found |= self.dashboard.read(now.time, now.state, now.held)
            if self.sensing is not None:
                found["sensors"] = {
                    name: values.tolist() for name, values in self.sensing.latest.items()
                }
        model = self.model
        found["q"] = now.state[: model.nq].tolist()
        found["v"] = now.state[model.nq : model.nq + model.nv].tolist()
        report = self.ticker.report()
        found |= {
            "mode": modes_of(found["commands"]),
            "paused": self.ticker.paused,
            "diverged": self.ticker.diverged,
            "recording": self.recording is not None,
            "time_scale": self.ticker.speed,
            "real_time_factor": self.real_time_factor,
            "late": now.late,
            "overruns": report.overruns,
            "latest": report.latest,
            "lost": report.lost,
            "ticks": report.ticks,
        }
        return found

    def forecast(
        self,
        horizon: float = 5.0,
        rows: int = 50,
        *,
        limit: float = FORECAST_SECONDS,
        stop: threading.Event | None = None,
    ) -> Forecast:
        """Return where the robot will be if all commands stay as they are.

        Works on a copy of the state: the robot, its commands and its readings go on meanwhile.

        Args:
            horizon: How far to look [s].
            rows: Into how many equal parts.
            limit: Wall time that it may take [s]; `Forecast.outcome` tells whether it was enough.
            stop: Ends it before when set.

        Raises:
            DomainError: If that is too far, or nothing.
            TiburonError: If as many forecasts as may run at a time are under way.
        """
        if not self._forecasts.acquire(blocking=False):
            raise TiburonError(
                f"forecast: expected at most {MOST_FORECASTS} at a time, got one more; ask again "
                "when one has ended"
            )
        try:
            return forecast(self.ticker, self.dashboard, horizon, rows, limit, stop)
        finally:
            self._forecasts.release()

    def start_recording(self, every: int = 10, store: str | Path | None = None) -> Recording:
        """Record from here on.

        Args:
            every: Steps between two rows.
            store: Path of a Zarr directory to write to; None keeps rows in memory.
        """
        if every < 1 or every % self.ticker.steps:
            raise DomainError("every", f"a multiple of {self.ticker.steps} steps", f"{every}")
        with self._arranging:
            if self.recording is not None:
                raise ModelError("recording: one is under way already; stop it first")
            recording = Recording(self.system, self.ticker, self.method, every, store)
            self.recording = self._last_recording = recording
            return recording

    def stop_recording(self) -> Trajectory:
        """End the recording and return it, also if a reset has ended it before.

        Raises:
            ModelError: If there is none that was not returned before.
        """
        recording = self._end_recording() or self._last_recording
        if recording is None or recording.reported:
            raise ModelError("recording: none is under way; start one first")
        return recording.result()

    def _end_recording(self, why: str = "") -> Recording | None:
        """End the recording, if there is one, without waiting until it is written."""
        with self._lock:
            recording, self.recording = self.recording, None
            if recording is not None:
                time = self.ticker.latest().time
                message = f"recording ended at {time:.6g} s: {why}" if why else ""
                recording.end("diverged" if self.ticker.diverged else "finished", message)
            return recording

    @property
    def last_run(self) -> Trajectory | None:
        """The run recorded last, whatever ended it; None while one is recorded, or if none was."""
        recording = self._last_recording
        return None if recording is None or recording is self.recording else recording.result()

    def report(self) -> TickReport:
        """Return how ticks kept to the clock on the wall."""
        return self.ticker.report()
