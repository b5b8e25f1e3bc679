"""The base of all primitives, and the language they are written in.

A primitive is written once, against `Machine`: memory, counted loops and arithmetic. On the
`DirectMachine` it runs on floats, on arrays of one float per case, or on traced values (which
inlines it into a graph); on the `CountingMachine` it counts its operations; the machines of
`tiburon.native` write it as LLVM assembly or C, with straight-line code or real loops. The order of
operations is the same on all.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import operator
import weakref
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from tiburon.errors import DomainError, ShapeError, TraceError
from tiburon.trace.array import TracedArray, as_traced
from tiburon.trace.count import OperationCount
from tiburon.trace.graph import FLOAT_FUNCTIONS, Graph, Nodes, mix, text_key
from tiburon.trace.value import Value, binary, common_graph, node_of, require, unary, where

Number = Any
"""A float in the machine's own form."""
Truth = Any
"""A truth value in the machine's own form."""
Index = Any
"""An integer, or an object that adds, subtracts and multiplies like one."""
Memory = Any
"""A row of floats."""
Table = Any
"""A table of constant integers."""


class Machine(Protocol):
    """Something that runs, counts or writes the operations of a primitive."""

    def constant(self, value: float) -> Number:
        """Return a constant."""

    def add(self, a: Number, b: Number) -> Number:
        """Return a + b."""

    def mul(self, a: Number, b: Number) -> Number:
        """Return a * b."""

    def div(self, a: Number, b: Number) -> Number:
        """Return a / b."""

    def add_product(self, a: Number, b: Number, c: Number) -> Number:
        """Return a * b + c, rounded once in native code."""

    def sub_product(self, a: Number, b: Number, c: Number) -> Number:
        """Return c - a * b, rounded once in native code."""

    def sqrt(self, a: Number) -> Number:
        """Return the square root."""

    def less(self, a: Number, b: Number) -> Truth:
        """Return a < b."""

    def less_equal(self, a: Number, b: Number) -> Truth:
        """Return a <= b."""

    def either(self, p: Truth, r: Truth) -> Truth:
        """Return p or r."""

    def both(self, p: Truth, r: Truth) -> Truth:
        """Return p and r."""

    def choose(self, condition: Truth, a: Number, b: Number) -> Number:
        """Return a where the condition holds, else b."""

    def require(self, condition: Truth, value: Number, message: str) -> Number:
        """Return the value where the condition holds, else NaN (or raise, on plain floats)."""

    def memory(self, size: int) -> Memory:
        """Return a row of floats without content."""

    def load(self, memory: Memory, place: Index) -> Number:
        """Read a float."""

    def store(self, memory: Memory, place: Index, value: Number) -> None:
        """Write a float."""

    def fetch(self, address: Number, place: Number) -> Number:
        """Read a float of an external row, at an index held as a float."""

    def call(self, address: Number, memory: Memory, number: int, size: int) -> None:
        """Let an external function change a row of floats; see `OutsideFunction`."""

    def table(self, values: Sequence[int]) -> Table:
        """Return a row of constants."""

    def lookup(self, table: Table, place: Index) -> Index:
        """Read a constant."""

    def index(self, value: Number) -> Index:
        """Return a whole number as an index, in each case its own: to load, store and look up."""

    def number(self, place: Index) -> Number:
        """Return an index that is the same in all cases as a float."""

    def largest(self, value: Number, limit: int) -> Index:
        """Return the largest of the whole numbers of all cases, at most `limit`: to bound loops."""

    @property
    def is_wide(self) -> bool:
        """Whether values are vectors of several cases; then it pays to unroll loops over them."""

    def loop(
        self, start: Index, stop: Index, *, down: bool = False, independent: bool = False
    ) -> Iterator[Index]:
        """Run the body of a `for` for each index start <= i < stop, from the top if `down`.

        `independent` states that no iteration reads or writes data that another one writes: native
        code may then vectorize the loop, with the same bits.
        """

    def abreast(self, count: int) -> Iterator[Index]:
        """Run the body of a `for` for each index 0 <= i < count, which do not depend on each other.

        Native code for one case computes the body in the lanes of vectors, for several indices at
        once, with the same bits. The body makes its own constants, takes no memory, and shares
        nothing with the code around it but memory, of which an index writes its own floats only.
        """

    def iterate(self, limit: int, condition: Callable[[], Truth]) -> Iterator[None]:
        """Run the body of a `for` while a condition holds in some case, at most `limit` times.

        All cases of a vector run the body as often as the last of them needs it: the body must
        leave the memory of cases whose condition fails as it is. With a limit of 1 it is a branch.
        """


