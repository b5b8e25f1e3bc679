"""The instruction set of generated code, independent of the output language.

A target is one output language (LLVM assembly, C, x86 instructions). Each method appends one
instruction and returns a reference to its result. Code written against this protocol has the same
instructions in every language, and each instruction is exact or correctly rounded, so results agree
bit for bit between languages and lane counts.

Values are float64, int64 (two's complement, wrapping) or bool, one per lane. Conversion between
int64 and float64 is by bit pattern only: vector units differ in conversion by value, and adding
1.5 * 2**52 has the same effect.

Machines add memory, indices and loops (the language of `tiburon.trace.primitives.primitive`).
`UnrolledMachine` needs only a target. `NativeMachine` is the common base of the LLVM and C
machines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from tiburon.record import record

Ref = str
"""Name of a value, or a literal constant, in the text of one target. Opaque to callers."""


class Target(Protocol):
    """One output language: every method emits one instruction and returns its result."""

    @property
    def fused(self) -> bool:
        """Whether `fma` rounds once. If not, it is a product followed by a sum, rounded twice."""

    # float64 -> float64
    def const(self, value: float) -> Ref:
        """Return a float constant (any value, with its sign of zero; NaN becomes the quiet NaN)."""

    def add(self, a: Ref, b: Ref) -> Ref:
        """Emit a + b."""

    def sub(self, a: Ref, b: Ref) -> Ref:
        """Emit a - b."""

    def mul(self, a: Ref, b: Ref) -> Ref:
        """Emit a * b."""

    def div(self, a: Ref, b: Ref) -> Ref:
        """Emit a / b."""

    def neg(self, a: Ref) -> Ref:
        """Emit -a (flips the sign bit, also of zero and NaN)."""

    def fma(self, a: Ref, b: Ref, c: Ref) -> Ref:
        """Emit a * b + c, rounded once if the target is `fused`."""

    def sqrt(self, a: Ref) -> Ref:
        """Emit the square root; NaN for a < 0."""

    def abs(self, a: Ref) -> Ref:
        """Emit |a| (clears the sign bit)."""

    def floor(self, a: Ref) -> Ref:
        """Emit the largest integer <= a, as a float."""

    def copysign(self, magnitude: Ref, sign: Ref) -> Ref:
        """Emit |magnitude| with the sign bit of `sign`."""

    # float64 -> bool; every comparison with NaN is false
    def less(self, a: Ref, b: Ref) -> Ref:
        """Emit a < b."""

    def less_equal(self, a: Ref, b: Ref) -> Ref:
        """Emit a <= b."""

    def equal(self, a: Ref, b: Ref) -> Ref:
        """Emit a == b."""

    def is_nan(self, a: Ref) -> Ref:
        """Emit whether a is NaN."""

    # bool -> bool
    def bool_const(self, value: bool) -> Ref:
        """Return a bool constant."""

    def logical_and(self, p: Ref, r: Ref) -> Ref:
        """Emit p and r."""

    def logical_or(self, p: Ref, r: Ref) -> Ref:
        """Emit p or r."""

    def logical_xor(self, p: Ref, r: Ref) -> Ref:
        """Emit the exclusive or of p and r."""

    def logical_not(self, p: Ref) -> Ref:
        """Emit not p."""

    # selection: both values are always computed
    def select(self, condition: Ref, a: Ref, b: Ref) -> Ref:
        """Emit the float a where `condition` holds, else b."""

    def iselect(self, condition: Ref, i: Ref, j: Ref) -> Ref:
        """Emit the int i where `condition` holds, else j."""

    # int64
    def bits(self, a: Ref) -> Ref:
        """Emit the bit pattern of a float as an int."""

    def double(self, i: Ref) -> Ref:
        """Emit the float with the bit pattern i."""

    def int_const(self, value: int) -> Ref:
        """Return an int constant, -2**63 <= value < 2**64 (the upper half wraps to negative)."""

    def iadd(self, i: Ref, j: Ref) -> Ref:
        """Emit i + j, wrapping."""

    def isub(self, i: Ref, j: Ref) -> Ref:
        """Emit i - j, wrapping."""

    def iand(self, i: Ref, j: Ref) -> Ref:
        """Emit the bitwise and."""

    def ior(self, i: Ref, j: Ref) -> Ref:
        """Emit the bitwise or."""

    def ixor(self, i: Ref, j: Ref) -> Ref:
        """Emit the bitwise exclusive or."""

    def shl(self, i: Ref, count: int) -> Ref:
        """Emit i shifted left by 0 <= count < 64 bits."""

    def lshr(self, i: Ref, count: int) -> Ref:
        """Emit i shifted right by 0 <= count < 64 bits, filled with zeros."""

    def ashr(self, i: Ref, count: int) -> Ref:
        """Emit i shifted right by 0 <= count < 64 bits, filled with the sign."""

    def iequal(self, i: Ref, j: Ref) -> Ref:
        """Emit i == j as a bool."""


@record
class Slots:
    """A contiguous array of floats in memory.

    Attributes:
        address: Pointer to the memory.
        offset: Index of the first float.
    """

    address: Ref
    offset: int = 0


class NativeIndex:
    """An integer that is known at run time only."""

    __slots__ = ("_machine", "ref")

    def __init__(self, machine: NativeMachine, ref: Ref) -> None:
        self._machine = machine
        self.ref = ref

    def __add__(self, other: Any) -> Any:
        if isinstance(other, SpacedIndex):
            return other + self
        return self if _is(other, 0) else self._machine.index_operation("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self + other

    def __sub__(self, other: Any) -> Any:
        return self if _is(other, 0) else self._machine.index_operation("sub", self, other)

    def __mul__(self, other: Any) -> Any:
        return self if _is(other, 1) else self._machine.index_operation("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self * other


class LaneIndex:
    """An integer of each lane, known at run time only."""

    __slots__ = ("lanes",)

    def __init__(self, lanes: Sequence[NativeIndex]) -> None:
        self.lanes = tuple(lanes)

    def __add__(self, other: Any) -> LaneIndex:
        return LaneIndex([lane + other for lane in self.lanes])

    def __mul__(self, other: Any) -> LaneIndex:
        return LaneIndex([lane * other for lane in self.lanes])


class SpacedIndex:
    """An integer of each lane, equally spaced: the floats of several indices at once."""

    __slots__ = ("first", "step")

    def __init__(self, first: Any, step: int) -> None:
        self.first, self.step = first, step

    def lane(self, number: int) -> Any:
        """Return the integer of one lane."""
        return self.first + self.step * number

    def __add__(self, other: Any) -> SpacedIndex:
        if isinstance(other, SpacedIndex):
            return SpacedIndex(self.first + other.first, self.step + other.step)
        return SpacedIndex(self.first + other, self.step)

    def __radd__(self, other: Any) -> SpacedIndex:
        return self.__add__(other)

    def __sub__(self, other: Any) -> SpacedIndex:
        return SpacedIndex(self.first - other, self.step)

    def __mul__(self, other: int) -> SpacedIndex:
        return SpacedIndex(self.first * other, self.step * other)

    def __rmul__(self, other: int) -> SpacedIndex:
        return self * other


def _is(value: Any, number: int) -> bool:
    return isinstance(value, int) and value == number


class UnrolledMachine:
    """Write arithmetic into a target; loops are unrolled and memory is a Python list.

    Every index must be known at compile time.

    Attributes:
        target: Receives the instructions.
    """

    def __init__(self, target: Target) -> None:
        self.target = target

    # arithmetic

    def constant(self, value: float) -> Ref:
        """Return a constant."""
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

    def both(self, p: Ref, r: Ref) -> Ref:
        """Write p and r."""
        return self.target.logical_and(p, r)

    def choose(self, condition: Ref, a: Ref, b: Ref) -> Ref:
        """Write the selection of a where the condition holds, else b."""
        return self.target.select(condition, a, b)

    def require(self, condition: Ref, value: Ref, message: str) -> Ref:
        """Write the selection of the value where the condition holds, else NaN."""
        return self.target.select(condition, value, self.target.const(float("nan")))

    # memory

    def memory(self, size: int) -> Any:
        """Return an uninitialized array of floats."""
        return [None] * size

    def load(self, memory: Any, place: Any) -> Ref:
        """Read a float."""
        found: Ref = memory[place]
        return found

    def store(self, memory: Any, place: Any, value: Ref) -> None:
        """Write a float."""
        memory[place] = value

    def fetch(self, address: Ref, place: Ref) -> Ref:
        """Raise an error: external rows need an address at run time."""
        raise AssertionError("primitives that read external rows are not unrolled")

    def call(self, address: Ref, memory: Any, number: int, size: int) -> None:
        """Raise an error: external functions take a row in memory."""
        raise AssertionError("primitives that call external functions are not unrolled")

    # indices

    def table(self, values: Sequence[int]) -> Any:
        """Return an array of constant indices."""
        return tuple(values)

    def lookup(self, table: Any, place: Any) -> Any:
        """Read a constant index."""
        return table[place]

    def index(self, value: Ref) -> Any:
        """Raise an error: the index is known at run time only."""
        raise AssertionError("primitives that compute indices are not unrolled")

    def number(self, place: Any) -> Ref:
        """Return an index as a constant."""
        return self.target.const(float(place))

    def largest(self, value: Ref, limit: int) -> Any:
        """Raise an error: the index is known at run time only."""
        raise AssertionError("primitives that compute indices are not unrolled")

    @property
    def is_wide(self) -> bool:
        """Whether values are vectors of several cases."""
        return False

    # loops

    def loop(
        self, start: Any, stop: Any, *, down: bool = False, independent: bool = False
    ) -> Iterator[Any]:
        """Repeat the instructions that the body of the `for` writes."""
        yield from range(stop - 1, start - 1, -1) if down else range(start, stop)

    def abreast(self, count: int) -> Iterator[Any]:
        """Repeat the instructions that the body of the `for` writes."""
        return self.loop(0, count)

    def iterate(self, limit: int, condition: Callable[[], Ref]) -> Iterator[None]:
        """Raise an error: the number of iterations is known at run time only."""
        raise AssertionError("primitives that iterate are not unrolled")


class NativeMachine(UnrolledMachine, ABC):
    """Write arithmetic into a target; subclasses write memory, indices and loops.

    Attributes:
        unrolled: Whether loops are unrolled and memory is a Python list; every index must then
            be known at compile time.
    """

    def __init__(self, target: Target, *, unrolled: bool = False) -> None:
        super().__init__(target)
        self.unrolled = unrolled

    # memory: a list if unrolled, else an array of floats

    def memory(self, size: int) -> Any:
        """Return an uninitialized array of floats."""
        return [None] * size if self.unrolled else self.slots(size)

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
        """Return an array of floats in memory."""

    @abstractmethod
    def load_slot(self, slots: Slots, place: Any) -> Ref:
        """Read a float from memory."""

    @abstractmethod
    def store_slot(self, slots: Slots, place: Any, value: Ref) -> None:
        """Write a float to memory."""

    @abstractmethod
    def fetch(self, address: Ref, place: Ref) -> Ref:
        """Read a float from an external row; address and index are integers held as floats."""

    @abstractmethod
    def truth_memory(self, value: bool) -> Ref:
        """Return memory for one bool, with its initial value."""

    @abstractmethod
    def load_truth(self, memory: Ref) -> Ref:
        """Read a bool."""

    @abstractmethod
    def store_truth(self, memory: Ref, value: Ref) -> None:
        """Write a bool."""

    # indices

    @abstractmethod
    def index_operation(self, operation: str, i: Any, j: Any) -> NativeIndex:
        """Write the sum, difference or product of indices ("add", "sub", "mul")."""

    def table(self, values: Sequence[int]) -> Any:
        """Return an array of constant indices."""
        return tuple(values) if self.unrolled else self.constant_table(values)

    @abstractmethod
    def constant_table(self, values: Sequence[int]) -> Ref:
        """Return an array of constant indices in memory."""

    def lookup(self, table: Any, place: Any) -> Any:
        """Read a constant index."""
        return table[place] if isinstance(table, tuple) else self.lookup_index(table, place)

    @abstractmethod
    def lookup_index(self, table: Ref, place: Any) -> Any:
        """Read a constant index from memory, or one for each lane."""

    @abstractmethod
    def index(self, value: Ref) -> Any:
        """Convert a whole number to an index, or to one for each lane."""

    def number(self, place: Any) -> Ref:
        """Convert an index to a float, the same in all lanes."""
        return super().number(place) if isinstance(place, int) else self.number_of_index(place)

    @abstractmethod
    def number_of_index(self, place: NativeIndex) -> Ref:
        """Convert an index to a float, the same in all lanes."""

    @abstractmethod
    def largest(self, value: Ref, limit: int) -> NativeIndex:
        """Convert the largest lane of a whole number to an index."""

    # loops

    def loop(
        self, start: Any, stop: Any, *, down: bool = False, independent: bool = False
    ) -> Iterator[Any]:
        """Write a loop around the instructions that the body of the `for` writes."""
        known = isinstance(start, int) and isinstance(stop, int)
        if known and (self.unrolled or stop - start <= 1):
            yield from super().loop(start, stop, down=down)
        else:
            yield from self.counted_loop(start, stop, down=down, independent=independent)

    @abstractmethod
    def counted_loop(
        self, start: Any, stop: Any, *, down: bool, independent: bool = False
    ) -> Iterator[NativeIndex]:
        """Write a loop over indices."""

    def iterate(self, limit: int, condition: Callable[[], Ref]) -> Iterator[None]:
        """Write a loop around the instructions of the body that a condition ends."""
        if limit == 1:
            yield from self.branch(condition())
            return
        for _ in self.repeat(limit):
            self.leave_unless(condition())
            yield

    @abstractmethod
    def branch(self, condition: Ref) -> Iterator[None]:
        """Write the instructions of the body so that they run if a condition holds in a lane."""

    @abstractmethod
    def repeat(self, limit: int) -> Iterator[None]:
        """Write an endless loop, to be left by `leave_unless`."""

    @abstractmethod
    def leave_unless(self, condition: Ref) -> None:
        """Write the exit of the innermost `repeat`: no lane active, or limit reached."""
