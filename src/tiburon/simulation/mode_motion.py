"""Modes as motion that can be looked at: one swing, at a speed that eyes can follow."""

import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tiburon.errors import DomainError, RunFileError
from tiburon.viewer.replay import replay_html
from tiburon.viewer.replay_motion import Track
from tiburon.viewer.scene_stand_in import robot_size
from tiburon.written_file import write_file

if TYPE_CHECKING:
    import os

    from tiburon.model import Model
    from tiburon.simulation.mode import Mode, Modes

__all__ = ["along_loops", "film_of_mode", "save_mode", "swing", "view_mode"]

Array = NDArray[np.float64]

FRAMES = 61
"""Of one swing, both ends included."""

SHOWN_PERIOD = 2.0
"""How long a swing takes on the screen [s], however fast or slow it is."""

SEEN = 0.2
"""How far the body that moves most goes by default, by the size of the robot."""

LARGEST_ANGLE = 0.5
"""Largest amplitude by default [rad or m]: shapes are those of small motions."""

HALVINGS = 10
"""How often an amplitude is halved before loops are said to allow none."""

STRIDE = 0.05
"""Longest step of a joint before loops are closed again [rad or m]."""

FAR = 4.0
"""How much longer than the step to be made a step with closed loops may be."""

CLOSED = 1e-12
"""Gap at which a loop counts as closed [m or rad]."""

REST: tuple[float, float, float, float] = (0.62, 0.66, 0.70, 0.25)
"""Color of the equilibrium beside the mode."""


def along_loops(model: "Model", q: Array, steps: Array, time: float) -> Array:
    """Go along steps with loops closed, a little at a time so that none jumps to another branch.

    Args:
        model: The robot; it has loops.
        q: Where to start, with closed loops [m or rad], shape (..., nq).
        steps: Where to go, to first order [m or rad], shape (..., nv).
        time: When [s].

    Raises:
        DomainError: If loops cannot be closed so far away.
    """
    from tiburon.loops.dynamics import project_configuration

    longest = float(np.abs(steps).max(initial=0.0))
    parts = max(1, int(np.ceil(longest / STRIDE)))
    when = np.full(q.shape[:-1], time) if model.plan.depends_on_time else None
    for part in range(1, parts + 1):
        found = project_configuration(model, model.integrate(q, steps / parts), time=when)
        # a projection that leaps has met the end of what loops allow
        gone = np.abs(model.difference(q, found.q)).max(initial=0.0)
        if np.max(found.gap, initial=0.0) > CLOSED or gone > FAR * longest / parts:
            raise DomainError(
                "amplitude",
                "one that loops allow",
                f"loops that open after {part - 1} / {parts} of it",
                advice="take a smaller one",
            )
        q = found.q
    return q


def swing(modes: "Modes", place: int, amplitude: float | None = None) -> tuple[Array, Array, float]:
    """Return one swing of a mode: times [s], positions, and the amplitude that was taken.

    Modes that do not oscillate are shown going to and fro all the same, once in `SHOWN_PERIOD`.

    Args:
        modes: The modes of a robot.
        place: Of the mode in their table.
        amplitude: Deflection of the variable that moves most [rad or m].
    """
    mode = modes[place]
    period = mode.period if np.isfinite(mode.period) else SHOWN_PERIOD
    phase = np.linspace(0.0, 2.0 * np.pi, FRAMES)
    if amplitude is None:
        amplitude = _visible(modes, place)
    return period * phase / (2.0 * np.pi), modes.position(place, amplitude, phase), amplitude


def _visible(modes: "Modes", place: int) -> float:
    """Return an amplitude at which the motion is seen and no joint turns far."""
    from tiburon.algorithms.kinematics import forward_kinematics

    model = modes.model
    step = 1e-4
    phases = np.array([0.0, 0.5 * np.pi])
    rows = np.concatenate([modes.q[None], modes.position(place, step, phases)])
    _, p = forward_kinematics(model, rows, model.body_names)
    moved = float(np.linalg.norm(p[1:] - p[0], axis=-1).max(initial=0.0)) / step
    wanted = SEEN * robot_size(model)
    found = LARGEST_ANGLE if moved * LARGEST_ANGLE <= wanted else wanted / moved
    return _within_loops(modes, place, found) if model.loops else found


def _within_loops(modes: "Modes", place: int, amplitude: float) -> float:
    """Return an amplitude, halved until loops allow it all around."""
    phase = np.linspace(0.0, 2.0 * np.pi, FRAMES)
    for _ in range(HALVINGS):
        try:
            modes.position(place, amplitude, phase)
        except DomainError:
            amplitude *= 0.5
        else:
            break
    return amplitude


def _chosen(modes: "Modes", place: int | None) -> int:
    """Return the place of a mode in the table: that asked for, or the slowest oscillation."""
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


def _title(modes: "Modes", place: int, mode: "Mode") -> str:
    how = f"{mode.frequency:.4g} Hz" if mode.eigenvalue.imag else mode.kind
    return f"{modes.model.name}: mode {place}, {how}"


def film_of_mode(
    modes: "Modes", mode: int | None, amplitude: float | None = None
) -> tuple[Array, Array, dict[str, Any]]:
    """Return times, positions, and how they are shown."""
    place = _chosen(modes, mode)
    time, q, _ = swing(modes, place, amplitude)
    shown = {
        "title": _title(modes, place, modes[place]),
        "speed": float(time[-1]) / SHOWN_PERIOD,
        "others": (Track(modes.model, None, modes.q, color=REST),),
        "fps": 2.0 * FRAMES / float(time[-1]),
    }
    return time, q, shown


def save_mode(
    modes: "Modes",
    path: "str | os.PathLike[str]",
    mode: int | None,
    amplitude: float | None,
    options: dict[str, Any],
) -> Path:
    """Write the page of a mode; see `Modes.save_html`."""
    time, q, shown = film_of_mode(modes, mode, amplitude)
    file = Path(path)
    write_file(file, replay_html(modes.model, time, q, **(shown | options)), RunFileError)
    return file


def view_mode(
    modes: "Modes", mode: int | None, amplitude: float | None, options: dict[str, Any]
) -> Any:
    """Show a mode in the browser; see `Modes.view`."""
    from tiburon.results.replay import stay_if_asked
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
    return stay_if_asked(replay, wait)
