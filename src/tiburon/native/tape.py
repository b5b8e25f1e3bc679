"""The tape: a program of many calls of few functions, as rows of a table.

Each row names a class (one compiled function), its operands and the location of its results. Code
size grows with the number of classes, the table with the number of calls, so a chain of a thousand
links compiles as fast as one of fifty.

Operands of a class at fixed distances from each other in every row share one base. The results of a
row are contiguous in the work array, in two blocks: short-lived results, and results that later
passes read. Blocks without further readers are reused, so that short-lived results stay in the L1
cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tiburon.arrays import NDArray
from tiburon.record import record
from tiburon.trace.graph import BOOLEAN_OPS, Graph
from tiburon.trace.lower import Instruction, Order, lower
from tiburon.trace.program import Input, Output, Program
from tiburon.trace.regions import FunctionRegion

MIN_CALLS = 24
"""Minimum number of calls of a tape."""

MIN_CALLS_PER_CLASS = 2
"""Minimum mean number of calls per function: below it, the table is larger than the calls."""

Kind = tuple[str, int]
"""Memory of an operand: ("work", 0), ("constant", 0) or ("parameter", index of the input)."""

Leaf = tuple[int, int]
"""Index of an input, and of an element in it."""


def is_tape(program: Program) -> bool:
    """Return whether a program consists of many calls of few functions."""
    return calls_few_functions(program.graph, program.roots)


def calls_few_functions(graph: Graph, roots: Iterable[int]) -> bool:
    """Return whether a graph consists of many calls of few functions."""
    calls = [graph.payloads[n] for n in graph.live(roots) if graph.ops[n] == "call"]
    if len(calls) < MIN_CALLS or not all(isinstance(c, FunctionRegion) for c in calls):
        return False
    return len(calls) >= MIN_CALLS_PER_CLASS * len({callee.key for callee in calls})


@record
class Operand:
    """One operand of a class: a value at a fixed offset from one of the row's bases."""

    node: int
    """Its node in the instructions of the class."""

    kind: Kind
    base: int
    """Index of the base in the row."""

    offset: int


@dataclass(slots=True)
class TapeClass:
    """One function of the tape."""

    name: str
    instructions: Sequence[Instruction]
    results: Sequence[tuple[int, int, int]]
    """Results: node in its instructions, which of the row's two result blocks, offset."""

    operands: list[Operand] = field(default_factory=list)


@record
class Tape:
    """A program as a tape."""

    classes: list[TapeClass]
    rows: list[list[int]]
    """For each call: class, slots of its short-lived and of its lasting results, bases."""

    constants: list[float]
    slot_count: int
    """Size of the work array."""

    input_slots: dict[int, int]
    """First slot of each argument in the work array, by index of the input."""

    staged: dict[Kind, list[tuple[int, int]]]
    """Constants and parameters to copy to the work array first: index of the source, slot.

    An operand of a class may be a constant in some rows and a result in others.
    """

    output_slots: list[list[int]]
    """Slot of each element of each output in the work array."""


def region_program(region: FunctionRegion) -> tuple[Program, dict[int, Leaf]]:
    """Return a region as a program with one input and one output array, and its leaves."""
    leaves = {node: (0, place) for place, node in enumerate(region.inputs)}
    inputs = (Input("in", (len(region.inputs),)),)
    outputs = (Output("out", (len(region.roots),), region.roots),)
    return Program(region.name, region.graph, inputs, outputs), leaves


Place = tuple[Kind, int]
"""Memory of an operand, and its index there."""

SHORT_LIFETIME = 1 / 16
"""Results are short-lived if no row reads them after this fraction of all rows."""

CLASS_ORDER: Order = "depth_first"
"""Order of the instructions of a class: it has the lowest register pressure."""

_WORK: Kind = ("work", 0)
_CONSTANT: Kind = ("constant", 0)
_LEAVES = ("const", "input", "capture")


@dataclass(slots=True)
class _Step:
    """A call, or the operations between two calls, before memory is assigned."""

    key: tuple[object, ...]
    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    region: FunctionRegion | None
    instructions: Sequence[Instruction] = ()


