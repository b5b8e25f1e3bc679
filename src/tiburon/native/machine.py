"""Machines that write primitives and loops as native code.

They speak the language of `tiburon.trace.primitives.machine` and add what loops over graphs need.
`SpelledOutMachine` needs nothing but a target. `NativeMachine` holds what LLVM assembly and C have
in common; memory, indices and loops are spelled by the two machines derived from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from tiburon.native.target import Ref, Target
from tiburon.record import record


@record
class Slots:
    """A row of floats in memory.

    Attributes:
        address: Pointer to the memory they lie in.
        offset: Place of the first there.
    """

    address: Ref
    offset: int = 0


class NativeIndex:
    """A whole number that is known when the code runs."""

    __slots__ = ("_machine", "ref")

    def __init__(self, machine: NativeMachine, ref: Ref) -> None:
        self._machine = machine
        self.ref = ref

    def __add__(self, other: Any) -> Any:
        return self if _is(other, 0) else self._machine.index_operation("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self + other

    def __sub__(self, other: Any) -> Any:
        return self if _is(other, 0) else self._machine.index_operation("sub", self, other)

    def __mul__(self, other: Any) -> Any:
        return self if _is(other, 1) else self._machine.index_operation("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self * other


def _is(value: Any, number: int) -> bool:
    return isinstance(value, int) and value == number


class SpelledOutMachine:
    """Write arithmetic into a target; loops are written out and memory stays in names.

    Needs every index to be known while writing.

    Attributes:
        target: Where instructions go.
    """

    def __init__(self, target: Target) -> None:
        self.target = target

    # arithmetic

    def constant(self, value: float) -> Ref:
        """Give a constant."""
        return self.target.const(value)

    def add(self, a: Ref, b: Ref) -> Ref:
        """Write a + b."""
        return self.target.add(a, b)

    def mul(self, a: Ref, b: Ref) -> Ref:
        """Write a * b."""
        return self.target.mul(a, b)

    def div(self, a: Ref, b: Ref) -> Ref:
        """Write a / b."""
        return self.target.div(a, b)

    def add_product(self, a: Ref, b: Ref, c: Ref) -> Ref:
        """Write a * b + c."""
        return self.target.fma(a, b, c)

    def sub_product(self, a: Ref, b: Ref, c: Ref) -> Ref:
        """Write c - a * b."""
        return self.target.fma(self.target.neg(a), b, c)

    def sqrt(self, a: Ref) -> Ref:
        """Write the square root."""
        return self.target.sqrt(a)

    def less(self, a: Ref, b: Ref) -> Ref:
        """Write a < b."""
        return self.target.less(a, b)

    def less_equal(self, a: Ref, b: Ref) -> Ref:
        """Write a <= b."""
        return self.target.less_equal(a, b)

    def either(self, p: Ref, r: Ref) -> Ref:
        """Write p or r."""
        return self.target.logical_or(p, r)

    def choose(self, condition: Ref, a: Ref, b: Ref) -> Ref:
        """Write the choice of a where the condition holds, else b."""
        return self.target.select(condition, a, b)

    def require(self, condition: Ref, value: Ref, message: str) -> Ref:
        """Write the choice of the value where the condition holds, else NaN."""
        return self.target.select(condition, value, self.target.const(float("nan")))

    # memory

    def memory(self, size: int) -> Any:
        """Give a row of floats without content."""
        return [None] * size

    def load(self, memory: Any, place: Any) -> Ref:
        """Read a float."""
        found: Ref = memory[place]
        return found

    def store(self, memory: Any, place: Any, value: Ref) -> None:
        """Write a float."""
        memory[place] = value

    def fetch(self, address: Ref, place: Ref) -> Ref:
        """Refuse to read a row outside, which needs an address at run time."""
        raise AssertionError("primitives that read rows outside are not spelled out")

    # indices

    def table(self, values: Sequence[int]) -> Any:
        """Give a row of constant indices."""
        return tuple(values)

    def lookup(self, table: Any, place: Any) -> Any:
        """Read a constant index."""
        return table[place]

    # loops

    def loop(
        self, start: Any, stop: Any, *, down: bool = False, independent: bool = False
    ) -> Iterator[Any]:
        """Repeat what the body of the `for` writes."""
        yield from range(stop - 1, start - 1, -1) if down else range(start, stop)


class NativeMachine(SpelledOutMachine, ABC):
    """Write arithmetic into a target; memory, indices and loops are left to the language.

    Attributes:
        spelled_out: Whether loops are written out and memory stays in names; needs every index
            to be known while writing.
    """

    def __init__(self, target: Target, *, spelled_out: bool = False) -> None:
        super().__init__(target)
        self.spelled_out = spelled_out

    # memory: names while everything is spelled out, else rows of floats

    def memory(self, size: int) -> Any:
        """Give a row of floats without content."""
        return [None] * size if self.spelled_out else self.slots(size)

    def load(self, memory: Any, place: Any) -> Ref:
        """Read a float."""
        return memory[place] if isinstance(memory, list) else self.load_slot(memory, place)

    def store(self, memory: Any, place: Any, value: Ref) -> None:
        """Write a float."""
        if isinstance(memory, list):
            memory[place] = value
        else:
            self.store_slot(memory, place, value)

    @abstractmethod
    def slots(self, size: int) -> Slots:
        """Give a row of floats in memory."""

    @abstractmethod
    def load_slot(self, slots: Slots, place: Any) -> Ref:
        """Read a float from memory."""

    @abstractmethod
    def store_slot(self, slots: Slots, place: Any, value: Ref) -> None:
        """Write a float to memory."""

    @abstractmethod
    def fetch(self, address: Ref, place: Ref) -> Ref:
        """Read a float from a row outside; address and place are whole numbers held as floats."""

    @abstractmethod
    def truth_memory(self, value: bool) -> Ref:
        """Give a place for one truth value, with its first content."""

    @abstractmethod
    def load_truth(self, memory: Ref) -> Ref:
        """Read a truth value."""

    @abstractmethod
    def store_truth(self, memory: Ref, value: Ref) -> None:
        """Write a truth value."""

    # indices

    @abstractmethod
    def index_operation(self, operation: str, i: Any, j: Any) -> NativeIndex:
        """Write the sum, difference or product of indices ("add", "sub", "mul")."""

    def table(self, values: Sequence[int]) -> Any:
        """Give a row of constant indices."""
        return tuple(values) if self.spelled_out else self.constant_table(values)

    @abstractmethod
    def constant_table(self, values: Sequence[int]) -> Ref:
        """Give a row of constant indices in memory."""

    def lookup(self, table: Any, place: Any) -> Any:
        """Read a constant index."""
        return table[place] if isinstance(table, tuple) else self.lookup_index(table, place)

    @abstractmethod
    def lookup_index(self, table: Ref, place: Any) -> NativeIndex:
        """Read a constant index from memory."""

    # loops

    def loop(
        self, start: Any, stop: Any, *, down: bool = False, independent: bool = False
    ) -> Iterator[Any]:
        """Write a loop around what the body of the `for` writes."""
        known = isinstance(start, int) and isinstance(stop, int)
        if known and (self.spelled_out or stop - start <= 1):
            yield from super().loop(start, stop, down=down)
        else:
            yield from self.counted_loop(start, stop, down=down, independent=independent)

    @abstractmethod
    def counted_loop(
        self, start: Any, stop: Any, *, down: bool, independent: bool = False
    ) -> Iterator[NativeIndex]:
        """Write a loop over indices."""

    @abstractmethod
    def repeat(self, limit: int) -> Iterator[None]:
        """Write a loop without end, to be left by `leave_unless`."""

    @abstractmethod
    def leave_unless(self, condition: Ref) -> None:
        """Write the end of the innermost `repeat`: in no lane the condition, or limit reached."""
