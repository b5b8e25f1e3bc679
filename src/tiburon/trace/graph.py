"""The expression graph: hash-consed nodes that are folded on creation.

A node is an integer. It has an operation, arguments (other nodes) and a payload (the value of a
constant, the index of an input, the callee of a call). Equal expressions are one node; constants
fold; products with 0, 1 and -1, double negations and differences of equal values vanish, so that an
algorithm written for the general case leaves only the operations that its model needs.

Each node also has a structural key, a 64-bit hash of its operation and its arguments' keys.
Commutative operands are ordered by it and kernels are cached under it, so neither depends on what
was traced before.

Callees of call nodes are regions (functions, loops) and primitives (solvers, factorizations):
`Callee` is the interface of all of them, the other protocols those of callees that can be
differentiated, counted or inspected.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from tiburon.errors import TraceError

if TYPE_CHECKING:
    from tiburon.trace.count import OperationCount

Nodes: TypeAlias = list[int]
"""Nodes of a graph."""

ANGLE_LIMIT = 1e8
"""Largest |angle| with a sine, cosine and tangent; beyond it they are NaN [rad]."""

ANGLE_FUNCTIONS = ("sin", "cos", "tan")
"""The operations this limit is for."""


def _quiet(function: Callable[[float], float]) -> Callable[[float], float]:
    """Return the NaN or infinity of IEEE arithmetic where Python's math raises."""

    def evaluate(a: float) -> float:
        try:
            return float(function(a))
        except ValueError:
            return math.nan
        except OverflowError:
            # exp and cosh grow to plus infinity; sinh and floor keep the sign of their argument
            even = function is math.exp or function is math.expm1 or function is math.cosh
            return math.inf if even else math.copysign(math.inf, a)

    return evaluate


def _of_angle(function: Callable[[float], float]) -> Callable[[float], float]:
    """Return NaN for angles beyond the limit, as native code does."""
    return lambda a: function(a) if abs(a) <= ANGLE_LIMIT else math.nan


def _pow(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except ValueError:
        # 0 to a negative power is a pole; a negative base with a fractional exponent is NaN
        return math.inf if a == 0.0 else math.nan
    except OverflowError:
        return -math.inf if a < 0.0 and b % 2.0 == 1.0 else math.inf


def divide(a: float, b: float) -> float:
    """Return a / b, an infinity or NaN where b is zero."""
    if b != 0.0:
        return a / b
    return math.nan if a == 0.0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def sign(a: float) -> float:
    """Return -1, 0 or 1 with the sign of a (NaN for NaN)."""
    return a if a != a else float((a > 0.0) - (a < 0.0))


FLOAT_FUNCTIONS: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": divide,
    "neg": lambda a: -a,
    "copy": lambda a: a,
    "abs": abs,
    "sqrt": _quiet(math.sqrt),
    "sin": _of_angle(math.sin),
    "cos": _of_angle(math.cos),
    "tan": _of_angle(math.tan),
    "asin": _quiet(math.asin),
    "acos": _quiet(math.acos),
    "atan": math.atan,
    "atan2": math.atan2,
    "exp": _quiet(math.exp),
    "expm1": _quiet(math.expm1),
    "log": _quiet(lambda a: -math.inf if a == 0.0 else math.log(a)),
    "sinh": _quiet(math.sinh),
    "cosh": _quiet(math.cosh),
    "tanh": math.tanh,
    "pow": _pow,
    "hypot": math.hypot,
    "sign": sign,
    "floor": _quiet(math.floor),
    "min": lambda a, b: a if a < b or a != a else b,
    "max": lambda a, b: a if a > b or a != a else b,
}
"""Operations on floats; native code and the interpreter agree with them."""

BOOL_FUNCTIONS: dict[str, Callable[..., bool]] = {
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "equal": lambda a, b: a == b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": lambda a: not a,
}
"""Operations with a bool result."""


