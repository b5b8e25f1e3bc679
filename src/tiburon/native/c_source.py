"""Programs as C99 source: one file without dependencies that computes the same bits.

The C code has the same instructions in the same order as the LLVM code for one case, so a C
compiler that neither contracts nor reorders arithmetic gives the same results.
"""

# ruff: noqa: D102 -- the protocol `Target` documents each instruction

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import ArrayLike
from tiburon.errors import CompileError, DomainError, OptionError, ShapeError
from tiburon.native import elementary
from tiburon.native.body import Arguments, emit_instructions, is_unrolled, write_callee
from tiburon.native.code import native_code_wanted
from tiburon.native.engine import host
from tiburon.native.kernel import Kernel
from tiburon.native.target import NativeIndex, NativeMachine, Ref, Slots
from tiburon.record import record
from tiburon.trace.graph import Callee
from tiburon.trace.lower import Instruction, Order, lower
from tiburon.trace.program import Input, Program

_PRELUDE = """\
/* compile with -ffp-contract=off: the compiler must not fuse separate operations */
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline int64_t tb_bits(double a) { int64_t i; memcpy(&i, &a, sizeof i); return i; }
static inline double tb_double(int64_t i) { double a; memcpy(&a, &i, sizeof a); return a; }
static inline int64_t tb_signed(uint64_t u) { int64_t i; memcpy(&i, &u, sizeof i); return i; }
static inline int64_t tb_ashr(int64_t i, int count) { return i < 0 ? ~(~i >> count) : i >> count; }
"""


