"""From the graph to the instructions that run: sharing reciprocals, fusing products into sums.

The graph keeps the operations of the algorithm, so that it can be counted and differentiated. The
instructions differ in two ways, each decided by a local rule so that the bits of a result do not
depend on what else is compiled with it:

- a sum with a product becomes one fused multiply-add, rounded once;
- several divisions by the same value become products with its reciprocal.

Calls in lanes (`tiburon.trace.regions.lanes`) become calls one after another, unless kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Literal

from tiburon.record import record
from tiburon.trace.graph import Graph
from tiburon.trace.regions.lanes import LanesRegion

FUSED = {"add": ("fused_add", "fused_add"), "sub": ("fused_sub", "fused_negative_add")}
"""Instructions for a sum and a difference whose first or second operand is a product."""

Order = Literal["traced", "depth_first"]


@record
class Instruction:
    """One operation to run.

    Attributes:
        op: Name of the operation: those of the graph, and fused_*, reciprocal and copy.
            fused_add a*b + c, fused_sub a*b - c, fused_negative_add c - a*b.
        target: Index of the result; a node, or a new index above all nodes.
        args: Indices of the arguments.
        payload: As in the graph.
    """

    op: str
    target: int
    args: tuple[int, ...]
    payload: Any = None


def lower(
    graph: Graph, roots: Iterable[int], order: Order = "traced", *, in_lanes: bool = False
) -> list[Instruction]:
    """Turn the part of a graph that some nodes depend on into instructions.

    Args:
        graph: The graph.
        roots: The nodes to compute.
        order: "traced" keeps the order of the algorithm; "depth_first" finishes each subexpression
            first, which keeps fewer values live at a time.
        in_lanes: Whether calls in lanes stay as they are.

    Returns:
        Instructions, each after those it uses.
    """
    wanted = list(roots)
    live = graph.live(wanted)
    ops, args_of, payloads = graph.ops, graph.args, graph.payloads
    reciprocals = _shared_divisors(graph, live)
    instructions: dict[int, Instruction] = {}
    fresh = len(graph)
    reciprocal_of: dict[int, int] = {}
    # numbers of single calls, by the node of the call in lanes that they replace
    single_calls: dict[int, range] = {}
    needed = bytearray(fresh)
    for node in wanted:
        needed[node] = 1
    # users before their arguments: products that are fused into all their users are not needed
    for node in reversed(live):
        if not needed[node]:
            continue
        op, args, payload = ops[node], args_of[node], payloads[node]
        used = args
        if op in FUSED:
            x, y = args
            if ops[y] == "mul":
                op, used = FUSED[op][1], (*args_of[y], x)
            elif ops[x] == "mul":
                op, used = FUSED[op][0], (*args_of[x], y)
            args = used
        elif op == "div" and args[1] in reciprocals:
            numerator, divisor = args
            if divisor not in reciprocal_of:
                reciprocal_of[divisor] = fresh
                instructions[fresh] = Instruction("reciprocal", fresh, (divisor,))
                fresh += 1
            inverse = reciprocal_of[divisor]
            if graph.constant_of(numerator) == 1.0:
                op, args, used = "copy", (inverse,), (divisor,)
            else:
                op, args = "mul", (numerator, inverse)
        elif op == "result" and not in_lanes:
            (call,) = args
            region = payloads[call]
            if isinstance(region, LanesRegion):
                if call not in single_calls:
                    single_calls[call] = range(fresh, fresh + region.calls)
                    fresh += region.calls
                payload, k = divmod(payload, region.calls)
                number = single_calls[call][k]
                args, used = (number,), ()
                if number not in instructions:
                    used = region.argument_sets(args_of[call])[k]
                    instructions[number] = Instruction("call", number, used, region.body)
        instructions[node] = Instruction(op, node, args, payload)
        for a in used:
            needed[a] = 1
    # a new reciprocal is placed right after its argument
    places = {number: divisor + 0.5 for divisor, number in reciprocal_of.items()}
    places |= {number: float(call) for call in single_calls for number in single_calls[call]}
    return _arrange(instructions, wanted, order, places)


def _shared_divisors(graph: Graph, live: Sequence[int]) -> set[int]:
    """Find values that divide more than one other value, among the nodes that are computed."""
    count: dict[int, int] = {}
    for node in live:
        if graph.ops[node] == "div":
            divisor = graph.args[node][1]
            count[divisor] = count.get(divisor, 0) + 1
    return {divisor for divisor, uses in count.items() if uses > 1}


def _arrange(
    instructions: dict[int, Instruction], roots: list[int], order: Order, places: dict[int, float]
) -> list[Instruction]:
    """Order instructions so that each follows its arguments; some have a place of their own."""
    if places:
        # calls that replace one in lanes have its place: the last first, as batches are fastest
        last_first = sorted(instructions, reverse=True)
        traced = sorted(last_first, key=lambda number: places.get(number, number))
    else:
        traced = sorted(instructions)
    ranks: dict[int, int] = {}
    arranged: list[Instruction] = []
    done: set[int] = set()

    def finish(root: int) -> None:
        if not ranks:
            ranks.update(_ranks(instructions, traced))
        # instructions whose arguments come first have their complement on the stack
        stack = [root]
        while stack:
            number = stack.pop()
            if number < 0:
                arranged.append(instructions[~number])
                continue
            if number in done:
                continue
            done.add(number)
            left = [a for a in instructions[number].args if a not in done]
            if not left:
                arranged.append(instructions[number])
                continue
            stack.append(~number)
            if len(left) > 1:
                # the deeper argument first: it needs the most registers while nothing else is held
                left = sorted(set(left), key=ranks.__getitem__)
            stack += left

    # angles that are inputs, plus a constant at most: their sines and cosines can go together
    early = sorted(_early_angles(instructions))
    for number in chain(early, roots if order == "depth_first" else traced):
        if number in done:
            continue
        instruction = instructions[number]
        if done.issuperset(instruction.args):
            # nothing to choose; most instructions of a large program are of this kind
            done.add(number)
            arranged.append(instruction)
        else:
            finish(number)
    return arranged


def _early_angles(instructions: dict[int, Instruction]) -> set[int]:
    leaves = ("input", "capture", "const")

    def is_early(number: int) -> bool:
        instruction = instructions[number]
        if instruction.op in leaves:
            return True
        return instruction.op in ("add", "sub", "neg") and all(
            instructions[a].op in leaves for a in instruction.args
        )

    angles = {i.args[0] for i in instructions.values() if i.op in ("sin", "cos")}
    return {angle for angle in angles if is_early(angle)}


def _ranks(instructions: dict[int, Instruction], traced: Sequence[int]) -> dict[int, int]:
    """Return the order of instructions by depth, then by number; those of deeper ones are greater.

    Args:
        instructions: By their numbers.
        traced: The numbers, each after those of its arguments.
    """
    depth: dict[int, int] = {}
    size = 1 + max(traced, default=0)
    for number in traced:
        deepest = -1
        for a in instructions[number].args:
            if depth[a] > deepest:
                deepest = depth[a]
        depth[number] = 1 + deepest
    return {number: deep * size + number for number, deep in depth.items()}
