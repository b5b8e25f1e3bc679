"""A tape as an LLVM module: the functions `one` and `many` of the same form as for inlined code.

The work space lies on the stack. Arguments are copied into it first and results out of it last, by
loops, so that the size of the code does not depend on the size of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiburon.native.callees import CalleeWriter
from tiburon.native.llvm_machine import LlvmMachine
from tiburon.native.llvm_target import LlvmTarget
from tiburon.native.machine import NativeIndex, Slots
from tiburon.native.module_parts import element, load
from tiburon.native.staging import pairwise_sum, sum_of_vectors
from tiburon.native.tape import Leaf, Tape
from tiburon.native.tape_code import TapeCode
from tiburon.native.tape_layout import build_tape
from tiburon.native.target import Ref
from tiburon.native.transpose import columns_from_rows, rows_from_columns
from tiburon.trace.program import Program

__all__ = ["TapeModule"]


class TapeModule:
    """Writes the module of one program for some number of lanes.

    Attributes:
        tape: The program as rows.
    """

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
            lanes: Cases in a vector.
            vector_lanes: Width of the host's vectors.
            fused: Whether the host has a fused multiply-add.
            prefix: How the names of internal functions and tables begin.
            leaves: Which element of which input each leaf of the graph is; by default as it says.
        """
        self.program = program
        self.lanes = lanes
        self.fused = fused
        self.tape: Tape = build_tape(program, "traced", leaves)
        self._code = TapeCode(
            program,
            self.tape,
            lanes=lanes,
            vector_lanes=vector_lanes,
            fused=fused,
            prefix=prefix,
        )
        self._run = f"call void @{prefix}run"
        self._target = LlvmTarget(lanes, fused=fused)
        self._stack: list[str] = []
        self._m = LlvmMachine(self._target, "", self._stack)

    def text(self) -> str:
        """Write the whole module."""
        callees = CalleeWriter(self.lanes, fused=self.fused)
        functions, declarations = self._code.functions(callees)
        entry = self._one() if self.lanes == 1 else self._many()
        declarations |= callees.declarations() | set(self._target.declarations())
        return "\n".join([*callees.functions(), *functions, entry, *sorted(declarations), ""])

    def callee(self, name: str, callees: CalleeWriter) -> tuple[str, set[str]]:
        """Write the program as an internal function `name(in, out)` of one array in, one out."""
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
        """Write the function for one case."""
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
        """Write the function for many cases."""
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
            # parameters are read for the first group, and again only if cases differ in them
            first = target.emit(f"icmp eq i64 {_text(group)}, 0")
            refill = target.emit(f"or i1 {first}, {varying}")
            for _ in m.loop(0, NativeIndex(m, target.emit(f"zext i1 {refill} to i64"))):
                for number, offset in code.parameter_offsets.items():
                    rows = self._rows(pointers[number], strides[number], cases)
                    # parameters given for a call pass no other check
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

    # small parts

    def _line(self, text: str) -> None:
        self._target.lines.append(f"  {text}")

    def _reserve(self, name: Ref, count: int) -> None:
        self._stack.append(f"  {name} = alloca [{count} x {self._code.kind}], align 64")

    def _entry(self, head: str, failed: Ref) -> str:
        status = self._target.emit(f"zext i1 {failed} to i32")
        lines = [f"define i32 @{head} {self._code.attributes} {{", "entry:", *self._stack]
        return "\n".join([*lines, *self._target.lines, f"  ret i32 {status}", "}", ""])

    def _result_slot(self, place: int, k: Any) -> NativeIndex:
        """Emit where an element of an output lies in the work space."""
        table = self._code.result_table(place)
        return NativeIndex(self._m, load(self._target, "i64", table, _text(k)))

    def _stage(self, kinds: str, work: Slots, parameters: Ref = "") -> None:
        """Emit the loops that copy constants or parameters into the work space."""
        m, target, code = self._m, self._target, self._code
        for kind, pairs in self.tape.staged.items():
            if kind[0] != kinds:
                continue
            for k in m.loop(0, len(pairs)):
                pair = element(target, "[2 x i64]", code.staged_table(kind), _text(k))
                place = load(target, "i64", pair, 0)
                source = code.array(target, kind, place, parameters=parameters)
                slot = NativeIndex(m, load(target, "i64", pair, 1))
                m.store_slot(work, slot, code.operand(target, kind, source, 0))

    def _new_sum(self) -> Slots:
        """Emit the start of the sum that shows non-finite numbers."""
        total = self._m.slots(1)
        self._m.store_slot(total, 0, self._target.const(0.0))
        return total

    def _add(self, total: Slots, *values: Ref) -> None:
        """Emit the addition of numbers to the sum."""
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
        """Emit the numbers of a group's cases; the last case fills lanes that are left over."""
        target = self._target
        start = target.emit(f"add i64 %begin, {_text(group * self.lanes)}")
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
            starts = [element(target, "double", row, _text(first)) for row in rows]
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
            starts = [element(target, "double", row, _text(first)) for row in rows]
            rows_from_columns(target, starts, columns)
            if columns:
                self._add(total, *columns)

        for block in m.loop(0, size // lanes):
            give(block * lanes, lanes)
        give(size - size % lanes, size % lanes)


def _text(index: Any) -> str:
    return str(index) if isinstance(index, int) else str(index.ref)