class CTarget:
    """Write C99; see `Target` for the meaning of the instructions.

    Floats are `double`, ints `int64_t`, bools `int` (0 or 1). The text needs the `prelude` before
    it, and contraction must be off (`-ffp-contract=off`).

    Attributes:
        fused: Whether `fma` is that of `math.h`; otherwise it is a product and a sum.
        lines: The statements so far, one per line, indented, without a line end.
    """

    def __init__(self, *, fused: bool = True, prefix: str = "t") -> None:
        """Start with no statements.

        Args:
            fused: Call `fma`, which rounds once.
            prefix: Prefix of the names of new values; must be unique in the function.
        """
        self.fused = fused
        self.lines: list[str] = []
        self._prefix = prefix
        self._count = 0

    def prelude(self) -> str:
        """Return the includes and helper functions that the statements need."""
        return _PRELUDE

    def emit(self, kind: str, expression: str) -> Ref:
        """Append the definition of a constant under a new name.

        Args:
            kind: C type of the value.
            expression: Its value.

        Returns:
            The new name.
        """
        self._count += 1
        name = f"{self._prefix}{self._count}"
        self.lines.append(f"    const {kind} {name} = {expression};")
        return name

    def _float(self, expression: str) -> Ref:
        return self.emit("double", expression)

    def _int(self, expression: str) -> Ref:
        return self.emit("int64_t", expression)

    def _bool(self, expression: str) -> Ref:
        return self.emit("int", expression)

    # float64 -> float64

    def const(self, value: float) -> Ref:
        if value != value:
            return "NAN"
        if value in (float("inf"), float("-inf")):
            return "INFINITY" if value > 0.0 else "(-INFINITY)"
        return value.hex() if value.hex()[0] != "-" else f"({value.hex()})"

    def add(self, a: Ref, b: Ref) -> Ref:
        return self._float(f"{a} + {b}")

    def sub(self, a: Ref, b: Ref) -> Ref:
        return self._float(f"{a} - {b}")

    def mul(self, a: Ref, b: Ref) -> Ref:
        return self._float(f"{a} * {b}")

    def div(self, a: Ref, b: Ref) -> Ref:
        return self._float(f"{a} / {b}")

    def neg(self, a: Ref) -> Ref:
        return self._float(f"-{a}")

    def fma(self, a: Ref, b: Ref, c: Ref) -> Ref:
        return self._float(f"fma({a}, {b}, {c})") if self.fused else self.add(self.mul(a, b), c)

    def sqrt(self, a: Ref) -> Ref:
        return self._float(f"sqrt({a})")

    def abs(self, a: Ref) -> Ref:
        return self._float(f"fabs({a})")

    def floor(self, a: Ref) -> Ref:
        return self._float(f"floor({a})")

    def copysign(self, magnitude: Ref, sign: Ref) -> Ref:
        return self._float(f"copysign({magnitude}, {sign})")

    # float64 -> bool

    def less(self, a: Ref, b: Ref) -> Ref:
        return self._bool(f"{a} < {b}")

    def less_equal(self, a: Ref, b: Ref) -> Ref:
        return self._bool(f"{a} <= {b}")

    def equal(self, a: Ref, b: Ref) -> Ref:
        return self._bool(f"{a} == {b}")

    def is_nan(self, a: Ref) -> Ref:
        return self._bool(f"{a} != {a}")

    # bool -> bool

    def bool_const(self, value: bool) -> Ref:
        return "1" if value else "0"

    def logical_and(self, p: Ref, r: Ref) -> Ref:
        return self._bool(f"{p} & {r}")

    def logical_or(self, p: Ref, r: Ref) -> Ref:
        return self._bool(f"{p} | {r}")

    def logical_xor(self, p: Ref, r: Ref) -> Ref:
        return self._bool(f"{p} ^ {r}")

    def logical_not(self, p: Ref) -> Ref:
        return self._bool(f"!{p}")

    # selection

    def select(self, condition: Ref, a: Ref, b: Ref) -> Ref:
        return self._float(f"{condition} ? {a} : {b}")

    def iselect(self, condition: Ref, i: Ref, j: Ref) -> Ref:
        return self._int(f"{condition} ? {i} : {j}")

    # int64; sums and left shifts use uint64_t, where wrapping is defined

    def bits(self, a: Ref) -> Ref:
        return self._int(f"tb_bits({a})")

    def double(self, i: Ref) -> Ref:
        return self._float(f"tb_double({i})")

    def int_const(self, value: int) -> Ref:
        if value >= 1 << 63:
            value -= 1 << 64
        if value == -(1 << 63):
            return "INT64_MIN"
        return f"INT64_C({value})" if value >= 0 else f"(-INT64_C({-value}))"

    def iadd(self, i: Ref, j: Ref) -> Ref:
        return self._int(f"tb_signed((uint64_t){i} + (uint64_t){j})")

    def isub(self, i: Ref, j: Ref) -> Ref:
        return self._int(f"tb_signed((uint64_t){i} - (uint64_t){j})")

    def iand(self, i: Ref, j: Ref) -> Ref:
        return self._int(f"{i} & {j}")

    def ior(self, i: Ref, j: Ref) -> Ref:
        return self._int(f"{i} | {j}")

    def ixor(self, i: Ref, j: Ref) -> Ref:
        return self._int(f"{i} ^ {j}")

    def shl(self, i: Ref, count: int) -> Ref:
        return self._int(f"tb_signed((uint64_t){i} << {count})")

    def lshr(self, i: Ref, count: int) -> Ref:
        return self._int(f"tb_signed((uint64_t){i} >> {count})")

    def ashr(self, i: Ref, count: int) -> Ref:
        return self._int(f"tb_ashr({i}, {count})")

    def iequal(self, i: Ref, j: Ref) -> Ref:
        return self._bool(f"{i} == {j}")


_OPERATORS = {"add": "+", "sub": "-", "mul": "*"}


