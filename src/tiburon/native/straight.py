"""Straight-line instructions of a lowered graph, written into any target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tiburon.errors import CompileError
from tiburon.native import elementary
from tiburon.native.target import Ref, Target
from tiburon.trace.lower import Instruction


class Surroundings(Protocol):
    """What straight-line code needs from the function it stands in."""

    def load(self, instruction: Instruction) -> Ref:
        """Give the reference of an `input` or `capture`."""

    def constant(self, value: float) -> Ref:
        """Give the reference of a constant."""

    def call(self, instruction: Instruction, arguments: list[Ref]) -> list[Ref]:
        """Emit a call of a region or primitive and give the references of its results."""

    def sin_cos(self, angles: list[Ref]) -> list[tuple[Ref, Ref]]:
        """Emit sine and cosine of several angles that are known at the same time."""


def _minimum(t: Target, a: Ref, b: Ref) -> Ref:
    # a NaN in either argument must come out, as in numpy.minimum
    return t.select(t.logical_or(t.less(a, b), t.is_nan(a)), a, b)


def _maximum(t: Target, a: Ref, b: Ref) -> Ref:
    return t.select(t.logical_or(t.less(b, a), t.is_nan(a)), a, b)


def _fused_negative_add(t: Target, a: Ref, b: Ref, c: Ref) -> Ref:
    return t.fma(t.neg(a), b, c)


def _fused_sub(t: Target, a: Ref, b: Ref, c: Ref) -> Ref:
    return t.fma(a, b, t.neg(c))


_EMIT: dict[str, Callable[..., Ref]] = {
    "add": lambda t, a, b: t.add(a, b),
    "sub": lambda t, a, b: t.sub(a, b),
    "mul": lambda t, a, b: t.mul(a, b),
    "div": lambda t, a, b: t.div(a, b),
    "neg": lambda t, a: t.neg(a),
    "fused_add": lambda t, a, b, c: t.fma(a, b, c),
    "fused_sub": _fused_sub,
    "fused_negative_add": _fused_negative_add,
    "reciprocal": lambda t, a: t.div(t.const(1.0), a),
    "abs": lambda t, a: t.abs(a),
    "sqrt": lambda t, a: t.sqrt(a),
    "floor": lambda t, a: t.floor(a),
    "min": _minimum,
    "max": _maximum,
    "less": lambda t, a, b: t.less(a, b),
    "less_equal": lambda t, a, b: t.less_equal(a, b),
    "equal": lambda t, a, b: t.equal(a, b),
    "and": lambda t, a, b: t.logical_and(a, b),
    "or": lambda t, a, b: t.logical_or(a, b),
    "not": lambda t, a: t.logical_not(a),
    "where": lambda t, c, a, b: t.select(c, a, b),
    "require": lambda t, c, a: t.select(c, a, t.const(float("nan"))),
}
# tan, asin, exp, pow, ... are the functions of the same name, written for any target
_EMIT |= {
    name: getattr(elementary, name)
    for name in elementary.__all__
    if name not in ("sin_cos", "SIN_COS_LIMIT")
}


def emit_instructions(
    target: Target,
    instructions: Sequence[Instruction],
    around: Surroundings,
    found: Callable[[int, Ref], None] | None = None,
) -> dict[int, Ref]:
    """Write instructions in order.

    Args:
        target: Where to write.
        instructions: A lowered graph.
        around: The function the code stands in.
        found: Called with number and reference of each result as soon as it is there.

    Returns:
        Reference of each instruction's result, by its number.
    """
    refs: dict[int, Ref] = {}
    results: dict[int, list[Ref]] = {}
    pairs: dict[int, tuple[Ref, Ref]] = {}
    angles = list(dict.fromkeys(i.args[0] for i in instructions if i.op in ("sin", "cos")))
    for instruction in instructions:
        op, number = instruction.op, instruction.target
        if op == "const":
            refs[number] = around.constant(instruction.payload)
        elif op == "truth":
            refs[number] = target.bool_const(instruction.payload)
        elif op in ("input", "capture"):
            refs[number] = around.load(instruction)
        elif op in ("sin", "cos"):
            angle = instruction.args[0]
            if angle not in pairs:
                # all angles known by now go together: hardware does several for the price of one
                known = [a for a in angles if a in refs and a not in pairs]
                emitted = around.sin_cos([refs[a] for a in known])
                pairs.update(zip(known, emitted, strict=True))
            refs[number] = pairs[angle][0 if op == "sin" else 1]
        elif op == "call":
            results[number] = around.call(instruction, [refs[a] for a in instruction.args])
        elif op == "result":
            refs[number] = results[instruction.args[0]][instruction.payload]
        elif op == "copy":
            refs[number] = refs[instruction.args[0]]
        else:
            emit = _EMIT.get(op)
            if emit is None:
                raise CompileError(f"operation {op!r} has no native form")
            refs[number] = emit(target, *[refs[a] for a in instruction.args])
        if found is not None and number in refs:
            found(number, refs[number])
    return refs
