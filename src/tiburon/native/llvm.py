"""LLVM assembly text: instructions, memory, loops and small shared fragments.

`LlvmTarget` writes arithmetic for one value or for 2, 4 or 8 lanes. `LlvmMachine` adds memory,
indices and loops; counters and small arrays are stack slots that LLVM promotes to registers.
"""

# ruff: noqa: D102 -- the protocol `Target` documents each instruction

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from tiburon.errors import CompileError
from tiburon.native.target import LaneIndex, NativeIndex, NativeMachine, Ref, Slots, SpacedIndex

_VECTOR_LOOP = ("!100 = distinct !{!100, !101}", '!101 = !{!"llvm.loop.vectorize.enable", i1 true}')
"""Requests vectorization, which is off elsewhere; shared by all loops that request it."""

_UNLIKELY = '!102 = !{!"branch_weights", i32 1, i32 2000}'
"""Weights of a branch whose first destination is rarely taken."""


ALIGNED_FLOATS = 8
"""Size of an array on the stack from which on it starts at a cache line."""


class LlvmTarget:
    """Write LLVM assembly; see `Target` for the meaning of the instructions.

    No instruction has a fast-math flag, so LLVM may neither fuse, split nor reorder them.

    Attributes:
        lanes: Lanes per value; 1 means scalars.
        fused: Whether `fma` is a hardware instruction; otherwise it is a product and a sum.
        lines: The instructions so far, one per line, indented, without a line end.
        float_type: LLVM type of a float value ("double" or "<4 x double>").
        int_type: LLVM type of an int value.
        bool_type: LLVM type of a bool value.
    """

    def __init__(self, lanes: int = 1, *, fused: bool = True, prefix: str = "t") -> None:
        """Start with no instructions.

        Args:
            lanes: Lanes per value.
            fused: Use the hardware's fused multiply-add.
            prefix: Prefix of the names of new values; must be unique in the function.
        """
        self.lanes = lanes
        self.fused = fused
        self.lines: list[str] = []
        self.float_type = self._of("double")
        self.int_type = self._of("i64")
        self.bool_type = self._of("i1")
        self._suffix = "f64" if lanes == 1 else f"v{lanes}f64"
        self._prefix = prefix
        self._count = 0
        self._intrinsics: dict[str, int] = {}
        self._has_vector_loops = False
        self._has_rare_code = False
        self._tables: dict[str, str] = {}

    def _of(self, scalar: str) -> str:
        return scalar if self.lanes == 1 else f"<{self.lanes} x {scalar}>"

    def _splat(self, scalar: str, text: str) -> Ref:
        return text if self.lanes == 1 else f"splat ({scalar} {text})"

    def emit(self, instruction: str) -> Ref:
        """Append any instruction that has a result, under a new name.

        Args:
            instruction: The text to the right of the equals sign.

        Returns:
            The new name.
        """
        self._count += 1
        name = f"%{self._prefix}{self._count}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def declarations(self) -> list[str]:
        """Return the declarations of everything used so far, one line each, sorted."""
        loops = list(_VECTOR_LOOP) if self._has_vector_loops else []
        weights = [_UNLIKELY] if self._has_rare_code else []
        return [*loops, *weights, *self._tables.values()] + [
            f"declare {self.float_type} @llvm.{name}.{self._suffix}"
            f"({', '.join([self.float_type] * arity)})"
            for name, arity in sorted(self._intrinsics.items())
        ]

    def table(self, values: Sequence[int]) -> Ref:
        """Return a table of constant indices; equal tables are shared."""
        listed = ", ".join(f"i32 {value}" for value in values)
        # named by its content, so that functions of one module share it
        name = f"@table_{hashlib.blake2b(listed.encode(), digest_size=12).hexdigest()}"
        self._tables[name] = f"{name} = internal constant [{len(values)} x i32] [{listed}]"
        return name

    def vector_loop(self) -> str:
        """Return the suffix of the back edge of a loop that is to be vectorized."""
        self._has_vector_loops = True
        return ", !llvm.loop !100"

    def seldom(self) -> str:
        """Return the suffix of a branch whose first destination is rarely taken."""
        self._has_rare_code = True
        return ", !prof !102"

    def _intrinsic(self, name: str, *arguments: Ref) -> Ref:
        self._intrinsics[name] = len(arguments)
        listed = ", ".join(f"{self.float_type} {a}" for a in arguments)
        return self.emit(f"call {self.float_type} @llvm.{name}.{self._suffix}({listed})")

    def _float(self, operation: str, a: Ref, b: Ref) -> Ref:
        return self.emit(f"{operation} {self.float_type} {a}, {b}")

    def _int(self, operation: str, i: Ref, j: Ref) -> Ref:
        return self.emit(f"{operation} {self.int_type} {i}, {j}")

    def _bool(self, operation: str, p: Ref, r: Ref) -> Ref:
        return self.emit(f"{operation} {self.bool_type} {p}, {r}")

    def _choose(self, kind: str, condition: Ref, a: Ref, b: Ref) -> Ref:
        return self.emit(f"select {self.bool_type} {condition}, {kind} {a}, {kind} {b}")

    # float64 -> float64

    def const(self, value: float) -> Ref:
        if value != value:
            value = float("nan")
        (pattern,) = struct.unpack("<Q", struct.pack("<d", value))
        return self._splat("double", f"0x{pattern:016X}")

    def add(self, a: Ref, b: Ref) -> Ref:
        return self._float("fadd", a, b)

    def sub(self, a: Ref, b: Ref) -> Ref:
        return self._float("fsub", a, b)

    def mul(self, a: Ref, b: Ref) -> Ref:
        return self._float("fmul", a, b)

    def div(self, a: Ref, b: Ref) -> Ref:
        return self._float("fdiv", a, b)

    def neg(self, a: Ref) -> Ref:
        return self.emit(f"fneg {self.float_type} {a}")

    def fma(self, a: Ref, b: Ref, c: Ref) -> Ref:
        return self._intrinsic("fma", a, b, c) if self.fused else self.add(self.mul(a, b), c)

    def sqrt(self, a: Ref) -> Ref:
        return self._intrinsic("sqrt", a)

    def abs(self, a: Ref) -> Ref:
        return self._intrinsic("fabs", a)

    def floor(self, a: Ref) -> Ref:
        return self._intrinsic("floor", a)

    def copysign(self, magnitude: Ref, sign: Ref) -> Ref:
        return self._intrinsic("copysign", magnitude, sign)

    # float64 -> bool

    def less(self, a: Ref, b: Ref) -> Ref:
        return self._float("fcmp olt", a, b)

    def less_equal(self, a: Ref, b: Ref) -> Ref:
        return self._float("fcmp ole", a, b)

    def equal(self, a: Ref, b: Ref) -> Ref:
        return self._float("fcmp oeq", a, b)

    def is_nan(self, a: Ref) -> Ref:
        return self._float("fcmp uno", a, a)

    # bool -> bool

    def bool_const(self, value: bool) -> Ref:
        return self._splat("i1", "true" if value else "false")

    def logical_and(self, p: Ref, r: Ref) -> Ref:
        return self._bool("and", p, r)

    def logical_or(self, p: Ref, r: Ref) -> Ref:
        return self._bool("or", p, r)

    def logical_xor(self, p: Ref, r: Ref) -> Ref:
        return self._bool("xor", p, r)

    def logical_not(self, p: Ref) -> Ref:
        return self._bool("xor", p, self.bool_const(True))

    # selection

    def select(self, condition: Ref, a: Ref, b: Ref) -> Ref:
        return self._choose(self.float_type, condition, a, b)

    def iselect(self, condition: Ref, i: Ref, j: Ref) -> Ref:
        return self._choose(self.int_type, condition, i, j)

    # int64

    def bits(self, a: Ref) -> Ref:
        return self.emit(f"bitcast {self.float_type} {a} to {self.int_type}")

    def double(self, i: Ref) -> Ref:
        return self.emit(f"bitcast {self.int_type} {i} to {self.float_type}")

    def int_const(self, value: int) -> Ref:
        return self._splat("i64", str(value - (1 << 64) if value >= 1 << 63 else value))

    def iadd(self, i: Ref, j: Ref) -> Ref:
        return self._int("add", i, j)

    def isub(self, i: Ref, j: Ref) -> Ref:
        return self._int("sub", i, j)

    def iand(self, i: Ref, j: Ref) -> Ref:
        return self._int("and", i, j)

    def ior(self, i: Ref, j: Ref) -> Ref:
        return self._int("or", i, j)

    def ixor(self, i: Ref, j: Ref) -> Ref:
        return self._int("xor", i, j)

    def shl(self, i: Ref, count: int) -> Ref:
        return self._int("shl", i, self.int_const(count))

    def lshr(self, i: Ref, count: int) -> Ref:
        return self._int("lshr", i, self.int_const(count))

    def ashr(self, i: Ref, count: int) -> Ref:
        return self._int("ashr", i, self.int_const(count))

    def iequal(self, i: Ref, j: Ref) -> Ref:
        return self._int("icmp eq", i, j)


