"""The function for many cases with straight-line code in this package's own assembly.

Made where it is worth it and possible: long programs whose calls can be written out, for x86-64
with AVX2 and FMA, whose 16 vector registers LLVM does not share out well among thousands of
instructions. Everything else is LLVM's (`tiburon.native.module_many`), and so are here the loop
over cases and the exchange of rows and lanes. The bits are the same.

What parameters alone decide is a function of its own, `prepare`: it runs when parameters are read.

The last steps of a group of cases wait for each other. In programs that are not too long they run
beside the first steps of the next group: the function `group` then begins one group and ends the
one before. What a group needs for its end lies in its frame, an array of vectors; two frames take
turns.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiburon.native.engine import Host, suits_assembly
from tiburon.native.llvm_target import LlvmTarget
from tiburon.native.machine import Slots
from tiburon.native.module_many import load_vector, many_cases_loop, parameter_offsets
from tiburon.native.module_parts import (
    PARTIAL_SUMS,
    add_to_sums,
    element,
    function_attributes,
    load,
)
from tiburon.native.moves import copy_run
from tiburon.native.staging import LONG_ROW, stage_columns, unstage_rows
from tiburon.native.step_order import BEFORE, overlap_steps
from tiburon.native.step_registers import VECTOR_BYTES, Assembled, assemble_steps, slot_operand
from tiburon.native.step_waits import fill_waits
from tiburon.native.steps import Step, needed_steps
from tiburon.native.straight import emit_instructions
from tiburon.native.straight_steps import StraightSteps, assembly_call, straight_length
from tiburon.native.target import Ref
from tiburon.native.transpose import columns_from_rows, rows_from_columns
from tiburon.trace.lower import Instruction, lower
from tiburon.trace.program import Program

LANES = 4
SHORTEST_PROGRAM = 300
"""Operations from which on a program is written this way; the shortest measured has 1000."""

MOST_RESULTS = 1000
"""Results up to which a program is written this way. LLVM hands them out one by one here: 1000 take
it half a second, 4000 a quarter of a minute; its own code moves zeros and neighbors by loops."""

LONGEST_OVERLAP = 1500
"""Steps up to which groups overlap. It makes the dynamics of an arm (1100 steps) a tenth faster and
those of a quadruped (2600) up to a tenth slower, perhaps because two frames fill the first level of
the cache; longer programs find steps to do beside those that wait in themselves."""

# what the assembly is given: name of the register, and the pointer that it holds
_ADDRESSES = {"di": "%frame", "si": "%parameters", "dx": "@constants"}
_ADDRESSES_BEFORE = {"r8": "%frame0", "cx": "%parameters0"}


def is_for_assembly(program: Program, host: Host) -> bool:
    """Tell whether a program is written this way for a machine."""
    if not suits_assembly(host) or len(program.roots) > MOST_RESULTS:
        return False
    length = straight_length(program.graph, program.roots)
    return length is not None and length >= SHORTEST_PROGRAM


class _Group(StraightSteps):
    """The function for a group of cases, while it is written.

    Attributes:
        program: What to compute.
        overlapped: Whether it ends the group before the one it begins.
        slots: Vectors in the frame so far.
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
        """Vectors behind the parameters that `prepare` computes from them."""
        self._offsets = parameter_offsets(program)
        self._parameter_count = sum(program.inputs[k].size for k in self._offsets)
        # what parameters and constants alone decide
        self._settled: set[Ref] = set()
        self._input_slots: dict[tuple[int, int], int] = {}

    @property
    def table_size(self) -> int:
        """Vectors in the table of parameters."""
        return self._parameter_count + self.prepared

    # what `emit_instructions` asks for

    def load(self, instruction: Instruction) -> Ref:
        """Give the reference of an input."""
        number, k = instruction.payload
        name = f"i{number}_{k}"
        if number in self._offsets:
            place = self._offsets[number] + k
            now, before = self.operand("%rsi", place), self.operand("%rcx", place)
            self._settled.add(name)
        else:
            place = self._input_slots[number, k]
            now, before = self.operand("%rdi", place), self.operand("%r8", place)
        self.homes[name] = now
        self.homes[name + BEFORE] = before
        return name

    # the function

    def write(self) -> str:
        """Write the function `group`, which `many_cases_loop` calls."""
        target, program = self.target, self.program
        arguments = [k for k, item in enumerate(program.inputs) if not item.parameter]
        sums = self._load_sums()
        for place, number in enumerate(arguments):
            sums = self._read_rows(place, number, sums)
        self._store_sums(sums)
        slot = self.slots
        assembled = self._assemble()
        self.slots = assembled.slots
        self._run(assembled.lines)
        if self.overlapped:
            target.lines += ["  br i1 %is_second, label %write, label %done", "write:"]
        sums = self._load_sums()
        for place, output in enumerate(program.outputs, start=len(arguments)):
            sums = self._write_rows(place, range(slot, slot + len(output.nodes)), sums)
            slot += len(output.nodes)
        self._store_sums(sums)
        return self._function()

    def _function(self) -> str:
        """Put the function together."""
        given = ["%rows", "%parameters", "%sums"]
        if self.overlapped:
            given += ["%frame", "%parameters0", "%frame0", "%rows0"]
        else:
            kind = self.target.float_type
            self.stack_lines.append(f"  %frame = alloca [{max(self.slots, 1)} x {kind}], align 64")
        listed = ", ".join(f"ptr noalias {name}" for name in given)
        header = (
            f"define internal void @group({listed}{', i1 %is_second' * self.overlapped}) "
            f"noinline alignstack(64) {function_attributes(LANES)} {{"
        )
        body = [*self.target.lines, "  br label %done", "done:", "  ret void", "}"]
        return "\n".join(
            [
                *self.functions,
                header,
                "entry:",
                *self.stack_lines,
                *body,
                *self.target.declarations(),
                "",
            ]
        )

    def _assemble(self) -> Assembled:
        """Record the program, order its steps, and give them registers."""
        program, recorder = self.program, self.recorder
        refs = emit_instructions(recorder, lower(program.graph, program.roots), self)
        first = self.slots
        self.slots += len(program.roots)
        results = self.placed(
            [refs[node] for node in program.roots],
            [slot_operand(slot) for slot in range(first, self.slots)],
        )
        for place in range(len(recorder.constants)):
            home = self.operand("%rdx", place)
            self.homes[f"c{place}"] = self.homes[f"c{place}{BEFORE}"] = home
        steps = self.ordered(results, self._prepare(results))
        self.overlapped = len(steps) <= LONGEST_OVERLAP
        if not self.overlapped:
            return assemble_steps(fill_waits(steps), self.homes, results, self.slots)
        both = overlap_steps(steps, results.keys())
        kept: dict[Ref, str] = {}
        for value in both.kept:
            kept[value] = slot_operand(self.slots)
            self.homes[value + BEFORE] = self.operand("%r8", self.slots)
            self.slots += 1
        ends = {both.ends[value]: operand for value, operand in results.items()}
        return assemble_steps(both.steps, self.homes, {**kept, **ends}, self.slots)

    def _prepare(self, results: Mapping[Ref, str]) -> list[Step]:
        """Write what parameters alone decide as a function of its own; return the other steps.

        It runs when parameters are read: once for all groups whose cases share them.
        """
        settled, early, late = self._settled, [], []
        for step in self.recorder.steps:
            known = all(a in settled or self.recorder.is_constant(a) for a in step.args)
            if known and step.result not in results:
                settled.add(step.result)
                early.append(step)
            else:
                late.append(step)
        wanted = {a for step in needed_steps(late, set(results)) for a in step.args}
        kept = {}
        for step in early:
            if step.result in wanted:
                place = self._parameter_count + self.prepared
                kept[step.result] = self.operand("%rsi", place)
                self.homes[step.result + BEFORE] = self.operand("%rcx", place)
                self.prepared += 1
        if kept:
            assembled = assemble_steps(self.ordered(kept, early), self.homes, kept, 0)
            self.homes |= kept
            attributes = f"noinline alignstack(64) {function_attributes(LANES)}"
            frame = f"alloca [{assembled.slots + 1} x {self.target.float_type}], align 64"
            self.functions += [
                f"define internal void @prepare(ptr noalias %parameters) {attributes} {{",
                f"  %frame = {frame}",
                assembly_call(assembled.lines, _ADDRESSES, self.form),
                "  ret void",
                "}",
            ]
        return late

    def _load_sums(self) -> list[Ref]:
        return [load_vector(self.target, "%sums", k) for k in range(PARTIAL_SUMS)]

    def _store_sums(self, sums: list[Ref]) -> None:
        for k, total in enumerate(sums):
            self._store("%sums", k, total)

    def _store(self, table: Ref, place: int, value: Ref) -> None:
        kind = self.target.float_type
        address = element(self.target, kind, table, place)
        self.target.lines.append(f"  store {kind} {value}, ptr {address}, align {VECTOR_BYTES}")

    def _starts(self, rows: Ref, place: int) -> list[Ref]:
        return [load(self.target, "ptr", rows, place * LANES + lane) for lane in range(LANES)]

    def _read_rows(self, place: int, number: int, sums: list[Ref]) -> list[Ref]:
        """Write how the rows of an argument come into the frame; return the new sums."""
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

    def _run(self, lines: list[str]) -> None:
        """Write the assembly into the function; all vector registers are its own."""
        addresses = {**_ADDRESSES, **(_ADDRESSES_BEFORE if self.overlapped else {})}
        self.target.lines.append(assembly_call(lines, addresses, self.form))

    def _write_rows(self, place: int, slots: range, sums: list[Ref]) -> list[Ref]:
        """Write how an output of the group that ends becomes rows; return the new sums."""
        target = self.target
        starts = self._starts("%rows0" if self.overlapped else "%rows", place)
        columns = [load_vector(target, "%frame", slot) for slot in slots]
        if len(columns) < LONG_ROW:
            rows_from_columns(target, starts, columns)
            return add_to_sums(target, sums, columns)
        origins = {column: ("%frame", slot) for column, slot in zip(columns, slots, strict=True)}
        part = unstage_rows(target, self.stack_lines, starts, columns, origins)
        return add_to_sums(target, sums, [part])


def module_in_assembly(program: Program) -> str:
    """Write the module with the function `many`; see `tiburon.native.module_many`.

    Args:
        program: What to compute; see `is_for_assembly`.

    Returns:
        LLVM assembly.
    """
    group = _Group(program)
    text = group.write()
    constants = list(group.recorder.constants)
    frame = group.slots if group.overlapped else 0
    return text + many_cases_loop(
        program,
        constants,
        lanes=LANES,
        fused=True,
        frame=frame,
        parameters=group.table_size,
        prepared=group.prepared > 0,
    )