class DirectMachine:
    """Run a primitive at once, on anything that NumPy's elementwise functions accept."""

    def constant(self, value: float) -> Number:
        """Return a constant."""
        return value

    def add(self, a: Number, b: Number) -> Number:
        """Return a + b."""
        return a + b

    def mul(self, a: Number, b: Number) -> Number:
        """Return a * b."""
        return a * b

    def div(self, a: Number, b: Number) -> Number:
        """Return a / b; infinity or NaN where b is 0."""
        if isinstance(a, Value) or isinstance(b, Value):
            return a / b
        if not _is_array(a, b):
            return FLOAT_FUNCTIONS["div"](float(a), float(b))
        with np.errstate(all="ignore"):
            return a / b

    def add_product(self, a: Number, b: Number, c: Number) -> Number:
        """Return a * b + c."""
        return a * b + c

    def sub_product(self, a: Number, b: Number, c: Number) -> Number:
        """Return c - a * b."""
        return c - a * b

    def sqrt(self, a: Number) -> Number:
        """Return the square root."""
        if isinstance(a, Value):
            return np.sqrt(a)
        if not _is_array(a):
            return FLOAT_FUNCTIONS["sqrt"](float(a))
        with np.errstate(all="ignore"):
            return np.sqrt(a)

    def less(self, a: Number, b: Number) -> Truth:
        """Return a < b."""
        return a < b

    def less_equal(self, a: Number, b: Number) -> Truth:
        """Return a <= b."""
        return a <= b

    def either(self, p: Truth, r: Truth) -> Truth:
        """Return p or r."""
        return p | r

    def both(self, p: Truth, r: Truth) -> Truth:
        """Return p and r."""
        return p & r

    def choose(self, condition: Truth, a: Number, b: Number) -> Number:
        """Return a where the condition holds, else b."""
        if _is_array(condition, a, b):
            return np.where(condition, a, b)
        return where(condition, a, b)

    def require(self, condition: Truth, value: Number, message: str) -> Number:
        """Return the value where the condition holds, else NaN."""
        if common_graph((condition, value)) is not None:
            return require(condition, value, message)
        return self.choose(condition, value, np.nan)

    def memory(self, size: int) -> Memory:
        """Return a row of floats without content.

        They are NaN: a case may keep what it never reads while others change.
        """
        return [math.nan] * size

    def load(self, memory: Memory, place: Index) -> Number:
        """Read a float."""
        if isinstance(place, np.ndarray):
            places = np.unique(place)
            found = np.stack([np.broadcast_to(memory[k], place.shape) for k in places])
            return np.take_along_axis(found, np.searchsorted(places, place)[None], axis=0)[0]
        return memory[place]

    def store(self, memory: Memory, place: Index, value: Number) -> None:
        """Write a float."""
        if isinstance(place, np.ndarray):
            for k in np.unique(place):
                old = np.nan if memory[k] is None else memory[k]
                memory[k] = np.where(place == k, value, old)
        else:
            memory[place] = value

    def fetch(self, address: Number, place: Number) -> Number:
        """Read a float of an external row, for each case from its own."""
        if _is_array(address, place):
            where = np.broadcast_arrays(address, place)
            found = [read_outside(a, k) for a, k in zip(*map(np.ravel, where), strict=True)]
            return np.array(found).reshape(where[0].shape)
        return read_outside(address, place)

    def call(self, address: Number, memory: Memory, number: int, size: int) -> None:
        """Let an external function change a row of floats."""
        if _is_array(address, *memory[:size]):
            raise TraceError("functions outside of a kernel take one case at a time, got several")
        row = np.array([float(x) for x in memory[:size]])
        called_outside(address)(number, row)
        memory[:size] = row.tolist()

    def table(self, values: Sequence[int]) -> Table:
        """Return a row of constants."""
        return tuple(values)

    def lookup(self, table: Table, place: Index) -> Index:
        """Read a constant."""
        return np.asarray(table)[place] if isinstance(place, np.ndarray) else table[place]

    def index(self, value: Number) -> Index:
        """Return a whole number as an index."""
        return np.asarray(value).astype(np.int64) if _is_array(value) else int(value)

    def number(self, place: Index) -> Number:
        """Return an index as a float."""
        return float(place)

    def largest(self, value: Number, limit: int) -> Index:
        """Return the largest of the whole numbers of all cases."""
        return min(int(np.max(value)), limit)

    @property
    def is_wide(self) -> bool:
        """Whether values are vectors of several cases."""
        return False

    def loop(
        self, start: Index, stop: Index, *, down: bool = False, independent: bool = False
    ) -> Iterator[Index]:
        """Run the body for each index."""
        return iter(range(stop - 1, start - 1, -1) if down else range(start, stop))

    def abreast(self, count: int) -> Iterator[Index]:
        """Run the body for each index."""
        return self.loop(0, count)

    def iterate(self, limit: int, condition: Callable[[], Truth]) -> Iterator[None]:
        """Run the body while the condition holds in some case."""
        for _ in range(limit):
            holds = condition()
            if isinstance(holds, Value):
                raise TraceError("a primitive that iterates cannot be inlined into a graph")
            if not np.any(holds):
                return
            yield


