"""Sines and cosines of angles that are inputs, computed by LLVM before assembly for one case runs.

LLVM puts several angles into one vector; assembly for one case has one number per register.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiburon.native.module_parts import FunctionWriter, element
from tiburon.native.straight import emit_instructions
from tiburon.native.target import Ref
from tiburon.record import record
from tiburon.trace.lower import Instruction

_LEAVES = ("input", "capture")


@record
class InFrame:
    """Payload of an input that lies in a slot of the frame."""

    slot: int


class _Early:
    """The surroundings of the angles: inputs are loaded by LLVM."""

    def __init__(self, writer: FunctionWriter, load: Callable[[Instruction], Ref]) -> None:
        self.load = load
        self.constant = writer.constant
        self.call = writer.call
        self.sin_cos = writer.sin_cos


def write_early_angles(
    instructions: Sequence[Instruction],
    writer: FunctionWriter,
    load: Callable[[Instruction], Ref],
) -> tuple[list[Instruction], int]:
    """Write sines and cosines of angles that are inputs into the first slots of %frame.

    Args:
        instructions: A lowered graph.
        writer: The LLVM function, for one case.
        load: Emits the load of an input.

    Returns:
        The instructions, with loads from the frame in place of those sines and cosines, and how
        many slots they take.
    """
    by_number = {i.target: i for i in instructions}
    angles = {i.args[0] for i in instructions if i.op in ("sin", "cos")}
    angles = {a for a in angles if by_number[a].op in _LEAVES}
    wanted = [i for i in instructions if i.op in ("sin", "cos") and i.args[0] in angles]
    early = [by_number[a] for a in sorted(angles)]
    target = writer.target
    refs = emit_instructions(target, [*early, *wanted], _Early(writer, load))
    known: dict[int, int] = {}
    for slot, instruction in enumerate(wanted):
        known[instruction.target] = slot
        place = element(target, "double", "%frame", slot)
        target.lines.append(f"  store double {refs[instruction.target]}, ptr {place}, align 8")
    rest = [
        Instruction("input", i.target, (), InFrame(known[i.target])) if i.target in known else i
        for i in instructions
    ]
    return rest, len(wanted)
