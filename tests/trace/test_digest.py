"""The digest of a program changes with everything that its machine code depends on."""

import copy
import os
import pickle
import subprocess
import sys

import numpy as np

from tiburon.trace import Input, fixed_loop, function, require, trace, while_loop
from tiburon.trace import digest as digest_module
from tiburon.trace.digest import program_digest
from tiburon.trace.graph import Graph
from tiburon.trace.primitives.orthogonal import ApplyOrthogonal, solve_least_squares
from tiburon.trace.primitives.primitive import Primitive
from tiburon.trace.primitives.row_products import Piece, RowProducts
from tiburon.trace.primitives.saddle import FactorSaddle, SaddlePattern, SolveSaddle
from tiburon.trace.primitives.spd import SolveSpd, solve_spd
from tiburon.trace.primitives.table_rows import TableRows
from tiburon.trace.primitives.tree import SolveTreeColumns, factor_tree
from tiburon.trace.program import Output, Program
from tiburon.trace.regions import GraphRegion
from tiburon.trace.value import Value


def everything(x, y):
    """Use all kinds of nodes: operations, choices, regions in regions, primitives."""

    @function
    def inner(a):
        return np.sin(a) * 3.0 + y[0]

    def halve(state):
        return state * 0.5 + inner(state) * 0.001

    def grow(index, state):
        return state + index * x[1] + inner(state)

    halved = while_loop(lambda state: state > 0.1, halve, x[0] * x[0], max_iterations=9)
    grown = fixed_loop(4, grow, halved.state)
    matrix = np.array([[4.0, x[0]], [x[0], 5.0]], like=x)
    solved = solve_spd(matrix, y[:2], inline=False)
    safe = require(y[2] > -9.0, y[2] / 3.0, "a number above -9")
    chosen = np.where((x[0] < y[1]) & (y[2] <= 2.0), np.exp(x[1]), np.hypot(x[0], y[0]))
    return {"a": np.array([grown, halved.count, *solved], like=x), "b": safe - chosen}


def digest(call, inputs=(("x", (2,)), ("y", (3,))), name="f"):
    return program_digest(trace(call, dict(inputs), name=name))


# equal programs


def test_equal_programs_have_equal_digests():
    """Traced again, under another name, after other work, or sent through a pipe."""
    first = trace(everything, {"x": (2,), "y": (3,)})

    def busy(x, y):
        np.tan(x) * np.cos(y[:2])
        return everything(x, y)

    second = trace(busy, {"x": (2,), "y": (3,)}, name="other")
    assert program_digest(first) == program_digest(second)
    assert program_digest(pickle.loads(pickle.dumps(first))) == program_digest(first)
    assert len(program_digest(first)) == 32


def test_digests_agree_between_processes():
    """Neither addresses nor the order of hashed texts count."""
    script = (
        "from tests.trace.test_digest import *\n"
        "print(program_digest(trace(everything, {'x': (2,), 'y': (3,)})))\n"
        "import tiburon as tb\n"
        "model = tb.load('panda')\n"
        "def both(q, v, tau):\n"
        "    return tb.forward_dynamics(model, q, v, tau), tb.mass_matrix(model, q)\n"
        "shapes = {'q': (model.nq,), 'v': (model.nv,), 'tau': (model.nv,)}\n"
        "print(program_digest(trace(both, shapes)))"
    )
    found = set()
    for seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=True,
        )
        found.add(run.stdout)
    assert len(found) == 1
    here = program_digest(trace(everything, {"x": (2,), "y": (3,)}))
    assert found.pop().split()[0].decode() == here


# one change each


def one_root(x, y):
    return x * y[0] + 0.3


def required(values, y, message):
    return np.array([require(y > 0.0, value, message) for value in values], like=values)


