"""`Drive`: a robot in real-time simulation, with commands, edits, recordings and forecasts."""

import atexit
import threading
import time as wall
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tiburon.actuation.contact_element import ContactElement
from tiburon.actuation.contact_models import (
    DEFAULT_CONTACT,
    ContactModel,
    checked_contact,
    contact_elements,
)
from tiburon.actuation.joint_laws import ended_laws, refuse_immovable
from tiburon.actuation.stick_slip import refuse_long_steps
from tiburon.algorithms.surroundings import DEFAULT_WORLD, world_with
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.contact.candidates import refuse_meshes
from tiburon.drive import edits
from tiburon.drive.dashboard import Dashboard, modes_of
from tiburon.drive.forecast import Forecast, forecast
from tiburon.drive.pilot import Pilot, checked_command, external_forces_of, piloted, sticks_of
from tiburon.drive.recording import Recording
from tiburon.drive.tick_python import PartnerTicks
from tiburon.drive.ticker import Row, Ticker, TickReport
from tiburon.errors import DomainError, ModelError, OptionError, TiburonError, UnknownNameError
from tiburon.functions.assembly import closed_start, resting_position
from tiburon.functions.contact import clear_start
from tiburon.model import Model, Water, World
from tiburon.model.configuration import as_batch
from tiburon.results.trajectory import Trajectory
from tiburon.simulation.compatibility import refuse_method
from tiburon.simulation.contact_start import starting_states
from tiburon.simulation.contact_steps import refuse_long_contact_steps
from tiburon.simulation.execution import Execution, checked_execution
from tiburon.simulation.integrators.integrator import Integrator, checked_integrator
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.integrators.rk4 import RK4
from tiburon.simulation.limit_start import within_limits
from tiburon.simulation.partitioned import check_parts, digest_of
from tiburon.simulation.sensing import Sensing, Sensor
from tiburon.simulation.system import System
from tiburon.simulation.vanishing_inertia import movable

POLL_SECONDS = 0.05
"""Period of the thread that samples sensors and detects divergence [s]."""

FACTOR_WINDOW = 1.0
"""Wall-clock time over which the real-time factor is measured [s]."""

FORECAST_SECONDS = 5.0
"""Default wall-clock limit of a forecast [s]."""

MAX_FORECASTS = 2
"""Concurrent forecasts: each occupies a processor."""


class Snapshot(NamedTuple):
    """A stored state."""

    steps: int
    """Steps since the start."""

    state: Array
    """(*q, *v, *x)."""

    discrete: Array
    """Discrete states of elements."""