class FloatMachine(DirectMachine):
    """Run a primitive on plain floats; raise errors for requirements that fail."""

    # functions of Python itself take half the time of methods
    add: Any = staticmethod(operator.add)
    mul: Any = staticmethod(operator.mul)
    less: Any = staticmethod(operator.lt)
    less_equal: Any = staticmethod(operator.le)
    load: Any = staticmethod(operator.getitem)
    store: Any = staticmethod(operator.setitem)

    def choose(self, condition: Truth, a: Number, b: Number) -> Number:
        """Return a where the condition holds, else b."""
        return a if condition else b

    def require(self, condition: Truth, value: Number, message: str) -> Number:
        """Return the value if the condition holds.

        Raises:
            DomainError: If it does not.
        """
        if not condition:
            raise DomainError("matrix", message, f"a pivot of {value:.3g}")
        return value


class CountReached(Exception):
    """The limit of the operation count was reached."""


class CountingMachine(DirectMachine):
    """Count the operations of a primitive; all values are zero."""

    def __init__(self, limit: float = math.inf) -> None:
        """Start at zero.

        Args:
            limit: Number of operations beyond which to raise `CountReached`.
        """
        self._counts: Counter[str] = Counter()
        self._left = limit

    def count(self) -> OperationCount:
        """Return the counts so far."""
        return OperationCount(
            multiplications=self._counts["multiplications"],
            additions=self._counts["additions"],
            divisions=self._counts["divisions"],
            square_roots=self._counts["square_roots"],
            selections=self._counts["selections"],
        )

    def _counted(self, *names: str) -> Number:
        self._counts.update(names)
        self._left -= len(names)
        if self._left < 0:
            raise CountReached
        return 0.0

    def add(self, a: Number, b: Number) -> Number:
        """Count a sum."""
        return self._counted("additions")

    def mul(self, a: Number, b: Number) -> Number:
        """Count a product."""
        return self._counted("multiplications")

    def div(self, a: Number, b: Number) -> Number:
        """Count a division."""
        return self._counted("divisions")

    def add_product(self, a: Number, b: Number, c: Number) -> Number:
        """Count a product and a sum."""
        return self._counted("multiplications", "additions")

    def sub_product(self, a: Number, b: Number, c: Number) -> Number:
        """Count a product and a difference."""
        return self._counted("multiplications", "additions")

    def sqrt(self, a: Number) -> Number:
        """Count a square root."""
        return self._counted("square_roots")

    def less(self, a: Number, b: Number) -> Truth:
        """Count a comparison; it holds, so that loops run to their full length."""
        self._counted("selections")
        return True

    def less_equal(self, a: Number, b: Number) -> Truth:
        """Count a comparison; it fails, so that nothing counts as negligible."""
        self._counted("selections")
        return False

    def either(self, p: Truth, r: Truth) -> Truth:
        """Count an operation on truth values."""
        self._counted("selections")
        return False

    def both(self, p: Truth, r: Truth) -> Truth:
        """Count an operation on truth values."""
        self._counted("selections")
        return False

    def choose(self, condition: Truth, a: Number, b: Number) -> Number:
        """Count a choice."""
        return self._counted("selections")

    def iterate(self, limit: int, condition: Callable[[], Truth]) -> Iterator[None]:
        """Count one iteration; iterations are never short."""
        if self._left < math.inf:
            raise CountReached
        condition()
        yield

    def fetch(self, address: Number, place: Number) -> Number:
        """Return zero: moves are not counted."""
        return 0.0

    def call(self, address: Number, memory: Memory, number: int, size: int) -> None:
        """Count nothing."""

    def largest(self, value: Number, limit: int) -> Index:
        """Return the limit, so that loops run to their full length."""
        return limit

    def require(self, condition: Truth, value: Number, message: str) -> Number:
        """Count a choice."""
        return self._counted("selections")


