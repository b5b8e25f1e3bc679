"""What small motions about an equilibrium are made of: frequencies, damping and shapes.

Near an equilibrium a robot moves as a sum of modes, each with its own frequency and damping: an
eigenvalue lambda of the linearized motion, with natural frequency |lambda| and damping ratio
-Re(lambda) / |lambda| (Meirovitch 2001, "Fundamentals of vibrations", chapter 7). Water and forces
that depend on velocity make shapes complex: joints then pass their largest deflections one after
the other.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.model import Model
from tiburon.record import record

if TYPE_CHECKING:
    import os

__all__ = ["Mode", "Modes"]

Array = NDArray[np.float64]

STEADY = 1e-9
"""Real parts up to this fraction of an eigenvalue neither grow nor decay: rounding."""


@record(eq=False)
class Mode:
    """One way to move about an equilibrium."""

    eigenvalue: complex
    """Of the linearized motion [1/s]; the one with a positive imaginary part of a pair."""

    shape: NDArray[np.complex128]
    """Steps of position, the largest being 1 [rad or m], shape (nv,). Real parts alone where all
    joints pass through zero together; phases tell who leads."""

    states: NDArray[np.complex128]
    """Inner states of springs, motors and thrusters that go with it, shape (nx,)."""

    @property
    def kind(self) -> str:
        """What it does: "free", "oscillation", "decay", "growth" or "growing oscillation"."""
        if self.eigenvalue == 0.0:
            return "free"
        grows = self.eigenvalue.real > STEADY * abs(self.eigenvalue)
        if self.eigenvalue.imag != 0.0:
            return "growing oscillation" if grows else "oscillation"
        return "growth" if grows else "decay"

    @property
    def natural_frequency(self) -> float:
        """|lambda| [rad/s]: the frequency without damping, where damping is in proportion."""
        return abs(self.eigenvalue)

    @property
    def damping_ratio(self) -> float:
        """-Re(lambda) / |lambda|: 1 and more for what does not oscillate; NaN if free."""
        size = abs(self.eigenvalue)
        return -self.eigenvalue.real / size if size else float("nan")

    @property
    def period(self) -> float:
        """Time of one oscillation, damped as it is [s]; infinite without one."""
        return 2.0 * np.pi / self.eigenvalue.imag if self.eigenvalue.imag else float("inf")

    @property
    def frequency(self) -> float:
        """Oscillations per second, damped as they are [Hz]."""
        return self.eigenvalue.imag / (2.0 * np.pi)

    @property
    def time_constant(self) -> float:
        """Time in which it decays to 1/e [s]; negative if it grows, infinite if it does neither."""
        real = self.eigenvalue.real
        return -1.0 / real if abs(real) > STEADY * abs(self.eigenvalue) else float("inf")

    def __repr__(self) -> str:
        return f"<Mode: {_described(self)}>"


@record(eq=False)
class Modes:
    """An equilibrium and the modes about it; a sequence of `Mode`, free ones first."""

    model: Model
    """The robot."""

    q: Array
    """Position of the equilibrium [m or rad], shape (nq,)."""

    v: Array
    """Velocity that is kept [m/s or rad/s], shape (nv,): zero unless told otherwise."""

    x: Array
    """Inner states at the equilibrium, shape (nx,)."""

    residual: Array
    """Acceleration that is left there [m/s^2 or rad/s^2], shape (nv,)."""

    A: Array
    """The linearized motion of [dq, v, x], shape (2 nv + nx, 2 nv + nx); with loops as that of
    `linearize`."""

    members: tuple[Mode, ...]
    """Free modes, then the others, slowest first."""

    zeros: int
    """How often zero is an eigenvalue of A, on the loops: twice for a direction in which a body
    drifts on."""

    time: float = 0.0
    """When [s], where joints or water move by themselves."""

    def __len__(self) -> int:
        """Return the number of modes."""
        return len(self.members)

    def __getitem__(self, place: int) -> Mode:
        """Return a mode by its place in the table."""
        return self.members[place]

    @property
    def free(self) -> tuple[Mode, ...]:
        """Directions in which nothing drives the robot back."""
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
        """Return where a mode takes the robot, for pictures.

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
        from tiburon.simulation.mode_motion import along_loops

        return along_loops(self.model, start, steps, self.time)

    def save_html(
        self,
        path: "str | os.PathLike[str]",
        mode: int | None = None,
        *,
        amplitude: float | None = None,
        **options: Any,
    ) -> Path:
        """Write a page on which a mode swings, the equilibrium as a ghost.

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
        from tiburon.simulation.mode_motion import save_mode

        return save_mode(self, path, mode, amplitude, options)

    def view(
        self, mode: int | None = None, *, amplitude: float | None = None, **options: Any
    ) -> Any:
        """Show how a mode swings in the browser; arguments as in `save_html`.

        Where viser is installed, in the live scene; scripts then stay here until Ctrl-C, unless
        ``wait=False``. Else as a page. Returns the live replay, or the path of the page.
        """
        from tiburon.simulation.mode_motion import view_mode

        return view_mode(self, mode, amplitude, options)

    def table(self, joints: int = 3) -> str:
        """Return a table of all modes as text.

        Args:
            joints: How many variables to tell of each shape, the largest first.
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

    def __str__(self) -> str:
        return self.table()


def _described(mode: Mode) -> str:
    if mode.kind == "free":
        return "free"
    size = f"{mode.natural_frequency:.5g} rad/s" if mode.eigenvalue.imag else ""
    ratio = f"damping {mode.damping_ratio:.4f}" if mode.eigenvalue.imag else ""
    parts = [mode.kind, size, ratio or f"1/e in {mode.time_constant:.4g} s"]
    return ", ".join(part for part in parts if part)
