"""The graph: what folds, what is shared, and what a key depends on."""

import math
import os
import subprocess
import sys

import pytest

from tiburon.errors import TraceError
from tiburon.trace.graph import FLOAT_FUNCTIONS, Graph, float_bits


@pytest.fixture
def graph():
    return Graph()


@pytest.fixture
def x(graph):
    return graph.input(0, 0)


@pytest.fixture
def y(graph):
    return graph.input(0, 1)


# sharing


def test_equal_expressions_are_one_node(graph, x, y):
    """The same expression made twice adds nothing."""
    first = graph.mul(graph.unary("sin", x), y)
    size = len(graph)
    assert graph.mul(graph.unary("sin", x), y) == first
    assert len(graph) == size


@pytest.mark.parametrize("op", ["add", "mul", "min", "max", "hypot", "equal", "and", "or"])
def test_commutative_operands_are_one_node(graph, x, y, op):
    """Swapped operands give the same node."""
    a, b = x, y
    if op in ("and", "or"):
        a, b = graph.compare("less", x, y), graph.compare("less", y, x)
    make = {
        "add": graph.add,
        "mul": graph.mul,
        "equal": graph.equal,
        "and": graph.and_,
        "or": graph.or_,
    }.get(op, lambda p, q: graph.binary(op, p, q))
    assert make(a, b) == make(b, a)


@pytest.mark.parametrize("op", ["sub", "div", "less", "less_equal", "atan2", "pow"])
def test_other_operands_keep_their_order(graph, x, y, op):
    """Swapped operands give another node where order matters."""
    make = {
        "sub": graph.sub,
        "div": graph.div,
        "pow": graph.pow,
        "atan2": lambda p, q: graph.binary("atan2", p, q),
    }.get(op, lambda p, q: graph.compare(op, p, q))
    assert make(x, y) != make(y, x)


# folding: left = right as nodes