CHANGES = {
    "constant": lambda x, y: x * y[0] + np.nextafter(0.3, 1.0),
    "sign of a constant": lambda x, y: x * y[0] + -0.3,
    "operation": lambda x, y: x * y[0] - 0.3,
    "element of an input": lambda x, y: x * y[1] + 0.3,
    "input": lambda x, y: x * x[0] + 0.3,
    "order of results": lambda x, y: (x * y[0] + 0.3)[::-1],
    "number of results": lambda x, y: (x * y[0] + 0.3)[:1],
    "shape of results": lambda x, y: (x * y[0] + 0.3).reshape(2, 1),
    "name of a result": lambda x, y: {"z": x * y[0] + 0.3},
    "tuple of results": lambda x, y: (x * y[0] + 0.3,),
    "inside a function": lambda x, y: function(lambda x, s: x * s + 0.3)(x, y[0]),
    "another function": lambda x, y: function(lambda x, s: x * s + 0.4)(x, y[0]),
    "two calls": lambda x, y: function(lambda x, s: x * s + 0.3)(x * y[0], y[0]),
    "loop": lambda x, y: fixed_loop(2, lambda k, s: s * y[0] + 0.3, x),
    "loop, longer": lambda x, y: fixed_loop(3, lambda k, s: s * y[0] + 0.3, x),
    "loop, counting": lambda x, y: fixed_loop(2, lambda k, s: s * y[0] + k, x),
    "loop, fixed constant": lambda x, y: fixed_loop(2, lambda k, s: s * y[0] + 0.5, x),
    "iteration": lambda x, y: (
        while_loop(lambda s: s[0] < 1.0, lambda s: s * y[0], x, max_iterations=5).state
    ),
    "iteration, longer": lambda x, y: (
        while_loop(lambda s: s[0] < 1.0, lambda s: s * y[0], x, max_iterations=6).state
    ),
    "iteration, other condition": lambda x, y: (
        while_loop(lambda s: s[0] < 1.5, lambda s: s * y[0], x, max_iterations=5).state
    ),
    "iteration, other body": lambda x, y: (
        while_loop(lambda s: s[0] < 1.0, lambda s: s * y[1], x, max_iterations=5).state
    ),
    "requirement": lambda x, y: required(x * y[0] + 0.3, y[0], "y above 0"),
    "requirement, other message": lambda x, y: required(x * y[0] + 0.3, y[0], "y not above 0"),
    "comparison": lambda x, y: np.where(x < y[0], x, 0.3),
    "comparison, equal": lambda x, y: np.where(x <= y[0], x, 0.3),
    "truth value": lambda x, y: np.where(~(x < y[0]), x, 0.3),
}


def test_every_change_of_a_function_changes_its_digest():
    """Different functions of the same arguments, each unlike all others."""
    found = {name: digest(call) for name, call in {"": one_root, **CHANGES}.items()}
    assert len(set(found.values())) == len(found), sorted(found.items(), key=lambda item: item[1])


def test_every_change_of_the_inputs_changes_the_digest():
    """Name, shape, order, description, and whether it is a parameter."""
    lists = [
        [Input("x", (2,)), Input("y", (2,))],
        [Input("x", (2,)), Input("z", (2,))],
        [Input("x", (2,)), Input("y", (3,))],
        [Input("x", (2,)), Input("y", (2, 1))],
        [Input("x", (2,)), Input("y", (2,), parameter=True)],
        [Input("x", (2,), parameter=True), Input("y", (2,))],
        [Input("x", (2,)), Input("y", (2,), described="2 (joints)")],
        [Input("y", (2,)), Input("x", (2,))],
        [Input("x", (2,)), Input("y", (2,)), Input("w", ())],
    ]
    found = {program_digest(trace(lambda x, *_: 2.0 * x, inputs)) for inputs in lists}
    assert len(found) == len(lists)


def test_parameters_of_primitives_change_the_digest():
    """Sizes, patterns, modes and columns."""
    pattern = [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]
    primitives = [
        SolveSpd(2),
        SolveSpd(3),
        *[ApplyOrthogonal(2, 2, mode) for mode in "PTRW"],
        ApplyOrthogonal(3, 2, "P"),
        ApplyOrthogonal(2, 3, "P"),
        SolveTreeColumns([-1, 0], 2),
        SolveTreeColumns([-1, 0], 3),
        SolveTreeColumns([-1, -1], 2),
        TableRows(2, 8),
        TableRows(2, 16),
        TableRows(3, 8),
        FactorSaddle(SaddlePattern(3, 1, pattern, [0, 1, 2])),
        FactorSaddle(SaddlePattern(3, 1, pattern, [1, 0, 2])),
        SolveSaddle(SaddlePattern(3, 1, pattern, [0, 1, 2])),
        RowProducts([(2, 3)], [[(0, 0)]], [Piece(0, 0, 1, 0, 0)]),
        RowProducts([(2, 3)], [[(0, 0)]], [Piece(0, 0, 2, 0, 0)]),
    ]
    assert len({called(primitive) for primitive in primitives}) == len(primitives)


def called(primitive):
    """Return the digest of a program that does nothing but call a primitive."""
    inputs = {"x": (primitive.argument_count,)}
    return digest(lambda x: np.array(primitive.apply(list(x)), like=x), inputs.items())


