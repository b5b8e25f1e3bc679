"""Memory, indices and loops as LLVM assembly.

Counters and small memory are stack slots; LLVM turns them into registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tiburon.native.llvm_target import LlvmTarget
from tiburon.native.machine import NativeIndex, NativeMachine, Slots
from tiburon.native.target import Ref


class LlvmMachine(NativeMachine):
    """Write LLVM assembly.

    Attributes:
        stack_lines: Stack slots; they stand at the start of the function.
        globals: Constant tables; they stand outside of the function.
    """

    target: LlvmTarget

    def __init__(
        self,
        target: LlvmTarget,
        function: str,
        stack_lines: list[str],
        *,
        spelled_out: bool = False,
        labels: str = "",
    ) -> None:
        """Start without memory or loops.

        Args:
            target: Where instructions go.
            function: Name of the function, which names of tables begin with.
            stack_lines: Where stack slots go.
            spelled_out: See `NativeMachine`.
            labels: How labels begin; must differ between machines in one function.
        """
        super().__init__(target, spelled_out=spelled_out)
        self.stack_lines = stack_lines
        self.globals: list[str] = []
        self._function = function
        self._prefix = labels
        self._labels = 0
        self._exits: list[tuple[Ref, int, str]] = []

    def _line(self, text: str) -> None:
        self.target.lines.append(f"  {text}")

    def _label(self, name: str) -> None:
        self.target.lines.append(f"{name}:")

    def _new_labels(self, *names: str) -> list[str]:
        self._labels += 1
        return [f"{self._prefix}{name}{self._labels}" for name in names]

    def _stack(self, kind: str) -> Ref:
        name = f"%stack{len(self.stack_lines)}"
        self.stack_lines.append(f"  {name} = alloca {kind}")
        return name

    # memory

    def slots(self, size: int) -> Slots:
        """Give a row of floats on the stack."""
        return Slots(self._stack(f"[{max(size, 1)} x {self.target.float_type}]"))

    def _address(self, slots: Slots, place: Any) -> Ref:
        kind, index = self.target.float_type, _text(place + slots.offset)
        return self.target.emit(f"getelementptr inbounds {kind}, ptr {slots.address}, i64 {index}")

    def load_slot(self, slots: Slots, place: Any) -> Ref:
        """Read a float."""
        address = self._address(slots, place)
        return self.target.emit(f"load {self.target.float_type}, ptr {address}")

    def store_slot(self, slots: Slots, place: Any, value: Ref) -> None:
        """Write a float."""
        address = self._address(slots, place)
        self._line(f"store {self.target.float_type} {value}, ptr {address}")

    def fetch(self, address: Ref, place: Ref) -> Ref:
        """Read a float from a row outside, in lanes one after the other."""
        target = self.target
        if target.lanes == 1:
            return self._fetch_one(address, place)
        kind, found = target.float_type, "poison"
        for lane in range(target.lanes):
            one, k = (
                target.emit(f"extractelement {kind} {row}, i32 {lane}") for row in (address, place)
            )
            value = self._fetch_one(one, k)
            found = target.emit(f"insertelement {kind} {found}, double {value}, i32 {lane}")
        return found

    def _fetch_one(self, address: Ref, place: Ref) -> Ref:
        target = self.target
        start = target.emit(f"inttoptr i64 {target.emit(f'fptoui double {address} to i64')} to ptr")
        index = target.emit(f"fptosi double {place} to i64")
        where = target.emit(f"getelementptr inbounds double, ptr {start}, i64 {index}")
        return target.emit(f"load double, ptr {where}")

    def truth_memory(self, value: bool) -> Ref:
        """Give a place for one truth value."""
        memory = self._stack(self.target.bool_type)
        self.store_truth(memory, self.target.bool_const(value))
        return memory

    def load_truth(self, memory: Ref) -> Ref:
        """Read a truth value."""
        return self.target.emit(f"load {self.target.bool_type}, ptr {memory}")

    def store_truth(self, memory: Ref, value: Ref) -> None:
        """Write a truth value."""
        self._line(f"store {self.target.bool_type} {value}, ptr {memory}")

    # indices

    def _index(self, instruction: str) -> NativeIndex:
        return NativeIndex(self, self.target.emit(instruction))

    def index_operation(self, operation: str, i: Any, j: Any) -> NativeIndex:
        """Write the sum, difference or product of indices."""
        return self._index(f"{operation} nsw i64 {_text(i)}, {_text(j)}")

    def _index_memory(self, value: Any) -> Ref:
        """Give a place for one index."""
        memory = self._stack("i64")
        self._store_index(memory, value)
        return memory

    def _load_index(self, memory: Ref) -> NativeIndex:
        """Read an index."""
        return self._index(f"load i64, ptr {memory}")

    def _store_index(self, memory: Ref, value: Any) -> None:
        """Write an index."""
        self._line(f"store i64 {_text(value)}, ptr {memory}")

    def constant_table(self, values: Sequence[int]) -> Ref:
        """Give a row of constant indices."""
        name = f"@{self._function}.table{len(self.globals)}"
        listed = ", ".join(f"i32 {value}" for value in values)
        self.globals.append(f"{name} = internal constant [{len(values)} x i32] [{listed}]")
        return name

    def lookup_index(self, table: Ref, place: Any) -> NativeIndex:
        """Read a constant index."""
        address = self.target.emit(f"getelementptr inbounds i32, ptr {table}, i64 {_text(place)}")
        return self._index(f"sext i32 {self.target.emit(f'load i32, ptr {address}')} to i64")

    # loops

    def counted_loop(
        self, start: Any, stop: Any, *, down: bool, independent: bool = False
    ) -> Iterator[NativeIndex]:
        """Write a loop over indices."""
        head, body, done = self._new_labels("head", "body", "done")
        counter = self._index_memory(stop if down else start)
        self._line(f"br label %{head}")
        self._label(head)
        index = self._load_index(counter)
        compare = f"icmp sgt i64 {index.ref}, {_text(start)}"
        if not down:
            compare = f"icmp slt i64 {index.ref}, {_text(stop)}"
        self._line(f"br i1 {self.target.emit(compare)}, label %{body}, label %{done}")
        self._label(body)
        if down:
            index = self.index_operation("sub", index, 1)
        yield index
        self._store_index(counter, index if down else self.index_operation("add", index, 1))
        # lanes are full already where every number is a vector
        wide = independent and self.target.lanes == 1
        self._line(f"br label %{head}{self.target.vector_loop() if wide else ''}")
        self._label(done)

    def repeat(self, limit: int) -> Iterator[None]:
        """Write a loop without end."""
        head, done = self._new_labels("head", "done")
        counter = self._index_memory(0)
        self._exits.append((counter, limit, done))
        self._line(f"br label %{head}")
        self._label(head)
        yield
        self._store_index(counter, self._load_index(counter) + 1)
        self._line(f"br label %{head}")
        self._label(done)
        self._exits.pop()

    def leave_unless(self, condition: Ref) -> None:
        """Write the end of the innermost `repeat`."""
        counter, limit, done = self._exits[-1]
        (body,) = self._new_labels("body")
        target = self.target
        some = condition
        if target.lanes > 1:
            mask = target.emit(f"bitcast {target.bool_type} {condition} to i{target.lanes}")
            some = target.emit(f"icmp ne i{target.lanes} {mask}, 0")
        below = target.emit(f"icmp slt i64 {self._load_index(counter).ref}, {limit}")
        go_on = target.emit(f"and i1 {some}, {below}")
        self._line(f"br i1 {go_on}, label %{body}, label %{done}")
        self._label(body)


def _text(index: Any) -> str:
    return str(index) if isinstance(index, int) else str(index.ref)
