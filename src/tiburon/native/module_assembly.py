"""The function for many cases with straight-line code in this package's own assembly.

Made where it is worth it and possible: programs without calls, for x86-64 with AVX2 and FMA, whose
16 vector registers LLVM does not share out well among thousands of instructions. Everything else
is LLVM's (`tiburon.native.module_many`), and so are here the loop over cases and the exchange of
rows and lanes. The bits are the same.
"""

from __future__ import annotations

from tiburon.native import elementary
from tiburon.native.callees import Origins
from tiburon.native.engine import Host
from tiburon.native.llvm_target import LlvmTarget
from tiburon.native.module_many import load_vector, many_cases_loop, parameter_offsets
from tiburon.native.module_parts import (
    PARTIAL_SUMS,
    add_to_sums,
    element,
    function_attributes,
    load,
)
from tiburon.native.staging import LONG_ROW, stage_columns, unstage_rows
from tiburon.native.step_order import order_steps
from tiburon.native.step_registers import (
    REGISTERS,
    VECTOR_BYTES,
    Assembled,
    assemble_steps,
)
from tiburon.native.steps import StepRecorder, needed_steps
from tiburon.native.straight import emit_instructions
from tiburon.native.target import Ref
from tiburon.native.transpose import columns_from_rows, rows_from_columns
from tiburon.trace.lower import Instruction, lower
from tiburon.trace.program import Program

LANES = 4
# registers that hold addresses: work array, parameters, constants, and rows that were staged
_WORK, _PARAMETERS, _CONSTANTS = "di", "si", "dx"
_STAGED = ("r8", "r9", "r10", "r11", "ax", "cx")


def is_for_assembly(program: Program, host: Host) -> bool:
    """Tell whether a program can be written this way for a machine."""
    suitable = host.triple.startswith("x86_64") and host.lanes == LANES and host.fused
    long = [i for i in program.inputs if not i.parameter and i.size >= LONG_ROW]
    return suitable and len(long) <= len(_STAGED) and not program.has_calls


