"""Human-readable dumps of a graph: as text, or as a Graphviz drawing.

Nodes are numbered in the order of computation, and only live nodes are shown, so equal programs
have equal dumps, whatever else was traced around them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiburon.trace.graph import Graph, Region
from tiburon.trace.program import Input, Program

Name = Callable[[str, Any], str]
"""Takes the operation and payload of an `input` or `capture` node; returns its name."""

_LEAVES = frozenset({"const", "truth", "input", "capture"})


def dump(program: Program) -> str:
    """Write a program as text, one node per line.

    Constants appear where they are used, inputs by name, and the body of every region is
    written once, indented, after the program that calls it::

        pendulum(q (1,), length ()) -> result (1,)
          %0 = sin q[0]
          %1 = mul 9.81, %0
          %2 = div %1, length
          %3 = neg %2
          result = [%3]

    Args:
        program: The traced program.

    Returns:
        The text, ending in a line break.
    """
    taken = ", ".join(f"{item.name} {item.shape}" for item in program.inputs)
    given = ", ".join(f"{output.name or 'result'} {output.shape}" for output in program.outputs)
    lines = [f"{program.name}({taken}) -> {given}"]
    text = _texts(program.graph, program.roots, _input_name(program))
    lines += _body(program.graph, program.roots, text, "  ")
    for output in program.outputs:
        listed = ", ".join(text[node] for node in output.nodes)
        lines.append(f"  {output.name or 'result'} = [{listed}]")
    lines += _regions(program.graph, program.roots, "  ", set())
    return "\n".join(lines) + "\n"


def to_graphviz(program: Program) -> str:
    """Write a program in the DOT language of Graphviz.

    Inputs are boxes, results double circles, constants are repeated where they are used. Regions
    are single nodes.

    Args:
        program: The traced program.

    Returns:
        DOT source; `dot -Tsvg` draws it.
    """
    graph = program.graph
    name = _input_name(program)
    lines = [f"digraph {_quoted(program.name)} {{", "  rankdir=TB;", "  node [shape=ellipse];"]
    edges: list[str] = []
    live = graph.live(program.roots)
    numbers = {node: f"n{number}" for number, node in enumerate(live)}
    for node in live:
        op, payload = graph.ops[node], graph.payloads[node]
        if op in ("const", "truth"):
            continue
        if op in _LEAVES:
            lines.append(f"  {numbers[node]} [label={_quoted(name(op, payload))}, shape=box];")
            continue
        lines.append(f"  {numbers[node]} [label={_quoted(_label(graph, node))}];")
        for place, argument in enumerate(graph.args[node]):
            source = _drawn(graph, argument, numbers, f"{numbers[node]}_{place}", lines)
            # which argument is which matters for everything but sums and products
            label = "" if op in ("add", "mul") else f' [label="{place}"]'
            edges.append(f"  {source} -> {numbers[node]}{label};")
    for output_place, output in enumerate(program.outputs):
        for element, node in enumerate(output.nodes):
            result = f"r{output_place}_{element}"
            label = f"{output.name or 'result'}[{element}]"
            lines.append(f"  {result} [label={_quoted(label)}, shape=doublecircle];")
            source = _drawn(graph, node, numbers, f"{result}_0", lines)
            edges.append(f"  {source} -> {result};")
    return "\n".join([*lines, *edges, "}"]) + "\n"


def _input_name(program: Program) -> Name:
    def name(op: str, payload: Any) -> str:
        if op == "capture":
            return f"capture[{payload}]"
        argument, element = payload
        item: Input = program.inputs[argument]
        return item.element_name(element)

    return name


def _region_name(region: Region) -> Name:
    places = {
        (region.graph.ops[node], region.graph.payloads[node]): place
        for place, node in enumerate(region.inputs)
    }

    def name(op: str, payload: Any) -> str:
        place = places.get((op, payload))
        # the input that is not an argument is the iteration index, which the loop counts
        return "repetition" if place is None else f"argument[{place}]"

    return name


def _texts(graph: Graph, roots: Sequence[int], name: Name) -> dict[int, str]:
    """Return how each live node is written where it is used."""
    texts: dict[int, str] = {}
    number = 0
    for node in graph.live(roots):
        op, payload = graph.ops[node], graph.payloads[node]
        if op in ("const", "truth"):
            texts[node] = repr(payload)
        elif op in _LEAVES:
            texts[node] = name(op, payload)
        elif op == "result":
            texts[node] = f"{texts[graph.args[node][0]]}.{payload}"
        else:
            texts[node] = f"%{number}"
            number += 1
    return texts


def _body(graph: Graph, roots: Sequence[int], text: dict[int, str], indent: str) -> list[str]:
    lines = []
    for node in graph.live(roots):
        if graph.ops[node] in _LEAVES or graph.ops[node] == "result":
            continue
        args = ", ".join(text[a] for a in graph.args[node])
        lines.append(f"{indent}{text[node]} = {_label(graph, node)} {args}".rstrip())
    return lines


def _label(graph: Graph, node: int) -> str:
    op, payload = graph.ops[node], graph.payloads[node]
    if op == "call":
        return f"call {payload.name}"
    if op == "result":
        return f"result {payload}"
    if op == "require":
        return f'require "{payload}"'
    return op


def _regions(graph: Graph, roots: Sequence[int], indent: str, seen: set[int]) -> list[str]:
    """Write the body of every region called, each once."""
    lines: list[str] = []
    for node in graph.live(roots):
        callee = graph.payloads[node]
        if graph.ops[node] != "call" or not isinstance(callee, Region) or callee.key in seen:
            continue
        seen.add(callee.key)
        text = _texts(callee.graph, callee.roots, _region_name(callee))
        lines.append(f"{indent}region {callee.name}")
        lines += _body(callee.graph, callee.roots, text, indent + "  ")
        listed = ", ".join(text[root] for root in callee.roots)
        lines.append(f"{indent}  results = [{listed}]")
        lines += _regions(callee.graph, callee.roots, indent + "  ", seen)
    return lines


def _drawn(graph: Graph, node: int, numbers: dict[int, str], fresh: str, lines: list[str]) -> str:
    """Return the drawn name of a node; a constant is drawn anew at each use."""
    if graph.ops[node] not in ("const", "truth"):
        return numbers[node]
    lines.append(f"  {fresh} [label={_quoted(repr(graph.payloads[node]))}, shape=plaintext];")
    return fresh


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
