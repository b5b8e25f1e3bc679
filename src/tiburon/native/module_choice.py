"""The module that a program becomes: on the tape or straight, by LLVM or in our own assembly.

Apart from `tiburon.native.code`, which loads this only when there is something to write: all that
writes modules takes a while to import, and most programs are found in the cache.
"""

from __future__ import annotations

from tiburon.native.engine import host
from tiburon.native.module_assembly import is_for_assembly, module_in_assembly
from tiburon.native.module_many import module_for_many
from tiburon.native.module_one import module_for_one
from tiburon.native.one_assembly import is_for_one_assembly, one_in_assembly
from tiburon.native.stack import STACK_LIMIT, check_stack, stack_bytes
from tiburon.native.tape import is_tape
from tiburon.native.tape_module import TapeModule
from tiburon.trace.program import Program


def write_module(program: Program, part: str) -> str:
    """Write a program as LLVM assembly for this machine.

    Args:
        program: What to compute.
        part: "one" for a function of one case, "many" for a function of a range of cases.
    """
    return _for_one(program) if part == "one" else _for_many(program)


def _for_one(program: Program) -> str:
    lanes, fused = host().lanes, host().fused
    if is_tape(program):
        text = TapeModule(program, lanes=1, vector_lanes=lanes, fused=fused).text()
    elif is_for_one_assembly(program, host()):
        text = one_in_assembly(program, vector_lanes=lanes)
    else:
        text = module_for_one(program, vector_lanes=lanes, fused=fused)
    return check_stack(program.name, text)


def _for_many(program: Program) -> str:
    lanes, fused = host().lanes, host().fused
    taped = is_tape(program)
    while True:
        if taped:
            text = TapeModule(program, lanes=lanes, vector_lanes=lanes, fused=fused).text()
        elif lanes == host().lanes and is_for_assembly(program, host()):
            text = module_in_assembly(program)
        else:
            text = module_for_many(program, lanes=lanes, fused=fused)
        # fewer cases at a time need less room and give the same bits
        if lanes == 2 or stack_bytes(text) <= STACK_LIMIT:
            return check_stack(program.name, text)
        lanes //= 2