def build_tape(program: Program, order: Order, leaves: dict[int, Leaf] | None = None) -> Tape:
    """Lay out a program as a tape.

    Args:
        program: The program.
        order: Order of the instructions of each class.
        leaves: Input element of each leaf of the graph; by default its payload.
    """
    return _Layout(program, order, leaves).build()


class _Layout:
    """Finds classes, slots and bases."""

    def __init__(self, program: Program, order: Order, leaves: dict[int, Leaf] | None) -> None:
        self.program = program
        self.leaves = leaves
        self.order: Order = order
        # fusion and shared reciprocals as in other code of the program: the same bits
        lowered = lower(program.graph, program.roots, order)
        self.instructions = {instruction.target: instruction for instruction in lowered}
        self.places: dict[int, Place] = {}
        self.constants: list[float] = []
        self.blocks: dict[bytes, int] = {}
        self.slot_count = 0
        self.lasting: dict[tuple[object, ...], list[bool]] = {}
        self.copies: dict[int, int] = {}
        self.mixed: dict[tuple[object, ...], list[bool]] = {}
        self.staged: dict[Place, int] = {}
        self.free: dict[int, list[int]] = {}

    def build(self) -> Tape:
        """Lay out the program."""
        input_slots: dict[int, int] = {}
        for number, item in enumerate(self.program.inputs):
            if not item.parameter:
                input_slots[number] = self._reserve(item.size)
        steps = list(self._steps())
        last_use = self._last_uses(steps)
        self.lasting = self._lasting_results(steps, last_use)
        self.mixed = self._mixed_operands(steps)
        variants: dict[tuple[object, ...], int] = {}
        members: list[list[int]] = []
        representatives: list[_Step] = []
        kinds: list[list[Kind]] = []
        positions: list[list[int]] = []
        starts: list[list[int]] = []
        expiring: dict[int, list[tuple[int, int]]] = {}
        for row, step in enumerate(steps):
            places = self._operand_places(step, input_slots)
            kinds.append([kind for kind, _ in places])
            positions.append([position for _, position in places])
            variant = variants.setdefault((step.key, tuple(kinds[-1])), len(variants))
            if variant == len(members):
                members.append([])
                representatives.append(step)
            members[variant].append(row)
            starts.append([])
            for lasting in (False, True):
                block = [
                    node
                    for node, lasts in zip(step.results, self.lasting[step.key], strict=True)
                    if lasts is lasting
                ]
                start = self._reserve(len(block))
                starts[-1].append(start)
                for k, node in enumerate(block):
                    self.places[node] = (_WORK, start + k)
                end = max((last_use.get(node, row) for node in block), default=row)
                if block and end < len(steps):
                    expiring.setdefault(end, []).append((len(block), start))
            # freed last, so that no result overwrites an operand of its own row
            for size, start in expiring.pop(row, []):
                self.free.setdefault(size, []).append(start)
        rows: list[list[int]] = [[] for _ in steps]
        classes = []
        for number, (step, own) in enumerate(zip(representatives, members, strict=True)):
            table = np.array([positions[row] for row in own], dtype=np.int64)
            made, bases = self._make_class(step, kinds[own[0]], table.reshape(len(own), -1))
            classes.append(made)
            for place, row in enumerate(own):
                rows[row] = [number, *starts[row], *bases[place]]
        outputs = [
            [self.places[node][1] for node in output] for output in self._output_nodes(input_slots)
        ]
        staged: dict[Kind, list[tuple[int, int]]] = {}
        for (kind, position), slot in self.staged.items():
            staged.setdefault(kind, []).append((position, slot))
        return Tape(classes, rows, self.constants, self.slot_count, input_slots, staged, outputs)

    def _reserve(self, size: int) -> int:
        """Return the first of some contiguous slots, reusing a freed block if possible."""
        blocks = self.free.get(size)
        if blocks:
            return blocks.pop()
        start = self.slot_count
        self.slot_count += size
        return start

    def _steps(self) -> Iterator[_Step]:
        """Yield calls and the operations between them, in order."""
        results: dict[int, list[Instruction]] = {}
        groups: list[list[Instruction]] = [[]]
        for instruction in self.instructions.values():
            if instruction.op == "result":
                results.setdefault(instruction.args[0], []).append(instruction)
            elif instruction.op == "call":
                groups += [[instruction], []]
            elif instruction.op not in _LEAVES:
                groups[-1].append(instruction)
        groups = [self._with_truths(group) for group in groups if group]
        wanted = {*self.program.roots, *(node for group in groups for node in _operands(group))}
        for group in groups:
            first = group[0]
            if first.op == "call":
                region: FunctionRegion = first.payload
                found = {result.payload: result.target for result in results[first.target]}
                # a result without readers is stored, too, and needs a slot
                stored = tuple(found.get(k, -1) for k in range(region.result_count))
                yield _Step((region.key,), region.name, first.args, stored, region)
            else:
                yield _between(group, wanted)
        copied = [
            root
            for root in dict.fromkeys(self.program.roots)
            if self.instructions[root].op == "const" or self._is_parameter(root)
        ]
        if copied:
            fresh = 1 + max(self.instructions)
            self.copies = {root: fresh + k for k, root in enumerate(copied)}
            instructions = [
                *[Instruction("input", root, (), root) for root in copied],
                *[Instruction("copy", copy, (root,)) for root, copy in self.copies.items()],
            ]
            copies = tuple(self.copies.values())
            yield _Step(("copies",), "copies", tuple(copied), copies, None, instructions)

    def _with_truths(self, group: list[Instruction]) -> list[Instruction]:
        """Add the bools that earlier steps computed: the work array holds floats only."""
        known = {instruction.target for instruction in group}
        pending = [a for instruction in group for a in instruction.args]
        added: list[Instruction] = []
        while pending:
            instruction = self.instructions[pending.pop()]
            if instruction.op in BOOLEAN_OPS and instruction.target not in known:
                known.add(instruction.target)
                added.append(instruction)
                pending.extend(instruction.args)
        # bools that depend on others have larger numbers
        return [*sorted(added, key=lambda instruction: instruction.target), *group]

    def _leaf(self, node: int) -> Leaf | None:
        """Return the input element of a node, None if it is not a leaf."""
        instruction = self.instructions[node]
        if instruction.op not in ("input", "capture"):
            return None
        leaf: Leaf = instruction.payload if self.leaves is None else self.leaves[node]
        return leaf

    def _is_parameter(self, node: int) -> bool:
        leaf = self._leaf(node)
        return leaf is not None and self.program.inputs[leaf[0]].parameter

    def _last_uses(self, steps: Sequence[_Step]) -> dict[int, int]:
        """Return the last row that reads each node; the number of rows for program results."""
        last: dict[int, int] = {}
        for row, step in enumerate(steps):
            for node in step.operands:
                last[node] = row
        for root in self.program.roots:
            last[self.copies.get(root, root)] = len(steps)
        return last

    def _lasting_results(
        self, steps: Sequence[_Step], last_use: dict[int, int]
    ) -> dict[tuple[object, ...], list[bool]]:
        """Return for each function which of its results are long-lived."""
        limit = SHORT_LIFETIME * len(steps)
        lasting: dict[tuple[object, ...], list[bool]] = {}
        for row, step in enumerate(steps):
            known = lasting.setdefault(step.key, [False] * len(step.results))
            for k, node in enumerate(step.results):
                if last_use.get(node, row) - row > limit:
                    known[k] = True
        return lasting

    def _mixed_operands(self, steps: Sequence[_Step]) -> dict[tuple[object, ...], list[bool]]:
        """Return for each function which operands are not always of the same kind."""
        first: dict[tuple[object, ...], list[Kind]] = {}
        mixed: dict[tuple[object, ...], list[bool]] = {}
        for step in steps:
            kinds = [self._kind(node) for node in step.operands]
            known = first.setdefault(step.key, kinds)
            flags = mixed.setdefault(step.key, [False] * len(kinds))
            for k, (a, b) in enumerate(zip(known, kinds, strict=True)):
                if a != b:
                    flags[k] = True
        return mixed

    def _kind(self, node: int) -> Kind:
        if self.instructions[node].op == "const":
            return _CONSTANT
        if self._is_parameter(node):
            return ("parameter", (self._leaf(node) or (0, 0))[0])
        return _WORK

    def _operand_places(self, step: _Step, input_slots: dict[int, int]) -> list[Place]:
        mixed = self.mixed[step.key]
        operands = [self.instructions[node] for node in step.operands]
        constants = [
            float(operand.payload)
            for operand, staged in zip(operands, mixed, strict=True)
            if operand.op == "const" and not staged
        ]
        block = self._constant_block(constants)
        places: list[Place] = []
        for operand, staged in zip(operands, mixed, strict=True):
            if operand.op == "const":
                if staged:
                    place: Place = (_CONSTANT, self._constant_block([float(operand.payload)]))
                else:
                    place = (_CONSTANT, block)
                    block += 1
            elif operand.op in _LEAVES:
                place = self._input_place(operand.target, input_slots)
            else:
                place = self.places[operand.target]
            if staged and place[0] != _WORK:
                if place not in self.staged:
                    # never freed: every group of cases reads it
                    self.staged[place] = self.slot_count
                    self.slot_count += 1
                place = (_WORK, self.staged[place])
            places.append(place)
        return places

    def _constant_block(self, constants: Sequence[float]) -> int:
        """Return the index of a contiguous block of constants."""
        # compared by bits: zeros of both signs compare equal
        key = np.array(constants).tobytes()
        if key not in self.blocks:
            self.blocks[key] = len(self.constants)
            self.constants.extend(constants)
        return self.blocks[key]

    def _input_place(self, node: int, input_slots: dict[int, int]) -> Place:
        number, place = self._leaf(node) or (0, 0)
        if number in input_slots:
            return _WORK, input_slots[number] + place
        return ("parameter", number), place

    def _make_class(
        self, step: _Step, kinds: Sequence[Kind], positions: NDArray[np.int64]
    ) -> tuple[TapeClass, list[list[int]]]:
        """Find the bases of a class: operands at fixed distances in all rows share one."""
        if step.region is None:
            instructions, found = step.instructions, step.results
            nodes: Sequence[int] = step.operands
        else:
            region = step.region
            instructions = lower(region.graph, region.roots, CLASS_ORDER)
            found, nodes = region.roots, region.inputs
        results: list[tuple[int, int, int]] = []
        counts = [0, 0]
        for node, lasts in zip(found, self.lasting[step.key], strict=True):
            results.append((node, int(lasts), counts[lasts]))
            counts[lasts] += 1
        made = TapeClass(step.name, instructions, results)
        firsts: list[tuple[Kind, int]] = []
        for place, (node, kind) in enumerate(zip(nodes, kinds, strict=True)):
            for base, (base_kind, first) in enumerate(firsts):
                if base_kind != kind:
                    continue
                distance = positions[:, place] - positions[:, first]
                if (distance == distance[0]).all():
                    made.operands.append(Operand(node, kind, base, int(distance[0])))
                    break
            else:
                made.operands.append(Operand(node, kind, len(firsts), 0))
                firsts.append((kind, place))
        bases = positions[:, [first for _, first in firsts]].tolist() if firsts else []
        return made, bases or [[] for _ in range(len(positions))]

    def _output_nodes(self, input_slots: dict[int, int]) -> list[list[int]]:
        for node in self.program.roots:
            if self._leaf(node) is not None and node not in self.copies:
                self.places[node] = self._input_place(node, input_slots)
        return [
            [self.copies.get(node, node) for node in output.nodes]
            for output in self.program.outputs
        ]


def _operands(group: Sequence[Instruction]) -> tuple[int, ...]:
    """Return the nodes that instructions read and do not compute."""
    own = {instruction.target for instruction in group}
    return tuple(dict.fromkeys(a for one in group for a in one.args if a not in own))


def _between(group: Sequence[Instruction], wanted: set[int]) -> _Step:
    """Return the operations between two calls as one step."""
    operands = _operands(group)
    results = tuple(
        instruction.target
        for instruction in group
        if instruction.target in wanted and instruction.op not in BOOLEAN_OPS
    )
    instructions = [*[Instruction("input", node, (), node) for node in operands], *group]
    key = ("between", group[-1].target)
    return _Step(key, "between", operands, results, None, instructions)
