"""Callees of call nodes: regions (functions, loops) and primitives (solvers, factorizations).

`Callee` is the interface of all of them. The other protocols are those of callees that can be
differentiated, counted or inspected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from tiburon.trace.count import OperationCount
    from tiburon.trace.graph import Graph


@runtime_checkable
class Callee(Protocol):
    """A function from a fixed number of floats to a fixed number of floats.

    Callees are compared by identity or by `key`: equal keys must mean equal behavior.
    """

    @property
    def name(self) -> str:
        """Short name for dumps and error messages."""

    @property
    def key(self) -> int:
        """Structural key, the same in every process."""

    @property
    def argument_count(self) -> int:
        """Number of arguments."""

    @property
    def result_count(self) -> int:
        """Number of results."""

    def evaluate(self, arguments: list[Any]) -> list[Any]:
        """Compute the results on floats, or on arrays of one float per case."""


@runtime_checkable
class DifferentiableCallee(Protocol):
    """A callee with derivative rules; both add nodes to the graph that holds the call."""

    def tangent(
        self, graph: Graph, args: list[int], results: list[int], tangents: list[int]
    ) -> list[int]:
        """Return the tangent node of each result, given that of each argument."""

    def adjoint(
        self, graph: Graph, args: list[int], results: list[int], adjoints: list[int]
    ) -> list[int]:
        """Return the adjoint node of each argument, given that of each result."""


@runtime_checkable
class CountedCallee(Protocol):
    """A callee with an operation count."""

    def count(self) -> OperationCount:
        """Return the operations of one call; of one iteration if their number is variable."""


@runtime_checkable
class ExplainingCallee(Protocol):
    """A callee that can explain a failed requirement."""

    def explain(self, arguments: list[float]) -> str | None:
        """Return the requirement that its arguments violate, None if they violate none."""


@runtime_checkable
class Region(Callee, Protocol):
    """A callee that is a graph itself."""

    @property
    def inputs(self) -> Sequence[int]:
        """Nodes of the body for the arguments, in the order of the call."""

    @property
    def graph(self) -> Graph:
        """Graph of its body."""

    @property
    def roots(self) -> Sequence[int]:
        """Nodes of the body's results."""
