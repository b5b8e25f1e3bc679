"""Calls in C source: one static function for each elementary function, region and primitive."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tiburon.native import elementary
from tiburon.native.c_machine import CMachine
from tiburon.native.c_target import CTarget
from tiburon.native.callee_bodies import Arguments, is_spelled_out, write_callee
from tiburon.native.machine import Slots
from tiburon.native.target import Ref
from tiburon.trace.callee import Callee
from tiburon.trace.lower import Instruction

# sine and cosine come in pairs and have a way of their own
_ELEMENTARY = frozenset(elementary.__all__) - {"sin_cos", "SIN_COS_LIMIT"}


class CFunction:
    """The C function around straight-line code: where its leaves are, how calls are made.

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
        """Give the reference of an input, loaded before."""
        return self.inputs[instruction.payload]

    def constant(self, value: float) -> Ref:
        """Give a constant as part of the expression."""
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
    """Turn elementary functions into calls, so that each is written once and not at every use.

    Args:
        instructions: A lowered graph.

    Returns:
        The same with calls whose payload is the function's name.
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
        """Give the texts of all functions, each after those it calls."""
        return [*self._elementary.values(), *self._functions]

    def elementary_name(self, name: str) -> str:
        """Give the name of an elementary function, writing it when first asked for."""
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
        """Give the name of a region's or primitive's function, writing it when first asked for."""
        if callee.key not in self._names:
            readable = re.sub(r"\W", "_", callee.name, flags=re.ASCII)
            name = self._names[callee.key] = f"tb_{len(self._names) + 1}_{readable}"
            header = f"static void {name}(const double *given, double *found)"
            # the body may call further callees, whose functions then come first
            self._functions.append(c_function(header, self._callee_lines(callee)))
        return self._names[callee.key]

    def _callee_lines(self, callee: Callee) -> list[str]:
        target = CTarget(fused=self.fused)
        m = CMachine(target, spelled_out=is_spelled_out(callee))
        given, found = Arguments(Slots("given")), Slots("found")
        base = CFunction(target, self)
        write_callee(m, callee, given, found, base, prepare=call_elementary)
        return target.lines


def c_function(header: str, lines: Sequence[str]) -> str:
    """Put a C function together, indented by its braces.

    Args:
        header: Everything before the body.
        lines: Statements, one per line.

    Returns:
        The text, with a line end.
    """
    text = [header, "{"]
    depth = 1
    for line in lines:
        bare = line.strip()
        depth -= bare.startswith("}")
        text.append("    " * depth + bare)
        depth += bare.endswith("{")
    return "\n".join([*text, "}", ""])
