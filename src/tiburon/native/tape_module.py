"""LLVM code of a tape: one function per class, the loop over the rows, and `one` and `many`.

The work array is on the stack. Loops copy arguments into it and results out of it, so that the size
of the code does not depend on the size of the program.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from tiburon.native.body import emit_instructions
from tiburon.native.data_movement import columns_from_rows, rows_from_columns, sum_of_vectors
from tiburon.native.llvm import (
    LlvmMachine,
    LlvmTarget,
    element,
    function_attributes,
    index_text,
    load,
    pairwise_sum,
)
from tiburon.native.llvm_module import CalleeWriter, FunctionWriter, with_loads
from tiburon.native.tape import Kind, Leaf, Tape, TapeClass, build_tape
from tiburon.native.target import NativeIndex, Ref, Slots
from tiburon.trace.lower import Instruction
from tiburon.trace.program import Program


class _ClassWriter(FunctionWriter):
    """The function of one class, whose operands are loaded first."""

    def __init__(self, target: LlvmTarget, callees: CalleeWriter, vector_lanes: int) -> None:
        super().__init__(target, callees, vector_lanes)
        self.operands: dict[int, Ref] = {}

    def load(self, instruction: Instruction) -> Ref:
        """Return the reference of an operand."""
        return self.operands[instruction.target]


class TapeCode:
    """Writes the internal functions of one tape."""

    def __init__(
        self,
        program: Program,
        tape: Tape,
        *,
        lanes: int,
        vector_lanes: int,
        fused: bool,
        prefix: str,
    ) -> None:
        """Prepare to write.

        Args:
            program: The program.
            tape: The program as a tape.
            lanes: Cases per vector.
            vector_lanes: Vector width of the host.
            fused: Whether the host has a fused multiply-add.
            prefix: Prefix of the names of internal functions and tables.
        """
        self.program = program
        self.tape = tape
        self.lanes = lanes
        self.vector_lanes = vector_lanes
        self.fused = fused
        self.prefix = prefix
        self.kind = LlvmTarget(lanes).float_type
        self.align = 8 * lanes
        self.attributes = function_attributes(lanes)
        self._width = max(map(len, tape.rows), default=1)
        self.parameter_offsets: dict[int, int] = {}
        self.parameter_count = 0
        for number, item in enumerate(program.inputs):
            if item.parameter:
                self.parameter_offsets[number] = self.parameter_count
                self.parameter_count += item.size

    def functions(self, callees: CalleeWriter) -> tuple[list[str], set[str]]:
        """Write tables, classes and the loop over rows; return them and their declarations."""
        declarations: set[str] = set()
        functions: list[str] = []
        for number, one in enumerate(self.tape.classes):
            text, used = self._class(number, one, callees)
            functions.append(text)
            declarations |= used
        return [*self._tables(), *functions, self._run()], declarations

    def staged_table(self, kind: Kind) -> str:
        """Return the name of the table of values that are copied to the work array first."""
        return f"@{self.prefix}staged_{kind[0]}{kind[1]}"

    def result_table(self, place: int) -> str:
        """Return the name of the table of the slots of an output."""
        return f"@{self.prefix}slots{place}"

    def _tables(self) -> list[str]:
        """Write constants, rows and slots of results as raw bytes, which LLVM parses fastest."""
        tape, width = self.tape, self._width
        numbers = [x for row in tape.rows for x in (*row, *[0] * (width - len(row)))]
        tables = {
            f"@{self.prefix}constants": struct.pack(f"<{len(tape.constants)}d", *tape.constants),
            f"@{self.prefix}rows": struct.pack(f"<{len(numbers)}q", *numbers),
        }
        for kind, pairs in tape.staged.items():
            numbers = [x for pair in pairs for x in pair]
            tables[self.staged_table(kind)] = struct.pack(f"<{len(numbers)}q", *numbers)
        for place, slots in enumerate(tape.output_slots):
            tables[self.result_table(place)] = struct.pack(f"<{len(slots)}q", *slots)
        lines = []
        for name, raw in tables.items():
            text = "".join(f"\\{byte:02X}" for byte in raw)
            lines.append(f'{name} = internal constant [{len(raw)} x i8] c"{text}", align 64')
        return lines

    def _class(self, number: int, one: TapeClass, callees: CalleeWriter) -> tuple[str, set[str]]:
        target = LlvmTarget(self.lanes, fused=self.fused)
        writer = _ClassWriter(target, callees, self.vector_lanes)
        bases: dict[int, Ref] = {}
        for operand in one.operands:
            if operand.base not in bases:
                start = load(target, "i64", "%row", 3 + operand.base)
                bases[operand.base] = self.array(target, operand.kind, start)
            writer.operands[operand.node] = self.operand(
                target, operand.kind, bases[operand.base], operand.offset
            )
        places: dict[int, list[tuple[int, int]]] = {}
        for node, block, place in one.results:
            places.setdefault(node, []).append((block, place))

        def store(node: int, ref: Ref) -> None:
            # stored at once, which frees its register
            for block, place in places.get(node, ()):
                address = element(target, self.kind, ("%short", "%lasting")[block], place)
                target.lines.append(f"  store {self.kind} {ref}, ptr {address}, align {self.align}")

        emit_instructions(target, one.instructions, writer, store)
        text = "\n".join(
            [
                f"; {one.name}",
                # no result overlaps an operand of the same row
                f"define internal void @{self.prefix}class{number}(ptr readonly %work, "
                "ptr readonly %parameters, ptr noalias readonly %row, ptr noalias %short, "
                f"ptr noalias %lasting) noinline {self.attributes} {{",
                "entry:",
                *writer.stack_lines,
                *with_loads(target.lines),
                "  ret void",
                "}",
                "",
            ]
        )
        return text, writer.declarations()

    def array(
        self,
        target: LlvmTarget,
        kind: Kind,
        place: Ref,
        *,
        work: Ref = "%work",
        parameters: Ref = "%parameters",
    ) -> Ref:
        """Emit the address of a row's base.

        Args:
            target: Where to emit.
            kind: Memory of the base.
            place: The base.
            work: The work array.
            parameters: The table of parameters; for one case, the table of pointers to them.
        """
        if kind[0] == "work":
            return element(target, self.kind, work, place)
        if kind[0] == "constant":
            return element(target, "double", f"@{self.prefix}constants", place)
        if self.lanes == 1:
            # one case reads parameters from the caller's arrays
            array = load(target, "ptr", parameters, kind[1])
            return element(target, "double", array, place)
        start = target.emit(f"add i64 {place}, {self.parameter_offsets[kind[1]]}")
        return element(target, self.kind, parameters, start)

    def operand(self, target: LlvmTarget, kind: Kind, base: Ref, offset: int) -> Ref:
        """Emit the load of an operand at an offset from a base."""
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

    def _run(self) -> str:
        """Write the loop over rows."""
        classes = range(len(self.tape.classes))
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
            f"  %row = getelementptr [{self._width} x i64], ptr @{self.prefix}rows, i64 %k",
            "  %class = load i64, ptr %row, align 8",
            *self._block("short", 1),
            *self._block("lasting", 2),
            "  switch i64 %class, label %again [ "
            + " ".join(f"i64 {k}, label %c{k}" for k in classes)
            + " ]",
        ]
        for k in classes:
            lines += [
                f"c{k}:",
                f"  call void @{self.prefix}class{k}(ptr %work, ptr %parameters, ptr %row, "
                "ptr %short, ptr %lasting)",
                "  br label %again",
            ]
        lines += ["again:", "  %next = add i64 %k, 1", "  br label %loop", "done:", "  ret void"]
        return "\n".join([*lines, "}", ""])

    def _block(self, name: str, place: int) -> list[str]:
        """Write the address of a block of a row's results."""
        return [
            f"  %{name}p = getelementptr i64, ptr %row, i64 {place}",
            f"  %{name}k = load i64, ptr %{name}p, align 8",
            f"  %{name} = getelementptr {self.kind}, ptr %work, i64 %{name}k",
        ]


