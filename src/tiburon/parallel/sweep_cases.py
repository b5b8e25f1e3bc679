"""Cases of a sweep: what `simulate` is called with for each, batches of alike cases, their results.

The cases of a block become one call of `simulate` per structure. Values that differ from case to
case are stacked: initial states, commands, parameters by name and waters. Everything else a case
asks for (another robot, world, controller, method) is compared, and cases that agree in it run as
one batch. A batch computes each case as if it ran alone, so that grouping never changes a bit.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tiburon.arrays import Array, NDArray
from tiburon.errors import (
    CaseError,
    DomainError,
    ModelError,
    RunInterruptedError,
    ShapeError,
    TiburonError,
    nearest_name,
    shown,
)
from tiburon.model import Model, Water
from tiburon.parallel.design import Design, Point, case_stream
from tiburon.results.encoding import NotDataError, first_line, to_text
from tiburon.results.outcome import STATUSES
from tiburon.results.record import checked_record
from tiburon.results.rows import MemoryRows
from tiburon.results.trajectory import Trajectory
from tiburon.simulation.execution import Execution
from tiburon.simulation.sampled import Sampled
from tiburon.simulation.simulate import simulate

LOST, FAILED = "lost", "failed"

SWEEP_STATUSES = ("unfinished", *STATUSES, LOST, FAILED)
"""Statuses of cases in the order of their codes: not yet computed; as runs end; killed every worker
that ran it; raised an error."""

STATES = ("q", "v", "x", "command")
"""Keywords of `simulate` that are stacked to batches."""

RUN_KEYWORDS = (
    *("q", "v", "x", "world", "fluid", "control", "command", "elements", "prescribed"),
    *("contact", "sensors", "events", "method", "loops", "record", "time", "parameters"),
)
"""Keywords of `simulate` that a sweep, its setup and the header of a store may pass on."""

RESERVED_KEYWORDS = ("execution", "duration", "model")
"""Keywords of `simulate` that a sweep decides itself."""

MAX_CHECKED_VALUES = 32
"""Values along an axis whose structure is looked at."""

MAX_MESSAGES = 100
"""Most messages of unsuccessful cases that a receipt keeps."""


class BlockResult(NamedTuple):
    """Results of some cases, cases leading."""

    arrays: dict[str, Any]
    """Arrays by name: recorded columns, shape (cases, rows, width), or reduced values."""

    codes: NDArray[np.int64]
    """Code of the status of each case, its place in `SWEEP_STATUSES`."""

    end_times: Array
    """Time of the last valid state of each case [s]."""

    messages: dict[int, str]
    """Messages of unsuccessful cases, by number; at most `MAX_MESSAGES`."""


class CaseWater(NamedTuple):
    """Water that `setup` chose for a case: always one per case, whatever block the case is in."""

    water: Water


class Layout(NamedTuple):
    """Shapes of the results of one case, found by running one."""

    columns: tuple[Any, ...]
    """Recorded columns (`Column`); empty where runs are reduced."""

    times: Array
    """Recorded times [s]; empty where runs are reduced."""

    reduced: dict[str, tuple[int, ...]]
    """Shapes of reduced values by name; empty where rows are kept."""


class SweepPlan(NamedTuple):
    """What every worker needs to compute cases, beside the design."""

    model: Model
    duration: float
    options: dict[str, Any]
    """Keywords of `simulate` that all cases share."""

    setup: Callable[..., Any] | None
    reduce: Callable[..., Any] | None
    seed: int
    record_errors: bool
    """Whether cases that raise errors get the status "failed", instead of ending the sweep."""

    # -- one case ----------------------------------------------------------------------------------

    def arguments(self, point: Point) -> dict[str, Any]:
        """Return the keywords of `simulate` of one case, model included.

        Raises:
            CaseError: If `setup` fails, or returns anything but keywords of `simulate`.
        """
        given: Any
        if self.setup is None:
            given = {"parameters": dict(point)}
        else:
            try:
                given = self.setup(point, case_stream(self.seed, point.indices))
            except Exception as error:
                raise self._error(point, "setup", error) from error
            if given is None:
                given = {}
        try:
            return self._merged(given)
        except TiburonError as error:
            raise self._error(point, "setup", error) from error

    def _merged(self, given: Any) -> dict[str, Any]:
        if not isinstance(given, Mapping):
            raise ModelError(
                f"setup: expected keywords of simulate in a dict, got {shown(given)}; write "
                "return {'q': ..., 'parameters': {...}}"
            )
        for name in given:
            if name not in RUN_KEYWORDS and name != "model":
                near = nearest_name(str(name), ("model", *RUN_KEYWORDS))
                advice = f"did you mean {near!r}?" if near else "see the keywords of simulate"
                raise ModelError(
                    f"setup: {shown(name)} is not a keyword of simulate for cases; {advice}"
                )
        merged = {"model": self.model, **self.options}
        merged |= {name: value for name, value in given.items() if value is not None}
        if isinstance(given.get("fluid"), Water):
            merged["fluid"] = CaseWater(given["fluid"])
        named = {**(self.options.get("parameters") or {}), **(given.get("parameters") or {})}
        if named:
            merged["parameters"] = named
        if merged.get("record") is not None and checked_record(merged["record"]).store is not None:
            raise ModelError(
                "record: the rows of a sweep are in its own store; leave store out of Record"
            )
        for name in STATES:
            value = merged.get(name)
            if value is not None and not isinstance(value, Mapping):
                array = np.asarray(value, dtype=np.float64)
                if array.ndim != 1:
                    raise ShapeError(name, "the values of one case", f"shape {array.shape}")
                merged[name] = array
        return merged

    def _error(self, point: Point, step: str, error: BaseException) -> CaseError:
        return CaseError(point.case, repr(point), step, first_line(error))

    # -- many cases --------------------------------------------------------------------------------

    def compute(
        self, design: Design, cases: Sequence[int], layout: Layout, threads: int | None
    ) -> BlockResult:
        """Compute some cases.

        Args:
            design: The design.
            cases: Their numbers.
            layout: Shapes of the results.
            threads: Most native threads; None for all cores.

        Raises:
            CaseError: If a case raises an error, and errors are not recorded.
            KeyboardInterrupt: If the user stopped a run.
        """
        result = empty_result(layout, len(cases))
        points = [
            design.point(case, indices)
            for case, indices in zip(cases, design.indices(cases).tolist(), strict=True)
        ]
        given: dict[int, dict[str, Any]] = {}
        for place, point in enumerate(points):
            try:
                given[place] = self.arguments(point)
            except CaseError as error:
                self._fail(result, place, error)
        for group in _groups(given):
            self._run(group, given, points, layout, threads, result)
        return result

    def _fail(self, result: BlockResult, place: int, error: CaseError) -> None:
        if not self.record_errors:
            raise error
        result.codes[place] = SWEEP_STATUSES.index(FAILED)
        if len(result.messages) < MAX_MESSAGES:
            result.messages[error.case] = f"{FAILED}: {error.problem}"

    def _run(
        self,
        group: Sequence[int],
        given: Mapping[int, dict[str, Any]],
        points: Sequence[Point],
        layout: Layout,
        threads: int | None,
        result: BlockResult,
    ) -> None:
        """Run cases of one structure; where that fails, find out which of them fail."""
        keywords = _batched([given[place] for place in group])
        model = keywords.pop("model")
        try:
            numbers = [points[place].case for place in group]
            run = simulate(
                model,
                self.duration,
                **keywords,
                execution=Execution(case_numbers=numbers, threads=threads, progress=False),
            )
            if run.batch != (len(group),):
                raise several_cases(run)
        except RunInterruptedError:
            # a part of a block is no result, neither is the run of some of its cases
            message = "sweep: interrupted; run it again to compute the blocks that are not on disk"
            raise KeyboardInterrupt(message) from None
        except Exception as error:
            if len(group) > 1:
                for part in _parts(group, given):
                    self._run(part, given, points, layout, threads, result)
                return
            point = points[group[0]]
            self._fail(result, group[0], self._error(point, "simulate", error))
            return
        self._collect(run, group, given, points, layout, result)

    def _collect(
        self,
        run: Trajectory,
        group: Sequence[int],
        given: Mapping[int, dict[str, Any]],
        points: Sequence[Point],
        layout: Layout,
        result: BlockResult,
    ) -> None:
        """Write the results of a batch to the places of its cases."""
        statuses = run.status
        places = np.array(group)
        result.codes[places] = [SWEEP_STATUSES.index(status) for status in statuses]
        for k, place in enumerate(group):
            outcome = run.outcomes[k]
            result.end_times[place] = outcome.time
            if not outcome.ok and len(result.messages) < MAX_MESSAGES:
                result.messages[points[place].case] = outcome.message
        if self.reduce is not None:
            both = _takes_point(self.reduce)
            for k, place in enumerate(group):
                try:
                    one = one_case(run, k, given[place])
                    values = self.reduced(one, points[place], layout.reduced, both)
                except CaseError as error:
                    self._fail(result, place, error)
                    continue
                for name, value in values.items():
                    result.arrays[name][place] = value
            return
        self._check_columns(run, layout, points[group[0]])
        for column in layout.columns:
            rows = run.array(column.key)
            result.arrays[column.name][places, : len(rows)] = np.moveaxis(rows, 1, 0)

    def _check_columns(self, run: Trajectory, layout: Layout, point: Point) -> None:
        if run.header.columns != layout.columns:
            ours, theirs = (
                sum(int(np.prod(c.width)) for c in columns)
                for columns in (layout.columns, run.header.columns)
            )
            raise ModelError(
                f"{point!r}: its run records other columns ({theirs} values a row) than that of "
                f"the first case ({ours}), and a sweep keeps one table; pass reduce= to keep the "
                "same few values of each run"
            )
        times = run.time
        if len(times) > len(layout.times) or not np.array_equal(
            times[:-1], layout.times[: len(times) - 1]
        ):
            raise DomainError(
                f"{point!r}: recorded times",
                "those of the first case",
                f"{len(times)} others",
                advice="give all cases the same duration, method, record and time",
            )

    def reduced(
        self,
        run: Trajectory,
        point: Point,
        shapes: Mapping[str, tuple[int, ...]] | None,
        both: bool | None = None,
    ) -> dict[str, Array]:
        """Return the reduced values of one run.

        Args:
            run: The run of one case.
            point: The case.
            shapes: Shapes that the values must have, by name; None for any.
            both: Whether `reduce` also takes the point; None to look.

        Raises:
            CaseError: If `reduce` fails, or returns other values.
        """
        assert self.reduce is not None
        try:
            both = _takes_point(self.reduce) if both is None else both
            found = self.reduce(run, point) if both else self.reduce(run)
            return _values_by_name(found, self.reduce, shapes)
        except Exception as error:
            raise self._error(point, "reduce", error) from error

    def pilot(self, design: Design) -> tuple[Layout, int]:
        """Run the first case; return the shapes of its results, and the size of its rows [bytes].

        Where errors are recorded, the first one that raises none.

        Raises:
            CaseError: If it raises an error.
            ModelError: If errors are recorded, and all of the first `MAX_CHECKED_VALUES` cases
                raise one.
        """
        if not self.record_errors:
            return self._piloted(design.point(0))
        looked = min(design.count, MAX_CHECKED_VALUES)
        problems = []
        for case in range(looked):
            try:
                return self._piloted(design.point(case))
            except CaseError as error:
                problems.append(error.problem)
        raise ModelError(
            f"design: expected a case that runs among the first {looked}, to see what results "
            f"look like, got an error in each; the first: {problems[0]}"
        )

    def _piloted(self, point: Point) -> tuple[Layout, int]:
        run = run_case(self, point)
        size = run.header.row_bytes * len(_recorded_times(run))
        if self.reduce is not None:
            values = self.reduced(one_case(run, 0, self.arguments(point)), point, None)
            shapes = {name: value.shape for name, value in values.items()}
            return Layout((), np.empty(0), shapes), size
        return Layout(run.header.columns, _recorded_times(run), {}), size

    def structural_axes(self, design: Design) -> list[int]:
        """Return the axes along which the structure of cases changes, from a look at each.

        Cases that differ in structure run one batch after the other; with these axes slowest, the
        blocks hold cases of one structure.
        """
        if self.setup is None or len(design.axes) < 2:
            return []
        found = []
        start = [0] * len(design.axes)
        for axis, size in enumerate(design.shape):
            looked = (
                range(size)
                if size <= MAX_CHECKED_VALUES
                else np.linspace(0, size - 1, MAX_CHECKED_VALUES)
            )
            keys: set[Any] = set()
            kept: list[Any] = []
            tokens: dict[int, Any] = {}
            for index in looked:
                place = [int(index) if k == axis else n for k, n in enumerate(start)]
                try:
                    given = self.arguments(design.point(int(design.cases([place])[0]), place))
                except CaseError:
                    # reported with the block it belongs to
                    continue
                # keys hold the identities of objects, which must stay alive
                kept.append(given)
                keys.add(structure_key(given, tokens))
            if len(keys) > 1:
                found.append(axis)
        return found


def run_case(plan: SweepPlan, point: Point) -> Trajectory:
    """Run one case as a batch of one.

    Raises:
        CaseError: If it raises an error.
        KeyboardInterrupt: If the user stopped it.
    """
    keywords = _batched([plan.arguments(point)])
    model = keywords.pop("model")
    try:
        run = simulate(
            model,
            plan.duration,
            **keywords,
            execution=Execution(case_numbers=[point.case], progress=False),
        )
    except Exception as error:
        raise plan._error(point, "simulate", error) from error
    if run.batch != (1,):
        raise several_cases(run)
    return run


def several_cases(run: Trajectory) -> ShapeError:
    """Return the error for options that hold the values of several cases."""
    return ShapeError(
        "options of the sweep",
        "the values of one case",
        f"those of {run.batch} cases",
        advice="let setup return what differs between cases",
    )


def empty_result(layout: Layout, count: int) -> BlockResult:
    """Return results of cases that are not computed: NaN and "unfinished"."""
    arrays: dict[str, Any] = {
        column.name: np.full((count, len(layout.times), *column.width), np.nan)
        for column in layout.columns
    }
    arrays |= {name: np.full((count, *shape), np.nan) for name, shape in layout.reduced.items()}
    return BlockResult(arrays, np.zeros(count, dtype=np.int64), np.full(count, np.nan), {})


def check_names(design: Design, layout: Layout) -> None:
    """Raise `ModelError` if names of the design and of results collide."""
    taken = {"time", "case", "status", "end_time"}
    for column in layout.columns:
        taken |= {column.name, column.dimension, *column.coordinates}
    taken |= set(layout.reduced)
    for name in (*design.names, *case_coordinates(design, np.arange(0)), *design.dimensions):
        if name in taken and name != "case":
            raise ModelError(
                f"design: {name!r} is also the name of a result; choose another name for one of "
                "them"
            )
    for name in case_coordinates(design, np.arange(0)):
        # names of parameters may have slashes; each part is a directory of the store
        if any(not part or part.startswith(".") or "\\" in part for part in name.split("/")):
            raise ModelError(f"design: {shown(name)} cannot name a value; choose another name")
    for name in layout.reduced:
        if not name or "/" in name or name.startswith((".", "__")) or name in ("zarr.json", "c"):
            raise ModelError(f"reduce: {name!r} cannot name a value; choose another name")
        if name in ("time", "case", "status", "end_time"):
            raise ModelError(f"reduce: {name!r} is a name of every sweep; choose another name")


def case_coordinates(design: Design, cases: Any) -> dict[str, Any]:
    """Return the values of the design of some cases: numbers, or indices along their axis."""
    indices = design.indices(cases)
    found: dict[str, Any] = {}
    for k, axis in enumerate(design.axes):
        for name, column in axis.values.items():
            if isinstance(column, range):
                found[name] = column.start + column.step * indices[:, k]
            elif isinstance(column, np.ndarray) and column.ndim == 1:
                kind = np.float64 if column.dtype.kind == "f" else np.int64
                found[name] = column[indices[:, k]].astype(kind)
            else:
                found[f"{name}_index"] = indices[:, k].copy()
    return found


def one_case(run: Trajectory, case: int, keywords: Mapping[str, Any]) -> Trajectory:
    """Return one case of a batch as a run of its own; its arrays are views."""
    own = {name: table[case] for name, table in run.header.case_parameters.items()}
    header = replace(run.header, batch=(), case_parameters=own)
    fluid = keywords.get("fluid")
    if isinstance(fluid, CaseWater) and header.world is not None:
        # the batch has the water of its first case
        header = replace(header, world=replace(header.world, fluid=fluid.water))
    arrays = {column.key: run.array(column.key)[:, case] for column in header.columns}
    events = [replace(event, case=0) for event in run.events if event.case == case]
    outcomes = (run.outcomes[case],)
    rows = MemoryRows({"time": run.time, **arrays})
    return Trajectory(header, rows, outcomes, events, system=run.system)


def _recorded_times(run: Trajectory) -> Array:
    """Return all times at which a run is recorded, also those after its end."""
    setup = run.header.setup
    steps, every = int(setup["steps"]), int(setup["record_every"])
    numbers = np.append(np.arange(0, steps, every), steps) if steps else np.zeros(1)
    times: Array = setup["begin"] + numbers * setup["dt"]
    return times


# -- structure -------------------------------------------------------------------------------------


def _groups(given: Mapping[int, dict[str, Any]]) -> Iterator[list[int]]:
    """Group places of cases that can run as one batch, in the order of their first cases."""
    groups: dict[Any, list[int]] = {}
    tokens: dict[int, Any] = {}
    for place, keywords in given.items():
        groups.setdefault(structure_key(keywords, tokens), []).append(place)
    yield from groups.values()


def structure_key(keywords: Mapping[str, Any], tokens: dict[int, Any]) -> Any:
    """Return what cases of one batch have in common.

    Tokens of objects are by their identities, and added to; all must stay alive.
    """
    found = []
    for name, value in sorted(keywords.items()):
        if name == "parameters":
            shapes = ((key, np.shape(one)) for key, one in value.items())
            found.append((name, tuple(sorted(shapes))))
        elif name in STATES:
            parts = value if isinstance(value, Mapping) else {"": value}
            found.append((name, tuple(sorted((key, np.shape(one)) for key, one in parts.items()))))
        elif isinstance(value, CaseWater):
            found.append((name, _water_key(value.water)))
        else:
            token = tokens.get(id(value))
            if token is None:
                token = tokens[id(value)] = _token(value)
            found.append((name, token))
    return tuple(found)


def _water_key(water: Water) -> Any:
    from tiburon.model.water import _kind

    alike = replace(water, density=1.0, current=(0.0, 0.0, 0.0), surface=None)
    return (_token(alike), repr(_kind(water.current)), water.surface is None)


def _token(value: Any) -> Any:
    """Return what equal values have in common: their text, or of code its identity."""
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    try:
        return to_text(value)
    except NotDataError:
        pass
    if isinstance(value, (list, tuple)):
        return tuple(_token(item) for item in value)
    if isinstance(value, Sampled):
        return ("sampled", _token(value.controller), value.dt)
    return id(value)


def _batched(given: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the keywords of one batch of cases of one structure."""
    first = given[0]
    batched: dict[str, Any] = {}
    for name, value in first.items():
        if name == "parameters" or (name in STATES and isinstance(value, Mapping)):
            batched[name] = {
                key: np.stack([np.asarray(one[name][key], dtype=np.float64) for one in given])
                for key in value
            }
        elif name in STATES:
            batched[name] = np.stack([one[name] for one in given])
        elif isinstance(value, CaseWater):
            batched[name] = [one[name].water for one in given]
        else:
            batched[name] = value
    # a batch, also where nothing of the start differs
    batched.setdefault("v", np.zeros((len(given), first["model"].nv)))
    return batched