MAX_INDEX_LANES = 8
"""Indices that run abreast in one vector."""


class LlvmMachine(NativeMachine):
    """Write LLVM assembly.

    Attributes:
        stack_lines: Stack slots, for the start of the function.
        globals: Constant tables, outside of the function.
    """

    target: LlvmTarget

    def __init__(
        self,
        target: LlvmTarget,
        function: str,
        stack_lines: list[str],
        *,
        unrolled: bool = False,
        labels: str = "",
    ) -> None:
        """Start without memory or loops.

        Args:
            target: Receives the instructions.
            function: Name of the function, the prefix of the names of its tables.
            stack_lines: Receives the stack slots.
            unrolled: See `NativeMachine`.
            labels: Prefix of labels; must differ between machines in one function.
        """
        super().__init__(target, unrolled=unrolled)
        self.stack_lines = stack_lines
        self.globals: list[str] = []
        self._function = function
        self._prefix = labels
        self._labels = 0
        self._exits: list[tuple[Ref, int, str]] = []
        # targets of bodies that run abreast, and how many indices the present one computes
        self.vectors: list[LlvmTarget] = []
        self._abreast = 0

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
        """Return an array of floats on the stack."""
        assert not self._abreast, "memory is taken outside of bodies that run abreast"
        # vectors of aligned rows do not reach across cache lines
        align = ", align 64" if size >= ALIGNED_FLOATS else ""
        return Slots(self._stack(f"[{max(size, 1)} x {self.target.float_type}]{align}"))

    def address(self, slots: Slots, place: Any) -> Ref:
        """Emit the address of a float."""
        kind, index = self.target.float_type, index_text(place + slots.offset)
        return self.target.emit(f"getelementptr inbounds {kind}, ptr {slots.address}, i64 {index}")

    def _lane_addresses(self, slots: Slots, place: LaneIndex) -> list[Ref]:
        """Return the address of each lane's float, at an index of its own."""
        found = []
        for lane, index in enumerate(place.lanes):
            number = (index + slots.offset) * self.target.lanes + lane
            text = f"getelementptr inbounds double, ptr {slots.address}, i64 {index_text(number)}"
            found.append(self.target.emit(text))
        return found

    # indices that run abreast: floats of one row are the lanes of a vector

    def abreast(self, count: int) -> Iterator[Any]:
        """Write the body for as many indices at once as vectors have lanes."""
        if self.target.lanes > 1 or self.unrolled or count < 2:
            yield from self.loop(0, count)
            return
        outside = self.target
        for first in range(0, count, MAX_INDEX_LANES):
            self._abreast = min(MAX_INDEX_LANES, count - first)
            width = 1 << (self._abreast - 1).bit_length()
            if width == 1:
                self._abreast = 0
                yield first
                continue
            prefix = f"abreast{self._prefix}{len(self.vectors)}_"
            self.target = LlvmTarget(width, fused=outside.fused, prefix=prefix)
            self.target.lines = outside.lines
            self.vectors.append(self.target)
            yield SpacedIndex(first, 1)
            self.target, self._abreast = outside, 0

    def _scalar_address(self, slots: Slots, place: Any) -> Ref:
        index = index_text(place + slots.offset)
        return self.target.emit(f"getelementptr inbounds double, ptr {slots.address}, i64 {index}")

    def _lane_places(self, place: Any) -> list[Any]:
        if isinstance(place, LaneIndex):
            return list(place.lanes)
        return [place.lane(k) for k in range(self._abreast)]

    def _load_abreast(self, slots: Slots, place: Any) -> Ref:
        """Read floats of a row into lanes: one for all, adjacent ones, or each by itself."""
        target = self.target
        if not isinstance(place, LaneIndex | SpacedIndex):
            return splat(
                target, target.emit(f"load double, ptr {self._scalar_address(slots, place)}")
            )
        if isinstance(place, SpacedIndex) and place.step == 1:
            return self._load_adjacent(slots, place.first)
        return pack(
            target,
            [
                target.emit(f"load double, ptr {self._scalar_address(slots, one)}")
                for one in self._lane_places(place)
            ],
        )

    def _parts(self) -> list[tuple[int, int]]:
        """Return first lane and size of the parts in which adjacent floats are moved."""
        found, first, left = [], 0, self._abreast
        while left:
            size = 1 << (left.bit_length() - 1)
            found.append((first, size))
            first, left = first + size, left - size
        return found

    def _load_adjacent(self, slots: Slots, first: Any) -> Ref:
        """Read adjacent floats into lanes; the last one fills the rest."""
        target, lanes = self.target, self.target.lanes
        vector = ""
        for start, size in self._parts():
            kind = f"<{size} x double>"
            address = self._scalar_address(slots, first + start)
            part = target.emit(f"load {kind}, ptr {address}, align 8")
            if size == lanes:
                return part
            places = ", ".join(f"i32 {min(k, size - 1)}" for k in range(lanes))
            part = target.emit(
                f"shufflevector {kind} {part}, {kind} poison, <{lanes} x i32> <{places}>"
            )
            if vector:
                wide = target.float_type
                places = ", ".join(
                    f"i32 {k if k < start else k - start + lanes}" for k in range(lanes)
                )
                part = target.emit(
                    f"shufflevector {wide} {vector}, {wide} {part}, <{lanes} x i32> <{places}>"
                )
            vector = part
        return vector

    def _store_abreast(self, slots: Slots, place: Any, value: Ref) -> None:
        assert isinstance(place, LaneIndex | SpacedIndex), "indices write floats of their own"
        if isinstance(place, SpacedIndex) and place.step == 1:
            wide, lanes = self.target.float_type, self.target.lanes
            for start, size in self._parts():
                part, kind = value, f"<{size} x double>"
                if size < lanes:
                    places = ", ".join(f"i32 {start + k}" for k in range(size))
                    part = self.target.emit(
                        f"shufflevector {wide} {value}, {wide} poison, <{size} x i32> <{places}>"
                    )
                address = self._scalar_address(slots, place.first + start)
                self._line(f"store {kind} {part}, ptr {address}, align 8")
            return
        for lane, one in enumerate(self._lane_places(place)):
            address = self._scalar_address(slots, one)
            self._line(f"store double {unpack(self.target, value, lane)}, ptr {address}")

    def load_slot(self, slots: Slots, place: Any) -> Ref:
        """Read a float."""
        if self._abreast:
            return self._load_abreast(slots, place)
        if isinstance(place, LaneIndex):
            addresses = self._lane_addresses(slots, place)
            return pack(self.target, [self.target.emit(f"load double, ptr {a}") for a in addresses])
        address = self.address(slots, place)
        return self.target.emit(f"load {self.target.float_type}, ptr {address}")

    def store_slot(self, slots: Slots, place: Any, value: Ref) -> None:
        """Write a float."""
        if self._abreast:
            self._store_abreast(slots, place, value)
            return
        if isinstance(place, LaneIndex):
            for lane, address in enumerate(self._lane_addresses(slots, place)):
                self._line(f"store double {unpack(self.target, value, lane)}, ptr {address}")
            return
        address = self.address(slots, place)
        self._line(f"store {self.target.float_type} {value}, ptr {address}")

    def fetch(self, address: Ref, place: Ref) -> Ref:
        """Read a float from an external row, lane by lane."""
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

    def call(self, address: Ref, memory: Any, number: int, size: int) -> None:
        """Call an external function with a row of floats; one case at a time."""
        target = self.target
        if target.lanes > 1:
            raise CompileError(
                "kernels that exchange messages compute one case at a time, got a batch; call them "
                "with one state"
            )
        start = target.emit(f"inttoptr i64 {target.emit(f'fptoui double {address} to i64')} to ptr")
        row = self.address(memory, 0)
        self._line(f"call void {start}(ptr {row}, i64 {number}, i64 {size})")

    def truth_memory(self, value: bool) -> Ref:
        """Return memory for one bool."""
        memory = self._stack(self.target.bool_type)
        self.store_truth(memory, self.target.bool_const(value))
        return memory

    def load_truth(self, memory: Ref) -> Ref:
        """Read a bool."""
        return self.target.emit(f"load {self.target.bool_type}, ptr {memory}")

    def store_truth(self, memory: Ref, value: Ref) -> None:
        """Write a bool."""
        self._line(f"store {self.target.bool_type} {value}, ptr {memory}")

    # indices

    def _index(self, instruction: str) -> NativeIndex:
        return NativeIndex(self, self.target.emit(instruction))

    def index_operation(self, operation: str, i: Any, j: Any) -> NativeIndex:
        """Write the sum, difference or product of indices."""
        return self._index(f"{operation} nsw i64 {index_text(i)}, {index_text(j)}")

    def _index_memory(self, value: Any) -> Ref:
        """Return memory for one index."""
        memory = self._stack("i64")
        self._store_index(memory, value)
        return memory

    def _load_index(self, memory: Ref) -> NativeIndex:
        """Read an index."""
        return self._index(f"load i64, ptr {memory}")

    def _store_index(self, memory: Ref, value: Any) -> None:
        """Write an index."""
        self._line(f"store i64 {index_text(value)}, ptr {memory}")

    def constant_table(self, values: Sequence[int]) -> Ref:
        """Return an array of constant indices."""
        name = f"@{self._function}.table{len(self.globals)}"
        listed = ", ".join(f"i32 {value}" for value in values)
        self.globals.append(f"{name} = internal constant [{len(values)} x i32] [{listed}]")
        return name

    def lookup_index(self, table: Ref, place: Any) -> Any:
        """Read a constant index."""
        if isinstance(place, LaneIndex | SpacedIndex):
            lanes = place.lanes if isinstance(place, LaneIndex) else self._lane_places(place)
            return LaneIndex([self.lookup_index(table, lane) for lane in lanes])
        address = self.target.emit(
            f"getelementptr inbounds i32, ptr {table}, i64 {index_text(place)}"
        )
        return self._index(f"sext i32 {self.target.emit(f'load i32, ptr {address}')} to i64")

    def index(self, value: Ref) -> Any:
        """Convert a whole number to an index, or to one for each lane."""
        target = self.target
        whole = target.emit(f"fptosi {target.float_type} {value} to {target.int_type}")
        if target.lanes == 1:
            return NativeIndex(self, whole)
        kind = target.int_type
        return LaneIndex(
            [self._index(f"extractelement {kind} {whole}, i64 {k}") for k in range(target.lanes)]
        )

    def number_of_index(self, place: Any) -> Ref:
        """Convert an index to a float, the same in all lanes but of indices that run abreast."""
        if isinstance(place, SpacedIndex):
            steps = [place.step * min(k, self._abreast - 1) for k in range(self.target.lanes)]
            listed = ", ".join(f"double {float(step)}" for step in steps)
            return self.target.add(self.number(place.first), f"<{listed}>")
        value = self.target.emit(f"sitofp i64 {place.ref} to double")
        if self.target.lanes == 1:
            return value
        return splat(self.target, value)

    def largest(self, value: Ref, limit: int) -> NativeIndex:
        """Convert the largest lane of a whole number to an index."""
        target, width = self.target, self.target.lanes
        while width > 1:
            # the larger ones of the two halves
            kind, width = f"<{width} x double>", width // 2
            halves = [
                target.emit(
                    f"shufflevector {kind} {value}, {kind} poison, <{width} x i32> "
                    f"<{', '.join(f'i32 {k}' for k in range(start, start + width))}>"
                )
                for start in (0, width)
            ]
            half = f"<{width} x double>"
            less = target.emit(f"fcmp olt {half} {halves[0]}, {halves[1]}")
            value = target.emit(
                f"select <{width} x i1> {less}, {half} {halves[1]}, {half} {halves[0]}"
            )
        if target.lanes > 1:
            value = target.emit(f"extractelement <1 x double> {value}, i64 0")
        return self._index(f"fptosi double {value} to i64")

    @property
    def is_wide(self) -> bool:
        """Whether values are vectors of several cases."""
        return self.target.lanes > 1

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
        compare = f"icmp sgt i64 {index.ref}, {index_text(start)}"
        if not down:
            compare = f"icmp slt i64 {index.ref}, {index_text(stop)}"
        self._line(f"br i1 {self.target.emit(compare)}, label %{body}, label %{done}")
        self._label(body)
        if down:
            index = self.index_operation("sub", index, 1)
        yield index
        self._store_index(counter, index if down else self.index_operation("add", index, 1))
        # with several lanes every value is a vector already
        wide = independent and self.target.lanes == 1
        self._line(f"br label %{head}{self.target.vector_loop() if wide else ''}")
        self._label(done)

    def repeat(self, limit: int) -> Iterator[None]:
        """Write an endless loop."""
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

    def branch(self, condition: Ref, *, seldom: bool = False) -> Iterator[None]:
        """Write a block that is skipped where the condition holds in no lane."""
        body, done = self._new_labels("body", "done")
        weights = self.target.seldom() if seldom else ""
        self._line(f"br i1 {self._some(condition)}, label %{body}, label %{done}{weights}")
        self._label(body)
        yield
        self._line(f"br label %{done}")
        self._label(done)

    def skip_if(self, condition: Ref) -> Iterator[None]:
        """Write a block that is skipped where a single truth value holds."""
        body, done = self._new_labels("body", "done")
        self._line(f"br i1 {condition}, label %{done}, label %{body}")
        self._label(body)
        yield
        self._line(f"br label %{done}")
        self._label(done)

    def _some(self, condition: Ref) -> Ref:
        """Return whether a condition holds in some lane."""
        target = self.target
        if target.lanes == 1:
            return condition
        mask = target.emit(f"bitcast {target.bool_type} {condition} to i{target.lanes}")
        if 0 < self._abreast < target.lanes:
            mask = target.emit(f"and i{target.lanes} {mask}, {(1 << self._abreast) - 1}")
        return target.emit(f"icmp ne i{target.lanes} {mask}, 0")

    def leave_unless(self, condition: Ref) -> None:
        """Write the exit of the innermost `repeat`."""
        counter, limit, done = self._exits[-1]
        (body,) = self._new_labels("body")
        target = self.target
        some = self._some(condition)
        below = target.emit(f"icmp slt i64 {self._load_index(counter).ref}, {limit}")
        go_on = target.emit(f"and i1 {some}, {below}")
        self._line(f"br i1 {go_on}, label %{body}, label %{done}")
        self._label(body)