FOLDS = {
    "0 + x": lambda g, x, y: (g.add(g.const(0), x), x),
    "x + 0": lambda g, x, y: (g.add(x, g.const(0)), x),
    "x - 0": lambda g, x, y: (g.sub(x, g.const(0)), x),
    "0 - x": lambda g, x, y: (g.sub(g.const(0), x), g.neg(x)),
    "x - x": lambda g, x, y: (g.sub(x, x), g.const(0)),
    "x + -y": lambda g, x, y: (g.add(x, g.neg(y)), g.sub(x, y)),
    "-x + y": lambda g, x, y: (g.add(g.neg(x), y), g.sub(y, x)),
    "x - -y": lambda g, x, y: (g.sub(x, g.neg(y)), g.add(x, y)),
    "-x - y": lambda g, x, y: (g.sub(g.neg(x), y), g.neg(g.add(x, y))),
    "x + (y - x)": lambda g, x, y: (g.add(x, g.sub(y, x)), y),
    "(y - x) + x": lambda g, x, y: (g.add(g.sub(y, x), x), y),
    "-(-x)": lambda g, x, y: (g.neg(g.neg(x)), x),
    "-(x - y)": lambda g, x, y: (g.neg(g.sub(x, y)), g.sub(y, x)),
    "0 x": lambda g, x, y: (g.mul(g.const(0), x), g.const(0)),
    "x 0": lambda g, x, y: (g.mul(x, g.const(0)), g.const(0)),
    "1 x": lambda g, x, y: (g.mul(g.const(1), x), x),
    "-1 x": lambda g, x, y: (g.mul(g.const(-1), x), g.neg(x)),
    "-2 x": lambda g, x, y: (g.mul(g.const(-2), x), g.neg(g.mul(g.const(2), x))),
    "-x y": lambda g, x, y: (g.mul(g.neg(x), y), g.neg(g.mul(x, y))),
    "x -y": lambda g, x, y: (g.mul(x, g.neg(y)), g.neg(g.mul(x, y))),
    "x (y/x)": lambda g, x, y: (g.mul(x, g.div(y, x)), y),
    "(y/x) x": lambda g, x, y: (g.mul(g.div(y, x), x), y),
    "x / x": lambda g, x, y: (g.div(x, x), g.const(1)),
    "0 / x": lambda g, x, y: (g.div(g.const(0), x), g.const(0)),
    "x / 1": lambda g, x, y: (g.div(x, g.const(1)), x),
    "x / 4": lambda g, x, y: (g.div(x, g.const(4)), g.mul(x, g.const(0.25))),
    "x / -3": lambda g, x, y: (g.div(x, g.const(-3)), g.neg(g.div(x, g.const(3)))),
    "-2 / x": lambda g, x, y: (g.div(g.const(-2), x), g.neg(g.div(g.const(2), x))),
    "-x / y": lambda g, x, y: (g.div(g.neg(x), y), g.neg(g.div(x, y))),
    "x / -y": lambda g, x, y: (g.div(x, g.neg(y)), g.neg(g.div(x, y))),
    "x ** 0": lambda g, x, y: (g.pow(x, g.const(0)), g.const(1)),
    "x ** 1": lambda g, x, y: (g.pow(x, g.const(1)), x),
    "x ** 2": lambda g, x, y: (g.pow(x, g.const(2)), g.mul(x, x)),
    "x ** 3": lambda g, x, y: (g.pow(x, g.const(3)), g.mul(g.mul(x, x), x)),
    "x ** 0.5": lambda g, x, y: (g.pow(x, g.const(0.5)), g.unary("sqrt", x)),
    "x ** -1": lambda g, x, y: (g.pow(x, g.const(-1)), g.div(g.const(1), x)),
    "cos -x": lambda g, x, y: (g.unary("cos", g.neg(x)), g.unary("cos", x)),
    "sin -x": lambda g, x, y: (g.unary("sin", g.neg(x)), g.neg(g.unary("sin", x))),
    "tanh -x": lambda g, x, y: (g.unary("tanh", g.neg(x)), g.neg(g.unary("tanh", x))),
    "abs -x": lambda g, x, y: (g.unary("abs", g.neg(x)), g.unary("abs", x)),
    "abs abs x": lambda g, x, y: (g.unary("abs", g.unary("abs", x)), g.unary("abs", x)),
    "abs exp x": lambda g, x, y: (g.unary("abs", g.unary("exp", x)), g.unary("exp", x)),
    "min(x, x)": lambda g, x, y: (g.binary("min", x, x), x),
    "max(x, x)": lambda g, x, y: (g.binary("max", x, x), x),
    "where(true, x, y)": lambda g, x, y: (g.where(g.truth(True), x, y), x),
    "where(false, x, y)": lambda g, x, y: (g.where(g.truth(False), x, y), y),
    "where(c, x, x)": lambda g, x, y: (g.where(g.equal(x, y), x, x), x),
    "where(not c, x, y)": lambda g, x, y: (
        g.where(g.not_(g.equal(x, y)), x, y),
        g.where(g.equal(x, y), y, x),
    ),
    "not not c": lambda g, x, y: (g.not_(g.not_(g.equal(x, y))), g.equal(x, y)),
    "c and c": lambda g, x, y: (g.and_(g.equal(x, y), g.equal(x, y)), g.equal(x, y)),
    "c and true": lambda g, x, y: (g.and_(g.equal(x, y), g.truth(True)), g.equal(x, y)),
    "c and false": lambda g, x, y: (g.and_(g.equal(x, y), g.truth(False)), g.truth(False)),
    "c or true": lambda g, x, y: (g.or_(g.truth(True), g.equal(x, y)), g.truth(True)),
    "c or false": lambda g, x, y: (g.or_(g.truth(False), g.equal(x, y)), g.equal(x, y)),
    "require(true, x)": lambda g, x, y: (g.require(g.truth(True), x, "no"), x),
}


@pytest.mark.parametrize("rule", FOLDS)
def test_fold(graph, x, y, rule):
    """Each rule turns the longer form into the very node of the shorter one."""
    long, short = FOLDS[rule](graph, x, y)
    assert long == short


