"""Programs of many calls run on the tape: whatever stands between calls, the same bits as C."""

import ctypes
import subprocess

import numpy as np
import pytest

from tests.native.emitted import COMPILER
from tests.native.lanes import load
from tiburon.errors import NonFiniteError
from tiburon.native.c_source import program_c_source
from tiburon.native.engine import host
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.native.tape import MIN_CALLS, build_tape, is_tape
from tiburon.native.tape_module import TapeModule
from tiburon.trace import Input, function, interpret, trace

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler `cc` on this machine")
CALLS = MIN_CALLS + 6
ROUNDING = 1e-13  # a few dozen steps of numbers of order 1


@function
def turn(a, b):
    """One step: sine, cosine, products that fuse, two results."""
    return np.sin(a) * b + 0.3 * a, np.cos(a) - b * b


@function
def other(a):
    """Another step, so that there are two classes."""
    return a * a - 0.2


def plain(x, m):
    """Nothing between the calls; the same operand is a parameter first, then a result."""
    a, b = x[0], m[1]
    for _ in range(CALLS):
        a, b = turn(a, b)
        b = other(b)
    return [a, b]


def products(x, m):
    """Between calls: sums of products, and quotients with a common divisor."""
    a, b = x[0], x[1]
    for _ in range(CALLS):
        a, b = turn(a, b)
        scale = 1.0 + b * b
        a, b = a * m[0] + b * x[2], (a - b * m[1]) / scale + x[1] / scale
    return [a, b]


def truths(x, m):
    """Truth values that calls stand between, alone and combined."""
    high, low = x[0] > 0.1, x[1] < m[1]
    both = high & ~low
    a, b = x[0], x[1]
    for k in range(CALLS):
        a, b = turn(a, b)
        if k % 5 == 0:
            a = np.where(both, a, -0.5 * a)
    return [np.where(high, a, b), np.where(low, b, 2.0 * a), np.where(both, 1.0, 0.0)]


def passed_on(x, m):
    """Results that are arguments, parameters and constants; an unused result."""
    a = x[0]
    for _ in range(CALLS):
        a, _ = turn(a, x[1])
    return [a, x[2], m[1], 0.25, -0.0, x[2], m[1]]


def captured(x, m):
    """A step that reads numbers around it."""

    @function
    def step(a):
        return np.sin(a) * x[2] + m[0]

    a = x[0]
    for _ in range(CALLS):
        a = step(a)
    return [a, other(a)]


FUNCTIONS = [plain, products, truths, passed_on, captured]
EVERY = pytest.mark.parametrize("call", FUNCTIONS, ids=lambda call: call.__name__)
M = np.array([0.7, -0.4, 1.1])


def traced(call):
    program = trace(call, [Input("x", (3,)), Input("m", (3,), parameter=True)])
    assert is_tape(program)
    return program


def kernel_of(call):
    return make_kernel(ProgramSource(traced(call)), {"m": M})


def cases(count=19):
    return np.random.default_rng(6).uniform(-1.0, 1.0, (count, 3))


@EVERY
def test_the_tape_computes_what_the_function_computes(call):
    """Against floats and the interpreter; equal bits would be worth nothing if they were wrong."""
    x = cases()
    found = kernel_of(call)(x)
    for row, state in zip(found, x, strict=True):
        np.testing.assert_allclose(row, call(state, M), rtol=ROUNDING, atol=ROUNDING)
    expected = interpret(traced(call), [x, M])
    np.testing.assert_allclose(found, expected, rtol=ROUNDING, atol=ROUNDING)


@EVERY
def test_batches_and_single_calls_give_the_same_bits(call):
    """Also in batches that leave lanes empty."""
    kernel, x = kernel_of(call), cases()
    singles = np.stack([kernel(state) for state in x])
    for size in (1, 2, 7, 8, 9, 19):
        assert kernel(x[:size]).tobytes() == singles[:size].tobytes()


@EVERY
@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_any_number_of_lanes_gives_the_same_bits(call, lanes):
    """Below the Python interface, for hosts of every width."""
    program, x = traced(call), cases()
    text = TapeModule(program, lanes=lanes, vector_lanes=lanes, fused=host().fused).text()
    loaded = load(text, optimize=False)
    kinds = [*[ctypes.c_void_p] * 4, *[ctypes.c_longlong] * 2]
    many = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(loaded.address("many"))
    expected = kernel_of(call)(x)
    found = np.empty_like(expected)
    tables = [
        np.array([x.ctypes.data, M.ctypes.data]),
        np.array([3, 0]),
        np.array([found.ctypes.data]),
        np.array([found.shape[1]]),
    ]
    assert many(*[table.ctypes.data for table in tables], 0, len(x)) == 0
    assert found.tobytes() == expected.tobytes()


@needs_compiler
@EVERY
def test_emitted_c_gives_the_bits_of_the_tape(call, tmp_path):
    """Products between calls are fused by the same rule."""
    program, kernel = traced(call), kernel_of(call)
    source, library = tmp_path / "k.c", tmp_path / "k.so"
    source.write_text(program_c_source(program, name="k", fused=host().fused))
    command = [COMPILER, "-std=c99", "-O2", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", library, source, "-lm"], check=True)
    run = ctypes.CDLL(str(library)).k
    for state in cases():
        expected = kernel(state)
        found = np.empty_like(expected)
        inputs = (ctypes.c_void_p * 2)(state.ctypes.data, M.ctypes.data)
        outputs = (ctypes.c_void_p * 1)(found.ctypes.data)
        assert run(inputs, outputs) == 0
        assert found.tobytes() == expected.tobytes()


def test_non_finite_parameters_of_a_case_are_reported():
    """The third number of the table takes no part here, and yet it must be a number."""
    kernel = kernel_of(products)
    table = np.tile(M, (9, 1))
    kernel(cases(9), m=table)
    table[4, 2] = np.nan
    with pytest.raises(NonFiniteError, match="m: every value must be finite"):
        kernel(cases(9), m=table)


def test_similar_bodies_share_tape_classes():
    """One class for each function, however many calls there are."""
    made = build_tape(traced(plain), "traced")
    assert len(made.classes) == 2
    assert len(made.rows) == 2 * CALLS