_OUTSIDE: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""External rows by address; weak references, so that owners keep them alive."""


def address_of(row: Any) -> float:
    """Register an array of floats and return its address, valid as long as the array lives.

    Args:
        row: Float64, contiguous; the caller must keep it alive while code uses the address.

    Raises:
        DomainError: If no float can hold the address exactly.
    """
    place = int(row.ctypes.data)
    if place >= 2**53:
        raise DomainError("table", "memory below 2^53, whose addresses floats hold", f"{place}")
    _OUTSIDE[place] = row
    return float(place)


def read_outside(address: float, place: float) -> float:
    """Return one float of an array that `address_of` registered.

    Raises:
        DomainError: If no such array is alive.
    """
    row = _OUTSIDE.get(int(address))
    if row is None:
        raise DomainError("table", "the address of a living array", f"address {address:.0f}")
    return float(row.reshape(-1)[int(place)])


OUTSIDE_CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
"""What code calls: address of a row of floats, number of the call, length of the row."""


class OutsideFunction:
    """A Python function that code calls; the caller must keep it alive while code uses it.

    Attributes:
        call: Takes the number of the call and an array, which it changes in place. No exception may
            leave it, since nothing around a kernel could receive it.
        handle: Its address, as code takes it.
    """

    def __init__(self, call: Callable[[int, Any], None]) -> None:
        """Take a function.

        Raises:
            DomainError: If no float can hold the address exactly.
        """
        self.call = call

        def called(address: int, number: int, size: int) -> None:
            row: Any = (ctypes.c_double * size).from_address(address)
            call(number, np.frombuffer(row, dtype=np.float64))

        self._native = OUTSIDE_CALL(called)
        place = ctypes.cast(self._native, ctypes.c_void_p).value or 0
        if place >= 2**53:
            raise DomainError("function", "an address below 2^53, as floats hold it", f"{place}")
        _FUNCTIONS[place] = self
        self.handle = float(place)


_FUNCTIONS: weakref.WeakValueDictionary[int, OutsideFunction] = weakref.WeakValueDictionary()
"""External functions by address; weak references, so that owners keep them alive."""


def called_outside(address: float) -> Callable[[int, Any], None]:
    """Return the function at an address.

    Raises:
        DomainError: If no such function is alive.
    """
    known = _FUNCTIONS.get(int(address))
    if known is None:
        raise DomainError("function", "the address of a living function", f"address {address:.0f}")
    return known.call


def _is_array(*values: Any) -> bool:
    return any(isinstance(value, np.ndarray) and value.ndim for value in values) and not any(
        isinstance(value, Value) for value in values
    )


UNROLLED_OPERATIONS = 800
"""Operations up to which native code unrolls a primitive; longer ones keep their loops."""


class Primitive(ABC):
    """A callee with one written form.

    Attributes:
        name: Name for dumps and error messages.
        form: Integers that, with the class, determine the computation.
        key: Structural key.
        argument_count: Number of floats it takes.
        result_count: Number of floats it returns.
    """

    argument_count: int
    result_count: int

    def __init__(self, name: str, *form: int) -> None:
        self.name = name
        self.form = form
        self.key = mix(text_key(type(self).__name__), text_key(name), *form)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)

    @abstractmethod
    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Run or write the primitive on a machine.

        Args:
            m: The machine.
            given: The arguments; not to be written.
            found: Where the results go.
        """

    def evaluate(self, arguments: list[Any]) -> list[Any]:
        """Compute the results on floats or on arrays of one float per case."""
        return self._run(DirectMachine(), arguments)

    def _run(self, m: Machine, given: Any) -> list[Any]:
        found: list[Any] = [math.nan] * self.result_count
        self.write(m, given, found)
        return found

    @functools.cached_property
    def _counted(self) -> OperationCount:
        m = CountingMachine()
        self._run(m, [0.0] * self.argument_count)
        return m.count()

    def count(self) -> OperationCount:
        """Count the operations of one call."""
        return self._counted

    @functools.cached_property
    def is_short(self) -> bool:
        """Whether it takes at most `UNROLLED_OPERATIONS`; found out without counting them all."""
        try:
            self._run(CountingMachine(UNROLLED_OPERATIONS), [0.0] * self.argument_count)
        except CountReached:
            return False
        return True

    def explain(self, arguments: list[float]) -> str | None:
        """Return why there is no solution for some floats, None if there is one."""
        try:
            self._run(FloatMachine(), [float(argument) for argument in arguments])
        except DomainError as error:
            return f"{self.name}: {error}"
        return None

    def apply(self, values: Sequence[Any], *, inline: bool = False) -> list[Any]:
        """Compute on floats, or add a call to the graph of the traced values.

        Args:
            values: Floats and traced values.
            inline: Whether to add the operations themselves instead of a call.

        Returns:
            The results: floats, or traced values.

        Raises:
            DomainError: If plain floats cannot be solved, such as a singular matrix.
        """
        graph = common_graph(tuple(values))
        if graph is None:
            return [float(x) for x in self._run(FloatMachine(), [float(x) for x in values])]
        if inline:
            return self._run(DirectMachine(), list(values))
        results = graph.call(self, nodes_of(graph, values))
        return [Value(graph, node) for node in results]