@runtime_checkable
class Callee(Protocol):
    """A function from a fixed number of floats to a fixed number of floats.

    Callees are compared by identity or by `key`: equal keys must mean equal behavior.
    """

    @property
    def name(self) -> str:
        """Short name for dumps and error messages."""

    @property
    def key(self) -> int:
        """Structural key, the same in every process."""

    @property
    def argument_count(self) -> int:
        """Number of arguments."""

    @property
    def result_count(self) -> int:
        """Number of results."""

    def evaluate(self, arguments: list[Any]) -> list[Any]:
        """Compute the results on floats, or on arrays of one float per case."""


@runtime_checkable
class DifferentiableCallee(Protocol):
    """A callee with derivative rules; both add nodes to the graph that holds the call."""

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Return the tangent node of each result, given that of each argument."""

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Return the adjoint node of each argument, given that of each result."""


@runtime_checkable
class SharedTangents(DifferentiableCallee, Protocol):
    """A callee that is derived once for several directions."""

    def tangent_among(
        self, graph: Graph, args: Nodes, tangents: Nodes, among: Sequence[bool]
    ) -> Nodes:
        """Return the tangent node of each result, by code for all arguments that may change.

        Args:
            graph: The graph that holds the call.
            args: Arguments of the call.
            tangents: Tangent of each argument along one direction.
            among: Whether each of them changes along some direction.
        """


@runtime_checkable
class CountedCallee(Protocol):
    """A callee with an operation count."""

    def count(self) -> OperationCount:
        """Return the operations of one call; of one iteration if their number is variable."""


@runtime_checkable
class ExplainingCallee(Protocol):
    """A callee that can explain a failed requirement."""

    def explain(self, arguments: list[float]) -> str | None:
        """Return the requirement that its arguments violate, None if they violate none."""


@runtime_checkable
class Region(Callee, Protocol):
    """A callee that is a graph itself."""

    @property
    def inputs(self) -> Sequence[int]:
        """Nodes of the body for the arguments, in the order of the call."""

    @property
    def graph(self) -> Graph:
        """Graph of its body."""

    @property
    def roots(self) -> Sequence[int]:
        """Nodes of the body's results."""


BOOLEAN_OPS = frozenset({"truth", "less", "less_equal", "equal", "and", "or", "not"})
COMMUTATIVE_OPS = frozenset({"add", "mul", "min", "max", "equal", "and", "or", "hypot"})

_MASK = (1 << 64) - 1
_FACTOR = 0xBF58476D1CE4E5B9
_NAN_BITS = 0x7FF8000000000000


def float_bits(value: float) -> int:
    """Return the bit pattern of a float; every NaN counts as the same one."""
    if value != value:
        return _NAN_BITS
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def mix(*parts: int) -> int:
    """Mix integers into one 64-bit key, the same on every machine and Python version."""
    key = 0x9E3779B97F4A7C15
    for part in parts:
        key = ((key ^ (part & _MASK)) * _FACTOR) & _MASK
        key ^= key >> 29
    return key


def text_key(text: str) -> int:
    """Turn text into a 64-bit key (FNV-1a)."""
    key = 0xCBF29CE484222325
    for byte in text.encode():
        key = ((key ^ byte) * 0x100000001B3) & _MASK
    return key


_OP_KEYS: dict[str, int] = {}
"""`mix` of the name of each operation."""


