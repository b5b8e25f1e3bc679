"""The LLVM module of a program: choice of the code generator, and its stack use.

Separate from `tiburon.native.code`, which imports it only to compile: the code generators take a
while to import, and most programs are found in the cache.

Working arrays and arguments of calls are on the stack, one vector per value. A very large program
with eight lanes may need more stack than a thread has; narrower vectors then compute the same bits,
and a program that is still too large raises an error instead of crashing.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tiburon.errors import CompileError
from tiburon.native.engine import host
from tiburon.native.llvm_module import module_for_many, module_for_one
from tiburon.native.tape import is_tape
from tiburon.native.tape_module import TapeModule
from tiburon.native.x86.entry import X86Batch, X86Single
from tiburon.native.x86.function import is_supported, suits_program
from tiburon.trace.program import Program

STACK_LIMIT = 5 << 20
"""Stack that one kernel may use [bytes]; the main thread of most systems has 8 MiB in all."""

NARROW_LANES = 2
"""Cases that narrow vectors hold."""

_STACK_ARRAY = re.compile(r" = alloca \[(\d+) x (?:<(\d+) x )?(?:double|ptr|i64)")
_CALL = re.compile(r"call void @(\w+)\(")


def has_own_generator() -> bool:
    """Return whether long functions come from `x86/`, which compiles quickly, on this machine."""
    return is_supported(host())


class Written(NamedTuple):
    """A program as LLVM assembly."""

    text: str
    lanes: int
    """Cases that are computed at a time."""


def write_module(program: Program, part: str) -> Written:
    """Write a program as LLVM assembly for the host.

    Args:
        program: The program.
        part: "one" for the function of a single case, "many" for that of a batch.

    Raises:
        CompileError: If the program needs more than `STACK_LIMIT`.
    """
    # the only question about the x86 generator; a flag hands the answer to callees
    x86 = has_own_generator()
    if part == "one":
        written = Written(_module_for_one(program, x86), 1)
    else:
        written = _module_for_many(program, x86)
    _check_stack(program, written.text)
    return written


def _check_stack(program: Program, text: str) -> None:
    """Raise `CompileError` if a module needs more than `STACK_LIMIT`."""
    needed = stack_bytes(text)
    if needed > STACK_LIMIT:
        raise CompileError(
            f"{program.name}: needs {needed / 1e6:.1f} MB of working memory, and a kernel has "
            f"{STACK_LIMIT / 1e6:.1f} MB; split it into several kernels, or set "
            "TIBURON_ENGINE=interpreter"
        )


def write_narrow_module(program: Program) -> str:
    """Write the function for many cases with narrow vectors: a fraction of the stack, same bits."""
    fused = host().fused
    if is_tape(program):
        return TapeModule(
            program, lanes=NARROW_LANES, vector_lanes=NARROW_LANES, fused=fused, x86=False
        ).text()
    text = module_for_many(program, lanes=NARROW_LANES, fused=fused, x86=False)
    if stack_bytes(text) <= STACK_LIMIT:
        return text
    text = module_for_many(program, lanes=1, fused=fused, x86=False)
    _check_stack(program, text)
    return text


def _module_for_one(program: Program, x86: bool) -> str:
    lanes, fused = host().lanes, host().fused
    if is_tape(program):
        return TapeModule(program, lanes=1, vector_lanes=lanes, fused=fused, x86=x86).text()
    if x86 and suits_program(program, packed=False):
        return X86Single(program, vector_lanes=lanes).write()
    return module_for_one(program, vector_lanes=lanes, fused=fused, x86=x86)


def _module_for_many(program: Program, x86: bool) -> Written:
    lanes, fused = host().lanes, host().fused
    while True:
        if is_tape(program):
            tape = TapeModule(program, lanes=lanes, vector_lanes=lanes, fused=fused, x86=x86)
            text = tape.text()
        elif x86 and suits_program(program):
            text = X86Batch(program).write()
        else:
            text = module_for_many(program, lanes=lanes, fused=fused, x86=x86)
        # a tape for one lane is that of one case
        least = 2 if is_tape(program) else 1
        needed = stack_bytes(text)
        if lanes == least or needed <= STACK_LIMIT:
            return Written(text, lanes)
        # fewer lanes need less stack and give the same bits; half of them at least half of it
        while lanes > least and needed > STACK_LIMIT:
            lanes, needed = lanes // 2, needed // 2
        x86 = False


def stack_bytes(assembly: str) -> int:
    """Return the stack that the arrays of a module take while the deepest calls are active.

    Args:
        assembly: A module as text; no function is recursive.
    """
    # split by methods of strings: expressions would take a tenth of the time of a compilation
    functions: dict[str, str] = {}
    for text in f"\n{assembly}".split("\ndefine ")[1:]:
        head, _, rest = text.partition("(")
        functions[head.rpartition("@")[2]] = rest
    known: dict[str, int] = {}

    def needed(name: str) -> int:
        if name not in known:
            text = functions.get(name, "")
            called = map(needed, set(_CALL.findall(text)))
            arrays = _STACK_ARRAY.findall(text)
            size = sum(8 * int(count) * int(lanes or 1) for count, lanes in arrays)
            known[name] = size + max(called, default=0)
        return known[name]

    return max(map(needed, functions), default=0)