KEPT = {
    "x + x": lambda g, x, y: g.add(x, x),
    "x + 1": lambda g, x, y: g.add(x, g.const(1)),
    # compensated sums live on these
    "(x + y) - x": lambda g, x, y: g.sub(g.add(x, y), x),
    "x - (x - y)": lambda g, x, y: g.sub(x, g.sub(x, y)),
    "2 x": lambda g, x, y: g.mul(g.const(2), x),
    "x / 3": lambda g, x, y: g.div(x, g.const(3)),
    "x / 0": lambda g, x, y: g.div(x, g.const(0)),
    "1 / x": lambda g, x, y: g.div(g.const(1), x),
    "(x/y) x": lambda g, x, y: g.mul(g.div(x, y), x),
    "x ** 0.3": lambda g, x, y: g.pow(x, g.const(0.3)),
    "x ** inf": lambda g, x, y: g.pow(x, g.const(math.inf)),
    "cosh x": lambda g, x, y: g.unary("cosh", x),
    "require(false, x)": lambda g, x, y: g.require(g.truth(False), x, "no"),
}


@pytest.mark.parametrize("expression", KEPT)
def test_expressions_without_a_rule_stay_nodes(graph, x, y, expression):
    """Expressions that no rule may touch are nodes of their own."""
    node = KEPT[expression](graph, x, y)
    assert node not in (x, y)
    assert graph.ops[node] not in ("const", "truth")


@pytest.mark.parametrize("op", sorted(FLOAT_FUNCTIONS))
def test_constants_fold_to_the_values_of_floats(graph, op):
    """Every operation on constants becomes the constant it means."""
    function = FLOAT_FUNCTIONS[op]
    if op in ("add", "sub", "mul", "div", "pow"):
        node = getattr(graph, op)(graph.const(0.75), graph.const(1.7))
        expected = function(0.75, 1.7)
    elif op in ("atan2", "hypot", "min", "max"):
        node = graph.binary(op, graph.const(0.75), graph.const(-1.7))
        expected = function(0.75, -1.7)
    elif op == "neg":
        node, expected = graph.neg(graph.const(0.75)), -0.75
    else:
        node, expected = graph.unary(op, graph.const(0.75)), function(0.75)
    assert graph.constant_of(node) == expected


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        ("sqrt", -1.0, math.nan),
        ("log", 0.0, -math.inf),
        ("log", -1.0, math.nan),
        ("exp", 1e4, math.inf),
        ("exp", -1e4, 0.0),
        ("sinh", -1e4, -math.inf),
        ("cosh", -1e4, math.inf),
        ("floor", -math.inf, -math.inf),
        ("floor", math.nan, math.nan),
        ("sin", math.inf, math.nan),
        ("asin", 2.0, math.nan),
        ("sign", -0.0, 0.0),
        ("sign", math.nan, math.nan),
    ],
)
def test_folding_of_special_values_equals_the_hardware(graph, op, value, expected):
    """Where Python's math raises, the constant is the IEEE result."""
    found = graph.constant_of(graph.unary(op, graph.const(value)))
    assert float_bits(found) == float_bits(expected)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [(1.0, 0.0, math.inf), (-1.0, 0.0, -math.inf), (0.0, 0.0, math.nan), (math.nan, 0.0, math.nan)],
)
def test_constant_division_by_zero(graph, a, b, expected):
    """A folded division by zero is an infinity or NaN, not an exception."""
    found = FLOAT_FUNCTIONS["div"](a, b)
    assert float_bits(found) == float_bits(expected)


def test_overflowing_power_keeps_its_sign(graph):
    """(-10) ** 401 is minus infinity."""
    assert graph.constant_of(graph.pow(graph.const(-10.0), graph.const(401.0))) == -math.inf


def test_nan_constants_are_one_node(graph):
    """NaN does not equal itself, but is found again."""
    assert graph.const(math.nan) == graph.const(float("nan"))


def test_negative_zero_counts_as_zero(graph):
    """-0.0 folds like 0.0, so patterns of zeros do not depend on how they were computed."""
    assert graph.const(-0.0) == graph.const(0.0)
    assert math.copysign(1.0, graph.constant_of(graph.const(-0.0))) == 1.0


# keys


def test_keys_do_not_depend_on_what_was_traced_before():
    """Two graphs that made the same thing on different ways agree in key and operand order."""

    def build(graph):
        a, b = graph.input(0, 0), graph.input(1, 3)
        return graph.add(graph.mul(a, b), graph.unary("sin", graph.add(b, a)))

    plain, busy = Graph(), Graph()
    for element in range(7):
        busy.unary("exp", busy.add(busy.input(1, element), busy.const(element)))
    one, two = build(plain), build(busy)
    assert one != two
    assert plain.key([one]) == busy.key([two])
    operands = [plain.keys[a] for a in plain.args[one]]
    assert operands == [busy.keys[a] for a in busy.args[two]]


