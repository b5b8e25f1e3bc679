"""Straight-line functions: selection of suitable code, and the common base of all x86 writers.

Inline assembly cannot call, so calls of short primitives and functions are inlined. Single calls,
batches and callees derive from `X86Function`; callees are written here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tiburon.native import elementary
from tiburon.native.body import RowBody, emit_instructions, is_short_row
from tiburon.native.engine import Host
from tiburon.native.fixed_arguments import TABLE, Places, callee_parameters
from tiburon.native.llvm import LlvmTarget, function_attributes
from tiburon.native.target import Ref, UnrolledMachine
from tiburon.native.x86.instruction import InstructionRecorder, X86Instruction, live_instructions
from tiburon.native.x86.register_allocation import (
    PACKED,
    REGISTERS,
    SCALAR,
    AllocatedCode,
    Width,
    allocate_registers,
    shorten_addresses,
)
from tiburon.native.x86.schedule import hide_latency, schedule_for_registers
from tiburon.trace.graph import Graph
from tiburon.trace.lower import Instruction, lower
from tiburon.trace.primitives.primitive import Primitive
from tiburon.trace.program import Program
from tiburon.trace.regions import FunctionRegion
from tiburon.trace.regions.lanes import LanesRegion

LANES = 4
"""Float64 values in an AVX2 register."""

MIN_OPERATIONS = 300
"""Operations from which on code is generated here; the shortest measured program has 1000."""

MAX_OPERATIONS = 25_000
"""Operations up to which code is generated here, inlined calls included."""

MAX_RESULTS = 1000
"""Results up to which a program is generated here. LLVM copies them out one by one: 1000 take it
0.5 s, 4000 take 15 s; its own code copies zeros and contiguous runs by loops."""

MAX_INLINED_FUNCTION = 300
"""Operations up to which a function is inlined at every call."""

MAX_INLINED_CALLS = 4
"""Calls of one function up to which it is inlined even if it is longer, such as the dynamics in the
stages of an integration step. The dependency chain at the end of one stage then runs beside the
start of the next."""

# scalar angles whose sines and cosines are computed together
_PACKED_ANGLES = 4

# general-purpose registers that the assembly may change
_FREE_REGISTERS = ("ax", "cx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15")


def is_supported(machine: Host) -> bool:
    """Return whether a machine uses this generator: x86-64 with AVX2 and FMA, no AVX-512."""
    return machine.triple.startswith("x86_64") and machine.lanes == LANES and machine.fused


def suits_program(program: Program, *, packed: bool = True) -> bool:
    """Return whether a program is long straight-line code without too many results.

    Args:
        program: The program.
        packed: Whether values are vectors of cases, so that calls in lanes run one after another.
    """
    if len(program.roots) > MAX_RESULTS:
        return False
    return suits_graph(program.graph, program.roots, packed=packed)


def suits_graph(graph: Graph, roots: Iterable[int], *, packed: bool = True) -> bool:
    """Return whether a graph is long straight-line code after inlining."""
    length = inlined_length(graph, roots, packed=packed)
    return length is not None and length >= MIN_OPERATIONS


def inlined_length(graph: Graph, roots: Iterable[int], *, packed: bool = True) -> int | None:
    """Return the number of operations of a graph with all calls inlined.

    Args:
        graph: The graph.
        roots: The nodes that are needed.
        packed: Whether values are vectors of cases.

    Returns:
        The number, or None if some call cannot be inlined.
    """
    live = graph.live(roots)
    length = len(live)
    callees = [graph.payloads[node] for node in live if graph.ops[node] == "call"]
    if packed:
        callees = [one for callee in callees for one in _single_callees(callee)]
    calls = Counter(callee.key for callee in callees)
    for callee in callees:
        called = _call_length(callee, calls[callee.key], packed=packed)
        if called is None or length + called > MAX_OPERATIONS:
            return None
        length += called
    return length


def _single_callees(callee: Any) -> list[Any]:
    """Return a callee, or that of each call in lanes if these are no short arithmetic."""
    if isinstance(callee, LanesRegion) and not is_short_row(callee):
        return [callee.body] * callee.calls
    return [callee]


def _call_length(callee: Any, calls: int, *, packed: bool) -> int | None:
    """Return the number of operations of an inlined call, None if it cannot be inlined.

    Args:
        callee: The region or primitive.
        calls: How often the same function calls it.
        packed: Whether values are vectors of cases.
    """
    if isinstance(callee, Primitive):
        if not callee.is_short:
            return None
        counted = callee.count()
        return counted.multiplications + counted.additions + counted.divisions
    if isinstance(callee, LanesRegion) and is_short_row(callee):
        own = len(callee.graph.live(callee.roots))
        if packed:
            return callee.calls * own
        rows = -(-callee.calls // LANES)
        return callee.argument_count + rows * own
    if isinstance(callee, FunctionRegion):
        length = inlined_length(callee.graph, callee.roots, packed=packed)
        short = length is not None and length <= MAX_INLINED_FUNCTION
        return length if short or calls <= MAX_INLINED_CALLS else None
    return None


class X86Function(ABC):
    """A straight-line function under construction; subclasses define where its inputs are.

    Attributes:
        width: Width of its values.
        recorder: The recorded instructions.
        memory: Memory operand of each value that the assembly does not compute.
    """

    def __init__(self, width: Width = PACKED) -> None:
        self.width = width
        self.recorder = InstructionRecorder()
        self.memory: dict[Ref, str] = {}
        # packed value and lane of scalars
        self._lanes_of: dict[Ref, tuple[Ref, int]] = {}

    # the surroundings that `emit_instructions` needs

    @abstractmethod
    def load(self, instruction: Instruction) -> Ref:
        """Return the reference of an input, and record its memory operand."""

    def constant(self, value: float) -> Ref:
        """Return the reference of a constant."""
        return self.recorder.const(value)

    def call(self, instruction: Instruction, arguments: list[Ref]) -> list[Ref]:
        """Inline a primitive or a function."""
        callee = instruction.payload
        if isinstance(callee, Primitive):
            results: list[Any] = [None] * callee.result_count
            callee.write(UnrolledMachine(self.recorder), arguments, results)
            return results
        if isinstance(callee, LanesRegion):
            return self._row(callee, arguments)
        body = _InlinedBody(self, callee, arguments)
        refs = emit_instructions(self.recorder, self.lowered(callee.graph, callee.roots), body)
        return [refs[root] for root in callee.roots]

    def lowered(self, graph: Graph, roots: Iterable[int]) -> list[Instruction]:
        """Lower a graph; code for one case keeps calls in lanes."""
        return lower(graph, roots, in_lanes=self.width.is_scalar)

    def _row(self, region: LanesRegion, arguments: list[Ref]) -> list[Ref]:
        """Record calls in lanes, four at a time, as packed instructions."""
        recorder, body, columns = self.recorder, region.body, region.columns(arguments)
        lowered = lower(body.graph, body.roots)
        results: list[list[Ref]] = [[] for _ in region.roots]
        for first in range(0, region.calls, LANES):
            calls = min(LANES, region.calls - first)
            given = [self._packed(column[first : first + calls]) for column in columns]
            recorder.packed = True
            refs = emit_instructions(recorder, lowered, RowBody(body, given, recorder))
            recorder.packed = False
            for column, root in zip(results, region.roots, strict=True):
                packed = refs[root]
                if recorder.is_constant(packed):
                    column += [packed] * calls
                    continue
                scalars = recorder.unpack(packed, calls)
                self._lanes_of.update({x: (packed, lane) for lane, x in enumerate(scalars)})
                column += scalars
        return [ref for column in results for ref in column]

    def _packed(self, row: Sequence[Ref]) -> Ref:
        """Return a packed value: the one that scalars come from, if they are its lanes."""
        recorder = self.recorder
        whole = self._lanes_of.get(row[0])
        if whole is not None and all(
            self._lanes_of.get(ref) == (whole[0], lane) for lane, ref in enumerate(row)
        ):
            return whole[0]
        if all(recorder.is_constant(ref) for ref in row):
            return recorder.lane_constant(row)
        if len(set(row)) == 1:
            recorder.packed = True
            found = recorder.broadcast(row[0])
            recorder.packed = False
            return found
        return recorder.pack(row)

    def sin_cos(self, angles: list[Ref]) -> list[tuple[Ref, Ref]]:
        """Record sines and cosines; scalar angles are packed."""
        if not self.width.is_scalar:
            return [elementary.sin_cos(self.recorder, angle) for angle in angles]
        pairs: list[tuple[Ref, Ref]] = []
        for start in range(0, len(angles), _PACKED_ANGLES):
            pairs += self._sin_cos_packed(angles[start : start + _PACKED_ANGLES])
        return pairs

    def _sin_cos_packed(self, angles: list[Ref]) -> list[tuple[Ref, Ref]]:
        recorder, count = self.recorder, len(angles)
        if count == 1:
            return [elementary.sin_cos(recorder, angles[0])]
        packed = recorder.pack(angles)
        recorder.packed = True
        both = elementary.sin_cos(recorder, packed)
        recorder.packed = False
        sines, cosines = (recorder.unpack(values, count) for values in both)
        return list(zip(sines, cosines, strict=True))

    # from the record to assembly

    def operand(self, register: str, index: int) -> str:
        """Return an element of an array that a register points to as a memory operand."""
        return f"{index * self.width.bytes}({register})"

    def place_results(self, values: Sequence[Ref], operands: Sequence[str]) -> dict[Ref, str]:
        """Assign each result a location of its own; values that have one already are copied."""
        results: dict[Ref, str] = {}
        for value, operand in zip(values, operands, strict=True):
            known = value in self.memory or value in results or self.recorder.is_constant(value)
            if known or value in self.recorder.packed_values:
                value = self.recorder.copy(value)
            results[value] = operand
        return results

    def place_constants(self, register: str) -> None:
        """Set the memory operands of constants, in a table that a register points to."""
        for index in range(len(self.recorder.constants)):
            self.memory[f"c{index}"] = f"{index * self._constant_bytes}({register})"

    @property
    def _constant_bytes(self) -> int:
        """Distance of constants: instructions on whole registers read 16 bytes or more."""
        return 32 if self.recorder.packed_values else max(self.width.bytes, 16)

    def scheduled(
        self, results: Mapping[Ref, str], instructions: Sequence[X86Instruction] | None = None
    ) -> list[X86Instruction]:
        """Return the instructions that results depend on, scheduled for few spills.

        Args:
            results: The values that are needed.
            instructions: The instructions to choose from; all recorded ones by default.
        """
        known = self.recorder.instructions if instructions is None else instructions
        live = live_instructions(known, set(results))
        return schedule_for_registers(live, results.keys(), REGISTERS)

    def assemble(self, results: Mapping[Ref, str], slots: int) -> AllocatedCode:
        """Schedule the recorded instructions and allocate their registers.

        Args:
            results: Memory operand of each result.
            slots: Slots of the frame that are in use.
        """
        instructions = hide_latency(self.scheduled(results))
        return allocate_registers(instructions, self.memory, results, slots, self.width)

    def constant_table(self, name: str) -> str:
        """Write the table of constants, each repeated for the widest instruction."""
        width = self._constant_bytes // 8
        kind = f"<{width} x i64>"
        listed = ", ".join(
            f"{kind} <{', '.join(f'i64 {_signed(x)}' for x in pattern)}>"
            if isinstance(pattern, tuple)
            else f"{kind} splat (i64 {_signed(pattern)})"
            for pattern in self.recorder.constants
        )
        size = len(self.recorder.constants)
        return f"@{name} = internal global [{size} x {kind}] [{listed}], align 64"


def _signed(pattern: int) -> int:
    """Return the signed integer with the same bits."""
    return pattern - (1 << 64) if pattern >> 63 else pattern


class _InlinedBody:
    """The surroundings of a function's instructions inside its caller."""

    def __init__(self, caller: X86Function, region: FunctionRegion, given: list[Ref]) -> None:
        graph = region.graph
        self._refs = {
            (graph.ops[node], graph.payloads[node]): ref
            for node, ref in zip(region.inputs, given, strict=True)
        }
        self.constant = caller.constant
        self.call = caller.call
        self.sin_cos = caller.sin_cos

    def load(self, instruction: Instruction) -> Ref:
        """Return the reference of an argument."""
        return self._refs[instruction.op, instruction.payload]


