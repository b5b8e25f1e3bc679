"""Natural frequencies, damping ratios and mode shapes of a robot at an equilibrium.

Near an equilibrium a robot moves as a sum of modes, each with its own frequency and damping: an
eigenvalue lambda of the linearized motion, with natural frequency |lambda| and damping ratio
-Re(lambda) / |lambda| (Meirovitch 2001, "Fundamentals of vibrations", chapter 7). Water and forces
that depend on velocity make shapes complex: joints then pass their largest deflections one after
the other.
"""

import os
import tempfile
import webbrowser
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tiburon.actuation.defaults import as_elements, elements_of
from tiburon.actuation.element import Element
from tiburon.actuation.passive import PassiveJoints
from tiburon.algorithms.surroundings import world_with
from tiburon.argument_checks import positive, vector
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike, NDArray
from tiburon.errors import DomainError, ModelError, RunFileError, shown
from tiburon.functions.assembly import resting_position
from tiburon.functions.library import check_places
from tiburon.model import Model, Water, World
from tiburon.notebook import notebook_table
from tiburon.record import record
from tiburon.simulation.equilibrium import ClosedMotion, SmallMotion, settle
from tiburon.simulation.system import System
from tiburon.trace.declared import is_traced
from tiburon.written_file import write_file

NEUTRAL_FRACTION = 1e-9
"""Real parts up to this fraction of an eigenvalue count as rounding errors: neutral modes."""


@record(eq=False)
class Mode:
    """One mode of small motions about an equilibrium."""

    eigenvalue: complex
    """Eigenvalue of the linearized motion [1/s]; of a pair, that with positive imaginary part."""

    shape: NDArray[np.complex128]
    """Changes of configuration, the largest being 1 [rad or m], shape (nv,). Real if all joints
    pass through zero at the same time; otherwise complex, with phases."""

    states: NDArray[np.complex128]
    """Changes of the continuous states of springs, motors and thrusters, shape (nx,)."""

    @property
    def kind(self) -> str:
        """Kind: "free", "oscillation", "decay", "growth" or "growing oscillation"."""
        if self.eigenvalue == 0.0:
            return "free"
        grows = self.eigenvalue.real > NEUTRAL_FRACTION * abs(self.eigenvalue)
        if self.eigenvalue.imag != 0.0:
            return "growing oscillation" if grows else "oscillation"
        return "growth" if grows else "decay"

    @property
    def natural_frequency(self) -> float:
        """Size of lambda [rad/s]: the undamped frequency, for proportional damping."""
        return abs(self.eigenvalue)

    @property
    def damping_ratio(self) -> float:
        """``-Re(lambda) / |lambda|``: at least 1 for overdamped modes; NaN for free ones."""
        size = abs(self.eigenvalue)
        return -self.eigenvalue.real / size if size else float("nan")

    @property
    def period(self) -> float:
        """Period of the damped oscillation [s]; infinite for modes that do not oscillate."""
        return 2.0 * np.pi / self.eigenvalue.imag if self.eigenvalue.imag else float("inf")

    @property
    def frequency(self) -> float:
        """Damped frequency [Hz]."""
        return self.eigenvalue.imag / (2.0 * np.pi)

    @property
    def time_constant(self) -> float:
        """Time constant of the decay [s]; negative if the mode grows, infinite if neutral."""
        real = self.eigenvalue.real
        return -1.0 / real if abs(real) > NEUTRAL_FRACTION * abs(self.eigenvalue) else float("inf")

    def __repr__(self) -> str:
        return f"<Mode: {_described(self)}>"

    def _cells(self) -> tuple[str, ...]:
        """Return kind, frequency, damping ratio and time constant as texts."""
        turns = bool(self.eigenvalue.imag)
        return (
            self.kind,
            f"{self.frequency:.4g}" if turns else "",
            f"{self.damping_ratio:.4g}" if turns else "",
            f"{self.time_constant:.4g}" if np.isfinite(self.time_constant) else "",
        )


