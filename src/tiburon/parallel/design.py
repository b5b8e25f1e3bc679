"""Designs of sweeps: axes of values, the numbering of cases, and the random stream of each case.

A case is a point of the grid that the axes span. Cases are numbered so that an axis can grow: those
of the first grid in C order, then those that each growth added. A growth from one grid to a larger
one adds up to one box of indices per axis; the design is the list of these boxes, and numbers and
indices follow from it by arithmetic, without a table of cases.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, NamedTuple

import numpy as np

from tiburon.argument_checks import is_whole
from tiburon.arrays import NDArray
from tiburon.errors import DomainError, ModelError, shown
from tiburon.results.encoding import NotDataError, decode, encode, is_data

Indices = NDArray[np.int64]

MAX_CASES = 2**40
"""Most cases of a design."""

RESERVED = ("case", "time", "status", "end_time", "variable", "indices")
"""Names that neither axes nor values of a design may have."""


class Point(Mapping[str, Any]):
    """One case of a design: its values by name, ``point["payload"]`` or ``point.payload``.

    Attributes:
        case: Number of the case.
        indices: Index along each axis of the design.
    """

    __slots__ = ("_values", "case", "indices")

    def __init__(self, values: Mapping[str, Any], case: int, indices: tuple[int, ...]) -> None:
        """Hold the values of a case."""
        self._values, self.case, self.indices = dict(values), case, indices

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self._values:
            return self._values[name]
        known = ", ".join(self._values) if not name.startswith("_") else ""
        raise AttributeError(f"the design has no value {name!r}; it has {known}")

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={shown(value)}" for name, value in self._values.items())
        return f"case {self.case} ({values})"


class Axis(NamedTuple):
    """An axis of a design: a dimension, and the values that change along it."""

    name: str
    """Name of the dimension."""

    values: dict[str, Any]
    """One sequence per name: a `range`, an array of numbers whose first dimension is the axis, or a
    tuple of texts or other data."""

    @property
    def size(self) -> int:
        """Number of values along the axis."""
        return len(next(iter(self.values.values())))


class Box(NamedTuple):
    """Cases that were added together: all indices from `lower` to `upper`, in C order."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of indices along each axis."""
        return tuple(b - a for a, b in zip(self.lower, self.upper, strict=True))

    @property
    def case_count(self) -> int:
        """Number of cases."""
        return math.prod(self.sizes)