def test_factorizations_and_solutions_are_distinguished():
    """Primitives with equal numbers and different classes, through their public functions."""
    inputs = {"A": (2, 2), "b": (2,)}.items()
    calls = [
        lambda A, b: solve_spd(A, b, inline=False),
        lambda A, b: factor_tree([-1, 0], A, inline=False).solve(b),
        lambda A, b: factor_tree([-1, -1], A, inline=False).solve(b),
        lambda A, b: solve_least_squares(A, b).x,
        lambda A, b: solve_least_squares(A, b, cut=1e-3).x,
    ]
    assert len({digest(call, inputs) for call in calls}) == len(calls)


# every node


def graphs_of(graph, roots):
    """Give a graph and the graphs of all regions that it calls, with the nodes wanted there."""
    yield graph, roots
    for node in graph.live(roots):
        if graph.ops[node] == "call" and isinstance(graph.payloads[node], GraphRegion):
            yield from graphs_of(graph.payloads[node].graph, graph.payloads[node].roots)


SWAPS = {"add": "mul", "mul": "add", "sub": "div", "div": "sub", "sin": "cos", "less": "less_equal"}


def changes_of(op, args, payload):
    """Give operations, arguments and payloads that differ from those of a node."""
    if op != "call":
        yield SWAPS.get(op, "tan"), args, payload
    if len(args) > 1 and args[0] != args[1]:
        yield op, (args[1], args[0], *args[2:]), payload
    if op == "const":
        yield op, args, float(np.nextafter(payload, np.inf))
    elif op in ("result", "capture"):
        yield op, args, payload + 1
    elif op == "input":
        yield op, args, (payload[0], payload[1] + 1)
        yield op, args, (payload[0] + 1, payload[1])
    elif op == "require":
        yield op, args, payload + "!"
    elif op == "call" and isinstance(payload, Primitive):
        for name, value in (("form", (*payload.form, 1)), ("name", "other"), ("key", 1)):
            other = copy.copy(payload)
            setattr(other, name, value)
            yield op, args, other


def test_every_node_changes_the_digest():
    """Whichever live node of the program or of a region changes, so does the digest."""
    program = trace(everything, {"x": (2,), "y": (3,)})
    before = program_digest(program)
    number = 0
    for graph, roots in graphs_of(program.graph, program.roots):
        for node in graph.live(roots):
            kept = graph.ops[node], graph.args[node], graph.payloads[node]
            for changed in changes_of(*kept):
                graph.ops[node], graph.args[node], graph.payloads[node] = changed
                assert program_digest(program) != before, (kept, changed)
                number += 1
            graph.ops[node], graph.args[node], graph.payloads[node] = kept
    assert number > 100
    assert program_digest(program) == before


def test_parts_of_regions_change_the_digest():
    """Repetitions, numbers of states, order of arguments and of results."""
    program = trace(everything, {"x": (2,), "y": (3,)})
    before = program_digest(program)
    regions = [
        graph.payloads[node]
        for graph, roots in graphs_of(program.graph, program.roots)
        for node in graph.live(roots)
        if graph.ops[node] == "call" and isinstance(graph.payloads[node], GraphRegion)
    ]
    assert {type(region).__name__ for region in regions} == {
        "FunctionRegion",
        "FixedLoop",
        "WhileLoop",
    }
    for region in regions:
        for name in ("form", "inputs", "roots"):
            kept = getattr(region, name)
            more = (*kept, kept[0] if kept else 7)
            setattr(region, name, more)
            assert program_digest(program) != before
            setattr(region, name, kept)
    assert program_digest(program) == before


def test_primitives_written_elsewhere_are_not_shared_between_processes(monkeypatch):
    """What they do is in files that no stamp of the cache covers."""

    class Doubling(Primitive):
        argument_count = result_count = 1

        def __init__(self):
            super().__init__("double")

        def write(self, m, given, found):
            m.store(found, 0, m.add(m.load(given, 0), m.load(given, 0)))

    graph = Graph()
    value = Value(graph, graph.input(0, 0))
    (result,) = Doubling().apply([value])
    program = Program("p", graph, (Input("x", ()),), (Output("", (), (result.node,)),))
    first = program_digest(program)
    assert program_digest(program) == first
    # a process draws its own
    monkeypatch.setattr(digest_module, "_THIS_PROCESS", os.urandom(16))
    assert program_digest(program) != first
