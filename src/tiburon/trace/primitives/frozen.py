"""A value that derivatives take as constant."""

from __future__ import annotations

from typing import Any

from tiburon.trace.graph import Graph
from tiburon.trace.primitives.primitive import Machine, Memory, Primitive


class Frozen(Primitive):
    """Return the argument; its derivative is zero."""

    argument_count = 1
    result_count = 1

    def __init__(self) -> None:
        super().__init__("frozen")

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Copy the value."""
        m.store(found, 0, m.load(given, 0))

    def tangent(
        self, graph: Graph, args: list[int], results: list[int], tangents: list[int]
    ) -> list[int]:
        """Return zero."""
        return [graph.const(0.0)]

    def adjoint(
        self, graph: Graph, args: list[int], results: list[int], adjoints: list[int]
    ) -> list[int]:
        """Return zero."""
        return [graph.const(0.0)]


def frozen(x: Any) -> Any:
    """Return a scalar, a float or a traced value, that derivatives take as constant."""
    return Frozen().apply([x])[0]