class Design:
    """Axes, and the boxes of cases in the order of their numbers."""

    def __init__(
        self, axes: Sequence[Axis], boxes: Sequence[Box] = (), order: Sequence[int] = ()
    ) -> None:
        """Combine axes.

        Args:
            axes: The axes, in the order of the dimensions of results.
            boxes: Boxes of cases; one with all points by default.
            order: Axes from the slowest to the fastest in the numbering of cases; as given by
                default.
        """
        self.axes = tuple(axes)
        self.shape = tuple(axis.size for axis in self.axes)
        self.order = tuple(order) or tuple(range(len(self.axes)))
        self.boxes = tuple(boxes) or (Box((0,) * len(self.axes), self.shape),)
        ends = np.cumsum([box.case_count for box in self.boxes], dtype=np.int64)
        self._starts = [0, *ends[:-1].tolist()]
        self.count = int(ends[-1])

    @classmethod
    def of(cls, given: Any) -> "Design":
        """Return a design as users write it.

        Args:
            given: A mapping from names to values for a grid, in which a tuple of names has values
                that change together; or a table with one row per case (a list of mappings, or a
                `pandas.DataFrame`).

        Raises:
            ModelError: If names or values cannot be those of a design.
        """
        if isinstance(given, Design):
            return given
        axes = []
        if isinstance(given, Mapping):
            for key, values in given.items():
                axes.append(_axis(key, values))
        elif hasattr(given, "columns") and hasattr(given, "to_dict"):
            columns = {str(name): np.asarray(given[name]) for name in given.columns}
            axes.append(Axis("case", {n: _values(n, column) for n, column in columns.items()}))
        elif isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
            axes.append(_listed(given))
        else:
            raise ModelError(
                f"design: expected values by name, or a list of points, got {shown(given)}; write "
                "design={'payload': [0.0, 1.0], 'draw': range(10)}"
            )
        if not axes:
            raise ModelError("design: expected a name or more, got none; name what differs")
        names = [name for axis in axes for name in axis.values]
        dimensions = [axis.name for axis in axes]
        for listed in (names, dimensions):
            twice = [name for name in listed if listed.count(name) > 1]
            if twice:
                raise ModelError(f"design: {twice[0]!r} is given twice; give each name one axis")
        for name in names:
            if not name or name in RESERVED or "/" in name or name.startswith("."):
                raise ModelError(
                    f"design: {name!r} cannot name a value, got one of {', '.join(RESERVED)} or a "
                    "name with a slash; choose another name"
                )
        found = cls(axes)
        if not 1 <= found.count <= MAX_CASES:
            raise DomainError("design", f"1 to {MAX_CASES} cases", f"{found.count}")
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all values of a point."""
        return tuple(name for axis in self.axes for name in axis.values)

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Names of the axes."""
        return tuple(axis.name for axis in self.axes)

    # -- numbering ---------------------------------------------------------------------------------

    def indices(self, cases: Any) -> Indices:
        """Return the indices of some cases along the axes, shape (cases, axes)."""
        numbers = np.asarray(cases, dtype=np.int64)
        found = np.empty((*numbers.shape, len(self.axes)), dtype=np.int64)
        order = list(self.order)
        for start, box in zip(self._starts, self.boxes, strict=True):
            inside = (numbers >= start) & (numbers < start + box.case_count)
            if inside.any():
                sizes = [box.sizes[k] for k in order]
                places = np.unravel_index(numbers[inside] - start, sizes)
                rows = np.empty((len(places[0]), len(order)), dtype=np.int64)
                for axis, place in zip(order, places, strict=True):
                    rows[:, axis] = place + box.lower[axis]
                found[inside] = rows
        return found

    def cases(self, indices: Any) -> Indices:
        """Return the numbers of cases by their indices, shape (..., axes)."""
        rows = np.asarray(indices, dtype=np.int64)
        found = np.full(rows.shape[:-1], -1, dtype=np.int64)
        order = list(self.order)
        for start, box in zip(self._starts, self.boxes, strict=True):
            lower, upper = np.array(box.lower), np.array(box.upper)
            inside = ((rows >= lower) & (rows < upper)).all(axis=-1)
            if inside.any():
                places = (rows[inside] - lower)[:, order]
                sizes = [box.sizes[k] for k in order]
                found[inside] = start + np.ravel_multi_index(tuple(places.T), sizes)
        return found

    def point(self, case: int, indices: Sequence[int] | None = None) -> Point:
        """Return the values of a case."""
        where = self.indices([case])[0].tolist() if indices is None else list(indices)
        values = {
            name: _entry(column, k)
            for axis, k in zip(self.axes, where, strict=True)
            for name, column in axis.values.items()
        }
        return Point(values, int(case), tuple(where))

    # -- growth ------------------------------------------------------------------------------------

    def grown(self, other: "Design") -> "Design":
        """Return the design with the cases that a larger one adds, numbered after those it has.

        Args:
            other: The same axes, with more values at their ends.

        Raises:
            ModelError: If axes differ, values changed, or some are missing.
        """
        advice = "append values to the ends of axes alone, or begin another sweep"
        if self.dimensions != other.dimensions or self.names != other.names:
            raise ModelError(
                f"design: this sweep has the axes {', '.join(self.dimensions)} with "
                f"{', '.join(self.names)}, got {', '.join(other.dimensions)} with "
                f"{', '.join(other.names)}; {advice}"
            )
        for old, new in zip(self.axes, other.axes, strict=True):
            for name, values in old.values.items():
                if not _begins_with(new.values[name], values):
                    raise ModelError(
                        f"design: {name!r} had {len(values)} values that the new ones must begin "
                        f"with, got {len(new.values[name])} others; {advice}"
                    )
        added = []
        for axis, (old_size, new_size) in enumerate(zip(self.shape, other.shape, strict=True)):
            if new_size > old_size:
                lower = (0,) * axis + (old_size,) + (0,) * (len(self.shape) - axis - 1)
                added.append(Box(lower, (*self.shape[:axis], *other.shape[axis:])))
        return Design(other.axes, (*self.boxes, *added), self.order)

    def ordered(self, slow: Sequence[int]) -> "Design":
        """Return the design with some axes slowest, so that their values change last."""
        rest = [k for k in range(len(self.axes)) if k not in slow]
        return Design(self.axes, self.boxes, (*slow, *rest))

    # -- files -------------------------------------------------------------------------------------

    def encoded(self) -> Any:
        """Return the design as plain data."""
        return {
            "axes": [
                {"name": axis.name, "values": {n: _encoded(c) for n, c in axis.values.items()}}
                for axis in self.axes
            ],
            "boxes": [[list(box.lower), list(box.upper)] for box in self.boxes],
            "order": list(self.order),
        }

    @classmethod
    def decoded(cls, data: Any) -> "Design":
        """Return the design that `encoded` described.

        Raises:
            ValueError: If it is none.
        """
        axes = [
            Axis(str(one["name"]), {str(n): _decoded(c) for n, c in one["values"].items()})
            for one in data["axes"]
        ]
        boxes = [Box(tuple(map(int, a)), tuple(map(int, b))) for a, b in data["boxes"]]
        found = cls(axes, boxes, [int(k) for k in data["order"]])
        sizes = [{len(column) for column in axis.values.values()} for axis in axes]
        fits = sorted(found.order) == list(range(len(axes))) and all(len(s) == 1 for s in sizes)
        inside = all(
            0 <= a <= b <= n
            for box in boxes
            for a, b, n in zip(box.lower, box.upper, found.shape, strict=True)
        )
        if not (fits and inside) or found.count != math.prod(found.shape):
            raise ValueError("axes and boxes of the design do not fit each other")
        return found