class ElementaryPrimitive(Primitive):
    """A primitive that is differentiated operation by operation."""

    @functools.cached_property
    def _inlined(self) -> Any:
        """Its operations as a function, which has derivative rules."""
        from tiburon.trace.regions import FunctionRegion

        graph = Graph(None)
        inputs = [graph.input(0, k) for k in range(self.argument_count)]
        found = self._run(DirectMachine(), [Value(graph, node) for node in inputs])
        return FunctionRegion(self.name, graph, inputs, nodes_of(graph, found))

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Return the tangents of the results: one call of the derived function."""
        found: list[int] = self._inlined.tangent(graph, args, results, tangents)
        return found

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Return the adjoints of the arguments: one call of the derived function."""
        found: list[int] = self._inlined.adjoint(graph, args, results, adjoints)
        return found


class ConstantPrimitive(Primitive):
    """Results that derivatives take as constant, such as values read from tables."""

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Return zeros."""
        return [graph.const(0.0)] * self.result_count

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Return zeros."""
        return [graph.const(0.0)] * self.argument_count


class Factorization(Primitive):
    """A matrix to its factor: a handle for solving and for derivatives."""

    @property
    def matrix_size(self) -> int:
        """Number of arguments that are elements of the matrix; they come first."""
        return self.argument_count

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Return the tangent of the matrix, padded: by convention that of the factor."""
        zeros = [graph.const(0.0)] * (self.result_count - self.matrix_size)
        return [*tangents[: self.matrix_size], *zeros]

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Return the adjoint of the matrix, by convention that of the factor."""
        zeros = [graph.const(0.0)] * (self.argument_count - self.matrix_size)
        return [*adjoints[: self.matrix_size], *zeros]


