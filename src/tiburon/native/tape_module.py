"""A tape as an LLVM module: the functions `one` and `many` of the same form as for inlined code.

The work space lies on the stack. Arguments are copied into it first and results out of it last, by
loops, so that the size of the code does not depend on the size of the program.
"""

from __future__ import annotations

import struct

from tiburon.native.callees import CalleeWriter, with_loads
from tiburon.native.llvm_target import LlvmTarget
from tiburon.native.module_parts import FunctionWriter, element, function_attributes, load
from tiburon.native.straight import emit_instructions
from tiburon.native.tape import Leaf, Tape, TapeClass, build_tape
from tiburon.native.target import Ref
from tiburon.trace.lower import Instruction
from tiburon.trace.program import Program


class _ClassWriter(FunctionWriter):
    """The function of one class; its operands were loaded before."""

    def __init__(self, target: LlvmTarget, callees: CalleeWriter, vector_lanes: int) -> None:
        super().__init__(target, callees, vector_lanes)
        self.operands: dict[int, Ref] = {}

    def load(self, instruction: Instruction) -> Ref:
        """Give the reference of an operand."""
        return self.operands[instruction.target]


class TapeModule:
    """Writes the module of one program for some number of lanes."""

    def __init__(
        self,
        program: Program,
        *,
        lanes: int,
        vector_lanes: int,
        fused: bool,
        prefix: str = "",
        leaves: dict[int, Leaf] | None = None,
    ) -> None:
        """Lay the program out.

        Args:
            program: What to compute.
            lanes: Cases at a time.
            vector_lanes: Width of the host's vectors.
            fused: Whether the host has a fused multiply-add.
            prefix: How the names of internal functions and tables begin.
            leaves: Which element of which input each leaf of the graph is; by default as it says.
        """
        self.program = program
        self.prefix = prefix
        self.lanes = lanes
        self.vector_lanes = vector_lanes
        self.fused = fused
        self.tape: Tape = build_tape(program, "traced", leaves)
        self.kind = LlvmTarget(lanes).float_type
        self.align = 8 * lanes
        self.attributes = function_attributes(lanes)

    def text(self) -> str:
        """Write the whole module."""
        callees = CalleeWriter(self.lanes, fused=self.fused)
        functions, declarations = self.functions(callees)
        entry = self._one() if self.lanes == 1 else self._many()
        declarations |= callees.declarations()
        return "\n".join([*callees.functions(), *functions, entry, *sorted(declarations), ""])

    def functions(self, callees: CalleeWriter) -> tuple[list[str], set[str]]:
        """Write tables, classes and the loop over rows, and declare what they use."""
        declarations: set[str] = set()
        functions: list[str] = []
        for number, one in enumerate(self.tape.classes):
            text, used = self._class(number, one, callees)
            functions.append(text)
            declarations |= used
        return [*self._tables(), *functions, self._run()], declarations

    def callee(self, name: str, callees: CalleeWriter) -> tuple[str, set[str]]:
        """Write the program as an internal function `name(in, out)` of one array in, one out."""
        functions, declarations = self.functions(callees)
        target = LlvmTarget(self.lanes)
        lines, kind = target.lines, self.kind
        self._stage(target, "constant")
        (start,) = self.tape.input_slots.values()
        k = self._loop_head(lines, "in", self.program.inputs[0].size)
        address = element(target, kind, "%in", k)
        value = target.emit(f"load {kind}, ptr {address}, align {self.align}")
        self._store(target, value, "%work", target.emit(f"add i64 {k}, {start}"))
        self._loop_end(lines, "in")
        lines.append(f"  call void @{self.prefix}run(ptr %work, ptr %work)")
        k = self._loop_head(lines, "out", len(self.tape.output_slots[0]))
        slot = load(target, "i64", f"@{self.prefix}slots0", k)
        address = element(target, kind, "%work", slot)
        value = target.emit(f"load {kind}, ptr {address}, align {self.align}")
        self._store(target, value, "%out", k)
        self._loop_end(lines, "out")
        entry = [
            f"define internal void @{name}(ptr noalias readonly %in, ptr noalias %out) "
            f"{self.attributes} {{",
            "entry:",
            f"  %work = alloca [{max(self.tape.slot_count, 1)} x {kind}], align 64",
            *lines,
            "  ret void",
            "}",
            "",
        ]
        return "\n".join([*functions, *entry]), declarations

    def _tables(self) -> list[str]:
        """Write constants, rows and places of results as raw bytes, which LLVM reads fastest."""
        tape = self.tape
        width = max(map(len, tape.rows), default=1)
        numbers = [x for row in tape.rows for x in (*row, *[0] * (width - len(row)))]
        self.width = width
        tables = {
            "constants": struct.pack(f"<{len(tape.constants)}d", *tape.constants),
            "rows": struct.pack(f"<{len(numbers)}q", *numbers),
        }
        for kind, pairs in tape.staged.items():
            numbers = [x for pair in pairs for x in pair]
            tables[self._staged_name(kind)] = struct.pack(f"<{len(numbers)}q", *numbers)
        for place, slots in enumerate(tape.output_slots):
            tables[f"slots{place}"] = struct.pack(f"<{len(slots)}q", *slots)
        lines = []
        for name, raw in tables.items():
            text = "".join(f"\\{byte:02X}" for byte in raw)
            lines.append(
                f'@{self.prefix}{name} = internal constant [{len(raw)} x i8] c"{text}", align 64'
            )
        return lines

    def _staged_name(self, kind: tuple[str, int]) -> str:
        return f"staged_{kind[0]}{kind[1]}"

    def _stage(self, target: LlvmTarget, kinds: str) -> None:
        """Emit the loops that copy constants or parameters into the work space."""
        for kind, pairs in self.tape.staged.items():
            if kind[0] != kinds:
                continue
            name = self._staged_name(kind)
            k = self._loop_head(target.lines, name, len(pairs))
            pair = element(target, "[2 x i64]", f"@{self.prefix}{name}", k)
            source = self._array(target, kind, load(target, "i64", pair, 0))
            value = self._operand(target, kind, source, 0)
            self._store(target, value, "%work", load(target, "i64", pair, 1))
            self._loop_end(target.lines, name)

    def _class(self, number: int, one: TapeClass, callees: CalleeWriter) -> tuple[str, set[str]]:
        target = LlvmTarget(self.lanes, fused=self.fused)
        writer = _ClassWriter(target, callees, self.vector_lanes)
        bases: dict[int, Ref] = {}
        for operand in one.operands:
            if operand.base not in bases:
                start = load(target, "i64", "%row", 3 + operand.base)
                bases[operand.base] = self._array(target, operand.kind, start)
            writer.operands[operand.node] = self._operand(
                target, operand.kind, bases[operand.base], operand.offset
            )
        refs = emit_instructions(target, one.instructions, writer)
        blocks = [
            element(target, self.kind, "%work", load(target, "i64", "%row", 1 + block))
            for block in (0, 1)
        ]
        for node, block, place in one.results:
            address = element(target, self.kind, blocks[block], place)
            target.lines.append(
                f"  store {self.kind} {refs[node]}, ptr {address}, align {self.align}"
            )
        text = "\n".join(
            [
                f"; {one.name}",
                f"define internal void @{self.prefix}class{number}(ptr %work, ptr readonly "
                f"%parameters, ptr noalias readonly %row) noinline {self.attributes} {{",
                "entry:",
                *writer.stack_lines,
                *with_loads(target.lines),
                "  ret void",
                "}",
                "",
            ]
        )
        return text, writer.declarations()

    def _array(self, target: LlvmTarget, kind: tuple[str, int], place: Ref) -> Ref:
        """Emit the address that a row's base stands for."""
        if kind[0] == "work":
            return element(target, self.kind, "%work", place)
        if kind[0] == "constant":
            return element(target, "double", f"@{self.prefix}constants", place)
        if self.lanes == 1:
            # one case reads parameters where the caller has them
            array = load(target, "ptr", "%parameters", kind[1])
            return element(target, "double", array, place)
        start = target.emit(f"add i64 {place}, {self._parameter_offsets()[kind[1]]}")
        return element(target, self.kind, "%parameters", start)

    def _operand(self, target: LlvmTarget, kind: tuple[str, int], base: Ref, offset: int) -> Ref:
        if kind[0] == "constant" and self.lanes > 1:
            number = load(target, "double", base, offset)
            first = target.emit(f"insertelement {self.kind} poison, double {number}, i64 0")
            return target.emit(
                f"shufflevector {self.kind} {first}, {self.kind} poison, "
                f"<{self.lanes} x i32> zeroinitializer"
            )
        narrow = self.lanes == 1 or kind[0] == "constant"
        scalar = "double" if narrow else self.kind
        address = element(target, scalar, base, offset)
        return target.emit(f"load {scalar}, ptr {address}, align {8 if narrow else self.align}")

    def _parameter_offsets(self) -> dict[int, int]:
        offsets: dict[int, int] = {}
        size = 0
        for number, item in enumerate(self.program.inputs):
            if item.parameter:
                offsets[number] = size
                size += item.size
        return offsets

    def _run(self) -> str:
        """Write the loop over rows."""
        cases = " ".join(f"i64 {k}, label %c{k}" for k in range(len(self.tape.classes)))
        lines = [
            f"define internal void @{self.prefix}run(ptr %work, ptr readonly %parameters) "
            f"noinline {self.attributes} {{",
            "entry:",
            "  br label %loop",
            "loop:",
            "  %k = phi i64 [ 0, %entry ], [ %next, %again ]",
            f"  %more = icmp slt i64 %k, {len(self.tape.rows)}",
            "  br i1 %more, label %choose, label %done",
            "choose:",
            f"  %row = getelementptr [{self.width} x i64], ptr @{self.prefix}rows, i64 %k",
            "  %class = load i64, ptr %row, align 8",
            f"  switch i64 %class, label %again [ {cases} ]",
        ]
        for k in range(len(self.tape.classes)):
            lines += [
                f"c{k}:",
                f"  call void @{self.prefix}class{k}(ptr %work, ptr %parameters, ptr %row)",
                "  br label %again",
            ]
        lines += ["again:", "  %next = add i64 %k, 1", "  br label %loop", "done:", "  ret void"]
        return "\n".join([*lines, "}", ""])

    def _one(self) -> str:
        """Write the function for one case."""
        target = LlvmTarget(1)
        lines = target.lines
        lines.append("  store double 0.0, ptr %sum, align 8")
        self._stage(target, "constant")
        self._stage(target, "parameter")
        for number, start in self.tape.input_slots.items():
            pointer = load(target, "ptr", "%parameters", number)
            size = self.program.inputs[number].size
            k = self._loop_head(lines, f"i{number}", size)
            value = load(target, "double", pointer, k)
            self._add(target, value)
            slot = target.emit(f"add i64 {k}, {start}")
            address = element(target, "double", "%work", slot)
            lines.append(f"  store double {value}, ptr {address}, align 8")
            self._loop_end(lines, f"i{number}")
        lines.append(f"  call void @{self.prefix}run(ptr %work, ptr %parameters)")
        for place, slots in enumerate(self.tape.output_slots):
            pointer = load(target, "ptr", "%outputs", place)
            k = self._loop_head(lines, f"o{place}", len(slots))
            slot = load(target, "i64", f"@{self.prefix}slots{place}", k)
            value = load(target, "double", "%work", slot)
            self._add(target, value)
            address = element(target, "double", pointer, k)
            lines.append(f"  store double {value}, ptr {address}, align 8")
            self._loop_end(lines, f"o{place}")
        check = load(target, "double", "%sum", 0)
        failed = target.is_nan(target.sub(check, check))
        return "\n".join(
            [
                "define i32 @one(ptr noalias %parameters, ptr noalias %outputs) "
                f"{self.attributes} {{",
                "entry:",
                f"  %work = alloca [{max(self.tape.slot_count, 1)} x double], align 64",
                "  %sum = alloca double, align 8",
                *lines,
                f"  %status = zext i1 {failed} to i32",
                "  ret i32 %status",
                "}",
                "",
            ]
        )

    def _many(self) -> str:
        """Write the function for many cases."""
        target = LlvmTarget(self.lanes, prefix="t")
        lines, kind, lanes = target.lines, self.kind, self.lanes
        inputs = range(len(self.program.inputs))
        outputs = range(len(self.program.outputs))
        pointers = [load(target, "ptr", "%inputs", k) for k in inputs]
        strides = [load(target, "i64", "%input_strides", k) for k in inputs]
        results = [load(target, "ptr", "%outputs", k) for k in outputs]
        steps = [load(target, "i64", "%output_strides", k) for k in outputs]
        last = target.emit("sub i64 %end, 1")
        varying = "false"
        for number in self._parameter_offsets():
            differs = target.emit(f"icmp ne i64 {strides[number]}, 0")
            varying = target.emit(f"or i1 {varying}, {differs}")
        lines += [
            f"  store {kind} zeroinitializer, ptr %sum, align {self.align}",
        ]
        self._stage(target, "constant")
        lines += [
            "  br label %before",
            "before:",
            "  br label %groups",
            "groups:",
            "  %group = phi i64 [ %begin, %before ], [ %following, %written ]",
            "  %more = icmp slt i64 %group, %end",
            "  br i1 %more, label %start, label %done",
            "start:",
        ]
        cases = [target.emit(f"add i64 %group, {lane}") for lane in range(lanes)]
        # the last group repeats the last case to fill its lanes
        cases = [target.emit(f"call i64 @llvm.smin.i64(i64 {case}, i64 {last})") for case in cases]
        first = target.emit("icmp eq i64 %group, %begin")
        refill = target.emit(f"or i1 {first}, {varying}")
        lines += [f"  br i1 {refill}, label %fill, label %read", "fill:"]
        for number, offset in self._parameter_offsets().items():
            starts = self._starts(target, pointers[number], strides[number], cases)
            k = self._loop_head(lines, f"p{number}", self.program.inputs[number].size)
            vector = self._gather(target, starts, k)
            # parameters given for a call pass no other check
            self._add(target, vector)
            self._store(target, vector, "%parameters", target.emit(f"add i64 {k}, {offset}"))
            self._loop_end(lines, f"p{number}")
        self._stage(target, "parameter")
        lines += ["  br label %read", "read:"]
        for number, start in self.tape.input_slots.items():
            starts = self._starts(target, pointers[number], strides[number], cases)
            k = self._loop_head(lines, f"i{number}", self.program.inputs[number].size)
            vector = self._gather(target, starts, k)
            self._add(target, vector)
            self._store(target, vector, "%work", target.emit(f"add i64 {k}, {start}"))
            self._loop_end(lines, f"i{number}")
        lines.append(f"  call void @{self.prefix}run(ptr %work, ptr %parameters)")
        for place, slots in enumerate(self.tape.output_slots):
            starts = self._starts(target, results[place], steps[place], cases)
            k = self._loop_head(lines, f"o{place}", len(slots))
            slot = load(target, "i64", f"@{self.prefix}slots{place}", k)
            address = element(target, kind, "%work", slot)
            vector = target.emit(f"load {kind}, ptr {address}, align {self.align}")
            self._add(target, vector)
            for lane, start_of_row in enumerate(starts):
                number_ref = target.emit(f"extractelement {kind} {vector}, i64 {lane}")
                address = element(target, "double", start_of_row, k)
                lines.append(f"  store double {number_ref}, ptr {address}, align 8")
            self._loop_end(lines, f"o{place}")
        lines += [
            "  br label %written",
            "written:",
            f"  %following = add i64 %group, {lanes}",
            "  br label %groups",
            "done:",
        ]
        check = target.emit(f"load {kind}, ptr %sum, align {self.align}")
        failed = target.is_nan(target.sub(check, check))
        parameters = sum(item.size for item in self.program.inputs if item.parameter)
        return "\n".join(
            [
                "define i32 @many(ptr noalias %inputs, ptr noalias %input_strides, "
                "ptr noalias %outputs, ptr noalias %output_strides, i64 %begin, i64 %end) "
                f"{self.attributes} {{",
                "entry:",
                f"  %work = alloca [{max(self.tape.slot_count, 1)} x {kind}], align 64",
                f"  %parameters = alloca [{max(parameters, 1)} x {kind}], align 64",
                f"  %sum = alloca {kind}, align 64",
                *lines,
                f"  %mask = bitcast {target.bool_type} {failed} to i{lanes}",
                f"  %any = icmp ne i{lanes} %mask, 0",
                "  %status = zext i1 %any to i32",
                "  ret i32 %status",
                "}",
                "declare i64 @llvm.smin.i64(i64, i64)",
                "",
            ]
        )

    # small parts

    def _loop_head(self, lines: list[str], name: str, size: int) -> Ref:
        """Begin a loop; its counter lives on the stack of names, its body is one block."""
        lines += [
            f"  br label %{name}enter",
            f"{name}enter:",
            f"  br label %{name}test",
            f"{name}test:",
            f"  %{name}k = phi i64 [ 0, %{name}enter ], [ %{name}n, %{name}body ]",
            f"  %{name}c = icmp slt i64 %{name}k, {size}",
            f"  br i1 %{name}c, label %{name}body, label %{name}end",
            f"{name}body:",
        ]
        return f"%{name}k"

    def _loop_end(self, lines: list[str], name: str) -> None:
        lines += [
            f"  %{name}n = add i64 %{name}k, 1",
            f"  br label %{name}test",
            f"{name}end:",
        ]

    def _add(self, target: LlvmTarget, value: Ref) -> None:
        """Emit the addition of a number to the sum that shows non-finite ones."""
        before = target.emit(f"load {self.kind}, ptr %sum, align {self.align}")
        after = target.add(before, value)
        target.lines.append(f"  store {self.kind} {after}, ptr %sum, align {self.align}")

    def _starts(self, target: LlvmTarget, pointer: Ref, stride: Ref, cases: list[Ref]) -> list[Ref]:
        return [
            element(target, "double", pointer, target.emit(f"mul i64 {case}, {stride}"))
            for case in cases
        ]

    def _gather(self, target: LlvmTarget, starts: list[Ref], place: Ref) -> Ref:
        vector = "poison"
        for lane, start in enumerate(starts):
            number = load(target, "double", start, place)
            vector = target.emit(f"insertelement {self.kind} {vector}, double {number}, i64 {lane}")
        return vector

    def _store(self, target: LlvmTarget, vector: Ref, table: Ref, place: Ref) -> None:
        address = element(target, self.kind, table, place)
        target.lines.append(f"  store {self.kind} {vector}, ptr {address}, align {self.align}")