class Graph:
    """A growing set of nodes; a region's graph has the graph around it as parent.

    Attributes:
        ops: Operation of each node.
        args: Argument nodes of each node.
        payloads: Constant value, input index, callee or result index of each node, else None.
        keys: Structural key of each node.
        parent: The graph this region is traced inside of, or None.
        captures: For a region: the parent's nodes it reads, in the order of its capture nodes.
        regions: Functions traced inside this graph, so that each is traced once.
        conditional: Whether it is the body of a region that runs only if needed.
        body: While the body of a region that runs only if needed is traced, its graph: it receives
            the operations on values of this graph, too, which would else run in every case.
    """

    __slots__ = (
        "_captured",
        "_last_live",
        "_memo",
        "_sealed",
        "args",
        "body",
        "captures",
        "conditional",
        "keys",
        "ops",
        "order",
        "parent",
        "payloads",
        "regions",
    )

    def __init__(self, parent: Graph | None = None) -> None:
        self.ops: list[str] = []
        self.args: list[tuple[int, ...]] = []
        self.payloads: list[Any] = []
        self.keys: list[int] = []
        self.order: dict[int, int] = {}
        self.parent = parent
        self.captures: list[int] = []
        self.regions: dict[Any, Any] = {}
        self.conditional = False
        self.body: Graph | None = None
        self._memo: dict[Any, int] = {}
        self._captured: dict[int, int] = {}
        self._sealed = 0
        self._last_live: tuple[tuple[int, ...], list[int]] = (), []

    def __len__(self) -> int:
        return len(self.ops)

    def __getstate__(self) -> dict[str, Any]:
        """Drop the state that only tracing needs: functions do not pickle."""
        kept = ("ops", "args", "payloads", "keys", "order", "parent", "captures")
        return {name: getattr(self, name) for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self.regions = {}
        self.conditional = False
        self.body = None
        self._memo = {}
        self._captured = {}
        self._sealed = sum(1 for node in self.order if self.ops[node] == "result")
        self._last_live = (), []
        nodes = zip(self.ops, self.args, self.payloads, strict=True)
        for number, (op, args, payload) in enumerate(nodes):
            if op == "const":
                self._memo[payload if payload == payload else "nan"] = number
            # a callee may still be in the making, and have no key to be found by
            elif op != "call":
                self._memo[op, args, payload] = number

        # making nodes
        for place, outer in enumerate(self.captures):
            self._captured[outer] = self.node("capture", (), place, place + 1)

    def node(
        self, op: str, args: tuple[int, ...] = (), payload: Any = None, payload_key: int = 0
    ) -> int:
        """Return the node for an expression, new or existing, without simplifying it."""
        memo_key = (op, args, payload)
        found = self._memo.get(memo_key)
        if found is not None:
            return found
        keys = self.keys
        key = _OP_KEYS.get(op) or _OP_KEYS.setdefault(op, mix(text_key(op)))
        # `mix` of operation, payload and arguments, written out: it is most of the time of tracing
        key = ((key ^ (payload_key & _MASK)) * _FACTOR) & _MASK
        key ^= key >> 29
        for a in args:
            key = ((key ^ keys[a]) * _FACTOR) & _MASK
            key ^= key >> 29
        number = len(self.ops)
        self.ops.append(op)
        self.args.append(args)
        self.payloads.append(payload)
        keys.append(key)
        self._memo[memo_key] = number
        if op == "result":
            self._seal(number, args[0], payload)
        elif self.order and not self.order.keys().isdisjoint(args):
            order = self.order
            order[number] = mix(_OP_KEYS[op], payload_key, *[order.get(a, keys[a]) for a in args])
        return number

    def _seal(self, number: int, call: int, place: int) -> None:
        """Order a result of a sealed function by its place, not by what the function computes."""
        callee = self.payloads[call]
        if getattr(callee, "is_sealed", False):
            # the number of earlier results distinguishes calls
            self.order[number] = mix(text_key(callee.name), place, self._sealed)
            self._sealed += 1

    def const(self, value: float) -> int:
        """Return the node of a constant; -0.0 counts as 0.0."""
        value = float(value) + 0.0
        # NaN never equals itself
        key = value if value == value else "nan"
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self.node("const", (), value, float_bits(value))
        return found

    def truth(self, value: bool) -> int:
        """Return the node of a constant truth value."""
        return self.node("truth", (), bool(value), int(value) + 1)

    def input(self, argument: int, element: int) -> int:
        """Return the node of one element of an argument."""
        return self.node("input", (), (argument, element), mix(argument, element))

    def constant_of(self, node: int) -> float | None:
        """Return the value of a constant node, None for any other."""
        return self.payloads[node] if self.ops[node] == "const" else None

    def is_boolean(self, node: int) -> bool:
        """Return whether a node is a bool."""
        return self.ops[node] in BOOLEAN_OPS

    def adopt(self, graph: Graph, node: int) -> int:
        """Return the node of this graph for a node of this or a surrounding graph."""
        if graph is self:
            return node
        if self.parent is None:
            raise TraceError(
                "a traced value is used outside the function or region it was made in; "
                "return it from the region, or trace both in one function"
            )
        parent = self.parent
        outer = node if graph is parent else parent.adopt(graph, node)
        # recorded visits of bodies adopt the same values again and again
        known = self._captured.get(outer)
        if known is not None:
            return known
        op = parent.ops[outer]
        # constants need no wire, and stay open to folding
        if op == "const":
            return self.const(parent.payloads[outer])
        if op == "truth":
            return self.truth(parent.payloads[outer])
        if op in BOOLEAN_OPS:
            outer = parent.to_float(outer)
            return self.not_(self.equal(self._capture(outer), self.const(0.0)))
        return self._capture(outer)

    def _capture(self, outer: int) -> int:
        found = self._captured.get(outer)
        if found is None:
            place = len(self.captures)
            self.captures.append(outer)
            found = self._captured[outer] = self.node("capture", (), place, place + 1)
        return found

    def call(self, callee: Callee, args: Iterable[int]) -> list[int]:
        """Return the result nodes of calling a region or primitive."""
        call = self.node("call", tuple(args), callee, callee.key)
        return [
            self.node("result", (call,), place, place + 1) for place in range(callee.result_count)
        ]

    # arithmetic, simplified

    def _ordered(self, a: int, b: int) -> tuple[int, int]:
        keys, order = self.keys, self.order
        if order:
            return (a, b) if order.get(a, keys[a]) <= order.get(b, keys[b]) else (b, a)
        return (a, b) if keys[a] <= keys[b] else (b, a)

    def copy(self, a: int) -> int:
        """Return a value as it is, rounded: nothing folds or fuses with what computes it."""
        if self.ops[a] in ("const", "truth", "input", "capture", "result", "copy"):
            return a
        return self.node("copy", (a,))

    def neg(self, a: int) -> int:
        """Return -a."""
        op = self.ops[a]
        if op == "const":
            return self.const(-self.payloads[a])
        if op == "neg":
            return self.args[a][0]
        if op == "sub":
            x, y = self.args[a]
            return self.node("sub", (y, x))
        return self.node("neg", (a,))

    def add(self, a: int, b: int) -> int:
        """Return a + b."""
        ops = self.ops
        x, y = ops[a], ops[b]
        if x == "const":
            if y == "const":
                return self.const(self.payloads[a] + self.payloads[b])
            if self.payloads[a] == 0.0:
                return b
        elif y == "const" and self.payloads[b] == 0.0:
            return a
        if y == "neg":
            return self.sub(a, self.args[b][0])
        if x == "neg":
            return self.sub(b, self.args[a][0])
        # x + (y - x) = y: the bias force cancels along a joint's own axis
        if y == "sub" and self.args[b][1] == a:
            return self.args[b][0]
        if x == "sub" and self.args[a][1] == b:
            return self.args[a][0]
        return self.node("add", self._ordered(a, b))

    def sub(self, a: int, b: int) -> int:
        """Return a - b."""
        if a == b:
            return self.const(0.0)
        x, y = self.ops[a], self.ops[b]
        if y == "const":
            if x == "const":
                return self.const(self.payloads[a] - self.payloads[b])
            if self.payloads[b] == 0.0:
                return a
        elif x == "const" and self.payloads[a] == 0.0:
            return self.neg(b)
        if y == "neg":
            return self.add(a, self.args[b][0])
        if x == "neg":
            return self.neg(self.add(self.args[a][0], b))
        return self.node("sub", (a, b))

    def mul(self, a: int, b: int) -> int:
        """Return a * b; a sign moves out, and a product with a constant 0 is 0."""
        x, y = self.ops[a], self.ops[b]
        if x == "const" or y == "const":
            if x != "const":
                a, b, x, y = b, a, y, x
            factor = self.payloads[a]
            if y == "const":
                return self.const(factor * self.payloads[b])
            if factor == 0.0:
                return a
            if factor == 1.0:
                return b
            if factor == -1.0:
                return self.neg(b)
            if factor < 0.0:
                return self.neg(self.mul(self.const(-factor), b))
        if x == "neg":
            return self.neg(self.mul(self.args[a][0], b))
        if y == "neg":
            return self.neg(self.mul(a, self.args[b][0]))
        # x * (y / x) = y: the joint inertia cancels in the articulated-body recursion
        if y == "div" and self.args[b][1] == a:
            return self.args[b][0]
        if x == "div" and self.args[a][1] == b:
            return self.args[a][0]
        return self.node("mul", self._ordered(a, b))

    def div(self, a: int, b: int) -> int:
        """Return a / b; dividing by a power of two is an exact product."""
        if a == b:
            return self.const(1.0)
        x, y = self.ops[a], self.ops[b]
        if y == "const":
            divisor = self.payloads[b]
            if x == "const":
                return self.const(divide(self.payloads[a], divisor))
            if divisor != 0.0 and math.isfinite(divisor) and abs(math.frexp(divisor)[0]) == 0.5:
                return self.mul(a, self.const(1.0 / divisor))
            if divisor < 0.0:
                return self.neg(self.div(a, self.const(-divisor)))
        elif x == "const":
            if self.payloads[a] == 0.0:
                return a
            if self.payloads[a] < 0.0:
                return self.neg(self.div(self.const(-self.payloads[a]), b))
        if x == "neg":
            return self.neg(self.div(self.args[a][0], b))
        if y == "neg":
            return self.neg(self.div(a, self.args[b][0]))
        return self.node("div", (a, b))

    def unary(self, op: str, a: int) -> int:
        """Return a function of one argument."""
        value = self.constant_of(a)
        if value is not None:
            return self.const(FLOAT_FUNCTIONS[op](value))
        inner = self.ops[a]
        if inner == "neg":
            if op in ("abs", "cos", "cosh"):
                return self.unary(op, self.args[a][0])
            if op in ("sin", "tan", "asin", "atan", "sinh", "tanh", "sign"):
                return self.neg(self.unary(op, self.args[a][0]))
        if op == "abs" and inner in ("abs", "sqrt", "exp"):
            return a
        return self.node(op, (a,))

    def binary(self, op: str, a: int, b: int) -> int:
        """Return atan2, hypot, min or max of two arguments."""
        x, y = self.constant_of(a), self.constant_of(b)
        if x is not None and y is not None:
            return self.const(FLOAT_FUNCTIONS[op](x, y))
        if a == b and op in ("min", "max"):
            return a
        return self.node(op, self._ordered(a, b) if op in COMMUTATIVE_OPS else (a, b))

    def pow(self, a: int, b: int) -> int:
        """Return a ** b; small whole powers become products."""
        power = self.constant_of(b)
        base = self.constant_of(a)
        if power is not None:
            if base is not None:
                return self.const(FLOAT_FUNCTIONS["pow"](base, power))
            if power == 0.5:
                return self.unary("sqrt", a)
            if abs(power) <= 16.0 and power == math.floor(power):
                product = self._whole_power(a, int(abs(power)))
                return product if power >= 0 else self.div(self.const(1.0), product)
        return self.node("pow", (a, b))

    def _whole_power(self, a: int, power: int) -> int:
        if power == 0:
            return self.const(1.0)
        half = self._whole_power(a, power // 2)
        square = self.mul(half, half)
        return self.mul(square, a) if power % 2 else square

    # truth values

    def to_float(self, a: int) -> int:
        """Return 1.0 where a truth value holds, else 0.0; floats pass."""
        if not self.is_boolean(a):
            return a
        return self.where(a, self.const(1.0), self.const(0.0))

    def to_truth(self, a: int) -> int:
        """Return whether a float is not zero; truth values pass."""
        return a if self.is_boolean(a) else self.not_(self.equal(a, self.const(0.0)))

    def compare(self, op: str, a: int, b: int) -> int:
        """Return less, less_equal or equal of two floats."""
        x, y = self.constant_of(a), self.constant_of(b)
        if x is not None and y is not None:
            return self.truth(BOOL_FUNCTIONS[op](x, y))
        return self.node(op, self._ordered(a, b) if op == "equal" else (a, b))

    def equal(self, a: int, b: int) -> int:
        """Return a == b."""
        return self.compare("equal", a, b)

    def not_(self, a: int) -> int:
        """Return not a."""
        if self.ops[a] == "truth":
            return self.truth(not self.payloads[a])
        return self.args[a][0] if self.ops[a] == "not" else self.node("not", (a,))

    def and_(self, a: int, b: int) -> int:
        """Return a and b."""
        return self._logical("and", a, b, absorbing=False)

    def or_(self, a: int, b: int) -> int:
        """Return a or b."""
        return self._logical("or", a, b, absorbing=True)

    def _logical(self, op: str, a: int, b: int, *, absorbing: bool) -> int:
        for this, other in ((a, b), (b, a)):
            if self.ops[this] == "truth":
                return this if self.payloads[this] is absorbing else other
        return a if a == b else self.node(op, self._ordered(a, b))

    def where(self, condition: int, a: int, b: int) -> int:
        """Return a where the condition holds, else b; both may be truth values."""
        if self.ops[condition] == "truth":
            return a if self.payloads[condition] else b
        if a == b:
            return a
        if self.is_boolean(a) and self.is_boolean(b):
            return self.or_(self.and_(condition, a), self.and_(self.not_(condition), b))
        if self.ops[condition] == "not":
            condition, a, b = self.args[condition][0], b, a
        return self.node("where", (condition, self.to_float(a), self.to_float(b)))

    def require(self, condition: int, a: int, message: str) -> int:
        """Return a where the condition holds, else NaN; the message explains the failure."""
        if self.ops[condition] == "truth" and self.payloads[condition]:
            return a
        return self.node("require", (condition, a), message, text_key(message))

    # reading

    def live(self, roots: Iterable[int]) -> Sequence[int]:
        """Return the nodes the roots depend on, arguments before users."""
        wanted = tuple(roots)
        # nodes never change: a finished body is asked for again and again by code generation
        if self._last_live[0] == wanted:
            return self._last_live[1]
        node = max(wanted, default=-1)
        marks = bytearray(node + 1)
        for root in wanted:
            marks[root] = 1
        # arguments have lower numbers than their users
        found, args = [], self.args
        while node >= 0:
            found.append(node)
            for argument in args[node]:
                marks[argument] = 1
            node = marks.rfind(1, 0, node)
        found.reverse()
        self._last_live = wanted, found
        return found

    def extract(self, roots: Iterable[int]) -> tuple[Graph, dict[int, int]]:
        """Copy the nodes that some nodes depend on to a new graph.

        Returns:
            The new graph, and the new index of each copied node.
        """
        copy = Graph(self.parent)
        copy.captures = list(self.captures)
        places: dict[int, int] = {}
        for node in self.live(roots):
            op, payload = self.ops[node], self.payloads[node]
            if op == "const":
                places[node] = copy.const(payload)
                continue
            args = tuple(places[a] for a in self.args[node])
            places[node] = copy._memo[op, args, payload] = len(copy.ops)
            copy.ops.append(op)
            copy.args.append(args)
            copy.payloads.append(payload)
            copy.keys.append(self.keys[node])
            if node in self.order:
                copy.order[places[node]] = self.order[node]
                copy._sealed += op == "result"
        return copy, places

    def key(self, roots: Iterable[int]) -> int:
        """Return one key for a sequence of nodes."""
        return mix(*[self.keys[root] for root in roots])
