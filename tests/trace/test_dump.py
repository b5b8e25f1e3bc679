"""Dumps for human eyes: complete, readable, the same for equal programs."""

import re

import numpy as np

from tiburon.trace import dump, fixed_loop, function, interpret, require, to_graphviz, trace
from tiburon.trace.graph import Graph
from tiburon.trace.interpret import evaluate_node


def pendulum(q, length):
    return -9.81 * np.sin(q) / length


def test_dump_of_a_small_program():
    """Inputs by name, constants inline, one node per line, results last."""
    text = dump(trace(pendulum, {"q": (1,), "length": ()}))
    assert text.splitlines() == [
        "pendulum(q (1,), length ()) -> result (1,)",
        "  %0 = sin q[0]",
        "  %1 = mul 9.81, %0",
        "  %2 = div %1, length",
        "  %3 = neg %2",
        "  result = [%3]",
    ]


def test_dump_names_matrix_elements_requirements_and_outputs():
    """Two indices for a matrix, messages in quotes, constants among results."""

    def function(M):
        safe = require(M[0, 1] > 0.0, M[1, 0], "a positive corner")
        return {"x": np.array([safe, 2.5], like=M), "y": M[1, 1]}

    lines = dump(trace(function, {"M": (2, 2)})).splitlines()
    assert lines == [
        "function(M (2, 2)) -> x (2,), y ()",
        "  %0 = less 0.0, M[0, 1]",
        '  %1 = require "a positive corner" %0, M[1, 0]',
        "  x = [%1, 2.5]",
        "  y = [M[1, 1]]",
    ]


def test_dump_omits_nodes_of_other_programs():
    """Dead nodes neither appear nor shift the numbers."""

    def busy(q, length):
        np.exp(q) * np.cos(length)
        return pendulum(q, length)

    plain = dump(trace(pendulum, {"q": (1,), "length": ()}))
    assert dump(trace(busy, {"q": (1,), "length": ()}, name="pendulum")) == plain


def test_dump_evaluates_to_the_program_result():
    """Read back line by line, the text gives the result: nothing is missing from it."""

    def function(x):
        angle = np.arctan2(x[0], x[1] + 2.0)
        return np.where(angle < 0.25, np.sqrt(x[0] * x[0]), -angle) / (x[1] - 3.0)

    program = trace(function, {"x": (2,)})
    point = [0.8, -0.3]
    values = {"x[0]": point[0], "x[1]": point[1]}
    graph = Graph()
    for line in dump(program).splitlines()[1:-1]:
        target, op, args = re.fullmatch(r"  (%\d+) = (\w+) (.*)", line).groups()
        numbers = [values[a] if a in values else float(a) for a in args.split(", ")]
        node = graph.node(op)
        values[target] = evaluate_node(graph, node, numbers, None)
    last = dump(program).splitlines()[-1]
    result = values[re.fullmatch(r"  result = \[(%\d+)\]", last).group(1)]
    assert result == interpret(program, [point])


def test_graphviz_draws_every_node_and_edge_once():
    """Each live node is declared once, each argument is an edge, names are quoted."""
    program = trace(pendulum, {"q": (1,), "length": ()}, name='the "best" pendulum')
    text = to_graphviz(program)
    assert text.startswith('digraph "the \\"best\\" pendulum" {')
    assert text.rstrip().endswith("}")
    graph = program.graph
    live = graph.live(program.roots)
    declared = re.findall(r"^  (\w+) \[label=", text, re.MULTILINE)
    edges = re.findall(r"^  (\w+) -> (\w+)", text, re.MULTILINE)
    # live nodes with the constant drawn where it is used, and one circle per result
    assert len(declared) == len(set(declared)) == len(live) + 1
    assert len(edges) == sum(len(graph.args[node]) for node in live) + 1
    assert {name for edge in edges for name in edge} <= set(declared)
    for label in ('"q[0]"', '"length"', '"9.81"', '"sin"', '"result[0]"'):
        assert f"label={label}" in text


def test_graphviz_numbers_arguments_where_order_matters():
    """Numerator and divisor are distinguished."""
    text = to_graphviz(trace(lambda a, b: a / b, {"a": (), "b": ()}))
    assert '-> n2 [label="0"];' in text
    assert '-> n2 [label="1"];' in text


def test_regions_are_written_once_and_indented():
    """A function called twice has one body; loops show state and repetition as arguments."""

    @function
    def half(x):
        return 0.5 * np.sin(x)

    def program(x):
        return fixed_loop(3, lambda i, s: s * i, half(x) + half(x * 3.0))

    lines = dump(trace(program, {"x": ()})).splitlines()
    assert lines[1] == "  %0 = call half x"
    assert lines.count("  region half") == 1
    place = lines.index("  region half")
    assert lines[place + 1 : place + 4] == [
        "    %0 = sin argument[0]",
        "    %1 = mul %0, 0.5",
        "    results = [%1]",
    ]
    assert "    results = [%0]" in lines[lines.index("  region fixed_loop") :]
    assert any("repetition" in line for line in lines)