def inline_assembly(lines: Sequence[str], addresses: Mapping[str, Ref], width: Width) -> str:
    """Write inline assembly for an LLVM function; it clobbers all vector registers.

    Args:
        lines: The instructions.
        addresses: Pointer that each general-purpose register holds at the start.
        width: Width of values.

    Returns:
        One line.
    """
    free = [name for name in _FREE_REGISTERS if name not in addresses]
    text = "\\0A".join(shorten_addresses(lines, [full_name(name) for name in free]))
    inputs = ",".join(f"{{{register}}}" for register in addresses)
    vectors = [f"{width.register[1:]}{k}" for k in range(REGISTERS)]
    clobbers = ",".join(f"~{{{name}}}" for name in (*free, *vectors, "memory"))
    given = ", ".join(f"ptr {address}" for address in addresses.values())
    return f'  call void asm sideeffect "{text}", "{inputs},{clobbers}"({given})'


def full_name(register: str) -> str:
    """Return the assembly name of a register, from the short name that LLVM constraints use."""
    return f"%{register}" if register[1].isdigit() else f"%r{register}"


class X86Callee(X86Function):
    """A function that a program calls, as an internal LLVM function around inline assembly."""

    def __init__(
        self,
        name: str,
        region: FunctionRegion,
        lanes: int,
        fixed: Places,
        *,
        scalar_table: bool = False,
    ) -> None:
        """Take the function.

        Args:
            name: Name of the LLVM function.
            region: The function; see `suits_graph`.
            lanes: 1 or 4.
            fixed: Slots of its fixed arguments.
            scalar_table: Whether each of these slots is one float, for all lanes.
        """
        super().__init__(SCALAR if lanes == 1 else PACKED)
        self._name = name
        self._region = region
        self._lanes = lanes
        self._fixed = fixed
        self._scalar_table = scalar_table
        self._input_operands = self._operands_of_inputs()

    def _operands_of_inputs(self) -> dict[tuple[str, object], tuple[str, int]]:
        """Return base register and index of each argument, by op and payload of its node."""
        graph, operands, passed = self._region.graph, {}, 0
        for node, slot in zip(self._region.inputs, self._fixed, strict=True):
            operand = ("%rcx", slot) if slot is not None else ("%rsi", passed)
            passed += slot is None
            operands[graph.ops[node], graph.payloads[node]] = operand
        return operands

    def load(self, instruction: Instruction) -> Ref:
        """Return the reference of an argument."""
        register, index = self._input_operands[instruction.op, instruction.payload]
        name = f"i{register}{index}"
        if self._scalar_table and register == "%rcx":
            self.memory[name] = f"{index * SCALAR.bytes}({register})"
            return self.recorder.broadcast(name)
        self.memory[name] = self.operand(register, index)
        return name

    def write(self) -> str:
        """Write the function."""
        region, name = self._region, self._name
        refs = emit_instructions(self.recorder, self.lowered(region.graph, region.roots), self)
        results = self.place_results(
            [refs[root] for root in region.roots],
            [self.operand("%r8", index) for index in range(len(region.roots))],
        )
        self.place_constants("%rdx")
        code = self.assemble(results, 0)
        addresses = {"di": "%frame", "si": "%in", "r8": "%out", "dx": f"@{name}.constants"}
        if any(slot is not None for slot in self._fixed):
            addresses["cx"] = TABLE
        kind = LlvmTarget(self._lanes).float_type
        lines = [
            self.constant_table(f"{name}.constants"),
            f"; {region.name}",
            f"define internal void @{name}({callee_parameters(self._fixed)}) "
            f"noinline {function_attributes(self._lanes)} {{",
            "entry:",
            f"  %frame = alloca [{code.slots + 1} x {kind}], align 64",
            inline_assembly(code.lines, addresses, self.width),
            "  ret void",
            "}",
            "",
        ]
        return "\n".join(lines)