class CMachine(NativeMachine):
    """Write C: memory becomes local arrays, loops become `for` statements."""

    target: CTarget

    def __init__(self, target: CTarget, *, unrolled: bool = False) -> None:
        """Start without memory or loops.

        Args:
            target: Receives the statements.
            unrolled: See `NativeMachine`.
        """
        super().__init__(target, unrolled=unrolled)
        self._count = 0
        self._exits: list[tuple[str, int]] = []

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def _line(self, text: str) -> None:
        self.target.lines.append(f"    {text}")

    # memory

    def slots(self, size: int) -> Slots:
        """Return a local array of floats."""
        name = self._name("row")
        # C has no arrays without elements
        self._line(f"double {name}[{max(size, 1)}];")
        return Slots(name)

    def load_slot(self, slots: Slots, place: Any) -> Ref:
        """Read a float."""
        index = _index_text(place + slots.offset)
        return self.target.emit("double", f"{slots.address}[{index}]")

    def store_slot(self, slots: Slots, place: Any, value: Ref) -> None:
        """Write a float."""
        self._line(f"{slots.address}[{_index_text(place + slots.offset)}] = {value};")

    def fetch(self, address: Ref, place: Ref) -> Ref:
        """Read a float from an external row."""
        row = f"((const double *)(uintptr_t)({address}))"
        return self.target.emit("double", f"{row}[(int64_t)({place})]")

    def call(self, address: Ref, memory: Any, number: int, size: int) -> None:
        """Refuse: messages between processes are those of a running kernel."""
        raise CompileError("kernels that exchange messages have no source; export the whole robot")

    def truth_memory(self, value: bool) -> Ref:
        """Return a variable for one bool."""
        name = self._name("truth")
        self._line(f"int {name} = {self.target.bool_const(value)};")
        return name

    def load_truth(self, memory: Ref) -> Ref:
        """Read a bool."""
        return self.target.emit("int", memory)

    def store_truth(self, memory: Ref, value: Ref) -> None:
        """Write a bool."""
        self._line(f"{memory} = {value};")

    # indices

    def _index(self, expression: str) -> NativeIndex:
        return NativeIndex(self, self.target.emit("int64_t", expression))

    def index_operation(self, operation: str, i: Any, j: Any) -> NativeIndex:
        """Write the sum, difference or product of indices."""
        return self._index(f"{_index_text(i)} {_OPERATORS[operation]} {_index_text(j)}")

    def constant_table(self, values: Sequence[int]) -> Ref:
        """Return a constant array of indices."""
        name = self._name("table")
        listed = ", ".join(str(value) for value in values) or "0"
        self._line(f"static const int32_t {name}[] = {{{listed}}};")
        return name

    def lookup_index(self, table: Ref, place: Any) -> NativeIndex:
        """Read a constant index."""
        return self._index(f"{table}[{_index_text(place)}]")

    def index(self, value: Ref) -> NativeIndex:
        """Convert a whole number to an index."""
        return self._index(f"(int64_t)({value})")

    def number_of_index(self, place: NativeIndex) -> Ref:
        """Convert an index to a float."""
        return self.target.emit("double", f"(double){place.ref}")

    def largest(self, value: Ref, limit: int) -> NativeIndex:
        """Convert a whole number to an index."""
        return self.index(value)

    # loops

    def counted_loop(
        self, start: Any, stop: Any, *, down: bool, independent: bool = False
    ) -> Iterator[NativeIndex]:
        """Write a loop over indices."""
        k, first, end = self._name("k"), _index_text(start), _index_text(stop)
        if down:
            self._line(f"for (int64_t {k} = {end} - 1; {k} >= {first}; --{k}) {{")
        else:
            self._line(f"for (int64_t {k} = {first}; {k} < {end}; ++{k}) {{")
        yield NativeIndex(self, k)
        self._line("}")

    def repeat(self, limit: int) -> Iterator[None]:
        """Write an endless loop."""
        counter = self._name("k")
        self._exits.append((counter, limit))
        self._line(f"for (int64_t {counter} = 0;; ++{counter}) {{")
        yield
        self._line("}")
        self._exits.pop()

    def branch(self, condition: Ref) -> Iterator[None]:
        """Write an `if` statement."""
        self._line(f"if ({condition}) {{")
        yield
        self._line("}")

    def leave_unless(self, condition: Ref) -> None:
        """Write the exit of the innermost `repeat`."""
        counter, limit = self._exits[-1]
        self._line(f"if (!{condition} || {counter} >= {limit}) break;")