class SymmetricSolve(Primitive):
    """Solution of K X = B with a symmetric K: its factor, then the rows of B, to the rows of X.

    Attributes:
        stored: Number of elements of the factor.
        entries: Row and column of the elements of K that the factor was made of, in order.
        columns: Number of columns of X.
    """

    stored: int
    entries: Sequence[tuple[int, int]]
    columns = 1

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Return dX = K^-1 (dB - dK X)."""
        right, width = list(tangents[self.stored :]), self.columns
        for (i, j), change in zip(self.entries, tangents, strict=False):
            for k in range(width):
                a, b = i * width + k, j * width + k
                right[a] = graph.sub(right[a], graph.mul(change, results[b]))
                if i != j:
                    right[b] = graph.sub(right[b], graph.mul(change, results[a]))
        return self._again(graph, args, right)

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Return W = K^-1 Xbar for B and -(W X^T + X W^T) for K, once on the diagonal."""
        w, x, width = self._again(graph, args, adjoints), results, self.columns
        matrix = []
        for i, j in self.entries:
            rows = range(i * width, (i + 1) * width), range(j * width, (j + 1) * width)
            terms = [(w[a], x[b]) for a, b in zip(*rows, strict=True)]
            if i != j:
                terms += [(w[b], x[a]) for a, b in zip(*rows, strict=True)]
            matrix.append(graph.neg(dot(graph, terms)))
        # elements of the factor beyond those of K
        fill = [graph.const(0.0)] * (self.stored - len(matrix))
        return [*matrix, *fill, *w]

    def _again(self, graph: Graph, args: Nodes, right: Nodes) -> Nodes:
        if is_zero_row(graph, right):
            return right
        return graph.call(self, [*args[: self.stored], *right])

    def solve_columns(self, factor: Sequence[Any], name: str, b: Any, *, inline: bool) -> Any:
        """Solve for each column of a right-hand side, a vector or a matrix; errors name it."""
        shape, columns = right_hand_sides(name, self.result_count, b)
        return solve_columns(
            shape,
            self.result_count,
            columns,
            lambda some: [self.apply([*factor, *column], inline=inline) for column in some],
        )


def nodes_of(graph: Graph, values: Sequence[Any]) -> Nodes:
    """Return the nodes of floats and traced values."""
    found = []
    for value in values:
        node = node_of(graph, value)
        if node is None:
            raise TypeError(f"expected a number or a traced value, got {type(value).__name__}")
        found.append(graph.to_float(node))
    return found


def numbers_of(array: Any) -> list[Any]:
    """Return the elements of an array of floats or traced values, in C order."""
    if isinstance(array, TracedArray):
        return list(array.view(np.ndarray).reshape(-1))
    if isinstance(array, np.ndarray) and array.dtype != object:
        return [float(x) for x in array.reshape(-1)]
    return list(as_traced(array).view(np.ndarray).reshape(-1))


