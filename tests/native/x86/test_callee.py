"""Callees by the x86 generator: the same bits as LLVM's code, wherever operands are in memory."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.native.lanes import load, needs_avx2, run_lanes, run_one
from tests.native.x86.test_code import run
from tiburon.native.fixed_arguments import fixed_arguments
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.native.llvm_module import module_for_many, module_for_one
from tiburon.native.x86 import function as x86_function
from tiburon.native.x86.entry import X86Batch, X86Single
from tiburon.native.x86.function import inline_assembly, inlined_length, suits_program
from tiburon.native.x86.instruction import InstructionRecorder
from tiburon.native.x86.register_allocation import SCALAR, allocate_registers
from tiburon.trace import Input, trace
from tiburon.trace.interpret import interpret
from tiburon.trace.primitives.spd import solve_spd
from tiburon.trace.regions import fixed_loop, function, while_loop
from tiburon.trace.value import require

pytestmark = needs_avx2

RANDOM = np.random.default_rng(5)
SIZE = 6
ROUNDS = 3.0


def long_body(x, wind, given):
    """Some 400 operations, of which each depends on many numbers; results of every kind."""
    turned = [np.sin(a) * wind + np.cos(b) for a, b in zip(x, x[1:] + x[:1], strict=True)]
    for _ in range(9):
        turned = [
            0.31 * a - b * c / (1.5 + a * a) + given * d
            for a, b, c, d in zip(turned, turned[1:] + turned[:1], x, turned[::-1], strict=True)
        ]
    length = np.sqrt(sum(a * a for a in turned))
    bounded = [np.where(a < 0.1, 0.5 * a, np.minimum(a, b)) for a, b in zip(turned, x, strict=True)]
    # an argument, a constant and the same number twice among the results
    return [bounded[0], x[3], 0.75, bounded[0], np.abs(bounded[4]) - length, np.sin(bounded[5])]


def looped(body=long_body):
    """A program whose loop calls a long function that reads numbers around the loop."""

    def program(x):
        factor = 1.0 / (2.0 + x[0] * x[0])
        call = function(lambda state, wind: body(state, wind, factor))

        def following(state):
            done, numbers = state
            return done + 1.0, call(call(numbers, x[1]), x[1])

        state = while_loop(lambda s: s[0] < ROUNDS, following, (0.0, list(x)), 100).state
        return np.array([*state[1], factor], like=x)

    return trace(program, {"x": (SIZE,)})


def text_of(program, lanes, *, x86=True):
    """The module for some lanes."""
    if lanes == 1:
        return module_for_one(program, vector_lanes=4, fused=True, x86=x86)
    return module_for_many(program, lanes=lanes, fused=True, x86=x86)


def results(program, x, lanes, *, x86=True):
    """Results of all cases."""
    return run_one(program, x, x86=x86) if lanes == 1 else run_lanes(program, x, lanes, x86=x86)


@pytest.mark.parametrize("lanes", [1, 4])
def test_bits_are_those_of_llvm_and_of_the_interpreter(lanes):
    program, x = looped(), RANDOM.normal(size=(9, SIZE))
    assert "asm sideeffect" in text_of(program, lanes)
    found = results(program, x, lanes)
    assert "asm sideeffect" not in text_of(program, lanes, x86=False)
    assert found.tobytes() == results(program, x, lanes, x86=False).tobytes()
    expected = np.array([np.ravel(interpret(program, [row])) for row in x])
    # products and sums of the interpreter are rounded apart
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("lanes", [1, 4])
def test_failed_requirement_gives_nan_in_its_case_only(lanes):
    def body(x, wind, given):
        first, *rest = long_body(x, wind, given)
        return [require(x[2] < 2.0, first, "a small number"), *rest]

    program, x = looped(body), RANDOM.uniform(-1.0, 1.0, (7, SIZE))
    # what the third number becomes is 0.75, so only the start can be too large
    x[4, 2] = 2.5
    found = results(program, x, lanes)
    assert np.isnan(found[4]).any()
    assert np.isfinite(np.delete(found, 4, axis=0)).all()


@pytest.mark.parametrize("lanes", [1, 4])
def test_short_primitives_and_functions_inside_are_written_out(lanes):
    def body(x, wind, given):
        small = function(lambda a, b: (a * b + 1.0, a - b * wind))
        a, b, *rest = long_body(x, wind, given)
        a, b = small(a, b)
        matrix = [[3.0 + a * a, 0.2 * b], [0.2 * b, 2.0 + b * b]]
        solved = solve_spd(np.array(matrix, like=a), np.array([a, given], like=a))
        return [*solved, *rest]

    program, x = looped(body), RANDOM.normal(size=(5, SIZE))
    text = text_of(program, lanes)
    assert text.count("asm sideeffect") == 1
    found = results(program, x, lanes)
    assert found.tobytes() == results(program, x, lanes, x86=False).tobytes()


def test_loops_and_long_functions_that_are_called_often_are_not_written_out():
    def often(times):
        call = function(lambda numbers: long_body(numbers, 0.3, 0.2))

        def program(x):
            numbers = list(x)
            for _ in range(times):
                numbers = call(numbers)
            return np.array(numbers, like=x)

        traced = trace(program, {"x": (SIZE,)})
        return inlined_length(traced.graph, traced.roots)

    once = often(1)
    assert 300 < once < often(4)
    assert often(x86_function.MAX_INLINED_CALLS + 1) is None

    def with_loop(x):
        return fixed_loop(3, lambda k, s: s * 0.5 + k, x)

    traced = trace(with_loop, {"x": (SIZE,)})
    assert inlined_length(traced.graph, traced.roots) is None


def test_a_program_of_few_calls_is_one_piece_of_assembly():
    """Its groups overlap like those of programs without calls; parameters may differ by case."""

    def program(x, masses):
        call = function(lambda numbers: long_body(numbers, masses[0], 1.0 / (3.0 + masses[1])))
        return np.array(call(call(list(x))), like=x)

    traced = trace(program, [Input("x", (SIZE,)), Input("masses", (2,), parameter=True)])
    assert suits_program(traced)
    text = X86Batch(traced).write()
    assert "callee" not in text
    count = 11
    x, masses = RANDOM.normal(size=(count, SIZE)), RANDOM.uniform(0.5, 2.0, (count, 2))
    other = module_for_many(traced, lanes=4, fused=True)
    for varying, given in (((), masses[0].copy()), (("masses",), masses)):
        status, found = run(text, traced, [x, given], count, varying=varying)
        _, expected = run(other, traced, [x, given], count, varying=varying)
        assert status == 0
        assert found[0].tobytes() == expected[0].tobytes()


def test_values_of_parameters_alone_are_computed_when_parameters_are_read():
    def program(x, masses):
        inverse = 1.0 / (1.0 + masses[0] * masses[1])
        return np.array(long_body(list(x), inverse, masses[1]), like=x)

    traced = trace(program, [Input("x", (SIZE,)), Input("masses", (2,), parameter=True)])
    text = X86Batch(traced).write()
    group = text[text.index("@group") :]
    prepare = text[text.index("@prepare") : text.index("@group")]
    assert "vdivpd" in prepare
    # the divisions of the body, and none of the parameters
    assert group.count("vdivpd") == X86Batch(_without_parameters()).write().count("vdivpd")


def _without_parameters():
    def program(x):
        return np.array(long_body(list(x), x[0], x[1]), like=x)

    return trace(program, {"x": (SIZE,)})


def test_arguments_equal_at_every_call_are_not_passed():
    program = looped()
    fixed = fixed_arguments(program, {})
    # the factor and x[1], which the function reads, and the numbers the loop starts from
    assert fixed.size == SIZE + 1
    text = module_for_one(program, vector_lanes=4, fused=True, x86=True)
    stored = text[: text.index("asm sideeffect")].count("store double")
    assert stored < 30
    (numbers,) = [p for p in fixed.callees.values() if p.count(None) == SIZE]
    assert len(numbers) == SIZE + 2


def test_an_argument_that_differs_between_two_calls_is_passed():
    def program(x):
        call = function(lambda numbers, wind: long_body(numbers, wind, x[5]))
        once = while_loop(lambda s: s[0] < 1.5, lambda s: call(s, x[1]), list(x), 3).state
        return np.array(call(once, x[2]), like=x)

    traced = trace(program, {"x": (SIZE,)})
    fixed = fixed_arguments(traced, {})
    (places,) = [p for p in fixed.callees.values() if None in p]
    # x[5] alone is the same
    assert places.count(None) == SIZE + 1
    x = RANDOM.normal(size=(6, SIZE))
    assert run_one(traced, x).tobytes() == run_lanes(traced, x, 4, x86=True).tobytes()
    assert run_one(traced, x, x86=True).tobytes() == run_lanes(traced, x, 4).tobytes()
    assert run_one(traced, x).tobytes() == run_lanes(traced, x, 2).tobytes()


def test_kernels_of_callees_report_non_finite_values():
    compiled = make_kernel(ProgramSource(looped()), {})
    x = RANDOM.normal(size=(6, SIZE))
    found, failed = compiled(x, errors="flag")
    assert not failed.any()
    assert compiled(x[2]).tobytes() == found[2].tobytes()
    x[3, 1] = 1e300
    assert compiled(x, errors="flag")[1].tolist() == [False] * 3 + [True] + [False] * 2


@pytest.mark.parametrize("count", range(1, 10))
def test_angles_of_one_case_share_vectors(count):
    """Any number of them, however long their sines wait in memory for their use."""

    def program(x):
        angles = [x[k % SIZE] * (1.0 + k) for k in range(count)]
        turned = [function_of(angle) for angle in angles for function_of in (np.sin, np.cos)]
        rest = long_body(list(x), x[1], 0.3)
        for _ in range(3):
            rest = long_body(rest, x[2], 0.1)
        return np.array([*turned, *[a * b for a in turned for b in rest]], like=x)

    traced, x = trace(program, {"x": (SIZE,)}), 20.0 * RANDOM.normal(size=(3, SIZE))
    assert suits_program(traced)
    text = X86Single(traced, vector_lanes=4).write()
    assert "vinsertf128" in text
    assert "vextractf128" in text
    loaded = load(text, optimize=False)
    call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2)(loaded.address("one"))
    found = np.zeros((3, len(traced.roots)))
    for row, result in zip(x, found, strict=True):
        given, made = (np.array([a.ctypes.data]) for a in (row, result))
        assert call(given.ctypes.data, made.ctypes.data) == 0
    assert found.tobytes() == run_one(traced, x).tobytes()


def test_more_inputs_than_registers_are_copied():
    """The largest are read where they lie."""
    sizes = [2, 3, SIZE, 1, 4, 2, 5, 2, 3, 1]

    def program(*given):
        numbers = [number for array in given for number in np.ravel(array)]
        first = long_body(numbers[:SIZE], numbers[7], numbers[9])
        return np.array([a * b for a, b in zip(first * 5, numbers, strict=False)], like=given[0])

    inputs = [Input(f"x{k}", (size,)) for k, size in enumerate(sizes)]
    traced = trace(program, inputs)
    assert suits_program(traced)
    arrays = [RANDOM.normal(size=size) for size in sizes]
    outputs = []
    for text in (
        X86Single(traced, vector_lanes=4).write(),
        module_for_one(traced, vector_lanes=4, fused=True),
    ):
        loaded = load(text, optimize=False)
        call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2)(loaded.address("one"))
        result = np.zeros(len(traced.roots))
        given = np.array([array.ctypes.data for array in arrays])
        made = np.array([result.ctypes.data])
        assert call(given.ctypes.data, made.ctypes.data) == 0
        outputs.append(result.tobytes())
    assert outputs[0] == outputs[1]


def test_adjacent_values_in_memory_are_preserved():
    """More values are in use than there are registers, while halves and quarters wait."""
    recorder = InstructionRecorder()
    packed = recorder.pack(["i0", "i1", "i2", "i3"])
    lanes = recorder.unpack(packed, 4)
    start = recorder.instructions[:3]
    second, upper, fourth = recorder.instructions[3:]
    crowd = [recorder.mul(f"i{k % 5}", f"i{k % 7}") for k in range(40)]
    total = crowd[0]
    for value in crowd[1:]:
        total = recorder.add(total, value)
    crowded = recorder.instructions[6:]
    results = [recorder.copy(lane) for lane in lanes] + [total]
    copies = recorder.instructions[-4:]
    instructions = [*start, upper, *crowded, second, fourth, *copies]
    homes = {f"i{k}": f"{8 * k}(%rsi)" for k in range(8)}
    places = {value: f"{8 * k}(%r8)" for k, value in enumerate(results)}
    code = allocate_registers(instructions, homes, places, 0, SCALAR)
    # the four numbers, and the two of their upper half
    assert sum("vmovupd %ymm" in line for line in code.lines) == 2
    run_lines = inline_assembly(code.lines, {"di": "%frame", "si": "%in", "r8": "%out"}, SCALAR)
    text = "\n".join(
        [
            "define void @k(ptr %in, ptr %out) nounwind {",
            f"  %frame = alloca [{code.slots + 1} x double], align 64",
            run_lines,
            "  ret void",
            "}",
        ]
    )
    loaded = load(text, optimize=False)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2)(loaded.address("k"))
    x, found = RANDOM.normal(size=8), np.zeros(5)
    call(x.ctypes.data, found.ctypes.data)
    np.testing.assert_array_equal(found[:4], x[:4])
    expected = sum(x[k % 5] * x[k % 7] for k in range(40))
    np.testing.assert_allclose(found[4], expected, rtol=1e-13)
