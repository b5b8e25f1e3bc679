"""A scalar that counts the operations it takes part in.

Operations on known zeros and ones cost nothing, equal subexpressions count once and only what the
results need is counted: the rules under which the sources state their operation counts.
"""

from dataclasses import dataclass
from typing import NamedTuple


class Counts(NamedTuple):
    """Multiplications and additions (or subtractions)."""

    multiplications: int
    additions: int


@dataclass(frozen=True)
class Counted:
    """An operation with its operands and its value; equal expressions are equal and hash alike."""

    operation: str
    operands: tuple
    value: float

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def __add__(self, other):
        return combine("+", self, other)

    def __radd__(self, other):
        return combine("+", other, self)

    def __sub__(self, other):
        return combine("-", self, other)

    def __rsub__(self, other):
        return combine("-", other, self)

    def __mul__(self, other):
        return combine("*", self, other)

    def __rmul__(self, other):
        return combine("*", other, self)

    def __neg__(self):
        if self.operation == "neg":
            return self.operands[0]
        if self.operation == "-":
            return combine("-", self.operands[1], self.operands[0])
        return node("neg", (self,), -self.value)


_known: dict = {}


def variable(value, name):
    """Return a counted input."""
    return node("input", (name, float(value)), float(value))


def node(operation, operands, value):
    """Return the one node of an expression."""
    key = (operation, tuple(x if isinstance(x, str | float) else id(x) for x in operands))
    if key not in _known:
        _known[key] = Counted(operation, operands, value)
    return _known[key]


def number(x):
    """Return the value of a counted scalar or of a float."""
    return x.value if isinstance(x, Counted) else float(x)


def combine(operation, a, b):
    """Return a node, or less where a known zero, one or sign makes it unnecessary."""
    if operation == "+":
        if not isinstance(a, Counted) and a == 0.0:
            return b
        if not isinstance(b, Counted) and b == 0.0:
            return a
        if isinstance(b, Counted) and b.operation == "neg":
            return combine("-", a, b.operands[0])
        if isinstance(a, Counted) and a.operation == "neg":
            return combine("-", b, a.operands[0])
        return node("+", order(a, b), number(a) + number(b))
    if operation == "-":
        if not isinstance(b, Counted) and b == 0.0:
            return a
        if not isinstance(a, Counted) and a == 0.0:
            return -b
        if a is b:
            return 0.0
        if isinstance(b, Counted) and b.operation == "neg":
            return combine("+", a, b.operands[0])
        return node("-", (a, b), number(a) - number(b))
    for x, y in ((a, b), (b, a)):
        if not isinstance(x, Counted):
            if x == 0.0:
                return 0.0
            if x == 1.0:
                return y
            if x == -1.0:
                return -y
        elif x.operation == "neg":
            return -combine("*", x.operands[0], y)
    return node("*", order(a, b), number(a) * number(b))


def order(a, b):
    """Return both operands of a commutative operation in an order that depends on them only."""
    if not isinstance(a, Counted) or not isinstance(b, Counted):
        return (b, a) if isinstance(a, Counted) else (a, b)
    return (a, b) if id(a) <= id(b) else (b, a)


def count(results):
    """Return how many multiplications and additions the results need together."""
    seen, waiting = {}, [x for x in results if isinstance(x, Counted)]
    while waiting:
        x = waiting.pop()
        if id(x) not in seen:
            seen[id(x)] = x.operation
            waiting.extend(y for y in x.operands if isinstance(y, Counted))
    operations = list(seen.values())
    return Counts(operations.count("*"), operations.count("+") + operations.count("-"))
