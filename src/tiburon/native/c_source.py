"""Programs as C source: one file without dependencies, which computes the same bits.

The C code is written from the same instructions in the same order as the LLVM code for one case,
so a C compiler that neither contracts nor reorders arithmetic gives the same results.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from tiburon.errors import DomainError, OptionError, ShapeError
from tiburon.native.c_callees import CCalleeWriter, CFunction, c_function, call_elementary
from tiburon.native.c_target import CTarget
from tiburon.native.straight import emit_instructions
from tiburon.record import record
from tiburon.trace.lower import Order, lower
from tiburon.trace.program import Input, Program

_KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int
long register restrict return short signed sizeof static struct switch typedef union unsigned void
volatile while
"""
# and functions of the included headers that the code itself calls
_TAKEN = frozenset([*_KEYWORDS.split(), "copysign", "fabs", "floor", "fma", "memcpy", "sqrt"])

_GUARDS = """\
#include <float.h>
#if defined(__FAST_MATH__) || (defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0)
#error "this code needs IEEE 754 arithmetic in double precision: no -ffast-math, no x87"
#endif
"""


@record
class _Array:
    """How one array of the interface appears in the header comment."""

    place: str
    name: str
    shape: tuple[int, ...]
    note: str


def c_source(
    program: Program,
    *,
    name: str,
    parameters: Mapping[str, ArrayLike] | None = None,
    fused: bool = True,
    order: Order = "traced",
) -> str:
    """Write a program as a C99 file.

    The file defines `int NAME(const double *const *inputs, double *const *outputs)`. It takes one
    pointer per input and output, each to contiguous numbers in C order, and returns 0, or 1 if a
    number read from the arguments or written to the results is not finite.

    Args:
        program: What to compute.
        name: Name of the C function.
        parameters: Values of parameter inputs by name; each becomes an array `NAME_PARAMETER`
            that can be passed as that input.
        fused: Whether products are fused into sums, as on all hosts with a fused multiply-add.
        order: How instructions are ordered; results do not depend on it.

    Returns:
        The text of the file.

    Raises:
        DomainError: If the name cannot be that of a C function.
        OptionError: If there is no parameter of a given name.
        ShapeError: If a parameter has the wrong number of values.
    """
    _check_name(name)
    arrays = _parameter_arrays(program.inputs, name, parameters or {})
    callees = CCalleeWriter(fused=fused)
    body = _body(program, callees, fused=fused, order=order)
    sections = [
        _comment(program, name, arrays),
        _GUARDS,
        CTarget(fused=fused).prelude(),
        *arrays.values(),
        *callees.functions(),
        c_function(_signature(name), body),
    ]
    return "\n".join(sections)


def _body(program: Program, callees: CCalleeWriter, *, fused: bool, order: Order) -> list[str]:
    """Write the statements of the function."""
    target = CTarget(fused=fused)
    around = CFunction(target, callees)
    instructions = lower(program.graph, program.roots, order)
    lines = ["    double check = 0.0;"]
    for place, item in enumerate(program.inputs):
        if not item.parameter and item.size:
            lines.append(f"    for (int k = 0; k < {item.size}; ++k) check += inputs[{place}][k];")
    # everything is read before anything is written: outputs may lie where inputs are
    for instruction in instructions:
        if instruction.op == "input":
            argument, number = instruction.payload
            reference = target.emit("double", f"inputs[{argument}][{number}]")
            around.inputs[instruction.payload] = reference
    refs = emit_instructions(target, call_elementary(instructions), around)
    lines += target.lines
    for place, output in enumerate(program.outputs):
        for number, node in enumerate(output.nodes):
            lines.append(f"    outputs[{place}][{number}] = {refs[node]};")
            lines.append(f"    check += {refs[node]};")
    # compilers warn of arguments that nobody looks at
    unused = [
        f"    (void){table};"
        for table in ("inputs", "outputs")
        if not any(f"{table}[" in line for line in lines)
    ]
    # the difference of a finite number with itself is zero, of any other NaN
    return [*unused, *lines, "    return check - check != 0.0;"]


def _signature(name: str) -> str:
    return f"int {name}(const double *const *inputs, double *const *outputs)"


def _check_name(name: str) -> None:
    taken = name in _TAKEN or name.startswith("tb_")
    if taken or re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) is None:
        raise DomainError(
            "name",
            "the name of a C function: letters, digits and underscores, no keyword",
            repr(name),
            advice="pass another name",
        )


def _identifier(text: str) -> str:
    return re.sub(r"\W", "_", text, flags=re.ASCII)


def _parameter_arrays(
    inputs: Iterable[Input], name: str, parameters: Mapping[str, ArrayLike]
) -> dict[str, str]:
    """Write the definition of each parameter's array."""
    declared = {item.name: item for item in inputs if item.parameter}
    arrays = {}
    for key, value in parameters.items():
        if key not in declared:
            raise OptionError("parameters", declared, key)
        numbers = np.asarray(value, dtype=np.float64)
        item = declared[key]
        if numbers.shape != item.shape:
            raise ShapeError(key, item.described or item.shape, numbers.shape)
        listed = [CTarget().const(float(number)) for number in numbers.reshape(-1)]
        # C has no arrays without elements
        listed = listed or ["0.0"]
        rows = [", ".join(listed[start : start + 4]) for start in range(0, len(listed), 4)]
        text = ",\n    ".join(rows)
        arrays[key] = (
            f"const double {name}_{_identifier(key)}[{len(listed)}] = {{\n    {text}\n}};\n"
        )
    return arrays


def _comment(program: Program, name: str, arrays: Mapping[str, str]) -> str:
    """Write what a reader of the file needs to use it."""
    rows = []
    for place, item in enumerate(program.inputs):
        note = "parameter" if item.parameter else ""
        if item.name in arrays:
            note += f", here {name}_{_identifier(item.name)}"
        rows.append(_Array(f"inputs[{place}]", item.name, item.shape, note))
    for place, output in enumerate(program.outputs):
        rows.append(_Array(f"outputs[{place}]", output.name or "result", output.shape, ""))
    width = max((len(row.name) for row in rows), default=0)
    table = [
        f"    {row.place:<12}{row.name:<{width}}  shape {_shape(row.shape)}  {row.note}".rstrip()
        for row in rows
    ]
    lines = [
        f"{program.name}, written by Tiburon.",
        "",
        f"    {_signature(name)};",
        "",
        *table,
        "",
        "Each pointer leads to contiguous numbers, last index fastest. The function returns 0, or",
        "1 if a number read or written is not finite (parameters are not looked at). It keeps no",
        "state and allocates nothing.",
        "",
        f"    cc -std=c99 -O2 -ffp-contract=off -c {name}.c        (link with -lm)",
        "",
        "Add -march=native for speed: without it fma() is a function call. The results stay the",
        "same, to the bit, unless the compiler is told to reorder or contract arithmetic.",
    ]
    # names may hold anything, also the end of a comment
    safe = [line.replace("*/", "* /").replace("/*", "/ *") for line in lines]
    return "\n".join(["/*", *[f" * {line}".rstrip() for line in safe], " */\n"])


def _shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(str(size) for size in shape)}{',' if len(shape) == 1 else ''})"
