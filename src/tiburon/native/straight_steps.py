"""Straight-line code recorded as steps, for one case or for a group: what all ways of it share.

Calls of short primitives and functions are written out where they stand: assembly knows no calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tiburon.native import elementary
from tiburon.native.machine import SpelledOutMachine
from tiburon.native.short_addresses import shorten_addresses
from tiburon.native.step_order import order_steps
from tiburon.native.step_registers import FOUR, REGISTERS, Form
from tiburon.native.steps import Step, StepRecorder, needed_steps
from tiburon.native.straight import emit_instructions
from tiburon.native.target import Ref
from tiburon.trace.graph import Graph
from tiburon.trace.lower import Instruction, lower
from tiburon.trace.primitives.primitive import Primitive
from tiburon.trace.regions import FunctionRegion

SHORT_FUNCTION = 300
"""Operations up to which a function is written out wherever it is called."""

FEW_CALLS = 4
"""Calls of one function up to which it is written out even if it is longer: one step of a
simulation may be, with the dynamics of its stages. The end of a stage, whose steps wait for each
other, then runs beside the start of the next."""

LONGEST_STRAIGHT = 25_000
"""Operations up to which code is recorded as steps, with all that is written out."""

# single angles whose sines and cosines are computed together
_PACKED_ANGLES = 4

# registers that assembly may change
_FREE_REGISTERS = ("ax", "cx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15")


def straight_length(graph: Graph, roots: Iterable[int]) -> int | None:
    """Return how many operations a graph has with its calls written out.

    Args:
        graph: The graph.
        roots: The nodes wanted.

    Returns:
        The number, or None if some call cannot be written out.
    """
    live = graph.live(roots)
    length = len(live)
    callees = [graph.payloads[node] for node in live if graph.ops[node] == "call"]
    times = Counter(callee.key for callee in callees)
    for callee in callees:
        called = _call_length(callee, times[callee.key])
        if called is None or length + called > LONGEST_STRAIGHT:
            return None
        length += called
    return length


def _call_length(callee: Any, times: int) -> int | None:
    """Return how many operations a call becomes, None if it stays a call.

    Args:
        callee: What is called.
        times: How often the same function calls it.
    """
    if isinstance(callee, Primitive):
        if not callee.is_short:
            return None
        counted = callee.count()
        return counted.multiplications + counted.additions + counted.divisions
    if isinstance(callee, FunctionRegion):
        length = straight_length(callee.graph, callee.roots)
        short = times <= FEW_CALLS or (length is not None and length <= SHORT_FUNCTION)
        return length if short else None
    return None


class StraightSteps:
    """Code without calls while its steps are recorded; where inputs lie is for who derives.

    Attributes:
        form: Whether values are vectors of four or single numbers.
        recorder: The steps.
        homes: Where the assembly finds in memory what it has not computed.
    """

    def __init__(self, form: Form = FOUR) -> None:
        self.form = form
        self.recorder = StepRecorder()
        self.homes: dict[Ref, str] = {}

    # what `emit_instructions` asks for

    def load(self, instruction: Instruction) -> Ref:
        """Give the reference of an input, and remember its home."""
        raise AssertionError("where inputs lie is for who derives")

    def constant(self, value: float) -> Ref:
        """Give the reference of a constant."""
        return self.recorder.const(value)

    def call(self, instruction: Instruction, arguments: list[Ref]) -> list[Ref]:
        """Record what a short primitive or function does."""
        callee = instruction.payload
        if isinstance(callee, Primitive):
            found: list[Any] = [None] * callee.result_count
            callee.write(SpelledOutMachine(self.recorder), arguments, found)
            return found
        body = _WrittenOut(self, callee, arguments)
        refs = emit_instructions(self.recorder, lower(callee.graph, callee.roots), body)
        return [refs[root] for root in callee.roots]

    def sin_cos(self, angles: list[Ref]) -> list[tuple[Ref, Ref]]:
        """Record sines and cosines; single angles share vectors."""
        if not self.form.is_scalar:
            return [elementary.sin_cos(self.recorder, angle) for angle in angles]
        pairs: list[tuple[Ref, Ref]] = []
        for start in range(0, len(angles), _PACKED_ANGLES):
            pairs += self._sin_cos_packed(angles[start : start + _PACKED_ANGLES])
        return pairs

    def _sin_cos_packed(self, angles: list[Ref]) -> list[tuple[Ref, Ref]]:
        recorder, count = self.recorder, len(angles)
        if count == 1:
            return [elementary.sin_cos(recorder, angles[0])]
        packed = recorder.packed(angles)
        recorder.wide = True
        both = elementary.sin_cos(recorder, packed)
        recorder.wide = False
        sines, cosines = (recorder.unpacked(values, count) for values in both)
        return list(zip(sines, cosines, strict=True))

    # from the record to assembly

    def operand(self, register: str, place: int) -> str:
        """Give a number of a table that a register points to, as an operand."""
        return f"{place * self.form.bytes}({register})"

    def placed(self, values: Sequence[Ref], operands: Sequence[str]) -> dict[Ref, str]:
        """Give each result a place of its own in memory; what has a home already is copied."""
        results: dict[Ref, str] = {}
        for value, operand in zip(values, operands, strict=True):
            known = value in self.homes or value in results or self.recorder.is_constant(value)
            if known or value in self.recorder.wide_values:
                value = self.recorder.copy(value)
            results[value] = operand
        return results

    def place_constants(self, register: str) -> None:
        """Set the homes of constants, in a table that a register points to."""
        for place in range(len(self.recorder.constants)):
            self.homes[f"c{place}"] = f"{place * self._constant_bytes}({register})"

    @property
    def _constant_bytes(self) -> int:
        """Distance of constants: instructions on whole registers read 16 bytes or more."""
        return 32 if self.recorder.wide_values else max(self.form.bytes, 16)

    def ordered(
        self, results: Mapping[Ref, str], steps: Sequence[Step] | None = None
    ) -> list[Step]:
        """Return the steps that results need, in an order that suits the registers.

        Args:
            results: What is wanted.
            steps: The steps to choose from; all that were recorded by default.
        """
        known = self.recorder.steps if steps is None else list(steps)
        return order_steps(needed_steps(known, set(results)), results.keys(), REGISTERS)

    def constant_table(self, name: str) -> str:
        """Write the table of constants, each as often as instructions may read it."""
        kind = f"<{self._constant_bytes // 8} x i64>"
        listed = ", ".join(
            f"{kind} splat (i64 {pattern - (1 << 64) if pattern >> 63 else pattern})"
            for pattern in self.recorder.constants
        )
        size = len(self.recorder.constants)
        return f"@{name} = internal global [{size} x {kind}] [{listed}], align 64"


class _WrittenOut:
    """The surroundings of a function's instructions inside those of its caller."""

    def __init__(self, around: StraightSteps, region: FunctionRegion, given: list[Ref]) -> None:
        graph = region.graph
        self._refs = {
            (graph.ops[node], graph.payloads[node]): ref
            for node, ref in zip(region.inputs, given, strict=True)
        }
        self.constant = around.constant
        self.call = around.call
        self.sin_cos = around.sin_cos

    def load(self, instruction: Instruction) -> Ref:
        """Give the reference of an argument."""
        return self._refs[instruction.op, instruction.payload]


def assembly_call(lines: Sequence[str], addresses: Mapping[str, Ref], form: Form) -> str:
    """Write assembly into an LLVM function; all vector registers are its own.

    Args:
        lines: The instructions.
        addresses: What the assembly is given: name of the register, and the pointer it holds.
        form: Whether values are vectors of four or single numbers.

    Returns:
        One line.
    """
    free = [name for name in _FREE_REGISTERS if name not in addresses]
    text = "\\0A".join(shorten_addresses(lines, [full_name(name) for name in free]))
    held = ",".join(f"{{{register}}}" for register in addresses)
    vectors = [f"{form.register[1:]}{k}" for k in range(REGISTERS)]
    changed = ",".join(f"~{{{name}}}" for name in (*free, *vectors, "memory"))
    given = ", ".join(f"ptr {address}" for address in addresses.values())
    return f'  call void asm sideeffect "{text}", "{held},{changed}"({given})'


def full_name(register: str) -> str:
    """Give the name in assembly of a register that LLVM calls by its short one."""
    return f"%{register}" if register[1].isdigit() else f"%r{register}"
