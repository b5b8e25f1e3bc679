"""The language of primitives: memory, counted loops and arithmetic.

A primitive is written once, against `Machine`. On the `DirectMachine` it runs on floats, on arrays
of one float per case, or on traced values (which inlines it into a graph); on the
`CountingMachine` it counts its operations; the machines of `tiburon.native` write it as LLVM
assembly or C, with straight-line code or real loops. The order of operations is the same on all.
"""

from __future__ import annotations

import math
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from tiburon.errors import DomainError
from tiburon.trace.count import OperationCount
from tiburon.trace.operations import FLOAT_FUNCTIONS
from tiburon.trace.value import Value, common_graph, require, where

Number = Any
"""A float in the machine's own form."""
Truth = Any
"""A truth value in the machine's own form."""
Index = Any
"""An integer, or an object that adds, subtracts and multiplies like one."""
Memory = Any
"""A row of floats."""
Table = Any
"""A table of constant integers."""


class Machine(Protocol):
    """Something that runs, counts or writes the operations of a primitive."""

    def constant(self, value: float) -> Number:
        """Return a constant."""

    def add(self, a: Number, b: Number) -> Number:
        """Return a + b."""

    def mul(self, a: Number, b: Number) -> Number:
        """Return a * b."""

    def div(self, a: Number, b: Number) -> Number:
        """Return a / b."""

    def add_product(self, a: Number, b: Number, c: Number) -> Number:
        """Return a * b + c, rounded once in native code."""

    def sub_product(self, a: Number, b: Number, c: Number) -> Number:
        """Return c - a * b, rounded once in native code."""

    def sqrt(self, a: Number) -> Number:
        """Return the square root."""

    def less(self, a: Number, b: Number) -> Truth:
        """Return a < b."""

    def less_equal(self, a: Number, b: Number) -> Truth:
        """Return a <= b."""

    def either(self, p: Truth, r: Truth) -> Truth:
        """Return p or r."""

    def choose(self, condition: Truth, a: Number, b: Number) -> Number:
        """Return a where the condition holds, else b."""

    def require(self, condition: Truth, value: Number, message: str) -> Number:
        """Return the value where the condition holds, else NaN (or raise, on plain floats)."""

    def memory(self, size: int) -> Memory:
        """Return a row of floats without content."""

    def load(self, memory: Memory, place: Index) -> Number:
        """Read a float."""

    def store(self, memory: Memory, place: Index, value: Number) -> None:
        """Write a float."""

    def fetch(self, address: Number, place: Number) -> Number:
        """Read a float of an external row, at an index held as a float."""

    def table(self, values: Sequence[int]) -> Table:
        """Return a row of constants."""

    def lookup(self, table: Table, place: Index) -> Index:
        """Read a constant."""

    def loop(
        self, start: Index, stop: Index, *, down: bool = False, independent: bool = False
    ) -> Iterator[Index]:
        """Run the body of a `for` for each index start <= i < stop, from the top if `down`.

        `independent` states that no iteration reads or writes data that another one writes: native
        code may then vectorize the loop, with the same bits.
        """


class DirectMachine:
    """Run a primitive at once, on anything that NumPy's elementwise functions accept."""

    def constant(self, value: float) -> Number:
        """Return a constant."""
        return value

    def add(self, a: Number, b: Number) -> Number:
        """Return a + b."""
        return a + b

    def mul(self, a: Number, b: Number) -> Number:
        """Return a * b."""
        return a * b

    def div(self, a: Number, b: Number) -> Number:
        """Return a / b; infinity or NaN where b is 0."""
        if isinstance(a, Value) or isinstance(b, Value):
            return a / b
        if not _is_array(a, b):
            return FLOAT_FUNCTIONS["div"](float(a), float(b))
        with np.errstate(all="ignore"):
            return a / b

    def add_product(self, a: Number, b: Number, c: Number) -> Number:
        """Return a * b + c."""
        return a * b + c

    def sub_product(self, a: Number, b: Number, c: Number) -> Number:
        """Return c - a * b."""
        return c - a * b

    def sqrt(self, a: Number) -> Number:
        """Return the square root."""
        if isinstance(a, Value):
            return np.sqrt(a)
        if not _is_array(a):
            return FLOAT_FUNCTIONS["sqrt"](float(a))
        with np.errstate(all="ignore"):
            return np.sqrt(a)

    def less(self, a: Number, b: Number) -> Truth:
        """Return a < b."""
        return a < b

    def less_equal(self, a: Number, b: Number) -> Truth:
        """Return a <= b."""
        return a <= b

    def either(self, p: Truth, r: Truth) -> Truth:
        """Return p or r."""
        return p | r

    def choose(self, condition: Truth, a: Number, b: Number) -> Number:
        """Return a where the condition holds, else b."""
        if _is_array(condition, a, b):
            return np.where(condition, a, b)
        return where(condition, a, b)

    def require(self, condition: Truth, value: Number, message: str) -> Number:
        """Return the value where the condition holds, else NaN."""
        if common_graph((condition, value)) is not None:
            return require(condition, value, message)
        return self.choose(condition, value, np.nan)

    def memory(self, size: int) -> Memory:
        """Return a row of floats without content."""
        return [None] * size

    def load(self, memory: Memory, place: Index) -> Number:
        """Read a float."""
        return memory[place]

    def store(self, memory: Memory, place: Index, value: Number) -> None:
        """Write a float."""
        memory[place] = value

    def fetch(self, address: Number, place: Number) -> Number:
        """Read a float of an external row, for each case from its own."""
        if _is_array(address, place):
            where = np.broadcast_arrays(address, place)
            found = [read_outside(a, k) for a, k in zip(*map(np.ravel, where), strict=True)]
            return np.array(found).reshape(where[0].shape)
        return read_outside(address, place)

    def table(self, values: Sequence[int]) -> Table:
        """Return a row of constants."""
        return tuple(values)

    def lookup(self, table: Table, place: Index) -> Index:
        """Read a constant."""
        return table[place]

    def loop(
        self, start: Index, stop: Index, *, down: bool = False, independent: bool = False
    ) -> Iterator[Index]:
        """Run the body for each index."""
        return iter(range(stop - 1, start - 1, -1) if down else range(start, stop))


