"""The function for one case with straight-line code in this package's own assembly.

Like `tiburon.native.module_assembly`. The instructions of a robot do not stay where the processor
keeps decoded ones, so their bytes set the pace, and few reloads and short addresses make fewer of
them. Angles that are inputs have their sines and cosines computed by LLVM, several at a time,
before the assembly begins. The bits are the same.
"""

from __future__ import annotations

from tiburon.native.callees import CalleeWriter
from tiburon.native.engine import Host
from tiburon.native.llvm_target import LlvmTarget
from tiburon.native.module_assembly import FREE_REGISTERS, full_name, is_for_assembly
from tiburon.native.module_one import array_sums
from tiburon.native.module_parts import (
    FunctionWriter,
    add_to_sums,
    element,
    function_attributes,
    load,
    total,
)
from tiburon.native.short_addresses import shorten_addresses
from tiburon.native.step_order import order_steps
from tiburon.native.step_registers import ONE, REGISTERS, Assembled, assemble_steps, slot_operand
from tiburon.native.steps import needed_steps
from tiburon.native.straight import emit_instructions
from tiburon.native.straight_steps import StraightSteps
from tiburon.native.target import Ref
from tiburon.trace.lower import Instruction, lower
from tiburon.trace.program import Program

# registers that point to the inputs, in order; more inputs are left to LLVM
_INPUTS = ("si", "cx", "r8", "r9", "r10", "r11")
_CONSTANT_BYTES = 16


def is_for_one_assembly(program: Program, host: Host) -> bool:
    """Tell whether the function for one case of a program is written this way for a machine."""
    return is_for_assembly(program, host) and len(program.inputs) <= len(_INPUTS)


class _One(StraightSteps):
    """The function while it is written."""

    def __init__(self, program: Program, vector_lanes: int) -> None:
        super().__init__(program)
        self.target = LlvmTarget(1, fused=True)
        self.writer = FunctionWriter(self.target, CalleeWriter(1, fused=True), vector_lanes)
        self.homes: dict[Ref, str] = {}
        self.slots = 0
        self._vector_lanes = vector_lanes

    # what `emit_instructions` asks for

    def load(self, instruction: Instruction) -> Ref:
        """Give the reference of an input, or of a sine or cosine that is known."""
        if instruction.op == "capture":
            name = f"k{instruction.payload}"
            self.homes[name] = slot_operand(instruction.payload, ONE)
            return name
        number, k = instruction.payload
        name = f"i{number}_{k}"
        self.homes[name] = f"{k * ONE.bytes}({full_name(_INPUTS[number])})"
        return name

    # the function

    def write(self) -> str:
        """Write the module."""
        target, program = self.target, self.program
        inputs = [load(target, "ptr", "%inputs", place) for place in range(len(program.inputs))]
        outputs = [load(target, "ptr", "%outputs", place) for place in range(len(program.outputs))]
        sums: list[Ref] = []
        for pointer, item in zip(inputs, program.inputs, strict=True):
            if not item.parameter:
                parts = array_sums(self.writer, pointer, item.size, self._vector_lanes)
                sums = add_to_sums(target, sums, parts)
        rest = self._early_angles(lower(program.graph, program.roots), inputs)
        slot = self.slots
        assembled = self._assemble(rest)
        self._run(assembled.lines, inputs)
        for pointer, output in zip(outputs, program.outputs, strict=True):
            values = []
            for k in range(len(output.nodes)):
                values.append(load(target, "double", "%frame", slot))
                place = element(target, "double", pointer, k)
                target.lines.append(f"  store double {values[-1]}, ptr {place}, align 8")
                slot += 1
            sums = add_to_sums(target, sums, values)
        check = total(target, sums)
        failed = target.is_nan(target.sub(check, check))
        status = target.emit(f"zext i1 {failed} to i32")
        self.writer.stack_lines.append(
            f"  %frame = alloca [{assembled.slots + 1} x double], align 64"
        )
        patterns = list(self.recorder.constants)
        listed = ", ".join(
            f"<2 x i64> splat (i64 {pattern - (1 << 64) if pattern >> 63 else pattern})"
            for pattern in patterns
        )
        header = (
            f"@constants = internal global [{len(patterns)} x <2 x i64>] [{listed}], align 64\n"
            "define i32 @one(ptr noalias %inputs, ptr noalias %outputs) "
            f"{function_attributes(1)} {{"
        )
        return self.writer.module(header, [*target.lines, f"  ret i32 {status}"])

    def _early_angles(
        self, instructions: list[Instruction], inputs: list[Ref]
    ) -> list[Instruction]:
        """Write sines and cosines of angles that are inputs; return the other instructions."""
        by_number = {i.target: i for i in instructions}
        angles = {i.args[0] for i in instructions if i.op in ("sin", "cos")}
        angles = {a for a in angles if by_number[a].op == "input"}
        early = [
            i
            for i in instructions
            if i.target in angles or (i.op in ("sin", "cos") and i.args[0] in angles)
        ]
        for number, k in (i.payload for i in early if i.op == "input"):
            self.writer.inputs[number, k] = load(self.target, "double", inputs[number], k)
        refs = emit_instructions(self.target, early, self.writer)
        known: dict[int, int] = {}
        for instruction in early:
            if instruction.op in ("sin", "cos"):
                known[instruction.target] = self.slots
                place = element(self.target, "double", "%frame", self.slots)
                value = refs[instruction.target]
                self.target.lines.append(f"  store double {value}, ptr {place}, align 8")
                self.slots += 1
        return [
            Instruction("capture", i.target, (), known[i.target]) if i.target in known else i
            for i in instructions
        ]

    def _assemble(self, instructions: list[Instruction]) -> Assembled:
        """Record the program, order its steps, and give them registers."""
        recorder = self.recorder
        refs = emit_instructions(recorder, instructions, self)
        results: dict[Ref, int] = {}
        for node in self.program.roots:
            value = refs[node]
            if value in self.homes or value in results or recorder.is_constant(value):
                # each result has a slot of its own
                value = recorder.copy(value)
            results[value] = self.slots
            self.slots += 1
        for place in range(len(recorder.constants)):
            self.homes[f"c{place}"] = f"{place * _CONSTANT_BYTES}(%rdx)"
        needed = needed_steps(recorder.steps, set(results))
        ordered = order_steps(needed, results.keys(), REGISTERS)
        return assemble_steps(ordered, self.homes, results, self.slots, ONE)

    def _run(self, lines: list[str], inputs: list[Ref]) -> None:
        """Write the assembly into the function; all vector registers are its own."""
        addresses = {"di": "%frame", "dx": "@constants"}
        addresses |= dict(zip(_INPUTS, inputs, strict=False))
        free = [name for name in FREE_REGISTERS if name not in addresses]
        text = "\\0A".join(shorten_addresses(lines, [full_name(name) for name in free]))
        held = ",".join(f"{{{register}}}" for register in addresses)
        vectors = [f"xmm{k}" for k in range(REGISTERS)]
        changed = ",".join(f"~{{{name}}}" for name in (*free, *vectors, "memory"))
        given = ", ".join(f"ptr {address}" for address in addresses.values())
        self.target.lines.append(
            f'  call void asm sideeffect "{text}", "{held},{changed}"({given})'
        )


def one_in_assembly(program: Program, *, vector_lanes: int) -> str:
    """Write the module with the function `one`; see `tiburon.native.module_one`.

    Args:
        program: What to compute; see `is_for_one_assembly`.
        vector_lanes: Width of the host's vectors, for sines, cosines and the check of inputs.

    Returns:
        LLVM assembly.
    """
    return _One(program, vector_lanes).write()