class TapeModule:
    """Writes the module of one program.

    Attributes:
        tape: The program as a tape.
    """

    def __init__(
        self,
        program: Program,
        *,
        lanes: int,
        vector_lanes: int,
        fused: bool,
        x86: bool = False,
        prefix: str = "",
        leaves: dict[int, Leaf] | None = None,
    ) -> None:
        """Lay out the program.

        Args:
            program: The program.
            lanes: Cases per vector.
            vector_lanes: Vector width of the host.
            fused: Whether the host has a fused multiply-add.
            x86: Whether long callees are generated by `tiburon.native.x86`.
            prefix: Prefix of the names of internal functions and tables.
            leaves: Input element of each leaf of the graph; by default its payload.
        """
        self.program = program
        self.lanes = lanes
        self.fused = fused
        self.x86 = x86
        self.tape: Tape = build_tape(program, "traced", leaves)
        self._code = TapeCode(
            program, self.tape, lanes=lanes, vector_lanes=vector_lanes, fused=fused, prefix=prefix
        )
        self._run = f"call void @{prefix}run"
        self._target = LlvmTarget(lanes, fused=fused)
        self._stack: list[str] = []
        self._m = LlvmMachine(self._target, "", self._stack)

    def text(self) -> str:
        """Write the whole module."""
        callees = CalleeWriter(self.lanes, fused=self.fused, x86=self.x86)
        functions, declarations = self._code.functions(callees)
        entry = self._one() if self.lanes == 1 else self._many()
        declarations |= callees.declarations() | set(self._target.declarations())
        return "\n".join([*callees.functions(), *functions, entry, *sorted(declarations), ""])

    def callee(self, name: str, callees: CalleeWriter) -> tuple[str, set[str]]:
        """Write the program as an internal function `name(in, out)`."""
        functions, declarations = self._code.functions(callees)
        m, work = self._m, Slots("%work")
        self._reserve("%work", max(self.tape.slot_count, 1))
        self._stage("constant", work)
        (start,) = self.tape.input_slots.values()
        for k in m.loop(0, self.program.inputs[0].size, independent=True):
            m.store_slot(work, k + start, m.load_slot(Slots("%in"), k))
        self._line(f"{self._run}(ptr %work, ptr %work)")
        for k in m.loop(0, len(self.tape.output_slots[0])):
            m.store_slot(Slots("%out"), k, m.load_slot(work, self._result_slot(0, k)))
        attributes = self._code.attributes
        entry = [
            f"define internal void @{name}(ptr noalias readonly %in, ptr noalias %out) "
            f"{attributes} {{",
            "entry:",
            *self._stack,
            *self._target.lines,
            "  ret void",
            "}",
            "",
        ]
        return "\n".join([*functions, *entry]), declarations | set(self._target.declarations())

    def _one(self) -> str:
        """Write the function for a single case."""
        m, target, work = self._m, self._target, Slots("%work")
        self._reserve("%work", max(self.tape.slot_count, 1))
        total = self._new_sum()
        self._stage("constant", work)
        self._stage("parameter", work, "%inputs")
        for number, start in self.tape.input_slots.items():
            pointer, size = load(target, "ptr", "%inputs", number), self.program.inputs[number].size
            for k in m.loop(0, size, independent=True):
                m.store_slot(work, k + start, m.load_slot(Slots(pointer), k))
            self._add_array(total, pointer, size)
        self._line(f"{self._run}(ptr %work, ptr %inputs)")
        for place, slots in enumerate(self.tape.output_slots):
            pointer = load(target, "ptr", "%outputs", place)
            for k in m.loop(0, len(slots)):
                m.store_slot(Slots(pointer), k, m.load_slot(work, self._result_slot(place, k)))
            self._add_array(total, pointer, len(slots))
        check = m.load_slot(total, 0)
        failed = target.is_nan(target.sub(check, check))
        return self._entry("one(ptr noalias %inputs, ptr noalias %outputs)", failed)

    def _many(self) -> str:
        """Write the function for a batch."""
        m, target, code = self._m, self._target, self._code
        lanes, work = self.lanes, Slots("%work")
        inputs, outputs = range(len(self.program.inputs)), range(len(self.program.outputs))
        pointers = [load(target, "ptr", "%inputs", k) for k in inputs]
        strides = [load(target, "i64", "%input_strides", k) for k in inputs]
        results = [load(target, "ptr", "%outputs", k) for k in outputs]
        steps = [load(target, "i64", "%output_strides", k) for k in outputs]
        last = target.emit("sub i64 %end, 1")
        varying = "false"
        for number in code.parameter_offsets:
            differs = target.emit(f"icmp ne i64 {strides[number]}, 0")
            varying = target.emit(f"or i1 {varying}, {differs}")
        self._reserve("%work", max(self.tape.slot_count, 1))
        self._reserve("%parameters", max(code.parameter_count, 1))
        total = self._new_sum()
        self._stage("constant", work)
        rounded = target.emit(f"add i64 {target.emit('sub i64 %end, %begin')}, {lanes - 1}")
        for group in m.loop(0, NativeIndex(m, target.emit(f"sdiv i64 {rounded}, {lanes}"))):
            cases = self._cases(group, last)
            # parameters are read for the first group, and again only if they vary between cases
            first = target.emit(f"icmp eq i64 {index_text(group)}, 0")
            refill = target.emit(f"or i1 {first}, {varying}")
            for _ in m.loop(0, NativeIndex(m, target.emit(f"zext i1 {refill} to i64"))):
                for number, offset in code.parameter_offsets.items():
                    rows = self._rows(pointers[number], strides[number], cases)
                    # this is the only check of parameters that are passed to a call
                    there = Slots("%parameters", offset=offset)
                    self._read(rows, self.program.inputs[number].size, there, total)
                self._stage("parameter", work, "%parameters")
            for number, start in self.tape.input_slots.items():
                rows = self._rows(pointers[number], strides[number], cases)
                there = Slots("%work", offset=start)
                self._read(rows, self.program.inputs[number].size, there, total)
            self._line(f"{self._run}(ptr %work, ptr %parameters)")
            for place in outputs:
                self._write(self._rows(results[place], steps[place], cases), place, total)
        check = m.load_slot(total, 0)
        failed = target.is_nan(target.sub(check, check))
        mask = target.emit(f"bitcast {target.bool_type} {failed} to i{lanes}")
        head = (
            "many(ptr noalias %inputs, ptr noalias %input_strides, ptr noalias %outputs, "
            "ptr noalias %output_strides, i64 %begin, i64 %end)"
        )
        text = self._entry(head, target.emit(f"icmp ne i{lanes} {mask}, 0"))
        return f"{text}declare i64 @llvm.smin.i64(i64, i64)\n"

    # fragments

    def _line(self, text: str) -> None:
        self._target.lines.append(f"  {text}")

    def _reserve(self, name: Ref, count: int) -> None:
        self._stack.append(f"  {name} = alloca [{count} x {self._code.kind}], align 64")

    def _entry(self, head: str, failed: Ref) -> str:
        status = self._target.emit(f"zext i1 {failed} to i32")
        lines = [f"define i32 @{head} {self._code.attributes} {{", "entry:", *self._stack]
        return "\n".join([*lines, *self._target.lines, f"  ret i32 {status}", "}", ""])

    def _result_slot(self, place: int, k: Any) -> NativeIndex:
        """Emit the slot of an element of an output."""
        table = self._code.result_table(place)
        return NativeIndex(self._m, load(self._target, "i64", table, index_text(k)))

    def _stage(self, kinds: str, work: Slots, parameters: Ref = "") -> None:
        """Emit the loops that copy constants or parameters to the work array."""
        m, target, code = self._m, self._target, self._code
        for kind, pairs in self.tape.staged.items():
            if kind[0] != kinds:
                continue
            for k in m.loop(0, len(pairs)):
                pair = element(target, "[2 x i64]", code.staged_table(kind), index_text(k))
                place = load(target, "i64", pair, 0)
                source = code.array(target, kind, place, parameters=parameters)
                slot = NativeIndex(m, load(target, "i64", pair, 1))
                m.store_slot(work, slot, code.operand(target, kind, source, 0))

    def _new_sum(self) -> Slots:
        """Emit the initialization of the sum that detects non-finite values."""
        total = self._m.slots(1)
        self._m.store_slot(total, 0, self._target.const(0.0))
        return total

    def _add(self, total: Slots, *values: Ref) -> None:
        """Emit the addition of values to the sum."""
        added = pairwise_sum(self._target, values)
        self._m.store_slot(total, 0, self._target.add(self._m.load_slot(total, 0), added))

    def _add_array(self, total: Slots, pointer: Ref, size: int) -> None:
        """Emit the addition of an array to the sum, read in wide vectors."""
        target, lanes = self._target, self._code.vector_lanes
        sums = sum_of_vectors(target, self._stack, pointer, size // lanes, lanes)
        values = [
            target.emit(f"extractelement <{lanes} x double> {sums}, i64 {lane}")
            for lane in range(lanes)
        ]
        for k in range(size - size % lanes, size):
            values.append(self._m.load_slot(Slots(pointer), k))
        self._add(total, *values)

    def _cases(self, group: Any, last: Ref) -> list[Ref]:
        """Emit the indices of a group's cases; the last case fills unused lanes."""
        target = self._target
        start = target.emit(f"add i64 %begin, {index_text(group * self.lanes)}")
        cases = [target.emit(f"add i64 {start}, {lane}") for lane in range(self.lanes)]
        return [target.emit(f"call i64 @llvm.smin.i64(i64 {case}, i64 {last})") for case in cases]

    def _rows(self, pointer: Ref, stride: Ref, cases: Sequence[Ref]) -> list[Ref]:
        """Emit the address of each case's row."""
        target = self._target
        return [
            element(target, "double", pointer, target.emit(f"mul i64 {case}, {stride}"))
            for case in cases
        ]

    def _read(self, rows: Sequence[Ref], size: int, there: Slots, total: Slots) -> None:
        """Emit the loop that turns one row per lane into vectors."""
        m, target, lanes = self._m, self._target, self.lanes

        def keep(first: Any, count: int) -> None:
            starts = [element(target, "double", row, index_text(first)) for row in rows]
            columns = columns_from_rows(target, starts, count)
            for k, column in enumerate(columns):
                m.store_slot(there, first + k, column)
            if columns:
                self._add(total, *columns)

        for block in m.loop(0, size // lanes):
            keep(block * lanes, lanes)
        keep(size - size % lanes, size % lanes)

    def _write(self, rows: Sequence[Ref], place: int, total: Slots) -> None:
        """Emit the loop that turns vectors into one row per lane."""
        m, target, lanes = self._m, self._target, self.lanes
        size = len(self.tape.output_slots[place])

        def give(first: Any, count: int) -> None:
            slots = [self._result_slot(place, first + k) for k in range(count)]
            columns = [m.load_slot(Slots("%work"), slot) for slot in slots]
            starts = [element(target, "double", row, index_text(first)) for row in rows]
            rows_from_columns(target, starts, columns)
            if columns:
                self._add(total, *columns)

        for block in m.loop(0, size // lanes):
            give(block * lanes, lanes)
        give(size - size % lanes, size % lanes)
