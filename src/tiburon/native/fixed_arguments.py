"""Fixed arguments: arguments that have the same value at every call are not passed.

A time loop passes masses, gravity and controls to its steps, and these pass them to the dynamics.
Copying them at each call takes a large part of the time of the dynamics. An argument for which all
calls of a function pass the same value of the program is read from the table `%fixed` instead,
which the program fills once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiburon.native.tape import calls_few_functions
from tiburon.record import record
from tiburon.trace.graph import Callee, Graph
from tiburon.trace.program import Program
from tiburon.trace.regions import (
    FixedLoop,
    FunctionRegion,
    GraphRegion,
    OnceIfNeeded,
    WhileLoop,
)
from tiburon.trace.regions.in_turn import CallsInTurn
from tiburon.trace.regions.lanes import LanesRegion

TABLE = "%fixed"
"""Pointer to the table, in every function that reads it."""

Places = tuple[int | None, ...]
"""Slot of the table for each argument of a callee, None for those that are passed."""

# an argument for which two calls pass different values
_VARYING = -1


@record
class FixedArguments:
    """The table of fixed arguments, and which callees read it.

    Attributes:
        slots: Slot of each value, by its node in the program.
        size: Number of slots in the table.
    """

    slots: Mapping[int, int]
    size: int
    callees: Mapping[int, Places]
    """Slots of the arguments of each callee, by its key."""

    def places(self, callee: Callee) -> Places:
        """Return the slot of each argument of a callee."""
        return self.callees.get(callee.key) or (None,) * callee.argument_count


NOTHING_FIXED = FixedArguments({}, 0, {})


def fixed_arguments(program: Program, known: Mapping[int, int], taken: int = 0) -> FixedArguments:
    """Find the fixed arguments of all callees.

    Args:
        program: The program.
        known: Slots of nodes that are in the table already.
        taken: Number of slots in use.
    """
    found = _Search(program).run()
    slots = dict(known)
    size = taken
    callees: dict[int, Places] = {}
    for key, nodes in found.items():
        for node in nodes:
            if node != _VARYING and node not in slots:
                slots[node] = size
                size += 1
        callees[key] = tuple(None if node == _VARYING else slots[node] for node in nodes)
    return FixedArguments(slots, size, callees)


def callee_parameters(places: Places) -> str:
    """Write the parameters of a callee's LLVM function."""
    parameters = "ptr noalias readonly %in, ptr noalias %out"
    if all(place is None for place in places):
        return parameters
    return f"{parameters}, ptr noalias readonly {TABLE}"


class _Search:
    """Fixed-point iteration over the calls of a program, until no argument turns out to vary."""

    def __init__(self, program: Program) -> None:
        self._program = program
        # node of the program for each argument of each callee
        self._found: dict[int, list[int]] = {}
        self._readers: dict[int, bool] = {}
        self._calls: dict[int | None, list[tuple[Callee, tuple[int, ...]]]] = {}
        self._met: set[int | None] = set()

    def run(self) -> dict[int, list[int]]:
        """Return the node of the program for each argument of each callee, or that it varies."""
        graph, roots = self._program.graph, self._program.roots
        own = {node: node for node in graph.live(roots) if graph.ops[node] != "const"}
        while self._meet(None, graph, roots, own):
            self._met.clear()
        return self._found

    def _meet(
        self, key: int | None, graph: Graph, roots: Iterable[int], own: Mapping[int, int]
    ) -> bool:
        """Visit the calls of one function; return whether an argument turned out to vary."""
        if key in self._met:
            return False
        self._met.add(key)
        if key not in self._calls:
            self._calls[key] = [
                call
                for node in graph.live(roots)
                if graph.ops[node] == "call"
                for call in _single_calls(graph.payloads[node], graph.args[node])
            ]
        changed = False
        callees: dict[int, Callee] = {}
        for callee, args in self._calls[key]:
            callees[callee.key] = callee
            changed |= self._compare(callee, [own.get(a, _VARYING) for a in args])
        for callee in callees.values():
            if isinstance(callee, GraphRegion):
                inside = self._inside(callee)
                changed |= self._meet(callee.key, callee.graph, callee.roots, inside)
        return changed

    def _compare(self, callee: Callee, nodes: list[int]) -> bool:
        """Compare the arguments of a call with those of other calls."""
        if callee.key not in self._readers:
            self._readers[callee.key] = _reads_table(callee)
        if not self._readers[callee.key]:
            nodes = [_VARYING] * len(nodes)
        known = self._found.get(callee.key)
        if known is None:
            self._found[callee.key] = nodes
            return True
        met = [a if a == b else _VARYING for a, b in zip(known, nodes, strict=True)]
        self._found[callee.key] = met
        return met != known

    def _inside(self, region: GraphRegion) -> dict[int, int]:
        """Return the node of the program for each fixed input of a body."""
        if isinstance(region, CallsInTurn):
            return {}
        nodes = self._found[region.key]
        changing = len(region.states) if isinstance(region, (WhileLoop, FixedLoop)) else 0
        given = zip(region.inputs[changing:], nodes[changing:], strict=True)
        return {inner: node for inner, node in given if node != _VARYING}


def _single_calls(callee: Callee, args: tuple[int, ...]) -> list[tuple[Callee, tuple[int, ...]]]:
    """Return callee and arguments of a call, or of each call in lanes."""
    if not isinstance(callee, LanesRegion):
        return [(callee, args)]
    body = callee.body
    return [(body, given) for given in callee.argument_sets(args)]


def _reads_table(callee: Callee) -> bool:
    """Return whether a callee reads from the table; primitives and tapes cannot.

    Regions that run only if needed do not: their arguments are stored only if they run. Those that
    call a function in turn read its arguments from one array.
    """
    if isinstance(callee, OnceIfNeeded | CallsInTurn):
        return False
    if isinstance(callee, FunctionRegion):
        return not calls_few_functions(callee.graph, callee.roots)
    return isinstance(callee, GraphRegion)