@public
@record(eq=False)
class Modes:
    """An equilibrium and the modes about it; a sequence of `Mode`, free ones first."""

    model: Model
    """The robot."""

    q: Array
    """Configuration of the equilibrium [m or rad], shape (nq,)."""

    v: Array
    """Constant velocity [m/s or rad/s], shape (nv,): zero by default."""

    x: Array
    """Continuous states at the equilibrium, shape (nx,)."""

    residual: Array
    """Residual acceleration [m/s^2 or rad/s^2], shape (nv,)."""

    A: Array
    """The linearized motion of [dq, v, x], shape (2 nv + nx, 2 nv + nx); with loops as that of
    `linearize`."""

    members: tuple[Mode, ...]
    """Free modes, then the others, slowest first."""

    zeros: int
    """Multiplicity of the eigenvalue zero of A on the constraint manifold: two for a direction of
    free drift."""

    time: float = 0.0
    """Time [s], for driven joints and unsteady water."""

    def __len__(self) -> int:
        """Return the number of modes."""
        return len(self.members)

    def __getitem__(self, place: int) -> Mode:
        """Return a mode by its place in the table."""
        return self.members[place]

    @property
    def free(self) -> tuple[Mode, ...]:
        """Modes without restoring force."""
        return tuple(mode for mode in self.members if mode.kind == "free")

    @property
    def oscillations(self) -> tuple[Mode, ...]:
        """Modes that oscillate, slowest first."""
        return tuple(mode for mode in self.members if mode.eigenvalue.imag)

    @property
    def frequencies(self) -> Array:
        """Natural frequencies of the modes that oscillate [rad/s], slowest first."""
        return np.array([mode.natural_frequency for mode in self.oscillations])

    @property
    def damping_ratios(self) -> Array:
        """Damping ratios of the modes that oscillate."""
        return np.array([mode.damping_ratio for mode in self.oscillations])

    @property
    def is_stable(self) -> bool:
        """Whether no mode grows; free ones neither grow nor decay."""
        return not any("grow" in mode.kind for mode in self.members)

    def position(self, mode: int, amplitude: float, phase: ArrayLike = 0.0) -> Array:
        """Return configurations along a mode, for figures.

        Args:
            mode: Its place in the table.
            amplitude: Deflection of the variable that moves most [rad or m].
            phase: Of the oscillation [rad], shape (...).

        Returns:
            Positions [m or rad], shape (..., nq); with closed loops where there are any.

        Raises:
            DomainError: If loops do not let the robot go so far.
        """
        turned = np.exp(1j * np.asarray(phase, dtype=np.float64))[..., None]
        steps = amplitude * np.real(turned * self.members[mode].shape)
        start = np.broadcast_to(self.q, (*steps.shape[:-1], len(self.q)))
        if not self.model.loops:
            return self.model.integrate(start, steps)
        return along_loops(self.model, start, steps, self.time)

    def save_html(
        self,
        path: str | os.PathLike[str],
        mode: int | None = None,
        *,
        amplitude: float | None = None,
        **options: Any,
    ) -> Path:
        """Write a page that animates a mode, with the equilibrium shown translucent.

        Args:
            path: Where to write; an existing file is replaced.
            mode: Its place in the table; the slowest oscillation by default.
            amplitude: Of the variable that moves most [rad or m]; well visible by default.
            **options: As in `tiburon.viewer.replay_html`, such as ``fluid=``.

        Returns:
            The path.

        Example:
            ``tb.modes(arm).save_html("swing.html")``
        """
        return save_mode(self, path, mode, amplitude, options)

    def view(
        self, mode: int | None = None, *, amplitude: float | None = None, **options: Any
    ) -> Any:
        """Animate a mode in the browser; arguments as in `save_html`.

        Where viser is installed, in the live scene; scripts then stay here until Ctrl-C, unless
        ``wait=False``. Else as a page. Returns the live replay, or the path of the page.
        """
        return view_mode(self, mode, amplitude, options)

    def table(self, joints: int = 3) -> str:
        """Return a table of all modes as text.

        Args:
            joints: Number of variables listed of each shape, the largest first.
        """
        head = ("", "kind", "rad/s", "Hz", "damping", "1/e time s", "moves most")
        rows = [head]
        for k, mode in enumerate(self.members):
            free = mode.kind == "free"
            numbers = (
                ("", "", "", "")
                if free
                else (
                    f"{mode.natural_frequency:.5g}",
                    f"{mode.frequency:.5g}" if mode.eigenvalue.imag else "",
                    f"{round(mode.damping_ratio, 4) + 0.0:.4f}" if mode.eigenvalue.imag else "",
                    f"{mode.time_constant:.4g}" if np.isfinite(mode.time_constant) else "",
                )
            )
            rows.append((str(k), mode.kind, *numbers, self._moving(mode, joints)))
        widths = [max(len(row[k]) for row in rows) for k in range(len(head))]
        lines = [
            "  ".join(
                cell.ljust(width) if k in (1, 6) else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join(lines)

    def _moving(self, mode: Mode, joints: int) -> str:
        order = np.argsort(-np.abs(mode.shape), kind="stable")[:joints]
        parts = []
        for place in order:
            entry = complex(mode.shape[place])
            if abs(entry) < 1e-3:
                break
            angle = float(np.degrees(np.angle(entry)))
            straight = abs(entry.imag) < 1e-3 * abs(entry)
            text = f"{entry.real:+.3f}" if straight else f"{abs(entry):.3f} at {angle:.0f} deg"
            parts.append(f"{self.model.v_names[place]} {text}")
        return ", ".join(parts)

    def __repr__(self) -> str:
        stable = "stable" if self.is_stable else "unstable"
        return (
            f"<Modes of {self.model.name!r}: {len(self.free)} free, {len(self.oscillations)} "
            f"oscillating of {len(self)}, {stable}>"
        )

    def _repr_html_(self) -> str:
        """Return a table of the modes, for notebooks."""
        rows = ((k, *self[k]._cells()) for k in range(len(self)))
        head = ("mode", "kind", "frequency [Hz]", "damping ratio", "time constant [s]")
        state = "stable" if self.is_stable else "unstable"
        return notebook_table(f"Modes of {self.model.name}: {state}", rows, head)

    def __str__(self) -> str:
        return self.table()


def _described(mode: Mode) -> str:
    if mode.kind == "free":
        return "free"
    size = f"{mode.natural_frequency:.5g} rad/s" if mode.eigenvalue.imag else ""
    ratio = f"damping {mode.damping_ratio:.4f}" if mode.eigenvalue.imag else ""
    parts = [mode.kind, size, ratio or f"1/e in {mode.time_constant:.4g} s"]
    return ", ".join(part for part in parts if part)


ROUNDING_FRACTION = 1e-12
"""Components of a shape below this fraction of the largest are rounding errors."""


@public
def modes(
    model: Model,
    q: ArrayLike | None = None,
    *,
    v: ArrayLike | None = None,
    x: ArrayLike | None = None,
    tau: ArrayLike | None = None,
    commands: Mapping[str, Any] | ArrayLike | None = None,
    world: World | None = None,
    fluid: Water | None = None,
    elements: Iterable[object] = (),
    control: Callable[..., Any] | None = None,
    time: float = 0.0,
    solve: bool = True,
    tolerance: float = 1e-9,
    slowest: float = 1e-6,
) -> Modes:
    """Find an equilibrium, and frequencies, damping and shapes of small motions about it.

    Forces are those of `simulate`: water, springs and damping of joints, stops, thrusters and
    motors at constant commands, further elements, a traced controller. Coulomb friction is left
    out, since it is discontinuous at rest. With loops, motions satisfy the constraints.

    Args:
        model: The robot; its joints must have as many velocities as degrees of freedom of
            position.
        q: Initial configuration [m or rad], shape (nq,); the neutral one by default. With loops a
            guess from which loops are closed, the pose "home" by default.
        v: Constant velocity [m/s or rad/s], shape (nv,): a steady motion; at rest by default.
        x: Continuous states of elements to start from, shape (nx,); as in `simulate` by default.
        tau: Constant joint forces [N or N m], shape (nv,); none by default.
        commands: Constant commands of actuators and thrusters: by name, or one value for each.
        world: Surroundings; gravity (0, 0, -9.81) m/s^2 on dry land by default.
        fluid: The water the robot is in: short for a world of this fluid.
        elements: Elements in addition to those of the robot, as for `simulate`.
        control: A controller marked with `traced`: the modes are then those of the closed loop.
        time: Time [s], for driven joints and unsteady water.
        solve: Whether to move to the nearest equilibrium; otherwise q is taken as it is, and
            `Modes.residual` holds the acceleration there.
        tolerance: Largest residual force at an equilibrium, relative to the weight of the robot,
            at least 1 N.
        slowest: Frequencies below this fraction of the highest count as zero.

    Returns:
        The equilibrium and its modes, a sequence that prints as a table.

    Raises:
        DomainError: If no equilibrium is found, or if it is a singular configuration.
        LoopError: If loops cannot be closed from the start.
        ModelError: If a joint rolls.

    Example:
        ``print(tb.modes(tb.load("double_pendulum")))``
    """
    check_places(model, world)
    if control is not None and not is_traced(control):
        raise ModelError(
            f"control: expected a function marked with traced, got {shown(control)}; modes need "
            "its derivatives, write @tb.traced above it"
        )
    around = world_with(world, fluid, one_case="modes")
    own = map(_smooth, elements_of(model))
    system = System(model, around, [*own, *as_elements(elements)], control)
    row: list[Any] = [0.0] * len(system.command_names)
    if tau is not None:
        row = system.commands.fill(row, vector("tau", tau, model.nv))
    if commands is not None:
        row = system.commands.fill(row, commands)
    rate = np.zeros(model.nv) if v is None else vector("v", v, model.nv)
    held = vector("commands", row, len(row))
    states = system.x0.copy() if x is None else vector("x", x, system.nx)
    position = resting_position(model) if q is None else vector("q", q, model.nq)
    motion = (ClosedMotion if model.loops else SmallMotion)(system, rate, held, time)
    if isinstance(motion, ClosedMotion):
        position = motion.loops.start(position, is_guess=solve)
    if solve:
        position, states = settle(motion, position, states, positive("tolerance", tolerance))
    if isinstance(motion, ClosedMotion):
        motion.loops.check(position)
    A = motion.matrix(position, states)
    if not positive("slowest", slowest) < 1.0:
        raise DomainError("slowest", "a fraction below 1", f"{slowest:g}")
    found = motion.members(A, position, states, slowest)
    values = [*np.zeros(len(found.free)), *found.values]
    vectors = [*found.free.astype(np.complex128), *found.vectors]
    return Modes(
        model,
        position,
        rate,
        states,
        motion.rates(position, states)[: model.nv],
        A,
        tuple(_mode(complex(a), z, model.nv) for a, z in zip(values, vectors, strict=True)),
        found.zeros,
        time,
    )


def _smooth(element: Element) -> Element:
    """Return an element without Coulomb friction, which is discontinuous at rest."""
    return replace(element, coulomb=False) if isinstance(element, PassiveJoints) else element


def _mode(value: complex, eigenvector: NDArray[np.complex128], nv: int) -> Mode:
    steps, states = eigenvector[:nv], eigenvector[2 * nv :]
    moving = steps if np.abs(steps).max(initial=0.0) > ROUNDING_FRACTION else states
    whole = eigenvector / moving[int(np.argmax(np.abs(moving)))]
    return Mode(value, _rounded(whole[:nv]), _rounded(whole[2 * nv :]))


def _rounded(shape: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Return a shape with rounding errors set to zero."""
    least = ROUNDING_FRACTION * float(np.abs(shape).max(initial=0.0))
    real = np.where(np.abs(shape.real) > least, shape.real, 0.0)
    return np.asarray(real + 1j * np.where(np.abs(shape.imag) > least, shape.imag, 0.0))


FRAMES_PER_SWING = 61
"""Frames of one period, both ends included."""

SHOWN_PERIOD = 2.0
"""Period of an animation [s], independent of that of the mode."""

SHOWN_FRACTION = 0.2
"""Default displacement of the body that moves most, relative to the size of the robot."""

LARGEST_ANGLE = 0.5
"""Largest default amplitude [rad or m]: mode shapes hold for small motions."""

MAX_HALVINGS = 10
"""Maximum number of halvings of an amplitude at which loops cannot be closed."""

MAX_JOINT_STEP = 0.05
"""Longest step of a joint between projections onto the constraints [rad or m]."""

MAX_STEP_RATIO = 4.0
"""Largest ratio of a projected step to the step before projection."""

CLOSURE_TOLERANCE = 1e-12
"""Constraint residual of closed loops [m or rad]."""

EQUILIBRIUM_COLOR: tuple[float, float, float, float] = (0.62, 0.66, 0.70, 0.25)
"""Color of the equilibrium beside the mode."""


def along_loops(model: Model, q: Array, steps: Array, time: float) -> Array:
    """Take steps projected onto the constraints, short ones so that none jumps to another branch.

    Args:
        model: The robot; it has loops.
        q: Initial configuration with closed loops [m or rad], shape (..., nq).
        steps: Steps, to first order [m or rad], shape (..., nv).
        time: Time [s].

    Raises:
        DomainError: If loops cannot be closed so far away.
    """
    from tiburon.functions.closed_loops import project_configuration

    longest = float(np.abs(steps).max(initial=0.0))
    parts = max(1, int(np.ceil(longest / MAX_JOINT_STEP)))
    when = np.full(q.shape[:-1], time) if model.plan.depends_on_time else None
    for part in range(1, parts + 1):
        found = project_configuration(model, model.integrate(q, steps / parts), time=when)
        # a long projection: the end of the range of motion is reached
        gone = np.abs(model.difference(q, found.q)).max(initial=0.0)
        if (
            np.max(found.residual, initial=0.0) > CLOSURE_TOLERANCE
            or gone > MAX_STEP_RATIO * longest / parts
        ):
            raise DomainError(
                "amplitude",
                "one that loops allow",
                f"loops that open after {part - 1} / {parts} of it",
                advice="take a smaller one",
            )
        q = found.q
    return q


def swing(modes: Modes, place: int, amplitude: float | None = None) -> tuple[Array, Array, float]:
    """Return one period of a mode: times [s], positions, and the amplitude [rad or m].

    Modes that do not oscillate are shown oscillating once in `SHOWN_PERIOD`.
    """
    mode = modes[place]
    period = mode.period if np.isfinite(mode.period) else SHOWN_PERIOD
    phase = np.linspace(0.0, 2.0 * np.pi, FRAMES_PER_SWING)
    if amplitude is None:
        amplitude = _visible(modes, place)
    return period * phase / (2.0 * np.pi), modes.position(place, amplitude, phase), amplitude


def _visible(modes: Modes, place: int) -> float:
    """Return an amplitude at which the motion is visible and joint displacements stay small."""
    from tiburon.functions.kinematics import forward_kinematics
    from tiburon.viewer.scene import robot_size

    model = modes.model
    step = 1e-4
    phases = np.array([0.0, 0.5 * np.pi])
    rows = np.concatenate([modes.q[None], modes.position(place, step, phases)])
    _, p = forward_kinematics(model, rows, model.body_names)
    moved = float(np.linalg.norm(p[1:] - p[0], axis=-1).max(initial=0.0)) / step
    wanted = SHOWN_FRACTION * robot_size(model)
    found = LARGEST_ANGLE if moved * LARGEST_ANGLE <= wanted else wanted / moved
    return _within_loops(modes, place, found) if model.loops else found


def _within_loops(modes: Modes, place: int, amplitude: float) -> float:
    """Return an amplitude, halved until loops can be closed over the whole period."""
    phase = np.linspace(0.0, 2.0 * np.pi, FRAMES_PER_SWING)
    for _ in range(MAX_HALVINGS):
        try:
            modes.position(place, amplitude, phase)
        except DomainError:
            amplitude *= 0.5
        else:
            break
    return amplitude


def _chosen(modes: Modes, place: int | None) -> int:
    """Return the place of a mode in the table: the given one, or the slowest oscillation."""
    if not len(modes):
        raise DomainError("mode", "a robot that moves", f"{modes.model.name!r}, which cannot")
    if place is None:
        swinging = [k for k, mode in enumerate(modes.members) if mode.eigenvalue.imag]
        return swinging[0] if swinging else 0
    if not -len(modes) <= place < len(modes):
        raise DomainError(
            "mode", f"0 to {len(modes) - 1}", str(place), advice="print(modes) shows the table"
        )
    return place % len(modes)


def _title(modes: Modes, place: int, mode: Mode) -> str:
    how = f"{mode.frequency:.4g} Hz" if mode.eigenvalue.imag else mode.kind
    return f"{modes.model.name}: mode {place}, {how}"


def film_of_mode(
    modes: Modes, mode: int | None, amplitude: float | None = None
) -> tuple[Array, Array, dict[str, Any]]:
    """Return times, configurations, and display options."""
    from tiburon.viewer.motion import Track

    place = _chosen(modes, mode)
    time, q, _ = swing(modes, place, amplitude)
    shown = {
        "title": _title(modes, place, modes[place]),
        "speed": float(time[-1]) / SHOWN_PERIOD,
        "others": (Track(modes.model, None, modes.q, color=EQUILIBRIUM_COLOR),),
        "fps": 2.0 * FRAMES_PER_SWING / float(time[-1]),
    }
    return time, q, shown


def save_mode(
    modes: Modes,
    path: str | os.PathLike[str],
    mode: int | None,
    amplitude: float | None,
    options: dict[str, Any],
) -> Path:
    """Write the page of a mode; see `Modes.save_html`."""
    from tiburon.viewer.replay import replay_html

    time, q, shown = film_of_mode(modes, mode, amplitude)
    file = Path(path)
    write_file(file, replay_html(modes.model, time, q, **(shown | options)), RunFileError)
    return file


def view_mode(
    modes: Modes, mode: int | None, amplitude: float | None, options: dict[str, Any]
) -> Any:
    """Show a mode in the browser; see `Modes.view`."""
    from tiburon.results.report import wait_if_script
    from tiburon.viewer.live import has_viser

    live = options.pop("live", has_viser())
    browser, wait = options.pop("browser", True), options.pop("wait", None)
    if not live:
        folder = Path(tempfile.mkdtemp(prefix="tiburon-"))
        path = save_mode(modes, folder / "mode.html", mode, amplitude, options)
        if browser:
            webbrowser.open(path.as_uri())
        return path
    from tiburon.viewer.live_replay import LiveReplay

    time, q, shown = film_of_mode(modes, mode, amplitude)
    replay = LiveReplay(modes.model, time, q, **(shown | options))
    if browser:
        webbrowser.open(replay.url)
    return wait_if_script(replay, wait)
