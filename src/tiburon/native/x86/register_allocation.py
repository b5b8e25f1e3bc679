"""Register allocation and emission: x86-64 assembly with AVX2 and FMA, AT&T syntax.

When all registers are occupied, the value with the farthest next use is evicted (Belady 1966, "A
study of replacement algorithms for a virtual-storage computer"); a value that is in memory already
needs no spill. Nearly every instruction accepts one memory operand, so values with a single
remaining use are not loaded first.

Thousands of straight-line instructions exceed the cache of decoded instructions, so they are
fetched and decoded again for every group of cases, and their size limits the throughput. Addressing
with one-byte displacements makes them shorter: memory operands are in a few tables of vectors, and
free general-purpose registers point to the middle of 256-byte pages of these tables, reassigned
like a cache of pages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tiburon.native.target import Ref
from tiburon.native.x86.instruction import X86Instruction
from tiburon.record import record

_MEMORY_OPERAND = re.compile(r"(\d+)\((%\w+)\)")
# a one-byte displacement reaches from 128 bytes below a register to 127 above
_PAGE_BYTES = 256
_PAGE_MIDDLE = 128
# setting a register takes 7 bytes, a short displacement saves 2 or 3
_MIN_USES = 3
_USE_WINDOW = 80

Page = tuple[str, int]
"""Register that points to a table, and index of a 256-byte page in it."""


def shorten_addresses(lines: Sequence[str], registers: Sequence[str]) -> list[str]:
    """Rewrite memory operands relative to registers that point near them.

    Args:
        lines: Instructions with at most one memory operand each, at a displacement from a base
            register that they do not change.
        registers: Free general-purpose registers.

    Returns:
        The instructions, with `leaq` instructions that set the registers.
    """
    found = [_MEMORY_OPERAND.search(line) for line in lines]
    pages = [(m[2], int(m[1]) // _PAGE_BYTES) for m in found if m is not None]
    following = _next_uses(pages)
    resident: dict[Page, str] = {}
    next_use: dict[Page, int] = {}
    free = list(registers)
    written: list[str] = []
    use = 0
    for line, operand in zip(lines, found, strict=True):
        if operand is None:
            written.append(line)
            continue
        page = pages[use]
        if page not in resident and _is_used_often(following, use):
            if not free and resident:
                idle = max(resident, key=lambda other: next_use[other])
                # a page with an earlier next use stays
                if next_use[idle] > following[use]:
                    free.append(resident.pop(idle))
            if free:
                resident[page] = free.pop()
                middle = page[1] * _PAGE_BYTES + _PAGE_MIDDLE
                written.append(f"leaq {middle}({page[0]}), {resident[page]}")
        if page in resident:
            next_use[page] = following[use]
            displacement = int(operand[1]) - page[1] * _PAGE_BYTES - _PAGE_MIDDLE
            short = f"{displacement}({resident[page]})"
            line = f"{line[: operand.start()]}{short}{line[operand.end() :]}"
        written.append(line)
        use += 1
    return written


def _next_uses(pages: Sequence[Page]) -> list[int]:
    """Return for each use of a page the index of its next use."""
    later: dict[Page, int] = {}
    following = [0] * len(pages)
    never = 2 * len(pages) + _USE_WINDOW
    for use in range(len(pages) - 1, -1, -1):
        following[use] = later.get(pages[use], never)
        later[pages[use]] = use
    return following


def _is_used_often(following: Sequence[int], use: int) -> bool:
    """Return whether a page has enough uses in the window."""
    last = use
    for _ in range(_MIN_USES - 1):
        if last >= len(following):
            return False
        last = following[last]
    return last <= use + _USE_WINDOW


REGISTERS = 16
VECTOR_BYTES = 32
FRAME_REGISTER = "%rdi"
"""Holds the address of the frame: the array of spilled values, inputs and results."""

_NEVER = 1 << 60
# a value used again within this many instructions is loaded into a register
_NEAR_USES = 6
# evicting costs a store unless the value is in memory: weight of the distance of such values
_IN_MEMORY_WEIGHT = 1.5

# mnemonic without the suffix for its width, and whether the operands commute
_ARITHMETIC = {
    "add": ("vadd", True),
    "sub": ("vsub", False),
    "mul": ("vmul", True),
    "div": ("vdiv", False),
}
# predicates: ordered and quiet, false for NaN
_COMPARISON = {
    "less": ("17", False),
    "less_equal": ("18", False),
    "equal": ("0", True),
    "unordered": ("3", True),
}
# operate on whole registers for scalars, too
_BITWISE = {
    "and": ("vandpd", True),
    "or": ("vorpd", True),
    "xor": ("vxorpd", True),
    "iadd": ("vpaddq", True),
    "isub": ("vpsubq", False),
    "iequal": ("vpcmpeqq", True),
}
_SHIFT = {"shl": "vpsllq", "lshr": "vpsrlq"}
# between scalars and packed values: see `InstructionRecorder.pack`
_PACKING = ("pair", "quad", "upper", "second")


class Width(NamedTuple):
    """Width of values.

    Attributes:
        register: Name of a vector register without its index.
        suffix: Suffix of arithmetic mnemonics.
        move: Mnemonic of loads and stores.
        bytes: Size in memory.
    """

    register: str
    suffix: str
    move: str
    bytes: int

    @property
    def is_scalar(self) -> bool:
        """Whether only the lowest float of a register is defined."""
        return self.suffix == "sd"


PACKED = Width("%ymm", "pd", "vmovapd", 32)
SCALAR = Width("%xmm", "sd", "vmovsd", 8)
# packed values in the frame of scalar code
_PACKED_UNALIGNED = Width("%ymm", "pd", "vmovupd", 32)


@record
class AllocatedCode:
    """Instructions with registers.

    Attributes:
        lines: Assembly; dollar signs are doubled, as LLVM's inline assembly requires.
        slots: Size of the frame in values, inputs and results included.
    """

    lines: list[str]
    slots: int


def frame_operand(slot: int, width: Width = PACKED) -> str:
    """Return a slot of the frame as a memory operand."""
    return f"{slot * width.bytes}({FRAME_REGISTER})"


def allocate_registers(
    instructions: list[X86Instruction],
    memory: Mapping[Ref, str],
    results: Mapping[Ref, str],
    slots: int,
    width: Width = PACKED,
) -> AllocatedCode:
    """Allocate registers to scheduled instructions and write them as assembly.

    Args:
        instructions: In their final order.
        memory: Memory operand of every value that is in memory before the first instruction.
        results: Memory operand of every value that must be in memory after the last instruction.
        slots: Slots of the frame that are in use.
        width: Width of values. In scalar code constants are 16 bytes apart, since bitwise
            instructions read whole registers, and 32 bytes if there are packed values.

    Returns:
        The assembly.
    """
    return _Allocator(instructions, memory, results, slots, width).run()


class _Allocator:
    def __init__(
        self,
        instructions: list[X86Instruction],
        memory: Mapping[Ref, str],
        results: Mapping[Ref, str],
        slots: int,
        width: Width,
    ) -> None:
        self._width = width
        self._instructions = instructions
        self._memory = dict(memory)
        self._results = results
        self._slots = slots
        # free spill slots, by the number of slots that a value occupies
        self._free_slots: dict[int, list[int]] = {1: [], 4: []}
        self._spill_slots: dict[Ref, int] = {}
        self._packed = {i.result for i in instructions if i.packed}
        self._current_width = width
        self._lines: list[str] = []
        self._registers: dict[Ref, int] = {}
        self._free = list(range(REGISTERS - 1, -1, -1))
        self._now = 0
        # next instruction that uses a value, after the current one
        self._next_use: dict[Ref, int] = {}

    def run(self) -> AllocatedCode:
        """Write all instructions."""
        uses = self._uses_after()
        for position, (instruction, after) in enumerate(zip(self._instructions, uses, strict=True)):
            self._now = position
            self._current_width = _PACKED_UNALIGNED if instruction.packed else self._width
            for value in instruction.args:
                self._next_use[value] = after[value]
            register = self._write(instruction)
            for value in dict.fromkeys(instruction.args):
                if after[value] == _NEVER:
                    self._release(value)
            self._next_use[instruction.result] = after[instruction.result]
            self._registers[instruction.result] = register
        for value in self._results:
            if value not in self._memory:
                self._store(value)
        return AllocatedCode(self._lines, self._slots)

    def _uses_after(self) -> list[dict[Ref, int]]:
        """Return for each instruction the next use of its operands and its result."""
        end = len(self._instructions)
        following = dict.fromkeys(self._results, end)
        after: list[dict[Ref, int]] = []
        for position in range(end - 1, -1, -1):
            instruction = self._instructions[position]
            values = (instruction.result, *instruction.args)
            after.append({value: following.get(value, _NEVER) for value in values})
            for value in instruction.args:
                following[value] = position
        after.reverse()
        return after

    # memory and registers

    def _emit(self, name: str, *operands: str) -> None:
        self._lines.append(f"{name} {', '.join(operands)}")

    def _operand(self, value: Ref) -> str:
        register = self._registers.get(value)
        return self._memory[value] if register is None else self._name(register)

    def _name(self, register: int) -> str:
        return f"{self._current_width.register}{register}"

    def _width_of(self, value: Ref) -> Width:
        """Return the width of a value, whatever the current instruction reads of it."""
        # the constant table repeats each constant for the widest instructions
        packed = value in self._packed or (self._packed and value.startswith("c"))
        return _PACKED_UNALIGNED if packed else self._width

    def _store(self, value: Ref) -> None:
        """Store a value to its result location, or spill it."""
        width = self._width_of(value)
        if value in self._results:
            self._memory[value] = self._results[value]
        else:
            size = width.bytes // self._width.bytes
            if not self._free_slots[size]:
                self._free_slots[size].append(self._slots)
                self._slots += size
            slot = self._free_slots[size].pop()
            self._spill_slots[value] = slot
            self._memory[value] = frame_operand(slot, self._width)
        self._emit(width.move, f"{width.register}{self._registers[value]}", self._memory[value])

    def _release(self, value: Ref) -> None:
        """Free the register and the spill slot of a dead value."""
        register = self._registers.pop(value, None)
        if register is not None:
            self._free.append(register)
        slot = self._spill_slots.pop(value, None)
        if slot is not None:
            self._free_slots[self._width_of(value).bytes // self._width.bytes].append(slot)

    def _take(self, instruction: X86Instruction) -> int:
        """Return a free register; evict a value if there is none."""
        if not self._free:
            evicted, farthest = "", -1.0
            for value in self._registers:
                if value in instruction.args:
                    continue
                distance = float(self._next_use[value] - self._now)
                if value in self._memory:
                    distance *= _IN_MEMORY_WEIGHT
                if distance > farthest:
                    evicted, farthest = value, distance
            if evicted not in self._memory:
                self._store(evicted)
            self._free.append(self._registers.pop(evicted))
        return self._free.pop()

    def _load(self, instruction: X86Instruction, value: Ref) -> None:
        """Load a value into a register unless it is in one."""
        if value not in self._registers:
            register, width = self._take(instruction), self._width_of(value)
            self._emit(width.move, self._memory[value], f"{width.register}{register}")
            self._registers[value] = register

    def _load_near_uses(self, instruction: X86Instruction) -> None:
        """Load operands that are used again soon."""
        for value in instruction.args:
            if self._next_use[value] - self._now <= _NEAR_USES:
                self._load(instruction, value)

    def _is_dying(self, value: Ref) -> bool:
        return value in self._registers and self._next_use[value] == _NEVER

    def _destination(self, instruction: X86Instruction) -> int:
        """Return a register for the result: that of a dying operand if there is one."""
        for value in instruction.args:
            if self._is_dying(value):
                return self._registers.pop(value)
        return self._take(instruction)

    # instructions

    def _write(self, instruction: X86Instruction) -> int:
        """Write one instruction and return the register of its result."""
        op, args = instruction.op, instruction.args
        self._load_near_uses(instruction)
        if len(args) == 3 and op != "select":
            return self._write_fused(instruction)
        if op in _PACKING:
            return self._write_packing(instruction)
        suffix = self._current_width.suffix
        found = _ARITHMETIC.get(op) or _COMPARISON.get(op) or _BITWISE.get(op)
        if found is not None:
            name, commutes = found
            if op in _ARITHMETIC:
                name += suffix
            elif op in _COMPARISON:
                name = f"vcmp{suffix} $${name},"
            else:
                self._load_scalars(instruction)
            a, b = args
            if commutes and a not in self._registers and b in self._registers:
                a, b = b, a
            self._load(instruction, a)
            operands = [self._operand(b), self._operand(a)]
        elif op == "select":
            condition, a, b = args
            name = "vblendvpd"
            self._load_scalars(instruction)
            self._load(instruction, condition)
            self._load(instruction, b)
            operands = [self._operand(condition), self._operand(a), self._operand(b)]
        elif op in _SHIFT:
            name = f"{_SHIFT[op]} $${instruction.shift},"
            self._load(instruction, args[0])
            operands = [self._operand(args[0])]
        elif op == "broadcast":
            name, operands = "vbroadcastsd", [self._operand(args[0]).replace("%ymm", "%xmm")]
        elif op == "copy":
            name = "vmovapd" if args[0] in self._registers else self._width.move
            operands = [self._operand(args[0])]
        else:
            name = f"vsqrt{suffix}" if op == "sqrt" else f"vround{suffix} $$9,"
            operands = [self._operand(args[0])]
            if self._current_width.is_scalar:
                # the scalar form takes the upper half of its result from another operand
                self._load(instruction, args[0])
                operands = [self._operand(args[0])] * 2
        result = self._destination(instruction)
        self._emit(name, *operands, self._name(result))
        return result

    def _load_scalars(self, instruction: X86Instruction) -> None:
        """Load scalars that an instruction on whole registers would read beyond their end."""
        if self._current_width.is_scalar:
            for value in instruction.args:
                if not value.startswith("c"):
                    self._load(instruction, value)

    def _write_packing(self, instruction: X86Instruction) -> int:
        """Write an instruction between scalars and packed values."""
        op, args = instruction.op, instruction.args
        for value in args:
            # halves of registers have memory forms as well, but these operands are needed at once
            if op != "pair" or value == args[0]:
                self._load(instruction, value)
        low = [self._operand(value).replace("%ymm", "%xmm") for value in args]
        whole = [operand.replace("%xmm", "%ymm") for operand in low]
        if op == "pair":
            name = "vunpcklpd" if args[1] in self._registers else "vmovhpd"
            operands, width = [low[1], low[0]], SCALAR
        elif op == "quad":
            name, operands, width = "vinsertf128 $$1,", [low[1], whole[0]], PACKED
        elif op == "upper":
            name, operands, width = "vextractf128 $$1,", [whole[0]], SCALAR
        else:
            name, operands, width = "vunpckhpd", [low[0], low[0]], SCALAR
        result = self._destination(instruction)
        self._emit(name, *operands, f"{width.register}{result}")
        return result

    def _write_fused(self, instruction: X86Instruction) -> int:
        """Write a fused multiply-add, whose result overwrites one of its operands."""
        args = instruction.args
        # an operand that occurs twice cannot be overwritten
        once = [k for k in (2, 0, 1) if args.count(args[k]) == 1]
        chosen = next((k for k in once if self._is_dying(args[k])), None)
        if chosen is not None:
            result = self._registers[args[chosen]]
        else:
            # a load into the destination costs no more than a copy, and saves a memory operand
            chosen = next((k for k in once if args[k] not in self._registers), 2)
            source = self._operand(args[chosen])
            result = self._take(instruction)
            is_copy = args[chosen] in self._registers
            move = "vmovapd" if is_copy else self._current_width.move
            self._emit(move, source, self._name(result))
        a, b, c = args
        x, y = [(b, c), (a, c), (a, b)][chosen]
        if x not in self._registers and y not in self._registers:
            self._load(instruction, x)
        target = self._name(result)
        if chosen == 2:
            order, sources = "231", (x, y) if y in self._registers else (y, x)
        elif y in self._registers:
            order, sources = "132", (x, y)
        else:
            order, sources = "213", (y, x)
        name = f"v{instruction.op}{order}{self._current_width.suffix}"
        self._emit(name, *map(self._operand, sources), target)
        if self._registers.get(args[chosen]) == result:
            del self._registers[args[chosen]]
        return result
