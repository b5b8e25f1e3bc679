"""A run as a page that replays it: what of a run the viewer is given."""

import html
import sys
import tempfile
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tiburon.errors import RunFileError
from tiburon.hydro.thrust import thrust_of
from tiburon.model import World
from tiburon.viewer.replay import replay_html
from tiburon.viewer.replay_plots import default_plots
from tiburon.written_file import write_file

if TYPE_CHECKING:
    from tiburon.results.trajectory import Trajectory
    from tiburon.viewer.live_replay import LiveReplay

__all__ = ["notebook_frame", "open_replay", "replay_of", "save_replay", "view_run"]

Array = NDArray[np.float64]

NOTEBOOK_FRAMES = 900
NOTEBOOK_CASES = 6
"""Of a run shown in a notebook, which stores the page with every output."""


def replay_of(run: "Trajectory", **options: Any) -> str:
    """Return the page of a run as text; options as in `tiburon.viewer.replay_html`.

    Thrusters show their thrust; the strip below has positions, speeds, thrust and energy.
    """
    given = _shown(run)
    if "plots" not in options:
        given["plots"] = _plots(run, given.get("thrust"))
    return replay_html(run.model, run.time, run.q, v=run.v, **(given | options))


def _shown(run: "Trajectory") -> dict[str, Any]:
    """Return what pages and the live scene are both given beside the motion."""
    if not len(run):
        raise RunFileError(
            "run" if run.store is None else run.store.path,
            "holds no recorded times to replay; let it run before it is shown",
        )
    given: dict[str, Any] = {"world": run.header.world or World()}
    thrust = _thrust(run)
    if thrust is not None:
        given["thrust"] = thrust
    return given


def save_replay(run: "Trajectory", path: Path, **options: Any) -> Path:
    """Write the page of a run, and return its path.

    Raises:
        RunFileError: If it cannot be written.
    """
    page = replay_of(run, **options)
    write_file(path, page, RunFileError)
    return path


def open_replay(run: "Trajectory", *, browser: bool = True, **options: Any) -> Path:
    """Write the page of a run to a temporary file, open it in the browser, and return its path."""
    # the browser reads it when it likes: it stays until the system clears its temporary files
    folder = Path(tempfile.mkdtemp(prefix="tiburon-"))
    path = save_replay(run, folder / "replay.html", **options)
    if browser:
        webbrowser.open(path.as_uri())
    return path


def view_run(
    run: "Trajectory",
    *,
    live: bool | None = None,
    browser: bool = True,
    wait: bool | None = None,
    **options: Any,
) -> "LiveReplay | Path":
    """Show a run in the live scene, or as a page where viser is missing.

    Args:
        run: The run.
        live: Whether in the live scene; where viser is installed by default.
        browser: Whether to open a browser.
        wait: Whether to stay until Ctrl-C, as scripts must: the scene ends with the process. By
            default unless Python is interactive.
        **options: As in `tiburon.viewer.LiveReplay`, or as in `tiburon.viewer.replay_html`.

    Returns:
        The live replay, or the path of the page.
    """
    from tiburon.viewer.live import has_viser

    if live is None:
        live = has_viser()
    if not live:
        return open_replay(run, browser=browser, **options)
    from tiburon.viewer.live_replay import LiveReplay

    replay = LiveReplay(run.model, run.time, run.q, **(_shown(run) | options))
    if browser:
        webbrowser.open(replay.url)
    return stay_if_asked(replay, wait)


def stay_if_asked(replay: "LiveReplay", wait: bool | None) -> "LiveReplay":
    """Stay with a live replay until Ctrl-C, if asked or if the process would end otherwise."""
    if wait if wait is not None else not _interactive():
        replay.wait()
    return replay


def _interactive() -> bool:
    """Return whether Python goes on after the last line: at a prompt, or in a notebook."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive) or "ipykernel" in sys.modules


def notebook_frame(run: "Trajectory") -> str:
    """Return the page inside a frame, for notebooks; nothing for a run without rows."""
    if not len(run) or not np.isfinite(run.q).all(axis=-1).any():
        return ""
    page = replay_of(run, max_frames=NOTEBOOK_FRAMES, cases=NOTEBOOK_CASES)
    return (
        "<iframe style='width:100%;height:520px;border:0;border-radius:8px' "
        f"sandbox='allow-scripts' title='replay' srcdoc='{html.escape(page)}'></iframe>"
    )


def _thrust(run: "Trajectory") -> Array | None:
    """Return the thrust of the model's thrusters [N]: a recorded state, or that of the command."""
    thrusters = run.model.thrusters
    states, commands = _labels(run, "x"), _labels(run, "u")
    columns = []
    for thruster in thrusters:
        state = f"{thruster.name}.thrust"
        if state in states:
            columns.append(run.x[..., states.index(state)])
        elif thruster.name in commands:
            command = run.u[..., commands.index(thruster.name)]
            columns.append(np.asarray(thrust_of(thruster, command), dtype=np.float64))
        else:
            return None
    return np.stack(columns, axis=-1) if columns else None


def _labels(run: "Trajectory", key: str) -> list[str]:
    column = run.header.column(key)
    return [] if column is None or column.labels is None else list(column.labels)


def _plots(run: "Trajectory", thrust: Array | None) -> Mapping[str, Any]:
    """Return curves of the first case: what any robot has, thrust, and energy where it is known."""
    count = len(run)
    model = run.model

    def first(values: Array, width: int) -> Array:
        return values.reshape(count, -1, width)[:, 0] if width else np.empty((count, 0))

    found: dict[str, Any] = dict(
        default_plots(model, first(run.q, model.nq), first(run.v, model.nv))
    )
    if thrust is not None:
        rows = first(thrust, len(model.thrusters))
        found["thrust [N]"] = {t.name: rows[:, k] for k, t in enumerate(model.thrusters)}
    if run.header.world is not None and not run.batch:
        kinetic = np.asarray(run.get("kinetic_energy").values)
        potential = np.asarray(run.get("potential_energy").values)
        found["energy [J]"] = {
            "kinetic": kinetic,
            "potential, from the start": potential - potential[0],
        }
    return found
