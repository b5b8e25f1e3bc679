"""What a run leaves behind: its motion with names and units, to ask, plot, save and go on with."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tiburon.arguments import public
from tiburon.errors import RunFileError, UnknownNameError
from tiburon.model import Model, World
from tiburon.results.outcome import WELL, Outcomes, statuses_of
from tiburon.results.run_header import Checkpoint, RunHeader
from tiburon.results.run_rows import Rows

if TYPE_CHECKING:
    import os

    import pandas
    import xarray
    from matplotlib.figure import Figure

    from tiburon.results.store import RunStore
    from tiburon.simulation.system import System
    from tiburon.viewer.live_replay import LiveReplay

__all__ = ["Trajectory", "load_run"]

Array = NDArray[np.float64]


class Trajectory:
    """A run: times, states, commands and what else was recorded; time is the first dimension.

    The arrays go straight into other functions: ``tb.kinetic_energy(model, run.q, run.v)`` has one
    number for each recorded time, and case. `data` has the same with names and units. Rows of a
    case after its end are NaN; `outcomes` says why it ended.

    Attributes:
        header: What was known of the run before it started.
        rows: The recorded rows, in memory or on disk.
        outcomes: How each case ended; one entry for one robot.
        events: What happened on the way, in order of time.
        checkpoint: All it takes to go on; None for parts of runs.
        store: The run on disk, where it has one.
    """

    @public
    def __init__(
        self,
        header: RunHeader,
        rows: Rows,
        outcomes: Sequence[Any] = (),
        events: Sequence[Any] = (),
        checkpoint: Checkpoint | None = None,
        store: "RunStore | None" = None,
    ) -> None:
        self.header = header
        self.rows = rows
        self.outcomes = outcomes if isinstance(outcomes, Outcomes) else tuple(outcomes)
        self.events = tuple(events)
        self.checkpoint = checkpoint
        self.store = store
        self._read: dict[str, Array] = {}
        self._data: xarray.Dataset | None = None
        self._system: System | None = None

    # -- arrays ------------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The robot."""
        return self.header.model

    @property
    def world(self) -> World:
        """What surrounds it."""
        world = self.header.world
        if world is None:
            raise RunFileError(
                "run" if self.store is None else self.store.path,
                "its world holds code (a current given as a function), which no file can; pass "
                "world= to load_run",
            )
        return world

    @property
    def system(self) -> "System | None":
        """What moved, commanded from outside: the controller's commands are recorded as `u`.

        None where elements are code that the file of a loaded run could not hold.
        """
        there = not any(isinstance(element, str) for element in self.header.elements)
        if self._system is None and there:
            from tiburon.simulation.run_parameters import with_named
            from tiburon.simulation.system import System

            named = tuple(self.header.setup.get("named") or ())
            model, world = with_named(self.model, self.world, named)
            tolerance = self.header.setup.get("redundancy_tolerance", 0.0)
            self._system = System(
                model, world, self.header.elements, redundancy_tolerance=tolerance
            )
        return self._system

    @property
    def batch(self) -> tuple[int, ...]:
        """Shape of the cases; () for one robot."""
        return self.header.batch

    @property
    def time(self) -> Array:
        """Recorded times [s], shape (n,)."""
        return self.array("time")

    @property
    def q(self) -> Array:
        """Positions [m or rad], shape (n, ..., nq)."""
        return self.array("q")

    @property
    def v(self) -> Array:
        """Joint velocities [m/s or rad/s], shape (n, ..., nv)."""
        return self.array("v")

    @property
    def x(self) -> Array:
        """Inner states of elements and controller, shape (n, ..., nx)."""
        return self.array("x")

    @property
    def u(self) -> Array:
        """Commands, shape (n, ..., commands)."""
        return self.array("u")

    def array(self, key: str) -> Array:
        """Return a recorded column by its key or name, read as a whole: shape (n, ..., width)."""
        found = self._read.get(key)
        if found is None:
            column = self.header.column(key)
            if key == "time" or column is not None:
                name = "time" if column is None else column.key
                found = self.rows.read(name, 0, len(self))
            elif key in ("x", "u"):
                found = np.empty((len(self), *self.batch, 0))
            else:
                known = ["time", *(c.name for c in self.header.columns)]
                raise UnknownNameError("recorded quantity", key, known, listing="run.names")
            self._read[key] = found
        return found

    def __len__(self) -> int:
        """Return the number of recorded times."""
        return self.rows.count

    @property
    def span(self) -> tuple[float, float]:
        """First and last recorded time [s].

        Raises:
            RunFileError: If nothing is recorded, as of a run killed before its first rows.
        """
        count = len(self)
        if not count:
            raise RunFileError(
                "run" if self.store is None else self.store.path,
                "has no recorded times; resume() it, or start it again",
            )
        first, last = self.rows.read("time", 0, 1), self.rows.read("time", count - 1, count)
        return float(first[0]), float(last[0])

    # -- how it ended ------------------------------------------------------------------------------

    @property
    def outcome(self) -> Any:
        """How the run of one robot ended; of a batch, the first case that did not go well.

        Of a loaded run whose process was killed, the status is "killed", with the last state that
        is safe on disk; of one that a process still records, "running". None for a part of a run
        without outcomes.
        """
        if not self.outcomes:
            return None
        words = statuses_of(self.outcomes)
        return self.outcomes[next((k for k, word in enumerate(words) if word not in WELL), 0)]

    @property
    def status(self) -> Any:
        """Status of the outcome: a text for one robot, an array of texts with the batch's shape."""
        words = statuses_of(self.outcomes) or ["unknown"]
        if not self.batch:
            return words[0]
        size = int(np.prod(self.batch))
        return np.array(words if len(words) == size else words[:1] * size).reshape(self.batch)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all that can be asked by `get`.

        What was recorded, what follows from it, and what elements report.
        """
        from tiburon.results.quantities import QUANTITIES

        recorded = tuple(column.name for column in self.header.columns)
        reported = () if self.system is None else self.system.output_names
        return (*recorded, *(n for n in (*QUANTITIES, *reported) if n not in recorded))

    # -- named results -----------------------------------------------------------------------------

    @property
    def data(self) -> "xarray.Dataset":
        """All that was recorded as an `xarray.Dataset`: named dimensions, coordinates, units.

        Quantities named in the keyword `record` of the run are part of it. Of a run on disk, values
        are read when they are used.
        """
        if self._data is None:
            from tiburon.results.dataset import dataset_of

            self._data = dataset_of(self)
        return self._data

    def get(self, name: str) -> "xarray.DataArray":
        """Return a quantity by name: recorded, or computed from recorded states.

        Args:
            name: Such as "joint_position", "kinetic_energy", "body_position"; `names` lists all.

        Raises:
            UnknownNameError: If there is no such quantity.
        """
        from tiburon.results.dataset import variable_of

        return variable_of(self, name)

    def energy(self) -> "xarray.Dataset":
        """Return kinetic, potential and total energy [J]; in water, that of the water counts."""
        import xarray

        from tiburon.results.quantities import ENERGIES

        return xarray.Dataset({name: self.get(name) for name in ENERGIES})

    def part(
        self, start: float | None = None, stop: float | None = None, *, case: Any = None
    ) -> "Trajectory":
        """Return a part of the run, in memory.

        Args:
            start: First time [s]; None for the start of the run.
            stop: Last time [s]; None for its end.
            case: Index of one case, a slice, or a list of indices along the first dimension of the
                batch; None for all.
        """
        from tiburon.results.run_part import part_of

        return part_of(self, start, stop, case)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a table with a column for each number, named "joint_position.elbow" and so on.

        Its index is the time [s]; of a batch, time and case.
        """
        from tiburon.results.table import table_of

        return table_of(self)

    def to_csv(self, path: "str | os.PathLike[str]") -> None:
        """Write the table of `to_pandas` as text; numbers in full, units in the second line."""
        from tiburon.results.table import write_csv

        write_csv(self, Path(path))

    # -- files -------------------------------------------------------------------------------------

    def save(self, path: "str | os.PathLike[str]", *, overwrite: bool = False) -> None:
        """Save the run, robot and world included.

        Args:
            path: A directory to be, by custom ending in ".zarr"; or a file ending in ".zip".
            overwrite: Whether a run that is there already may go.

        Raises:
            RunFileError: If something is there already, or it cannot be written.
        """
        from tiburon.results.saving import save_run

        save_run(self, Path(path), overwrite=overwrite)

    def resume(self, duration: float | None = None, **changes: Any) -> "Trajectory":
        """Go on with the run; the bits are those of a run without a break.

        Args:
            duration: How much longer [s], from where the run ended; None to reach the end that was
                planned, which a killed or interrupted run did not.
            **changes: Keywords of `simulate` that a file cannot hold and that must be given again,
                such as ``control=`` where it is a function, and ``forces=`` with the elements that
                are; beside them `progress` and `budget`.

        Returns:
            The whole run, from its start. A run on disk goes on there.

        Raises:
            RunFileError: If something is missing, or the run has no checkpoint.
        """
        from tiburon.simulation.simulate import resume_run

        given = {element.name: element for element in changes.pop("forces", ())}
        elements = tuple(
            given.get(element, element) if isinstance(element, str) else element
            for element in self.header.elements
        )
        missing = {name: name for name in self.header.missing if name not in changes}
        lost = [repr(element) for element in elements if isinstance(element, str)]
        if lost:
            missing[f"element {' and '.join(lost)}"] = "forces"
        place = "run" if self.store is None else self.store.path
        if missing:
            raise RunFileError(
                place,
                f"its {' and '.join(missing)}: code, which no file can hold; give it again: "
                f"run.resume({', '.join(f'{name}=...' for name in missing.values())})",
            )
        if self.checkpoint is None:
            raise RunFileError(
                place, "has no checkpoint to go on from; resume the whole run, not a part of it"
            )
        found: Trajectory = resume_run(self, duration, elements=elements, **changes)
        return found

    # -- pictures ----------------------------------------------------------------------------------

    def plot(
        self,
        *names: str,
        labels: str | Iterable[str] | None = None,
        case: int | None = None,
        path: "str | os.PathLike[str] | None" = None,
    ) -> "Figure":
        """Draw quantities over time.

        Args:
            names: Which, one below the other; joint positions and velocities by default.
            labels: Parts of the names of coordinates to show, such as "elbow"; all by default.
            case: Show one case of a batch; by default all of them, as bands around the median.
            path: Where to save the picture as well; the ending tells the kind (.png, .svg, .pdf).

        Example:
            ``run.plot("joint_position", "total_energy", labels="arm", path="run.png")``
        """
        from tiburon.viewer.plots import plot_dataset, save_figure

        chosen = names or ("joint_position", "joint_velocity")
        shown = self if case is None else self.part(case=case)
        figure = plot_dataset(
            {name: shown.get(name) for name in chosen}, labels=labels, title=self.model.name
        )
        if path is not None:
            save_figure(figure, Path(path))
        return figure

    def report(self, path: "str | os.PathLike[str]") -> Path:
        """Write one page about the run (HTML, figures inside), and return its path."""
        from tiburon.results.summary import write_run_report

        return write_run_report(self, Path(path))

    def save_html(self, path: "str | os.PathLike[str]", **options: Any) -> Path:
        """Write the run as one HTML file that replays it in any browser, without network.

        Args:
            path: Where to write; an existing file is replaced.
            **options: As in `tiburon.viewer.replay_html`, such as ``forces=``, ``camera="follow"``,
                ``show=("trails", "frames")``.

        Returns:
            The path.

        Example:
            ``run.save_html("dive.html")``
        """
        from tiburon.results.replay import save_replay

        return save_replay(self, Path(path), **options)

    def view(self, *, live: bool | None = None, **options: Any) -> "LiveReplay | Path":
        """Replay the run in the browser.

        Where viser is installed, in the live scene, which ends with this process: scripts stay
        here until Ctrl-C. Else as the page of `save_html`.

        Args:
            live: Whether in the live scene; None for what is there.
            **options: ``wait=False`` to go on at once, ``browser=False`` to open none; else those
                of `tiburon.viewer.LiveReplay`, or of `tiburon.viewer.replay_html`.

        Returns:
            The live replay (its `url` is where it is), or the path of the page.
        """
        from tiburon.results.replay import view_run

        return view_run(self, live=live, **options)

    def __repr__(self) -> str:
        cases = f" of {' x '.join(map(str, self.batch))} cases" if self.batch else ""
        if not len(self):
            return f"<Trajectory of {self.model.name!r}: nothing recorded{cases}>"
        first, last = self.span
        how = self.status if not self.batch else _counted(self.status)
        return (
            f"<Trajectory of {self.model.name!r}: {len(self)} times{cases} from {first:.6g} to "
            f"{last:.6g} s, {how}>"
        )

    def _repr_html_(self) -> str:
        from tiburon.results.replay import notebook_frame
        from tiburon.results.summary import run_as_html

        return run_as_html(self) + notebook_frame(self)


def _counted(words: Any) -> str:
    """Say how many cases ended how."""
    kinds, counts = np.unique(words, return_counts=True)
    return ", ".join(f"{count} {kind}" for kind, count in zip(kinds, counts, strict=True))


@public
def load_run(
    path: "str | os.PathLike[str]", *, model: Model | None = None, world: World | None = None
) -> Trajectory:
    """Load a run that was saved, or streamed to disk, whether it ended or was killed.

    Values stay on disk until they are used.

    Args:
        path: The directory, or the zip file.
        model: The robot, where parts of it are code that no file can hold.
        world: The surroundings, likewise.

    Raises:
        RunFileError: If it cannot be read: not there, damaged, or of a later version.

    Example:
        ``run = tb.load_run("swim.zarr")``, ``run.resume(10.0)``
    """
    from tiburon.results.store import RunStore

    store = RunStore.open(path, model, world)
    outcomes, events = store.ended()
    return Trajectory(store.header, store, outcomes, events, store.progress.checkpoint, store)