class _Group:
    """The function for one group of cases, while it is written."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.recorder = StepRecorder()
        self.target = LlvmTarget(LANES, fused=True)
        self.stack_lines: list[str] = []
        # what the assembly finds in memory, and the registers with addresses it needs for that
        self.homes: dict[Ref, str] = {}
        self.addresses = {_WORK: "%work", _PARAMETERS: "%parameters", _CONSTANTS: "@constants"}
        self.slots = 0
        self._offsets = parameter_offsets(program)
        self._inputs: dict[tuple[int, int], str] = {}

    # what `emit_instructions` asks for

    def load(self, instruction: Instruction) -> Ref:
        """Give the reference of an input."""
        number, k = instruction.payload
        name = f"i{number}_{k}"
        if number in self._offsets:
            self.homes[name] = _operand(_PARAMETERS, self._offsets[number] + k)
        else:
            self.homes[name] = self._inputs[number, k]
        return name

    def constant(self, value: float) -> Ref:
        """Give the reference of a constant."""
        return self.recorder.const(value)

    def call(self, instruction: Instruction, arguments: list[Ref]) -> list[Ref]:
        """Refuse calls, which `is_for_assembly` keeps away."""
        raise AssertionError(f"{self.program.name}: straight-line code without calls expected")

    def sin_cos(self, angles: list[Ref]) -> list[tuple[Ref, Ref]]:
        """Record sines and cosines."""
        return [elementary.sin_cos(self.recorder, angle) for angle in angles]

    # the function

    def write(self) -> str:
        """Write the function `group` (see `tiburon.native.module_many`)."""
        target, program = self.target, self.program
        sums = [load_vector(target, "%sums", k) for k in range(PARTIAL_SUMS)]
        arguments = [k for k, item in enumerate(program.inputs) if not item.parameter]
        for place, number in enumerate(arguments):
            sums = self._read_rows(place, number, sums)
        first_result = self.slots
        assembled = self._assemble()
        self._run(assembled.lines)
        slot = first_result
        for place, output in enumerate(program.outputs, start=len(arguments)):
            sums = self._write_rows(place, range(slot, slot + len(output.nodes)), sums)
            slot += len(output.nodes)
        for k, total in enumerate(sums):
            self._store("%sums", k, total)
        kind = target.float_type
        work = f"  %work = alloca [{max(assembled.slots, 1)} x {kind}], align 64"
        header = (
            "define internal void @group(ptr noalias %rows, ptr noalias %parameters, "
            f"ptr noalias %sums) noinline alignstack(64) {function_attributes(LANES)} {{"
        )
        body = [work, *self.stack_lines, *target.lines, "  ret void", "}"]
        return "\n".join([header, "entry:", *body, *target.declarations(), ""])

    def _assemble(self) -> Assembled:
        """Record the program, order its steps, and give them registers."""
        program, recorder = self.program, self.recorder
        refs = emit_instructions(recorder, lower(program.graph, program.roots), self)
        results: dict[Ref, int] = {}
        for node in program.roots:
            value = refs[node]
            if value in self.homes or value in results or recorder.is_constant(value):
                # each result has a slot of its own
                value = recorder.copy(value)
            results[value] = self.slots
            self.slots += 1
        for place in range(len(recorder.constants)):
            self.homes[f"c{place}"] = _operand(_CONSTANTS, place)
        steps = needed_steps(recorder.steps, set(results))
        ordered = order_steps(steps, results.keys(), REGISTERS)
        return assemble_steps(ordered, self.homes, results, self.slots)

    def _starts(self, place: int) -> list[Ref]:
        return [load(self.target, "ptr", "%rows", place * LANES + lane) for lane in range(LANES)]

    def _store(self, table: Ref, place: int, value: Ref) -> None:
        kind = self.target.float_type
        address = element(self.target, kind, table, place)
        self.target.lines.append(f"  store {kind} {value}, ptr {address}, align {VECTOR_BYTES}")

    def _read_rows(self, place: int, number: int, sums: list[Ref]) -> list[Ref]:
        """Write how the rows of an argument come into memory as vectors; return the new sums."""
        target, size = self.target, self.program.inputs[number].size
        if size >= LONG_ROW:
            array, part = stage_columns(target, self.stack_lines, self._starts(place), size)
            register = _STAGED[len(self.addresses) - 3]
            self.addresses[register] = array.address
            for k in range(size):
                self._inputs[number, k] = _operand(register, array.offset + k)
            return add_to_sums(target, sums, [part])
        columns = columns_from_rows(target, self._starts(place), size)
        for k, column in enumerate(columns):
            self._store("%work", self.slots + k, column)
            self._inputs[number, k] = _operand(_WORK, self.slots + k)
        self.slots += size
        return add_to_sums(target, sums, columns)

    def _run(self, lines: list[str]) -> None:
        """Write the assembly into the function; all vector registers are its own."""
        given = ", ".join(f"ptr {address}" for address in self.addresses.values())
        held = ",".join(f"{{{register}}}" for register in self.addresses)
        changed = ",".join(f"~{{ymm{k}}}" for k in range(REGISTERS))
        text = "\\0A".join(lines)
        self.target.lines.append(
            f'  call void asm sideeffect "{text}", "{held},{changed},~{{memory}}"({given})'
        )

    def _write_rows(self, place: int, slots: range, sums: list[Ref]) -> list[Ref]:
        """Write how the vectors of an output become rows; return the new sums."""
        target = self.target
        columns = [load_vector(target, "%work", slot) for slot in slots]
        if len(columns) < LONG_ROW:
            rows_from_columns(target, self._starts(place), columns)
            return add_to_sums(target, sums, columns)
        origins: Origins = dict(zip(columns, (("%work", slot) for slot in slots), strict=True))
        starts = self._starts(place)
        part = unstage_rows(target, self.stack_lines, starts, columns, origins)
        return add_to_sums(target, sums, [part])


def _operand(register: str, place: int) -> str:
    name = register if register[1].isdigit() else f"r{register}"
    return f"{place * VECTOR_BYTES}(%{name})"


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
    return text + many_cases_loop(program, constants, lanes=LANES, fused=True)
