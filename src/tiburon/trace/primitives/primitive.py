"""The base of all primitives: one written form that is run, counted and compiled."""

from __future__ import annotations

import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tiburon.errors import DomainError, ShapeError
from tiburon.trace.array import TracedArray, as_traced
from tiburon.trace.count import OperationCount
from tiburon.trace.graph import Graph, mix, text_key
from tiburon.trace.primitives.machine import (
    CountingMachine,
    CountReached,
    DirectMachine,
    FloatMachine,
    Machine,
    Memory,
)
from tiburon.trace.value import Value, common_graph, node_of

UNROLLED_OPERATIONS = 800
"""Operations up to which native code unrolls a primitive; longer ones keep their loops."""


class Primitive(ABC):
    """A callee with one written form.

    Attributes:
        name: Name for dumps and error messages.
        form: Integers that, with the class, determine the computation.
        key: Structural key.
    """

    def __init__(self, name: str, *form: int) -> None:
        self.name = name
        self.form = form
        self.key = mix(text_key(type(self).__name__), text_key(name), *form)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    @abstractmethod
    def argument_count(self) -> int:
        """Number of arguments."""

    @property
    @abstractmethod
    def result_count(self) -> int:
        """Number of results."""

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
        found: list[Any] = [None] * self.result_count
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


class Factorization(Primitive):
    """A symmetric matrix to its factor: a handle for solving and for derivatives."""

    def tangent(
        self, graph: Graph, args: list[int], results: list[int], tangents: list[int]
    ) -> list[int]:
        """Return the tangent of the matrix, by convention that of the factor."""
        return tangents

    def adjoint(
        self, graph: Graph, args: list[int], results: list[int], adjoints: list[int]
    ) -> list[int]:
        """Return the adjoint of the matrix, by convention that of the factor."""
        return adjoints


def nodes_of(graph: Graph, values: Sequence[Any]) -> list[int]:
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
    solve: Callable[[Sequence[Any]], list[Any]],
) -> Any:
    """Solve for each column that is not zero, and put the solutions together.

    Args:
        shape: Shape of the right-hand side.
        height: Length of a solution.
        columns: The right-hand sides.
        solve: Returns the solution for one.

    Returns:
        Solutions, shape (height,) or (height, columns).
    """
    solutions = [
        [0.0] * height if all(_is_zero(x) for x in column) else solve(column) for column in columns
    ]
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