def _index_text(index: Any) -> str:
    return str(index) if isinstance(index, int) else str(index.ref)


# sine and cosine are computed in pairs by `sin_cos`
_ELEMENTARY = frozenset(elementary.FUNCTIONS)


class CFunction:
    """The C function around straight-line code: its inputs, constants and calls.

    Attributes:
        target: The function's statements.
        inputs: Reference of each input element that was loaded.
    """

    def __init__(self, target: CTarget, callees: CCalleeWriter) -> None:
        self.target = target
        self.inputs: dict[tuple[int, int], Ref] = {}
        self._callees = callees
        self._calls = 0

    def load(self, instruction: Instruction) -> Ref:
        """Return the reference of an input that was loaded before."""
        return self.inputs[instruction.payload]

    def constant(self, value: float) -> Ref:
        """Return a constant as part of the expression."""
        return self.target.const(value)

    def call(self, instruction: Instruction, arguments: list[Ref]) -> list[Ref]:
        """Write a call of an elementary function, region or primitive."""
        called = instruction.payload
        if isinstance(called, str):
            name = self._callees.elementary_name(called)
            return [self.target.emit("double", f"{name}({', '.join(arguments)})")]
        name = self._callees.callee_name(called)
        self._calls += 1
        given, found = f"given{self._calls}", f"found{self._calls}"
        # C has no arrays without elements
        listed = ", ".join(arguments) or "0.0"
        size = max(called.result_count, 1)
        self.target.lines += [
            f"    const double {given}[] = {{{listed}}};",
            f"    double {found}[{size}];",
            f"    {name}({given}, {found});",
        ]
        return [
            self.target.emit("double", f"{found}[{number}]")
            for number in range(called.result_count)
        ]

    def sin_cos(self, angles: list[Ref]) -> list[tuple[Ref, Ref]]:
        """Write sines and cosines, one call for each angle."""
        name = self._callees.elementary_name("sin_cos")
        pairs = []
        for angle in angles:
            self._calls += 1
            sine, cosine = f"sin{self._calls}", f"cos{self._calls}"
            self.target.lines += [
                f"    double {sine}, {cosine};",
                f"    {name}({angle}, &{sine}, &{cosine});",
            ]
            pairs.append((sine, cosine))
        return pairs


