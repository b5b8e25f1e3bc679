"""The function for one case with straight-line code in this package's own assembly.

Like `tiburon.native.module_assembly`. The instructions of a robot do not stay where the processor
keeps decoded ones, so their bytes set the pace, and few reloads and short addresses make fewer of
them. Angles that are known at the same time have their sines and cosines computed four at a time.
The bits are the same.
"""

from __future__ import annotations

from tiburon.native.callees import CalleeWriter
from tiburon.native.engine import Host
from tiburon.native.llvm_target import LlvmTarget
from tiburon.native.module_assembly import is_for_assembly
from tiburon.native.module_one import array_sums
from tiburon.native.module_parts import (
    FunctionWriter,
    add_to_sums,
    element,
    function_attributes,
    load,
    total,
)
from tiburon.native.step_registers import ONE, Assembled, assemble_steps, slot_operand
from tiburon.native.step_waits import fill_waits
from tiburon.native.straight import emit_instructions
from tiburon.native.straight_steps import StraightSteps, assembly_call, full_name
from tiburon.native.target import Ref
from tiburon.trace.lower import Instruction, lower
from tiburon.trace.program import Program

# registers that point to the largest inputs; what is needed of others is copied
_INPUTS = ("si", "cx", "r8", "r9", "r10", "r11")


def is_for_one_assembly(program: Program, host: Host) -> bool:
    """Tell whether the function for one case of a program is written this way for a machine."""
    return is_for_assembly(program, host)


class _One(StraightSteps):
    """The function while it is written."""

    def __init__(self, program: Program, vector_lanes: int) -> None:
        super().__init__(ONE)
        self.program = program
        self.target = LlvmTarget(1, fused=True)
        self.writer = FunctionWriter(self.target, CalleeWriter(1, fused=True), vector_lanes)
        self._vector_lanes = vector_lanes
        by_size = sorted(range(len(program.inputs)), key=lambda k: -program.inputs[k].size)
        self._registers = dict(zip(by_size, _INPUTS, strict=False))
        # slots of the frame that elements of other inputs are copied to
        self._copied: dict[tuple[int, int], int] = {}

    # what `emit_instructions` asks for

    def load(self, instruction: Instruction) -> Ref:
        """Give the reference of an input."""
        number, k = instruction.payload
        name = f"i{number}_{k}"
        if number in self._registers:
            self.homes[name] = self.operand(full_name(self._registers[number]), k)
        else:
            self.homes[name] = slot_operand(self._copied[number, k], ONE)
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
        instructions = lower(program.graph, program.roots)
        slot = 0
        for number, k in dict.fromkeys(i.payload for i in instructions if i.op == "input"):
            if number not in self._registers:
                self._copied[number, k] = slot
                place = element(target, "double", "%frame", slot)
                value = load(target, "double", inputs[number], k)
                target.lines.append(f"  store double {value}, ptr {place}, align 8")
                slot += 1
        assembled = self._assemble(instructions, slot)
        addresses = {"di": "%frame", "dx": "@constants"}
        addresses |= {register: inputs[number] for number, register in self._registers.items()}
        target.lines.append(assembly_call(assembled.lines, addresses, ONE))
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
        header = (
            f"{self.constant_table('constants')}\n"
            "define i32 @one(ptr noalias %inputs, ptr noalias %outputs) "
            f"{function_attributes(1)} {{"
        )
        return self.writer.module(header, [*target.lines, f"  ret i32 {status}"])

    def _assemble(self, instructions: list[Instruction], slots: int) -> Assembled:
        """Record the program, order its steps, and give them registers."""
        refs = emit_instructions(self.recorder, instructions, self)
        values = [refs[node] for node in self.program.roots]
        places = range(slots, slots + len(values))
        results = self.placed(values, [slot_operand(slot, ONE) for slot in places])
        self.place_constants("%rdx")
        steps = fill_waits(self.ordered(results))
        return assemble_steps(steps, self.homes, results, places.stop, ONE)


def one_in_assembly(program: Program, *, vector_lanes: int) -> str:
    """Write the module with the function `one`; see `tiburon.native.module_one`.

    Args:
        program: What to compute; see `is_for_one_assembly`.
        vector_lanes: Width of the host's vectors, for the check of inputs.

    Returns:
        LLVM assembly.
    """
    return _One(program, vector_lanes).write()
