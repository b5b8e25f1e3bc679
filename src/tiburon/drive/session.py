"""`Drive`: a robot under way by the clock on the wall, and everything one may do to it."""

import math
import threading
import time as wall
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.binding import DEFAULT_WORLD, world_with
from tiburon.arguments import public
from tiburon.drive.dashboard import Dashboard
from tiburon.drive.edits import Knob, edited, knobs_of, ready_for_edits, same_code
from tiburon.drive.forecast import Forecast, forecast
from tiburon.drive.panel import pushes_of
from tiburon.drive.pilot import Pilot, piloted
from tiburon.drive.recording import Recording
from tiburon.drive.ticker import Row, Ticker
from tiburon.drive.timing import TickReport
from tiburon.errors import DomainError, ModelError, UnknownNameError
from tiburon.loops.start import closed_start, resting_position
from tiburon.model import Model, Water, World
from tiburon.model.configuration import as_batch
from tiburon.simulation.sensing import Sensing, Sensor
from tiburon.simulation.system import System
from tiburon.simulation.trajectory import Trajectory

__all__ = ["Drive", "Snapshot"]

Array = NDArray[np.float64]

HOUSEKEEPING = 0.05
"""Time between two looks of the thread that takes rows and notices a robot that diverged [s]."""

PACE_WINDOW = 1.0
"""Wall time over which the real-time factor is measured [s]."""


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
        surroundings = ready_for_edits(world_with(world, fluid) or DEFAULT_WORLD)
        self._settings: dict[str, Any] = {"forces": forces, "passive": passive, "limits": limits}
        self.system, panel = piloted(model, surroundings, **self._settings)
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
        self.last_run: Trajectory | None = None
        """The run recorded last."""
        self._lock = threading.RLock()
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
        """Stop, and finish a recording that is under way."""
        self._closing.set()
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.join()
        self.ticker.stop()
        if self.recording is not None:
            self.stop_recording()

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
                if self.recording is not None:
                    self.recording.take()
                    if self.ticker.diverged:
                        self.stop_recording()

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
        short = f"panel.{name}"
        names = self.system.command_names
        if short in names:
            return names.index(short)
        if name in names:
            return names.index(name)
        words = [n.removeprefix("panel.") for n in names]
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
        with self._lock:
            held = self._held.copy()
            for name, value in commands.items():
                place = self.place(name)
                held[place] = self._checked(self.system.command_names[place], value)
            self.ticker.post(held)
            self._held = held

    def _checked(self, name: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
            raise DomainError(f"command {name!r}", "a number", f"{value!r}")
        number = float(value)
        if not math.isfinite(number) or abs(number) > 1e12:
            raise DomainError(f"command {name!r}", "a finite number", f"{value!r}")
        if name in self.sticks:
            return min(1.0, max(-1.0, number))
        if name.startswith("panel.") and number < 0.0:
            raise DomainError(f"command {name!r}", "a number of at least 0", f"{value!r}")
        return number

    @property
    def sticks(self) -> tuple[str, ...]:
        """Full names of the commands that go back to the middle when let go."""
        from tiburon.drive.panel import AXES

        moved = tuple(f"panel.{axis}" for axis in AXES)
        return tuple(
            name
            for name in self.system.command_names
            if name in moved or name.startswith("panel.joint.")
        )

    def release(self) -> None:
        """Let all sticks, thrusters and joint forces go; modes and gains stay."""
        kept = {name for name in self.panel_start if name not in self.sticks}
        names = self.system.command_names
        self.command({name: 0.0 for name in names if name not in kept})

    def reset(self) -> None:
        """Go back to the start, and let everything go."""
        self._jump(self._start)
        self.release()

    def snapshot(self, name: str = "quick") -> Snapshot:
        """Remember where the robot is."""
        row = self.ticker.latest()
        found = Snapshot(row.steps, row.state)
        self.snapshots[name] = found
        return found

    def restore(self, name: str = "quick") -> None:
        """Go back to a snapshot.

        Raises:
            UnknownNameError: If there is none of that name.
        """
        if name not in self.snapshots:
            raise UnknownNameError("snapshot", name, self.snapshots)
        self._jump(self.snapshots[name])

    def _jump(self, to: Snapshot) -> None:
        with self._lock:
            # times would go back: what was recorded until here is a run of its own
            if self.recording is not None:
                self.stop_recording()
            self.ticker.post_state(to.state, to.steps)
            self._pace.clear()

    # numbers

    def knobs(self) -> tuple[Knob, ...]:
        """Return the numbers of robot and water that may be changed."""
        return knobs_of(self.model, self.world, self._factors)

    def edit(self, changes: Mapping[str, Any]) -> None:
        """Change numbers of robot and water while it moves; nothing is compiled.

        Args:
            changes: By names as `knobs` lists them.

        Raises:
            UnknownNameError: If there is no such number.
            ModelError: If the robot with these numbers would need other code, or is recorded.
        """
        with self._lock:
            if self.recording is not None:
                raise ModelError(
                    "numbers: expected no recording under way, for a run has one set of numbers; "
                    "stop the recording first"
                )
            model, world, factors = edited(self.model, self.world, changes, self._factors)
            system = System(model, world, self._elements(model, world), self.system.control)
            if not same_code(self.system, system):
                raise ModelError(
                    f"numbers {', '.join(changes)}: expected a change that needs no other code, "
                    "got one from or to zero; start again with these numbers"
                )
            self.ticker.post(self._held, system.parameters())
            self.dashboard.exchange(system)
            self.system, self._factors = system, factors
            if self.sensing is not None:
                self._exchange_sensing(self.sensing, system)

    @staticmethod
    def _exchange_sensing(sensing: Sensing, system: System) -> None:
        kernel = sensing.kernel.__self__
        sensing.system = system
        numbers = {k: v for k, v in system.parameters().items() if k in kernel.parameters}
        sensing.__dict__["kernel"] = kernel.with_parameters(**numbers)

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
            "mode": self.mode(found["commands"]),
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

    def mode(self, commands: Mapping[str, float]) -> dict[str, str]:
        """Return in words who decides over vehicle and joints."""
        found = {}
        if "panel.station" in commands:
            found["vehicle"] = "station keeping" if commands["panel.station"] > 0.5 else "manual"
        if "panel.arm_hold" in commands:
            found["arm"] = "position hold" if commands["panel.arm_hold"] > 0.5 else "manual force"
        return found

    def forecast(self, horizon: float = 5.0, rows: int = 50) -> Forecast:
        """Return where the robot will be if all commands stay as they are.

        Args:
            horizon: How far to look [s].
            rows: Into how many equal parts.
        """
        with self._lock:
            return forecast(self.ticker, self.dashboard, horizon, rows)

    def start_recording(self, every: int = 10, store: str | Path | None = None) -> None:
        """Record from here on.

        Args:
            every: Steps between two rows.
            store: Path of a Zarr directory to write to; None keeps rows in memory.
        """
        if every < 1 or every % self.ticker.steps:
            raise DomainError("every", f"a multiple of {self.ticker.steps} steps", f"{every}")
        with self._lock:
            if self.recording is not None:
                raise ModelError("recording: one is under way already; stop it first")
            self.recording = Recording(self.system, self.ticker, self.method, every, store)

    def stop_recording(self) -> Trajectory:
        """End the recording and return it."""
        with self._lock:
            if self.recording is None:
                raise ModelError("recording: none is under way; start one first")
            recording, self.recording = self.recording, None
            bad = self.ticker.diverged
            self.last_run = recording.finish("diverged" if bad else "finished")
            return self.last_run

    def report(self) -> TickReport:
        """Return how ticks kept to the clock on the wall."""
        return self.ticker.report()