def call_elementary(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Turn elementary functions into calls, so that each is written once.

    Args:
        instructions: A lowered graph.

    Returns:
        The instructions with calls whose payload is the function's name.
    """
    fresh = 1 + max((instruction.target for instruction in instructions), default=0)
    rewritten = []
    for instruction in instructions:
        if instruction.op in _ELEMENTARY:
            rewritten.append(Instruction("call", fresh, instruction.args, instruction.op))
            rewritten.append(Instruction("result", instruction.target, (fresh,), 0))
            fresh += 1
        else:
            rewritten.append(instruction)
    return rewritten


class CCalleeWriter:
    """Collect the static functions of one C file.

    Attributes:
        fused: Whether fused multiply-adds are used.
    """

    def __init__(self, *, fused: bool) -> None:
        self.fused = fused
        self._elementary: dict[str, str] = {}
        self._names: dict[int, str] = {}
        self._functions: list[str] = []

    def functions(self) -> list[str]:
        """Return the text of all functions, each after those it calls."""
        return [*self._elementary.values(), *self._functions]

    def elementary_name(self, name: str) -> str:
        """Return the name of an elementary function; write it on first use."""
        if name not in self._elementary:
            self._elementary[name] = self._elementary_text(name)
        return f"tb_{name}"

    def _elementary_text(self, name: str) -> str:
        target = CTarget(fused=self.fused)
        if name == "sin_cos":
            sine, cosine = elementary.sin_cos(target, "a")
            target.lines += [f"    *sine = {sine};", f"    *cosine = {cosine};"]
            return c_function(
                "static void tb_sin_cos(double a, double *sine, double *cosine)", target.lines
            )
        names = ["a", "b"] if name in ("atan2", "hypot", "pow") else ["a"]
        result = getattr(elementary, name)(target, *names)
        header = f"static double tb_{name}({', '.join(f'double {a}' for a in names)})"
        return c_function(header, [*target.lines, f"    return {result};"])

    def callee_name(self, callee: Callee) -> str:
        """Return the name of a region's or primitive's function; write it on first use."""
        if callee.key not in self._names:
            readable = re.sub(r"\W", "_", callee.name, flags=re.ASCII)
            name = self._names[callee.key] = f"tb_{len(self._names) + 1}_{readable}"
            header = f"static void {name}(const double *given, double *found)"
            # functions that the body calls are written first
            self._functions.append(c_function(header, self._callee_lines(callee)))
        return self._names[callee.key]

    def _callee_lines(self, callee: Callee) -> list[str]:
        target = CTarget(fused=self.fused)
        m = CMachine(target, unrolled=is_unrolled(callee))
        given, found = Arguments(Slots("given")), Slots("found")
        base = CFunction(target, self)
        write_callee(m, callee, given, found, base, prepare=call_elementary)
        return target.lines


_DEFINED = re.compile(r" *(?:static )?const (?:double|int|int32_t|int64_t) (\w+)(?:\[\])? = ")
_NAMED = re.compile(r"[A-Za-z]\w*")


def _used(lines: Sequence[str]) -> list[str]:
    """Return the statements without definitions of values that no later one reads."""
    named: set[str] = set()
    kept = []
    for line in reversed(lines):
        defined = _DEFINED.match(line)
        if defined is None or defined[1] in named:
            named.update(_NAMED.findall(line, 0 if defined is None else defined.end()))
            kept.append(line)
    return kept[::-1]


def c_function(header: str, lines: Sequence[str]) -> str:
    """Return a C function, indented by its braces, without definitions that nothing reads.

    Args:
        header: Everything before the body.
        lines: Statements, one per line.

    Returns:
        The text, with a line end.
    """
    text = [header, "{"]
    depth = 1
    for line in _used(lines):
        bare = line.strip()
        depth -= bare.startswith("}")
        text.append("    " * depth + bare)
        depth += bare.endswith("{")
    return "\n".join([*text, "}", ""])


_KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int
long register restrict return short signed sizeof static struct switch typedef union unsigned void
volatile while
"""
# keywords, and functions of the included headers that the code calls
_TAKEN = frozenset([*_KEYWORDS.split(), "copysign", "fabs", "floor", "fma", "memcpy", "sqrt"])

_GUARDS = """\
#include <float.h>
#if defined(__FAST_MATH__) || (defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0)
#error "this code needs IEEE 754 arithmetic in double precision: no -ffast-math, no x87"
#endif
"""


@record
class _Array:
    """One array of the interface, for the header comment."""

    place: str
    name: str
    shape: tuple[int, ...]
    note: str


def program_c_source(
    program: Program,
    *,
    name: str,
    parameters: Mapping[str, ArrayLike] | None = None,
    fused: bool = True,
    order: Order = "traced",
) -> str:
    """Write a program as a C99 file.

    The file defines `int NAME(const double *const *inputs, double *const *outputs)`. It takes one
    pointer per input and output, each to a contiguous array in C order, and returns 0, or 1 if an
    argument or a result is not finite.

    Args:
        program: The program.
        name: Name of the C function.
        parameters: Values of parameter inputs by name; each becomes an array `NAME_PARAMETER`
            that can be passed as that input.
        fused: Whether to use fused multiply-adds, as hosts that have them do.
        order: Order of the instructions; results do not depend on it.

    Returns:
        The text of the file.

    Raises:
        DomainError: If the name is not valid for a C function.
        OptionError: If a parameter name is unknown.
        ShapeError: If a parameter has the wrong number of values.
    """
    return _file([(program, name, parameters or {})], fused=fused, order=order, batch=False)


def programs_c_source(
    programs: Mapping[str, Program], parameters: Mapping[str, ArrayLike] | None = None
) -> str:
    """Write programs by the names of their C functions as one file.

    The functions are those of `program_c_source`, and have the bits of kernels on this machine.
    """
    listed = [(x, name, parameters or {}) for name, x in programs.items()]
    return _file(listed, fused=_is_fused(), batch=False)


def _is_fused() -> bool:
    # without LLVM the processor is unknown; all but the oldest have FMA
    return host().fused if native_code_wanted() else True


def _file(
    programs: Sequence[tuple[Program, str, Mapping[str, ArrayLike]]],
    *,
    fused: bool,
    order: Order = "traced",
    batch: bool,
) -> str:
    """Write some programs, each with its name and parameters, as one file."""
    callees = CCalleeWriter(fused=fused)
    comments, data, functions = [], [], []
    for program, name, parameters in programs:
        _check_name(name)
        arrays = _parameter_arrays(program.inputs, name, parameters)
        body = _body(program, callees, fused=fused, order=order)
        comments.append(_comment(program, name, arrays))
        data += list(arrays.values())
        functions.append(c_function(c_signature(name), body))
        if batch:
            counts = len(program.inputs), len(program.outputs)
            functions.append(c_function(_batch_signature(name), _batch_body(name, *counts)))
    prelude = CTarget(fused=fused).prelude()
    return "\n".join([*comments, _GUARDS, prelude, *data, *callees.functions(), *functions])


def _batch_body(name: str, inputs: int, outputs: int) -> list[str]:
    """Write the loop over cases of a function for one."""
    given, made = max(inputs, 1), max(outputs, 1)
    return [
        "    int status = 0;",
        "    for (int64_t k = begin; k < end; ++k) {",
        f"        const double *in[{given}];",
        f"        double *out[{made}];",
        f"        for (int i = 0; i < {inputs}; ++i) in[i] = inputs[i] + k * input_strides[i];",
        f"        for (int i = 0; i < {outputs}; ++i) out[i] = outputs[i] + k * output_strides[i];",
        f"        status |= {name}(in, out);",
        "    }",
        "    return status;",
    ]


def _batch_signature(name: str) -> str:
    return (
        f"int {name}_many(const double *const *inputs, const int64_t *input_strides, "
        "double *const *outputs, const int64_t *output_strides, int64_t begin, int64_t end)"
    )


def _header(programs: Sequence[tuple[Program, str, Mapping[str, ArrayLike]]]) -> str:
    """Write the header of a file of programs."""
    guard = f"TIBURON_{_identifier(programs[0][1]).upper()}_H"
    lines = [f"#ifndef {guard}", f"#define {guard}", "#include <stdint.h>", ""]
    lines += ["#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
    for program, name, parameters in programs:
        lines.append(_comment(program, name, dict.fromkeys(parameters, "")))
        lines.append(f"{c_signature(name)};")
        lines.append(
            "/* the cases from begin to before end; strides from case to case in doubles, 0 for an "
            "input that all share */"
        )
        lines.append(f"{_batch_signature(name)};")
        for item in program.inputs:
            if item.name in parameters:
                size = max(item.size, 1)
                lines.append(f"extern const double {name}_{_identifier(item.name)}[{size}];")
        lines.append("")
    lines += ["#ifdef __cplusplus", "}", "#endif", "", f"#endif /* {guard} */", ""]
    return "\n".join(lines)


class CFiles(NamedTuple):
    """C code of some kernels."""

    source: str
    """Text of the source file."""

    header: str
    """Text of the header file."""

    names: tuple[str, ...]
    """Names of the functions for one case; those for batches end in `_many`."""


def _body(program: Program, callees: CCalleeWriter, *, fused: bool, order: Order) -> list[str]:
    """Write the statements of the function."""
    target = CTarget(fused=fused)
    around = CFunction(target, callees)
    instructions = lower(program.graph, program.roots, order)
    lines = ["    double check = 0.0;"]
    for place, item in enumerate(program.inputs):
        if not item.parameter and item.size:
            lines.append(f"    for (int k = 0; k < {item.size}; ++k) check += inputs[{place}][k];")
    # all inputs are read before any output is written: they may overlap
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
    # avoid compiler warnings about unused arguments
    unused = [
        f"    (void){table};"
        for table in ("inputs", "outputs")
        if not any(f"{table}[" in line for line in lines)
    ]
    # x - x is 0 for finite x, else NaN
    return [*unused, *lines, "    return check - check != 0.0;"]


def c_signature(name: str) -> str:
    """Return the declaration of a function for one case."""
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
    """Write the definition of the array of each parameter."""
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
    """Write the header comment: how to call and compile the function."""
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
        f"    {c_signature(name)};",
        "",
        *table,
        "",
        "Each pointer is to a contiguous array, last index fastest. The function returns 0, or 1",
        "if an argument or a result is not finite (parameters are not checked). It keeps no state",
        "and allocates nothing.",
        "",
        f"    cc -std=c99 -O2 -ffp-contract=off -c {name}.c        (link with -lm)",
        "",
        "Add -march=native for speed: without it fma() is a function call. The results stay the",
        "same, bit for bit, unless the compiler reorders or contracts arithmetic.",
    ]
    # names may contain the end of a comment
    safe = [line.replace("*/", "* /").replace("/*", "/ *") for line in lines]
    return "\n".join(["/*", *[f" * {line}".rstrip() for line in safe], " */\n"])


def _shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(str(size) for size in shape)}{',' if len(shape) == 1 else ''})"


