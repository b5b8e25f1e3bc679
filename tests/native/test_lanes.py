"""Calls in lanes as machine code: vectors for one case, one after another in batches, same bits."""

import re

import numpy as np
import pytest

import tiburon as tb
from tests.native.lanes import LANES, assert_same_bits, needs_avx2, run_lanes, run_one, run_text
from tests.native.x86.test_callee import long_body
from tests.robots import kicked
from tiburon.native.llvm_module import module_for_many, module_for_one
from tiburon.native.x86.entry import X86Single
from tiburon.native.x86.function import suits_program
from tiburon.trace import fixed_loop, function, interpret, lanes, trace, while_loop

RANDOM = np.random.default_rng(18)
SIZE = 6


def many_calls(number, *, long=False):
    """A program with so many calls in lanes, whose results are fed on.

    Arithmetic becomes part of the code around it; what calls other functions is called.
    """

    def program(x):
        wind = x[0] * x[1]
        inner = function(lambda a, k: long_body([a[0] + k, a[1] * k, *a[2:]], wind, x[3]))

        def call(a, k):
            found = inner(a, k)
            return [2.0 * value for value in found] if long else found

        sets = [([x[(k + j) % SIZE] for j in range(SIZE)], 0.1 * (k + 1.0)) for k in range(number)]
        found = lanes(call, sets)
        after = lanes(lambda r: [r[0] * r[1] + wind, r[1] - r[5] * r[5]], [(r,) for r in found])
        return np.array([value for r in (*found, *after) for value in r], like=x)

    return trace(program, {"x": (SIZE,)})


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize(
    "number", [*(pytest.param(number, marks=pytest.mark.slow) for number in (2, 3, 7)), 4, 11, 43]
)
def test_bits_are_those_of_batches_and_of_calls_one_after_another(number, long):
    """Numbers of calls that fill vectors, or do not, and that a loop makes.

    A batch inlines short calls: what holds for the vectors of eleven holds for those of more.
    """
    program, x = many_calls(number, long=long), RANDOM.normal(size=(9, SIZE))
    found = assert_same_bits(program, x, widths=LANES if long or number < 43 else (2,))
    expected = interpret(program, [x])
    # products and sums of the interpreter are rounded apart
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("width", [2, 4, 8])
def test_one_case_uses_vectors_of_the_machine(width):
    """Seven calls fill as many vectors as needed; a batch has vectors of cases only."""
    called = module_for_one(many_calls(7, long=True), vector_lanes=width, fused=True)
    calls = re.findall(r"  call void @lanes(\d+)_callee\d+\(ptr %arguments, ptr %stack", called)
    # each call in lanes calls the function inside
    assert calls == [str(width)] * (1 + -(-7 // width))
    short = module_for_one(many_calls(7), vector_lanes=width, fused=True)
    assert "@lanes" not in short
    assert f"call <{width} x double> @llvm.fma.v{width}f64" in short
    # the second calls take the vectors that the first ones computed
    body = short[short.index("define i32 @one") :]
    assert body.count("insertelement") < 7 * (SIZE + 4) + 2 * width
    for long in (False, True):
        many = module_for_many(many_calls(7, long=long), lanes=width, fused=True)
        assert "@lanes" not in many


@pytest.mark.parametrize("long", [False, True])
def test_a_loop_makes_many_calls(long):
    """Twice as many of them take no code but single stores, and numbers in tables of loops."""
    short, twice = (
        module_for_one(many_calls(number, long=long), vector_lanes=4, fused=True)
        for number in (43, 86)
    )
    calls = re.findall(r"  call void @lanes4_callee", short)
    assert len(calls) == len(re.findall(r"  call void @lanes4_callee", twice))
    assert twice.count("llvm.fma.v4f64") == short.count("llvm.fma.v4f64")


def calls_in_functions(number):
    """So many calls in lanes in a function of many results and in loops, each used twice."""

    def program(x):
        def rates(a):
            sets = [(a[k % SIZE], 0.1 * (k + 1.0) + a[1]) for k in range(number)]
            found = lanes(lambda b, c: [b * c + x[0], np.sin(b) / (2.0 + c * c), b - c], sets)
            # results of the calls, and what is computed from them
            return [*(value for r in found for value in r), found[0][0] * found[1][1]]

        def moved(a):
            return np.array([0.5 * value for value in rates(a)[:SIZE]], like=x)

        rates_of = function(rates)
        first = rates_of(x)
        second = rates_of(np.array(first[:SIZE], like=x))
        third = fixed_loop(3, lambda _, a: moved(a), x)
        fourth = while_loop(lambda a: a @ a > 0.5, moved, x, 20)
        return np.array([*first, *second, *third, *fourth.state, fourth.count], like=x)

    return trace(program, {"x": (SIZE,)})


@pytest.mark.parametrize("number", [2, 7, 30])
def test_batches_open_calls_in_lanes_in_functions_and_loops(number):
    """Short arithmetic is no function of its own wherever it is; few results, or many."""
    program, x = calls_in_functions(number), RANDOM.normal(size=(9, SIZE))
    found = assert_same_bits(program, x)
    np.testing.assert_allclose(found, interpret(program, [x]), rtol=1e-9, atol=1e-9)
    for width in (1, 4):
        many = module_for_many(program, lanes=width, fused=True)
        # the function that is called twice and the two loops
        assert len(re.findall(r"define internal void @callee", many)) == 3


@needs_avx2
@pytest.mark.parametrize("number", [2, 4, 7])
@pytest.mark.parametrize("long", [False, True])
def test_x86_code_has_the_same_bits(number, long):
    """Packed instructions beside scalar ones, or functions on vectors of four."""
    program, x = many_calls(number, long=long), RANDOM.normal(size=(5, SIZE))
    expected = run_one(program, x)
    text = module_for_one(program, vector_lanes=4, fused=True, x86=True)
    if long:
        # shared arguments are read from a table of single floats
        assert re.search(r"vbroadcastsd -?\d+\(", text)
        assert run_one(program, x, x86=True).tobytes() == expected.tobytes()
    else:
        assert suits_program(program, packed=False)
        text = X86Single(program, vector_lanes=4).write()
        assert "vmulpd" in text
        assert run_text(program, text, x).tobytes() == expected.tobytes()
    assert run_lanes(program, x, 4, x86=True).tobytes() == expected.tobytes()
    # batches inline short arithmetic, however often it is called
    assert suits_program(program) is (number <= 4 or not long)


@pytest.mark.parametrize("name", ["quadruped", "box_stack"])
def test_like_branches_have_the_same_bits_in_vectors_of_every_width(name):
    """Four legs and ten boxes; scalar code and batches included."""
    model = tb.load(name)
    ends = np.cumsum([model.nq, model.nv])

    def accelerations(x):
        return tb.forward_dynamics(model, *np.split(x, ends), method="articulated")

    program = trace(accelerations, {"x": (model.nq + 2 * model.nv,)})
    q, v, tau = kicked(model, seed=3, shape=(3,))
    x = np.concatenate([q, v, tau], axis=1)
    expected = assert_same_bits(program, x, widths=LANES)
    np.testing.assert_allclose(tb.inverse_dynamics(model, q, v, expected), tau, atol=1e-9)
    for width in (1, 2, 8):
        text = module_for_one(program, vector_lanes=width, fused=True)
        assert run_text(program, text, x).tobytes() == expected.tobytes()


@pytest.mark.parametrize("width", [4, 8])
def test_functions_on_vectors_keep_them_in_single_cache_lines(width):
    """LLVM spills vectors across two cache lines in functions that do not align the stack."""
    program = calls_in_functions(7)
    texts = {
        "many": module_for_many(program, lanes=width, fused=True),
        "one": module_for_one(many_calls(7, long=True), vector_lanes=width, fused=True),
    }
    for name, text in texts.items():
        heads = [line for line in text.splitlines() if line.startswith("define ")]
        whole = [line for line in heads if f'-width"="{64 * width}"' in line or f"@{name}(" in line]
        assert len(whole) > 2
        assert all(f"alignstack({8 * width})" in line for line in whole), name
