"""Functions inside time loops and iterations in this package's own assembly.

Like `tiburon.native.module_assembly` and `tiburon.native.one_assembly`, for functions that a
program calls: long ones whose own calls can be written out. Arguments are read where they lie,
results are written where the caller wants them. The bits are those of LLVM's code.
"""

from __future__ import annotations

from typing import TypeGuard

from tiburon.native.callees import CalleeWriter
from tiburon.native.engine import host, suits_assembly
from tiburon.native.fixed_arguments import TABLE, callee_parameters
from tiburon.native.llvm_target import LlvmTarget
from tiburon.native.module_parts import function_attributes
from tiburon.native.step_registers import FOUR, ONE, assemble_steps
from tiburon.native.step_waits import fill_waits
from tiburon.native.straight import emit_instructions
from tiburon.native.straight_steps import StraightSteps, assembly_call, straight_length
from tiburon.native.target import Ref
from tiburon.trace.callee import Callee
from tiburon.trace.lower import Instruction, lower
from tiburon.trace.regions import FunctionRegion

SHORTEST_CALLEE = 300
"""Operations from which on a function is written this way."""

# what the assembly is given beside the table of constants: name of the register, and the pointer
_ADDRESSES = {"di": "%frame", "si": "%in", "r8": "%out"}
_CONSTANTS, _TABLE = "dx", "cx"


def is_for_callee_assembly(callee: Callee, callees: CalleeWriter) -> TypeGuard[FunctionRegion]:
    """Tell whether a callee is written this way in some module for this machine."""
    suitable = callees.fused and callees.lanes in (1, 4) and suits_assembly(host())
    if not suitable or not isinstance(callee, FunctionRegion):
        return False
    length = straight_length(callee.graph, callee.roots)
    return length is not None and length >= SHORTEST_CALLEE


def assembled_callee(name: str, region: FunctionRegion, callees: CalleeWriter) -> str:
    """Write a function as an internal LLVM function around assembly.

    Args:
        name: Name of the function.
        region: What it does; see `is_for_callee_assembly`.
        callees: The module's internal functions.

    Returns:
        The function.
    """
    return _Function(name, region, callees).write()


class _Function(StraightSteps):
    """The function while it is written."""

    def __init__(self, name: str, region: FunctionRegion, callees: CalleeWriter) -> None:
        super().__init__(ONE if callees.lanes == 1 else FOUR)
        self._name = name
        self._region = region
        self._lanes = callees.lanes
        self._fixed = callees.fixed.places(region)
        self._homes_of_inputs = self._input_homes()

    def _input_homes(self) -> dict[tuple[str, object], tuple[Ref, int]]:
        """Return pointer and place of each argument, by operation and payload of its node."""
        graph, homes, passed = self._region.graph, {}, 0
        for node, place in zip(self._region.inputs, self._fixed, strict=True):
            where = (TABLE, place) if place is not None else ("%in", passed)
            passed += place is None
            homes[graph.ops[node], graph.payloads[node]] = where
        return homes

    # what `emit_instructions` asks for

    def load(self, instruction: Instruction) -> Ref:
        """Give the reference of an argument."""
        pointer, place = self._homes_of_inputs[instruction.op, instruction.payload]
        name = f"i{pointer}{place}"
        self.homes[name] = self.operand("%rsi" if pointer == "%in" else "%rcx", place)
        return name

    # the function

    def write(self) -> str:
        """Write the function."""
        region = self._region
        refs = emit_instructions(self.recorder, lower(region.graph, region.roots), self)
        results = self.placed(
            [refs[root] for root in region.roots],
            [self.operand("%r8", place) for place in range(len(region.roots))],
        )
        self.place_constants("%rdx")
        steps = fill_waits(self.ordered(results))
        assembled = assemble_steps(steps, self.homes, results, 0, self.form)
        addresses = {**_ADDRESSES, _CONSTANTS: f"@{self._name}.constants"}
        if any(place is not None for place in self._fixed):
            addresses[_TABLE] = TABLE
        kind = LlvmTarget(self._lanes).float_type
        lines = [
            self.constant_table(f"{self._name}.constants"),
            f"; {region.name}",
            f"define internal void @{self._name}({callee_parameters(self._fixed)}) "
            f"noinline {function_attributes(self._lanes)} {{",
            "entry:",
            f"  %frame = alloca [{assembled.slots + 1} x {kind}], align 64",
            assembly_call(assembled.lines, addresses, self.form),
            "  ret void",
            "}",
            "",
        ]
        return "\n".join(lines)
