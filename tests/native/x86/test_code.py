"""Single calls and batches by the x86 generator: the same bits as LLVM's code, with any spills."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest

from tests.native.emitted import compile_x86
from tests.native.lanes import load, needs_avx2
from tests.native.programs import PROGRAMS, bits, cases, kernel, parameters_of, run_one
from tests.native.test_target import check_all, write_all
from tiburon.native.engine import Host
from tiburon.native.llvm_module import module_for_many, module_for_one
from tiburon.native.x86 import entry
from tiburon.native.x86.entry import X86Batch, X86Single
from tiburon.native.x86.function import is_supported, suits_program
from tiburon.native.x86.instruction import InstructionRecorder, live_instructions
from tiburon.trace import trace

pytestmark = needs_avx2

NAMES = [name for name, program in PROGRAMS.items() if not program.has_calls]
# below and above the lanes, and several groups
SIZES = [1, 3, 4, 5, 8, 9, 19]
RANDOM = np.random.default_rng(11)


def run(text, program, arrays, count, *, begin=0, varying=()):
    """Run the function `many` of a module on some cases; give its status and the results."""
    loaded = load(text, optimize=False)
    kinds = [*[ctypes.c_void_p] * 4, *[ctypes.c_longlong] * 2]
    call = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(loaded.address("many"))
    given = [np.ascontiguousarray(array, dtype=float) for array in arrays]
    results = [np.zeros((count, len(output.nodes))) for output in program.outputs]
    strides = [
        0 if item.parameter and item.name not in varying else item.size for item in program.inputs
    ]
    tables = [
        np.array([array.ctypes.data for array in given], dtype=np.int64),
        np.array(strides, dtype=np.int64),
        np.array([result.ctypes.data for result in results], dtype=np.int64),
        np.array([result.shape[1] for result in results], dtype=np.int64),
    ]
    return call(*[table.ctypes.data for table in tables], begin, count), results


@pytest.fixture(params=[True, False], ids=["overlapped", "one_by_one"])
def overlapped(request, monkeypatch):
    """Whether the end of a group runs beside the start of the next."""
    if not request.param:
        monkeypatch.setattr(entry, "MAX_OVERLAPPED", 0)
    return request.param


def test_every_instruction_does_what_python_does():
    check_all(compile_x86(write_all, arity=2))


@pytest.mark.parametrize("signs", range(8))
def test_signs_of_fused_products_are_part_of_the_instruction(signs):
    """No negation is left, and the result is rounded once."""
    flips = [bool(signs & bit) for bit in (1, 2, 4)]

    def write(t, a, b):
        values = [t.neg(v) if flip else v for v, flip in zip((a, b, a), flips, strict=True)]
        return t.fma(*values)

    recorder = InstructionRecorder()
    result = write(recorder, "a", "b")
    assert len(live_instructions(recorder.instructions, {result})) == 1
    a = np.array([1.0 + 2.0**-30, 3.0, -0.7])
    b = np.array([-1.0 + 2.0**-30, 0.1, 0.0])
    s = [-1.0 if flip else 1.0 for flip in flips]
    # exact in extended precision for these numbers, so that one rounding is left
    wide = (s[0] * a.astype(np.longdouble)) * (s[1] * b) + s[2] * a.astype(np.longdouble)
    np.testing.assert_array_equal(compile_x86(write, arity=2)(a, b)[0], wide.astype(np.float64))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_constant_signs_of_terms_take_no_instruction(sign):
    """Sums and differences of signed terms, with all signs of zero and infinity."""

    def write(t, a, b):
        x, y = t.mul(t.const(sign), a), t.mul(b, t.const(sign))
        return t.add(x, b), t.add(a, y), t.sub(a, y), t.fma(x, b, a)

    recorder = InstructionRecorder()
    results = write(recorder, "a", "b")
    assert len(live_instructions(recorder.instructions, set(results))) == len(results)
    special = np.array([0.0, -0.0, 1.5, -0.75, np.inf, -np.inf])
    a, b = (array.ravel() for array in np.meshgrid(special, special))
    with np.errstate(invalid="ignore"):
        # products of these numbers are exact
        expected = sign * a + b, a + sign * b, a - sign * b, (sign * a) * b + a
    for got, value in zip(compile_x86(write, arity=2)(a, b), expected, strict=True):
        np.testing.assert_array_equal(got, value)
        known = ~np.isnan(value)
        np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(value)[known])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_bits_are_those_of_single_calls(name, size, overlapped):
    x, y = cases(size, seed=size)
    text = X86Batch(PROGRAMS[name]).write()
    assert ("%frame0" in text) == overlapped
    expected = run_one(name, x, y, vector_lanes=2, fused=True, order="traced")
    status, found = run(text, PROGRAMS[name], [x, y, *parameters_of(name).values()], size)
    assert status == 0
    assert bits(tuple(found)) == bits(tuple(e.reshape(size, -1) for e in expected))


@pytest.mark.parametrize("name", NAMES)
def test_part_of_a_batch_writes_only_its_own_rows(name, overlapped):
    x, y = cases(17)
    text, program = X86Batch(PROGRAMS[name]).write(), PROGRAMS[name]
    arrays = [x, y, *parameters_of(name).values()]
    _, whole = run(text, program, arrays, 17)
    _, some = run(text, program, arrays, 17, begin=6)
    for all_rows, rows in zip(whole, some, strict=True):
        assert not rows[:6].any()
        assert bits(rows[6:]) == bits(all_rows[6:])


@pytest.mark.parametrize("varying", [("masses",), ("gravity",), ("masses", "gravity")])
def test_parameters_that_differ_from_case_to_case(varying, overlapped):
    """The end of a group must not see the parameters of the next one."""
    size, program = 14, PROGRAMS["pendulums"]
    x, y = cases(size)
    masses = RANDOM.uniform(0.3, 2.0, (size, 4) if "masses" in varying else 4)
    gravity = RANDOM.uniform(1.0, 20.0, size if "gravity" in varying else ())
    text = X86Batch(program).write()
    _, found = run(text, program, [x, y, masses, gravity], size, varying=varying)
    for k in range(size):
        one = {
            "masses": masses[k] if "masses" in varying else masses,
            "gravity": gravity[k] if "gravity" in varying else gravity,
        }
        alone = kernel("pendulums")(x[k], y[k], **one)
        assert bits(tuple(row[k] for row in found)) == bits(tuple(np.atleast_1d(a) for a in alone))


def test_non_finite_value_is_reported(overlapped):
    """In whatever case it is, among inputs and among results."""
    program = PROGRAMS["arithmetic"]
    text = X86Batch(program).write()
    for size in (1, 6, 8):
        for place in range(size):
            x, y = cases(size)
            assert run(text, program, [x, y], size)[0] == 0
            x[place, 4] = np.nan
            assert run(text, program, [x, y], size)[0] == 1
            # 2.5 + x[0]^2 overflows: a result becomes NaN though every input is finite
            x[place, 4], x[place, 0] = 1.0, 1e200
            y[place] = 1e200
            assert run(text, program, [x, y], size)[0] == 1


def crowd(generator, size, inputs, outputs):
    """Give a function of random operations, most of whose values stay in use for long."""

    def function(x):
        values = [*x, 0.75, -2.5]
        for _ in range(size):
            a, b, c = (values[k] for k in generator.integers(0, len(values), 3))
            kind = generator.integers(6)
            if kind == 0:
                made = a * b
            elif kind == 1:
                made = 0.25 * a + b
            elif kind == 2:
                made = a - 0.5 * b * c
            elif kind == 3:
                made = np.sin(a) * b - c
            elif kind == 4:
                made = a / (1.5 + b * b)
            else:
                made = np.where(a < b, a, c) + 0.125 * np.abs(b)
            values.append(0.5 * made / (1.0 + np.abs(made)))
        # inputs, constants and doubles are among the results
        chosen = [values[k] for k in generator.integers(0, len(values), outputs - 4)]
        return np.array([x[0], 0.75, *chosen, values[-1], values[-1]], like=x)

    assert outputs > inputs > 0
    return function


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_give_the_bits_of_llvm(seed, overlapped):
    """Long rows go another way than short ones; registers do not suffice by far."""
    generator = np.random.default_rng(seed)
    inputs, outputs = [(5, 9), (7, 31), (18, 19), (65, 90), (130, 131), (33, 64)][seed]
    program = trace(crowd(generator, 400, inputs, outputs), {"x": (inputs,)})
    x = generator.normal(size=(11, inputs))
    status, found = run(X86Batch(program).write(), program, [x], 11)
    expected = run(module_for_many(program, lanes=2, fused=True), program, [x], 11)
    assert (status, bits(found[0])) == (expected[0], bits(expected[1][0]))
    assert status == 0


def single_call(text, program):
    """Compile the function `one` of a module; its callable gives the status and the results."""
    loaded = load(text, optimize=False)

    def run(*arrays):
        call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2)(loaded.address("one"))
        given = [np.ascontiguousarray(array, dtype=float) for array in arrays]
        results = [np.zeros(len(output.nodes)) for output in program.outputs]
        tables = [
            np.array([array.ctypes.data for array in row], dtype=np.int64)
            for row in (given, results)
        ]
        return call(*[table.ctypes.data for table in tables]), tuple(results)

    return run


@pytest.mark.parametrize("name", NAMES)
def test_single_calls_give_the_bits_of_llvm(name):
    program = PROGRAMS[name]
    ours = single_call(X86Single(program, vector_lanes=4).write(), program)
    theirs = single_call(module_for_one(program, vector_lanes=4, fused=True), program)
    for x, y in zip(*cases(9), strict=True):
        arrays = [x, y, *parameters_of(name).values()]
        status, found = ours(*arrays)
        expected = theirs(*arrays)
        assert (status, bits(found)) == (expected[0], bits(expected[1]))
        assert status == 0


@pytest.mark.parametrize("seed", range(3))
def test_random_single_calls_give_the_bits_of_llvm(seed):
    """With more values than registers, and results that are inputs, constants and doubles."""
    generator = np.random.default_rng(seed)
    inputs, outputs = [(5, 9), (65, 90), (130, 300)][seed]
    program = trace(crowd(generator, 400, inputs, outputs), {"x": (inputs,)})
    ours = single_call(X86Single(program, vector_lanes=4).write(), program)
    theirs = single_call(module_for_one(program, vector_lanes=4, fused=True), program)
    x = generator.normal(size=inputs)
    status, found = ours(x)
    assert bits(found) == bits(theirs(x)[1])
    assert status == 0
    for place in range(inputs):
        broken = x.copy()
        broken[place] = np.inf
        assert ours(broken)[0] == 1


def test_single_calls_read_nothing_behind_their_arguments():
    """Numbers are read one by one: an array may end where memory does."""
    program = trace(lambda x: x[3] * x[2] + np.abs(x[3]) * np.sin(x[3]), {"x": (4,)})
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    start = np.frombuffer(memory, dtype=np.uint8).ctypes.data
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(start + page), ctypes.c_size_t(page), 0) == 0
    x = np.frombuffer(memory, dtype=float, count=4, offset=page - 32)
    x[:] = 0.5, 1.5, -2.5, 0.75
    status, found = single_call(X86Single(program, vector_lanes=4).write(), program)(x)
    assert status == 0
    # one rounding each of a product, a sine and a fused sum
    np.testing.assert_allclose(found[0], 0.75 * -2.5 + 0.75 * np.sin(0.75), rtol=4e-16)


def test_which_programs_the_x86_generator_takes():
    """Long ones without loops and with few results."""
    long = trace(crowd(np.random.default_rng(1), 200, 5, 9), {"x": (5,)})
    assert suits_program(long)
    assert not suits_program(PROGRAMS["arithmetic"])
    assert not suits_program(PROGRAMS["regions"])
    few = crowd(np.random.default_rng(1), 200, 5, 9)
    # matrices that are almost empty, as the Jacobian of many loops is, would compile for minutes
    sparse = trace(lambda x: (few(x), np.zeros(2000)), {"x": (5,)})
    assert not suits_program(sparse)


@pytest.mark.parametrize(
    ("triple", "lanes", "fused", "expected"),
    [
        ("x86_64-unknown-linux-gnu", 4, True, True),
        ("aarch64-unknown-linux-gnu", 4, True, False),
        ("x86_64-unknown-linux-gnu", 8, True, False),
        ("x86_64-unknown-linux-gnu", 2, True, False),
        ("x86_64-unknown-linux-gnu", 4, False, False),
    ],
)
def test_which_hosts_use_the_x86_generator(triple, lanes, fused, expected):
    """Those with AVX2 and FMA; AVX-512 has registers enough for LLVM."""
    assert is_supported(Host(triple, "", "", lanes, fused)) is expected