def array_of(values: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Return elements as an array: traced if any of them is."""
    if any(isinstance(value, Value) for value in values):
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array.reshape(shape).view(TracedArray)
    return np.array(values, dtype=np.float64).reshape(shape)


def shape_of(array: Any) -> tuple[int, ...]:
    """Return the shape of an array, nested list or scalar."""
    return tuple(np.shape(array if isinstance(array, np.ndarray) else as_traced(array)))


def square_size(name: str, matrix: Any) -> int:
    """Return the size of a square matrix.

    Raises:
        ShapeError: If it is none.
    """
    shape = shape_of(matrix)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ShapeError(name, "a square matrix", shape)
    return shape[0]


def right_hand_sides(name: str, size: int, b: Any) -> tuple[tuple[int, ...], list[list[Any]]]:
    """Return the shape of a right-hand side and its columns.

    Raises:
        ShapeError: If it is neither a vector nor a matrix of the right height.
    """
    shape = shape_of(b)
    if len(shape) not in (1, 2) or shape[0] != size:
        raise ShapeError(name, f"({size},) or ({size}, columns)", shape)
    flat = numbers_of(b)
    if len(shape) == 1:
        return shape, [flat]
    return shape, [flat[column :: shape[1]] for column in range(shape[1])]


def solve_columns(
    shape: tuple[int, ...],
    height: int,
    columns: Sequence[Sequence[Any]],
    solve: Callable[[Sequence[Sequence[Any]]], list[list[Any]]],
) -> Any:
    """Solve for the columns that are not zero, and put the solutions together.

    Args:
        shape: Shape of the right-hand side.
        height: Length of a solution.
        columns: The right-hand sides.
        solve: Returns the solutions for some of them.

    Returns:
        Solutions, shape (height,) or (height, columns).
    """
    some = [k for k, column in enumerate(columns) if not all(map(_is_zero, column))]
    solutions = [[0.0] * height for _ in columns]
    if some:
        for k, found in zip(some, solve([columns[k] for k in some]), strict=True):
            solutions[k] = found
    if len(shape) == 1:
        return array_of(solutions[0], (height,))
    flat = list(itertools.chain.from_iterable(zip(*solutions, strict=True)))
    return array_of(flat, (height, shape[1]))


def _is_zero(value: Any) -> bool:
    # only values that are known to be zero while tracing count
    return not isinstance(value, Value) and value == 0.0


def dot(graph: Graph, pairs: Sequence[tuple[int, int]]) -> int:
    """Return the node of a sum of products."""
    total = graph.const(0.0)
    for a, b in pairs:
        total = graph.add(total, graph.mul(a, b))
    return total


def is_zero_row(graph: Graph, nodes: Sequence[int]) -> bool:
    """Return whether all nodes are the constant 0."""
    return all(graph.constant_of(node) == 0.0 for node in nodes)


# squares of values outside of this range overflow or lose digits; powers of two scale exactly
_SMALL, _LARGE = 2.0**-480, 2.0**480
_DOWN, _UP = 2.0**-600, 2.0**600


def norm(x: Any) -> Any:
    """Return the Euclidean length of a vector.

    Its derivative at zero is zero, the mean of all one-sided ones, so that friction and drag laws
    start from rest without NaN.

    Args:
        x: Floats or traced values, any shape; treated as one vector.

    Returns:
        The length, in the unit of x: a float or a traced value.
    """
    numbers = [value for value in numbers_of(x) if isinstance(value, Value) or value != 0.0]
    if not numbers:
        return 0.0
    largest = unary("abs", numbers[0])
    if len(numbers) == 1:
        return largest
    for value in numbers[1:]:
        largest = binary("max", largest, unary("abs", value))
    small, large = largest < _SMALL, largest > _LARGE
    scale = where(small, _UP, where(large, _DOWN, 1.0))
    back = where(small, _DOWN, where(large, _UP, 1.0))
    total: Any = 0.0
    for value in numbers:
        scaled = value * scale
        total = total + scaled * scaled
    # the argument of the root is never zero: the rule for its derivative divides by it
    at_zero = total == 0.0
    length = unary("sqrt", where(at_zero, 1.0, total)) * back
    return where(at_zero, 0.0, length)