class FloatMachine(DirectMachine):
    """Run a primitive on plain floats; raise errors for requirements that fail."""

    def require(self, condition: Truth, value: Number, message: str) -> Number:
        """Return the value if the condition holds.

        Raises:
            DomainError: If it does not.
        """
        if not condition:
            raise DomainError("matrix", message, f"a pivot of {value:.3g}")
        return value


class CountReached(Exception):
    """The limit of the operation count was reached."""


class CountingMachine(DirectMachine):
    """Count the operations of a primitive; all values are zero."""

    def __init__(self, limit: float = math.inf) -> None:
        """Start at zero.

        Args:
            limit: Number of operations beyond which to raise `CountReached`.
        """
        self._counts: Counter[str] = Counter()
        self._left = limit

    def count(self) -> OperationCount:
        """Return the counts so far."""
        return OperationCount(
            multiplications=self._counts["multiplications"],
            additions=self._counts["additions"],
            divisions=self._counts["divisions"],
            square_roots=self._counts["square_roots"],
            selections=self._counts["selections"],
        )

    def _counted(self, *names: str) -> Number:
        self._counts.update(names)
        self._left -= len(names)
        if self._left < 0:
            raise CountReached
        return 0.0

    def add(self, a: Number, b: Number) -> Number:
        """Count a sum."""
        return self._counted("additions")

    def mul(self, a: Number, b: Number) -> Number:
        """Count a product."""
        return self._counted("multiplications")

    def div(self, a: Number, b: Number) -> Number:
        """Count a division."""
        return self._counted("divisions")

    def add_product(self, a: Number, b: Number, c: Number) -> Number:
        """Count a product and a sum."""
        return self._counted("multiplications", "additions")

    def sub_product(self, a: Number, b: Number, c: Number) -> Number:
        """Count a product and a difference."""
        return self._counted("multiplications", "additions")

    def sqrt(self, a: Number) -> Number:
        """Count a square root."""
        return self._counted("square_roots")

    def less(self, a: Number, b: Number) -> Truth:
        """Count a comparison; it holds, so that loops run to their full length."""
        self._counted("selections")
        return True

    def less_equal(self, a: Number, b: Number) -> Truth:
        """Count a comparison; it fails, so that nothing counts as negligible."""
        self._counted("selections")
        return False

    def either(self, p: Truth, r: Truth) -> Truth:
        """Count an operation on truth values."""
        self._counted("selections")
        return False

    def choose(self, condition: Truth, a: Number, b: Number) -> Number:
        """Count a choice."""
        return self._counted("selections")

    def fetch(self, address: Number, place: Number) -> Number:
        """Return zero: moves are not counted."""
        return 0.0

    def require(self, condition: Truth, value: Number, message: str) -> Number:
        """Count a choice."""
        return self._counted("selections")


_OUTSIDE: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""External rows by address; weak references, so that owners keep them alive."""


def address_of(row: Any) -> float:
    """Register an array of floats and return its address, valid as long as the array lives.

    Args:
        row: Float64, contiguous; the caller must keep it alive while code uses the address.

    Raises:
        DomainError: If no float can hold the address exactly.
    """
    place = int(row.ctypes.data)
    if place >= 2**53:
        raise DomainError("table", "memory below 2^53, whose addresses floats hold", f"{place}")
    _OUTSIDE[place] = row
    return float(place)


def read_outside(address: float, place: float) -> float:
    """Return one float of an array that `address_of` registered.

    Raises:
        DomainError: If no such array is alive.
    """
    row = _OUTSIDE.get(int(address))
    if row is None:
        raise DomainError("table", "the address of a living array", f"address {address:.0f}")
    return float(row.reshape(-1)[int(place)])


def _is_array(*values: Any) -> bool:
    return any(isinstance(value, np.ndarray) and value.ndim for value in values) and not any(
        isinstance(value, Value) for value in values
    )
