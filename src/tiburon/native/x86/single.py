"""The function `one` for a single case, with x86 code for the program.

The code of a robot exceeds the cache of decoded instructions, so its size in bytes limits the
throughput; few reloads and short displacements reduce it. Angles that are known at the same time
have their sines and cosines computed four at a time.
"""

from __future__ import annotations

from tiburon.native.body import emit_instructions
from tiburon.native.llvm import (
    LlvmTarget,
    add_to_sums,
    element,
    function_attributes,
    load,
    pairwise_sum,
)
from tiburon.native.llvm_function import CalleeWriter, FunctionWriter
from tiburon.native.llvm_module import array_sums
from tiburon.native.target import Ref
from tiburon.native.x86.function import X86Function, full_name, inline_assembly
from tiburon.native.x86.register_allocation import SCALAR, AllocatedCode, frame_operand
from tiburon.trace.lower import Instruction, lower
from tiburon.trace.program import Program

# registers that point to the largest inputs; elements of other inputs are copied to the frame
_INPUT_REGISTERS = ("si", "cx", "r8", "r9", "r10", "r11")


class X86Single(X86Function):
    """The function while it is written."""

    def __init__(self, program: Program, *, vector_lanes: int) -> None:
        """Take the program.

        Args:
            program: What to compute; see `suits_program`.
            vector_lanes: Vector width of the host, for the check of inputs.
        """
        super().__init__(SCALAR)
        self.program = program
        self.target = LlvmTarget(1, fused=True)
        self.writer = FunctionWriter(self.target, CalleeWriter(1, fused=True), vector_lanes)
        self._vector_lanes = vector_lanes
        by_size = sorted(range(len(program.inputs)), key=lambda k: -program.inputs[k].size)
        self._registers = dict(zip(by_size, _INPUT_REGISTERS, strict=False))
        # frame slots of the elements of other inputs
        self._copied: dict[tuple[int, int], int] = {}

    def load(self, instruction: Instruction) -> Ref:
        """Return the reference of an input."""
        number, k = instruction.payload
        name = f"i{number}_{k}"
        if number in self._registers:
            self.memory[name] = self.operand(full_name(self._registers[number]), k)
        else:
            self.memory[name] = frame_operand(self._copied[number, k], SCALAR)
        return name

    def write(self) -> str:
        """Write the module."""
        target, program = self.target, self.program
        inputs = [load(target, "ptr", "%inputs", k) for k in range(len(program.inputs))]
        outputs = [load(target, "ptr", "%outputs", k) for k in range(len(program.outputs))]
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
                address = element(target, "double", "%frame", slot)
                value = load(target, "double", inputs[number], k)
                target.lines.append(f"  store double {value}, ptr {address}, align 8")
                slot += 1
        code = self._assemble(instructions, slot)
        addresses = {"di": "%frame", "dx": "@constants"}
        addresses |= {register: inputs[number] for number, register in self._registers.items()}
        target.lines.append(inline_assembly(code.lines, addresses, SCALAR))
        for pointer, output in zip(outputs, program.outputs, strict=True):
            values = []
            for k in range(len(output.nodes)):
                values.append(load(target, "double", "%frame", slot))
                address = element(target, "double", pointer, k)
                target.lines.append(f"  store double {values[-1]}, ptr {address}, align 8")
                slot += 1
            sums = add_to_sums(target, sums, values)
        check = pairwise_sum(target, sums)
        failed = target.is_nan(target.sub(check, check))
        status = target.emit(f"zext i1 {failed} to i32")
        self.writer.stack_lines.append(f"  %frame = alloca [{code.slots + 1} x double], align 64")
        header = (
            f"{self.constant_table('constants')}\n"
            "define i32 @one(ptr noalias %inputs, ptr noalias %outputs) "
            f"{function_attributes(1)} {{"
        )
        return self.writer.module(header, [*target.lines, f"  ret i32 {status}"])

    def _assemble(self, instructions: list[Instruction], slots: int) -> AllocatedCode:
        """Record the program, schedule it, and allocate its registers."""
        refs = emit_instructions(self.recorder, instructions, self)
        values = [refs[node] for node in self.program.roots]
        places = range(slots, slots + len(values))
        results = self.place_results(values, [frame_operand(slot, SCALAR) for slot in places])
        self.place_constants("%rdx")
        return self.assemble(results, places.stop)