@public
class Drive:
    """A robot in real-time simulation, controlled by an operator.

    Example:
        A vehicle in station keeping that moves forward::

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
        elements: Sequence[Any] = (),
        sensors: Sequence[Sensor] = (),
        contact: ContactModel | None = DEFAULT_CONTACT,
        method: Integrator | None = None,
        steps: int = 1,
        limit: float = 1e-3,
        priority: bool = False,
        core: int | None = None,
        wait: str = "auto",
        native: bool | None = None,
        execution: Execution | None = None,
    ) -> None:
        """Build the system and compile its step, or load it from the cache.

        Args:
            model: The robot.
            world: Surroundings; gravity (0, 0, -9.81) m/s^2 on dry land by default.
            fluid: The water around the robot: short for a world with this fluid.
            q: Initial configuration [m or rad], shape (nq,), with closed loops;
                `model.neutral()` by default, or the pose "home" of a robot with loops, or the pose
                "initial" of a file that states where it starts.
            v: Initial joint velocity [m/s or rad/s], shape (nv,); zero by default.
            elements: Elements beside the robot's own.
            sensors: Sensors; the step must divide their periods.
            contact: How bodies touch, as in `simulate`; not `ExactContact`.
            method: One-step integrator with equal steps; ``RK4(dt=1e-3)`` by default.
            steps: Steps per tick: the period of ticks is ``steps`` times its dt.
            limit: Lateness above which a tick misses its deadline [s].
            priority: Whether to request real-time priority, no deep idle states and locked memory.
            core: Index of a processor for the ticks; other threads of the process leave it.
            wait: How to wait for ticks: "sleep", "spin", or "auto" (sleep until shortly before).
            native: Whether the tick loop is machine code; by default where possible.
            execution: The robot in parts, from `partition`, and ``MPIExchange()`` to compute them
                on ranks, each with its own clock and at the same rate; start the same script on
                all of them. Commands, edits, pauses and the end are those of rank 0, which alone
                writes files; requests to other ranks have no effect. `overruns` reports which were
                late.
        """
        integrator = checked_integrator(method or RK4())
        refuse_method(integrator, "ticks")
        scheme, dt = integrator.scheme, integrator.dt
        around = world_with(world, fluid, one_case="Drive") or DEFAULT_WORLD
        surroundings = edits.ready_for_edits(around)
        touching = checked_contact(contact)
        model = movable(model)
        if touching is not None and touching.is_event_driven:
            raise ModelError(
                "contact: exact contact locates events within steps, which ticks do not; write "
                "contact=tb.RigidContact() or contact=tb.CompliantContact()"
            )
        self._settings: dict[str, Any] = {"elements": elements, "contact": touching}
        if execution is None or execution.partition is None:
            self._settings["laws"] = ended_laws(model, dt)
        if surroundings.fluid is None:
            refuse_immovable(model, self._settings.get("laws", ()))
        self.system, panel = piloted(model, surroundings, **self._settings)
        refuse_long_steps(self.system.elements, dt, {})
        self.method = scheme
        self._factors: dict[str, float] = {}
        place = resting_position(model) if q is None else q
        position = as_batch(place, model.nq, "q", model.describe_q())
        velocity = np.zeros(model.nv)
        if v is not None:
            velocity = as_batch(v, model.nv, "v", model.describe_v())
        position = within_limits(self.system, position[None])[0]
        if model.loops:
            closed = closed_start(model, position[None], velocity[None], 0.0)
            position, velocity = closed.q[0], closed.v[0]
        placed = self.system.find(ContactElement)
        if placed is not None:
            refuse_meshes(placed.element.candidates, "a driven robot")
            if self.system.ends_in_contact:
                pairs = None if touching is None else touching.pairs
                position = clear_start(model, position[None], around, pairs)[0]
            refuse_long_contact_steps(self.system, METHODS[scheme], dt, position[None], 0.0)
        z = starting_states(self.system, position[None], velocity[None], 0.0)[0]
        state = self._state_at(position, velocity)
        self._places = {name: k for k, name in enumerate(self.system.command_names)}
        self._held = np.zeros(self.system.drive_size)
        self._held[self.system.discrete] = z
        self.system.commands.write(self._held, panel)
        if self.system.acts_in_contact:
            # the first tick begins with the contact forces of the start
            w = state[model.nq :].tolist()
            u = self.system.update(position.tolist(), w, self._held.tolist(), 0.0)
            self._held[self.system.discrete] = z = np.array(u[self.system.discrete])
        self._start = Snapshot(0, state, z)
        self.panel_start = panel
        self.external_forces = external_forces_of(
            model, self.system.commands, self.pilot.vehicle, self.pilot.joints
        )
        ticked, self._partners = self._in_parts(execution, integrator, steps)
        self.ticker = Ticker(
            ticked,
            self._start.state,
            self._held,
            method=integrator,
            steps=steps,
            limit=limit,
            priority=priority,
            core=core,
            wait=wait,
            native=native,
            session=self._partners,
        )
        self.dashboard = Dashboard(self.system)
        # compile now rather than at the first client
        self.dashboard.read(0.0, self._start.state, self._held)
        self.dashboard.poses(np.zeros(2), np.stack([position, position]))
        self.sensing = Sensing(self.system, sensors, dt) if sensors else None
        self._sensed_row = 0
        self.snapshots: dict[str, Snapshot] = {}
        self.recording: Recording | None = None
        self._last_recording: Recording | None = None
        self._lock = threading.RLock()
        """Guards the data of readings; held briefly, since clients wait for it."""
        self._posting = threading.Lock()
        """Guards commands only, so that releasing sticks waits for nothing else."""
        self._arranging = threading.RLock()
        """Serializes edits and starts of recordings."""
        self._forecasts = threading.BoundedSemaphore(MAX_FORECASTS)
        self._pace: deque[tuple[float, float]] = deque()
        self._closing = threading.Event()
        self._poller: threading.Thread | None = None

    def _state_at(self, q: Array, v: Array) -> Array:
        """Return a full state: initial internal states, targets at the current configuration."""
        x = self.system.x0.copy()
        own = self.pilot.start(self.system.model, q.tolist())
        x[len(x) - len(own) :] = own
        return np.concatenate([q, v, x])

    def _in_parts(
        self, execution: Execution | None, method: Integrator, steps: int
    ) -> tuple[System, Any]:
        """Return the system that is stepped, and the session of this process if it has partners.

        Everything else reads the undivided system, which needs no other process.
        """
        honored = ("partition", "exchange")
        carried = checked_execution(execution, honored, "a drive")
        partition, exchange = carried.partition, carried.exchange
        if partition is None:
            return self.system, None

        whole = self.system
        check_parts(whole.model, carried, {"method": method})
        if whole.find(ContactElement) is not None:
            raise OptionError("contact with partition", (None,), "a robot that may touch")
        if exchange is not None and not callable(getattr(exchange, "endpoint", None)):
            raise OptionError("exchange of ticks", ("None", "MPIExchange()"), exchange)
        endpoint = None if exchange is None else exchange.endpoint()
        session = partition.session(endpoint=endpoint)
        system = System(
            whole.model, whole.world, whole.elements, whole.control, steps=True, partition=session
        )
        session.prepare(system)
        start = {"state": self._start.state, "held": self._held}
        session.agree(digest_of(system, (method.scheme, method.dt, steps), start))
        return system, None if endpoint is None else session

    @property
    def overruns(self) -> tuple[PartnerTicks, ...]:
        """Ticks, deadline misses and skipped ticks of every process, by rank."""
        partners = self.ticker.partners
        if partners is not None:
            return partners.ticks
        now = self.report()
        return (PartnerTicks(0, now.ticks, now.deadline_misses, now.skipped, now.max_lateness),)

    @property
    def lost(self) -> str:
        """Why the ticks ended if a process did not answer; empty otherwise."""
        return "" if self._partners is None else str(self._partners.lost)

    # -- running -----------------------------------------------------------------------------------

    def start(self) -> "Drive":
        """Start simulated time."""
        self.ticker.start()
        _RUNNING.add(self)
        if self._poller is None:
            self._closing.clear()
            self._poller = threading.Thread(target=self._poll, name="tiburon-drive", daemon=True)
            self._poller.start()
        return self

    def close(self) -> None:
        """Stop, and finish the current recording.

        Raises:
            TiburonError: If a recording could not be written, and this was not reported yet.
        """
        self._closing.set()
        poller, self._poller = self._poller, None
        if poller is not None:
            poller.join()
        self.ticker.stop()
        _RUNNING.discard(self)
        self._end_recording("the drive was closed")
        last = self._last_recording
        if last is not None and not last.reported:
            # complete the files before the process may end
            last.result()

    def __enter__(self) -> "Drive":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _poll(self) -> None:
        """Sample sensors, measure the real-time factor, and end recordings after divergence."""
        while not self._closing.wait(POLL_SECONDS):
            with self._lock:
                self._sample_sensors()
                now = self.ticker.latest()
                self._pace.append((wall.monotonic(), now.time))
                while self._pace[-1][0] - self._pace[0][0] > FACTOR_WINDOW:
                    self._pace.popleft()
                recording = self.recording
                if recording is not None and (self.ticker.diverged or recording.failed):
                    self._end_recording("the motion diverged")

    def _sample_sensors(self) -> None:
        """Evaluate sensors in all new rows at their sampling times."""
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
        """The robot with its current parameters."""
        return self.system.model

    @property
    def world(self) -> World:
        """The surroundings with their current parameters."""
        return self.system.world

    @property
    def pilot(self) -> Pilot:
        """The controller that turns sticks into commands."""
        assert isinstance(self.system.control, Pilot)
        return self.system.control

    @property
    def real_time_factor(self) -> float:
        """Simulated time per wall-clock time, over the last second."""
        with self._lock:
            if len(self._pace) < 2:
                return 0.0
            (a, first), (b, last) = self._pace[0], self._pace[-1]
            return max(0.0, (last - first) / (b - a)) if b > a else 0.0

    # -- commands ----------------------------------------------------------------------------------

    def place(self, name: str) -> int:
        """Return the index of a command; those of the panel also by their short names."""
        place = self._places.get(f"panel.{name}", self._places.get(name))
        if place is not None:
            return place
        words = [n.removeprefix("panel.") for n in self._places]
        raise UnknownNameError("command", name, words, listing="drive.system.command_names")

    def command(self, commands: Mapping[str, Any]) -> None:
        """Change commands; all others are unchanged.

        Args:
            commands: By name: sticks ("surge", "joint.elbow": -1 to 1), switches ("station",
                "arm_hold": 0 or 1), gains ("station_frequency" [rad/s], "speed" [m/s], ...),
                thrusters and actuators by their own names, in their own units.

        Raises:
            UnknownNameError: If there is no such command.
            DomainError: If one is not a finite number.
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
        """Full names of the commands that return to zero when released."""
        return sticks_of(self.system.command_names)

    def release(self) -> None:
        """Set all sticks, thrusters and joint forces to zero; modes and gains are unchanged."""
        kept = set(self.panel_start).difference(self.sticks)
        self.command({name: 0.0 for name in self._places if name not in kept})

    def reset(self) -> None:
        """Return to the initial state and release all commands; ends the recording and keeps it."""
        self._jump(self._start, "the robot was reset")
        self.release()

    def snapshot(self, name: str = "quick") -> Snapshot:
        """Store the current state under a name."""
        row = self.ticker.present()
        found = Snapshot(row.steps, row.state, row.held[self.system.discrete])
        self.snapshots[name] = found
        return found

    def restore(self, name: str = "quick") -> None:
        """Return to a snapshot; ends the recording, which is kept.

        Raises:
            UnknownNameError: If there is none of that name.
        """
        if name not in self.snapshots:
            raise UnknownNameError("snapshot", name, self.snapshots)
        self._jump(self.snapshots[name], f"the robot returned to snapshot {name!r}")

    def _jump(self, to: Snapshot, why: str) -> None:
        with self._lock:
            # time would decrease: the recording ends here
            self._end_recording(why)
            self.ticker.post_state(to.state, to.steps, to.discrete)
            self._pace.clear()

    # -- parameters --------------------------------------------------------------------------------

    def tunable_parameters(self) -> tuple[edits.TunableParameter, ...]:
        """Return the parameters of robot and water that can be changed."""
        return edits.tunable_parameters(self.model, self.world, self._factors)

    def edit(self, changes: Mapping[str, Any]) -> None:
        """Change parameters of robot and water during the simulation, without compilation.

        Args:
            changes: Values by names as in `tunable_parameters`.

        Raises:
            UnknownNameError: If there is no such parameter.
            ModelError: If the change needs other code, or a recording is in progress.
        """
        with self._arranging:
            if self.recording is not None:
                raise ModelError(
                    "parameters: expected no recording in progress, since a run has constant "
                    "parameters; stop the recording first"
                )
            # large robots take a while: built before any lock is held
            model, world, factors = edits.edited(self.model, self.world, changes, self._factors)
            elements = self._elements(model, world)
            system = System(model, world, elements, self.system.control, steps=True)
            if not edits.same_code(self.system, system):
                raise ModelError(
                    f"parameters {', '.join(changes)}: expected a change that needs no other code, "
                    "got one from or to zero; start again with these values"
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
        """Return the elements of the robot with other parameters; stops keep their stiffness."""
        from tiburon.actuation.defaults import as_elements, elements_of

        settings = self._settings
        own = elements_of(model, laws=settings.get("laws", ()))
        touching = contact_elements(model, world, settings["contact"])
        return (*own, *as_elements(settings["elements"]), *touching, self.system.elements[-1])

    def save(self, path: str | Path) -> tuple[str, ...]:
        """Save the robot with its current parameters as a native file."""
        from tiburon.formats.save import save

        return save(self.model, path)

    # -- output ------------------------------------------------------------------------------------

    def readings(self, row: Row | None = None) -> dict[str, Any]:
        """Return all values of the dashboard, as JSON types."""
        now = self.ticker.latest() if row is None else row
        found: dict[str, Any] = {"time": now.time, "steps": now.steps}
        with self._lock:
            self._sample_sensors()
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
            "deadline_misses": report.deadline_misses,
            "max_lateness": report.max_lateness,
            "lost_time": report.lost_time,
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
        """Predict the motion with constant commands.

        Works on a copy of the state; the real-time simulation is not affected.

        Args:
            horizon: Duration of the forecast [s].
            rows: Number of equal intervals.
            limit: Wall-clock limit [s]; `Forecast.outcome` states whether it was reached.
            stop: Cancels the forecast when set.

        Raises:
            DomainError: If the horizon is out of range.
            TiburonError: If too many forecasts are in progress.
        """
        if self._partners is not None:
            raise ModelError(
                "forecast: a robot on several processes cannot be stepped by one of them; "
                "forecast an undivided Drive"
            )
        if not self._forecasts.acquire(blocking=False):
            raise TiburonError(
                f"forecast: expected at most {MAX_FORECASTS} at a time, got one more; ask again "
                "when one has ended"
            )
        try:
            return forecast(self.ticker, self.dashboard, horizon, rows, limit, stop)
        finally:
            self._forecasts.release()

    def start_recording(self, every: int = 10, store: str | Path | None = None) -> Recording:
        """Start a recording.

        Args:
            every: Steps between two rows.
            store: Path of a Zarr directory to write to; None keeps rows in memory, as do all ranks
                but the first.
        """
        if every < 1 or every % self.ticker.steps:
            raise DomainError("every", f"a multiple of {self.ticker.steps} steps", f"{every}")
        with self._arranging:
            if self.recording is not None:
                raise ModelError("recording: one is in progress already; stop it first")
            if self._partners is not None and not self._partners.is_first:
                store = None
            recording = Recording(self.system, self.ticker, self.method, every, store)
            self.recording = self._last_recording = recording
            return recording

    def stop_recording(self) -> Trajectory:
        """Stop the recording and return it, also if a reset has ended it before.

        Raises:
            ModelError: If there is none, or it was returned before.
        """
        recording = self._end_recording() or self._last_recording
        if recording is None or recording.reported:
            raise ModelError("recording: none is in progress; start one first")
        return recording.result()

    def _end_recording(self, why: str = "") -> Recording | None:
        """End the recording, if there is one, without waiting for its files."""
        with self._lock:
            recording, self.recording = self.recording, None
            if recording is not None:
                time = self.ticker.latest().time
                message = f"recording ended at {time:.6g} s: {why}" if why else ""
                recording.end("diverged" if self.ticker.diverged else "finished", message)
            return recording

    @property
    def last_run(self) -> Trajectory | None:
        """The last recorded run; None during a recording, or if there was none."""
        recording = self._last_recording
        return None if recording is None or recording is self.recording else recording.result()

    def report(self) -> TickReport:
        """Return the timing statistics of ticks."""
        return self.ticker.report()


_RUNNING: "weakref.WeakSet[Drive]" = weakref.WeakSet()
"""Drives that were started and not closed."""


def _stop_all() -> None:
    """Stop ticks at exit: machine code and MPI must not be torn down under them."""
    for drive in list(_RUNNING):
        drive.ticker.stop()


atexit.register(_stop_all)
