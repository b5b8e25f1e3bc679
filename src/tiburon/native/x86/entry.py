"""The functions `one` for a single case and `many` for a batch, with x86 code for the program.

The code of a robot exceeds the cache of decoded instructions, so its size in bytes limits the
throughput; few reloads and short displacements reduce it. For a single case, angles that are known
at the same time have their sines and cosines computed four at a time.

For a batch, LLVM compiles the loop over groups of cases and the transposition between rows and
lanes (`tiburon.native.llvm_module`). Values that depend on parameters alone are computed by a
separate function `prepare`, which runs when parameters are read.

The last instructions of a group form a dependency chain. In programs that are not too long they run
beside the first instructions of the next group: the function `group` then starts one group and
finishes the previous one. The values that a group needs for its tail are in its frame, an array of
vectors; two frames alternate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from tiburon.native.body import emit_instructions
from tiburon.native.data_movement import (
    columns_from_rows,
    copy_run,
    rows_from_columns,
    stage_columns,
    unstage_rows,
)
from tiburon.native.engine import LONG_ROW
from tiburon.native.llvm import (
    PARTIAL_SUMS,
    LlvmTarget,
    add_to_sums,
    element,
    function_attributes,
    load,
    pairwise_sum,
)
from tiburon.native.llvm_module import (
    CalleeWriter,
    FunctionWriter,
    array_sums,
    load_vector,
    many_cases_loop,
    parameter_offsets,
)
from tiburon.native.target import Ref, Slots
from tiburon.native.x86.function import LANES, X86Function, full_name, inline_assembly
from tiburon.native.x86.instruction import X86Instruction, live_instructions
from tiburon.native.x86.register_allocation import (
    SCALAR,
    VECTOR_BYTES,
    AllocatedCode,
    allocate_registers,
    frame_operand,
)
from tiburon.native.x86.schedule import PREVIOUS, hide_latency, overlap_groups
from tiburon.trace.lower import Instruction
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
        instructions = self.lowered(program.graph, program.roots)
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


MAX_OVERLAPPED = 1500
"""Instructions up to which groups overlap. Overlap makes the dynamics of an arm (1100 instructions)
10 % faster and those of a quadruped (2600) up to 10 % slower, perhaps because two frames fill the
L1 cache; longer programs have enough independent instructions of their own."""

# pointer that each register holds: of the current group, and of the previous one
_ADDRESSES = {"di": "%frame", "si": "%parameters", "dx": "@constants"}
_PREVIOUS_ADDRESSES = {"r8": "%frame0", "cx": "%parameters0"}


class X86Batch(X86Function):
    """The function for a group of cases while it is written.

    Attributes:
        program: What to compute; see `suits_program`.
        overlapped: Whether it finishes the previous group while it starts one.
        slots: Size of the frame so far.
        prepared: Number of vectors after the parameters that `prepare` computes from them.
    """

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program
        self.overlapped = False
        self.target = LlvmTarget(LANES, fused=True)
        self.stack_lines: list[str] = []
        self.functions: list[str] = []
        self.slots = 0
        self.prepared = 0
        self._offsets = parameter_offsets(program)
        self._parameter_count = sum(program.inputs[k].size for k in self._offsets)
        # values that depend on parameters and constants alone
        self._invariant: set[Ref] = set()
        self._input_slots: dict[tuple[int, int], int] = {}

    def load(self, instruction: Instruction) -> Ref:
        """Return the reference of an input."""
        number, k = instruction.payload
        name = f"i{number}_{k}"
        if number in self._offsets:
            index = self._offsets[number] + k
            current, previous = self.operand("%rsi", index), self.operand("%rcx", index)
            self._invariant.add(name)
        else:
            index = self._input_slots[number, k]
            current, previous = self.operand("%rdi", index), self.operand("%r8", index)
        self.memory[name] = current
        self.memory[name + PREVIOUS] = previous
        return name

    def write(self) -> str:
        """Write the module with the function `many`."""
        group = self._group()
        return group + many_cases_loop(
            self.program,
            # lanes are cases here, so that constants are the same in all of them
            cast("list[int]", list(self.recorder.constants)),
            lanes=LANES,
            fused=True,
            frame=self.slots if self.overlapped else 0,
            parameters=self._parameter_count + self.prepared,
            prepared=self.prepared > 0,
        )

    def _group(self) -> str:
        """Write the function `group`, which `many_cases_loop` calls."""
        target, program = self.target, self.program
        arguments = [k for k, item in enumerate(program.inputs) if not item.parameter]
        sums = self._load_sums()
        for place, number in enumerate(arguments):
            sums = self._read_rows(place, number, sums)
        self._store_sums(sums)
        slot = self.slots
        code = self._assemble()
        self.slots = code.slots
        addresses = {**_ADDRESSES, **(_PREVIOUS_ADDRESSES if self.overlapped else {})}
        target.lines.append(inline_assembly(code.lines, addresses, self.width))
        if self.overlapped:
            target.lines += ["  br i1 %is_second, label %write, label %done", "write:"]
        sums = self._load_sums()
        for place, output in enumerate(program.outputs, start=len(arguments)):
            sums = self._write_rows(place, range(slot, slot + len(output.nodes)), sums)
            slot += len(output.nodes)
        self._store_sums(sums)
        given = ["%rows", "%parameters", "%sums"]
        if self.overlapped:
            given += ["%frame", "%parameters0", "%frame0", "%rows0"]
        else:
            size = f"[{max(self.slots, 1)} x {target.float_type}]"
            self.stack_lines.append(f"  %frame = alloca {size}, align 64")
        listed = ", ".join(f"ptr noalias {name}" for name in given)
        header = (
            f"define internal void @group({listed}{', i1 %is_second' * self.overlapped}) "
            f"noinline {function_attributes(LANES)} {{"
        )
        body = [*target.lines, "  br label %done", "done:", "  ret void", "}"]
        text = [*self.functions, header, "entry:", *self.stack_lines, *body]
        return "\n".join([*text, *target.declarations(), ""])

    def _assemble(self) -> AllocatedCode:
        """Record the program, schedule it, and allocate its registers."""
        program, recorder = self.program, self.recorder
        refs = emit_instructions(recorder, self.lowered(program.graph, program.roots), self)
        first = self.slots
        self.slots += len(program.roots)
        results = self.place_results(
            [refs[node] for node in program.roots],
            [frame_operand(slot) for slot in range(first, self.slots)],
        )
        self.place_constants("%rdx")
        for index in range(len(recorder.constants)):
            self.memory[f"c{index}{PREVIOUS}"] = self.memory[f"c{index}"]
        instructions = self.scheduled(results, self._prepare(results))
        self.overlapped = len(instructions) <= MAX_OVERLAPPED
        if not self.overlapped:
            ordered = hide_latency(instructions)
            return allocate_registers(ordered, self.memory, results, self.slots)
        both = overlap_groups(instructions, results.keys())
        kept: dict[Ref, str] = {}
        for value in both.kept:
            kept[value] = frame_operand(self.slots)
            self.memory[value + PREVIOUS] = self.operand("%r8", self.slots)
            self.slots += 1
        ends = {both.ends[value]: operand for value, operand in results.items()}
        return allocate_registers(both.instructions, self.memory, {**kept, **ends}, self.slots)

    def _prepare(self, results: Mapping[Ref, str]) -> list[X86Instruction]:
        """Move computations on parameters alone to `prepare`; return the other instructions.

        It runs when parameters are read: once for all groups whose cases share them.
        """
        invariant, early, late = self._invariant, [], []
        for instruction in self.recorder.instructions:
            known = all(a in invariant or self.recorder.is_constant(a) for a in instruction.args)
            if known and instruction.result not in results:
                invariant.add(instruction.result)
                early.append(instruction)
            else:
                late.append(instruction)
        wanted = {
            a for instruction in live_instructions(late, set(results)) for a in instruction.args
        }
        kept = {}
        for instruction in early:
            if instruction.result in wanted:
                index = self._parameter_count + self.prepared
                kept[instruction.result] = self.operand("%rsi", index)
                self.memory[instruction.result + PREVIOUS] = self.operand("%rcx", index)
                self.prepared += 1
        if kept:
            code = allocate_registers(self.scheduled(kept, early), self.memory, kept, 0)
            self.memory |= kept
            attributes = f"noinline {function_attributes(LANES)}"
            frame = f"alloca [{code.slots + 1} x {self.target.float_type}], align 64"
            self.functions += [
                f"define internal void @prepare(ptr noalias %parameters) {attributes} {{",
                f"  %frame = {frame}",
                inline_assembly(code.lines, _ADDRESSES, self.width),
                "  ret void",
                "}",
            ]
        return late

    def _load_sums(self) -> list[Ref]:
        return [load_vector(self.target, "%sums", k) for k in range(PARTIAL_SUMS)]

    def _store_sums(self, sums: list[Ref]) -> None:
        for k, value in enumerate(sums):
            self._store("%sums", k, value)

    def _store(self, table: Ref, index: int, value: Ref) -> None:
        kind = self.target.float_type
        address = element(self.target, kind, table, index)
        self.target.lines.append(f"  store {kind} {value}, ptr {address}, align {VECTOR_BYTES}")

    def _starts(self, rows: Ref, place: int) -> list[Ref]:
        return [load(self.target, "ptr", rows, place * LANES + lane) for lane in range(LANES)]

    def _read_rows(self, place: int, number: int, sums: list[Ref]) -> list[Ref]:
        """Write the transposition of an argument into the frame; return the new sums."""
        target, size, first = self.target, self.program.inputs[number].size, self.slots
        starts = self._starts("%rows", place)
        self._input_slots.update({(number, k): first + k for k in range(size)})
        self.slots += size
        if size >= LONG_ROW:
            array, part = stage_columns(target, self.stack_lines, starts, size)
            copy_run(target, self.stack_lines, array, Slots("%frame", offset=first), size)
            return add_to_sums(target, sums, [part])
        columns = columns_from_rows(target, starts, size)
        for k, column in enumerate(columns):
            self._store("%frame", first + k, column)
        return add_to_sums(target, sums, columns)

    def _write_rows(self, place: int, slots: range, sums: list[Ref]) -> list[Ref]:
        """Write the transposition of an output of the finished group; return the new sums."""
        target = self.target
        starts = self._starts("%rows0" if self.overlapped else "%rows", place)
        if len(slots) < LONG_ROW:
            columns = [load_vector(target, "%frame", slot) for slot in slots]
            rows_from_columns(target, starts, columns)
            return add_to_sums(target, sums, columns)
        array = Slots("%frame", offset=slots.start)
        part = unstage_rows(target, self.stack_lines, starts, array, len(slots))
        return add_to_sums(target, sums, [part])