def index_text(index: Any) -> str:
    """Return an index as an operand."""
    return str(index) if isinstance(index, int) else str(index.ref)


def pack(target: LlvmTarget, scalars: Sequence[Ref]) -> Ref:
    """Emit a vector of scalars; the last one is repeated to fill it."""
    vector = "poison"
    for lane in range(target.lanes):
        scalar = scalars[min(lane, len(scalars) - 1)]
        vector = target.emit(
            f"insertelement {target.float_type} {vector}, double {scalar}, i64 {lane}"
        )
    return vector


def splat(target: LlvmTarget, scalar: Ref) -> Ref:
    """Emit a vector with the same scalar in all lanes."""
    kind, lanes = target.float_type, target.lanes
    one = target.emit(f"insertelement {kind} poison, double {scalar}, i64 0")
    return target.emit(
        f"shufflevector {kind} {one}, {kind} poison, <{lanes} x i32> zeroinitializer"
    )


def unpack(target: LlvmTarget, vector: Ref, lane: int) -> Ref:
    """Emit one lane of a vector."""
    return target.emit(f"extractelement {target.float_type} {vector}, i64 {lane}")


def element(target: LlvmTarget, kind: str, pointer: Ref, place: int | Ref) -> Ref:
    """Emit the address of an element of an array."""
    return target.emit(f"getelementptr {kind}, ptr {pointer}, i64 {place}")


