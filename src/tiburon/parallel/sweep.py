"""`sweep`: thousands to millions of runs over a design, on this machine or on a cluster."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tiburon.argument_checks import at_least, check_signature, choice, is_whole, positive
from tiburon.arguments import public
from tiburon.errors import (
    ModelError,
    OptionError,
    RunFileError,
    RunInterruptedError,
    TiburonError,
    shown,
)
from tiburon.model import Model
from tiburon.native.pool import default_threads
from tiburon.parallel.design import Design, Point, whole_seed
from tiburon.parallel.driver_lock import DriverLock, Part
from tiburon.parallel.identity import differences, identity
from tiburon.parallel.sweep_cases import (
    RUN_KEYWORDS,
    BlockResult,
    Layout,
    SweepPlan,
    check_names,
)
from tiburon.parallel.sweep_driver import drive
from tiburon.parallel.sweep_header import SweepHeader
from tiburon.parallel.sweep_progress import SweepBar, SweepProgress, Tally, progress_of_store
from tiburon.parallel.sweep_store import SweepStore
from tiburon.parallel.sweep_task import forget_stores
from tiburon.parallel.workers import (
    ExecutorWorkers,
    InlineWorkers,
    LocalWorkers,
    Workers,
    local_count,
)
from tiburon.results.trajectory import Trajectory
from tiburon.simulation.execution import Execution, checked_execution

if TYPE_CHECKING:
    import xarray

BLOCK_SECONDS = 5.0
"""Time that the computation of a block should take [s]: tasks of clusters cost some 10 ms."""

BLOCK_BYTES = 128 * 2**20
"""Most memory of the recorded rows of a block [bytes]."""

BLOCKS_PER_WORKER = 4
"""Least number of blocks per worker, where there are enough cases."""

ERRORS = ("raise", "record")
"""What to do with cases that raise errors."""


class CommandLine(NamedTuple):
    """What `tiburon sweep` decides in place of a script."""

    part: Part
    workers: int | None
    budget: float | None


_command_line: list[tuple[CommandLine, list[tuple["Study", Tally]]]] = []
"""The last entry holds while a script is run by `tiburon sweep`."""


@contextmanager
def commanded(command: CommandLine) -> Iterator[list[tuple["Study", Tally]]]:
    """Let the command line decide what sweeps of a script compute; yield what they computed."""
    found: list[tuple[Study, Tally]] = []
    _command_line.append((command, found))
    try:
        yield found
    finally:
        _command_line.pop()


class PartEnd(SystemExit):
    """The end of a script whose sweeps computed one part of their blocks, when it reads results."""


@public
def sweep(
    model: Model,
    duration: float,
    *,
    design: Any,
    store: str | os.PathLike[str],
    setup: Callable[..., Any] | None = None,
    reduce: Callable[..., Any] | None = None,
    seed: int = 0,
    client: Any = None,
    workers: int | None = None,
    block: int | None = None,
    errors: str = "raise",
    execution: Execution | None = None,
    verify: bool = False,
    mixed: bool = False,
    **options: Any,
) -> "Study":
    """Run a robot over a design of cases, in blocks, and keep the results on disk.

    A sweep is `simulate` of a batch, cut into blocks of cases: the same options, outcomes and bits,
    whatever block or worker a case is in. A block that is on disk is never computed again: called
    again with the same arguments, a sweep continues where it was; with more values at the ends of
    its axes, it computes the cases that are new.

    Args:
        model: The robot.
        duration: Simulated time of each run [s].
        design: What differs between cases: values by name, which span a grid, where a tuple of
            names has rows of values that change together; or a list of points, one mapping per
            case, or a table of pandas. Values are numbers, texts, arrays or other data.
        store: Path of the Zarr directory for results.
        setup: Function of a point of the design, ``point["payload"]`` or ``point.payload``, and of
            the random stream of the case, a `numpy.random.Generator`; it returns what `simulate`
            takes, such as ``{"q": ..., "parameters": {...}, "fluid": ...}``. Without it, names of
            the design are names of parameters.
        reduce: Function of the run of one case, or of the run and the point, that returns a few
            numbers by name, which are kept instead of rows.
        seed: Of the random streams. The stream of a case depends on it and on the indices of the
            case along the axes, on nothing else.
        client: What computes: a Dask client, an executor of `concurrent.futures`, or a function
            that makes one; by default processes of this machine.
        workers: Number of processes on this machine, one per core up to 8 by default; 0 to compute
            in this process.
        block: Cases of a block; by default what takes about 5 s.
        errors: "raise" to end the sweep when a case raises an error, "record" to give such cases
            the status "failed".
        execution: Native threads of each worker, the wall-clock budget after which no more blocks
            are begun, and whether to show a bar, by an `Execution`.
        verify: Whether to compare checksums of blocks on disk first; damaged ones are computed
            again.
        mixed: Whether to continue a sweep that another version of this package, of Python, or of
            `setup` and `reduce` began.
        **options: Keywords of `simulate` that all cases share, such as ``method`` or ``contact``.

    Returns:
        The study: `data` with the results, `progress`, `resume`.

    Raises:
        CaseError: If a case raises an error; the message names it.
        RunFileError: If the store holds something else, another driver computes it, or it cannot
            be written; blocks that are on disk are safe.
        ModelError: If the design cannot be understood.

    Example:
        Drift of a vehicle with four payloads, in ten random seas each::

            def start(point, stream):
                sea = tb.Water(current=stream.normal(0.0, 0.2, 3))
                return {"fluid": sea, "parameters": {"hull.mass": 11.5 + point.payload}}

            def drift(run):
                return {"drift": np.linalg.norm(run.q[-1, 4:7])}

            design = {"payload": np.linspace(0, 8, 4), "draw": range(10)}
            method = tb.RK4(dt=0.01)
            study = tb.sweep(rov, 2.0, method=method, design=design, setup=start, reduce=drift,
                store="study.zarr", workers=0)
            study.data.drift.mean("draw")
    """
    if not isinstance(model, Model):
        raise ModelError(f"model: expected a robot, got {shown(model)}; load one by tb.load(...)")
    choice("errors", errors, ERRORS)
    choice("mixed", mixed, (True, False))
    for name in options:
        if name not in RUN_KEYWORDS:
            raise OptionError("sweep: keyword of simulate", RUN_KEYWORDS, name)
    for name, function, takes, advice in (
        ("setup", setup, ("point", "stream"), "write def setup(point, stream): return {...}"),
        ("reduce", reduce, ("run",), "write def reduce(run): return {...}"),
    ):
        if function is not None and not callable(function):
            raise ModelError(f"{name}: expected a function, got {shown(function)}; {advice}")
        if name == "setup" and function is not None:
            check_signature(function, name, takes, advice=advice)
    plan = SweepPlan(
        model,
        positive("duration", duration, "s"),
        {name: value for name, value in options.items() if value is not None},
        setup,
        reduce,
        whole_seed(seed),
        errors == "record",
    )
    wanted = Design.of(design)
    runner = _Runner.of(client, workers, execution, verify)
    size = None if block is None else at_least("block", block, 1)
    path = Path(store)
    found = _opened(path, plan, wanted, mixed=mixed) if _is_taken(path) else None
    if found is None:
        try:
            found = _created(path, plan, wanted, size, runner)
        except FileExistsError:
            # another part of the same sweep was faster
            found = _opened(path, plan, wanted, mixed=mixed)
    elif size not in (None, found.header.block_size):
        raise RunFileError(
            path,
            f"was begun with blocks of {found.header.block_size} cases, got block={size}; leave "
            "block out, or begin another sweep",
        )
    study = Study(found, plan, runner.part)
    study._compute(runner, mixed=mixed)
    return study


@public
def load_sweep(path: str | os.PathLike[str], *, model: Model | None = None) -> "Study":
    """Load a sweep, finished or not; values stay on disk until they are used.

    Args:
        path: Its directory.
        model: The robot, where parts of it are code that no file can hold.

    Raises:
        RunFileError: If it cannot be read: not there, damaged, or of a later version.

    Example:
        ``tb.load_sweep("study.zarr").resume()``
    """
    given = {} if model is None else {"model": model}
    return Study(SweepStore.open(Path(path), given), None, (0, 1))


@public
class Study:
    """A sweep on disk: results computed so far, progress, and how to resume it."""

    def __init__(self, store: SweepStore, plan: SweepPlan | None, part: Part) -> None:
        """Use `sweep` or `load_sweep`."""
        self._store, self._plan, self._part = store, plan, part

    @property
    def path(self) -> Path:
        """Directory of the results."""
        return self._store.path

    @property
    def design(self) -> Design:
        """The axes of the sweep, and the numbers of its cases."""
        return self._store.header.design

    @property
    def data(self) -> "xarray.Dataset":
        """Results as an `xarray.Dataset` with one dimension per axis of the design.

        Values are read when they are used. Cases that are not computed yet are NaN, and their
        `status` is "unfinished".
        """
        if self._part != (0, 1):
            number, count = self._part[0] + 1, self._part[1]
            done = f"part {number}/{count} is computed; run the script itself to read all results"
            raise PartEnd(0) from RunFileError(self.path, done)
        from tiburon.parallel.sweep_data import sweep_dataset

        return sweep_dataset(self._store)

    @property
    def progress(self) -> SweepProgress:
        """How far the sweep is, from what is on disk; `print` shows it."""
        return progress_of_store(self._store)

    @property
    def is_complete(self) -> bool:
        """Whether all blocks are on disk."""
        return self.progress.is_complete

    def point(self, case: int) -> Point:
        """Return the values of a case by its number."""
        if not is_whole(case) or not 0 <= case < self.design.count:
            raise OptionError("case", (f"0 to {self.design.count - 1}",), case)
        return self.design.point(case)

    def simulate(self, case: int, **code: Any) -> Trajectory:
        """Run one case again, and return its whole trajectory; the bits are those of the sweep.

        Args:
            case: Number of the case; `design.cases` gives it by indices.
            **code: What is code and must be passed again, as for `resume`.
        """
        from tiburon.parallel.sweep_cases import one_case, run_case

        plan = self._plan or self._store.header.plan(self.path, code)
        point = self.point(case)
        return one_case(run_case(plan, point), 0, plan.arguments(point))

    def resume(
        self,
        *,
        client: Any = None,
        workers: int | None = None,
        execution: Execution | None = None,
        verify: bool = False,
        mixed: bool = False,
        **code: Any,
    ) -> "Study":
        """Compute all blocks that are not on disk.

        Args:
            client: As `sweep` takes it.
            workers: As `sweep` takes it.
            execution: As `sweep` takes it.
            verify: Whether to compare checksums of blocks on disk first; damaged ones are computed
                again.
            mixed: As `sweep` takes it.
            **code: What no file can hold: ``setup=``, ``reduce=``, ``control=``, ``model=``. Only
                functions that the running script itself defines, unchanged, may be left out.

        Returns:
            The study itself.
        """
        choice("mixed", mixed, (True, False))
        if self._plan is None or code:
            self._plan = self._store.header.plan(self.path, code, mixed=mixed)
        runner = _Runner.of(client, workers, execution, verify)
        self._compute(runner, mixed=mixed)
        return self

    def _compute(self, runner: "_Runner", *, mixed: bool) -> None:
        assert self._plan is not None
        mine = identity()
        problem = differences(self._store.header.identity, mine)
        if problem and not mixed:
            raise RunFileError(
                self.path,
                f"was begun by another version, this process has {problem}; results of both would "
                "be mixed: continue with those versions, or pass mixed=True",
            )
        forget_stores()
        tally = runner.run(self._store, self._plan, mine)
        if _command_line:
            _command_line[-1][1].append((self, tally))

    def __repr__(self) -> str:
        now = self.progress
        return f"<sweep {self.path}: {now.cases_done} of {now.cases} cases>"


class _Runner(NamedTuple):
    """Who computes, and for how long."""

    client: Any
    workers: int | None
    threads: int | None
    budget: float | None
    progress: bool | None
    verify: bool
    part: Part

    @classmethod
    def of(
        cls,
        client: Any,
        workers: int | None,
        execution: Execution | None,
        verify: bool,
    ) -> "_Runner":
        """Check who computes."""
        if workers is not None:
            workers = at_least("workers", workers, 0)
            if client is not None:
                raise ModelError("workers: a client has its own workers; leave workers out")
        honored = ("threads", "budget", "progress")
        carried = checked_execution(execution, honored, "a sweep")
        budget, progress = carried.budget, carried.progress
        choice("verify", verify, (True, False))
        if not (progress is None or isinstance(progress, bool)):
            raise OptionError("execution: progress of a sweep", (True, False), progress)
        usable = client is None or isinstance(client, Executor) or callable(client)
        if not usable and not _is_dask(client):
            raise ModelError(
                f"client: expected a Dask client, an executor or a function that makes one, got "
                f"{shown(client)}"
            )
        part: Part = (0, 1)
        if _command_line:
            command, _ = _command_line[-1]
            part = command.part
            if client is None and command.workers is not None:
                workers = command.workers
            budget = budget if command.budget is None else command.budget
        return cls(client, workers, carried.threads, budget, progress, verify, part)

    @property
    def worker_count(self) -> int:
        """Number of workers, as far as it is known."""
        if self.client is None:
            return max(1, local_count(self.workers)[0])
        if _is_dask(self.client):
            return max(1, len(self.client.ncores()))
        return int(getattr(self.client, "_max_workers", 0)) or default_threads()

    def run(self, store: SweepStore, plan: SweepPlan, mine: dict[str, Any]) -> Tally:
        """Compute the blocks of this driver that are not on disk."""
        bar = None
        if self.progress or (self.progress is None and _is_watched()):
            bar = SweepBar(store.path.name)
        threads = self.threads
        made: list[Workers] = []

        def make() -> Workers:
            made.append(self.start(plan, mine))
            return made[0]

        if threads is None and self.client is None:
            threads = None if self.workers == 0 else local_count(self.workers)[1]
        elif threads is None and not _is_dask(self.client):
            threads = max(1, default_threads() // self.worker_count)
        try:
            return drive(
                store,
                make,
                mine,
                part=self.part,
                threads=threads,
                budget=self.budget,
                verify=self.verify,
                report=bar,
            )
        finally:
            if bar is not None:
                bar.close()

    def start(self, plan: SweepPlan, mine: dict[str, Any]) -> Workers:
        """Start workers."""
        if self.client is None:
            if self.workers == 0:
                return InlineWorkers(plan)
            return LocalWorkers(plan, local_count(self.workers)[0])
        if _is_dask(self.client):
            from tiburon.parallel.dask_workers import DaskWorkers

            return DaskWorkers(plan, self.client, mine)
        return ExecutorWorkers(plan, self.client)


def _is_dask(client: Any) -> bool:
    """Return whether a client is one of Dask, without importing it."""
    return type(client).__module__.startswith("distributed.") and hasattr(client, "scheduler_info")


def _is_watched() -> bool:
    import sys

    return sys.stderr is not None and sys.stderr.isatty()


# -- stores ----------------------------------------------------------------------------------------


def _is_taken(path: Path) -> bool:
    """Return whether a path holds something."""
    return path.is_file() or (path.is_dir() and any(path.iterdir()))


def _opened(path: Path, plan: SweepPlan, design: Design, *, mixed: bool) -> SweepStore:
    """Return the store of a sweep that is continued, or grows.

    Raises:
        RunFileError: If it holds another sweep.
    """
    # a robot that the store holds is compared with this one
    store = SweepStore.open(path, {"model": plan.model})
    old = store.header
    new = SweepHeader.of(plan, old.design, old.layout, old.block_size, old.identity)
    differing = [name for name in old.differences(new) if not (mixed and name in old.code)]
    if differing:
        changed = all(name in old.code for name in differing)
        hint = ", or pass mixed=True to keep results of both" if changed else ""
        raise RunFileError(
            path,
            f"holds another sweep, which differs in {' and '.join(differing)}; choose another "
            f"path, or remove it{hint}",
        )
    grown = old.design.grown(design)
    if grown.count > old.design.count:
        lock = DriverLock(path)
        try:
            store.grow(old._replace(design=grown))
        finally:
            lock.release()
    return store


def _created(
    path: Path, plan: SweepPlan, design: Design, block: int | None, runner: _Runner
) -> SweepStore:
    """Return the store of a new sweep, whose first case was run to see what it records."""
    try:
        layout, row_bytes = plan.pilot(design)
    except RunInterruptedError:
        raise KeyboardInterrupt("sweep: interrupted before its first block") from None
    check_names(design, layout)
    design = design.ordered(plan.structural_axes(design))
    if block is None:
        block = _block_size(plan, design, layout, row_bytes, runner)
    return SweepStore.create(path, SweepHeader.of(plan, design, layout, block, identity()))


def _block_size(
    plan: SweepPlan, design: Design, layout: Layout, row_bytes: int, runner: _Runner
) -> int:
    """Return the cases of a block that takes some seconds, fits in memory, and leaves many."""

    def timed(count: int) -> float:
        begin = time.perf_counter()
        result: BlockResult = plan.compute(design, range(count), layout, runner.threads or 1)
        assert len(result.codes) == count
        return time.perf_counter() - begin

    try:
        seconds = timed(1)
        few = min(design.count, 64 if seconds < 0.02 else 16 if seconds < 0.2 else 1)
        if few > 1:
            seconds = timed(few) / few
    except TiburonError:
        # errors are reported with the block they belong to
        return min(design.count, 64)
    size = max(1, int(BLOCK_SECONDS / max(seconds, 1e-9)))
    size = min(size, max(1, BLOCK_BYTES // row_bytes))
    size = min(size, max(1, design.count // (BLOCKS_PER_WORKER * runner.worker_count)))
    return size // 8 * 8 if size >= 8 else size