def case_stream(seed: int, indices: Sequence[int]) -> np.random.Generator:
    """Return the random stream of a case: Philox (Salmon et al. 2011), keyed by seed and indices.

    The key is a hash of the seed and the indices along the axes of the design, so that a stream
    depends neither on the sizes of axes nor on other cases.
    """
    key = np.random.SeedSequence(entropy=seed, spawn_key=tuple(indices))
    return np.random.Generator(np.random.Philox(key))


# -- values ----------------------------------------------------------------------------------------


def _axis(key: Any, given: Any) -> Axis:
    """Return one axis of a grid."""
    if isinstance(key, str):
        return Axis(key, {key: _values(key, given)})
    if not isinstance(key, tuple) or not key or not all(isinstance(name, str) for name in key):
        raise ModelError(
            f"design: names must be texts, or tuples of texts that change together, got "
            f"{shown(key)}"
        )
    rows: Any = np.empty((0, 0))
    if isinstance(given, np.ndarray):
        rows = given
    elif isinstance(given, Iterable):
        listed = list(given)
        if all(isinstance(row, Sized) and len(row) == len(key) for row in listed):
            rows = listed
    if isinstance(rows, np.ndarray) and (rows.ndim != 2 or rows.shape[1] != len(key)):
        raise ModelError(
            f"design: {key} expects rows of {len(key)} values, one per name, got "
            f"{shown(given)}; give an array of shape (points, {len(key)})"
        )
    columns = [
        rows[:, k] if isinstance(rows, np.ndarray) else [row[k] for row in rows]
        for k in range(len(key))
    ]
    return Axis("_".join(key), {n: _values(n, c) for n, c in zip(key, columns, strict=True)})


def _listed(rows: Sequence[Any]) -> Axis:
    """Return the one axis of a list of points."""
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        raise ModelError(
            f"design: a list has one mapping from names to values per case, got {shown(rows)}"
        )
    names = tuple(rows[0])
    for k, row in enumerate(rows):
        if set(row) != set(names):
            raise ModelError(
                f"design: every point must have the names {', '.join(map(str, names))}, point {k} "
                f"has {', '.join(map(str, row))}"
            )
    return Axis("case", {str(n): _values(str(n), [row[n] for row in rows]) for n in names})


def _values(name: str, given: Any) -> Any:
    """Return the values of a name as a range, an array of numbers, or a tuple of data."""
    if isinstance(given, range):
        found: Any = given
    elif (
        isinstance(given, (str, bytes, Mapping))
        or not hasattr(given, "__len__")
        or (isinstance(given, np.ndarray) and not given.ndim)
    ):
        try:
            found = None if isinstance(given, (str, bytes, Mapping)) else tuple(given)
        except TypeError:
            found = None
        if found is None:
            raise ModelError(
                f"design: {name!r} expects a list of values, got {shown(given)}; write [value]"
            )
        return _values(name, list(found))
    else:
        entries = list(given) if not isinstance(given, np.ndarray) else given
        try:
            array = np.asarray(entries)
        except ValueError:
            array = np.empty(0, dtype=object)
        if array.dtype.kind in "biuf" and array.ndim >= 1:
            found = np.array(array, order="C")
            if found.dtype.kind == "f" and not np.isfinite(found).all():
                raise ModelError(f"design: {name!r} holds NaN or infinity; give finite values")
        else:
            found = tuple(
                value.item() if isinstance(value, np.generic) else value for value in entries
            )
            for value in found:
                if not is_data(value):
                    raise ModelError(
                        f"design: {name!r} holds {shown(value)}, which no file can hold; give "
                        "numbers or texts, and let setup choose by them"
                    )
    if not len(found):
        raise ModelError(f"design: {name!r} expects a value or more, got none")
    return found


def _entry(column: Any, index: int) -> Any:
    """Return one value as users meet it: Python numbers, texts, arrays of their own."""
    value = column[index]
    if isinstance(value, np.ndarray):
        return value.copy()
    return value.item() if isinstance(value, np.generic) else value


def _begins_with(values: Any, first: Any) -> bool:
    """Return whether values begin with others, bit for bit."""
    if len(values) < len(first):
        return False
    head = values[: len(first)]
    if isinstance(head, tuple) or isinstance(first, tuple):
        return isinstance(head, type(first)) and [encode(x) for x in head] == [
            encode(x) for x in first
        ]
    if isinstance(head, range) and isinstance(first, range):
        return head == first
    old, new = np.asarray(first), np.asarray(head)
    return old.shape == new.shape and old.dtype == new.dtype and bool((old == new).all())


def _encoded(column: Any) -> Any:
    if isinstance(column, range):
        return {"range": [column.start, column.stop, column.step]}
    return encode(column)


def _decoded(data: Any) -> Any:
    match data:
        case {"range": [int(start), int(stop), int(step)]}:
            return range(start, stop, step)
    try:
        found = decode(data)
    except NotDataError as error:
        raise ValueError(str(error)) from error
    if not isinstance(found, (np.ndarray, tuple)):
        raise ValueError("values of the design are not a sequence")
    return found


def whole_seed(seed: Any) -> int:
    """Return a seed: a whole number of at least 0."""
    if not is_whole(seed) or int(seed) < 0:
        raise DomainError("seed", "a whole number of at least 0", shown(seed))
    return int(seed)
