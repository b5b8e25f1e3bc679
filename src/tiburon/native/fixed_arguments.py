"""Arguments that are the same at every call: they lie in one table and are passed to nobody.

A time loop hands masses, gravity and commands down to its steps, these to the dynamics. Copied at
each call they take as long as much of the dynamics itself. What all calls of a function give it
from one and the same number of the whole program, it reads from the table `%fixed` instead, where
the program has put it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiburon.native.tape import calls_few_functions
from tiburon.record import record
from tiburon.trace.callee import Callee
from tiburon.trace.graph import Graph
from tiburon.trace.program import Program
from tiburon.trace.regions import FixedLoop, FunctionRegion, WhileLoop
from tiburon.trace.regions.region import GraphRegion

TABLE = "%fixed"
"""Pointer to the table, in every function that needs it."""

Places = tuple[int | None, ...]
"""Slot of the table for each argument of a callee, None for those that are passed."""

# what two calls give differently
_VARYING = -1


@record
class FixedArguments:
    """Which numbers of a program are in the table, and who reads them there.

    Attributes:
        slots: Slot of each such number, by its node in the program.
        size: Slots in the table.
    """

    slots: Mapping[int, int]
    size: int
    callees: Mapping[int, Places]
    """Places of the arguments of each callee, by its key."""

    def places(self, callee: Callee) -> Places:
        """Return where the arguments of a callee are fixed."""
        return self.callees.get(callee.key) or (None,) * callee.argument_count


NOTHING_FIXED = FixedArguments({}, 0, {})


def fixed_arguments(program: Program, known: Mapping[int, int], taken: int = 0) -> FixedArguments:
    """Find the arguments that are the same at every call.

    Args:
        program: The program.
        known: Slots of nodes that are in the table anyway.
        taken: Slots that are taken.
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
    """The calls of a program, met again until no argument turns out to vary any more."""

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
        """Follow the calls of one function; tell whether something new was learned."""
        if key in self._met:
            return False
        self._met.add(key)
        if key not in self._calls:
            self._calls[key] = [
                (graph.payloads[node], graph.args[node])
                for node in graph.live(roots)
                if graph.ops[node] == "call"
            ]
        learned = False
        callees: dict[int, Callee] = {}
        for callee, args in self._calls[key]:
            callees[callee.key] = callee
            learned |= self._learn(callee, [own.get(a, _VARYING) for a in args])
        for callee in callees.values():
            if isinstance(callee, GraphRegion):
                inside = self._inside(callee)
                learned |= self._meet(callee.key, callee.graph, callee.roots, inside)
        return learned

    def _learn(self, callee: Callee, nodes: list[int]) -> bool:
        """Compare what a call gives with what other calls do."""
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
        """Return the node of the program for each input of a body that is fixed there."""
        nodes = self._found[region.key]
        changing = len(region.states) if isinstance(region, (WhileLoop, FixedLoop)) else 0
        given = zip(region.inputs[changing:], nodes[changing:], strict=True)
        return {inner: node for inner, node in given if node != _VARYING}


def _reads_table(callee: Callee) -> bool:
    """Tell whether a callee can read from the table: not primitives, and not tapes."""
    if isinstance(callee, FunctionRegion):
        return not calls_few_functions(callee.graph, callee.roots)
    return isinstance(callee, GraphRegion)
