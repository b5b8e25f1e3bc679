"""Memory, indices and loops as C statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tiburon.native.c_target import CTarget
from tiburon.native.machine import NativeIndex, NativeMachine, Slots
from tiburon.native.target import Ref

_OPERATORS = {"add": "+", "sub": "-", "mul": "*"}


class CMachine(NativeMachine):
    """Write C: memory becomes local arrays, loops become `for` statements."""

    target: CTarget

    def __init__(self, target: CTarget, *, spelled_out: bool = False) -> None:
        """Start without memory or loops.

        Args:
            target: Where statements go.
            spelled_out: See `NativeMachine`.
        """
        super().__init__(target, spelled_out=spelled_out)
        self._count = 0
        self._exits: list[tuple[str, int]] = []

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def _line(self, text: str) -> None:
        self.target.lines.append(f"    {text}")

    # memory

    def slots(self, size: int) -> Slots:
        """Give a local array of floats."""
        name = self._name("row")
        # C has no arrays without elements
        self._line(f"double {name}[{max(size, 1)}];")
        return Slots(name)

    def load_slot(self, slots: Slots, place: Any) -> Ref:
        """Read a float."""
        index = _text(place + slots.offset)
        return self.target.emit("double", f"{slots.address}[{index}]")

    def store_slot(self, slots: Slots, place: Any, value: Ref) -> None:
        """Write a float."""
        self._line(f"{slots.address}[{_text(place + slots.offset)}] = {value};")

    def fetch(self, address: Ref, place: Ref) -> Ref:
        """Read a float from a row outside."""
        row = f"((const double *)(uintptr_t)({address}))"
        return self.target.emit("double", f"{row}[(int64_t)({place})]")

    def truth_memory(self, value: bool) -> Ref:
        """Give a variable for one truth value."""
        name = self._name("truth")
        self._line(f"int {name} = {self.target.bool_const(value)};")
        return name

    def load_truth(self, memory: Ref) -> Ref:
        """Read a truth value."""
        return self.target.emit("int", memory)

    def store_truth(self, memory: Ref, value: Ref) -> None:
        """Write a truth value."""
        self._line(f"{memory} = {value};")

    # indices

    def _index(self, expression: str) -> NativeIndex:
        return NativeIndex(self, self.target.emit("int64_t", expression))

    def index_operation(self, operation: str, i: Any, j: Any) -> NativeIndex:
        """Write the sum, difference or product of indices."""
        return self._index(f"{_text(i)} {_OPERATORS[operation]} {_text(j)}")

    def constant_table(self, values: Sequence[int]) -> Ref:
        """Give a constant array of indices."""
        name = self._name("table")
        listed = ", ".join(str(value) for value in values) or "0"
        self._line(f"static const int32_t {name}[] = {{{listed}}};")
        return name

    def lookup_index(self, table: Ref, place: Any) -> NativeIndex:
        """Read a constant index."""
        return self._index(f"{table}[{_text(place)}]")

    # loops

    def counted_loop(
        self, start: Any, stop: Any, *, down: bool, independent: bool = False
    ) -> Iterator[NativeIndex]:
        """Write a loop over indices."""
        k, first, end = self._name("k"), _text(start), _text(stop)
        if down:
            self._line(f"for (int64_t {k} = {end} - 1; {k} >= {first}; --{k}) {{")
        else:
            self._line(f"for (int64_t {k} = {first}; {k} < {end}; ++{k}) {{")
        yield NativeIndex(self, k)
        self._line("}")

    def repeat(self, limit: int) -> Iterator[None]:
        """Write a loop without end."""
        counter = self._name("k")
        self._exits.append((counter, limit))
        self._line(f"for (int64_t {counter} = 0;; ++{counter}) {{")
        yield
        self._line("}")
        self._exits.pop()

    def leave_unless(self, condition: Ref) -> None:
        """Write the end of the innermost `repeat`."""
        counter, limit = self._exits[-1]
        self._line(f"if (!{condition} || {counter} >= {limit}) break;")


def _text(index: Any) -> str:
    return str(index) if isinstance(index, int) else str(index.ref)