def _parts(group: Sequence[int], given: Mapping[int, dict[str, Any]]) -> Iterator[Sequence[int]]:
    """Split cases that do not run as one batch: by zeros among their parameters, else in halves."""
    patterns: dict[Any, list[int]] = {}
    for place in group:
        named = given[place].get("parameters") or {}
        zeros = tuple(
            (name, (np.asarray(value) == 0).tobytes() + np.isinf(value).tobytes())
            for name, value in sorted(named.items())
        )
        patterns.setdefault(zeros, []).append(place)
    if len(patterns) > 1:
        yield from patterns.values()
        return
    half = len(group) // 2
    yield group[:half]
    yield group[half:]


# -- reduction -------------------------------------------------------------------------------------


def _takes_point(function: Callable[..., Any]) -> bool:
    """Return whether a reduction also takes the point of the design."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in parameters if p.kind in places and p.default is inspect.Parameter.empty]
    return len(needed) >= 2


def _values_by_name(
    found: Any, function: Callable[..., Any], shapes: Mapping[str, tuple[int, ...]] | None
) -> dict[str, Array]:
    """Return what `reduce` returned as arrays by name."""
    if not isinstance(found, Mapping):
        name = getattr(function, "__name__", "value")
        found = {name if name.isidentifier() else "value": found}
    values: dict[str, Array] = {}
    for name, value in found.items():
        array = np.asarray(value)
        if not isinstance(name, str) or array.dtype.kind not in "biuf":
            raise ModelError(
                f"reduce: expected numbers by name, got {shown(name)}: {shown(value)}; return "
                "{'drift': 0.1}"
            )
        values[name] = array.astype(np.float64)
    if shapes is not None:
        ours = {name: value.shape for name, value in values.items()}
        if ours != dict(shapes):
            raise ModelError(
                f"reduce: expected values of the shapes {dict(shapes)} as for the first case, got "
                f"{ours}; return the same names and shapes for every run"
            )
    if not values:
        raise ModelError("reduce: expected a number or more, got none; return {'drift': 0.1}")
    return values