def load(target: LlvmTarget, kind: str, pointer: Ref, place: int | Ref = 0) -> Ref:
    """Emit the load of an element of an array."""
    return target.emit(f"load {kind}, ptr {element(target, kind, pointer, place)}, align 8")


def add_to_sums(target: LlvmTarget, sums: Sequence[Ref], values: Sequence[Ref]) -> list[Ref]:
    """Emit additions of values to partial sums, round-robin."""
    result = list(sums)
    for place, value in enumerate(values):
        if len(result) < PARTIAL_SUMS:
            result.append(value)
        else:
            slot = place % len(result)
            result[slot] = target.add(result[slot], value)
    return result


def pairwise_sum(target: LlvmTarget, values: Sequence[Ref]) -> Ref:
    """Emit a sum whose dependency chain is short; 0 for no values."""
    left = list(values)
    while len(left) > 1:
        left = [*map(target.add, left[::2], left[1::2]), *left[len(left) & ~1 :]]
    return left[0] if left else target.const(0.0)


PARTIAL_SUMS = 4
"""Independent chains of additions in the check for non-finite values."""


def function_attributes(lanes: int) -> str:
    """Return the attributes of a function on vectors of some width.

    With "no-builtins" LLVM does not turn loops and runs of stores into calls of `memcpy` or
    `memset`: loaded code cannot reach functions outside of its memory block. The stack is aligned
    to whole vectors: LLVM finds out too late that registers are spilled to do so by itself, and
    every spilled vector of 64 bytes would lie across two cache lines.
    """
    if lanes == 1:
        return 'nounwind "no-builtins"'
    width = 64 * lanes
    widths = f'"min-legal-vector-width"="{width}" "prefer-vector-width"="{width}"'
    return f'alignstack({max(8 * lanes, 16)}) nounwind "no-builtins" {widths}'
