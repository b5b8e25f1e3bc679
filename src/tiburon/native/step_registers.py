"""Registers for steps, and their text: assembly of x86-64 with AVX2 and FMA, AT&T syntax.

Whenever all registers are taken, the number leaves whose next use is farthest away (Belady 1966,
"A study of replacement algorithms"); what is in memory anyway leaves at no cost. Nearly every
instruction may take one operand from memory, so numbers used once more are not loaded first.
"""

from __future__ import annotations

from collections.abc import Mapping

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

# name of the instruction, and whether its two operands may change places
_BINARY = {
    "add": ("vaddpd", True),
    "sub": ("vsubpd", False),
    "mul": ("vmulpd", True),
    "div": ("vdivpd", False),
    "and": ("vandpd", True),
    "or": ("vorpd", True),
    "xor": ("vxorpd", True),
    "iadd": ("vpaddq", True),
    "isub": ("vpsubq", False),
    "iequal": ("vpcmpeqq", True),
    # ordered and quiet: false for NaN
    "less": ("vcmppd $$17,", False),
    "less_equal": ("vcmppd $$18,", False),
    "equal": ("vcmppd $$0,", True),
    "unordered": ("vcmppd $$3,", True),
}
_UNARY = {"copy": "vmovapd", "sqrt": "vsqrtpd", "floor": "vroundpd $$9,"}
_SHIFT = {"shl": "vpsllq", "lshr": "vpsrlq"}


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


def slot_operand(slot: int) -> str:
    """Give a slot of the work array as an operand."""
    return f"{slot * VECTOR_BYTES}({WORK_REGISTER})"


def assemble_steps(
    steps: list[Step], homes: Mapping[Ref, str], results: Mapping[Ref, int], slots: int
) -> Assembled:
    """Write steps in their order as assembly.

    Args:
        steps: Steps, each after those it uses.
        homes: Operand of every value that is in memory before the first step.
        results: Slot of the work array for every value that must be there after the last step.
        slots: Slots that are taken.

    Returns:
        The assembly.
    """
    return _Allocation(steps, homes, results, slots).run()


class _Allocation:
    def __init__(
        self, steps: list[Step], homes: Mapping[Ref, str], results: Mapping[Ref, int], slots: int
    ) -> None:
        self._steps = steps
        self._homes = dict(homes)
        self._results = results
        self._slots = slots
        self._free_slots: list[int] = []
        self._own_slots: dict[Ref, int] = {}
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
        return self._homes[value] if register is None else f"%ymm{register}"

    def _store(self, value: Ref) -> None:
        if value in self._results:
            slot = self._results[value]
        else:
            if not self._free_slots:
                self._free_slots.append(self._slots)
                self._slots += 1
            slot = self._free_slots.pop()
            self._own_slots[value] = slot
        self._homes[value] = slot_operand(slot)
        self._stores += 1
        self._emit("vmovapd", f"%ymm{self._registers[value]}", self._homes[value])

    def _release(self, value: Ref) -> None:
        """Give back what a value occupies that is not used any more."""
        register = self._registers.pop(value, None)
        if register is not None:
            self._free.append(register)
        slot = self._own_slots.pop(value, None)
        if slot is not None:
            self._free_slots.append(slot)

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
            register = self._take(step)
            self._emit("vmovapd", self._homes[value], f"%ymm{register}")
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
        if step.op in _BINARY:
            name, exchangeable = _BINARY[step.op]
            a, b = step.args
            if exchangeable and a not in self._registers and b in self._registers:
                a, b = b, a
            self._bring(step, a)
            operands = [self._operand(b), self._operand(a)]
        elif step.op == "choose":
            condition, a, b = step.args
            name = "vblendvpd"
            self._bring(step, condition)
            self._bring(step, b)
            operands = [self._operand(condition), self._operand(a), self._operand(b)]
        elif step.op in _SHIFT:
            name = f"{_SHIFT[step.op]} $${step.by},"
            self._bring(step, step.args[0])
            operands = [self._operand(step.args[0])]
        else:
            name = _UNARY[step.op]
            operands = [self._operand(step.args[0])]
        result = self._destination(step)
        self._emit(name, *operands, f"%ymm{result}")
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
            self._emit("vmovapd", source, f"%ymm{result}")
        a, b, c = step.args
        x, y = [(b, c), (a, c), (a, b)][chosen]
        if x not in self._registers and y not in self._registers:
            self._bring(step, x)
        target = f"%ymm{result}"
        if chosen == 2:
            form, sources = "231", (x, y) if y in self._registers else (y, x)
        elif y in self._registers:
            form, sources = "132", (x, y)
        else:
            form, sources = "213", (y, x)
        self._emit(f"v{step.op}{form}pd", *map(self._operand, sources), target)
        if self._registers.get(step.args[chosen]) == result:
            del self._registers[step.args[chosen]]
        return result