@public
def c_source(
    kernel: Callable[..., Any] | Sequence[Callable[..., Any]],
    *,
    name: str | Sequence[str] | None = None,
    header: bool = False,
) -> Any:
    """Write kernels as a C99 file that needs only a compiler and its math library.

    The file defines ``int NAME(const double *const *inputs, double *const *outputs)`` for one case.
    Its first comment lists the arrays and the compiler command. The parameters bound to the kernel
    (inertial parameters, gravity) become constant arrays to pass as those inputs. Compiled with
    that command, it gives the same bits as the kernel on this machine.

    Args:
        kernel: A kernel made by `tiburon.compile`, or a list of them, which share one file.
        name: Name of the C function, or of each; those of the kernels by default.
        header: Whether to write functions for batches, too, and a header file.

    Returns:
        The text of the file; with `header`, `CFiles`: source, header and names of functions.

    Raises:
        DomainError: If this is not a kernel, or the name is not valid for a C function.

    Example:
        ::

            kernel = tb.compile(tb.forward_dynamics, arm)
            Path("arm.c").write_text(tb.c_source(kernel, name="arm_dynamics"))
    """
    several = isinstance(kernel, (list, tuple))
    kernels = list(kernel) if isinstance(kernel, (list, tuple)) else [kernel]
    owners = []
    for one in kernels:
        table = getattr(one, "__self__", None)
        owner = getattr(table, "owner", table)
        if not isinstance(owner, Kernel):
            raise DomainError(
                "kernel", "a compiled kernel", type(one).__name__, advice="make one by compile()"
            )
        owners.append(owner)
    if not owners:
        raise DomainError("kernel", "a kernel or more", "none")
    if name is None:
        names = [owner.name for owner in owners]
    elif isinstance(name, str) and not several:
        names = [name]
    else:
        names = list(name)
    if len(names) != len(owners) or len(set(names)) != len(names):
        raise DomainError("name", f"{len(owners)} names that differ", f"{names}")
    programs = [
        (owner.program(), own, owner.parameters) for owner, own in zip(owners, names, strict=True)
    ]
    text = _file(programs, fused=_is_fused(), batch=header)
    return CFiles(text, _header(programs), tuple(names)) if header else text