def test_keys_are_the_same_in_every_process(graph, x, y):
    """Kernels are cached on disk under keys, so they must not depend on Python's hash seed."""
    here = graph.key([graph.require(graph.compare("less", x, y), graph.mul(x, y), "message")])
    code = (
        "from tiburon.trace.graph import Graph; g = Graph(); x = g.input(0, 0); y = g.input(0, 1);"
        "print(g.key([g.require(g.compare('less', x, y), g.mul(x, y), 'message')]))"
    )
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = [sys.executable, "-c", code]
        there = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
        assert int(there.stdout) == here


def test_different_graphs_have_different_keys(graph, x, y):
    """Operation, operand, constant, message: each changes the key."""
    c = graph.equal(x, y)
    nodes = [
        graph.add(x, y),
        graph.mul(x, y),
        graph.sub(x, y),
        graph.sub(y, x),
        graph.add(x, graph.const(1.0)),
        graph.add(x, graph.const(2.0)),
        graph.require(c, x, "one"),
        graph.require(c, x, "two"),
        graph.truth(True),
        graph.truth(False),
        graph.const(1.0),
        x,
        y,
        graph.input(1, 0),
    ]
    assert len({graph.keys[node] for node in nodes}) == len(nodes)


# reading


def test_live_lists_needed_nodes_arguments_first(graph, x, y):
    """Nodes nothing depends on are left out."""
    wanted = graph.add(graph.unary("sin", x), y)
    graph.unary("exp", y)
    live = graph.live([wanted])
    assert [graph.ops[node] for node in live] == ["input", "input", "sin", "add"]
    assert all(a in live[:place] for place, node in enumerate(live) for a in graph.args[node])


def test_extract_copies_the_needed_part_with_its_keys(graph, x, y):
    """The copy has the same keys, no dead nodes, and grows without touching the original."""
    wanted = graph.add(graph.div(x, graph.const(math.nan)), graph.const(3.0))
    graph.unary("exp", y)
    copy, places = graph.extract([wanted])
    assert copy.keys[places[wanted]] == graph.keys[wanted]
    assert len(copy) == len(graph.live([wanted]))
    size = len(graph)
    # hash-consing goes on in the copy: the same expression is found, a new one is added there
    again = copy.add(copy.div(copy.input(0, 0), copy.const(math.nan)), copy.const(3.0))
    assert again == places[wanted]
    copy.unary("sin", again)
    assert len(graph) == size


# regions inside graphs


def test_a_region_captures_each_outer_value_once(graph, x, y):
    """Outer values come in as captures, in the order they were first read."""
    inner = Graph(graph)
    first, second = inner.adopt(graph, y), inner.adopt(graph, x)
    assert inner.adopt(graph, y) == first != second
    assert inner.captures == [y, x]
    assert [inner.ops[first], inner.payloads[first]] == ["capture", 0]


def test_outer_constants_need_no_capture(graph):
    """A constant of the outer graph is a constant inside, open to folding."""
    inner = Graph(graph)
    assert inner.constant_of(inner.adopt(graph, graph.const(2.5))) == 2.5
    assert inner.payloads[inner.adopt(graph, graph.truth(True))] is True
    assert inner.captures == []


def test_outer_truth_values_are_captured_as_numbers(graph, x, y):
    """Only floats cross the border; inside it is a truth value again."""
    inner = Graph(graph)
    found = inner.adopt(graph, graph.compare("less", x, y))
    assert inner.is_boolean(found)
    assert graph.ops[inner.captures[0]] == "where"


def test_captures_pass_through_every_level(graph, x):
    """A value read two levels down is captured by both levels."""
    middle = Graph(graph)
    inner = Graph(middle)
    found = inner.adopt(graph, x)
    assert inner.ops[found] == "capture"
    assert middle.captures == [x]
    assert middle.ops[inner.captures[0]] == "capture"


def test_a_value_cannot_leave_its_region(graph):
    """An inner value used outside is refused with the cure."""
    inner = Graph(graph)
    with pytest.raises(TraceError, match=r"outside the function or region.*return it"):
        graph.adopt(inner, inner.input(0, 0))
