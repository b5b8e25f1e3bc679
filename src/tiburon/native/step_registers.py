"""Registers for steps, and their text: assembly of x86-64 with AVX2 and FMA, AT&T syntax.

Whenever all registers are taken, the number leaves whose next use is farthest away (Belady 1966,
"A study of replacement algorithms"); what is in memory anyway leaves at no cost. Nearly every
instruction may take one operand from memory, so numbers used once more are not loaded first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tiburon.native.steps import Step
from tiburon.native.target import Ref
from tiburon.record import record

REGISTERS = 16
VECTOR_BYTES = 32
WORK_REGISTER = "%rdi"
"""Holds the address of the work array, whose slots are vectors."""

_NEVER = 1 << 60
# a number used again within so many steps is worth a register
_SOON = 6
# leaving costs a store unless the number is in memory: such may be used so much earlier and leave
_STORED_WEIGHT = 1.5

# name without the kind of numbers at its end, and whether the two operands may change places
_ARITHMETIC = {
    "add": ("vadd", True),
    "sub": ("vsub", False),
    "mul": ("vmul", True),
    "div": ("vdiv", False),
}
# ordered and quiet: false for NaN
_COMPARISON = {
    "less": ("17", False),
    "less_equal": ("18", False),
    "equal": ("0", True),
    "unordered": ("3", True),
}
# these work on whole registers, however many numbers count
_BITWISE = {
    "and": ("vandpd", True),
    "or": ("vorpd", True),
    "xor": ("vxorpd", True),
    "iadd": ("vpaddq", True),
    "isub": ("vpsubq", False),
    "iequal": ("vpcmpeqq", True),
}
_SHIFT = {"shl": "vpsllq", "lshr": "vpsrlq"}
# between one number and four: see `StepRecorder.packed`
_PACKING = ("pair", "quad", "upper", "second")


class Form(NamedTuple):
    """How many numbers an instruction is for.

    Attributes:
        register: Name of a vector register without its number.
        numbers: How names of instructions on so many numbers end.
        load: Instruction that reads from memory.
        bytes: Size of a slot.
    """

    register: str
    numbers: str
    load: str
    bytes: int

    @property
    def is_scalar(self) -> bool:
        """Whether only one number counts; the rest of the register is anything."""
        return self.numbers == "sd"


FOUR = Form("%ymm", "pd", "vmovapd", 32)
ONE = Form("%xmm", "sd", "vmovsd", 8)
# four numbers where slots are for one
_WIDE = Form("%ymm", "pd", "vmovupd", 32)


@record
class Assembled:
    """Steps as assembly.

    Attributes:
        lines: Instructions; a dollar sign is doubled, as LLVM wants it.
        slots: Slots of the work array in use, the given ones included.
        stores: How many numbers went to memory.
    """

    lines: list[str]
    slots: int
    stores: int


def slot_operand(slot: int, form: Form = FOUR) -> str:
    """Give a slot of the work array as an operand."""
    return f"{slot * form.bytes}({WORK_REGISTER})"


def assemble_steps(
    steps: list[Step],
    homes: Mapping[Ref, str],
    results: Mapping[Ref, str],
    slots: int,
    form: Form = FOUR,
) -> Assembled:
    """Write steps in their order as assembly.

    Args:
        steps: Steps, each after those it uses.
        homes: Operand of every value that is in memory before the first step.
        results: Operand of the place in memory for every value that must be there after the last
            step.
        slots: Slots of the work array that are taken.
        form: Whether values are vectors of four or single numbers. Constants then lie 16 bytes
            apart, for instructions that read so many, and 32 where some steps are wide.

    Returns:
        The assembly.
    """
    return _Allocation(steps, homes, results, slots, form).run()


class _Allocation:
    def __init__(
        self,
        steps: list[Step],
        homes: Mapping[Ref, str],
        results: Mapping[Ref, str],
        slots: int,
        form: Form,
    ) -> None:
        self._form = form
        self._steps = steps
        self._homes = dict(homes)
        self._results = results
        self._slots = slots
        # by the slots that a value takes
        self._free_slots: dict[int, list[int]] = {1: [], 4: []}
        self._own_slots: dict[Ref, int] = {}
        self._wide = {step.result for step in steps if step.wide}
        self._step_form = form
        self._lines: list[str] = []
        self._stores = 0
        self._registers: dict[Ref, int] = {}
        self._free = list(range(REGISTERS - 1, -1, -1))
        self._now = 0
        # the step that uses a value next, after the present one
        self._upcoming: dict[Ref, int] = {}

    def run(self) -> Assembled:
        """Write all steps."""
        for place, (step, after) in enumerate(zip(self._steps, self._uses_after(), strict=True)):
            self._now = place
            self._step_form = _WIDE if step.wide else self._form
            for value in step.args:
                self._upcoming[value] = after[value]
            register = self._write(step)
            for value in set(step.args):
                if after[value] == _NEVER:
                    self._release(value)
            self._upcoming[step.result] = after[step.result]
            self._registers[step.result] = register
        for value in self._results:
            if value not in self._homes:
                self._store(value)
        return Assembled(self._lines, self._slots, self._stores)

    def _uses_after(self) -> list[dict[Ref, int]]:
        """Give for each step where its arguments and its result are used next."""
        end = len(self._steps)
        following = dict.fromkeys(self._results, end)
        after: list[dict[Ref, int]] = []
        for place in range(end - 1, -1, -1):
            step = self._steps[place]
            uses = {value: following.get(value, _NEVER) for value in (step.result, *step.args)}
            after.append(uses)
            for value in step.args:
                following[value] = place
        after.reverse()
        return after

    # memory and registers

    def _emit(self, name: str, *operands: str) -> None:
        self._lines.append(f"{name} {', '.join(operands)}")

    def _operand(self, value: Ref) -> str:
        register = self._registers.get(value)
        return self._homes[value] if register is None else self._name(register)

    def _name(self, register: int) -> str:
        return f"{self._step_form.register}{register}"

    def _form_of(self, value: Ref) -> Form:
        """Give how many numbers a value is, whatever the present step takes of it."""
        # constants stand in their table often enough for all steps
        wide = value in self._wide or (self._wide and value.startswith("c"))
        return _WIDE if wide else self._form

    def _store(self, value: Ref) -> None:
        form = self._form_of(value)
        if value in self._results:
            self._homes[value] = self._results[value]
        else:
            size = form.bytes // self._form.bytes
            if not self._free_slots[size]:
                self._free_slots[size].append(self._slots)
                self._slots += size
            slot = self._free_slots[size].pop()
            self._own_slots[value] = slot
            self._homes[value] = slot_operand(slot, self._form)
        self._stores += 1
        self._emit(form.load, f"{form.register}{self._registers[value]}", self._homes[value])

    def _release(self, value: Ref) -> None:
        """Give back what a value occupies that is not used any more."""
        register = self._registers.pop(value, None)
        if register is not None:
            self._free.append(register)
        slot = self._own_slots.pop(value, None)
        if slot is not None:
            self._free_slots[self._form_of(value).bytes // self._form.bytes].append(slot)

    def _take(self, step: Step) -> int:
        """Give a register that is free, or becomes so because a number leaves."""
        if not self._free:
            leaving, farthest = "", -1.0
            for value in self._registers:
                if value in step.args:
                    continue
                distance = float(self._upcoming[value] - self._now)
                if value in self._homes:
                    distance *= _STORED_WEIGHT
                if distance > farthest:
                    leaving, farthest = value, distance
            if leaving not in self._homes:
                self._store(leaving)
            self._free.append(self._registers.pop(leaving))
        return self._free.pop()

    def _bring(self, step: Step, value: Ref) -> None:
        """Have a value in a register."""
        if value not in self._registers:
            register, form = self._take(step), self._form_of(value)
            self._emit(form.load, self._homes[value], f"{form.register}{register}")
            self._registers[value] = register

    def _is_dying(self, value: Ref) -> bool:
        return value in self._registers and self._upcoming[value] == _NEVER

    def _destination(self, step: Step) -> int:
        """Give a register for the result; that of an argument not used again if there is one."""
        for value in step.args:
            if self._is_dying(value):
                return self._registers.pop(value)
        return self._take(step)

    # steps

    def _write(self, step: Step) -> int:
        """Write one step and return the register of its result."""
        if len(step.args) == 3 and step.op != "choose":
            return self._write_fused(step)
        for value in step.args:
            if self._upcoming[value] - self._now <= _SOON:
                self._bring(step, value)
        if step.op in _PACKING:
            return self._write_packing(step)
        numbers = self._step_form.numbers
        found = _ARITHMETIC.get(step.op) or _COMPARISON.get(step.op) or _BITWISE.get(step.op)
        if found is not None:
            name, exchangeable = found
            if step.op in _ARITHMETIC:
                name += numbers
            elif step.op in _COMPARISON:
                name = f"vcmp{numbers} $${name},"
            else:
                self._bring_short(step)
            a, b = step.args
            if exchangeable and a not in self._registers and b in self._registers:
                a, b = b, a
            self._bring(step, a)
            operands = [self._operand(b), self._operand(a)]
        elif step.op == "choose":
            condition, a, b = step.args
            name = "vblendvpd"
            self._bring_short(step)
            self._bring(step, condition)
            self._bring(step, b)
            operands = [self._operand(condition), self._operand(a), self._operand(b)]
        elif step.op in _SHIFT:
            name = f"{_SHIFT[step.op]} $${step.by},"
            self._bring(step, step.args[0])
            operands = [self._operand(step.args[0])]
        elif step.op == "copy":
            name = "vmovapd" if step.args[0] in self._registers else self._form.load
            operands = [self._operand(step.args[0])]
        else:
            name = f"vsqrt{numbers}" if step.op == "sqrt" else f"vround{numbers} $$9,"
            operands = [self._operand(step.args[0])]
            if self._step_form.is_scalar:
                # the rest of the result is the rest of this operand
                self._bring(step, step.args[0])
                operands = [self._operand(step.args[0])] * 2
        result = self._destination(step)
        self._emit(name, *operands, self._name(result))
        return result

    def _bring_short(self, step: Step) -> None:
        """Have what is too short for a whole register's instruction not in memory."""
        if self._step_form.is_scalar:
            for value in step.args:
                if not value.startswith("c"):
                    self._bring(step, value)

    def _write_packing(self, step: Step) -> int:
        """Write a step between one number and four."""
        for value in step.args:
            # halves of registers come from memory as well, but these are needed at once
            if step.op != "pair" or value == step.args[0]:
                self._bring(step, value)
        short = [self._operand(value).replace("%ymm", "%xmm") for value in step.args]
        long = [operand.replace("%xmm", "%ymm") for operand in short]
        if step.op == "pair":
            name = "vunpcklpd" if step.args[1] in self._registers else "vmovhpd"
            operands, kind = [short[1], short[0]], ONE
        elif step.op == "quad":
            name, operands, kind = "vinsertf128 $$1,", [short[1], long[0]], FOUR
        elif step.op == "upper":
            name, operands, kind = "vextractf128 $$1,", [long[0]], ONE
        else:
            name, operands, kind = "vunpckhpd", [short[0], short[0]], ONE
        result = self._destination(step)
        self._emit(name, *operands, f"{kind.register}{result}")
        return result

    def _write_fused(self, step: Step) -> int:
        """Write a fused multiply-add, whose result takes the place of one of its operands."""
        for value in step.args:
            if self._upcoming[value] - self._now <= _SOON:
                self._bring(step, value)
        # an operand that is used twice cannot be overwritten
        once = [k for k in (2, 0, 1) if step.args.count(step.args[k]) == 1]
        chosen = next((k for k in once if self._is_dying(step.args[k])), None)
        if chosen is not None:
            result = self._registers[step.args[chosen]]
        else:
            # a load into the result's register is as good as a copy, and saves an operand
            chosen = next((k for k in once if step.args[k] not in self._registers), 2)
            source = self._operand(step.args[chosen])
            result = self._take(step)
            is_copy = step.args[chosen] in self._registers
            self._emit("vmovapd" if is_copy else self._step_form.load, source, self._name(result))
        a, b, c = step.args
        x, y = [(b, c), (a, c), (a, b)][chosen]
        if x not in self._registers and y not in self._registers:
            self._bring(step, x)
        target = self._name(result)
        if chosen == 2:
            form, sources = "231", (x, y) if y in self._registers else (y, x)
        elif y in self._registers:
            form, sources = "132", (x, y)
        else:
            form, sources = "213", (y, x)
        name = f"v{step.op}{form}{self._step_form.numbers}"
        self._emit(name, *map(self._operand, sources), target)
        if self._registers.get(step.args[chosen]) == result:
            del self._registers[step.args[chosen]]
        return result
