"""The functions of a tape: one for each class, and the loop that runs the rows."""

from __future__ import annotations

import struct

from tiburon.native.callees import CalleeWriter, with_loads
from tiburon.native.llvm_target import LlvmTarget
from tiburon.native.module_parts import FunctionWriter, element, function_attributes, load
from tiburon.native.straight import emit_instructions
from tiburon.native.tape import Kind, Tape, TapeClass
from tiburon.native.target import Ref
from tiburon.trace.lower import Instruction
from tiburon.trace.program import Program

__all__ = ["TapeCode"]


class _ClassWriter(FunctionWriter):
    """The function of one class; its operands were loaded before."""

    def __init__(self, target: LlvmTarget, callees: CalleeWriter, vector_lanes: int) -> None:
        super().__init__(target, callees, vector_lanes)
        self.operands: dict[int, Ref] = {}

    def load(self, instruction: Instruction) -> Ref:
        """Give the reference of an operand."""
        return self.operands[instruction.target]


class TapeCode:
    """Writes the functions of one tape for some number of lanes."""

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
            program: What to compute.
            tape: The same as rows.
            lanes: Cases in a vector.
            vector_lanes: Width of the host's vectors.
            fused: Whether the host has a fused multiply-add.
            prefix: How the names of internal functions and tables begin.
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
        """Write tables, classes and the loop over rows, and declare what they use."""
        declarations: set[str] = set()
        functions: list[str] = []
        for number, one in enumerate(self.tape.classes):
            text, used = self._class(number, one, callees)
            functions.append(text)
            declarations |= used
        return [*self._tables(), *functions, self._run()], declarations

    def staged_table(self, kind: Kind) -> str:
        """Give the name of the table of what is copied into the work space first."""
        return f"@{self.prefix}staged_{kind[0]}{kind[1]}"

    def result_table(self, place: int) -> str:
        """Give the name of the table of where the elements of an output lie."""
        return f"@{self.prefix}slots{place}"

    def _tables(self) -> list[str]:
        """Write constants, rows and places of results as raw bytes, which LLVM reads fastest."""
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
            # at once: a result that waited for the others would only fill registers
            for block, place in places.get(node, ()):
                address = element(target, self.kind, ("%short", "%lasting")[block], place)
                target.lines.append(f"  store {self.kind} {ref}, ptr {address}, align {self.align}")

        emit_instructions(target, one.instructions, writer, store)
        text = "\n".join(
            [
                f"; {one.name}",
                # no result lies where an operand of the same row does
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
        """Emit the address that a row's base stands for.

        Args:
            target: Where to emit.
            kind: What the base is counted in.
            place: The base.
            work: The work space.
            parameters: The table of parameters; for one case, of the arrays that hold them.
        """
        if kind[0] == "work":
            return element(target, self.kind, work, place)
        if kind[0] == "constant":
            return element(target, "double", f"@{self.prefix}constants", place)
        if self.lanes == 1:
            # one case reads parameters where the caller has them
            array = load(target, "ptr", parameters, kind[1])
            return element(target, "double", array, place)
        start = target.emit(f"add i64 {place}, {self.parameter_offsets[kind[1]]}")
        return element(target, self.kind, parameters, start)

    def operand(self, target: LlvmTarget, kind: Kind, base: Ref, offset: int) -> Ref:
        """Emit the load of an operand at some distance from a base."""
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
        """Write where a block of a row's results begins."""
        return [
            f"  %{name}p = getelementptr i64, ptr %row, i64 {place}",
            f"  %{name}k = load i64, ptr %{name}p, align 8",
            f"  %{name} = getelementptr {self.kind}, ptr %work, i64 %{name}k",
        ]
