"""Trajectories: recorded motion with names and units, to query, plot, save and resume."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tiburon.argument_checks import is_number
from tiburon.arguments import public
from tiburon.arrays import Array
from tiburon.errors import DomainError, RunFileError, UnknownNameError, shown
from tiburon.model import Model, World
from tiburon.results.checkpoint import Checkpoint
from tiburon.results.header import RunHeader, missing_world
from tiburon.results.outcome import SUCCESSFUL, Outcomes, notes_of, statuses_of
from tiburon.results.rows import MemoryRows, Rows

if TYPE_CHECKING:
    import os

    import pandas
    import xarray
    from matplotlib.figure import Figure

    from tiburon.results.contact_summary import ContactSummary
    from tiburon.results.quantities import RunSystem
    from tiburon.results.store import RunStore
    from tiburon.viewer.live_replay import LiveReplay


@public
class Trajectory:
    """A run: times, states, commands and other recorded quantities; time is the first dimension.

    The arrays go straight into other functions: ``tb.kinetic_energy(model, run.q, run.v)`` returns
    one value per recorded time and case. `data` holds the same arrays with names and units. Rows of
    a case after its end are NaN; `outcomes` holds the reason.

    Attributes:
        header: Metadata of the run, known before it starts.
        rows: The recorded rows, in memory or on disk.
        outcomes: How each case ended; one entry for one robot.
        events: Events that occurred, in order of time.
        checkpoint: State from which the run can be resumed; None for parts of runs.
        store: The run on disk, if it has one.
        system: The simulated system, which computes forces and accelerations and resumes the run.
        messages: What processes that compute parts of the robot sent each other, one entry per part
            and kind of message; empty for other runs and for loaded ones.
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
        system: "RunSystem | None" = None,
    ) -> None:
        self.header = header
        self.rows = rows
        self.outcomes = outcomes if isinstance(outcomes, Outcomes) else tuple(outcomes)
        self.events = tuple(events)
        self.checkpoint = checkpoint
        self.store = store
        self.system = system
        self.messages: tuple[Any, ...] = ()
        self._read: dict[str, Array] = {}
        self._data: xarray.Dataset | None = None

    # -- arrays ------------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The robot."""
        return self.header.model

    @property
    def world(self) -> World:
        """The surroundings of the robot."""
        if self.header.world is None:
            raise missing_world(self.place)
        return self.header.world

    @property
    def place(self) -> "str | Path":
        """Path of the store, or "run" for a run in memory; error messages start with it."""
        return "run" if self.store is None else self.store.path

    @property
    def batch(self) -> tuple[int, ...]:
        """Shape of the batch; () for one robot."""
        return self.header.batch

    @property
    def time(self) -> Array:
        """Recorded times [s], shape (n,)."""
        return self.array("time")

    @property
    def q(self) -> Array:
        """Configurations [m or rad], shape (n, ..., nq)."""
        return self.array("q")

    @property
    def v(self) -> Array:
        """Joint velocities [m/s or rad/s], shape (n, ..., nv)."""
        return self.array("v")

    @property
    def x(self) -> Array:
        """Internal states of elements and controller, shape (n, ..., nx)."""
        return self.array("x")

    @property
    def u(self) -> Array:
        """Commands, shape (n, ..., commands)."""
        return self.array("u")

    @property
    def z(self) -> Array:
        """Discrete states of elements, shape (n, ..., nz)."""
        return self.array("z")

    def array(self, key: str) -> Array:
        """Return all rows of a recorded column by its key or name, shape (n, ..., width)."""
        found = self._read.get(key)
        if found is None:
            column = self.header.column(key)
            if key == "time" or column is not None:
                name = "time" if column is None else column.key
                found = self.rows.read(name, 0, len(self))
            elif key in ("x", "u", "z"):
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
            RunFileError: If no rows are recorded, as in a run killed before its first ones.
        """
        count = len(self)
        if not count:
            raise RunFileError(self.place, "has no recorded times; resume() it, or start it again")
        first, last = self.rows.read("time", 0, 1), self.rows.read("time", count - 1, count)
        return float(first[0]), float(last[0])

    # -- outcome -----------------------------------------------------------------------------------

    @property
    def outcome(self) -> Any:
        """Outcome of the run of one robot; of a batch, that of the first unsuccessful case.

        Its message also tells how many cases of a batch carry a note, as of a penetration, and the
        first of them.
        A loaded run whose process was killed has the status "killed" and its last state on disk;
        one that a process still records has the status "running". None for a part of a run without
        outcomes.
        """
        if not self.outcomes:
            return None
        statuses = statuses_of(self.outcomes)
        failed = (k for k, status in enumerate(statuses) if status not in SUCCESSFUL)
        chosen = next(failed, 0)
        found = self.outcomes[chosen]
        notes = {k: note for k, note in notes_of(self.outcomes).items() if k != chosen}
        if not notes:
            return found
        first = min(notes)
        note = notes[first].removeprefix("; ")
        told = f"; {len(notes)} of {len(statuses)} cases carry a note, case {first}: {note}"
        return replace(found, message=found.message + told)

    @property
    def status(self) -> Any:
        """Status of the outcome: a text for one robot, an array of texts of the batch's shape."""
        statuses = statuses_of(self.outcomes) or ["unknown"]
        if not self.batch:
            return statuses[0]
        size = int(np.prod(self.batch))
        statuses = statuses if len(statuses) == size else statuses[:1] * size
        return np.array(statuses).reshape(self.batch)

    @property
    def names(self) -> tuple[str, ...]:
        """Names that `get` accepts: recorded and derived quantities, and outputs of elements."""
        from tiburon.results.quantities import QUANTITIES, touches

        recorded = tuple(column.name for column in self.header.columns)
        outputs = () if self.system is None else self.system.output_names
        touching = touches(self.header.elements)
        derived = [n for n, found in QUANTITIES.items() if touching or not found.of_contacts]
        return (*recorded, *(n for n in (*derived, *outputs) if n not in recorded))

    # -- named results -----------------------------------------------------------------------------

    @property
    def data(self) -> "xarray.Dataset":
        """All recorded quantities as an `xarray.Dataset`: named dimensions, coordinates, units.

        Quantities named by the keyword `record` of the run are included. Values of a run on disk
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
        """Return kinetic, potential and total energy [J], including that of entrained water."""
        import xarray

        from tiburon.results.quantities import ENERGIES

        return xarray.Dataset({name: self.get(name) for name in ENERGIES})

    def contact_summary(self) -> "ContactSummary":
        """Summarize the contacts of the run: touching, sticking, forces, depth and slip.

        Raises:
            ModelError: If the run has no contact.
        """
        from tiburon.results.contact_summary import summarize_contacts

        return summarize_contacts(self)

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
        for bound, value in (("start", start), ("stop", stop)):
            if value is not None and not (is_number(value) and not np.isnan(value)):
                raise DomainError(bound, "a time [s] or None", shown(value))
        if start is not None and stop is not None and stop < start:
            raise DomainError("stop", f"a time not before start={start:g} s", f"{stop:g} s")
        time = self.rows.read("time", 0, len(self))
        first = 0 if start is None else int(np.searchsorted(time, start, side="left"))
        last = len(time) if stop is None else int(np.searchsorted(time, stop, side="right"))
        if case is not None and not self.batch:
            raise DomainError("case", "None for a run of one robot", repr(case))
        header, outcomes = self.header, self.outcomes
        indices = np.arange(int(np.prod(self.batch))).reshape(self.batch)
        if case is not None:
            try:
                indices = indices[case]
            except (IndexError, TypeError):
                raise DomainError("case", f"indices below {self.batch[0]}", repr(case)) from None
            own = {name: table[case] for name, table in header.case_parameters.items()}
            header = replace(header, batch=indices.shape, case_parameters=own)
            if outcomes:
                outcomes = tuple(outcomes[k] for k in np.ravel(indices))
        arrays = {"time": time[first:last]}
        for column in header.columns:
            values = self.rows.read(column.key, first, last)
            arrays[column.key] = values if case is None else np.ascontiguousarray(values[:, case])
        begin, end = (time[first], time[last - 1]) if last > first else (0.0, -1.0)
        chosen = set(np.ravel(indices).tolist())
        events = [e for e in self.events if begin <= e.time <= end and e.case in chosen]
        return Trajectory(header, MemoryRows(arrays), outcomes, events, system=self.system)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a table with one column per scalar, named "joint_position.elbow" and so on.

        Its index is the time [s]; for a batch, time and case.
        """
        from tiburon.results.dataset import table_of

        return table_of(self)

    def to_csv(self, path: "str | os.PathLike[str]") -> None:
        """Write the table of `to_pandas` as text with all digits; the second line has units.

        ``pandas.read_csv(path, skiprows=[1])`` reads it back.
        """
        from tiburon.results.dataset import write_csv

        write_csv(self, Path(path))

    def to_parquet(self, path: "str | os.PathLike[str]") -> None:
        """Write the table of `to_pandas` as a Parquet file, with the unit of each column.

        Units are metadata of the fields. It needs pyarrow: ``pip install 'tiburon[logs]'``.
        """
        from tiburon.results.logs import write_parquet

        write_parquet(self, Path(path))

    def to_mcap(self, path: "str | os.PathLike[str]") -> None:
        """Write the run of one robot as an MCAP log, which Foxglove and tools of ROS read.

        Topic ``/state`` has all recorded columns by name, ``/tf`` the poses of all bodies in the
        world, both as JSON. It needs mcap: ``pip install 'tiburon[logs]'``.
        """
        from tiburon.results.logs import write_mcap

        write_mcap(self, Path(path))

    # -- files -------------------------------------------------------------------------------------

    def save(self, path: "str | os.PathLike[str]", *, overwrite: bool = False) -> None:
        """Save the run, including robot and world.

        Args:
            path: A new directory, by convention ending in ".zarr"; or a file ending in ".zip".
            overwrite: Whether to replace a run that exists there.

        Raises:
            RunFileError: If the path exists already, or it cannot be written.
        """
        from tiburon.results.store import save_run

        save_run(self, Path(path), overwrite=overwrite)

    def resume(self, duration: float | None = None, **changes: Any) -> "Trajectory":
        """Continue the run; the result is bitwise identical to an uninterrupted run.

        Args:
            duration: Additional time [s] from where the run ended; None to reach the planned end
                of a killed or interrupted run.
            **changes: Keywords of `simulate` that a file cannot hold and that must be passed again,
                such as ``control=`` where it is a function, and ``elements=`` with those that
                are; beside them `execution`.

        Returns:
            The whole run, from its start. A run on disk is continued there.

        Raises:
            RunFileError: If something is missing, or the run has no checkpoint.
            KeyboardInterrupt: After Ctrl-C, as `simulate`.
        """
        if self.checkpoint is None or self.system is None:
            raise RunFileError(
                self.place,
                "has no checkpoint to resume from; resume the whole run, not a part of it",
            )
        return self.system.resume(self, duration, **changes)

    # -- figures and pages -------------------------------------------------------------------------

    def plot(
        self,
        *names: str,
        labels: str | Iterable[str] | None = None,
        case: int | None = None,
        path: "str | os.PathLike[str] | None" = None,
    ) -> "Figure":
        """Plot quantities over time.

        Args:
            names: Quantities, one subplot each; "energy" stands for all energies. By default joint
                positions and velocities. Below positions with quaternions stand roll, pitch and
                yaw of their bodies. Curves that are zero throughout are named, not drawn.
            labels: Parts of the names of coordinates to show, such as "elbow"; all by default.
            case: Case of a batch to show; by default all cases, as bands around the median.
            path: File to save the figure to; the suffix selects the format (.png, .svg, .pdf).

        Example:
            ``run.plot("joint_position", "total_energy", labels="arm", path="run.png")``
        """
        from tiburon.results.quantities import ENERGIES
        from tiburon.viewer.plots import plot_dataset, save_figure

        chosen: list[str] = []
        for name in names or ("joint_position", "joint_velocity"):
            chosen += ENERGIES if name == "energy" else (name,)
        shown = self if case is None else self.part(case=case)
        arrays = {}
        for name in chosen:
            arrays[name] = shown.get(name)
            if name == "joint_position" and "body_attitude" not in chosen:
                arrays |= shown._attitudes(labels)
        figure = plot_dataset(arrays, labels=labels, title=self.model.name)
        if path is not None:
            save_figure(figure, Path(path))
        return figure

    def _attitudes(self, labels: str | Iterable[str] | None) -> dict[str, "xarray.DataArray"]:
        """Return roll, pitch and yaw of bodies on joints with quaternions, if there are any."""
        turned = [b.name for b in self.model.bodies if f"{b.joint.name}.qw" in b.joint.q_names()]
        if labels is not None:
            words = [labels] if isinstance(labels, str) else list(labels)
            turned = [name for name in turned if any(word in name for word in words)]
        return {"body_attitude": self.get("body_attitude").sel(body=turned)} if turned else {}

    def report(self, path: "str | os.PathLike[str]") -> Path:
        """Write a report of the run (one HTML file with figures), and return its path."""
        from tiburon.results.report import write_run_report

        return write_run_report(self, Path(path))

    def save_html(self, path: "str | os.PathLike[str]", **options: Any) -> Path:
        """Write a replay of the run: one HTML file that plays in any browser, without network.

        Args:
            path: File to write; an existing one is replaced.
            **options: As in `tiburon.viewer.replay_html`, such as ``forces=``, ``camera="follow"``,
                ``show=("trails", "frames")``.

        Returns:
            The path.

        Example:
            ``run.save_html("dive.html")``
        """
        from tiburon.results.report import save_replay

        return save_replay(self, Path(path), **options)

    def save_video(
        self,
        path: "str | os.PathLike[str]",
        *,
        fps: float = 30.0,
        speed: float = 1.0,
        width: int = 960,
        height: int = 540,
        **options: Any,
    ) -> Path:
        """Write a video of the run, drawn as its replay page; needs the extra `video`.

        Chromium, Chrome or Edge must be installed; it draws without a window, about ten frames a
        second without a graphics processor.

        Args:
            path: File to write (.mp4, .webm or .gif); an existing one is replaced.
            fps: Frames per second.
            speed: Seconds of the run per second of the video.
            width: Width [pixels], even.
            height: Height [pixels], even.
            **options: As in `tiburon.viewer.replay_html`, such as ``camera="follow"``.

        Returns:
            The path.

        Raises:
            MissingExtraError: Without the extra `video`.

        Example:
            ``run.save_video("dive.mp4", camera="follow")``
        """
        from tiburon.results.report import replay_of
        from tiburon.viewer.video import save_video

        first, last = self.span
        size = (width, height)
        page = replay_of(self, **options)
        return save_video(page, last - first, Path(path), fps=fps, speed=speed, size=size)

    def view(self, *, live: bool | None = None, **options: Any) -> "LiveReplay | Path":
        """Replay the run in the browser.

        Where viser is installed, opens the live scene, which ends with this process: scripts wait
        here until Ctrl-C. Otherwise opens the page of `save_html`.

        Args:
            live: Whether to open the live scene; None for whatever is available.
            **options: ``wait=False`` to return at once, ``browser=False`` to open no browser;
                otherwise those of `tiburon.viewer.LiveReplay` or `tiburon.viewer.replay_html`.

        Returns:
            The live replay (its `url` is the address), or the path of the page.
        """
        from tiburon.results.report import view_run

        return view_run(self, live=live, **options)

    def __repr__(self) -> str:
        cases = f" of {' x '.join(map(str, self.batch))} cases" if self.batch else ""
        if not len(self):
            return f"<Trajectory of {self.model.name!r}: nothing recorded{cases}>"
        first, last = self.span
        ended = self.status
        if self.batch:
            kinds, counts = np.unique(self.status, return_counts=True)
            ended = ", ".join(f"{n} {kind}" for kind, n in zip(kinds, counts, strict=True))
        return (
            f"<Trajectory of {self.model.name!r}: {len(self)} times{cases} from {first:.6g} to "
            f"{last:.6g} s, {ended}>"
        )

    def _repr_html_(self) -> str:
        from tiburon.results.report import notebook_frame, run_as_html

        return run_as_html(self) + notebook_frame(self)
