"""Scheduling and addressing: same instructions, each after its operands, same addresses."""

from __future__ import annotations

import numpy as np

from tiburon.native.x86.instruction import X86Instruction
from tiburon.native.x86.register_allocation import shorten_addresses
from tiburon.native.x86.schedule import (
    HIDDEN_CYCLES,
    LATENCY_WINDOW,
    hide_latency,
    overlap_groups,
    schedule_for_registers,
)

RANDOM = np.random.default_rng(3)


def chain(name, length):
    """A dependency chain."""
    first = X86Instruction("mul", f"{name}0", ("x", "y"))
    return [
        first,
        *(
            X86Instruction("fmadd", f"{name}{k}", (f"{name}{k - 1}", "x", "y"))
            for k in range(1, length)
        ),
    ]


def free(count):
    """Independent instructions."""
    return [X86Instruction("mul", f"f{k}", ("x", "y")) for k in range(count)]


def test_every_instruction_is_kept_after_its_operands():
    instructions = []
    for k in range(900):
        known = [f"s{j}" for j in RANDOM.integers(0, k, 2)] if k else ["x", "x"]
        instructions.append(X86Instruction("div" if k % 7 == 0 else "mul", f"s{k}", tuple(known)))
    ordered = hide_latency(instructions)
    assert sorted(ordered) == sorted(instructions)
    assert ordered != instructions
    place = {instruction.result: k for k, instruction in enumerate(ordered)}
    assert all(place[a] < place[s.result] for s in instructions for a in s.args if a in place)


def test_independent_instructions_keep_their_order():
    instructions = [*free(300), *chain("c", 3)]
    assert hide_latency(instructions) == instructions


def test_independent_instructions_move_beside_a_long_chain():
    instructions = [*chain("c", 60), *free(100)]
    ordered = hide_latency(instructions)
    last = ordered.index(instructions[59])
    # four cycles per instruction of the chain: 20 cycles are hidden, two fill each other one
    assert last == 59 + 100
    assert ordered[: int(HIDDEN_CYCLES / 4.0)] == instructions[: int(HIDDEN_CYCLES / 4.0)]


def test_instructions_beyond_the_window_stay():
    instructions = [*chain("c", LATENCY_WINDOW + 40), *free(10)]
    assert hide_latency(instructions)[:40] == instructions[:40]


def random_instructions(generator, count):
    made = ["a", "b"]
    instructions = []
    for k in range(count):
        chosen = [made[j] for j in generator.integers(max(0, len(made) - 40), len(made), 3)]
        instructions.append(X86Instruction("fmadd", f"s{k}", tuple(chosen)))
        made.append(f"s{k}")
    return instructions


def test_the_schedule_respects_dependencies():
    instructions = random_instructions(RANDOM, 500)
    ordered = schedule_for_registers(instructions, {"s499"}, 16)
    assert sorted(ordered) == sorted(instructions)
    assert ordered != instructions
    known = {"a", "b"}
    for instruction in ordered:
        assert known.issuperset(instruction.args)
        known.add(instruction.result)


def test_overlap_finishes_one_group_and_starts_another():
    """Each instruction of a group runs once, in the call that starts it or in the next one."""
    instructions = random_instructions(RANDOM, 500)
    results = {"s499", "s3"}
    both = overlap_groups(instructions, results)
    known = {"a", "b", "a~", "b~", *[f"{value}~" for value in both.kept]}
    done = set()
    for instruction in both.instructions:
        assert known.issuperset(instruction.args)
        known.add(instruction.result)
        done.add(instruction.result.removesuffix("~"))
    assert done.issuperset(instruction.result for instruction in instructions)
    assert len(both.instructions) == len(instructions) + sum(
        value in results for value in both.kept
    )
    assert set(both.ends) == results
    assert known.issuperset(both.ends.values())


def operand_of(line):
    """Split the operand in memory of a line into distance and register."""
    distance, register = line[: line.index(")")].split(" ")[-1].split("(")
    return int(distance), register


def test_short_addresses_are_the_same_addresses():
    """Follow the registers from line to line; nearly all distances fit into one byte."""
    long, given = [], []
    for k in range(3000):
        table = ("%rdi", "%rsi", "%rdx")[RANDOM.integers(3)]
        # uses wander slowly through the tables, as those of a program do
        slot = int(abs(RANDOM.normal(k / 20, 6.0)))
        given.append((table, 32 * slot))
        long.append(f"vaddpd {32 * slot}({table}), %ymm1, %ymm{k % 16}")
        if k % 7 == 0:
            long.append("vmulpd %ymm1, %ymm2, %ymm3")
    free = ["%rax", "%r9", "%r10", "%r11", "%r12", "%r13"]
    points = {table: (table, 0) for table in ("%rdi", "%rsi", "%rdx")}
    found, near, kept = [], 0, []
    for line in shorten_addresses(long, free):
        if "(" not in line:
            kept.append(line)
            continue
        distance, register = operand_of(line)
        table, offset = points[register]
        if line.startswith("leaq"):
            target = line.split(", ")[-1]
            assert target in free
            points[target] = (table, offset + distance)
        else:
            found.append((table, offset + distance))
            near += -128 <= distance <= 127
            kept.append(line)
    assert found == given
    assert near > 0.8 * len(given)
    # nothing but addresses changed
    parts = [[line.split(" ")[0], line.split(", ")[-1]] for line in kept]
    assert parts == [[line.split(" ")[0], line.split(", ")[-1]] for line in long]


def test_addresses_stay_where_no_register_is_free():
    lines = [f"vaddpd {32 * k}(%rdi), %ymm1, %ymm2" for k in range(40)]
    assert shorten_addresses(lines, []) == lines
