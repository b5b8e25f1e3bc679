"""The tape: a program made of many calls of few functions, as rows of a table.

Each row names a class (one compiled function) and says where its operands lie and where its results
go. Code grows with the number of classes, the table with the number of calls, so a chain of a
thousand links compiles as quickly as one of fifty.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tiburon.record import record
from tiburon.trace.graph import Graph
from tiburon.trace.lower import Instruction
from tiburon.trace.program import Input, Output, Program
from tiburon.trace.regions import FunctionRegion

LEAST_CALLS = 24
"""Calls from which on a program may be a tape."""

CALLS_PER_CLASS = 2
"""Calls per function, on the average, from which on a table is shorter than the calls."""

Kind = tuple[str, int]
"""Where an operand lies: ("work", 0), ("constant", 0) or ("parameter", number of the input)."""

Leaf = tuple[int, int]
"""Number of an input, and element in it."""


def is_tape(program: Program) -> bool:
    """Tell whether a program is made of many calls of few functions."""
    return calls_few_functions(program.graph, program.roots)


def calls_few_functions(graph: Graph, roots: Iterable[int]) -> bool:
    """Tell whether nodes are made of many calls of few functions."""
    calls = [graph.payloads[n] for n in graph.live(roots) if graph.ops[n] == "call"]
    if len(calls) < LEAST_CALLS or not all(isinstance(c, FunctionRegion) for c in calls):
        return False
    return len(calls) >= CALLS_PER_CLASS * len({callee.key for callee in calls})


@record
class Operand:
    """One operand of a class: a number at a fixed distance from one of the row's bases."""

    node: int
    """Its node in the instructions of the class."""

    kind: Kind
    base: int
    """Which of the row's bases it is counted from."""

    offset: int


@dataclass(slots=True)
class TapeClass:
    """One function of the tape."""

    name: str
    instructions: Sequence[Instruction]
    results: Sequence[tuple[int, int, int]]
    """What it stores: node in its instructions, which of the row's two result blocks, offset."""

    operands: list[Operand] = field(default_factory=list)
    base_count: int = 0


@record
class Tape:
    """A whole program."""

    classes: list[TapeClass]
    rows: list[list[int]]
    """For each call: class, places of its short-lived and its lasting results, bases."""

    constants: list[float]
    slot_count: int
    """Numbers in the work space."""

    input_slots: dict[int, int]
    """Where each argument begins in the work space, by number of the input."""

    staged: dict[Kind, list[tuple[int, int]]]
    """Constants and parameters to copy into the work space first: position there, slot.

    A class may read at one place a constant in some rows and a result in others.
    """

    output_slots: list[list[int]]
    """Where each element of each output lies in the work space."""


def region_program(region: FunctionRegion) -> tuple[Program, dict[int, Leaf]]:
    """Return a region as a program of one array in and one array out, and its leaves."""
    leaves = {node: (0, place) for place, node in enumerate(region.inputs)}
    inputs = (Input("in", (len(region.inputs),)),)
    outputs = (Output("out", (len(region.roots),), region.roots),)
    return Program(region.name, region.graph, inputs, outputs), leaves
